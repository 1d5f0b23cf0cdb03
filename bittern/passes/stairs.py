"""Stairs: where a chain of operations goes from one code to the next.

In goes a chain and the interval of its source, out come for each channel the places of its steps. Up to `FEW_VALUES`
values the chain itself is evaluated at every value that its source can have; so the stairs are the chain, ties
included, and nothing is assumed of it. Beyond that, where each operation on the way is known to rise or fall
(`rise.py`), each step is found by halving with the very same evaluation; where that is not known, up to `MOST_VALUES`
values are looked at one by one.
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
FEW_VALUES = 1 << 22  # of all channels together, which take no time
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
        x = np.asarray(x)
        given = np.broadcast_to(x, (*x.shape[:-1], len(self.at))) if len(self.at) > 1 else x
        total = np.empty(given.shape, np.int64)
        for channel, (at, falls) in enumerate(zip(self.at, self.falling, strict=True)):
            columns = slice(None) if len(self.at) == 1 else slice(channel, channel + 1)
            ranked, values = np.sort(at), given[..., columns]
            below = np.searchsorted(ranked, values, "left" if falls else "right")
            total[..., columns] = self.low + (len(at) - below if falls else below)
        return total


def can_tabulate(chain: Chain, span: Interval) -> bool:
    """Whether a chain is evaluated at every value of its source."""
    count = span.most - span.least + 1
    return count <= MOST_STEPS and count * chain.channels <= MOST_VALUES


def is_few(chain: Chain, span: Interval) -> bool:
    """Whether that takes no time."""
    return (span.most - span.least + 1) * chain.channels <= FEW_VALUES


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
    codes = np.ascontiguousarray(table.codes.T)
    change = np.diff(codes, axis=1)
    falls: npt.NDArray[np.bool_] = np.any(change < 0, axis=1)
    rises: npt.NDArray[np.bool_] = np.any(change > 0, axis=1)
    if bool((falls & rises).any()):
        raise ValueError(int(np.argmax(falls & rises)))
    low, high = int(codes.min()), int(codes.max())
    levels = (low + 1 + np.arange(max(1, high - low))).astype(np.int16)
    up = np.append(table.x, table.x[-1] + 1)
    down = np.append(table.x[::-1], table.x[0] - 1)
    rows = zip(codes, falls, strict=True)
    at = [down[np.searchsorted(c[::-1], levels)] if falling else up[np.searchsorted(c, levels)] for c, falling in rows]
    return Stairs(low, np.array(at), falls, EVERY, span)


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
