"""Norms, softmax, gated units and rotary embeddings: strict bits in numpy, and closeness to f64."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from std_oracle import Array, f32, same_bits, sum16

SIZES = [1, 15, 16, 17, 576]


def vectors(n: int, seed: int = 0) -> tuple[Array, Array, Array]:
    """Three vectors of n numbers."""
    a, b, c = np.random.default_rng(seed).standard_normal((3, n)).astype(f32)
    return a, b, c


@pytest.mark.covers("norms.rms_norm")
@pytest.mark.parametrize("n", SIZES)
def test_rms_norm(run: Any, n: int) -> None:
    x, gain, _ = vectors(n)
    eps = f32(1e-5)
    y = run("norms.rms_norm", x, gain, eps, dims=(n,))
    same_bits(y, x * (f32(1) / np.sqrt(sum16(x * x) / f32(n) + eps)) * gain)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(y, wide / np.sqrt((wide**2).mean() + 1e-5) * gain, rtol=1e-6)


@pytest.mark.covers("norms.layer_norm")
@pytest.mark.parametrize("n", SIZES)
def test_layer_norm(run: Any, n: int) -> None:
    x, gain, bias = vectors(n, 1)
    eps = f32(1e-5)
    y = run("norms.layer_norm", x, gain, bias, eps, dims=(n,))
    centred = x - sum16(x) / f32(n)
    same_bits(y, centred * (f32(1) / np.sqrt(sum16(centred * centred) / f32(n) + eps)) * gain + bias)
    wide = x.astype(np.float64)
    exact = (wide - wide.mean()) / np.sqrt(wide.var() + 1e-5) * gain + bias
    np.testing.assert_allclose(y, exact, rtol=1e-4, atol=1e-5)


@pytest.mark.covers("softmax.softmax")
@pytest.mark.parametrize("n", SIZES)
def test_softmax(run: Any, n: int) -> None:
    x = vectors(n, 2)[0] * 5
    y = run("softmax.softmax", x, dims=(n,))
    e = run.over("elementary.exp", x - x.max())
    same_bits(y, e * (f32(1) / sum16(e)))
    wide = np.exp(x.astype(np.float64) - x.max())
    np.testing.assert_allclose(y, wide / wide.sum(), rtol=3e-6)
    np.testing.assert_allclose(run("softmax.softmax", x, dims=(n,), ideal=True), wide / wide.sum(), rtol=1e-14)


def test_norm_of_zero_and_of_extremes(run: Any) -> None:
    ones, eps = np.ones(32, f32), f32(1e-6)
    same_bits(run("norms.rms_norm", 0 * ones, ones, eps, dims=(32,)), 0 * ones)
    x = ones.copy()
    x[3] = np.nan
    assert np.isnan(run("norms.rms_norm", x, ones, eps, dims=(32,))).all()
    assert np.array_equal(run("norms.rms_norm", 3e38 * ones, ones, eps, dims=(32,)), 0 * ones)  # the square overflows


@pytest.mark.covers("activations.silu_gate", "activations.gelu_tanh_gate")
def test_gates(run: Any) -> None:
    rng = np.random.default_rng(3)
    gate, up = rng.standard_normal((2, 3, 40)).astype(f32) * f32(4)
    wide = gate.astype(np.float64)
    y = run("activations.silu_gate", gate, up, dims=(3, 40))
    same_bits(y, run.over("activations.silu", gate.ravel()).reshape(3, 40) * up)
    np.testing.assert_allclose(y, wide / (1 + np.exp(-wide)) * up, rtol=1e-6)
    z = run("activations.gelu_tanh_gate", gate, up, dims=(3, 40))
    inner = np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)
    np.testing.assert_allclose(z, 0.5 * wide * (1 + np.tanh(inner)) * up, rtol=1e-4, atol=1e-6)


@pytest.mark.covers("activations.gelu")
def test_gelu_is_the_normal_distribution(run: Any) -> None:
    from scipy.special import ndtr

    x = np.linspace(-6, 6, 4001).astype(f32)
    exact = x.astype(np.float64) * ndtr(x.astype(np.float64))
    assert np.abs(run.over("activations.gelu", x) - exact).max() < 5e-7
    np.testing.assert_allclose(
        run.over("activations.gelu", x.astype(np.float64), ideal=True), exact, rtol=1e-14, atol=1e-14
    )


ROTARY = [(1e4, 1.0, 64), (1e6, 1.0, 256), (1e4, 8.0, 64), (500_000.0, 1.0, 128)]


@pytest.mark.covers("rotary.rotary_table")
@pytest.mark.parametrize(("base", "scale", "h"), ROTARY)
def test_rotary_table(run: Any, base: float, scale: float, h: int) -> None:
    c = 300
    factor = np.linspace(1, 32, h // 2).astype(f32) if base == 500_000.0 else np.ones(h // 2, f32)
    cos, sin = run("rotary.rotary_table", np.float64(base), np.float64(scale), factor, dims=(c, h))
    step = np.longdouble(base) ** (-2 * np.arange(h // 2, dtype=np.longdouble) / h) / (scale * factor)
    angle = np.arange(c, dtype=np.longdouble)[:, None] * step
    assert np.abs(cos - np.cos(angle)).max() < 2.0**-24
    assert np.abs(sin - np.sin(angle)).max() < 2.0**-24
    assert np.mean(cos == np.cos(angle).astype(f32)) > 0.999


def turned(x: Array, cos: Array, sin: Array, halves: bool) -> Array:
    """Both layouts in plain numpy. x: [t, heads, h]; cos, sin: [t, h / 2]."""
    h = x.shape[-1]
    first, second = (slice(0, h // 2), slice(h // 2, h)) if halves else (slice(0, h, 2), slice(1, h, 2))
    y = np.empty_like(x)
    a, b = x[..., first], x[..., second]
    y[..., first] = a * cos[:, None] - b * sin[:, None]
    y[..., second] = a * sin[:, None] + b * cos[:, None]
    return y


@pytest.mark.covers("rotary.rotary_*")
@pytest.mark.parametrize("halves", [False, True])
def test_rotary_turns_pairs(run: Any, halves: bool) -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((4, 3, 16)).astype(f32)
    angle = rng.uniform(-3, 3, (20, 8))
    cos, sin = np.cos(angle).astype(f32), np.sin(angle).astype(f32)
    pos = np.array([0, 7, 19, 50], np.uint32)
    name = "rotary.rotary_halves" if halves else "rotary.rotary_pairs"
    y = run(name, x, pos, cos, sin, dims=(4, 3, 20, 16))
    at = [0, 7, 19, 19]
    same_bits(y, turned(x, cos[at], sin[at], halves))


FAULTS = [
    ("norms.btn", "sum(x * x) / f32(n) + eps", "sum(x * x) / f32(n) + eps * 2.0"),
    ("norms.btn", "  x * scale * gain\n", "  x * (scale * gain)\n"),
]


@pytest.mark.parametrize(("file", "old", "new"), FAULTS)
def test_planted_faults_are_seen(run: Any, edited: Callable[..., Any], file: str, old: str, new: str) -> None:
    x, gain, _ = vectors(576)
    arguments = (x, gain, f32(1e-5))
    right = run("norms.rms_norm", *arguments, dims=(576,))
    assert (edited(file, old, new)("norms.rms_norm", *arguments, dims=(576,)) != right).any()
