"""Expansions of the bit kinds."""

from bittern.bitops.expand import Expander
from bittern.bitops.expansions.table import Call, Outcome, expansion
from bittern.bitops.handle import Handle


@expansion("not")
def _not(b: Expander, call: Call) -> Outcome:
    (x,) = call.operands
    if x.type.is_mask:
        return b.select(x, b.const(x.type, False), b.const(x.type, True))
    element = x.type.element
    ones = b.const(x.type, -1 if x.type.is_signed else element.high)
    return ones - x


@expansion("xor")
def _xor(b: Expander, call: Call) -> Outcome:
    x, y = call.operands
    return (x | y) & ~(x & y) if x.type.is_mask else (x | y) - (x & y)


@expansion("rotl")
def _rotl(b: Expander, call: Call) -> Outcome:
    x, count = call.operands
    bits = x.type.element.bits
    count = count & (bits - 1)
    return (x << count) | (x >> (b.const(count.type, bits) - count))


@expansion("rotr")
def _rotr(b: Expander, call: Call) -> Outcome:
    x, count = call.operands
    bits = x.type.element.bits
    count = count & (bits - 1)
    return (x >> count) | (x << (b.const(count.type, bits) - count))


def _swapped(x: Handle, step: int) -> Handle:
    """Swap neighbouring fields of `step` bits."""
    ones = (1 << x.type.element.bits) - 1
    low = ones // ((1 << step) + 1)  # fields at even places
    return ((x & low) << step) | ((x >> step) & low)


@expansion("reverse_bytes")
def _reverse_bytes(b: Expander, call: Call) -> Outcome:
    (x,) = call.operands
    step = 8
    while step < x.type.element.bits:
        x = _swapped(x, step)
        step *= 2
    return x


@expansion("reverse_bits")
def _reverse_bits(b: Expander, call: Call) -> Outcome:
    (x,) = call.operands
    for step in (1, 2, 4):
        x = _swapped(x, step)
    return x if x.type.element.bits == 8 else x.unary("reverse_bytes")


@expansion("extract")
def _extract(b: Expander, call: Call) -> Outcome:
    """One bit a round, from the low end."""
    x, mask = call.operands
    zero = b.const(x.type, 0)
    with b.loop(0, x.type.element.bits, 1, x, mask, zero, zero) as loop:
        _, rest, left, found, place = loop
        chosen = left & 1
        found = found | ((rest & chosen) << place)
        loop.carry(rest >> 1, left >> 1, found, place + chosen)
    return loop.results[2]


@expansion("deposit")
def _deposit(b: Expander, call: Call) -> Outcome:
    x, mask = call.operands
    zero = b.const(x.type, 0)
    with b.loop(0, x.type.element.bits, 1, x, mask, zero, zero) as loop:
        _, rest, left, found, place = loop
        chosen = left & 1
        found = found | ((rest & chosen) << place)
        loop.carry(rest >> chosen, left >> 1, found, place + 1)
    return loop.results[2]
