"""`bittern new`: a folder with a first program, and how to run it."""

import re
from pathlib import Path
from typing import Annotated

import typer

from bittern.base.errors import BitternError, code
from bittern.cli.frame import BAD_ARGUMENTS, print_json

NOT_MADE = code("U119", "the folder of a new program cannot be made")

_PROGRAM = """\
// A first program. `bittern check` names its errors, `bittern fmt` formats it.

/// The mean of n numbers. x: [n] f32. The sum is in 16 partials, so its bits are the same everywhere.
fn mean[n](x: f32[n]) -> f32 {
  sum(x) / f32(n)
}

/// Each number less the mean of all. x: [n] f32 -> [n] f32.
fn centred[n](x: f32[n]) -> f32[n] {
  x - mean(x)
}
"""
_TRY = """\
:load {name}.btn
mean([1.0f32, 2.0, 6.0])
centred([1.0f32, 2.0, 6.0])
:cost centred
"""


def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The folder to make; its name is that of the program.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Make a folder with a first program, and say how to run it.

    Nothing that exists is overwritten.
    """
    folder = Path(name)
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", folder.name):
        remedy = "Name it with the letters a to z, digits and `_`, a letter first."
        raise BitternError(BAD_ARGUMENTS, f"`{folder.name}` cannot be the name of a program.", remedy)
    texts = {f"{folder.name}.btn": _PROGRAM, "try.txt": _TRY.format(name=folder.name)}
    try:
        folder.mkdir()
        for file, text in texts.items():
            (folder / file).write_text(text, "utf-8")
    except FileExistsError as error:
        what = f"There is something at {folder} already."
        raise BitternError(NOT_MADE, what, "Take another name; nothing is overwritten.") from error
    except OSError as error:
        what = f"The folder {folder} cannot be made: {error.strerror}."
        raise BitternError(NOT_MADE, what, "Name a place in a folder that exists and can be written.") from error
    if as_json:
        print_json({"folder": str(folder), "files": [str(folder / file) for file in texts]})
        return 0
    print(f"made {folder}\n\nNext:\n  cd {folder}\n  bittern check {folder.name}.btn\n  bittern repl < try.txt")
    return 0
