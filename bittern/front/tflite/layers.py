"""Convolutions and dense layers of TFLite.

Codes: the exact sum of products with the padded codes, a bias in which the input's zero point is folded, and the output
stage `tflite.rescale`. Floats: the sum in the kernels' order (rows, columns, channels), then the bias, then the bounds.
"""

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.front.network.assembly import BATCH
from bittern.front.tflite.factors import code_bounds, real_bounds
from bittern.front.tflite.hybrid import hybrid_convolution, hybrid_dense
from bittern.front.tflite.site import Site, Value, shape
from bittern.front.tflite.windows import SAME, VALID, Walk, refuse_shapes, walk, windowed
from bittern.graph.node import Node


def conv_2d(site: Site) -> None:
    """CONV_2D, also with groups. Filter [m, p, q, c]."""
    x, w = site.input(0), site.numbers(1)
    _check_image(site, x, w)
    channels = x.shape[3]
    groups = channels // w.shape[3] if w.shape[3] and channels % w.shape[3] == 0 else 0
    if not groups or w.shape[0] % groups:
        refuse_shapes(site, x, w)
    padding = site.option(0, "b")
    rows = walk(site, padding, x.shape[1], w.shape[1], site.option(2, "i"), site.option(5, "i", 1))
    columns = walk(site, padding, x.shape[2], w.shape[2], site.option(1, "i"), site.option(4, "i", 1))
    if site.is_hybrid and groups == 1:
        hybrid_convolution(site, rows, columns)
        return
    _convolution(site, w.reshape(groups, -1, *w.shape[1:]), rows, columns, activation=3, axis=0)


def depthwise_conv_2d(site: Site) -> None:
    """DEPTHWISE_CONV_2D. Filter [1, p, q, c * k]: k outputs of each channel."""
    x, w = site.input(0), site.numbers(1)
    _check_image(site, x, w)
    channels = x.shape[3]
    if w.shape[0] != 1 or not channels or w.shape[3] % channels:
        refuse_shapes(site, x, w)
    padding = site.option(0, "b")
    rows = walk(site, padding, x.shape[1], w.shape[1], site.option(2, "i"), site.option(6, "i", 1))
    columns = walk(site, padding, x.shape[2], w.shape[2], site.option(1, "i"), site.option(5, "i", 1))
    kernels = w.reshape(*w.shape[1:3], channels, -1).transpose(2, 3, 0, 1)[..., None]
    _convolution(site, kernels, rows, columns, activation=4, axis=3)


def _check_image(site: Site, x: Value, w: npt.NDArray[Any]) -> None:
    if len(x.shape) != 4 or w.ndim != 4 or min(x.shape) < 1 or min(w.shape) < 1:
        refuse_shapes(site, x, w)


def transpose_conv(site: Site) -> None:
    """TRANSPOSE_CONV: each value spreads a kernel. Filter [m, p, q, c]. Inputs: shape, filter, data, bias.

    It is a convolution of the input with zeros between its values, with each kernel turned by half a turn.
    """
    x, w = site.input(2), site.numbers(1)
    sizes = site.numbers(0, "i32").reshape(-1).tolist()
    _check_image(site, x, w)
    if len(sizes) != 4 or w.shape[3] != x.shape[3]:
        refuse_shapes(site, x, w)
    padding, strides = site.option(0, "b"), (site.option(2, "i"), site.option(1, "i"))
    is_float = site.need(x.row.element, "i8", "f32") == "f32"
    filler = site.a.constant(0 if is_float else site.codes(x.row)[1], x.row.element)
    y, first = site.node(2), x.axis(1)
    for axis in (0, 1):
        stride, size, length = strides[axis], w.shape[1 + axis], int(sizes[1 + axis])
        if not 1 <= stride < 1 << 10 or not 1 <= length < 1 << 16 or padding not in (SAME, VALID):
            refuse_shapes(site, x, w)
        reach = (x.shape[1 + axis] - 1) * stride + size
        before = size - 1 - max(reach - length, 0) // 2 * (padding == SAME)
        after = length + size - 1 - before - (reach - size + 1)
        if before < 0:
            refuse_shapes(site, x, w)
        y = _spread(site, y, first + axis, stride, filler)
        y = site.a.op("pad", y, filler, axis=first + axis, before=before, after=max(after, 0))
        y = site.a.op("slice", y, axis=first + axis, low=0, high=length + size - 1, stride=1)
    steps = [Walk(size, 1, 1, 0, 0) for size in w.shape[1:3]]
    y = windowed(site, y, first, steps[0], steps[1], filler)
    made = site.a.constant(np.ascontiguousarray(w[:, ::-1, ::-1]), _weight_element(site, 2))
    acc = site.a.call(
        f"{'tflite_float' if is_float else 'convolution'}.conv2d", made, y, lead=first, mapped=(False, True)
    )
    _finish(site, acc, w.reshape(len(w), -1), 3, 0, data=2)


def _spread(site: Site, x: Node, axis: int, stride: int, filler: Node) -> Node:
    """Return x with stride - 1 fillers between the values of an axis."""
    if stride == 1:
        return x
    sizes = shape(x)
    y = site.a.op("reshape", x, shape=(*sizes[: axis + 1], 1, *sizes[axis + 1 :]))
    y = site.a.op("pad", y, filler, axis=axis + 1, before=0, after=stride - 1)
    length = sizes[axis].constant or 0
    y = site.a.op("reshape", y, shape=(*sizes[:axis], length * stride, *sizes[axis + 1 :]))
    return site.a.op("slice", y, axis=axis, low=0, high=(length - 1) * stride + 1, stride=1)


def _convolution(site: Site, w: npt.NDArray[Any], rows: Walk, columns: Walk, activation: int, axis: int) -> None:
    """Make a convolution. w: [g, m, p, q, c], g groups of m kernels. axis: of channels in the file's filter."""
    x = site.input(0)
    is_float = site.need(x.row.element, "i8", "f32") == "f32"
    filler = site.a.constant(0 if is_float else site.codes(x.row)[1], x.row.element)
    y = windowed(site, site.node(0), x.axis(1), rows, columns, filler)
    groups, count, *_, channels = w.shape
    weights, kind = w[0], "conv2d"
    if groups > 1 and count == channels == 1:
        weights, kind = w[:, 0, :, :, 0].transpose(1, 2, 0), "depthwise2d"
    elif groups > 1:
        weights, kind = w, "conv2d_grouped"
        y = site.a.op("reshape", y, shape=(*shape(y)[:-1], groups, channels))
    made = site.a.constant(np.ascontiguousarray(weights), _weight_element(site))
    module = "tflite_float" if is_float else "convolution"
    acc = site.a.call(f"{module}.{kind}", made, y, lead=x.axis(1), mapped=(False, True))
    if kind == "conv2d_grouped":
        acc = site.a.op("reshape", acc, shape=(*shape(acc)[:-2], groups * count))
    _finish(site, acc, w.reshape(groups * count, -1), activation, axis)


def fully_connected(site: Site) -> None:
    """FULLY_CONNECTED. Filter [m, n]; all values of the input but the last n are rows."""
    x, w = site.input(0), site.numbers(1)
    is_float = site.need(x.row.element, "i8", "f32") == "f32"
    if site.option(1, "b"):
        site.refuse("has shuffled weights", "Convert the model for any processor, without shuffled weights.")
    if w.ndim != 2 or min(w.shape) < 1 or not prod(x.shape) or prod(x.shape) % w.shape[1]:
        refuse_shapes(site, x, w)
    y, lead = site.node(0), len(x.sample)
    if x.sample[-1:] != (w.shape[1],):
        count = prod(x.sample) // w.shape[1]
        sizes = (w.shape[1],) if count == 1 else (count, w.shape[1])
        y, lead = site.a.op("reshape", y, shape=(BATCH, *sizes)), len(sizes)
    if site.is_hybrid:
        hybrid_dense(site, y, lead)
        return
    made = site.a.constant(w, _weight_element(site))
    name = "tflite_float.dense" if is_float else "dense.dense"
    acc = site.a.call(name, made, y, lead=lead, mapped=(False, True))
    _finish(site, acc, w, activation=0, axis=0)


def _weight_element(site: Site, data: int = 0) -> str:
    """Return the element of the weights: that of the input, or i4. data: place of the input. Raises N321."""
    element, weights = site.input(data).row.element, site.input(1).row.element
    if (element, weights) == ("f32", "i8"):
        site.refuse(
            "has int8 weights for float inputs (dynamic range)", "Convert the model to int8 throughout, or to float."
        )
    return site.need(weights, *(("i8", "i4") if element == "i8" else ("f32",)))


def _finish(site: Site, acc: Node, w: npt.NDArray[Any], activation: int, axis: int, data: int = 0) -> None:
    """Add the bias and give the output.

    w: [m, ..], the weights of each channel. activation: its field. data: place of the input; the bias comes behind it
    and the weights.
    """
    is_float, place = site.input(data).row.element == "f32", max(data, 1) + 1
    bias = site.numbers(place, "f32" if is_float else "i32") if site.has(place) else np.zeros(len(w), np.int32)
    if bias.shape != (len(w),):
        site.refuse(f"has {len(w)} channels and a bias of shape {list(bias.shape)}", "Convert the model again.")
    lead = len(shape(acc)) - 1
    fused = site.activation(activation)
    if is_float:
        site.need(site.output().element, "f32")
        low, high = real_bounds(fused)
        added = site.a.constant(bias, "f32")
        site.give(site.a.call("tflite_float.finish", acc, added, low, high, lead=lead))
        return
    x_zero = site.codes(site.input(data).row)[1]
    folded = bias.astype(np.int64) - x_zero * w.reshape(len(w), -1).sum(axis=1, dtype=np.int64)
    added = site.a.constant(folded.astype(np.int32), "i32")  # wraps as the kernel's own sum does
    acc = site.a.call("requantise.bias", acc, added, lead=lead)
    scale, zero = site.codes(site.output())
    multipliers, shifts = _factors(site, data, len(w), scale, axis)
    low, high = code_bounds(fused, site.output().element, scale, zero)
    element = site.need(site.output().element, "i8")
    site.give(
        site.a.call("tflite.rescale", acc, multipliers, shifts, zero, low, high, lead=lead, elements={"e": element})
    )


def _factors(site: Site, data: int, channels: int, scale: np.float32, axis: int) -> tuple[Node, Node]:
    """Return multipliers and shifts, [channels], that bring accumulators to the output's scale."""
    weights = site.input(1).row.quantisation
    x_scale = float(site.codes(site.input(data).row)[0])
    if weights is None or np.any(weights.zero) or (len(weights.scale) > 1 and weights.axis != axis):
        site.refuse(
            "has weights without scales, with zero points, or with channels along another axis",
            "Convert the model with int8 weights, which are symmetric.",
        )
    scales = np.broadcast_to(weights.scale, (channels,)).astype(np.float64)
    found = [site.factor(x_scale * float(each) / float(scale)) for each in scales]
    multipliers, shifts = np.array(found, np.int64).reshape(channels, 2).T
    return site.a.constant(multipliers, "i32"), site.a.constant(shifts, "i32")
