"""Lane-wise arithmetic on vectors and on scalar floats; integers in general registers are sent on to `scalars`."""

from bittern.bitops.kernel import Step, Value
from bittern.bitops.lanes import Lanes
from bittern.chips.machine.routine import Part, Virtual
from bittern.chips.x86.features import Tier
from bittern.chips.x86.select.bytewise import count_ones, four, reverse, shift_bytes
from bittern.chips.x86.select.comparing import extreme
from bittern.chips.x86.select.scalars import whole_number
from bittern.chips.x86.select.selector import Selector, selects
from bittern.chips.x86.select.table import LANE_WISE, UNIFORM, Row, form_of
from bittern.chips.x86.select.uses import is_general

_MXCSR, _DOWN, _UP, _TRUNC, _QUIET = 0, 1, 2, 3, 8
_ROUNDINGS = {"round_even": _MXCSR, "floor": _DOWN, "ceil": _UP, "trunc": _TRUNC}


def scalar_name(mnemonic: str) -> str:
    """Return the scalar form of a packed float instruction."""
    return mnemonic[:-2] + "s" + mnemonic[-1]


@selects("add", "sub", "mul", "div", "min", "max", "add_sat", "sub_sat", "mul_high")
def _binary(s: Selector, step: Step) -> None:
    of = step.results[0].type
    if is_general(of):
        whole_number(s, step)
        return
    row = LANE_WISE[step.kind, of.element.name]
    if of.is_integer and step.kind in ("min", "max") and not is_native(step.kind, of, s.tier):
        extreme(s, step)
        return
    binary(s, step, row)


def binary(s: Selector, step: Step, row: Row) -> None:
    """Write a binary instruction; what is in memory becomes its last source."""
    x, y = step.operands[:2]
    of = step.results[0].type
    if row.commutes and s.is_better_last(x, y):
        x, y = y, x
    name, size = (scalar_name(row.mnemonic), 16) if of.is_scalar else (row.mnemonic, max(16, of.bytes))
    first = s.get(x)
    second = s.scalar_source(y) if of.is_scalar else s.source(y, name, size)
    s.op(name, s.define(step.results[0]), first, second, size=size)


@selects("abs", "neg", "popcount", "clz", "sqrt", "reverse_bits", "reverse_bytes")
def _unary(s: Selector, step: Step) -> None:
    of = step.results[0].type
    if is_general(of):
        whole_number(s, step)
    elif step.kind in ("abs", "neg") and of.is_float:
        _sign(s, step)
    elif step.kind == "popcount" and not is_native("popcount", of, s.tier):
        count_ones(s, step)
    elif step.kind in ("reverse_bits", "reverse_bytes"):
        reverse(s, step)
    else:
        unary(s, step, LANE_WISE[step.kind, of.element.name])


def is_native(kind: str, of: Lanes, tier: Tier) -> bool:
    """Whether a tier has an instruction for a kind on lanes."""
    return form_of(LANE_WISE[kind, of.element.name].mnemonic, tier.vector, tier) is not None


def _sign(s: Selector, step: Step) -> None:
    """Clear or flip the sign bits."""
    of, size = step.results[0].type, max(16, step.results[0].type.bytes)
    top = 1 << (of.element.bits - 1)
    bits = top - 1 if step.kind == "abs" else top
    picked = s.pooled_register(bits.to_bytes(of.element.bits // 8, "little") * (size * 8 // of.element.bits), size)
    name = "vpand" if step.kind == "abs" else "vpxor"
    s.op(name + ("d" if s.is_evex else ""), s.define(step.results[0]), s.get(step.operands[0]), picked, size=size)


def unary(s: Selector, step: Step, row: Row) -> None:
    """Write an instruction of one source."""
    (x,), of = step.operands, step.results[0].type
    if of.is_scalar:
        scalar_unary(s, scalar_name(row.mnemonic), s.define(step.results[0]), x)
        return
    size = max(16, of.bytes)
    source = s.source(x, row.mnemonic, size)
    s.op(row.mnemonic, s.define(step.results[0]), source, size=size)


def scalar_unary(s: Selector, name: str, to: Virtual, x: Value, *immediates: int) -> None:
    """Write a scalar float instruction of one source; the lanes above come from that source, or are zero."""
    source = s.scalar_source(x)
    first = source.register if isinstance(source, Part) else s.zero(s.vector())
    s.op(name, to, first, source, *immediates)


@selects("round_even", "floor", "ceil", "trunc")
def _rounded(s: Selector, step: Step) -> None:
    of, (x,) = step.results[0].type, step.operands
    letter = "s" if of.element.bits == 32 else "d"
    how = _ROUNDINGS[step.kind] | _QUIET
    stem = "vrndscale" if s.is_evex else "vround"
    if of.is_scalar:
        scalar_unary(s, f"{stem}s{letter}", s.define(step.results[0]), x, how)
    else:
        size = max(16, of.bytes)
        source = s.source(x, f"{stem}p{letter}", size)
        s.op(f"{stem}p{letter}", s.define(step.results[0]), source, how, size=size)


@selects("rem", "ctz", "extract", "deposit")
def _whole(s: Selector, step: Step) -> None:
    assert is_general(step.results[0].type), step
    whole_number(s, step)


@selects("shl", "shr", "rotl", "rotr")
def _shift(s: Selector, step: Step) -> None:
    of = step.results[0].type
    if is_general(of):
        whole_number(s, step)
        return
    count = s.uniform_bits(step.operands[1])
    if count is not None and of.element.bits == 8:
        shift_bytes(s, step, count)
        return
    row = UNIFORM.get((step.kind, of.element.name))
    if count is None or row is None:
        binary(s, step, LANE_WISE[step.kind, of.element.name])
        return
    width, size = of.element.bits, max(16, of.bytes)
    if step.kind in ("rotl", "rotr"):
        count %= width
    elif count >= width:
        if row.mnemonic[2:4] != "sr" or row.mnemonic[4] != "a":
            s.zero(s.define(step.results[0]))
            return
        count = width - 1
    source = s.source(step.operands[0], row.mnemonic, size) if s.is_evex else s.get(step.operands[0])
    s.op(row.mnemonic, s.define(step.results[0]), source, count, size=size)


@selects("mul_wide")
def _mul_wide(s: Selector, step: Step) -> None:
    """Multiply even lanes of i32; without an instruction for it, as unsigned ones, and what signs made too much off."""
    x, y = step.operands
    size = max(16, step.results[0].type.bytes)
    row = LANE_WISE["mul_wide", "i64"]
    if form_of(row.mnemonic, s.tier.vector, s.tier) is not None:
        binary(s, step, row)
        return
    u, v = s.get(x), s.get(y)
    more = []
    for one, other in ((u, v), (v, u)):
        sign = s.op("vpsrad", s.vector(size), one, 31, size=size)
        more.append(s.op("vpand", s.vector(size), sign, other, size=size))
    both = s.op("vpaddd", s.vector(size), more[0], more[1], size=size)
    high = s.op("vpsllq", s.vector(size), both, 32, size=size)
    plain = s.op("vpmuludq", s.vector(size), u, v, size=size)
    s.op("vpsubq", s.define(step.results[0]), plain, high, size=size)


@selects("dot4", "dot2")
def _dot(s: Selector, step: Step) -> None:
    """Add products to a register of sums; a sum that starts at zero starts in a new register."""
    total, x, y = step.operands
    size = max(16, step.results[0].type.bytes)
    if not {"avx512_vnni", "avx_vnni"} & s.tier.features:
        (_two if step.kind == "dot2" else four)(s, step, total, x, y, size)
        return
    name = "vpdpbusd" if step.kind == "dot4" else "vpdpwssd"
    if step.kind == "dot2" and s.is_foldable(x) and not s.is_foldable(y):
        x, y = y, x
    first = s.get(x)
    second = s.source(y, name, size)
    held = fresh(s, total, size)
    s.tied_op(name, s.define(step.results[0]), held, first, second, size=size)


def fresh(s: Selector, value: Value, size: int) -> Virtual:
    """Return the register of a value; a constant zero gets a new one, which is cheaper than a copy."""
    return s.zero(s.vector(size)) if s.uniform_bits(value) == 0 else s.get(value)


def _two(s: Selector, step: Step, total: Value, x: Value, y: Value, size: int) -> None:
    if s.is_foldable(x) and not s.is_foldable(y):
        x, y = y, x
    first = s.get(x)
    second = s.source(y, "vpmaddwd", size)
    if s.uniform_bits(total) == 0:
        s.op("vpmaddwd", s.define(step.results[0]), first, second, size=size)
        return
    products = s.op("vpmaddwd", s.vector(size), first, second, size=size)
    added = s.source(total, "vpaddd", size)
    s.op("vpaddd", s.define(step.results[0]), products, added, size=size)
