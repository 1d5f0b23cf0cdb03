"""Loads, stores, prefetches."""

from dataclasses import replace

from bittern.bitops.kernel import Step
from bittern.chips.machine.routine import Address, Part, Virtual
from bittern.chips.x86.select.selector import Selector, selects
from bittern.chips.x86.select.uses import is_general


def move_name(s: Selector, size: int) -> str:
    """Return the instruction that moves so many bytes between memory and a vector register, at any alignment."""
    if size >= 16:
        return "vmovdqu64" if s.is_evex else s.named("vmovups")
    return {8: s.named("vmovq"), 4: s.named("vmovd")}[size]


@selects("load")
def _load(s: Selector, step: Step) -> None:
    of = step.results[0].type
    if of.is_scalar:
        place = s.access(step, of.bytes)
        s.load_scalar(s.define(step.results[0]), of, place)
        return
    load_vector(s, s.define(step.results[0]), s.access(step, of.bytes), of.bytes)


def load_vector(s: Selector, to: Virtual, place: Address, size: int) -> None:
    """Load so many bytes into the low part of a vector register."""
    if size >= 4:
        s.put(move_name(s, size), (s.part(to, max(16, size)), place), (to,))
        return
    held = s.general(4)
    s.put("movzx", (s.part(held, 4), place), (held,))
    s.put(s.named("vmovd"), (s.part(to, 16), s.part(held, 4)), (to,))


@selects("store")
def _store(s: Selector, step: Step) -> None:
    value = step.operands[1]
    of = value.type
    root = s.uses.root(value)
    if is_general(of):
        bits = s.constant_bits(value)
        place = s.access(step, of.bytes)
        if bits is not None and (of.bytes < 8 or bits[0] < 1 << 31):
            number = bits[0] - (1 << 32) if bits[0] >> 31 and of.bytes == 4 else bits[0]
            s.put("mov", (place, number))
            return
        s.put("mov", (place, s.part(s.get(value), of.bytes)))
        return
    register = s.get(root)
    place = s.access(step, of.bytes)
    if of.is_scalar:
        s.put(s.named("vmovss" if of.bytes == 4 else "vmovsd"), (place, s.part(register, 16)))
        return
    store_vector(s, place, register, of.bytes)


def store_vector(s: Selector, place: Address, register: Virtual, size: int) -> None:
    """Store the low bytes of a vector register."""
    if size >= 4:
        s.put(move_name(s, size), (place, s.part(register, max(16, size))))
        return
    held = s.general(4)
    s.put(s.named("vmovd"), (s.part(held, 4), s.part(register, 16)), (held,))
    s.put("mov", (place, s.part(held, size)))


_MASKED = {8: "vmovdqu8", 16: "vmovdqu16", 32: "vmovdqu32", 64: "vmovdqu64"}


@selects("load_masked")
def _load_masked(s: Selector, step: Step) -> None:
    of = step.results[0].type
    size, bits = max(16, of.bytes), of.element.bits
    s.get(step.operands[1])
    if s.is_evex:
        mask = _within(s, s.get(step.operands[1]), of.count, of.bytes)
        place = s.access(step, size)
        to = s.define(step.results[0])
        s.put(_MASKED[bits], (Part(to, size, mask, True), place), (to,))
        return
    lanes = _lanes(s, step, bits, of.bytes, of.count)
    place = s.access(step, size)
    to = s.define(step.results[0])
    s.put(f"vpmaskmov{'d' if bits == 32 else 'q'}", (s.part(to, size), s.part(lanes, size), place), (to,))


@selects("store_masked")
def _store_masked(s: Selector, step: Step) -> None:
    value = step.operands[2]
    of = value.type
    size, bits = max(16, of.bytes), of.element.bits
    s.get(step.operands[1])
    register = s.get(value)
    if s.is_evex:
        mask = _within(s, s.get(step.operands[1]), of.count, of.bytes)
        place = replace(s.access(step, size), mask=mask)
        s.put(_MASKED[bits], (place, s.part(register, size)))
        return
    lanes = _lanes(s, step, bits, of.bytes, of.count)
    place = s.access(step, size)
    s.put(f"vpmaskmov{'d' if bits == 32 else 'q'}", (place, s.part(lanes, size), s.part(register, size)))


def _within(s: Selector, mask: Virtual, count: int, size: int) -> Virtual:
    """Return a mask without lanes that a vector of less than a register does not have."""
    if size >= 16:
        return mask
    kept, to = s.mask(), s.mask()
    held = s.immediate(s.general(8), (1 << count) - 1)
    s.put("kmovq", (s.part(kept, 0), s.part(held, 8)), (kept,))
    s.put("kandw", (s.part(to, 0), s.part(mask, 0), s.part(kept, 0)), (to,))
    return to


def _lanes(s: Selector, step: Step, bits: int, size: int, count: int) -> Virtual:
    from bittern.chips.x86.select.comparing import mask_in_lanes

    lanes = mask_in_lanes(s, step.operands[1], bits)
    if size >= 16:
        return lanes
    kept = s.pooled_register(b"\xff" * size + bytes(16 - size), 16)
    return s.op("vpand", s.vector(), lanes, kept)


@selects("prefetch")
def _prefetch(s: Selector, step: Step) -> None:
    s.put("prefetcht0", (s.access(step, 1),))
