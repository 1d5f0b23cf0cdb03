"""The checker of plans: it takes what the planner makes, and nothing that was spoilt."""

from dataclasses import replace
from itertools import combinations

import plan_cases as cases
import pytest

from bittern.plan.arena import Arena, Memory
from bittern.plan.check import check, faults
from bittern.plan.memory import lives_of, memory_of, place
from bittern.plan.plan import Plan, value_of

KINDS = [("llama", 1, True), ("llama", 1, False), ("gemma3", 3, True), ("gemma3", None, True), ("llama", 7, False)]


def _sizes(tokens: int | None) -> tuple[int, int, int]:
    return (tokens or 16, 1, cases.CONTEXT)


@pytest.mark.req("K039")
@pytest.mark.parametrize("kept", ["f16", "f32", "i8"])
@pytest.mark.parametrize(("family", "tokens", "fuse"), KINDS)
def test_plans_hold(family: str, tokens: int | None, fuse: bool, kept: str) -> None:
    plan = cases.planned(family, tokens, fuse, kept={"i8": "int8"}.get(kept, kept))
    memory = memory_of(plan, _sizes(tokens))
    check(plan, memory, _sizes(tokens))
    check(plan)


@pytest.mark.parametrize(("family", "tokens", "fuse"), KINDS)
def test_no_barrier_can_be_left_out(family: str, tokens: int | None, fuse: bool) -> None:
    """A planted fault: every barrier is needed, and the checker says where."""
    plan = cases.planned(family, tokens, fuse)
    found = 0
    for k, j, launch in cases.spots(plan):
        if launch.barrier:
            (first, *_) = faults(cases.changed(plan, k, j, replace(launch, barrier=False)))
            assert "needs a barrier" in first, first
            found += 1
    assert found > 5


@pytest.mark.parametrize(("family", "tokens", "fuse"), KINDS[:4])
def test_values_that_live_together_do_not_share_memory(family: str, tokens: int | None, fuse: bool) -> None:
    """A planted fault: any two values of one arena that live together, put at one place."""
    plan = cases.planned(family, tokens, fuse)
    sizes = _sizes(tokens)
    memory = memory_of(plan, sizes)
    alone = {
        plan.root[value_of(each)]
        for _, _, launch in cases.spots(plan)
        for each in (*launch.reads.values(), *launch.writes.values())
        if launch.mode != "one"
    }
    tried = 0
    for which, lives in enumerate(lives_of(plan, sizes)):
        arena = (memory.shared, memory.own)[which]
        for one, other in combinations([life for life in lives if life.bytes], 2):
            if other.last < one.first or one.last < other.first or not {one.value, other.value} & alone:
                continue
            spoilt = Arena({**arena.places, one.value: arena.places[other.value]}, arena.bytes + one.bytes)
            arenas = (spoilt, memory.own) if which == 0 else (memory.shared, spoilt)
            assert list(faults(plan, Memory(*arenas), sizes)), (one, other)
            tried += 1
    assert tried > 20


def test_places_are_inside_their_arena_and_on_lines() -> None:
    plan, sizes = cases.planned(), _sizes(1)
    memory = memory_of(plan, sizes)
    value, at = next(iter(memory.shared.places.items()))
    for wrong in (at + 8, -64, memory.shared.bytes):
        places = {**memory.shared.places, value: wrong}
        assert any("of an arena of" in fault for fault in faults(plan, _shared(memory, places), sizes))
    without = {key: other for key, other in memory.shared.places.items() if key is not value}
    assert any("has no place" in fault for fault in faults(plan, _shared(memory, without), sizes))


def _shared(memory: Memory, places: object) -> Memory:
    assert isinstance(places, dict)
    return Memory(Arena(places, memory.shared.bytes), memory.own)


def test_order_is_checked() -> None:
    """A planted fault: two regions of which the second reads what the first writes, the other way round."""
    plan = cases.planned("llama", 3)
    caught = 0
    for k in range(len(plan.regions) - 1):
        first, second = plan.regions[k], plan.regions[k + 1]
        written = {plan.root[value_of(each)] for launch in first.launches for each in launch.writes.values()}
        read = {plan.root[value_of(each)] for launch in second.launches for each in launch.reads.values()}
        if written & read:
            swapped = [*plan.regions[:k], second, first, *plan.regions[k + 2 :]]
            assert list(faults(cases.with_regions(plan, swapped))), (first.rule, second.rule)
            caught += 1
    assert caught > 10


def test_what_was_updated_in_place_is_gone() -> None:
    """A planted fault: a kernel that reads the residual as it was before it was updated."""
    plan = cases.planned("llama", 7, fuse=False)
    k, add = next((k, region) for k, region in enumerate(plan.regions) if region.rule == "add")
    (result,) = add.same
    later = next(
        (i, j, launch, name)
        for i, j, launch in cases.spots(plan)
        for name, each in launch.reads.items()
        if i > k and each is result
    )
    i, j, launch, name = later
    stale = replace(launch, reads={**launch.reads, name: add.same[result]})
    (fault, *_) = faults(cases.changed(plan, i, j, stale))
    assert "reads" in fault and "its place holds" in fault


def test_what_each_thread_makes_is_its_own() -> None:
    plan = cases.planned()
    k, j, launch = next(spot for spot in cases.spots(plan) if spot[2].mode == "each")
    sizes = _sizes(1)
    shared = cases.changed(plan, k, j, replace(launch, mode="split"))
    assert any("every thread makes" in fault for fault in faults(shared, memory_of(plan, sizes), sizes))
    k, j, launch = next(spot for spot in cases.spots(plan) if spot[2].recipe.name == "matvec")
    each = cases.changed(plan, k, j, replace(launch, mode="each"))
    assert any("by every thread at once" in fault for fault in faults(each, memory_of(plan, sizes), sizes))


def test_partitions_are_told_apart() -> None:
    """A planted fault: gate and up share their columns out otherwise than what gates them."""
    plan = cases.planned("llama", 1)
    k, j, launch = next(spot for spot in cases.spots(plan) if spot[2].recipe.name == "gate_rows")
    assert launch.partition
    (fault, *_) = faults(cases.changed(plan, k, j, replace(launch, partition="another")))
    assert "needs a barrier" in fault


def test_results_are_there_at_the_end() -> None:
    plan = cases.planned("llama", 3)
    without = [region for region in plan.regions if plan.results[0] not in _written(plan, region.launches)]
    assert any("is not there at the end" in fault for fault in faults(cases.with_regions(plan, without)))


def _written(plan: Plan, launches: object) -> set[object]:
    assert isinstance(launches, tuple)
    return {value_of(each) for launch in launches for each in launch.writes.values()}


def test_nothing_is_covered_twice_and_nothing_written_to_constants() -> None:
    plan = cases.planned()
    twice = cases.with_regions(plan, [*plan.regions, replace(plan.regions[3], launches=(), same={})])
    assert any("covered twice" in fault for fault in faults(twice))
    k, j, launch = next(spot for spot in cases.spots(plan) if spot[2].recipe.name == "embed_rows")
    spoilt = replace(launch, writes={**launch.writes, "w": launch.reads["w"]})
    assert any("writes the constant" in fault for fault in faults(cases.changed(plan, k, j, spoilt)))


def test_a_fault_is_raised_where_memory_is_placed() -> None:
    plan = cases.planned()
    k, j, launch = next(spot for spot in cases.spots(plan) if spot[2].barrier)
    with pytest.raises(AssertionError, match="needs a barrier"):
        memory_of(cases.changed(plan, k, j, replace(launch, barrier=False)), _sizes(1))


def test_places_of_equal_lives_do_not_overlap() -> None:
    plan, sizes = cases.planned("gemma3", None), _sizes(None)
    for lives in lives_of(plan, sizes):
        arena = place(lives)
        for one, other in combinations(lives, 2):
            if other.last < one.first or one.last < other.first:
                continue
            low, high = sorted((one, other), key=lambda life: arena.places[life.value])
            assert arena.places[low.value] + low.bytes <= arena.places[high.value]
