"""Polynomials over atoms with integer coefficients: what a place in a buffer is made of.

An atom is a number that stands for a loop's index, a value in a register, or a size. A polynomial maps monomials
(sorted atoms, each as often as its power) to coefficients, none zero. Arithmetic is modulo 2^64, as that of places is.
"""

from collections.abc import Mapping
from typing import TypeAlias

Monomial: TypeAlias = tuple[int, ...]
Polynomial: TypeAlias = Mapping[Monomial, int]

ZERO: Polynomial = {}


def constant(number: int) -> Polynomial:
    """Return a number as a polynomial."""
    return {(): number} if number else ZERO


def atom(number: int) -> Polynomial:
    """Return an atom as a polynomial."""
    return {(number,): 1}


def plus(x: Polynomial, y: Polynomial, factor: int = 1) -> Polynomial:
    """Return x + factor * y."""
    found = dict(x)
    for monomial, coefficient in y.items():
        total = found.get(monomial, 0) + factor * coefficient
        if total:
            found[monomial] = total
        else:
            found.pop(monomial, None)
    return found


def times(x: Polynomial, y: Polynomial) -> Polynomial:
    """Return x * y."""
    found: dict[Monomial, int] = {}
    for left, a in x.items():
        for right, b in y.items():
            monomial = tuple(sorted(left + right)) if left and right else left or right
            found[monomial] = found.get(monomial, 0) + a * b
    return {m: c for m, c in found.items() if c}


def scaled(x: Polynomial, factor: int) -> Polynomial:
    """Return factor * x."""
    return x if factor == 1 else {m: c * factor for m, c in x.items()} if factor else ZERO


def split(x: Polynomial, number: int) -> tuple[Polynomial, Polynomial] | None:
    """Return (factor, rest) with x = factor * atom + rest, neither with the atom; None where it has a higher power."""
    factor: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in x.items():
        if number not in monomial:
            rest[monomial] = coefficient
            continue
        left = list(monomial)
        left.remove(number)
        if number in left:
            return None
        factor[tuple(left)] = coefficient
    return factor, rest


def number_of(x: Polynomial) -> int | None:
    """Return the number that the polynomial is, or None."""
    if not x:
        return 0
    return x.get(()) if len(x) == 1 else None
