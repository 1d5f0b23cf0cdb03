"""Expansions of the kinds that reach memory. An access that was inside its buffer stays inside it, provably."""

from math import gcd

from bittern.bitops.builder import View
from bittern.bitops.expand import Expander
from bittern.bitops.expansions.table import Call, Outcome, expansion
from bittern.bitops.handle import Handle


def _grain(bits: int) -> int:
    """Return how many codes fill whole bytes."""
    return 8 // gcd(8, bits)


def _view(b: Expander, call: Call) -> View:
    return View(b, next(buffer for buffer in b.buffers if buffer.name == call.attributes["buffer"]))


@expansion("load_masked")
def _load_masked(b: Expander, call: Call) -> Outcome:
    """A lane that is not read needs a branch."""
    (place, mask), of, view = call.operands, call.result.of(1), _view(b, call)
    found = []
    for k, truth in enumerate(b.lanes(mask)):
        branch = b.branch(truth)
        with branch.yes:
            branch.give(view.load(of, place, offset=call.attributes["offset"] + k * of.bytes))
        with branch.no:
            branch.give(b.const(of, 0))
        found.append(branch.results[0])
    return found[0] if len(found) == 1 else b.collect(*found)


@expansion("store_masked")
def _store_masked(b: Expander, call: Call) -> Outcome:
    (place, mask, x), view = call.operands, _view(b, call)
    for k, (truth, scalar) in enumerate(zip(b.lanes(mask), b.lanes(x), strict=True)):
        with b.when(truth):
            view.store(place, scalar, offset=call.attributes["offset"] + k * scalar.type.bytes)
    return ()


@expansion("gather")
def _gather(b: Expander, call: Call) -> Outcome:
    (place, steps), of, view = call.operands, call.result.of(1), _view(b, call)
    found = []
    for step in b.lanes(steps):
        at = step.wrap("index") if step.type.element.name == "u64" else step.convert("index")
        found.append(view.load(of, place + at, offset=call.attributes["offset"]))
    return found[0] if len(found) == 1 else b.collect(*found)


@expansion("load_packed")
def _load_packed(b: Expander, call: Call) -> Outcome:
    (first,), of, view = call.operands, call.result, _view(b, call)
    bits: int = call.attributes["bits"]
    if bits == 8:
        return view.load(of, first // (view.buffer.element.bits // 8)) if view.buffer.element.bits == 8 else None
    if of.is_scalar or b.target.width == 0:
        codes = [_load_code(b, view, first if k == 0 else first + k, bits) for k in range(of.count)]
        return codes[0] if len(codes) == 1 else b.collect(*codes)
    size = of.count * bits // 8
    if of.count * bits % 8 or view.buffer.element.bits != 8:
        return None
    grain = _grain(bits)
    start = first // grain * (bits * grain // 8)
    held: int = max(2, 1 << (size - 1).bit_length())
    load = b.first(size, held) if held != size else None
    packed = view.load(of.of(held), start, load)
    places = [k * bits for k in range(of.count)]
    shifts = b.const(of, [p % 8 for p in places])
    low = packed.shuffle([p // 8 for p in places]) >> shifts
    if 8 % bits:
        high = packed.shuffle([min(p // 8 + 1, size - 1) for p in places])
        low = low | (high << (b.const(of, 8) - shifts))
    return low & ((1 << bits) - 1)


def _load_code(b: Expander, view: View, number: Handle, bits: int) -> Handle:
    """Load one code: its bytes are one, or one and the next; beyond the last there is nothing of it."""
    start = number * bits
    byte, shift = start // 8, (start % 8).wrap("u8")
    last = view.buffer.size * (view.buffer.element.bits // 8) - 1
    code = _load_byte(b, view, byte) >> shift
    if 8 % bits:
        after = (byte + 1).min(b.index(last))
        code = code | (_load_byte(b, view, after) << (b.const("u8", 8) - shift))
    return code & ((1 << bits) - 1)


def _load_byte(b: Expander, view: View, byte: Handle) -> Handle:
    size = view.buffer.element.bits // 8
    assert size == 1, "packed codes are in buffers of bytes"
    return view.load("u8", byte)


@expansion("store_packed")
def _store_packed(b: Expander, call: Call) -> Outcome:
    (first, codes), bits, view = call.operands, call.attributes["bits"], _view(b, call)
    grain = _grain(bits)
    start = first // grain * (bits * grain // 8)
    if bits == 8:
        view.store(start, codes)
        return ()
    scalars = [lane & ((1 << bits) - 1) for lane in b.lanes(codes)]
    for byte in range(codes.type.count * bits // 8):
        word = b.const("u8", 0)
        for k, code in enumerate(scalars):
            shift = k * bits - byte * 8
            if -bits < shift < 8:
                word = word | (code << shift if shift >= 0 else code >> -shift)
        view.store(start, word, offset=byte)
    return ()


@expansion("prefetch")
def _prefetch(b: Expander, call: Call) -> Outcome:
    return ()
