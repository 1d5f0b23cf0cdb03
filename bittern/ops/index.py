"""Ops that read or write at computed places.

Indices are u32: scalars, or arrays that all have one shape S, with which scalars mix. Reading outside takes the last
element; writing outside writes nothing.
"""

from collections.abc import Sequence

import numpy as np

from bittern.ops.rules import need, need_tensors, need_u32, same_shape
from bittern.ops.table import Array, Attributes, Site, op
from bittern.types.dims import Dim, dim
from bittern.types.elements import Kind
from bittern.types.faults import ELEMENT_MISMATCH, RANK_UNFIT, SHAPE_MISMATCH, TypeFault
from bittern.types.values import Tensor, Type, text


def _indexed(x: Tensor, indices: Sequence[Type]) -> tuple[Dim, ...]:
    """Return the common shape S of the indices."""
    tensors = [need_u32(i) for i in indices]
    if not tensors or len(tensors) > len(x.shape):
        raise TypeFault(RANK_UNFIT, f"{len(tensors)} indices", f"1 to {len(x.shape)} for {text(x)}")
    shaped = [t for t in tensors if t.shape]
    for other in shaped[1:]:
        same_shape(shaped[0], other)
    return shaped[0].shape if shaped else ()


def _take_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    x, *indices = need_tensors(types)
    shape = _indexed(x, indices)
    rest = x.shape[len(indices) :]
    if x.element.is_format and not rest:
        raise TypeFault(RANK_UNFIT, f"an index into a row of `{x.element}`", "whole rows", "see the bytes with `blocks`")
    return Tensor(x.element, (*shape, *rest), x.space)


@op("take", "the elements at the indices; out of range reads the last one", _take_rule)
def take(site: Site, x: Array, *indices: Array) -> Array:
    """x: [a, ..., rest], indices: [S] or scalars -> [S, rest]."""
    lead = site.lead
    if lead == 0 and len(indices) == 1:
        last = x.shape[0] - 1
        i = indices[0]
        return x[min(int(i), last)] if i.ndim == 0 else x[np.minimum(i, last)]
    rank = max(i.ndim for i in indices)
    own = rank - lead
    places = []
    for axis, i in enumerate(indices):
        clamped = np.minimum(i, x.shape[lead + axis] - 1)
        places.append(clamped if i.ndim == rank else clamped.reshape(i.shape + (1,) * (rank - i.ndim)))
    batch = tuple(_batch_index(x.shape[axis], axis, rank) for axis in range(lead))
    if all(size == 1 for size in x.shape[:lead]):
        flat = x.reshape(x.shape[lead:])
        if all(place.size == 1 for place in places) and own == 0:
            picked = flat[tuple(int(place.reshape(())) for place in places)]
            return picked.reshape((1,) * lead + picked.shape)
        return flat[tuple(places)]
    return x[(*batch, *places)]


def _batch_index(size: int, axis: int, rank: int) -> Array:
    return np.arange(size).reshape((1,) * axis + (size,) + (1,) * (rank - axis - 1))


def _dynamic_slice_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    x, start = need_tensors(types, 2)
    need_u32(start)
    length = dim(attributes["length"])
    if not x.shape or start.shape:
        raise TypeFault(RANK_UNFIT, f"{text(x)} from {text(start)}", "an array and one start")
    room = (x.shape[0] - length).constant
    if room is not None and room < 0:
        raise TypeFault(SHAPE_MISMATCH, "a slice of {0}", "at most {1}", dims=(length, x.shape[0]))
    return Tensor(x.element, (length, *x.shape[1:]), x.space)


@op("dynamic_slice", "length elements of the first axis from a start, clamped so that they fit", _dynamic_slice_rule)
def dynamic_slice(site: Site, x: Array, start: Array) -> Array:
    """x: [n, ...], start: u32 -> [length, ...]."""
    lead, length = site.lead, site.attributes["length"]
    first = np.minimum(start, x.shape[lead] - length).astype(np.int64)
    if first.size == 1:
        low = int(first.reshape(()))
        return x[(*(slice(None),) * lead, slice(low, low + length))]
    places = first[..., None] + np.arange(length)
    batch = tuple(_batch_index(x.shape[axis], axis, lead + 1) for axis in range(lead))
    return x[(*batch, places)]


# --- writing


def _write_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    x, *indices, value = need_tensors(types)
    shape = _indexed(x, indices)
    wanted = Tensor(x.element, (*shape, *x.shape[len(indices) :]))
    if value.element != x.element:
        raise TypeFault(ELEMENT_MISMATCH, f"`{value.element}`", f"`{x.element}`")
    same_shape(wanted, value)
    return x


@op("update", "the array with one place replaced; out of range writes nothing", _write_rule)
def update(site: Site, x: Array, *rest: Array) -> Array:
    """x: [a, ..., rest], indices: u32 scalars, v: [rest]."""
    return update_in_place(site, _own_copy(site, x, rest), *rest)


def update_in_place(site: Site, x: Array, *rest: Array) -> Array:
    """Write into x and return it. x's batch axes must have their full size."""
    *indices, value = rest
    lead = site.lead
    if all(i.size == 1 for i in indices):
        places = [int(i.reshape(())) for i in indices]
        if all(p < x.shape[lead + axis] for axis, p in enumerate(places)):
            x[(*(slice(None),) * lead, *places)] = value
        return x
    front = x.shape[:lead]
    inside = np.ones(front, bool)
    full = []
    for axis, i in enumerate(indices):
        i = np.broadcast_to(i, front)
        inside &= i < x.shape[lead + axis]
        full.append(i)
    where = np.nonzero(inside)
    spread = np.broadcast_to(value, front + value.shape[lead:])
    x[(*where, *(i[where] for i in full))] = spread[where]
    return x


@op("scatter", "rows written at places, in ascending order: the last write to a place stays", _write_rule)
def scatter(site: Site, x: Array, *rest: Array) -> Array:
    """x: [a, ..., rest], indices: u32 scalars or [t], v: [t, rest]."""
    return scatter_in_place(site, _own_copy(site, x, rest), *rest)


def scatter_in_place(site: Site, x: Array, *rest: Array) -> Array:
    """Write rows into x and return it. x's batch axes must have their full size."""
    for places, rows in _rows(site, x, rest):
        x[places] = rows
    return x


@op("scatter_add", "rows added at places, in ascending order; each addition rounds once", _write_rule)
def scatter_add(site: Site, x: Array, *rest: Array) -> Array:
    """x: [a, ..., rest], indices: u32 scalars or [t], v: [t, rest]."""
    result = _own_copy(site, x, rest)
    element = site.result.element
    for places, rows in _rows(site, result, rest):
        sums = result[places] + rows
        result[places] = _wrap(sums, element.bits, element.kind is Kind.SIGNED) if _is_narrow(site) else sums
    return result


def _is_narrow(site: Site) -> bool:
    element = site.result.element
    return element.is_integer and element.bits < 8


def _wrap(values: Array, bits: int, is_signed: bool) -> Array:
    low = values & ((1 << bits) - 1)
    return np.where(low >> (bits - 1), low - (1 << bits), low).astype(values.dtype) if is_signed else low


def _rows(site: Site, x: Array, rest: Sequence[Array]) -> list[tuple[tuple[object, ...], Array]]:
    """Return the writes in order: each a place in x and the values for it; those outside are left out."""
    *indices, value = rest
    lead = site.lead
    count = value.shape[lead]
    front = x.shape[:lead]
    writes: list[tuple[tuple[object, ...], Array]] = []
    if all(size == 1 for i in indices for size in i.shape[:lead]):
        columns = [np.broadcast_to(i.reshape(i.shape[lead:]), (count,)) for i in indices]
        for row in range(count):
            places = [int(column[row]) for column in columns]
            if all(p < x.shape[lead + axis] for axis, p in enumerate(places)):
                before = (slice(None),) * lead
                writes.append(((*before, *places), value[(*before, row)]))
        return writes
    full = [np.broadcast_to(i if i.ndim > lead else i[..., None], (*front, count)) for i in indices]
    spread = np.broadcast_to(value, front + value.shape[lead:])
    for row in range(count):
        columns = [i[..., row] for i in full]
        inside = np.ones(front, bool)
        for axis, column in enumerate(columns):
            inside &= column < x.shape[lead + axis]
        where = np.nonzero(inside)
        writes.append(((*where, *(c[where] for c in columns)), spread[(*(slice(None),) * lead, row)][where]))
    return writes


def _own_copy(site: Site, x: Array, rest: Sequence[Array]) -> Array:
    lead = site.lead
    front = np.broadcast_shapes(x.shape[:lead], *(a.shape[:lead] for a in rest))
    return np.array(np.broadcast_to(x, front + x.shape[lead:]))


def _lookup_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    table, entry = need_tensors(types, 2)
    need(entry, lambda e: e.kind in (Kind.UNSIGNED, Kind.OPEN) and e.bits <= 8, "an unsigned code of at most 8 bits")
    bits = entry.element.bits
    if len(table.shape) != 1 or (bits and table.shape[0] != dim(1 << bits)):
        raise TypeFault(SHAPE_MISMATCH, text(table), f"a table of {1 << bits} values for codes of {bits} bits")
    return Tensor(table.element, entry.shape, table.space)


@op("lookup", "the table's value for each code; a code of k bits and a table of 2^k values", _lookup_rule)
def lookup(site: Site, table: Array, entry: Array) -> Array:
    """table: [2^k], code: any shape -> the code's shape."""
    lead = site.lead
    if all(size == 1 for size in table.shape[:lead]):
        return table.reshape(-1)[entry]
    batch = tuple(_batch_index(table.shape[axis], axis, entry.ndim) for axis in range(lead))
    return table[(*batch, entry)]
