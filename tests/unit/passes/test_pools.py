"""Max-pools beside chains: where they may stand, and that the order is kept where they may not."""

from collections.abc import Callable

import numpy as np
import pytest
from network_cases import LIBRARY, Array, float_kinds, folded, network, norm, real, row, run, windows

from bittern.front.network.assembly import Assembly
from bittern.graph.node import Function, Node, walk
from bittern.passes import pools
from bittern.passes.applied import applied
from bittern.passes.network import Report, integer_only
from bittern.passes.pools import pool_of
from bittern.types.values import Tensor

Step = Callable[[Assembly, Node], Node]
SHAPE = (6, 6, 3)


def images(count: int = 300) -> Array:
    return np.random.default_rng(0).integers(-128, 128, (count, *SHAPE)).astype(np.int8)


def pool(a: Assembly, x: Node, padding: float | None = None) -> Node:
    """Return a max-pool of 2 x 2, padded in front and behind."""
    assert isinstance(x.type, Tensor)
    if padding is not None:
        for axis in (1, 2):
            x = a.op("pad", x, a.constant(padding, x.type.element.name), axis=axis, before=1, after=1)
    return a.call("pooling.max_pool2d", windows(a, x, 2, 2))


def made_of(draw: Step) -> tuple[Function, Report]:
    return folded(network("i8", SHAPE, draw), images())


def pooled_element(function: Function) -> list[str]:
    """Return the elements of the pools of a function, in order."""
    found = [applied(each) for each in walk(function.result)]
    types = [layer.arguments[0].type for layer in found if layer is not None and layer.name in pools.POOLS]
    return [t.element.name for t in types if isinstance(t, Tensor)]


@pytest.mark.parametrize("padding", [None, -np.inf, -3.0])
@pytest.mark.parametrize("element", ["b1", "t", "u2", "i8"])
def test_a_pool_goes_behind_a_rising_quantiser(element: str, padding: float | None) -> None:
    """The norm in front of the pool rises in some channels and falls in others: that does not matter."""

    def draw(a: Assembly, x: Node) -> Node:
        y = pool(a, norm(a, a.scalar("mul", real(a, x), 0.03), seed=3), padding)
        y = norm(a, y, seed=4, rises=True) if padding != -3.0 else a.scalar("add", y, 0.3)
        return a.op("sign" if element in ("b1", "t") else "round", a.scalar("mul", y, 1.5), to=element)

    made, report = made_of(draw)
    (fold,) = report.folds
    assert report.is_integer and not float_kinds(made)
    assert fold.pool == "behind the codes" and pooled_element(made) == [element]


@pytest.mark.parametrize("padding", [None, -np.inf])
def test_a_pool_goes_in_front_where_what_follows_falls(padding: float | None) -> None:
    def draw(a: Assembly, x: Node) -> Node:
        y = pool(a, a.scalar("mul", real(a, x), 0.03), padding)
        y = a.op("mul", y, row(a, np.array([1.0, -1.0, -2.0], np.float32), y))
        return a.op("round", y, to="i3")

    made, report = made_of(draw)
    assert report.folds[0].pool.startswith("in front") and pooled_element(made) == ["i8"]
    assert not float_kinds(made)


def test_a_pool_of_accumulators_goes_behind_codes_if_they_rise() -> None:
    def draw(a: Assembly, x: Node, gain: float = 1.0) -> Node:
        w = a.constant(np.array([[[[3, 1, 0]]], [[[2, -1, 1]]], [[[0, 0, 2]]]], np.int8), "i4")
        y = pool(a, a.call("convolution.conv2d", w, windows(a, x, 1)))
        y = a.op("mul", real(a, y), row(a, np.array([0.01, gain * 0.02, 0.03], np.float32), y))
        return a.op("round", y, to="u2")

    made, report = made_of(draw)
    assert report.folds[0].pool == "behind the codes" and pooled_element(made) == ["u2"]
    made, report = made_of(lambda a, x: draw(a, x, -1.0))
    assert report.folds[0].pool == "" and pooled_element(made) == ["i32"], "the order is kept where a channel falls"
    assert not float_kinds(made)


def test_the_order_stays_where_nothing_rises() -> None:
    """In front of the pool a square, behind it a falling quantiser: no order but the written one is right."""

    def draw(a: Assembly, x: Node) -> Node:
        y = a.scalar("mul", real(a, x), 0.03)
        y = pool(a, a.op("mul", y, y))
        return a.op("round", a.op("neg", y), to="i4")

    function = network("i8", SHAPE, draw)
    made, report = integer_only(function, LIBRARY)
    assert made.id == function.id and "turns back at a pool" in report.left[0].reason


def test_padding_above_the_least_value_keeps_a_pool_from_the_accumulator() -> None:
    """Padding with 0 is not below every value: in front, the least accumulator would be wrong."""

    def draw(a: Assembly, x: Node) -> Node:
        y = pool(a, a.scalar("mul", real(a, x), 0.03), 0.0)
        return a.op("round", a.op("neg", y), to="i4")

    function = network("i8", SHAPE, draw)
    made, report = integer_only(function, LIBRARY)
    assert made.id == function.id and not report.folds


def test_a_value_that_is_no_number_keeps_the_order() -> None:
    def draw(a: Assembly, x: Node) -> Node:
        y = a.scalar("div", real(a, x), 0.0)
        return a.op("round", pool(a, y), to="i4")

    _, report = integer_only(network("i8", SHAPE, draw), LIBRARY)
    assert "no number" in report.left[0].reason


def test_pools_can_be_left_where_they_are() -> None:
    def draw(a: Assembly, x: Node) -> Node:
        return a.op("round", pool(a, a.scalar("mul", real(a, x), 0.03)), to="i4")

    function = network("i8", SHAPE, draw)
    made, report = folded(function, images(), without=("pools",))
    assert made.id == function.id and not report.is_integer and report.without == ("pools",)


def test_a_pool_moved_without_looking_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: every chain is said to rise."""

    def draw(a: Assembly, x: Node) -> Node:
        y = pool(a, norm(a, a.scalar("mul", real(a, x), 0.03), seed=3))
        return a.op("round", a.op("neg", y), to="i4")

    monkeypatch.setattr(pools, "_order", lambda values, codes: (True, True))
    function = network("i8", SHAPE, draw)
    made, report = integer_only(function, LIBRARY)
    assert report.folds and run(function, images()).tobytes() != run(made, images()).tobytes()


def test_what_a_pool_looks_at_is_found() -> None:
    a = Assembly(LIBRARY)
    x = a.input("x", "i8", SHAPE)
    end = pool(a, x, -128)
    found = pool_of(end)
    assert found is not None and found.inside is x and [int(p) for p in found.padding] == [-128, -128]
    assert pool_of(x) is None and pool_of(a.call("pooling.sum_pool2d", windows(a, x, 2, 2))) is None
