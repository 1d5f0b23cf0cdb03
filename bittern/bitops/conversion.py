"""Kinds that convert between elements; all lane-wise. `to` names the element of the result.

All rounding is to nearest, ties to even, in one step from the given value; overflow gives infinity, subnormals are
kept, a NaN that a conversion to a narrower float gives is the canonical one.
"""

import numpy as np

from bittern.bitops.kernel import Attributes
from bittern.bitops.kinds import Array, Misfit, Rule, Site, Types, kind
from bittern.bitops.lanes import ELEMENTS, Lanes, lanes, unsigned
from bittern.bitops.rules import Fits, is_integer, is_word, need, need_count
from bittern.types.arrays import canonical

_FLOAT_RANK = {"f16": 1, "bf16": 1, "f32": 2, "f64": 3}


def _target(types: Types, attributes: Attributes) -> Lanes:
    need_count(types, 1)
    to = attributes.get("to")
    if to not in ELEMENTS:
        raise Misfit(f"to: {to}", "an element")
    try:
        return types[0].to(to)
    except ValueError as fault:
        raise Misfit(str(fault), "a vector") from None


def _rank(of: Lanes) -> int:
    return _FLOAT_RANK.get(of.element.name, 0)


def _loses_nothing(source: Lanes, to: Lanes) -> bool:
    if source.is_mask:
        return is_word(to) or to.is_float
    if source.is_integer and to.is_integer:
        return to.element.low <= source.element.low and source.element.high <= to.element.high and source != to
    if source.is_integer:
        return to.is_float
    return 0 < _rank(source) < _rank(to)


def _converted(types: Types, attributes: Attributes) -> Types:
    to = _target(types, attributes)
    if not _loses_nothing(types[0], to):
        raise Misfit(f"{types[0]} to {to}", "a type that has every value, or f32, f64 of an integer")
    return (to,)


@kind("convert", "equal value; integers to f32 and f64 round once; a truth gives 0 or 1", _converted)
def _convert(site: Site, x: Array) -> Array:
    if site.operands[0].element.name == "bf16":
        wide = (x.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return wide.astype(site.result.dtype)
    return x.astype(site.result.dtype)


def _between(fits: Fits) -> Rule:
    def rule(types: Types, attributes: Attributes) -> Types:
        to = _target(types, attributes)
        if not (fits(types[0]) and fits(to)):
            raise Misfit(f"{types[0]} to {to}", "two integers")
        return (to,)

    return rule


@kind("wrap", "low bits of an integer", _between(is_integer))
def _wrap(site: Site, x: Array) -> Array:
    return x.astype(site.result.dtype)


@kind("sat", "an integer clamped to the type", _between(is_word))
def _sat(site: Site, x: Array) -> Array:
    source, to = site.operands[0].element, site.result.element
    if source.high > to.high:
        x = np.minimum(x, x.dtype.type(to.high))
    if source.low < to.low:
        x = np.maximum(x, x.dtype.type(to.low))
    return x.astype(site.result.dtype)


def _rounded(types: Types, attributes: Attributes) -> Types:
    to, source = _target(types, attributes), types[0]
    need(source.is_float, source, "f32 or f64")
    need(is_word(to) or 0 < _rank(to) < _rank(source), to, "an integer or a narrower float")
    return (to,)


@kind("round", "float to integer: nearest even, clamped, NaN gives 0; float to narrower float: nearest even", _rounded)
def _round(site: Site, x: Array) -> Array:
    to = site.result.element
    if not to.is_integer:
        return _narrowed(x, to.name)
    near = np.rint(x)
    below, above = near < to.low, near >= 2.0 ** (to.high.bit_length())
    whole = np.where(below | above | np.isnan(near), 0, near).astype(site.result.dtype)
    return np.where(below, whole.dtype.type(to.low), np.where(above, whole.dtype.type(to.high), whole))


def _narrowed(x: Array, to: str) -> Array:
    if to != "bf16":
        return canonical(x.astype(ELEMENTS[to].dtype), ELEMENTS[to])
    finite = np.where(np.isfinite(x), x, 0).astype(np.float64)
    scale = np.maximum(np.frexp(finite)[1] - 8, -133)  # 8 significant bits; the smallest subnormal is 2^-133
    near = np.ldexp(np.rint(np.ldexp(finite, -scale)), scale).astype(np.float32)
    near = np.copysign(near, x).astype(np.float32)
    kept = np.where(np.isinf(x), x.astype(np.float32), near)
    upper = (kept.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), upper)  # what tells a NaN may lie in the lower half alone


def _reinterpreted(types: Types, attributes: Attributes) -> Types:
    need_count(types, 1)
    source, name = types[0], attributes.get("to")
    if name not in ELEMENTS:
        raise Misfit(f"to: {name}", "an element")
    element = ELEMENTS[name]
    is_number = source.bits > 0 and element.bits > 1 and "index" not in (name, source.element.name)
    need(is_number, name, "no truth, no index")
    if source.bits % element.bits:
        raise Misfit(f"{source} as {name}", "a whole number of lanes")
    return (lanes(f"{name}x{source.bits // element.bits}"),)


@kind("reinterpret", "the same bits as other elements, low lane first; the number of lanes may change", _reinterpreted)
def _reinterpret(site: Site, x: Array) -> Array:
    return np.ascontiguousarray(x).view(site.result.dtype)


def _bits_of(types: Types, _: Attributes) -> Types:
    need_count(types, 1)
    need(not types[0].is_integer and not types[0].is_mask, types[0], "a float")
    return (unsigned(types[0]),)


@kind("bits", "a float as an unsigned integer; every NaN becomes the canonical one first", _bits_of)
def _bits(site: Site, x: Array) -> Array:
    return canonical(np.ascontiguousarray(x), site.operands[0].element).view(site.result.dtype)
