"""Rewrites give what the laws of identity ask for, and graphs whose every type is still the one of its rule."""

import hypothesis.strategies as st
import pytest
from graph_builder import random_function
from hypothesis import given, settings

from bittern.graph.difference import nodes_of
from bittern.graph.node import (
    Function,
    Labels,
    Node,
    Parameter,
    call,
    const,
    fold,
    make_tuple,
    map_over,
    node,
    param,
    walk,
)
from bittern.graph.rewrite import inline, map_nodes, replace_nodes, substitute_dims
from bittern.graph.rules import check
from bittern.types.dims import Dim, dim, symbol
from bittern.types.elements import F32, F64, U32
from bittern.types.faults import TypeFault
from bittern.types.values import substitute as substitute_type
from bittern.types.values import tensor

seeds = st.integers(0, 2**32)
N, M = symbol(0), symbol(1)


def double(body_names: str = "") -> Function:
    """Return f[n](x: f32[n], y: f32[n]) = x * y + y, as a map over rows."""
    a, b = param(0, tensor(F32)), param(1, tensor(F32))
    row = node("add", [node("mul", [a, b], {}, a.type), b], {}, a.type)
    body = Function(1, (Parameter(a.type), Parameter(b.type)), row, labels=Labels(body_names))
    x, y = param(0, tensor(F32, N)), param(1, tensor(F32, N))
    return Function(1, (Parameter(x.type), Parameter(y.type)), map_over(body, N, [x, y], []))


@settings(deadline=None)
@given(seeds)
def test_no_change_gives_the_same_objects(seed: int) -> None:
    function = random_function(seed)
    assert map_nodes(function, lambda n: n) is function
    assert replace_nodes(function.result, {function.result.id: function.result}) is function.result
    assert substitute_dims(function, [N, M], 2) is function


def test_a_change_reaches_bodies_callees_and_ideal_bodies() -> None:
    inner = double()
    x = param(0, tensor(F32, M))
    outer = Function(2, (Parameter(x.type),), call(inner, [x, x], [M]), ideal=double())
    seen: list[str] = []

    def change(n: Node) -> Node:
        seen.append(n.kind)
        return node("max", n.inputs, {}, n.type) if n.kind == "mul" else n

    changed = map_nodes(outer, change)
    kinds = [n.kind for n in nodes_of(changed)]
    assert "mul" not in kinds and "max" in kinds
    assert changed.ideal is not None and changed.ideal.id != double().id
    assert len(seen) == len({n.id for n in nodes_of(outer)}), "each node once"
    undone = map_nodes(changed, lambda n: node("mul", n.inputs, {}, n.type) if n.kind == "max" else n)
    assert undone.id == outer.id


def test_labels_follow_their_nodes() -> None:
    x = param(0, tensor(F32, 4))
    inner = node("neg", [x], {}, x.type)
    last = node("abs", [inner], {}, x.type)
    labels = Labels("f", (), ("x",), {inner.id: "minus", last.id: "size"}, {last.id: ("f.btn", 3)})
    function = Function(0, (Parameter(x.type),), last, labels=labels)
    changed = map_nodes(function, lambda n: node("floor", n.inputs, {}, n.type) if n.kind == "neg" else n)
    assert changed.labels.nodes == {changed.result.inputs[0].id: "minus", changed.result.id: "size"}
    assert changed.labels.lines == {changed.result.id: ("f.btn", 3)}
    assert changed.labels.name == "f" and changed.labels.params == ("x",)


def test_types_follow_a_changed_type_by_their_rules() -> None:
    x = param(0, tensor(F32, 4))
    wide = node("convert", [x], {"to": F64}, tensor(F64, 4))
    y = node("add", [x, x], {}, x.type)
    function = Function(0, (Parameter(x.type),), node("tuple", [y, x], {}, make_tuple([y, x]).type))
    changed = map_nodes(function, lambda n: wide if n is x else n)
    assert changed.result.inputs[0].type == tensor(F64, 4)
    assert changed.result.type == make_tuple([changed.result.inputs[0], wide]).type
    check(changed)
    z = param(1, tensor(F32, 4))
    mixed = Function(0, (Parameter(x.type), Parameter(z.type)), node("add", [x, z], {}, x.type))
    with pytest.raises(TypeFault):
        map_nodes(mixed, lambda n: wide if n is x else n)


# --- dimensions


def sizes(draw_n: int, draw_m: int) -> list[Dim]:
    return [dim(32 * draw_n), dim(draw_m)]


@settings(deadline=None)
@given(seeds, st.integers(1, 9), st.integers(1, 9))
def test_an_instance_has_the_types_put_in_and_obeys_every_rule(seed: int, n: int, m: int) -> None:
    function = random_function(seed)
    check(function)
    instance = substitute_dims(function, sizes(n, m), 0)
    assert instance.dims == 0 and instance.facts == ()
    assert instance.result.type == substitute_type(function.result.type, sizes(n, m))
    check(instance)
    assert instance.labels.name == function.labels.name


@settings(deadline=None)
@given(seeds, st.integers(1, 9), st.integers(1, 9))
def test_instances_compose(seed: int, n: int, m: int) -> None:
    function = random_function(seed)
    wider = [N * M * 2, M + 1]
    once = substitute_dims(function, [size.substitute(sizes(n, m)) for size in wider], 0)
    twice = substitute_dims(substitute_dims(function, wider, 2), sizes(n, m), 0)
    assert once.id == twice.id


def test_callees_keep_their_own_dimensions() -> None:
    inner = double()
    x = param(0, tensor(F32, N * 2))
    outer = Function(1, (Parameter(x.type),), call(inner, [x, x], [N * 2]))
    instance = substitute_dims(outer, [dim(5)], 0)
    assert instance.result["function"] is inner or instance.result["function"] == inner
    assert instance.result["dims"] == (dim(10),)


def test_facts_that_are_met_leave_and_others_stay() -> None:
    x = param(0, tensor(F32, N))
    function = Function(2, (Parameter(x.type),), x, facts=((N, dim(32)), (M, dim(2))))
    assert substitute_dims(function, [dim(64), N], 1).facts == ((N, dim(2)),)


# --- inlining


def test_inlining_gives_what_one_would_have_written() -> None:
    x, y = param(0, tensor(F32, 6)), param(1, tensor(F32, 6))
    a, b = param(0, tensor(F32)), param(1, tensor(F32))
    row = node("add", [node("mul", [a, b], {}, a.type), b], {}, a.type)
    body = Function(0, (Parameter(a.type), Parameter(b.type)), row)
    by_hand = map_over(body, dim(6), [y, x], [])
    inlined = inline(call(double(), [y, x], [dim(6)]))
    assert inlined.inputs == by_hand.inputs and inlined.type == by_hand.type
    assert [n.id for n in walk(inlined["body"].result)] == [n.id for n in walk(row)]  # type: ignore[union-attr]


def test_inlining_leaves_the_parameters_of_bodies_alone() -> None:
    i, acc = param(0, tensor(U32)), param(1, tensor(F32))
    step = Function(0, (Parameter(i.type), Parameter(acc.type)), node("neg", [acc], {}, acc.type))
    start = param(0, tensor(F32))
    looped = fold(step, const(0, U32), const(3, U32), [start], [])
    function = Function(0, (Parameter(start.type),), looped)
    inlined = inline(call(function, [const(1.5, F32)]))
    assert inlined["body"] == step
    assert inlined.inputs[2] is const(1.5, F32)


@settings(deadline=None, max_examples=60)
@given(seeds)
def test_inlining_every_call_keeps_all_types(seed: int) -> None:
    function = random_function(seed, 20)

    def flat(n: Node) -> Node:
        return inline(n) if n.kind == "call" else n

    inlined = map_nodes(function, flat)
    assert not any(n.kind == "call" for n in nodes_of(inlined) if n.kind == "call" and n["function"] == function)
    assert inlined.result.type == function.result.type
    check(inlined)


def test_a_careless_inliner_is_caught() -> None:
    """Planted fault: putting arguments in without the dimensions leaves symbols that the caller does not have."""
    x = param(0, tensor(F32, 6))
    made = call(double(), [x, x], [dim(6)])
    careless = replace_nodes(double().result, {param(0, tensor(F32, N)).id: x, param(1, tensor(F32, N)).id: x})
    assert careless.id != inline(made).id
    check(Function(0, (Parameter(x.type),), inline(made)))
    from bittern.graph.rules import NodeFault

    with pytest.raises(NodeFault):
        check(Function(0, (Parameter(x.type),), careless))
