"""Arithmetic, element by element.

Integers compute modulo 2^width in two's complement; those of 2 to 7 bits are stored one to a byte and brought back to
their width. f32 and f64 round each operation once, to nearest even, and keep subnormals. Every op is total: x / 0 = 0,
x % 0 = x, MIN / -1 = MIN. `b1` and `t` have `mul` only.

Ideal evaluation is plain float64. There an operand that is typed as an integer may hold reals too.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from bittern.ops.rules import need_arithmetic, need_float, need_integer, need_tensors, same
from bittern.ops.table import Array, Attributes, Meaning, Site, TypeRule, op
from bittern.types.elements import ELEMENTS, Element, Kind
from bittern.types.values import Type

# element -> mask of an unsigned one, or shift of a signed one, in the storage dtype
_MASKS = {e.name: np.uint8(e.high) for e in ELEMENTS.values() if e.kind is Kind.UNSIGNED and e.bits < 8}
_SHIFTS = {e.name: np.int8(8 - e.bits) for e in ELEMENTS.values() if e.kind is Kind.SIGNED and e.bits < 8}


def fit(element: Element, x: Array) -> Array:
    """Bring integers in storage back to the element's width: the low bits, sign-extended if it is signed."""
    if element.bits >= 8:
        return x
    if (mask := _MASKS.get(element.name)) is not None:
        return np.bitwise_and(x, mask)
    if (shift := _SHIFTS.get(element.name)) is not None:
        return np.right_shift(np.left_shift(x, shift), shift)
    return x


@cache
def number(storage: str, value: int) -> Array:
    """Return an integer as a scalar of this storage dtype; read-only."""
    scalar = np.array(value, storage)
    scalar.flags.writeable = False
    return scalar


def reals(x: Array) -> Array:
    """Return the numbers as float64."""
    return x if x.dtype == np.float64 else x.astype(np.float64)


def or_real(meaning: Meaning, real: Callable[..., Any]) -> Meaning:
    """Return the ideal meaning of an op: `real` on float64 where reals are held or meant, else the op on integers."""

    def ideal(site: Site, *operands: Array) -> Array:
        if site.result.element.is_float or any(x.dtype.kind == "f" for x in operands):
            result: Array = real(*[reals(x) for x in operands])
            return result
        return meaning(site, *operands)

    return ideal


# --- rules


def _binary(types: tuple[Type, ...], attributes: Attributes) -> Type:
    for operand in need_tensors(types, 2):
        need_arithmetic(operand)
    return same(types)


def _product(types: tuple[Type, ...], attributes: Attributes) -> Type:
    for operand in need_tensors(types, 2):
        if operand.element.kind is not Kind.SIGN:
            need_arithmetic(operand)
    return same(types)


def _whole_binary(types: tuple[Type, ...], attributes: Attributes) -> Type:
    for operand in need_tensors(types, 2):
        need_integer(operand)
    return same(types)


def _unary(types: tuple[Type, ...], attributes: Attributes) -> Type:
    return need_arithmetic(need_tensors(types, 1)[0])


def _float_unary(types: tuple[Type, ...], attributes: Attributes) -> Type:
    return need_float(need_tensors(types, 1)[0])


# --- meanings


def _add(site: Site, x: Array, y: Array) -> Array:
    return fit(site.result.element, np.add(x, y))


def _sub(site: Site, x: Array, y: Array) -> Array:
    return fit(site.result.element, np.subtract(x, y))


def _mul(site: Site, x: Array, y: Array) -> Array:
    return fit(site.result.element, np.multiply(x, y))


def _neg(site: Site, x: Array) -> Array:
    return fit(site.result.element, np.negative(x))


def _abs(site: Site, x: Array) -> Array:
    return fit(site.result.element, np.absolute(x))


def _div(site: Site, x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return np.divide(x, y)
    if x.dtype.kind == "u":
        return np.floor_divide(x, y)  # numpy: 0 for a divisor of 0
    exact = np.subtract(x, np.fmod(x, y))  # a multiple of y, so that rounding down is truncation
    return fit(site.result.element, np.floor_divide(exact, y))


def _remainder(x: Array, y: Array) -> Array:
    return np.where(np.equal(y, 0), x, np.fmod(x, y))


def _rem(site: Site, x: Array, y: Array) -> Array:
    return _remainder(x, y)


def _greater(x: Array, y: Array) -> Array:
    return np.where(np.greater(x, y), x, y)


def _lesser(x: Array, y: Array) -> Array:
    return np.where(np.less(x, y), x, y)


def _max(site: Site, x: Array, y: Array) -> Array:
    return _greater(x, y) if x.dtype.kind == "f" else np.maximum(x, y)


def _min(site: Site, x: Array, y: Array) -> Array:
    return _lesser(x, y) if x.dtype.kind == "f" else np.minimum(x, y)


def _limits(element: Element) -> tuple[Array, Array]:
    return number(element.storage, element.low), number(element.storage, element.high)


def _add_sat(site: Site, x: Array, y: Array) -> Array:
    element = site.result.element
    low, high = _limits(element)
    if element.kind is Kind.UNSIGNED:
        return np.add(np.minimum(x, np.subtract(high, y)), y)
    total = np.add(x, y)
    if element.bits < 8:
        return np.minimum(np.maximum(total, low), high)
    overflows = np.bitwise_and(np.bitwise_xor(x, total), np.bitwise_xor(y, total)) < 0
    return np.where(overflows, np.where(np.less(x, 0), low, high), total)


def _sub_sat(site: Site, x: Array, y: Array) -> Array:
    element = site.result.element
    low, high = _limits(element)
    if element.kind is Kind.UNSIGNED:
        return np.subtract(np.maximum(x, y), y)
    total = np.subtract(x, y)
    if element.bits < 8:
        return np.minimum(np.maximum(total, low), high)
    overflows = np.bitwise_and(np.bitwise_xor(x, y), np.bitwise_xor(x, total)) < 0
    return np.where(overflows, np.where(np.less(x, 0), low, high), total)


_LOW_HALF, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def _mul_high_u64(x: Array, y: Array) -> Array:
    """Return the high 64 bits of the product, from four products of halves (Knuth, TAOCP 2, 4.3.1, algorithm M)."""
    x_low, x_high = np.bitwise_and(x, _LOW_HALF), np.right_shift(x, _HALF)
    y_low, y_high = np.bitwise_and(y, _LOW_HALF), np.right_shift(y, _HALF)
    first = np.add(np.multiply(x_high, y_low), np.right_shift(np.multiply(x_low, y_low), _HALF))
    second = np.add(np.multiply(x_low, y_high), np.bitwise_and(first, _LOW_HALF))
    carried = np.add(np.right_shift(first, _HALF), np.right_shift(second, _HALF))
    return np.add(np.multiply(x_high, y_high), carried)


def _mul_high(site: Site, x: Array, y: Array) -> Array:
    element = site.result.element
    is_signed = element.kind is Kind.SIGNED
    if element.bits < 64:
        wide = "int64" if is_signed else "uint64"
        product = np.multiply(x.astype(wide), y.astype(wide))
        upper: Array = np.right_shift(product, number(wide, element.bits)).astype(element.dtype)
        return upper
    if not is_signed:
        return _mul_high_u64(x, y)
    unsigned = _mul_high_u64(x.astype(np.uint64), y.astype(np.uint64)).astype(np.int64)
    high = np.subtract(unsigned, np.where(np.less(x, 0), y, np.int64(0)))  # x as unsigned is x + 2^64
    return np.subtract(high, np.where(np.less(y, 0), x, np.int64(0)))


def _sqrt(site: Site, x: Array) -> Array:
    return np.sqrt(x)


def _round_even(site: Site, x: Array) -> Array:
    return np.rint(x)


def _floor(site: Site, x: Array) -> Array:
    return np.floor(x)


def _ceil(site: Site, x: Array) -> Array:
    return np.ceil(x)


def _trunc(site: Site, x: Array) -> Array:
    return np.trunc(x)


_ROWS: list[tuple[str, Meaning, Callable[..., Any] | None, TypeRule, str]] = [
    ("add", _add, np.add, _binary, "sum; integers wrap"),
    ("sub", _sub, np.subtract, _binary, "difference; integers wrap"),
    ("mul", _mul, np.multiply, _product, "product; integers wrap"),
    ("div", _div, np.divide, _binary, "quotient; integers truncate, x / 0 = 0, MIN / -1 = MIN"),
    ("rem", _rem, _remainder, _whole_binary, "x - (x / y) * y; sign of x, x % 0 = x"),
    ("neg", _neg, np.negative, _unary, "0 - x; of a float it flips the sign bit"),
    ("abs", _abs, np.absolute, _unary, "magnitude; abs(MIN) = MIN; of a float it clears the sign bit"),
    ("min", _min, _lesser, _binary, "x if x < y else y"),
    ("max", _max, _greater, _binary, "x if x > y else y"),
    ("add_sat", _add_sat, np.add, _whole_binary, "sum, clamped to the type"),
    ("sub_sat", _sub_sat, np.subtract, _whole_binary, "difference, clamped to the type"),
    ("mul_high", _mul_high, None, _whole_binary, "high half of the product in double width"),
    ("sqrt", _sqrt, np.sqrt, _float_unary, "square root; NaN below 0"),
    ("round_even", _round_even, np.rint, _float_unary, "nearest whole number, ties to even; keeps the sign of zero"),
    ("floor", _floor, np.floor, _float_unary, "greatest whole number that is not above; keeps the sign of zero"),
    ("ceil", _ceil, np.ceil, _float_unary, "least whole number that is not below; keeps the sign of zero"),
    ("trunc", _trunc, np.trunc, _float_unary, "whole part; keeps the sign of zero"),
]

for _name, _meaning, _real, _rule, _doc in _ROWS:
    op(_name, _doc, _rule, ideal=None if _real is None else or_real(_meaning, _real))(_meaning)
