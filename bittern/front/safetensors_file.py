"""Safetensors files: a strict reader over a memory map.

In: an opened file. Out: what its header says, as `TensorInfo` rows. Nothing in the header is believed: lengths, names,
types, shapes and offsets are checked in whole numbers that cannot wrap, before anything is read with them. Tensors must
cover the data without gap or overlap, as the format demands.

The layout (format page of the safetensors library): the length of the header, u64 little-endian; the header, a JSON
object in UTF-8 from `{` on, which may end in blanks; the data. The header maps names to `dtype`, `shape` and
`data_offsets`, counted from the beginning of the data; `__metadata__` maps strings to strings.
"""

import json
from math import prod
from typing import Any, NoReturn

from bittern.base.errors import BitternError, code, nearest
from bittern.front.checkpoint import MappedFile, TensorInfo, shown
from bittern.types.elements import ELEMENTS, Element

TOO_SHORT = code("F150", "the safetensors file is too short for the length of its header")
HEADER_LENGTH = code("F151", "the header of the safetensors file is longer than the file or than any model needs")
BAD_JSON = code("F152", "the header of the safetensors file is no JSON object")
DUPLICATE_NAME = code("F153", "a name occurs twice in the JSON of a checkpoint")
BAD_ROW = code("F154", "the header of the safetensors file describes a tensor wrongly")
BAD_DTYPE = code("F155", "a tensor of the safetensors file has an unknown type")
UNREAD_DTYPE = code("F156", "a tensor of the safetensors file has a type that Bittern does not read")
BAD_SHAPE = code("F157", "a tensor of the safetensors file has an impossible shape")
BAD_SIZE = code("F158", "the bytes of a tensor do not fit its shape and type")
BEYOND = code("F159", "a tensor of the safetensors file reaches past the end of the file")
OVERLAPPING = code("F160", "two tensors of the safetensors file overlap")
HOLE = code("F161", "bytes of the safetensors file belong to no tensor")
TRAILING = code("F162", "the safetensors file goes on after its last tensor")
BAD_METADATA = code("F163", "the metadata of the safetensors file is not text by text")
BAD_TENSOR_NAME = code("F164", "a tensor of the safetensors file has an empty or overlong name")

_LENGTH = 8
_LARGEST = 1 << 26  # bytes of a header
_ROOM = 48 << 20  # bytes of memory that reading a header may take, besides four times the file
_COST = 20  # bytes of objects for one byte of JSON, at most
_RANK = 8
_LONGEST_NAME = 1024
_DTYPES: dict[str, str | None] = {  # the format's name: ours, or None if Bittern does not read it
    "F64": None,
    "F32": "f32",
    "F16": "f16",
    "BF16": "bf16",
    "F8_E4M3": None,
    "F8_E5M2": None,
    "F8_E8M0": None,
    "F4": None,
    "F6_E2M3": None,
    "F6_E3M2": None,
    "C64": None,
    "I64": "i64",
    "U64": "u64",
    "I32": "i32",
    "U32": "u32",
    "I16": "i16",
    "U16": "u16",
    "I8": "i8",
    "U8": "u8",
    "BOOL": None,
}
_MENDED = "Download the file again, or save it anew with the safetensors library."


def read_safetensors(file: MappedFile, part: int = 0) -> dict[str, TensorInfo]:
    """Return the tensors of a file in the order of their bytes, after checking its whole header.

    part: which file of a checkpoint this is. Errors: F150 to F164.
    """
    size = file.identity.size
    name = shown(file.path.name)
    start = _LENGTH + _header_length(file, name)
    header = read_json(bytes(file.data[_LENGTH:start]), name, BAD_JSON)
    _check_metadata(header.pop("__metadata__", {}), name)
    found = [_tensor(name, key, row, start, size, part) for key, row in header.items()]
    found.sort(key=lambda info: (info.offset, info.size))
    at = start
    for info in found:
        _check_place(name, info, at)
        at = info.offset + info.size
    if at != size:
        _refuse(TRAILING, name, f"has {size - at} bytes after its last tensor, which ends at byte {at}.")
    return {info.name: info for info in found}


def read_json(data: bytes, name: str, wrong: str) -> dict[str, Any]:
    """Return the JSON object that these bytes spell. wrong: the code if they do not. Errors: `wrong`, F153."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            first = {key: place for place, (key, _) in reversed([*enumerate(pairs)])}
            twice = next(key for place, (key, _) in enumerate(pairs) if first[key] < place)
            _refuse(DUPLICATE_NAME, name, f"has the name {shown(twice)} twice.")
        return found

    def no_number(text: str) -> NoReturn:
        raise ValueError(f"{text} is not a number of JSON")

    try:
        if not data.startswith(b"{"):
            raise ValueError("it does not begin with `{`")
        found = json.loads(data.decode(), object_pairs_hook=once, parse_constant=no_number)
    except (ValueError, RecursionError) as fault:
        _refuse(wrong, name, f"holds no JSON object where one must be: {str(fault)[:120]}.")
    assert isinstance(found, dict)
    return found


def _header_length(file: MappedFile, name: str) -> int:
    size = file.identity.size
    if size < _LENGTH:
        _refuse(TOO_SHORT, name, f"has {size} bytes; its header's length alone takes {_LENGTH}.")
    length = int.from_bytes(file.data[:_LENGTH], "little")
    most = min(size - _LENGTH, _LARGEST, (4 * size + _ROOM) // _COST)
    if not 2 <= length <= most:
        _refuse(HEADER_LENGTH, name, f"says that its header has {length} bytes; in this file 2 to {most} are possible.")
    return length


def _check_metadata(found: Any, name: str) -> None:
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        _refuse(BAD_METADATA, name, "has a `__metadata__` that does not map text to text.")


def _tensor(name: str, key: str, row: Any, start: int, size: int, part: int) -> TensorInfo:
    """Return one tensor, after checking its row of the header. start: first byte of the data. size: of the file."""
    if not 1 <= len(key) <= _LONGEST_NAME:
        _refuse(BAD_TENSOR_NAME, name, f"has a tensor name of {len(key)} characters; 1 to {_LONGEST_NAME} are allowed.")
    if not isinstance(row, dict) or set(row) != {"dtype", "shape", "data_offsets"}:
        _refuse(BAD_ROW, name, f"must give {shown(key)} a `dtype`, a `shape` and `data_offsets`, and nothing else.")
    shape = _numbers(name, key, "shape", row["shape"], BAD_SHAPE)
    offsets = _numbers(name, key, "data_offsets", row["data_offsets"], BAD_ROW)
    if len(offsets) != 2:
        _refuse(BAD_ROW, name, f"gives {shown(key)} {len(offsets)} data offsets, not two.")
    element = _element(name, key, row["dtype"])
    if len(shape) > _RANK or 0 in shape:
        _refuse(BAD_SHAPE, name, f"gives {shown(key)} the shape {list(shape)}: up to {_RANK} dimensions, none 0.")
    low, high = offsets
    if start + high > size or low > high:
        _refuse(BEYOND, name, f"puts {shown(key)} at bytes {low} to {high} of its {size - start} bytes of data.")
    need = prod(shape) * element.bits // 8
    if need != high - low:
        _refuse(BAD_SIZE, name, f"gives {shown(key)}, {element}{list(shape)}, {high - low} bytes; it has {need}.")
    return TensorInfo(key, element, shape, start + low, need, part)


def _numbers(name: str, key: str, what: str, found: Any, wrong: str) -> tuple[int, ...]:
    """Return a list of whole numbers from 0 on, all below 2^63."""
    if not isinstance(found, list) or not all(type(value) is int and 0 <= value < 1 << 63 for value in found):
        _refuse(wrong, name, f"gives {shown(key)} a `{what}` that is no list of whole numbers from 0 below 2^63.")
    return tuple(found)


def _element(name: str, key: str, found: Any) -> Element:
    if not isinstance(found, str) or found not in _DTYPES:
        _refuse(
            BAD_DTYPE, name, f"gives {shown(key)} the unknown type {shown(found)}.", nearest(str(found), list(_DTYPES))
        )
    ours = _DTYPES[found]
    if ours is None:
        known = ", ".join(theirs for theirs, element in _DTYPES.items() if element)
        _refuse(UNREAD_DTYPE, name, f"holds {shown(key)} as {found}.", f"Save the checkpoint as one of: {known}.")
    return ELEMENTS[ours]


def _check_place(name: str, info: TensorInfo, at: int) -> None:
    """Refuse a tensor that does not begin where the one before ends."""
    if info.offset < at:
        _refuse(OVERLAPPING, name, f"puts {shown(info.name)} at byte {info.offset}, inside the tensor before it.")
    if info.offset > at:
        _refuse(HOLE, name, f"has {info.offset - at} bytes before {shown(info.name)} that belong to no tensor.")


def _refuse(code: str, name: str, what: str, remedy: str = _MENDED) -> NoReturn:
    raise BitternError(code, f"{name} {what}", remedy)
