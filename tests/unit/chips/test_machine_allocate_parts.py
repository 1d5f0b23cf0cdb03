"""The parts of register allocation against plain definitions: what is live, what overlaps, the order of moves."""

from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine_allocate_run import Maker

from bittern.chips.machine.coalesce import Group, overlap
from bittern.chips.machine.liveness import READ, STEP, liveness
from bittern.chips.machine.moves import Place, in_order
from bittern.chips.machine.routine import Routine, Slot, Virtual
from bittern.chips.machine.scan import Occupied


def _live_before(routine: Routine) -> list[set[Virtual]]:
    """Return what is live before each instruction: whatever some way reads before a write. One equation at a time."""
    given = routine.instructions
    starts = {one.operands[0]: index for index, one in enumerate(given) if one.name == "label"}
    live = [set[Virtual]() for _ in range(len(given) + 1)]
    for _ in range(len(given) + 1):
        before = [set(one) for one in live]
        for index, one in enumerate(given):
            after = set(live[index + 1]) if one.falls else set()
            after |= live[starts[one.target]] if one.target is not None else set()
            live[index] = after - set(one.writes) | set(one.reads) | ({one.tied} if one.tied is not None else set())
        if before == live:
            break
    return live


@given(st.integers(0, 2**32))
def test_ranges_are_where_a_way_leads_to_a_read(seed: int) -> None:
    routine = Maker(seed, 40).routine
    expected = _live_before(routine)
    found = liveness(routine).ranges
    for index in range(len(routine.instructions)):
        held = {
            register
            for register, intervals in found.items()
            if any(start <= STEP * index < end for start, end in intervals)
        }
        assert held == expected[index] | (set(routine.arguments) if index == 0 else set()), (index, held)


@given(st.integers(0, 2**32))
def test_ranges_ascend_and_are_apart(seed: int) -> None:
    live = liveness(Maker(seed, 40).routine)
    for intervals in live.ranges.values():
        flat = [position for interval in intervals for position in interval]
        assert flat == sorted(set(flat))


def test_what_a_loop_uses_lives_to_its_end() -> None:
    routine = next(
        one
        for one in (Maker(seed, 40).routine for seed in range(99))
        if any(block.depth == 2 for block in liveness(one).blocks)
    )
    depths = [block.depth for block in liveness(routine).blocks]
    assert depths[0] == 0 and depths[-1] == 0 and max(depths) >= 2


_RANGES = st.lists(st.integers(0, 40), max_size=8, unique=True).map(
    lambda found: [(a, b) for a, b in zip(sorted(found)[::2], sorted(found)[1::2], strict=False)] or [(0, READ)]
)


@given(_RANGES, _RANGES)
def test_overlap_is_a_position_in_common(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    inside = [{at for start, end in one for at in range(start, end)} for one in (first, second)]
    assert overlap(first, second) == bool(inside[0] & inside[1])
    taken = Occupied()
    owner = Group([], first, "general", 8)
    taken.take(owner, first)
    assert taken.is_free(second) != bool(inside[0] & inside[1])
    assert taken.in_the_way(second) == ([owner] if inside[0] & inside[1] else [])
    taken.drop(owner)
    assert taken.is_free(first)


def _moved(moves: dict[Place, Place], can_swap: bool) -> dict[Place, Place]:
    """Return what is where after the steps; the spare place is 99."""
    held: dict[Place, Place] = {place: place for place in (*moves, *moves.values())}
    is_spare_used = False
    for kind, to, source in in_order(moves, can_swap, lambda: 99):
        if kind == "swap":
            assert can_swap and isinstance(to, int) and isinstance(source, int)
            held[to], held[source] = held[source], held[to]
        else:
            is_spare_used |= to == 99
            held[to] = held[source]
    assert not (is_spare_used and can_swap and all(isinstance(place, int) for place in moves))
    return held


@pytest.mark.parametrize("can_swap", [False, True])
def test_moves_in_order_do_what_they_do_at_once(can_swap: bool) -> None:
    places: tuple[Place, ...] = (0, 1, 2, Slot(0, 8), Slot(8, 8))
    for sources in product(places, repeat=len(places)):
        moves = dict(zip(places, sources, strict=True))
        held = _moved(moves, can_swap)
        assert all(held[to] == source for to, source in moves.items()), moves


def test_many_moves_at_once() -> None:
    random = Random(5)
    for _ in range(200):
        count = random.randrange(1, 20)
        moves: dict[Place, Place] = {to: random.randrange(24) for to in random.sample(range(24), count)}
        held = _moved(moves, random.random() < 0.5)
        assert all(held[to] == source for to, source in moves.items())


def test_a_wrong_order_would_be_noticed() -> None:
    """One after another as they stand, the moves of a circle lose a value."""
    held: dict[Place, Place] = {0: 0, 1: 1}
    for to, source in {0: 1, 1: 0}.items():
        held[to] = held[source]
    assert held != {0: 1, 1: 0}
