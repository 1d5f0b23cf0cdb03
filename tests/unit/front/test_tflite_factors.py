"""Factors of TFLite: against exact fractions, and the bounds of fused activations."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bittern.front.tflite.factors import RANGES, RELU, RELU6, RELU_N1_TO_1, Factor, code_bounds, factor, round_away


def value(made: Factor) -> Fraction:
    """Return what a factor stands for."""
    return Fraction(made.multiplier, 1 << 31) * Fraction(2) ** made.shift


@given(st.floats(1e-9, 1e9))
def test_a_factor_is_the_nearest_with_31_bits(real: float) -> None:
    made = factor(real)
    assert 1 << 30 <= made.multiplier < 1 << 31
    error = abs(value(made) - Fraction(real))
    assert error <= Fraction(2) ** (made.shift - 32)


def test_small_and_round_factors() -> None:
    assert factor(0.0) == factor(2.0**-33) == Factor(0, 0)
    assert factor(1.0) == Factor(1 << 30, 1)
    assert factor(0.5) == Factor(1 << 30, 0)
    assert factor(2.0**-32) == Factor(1 << 30, -31)
    assert factor(float(np.nextafter(1.0, 0.0))) == Factor(1 << 30, 1), "2^31 becomes the next power of two"


@given(st.integers(-(1 << 60), 1 << 60), st.integers(1, 12))
def test_rounding_is_away_from_zero_at_ties(whole: int, bits: int) -> None:
    real = whole / (1 << bits)
    exact = Fraction(real)
    nearest = (abs(exact) + Fraction(1, 2)).__floor__()
    assert round_away(real) == (nearest if exact >= 0 else -nearest)


@pytest.mark.parametrize(("real", "whole"), [(0.49999999999999994, 0), (0.5, 1), (-0.5, -1), (2.5, 3), (-2.5, -3)])
def test_rounding_of_near_ties(real: float, whole: int) -> None:
    assert round_away(real) == whole


def test_bounds_of_activations() -> None:
    scale = np.float32(0.05)
    assert code_bounds(0, "i8", scale, 3) == RANGES["i8"]
    assert code_bounds(RELU, "i8", scale, 3) == (3, 127)
    assert code_bounds(RELU6, "i8", scale, -100) == (-100, 20)
    assert code_bounds(RELU_N1_TO_1, "i8", scale, 3) == (-17, 23)
    assert code_bounds(RELU6, "i8", np.float32(1e-45), 0) == (0, 127), "a quotient that overflows"
