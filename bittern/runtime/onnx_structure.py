"""The structure of a graph as an ONNX file, so that viewers of ONNX can open it.

Only structure: every node keeps its operation (domain `bittern`), inputs, attributes as text and id; a called function
or a body is an ONNX function (domain `bittern.functions`). Weights are named by digest and stay where they are, and no
ONNX runtime can run the file, for the operations are not ONNX's.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from bittern.base.errors import BitternError, code
from bittern.graph.facts import attribute_texts
from bittern.graph.node import Function, Node, walk
from bittern.runtime.graph_record import functions_within
from bittern.runtime.page import write_file
from bittern.types.elements import Element
from bittern.types.values import Tensor, Token, Type
from bittern.types.values import Tuple as TupleType

NO_ONNX = code("R125", "the package onnx is not installed")
NO_GRAPH = code("R126", "there is no graph to export")

DOMAIN, FUNCTIONS = "bittern", "bittern.functions"
_IR_VERSION = 8  # the first with functions and value types of today's viewers
_ELEMENTS = {
    "bit": "BOOL",
    "f16": "FLOAT16",
    "bf16": "BFLOAT16",
    "f32": "FLOAT",
    "f64": "DOUBLE",
    "f8_e4m3": "FLOAT8E4M3FN",
    "f8_e5m2": "FLOAT8E5M2",
    **{f"{sign}{bits}": f"{word}{bits}" for sign, word in (("u", "UINT"), ("i", "INT")) for bits in (8, 16, 32, 64)},
}


def write_structure(path: Path, roots: Mapping[str, Function]) -> None:
    """Write the structure of functions as an ONNX file. Errors: R124, R125, R126."""
    write_file(path, structure(roots).SerializeToString())


def structure(roots: Mapping[str, Function]) -> Any:
    """Return the structure of functions as an `onnx.ModelProto`. Errors: R125, R126."""
    if not roots:
        raise BitternError(NO_GRAPH, "The file has no graph.", "`bittern inspect` says why.")
    try:
        onnx: Any = import_module("onnx")
    except ImportError as fault:
        raise BitternError(
            NO_ONNX, "The structure is written with the package onnx.", "`pip install 'bittern[interop]'` brings it."
        ) from fault
    return _Writer(onnx, _names(roots)).model(roots)


def _names(roots: Mapping[str, Function]) -> dict[bytes, str]:
    """Return a name for each function that roots reach: its own, made of word characters, and the start of its id."""
    known = functions_within(roots)
    return {f.id: re.sub(r"\W+", "_", f.labels.name or "body", flags=re.ASCII) + f"_{f.id.hex()[:12]}" for f in known}


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes functions. onnx: the package. names: of functions by id."""

    onnx: Any
    names: Mapping[bytes, str] = field(repr=False)

    def model(self, roots: Mapping[str, Function]) -> Any:
        """Return the whole model: each root's nodes in one graph, all other functions beside it."""
        helper = self.onnx.helper
        nodes, inputs, outputs = [], [], []
        for label, function in roots.items():
            prefix = f"{label}." if len(roots) > 1 else ""
            part = _Part(self, function, prefix)
            nodes += part.nodes()
            inputs += [self.value(name, type_, function) for name, type_ in part.inputs()]
            outputs += [self.value(name, type_, function) for name, type_ in part.outputs()]
        graph = helper.make_graph(nodes, "bittern", inputs, outputs)
        callees = [f for f in functions_within(roots) if f.id not in {root.id for root in roots.values()}]
        opsets = [helper.make_opsetid(DOMAIN, 1), helper.make_opsetid(FUNCTIONS, 1), helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="bittern", ir_version=_IR_VERSION)
        model.functions.extend(self.function(f, opsets) for f in callees)
        return model

    def function(self, function: Function, opsets: Sequence[Any]) -> Any:
        """Return a callee or body as an ONNX function."""
        part = _Part(self, function, "")
        inputs, outputs = ([name for name, _ in side] for side in (part.inputs(), part.outputs()))
        name = self.names[function.id]
        made = self.onnx.helper.make_function(FUNCTIONS, name, inputs, outputs, part.nodes(), list(opsets))
        made.doc_string = f"{function.labels.name} {function.id.hex()}".strip()
        return made

    def value(self, name: str, type_: Type, function: Function) -> Any:
        """Return the declaration of a value; a token is a truth value without shape."""
        proto = self.onnx.TensorProto
        if not isinstance(type_, Tensor):
            return self.onnx.helper.make_tensor_value_info(name, proto.BOOL, [])
        kind = getattr(proto, _onnx_element(type_.element))
        sizes = [
            size.constant if size.constant is not None else size.text(function.labels.dims) for size in type_.shape
        ]
        return self.onnx.helper.make_tensor_value_info(name, kind, sizes, doc_string=str(type_.element))


def _onnx_element(element: Element) -> str:
    """Return the ONNX type nearest to an element: its own, that of the bytes it is kept in, or bytes for a format."""
    return _ELEMENTS.get(element.name) or ("INT8" if element.low < 0 and not element.is_format else "UINT8")


@dataclass(slots=True)
class _Part:
    """The nodes of one function. values: names of the leaves of each node that was written, by id."""

    writer: _Writer
    function: Function
    prefix: str
    values: dict[bytes, list[str]] = field(default_factory=dict)

    def inputs(self) -> list[tuple[str, Type]]:
        """Return names and types of the parameters' leaves."""
        return [
            pair
            for index, parameter in enumerate(self.function.params)
            for pair in zip(self._parameter(index), _parts(parameter.type), strict=True)
        ]

    def outputs(self) -> list[tuple[str, Type]]:
        """Return names and types of the result's leaves."""
        return [(f"{self.prefix}result.{i}", type_) for i, type_ in enumerate(_parts(self.function.result.type))]

    def nodes(self) -> list[Any]:
        """Return the nodes in order; items and tuples are only other names of values."""
        made = []
        for place, node in enumerate(walk(self.function.result)):
            if node.kind == "param":
                index = node["index"]
                assert isinstance(index, int)
                self.values[node.id] = self._parameter(index)
            elif node.kind == "tuple":
                self.values[node.id] = [name for i in node.inputs for name in self.values[i.id]]
            elif node.kind == "item":
                self.values[node.id] = self._item(node)
            else:
                made.append(self._node(node, place))
        results = self.values[self.function.result.id]
        helper = self.writer.onnx.helper
        for i, name in enumerate(results):
            made.append(helper.make_node("result", [name], [f"{self.prefix}result.{i}"], domain=DOMAIN))
        return made

    def _parameter(self, index: int) -> list[str]:
        names = self.function.labels.params
        name = f"{self.prefix}{names[index] if index < len(names) else 'p'}:{index}"
        parts = _parts(self.function.params[index].type)
        return [name] if len(parts) == 1 else [f"{name}.{i}" for i in range(len(parts))]

    def _item(self, node: Node) -> list[str]:
        (owner,), index = node.inputs, node["index"]
        assert isinstance(owner.type, TupleType) and isinstance(index, int)
        start = sum(len(_parts(item)) for item in owner.type.items[:index])
        return self.values[owner.id][start : start + len(_parts(node.type))]

    def _node(self, node: Node, place: int) -> Any:
        """Return one node; what it is called in Bittern is its name."""
        label = self.function.labels.nodes.get(node.id, "")
        name = f"{self.prefix}{place}:{label or node.kind}"
        parts = _parts(node.type)
        outputs = [name] if len(parts) == 1 else [f"{name}.{i}" for i in range(len(parts))]
        self.values[node.id] = outputs
        inputs = [value for i in node.inputs for value in self.values[i.id]]
        names = self.writer.names
        called = {key: names[value.id] for key, value in node.attributes if isinstance(value, Function)}
        helper = self.writer.onnx.helper
        if node.kind == "call":
            made = helper.make_node(called["function"], inputs, outputs, name=name, domain=FUNCTIONS)
        else:
            texts = {**attribute_texts(node, self.function.labels.dims), **called}
            made = helper.make_node(node.kind, inputs, outputs, name=name, domain=DOMAIN, **texts)
        made.doc_string = node.id.hex()
        return made


def _parts(type_: Type) -> list[Type]:
    """Return the tensors and tokens of a type, in order."""
    if isinstance(type_, TupleType):
        return [part for item in type_.items for part in _parts(item)]
    assert isinstance(type_, Tensor | Token), type_
    return [type_]
