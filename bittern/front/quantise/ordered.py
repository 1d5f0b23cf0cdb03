"""Arithmetic in a fixed order: sums, matrix products, factors, exp and log whose bits depend on no machine.

numpy's sums and a BLAS add in an order that depends on the vector unit and the threads. Here a sum is a tree of
element-wise additions, and a matrix product is split into products of whole numbers that are exact in float64 in any
order (Ozaki, Ogita, Oishi, Rump 2012: Error-free transformations of matrix multiplication), so that the fastest
library may compute them. exp and log are made of element-wise operations, each rounded once.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code

NOT_DEFINITE = code("N410", "a matrix of inputs cannot be factored")

Array: TypeAlias = npt.NDArray[np.float64]

_EXACT = 53  # bits of a float64
_STEP = 1 << 12  # summands of one exact product
_LN2_HIGH, _LN2_LOW = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")
_LOG2_E = float.fromhex("0x1.71547652b82fep+0")
_EXP = tuple(1.0 / f for f in (6227020800, 479001600, 39916800, 3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2, 1, 1))
_LARGEST = 700.0  # of the argument of exp


def ordered_sum(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the sums over the last axis, in its own float type: the upper half is added to the lower, and so on."""
    count = x.shape[-1]
    while count > 1:
        half = (count + 1) // 2
        y = x[..., :half].copy()
        y[..., : count - half] += x[..., half:count]
        x, count = y, half
    return x[..., 0] if count else np.zeros(x.shape[:-1], x.dtype)


@dataclass(frozen=True, slots=True)
class Halves:
    """Numbers as whole numbers: x = (high + low / 2^bits) * 2^(exponent - bits), up to 2^-bits of the last."""

    high: Array
    low: Array
    exponent: npt.NDArray[np.int64]
    bits: int

    def products(self, other: "Halves") -> Array:
        """Return the matrix product, exponents of the two left out: three of four exact products, one rounding each."""
        high = self.high @ np.concatenate((other.high, other.low), 1)
        wide = other.high.shape[1]
        small = high[:, wide:]
        if self.low.any():
            small = small + self.low @ other.high  # both exact
        found: Array = np.ldexp(small, -self.bits) + high[:, :wide]
        return found


def halves(x: npt.NDArray[Any], summands: int, axes: int | tuple[int, ...]) -> Halves:
    """Split numbers so that products of so many summands are exact. axes: which share an exponent. x: finite."""
    bits = (_EXACT - summands.bit_length()) // 2
    largest = np.abs(x).max(axes, keepdims=True, initial=0.0)
    exponent = np.frexp(largest.astype(np.float64))[1].astype(np.int64)
    scaled = np.ldexp(x.astype(np.float64), bits - exponent)
    high = np.rint(scaled)
    return Halves(high, np.rint(np.ldexp(scaled - high, bits)), exponent, bits)


def product(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> Array:
    """Return the matrix product a b. a: [m, k], b: [k, n], finite -> [m, n] f64.

    Each row of a and each column of b is split into two whole numbers of up to 20 bits at its largest magnitude; the
    three larger of the four products are summed. The error is below 2^-37 of the sum of largest magnitudes.
    """
    total = np.zeros((a.shape[0], b.shape[1]))
    for low in range(0, a.shape[1], _STEP):
        part = a[:, low : low + _STEP]
        left, right = halves(part, part.shape[1], 1), halves(b[low : low + _STEP], part.shape[1], 0)
        total = total + np.ldexp(left.products(right), left.exponent + right.exponent - 2 * left.bits)
    return total


def factor(matrix: Array, name: str = "inputs") -> Array:
    """Return the lower Cholesky factor L of a symmetric matrix, L L' = matrix. matrix: [k, k].

    Column after column, each with one element-wise update of the rest. Errors: N410 if it is not positive definite.
    """
    rest = matrix.copy()
    for j in range(len(rest)):
        pivot = rest[j, j]
        if not pivot > 0 or not np.isfinite(pivot):
            raise BitternError(
                NOT_DEFINITE,
                f"The matrix of {name} is not positive definite: pivot {j} is {pivot:.3g}.",
                "Give more data, or more damping.",
            )
        rest[j, j] = np.sqrt(pivot)
        column = rest[j + 1 :, j]
        column /= rest[j, j]
        rest[j + 1 :, j + 1 :] -= column[:, None] * column[None, :]
    lower = np.tri(len(rest), dtype=np.bool_)
    return np.where(lower, rest, 0.0)


def exp(x: Array) -> Array:
    """Return e^x. x is clamped to [-700, 700]. At most 1 ulp from the true value."""
    x = np.clip(x, -_LARGEST, _LARGEST)
    n = np.rint(x * _LOG2_E)
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    y = np.full_like(r, _EXP[0])
    for factor_of_power in _EXP[1:]:
        y = y * r + factor_of_power
    made: Array = np.ldexp(y, n.astype(np.int64))
    return made


def log(x: Array) -> Array:
    """Return the natural logarithm. x: positive and finite. Error below 2^-50 of the larger of 1 and the result."""
    m, e = np.frexp(x)
    low = m < np.sqrt(0.5)
    m, e = np.where(low, m * 2, m), np.where(low, e - 1, e)
    z = (m - 1) / (m + 1)
    square = z * z
    y = np.zeros_like(z)
    for odd in range(21, 0, -2):
        y = y * square + 1.0 / odd
    found: Array = e * _LN2_HIGH + (e * _LN2_LOW + 2 * (z * y))
    return found


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + e^-x)."""
    return 1.0 / (1.0 + exp(-x))


def decibels(signal: float, noise: float) -> float | None:
    """Return 10 log10(signal / noise); None where there is no noise. Of no signal: 0."""
    if noise == 0:
        return None
    if signal == 0:
        return 0.0
    return float(log(np.array([signal / noise]))[0] * 4.342944819032518)
