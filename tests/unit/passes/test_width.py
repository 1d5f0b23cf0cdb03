"""Intervals: sound for every input, and exact for the layers whose sums the constants decide."""

import itertools

import numpy as np
import pytest
from network_cases import LIBRARY, Array, network, run, windows

from bittern.front.network.assembly import BATCH, Assembly
from bittern.graph.node import Node, walk
from bittern.passes.network import widths
from bittern.passes.width import Interval, interval, intervals
from bittern.types.elements import ELEMENTS
from bittern.types.values import Tensor

SIGNED = ("i2", "i3", "i4", "i8")


def span_of(element: str, shape: tuple[int, ...], draw: object) -> tuple[Interval, Array]:
    """Return the interval of a network's result, and its results for many inputs, the extremes among them."""
    function = network(element, shape, draw)  # type: ignore[arg-type]
    found = intervals(function)[function.result.id]
    row, rng = ELEMENTS[element], np.random.default_rng(0)
    x = rng.integers(row.low, row.high + 1, (64, *shape))
    x[rng.random(x.shape) < 0.3] = row.low
    x[rng.random(x.shape) < 0.3] = row.high
    if element == "b1":
        x[x == 0] = 1
    return found, run(function, x.astype(row.storage))


@pytest.mark.parametrize("element", ["b1", "t", "u2", "i4", "u8", "i8"])
def test_the_interval_of_a_dense_layer_is_reached(element: str) -> None:
    """Edge case B13: the width of an accumulator is that of its actual weights, and told."""
    rng = np.random.default_rng(1)
    w = rng.integers(-3, 4, (5, 7)).astype(np.int8)
    function = network(element, (7,), lambda a, x: a.call("dense.dense", a.constant(w, "i4"), x))
    found = intervals(function)[function.result.id]
    row = ELEMENTS[element]
    low, high = np.full(7, row.low), np.full(7, row.high)
    extremes = [np.where(w[k] > 0, a, b) for k in range(5) for a, b in ((low, high), (high, low))]
    y = run(function, np.array(extremes).astype(row.storage))
    assert np.array_equal(found.low, y.min(0)) and np.array_equal(found.high, y.max(0))
    assert found.bits == max(int(abs(v)).bit_length() for v in (*y.min(0), *y.max(0))) + 1


def test_padding_is_part_of_a_convolution() -> None:
    w = np.ones((2, 3, 3, 1), np.int8)

    def draw(a: Assembly, x: Node) -> Node:
        for axis in (1, 2):
            x = a.op("pad", x, a.constant(-3, "i4"), axis=axis, before=1, after=1)
        return a.call("convolution.conv2d", a.constant(w, "i2"), windows(a, x, 3))

    function = network("u3", (4, 4, 1), lambda a, x: draw(a, a.op("convert", x, to="i4")))
    found = intervals(function)[function.result.id]
    assert (found.least, found.most) == (-27, 63)


@pytest.mark.parametrize("name", ["depthwise2d", "conv2d", "conv2d_grouped", "local2d"])
def test_convolutions_are_sound(name: str) -> None:
    rng = np.random.default_rng(2)
    shapes = {"depthwise2d": (2, 2, 4), "conv2d": (3, 2, 2, 4), "conv2d_grouped": (2, 3, 2, 2, 2)}
    shape = shapes.get(name, (3, 3, 3, 2, 2, 4))
    w = rng.integers(-8, 8, shape).astype(np.int8)

    def draw(a: Assembly, x: Node) -> Node:
        view = windows(a, x, 2)
        if name == "conv2d_grouped":
            assert isinstance(view.type, Tensor)
            view = a.op("reshape", view, shape=(*view.type.shape[:-1], 2, 2))
        return a.call(f"convolution.{name}", a.constant(w, "i4"), view)

    found, y = span_of("i4", (4, 4, 4), draw)
    assert found.covers(y) and found.least < y.min() // 3 and found.most > y.max() // 3


def test_channels_tell_themselves_apart_through_shapes_and_pools() -> None:
    a = Assembly(LIBRARY)
    x = a.input("x", "u4", (4, 4, 2))
    y = a.op("mul", a.op("convert", x, to="i32"), a.spread(a.constant([3, -5], "i32"), x))
    pooled = a.call("pooling.max_pool2d", windows(a, y, 2, 2))
    total = a.call("pooling.sum_pool2d", windows(a, pooled, 2, 1))
    joined = a.op("concat", total, total, axis=3)
    known = intervals(a.network("n", {"y": joined}).function)
    assert known[pooled.id].low.tolist() == [0, -75] and known[pooled.id].high.tolist() == [45, 0]
    assert known[total.id].low.tolist() == [0, -300]
    assert known[joined.id].high.tolist() == [180, 0, 180, 0]


@pytest.mark.parametrize("kind", ["add", "sub", "mul", "min", "max"])
def test_ops_are_sound_for_all_values(kind: str) -> None:
    spans = [(-8, 7), (0, 7), (-3, -1), (2, 2)]
    for left, right in itertools.product(spans, spans):

        def draw(a: Assembly, x: Node, y: Node) -> Node:
            return a.op(kind, a.op("convert", x, to="i32"), a.op("convert", y, to="i32"))

        a = Assembly(LIBRARY)
        x, y = a.input("x", "i4", (1,)), a.input("y", "i4", (1,))
        function = a.network("n", {"r": draw(a, x, y)}).function
        found = intervals(function, {0: interval(*left), 1: interval(*right)})[function.result.id]
        pairs = np.array(list(itertools.product(range(left[0], left[1] + 1), range(right[0], right[1] + 1))), np.int8)
        made = run(function, pairs[:, :1], pairs[:, 1:])
        assert (found.least, found.most) == (made.min(), made.max()), (kind, left, right)


def test_what_wraps_has_the_interval_of_its_element() -> None:
    found, y = span_of("i8", (3,), lambda a, x: a.op("add", x, x))
    assert (found.least, found.most) == (-128, 127) and found.covers(y)
    found, y = span_of("i8", (3,), lambda a, x: a.op("abs", x))
    assert found.covers(y) and found.least == -128, "abs(-128) = -128"


def test_a_wrong_interval_is_caught() -> None:
    found, y = span_of("i8", (3,), lambda a, x: a.op("neg", a.op("convert", x, to="i16")))
    assert found.covers(y) and (found.least, found.most) == (-127, 128)
    assert not interval(-128, 127).covers(y), "the interval of the operand is not that of the result"
    assert not interval([-127, -127, -126], 128).covers(y)


def test_widths_are_told_for_every_layer() -> None:
    w = np.array([[1, -1, 1, 1], [1, 1, 1, 1]], np.int8)

    def draw(a: Assembly, x: Node) -> Node:
        y = a.call("dense.dense", a.label(a.constant(w, "b1"), "w"), x)
        return a.call("requantise.bias", a.label(y, "fc"), a.constant([7, 0], "i32"), mapped=(True, False))

    first, second = widths(network("u2", (4,), draw))
    assert (first.layer, first.function, first.low, first.high, first.bits) == ("fc", "dense.dense", -3, 12, 5)
    assert (second.low, second.high) == (0, 16)


def test_bits_hold_both_ends() -> None:
    for low, high in itertools.product(range(-20, 1), range(20)):
        bits = interval(low, high).bits
        if low >= 0:
            assert high < 1 << bits and (bits == 1 or high >= 1 << (bits - 1))
        else:
            assert -(1 << (bits - 1)) <= low and high < 1 << (bits - 1)
            assert bits == 1 or low < -(1 << (bits - 2)) or high >= 1 << (bits - 2)


def test_every_node_of_a_small_network_is_covered() -> None:
    """Compare the interval of every whole-number node with what it really is."""
    rng = np.random.default_rng(4)
    w = rng.integers(-2, 2, (6, 9)).astype(np.int8)

    def draw(a: Assembly, x: Node) -> Node:
        y = a.call("dense.dense", a.constant(w, "i2"), x)
        y = a.op("shl", y, a.spread(a.constant(2, "u32"), y))
        y = a.op("select", a.op("lt", y, a.op("neg", y)), a.scalar("add", y, 5), a.scalar("max", y, 3))
        return a.op("sat", a.op("shr", y, a.spread(a.constant(1, "u32"), y)), to="i4")

    function = network("i4", (9,), draw)
    x = rng.integers(-8, 8, (500, 9)).astype(np.int8)
    known = intervals(function)
    for each in walk(function.result):
        if each.id in known and isinstance(each.type, Tensor) and each.type.shape[:1] == (BATCH,):
            part = type(function)(1, function.params, each)
            assert known[each.id].covers(run(part, x)), each
