"""Convolution and pooling of ONNX in numpy: windows over any number of spatial axes, products in a fixed order.

Arrays are as in the file: [batch, channels, spatial ...]. A convolution's products are exact up to 2^-34 of the largest
(`ordered.halves`, for each sample), then rounded once to f32; so its bits are the same on every machine.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.front.quantise.onnx.graph import Node
from bittern.front.quantise.ordered import Halves, halves, ordered_sum

Array = npt.NDArray[Any]

_MOST_VALUES = 1 << 26  # of a padded tensor


def conv(node: Node, inputs: list[Array]) -> Array:
    """Return the convolution. x: [b, c, ...], w: [m, c / groups, ...], bias: [m] -> [b, m, ...] f32."""
    x, weight = inputs[0], inputs[1]
    groups = int(node.attribute("group", 1))
    rows = weight.reshape(groups, len(weight) // groups, -1)
    summands = rows.shape[-1]
    given = halves(x, summands, tuple(range(1, x.ndim)))
    high, low = (conv_patches(node, part, weight.shape[2:]) for part in (given.high, given.low))
    batch, places = len(x), high.shape[2:-1]
    exponent = np.repeat(given.exponent.reshape(-1), int(np.prod(places)))[:, None]
    parts = []
    for group in range(groups):
        own, rest = high[:, group].reshape(-1, summands), low[:, group].reshape(-1, summands)
        right = halves(rows[group].T, summands, 0)
        made = Halves(own, rest, exponent, given.bits).products(right)
        parts.append(np.ldexp(made, exponent + right.exponent - 2 * given.bits).astype(np.float32))
    joined = np.concatenate(parts, 1).reshape(batch, *places, len(weight))
    if len(inputs) > 2:
        joined = joined + inputs[2].astype(np.float32)
    return np.moveaxis(joined, -1, 1)


def conv_patches(node: Node, x: Array, kernel: tuple[int, ...]) -> Array:
    """Return what each output of a convolution sees: [b, groups, out ..., c / groups * kernel]."""
    groups = int(node.attribute("group", 1))
    views = _views(node, x, kernel, 0.0)
    rank = len(kernel)
    places = views.shape[2 : 2 + rank]
    split = views.reshape(len(x), groups, x.shape[1] // groups, *views.shape[2:])
    moved = np.moveaxis(split, 2, 2 + rank)
    return moved.reshape(len(x), groups, *places, -1)


def _views(node: Node, x: Array, kernel: tuple[int, ...], fill: float) -> Array:
    """Return the windows of the spatial axes after padding: [b, c, out ..., kernel ...]."""
    rank = len(kernel)
    strides = [int(size) for size in node.attribute("strides", [1] * rank)]
    dilations = [int(size) for size in node.attribute("dilations", [1] * rank)]
    reach = [(size - 1) * by + 1 for size, by in zip(kernel, dilations, strict=True)]
    before, after = _padding(node, x.shape[2:], reach, strides)
    padded = padded_with(x, [(0, 0), (0, 0), *zip(before, after, strict=True)], fill)
    axes = tuple(range(2, 2 + rank))
    views = np.lib.stride_tricks.sliding_window_view(padded, reach, axes)
    picked = (slice(None), slice(None), *(slice(None, None, by) for by in strides))
    return views[(*picked, *(slice(None, None, by) for by in dilations))]


def padded_with(x: Array, pads: Sequence[tuple[int, int]], value: float) -> Array:
    """Return the array with values before and after each axis. Raises ValueError for what no network needs."""
    total = 1
    for size, (before, after) in zip(x.shape, pads, strict=True):
        total *= max(0, size + before + after)
    if total > max(_MOST_VALUES, 64 * x.size):
        raise ValueError(f"it would have {total} values")
    return np.pad(x, pads, constant_values=value)


def _padding(node: Node, sizes: tuple[int, ...], reach: list[int], strides: list[int]) -> tuple[list[int], list[int]]:
    """Return the padding before and after each spatial axis."""
    rank, auto = len(sizes), node.attribute("auto_pad", "NOTSET")
    if auto in ("NOTSET", "VALID"):
        pads = node.attribute("pads", None) if auto == "NOTSET" else None
        pads = [int(size) for size in pads or [0] * (2 * rank)]
        before, after = pads[:rank], pads[rank:]
    else:
        rows = zip(sizes, reach, strides, strict=True)
        total = [max(0, (-(-size // by) - 1) * by + far - size) for size, far, by in rows]
        less, more = [size // 2 for size in total], [size - size // 2 for size in total]
        before, after = (less, more) if auto == "SAME_UPPER" else (more, less)
    if node.attribute("ceil_mode", 0):
        for axis in range(rank):
            spare = (sizes[axis] + before[axis] + after[axis] - reach[axis]) % strides[axis]
            grown = sizes[axis] + before[axis] + after[axis] - reach[axis] + strides[axis] - spare
            if spare and grown < sizes[axis] + before[axis]:  # a window begins inside, not in the padding behind
                after[axis] += strides[axis] - spare
    return before, after


def max_pool(node: Node, inputs: list[Array]) -> Array:
    """Return the largest value of each window; padding never wins."""
    kernel = tuple(int(size) for size in node.attribute("kernel_shape", []))
    views = _views(node, inputs[0], kernel, -np.inf)
    rest: tuple[Any, ...] = (..., *[0] * len(kernel))
    found: Array = views[rest].copy()
    for place in np.ndindex(*kernel):
        rest = (..., *place)
        np.maximum(found, views[rest], out=found)
    return found


def average_pool(node: Node, inputs: list[Array]) -> Array:
    """Return the mean of each window, of what it covers of the input; padding counts if the node says so."""
    x = inputs[0]
    kernel = tuple(int(size) for size in node.attribute("kernel_shape", []))
    views = _views(node, x, kernel, 0.0)
    rank = len(kernel)
    total = ordered_sum(views.reshape(*views.shape[: 2 + rank], -1).astype(np.float64))
    if node.attribute("count_include_pad", 0):
        return (total / np.prod(kernel)).astype(np.float32)
    inside = _views(node, np.ones_like(x[:1, :1]), kernel, 0.0)
    return np.asarray(total / inside.sum(tuple(range(-rank, 0))), np.float32)


def global_average_pool(node: Node, inputs: list[Array]) -> Array:
    """Return the mean over all spatial axes, which stay with size 1."""
    x = inputs[0]
    mean = ordered_sum(x.reshape(*x.shape[:2], -1).astype(np.float64)) / np.prod(x.shape[2:])
    return mean.astype(np.float32).reshape(*x.shape[:2], *[1] * (x.ndim - 2))


def global_max_pool(node: Node, inputs: list[Array]) -> Array:
    """Return the largest value over all spatial axes, which stay with size 1."""
    found: Array = inputs[0].max(tuple(range(2, inputs[0].ndim)), keepdims=True)
    return found
