"""Writing a file that appears whole or not at all, wherever it is to lie."""

import os
from collections.abc import Callable
from contextlib import suppress
from errno import EISDIR
from pathlib import Path
from typing import BinaryIO

from bittern.base.errors import BitternError, code

NOT_WRITTEN = code("N465", "a file of a network, or of what it gave, cannot be written")


def write_whole(path: Path, write: Callable[[BinaryIO], object], mode: int | None = None) -> None:
    """Let `write` fill a file beside its place, then move it there. mode: of the file. Raises N465."""
    try:
        if not path.name:
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with part.open("wb") as file:
                write(file)
            if mode is not None:
                part.chmod(mode)
            part.replace(path)
        finally:
            with suppress(OSError):  # a name that is too long cannot be removed either
                part.unlink(missing_ok=True)
    except OSError as fault:
        why = fault.strerror or str(fault)
        raise BitternError(NOT_WRITTEN, f"`{path}` cannot be written: {why}.", "Choose another place.") from fault
