"""Real factors as TFLite's kernels have them: a 31-bit multiplier and a shift; and codes for real bounds.

All of it is computed in f64 or f32 as the kernels' preparation does, with `round` meaning ties away from zero
(lite/kernels/internal/quantization_util.cc and lite/kernels/kernel_util.cc of TensorFlow 2.16).
"""

from math import floor, frexp
from typing import NamedTuple

import numpy as np

RANGES = {"i8": (-128, 127), "u8": (0, 255), "i16": (-32768, 32767), "i32": (-(2**31), 2**31 - 1)}

NONE, RELU, RELU_N1_TO_1, RELU6 = range(4)
ACTIVATIONS = {NONE: "none", RELU: "relu", RELU_N1_TO_1: "relu -1 to 1", RELU6: "relu6", 4: "tanh", 5: "sign bit"}
_REAL_BOUNDS: dict[int, tuple[float | None, float | None]] = {
    NONE: (None, None),
    RELU: (0.0, None),
    RELU_N1_TO_1: (-1.0, 1.0),
    RELU6: (0.0, 6.0),
}


class Factor(NamedTuple):
    """multiplier / 2^31 * 2^shift."""

    multiplier: int
    shift: int


def factor(real: float) -> Factor:
    """Return the factor nearest to a number that is not negative."""
    if real == 0.0:
        return Factor(0, 0)
    fraction, shift = frexp(real)
    multiplier = round_away(fraction * (1 << 31))
    if multiplier == 1 << 31:
        multiplier, shift = multiplier // 2, shift + 1
    return Factor(0, 0) if shift < -31 else Factor(multiplier, shift)


def round_away(x: float) -> int:
    """Return the nearest whole number, ties away from zero."""
    whole = floor(abs(x))
    whole += abs(x) - whole >= 0.5  # the difference is exact
    return whole if x >= 0 else -whole


def code_of(real: float, scale: np.float32, zero: int) -> int:
    """Return the code of a bound: f32 division, ties away from zero; at most 2^31 away from the zero point."""
    with np.errstate(over="ignore"):
        quotient = float(np.float32(real) / scale)
    return zero + round_away(min(max(quotient, -(2.0**31)), 2.0**31))


def has_bounds(activation: int) -> bool:
    """Whether an activation is a pair of bounds."""
    return activation in _REAL_BOUNDS


def code_bounds(activation: int, element: str, scale: np.float32, zero: int) -> tuple[int, int]:
    """Return the least and greatest code of an output with this activation."""
    low, high = RANGES[element]
    least, greatest = _REAL_BOUNDS[activation]
    return (
        low if least is None else max(low, code_of(least, scale, zero)),
        high if greatest is None else min(high, code_of(greatest, scale, zero)),
    )


def real_bounds(activation: int) -> tuple[float, float]:
    """Return the least and greatest value of a float output with this activation."""
    greatest = float(np.finfo(np.float32).max)
    low, high = _REAL_BOUNDS[activation]
    return (-greatest if low is None else low, greatest if high is None else high)
