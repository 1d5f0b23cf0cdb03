"""Expansions of the conversions."""

from bittern.bitops.expand import Expander
from bittern.bitops.expansions.numbers import as_bits
from bittern.bitops.expansions.table import Call, Outcome, expansion, halved
from bittern.bitops.handle import Handle


@expansion("convert")
def _convert(b: Expander, call: Call) -> Outcome:
    (x,), to = call.operands, call.result
    source = x.type.element
    if x.type.is_mask:
        one: int | float = 1.0 if to.is_float else 1
        return b.select(x, b.const(to, one), b.const(to, one - one))
    if source.name in ("f16", "bf16"):
        return _from_half(b, x, to.element.name)
    if x.type.is_integer and to.is_float:
        return _to_float(b, x, to.element.name)
    if not x.type.is_integer or not to.is_integer or "index" in (source.name, to.element.name):
        return None
    if to.element.bits > 2 * source.bits:
        return x.convert(f"{source.name[0]}{2 * source.bits}").convert(to.element.name)
    return x.convert(f"u{to.element.bits}").reinterpret(to.element.name) if to.is_signed != x.type.is_signed else None


def _from_half(b: Expander, x: Handle, to: str) -> Handle:
    """Move the fields of f16 into those of f32, then scale by 2^112 exactly, which also makes subnormals normal."""
    if to == "f64":
        return halved(x, 64, lambda part: part.convert("f32").convert("f64"))
    wide = x.reinterpret("u16").convert("u32")
    if x.type.element.name == "bf16":
        return (wide << 16).reinterpret("f32")
    size = wide & 0x7FFF
    scaled = as_bits((size << 13).reinterpret("f32") * 2.0**112)
    finite = size < 0x7C00
    bits = b.select(finite, scaled, (size << 13) | 0x7F800000)
    return (bits | ((wide & 0x8000) << 16)).reinterpret("f32")


def _to_float(b: Expander, x: Handle, to: str) -> "Handle | None":
    name, bits = x.type.element.name, x.type.element.bits
    if bits < 32:
        return x.convert("i32").convert(to)
    if name == "u64":
        odd = ((x >> 1) | (x & 1)).wrap("i64").convert(to)  # keeps what rounding looks at
        return b.select(x < 1 << 63, x.wrap("i64").convert(to), odd + odd)
    if name == "u32" and to == "f64":
        return (x ^ 1 << 31).wrap("i32").convert("f64") + 2.0**31
    if to == "f32" and bits == 32:
        return halved(x, 64, lambda part: part.convert("f64").round("f32"))  # exact, then rounded once
    if name == "i32":
        return x.convert("i64").convert(to)
    return x.wrap("i64").convert(to) if name == "index" else None


@expansion("wrap")
def _wrap(b: Expander, call: Call) -> Outcome:
    (x,), to = call.operands, call.result.element
    source = x.type.element
    if "index" in (source.name, to.name):
        return _wrap_index(x, to.name)
    if to.bits == source.bits:
        return x.reinterpret(to.name)
    if to.bits > source.bits:
        return x.convert(f"{source.name[0]}{to.bits}").reinterpret(to.name)
    if x.type.is_scalar or b.target.width == 0:
        return None
    ratio = source.bits // to.bits
    return x.reinterpret(to.name).shuffle([k * ratio for k in range(x.type.count)])


def _wrap_index(x: Handle, to: str) -> "Handle | None":
    if to == "index":
        return x.wrap("i64").convert("index") if x.type.element.name != "i64" else None
    return x.wrap("i64").wrap(to) if to != "i64" else None


@expansion("sat")
def _sat(b: Expander, call: Call) -> Outcome:
    (x,), to = call.operands, call.result.element
    source = x.type.element
    if source.high > to.high:
        x = x.min(to.high)
    if source.low < to.low:
        x = x.max(to.low)
    return x if source.name == to.name else x.wrap(to.name)


@expansion("bits")
def _bits(b: Expander, call: Call) -> Outcome:
    (x,) = call.operands
    bits = as_bits(x)
    if x.type.is_float:
        nan = 0x7FC00000 if x.type.element.bits == 32 else 0x7FF8000000000000
        return b.select(x.eq(x), bits, b.const(bits.type, nan))
    infinite, nan = (0x7C00, 0x7E00) if x.type.element.name == "f16" else (0x7F80, 0x7FC0)
    return b.select((bits & 0x7FFF) <= infinite, bits, b.const(bits.type, nan))


@expansion("round")
def _round(b: Expander, call: Call) -> Outcome:
    (x,), to = call.operands, call.result.element
    if to.name == "f32":
        return None
    if to.is_float:
        return halved(x, 64, lambda part: _narrowed(b, part, to.name))
    if x.type.element.name == "f32":
        if to.bits < 32:
            return x.round("i32").sat(to.name)
        return None if to.name == "i32" else _rounded_wide(x, to.name)
    if to.bits < 64:
        return x.round("i64").sat(to.name)
    return _round_to_u64(b, x) if to.name == "u64" else None


def _rounded_wide(x: Handle, to: str) -> Handle:
    return halved(x, 64, lambda part: part.convert("f64").round(to))


def _round_to_u64(b: Expander, x: Handle) -> Handle:
    """Numbers from 2^63 on are integral, and so is their exact distance from it."""
    large = (x - 2.0**63).round("i64").wrap("u64") ^ 1 << 63
    small = x.round("i64").max(0).wrap("u64")
    return b.select(x < 2.0**63, small, b.select(x.eq(x), large, b.const(small.type, 0)))


def _narrowed(b: Expander, x: Handle, to: str) -> Handle:
    if x.type.element.name == "f64":
        x = _odd_single(b, x)
    u = as_bits(x)
    size, sign = u & 0x7FFFFFFF, (u & 0x80000000) >> 16
    small = _to_f16(b, size) if to == "f16" else (size + 0x7FFF + ((size >> 16) & 1)) >> 16
    nan = 0x7E00 if to == "f16" else 0x7FC0
    code = b.select(size <= 0x7F800000, small | sign, b.const(u.type, nan))
    return code.wrap("u16").reinterpret(to)


def _to_f16(b: Expander, size: Handle) -> Handle:
    """Round the bits of non-negative singles: as integers, or by adding 0.5, whose last bit is 2^-24, if subnormal."""
    normal = (size - (112 << 23) + 0xFFF + ((size >> 13) & 1)) >> 13
    subnormal = as_bits(size.reinterpret("f32") + 0.5) - 0x3F000000
    finite = b.select(size < 113 << 23, subnormal, normal)
    return b.select(size < 143 << 23, finite, b.const(size.type, 0x7C00))


def _odd_single(b: Expander, x: Handle) -> Handle:
    """Round doubles to odd singles (Boldo, Melquiond 2008): rounding these again equals rounding once."""
    near = x.round("f32")
    back = near.convert("f64")
    bits = as_bits(near)
    too_far = x.unary("abs") < back.unary("abs")
    toward = b.select(too_far, bits - 1, bits) | 1
    return b.select(back.eq(x), bits, toward).reinterpret("f32")
