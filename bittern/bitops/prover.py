"""Prove that a polynomial over sizes and loop rounds is at least 0.

The theory is that of linear bounds, atom by atom: the innermost atom of a polynomial (a round of the innermost loop, a
quotient of sizes, a bounded unknown) is replaced by a bound of it, the lower one where its coefficient is not negative,
the upper one where it is not positive, until no coefficient of what remains is negative; sizes are at least 0. Bounds
are rational: `number / over`. A proof that is not found is no proof; nothing is ever assumed of a polynomial.

Machine integers wrap; a place is computed from sums, differences and products, which commute with wrapping, so a place
that is mathematically inside its buffer is inside it on a machine too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from bittern.types.dims import ZERO, Atom, Dim, DimTooLargeError, Ratio, apply_facts, dim, symbol

_DEPTH = 24  # substitutions in one proof
_WORK = 4000  # polynomials looked at for one question


@dataclass(frozen=True, slots=True)
class Bound:
    """The rational number / over; over is positive."""

    number: Dim
    over: int = 1


@dataclass(slots=True)
class Prover:
    """What is known of symbols. divides: facts `top % bottom == 0`. known: polynomials that are at least 0.

    Symbols from `sizes` on are unknowns made by `fresh`, each with bounds over those made before it.
    """

    sizes: int
    divides: tuple[tuple[Dim, Dim], ...] = ()
    known: list[Dim] = field(default_factory=list)
    lows: dict[int, tuple[Bound, ...]] = field(default_factory=dict)
    highs: dict[int, tuple[Bound, ...]] = field(default_factory=dict)
    _next: int = -1
    _work: int = 0

    def fresh(self, lows: Sequence[Bound] = (), highs: Sequence[Bound] = ()) -> Dim:
        """Make an unknown between bounds, both included."""
        position = max(self._next, self.sizes)
        self._next = position + 1
        self.lows[position] = tuple(Bound(self.simple(b.number), b.over) for b in lows)
        self.highs[position] = tuple(Bound(self.simple(b.number), b.over) for b in highs)
        return symbol(position)

    def simple(self, value: Dim) -> Dim:
        """Return the polynomial rewritten with the divisibility facts."""
        return apply_facts(value, self.divides)

    def proves(self, value: "Dim | int") -> bool:
        """Whether the polynomial is proven to be at least 0."""
        self._work = 0
        if any(k.constant is not None and k.constant < 0 for k in self.known):
            return True  # nothing comes here
        try:
            return self._proves(self.simple(dim(value)), 0)
        except DimTooLargeError:
            return False

    def within(self, value: Dim, low: "Dim | int", high: "Dim | int") -> bool:
        """Whether low <= value <= high is proven."""
        return self.proves(value - low) and self.proves(dim(high) - value)

    def range_of(self, value: Dim) -> "tuple[int | None, int | None]":
        """Return constants between which the polynomial lies, by interval arithmetic; None where there is none."""
        low, high = self._interval(self.simple(value))
        return (None if low == -inf else int(low)), (None if high == inf else int(high))

    def _interval(self, value: Dim) -> "tuple[float | int, float | int]":
        low: float | int = 0
        high: float | int = 0
        for monomial, factor in value.terms:
            ends: tuple[float | int, float | int] = (factor, factor)
            for atom in monomial:
                ends = _product(ends, self._atom_interval(atom))
            low, high = low + ends[0], high + ends[1]
        return low, high

    def _atom_interval(self, atom: Atom) -> "tuple[float | int, float | int]":
        if isinstance(atom, Ratio):
            low, high = self._interval(atom.top)
            over = atom.bottom.constant
            if atom.kind == "%":
                return 0, (inf if over is None else over - 1)
            if over is None:
                return (0 if low >= 0 else -inf), inf
            return (low if low == -inf else low // over), (high if high == inf else high // over)
        if atom < self.sizes:
            return 0, inf
        lows = [self._interval(b.number)[0] // b.over for b in self.lows[atom] if self._interval(b.number)[0] != -inf]
        highs = [self._interval(b.number)[1] // b.over for b in self.highs[atom] if self._interval(b.number)[1] != inf]
        return max(lows, default=-inf), min(highs, default=inf)

    def _proves(self, value: Dim, depth: int) -> bool:
        self._work += 1
        if _no_negative(value) and all(self._natural(a, depth) for m, _ in value.terms for a in m):
            return True
        if depth > _DEPTH or self._work > _WORK:
            return False
        atom = _innermost(value)
        if atom is not None:
            factor, rest = _split(value, atom)
            if factor is not None and self._by_bounds(atom, factor, rest, depth):
                return True
        return any(_no_negative(value - k) and self._proves(value - k, depth + 1) for k in self.known)

    def _by_bounds(self, atom: Atom, factor: Dim, rest: Dim, depth: int) -> bool:
        if isinstance(atom, Ratio) and atom.kind == "/" and atom.bottom.constant is None:
            times, left = factor // atom.bottom, factor % atom.bottom
            if left == ZERO:  # bottom * (top / bottom) is top - bottom + 1 to top
                falls = self._proves(-times, depth + 1)
                least = atom.top if falls else atom.top - atom.bottom + 1
                if falls or self._proves(times, depth + 1):
                    return self._proves(self.simple(times * least + rest), depth + 1)
        constant = factor.constant
        rises = constant > 0 if constant is not None else self._proves(factor, depth + 1)
        falls = constant < 0 if constant is not None else not rises and self._proves(-factor, depth + 1)
        if not rises and not falls:
            return False
        bounds = self._lower(atom, depth) if rises else self._upper(atom, depth)
        return any(self._proves(self.simple(factor * b.number + rest * b.over), depth + 1) for b in bounds)

    def _natural(self, atom: Atom, depth: int) -> bool:
        """Whether an atom is at least 0."""
        if isinstance(atom, Ratio):
            return atom.kind == "%" or self._proves(atom.top, depth + 1)
        if atom < self.sizes:
            return True
        return any(self._proves(b.number, depth + 1) for b in self.lows[atom])

    def _lower(self, atom: Atom, depth: int) -> list[Bound]:
        if isinstance(atom, Ratio):
            found = [Bound(ZERO)] if self._natural(atom, depth) else []
            over = atom.bottom.constant
            if atom.kind == "/" and over is not None:
                found.append(Bound(atom.top - over + 1, over))
        else:
            found = [Bound(ZERO)] if atom < self.sizes else list(self.lows[atom])
        return self._from_known(atom, 1) + found

    def _upper(self, atom: Atom, depth: int) -> list[Bound]:
        if isinstance(atom, Ratio):
            over, found = atom.bottom.constant, []
            if atom.kind == "/" and over is not None:
                found = [Bound(atom.top, over)]
            if atom.kind == "%":
                found = [Bound(atom.bottom - 1)]
                if self._proves(atom.top, depth + 1):
                    found.append(Bound(atom.top))
        else:
            found = [] if atom < self.sizes else list(self.highs[atom])
        return found + self._from_known(atom, -1)

    def _from_known(self, atom: Atom, sign: int) -> list[Bound]:
        """Return the bounds of an atom that known polynomials give: factor * atom + rest >= 0."""
        found = []
        for polynomial in self.known:
            factor, rest = _split(self.simple(polynomial), atom)
            constant = factor.constant if factor is not None else None
            if constant and constant * sign > 0:
                found.append(Bound(-rest * sign, abs(constant)))
        return found


def _product(
    x: "tuple[float | int, float | int]", y: "tuple[float | int, float | int]"
) -> "tuple[float | int, float | int]":
    ends = [0 if 0 in (a, b) else a * b for a in x for b in y]
    return min(ends), max(ends)


def _no_negative(value: Dim) -> bool:
    return all(factor >= 0 for _, factor in value.terms)


def _newest(atom: Atom) -> tuple[int, int]:
    """Return a key by which what depends on an atom comes after it."""
    if isinstance(atom, Ratio):
        return max(atom.top.symbols() | atom.bottom.symbols(), default=-1), 1
    return atom, 0


def _innermost(value: Dim) -> "Atom | None":
    atoms = {atom for monomial, _ in value.terms for atom in monomial}
    return max(atoms, key=_newest, default=None)


def _split(value: Dim, atom: Atom) -> "tuple[Dim | None, Dim]":
    """Return factor and rest with value = factor * atom + rest, neither with the atom; None if it is not so."""
    factor, rest = ZERO, ZERO
    for monomial, number in value.terms:
        if atom not in monomial:
            rest = rest + Dim(((monomial, number),))
            continue
        left = list(monomial)
        left.remove(atom)
        if atom in left:
            return None, rest
        factor = factor + Dim(((tuple(left), number),))
    if factor == ZERO:
        return None, rest
    return factor, rest
