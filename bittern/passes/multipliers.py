"""Requantisation found from stairs: a multiplier and a shift that give the same code at every value.

The one rule is code = clamp(floor((x * m + half) / 2^s) + zero). With a = m / 2^s, a code is at least v exactly where
x * a >= v - zero - 1/2. So a step at x between T - 1 and T asks for (T - 1) * a < v - zero - 1/2 <= T * a, and all
steps together for a number a in an interval of rationals. The one with the fewest bits is taken, and checked with whole
numbers on both sides of every step and at both ends: the rule never turns back, so it is then right at every value.

Floats round ties to even. Where ties occur the rule with ties up may fit no number a; then the one with ties to even is
tried, for which a tie counts as reached where v - zero is even.

Where codes at x = 0 differ by channel, x is spread first: x * 2^k + b takes the place of x, with a number b for each
channel. Then a and b are found as a line between the two rows of points that the steps give.

Floats round at every operation, so far from 0 their steps lie a place off those of any line, here and there. Such
places are nudged: the rule gets x + 1 or x - 1 for them, a few for each channel.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from bittern.passes.stairs import Stairs

_MOST_SHIFT = 62
_LARGEST = (1 << 31) - 1
_HALVINGS = 72
_STEEPEST = 512.0  # codes for one step of the source
_MOST_NUDGES = 24  # of a channel
_ROOM = (12, 8, 4, 2)  # values of k that are tried

Numbers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Requantisation:
    """code = clamp(round(((x * 2^spread + offset) * multiplier) / 2^shift) + zero), for each channel but zero.

    is_even: ties go to the even number, else up. nudges: (places, -1, 0 or +1), each for every channel; x at its place
    is that much more. The places of a channel differ.
    """

    multiplier: Numbers
    shift: Numbers
    zero: int
    low: int
    high: int
    spread: int = 0
    offset: Numbers | None = None
    is_even: bool = False
    nudges: tuple[tuple[Numbers, Numbers], ...] = ()

    def codes(self, x: Numbers) -> Numbers:
        """Return the codes of values. x: i64[..., channels]."""
        x = x + sum((np.where(x == at, by, 0) for at, by in self.nudges), np.zeros(1, np.int64))
        wide = (x << self.spread) + (0 if self.offset is None else self.offset)
        product, half = wide * self.multiplier, (np.int64(1) << self.shift) >> 1
        whole = (product + half) >> self.shift
        if self.is_even:
            is_tie = (half > 0) & ((product + half) & ((np.int64(1) << self.shift) - 1) == 0)
            whole = whole - (is_tie & (whole & 1 == 1))
        made: Numbers = np.clip(whole + self.zero, self.low, self.high)
        return made


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """The steps of one channel: at `upper` x * a + b is at least a bound, at `lower` below one; bounds are doubled."""

    upper: Numbers
    least: Numbers
    lower: Numbers
    most: Numbers


def requantisation(stairs: Stairs) -> Requantisation | None:
    """Return the requantisation that is the stairs, or None."""
    for find in (_plain, _even, _with_offset, _plain_nudged, _offset_nudged):
        found = find(stairs)
        if found is not None and is_equal(found, stairs):
            return found
    return None


def is_equal(made: Requantisation, stairs: Stairs) -> bool:
    """Whether a requantisation has the codes of the stairs at every value.

    Looked at are both ends, and two values on both sides of each step: nudges are next to steps alone.
    """
    at = np.where(stairs.falling[:, None], stairs.at + 1, stairs.at).T
    span, (low, high) = stairs.span, stairs.limits
    x = np.clip(np.concatenate([at, at - 1, at + 1, at - 2, low[None], high[None]]), low, high)
    return _has_room(made, span.least - 1, span.most + 1) and bool((made.codes(x) == stairs.codes(x)).all())


def _has_room(made: Requantisation, low: int, high: int) -> bool:
    """Whether nothing wraps: x * 2^k + b in 32 bits, the product in 63."""
    offset = [0] if made.offset is None else [int(b) for b in made.offset]
    widest = max(abs(x * (1 << made.spread) + b) for x in (low, high) for b in (min(offset), max(offset)))
    most = max(abs(int(m)) for m in made.multiplier)
    is_small = most <= _LARGEST and int(made.shift.min()) >= 0 and int(made.shift.max()) <= _MOST_SHIFT
    return is_small and widest <= _LARGEST and widest * most + (1 << int(made.shift.max())) < 1 << 63


def _plain(stairs: Stairs) -> Requantisation | None:
    return _without_offset(stairs, is_even=False)


def _even(stairs: Stairs) -> Requantisation | None:
    return _without_offset(stairs, is_even=True)


def _without_offset(stairs: Stairs, is_even: bool) -> Requantisation | None:
    zero = _zero(stairs)
    if zero is None:
        return None
    rows = []
    for channel in range(len(stairs.at)):
        row = _simplest(*_ends(_steps(stairs, channel, zero), is_even))
        if row is None:
            return None
        rows.append(row)
    return _of_rows(stairs, zero, rows, is_even)


def _of_rows(stairs: Stairs, zero: int, rows: list[tuple[int, int]], is_even: bool = False) -> Requantisation:
    multipliers, shifts = (np.array([row[k] for row in rows], np.int64) for k in (0, 1))
    return Requantisation(multipliers, shifts, zero, stairs.low, stairs.high, is_even=is_even)


def _zero(stairs: Stairs) -> int | None:
    """Return the code of 0 that all channels share."""
    codes = {int(code) for code in stairs.codes(np.zeros((1, len(stairs.at)), np.int64))[0]}
    return codes.pop() if len(codes) == 1 else None


def _steps(stairs: Stairs, channel: int, zero: int) -> _Steps:
    """Return what the steps inside the interval ask of one channel, and what its ends do."""
    low, high = (int(end[channel]) for end in stairs.limits)
    at, bounds = stairs.at[channel], 2 * (stairs.low + 1 + np.arange(stairs.at.shape[1]) - zero) - 1
    if stairs.falling[channel]:
        has, lacks, end = np.minimum(at, high), at + 1, low
    else:
        has, lacks, end = np.maximum(at, low), at - 1, high
    is_reached = (low <= has) & (has <= high)
    is_inside = (low <= lacks) & (lacks <= high)
    is_never = ~is_reached & ~is_inside
    lower = np.concatenate([lacks[is_inside], np.full(int(is_never.sum()), end)])
    return _Steps(has[is_reached], bounds[is_reached], lower, np.concatenate([bounds[is_inside], bounds[is_never]]))


@dataclass(frozen=True, slots=True)
class _End:
    """An end of an interval of rationals. is_in: whether it belongs to it."""

    at: Fraction
    is_in: bool = True


_NONE = (_End(Fraction(1)), _End(Fraction(0)))


def _ends(steps: _Steps, is_even: bool) -> tuple[_End, _End]:
    """Return between which ends a lies; nowhere if the first one is above the second."""
    low, high = _End(Fraction(-_LARGEST)), _End(Fraction(_LARGEST))
    for x, bounds, is_upper in ((steps.upper, steps.least, True), (steps.lower, steps.most, False)):
        if not all(_holds(int(b), is_upper, not is_even or (int(b) + 1) % 4 == 0) for b in np.unique(bounds[x == 0])):
            return _NONE
        for is_low in (True, False):
            side = (x > 0) if is_upper == is_low else (x < 0)
            for place in _extreme(x[side], bounds[side], is_low):
                bound = int(bounds[side][place])
                reaches = not is_even or (bound + 1) % 4 == 0  # whether a tie has the upper code
                end = _End(Fraction(bound, 2 * int(x[side][place])), reaches == is_upper)
                if is_low:
                    low = max(low, end, key=lambda one: (one.at, not one.is_in))
                else:
                    high = min(high, end, key=lambda one: (one.at, one.is_in))
    return low, high


def _extreme(x: Numbers, bounds: Numbers, is_greatest: bool) -> list[int]:
    """Return the places at which bound / x may be the greatest, or the least: those that doubles do not tell apart."""
    if not len(x):
        return []
    ratio = bounds / x if is_greatest else -(bounds / x)
    best = ratio.max()
    return [int(place) for place in np.flatnonzero(ratio >= best - abs(best) * 1e-13)]


def _holds(bound: int, is_upper: bool, reaches: bool) -> bool:
    """Whether 0 is on its side of a bound."""
    is_reached = bound <= 0 if reaches else bound < 0
    return is_reached == is_upper


def _simplest(low: _End, high: _End) -> tuple[int, int] | None:
    """Return the first m, s with m / 2^s between the ends, m nearest to 0."""
    if low.at > high.at:
        return None
    for shift in range(_MOST_SHIFT + 1):
        first = _whole(low.at * (1 << shift), low.is_in)
        last = -_whole(-high.at * (1 << shift), high.is_in)
        if first <= last:
            number = min(max(first, 0), last)
            return (number, shift) if abs(number) <= _LARGEST else None
    return None


def _whole(at: Fraction, is_in: bool) -> int:
    """Return the least whole number from a number on, itself if it `is_in`."""
    number = -((-at.numerator) // at.denominator)
    return number if is_in or number != at else number + 1


def _with_offset(stairs: Stairs) -> Requantisation | None:
    """Return a requantisation with an offset for each channel."""
    lines = _lines(stairs)
    if lines is None or bool((lines[2] <= 0).any()):
        return None
    return next((made for made in _of_lines(stairs, lines) if is_equal(made, stairs)), None)


def _of_lines(stairs: Stairs, lines: "_Lines") -> Iterator[Requantisation]:
    """Yield the lines in whole numbers, the finest first."""
    span = max(abs(stairs.span.least), abs(stairs.span.most), 1)
    for spread in _ROOM:
        if span << spread <= _LARGEST >> 1:
            rows = [_rounded(a, b, spread) for a, b in zip(*lines[:2], strict=True)]
            m, s, b = (np.array([row[k] for row in rows], np.int64) for k in range(3))
            yield Requantisation(m, s, stairs.low, stairs.low, stairs.high, spread, b)


_Lines: TypeAlias = tuple[Reals, Reals, Reals]  # slope, height at 0, room between the points; below 0 if there is none


def _lines(stairs: Stairs) -> _Lines | None:
    """Return for each channel the line x * a + b between the two rows of points that is as far from both as possible.

    The gap between the rows, seen along a, is convex; its least place is where its slope changes sign.
    """
    rows = [_steps(stairs, channel, stairs.low) for channel in range(len(stairs.at))]
    if not all(len(row.upper) and len(row.lower) for row in rows):
        return None
    ux, uw = (_padded([getattr(row, name) for row in rows]) for name in ("upper", "least"))
    lx, lw = (_padded([getattr(row, name) for row in rows]) for name in ("lower", "most"))
    each = np.arange(len(rows))
    low, high = np.full(len(rows), -_STEEPEST), np.full(len(rows), _STEEPEST)
    for _ in range(_HALVINGS):
        a = (low + high) / 2
        first, last = (uw / 2 - a[:, None] * ux).argmax(1), (lw / 2 - a[:, None] * lx).argmin(1)
        rises = lx[each, last] > ux[each, first]
        low, high = np.where(rises, low, a), np.where(rises, a, high)
    bottom, top = (uw / 2 - a[:, None] * ux).max(1), (lw / 2 - a[:, None] * lx).min(1)
    return a, (bottom + top) / 2, top - bottom


def _padded(rows: list[Numbers]) -> Reals:
    """Return rows of one length; those that are shorter repeat their last number."""
    size = max(len(row) for row in rows)
    return np.array([np.pad(row, (0, size - len(row)), mode="edge") for row in rows], np.float64)


def _rounded(a: float, b: float, spread: int) -> tuple[int, int, int]:
    """Return m, s, c with (x * 2^spread + c) * m / 2^s near x * a + b; checked by the caller."""
    if not a:
        return 0, 0, 0
    shift = min(_MOST_SHIFT, 29 - int(np.floor(np.log2(abs(a) / 2**spread))))
    multiplier = round(Fraction(a) / (1 << spread) * (1 << max(shift, 0)))
    offset = round(Fraction(b) * (1 << max(shift, 0)) / multiplier) if multiplier else 0
    return multiplier, max(shift, 0), min(max(offset, -_LARGEST), _LARGEST)


# --- nudges


def _plain_nudged(stairs: Stairs) -> Requantisation | None:
    """Return the rule with the middle of what the steps ask of a, nudged."""
    zero = _zero(stairs)
    if zero is None:
        return None
    rows = []
    for channel in range(len(stairs.at)):
        steps = _steps(stairs, channel, zero)
        low, high = _ends(steps, False)
        if (low, high) == _NONE:
            return None
        rows.append(_simplest(low, high) or _fine(_least_wrong(steps, float(high.at), float(low.at))))
    return _nudged(_of_rows(stairs, zero, rows), stairs)


def _least_wrong(steps: _Steps, first: float, last: float) -> Fraction:
    """Return the a between two numbers for which fewest steps ask in vain."""
    sides = [(steps.upper, steps.least, 1), (steps.lower, steps.most, -1)]
    above = np.sort(np.concatenate([bounds[x * way > 0] / (2 * x[x * way > 0]) for x, bounds, way in sides]))
    below = np.sort(np.concatenate([bounds[x * way < 0] / (2 * x[x * way < 0]) for x, bounds, way in sides]))
    places = np.unique(np.clip(np.concatenate([above, below]), first, last))
    between = (places[1:] + places[:-1]) / 2 if len(places) > 1 else places
    wrong = len(above) - np.searchsorted(above, between) + np.searchsorted(below, between)
    return Fraction(float(between[wrong.argmin()]))


def _fine(a: Fraction) -> tuple[int, int]:
    """Return m, s with m / 2^s near a, m of up to 30 bits."""
    if not a:
        return 0, 0
    shift = min(max(29 - int(np.floor(np.log2(abs(float(a))))), 0), _MOST_SHIFT)
    return round(a * (1 << shift)), shift


def _offset_nudged(stairs: Stairs) -> Requantisation | None:
    """Return the rule with an offset for each channel, nudged."""
    lines = _lines(stairs)
    if lines is None:
        return None
    made = (_nudged(each, stairs) for each in _of_lines(stairs, lines))
    return next((each for each in made if each is not None), None)


def _nudged(base: Requantisation, stairs: Stairs) -> Requantisation | None:
    """Return a rule with the places nudged where it is wrong, if those are few and next to steps.

    Between two steps the rule never turns back. So what is right two places from a step, or next to it and nudged, is
    right between.
    """
    if not _has_room(base, stairs.span.least - 1, stairs.span.most + 1):
        return None
    at = np.where(stairs.falling[:, None], stairs.at + 1, stairs.at).T
    low, high = stairs.limits
    x = np.clip(np.concatenate([at - 2, at - 1, at, at + 1, low[None], high[None]]), low, high)
    is_wrong = base.codes(x) != stairs.codes(x)
    rows = []
    for channel in np.flatnonzero(is_wrong.any(axis=0)):
        places = np.unique(x[is_wrong[:, channel], channel])
        near = np.concatenate([at[:, channel], at[:, channel] - 1])
        if len(places) > _MOST_NUDGES or not bool(np.isin(places, near).all()):
            return None
        rows.append((int(channel), places))
    return _with_nudges(base, stairs, rows)


def _with_nudges(base: Requantisation, stairs: Stairs, rows: list[tuple[int, Numbers]]) -> Requantisation | None:
    """Return a rule with places nudged. rows: (channel, places)."""
    count, channels = max((len(places) for _, places in rows), default=0), len(stairs.at)
    nowhere = stairs.span.most + 1 if stairs.span.most < _LARGEST else stairs.span.least - 1
    at, by = np.full((count, channels), nowhere, np.int64), np.zeros((count, channels), np.int64)
    for channel, places in rows:
        for row, place in enumerate(places):
            at[row, channel] = place
    wanted = stairs.codes(at)
    for way in (1, -1):
        by = np.where((base.codes(at + way) == wanted) & (base.codes(at) != wanted), way, by)
    return replace(base, nudges=tuple(zip(at, by, strict=True)))
