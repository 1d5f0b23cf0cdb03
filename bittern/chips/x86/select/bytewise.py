"""What is done on bytes: shifts of them, ones counted, bits and bytes reversed, products of groups of four.

Linear maps of the bits of a byte are one GF2P8AFFINEQB where the tier has it: bit i of a result is the parity of the
byte and row 7 - i of the matrix (Intel's manual, volume 2, GF2P8AFFINEQB).
"""

from collections.abc import Callable

from bittern.bitops.kernel import Step, Value
from bittern.chips.machine.routine import Virtual
from bittern.chips.x86.select.selector import Selector

_NIBBLE_ONES = bytes(bin(k).count("1") for k in range(16))
_REVERSED_LOW = bytes(int(f"{k:04b}"[::-1], 2) << 4 for k in range(16))  # of the low half, put high
_REVERSED_HIGH = bytes(int(f"{k:04b}"[::-1], 2) for k in range(16))


def repeated(s: Selector, data: bytes, size: int) -> Virtual:
    """Return a register that repeats some bytes."""
    return s.pooled_register(data * (size // len(data)), size)


def matrix(map_: Callable[[int], int]) -> bytes:
    """Return the 8 bytes by which GF2P8AFFINEQB applies a linear map of bytes."""
    rows = [sum(1 << j for j in range(8) if map_(1 << j) >> i & 1) for i in range(8)]
    return bytes(reversed(rows))


def _affine(s: Selector, to: Virtual, x: Virtual, map_: Callable[[int], int], size: int) -> None:
    s.op("vgf2p8affineqb", to, x, repeated(s, matrix(map_), size), 0, size=size)


def _logic(s: Selector, name: str) -> str:
    return name + "d" if s.is_evex else name


# --- shifts


def shift_bytes(s: Selector, step: Step, count: int) -> None:
    """Shift bytes by one number: pairs of them are shifted, and what came over from the neighbour is cleared."""
    of = step.results[0].type
    size, to = max(16, of.bytes), s.define(step.results[0])
    x = s.get(step.operands[0])
    is_arithmetic = step.kind == "shr" and of.is_signed
    if count >= 8 and not is_arithmetic:
        s.zero(to)
        return
    count = min(count, 7)
    if "gfni" in s.tier.features:
        _affine(s, to, x, _shifting(step.kind, count, is_arithmetic), size)
        return
    left = step.kind == "shl"
    shifted = s.op("vpsllw" if left else "vpsrlw", s.vector(size), x, count, size=size)
    kept = (0xFF << count & 0xFF) if left else 0xFF >> count
    mask = repeated(s, bytes((kept,)), size)
    if not is_arithmetic:
        s.op(_logic(s, "vpand"), to, shifted, mask, size=size)
        return
    plain = s.op(_logic(s, "vpand"), s.vector(size), shifted, mask, size=size)
    sign = repeated(s, bytes((0x80 >> count,)), size)
    flipped = s.op(_logic(s, "vpxor"), s.vector(size), plain, sign, size=size)
    s.op("vpsubb", to, flipped, sign, size=size)


def _shifting(kind: str, count: int, is_arithmetic: bool) -> Callable[[int], int]:
    if kind == "shl":
        return lambda x: x << count & 0xFF
    if is_arithmetic:
        return lambda x: (x >> count) | (0xFF << (8 - count) & 0xFF if x & 0x80 else 0)
    return lambda x: x >> count


# --- ones counted


def count_ones(s: Selector, step: Step) -> None:
    """Count the ones of both halves of each byte by a table; sum neighbours to the width of the lanes."""
    of = step.results[0].type
    size, bits = max(16, of.bytes), of.element.bits
    x, low = s.get(step.operands[0]), repeated(s, b"\x0f", size)
    table = repeated(s, _NIBBLE_ONES, size)
    down = s.op("vpsrlw", s.vector(size), x, 4, size=size)
    parts = []
    for nibbles in (x, down):
        code = s.op(_logic(s, "vpand"), s.vector(size), nibbles, low, size=size)
        parts.append(s.op("vpshufb", s.vector(size), table, code, size=size))
    to = s.define(step.results[0])
    if bits == 8:
        s.op("vpaddb", to, parts[0], parts[1], size=size)
        return
    ones = s.op("vpaddb", s.vector(size), parts[0], parts[1], size=size)
    if bits == 64:
        s.op("vpsadbw", to, ones, s.zero(s.vector(size)), size=size)
        return
    words = to if bits == 16 else s.vector(size)
    s.op("vpmaddubsw", words, ones, repeated(s, b"\1", size), size=size)
    if bits == 32:
        s.op("vpmaddwd", to, words, repeated(s, b"\1\0", size), size=size)


# --- reversed


def reverse(s: Selector, step: Step) -> None:
    """Reverse the bits of each byte, if bits are meant, and then the bytes of each lane."""
    of = step.results[0].type
    size, each = max(16, of.bytes), of.element.bits // 8
    x = s.get(step.operands[0])
    if step.kind == "reverse_bits":
        x = _bits_of_bytes(s, x, size)
    if each > 1:
        order = bytes(k // each * each + each - 1 - k % each for k in range(16))
        x = s.op("vpshufb", s.vector(size), x, repeated(s, order, size), size=size)
    s.hold(step.results[0], x)


def _bits_of_bytes(s: Selector, x: Virtual, size: int) -> Virtual:
    if "gfni" in s.tier.features:
        to = s.vector(size)
        _affine(s, to, x, lambda b: int(f"{b:08b}"[::-1], 2), size)
        return to
    low = repeated(s, b"\x0f", size)
    down = s.op("vpsrlw", s.vector(size), x, 4, size=size)
    parts = []
    for nibbles, table in ((x, _REVERSED_LOW), (down, _REVERSED_HIGH)):
        code = s.op(_logic(s, "vpand"), s.vector(size), nibbles, low, size=size)
        parts.append(s.op("vpshufb", s.vector(size), repeated(s, table, size), code, size=size))
    return s.op(_logic(s, "vpor"), s.vector(size), parts[0], parts[1], size=size)


# --- products of groups of four without VNNI


def four(s: Selector, step: Step, total: Value, x: Value, y: Value, size: int) -> None:
    """Add products u8 * i8 in groups of four by VPMADDUBSW, which is exact while the bytes x are at most 128.

    128 * -128 * 2 and 128 * 127 * 2 fit 16 bits. Larger bytes are the sum of what bit 7 is worth and the rest;
    bytes that a mask left no low bits are shifted down, and the pairs are multiplied up again by VPMADDWD.
    """
    shift, most = _scale(s, x)
    register, other = s.get(x), s.get(y)
    if most <= 128:
        if shift:
            register = s.op("vpsrlw", s.vector(size), register, shift, size=size)
        sums = _pairs(s, register, other, 1 << shift, size)
    else:
        parts = []
        for mask in (b"\x7f", b"\x80"):
            part = s.op(_logic(s, "vpand"), s.vector(size), register, repeated(s, mask, size), size=size)
            parts.append(_pairs(s, part, other, 1, size))
        sums = s.op("vpaddd", s.vector(size), parts[0], parts[1], size=size)
    if s.uniform_bits(total) == 0:
        s.hold(step.results[0], sums)
        return
    s.op("vpaddd", s.define(step.results[0]), sums, s.source(total, "vpaddd", size), size=size)


def _scale(s: Selector, x: Value) -> tuple[int, int]:
    """Return by how much bytes may be shifted down without loss, and the most that they are then."""
    step = s.maker(x)
    if step is not None and step.kind == "and" and step.results[0].type.element.bits == 8:
        masks = [m for v in step.operands if (m := s.uniform_bits(v)) is not None]
        if masks and masks[0]:
            shift = (masks[0] & -masks[0]).bit_length() - 1
            return (shift, masks[0] >> shift) if masks[0] > 128 else (0, masks[0])
    if x.type.element.name != "u8":
        return 0, 255
    _, high = s.facts.range_of(x)
    return 0, 255 if high is None else high


def _pairs(s: Selector, x: Virtual, y: Virtual, factor: int, size: int) -> Virtual:
    words = s.op("vpmaddubsw", s.vector(size), x, y, size=size)
    return s.op("vpmaddwd", s.vector(size), words, repeated(s, factor.to_bytes(2, "little"), size), size=size)
