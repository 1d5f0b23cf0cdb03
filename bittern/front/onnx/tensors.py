"""Tensors of an ONNX file as arrays. Nothing is made before its size is known to be that of the stored bytes."""

from dataclasses import dataclass
from math import prod
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.front.checkpoint import shown
from bittern.front.onnx.external import Folder
from bittern.front.onnx.values import Array

BAD_TENSOR = code("N205", "a tensor of the ONNX file is described wrongly")
UNREAD_TYPE = code("N206", "a tensor of the ONNX file has a type that Bittern does not read")

MOST_AXES = 16
_LARGEST = 1 << 40  # bytes


@dataclass(frozen=True, slots=True)
class _Type:
    """A type of tensors. bits: of one value as stored. field: where values stand that are not raw bytes."""

    name: str
    stored: str
    bits: int
    field: str


_TYPES: dict[int, _Type] = {  # by the numbers of TensorProto.DataType
    1: _Type("f32", "<f4", 32, "float_data"),
    2: _Type("u8", "<u1", 8, "int32_data"),
    3: _Type("i8", "<i1", 8, "int32_data"),
    4: _Type("u16", "<u2", 16, "int32_data"),
    5: _Type("i16", "<i2", 16, "int32_data"),
    6: _Type("i32", "<i4", 32, "int32_data"),
    7: _Type("i64", "<i8", 64, "int64_data"),
    9: _Type("bit", "<u1", 8, "int32_data"),
    10: _Type("f16", "<f2", 16, "int32_data"),
    11: _Type("f64", "<f8", 64, "double_data"),
    12: _Type("u32", "<u4", 32, "uint64_data"),
    13: _Type("u64", "<u8", 64, "uint64_data"),
    16: _Type("bf16", "<u2", 16, "int32_data"),
    21: _Type("u4", "<u1", 4, "int32_data"),
    22: _Type("i4", "<u1", 4, "int32_data"),
}
_LOCATION_EXTERNAL = 1


def element_name(number: int) -> str:
    """Return Bittern's name of a type of tensors, or the number as text where it has none."""
    return _TYPES[number].name if number in _TYPES else f"type {number}"


def array_of(tensor: Any, name: str, folder: Folder | None) -> Array:
    """Return a `TensorProto` as an array. folder: where external data may lie, or None where there may be none.

    Four-bit integers become one to a byte; f16 and bf16 become f32, which holds all of them.
    Errors: N205 to N208.
    """
    kind = _TYPES.get(tensor.data_type)
    if kind is None:
        known = ", ".join(each.name for each in _TYPES.values())
        raise BitternError(
            UNREAD_TYPE, f"The tensor {shown(name)} has type {tensor.data_type}.", f"Convert it to one of: {known}."
        )
    shape = tuple(tensor.dims)
    if (
        len(shape) > MOST_AXES
        or any(size < 0 for size in shape)
        or prod(max(size, 1) for size in shape) * kind.bits > 8 * _LARGEST
    ):
        _wrong(name, f"has the shape {list(shape)[:20]}")
    if tensor.HasField("segment"):
        _wrong(name, "is cut into segments")
    count = prod(shape)
    need = (count * kind.bits + 7) // 8
    if tensor.data_location == _LOCATION_EXTERNAL:
        return _decoded(_external(tensor, name, folder, need), kind, shape)
    if tensor.HasField("raw_data"):
        if len(tensor.raw_data) != need:
            _wrong(name, f"has {len(tensor.raw_data)} bytes, but {kind.name}{list(shape)} needs {need}")
        return _decoded(tensor.raw_data, kind, shape)
    return _listed(tensor, name, kind, shape, count)


def _external(tensor: Any, name: str, folder: Folder | None, need: int) -> bytes:
    if folder is None or tensor.HasField("raw_data"):
        _wrong(name, "has external data where the file holds its bytes")
    entries: dict[str, str] = {}
    for entry in tensor.external_data:
        if entry.key in entries:
            _wrong(name, f"says {shown(entry.key)} of its external data twice")
        entries[entry.key] = entry.value
    return folder.read(name, entries, need)


def _listed(tensor: Any, name: str, kind: _Type, shape: tuple[int, ...], count: int) -> Array:
    """Return values that stand in a field of numbers; f16 and bf16 stand there as their bits, 4-bit ones as bytes."""
    values = getattr(tensor, kind.field)
    units = (count * kind.bits + 7) // 8 if kind.bits < 8 else count
    if len(values) != units:
        _wrong(name, f"has {len(values)} values, but {kind.name}{list(shape)} needs {units}")
    stored = np.dtype("<u2") if kind.name in ("f16", "bf16") else np.dtype(kind.stored)
    given = np.fromiter(values, dtype=_WIDE[kind.field], count=units)
    if stored.kind in "iu" and given.size:
        limits = np.iinfo(stored)
        low = int(limits.min) if kind.bits >= 8 else -128
        if int(given.min()) < low or int(given.max()) > int(limits.max):
            _wrong(name, f"has values that are no {kind.name}")
    return _decoded(given.astype(stored).tobytes(), kind, shape)


_WIDE: dict[str, npt.DTypeLike] = {
    "float_data": np.float32,
    "double_data": np.float64,
    "int32_data": np.int64,
    "int64_data": np.int64,
    "uint64_data": np.uint64,
}


def _decoded(data: bytes, kind: _Type, shape: tuple[int, ...]) -> Array:
    if kind.bits == 4:
        return _four_bits(data, kind.name == "i4", shape)
    array: Array = np.frombuffer(data, kind.stored).reshape(shape)
    if kind.name == "bf16":
        array = np.left_shift(array, 16, dtype=np.uint32)
        return array.view(np.float32)
    if kind.name == "f16":
        return array.astype(np.float32)
    if kind.name == "bit":
        return np.not_equal(array, 0)
    return array.astype(array.dtype.newbyteorder("="))


def _four_bits(data: bytes, is_signed: bool, shape: tuple[int, ...]) -> Array:
    """Return 4-bit values, the first of each byte in its low half."""
    packed = np.frombuffer(data, np.uint8)
    values = np.stack([packed & 15, packed >> 4], 1).reshape(-1)[: prod(shape)]
    if is_signed:
        return ((values ^ 8).astype(np.int8) - 8).astype(np.int8).reshape(shape)
    return values.reshape(shape)


def _wrong(name: str, what: str) -> NoReturn:
    raise BitternError(BAD_TENSOR, f"The tensor {shown(name)} {what}.", "Export the model again.")
