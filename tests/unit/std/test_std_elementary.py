"""Elementary functions: the greatest error over many points, the special values, the ideal bodies."""

import os
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from std_oracle import Array, f32, same_bits, ulps

INF, NAN = np.inf, np.nan


def points(low: float, high: float, count: int = 100_000, tiny: bool = True) -> Array:
    """Random points between two bounds, and small ones of both signs (where the bounds have both)."""
    rng = np.random.default_rng(7)
    x = rng.uniform(low, high, count)
    if tiny:
        small = np.exp(rng.uniform(-90, 0, count // 10))
        x = np.concatenate([x, small, -small] if low < 0 else [x, small])
    return x.astype(f32)


def wide(name: str) -> Callable[[Array], Array]:
    """The function in extended precision."""
    from scipy.special import erf

    functions: dict[str, Callable[[Array], Array]] = {
        "exp": np.exp,
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "tanh": np.tanh,
        "log": np.log,
        "silu": lambda x: x / (1 + np.exp(-x)),
        "erf": lambda x: erf(x.astype(np.float64)),
    }
    return functions[name]


CASES = [  # function, range, greatest error in ulp
    ("elementary.exp", -103.0, 88.7, 0.98),
    ("elementary.exp", -1.0, 1.0, 0.98),
    ("elementary.sigmoid", -88.0, 30.0, 2.5),
    ("elementary.tanh", -10.0, 10.0, 1.34),
    ("elementary.tanh", -0.7, 0.7, 1.34),
    ("elementary.log", 0.0, 4.0, 0.85),
    ("elementary.log", 0.0, 3e38, 0.85),
    ("elementary.erf", -4.5, 4.5, 1.33),
    ("activations.silu", -80.0, 30.0, 2.5),
]


@pytest.mark.covers("elementary.*", "activations.silu")
@pytest.mark.parametrize(("name", "low", "high", "bound"), CASES)
def test_error_bound(run: Any, name: str, low: float, high: float, bound: float) -> None:
    x = points(low, high)
    x = x[(x != 0) | (low < 0)]
    y = run.over(name, x)
    with np.errstate(all="ignore"):
        error = ulps(y, wide(name.split(".")[1])(x.astype(np.longdouble)))
    assert y.dtype == f32
    assert error.max() <= bound, (error.max(), x[error.argmax()])
    assert error.max() > 0.5  # the measure sees rounding at all


@pytest.mark.skipif("BITTERN_EXHAUSTIVE" not in os.environ, reason="minutes; BITTERN_EXHAUSTIVE=1 runs it")
@pytest.mark.parametrize(("name", "low", "high", "bound"), CASES)
def test_error_bound_at_every_number(run: Any, name: str, low: float, high: float, bound: float) -> None:
    stride, worst, where = int(os.environ["BITTERN_EXHAUSTIVE"]), 0.0, 0.0
    for first in range(0, 2**32, stride << 20):
        x = (first + stride * np.arange(2**20, dtype=np.uint64)).astype(np.uint32).view(f32)
        x = x[(x >= low) & (x <= high) & (np.abs(x) > 2.0**-120)]
        if x.size:
            with np.errstate(all="ignore"):
                error = ulps(run.over(name, x), wide(name.split(".")[1])(x.astype(np.float64)))
            if error.max() > worst:
                worst, where = float(error.max()), float(x[error.argmax()])
    print(name, low, high, worst, where)
    assert worst <= bound, (worst, where)


SPECIAL = [
    ("elementary.exp", [0.0, -0.0, INF, -INF, NAN, 89.0, -105.0, 88.72], [1, 1, INF, 0, NAN, INF, 0, None]),
    ("elementary.sigmoid", [0.0, INF, -INF, NAN], [0.5, 1, 0, NAN]),
    ("elementary.tanh", [0.0, -0.0, INF, -INF, NAN, 20.0, -20.0], [0.0, 0.0, 1, -1, NAN, 1, -1]),
    ("elementary.log", [0.0, -0.0, 1.0, INF, -1.0, -INF, NAN], [-INF, -INF, 0, INF, NAN, NAN, NAN]),
    ("elementary.erf", [0.0, -0.0, INF, -INF, NAN, 5.0, -5.0], [0.0, -0.0, 1, -1, NAN, 1, -1]),
    ("activations.silu", [0.0, -0.0, INF, NAN], [0.0, -0.0, INF, NAN]),
]


@pytest.mark.parametrize(("name", "x", "expected"), SPECIAL)
def test_special_values(run: Any, name: str, x: list[float], expected: list[float | None]) -> None:
    y = run.over(name, np.array(x, f32))
    for given, got, wanted in zip(x, y, expected, strict=True):
        if wanted is None:
            assert np.isfinite(got), given
        else:
            same_bits(got, f32(wanted))


def test_exp_below_the_normal_range_rounds_once(run: Any) -> None:
    x = np.linspace(-103.9, -87.4, 20_000).astype(f32)
    exact = np.exp(x.astype(np.float64))
    error = np.abs(run.over("elementary.exp", x).astype(np.float64) - exact) / 2.0**-149
    assert error.max() < 1.01


@pytest.mark.covers("elementary.sin_cos")
def test_sin_cos_is_correctly_rounded_but_for_ties(run: Any) -> None:
    rng = np.random.default_rng(3)
    multiples = np.arange(-20_000, 20_000) * (np.pi / 2)
    x = np.concatenate(
        [rng.uniform(-1e5, 1e5, 50_000), rng.uniform(-(2.0**20), 2.0**20, 50_000), multiples, np.arange(8192.0)]
    )
    sin, cos = run.over("elementary.sin_cos", x)
    assert ulps(sin, np.sin(x.astype(np.longdouble))).max() <= 0.5001
    assert ulps(cos, np.cos(x.astype(np.longdouble))).max() <= 0.5001
    sin, cos = run.over("elementary.sin_cos", np.array([0.0, 2.0**20, 2.0**20 + 1, -(2.0**21), INF, NAN]))
    assert not np.isnan(sin[:2]).any() and np.isnan(sin[2:]).all() and np.isnan(cos[2:]).all()
    assert sin[0] == 0 and cos[0] == 1


@pytest.mark.covers("elementary.power")
def test_power_is_within_an_ulp_of_f64(run: Any) -> None:
    rng = np.random.default_rng(4)
    base = np.concatenate([10.0 ** rng.uniform(3, 7, 1500), np.exp(rng.uniform(-10, 10, 1000)), np.full(64, 1e4)])
    exponent = np.concatenate([-rng.uniform(0, 1, 1500), rng.uniform(-60, 60, 1000), -np.arange(64) / 64])
    y = run.over("elementary.power", base, exponent)
    worst = 0.0
    with mpmath.workprec(140):
        for b, e, got in zip(base, exponent, y, strict=True):
            exact = mpmath.mpf(float(b)) ** mpmath.mpf(float(e))
            worst = max(worst, abs(float((mpmath.mpf(float(got)) - exact) / np.spacing(float(exact)))))
    assert 0.5 < worst < 0.9
    special = run.over(
        "elementary.power", np.array([0.0, -1.0, INF, NAN, 1.0, 7.0]), np.array([1.0, 1.0, 1.0, 1.0, 9.0, 0.0])
    )
    assert np.isnan(special[:4]).all() and (special[4:] == 1).all()


IDEAL = [("exp", np.exp), ("tanh", np.tanh), ("log", np.log)]


@pytest.mark.covers("elementary.*")
@pytest.mark.parametrize(("name", "exact"), IDEAL)
def test_ideal_bodies_are_the_real_functions(run: Any, name: str, exact: Callable[[Array], Array]) -> None:
    x = np.linspace(0.1, 20.0, 100)
    np.testing.assert_allclose(run.over(f"elementary.{name}", x, ideal=True), exact(x), rtol=1e-15)


FAULTS = [
    ("exp", "0x1.110feep-7", "0x1.112feep-7", 0.98),
    ("exp", "0.693359375) - n * -0x1.bd0106p-13\n  let r2", "0.693359375) - n * -0x1.bd0116p-13\n  let r2", 0.98),
    ("tanh", "a < 0.625", "a < 0.5", 1.34),
    ("log", "0x1.555554p-1", "0x1.555544p-1", 0.85),
]


@pytest.mark.parametrize(("name", "old", "new", "bound"), FAULTS)
def test_planted_faults_break_the_bound(
    edited: Callable[..., Any], name: str, old: str, new: str, bound: float
) -> None:
    wrong = edited("elementary.btn", old, new)
    x = points(0.01, 60.0, tiny=False) if name == "exp" else points(0.4, 1.6, tiny=False)
    error = ulps(wrong.over(f"elementary.{name}", x), wide(name)(x.astype(np.longdouble)))
    assert error.max() > bound
