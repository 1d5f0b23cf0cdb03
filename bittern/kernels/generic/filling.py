"""Values written to memory: loops over the axes, the last one in vectors where every step works lane by lane."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from bittern.bitops.handle import Handle
from bittern.kernels.generic.emitter import Emitter, NotLanesError, TooWideError
from bittern.kernels.generic.places import ZERO, Place, Places, every, lane, unravel, variable
from bittern.kernels.generic.scalars import stored
from bittern.kernels.generic.views import Computed, Memory, Promoted, Remapped, View, memory, store

_Axis: TypeAlias = Callable[[Place], Places]  # the place along an axis -> the places of an element

_UNROLLED = 64  # steps of a small array that is written without a loop
_FEWEST = 4  # lanes of a vector


def fill(e: Emitter, target: View, view: View) -> None:
    """Write all elements of a view to where the target is."""
    assert target.shape == view.shape, (target.shape, view.shape)
    if view.size == 0 or is_there(target, view):
        return
    if e.lanes:
        raise NotLanesError
    if isinstance(view, Computed) and view.fill is not None:
        view.fill(target)
        return
    if isinstance(view, Remapped) and view.back is not None and view.base is not None and _has_fill(view.base):
        base = view.base
        fill(e, Remapped(base.element, base.shape, target.reads, 0, 8, 0, target, view.back), base)
        return
    if isinstance(view, Promoted):
        _fill_promoted(e, target, view)
        return
    _fill_elements(e, target, view)


def _has_fill(view: View) -> bool:
    if isinstance(view, Remapped):
        return view.back is not None and view.base is not None and _has_fill(view.base)
    return isinstance(view, Computed) and view.fill is not None


def is_there(target: View, view: View) -> bool:
    """Whether the view is what the target already holds."""
    if not isinstance(target, Memory) or not isinstance(view, Memory):
        return False
    return target.name == view.name and target.offset == view.offset and target.shape == view.shape


def materialised(e: Emitter, view: View) -> Memory:
    """Return the view in memory of its own."""
    target = memory(view.element, view.shape, e.scratch(stored(view.element), max(view.size, 1)), owned=True)
    fill(e, target, view)
    return target


@contextmanager
def over(e: Emitter, count: int, apart: bool = False) -> Iterator[Place]:
    """Open a loop over 0..count; its index is a place. A single round needs no loop.

    apart: its rounds write different places, and read nothing that another one writes.
    """
    if count == 1:
        yield ZERO
        return
    with e.loop(0, count) as loop:
        (index,) = loop
        yield variable(index.value, 0, count - 1)
    if apart:
        e.apart.append(e.open[-1].steps[-1])


# --- values in registers


def _fill_promoted(e: Emitter, target: View, view: Promoted) -> None:
    places, handles = list(every(view.shape)), list(view.handles)
    k = 0
    while k < len(handles):
        size = next((n for n in (8, 4, 2) if _is_word(e, target, places[k : k + n], handles[k : k + n], n)), 1)
        x = handles[k] if size == 1 else _word(e, handles[k : k + size])
        assert x is not None
        store(e, target, places[k], x)
        k += size


def _is_word(e: Emitter, target: View, places: Sequence[Places], handles: Sequence[Handle], size: int) -> bool:
    if len(handles) < size or _word(e, handles) is None:
        return False
    found = [target.locate(p) for p in places]
    first = found[0]
    return first is not None and all(f is not None and f[1] == first[1] + k for k, f in enumerate(found))


def _word(e: Emitter, handles: Sequence[Handle]) -> Handle | None:
    """Return the word whose bytes these are, low byte first; for bytes in the opposite order the swapped word."""
    parts = [_byte_of(e, x) for x in handles]
    whole = parts[0]
    if whole is None or whole[0].type.bits != 8 * len(handles):
        return None
    orders = [part[1] for part in parts if part is not None and part[0].value is whole[0].value]
    ascending = list(range(len(handles)))
    if orders == ascending:
        return whole[0]
    return whole[0].unary("reverse_bytes") if orders == ascending[::-1] else None


def _byte_of(e: Emitter, x: Handle) -> tuple[Handle, int] | None:
    """Return the unsigned word of which a u8 is a byte, and which byte."""
    step = e.makers.get(x.value)
    if step is None or step.kind != "wrap" or str(x.type) != "u8" or step.operands[0].type.is_signed:
        return None
    word, count = step.operands[0], 0
    inner = e.makers.get(word)
    if inner is not None and inner.kind == "shr" and (shift := e.constant(inner.operands[1])) is not None:
        word, count = inner.operands[0], shift
    return (Handle(e, word), count // 8) if count % 8 == 0 and word.type.element.name != "index" else None


# --- element by element


def _fill_elements(e: Emitter, target: View, view: View) -> None:
    shape = view.shape
    if not shape or (view.size <= 8 and view.size * max(view.cost, 1) <= _UNROLLED):
        done = _in_vectors(e, target, view, lambda place: (place,), view.size) or 0 if len(shape) == 1 else 0
        for places in list(every(shape))[done:]:
            store(e, target, places, view.at(e, places))
        return
    if len(shape) > 1 and shape[-1] < most_lanes(view) and _fill_flat(e, target, view):
        return
    _fill_nested(e, target, view, ())


def _fill_flat(e: Emitter, target: View, view: View) -> bool:
    """Try to write all axes as one, in vectors."""

    def places_of(place: Place) -> Places:
        return unravel(place, view.shape)

    done = _in_vectors(e, target, view, places_of, view.size)
    if done is not None:
        _one_by_one(e, target, view, places_of, done, view.size)
    return done is not None


def _fill_nested(e: Emitter, target: View, view: View, outer: Places) -> None:
    size = view.shape[len(outer)]
    if len(outer) < len(view.shape) - 1:
        with over(e, size, apart=True) as place:
            _fill_nested(e, target, view, (*outer, place))
        return

    def places_of(place: Place) -> Places:
        return (*outer, place)

    _one_by_one(e, target, view, places_of, _in_vectors(e, target, view, places_of, size) or 0, size)


def _one_by_one(e: Emitter, target: View, view: View, places_of: _Axis, low: int, high: int) -> None:
    if low < high:
        with over(e, high - low, apart=True) as place:
            places = places_of(place + low)
            store(e, target, places, view.at(e, places))


def most_lanes(view: View) -> int:
    """Return how many lanes a vector of the widest numbers in a view has."""
    return 512 // max(view.width, 8)


def _in_vectors(e: Emitter, target: View, view: View, places_of: _Axis, size: int) -> int | None:
    """Write the first elements of an axis in vectors; return how many, None if that is not possible."""
    count = min(most_lanes(view), 1 << (size.bit_length() - 1))
    while count >= _FEWEST:
        mark = e.mark()
        try:
            e.lanes = count
            with over(e, size // count, apart=True) as place:
                places = places_of(place * count + lane(count))
                store(e, target, places, view.at(e, places))
            e.lanes = 0
            return size // count * count
        except TooWideError:
            e.back(mark)
            count //= 2
        except NotLanesError:
            e.back(mark)
            return None
    return None
