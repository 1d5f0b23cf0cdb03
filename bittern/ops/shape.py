"""Ops that only rearrange: no arithmetic, and a view where numpy can make one.

Own axes are counted behind the batch axes. A block format's last own axis is stored as [blocks, bytes of a block]; ops
here may touch its other axes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bittern.ops.rules import need_tensors, open_kind, same
from bittern.ops.table import Array, Attributes, Site, op
from bittern.types.dims import Dim, dim
from bittern.types.elements import U8, U32, Kind
from bittern.types.faults import ATTRIBUTE_UNFIT, ELEMENT_UNFIT, RANK_UNFIT, SHAPE_MISMATCH, TypeFault
from bittern.types.values import Tensor, Type, text


def _product(sizes: Sequence[Dim]) -> Dim:
    total = dim(1)
    for size in sizes:
        total = total * size
    return total


def _axis(type_: Tensor, attributes: Attributes, extra: int = 0) -> int:
    """Return the axis of an op, refused outside the operand's rank (+ extra)."""
    axis = int(attributes["axis"])
    rank = len(type_.shape) + extra
    if not 0 <= axis < rank:
        raise TypeFault(ATTRIBUTE_UNFIT, f"axis {axis}", f"an axis below {rank}" if rank else "an array")
    return axis


def _not_last_of_format(type_: Tensor, axis: int) -> None:
    if (type_.element.is_format or open_kind(type_.element) == "format") and axis == len(type_.shape) - 1:
        raise TypeFault(ELEMENT_UNFIT, text(type_), "an axis that is not cut into blocks", "see the bytes with `blocks`")


# --- sizes and axes


def _reshape_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    (x,) = need_tensors(types, 1)
    shape = tuple(attributes["shape"])
    if _product(x.shape) != _product(shape):
        raise TypeFault(SHAPE_MISMATCH, "{0} values", "{1} values", dims=(_product(x.shape), _product(shape)))
    if x.element.is_format:
        raise TypeFault(ELEMENT_UNFIT, text(x), "an element that is no block format", "see the bytes with `blocks`")
    return Tensor(x.element, shape, x.space)


@op("reshape", "the same values in row-major order under another shape", _reshape_rule)
def reshape(site: Site, x: Array) -> Array:
    """x: any shape -> `shape`."""
    return x.reshape(x.shape[: site.lead] + site.shape)


def _permute_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    (x,) = need_tensors(types, 1)
    axes = tuple(attributes["axes"])
    if sorted(axes) != list(range(len(x.shape))):
        raise TypeFault(ATTRIBUTE_UNFIT, f"axes {list(axes)}", f"each of the {len(x.shape)} axes once")
    if axes and axes[-1] != len(axes) - 1:
        _not_last_of_format(x, len(axes) - 1)
    return Tensor(x.element, tuple(x.shape[a] for a in axes), x.space)


@op("permute", "axis i of the result is axis `axes[i]` of the operand", _permute_rule)
def permute(site: Site, x: Array) -> Array:
    """x: any shape."""
    lead = site.lead
    own = tuple(lead + a for a in site.attributes["axes"])
    return x.transpose(tuple(range(lead)) + own + tuple(range(lead + len(own), x.ndim)))


def _reverse_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    (x,) = need_tensors(types, 1)
    _not_last_of_format(x, _axis(x, attributes))
    return x


@op("reverse", "one axis from its end to its start", _reverse_rule)
def reverse(site: Site, x: Array) -> Array:
    """x: any shape."""
    return np.flip(x, site.lead + site.attributes["axis"])


def _slice_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    (x,) = need_tensors(types, 1)
    axis = _axis(x, attributes)
    _not_last_of_format(x, axis)
    low, high, stride = dim(attributes["low"]), dim(attributes["high"]), int(attributes["stride"])
    if stride < 1:
        raise TypeFault(ATTRIBUTE_UNFIT, f"stride {stride}", "a stride of at least 1")
    size = x.shape[axis]
    backwards, beyond = (high - low).constant, (size - high).constant
    below = low.constant
    if (backwards is not None and backwards < 0) or (beyond is not None and beyond < 0) or (below or 0) < 0:
        raise TypeFault(SHAPE_MISMATCH, "the slice {0}..{1}", "bounds in order and inside {2}", dims=(low, high, size))
    length = (high - low + (stride - 1)) // stride if stride > 1 else high - low
    return Tensor(x.element, (*x.shape[:axis], length, *x.shape[axis + 1 :]), x.space)


@op("slice", "indices low, low + stride, ... below high of one axis", _slice_rule)
def slice_(site: Site, x: Array) -> Array:
    """x: any shape; bounds are constant."""
    a = site.attributes
    place = (slice(None),) * (site.lead + a["axis"])
    return x[(*place, slice(a["low"], a["high"], a["stride"]))]


# --- joining


def _concat_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    parts = need_tensors(types)
    axis = _axis(parts[0], attributes)
    _not_last_of_format(parts[0], axis)
    cut = [Tensor(p.element, p.shape[:axis] + p.shape[axis + 1 :], p.space) for p in parts if len(p.shape) > axis]
    if len(cut) != len(parts):
        raise TypeFault(RANK_UNFIT, "a scalar", f"arrays of {len(parts[0].shape)} dimensions")
    rest = same(cut)
    total = dim(0)
    for part in parts:
        total = total + part.shape[axis]
    return Tensor(rest.element, (*rest.shape[:axis], total, *rest.shape[axis:]), rest.space)


@op("concat", "the operands one after the other along an axis", _concat_rule)
def concat(site: Site, *parts: Array) -> Array:
    """parts: equal but for the axis."""
    return np.concatenate(_same_lead(site, parts), site.lead + site.attributes["axis"])


def _stack_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    whole = same(types)
    axis = _axis(whole, attributes, 1)
    return Tensor(whole.element, (*whole.shape[:axis], dim(len(types)), *whole.shape[axis:]), whole.space)


@op("stack", "the operands along a new axis", _stack_rule)
def stack(site: Site, *parts: Array) -> Array:
    """parts: equal types."""
    return np.stack(_same_lead(site, parts), site.lead + site.attributes["axis"])


def _same_lead(site: Site, parts: Sequence[Array]) -> list[Array]:
    lead = site.lead
    fronts = {part.shape[:lead] for part in parts}
    if len(fronts) == 1:
        return list(parts)
    front = np.broadcast_shapes(*fronts)
    return [np.broadcast_to(part, front + part.shape[lead:]) for part in parts]


def _pad_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    x, value = need_tensors(types, 2)
    axis = _axis(x, attributes)
    _not_last_of_format(x, axis)
    if value != Tensor(x.element, (), value.space):
        raise TypeFault(ELEMENT_UNFIT, text(value), f"one value of `{x.element}`")
    size = x.shape[axis] + attributes["before"] + attributes["after"]
    return Tensor(x.element, (*x.shape[:axis], size, *x.shape[axis + 1 :]), x.space)


@op("pad", "more of one axis in front and behind, filled with a value", _pad_rule)
def pad(site: Site, x: Array, value: Array) -> Array:
    """x: any shape; value: a scalar."""
    lead, a = site.lead, site.attributes
    front = np.broadcast_shapes(x.shape[:lead], value.shape[:lead])
    result = np.empty(front + site.shape, x.dtype)
    result[...] = value.reshape(value.shape[:lead] + (1,) * len(site.shape))
    before, axis = a["before"], lead + a["axis"]
    result[(*(slice(None),) * axis, slice(before, before + x.shape[axis]))] = x
    return result


# --- making


def _broadcast_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    (x,) = need_tensors(types, 1)
    return Tensor(x.element, (*attributes["shape"], *x.shape), x.space)


@op("broadcast", "the operand repeated over new leading axes", _broadcast_rule)
def broadcast(site: Site, x: Array) -> Array:
    """x: any shape -> `shape` in front of it."""
    lead = site.lead
    new = site.attributes["shape"]
    front = x.shape[:lead]
    return np.broadcast_to(x.reshape(front + (1,) * len(new) + x.shape[lead:]), front + tuple(new) + x.shape[lead:])


def _fill_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    (value,) = need_tensors(types, 1)
    if value.shape:
        raise TypeFault(RANK_UNFIT, text(value), "one value")
    return Tensor(value.element, tuple(attributes["shape"]), value.space)


@op("fill", "an array of one value", _fill_rule)
def fill(site: Site, value: Array) -> Array:
    """value: a scalar."""
    return broadcast(site, value)


def _iota_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    return Tensor(U32, (dim(attributes["count"]),))


@op("iota", "0, 1, 2, ... as u32", _iota_rule)
def iota(site: Site) -> Array:
    """No operands."""
    numbers = np.arange(site.attributes["count"], dtype=np.uint32)
    return numbers.reshape((1,) * site.lead + numbers.shape)


def _size_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    return Tensor(U32)


@op("size", "a dimension as u32, modulo 2^32", _size_rule)
def size(site: Site) -> Array:
    """No operands."""
    return np.full((1,) * site.lead, site.attributes["value"] % (1 << 32), np.uint32)


def _windows_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    (x,) = need_tensors(types, 1)
    axis = _axis(x, attributes)
    _not_last_of_format(x, axis)
    length, stride, dilation = dim(attributes["size"]), int(attributes["stride"]), int(attributes["dilation"])
    if stride < 1 or dilation < 1:
        raise TypeFault(ATTRIBUTE_UNFIT, f"stride {stride}, dilation {dilation}", "both at least 1")
    span = (length - 1) * dilation + 1
    room = (x.shape[axis] - span).constant
    if room is not None and room < 0:
        raise TypeFault(SHAPE_MISMATCH, "windows of {0}", "at most {1}", dims=(span, x.shape[axis]))
    count = (x.shape[axis] - span) // stride + 1
    return Tensor(x.element, (*x.shape[:axis], count, length, *x.shape[axis + 1 :]), x.space)


@op("windows", "all windows of one axis, as two axes: which window, which place in it", _windows_rule)
def windows(site: Site, x: Array) -> Array:
    """x: any shape; a view."""
    a: Any = site.attributes
    axis = site.lead + a["axis"]
    span = (a["size"] - 1) * a["dilation"] + 1
    view = np.lib.stride_tricks.sliding_window_view(x, span, axis)[..., :: a["dilation"]]
    view = view[(*(slice(None),) * axis, slice(None, None, a["stride"]))]
    return np.moveaxis(view, -1, axis + 1)


def _blocks_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    (w,) = need_tensors(types, 1)
    if w.element.kind is Kind.OPEN and open_kind(w.element) in ("format", "type"):
        raise TypeFault(ELEMENT_UNFIT, text(w), "a block format that is known", "declare the function for each format")
    if not w.element.is_format or not w.shape:
        raise TypeFault(ELEMENT_UNFIT, text(w), "an array in a block format")
    count = w.shape[-1] // w.element.columns
    return Tensor(U8, (*w.shape[:-1], count, dim(w.element.bytes)), w.space)


@op("blocks", "the bytes of a block format, [..., blocks, bytes of a block]; no copy", _blocks_rule)
def blocks(site: Site, w: Array) -> Array:
    """w: format[..., n] -> u8[..., n / columns, bytes]."""
    return w


