"""Flows: calls laid out in place, maps around one call as batches, leaves for tuples, sizes in the outer symbols."""

import plan_cases as cases
import pytest

from bittern.base.errors import BitternError
from bittern.graph.node import Function
from bittern.plan.flow import flow_of, plain_name, without_sizes
from bittern.plan.rules import KNOWN
from bittern.types.dims import dim, symbol

BATCH = """
use norms
use quantise
fn f[t](x: f32[t, 64], gain: f32[64]) -> many[Act[64], t] {
  let a = [rms_norm(row, gain, 0.5) for row in x]
  [quantise(row) for row in a]
}
"""
INSIDE = """
use norms
fn twice[n](x: f32[n], gain: f32[n]) -> f32[n] { rms_norm(rms_norm(x, gain, 0.5), gain, 0.5) }
fn f[t](x: f32[t, 64], gain: f32[64]) -> f32[64] {
  let y = twice(x[0], gain)
  y + y
}
"""
HEADS = """
use norms
fn f[t](x: f32[t, 4, 64], gain: f32[64]) -> f32[t, 4, 64] { [[rms_norm(head, gain, 0.5) for head in row] for row in x] }
"""


def _flow(text: str) -> tuple[Function, list[str]]:
    function = cases.function(text)
    return function, [apply.name for apply in flow_of(function, KNOWN).applies]


def test_a_map_around_one_known_call_is_a_batch() -> None:
    flow = flow_of(cases.function(BATCH), KNOWN)
    norm, codes = (apply for apply in flow.applies if apply.name in KNOWN)
    assert (norm.name, norm.lead, norm.dims) == ("norms.rms_norm", (symbol(0),), (dim(64),))
    assert norm.mapped == (True, False, False) and norm.rows == symbol(0)
    assert norm.arguments[0] is flow.inputs[0] and norm.arguments[1] is flow.inputs[1]
    assert norm.arguments[2].source == "const" and norm.label == "a"
    assert codes.arguments == norm.results and codes.results == flow.results
    assert [str(value.type.element) for value in flow.results] == ["i8", "f32", "f32"]
    assert flow.results[0].type.shape == (symbol(0), dim(2), dim(32))


def test_nested_maps_are_one_batch() -> None:
    flow = flow_of(cases.function(HEADS), KNOWN)
    (norm,) = (apply for apply in flow.applies if apply.name in KNOWN)
    assert norm.lead == (symbol(0), dim(4)) and norm.rows == symbol(0) * 4 and norm.mapped == (True, False, False)


def test_a_map_of_more_than_one_call_stays_a_node() -> None:
    both = BATCH.replace("[quantise(row) for row in a]", "[quantise(rms_norm(row, gain, 0.5)) for row in x]")
    _, names = _flow(both)
    assert "map" in names and not set(names) & KNOWN


def test_unknown_calls_are_laid_out_in_place() -> None:
    function, names = _flow(INSIDE)
    assert names.count("norms.rms_norm") == 2 and names[-1] == "add" and "program.twice" not in names
    flow = flow_of(function, KNOWN)
    users = flow.users()
    last = flow.applies[-1]
    assert users[last.arguments[0]] == [last] and last.arguments[0] is last.arguments[1]
    assert {"program.twice"} <= {apply.name for apply in flow_of(function, frozenset({"program.twice"})).applies}


def test_sizes_that_are_fixed_are_put_in() -> None:
    flow = flow_of(cases.function(BATCH), KNOWN, {0: 5})
    assert {size.constant for value in flow.results for size in value.type.shape} == {5, 2, 32}
    assert flow.applies[0].lead == (dim(5),)


def test_inputs_say_whether_they_are_owned() -> None:
    flow = flow_of(cases.bound().forward, KNOWN, {0: 1, 1: 1, 2: 64})
    assert [value.mode for value in flow.inputs] == ["", "&", "&", "own", "own", "own", "own"]


def test_values_are_leaves_with_sizes() -> None:
    flow = flow_of(cases.function(BATCH), KNOWN)
    assert flow.results[0].size == symbol(0) * 64 and plain_name(cases.bound().forward) == "llama.forward"


def test_sizes_can_be_hidden() -> None:
    flow = flow_of(cases.function(BATCH), KNOWN)
    hidden, sizes = without_sizes(flow, 1)
    assert set(sizes) == {64, 2, 32}
    shown = (1, *sizes)
    for plain, blind in zip(flow.applies, hidden.applies, strict=True):
        assert plain.name == blind.name and plain.node is blind.node
        for left, right in zip((*plain.arguments, *plain.results), (*blind.arguments, *blind.results), strict=True):
            assert all(size.constant is None for size in right.type.shape)
            assert left.size.value(shown) == right.size.value(shown)
    assert hidden.results == hidden.applies[-1].results


def test_effects_are_not_planned() -> None:
    with pytest.raises(BitternError) as caught:
        cases.plan("fn f() -> u64 ! clock { now() - now() }")
    assert caught.value.code == "P101" and "clock" in caught.value.what
