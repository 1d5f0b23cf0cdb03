"""Planted faults: a network and a copy with one mistake; the first value that differs and the kind of mistake are told.

Every row names where the mistake is, what it is, and what has to be said of it. The mistakes are made in the graph (a
constant, an attribute, a function of wrong body), never in what compares.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from bittern.base.errors import BitternError
from bittern.front.network.assembly import BATCH, Assembly, shape_of
from bittern.front.network.network import Network
from bittern.graph.node import Node
from bittern.lang.library import Library
from bittern.lang.source import Source
from bittern.runtime.diff import Comparison, compared
from bittern.runtime.diff_sides import Run

Array = npt.NDArray[Any]

CONV, DENSE = "convolution.conv2d", "dense.dense"
REQUANTISE, RESCALE = "requantise.requantise", "tflite.rescale"
SIGN_AT, LEVELS, TERNARY = "thresholds.sign_at", "thresholds.levels", "thresholds.ternary_at"

WRONG_BODIES = """
fn requantise_floor[e: int, c](x: i32[c], multiplier: i32[c], shift: u32[c], zero: i32, low: i32, high: i32) -> e[c] {
  wrap[e](min(max((i64(x) * i64(multiplier) >> shift) + i64(zero), i64(low)), i64(high)))
}

fn requantise_away[e: int, c](x: i32[c], multiplier: i32[c], shift: u32[c], zero: i32, low: i32, high: i32) -> e[c] {
  let y = i64(x) * i64(multiplier)
  let half = fill(1i64, [c]) << shift >> 1
  let up = y + half >> shift
  let down = -(half - y >> shift)
  wrap[e](min(max(select(y < 0, down, up) + i64(zero), i64(low)), i64(high)))
}

fn requantise_wraps[e: int, c](x: i32[c], multiplier: i32[c], shift: u32[c], zero: i32, low: i32, high: i32) -> e[c] {
  let half = fill(1i64, [c]) << shift >> 1
  wrap[e]((i64(x) * i64(multiplier) + half >> shift) + i64(zero))
}

fn rescale_once[e: int, c](acc: i32[c], multiplier: i32[c], shift: i32[c], zero: i32, low: i32, high: i32) -> e[c] {
  let right = wrap[u32](31 - shift)
  let half = fill(1i64, [c]) << right >> 1
  wrap[e](min(max((i64(acc) * i64(multiplier) + half >> right) + i64(zero), i64(low)), i64(high)))
}

fn sign_strict[c](x: i32[c], at: i32[c], falling: bit[c]) -> b1[c] {
  b1(select(falling, x < at, x > at))
}

fn dense_short[a: type, e: type, m, n](w: &a[m, n], x: &e[n]) -> i32[m] {
  [i32(wrap[i8](dot[i32](row, x))) for row in w]
}
"""


@dataclass
class Planted:
    """A network under construction with mistakes by place. changes: what becomes of a constant, option or node."""

    changes: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        library = Library.standard()
        library.add("planted", [Source("planted.btn", WRONG_BODIES)])
        self.a = Assembly(library)

    def at(self, place: str, value: Any) -> Any:
        """Return a value, or what the mistake at this place makes of it."""
        change = self.changes.get(place)
        return value if change is None else change(value)

    def constant(self, place: str, value: npt.ArrayLike, element: str) -> Node:
        """Return a constant."""
        return self.a.constant(np.asarray(self.at(place, np.asarray(value))), element)

    def call(self, place: str, name: str, *given: Any, **options: Any) -> Node:
        """Return a call; the mistake at `place` may name another function."""
        return self.a.call(self.at(place, name), *given, **options)

    def windows(self, place: str, x: Node, filler: Node, stride: int = 1) -> Node:
        """Return [b, h, w, c] padded by one and cut in windows of 3 x 3."""
        before, after = self.at(f"{place}.sides", (1, 1))
        for axis in (1, 2):
            x = self.a.op("pad", x, filler, axis=axis, before=before, after=after)
        step = self.at(f"{place}.stride", stride)
        dilation = self.at(f"{place}.dilation", 1)
        x = self.a.op("windows", x, axis=1, size=3, stride=step, dilation=1)
        return self.a.op("windows", x, axis=3, size=3, stride=stride, dilation=dilation)


def of_codes(p: Planted) -> Network:
    """Two convolutions of bytes with the two output stages, a mean, a dense layer, the place of the best."""
    rng = np.random.default_rng(1)
    x = p.a.input("image", "i8", (7, 7, 4))
    y = p.windows("conv_1", x, p.constant("conv_1.filler", 3, "i8"))
    y = p.call(
        "conv_1.sums", "convolution.conv2d", p.constant("conv_1.weight", rng.integers(-8, 9, (8, 3, 3, 4)), "i8"), y
    )
    y = p.call("conv_1.add", "requantise.bias", y, p.constant("conv_1.bias", rng.integers(-600, 600, 8), "i32"), lead=3)
    factors = rng.integers(1 << 30, 1 << 31, 8)
    given = [p.constant("conv_1.multiplier", factors, "i32"), p.constant("conv_1.shift", np.full(8, -5), "i32")]
    ends = [p.at("conv_1.zero", -5), p.at("conv_1.low", -128), p.at("conv_1.high", 127)]
    y = p.call("conv_1.stage", "tflite.rescale", y, *given, *ends, lead=3, elements={"e": "i8"})
    y = p.at("conv_1.order", y)
    y = p.a.label(y, "conv_1")
    y = p.windows("conv_2", y, p.constant("conv_2.filler", -5, "i8"), stride=2)
    y = p.call(
        "conv_2.sums", "convolution.conv2d", p.constant("conv_2.weight", rng.integers(-3, 4, (8, 3, 3, 8)), "i8"), y
    )
    given = [p.constant("conv_2.multiplier", np.full(8, 3), "i32"), p.constant("conv_2.shift", np.full(8, 5), "u32")]
    ends = [p.at("conv_2.zero", 2), p.at("conv_2.low", -128), p.at("conv_2.high", 127)]
    y = p.call("conv_2.stage", "requantise.requantise", y, *given, *ends, lead=3, elements={"e": "i8"})
    y = p.a.label(y, "conv_2")
    rows, columns = shape_of(y)[:2]
    y = p.a.op("windows", y, axis=1, size=rows, stride=1, dilation=1)
    y = p.call("pool.sums", "pooling.sum_pool2d", p.a.op("windows", y, axis=3, size=columns, stride=1, dilation=1))
    y = p.a.label(p.a.op("reshape", y, shape=(BATCH, 8)), "pool")
    y = p.a.op("wrap", y, to="i8")
    w = rng.integers(-8, 8, (8, 8))
    y = p.call("dense.sums", "dense.dense", p.constant("dense.weight", w, "i8"), y)
    y = p.call("dense.add", "requantise.bias", y, p.constant("dense.bias", rng.integers(-500, 500, 8), "i32"))
    return p.a.network("codes", {"scores": p.a.label(y, "dense")})


def of_signs(p: Planted) -> Network:
    """Signs padded with -1, thresholds some of which fall, levels, ternary codes."""
    rng = np.random.default_rng(2)
    x = p.a.input("signs", "b1", (6, 6, 8))
    y = p.windows("conv", x, p.constant("conv.filler", -1, "b1"))
    y = p.call(
        "conv.sums", "convolution.conv2d", p.constant("conv.weight", rng.choice([-1, 1], (16, 3, 3, 8)), "b1"), y
    )
    at, falling = 2 * rng.integers(-4, 5, 16), np.arange(16) % 3 == 1
    y = p.call(
        "conv.stage",
        "thresholds.sign_at",
        y,
        p.constant("conv.at", at, "i32"),
        p.constant("conv.falling", falling, "bit"),
        lead=3,
    )
    y = p.a.label(p.at("conv.order", y), "conv")
    y = p.a.op("reshape", y, shape=(BATCH, 576))
    y = p.call("levels.sums", "dense.dense", p.constant("levels.weight", rng.choice([-1, 1], (12, 576)), "b1"), y)
    at = np.sort(2 * rng.integers(-20, 21, (12, 7)), axis=1)
    given = [p.constant("levels.at", at, "i32"), p.constant("levels.falling", np.arange(12) % 4 == 2, "bit")]
    y = p.call("levels.stage", "thresholds.levels", y, *given, p.at("levels.low", -4), elements={"e": "i4"})
    y = p.a.label(y, "levels")
    y = p.call("ternary.sums", "dense.dense", p.constant("ternary.weight", rng.integers(-1, 2, (10, 12)), "t"), y)
    given = [
        p.constant("ternary.at", np.tile([-3, 4], (10, 1)), "i32"),
        p.constant("ternary.falling", np.zeros(10, bool), "bit"),
    ]
    return p.a.network(
        "signs", {"codes": p.a.label(p.call("ternary.stage", "thresholds.ternary_at", y, *given), "ternary")}
    )


def of_reals(p: Planted) -> Network:
    """A quantiser as files write it, a scale and a bias in floats, signs of floats, sums of floats."""
    rng = np.random.default_rng(3)
    x = p.a.input("x", "f32", (24,))
    y = p.a.label(p.a.scalar("mul", x, p.at("quantise.scale", 8.0)), "scaled")
    y = p.a.label(p.at("quantise.round", p.a.op("round_even", y)), "rounded")
    y = p.a.label(p.at("quantise.codes", p.a.op("round", y, to="i8")), "codes")
    y = p.call("dense.sums", "dense.dense", p.constant("dense.weight", rng.integers(-8, 8, (16, 24)), "i8"), y)
    y = p.a.label(p.a.op("convert", y, to="f32"), "sums")
    y = p.a.label(p.a.scalar("mul", y, p.at("out.scale", 0.125)), "scores")
    shift = p.a.spread(p.constant("out.bias", rng.integers(-20, 20, 16) / 8, "f32"), y)
    y = p.a.label(p.at("out.add", p.a.op("add", y, shift)), "shifted")
    best = p.a.label(p.at("best", p.a.op("argmax", p.a.scalar("min", y, 2.0))), "best")
    total = p.a.label(p.at("total", p.a.op("sum", p.a.scalar("mul", y, 0.3))), "total")
    signs = p.a.label(p.at("signs", p.a.op("sign", y, to="b1")), "signs")
    capped = p.a.label(p.at("capped", p.a.scalar("mul", p.a.scalar("max", y, 0.0), 1.0)), "capped")
    return p.a.network("reals", {"best": best, "total": total, "signs": signs, "capped": capped})


NETS: dict[str, Callable[[Planted], Network]] = {"codes": of_codes, "signs": of_signs, "reals": of_reals}


@lru_cache(maxsize=3)
def sound(name: str) -> tuple[Run, list[Array]]:
    """Return the network without a mistake, and data."""
    network = NETS[name](Planted())
    rng = np.random.default_rng(9)
    (port,) = network.inputs
    if name == "codes":
        data = rng.integers(-128, 128, (6, *port.shape)).astype(np.int8)
    elif name == "signs":
        data = rng.choice(np.array([-1, 1], np.int8), (6, *port.shape))
    else:
        data = (rng.integers(-600, 600, (32, *port.shape)) / 32).astype(np.float32)
        data[8:, :2] /= 32  # small sums, some of which are 0 with the bias
        data[8:, 2:] = 0
    return Run("sound", network, "vm", level="source"), [data]


def told(name: str, changes: dict[str, Callable[..., Any]]) -> Comparison:
    """Return what is said of a network with these mistakes."""
    run, data = sound(name)
    planted = Planted(changes)
    return compared(run, Run("planted", NETS[name](planted), "vm", level="source"), data)


def flipped(place: tuple[int, ...], mask: int) -> Callable[[Array], Array]:
    """Return what flips bits of one weight."""

    def change(w: Array) -> Array:
        made = np.array(w)
        made[place] = np.int8(np.int8(made[place]) ^ mask)
        return made

    return change


def set_to(place: Any, make: Callable[[Any], Any]) -> Callable[[Array], Array]:
    """Return what changes one value."""

    def change(w: Array) -> Array:
        made = np.array(w)
        made[place] = make(made[place])
        return made

    return change


def next_ternary(w: int) -> int:
    """Return -1, 0 or 1: another one than w."""
    return (w + 2) % 3 - 1


def channels_first(w: Array) -> Array:
    """Return weights [m, p, q, c] whose bytes stand as [m, c, p, q]."""
    return w.transpose(0, 3, 1, 2).reshape(w.shape)


def becomes(value: Any) -> Callable[[Any], Any]:
    """Return what puts another value in the place."""
    return lambda _: value


def op(kind: str, **attributes: Any) -> Callable[[Node], Node]:
    """Return what applies one more op."""
    return lambda x: Assembly(Library.standard()).op(kind, x, **attributes)


def instead(make: Callable[[Assembly, Node], Node]) -> Callable[[Node], Node]:
    """Return what computes something else from the first input of a node."""
    return lambda made: make(Assembly(Library.standard()), made.inputs[0])


def half_away(a: Assembly, x: Node) -> Node:
    """Return x rounded to the nearest, ties away from zero."""
    zero = a.scalar("mul", x, 0.0)
    ends = a.op("select", a.op("lt", x, zero), a.scalar("add", zero, -0.5), a.scalar("add", zero, 0.5))
    return a.op("trunc", a.op("add", x, ends))


def sign_of_zero_falls(a: Assembly, x: Node) -> Node:
    """Return the sign with sign(0) = -1."""
    zero = a.scalar("mul", x, 0.0)
    return a.op("convert", a.op("lt", zero, x), to="b1")


def floor(a: Assembly, x: Node) -> Node:
    """Return x rounded down."""
    return a.op("floor", x)


def sum_of_shuffled(a: Assembly, x: Node) -> Node:
    """Return the sums of the 16 values of each row in another order."""
    square = a.op("permute", a.op("reshape", x, shape=(BATCH, 4, 4)), axes=(0, 2, 1))
    return a.op("sum", a.op("reshape", square, shape=(BATCH, 16)))


def least(x: Node, most: int) -> Node:
    """Return values of `most` at most."""
    return Assembly(Library.standard()).scalar("min", x, most)


def zero_falls(made: Node) -> Node:
    """Return max(x, -0) * 1 instead of max(x, 0) * 1."""
    a = Assembly(Library.standard())
    return a.scalar("mul", a.scalar("max", made.inputs[0].inputs[0], -0.0), 1.0)


def body(name: str) -> Callable[[Any], Any]:
    """Return what puts a function of wrong body in the place of another."""
    return becomes(f"planted.{name}")


def last_best(a: Assembly, x: Node) -> Node:
    """Return the last place of the greatest value."""
    place = a.op("argmax", a.op("reverse", x, axis=1))
    return a.scalar("sub", place, 15, first=True)


ROWS: list[tuple[str, str, dict[str, Callable[..., Any]], str, str, str]] = [
    # what is wrong, network, where and how, layer, what computes the first value that differs, class
    ("a weight bit", "codes", {"conv_1.weight": flipped((3, 1, 2, 0), 4)}, "conv_1", CONV, "weight"),
    ("a weight's sign bit", "codes", {"dense.weight": flipped((5, 2), -128)}, "dense", DENSE, "weight"),
    ("a binary weight", "signs", {"conv.weight": set_to((7, 0, 1, 3), lambda w: -w)}, "conv", CONV, "weight"),
    ("a ternary weight", "signs", {"ternary.weight": set_to((4, 4), next_ternary)}, "ternary", DENSE, "weight"),
    ("transposed weights", "codes", {"dense.weight": lambda w: w.T}, "dense", DENSE, "layout"),
    ("swapped kernel axes", "codes", {"conv_1.weight": lambda w: w.swapaxes(1, 2)}, "conv_1", CONV, "layout"),
    ("a flipped kernel", "codes", {"conv_2.weight": lambda w: w[:, ::-1, ::-1]}, "conv_2", CONV, "layout"),
    ("input channels reversed", "codes", {"conv_1.weight": lambda w: w[..., ::-1]}, "conv_1", CONV, "layout"),
    ("output channels reversed", "signs", {"conv.weight": lambda w: w[::-1]}, "conv", CONV, "layout"),
    ("channels first", "codes", {"conv_1.weight": channels_first}, "conv_1", CONV, "layout"),
    ("channel order", "signs", {"conv.order": op("reverse", axis=3)}, "conv", SIGN_AT, "layout"),
    ("rows and columns", "codes", {"conv_1.order": op("permute", axes=(0, 2, 1, 3))}, "conv_1", RESCALE, "layout"),
    ("the padding value", "codes", {"conv_1.filler": becomes(0)}, "conv_1", "pad", "padding"),
    ("padding with +1", "signs", {"conv.filler": becomes(1)}, "conv", "pad", "padding"),
    ("padding on one side", "codes", {"conv_1.sides": becomes((0, 2))}, "conv_1", "pad", "stride"),
    ("the stride", "codes", {"conv_2.stride": becomes(1)}, "conv_2", "windows", "stride"),
    ("zero point + 1", "codes", {"conv_2.zero": becomes(3)}, "conv_2", REQUANTISE, "zero point"),
    ("zero point - 1", "codes", {"conv_1.zero": becomes(-6)}, "conv_1", RESCALE, "zero point"),
    ("the lowest level", "signs", {"levels.low": becomes(-5)}, "levels", LEVELS, "zero point"),
    ("scale x 2", "codes", {"conv_2.multiplier": lambda m: 2 * m}, "conv_2", REQUANTISE, "scale"),
    ("scale x 2 of floats", "reals", {"out.scale": becomes(0.25)}, "scores", "mul", "scale"),
    ("the shift", "codes", {"conv_2.shift": lambda s: s + 1}, "conv_2", REQUANTISE, "scale"),
    ("the shift of TFLite", "codes", {"conv_1.shift": lambda s: s - 1}, "conv_1", RESCALE, "scale"),
    ("half away instead of up", "codes", {"conv_2.stage": body("requantise_away")}, "conv_2", REQUANTISE, "tie"),
    ("half away instead of even", "reals", {"quantise.round": instead(half_away)}, "rounded", "round_even", "tie"),
    ("floor instead of round", "codes", {"conv_2.stage": body("requantise_floor")}, "conv_2", REQUANTISE, "rounding"),
    ("floor of floats", "reals", {"quantise.round": instead(floor)}, "rounded", "round_even", "rounding"),
    ("one rounding instead of two", "codes", {"conv_1.stage": body("rescale_once")}, "conv_1", RESCALE, "rounding"),
    ("saturation at 126", "codes", {"conv_1.high": becomes(126)}, "conv_1", RESCALE, "saturation"),
    ("saturation at -127", "codes", {"conv_2.low": becomes(-127)}, "conv_2", REQUANTISE, "saturation"),
    ("ends that wrap", "codes", {"conv_2.stage": body("requantise_wraps")}, "conv_2", REQUANTISE, "saturation"),
    ("codes that stop at 126", "reals", {"quantise.codes": lambda c: least(c, 126)}, "codes", "round", "saturation"),
    ("a threshold + 1", "signs", {"conv.at": set_to(2, lambda t: t + 1)}, "conv", SIGN_AT, "threshold"),
    ("all thresholds + 1", "signs", {"levels.at": lambda t: t + 1}, "levels", LEVELS, "threshold"),
    ("ternary thresholds - 1", "signs", {"ternary.at": lambda t: t - 1}, "ternary", TERNARY, "threshold"),
    ("a tie at the threshold", "signs", {"conv.stage": body("sign_strict")}, "conv", SIGN_AT, "tie"),
    ("sign(0) = -1", "reals", {"signs": instead(sign_of_zero_falls)}, "signs", "sign", "tie"),
    ("the last of the best", "reals", {"best": instead(last_best)}, "best", "argmax", "tie"),
    ("falling flags lost", "signs", {"conv.falling": lambda f: np.zeros_like(f)}, "conv", SIGN_AT, "falling"),
    ("one falling flag lost", "signs", {"levels.falling": set_to(6, lambda _: False)}, "levels", LEVELS, "falling"),
    ("the sign of zero", "reals", {"capped": zero_falls}, "capped", "max", "sign of zero"),
    ("a dropped bias", "codes", {"conv_1.bias": lambda b: 0 * b}, "conv_1", "requantise.bias", "bias"),
    ("a dropped bias of floats", "reals", {"out.add": lambda y: y.inputs[0]}, "shifted", "add", "bias"),
    ("one bias", "codes", {"dense.bias": set_to(3, lambda b: b + 77)}, "dense", "requantise.bias", "bias"),
    ("the order of a sum of floats", "reals", {"total": instead(sum_of_shuffled)}, "total", "sum", "order"),
    ("sums of 8 bits", "codes", {"dense.sums": body("dense_short")}, "dense", DENSE, "overflow"),
    ("negated weights", "codes", {"dense.weight": lambda w: np.clip(-w, -128, 127)}, "dense", DENSE, "sign"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("network", "changes", "layer", "kind", "name"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_a_planted_fault_is_found_and_named(
    network: str, changes: dict[str, Callable[..., Any]], layer: str, kind: str, name: str
) -> None:
    made = told(network, changes)
    assert made.first is not None, "the fault changes nothing on this data"
    shown = (made.first.layer, made.first.kind, made.first.classes)
    assert (made.first.layer, made.first.kind, made.first.classes[0].name) == (layer, kind, name), shown
    assert made.first.left != made.first.right


def test_there_are_enough_of_them() -> None:
    assert len(ROWS) >= 30 and len({row[0] for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("name", list(NETS))
def test_a_sound_copy_does_not_differ(name: str) -> None:
    made = told(name, {})
    assert made.is_equal and made.rows and all(row.differing == 0 for row in (*made.rows, *made.outputs))


def test_what_has_nothing_in_common_is_refused() -> None:
    run, _ = sound("codes")
    a = Assembly(Library.standard())
    x = a.input("image", "i8", (7, 7, 4))
    other = Run("other", a.network("other", {"a": a.op("neg", x), "b": x}), "vm", level="source")
    with pytest.raises(BitternError) as caught:
        compared(run, other, [np.zeros((1, 7, 7, 4), np.int8)])
    assert caught.value.code == "N448" and "share no output" in caught.value.what
