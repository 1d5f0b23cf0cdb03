"""`bittern repl`: declarations, expressions and questions about them, one after the other."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bittern.base.errors import BitternError, nearest

if TYPE_CHECKING:
    from bittern.graph.node import Function
    from bittern.lang.session import Session

_HELP = """\
An expression is evaluated and shown with its type. `let`, `fn`, `struct`, `const` and `use` stay for what follows.
  :type E    the type of an expression
  :cost E    multiply-accumulates, operations, bytes and nodes of an expression or of a function by name
  :hash F    the hash of a function by name, or of an expression
  :graph E   the graph of an expression or function, as a program
  :load FILE the declarations of a file
  :help      this page
  :quit      the end; so is the end of the input"""


def command() -> int:
    """Talk in the language: what is declared stays, expressions are evaluated.

    `:help` lists the questions that can be asked, such as `:type`, `:cost`, `:hash` and `:graph`. Input may be piped;
    then the exit status is 1 if anything in it had an error.
    """
    from bittern.lang.session import Session

    is_terminal = sys.stdin.isatty()
    if is_terminal:
        _edit_lines()
        print("Bittern. `:help` lists what can be asked, `:quit` ends.")
    session, failures = Session(Path.cwd()), 0
    for text in _inputs(is_terminal):
        if text.split(None, 1)[0] in (":quit", ":q"):
            break
        failures += not _answered(session, text)
    return 1 if failures and not is_terminal else 0


def _edit_lines() -> None:
    """Let `input` edit lines and remember them, where the system can."""
    from contextlib import suppress

    with suppress(ImportError):
        import readline  # noqa: F401


def _inputs(is_terminal: bool) -> Iterator[str]:
    """Yield what is typed: a line, or several while brackets are open; an empty line ends them."""
    from bittern.lang.session import is_open

    held: list[str] = []
    while True:
        try:
            line = input((". " if held else "> ") if is_terminal else "")
        except EOFError:
            break
        except KeyboardInterrupt:
            if not is_terminal:
                raise
            print()
            held = []
            continue
        if not held and not line.strip():
            continue
        is_question = line.lstrip().startswith(":")
        if is_question and held:
            yield "\n".join(held)
            held = []
        held.append(line)
        if line.strip() and not is_question and is_open("\n".join(held)):
            continue
        yield "\n".join(held)
        held = []
    if held:
        yield "\n".join(held)


def _answered(session: "Session", text: str) -> bool:
    """Answer one input; say whether there was no error."""
    from bittern.cli.frame import INTERNAL, MEMORY
    from bittern.lang.render import as_text
    from bittern.lang.session import Fault

    try:
        answer = _answer(session, text.strip())
        print(answer, end="\n" if answer else "")
        return True
    except Fault as fault:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print("\n".join(as_text(each, colour) for each in fault.found))
    except BitternError as error:
        print(f"error[{error.code}]: {error.what} {error.remedy}".rstrip())
    except MemoryError:
        print(f"error[{MEMORY}]: The memory does not suffice. Ask for less.")
    except Exception as error:
        print(f"error[{INTERNAL}]: Bittern itself failed: {type(error).__name__}: {error}. Please report it.")
    return False


def _answer(session: "Session", text: str) -> str:
    """Return the answer to one input. Raises Fault, BitternError."""
    from bittern.lang.session import is_declaration, is_empty, is_statement

    if text.startswith(":"):
        word, _, rest = text.partition(" ")
        return _question(session, word, rest.strip())
    if is_empty(text):
        return ""
    if is_declaration(text):
        return "declared " + ", ".join(session.declare(text))
    if is_statement(text):
        session.let(text)
        return "kept"
    return _value(session, text)


def _question(session: "Session", word: str, rest: str) -> str:
    from bittern.cli.frame import BAD_ARGUMENTS

    asked: dict[str, Callable[[Session, str], str]] = {
        ":type": _type,
        ":cost": _cost,
        ":hash": _hash,
        ":graph": _graph,
        ":load": _load,
    }
    if word == ":help":
        return _HELP
    if word not in asked:
        remedy = nearest(word, [*asked, ":help", ":quit"]) or "`:help` lists what there is."
        raise BitternError(BAD_ARGUMENTS, f"There is no `{word}`.", remedy)
    if not rest:
        raise BitternError(BAD_ARGUMENTS, f"`{word}` asks about nothing.", "Put an expression, name or file behind it.")
    return asked[word](session, rest)


def _value(session: "Session", text: str) -> str:
    from bittern.graph.evaluate import evaluate
    from bittern.lang.instances import leaf_paths

    entry = session.entry(text)
    made = evaluate(entry.function, ())
    leaves = made if isinstance(made, tuple) else (made,)
    if len(leaves) == 1:
        return f"{_shown(leaves[0])}  {entry.type_text}"
    paths = [path for path, _ in leaf_paths(entry.type)]
    lines = [f"  {path}: {_shown(leaf)}" for path, leaf in zip(paths, leaves, strict=True)]
    return "\n".join([entry.type_text, *lines])


def _shown(array: Any) -> str:
    import numpy as np

    if np.ndim(array) == 0:
        return str(np.asarray(array).item())
    return np.array2string(np.asarray(array), separator=", ", threshold=200, max_line_width=100)


def _type(session: "Session", text: str) -> str:
    return session.entry(text).type_text


def _functions(session: "Session", text: str) -> "list[Function]":
    """Return the functions of a name, or an expression as one."""
    found = session.functions(text) if text.isidentifier() else []
    return found or [session.entry(text).function]


def _cost(session: "Session", text: str) -> str:
    from bittern.graph.cost import Costs
    from bittern.graph.difference import nodes_of

    lines = []
    for function in _functions(session, text):
        cost, names = Costs().function(function), function.labels.dims
        count = sum(1 for _ in nodes_of(function))
        lines.append(
            f"{cost.macs.text(names)} multiply-accumulates, {cost.operations.text(names)} operations, "
            f"{cost.read.text(names)} bytes read, {cost.written.text(names)} written, {count} nodes"
            + (f" ({cost.note})" if cost.note else "")
        )
    return "\n".join(lines)


def _hash(session: "Session", text: str) -> str:
    return "\n".join(f"{function.id.hex()}  {function.name}" for function in _functions(session, text))


def _graph(session: "Session", text: str) -> str:
    from bittern.lang.print_graph import print_function

    return "\n".join(print_function(function).rstrip("\n") for function in _functions(session, text))


def _load(session: "Session", text: str) -> str:
    from bittern.lang.check import NO_SOURCE
    from bittern.lang.lexer import decode
    from bittern.lang.session import Fault

    try:
        source, faults = decode(text, Path(text).read_bytes())
    except OSError as error:
        what = f"The file {text} cannot be read: {error.strerror}."
        raise BitternError(NO_SOURCE, what, "Name a file that exists.") from error
    if faults:
        raise Fault(faults)
    return "declared " + ", ".join(session.declare(source.text, text))
