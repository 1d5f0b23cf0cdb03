"""Writes the instructions of a routine down once more, with all that allocation has added among them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from bittern.chips.machine.allocated import INSERTED, Bank, Counts
from bittern.chips.machine.coalesce import Group
from bittern.chips.machine.liveness import STEP
from bittern.chips.machine.moves import Place, in_order
from bittern.chips.machine.routine import Address, Instruction, Operand, Part, Routine, Slot, Virtual
from bittern.chips.machine.scan import Occupied
from bittern.chips.machine.spill import Edit, Spilling


@dataclass(slots=True)
class Choice:
    """What allocation has decided. copied, twice: ties, as `coalesce` gives them. occupied: registers of each bank.

    registers: of every virtual register that has one; completed by `rewrite`.
    """

    groups: Mapping[Virtual, Group]
    copied: set[int]
    twice: set[int]
    spilling: Spilling
    banks: Mapping[str, Bank]
    occupied: Mapping[str, Mapping[int, Occupied]]
    registers: dict[Virtual, int]
    spare_slot: Callable[[str, int], Slot]


def rewrite(routine: Routine, choice: Choice) -> tuple[list[Instruction], list[int], Counts]:
    """Return the instructions, where each comes from (`Allocated.origins`), and what was added."""
    edits, dropped = choice.spilling.edits, choice.spilling.dropped
    special = choice.copied | choice.twice | edits.keys() | dropped
    writer = _Writer(routine, choice)
    instructions, origins = writer.instructions, writer.origins
    for index, one in enumerate(routine.instructions):
        if one.name == "moves":
            writer.moves(index, one, edits.get(index) or Edit())
        elif index in dropped:
            continue
        elif index in special:
            writer.edited(index, one, edits.get(index) or Edit())
            continue
        instructions.append(one)
        origins.append(index)
    return instructions, origins, Counts(**writer.counts)


class _Writer:
    """Collects instructions."""

    def __init__(self, routine: Routine, choice: Choice) -> None:
        self.instructions: list[Instruction] = []
        self.origins: list[int] = []
        self.counts = {"copies": 0, "swaps": 0, "loads": 0, "stores": 0, "remade": 0}
        self._routine = routine
        self._choice = choice
        self._physical: dict[tuple[str, int, int], Virtual] = {}
        self._makers = {routine.instructions[index]: index for index in choice.spilling.dropped}

    def edited(self, index: int, one: Instruction, edit: Edit) -> None:
        """Write an instruction with what stands around it."""
        choice = self._choice
        for register, group in edit.loads:
            self._fill(register, self._place(group), group.size)
        if index in choice.copied or index in choice.twice:
            assert one.tied is not None
            result = edit.result or edit.replaced.get(one.writes[0], one.writes[0])
            known = edit.replaced.get(one.tied)
            place = self._place(choice.groups[one.tied]) if known is None else choice.registers[known]
            self._fill(result, place, max(result.size, one.tied.size))
        self._append(_mapped(one, edit.replaced, edit.result) if edit.replaced or edit.result else one, index)
        for group, register in edit.stores:
            assert group.slot is not None, ("nowhere to store", group.members)
            self._store(group.slot, register)
        if edit.result is not None and not choice.groups[one.writes[0]].is_spilled:
            self._fill(one.writes[0], choice.registers[edit.result], edit.result.size)

    def moves(self, index: int, one: Instruction, edit: Edit) -> None:
        """Write moves down one after another."""
        groups = self._choice.groups
        by_bank: dict[str, dict[Place, Place]] = {}
        sizes: dict[str, int] = {}
        for written, read in zip(one.writes, one.reads, strict=True):
            group, other = groups[written], groups[read]
            if group is not other:
                known = edit.replaced.get(read)
                source = self._place(other) if known is None else self._choice.registers[known]
                by_bank.setdefault(group.bank, {})[self._place(group)] = source
                sizes[group.bank] = max(sizes.get(group.bank, 0), group.size, other.size)
        for name, pairs in by_bank.items():
            size, bank = sizes[name], self._choice.banks[name]
            scratch = self._choice.spilling.scratches.get((index, name))
            for kind, to, source in in_order(pairs, bank.swaps, self._spare(index, bank, size, scratch is not None)):
                if kind == "swap":
                    assert isinstance(to, int) and isinstance(source, int)
                    self._swap(self._as_virtual(name, size, to), self._as_virtual(name, size, source))
                elif isinstance(to, int):
                    self._fill(self._as_virtual(name, size, to), source, size)
                else:
                    assert isinstance(to, Slot)
                    if isinstance(source, int):
                        self._store(to, self._as_virtual(name, size, source))
                        continue
                    assert scratch is not None, ("no register between two places of the frame", one)
                    self._fill(scratch, source, size)
                    self._store(to, scratch)

    def _spare(self, index: int, bank: Bank, size: int, is_in_frame: bool) -> Callable[[], Place]:
        """Return what finds a place for one value around the instruction: a free register, else a slot."""

        def find() -> Place:
            occupied = self._choice.occupied[bank.name]
            needed = [(STEP * index, STEP * index + STEP)]
            for number in bank.registers:
                is_usable = number not in bank.callee_saved or bool(occupied[number].starts)
                if not is_in_frame and is_usable and occupied[number].is_free(needed):
                    return number
            return self._choice.spare_slot(bank.name, size)

        return find

    def _place(self, group: Group) -> Place:
        if not group.is_spilled:
            return group.register
        if group.made >= 0:
            return self._routine.instructions[group.made]
        assert group.slot is not None
        return group.slot

    def _as_virtual(self, bank: str, size: int, number: int) -> Virtual:
        """Return a register that stands for a physical one."""
        known = self._physical.get((bank, size, number))
        if known is None:
            known = self._physical[(bank, size, number)] = Virtual(-1 - number, bank, size, number)
            self._choice.registers[known] = number
        return known

    def _append(self, one: Instruction, origin: int) -> None:
        self.instructions.append(one)
        self.origins.append(origin)

    def _fill(self, register: Virtual, source: Place, size: int) -> None:
        """Bring what is at a place into a register. size: bytes of it, where the place does not say it."""
        number = self._choice.registers[register]
        if isinstance(source, Slot):
            self.counts["loads"] += 1
            to = self._as_virtual(register.bank, source.size, number)
            operands: tuple[Operand, ...] = (Part(to, to.size), Address(size=to.size, slot=source))
            self._append(Instruction("load_slot", operands, (to,)), INSERTED)
        elif isinstance(source, Instruction):
            self.counts["remade"] += 1
            self._append(_mapped(source, {source.writes[0]: register}), -2 - self._makers[source])
        elif source != number:
            self.counts["copies"] += 1
            to, read = self._as_virtual(register.bank, size, number), self._as_virtual(register.bank, size, source)
            operands = (Part(to, size), Part(read, size))
            self._append(Instruction("copy", operands, (to,), (read,)), INSERTED)

    def _store(self, slot: Slot, register: Virtual) -> None:
        self.counts["stores"] += 1
        read = self._as_virtual(register.bank, slot.size, self._choice.registers[register])
        operands = (Address(size=slot.size, slot=slot), Part(read, slot.size))
        self._append(Instruction("store_slot", operands, (), (read,)), INSERTED)

    def _swap(self, first: Virtual, second: Virtual) -> None:
        self.counts["swaps"] += 1
        operands = (Part(first, first.size), Part(second, second.size))
        self._append(Instruction("swap", operands, (first, second), (second, first)), INSERTED)


def _mapped(one: Instruction, replaced: Mapping[Virtual, Virtual], result: Virtual | None = None) -> Instruction:
    """Return the instruction with other registers. result: what stands for the first that is written, if tied."""
    writes = [replaced.get(register, register) for register in one.writes]
    operands = [_mapped_operand(operand, replaced) for operand in one.operands]
    if result is not None:
        operands[0] = _mapped_operand(one.operands[0], {**replaced, one.writes[0]: result})
        writes[0] = result
    reads = [replaced.get(register, register) for register in one.reads]
    tied = None if one.tied is None else replaced.get(one.tied, one.tied)
    rest = (one.early, one.clobbers, one.target, one.falls, one.label)  # `replace` would take four times as long
    return Instruction(one.name, tuple(operands), tuple(writes), tuple(reads), tied, *rest)


def _mapped_operand(operand: Operand, replaced: Mapping[Virtual, Virtual]) -> Operand:
    if isinstance(operand, Part):
        mask = operand.mask and replaced.get(operand.mask, operand.mask)
        register = replaced.get(operand.register, operand.register)
        return Part(register, operand.size, mask, operand.zeroing, operand.rounding)
    if isinstance(operand, Address):
        base = operand.base and replaced.get(operand.base, operand.base)
        index = operand.index and replaced.get(operand.index, operand.index)
        mask = operand.mask and replaced.get(operand.mask, operand.mask)
        if base is not operand.base or index is not operand.index or mask is not operand.mask:
            return replace(operand, base=base, index=index, mask=mask)
    return operand
