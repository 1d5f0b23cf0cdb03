"""What layers of codes must give, in numpy written apart from the library: naive loops over int64, exact fractions."""

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.types.elements import ELEMENTS

Array = npt.NDArray[Any]
WIDTHS = ("b1", "t", "i2", "i3", "i4", "i8")  # the six widths of discrete networks
PAIRS = [*zip(WIDTHS, WIDTHS, strict=True), ("b1", "u8"), ("b1", "i8"), ("t", "u2"), ("i8", "u8"), ("bit", "b1")]


def codes(element: str, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Random values of an element; the first ones are its least and greatest."""
    of, rng = ELEMENTS[element], np.random.default_rng(seed)
    x = rng.integers(of.low, of.high, shape, endpoint=True)
    if element == "b1":
        x = rng.integers(0, 2, shape) * 2 - 1
    x.reshape(-1)[:2] = (of.low, of.high)[: x.size]
    return x.astype(of.storage)


def wide(x: Array) -> Array:
    """As int64."""
    return np.asarray(x).astype(np.int64)


def windowed(x: Array, axis: int, size: int, stride: int = 1, dilation: int = 1) -> Array:
    """All windows of an axis by plain indexing: the axis becomes (window, place)."""
    count = (x.shape[axis] - (size - 1) * dilation - 1) // stride + 1
    index = np.arange(count)[:, None] * stride + np.arange(size)[None] * dilation
    return np.take(x, index, axis)


def conv2d_naive(x: Array, w: Array, stride: int = 1, dilation: int = 1) -> Array:
    """One sum at a time. x: [h, n, c], w: [m, p, q, c] -> [o, v, m] int64."""
    (m, p, q, _), (h, n, _) = w.shape, x.shape
    o, v = (h - (p - 1) * dilation - 1) // stride + 1, (n - (q - 1) * dilation - 1) // stride + 1
    y = np.zeros((o, v, m), np.int64)
    for i, k, f in itertools.product(range(o), range(v), range(m)):
        for a, b in itertools.product(range(p), range(q)):
            place = wide(x[i * stride + a * dilation, k * stride + b * dilation])
            y[i, k, f] += int((place * wide(w[f, a, b])).sum())
    return y


def patches2d(x: Array, p: int, q: int, stride: int = 1, dilation: int = 1) -> Array:
    """x: [h, n, ...] -> [o, p, v, q, ...]."""
    return windowed(windowed(x, 0, p, stride, dilation), 2, q, stride, dilation)
