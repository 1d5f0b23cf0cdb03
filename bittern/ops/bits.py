"""Ops on bits, element by element: of unsigned integers of any width, some of signed ones and of `bit` too.

Widths of 2 to 7 bits live in one byte; counts, rotations and reversals are of the element's own width.
"""

from collections.abc import Callable

import numpy as np

from bittern.ops.arithmetic import fit, number
from bittern.ops.convert import canonical_bits, nearest_whole, rounded
from bittern.ops.rules import (
    is_open,
    need_any_float,
    need_bitwise,
    need_integer,
    need_tensors,
    need_u32,
    need_unsigned,
    same,
    same_shape,
    same_space,
)
from bittern.ops.table import Array, Attributes, Meaning, Site, TypeRule, op
from bittern.types.elements import ELEMENTS, Element, open_element
from bittern.types.values import Tensor, Type

# --- rules


def _bitwise_binary(types: tuple[Type, ...], attributes: Attributes) -> Type:
    for operand in need_tensors(types, 2):
        need_bitwise(operand)
    return same(types)


def _bitwise_unary(types: tuple[Type, ...], attributes: Attributes) -> Type:
    return need_bitwise(need_tensors(types, 1)[0])


def _word(types: tuple[Type, ...], attributes: Attributes) -> Type:
    return need_unsigned(need_tensors(types, 1)[0])


def _masked(types: tuple[Type, ...], attributes: Attributes) -> Type:
    for operand in need_tensors(types, 2):
        need_unsigned(operand)
    return same(types)


def _shift(types: tuple[Type, ...], attributes: Attributes) -> Type:
    x, count = need_tensors(types, 2)
    need_integer(x)
    need_u32(count)
    same_shape(x, count)
    return Tensor(x.element, x.shape, same_space(types))


def _rotation(types: tuple[Type, ...], attributes: Attributes) -> Type:
    need_unsigned(need_tensors(types, 2)[0])
    return _shift(types, attributes)


def _float_bits(types: tuple[Type, ...], attributes: Attributes) -> Type:
    x = need_any_float(need_tensors(types, 1)[0])
    return Tensor(bits_of(x.element), x.shape, x.space)


def bits_of(element: Element) -> Element:
    """Return the unsigned element of a float's width; of an open float an open integer."""
    if is_open(element):
        return open_element(f"bits({element})", "int")
    return ELEMENTS[f"u{element.bits}"]


# --- meanings


def _and(site: Site, x: Array, y: Array) -> Array:
    return np.bitwise_and(x, y)


def _or(site: Site, x: Array, y: Array) -> Array:
    return np.bitwise_or(x, y)


def _xor(site: Site, x: Array, y: Array) -> Array:
    return np.bitwise_xor(x, y)


def _not(site: Site, x: Array) -> Array:
    return fit(site.result.element, np.invert(x))


def _shl(site: Site, x: Array, count: Array) -> Array:
    element = site.result.element
    return fit(element, np.left_shift(x, _at_most_width(element, count)))  # numpy: 0 from the storage's width on


def _shr(site: Site, x: Array, count: Array) -> Array:
    return np.right_shift(x, _at_most_width(site.result.element, count))  # numpy: sign bits or 0 from there on


def _at_most_width(element: Element, count: Array) -> Array:
    return np.minimum(count, np.uint32(element.bits)).astype(element.dtype)


def _rotl(site: Site, x: Array, count: Array) -> Array:
    element = site.result.element
    return _rotated(element, x, np.remainder(count, np.uint32(element.bits)).astype(element.dtype))


def _rotr(site: Site, x: Array, count: Array) -> Array:
    element = site.result.element
    width = np.uint32(element.bits)
    left = np.subtract(width, np.remainder(count, width))  # 1 to width; both shifts by the width give 0
    return _rotated(element, x, left.astype(element.dtype))


def _rotated(element: Element, x: Array, left: Array) -> Array:
    right = np.subtract(number(element.storage, element.bits), left)
    return fit(element, np.bitwise_or(np.left_shift(x, left), np.right_shift(x, right)))


def _repeated(element: Element, byte: int) -> Array:
    size = max(8, element.bits) // 8
    return number(element.storage, int.from_bytes(bytes([byte]) * size, "little"))


def count_in_parallel(element: Element, x: Array) -> Array:
    """Count the ones of each word: in pairs, nibbles, bytes, then all bytes by one product (Hacker's Delight, 5-1)."""
    one, two, four = (number(element.storage, n) for n in (1, 2, 4))
    pairs = np.subtract(x, np.bitwise_and(np.right_shift(x, one), _repeated(element, 0x55)))
    mask = _repeated(element, 0x33)
    nibbles = np.add(np.bitwise_and(pairs, mask), np.bitwise_and(np.right_shift(pairs, two), mask))
    per_byte = np.bitwise_and(np.add(nibbles, np.right_shift(nibbles, four)), _repeated(element, 0x0F))
    total = np.multiply(per_byte, _repeated(element, 0x01))
    return np.right_shift(total, number(element.storage, max(8, element.bits) - 8))


_BUILT_IN: Callable[[Array], Array] | None = getattr(np, "bitwise_count", None)  # numpy 2


def _ones(element: Element, x: Array) -> Array:
    if _BUILT_IN is None:
        return count_in_parallel(element, x)
    return _BUILT_IN(x).astype(element.dtype)


def _popcount(site: Site, x: Array) -> Array:
    return _ones(site.result.element, x)


def _clz(site: Site, x: Array) -> Array:
    element = site.result.element
    step = 1
    while step < element.bits:  # every bit below the highest one becomes 1
        x = np.bitwise_or(x, np.right_shift(x, number(element.storage, step)))
        step *= 2
    return np.subtract(number(element.storage, element.bits), _ones(element, x))


def _ctz(site: Site, x: Array) -> Array:
    element = site.result.element
    below = np.subtract(np.bitwise_and(x, np.negative(x)), number(element.storage, 1))  # of 0: all ones
    return np.minimum(_ones(element, below), number(element.storage, element.bits))


def _reverse_bits(site: Site, x: Array) -> Array:
    element = site.result.element
    for step, mask in ((1, 0x55), (2, 0x33), (4, 0x0F)):
        by, kept = number(element.storage, step), _repeated(element, mask)
        x = np.bitwise_or(np.bitwise_and(np.right_shift(x, by), kept), np.left_shift(np.bitwise_and(x, kept), by))
    if element.bits < 8:
        return np.right_shift(x, number(element.storage, 8 - element.bits))
    return x.byteswap()


def _reverse_bytes(site: Site, x: Array) -> Array:
    return x if site.result.element.bits <= 8 else x.byteswap()


def _extract(site: Site, x: Array, mask: Array) -> Array:
    element = site.result.element
    one = number(element.storage, 1)
    result, place = np.bitwise_and(x, number(element.storage, 0)), np.bitwise_and(mask, number(element.storage, 0))
    for bit in range(element.bits):
        at = number(element.storage, bit)
        chosen = np.bitwise_and(np.right_shift(mask, at), one)
        value = np.bitwise_and(np.bitwise_and(np.right_shift(x, at), one), chosen)
        result = np.bitwise_or(result, np.left_shift(value, place))
        place = np.add(place, chosen)
    return result


def _deposit(site: Site, x: Array, mask: Array) -> Array:
    element = site.result.element
    one = number(element.storage, 1)
    result, place = np.bitwise_and(x, number(element.storage, 0)), np.bitwise_and(mask, number(element.storage, 0))
    for bit in range(element.bits):
        at = number(element.storage, bit)
        chosen = np.bitwise_and(np.right_shift(mask, at), one)
        value = np.bitwise_and(np.bitwise_and(np.right_shift(x, place), one), chosen)
        result = np.bitwise_or(result, np.left_shift(value, at))
        place = np.add(place, chosen)
    return result


def _bits(site: Site, x: Array) -> Array:
    return canonical_bits(site.operands[0].element, x)


def _ideal_bits(site: Site, x: Array) -> Array:
    element = site.operands[0].element
    return canonical_bits(element, rounded(element, x.astype(np.float64)))


def _on_integers(meaning: Meaning) -> Meaning:
    """Return the ideal meaning of an op on bits: reals that stand for integers are rounded to their element first."""

    def ideal(site: Site, *operands: Array) -> Array:
        whole = (
            nearest_whole(type_.element, x) if x.dtype.kind == "f" else x
            for type_, x in zip(site.operands, operands, strict=True)
        )
        return meaning(site, *whole)

    return ideal


_ROWS: list[tuple[str, Meaning, TypeRule, str]] = [
    ("and", _and, _bitwise_binary, "bits that both have"),
    ("or", _or, _bitwise_binary, "bits that either has"),
    ("xor", _xor, _bitwise_binary, "bits that one of both has"),
    ("not", _not, _bitwise_unary, "every bit flipped"),
    ("shl", _shl, _shift, "shift to the left; 0 from a count of the width on"),
    (
        "shr",
        _shr,
        _shift,
        "shift to the right; 0, or all sign bits of a signed one, from a count of the width on",
    ),
    ("rotl", _rotl, _rotation, "rotation to the left; count modulo width"),
    ("rotr", _rotr, _rotation, "rotation to the right; count modulo width"),
    ("popcount", _popcount, _word, "number of ones"),
    ("clz", _clz, _word, "zeros above the highest one; of 0 the width"),
    ("ctz", _ctz, _word, "zeros below the lowest one; of 0 the width"),
    ("reverse_bits", _reverse_bits, _word, "bits in the opposite order"),
    ("reverse_bytes", _reverse_bytes, _word, "bytes in the opposite order"),
    ("extract", _extract, _masked, "the bits where the mask has ones, moved together at the low end"),
    ("deposit", _deposit, _masked, "the low bits, spread to where the mask has ones"),
]

for _name, _meaning, _rule, _doc in _ROWS:
    op(_name, _doc, _rule, ideal=_on_integers(_meaning))(_meaning)
op("bits", "the bits of a float as unsigned; every NaN as the canonical one", _float_bits, ideal=_ideal_bits)(_bits)
