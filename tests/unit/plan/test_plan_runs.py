"""Plans that ran: the counters of the machine code say what was predicted, and fusing changes no bit."""

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import plan_cases as cases
import pytest

from bittern.base.errors import BitternError
from bittern.chips.x86.chip import X86
from bittern.chips.x86.features import TIERS, is_here, read
from bittern.plan.counts import Counting
from bittern.plan.record import plan_id
from bittern.runtime.planning import Wish, counted, planned, saved, saved_as_counted
from bittern.runtime.store import Store

pytestmark = pytest.mark.skipif(not is_here(), reason="this machine is no x86-64 with Linux or macOS")
STEP = Wish(threads=2)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store for compiled code, so that these tests share it."""
    return Store(tmp_path_factory.mktemp("store"))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize(
    ("family", "cut", "tokens"), [("llama", "step", 1), ("gemma3", "step", 1), ("llama", "forward", 3)]
)
def test_counters_equal_the_prediction(
    family: str, cut: str, tokens: int, fuse: bool, threads: int, store: Store
) -> None:
    made = planned(cases.bound(family), Wish(cut, tokens, position=7, threads=threads, fuse=fuse))
    assert counted(made, 1, store).totals == made.predicted
    assert made.predicted.launches[0] == len(made.plan.launches) and len(made.predicted.launches) == threads


def test_steps_of_a_loop_are_counted(store: Store) -> None:
    made = planned(cases.bound(), replace(STEP, position=3))
    assert counted(made, 5, store).totals == Counting(made.plan).totals(made.run, steps=5, loop=True)


@pytest.mark.parametrize(("cut", "tokens"), [("forward", None), ("head", None), ("head", 2), ("forward", 16)])
def test_any_number_of_tokens(cut: str, tokens: int | None, store: Store) -> None:
    made = planned(cases.bound("gemma3"), Wish(cut, tokens, threads=2, position=1))
    assert made.run.tokens == (tokens or {"forward": 511, "head": 512}[cut]), "behind one position"
    assert counted(made, 1, store).totals == made.predicted


def test_a_wrong_prediction_is_seen(store: Store) -> None:
    """A planted fault: a launch that nobody predicted."""
    made = planned(cases.bound(), STEP)
    k, j, launch = next(spot for spot in cases.spots(made.plan) if spot[2].mode == "each")
    more = replace(made.plan.regions[k], launches=(launch, launch))
    regions = [*made.plan.regions[:k], more, *made.plan.regions[k + 1 :]]
    spoilt = replace(made, plan=cases.with_regions(made.plan, regions))
    assert j == 0 and counted(spoilt, 1, store).totals != made.predicted


@pytest.mark.req("K034", "K035")
@pytest.mark.parametrize("family", ["llama", "gemma3"])
@pytest.mark.parametrize(("cut", "tokens"), [("step", 1), ("forward", 5)])
def test_the_ledger_is_what_both_runs_count(family: str, cut: str, tokens: int, store: Store) -> None:
    """Without fusing more is launched, allocated and moved; the results are equal in every bit."""
    wish = Wish(cut, tokens, threads=2, position=11)
    single, fused = (planned(cases.bound(family), replace(wish, fuse=fuse)) for fuse in (False, True))
    found = saved_as_counted(single, fused, store)
    assert found["ledger"] == saved(single, fused).as_json() and found["same_bits"]
    assert all(found["ledger"][name]["removed"] > 0 for name in ("launches", "barriers", "allocations", "bytes_read"))


def test_nothing_is_allocated_while_a_plan_runs(store: Store) -> None:
    from bittern.chips.x86.cut import Cut, input_bytes
    from bittern.chips.x86.weights import aligned

    made = planned(cases.bound(), Wish("forward", 4, threads=1))
    model = X86(threads=1).load(made.bound, store.root)
    inputs = {value: aligned(max(64, input_bytes(made.plan, value, made.run.sizes))) for value in made.plan.inputs}
    cut = Cut(made.plan, 4, inputs, model.crew, model.routines, model.weights)
    cut.run(4)
    tracemalloc.start()
    cut.run(4)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4096 and made.predicted.allocations == 0, "some numbers of the interpreter, no array"


def test_what_is_shown_is_what_sessions_run() -> None:
    """The same identity, whoever plans: the command, or a session."""
    bound = cases.bound()
    model = X86(threads=1).load(bound)
    for tokens in (1, 3, None):
        made = planned(bound, Wish("forward", tokens))
        assert plan_id(made.plan, made.target) == plan_id(model.forward_plan(tokens, 1, 512), made.target)
        made = planned(bound, Wish("head", tokens))
        assert plan_id(made.plan, made.target) == plan_id(model.head_plan(tokens), made.target)
    made = planned(bound, STEP)
    assert plan_id(made.plan, made.target) == plan_id(model.step_plan(1, 512).greedy.plan, made.target)


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_sessions_run_without_fusing(family: str, store: Store) -> None:
    """Steps and chunks, on the slowest and the best tier of this machine: the bits of `vm`."""
    from bittern.chips.chip import chip

    bound = cases.bound(family)
    tokens = np.random.default_rng(3).integers(0, 100, 6).astype(np.uint32)
    places = np.zeros(6, np.uint32), np.arange(6, dtype=np.uint32)
    session = chip("vm").load(bound).start(64)
    wanted = session.logits(session.forward(tokens, *places))
    here = [tier for tier in TIERS if tier.features <= read()]
    for tier in (here[0], here[-1]):
        model = X86(tier.name, threads=2).load(bound, store.root)
        model.fuse = False
        single = model.start(64)
        assert np.array_equal(single.logits(single.forward(tokens, *places)), wanted), tier.name
        again = model.start(64)
        for k in range(6):
            one = again.logits(again.forward(tokens[k : k + 1], *(place[k : k + 1] for place in places)))
            assert np.array_equal(one, wanted[k : k + 1]), (tier.name, k)


def test_without_fusing_any_number_is_a_fixed_one() -> None:
    made = planned(cases.bound(), Wish("forward", None, fuse=False))
    assert made.wish.tokens == made.run.tokens == 16
    assert planned(cases.bound(), Wish("forward", None)).wish.tokens is None


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        (Wish(chip="vm"), "P104"),
        (Wish(chip="reference"), "P104"),
        (Wish(chip="x87"), "R101"),
        (Wish(tier="avx1024"), "R162"),
        (Wish("forward", 16, position=500), "P105"),
        (Wish("forward", 0), "R110"),
        (Wish(context=0), "R110"),
    ],
)
def test_what_cannot_be_planned_is_refused(wish: Wish, code: str) -> None:
    with pytest.raises(BitternError) as caught:
        planned(cases.bound(), wish)
    assert caught.value.code == code and caught.value.remedy


def test_a_plan_is_made_for_another_machine_too() -> None:
    ids = set()
    for tier in TIERS:
        made = planned(cases.bound(), Wish(tier=tier.name, threads=64))
        assert (made.target.tier, made.target.vector) == (tier.name, 8 * tier.vector)
        ids.add(made.record()["plan"])
    assert len(ids) == len(TIERS)


def test_real_model(smollm2: Path, store: Store) -> None:
    from bittern.runtime.binding import bound_model
    from bittern.runtime.model import open_checkpoint

    with open_checkpoint(smollm2, None) as checkpoint:
        made = planned(bound_model(checkpoint, "f16"), STEP, explains=True)
        assert counted(made, 2, store).totals == Counting(made.plan).totals(made.run, steps=2, loop=True)
        assert {each["won"] for each in made.explained()} >= {"attention_of_few", "gate_and_quantise"}
        assert made.record()["working_set"]["homes"]["weights"] in ("L3", "memory")
