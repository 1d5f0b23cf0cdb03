"""Chains of two sources: residual sums and tables of all pairs."""

from collections.abc import Callable

import numpy as np
import pytest
from network_cases import LIBRARY, Array, float_kinds, norm, real, row, same, windows

from bittern.front.network.assembly import Assembly
from bittern.graph.node import Function, Node
from bittern.passes import pairs
from bittern.passes.integers import need_integers
from bittern.passes.network import Report, integer_only

Draw = Callable[[Assembly, Node, Node], Node]


def two(elements: tuple[str, str], draw: Draw, channels: int = 3) -> Function:
    a = Assembly(LIBRARY)
    x, y = a.input("x", elements[0], (channels,)), a.input("y", elements[1], (channels,))
    return a.network("n", {"r": draw(a, x, y)}).function


def all_pairs(elements: tuple[str, str], channels: int = 3) -> tuple[Array, Array]:
    from bittern.types.elements import ELEMENTS

    values = [np.arange(ELEMENTS[e].low, ELEMENTS[e].high + 1) for e in elements]
    grids = np.meshgrid(*values, indexing="ij")
    made = [
        np.repeat(g.reshape(-1, 1), channels, 1).astype(ELEMENTS[e].storage)
        for g, e in zip(grids, elements, strict=True)
    ]
    return made[0], made[1]


def folded(elements: tuple[str, str], draw: Draw) -> tuple[Function, Report]:
    """Fold and compare all pairs."""
    function = two(elements, draw)
    made, report = integer_only(function, LIBRARY)
    assert same(function, made, *all_pairs(elements))
    if report.folds:
        assert not float_kinds(made)
        need_integers(made)
    return made, report


@pytest.mark.parametrize("kind", ["add", "sub"])
@pytest.mark.parametrize("scales", [(0.1, 0.1), (0.2, 0.1), (0.1, 0.3), (0.25, -0.5)])
@pytest.mark.parametrize("element", ["b1", "t", "u4", "i8"])
def test_residual_sums_of_one_ratio_are_sums(kind: str, scales: tuple[float, float], element: str) -> None:
    def draw(a: Assembly, x: Node, y: Node) -> Node:
        z = a.op(kind, a.scalar("mul", real(a, x), scales[0]), a.scalar("mul", real(a, y), scales[1]))
        z = a.scalar("max", z, 0.0) if element == "u4" else z
        return a.op("sign" if element in ("b1", "t") else "round", a.scalar("mul", z, 2.7), to=element)

    _, report = folded(("i8", "u4"), draw)
    (fold,) = report.folds
    assert " x + " in fold.detail or fold.form == "take"
    assert " and " in fold.source


def test_norms_of_channels_behind_a_sum() -> None:
    def draw(a: Assembly, x: Node, y: Node) -> Node:
        z = a.op("add", a.scalar("mul", real(a, x), 0.5), real(a, y))
        return a.op("round", norm(a, z, 3), to="i3")

    _, report = folded(("i4", "i4"), draw)
    assert report.folds[0].detail == "1 x + 2 y" and report.folds[0].form == "thresholds.levels"


def test_products_and_other_ratios_are_tables() -> None:
    def product(a: Assembly, x: Node, y: Node) -> Node:
        return a.op("round", a.scalar("mul", a.op("mul", real(a, x), real(a, y)), 0.3), to="i8")

    _, report = folded(("i4", "u4"), product)
    assert report.folds[0].form == "take" and "16 x 16" in report.folds[0].detail

    def channels(a: Assembly, x: Node, y: Node) -> Node:
        z = a.op("mul", real(a, x), row(a, np.array([0.311, 0.2, -0.7], np.float32), x))
        return a.op("round", a.op("add", z, a.scalar("mul", real(a, y), 0.777)), to="i8")

    _, report = folded(("i4", "u4"), channels)
    assert report.folds[0].form == "take"


def test_too_many_pairs_stay_with_their_reason() -> None:
    def draw(a: Assembly, x: Node, y: Node) -> Node:
        return a.op("round", a.scalar("mul", a.op("mul", real(a, x), real(a, y)), 1e-3), to="i8")

    function = two(("i16", "i16"), draw)
    made, report = integer_only(function, LIBRARY)
    assert made.id == function.id and "65536 and 65536 values" in report.left[0].reason


def test_three_sources_stay() -> None:
    a = Assembly(LIBRARY)
    x, y, z = (a.input(name, "i4", (3,)) for name in "xyz")
    total = a.op("add", a.op("add", real(a, x), real(a, y)), a.scalar("mul", real(a, z), 0.5))
    _, report = integer_only(a.network("n", {"r": a.op("round", total, to="i4")}).function, LIBRARY)
    assert not report.is_integer and "several arrays" in report.left[0].reason


def test_a_residual_network_is_one_of_whole_numbers() -> None:
    """Two convolutions, a skip of codes around them, a shared quantiser."""
    rng = np.random.default_rng(0)

    def draw(a: Assembly, x: Node) -> Node:
        w = [a.constant(rng.integers(-2, 2, (4, 1, 1, 4)).astype(np.int8), "i2") for _ in range(2)]
        y = a.call("convolution.conv2d", w[0], windows(a, x, 1))
        y = a.op("round", a.scalar("max", norm(a, a.scalar("mul", real(a, y), 0.1), 1), 0.0), to="u4")
        y = a.call("convolution.conv2d", w[1], windows(a, y, 1))
        z = a.op("add", a.scalar("mul", real(a, y), 0.02), a.scalar("mul", real(a, x), 0.1))
        z = a.op("round", a.scalar("div", z, 0.05), to="i8")
        return a.call("dense.dense", a.constant(rng.integers(-8, 8, (5, 4)).astype(np.int8), "i4"), z, lead=3)

    a = Assembly(LIBRARY)
    function = a.network("n", {"r": draw(a, a.input("x", "u4", (3, 3, 4)))}).function
    made, report = integer_only(function, LIBRARY)
    need_integers(made)
    assert len(report.folds) == 2 and not report.left
    assert report.folds[1].detail == "1 x + 5 y"
    x = rng.integers(0, 16, (300, 3, 3, 4)).astype(np.uint8)
    assert same(function, made, x)


def test_wrong_factors_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: the ratio of the scales is turned around. No pair of equal sums then has equal codes."""

    def draw(a: Assembly, x: Node, y: Node) -> Node:
        z = a.op("add", a.scalar("mul", real(a, x), 0.2), a.scalar("mul", real(a, y), 0.1))
        return a.op("round", z, to="i4")

    monkeypatch.setattr(pairs, "_factors", lambda chain, spans: (1, 2))
    _, report = folded(("i4", "u4"), draw)
    assert report.folds[0].form == "take", "every pair is looked at, so the wrong sum is not taken"
