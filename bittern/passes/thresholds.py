"""Thresholds: chains of floats from an accumulator to codes become comparisons, one multiplication, or a table.

Each chain is looked at by itself: it is written in its one form (`chains.py`), evaluated over the interval of its
source (`width.py`, `stairs.py`), and replaced by what has the same code at every value (`forms.py`). So a batch norm,
an activation and a quantiser, scales between codes, and codes that become floats and codes again are one step. What
cannot be replaced stays and is reported with its reason.

Where a network gives the place of its greatest score, and scores rise with accumulators so that no two are equal, it is
the place of the greatest accumulator.

The way goes from the end to the inputs, so the longest chains are found first; codes that several read end a chain, as
they are needed anyway.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from bittern.front.network.assembly import Assembly
from bittern.graph.node import Function, Node, walk
from bittern.lang.library import Library
from bittern.passes.chains import SEVERAL, BlockedError, Chain, chain_to, is_closed
from bittern.passes.forms import Form, as_i32, form_of
from bittern.passes.integers import BEST, INPUT, float_roles, has_float
from bittern.passes.pairs import pair_of
from bittern.passes.pools import Facts, Through, draw_pool, facts_of, pool_of, through
from bittern.passes.rewriting import finished, users_of, with_inputs
from bittern.passes.stairs import EVERY, can_tabulate, sources
from bittern.passes.width import Interval, element_interval, intervals
from bittern.types.elements import Element, Kind
from bittern.types.values import Tensor

_MOST_BITS = 8


@dataclass(frozen=True, slots=True)
class Fold:
    """A chain that was replaced.

    end, source: labels. chain: its operations, in order of the first of each kind, with how many. form: what it became.
    steps: thresholds of a channel. falling: channels that fall. low, high, bits: of the source. proof: how equality is
    known. pool: where a pool went, or "".
    """

    end: str
    source: str
    chain: tuple[str, ...]
    form: str
    channels: int
    steps: int
    falling: int
    low: int
    high: int
    bits: int
    proof: str
    detail: str = ""
    pool: str = ""


@dataclass(frozen=True, slots=True)
class Left:
    """A chain that stays. reason: why; at: the node that stops it."""

    end: str
    reason: str
    at: str


@dataclass(slots=True)
class Found:
    """What a walk replaced and left, in the order of the graph."""

    folds: list[Fold] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)


def fold_chains(function: Function, library: Library, *, pools: bool = True) -> tuple[Function, Found]:
    """Return a function of the same bits with its chains replaced. pools: whether max-pools may be moved."""
    walk_ = _Walk(function, library, pools)
    made = walk_.run()
    return made, walk_.found


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """How an end is made: by `draw`, of what becomes of its sources."""

    sources: tuple[Node, ...]
    draw: Callable[..., Node]
    fold: Fold


class _Walk:
    """Rebuilds one graph. Nodes are made when they are needed, so what a chain passed over is not."""

    def __init__(self, function: Function, library: Library, pools: bool) -> None:
        self.function, self.pools = function, pools
        self.assembly = Assembly(library)
        self.intervals = intervals(function)
        self.users = {key: len(users) for key, users in users_of(function).items()}
        self.found = Found()
        self.names = function.labels.nodes
        self.boundaries = float_roles(function)
        self.floats = _float_ends(function)

    def run(self) -> Function:
        """Return the function with its chains replaced."""
        plans: dict[bytes, _Plan | None] = {}
        fresh: dict[bytes, Node] = {}
        waiting = [self.function.result]
        while waiting:
            current = waiting[-1]
            if current.id in fresh:
                waiting.pop()
                continue
            if current.id not in plans:
                plans[current.id] = self._plan(current)
            plan = plans[current.id]
            needed = current.inputs if plan is None else plan.sources
            missing = [i for i in needed if i.id not in fresh]
            if missing:
                waiting += reversed(missing)
                continue
            if plan is None:
                fresh[current.id] = with_inputs(current, [fresh[i.id] for i in current.inputs])
            else:
                fresh[current.id] = plan.draw(*(fresh[each.id] for each in plan.sources))
                self.found.folds.append(plan.fold)
        return finished(self.function, fresh)

    def _plan(self, of: Node) -> _Plan | None:
        """Return how codes are made without floats; None where they are made without, or cannot be."""
        if of.kind in BEST and of.inputs[0].id in self.boundaries:
            return self._best(of)
        if of.id not in self.floats:
            return None
        ways: list[Callable[[Node], _Plan]] = [
            lambda end: self._folded(end, self._is_shared),
            lambda end: self._folded(end, self._is_any),
            self._paired,
        ]
        reasons: list[BlockedError] = []
        for way in ways:
            try:
                return way(of)
            except BlockedError as blocked:
                reasons.append(blocked)
        if self.boundaries.get(of.id) != INPUT:
            reason = reasons[-1] if SEVERAL in str(reasons[0]) else reasons[0]
            self.found.left.append(Left(self.name(of), str(reason), self.name(reason.at)))
        return None

    def _folded(self, of: Node, is_source: Callable[[Node], bool]) -> _Plan:
        chain = chain_to(of, lambda each: is_source(each) or (self.pools and pool_of(each) is not None))
        assert isinstance(of.type, Tensor), of
        pool = pool_of(chain.source) if self.pools else None
        if pool is None:
            return self._direct(chain, of.type.element)
        try:
            return self._pooled(through(chain, pool, is_source), of)
        except BlockedError:
            assert isinstance(chain.source.type, Tensor), chain.source
            if chain.source.type.element.is_float or not chain.has_float:
                raise
            return self._direct(chain, of.type.element)

    def _direct(self, chain: Chain, element: Element) -> _Plan:
        if not chain.has_float:
            raise BlockedError("it has no float between whole numbers", chain.end)
        span = self._span(chain.source)
        form = form_of(chain, span, element)
        shape = chain.end.type

        def draw(x: Node) -> Node:
            return _shaped(self.assembly, form.draw(self.assembly, x), shape)

        return _Plan((chain.source,), draw, self._fold(chain, form, span, ""))

    def _best(self, of: Node) -> _Plan | None:
        """Return how the place of the best score is found among accumulators, or None."""
        try:
            chain = chain_to(of.inputs[0], self._is_any)
            span = self._span(chain.source)
        except BlockedError:
            return None
        if chain.channels > 1 or not same_shape(chain.source, of.inputs[0]) or not can_tabulate(chain, span):
            return None
        change = np.diff(chain.values(sources(chain, span)), axis=0)
        falls = bool((change < 0).all())
        if not (falls or bool((change > 0).all())):
            return None
        kind = of.kind if not falls else BEST[1 - BEST.index(of.kind)]
        form = Form(kind, lambda a, x: x, EVERY, detail="scores that rise or fall throughout")
        fold = replace(self._fold(chain, form, span, ""), end=self.name(of))
        return _Plan((chain.source,), lambda x: self.assembly.op(kind, as_i32(self.assembly, x)), fold)

    def _pooled(self, chain: Through, of: Node) -> _Plan:
        whole, pool = chain.whole, chain.pool
        if not whole.has_float:
            raise BlockedError("it has no float between whole numbers", of)
        span = self._span(whole.source)
        facts = facts_of(chain, span)
        if not (facts.is_behind or (facts.is_in_front and same_shape(whole.source, pool.inside))):
            raise BlockedError("it turns back at a pool", of)
        assert isinstance(of.type, Tensor), of
        form = form_of(whole, span, of.type.element)
        where = "behind the codes" if facts.is_behind else "in front, on the accumulator"
        return _Plan((whole.source,), self._drawn(chain, form, facts, of), self._fold(whole, form, span, where))

    def _paired(self, of: Node) -> _Plan:
        """Return how codes of two arrays are made: of codes, or of accumulators with few values."""
        chain = chain_to(of, self._is_any, most=2)
        if len(chain.sources) != 2 or not chain.has_float:
            raise BlockedError("it comes from one array", of)
        assert isinstance(of.type, Tensor), of
        type_, (left, right) = of.type, chain.sources
        if not (same_shape(left, of) and same_shape(right, of)):
            raise BlockedError("two arrays of other shapes meet", of)
        spans = (self._span(left), self._span(right))
        pair = pair_of(chain, spans, type_.element)

        def draw(x: Node, y: Node) -> Node:
            return pair.draw(self.assembly, x, y, type_.element)

        fold = self._fold(chain, pair.form, spans[0], "")
        terms = "" if pair.factors is None else f"{pair.factors[0]} x + {pair.factors[1]} y"
        name = f"{self.name(left)} and {self.name(right)}"
        return _Plan(chain.sources, draw, replace(fold, source=name, detail=terms or pair.form.detail))

    def _drawn(self, chain: Through, form: Form, facts: Facts, of: Node) -> Callable[[Node], Node]:
        a, pool = self.assembly, chain.pool

        def behind(x: Node) -> Node:
            codes = _shaped(a, form.draw(a, x), pool.inside.type, same_element=False)
            return _shaped(a, draw_pool(a, pool, codes, facts.padding), of.type)

        def in_front(x: Node) -> Node:
            made = draw_pool(a, pool, x, (facts.least,) * len(pool.padding))
            return _shaped(a, form.draw(a, made), of.type)

        return behind if facts.is_behind else in_front

    def _span(self, source: Node) -> Interval:
        """Return the interval of a source. BlockedError where it has none."""
        known = self.intervals.get(source.id)
        assert isinstance(source.type, Tensor), source
        found = known if known is not None else element_interval(source.type.element)
        if found is None:
            raise BlockedError("it starts at floats", source)
        return found

    def _is_shared(self, of: Node) -> bool:
        """Whether codes are made in any case: several nodes read them."""
        return self._is_any(of) and (self.users.get(of.id, 0) > 1 or of is self.function.result)

    def _is_any(self, of: Node) -> bool:
        return isinstance(of.type, Tensor) and is_code(of.type.element)

    def _fold(self, chain: Chain, form: Form, span: Interval, pool: str) -> Fold:
        return Fold(
            self.name(chain.end),
            self.name(chain.source),
            tuple(f"{kind} x {n}" if n > 1 else kind for kind, n in Counter(chain.kinds).items()),
            form.name,
            chain.channels,
            form.steps,
            form.falling,
            span.least,
            span.most,
            span.bits,
            form.proof,
            form.detail,
            pool,
        )

    def name(self, of: Node) -> str:
        """Return what people call a node."""
        return self.names.get(of.id) or f"{of.kind} {of.id.hex()[:8]}"


def is_code(element: Element) -> bool:
    """Whether an element holds codes: b1, t, and whole numbers of up to 8 bits."""
    return element.kind is Kind.SIGN or (element.is_integer and element.bits <= _MOST_BITS)


def _float_ends(function: Function) -> frozenset[bytes]:
    """Return the nodes that are codes and depend on a float of which not all is constant."""
    found = set()
    for each in walk(function.result):
        is_end = isinstance(each.type, Tensor) and is_code(each.type.element) and not is_closed(each)
        if is_end and any(map(has_float, _up_to_whole(each))):
            found.add(each.id)
    return frozenset(found)


def _up_to_whole(of: Node) -> Iterator[Node]:
    """Yield a node and what leads to it, up to other codes and accumulators."""
    seen = {of.id}
    waiting = [of]
    while waiting:
        current = waiting.pop()
        yield current
        for i in current.inputs:
            is_end = isinstance(i.type, Tensor) and is_code(i.type.element)
            if i.id not in seen and not is_end:
                seen.add(i.id)
                waiting.append(i)


def same_shape(left: Node, right: Node) -> bool:
    """Whether two arrays have one shape."""
    return isinstance(left.type, Tensor) and isinstance(right.type, Tensor) and left.type.shape == right.type.shape


def _shaped(a: Assembly, made: Node, like: object, same_element: bool = True) -> Node:
    """Return a value with a type's shape."""
    assert isinstance(like, Tensor) and isinstance(made.type, Tensor), (made, like)
    assert not same_element or made.type.element == like.element, (made.type, like)
    return made if made.type.shape == like.shape else a.op("reshape", made, shape=like.shape)
