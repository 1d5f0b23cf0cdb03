"""Build kernels: a kernel is a Python function that makes steps; unrolling and tiling are ordinary Python.

    b = Builder("scale", symbols=("n",))
    (n,) = b.dims
    x, y = b.buffer("x", "f32", n, "read"), b.buffer("y", "f32", n, "write")
    with b.loop(0, n // 16 * 16, 16) as loop:
        (i,) = loop
        y.store(i, x.load("f32x16", i) * 2.0)
    with b.loop(n // 16 * 16, n, 1) as loop:
        ...
    kernel = b.build()

Carried values: `with b.loop(0, n, 1, zero) as loop: i, total = loop; loop.carry(total + ...)`, then
`(total,) = loop.results`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from bittern.bitops.handle import Handle, Literal, constant_bits
from bittern.bitops.kernel import Attributes, Block, Buffer, Kernel, Parameter, Step, Value
from bittern.bitops.kinds import Kind, kinds
from bittern.bitops.lanes import ELEMENTS, INDEX_TYPE, Lanes, lanes
from bittern.types.dims import Dim, dim, symbol

Place: TypeAlias = "Handle | Dim | int"


@dataclass(slots=True)
class _Open:
    """A block under construction."""

    parameters: tuple[Value, ...]
    steps: list[Step] = field(default_factory=list)


class Builder:
    """Makes one kernel. name: the kernel's. symbols: names of its dimension parameters, see `dims`."""

    def __init__(self, name: str, symbols: Sequence[str] = ()) -> None:
        self.name, self.symbols = name, tuple(symbols)
        self.dims = tuple(symbol(k) for k in range(len(self.symbols)))
        self.buffers: list[Buffer] = []
        self.parameters: list[Parameter] = []
        self.divides: list[tuple[Dim, Dim]] = []
        self.at_least: list[Dim] = []
        self.label = ""
        self.open: list[_Open] = [_Open(())]
        self.table: dict[str, Kind] = dict(kinds())
        self._numbers = 0

    # --- what the caller gives

    def buffer(self, name: str, element: str, size: "Dim | int", access: str, align: int = 64) -> "View":
        """Declare a buffer. access: `read`, `write`, `update` or `scratch`; align: of its first byte."""
        made = Buffer(name, ELEMENTS[element], dim(size), access, align)
        self.buffers.append(made)
        return View(self, made)

    def parameter(
        self, name: str, type_: str, low: "Dim | int | None" = None, high: "Dim | int | None" = None
    ) -> Handle:
        """Declare a scalar of the caller, with what it promises: low <= value <= high."""
        value = self.value(lanes(type_))
        bounds = (None if low is None else dim(low), None if high is None else dim(high))
        self.parameters.append(Parameter(name, value, *bounds))
        return Handle(self, value)

    def divisible(self, top: Dim, bottom: "Dim | int") -> None:
        """State the fact that top is a multiple of bottom."""
        self.divides.append((top, dim(bottom)))

    def positive(self, *sizes: Dim) -> None:
        """State the fact that each is at least 1."""
        self.at_least += [size - 1 for size in sizes]

    def at_most(self, size: Dim, most: int) -> None:
        """State the fact that a size is at most a number."""
        self.at_least.append(dim(most) - size)

    def build(self) -> Kernel:
        """Return the kernel; it is not verified yet."""
        (body,) = self.open
        block = Block((), tuple(body.steps), ())
        return Kernel(
            self.name,
            self.symbols,
            tuple(self.buffers),
            tuple(self.parameters),
            block,
            tuple(self.divides),
            tuple(self.at_least),
        )

    # --- steps

    def value(self, type_: Lanes) -> Value:
        """Make a new value."""
        self._numbers += 1
        return Value(self._numbers - 1, type_)

    def emit(self, kind: str, operands: Sequence[Value], attributes: "Attributes | None" = None) -> tuple[Value, ...]:
        """Append a step without blocks and return its results; Misfit if the operands do not fit."""
        attributes = attributes or {}
        types = self.table[kind].rule(tuple(v.type for v in operands), attributes)
        results = tuple(self.value(t) for t in types)
        self.open[-1].steps.append(Step(kind, tuple(operands), results, attributes, (), self.label))
        return results

    def control(
        self, kind: str, operands: Sequence[Value], blocks: Sequence[Block], attributes: "Attributes | None" = None
    ) -> tuple[Value, ...]:
        """Append a step with finished blocks and return its results."""
        attributes = attributes or {}
        types = self.table[kind].rule(tuple(v.type for v in operands), attributes)
        results = tuple(self.value(t) for t in types)
        self.open[-1].steps.append(Step(kind, tuple(operands), results, attributes, tuple(blocks), self.label))
        return results

    def enter(self, types: Sequence[Lanes]) -> tuple[Value, ...]:
        """Open a block and return its parameters."""
        parameters = tuple(self.value(t) for t in types)
        self.open.append(_Open(parameters))
        return parameters

    def leave(self, yields: Sequence[Value]) -> Block:
        """Close the innermost block."""
        done = self.open.pop()
        return Block(done.parameters, tuple(done.steps), tuple(yields))

    def make(self, kind: str, *operands: Handle, **attributes: Any) -> Handle:
        """Append a step of one result and return it."""
        (value,) = self.emit(kind, [o.value for o in operands], attributes)
        return Handle(self, value)

    # --- values

    def const(self, type_: "str | Lanes", number: "Literal | Sequence[Literal] | np.ndarray[Any, Any]") -> Handle:
        """Make a constant. number: one for all lanes, or one each; floats are rounded to the element."""
        of = lanes(type_) if isinstance(type_, str) else type_
        return self.make("const", type=of, bits=constant_bits(of, number))

    def index(self, place: Place) -> Handle:
        """Return a place as a handle."""
        if isinstance(place, Handle):
            return place
        known = dim(place).constant
        return self.const(INDEX_TYPE, known) if known is not None else self.make("dim", size=dim(place))

    def first(self, count: Place, lanes_: int) -> Handle:
        """Make the mask of the lanes below `count`."""
        return self.make("first", self.index(count), lanes=lanes_)

    def collect(self, *scalars: Handle) -> Handle:
        """Make a vector of scalars."""
        return self.make("collect", *scalars)

    def join(self, *vectors: Handle) -> Handle:
        """Put vectors behind each other."""
        return self.make("join", *vectors)

    def select(self, mask: Handle, x: "Handle | Literal", y: "Handle | Literal") -> Handle:
        """Choose x where the mask is set, else y; one of both may be a literal."""
        typed = x if isinstance(x, Handle) else y
        assert isinstance(typed, Handle)
        return self.make("select", mask, typed.like(x), typed.like(y))

    # --- control

    @contextmanager
    def loop(self, low: Place, high: Place, step: Place = 1, *carries: Handle) -> "Iterator[Loop]":
        """Open a loop; see the module. The loop yields its index and its carries."""
        bounds = [self.index(p).value for p in (low, high, step)]
        parameters = self.enter([INDEX_TYPE, *(c.value.type for c in carries)])
        loop = Loop(tuple(Handle(self, v) for v in parameters))
        yield loop
        assert loop.next is not None or not carries, "the loop carries values: call `carry`"
        given: tuple[Handle, ...] = loop.next or ()
        block = self.leave([handle.value for handle in given])
        loop.results = self._handles(self.control("for", [*bounds, *(c.value for c in carries)], [block]))

    @contextmanager
    def parallel(self, low: Place, high: Place, step: Place = 1) -> Iterator[Handle]:
        """Open a parallel loop over an index."""
        bounds = [self.index(p).value for p in (low, high, step)]
        (index,) = self.enter([INDEX_TYPE])
        yield Handle(self, index)
        self.control("parallel", bounds, [self.leave([])])

    def barrier(self) -> None:
        """Let all rounds of the parallel loop meet."""
        self.control("barrier", [], [])

    def branch(self, truth: Handle) -> "Branch":
        """Begin a branch: `with branch.yes: branch.give(x)`, `with branch.no: branch.give(y)`, then `results`."""
        return Branch(self, truth)

    @contextmanager
    def when(self, truth: Handle) -> Iterator[None]:
        """Do what is inside only if the truth is set."""
        branch = self.branch(truth)
        with branch.yes:
            yield
        with branch.no:
            pass

    def repeat(self, limit: Place, *carries: Handle) -> "Repeat":
        """Begin a `while`: `with r.test as (k, x): r.keep(t)`, `with r.body as (k, x): r.carry(y)`, then `results`."""
        return Repeat(self, self.index(limit), carries)

    @contextmanager
    def labelled(self, label: str) -> Iterator[None]:
        """Give the steps inside a label."""
        outer, self.label = self.label, label
        yield
        self.label = outer

    def _handles(self, values: Sequence[Value]) -> tuple[Handle, ...]:
        return tuple(Handle(self, v) for v in values)


@dataclass(slots=True)
class Loop:
    """An open loop: iterate for its index and carries; `carry` gives the next ones; `results` hold after it."""

    parameters: tuple[Handle, ...]
    next: "tuple[Handle, ...] | None" = None
    results: tuple[Handle, ...] = ()

    def __iter__(self) -> Iterator[Handle]:
        return iter(self.parameters)

    def carry(self, *values: Handle) -> None:
        """State the next values of the carries."""
        assert len(values) == len(self.parameters) - 1, (len(values), len(self.parameters) - 1)
        self.next = values


class Branch:
    """An `if` under construction."""

    def __init__(self, builder: Builder, truth: Handle) -> None:
        self._builder, self._truth = builder, truth
        self._blocks: list[Block] = []
        self._given: tuple[Handle, ...] = ()
        self.results: tuple[Handle, ...] = ()

    @property
    def yes(self) -> Any:
        """The block that runs if the truth is set; comes first."""
        return self._side()

    @property
    def no(self) -> Any:
        """The block that runs otherwise."""
        return self._side()

    def give(self, *values: Handle) -> None:
        """State the results of the side."""
        self._given = values

    @contextmanager
    def _side(self) -> Iterator[None]:
        self._builder.enter([])
        self.give()
        yield
        self._blocks.append(self._builder.leave([h.value for h in self._given]))
        if len(self._blocks) == 2:
            types = tuple(v.type for v in self._blocks[0].yields)
            made = self._builder.control("if", [self._truth.value], self._blocks, {"types": types})
            self.results = tuple(Handle(self._builder, v) for v in made)


class Repeat:
    """A `while` under construction."""

    def __init__(self, builder: Builder, limit: Handle, carries: Sequence[Handle]) -> None:
        self._builder, self._operands = builder, [limit, *carries]
        self._blocks: list[Block] = []
        self._given: tuple[Handle, ...] = ()
        self.results: tuple[Handle, ...] = ()

    @property
    def test(self) -> Any:
        """The block that tests whether another round follows; comes first."""
        return self._part()

    @property
    def body(self) -> Any:
        """The block of a round."""
        return self._part()

    def keep(self, truth: Handle) -> None:
        """State whether another round follows."""
        self._given = (truth,)

    def carry(self, *values: Handle) -> None:
        """State the next values of the carries."""
        self._given = values

    @contextmanager
    def _part(self) -> Iterator[tuple[Handle, ...]]:
        parameters = self._builder.enter([o.value.type for o in self._operands])
        yield tuple(Handle(self._builder, v) for v in parameters)
        self._blocks.append(self._builder.leave([h.value for h in self._given]))
        if len(self._blocks) == 2:
            made = self._builder.control("while", [o.value for o in self._operands], self._blocks)
            self.results = tuple(Handle(self._builder, v) for v in made)


@dataclass(frozen=True, slots=True)
class View:
    """A buffer in a builder's hands. Places are in elements of the buffer, offsets in bytes."""

    builder: Builder
    buffer: Buffer

    def load(self, type_: "str | Lanes", place: Place, mask: "Handle | None" = None, offset: int = 0) -> Handle:
        """Load lanes; those that the mask leaves out are 0 and are not read."""
        b, of = self.builder, lanes(type_) if isinstance(type_, str) else type_
        if mask is None:
            return b.make("load", b.index(place), buffer=self.buffer.name, type=of, offset=offset)
        return b.make("load_masked", b.index(place), mask, buffer=self.buffer.name, type=of, offset=offset)

    def store(self, place: Place, x: Handle, mask: "Handle | None" = None, offset: int = 0) -> None:
        """Store lanes, all or those of the mask."""
        b, attributes = self.builder, {"buffer": self.buffer.name, "offset": offset}
        if mask is None:
            b.emit("store", [b.index(place).value, x.value], attributes)
        else:
            b.emit("store_masked", [b.index(place).value, mask.value, x.value], attributes)

    def gather(self, type_: "str | Lanes", place: Place, steps: Handle, offset: int = 0) -> Handle:
        """Load lane k from `place + steps[k]`."""
        b, of = self.builder, lanes(type_) if isinstance(type_, str) else type_
        return b.make("gather", b.index(place), steps, buffer=self.buffer.name, type=of, offset=offset)

    def load_packed(self, bits: int, count: int, place: Place) -> Handle:
        """Load codes of so many bits as u8; the place counts codes."""
        b = self.builder
        of = lanes("u8").of(count)
        return b.make("load_packed", b.index(place), buffer=self.buffer.name, type=of, bits=bits)

    def store_packed(self, bits: int, place: Place, codes: Handle) -> None:
        """Store the low bits of u8 codes; the place counts codes."""
        b = self.builder
        b.emit("store_packed", [b.index(place).value, codes.value], {"buffer": self.buffer.name, "bits": bits})

    def prefetch(self, place: Place, offset: int = 0) -> None:
        """Hint that the place is read soon."""
        b = self.builder
        b.emit("prefetch", [b.index(place).value], {"buffer": self.buffer.name, "offset": offset})
