"""Places: index arithmetic that knows the range of every index.

A place is a sum of atoms times whole numbers. Atoms are variables (a loop's index, a number that was computed, the lane
of a vector) and quotients and remainders of places by a constant. All bounds are known numbers, so that a reshape of a
loop's index divides out: `(32 b + j) / 32 = b` where j < 32. What is divided is at least 0.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import TypeAlias

from bittern.bitops.kernel import Value


@dataclass(frozen=True)
class Variable:
    """A number that is known when the kernel runs, from low to high. value: None for the lane of a vector."""

    value: Value | None
    low: int
    high: int

    @cached_property
    def key(self) -> tuple[object, ...]:
        """What orders atoms."""
        return (0, -1 if self.value is None else self.value.number, self.low, self.high)


@dataclass(frozen=True)
class Part:
    """The quotient (`/`) or the remainder (`%`) of a place by a number."""

    kind: str
    top: "Place"
    bottom: int

    @cached_property
    def key(self) -> tuple[object, ...]:
        """What orders atoms."""
        return (1, self.kind, self.bottom, self.top.key)

    @cached_property
    def low(self) -> int:
        """The least that it can be."""
        return self.top.low // self.bottom if self.kind == "/" else 0

    @cached_property
    def high(self) -> int:
        """The most that it can be."""
        return self.top.high // self.bottom if self.kind == "/" else min(self.bottom - 1, self.top.high)


Atom: TypeAlias = Variable | Part


@dataclass(frozen=True)
class Place:
    """number + the sum of atom * factor. terms: sorted, no factor is 0."""

    terms: tuple[tuple[Atom, int], ...]
    number: int

    @cached_property
    def key(self) -> tuple[object, ...]:
        """What orders places."""
        return (self.number, tuple((factor, atom.key) for atom, factor in self.terms))

    @cached_property
    def low(self) -> int:
        """The least that it can be."""
        return self.number + sum(f * (a.low if f > 0 else a.high) for a, f in self.terms)

    @cached_property
    def high(self) -> int:
        """The most that it can be."""
        return self.number + sum(f * (a.high if f > 0 else a.low) for a, f in self.terms)

    @property
    def constant(self) -> int | None:
        """The number if nothing else occurs."""
        return None if self.terms else self.number

    def __add__(self, other: "Place | int") -> "Place":
        if isinstance(other, int):
            return Place(self.terms, self.number + other)
        if not other.terms:
            return Place(self.terms, self.number + other.number)
        if not self.terms:
            return Place(other.terms, self.number + other.number)
        return _sum((*self.terms, *other.terms), self.number + other.number)

    def __sub__(self, other: "Place | int") -> "Place":
        return self + (-other if isinstance(other, int) else other * -1)

    def __mul__(self, factor: int) -> "Place":
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        return Place(tuple((a, f * factor) for a, f in self.terms), self.number * factor)

    def __floordiv__(self, bottom: int) -> "Place":
        return divided(self, bottom)[0]

    def __mod__(self, bottom: int) -> "Place":
        return divided(self, bottom)[1]

    def factor_of_lane(self) -> int | None:
        """Return by how much the place rises from lane to lane; None if it does not rise evenly."""
        factor = 0
        for atom, f in self.terms:
            if isinstance(atom, Variable):
                factor += f if atom.value is None else 0
            elif has_lane(atom.top):
                return None
        return factor

    def without_lane(self) -> "Place":
        """Return the place of lane 0."""
        return Place(
            tuple((a, f) for a, f in self.terms if not (isinstance(a, Variable) and a.value is None)), self.number
        )


ZERO = Place((), 0)
Places: TypeAlias = tuple[Place, ...]


def number(n: int) -> Place:
    """Return a known place."""
    return Place((), n)


def variable(value: Value | None, low: int, high: int) -> Place:
    """Return a computed place with its bounds, both included."""
    return number(low) if low == high else Place(((Variable(value, low, high), 1),), 0)


def lane(count: int) -> Place:
    """Return the lane of a vector of so many lanes."""
    return variable(None, 0, count - 1)


def has_lane(place: Place) -> bool:
    """Whether the place differs from lane to lane."""
    return any(a.value is None if isinstance(a, Variable) else has_lane(a.top) for a, _ in place.terms)


def _sum(terms: Sequence[tuple[Atom, int]], total: int) -> Place:
    factors: dict[Atom, int] = {}
    for atom, factor in terms:
        factors[atom] = factors.get(atom, 0) + factor
    for atom in list(factors):
        if isinstance(atom, Part) and atom.kind == "%" and (factor := factors.get(atom, 0)):
            whole = Part("/", atom.top, atom.bottom)
            if factors.get(whole) == factor * atom.bottom:
                rest = [(a, f) for a, f in factors.items() if a not in (atom, whole)]
                top = atom.top * factor
                return _sum((*rest, *top.terms), total + top.number)
    return Place(tuple(sorted(((a, f) for a, f in factors.items() if f), key=lambda t: t[0].key)), total)


def divided(place: Place, bottom: int) -> tuple[Place, Place]:
    """Return quotient and remainder by a positive number; the place is at least 0."""
    if bottom == 1:
        return place, ZERO
    if not place.terms:
        return number(place.number // bottom), number(place.number % bottom)
    whole = Place(tuple((a, f // bottom) for a, f in place.terms if f % bottom == 0), place.number // bottom)
    rest = Place(tuple((a, f) for a, f in place.terms if f % bottom), place.number % bottom)
    times = rest.low // bottom
    if rest.high // bottom == times:
        return whole + times, rest - times * bottom
    assert place.low >= 0, place
    if rest.low < 0:
        return _atoms(place, bottom)
    quotient, remainder = _by_grain(rest, bottom)
    return whole + quotient, remainder


def _by_grain(place: Place, bottom: int) -> tuple[Place, Place]:
    """Divide in units of a common grain of the large terms, below which the small ones stay."""
    terms = sorted(place.terms, key=lambda t: -abs(t[1]))
    grain = bottom
    for k, (_, factor) in enumerate(terms):
        grain = gcd(grain, factor)
        if grain == 1:
            break
        small = Place(tuple(terms[k + 1 :]), place.number % grain)
        if small.low >= 0 and small.high < grain:
            large = Place(
                tuple((a, f // grain) for a, f in place.terms if (a, f) in terms[: k + 1]), place.number // grain
            )
            if large.low < 0:
                break
            quotient, remainder = divided(large, bottom // grain)
            return quotient, remainder * grain + _sum(small.terms, small.number)
    return _atoms(place, bottom)


def _atoms(place: Place, bottom: int) -> tuple[Place, Place]:
    top, over = place, bottom
    if len(place.terms) == 1 and place.number == 0 and place.terms[0][1] == 1:
        (atom, _), *_ = place.terms
        if isinstance(atom, Part) and atom.kind == "/":
            top, over = atom.top, atom.bottom * bottom
        if isinstance(atom, Part) and atom.kind == "%" and atom.bottom % bottom == 0:
            place = atom.top
    quotient = Place(((Part("/", top, over), 1),), 0)
    return quotient, Place(((Part("%", place, bottom), 1),), 0)


def ravel(places: Places, shape: Sequence[int]) -> Place:
    """Return the row-major place of an element."""
    total = ZERO
    for place, size in zip(places, shape, strict=True):
        total = total * size + place
    return total


def unravel(place: Place, shape: Sequence[int]) -> Places:
    """Return the indices of the element at a row-major place."""
    found: list[Place] = []
    for size in reversed(shape[1:]):
        if size == 1:
            found.append(ZERO)
            continue
        place, rest = divided(place, size)
        found.append(rest)
    return (place, *reversed(found)) if shape else ()


def every(shape: Sequence[int]) -> Iterator[Places]:
    """Yield the places of all elements, row-major."""
    total = 1
    for size in shape:
        total *= size
    for k in range(total):
        found = []
        for size in reversed(shape):
            found.append(number(k % size))
            k //= size
        yield tuple(reversed(found))
