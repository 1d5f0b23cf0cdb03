"""Pooling of TFLite. Averages of codes are sums of codes (not of what they stand for), divided once."""

from math import prod

import numpy as np
import numpy.typing as npt

from bittern.front.network.assembly import BATCH
from bittern.front.tflite.factors import RANGES, code_bounds, real_bounds
from bittern.front.tflite.shaping import unfolded
from bittern.front.tflite.site import Site, shape
from bittern.front.tflite.windows import Walk, walk, windowed
from bittern.graph.node import Node


def _walks(site: Site) -> tuple[Walk, Walk]:
    """Return how the windows walk rows and columns."""
    x = site.input(0)
    if len(x.shape) != 4 or min(x.shape) < 1:
        site.refuse(f"has an input of shape {list(x.shape)}", "It has four sizes.")
    padding = site.option(0, "b")
    rows = walk(site, padding, x.shape[1], site.option(4, "i"), site.option(2, "i"))
    columns = walk(site, padding, x.shape[2], site.option(3, "i"), site.option(1, "i"))
    return rows, columns


def average_pool_2d(site: Site) -> None:
    """AVERAGE_POOL_2D. Places outside the image do not count."""
    x = site.input(0)
    rows, columns = _walks(site)
    element = site.need(x.row.element, "i8", "f32")
    y = windowed(site, site.node(0), x.axis(1), rows, columns, site.a.constant(0, element))
    lead = x.axis(1)
    counts = np.outer(_counts(rows, x.shape[1]), _counts(columns, x.shape[2]))
    fused = site.activation(5)
    if element == "f32":
        acc = site.a.call("tflite_float.sum_pool2d", y, lead=lead)
        low, high = real_bounds(fused)
        site.give(_per_place(site, "tflite_float.average", acc, counts.astype(np.float32), low, high))
        return
    acc = site.a.call("pooling.sum_pool2d", y, lead=lead)
    scale, zero = site.codes(site.output())
    low, high = code_bounds(fused, element, scale, zero)
    site.give(_per_place(site, "tflite.average", acc, counts, low, high))


def _counts(way: Walk, length: int) -> npt.NDArray[np.int64]:
    """Return how many places of each window lie inside the axis."""
    count = (length + way.before + way.after - way.size) // way.stride + 1
    starts = np.arange(count) * way.stride - way.before
    return np.minimum(starts + way.size, length) - np.maximum(starts, 0)


def _per_place(site: Site, name: str, acc: Node, counts: npt.NDArray[np.generic], low: float, high: float) -> Node:
    """Call the output stage with the count of each place, or with one count for all."""
    element = "f32" if counts.dtype.kind == "f" else "i32"
    elements = {} if element == "f32" else {"e": site.output().element}
    lead = len(shape(acc)) - 1
    count = site.a.constant(counts.flat[0], element)
    if counts.size == 1 or np.all(counts == counts.flat[0]):
        mapped = (True, False, False, False)
    else:
        count = site.a.op("broadcast", site.a.constant(counts, element), shape=shape(acc)[: lead - 2])
        mapped = (True, True, False, False)
    return site.a.call(name, acc, count, low, high, lead=lead, mapped=mapped, elements=elements)


def max_pool_2d(site: Site) -> None:
    """MAX_POOL_2D."""
    x = site.input(0)
    rows, columns = _walks(site)
    element = site.need(x.row.element, "i8", "i16", "f32")
    least = -np.inf if element == "f32" else RANGES[element][0]
    y = windowed(site, site.node(0), x.axis(1), rows, columns, site.a.constant(least, element))
    y = site.a.call("pooling.max_pool2d", y, lead=x.axis(1))
    fused = site.activation(5)
    lead = len(shape(y)) - 1
    if element == "f32":
        low, high = real_bounds(fused)
        site.give(site.a.call("tflite_float.clamp", y, low, high, lead=lead) if fused else y)
        return
    scale, zero = site.codes(site.output())
    bounds = code_bounds(fused, element, scale, zero)
    site.give(y if bounds == RANGES[element] else site.a.call("tflite.clamp", y, *bounds, lead=lead))


def mean(site: Site) -> None:
    """MEAN along some axes. Of codes: their sum times one factor, in which the count lies."""
    x, axes = site.input(0), _axes(site)
    element = site.need(x.row.element, "i8", "f32")
    count = prod(x.shape[axis] for axis in axes)
    if len(x.shape) == 4 and axes == [1, 2]:
        first = x.axis(1)
        rows, columns = (Walk(x.shape[axis], 1, 1, 0, 0) for axis in axes)
        y = windowed(site, site.node(0), first, rows, columns, site.a.constant(0, element))
        module = "tflite_float" if element == "f32" else "pooling"
        acc = site.a.call(f"{module}.sum_pool2d", y, lead=first)
    else:
        acc = site.a.call("tflite_float.sums" if element == "f32" else "tflite.sums", _last(site, axes), lead=1)
    if element == "f32":
        lead = len(shape(acc)) - 1
        site.give(site.a.call("tflite_float.average", acc, float(count), -np.inf, np.inf, lead=lead))
        return
    _give_mean(site, acc, count)


def reduce_max(site: Site) -> None:
    """REDUCE_MAX along some axes."""
    _extreme(site, "max_of")


def reduce_min(site: Site) -> None:
    """REDUCE_MIN along some axes."""
    _extreme(site, "min_of")


def _extreme(site: Site, kind: str) -> None:
    x = site.input(0)
    site.need(x.row.element, "i8", "i16", "f32")
    site.need_codes_of(x.row, site.output())
    site.give(site.a.op(kind, _last(site, _axes(site))))


def _axes(site: Site) -> list[int]:
    """Return the axes along which an operator reduces. Raises N321."""
    x = site.input(0)
    rank = len(x.shape)
    given = site.numbers(1, "i32", "i64").reshape(-1).tolist()
    axes = sorted({int(each) + (rank if each < 0 else 0) for each in given})
    if not axes or axes[0] < 0 or axes[-1] >= rank or min(x.shape, default=0) < 1:
        site.refuse(f"takes the axes {axes} of {rank}", "Convert the model again.")
    return axes


def _last(site: Site, axes: list[int]) -> Node:
    """Return the input as [b, kept, reduced]."""
    x = site.input(0)
    kept = [axis for axis in range(len(x.shape)) if axis not in axes]
    order = (0, *(axis + 1 for axis in (*kept, *axes)))
    y = site.a.op("permute", unfolded(site, site.node(0), x.shape), axes=order)
    sizes = (prod(x.shape[axis] for axis in kept), prod(x.shape[axis] for axis in axes))
    return site.a.op("reshape", y, shape=(BATCH, *sizes))


def _give_mean(site: Site, acc: Node, count: int) -> None:
    """Give sums of `count` codes over their count, which goes into the multiplier."""
    lead, channels, element = len(shape(acc)) - 1, shape(acc)[-1].constant, site.input(0).row.element
    (x_scale, x_zero), (scale, zero) = site.codes(site.input(0).row), site.codes(site.output())
    multiplier, power = site.factor(float(x_scale) / float(scale))
    spare = min(count.bit_length() - 1, 32, 31 + power)
    multiplier, power = (multiplier << spare) // count, power - spare
    bias, multipliers, shifts = (
        site.a.constant(np.full(channels, each), "i32") for each in (-x_zero * count, multiplier, power)
    )
    acc = site.a.call("requantise.bias", acc, bias, lead=lead)
    elements = {"e": element}
    y = site.a.call("tflite.rescale", acc, multipliers, shifts, zero, *RANGES[element], lead=lead, elements=elements)
    site.give(y)
