"""Where the result of a quantisation goes: never over its own source, and whole or not at all."""

import hashlib
import os
from pathlib import Path

from bittern.base.errors import BitternError, code
from bittern.base.writing import replacing
from bittern.front.checkpoint import shown

SAME_FILE = code("N423", "the result would replace its own source")
NOT_WRITTEN = code("N424", "the result cannot be written")


def check_target(source: Path, target: Path) -> None:
    """Refuse a target that is the source, or whose folder does not exist, before any work. Errors: N423, N424."""
    if target.exists() and source.exists() and os.path.samefile(source, target):
        raise BitternError(SAME_FILE, f"{shown(target)} is the file to be quantised.", "Give another name to -o.")
    if not target.parent.is_dir() or target.is_dir():
        what = "is a folder" if target.is_dir() else "lies in a folder that does not exist"
        raise BitternError(NOT_WRITTEN, f"{shown(target)} {what}.", "Give the path of a file in a folder that exists.")


def write_whole(target: Path, content: bytes) -> None:
    """Write a file; it appears whole or not at all. Errors: N424."""
    try:
        with replacing(target, syncs=True) as file:
            file.write(content)
    except OSError as fault:
        raise BitternError(
            NOT_WRITTEN, f"{shown(target)} cannot be written: {fault.strerror}.", "Choose another place."
        ) from fault


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
