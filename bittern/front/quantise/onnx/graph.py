"""An ONNX model as plain values: nodes, constants, and the one input that data go to.

In: a file, which the importer has checked. Out: the parsed file and a `Graph` of it. Values that
depend on no input are constants, also where nodes compute them. Data in other files are
not read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.front.checkpoint import MappedFile, shown
from bittern.front.onnx.reading import NO_ONNX
from bittern.front.onnx.reading import graph_of as checked_graph

INPUTS = code("N432", "the ONNX model does not have one input and one output of floats")

_FLOAT = 1  # TensorProto.FLOAT


@dataclass(frozen=True, slots=True)
class Node:
    """One operation. domain: "" is ONNX itself. attributes: numbers, lists, text or arrays by name."""

    name: str
    op: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    def attribute(self, name: str, default: Any) -> Any:
        """Return an attribute, text as str."""
        found = self.attributes.get(name, default)
        return found.decode() if isinstance(found, bytes) else found


@dataclass(frozen=True, slots=True)
class Graph:
    """A model. constants: by tensor name, 4-bit codes as int8. types: the file's type number of a constant.

    input: the tensor that data go to; its shape with the batch in front, None where a size is open. version: of ONNX.
    """

    nodes: tuple[Node, ...]
    constants: dict[str, npt.NDArray[Any]]
    types: dict[str, int]
    input: str
    shape: tuple[int | None, ...]
    output: str
    version: int

    def producer(self, tensor: str) -> Node | None:
        """Return the node that makes a tensor; None for an input or a constant."""
        return next((node for node in self.nodes if tensor in node.outputs), None)

    def consumers(self, tensor: str) -> list[Node]:
        """Return the nodes that read a tensor."""
        return [node for node in self.nodes if tensor in node.inputs]


def onnx_package() -> Any:
    """Return the package onnx. Errors: N201."""
    try:
        return import_module("onnx")
    except ImportError as fault:
        raise BitternError(
            NO_ONNX, "ONNX files are read with the package onnx.", "`pip install onnx` brings it."
        ) from fault


def read_model(path: Path) -> Any:
    """Return the parsed file, an `onnx.ModelProto`, after the importer's checks. Errors: F101 to F104, N201 to N209."""
    onnx = onnx_package()
    file = MappedFile(path)
    try:
        content = bytes(file.data)
    finally:
        file.close()
    checked_graph(content, path.stem, None, shown(path.name))
    return onnx.ModelProto.FromString(content)


def graph_of(model: Any) -> Graph:
    """Return the graph of a parsed file; computed constants are still nodes. Errors: N432."""
    onnx = onnx_package()
    held = {row.name for row in model.graph.initializer}
    inputs = [row for row in model.graph.input if row.name not in held]
    floats = [row for row in inputs if row.type.tensor_type.elem_type == _FLOAT]
    if len(inputs) != 1 or len(floats) != 1 or len(model.graph.output) < 1:
        raise BitternError(
            INPUTS,
            f"The model has the inputs {', '.join(shown(row.name) for row in inputs) or 'none'}.",
            "Models with one input of f32 can be quantised.",
        )
    sizes = inputs[0].type.tensor_type.shape.dim
    return Graph(
        tuple(_node(onnx, row) for row in model.graph.node),
        {row.name: plain_array(onnx, row) for row in model.graph.initializer},
        {row.name: row.data_type for row in model.graph.initializer},
        inputs[0].name,
        tuple(size.dim_value if size.dim_value > 0 else None for size in sizes),
        model.graph.output[0].name,
        next((row.version for row in model.opset_import if row.domain in ("", "ai.onnx")), 1),
    )


def _node(onnx: Any, row: Any) -> Node:
    attributes = {}
    for each in row.attribute:
        value = onnx.helper.get_attribute_value(each)
        attributes[each.name] = plain_array(onnx, value) if isinstance(value, onnx.TensorProto) else value
    domain = "" if row.domain == "ai.onnx" else row.domain
    name = row.name or (row.output[0] if row.output else row.op_type)
    return Node(name, row.op_type, domain, tuple(row.input), tuple(row.output), attributes)


def plain_array(onnx: Any, tensor: Any) -> npt.NDArray[Any]:
    """Return a stored tensor as an array; codes of fewer than 8 bits as int8 or uint8."""
    array = np.asarray(onnx.numpy_helper.to_array(tensor))
    if array.dtype.name in ("int4", "int2"):
        return array.astype(np.int8)
    return array.astype(np.uint8) if array.dtype.name in ("uint4", "uint2") else array
