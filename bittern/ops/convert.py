"""Conversions between elements, and between elements and their bits.

`convert` is total where nothing can be lost, and int -> f32 or f64 rounds once. What can lose is written: `wrap` and
`sat` between integers, `round` from floats, `sign` to `b1` and `t`. All rounding is to nearest, ties to even, in one
step from the given value; overflow gives infinity (f8_e4m3, which has none: NaN); subnormals are kept; a NaN becomes
the canonical one.

Sources: IEEE 754-2019; Micikevicius et al. 2022, FP8 formats for deep learning (the OCP 8-bit formats E4M3, E5M2).
"""

from collections.abc import Callable
from functools import cache

import numpy as np

from bittern.ops.arithmetic import fit, number, reals
from bittern.ops.rules import (
    choices,
    is_open,
    need,
    need_any_float,
    need_arithmetic,
    need_element,
    need_tensors,
    open_kind,
)
from bittern.ops.table import Array, Attributes, Meaning, Site, TypeRule, op
from bittern.types.arrays import canonical
from bittern.types.dims import Dim, dim
from bittern.types.elements import BIT, F32, U8, Element, Kind
from bittern.types.faults import ATTRIBUTE_UNFIT, ELEMENT_UNFIT, RANK_UNFIT, SHAPE_MISMATCH, TypeFault
from bittern.types.values import Tensor, Type

# float -> bits of the fraction, exponent of the smallest normal number, code of the largest finite one and of infinity
_FLOATS: dict[str, tuple[int, int, int, int]] = {
    "f8_e4m3": (3, -6, 0x7E, 0x7F),
    "f8_e5m2": (2, -14, 0x7B, 0x7C),
    "f16": (10, -14, 0x7BFF, 0x7C00),
    "bf16": (7, -126, 0x7F7F, 0x7F80),
    "f32": (23, -126, 0x7F7FFFFF, 0x7F800000),
    "f64": (52, -1022, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000),
}


# --- rules


def _loses_nothing(source: Element, to: Element) -> bool:
    """Whether `to` has every value of `source`; integers also count for f32 and f64, where they round once."""
    if source == to:
        return not to.is_format
    if source.is_float and to.is_float:
        (fraction, low, last, _), (wide_fraction, wide_low, wide_last, _) = _FLOATS[source.name], _FLOATS[to.name]
        reaches = (last >> fraction) + low <= (wide_last >> wide_fraction) + wide_low
        return fraction <= wide_fraction and low - fraction >= wide_low - wide_fraction and reaches
    if source.is_integer:
        return to.name in ("f32", "f64") or (to.is_integer and to.low <= source.low and source.high <= to.high)
    if source.kind is Kind.BIT:
        return to.name == "b1" or to.is_integer or to.is_float
    return source.kind is Kind.SIGN and (to.kind is Kind.SIGNED or to.is_float)


def _any_pair(fits: Callable[[Element, Element], bool], source: Element, to: Element) -> bool:
    return any(fits(a, b) for a in choices(source) for b in choices(to))


def _instead(source: Element, to: Element) -> str:
    """Return the hint for a conversion that could lose."""
    if any(e.is_format or open_kind(e) == "format" for e in (source, to)):
        return "a block format is read by its `decode` function, or as bytes with `blocks`"
    if source.is_integer and to.is_integer:
        return f"write `wrap[{to}](x)` for the low bits or `sat[{to}](x)` to clamp"
    if source.is_float and (to.is_integer or to.is_float):
        return f"write `round[{to}](x)`"
    if to.kind is Kind.SIGN and source.kind is not Kind.SIGN:
        return f"write `sign[{to}](x)`, or `from_bits[{to}](x)` if x holds codes"
    if to.kind is Kind.BIT:
        return "write a comparison, as in `x != 0`"
    if source.is_integer and to.is_float:
        return f"write `round[{to}](f32(x))`"
    return f"convert to a signed integer first, as in `i{max(8, to.bits)}(x)`"


def _converted(types: tuple[Type, ...], attributes: Attributes) -> Type:
    (x,), to = need_tensors(types, 1), need_element(attributes)
    if not _any_pair(_loses_nothing, x.element, to):
        raise TypeFault(
            ELEMENT_UNFIT, f"`{to}` of `{x.element}`", "a type that has every value", _instead(x.element, to)
        )
    return Tensor(to, x.shape, x.space)


def _between_integers(types: tuple[Type, ...], attributes: Attributes) -> Type:
    (x,), to = need_tensors(types, 1), need_element(attributes)
    need(x, lambda e: e.is_integer, "an integer", _instead(x.element, to))
    need(Tensor(to), lambda e: e.is_integer, "an integer type")
    return Tensor(to, x.shape, x.space)


def _rounds(source: Element, to: Element) -> bool:
    return source.is_float and (to.is_integer or source == to or (to.is_float and not _loses_nothing(source, to)))


def _rounding(types: tuple[Type, ...], attributes: Attributes) -> Type:
    (x,), to = need_tensors(types, 1), need_element(attributes)
    need_any_float(x)
    if not _any_pair(_rounds, x.element, to):
        hint = f"nothing is lost: write `{to}(x)`" if to.is_float else _instead(x.element, to)
        raise TypeFault(ELEMENT_UNFIT, f"`round[{to}]` of `{x.element}`", "an integer or a narrower float", hint)
    return Tensor(to, x.shape, x.space)


def _signs(types: tuple[Type, ...], attributes: Attributes) -> Type:
    (x,), to = need_tensors(types, 1), need_element(attributes)
    need(Tensor(to), lambda e: e.kind is Kind.SIGN, "`b1` or `t`")
    need_arithmetic(x)
    return Tensor(to, x.shape, x.space)


def _joining(types: tuple[Type, ...], attributes: Attributes) -> Type:
    (x,), to = need_tensors(types, 1), need_element(attributes)
    need(Tensor(to), lambda e: not e.is_format and e.kind is not Kind.BIT, "an integer, a float, `b1` or `t`")
    if not _any_pair(_holds_bits, x.element, to):
        width = "bit` or unsigned code" if to.kind is Kind.SIGN else f"u{to.bits}"
        raise TypeFault(ELEMENT_UNFIT, f"`{x.element}`", f"a `{width}`, or bytes `u8[..., {to.bits // 8}]`")
    if not _takes_bytes(x.element, to):
        return Tensor(to, x.shape, x.space)
    if not x.shape:
        raise TypeFault(RANK_UNFIT, "one byte", f"an array of bytes, {to.bits // 8} for each `{to}`")
    if not is_open(to) and x.shape[-1] != dim(to.bits // 8):
        raise TypeFault(SHAPE_MISMATCH, "a last axis of {0} bytes", f"{to.bits // 8} for `{to}`", dims=(x.shape[-1],))
    return Tensor(to, x.shape[:-1], x.space)


def _holds_bits(source: Element, to: Element) -> bool:
    if to.kind is Kind.SIGN:
        return source.kind is Kind.UNSIGNED or (to.name == "b1" and source == BIT)
    return source.kind is Kind.UNSIGNED and (source.bits == to.bits or (source == U8 and to.bits > 8))


def _takes_bytes(source: Element, to: Element) -> bool:
    return source == U8 and (is_open(to) or to.bits > 8)


def _packing(types: tuple[Type, ...], attributes: Attributes) -> Type:
    (x,), width = need_tensors(types, 1), attributes.get("bits")
    need(x, lambda e: not e.is_format and not e.is_float, "an integer, `bit`, `b1` or `t`")
    most = 8 if is_open(x.element) else min(8, x.element.bits)
    least = most if x.element.kind is Kind.SIGN else 1
    if type(width) is not int or not least <= width <= most:
        raise TypeFault(ATTRIBUTE_UNFIT, f"codes of {width} bits", f"{least} to {most} bits")
    if len(x.shape) != 1:
        raise TypeFault(RANK_UNFIT, f"{len(x.shape)} dimensions", "one", "write a map over the rows")
    return Tensor(U8, (_bytes_for(x.shape[0], width),), x.space)


def _unpacking(types: tuple[Type, ...], attributes: Attributes) -> Type:
    (x,), to, count = need_tensors(types, 1), need_element(attributes), attributes.get("count")
    need(x, lambda e: e == U8, "`u8`")
    need(Tensor(to), lambda e: not e.is_format and not e.is_float and e.bits <= 8, "an integer of at most 8 bits")
    if len(x.shape) != 1:
        raise TypeFault(RANK_UNFIT, f"{len(x.shape)} dimensions", "one", "write a map over the rows")
    if not isinstance(count, Dim) and type(count) is not int:
        raise TypeFault(ATTRIBUTE_UNFIT, "`count` is no dimension", "a dimension")
    count = dim(count)
    if not is_open(to):
        least = _bytes_for(count, to.bits)
        spare = (x.shape[0] - least).constant
        if spare is None or spare < 0:
            raise TypeFault(SHAPE_MISMATCH, "{0} bytes", f"{{1}} for {{2}} `{to}`", dims=(x.shape[0], least, count))
    return Tensor(to, (count,), x.space)


def _bytes_for(count: Dim, width: int) -> Dim:
    return (count * width + 7) // 8


# --- floats and their codes


@cache
def _decoded(name: str) -> Array:
    """Return the 256 values of an 8-bit float. -> [256] f32."""
    fraction, low, last, infinite = _FLOATS[name]
    code = np.arange(128)
    exponent, part = code >> fraction, code & ((1 << fraction) - 1)
    whole = np.where(exponent > 0, part + (1 << fraction), part)
    half = np.ldexp(whole.astype(np.float32), np.maximum(exponent, 1) - 1 + low - fraction)
    half[last + 1 :] = np.nan
    if name == "f8_e5m2":
        half[infinite] = np.inf
    return canonical(np.concatenate([half, -half]), F32)


def widened(element: Element, x: Array) -> Array:
    """Return stored values of a float element as f32, exactly; those of f64 as f64."""
    name = element.name
    if name in ("f32", "f64"):
        return x
    if name == "f16":
        return x.astype(np.float32)
    if name == "bf16":
        return np.left_shift(x.astype(np.uint32), np.uint32(16)).view(np.float32)
    result: Array = _decoded(name)[x]
    return result


def rounded(to: Element, x: Array) -> Array:
    """Round f32 or f64 once to a float element, to nearest even; NaN is canonical. Returns its storage."""
    name = to.name
    if name == "f64":
        return canonical(np.asarray(x, np.float64), to)
    if name in ("f32", "f16"):
        return canonical(x.astype(to.dtype), to)
    if name == "bf16" and x.dtype == np.float32:
        return _bf16(x)
    return _narrow(to, x)


def _bf16(x: Array) -> Array:
    """Round f32 to bf16 in integers: half a unit less one, plus the lowest kept bit, is added."""
    bits = x.view(np.uint32)
    odd = np.bitwise_and(np.right_shift(bits, np.uint32(16)), np.uint32(1))
    near = np.right_shift(np.add(np.add(bits, np.uint32(0x7FFF)), odd), np.uint32(16)).astype(np.uint16)
    return np.where(np.equal(x, x), near, np.uint16(0x7FC0))


def _narrow(to: Element, x: Array) -> Array:
    """Round f32 or f64 to the code of any narrower float.

    In units of the last place of the result's binade (of the subnormals below it) the value is rounded to a whole
    number; codes of one sign are consecutive, so a carry into the next binade is right as it is.
    """
    fraction, low, last, infinite = _FLOATS[to.name]
    size = np.absolute(x.astype(np.float64))
    is_finite = np.isfinite(size)
    size = np.where(is_finite, size, 0.0)
    binade = np.where(size > 0, np.maximum(np.frexp(size)[1] - 1, low), low)
    whole = np.rint(np.ldexp(size, fraction - binade))
    code = whole.astype(np.int64) + ((binade.astype(np.int64) - low) << fraction)
    code = np.where(is_finite & (code <= last), code, infinite)
    code = np.where(np.isnan(x), (1 << (to.bits - 1)) - 1, code)
    code = code | (np.signbit(x).astype(np.int64) << (to.bits - 1))
    return canonical(code.astype(to.dtype), to)


def canonical_bits(element: Element, x: Array) -> Array:
    """Return the bits of stored floats, every NaN as the canonical one. -> unsigned of equal width."""
    unsigned = f"uint{element.bits}"
    return canonical(np.asarray(x), element).view(unsigned)


# --- whole numbers


def nearest_whole(to: Element, x: Array) -> Array:
    """Round f32 or f64 to an integer element, ties to even, clamped to it; NaN gives 0. Returns its storage."""
    whole = np.rint(x)
    if to.bits == 64:
        return _whole_64(to, whole.astype(np.float64))
    if to.bits == 32:
        whole = whole.astype(np.float64)  # f32 has not every bound
    held = whole.dtype.name
    inside = np.minimum(np.maximum(whole, number(held, to.low)), number(held, to.high))
    return np.where(np.equal(inside, inside), inside, number(held, 0)).astype(to.dtype)


def _whole_64(to: Element, whole: Array) -> Array:
    above = float(to.high + 1)  # a power of two; `high` itself is no f64
    fits = np.greater_equal(whole, float(to.low)) & np.less(whole, above)
    inside = np.where(fits, whole, 0.0).astype(to.dtype)
    at_edge = np.where(np.greater_equal(whole, above), number(to.storage, to.high), number(to.storage, to.low))
    return np.where(fits | np.isnan(whole), inside, at_edge)


def _from_codes(to: Element, x: Array) -> Array:
    """Return b1 or t from codes: of b1 the low bit, of t the low two bits (0, 1, 2 are -1, 0, +1, and 3 is 0)."""
    if to.name == "b1":
        low = np.bitwise_and(x, number(x.dtype.name, 1)).astype(np.int8)
        return np.subtract(np.add(low, low), np.int8(1))
    low = np.bitwise_and(x, number(x.dtype.name, 3)).astype(np.int8)
    return np.where(np.equal(low, np.int8(3)), np.int8(0), np.subtract(low, np.int8(1)))


def _encoded(to: Element, x: Array) -> Array:
    """Return numbers that the float element has, in its storage. x: f32, f64 or integers."""
    if to.name in ("f8_e4m3", "f8_e5m2", "bf16"):
        return rounded(to, x.astype(np.float32))
    return x.astype(to.dtype)


# --- meanings


def _convert(site: Site, x: Array) -> Array:
    source, to = site.operands[0].element, site.result.element
    if source == to:
        return x
    if source.is_float:
        return _encoded(to, widened(source, x))
    if to.is_float:
        return _encoded(to, x)
    return _from_codes(to, x) if to.kind is Kind.SIGN else x.astype(to.dtype)


def _wrap(site: Site, x: Array) -> Array:
    to = site.result.element
    return fit(to, x.astype(to.dtype))


def _sat(site: Site, x: Array) -> Array:
    source, to = site.operands[0].element, site.result.element
    if source.low < to.low:
        x = np.maximum(x, number(source.storage, to.low))
    if source.high > to.high:
        x = np.minimum(x, number(source.storage, to.high))
    return x.astype(to.dtype)


def _round(site: Site, x: Array) -> Array:
    source, to = site.operands[0].element, site.result.element
    if source == to:
        return x
    wide = widened(source, x)
    return rounded(to, wide) if to.is_float else nearest_whole(to, wide)


def _sign(site: Site, x: Array) -> Array:
    below = np.less(x, 0).astype(np.int8)
    if site.result.element.name == "b1":
        return np.subtract(np.int8(1), np.add(below, below))
    return np.subtract(np.greater(x, 0).astype(np.int8), below)


def _from_bits(site: Site, x: Array) -> Array:
    source, to = site.operands[0].element, site.result.element
    if to.kind is Kind.SIGN:
        return _from_codes(to, x)
    if _takes_bytes(source, to):
        if x.strides[-1] != 1:
            x = np.ascontiguousarray(x)
        joined: Array = x.view(np.dtype(to.storage).newbyteorder("<"))[..., 0]
        return joined.astype(to.dtype, copy=False)
    return fit(to, x.view(to.dtype))


def _pack(site: Site, x: Array) -> Array:
    width, element = site.attributes["bits"], site.operands[0].element
    codes = x.astype(np.uint8)
    if element.kind is Kind.SIGN:
        codes = np.greater(x, 0).astype(np.uint8) if element.name == "b1" else np.add(x, np.int8(1)).astype(np.uint8)
    bits = np.unpackbits(codes[..., None], axis=-1, count=width, bitorder="little")
    return np.packbits(bits.reshape(*x.shape[:-1], x.shape[-1] * width), axis=-1, bitorder="little")


def _unpack(site: Site, x: Array) -> Array:
    to, count = site.result.element, site.shape[0]
    bits = np.unpackbits(x, axis=-1, count=count * to.bits, bitorder="little")
    codes = np.packbits(bits.reshape(*x.shape[:-1], count, to.bits), axis=-1, bitorder="little")[..., 0]
    if to.kind is Kind.SIGN:
        return _from_codes(to, codes)
    return codes.astype(bool) if to.kind is Kind.BIT else fit(to, codes.view(to.dtype))


# --- ideal meanings: every float is float64, and what is typed as an integer may be too


def _ideal_convert(site: Site, x: Array) -> Array:
    if site.operands[0].element.is_float:
        return reals(x)
    if x.dtype.kind == "f" or site.result.element.is_float:
        return x.astype(np.float64)  # always new: only a float may be a view of a float
    return _convert(site, x)


def _ideal_between(meaning: Meaning) -> Meaning:
    return lambda site, x: x.astype(np.float64) if x.dtype.kind == "f" else meaning(site, x)


def _ideal_round(site: Site, x: Array) -> Array:
    to = site.result.element
    return reals(x) if to.is_float else nearest_whole(to, reals(x))


def _ideal_from_bits(site: Site, x: Array) -> Array:
    source, to = site.operands[0].element, site.result.element
    stored = _from_bits(site, nearest_whole(source, x) if x.dtype.kind == "f" else x)
    return widened(to, stored).astype(np.float64) if to.is_float else stored


def _ideal_pack(site: Site, x: Array) -> Array:
    return _pack(site, nearest_whole(site.operands[0].element, x) if x.dtype.kind == "f" else x)


def _ideal_unpack(site: Site, x: Array) -> Array:
    return _unpack(site, nearest_whole(U8, x) if x.dtype.kind == "f" else x)


_ROWS: list[tuple[str, Meaning, Meaning | None, TypeRule, str]] = [
    ("convert", _convert, _ideal_convert, _converted, "the same value; int -> float rounds once to nearest even"),
    ("wrap", _wrap, _ideal_between(_wrap), _between_integers, "the low bits of an integer"),
    ("sat", _sat, _ideal_between(_sat), _between_integers, "an integer, clamped to the type"),
    ("round", _round, _ideal_round, _rounding, "nearest even; to an integer clamped, NaN gives 0"),
    ("sign", _sign, None, _signs, "b1: -1 below 0, else +1; t: -1, 0 or +1, NaN gives 0"),
    ("from_bits", _from_bits, _ideal_from_bits, _joining, "the value of these bits, or bytes, the low one first"),
    ("pack", _pack, _ideal_pack, _packing, "codes of k bits as bytes, element 0 in the low bits"),
    ("unpack", _unpack, _ideal_unpack, _unpacking, "the first codes of k bits in bytes, element 0 in the low bits"),
]

for _name, _meaning, _ideal, _rule, _doc in _ROWS:
    op(_name, _doc, _rule, ideal=_ideal)(_meaning)
