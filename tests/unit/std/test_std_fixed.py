"""Fixed point: the greatest error of every function, in units of the last place, against exact or wide arithmetic."""

from collections.abc import Callable
from fractions import Fraction
from math import isqrt
from typing import Any

import mpmath
import numpy as np
import pytest
from std_oracle import Array, f32, same_bits

EDGES = [-(2**31), -(2**31) + 1, -65537, -65536, -3, -2, -1, 0, 1, 2, 3, 65535, 65536, 65537, 2**31 - 2, 2**31 - 1]


def words(seed: int, count: int = 300) -> Array:
    """Edges and random words of all magnitudes."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(-(2**31), 2**31, count) >> rng.integers(0, 31, count)
    return np.concatenate([EDGES, drawn]).astype(np.int32)


def clamped(x: int) -> int:
    """To 32 signed bits."""
    return min(max(x, -(2**31)), 2**31 - 1)


def every_f(f: int, like: Array) -> Array:
    """The same number of fraction bits for each."""
    return np.full(len(like), f, np.uint32)


@pytest.mark.covers("fixed.fixed_mul", "fixed.fixed_div")
@pytest.mark.parametrize("f", [0, 1, 15, 16, 30, 31])
def test_products_and_quotients_are_correctly_rounded(run: Any, f: int) -> None:
    a, b = words(1), words(2)[::-1].copy()
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    signature = "i32, i32, u32 -> i32"
    got = run.rows("fixed.fixed_mul", signature, a, b, every_f(f, a)).tolist()
    assert got == [clamped(round(Fraction(x * y, 2**f))) for x, y in pairs]
    got = run.rows("fixed.fixed_div", signature, a, b, every_f(f, a)).tolist()
    assert got == [clamped(round(Fraction(x << f, y))) if y else 0 for x, y in pairs]


@pytest.mark.covers("fixed.fixed_mul")
def test_all_pairs_of_8_bits(run: Any) -> None:
    a, b = (v.ravel() for v in np.meshgrid(np.arange(-128, 128), np.arange(-128, 128), indexing="ij"))
    got = run.rows("fixed.fixed_mul", "i32, i32, u32 -> i32", a.astype(np.int32), b.astype(np.int32), every_f(4, a))
    assert got.tolist() == [round(Fraction(x * y, 16)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]


@pytest.mark.covers("fixed.fixed_sqrt")
@pytest.mark.parametrize("f", [0, 8, 16, 30, 31])
def test_roots_are_correctly_rounded(run: Any, f: int) -> None:
    x = np.concatenate([words(3), np.arange(2000)]).astype(np.int32)
    got = run.rows("fixed.fixed_sqrt", "i32, u32 -> i32", x, every_f(f, x)).tolist()
    assert got == [clamped((isqrt(4 * (max(v, 0) << f)) + 1) // 2) for v in x.tolist()]


@pytest.mark.covers("fixed.to_fixed", "fixed.from_fixed")
def test_floats_round_once(run: Any) -> None:
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.normal(size=500) * 10.0 ** rng.integers(-9, 9, 500), np.arange(-40, 40) / 32]).astype(f32)
    for f in (0, 4, 16, 31):
        got = run.rows("fixed.to_fixed", "f32, u32 -> i32", x, every_f(f, x)).tolist()
        assert got == [clamped(round(Fraction(float(v)) * 2**f)) for v in x]
        y = words(5)
        back = run.rows("fixed.from_fixed", "i32, u32 -> f32", y, every_f(f, y))
        same_bits(back, np.array([f32(v) / f32(2**f) for v in y], f32))
    special = np.array([np.nan, np.inf, -np.inf], f32)
    got = run.rows("fixed.to_fixed", "f32, u32 -> i32", special, every_f(16, special))
    assert got.tolist() == [0, 2**31 - 1, -(2**31)]


def greatest_error(got: Array, exact: Array) -> float:
    """The greatest distance from exact values, given in units of the last place; those that do not fit are left out."""
    fits = (exact < 2**31 - 1) & (exact > -(2**31))
    return float(np.abs(got.astype(np.longdouble) - exact)[fits].max())


@pytest.mark.covers("fixed.fixed_exp2")
def test_exp2_in_16_16_is_right_to_the_last_place_at_every_input(run: Any) -> None:
    """All inputs whose result is neither 0 nor clamped: 2 097 152 of them."""
    x = np.arange(-17 * 65536, 15 * 65536, dtype=np.int32)
    y = run.rows("fixed.fixed_exp2", "i32, u32 -> i32", x, every_f(16, x))
    exact = np.exp2(x.astype(np.longdouble) / 65536) * 65536
    error = greatest_error(y, exact)
    assert 0.499 < error < 0.50001, error
    edge = np.array([-(2**31), -18 * 65536, 15 * 65536, 2**31 - 1], np.int32)
    got = run.rows("fixed.fixed_exp2", "i32, u32 -> i32", edge, every_f(16, edge))
    assert got.tolist() == [0, 0, 2**31 - 1, 2**31 - 1]


@pytest.mark.covers("fixed.fixed_exp2")
@pytest.mark.parametrize("f", [0, 4, 8, 30, 31])
def test_exp2_in_other_formats(run: Any, f: int) -> None:
    x = words(6, 3000)
    y = run.rows("fixed.fixed_exp2", "i32, u32 -> i32", x, every_f(f, x))
    with np.errstate(over="ignore"):
        exact = np.exp2(x.astype(np.longdouble) / 2.0**f) * 2.0**f
    assert greatest_error(y, exact) < 0.50001
    assert (y[exact >= 2**31] == 2**31 - 1).all()


@pytest.mark.covers("fixed.fixed_log2")
@pytest.mark.parametrize("f", [0, 8, 16, 26, 30, 31])
def test_log2_is_right_to_the_last_place(run: Any, f: int) -> None:
    x = np.concatenate([words(7, 20_000), np.arange(1, 5000), 2 ** np.arange(31), 2 ** np.arange(2, 31) - 1])
    x = x[x > 0].astype(np.int32)
    y = run.rows("fixed.fixed_log2", "i32, u32 -> i32", x, every_f(f, x))
    exact = (np.log2(x.astype(np.longdouble)) - f) * 2.0**f
    assert greatest_error(y, exact) < 0.50001
    none = np.array([0, -1, -(2**31)], np.int32)
    assert (run.rows("fixed.fixed_log2", "i32, u32 -> i32", none, every_f(f, none)) == -(2**31)).all()


@pytest.mark.covers("fixed.fixed_sin_cos")
def test_sin_cos_are_right_to_the_last_place(run: Any) -> None:
    rng = np.random.default_rng(8)
    quarters = np.add.outer(np.arange(8) * 2**29, np.arange(-300, 300)).ravel() % 2**32
    angle = np.concatenate([rng.integers(0, 2**32, 100_000), quarters]).astype(np.uint32)
    sin, cos = run.rows("fixed.fixed_sin_cos", "u32 -> (i32, i32)", angle)
    turn = angle.astype(np.longdouble) / 2.0**32 * 2 * np.longdouble(mpmath.nstr(mpmath.mpf(mpmath.pi), 25))
    error = max(float(np.abs(sin - np.sin(turn) * 2.0**30).max()), float(np.abs(cos - np.cos(turn) * 2.0**30).max()))
    assert 0.499 < error < 0.50002, error
    exact = np.array([0, 2**30, 2**31, 3 * 2**30], np.uint32)
    sin, cos = run.rows("fixed.fixed_sin_cos", "u32 -> (i32, i32)", exact)
    assert sin.tolist() == [0, 2**30, 0, -(2**30)] and cos.tolist() == [2**30, 0, -(2**30), 0]


@pytest.mark.covers("fixed.fixed_polar")
def test_polar_is_right_to_the_last_place(run: Any) -> None:
    rng = np.random.default_rng(9)
    x, y = (rng.integers(-(2**31), 2**31, (2, 30_000)) >> rng.integers(0, 31, (2, 30_000))).astype(np.int32)
    corner = [(a, b) for a in EDGES for b in EDGES if (a, b) != (0, 0)]
    x, y = (np.concatenate([v, np.array(e, np.int32)]) for v, e in zip((x, y), zip(*corner, strict=True), strict=True))
    shown = (x != 0) | (y != 0)
    x, y = x[shown], y[shown]
    angle, length = run.rows("fixed.fixed_polar", "i32, i32 -> (u32, u32)", x, y)
    u, v = x.astype(np.longdouble), y.astype(np.longdouble)
    tau = 2 * np.longdouble(mpmath.nstr(mpmath.mpf(mpmath.pi), 25))
    apart = (angle.astype(np.longdouble) - np.arctan2(v, u) / tau * 2.0**32) % 2.0**32
    worst = float(np.minimum(apart, 2.0**32 - apart).max())
    assert 0.499 < worst < 0.50002, worst
    worst = float(np.abs(length - np.hypot(u, v)).max())
    assert 0.499 < worst < 0.50002, worst
    zero = run.rows("fixed.fixed_polar", "i32, i32 -> (u32, u32)", np.zeros(1, np.int32), np.zeros(1, np.int32))
    assert int(zero[0][0]) == int(zero[1][0]) == 0


FAULTS = [
    ("0xb504f333f9de6484", "0xb504f33300000000", test_exp2_in_16_16_is_right_to_the_last_place_at_every_input),
    ("0x04b90147677cc21a", "0x04b90147677c0000", test_sin_cos_are_right_to_the_last_place),
    ("root * root > root", "root * root >= root", lambda run: test_roots_are_correctly_rounded(run, 16)),
    ("const CORDIC_SCALE_64: u64 = 0x9b74eda8435e5a68", "const CORDIC_SCALE_64: u64 = 0x9b74eda900000000",
     test_polar_is_right_to_the_last_place),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(edited: Callable[..., Any], old: str, new: str, check: Callable[[Any], None]) -> None:
    with pytest.raises(AssertionError):
        check(edited("fixed.btn", old, new))
