"""Prove that a polynomial over sizes and loop rounds is at least 0.

The theory is that of linear bounds, atom by atom: the innermost atom of a polynomial (a round of the innermost loop, a
quotient of sizes, a bounded unknown) is replaced by a bound of it, the lower one where its coefficient is not negative,
the upper one where it is not positive, until no coefficient of what remains is negative; sizes are at least 0. Bounds
are rational: `number / over`. A proof that is not found is no proof; nothing is ever assumed of a polynomial.

No step of that depends on the constant of a polynomial. So the search is for the greatest number that the rest of it is
proven to reach, which is kept: accesses that differ by a constant, as unrolled ones do, are one question.

Machine integers wrap; a place is computed from sums, differences and products, which commute with wrapping, so a place
that is mathematically inside its buffer is inside it on a machine too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd, inf
from typing import TypeAlias

from bittern.types.dims import ZERO, Atom, Dim, DimTooLargeError, Ratio, apply_facts, dim, symbol

_DEPTH = 24  # substitutions in one proof
_WORK = 1000  # polynomials looked at for one question
_Ends: TypeAlias = "tuple[float | int, float | int]"


@dataclass(frozen=True, slots=True)
class Bound:
    """The rational number / over; over is positive."""

    number: Dim
    over: int = 1


@dataclass(slots=True)
class _Context:
    """What was found out while these polynomials, as given, were known to be at least 0.

    known: those that are no numbers, simple. least: what a polynomial without a constant is proven to reach. settled:
    those for which there is nothing more.
    """

    given: tuple[Dim, ...] = ()
    known: tuple[Dim, ...] = ()
    is_empty: bool = False  # they contradict each other: nothing comes here
    least: dict[Dim, int] = field(default_factory=dict)
    settled: set[Dim] = field(default_factory=set)
    bounds: dict[tuple[Atom, int], list[Bound]] = field(default_factory=dict)


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
    _contexts: dict[tuple[Dim, ...], _Context] = field(default_factory=dict)
    _context: _Context = field(default_factory=_Context)
    _open: dict[Dim, int] = field(default_factory=dict)  # questions that are being answered, and how far in each is
    _cut: float = inf  # the outermost of them whose answer was missing for another one's
    _simple: dict[Dim, Dim] = field(default_factory=dict)
    _ends: dict[int, _Ends] = field(default_factory=dict)

    def fresh(self, lows: Sequence[Bound] = (), highs: Sequence[Bound] = ()) -> Dim:
        """Make an unknown between bounds, both included."""
        position = max(self._next, self.sizes)
        self._next = position + 1
        self.lows[position] = tuple(dict.fromkeys([Bound(self.simple(b.number), b.over) for b in lows]))
        self.highs[position] = tuple(dict.fromkeys([Bound(self.simple(b.number), b.over) for b in highs]))
        return symbol(position)

    def simple(self, value: Dim) -> Dim:
        """Return the polynomial rewritten with the divisibility facts."""
        if not self.divides:
            return value
        found = self._simple.get(value)
        if found is None:
            found = self._simple[value] = apply_facts(value, self.divides)
        return found

    def proves(self, value: "Dim | int") -> bool:
        """Whether the polynomial is proven to be at least 0."""
        self._enter()
        wanted = self.simple(dim(value))
        return self._context.is_empty or self._interval(wanted)[0] >= 0 or self._asked(wanted)

    def within(self, value: Dim, low: "Dim | int", high: "Dim | int") -> bool:
        """Whether low <= value <= high is proven."""
        return self.proves(value - low) and self.proves(dim(high) - value)

    def range_of(self, value: Dim) -> "tuple[int | None, int | None]":
        """Return constants between which the polynomial lies, by interval arithmetic; None where there is none."""
        low, high = self._interval(self.simple(value))
        return (None if low == -inf else int(low)), (None if high == inf else int(high))

    # --- intervals

    def _interval(self, value: Dim) -> _Ends:
        low: float | int = 0
        high: float | int = 0
        for monomial, factor in value.terms:
            ends: _Ends = (factor, factor)
            for atom in monomial:
                ends = _product(ends, self._atom_interval(atom))
            low, high = low + ends[0], high + ends[1]
        return low, high

    def _atom_interval(self, atom: Atom) -> _Ends:
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
        found = self._ends.get(atom)
        if found is None:
            lows = [(self._interval(b.number)[0], b.over) for b in self.lows[atom]]
            highs = [(self._interval(b.number)[1], b.over) for b in self.highs[atom]]
            most_low = max([low // over for low, over in lows if low != -inf], default=-inf)
            least_high = min([high // over for high, over in highs if high != inf], default=inf)
            found = self._ends[atom] = most_low, least_high
        return found

    # --- proofs

    def _enter(self) -> None:
        """Go where what is known now was known before, with what was found out then."""
        given = tuple(self.known)
        if given == self._context.given:
            return
        found = self._contexts.get(given)
        if found is not None:
            self._context = found
            return
        before = next((n for n in range(len(given) - 1, -1, -1) if given[:n] in self._contexts), 0)
        outer = self._contexts.get(given[:before])
        known = [self.simple(k) for k in given]
        self._context = self._contexts[given] = _Context(given, tuple([k for k in known if k.constant is None]))
        is_outer_empty = outer is not None and outer.is_empty
        self._context.is_empty = is_outer_empty or any(self._asked(-k - 1) for k in known[before:])

    def _asked(self, value: Dim) -> bool:
        """Whether a polynomial is at least 0, as a question of its own."""
        self._work, self._cut = 0, inf
        self._open.clear()
        try:
            return self._proves(value)
        except DimTooLargeError:
            return False

    def _proves(self, value: Dim) -> bool:
        found = self._beyond(value, 0)
        return found is not None and found >= 0

    def _least(self, value: Dim, need: int) -> "int | None":
        """Return a number that a polynomial reaches: the greatest one, or any from `need` on.

        value: without a constant, and of coefficients without a common divisor.
        """
        context = self._context
        before = context.least.get(value)
        if (before is not None and before >= need) or value in context.settled:
            return before
        depth = len(self._open)
        begun = self._open.get(value)
        if begun is not None or depth > _DEPTH or self._work >= _WORK:
            self._cut = min(self._cut, -1 if begun is None else begun)
            return before
        self._work += 1
        self._open[value] = depth
        outside, self._cut = self._cut, inf
        best = before
        for found in self._reached(value, need):
            if found is not None and (best is None or found > best):
                best = context.least[value] = found
                if best >= need:
                    break
        else:
            if self._cut >= depth:
                context.settled.add(value)
        del self._open[value]
        self._cut = min(outside, self._cut if self._cut < depth else inf)
        return best

    def _reached(self, value: Dim, need: int) -> "Iterator[int | None]":
        """Yield what each way of proof shows that a polynomial reaches."""
        if self._is_natural(value):
            yield 0
        atom = _innermost(value)
        if atom is not None:
            factor, rest = _split(value, atom)
            if factor is not None:
                yield from self._by_bounds(atom, factor, rest, need)
        for known in self._context.known:
            if not _has_room(value, known):
                continue
            left = value - known
            constant = left.constant_term
            if self._is_natural(left - constant):
                yield constant
            if _weight(left) < _weight(value):
                yield self._beyond(left, need)

    def _beyond(self, value: Dim, need: int, over: int = 1) -> "int | None":
        """Return what value / over reaches, rounded up: it stands for an integer."""
        varying, times, constant = _parts(value)
        found = self._least(varying, -((constant - (need - 1) * over - 1) // times))
        return None if found is None else -(-(found * times + constant) // over)

    def _by_bounds(self, atom: Atom, factor: Dim, rest: Dim, need: int) -> "Iterator[int | None]":
        if isinstance(atom, Ratio) and atom.kind == "/" and atom.bottom.constant is None:
            times, left = factor // atom.bottom, factor % atom.bottom
            if left == ZERO:  # bottom * (top / bottom) is top - bottom + 1 to top
                falls = self._proves(-times)
                least = atom.top if falls else atom.top - atom.bottom + 1
                if falls or self._proves(times):
                    yield self._beyond(self.simple(times * least + rest), need)
                    return
        constant = factor.constant
        rises = constant > 0 if constant is not None else self._proves(factor)
        falls = constant < 0 if constant is not None else not rises and self._proves(-factor)
        if not rises and not falls:
            return
        bounds = self._lower(atom) if rises else self._upper(atom)
        bounds.sort(key=lambda b: b.number.constant is None)  # numbers first: they end the search soon
        for b in bounds:
            number = b.number * constant if constant is not None else factor * b.number
            yield self._beyond(self.simple(rest * b.over + number), need, b.over)

    def _is_natural(self, value: Dim) -> bool:
        """Whether all terms are at least 0."""
        return _no_negative(value) and all(self._natural(a) for m, _ in value.terms for a in m)

    def _natural(self, atom: Atom) -> bool:
        """Whether an atom is at least 0."""
        if isinstance(atom, Ratio):
            return atom.kind == "%" or self._proves(atom.top)
        if atom < self.sizes:
            return True
        return any(self._proves(b.number) for b in self.lows[atom])

    def _lower(self, atom: Atom) -> list[Bound]:
        if isinstance(atom, Ratio):
            found = [Bound(ZERO)] if self._natural(atom) else []
            over = atom.bottom.constant
            if atom.kind == "/" and over is not None:
                found.append(Bound(atom.top - over + 1, over))
        else:
            found = [Bound(ZERO)] if atom < self.sizes else list(self.lows[atom])
        return self._from_known(atom, 1) + found

    def _upper(self, atom: Atom) -> list[Bound]:
        if isinstance(atom, Ratio):
            over, found = atom.bottom.constant, []
            if atom.kind == "/" and over is not None:
                found = [Bound(atom.top, over)]
                if (most := self._plain_high(atom.top)) is not None:
                    found.append(Bound(dim(most // over)))  # rounded down, which the rational bound is not
            if atom.kind == "%":
                found = [Bound(atom.bottom - 1)]
                if self._proves(atom.top):
                    found.append(Bound(atom.top))
        else:
            found = [] if atom < self.sizes else list(self.highs[atom])
        return found + self._from_known(atom, -1)

    def _plain_high(self, value: Dim) -> "int | None":
        """Return the most that a sum of unknowns with constant bounds can be; None for anything else."""
        total = value.constant_term
        for monomial, factor in value.terms:
            if not monomial:
                continue
            if len(monomial) > 1 or factor < 0 or isinstance(monomial[0], Ratio):
                return None
            numbers = [(b.number.constant, b.over) for b in self.highs.get(monomial[0], ())]
            highs = [number // over for number, over in numbers if number is not None]
            if not highs:
                return None
            total += factor * min(highs)
        return total

    def _from_known(self, atom: Atom, sign: int) -> list[Bound]:
        """Return the bounds of an atom that known polynomials give: factor * atom + rest >= 0."""
        found = self._context.bounds.get((atom, sign))
        if found is None:
            found = self._context.bounds[atom, sign] = []
            for polynomial in self._context.known:
                factor, rest = _split(polynomial, atom)
                constant = factor.constant if factor is not None else None
                if constant and constant * sign > 0:
                    found.append(Bound(-rest * sign, abs(constant)))
        return found


def _product(x: _Ends, y: _Ends) -> _Ends:
    ends = [0 if 0 in (a, b) else a * b for a in x for b in y]
    return min(ends), max(ends)


def _parts(value: Dim) -> tuple[Dim, int, int]:
    """Return x, times and constant with value = x * times + constant; times is as large as can be."""
    terms, constant = value.terms, 0
    if terms and not terms[-1][0]:
        terms, constant = terms[:-1], terms[-1][1]
    times = gcd(*[factor for _, factor in terms])
    if times > 1:
        return Dim(tuple([(monomial, factor // times) for monomial, factor in terms])), times, constant
    return Dim(terms) if constant else value, 1, constant


def _no_negative(value: Dim) -> bool:
    return min([factor for _, factor in value.terms], default=0) >= 0


def _has_room(value: Dim, known: Dim) -> bool:
    """Whether no coefficient of value - known is negative, the constant's aside."""
    given, taken = dict(value.terms), dict(known.terms)
    for monomial, factor in known.terms:
        if monomial and factor > given.get(monomial, 0):
            return False
    return all(factor >= 0 or monomial in taken for monomial, factor in value.terms)


def _weight(value: Dim) -> int:
    """Return the sum of the coefficients' magnitudes, without the constant."""
    return sum([abs(factor) for monomial, factor in value.terms if monomial])


@lru_cache(maxsize=4096)
def _newest(atom: Atom) -> tuple[int, int]:
    """Return a key by which what depends on an atom comes after it."""
    if isinstance(atom, Ratio):
        inner = [_newest(a)[1] for side in (atom.top, atom.bottom) for monomial, _ in side.terms for a in monomial]
        return max(atom.top.symbols() | atom.bottom.symbols(), default=-1), 1 + max(inner, default=0)
    return atom, 0


def _innermost(value: Dim) -> "Atom | None":
    atoms = [atom for monomial, _ in value.terms for atom in monomial]  # in the order of terms, so always the same
    return max(atoms, key=_newest, default=None)


def _split(value: Dim, atom: Atom) -> "tuple[Dim | None, Dim]":
    """Return factor and rest with value = factor * atom + rest, neither with the atom; None if it is not so."""
    factor, rest = ZERO, []
    for monomial, number in value.terms:
        if atom not in monomial:
            rest.append((monomial, number))
            continue
        left = list(monomial)
        left.remove(atom)
        if atom in left:
            return None, ZERO
        factor = factor + Dim(((tuple(left), number),))
    return (None if factor == ZERO else factor), Dim(tuple(rest))
