"""Ops that read or write at computed places.

Reading outside takes the last element; writing outside writes nothing, so a write is guarded by what is not known to be
inside. Writes happen in place where the context says that nothing else reads the memory, else in a copy.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import prod

from bittern.bitops.handle import Handle
from bittern.kernels.generic.context import Context, Site
from bittern.kernels.generic.filling import fill, materialised, over
from bittern.kernels.generic.places import Place, Places, every, number, ravel
from bittern.kernels.generic.scalars import fit
from bittern.kernels.generic.views import MOST, Memory, Promoted, Remapped, View, computed, memory, promoted, remapped

_CHOICES = 4  # elements in registers that are written at a computed place by choosing


def index_at(c: Context, view: View, places: Places, size: int) -> Place:
    """Return an index as a place inside of an axis."""
    return c.e.place_of(view.at(c.e, places if view.shape else ()), size - 1)


def _take(c: Context, w: Site, x: View, *indices: View) -> View:
    rank = max(len(i.shape) for i in indices)

    def to(p: Places) -> Places:
        own = p[:rank]
        return (*(index_at(c, i, own, size) for i, size in zip(indices, x.shape, strict=False)), *p[rank:])

    return picked(c, w, x, indices, to)


def picked(c: Context, w: Site, x: View, indices: Sequence[View], to: Callable[[Places], Places]) -> View:
    """Return elements of x at places that depend on the indices."""
    e = c.e
    if isinstance(x, Promoted) and prod(w.shape) <= MOST:
        return promoted(e, w.result, w.shape, [x.at(e, to(p)) for p in every(w.shape)])
    if not any(i.shape for i in indices):
        return part_of(c, x, to(tuple(number(0) for _ in w.shape))[: len(x.shape) - len(w.shape)])
    cost = 3 + x.cost + sum(i.cost for i in indices)
    return computed(w.result, w.shape, (x, *indices), cost, lambda p: x.at(e, to(p)))


def part_of(c: Context, x: View, front: Places) -> View:
    """Return what is at places of the first axes."""
    shape = x.shape[len(front) :]
    if isinstance(x, Memory):
        assert x.buffer is not None
        offset = x.offset + ravel(front, x.shape[: len(front)]) * prod(shape)
        return memory(x.element, shape, x.buffer, offset)
    return remapped(c.e, x, shape, lambda p: (*front, *p))


def _dynamic_slice(c: Context, w: Site, x: View, start: View) -> View:
    length = w.attributes["length"]
    low = index_at(c, start, (), x.shape[0] - length + 1)
    if isinstance(x, Memory):
        assert x.buffer is not None
        return memory(x.element, w.shape, x.buffer, x.offset + low * prod(x.shape[1:]))
    return remapped(c.e, x, w.shape, lambda p: (p[0] + low, *p[1:]))


def _lookup(c: Context, w: Site, table: View, codes: View) -> View:
    def to(p: Places) -> Places:
        return (index_at(c, codes, p, table.shape[0]),)

    if not w.shape:
        return picked(c, w, table, (codes,), to)
    return computed(w.result, w.shape, (table, codes), 3 + table.cost + codes.cost, lambda p: table.at(c.e, to(p)))


# --- writing


def _inside(c: Context, stack: ExitStack, indices: Sequence[Place], shape: Sequence[int]) -> bool:
    """Do what follows only if all indices are inside; return False if they never are."""
    if any(place.low >= size for place, size in zip(indices, shape, strict=False)):
        return False
    truth: Handle | None = None
    for place, size in zip(indices, shape, strict=False):
        if place.high >= size:
            within = c.e.index_of(place) < size
            truth = within if truth is None else truth & within
    if truth is not None:
        stack.enter_context(c.e.when(truth))
    return True


def _update(c: Context, w: Site, x: View, *rest: View) -> View:
    *indices, value = rest
    found = [c.e.place_of(i.at(c.e, ())) for i in indices]
    if isinstance(x, Promoted):
        made = _in_registers(c, x, found, value)
        if made is not None:
            return made
    if isinstance(x, Promoted) and c.e.recall(("memory", x)) is None:
        x.at(c.e, (*found, *(number(0) for _ in x.shape[len(found) :])))  # asks for memory
    own = c.own(x, (value,))
    if own.name in value.reads:
        value = materialised(c.e, value)
    write(c, own, found, value)
    return own


def write(c: Context, own: Memory, found: Sequence[Place], value: View) -> None:
    """Write a value at indices if they are inside."""
    with ExitStack() as stack:
        if _inside(c, stack, found, own.shape):
            fill(c.e, sub_target(own, found), value)


def sub_target(own: View, front: Sequence[Place]) -> View:
    """Return the part of a target at places of its first axes."""
    shape = own.shape[len(front) :]
    return Remapped(own.element, shape, own.reads, 1, own.width, 0, own, lambda p: (*front, *p))


def _in_registers(c: Context, x: Promoted, found: Sequence[Place], value: View) -> View | None:
    """Return the array with a place replaced, in registers; None if the place is not known."""
    e = c.e
    inner = list(every(x.shape[len(found) :]))
    if all(p.constant is not None for p in found):
        if any(p.number >= size for p, size in zip(found, x.shape, strict=False)):
            return x
        handles = list(x.handles)
        for p in inner:
            handles[ravel((*found, *p), x.shape).number] = value.at(e, p)
        return promoted(e, x.element, x.shape, handles)
    if len(found) != 1 or x.shape[0] > _CHOICES or len(inner) != 1:
        return None
    index, new = e.index_of(found[0]), value.at(e, inner[0])
    if new.type.is_mask:
        return None
    return promoted(e, x.element, x.shape, [e.choose(index.eq(k), new, old) for k, old in enumerate(x.handles)])


def _scatter(c: Context, w: Site, x: View, *rest: View) -> View:
    return _scattered(c, w, x, rest, add=False)


def _scatter_add(c: Context, w: Site, x: View, *rest: View) -> View:
    return _scattered(c, w, x, rest, add=True)


def _scattered(c: Context, w: Site, x: View, rest: Sequence[View], add: bool) -> View:
    own = c.own(x, rest)
    indices, value = [_apart(c, own, v) for v in rest[:-1]], _apart(c, own, rest[-1])
    if not value.shape[0]:
        return own
    with over(c.e, value.shape[0]) as row:
        found = [c.e.place_of(i.at(c.e, (row,) if i.shape else ())) for i in indices]
        one = part_of(c, value, (row,))
        with ExitStack() as stack:
            if _inside(c, stack, found, own.shape):
                target = sub_target(own, found)
                fill(c.e, target, _added(c, w, target, one) if add else one)
    return own


def _apart(c: Context, own: Memory, view: View) -> View:
    """Return a view that does not depend on the memory that is written."""
    return materialised(c.e, view) if own.name in view.reads else view


def _added(c: Context, w: Site, target: View, one: View) -> View:
    e = c.e

    def make(p: Places) -> Handle:
        return fit(e, w.result, e.apply("add", target.at(e, p), one.at(e, p)))

    return computed(w.result, one.shape, (target, one), 1 + one.cost, make)


UPDATES: dict[str, Callable[..., View]] = {"update": _update, "scatter": _scatter, "scatter_add": _scatter_add}
ROWS: dict[str, Callable[..., View]] = {"take": _take, "dynamic_slice": _dynamic_slice, "lookup": _lookup}
