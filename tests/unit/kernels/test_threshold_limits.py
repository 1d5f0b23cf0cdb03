"""Thresholds as intervals of counts, over all counts; classes of places; codes in planes."""

import numpy as np
import pytest

from bittern.kernels.field import Field
from bittern.kernels.limits import classes_of, coded, limits
from bittern.kernels.sign_product import SIGNS, Coding

FALLING = np.array([False, True])
INTS = (-(2**31), 2**31 - 1)


@pytest.mark.req("C101")
@pytest.mark.parametrize("scale", [-2, -1, 1, 2])
@pytest.mark.parametrize("unit", ["u32", "u64"])
def test_a_comparison_of_counts_is_that_of_sums(scale: int, unit: str) -> None:
    counts = np.arange(-9, 22)
    for base in (-7, 0, 12):
        sums = base + scale * counts
        for at in (*range(-45, 45), *INTS):
            given = np.full((2, 1), at, np.int32)
            made = limits(np.full((1, 2), base), scale, given, FALLING, (-9, 21), 16, unit)
            inside = counts.astype(made.add.dtype)[:, None] + made.add <= made.limit
            assert (inside[:, 0] == (sums >= at)).all(), at
            assert (inside[:, 1] == (sums <= at)).all(), at
            assert not inside[:, 2:].any()  # rows that there are not


def test_thresholds_are_reached_one_after_the_other() -> None:
    at = np.array([[5, -3, 1], [5, -3, 1]], np.int32)
    made = limits(np.zeros((1, 2), np.int64), 1, at, FALLING, (-9, 9), 2, "u32")
    counts = np.arange(-9, 10).astype(np.uint32)[:, None, None]
    inside = counts + made.add.reshape(3, 2) <= made.limit.reshape(3, 2)
    assert (inside[:, 0] >= inside[:, 1]).all() and (inside[:, 1] >= inside[:, 2]).all()
    x = np.arange(-9, 10)[:, None]
    assert (inside[..., 0].sum(axis=1) == (x >= at[0]).sum(axis=1)).all()
    assert (inside[..., 1].sum(axis=1) == (x <= at[1]).sum(axis=1)).all()


def test_classes_tell_edges_apart() -> None:
    field = Field((4, 5), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1))
    found = classes_of(field, exact=True)
    assert found.valid.shape == (9, 9)
    number = found.number.reshape(field.out)
    assert found.valid[number[1, 1]].all()
    assert not found.valid[number[0, 2]][:3].any() and found.valid[number[0, 2]][3:].all()
    assert len(classes_of(field, exact=False).valid) == 1


@pytest.mark.parametrize("coding", [SIGNS, Coding((1, 1), 1, -1), Coding((1, 2), 1, 0), Coding((1, 2, 4), 1, -4)])
def test_values_have_the_bits_that_stand_for_them(coding: Coding) -> None:
    values = [coding.beta + coding.alpha * k for k in range(coding.total + 1)]
    for value in values:
        bits = coding.bits(value)
        assert bits is not None
        counted = sum(c * bit for c, bit in zip(coding.coefficients, bits, strict=True))
        assert coding.alpha * counted + coding.beta == value
    assert coding.bits(coding.beta - 1) is None and coding.bits(values[-1] + 1) is None
    assert SIGNS.bits(0) is None


def test_planes_count_in_powers_of_two() -> None:
    assert coded(((0, 1, 2), (1,)), 3) == [0, 1, 2, 3]
    assert coded(((0, 1, 2, 3, 4, 5, 6), (1, 3, 5), (3,)), 7) == list(range(8))
    assert coded(((0, 1), (1,)), 3) != [0, 1, 2, 3]  # a plane that lacks a threshold is seen
