"""Ops that only rearrange, and those that make arrays of nothing: views at other places.

A row gets the context, the site and the views of its operands, and returns a view.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeAlias

import numpy as np

from bittern.bitops.handle import Handle
from bittern.kernels.generic.context import Context, Site
from bittern.kernels.generic.emitter import NotLanesError
from bittern.kernels.generic.filling import fill
from bittern.kernels.generic.places import ZERO, Place, Places, every, has_lane, number, ravel, unravel, variable
from bittern.kernels.generic.views import MOST, Memory, Promoted, Remapped, View, computed, memory, promoted, remapped

Row: TypeAlias = Callable[..., View]  # (context, site, *operands) -> view


def reshaped(c: Context, x: View, shape: tuple[int, ...]) -> View:
    """Return the same values under another shape."""
    if shape == x.shape:
        return x
    if isinstance(x, Memory):
        assert x.buffer is not None
        return memory(x.element, shape, x.buffer, x.offset, x.owned)
    if isinstance(x, Promoted):
        return promoted(c.e, x.element, shape, x.handles)
    old = x.shape
    if not x.size:
        return computed(x.element, shape, (x,), 0, lambda p: _never())
    return remapped(c.e, x, shape, lambda p: unravel(ravel(p, shape), old), lambda p: unravel(ravel(p, old), shape))


def _never() -> Handle:
    raise AssertionError("an element of an array that has none")


def _reshape(c: Context, w: Site, x: View) -> View:
    return reshaped(c, x, w.shape)


def _permute(c: Context, w: Site, x: View) -> View:
    axes = (*w.attributes["axes"], *range(len(w.attributes["axes"]), len(x.shape)))
    inverse = tuple(axes.index(k) for k in range(len(axes)))
    return remapped(c.e, x, w.shape, lambda p: tuple(p[k] for k in inverse), lambda p: tuple(p[axis] for axis in axes))


def moved_along(c: Context, x: View, shape: tuple[int, ...], axis: int, to: Callable[[Place], Place]) -> View:
    """Return the view whose place along one axis is another."""
    return remapped(c.e, x, shape, lambda p: (*p[:axis], to(p[axis]), *p[axis + 1 :]))


def _reverse(c: Context, w: Site, x: View) -> View:
    axis = w.attributes["axis"]
    last = number(x.shape[axis] - 1)

    def turned(p: Places) -> Places:
        return (*p[:axis], last - p[axis], *p[axis + 1 :])

    return remapped(c.e, x, w.shape, turned, turned)


def _slice(c: Context, w: Site, x: View) -> View:
    low, stride = w.attributes["low"], w.attributes["stride"]
    if isinstance(x, Memory) and len(x.shape) == 1 and stride == 1:
        assert x.buffer is not None
        return memory(x.element, w.shape, x.buffer, x.offset + low)
    return moved_along(c, x, w.shape, w.attributes["axis"], lambda p: p * stride + low)


def _windows(c: Context, w: Site, x: View) -> View:
    axis, stride, dilation = (w.attributes[name] for name in ("axis", "stride", "dilation"))

    def inside(p: Places) -> Places:
        return (*p[:axis], p[axis] * stride + p[axis + 1] * dilation, *p[axis + 2 :])

    return remapped(c.e, x, w.shape, inside)


def _broadcast(c: Context, w: Site, x: View) -> View:
    new = len(w.shape) - len(x.shape)
    if not x.shape:
        assert isinstance(x, Promoted) or not x.reads
        return computed(x.element, w.shape, (x,), 0, lambda p: x.at(c.e, ()))
    return remapped(c.e, x, w.shape, lambda p: p[new:])


def _iota(c: Context, w: Site) -> View:
    if w.shape[0] <= MOST:
        return c.known(w.result, np.arange(w.shape[0], dtype=np.uint32))
    return computed(w.result, w.shape, (), 0, lambda p: c.e.word_of(p[0], "u32"))


def _size(c: Context, w: Site) -> View:
    return c.known(w.result, np.array(w.attributes["value"] % (1 << 32), np.uint32))


# --- joining


def joined(c: Context, w: Site, parts: Sequence[View], axis: int) -> View:
    """Return views one after the other along an axis."""
    e, starts = c.e, [0]
    for part in parts:
        starts.append(starts[-1] + part.shape[axis])
    pairs = [(part, low) for part, low in zip(parts, starts, strict=False) if part.size]

    def make(p: Places) -> Handle:
        place = p[axis]
        inside = [(v, low) for v, low in pairs if place.high >= low and place.low < low + v.shape[axis]]
        view, low = inside[-1]
        found = view.at(e, (*p[:axis], _clamped(c, place - low, view.shape[axis]), *p[axis + 1 :]))
        for view, low in reversed(inside[:-1]):
            size = view.shape[axis]
            other = view.at(e, (*p[:axis], _clamped(c, place - low, size), *p[axis + 1 :]))
            before = e.index_of(place) < low + size
            found = (before & other) | (~before & found) if found.type.is_mask else e.choose(before, other, found)
        return found

    def write(target: View) -> None:
        for view, low in pairs:
            fill(e, _part(target, view, low, axis), view)

    if w.shape and _is_in_registers(parts, w.shape):
        picks = [v.at(e, p) for v, p in _elements(pairs, w.shape, axis)]
        return promoted(e, w.result, w.shape, picks)
    return computed(w.result, w.shape, parts, 2 + sum(v.cost + 2 for v, _ in pairs), make, write)


def _is_in_registers(parts: Sequence[View], shape: tuple[int, ...]) -> bool:
    return prod(shape) <= MOST and any(isinstance(v, Promoted) for v in parts)


def _elements(pairs: Sequence[tuple[View, int]], shape: tuple[int, ...], axis: int) -> "list[tuple[View, Places]]":
    found = []
    for p in every(shape):
        place = p[axis].number
        view, low = next((v, low) for v, low in pairs if low <= place < low + v.shape[axis])
        found.append((view, (*p[:axis], number(place - low), *p[axis + 1 :])))
    return found


def _clamped(c: Context, place: Place, size: int) -> Place:
    """Return the place moved inside of an axis, where another part is chosen anyway."""
    if place.low >= 0 and place.high < size:
        return place
    if has_lane(place):
        raise NotLanesError
    index = c.e.index_of(place)
    if place.low < 0:
        index = index.max(0)
    index = index.min(size - 1)  # which also shows the verifier the bound
    return variable(index.value, 0, size - 1) if size > 1 else ZERO


def _part(target: View, view: View, low: int, axis: int) -> View:
    def to(p: Places) -> Places:
        return (*p[:axis], p[axis] + low, *p[axis + 1 :])

    return Remapped(target.element, view.shape, target.reads, 0, 8, 0, target, to)


def _concat(c: Context, w: Site, *parts: View) -> View:
    return parts[0] if len(parts) == 1 else joined(c, w, parts, w.attributes["axis"])


def _stack(c: Context, w: Site, *parts: View) -> View:
    axis = w.attributes["axis"]
    shape = (*w.shape[:axis], 1, *w.shape[axis + 1 :])
    wider = [_with_axis(c, part, shape, axis) for part in parts]
    return joined(c, w, wider, axis)


def _with_axis(c: Context, part: View, shape: tuple[int, ...], axis: int) -> View:
    if isinstance(part, Promoted):
        return promoted(c.e, part.element, shape, part.handles)
    return remapped(c.e, part, shape, lambda p: (*p[:axis], *p[axis + 1 :]), lambda p: (*p[:axis], ZERO, *p[axis:]))


def _pad(c: Context, w: Site, x: View, value: View) -> View:
    axis, before = w.attributes["axis"], w.attributes["before"]
    after = w.shape[axis] - before - x.shape[axis]

    def border(size: int) -> View:
        shape = (*w.shape[:axis], size, *w.shape[axis + 1 :])
        return computed(x.element, shape, (value,), 0, lambda p: value.at(c.e, ()))

    parts = [part for part in (border(before), x, border(after)) if part.shape[axis]]
    if not parts:
        return x
    return parts[0] if len(parts) == 1 else joined(c, w, parts, axis)


ROWS: dict[str, Row] = {
    "reshape": _reshape,
    "permute": _permute,
    "reverse": _reverse,
    "slice": _slice,
    "windows": _windows,
    "broadcast": _broadcast,
    "fill": _broadcast,
    "iota": _iota,
    "size": _size,
    "concat": _concat,
    "stack": _stack,
    "pad": _pad,
    "blocks": lambda c, w, x: x,
}
