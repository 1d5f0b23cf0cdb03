"""Memory planning: nothing alive is overwritten, room is used again, updates are in place where nobody else reads."""

from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from pass_cases import function, op, word

from bittern.graph.node import Function, Node, call, const, fold, item, make_tuple, param
from bittern.lang.library import Library
from bittern.passes import lifetimes as planning
from bittern.passes.lifetimes import Lifetime, in_place, lifetimes, plan_memory, verify
from bittern.types.dims import dim, symbol
from bittern.types.elements import U32
from bittern.types.values import tensor

WORD, FOUR = tensor(U32), tensor(U32, 4)
Schedule = list[tuple[set[str], set[str]]]


def random_schedule(seed: int) -> tuple[Schedule, dict[str, int], dict[str, int], set[str]]:
    """Return steps that read what was made before and write something new, sizes, alignments, and what is kept."""
    rng = Random(seed)
    made = ["in0", "in1"]
    schedule: Schedule = []
    for step in range(rng.randint(1, 25)):
        reads = {rng.choice(made[-6:]) for _ in range(rng.randint(0, 3))}
        writes = {f"v{step}.{k}" for k in range(rng.randint(1, 2))}
        schedule.append((reads, writes))
        made += sorted(writes)
    sizes = {name: rng.choice([1, 3, 64, 100, 128, 1000, 4096]) for name in made}
    return schedule, sizes, {name: rng.choice([1, 16, 64, 128]) for name in made}, set(rng.sample(made[2:], 1))


def faults(seed: int) -> list[str]:
    """Return what is wrong with the layout of a random schedule."""
    schedule, sizes, alignments, kept = random_schedule(seed)
    layout = plan_memory(schedule, sizes, alignments=alignments, kept=kept)
    crooked = [name for name, offset in layout.offsets.items() if offset % alignments[str(name)]]
    return [*map(str, crooked), *verify(layout, schedule, sizes, kept=kept)]


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32))
def test_no_value_that_is_alive_is_overwritten(seed: int) -> None:
    assert faults(seed) == []
    schedule, sizes, alignments, kept = random_schedule(seed)
    layout = plan_memory(schedule, sizes, alignments=alignments, kept=kept)
    assert layout.least <= layout.peak <= sum(sizes.values()) + 128 * len(sizes)


def test_room_is_used_again() -> None:
    schedule: Schedule = [({"a"}, {"b"}), ({"b"}, {"c"}), ({"c"}, {"d"}), ({"d"}, {"e"})]
    layout = plan_memory(schedule, dict.fromkeys("bcde", 256), kept={"e"})
    assert layout.peak == layout.least == 512, "two at a time"
    assert "a" not in layout.offsets, "it lies elsewhere"
    assert layout.lifetimes["c"] == Lifetime(1, 2)


def test_the_tightest_gap_is_taken() -> None:
    """Two gaps would do for `n`; it takes the small one, where `z` was."""
    schedule: Schedule = [
        (set(), {"x"}), (set(), {"y"}), (set(), {"z"}), (set(), {"w"}), ({"x"}, set()), ({"z"}, set()), (set(), {"n"}),
        ({"y", "w", "n"}, set()),
    ]  # fmt: skip
    sizes = {"x": 640, "y": 600, "z": 192, "w": 150, "n": 128}
    layout = plan_memory(schedule, sizes)
    assert verify(layout, schedule, sizes) == []
    assert layout.offsets["n"] == layout.offsets["z"] != 0


def test_a_value_read_before_it_is_written_is_there_from_the_start() -> None:
    schedule: Schedule = [(set(), {"t"}), ({"t"}, {"u"}), ({"cache", "u"}, {"cache"})]
    sizes = {"t": 64, "u": 64, "cache": 64}
    assert lifetimes(schedule)["cache"] == Lifetime(0, 2)
    layout = plan_memory(schedule, sizes)
    assert layout.peak == 192 and verify(layout, schedule, sizes) == []


def test_what_is_written_in_place_has_one_place() -> None:
    schedule: Schedule = [(set(), {"a"}), ({"a"}, {"b"}), ({"b"}, {"c"})]
    sizes, over = {"a": 256, "b": 256, "c": 256}, {"b": "a", "c": "b"}
    layout = plan_memory(schedule, sizes, kept={"c"}, over=over)
    assert layout.peak == 256 and len(set(layout.offsets.values())) == 1
    assert verify(layout, schedule, sizes, kept={"c"}, over=over) == []
    assert verify(layout, schedule, sizes, kept={"c"}), "without leave it is a fault"


def _too_short(schedule: Schedule, kept: set[str]) -> dict[str, Lifetime]:
    true = lifetimes(schedule, kept)
    return {str(name): Lifetime(life.first, max(life.first, life.last - 1)) for name, life in true.items()}


PLANTED = {
    "one life too short": ("lifetimes", _too_short),
    "one place for all": ("_best_fit", lambda piece, near: 0),
    "alignment forgotten": ("_aligned", lambda offset, boundary: offset),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_wrong_layout_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, wrong = PLANTED[fault]
    if name == "lifetimes":  # of the plan alone: the check reads the true ones
        plan = planning.plan_memory

        def planned(schedule: Schedule, *rest: object, **options: object) -> object:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(planning, "lifetimes", wrong)
                return plan(schedule, *rest, **options)  # type: ignore[arg-type]

        monkeypatch.setitem(globals(), "plan_memory", planned)
    else:
        monkeypatch.setattr(planning, name, wrong)
    assert any(faults(seed) for seed in range(60))


# --- in place


def update(x: Node, place: int, value: Node) -> Node:
    return op("update", x, word(place), value)


def test_an_owned_value_is_overwritten() -> None:
    of = function([FOUR, WORD], lambda x, v: update(update(x, 0, v), 1, v), modes=["own"])
    found = in_place(of)
    first, second = [i.outputs[0] for i in found.order if i.node.kind == "update"]
    assert found.over == {first: 0, second: first} and found.copied == ()


def test_what_is_not_owned_is_copied() -> None:
    of = function([FOUR, WORD], lambda x, v: update(update(x, 0, v), 1, v))
    found = in_place(of)
    first, second = [i.outputs[0] for i in found.order if i.node.kind == "update"]
    assert found.copied == (first,) and found.over == {second: first}, "the copy is the function's own"
    assert in_place(of, owned={0}).copied == ()


def test_a_constant_is_copied() -> None:
    of = function([WORD], lambda v: update(const([1, 2, 3, 4], U32), 0, v))
    assert len(in_place(of).copied) == 1


def test_reads_come_before_the_update_and_later_reads_need_a_copy() -> None:
    def before(x: Node, v: Node) -> Node:
        return make_tuple([update(x, 0, v), op("sum", x)])  # the sum can be moved in front

    found = in_place(function([FOUR, WORD], before, modes=["own"]))
    assert [i.node.kind for i in found.order][-1] == "update" and len(found.over) == 1

    def both(x: Node, v: Node) -> Node:
        return make_tuple([update(x, 0, v), x])

    assert len(in_place(function([FOUR, WORD], both, modes=["own"])).copied) == 1

    def through_a_view(x: Node, v: Node) -> Node:
        return make_tuple([update(x, 0, v), op("reverse", op("reshape", x, shape=(dim(4),)), axis=0)])

    assert len(in_place(function([FOUR, WORD], through_a_view, modes=["own"])).copied) == 1


def test_calls_and_loops_hand_on_what_they_own() -> None:
    inner = function([FOUR, WORD], lambda x, v: update(x, 3, v), modes=["own"])
    found = in_place(function([FOUR, WORD], lambda x, v: call(inner, [x, v]), modes=["own"]))
    assert list(found.over.values()) == [0]
    step = function([WORD, FOUR, WORD], lambda i, a, v: op("update", a, i, v), modes=["", "own"])
    found = in_place(function([FOUR, WORD], lambda x, v: fold(step, word(0), word(3), [x], [v]), modes=["own"]))
    assert list(found.over.values()) == [0]
    assert in_place(step).over and not in_place(step).copied


@pytest.mark.req("K036")
def test_the_caches_of_a_model_are_updated_in_place() -> None:
    """Movement follows ownership: a layer's store writes into the cache that it was given."""
    store = Library.standard().function("attention.store", overload="f16")
    params = [param(k, p.type) for k, p in enumerate(store.params)]
    dims = [symbol(k) for k in range(store.dims)]
    once = call(store, params, dims)
    twice = call(store, [*(item(once, k) for k in range(4)), *params[4:]], dims)
    found = in_place(Function(store.dims, store.params, twice))
    assert found.copied == ()
    calls = [i for i in found.order if i.node.kind == "call"]
    for leaf in (0, 1):
        assert found.over[calls[0].outputs[leaf]] == leaf
        assert found.over[calls[1].outputs[leaf]] == calls[0].outputs[leaf]
