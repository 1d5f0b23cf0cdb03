"""Operators of TFLite that take parts of values, join them, or repeat them; codes stay as they are."""

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.front.network.assembly import BATCH
from bittern.front.tflite.shaping import unfolded
from bittern.front.tflite.site import Site, Value, shape
from bittern.graph.node import Node


def split(site: Site) -> None:
    """SPLIT: equal parts. The axis comes first."""
    axis = _axis(site, site.numbers(0, "i32"), site.input(1))
    count, size = len(site.row.outputs), site.input(1).shape[axis]
    if not count or size % count:
        site.refuse(f"makes {count} parts of {size}", "The parts are of equal size.")
    _parts(site, 1, axis, [size // count] * count)


def split_v(site: Site) -> None:
    """SPLIT_V: parts of given sizes, one of which may be -1."""
    value = site.input(0)
    axis = _axis(site, site.numbers(2, "i32"), value)
    sizes = [int(each) for each in site.numbers(1, "i32", "i64").reshape(-1).tolist()]
    rest = value.shape[axis] - sum(each for each in sizes if each >= 0)
    sizes = [rest if each == -1 else each for each in sizes]
    if len(sizes) != len(site.row.outputs) or min(sizes, default=0) < 1 or sum(sizes) != value.shape[axis]:
        site.refuse(f"makes parts of {sizes} of {value.shape[axis]}", "The parts are the whole.")
    _parts(site, 0, axis, sizes)


def _parts(site: Site, place: int, axis: int, sizes: list[int]) -> None:
    x = unfolded(site, site.node(place), site.input(place).shape)
    low = 0
    for output, size in enumerate(sizes):
        site.give(site.a.op("slice", x, axis=axis + 1, low=low, high=low + size, stride=1), output)
        low += size


def pack(site: Site) -> None:
    """PACK: values of one shape, along a new axis."""
    rank = len(site.output().shape)
    axis = site.option(1, "i")
    axis += rank if axis < 0 else 0
    if not 0 <= axis < rank or not site.row.inputs:
        site.refuse(f"makes axis {axis} of {rank}", "Convert the model again.")
    parts = []
    for place in range(len(site.row.inputs)):
        site.need_codes_of(site.input(place).row, site.output())
        parts.append(unfolded(site, site.node(place), site.input(place).shape))
    site.give(site.a.op("stack", *parts, axis=axis + 1))


def unpack(site: Site) -> None:
    """UNPACK: the parts along an axis, which goes."""
    value = site.input(0)
    axis = _axis(site, np.array([site.option(1, "i")]), value)
    if value.shape[axis] != len(site.row.outputs):
        site.refuse(f"makes {len(site.row.outputs)} parts of {value.shape[axis]}", "Convert the model again.")
    _parts(site, 0, axis, [1] * value.shape[axis])


def slice_(site: Site) -> None:
    """SLICE: from a place on, so many values; -1 for the rest."""
    value = site.input(0)
    begins, sizes = (site.numbers(k, "i32", "i64").reshape(-1).tolist() for k in (1, 2))
    if not len(begins) == len(sizes) == len(value.shape):
        site.refuse(f"slices {len(begins)} axes of {len(value.shape)}", "Convert the model again.")
    x = unfolded(site, site.node(0), value.shape)
    for axis, (low, size) in enumerate(zip(begins, sizes, strict=True)):
        high = value.shape[axis] if size == -1 else low + size
        if not 0 <= low < high <= value.shape[axis]:
            site.refuse(f"takes {size} values from {low} of {value.shape[axis]}", "Slices hold at least one value.")
        x = site.a.op("slice", x, axis=axis + 1, low=int(low), high=int(high), stride=1)
    site.give(x)


def _axis(site: Site, given: npt.NDArray[Any], value: Value) -> int:
    """Return an axis of a value; a negative one counts from the last. Raises N321."""
    axis = int(given.reshape(-1)[0]) if given.size == 1 else len(value.shape)
    axis += len(value.shape) if axis < 0 else 0
    if not 0 <= axis < len(value.shape):
        site.refuse(f"works along axis {axis} of {len(value.shape)}", "Convert the model again.")
    return axis


def depth_to_space(site: Site) -> None:
    """DEPTH_TO_SPACE: each value's channels become a square of places."""
    value, block = site.input(0), site.option(0, "i")
    if len(value.shape) != 4 or block < 1 or value.shape[3] % block**2 or not prod(value.shape):
        site.refuse(f"has the shape {list(value.shape)} and the block {block}", "Convert the model again.")
    n, h, w, c = value.shape
    x = site.a.op("reshape", site.node(0), shape=(BATCH, n, h, w, block, block, c // block**2))
    site.give(site.a.op("permute", x, axes=(0, 1, 2, 4, 3, 5, 6)))


def space_to_depth(site: Site) -> None:
    """SPACE_TO_DEPTH: each square of places becomes channels."""
    value, block = site.input(0), site.option(0, "i")
    if len(value.shape) != 4 or block < 1 or value.shape[1] % block or value.shape[2] % block or not prod(value.shape):
        site.refuse(f"has the shape {list(value.shape)} and the block {block}", "Convert the model again.")
    n, h, w, c = value.shape
    x = site.a.op("reshape", site.node(0), shape=(BATCH, n, h // block, block, w // block, block, c))
    site.give(site.a.op("permute", x, axes=(0, 1, 2, 4, 3, 5, 6)))


def resize_nearest_neighbor(site: Site) -> None:
    """RESIZE_NEAREST_NEIGHBOR: each place of the output is one of the input's."""
    value, sizes = site.input(0), site.numbers(1, "i32").reshape(-1).tolist()
    if len(value.shape) != 4 or len(sizes) != 2 or min(*sizes, *value.shape) < 1 or max(sizes) > 1 << 16:
        site.refuse(f"has the shape {list(value.shape)} and sizes {sizes}", "Convert the model again.")
    corners, centres = bool(site.option(0, "B")), bool(site.option(1, "B"))
    x = site.node(0)
    for axis, size in zip((value.axis(1), value.axis(2)), sizes, strict=True):
        x = _taken(site, x, axis, nearest_places(value.shape[1 + axis - value.axis(1)], int(size), corners, centres))
    site.give(x)


def nearest_places(length: int, size: int, corners: bool, centres: bool) -> npt.NDArray[np.uint32]:
    """Return which of `length` places each of `size` places takes: in f32, as the kernel computes it."""
    one = np.float32(1)
    scale = (
        np.float32(length - 1) / np.float32(size - 1) if corners and size > 1 else np.float32(length) / np.float32(size)
    )
    places = (np.arange(size, dtype=np.float32) + (one / 2 if centres else 0 * one)) * scale
    whole = np.floor(places + np.float32(0.5)) if corners else np.floor(places)
    return np.asarray(np.clip(whole, 0, length - 1), np.uint32)


def _taken(site: Site, x: Node, axis: int, places: npt.NDArray[np.uint32]) -> Node:
    """Return x with some places of one axis, repeated or left out."""
    order = [axis, *(each for each in range(len(shape(x))) if each != axis)]
    made = site.a.op("take", site.a.op("permute", x, axes=order), site.a.constant(places, "u32"))
    return site.a.op("permute", made, axes=[order.index(each) for each in range(len(order))])
