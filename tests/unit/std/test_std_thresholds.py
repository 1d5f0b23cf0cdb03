"""Output stages: thresholds by counting, requantisation by exact fractions, for every code and every edge."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from codes_oracle import Array

from bittern.types.elements import ELEMENTS

EDGES = np.array([-(2**31), -(2**31) + 1, -5, -1, 0, 1, 5, 2**31 - 2, 2**31 - 1], np.int32)


def grid(k: int) -> tuple[Array, Array, Array]:
    """All pairs of edges, rising and falling; k thresholds a channel."""
    x, at, falling = (a.ravel() for a in np.meshgrid(EDGES, EDGES, [False, True], indexing="ij"))
    rng = np.random.default_rng(k)
    rows = np.concatenate([at[:, None], rng.choice(EDGES, (len(at), k - 1))], 1)
    return x, rows.astype(np.int32), falling


@pytest.mark.req("C022")
@pytest.mark.covers("thresholds.sign_at", "thresholds.ternary_at")
def test_signs_at_every_edge(run: Any) -> None:
    """A tie reaches the threshold, rising or falling."""
    x, at, falling = grid(2)
    y = run("thresholds.sign_at", x, at[:, 0].copy(), falling, dims=(len(x),))
    reached = np.where(falling, x <= at[:, 0], x >= at[:, 0])
    assert y.dtype == np.int8 and np.array_equal(y, np.where(reached, 1, -1))
    y = run("thresholds.ternary_at", x, at, falling, dims=(len(x),))
    both = np.where(falling[:, None], x[:, None] <= at, x[:, None] >= at)
    assert np.array_equal(y, both.sum(1) - 1)


@pytest.mark.req("C022")
@pytest.mark.covers("thresholds.levels")
@pytest.mark.parametrize("element", ["u2", "i2", "u3", "i3", "u4", "i4", "u8", "i8"])
def test_levels(run: Any, element: str) -> None:
    of = ELEMENTS[element]
    for k in (1, of.high - of.low):
        x, at, falling = grid(k)
        y = run("thresholds.levels", x, at, falling, np.int32(of.low), dims=(len(x), k), elements={"e": element})
        count = np.where(falling[:, None], x[:, None] <= at, x[:, None] >= at).sum(1)
        assert y.dtype == of.dtype and np.array_equal(y, of.low + count)


def exact(x: int, multiplier: int, shift: int, zero: int, low: int, high: int) -> int:
    """One rounding to the nearest, ties up."""
    return min(max(math.floor(Fraction(x * multiplier, 2**shift) + Fraction(1, 2)) + zero, low), high)


@pytest.mark.req("C022")
@pytest.mark.covers("requantise.requantise")
@pytest.mark.parametrize("element", ["u2", "i2", "i3", "i4", "u8", "i8", "i16", "i32"])
def test_requantisation_rounds_once(run: Any, element: str) -> None:
    """EDGE_CASES A5 among the numbers: 7984 * 1583594044 / 2^40 = 11.499 gives 11."""
    of, rng = ELEMENTS[element], np.random.default_rng(1)
    m = np.array([-(2**31), -1, 0, 1, 3, 1583594044, 2**31 - 1], np.int32)
    s = np.array([0, 1, 2, 31, 40, 61, 62], np.uint32)
    x, m, s = (a.ravel() for a in np.meshgrid(np.append(EDGES, 7984), m, s, indexing="ij"))
    random = rng.integers(-(2**31), 2**31, (2, 500))
    x, m = np.append(x, random[0]).astype(np.int32), np.append(m, random[1]).astype(np.int32)
    s = np.append(s, rng.integers(0, 63, 500)).astype(np.uint32)
    for zero in (0, -3, 100):
        limits = np.int32(zero), np.int32(of.low), np.int32(of.high)
        y = run("requantise.requantise", x, m, s, *limits, dims=(len(x),), elements={"e": element})
        given = zip(x.tolist(), m.tolist(), s.tolist(), strict=True)
        assert y.tolist() == [exact(*v, zero, of.low, of.high) for v in given]


@pytest.mark.covers("requantise.requantise")
def test_every_tie_of_every_byte(run: Any) -> None:
    """All sums of 8 bits by 2^s: halves go up."""
    x = np.arange(-128, 128, dtype=np.int32)
    for s in range(9):
        count, ones = np.full(256, s, np.uint32), np.ones(256, np.int32)
        limits = np.int32(0), np.int32(-128), np.int32(127)
        y = run("requantise.requantise", x, ones, count, *limits, dims=(256,), elements={"e": "i8"})
        assert y.tolist() == [math.floor(Fraction(v, 2**s) + Fraction(1, 2)) for v in x.tolist()]


@pytest.mark.covers("requantise.bias")
def test_bias_wraps(run: Any) -> None:
    x, b = (a.ravel() for a in np.meshgrid(EDGES, EDGES))
    y = run("requantise.bias", x, b, dims=(len(x),))
    assert y.tolist() == [(p + q + 2**31) % 2**32 - 2**31 for p, q in zip(x.tolist(), b.tolist(), strict=True)]


@pytest.mark.req("C025")
@pytest.mark.covers("thresholds.levels", "norms.batch_norm")
@pytest.mark.parametrize("element", ["i2", "i3", "i4", "i8"])
def test_batch_norm_and_quantiser_are_thresholds(run: Any, element: str) -> None:
    """Fold and train parity: over the whole range of the sums f32 and thresholds give the same codes."""
    of, rng, c = ELEMENTS[element], np.random.default_rng(4), 6
    sums = np.arange(-300, 301)
    mean, gain, bias = (rng.normal(size=c).astype(np.float32) * scale for scale in (20, 1, 1))
    variance, eps = (rng.uniform(0.5, 4, c) ** 2 * 900).astype(np.float32), np.float32(1e-3)
    rows = np.tile(sums.astype(np.float32)[:, None], (1, c))
    normal = np.stack([run("norms.batch_norm", r, mean, variance, gain, bias, eps, dims=(c,)) for r in rows])
    trained = np.clip(np.rint(normal * np.float32(of.high)), of.low, of.high).astype(np.int64)
    falling, k = gain < 0, of.high - of.low
    at = np.zeros((c, k), np.int32)
    for channel in range(c):
        for level in range(k):
            hit = np.flatnonzero(trained[:, channel] > of.low + level)
            far = sums[-1] + 1 if not falling[channel] else sums[0] - 1
            at[channel, level] = far if not hit.size else sums[hit[-1] if falling[channel] else hit[0]]
    for i, value in enumerate(sums):
        x = np.full(c, value, np.int32)
        y = run("thresholds.levels", x, at, falling, np.int32(of.low), dims=(c, k), elements={"e": element})
        assert np.array_equal(y, trained[i]), value


FAULTS: list[tuple[str, str, str, Callable[[Any], None]]] = [
    ("thresholds.btn", "b1(select(falling, x <= at, x >= at))", "b1(select(falling, x < at, x >= at))",
     test_signs_at_every_edge),
    ("thresholds.btn", "wrap[e](low + sum(i32(select(falls, v <= row, v >= row))))",
     "wrap[e](low + sum(i32(select(falls, v <= row, v > row))))", lambda run: test_levels(run, "i4")),
    ("requantise.btn", "<< shift >> 1", "<< shift >> 2", test_every_tie_of_every_byte),
    ("requantise.btn", "i64(x) * i64(multiplier)", "i64(x * multiplier)",
     lambda run: test_requantisation_rounds_once(run, "i8")),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(
    edited: Callable[..., Any], file: str, old: str, new: str, check: Callable[[Any], None]
) -> None:
    with pytest.raises(AssertionError):
        check(edited(file, old, new))
