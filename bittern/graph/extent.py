"""How much a map makes for each of its elements, to decide whether it runs whole or in parts.

A map is one batch, so an intermediate value of its body is as large as all elements together. Where that is too much
memory, the map runs over parts of its first axis; bits do not depend on it. A part costs what the body makes from
captured values alone, once more; so a map is not parted where that is much, nor where its elements meet in a kernel,
which wants the whole batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from bittern.graph.flow import Flow, Instruction, leaf_types
from bittern.graph.node import Function, Node
from bittern.types.dims import Dim
from bittern.types.values import Tensor, storage_shape

Levels: TypeAlias = frozenset[int]  # the maps on whose element a value depends; 0 is the one in question

_VIEWS = frozenset(
    ("reshape", "permute", "reverse", "slice", "broadcast", "fill", "windows", "blocks", "move", "const")
)
_WHOLE = 64 << 20  # bytes of one intermediate value up to which a map runs whole
_PART = 16 << 20  # bytes of it in one part
_FOLDED = 4 << 20  # bytes of a folded result up to which it is computed at once
_FOLDED_PART = 1 << 20  # bytes of it in one part
_SHARE = 4  # parts may repeat a quarter of the work


@dataclass(slots=True)
class Extent:
    """What a body makes, in bytes. largest: the largest value that depends on the element, for one element.

    varying: all such values. fixed: all others. meets: elements meet in a kernel.
    """

    largest: int = 0
    varying: int = 0
    fixed: int = 0
    meets: bool = False

    def add(self, size: int, levels: Levels) -> None:
        """Count a value."""
        if 0 in levels:
            self.largest = max(self.largest, size)
            self.varying += size
        else:
            self.fixed += size


def part_of(flow: Flow, kernels: Mapping[bytes, object], node: Node, dims: tuple[int, ...]) -> int | None:
    """Return how many elements of a map run at a time, or None for all."""
    body, count = node["body"], node["count"]
    assert isinstance(body, Function) and isinstance(count, Dim), node
    length = count.value(dims)
    if length < 2:
        return None
    arrays = mapped_leaves(node)
    params = [frozenset((0,)) if i < arrays else frozenset() for i in range(flow.summary(body).body.params)]
    meter = _Meter(flow, kernels, Extent())
    meter.walk(body, dims, params)
    extent = meter.extent
    if extent.meets or length * extent.largest <= _WHOLE:
        return None
    part = max(1, _PART // extent.largest)
    parts = -(-length // part)
    return part if (parts - 1) * extent.fixed * _SHARE <= length * extent.varying else None


def part_of_result(node: Node, dims: tuple[int, ...]) -> int | None:
    """Return how many elements of a map of known values are computed at a time, or None for all."""
    count = node["count"]
    assert isinstance(count, Dim), node
    length, size = (
        count.value(dims),
        sum(_size(leaf, dims) for leaf in leaf_types(node.type) if isinstance(leaf, Tensor)),
    )
    return max(1, _FOLDED_PART * length // size) if length > 1 and size > _FOLDED else None


def mapped_leaves(node: Node) -> int:
    """Return how many of a map's input leaves are walked; the others are captured."""
    mapped = node["mapped"]
    assert isinstance(mapped, int), node
    return sum(len(leaf_types(source.type)) for source in node.inputs[:mapped])


@dataclass(slots=True)
class _Meter:
    flow: Flow
    kernels: Mapping[bytes, object]
    extent: Extent
    counts: list[int] = field(default_factory=lambda: [1])

    def walk(self, function: Function, dims: tuple[int, ...], params: Sequence[Levels]) -> list[Levels]:
        """Count what a function makes; return the levels of its results. params: those of its parameter leaves."""
        body = self.flow.summary(function).body
        levels = [*params, *[frozenset[int]()] * (body.leaves - body.params)]
        for instruction in body.instructions:
            inputs = [levels[leaf] for leaf in instruction.inputs]
            for leaf, result in zip(instruction.outputs, self._visit(instruction, dims, inputs), strict=True):
                levels[leaf] = result
        return [levels[leaf] for leaf in body.results]

    def _visit(self, instruction: Instruction, dims: tuple[int, ...], inputs: list[Levels]) -> list[Levels]:
        node = instruction.node
        together = frozenset[int]().union(*inputs)
        everywhere = [together] * len(instruction.outputs)
        if node.kind == "call":
            function, values = node["function"], node["dims"]
            assert isinstance(function, Function) and isinstance(values, tuple), node
            if function.id in self.kernels:
                self.extent.meets |= 0 in together
            else:
                inner = tuple(value.value(dims) for value in values if isinstance(value, Dim))
                return self.walk(self.flow.target(function), inner, inputs)
        elif node.kind == "map":
            return self._visit_map(node, dims, inputs)
        elif node.kind in ("if", "for", "while"):
            for name in ("then", "otherwise", "test", "body"):
                if node.has(name):
                    self._visit_body(node[name], dims, together)
            return everywhere
        if node.kind not in _VIEWS:
            factor = 1
            for level in together:
                factor *= self.counts[level]
            for leaf in leaf_types(node.type):
                if isinstance(leaf, Tensor):
                    self.extent.add(factor * _size(leaf, dims), together)
        return everywhere

    def _visit_map(self, node: Node, dims: tuple[int, ...], inputs: list[Levels]) -> list[Levels]:
        body, count = node["body"], node["count"]
        assert isinstance(body, Function) and isinstance(count, Dim), node
        level = len(self.counts)
        self.counts.append(count.value(dims))
        arrays = mapped_leaves(node)
        params = [own | {level} if i < arrays else own for i, own in enumerate(inputs)]
        return [result - {level} for result in self.walk(body, dims, params)]

    def _visit_body(self, function: object, dims: tuple[int, ...], levels: Levels) -> None:
        assert isinstance(function, Function), function
        self.walk(function, dims, [levels] * self.flow.summary(function).body.params)


def _size(type_: Tensor, dims: tuple[int, ...]) -> int:
    size = 8 if type_.element.is_float else -(-type_.element.bits // 8) or 1
    for extent in storage_shape(type_, dims):
        size *= extent
    return size
