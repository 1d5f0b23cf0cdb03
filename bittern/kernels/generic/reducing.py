"""Reductions, dots and scans of the last axis, in the strict order.

Float sums, products, maxima and minima have 16 partials and one tree: they are the lanes of one vector (of two for
f64), or 16 places of scratch where a step does not work lane by lane. Integers are combined in any order. Float dots
and all scans are strictly ascending.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, prod

from bittern.bitops.handle import Handle
from bittern.kernels.generic.context import Context, Site
from bittern.kernels.generic.conversions import nan, number
from bittern.kernels.generic.emitter import Emitter, NotLanesError, TooWideError
from bittern.kernels.generic.filling import materialised, most_lanes, over
from bittern.kernels.generic.places import Place, Places, every, lane
from bittern.kernels.generic.places import number as at
from bittern.kernels.generic.scalars import fit, register, stored
from bittern.kernels.generic.views import MOST, Memory, Promoted, View, computed, memory, promoted, store
from bittern.types.elements import Element, Kind

_UNROLLED = 256  # steps of a reduction without a loop
_PARTIALS = 16


@dataclass(frozen=True, slots=True)
class _Fold:
    """How elements are combined. kind: of bitops. start: of an element, as a number."""

    kind: str
    start: Callable[[Element], "int | float"]


_FOLDS = {
    "sum": _Fold("add", lambda e: 0),
    "product": _Fold("mul", lambda e: 1),
    "max_of": _Fold("max", lambda e: -inf if e.is_float else e.low),
    "min_of": _Fold("min", lambda e: inf if e.is_float else e.high),
    "all_of": _Fold("and", lambda e: -1 if e.kind is Kind.SIGNED else e.high),
    "any_of": _Fold("or", lambda e: 0),
    "xor_of": _Fold("xor", lambda e: 0),
}


def _reduction(name: str) -> Callable[..., View]:
    def row(c: Context, w: Site, x: View) -> View:
        how, element = _FOLDS[name], w.operands[0]
        n = x.shape[-1]

        def make(p: Places) -> Handle:
            if element.kind is Kind.BIT:
                return _folded_truths(c, how, x, p, n)
            if element.is_float:
                return _folded_floats(c, how, x, p, n)
            return fit(c.e, element, _folded(c, how, _of(x, p), register(element), how.start(element), n, x))

        return _reduced(c, w, x, n * (x.cost + 1), make)

    return row


def _reduced(c: Context, w: Site, x: View, cost: int, make: Callable[[Places], Handle]) -> View:
    if isinstance(x, Promoted) and prod(w.shape) <= MOST:
        return promoted(c.e, w.result, w.shape, [make(p) for p in every(w.shape)])
    return computed(w.result, w.shape, (x,), cost, make)


def _of(x: View, p: Places) -> Callable[[Place, Emitter], Handle]:
    return lambda place, e: x.at(e, (*p, place))


def _is_small(x: View, n: int) -> bool:
    return n * (x.cost + 1) <= _UNROLLED and n <= MOST and (isinstance(x, Promoted) or n * (x.cost + 1) <= MOST)


_Element = Callable[[Place, Emitter], Handle]


def _folded(c: Context, how: _Fold, get: _Element, held: str, start: "int | float", n: int, x: View) -> Handle:
    """Combine in any order."""
    e = c.e
    if _is_small(x, n):
        total = e.const(held, start)
        for k in range(n):
            total = e.apply(how.kind, total, get(at(k), e)) if k else get(at(0), e)
        return total
    if e.lanes:
        raise NotLanesError
    total, done = _in_lanes(e, how, get, held, start, n, most_lanes(x))
    if done == n:
        return total
    with e.loop(done, n, 1, total) as loop:
        index, carried = loop
        place = e.place_between(index, done, n - 1)
        loop.carry(e.apply(how.kind, carried, get(place, e)))
    return loop.results[0]


def _in_lanes(
    e: Emitter, how: _Fold, get: _Element, held: str, start: "int | float", n: int, most: int
) -> tuple[Handle, int]:
    """Combine the first elements in lanes; return the result and how many they are."""
    count = min(most, 1 << (n.bit_length() - 1))
    while count >= 4:
        mark = e.mark()
        try:
            e.lanes = count
            first = e.const(held, start).broadcast(count)
            with e.loop(0, n // count, 1, first) as loop:
                index, carried = loop
                x = get(e.place_between(index, 0, n // count - 1) * count + lane(count), e)
                loop.carry(e.apply(how.kind, carried, x))
            e.lanes = 0
            return loop.results[0].fold(how.kind), n // count * count
        except TooWideError:
            e.back(mark)
            count //= 2
        except NotLanesError:
            e.back(mark)
            break
    return e.const(held, start), 0


def _folded_truths(c: Context, how: _Fold, x: View, p: Places, n: int) -> Handle:
    def get(place: Place, e: Emitter) -> Handle:
        return x.at(e, (*p, place)).convert("u8")

    start = 1 if how.kind == "and" else 0
    return _folded(c, how, get, "u8", start, n, x).ne(0)


# --- sixteen partials


def _folded_floats(c: Context, how: _Fold, x: View, p: Places, n: int) -> Handle:
    e, held = c.e, register(x.element)
    start = how.start(x.element)
    if _is_small(x, n):
        parts = [e.const(held, start)] * _PARTIALS
        for k in range(n):
            parts[k % _PARTIALS] = e.apply(how.kind, parts[k % _PARTIALS], x.at(e, (*p, at(k))))
        return _tree(e, how.kind, parts)
    if e.lanes:
        raise NotLanesError
    return _in_vectors(c, how, x, p, n) or _in_scratch(c, how, x, p, n, [], 0)


def _tree(e: Emitter, kind: str, parts: Sequence[Handle]) -> Handle:
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [e.apply(kind, parts[k], parts[k + half]) for k in range(half)]
    return parts[0]


def _in_vectors(c: Context, how: _Fold, x: View, p: Places, n: int) -> Handle | None:
    """Keep the partials in lanes; None if the elements do not come in lanes."""
    e, held, rounds = c.e, register(x.element), n // _PARTIALS
    count = min(_PARTIALS, most_lanes(x))
    if not rounds:
        return None
    while count >= 4:
        pieces, mark = _PARTIALS // count, e.mark()
        try:
            e.lanes = count
            first = e.const(held, how.start(x.element)).broadcast(count)
            with e.loop(0, rounds, 1, *[first] * pieces) as loop:
                index, *carried = loop
                base = e.place_between(index, 0, rounds - 1) * _PARTIALS + lane(count)
                found = [x.at(e, (*p, base + k * count)) for k in range(pieces)]
                loop.carry(*(e.apply(how.kind, a, b) for a, b in zip(carried, found, strict=True)))
            e.lanes = 0
        except TooWideError:
            e.back(mark)
            count //= 2
            continue
        except NotLanesError:
            e.back(mark)
            return None
        parts = list(loop.results)
        if n % _PARTIALS:
            return _in_scratch(c, how, x, p, n, parts, rounds * _PARTIALS)
        return _tree(e, how.kind, parts).fold(how.kind)
    return None


def _in_scratch(c: Context, how: _Fold, x: View, p: Places, n: int, parts: Sequence[Handle], done: int) -> Handle:
    """Keep the partials in memory and take in the elements from `done` on. parts: what they hold; empty: the start."""
    e = c.e
    partials = memory(x.element, (_PARTIALS,), e.scratch(stored(x.element), _PARTIALS))
    assert partials.buffer is not None
    if parts:
        for k, part in enumerate(parts):
            partials.buffer.store(k * part.type.count, part)
    else:
        first = e.const(register(x.element), how.start(x.element))
        with over(e, _PARTIALS) as place:
            store(e, partials, (place,), first)
    with over(e, n - done) as place:
        target = ((place + done) % _PARTIALS,)
        found = x.at(e, (*p, place + done))
        store(e, partials, target, e.apply(how.kind, partials.at(e, target), found))
    total = _tree(e, how.kind, [partials.at(e, (at(k),)) for k in range(_PARTIALS)])
    e.release(partials.buffer)
    return total


# --- the best


def _best(name: str) -> Callable[..., View]:
    """Lowest index of the greatest or smallest; NaN loses to everything."""

    def row(c: Context, w: Site, x: View) -> View:
        n, e = x.shape[-1], c.e

        def better(value: Handle, best: Handle) -> Handle:
            pair = (best, value) if name == "argmax" else (value, best)
            if not value.type.is_float:
                return e.apply("lt", *pair)
            reverse = e.apply("le", *reversed(pair))
            return ~reverse & value.eq(value)

        def make(p: Places) -> Handle:
            if not n:
                return e.const("u32", 0)
            is_float = w.operands[0].is_float
            first = x.at(e, (*p, at(0)))
            best, where = (nan(e, first) if is_float else first), e.const("u32", 0)
            low = 0 if is_float else 1
            if _is_small(x, n):
                for k in range(low, n):
                    value = x.at(e, (*p, at(k)))
                    wins = better(value, best)
                    best, where = e.choose(wins, value, best), e.choose(wins, e.const("u32", k), where)
                return where
            if e.lanes:
                raise NotLanesError
            with e.loop(low, n, 1, best, where) as loop:
                index, best, where = loop
                place = e.place_between(index, low, n - 1)
                value = x.at(e, (*p, place))
                wins = better(value, best)
                loop.carry(e.choose(wins, value, best), e.choose(wins, e.word_of(place, "u32"), where))
            return loop.results[1]

        return _reduced(c, w, x, n * (x.cost + 4), make)

    return row


# --- dot


def _dot(c: Context, w: Site, x: View, y: View) -> View:
    n, e, element = x.shape[-1], c.e, w.operands[0]

    def term(place: Place, p: Places) -> Handle:
        a, b = x.at(e, (*p, place)), y.at(e, (*p, place))
        if element.is_float:
            return e.apply("mul", a, b)
        to = register(w.result)
        a, b = (v.convert("i8") if v.type.element.name == "bit" else v for v in (a, b))
        return e.apply("mul", number(e, a, to), number(e, b, to))

    def make(p: Places) -> Handle:
        both = computed(w.result, (n,), (x, y), x.cost + y.cost + 2, lambda q: term(q[0], p))
        if not element.is_float:
            return _folded(c, _FOLDS["sum"], _of(both, ()), register(w.result), 0, n, both)
        total = e.const(register(element), 0.0)
        if _is_small(both, n) or (isinstance(x, Promoted) and n <= MOST):
            for k in range(n):
                total = e.apply("add", total, term(at(k), p))
            return total
        if e.lanes:
            raise NotLanesError
        with e.loop(0, n, 1, total) as loop:
            index, carried = loop
            loop.carry(e.apply("add", carried, term(e.place_between(index, 0, n - 1), p)))
        return loop.results[0]

    if isinstance(x, Promoted) and isinstance(y, Promoted) and prod(w.shape) <= MOST:
        return promoted(e, w.result, w.shape, [make(p) for p in every(w.shape)])
    return computed(w.result, w.shape, (x, y), n * (x.cost + y.cost + 2), make)


# --- scans

_SCANS = {"scan_sum": "add", "scan_max": "max", "scan_xor": "xor"}


def _scan(name: str) -> Callable[..., View]:
    kind = _SCANS[name]

    def row(c: Context, w: Site, x: View) -> View:
        e, n = c.e, x.shape[-1]

        def start() -> Handle:
            if w.result.kind is Kind.BIT:
                return e.const("bit", False)
            fold = _FOLDS["max_of"] if kind == "max" else _FOLDS["sum"]
            value = fold.start(w.result)
            return e.const(register(w.result), float(value) if w.result.is_float else value)

        def combine(total: Handle, value: Handle) -> Handle:
            return fit(e, w.result, e.apply(kind, total, value))

        if isinstance(x, Promoted):
            handles: list[Handle] = []
            for k, value in enumerate(x.handles):
                handles.append(combine(start() if k % n == 0 else handles[-1], value))
            return promoted(e, w.result, w.shape, handles)

        def write(target: View) -> None:
            _scan_axes(e, target, x, (), start, combine)

        view = computed(w.result, w.shape, (x,), 64 + x.cost, lambda p: filled(c, view).at(e, p), write)
        return view

    return row


def filled(c: Context, view: View) -> Memory:
    """Return a view that is only made as a whole, in memory: made here if it is not yet."""
    key = ("filled", view, tuple(c.e.version(name) for name in sorted(view.reads)))
    found = c.e.recall(key)
    if found is None:
        if c.e.lanes:
            raise NotLanesError
        found = c.e.remember(key, materialised(c.e, view))
    assert isinstance(found, Memory)
    return found


def _scan_axes(
    e: Emitter,
    target: View,
    x: View,
    outer: Places,
    start: Callable[[], Handle],
    combine: Callable[[Handle, Handle], Handle],
) -> None:
    if len(outer) < len(x.shape) - 1:
        with over(e, x.shape[len(outer)]) as place:
            _scan_axes(e, target, x, (*outer, place), start, combine)
        return
    n = x.shape[-1]
    with e.loop(0, n, 1, start()) as loop:
        index, total = loop
        places = (*outer, e.place_between(index, 0, n - 1))
        total = combine(total, x.at(e, places))
        store(e, target, places, total)
        loop.carry(total)


ROWS: dict[str, Callable[..., View]] = {
    **{name: _reduction(name) for name in _FOLDS},
    **{name: _best(name) for name in ("argmax", "argmin")},
    "dot": _dot,
    **{name: _scan(name) for name in _SCANS},
}
