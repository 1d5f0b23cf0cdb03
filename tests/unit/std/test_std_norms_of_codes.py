"""Norms: strict bits of the float ones, and the ones of codes against exact squares of fractions and against f64."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from codes_oracle import WIDTHS, Array, codes, wide
from std_oracle import f32, same_bits, sum16

EPS = f32(1e-5)


def normals(shape: tuple[int, ...], seed: int) -> Array:
    """Random floats."""
    return np.random.default_rng(seed).standard_normal(shape).astype(f32)


def standard(x: Array) -> Array:
    """The last axis less its mean, by its deviation, in the strict order."""
    n = f32(x.shape[-1])
    centred = x - (sum16(x) / n)[..., None]
    return centred * (f32(1) / np.sqrt(sum16(centred * centred) / n + EPS))[..., None]


@pytest.mark.req("C021")
@pytest.mark.covers("norms.batch_norm", "norms.batch_statistics", "norms.variance_around", "norms.running_statistic")
@pytest.mark.covers("norms.batch_norm_of_batch")
def test_batch_norm(run: Any) -> None:
    b, c = 37, 5
    x, gain, bias = normals((b, c), 1) * f32(3) + f32(2), normals((c,), 2), normals((c,), 3)
    mean, variance = run("norms.batch_statistics", x, dims=(b, c))
    same_bits(mean, sum16(x.T) / f32(b))
    centred = x.T - mean[:, None]
    same_bits(variance, sum16(centred * centred) / f32(b))
    same_bits(run("norms.variance_around", x[:, 0].copy(), mean[0], dims=(b,)), np.asarray(variance[0]))
    y = run("norms.batch_norm_of_batch", x, gain, bias, EPS, dims=(b, c))
    same_bits(y, (x - mean) / np.sqrt(variance + EPS) * gain + bias)
    same_bits(run("norms.batch_norm", x[4], mean, variance, gain, bias, EPS, dims=(c,)), y[4])
    exact = (x - x.mean(0, np.float64)) / np.sqrt(x.astype(np.float64).var(0) + 1e-5) * gain + bias
    np.testing.assert_allclose(y, exact, rtol=1e-4, atol=1e-5)
    same_bits(run("norms.running_statistic", gain, mean, f32(0.1), dims=(c,)), f32(0.9) * gain + f32(0.1) * mean)


@pytest.mark.req("C021")
@pytest.mark.covers("norms.group_norm", "norms.instance_norm", "norms.standardised")
def test_group_and_instance_norm(run: Any) -> None:
    p, g, c = 9, 3, 4
    x, gain, bias = normals((p, g, c), 4) * f32(2), normals((g, c), 5), normals((g, c), 6)
    y = run("norms.group_norm", x, gain, bias, EPS, dims=(p, g, c))
    rows = np.ascontiguousarray(x.transpose(1, 0, 2)).reshape(g, p * c)
    same_bits(y, standard(rows).reshape(g, p, c).transpose(1, 0, 2) * gain + bias)
    flat = x.astype(np.float64)
    exact = (flat - flat.mean((0, 2), keepdims=True)) / np.sqrt(flat.var((0, 2), keepdims=True) + 1e-5) * gain + bias
    np.testing.assert_allclose(y, exact, rtol=1e-4, atol=1e-5)
    z = run("norms.instance_norm", x[:, 0].copy(), gain[0], bias[0], EPS, dims=(p, c))
    same_bits(z, standard(np.ascontiguousarray(x[:, 0].T)).T * gain[0] + bias[0])
    same_bits(run("norms.standardised", rows[0], EPS, dims=(p * c,)), standard(rows)[0])


def is_reached(a: int, at: int, square: int, fraction: int) -> bool:
    """Whether a * 2^fraction >= at * sqrt(square), by signs and squares of any size."""
    left, right = a << fraction, at
    if left >= 0 and right <= 0:
        return True
    if left < 0 < right:
        return False
    return left**2 >= right**2 * square if right > 0 else left**2 <= right**2 * square


@pytest.mark.req("C021")
@pytest.mark.covers("norms_of_codes.reaches")
def test_comparisons_with_roots_are_exact(run: Any) -> None:
    """Also where squares need 124 bits, and where both sides are equal."""
    a = [0, 1, -1, 3, -3, 10, 2**20, -(2**20), 2**53 + 1, -(2**53) - 1]
    at = [0, 1, -1, 3, -3, 5, 255, -(2**31) + 1, 2**31 - 1]
    square = [0, 1, 2, 4, 9, 2**40, 2**40 - 1, 2**40 + 1, 2**62, 2**64 - 1]
    rows = list(itertools.product(a, at, square, (0, 1, 8)))
    given = [np.array(column, t) for column, t in zip(zip(*rows, strict=True), "qiQI", strict=True)]
    got = run.rows("norms_of_codes.reaches", "i64, i32, u64, u32 -> bit", *given)
    assert got.tolist() == [is_reached(*row) for row in rows]


def counts(x: Array, at: Array, falling: Array, fraction: int, floor: int) -> Array:
    """One row, by Python's whole numbers. x: [n], at: [n, k]."""
    v = [int(q) for q in x]
    n, total = len(v), sum(v)
    square = n * sum(q * q for q in v) - total * total + floor
    rows = zip(v, at.tolist(), falling.tolist(), strict=True)
    return np.array(
        [
            sum(is_reached((n * q - total) * s, t * s, square, fraction) for t in ts)
            for q, ts, falls in rows
            for s in [-1 if falls else 1]
        ],
        np.int32,
    )


@pytest.mark.req("C021", "C025")
@pytest.mark.covers("norms_of_codes.layer_counts", "norms_of_codes.group_counts", "norms_of_codes.instance_counts")
@pytest.mark.covers("norms_of_codes.moments", "norms_of_codes.reached")
@pytest.mark.parametrize("element", [*WIDTHS, "u8"])
def test_norms_of_codes_are_exact(run: Any, element: str) -> None:
    rng, (p, g, c, k), fraction, floor = np.random.default_rng(9), (5, 2, 3, 3), 8, 6
    x = codes(element, (p, g, c), 3)
    at, falling = rng.integers(-600, 600, (g, c, k)).astype(np.int32), rng.random((g, c)) < 0.4
    of, rest = {"e": element}, (np.uint32(fraction), np.uint64(floor))
    y = run("norms_of_codes.group_counts", x, at, falling, *rest, dims=(p, g, c, k), elements=of)
    for i in range(g):
        row = x[:, i].reshape(-1)
        exact = counts(row, np.tile(at[i], (p, 1)), np.tile(falling[i], p), fraction, floor)
        assert np.array_equal(y[:, i].reshape(-1), exact)
    z = run("norms_of_codes.instance_counts", x[:, 0], at[0], falling[0], *rest, dims=(p, c, k), elements=of)
    for j in range(c):
        exact = counts(x[:, 0, j], np.tile(at[0, j], (p, 1)), np.tile(falling[0, j], p), fraction, floor)
        assert np.array_equal(z[:, j], exact)
    row, ats, falls = x[0].reshape(-1), at.reshape(-1, k), falling.reshape(-1)
    got = run("norms_of_codes.layer_counts", row, ats, falls, *rest, dims=(g * c, k), elements=of)
    assert np.array_equal(got, counts(row, ats, falls, fraction, floor))
    a, square = run("norms_of_codes.moments", row, np.uint64(floor), dims=(g * c,), elements=of)
    n = g * c
    assert np.array_equal(a, n * wide(row) - wide(row).sum())
    assert int(square) == n * int((wide(row) ** 2).sum()) - int(wide(row).sum()) ** 2 + floor
    one = run("norms_of_codes.reached", a[0], square, ats[0], falls[0], np.uint32(fraction), dims=(k,))
    assert int(one) == got[0]


@pytest.mark.req("C021")
@pytest.mark.covers("norms_of_codes.layer_counts", "norms_of_codes.coded", "norms_of_codes.coded_signs")
@pytest.mark.covers("norms_of_codes.coded_ternary")
def test_codes_are_those_of_a_layer_norm_in_f64(run: Any) -> None:
    """Layer norm, gain, bias, quantiser in f64; the thresholds are where its codes change. Signs and ternary too."""
    n, fraction = 64, 16
    x = codes("i8", (n,), 5)
    gain, bias = np.linspace(-2, 2, n) + 0.01, np.linspace(-0.5, 0.5, n)
    wide_x = x.astype(np.float64)
    y = (wide_x - wide_x.mean()) / wide_x.std() * gain + bias
    levels = np.array([-1.5, -0.5, 0.5])
    exact = (y[:, None] >= levels).sum(1) - 2
    border = (levels[None] - bias[:, None]) / gain[:, None]
    at, falling = np.rint(border * 2**fraction).astype(np.int32), gain < 0
    rest = np.uint32(fraction), np.uint64(0)
    count = run("norms_of_codes.layer_counts", x, at, falling, *rest, dims=(n, 3), elements={"e": "i8"})
    y = run("norms_of_codes.coded", count, np.int32(-2), dims=(n,), elements={"e": "i2"})
    assert y.dtype == np.int8 and np.array_equal(y, exact)
    signs = np.array([0, 1], np.int32)
    assert run("norms_of_codes.coded_signs", signs, dims=(2,)).tolist() == [-1, 1]
    assert run("norms_of_codes.coded_ternary", np.arange(3, dtype=np.int32), dims=(3,)).tolist() == [-1, 0, 1]


FAULTS: list[tuple[str, str, str, Callable[[Any], None]]] = [
    ("norms_of_codes.btn", "high > other_high or high == other_high and low >= other_low", "high >= other_high",
     test_comparisons_with_roots_are_exact),
    ("norms_of_codes.btn", "select(at > 0, a >= 0 and more, a >= 0 or less)", "select(at > 0, a >= 0 and more, less)",
     test_comparisons_with_roots_are_exact),
    ("norms_of_codes.btn", "- total * total) + floor", "- total * total)",
     lambda run: test_norms_of_codes_are_exact(run, "i4")),
    ("norms.btn", "(x - mean) / sqrt(variance + eps) * gain + bias",
     "(x - mean) * (gain / sqrt(variance + eps)) + bias", test_batch_norm),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(
    edited: Callable[..., Any], file: str, old: str, new: str, check: Callable[[Any], None]
) -> None:
    with pytest.raises(AssertionError):
        check(edited(file, old, new))
