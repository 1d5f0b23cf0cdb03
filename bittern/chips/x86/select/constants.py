"""Constants: where they come from, and whether they get a register."""

from bittern.bitops.kernel import Step, Value
from bittern.bitops.lanes import Lanes, array_of_bits
from bittern.chips.machine.routine import Address, Virtual
from bittern.chips.x86.select.selector import Selector, selects
from bittern.chips.x86.select.table import element_of
from bittern.chips.x86.select.uses import is_general


def constant_bytes(of: Lanes, bits: tuple[int, ...]) -> bytes:
    """Return a constant as memory holds it."""
    return array_of_bits(of, bits).tobytes()


def period(data: bytes) -> int:
    """Return the smallest of 4, 8, 16, 32, 64 bytes that the data repeats, or its length."""
    for size in (4, 8, 16, 32):
        if size < len(data) and data == data[:size] * (len(data) // size):
            return size
    return len(data)


def make_constant(s: Selector, to: Virtual, of: Lanes, bits: tuple[int, ...]) -> None:
    """Write a constant into a register."""
    if is_general(of):
        s.immediate(to, signed_extension(of, bits[0]))
        return
    if of.is_mask:
        _make_mask(s, to, of, bits)
        return
    data = constant_bytes(of, bits)
    if not any(data):
        s.zero(to)
        return
    size = to.size
    data = data + bytes(max(0, 16 - len(data))) if of.is_scalar or len(data) < 16 else data
    if of.is_scalar:
        data = data[: of.bytes]
        s.put(s.named("vmovss" if of.bytes == 4 else "vmovsd"), (s.part(to, 16), s.pooled(data, of.bytes)), (to,))
        return
    each = period(data)
    if each in (4, 8) and not s.is_legacy:
        name = "vbroadcastss" if each == 4 else "vbroadcastsd"
        if each == 8 and size == 16:
            each, name = 16, "vmovaps"
        s.put(name, (s.part(to, size), s.pooled(data[:each], each)), (to,))
        return
    s.put(s.named("vmovaps"), (s.part(to, size), s.pooled(data, size)), (to,))


def signed_extension(of: Lanes, bits: int) -> int:
    """Return the number that a register holds for the bits of a scalar."""
    width = of.element.bits
    if of.is_signed and bits >> (width - 1):
        return bits - (1 << width)
    return bits


def _make_mask(s: Selector, to: Virtual, of: Lanes, bits: tuple[int, ...]) -> None:
    lanes = [bool(bits[k % len(bits)]) for k in range(of.count)]
    if s.is_evex:
        word = sum(1 << k for k, bit in enumerate(lanes) if bit)
        held = s.immediate(s.general(8), word)
        s.put("kmovq", (s.part(to, 0), s.part(held, 8)), (to,))
        return
    each = s.mask_lane_bits(of) // 8
    data = b"".join((b"\xff" if bit else b"\0") * each for bit in lanes)
    data += bytes(s.tier.vector - len(data)) if len(data) < s.tier.vector else b""
    if any(data):
        s.put(s.named("vmovaps"), (s.part(to, to.size), s.pooled(data[: to.size], to.size)), (to,))
    else:
        s.zero(to)


def constant_register(s: Selector, value: Value) -> Virtual:
    """Return a register with a constant, made before the outermost loop around here."""
    step = s.uses.makers[value]
    assert step.kind == "const", step
    key = ("const", value)
    found = s.cached(key)
    if found is None:
        found = s.register_for(value.type)
        depth = len(s.frames) - 1 if is_general(value.type) else 0
        saved = s.enter_depth(depth)
        make_constant(s, found, value.type, step.attributes["bits"])
        s.out = saved
        s.frames[depth].cache[key] = found
    if value.type.is_mask and not s.is_evex:
        s.lane_bits[value] = s.mask_lane_bits(value.type)
    return found


def constant_operand(s: Selector, value: Value, mnemonic: str, size: int) -> "Address | None":
    """Return a constant as memory once too many of them have registers."""
    if s.cached(("const", value)) is not None or value.type.is_mask or value.type.bytes != size:
        return None
    taken = sum(1 for key in s.frames[0].cache if key[0] == "const")
    if taken < (12 if s.is_evex else 5):
        return None
    data = constant_bytes(value.type, s.uses.makers[value].attributes["bits"])
    if not any(data):
        return None
    each = element_of(mnemonic, size, s.tier)
    if s.is_evex and each and period(data) <= each:
        return s.pooled(data[:each], each, size // each)
    return s.pooled(data, size)


@selects("const")
def _const(s: Selector, step: Step) -> None:
    s.hold(step.results[0], constant_register(s, step.results[0]))


@selects("dim")
def _dim(s: Selector, step: Step) -> None:
    s.hold(step.results[0], s.number(s.of_dim(step.attributes["size"])))
