"""Checks allocated code by running it on names: is every value that an instruction reads where it reads it?

The state says of each place, a physical register or a slot, which virtual registers' present values it is known to
hold. Writing a register makes its value elsewhere outdated; a copy makes a second place; where ways meet, only what all
of them hold is known; loops go round until nothing changes. Nothing of the allocator's own analyses is used: only the
routine, and what came out. After Rideau and Leroy, Validating Register Allocation and Spilling (2010).

A fault is our own: an AssertionError that names the instruction.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from heapq import heappop, heappush
from typing import TypeAlias

from bittern.chips.machine.allocated import INSERTED, Allocated, Bank
from bittern.chips.machine.assembler import Label
from bittern.chips.machine.routine import Address, Instruction, Operand, Part, Slot, Virtual

State: TypeAlias = list[tuple[Virtual, ...]]  # by place; places are numbered in the order in which they are met


def check(
    allocated: Allocated,
    banks: Sequence[Bank],
    remade: frozenset[str] = frozenset(),
    needed: Mapping[Label, Set[Virtual]] | None = None,
) -> None:
    """Raise an AssertionError where the allocated code does not do what its routine says.

    needed: at labels, the registers whose values are read from there on, and all that are made again, if that is known:
    others are forgotten there, so that loops settle sooner. A wrong one makes the check fail, never pass.
    """
    _check_registers(allocated, banks)
    _Form(allocated, banks, remade).check()
    _Walk(allocated, needed or {}).run()


def _check_registers(allocated: Allocated, banks: Sequence[Bank]) -> None:
    """See that numbers are allowed ones, and that those which the caller needs are saved."""
    allowed = {bank.name: frozenset(bank.registers) for bank in banks}
    used = set[tuple[str, int]]()
    for register, number in allocated.registers.items():
        if register.fixed >= 0:
            assert number == register.fixed, ("not in its fixed register", register, number)
        else:
            assert number in allowed[register.bank], ("a register that may not be used", register, number)
        used.add((register.bank, number))
    for one in allocated.routine.instructions:
        used.update(one.clobbers)
    for bank in banks:
        for number in bank.callee_saved:
            place = (bank.name, number)
            assert place not in used or place in allocated.saved, ("the caller's value is lost", place)


class _Form:
    """Checks each instruction by itself: what was kept, what was rewritten, what was added."""

    def __init__(self, allocated: Allocated, banks: Sequence[Bank], remade: frozenset[str]) -> None:
        self._allocated = allocated
        self._given = allocated.routine.instructions
        self._numbers = allocated.registers
        self._swaps = {bank.name: bank.swaps for bank in banks}
        self._remade = remade
        self._slots: set[Slot] = set()
        self._written: dict[Virtual, int] = {}

    def check(self) -> None:
        """Raise an AssertionError for the first fault."""
        allocated, given = self._allocated, self._given
        expected = 0
        for one, origin in zip(allocated.instructions, allocated.origins, strict=True):
            if origin < 0:
                self._check_added(one, origin)
                continue
            assert origin >= expected, ("out of order", one)
            for missing in range(expected, origin):
                self._check_made(given[missing])
            expected = origin + 1
            if one is not given[origin]:
                self._check_rewritten(one, given[origin])
            if one.early or one.clobbers or len(one.writes) > 1:
                self._check_apart(one)
        for missing in range(expected, len(given)):
            self._check_made(given[missing])
        self._check_slots()

    def _check_apart(self, one: Instruction) -> None:
        """See that what is written has places of its own."""
        if one.name == "moves":
            return
        writes = [(register.bank, self._numbers[register]) for register in one.writes]
        reads = {(register.bank, self._numbers[register]) for register in one.reads}
        assert len(set(writes)) == len(writes), ("two results in one register", one)
        assert not set(writes) & set(one.clobbers), ("a result in a clobbered register", one)
        if one.early:
            assert not reads & {*writes, *one.clobbers}, ("written before all is read", one)

    def _check_rewritten(self, one: Instruction, old: Instruction) -> None:
        """See that only registers differ, and each everywhere alike."""
        assert one.name == old.name and one.name not in ("moves", "label"), ("another instruction", one, old)
        fields = ("early", "clobbers", "target", "falls", "label")
        assert all(getattr(one, name) == getattr(old, name) for name in fields), ("another instruction", one, old)
        assert (one.tied is None) == (old.tied is None), ("a tie lost", one, old)
        reads = dict(zip(old.reads, one.reads, strict=True))
        writes = dict(zip(old.writes, one.writes, strict=True))
        first = int(old.tied is not None)  # with a tie the first operand is what is written, whatever is read
        _check_operands(one.operands[:first], old.operands[:first], reads | writes)
        _check_operands(one.operands[first:], old.operands[first:], writes | reads)
        for register, new in list(writes.items())[first:]:
            assert reads.get(register, new) is new, ("one register read, another written", one, old)

    def _check_added(self, one: Instruction, origin: int) -> None:
        if origin != INSERTED:
            old = self._given[-2 - origin]
            self._check_made(old)
            assert one.name == old.name and len(one.writes) == 1 and not one.reads, ("made otherwise", one, old)
            _check_operands(one.operands, old.operands, {old.writes[0]: one.writes[0]})
            return
        shape = [type(operand) for operand in one.operands]
        if one.name in ("copy", "swap"):
            assert shape == [Part, Part] and (one.name == "copy" or self._swaps[one.writes[0].bank]), ("no such", one)
        else:
            assert one.name in ("load_slot", "store_slot"), ("what is this", one)
            assert shape == ([Part, Address] if one.name == "load_slot" else [Address, Part]), ("no such", one)
            self._slots.add(_slot(one))
        parts = tuple(operand.register for operand in one.operands if isinstance(operand, Part))
        sizes = {operand.size for operand in (*one.operands, *parts) if not isinstance(operand, int | Label)}
        sizes |= {_slot(one).size} if one.name in ("load_slot", "store_slot") else set()
        assert len(sizes) == 1, ("of several sizes", one, sizes)
        meant = {
            "copy": (parts[:1], parts[1:]),
            "swap": (parts, parts[::-1]),
            "load_slot": (parts, ()),
            "store_slot": ((), parts),
        }[one.name]
        assert (one.writes, one.reads) == meant, ("operands are not what is read and written", one)
        assert len({part.bank for part in parts}) == 1, ("a copy across banks", one)

    def _check_made(self, old: Instruction) -> None:
        """See that an instruction may be left out, or run again elsewhere."""
        is_pure = old.name in self._remade and not old.reads and old.tied is None and not old.clobbers
        assert is_pure and old.target is None and old.falls and len(old.writes) == 1, ("left out or run again", old)
        memory = [operand for operand in old.operands if isinstance(operand, Address)]
        assert all(operand.label is not None for operand in memory), ("made of memory that may change", old)
        if not self._written:
            for one in self._given:
                for register in one.writes:
                    self._written[register] = self._written.get(register, 0) + 1
        is_argument = old.writes[0] in self._allocated.routine.arguments
        assert self._written[old.writes[0]] == 1 and not is_argument, ("made again, but written elsewhere", old)

    def _check_slots(self) -> None:
        """See that the slots which were added lie in the frame, behind the routine's own, and apart."""
        end = self._allocated.routine.frame
        for slot in sorted(self._slots, key=lambda slot: slot.offset):
            assert slot.offset >= end, ("a slot inside another", slot)
            boundary = min(64, 1 << max(0, slot.size - 1).bit_length())
            assert slot.offset % boundary == 0 == self._allocated.alignment % boundary, ("not aligned", slot)
            end = slot.offset + slot.size
        assert end <= self._allocated.frame, ("a slot beyond the frame", end, self._allocated.frame)


class _Walk:
    """Follows values through the code.

    spread: of registers whose value may be in several places at once, all places where it has ever been.
    """

    def __init__(self, allocated: Allocated, needed: Mapping[Label, Set[Virtual]]) -> None:
        self._needed = needed
        self._spread: dict[Virtual, set[int]] = {}
        self._allocated = allocated
        self._given = allocated.routine.instructions
        self._ids: dict[tuple[str, int] | Slot, int] = {}
        self._places = {register: self._id((register.bank, number)) for register, number in allocated.registers.items()}
        self._starts: dict[Label, int] = {}
        for index, one in enumerate(allocated.instructions):
            if one.name == "label" and isinstance(one.operands[0], Label):
                self._starts[one.operands[0]] = index
            for place in one.clobbers:
                self._id(place)
            if one.name in ("load_slot", "store_slot"):
                self._id(_slot(one))
        self._known: dict[int, dict[int, tuple[Virtual, ...]]] = {}
        self._waiting: list[int] = []

    def run(self) -> None:
        """Walk until nothing changes; raise an AssertionError where a value is not where it is read."""
        arguments = self._allocated.routine.arguments
        places = [self._id((argument.bank, argument.fixed)) for argument in arguments]
        assert all(argument.fixed >= 0 for argument in arguments), ("an argument without a place", arguments)
        assert len(set(places)) == len(places), ("two arguments in one register", arguments)
        entry: State = [()] * len(self._ids)
        for argument, place in zip(arguments, places, strict=True):
            entry[place] = (argument,)
        self._arrive(0, entry)
        while self._waiting:
            self._walk(heappop(self._waiting))

    def _id(self, place: tuple[str, int] | Slot) -> int:
        return self._ids.setdefault(place, len(self._ids))

    def _arrive(self, at: int, state: State) -> None:
        """Meet what is known at an instruction; have it walked from there if less is known now."""
        known = self._known.get(at)
        if known is None:
            self._known[at] = self._needed_of(at, state)
            heappush(self._waiting, at)
            return
        is_changed = False
        for place, held in known.items():
            other = state[place]
            if held is not other and not all(register in other for register in held):
                known[place] = tuple(register for register in held if register in other)
                is_changed = True
        if is_changed and at not in self._waiting:
            heappush(self._waiting, at)

    def _needed_of(self, at: int, state: State) -> dict[int, tuple[Virtual, ...]]:
        """Return what is held of what is needed from here on, or all, where that is not known."""
        one = self._allocated.instructions[at]
        needed = self._needed.get(one.operands[0]) if one.name == "label" and type(one.operands[0]) is Label else None
        if needed is None:
            return {place: held for place, held in enumerate(state) if held}
        kept = {}
        for place, held in enumerate(state):
            if held:
                those = held if len(held) == 1 else tuple(register for register in held if register in needed)
                if those and those[0] in needed:
                    kept[place] = those
        return kept

    def _walk(self, at: int) -> None:
        """Walk from a label, or from the start, to the next label, or to where nothing follows."""
        instructions, origins, given = self._allocated.instructions, self._allocated.origins, self._given
        places, spread = self._places, self._spread
        state: State = [()] * len(self._ids)
        for place, held in self._known[at].items():
            state[place] = held
        for index in range(at, len(instructions)):
            one, origin = instructions[index], origins[index]
            if origin < 0:
                self._added(one, origin, state)
                continue
            old = given[origin]
            if one.name == "label":
                if index != at:
                    self._arrive(index, state)
                    return
                continue
            if one.name == "moves":
                self._rename(one, state)
                continue
            for register, named in zip(one.reads, old.reads, strict=True):
                assert named in state[places[register]], _fault(index, one, named, state[places[register]])
            if old.tied is not None:
                held = state[places[one.writes[0]]]
                assert old.tied in held, _fault(index, one, old.tied, held)
            for clobbered in one.clobbers:
                state[self._ids[clobbered]] = ()
            for register, named in zip(one.writes, old.writes, strict=True):
                if register is not named:
                    self._spread_to(places[register], (named,))
                if named in spread:
                    _forget(named, spread[named], state)
                state[places[register]] = (named,)
            if one.target is not None:
                self._arrive(self._starts[one.target], state)
            if not one.falls:
                return

    def _added(self, one: Instruction, origin: int, state: State) -> None:
        """Follow what allocation added: whole values go from place to place."""
        if origin != INSERTED:
            made, to = self._given[-2 - origin].writes[0], self._places[one.writes[0]]
            self._spread_to(to, (made,))
            state[to] = (made,)
            return
        size = (one.writes or one.reads)[0].size
        if one.name == "swap":
            first, second = (self._places[register] for register in one.writes)
            held = state[first]
            state[first], state[second] = self._brought(first, state[second], size), self._brought(second, held, size)
            return
        to = self._places[one.writes[0]] if one.writes else self._ids[_slot(one)]
        source = self._places[one.reads[0]] if one.reads else self._ids[_slot(one)]
        state[to] = self._brought(to, state[source], size)

    def _brought(self, to: int, held: tuple[Virtual, ...], size: int) -> tuple[Virtual, ...]:
        """Return those that a copy of so many bytes to a place brings along whole."""
        whole = tuple(register for register in held if register.size <= size)
        self._spread_to(to, whole)
        return whole

    def _spread_to(self, place: int, held: Iterable[Virtual]) -> None:
        """Note that a place may hold registers that have other places too, or one of their own."""
        for register in held:
            known = self._spread.get(register)
            if known is None:
                own = self._places.get(register)
                known = self._spread[register] = set() if own is None else {own}
            known.add(place)

    def _rename(self, one: Instruction, state: State) -> None:
        """Let each written register mean what the read one meant, all at once, wherever that is."""
        written = set(one.writes)
        new: dict[Virtual, list[Virtual]] = {}
        for register, read in zip(one.writes, one.reads, strict=True):
            new.setdefault(read, []).append(register)
        for place, held in enumerate(state):
            if held:
                kept = [register for register in held if register not in written]
                named = [register for read in held for register in new.get(read, ())]
                self._spread_to(place, named)
                state[place] = (*kept, *named)


def _fault(index: int, one: Instruction, named: Virtual, held: tuple[Virtual, ...]) -> tuple[object, ...]:
    return ("a read that does not find its value", index, one.name, one.label, named, "found", held)


def _forget(named: Virtual, places: Iterable[int], state: State) -> None:
    for place in places:
        if named in state[place]:
            state[place] = tuple(register for register in state[place] if register is not named)


def _slot(one: Instruction) -> Slot:
    """Return the slot of a load or store that was added."""
    address = one.operands[0 if one.name == "store_slot" else 1]
    assert isinstance(address, Address) and address.slot is not None, ("not a slot", one)
    return address.slot


def _check_operands(one: Sequence[Operand], old: Sequence[Operand], replaced: Mapping[Virtual, Virtual]) -> None:
    """See that operands are the old ones with registers replaced."""
    for new, given in zip(one, old, strict=True):
        if isinstance(given, Part | Address):
            assert type(new) is type(given), ("another operand", one, old)
            for register, kept in zip(_registers(new), _registers(given), strict=True):
                expected = kept if kept is None else replaced.get(kept, kept)
                assert register is expected, ("another register", one, old, register, kept)
            assert _rest(new) == _rest(given), ("another operand", one, old)
        else:
            assert new == given, ("another operand", one, old)


def _registers(operand: Operand) -> Iterable[Virtual | None]:
    if isinstance(operand, Part):
        return operand.register, operand.mask
    assert isinstance(operand, Address), operand
    return operand.base, operand.index, operand.mask


def _rest(operand: Operand) -> tuple[object, ...]:
    """Return what an operand is apart from its registers."""
    if isinstance(operand, Part):
        return operand.size, operand.zeroing, operand.rounding
    assert isinstance(operand, Address), operand
    return operand.scale, operand.displacement, operand.size, operand.broadcast, operand.slot, operand.label
