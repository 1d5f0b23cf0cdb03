"""Ops that read or write at computed places.

Indices are u32: scalars, or arrays that all have one shape S, with which scalars mix. Reading outside takes the last
element; writing outside writes nothing. Writes happen in ascending order of their place in the indices.

The order of writes rests on numpy's assignment through one-dimensional, contiguous integer indices, which walks them
in order, so that the last write to a place stays; the tests hold numpy to it.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from bittern.ops.arithmetic import fit
from bittern.ops.rules import (
    need,
    need_arithmetic,
    need_tensors,
    need_u32,
    need_value,
    same_shape,
    same_space,
)
from bittern.ops.shape import is_cut_into_blocks, need_size
from bittern.ops.table import Array, Attributes, Site, op
from bittern.types.dims import Dim, dim
from bittern.types.elements import Kind
from bittern.types.faults import ELEMENT_MISMATCH, RANK_UNFIT, SHAPE_MISMATCH, TypeFault
from bittern.types.values import Tensor, Type, text

_WHOLE = slice(None)
_MOST = 0xFFFFFFFF  # the greatest index
_NOWHERE = np.empty(0, np.intp)


# --- rules


def _indexed(x: Tensor, indices: Sequence[Type]) -> tuple[Dim, ...]:
    """Return the common shape S of the indices."""
    tensors = [need_u32(i) for i in indices]
    rank = len(x.shape) - is_cut_into_blocks(x.element)
    if not 1 <= len(tensors) <= rank:
        hint = "see the bytes with `blocks`" if is_cut_into_blocks(x.element) else ""
        raise TypeFault(RANK_UNFIT, f"{len(tensors)} indices", f"1 to {max(rank, 1)} for {text(x)}", hint)
    shaped = [t for t in tensors if t.shape]
    for other in shaped[1:]:
        same_shape(shaped[0], other)
    return shaped[0].shape if shaped else ()


def _take_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    x, *indices = need_tensors(types)
    shape = _indexed(x, indices)
    if any(size.constant == 0 for size in x.shape[: len(indices)]):
        raise TypeFault(SHAPE_MISMATCH, text(x), "at least one element in an axis that is read")
    return Tensor(x.element, (*shape, *x.shape[len(indices) :]), x.space)


def _dynamic_slice_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    x, start = need_tensors(types, 2)
    length = need_size(attributes["length"])
    if len(x.shape) <= is_cut_into_blocks(x.element) or need_u32(start).shape:
        raise TypeFault(RANK_UNFIT, f"{text(x)} from {text(start)}", "an array and one start")
    room = (x.shape[0] - length).constant
    if room is not None and room < 0:
        raise TypeFault(SHAPE_MISMATCH, "a slice of {0}", "at most {1}", dims=(length, x.shape[0]))
    return Tensor(x.element, (length, *x.shape[1:]), x.space)


def _write_rule(types: tuple[Type, ...], rows: bool) -> Tensor:
    """Return the type of x after a write. rows: at least one of the indices is u32[t]; otherwise all are scalars."""
    x, *indices, value = need_tensors(types)
    shape = _indexed(x, indices)
    if len(shape) != rows:
        raise TypeFault(RANK_UNFIT, f"indices of {len(shape)} dimensions", "a row of indices" if rows else "scalars")
    if value.element != x.element:
        raise TypeFault(ELEMENT_MISMATCH, f"`{value.element}`", f"`{x.element}`")
    same_shape(Tensor(x.element, (*shape, *x.shape[len(indices) :])), value)
    return Tensor(x.element, x.shape, same_space((x, value)))


def _update_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    return _write_rule(types, rows=False)


def _scatter_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    return _write_rule(types, rows=True)


def _scatter_add_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    need_arithmetic(need_tensors(types)[0])
    return _write_rule(types, rows=True)


def _lookup_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    table, entry = need_tensors(types, 2)
    need(entry, lambda e: e.kind is Kind.UNSIGNED and e.bits <= 8, "an unsigned code of at most 8 bits")
    bits = entry.element.bits  # 0 of an element that is still open
    if len(table.shape) != 1:
        raise TypeFault(RANK_UNFIT, text(table), "a table of one dimension")
    if bits and table.shape[0] != dim(1 << bits):
        raise TypeFault(
            SHAPE_MISMATCH, "a table of {0} values", f"{1 << bits}: one for each `{entry.element}`", dims=table.shape
        )
    return Tensor(need_value(table).element, entry.shape, table.space)


# --- reading


@op("take", "the elements at the indices; out of range reads the last one", _take_rule)
def _take(site: Site, x: Array, *indices: Array) -> Array:
    lead = site.lead
    for i in indices:
        if i.size != 1 or i.ndim != lead:
            return _gather(x, [_settled(i, lead) for i in indices], lead, max(i.ndim for i in indices))
    sizes = x.shape[lead:]
    places = [min(_number(i), size - 1) for i, size in zip(indices, sizes, strict=False)]
    one: Array = x[(*(_WHOLE,) * lead, *places)]
    return one


@op("dynamic_slice", "length elements of the first axis from a start, clamped so that they fit", _dynamic_slice_rule)
def _dynamic_slice(site: Site, x: Array, start: Array) -> Array:
    lead, length = site.lead, site.attributes["length"]
    start = _settled(start, lead)
    room = x.shape[lead] - length
    if start.size == 1:
        low = min(_number(start), room)
        return x[(*(_WHOLE,) * lead, slice(low, low + length))]
    places = np.add(_below(start, room)[..., None], np.arange(length, dtype=np.uint32))
    return _gather(x, [places], lead, lead + 1)


def _number(index: Array) -> int:
    """Return the one index as a number."""
    return int(_whole(index).item())


def _whole(index: Array) -> Array:
    """Return indices as u32; in ideal evaluation they may come as reals."""
    if index.dtype.kind != "f":
        return index
    return np.fmin(np.fmax(index, 0), _MOST).astype(np.uint32)


def _below(index: Array, last: int) -> Array:
    """Return indices clamped to the last place."""
    return np.minimum(index, min(last, _MOST))


def _settled(index: Array, lead: int) -> Array:
    """Return an index that is the same all over the batch once only, so that what it reads is read once."""
    index = _whole(index)
    if index.size == 1 or all(size == 1 for size in index.shape[:lead]):
        return index
    first = index[(slice(0, 1),) * lead]
    return first if (index == first).all() else index


def _gather(x: Array, indices: Sequence[Array], lead: int, rank: int) -> Array:
    """Return x at settled indices. rank: dimensions of the result without the axes of x that have no index."""
    has_batch = any(size != 1 for size in x.shape[:lead])
    sizes = x.shape[lead:]
    if has_batch and any(size != 1 for i in indices for size in i.shape[:lead]):
        places = [_below(_ranked(i, rank), size - 1) for i, size in zip(indices, sizes, strict=False)]
        each: Array = x[(*_batch_places(x.shape[:lead], rank), *places)]
        return each
    kept = lead if has_batch else 0  # batch axes of x that stay; the indices then have none
    single = [min(_number(i), n - 1) if i.size == 1 else _WHOLE for i, n in zip(indices, sizes, strict=False)]
    whole = (_WHOLE,) * kept
    rest: Array = x[(*whole, *(0,) * (lead - kept), *single)]
    places = [_ranked(i, rank) for i in indices if i.size != 1]
    if kept:
        places = [i.reshape(i.shape[lead:]) for i in places]
    if not places:
        return rest[(*whole, *(None,) * (rank - kept))]
    if len(places) == 1 and rest.flags.c_contiguous:
        return np.take(rest, places[0], kept, mode="clip")
    places = [_below(i, size - 1) for i, size in zip(places, rest.shape[kept:], strict=False)]
    place: list[Any] = [*whole, *places]
    found: Array = rest[tuple(place)]
    return found


def _ranked(index: Array, rank: int) -> Array:
    """Return an index with axes of size 1 for the shape S that it lacks."""
    return index if index.ndim == rank else index.reshape((*index.shape, *(1,) * (rank - index.ndim)))


def _batch_places(front: tuple[int, ...], rank: int) -> list[Array]:
    """Return the indices that pick each element of a batch for itself."""
    return [np.arange(size).reshape(-1, *(1,) * (rank - axis - 1)) for axis, size in enumerate(front)]


@op("lookup", "the table's value for each code; a code of k bits and a table of 2^k values", _lookup_rule)
def _lookup(site: Site, table: Array, entry: Array) -> Array:
    lead = site.lead
    entry = _whole(entry)
    if table.size == table.shape[-1]:
        return np.take(table.reshape(-1), entry, mode="clip")
    batch = _batch_places(table.shape[:lead], entry.ndim)
    found: Array = table[(*batch, _below(entry, table.shape[-1] - 1))]
    return found


# --- writing


@op("update", "the array with one place replaced; out of range writes nothing", _update_rule)
def _update(site: Site, x: Array, *rest: Array) -> Array:
    return update_in_place(site, _own(site.lead, x, rest), *rest)


@op("scatter", "rows written at places, in ascending order: the last write to a place stays", _scatter_rule)
def _scatter(site: Site, x: Array, *rest: Array) -> Array:
    return scatter_in_place(site, _own(site.lead, x, rest), *rest)


@op("scatter_add", "rows added at places, in ascending order; each addition rounds once", _scatter_add_rule)
def _scatter_add(site: Site, x: Array, *rest: Array) -> Array:
    return scatter_add_in_place(site, _own(site.lead, x, rest), *rest)


def update_in_place(site: Site, x: Array, *rest: Array) -> Array:
    """Write one value into x and return it.

    x: [a, ..., rest], whose batch axes have their full size. rest: indices u32, and v: [rest]. Where reals meet an x of
    integers (ideal evaluation), the result is a new array.
    """
    *indices, value = rest
    lead = site.lead
    x = _holding(x, value)
    for i in indices:
        if i.size != 1:
            break
    else:
        place: list[Any] = [_number(i) for i in indices]
        if all(i < size for i, size in zip(place, x.shape[lead:], strict=False)):
            x[(*(_WHOLE,) * lead, *place)] = value
        return x
    target, places, rows = _writes(x, lead, lead, rest)
    target[places] = rows
    return x


def scatter_in_place(site: Site, x: Array, *rest: Array) -> Array:
    """Write rows into x, in ascending order, and return it.

    x: [a, ..., rest], whose batch axes have their full size. rest: indices u32 or u32[t], and v: [t, rest]. Where reals
    meet an x of integers (ideal evaluation), the result is a new array.
    """
    x = _holding(x, rest[-1])
    target, places, rows = _writes(x, site.lead, site.lead + 1, rest)
    target[places] = rows
    return x


def scatter_add_in_place(site: Site, x: Array, *rest: Array) -> Array:
    """Add rows into x, in ascending order, and return it; operands as for `scatter_in_place`."""
    x = _holding(x, rest[-1])
    target, places, rows = _writes(x, site.lead, site.lead + 1, rest)
    np.add.at(target, places, rows)
    if x.dtype.kind != "f":
        target[places] = fit(site.result.element, target[places])
    return x


def _own(lead: int, x: Array, rest: Sequence[Array]) -> Array:
    """Return a copy of x whose batch axes have their full size."""
    if not lead:
        return np.array(x, order="C")
    front = np.broadcast_shapes(x.shape[:lead], *[operand.shape[:lead] for operand in rest])
    return np.array(np.broadcast_to(x, front + x.shape[lead:]), order="C")


def _holding(x: Array, value: Array) -> Array:
    """Return x as an array that can hold the values."""
    return x.astype(value.dtype) if value.dtype.kind == "f" and x.dtype.kind != "f" else x


def _writes(x: Array, lead: int, rank: int, rest: Sequence[Array]) -> tuple[Array, tuple[Array, ...], Array]:
    """Return what to write: a view of x, one-dimensional places in its first axes, and a row for each, in order.

    rank: the batch axes, and one more if the indices are rows. Places outside are left out.
    """
    *indices, rows = rest
    places = [_whole(i) for i in indices]
    if rank > lead and x.shape[:lead] == (1,) * lead:
        x, rows = x[(0,) * lead], rows[(0,) * lead]
        places = [i.reshape(i.shape[lead:]) for i in places]
        if any(not i.ndim and i >= size for i, size in zip(places, x.shape, strict=False)):
            return x, (_NOWHERE,) * len(places), rows[:0]
        single: list[Any] = [_WHOLE if i.ndim else int(i) for i in places]
        x = x[tuple(single)]
        places = [i for i in places if i.ndim]
    else:
        shape = np.broadcast_shapes(x.shape[:lead] + (1,) * (rank - lead), rows.shape[:rank])
        places = [*_batch_places(x.shape[:lead], rank), *[_ranked(i, rank) for i in places]]
        places = [np.broadcast_to(i, shape).reshape(-1) for i in places]
        own = rows.shape[rank:]
        rows = np.broadcast_to(rows, shape + own).reshape(prod(shape), *own)
    inside = np.less(places[0], min(x.shape[0], _MOST))
    for i, size in zip(places[1:], x.shape[1:], strict=False):
        inside &= np.less(i, min(size, _MOST))
    if not inside.all():
        places, rows = [i[inside] for i in places], rows[inside]
    return x, tuple(np.ascontiguousarray(i, np.intp) for i in places), rows
