"""Fusion of maps, and what is left to the plan: kernels, other layouts of weights, effects."""

from dataclasses import replace

import numpy as np
from pass_cases import FOUR, WORD, agree, body, function, kinds, only, op, same_bits, word

from bittern.graph.evaluate import evaluate
from bittern.graph.node import Function, Node, Parameter, call, const, item, make_tuple, map_over, param, walk
from bittern.lang.library import Library
from bittern.passes.run import run_passes
from bittern.passes.table import Context, passes
from bittern.types.dims import dim
from bittern.types.elements import F32, U32
from bittern.types.values import Token, Tuple, tensor


def test_maps_that_feed_each_other_become_one() -> None:
    double, add = body([WORD], lambda a: op("add", a, a)), body([WORD, WORD], lambda a, c: op("mul", a, c))

    def make(x: Node, c: Node) -> Node:
        return map_over(add, dim(4), [map_over(double, dim(4), [x], [])], [c])

    made = only("fuse", function([FOUR, WORD], make))
    assert kinds(made).count("map") == 1 and len(made.result.inputs) == 2


def test_maps_over_the_same_array_and_what_goes_by_element_join_them() -> None:
    """A quantiser in blocks: three maps with operations on whole arrays between them are one walk over the blocks."""
    of = Library.standard().function("quantise.quantise")
    made = run_passes(of, without=["share"])
    top = [n.kind for n in walk(made.result)]
    assert top.count("map") == 1 and "div" not in top and "select" not in top
    x = np.random.default_rng(3).standard_normal(96).astype(np.float32)
    assert same_bits(evaluate(made, [x], [96]), evaluate(of, [x], [96]))


def test_no_cycle_is_made() -> None:
    """The second map also takes a number made from all of the first one: they cannot be one."""
    double, add = body([WORD], lambda a: op("add", a, a)), body([WORD, WORD], lambda a, c: op("mul", a, c))

    def make(x: Node) -> Node:
        first = map_over(double, dim(4), [x], [])
        return map_over(add, dim(4), [first], [op("sum", first)])

    of = function([FOUR], make)
    assert run_passes(of, only=["fuse"]).id == of.id

    def by_another(x: Node) -> Node:
        first = map_over(double, dim(4), [x], [])
        total = op("scan_sum", first)  # not element by element
        return map_over(add, dim(4), [op("add", total, first)], [op("take", first, word(1))])

    only("fuse", function([FOUR], by_another))


def test_different_counts_do_not_join() -> None:
    double = body([WORD], lambda a: op("add", a, a))

    def make(x: Node, y: Node) -> Node:
        five = map_over(double, dim(5), [y], [])
        return make_tuple([map_over(double, dim(4), [x], []), five])

    of = function([FOUR, tensor(U32, 5)], make)
    assert run_passes(of, only=["fuse"]).id == of.id


def test_kernels_are_left_to_the_plan() -> None:
    norm, row = Library.standard().function("norms.rms_norm"), tensor(F32, 4)
    calls = body([row, row], lambda a, g: call(norm, [a, g, const(1e-5, F32)], [dim(4)]))
    of = function(
        [tensor(F32, 3, 4), row], lambda x, g: map_over(calls, dim(3), [map_over(calls, dim(3), [x], [g])], [g])
    )
    assert run_passes(of, Context(has_kernel=lambda f: True)).id == of.id
    assert kinds(run_passes(of)).count("map") == 1


# --- the place for other layouts of weights


def test_the_plan_may_repack_weights() -> None:
    norm, row = Library.standard().function("norms.rms_norm"), tensor(F32, 4)
    of = function([row, row], lambda x, g: call(norm, [x, g, const(1e-5, F32)], [dim(4)]))
    seen: list[Node] = []

    def repack(given: Node) -> Node:
        seen.append(given)
        if given.inputs[1].kind == "reshape":
            return given
        weight = op("reshape", given.inputs[1], shape=(dim(2), dim(2)))
        back = op("reshape", weight, shape=(dim(4),))
        return call(norm, [given.inputs[0], back, given.inputs[2]], [dim(4)])

    context = Context(has_kernel=lambda f: True, repack=lambda given: repack(given))
    assert run_passes(of, Context(has_kernel=lambda f: True)).id == of.id
    made = passes()["layout"].change
    assert made is not None
    packed = made(of.result, context)
    assert seen == [of.result] and packed is not None and packed.inputs[1].kind == "reshape"
    assert agree(of, replace(of, result=packed)) and made(packed, context) is None


# --- effects


def test_effects_stay_in_order() -> None:
    token = Token("clock")
    first = param(0, token)
    read = _clock_reads(first, 2)
    whole = make_tuple([op("add", read[0][0], read[1][0]), read[1][1]])
    of = Function(0, (Parameter(token),), whole, effects=("clock",))
    made = run_passes(of)
    assert [n.kind for n in walk(made.result)].count("now") == 2, "two reads of a clock are two"


def _clock_reads(token: Node, count: int) -> list[tuple[Node, Node]]:
    found = []
    for _ in range(count):
        read = op("now", token)
        assert isinstance(read.type, Tuple)
        found.append((item(read, 0), item(read, 1)))
        token = found[-1][1]
    return found
