"""Register allocation: a physical register for every virtual one, for all of its life, or a place in the frame.

`allocated.py` says what goes in and comes out. Steps: live ranges (`liveness.py`), groups of registers that may be one
(`coalesce.py`), registers for groups (`scan.py`); where they do not suffice, some groups move into the frame
(`spill.py`) and the scan starts anew; then the instructions are written (`rewrite.py`) and checked by a second analysis
that knows nothing of the first (`check_allocation.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bittern.chips.machine.allocated import Allocated, Bank
from bittern.chips.machine.check_allocation import check
from bittern.chips.machine.coalesce import Group, coalesce
from bittern.chips.machine.liveness import liveness, needed_at_labels
from bittern.chips.machine.rewrite import Choice, rewrite
from bittern.chips.machine.routine import Routine, Slot
from bittern.chips.machine.scan import Occupied, reserve, restore, scan
from bittern.chips.machine.spill import Spilling


def allocate(routine: Routine, banks: Sequence[Bank], remade: frozenset[str] = frozenset()) -> Allocated:
    """Return the routine with a physical register for every virtual one.

    remade: names of instructions without side effects (flags too) that read no register and are cheaper to run again
    than to load their result from the frame.
    """
    live = liveness(routine)
    groups, copied, twice = coalesce(routine, live)
    spilling = Spilling(routine, live, groups, copied, remade)
    detours = [spilling.detour(index) for index in sorted(twice)]
    by_name = {bank.name: bank for bank in banks}
    distinct = {id(group): group for group in (*groups.values(), *detours)}
    by_bank: dict[str, list[Group]] = {name: [] for name in by_name}
    for group in distinct.values():
        by_bank[group.bank].append(group)
    occupied = {}
    for name, bank in by_name.items():
        clobbered = [(number, found) for (kind, number), found in live.clobbered.items() if kind == name]
        occupied[name] = _fill(by_bank[name], bank, clobbered, spilling)
    frame = _Frame(routine)
    frame.place([group for group in distinct.values() if group.is_spilled and group.made < 0])
    registers = {register: group.register for register, group in groups.items() if group.register >= 0}
    for name in by_name:
        for group in by_bank[name]:
            if group.register >= 0:
                registers[group.members[0]] = group.register
    choice = Choice(groups, copied, twice, spilling, by_name, occupied, registers, frame.spare)
    instructions, origins, counts = rewrite(routine, choice)
    saved = tuple(
        (name, number)
        for name, bank in by_name.items()
        for number in sorted(bank.callee_saved)
        if number in occupied[name] and occupied[name][number].starts
    )
    allocated = Allocated(
        routine, tuple(instructions), registers, tuple(origins), frame.size, frame.alignment, saved, counts
    )
    made = {routine.instructions[index].writes[0] for index in spilling.dropped}
    check(allocated, banks, remade, {label: known | made for label, known in needed_at_labels(routine, live).items()})
    return allocated


def _fill(
    groups: list[Group], bank: Bank, clobbered: list[tuple[int, list[tuple[int, int]]]], spilling: Spilling
) -> dict[int, Occupied]:
    """Choose registers for the groups of one bank; pieces of those that were spilled are added to them."""
    while True:
        registers = reserve(groups, clobbered, bank.registers)
        waiting = [group for group in groups if group.fixed < 0 and not group.is_spilled]
        waiting.sort(key=lambda group: group.range[0])
        spilled = scan(waiting, bank.registers, registers, spilling.weigh)
        if not spilled:
            break
        for group in spilled:
            groups += spilling.spill(group)
    gone = [group for group in groups if group in spilling.pieces]
    for group in restore(sorted(gone, key=lambda group: -group.weight), spilling.pieces, bank.registers, registers):
        spilling.restore(group)
    return registers


@dataclass(slots=True)
class _Row:
    """A place in the frame, and when it is taken."""

    slot: Slot
    taken: Occupied = field(default_factory=Occupied)


class _Frame:
    """The frame of a routine, behind the slots that it has itself."""

    def __init__(self, routine: Routine) -> None:
        self.size = routine.frame
        self.alignment = routine.alignment
        self._rows: dict[tuple[str, int], list[_Row]] = {}
        self._spares: dict[tuple[str, int], Slot] = {}

    def place(self, groups: Sequence[Group]) -> None:
        """Give each group a slot; groups of a bank that do not live at the same time may share one.

        (Those of two banks may not: the moves of one bank are done before those of the next.)
        """
        for group in sorted(groups, key=lambda group: (-group.size, group.range[0])):
            rows = self._rows.setdefault((group.bank, group.size), [])
            for row in rows:
                if row.taken.is_free(group.range):
                    break
            else:
                row = _Row(self._slot(group.size))
                rows.append(row)
            row.taken.take(group, group.range)
            group.slot = row.slot

    def spare(self, bank: str, size: int) -> Slot:
        """Return a slot for one value that waits during moves."""
        if (bank, size) not in self._spares:
            self._spares[(bank, size)] = self._slot(size)
        return self._spares[(bank, size)]

    def _slot(self, size: int) -> Slot:
        boundary = min(64, 1 << max(0, size - 1).bit_length())
        self.size += -self.size % boundary
        self.alignment = max(self.alignment, boundary)
        made = Slot(self.size, size)
        self.size += size
        return made
