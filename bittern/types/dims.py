"""Dimensions: polynomials with integer coefficients over the symbols of one function.

A symbol is the position of a dimension parameter in its function's list, so renaming parameters changes nothing.
`x / c` and `x % c` (floor division; what divides is positive) are atoms unless they divide out. Two dimensions count as
equal when their normal forms are; a fact such as `n % 32 == 0` rewrites `n` to `32 * (n / 32)` before the comparison.

The normal form decides equality of polynomials, and of one linear form over one constant divisor:
`(c * q + r) / c = q + r / c`, `(g * x + k) / (g * c) = (x + k / g) / c` and `x / a / b = x / (a * b)` are applied from
left to right. Beyond that two equal dimensions may have two forms; then the answer is "cannot tell".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd, lcm
from typing import Any, ClassVar, TypeAlias

MOST_PRODUCTS = 1 << 10  # of terms, in one multiplication of dimensions
MOST_FACTORS = 1 << 8  # of one term; and symbols in a quotient


class DimTooLargeError(ArithmeticError):
    """A dimension with more terms or factors than any program needs; a short text can ask for 2^30 of them."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """The atom `top / bottom` (kind `/`) or `top % bottom` (kind `%`), rounded down; bottom is positive."""

    kind: str
    top: "Dim"
    bottom: "Dim"
    _hash: int = field(init=False, repr=False)  # once it was asked for

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Ratio):
            return NotImplemented
        return self.kind == other.kind and self.top == other.top and self.bottom == other.bottom

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash((self.kind, self.top, self.bottom)))
            return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return Ratio, (self.kind, self.top, self.bottom)

    def value(self, values: Sequence[int]) -> int:
        """Return the number for given values of all symbols; over 0 it is as in the division of dimensions."""
        top, bottom = self.top.value(values), self.bottom.value(values)
        if self.kind == "/":
            return top // bottom if bottom else 0
        return top % bottom if bottom else top


Atom: TypeAlias = int | Ratio  # an int is the position of a dimension parameter
Monomial: TypeAlias = tuple[Atom, ...]  # sorted; an atom occurs as often as its power


def _rank(atom: Atom) -> tuple[object, ...]:
    if isinstance(atom, int):
        return (0, atom)
    return (1, atom.kind, atom.top.rank(), atom.bottom.rank())


@dataclass(frozen=True, slots=True)
class Dim:
    """A polynomial in normal form: (monomial, coefficient) pairs, sorted, no coefficient zero."""

    encode_once: ClassVar[bool] = True  # for hashing

    terms: tuple[tuple[Monomial, int], ...]
    _hash: int = field(init=False, repr=False)  # once it was asked for

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self.terms == other.terms if isinstance(other, Dim) else NotImplemented

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash(self.terms))
            return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return Dim, (self.terms,)

    def rank(self) -> tuple[object, ...]:
        """Return a key that orders dimensions canonically."""
        return tuple((len(m), tuple(_rank(a) for a in m), c) for m, c in self.terms)

    def tokens(self) -> object:
        """State the identity of the dimension for hashing."""
        return ("dim", tuple((tuple(_atom_tokens(a) for a in m), c) for m, c in self.terms))

    @property
    def constant(self) -> int | None:
        """The value if no symbol occurs, else None."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    @property
    def constant_term(self) -> int:
        """The number among the terms, 0 if there is none."""
        return self.terms[-1][1] if self.terms and not self.terms[-1][0] else 0

    def __add__(self, other: "Dim | int") -> "Dim":
        return _plus(self, other) if isinstance(other, int) else _sum(self, dim(other), 1)

    def __neg__(self) -> "Dim":
        return Dim(tuple([(m, -c) for m, c in self.terms]))

    def __sub__(self, other: "Dim | int") -> "Dim":
        return _plus(self, -other) if isinstance(other, int) else _sum(self, dim(other), -1)

    def __mul__(self, other: "Dim | int") -> "Dim":
        if isinstance(other, int):
            return _times(self, other)
        others = dim(other).terms
        if not others or not others[0][0]:
            return _times(self, others[0][1] if others else 0)
        if not self.terms or not self.terms[0][0]:
            return _times(other, self.terms[0][1] if self.terms else 0)
        _need_small(len(self.terms) * len(others), MOST_PRODUCTS, "terms")
        products: dict[Monomial, int] = {}
        _need_small(len(self.terms[0][0]) + len(others[0][0]), MOST_FACTORS, "factors in a term")
        for left, a in self.terms:
            for right, b in others:
                monomial = tuple(sorted(left + right, key=_rank))
                products[monomial] = products.get(monomial, 0) + a * b
        return _normal(products)

    def __floordiv__(self, other: "Dim | int") -> "Dim":
        return _divide(self, dim(other))[0]

    def __mod__(self, other: "Dim | int") -> "Dim":
        return _divide(self, dim(other))[1]

    def symbols(self) -> set[int]:
        """Return the positions of all dimension parameters that occur."""
        found: set[int] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                found |= {atom} if isinstance(atom, int) else atom.top.symbols() | atom.bottom.symbols()
        return found

    def substitute(self, values: "Sequence[Dim] | Mapping[int, Dim]") -> "Dim":
        """Return the dimension with every symbol i that `values` holds replaced by values[i]."""
        known = values if isinstance(values, Mapping) else dict(enumerate(values))
        total = ZERO
        for monomial, factor in self.terms:
            product = dim(factor)
            for atom in monomial:
                product = product * _substitute_atom(atom, known)
            total = total + product
        return total

    def value(self, values: Sequence[int]) -> int:
        """Return the number for given values of all symbols."""
        total = 0
        for monomial, factor in self.terms:
            for atom in monomial:
                assert not isinstance(atom, int) or atom < len(values), (self, values)
                factor *= values[atom] if isinstance(atom, int) else atom.value(values)
            total += factor
        return total

    def text(self, names: Sequence[str]) -> str:
        """Print the dimension with the function's own names for its symbols."""
        if not self.terms:
            return "0"
        parts: list[str] = []
        for monomial, factor in self.terms:
            atoms = [_atom_text(a, names) for a in monomial]
            if abs(factor) != 1 or not atoms:
                atoms.insert(0, str(abs(factor)))
            if len(atoms) == 1 and (parts or factor > 0):
                atoms = [atoms[0].removeprefix("(").removesuffix(")")]
            parts.append(("- " if factor < 0 else "+ ") + " * ".join(atoms))
        joined = " ".join(parts)
        return joined[2:] if joined.startswith("+ ") else "-" + joined[2:]


ZERO = Dim(())


def dim(value: Dim | int) -> Dim:
    """Return a number as a dimension; a dimension as it is."""
    if isinstance(value, Dim):
        return value
    return Dim((((), int(value)),)) if value else ZERO


def symbol(position: int) -> Dim:
    """Return the dimension that is the parameter at this position."""
    return Dim((((position,), 1),))


def apply_facts(value: Dim, facts: Sequence[tuple[Dim, Dim]]) -> Dim:
    """Rewrite a dimension with facts `top % bottom == 0`; dimensions equal under the facts then have one form.

    A top that is one symbol becomes bottom * (top / bottom), with the least common multiple of its constant bottoms, or
    else its first bottom. Any other top only makes the remainder `top % bottom`, where it is written, 0.
    """
    return _rewrite(value, _known(tuple(facts)), frozenset(facts)) if facts else value


def without_facts(value: Dim, facts: Sequence[tuple[Dim, Dim]]) -> Dim:
    """Return the dimension as a program writes it: what `apply_facts` put in for a symbol becomes the symbol again.

    Only for printing: the result is not in normal form.
    """
    if not facts:
        return value
    known = _known(tuple(facts))
    put_in = [(place, product.terms[0]) for place, product in known.items() if len(product.terms) == 1]
    put_in.sort(key=lambda each: -len(each[1][0]))
    total = ZERO
    for monomial, factor in value.terms:
        left = [
            a if isinstance(a, int) else Ratio(a.kind, *(without_facts(d, facts) for d in (a.top, a.bottom)))
            for a in monomial
        ]
        for place, (atoms, common) in put_in:
            while factor % common == 0 and all(left.count(a) >= atoms.count(a) for a in atoms):
                for atom in atoms:
                    left.remove(atom)
                left.append(place)
                factor //= common
        total = total + Dim(((tuple(sorted(left, key=_rank)), factor),))
    return total


@lru_cache(maxsize=256)
def _known(facts: tuple[tuple[Dim, Dim], ...]) -> Mapping[int, Dim]:
    """Return what each symbol with a fact becomes; bottoms are rewritten first, circular facts are passed over."""
    bottoms: dict[int, Dim] = {}
    for top, bottom in facts:
        place = _only_symbol(top)
        if place is None or bottom.constant == 0:
            continue
        old = bottoms.get(place)
        if old is None or (old.constant is None and bottom.constant is not None):
            bottoms[place] = bottom
        elif old.constant is not None and bottom.constant is not None:
            bottoms[place] = dim(lcm(old.constant, bottom.constant))
    known: dict[int, Dim] = {}
    while ready := [place for place, bottom in bottoms.items() if not bottom.symbols() & bottoms.keys()]:
        for place in ready:
            bottom = bottoms.pop(place)
            known[place] = _rewrite(bottom, known, frozenset()) * _atom(Ratio("/", symbol(place), bottom))
    return known


def _only_symbol(value: Dim) -> int | None:
    if len(value.terms) == 1 and value.terms[0][1] == 1 and len(value.terms[0][0]) == 1:
        atom = value.terms[0][0][0]
        return atom if isinstance(atom, int) else None
    return None


def _rewrite(value: Dim, known: Mapping[int, Dim], facts: frozenset[tuple[Dim, Dim]]) -> Dim:
    total = ZERO
    for monomial, factor in value.terms:
        product = dim(factor)
        for atom in monomial:
            if isinstance(atom, int):
                product = product * known.get(atom, symbol(atom))
            elif atom.kind == "%" and (atom.top, atom.bottom) in facts:
                product = ZERO
            else:
                parts = _divide(_rewrite(atom.top, known, facts), _rewrite(atom.bottom, known, facts))
                product = product * parts[atom.kind == "%"]
        total = total + product
    return total


def _times(value: Dim, number: int) -> Dim:
    """Return value * number; the order of terms stays."""
    _need_small(len(value.terms), MOST_PRODUCTS, "terms")
    if number == 1:
        return value
    return Dim(tuple([(m, c * number) for m, c in value.terms])) if number else ZERO


def _plus(value: Dim, number: int) -> Dim:
    """Return value + number, which changes the last term only."""
    terms = value.terms
    if terms and not terms[-1][0]:
        number += terms[-1][1]
        terms = terms[:-1]
    return Dim((*terms, ((), number))) if number else Dim(terms)


def _sum(left: Dim, right: Dim, times: int) -> Dim:
    """Return left + times * right."""
    if not right.terms:
        return left
    if not right.terms[0][0]:
        return _plus(left, right.terms[0][1] * times)
    sums: dict[Monomial, int] = dict(left.terms)
    for monomial, factor in right.terms:
        sums[monomial] = sums.get(monomial, 0) + factor * times
    return _normal(sums)


def _normal(terms: dict[Monomial, int]) -> Dim:
    kept = [(m, c) for m, c in terms.items() if c]
    if len(kept) > 1:
        kept.sort(key=lambda term: _order(term[0]))
    return Dim(tuple(kept))


@lru_cache(maxsize=4096)
def _order(monomial: Monomial) -> tuple[object, ...]:
    return (-len(monomial), tuple(_rank(a) for a in monomial))


@lru_cache(maxsize=4096)
def _divide(top: Dim, bottom: Dim) -> tuple[Dim, Dim]:
    """Divide with remainder: what divides out leaves, the rest becomes an atom. Division by zero gives (0, top)."""
    if bottom.constant == 0:
        return ZERO, top
    whole, rest = ZERO, ZERO
    for monomial, factor in top.terms:
        quotient, left = _divide_term(monomial, factor, bottom)
        whole, rest = whole + quotient, rest + left
    if rest == ZERO:
        return whole, ZERO
    divisor = bottom.constant
    if divisor is None or divisor < 0:
        return whole + _atom(Ratio("/", rest, bottom)), _atom(Ratio("%", rest, bottom))
    if rest.constant is not None:  # between 0 and the divisor
        return whole, rest
    common = gcd(divisor, *(c for m, c in rest.terms if m))
    unit = {m: c // common for m, c in rest.terms}  # the constant term loses what no quotient can see
    reduced, small = _normal(unit), rest.constant_term % common
    remainder = _atom(Ratio("%", reduced, dim(divisor // common))) * common + small
    return whole + _quotient(reduced, divisor // common), remainder


def _quotient(top: Dim, divisor: int) -> Dim:
    """Return top / divisor as one atom; the quotient of a quotient by a constant is one quotient."""
    if len(top.terms) == 1 and top.terms[0][1] == 1 and len(top.terms[0][0]) == 1:
        atom = top.terms[0][0][0]
        if isinstance(atom, Ratio) and atom.kind == "/" and (atom.bottom.constant or 0) > 0:
            return atom.top // (atom.bottom * divisor)
    return _atom(Ratio("/", top, dim(divisor)))


def _divide_term(monomial: Monomial, factor: int, bottom: Dim) -> tuple[Dim, Dim]:
    """Return quotient and rest of one term; a factor over a constant leaves a rest of 0 to constant - 1."""
    whole = Dim(((monomial, factor),))
    if len(bottom.terms) != 1:
        return ZERO, whole
    below, divisor = bottom.terms[0]
    left = list(monomial)
    for atom in below:
        if atom not in left:
            return ZERO, whole
        left.remove(atom)
    if below and factor % divisor:
        return ZERO, whole
    quotient, rest = divmod(factor, divisor)
    return dim(quotient) * Dim(((tuple(left), 1),)), dim(rest) * Dim(((monomial, 1),))


def _atom(ratio: Ratio) -> Dim:
    _need_small(_size(ratio.top) + _size(ratio.bottom), MOST_FACTORS, "symbols in a quotient")
    return Dim((((ratio,), 1),))


def _need_small(count: int, most: int, what: str) -> None:
    if count > most:
        raise DimTooLargeError(f"{count} {what}, at most {most} are possible")


def _size(value: Dim) -> int:
    """Return how many symbols occur, each as often as it does."""
    atoms = [atom for monomial, _ in value.terms for atom in monomial]
    return sum(1 if isinstance(atom, int) else _size(atom.top) + _size(atom.bottom) for atom in atoms)


def _substitute_atom(atom: Atom, known: Mapping[int, Dim]) -> Dim:
    if isinstance(atom, int):
        return known.get(atom, symbol(atom))
    quotient, remainder = _divide(atom.top.substitute(known), atom.bottom.substitute(known))
    return quotient if atom.kind == "/" else remainder


def _atom_tokens(atom: Atom) -> object:
    return atom if isinstance(atom, int) else (atom.kind, atom.top, atom.bottom)


def _atom_text(atom: Atom, names: Sequence[str]) -> str:
    if isinstance(atom, int):
        return names[atom] if atom < len(names) else f"d{atom}"
    top, bottom = atom.top.text(names), atom.bottom.text(names)
    top = f"({top})" if " " in top else top
    bottom = f"({bottom})" if " " in bottom else bottom
    return f"({top} {atom.kind} {bottom})"
