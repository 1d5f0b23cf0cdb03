"""Evaluation against the plain interpreter, kind by kind; constants, calls, kernels, ideal bodies."""

from typing import Any

import numpy as np
import pytest
from building import FLAG, WORD, N, add, check, function, lt, op, same, word, words, zero_words
from plain import interpret

from bittern.base.errors import BitternError
from bittern.graph.evaluate import CallSite, World, evaluate, prepare, zeros
from bittern.graph.node import (
    Function,
    Node,
    blob,
    call,
    choose,
    const,
    const_blob,
    fold,
    item,
    make_tuple,
    map_over,
    repeat,
)
from bittern.types.dims import dim
from bittern.types.elements import BF16, F16, F32, F64, FORMATS, I8, U8, U32
from bittern.types.values import Tensor, Token, Type, tensor

# --- structural kinds


def test_scalars_tuples_and_items() -> None:
    f = function([WORD, WORD], lambda x, y: make_tuple([add(x, y), make_tuple([x, word(7)]), y]))
    results = prepare(f)(np.uint32(3), np.uint32(4))
    assert [int(leaf) for leaf in results] == [7, 3, 7, 4]
    g = function([WORD, WORD], lambda x, y: add(item(item(call(f, [x, y]), 1), 0), item(call(f, [x, y]), 2)))
    assert int(evaluate(g, [np.uint32(3), np.uint32(4)])) == 7


def test_dimensions_are_resolved_through_calls() -> None:
    inner = function([tensor(U32, N)], lambda x: add(op("sum", x, type_=WORD), op("size", type_=WORD, value=N)), 1)
    outer = function([tensor(U32, N, 2)], lambda x: call(inner, [_flat(x)], [N * 2]), 1)
    assert int(check(outer, np.arange(10, dtype=np.uint32).reshape(5, 2), dims=[5])) == 45 + 10


def _flat(x: Node) -> Node:
    assert isinstance(x.type, Tensor)
    size = x.type.shape[0] * x.type.shape[1]
    return op("reshape", x, type_=Tensor(x.type.element, (size,)), shape=(size,))


def test_map_broadcasts_a_result_that_ignores_its_element() -> None:
    body = function([WORD, WORD], lambda x, y: make_tuple([add(y, y), add(x, y)]))
    f = function([tensor(U32, 3), WORD], lambda xs, y: map_over(body, dim(3), [xs], [y]))
    check(f, words(1, 2, 3), np.uint32(5))


def test_map_of_no_elements() -> None:
    body = function([WORD, tensor(U32, 2)], lambda x, y: add(op("broadcast", x, type_=y.type, shape=(dim(2),)), y))
    f = function([tensor(U32, N), tensor(U32, 2)], lambda xs, y: map_over(body, N, [xs], [y]), 1)
    assert check(f, words(), words(1, 2), dims=[0]).shape == (0, 2)


def test_nested_maps_with_captures_of_every_level() -> None:
    inner = function([WORD, WORD, WORD], lambda y, x, c: op("mul", add(x, y), c))
    outer = function([WORD, tensor(U32, 4), WORD], lambda x, ys, c: map_over(inner, dim(4), [ys], [x, c]))
    f = function([tensor(U32, 3), tensor(U32, 4), WORD], lambda xs, ys, c: map_over(outer, dim(3), [xs], [ys, c]))
    assert check(f, words(1, 2, 3), words(10, 20, 30, 40), np.uint32(3)).shape == (3, 4)


def collatz() -> Function:
    """Rounds until 1, at most `limit`, with the path's sum: batched, every element stops elsewhere."""
    odd = function([WORD], lambda x: add(op("mul", x, word(3)), word(1)))
    even = function([WORD], lambda x: op("shr", x, word(1)))

    def step(x: Node, total: Node) -> Node:
        is_odd = op("eq", op("and", x, word(1)), word(1), type_=FLAG)
        return make_tuple([choose(is_odd, odd, even, [x]), add(total, x)])

    body = function([WORD, WORD], step)
    test = function([WORD, WORD], lambda x, total: lt(word(1), x))
    return function([WORD, WORD], lambda x, limit: repeat(test, body, limit, [x, word(0)], []))


def test_while_alone_and_in_a_batch() -> None:
    f = collatz()
    check(f, np.uint32(27), np.uint32(1000))
    check(f, np.uint32(27), np.uint32(5))
    batched = function([tensor(U32, 6), tensor(U32, 6)], lambda x, n: map_over(f, dim(6), [x, n], []))
    check(batched, words(27, 1, 2, 6, 7, 9), words(1000, 1000, 0, 3, 1000, 2))
    shared = function([tensor(U32, 6), WORD], lambda x, n: map_over(f, dim(6), [x], [n]))
    check(shared, words(27, 1, 2, 6, 7, 9), np.uint32(8))


def triangle(carry: Type = WORD) -> Function:
    """Sum of low..high - 1, and of its squares."""
    body = function([WORD, WORD, WORD], lambda i, a, b: make_tuple([add(a, i), add(b, op("mul", i, i))]))
    return function([WORD, WORD], lambda low, high: fold(body, low, high, [word(0), low], []))


def test_for_alone_and_with_bounds_that_differ_in_a_batch() -> None:
    f = triangle()
    check(f, np.uint32(3), np.uint32(7))
    check(f, np.uint32(7), np.uint32(3))
    batched = function([tensor(U32, 4), tensor(U32, 4)], lambda a, b: map_over(f, dim(4), [a, b], []))
    check(batched, words(3, 7, 0, 2), words(7, 3, 9, 2))
    one_bound = function([WORD, tensor(U32, 4)], lambda a, b: map_over(_swapped(f), dim(4), [b], [a]))
    check(one_bound, np.uint32(2), words(7, 3, 9, 2))


def _swapped(f: Function) -> Function:
    return function([WORD, WORD], lambda b, a: call(f, [a, b]))


def test_a_carry_becomes_batched_in_the_body() -> None:
    body = function([WORD, tensor(U32, 3), WORD], lambda i, w, x: op("update", w, i, add(x, i)))
    inner = function([WORD], lambda x: fold(body, word(0), word(3), [zero_words(3)], [x]))
    f = function([tensor(U32, 4)], lambda xs: map_over(inner, dim(4), [xs], []))
    check(f, words(10, 20, 30, 40))


def test_if_with_a_condition_for_all_and_for_each() -> None:
    then = function([WORD, WORD], lambda x, y: make_tuple([add(x, y), x]))
    otherwise = function([WORD, WORD], lambda x, y: make_tuple([y, op("mul", x, y)]))
    f = function([WORD, WORD, FLAG], lambda x, y, c: choose(c, then, otherwise, [x, y]))
    for condition in (True, False):
        check(f, np.uint32(3), np.uint32(5), np.bool_(condition))
    batched = function([tensor(U32, 3), WORD], lambda xs, y: map_over(_below(f), dim(3), [xs], [y]))
    check(batched, words(3, 5, 9), np.uint32(5))
    shared = function([tensor(U32, 3), WORD, FLAG], lambda xs, y, c: map_over(f, dim(3), [xs], [y, c]))
    check(shared, words(3, 5, 9), np.uint32(5), np.bool_(True))


def _below(f: Function) -> Function:
    return function([WORD, WORD], lambda x, y: call(f, [x, y, lt(x, y)]))


def test_the_same_call_twice_is_one_program_and_other_dimensions_another() -> None:
    big = _chain(60)
    f = function(
        [tensor(U32, N)], lambda x: make_tuple([call(big, [x], [N]), call(big, [call(big, [x], [N])], [N])]), 1
    )
    world = World()
    prepare(f, [4], world=world)
    assert len(world.programs) == 2
    prepare(f, [5], world=world)
    assert len(world.programs) == 4


def _chain(length: int) -> Function:
    def make(x: Node) -> Node:
        for _ in range(length):
            x = add(x, x)
        return x

    return function([tensor(U32, N)], make, 1)


def test_a_program_with_batch_axes_of_its_own() -> None:
    f = function([tensor(U32, 2), WORD], lambda x, y: op("update", x, word(1), y))
    program = prepare(f, lead=1)
    x = np.arange(6, dtype=np.uint32).reshape(3, 2)
    assert program(x, words(7, 8, 9)).tolist() == [[0, 7], [2, 8], [4, 9]]
    assert program(x[:1], words(7, 8, 9)).tolist() == [[0, 7], [0, 8], [0, 9]]


def test_effects_are_refused() -> None:
    f = function([Token("clock")], lambda token: token, effects=("clock",))
    with pytest.raises(BitternError, match="clock") as caught:
        prepare(f)
    assert caught.value.code == "R130"


# --- constants


def test_everything_known_leaves_no_step() -> None:
    f = function([WORD], lambda limit: item(call(collatz(), [word(27), limit]), 1))
    assert prepare(f, constants={0: np.asarray(np.uint32(1000))}).steps == 0
    assert int(prepare(f, constants={0: np.asarray(np.uint32(1000))})()) == int(evaluate(f, [np.uint32(1000)]))


def test_constants_are_read_where_they_lie() -> None:
    data = np.arange(5, dtype="<u4").tobytes()
    f = function([WORD], lambda i: op("take", const_blob(blob(data), tensor(U32, 5)), i, type_=WORD))
    assert int(evaluate(f, [np.uint32(3)])) == 3
    whole = function([], lambda: const_blob(blob(data), tensor(U32, 5)))
    result = evaluate(whole, [])
    assert np.shares_memory(result, np.frombuffer(data, np.uint8)) and not result.flags.writeable


def decoder(rows: int = 4) -> tuple[Function, Function]:
    """A matrix of bytes, decoded by a callee for each row, times a vector."""
    decode = function([tensor(U8, N)], lambda r: op("convert", r, type_=tensor(F32, N), to=F32), 1)

    def product(row: Node, x: Node) -> Node:
        return op("dot", call(decode, [row], [N]), x, type_=tensor(F32), to=F32)

    body = function([tensor(U8, N), tensor(F32, N)], product, 1)
    f = function([tensor(U8, rows, N), tensor(F32, N)], lambda w, x: map_over(body, dim(rows), [w], [x]), 1)
    return f, decode


def test_weights_are_decoded_once_also_inside_a_callee() -> None:
    linear, decode = decoder()
    f = function(
        [tensor(U8, 4, N), tensor(F32, 2, N)],
        lambda w, xs: map_over(
            function([tensor(F32, N), tensor(U8, 4, N)], lambda x, w: call(linear, [w, x], [N]), 1), dim(2), [xs], [w]
        ),
        1,
    )
    w, x = np.arange(24, dtype=np.uint8).reshape(4, 6), np.ones((2, 6), np.float32)
    calls = []

    def watched(site: CallSite) -> Any:
        def run(row: np.ndarray) -> np.ndarray:
            calls.append(row.shape)
            return row.astype(np.float32)

        return run

    program = prepare(f, [6], constants={0: w}, kernels={decode.id: watched})
    assert len(calls) == 1 and calls[0][-1] == 6
    same(program(x), check(f, w, x, dims=[6]))
    program(x)
    assert len(calls) == 1


def test_a_world_folds_once_for_several_dimensions() -> None:
    decode = function([tensor(U8, 6)], lambda r: op("convert", r, type_=tensor(F32, 6), to=F32))
    body = function([tensor(F32, 6), tensor(F32, 6)], add)
    f = function([tensor(U8, 6), tensor(F32, N, 6)], lambda w, x: map_over(body, N, [x], [call(decode, [w])]), 1)
    runs = []

    def watched(site: CallSite) -> Any:
        runs.append(site.dims)
        return lambda row: row.astype(np.float32)

    world, w = World(kernels={decode.id: watched}), np.arange(6, dtype=np.uint8)
    one = prepare(f, [1], constants={0: w}, world=world)
    many = prepare(f, [5], constants={0: w}, world=world)
    assert len(runs) == 1
    assert one(np.zeros((1, 6), np.float32)).shape == (1, 6) and many(np.zeros((5, 6), np.float32)).shape == (5, 6)
    other = prepare(f, [1], constants={0: w + np.uint8(1)}, world=world)
    assert other(np.zeros((1, 6), np.float32))[0, 0] == 1


def test_an_outer_product_of_constants_stays_a_step() -> None:
    n = 6000

    def make() -> Node:
        i = op("iota", type_=tensor(U32, n), count=dim(n))
        square = op("broadcast", i, type_=tensor(U32, n, n), shape=(dim(n),))
        return op("sum", op("add", square, square), type_=tensor(U32, n))

    assert prepare(function([], make)).steps >= 1
    assert (
        prepare(function([], lambda: op("sum", op("iota", type_=tensor(U32, n), count=dim(n)), type_=WORD))).steps == 0
    )


# --- calls, kernels, ideal


def test_a_kernel_takes_the_place_of_its_function_also_at_the_top() -> None:
    f = function([tensor(U32, N), WORD], lambda x, y: add(x, op("broadcast", y, type_=x.type, shape=(N,))), 1)
    seen: list[CallSite] = []

    def kernel(site: CallSite) -> Any:
        seen.append(site)
        return lambda x, y: x + np.asarray(y)[..., None]

    check(f, words(1, 2), np.uint32(3), dims=[2], kernels={f.id: kernel})
    outer = function([tensor(U32, 3, N), WORD], lambda xs, y: map_over(_body(f), dim(3), [xs], [y]), 1)
    y = np.asarray(np.uint32(9))
    program = prepare(outer, [4], kernels={f.id: kernel}, constants={1: y})
    x = np.arange(12, dtype=np.uint32).reshape(3, 4)
    same(program(x), interpret(outer, [x, y], (4,)))
    assert (seen[-1].dims, seen[-1].lead, seen[-1].constants[0]) == ((4,), 1, None)
    known = seen[-1].constants[1]
    assert known is not None and known.shape == (1,) and int(known[0]) == 9


def _body(f: Function) -> Function:
    return function([tensor(U32, N), WORD], lambda x, y: call(f, [x, y], [N]), 1)


def test_a_kernel_that_declines_leaves_the_definition() -> None:
    f = _chain(3)
    check(f, words(1, 2), dims=[2], kernels={f.id: lambda site: None})


def test_ideal_bodies_and_floats() -> None:
    real = function([tensor(F32, 2)], lambda x: op("exp", x))
    f = function([tensor(F32, 2)], lambda x: x, ideal=real)
    g = function(
        [tensor(F32, 2), tensor(F16, 2)], lambda x, y: add(call(f, [x]), op("convert", y, type_=x.type, to=F32))
    )
    x, y = np.array([0.1, 1], np.float32), np.array([0.5, 2], np.float16)
    same(evaluate(g, [x, y]), x + y.astype(np.float32))
    same(evaluate(g, [x, y], ideal=True), np.exp(x.astype(np.float64)) + y)
    same(evaluate(f, [x], ideal=True), np.exp(x.astype(np.float64)))
    same(
        evaluate(function([], lambda: const([0.1, 2], F32)), [], ideal=True),
        np.array([0.1, 2], np.float32).astype(np.float64),
    )
    halves = const(np.array([0x3F80, 0xC000], np.uint16), BF16)
    same(evaluate(function([], lambda: halves), [], ideal=True), np.array([1.0, -2.0]))


def test_reals_in_the_place_of_integers() -> None:
    real = function([tensor(F32, 2)], lambda x: x)
    f = function([tensor(F32, 2)], lambda x: op("round", x, type_=tensor(I8, 2), to=I8), ideal=real)
    store = function([[tensor(I8, 3, 2)], tensor(F32, 2)], lambda cache, x: op("update", cache, word(1), call(f, [x])))
    result = evaluate(store, [np.ones((3, 2), np.int8), np.array([0.25, 7.5], np.float32)], ideal=True)
    same(result, np.array([[1, 1], [0.25, 7.5], [1, 1]]))
    assert zeros(store, 0, [], ideal=True).dtype == np.int8 and zeros(function([F64_PAIR], _id), 0, []).shape == (2,)


F64_PAIR = tensor(F64, 2)


def _id(x: Node) -> Node:
    return x


def test_format_tensors_are_bytes() -> None:
    q = FORMATS["q4_0"]
    f = function(
        [tensor(q, 2, 64), WORD],
        lambda w, i: op("take", op("blocks", w, type_=tensor(U8, 2, 2, 18)), i, type_=tensor(U8, 2, 18)),
    )
    w = np.arange(72, dtype=np.uint8).reshape(2, 2, 18)
    same(check(f, w, np.uint32(1)), w[1])
    assert zeros(f, 0, []).shape == (2, 2, 18)


def test_sizes_that_an_op_refuses() -> None:
    """A slice whose symbolic bounds pass the end of its array is refused when the sizes are known, not clamped."""
    from bittern.base.errors import BitternError
    from bittern.graph.node import Function, Parameter, node, param
    from bittern.types.dims import symbol
    from bittern.types.elements import F32
    from bittern.types.values import tensor

    given = tensor(F32, symbol(0))
    attributes = {"axis": 0, "low": symbol(0) * 0, "high": symbol(1), "stride": 1}
    cut = node("slice", [param(0, given)], attributes, tensor(F32, symbol(1)))
    function = Function(2, (Parameter(given),), cut)
    assert evaluate(function, [np.arange(4, dtype=np.float32)], (4, 3)).tolist() == [0, 1, 2]
    with pytest.raises(BitternError) as caught:
        evaluate(function, [np.arange(4, dtype=np.float32)], (4, 5))
    assert caught.value.code == "R132" and "0..5" in caught.value.what
