"""Plans as records: an identity of their own that names the graph's, and all that a reader needs."""

import json
from dataclasses import replace

import plan_cases as cases
import pytest

from bittern.plan.arena import LINE
from bittern.plan.caches import CpuCache, caches, home
from bittern.plan.counts import Counting, Run
from bittern.plan.memory import memory_of
from bittern.plan.plan import Plan
from bittern.plan.planner import plan_of
from bittern.plan.record import Target, plan_id, record_of
from bittern.plan.rules import KNOWN, RULES
from bittern.plan.working_set import working_set

HERE = Target("x86", "avx2", 256)


def _record(plan: Plan, run: Run, target: Target = HERE) -> dict[str, object]:
    memory = memory_of(plan, run.sizes)
    record = record_of(plan, target, run, memory, Counting(plan).totals(run), {"graph": "abc"})
    return json.loads(json.dumps(record))  # type: ignore[no-any-return]


@pytest.mark.req("K008")
def test_plans_differ_and_name_one_graph() -> None:
    plans = {(tokens, fuse): cases.planned("llama", tokens, fuse) for tokens in (1, 2, 5) for fuse in (True, False)}
    targets = [HERE, Target("x86", "sse2", 128), Target("other", "avx2", 256)]
    ids = {plan_id(plan, target) for plan in plans.values() for target in targets}
    assert len(ids) == len(plans) * len(targets)
    assert len({plan.function for plan in plans.values()}) == 1
    assert {len(plan.function) for plan in plans.values()} == {64}


def test_equal_plans_have_one_identity() -> None:
    model, sizes = cases.bound("gemma3"), {0: 1, 1: 1, 2: cases.CONTEXT}
    first, second = (plan_of(model.forward, RULES, KNOWN, cases.LIBRARY, sizes) for _ in range(2))
    assert first is not second and plan_id(first, HERE) == plan_id(second, HERE)


def test_whatever_decides_what_runs_is_in_the_identity() -> None:
    """Planted faults: each changes one thing in one launch."""
    plan = cases.planned()
    known = plan_id(plan, HERE)
    k, j, launch = next(spot for spot in cases.spots(plan) if spot[2].recipe.name == "matvec")
    changes = (
        {"barrier": not launch.barrier},
        {"mode": "one"},
        {"partition": "another"},
        {"recipe": replace(launch.recipe, arguments=("q4_0", *launch.recipe.arguments[1:]))},
        {"reads": {**launch.reads, "q": plan.inputs[0]}},
        {"writes": {"y": plan.inputs[3]}},
        {"numbers": {"x": 0.5}},
    )
    for change in changes:
        spoilt = replace(launch, **change)
        assert plan_id(cases.changed(plan, k, j, spoilt), HERE) != known, change
    assert plan_id(cases.changed(plan, k, j, replace(launch, label="another")), HERE) == known


def test_other_weights_are_another_plan() -> None:
    assert plan_id(cases.planned("llama", element="q4_0"), HERE) != plan_id(cases.planned("llama"), HERE)


@pytest.mark.req("K031", "K036")
def test_a_record_says_what_runs_where() -> None:
    plan, run = cases.planned(), cases.run_of(1, 9)
    record: dict[str, object] = _record(plan, run)
    regions, buffers = record["regions"], record["buffers"]
    assert isinstance(regions, list) and isinstance(buffers, list)
    assert [region["rule"] for region in regions] == cases.rules(plan)
    for region, made in zip(regions, plan.regions, strict=True):
        assert [each["node"] for each in region["covers"]] == [apply.node.id.hex() for apply in made.covers]
        for launch, planned in zip(region["launches"], made.launches, strict=True):
            assert launch["kernel"] == planned.recipe.name and launch["mode"] == planned.mode
            assert set(launch["reads"]) == set(planned.reads) and set(launch["writes"]) == set(planned.writes)
    predicted = record["predicted"]
    assert isinstance(predicted, dict)
    for name in ("macs", "bytes_read", "bytes_written"):
        assert predicted[name] == sum(launch[name] for region in regions for launch in region["launches"])
    assert record["capabilities"] == [] and record["movement"] == {"space": "host", "transfers": []}
    assert record["dims"] == {"t": 1, "s": 1, "c": 64} and record["position"] == 9
    assert record["function"] == {"name": plan.name, "id": plan.function} and record["graph"] == "abc"


def test_buffers_have_sizes_places_and_lives() -> None:
    plan, run = cases.planned(), cases.run_of()
    memory = memory_of(plan, run.sizes)
    buffers = _record(plan, run)["buffers"]
    assert isinstance(buffers, list)
    names = [buffer["name"] for buffer in buffers]
    assert len(set(names)) == len(names)
    for buffer in buffers:
        assert 0 <= buffer["first"] <= buffer["last"] < len(plan.launches), buffer
        if buffer["place"] in ("shared", "own"):
            arena = getattr(memory, buffer["place"])
            assert buffer["offset"] % LINE == 0 and buffer["offset"] + buffer["bytes"] <= arena.bytes
        else:
            assert buffer["offset"] is None and buffer["place"] in ("stored", "packed", "known", "input")
    assert sum(buffer["place"] in ("shared", "own") for buffer in buffers) == len(memory.shared.places) + len(
        memory.own.places
    )
    (logits,) = (each for each in buffers if each["result"] and each["place"] == "shared")
    assert logits["shape"] == [1, 100] and logits["bytes"] == 400


def test_memory_is_counted_by_kind() -> None:
    plan, run = cases.planned(), cases.run_of(threads=3)
    memory = memory_of(plan, run.sizes)
    found = _record(plan, run)["memory"]
    assert isinstance(found, dict)
    assert found["shared"] == memory.shared.bytes and found["own"] == 3 * memory.own.bytes
    rows = 2 * (64 + 64 + 64 + 64 + 64 + 64 + 64) + 128  # of 64 values; the head's 100 rows fill whole tiles
    assert found["packed"] == rows * 64 * 20 // 32


@pytest.mark.req("C101")
def test_the_working_set_is_held_against_the_caches() -> None:
    plan, run = cases.planned(), cases.run_of(1, 9)
    memory = memory_of(plan, run.sizes)
    found = working_set(plan, memory, run)
    assert found.values == memory.shared.bytes + 2 * memory.own.bytes
    weights = 2 * 7 * 64 * 40 + 128 * 40 + 40  # tiles, and the embedding's row of one token
    assert weights < found.weights < weights + 5 * 4 * 64 + 64 * 16 * 8, "the rest are gains and a row of each table"
    assert found.total == found.weights + found.cache + found.values and found.largest < found.total
    known = (CpuCache(1, 32 << 10, 1), CpuCache(2, 1 << 20, 1))
    assert found.homes(known)["total"] == "L2" and found.homes(known[:1])["total"] == "memory"
    record = found.as_json(known)
    assert record["weights"] == found.weights and record["caches"][1] == {"level": 2, "bytes": 1 << 20, "cores": 1}  # type: ignore[index]


def test_later_positions_have_more_in_hand() -> None:
    plan = cases.planned()
    memory = memory_of(plan, cases.run_of().sizes)
    early, late = (working_set(plan, memory, cases.run_of(1, position)) for position in (0, 60))
    assert late.cache > early.cache and late.weights == early.weights


def test_caches_are_read_from_the_system(tmp_path: object) -> None:
    from pathlib import Path

    root = Path(str(tmp_path))
    rows = [
        ("Data", "1", "48K", "0"),
        ("Instruction", "1", "32K", "0"),
        ("Unified", "3", "32M", "0-3,8"),
        ("X", "", "", ""),
    ]
    for number, row in enumerate(rows):
        folder = root / f"cpu0/cache/index{number}"
        folder.mkdir(parents=True)
        for name, text in zip(("type", "level", "size", "shared_cpu_list"), row, strict=True):
            (folder / name).write_text(f"{text}\n")
    (root / "cpu0/cache/index9").mkdir()
    assert caches(root) == (CpuCache(1, 48 << 10, 1), CpuCache(3, 32 << 20, 5))
    assert caches(root / "none") == ()
    assert [home(size, caches(root)) for size in (1, 49152, 49153, 1 << 26)] == ["L1", "L1", "L3", "memory"]
