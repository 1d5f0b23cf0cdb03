"""Files that appear whole or not at all, wherever they are to lie: written beside their place, then moved there.

A device or a pipe is never replaced by a file: with enough rights, moving a file to /dev/null would take it away from
the whole system.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import EEXIST, EISDIR
from pathlib import Path
from typing import BinaryIO

from bittern.base.errors import BitternError, code

NOT_WRITTEN = code("N465", "a file of a network, or of what it gave, cannot be written")


def put_in_place(part: Path | str, path: Path | str) -> None:
    """Move a finished file to its place. Raises OSError, also where the place is a device, a pipe or a socket."""
    if os.path.exists(path) and not os.path.isfile(path):
        is_folder = os.path.isdir(path)
        raise OSError(EISDIR if is_folder else EEXIST, "Is a directory" if is_folder else "It is no regular file")
    os.replace(part, path)


@contextmanager
def replacing(path: Path, *, mode: int | None = None, syncs: bool = False) -> Iterator[BinaryIO]:
    """Give a file to fill, which then takes the place of another; after a failure nothing is left of it.

    mode: of the file. syncs: it is on the disk before it takes the place. Raises OSError.
    """
    if not path.name:
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as file:
            yield file
            if syncs:
                file.flush()
                os.fsync(file.fileno())
        if mode is not None:
            part.chmod(mode)
        put_in_place(part, path)
    finally:
        with suppress(OSError):  # a name that is too long cannot be removed either
            part.unlink(missing_ok=True)


def write_whole(path: Path, write: Callable[[BinaryIO], object], mode: int | None = None) -> None:
    """Let `write` fill a file beside its place, then move it there. mode: of the file. Raises N465."""
    try:
        with replacing(path, mode=mode) as file:
            write(file)
    except OSError as fault:
        why = fault.strerror or str(fault)
        raise BitternError(NOT_WRITTEN, f"`{path}` cannot be written: {why}.", "Choose another place.") from fault
