"""The page of `bittern inspect --html`: one HTML file that holds its data, style and scripts and loads nothing.

The template is put together from the files beside this one. What comes from an inspected file reaches the document as
data only: in a JSON block in which no `<` occurs, and from there as text nodes; a content security policy allows no
address at all.
"""

import json
import os
import re
import tempfile
from contextlib import suppress
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from bittern.base.errors import BitternError, code
from bittern.base.writing import put_in_place
from bittern.runtime.inspect import Inspection
from bittern.runtime.inspect_difference import difference_record

NOT_WRITTEN = code("R124", "the file that `bittern inspect` makes cannot be written")

_SCRIPTS = ("program.js", "outline.js", "drawing.js", "details.js", "main.js")


def page_text(found: Inspection, other: Inspection | None = None) -> str:
    """Return the page of one inspection, or of two side by side."""
    sides = [found] if other is None else [found, other]
    difference = None if other is None else difference_record(found, other)
    parts = {
        "title": escape(" and ".join(Path(side.path).name for side in sides)),
        "style": _part("page.css"),
        "data": embedded({"sides": [side.as_json() for side in sides], "difference": difference}),
        "script": "\n".join(_part(name) for name in _SCRIPTS),
    }
    text = re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found.group(1)], _part("page.html"))
    return text.encode("utf-8", "replace").decode()


def embedded(value: Any) -> str:
    """Return a value as JSON that can stand in a script element: nothing in it ends the element or begins a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def write_page(path: Path, found: Inspection, other: Inspection | None = None) -> None:
    """Write the page, at once or not at all. Errors: R124."""
    write_file(path, page_text(found, other).encode("utf-8"))


def write_file(path: Path, data: bytes) -> None:
    """Write a file at once or not at all. Errors: R124."""
    try:
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=".part-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(part, 0o666 & ~mask)
            put_in_place(part, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(part)
            raise
    except OSError as fault:
        what = f"`{os.fsdecode(path)}` cannot be written: {fault.strerror or fault}."
        raise BitternError(NOT_WRITTEN, what, "Name a file in a folder that exists and can be written.") from fault


def _part(name: str) -> str:
    return (files(__name__) / name).read_text("utf-8")
