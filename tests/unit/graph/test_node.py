"""The laws of identity: what enters an id, what does not, and what a change re-keys."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import hypothesis.strategies as st
import networkx
import numpy as np
import pytest
from graph_builder import random_function
from hypothesis import given, settings

from bittern.base.hashing import digest
from bittern.graph.difference import nodes_of
from bittern.graph.node import Function, Labels, Node, Parameter, call, const, functions_of, node, param, walk
from bittern.graph.rewrite import map_nodes
from bittern.types.dims import dim, symbol
from bittern.types.elements import BIT, ELEMENTS, F32, F64, I32, U8, U32, U64
from bittern.types.values import tensor

ROOT = Path(__file__).resolve().parents[3]
seeds = st.integers(0, 2**32)
X, Y = param(0, tensor(F32, 4)), param(1, tensor(F32, 4))


# --- what enters an id

PAIRS = {
    "kind": (node("add", [X, Y], {}, X.type), node("sub", [X, Y], {}, X.type)),
    "order of inputs": (node("sub", [X, Y], {}, X.type), node("sub", [Y, X], {}, X.type)),
    "number of inputs": (node("concat", [X], {"axis": 0}, X.type), node("concat", [X, X], {"axis": 0}, X.type)),
    "attribute": (node("sum", [X], {"axis": 0}, X.type), node("sum", [X], {"axis": 1}, X.type)),
    "attribute's name": (node("f", [X], {"low": 1}, X.type), node("f", [X], {"high": 1}, X.type)),
    "attribute's kind": (node("f", [X], {"low": 1}, X.type), node("f", [X], {"low": dim(1)}, X.type)),
    "element": (param(0, tensor(F32, 4)), param(0, tensor(I32, 4))),
    "shape": (param(0, tensor(F32, 4)), param(0, tensor(F32, 2, 2))),
    "space": (
        param(0, tensor(F32, 4)),
        node("param", [], {"index": 0}, tensor(F32, 4).__class__(F32, (dim(4),), "host")),
    ),
    "symbol": (param(0, tensor(F32, symbol(0))), param(0, tensor(F32, symbol(1)))),
    "number or symbol": (param(0, tensor(F32, 0)), param(0, tensor(F32, symbol(0)))),
}


def tells_apart(identity: Callable[[Node], bytes]) -> None:
    """Check that an identity sees every part of a node."""
    for what, (left, right) in PAIRS.items():
        assert identity(left) != identity(right), what


@pytest.mark.req("K004")
def test_an_id_depends_on_op_attributes_types_and_inputs() -> None:
    tells_apart(lambda n: n.id)


@pytest.mark.parametrize("left_out", ["kind", "inputs", "attributes", "type"])
def test_an_id_that_leaves_something_out_is_caught(left_out: str) -> None:
    """Planted faults: four identities, each blind to one part."""

    def blind(n: Node) -> bytes:
        parts = {
            "kind": n.kind,
            "inputs": tuple(blind(i) for i in n.inputs),
            "attributes": n.attributes,
            "type": n.type,
        }
        return digest(("node", *(value for name, value in parts.items() if name != left_out)))

    with pytest.raises(AssertionError):
        tells_apart(blind)


@pytest.mark.req("K004")
@settings(deadline=None)
@given(seeds)
def test_an_id_is_the_hash_of_exactly_that(seed: int) -> None:
    for n in nodes_of(random_function(seed)):
        assert n.id == digest(("node", n.kind, tuple(i.id for i in n.inputs), n.attributes, n.type))
        assert list(n.attributes) == sorted(n.attributes, key=lambda pair: pair[0])


@pytest.mark.req("K004")
@settings(deadline=None)
@given(seeds, st.integers(1, 2**32), st.integers(1, 2**32))
def test_labels_never_matter(seed: int, names: int, other: int) -> None:
    bare, first, second = (random_function(seed, names=n) for n in (0, names, other))
    assert bare.id == first.id == second.id
    assert bare == first and hash(bare) == hash(first)


@settings(deadline=None)
@given(seeds)
def test_equal_nodes_are_one_object(seed: int) -> None:
    first, second = random_function(seed), random_function(seed)
    assert first.result is second.result


def test_a_function_is_its_meaning() -> None:
    body = node("add", [X, Y], {}, X.type)
    base = Function(1, (Parameter(X.type), Parameter(Y.type)), body)
    different = [
        Function(2, base.params, body),
        Function(1, (Parameter(X.type, "own"), Parameter(Y.type)), body),
        Function(1, (Parameter(X.type, "&"), Parameter(Y.type)), body),
        Function(1, base.params, node("sub", [X, Y], {}, X.type)),
        Function(1, base.params, body, facts=((symbol(0), dim(32)),)),
        Function(1, base.params, body, effects=("clock",)),
        Function(1, base.params, body, ideal=base),
    ]
    assert len({base.id, *(f.id for f in different)}) == 1 + len(different)
    assert Function(1, base.params, body, labels=Labels("other", ("q",))).id == base.id
    n, m = symbol(0), symbol(1)
    facts = [(n, dim(32)), (m, dim(4)), (n, m)]
    orders = [Function(2, base.params, body, facts=tuple(Random(i).sample(facts, 3))) for i in range(20)]
    assert len({f.id for f in orders}) == 1, "facts are a set: their order does not leak into the id"


def test_a_function_is_no_bytes_and_no_node() -> None:
    base = Function(0, (Parameter(X.type),), X)
    kinds = [{"a": base}, {"a": base.id}, {"a": base.id.hex()}, {"a": (base,)}]
    assert len({node("f", [], kind, X.type).id for kind in kinds}) == 4  # type: ignore[arg-type]


# --- building order, other processes


def shuffled(function: Function, rng: Random) -> Node:
    """Build the graph of a function again, its nodes in a random topological order, attributes in a random order."""
    graph = networkx.DiGraph()
    known = {n.id: n for n in walk(function.result)}
    graph.add_nodes_from(known)
    graph.add_edges_from((i.id, n.id) for n in known.values() for i in n.inputs)
    keys = {key: rng.random() for key in known}
    made: dict[bytes, Node] = {}
    for key in networkx.lexicographical_topological_sort(graph, key=keys.__getitem__):
        old = known[key]
        attributes = dict(rng.sample(old.attributes, len(old.attributes)))
        made[key] = node(old.kind, [made[i.id] for i in old.inputs], attributes, old.type)
    return made[function.result.id]


@pytest.mark.req("K004")
@settings(deadline=None)
@given(seeds, st.randoms(use_true_random=False))
def test_the_order_of_building_does_not_matter(seed: int, rng: Random) -> None:
    """EDGE_CASES D6: one order for one hash."""
    function = random_function(seed)
    assert shuffled(function, rng).id == function.result.id


PROCESS = """
import sys
from graph_builder import random_function
for seed in map(int, sys.argv[1:]):
    print(seed, random_function(seed).id.hex())
"""


@pytest.mark.req("K007")
def test_other_processes_and_hash_seeds_give_the_same_ids() -> None:
    wanted = {str(seed): random_function(seed).id.hex() for seed in range(8)}
    for hash_seed, order in (("0", 1), ("4711", -1)):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
        command = [sys.executable, "-c", PROCESS, *list(wanted)[::order]]
        output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        assert dict(line.split() for line in output.splitlines()) == wanted


# --- what a change re-keys


def users(function: Function) -> networkx.DiGraph:
    """Return the graph from each node and function to what names it."""
    graph = networkx.DiGraph()
    functions = {function.id: function}
    for n in nodes_of(function):
        graph.add_edges_from((i.id, n.id) for i in n.inputs)
        graph.add_edges_from((f.id, n.id) for f in functions_of(n))
        functions.update((f.id, f) for f in functions_of(n))
        graph.add_node(n.id)
    while functions:
        key, current = functions.popitem()
        graph.add_edge(current.result.id, key)
        if current.ideal is not None:
            graph.add_edge(current.ideal.id, key)
            functions[current.ideal.id] = current.ideal
    return graph


def mutated(function: Function, victim: Node) -> Function:
    def change(n: Node) -> Node:
        return node(n.kind, n.inputs, {**dict(n.attributes), "mutant": 1}, n.type) if n.id == victim.id else n

    return map_nodes(function, change)


def check_mutations(function: Function, change: Callable[[Function, Node], Function]) -> int:
    """Mutate each node in turn; the ids that vanish must be exactly those of the node and of its users."""
    graph, before = users(function), {n.id for n in nodes_of(function)}
    for victim in list(nodes_of(function)):
        after = {n.id for n in nodes_of(change(function, victim))}
        dependants = networkx.descendants(graph, victim.id)
        assert before - after == {victim.id} | (dependants & before), victim
        assert len(after - before) == len(before - after), victim
        assert function.id in dependants
    return len(before)


@pytest.mark.req("K006")
@settings(max_examples=15, deadline=None)
@given(seeds)
def test_a_change_re_keys_exactly_its_users(seed: int) -> None:
    assert check_mutations(random_function(seed, 10, 2), mutated) >= 3


def test_a_change_that_re_keys_more_is_caught() -> None:
    """Planted fault: a rewrite that also touches a node which does not depend on the changed one."""
    function = random_function(5, 12, 1)

    def careless(old: Function, victim: Node) -> Function:
        return mutated(mutated(old, victim), next(iter(walk(old.result))))

    with pytest.raises(AssertionError):
        check_mutations(function, careless)


@pytest.mark.req("K007")
@settings(deadline=None)
@given(seeds, seeds)
def test_unchanged_parts_keep_their_identity_in_other_programs(seed: int, other: int) -> None:
    part, stranger = random_function(seed, 6, 1), random_function(other, 6, 1)
    sizes = [symbol(0), symbol(1)]
    arguments = [param(i, p.type) for i, p in enumerate(part.params)]
    edited = node("add", [call(part, arguments, sizes), stranger.result], {}, part.result.type)
    kept = {n.id for n in nodes_of(part)}
    inside = {n.id for f in functions_of(edited.inputs[0]) for n in nodes_of(f)}
    assert kept == inside


# --- constants


@pytest.mark.req("K004")
def test_constants_are_type_and_bits() -> None:
    """EDGE_CASES D5: -0 and 0, 1 and 1.0 are different constants."""
    assert const(1, F32) is const(1.0, F32) is const(True, F32)
    assert const(0.0, F32) is not const(-0.0, F32)
    assert len({const(1, e).id for e in (F32, F64, I32, U8, BIT, U32)}) == 6
    assert const([1, 2], U8) is not const([[1, 2]], U8)
    assert const(2**64 - 1, U64)["data"].read() == b"\xff" * 8  # type: ignore[union-attr]
    assert const(np.arange(6, dtype=">i4"), I32) is const(np.arange(6), I32)
    assert const(np.arange(6).reshape(2, 3).T, I32) is const([[0, 3], [1, 4], [2, 5]], I32)


@pytest.mark.parametrize(
    ("name", "nans", "nan", "others"),
    [
        ("f32", [0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF, 0x7FC12345], 0x7FC00000, [0x7F800000, 0xFF800000]),
        ("f64", [0x7FF8 << 48, 0xFFF8 << 48, (0x7FF0 << 48) | 1], 0x7FF8 << 48, [0x7FF0 << 48, 0xFFF0 << 48, 1 << 63]),
        ("f16", [0x7E00, 0xFE00, 0x7C01, 0xFFFF], 0x7E00, [0x7C00, 0xFC00, 0x8000]),
        ("bf16", [0x7FC0, 0xFFC0, 0x7F81], 0x7FC0, [0x7F80, 0xFF80, 0x8000]),
        ("f8_e5m2", [0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF], 0x7E, [0x7C, 0xFC, 0x80]),
        ("f8_e4m3", [0x7F, 0xFF], 0x7F, [0x7E, 0xFE, 0x80]),
    ],
)
def test_every_nan_is_the_canonical_one(name: str, nans: list[int], nan: int, others: list[int]) -> None:
    element = ELEMENTS[name]
    storage = np.dtype(element.storage)

    def stored(bits: int) -> bytes:
        value = np.array([bits], f"<u{storage.itemsize}").view(storage)
        return bytes(const(value, element)["data"].read())  # type: ignore[union-attr]

    wanted = nan.to_bytes(storage.itemsize, "little")
    assert {stored(bits) for bits in nans} == {wanted}
    for bits in others:
        assert stored(bits) == bits.to_bytes(storage.itemsize, "little"), "infinities and zeros keep their bits"


@pytest.mark.parametrize(
    ("value", "name"),
    [(16, "u4"), (-1, "u8"), (2, "bit"), (0, "b1"), (2, "t"), (1.5, "u32"), (4, "i3"), (-5, "i3"), (256, "q4_0")],
)
def test_a_constant_outside_its_element_is_our_mistake(value: float, name: str) -> None:
    with pytest.raises(AssertionError):
        const(np.full((1, 1, 18), value) if name == "q4_0" else value, ELEMENTS[name])


def test_long_chains_need_no_stack() -> None:
    x = X
    for _ in range(20_000):
        x = node("neg", [x], {}, x.type)
    assert sum(1 for _ in walk(x)) == 20_001
    assert map_nodes(Function(0, (Parameter(X.type),), x), lambda n: n).result is x
    del x
