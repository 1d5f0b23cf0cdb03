"""The command line: `bittern COMMAND ...`, one file a command.

This module knows the names and one line about each command, so that help and mistakes cost no import. A command's own
module is loaded when it is called; its function `command` declares arguments and options to typer and returns the exit
status.
"""

import gc
import os
import sys
from contextlib import suppress
from typing import NoReturn

from bittern.base.errors import code

UNKNOWN_COMMAND = code("U110", "there is no such command")

COMMANDS: dict[str, str] = {
    "bench": "Measure how fast a model runs on a chip.",
    "bringup": "Turn a checkpoint into its graph and run it on every chip asked for.",
    "catalogue": "List the functions of the library and where they are tested.",
    "check": "Check programs: every error at once, with its place.",
    "compare": "Show what a fact is worth: which decisions of a plan change without it.",
    "diff": "Show where two runs of a network part: chips, levels, ONNX Runtime, TFLite, a record.",
    "embed": "Make the vectors of texts with an encoder, and show how alike the texts are.",
    "explain": "Say what an error code means.",
    "export": "Write a network in another form, such as a program of its own.",
    "families": "List the model families and what each was run from.",
    "fmt": "Format programs in place.",
    "generate": "Continue a prompt and stream the text.",
    "inspect": "Show what a file holds: its tensors, its graph, or how two differ.",
    "models": "List the models that can be pulled or are in the store.",
    "new": "Make a folder with a first program, and say how to run it.",
    "plan": "Show how a model will run on a chip: regions, kernels, memory, counts.",
    "pull": "Fetch a model into the store and print its path.",
    "quantize": "Give an ONNX or GGUF model fewer bits, and say what that costs.",
    "repl": "Talk in the language: what is declared stays, expressions are evaluated.",
    "run": "Run a network on data: its answers, and how many are right.",
    "summary": "List the layers of a network: shapes, bits, parameters, bytes, multiply-accumulates.",
}

_HELP = ("--help", "-h", "help")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status. arguments: without the program's name; None: the process's."""
    from bittern.cli.frame import INTERRUPTED, guarded

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # more threads spin on busy cores: 10 x slower there
    if arguments is None:
        gc.set_threshold(50_000, 20, 20)  # graphs and plans hold no cycles: looking for them is a tenth of a start
    given = sys.argv[1:] if arguments is None else arguments
    status = guarded(lambda: _dispatch(given), "--json" in given)
    if arguments is None and status == INTERRUPTED:
        _leave(status)
    return status


def _leave(status: int) -> NoReturn:
    """End the process at once, all that it said being out.

    Where an interrupt met certain code, such as that of an import, Python remembers it although it was dealt with, and
    would end the process by the signal instead of with the status.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _dispatch(given: list[str]) -> int:
    if not given or given[0] in _HELP:
        return _help(given[1:])
    if given[0] == "--version":
        from bittern import __version__

        print(f"bittern {__version__}")
        return 0
    _known(given[0])
    from bittern.cli.frame import run

    return run(given[0], given[1:])


def _help(rest: list[str]) -> int:
    """Print the help of all commands, or of the one named."""
    if rest and not rest[0].startswith("-"):
        return _dispatch([rest[0], "--help"])
    print("Usage: bittern COMMAND [ARGUMENTS]\n\nOne graph per model, every chip, the same bits.\n\nCommands:")
    width = max(map(len, COMMANDS))
    for name, summary in sorted(COMMANDS.items()):
        print(f"  {name:{width}}  {summary}")
    print(
        "\nOptions:\n  --version  Print the version.\n  --help     Print this page; `bittern COMMAND --help` prints a"
    )
    print("             command's own.")
    return 0


def _known(name: str) -> None:
    if name in COMMANDS:
        return
    from bittern.base.errors import BitternError, nearest

    kind = "option" if name.startswith("-") else "command"
    raise BitternError(
        UNKNOWN_COMMAND,
        f"`bittern` has no {kind} `{name}`.",
        nearest(name, list(COMMANDS)) or "`bittern --help` lists the commands.",
    )
