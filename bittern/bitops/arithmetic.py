"""Kinds of arithmetic, comparison and choice; all lane-wise.

Integers wrap modulo 2^width, two's complement. Floats (f32, f64) are IEEE 754, each operation rounded once to nearest
even, subnormals kept. The bits of a NaN that arithmetic makes are not stated (chips differ): `bits` makes it canonical.
"""

import numpy as np

from bittern.bitops.kernel import Attributes
from bittern.bitops.kinds import Array, Site, Types, kind
from bittern.bitops.rules import (
    compared,
    is_comparable,
    is_float,
    is_integer,
    is_number,
    is_signed_number,
    is_word,
    need,
    need_count,
    same,
)


@kind("add", "x + y", same(2, is_number))
def _add(_: Site, x: Array, y: Array) -> Array:
    return x + y


@kind("sub", "x - y", same(2, is_number))
def _sub(_: Site, x: Array, y: Array) -> Array:
    return x - y


@kind("mul", "x * y", same(2, is_number))
def _mul(_: Site, x: Array, y: Array) -> Array:
    return x * y


@kind("neg", "0 - x for integers; the flipped sign bit for floats", same(1, is_signed_number))
def _neg(_: Site, x: Array) -> Array:
    return -x


@kind("div", "x / y; integers truncate, x / 0 = 0, MIN / -1 = MIN", same(2, is_number))
def _div(site: Site, x: Array, y: Array) -> Array:
    return x / y if site.result.is_float else _quotient(x, y)


def _quotient(x: Array, y: Array) -> Array:
    if x.dtype.kind == "u":
        return np.asarray(np.where(y == 0, y, x // np.where(y == 0, y.dtype.type(1), y)))
    plain = np.where((y == 0) | (y == -1), y.dtype.type(1), y)
    floor = x // plain
    towards_zero = floor + ((floor * plain != x) & ((x < 0) != (plain < 0))).astype(x.dtype)
    result: Array = np.where(y == 0, y, np.where(y == -1, -x, towards_zero))
    return result


@kind("rem", "x - (x / y) * y; sign of x, x % 0 = x", same(2, is_integer))
def _rem(_: Site, x: Array, y: Array) -> Array:
    rest: Array = x - _quotient(x, y) * y
    return rest


@kind("abs", "magnitude; abs(MIN) = MIN, floats lose their sign bit", same(1, is_signed_number))
def _abs(site: Site, x: Array) -> Array:
    return np.abs(x) if site.result.is_float else np.where(x < 0, -x, x)


@kind("min", "x if x < y else y", same(2, is_number))
def _min(_: Site, x: Array, y: Array) -> Array:
    return np.where(x < y, x, y)


@kind("max", "x if x > y else y", same(2, is_number))
def _max(_: Site, x: Array, y: Array) -> Array:
    return np.where(x > y, x, y)


@kind("sqrt", "square root, rounded once; negative gives NaN", same(1, is_float))
def _sqrt(_: Site, x: Array) -> Array:
    return np.sqrt(x)


@kind("round_even", "nearest integral value, ties to even; keeps the sign of zero", same(1, is_float))
def _round_even(_: Site, x: Array) -> Array:
    return np.rint(x)


@kind("floor", "largest integral value not above x; keeps the sign of zero", same(1, is_float))
def _floor(_: Site, x: Array) -> Array:
    return np.floor(x)


@kind("ceil", "smallest integral value not below x; keeps the sign of x", same(1, is_float))
def _ceil(_: Site, x: Array) -> Array:
    return np.ceil(x)


@kind("trunc", "integral part of x; keeps the sign of x", same(1, is_float))
def _trunc(_: Site, x: Array) -> Array:
    return np.trunc(x)


@kind("add_sat", "x + y, clamped to the type", same(2, is_word))
def _add_sat(site: Site, x: Array, y: Array) -> Array:
    total = x + y
    most, least = x.dtype.type(site.result.element.high), x.dtype.type(site.result.element.low)
    if not site.result.is_signed:
        return np.where(total < x, most, total)
    return np.asarray(np.where(((x ^ total) & (y ^ total)) < 0, np.where(x < 0, least, most), total))


@kind("sub_sat", "x - y, clamped to the type", same(2, is_word))
def _sub_sat(site: Site, x: Array, y: Array) -> Array:
    total = x - y
    most, least = x.dtype.type(site.result.element.high), x.dtype.type(site.result.element.low)
    if not site.result.is_signed:
        return np.where(x < y, least, total)
    return np.where(((x ^ y) & (x ^ total)) < 0, np.where(x < 0, least, most), total)


@kind("mul_high", "high half of the product of double width", same(2, is_word))
def _mul_high(site: Site, x: Array, y: Array) -> Array:
    bits = site.result.element.bits
    if bits < 64:
        wide = np.int64 if site.result.is_signed else np.uint64
        return np.asarray((x.astype(wide) * y.astype(wide)) >> wide(bits)).astype(x.dtype)
    return np.array([(int(a) * int(b)) >> 64 for a, b in zip(x, y, strict=True)], dtype=x.dtype)


@kind("eq", "x = y; no NaN is equal to anything, -0 = +0", compared(is_comparable))
def _eq(_: Site, x: Array, y: Array) -> Array:
    return np.asarray(x == y)


@kind("ne", "not x = y", compared(is_comparable))
def _ne(_: Site, x: Array, y: Array) -> Array:
    return np.asarray(x != y)


@kind("lt", "x < y", compared(is_number))
def _lt(_: Site, x: Array, y: Array) -> Array:
    return np.asarray(x < y)


@kind("le", "x <= y", compared(is_number))
def _le(_: Site, x: Array, y: Array) -> Array:
    return np.asarray(x <= y)


def _chosen(types: Types, _: Attributes) -> Types:
    need_count(types, 3)
    need(types[1] == types[2], f"{types[1]}, {types[2]}", "two operands of one type")
    need(types[0] == types[1].mask, types[0], f"{types[1].mask}")
    return types[1:2]


@kind("select", "y where the mask x is set, else z; bits pass unchanged", _chosen)
def _select(_: Site, x: Array, y: Array, z: Array) -> Array:
    return np.where(x, y, z)
