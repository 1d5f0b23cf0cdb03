"""Expansions of the kinds that move lanes: through scalars, and in the end through memory."""

from bittern.bitops.expand import Expander
from bittern.bitops.expansions.table import Call, Outcome, expansion
from bittern.bitops.handle import Handle
from bittern.bitops.lanes import unsigned


@expansion("broadcast")
def _broadcast(b: Expander, call: Call) -> Outcome:
    (x,) = call.operands
    return b.collect(*[x] * call.result.count)


@expansion("lane")
def _lane(b: Expander, call: Call) -> Outcome:
    (x,), k = call.operands, call.attributes["lane"]
    if x.type.is_mask:
        return b.numbers(x).lane(k).ne(0)
    spill = b.spill(x.type)
    spill.store(0, x)
    return spill.load(call.result, 0, offset=k * call.result.bytes)


@expansion("collect")
def _collect(b: Expander, call: Call) -> Outcome:
    of = call.result
    if of.is_mask:
        numbers = b.mask_type(of)
        scalars = [b.select(x, b.const(numbers.of(1), -1), b.const(numbers.of(1), 0)) for x in call.operands]
        return b.collect(*scalars).ne(0)
    spill = b.spill(of)
    for k, x in enumerate(call.operands):
        spill.store(0, x, offset=k * x.type.bytes)
    return spill.load(of, 0)


@expansion("part")
def _part(b: Expander, call: Call) -> Outcome:
    (x,), first, of = call.operands, call.attributes["first"], call.result
    if of.is_scalar:
        return x.lane(first)
    if of.is_mask:
        return b.collect(*b.lanes(x)[first : first + of.count])
    spill = b.spill(x.type)
    spill.store(0, x)
    return spill.load(of, 0, offset=first * of.element.bits // 8)


@expansion("join")
def _join(b: Expander, call: Call) -> Outcome:
    of = call.result
    if of.is_mask:
        return b.collect(*[lane for x in call.operands for lane in b.lanes(x)])
    spill = b.spill(of)
    for k, x in enumerate(call.operands):
        spill.store(0, x, offset=k * x.type.bytes)
    return spill.load(of, 0)


@expansion("shuffle")
def _shuffle(b: Expander, call: Call) -> Outcome:
    lanes = [lane for x in call.operands for lane in b.lanes(x)]
    return b.collect(*[lanes[p] for p in call.attributes["picks"]])


@expansion("reinterpret")
def _reinterpret(b: Expander, call: Call) -> Outcome:
    """Join or split the lanes' bits, low lane first."""
    (x,), of = call.operands, call.result
    source = x.type
    if source.count == of.count:
        return None
    scalars = [_plain(lane) for lane in b.lanes(x)]
    ratio = max(source.count, of.count) // min(source.count, of.count)
    name = unsigned(of.of(1)).element.name
    if source.count > of.count:
        words = [_word(scalars[k * ratio : (k + 1) * ratio], name) for k in range(of.count)]
    else:
        words = [(s >> (j * of.element.bits)).wrap(name) for s in scalars for j in range(ratio)]
    made = [w if of.element.name == name else w.reinterpret(of.element.name) for w in words]
    return made[0] if len(made) == 1 else b.collect(*made)


def _plain(x: Handle) -> Handle:
    name = unsigned(x.type).element.name
    return x if x.type.element.name == name else x.reinterpret(name)


def _word(parts: list[Handle], name: str) -> Handle:
    bits = parts[0].type.element.bits
    word = parts[0].convert(name)
    for k, part in enumerate(parts[1:], 1):
        word = word | (part.convert(name) << (k * bits))
    return word


@expansion("lookup")
def _lookup(b: Expander, call: Call) -> Outcome:
    codes, tables = call.operands[0], call.operands[1:]
    entries = sum(t.type.count for t in tables)
    native = min(tables[0].type.count, b.target.width // tables[0].type.element.bits)
    if b.can("lookup", tables[0].type, of=call.result) and codes.type.element.bits == call.result.element.bits:
        return _by_parts(b, codes, tables, native)
    if entries < 1 << codes.type.element.bits:
        codes = codes & (entries - 1)
    lanes = b.lanes(codes)  # before the tables: these may need the same scratch
    of = tables[0].type
    spill = b.spill(of, len(tables))
    for k, table in enumerate(tables):
        spill.store(0, table, offset=k * of.bytes)
    found = [spill.load(of.of(1), _as_place(code)) for code in lanes]
    return found[0] if len(found) == 1 else b.collect(*found)


def _as_place(code: Handle) -> Handle:
    return code.wrap("index") if code.type.element.bits == 64 else code.convert("index")


def _by_parts(b: Expander, codes: Handle, tables: tuple[Handle, ...], native: int) -> Handle:
    """Look up in tables of one vector each, and choose among them by the higher bits of the codes."""
    parts = [t.part(k, native) for t in tables for k in range(0, t.type.count, native)]
    found, bit = [b.make("lookup", codes, part) for part in parts], native
    while len(found) > 1:
        high = (codes & bit).ne(0)
        found = [b.select(high, y, x) for x, y in zip(found[::2], found[1::2], strict=True)]
        bit *= 2
    return found[0]


@expansion("mask_word")
def _mask_word(b: Expander, call: Call) -> Outcome:
    (x,) = call.operands
    first, *rest = (lane.convert("u64") for lane in b.lanes(x))
    for k, lane in enumerate(rest, 1):
        first = first | (lane << k)
    return first


@expansion("word_mask")
def _word_mask(b: Expander, call: Call) -> Outcome:
    (x,) = call.operands
    lanes = [((x >> k) & 1).ne(0) for k in range(call.result.count)]
    return lanes[0] if len(lanes) == 1 else b.collect(*lanes)


@expansion("first")
def _first(b: Expander, call: Call) -> Outcome:
    (count,), of = call.operands, call.result
    if of.is_scalar or b.target.width == 0:
        lanes = [b.index(k) < count for k in range(of.count)]
        return lanes[0] if len(lanes) == 1 else b.collect(*lanes)
    numbers = b.mask_type(of)
    limit = count.max(0).min(of.count).wrap(numbers.element.name)
    return b.const(numbers, list(range(of.count))) < limit.broadcast(of.count)
