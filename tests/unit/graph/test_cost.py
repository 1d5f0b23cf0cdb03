"""Costs from shapes: counted against what an evaluation really does, and open numbers say what they leave open."""

from collections.abc import Iterator
from math import prod

import graph_builder
import pytest

from bittern.graph.cost import UNTOLD, Costs, bits_of, bytes_of
from bittern.graph.difference import nodes_of
from bittern.graph.facts import TEN, facts_of
from bittern.graph.layers import layer_of_label, layers_of
from bittern.graph.node import Function, Labels, Node, Parameter, call, const, fold, map_over, node, param, walk
from bittern.types.dims import Dim, dim, symbol
from bittern.types.elements import ELEMENTS, F32, I8, I32, U32
from bittern.types.values import Tensor, Tuple, storage_shape, tensor

N, M = symbol(0), symbol(1)


def dot(x: Node, y: Node) -> Node:
    """Return the exact dot of two vectors of codes."""
    return node("dot", [x, y], {"to": I32}, tensor(I32))


def row_products() -> Function:
    """Return m dots of n codes, as a map over the rows of a matrix."""
    row, x = param(0, tensor(I8, N)), param(1, tensor(I8, N))
    body = Function(2, (Parameter(row.type), Parameter(x.type)), dot(row, x))
    matrix, vector = param(0, tensor(I8, M, N)), param(1, tensor(I8, N))
    result = map_over(body, M, [matrix], [vector])
    return Function(2, (Parameter(matrix.type), Parameter(vector.type)), result, labels=Labels("rows", ("n", "m")))


def test_a_matrix_times_a_vector() -> None:
    cost = Costs().function(row_products())
    assert cost.macs == N * M and cost.operations == dim(0) and cost.note == ""
    assert cost.read == N * M + N and cost.written == M * 4


def test_a_call_costs_what_its_callee_does_there() -> None:
    callee = row_products()
    matrix, vector = param(0, tensor(I8, 6, 5)), param(1, tensor(I8, 5))
    made = call(callee, [matrix, vector], [dim(5), dim(6)])
    cost = Costs().node(made)
    assert (cost.macs.constant, cost.read.constant, cost.written.constant) == (30, 35, 24)


def counted(function: Function, turns: Dim) -> Node:
    """Return a loop of so many turns whose body adds a vector to what it carries."""
    carried, gain = param(1, tensor(F32, 8)), param(2, tensor(F32, 8))
    body = Function(
        1, tuple(map(Parameter, (tensor(U32), carried.type, gain.type))), node("add", [carried, gain], {}, gain.type)
    )
    low, high = const(0, U32), node("size", [], {"value": turns}, tensor(U32))
    start, more = param(0, tensor(F32, 8)), param(1, tensor(F32, 8))
    return fold(body, low, high, [start], [more])


def test_a_loop_costs_its_turns_where_they_are_known() -> None:
    loop = counted(row_products(), N)
    cost = Costs().node(loop)
    assert cost.operations == N * 8 and cost.note == ""
    open_high = fold(
        loop["body"], const(0, U32), param(2, tensor(U32)), [param(0, tensor(F32, 8))], [param(1, tensor(F32, 8))]
    )  # type: ignore[arg-type]
    cost = Costs().node(open_high)
    assert cost.operations == dim(8) and cost.note.startswith("one turn")


@pytest.mark.parametrize("name", ["f32", "f16", "i8", "u4", "t", "bit", "q4_1", "q6_k", "iq1_s"])
def test_bytes_are_those_of_the_array_that_holds_a_value(name: str) -> None:
    element = ELEMENTS[name]
    type_ = tensor(element, 3, 512)
    size = prod(storage_shape(type_)) * (1 if element.is_format else element.dtype.itemsize)  # type: ignore[union-attr]
    assert bytes_of(type_).constant == size
    assert float(bits_of(type_)) == (8 * size / 1536 if element.is_format else element.bits)


def random_functions() -> Iterator[Function]:
    """Yield random functions of all kinds of nodes."""
    for seed in range(30):
        yield graph_builder.random_function(seed)


def test_every_node_has_costs_and_facts() -> None:
    for function in random_functions():
        costs = Costs()
        for each in nodes_of(function):
            cost = costs.node(each)
            leaves = each.type.items if isinstance(each.type, Tuple) else (each.type,)
            if each.kind not in ("param", "const", "tuple", "item", "size"):
                assert cost.written == sum((bytes_of(leaf) for leaf in leaves), dim(0))
            told = facts_of(each, ("n", "m"))
            assert tuple(told) == TEN and all(told.values())


def test_numbers_that_grow_too_far_are_not_told() -> None:
    wide = sum((symbol(i) for i in range(40)), dim(1))
    x = param(0, Tensor(F32, (wide,) * 8))
    assert Costs().node(node("neg", [x], {}, x.type)) == UNTOLD


def test_deep_calls_do_not_overflow() -> None:
    x = param(0, tensor(F32, 4))
    inner = Function(0, (Parameter(x.type),), node("neg", [x], {}, x.type))
    for _ in range(5000):
        inner = Function(0, (Parameter(x.type),), call(inner, [x]))
    assert Costs().function(inner).operations.constant == 4


def test_layers_come_from_labels() -> None:
    assert layer_of_label("layer.3.q") == "layer.3" and layer_of_label("encoder.layer.12.mlp.up") == "encoder.layer.12"
    assert [layer_of_label(label) for label in ("x", "rope.0", "facts.eps", "layer.x.q", "")] == [""] * 5
    x = param(0, tensor(F32, 4))
    weights = [const([float(i)] * 4, F32) for i in range(4)]
    names = {weights[i].id: f"layer.{i}.gain" for i in range(3)} | {weights[3].id: "norm"}
    value, made = x, []
    for weight in weights[:3]:
        made.append(node("mul", [value, weight], {}, x.type))
        value = node("add", [made[-1], value], {}, x.type)
        made.append(value)
    labels = Labels(nodes=names)
    found = layers_of(Function(0, (Parameter(x.type),), value, labels=labels))
    assert [found.get(each.id) for each in made] == [f"layer.{i // 2}" for i in range(6)]
    assert x.id not in found and all(found[weights[i].id] == f"layer.{i}" for i in range(3))
    bare = Function(0, (Parameter(x.type),), value)
    assert not layers_of(bare), "no label, no layer"
    assert len(list(walk(value))) == 10
