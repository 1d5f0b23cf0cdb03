"""A function laid out for views of its arguments: instruction by instruction, each value a view.

A scalar is computed where it stands. An array stays a view, so that it is fused into what reads it, unless it is dear
and read in more than one place, or as a whole: then it is written to memory once. Small arrays that come from registers
stay in registers. An instruction that finds an array in registers where it needs memory is made anew after a spill.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

import numpy as np

from bittern.bitops.handle import Handle
from bittern.graph.flow import Instruction, leaf_types
from bittern.graph.node import Blob, Function, Node
from bittern.kernels.generic import indexing, packing, reducing, shaping
from bittern.kernels.generic.context import Context, Site
from bittern.kernels.generic.conversions import ROWS as ELEMENTWISE
from bittern.kernels.generic.emitter import NotLanesError
from bittern.kernels.generic.filling import materialised
from bittern.kernels.generic.places import Places, every
from bittern.kernels.generic.scalars import SCALAR_ONLY
from bittern.kernels.generic.scalars import Row as ElementRow
from bittern.kernels.generic.views import (
    MOST,
    Computed,
    Constant,
    NeedsMemoryError,
    Promoted,
    Remapped,
    View,
    computed,
    promoted,
    spill,
)
from bittern.kernels.generic.weighing import Dims, Sink, Weights, resolved, size_of
from bittern.types.values import Tensor, storage_shape

CHEAP = 3  # steps that are made again rather than kept in memory
HEAVY = 48  # steps that are made once for a whole array
_DEEPEST = 40
_DEAREST = 400

VIEWED: dict[str, Callable[..., View]] = {**shaping.ROWS, **indexing.ROWS, **reducing.ROWS, **packing.ROWS}
WRITES: dict[str, Callable[..., View]] = indexing.UPDATES
_COSTS = {"div": 4, "rem": 8, "sqrt": 4, "extract": 3, "deposit": 3, "clz": 2, "reverse_bits": 4, "round": 2}
_WHOLE = frozenset(("reshape", "permute", "reverse", "concat", "stack", "pad"))  # filled through
Control: TypeAlias = Callable[["Frame", Instruction, list[View]], list[View]]


@dataclass
class Layout(Context):
    """The context, with what is known of functions. control: how structural nodes are laid out."""

    control: Mapping[str, Control] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.weights = Weights(self.flow)


class Frame:
    """One function being laid out. arguments: a view for each parameter leaf. settled: they need no look."""

    def __init__(
        self, c: Layout, function: Function, dims: Dims, arguments: Sequence[View], settled: bool = False
    ) -> None:
        self.c, self.function, self.dims = c, function, dims
        self.body = c.weights.body(function)
        self.sinks, self.users = c.weights.sinks(function), c.weights.users(function)
        self.values: list[View | None] = [*arguments, *[None] * (self.body.leaves - len(arguments))]
        self._settled = settled
        assert len(arguments) == self.body.params, (function, len(arguments), self.body.params)

    def run(self, wanted: Sequence[int] | None = None) -> list[View]:
        """Lay it out and return the wanted leaves of the result, all of them by default."""
        c = self.c
        chosen = tuple(range(len(self.body.results))) if wanted is None else tuple(wanted)
        needs = c.weights.needs(self.function, chosen)
        c.live.append(self.values)
        try:
            for leaf in self.body.unused:
                self.values[leaf] = None
            for leaf, given in enumerate(self.values[: self.body.params]):
                if given is not None and (not given.shape or not self._settled):
                    self.values[leaf] = self.settle(given, leaf)
            for number, instruction in enumerate(self.body.instructions):
                if number in needs:
                    self._step(instruction)
            found = [self.values[self.body.results[k]] for k in chosen]
        finally:
            c.live.pop()
        assert all(view is not None for view in found), (self.function, chosen)
        return [view for view in found if view is not None]

    def _step(self, instruction: Instruction) -> None:
        e = self.c.e
        inputs = [self.values[leaf] for leaf in instruction.inputs]
        assert all(v is not None for v in inputs), (self.function, instruction.node)
        given = [v for v in inputs if v is not None]
        dying = [(leaf, self.values[leaf]) for leaf in instruction.dying]
        e.guards.append((len(e.open), e.clock))
        depth, live = len(e.guards), len(self.c.live)
        try:
            while True:
                mark = e.mark()
                try:
                    for leaf, _ in dying:
                        self.values[leaf] = None
                    outputs = self._lowered(instruction, list(given))
                    for leaf, made in zip(instruction.outputs, outputs, strict=True):
                        self.values[leaf] = self.settle(made, leaf)
                    break
                except NeedsMemoryError as need:
                    del e.guards[depth:], self.c.live[live:]
                    array = need.array
                    if array.carry is not None or array.level != len(mark.sizes) or array.born > e.guards[-1][1]:
                        raise
                    e.back(mark)
                    for leaf, view in dying:
                        self.values[leaf] = view
                    spill(e, array)
        finally:
            del e.guards[depth - 1 :]
        for leaf in instruction.dying:
            self.values[leaf] = None
        for _, view in dying:
            self.c.release(view)

    def _lowered(self, instruction: Instruction, inputs: list[View]) -> list[View]:
        node = instruction.node
        if node.kind in self.c.control:
            return self.c.control[node.kind](self, instruction, inputs)
        if node.kind == "const":
            return [self._constant(node)]
        w = self._site(node)
        if node.kind == "from_bits" and packing.takes_bytes(w):
            return [packing.joined_bytes(self.c, w, *inputs)]
        if node.kind in ELEMENTWISE:
            return [elementwise(self.c, node.kind, w, inputs)]
        if node.kind in WRITES:
            if self.c.e.lanes:
                raise NotLanesError
            return [WRITES[node.kind](self.c, w, *inputs)]
        return [VIEWED[node.kind](self.c, w, *inputs)]

    def _site(self, node: Node) -> Site:
        assert isinstance(node.type, Tensor), node
        types = [t for i in node.inputs for t in leaf_types(i.type)]
        elements = tuple(t.element for t in types if isinstance(t, Tensor))
        attributes = {name: resolved(value, self.dims) for name, value in node.attributes}
        return Site(elements, node.type.element, attributes, storage_shape(node.type, self.dims))

    def _constant(self, node: Node) -> View:
        data, type_ = node["data"], node.type
        assert isinstance(data, Blob) and isinstance(type_, Tensor)
        array = np.frombuffer(data.read(), np.dtype(type_.element.storage).newbyteorder("<"))
        return self.c.known(type_.element, array.reshape(storage_shape(type_, self.dims)))

    # --- in memory or not

    def settle(self, view: View, leaf: int) -> View:
        """Return the value of a leaf as it is kept: a scalar computed, a dear array that is read often in memory."""
        e = self.c.e
        if not view.shape:
            return scalar(self.c, view)
        if not isinstance(view, Computed | Remapped) or view.cost < CHEAP:
            return view
        whole = view.cost >= HEAVY or has_fill(view)
        if self._stays(view, self.users[leaf] if whole else self.sinks[leaf]):
            return view
        if e.lanes:
            raise NotLanesError
        return materialised(e, view)

    def _stays(self, view: View, sinks: frozenset[Sink]) -> bool:
        if view.depth > _DEEPEST or len(sinks) != 1:
            return False
        ((number, position),) = sinks
        if number < 0:
            return True
        node = self.body.instructions[number].node
        if node.kind in ("call", "if") or node.kind in _WHOLE:
            return True
        if view.cost >= HEAVY and (has_fill(view) or node.kind not in reducing.ROWS):
            return False
        if node.kind in ("map", "for", "while", "take", "broadcast", "windows", "update", "scatter", "scatter_add"):
            walked = node.kind == "map" and position < size_of(node, "mapped", self.dims)
            return walked and view.cost < HEAVY
        return view.cost < _DEAREST


def has_fill(view: View) -> bool:
    """Whether a view is made as a whole."""
    if isinstance(view, Remapped) and view.base is not None:
        return has_fill(view.base)
    return isinstance(view, Computed) and view.fill is not None


def scalar(c: Context, view: View) -> View:
    """Return a scalar in a register."""
    if isinstance(view, Promoted) or (isinstance(view, Constant) and not view.shape):
        return view
    return promoted(c.e, view.element, (), [view.at(c.e, ())])


def in_registers(c: Context, view: View) -> Promoted:
    """Return all elements of an array in registers."""
    if isinstance(view, Promoted):
        return view
    return promoted(c.e, view.element, view.shape, [view.at(c.e, p) for p in every(view.shape)])


def elementwise(c: Context, kind: str, w: Site, inputs: Sequence[View]) -> View:
    """Return an op on each element."""
    e, row = c.e, ELEMENTWISE[kind]

    def make(p: Places) -> Handle:
        return _applied(c, kind, row, w, [view.at(e, p) for view in inputs])

    if not w.shape or (any(isinstance(v, Promoted) for v in inputs) and prod(w.shape) <= MOST):
        return promoted(e, w.result, w.shape, [make(p) for p in every(w.shape)])
    return computed(w.result, w.shape, inputs, _COSTS.get(kind, 1) + sum(v.cost for v in inputs), make)


def _applied(c: Context, kind: str, row: ElementRow, w: Site, operands: Sequence[Handle]) -> Handle:
    is_slow = kind in SCALAR_ONLY or (kind == "div" and not w.result.is_float)
    if is_slow and any(not x.type.is_scalar for x in operands):
        raise NotLanesError
    return row(c.e, w, *operands)
