"""What is quantised in an ONNX graph: the constant weights of layers, and the tensors that integers should flow in.

A layer is a Conv, Gemm or MatMul with a constant matrix; its weights are seen as matrices [groups, rows, columns], a
row for each output. Its input is quantised as early as nothing but moves and maxima lies between, so that these run on
codes. Both operands of an addition, a product or a concatenation of computed tensors, and what is averaged, are
quantised too; the last results of the network are not.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.front.quantise.onnx.graph import Graph, Node
from bittern.front.quantise.onnx.windows import conv_patches

Array = npt.NDArray[Any]

_LAYERS = ("Conv", "Gemm", "MatMul")
_MOVES = ("MaxPool", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Identity", "Dropout")
_JOINS = ("Add", "Sub", "Mul", "Concat")
_MEANS = ("AveragePool", "GlobalAveragePool", "ReduceMean")


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer. weight: the name of its constant. axis: that of its output channels there."""

    node: Node
    weight: str
    axis: int

    @property
    def groups(self) -> int:
        """How many groups of channels a convolution has; else 1."""
        return int(self.node.attribute("group", 1)) if self.node.op == "Conv" else 1

    def matrices(self, weight: Array) -> Array:
        """Return the weights as matrices [groups, rows, columns]."""
        if self.node.op == "Conv":
            return weight.reshape(self.groups, len(weight) // self.groups, -1)
        return (weight.T if self.axis == 1 else weight)[None]

    def restored(self, matrices: Array, shape: tuple[int, ...]) -> Array:
        """Return matrices in the layout of the file."""
        if self.node.op == "Conv":
            return matrices.reshape(shape)
        return np.ascontiguousarray(matrices[0].T if self.axis == 1 else matrices[0])

    def inputs(self, x: Array, weight: Array) -> list[Array]:
        """Return by group what each output is computed from, [count, columns]."""
        if self.node.op == "Conv":
            views = conv_patches(self.node, x, weight.shape[2:])
            return [views[:, group].reshape(-1, views.shape[-1]) for group in range(self.groups)]
        x = x.T if self.node.attribute("transA", 0) else x
        return [x.reshape(-1, x.shape[-1])]


def layers(graph: Graph) -> list[Layer]:
    """Return the layers in the order of the file; a constant that several share is one layer's only."""
    found: list[Layer] = []
    taken: set[str] = set()
    for node in graph.nodes:
        if node.domain or node.op not in _LAYERS or len(node.inputs) < 2:
            continue
        weight = node.inputs[1]
        if weight not in graph.constants or node.inputs[0] in graph.constants or weight in taken:
            continue
        array = graph.constants[weight]
        if array.dtype != np.float32 or (node.op != "Conv" and array.ndim != 2):
            continue
        turned = node.op == "MatMul" or (node.op == "Gemm" and not node.attribute("transB", 0))
        found.append(Layer(node, weight, 1 if turned else 0))
        taken.add(weight)
    return found


def points(graph: Graph, chosen: list[Layer]) -> list[str]:
    """Return the tensors to be quantised, in the order in which they come about."""
    names = {layer.node.name for layer in chosen}
    asked: set[str] = set()
    for node in graph.nodes:
        computed = [name for name in node.inputs if name and name not in graph.constants]
        if node.domain:
            continue
        if node.name in names or (node.op in _MEANS and computed):
            asked.add(_earliest(graph, node.inputs[0]))
        elif node.op in (*_JOINS, "MatMul") and len(computed) > 1:
            asked.update(_earliest(graph, name) for name in computed)
    order = [graph.input, *(name for node in graph.nodes for name in node.outputs)]
    return [name for name in order if name in asked]


def _earliest(graph: Graph, tensor: str) -> str:
    """Return the tensor of which this one is only moved values and maxima, if nothing else reads what is between."""
    node = graph.producer(tensor)
    while node is not None and not node.domain and node.op in _MOVES and node.inputs[0] not in graph.constants:
        if len(graph.consumers(node.inputs[0])) > 1 or node.inputs[0] == graph.output:
            break
        tensor = node.inputs[0]
        node = graph.producer(tensor)
    return tensor
