"""The constants of a `.keg` file: inside it, or in another file; nobody sees bytes that do not have their SHA-256."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from bittern.base.errors import BitternError
from bittern.graph import keg_format as form
from bittern.graph.keg_packing import NoCodeError, is_packed, packed_size, unpack
from bittern.graph.node import Blob
from bittern.types.arrays import is_valid
from bittern.types.elements import Element, Kind

SMALL = 1 << 20  # bytes; larger blobs are hashed when they are first read

Opener: TypeAlias = Callable[[], memoryview | None]


@dataclass(slots=True)
class Blobs:
    """The blobs of one file. data: all of it. start: where the blobs begin. sources: files that may hold the others."""

    path: Path
    data: memoryview
    start: int
    sources: Sequence[Opener]
    rows: list[Blob] = field(default_factory=list)

    def load(self, table: object) -> None:
        """Check the table and the layout that it states. Errors: F209, F214 to F217."""
        if type(table) is not list:
            raise form.fault(form.WRONG_SCHEMA, "`blobs` is no list")
        offset = 0
        for place, row in enumerate(table):
            digest, size, at = self._fields(place, row)
            packing = row[3] if len(row) == 4 else None
            if place and digest <= self.rows[-1].digest:
                name = form.DUPLICATE if digest == self.rows[-1].digest else form.WRONG_PLACE
                raise form.fault(name, f"blob {place} does not follow blob {place - 1} in the order of SHA-256")
            if len(row) < 5:
                stored = size if packing is None else packed_size(size, packing)
                self.rows.append(self._inside(place, Blob(digest, size, bytes), stored, at, offset, packing))
                offset += form.aligned(stored)
            else:
                self.rows.append(Blob(digest, size, _Outside(digest, size, at, row[3], row[4], self.sources)))
        if self.start + offset != len(self.data):
            raise form.fault(form.WRONG_PLACE, f"its blobs end at {self.start + offset}, the file at {len(self.data)}")

    def _fields(self, place: int, row: Any) -> tuple[bytes, int, int]:
        kinds = tuple(map(type, row)) if type(row) is list else ()
        if kinds not in ((bytes, int, int), (bytes, int, int, str), (bytes, int, int, str, bytes)):
            raise form.fault(form.WRONG_SCHEMA, f"blob {place} has other fields")
        if len(row) == 4 and not is_packed(row[3]):
            raise form.fault(form.WRONG_SCHEMA, f"blob {place} is packed by an element that is not: {row[3]!r:.40}")
        if len(row[0]) != 32 or min(row[1], row[2]) < 0 or len(row[-1] if len(row) == 5 else row[0]) != 32:
            raise form.fault(form.WRONG_SCHEMA, f"blob {place} has a digest or a number that cannot be")
        return row[0], row[1], row[2]

    def _inside(self, place: int, blob: Blob, stored: int, at: int, expected: int, packing: str | None) -> Blob:
        """Return a blob of the file. stored: how many bytes it takes there, at its place `at`."""
        name = f"blob {place} ({blob.digest.hex()[:16]})"
        if at != expected:
            raise form.fault(form.WRONG_PLACE, f"{name} lies at {at}, not at {expected} behind the one before")
        low = self.start + at
        if low + form.aligned(stored) > len(self.data):
            raise form.fault(form.WRONG_PLACE, f"{name} of {stored} bytes runs past the end of the file")
        if any(self.data[low + stored : low + form.aligned(stored)]):
            raise form.fault(form.PADDING, f"the bytes after {name} are not zero")
        view = self.data[low : low + stored]
        if stored > SMALL:
            return Blob(blob.digest, blob.size, _Inside(view, blob, packing, f"`{self.path}`: {name}"))
        values = _values(view, blob.size, packing, name)
        _verify(values, blob.digest, name)
        return Blob(blob.digest, blob.size, lambda: values)


@dataclass(slots=True)
class _Inside:
    """A large blob of the file, unpacked and hashed at the first read."""

    view: memoryview | bytes
    blob: Blob
    packing: str | None
    name: str
    checked: bool = False

    def __call__(self) -> memoryview | bytes:
        if not self.checked:
            values = _values(self.view, self.blob.size, self.packing, self.name)
            _verify(values, self.blob.digest, self.name)
            self.view, self.checked = values, True
        return self.view


@dataclass(slots=True)
class _Outside:
    """A blob in another file: any source that has its bytes at its place."""

    digest: bytes
    size: int
    offset: int
    file: str
    file_digest: bytes
    sources: Sequence[Opener]
    found: memoryview | None = None

    def __call__(self) -> memoryview:
        for source in self.sources if self.found is None else ():
            data = source()
            if data is not None and self.offset + self.size <= len(data):
                view = data.cast("B")[self.offset : self.offset + self.size]
                if hashlib.sha256(view).digest() == self.digest:
                    self.found = view
                    break
        if self.found is None:
            raise BitternError(
                form.NOT_FOUND,
                f"A constant ({self.size} bytes, {self.digest.hex()[:16]}) lies at {self.offset} of `{self.file}` "
                f"(sha256 {self.file_digest.hex()[:16]}), which is not among the {len(self.sources)} sources given.",
                "Give the path of that file beside the .keg file.",
            )
        return self.found


def with_values(blob: Blob, element: Element) -> Blob:
    """Return the blob such that reading it also checks that its numbers are values of the element. Errors: F220."""
    if element.bits >= 8 or element.kind not in (Kind.BIT, Kind.SIGN, Kind.UNSIGNED, Kind.SIGNED):
        return blob

    def read() -> memoryview | bytes:
        data = blob.read()
        if not is_valid(np.frombuffer(data, "i1" if element.low < 0 else "u1"), element):
            raise form.fault(
                form.WRONG_VALUE, f"the constant {blob.digest.hex()[:16]} holds a number that is no {element.name}"
            )
        return data

    if blob.size <= SMALL and not isinstance(blob.read, _Outside):
        read()
        return blob
    return Blob(blob.digest, blob.size, read)


def _values(view: memoryview | bytes, size: int, packing: str | None, name: str) -> memoryview | bytes:
    """Return the values of a blob as bytes. Errors: F220."""
    if packing is None:
        return view
    try:
        return unpack(view, size, packing)
    except NoCodeError as fault:
        raise form.fault(form.WRONG_VALUE, f"{name}, packed as {packing}, has {fault}") from None


def _verify(view: memoryview | bytes, digest: bytes, name: str) -> None:
    if hashlib.sha256(view).digest() != digest:
        raise form.fault(form.WRONG_BLOB, f"{name} has other bytes")
