"""Windows are found behind the nodes that cut them."""

import numpy as np
import pytest

from bittern.front.network.assembly import Assembly
from bittern.graph.node import Function, Node
from bittern.lang.library import Library
from bittern.plan.flow import flow_of
from bittern.plan.rules import KNOWN
from bittern.plan.rules.windows import Windowed, windows_of
from bittern.plan.scene import Scene

LIBRARY = Library.standard()


def found(a: Assembly, results: dict[str, Node], dropped: frozenset[str] = frozenset()) -> list[Windowed | None]:
    """Return the windows that the functions of a network see, in order."""
    function: Function = a.network("n", results).function
    flow = flow_of(function, KNOWN, {0: 2})
    scene = Scene(flow, 2, LIBRARY, dropped)
    return [windows_of(apply, scene) for apply in flow.applies if apply.name.startswith(("convolution.", "pooling."))]


def cut(a: Assembly, x: Node, size: int, stride: int, dilation: int) -> Node:
    """Cut windows of rows, then of columns, 2 places wide."""
    rows = a.op("windows", x, axis=1, size=size, stride=stride, dilation=dilation)
    return a.op("windows", rows, axis=3, size=2, stride=1, dilation=1)


def padded(a: Assembly, x: Node, value: int, before: int, after: int) -> Node:
    """Pad the rows."""
    return a.op("pad", x, a.constant(value, "i8"), axis=1, before=before, after=after)


def test_strides_dilations_and_paddings_are_told() -> None:
    a = Assembly(LIBRARY)
    x = a.input("x", "i8", (9, 8, 3))
    seen = cut(a, padded(a, padded(a, x, 5, 1, 0), 5, 1, 2), 3, 2, 2)
    made = a.call("convolution.conv2d", a.constant(np.ones((4, 3, 2, 3), np.int8), "i8"), seen)
    (one,) = found(a, {"y": made})
    assert one is not None and one.source.source == "input" and one.lead == 1
    assert (one.sizes, one.windows, one.strides, one.dilations) == ((9, 8), (3, 2), (2, 1), (2, 1))
    assert (one.before, one.after, one.padding, one.counts, one.inner) == ((2, 0), (2, 0), 5, (5, 7), (3,))
    assert one.is_padded and one.channels == 3
    assert [apply.name for apply in one.covers] == ["pad", "pad", "windows", "windows"]


@pytest.mark.parametrize("order", [False, True])
def test_the_order_of_the_nodes_does_not_matter(order: bool) -> None:
    a = Assembly(LIBRARY)
    x = a.input("x", "i8", (5, 6, 3))
    if order:
        columns = a.op("windows", x, axis=2, size=2, stride=1, dilation=1)
        seen = a.op("windows", padded(a, columns, 0, 1, 1), axis=1, size=3, stride=1, dilation=1)
    else:
        seen = cut(a, padded(a, x, 0, 1, 1), 3, 1, 1)
    (one,) = found(a, {"y": a.call("pooling.max_pool2d", seen)})
    assert one is not None and (one.before, one.counts, one.padding) == ((1, 0), (5, 5), 0)


def test_what_others_read_too_is_seen_but_not_covered() -> None:
    a = Assembly(LIBRARY)
    x = padded(a, a.input("x", "i8", (5, 6, 3)), 0, 1, 1)
    (one,) = found(a, {"y": a.call("pooling.max_pool2d", cut(a, x, 3, 1, 1)), "x": x})
    assert one is not None and one.source.source == "input"
    assert [apply.name for apply in one.covers] == ["windows", "windows"]


def test_a_reshape_cuts_windows_of_one() -> None:
    a = Assembly(LIBRARY)
    x = a.input("x", "i8", (5, 6, 3))
    seen = a.op("reshape", x, shape=(x.type.shape[0], 5, 1, 6, 1, 3))  # type: ignore[union-attr]
    (one,) = found(a, {"y": a.call("pooling.max_pool2d", seen)})
    assert one is not None and (one.windows, one.counts) == ((1, 1), (5, 6))


def test_what_is_no_window_is_not_told() -> None:
    a = Assembly(LIBRARY)
    x = a.input("x", "i8", (5, 2, 6, 2, 3))
    assert found(a, {"y": a.call("pooling.max_pool2d", x)}) == [None]
    a = Assembly(LIBRARY)
    seen = cut(a, padded(a, padded(a, a.input("x", "i8", (5, 6, 3)), 1, 1, 0), 2, 1, 0), 3, 1, 1)
    (one,) = found(a, {"y": a.call("pooling.max_pool2d", seen)})
    assert one is not None and (one.padding, one.sizes, one.source.source) == (2, (6, 6), "made")  # two values outside
    a = Assembly(LIBRARY)
    seen = cut(a, padded(a, a.input("x", "i8", (5, 6, 3)), 1, 1, 0), 3, 1, 1)
    (one,) = found(a, {"y": a.call("pooling.max_pool2d", seen)}, frozenset({"numbers"}))
    assert one is not None and not one.is_padded  # the value outside is not told, so the padding is no part of it
