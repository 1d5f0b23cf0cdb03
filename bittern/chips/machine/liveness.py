"""Where in a routine each virtual register holds a value that is still needed.

Instruction i has four positions: 4i before it (spilled values are loaded), 4i + 1 it reads (early results and copies
for ties are written), 4i + 2 it writes, 4i + 3 behind it. A range is a list of half-open intervals of positions,
ascending and apart; what lies between them are holes, in which the register is free for others.

Backward dataflow over basic blocks (Aho, Lam, Sethi, Ullman: Compilers, 9.2.5), then one backward walk through each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bittern.chips.machine.assembler import Label
from bittern.chips.machine.routine import Instruction, Routine, Virtual

Range: TypeAlias = list[tuple[int, int]]

STEP = 4
READ, WRITE, AFTER = 1, 2, 3


@dataclass(slots=True)
class Block:
    """Instructions `first` to `last` (exclusive) that run one after another. depth: loops around them.

    exposed: read before written here. written: registers written here. following: blocks that may run next.
    needed: registers whose value is needed at the start. falls: whether the block behind it may follow without a jump.
    """

    first: int
    last: int
    exposed: set[Virtual]
    written: set[Virtual]
    following: list["Block"]
    needed: set[Virtual]
    falls: bool
    depth: int = 0


@dataclass(slots=True)
class Liveness:
    """ranges: of every register. ties: instructions with a tie between two registers, as (index, whether the tied value
    may share a register with the result). moves: indices of `moves`. clobbered: (bank, number) to its positions.
    """

    blocks: list[Block]
    ranges: dict[Virtual, Range]
    ties: list[tuple[int, bool]]
    moves: list[int]
    clobbered: dict[tuple[str, int], list[tuple[int, int]]]


def liveness(routine: Routine) -> Liveness:
    """Return the live ranges of a routine. A read that a way without a write leads to is our own fault."""
    instructions = routine.instructions
    blocks = _blocks(instructions)
    _propagate(blocks)
    unwritten = blocks[0].needed - set(routine.arguments) if blocks else set()
    assert not unwritten, ("read before written", routine.name, sorted(unwritten, key=lambda one: one.number))
    found = Liveness(blocks, {}, [], [], {})
    for block in reversed(blocks):
        _walk(block, instructions, found)
    for argument in routine.arguments:
        found.ranges.setdefault(argument, [(0, 1)])
    for intervals in (*found.ranges.values(), *found.clobbered.values()):
        if len(intervals) > 1:
            intervals.reverse()
    found.ties.reverse()
    found.moves.reverse()
    return found


def needed_at_labels(routine: Routine, live: Liveness) -> dict[Label, set[Virtual]]:
    """Return the registers whose values are read from a label on, for each label."""
    first = ((routine.instructions[block.first], block.needed) for block in live.blocks)
    return {one.operands[0]: needed for one, needed in first if one.name == "label" and type(one.operands[0]) is Label}


def _blocks(instructions: Sequence[Instruction]) -> list[Block]:
    """Cut the instructions into blocks and say what follows what."""
    starts, places = {0}, dict[Label, int]()
    for index, one in enumerate(instructions):
        if one.name == "label":
            label = one.operands[0]
            assert type(label) is Label and label not in places, ("not a label, or placed twice", label)
            places[label] = index
            starts.add(index)
        elif one.target is not None or not one.falls:
            assert not one.writes, ("a jump that writes", one)
            starts.add(index + 1)
    starts.discard(len(instructions))
    ordered = sorted(starts) if instructions else []
    blocks = [
        _block(instructions, first, last)
        for first, last in zip(ordered, [*ordered[1:], len(instructions)], strict=True)
    ]
    at = {block.first: block for block in blocks}
    for block in blocks:
        jump = instructions[block.last - 1]
        if block.falls and block.last in at:
            block.following.append(at[block.last])
        if jump.target is not None:
            assert jump.target in places, ("a jump to a label without a place", jump)
            block.following.append(at[places[jump.target]])
    for start, end in _loop_ends(blocks).items():
        for block in blocks[start : end + 1]:
            block.depth += 1
    return blocks


def _block(instructions: Sequence[Instruction], first: int, last: int) -> Block:
    exposed, written = set[Virtual](), set[Virtual]()
    for index in range(first, last):
        one = instructions[index]
        for register in one.reads:
            if register not in written:
                exposed.add(register)
        if one.tied is not None and one.tied not in written:
            exposed.add(one.tied)
        written.update(one.writes)
    return Block(first, last, exposed, written, [], set(exposed), instructions[last - 1].falls)


def _loop_ends(blocks: list[Block]) -> dict[int, int]:
    """Return the last block of each loop by its first. All jumps back to one block make one loop."""
    ends: dict[int, int] = {}
    places = {block.first: place for place, block in enumerate(blocks)}
    for end, block in enumerate(blocks):
        for following in block.following:
            if following.first <= block.first:
                ends[places[following.first]] = end
    return ends


@dataclass(slots=True)
class Loop:
    """Instructions `first` to `last` (exclusive), with the loops inside.

    is_entered_above: whether it is entered only from the instruction in front of it, without a jump.
    """

    first: int
    last: int
    is_entered_above: bool
    inner: list["Loop"]


def find_loops(blocks: list[Block]) -> list[Loop]:
    """Return the outermost loops, in order. Of two that overlap without one being inside, the later one is left out."""
    outermost: list[Loop] = []
    for start, end in sorted(_loop_ends(blocks).items(), key=lambda item: (item[0], -item[1])):
        first, last = blocks[start].first, blocks[end].last
        entering = [
            block.falls and block.last == following.first == first
            for place, block in enumerate(blocks)
            for following in block.following
            if not start <= place <= end and first <= following.first < last
        ]
        among = outermost
        while among and first < among[-1].last:
            if last > among[-1].last:
                break
            among = among[-1].inner
        else:
            among.append(Loop(first, last, entering == [True], []))
    return outermost


def _propagate(blocks: list[Block]) -> None:
    is_changed = True
    while is_changed:
        is_changed = False
        for block in reversed(blocks):
            for following in block.following:
                more = following.needed - block.written
                if not more <= block.needed:
                    block.needed |= more
                    is_changed = True


def _walk(block: Block, instructions: Sequence[Instruction], found: Liveness) -> None:
    """Add the intervals of one block, backward; lists are descending until all is done."""
    ranges = found.ranges
    ends = {register: STEP * block.last for following in block.following for register in following.needed}
    for index in range(block.last - 1, block.first - 1, -1):
        one = instructions[index]
        position = STEP * index
        tied = one.tied
        if tied is not None:
            is_shared = _walk_tied(one, index, ends, found)
        else:
            start = position + (READ if one.early else WRITE)
            for register in one.writes:
                end = ends.pop(register, position + AFTER)
                before = ranges.get(register)
                if before is None:
                    ranges[register] = [(start, end)]
                elif before[-1][0] <= end:
                    before[-1] = (start, before[-1][1])
                else:
                    before.append((start, end))
        end = position + WRITE
        for register in one.reads:
            if register not in ends:
                ends[register] = end
        if tied is not None and tied not in ends:
            ends[tied] = end if is_shared else position + READ
        if one.clobbers:
            start = position + (READ if one.early else WRITE)
            for place in one.clobbers:
                found.clobbered.setdefault(place, []).append((start, position + AFTER))
        if one.name == "moves":
            found.moves.append(index)
    for register, end in ends.items():
        _add(ranges, register, STEP * block.first, end)


def _walk_tied(one: Instruction, index: int, ends: dict[Virtual, int], found: Liveness) -> bool:
    """Add what a tied instruction writes; return whether the tied value may share a register with the result.

    Where not, the copy of it is written while the instruction reads, and what it copies ends there. (Where the result's
    register is read too, it is no place for the copy; see `coalesce`.)
    """
    tied, result = one.tied, one.writes[0]
    assert tied is not None and tied.bank == result.bank, ("tied across banks", one)
    is_shared = tied is result or not (one.early or tied in ends or tied.fixed >= 0 or result.fixed >= 0)
    for place, register in enumerate(one.writes):
        is_late = is_shared or result in one.reads if place == 0 else not one.early
        start = STEP * index + (WRITE if is_late else READ)
        _add(found.ranges, register, start, ends.pop(register, STEP * index + AFTER))
    if tied is not result:
        found.ties.append((index, is_shared))
    return is_shared


def _add(ranges: dict[Virtual, Range], register: Virtual, start: int, end: int) -> None:
    before = ranges.get(register)
    if before is None:
        ranges[register] = [(start, end)]
    elif before[-1][0] <= end:
        before[-1] = (start, before[-1][1])
    else:
        before.append((start, end))
