"""Writing GGUF: metadata and tensors become a file of version 3, whole or not at all, equal bytes for equal input.

In: plain values by key, and tensors whose bytes are asked for one after another, so a model need not fit in memory.
Out: one file, or several parts (`NAME-00001-of-00003.gguf`). What is written, `gguf.open_gguf` reads back with equal
values. The layout is described there. (GGUF specification, in the ggml repository under docs/gguf.md.)
"""

import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np

from bittern.base.errors import BitternError, code
from bittern.base.writing import replacing
from bittern.front.checkpoint import Checkpoint, Value, shown
from bittern.front.gguf import ARRAY_STRING_LIMIT, KEY_LIMIT, MAGIC, STRING_LIMIT, TENSOR_LIMIT
from bittern.front.gguf_types import NUMBER_TYPES, TENSOR_TYPES
from bittern.types.elements import ELEMENTS, Element

BAD_VALUE = code("F147", "a key or value cannot be written to a GGUF file")
BAD_TENSOR = code("F148", "a tensor cannot be written to a GGUF file")
NOT_WRITTEN = code("F149", "the GGUF file cannot be written")

VERSION = 3
_ALIGNMENT_KEY, _ALIGNMENT = "general.alignment", 32
_STRING, _ARRAY = 8, 9
_TAGS = {name: tag for tag, name in NUMBER_TYPES.items()}
_NUMBERS = {element: number for number, (_, element) in TENSOR_TYPES.items() if element}
_LETTERS = dict(zip(_TAGS, "BbHhIif?Qqd", strict=True))
_WIDE = ("u32", "i32", "u64", "i64")  # what a whole number may be, the first that holds it
_SPLIT_TYPES = {"split.no": "u16", "split.count": "u16", "split.tensors.count": "i32"}


Bytes: TypeAlias = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Stored:
    """One tensor to write. shape: row-major, it counts values. read: gives the stored bytes, little-endian."""

    name: str
    element: Element
    shape: tuple[int, ...]
    read: Callable[[], Bytes]

    @property
    def size(self) -> int:
        """The number of bytes that the shape asks for."""
        total = 1
        for count in self.shape:
            total *= count
        element = self.element
        return total // element.columns * element.bytes if element.is_format else total * (element.bits // 8)


def stored_tensors(checkpoint: Checkpoint) -> list[Stored]:
    """Return the tensors of a checkpoint as they are, to write them again. Keep it open meanwhile."""

    def tensor(name: str) -> Stored:
        info = checkpoint.tensors[name]
        return Stored(name, info.element, info.shape, lambda: checkpoint.bytes_of(name))

    return [tensor(name) for name in checkpoint.tensors]


def write_gguf(
    path: Path, metadata: Mapping[str, Value], tensors: Sequence[Stored], types: Mapping[str, str] | None = None
) -> None:
    """Write a GGUF file; it appears whole or not at all.

    metadata: in the order of writing. types: the element of plain numbers by key, as `gguf.value_types` tells them; a
    number without one becomes the first of u32, i32, u64, i64 that holds it, a real one f32 if it loses nothing, else
    f64. tensors: in the order of writing.
    Errors: F147 a key or value, F148 a tensor that no GGUF file can hold, F149 the place cannot be written.
    """
    alignment = _alignment(metadata)
    header = b"".join(_header(metadata, tensors, types or {}, alignment))
    try:
        with replacing(path) as file:
            _write(file, header, tensors, alignment)
    except OSError as fault:
        raise BitternError(
            NOT_WRITTEN, f"{shown(path)} cannot be written: {fault}.", "Choose another place."
        ) from fault


def write_gguf_parts(
    path: Path,
    metadata: Mapping[str, Value],
    tensors: Sequence[Stored],
    limit: int,
    types: Mapping[str, str] | None = None,
) -> list[Path]:
    """Write a model as parts and return their paths; the first part has the metadata.

    path: what the file would be called whole; `m.gguf` gives `m-00001-of-00002.gguf`. limit: bytes of tensors in a
    part; a part has one tensor at least. Errors: as `write_gguf`; parts that were written before an error stay.
    """
    parts: list[list[Stored]] = [[]]
    for tensor in tensors:
        if parts[-1] and sum(other.size for other in parts[-1]) + tensor.size > limit:
            parts.append([])
        parts[-1].append(tensor)
    own = {key: value for key, value in metadata.items() if key not in _SPLIT_TYPES}
    alignment = {key: value for key, value in own.items() if key == _ALIGNMENT_KEY}
    paths = []
    for number, part in enumerate(parts):
        split: dict[str, Value] = dict(zip(_SPLIT_TYPES, (number, len(parts), len(tensors)), strict=True))
        paths.append(path.with_name(f"{path.stem}-{number + 1:05}-of-{len(parts):05}.gguf"))
        write_gguf(paths[-1], (alignment if number else own) | split, part, {**(types or {}), **_SPLIT_TYPES})
    return paths


def _alignment(metadata: Mapping[str, Value]) -> int:
    value = metadata.get(_ALIGNMENT_KEY, _ALIGNMENT)
    if not isinstance(value, int) or isinstance(value, bool) or value < 8 or value & (value - 1) or value >= 1 << 32:
        raise _bad_value(_ALIGNMENT_KEY, f"is {shown(value)}; a power of two from 8 is allowed")
    return value


def _bad_value(key: str, what: str) -> BitternError:
    return BitternError(BAD_VALUE, f"The metadata {shown(key)} {what}.", "Change it, or leave it out.")


def _bad_tensor(tensor: Stored, what: str) -> BitternError:
    return BitternError(BAD_TENSOR, f"The tensor {shown(tensor.name)} {what}.", "Store it in another way.")


def _header(
    metadata: Mapping[str, Value], tensors: Sequence[Stored], types: Mapping[str, str], alignment: int
) -> Iterator[bytes]:
    """Yield the pieces of everything before the data."""
    if len(metadata) > KEY_LIMIT:
        raise _bad_value(next(iter(metadata)), f"is one of {len(metadata)} keys; {KEY_LIMIT} are allowed")
    if len(tensors) > TENSOR_LIMIT:
        raise _bad_tensor(tensors[-1], f"is one of {len(tensors)}; {TENSOR_LIMIT} are allowed")
    yield MAGIC + struct.pack("<IQQ", VERSION, len(tensors), len(metadata))
    for key, value in metadata.items():
        name = _utf8(key, value=key)
        if not 1 <= len(name) <= 65535:
            raise _bad_value(key, f"has a key of {len(name)} bytes; 1 to 65535 are allowed")
        yield _text(name)
        yield _pair(key, value, types.get(key))
    yield from _table(tensors, alignment)


def _table(tensors: Sequence[Stored], alignment: int) -> Iterator[bytes]:
    """Yield the rows of the table of tensors."""
    offset = 0
    seen: set[str] = set()
    for tensor in tensors:
        _check_tensor(tensor, seen)
        seen.add(tensor.name)
        sizes = tensor.shape[::-1]
        yield _text(tensor.name.encode())
        yield struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, _NUMBERS[tensor.element.name], offset)
        offset += -(-tensor.size // alignment) * alignment


def _check_tensor(tensor: Stored, seen: set[str]) -> None:
    """Refuse what the reader would refuse."""
    length = len(_utf8(tensor.name, value=tensor.name))
    if not 1 <= length <= 64:
        raise _bad_tensor(tensor, f"has a name of {length} bytes; 1 to 64 are allowed")
    if tensor.name in seen:
        raise _bad_tensor(tensor, "is there twice")
    if tensor.element.name not in _NUMBERS:
        raise _bad_tensor(tensor, f"holds {tensor.element}, for which the format has no type")
    if not 1 <= len(tensor.shape) <= 4 or any(size < 1 for size in tensor.shape):
        raise _bad_tensor(tensor, f"has shape {list(tensor.shape)}; 1 to 4 dimensions from 1 are allowed")
    columns = max(1, tensor.element.columns)
    if tensor.shape[-1] % columns:
        raise _bad_tensor(
            tensor, f"has rows of {tensor.shape[-1]} values; {tensor.element} needs a multiple of {columns}"
        )


def _utf8(key: str, value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as fault:
        raise _bad_value(key, f"has a character that UTF-8 does not have, {fault.object[fault.start]!r}") from fault


def _text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def _string(key: str, value: str) -> bytes:
    encoded = _utf8(key, value)
    if len(encoded) > STRING_LIMIT:
        raise _bad_value(key, f"has a string of {len(encoded)} bytes; {STRING_LIMIT} are allowed")
    return _text(encoded)


def _pair(key: str, value: Value, element: str | None) -> bytes:
    """Return type and value of a pair."""
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _string(key, value)
    if isinstance(value, list):
        if len(value) > ARRAY_STRING_LIMIT or not all(isinstance(text, str) for text in value):
            raise _bad_value(key, f"is a list of {len(value)}; up to {ARRAY_STRING_LIMIT} strings are allowed")
        return struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + b"".join(_string(key, text) for text in value)
    if isinstance(value, np.ndarray):
        name = next((n for n in _TAGS if np.dtype(ELEMENTS[n].dtype) == value.dtype.newbyteorder("=")), None)
        if name is None or value.ndim != 1:
            raise _bad_value(
                key, f"is an array of {value.dtype} in {value.ndim} dimensions; one, of numbers, is allowed"
            )
        plain = value.astype(value.dtype.newbyteorder("<")).tobytes()
        return struct.pack("<IIQ", _ARRAY, _TAGS[name], len(value)) + plain
    return _number(key, value, element or _element_of(key, value))


def _element_of(key: str, value: bool | int | float) -> str:
    """Return the element that a plain number gets where none is asked for."""
    if isinstance(value, bool):
        return "bit"
    if isinstance(value, float):
        with np.errstate(over="ignore"):
            return "f32" if float(np.float32(value)) == value or value != value else "f64"
    found = next((name for name in _WIDE if ELEMENTS[name].low <= value <= ELEMENTS[name].high), None)
    if found is None:
        raise _bad_value(key, f"is {value}, which has more than 64 bits")
    return found


def _number(key: str, value: bool | int | float, element: str) -> bytes:
    """Return type and value of a number. Errors: F147 if the element does not hold it exactly."""
    kept = ELEMENTS[element]
    fits = kept.is_float if isinstance(value, float) else (element == "bit") == isinstance(value, bool)
    if fits and isinstance(value, float) and element == "f32" and value == value:
        with np.errstate(over="ignore"):
            fits = float(np.float32(value)) == value
    elif fits and not isinstance(value, (bool, float)):
        fits = kept.is_integer and kept.low <= value <= kept.high
    if not fits:
        raise _bad_value(key, f"is {value}, which is no {element}")
    return struct.pack("<I" + _LETTERS[element], _TAGS[element], value)


def _write(file: BinaryIO, header: bytes, tensors: Sequence[Stored], alignment: int) -> None:
    file.write(header)
    if tensors:
        file.write(bytes(-len(header) % alignment))
    for tensor in tensors:
        with memoryview(tensor.read()) as view:
            if view.nbytes != tensor.size:
                raise _bad_tensor(tensor, f"has {view.nbytes} bytes; its shape needs {tensor.size}")
            file.write(view)
        file.write(bytes(-tensor.size % alignment))
    file.flush()
    os.fsync(file.fileno())
