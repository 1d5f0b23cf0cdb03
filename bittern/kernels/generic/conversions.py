"""Conversions between elements, on scalars and vectors: rows as in `scalars`, with the meanings of `bittern.ops`."""

import numpy as np
import numpy.typing as npt

from bittern.bitops.handle import Handle
from bittern.bitops.lanes import lanes
from bittern.kernels.generic.emitter import Emitter, TooWideError
from bittern.kernels.generic.scalars import ROWS as SCALARS
from bittern.kernels.generic.scalars import Row, Where, canonical_byte, fit, register
from bittern.types.elements import Element, Kind

# 8-bit float -> bits of the fraction, exponent of the least normal number, codes of the largest finite one and infinity
_BYTES = {"f8_e4m3": (3, -6, 0x7E, 0x7F), "f8_e5m2": (2, -14, 0x7B, 0x7C)}


def number(e: Emitter, x: Handle, to: str) -> Handle:
    """Return an integer that is held in one element in another one that has its value."""
    source, target = x.type.element, lanes(to).element
    if source.name == to:
        return x
    if target.low <= source.low and source.high <= target.high:
        return x.convert(to)
    return x.wrap(to)


def _resized(e: Emitter, x: Handle, to: str) -> Handle:
    """Convert, where the vector of the result exists."""
    if lanes(to).bits * x.type.count > 512:
        raise TooWideError
    return x.convert(to)


def widened(e: Emitter, element: Element, x: Handle) -> Handle:
    """Return the value of any float as f32, that of f64 as f64."""
    if element.name in ("f32", "f64"):
        return x
    if element.name in ("f16", "bf16"):
        return _half(e, element.name, x)
    if element.name == "f8_e5m2":
        return (x.convert("u16") << 8).reinterpret("f16").convert("f32")
    high = (x & 0x80).convert("u16") << 8
    value = (((x & 0x7F).convert("u16") << 7) | high).reinterpret("f16").convert("f32") * 256.0
    return e.choose((x & 0x7F).eq(0x7F), nan(e, value), value)


def nan(e: Emitter, like: Handle) -> Handle:
    """Return the canonical NaN of a type."""
    bits = {"f32": 0x7FC00000, "f64": 0x7FF8 << 48}[like.type.element.name]
    return e.const(f"u{like.type.element.bits}", bits).reinterpret(like.type.element.name).broadcast(like.type.count)


def _half(e: Emitter, name: str, x: Handle) -> Handle:
    step = e.makers.get(x.value)
    if step is not None and step.kind == "load":
        buffer = step.attributes["buffer"]
        key = ("load", step.operands, tuple(sorted(step.attributes.items())), e.version(buffer))
        if e.recall(key) is not None:  # nothing was stored since
            of = lanes(name).of(x.type.count)
            found = e.emit("load", step.operands, {**step.attributes, "type": of})
            return Handle(e, found[0]).convert("f32")
    return x.reinterpret(name).convert("f32")


def narrowed(e: Emitter, to: Element, x: Handle) -> Handle:
    """Round f32 or f64 once to a narrower float."""
    if to.name == x.type.element.name:
        return x
    if to.name in ("f8_e4m3", "f8_e5m2"):
        return _byte(e, to, x)
    rounded = x.round(to.name)
    return rounded.reinterpret("u16") if to.name in ("f16", "bf16") else rounded


def _byte(e: Emitter, to: Element, x: Handle) -> Handle:
    """Round to the code of an 8-bit float: to a whole number of units of the result's binade, as `ops.convert` does."""
    fraction, low, last, infinite = _BYTES[to.name]
    wide = x if x.type.element.name == "f64" else _resized(e, x, "f64")
    size = wide.unary("abs")
    bits = size.reinterpret("u64")
    is_nan = wide.ne(wide)
    is_finite = e.apply("lt", bits, e.like(bits, 0x7FF << 52))
    size = e.choose(is_finite, size, e.like(size, 0.0))
    binade = e.apply("sub", (size.reinterpret("u64") >> 52).reinterpret("i64"), e.const("i64", 1023))
    binade = e.apply("max", binade, e.like(binade, low))
    scale = (e.apply("sub", e.like(binade, fraction + 1023), binade) << 52).reinterpret("f64")
    whole = (size * scale).unary("round_even").round("i64")
    code = whole + (e.apply("sub", binade, e.like(binade, low)) << fraction)
    fits = e.apply("le", code, e.like(code, last))
    code = e.choose(e.apply("and", is_finite, fits), code, e.like(code, infinite))
    code = e.choose(is_nan, e.like(code, 0x7F), code)
    sign = (wide.reinterpret("u64") >> 63 << 7).reinterpret("i64")
    return canonical_byte(e, to.name, e.apply("or", code, sign).wrap("u8"))


def _of_codes(e: Emitter, to: Element, x: Handle) -> Handle:
    """Return b1 or t from codes in registers."""
    low = (x & (1 if to.name == "b1" else 3)).wrap("i8") if x.type.element.name != "i8" else x & 3
    if to.name == "b1":
        return low + low - e.like(low, 1)
    return e.choose(low.eq(3), e.like(low, 0), low - e.like(low, 1))


def _of_truth(e: Emitter, to: Element, x: Handle) -> Handle:
    """Return 0 and 1, of b1 -1 and +1."""
    if to.name == "b1":
        ones = x.convert("i8")
        return ones + ones - e.like(ones, 1)
    if not to.is_float or to.name in ("f32", "f64"):
        return _resized(e, x, register(to))
    one = {"f16": 0x3C00, "bf16": 0x3F80, "f8_e4m3": 0x38, "f8_e5m2": 0x3C}[to.name]
    of = register(to)
    return e.choose(x, e.const(of, one), e.const(of, 0))


def _convert(e: Emitter, w: Where, x: Handle) -> Handle:
    source, to = w.operands[0], w.result
    if source == to:
        return x
    if source.kind is Kind.BIT:
        return _of_truth(e, to, x)
    if source.is_float:
        wide = widened(e, source, x)
        if to.name == "f64":
            return _resized(e, wide, "f64")
        return narrowed(e, to, wide)
    if to.name in ("f32", "f64"):
        return _resized(e, x, to.name)
    if to.is_float:  # of b1, t
        return narrowed(e, to, _resized(e, x, "f32"))
    return number(e, x, register(to))


def _wrap(e: Emitter, w: Where, x: Handle) -> Handle:
    to = register(w.result)
    return fit(e, w.result, x if x.type.element.name == to else x.wrap(to))


def _sat(e: Emitter, w: Where, x: Handle) -> Handle:
    source, to = w.operands[0], w.result
    if source.low < to.low:
        x = e.apply("max", x, e.like(x, to.low))
    if source.high > to.high:
        x = e.apply("min", x, e.like(x, to.high))
    return number(e, x, register(to))


def _round(e: Emitter, w: Where, x: Handle) -> Handle:
    source, to = w.operands[0], w.result
    if source == to:
        return x
    wide = widened(e, source, x)
    if to.is_float:
        return narrowed(e, to, wide)
    whole = wide.round(register(to))
    if to.bits >= 8:
        return whole
    whole = e.apply("min", whole, e.like(whole, to.high))
    return e.apply("max", whole, e.like(whole, to.low)) if to.low else whole


def _sign(e: Emitter, w: Where, x: Handle) -> Handle:
    below = e.apply("lt", x, e.like(x, 0))
    minus, zero, plus = (e.const("i8", n) for n in (-1, 0, 1))
    if w.result.name == "b1":
        return e.choose(below, minus, plus)
    above = e.apply("lt", e.like(x, 0), x)
    return e.choose(below, minus, e.choose(above, plus, zero))


def from_word(e: Emitter, to: Element, x: Handle) -> Handle:
    """Return the value whose bits an unsigned word of equal width has."""
    held = register(to)
    if x.type.element.name != held:
        x = x.reinterpret(held) if lanes(held).bits == x.type.element.bits else x.wrap(held)
    return fit(e, to, x)


def _from_bits(e: Emitter, w: Where, x: Handle) -> Handle:
    if w.result.kind is not Kind.SIGN:
        return from_word(e, w.result, x)
    if w.operands[0].kind is Kind.BIT:
        return _of_truth(e, w.result, x)
    return _of_codes(e, w.result, x)


def code_of(e: Emitter, element: Element, x: Handle, width: int) -> Handle:
    """Return the code of a value that `pack` puts into bytes, as u8."""
    if element.kind is Kind.BIT:
        return x.convert("u8")
    if element.name == "b1":
        return e.apply("lt", e.like(x, 0), x).convert("u8")
    if element.name == "t":
        return (x + e.like(x, 1)).wrap("u8")
    byte = x if x.type.element.name == "u8" else x.wrap("u8")
    return byte & ((1 << width) - 1) if width < 8 else byte


def value_of(e: Emitter, element: Element, code: Handle) -> Handle:
    """Return the value of a code that `unpack` finds in bytes. code: u8."""
    if element.kind is Kind.SIGN:
        return _of_codes(e, element, code)
    if element.kind is Kind.BIT:
        return code.ne(0)
    return from_word(e, element, code)


ROWS: dict[str, Row] = {
    **SCALARS,
    "convert": _convert,
    "wrap": _wrap,
    "sat": _sat,
    "round": _round,
    "sign": _sign,
    "from_bits": _from_bits,
}


def constant(e: Emitter, element: Element, value: "npt.ArrayLike") -> Handle:
    """Return a constant from its stored form."""
    held = register(element)
    if element.kind is Kind.BIT:
        return e.const("bit", bool(value))
    bits = int(np.asarray(value).view(f"u{np.asarray(value).itemsize}"))
    return e.make("const", type=lanes(held), bits=(bits,))
