"""A sum of two 8-bit codes as one line: (a x + b y + c) / 2^t rounded down and clamped, where that is exactly a rule.

There are only 65536 pairs of codes, so a rule with roundings of its own is compared with the line on all of them when a
plan is made (`line_of`): for given a and b, every pair bounds c from below and above. Factors have 30 bits in two
halves, and the two products of a half are one instruction on pairs of 16 bits; the nested rounding down is exact.

Buffers: x, y: [n] i8 or u8. z: [n] of the same element.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.bitops.builder import Builder
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels.requantise import Stage, clamped
from bittern.kernels.tiles import ROWS

Ints = npt.NDArray[Any]

HALF = 15  # bits of the low half of a factor
_BITS = 29  # of the larger factor
_MOST = 24 + HALF  # of the last shift
_NEAR = (0, 1, -1, 3, -3, 8, -8)  # changes of factors that are tried
_FAR = 1 << 62
_PAIR = 2 * ROWS
_ROUND = 16384  # values of a round of the parallel loop
_PICKS = tuple(lane for k in range(_PAIR) for lane in (k, _PAIR + k))


@dataclass(frozen=True, slots=True)
class Line:
    """clamp((a x + b y + c) >> t). element: of codes. low, high: of results."""

    element: str
    a: int
    b: int
    c: int
    t: int
    low: int
    high: int

    def arguments(self) -> tuple[Any, ...]:
        """Return the line in plain values, for a recipe."""
        return (self.element, self.a, self.b, self.c, self.t, self.low, self.high)


def line_of(element: str, wanted: Ints, a: float, b: float, low: int, high: int) -> Line | None:
    """Return a line that gives all these results, or None where none is found.

    wanted: [256, 256], for x, then y, ascending. a, b: about what the factors are.
    """
    least = -128 if element == "i8" else 0
    codes = np.arange(least, least + 256, dtype=np.int64)
    largest = max(abs(a), abs(b))
    if not 0 < largest < 1 << HALF:
        return None
    t = min(_BITS - int(np.ceil(np.log2(largest))), _MOST)
    for u, v in _near(a, b, t):
        sums = u * codes[:, None] + v * codes[None, :]
        from_ = (wanted << t) - sums  # the least c, and the one above the greatest
        most = int((from_ + (1 << t))[wanted < high].min(initial=_FAR))
        lowest = int(from_[wanted > low].max(initial=-_FAR))
        if lowest < most and t >= HALF:
            c = _between(lowest, most)
            if abs(c >> HALF) < 1 << 29:
                return Line(element, u, v, c, t, low, high)
    return None


def _between(low: int, high: int) -> int:
    """Return a number from low to below high, one of which may be far away: then one near the other."""
    if low == -_FAR or high == _FAR:
        return high - 1 if low == -_FAR else low
    return (low + high) // 2


def _near(a: float, b: float, t: int) -> Iterator[tuple[int, int]]:
    first, second = round(a * 2**t), round(b * 2**t)
    for u, v in sorted(product(_NEAR, _NEAR), key=lambda pair: abs(pair[0]) + abs(pair[1])):
        yield first + u, second + v


def blend_bytes(n: int, line: Line) -> Kernel:
    """Return the kernel for n values."""
    b = Builder(f"blend_{line.element}_{n}")
    x, y = b.buffer("x", line.element, n, "read"), b.buffer("y", line.element, n, "read")
    z = b.buffer("z", line.element, n, "write")
    stage = Stage("sum", line.element, line.low, line.high)

    def some(at: Handle, offset: int, left: int = _PAIR) -> None:
        mask = None if left >= _PAIR else b.const(f"bitx{_PAIR}", [k < left for k in range(_PAIR)])
        codes = [view.load(f"{line.element}x{_PAIR}", at, mask, offset=offset).convert("i16") for view in (x, y)]
        for half in range(2):
            pairs = codes[0].shuffle(_PICKS[half * _PAIR : (half + 1) * _PAIR], codes[1])
            made = clamped(_values(pairs, line), stage)
            if left < ROWS * (half + 1):
                rest = b.const(f"bitx{ROWS}", [k < left - ROWS * half for k in range(ROWS)])
                z.store(at, made, rest, offset=offset + ROWS * half)
            else:
                z.store(at, made, offset=offset + ROWS * half)

    whole = n // _PAIR
    if whole:
        with b.parallel(0, -(-whole * _PAIR // _ROUND)) as part:
            low = part * (_ROUND // _PAIR)
            high = (low + _ROUND // _PAIR).min(b.index(whole))
            with b.loop(low, high) as loop:
                (k,) = loop
                some(k * _PAIR, 0)
    if n % _PAIR:
        with b.parallel(0, 1):
            some(b.index(whole * _PAIR), 0, n % _PAIR)
    return b.build()


def _values(pairs: Handle, line: Line) -> Handle:
    """Make the line's values. pairs: x and y in turn, i16x32 -> i32x16."""
    b = pairs.builder
    below = (1 << HALF) - 1
    high = b.const("i16x32", [line.a >> HALF, line.b >> HALF] * ROWS)
    low = b.const("i16x32", [line.a & below, line.b & below] * ROWS)
    rest = pairs.dot(low, b.const("i32x16", line.c & below)) >> HALF
    return pairs.dot(high, rest + b.const("i32x16", line.c >> HALF)) >> (line.t - HALF)
