"""Comparisons and choice: into mask registers, into lanes of all or no bits, into flags."""

from collections.abc import Mapping

from bittern.bitops.kernel import Step, Value
from bittern.bitops.lanes import Lanes
from bittern.chips.machine.routine import Address, Part, Virtual
from bittern.chips.x86.select.logic import all_ones
from bittern.chips.x86.select.scalars import literal, operand
from bittern.chips.x86.select.selector import Selector, selects
from bittern.chips.x86.select.table import FLOAT_PREDICATES, LETTERS, WHOLE_PREDICATES
from bittern.chips.x86.select.uses import is_general

_SIGNED = {"eq": "e", "ne": "ne", "lt": "l", "le": "le"}
_UNSIGNED = {"eq": "e", "ne": "ne", "lt": "b", "le": "be"}
_OPPOSITE = {
    "e": "ne",
    "ne": "e",
    "l": "ge",
    "le": "g",
    "b": "ae",
    "be": "a",
    "ge": "l",
    "g": "le",
    "ae": "b",
    "a": "be",
}
_SWAPPED: Mapping[str, str] = {"e": "e", "ne": "ne", "l": "g", "le": "ge", "b": "a", "be": "ae"}


@selects("eq", "ne", "lt", "le")
def _compare(s: Selector, step: Step) -> None:
    of, result = step.operands[0].type, step.results[0]
    if of.is_mask and not of.is_scalar:
        _compare_masks(s, step)
    elif result.type.is_scalar:
        _truth(s, step)
    elif s.is_evex:
        _into_mask(s, step)
    else:
        _into_lanes(s, step)


# --- scalars


def flags(s: Selector, step: Step) -> str:
    """Set the flags by a comparison of scalars and return the condition."""
    x, y = step.operands
    of = x.type
    if of.is_float:
        first = s.get(y)  # y > x: false where one is NaN
        name = s.named("vucomiss" if of.bytes == 4 else "vucomisd")
        s.put(name, (s.part(first, 16), s.scalar_source(x)))
        return "a" if step.kind == "lt" else "ae"
    conditions = _SIGNED if of.is_signed else _UNSIGNED
    condition = conditions[step.kind]
    if literal(s, x) is not None:
        x, y, condition = y, x, _SWAPPED[condition]
    size = 8 if of.element.bits == 64 else 4
    first = s.get(x)
    source = operand(s, y, size)
    if source == 0 and condition in ("e", "ne", "l", "ge"):
        s.put("test", (s.part(first, size), s.part(first, size)))
        return {"l": "s", "ge": "ns"}.get(condition, condition)
    s.put("cmp", (s.part(first, size), source))  # type: ignore[arg-type]
    return condition


def can_be_flags(step: Step) -> bool:
    """Whether one condition of the flags says what a comparison of scalars does."""
    return not step.operands[0].type.is_float or step.kind in ("lt", "le")


def opposite(condition: str) -> str:
    """Return the condition that holds where another one does not."""
    return {**_OPPOSITE, "s": "ns", "ns": "s"}[condition]


def condition_of(s: Selector, truth: Value) -> str:
    """Set the flags by a truth and return the condition under which it is set."""
    root = s.uses.root(truth)
    step = s.pending.get(root)
    if step is not None and step.kind in _SIGNED and can_be_flags(step):
        del s.pending[root]
        return flags(s, step)
    register = s.get(root)
    s.put("test", (s.part(register, 4), s.part(register, 4)))
    return "ne"


def _truth(s: Selector, step: Step) -> None:
    """Write a comparison of scalars as 0 or 1."""
    if can_be_flags(step):
        condition = flags(s, step)
        to = s.define(step.results[0])
        byte = s.general(4)
        s.put(f"set{condition}", (s.part(byte, 1),), (byte,))
        s.put("movzx", (s.part(to, 4), s.part(byte, 1)), (to,))
        return
    x, y = step.operands
    letter = "s" if x.type.bytes == 4 else "d"
    first, to = s.get(x), s.define(step.results[0])
    if s.is_evex:
        found = s.mask()
        s.put(
            f"vcmps{letter}",
            (s.part(found, 0), s.part(first, 16), s.scalar_source(y), FLOAT_PREDICATES[step.kind]),
            (found,),
        )
        s.put("kmovw", (s.part(to, 4), s.part(found, 0)), (to,))
    else:
        lanes = s.op(f"vcmps{letter}", s.vector(), first, s.scalar_source(y), FLOAT_PREDICATES[step.kind])
        s.put(s.named("vmovd"), (s.part(to, 4), s.part(lanes, 16)), (to,))
    s.whole("and", to, to, 1, size=4)


# --- vectors


def _into_mask(s: Selector, step: Step) -> None:
    x, y = step.operands
    of, size = x.type, max(16, x.type.bytes)
    kind = step.kind
    if of.is_float:
        name = "vcmpps" if of.element.bits == 32 else "vcmppd"
        predicate = FLOAT_PREDICATES[kind]
    else:
        name = f"vpcmp{'' if of.is_signed else 'u'}{LETTERS[of.element.bits]}"
        predicate = WHOLE_PREDICATES[kind]
    if s.is_foldable(x) and not s.is_foldable(y):
        x, y = y, x
        predicate = {1: 14 if of.is_float else 6, 2: 13 if of.is_float else 5}.get(predicate, predicate)
    first = s.get(x)
    if not of.is_float and kind in ("eq", "ne") and s.uniform_bits(y) == 0:
        test = "vptestnm" if kind == "eq" else "vptestm"
        to = s.define(step.results[0])
        register = s.part(first, size)
        s.put(test + LETTERS[of.element.bits], (s.part(to, 0), register, register), (to,))
        return
    second = s.source(y, name, size)
    to = s.define(step.results[0])
    s.put(name, (s.part(to, 0), s.part(first, size), second, predicate), (to,))


def _into_lanes(s: Selector, step: Step) -> None:
    x, y = step.operands
    of, size = x.type, max(16, x.type.bytes)
    result = step.results[0]
    s.lane_bits[result] = of.element.bits
    if of.is_float:
        name = "vcmpps" if of.element.bits == 32 else "vcmppd"
        first = s.get(x)
        s.op(name, s.define_in(result, size), first, s.source(y, name, size), FLOAT_PREDICATES[step.kind], size=size)
        return
    letter = LETTERS[of.element.bits]
    if step.kind in ("eq", "ne"):
        first = s.get(x)
        found = s.op(f"vpcmpeq{letter}", s.vector(size), first, s.source(y, f"vpcmpeq{letter}", size), size=size)
        s.hold(result, found if step.kind == "eq" else _flipped(s, found, size))
        return
    if step.kind == "le":  # x <= y is not y < x
        found = _less(s, s.get(y), s.get(x), of, size)
        s.hold(result, _flipped(s, found, size))
        return
    s.hold(result, _less(s, s.get(x), s.get(y), of, size))


def _flipped(s: Selector, lanes: Virtual, size: int) -> Virtual:
    return s.op("vpxor", s.vector(size), lanes, all_ones(s, size), size=size)


def extreme(s: Selector, step: Step) -> None:
    """Write min or max of integer vectors where the tier has no instruction for it."""
    of, size = step.results[0].type, max(16, step.results[0].type.bytes)
    x, y = (s.get(v) for v in step.operands)
    if of.element.bits == 64 and s.is_legacy:
        _extreme_apart(s, step, x, y)
        return
    first, second = (x, y) if step.kind == "min" else (y, x)
    s.hold(step.results[0], blended(s, _less(s, first, second, of, size), x, y, size))


def _extreme_apart(s: Selector, step: Step, x: Virtual, y: Virtual) -> None:
    """Choose 64-bit numbers one by one: SSE2 does not compare them."""
    condition = ("l" if step.operands[0].type.is_signed else "b") if step.kind == "min" else ""
    condition = condition or ("g" if step.operands[0].type.is_signed else "a")
    lanes: list[Virtual] = []
    for part in (0, 1):
        numbers = []
        for register in (x, y):
            low = s.op("vpunpckhqdq", s.vector(), register, register) if part else register
            number = s.general(8)
            s.put("movq", (s.part(number, 8), s.part(low, 16)), (number,))
            numbers.append(number)
        first, second = numbers
        s.put("cmp", (s.part(first, 8), s.part(second, 8)))
        chosen, lane = s.whole(f"cmov{condition}", s.general(8), second, first, size=8), s.vector()
        s.put("movq", (s.part(lane, 16), s.part(chosen, 8)), (lane,))
        lanes.append(lane)
    s.op("vpunpcklqdq", s.define(step.results[0]), lanes[0], lanes[1])


def _less(s: Selector, x: Virtual, y: Virtual, of: Lanes, size: int) -> Virtual:
    """Compare x < y; unsigned numbers with their top bits flipped."""
    letter = LETTERS[of.element.bits]
    if not of.is_signed:
        data = (1 << (of.element.bits - 1)).to_bytes(of.element.bits // 8, "little") * (size * 8 // of.element.bits)
        top = s.pooled_register(data, size)
        x, y = (s.op("vpxor", s.vector(size), v, top, size=size) for v in (x, y))
    return s.op(f"vpcmpgt{letter}", s.vector(size), y, x, size=size)


def _compare_masks(s: Selector, step: Step) -> None:
    from bittern.chips.x86.select.logic import mask_suffix

    result, of = step.results[0], step.operands[0].type
    if s.is_evex:
        x, y = (s.part(s.get(v), 0) for v in step.operands)
        to = s.define(result)
        name = ("kxnor" if step.kind == "eq" else "kxor") + mask_suffix(of.count)
        s.put(name, (s.part(to, 0), x, y), (to,))
        return
    (first, second), bits = s.masks_alike(step.operands)
    size = max(16, bits * of.count // 8)
    s.lane_bits[result] = bits
    found = s.op("vpxor", s.vector(size), first, second, size=size)
    s.hold(result, found if step.kind == "ne" else _flipped(s, found, size))


# --- masks in vector registers


def mask_in_lanes(s: Selector, value: Value, bits: int) -> Virtual:
    """Return a mask in a vector register with lanes of so many bits."""
    root = s.uses.root(value)
    register = s.get(root)
    have = s.lane_bits[root]
    key = ("lanes", root, bits)
    if have == bits:
        return register
    found = s.cached(key)
    if found is not None:
        return found
    count = root.type.count
    while have < bits:
        register = _widened(s, register, have, count)
        have *= 2
    while have > bits:
        register = _narrowed(s, register, have, count)
        have //= 2
    s.frames[-1].cache[key] = register
    return register


def _widened(s: Selector, register: Virtual, have: int, count: int) -> Virtual:
    size = 2 * have * count // 8
    if size > 16:
        to = s.vector(size)
        name = f"vpmovsx{LETTERS[have]}{LETTERS[2 * have]}"
        s.put(name, (s.part(to, size), s.part(register, size // 2)), (to,))
        return to
    letters = {8: "bw", 16: "wd", 32: "dq"}[have]
    return s.op(f"vpunpckl{letters}", s.vector(), register, register)


def _narrowed(s: Selector, register: Virtual, have: int, count: int) -> Virtual:
    """Pack lanes of all or no bits: saturation keeps them; 64 bits go by a shuffle of halves."""
    size = max(16, have * count // 8)
    if size == 32:
        low, high = s.part(register, 16), s.vector()
        s.put("vextracti128", (s.part(high, 16), s.part(register, 32), 1), (high,))
        second: Part = s.part(high, 16)
    else:
        low = second = s.part(register, 16)
    to = s.vector()
    if have == 64:
        return s.op("vshufps", to, low, second, 0x88)
    return s.op({32: "vpackssdw", 16: "vpacksswb"}[have], to, low, second)


# --- choice


@selects("select")
def _select(s: Selector, step: Step) -> None:
    mask, x, y = step.operands
    of = step.results[0].type
    if is_general(of):
        _choose_whole(s, step)
    elif of.is_scalar:
        _choose_float(s, step)
    elif of.is_mask:
        _choose_masks(s, step)
    elif s.is_evex:
        _blend(s, step)
    else:
        size, bits = max(16, of.bytes), of.element.bits
        s.get(mask)
        chosen = mask_in_lanes(s, mask, bits)
        s.hold(step.results[0], _by_lanes(s, chosen, x, y, size))


def _choose_whole(s: Selector, step: Step) -> None:
    mask, x, y = step.operands
    of = step.results[0].type
    size = 8 if of.element.bits == 64 else 4
    first, second = s.get(x), s.get(y)
    condition = condition_of(s, mask)
    s.whole(f"cmov{condition}", s.define(step.results[0]), second, first, size=size)


def _choose_float(s: Selector, step: Step) -> None:
    """Choose with the truth spread over lane 0."""
    mask, x, y = step.operands
    of = step.results[0].type
    first, second = s.get(x), s.get(y)
    truth = s.get(mask)
    if s.is_evex:
        chosen = s.mask()
        s.put("kmovw", (s.part(chosen, 0), s.part(truth, 4)), (chosen,))
        to = s.define(step.results[0])
        name = "vblendmps" if of.bytes == 4 else "vblendmpd"
        s.put(name, (Part(to, 16, chosen), s.part(second, 16), s.part(first, 16)), (to,))
        return
    minus = s.whole("neg", s.general(4), truth, size=4)
    lanes = s.vector()
    s.put(s.named("vmovd"), (s.part(lanes, 16), s.part(minus, 4)), (lanes,))
    if of.bytes == 8:
        lanes = s.op("vpshufd", s.vector(), lanes, 0)
    s.hold(step.results[0], blended(s, lanes, first, second, 16))


def _choose_masks(s: Selector, step: Step) -> None:
    """(mask & x) | (~mask & y)"""
    from bittern.chips.x86.select.logic import mask_suffix

    result = step.results[0]
    if not s.is_evex:
        (mask, x, y), bits = s.masks_alike(step.operands)
        s.lane_bits[result] = bits
        s.hold(result, blended(s, mask, x, y, max(16, bits * result.type.count // 8)))
        return
    suffix = mask_suffix(result.type.count)
    mask, x, y = (s.get(v) for v in step.operands)
    first, second, to = s.mask(), s.mask(), s.define(result)
    s.put("kand" + suffix, (s.part(first, 0), s.part(mask, 0), s.part(x, 0)), (first,))
    s.put("kandn" + suffix, (s.part(second, 0), s.part(mask, 0), s.part(y, 0)), (second,))
    s.put("kor" + suffix, (s.part(to, 0), s.part(first, 0), s.part(second, 0)), (to,))


def _blend(s: Selector, step: Step) -> None:
    mask, x, y = step.operands
    of, size = step.results[0].type, max(16, step.results[0].type.bytes)
    chosen = s.get(mask)
    letter = LETTERS[of.element.bits]
    if s.uniform_bits(y) == 0:  # lanes that are left out become zero
        name = {"b": "vmovdqu8", "w": "vmovdqu16", "d": "vmovdqa32", "q": "vmovdqa64"}[letter]
        first = s.get(x)
        to = s.define(step.results[0])
        s.put(name, (Part(to, size, chosen, True), s.part(first, size)), (to,))
        return
    other = s.get(y)
    source: Part | Address = s.source(x, f"vpblendm{letter}", size)
    to = s.define(step.results[0])
    s.put(f"vpblendm{letter}", (Part(to, size, chosen), s.part(other, size), source), (to,))


def _by_lanes(s: Selector, mask: Virtual, x: Value, y: Value, size: int) -> Virtual:
    if s.uniform_bits(y) == 0:
        return s.op("vpand", s.vector(size), mask, s.get(x), size=size)
    if s.uniform_bits(x) == 0:
        return s.op("vpandn", s.vector(size), mask, s.get(y), size=size)
    first, second = s.get(x), s.get(y)
    return blended(s, mask, first, second, size)


def blended(s: Selector, mask: Virtual, x: Virtual, y: Virtual, size: int) -> Virtual:
    """Return x where the mask's lanes have all bits set, else y."""
    to = s.vector(size)
    if not s.is_legacy:
        s.put("vpblendvb", (s.part(to, size), s.part(y, size), s.part(x, size), s.part(mask, size)), (to,))
        return to
    first = s.op("vpand", s.vector(size), x, mask, size=size)
    second = s.op("vpandn", s.vector(size), mask, y, size=size)
    return s.op("vpor", to, first, second, size=size)
