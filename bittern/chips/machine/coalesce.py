"""Puts virtual registers that may share a physical one into groups, so that moves and ties between them cost nothing.

Aggressive coalescing (Chaitin, 1982) with precise interference: two groups join when their ranges do not overlap, the
pairs in the innermost loops first. A group gets one register, or one place in the frame, for all of its life.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bittern.chips.machine.liveness import READ, STEP, WRITE, Block, Liveness, Range
from bittern.chips.machine.routine import Routine, Slot, Virtual


@dataclass(slots=True, eq=False)
class Group:
    """Virtual registers that get one place.

    range: the union of theirs. size: bytes, the greatest of theirs. fixed: the register that it must have, or -1.
    hints: registers that would save a move. is_piece: lives around one instruction, so it is never spilled.
    weight: what spilling it costs by the length of its range, once that is known. register: -1 while it has none.
    is_spilled: whether it lives in the frame, at `slot`. made: index of the instruction that makes its value again
    where it is spilled but needs no slot, or -1.
    """

    members: list[Virtual]
    range: Range
    bank: str
    size: int
    fixed: int = -1
    hints: list[int] = field(default_factory=list)
    is_piece: bool = False
    weight: float = -1.0
    register: int = -1
    is_spilled: bool = False
    slot: Slot | None = None
    made: int = -1


def coalesce(routine: Routine, live: Liveness) -> tuple[dict[Virtual, Group], set[int], set[int]]:
    """Return the group of every register, the indices of ties that need a copy, and those that need two.

    The first copy puts the tied value into the result's register. Where that holds another value of its group until
    the instruction has read it, the operation runs in a register of its own, and the second copies the result.
    """
    groups = {
        register: Group([register], intervals, register.bank, register.size, register.fixed)
        for register, intervals in live.ranges.items()
    }
    copied, twice = set[int](), set[int]()
    instructions = routine.instructions
    for index, is_shared in _inner_first(live.ties, live.blocks):
        one = instructions[index]
        assert one.tied is not None
        if not (is_shared and _join(groups, groups[one.tied], groups[one.writes[0]])):
            (twice if one.writes[0] in one.reads else copied).add(index)
            _hint(groups[one.tied], groups[one.writes[0]])
    for index, is_shared in live.ties:
        if is_shared and index in copied:
            needed = [(STEP * index + READ, STEP * index + WRITE)]
            result = groups[instructions[index].writes[0]]
            if overlap(result.range, needed):
                twice.add(index)
            else:
                result.range = _union(result.range, needed)
    for index, _ in _inner_first([(index, True) for index in live.moves], live.blocks):
        one = instructions[index]
        for written, read in zip(one.writes, one.reads, strict=True):
            first, second = groups[written], groups[read]
            assert first.bank == second.bank, ("a move across banks", one)
            if not _join(groups, first, second):
                _hint(first, second)
    return groups, copied - twice, twice


def _inner_first(indices: Sequence[tuple[int, bool]], blocks: Sequence[Block]) -> Iterator[tuple[int, bool]]:
    """Give what stands in deep loops first."""
    if not indices:
        return
    by_depth: dict[int, list[tuple[int, bool]]] = {}
    each = iter(blocks)
    block = next(each)
    for item in indices:
        while item[0] >= block.last:
            block = next(each)
        by_depth.setdefault(block.depth, []).append(item)
    for depth in sorted(by_depth, reverse=True):
        yield from by_depth[depth]


def _join(groups: dict[Virtual, Group], first: Group, second: Group) -> bool:
    """Make one group of two if nothing speaks against it."""
    if first is second:
        return True
    if first.fixed >= 0 or second.fixed >= 0 or overlap(first.range, second.range):
        return False
    if len(first.members) < len(second.members):
        first, second = second, first
    first.range = _union(first.range, second.range)
    first.members += second.members
    first.size = max(first.size, second.size)
    first.hints += second.hints
    for register in second.members:
        groups[register] = first
    return True


def _hint(first: Group, second: Group) -> None:
    if first.fixed >= 0:
        second.hints.append(first.fixed)
    if second.fixed >= 0:
        first.hints.append(second.fixed)


def overlap(first: Range, second: Range) -> bool:
    """Say whether two ranges have a position in common."""
    if first[-1][1] <= second[0][0] or second[-1][1] <= first[0][0]:
        return False
    i, j, n, m = 0, 0, len(first), len(second)
    while i < n and j < m:
        start, end = first[i]
        other_start, other_end = second[j]
        if end <= other_start:
            i += 1
        elif other_end <= start:
            j += 1
        else:
            return True
    return False


def _union(first: Range, second: Range) -> Range:
    """Return the union of two ranges without a position in common."""
    if first[-1][1] == second[0][0] and len(first) == len(second) == 1:
        return [(first[0][0], second[0][1])]
    joined: Range = []
    for start, end in sorted(first + second):
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
