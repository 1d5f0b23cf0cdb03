"""Random routines read the same values before and after allocation; planted faults are found by the checker."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_allocate_run import BANKS, CHEAP, Maker, run_allocated, run_routine

from bittern.chips.machine.allocate import allocate
from bittern.chips.machine.allocated import INSERTED, Allocated, Bank
from bittern.chips.machine.assembler import Label
from bittern.chips.machine.check_allocation import check
from bittern.chips.machine.liveness import liveness, needed_at_labels
from bittern.chips.machine.routine import Address, Instruction, Routine, Virtual

WAYS = (0, -1, 0b101101, 0b1101110110110111, 0x5555, 0xF0F3C)
WIDE = (
    Bank("general", tuple(range(12)), frozenset({3, 5}), swaps=True),
    Bank("vector", tuple(range(16))),
    Bank("mask", (1, 2, 3, 4, 5, 6, 7)),
)


def _differs(allocated: Allocated, routine: Routine) -> bool:
    return any(run_allocated(allocated, ways) != run_routine(routine, ways) for ways in WAYS)


@pytest.mark.req("K022")
@settings(max_examples=150)
@given(st.integers(0, 2**32), st.sampled_from((6, 20, 60, 150)), st.sampled_from((BANKS, WIDE)), st.booleans())
def test_values_arrive(seed: int, length: int, banks: tuple[Bank, ...], is_remade: bool) -> None:
    routine = Maker(seed, length).routine
    allocated = allocate(routine, banks, CHEAP if is_remade else frozenset())
    assert not _differs(allocated, routine)


def test_the_same_routine_gives_the_same_code() -> None:
    def text(seed: int) -> list[object]:
        allocated = allocate(Maker(seed, 60).routine, BANKS, CHEAP)
        return [
            (one.name, [allocated.registers[part] for part in (*one.writes, *one.reads)])
            for one in allocated.instructions
            if one.name != "moves"
        ]

    assert all(text(seed) == text(seed) for seed in range(20))


def _needed(routine: Routine) -> dict[Label, set[Virtual]]:
    made = {one.writes[0] for one in routine.instructions if one.name in CHEAP}
    return {label: known | made for label, known in needed_at_labels(routine, liveness(routine)).items()}


def _kept(allocated: Allocated, items: list[tuple[Instruction, int]]) -> Allocated:
    return replace(allocated, instructions=tuple(one for one, _ in items), origins=tuple(origin for _, origin in items))


def _items(allocated: Allocated) -> tuple[list[tuple[Instruction, int]], list[int]]:
    items = list(zip(allocated.instructions, allocated.origins, strict=True))
    return items, [index for index, (_, origin) in enumerate(items) if origin < 0]


def _another_register(allocated: Allocated, random: Random) -> Allocated | None:
    free = [register for register in allocated.registers if register.fixed < 0]
    if not free:
        return None
    chosen = random.choice(free)
    allowed = next(bank.registers for bank in BANKS if bank.name == chosen.bank)
    return replace(allocated, registers={**allocated.registers, chosen: random.choice(allowed)})


def _exchanged_registers(allocated: Allocated, random: Random) -> Allocated | None:
    free = [register for register in allocated.registers if register.fixed < 0 and register.bank == "vector"]
    if len(free) < 2:
        return None
    first, second = random.sample(free, 2)
    numbers = dict(allocated.registers)
    numbers[first], numbers[second] = numbers[second], numbers[first]
    return replace(allocated, registers=numbers)


def _lost(name: str) -> Callable[[Allocated, Random], Allocated | None]:
    def plant(allocated: Allocated, random: Random) -> Allocated | None:
        items, _ = _items(allocated)
        places = [index for index, (one, origin) in enumerate(items) if origin == INSERTED and one.name == name]
        if not places:
            return None
        del items[random.choice(places)]
        return _kept(allocated, items)

    return plant


def _wrong_order(allocated: Allocated, random: Random) -> Allocated | None:
    items, places = _items(allocated)
    if not places:
        return None
    index = random.choice(places)
    other = index + random.choice((-1, 1))
    if 0 <= other < len(items):
        items[index], items[other] = items[other], items[index]
    return _kept(allocated, items)


def _wrong_slot(allocated: Allocated, random: Random) -> Allocated | None:
    items, places = _items(allocated)
    slots = {operand.slot for index in places for operand in items[index][0].operands if isinstance(operand, Address)}
    places = [index for index in places if items[index][0].name in ("load_slot", "store_slot")]
    if len(slots) < 2:
        return None
    index = random.choice(places)
    one, origin = items[index]
    slot = random.choice(sorted((slot for slot in slots if slot is not None), key=lambda slot: slot.offset))
    changed = tuple(replace(one, slot=slot) if isinstance(one, Address) else one for one in one.operands)
    items[index] = (replace(one, operands=changed), origin)
    return _kept(allocated, items)


def _ignoring(**what: object) -> Callable[[Allocated, Random], Allocated | None]:
    """Allocate the routine without a fact about its instructions, then put the fact back."""

    def plant(allocated: Allocated, random: Random) -> Allocated | None:
        routine = allocated.routine
        bare = [
            one if one.name in ("label", "moves") else replace(one, **what)  # type: ignore[arg-type]
            for one in routine.instructions
        ]
        other = allocate(replace(routine, instructions=bare), BANKS, CHEAP)
        names = {name: [getattr(one, name) for one in routine.instructions] for name in what}
        items = [
            (one, origin)
            if origin < 0
            else (routine.instructions[origin], origin)
            if one is bare[origin]
            else (replace(one, **{name: names[name][origin] for name in what}), origin)
            for one, origin in zip(other.instructions, other.origins, strict=True)
        ]
        return _kept(replace(other, routine=routine, saved=allocated.saved), items)

    return plant


FAULTS = {
    "another register": _another_register,
    "exchanged registers": _exchanged_registers,
    "lost copy": _lost("copy"),
    "lost exchange": _lost("swap"),
    "lost load": _lost("load_slot"),
    "lost store": _lost("store_slot"),
    "wrong order": _wrong_order,
    "wrong slot": _wrong_slot,
    "clobbers ignored": _ignoring(clobbers=()),
    "early ignored": _ignoring(early=False),
}


@pytest.mark.req("K022")
@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name: str) -> None:
    """Whatever makes a run differ, the checker sees; and the plantings do make runs differ."""
    wrong = 0
    for seed in range(200):
        routine = Maker(seed, 50).routine
        allocated = FAULTS[name](allocate(routine, BANKS, CHEAP), Random(seed))
        if allocated is None:
            continue
        try:
            is_different = _differs(allocated, routine)
        except KeyError:
            is_different = True
        if is_different:
            wrong += 1
            with pytest.raises(AssertionError):
                check(allocated, BANKS, CHEAP)
            with pytest.raises(AssertionError):
                check(allocated, BANKS, CHEAP, _needed(routine))
    assert wrong >= 8, ("too few plantings that matter", name, wrong)


def test_a_checker_that_is_told_too_little_fails() -> None:
    failed = 0
    for seed in range(40):
        routine = Maker(seed, 60).routine
        allocated = allocate(routine, BANKS, CHEAP)
        needed = _needed(routine)
        check(allocated, BANKS, CHEAP, needed)
        try:
            check(allocated, BANKS, CHEAP, {label: set() for label in needed})
        except AssertionError as fault:
            assert "does not find its value" in str(fault)
            failed += 1
    assert failed > 20


def test_a_message_names_the_instruction_and_the_register() -> None:
    routine = Maker(15, 30).routine
    allocated = allocate(routine, BANKS, CHEAP)
    number = next(register for register in routine.instructions[5].reads)
    wrong = replace(allocated, registers={**allocated.registers, number: allocated.registers[number] ^ 1})
    with pytest.raises(AssertionError, match=rf"does not find its value.*{number}"):
        check(wrong, BANKS, CHEAP)


def test_slots_that_lie_in_one_another_are_found() -> None:
    allocated = next(
        one for one in (allocate(Maker(seed, 60).routine, BANKS, CHEAP) for seed in range(99)) if one.counts.stores > 4
    )
    with pytest.raises(AssertionError, match="inside another"):
        check(replace(allocated, routine=replace(allocated.routine, frame=8)), BANKS, CHEAP)
    with pytest.raises(AssertionError, match="beyond the frame"):
        check(replace(allocated, frame=8), BANKS, CHEAP)
