"""Rising and falling: told from operations, and right for every value; a chain in its one form."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from network_cases import LIBRARY, all_values, network, norm, real, row, run

from bittern.front.network.assembly import Assembly
from bittern.graph.node import Function, Node
from bittern.passes.chains import BlockedError, Chain, chain_to
from bittern.passes.rise import directions
from bittern.passes.width import Interval
from bittern.types.values import Tensor

STEPS = (
    "add",
    "mul",
    "div",
    "neg",
    "max",
    "min",
    "floor",
    "trunc",
    "round_even",
    "relu",
    "leaky",
    "step",
    "half_away",
    "add_self",
)


def step(a: Assembly, y: Node, kind: str, number: float) -> Node:
    """Return one operation of a random chain."""
    assert isinstance(y.type, Tensor)
    if kind in ("add", "mul", "div", "max", "min"):
        values = np.array([number, -number, number * 0.5, 0.0 if kind == "mul" else number], np.float32)
        return a.op(kind, y, row(a, values, y))
    if kind in ("neg", "floor", "trunc", "round_even"):
        return a.op(kind, y)
    if kind == "add_self":
        return a.op("add", y, a.scalar("mul", y, abs(number)))
    if kind == "half_away":
        return a.call("rounding.round_half_away", y, lead=len(y.type.shape))
    slope = {"relu": 0.0, "leaky": 0.25, "step": -1.0}[kind]
    other = row(a, number, y) if kind == "step" else a.scalar("mul", y, slope)
    return a.op("select", a.op("lt", y, row(a, 0.0, y)), other, y)


def chain_of(function: Function) -> Chain:
    return chain_to(function.result, lambda each: False, 4)


def limits(low: int, high: int) -> Interval:
    return Interval(np.full(4, low), np.full(4, high))


@settings(max_examples=150, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(STEPS), min_size=1, max_size=5),
    numbers=st.lists(st.sampled_from([0.25, 1.5, -2.0, 3.0, 0.0, 100.0]), min_size=5, max_size=5),
)
def test_what_is_said_to_rise_or_fall_does(kinds: list[str], numbers: list[float]) -> None:
    def draw(a: Assembly, x: Node) -> Node:
        y = a.scalar("mul", real(a, x), 0.25)
        for kind, number in zip(kinds, numbers, strict=False):
            y = step(a, y, kind, number)
        return a.op("round", y, to="i32")

    function = network("i8", (4,), draw)
    x = all_values("i8", 4)
    codes = run(function, x).astype(np.int64)
    try:
        signs = directions(chain_of(function), limits(-128, 127))
    except BlockedError:
        return
    change = np.diff(codes, axis=0)
    assert (change * np.where(signs == 0, 1, signs) >= 0).all(), (signs, kinds)
    assert (change[:, signs == 0] == 0).all(), (signs, kinds)


@pytest.mark.parametrize("kind", ["leaky", "relu", "half_away", "add_self", "max"])
def test_usual_chains_are_told(kind: str) -> None:
    def draw(a: Assembly, x: Node) -> Node:
        return a.op("round", step(a, norm(a, a.scalar("mul", real(a, x), 0.1), 3), kind, 0.5), to="i8")

    function = network("i8", (4,), draw)
    signs = directions(chain_of(function), limits(-128, 127))
    gains = np.random.default_rng(3).standard_normal(4)
    assert np.array_equal(signs, np.sign(gains))


def test_what_turns_back_is_not_said_to_rise() -> None:
    cases = {
        "abs": lambda a, y: a.op("abs", y),
        "product": lambda a, y: a.op("mul", y, y),
        "by zero": lambda a, y: a.op("div", row(a, 1.0, y), y),
        "choice": lambda a, y: step(a, y, "step", 5.0),
        "infinite": lambda a, y: a.scalar("div", y, 0.0),
        "wraps": lambda a, y: a.op("convert", a.op("wrap", a.op("round", y, to="i32"), to="i4"), to="f32"),
        "even": lambda a, y: a.op("convert", a.op("eq", y, a.op("floor", y)), to="f32"),
    }
    for name, draw in cases.items():
        function = network("i8", (4,), lambda a, x, d=draw: a.op("round", d(a, real(a, x)), to="i8"))  # type: ignore[misc]
        with pytest.raises(BlockedError):
            directions(chain_of(function), limits(-128, 127))
            pytest.fail(name)


def test_ends_decide_what_may_wrap() -> None:
    """A sum that wraps in the whole range and not in a part of it."""
    function = network("i8", (4,), lambda a, x: a.op("round", real(a, a.op("add", x, x)), to="i8"))
    assert (directions(chain_of(function), limits(-64, 63)) == 1).all()
    with pytest.raises(BlockedError, match="wraps"):
        directions(chain_of(function), limits(-65, 63))


# --- the form of a chain


def test_graphs_that_compute_alike_have_one_form() -> None:
    """Whole arrays, maps over positions, and maps over every number: the same chain."""

    def whole(a: Assembly, x: Node) -> Node:
        return a.op("max", real(a, x), row(a, 0.0, real(a, x)))

    def mapped(a: Assembly, x: Node, lead: int) -> Node:
        return a.call("piecewise.relu", real(a, x), lead=lead)

    forms = {chain_of_one(whole).form.id, chain_of_one(lambda a, x: mapped(a, x, 3)).form.id}
    assert len(forms) == 1


def chain_of_one(draw: object) -> Chain:
    function = network("i8", (2, 4), draw)  # type: ignore[arg-type]
    return chain_to(function.result, lambda each: False)


def test_constants_of_channels_make_columns() -> None:
    a = Assembly(LIBRARY)
    x = a.input("x", "i8", (2, 4))
    same = a.op("mul", real(a, x), row(a, np.full(4, 0.5, np.float32), x))
    other = a.op("mul", real(a, x), row(a, np.arange(4, dtype=np.float32), x))
    assert chain_to(same, lambda each: False).channels == 1
    chain = chain_to(other, lambda each: False)
    assert chain.channels == 4 and chain.source is x and chain.kinds == ("convert", "mul")
    values = np.arange(-3, 3, dtype=np.int8)[:, None]
    assert np.array_equal(chain.values(np.repeat(values, 4, 1)), values * np.arange(4, dtype=np.float32))
