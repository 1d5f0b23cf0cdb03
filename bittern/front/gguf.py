"""GGUF checkpoints: a strict reader for versions 2 and 3, little-endian.

In: a path. Out: a `Checkpoint`. Nothing in the file is believed: every length, count, product, type tag, alignment,
dimension and offset is checked before anything is read, allocated or multiplied with it, in whole numbers that cannot
wrap. A count may not exceed what the remaining bytes can hold, nor the limits below, which bound the time, and also the
memory: four times the file and 64 MiB. Whatever is refused is refused with its own code, at its byte.

The layout, all little-endian (GGUF specification, in the ggml repository under docs/gguf.md):

    header    "GGUF", version u32, tensor count u64, key count u64
    string    length u64, UTF-8 bytes
    pair      key string, type u32, value; an array is type u32, count u64, values
    tensor    name string, dimensions u32, sizes u64[dimensions] (fastest first), type u32, offset u64
    data      from the next multiple of the alignment (key `general.alignment`, else 32), as is every tensor in it
"""

import struct
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.front.checkpoint import Checkpoint, Digests, MappedFile, TensorInfo, Value, shown
from bittern.front.gguf_split import joined
from bittern.front.gguf_types import CONTESTED, NUMBER_TYPES, TENSOR_TYPES
from bittern.types.elements import ELEMENTS

NO_MAGIC = code("F110", "the file does not begin with the letters GGUF")
BIG_ENDIAN = code("F111", "the GGUF file is big-endian")
BAD_VERSION = code("F112", "the version of the GGUF file is not 2 or 3")
TRUNCATED = code("F113", "the GGUF file ends inside its header")
HEADER_TOO_LARGE = code("F114", "the header of the GGUF file is larger than any model needs")
KEY_COUNT = code("F115", "the number of keys is more than the file or a model can hold")
TENSOR_COUNT = code("F116", "the number of tensors is more than the file or a model can hold")
STRING_LENGTH = code("F117", "a string is longer than the rest of the file or than any model needs")
BAD_UTF8 = code("F118", "a key, name or string is not valid UTF-8")
BAD_KEY = code("F120", "a key is empty or longer than 65535 bytes")
DUPLICATE_KEY = code("F121", "a key occurs twice")
VALUE_TYPE = code("F122", "a value has an unknown type")
NESTED_ARRAY = code("F123", "an array holds arrays")
ARRAY_COUNT = code("F124", "an array has more elements than the file or a model can hold")
BAD_BOOL = code("F125", "a truth value is neither 0 nor 1")
ALIGNMENT_TYPE = code("F126", "general.alignment is not a u32")
ALIGNMENT_VALUE = code("F127", "general.alignment is not a power of two from 8")
BAD_NAME = code("F130", "a tensor name is empty or longer than 64 bytes")
DUPLICATE_TENSOR = code("F131", "a tensor name occurs twice")
RANK = code("F132", "a tensor does not have 1 to 4 dimensions")
DIMENSION = code("F133", "a dimension of a tensor is 0 or at least 2^63")
TENSOR_SIZE = code("F134", "a tensor has 2^63 values or more")
TENSOR_TYPE = code("F135", "a tensor has an unknown type number")
TYPE_UNSUPPORTED = code("F136", "a tensor has a type that Bittern does not read yet")
ROW_LENGTH = code("F137", "the rows of a tensor are not whole blocks of its format")
MISALIGNED = code("F138", "the offset of a tensor is not a multiple of the alignment")
PAST_END = code("F139", "a tensor reaches past the end of the file")
OVERLAP = code("F140", "two tensors overlap")
QUANTIZATION = code("F141", "the file has block formats of another version than 2")

MAGIC = b"GGUF"
HEADER_LIMIT = 1 << 26  # bytes; the largest vocabularies take a third of it
KEY_LIMIT = 1 << 16
TENSOR_LIMIT = 1 << 16
ARRAY_STRING_LIMIT = 1 << 21  # in all arrays together; vocabulary and merges of the largest models are 0.8 million
STRING_LIMIT = 1 << 22  # bytes of one string

# What the header may take in memory: its mapped bytes, four bytes for each of them once decoded (the widest strings),
# and the objects around them, together at most four times the file and 64 MiB, less what decoding one string needs.
_SPARE = (1 << 26) - 2 * STRING_LIMIT
_KEY_COST, _TENSOR_COST, _STRING_COST = 96, 320, 56  # bytes of an object beyond four times its bytes in the file

_ALIGNMENT_KEY = "general.alignment"
_QUANTIZATION_KEY = "general.quantization_version"
_DEFAULT_ALIGNMENT = 32
_QUANTIZATION_VERSION = 2  # the only one that GGUF files have had so far
_MENDED = "Download the file again, or make it anew with its converter."

_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_U32_TYPE, _BOOL_TYPE, _STRING_TYPE, _ARRAY_TYPE = 4, 7, 8, 9
_NUMBERS: dict[int, np.dtype[Any]] = {  # type tag: numpy dtype
    tag: np.dtype(ELEMENTS[name].dtype).newbyteorder("<") for tag, name in NUMBER_TYPES.items()
}
_LEAST_PAIR = 8 + 1 + 4 + 1  # bytes of a pair with a key of one letter
_LEAST_TENSOR = 8 + 1 + 4 + 8 + 4 + 8


def is_gguf(path: Path) -> bool:
    """Whether the path is a regular file that begins like a GGUF file; says nothing about the rest of it."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(4) == MAGIC
    except (OSError, ValueError):
        return False


def open_gguf(path: Path, cache: Path | None = None) -> Checkpoint:
    """Open a GGUF file, check its whole header, and return it as a checkpoint that keeps the file mapped.

    Where the file is a part of several, all of them, found beside it, are the checkpoint.
    cache: the folder in which digests are remembered between runs; None computes them anew.
    Errors: F101 to F104 if a file cannot be opened, F110 to F141 for what is wrong in it, F142 to F146 for the parts.
    """
    return joined(_open_file(path, cache), lambda part: _open_file(part, cache))


def value_types(checkpoint: Checkpoint) -> dict[str, str]:
    """Return the element that each plain number of the metadata has in the file, such as `u32`. Errors: F105, F106."""
    reader = _Reader(checkpoint.file)
    _metadata(reader, _header(reader)[0])
    return {key: NUMBER_TYPES[tag] for key, tag in reader.tags.items() if tag in NUMBER_TYPES}


def _open_file(path: Path, cache: Path | None) -> Checkpoint:
    file = MappedFile(path)
    try:
        reader = _Reader(file)
        key_count, tensor_count = _header(reader)
        metadata = _metadata(reader, key_count)
        tensors = _tensors(reader, tensor_count, metadata)
    except BaseException:
        file.close()
        raise
    digests = Digests(file.identity, cache)
    return Checkpoint("gguf", file, MappingProxyType(metadata), MappingProxyType(tensors), digests)


class _Reader:
    """A place in the header. Each read first makes sure that its bytes exist."""

    __slots__ = ("at", "cost", "data", "limit", "name", "size", "strings", "tags")

    def __init__(self, file: MappedFile) -> None:
        self.data = file.data
        self.size = file.identity.size
        self.name = shown(file.path.name)
        self.at = 0
        self.strings = 0  # read so far, in arrays
        self.cost = 0  # of objects, in bytes
        self.limit = 0  # the byte at which the header must have ended
        self.tags: dict[str, int] = {}  # the type of each pair read so far
        self.charge(0)

    def charge(self, cost: int) -> None:
        """Count the memory of objects that will be made; it shortens what the header may still take."""
        self.cost += cost
        self.limit = min(HEADER_LIMIT, (4 * self.size + _SPARE - self.cost) // 5)

    def refuse(self, code: str, what: str, remedy: str = _MENDED) -> NoReturn:
        """Raise an error that names the file. what: the rest of the sentence."""
        raise BitternError(code, f"{self.name}: {what}", remedy)

    def need(self, size: int, what: str, short: str = TRUNCATED) -> None:
        """XX"""
        _check_room(self, size, what, short)

    def u32(self, what: str) -> int:
        self.need(4, what)
        (value,) = _U32.unpack_from(self.data, self.at)
        self.at += 4
        return int(value)

    def u64(self, what: str) -> int:
        self.need(8, what)
        (value,) = _U64.unpack_from(self.data, self.at)
        self.at += 8
        return int(value)

    def string(self, what: str) -> str:
        """Read a length and so many bytes of UTF-8."""
        length = self.u64(f"the length of {what}")
        self.need(length, what, STRING_LENGTH)
        _check_length(self, length, what)
        start = self.at
        self.at += length
        try:
            return self.data[start : self.at].decode()
        except UnicodeDecodeError as fault:
            self.refuse(BAD_UTF8, f"{what} at byte {start} is not valid UTF-8 (its byte {fault.start}).")


def _check_room(reader: _Reader, size: int, what: str, short: str) -> None:
    rest = reader.size - reader.at
    if size > rest:
        reader.refuse(short, f"{what} at byte {reader.at} takes {size} bytes, but only {rest} are left in the file.")
    if reader.at + size > reader.limit:
        reader.refuse(
            HEADER_TOO_LARGE,
            f"{what} at byte {reader.at} takes {size} bytes, but a header with these counts may have {reader.limit}.",
        )


def _check_length(reader: _Reader, length: int, what: str) -> None:
    if length > STRING_LIMIT:
        reader.refuse(
            STRING_LENGTH,
            f"{what} at byte {reader.at} has {length} bytes; the most that Bittern reads is {STRING_LIMIT}.",
        )


def _header(reader: _Reader) -> tuple[int, int]:
    """Read magic, version and counts; return the number of keys and of tensors."""
    start = reader.data[:4]
    if start != MAGIC:
        reader.refuse(NO_MAGIC, f"begins with {start!r}, not with {MAGIC!r}.", "Give a GGUF file.")
    reader.at = 4
    _check_version(reader, reader.u32("the version"))
    tensor_count = reader.u64("the number of tensors")
    key_count = reader.u64("the number of keys")
    _check_count(reader, KEY_COUNT, "keys", key_count, _LEAST_PAIR, KEY_LIMIT)
    _check_count(reader, TENSOR_COUNT, "tensors", tensor_count, _LEAST_TENSOR, TENSOR_LIMIT)
    reader.charge(_KEY_COST * key_count + _TENSOR_COST * tensor_count)
    return key_count, tensor_count


def _check_version(reader: _Reader, version: int) -> None:
    if version in (2, 3):
        return
    if int.from_bytes(version.to_bytes(4, "little"), "big") in (1, 2, 3):
        reader.refuse(
            BIG_ENDIAN, "is a big-endian GGUF file.", "Convert it to little-endian, the byte order of nearly all."
        )
    reader.refuse(
        BAD_VERSION, f"has GGUF version {version} at byte 4; known are 2 and 3.", "Convert it with a current converter."
    )


def _check_count(reader: _Reader, code: str, what: str, count: int, least: int, limit: int) -> None:
    """Refuse a count that the rest of the file cannot hold at `least` bytes each, or that is over the limit."""
    most = (reader.size - reader.at) // least
    if count > most:
        reader.refuse(code, f"claims {count} {what}, but the {reader.size - reader.at} bytes left hold {most} at most.")
    if count > limit:
        reader.refuse(code, f"claims {count} {what}; the most that Bittern reads is {limit}.")


def _metadata(reader: _Reader, count: int) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for index in range(count):
        start = reader.at
        key = reader.string(f"the key of pair {index}")
        _check_key(reader, key, start, found)
        tag = reader.u32(f"the type of {shown(key)}")
        if key == _ALIGNMENT_KEY:
            _check_alignment_type(reader, tag)
        found[key] = _value(reader, key, tag)
        reader.tags[key] = tag
        if key == _ALIGNMENT_KEY:
            _check_alignment(reader, found[key])
    return found


def _check_key(reader: _Reader, key: str, start: int, found: dict[str, Value]) -> None:
    length = reader.at - start - 8
    if not 1 <= length <= 65535:
        reader.refuse(BAD_KEY, f"the key {shown(key)} at byte {start} has {length} bytes; 1 to 65535 are allowed.")
    if key in found:
        reader.refuse(DUPLICATE_KEY, f"the key {shown(key)} occurs a second time at byte {start}.")


def _check_alignment_type(reader: _Reader, tag: int) -> None:
    if tag != _U32_TYPE:
        reader.refuse(
            ALIGNMENT_TYPE,
            f"the value of `{_ALIGNMENT_KEY}` has type {tag} at byte {reader.at - 4}; it must be 4 (u32).",
        )


def _check_alignment(reader: _Reader, value: Value) -> None:
    if not isinstance(value, int) or value < 8 or value & (value - 1):
        reader.refuse(
            ALIGNMENT_VALUE, f"`{_ALIGNMENT_KEY}` at byte {reader.at - 4} is {value}; it must be a power of two from 8."
        )


def _value(reader: _Reader, key: str, tag: int) -> Value:
    """Read a value of the type that the tag names."""
    if tag == _STRING_TYPE:
        return reader.string(f"the value of {shown(key)}")
    if tag == _ARRAY_TYPE:
        return _array(reader, key)
    value: Value = _numbers(reader, key, tag)[0].item()
    return value


def _array(reader: _Reader, key: str) -> Value:
    tag = reader.u32(f"the element type of {shown(key)}")
    count = reader.u64(f"the number of elements of {shown(key)}")
    if tag == _ARRAY_TYPE:
        reader.refuse(
            NESTED_ARRAY, f"the array {shown(key)} at byte {reader.at} holds arrays; only plain ones exist in models."
        )
    if tag == _STRING_TYPE:
        return _strings(reader, key, count)
    return _numbers(reader, key, tag, count)


def _numbers(reader: _Reader, key: str, tag: int, count: int | None = None) -> npt.NDArray[Any]:
    """Read `count` numbers, or the one of a value that is no array, into a read-only array of their own memory."""
    dtype = _NUMBERS.get(tag)
    if dtype is None:
        known = ", ".join(str(number) for number in range(13))
        reader.refuse(
            VALUE_TYPE, f"{shown(key)} has the unknown type {tag} before byte {reader.at}; known are {known}."
        )
    if count is None:
        size = dtype.itemsize
        reader.need(size, f"the value of {shown(key)}")
    else:
        size = dtype.itemsize * count
        reader.need(size, f"{shown(key)} with {count} elements", ARRAY_COUNT)
    start = reader.at
    reader.at += size
    raw = np.frombuffer(reader.data[start : reader.at], np.uint8)
    if tag == _BOOL_TYPE:
        _check_bools(reader, key, raw, start)
    return raw.view(dtype)


def _check_bools(reader: _Reader, key: str, raw: npt.NDArray[np.uint8], start: int) -> None:
    wrong = np.flatnonzero(raw > 1)
    if wrong.size:
        place = int(wrong[0])
        reader.refuse(
            BAD_BOOL, f"{shown(key)} has the truth value {raw[place]} at byte {start + place}; 0 and 1 are allowed."
        )


def _strings(reader: _Reader, key: str, count: int) -> list[str]:
    """Read an array of strings. The loop calls nothing of ours: it reads a million strings in a third of a second."""
    reader.need(8 * count, f"{shown(key)} with {count} strings", ARRAY_COUNT)
    _check_strings(reader, key, count)
    data, length_at, at, end = reader.data, _U64.unpack_from, reader.at, min(reader.size, reader.limit)
    found: list[str] = []
    start = at
    try:
        for _ in range(count):
            (length,) = length_at(data, at)
            start = at + 8
            at = start + length
            if at > end or length > STRING_LIMIT:
                break
            found.append(data[start:at].decode())
    except struct.error:
        reader.at = at
        reader.need(8, f"the length of string {len(found)} of {shown(key)}")
    except UnicodeDecodeError as fault:
        reader.refuse(
            BAD_UTF8,
            f"string {len(found)} of {shown(key)} at byte {start} is not valid UTF-8 (its byte {fault.start}).",
        )
    if len(found) < count:
        reader.at = start
        reader.need(at - start, f"string {len(found)} of {shown(key)}", STRING_LENGTH)
        _check_length(reader, at - start, f"string {len(found)} of {shown(key)}")
    reader.at = at
    return found


def _check_strings(reader: _Reader, key: str, count: int) -> None:
    """Count the strings of one more array, and refuse more than are read in a bearable time."""
    reader.strings += count
    reader.charge(_STRING_COST * count)
    if reader.strings > ARRAY_STRING_LIMIT:
        reader.refuse(
            ARRAY_COUNT,
            f"{shown(key)} brings the strings in arrays to {reader.strings}; "
            f"the most that Bittern reads is {ARRAY_STRING_LIMIT}.",
        )


def _tensors(reader: _Reader, count: int, metadata: dict[str, Value]) -> dict[str, TensorInfo]:
    """Read the table of tensors and place them in the file."""
    entries: dict[str, TensorInfo] = {}
    for index in range(count):
        start = reader.at
        name = reader.string(f"the name of tensor {index}")
        _check_name(reader, name, start, entries)
        entries[name] = _tensor(reader, name)
    _check_quantization(reader, metadata, entries)
    alignment = metadata.get(_ALIGNMENT_KEY, _DEFAULT_ALIGNMENT)
    assert isinstance(alignment, int), alignment
    base = -(-reader.at // alignment) * alignment
    placed = {}
    for name, entry in entries.items():
        _check_place(reader, entry, base, alignment)
        placed[name] = TensorInfo(name, entry.element, entry.shape, base + entry.offset, entry.size)
    _check_overlap(reader, placed)
    return placed


def _check_name(reader: _Reader, name: str, start: int, entries: dict[str, TensorInfo]) -> None:
    length = reader.at - start - 8
    if not 1 <= length <= 64:
        reader.refuse(
            BAD_NAME, f"the tensor name {shown(name)} at byte {start} has {length} bytes; 1 to 64 are allowed."
        )
    if name in entries:
        reader.refuse(DUPLICATE_TENSOR, f"the tensor {shown(name)} occurs a second time at byte {start}.")


def _tensor(reader: _Reader, name: str) -> TensorInfo:
    """Read one row of the table of tensors after its name; the offset in it is still relative to the data."""
    label = f"tensor {shown(name)}"
    rank = reader.u32(f"the number of dimensions of {label}")
    _check_rank(reader, label, rank)
    sizes = [reader.u64(f"dimension {i} of {label}") for i in range(rank)]
    _check_sizes(reader, label, sizes)
    element = ELEMENTS[_element_of(reader, label, reader.u32(f"the type of {label}"))]
    columns, width = (element.columns, element.bytes) if element.is_format else (1, element.bits // 8)
    _check_row(reader, label, sizes[0], element.name, columns)
    total = 1
    for size in sizes:
        total *= size
    offset = reader.u64(f"the offset of {label}")
    return TensorInfo(name, element, tuple(reversed(sizes)), offset, total // columns * width)


def _check_rank(reader: _Reader, label: str, rank: int) -> None:
    if not 1 <= rank <= 4:
        reader.refuse(RANK, f"{label} has {rank} dimensions at byte {reader.at - 4}; 1 to 4 are allowed.")


def _check_sizes(reader: _Reader, label: str, sizes: list[int]) -> None:
    total = 1
    for axis, size in enumerate(sizes):
        if not 1 <= size < 1 << 63:
            place = reader.at - 8 * (len(sizes) - axis)
            reader.refuse(
                DIMENSION, f"dimension {axis} of {label} at byte {place} is {size}; 1 to 2^63 - 1 are allowed."
            )
        total *= size
    if total >= 1 << 63:
        reader.refuse(
            TENSOR_SIZE, f"{label} has {' x '.join(map(str, sizes))} values at byte {reader.at}, 2^63 or more."
        )


def _element_of(reader: _Reader, label: str, number: int) -> str:
    """Return the name of the element for a tensor's type number."""
    known, element = TENSOR_TYPES.get(number, ("", ""))
    if not known:
        reader.refuse(TENSOR_TYPE, f"{label} has the unknown type number {number} at byte {reader.at - 4}.")
    if not element:
        readable = ", ".join(row[0] for row in TENSOR_TYPES.values() if row[1])
        reader.refuse(
            TYPE_UNSUPPORTED,
            f"{label} has type {known} (number {number} at byte {reader.at - 4}), which Bittern does not read yet.",
            f"Convert the model to one of {readable}.",
        )
    return element


def _check_row(reader: _Reader, label: str, row: int, element: str, columns: int) -> None:
    if row % columns:
        reader.refuse(
            ROW_LENGTH,
            f"{label} has rows of {row} values before byte {reader.at}; {element} needs a multiple of {columns}.",
        )


def _check_quantization(reader: _Reader, metadata: dict[str, Value], entries: dict[str, TensorInfo]) -> None:
    version = metadata.get(_QUANTIZATION_KEY, _QUANTIZATION_VERSION)
    coded = next((entry for entry in entries.values() if entry.element.is_format), None)
    if coded and version != _QUANTIZATION_VERSION:
        reader.refuse(
            QUANTIZATION,
            f"`{_QUANTIZATION_KEY}` is {shown(version)}, so {coded.element} in tensor {shown(coded.name)} is unknown.",
        )


def _check_place(reader: _Reader, entry: TensorInfo, base: int, alignment: int) -> None:
    """Check the offset of a tensor, still relative to the data, which begin at `base`."""
    label = f"tensor {shown(entry.name)}"
    if entry.offset % alignment:
        reader.refuse(
            MISALIGNED, f"{label} has the offset {entry.offset}, which is no multiple of the alignment {alignment}."
        )
    end = base + entry.offset + entry.size
    if end > reader.size:
        reader.refuse(
            PAST_END,
            f"{label} has {entry.size} bytes at byte {base + entry.offset}, but the file ends at byte {reader.size}.",
            CONTESTED.get(entry.element.name, "The file was probably cut short: download it again."),
        )


def _check_overlap(reader: _Reader, placed: dict[str, TensorInfo]) -> None:
    ordered = sorted(placed.values(), key=lambda tensor: tensor.offset)
    for before, after in pairwise(ordered):
        if before.offset + before.size > after.offset:
            reader.refuse(
                OVERLAP,
                f"tensor {shown(after.name)} begins at byte {after.offset}, inside tensor {shown(before.name)}, "
                f"which ends at byte {before.offset + before.size}.",
                CONTESTED.get(before.element.name, _MENDED),
            )
