"""FlatBuffers: checked access to tables, vectors and strings in bytes that nobody vouches for.

In: bytes. Out: `Table` values whose fields are read on demand. Every offset, vtable and length is checked to lie inside
the bytes before anything is read through it. Reading is charged: what is decoded may not exceed a few times the file,
so that many references to one large vector cost no more than the file itself. Nothing recurses.

The layout, little-endian (FlatBuffers binary format, google.github.io/flatbuffers):

    file      u32 offset of the root table, 4 letters that name the schema
    table     i32 distance back to its vtable, then the fields
    vtable    u16 its own size, u16 the table's size, then for each field a u16: 0 absent, else its place in the table
    vector    u32 count, then the elements; a string is a vector of bytes
    reference u32, forwards, from the place where it stands
"""

import struct
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code

OUTSIDE = code("N303", "an offset in the TFLite file leads outside of it")
BAD_TABLE = code("N304", "a table in the TFLite file is malformed")
VECTOR_LENGTH = code("N305", "a vector in the TFLite file is longer than the rest of the file")
BAD_TEXT = code("N306", "a text in the TFLite file is not valid UTF-8 or longer than any model needs")
TOO_MUCH = code("N307", "a TFLite file refers to the same bytes too often, or holds more parts than any model needs")

MENDED = "Download the file again, or make it anew with its converter."
TEXT_LIMIT = 1 << 16  # bytes of one text
_SPARE = 1 << 20  # bytes that may be decoded besides four times the file
_TABLE_COST = 64

_U32, _I32, _U16 = struct.Struct("<I"), struct.Struct("<i"), struct.Struct("<H")


class Bytes:
    """The bytes of a file, and how much of them has been decoded. name: for messages."""

    __slots__ = ("cost", "data", "limit", "name", "size")

    def __init__(self, data: memoryview, name: str) -> None:
        self.data = data
        self.size = len(data)
        self.name = name
        self.cost = 0
        self.limit = 4 * self.size + _SPARE

    def refuse(self, code: str, what: str, remedy: str = MENDED) -> NoReturn:
        """Raise an error that names the file. what: the rest of the sentence."""
        raise BitternError(code, f"{self.name}: {what}", remedy)

    def need(self, at: int, size: int, what: str, short: str = OUTSIDE) -> None:
        """Refuse unless `size` bytes lie at `at`. what: names them in the message."""
        if at < 0 or at + size > self.size:
            self.refuse(short, f"{what} takes {size} bytes at byte {at}, but the file has {self.size}.")

    def charge(self, cost: int, what: str) -> None:
        """Count decoded bytes."""
        self.cost += cost
        if self.cost > self.limit:
            self.refuse(TOO_MUCH, f"reading up to {what} decodes more than {self.limit} bytes.")

    def root(self) -> "Table":
        """Return the table with which the file begins."""
        return Table(self, self.follow(0, "the root table"), "the root table")

    def follow(self, at: int, what: str) -> int:
        """Return the place to which the reference at `at` leads."""
        self.need(at, 4, f"the reference to {what}")
        (distance,) = _U32.unpack_from(self.data, at)
        place = at + int(distance)
        self.need(place, 4, what)
        return place


class Table:
    """One table. what: names it in messages."""

    __slots__ = ("_at", "_bytes", "_fields", "_size", "_vtable", "what")

    def __init__(self, file: Bytes, at: int, what: str) -> None:
        self._bytes, self._at, self.what = file, at, what
        file.charge(_TABLE_COST, what)
        file.need(at, 4, what)
        (distance,) = _I32.unpack_from(file.data, at)
        self._vtable = at - int(distance)
        file.need(self._vtable, 4, f"the vtable of {what}")
        vtable_size, self._size = (_U16.unpack_from(file.data, self._vtable + k)[0] for k in (0, 2))
        if vtable_size < 4 or vtable_size % 2 or self._size < 4:
            file.refuse(
                BAD_TABLE,
                f"the vtable of {what}, at byte {self._vtable}, says {vtable_size} bytes for itself and "
                f"{self._size} for the table.",
            )
        file.need(self._vtable, vtable_size, f"the vtable of {what}")
        file.need(at, self._size, what)
        self._fields = (vtable_size - 4) // 2

    @property
    def at(self) -> int:
        """The byte at which the table begins."""
        return self._at

    def number(self, field: int, form: str, default: int = 0) -> int:
        """Return a whole-number field. form: a letter of `struct`, which says its width and sign."""
        place = self._place(field, struct.calcsize(form))
        return default if place is None else int(struct.unpack_from(f"<{form}", self._bytes.data, place)[0])

    def real(self, field: int, default: float = 0.0) -> float:
        """Return an f32 field."""
        place = self._place(field, 4)
        return default if place is None else float(struct.unpack_from("<f", self._bytes.data, place)[0])

    def truth(self, field: int) -> bool:
        """Return a field that is true or false."""
        return self.number(field, "B") != 0

    def table(self, field: int, what: str) -> "Table | None":
        """Return the table that a field refers to, or None."""
        place = self._place(field, 4)
        return None if place is None else Table(self._bytes, self._bytes.follow(place, what), what)

    def tables(self, field: int, what: str, limit: int) -> "list[Table]":
        """Return the tables of a vector of references. limit: the most of them that any model needs."""
        place, count = self._vector(field, 4, what)
        if count > limit:
            self._bytes.refuse(TOO_MUCH, f"{self.what} has {count} of {what}; the most that Bittern reads is {limit}.")
        names = [f"{what} {k}" for k in range(count)]
        return [Table(self._bytes, self._bytes.follow(place + 4 * k, name), name) for k, name in enumerate(names)]

    def numbers(self, field: int, form: str, what: str) -> "npt.NDArray[Any] | None":
        """Return a vector of numbers as an array of its own, or None where it is absent. form: a numpy type code."""
        dtype = np.dtype(form).newbyteorder("<")
        if self._place(field, 4) is None:
            return None
        place, count = self._vector(field, dtype.itemsize, what)
        return np.frombuffer(self._bytes.data, dtype, count, place).astype(np.dtype(form))

    def span(self, field: int, what: str) -> "tuple[int, int] | None":
        """Return where the bytes of a vector of bytes begin and how many there are, or None where it is absent."""
        if self._place(field, 4) is None:
            return None
        return self._vector(field, 1, what, cost=0)

    def text(self, field: int, what: str) -> str:
        """Return a text; an absent one is empty."""
        place, size = self._vector(field, 1, what)
        if size > TEXT_LIMIT:
            self._bytes.refuse(BAD_TEXT, f"{what} has {size} bytes; the most that Bittern reads is {TEXT_LIMIT}.")
        try:
            return bytes(self._bytes.data[place : place + size]).decode()
        except UnicodeDecodeError as fault:
            self._bytes.refuse(BAD_TEXT, f"{what} at byte {place} is not valid UTF-8 (its byte {fault.start}).")

    def refuse(self, code: str, what: str, remedy: str = MENDED) -> NoReturn:
        """Raise an error that names the file and this table."""
        self._bytes.refuse(code, f"{self.what}, at byte {self._at}, {what}", remedy)

    def _place(self, field: int, width: int) -> int | None:
        """Return where a field lies, or None where it is absent."""
        if field >= self._fields:
            return None
        (offset,) = _U16.unpack_from(self._bytes.data, self._vtable + 4 + 2 * field)
        if not offset:
            return None
        if offset < 4 or offset + width > self._size:
            self.refuse(BAD_TABLE, f"has field {field} at {offset} of its {self._size} bytes.")
        return self._at + int(offset)

    def _vector(self, field: int, width: int, what: str, cost: int | None = None) -> tuple[int, int]:
        """Return where the elements of a vector begin, and their count; (0, 0) where it is absent."""
        place = self._place(field, 4)
        if place is None:
            return 0, 0
        at = self._bytes.follow(place, what)
        (count,) = _U32.unpack_from(self._bytes.data, at)
        self._bytes.need(at + 4, count * width, f"{what} of {self.what}", VECTOR_LENGTH)
        self._bytes.charge(count * width if cost is None else cost, what)
        return at + 4, int(count)
