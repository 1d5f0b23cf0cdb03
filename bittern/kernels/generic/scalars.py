"""How values live in registers, and element-wise ops on them: one row each, on scalars and vectors alike.

Integers of 2 to 7 bits, `b1` and `t` are held as u8 or i8, f16 and bf16 as u16, the 8-bit floats as u8, `bit` as a
truth. A row gets operands with equally many lanes, or scalars among vectors. Meanings are those of `bittern.ops`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from bittern.bitops.handle import Handle
from bittern.bitops.lanes import unsigned
from bittern.kernels.generic.emitter import Emitter
from bittern.types.elements import Element, Kind

_HELD = {"f16": "u16", "bf16": "u16", "f8_e4m3": "u8", "f8_e5m2": "u8", "b1": "i8", "t": "i8"}
NANS = {"f8_e4m3": (0x7E, 0x7F), "f8_e5m2": (0x7C, 0x7E)}  # largest magnitude that is no NaN, the canonical NaN


@dataclass(frozen=True, slots=True)
class Where:
    """What a row is told: elements of the operands and the result, and the node's attributes."""

    operands: tuple[Element, ...]
    result: Element
    attributes: Mapping[str, Any]


Row: TypeAlias = Callable[..., Handle]  # (emitter, where, *operands) -> result


def register(element: Element) -> str:
    """Return the element of bitops in which a value is held."""
    if element.kind is Kind.FORMAT:
        return "u8"
    if element.is_integer and element.bits < 8:
        return "u8" if element.kind is Kind.UNSIGNED else "i8"
    return _HELD.get(element.name, element.name)


def stored(element: Element) -> str:
    """Return the element of a buffer that holds such values."""
    return "u8" if element.kind is Kind.BIT else element.name if element.name in ("f16", "bf16") else register(element)


def fit(e: Emitter, element: Element, x: Handle) -> Handle:
    """Bring an integer back to the width of its element."""
    if not element.is_integer or element.bits >= 8:
        return x
    if element.kind is Kind.UNSIGNED:
        return e.apply("and", x, e.like(x, element.high))
    count = 8 - element.bits
    return (x << count) >> count


def _plain(kind: str) -> Row:
    return lambda e, w, *x: fit(e, w.result, e.apply(kind, *x))


def _neg(e: Emitter, w: Where, x: Handle) -> Handle:
    if w.result.kind is Kind.UNSIGNED:
        return fit(e, w.result, e.like(x, 0) - x)
    return fit(e, w.result, -x)


def _abs(e: Emitter, w: Where, x: Handle) -> Handle:
    return x if w.result.kind is Kind.UNSIGNED else fit(e, w.result, x.unary("abs"))


def _add_sat(e: Emitter, w: Where, x: Handle, y: Handle) -> Handle:
    if w.result.bits >= 8:
        return e.apply("add_sat", x, y)
    return _clamped(e, w.result, e.apply("add", x, y))


def _sub_sat(e: Emitter, w: Where, x: Handle, y: Handle) -> Handle:
    if w.result.bits >= 8 or w.result.kind is Kind.UNSIGNED:
        return e.apply("sub_sat", x, y)
    return _clamped(e, w.result, e.apply("sub", x, y))


def _clamped(e: Emitter, element: Element, x: Handle) -> Handle:
    """Clamp what is held in a byte to an element of fewer bits."""
    inside = e.apply("min", x, e.like(x, element.high))
    return e.apply("max", inside, e.like(x, element.low)) if element.low else inside


def _mul_high(e: Emitter, w: Where, x: Handle, y: Handle) -> Handle:
    if w.result.bits >= 8:
        return e.apply("mul_high", x, y)
    wide = "u16" if w.result.kind is Kind.UNSIGNED else "i16"
    return (e.apply("mul", x.convert(wide), y.convert(wide)) >> w.result.bits).wrap(register(w.result))


# --- bits


def _not(e: Emitter, w: Where, x: Handle) -> Handle:
    return fit(e, w.result, ~x)


def counts(x: Handle, count: Handle, modulo: bool) -> Handle:
    """Return counts of u32 in the width of what is shifted: clamped, or modulo a power of two."""
    to = unsigned(x.type).element.name
    if to == "u64":
        return count.convert(to)
    if to == "u32":
        return count
    return count.wrap(to) if modulo else count.sat(to)


def _shift(kind: str) -> Row:
    return lambda e, w, x, count: fit(e, w.result, e.apply(kind, x, counts(x, count, False)))


def _rotation(kind: str) -> Row:
    def row(e: Emitter, w: Where, x: Handle, count: Handle) -> Handle:
        if w.result.bits >= 8:
            return e.apply(kind, x, counts(x, count, True))
        width = e.like(count, w.result.bits)
        up = e.apply("rem", count, width)
        if kind == "rotr":
            up = e.apply("rem", e.apply("sub", width, up), width)
        down = e.apply("sub", width, up)
        high = e.apply("shl", x, counts(x, up, False))
        return fit(e, w.result, e.apply("or", high, e.apply("shr", x, counts(x, down, False))))

    return row


def _clz(e: Emitter, w: Where, x: Handle) -> Handle:
    zeros = x.unary("clz")
    return zeros - e.like(x, 8 - w.result.bits) if w.result.bits < 8 else zeros


def _ctz(e: Emitter, w: Where, x: Handle) -> Handle:
    zeros = x.unary("ctz")
    return e.apply("min", zeros, e.like(x, w.result.bits)) if w.result.bits < 8 else zeros


def _reverse_bits(e: Emitter, w: Where, x: Handle) -> Handle:
    turned = x.unary("reverse_bits")
    return turned >> (8 - w.result.bits) if w.result.bits < 8 else turned


def _reverse_bytes(e: Emitter, w: Where, x: Handle) -> Handle:
    return x if w.result.bits <= 8 else x.unary("reverse_bytes")


def _bits(e: Emitter, w: Where, x: Handle) -> Handle:
    name = w.operands[0].name
    if name in NANS:
        return canonical_byte(e, name, x)
    return (x.reinterpret(name) if name in ("f16", "bf16") else x).bits()


def canonical_byte(e: Emitter, name: str, x: Handle) -> Handle:
    """Return the code of an 8-bit float with each NaN the canonical one."""
    last, nan = NANS[name]
    return e.choose(e.like(x, last) < (x & 0x7F), e.like(x, nan), x)


# --- comparison


def _compare(kind: str) -> Row:
    def row(e: Emitter, w: Where, x: Handle, y: Handle) -> Handle:
        if not x.type.is_mask or kind in ("eq", "ne"):
            return e.apply(kind, x, y)
        return e.apply("and" if kind == "lt" else "or", ~x, y)

    return row


def _select(e: Emitter, w: Where, mask: Handle, x: Handle, y: Handle) -> Handle:
    if x.type.is_mask:
        return e.apply("or", e.apply("and", mask, x), e.apply("and", ~mask, y))
    return e.choose(mask, x, y)


ROWS: dict[str, Row] = {
    "add": _plain("add"),
    "sub": _plain("sub"),
    "mul": _plain("mul"),
    "div": _plain("div"),
    "rem": _plain("rem"),
    "min": _plain("min"),
    "max": _plain("max"),
    "neg": _neg,
    "abs": _abs,
    "add_sat": _add_sat,
    "sub_sat": _sub_sat,
    "mul_high": _mul_high,
    "sqrt": _plain("sqrt"),
    "round_even": _plain("round_even"),
    "floor": _plain("floor"),
    "ceil": _plain("ceil"),
    "trunc": _plain("trunc"),
    "eq": _compare("eq"),
    "ne": _compare("ne"),
    "lt": _compare("lt"),
    "le": _compare("le"),
    "select": _select,
    "and": _plain("and"),
    "or": _plain("or"),
    "xor": _plain("xor"),
    "not": _not,
    "shl": _shift("shl"),
    "shr": _shift("shr"),
    "rotl": _rotation("rotl"),
    "rotr": _rotation("rotr"),
    "popcount": _plain("popcount"),
    "clz": _clz,
    "ctz": _ctz,
    "reverse_bits": _reverse_bits,
    "reverse_bytes": _reverse_bytes,
    "extract": _plain("extract"),
    "deposit": _plain("deposit"),
    "bits": _bits,
    "move": lambda e, w, x: x,
}

# No chip has vectors of these that beat scalars.
SCALAR_ONLY = frozenset({"extract", "deposit", "rem", "mul_high"})
