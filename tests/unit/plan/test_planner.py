"""The planner: what is fused, where barriers stand, what is updated in place, and what it refuses."""

from dataclasses import replace

import plan_cases as cases
import pytest

from bittern.base.errors import BitternError
from bittern.plan.flow import Apply, flow_of
from bittern.plan.plan import Part, Plan, Region, value_of
from bittern.plan.planner import plan_of
from bittern.plan.rules import KNOWN, RULES
from bittern.plan.scene import Scene

SUM = """
use products
fn f[t](w: &q4_1[64, 64], x: f32[t, 64]) -> f32[t, 64] { x + linear(w, x) }
"""
SHARED = """
use norms
use quantise
fn f[t](x: f32[t, 64], gain: f32[64]) -> (f32[t, 64], many[Act[64], t]) {
  let a = [rms_norm(row, gain, 0.5) for row in x]
  (a, [quantise(row) for row in a])
}
"""


@pytest.mark.req("K032")
@pytest.mark.parametrize("tokens", [1, 4])
def test_a_layer_of_few_tokens(tokens: int) -> None:
    """Golden: the regions of one layer, in order; reshapes run nothing."""
    names = [name for name in cases.rules(cases.planned("llama", tokens)) if name != "reshape"]
    layer = ["norm_and_quantise", "product", "product", "product", "attention_of_few", "product_and_residual"]
    layer += ["norm_and_quantise", "product", "product", "gate_and_quantise", "product_and_residual"]
    end = ["norm_and_quantise", "product", *(["greedy"] if tokens == 1 else [])]
    assert names == ["embedding", *layer, *layer, *end]


@pytest.mark.req("K032")
def test_a_layer_of_many_tokens() -> None:
    names = [name for name in cases.rules(cases.planned("gemma3", None)) if name != "reshape"]
    layer = ["norm_and_quantise", "product", "product", "product", "attention_to_codes", "product"]
    layer += ["residual_of_norm", "norm_and_quantise", "product", "product", "gate_and_quantise", "product"]
    layer += ["residual_of_norm"]
    assert names == ["embedding_and_scale", *layer, *layer, "norm_and_quantise", "product"]


@pytest.mark.req("K034")
@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_without_fusing_each_region_is_one_application(family: str) -> None:
    fused, single = cases.planned(family, 3), cases.planned(family, 3, fuse=False)
    assert {len(region.covers) for region in single.regions} == {1}
    assert max(len(region.covers) for region in fused.regions) > 5
    assert _covered(single) == _covered(fused)
    assert len(single.launches) > len(fused.launches)


def _covered(plan: Plan) -> list[bytes]:
    """Return what regions cover that is not evaluated once beforehand."""
    known = {known.apply.node.id for known in plan.known.values()}
    covered = (apply.node.id for region in plan.regions for apply in region.covers)
    return sorted(node for node in covered if node not in known)


@pytest.mark.req("K031")
def test_every_application_is_covered_once() -> None:
    model, plan = cases.bound(), cases.planned("llama", 3)
    flow = flow_of(model.forward, KNOWN, {0: 3, 1: 1, 2: cases.CONTEXT})
    known = {known.apply.node.id for known in plan.known.values()}
    assert {apply.node.id for apply in flow.applies} - known <= set(_covered(plan))
    assert len(plan.known) == 4, "the rotary table, and the factor of the queries in each layer"
    applies = [apply for region in plan.regions for apply in region.covers]
    assert len(set(applies)) == len(applies)


def test_a_value_that_others_read_is_made() -> None:
    assert cases.rules(cases.plan(SHARED)) == ["norm", "quantise"]


def test_the_residual_is_read_by_the_product() -> None:
    """The weight is a parameter here, so no layout of its own can be made of it, and no kernel of tiles takes it."""
    with pytest.raises(BitternError) as caught:
        cases.plan(SUM)
    assert caught.value.code == "P102" and "Nothing covers" in caught.value.what
    assert "product_and_residual" in cases.rules(cases.planned("llama", None))


def test_rules_can_be_left_out() -> None:
    model, sizes = cases.bound(), {0: 1, 1: 1, 2: cases.CONTEXT}
    plan = plan_of(model.forward, RULES, KNOWN, cases.LIBRARY, sizes, without=["attention_of_few"])
    assert "attention_to_codes" in cases.rules(plan) and "attention_of_few" not in cases.rules(plan)


def test_the_cache_is_one_memory_from_store_to_store() -> None:
    for fuse in (True, False):
        plan = cases.planned("llama", 1, fuse)
        caches = plan.inputs[3:7]
        assert [plan.root[value] for value in plan.results[1:5]] == list(caches)


def test_a_cache_that_is_not_owned_is_not_updated() -> None:
    scene = Scene(flow_of(cases.bound().forward, KNOWN, {0: 1, 1: 1, 2: 64}), 1, cases.LIBRARY)
    assert all(scene.is_cache(value) for value in scene.flow.inputs[3:])
    assert not any(scene.is_cache(value) for value in scene.flow.inputs[:3])
    scene.dropped = frozenset({"own"})
    assert not any(scene.is_cache(value) for value in scene.flow.inputs)


def test_what_each_thread_makes_is_made_by_one_where_others_update_it() -> None:
    """Without names nothing is fused: rows of the embedding, made by each thread, would be added to by all."""

    def lowered(apply: Apply, scene: Scene) -> Region | None:
        from bittern.plan.explain import lowered

        return None if any(scene.is_cache(value) for value in apply.inputs) else lowered(apply)

    rules = [(name, rule) for name, rule in RULES if name in ("embedding", "add", "reshape", "blocks")]
    rules.append(("lowered", lowered))
    rules.append(("nothing", lambda apply, _: Region("", (apply,))))
    sizes = {0: 1, 1: 1, 2: cases.CONTEXT}
    plan = plan_of(cases.bound().forward, rules, frozenset(), cases.LIBRARY, sizes)
    embedding = plan.regions[cases.rules(plan).index("embedding")]
    assert [launch.mode for launch in embedding.launches] == ["one"]
    assert "add" in cases.rules(plan)


def test_threads_that_share_alike_do_not_meet() -> None:
    plan = cases.planned("llama", 1)
    for (_, _, launch), (_, _, after) in zip(*(list(cases.spots(plan))[k:] for k in (0, 1)), strict=False):
        if after.recipe.name == "gate_rows":
            assert launch.partition == after.partition and not launch.barrier


def test_a_scene_that_is_copied_changes_apart() -> None:
    scene = Scene(flow_of(cases.bound().forward, KNOWN, {0: 1, 1: 1, 2: 64}), 1, cases.LIBRARY)
    other = scene.copy()
    other.covered.add(scene.flow.applies[0])
    other.same[scene.flow.inputs[0]] = scene.flow.inputs[1]
    assert not scene.covered and not scene.same and other.flow is scene.flow


def test_scenes_tell_readers_last_reads_and_numbers() -> None:
    flow = flow_of(cases.function(SHARED), KNOWN)
    scene = Scene(flow, None, cases.LIBRARY)
    norm, codes = (apply for apply in flow.applies if apply.name in KNOWN)
    assert scene.maker(norm.results[0]) is norm and codes in scene.users(norm.results[0])
    assert not scene.private(norm.results[0], codes), "it is a result"
    assert scene.number(norm.arguments[2]) == 0.5
    assert not scene.is_last(norm.results[0]) and not scene.is_last(flow.inputs[0])
    for fact, answer in (("numbers", scene.number(norm.arguments[2])),):
        scene.dropped = frozenset({fact})
        assert answer == 0.5 and scene.number(norm.arguments[2]) is None


@pytest.mark.req("K025")
def test_shapes_decide_sizes_of_buffers() -> None:
    small, large = cases.planned("llama", 1), cases.planned("llama", 4)
    for one, other in zip(small.launches, large.launches, strict=False):
        for name, value in one.writes.items():
            if value_of(value).source == "made" and name in other.writes and not isinstance(value, Part):
                count = value_of(other.writes[name]).size.constant
                assert count == 4 * (value_of(value).size.constant or 0), name


def test_a_spoilt_rule_is_seen() -> None:
    """A planted fault: a norm that says that it does not write its result."""

    def norm(apply: Apply, scene: Scene) -> Region | None:
        region = dict(RULES)["norm_and_quantise"](apply, scene)
        return region and replace(region, launches=tuple(replace(each, writes={}) for each in region.launches))

    from bittern.plan.check import faults

    rules = [("norm_and_quantise", norm), *RULES]
    plan = plan_of(cases.bound().forward, rules, KNOWN, cases.LIBRARY, {0: 1, 1: 1, 2: 64})
    assert any("nothing wrote it" in fault for fault in faults(plan))
