"""External data of an ONNX file: bytes beside the model, read through a handle of its folder and nothing else.

The folder is opened once. Every part of a location is opened relative to the handle of the one before and never through
a link, so no other process can lead the reader elsewhere between a check and its use. Refused are absolute locations,
`..`, links of both kinds, and whatever is no regular file. Lengths are checked against the opened file before anything
is read.
"""

import hashlib
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from bittern.base.errors import BitternError, code
from bittern.front.checkpoint import shown

OUTSIDE = code("N207", "external data of an ONNX file is not a plain file in the model's folder")
WRONG_BYTES = code("N208", "external data of an ONNX file has not the bytes that are asked for")

_KEYS = ("location", "offset", "length", "checksum")
_INSIDE = "Keep external data in plain files in the model's folder or below it, with relative names."
_STEP = 1 << 24


class Folder:
    """The folder of a model, open for reading. Use it in a `with` block."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = -1
        self._checked: set[tuple[int, int, str]] = set()  # (device, inode, digest) of files whose checksum is right

    def __enter__(self) -> "Folder":
        if os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW"):
            with suppress(OSError):
                self._handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def read(self, tensor: str, entries: Mapping[str, str], need: int) -> bytes:
        """Return the bytes of a tensor. entries: what the file says of them. need: how many there must be.

        Errors: N207, N208.
        """
        unknown = sorted(set(entries) - set(_KEYS))
        if unknown or "location" not in entries:
            _wrong(tensor, f"says {', '.join(map(shown, unknown)) or 'no location'} of its external data")
        offset = _number(tensor, "offset", entries.get("offset", "0"))
        length = _number(tensor, "length", entries.get("length", str(need)))
        if length != need:
            _wrong(tensor, f"has {length} bytes of external data, but needs {need}")
        handle = self._open(tensor, entries["location"])
        try:
            status = os.fstat(handle)
            where = shown(entries["location"])
            if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
                kind = "is no regular file" if not stat.S_ISREG(status.st_mode) else "has several names (hard links)"
                raise BitternError(OUTSIDE, f"The external data {where} of {shown(tensor)} {kind}.", _INSIDE)
            if offset + length > status.st_size:
                _wrong(tensor, f"asks for bytes {offset} to {offset + length} of {where}, which has {status.st_size}")
            if "checksum" in entries:
                self._check(tensor, handle, status, entries["checksum"])
            return _bytes(tensor, handle, offset, length)
        finally:
            os.close(handle)

    def _open(self, tensor: str, location: str) -> int:
        """Return a handle of a file below the folder, opened part by part without following links."""
        parts = location.split("/")
        bad = any(part in ("", ".", "..") or "\0" in part or "\\" in part or ":" in part for part in parts)
        if bad or len(location) > 1024 or self._handle < 0:
            raise BitternError(
                OUTSIDE, f"The external data of {shown(tensor)} is said to be at {shown(location)}.", _INSIDE
            )
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        handle = os.dup(self._handle)
        try:
            for place, part in enumerate(parts):
                more = os.O_DIRECTORY if place + 1 < len(parts) else 0
                inner = os.open(part, flags | more, dir_fd=handle)
                os.close(handle)
                handle = inner
        except OSError as fault:
            os.close(handle)
            what = f"The external data {shown(location)} of {shown(tensor)} cannot be opened: {fault.strerror}."
            raise BitternError(OUTSIDE, what, _INSIDE) from fault
        return handle

    def _check(self, tensor: str, handle: int, status: os.stat_result, wanted: str) -> None:
        """Compare the SHA-1 of the whole file, once for each file."""
        key = (status.st_dev, status.st_ino, wanted.lower())
        if key in self._checked:
            return
        hashed, at = hashlib.sha1(usedforsecurity=False), 0
        while part := os.pread(handle, _STEP, at):
            hashed.update(part)
            at += len(part)
        if hashed.hexdigest() != wanted.lower():
            _wrong(tensor, "has a checksum that is not that of its file")
        self._checked.add(key)


def _bytes(tensor: str, handle: int, offset: int, length: int) -> bytes:
    parts: list[bytes] = []
    at = offset
    while at < offset + length:
        part = os.pread(handle, min(_STEP, offset + length - at), at)
        if not part:
            _wrong(tensor, "has external data that was cut short while it was read")
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def _number(tensor: str, key: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        _wrong(tensor, f"has the {key} {shown(text)}")
    return int(text)


def _wrong(tensor: str, what: str) -> NoReturn:
    raise BitternError(WRONG_BYTES, f"The tensor {shown(tensor)} {what}.", "Export the model again with its data.")
