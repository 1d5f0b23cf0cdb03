"""`bittern fmt`: programs in their one form; comments, words and line breaks inside brackets stay."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bittern.base.errors import BitternError, code
from bittern.cli.frame import BAD_ARGUMENTS, print_json

if TYPE_CHECKING:
    from bittern.lang.source import Diagnostic

NOT_WRITTEN = code("U118", "a formatted file cannot be written")

STDIN = "-"


def command(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Files or folders of .btn programs; - reads one from stdin.")
    ],
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if a file would change.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Format programs in place.

    There are no options of style. A file is written only if its text changes, and whole or not at all; one with a
    syntax error stays as it is. `-` reads a program from stdin and prints it.
    """
    from bittern.lang.messages import as_message

    if "" in paths:
        raise BitternError(BAD_ARGUMENTS, "A PATH is empty.", "Name a file or folder, or - for stdin.")
    if STDIN in paths and len(paths) > 1:
        raise BitternError(BAD_ARGUMENTS, "- stands beside other paths.", "Give - alone.")
    rows: list[dict[str, Any]] = []
    errors: list[Diagnostic] = []
    for name, data, path in _read(paths):
        text, faults = _formatted(name, data)
        errors += faults
        changed = not faults and text.encode("utf-8") != data
        rows.append({"path": name, "changed": changed})
        if path is None:
            rows[-1]["text"] = text
        elif changed and not check:
            _write(path, text)
    if as_json:
        print_json({"files": rows, "errors": [as_message(fault) for fault in errors]})
    else:
        _tell(rows, errors, check)
    return 1 if errors or (check and any(row["changed"] for row in rows)) else 0


def _tell(rows: list[dict[str, Any]], errors: "list[Diagnostic]", check: bool) -> None:
    """Print what changed, or the text from stdin, and the errors on stderr."""
    from bittern.lang import render

    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    for fault in errors:
        print(render.as_text(fault, colour), file=sys.stderr)
    for row in rows:
        if "text" in row and not check:
            sys.stdout.write("" if errors else row["text"])
        elif row["changed"]:
            print(f"{'would format' if check else 'formatted'} {row['path']}")


def _formatted(name: str, data: bytes) -> "tuple[str, list[Diagnostic]]":
    """Return the formatted text of a file, or its errors."""
    from bittern.lang.lexer import decode
    from bittern.lang.reformat import reformat

    source, faults = decode(name, data)
    return (source.text, faults) if faults else reformat(source)


def _read(paths: list[str]) -> list[tuple[str, bytes, Path | None]]:
    """Return name, bytes and path of every file, each once. Errors: U101."""
    from bittern.lang.check import NO_SOURCE

    if paths == [STDIN]:
        return [("stdin", sys.stdin.buffer.read(), None)]
    found: dict[Path, tuple[str, bytes, Path | None]] = {}
    for given in paths:
        path = Path(given)
        files = _programs(path) if path.is_dir() else [path]
        if not files:
            raise BitternError(NO_SOURCE, f"The folder {path} holds no `.btn` file.", "Name a file or another folder.")
        for file in files:
            try:
                found.setdefault(file.resolve(), (str(file), file.read_bytes(), file.resolve()))
            except OSError as error:
                what = f"The file {file} cannot be read: {error.strerror}."
                raise BitternError(NO_SOURCE, what, "Name a file or folder that exists.") from error
    return list(found.values())


def _programs(folder: Path) -> list[Path]:
    """Return the programs under a folder; hidden folders are left out."""
    inner = (path for path in folder.rglob("*.btn") if path.is_file())
    return sorted(path for path in inner if not any(n.startswith(".") for n in path.relative_to(folder).parts))


def _write(path: Path, text: str) -> None:
    """Put a text in place of a file, which is whole at every moment and keeps its permissions. Errors: U118."""
    import shutil
    import tempfile

    part = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".bittern-", delete=False) as file:
            part = Path(file.name)
            file.write(text.encode("utf-8"))
        shutil.copymode(path, part)
        os.replace(part, path)
    except OSError as error:
        what = f"The file {path} cannot be written: {error.strerror}."
        raise BitternError(NOT_WRITTEN, what, "Free some space, or change its permissions.") from error
    finally:
        if part is not None:
            part.unlink(missing_ok=True)
