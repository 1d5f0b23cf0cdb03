"""Loops and branches.

A loop's carried values live in registers of their own, written before it and at its end; its index has a register only
if something needs it, otherwise the rounds are counted down. A parallel loop at the top is cut into contiguous parts,
one for each thread; a deeper one is a plain loop.
"""

from bittern.bitops.kernel import Block, Step, Value
from bittern.bitops.lanes import Lanes
from bittern.chips.machine.assembler import Label
from bittern.chips.machine.routine import Virtual
from bittern.chips.x86.select.comparing import condition_of, mask_in_lanes, opposite
from bittern.chips.x86.select.constants import make_constant
from bittern.chips.x86.select.places import Frame
from bittern.chips.x86.select.polynomial import Polynomial, atom, constant, number_of, plus, times
from bittern.chips.x86.select.selector import Selector, selects

_NEAR = 1 << 31


# --- values that cross the edge of a block


def edge_register(s: Selector, of: Lanes) -> Virtual:
    """Return a new register for a value that several blocks give."""
    if of.is_mask and not of.is_scalar and not s.is_evex:
        return s.vector(max(16, s.mask_lane_bits(of) * of.count // 8))
    return s.register_for(of)


def hold_edge(s: Selector, value: Value, register: Virtual) -> None:
    """Say that a value of several blocks is in a register."""
    s.hold(value, register)
    if value.type.is_mask and not value.type.is_scalar and not s.is_evex:
        s.lane_bits[value] = s.mask_lane_bits(value.type)


def at_edge(s: Selector, value: Value) -> Virtual:
    """Return a value as the registers of edges hold its type."""
    register = s.get(value)
    of = value.type
    if of.is_mask and not of.is_scalar and not s.is_evex:
        return mask_in_lanes(s, value, s.mask_lane_bits(of))
    return register


def give(s: Selector, registers: list[Virtual], values: tuple[Value, ...]) -> None:
    """Write values into registers, all at once; what is there already stays."""
    sources = [at_edge(s, v) for v in values]
    pairs = [(r, v) for r, v in zip(registers, sources, strict=True) if r is not v]
    s.moves(tuple(r for r, _ in pairs), tuple(v for _, v in pairs))


def start(s: Selector, values: tuple[Value, ...]) -> list[Virtual]:
    """Return new registers with the first values of carries; constants are made there."""
    registers = [edge_register(s, v.type) for v in values]
    moved: list[tuple[Virtual, Value]] = []
    for register, value in zip(registers, values, strict=True):
        bits = s.constant_bits(value)
        root = s.uses.root(value)
        if bits is not None and not root.type.is_mask:
            make_constant(s, register, root.type, bits)
        else:
            moved.append((register, value))
    give(s, [r for r, _ in moved], tuple(v for _, v in moved))
    return registers


# --- loops


@selects("for")
def _for(s: Selector, step: Step) -> None:
    low, high, stride = (s.polynomial(v) for v in step.operands[:3])
    write_loop(s, step, low, high, stride)


@selects("parallel")
def _parallel(s: Selector, step: Step) -> None:
    low, high, stride = (s.polynomial(v) for v in step.operands[:3])
    if len(s.frames) == 1:
        low, high = _share(s, low, high, stride)
    write_loop(s, step, low, high, stride)


def _share(s: Selector, low: Polynomial, high: Polynomial, stride: Polynomial) -> tuple[Polynomial, Polynomial]:
    """Return the bounds of this thread's rounds: rounds * thread // threads and rounds * (thread + 1) // threads."""
    rounds = s.number(_rounds(s, low, high, stride))
    first = s.whole("imul", s.general(8), rounds, s.thread, size=8)
    second = s.lea_sum(first, rounds)
    ends = []
    for top in (first, second):
        rax, zero = s.fixed(0), s.fixed(2)
        s.moves((rax,), (top,))
        s.immediate(zero, 0)
        quotient, rest = s.fixed(0), s.fixed(2)
        s.put("div", (s.part(s.threads, 8),), (quotient, rest), None, (rax, zero, s.threads))
        end = s.general(8)
        s.copy(end, quotient)
        ends.append(plus(low, times(atom(s.new_atom(end, 0)), stride)))
    return ends[0], ends[1]


def _rounds(s: Selector, low: Polynomial, high: Polynomial, stride: Polynomial) -> Polynomial:
    """Return how many rounds a loop has, at least 0."""
    span, by = plus(high, low, -1), number_of(stride)
    known = number_of(span)
    if known is not None and by is not None:
        return constant(max(0, -(-known // by)))
    above = plus(span, plus(stride, constant(1), -1))
    top = s.number(span) if by == 1 else _divided(s, above, stride)
    zero, found = s.immediate(s.general(8), 0), s.general(8)
    s.put("test", (s.part(top, 8), s.part(top, 8)))
    s.whole("cmovs", found, top, zero, size=8)
    return atom(s.new_atom(found, len(s.frames) - 1))


def _divided(s: Selector, top: Polynomial, by: Polynomial) -> Virtual:
    number = number_of(by)
    if number is not None and number & (number - 1) == 0:
        return s.whole("sar", s.general(8), s.number(top), number.bit_length() - 1, size=8)
    above, below = s.number(top), s.number(by)
    rax, sign = s.fixed(0), s.fixed(2)
    s.copy(rax, above)
    s.put("cqo", (), (sign,), None, (rax,))
    quotient, rest, found = s.fixed(0), s.fixed(2), s.general(8)
    s.put("idiv", (s.part(below, 8),), (quotient, rest), None, (rax, sign, below))
    s.copy(found, quotient)
    return found


def write_loop(s: Selector, step: Step, low: Polynomial, high: Polynomial, stride: Polynomial) -> None:
    """Write a loop that tests at its end, and before it where it may have no round."""
    (block,), carried = step.blocks, step.operands[3:]
    span, by = number_of(plus(high, low, -1)), number_of(stride)
    if span is not None and span <= 0:
        for result, value in zip(step.results, carried, strict=True):
            register = edge_register(s, value.type)
            give(s, [register], (value,))
            hold_edge(s, result, register)
        return
    registers = start(s, carried)
    frame = Frame([])
    s.out.append(frame.before)
    s.frames.append(frame)
    frame.index = s.new_atom(None, len(s.frames) - 1, True)
    frame.low, frame.stride = low, stride
    s.polynomials[block.parameters[0]] = atom(frame.index)
    for parameter, register in zip(block.parameters[1:], registers, strict=True):
        hold_edge(s, parameter, register)
    top, end = Label("loop"), Label()
    outer, s.out = s.out, []
    body = s.out
    s.block(block)
    give(s, registers, block.yields)
    guard = _latch(s, frame, high, top, span is not None and by is not None)
    s.out = outer
    if guard is not None:
        _guard(s, guard, end)
    s.place(top)
    s.out.append(body)
    s.place(end)
    _leave(s)
    for result, register in zip(step.results, registers, strict=True):
        hold_edge(s, result, register)


def _leave(s: Selector) -> None:
    s.frames.pop()
    if len(s.frames) == 1:
        s.frames[0].cache.clear()


def _latch(s: Selector, frame: Frame, high: Polynomial, top: Label, is_known: bool) -> "tuple[Virtual, object] | None":
    """Advance pointers and index and go back; return the comparison that must hold before the first round, if any."""
    for pointer, bytes_ in frame.advances:
        _advance(s, pointer, bytes_)
    depth = len(s.frames) - 1
    by = number_of(frame.stride)
    if frame.register is None and (is_known or by == 1):
        counter = s.general(8)
        saved, s.out = s.out, frame.before
        span = number_of(plus(high, frame.low, -1))
        if span is not None and by is not None:
            s.immediate(counter, -(-span // by))
        else:
            s.copy(counter, s.number(plus(high, frame.low, -1)))
        s.out = saved
        s.whole("dec", counter, counter, size=8)
        s.jump("jne", top)
        return None if is_known else (counter, None)
    index = s.index_register(frame)
    assert s.depth_of(high) < depth, "the end of a loop is known before it"
    end = number_of(high)
    limit = s.part(s.number(high), 8) if end is None or not -_NEAR <= end < _NEAR else end
    _advance(s, index, frame.stride)
    s.put("cmp", (s.part(index, 8), limit))
    s.jump("jl", top)
    return None if is_known else (index, limit)


def _guard(s: Selector, guard: "tuple[Virtual, object]", end: Label) -> None:
    register, limit = guard
    if limit is None:
        s.put("test", (s.part(register, 8), s.part(register, 8)))
        s.jump("jle", end)
    else:
        s.put("cmp", (s.part(register, 8), limit))  # type: ignore[arg-type]
        s.jump("jge", end)


def _advance(s: Selector, register: Virtual, bytes_: Polynomial) -> None:
    number = number_of(bytes_)
    if number is not None and -_NEAR <= number < _NEAR:
        if number:
            s.whole("add", register, register, number, size=8)
    else:
        s.whole("add", register, register, s.number(bytes_), size=8)


@selects("while")
def _while(s: Selector, step: Step) -> None:
    test, body = step.blocks
    registers = start(s, step.operands[1:])
    limit = s.polynomial(step.operands[0])
    frame = Frame([])
    s.out.append(frame.before)
    s.frames.append(frame)
    frame.index = s.new_atom(None, len(s.frames) - 1, True)
    frame.low, frame.stride = {}, constant(1)
    top, end = Label("loop"), Label()
    for block in (test, body):
        s.polynomials[block.parameters[0]] = atom(frame.index)
        for parameter, register in zip(block.parameters[1:], registers, strict=True):
            hold_edge(s, parameter, register)
    outer, s.out = s.out, []
    inner = s.out
    index, most = s.index_register(frame), number_of(limit)
    bound = s.part(s.number(limit), 8) if most is None or not -_NEAR <= most < _NEAR else most
    s.put("cmp", (s.part(index, 8), bound))
    s.jump("jge", end)
    s.block(test)
    s.jump("j" + opposite(condition_of(s, test.yields[0])), end)
    _branch_body(s, body, registers)
    for pointer, bytes_ in frame.advances:
        _advance(s, pointer, bytes_)
    s.whole("inc", index, index, size=8)
    s.jump("jmp", top)
    s.out = outer
    s.place(top)
    s.out.append(inner)
    s.place(end)
    _leave(s)
    for result, register in zip(step.results, registers, strict=True):
        hold_edge(s, result, register)


def _branch_body(s: Selector, block: Block, registers: list[Virtual]) -> None:
    """Write a block in a frame of its own: what it computes is not known behind it."""
    frame = Frame([])
    s.out.append(frame.before)
    s.frames.append(frame)
    s.block(block)
    give(s, registers, block.yields)
    _leave(s)


@selects("if")
def _if(s: Selector, step: Step) -> None:
    yes, no = step.blocks
    registers = [edge_register(s, v.type) for v in step.results]
    other, end = Label(), Label()
    condition = condition_of(s, step.operands[0])
    before: list[object] = []  # after what the condition needs, before the flags are set
    s.out.insert(len(s.out) - 1, before)
    is_empty = not no.steps and not no.yields
    s.jump("j" + opposite(condition), end if is_empty else other)
    _side(s, yes, registers, before)
    if not is_empty:
        s.jump("jmp", end)
        s.place(other)
        _side(s, no, registers, before)
    s.place(end)
    for result, register in zip(step.results, registers, strict=True):
        hold_edge(s, result, register)


def _side(s: Selector, block: Block, registers: list[Virtual], before: list[object]) -> None:
    s.frames.append(Frame(before))
    s.block(block)
    give(s, registers, block.yields)
    _leave(s)
