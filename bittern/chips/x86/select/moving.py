"""Lanes that move: broadcasts, parts, joins, shuffles, tables; masks as numbers."""

from bittern.bitops.kernel import Step, Value
from bittern.chips.machine.routine import Virtual
from bittern.chips.x86.select.converting import from_vector, to_vector
from bittern.chips.x86.select.logic import mask_suffix
from bittern.chips.x86.select.selector import Selector, selects
from bittern.chips.x86.select.table import LETTERS
from bittern.chips.x86.select.uses import is_general

# --- broadcasts


@selects("broadcast")
def _broadcast(s: Selector, step: Step) -> None:
    (x,), result = step.operands, step.results[0]
    of, bits = result.type, result.type.element.bits
    size = max(16, of.bytes)
    if of.is_mask:
        _broadcast_truth(s, x, result)
        return
    root = s.uses.root(x)
    to = s.define(result)
    name = f"vpbroadcast{LETTERS[bits]}"
    if s.waiting(root, "load") is not None and root.type.bytes == of.element.bits // 8 and not s.is_legacy:
        s.put(name, (s.part(to, size), s.access(s.fold(root), bits // 8)), (to,))
        return
    register = s.get(root)
    if not is_general(x.type):
        _spread(s, to, register, bits, size)
    elif s.is_evex:
        s.put(name, (s.part(to, size), s.part(register, 8 if bits == 64 else 4)), (to,))
    else:
        low = s.vector()
        to_vector(s, low, register, x.type)
        _spread(s, to, low, bits, size)


def _spread(s: Selector, to: Virtual, low: Virtual, bits: int, size: int) -> None:
    """Repeat lane 0 in all lanes."""
    if not s.is_legacy:
        s.put(f"vpbroadcast{LETTERS[bits]}", (s.part(to, size), s.part(low, 16)), (to,))
        return
    if bits == 8:
        low, bits = s.op("vpunpcklbw", s.vector(), low, low), 16
    if bits == 16:
        low, bits = s.op("vpshuflw", s.vector(), low, 0), 32
    s.op("vpshufd", to, low, 0 if bits == 32 else 0x44)


def _broadcast_truth(s: Selector, x: Value, result: Value) -> None:
    minus = s.whole("neg", s.general(8), _wide(s, s.get(x)), size=8)
    if s.is_evex:
        to = s.define(result)
        s.put("kmovq", (s.part(to, 0), s.part(minus, 8)), (to,))
        return
    low, bits = s.vector(), s.mask_lane_bits(result.type)
    s.put(s.named("vmovq"), (s.part(low, 16), s.part(minus, 8)), (low,))
    to = s.define_in(result, s.tier.vector)
    s.lane_bits[result] = bits
    _spread(s, to, low, 64 if s.is_legacy else 32, s.tier.vector)


def _wide(s: Selector, register: Virtual) -> Virtual:
    """Return 32 bits extended with zeros to 64."""
    to = s.general(8)
    s.put("mov", (s.part(to, 4), s.part(register, 4)), (to,))
    return to


# --- parts


def shifted_down(s: Selector, register: Virtual, have: int, first: int, size: int = 16) -> Virtual:
    """Return a vector whose low `size` bytes are those from byte `first` on of one of `have` bytes."""
    if size == 32:
        if not first:
            return register
        to = s.vector(32)
        s.put("vextracti64x4", (s.part(to, 32), s.part(register, 64), 1), (to,))
        return to
    if first >= 16:
        to, block = s.vector(), first // 16
        name = "vextracti32x4" if s.is_evex else "vextracti128"
        s.put(name, (s.part(to, 16), s.part(register, have), block), (to,))
        register, first = to, first % 16
    if first:
        register = s.op("vpsrldq", s.vector(), register, first)
    return register


@selects("lane")
def _lane(s: Selector, step: Step) -> None:
    (x,), result, k = step.operands, step.results[0], step.attributes["lane"]
    if x.type.is_mask:
        _lane_of_mask(s, x, result, k)
        return
    of, each = result.type, result.type.bytes
    register = s.get(x)
    if not is_general(of):
        s.hold(result, shifted_down(s, register, max(16, x.type.bytes), k * each))
        return
    to = s.define(result)
    inside = k * each % 16
    block = shifted_down(s, register, max(16, x.type.bytes), k * each - inside) if k * each >= 16 else register
    if each == 2:
        s.put(s.named("vpextrw"), (s.part(to, 4), s.part(block, 16), inside // 2), (to,))
        if of.is_signed:
            s.put("movsx", (s.part(to, 4), s.part(to, 2)), (to,))
        return
    if inside and not s.is_legacy:
        name = {1: "vpextrb", 4: "vpextrd", 8: "vpextrq"}[each]
        s.put(name, (s.part(to, 8 if each == 8 else 4), s.part(block, 16), inside // each), (to,))
        if each == 1 and of.is_signed:
            s.put("movsx", (s.part(to, 4), s.part(to, 1)), (to,))
        return
    from_vector(s, to, shifted_down(s, block, 16, inside), of)


def _lane_of_mask(s: Selector, x: Value, result: Value, k: int) -> None:
    word = mask_bits(s, x)
    to = s.define(result)
    if k:
        word = s.whole("shr", s.general(8), word, k, size=8)
    s.put("mov", (s.part(to, 4), s.part(word, 4)), (to,))
    s.whole("and", to, to, 1, size=4)


@selects("part")
def _part(s: Selector, step: Step) -> None:
    (x,), result, first = step.operands, step.results[0], step.attributes["first"]
    register = s.get(x)
    if not x.type.is_mask:
        each = x.type.element.bits // 8
        s.hold(result, shifted_down(s, register, max(16, x.type.bytes), first * each, result.type.bytes))
    elif s.is_evex:
        to = s.define(result)
        if first:
            s.put("kshiftr" + mask_suffix(x.type.count), (s.part(to, 0), s.part(register, 0), first), (to,))
        else:
            s.copy(to, register)
    else:
        bits = s.lane_bits[s.uses.root(x)]
        s.lane_bits[result] = bits
        s.hold(result, shifted_down(s, register, max(16, bits * x.type.count // 8), first * bits // 8))


@selects("join")
def _join(s: Selector, step: Step) -> None:
    result = step.results[0]
    values = list(step.operands)
    if result.type.is_mask:
        _join_masks(s, values, result)
        return
    registers, each = [s.get(v) for v in values], values[0].type.bytes
    s.hold(result, joined(s, registers, each))


def joined(s: Selector, registers: list[Virtual], each: int) -> Virtual:
    """Return vectors of `each` bytes behind each other."""
    while len(registers) > 1:
        registers = [_pair(s, x, y, each) for x, y in zip(registers[::2], registers[1::2], strict=True)]
        each *= 2
    return registers[0]


def _pair(s: Selector, x: Virtual, y: Virtual, each: int) -> Virtual:
    if each < 16:
        letters = {1: "bw", 2: "wd", 4: "dq", 8: "qdq"}[each]
        return s.op(f"vpunpckl{letters}", s.vector(), x, y)
    size = 2 * each
    to = s.vector(size)
    name = "vinserti64x4" if size == 64 else "vinserti32x4" if s.is_evex else "vinserti128"
    s.put(name, (s.part(to, size), s.part(x, size), s.part(y, each), 1), (to,))
    return to


def _join_masks(s: Selector, values: list[Value], result: Value) -> None:
    count = values[0].type.count
    if not s.is_evex:
        _join_lanes(s, values, result)
        return
    registers = [s.get(v) for v in values]
    while len(registers) > 1:
        registers = [_pair_of_masks(s, x, y, count) for x, y in zip(registers[::2], registers[1::2], strict=True)]
        count *= 2
    s.hold(result, registers[0])


def _pair_of_masks(s: Selector, low: Virtual, high: Virtual, count: int) -> Virtual:
    to = s.mask()
    if count >= 8:
        letters = {8: "bw", 16: "wd", 32: "dq"}[count]
        s.put(f"kunpck{letters}", (s.part(to, 0), s.part(high, 0), s.part(low, 0)), (to,))
        return to
    up, down, clean = s.mask(), s.mask(), s.mask()
    s.put("kshiftlb", (s.part(down, 0), s.part(low, 0), 8 - count), (down,))
    s.put("kshiftrb", (s.part(clean, 0), s.part(down, 0), 8 - count), (clean,))
    s.put("kshiftlb", (s.part(up, 0), s.part(high, 0), count), (up,))
    s.put("korb", (s.part(to, 0), s.part(clean, 0), s.part(up, 0)), (to,))
    return to


def _join_lanes(s: Selector, values: list[Value], result: Value) -> None:
    from bittern.chips.x86.select.comparing import mask_in_lanes

    bits = s.mask_lane_bits(result.type)
    s.lane_bits[result] = bits
    for value in values:
        s.get(value)
    registers = [mask_in_lanes(s, v, bits) for v in values]
    s.hold(result, joined(s, registers, bits * values[0].type.count // 8))


@selects("collect")
def _collect(s: Selector, step: Step) -> None:
    result, values = step.results[0], step.operands
    of = result.type
    if of.is_mask:
        _collect_truths(s, step)
        return
    if len({s.uses.root(v) for v in values}) == 1 and not s.is_legacy:
        _repeated(s, values[0], result)
        return
    registers = []
    for value in values:
        register = s.get(value)
        if is_general(value.type):
            low = s.vector()
            to_vector(s, low, register, value.type)
            register = low
        registers.append(register)
    s.hold(result, joined(s, registers, of.element.bits // 8))


def _repeated(s: Selector, x: Value, result: Value) -> None:
    bits, size = result.type.element.bits, max(16, result.type.bytes)
    register = s.get(x)
    if is_general(x.type):
        low = s.vector()
        to_vector(s, low, register, x.type)
        register = low
    _spread(s, s.define(result), register, bits, size)


def _collect_truths(s: Selector, step: Step) -> None:
    result = step.results[0]
    word = s.get(step.operands[0])
    for k, value in enumerate(step.operands[1:], 1):
        moved = s.whole("shl", s.general(8), _wide(s, s.get(value)), k, size=8)
        word = s.whole("or", s.general(8), moved, word, size=8)
    from_word(s, word, result)


# --- masks and numbers


def mask_bits(s: Selector, x: Value) -> Virtual:
    """Return a mask as a number; bits beyond its lanes are not stated."""
    register, count = s.get(x), x.type.count
    to = s.general(8)
    if s.is_evex:
        s.put("kmovq", (s.part(to, 8), s.part(register, 0)), (to,))
        return to
    bits = s.lane_bits[s.uses.root(x)]
    size = max(16, bits * count // 8)
    if bits == 16:
        from bittern.chips.x86.select.comparing import mask_in_lanes

        register, bits, size = mask_in_lanes(s, x, 8), 8, max(16, count)
    name = {8: "vpmovmskb", 32: "vmovmskps", 64: "vmovmskpd"}[bits]
    s.put(s.named(name), (s.part(to, 4), s.part(register, size)), (to,))
    return to


@selects("mask_word")
def _mask_word(s: Selector, step: Step) -> None:
    x, result = step.operands[0], step.results[0]
    count = x.type.count
    if x.type.is_scalar:
        s.hold(result, _wide(s, s.get(x)))
        return
    word = mask_bits(s, x)
    to = s.define(result)
    if count == 64:
        s.copy(to, word)
    elif count == 32:
        s.put("mov", (s.part(to, 4), s.part(word, 4)), (to,))
    else:
        s.whole("and", to, word, (1 << count) - 1, size=8)


@selects("word_mask")
def _word_mask(s: Selector, step: Step) -> None:
    from_word(s, s.get(step.operands[0]), step.results[0])


def from_word(s: Selector, word: Virtual, result: Value) -> None:
    """Make a mask of the bits of a number."""
    of = result.type
    if of.is_scalar:
        to = s.define(result)
        s.put("mov", (s.part(to, 4), s.part(word, 4)), (to,))
        s.whole("and", to, to, 1, size=4)
        return
    if s.is_evex:
        to = s.define(result)
        s.put("kmovq", (s.part(to, 0), s.part(word, 8)), (to,))
        return
    _spread_bits(s, word, result)


def _spread_bits(s: Selector, word: Virtual, result: Value) -> None:
    """Give each lane the number, or its byte of it, leave it its own bit, and compare."""
    of = result.type
    bits = max(32, s.mask_lane_bits(of)) if of.count <= s.tier.vector // 4 else s.mask_lane_bits(of)
    if s.is_legacy:  # which cannot compare 64 bits
        bits = min(32, bits)
    size = max(16, bits * of.count // 8)
    s.lane_bits[result] = bits
    low = s.vector()
    s.put(s.named("vmovq"), (s.part(low, 16), s.part(word, 8)), (low,))
    lanes = s.vector(size)
    if bits == 8:
        lanes = _bytes_apart(s, low, of.count, size)
    else:
        _spread(s, lanes, low, bits, size)
    each = bits // 8
    single = b"".join((1 << (k if bits > 8 else k % 8)).to_bytes(each, "little") for k in range(of.count))
    picks = s.pooled_register(single + bytes(size - len(single)), size)
    chosen = s.op("vpand", s.vector(size), lanes, picks, size=size)
    s.hold(result, s.op(f"vpcmpeq{LETTERS[bits]}", s.vector(size), chosen, picks, size=size))


def _bytes_apart(s: Selector, low: Virtual, count: int, size: int) -> Virtual:
    """Repeat each of the low bytes eight times."""
    twice = s.op("vpunpcklbw", s.vector(), low, low)
    four = s.op("vpunpcklwd", s.vector(), twice, twice)
    first = s.op("vpshufd", s.vector(), four, 0x50)
    if size == 16:
        return first
    second = s.op("vpshufd", s.vector(), four, 0xFA)
    to = s.vector(32)
    s.put("vinserti128", (s.part(to, 32), s.part(first, 32), s.part(second, 16), 1), (to,))
    return to


@selects("first")
def _first(s: Selector, step: Step) -> None:
    """Clamp the count to 0 .. lanes, then keep so many low bits of all ones, or compare it with the lanes' numbers."""
    x, result = step.operands[0], step.results[0]
    count = result.type.count
    register = s.get(x)
    low, high = s.facts.range_of(x)
    if low is None or low < 0:
        zero = s.immediate(s.general(8), 0)
        s.put("test", (s.part(register, 8), s.part(register, 8)))
        register = s.whole("cmovs", s.general(8), register, zero, size=8)
    if high is None or high > count:
        most = s.immediate(s.general(8), count)
        s.put("cmp", (s.part(register, 8), count))
        register = s.whole("cmovg", s.general(8), register, most, size=8)
    if s.is_evex or result.type.is_scalar:
        ones, word = s.immediate(s.general(8), (1 << 64) - 1), s.general(8)
        s.put("bzhi", (s.part(word, 8), s.part(ones, 8), s.part(register, 8)), (word,))
        from_word(s, word, result)
        return
    bits = s.mask_lane_bits(result.type)
    size, lanes = max(16, bits * count // 8), s.vector()
    s.put("vmovq", (s.part(lanes, 16), s.part(register, 8)), (lanes,))
    limit = s.vector(size)
    _spread(s, limit, lanes, bits, size)
    numbers = b"".join(k.to_bytes(bits // 8, "little") for k in range(count))
    iota = s.pooled_register(numbers + bytes(size - len(numbers)), size)
    s.lane_bits[result] = bits
    s.op(f"vpcmpgt{LETTERS[bits]}", s.define_in(result, size), limit, iota, size=size)
