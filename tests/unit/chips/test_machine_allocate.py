"""Register allocation on small routines: what is one register, what is copied, what goes into the frame."""

import time

import pytest
from machine_allocate_run import BANKS, CHEAP, run_allocated, run_routine

from bittern.chips.machine.allocate import allocate
from bittern.chips.machine.allocated import Allocated, Bank
from bittern.chips.machine.assembler import Label
from bittern.chips.machine.routine import Address, Instruction, Part, Routine, Virtual

GENERAL, VECTOR, MASK = BANKS
REGISTERS = (Bank("general", tuple(range(16)), frozenset({3, 12}), True), Bank("vector", tuple(range(32))), MASK)


def _add(
    routine: Routine,
    name: str,
    writes: tuple[Virtual, ...] = (),
    reads: tuple[Virtual, ...] = (),
    tied: Virtual | None = None,
    early: bool = False,
    clobbers: tuple[tuple[str, int], ...] = (),
) -> None:
    operands = tuple(Part(register, register.size) for register in (*writes, *reads))
    routine.instructions.append(Instruction(name, operands, writes, reads, tied, early, clobbers))


def _moves(routine: Routine, pairs: dict[Virtual, Virtual]) -> None:
    routine.instructions.append(Instruction("moves", (), tuple(pairs), tuple(pairs.values())))


def _label(routine: Routine, name: str) -> Label:
    label = Label(name)
    routine.instructions.append(Instruction("label", (label,)))
    return label


def _jump(routine: Routine, label: Label, reads: tuple[Virtual, ...] = ()) -> None:
    routine.instructions.append(Instruction("again", (label,), (), reads, target=label))


def _added(allocated: Allocated) -> list[str]:
    return [one.name for one, origin in zip(allocated.instructions, allocated.origins, strict=True) if origin < 0]


def _sums(count: int, unrolled: int = 2) -> Routine:
    """Return a loop with `count` sums, each carried around through a tie and a move."""
    routine = Routine("sums")
    given = routine.virtual("general", 8, 7)
    routine.arguments = (given,)
    pointer = routine.virtual("general", 8)
    _moves(routine, {pointer: given})
    zeros = [routine.virtual("vector", 64) for _ in range(count)]
    sums = [routine.virtual("vector", 64) for _ in range(count)]
    for zero in zeros:
        _add(routine, "constant", (zero,))
    _moves(routine, dict(zip(sums, zeros, strict=True)))
    top = _label(routine, "loop")
    present = list(sums)
    for _ in range(unrolled):
        weights = routine.virtual("vector", 64)
        _add(routine, "load", (weights,), (pointer,))
        for place, tied in enumerate(present):
            value, present[place] = routine.virtual("vector", 64), routine.virtual("vector", 64)
            _add(routine, "load", (value,), (pointer,))
            _add(routine, "dot", (present[place],), (weights, value), tied)
    moved = routine.virtual("general", 8)
    _add(routine, "step", (moved,), (), pointer)
    _moves(routine, {pointer: moved} | dict(zip(sums, present, strict=True)))
    _jump(routine, top, (pointer,))
    for one in sums:
        _add(routine, "store", (), (pointer, one))
    return routine


def test_sums_of_a_loop_cost_no_move() -> None:
    allocated = allocate(_sums(8), REGISTERS, CHEAP)
    assert _added(allocated) == []
    assert allocated.frame == 0
    assert len({allocated.registers[one.writes[0]] for one in allocated.instructions if one.name == "dot"}) == 8


def test_the_argument_stays_in_its_register() -> None:
    routine = _sums(2)
    allocated = allocate(routine, REGISTERS, CHEAP)
    pointer = routine.instructions[0].writes[0]
    assert allocated.registers[pointer] == 7


def test_sums_that_do_not_fit_go_to_the_frame_and_come_back() -> None:
    routine = _sums(6)
    allocated = allocate(routine, (REGISTERS[0], VECTOR, MASK), CHEAP)
    assert allocated.counts.loads and allocated.counts.stores
    assert allocated.frame % 64 == 0 and allocated.alignment == 64
    for ways in (0, 1, 7):
        assert run_allocated(allocated, ways) == run_routine(routine, ways)


def test_what_an_inner_loop_needs_stays_in_registers() -> None:
    routine = Routine("nested")
    outer = [routine.virtual("vector", 64) for _ in range(3)]
    for one in outer:
        _add(routine, "load", (one,))
    first, top = routine.virtual("vector", 64), Label()
    _add(routine, "load", (first,))
    inner = routine.virtual("vector", 64)
    _moves(routine, {inner: first})
    top = _label(routine, "inner")
    new, value = routine.virtual("vector", 64), routine.virtual("vector", 64)
    _add(routine, "load", (value,))
    other = routine.virtual("vector", 64)
    _add(routine, "load", (other,))
    _add(routine, "dot", (new,), (value, other), inner)
    _moves(routine, {inner: new})
    _jump(routine, top)
    for one in (*outer, inner):
        _add(routine, "store", (), (one,))
    allocated = allocate(routine, BANKS)
    start, end = (
        next(index for index, one in enumerate(allocated.instructions) if one.name == name)
        for name in ("label", "again")
    )
    assert _added(allocated).count("store_slot") == 2
    assert all(origin >= 0 for origin in allocated.origins[start:end])


def _two_loops(count: int) -> Routine:
    """Return a loop around two, of which each reads `count` values of its own that are known before."""
    routine = Routine("two loops")
    values = [routine.virtual("vector", 64) for _ in range(2 * count)]
    for one in values:
        _add(routine, "constant", (one,))
    outer = _label(routine, "outer")
    for half in (values[:count], values[count:]):
        total = routine.virtual("vector", 64)
        _add(routine, "load", (total,))
        inner = _label(routine, "inner")
        for one in half:
            _add(routine, "dot", (total,), (one,), total)
        _jump(routine, inner)
        _add(routine, "store", (), (total,))
    _jump(routine, outer)
    return routine


@pytest.mark.parametrize("remade", [frozenset[str](), CHEAP])
def test_what_is_spilled_is_loaded_in_front_of_the_loop_that_reads_it(remade: frozenset[str]) -> None:
    routine = _two_loops(7)
    allocated = allocate(routine, (GENERAL, Bank("vector", tuple(range(8))), MASK), remade)
    labels = [index for index, one in enumerate(allocated.instructions) if one.name == "label"]
    jumps = [index for index, one in enumerate(allocated.instructions) if one.name == "again"]
    for start, end in ((labels[1], jumps[0]), (labels[2], jumps[1])):
        assert all(origin >= 0 for origin in allocated.origins[start:end])
    assert allocated.counts.remade == (14 if remade else 0) and allocated.counts.loads == (0 if remade else 14)
    assert run_allocated(allocated, 0b1101) == run_routine(routine, 0b1101)


def test_what_fits_after_all_is_not_spilled() -> None:
    """Each loop leaves three of its eight registers to values of the other."""
    allocated = allocate(_two_loops(4), (GENERAL, Bank("vector", tuple(range(8))), MASK))
    assert allocated.counts.stores == 2


def test_near_uses_share_one_load() -> None:
    routine = Routine("near")
    old = routine.virtual("vector", 64)
    _add(routine, "load", (old,))
    for _ in range(2):
        values = tuple(routine.virtual("vector", 64) for _ in range(4))
        for one in values:
            _add(routine, "load", (one,))
        _add(routine, "op", (), values)
    for _ in range(3):
        _add(routine, "op", (), (old,))
    allocated = allocate(routine, BANKS)
    assert allocated.counts.loads == allocated.counts.stores == 1


def test_a_tied_value_that_lives_on_is_copied_once() -> None:
    routine = Routine("tie")
    value, other, result = (routine.virtual("vector", 64) for _ in range(3))
    _add(routine, "load", (value,))
    _add(routine, "load", (other,))
    _add(routine, "op", (result,), (other,), value)
    _add(routine, "store", (), (value, result))
    assert _added(allocate(routine, BANKS)) == ["copy"]


def test_a_result_may_be_among_what_its_operation_reads() -> None:
    """The copy for the tie may not go where the second operand still is."""
    routine = Routine("tie")
    value, result = (routine.virtual("vector", 64) for _ in range(2))
    _add(routine, "load", (value,))
    _add(routine, "load", (result,))
    _add(routine, "op", (result,), (result,), value)
    _add(routine, "store", (), (result, value))
    for banks in (BANKS, (GENERAL, Bank("vector", (0, 1, 2)), MASK)):
        allocated = allocate(routine, banks)
        assert run_allocated(allocated, 0) == run_routine(routine, 0)


def test_early_results_and_clobbers_are_apart_from_what_is_read() -> None:
    routine = Routine("early")
    one, two, result = (routine.virtual("vector", 64) for _ in range(3))
    _add(routine, "load", (one,))
    _add(routine, "load", (two,))
    _add(routine, "op", (result,), (one, two), None, True, (("vector", 0), ("vector", 1)))
    _add(routine, "store", (), (result,))
    allocated = allocate(routine, (GENERAL, Bank("vector", tuple(range(5))), MASK))
    assert {allocated.registers[register] for register in (one, two, result)} == {2, 3, 4}


def test_fixed_registers_are_reached_without_moves() -> None:
    routine = Routine("shift")
    count, value = (routine.virtual("general", 8) for _ in range(2))
    fixed = routine.virtual("general", 8, 1)
    _add(routine, "load", (value,))
    _add(routine, "load", (count,))
    _moves(routine, {fixed: count})
    result = routine.virtual("general", 8)
    _add(routine, "op", (result,), (fixed,), value)
    _add(routine, "store", (), (result,))
    allocated = allocate(routine, BANKS)
    assert _added(allocated) == []
    assert allocated.registers[count] == 1


def test_two_values_in_one_fixed_register_are_refused() -> None:
    routine = Routine("fixed")
    one, two = (routine.virtual("general", 8, 1) for _ in range(2))
    _add(routine, "load", (one,))
    _add(routine, "load", (two,))
    _add(routine, "store", (), (one, two))
    with pytest.raises(AssertionError, match="two values fixed to one register"):
        allocate(routine, BANKS)


def test_a_read_that_nothing_is_written_before_is_refused() -> None:
    routine = Routine("unwritten")
    _add(routine, "store", (), (routine.virtual("general", 8),))
    with pytest.raises(AssertionError, match="read before written"):
        allocate(routine, BANKS)


def test_an_instruction_that_needs_too_many_registers_is_refused() -> None:
    routine = Routine("many")
    many = tuple(routine.virtual("vector", 64) for _ in range(5))
    for one in many:
        _add(routine, "load", (one,))
    _add(routine, "op", (), many)
    with pytest.raises(AssertionError, match="too few registers"):
        allocate(routine, BANKS)


def test_registers_that_the_caller_needs_are_named() -> None:
    routine = Routine("saved")
    values = tuple(routine.virtual("general", 8) for _ in range(4))
    for one in values:
        _add(routine, "load", (one,))
    _add(routine, "op", (), values)
    assert allocate(routine, BANKS).saved == (("general", 3),)
    assert allocate(_sums(2), REGISTERS, CHEAP).saved == ()
    clobbering = Routine("clobbering")
    _add(clobbering, "op", (), (), None, False, (("general", 3),))
    assert allocate(clobbering, BANKS).saved == (("general", 3),)


def test_cheap_values_are_made_again() -> None:
    routine = Routine("made")
    constant = routine.virtual("vector", 64)
    _add(routine, "constant", (constant,))
    values = tuple(routine.virtual("vector", 64) for _ in range(4))
    for one in values:
        _add(routine, "load", (one,))
    _add(routine, "op", (), values)
    _add(routine, "op", (), (constant,))
    allocated = allocate(routine, BANKS, CHEAP)
    assert [one.name for one in allocated.instructions] == ["load"] * 4 + ["op", "constant", "op"]
    assert allocated.counts.remade == 1 and allocated.frame == 0
    stored = allocate(routine, BANKS)
    assert stored.counts.stores == stored.counts.loads == 1


def test_what_is_in_the_frame_is_not_made_again() -> None:
    routine = Routine("frame")
    value = routine.virtual("vector", 64)
    slot = Address(size=64, slot=routine.slot(64))
    routine.instructions.append(Instruction("constant", (Part(value, 64), slot), (value,)))
    others = tuple(routine.virtual("vector", 64) for _ in range(4))
    for one in others:
        _add(routine, "load", (one,))
    _add(routine, "op", (), others)
    _add(routine, "op", (), (value,))
    counts = allocate(routine, BANKS, CHEAP).counts
    assert (counts.remade, counts.loads) == (0, 1)


def test_slots_lie_behind_those_of_the_routine() -> None:
    routine = _sums(6)
    own = routine.slot(40)
    assert own.offset == 0
    allocated = allocate(routine, (REGISTERS[0], VECTOR, MASK), CHEAP)
    offsets = [
        operand.slot.offset
        for one in allocated.instructions
        for operand in one.operands
        if isinstance(operand, Address) and operand.slot is not None
    ]
    assert min(offsets) == 64 and max(offsets) + 64 == allocated.frame


def test_values_that_do_not_live_together_share_a_slot() -> None:
    routine = Routine("shared")
    for _ in range(5):
        values = tuple(routine.virtual("vector", 64) for _ in range(5))
        for one in values:
            _add(routine, "load", (one,))
        for one in values:
            _add(routine, "store", (), (one,))
    allocated = allocate(routine, BANKS)
    assert allocated.counts.stores == 10 and allocated.frame == 128


def test_parallel_moves_turn_in_a_circle() -> None:
    for bank, expected in (("general", ["swap"]), ("vector", ["copy"] * 3)):
        routine = Routine("circle")
        first, second = routine.virtual(bank, 8), routine.virtual(bank, 8)
        _add(routine, "load", (first,))
        _add(routine, "load", (second,))
        top = _label(routine, "loop")
        _add(routine, "op", (), (first, second))
        _moves(routine, {first: second, second: first})
        _jump(routine, top)
        allocated = allocate(routine, BANKS)
        assert _added(allocated) == expected
        assert run_allocated(allocated, 7) == run_routine(routine, 7)


def test_a_circle_without_a_free_register_goes_through_the_frame() -> None:
    routine = Routine("circle")
    values = [routine.virtual("vector", 64) for _ in range(4)]
    for one in values:
        _add(routine, "load", (one,))
    top = _label(routine, "loop")
    _add(routine, "op", (), tuple(values))
    _moves(routine, dict(zip(values, values[1:] + values[:1], strict=True)))
    _jump(routine, top)
    allocated = allocate(routine, BANKS)
    assert sorted(_added(allocated)) == ["copy"] * 3 + ["load_slot", "store_slot"]
    assert run_allocated(allocated, 7) == run_routine(routine, 7)


def test_long_routines_take_little_time() -> None:
    """5000 instructions: 25 ms on a quiet machine, 75 where a quarter of the values is spilled."""
    for routine, banks in (
        (_sums(16, 150), REGISTERS),
        (_sums(12, 200), (REGISTERS[0], Bank("vector", tuple(range(8))), MASK)),
    ):
        best = 1.0
        for _ in range(3):
            start = time.process_time()
            allocate(routine, banks, CHEAP)
            best = min(best, time.process_time() - start)
        assert len(routine.instructions) > 4500 and best < 0.8, (len(routine.instructions), best)
