"""Sums and differences of two arrays of 8-bit codes with scales of their own, by TFLite's reference rule.

Each operand, zero taken off and with `left` more bits, times its factor, rounded twice; the sum times a third factor.
A factor that only shifts without loss (the larger scale's has multiplier 2^30) costs one shift.

Buffers: x, y: [n] i8 or u8. z: [n] of the same element.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.bitops.builder import Builder
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels.blend_bytes import Line, line_of
from bittern.kernels.requantise import Stage, clamped, high_products
from bittern.kernels.tiles import ROWS

Ints = npt.NDArray[Any]

_EACH = 4  # vectors of a round of the loop
_ROUND = 16384  # values of a round of the parallel loop


@dataclass(frozen=True, slots=True)
class Factor:
    """multiplier / 2^31 * 2^shift; a shift to the left comes first. zero: is taken off before."""

    zero: int
    multiplier: int
    shift: int


@dataclass(frozen=True, slots=True)
class Sum:
    """What is computed. left: bits. less: a difference. zero, low, high: of the codes that are made."""

    element: str
    first: Factor
    second: Factor
    left: int
    last: Factor
    zero: int
    low: int
    high: int
    less: bool = False

    def arguments(self) -> tuple[Any, ...]:
        """Return the sum in plain values, for a recipe."""
        factors = ((each.zero, each.multiplier, each.shift) for each in (self.first, self.second, self.last))
        return (self.element, *factors, self.left, self.zero, self.low, self.high, self.less)

    def is_exact(self) -> bool:
        """Whether 32 bits hold every step."""
        most = 0
        for factor in (self.first, self.second):
            reach = 255 + abs(factor.zero) << self.left << max(factor.shift, 0)
            most = max(most, reach, self.reach(factor))
        total = self.reach(self.first) + self.reach(self.second) << max(self.last.shift, 0)
        return max(most, total) + (1 << max(-self.last.shift, 0)) + 512 < 1 << 31

    def reach(self, factor: Factor) -> int:
        """Return the most that an operand is after its factor, and what is added to it before the last shift."""
        moved = 255 + abs(factor.zero) << self.left << max(factor.shift, 0)
        return (moved * factor.multiplier >> 31) + 2 + (1 << max(-factor.shift, 0))

    def table(self) -> Ints:
        """Return the codes of all pairs of codes, [256, 256], x first, ascending; by the rule itself."""
        least = -128 if self.element == "i8" else 0
        codes = np.arange(least, least + 256, dtype=np.int64)
        u, v = (rescaled(codes - each.zero << self.left, each) for each in (self.first, self.second))
        total = u[:, None] - v[None, :] if self.less else u[:, None] + v[None, :]
        made: Ints = np.clip(rescaled(total, self.last) + self.zero, self.low, self.high)
        return made

    def line(self) -> Line | None:
        """Return the line that gives the same codes, if there is one."""
        one, two = (self.real(each) * 2.0**self.left * self.real(self.last) for each in (self.first, self.second))
        return line_of(self.element, self.table(), one, -two if self.less else two, self.low, self.high)

    def real(self, factor: Factor) -> float:
        """Return what a factor stands for."""
        return factor.multiplier * 2.0 ** (factor.shift - 31)


def rescaled(x: Ints, factor: Factor) -> Ints:
    """Return numbers times a factor by TFLite's rule. x: i64, of which every step fits 32 bits."""
    near = ((x << max(factor.shift, 0)) * factor.multiplier + (1 << 30)) >> 31
    down = max(-factor.shift, 0)
    made: Ints = (near + (near >> 63) * (down > 0) + (1 << down >> 1)) >> down
    return made


def sum_of(arguments: tuple[Any, ...]) -> Sum:
    """Return the sum of the plain values of a recipe."""
    element, first, second, last, left, *rest = arguments
    return Sum(element, Factor(*first), Factor(*second), left, Factor(*last), *rest)


def add_bytes(n: int, total: Sum) -> Kernel:
    """Return the kernel for n values."""
    b = Builder(f"add_{total.element}_{n}")
    x, y = b.buffer("x", total.element, n, "read"), b.buffer("y", total.element, n, "read")
    z = b.buffer("z", total.element, n, "write")
    stage = Stage("sum", total.element, total.low, total.high)

    def some(at: Handle, offset: int, mask: Handle | None = None) -> None:
        first, second = (
            view.load(f"{total.element}x{ROWS}", at, mask, offset=offset).convert("i32") for view in (x, y)
        )
        u, v = _operand(first, total.first, total.left), _operand(second, total.second, total.left)
        made = scaled(u - v if total.less else u + v, total.last)
        z.store(at, clamped(made + total.zero if total.zero else made, stage), mask, offset=offset)

    size = _EACH * ROWS
    whole = n // size
    if whole:
        with b.parallel(0, -(-whole * size // _ROUND)) as part:
            low = part * (_ROUND // size)
            with b.loop(low, (low + _ROUND // size).min(b.index(whole))) as loop:
                (k,) = loop
                for i in range(_EACH):
                    some(k * size, i * ROWS)
    if n % size:
        with b.parallel(0, 1):
            for start in range(whole * size, n, ROWS):
                left = n - start
                some(
                    b.index(start), 0, None if left >= ROWS else b.const(f"bitx{ROWS}", [k < left for k in range(ROWS)])
                )
    return b.build()


def _operand(x: Handle, factor: Factor, left: int) -> Handle:
    """Make an operand of the sum. x: i32x16."""
    exact = left + factor.shift - 1
    if factor.multiplier == 1 << 30 and exact >= 0 and factor.shift <= 0:
        return (x - factor.zero) << exact
    return scaled((x - factor.zero) << left, factor)


def scaled(x: Handle, factor: Factor) -> Handle:
    """Return numbers times a factor, rounded twice. x: i32x16."""
    b = x.builder
    if factor.shift > 0:
        x = x << factor.shift
    y = high_products(x, b.const("i32x16", factor.multiplier), b.const("i32x16", factor.multiplier))
    down = -factor.shift
    if down <= 0:
        return y
    return (y + (y >> 31) + (1 << down >> 1)) >> down
