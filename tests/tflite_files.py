"""TFLite models made by hand, for tests: a writer of FlatBuffers, and the parts of a model as Python values.

It shares nothing with the reader. A table is a mapping from field number to value: `(letter, number)` for a scalar,
with a letter of `struct`; a text; bytes; `Numbers`; a table; or a list of tables.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
TYPES = {"f32": 0, "i32": 2, "u8": 3, "i64": 4, "bool": 6, "i16": 7, "i8": 9, "i4": 17}
DTYPES = {"f32": "<f4", "i32": "<i4", "u8": "u1", "i64": "<i8", "bool": "u1", "i16": "<i2", "i8": "i1", "i4": "u1"}


@dataclass(frozen=True)
class Numbers:
    """A vector of numbers. form: a letter of `struct`."""

    form: str
    values: Sequence[float]


class Writer:
    """The bytes of a FlatBuffer, parents before children."""

    def __init__(self, identifier: bytes) -> None:
        self.data = bytearray(8)
        self.data[4:8] = identifier
        self._waiting: list[tuple[int, Any]] = []

    def finish(self, root: Mapping[int, Any]) -> bytes:
        """Return the file with this root table."""
        self._waiting.append((0, root))
        while self._waiting:
            place, value = self._waiting.pop(0)
            target = self._write(value)
            struct.pack_into("<I", self.data, place, target - place)
        return bytes(self.data)

    def _pad(self, align: int, ahead: int = 0) -> None:
        while (len(self.data) + ahead) % align:
            self.data.append(0)

    def _write(self, value: Any) -> int:
        if isinstance(value, Mapping):
            return self._table(value)
        if isinstance(value, str):
            value = Numbers("B", value.encode())
            at = self._numbers(value)
            self.data.append(0)
            return at
        if isinstance(value, bytes):
            self._pad(16, 4)
            at = len(self.data)
            self.data += struct.pack("<I", len(value)) + value
            return at
        if isinstance(value, Numbers):
            return self._numbers(value)
        self._pad(4)
        at = len(self.data)
        self.data += struct.pack("<I", len(value))
        for each in value:
            self._waiting.append((len(self.data), each))
            self.data += bytes(4)
        return at

    def _numbers(self, value: Numbers) -> int:
        self._pad(max(4, struct.calcsize(value.form)), 4)
        at = len(self.data)
        self.data += struct.pack(f"<I{len(value.values)}{value.form}", len(value.values), *value.values)
        return at

    def _table(self, fields: Mapping[int, Any]) -> int:
        count = max(fields, default=-1) + 1
        places, size = {}, 4
        for number in sorted(fields, key=lambda n: -_width(fields[n])):
            width = _width(fields[number])
            size += -(size + 4) % width if width == 8 else -size % width
            places[number], size = size, size + width
        self._pad(8, 4 + 2 * count)
        vtable = len(self.data)
        self.data += struct.pack(f"<{2 + count}H", 4 + 2 * count, size, *(places.get(n, 0) for n in range(count)))
        self._pad(4)
        at = len(self.data)
        self.data += struct.pack("<i", at - vtable) + bytes(size - 4)
        for number, place in places.items():
            value = fields[number]
            if isinstance(value, tuple):
                struct.pack_into(f"<{value[0]}", self.data, at + place, value[1])
            else:
                self._waiting.append((at + place, value))
        return at


def _width(value: Any) -> int:
    return struct.calcsize(value[0]) if isinstance(value, tuple) else 4


@dataclass
class T:
    """One tensor. scale, zero: numbers, or one for each channel along `axis`. data: the values of a constant."""

    shape: Sequence[int]
    element: str = "i8"
    scale: float | Sequence[float] | None = None
    zero: int | Sequence[int] = 0
    data: Array | None = None
    axis: int = 0
    name: str = ""
    is_variable: bool = False


@dataclass
class Op:
    """One operator. options: (number of the union's type, fields). custom: a name instead of a number."""

    code: int
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: tuple[int, Mapping[int, Any]] | None = None
    version: int = 1
    custom: str = ""
    intermediates: Sequence[int] = ()


@dataclass
class Graph:
    """A model of one graph."""

    tensors: list[T]
    operators: list[Op]
    inputs: Sequence[int] = (0,)
    outputs: Sequence[int] = (1,)
    changes: dict[int, Any] = field(default_factory=dict)  # of the root table


def build(graph: Graph) -> bytes:
    """Return the file of a model."""
    buffers: list[Mapping[int, Any]] = [{}]
    tensors = []
    for each in graph.tensors:
        row: dict[int, Any] = {0: Numbers("i", list(each.shape)), 1: ("b", TYPES[each.element]), 3: each.name}
        if each.data is not None:
            row[2] = ("I", len(buffers))
            buffers.append({0: np.ascontiguousarray(each.data, DTYPES[each.element]).tobytes()})
        if each.scale is not None:
            scales = [each.scale] if isinstance(each.scale, int | float) else list(each.scale)
            zeros = [each.zero] if isinstance(each.zero, int) else list(each.zero)
            row[4] = {2: Numbers("f", scales), 3: Numbers("q", zeros), 6: ("i", each.axis)}
        if each.is_variable:
            row[5] = ("B", 1)
        tensors.append(row)
    codes = sorted({(each.code, each.custom, each.version) for each in graph.operators})
    operators = []
    for each in graph.operators:
        row = {
            0: ("I", codes.index((each.code, each.custom, each.version))),
            1: Numbers("i", list(each.inputs)),
            2: Numbers("i", list(each.outputs)),
        }
        if each.options is not None:
            row[3], row[4] = ("B", each.options[0]), each.options[1]
        if each.intermediates:
            row[8] = Numbers("i", list(each.intermediates))
        operators.append(row)
    root = {
        0: ("I", 3),
        1: [_code(*each) for each in codes],
        2: [
            {
                0: tensors,
                1: Numbers("i", list(graph.inputs)),
                2: Numbers("i", list(graph.outputs)),
                3: operators,
                4: "main",
            }
        ],
        3: "made by hand",
        4: buffers,
        **graph.changes,
    }
    return Writer(b"TFL3").finish({key: value for key, value in root.items() if value is not None})


def _code(number: int, custom: str, version: int) -> dict[int, Any]:
    row: dict[int, Any] = {0: ("b", min(number, 127)), 2: ("i", version), 3: ("i", number)}
    return {**row, 1: custom} if custom else row
