"""The parts of a TFLite file, as values: tensors, operators and buffers of its one graph, with every index checked.

In: a path. Out: a `Model`. Field numbers are those of the schema of TFLite, version 3 (lite/schema/schema.fbs of
TensorFlow). What a tensor's bytes are is checked against its shape and type; what operators mean is not looked at here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite, prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.front.checkpoint import MappedFile, shown
from bittern.front.tflite.factors import RANGES
from bittern.front.tflite.flatbuffer import MENDED, Bytes, Table

NOT_TFLITE = code("N301", "the file is not a TFLite model")
BAD_VERSION = code("N302", "the TFLite file has another schema version than 3")
BAD_INDEX = code("N308", "an index in the TFLite file refers to nothing")
BAD_SHAPE = code("N309", "a tensor of the TFLite file has a negative or dynamic size, or too many values")
BAD_BUFFER = code("N310", "the bytes of a constant in the TFLite file do not fit its shape and type")
BAD_TYPE = code("N311", "a tensor of the TFLite file has a type that Bittern does not read")
BAD_SCALE = code("N312", "scales or zero points in the TFLite file are no quantisation")
BAD_ORDER = code("N313", "an operator of the TFLite file reads what was never written, or writes what was")
SUBGRAPHS = code("N314", "the TFLite file has no graph, or more than one")

IDENTIFIER = b"TFL3"
VERSION = 3
RANK_LIMIT = 8
VALUE_LIMIT = 1 << 28  # of one tensor
OPERATOR_LIMIT = 1 << 16
TENSOR_LIMIT = 1 << 17

# Type numbers: (name, numpy dtype). A value of type int4 takes half a byte, the first in the low bits.
TYPES: Mapping[int, tuple[str, str]] = {
    0: ("f32", "f4"),
    1: ("f16", "f2"),
    2: ("i32", "i4"),
    3: ("u8", "u1"),
    4: ("i64", "i8"),
    6: ("bool", "u1"),
    7: ("i16", "i2"),
    9: ("i8", "i1"),
    10: ("f64", "f8"),
    12: ("u64", "u8"),
    15: ("u32", "u4"),
    16: ("u16", "u2"),
    17: ("i4", "i1"),
}
_OTHER_TYPES = {5: "text", 8: "complex64", 11: "complex128", 13: "resource", 14: "variant", 18: "bfloat16"}


@dataclass(frozen=True, slots=True)
class Quantisation:
    """Codes q stand for scale * (q - zero). scale: f32 [1], or one for each channel along `axis`; zero too."""

    scale: npt.NDArray[np.float32]
    zero: npt.NDArray[np.int64]
    axis: int


@dataclass(frozen=True, slots=True)
class TensorRow:
    """One tensor. element: `f32`, `i8`, ... data: the values of a constant, None for all others."""

    index: int
    name: str
    shape: tuple[int, ...]
    element: str
    quantisation: Quantisation | None
    data: npt.NDArray[Any] | None
    is_variable: bool


@dataclass(frozen=True, slots=True)
class OperatorCode:
    """What operators do. number: of the builtin operator. custom: the name of a custom one, else empty."""

    number: int
    custom: str
    version: int


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """One operator. inputs: tensor numbers, -1 for one that is left out. options: the table of its options."""

    index: int
    code: OperatorCode
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    intermediates: tuple[int, ...]
    options: Table | None


@dataclass(frozen=True, slots=True)
class Model:
    """A whole model. inputs, outputs: tensor numbers. metadata: the names of what the file carries besides."""

    name: str
    description: str
    tensors: tuple[TensorRow, ...]
    operators: tuple[OperatorRow, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)


def is_tflite(path: Path) -> bool:
    """Whether the path is a regular file that begins like a TFLite model; says nothing about the rest of it."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(8)[4:] == IDENTIFIER
    except (OSError, ValueError):
        return False


def read_model(path: Path) -> Model:
    """Read a TFLite file whole and check it.

    Errors: F101 to F105 if it cannot be opened, N301 to N314 for what is wrong in it.
    """
    file = MappedFile(path)
    try:
        return parse_model(bytes(file.data), path.name)
    finally:
        file.close()


def parse_model(data: bytes, name: str) -> Model:
    """Read a model from bytes. name: of the file. Errors: N301 to N314."""
    file = Bytes(memoryview(data), shown(name))
    if data[4:8] != IDENTIFIER:
        file.refuse(NOT_TFLITE, f"bytes 4 to 7 are {data[4:8]!r}, not {IDENTIFIER!r}.", "Give a .tflite file.")
    root = file.root()
    version = root.number(0, "I")
    if version != VERSION:
        file.refuse(BAD_VERSION, f"its schema has version {version}.", f"Bittern reads version {VERSION}.")
    graphs = root.tables(2, "graph", 1 << 10)
    if len(graphs) != 1:
        file.refuse(SUBGRAPHS, f"it has {len(graphs)} graphs.", "Models of one graph are read, without control flow.")
    codes = [_operator_code(row) for row in root.tables(1, "operator code", 1 << 12)]
    graph = graphs[0]
    buffers = _Buffers(file, root.tables(4, "buffer", TENSOR_LIMIT))
    tensors = tuple(_tensor(k, row, buffers) for k, row in enumerate(graph.tables(0, "tensor", TENSOR_LIMIT)))
    operators = tuple(
        _operator(k, row, codes, len(tensors)) for k, row in enumerate(graph.tables(3, "operator", OPERATOR_LIMIT))
    )
    inputs = _indices(graph, 1, "the inputs of the graph", len(tensors))
    outputs = _indices(graph, 2, "the outputs of the graph", len(tensors))
    model = Model(
        graph.text(4, "the name of the graph") or Path(name).stem,
        root.text(3, "the description"),
        tensors,
        operators,
        inputs,
        outputs,
        MappingProxyType(_metadata(root)),
    )
    _check_order(model, file)
    return model


def _metadata(root: Table) -> dict[str, str]:
    return {row.text(0, "the name of metadata"): "" for row in root.tables(6, "metadata", 1 << 10)}


def _operator_code(row: Table) -> OperatorCode:
    number = max(row.number(0, "b"), row.number(3, "i"))
    return OperatorCode(number, row.text(1, f"the custom name of {row.what}"), row.number(2, "i", 1))


class _Buffers:
    """The vector of buffers: which bytes of the file a constant has."""

    def __init__(self, file: Bytes, rows: list[Table]) -> None:
        self.file, self._rows = file, rows

    def data(self, index: int, of: Table) -> memoryview | None:
        """Return the bytes of a buffer; None for one without any."""
        if index >= len(self._rows):
            of.refuse(BAD_INDEX, f"has buffer {index}, but there are {len(self._rows)}.")
        row = self._rows[index]
        apart, size = row.number(1, "Q"), row.number(2, "Q")
        if apart > 1:  # beyond the FlatBuffer itself, in large models
            self.file.need(apart, size, row.what)
            return self.file.data[apart : apart + size]
        span = row.span(0, row.what)
        return None if span is None or not span[1] else self.file.data[span[0] : span[0] + span[1]]


def _tensor(index: int, row: Table, buffers: _Buffers) -> TensorRow:
    name = row.text(3, f"the name of {row.what}")
    shape = _shape(row, name)
    number = row.number(1, "b")
    if number not in TYPES:
        known = _OTHER_TYPES.get(number, f"number {number}")
        row.refuse(BAD_TYPE, f"{shown(name)}, has the type {known}.", "Convert the model to int8 or float.")
    element, dtype = TYPES[number]
    if row.table(6, "the sparsity of a tensor") is not None:
        row.refuse(BAD_TYPE, f"{shown(name)}, is stored sparsely.", "Convert the model without sparse tensors.")
    data = buffers.data(row.number(2, "I"), row)
    values = None if data is None else _values(row, name, shape, element, dtype, data, buffers.file)
    return TensorRow(index, name, shape, element, _quantisation(row, name, shape, element), values, row.truth(5))


def _shape(row: Table, name: str) -> tuple[int, ...]:
    sizes = row.numbers(0, "i4", f"the shape of {row.what}")
    shape = tuple(int(size) for size in sizes) if sizes is not None else ()
    dynamic = row.numbers(7, "i4", f"the shape signature of {row.what}")
    if dynamic is not None and any(int(size) < 0 for size in dynamic[1:]):
        row.refuse(
            BAD_SHAPE,
            f"{shown(name)}, has a size that is known only when the model runs.",
            "Convert the model with fixed sizes; only the batch, which comes first, may be open.",
        )
    if len(shape) > RANK_LIMIT or any(size < 0 for size in shape) or prod(shape) > VALUE_LIMIT:
        row.refuse(BAD_SHAPE, f"{shown(name)}, has the shape {list(shape)[:16]}.", MENDED)
    return shape


def _values(
    row: Table, name: str, shape: tuple[int, ...], element: str, dtype: str, data: memoryview, file: Bytes
) -> npt.NDArray[Any]:
    count = prod(shape)
    form = np.dtype(dtype).newbyteorder("<")
    size = (count + 1) // 2 if element == "i4" else count * form.itemsize
    if len(data) != size:
        row.refuse(BAD_BUFFER, f"{shown(name)}, has {len(data)} bytes; {list(shape)} of {element} takes {size}.")
    file.charge(size, row.what)
    if element == "i4":
        pairs = np.frombuffer(data, np.uint8)
        codes = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(-1)[:count]
        return ((codes ^ 8).astype(np.int8) - 8).reshape(shape)
    return np.frombuffer(data, form).astype(dtype).reshape(shape)


def _quantisation(row: Table, name: str, shape: tuple[int, ...], element: str) -> Quantisation | None:
    table = row.table(4, f"the quantisation of {row.what}")
    scale = None if table is None else table.numbers(2, "f4", "scales")
    if table is None or scale is None or not len(scale):
        return None
    if table.number(4, "B"):
        row.refuse(BAD_SCALE, f"{shown(name)}, is quantised in a custom way.", "Convert the model to plain int8.")
    zeros = table.numbers(3, "i8", "zero points")
    zero = np.zeros(len(scale), np.int64) if zeros is None or not len(zeros) else zeros
    axis = table.number(6, "i")
    channels = shape[axis] if 0 <= axis < len(shape) else 1
    fits = len(scale) == 1 or (len(scale) == channels and 0 <= axis < len(shape))
    if not fits or len(zero) not in (1, len(scale)):
        row.refuse(
            BAD_SCALE,
            f"{shown(name)}, has {len(scale)} scales and {len(zero)} zero points for axis {axis} of {list(shape)}.",
        )
    good = all(isfinite(each) and each > 0 for each in scale.tolist())
    low, high = RANGES.get(element, RANGES["i32"])
    if not good or zero.min() < low or zero.max() > high:
        what = f"has a scale that is not a positive number, or a zero point that is no {element}"
        row.refuse(BAD_SCALE, f"{shown(name)}, {what}.")
    return Quantisation(scale, np.broadcast_to(zero, scale.shape).copy(), axis)


def _operator(index: int, row: Table, codes: list[OperatorCode], tensors: int) -> OperatorRow:
    number = row.number(0, "I")
    if number >= len(codes):
        row.refuse(BAD_INDEX, f"has operator code {number}, but there are {len(codes)}.")
    inputs = _indices(row, 1, f"the inputs of {row.what}", tensors, least=-1)
    outputs = _indices(row, 2, f"the outputs of {row.what}", tensors)
    inner = _indices(row, 8, f"the intermediates of {row.what}", tensors, least=-1)
    return OperatorRow(index, codes[number], inputs, outputs, inner, row.table(4, f"the options of {row.what}"))


def _indices(row: Table, place: int, what: str, count: int, least: int = 0) -> tuple[int, ...]:
    found = row.numbers(place, "i4", what)
    for each in [] if found is None else found.tolist():
        if not least <= each < count:
            row.refuse(BAD_INDEX, f"names tensor {each} among {what}, but there are {count}.")
    return () if found is None else tuple(found.tolist())


def _check_order(model: Model, file: Bytes) -> None:
    """Refuse unless every tensor is written before it is read, and once."""
    known = {*model.inputs, *(t.index for t in model.tensors if t.data is not None or t.is_variable)}
    if len(set(model.inputs)) != len(model.inputs):
        _out_of_order(file, "the graph", "has an input twice")
    for each in model.operators:
        for index in each.inputs:
            if index >= 0 and index not in known:
                _out_of_order(file, f"operator {each.index}", f"reads tensor {index}, which nothing has written")
        for index in each.outputs:
            if index in known:
                _out_of_order(file, f"operator {each.index}", f"writes tensor {index}, which has a value already")
            known.add(index)
    for index in model.outputs:
        if index not in known:
            _out_of_order(file, "the graph", f"gives tensor {index}, which nothing has written")


def _out_of_order(file: Bytes, who: str, what: str) -> NoReturn:
    raise BitternError(BAD_ORDER, f"{file.name}: {who} {what}.", MENDED)
