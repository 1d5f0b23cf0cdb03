"""Shuffles by constant picks, and look-ups in tables of one or two registers.

A shuffle is done in the widest units that its picks move whole: 8, 4, 2 or 1 bytes. Within 16 bytes VPSHUFB (or, of 4
bytes, VPSHUFD) does it; across them the VPERM family does, with its picks as a constant; without AVX-512, two VPSHUFB
on the halves of 32 bytes in both orders, joined.
"""

from collections.abc import Sequence

from bittern.bitops.kernel import Step
from bittern.chips.machine.routine import Part, Virtual
from bittern.chips.x86.features import Tier
from bittern.chips.x86.select.comparing import blended
from bittern.chips.x86.select.moving import joined, shifted_down
from bittern.chips.x86.select.selector import Selector, selects
from bittern.chips.x86.select.table import form_of

_PERMUTES = {1: "vpermb", 2: "vpermw", 4: "vpermd", 8: "vpermq"}
_OF_TWO = {1: "vpermi2b", 2: "vpermi2w", 4: "vpermi2d", 8: "vpermi2q"}


def units(picks: Sequence[int], each: int, most: int) -> tuple[list[int], int]:
    """Return picks of the widest units of at most `most` bytes that stand for the same picks of `each` bytes."""
    found = list(picks)
    while each < most and len(found) % 2 == 0:
        pairs = list(zip(found[::2], found[1::2], strict=True))
        if any(a % 2 or b != a + 1 for a, b in pairs):
            break
        found, each = [a // 2 for a, _ in pairs], 2 * each
    return found, each


def bytes_of(picks: Sequence[int], each: int) -> list[int]:
    """Return picks of units as picks of their bytes."""
    return [p * each + k for p in picks for k in range(each)]


@selects("shuffle")
def _shuffle(s: Selector, step: Step) -> None:
    result, source = step.results[0], step.operands[0].type
    each = source.element.bits // 8
    have = max(16, source.bytes)
    registers = [s.get(v) for v in step.operands]
    picks = list(step.attributes["picks"])
    if len(registers) == 2 and s.uses.root(step.operands[0]) is s.uses.root(step.operands[1]):
        picks, registers = [p % source.count for p in picks], registers[:1]
    if len(registers) == 2 and have > source.bytes:  # two parts of one register
        registers = [_behind(s, registers[0], registers[1], source.bytes)]
        have = max(16, 2 * source.bytes)
    size = max(16, result.type.bytes)
    s.hold(result, permuted(s, registers, picks, each, have, size))


def _behind(s: Selector, x: Virtual, y: Virtual, each: int) -> Virtual:
    letters = {1: "bw", 2: "wd", 4: "dq", 8: "qdq"}[each]
    return s.op(f"vpunpckl{letters}", s.vector(), x, y)


def permuted(s: Selector, registers: list[Virtual], picks: list[int], each: int, have: int, size: int) -> Virtual:
    """Return lanes of one or two registers of `have` bytes in a register of `size` bytes."""
    wide, unit = units(picks, each, 8)
    if len(registers) == 1 and have == size == 16:
        return _within(s, registers[0], picks, each)
    if s.is_evex:
        return _across(s, registers, wide, unit, have, size)
    if len(registers) == 1 and have == 32 and size == 32 and unit >= 4:
        return _in_ymm(s, registers[0], wide, unit)
    return _by_halves(s, registers, bytes_of(picks, each), have, size)


# --- in 16 bytes


def _within(s: Selector, x: Virtual, picks: list[int], each: int) -> Virtual:
    wide, unit = units(picks, each, 4)
    if unit == 4:
        padded = wide + [0] * (4 - len(wide))
        return s.op("vpshufd", s.vector(), x, sum(p << 2 * k for k, p in enumerate(padded)))
    if s.is_legacy:
        return _by_words(s, x, wide, unit)
    control = bytes_of(picks, each)
    control += [0x80] * (16 - len(control))
    return s.op("vpshufb", s.vector(), x, s.pooled_register(bytes(control), 16))


def _by_words(s: Selector, x: Virtual, picks: list[int], unit: int) -> Virtual:
    """Shuffle with SSE2 alone: lane by lane through words in general registers."""
    assert unit == 2, "bytes are expanded on this tier"
    found = s.zero(s.vector())
    for k, pick in enumerate(picks):
        word = s.general(4)
        s.put("pextrw", (s.part(word, 4), s.part(x, 16), pick), (word,))
        to = s.vector()
        s.put("pinsrw", (s.part(to, 16), s.part(word, 4), k), (to,), found)
        found = to
    return found


# --- across 16 bytes


def _across(s: Selector, registers: list[Virtual], picks: list[int], unit: int, have: int, size: int) -> Virtual:
    width = max(have, size)
    if unit == 1 and "avx512vbmi" not in s.tier.features:
        return _by_pairs(s, registers, picks, have, size)
    picks = [p // (have // unit) * (width // unit) + p % (have // unit) for p in picks]
    if unit >= 4 and width == 16:
        width = 32
        picks = [p // (16 // unit) * (32 // unit) + p % (16 // unit) for p in picks]
    data = b"".join(p.to_bytes(unit, "little") for p in picks)
    control = s.pooled_register(data + bytes(width - len(data)), width)
    to = s.vector(width)
    if len(registers) == 1:
        return s.op(_PERMUTES[unit], to, control, registers[0], size=width)
    return s.tied_op(_OF_TWO[unit], to, control, registers[0], registers[1], size=width)


def _by_pairs(s: Selector, registers: list[Virtual], picks: list[int], have: int, size: int) -> Virtual:
    """Pick bytes without VBMI: the pairs that hold the even and the odd bytes, then the right byte of each."""
    evens, odds = picks[::2], picks[1::2]
    low = _across(s, registers, [p // 2 for p in evens], 2, have, size)
    high = _across(s, registers, [p // 2 for p in odds], 2, have, size)
    control_low = [2 * k % 16 + p % 2 if part == 0 else 0x80 for k, p in enumerate(evens) for part in (0, 1)]
    control_high = [2 * k % 16 + p % 2 if part == 1 else 0x80 for k, p in enumerate(odds) for part in (0, 1)]
    parts = []
    for register, control in ((low, control_low), (high, control_high)):
        data = bytes(control) + bytes([0x80] * (size - len(control)))
        parts.append(s.op("vpshufb", s.vector(size), register, s.pooled_register(data, size), size=size))
    return s.op("vpord", s.vector(size), parts[0], parts[1], size=size)


def _in_ymm(s: Selector, x: Virtual, picks: list[int], unit: int) -> Virtual:
    if unit == 8:
        return s.op("vpermq", s.vector(32), x, sum(p << 2 * k for k, p in enumerate(picks)), size=32)
    data = b"".join(p.to_bytes(4, "little") for p in picks)
    control = s.pooled_register(data + bytes(32 - len(data)), 32)
    return s.op("vpermd", s.vector(32), control, x, size=32)


def _by_halves(s: Selector, registers: list[Virtual], picks: list[int], have: int, size: int) -> Virtual:
    """Pick bytes from every 16 bytes apart, none where others are picked, and join what was picked."""
    blocks: list[Virtual] = []
    for register in registers:
        blocks.append(register)
        if have == 32:
            high = s.vector()
            s.put("vextracti128", (s.part(high, 16), s.part(register, 32), 1), (high,))
            blocks.append(high)
    halves = [_from_blocks(s, blocks, picks[k : k + 16]) for k in range(0, len(picks), 16)]
    if len(halves) == 1:
        return halves[0]
    to = s.vector(size)
    s.put("vinserti128", (s.part(to, 32), s.part(halves[0], 32), s.part(halves[1], 16), 1), (to,))
    return to


def _from_blocks(s: Selector, blocks: list[Virtual], picks: list[int]) -> Virtual:
    found: Virtual | None = None
    for number, block in enumerate(blocks):
        control = [p % 16 if p // 16 == number else 0x80 for p in picks]
        if all(c == 0x80 for c in control):
            continue
        if s.is_legacy:
            part = _words_of(s, block, control)
        else:
            data = bytes(control) + bytes([0x80] * (16 - len(control)))
            part = s.op("vpshufb", s.vector(), block, s.pooled_register(data, 16))
        found = part if found is None else s.op("vpor", s.vector(), found, part)
    assert found is not None
    return found


def _words_of(s: Selector, block: Virtual, control: list[int]) -> Virtual:
    """Pick words of 16 bytes with SSE2, zero where nothing is picked."""
    found = s.zero(s.vector())
    for k, (low, high) in enumerate(zip(control[::2], control[1::2], strict=True)):
        if low == 0x80:
            continue
        assert low % 2 == 0 and high == low + 1, "bytes are expanded on this tier"
        word, to = s.general(4), s.vector()
        s.put("pextrw", (s.part(word, 4), s.part(block, 16), low // 2), (word,))
        s.put("pinsrw", (s.part(to, 16), s.part(word, 4), k), (to,), found)
        found = to
    return found


# --- look-ups


def lookups(tier: Tier) -> set[str]:
    """Return the elements of tables in one register, and in two (`2:u8`), that a tier looks up at once."""
    found = {"lookup.u8", "lookup.i8"} if tier.vector > 16 else set[str]()
    if tier.vector == 32:
        found |= {"lookup.u32", "lookup.i32", "lookup.f32"}
    if tier.vector < 64:
        return found
    elements = {1: ("u8", "i8"), 2: ("u16", "i16", "f16", "bf16"), 4: ("u32", "i32", "f32"), 8: ("u64", "i64", "f64")}
    for each, names in elements.items():
        if form_of(_PERMUTES[each], tier.vector, tier) is not None:
            found |= {f"lookup.{name}" for name in names} | {f"lookup2.{name}" for name in names}
    return found


@selects("lookup")
def _lookup(s: Selector, step: Step) -> None:
    """Pick entries by codes: the instructions look at as many low bits as the table has entries.

    A table of less than a register is repeated until it fills one, so that higher bits of a code do not matter.
    """
    codes, tables = step.operands[0], step.operands[1:]
    of, each = tables[0].type, tables[0].type.element.bits // 8
    if each == 1 and "avx512vbmi" not in s.tier.features:
        _by_sixteens(s, step)
        return
    size = max(16 if each < 4 else 32, step.results[0].type.bytes)
    registers, have = [s.get(t) for t in tables], of.bytes
    if len(tables) == 2 and 2 * have <= s.tier.vector:
        registers, have = [joined(s, registers, have)], 2 * have
    size = max(size, have)
    if have < size:
        picks = [k % (have // each) for k in range(size // each)]
        registers = [permuted(s, registers, picks, each, max(16, have), size)]
    register = s.get(codes)
    to = s.define_in(step.results[0], size)
    if len(registers) == 1:
        s.op(_PERMUTES[each], to, register, registers[0], size=size)
    else:
        s.tied_op(_OF_TWO[each], to, register, registers[0], registers[1], size=size)


def _by_sixteens(s: Selector, step: Step) -> None:
    """Look up bytes by VPSHUFB, 16 entries at a time, and take those that the codes' bits from the fourth on choose."""
    codes, table = step.operands
    count, size = table.type.count, max(16, step.results[0].type.bytes)
    have = max(16, table.type.bytes)
    register = s.get(table)
    if count < 16:
        register, have = permuted(s, [register], [k % count for k in range(16)], 1, 16, 16), 16
    x, logic = s.get(codes), "vpandd" if s.is_evex else "vpand"
    low = s.op(logic, s.vector(size), x, _all(s, 15, size), size=size)
    found: Virtual | None = None
    parts = max(1, count // 16)
    high = s.op(logic, s.vector(size), x, _all(s, 16 * (parts - 1), size), size=size) if parts > 1 else x
    for k in range(parts):
        entries = _in_all(s, shifted_down(s, register, have, 16 * k), size)
        picked = s.op("vpshufb", s.vector(size), entries, low, size=size)
        found = picked if found is None else _where_equal(s, high, _all(s, 16 * k, size), picked, found, size)
    assert found is not None
    s.hold(step.results[0], found)


def _all(s: Selector, byte: int, size: int) -> Virtual:
    return s.pooled_register(bytes((byte,)) * size, size)


def _in_all(s: Selector, register: Virtual, size: int) -> Virtual:
    """Repeat 16 bytes."""
    if size == 16:
        return register
    to = s.vector(size)
    if s.is_evex:
        s.put("vshufi32x4", (s.part(to, size), s.part(register, size), s.part(register, size), 0), (to,))
    else:
        s.put("vinserti128", (s.part(to, 32), s.part(register, 32), s.part(register, 16), 1), (to,))
    return to


def _where_equal(s: Selector, x: Virtual, y: Virtual, yes: Virtual, no: Virtual, size: int) -> Virtual:
    if not s.is_evex:
        return blended(s, s.op("vpcmpeqb", s.vector(size), x, y, size=size), yes, no, size)
    mask, to = s.mask(), s.vector(size)
    s.put("vpcmpeqb", (s.part(mask, 0), s.part(x, size), s.part(y, size)), (mask,))
    s.put("vpblendmb", (Part(to, size, mask), s.part(no, size), s.part(yes, size)), (to,))
    return to
