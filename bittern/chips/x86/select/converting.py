"""Conversions, in registers and from memory."""

from bittern.bitops.kernel import Step, Value
from bittern.bitops.lanes import Lanes, lanes
from bittern.chips.machine.routine import Address, Part, Virtual
from bittern.chips.x86.select.arithmetic import scalar_unary
from bittern.chips.x86.select.comparing import blended, mask_in_lanes
from bittern.chips.x86.select.constants import constant_bytes
from bittern.chips.x86.select.selector import Selector, selects
from bittern.chips.x86.select.table import CONVERSIONS, NARROWING
from bittern.chips.x86.select.uses import is_general

_ORDERED, _AT_LEAST = 7, 13


@selects("convert")
def _convert(s: Selector, step: Step) -> None:
    (x,), result = step.operands, step.results[0]
    source, to = x.type, result.type
    if source.is_mask and not source.is_scalar:
        _of_mask(s, step)
    elif is_general(source) and is_general(to):
        _extend(s, x, result)
    elif source.element.name == "bf16" and source.is_scalar:
        high = s.whole("shl", s.general(4), s.get(x), 16, size=4)
        to_vector(s, s.define(result), high, lanes("u32"))
    elif source.element.name == "f16" and source.is_scalar:
        _half_scalar(s, x, s.define(result))
    elif is_general(source):
        _whole_to_float(s, x, s.define(result), to.element.name == "f32")
    elif to.is_scalar:
        scalar_unary(s, "vcvtss2sd", s.define(result), x)
    elif s.is_legacy and source.is_integer and to.is_integer:
        _unpacked(s, step)
    else:
        _by_row(s, step)


def _by_row(s: Selector, step: Step) -> None:
    (x,), result = step.operands, step.results[0]
    source, to = x.type, result.type
    if source.element.name == "bf16":
        _from_bf16(s, x, result)
        return
    row = CONVERSIONS["convert", source.element.name, to.element.name]
    size = max(16, to.bytes)
    have = source.bytes * size // to.bytes
    operand = memory_or_register(s, x, row.mnemonic, have)
    target = s.define(result)
    s.put(s.named(row.mnemonic), (s.part(target, size), operand), (target,))


def _from_bf16(s: Selector, x: Value, result: Value) -> None:
    """Put 16 bits into the upper half of 32."""
    size = max(16, result.type.bytes)
    if s.is_legacy:
        s.op("vpunpcklwd", s.define(result), s.zero(s.vector()), s.get(x))
        return
    operand = memory_or_register(s, x, "vpmovzxwd", x.type.bytes * size // result.type.bytes)
    wide = s.vector(size)
    s.put("vpmovzxwd", (s.part(wide, size), operand), (wide,))
    s.op("vpslld", s.define(result), wide, 16, size=size)


def memory_or_register(s: Selector, x: Value, mnemonic: str, size: int) -> "Part | Address":
    """Return a vector as a source of so many bytes, which may be less than a register."""
    root = s.uses.root(x)
    step = s.waiting(root, "load")
    if step is not None and root.type.bytes == size and (not s.is_legacy or size < 16):
        return s.access(s.fold(root), size)
    if s.waiting(root, "broadcast") is not None and size >= 16:
        return s.source(x, mnemonic, size)
    return s.part(s.get(root), max(16, size))


def _extend(s: Selector, x: Value, result: Value) -> None:
    """Widen an integer scalar: narrow ones are kept extended already."""
    source, to = x.type, result.type
    root = s.uses.root(x)
    load = s.waiting(root, "load")
    wide = to.element.bits == 64
    if load is not None and root.type.bytes == source.bytes and not source.is_mask:
        place = s.access(s.fold(root), source.bytes)
        target = s.define(result)
        if source.bytes == 4:
            if source.is_signed and wide:
                s.put("movsxd", (s.part(target, 8), place), (target,))
            else:
                s.put("mov", (s.part(target, 4), place), (target,))
        else:
            size = 8 if wide and source.is_signed else 4
            s.put("movsx" if source.is_signed else "movzx", (s.part(target, size), place), (target,))
        return
    register = s.get(root)
    target = s.define(result)
    if wide and source.element.bits < 64 and source.is_signed:
        s.put("movsxd", (s.part(target, 8), s.part(register, 4)), (target,))
    elif wide and source.element.bits < 64:
        s.put("mov", (s.part(target, 4), s.part(register, 4)), (target,))
    else:
        s.copy(target, register)


def _half_scalar(s: Selector, x: Value, to: Virtual) -> None:
    """Widen f16 from its bits in a general register."""
    lanes = s.vector()
    s.put("vmovd", (s.part(lanes, 16), s.part(s.get(x), 4)), (lanes,))
    s.put("vcvtph2ps", (s.part(to, 16), s.part(lanes, 16)), (to,))


def _whole_to_float(s: Selector, x: Value, to: Virtual, is_single: bool) -> None:
    """Convert an integer scalar; u32 is converted in 64 bits, where it is signed too."""
    of, letter = x.type.element, "s" if is_single else "d"
    register = s.get(x)
    size = 8 if of.bits == 64 or of.name == "u32" else 4
    if of.name == "u32":
        wide = s.general(8)
        s.put("mov", (s.part(wide, 4), s.part(register, 4)), (wide,))
        register = wide
    name = "vcvtusi2s" if of.name == "u64" else "vcvtsi2s"
    s.op(name + letter, to, s.zero(s.vector()), s.part(register, size))


def _unpacked(s: Selector, step: Step) -> None:
    """Widen integers with SSE2: interleave with zeros, or with themselves and shift down."""
    (x,), result = step.operands, step.results[0]
    register, have, want = s.get(x), x.type.element.bits, result.type.element.bits
    while have < want:
        letters = {8: "bw", 16: "wd", 32: "dq"}[have]
        if x.type.is_signed and have < 32:
            doubled = s.op(f"vpunpckl{letters}", s.vector(), register, register)
            register = s.op(f"vpsra{letters[1]}", s.vector(), doubled, have)
        else:
            other = _signs(s, register) if x.type.is_signed else s.zero(s.vector())
            register = s.op(f"vpunpckl{letters}", s.vector(), register, other)
        have *= 2
    s.hold(result, register)


def _signs(s: Selector, register: Virtual) -> Virtual:
    return s.op("vpsrad", s.vector(), register, 31)


def _of_mask(s: Selector, step: Step) -> None:
    """A truth gives 0 or 1: the lanes of a constant 1 that the mask leaves."""
    (x,), result = step.operands, step.results[0]
    of, size = result.type, max(16, result.type.bytes)
    one = {"f32": 0x3F800000, "f64": 0x3FF0000000000000}.get(of.element.name, 1)
    data = constant_bytes(of, (one,))
    ones = s.pooled_register(data + bytes(size - len(data)), size)
    mask = s.get(x)
    if s.is_evex:
        name = {8: "vmovdqu8", 16: "vmovdqu16", 32: "vmovdqa32", 64: "vmovdqa64"}[of.element.bits]
        to = s.define(result)
        s.put(name, (Part(to, size, mask, True), s.part(ones, size)), (to,))
        return
    s.op("vpand", s.define(result), mask_in_lanes(s, x, of.element.bits), ones, size=size)


@selects("wrap", "sat")
def _narrow(s: Selector, step: Step) -> None:
    (x,), result = step.operands, step.results[0]
    if result.type.is_scalar:
        _narrow_scalar(s, x, result)
        return
    source, to = x.type, result.type
    kind = step.kind if step.kind == "wrap" else f"sat.{source.element.name[0]}"
    name = NARROWING[kind, source.element.bits, to.element.bits]
    size = max(16, source.bytes)
    register = s.get(x)
    target = s.define(result)
    have = max(16, to.bytes * size // source.bytes)
    s.put(name, (s.part(target, have), s.part(register, size)), (target,))


def _narrow_scalar(s: Selector, x: Value, result: Value) -> None:
    """Take the low bits, extended by the sign of the result; wider results are extended by that of the source."""
    source, to = x.type, result.type
    register = s.get(x)
    target = s.define(result)
    if to.element.bits == 64:
        if source.element.bits == 64:
            s.copy(target, register)
        elif source.is_signed:
            s.put("movsxd", (s.part(target, 8), s.part(register, 4)), (target,))
        else:
            s.put("mov", (s.part(target, 4), s.part(register, 4)), (target,))
    elif to.element.bits == 32:
        s.put("mov", (s.part(target, 4), s.part(register, 4)), (target,))
    else:
        name = "movsx" if to.is_signed else "movzx"
        s.put(name, (s.part(target, 4), s.part(register, to.element.bits // 8)), (target,))


@selects("reinterpret")
def _reinterpret(s: Selector, step: Step) -> None:
    """Move bits between banks, or between a scalar and a small vector; what stays in its register is no step."""
    (x,), result = step.operands, step.results[0]
    source, to = x.type, result.type
    register = s.get(x)
    if is_general(source) and is_general(to):
        _narrow_scalar(s, x, result)
        return
    target = s.define(result)
    if is_general(source):
        to_vector(s, target, register, source)
    elif is_general(to):
        from_vector(s, target, register, to)
    else:
        s.copy(target, register)


def to_vector(s: Selector, target: Virtual, register: Virtual, of: Lanes) -> None:
    """Move a scalar of a type from a general register into lane 0."""
    wide = of.element.bits == 64
    name = s.named("vmovq" if wide else "vmovd")
    s.put(name, (s.part(target, 16), s.part(register, 8 if wide else 4)), (target,))


def from_vector(s: Selector, target: Virtual, register: Virtual, of: Lanes) -> None:
    """Move lane 0, a scalar of a type, into a general register."""
    wide = of.element.bits == 64
    name = s.named("vmovq" if wide else "vmovd")
    s.put(name, (s.part(target, 8 if wide else 4), s.part(register, 16)), (target,))
    if of.element.bits < 32:
        name = "movsx" if of.is_signed else "movzx"
        s.put(name, (s.part(target, 4), s.part(target, of.element.bits // 8)), (target,))


# --- floats to integers and narrower floats


@selects("round")
def _round(s: Selector, step: Step) -> None:
    (x,), result = step.operands, step.results[0]
    source, to = x.type, result.type
    if to.element.name == "f32":
        _to_single(s, x, result)
    elif to.element.name == "f16":
        _to_half(s, x, result)
    elif to.is_scalar:
        _round_scalar(s, x, result)
    elif source.element.name == "f32":
        _round_lanes(s, x, result, "vcvtps2dq", "ps", 0x4F000000, 0x7FFFFFFF, 4)
    else:
        _round_lanes(s, x, result, "vcvtpd2qq", "pd", 0x43E0000000000000, (1 << 63) - 1, 8)


def _to_single(s: Selector, x: Value, result: Value) -> None:
    if result.type.is_scalar:
        raw = s.vector()
        scalar_unary(s, "vcvtsd2ss", raw, x)
        s.hold(result, _with_one_nan(s, raw, 16))
        return
    size = max(16, x.type.bytes)
    source = s.source(x, "vcvtpd2ps", size)
    half = max(16, size // 2)
    raw = s.vector(half)
    s.put(s.named("vcvtpd2ps"), (s.part(raw, half), source), (raw,))
    s.hold(result, _with_one_nan(s, raw, half))


def _with_one_nan(s: Selector, register: Virtual, size: int) -> Virtual:
    """Return f32 lanes with every NaN the canonical one."""
    nan = s.pooled_register((0x7FC00000).to_bytes(4, "little") * (size // 4), size)
    one = s.part(register, size)
    if s.is_evex:
        ordered, clean = s.mask(), s.vector(size)
        s.put("vcmpps", (s.part(ordered, 0), one, one, _ORDERED), (ordered,))
        s.put("vblendmps", (Part(clean, size, ordered), s.part(nan, size), one), (clean,))
        return clean
    known = s.op("vcmpps", s.vector(size), register, register, _ORDERED, size=size)
    return blended(s, known, register, nan, size)


def _to_half(s: Selector, x: Value, result: Value) -> None:
    """Round f32 to f16; a NaN becomes the canonical one before, as f32 bits that become those of f16."""
    of = x.type
    size = max(16, of.bytes)
    clean = _with_one_nan(s, s.get(x), size)
    half = max(16, size // 2)
    if not result.type.is_scalar:
        target = s.define(result)
        s.put("vcvtps2ph", (s.part(target, half), s.part(clean, size), 0), (target,))
        return
    narrow = s.vector()
    s.put("vcvtps2ph", (s.part(narrow, 16), s.part(clean, 16), 0), (narrow,))
    from_vector(s, s.define(result), narrow, result.type)


def _round_lanes(
    s: Selector, x: Value, result: Value, name: str, letters: str, limit: int, most: int, each: int
) -> None:
    """Convert, then put right what the instruction answers with MIN: too large gives MAX, NaN 0."""
    size = max(16, x.type.bytes)
    register = s.get(x)
    raw = s.op(name, s.vector(size), register, size=size)
    limits = s.pooled_register(limit.to_bytes(each, "little") * (size // each), size)
    tops = s.pooled_register(most.to_bytes(each, "little") * (size // each), size)
    one = s.part(register, size)
    if not s.is_evex:
        above = s.op(f"vcmp{letters}", s.vector(size), limits, register, 2, size=size)
        flipped = s.op("vpxor", s.vector(size), raw, above, size=size)  # MIN with all bits flipped is MAX
        known = s.op(f"vcmp{letters}", s.vector(size), register, register, 7, size=size)
        s.op("vpand", s.define(result), flipped, known, size=size)
        return
    above, known = s.mask(), s.mask()
    s.put(f"vcmp{letters}", (s.part(above, 0), one, s.part(limits, size), _AT_LEAST), (above,))
    s.put(f"vcmp{letters}", (s.part(known, 0), one, one, _ORDERED), (known,))
    suffix = "32" if each == 4 else "64"
    fixed = s.vector(size)
    s.put(f"vmovdqa{suffix}", (Part(fixed, size, above), s.part(tops, size)), (fixed,), raw)
    target = s.define(result)
    s.put(f"vmovdqa{suffix}", (Part(target, size, known, True), s.part(fixed, size)), (target,))


def _round_scalar(s: Selector, x: Value, result: Value) -> None:
    """Convert in as many bits as the result has; MIN may be wrong: then it is MAX where x > 0, and 0 for NaN."""
    of, to = x.type, result.type
    letter = "s" if of.bytes == 4 else "d"
    size = 8 if to.element.bits == 64 else 4
    register = s.get(x)
    raw = s.general(size)
    s.put(s.named(f"vcvts{letter}2si"), (s.part(raw, size), s.part(register, 16)), (raw,))
    most = s.immediate(s.general(size), (1 << (8 * size - 1)) - 1)
    nothing = s.immediate(s.general(size), 0)
    limit = 0x4F000000 if of.bytes == 4 else 0x43E0000000000000 if size == 8 else 0x41E0000000000000
    place = s.pooled(limit.to_bytes(of.bytes, "little"), of.bytes)
    s.put(s.named(f"vucomis{letter}"), (s.part(register, 16), place))
    above = s.whole("cmovae", s.general(size), raw, most, size=size)
    s.put(s.named(f"vucomis{letter}"), (s.part(register, 16), s.part(register, 16)))
    s.whole("cmovp", s.define(result), above, nothing, size=size)
