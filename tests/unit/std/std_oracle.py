"""The strict rules in plain numpy, written apart from the library: what its results must equal bit for bit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
f32 = np.float32


def same_bits(a: npt.ArrayLike, b: npt.ArrayLike) -> None:
    """Fail unless both arrays have equal type, shape and bits; every NaN is one value."""
    x, y = np.asarray(a), np.asarray(b)
    assert x.dtype == y.dtype and x.shape == y.shape, (x.dtype, x.shape, y.dtype, y.shape)
    if x.dtype.kind == "f":
        x, y = np.where(np.isnan(x), x.dtype.type(np.nan), x), np.where(np.isnan(y), y.dtype.type(np.nan), y)
        word = f"u{x.dtype.itemsize}"
        x, y = x.view(word), y.view(word)
    wrong = np.flatnonzero(np.ravel(x != y))
    assert wrong.size == 0, (
        wrong.size,
        wrong[:4],
        np.ravel(np.asarray(a))[wrong[:4]],
        np.ravel(np.asarray(b))[wrong[:4]],
    )


def sum16(x: Array) -> Array:
    """Sum of the last axis: 16 partials, then a fixed tree."""
    partial = np.zeros((*x.shape[:-1], 16), x.dtype)
    with np.errstate(all="ignore"):
        for i in range(x.shape[-1]):
            partial[..., i % 16] = partial[..., i % 16] + x[..., i]
        for half in (8, 4, 2, 1):
            partial = partial[..., :half] + partial[..., half:]
    return partial[..., 0]


def fold(terms: Array) -> Array:
    """Sum of the last axis, strictly in order from +0."""
    total = np.zeros(terms.shape[:-1], terms.dtype)
    with np.errstate(all="ignore"):
        for i in range(terms.shape[-1]):
            total = total + terms[..., i]
    return total


def quantise(x: Array) -> tuple[Array, Array, Array]:
    """Activations [..., n] f32 -> codes [..., n / 32, 32] i8, scales, scale times sum of codes."""
    rows = x.reshape(*x.shape[:-1], -1, 32)
    magnitude = np.abs(rows)
    a = np.where(np.isnan(magnitude).any(-1), f32(np.nan), np.nan_to_num(magnitude, nan=0, posinf=np.inf).max(-1))
    tiny = a < f32(2.0**-100)
    with np.errstate(all="ignore"):
        d = np.where(tiny, f32(0), a / f32(127)).astype(f32)
        inverse = np.where(tiny, f32(0), f32(127) / a).astype(f32)
        scaled = rows * inverse[..., None]
        codes = np.clip(np.rint(np.nan_to_num(scaled, nan=0.0)), -128, 127).astype(np.int8)
        return codes, d, d * codes.astype(np.int32).sum(-1).astype(f32)


def ulps(result: Array, exact: Array) -> Array:
    """Distance of f32 results from exact values in units of the last place of the exact value."""
    exact = np.asarray(exact, np.longdouble)
    unit = np.spacing(np.maximum(np.abs(exact.astype(f32)), f32(2.0**-126))).astype(np.longdouble)
    return np.asarray(np.abs(result.astype(np.longdouble) - exact) / unit, np.float64)


def softmax_chunked(
    score: Array, visible: Array, exp: Callable[[Array], Array]
) -> tuple[Array, list[Array], list[Array]]:
    """One query over positions [c]: 1 / z, and for each chunk of 512 its positions and weights."""
    shown = np.flatnonzero(visible)
    top = score[shown].max()
    z, places, weights = f32(0), [], []
    for low in range(0, len(score), 512):
        at = shown[(shown >= low) & (shown < low + 512)]
        if at.size == 0:
            continue
        e = exp(score[at] - top)
        padded = np.zeros(512, f32)
        padded[at - low] = e
        z = z + sum16(padded)
        places.append(at)
        weights.append(e)
    return f32(1) / z, places, weights
