"""The walk over a network's graph: one row a library function or op says what it is in the file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from bittern.base.errors import BitternError, code
from bittern.front.network.network import Network
from bittern.graph.node import Function, Node, walk
from bittern.passes.applied import Applied, applied
from bittern.passes.known import array_of
from bittern.passes.rewriting import users_of
from bittern.runtime.onnx_export.file import SMALL, Array, File, Unsaid, Value
from bittern.types.dims import Dim
from bittern.types.elements import Element
from bittern.types.values import Tensor

NOT_SAID = code("N431", "layers of a network have no form in the file that it is exported to")

LayerRow = Callable[["Walk", Node, Applied], Value]
OpRow = Callable[["Walk", Node], Value]
_ON_DEMAND = ("windows", "pad", "broadcast", "fill", "const", "tuple", "item", "size")
_FLIPPING = ("dense.", "convolution.conv", "convolution.depthwise", "convolution.pointwise")


@dataclass(slots=True)
class Walk:
    """See the module. made: values by node. failed: reasons by node. users: who reads a node."""

    file: File
    network: Network
    function: Function
    layers: Mapping[str, LayerRow]
    ops: Mapping[str, OpRow]
    made: dict[bytes, Value] = field(default_factory=dict)
    failed: dict[bytes, str] = field(default_factory=dict)
    users: Mapping[bytes, list[tuple[Node, int]]] = field(default_factory=dict)

    def content(self) -> bytes:
        """Return the file's bytes. Raises N431, with all that has no form."""
        self.users = users_of(self.function)
        told: dict[str, None] = {}
        for node in walk(self.function.result):
            if node.kind in _ON_DEMAND or any(each.id in self.failed for each in node.inputs):
                if any(each.id in self.failed for each in node.inputs):
                    self.failed[node.id] = ""
                continue
            try:
                self.value(node)
            except Unsaid as reason:
                self.failed[node.id] = str(reason)
                told[f"{self.label(node)}: {reason}"] = None
        if told:
            raise BitternError(
                NOT_SAID,
                f"No form in `{self.file.form}` for {'; '.join(told)}.",
                "Export the static program (--to elf), which holds every network.",
            )
        result = self.function.result
        ends = result.inputs if result.kind == "tuple" else (result,)
        return self.file.content(self.network, [self.value(each) for each in ends])

    def label(self, node: Node) -> str:
        """Return what people call a node, with its operation."""
        layer = applied(node)
        what = layer.name if layer is not None else node.kind
        name = self.function.labels.nodes.get(node.id)
        return f"`{name}` ({what})" if name else f"`{what}`"

    def value(self, node: Node) -> Value:
        """Return a node's value, written to the file if it is not there yet. Raises Unsaid."""
        if node.id not in self.made:
            self.made[node.id] = self._new(node)
        return self.made[node.id]

    def _new(self, node: Node) -> Value:
        if node.kind == "const":
            array, element = array_of(node), self.element(node)
            if array is None or element.is_format or element.name in ("bf16", "f16", "f64"):
                raise Unsaid(f"constants of {element} are not written")
            return self.file.known(array, element.is_float)
        layer = applied(node)
        if layer is not None:
            row = self.layers.get(layer.name)
            if row is None:
                raise Unsaid("the function has no row")
            return row(self, node, layer)
        if node.kind not in self.ops:
            raise Unsaid("the operation has no row")
        return self.ops[node.kind](self, node)

    # What rows ask.

    def element(self, node: Node) -> Element:
        """Return the element of a node."""
        if not isinstance(node.type, Tensor):
            raise Unsaid("it makes several values")
        return node.type.element

    def shape(self, node: Node) -> tuple[int, ...]:
        """Return the sizes of a node, -1 where they depend on the batch. Raises Unsaid where several do."""
        assert isinstance(node.type, Tensor), node
        sizes = tuple(-1 if size.constant is None else size.constant for size in node.type.shape)
        return sizes

    def small(self, node: Node) -> Value:
        """Return whole numbers that float32 holds. Raises Unsaid."""
        value = self.value(node)
        if value.carrier == "small":
            return value
        if value.carrier == "wide" and value.reach <= SMALL:
            return replace(value, name=self.file.named(value, "small"), carrier="small")
        raise Unsaid("its operand is no whole number of 24 bits")

    def weights(self, array: Array) -> str:
        """Return the name of weights as products take them."""
        return self.file.constant(np.ascontiguousarray(array), np.float32)

    def flip(self, node: Node) -> Array:
        """Return for each channel of a layer with weights -1 where it feeds one falling threshold alone, else 1."""
        layer, readers = applied(node), self.users.get(node.id, [])
        assert isinstance(node.type, Tensor), node
        whole = np.ones(node.type.shape[-1].constant or 1, np.int64)
        if layer is None or not layer.name.startswith(_FLIPPING) or layer.name.endswith("grouped") or len(readers) != 1:
            return whole
        stage = applied(readers[0][0])
        if stage is None or stage.name != "thresholds.sign_at" or stage.arguments[0] is not node:
            return whole
        falling = array_of(stage.arguments[2])
        return whole if falling is None else np.where(falling, -1, 1).astype(np.int64)

    def reshaped(self, value: Value, node: Node) -> Value:
        """Return a value in the shape of a node, its channels last."""
        shape = self.shape(node)
        if shape.count(-1) > 1:
            raise Unsaid("several sizes depend on the batch")
        last = self.file.last(value)
        name = self.file.op("Reshape", self.file.named(last), self.file.constant(shape, np.int64))
        return replace(last, name=name, rank=len(shape), array=None, is_thin=False)


def number(value: object) -> int:
    """Return an attribute that is a known size. Raises Unsaid."""
    found = value.constant if isinstance(value, Dim) else value
    if not isinstance(found, int):
        raise Unsaid("a size depends on the batch")
    return found
