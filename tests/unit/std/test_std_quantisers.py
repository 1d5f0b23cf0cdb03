"""Quantisers: bits by the stated rules in numpy, error bounds, and the inputs that break others."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from std_oracle import Array, f32, same_bits, sum16

INF, NAN = np.inf, np.nan


def rows(n: int) -> Array:
    """Rows of many magnitudes, zeros of both signs among them."""
    rng = np.random.default_rng(n)
    x = (rng.normal(size=(40, n)) * 10.0 ** rng.integers(-6, 6, (40, 1))).astype(f32)
    x[0], x[1] = 0.0, -0.0
    x[2, 0] = 0.0
    x[3] = np.abs(x[3])
    x[4] = -np.abs(x[4])
    x[5] = f32(2.0**-101)
    return x


def symmetric(x: Array, width: int) -> tuple[Array, Array]:
    """Codes and scales."""
    a, most = np.abs(x).max(-1), f32(2 ** (width - 1) - 1)
    tiny = a < f32(2.0**-100)
    with np.errstate(all="ignore"):
        factor = np.where(tiny, f32(0), most / a)
        return np.rint(x * factor[..., None]).astype(np.int8), np.where(tiny, f32(0), a / most)


@pytest.mark.covers("quantisers.quantise_symmetric", "quantisers.dequantise_symmetric")
@pytest.mark.parametrize("width", [2, 4, 8])
def test_symmetric(run: Any, width: int) -> None:
    for n in (1, 5, 32):
        x = rows(n)
        for row, codes, scale in zip(x, *symmetric(x, width), strict=True):
            q, d = run("quantisers.quantise_symmetric", row, np.uint32(width), dims=(n,))
            assert np.array_equal(q, codes) and np.abs(q).max() <= 2 ** (width - 1) - 1
            same_bits(d, scale)
            back = run("quantisers.dequantise_symmetric", q, d, dims=(n,))
            same_bits(back, d * q.astype(f32))
            assert np.abs(back - row).max() <= d * f32(0.5001) or d == 0
    for bad in (NAN, INF, -INF):
        row = np.array([1, bad, 2], f32)
        q, d = run("quantisers.quantise_symmetric", row, np.uint32(8), dims=(3,))
        assert not q.any() and np.isnan(run("quantisers.dequantise_symmetric", q, d, dims=(3,))).all()


@pytest.mark.covers("quantisers.quantise_groups", "quantisers.dequantise_groups")
def test_groups(run: Any) -> None:
    for g, n in ((4, 8), (16, 64), (1, 3)):
        x = rows(n)[7]
        q, d = run("quantisers.quantise_groups", x, np.uint32(4), dims=(g, n))
        codes, scales = symmetric(x.reshape(n // g, g), 4)
        assert np.array_equal(q, codes)
        same_bits(d, scales)
        back = run("quantisers.dequantise_groups", q, d, dims=(g, n // g))
        same_bits(back, (d[:, None] * q.astype(f32)).reshape(n))


@pytest.mark.covers("quantisers.quantise_asymmetric", "quantisers.dequantise_asymmetric")
def test_asymmetric(run: Any) -> None:
    for n in (1, 5, 32):
        for row in rows(n):
            q, d, zero = run("quantisers.quantise_asymmetric", row, dims=(n,))
            low, high = min(row.min(), f32(0)), max(row.max(), f32(0))
            scale = (high - low) / f32(255)
            same_bits(d, scale)
            with np.errstate(all="ignore"):
                point = int(np.clip(np.rint(np.nan_to_num(-low / scale)), 0, 255))
                codes = np.clip(np.rint(np.nan_to_num(row / scale)) + point, 0, 255)
            assert int(zero) == point and np.array_equal(q, codes)
            back = run("quantisers.dequantise_asymmetric", q, d, zero, dims=(n,))
            same_bits(back, d * (q.astype(np.int16) - int(zero)).astype(f32))
            assert (back[row == 0] == 0).all()
            assert np.abs(back - row).max() <= d * f32(1.001)
    q, d, zero = run("quantisers.quantise_asymmetric", np.array([NAN, 1, -1], f32), dims=(3,))
    assert q.tolist() == [127, 254, 0] and int(zero) == 127 and float(d) == float(f32(2) / f32(255))


@pytest.mark.covers("quantisers.quantise_ternary", "quantisers.dequantise_ternary")
def test_ternary(run: Any) -> None:
    for n in (1, 5, 64):
        for row in rows(n):
            q, d = run("quantisers.quantise_ternary", row, dims=(n,))
            scale = sum16(np.abs(row)) / f32(n)
            same_bits(d, scale)
            with np.errstate(all="ignore"):
                assert np.array_equal(q, np.clip(np.rint(np.nan_to_num(row / scale)), -1, 1))
            same_bits(run("quantisers.dequantise_ternary", q, d, dims=(n,)), d * q.astype(f32))
    q, _ = run("quantisers.quantise_ternary", np.array([0.5, -0.5, 1.5, -0.6, 0.4, 2.5], f32), dims=(6,))
    assert q.tolist() == [0, 0, 1, -1, 0, 1]  # 0.5 of the scale is a tie: to even


@pytest.mark.covers("quantisers.quantise_binary", "quantisers.dequantise_binary")
def test_edge_case_b3_the_sign_of_zero_is_plus_one(run: Any) -> None:
    """EDGE_CASES B3: 0, -0 and NaN have sign +1 wherever a sign is taken."""
    x = np.array([0.0, -0.0, NAN, 1.0, -1.0, 1e-45, -1e-45], f32)
    q, _ = run("quantisers.quantise_binary", x, dims=(7,))
    assert q.tolist() == [1, 1, 1, 1, -1, 1, -1]
    for n in (1, 5, 64):
        for row in rows(n):
            q, d = run("quantisers.quantise_binary", row, dims=(n,))
            assert np.array_equal(q, np.where(row < 0, -1, 1))
            same_bits(d, sum16(np.abs(row)) / f32(n))
            same_bits(run("quantisers.dequantise_binary", q, d, dims=(n,)), d * q.astype(f32))
    packed = run("packed.pack_signs", run("quantisers.quantise_binary", np.zeros(64, f32), dims=(64,))[0], dims=(1,))
    assert packed.tolist() == [2**64 - 1]


FAULTS = [
    ("(1u32 << width - 1) - 1", "1u32 << width - 1", lambda run: test_symmetric(run, 4)),
    ("let low = min(min_of(y), 0.0)", "let low = min_of(y)", test_asymmetric),
    ("round_even(x / scale)", "x / scale", test_ternary),
    ("sign[b1](x)", "sign[b1](x - 0x1p-149)", test_edge_case_b3_the_sign_of_zero_is_plus_one),
]


@pytest.mark.parametrize(("old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(edited: Callable[..., Any], old: str, new: str, check: Callable[[Any], None]) -> None:
    with pytest.raises(AssertionError):
        check(edited("quantisers.btn", old, new))
