"""Explanations, ledgers and ablations: what else would have done, what fusing saves, what a fact is worth."""

from dataclasses import replace

import plan_cases as cases
import pytest

from bittern.base.errors import BitternError
from bittern.plan.ablate import FACTS, NAMES, Ablation, Question, ablated, fact_named
from bittern.plan.check import check
from bittern.plan.cost import PEAKS, Model, weight_bytes
from bittern.plan.counts import Counting
from bittern.plan.explain import Decisions, Price, prices, reason
from bittern.plan.memory import memory_of
from bittern.plan.planner import plan_of
from bittern.plan.rules import KNOWN, RULES
from bittern.plan.savings import allocations, ledger
from bittern.plan.step import step_function


def _decided(family: str, tokens: int | None, fuse: bool = True) -> tuple[Decisions, Model]:
    model, run = cases.bound(family), cases.run_of(tokens or 32, 16)
    sizes = {1: 1, 2: cases.CONTEXT} | ({} if tokens is None else {0: tokens})
    decisions = Decisions(RULES, fuse)
    function = step_function(model.forward, model.head)
    plan = plan_of(function, RULES, KNOWN, cases.LIBRARY, sizes, fuse=fuse, watch=decisions.note)
    return decisions, Model(Counting(plan), run, "avx512-vnni", weights=weight_bytes(plan, run))


@pytest.mark.req("K023")
@pytest.mark.parametrize("tokens", [1, 4, None])
@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_the_first_rule_of_the_table_is_the_cheapest(family: str, tokens: int | None) -> None:
    """The rules stand in the order of what they save: the cost model agrees with every choice."""
    decisions, model = _decided(family, tokens)
    several = 0
    for decision in decisions.made:
        found = prices(decision, model)
        assert found[0].seconds == min(price.seconds for price in found), (decision.apply.name, found)
        assert reason(found).startswith("cheapest" if len(found) > 1 else "nothing else")
        several += len(found) > 1
    assert several > 10


@pytest.mark.req("K023")
def test_candidates_are_all_rules_that_match() -> None:
    decisions, model = _decided("llama", 1)
    found: dict[str, list[str]] = {}
    for decision in decisions.made:
        rules = [candidate.rule for candidate in decision.candidates]
        assert len(set(rules)) == len(rules)
        found.setdefault(rules[0], rules)
    assert found["attention_of_few"] == ["attention_of_few", "attention_to_codes", "quantise", "generic"]
    assert found["norm_and_quantise"] == ["norm_and_quantise", "quantise", "generic"]
    assert found["product_and_residual"] == ["product_and_residual", "add", "generic"]
    for decision in decisions.made:
        covered = [{a for r in (c.region, *c.rest) for a in r.covers} for c in decision.candidates]
        assert all(each == covered[0] for each in covered), "candidates are compared over the same applications"
    assert all(price.seconds >= 0 for decision in decisions.made for price in prices(decision, model))


def test_watching_changes_nothing() -> None:
    model, sizes = cases.bound("gemma3"), {0: 1, 1: 1, 2: cases.CONTEXT}
    from bittern.plan.record import Target, plan_id

    plain = plan_of(model.forward, RULES, KNOWN, cases.LIBRARY, sizes)
    watched = plan_of(model.forward, RULES, KNOWN, cases.LIBRARY, sizes, watch=Decisions(RULES).note)
    assert plan_id(plain, Target("x", "y", 1)) == plan_id(watched, Target("x", "y", 1))


def test_without_fusing_only_single_rules_are_candidates() -> None:
    decisions, _ = _decided("llama", 2, fuse=False)
    assert {len(each.region.covers) for decision in decisions.made for each in decision.candidates} == {1}


def test_reasons_say_how_much_less() -> None:
    winner, other = Price("a", 1e-6, 1, 1, 100), Price("b", 2.5e-6, 3, 2, 150)
    assert reason([winner, other]) == "cheapest: 1.50 us less than `b` (2 launches, 1 barrier, 50 bytes less)"
    assert reason([other, winner]) == "first of the table, though `a` is cheaper by the model"
    assert reason([winner]) == "nothing else covers it"


@pytest.mark.parametrize("tier", PEAKS)
def test_costs_fall_with_threads_and_rise_with_tokens(tier: str) -> None:
    _, model = _decided("llama", None)
    regions = [region for region in model.counting.plan.regions if region.rule == "product"]
    plan = model.counting.plan

    def seconds(threads: int, tokens: int) -> float:
        return sum(Model(Counting(plan), cases.run_of(tokens, 0, threads), tier).seconds(region) for region in regions)

    assert seconds(2, 32) < seconds(1, 32) < seconds(1, 64)


@pytest.mark.req("K035")
@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_the_ledger_is_the_difference_of_both_plans(family: str, tokens: int) -> None:
    single, fused = cases.planned(family, tokens, fuse=False), cases.planned(family, tokens)
    run = cases.run_of(tokens, 5)
    saved = ledger(single, fused, run)
    for name in ("launches", "barriers", "allocations", "bytes_read", "bytes_written"):
        assert saved[name].removed > 0, name
    assert saved["launches"].removed == len(single.launches) - len(fused.launches)
    assert saved["allocations"].fused == allocations(memory_of(fused, run.sizes))
    assert saved["transfers"].single == saved["transfers"].fused == 0
    works = [sum(work.read for work in Counting(plan).works(run)) for plan in (single, fused)]
    assert saved["bytes_read"].removed == works[0] - works[1]
    assert ledger(fused, fused, run)["launches"].removed == 0


def _ablated(fact: str, tokens: int | None = 1, family: str = "llama") -> Ablation:
    model = cases.bound(family)
    sizes = {1: 1, 2: cases.CONTEXT} | ({} if tokens is None else {0: tokens})
    run = cases.run_of(tokens or 16, 8)
    function = step_function(model.forward, model.head)
    asked = Question(function, RULES, KNOWN, cases.LIBRARY, sizes, run, "avx2")
    return ablated(asked, fact_named(fact))


@pytest.mark.req("K057", "K058", "K060")
def test_facts_are_what_decisions_hang_on() -> None:
    changes = {fact.name: _ablated(fact.name) for fact in FACTS}
    assert {name for name, found in changes.items() if not found.changed} == {"last"}
    own = changes["own"]
    (change,) = own.changes
    assert change.before.startswith("attention_of_few") and change.after.startswith("quantise") and change.count == 2
    cache = 2 * 2 * 64 * 2 * 32 * 2  # layers, keys and values, positions, heads, values, bytes
    assert own.after.work.written - own.before.work.written > cache, "the whole cache is copied, layer by layer"
    tokens = changes["tokens"]
    assert {change.after for change in tokens.changes} >= {"product: matmul (split)"}
    assert tokens.after.barriers > tokens.before.barriers
    assert all(change.after == "no kernel" for change in changes["sizes"].changes)
    assert changes["formats"].after.seconds > 2 * changes["formats"].before.seconds
    assert changes["names"].after.regions > changes["names"].before.regions


def test_the_last_read_allows_updates_in_place() -> None:
    found = _ablated("last", 8, "gemma3")
    assert [change.before for change in found.changes] == ["residual_of_norm: norm_residual (split), in place"]


def test_one_plan_is_the_same_twice() -> None:
    one, other = _ablated("readers"), _ablated("readers")
    assert one == other and one.as_json() == other.as_json()
    assert one.as_json()["changed"] == one.changed > 0


@pytest.mark.parametrize("fact", ["own", "last", "readers", "tokens"])
def test_plans_without_a_fact_hold_too(fact: str) -> None:
    from bittern.plan.explain import lowered

    model, sizes = cases.bound("gemma3"), {0: 3, 1: 1, 2: cases.CONTEXT}
    rules = [row for row in RULES if row[0] != "generic"]
    rules.append(("generic", lambda apply, _: lowered(apply)))
    plan = plan_of(model.forward, rules, KNOWN, cases.LIBRARY, sizes, dropped=frozenset({fact}))
    check(plan)
    check(plan, memory_of(plan, (3, 1, cases.CONTEXT)), (3, 1, cases.CONTEXT))


def test_unknown_facts_are_refused() -> None:
    with pytest.raises(BitternError) as caught:
        fact_named("owm")
    assert caught.value.code == "P103" and "own" in caught.value.remedy
    assert len(set(NAMES)) == len(NAMES) == 8 and replace(FACTS[0]) == FACTS[0]
