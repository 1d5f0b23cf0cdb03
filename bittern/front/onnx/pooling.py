"""Pooling: the greatest of each window, and averages.

Codes stay codes: the greatest number has the greatest code (their scales are positive), and an average is an exact sum
that is divided afterwards.
"""

from dataclasses import replace

import numpy as np

from bittern.front.network.assembly import element_of
from bittern.front.onnx.codes import codes_of, is_in
from bittern.front.onnx.emitter import sizes_of
from bittern.front.onnx.table import QONNX, Site, row
from bittern.front.onnx.values import Array, Wire, coding_of
from bittern.front.onnx.windows import Laid, channels_last, laid, padded_last, windowed
from bittern.graph.node import Node
from bittern.types.dims import dim

_WINDOWS = "auto_pad ceil_mode dilations kernel_shape pads strides"


@row("MaxPool", "the greatest of each window", attributes=f"{_WINDOWS} storage_order", elements="f32 i8 u8")
def _max_pool(site: Site) -> Wire:
    x = _spatial(site, 2)
    windows = laid(site, x.shape[1:], _kernel(site, x))
    return _greatest(site, x, windows)


@row("GlobalMaxPool", "the greatest of each channel", elements="f32 i8 u8")
def _global_max_pool(site: Site) -> Wire:
    x = _spatial(site, 2)
    return _greatest(site, x, _whole(x))


def _greatest(site: Site, x: Wire, windows: Laid) -> Wire:
    emitter = site.emitter
    rank = len(windows.sizes)
    if x.coding is not None and not (x.coding.scale > 0).all():
        x = emitter.values(x)
    codes = emitter.arranged(replace(x, coding=None), channels_last(rank))
    row = element_of(codes.node)
    low = -np.inf if row.is_float else row.low
    views = windowed(site, padded_last(site, codes, windows, low).node, windows)
    node = emitter.assembly.call(f"pooling.max_pool{rank}d", views, lead=1)
    return emitter.fresh(x, node, (x.shape[0], *windows.counts), channels_last(rank))


@row("AveragePool", "the mean of each window", attributes=f"{_WINDOWS} count_include_pad")
def _average_pool(site: Site) -> Wire:
    x = _spatial(site, 2)
    windows = laid(site, x.shape[1:], _kernel(site, x))
    return _mean(site, x, windows, windows.inside(site.whole("count_include_pad") == 1))


@row("GlobalAveragePool", "the mean of each channel")
def _global_average_pool(site: Site) -> Wire:
    x = _spatial(site, 3)
    if len(x.shape) == 4:
        x = site.emitter.reshaped(site.emitter.values(x), (x.shape[0], x.shape[1], x.shape[2] * x.shape[3]))
        made = _mean(site, x, _whole(x), _whole(x).inside(False))
        return site.emitter.reshaped(made, (x.shape[0], 1, 1, 1))
    return _mean(site, x, _whole(x), _whole(x).inside(False))


def _mean(site: Site, x: Wire, windows: Laid, counts: Array) -> Wire:
    """Return sums of windows divided by how many places count. counts: [counts of windows]."""
    emitter = site.emitter
    total = sums(site, x, windows)
    divisor = counts.astype(np.float32)
    same = divisor.reshape(-1)[:1].reshape(()) if (divisor == divisor.reshape(-1)[0]).all() else divisor[None]
    return emitter.with_constant("div", emitter.values(total), same)


def sums(site: Site, x: Wire, windows: Laid) -> Wire:
    """Return the sum of each window: of codes as codes of the same scale, else of f32 numbers."""
    emitter = site.emitter
    rank = len(windows.sizes)
    order, shape = channels_last(rank), (x.shape[0], *windows.counts)
    codes = codes_of(x)
    if codes is None or (windows.is_padded and not is_in(codes[1], element_of(x.node).name)):
        if x.element != "f32":
            site.refuse(f"it sums {x.element}", "f32, or codes behind DequantizeLinear")
        given = padded_last(site, emitter.arranged(emitter.values(x), order), windows, 0.0)
        return Wire(_summed(site, windowed(site, given.node, windows), rank), shape, order)
    coding, zero = codes
    given = padded_last(site, emitter.arranged(emitter.codes(x), order), windows, zero)
    views = windowed(site, given.node, windows)
    node = emitter.assembly.call(f"pooling.sum_pool{rank}d", views, lead=1)
    count = int(np.prod(windows.kernel, dtype=np.int64))
    return emitter.coded(Wire(node, shape, order, "i32"), coding_of(coding.scale, zero * count))


def _summed(site: Site, views: Node, rank: int) -> Node:
    """Return the f32 sums of windows [b, o, p, v, q, c]: [b, o, v, c]."""
    assembly = site.emitter.assembly
    counts, places = [1 + 2 * axis for axis in range(rank)], [2 + 2 * axis for axis in range(rank)]
    moved = assembly.op("permute", views, axes=(0, *counts, 1 + 2 * rank, *places))
    sizes = list(sizes_of(moved))
    span = dim(1)
    for size in sizes[2 + rank :]:
        span = span * size
    return assembly.op("sum", assembly.op("reshape", moved, shape=(*sizes[: 2 + rank], span)))


def _spatial(site: Site, most: int) -> Wire:
    x = site.wire(0)
    rank = len(x.shape) - 1
    if not x.is_batched or not 1 <= rank <= most:
        site.refuse(f"it has {rank} spatial axes", f"1 to {most} spatial axes")
    return x


def _kernel(site: Site, x: Wire) -> tuple[int, ...]:
    kernel = site.wholes("kernel_shape")
    if kernel is None or len(kernel) != len(x.shape) - 1:
        site.refuse("its kernel_shape does not fit its axes", "one number for each spatial axis")
    return kernel


def _whole(x: Wire) -> Laid:
    """Return one window over all places."""
    sizes, rank = x.shape[1:], len(x.shape) - 1
    ones, zeros = (1,) * rank, (0,) * rank
    return Laid(sizes, sizes, ones, ones, zeros, zeros, zeros)


@row(
    "QuantAvgPool2d",
    "sums of codes without their lowest bits",
    attributes="stride kernel ibits obits signed data_layout",
    domain=QONNX,
)
def _quant_average_pool(site: Site) -> Wire:
    x = _spatial(site, 2)
    size, stride = site.whole("kernel", 1), site.whole("stride", 1)
    bits, kept = site.whole("ibits", 8), site.whole("obits", 8)
    if len(x.shape) != 3 or site.text("data_layout", "NCHW") != "NCHW" or not 1 <= size <= min(x.shape[1:]):
        site.refuse("its window or layout does not fit", "NCHW and a window inside the image")
    if stride < 1 or not 1 <= bits <= 8 or not 1 <= kept <= 32:
        site.refuse("its stride or bits are impossible", "a stride from 1, 1 to 8 bits in and 1 to 32 bits out")
    ones, zeros = (1, 1), (0, 0)
    total = sums(site, x, Laid(x.shape[1:], (size, size), (stride, stride), ones, zeros, zeros, zeros))
    emitter = site.emitter
    if total.coding is None or not total.coding.is_symmetric() or total.coding.scale.ndim or total.coding.scale != 1:
        site.refuse("its operand is no whole numbers", "codes of scale 1 and zero 0")
    lost = max(0, (((1 << bits) - 1) * size * size).bit_length() - kept)
    codes = emitter.codes(total)
    if lost:
        count = emitter.spread(lost, codes, "u32")
        codes = replace(codes, node=emitter.assembly.op("shr", codes.node, count))
    return emitter.coded(codes, coding_of(1.0))
