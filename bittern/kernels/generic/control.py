"""Structural nodes laid out: calls in line, maps as views or loops, `if`, `for` and `while` as structured control.

A loop carries scalars and small arrays in registers, other arrays in memory that its rounds overwrite. Where a round
asks for a carried array at a place that is not known, the loop is made anew with that array in memory. A `for` over
small arrays with few rounds is unrolled, so that all its places are known.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod

from bittern.bitops.handle import Handle
from bittern.graph.flow import Instruction, leaf_types
from bittern.graph.node import Function, Node
from bittern.kernels.generic.context import borrowed
from bittern.kernels.generic.emitter import NotLanesError
from bittern.kernels.generic.filling import fill, is_there, materialised, over
from bittern.kernels.generic.frames import HEAVY, Control, Frame, Layout, in_registers
from bittern.kernels.generic.indexing import part_of
from bittern.kernels.generic.places import Place, Places, number, variable
from bittern.kernels.generic.reducing import filled
from bittern.kernels.generic.scalars import stored
from bittern.kernels.generic.views import (
    MOST,
    Computed,
    Constant,
    Memory,
    NeedsMemoryError,
    Promoted,
    Remapped,
    View,
    memory,
    promoted,
)
from bittern.kernels.generic.weighing import Dims, callee, shapes, size_of
from bittern.types.elements import U32, Element
from bittern.types.values import Tensor

UNROLL = 6000  # steps of an unrolled loop
_CARRIED = 16  # elements that a loop which is not unrolled carries in registers
_FEW = 256  # steps of a small map that is unrolled
_WIDE = 1024  # the same of a map over values in registers


def function_of(node: Node, name: str) -> Function:
    """Return a body of a structural node."""
    found = node[name]
    assert isinstance(found, Function)
    return found


def _elements(node: Node) -> list[Element]:
    return [leaf.element for leaf in leaf_types(node.type) if isinstance(leaf, Tensor)]


def _call(frame: Frame, instruction: Instruction, inputs: list[View]) -> list[View]:
    function, dims = callee(instruction.node, frame.dims)
    return Frame(frame.c, function, dims, inputs).run()


# --- map


def _map(frame: Frame, instruction: Instruction, inputs: list[View]) -> list[View]:
    c, node = frame.c, instruction.node
    count, mapped = size_of(node, "count", frame.dims), size_of(node, "mapped", frame.dims)
    made = _Map(
        c, function_of(node, "body"), frame.dims, count, inputs[:mapped], [borrowed(v) for v in inputs[mapped:]]
    )
    parts = shapes(node.type, frame.dims)
    total = sum(prod(shape) for shape in parts)
    has_registers = any(isinstance(v, Promoted) and v.shape for v in inputs)
    is_few = count <= 4 and not made.plain and count * made.weight <= _FEW
    if count and total <= MOST and (is_few or (has_registers and count * made.weight <= _WIDE)):
        return made.unrolled()
    types = list(zip(_elements(node), parts, strict=True))
    read = [k for k, leaf in enumerate(instruction.outputs) if frame.sinks[leaf]]
    if len(read) > 1 and not made.plain:
        return made.together(types, read)
    return [made.view(k, element, shape) for k, (element, shape) in enumerate(types)]


class _Map:
    """One map. mapped: views whose first axis is walked."""

    def __init__(
        self, c: Layout, body: Function, dims: Dims, count: int, mapped: Sequence[View], captures: Sequence[View]
    ) -> None:
        self.c, self.body, self.dims, self.count = c, body, dims, count
        self.mapped, self.captures = mapped, captures
        self.weight, self.plain = c.weights.weight(body, dims), c.weights.is_plain(body)
        self.views: list[Computed] = []

    def arguments(self, place: Place) -> list[View]:
        """Return the arguments of one element."""
        return [*(borrowed(part_of(self.c, v, (place,))) for v in self.mapped), *self.captures]

    def element(self, place: Place, leaves: Sequence[int]) -> list[View]:
        """Return leaves of the body's result for one element."""
        return Frame(self.c, self.body, self.dims, self.arguments(place), settled=True).run(leaves)

    def unrolled(self) -> list[View]:
        """Return all results in registers."""
        e = self.c.e
        leaves = range(len(self.c.weights.body(self.body).results))
        rows = [[in_registers(self.c, v) for v in self.element(number(k), leaves)] for k in range(self.count)]
        found: list[View] = []
        for column in zip(*rows, strict=True):
            handles = [h for view in column for h in view.handles]
            found.append(promoted(e, column[0].element, (self.count, *column[0].shape), handles))
        return found

    def view(self, leaf: int, element: Element, shape: tuple[int, ...]) -> View:
        """Return one leaf of the result as a view."""
        inputs = [*self.mapped, *self.captures]
        reads = frozenset().union(*(v.reads for v in inputs)) if inputs else frozenset()
        width = max([8, self.c.weights.width(self.body), *(v.width for v in inputs)])
        depth = 1 + max([v.depth for v in inputs], default=0)
        cost = self.weight + max([v.cost for v in self.mapped], default=0)

        def make(p: Places) -> Handle:
            return self.at(leaf, p[0]).at(self.c.e, p[1:])

        whole = Computed(element, shape, reads, cost, width, depth, make)
        if not self.plain:
            whole.cost = max(cost, HEAVY)
            whole.make = lambda p: filled(self.c, whole).at(self.c.e, p)
            whole.fill = lambda target: self.write({leaf: target})
        elif len(shape) > 1:
            whole.fill = lambda target: self.write({leaf: target})
        self.views.append(whole)
        return whole

    def together(self, types: "Sequence[tuple[Element, tuple[int, ...]]]", read: Sequence[int]) -> list[View]:
        """Return the leaves that are read in memory, written in one loop; the others as views."""
        if self.c.e.lanes:
            raise NotLanesError
        found = [self.view(k, element, shape) for k, (element, shape) in enumerate(types)]
        targets: dict[int, View] = {}
        for k in read:
            element, shape = types[k]
            buffer = self.c.e.scratch(stored(element), max(prod(shape), 1))
            found[k] = targets[k] = memory(element, shape, buffer, owned=True)
        self.write(targets)
        return found

    def at(self, leaf: int, place: Place) -> View:
        """Return a leaf for one element, laid out once for each place."""
        e = self.c.e
        reads = sorted(frozenset().union(*(v.reads for v in (*self.mapped, *self.captures))))
        key = (self, leaf, place, e.lanes, tuple(e.version(name) for name in reads))
        known = e.recall(key)
        if known is None:
            (known,) = self.element(place, [leaf])
            e.remember(key, known)
        assert isinstance(known, View)
        return known

    def write(self, targets: "dict[int, View]") -> None:
        """Write leaves of the result, all in one loop."""
        with over(self.c.e, self.count, apart=True) as place:
            for (_, target), view in zip(targets.items(), self.element(place, list(targets)), strict=True):
                fill(self.c.e, _row(target, place), view)


def _row(target: View, place: Place) -> View:
    if isinstance(target, Memory):
        assert target.buffer is not None
        shape = target.shape[1:]
        return memory(target.element, shape, target.buffer, target.offset + place * prod(shape))
    return Remapped(target.element, target.shape[1:], target.reads, 1, target.width, 0, target, lambda p: (place, *p))


# --- if


def _if(frame: Frame, instruction: Instruction, inputs: list[View]) -> list[View]:
    c, node = frame.c, instruction.node
    e = c.e
    condition = inputs[0].at(e, ())
    bodies = function_of(node, "then"), function_of(node, "otherwise")
    if (truth := e.constant(condition)) is not None:
        return Frame(c, bodies[0 if truth else 1], frame.dims, inputs[1:]).run()
    if e.lanes:
        return _both(frame, node, condition, inputs[1:])
    kept: dict[int, Memory] = {}
    mark, live = e.mark(), len(c.live)
    while True:
        try:
            found, same = _branches(frame, node, condition, inputs[1:], kept)
        except NotLanesError:
            del c.live[live:]
            raise
        if all(k in kept for k in same):
            return found
        e.back(mark)
        kept = same


def _both(frame: Frame, node: Node, condition: Handle, inputs: list[View]) -> list[View]:
    """Lay out both branches, without control, and choose: for lanes that part ways."""
    c, e = frame.c, frame.c.e
    sides = []
    for name in ("then", "otherwise"):
        body = function_of(node, name)
        if not c.weights.is_plain(body):
            raise NotLanesError
        sides.append(Frame(c, body, frame.dims, [borrowed(v) for v in inputs]).run())
    found: list[View] = []
    for x, y in zip(*sides, strict=True):
        if x.shape:
            raise NotLanesError
        a, b = x.at(e, ()), y.at(e, ())
        if a.type.is_mask:
            chosen = e.apply("or", e.apply("and", condition, a), e.apply("and", ~condition, b))
        else:
            chosen = e.choose(condition, a, b)
        found.append(promoted(e, x.element, (), [chosen]))
    return found


def _branches(
    frame: Frame, node: Node, condition: Handle, inputs: list[View], kept: "dict[int, Memory]"
) -> "tuple[list[View], dict[int, Memory]]":
    """Lay out an `if`. kept: leaves that both branches leave in the same memory.

    Return the results, and the leaves of which that turned out to be so.
    """
    c, e = frame.c, frame.c.e
    parts, elements = shapes(node.type, frame.dims), _elements(node)
    small = [prod(shape) <= _CARRIED for shape in parts]
    targets: dict[int, Memory] = {}
    for k, shape in enumerate(parts):
        if not small[k] and k not in kept:
            buffer = e.scratch(stored(elements[k]), max(prod(shape), 1))
            targets[k] = memory(elements[k], shape, buffer, owned=True)
    branch = e.branch(condition)
    results: list[list[View]] = []
    free = e.free
    for name, side in (("then", branch.yes), ("otherwise", branch.no)):
        e.free = free
        with side:
            found = Frame(c, function_of(node, name), frame.dims, list(inputs)).run()
            results.append(found)
            for k, target in targets.items():
                fill(e, target, found[k])
            branch.give(*(h for k, view in enumerate(found) if small[k] for h in in_registers(c, view).handles))
    e.free = free
    same = {k: a for k, (a, b) in enumerate(zip(*results, strict=True)) if not small[k] and _is_same(a, b)}
    handles = list(branch.results)
    done: list[View] = []
    for k, shape in enumerate(parts):
        if small[k]:
            done.append(promoted(e, elements[k], shape, handles[: prod(shape)]))
            del handles[: prod(shape)]
        else:
            done.append(targets[k] if k in targets else kept[k])
    return done, {k: a for k, a in same.items() if isinstance(a, Memory)}


def _is_same(a: View, b: View) -> bool:
    return isinstance(a, Memory) and isinstance(b, Memory) and a.owned and b.owned and is_there(a, b)


# --- loops


def _for(frame: Frame, instruction: Instruction, inputs: list[View]) -> list[View]:
    c, node = frame.c, instruction.node
    e = c.e
    carries = len(leaf_types(node.type))
    low, high, state, captures = inputs[0], inputs[1], inputs[2 : 2 + carries], inputs[2 + carries :]
    loop = _Loop(frame, node, "body", state, captures, counter=True)
    first, last = e.constant(low.at(e, ())), e.constant(high.at(e, ()))
    if first is not None and last is not None:
        if first >= last:
            return state
        if last - first == 1 or loop.is_unrolled(last - first):
            return loop.unrolled(first, last)
    return loop.made(lambda carried: _rounds(loop, low, high, carried))


def _while(frame: Frame, instruction: Instruction, inputs: list[View]) -> list[View]:
    carries = len(leaf_types(instruction.node.type))
    limit, state, captures = inputs[0], inputs[1 : 1 + carries], inputs[1 + carries :]
    loop = _Loop(frame, instruction.node, "body", state, captures, counter=False)
    return loop.made(lambda carried: _repeats(loop, limit, carried))


class _Token:
    """Names one carried array of one attempt."""

    def __init__(self, loop: "_Loop", place: int) -> None:
        self.loop, self.place = loop, place


class _Loop:
    """A loop while it is laid out. counter: the body takes the number of the round."""

    def __init__(
        self, frame: Frame, node: Node, name: str, state: list[View], captures: list[View], counter: bool
    ) -> None:
        self.frame, self.c, self.e, self.node = frame, frame.c, frame.c.e, node
        self.body, self.counter, self.state = function_of(node, name), counter, state
        self.captures = [borrowed(v) for v in captures]
        self.shapes, self.elements = shapes(node.type, frame.dims), _elements(node)
        self.in_memory: set[int] = set()
        self.memories: dict[int, Memory] = {}

    # unrolled

    def is_unrolled(self, rounds: int) -> bool:
        """Whether the rounds are laid out one after the other."""
        if rounds * self.c.weights.weight(self.body, self.frame.dims) > UNROLL:
            return False
        if any(prod(shape) > MOST for shape in self.shapes):
            return False
        small = (isinstance(v, Promoted) and v.shape for v in self.captures)
        return any(prod(shape) > 1 for shape in self.shapes) or any(small)

    def unrolled(self, low: int, high: int) -> list[View]:
        """Lay out each round for itself."""
        others = [*self.captures]
        state = [
            v if self.c.is_exclusive(v, [*others, *self.state[:k], *self.state[k + 1 :]]) else borrowed(v)
            for k, v in enumerate(self.state)
        ]
        for k in range(low, high):
            state = [in_registers(self.c, v) if prod(v.shape) <= MOST else v for v in state]
            counter = [promoted(self.e, U32, (), [self.e.const("u32", k)])]
            state = self._fixed(
                Frame(self.c, self.body, self.frame.dims, [*counter, *state, *self.captures], True).run()
            )
        return state

    def _fixed(self, state: list[View]) -> list[View]:
        return [in_registers(self.c, v) if prod(v.shape) <= MOST else self._memory(v) for v in state]

    def _memory(self, view: View) -> View:
        return view if isinstance(view, Memory | Constant) else materialised(self.e, view)

    # as a loop

    def made(self, lay_out: Callable[[list[Handle]], list[View]]) -> list[View]:
        """Lay out the loop, anew with an array in memory where one has to be there."""
        if self.e.lanes:
            raise NotLanesError
        sizes = [prod(shape) for shape in self.shapes]
        self.in_memory = {k for k, size in enumerate(sizes) if size > _CARRIED or (self.shapes[k] and not size)}
        if sum(size for k, size in enumerate(sizes) if k not in self.in_memory) > 2 * _CARRIED:
            self.in_memory |= {k for k, size in enumerate(sizes) if size > 1}
        live, guards = len(self.c.live), len(self.e.guards)
        while True:
            mark = self.e.mark()
            try:
                found: list[View] = lay_out(self._start())
                return found
            except NeedsMemoryError as need:
                token = need.array.carry
                if not isinstance(token, _Token) or token.loop is not self:
                    raise
                del self.c.live[live:], self.e.guards[guards:]
                self.e.back(mark)
                self.in_memory.add(token.place)

    def _start(self) -> list[Handle]:
        """Bring the carries to where they are carried; return those in registers."""
        handles: list[Handle] = []
        self.memories = {}
        for k, view in enumerate(self.state):
            if k in self.in_memory:
                others = [*self.captures, *self.state[:k], *self.state[k + 1 :]]
                self.memories[k] = self.c.own(view, others)
            else:
                handles += in_registers(self.c, view).handles
        return handles

    def arguments(self, handles: Sequence[Handle]) -> list[View]:
        """Return views of the carries in a round."""
        rest, found = list(handles), list[View]()
        for k, shape in enumerate(self.shapes):
            if k in self.in_memory:
                found.append(self.memories[k])
                continue
            size = prod(shape)
            token = _Token(self, k) if shape else None
            found.append(promoted(self.e, self.elements[k], shape, rest[:size], token))
            del rest[:size]
        return found

    def round(self, handles: Sequence[Handle], counter: Sequence[View]) -> list[Handle]:
        """Lay out one round and return the next carries in registers."""
        carried = self.arguments(handles)
        held = len(self.c.held)
        self.c.held += [m.name for m in self.memories.values()]
        try:
            found = Frame(self.c, self.body, self.frame.dims, [*counter, *carried, *self.captures], True).run()
        finally:
            del self.c.held[held:]
        following: list[Handle] = []
        for k, view in enumerate(found):
            if k not in self.in_memory:
                following += in_registers(self.c, view).handles
        self._write(found)
        return following

    def _write(self, found: Sequence[View]) -> None:
        """Bring the next carries to memory: first to where nothing is overwritten that another one reads."""
        e, waiting = self.e, []
        names = {m.name for m in self.memories.values()}
        moved = [k for k in self.memories if not is_there(self.memories[k], found[k])]
        for k in moved:
            view = found[k]
            if not view.reads & names:
                waiting.append((k, view))
                continue
            waiting.append((k, materialised(e, view)))
        for k, view in waiting:
            fill(e, self.memories[k], view)
            if view is not found[k]:
                self.c.release(view)

    def results(self, handles: Sequence[Handle]) -> list[View]:
        """Return the carries after the loop."""
        rest, found = list(handles), list[View]()
        for k, shape in enumerate(self.shapes):
            if k in self.in_memory:
                found.append(self.memories[k])
            else:
                found.append(promoted(self.e, self.elements[k], shape, rest[: prod(shape)]))
                del rest[: prod(shape)]
        return found


def _rounds(loop: _Loop, low: View, high: View, carried: list[Handle]) -> list[View]:
    e = loop.e
    first, last = e.place_of(low.at(e, ())), e.place_of(high.at(e, ()))
    with e.loop(e.index_of(first), e.index_of(last), 1, *carried) as made:
        index, *handles = made
        place = variable(index.value, first.low, max(last.high - 1, first.low))
        counter = promoted(e, U32, (), [e.word_of(place, "u32")])
        made.carry(*loop.round(handles, [counter]))
    return loop.results(made.results)


def _repeats(loop: _Loop, limit: View, carried: list[Handle]) -> list[View]:
    e = loop.e
    repeat = e.repeat(e.index_of(e.place_of(limit.at(e, ()))), *carried)
    test = function_of(loop.node, "test")
    with repeat.test as (_, *handles):
        state = [borrowed(v) for v in loop.arguments(handles)]
        (going,) = Frame(loop.c, test, loop.frame.dims, [*state, *loop.captures], True).run()
        repeat.keep(going.at(e, ()))
    with repeat.body as (_, *handles):
        repeat.carry(*loop.round(handles, []))
    return loop.results(repeat.results)


CONTROL: Mapping[str, Control] = {"call": _call, "map": _map, "if": _if, "for": _for, "while": _while}
