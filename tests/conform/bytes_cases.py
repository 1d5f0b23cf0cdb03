"""Layers of 8-bit codes: random cases, plain loops that say what is right, and the arrays that kernels take."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.bitops.kernel import Kernel
from bittern.kernels.conv_bytes import conv_bytes
from bittern.kernels.conv_shapes import Area, Conv, flattened
from bittern.kernels.depthwise import Depthwise, depthwise
from bittern.kernels.requantise import SUM, Rounding, Stage, choose, records, rounded

Array = npt.NDArray[Any]
STORAGE: Mapping[str, type] = {"i8": np.int8, "u8": np.uint8}


def area(
    sizes: tuple[int, int],
    c: int,
    window: tuple[int, int],
    strides: tuple[int, int] = (1, 1),
    dilations: tuple[int, int] = (1, 1),
    before: tuple[int, int] = (0, 0),
    after: tuple[int, int] = (0, 0),
    pad: int = 0,
    element: str = "i8",
) -> Area:
    """Return an area whose windows reach as far as the padding."""
    rows, columns = (
        (size + b + a - (w - 1) * d - 1) // s + 1
        for size, b, a, w, d, s in zip(sizes, before, after, window, dilations, strides, strict=True)
    )
    return Area(sizes, c, window, strides, dilations, before, (rows, columns), pad, element)


def codes(area: Area, images: int, seed: int) -> Array:
    """Return random codes of all values. -> [images, rows, columns, c]"""
    least = -128 if area.element == "i8" else 0
    made = np.random.default_rng(seed).integers(least, least + 256, (images, *area.sizes, area.c))
    return made.astype(STORAGE[area.element])


def in_window(area: Area, x: Array, row: int, column: int, i: int, j: int) -> Array:
    """Return what window (row, column) has at (i, j): a place of the input, or padding. -> [images, c] i64."""
    places = (
        start * stride + k * dilation - before
        for start, stride, k, dilation, before in zip(
            (row, column), area.strides, (i, j), area.dilations, area.before, strict=True
        )
    )
    y, z = places
    if 0 <= y < area.sizes[0] and 0 <= z < area.sizes[1]:
        return x[:, y, z].astype(np.int64)
    return np.full((x.shape[0], area.c), area.pad, np.int64)


def taps(area: Area) -> Any:
    """Return an iterator over all windows and their places: row, column, i, j."""
    return product(*(range(n) for n in (*area.counts, *area.window)))


def convolved(area: Area, x: Array, w: Array, parts: int = 1) -> Array:
    """Return the sums of a convolution. w: [parts * m, p, q, c / parts] -> [images, rows, columns, parts * m]."""
    made = np.zeros((x.shape[0], *area.counts, len(w)), np.int64)
    each, channels = len(w) // parts, area.c // parts
    for row, column, i, j in taps(area):
        here = in_window(area, x, row, column, i, j)
        for part in range(parts):
            inside, out = here[:, part * channels : (part + 1) * channels], slice(part * each, (part + 1) * each)
            made[:, row, column, out] += inside @ w[out, i, j].astype(np.int64).T
    return made


def by_channel(area: Area, x: Array, w: Array) -> Array:
    """Return the sums of a depthwise convolution. w: [p, q, c]."""
    made = np.zeros((x.shape[0], *area.counts, area.c), np.int64)
    for row, column, i, j in taps(area):
        made[:, row, column] += in_window(area, x, row, column, i, j) * w[i, j].astype(np.int64)
    return made


def pooled(area: Area, x: Array, kind: str) -> Array:
    """Return the greatest or the sum of each window. kind: `max`, `sum`. -> [images, rows, columns, c] i64."""
    made = np.full((x.shape[0], *area.counts, area.c), -(1 << 40) if kind == "max" else 0, np.int64)
    for row, column, i, j in taps(area):
        here = in_window(area, x, row, column, i, j)
        made[:, row, column] = np.maximum(made[:, row, column], here) if kind == "max" else made[:, row, column] + here
    return made


@dataclass(frozen=True)
class Case:
    """A kernel, its arrays, and what it must write to y."""

    kernel: Kernel
    arrays: Mapping[str, Array]
    wanted: Array
    stage: Stage


def rounding(kind: str, sums: Array, seed: int) -> tuple[Stage, Rounding | None]:
    """Return a stage for sums [..., m]: `sum`; `once`; `twice`, TFLite's; `relu`, the same from its zero on; `left`."""
    if kind == "sum":
        return SUM, None
    rng, m = np.random.default_rng(seed), sums.shape[-1]
    multiplier = rng.integers(1 << 30, 1 << 31, m)
    shift = np.full(m, max(1, int(np.log2(sums.std() + 1) - 5))) + rng.integers(0, 2, m)
    if kind == "left":
        shift = -rng.integers(-1, 3, m)
    zero, low, high = {"relu": (-128, -128, 127), "once": (3, -100, 90)}.get(kind, (-7, -128, 127))
    rule = Rounding(multiplier, shift + (31 if kind == "once" else 0), zero, low, high, "i8", kind != "once")
    stage = choose(rule, np.abs(sums).reshape(-1, m).max(axis=0))
    assert stage is not None, kind
    return stage, rule


def case(area: Area, m: int, kind: str = "twice", images: int = 1, parts: int = 1, seed: int = 1) -> Case:
    """Return a convolution of m channels of each part."""
    rng = np.random.default_rng(seed)
    x, w = (
        codes(area, images, seed),
        rng.integers(-128, 128, (parts * m, *area.window, area.c // parts)).astype(np.int8),
    )
    bias = rng.integers(-3000, 3000, parts * m)
    sums = convolved(area, x, w, parts) + bias
    stage, rule = rounding(kind, sums, seed)
    conv = Conv(flattened(area), m, parts)
    start = bias - area.flip * w.reshape(parts * m, -1).sum(axis=1, dtype=np.int64)
    each = [slice(k * m, (k + 1) * m) for k in range(parts)]
    made = np.concatenate([records(stage, start[s], rule and rule.of(s)) for s in each])
    return _case(conv_bytes(area, m, stage, images, parts), x, conv.packed(w), made, sums, stage, rule)


def depthwise_case(area: Area, kind: str = "twice", images: int = 1, seed: int = 1) -> Case:
    """Return a depthwise convolution."""
    rng = np.random.default_rng(seed)
    x, w = codes(area, images, seed), rng.integers(-128, 128, (*area.window, area.c)).astype(np.int8)
    bias = rng.integers(-3000, 3000, area.c)
    sums = by_channel(area, x, w) + bias
    stage, rule = rounding(kind, sums, seed)
    made = records(stage, bias - area.flip * w.sum(axis=(0, 1), dtype=np.int64), rule)
    return _case(depthwise(area, stage, images), x, Depthwise(area).packed(w), made, sums, stage, rule)


def _case(kernel: Kernel, x: Array, w: Array, r: Array, sums: Array, stage: Stage, rule: Rounding | None) -> Case:
    wanted = sums.astype(np.int32) if rule is None else rounded(sums, rule).astype(STORAGE[rule.element])
    return Case(kernel, {"x": x.reshape(-1), "w": w, "r": r}, wanted, stage)
