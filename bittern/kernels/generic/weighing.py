"""What laying out a function depends on before it is laid out: sizes of bodies, sinks of values, widths of numbers."""

from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

from bittern.bitops.lanes import lanes
from bittern.graph.flow import Body, Flow, Instruction, leaf_types
from bittern.graph.node import Blob, Function, Node, functions_of
from bittern.kernels.generic.conversions import ROWS as ELEMENTWISE
from bittern.kernels.generic.scalars import register
from bittern.types.dims import Dim
from bittern.types.elements import Kind
from bittern.types.values import Tensor, Type, storage_shape

Dims: TypeAlias = tuple[int, ...]
Sink: TypeAlias = tuple[int, int]  # number of the instruction (-1: the result), position of the input

LOOP = 12  # weight of a loop beside its body
_SMALL = 64  # elements that may be in registers
_REARRANGED = ("reshape", "permute", "reverse", "slice", "windows", "blocks", "take", "move")
_VIEWS = frozenset((*_REARRANGED, "fill", "broadcast", "const", "iota", "size"))


@dataclass
class Weights:
    """Facts about functions, each found once."""

    flow: Flow
    _weights: dict[tuple[bytes, Dims], int] = field(default_factory=dict)
    _sinks: dict[bytes, list[frozenset[Sink]]] = field(default_factory=dict)
    _users: dict[bytes, list[frozenset[Sink]]] = field(default_factory=dict)
    _needs: dict[tuple[bytes, tuple[int, ...]], frozenset[int]] = field(default_factory=dict)
    _widths: dict[bytes, int] = field(default_factory=dict)

    def body(self, function: Function) -> Body:
        """Return the straight-line form of a function."""
        return self.flow.summary(function).body

    def weight(self, function: Function, dims: Dims) -> int:
        """Return about how many steps one run of a function is laid out as."""
        key = (function.id, dims)
        if key not in self._weights:
            self._weights[key] = sum(self._one(i, dims) for i in self.body(function).instructions)
        return self._weights[key]

    def _one(self, instruction: Instruction, dims: Dims) -> int:
        node = instruction.node
        size = sum(prod(shape) for shape in shapes(node.type, dims))
        if node.kind in _VIEWS:
            return 1
        if node.kind in ELEMENTWISE:
            return size if size <= _SMALL else LOOP
        if node.kind == "call":
            function, sizes = callee(node, dims)
            return self.weight(function, sizes)
        bodies = sum(self.weight(f, dims) for f in functions_of(node))
        if node.kind == "map":
            count = size_of(node, "count", dims)
            return count * bodies if count * bodies <= _SMALL else bodies + LOOP
        if node.kind == "for":
            return bodies * _rounds(node, dims) + LOOP
        if node.kind == "while":
            return bodies + LOOP
        if node.kind == "if":
            return bodies + 4
        inputs = sum(prod(shape) for i in node.inputs for shape in shapes(i.type, dims))
        return inputs if inputs <= _SMALL else 2 * LOOP

    def is_plain(self, function: Function) -> bool:
        """Whether every step of a function works element by element or rearranges, on scalars or views."""
        for instruction in self.body(function).instructions:
            node = instruction.node
            if node.kind in ELEMENTWISE or node.kind in _VIEWS:
                continue
            if node.kind == "call":
                inner = node["function"]
                assert isinstance(inner, Function)
                if self.is_plain(inner):
                    continue
            return False
        return True

    def width(self, function: Function) -> int:
        """Return the bits of the widest number in a function."""
        found = self._widths.get(function.id)
        if found is None:
            found = 8
            for instruction in self.body(function).instructions:
                for type_ in leaf_types(instruction.node.type):
                    if isinstance(type_, Tensor) and type_.element.kind is not Kind.BIT:
                        found = max(found, lanes(register(type_.element)).bits)
                for inner in functions_of(instruction.node):
                    found = max(found, self.width(inner))
            self._widths[function.id] = found
        return found

    def sinks(self, function: Function) -> list[frozenset[Sink]]:
        """Return for each leaf of a function where it ends: what reads it other than element by element."""
        found = self._sinks.get(function.id)
        if found is None:
            found = self._sinks[function.id] = _sinks(self.body(function))
        return found

    def users(self, function: Function) -> list[frozenset[Sink]]:
        """Return for each leaf of a function what reads it."""
        found = self._users.get(function.id)
        if found is None:
            found = self._users[function.id] = _users(self.body(function))
        return found

    def needs(self, function: Function, wanted: tuple[int, ...]) -> frozenset[int]:
        """Return the numbers of the instructions on which some leaves of the result depend."""
        key = (function.id, wanted)
        if key not in self._needs:
            body = self.body(function)
            leaves = {body.results[k] for k in wanted}
            chosen = set()
            for number in range(len(body.instructions) - 1, -1, -1):
                instruction = body.instructions[number]
                if any(leaf in leaves for leaf in instruction.outputs):
                    chosen.add(number)
                    leaves.update(instruction.inputs)
            self._needs[key] = frozenset(chosen)
        return self._needs[key]


def _users(body: Body) -> list[frozenset[Sink]]:
    found: list[set[Sink]] = [set() for _ in range(body.leaves)]
    for k, leaf in enumerate(body.results):
        found[leaf].add((-1, k))
    for number, instruction in enumerate(body.instructions):
        for position, leaf in enumerate(instruction.inputs):
            found[leaf].add((number, position))
    return [frozenset(users) for users in found]


def _sinks(body: Body) -> list[frozenset[Sink]]:
    found: list[set[Sink]] = [set() for _ in range(body.leaves)]
    for k, leaf in enumerate(body.results):
        found[leaf].add((-1, k))
    for number in range(len(body.instructions) - 1, -1, -1):
        instruction = body.instructions[number]
        through = instruction.node.kind in ELEMENTWISE and instruction.node.kind != "from_bits"
        for position, leaf in enumerate(instruction.inputs):
            found[leaf] |= found[instruction.outputs[0]] if through else {(number, position)}
    return [frozenset(sinks) for sinks in found]


def _rounds(node: Node, dims: Dims) -> int:
    """Return how often a loop's body may be laid out: each round where the bounds are known and few."""
    low, high = (_known(i, dims) for i in node.inputs[:2])
    return 1 if low is None or high is None else min(max(high - low, 1), _SMALL)


def _known(node: Node, dims: Dims) -> int | None:
    """Return the number that a node is, if it is a constant or a dimension."""
    if node.kind == "size":
        return size_of(node, "value", dims)
    if node.kind != "const":
        return None
    data = node["data"]
    assert isinstance(data, Blob)
    return int.from_bytes(bytes(data.read()), "little") if data.size <= 8 else None


def shapes(type_: Type, dims: Dims) -> list[tuple[int, ...]]:
    """Return the stored shapes of a value's leaves."""
    return [storage_shape(leaf, dims) for leaf in leaf_types(type_) if isinstance(leaf, Tensor)]


def size_of(node: Node, name: str, dims: Dims) -> int:
    """Return an attribute that is a dimension."""
    value = resolved(node[name], dims)
    assert isinstance(value, int), (node, name)
    return value


def callee(node: Node, dims: Dims) -> tuple[Function, Dims]:
    """Return what a call calls, and its dimensions."""
    function, sizes = node["function"], resolved(node["dims"], dims)
    assert isinstance(function, Function) and isinstance(sizes, tuple)
    return function, sizes


def resolved(value: object, dims: Dims) -> object:
    """Return an attribute with its dimensions as numbers."""
    if isinstance(value, Dim):
        return value.value(dims)
    if isinstance(value, tuple):
        return tuple(resolved(v, dims) for v in value)
    return value
