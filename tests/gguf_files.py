"""Tiny GGUF files, written byte by byte from the layout alone: nothing of Bittern's reader is used here.

`build` writes a file from rows, of which every part may be wrong on purpose, and says where each number of the header
lies. `SAMPLES` are valid files; `gguf_broken.BROKEN` has one file for each way in which a file is refused.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from block_formats import FORMATS

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
_LETTERS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B", U64: "Q", I64: "q", F64: "d"}

BLOCKS = {  # type number: values in a block, bytes of a block
    0: (1, 4),
    1: (1, 2),
    24: (1, 1),
    25: (1, 2),
    26: (1, 4),
    27: (1, 8),
    28: (1, 8),
    30: (1, 2),
    **{row.number: (row.columns, row.size) for row in FORMATS.values()},
}


@dataclass(frozen=True)
class Field:
    """Where a number of the header lies. kind: what it counts or names."""

    kind: str
    offset: int
    size: int


@dataclass(frozen=True)
class Key:
    """One pair of the metadata. value: its bytes after the type."""

    name: bytes
    type: int
    value: bytes
    name_length: int | None = None


@dataclass(frozen=True)
class Row:
    """One tensor. sizes: fastest dimension first. Whatever is None is written as it should be."""

    name: bytes
    sizes: tuple[int, ...]
    type: int = 0
    rank: int | None = None
    offset: int | None = None
    data: bytes | None = None
    name_length: int | None = None


@dataclass(frozen=True)
class File:
    """A whole file. Counts that are None are true ones. after: bytes behind the data."""

    keys: tuple[Key, ...] = ()
    rows: tuple[Row, ...] = ()
    magic: bytes = b"GGUF"
    version: int = 3
    alignment: int = 32
    key_count: int | None = None
    row_count: int | None = None
    after: bytes = b""


def number(name: str, type_: int, value: float) -> Key:
    """Return a pair with one number."""
    return Key(name.encode(), type_, struct.pack("<" + _LETTERS[type_], value))


def text(value: bytes, length: int | None = None) -> bytes:
    """Return a string as a file has it. length: the lie, if any."""
    return struct.pack("<Q", len(value) if length is None else length) + value


def string(name: str, value: str) -> Key:
    """Return a pair with a string."""
    return Key(name.encode(), STRING, text(value.encode()))


def array(name: str, type_: int, values: Sequence[float], count: int | None = None) -> Key:
    """Return a pair with an array of numbers. count: the lie, if any."""
    head = struct.pack("<IQ", type_, len(values) if count is None else count)
    return Key(name.encode(), ARRAY, head + struct.pack(f"<{len(values)}{_LETTERS[type_]}", *values))


def strings(name: str, values: Sequence[str], count: int | None = None) -> Key:
    """Return a pair with an array of strings. count: the lie, if any."""
    head = struct.pack("<IQ", STRING, len(values) if count is None else count)
    return Key(name.encode(), ARRAY, head + b"".join(text(value.encode()) for value in values))


def size_of(row: Row) -> int:
    """Return the number of bytes that a tensor takes."""
    columns, size = BLOCKS.get(row.type, (1, 1))
    total = 1
    for count in row.sizes:
        total *= count
    return total // columns * size


class _Writer:
    def __init__(self) -> None:
        self.data = bytearray()
        self.fields: list[Field] = []

    def put(self, kind: str, letter: str, value: int) -> None:
        packed = struct.pack("<" + letter, value)
        self.fields.append(Field(kind, len(self.data), len(packed)))
        self.data += packed

    def key(self, key: Key) -> None:
        self.put("length", "Q", len(key.name) if key.name_length is None else key.name_length)
        self.data += key.name
        self.put("value type", "I", key.type)
        start = len(self.data)
        self.data += key.value
        if key.type == STRING:
            self.fields.append(Field("length", start, 8))
        elif key.type == ARRAY:
            self.fields += [Field("value type", start, 4), Field("count", start + 4, 8)]
            if key.value[:4] == struct.pack("<I", STRING) and len(key.value) > 20:
                self.fields.append(Field("length", start + 12, 8))
        else:
            self.fields.append(Field("value", start, len(key.value)))

    def row(self, row: Row, offset: int) -> None:
        self.put("length", "Q", len(row.name) if row.name_length is None else row.name_length)
        self.data += row.name
        self.put("rank", "I", len(row.sizes) if row.rank is None else row.rank)
        for size in row.sizes:
            self.put("size", "Q", size)
        self.put("tensor type", "I", row.type)
        self.put("offset", "Q", offset if row.offset is None else row.offset)


def build(file: File) -> tuple[bytes, list[Field]]:
    """Return the bytes of a file and the places of the numbers in its header."""
    writer = _Writer()
    writer.data += file.magic
    writer.put("version", "I", file.version)
    writer.put("count", "Q", len(file.rows) if file.row_count is None else file.row_count)
    writer.put("count", "Q", len(file.keys) if file.key_count is None else file.key_count)
    for key in file.keys:
        writer.key(key)
    body = bytearray()
    for row in file.rows:
        body += bytes(-len(body) % file.alignment)
        writer.row(row, len(body))
        body += row.data if row.data is not None else _pattern(row.name, size_of(row))
    if file.rows:
        writer.data += bytes(-len(writer.data) % file.alignment)
    return bytes(writer.data) + bytes(body) + file.after, writer.fields


def _pattern(name: bytes, size: int) -> bytes:
    return bytes((37 * i + sum(name)) % 251 for i in range(size))


_KEYS = (
    string("general.architecture", "toy"),
    number("a.u8", U8, 200),
    number("a.i8", I8, -100),
    number("a.u16", U16, 60000),
    number("a.i16", I16, -30000),
    number("a.u32", U32, 4_000_000_000),
    number("a.i32", I32, -2_000_000_000),
    number("a.f32", F32, 1e-5),
    number("a.yes", BOOL, 1),
    number("a.no", BOOL, 0),
    number("a.u64", U64, 2**64 - 1),
    number("a.i64", I64, -(2**63)),
    number("a.f64", F64, 0.1),
)
_ARRAYS = (
    strings("b.tokens", ["", "a", "\u00e9\u00e8", "\u65e5\u672c", "\U0001f600 z", "<0x00>"]),
    array("b.types", I32, [1, 2, 3, -4, 5, 6]),
    array("b.scores", F32, [0.0, -1.5, 2.25]),
    array("b.flags", BOOL, [1, 0, 1]),
    array("b.bytes", U8, range(7)),
    array("b.wide", U64, [2**64 - 1, 0]),
    array("b.f64", F64, [0.1]),
    array("b.none", I16, []),
    strings("b.nothing", []),
)
NEWER = (42,)  # types that the gguf package does not know yet
_ALL = {number: Row(f"t.{number}".encode(), (2 * columns, 3), number) for number, (columns, _) in BLOCKS.items()}
_ROWS = tuple(row for number, row in _ALL.items() if number not in NEWER)
_SHAPES = (
    Row(b"one", (5,)),
    Row(b"two", (3, 2), 24),
    Row(b"three", (4, 3, 2), 1),
    Row(b"four", (32, 2, 1, 3), 8),
    Row(b"x" * 64, (1,), 28),
)

SAMPLES: dict[str, File] = {
    "empty": File(),
    "numbers": File(_KEYS),
    "arrays": File(_ARRAYS),
    "types": File(_KEYS[:1], _ROWS),
    "newer types": File(_KEYS[:1], tuple(_ALL[number] for number in NEWER)),
    "shapes": File(_KEYS[:1], _SHAPES),
    "all": File(_KEYS + _ARRAYS, _ROWS + _SHAPES, after=b"\0" * 11),
    "version 2": File(_KEYS, _SHAPES, version=2),
    "alignment 8": File((number("general.alignment", U32, 8), *_KEYS), _SHAPES, alignment=8),
    "alignment 4096": File((*_KEYS, number("general.alignment", U32, 4096)), _SHAPES, alignment=4096),
    "apart": File((), (Row(b"late", (8,), offset=64, data=b""), Row(b"early", (8,), offset=0, data=bytes(96)))),
    "long key": File((string("k" * 65535, "v"),)),
}
