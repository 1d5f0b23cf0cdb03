"""Operators of TFLite that move values and compute nothing."""

from math import prod

from bittern.front.network.assembly import BATCH
from bittern.front.tflite.site import Site, shape
from bittern.graph.node import Node


def reshape(site: Site) -> None:
    """RESHAPE, SQUEEZE, EXPAND_DIMS: the output's shape is in the file."""
    site.need(site.output().element, site.input(0).row.element)
    site.give(site.node(0))


def transpose(site: Site) -> None:
    """TRANSPOSE."""
    axes = tuple(int(each) for each in site.numbers(1, "i32", "i64").reshape(-1))
    value = site.input(0)
    if sorted(axes) != list(range(len(value.shape))):
        site.refuse(f"has axes {list(axes)} for the shape {list(value.shape)}", "Convert the model again.")
    x = site.node(0)
    if value.is_folded and axes[0] == 0:
        site.give(site.a.op("permute", x, axes=axes))
        return
    site.give(site.a.op("permute", unfolded(site, x, value.shape), axes=(0, *(axis + 1 for axis in axes))))


def pad(site: Site) -> None:
    """PAD: codes with the zero point, floats with 0; PADV2: with a value of its own."""
    value = site.input(0)
    element = site.need(value.row.element, "i8", "i16", "i32", "f32")
    given = site.numbers(1, "i32", "i64")
    widths = given.reshape(-1, 2).tolist() if given.size == 2 * len(value.shape) else [[-1, -1]]
    if min((each for pair in widths for each in pair), default=0) < 0:
        site.refuse(f"has paddings of shape {list(given.shape)}", "There are two for each axis, from 0.")
    filler: float = 0 if element in ("i32", "f32") else site.codes(value.row)[1]
    if site.has(2):
        values = site.numbers(2, element)
        if values.size != 1:
            site.refuse(f"pads with {values.size} values", "It pads with one.")
        filler = values.item()
    x, first = site.node(0), 0
    if not value.is_folded or any(widths[0]):
        x, first = unfolded(site, x, value.shape), 1
    for axis, (before, after) in enumerate(widths):
        if before or after:
            constant = site.a.constant(filler, element)
            x = site.a.op("pad", x, constant, axis=axis + first, before=int(before), after=int(after))
    site.give(x)


def concatenation(site: Site) -> None:
    """CONCATENATION of values of one scale."""
    rank = len(site.output().shape)
    axis = site.option(0, "i")
    axis += rank if axis < 0 else 0
    if not 0 <= axis < rank or site.option(1, "b") or not site.row.inputs:
        site.refuse(f"joins nothing, or axis {axis} of {rank}, or has an activation", "Convert the model again.")
    whole = site.output()
    parts = []
    for place in range(len(site.row.inputs)):
        value = site.input(place)
        site.need_codes_of(value.row, whole)
        parts.append(unfolded(site, site.node(place), value.shape))
    site.give(site.a.op("concat", *parts, axis=axis + 1) if len(parts) > 1 else parts[0])


def strided_slice(site: Site) -> None:
    """STRIDED_SLICE with steps of 1 or more, and no new axes."""
    value = site.input(0)
    begins, ends, steps = (site.numbers(k, "i32").reshape(-1).tolist() for k in (1, 2, 3))
    begin_mask, end_mask, ellipsis_mask, new_axes, shrinks = (site.option(k, "i") for k in range(5))
    if ellipsis_mask or new_axes or min(steps, default=1) < 1 or len({len(begins), len(ends), len(steps)}) != 1:
        site.refuse("has steps below 1, an ellipsis or new axes", "Slices with steps from 1 are supported.")
    if len(begins) > len(value.shape):
        site.refuse(f"slices {len(begins)} axes of {len(value.shape)}", "Convert the model again.")
    x = unfolded(site, site.node(0), value.shape)
    for axis, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        size = value.shape[axis]
        low = 0 if begin_mask >> axis & 1 else _bound(begin, size)
        high = low + 1 if shrinks >> axis & 1 else size if end_mask >> axis & 1 else _bound(end, size)
        if low >= high or high > size:
            site.refuse(f"takes {begin} to {end} of {size} values", "Slices hold at least one value.")
        if (low, high, step) != (0, size, 1):
            x = site.a.op("slice", x, axis=axis + 1, low=low, high=high, stride=int(step))
    site.give(x)


def _bound(place: int, size: int) -> int:
    """Return a bound of a slice inside the axis; a negative one counts from its end."""
    return min(max(place + size if place < 0 else place, 0), size)


def unfolded(site: Site, x: Node, sizes: tuple[int, ...]) -> Node:
    """Return a node as [b, *sizes], with the first axis of the tensor even where it is 1."""
    assert prod(sizes) >= 0, sizes
    if len(shape(x)) == len(sizes) + 1:
        return x
    return site.a.op("reshape", x, shape=(BATCH, *sizes))
