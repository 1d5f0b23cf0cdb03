"""Views: what a value of the graph is while its kernel is made.

A view gives the element at any places, computed where it is asked for, so that whatever only rearranges or works
element by element costs no memory. Shapes are those of stored arrays (a format's last axes are blocks and bytes). Where
places have a lane, the element is a vector, or a scalar if it is the same in all lanes.

- `Memory`: a row-major part of a buffer.
- `Constant`: known numbers; in memory only if they are asked for at places that are not known.
- `Promoted`: few values in registers, and every scalar.
- `Remapped`: another view at other places: reshape, permute, slice, windows, ...
- `Computed`: a function of places.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bittern.bitops.builder import View as Buffer
from bittern.bitops.handle import Handle
from bittern.bitops.lanes import WIDTH, lanes
from bittern.kernels.generic.conversions import constant
from bittern.kernels.generic.emitter import Emitter, NotLanesError, TooWideError
from bittern.kernels.generic.places import ZERO, Place, Places, every, ravel
from bittern.kernels.generic.scalars import register, stored
from bittern.types.elements import Element, Kind

Shape: TypeAlias = tuple[int, ...]
MOST = 64  # elements of an array that may be kept in registers


class NeedsMemoryError(Exception):
    """An array in registers is asked for at a place that is not known."""

    def __init__(self, array: "Promoted") -> None:
        super().__init__(array.shape)
        self.array = array


@dataclass(eq=False)
class View:
    """See the module.

    reads: buffers that it depends on. cost: steps to compute one element. width: bits of its widest number. depth: how
    many views are computed through.
    """

    element: Element
    shape: Shape
    reads: frozenset[str] = frozenset()
    cost: int = 0
    width: int = 8
    depth: int = 0

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def at(self, e: Emitter, places: Places) -> Handle:
        """Make the element at places."""
        raise NotImplementedError

    def locate(self, places: Places) -> "tuple[Buffer, Place] | None":
        """Return where in memory the element is, None if it is computed."""
        return None


@dataclass(eq=False)
class Memory(View):
    """Elements of a buffer, row-major from an offset. owned: the buffer holds this value alone, and all of it."""

    buffer: "Buffer | None" = None
    offset: Place = ZERO
    owned: bool = False

    @property
    def name(self) -> str:
        """The name of the buffer."""
        assert self.buffer is not None
        return self.buffer.buffer.name

    def locate(self, places: Places) -> "tuple[Buffer, Place] | None":
        """Return where the element is."""
        assert self.buffer is not None and len(places) == len(self.shape), (self.shape, places)
        return self.buffer, self.offset + ravel(places, self.shape)

    def at(self, e: Emitter, places: Places) -> Handle:
        """Load the element."""
        assert self.buffer is not None
        _, place = self.locate(places) or (None, ZERO)
        return load(e, self.element, self.buffer, place)


def memory(element: Element, shape: Shape, buffer: Buffer, offset: Place = ZERO, owned: bool = False) -> Memory:
    """Return a view of memory."""
    bits = lanes(stored(element)).bits
    return Memory(element, shape, frozenset((buffer.buffer.name,)), 1, bits, 0, buffer, offset, owned)


def load(e: Emitter, element: Element, buffer: Buffer, place: Place) -> Handle:
    """Load the element at a place of a buffer, or one for each lane."""
    factor = place.factor_of_lane() if e.lanes else 0
    if factor not in (0, 1):
        raise NotLanesError
    held = "u8" if element.kind is Kind.BIT else register(element)
    of = lanes(held) if not factor else vector(e, held)
    x = buffer.load(of, e.index_of(place.without_lane()))
    return x.ne(0) if element.kind is Kind.BIT else x


def vector(e: Emitter, held: str) -> Any:
    """Return the type of so many lanes as are made now."""
    if lanes(held).bits * e.lanes > WIDTH:
        raise TooWideError
    return lanes(held).of(e.lanes)


def store(e: Emitter, target: View, places: Places, x: Handle) -> None:
    """Store an element, or one for each lane."""
    found = target.locate(places)
    assert found is not None
    buffer, place = found
    factor = place.factor_of_lane() if e.lanes else 0
    if factor not in (0, 1) or (not factor and not x.type.is_scalar):
        raise NotLanesError
    if factor and x.type.is_scalar:
        x = e.spread(x, e.lanes)
    if x.type.is_mask:
        x = x.convert("u8")
    buffer.store(e.index_of(place.without_lane()), x)


@dataclass(eq=False)
class Constant(View):
    """Known numbers. array: in the storage dtype. declare: makes the buffer that holds them."""

    array: npt.NDArray[Any] = field(default_factory=lambda: np.zeros(0))
    declare: "Callable[[Constant], Buffer] | None" = None

    def at(self, e: Emitter, places: Places) -> Handle:
        """Make the number, or load it."""
        known = [p.constant for p in places]
        if None not in known:
            return constant(e, self.element, self.array[tuple(known)])
        if self.size <= MOST and self._is_uniform():
            return constant(e, self.element, self.array.reshape(-1)[0])
        if all(p.without_lane().constant is not None and p.factor_of_lane() is not None for p in places):
            return self._by_lane(e, places)
        found = self.locate(places)
        assert found is not None
        return load(e, self.element, *found)

    def _is_uniform(self) -> bool:
        flat = self.array.reshape(-1)
        return len(flat) > 0 and flat.tobytes() == flat[:1].tobytes() * len(flat)

    def _by_lane(self, e: Emitter, places: Places) -> Handle:
        """Return the numbers of all lanes as one constant."""
        if self.element.kind is Kind.BIT:
            raise NotLanesError
        steps = np.arange(e.lanes)
        values = self.array[tuple(p.without_lane().number + steps * (p.factor_of_lane() or 0) for p in places)]
        words = np.ascontiguousarray(values).view(f"u{self.array.itemsize}")
        return e.make("const", type=vector(e, register(self.element)), bits=tuple(int(word) for word in words))

    def locate(self, places: Places) -> "tuple[Buffer, Place] | None":
        """Return where the number is, once it is in memory."""
        if all(p.constant is not None for p in places):
            return None
        assert self.declare is not None
        return self.declare(self), ravel(places, self.shape)


@dataclass(eq=False)
class Promoted(View):
    """Values in registers, row-major. level, born: the block and the moment of its making. carry: of which loop."""

    handles: tuple[Handle, ...] = ()
    level: int = 0
    born: int = 0
    carry: object = None

    def at(self, e: Emitter, places: Places) -> Handle:
        """Return the value; NeedsMemoryError if the places are not known and memory is to be had further out."""
        place = ravel(places, self.shape)
        if place.constant is not None:
            return self.handles[place.constant]
        found = self.in_memory(e)
        if found is None and (lane := self._by_lane(e, place)) is not None:
            return lane
        if found is None:
            if e.lanes:
                raise NotLanesError
            if self.carry is not None or any(level == self.level and self.born <= at for level, at in e.guards):
                raise NeedsMemoryError(self)
            found = spill(e, self)
        return found.at(e, places)

    def in_memory(self, e: Emitter) -> "Memory | None":
        """Return its copy in memory, if there is one."""
        found = e.recall(("memory", self))
        return found if isinstance(found, Memory) else None

    def _by_lane(self, e: Emitter, place: Place) -> Handle | None:
        """Return consecutive values as a vector."""
        if not e.lanes or place.factor_of_lane() != 1 or place.without_lane().constant is None:
            return None
        first = place.without_lane().number
        parts = self.handles[first : first + e.lanes]
        if len(parts) < e.lanes or parts[0].type.is_mask or any(not p.type.is_scalar for p in parts):
            return None
        vector(e, parts[0].type.element.name)
        return e.collect(*parts)


def promoted(e: Emitter, element: Element, shape: Shape, handles: Sequence[Handle], carry: object = None) -> Promoted:
    """Return a view of values in registers."""
    assert len(handles) == prod(shape), (shape, len(handles))
    width = max([h.type.element.bits for h in handles], default=8)
    e.clock += 1
    return Promoted(element, shape, frozenset(), 0, width, 0, tuple(handles), len(e.open), e.clock, carry)


def spill(e: Emitter, array: Promoted) -> Memory:
    """Put values in registers into memory too, here."""
    if any(not h.type.is_scalar for h in array.handles):
        raise NotLanesError
    found = memory(array.element, array.shape, e.scratch(stored(array.element), array.size))
    for places, x in zip(every(array.shape), array.handles, strict=True):
        store(e, found, places, x)
    e.remember(("memory", array), found)
    return found


@dataclass(eq=False)
class Remapped(View):
    """Another view at other places."""

    base: View | None = None
    to: Callable[[Places], Places] = lambda places: places
    back: "Callable[[Places], Places] | None" = None

    def at(self, e: Emitter, places: Places) -> Handle:
        """Make the element of the base."""
        assert self.base is not None
        return self.base.at(e, self.to(places))

    def locate(self, places: Places) -> "tuple[Buffer, Place] | None":
        """Return where the element of the base is."""
        assert self.base is not None
        return self.base.locate(self.to(places))


def remapped(
    e: Emitter,
    base: View,
    shape: Shape,
    to: Callable[[Places], Places],
    back: "Callable[[Places], Places] | None" = None,
) -> View:
    """Return a view at other places; few values in registers stay there, few constants constants.

    to: places of the result -> places of the base. back: the other way, where each element occurs once.
    """
    if isinstance(base, Promoted) and prod(shape) <= MOST:
        return promoted(e, base.element, shape, [base.at(e, to(p)) for p in every(shape)])
    if isinstance(base, Constant) and prod(shape) <= MOST:
        picks = [to(places) for places in every(shape)]
        if any(p.terms for places in picks for p in places):
            return Remapped(base.element, shape, base.reads, base.cost, base.width, base.depth, base, to, back)
        values = [base.array[tuple(p.number for p in places)] for places in picks]
        array = np.array(values, base.array.dtype).reshape(shape)
        return Constant(base.element, shape, frozenset(), 0, base.width, 0, array, base.declare)
    return Remapped(base.element, shape, base.reads, base.cost, base.width, base.depth, base, to, back)


@dataclass(eq=False)
class Computed(View):
    """A function of places. fill: writes all of it to memory, where that is not element by element."""

    make: "Callable[[Places], Handle] | None" = None
    fill: "Callable[[View], None] | None" = None

    def at(self, e: Emitter, places: Places) -> Handle:
        """Make the element, once for each place."""
        key = (self, places, e.lanes, tuple(e.version(name) for name in sorted(self.reads)))
        known = e.recall(key)
        if known is None:
            assert self.make is not None
            known = e.remember(key, self.make(places))
        found: Handle = known
        return found


def computed(
    element: Element,
    shape: Shape,
    inputs: Sequence[View],
    cost: int,
    make: "Callable[[Places], Handle]",
    fill: "Callable[[View], None] | None" = None,
) -> Computed:
    """Return a view of computed elements. inputs: what they depend on. cost: of one, all inputs included."""
    reads = frozenset().union(*(v.reads for v in inputs))
    own = 8 if element.kind is Kind.BIT else lanes(register(element)).bits
    width = max([own, *(v.width for v in inputs)])
    return Computed(element, shape, reads, cost, width, 1 + max([v.depth for v in inputs], default=0), make, fill)
