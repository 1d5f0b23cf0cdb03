"""Stairs: where a chain of operations goes from one code to the next.

In goes a chain and the interval of its source, out come for each channel the places of its steps. Up to `MOST_VALUES`
values the chain itself is evaluated at every value that its source can have; so the stairs are the chain, ties
included, and nothing is assumed of it. Beyond that it must be known to rise or fall (`rise.py`: each operation on the
way does), and each step is found by halving with the very same evaluation.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bittern.ops.table import Array
from bittern.passes.chains import Chain
from bittern.passes.rise import directions
from bittern.passes.width import Interval
from bittern.types.elements import Element
from bittern.types.values import Tensor

MOST_STEPS = 1 << 22  # values of the source up to which a chain is evaluated at every one
MOST_VALUES = 1 << 26  # of all channels together
_CHUNK = 1 << 20

Numbers: TypeAlias = npt.NDArray[np.int64]

EVERY = "evaluated at every value of the accumulator"
HALVED = "each operation rises or falls; every step found by halving"


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A chain at every value of its source. x: i64[values], ascending. codes: i16[values, channels].

    Outside the interval of its own channel a code is that of the interval's nearest end.
    """

    x: Numbers
    codes: npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True, eq=False)
class Stairs:
    """A chain that never falls, or never rises, channel by channel.

    The code is `low` plus the number of thresholds that are reached: x >= at, or in a falling channel x <= at.
    at: i64[channels, steps]. falling: bool[channels]. proof: how it is known. span: of the source, all channels.
    """

    low: int
    at: Numbers
    falling: npt.NDArray[np.bool_]
    proof: str
    span: Interval

    @property
    def high(self) -> int:
        """The greatest code."""
        return self.low + int(self.at.shape[1])

    @property
    def limits(self) -> tuple[Numbers, Numbers]:
        """The least and the greatest value of the source, for each channel."""
        if len(self.at) == 1:
            return np.array([self.span.least]), np.array([self.span.most])
        shape = (len(self.at),)
        return np.broadcast_to(self.span.low, shape), np.broadcast_to(self.span.high, shape)

    def codes(self, x: Array) -> Numbers:
        """Return the codes of values. x: [..., channels], or [..., 1] for all channels."""
        reached = np.where(self.falling[:, None], x[..., None] <= self.at, x[..., None] >= self.at)
        total: Numbers = self.low + reached.sum(-1, dtype=np.int64)
        return total


def can_tabulate(chain: Chain, span: Interval) -> bool:
    """Whether a chain is evaluated at every value of its source."""
    count = span.most - span.least + 1
    return count <= MOST_STEPS and count * chain.channels <= MOST_VALUES


def tabulate(chain: Chain, span: Interval) -> Table:
    """Evaluate a chain at every value of its source."""
    element, x, limits = _element(chain), _numbers(chain, span), _limits(chain, span)
    rows = max(1, _CHUNK // chain.channels)
    parts = [_run(chain, element, x[start : start + rows, None], limits) for start in range(0, len(x), rows)]
    return Table(x, np.concatenate(parts).astype(np.int16))


def sources(chain: Chain, span: Interval) -> Array:
    """Return every value of a chain's source for each channel, ascending, in storage: [values, channels]."""
    limits = _limits(chain, span)
    given = np.clip(_numbers(chain, span)[:, None], limits.low, limits.high)
    return np.ascontiguousarray(given.astype(np.dtype(_element(chain).storage)))


def _numbers(chain: Chain, span: Interval) -> Numbers:
    x = np.arange(span.least, span.most + 1, dtype=np.int64)
    return x[x != 0] if _element(chain).name == "b1" else x


def _element(chain: Chain) -> Element:
    assert isinstance(chain.source.type, Tensor), chain.source
    return chain.source.type.element


def stairs_of_table(table: Table, span: Interval) -> Stairs:
    """Return the stairs of a table. BlockedError never; ValueError where a channel both rises and falls."""
    codes = table.codes
    change = np.diff(codes, axis=0)
    falls: npt.NDArray[np.bool_] = np.any(change < 0, axis=0)
    rises: npt.NDArray[np.bool_] = np.any(change > 0, axis=0)
    if bool((falls & rises).any()):
        raise ValueError(int(np.argmax(falls & rises)))
    low, high = int(codes.min()), int(codes.max())
    steps = max(1, high - low)
    reached = np.stack([(codes > low + step).sum(axis=0) for step in range(steps)], axis=1)
    place = len(table.x) - reached  # how many values lie below the step, seen from the low end
    up = np.append(table.x, table.x[-1] + 1)
    down = np.append(table.x[::-1], table.x[0] - 1)
    at = np.where(falls[:, None], down[place], up[place])
    return Stairs(low, at, falls, EVERY, span)


def climb(chain: Chain, span: Interval) -> Stairs:
    """Return the stairs of a chain that is known to rise or fall. BlockedError where that is not known."""
    element, limits = _element(chain), _limits(chain, span)
    falls: npt.NDArray[np.bool_] = np.less(directions(chain, limits), 0)
    ends = _run(chain, element, np.stack([limits.low, limits.high]), None).astype(np.int64)
    low, high = int(ends.min()), int(ends.max())
    levels = low + 1 + np.arange(max(1, high - low))[:, None]
    count = limits.high - limits.low + 1
    above = np.broadcast_to(count, (len(levels), chain.channels)).copy()  # the first place known to reach the level
    below = np.full_like(above, -1)  # the last place known not to
    while bool((above - below > 1).any()):
        middle = (above + below) // 2
        place = np.minimum(middle, count - 1)
        x = np.where(falls, limits.high - place, limits.low + place)
        has = (_run(chain, element, x, None) >= levels) | (middle >= count)
        is_open = above - below > 1
        above, below = np.where(has & is_open, middle, above), np.where(~has & is_open, middle, below)
    at = np.where(falls, limits.high - above, limits.low + above).T
    return Stairs(low, np.ascontiguousarray(at), falls, HALVED, span)


def _limits(chain: Chain, span: Interval) -> Interval:
    """Return the interval of each channel of a chain's form."""
    if chain.channels == 1:
        return Interval(np.array([span.least]), np.array([span.most]))
    shape = (chain.channels,)
    return Interval(np.broadcast_to(span.low, shape).copy(), np.broadcast_to(span.high, shape).copy())


def _run(chain: Chain, element: Element, x: Any, limits: Interval | None) -> Array:
    """Evaluate a chain at values, kept inside the limits of each channel. x: i64[n, channels or 1]."""
    given = np.broadcast_to(x, (len(x), chain.channels)) if limits is None else np.clip(x, limits.low, limits.high)
    return chain.values(np.ascontiguousarray(given.astype(np.dtype(element.storage))))
