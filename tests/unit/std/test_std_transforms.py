"""Fourier, cosine and wavelet transforms: bits by the strict rules in numpy, errors against wide arithmetic."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.fft
from std_oracle import Array, f32, same_bits, sum16


def strict_fft(re: Array, im: Array, sign: float) -> tuple[Array, Array]:
    """The transform in f32 by plain loops: decimation in frequency in place, then bits reversed."""
    n = len(re)
    wide = sign * 2 * np.pi / n * np.arange(n // 2)
    cos, sin = np.cos(wide.astype(np.longdouble)).astype(f32), np.sin(wide.astype(np.longdouble)).astype(f32)
    re, im = re.copy(), im.copy()
    size, step = n, 1
    while size > 1:
        half = size // 2
        for first in range(0, n, size):
            for j in range(half):
                p, q = first + j, first + j + half
                a, b = re[p] - re[q], im[p] - im[q]
                re[p], im[p] = re[p] + re[q], im[p] + im[q]
                c, s = cos[j * step], sin[j * step]
                re[q], im[q] = a * c - b * s, a * s + b * c
        size, step = half, 2 * step
    width = n.bit_length() - 1
    order = [int(f"{i:0{width}b}"[::-1], 2) for i in range(n)]
    return re[order], im[order]


@pytest.mark.covers("fft.fft", "fft.fft_inverse")
@pytest.mark.parametrize("n", [2, 4, 8, 64, 256])
def test_fft_has_the_bits_of_the_plain_loops(run: Any, n: int) -> None:
    re, im = np.random.default_rng(n).normal(size=(2, n)).astype(f32)
    got = run("fft.fft", re, im, dims=(n,))
    expected = strict_fft(re, im, -1)
    same_bits(got[0], expected[0])
    same_bits(got[1], expected[1])
    back = run("fft.fft_inverse", *got, dims=(n,))
    expected = strict_fft(*expected, 1)
    same_bits(back[0], expected[0] * f32(1 / n))
    same_bits(back[1], expected[1] * f32(1 / n))


@pytest.mark.covers("fft.fft", "fft.fft_inverse", "fft.power_spectrum")
def test_fft_error(run: Any) -> None:
    for k in range(1, 13):
        n = 2**k
        re, im = np.random.default_rng(n).normal(size=(2, n)).astype(f32)
        exact = scipy.fft.fft(re.astype(np.clongdouble) + 1j * im)
        got = run("fft.fft", re, im, dims=(n,))
        scale = np.sqrt(np.mean(np.abs(exact) ** 2))
        error = float(np.sqrt(np.mean(np.abs(got[0] + 1j * got[1].astype(np.longdouble) - exact) ** 2)) / scale)
        assert error < 0.5 * k * 2.0**-24, (n, error * 2.0**24 / k)
        back = run("fft.fft_inverse", *got, dims=(n,))
        assert np.abs(back[0] - re).max() < 2e-6 and np.abs(back[1] - im).max() < 2e-6
        power = run("fft.power_spectrum", *got, dims=(n,))
        same_bits(power, got[0] * got[0] + got[1] * got[1])
    ideal = run("fft.fft", re.astype(float), im.astype(float), dims=(n,), ideal=True)
    np.testing.assert_allclose(ideal[0] + 1j * ideal[1], exact.astype(complex), atol=1e-10)


@pytest.mark.covers("dct.dct_2", "dct.dct_3", "dct.dct_cosine")
@pytest.mark.parametrize("n", [1, 2, 3, 8, 30, 64])
def test_cosine_transforms(run: Any, n: int) -> None:
    x = np.random.default_rng(n).normal(size=n).astype(f32)
    i, k = np.meshgrid(np.arange(n), np.arange(n))
    table = np.cos(np.pi * ((2 * i + 1) * k % (4 * n)) / (2 * n)).astype(f32)
    assert np.abs(run("dct.dct_cosine", np.uint32(3), np.uint32(n)) - np.cos(1.5 * np.pi / n)) < 1e-7
    got = run("dct.dct_2", x, dims=(n,))
    same_bits(got, sum16(x * table))
    exact = scipy.fft.dct(x.astype(float), type=2) / 2
    assert np.abs(got - exact).max() <= 2e-7 * n * np.abs(x).max()
    half = np.where(np.arange(n) == 0, f32(0.5), f32(1))
    back = run("dct.dct_3", got, dims=(n,))
    same_bits(back, f32(2) / f32(n) * sum16(half * got * table.T))
    assert np.abs(back - x).max() < 1e-5


def pairs() -> Array:
    """All pairs of 8-bit numbers."""
    return np.stack(np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)), -1).reshape(-1, 2).astype(np.int32)


def wild(n: int) -> Array:
    """Rows of any 32-bit numbers."""
    x = np.random.default_rng(n).integers(-(2**31), 2**31, (50, n)).astype(np.int32)
    x[0], x[1] = -(2**31), 2**31 - 1
    return x


@pytest.mark.covers("wavelets.haar", "wavelets.haar_inverse")
def test_haar(run: Any) -> None:
    x = pairs()
    low, high = run.rows("wavelets.haar", "i32[2] -> (i32[1], i32[1])", x)
    assert low[:, 0].tolist() == [(a + b) // 2 for a, b in x.tolist()]
    assert high[:, 0].tolist() == [b - a for a, b in x.tolist()]
    assert np.array_equal(run.rows("wavelets.haar_inverse", "i32[1], i32[1] -> i32[2]", low, high), x)
    for n in (2, 6, 16):
        x = wild(n)
        low, high = run.rows("wavelets.haar", f"i32[{n}] -> (i32[{n // 2}], i32[{n // 2}])", x)
        back = run.rows("wavelets.haar_inverse", f"i32[{n // 2}], i32[{n // 2}] -> i32[{n}]", low, high)
        assert np.array_equal(back, x)


@pytest.mark.covers("wavelets.haar_levels", "wavelets.haar_levels_inverse")
def test_all_levels_of_haar(run: Any) -> None:
    for n in (1, 2, 4, 32):
        x = np.random.default_rng(n).integers(-1000, 1000, (20, n)).astype(np.int32)
        got = run.rows("wavelets.haar_levels", f"i32[{n}] -> i32[{n}]", x)
        for row, result in zip(x.tolist(), got.tolist(), strict=True):
            means, expected = row, []
            while len(means) > 1:
                expected = [b - a for a, b in zip(means[::2], means[1::2], strict=True)] + expected
                means = [(a + b) // 2 for a, b in zip(means[::2], means[1::2], strict=True)]
            assert result == means + expected
        for y in (x, wild(n)):
            there = run.rows("wavelets.haar_levels", f"i32[{n}] -> i32[{n}]", y)
            assert np.array_equal(run.rows("wavelets.haar_levels_inverse", f"i32[{n}] -> i32[{n}]", there), y)


@pytest.mark.covers("wavelets.cdf_5_3", "wavelets.cdf_5_3_inverse")
def test_cdf_5_3(run: Any) -> None:
    for n, rows in ((2, pairs()), (4, None), (10, None), (64, None)):
        x = rows if rows is not None else np.random.default_rng(n).integers(-500, 500, (30, n)).astype(np.int32)
        half = n // 2
        low, high = run.rows("wavelets.cdf_5_3", f"i32[{n}] -> (i32[{half}], i32[{half}])", x)
        mirrored = np.pad(x, ((0, 0), (2, 2)), mode="reflect") if n > 2 else x[:, [0, 1, 0, 1, 0, 1]]
        at = np.arange(2, n + 2, 2)
        detail = {k: mirrored[:, at + k] - (mirrored[:, at + k - 1] + mirrored[:, at + k + 1]) // 2 for k in (-1, 1)}
        assert np.array_equal(high, detail[1])
        assert np.array_equal(low, x[:, ::2] + (detail[-1] + detail[1] + 2) // 4)
        for y in (x, wild(n)):
            there = run.rows("wavelets.cdf_5_3", f"i32[{n}] -> (i32[{half}], i32[{half}])", y)
            back = run.rows("wavelets.cdf_5_3_inverse", f"i32[{half}], i32[{half}] -> i32[{n}]", *there)
            assert np.array_equal(back, y)


def fft_of_8(run: Any) -> None:
    """The comparison of one length."""
    test_fft_has_the_bits_of_the_plain_loops(run, 8)


FAULTS = [
    ("fft.btn", "iota(n / 2) >> stage << stage", "iota(n / 2)", fft_of_8),
    ("fft.btn", "a * s + b * c", "a * s - b * c", fft_of_8),
    ("dct.btn", "/ f64(2 * n)", "/ f64(2 * n + 1)", lambda run: test_cosine_transforms(run, 64)),
    ("wavelets.btn", "left + high + 2 >> 2), high)", "left + high + 1 >> 2), high)", test_cdf_5_3),
    ("wavelets.btn", "let half = n >> level + 1", "let half = n >> level", test_all_levels_of_haar),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(
    edited: Callable[..., Any], file: str, old: str, new: str, check: Callable[[Any], None]
) -> None:
    with pytest.raises(AssertionError):
        check(edited(file, old, new))
