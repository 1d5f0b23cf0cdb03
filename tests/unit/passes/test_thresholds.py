"""Chains that become thresholds, one rounding or a table: equal at every value, and refused where they cannot be."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from network_cases import (
    LIBRARY,
    Array,
    all_values,
    float_kinds,
    folded,
    kinds,
    network,
    norm,
    real,
    row,
    run,
    same,
)

from bittern.base.errors import BitternError
from bittern.front.network.assembly import Assembly
from bittern.graph.node import Function, Node, const, walk
from bittern.passes import forms, stairs
from bittern.passes.network import STEPS, Report, integer_only
from bittern.passes.rewriting import map_graph
from bittern.passes.stairs import EVERY, HALVED
from bittern.passes.width import Interval
from bittern.types.elements import ELEMENTS
from bittern.types.values import Tensor

Step = Callable[[Assembly, Node], Node]


def all_of(element: str, draw: Step, channels: int = 4) -> tuple[Function, Report]:
    """Fold a network of one chain and compare it at every value of its source in every channel."""
    function = network(element, (channels,), draw)
    made, report = folded(function, all_values(element, channels))
    assert not float_kinds(made) and report.is_integer, report.lines()
    assert [each.form for each in report.folds] == [report.folds[0].form] and not report.left
    return made, report


def codes(kind: str, element: str) -> Step:
    """Return a quantiser: `round` by an op, or `rounding.NAME` of numbers first."""

    def draw(a: Assembly, y: Node) -> Node:
        if kind in ("round_even", "floor", "ceil", "trunc"):
            y = a.op(kind, y)
        elif kind != "op":
            assert isinstance(y.type, Tensor)
            y = a.call(f"rounding.{kind}", y, lead=len(y.type.shape))
        return a.op("sign" if element in ("b1", "t") else "round", y, to=element)

    return draw


MODES = (
    *("op", "round_even", "floor", "ceil", "trunc"),
    *("round_away", "round_half_away", "round_half_trunc", "round_half_ceil", "round_half_floor"),
)


@pytest.mark.req("C084")
@pytest.mark.parametrize("element", ["b1", "t", "u2", "i2", "i3", "u4", "i4", "i8", "u8"])
@pytest.mark.parametrize("mode", MODES)
def test_every_quantiser_with_every_rounding_equals_at_every_value(element: str, mode: str) -> None:
    """Scales of 1/2 and 1/4 put ties everywhere; every second channel falls."""
    scale = np.array([0.5, -0.5, 0.25, -1.5], np.float32)
    offset = np.array([0.0, 0.25, -0.5, 0.5], np.float32)

    def draw(a: Assembly, x: Node) -> Node:
        y = a.op("mul", real(a, x), row(a, scale, x))
        return codes(mode, element)(a, a.op("add", y, row(a, offset, x)))

    _, report = all_of("i8", draw)
    (fold,) = report.folds
    assert fold.proof.startswith(EVERY) and (fold.low, fold.high) == (-128, 127)
    expected = {"b1": "thresholds.sign_at", "t": "thresholds.ternary_at"}
    assert fold.form == expected.get(element, fold.form)
    if element in ("u2", "i2", "i3", "u4", "i4"):
        assert fold.form == "thresholds.levels" and fold.steps <= 15


@pytest.mark.req("C021")
@pytest.mark.parametrize("element", ["b1", "t", "u2", "i4", "u8", "i8"])
@pytest.mark.parametrize("source", ["i8", "i16", "u8", "b1", "t", "i4"])
def test_batch_norm_and_a_quantiser_are_one_step(source: str, element: str) -> None:
    def draw(a: Assembly, x: Node) -> Node:
        y = norm(a, a.scalar("mul", real(a, x), 0.037), seed=3)
        return codes("op", element)(a, a.scalar("mul", y, 3.0))

    made, report = all_of(source, draw, channels=6)
    assert "map" in kinds(made) or "take" in kinds(made)
    assert len(report.folds) == 1


@pytest.mark.req("C022")
@pytest.mark.parametrize("name", ["relu", "hard_tanh", "hard_sigmoid", "prelu", "rprelu"])
def test_activations_between_an_accumulator_and_codes_go(name: str) -> None:
    others = {"prelu": (0.25,), "rprelu": (0.5, 0.125, -0.25)}.get(name, ())

    def draw(a: Assembly, x: Node) -> Node:
        y = norm(a, a.scalar("mul", real(a, x), 0.02), seed=5)
        assert isinstance(y.type, Tensor)
        y = a.call(f"piecewise.{name}", y, *others, lead=len(y.type.shape))
        return codes("op", "u4")(a, a.scalar("mul", y, 7.0))

    _, report = all_of("i16", draw)
    assert report.folds[0].form == "thresholds.levels"


def test_choices_clamps_and_comparisons_go() -> None:
    def draw(a: Assembly, x: Node) -> Node:
        y = a.scalar("div", real(a, x), 7.0)
        y = a.op("select", a.op("lt", y, row(a, 0.0, y)), a.scalar("mul", y, 0.1), y)
        y = a.scalar("min", a.scalar("max", y, -2.5), 2.5)
        total = a.op("convert", a.op("le", row(a, -1.0, y), y), to="i32")
        for at in (-0.5, 0.25, 1.0):
            total = a.op("add", total, a.op("convert", a.op("le", row(a, at, y), y), to="i32"))
        return a.op("wrap", total, to="u3")

    _, report = all_of("i8", draw)
    assert report.folds[0].form == "thresholds.levels" and report.folds[0].steps == 4


def test_codes_that_become_floats_and_codes_again_are_one_step() -> None:
    def draw(a: Assembly, x: Node) -> Node:
        first = codes("op", "u4")(a, a.scalar("mul", real(a, x), 0.31))
        y = a.scalar("mul", real(a, first), 0.5)
        return codes("op", "t")(a, a.scalar("sub", y, 3.25))

    made, report = all_of("i8", draw)
    assert len(report.folds) == 1 and report.folds[0].source.startswith("param")
    assert kinds(made).count("map") == 1


def test_codes_that_several_read_are_made_once() -> None:
    a = Assembly(LIBRARY)
    x = a.input("x", "i8", (3,))
    shared = codes("op", "u4")(a, a.scalar("mul", real(a, x), 0.31))
    ends = [codes("op", "u2")(a, a.scalar("mul", real(a, shared), scale)) for scale in (0.2, 0.4)]
    function = a.network("n", {"p": ends[0], "q": ends[1], "s": shared}).function
    made, report = integer_only(function, LIBRARY)
    assert len(report.folds) == 3 and sum(fold.source.startswith("param") for fold in report.folds) == 1
    values = all_values("i8", 3)
    from bittern.graph.evaluate import evaluate

    for left, right in zip(*(evaluate(f, [values], [256]) for f in (function, made)), strict=True):
        assert left.tobytes() == right.tobytes()


@pytest.mark.parametrize("element", ["u8", "i8"])
def test_a_scale_of_all_channels_is_one_multiplication(element: str) -> None:
    _, report = all_of("i16", lambda a, x: codes("op", element)(a, a.scalar("mul", real(a, x), 0.0123)))
    (fold,) = report.folds
    assert fold.form == "requantise.requantise" and "both sides of every step" in fold.proof
    assert fold.detail.startswith("multipliers of ") and fold.channels == 1


def test_scales_of_two_to_a_power_round_ties_to_even() -> None:
    _, report = all_of("i16", lambda a, x: codes("op", "i8")(a, a.scalar("mul", real(a, x), 2.0**-5)))
    assert report.folds[0].form == "rounding.requantise_half_even"
    assert report.folds[0].detail == "multipliers of 1 bits, ties to even"


def test_offsets_of_channels_are_spread_first() -> None:
    rng = np.random.default_rng(5)
    factors, offsets = rng.normal(0, 0.01, 4).astype(np.float32), rng.normal(0, 20, 4).astype(np.float32)

    def draw(a: Assembly, x: Node) -> Node:
        y = a.op("add", a.op("mul", real(a, x), row(a, factors, x)), row(a, offsets, x))
        return codes("op", "i8")(a, y)

    _, report = all_of("i16", draw)
    assert report.folds[0].form == "requantise.requantise" and "x * 2^" in report.folds[0].detail


def test_what_turns_back_becomes_a_table() -> None:
    def square(a: Assembly, x: Node) -> Node:
        y = a.scalar("mul", real(a, x), 0.09)
        return codes("op", "u8")(a, a.op("mul", y, y))

    _, report = all_of("i8", square)
    assert report.folds[0].form == "lookup" and report.folds[0].detail == "256 values"
    _, report = all_of("i8", lambda a, x: codes("op", "u4")(a, norm(a, a.op("abs", real(a, x)), 1)))
    assert report.folds[0].form == "thresholds.levels" or report.folds[0].form == "take"
    made, report = all_of("u8", square)
    assert report.folds[0].form == "lookup" and kinds(made).count("lookup") == 1


def test_what_turns_back_and_is_wide_stays_with_its_reason() -> None:
    def draw(a: Assembly, x: Node) -> Node:
        y = a.scalar("mul", real(a, x), 0.01)
        return a.label(codes("op", "u8")(a, a.op("mul", y, y)), "act")

    function = network("i16", (2,), draw)
    made, report = integer_only(function, LIBRARY)
    assert made.id == function.id and not report.is_integer and not report.folds
    assert report.left[0].end == "act" and "turns back" in report.left[0].reason
    with pytest.raises(BitternError, match="R142") as caught:
        integer_only(function, LIBRARY, strict=True)
    assert "`act`" in caught.value.remedy and "turns back" in caught.value.remedy


def wide(a: Assembly, x: Node) -> Node:
    """Return sums of 30 bits from pairs of 16: 2^14 * high + low. x: [b, channels, 2] i16."""
    y = a.op("convert", x, to="i32")
    return a.op("sum", a.op("mul", y, row(a, [1 << 14, 1], y, "i32")))


def pairs(x: Array) -> Array:
    """Return the pairs whose sums are x."""
    return np.stack([x >> 14, x & 16383], axis=-1).astype(np.int16)


@pytest.mark.parametrize("element", ["b1", "t", "u4", "i8"])
def test_wide_accumulators_by_halving(element: str) -> None:
    """Every step found by halving: looked at on both sides of each step, at the ends and at random."""

    def draw(a: Assembly, x: Node) -> Node:
        y = norm(a, a.scalar("mul", real(a, wide(a, x)), 1.7e-8), seed=7)
        y = a.op("select", a.op("lt", y, row(a, 0.0, y)), a.scalar("mul", y, 0.25), y)
        return codes("op", element)(a, a.scalar("mul", y, 9.0 if element == "u4" else 1.0))

    function = network("i16", (5, 2), draw)
    made, report = integer_only(function, LIBRARY)
    (fold,) = report.folds
    assert fold.proof.startswith(HALVED) and report.is_integer and fold.high > 1 << 29
    (call,) = [each for each in walk(made.result) if each.kind == "map"]
    rng = np.random.default_rng(0)
    low, high = -(1 << 15 << 14), (1 << 15 << 14) - 1
    x = [rng.integers(low, high, (20000, 5)), np.full((1, 5), low), np.full((1, 5), high)]
    if fold.form.startswith("thresholds"):
        places = _stored(call.inputs[1]).reshape(5, -1).astype(np.int64).T
        x += [np.clip(places + shift, low, high) for shift in (-1, 0, 1)]
    assert same(function, made, pairs(np.concatenate(x)))


def _stored(each: Node) -> Array:
    from bittern.passes.known import array_of

    found = array_of(each)
    assert found is not None
    return found


@pytest.mark.parametrize("element", ["b1", "u2", "i4", "u8"])
def test_halving_agrees_with_looking_at_every_value(element: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(a: Assembly, x: Node) -> Node:
        y = norm(a, a.scalar("mul", real(a, x), 0.0021), seed=11)
        assert isinstance(y.type, Tensor)
        y = a.call("rounding.round_half_away", a.scalar("mul", y, 2.0), lead=2)
        return codes("op", element)(a, y)

    monkeypatch.setattr(stairs, "MOST_STEPS", 1000)
    _, report = all_of("i16", draw)
    assert report.folds[0].proof.startswith(HALVED)


def test_a_constant_end_is_a_constant() -> None:
    for value in (-3.0, 0.4, 3.0):
        for element in ("b1", "t", "u2", "i8"):

            def draw(a: Assembly, x: Node, value: float = value, element: str = element) -> Node:
                y = a.scalar("add", a.scalar("mul", real(a, x), 0.0), value)
                return codes("op", element)(a, y)

            all_of("i8", draw)


def test_not_a_number_and_infinities_are_what_they_were() -> None:
    def draw(a: Assembly, x: Node) -> Node:
        y = a.scalar("div", a.scalar("div", real(a, x), 0.0), 2.0)  # -inf, NaN, +inf
        return codes("op", "u2")(a, y)

    all_of("i4", draw)


def test_places_may_be_counted_otherwise() -> None:
    """Reshapes inside a chain: of positions with channels apart, and of everything where channels are alike."""

    def spatial(a: Assembly, x: Node) -> Node:
        y = norm(a, real(a, x), 2)
        assert isinstance(y.type, Tensor)
        batch, h, w, c = y.type.shape
        y = a.op("reshape", y, shape=(batch, h * w, c))
        return codes("op", "t")(a, a.op("mul", y, row(a, np.array([1, -2, 3], np.float32), y)))

    def flat(a: Assembly, x: Node) -> Node:
        y = a.scalar("mul", real(a, x), 0.3)
        assert isinstance(y.type, Tensor)
        batch, *rest = y.type.shape
        y = a.op("reshape", y, shape=(batch, rest[0] * rest[1] * rest[2]))
        return codes("op", "i2")(a, y)

    x = np.random.default_rng(0).integers(-128, 128, (50, 2, 3, 3)).astype(np.int8)
    for draw in (spatial, flat):
        _, report = folded(network("i8", (2, 3, 3), draw), x)
        assert report.is_integer and len(report.folds) == 1


def test_values_of_different_places_are_no_chain() -> None:
    def draw(a: Assembly, x: Node) -> Node:
        y = real(a, x)
        return codes("op", "i4")(a, a.op("add", y, a.op("reverse", y, axis=1)))

    function = network("i8", (3,), draw)
    made, report = integer_only(function, LIBRARY)
    assert made.id == function.id and "reverse" in report.left[0].reason


def test_constants_of_places_are_no_chain() -> None:
    def draw(a: Assembly, x: Node) -> Node:
        y = real(a, x)
        return codes("op", "i4")(a, a.op("mul", y, row(a, np.arange(6, dtype=np.float32).reshape(2, 3), y)))

    _, report = integer_only(network("i8", (2, 3), draw), LIBRARY)
    assert "from place to place" in report.left[0].reason


def test_a_quantiser_of_a_float_input_is_a_boundary() -> None:
    def draw(a: Assembly, x: Node) -> Node:
        code = codes("op", "i4")(a, a.scalar("mul", x, 0.3))
        return a.scalar("mul", real(a, code), 2.5)

    function = network("f32", (3,), draw)
    made, report = integer_only(function, LIBRARY)
    assert made.id == function.id and report.is_integer and not report.left
    assert len(report.inputs) == 2 and len(report.outputs) == 2


def test_steps_can_be_left_out_and_names_are_checked() -> None:
    function = network("i8", (3,), lambda a, x: codes("op", "t")(a, a.scalar("mul", real(a, x), 0.1)))
    made, report = integer_only(function, LIBRARY, without=list(STEPS))
    assert made.id == function.id and report.without == tuple(STEPS) and not report.is_integer
    with pytest.raises(BitternError, match="R141") as caught:
        integer_only(function, LIBRARY, without=["threshold"])
    assert "`thresholds`" in caught.value.remedy


def test_labels_follow_and_the_report_is_plain() -> None:
    def draw(a: Assembly, x: Node) -> Node:
        return a.label(codes("op", "t")(a, a.scalar("mul", real(a, a.label(x, "x")), 0.1)), "act")

    made, report = all_of("i8", draw)
    assert made.labels.nodes[made.result.id] == "act"
    assert report.folds[0].end == "act" and report.folds[0].chain == ("convert", "mul", "sign")
    plain = report.as_json()
    assert plain["folds"][0]["form"] == "thresholds.ternary_at" and plain["is_integer"] is True
    assert any("act: thresholds.ternary_at" in line for line in report.lines())


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize("scale", [0.37, -0.37])
def test_the_place_of_the_best_score_is_that_of_the_best_accumulator(kind: str, scale: float) -> None:
    def draw(a: Assembly, x: Node) -> Node:
        return a.op(kind, a.scalar("add", a.scalar("mul", real(a, x), scale), 3.5))

    x = np.random.default_rng(0).integers(-128, 128, (3000, 5)).astype(np.int8)
    made, report = folded(network("i8", (5,), draw), x)
    assert not float_kinds(made) and not report.outputs
    assert report.folds[0].form == (kind if scale > 0 else {"argmax": "argmin", "argmin": "argmax"}[kind])


def test_the_place_of_the_best_score_stays_where_scores_are_equal() -> None:
    """127 and 128 steps have one score after rounding: the first of equal scores is not that of the accumulators."""

    def draw(a: Assembly, x: Node) -> Node:
        return a.op("argmax", a.op("floor", a.scalar("mul", real(a, x), 0.5)))

    function = network("i8", (5,), draw)
    made, report = integer_only(function, LIBRARY)
    assert made.id == function.id and report.is_integer and len(report.outputs) == 4


# --- planted faults


def changed(function: Function, element: str, change: Callable[[Array], Array]) -> Function:
    """Return a function with the constant rows of an element changed."""

    def one(current: Node, old: Node) -> Node:
        if old.kind != "const" or not isinstance(old.type, Tensor) or old.type.element.name != element:
            return current
        return const(change(_stored(old).copy()), ELEMENTS[element])

    return map_graph(function, one)


def _norm_and_sign(a: Assembly, x: Node) -> Node:
    return codes("op", "b1")(a, norm(a, a.scalar("mul", real(a, x), 0.037), seed=3))


@pytest.mark.parametrize("shift", [-1, 1])
@pytest.mark.parametrize("element", ["b1", "t", "u3"])
def test_a_threshold_off_by_one_is_caught(element: str, shift: int) -> None:
    def draw(a: Assembly, x: Node) -> Node:
        return codes("op", element)(a, norm(a, a.scalar("mul", real(a, x), 0.037), seed=3))

    made, _ = all_of("i8", draw)
    function = network("i8", (4,), draw)
    assert not same(function, changed(made, "i32", lambda t: t + np.int32(shift)), all_values("i8", 4))


def test_a_wrong_falling_flag_is_caught() -> None:
    made, report = all_of("i8", _norm_and_sign)
    assert report.folds[0].falling
    function = network("i8", (4,), _norm_and_sign)
    for channel in range(4):
        wrong = changed(made, "bit", lambda f, k=channel: np.where(np.arange(4) == k, ~f, f))  # type: ignore[misc]
        assert not same(function, wrong, all_values("i8", 4))


def test_a_wrong_tie_is_caught() -> None:
    """Ties up where the source has ties to even: each tie differs, and nothing else."""

    def even(a: Assembly, x: Node) -> Node:
        return codes("op", "i4")(a, a.scalar("mul", real(a, x), 0.5))

    def up(a: Assembly, x: Node) -> Node:
        return codes("round_half_ceil", "i4")(a, a.scalar("mul", real(a, x), 0.5))

    source, (wrong, _) = network("i8", (4,), even), all_of("i8", up)
    left, right = run(source, all_values("i8", 4)), run(wrong, all_values("i8", 4))
    differing = np.flatnonzero((left != right).any(1)) - 128
    assert len(differing) and all(value % 2 for value in differing)


def test_faults_in_the_passes_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison of all values must see stairs that are one too high, and a table that is turned around."""
    original = stairs.stairs_of_table

    def late(table: stairs.Table, span: Interval) -> stairs.Stairs:
        found = original(table, span)
        return replace(found, at=found.at + 1)

    def turned(table: stairs.Table, span: Interval) -> stairs.Stairs:
        found = original(table, span)
        return replace(found, falling=~found.falling)

    for fault in (late, turned):
        monkeypatch.setattr(forms, "stairs_of_table", fault)
        with pytest.raises(AssertionError):
            all_of("i8", _norm_and_sign)
