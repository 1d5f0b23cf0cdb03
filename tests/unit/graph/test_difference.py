"""Two functions are compared by their ids, and the first difference is the change that was made."""

import hypothesis.strategies as st
import pytest
from graph_builder import random_function
from hypothesis import given, settings

from bittern.graph.difference import difference, nodes_of
from bittern.graph.node import Function, Labels, Parameter, call, map_over, node, param
from bittern.graph.rewrite import map_nodes
from bittern.types.dims import dim, symbol
from bittern.types.elements import F32
from bittern.types.values import tensor

seeds = st.integers(0, 2**32)
X, Y = param(0, tensor(F32, 4)), param(1, tensor(F32, 4))
BOTH = (Parameter(X.type), Parameter(Y.type))


@settings(deadline=None)
@given(seeds, st.integers(0, 9))
def test_equal_functions_do_not_differ(seed: int, names: int) -> None:
    found = difference(random_function(seed), random_function(seed, names=names))
    assert found.is_equal and str(found) == "equal"
    assert found.only_left == found.only_right == ()


@pytest.mark.req("K006")
@settings(deadline=None, max_examples=40)
@given(seeds, st.data())
def test_the_first_difference_is_the_planted_one(seed: int, data: st.DataObject) -> None:
    function = random_function(seed, 12)
    victim = data.draw(st.sampled_from(list(nodes_of(function))))
    changed = map_nodes(
        function, lambda n: node(n.kind, n.inputs, {**dict(n.attributes), "mutant": 1}, n.type) if n is victim else n
    )
    found = difference(function, changed)
    assert not found.is_equal
    assert found.left is victim
    assert found.right is not None and found.right.has("mutant") and found.right.inputs == victim.inputs
    assert found.path[0] == function.name and "mutant" in str(found)
    assert victim in found.only_left and found.right in found.only_right
    assert len(found.only_left) == len(found.only_right)
    order = {n.id: place for place, n in enumerate(found.only_left)}
    assert all(order.get(i.id, -1) < order[n.id] for n in found.only_left for i in n.inputs)


def test_the_path_names_labels_and_bodies() -> None:
    a = param(0, tensor(F32))

    def outer(kind: str) -> Function:
        last = node(kind, [a], {}, a.type)
        body = Function(0, (Parameter(a.type),), last, labels=Labels("row", nodes={last.id: "turned"}))
        whole = node("add", [map_over(body, dim(4), [X], []), X], {}, X.type)
        labels = Labels("main", nodes={whole.id: "total", whole.inputs[0].id: "rows"})
        return Function(0, (Parameter(X.type),), whole, labels=labels)

    found = difference(outer("neg"), outer("abs"))
    assert found.path == ("main", "total", "rows", "body row", "turned")
    assert found.what == "neg of 1 inputs and abs of 1 inputs"
    assert str(found) == (
        "main > total > rows > body row > turned: neg of 1 inputs and abs of 1 inputs (3 nodes only left, 3 only right)"
    )


def test_every_part_of_a_function_and_a_node_can_differ() -> None:
    add = node("add", [X, Y], {}, X.type)
    base = Function(1, BOTH, add)
    n = symbol(0)
    cases = [
        (Function(2, BOTH, add), "`dims`"),
        (Function(1, (BOTH[0], Parameter(Y.type, "own")), add), "`params`"),
        (Function(1, BOTH, add, ((n, dim(2)),)), "`facts`"),
        (Function(1, BOTH, add, (), ("net",)), "`effects`"),
        (Function(1, BOTH, add, ideal=base), "ideal"),
        (Function(1, BOTH, node("add", [X, Y], {}, tensor(F32, 5))), "f32[4] and f32[5]"),
        (Function(1, BOTH, node("add", [X, Y], {"axis": 1}, X.type)), "`axis` None and 1"),
        (Function(1, BOTH, node("add", [X], {}, X.type)), "add of 2 inputs and add of 1 inputs"),
        (Function(1, BOTH, node("add", [Y, X], {}, X.type)), "`index` 0 and 1"),
        (Function(1, BOTH, call(base, [X, Y], [dim(1)])), "add of 2 inputs and call of 2 inputs"),
    ]
    for other, words in cases:
        found = difference(base, other)
        assert words in found.what, found
        assert not found.is_equal
    deep, deeper = Function(1, BOTH, add, ideal=base), Function(1, BOTH, add, ideal=cases[0][0])
    assert difference(deep, deeper).path == (deep.name, "ideal", base.name)
