"""Expansions of arithmetic, comparison and choice."""

from bittern.bitops.expand import Expander
from bittern.bitops.expansions.table import Call, Outcome, expansion
from bittern.bitops.handle import Handle
from bittern.bitops.lanes import unsigned


def sign_bit(x: Handle) -> int:
    """Return the constant with only the sign bit, of the width of the handle's lanes."""
    return 1 << (x.type.element.bits - 1)


def as_bits(x: Handle) -> Handle:
    """Return the lanes as unsigned integers of equal width."""
    name = unsigned(x.type).element.name
    return x if x.type.element.name == name else x.reinterpret(name)


def with_sign_of(x: Handle, y: Handle) -> Handle:
    """Return floats x with the sign bits of y."""
    bit = sign_bit(x)
    return ((as_bits(x) & (bit - 1)) | (as_bits(y) & bit)).reinterpret(x.type.element.name)


@expansion("neg")
def _neg(b: Expander, call: Call) -> Outcome:
    (x,) = call.operands
    if x.type.is_float:
        return (as_bits(x) ^ sign_bit(x)).reinterpret(x.type.element.name)
    return b.const(x.type, 0) - x


@expansion("abs")
def _abs(b: Expander, call: Call) -> Outcome:
    (x,) = call.operands
    if x.type.is_float:
        return (as_bits(x) & (sign_bit(x) - 1)).reinterpret(x.type.element.name)
    return b.select(x < 0, -x, x)


@expansion("rem")
def _rem(b: Expander, call: Call) -> Outcome:
    x, y = call.operands
    return x - x // y * y


@expansion("min")
def _min(b: Expander, call: Call) -> Outcome:
    x, y = call.operands
    return b.select(x < y, x, y)


@expansion("max")
def _max(b: Expander, call: Call) -> Outcome:
    x, y = call.operands
    return b.select(y < x, x, y)


@expansion("round_even")
def _round_even(b: Expander, call: Call) -> Outcome:
    """Adding 2^23 (2^52) and subtracting it rounds what is smaller; what is larger is integral."""
    (x,) = call.operands
    size = x.unary("abs")
    limit = float(1 << (23 if x.type.element.bits == 32 else 52))
    return b.select(size < limit, with_sign_of(size + limit - limit, x), x)


@expansion("trunc")
def _trunc(b: Expander, call: Call) -> Outcome:
    (x,) = call.operands
    size = x.unary("abs")
    near = size.unary("round_even")
    return with_sign_of(b.select(size < near, near - 1.0, near), x)


@expansion("floor")
def _floor(b: Expander, call: Call) -> Outcome:
    (x,) = call.operands
    near = x.unary("round_even")
    return with_sign_of(b.select(x < near, near - 1.0, near), x)


@expansion("ceil")
def _ceil(b: Expander, call: Call) -> Outcome:
    (x,) = call.operands
    near = x.unary("round_even")
    return with_sign_of(b.select(near < x, near + 1.0, near), x)


@expansion("add_sat")
def _add_sat(b: Expander, call: Call) -> Outcome:
    x, y = call.operands
    total, element = x + y, x.type.element
    if not x.type.is_signed:
        return b.select(total < x, b.const(x.type, element.high), total)
    edge = b.select(x < 0, b.const(x.type, element.low), b.const(x.type, element.high))
    return b.select(((x ^ total) & (y ^ total)) < 0, edge, total)


@expansion("sub_sat")
def _sub_sat(b: Expander, call: Call) -> Outcome:
    x, y = call.operands
    total, element = x - y, x.type.element
    if not x.type.is_signed:
        return b.select(x < y, b.const(x.type, 0), total)
    edge = b.select(x < 0, b.const(x.type, element.low), b.const(x.type, element.high))
    return b.select(((x ^ y) & (x ^ total)) < 0, edge, total)


@expansion("mul_high")
def _mul_high(b: Expander, call: Call) -> Outcome:
    x, y = call.operands
    bits, name = x.type.element.bits, x.type.element.name
    if bits == 64:
        return _mul_high_of_words(b, x, y)
    wide = f"{name[0]}{2 * bits}"
    if x.type.bits * 2 > 512:
        half = x.type.count // 2
        parts = [x.part(k, half).binary("mul_high", y.part(k, half)) for k in (0, half)]
        return b.join(*parts)
    return ((x.convert(wide) * y.convert(wide)) >> bits).wrap(name)


def _mul_high_of_words(b: Expander, x: Handle, y: Handle) -> Handle:
    """Multiply by halves of 32 bits; a signed product differs by the other factor for each negative one."""
    if x.type.is_signed:
        u, v = x.wrap("u64"), y.wrap("u64")
        zero = b.const(u.type, 0)
        high = u.binary("mul_high", v) - b.select(x < 0, v, zero) - b.select(y < 0, u, zero)
        return high.wrap("i64")
    low = 0xFFFFFFFF
    a, c, d, e = x & low, x >> 32, y & low, y >> 32
    middle = c * d + (a * d >> 32)
    return c * e + (middle >> 32) + ((a * e + (middle & low)) >> 32)


@expansion("ne")
def _ne(b: Expander, call: Call) -> Outcome:
    x, y = call.operands
    return ~x.eq(y)


@expansion("le")
def _le(b: Expander, call: Call) -> Outcome:
    x, y = call.operands
    return (x < y) | x.eq(y) if x.type.is_float else ~(y < x)


@expansion("eq")
def _eq(b: Expander, call: Call) -> Outcome:
    x, y = call.operands
    return ~(x ^ y) if x.type.is_mask else None


@expansion("select")
def _select(b: Expander, call: Call) -> Outcome:
    mask, x, y = call.operands
    return (mask & x) | (~mask & y) if x.type.is_mask else None


@expansion("dot4")
def _dot4(b: Expander, call: Call) -> Outcome:
    """The bytes at even and at odd places are pairs of i16; each pair product sums two of a group of four."""
    total, x, y = call.operands
    if b.target.width and "dot2" in b.target.vector:
        u, v = x.reinterpret("i16"), y.reinterpret("i16")
        total = (u & 255).dot((v << 8) >> 8, total)
        return ((u >> 8) & 255).dot(v >> 8, total)
    u, v = x.reinterpret("i32"), y.reinterpret("i32")
    for k in range(4):
        total = total + ((u >> 8 * k) & 255) * ((v << 24 - 8 * k) >> 24)
    return total


@expansion("dot2")
def _dot2(b: Expander, call: Call) -> Outcome:
    total, x, y = call.operands
    u, v = x.reinterpret("i32"), y.reinterpret("i32")
    return total + ((u << 16) >> 16) * ((v << 16) >> 16) + (u >> 16) * (v >> 16)


@expansion("mul_wide")
def _mul_wide(b: Expander, call: Call) -> Outcome:
    x, y = (each.shuffle(range(0, each.type.count, 2)) for each in call.operands)
    return x.convert("i64") * y.convert("i64")


@expansion("popcount")
def _popcount(b: Expander, call: Call) -> Outcome:
    """Sum in fields of 2, 4, 8 bits, then all bytes by a product (Warren, Hacker's Delight, 5-1)."""
    (x,) = call.operands
    bits = x.type.element.bits
    ones = (1 << bits) - 1
    x = x - ((x >> 1) & ones // 3)
    x = (x & ones // 5) + ((x >> 2) & ones // 5)
    x = (x + (x >> 4)) & ones // 17
    return x if bits == 8 else (x * (ones // 255)) >> (bits - 8)


@expansion("clz")
def _clz(b: Expander, call: Call) -> Outcome:
    (x,) = call.operands
    step = 1
    while step < x.type.element.bits:
        x = x | (x >> step)
        step *= 2
    return (~x).unary("popcount")


@expansion("ctz")
def _ctz(b: Expander, call: Call) -> Outcome:
    (x,) = call.operands
    return (~x & (x - 1)).unary("popcount")
