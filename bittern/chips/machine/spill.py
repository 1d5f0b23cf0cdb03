"""Moves groups of virtual registers into the frame, and gives their uses registers for a shorter time.

What is spilled is split in steps, each only if the one before finds no register: a loop that only reads the value gets
it in a register for all of its rounds, loaded in front; near uses in one block share a register; at last each
instruction has one just around it. What is cheap to make again is not stored at all. The values of `moves` need no
register: they go from place to place.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bittern.chips.machine.coalesce import Group
from bittern.chips.machine.liveness import AFTER, READ, STEP, WRITE, Liveness, Loop, find_loops
from bittern.chips.machine.routine import Address, Instruction, Routine, Virtual

_ROUNDS = 10.0  # that a loop is guessed to run
_NEAR = 8  # instructions between uses that share a register


@dataclass(slots=True)
class Edit:
    """What happens around one instruction: which registers stand for which, what is loaded and stored.

    result: the register in which a tied operation runs where its result's own would be in the way.
    """

    result: Virtual | None = None
    replaced: dict[Virtual, Virtual] = field(default_factory=dict)
    loads: list[tuple[Virtual, Group]] = field(default_factory=list)
    stores: list[tuple[Group, Virtual]] = field(default_factory=list)


@dataclass(slots=True)
class _Split:
    """Where a register stands for a spilled group. loop: None where it is a stretch of one block."""

    group: Group
    indices: list[int]
    loop: Loop | None


def is_constant(one: Instruction, remade: frozenset[str]) -> bool:
    """Say whether an instruction may run again anywhere: it reads no register and no memory but constants."""
    is_alone = not one.reads and one.tied is None and len(one.writes) == 1 and not one.clobbers
    memory = [operand for operand in one.operands if isinstance(operand, Address)]
    return one.name in remade and is_alone and one.falls and one.target is None and all(at.label for at in memory)


class Spilling:
    """Everything that spilling adds to a routine.

    edits: by index of the instruction. dropped: indices of instructions whose value is made again at each use.
    scratches: a register for moves from frame to frame, by index and bank. pieces: of each spilled group, which have
    registers for it.
    """

    def __init__(
        self,
        routine: Routine,
        live: Liveness,
        groups: dict[Virtual, Group],
        copied: set[int],
        remade: frozenset[str],
    ) -> None:
        self.edits: dict[int, Edit] = {}
        self.dropped: set[int] = set()
        self.scratches: dict[tuple[int, str], Virtual] = {}
        self._instructions = routine.instructions
        self._live = live
        self._groups = groups
        self._copied = copied
        self._remade = remade
        self._next = max((register.number for register in groups), default=-1) + 1
        self.pieces: dict[Group, set[Group]] = {}
        self._splits: dict[Group, _Split] = {}
        self._uses: dict[Virtual, list[int]] = {}
        self._costs: list[float] = []
        self._blocks: list[int] = []
        self._loops: list[Loop] = []

    def detour(self, index: int) -> Group:
        """Have the tied operation run in a register of its own, from its copy to the copy of its result."""
        result = self._instructions[index].writes[0]
        own = self._piece(result.bank, result.size, STEP * index + READ, STEP * index + STEP)
        self._edit(index).result = own.members[0]
        return own

    def weigh(self, group: Group) -> float:
        """Return what spilling the group costs, by the length of its range; infinite where it cannot be."""
        if group.weight < 0:
            if group.is_piece or group.fixed >= 0:
                group.weight = float("inf")
                return group.weight
            uses, split = self._find_uses(), self._splits.get(group)
            indices = split.indices if split else [index for register in group.members for index in uses[register]]
            length = sum(end - start for start, end in group.range)
            is_made = split is None and self._maker(group) >= 0
            group.weight = sum(self._costs[index] for index in indices) / length * (0.5 if is_made else 1.0)
        return group.weight

    def spill(self, group: Group) -> list[Group]:
        """Move the group into the frame, or split it further; return what needs registers now."""
        group.is_spilled = True
        split = self._splits.pop(group, None)
        if split is None:
            uses = self._find_uses()
            group.made = self._maker(group)
            if group.made >= 0:
                self.dropped.add(group.made)
            self.pieces[group] = set()
            indices = sorted({index for register in group.members for index in uses[register]} - {group.made})
            return self._split(group, indices, self._loops)
        self._undo(group.members[0], split)
        self.pieces[split.group].remove(group)
        if split.loop is not None:
            return self._split(split.group, split.indices, split.loop.inner)
        return [piece for index in split.indices for piece in self._around(index, split.group)]

    def restore(self, group: Group) -> None:
        """Take back that the group was spilled."""
        pieces = self.pieces.pop(group)
        registers = {piece.members[0] for piece in pieces}
        indices = {index for register in group.members for index in self._uses[register]}
        for split in (self._splits[piece] for piece in pieces if piece in self._splits):
            indices.update(split.indices)
        group.is_spilled = False
        self.dropped.discard(group.made)
        for edit in (self.edits[index] for index in indices if index in self.edits):
            edit.replaced = {old: new for old, new in edit.replaced.items() if new not in registers}
            edit.loads = [load for load in edit.loads if load[1] is not group]
            edit.stores = [store for store in edit.stores if store[0] is not group]

    def _find_uses(self) -> dict[Virtual, list[int]]:
        """Return the indices of the instructions that use each register; some stand there twice."""
        if self._uses:
            return self._uses
        uses: dict[Virtual, list[int]] = {register: [] for register in self._groups}
        for number, block in enumerate(self._live.blocks):
            self._costs += [_ROUNDS**block.depth] * (block.last - block.first)
            self._blocks += [number] * (block.last - block.first)
        for index, one in enumerate(self._instructions):
            for register in one.reads:
                uses[register].append(index)
            for register in one.writes:
                uses[register].append(index)
            if one.tied is not None:
                uses[one.tied].append(index)
        self._loops = find_loops(self._live.blocks)
        self._uses = uses
        return uses

    def _maker(self, group: Group) -> int:
        """Return the index of the one cheap instruction that makes the group's value, or -1."""
        if len(group.members) != 1:
            return -1
        register = group.members[0]
        makers = [index for index in self._uses[register] if register in self._instructions[index].writes]
        if len(makers) != 1:
            return -1
        return makers[0] if is_constant(self._instructions[makers[0]], self._remade) else -1

    def _split(self, group: Group, indices: Sequence[int], loops: Sequence[Loop]) -> list[Group]:
        """Give loops, stretches and single instructions registers. loops: the outermost that are tried."""
        pieces: list[Group] = []
        outside = list(indices)
        for loop in loops:
            inside = [index for index in outside if loop.first <= index < loop.last]
            if not inside:
                continue
            outside = [index for index in outside if not loop.first <= index < loop.last]
            if loop.is_entered_above and not any(self._writes(index, group) for index in inside):
                pieces.append(self._around_loop(inside, group, loop))
            else:
                pieces += self._split(group, inside, loop.inner)
        stretch: list[int] = []
        for index in outside:
            one = self._instructions[index]
            is_alone = one.name == "moves" or (index in self.edits and self.edits[index].result is not None)
            is_near = stretch and index - stretch[-1] <= _NEAR and self._blocks[index] == self._blocks[stretch[-1]]
            if is_alone or not is_near:
                pieces += self._around_stretch(stretch, group)
                stretch = []
            if is_alone:
                pieces += self._around(index, group)
            else:
                stretch.append(index)
        return pieces + self._around_stretch(stretch, group)

    def _writes(self, index: int, group: Group) -> bool:
        return any(self._groups[register] is group for register in self._instructions[index].writes)

    def _around_loop(self, indices: list[int], group: Group, loop: Loop) -> Group:
        """Let a register stand for the group in all of a loop that only reads it."""
        made = self._piece(group.bank, group.size, STEP * loop.first, STEP * loop.last, False)
        self.pieces[group].add(made)
        self._splits[made] = _Split(group, [loop.first, *indices], loop)
        self._edit(loop.first).loads.append((made.members[0], group))
        self._replace(indices, group, made.members[0])
        return made

    def _around_stretch(self, indices: list[int], group: Group) -> list[Group]:
        """Let a register stand for the group from the first to the last of some instructions in one block."""
        if len(indices) < 2:
            return self._around(indices[0], group) if indices else []
        start, end = indices[0], indices[-1]
        first = self._instructions[start]
        is_read = first.tied is not None and self._groups[first.tied] is group
        is_read = is_read or any(self._groups[register] is group for register in first.reads)
        writing = [index for index in indices if self._writes(index, group)]
        is_late = writing[-1:] == [end]
        early = 0 if is_read else READ if first.early or start in self._copied else WRITE
        made = self._piece(
            group.bank, group.size, STEP * start + early, STEP * end + (STEP if is_late else WRITE), False
        )
        register = made.members[0]
        self.pieces[group].add(made)
        self._splits[made] = _Split(group, indices, None)
        self._replace(indices, group, register)
        if is_read:
            self._edit(start).loads.append((register, group))
        if writing and any(low <= STEP * end + AFTER < high for low, high in group.range):
            self._edit(writing[-1]).stores.append((group, register))
        return [made]

    def _replace(self, indices: list[int], group: Group, register: Virtual) -> None:
        for index in indices:
            one = self._instructions[index]
            for used in (*one.reads, *one.writes) if one.tied is None else (*one.reads, *one.writes, one.tied):
                if self._groups[used] is group:
                    self._edit(index).replaced[used] = register

    def _undo(self, register: Virtual, split: _Split) -> None:
        """Take back what a register that stood for a group has changed."""
        for index in split.indices:
            edit = self._edit(index)
            edit.replaced = {old: new for old, new in edit.replaced.items() if new is not register}
            edit.loads = [load for load in edit.loads if load[0] is not register]
            edit.stores = [store for store in edit.stores if store[1] is not register]
        if split.loop is not None:
            split.indices.remove(split.loop.first)

    def _around(self, index: int, group: Group) -> list[Group]:
        """Give what one instruction reads and writes of the group registers of their own."""
        one = self._instructions[index]
        if one.name == "moves":
            return self._scratch(index, one, group.bank)
        edit = self._edit(index)
        pieces: list[Group] = []

        def piece(register: Virtual, start: int, end: int) -> Virtual:
            made = self._piece(group.bank, group.size, STEP * index + start, STEP * index + end)
            pieces.append(made)
            self.pieces[group].add(made)
            edit.replaced[register] = made.members[0]
            return made.members[0]

        is_joined = one.tied is not None and self._groups[one.tied] is self._groups[one.writes[0]] is group
        is_joined = is_joined and index not in self._copied
        if one.tied is not None and is_joined:
            both = edit.replaced[one.writes[0]] = piece(one.tied, 0, STEP)
            edit.loads.append((both, group))
            edit.stores.append((group, both))
        for register in one.reads:
            if self._groups[register] is group and register not in edit.replaced:
                is_kept = register in one.writes[0 if edit.result is None else 1 :]
                edit.loads.append((piece(register, 0, STEP if is_kept else WRITE), group))
        for place, register in enumerate(one.writes):
            if self._groups[register] is not group or (place == 0 and is_joined):
                continue
            if place == 0 and edit.result is not None:
                written = edit.result
            elif register in edit.replaced:
                written = edit.replaced[register]
            else:
                is_early = one.early or (place == 0 and index in self._copied)
                written = piece(register, READ if is_early else WRITE, STEP)
            edit.stores.append((group, written))
        return pieces

    def _scratch(self, index: int, one: Instruction, bank: str) -> list[Group]:
        """Return a register for the moves of a bank, if values must go from frame to frame and there is none yet."""
        if (index, bank) in self.scratches:
            return []
        replaced = self._edit(index).replaced
        pairs = [
            (self._groups[to], self._groups[source], source) for to, source in zip(one.writes, one.reads, strict=True)
        ]
        moving = [pair for pair in pairs if pair[0] is not pair[1] and pair[0].bank == bank]
        is_from_frame = any(group.is_spilled and source not in replaced for _, group, source in moving)
        if not is_from_frame or not any(group.is_spilled for group, _, _ in moving):
            return []
        size = max(max(to.size, group.size) for to, group, _ in moving)
        made = self._piece(bank, size, STEP * index, STEP * index + STEP)
        self.scratches[(index, bank)] = made.members[0]
        return [made]

    def _edit(self, index: int) -> Edit:
        return self.edits.setdefault(index, Edit())

    def _piece(self, bank: str, size: int, start: int, end: int, is_least: bool = True) -> Group:
        made = Virtual(self._next, bank, size)
        self._next += 1
        return Group([made], [(start, end)], bank, size, is_piece=is_least)
