"""Ops that only rearrange: no arithmetic, and a view where numpy can make one.

Own axes are counted behind the batch axes. A block format's last own axis is stored as [blocks, bytes of a block]; ops
here may touch its other axes. Views whose elements overlap or repeat are read-only.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from bittern.ops.rules import need_tensors, need_value, open_kind, same, same_shape, same_space
from bittern.ops.table import Array, Attributes, Site, op
from bittern.types.dims import Dim, dim
from bittern.types.elements import U8, U32, Element, Kind
from bittern.types.faults import ATTRIBUTE_UNFIT, ELEMENT_UNFIT, RANK_UNFIT, SHAPE_MISMATCH, TypeFault
from bittern.types.values import Tensor, Type, text

_SMALL = 4096  # values; repeating so few costs less than a view does
_WHOLE = slice(None)


# --- what the rules share


def is_cut_into_blocks(element: Element) -> bool:
    """Whether the last axis is stored in blocks; an element that may be anything passes until it is known."""
    return element.is_format or open_kind(element) == "format"


def need_size(size: Dim | int, least: int = 0) -> Dim:
    """Return a size as a dimension; a constant one is refused below `least`."""
    size = dim(size)
    if size.constant is not None and size.constant < least:
        raise TypeFault(ATTRIBUTE_UNFIT, "a size of {0}", f"{least} or more", dims=(size,))
    return size


def _sizes(attributes: Attributes) -> tuple[Dim, ...]:
    return tuple(need_size(size) for size in attributes["shape"])


def _step(attributes: Attributes, name: str) -> int:
    step = attributes[name]
    if type(step) is not int or step < 1:
        raise TypeFault(ATTRIBUTE_UNFIT, f"a {name} of {step}", "a number of at least 1")
    return step


def _axis(type_: Tensor, attributes: Attributes, extra: int = 0) -> int:
    """Return the axis of an op, refused outside the operand's rank (+ extra) and where a format is cut into blocks."""
    axis, rank = attributes["axis"], len(type_.shape)
    if type(axis) is not int or not 0 <= axis < rank + extra:
        raise TypeFault(
            ATTRIBUTE_UNFIT, f"axis {axis}", f"an axis below {rank + extra}" if rank + extra else "an array"
        )
    if is_cut_into_blocks(type_.element) and axis >= rank - 1 + extra:
        raise TypeFault(
            ELEMENT_UNFIT, text(type_), "an axis that is not cut into blocks", "see the bytes with `blocks`"
        )
    return axis


def _product(sizes: Sequence[Dim]) -> Dim:
    total = dim(1)
    for size in sizes:
        total = total * size
    return total


def _with_axis(type_: Tensor, axis: int, *sizes: Dim) -> Tensor:
    """Return the type with these sizes in place of one axis."""
    return Tensor(type_.element, (*type_.shape[:axis], *sizes, *type_.shape[axis + 1 :]), type_.space)


# --- sizes and axes


def _reshape_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    (x,) = need_tensors(types, 1)
    shape = _sizes(attributes)
    if _product(x.shape) != _product(shape):
        raise TypeFault(SHAPE_MISMATCH, "{0} values", "{1} values", dims=(_product(shape), _product(x.shape)))
    if is_cut_into_blocks(x.element) and x.shape[-1:] != shape[-1:]:
        raise TypeFault(
            ELEMENT_UNFIT, text(x), "the same last axis: it is cut into blocks", "see the bytes with `blocks`"
        )
    return Tensor(x.element, shape, x.space)


@op("reshape", "the same values in row-major order under another shape", _reshape_rule)
def _reshape(site: Site, x: Array) -> Array:
    shape = site.attributes["shape"]
    if site.result.element.is_format:
        shape = (*shape[:-1], *x.shape[-2:])
    return x.reshape((*x.shape[: site.lead], *shape))


def _permute_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    (x,) = need_tensors(types, 1)
    axes, rank = tuple(attributes["axes"]), len(x.shape)
    if sorted(axes) != list(range(rank)):
        raise TypeFault(ATTRIBUTE_UNFIT, f"axes {list(axes)}", f"each of the {rank} axes once")
    if is_cut_into_blocks(x.element) and axes[-1:] != (rank - 1,):
        raise TypeFault(ELEMENT_UNFIT, text(x), "the last axis in its place: it is cut into blocks")
    return Tensor(x.element, tuple(x.shape[a] for a in axes), x.space)


@lru_cache(maxsize=1024)
def _order(axes: tuple[int, ...], lead: int, rank: int) -> tuple[int, ...]:
    return (*range(lead), *(lead + a for a in axes), *range(lead + len(axes), rank))


@op("permute", "axis i of the result is axis `axes[i]` of the operand", _permute_rule)
def _permute(site: Site, x: Array) -> Array:
    return x.transpose(_order(site.attributes["axes"], site.lead, x.ndim))


def _reverse_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    (x,) = need_tensors(types, 1)
    _axis(x, attributes)
    return x


@op("reverse", "one axis from its end to its start", _reverse_rule)
def _reverse(site: Site, x: Array) -> Array:
    return x[(*(_WHOLE,) * (site.lead + site.attributes["axis"]), slice(None, None, -1))]


def _slice_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    (x,) = need_tensors(types, 1)
    axis, stride = _axis(x, attributes), _step(attributes, "stride")
    low, high, size = dim(attributes["low"]), dim(attributes["high"]), x.shape[axis]
    distances = (low.constant, (high - low).constant, (size - high).constant)
    if any(distance is not None and distance < 0 for distance in distances):
        raise TypeFault(SHAPE_MISMATCH, "the slice {0}..{1}", "bounds in order and inside {2}", dims=(low, high, size))
    return _with_axis(x, axis, (high - low + (stride - 1)) // stride)


@op("slice", "the places low, low + stride, ... below high of one axis", _slice_rule)
def _slice(site: Site, x: Array) -> Array:
    a = site.attributes
    return x[(*(_WHOLE,) * (site.lead + a["axis"]), slice(a["low"], a["high"], a["stride"]))]


# --- joining


def _concat_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    parts = need_tensors(types)
    first, axis = parts[0], _axis(parts[0], attributes)
    total = dim(0)
    for part in parts:
        if len(part.shape) != len(first.shape):
            raise TypeFault(RANK_UNFIT, text(part), f"an array of {len(first.shape)} dimensions")
        same_shape(_with_axis(first, axis, part.shape[axis]), part)
        total = total + part.shape[axis]
    whole = same([_with_axis(part, axis) for part in parts])
    return Tensor(whole.element, (*whole.shape[:axis], total, *whole.shape[axis:]), whole.space)


@op("concat", "the operands one after the other along an axis", _concat_rule)
def _concat(site: Site, *parts: Array) -> Array:
    lead = site.lead
    axis = lead + site.attributes["axis"]
    if not lead or _fronts_are_equal(lead, parts):
        return np.concatenate(parts, axis)
    front = np.broadcast_shapes(*[part.shape[:lead] for part in parts])
    return np.concatenate([np.broadcast_to(part, front + part.shape[lead:]) for part in parts], axis)


def _fronts_are_equal(lead: int, parts: Sequence[Array]) -> bool:
    front = parts[0].shape[:lead]
    return all(part.shape[:lead] == front for part in parts)


def _stack_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    whole = same(types)
    axis = _axis(whole, attributes, 1)
    return Tensor(whole.element, (*whole.shape[:axis], dim(len(types)), *whole.shape[axis:]), whole.space)


@op("stack", "the operands along a new axis", _stack_rule)
def _stack(site: Site, *parts: Array) -> Array:
    lead, first = site.lead, parts[0]
    if not first.ndim:
        return np.array(parts)
    shape = first.shape if not lead else np.broadcast_shapes(*[part.shape for part in parts])
    axis = lead + site.attributes["axis"]
    result = np.empty((*shape[:axis], len(parts), *shape[axis:]), _common_dtype(parts))
    before = (_WHOLE,) * axis
    for place, part in enumerate(parts):
        result[(*before, place)] = part
    return result


def _common_dtype(parts: Sequence[Array]) -> np.dtype[np.generic]:
    """Return the operands' dtype; in ideal evaluation integers may meet reals that are typed as integers."""
    dtype = parts[0].dtype
    if any(part.dtype != dtype for part in parts):
        return np.result_type(*[part.dtype for part in parts])
    return dtype


def _pad_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    x, value = need_tensors(types, 2)
    axis = _axis(need_value(x), attributes)
    if value.element != x.element or value.shape:
        raise TypeFault(ELEMENT_UNFIT, text(value), f"one value of `{x.element}`")
    size = need_size(attributes["before"]) + x.shape[axis] + need_size(attributes["after"])
    whole = _with_axis(x, axis, size)
    return Tensor(whole.element, whole.shape, same_space(types))


@op("pad", "more of one axis in front and behind, filled with a value", _pad_rule)
def _pad(site: Site, x: Array, value: Array) -> Array:
    lead, a = site.lead, site.attributes
    axis, before = lead + a["axis"], a["before"]
    after = before + x.shape[axis]
    front = np.broadcast_shapes(x.shape[:lead], value.shape[:lead])
    shape = (*front, *x.shape[lead:axis], after + a["after"], *x.shape[axis + 1 :])
    result = np.empty(shape, _common_dtype((x, value)))
    border = value.reshape((*value.shape, *(1,) * (x.ndim - lead)))
    place = (_WHOLE,) * axis
    result[(*place, slice(before, after))] = x
    result[(*place, slice(0, before))] = border
    result[(*place, slice(after, None))] = border
    return result


# --- making


def _broadcast_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    (x,) = need_tensors(types, 1)
    return Tensor(x.element, (*_sizes(attributes), *x.shape), x.space)


@op("broadcast", "the operand repeated over new leading axes", _broadcast_rule)
def _broadcast(site: Site, x: Array) -> Array:
    lead, new = site.lead, site.attributes["shape"]
    front, own = x.shape[:lead], x.shape[lead:]
    shape = (*front, *new, *own)
    spread = x.reshape((*front, *(1,) * len(new), *own))
    if prod(shape) > _SMALL:
        return np.broadcast_to(spread, shape)
    result = np.empty(shape, x.dtype)
    result[...] = spread
    result.flags.writeable = False  # as the view is, whatever the size
    return result


def _fill_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    (value,) = need_tensors(types, 1)
    if value.shape:
        raise TypeFault(RANK_UNFIT, text(value), "one value")
    return Tensor(need_value(value).element, _sizes(attributes), value.space)


@op("fill", "an array of one value", _fill_rule)
def _fill(site: Site, value: Array) -> Array:
    return _broadcast(site, value)


def _iota_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    _need_none(types)
    return Tensor(U32, (need_size(attributes["count"]),))


@op("iota", "0, 1, 2, ... as u32", _iota_rule)
def _iota(site: Site) -> Array:
    numbers = np.arange(site.attributes["count"], dtype=np.uint32)
    return numbers.reshape((1,) * site.lead + numbers.shape)


def _size_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    _need_none(types)
    dim(attributes["value"])
    return Tensor(U32)


def _need_none(types: tuple[Type, ...]) -> None:
    if types:
        raise TypeFault(ATTRIBUTE_UNFIT, f"{len(types)} operands", "none")


@op("size", "a dimension as u32, modulo 2^32", _size_rule)
def _size(site: Site) -> Array:
    return np.full((1,) * site.lead, site.attributes["value"] % (1 << 32), np.uint32)


# --- views of parts


def _windows_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    (x,) = need_tensors(types, 1)
    axis, size = _axis(x, attributes), need_size(attributes["size"], 1)
    stride, dilation = _step(attributes, "stride"), _step(attributes, "dilation")
    span = (size - 1) * dilation + 1
    room = x.shape[axis] - span
    if room.constant is not None and room.constant < 0:
        raise TypeFault(SHAPE_MISMATCH, "windows of {0}", "at most {1}", dims=(span, x.shape[axis]))
    return _with_axis(x, axis, room // stride + 1, size)


@op("windows", "all windows of one axis, as two axes: which window, which place in it", _windows_rule)
def _windows(site: Site, x: Array) -> Array:
    a = site.attributes
    axis, size, stride, dilation = site.lead + a["axis"], a["size"], a["stride"], a["dilation"]
    count = (x.shape[axis] - (size - 1) * dilation - 1) // stride + 1
    step = x.strides[axis]
    shape = (*x.shape[:axis], count, size, *x.shape[axis + 1 :])
    strides = (*x.strides[:axis], step * stride, step * dilation, *x.strides[axis + 1 :])
    return as_strided(x, shape, strides, writeable=False)


def _blocks_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    (w,) = need_tensors(types, 1)
    if w.element.kind is Kind.OPEN and open_kind(w.element) in ("format", "type"):
        raise TypeFault(ELEMENT_UNFIT, text(w), "a block format that is known", "declare the function for each format")
    if not w.element.is_format or not w.shape:
        raise TypeFault(ELEMENT_UNFIT, text(w), "an array in a block format")
    count = w.shape[-1] // w.element.columns
    return Tensor(U8, (*w.shape[:-1], count, dim(w.element.bytes)), w.space)


@op("blocks", "the bytes of a block format, [..., blocks, bytes of a block]; no copy", _blocks_rule)
def _blocks(site: Site, w: Array) -> Array:
    return w
