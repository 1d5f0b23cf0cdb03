"""Chains of two sources: residual sums, and whatever else makes codes of two arrays value by value.

In goes a chain of two sources with their intervals, out comes what takes its place. Every pair of values is looked at.
Where the chain depends on q * x + p * y alone, with small whole numbers p and q (the ratio of the two scales), it is a
chain of that sum. Else it is a table of all pairs, if there are few.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from bittern.front.network.assembly import Assembly
from bittern.graph.evaluate import evaluate
from bittern.graph.node import Function, Node, walk
from bittern.passes.chains import BlockedError, Chain
from bittern.passes.forms import Form, as_i32, form_of_table
from bittern.passes.stairs import EVERY, Table
from bittern.passes.width import Interval, interval
from bittern.types.elements import I32, Element
from bittern.types.values import Tensor

_MOST_PAIRS = 1 << 26  # of all channels together
_MOST_ROWS = 1 << 20  # values in a table of pairs
_MOST_FACTOR = 64
_LARGEST = (1 << 31) - 1
_CHUNK = 1 << 20

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """All pairs. x, y: the values of both sources. codes: [pairs, channels], y fastest."""

    x: Numbers
    y: Numbers
    codes: npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """What a chain of two sources becomes: a form of their sum, or a table (`factors` is None)."""

    form: Form
    factors: tuple[int, int] | None
    table: npt.NDArray[np.int16] | None = None
    first: tuple[int, int] = (0, 0)
    count: int = 0

    def draw(self, a: Assembly, x: Node, y: Node, element: Element) -> Node:
        """Return the codes of two arrays."""
        x, y = as_i32(a, x), as_i32(a, y)
        if self.factors is not None:
            terms = [a.scalar("mul", v, k) if k != 1 else v for v, k in zip((x, y), self.factors, strict=True)]
            return self.form.draw(a, a.op("add", *terms))
        assert self.table is not None
        rows = a.scalar("mul", a.scalar("sub", x, self.first[0]), self.count)
        entry = a.op("wrap", a.op("add", rows, a.scalar("sub", y, self.first[1])), to="u32")
        if self.table.shape[1] == 1:
            return a.op("take", a.constant(self.table[:, 0], element.name), entry)
        channel = a.spread(a.op("iota", count=self.table.shape[1]), entry)
        return a.op("take", a.constant(np.ascontiguousarray(self.table.T), element.name), channel, entry)


def pair_of(chain: Chain, spans: tuple[Interval, Interval], element: Element) -> Pair:
    """Return what a chain of two sources becomes. BlockedError where it has too many pairs and no sum."""
    counts = [span.most - span.least + 1 for span in spans]
    if counts[0] * counts[1] * chain.channels > _MOST_PAIRS:
        raise BlockedError(f"it comes from two arrays of {counts[0]} and {counts[1]} values", chain.end)
    grid = _grid(chain, spans)
    factors = _factors(chain, spans)
    found = None if factors is None else _of_sum(chain, grid, spans, factors, element)
    if found is not None:
        return found
    if grid.codes.size > _MOST_ROWS:
        raise BlockedError(f"it comes from two arrays of {counts[0]} and {counts[1]} values, not from a sum", chain.end)
    name = Form("take", lambda a, x: x, EVERY, detail=f"{counts[0]} x {counts[1]} values of two arrays")
    return Pair(name, None, grid.codes, (int(grid.x[0]), int(grid.y[0])), len(grid.y))


def _grid(chain: Chain, spans: tuple[Interval, Interval]) -> _Grid:
    x, y = (np.arange(span.least, span.most + 1, dtype=np.int64) for span in spans)
    rows = max(1, _CHUNK // (len(y) * chain.channels))
    parts = []
    for start in range(0, len(x), rows):
        pairs = [part.reshape(-1, 1) for part in np.meshgrid(x[start : start + rows], y, indexing="ij")]
        parts.append(chain.values(*(_stored(chain, k, pair) for k, pair in enumerate(pairs))).astype(np.int16))
    return _Grid(x, y, np.concatenate(parts))


def _stored(chain: Chain, place: int, values: Numbers) -> npt.NDArray[np.generic]:
    type_ = chain.sources[place].type
    assert isinstance(type_, Tensor), type_
    spread = np.broadcast_to(values, (len(values), chain.channels))
    return np.ascontiguousarray(spread.astype(np.dtype(type_.element.storage)))


def _factors(chain: Chain, spans: tuple[Interval, Interval]) -> tuple[int, int] | None:
    """Return whole numbers in the ratio of what the two sources add to their sum, where they first meet."""
    for each in walk(chain.form.result):
        if each.kind in ("add", "sub") and len(each.inputs) == 2:
            sides = [_read(i) for i in each.inputs]
            if sorted(sides) != [(0,), (1,)]:
                continue
            slopes = [_slope(chain, i, side[0], spans[side[0]]) for i, side in zip(each.inputs, sides, strict=True)]
            if each.kind == "sub":
                slopes[1] = -slopes[1]
            if sides[0] == (1,):
                slopes.reverse()
            return _ratio(*slopes)
    return None


def _read(of: Node) -> tuple[int, ...]:
    """Return the places of the sources that a node of the form depends on."""
    places = {each["index"] for each in walk(of) if each.kind == "param"}
    return tuple(sorted(place for place in places if isinstance(place, int)))


def _slope(chain: Chain, of: Node, place: int, span: Interval) -> float:
    """Return by how much a value of one source rises from one end to the other, by step, in the first channel."""
    ends = np.array([[span.least], [span.most]])
    given = [_stored(chain, k, ends) for k in range(2)]
    made = evaluate(Function(1, chain.form.params, of), given, [2]).astype(np.float64)
    return float(made[1, 0] - made[0, 0]) / max(1, span.most - span.least)


def _ratio(first: float, second: float) -> tuple[int, int] | None:
    if not (np.isfinite(first) and np.isfinite(second)) or first == 0 or second == 0:
        return None
    ratio = Fraction(first / second).limit_denominator(_MOST_FACTOR)
    if ratio == 0 or abs(ratio.numerator) > _MOST_FACTOR:
        return None
    return (ratio.numerator, ratio.denominator) if second > 0 else (-ratio.numerator, -ratio.denominator)


def _of_sum(
    chain: Chain, grid: _Grid, spans: tuple[Interval, Interval], factors: tuple[int, int], element: Element
) -> Pair | None:
    """Return a form of factors[0] * x + factors[1] * y if the codes depend on that alone."""
    total = (grid.x[:, None] * factors[0] + grid.y[None] * factors[1]).reshape(-1)
    if max(abs(int(total.min())), abs(int(total.max()))) > _LARGEST >> 1:
        return None
    order = np.argsort(total, kind="stable")
    ranked, codes = total[order], grid.codes[order]
    is_same = ranked[1:] == ranked[:-1]
    if bool((codes[1:][is_same] != codes[:-1][is_same]).any()):
        return None
    first = np.concatenate([[True], ~is_same])
    table = Table(ranked[first], codes[first])
    span = interval(int(ranked[0]), int(ranked[-1]))
    try:
        return Pair(form_of_table(table, span, chain, element, I32), factors)
    except BlockedError:
        return None
