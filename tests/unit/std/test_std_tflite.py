"""The arithmetic of TFLite's kernels against exact fractions and wide floats; real kernels are in `tests/conform`."""

from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

Array = npt.NDArray[Any]

EDGES = [-(2**31), -(2**31) + 1, -65537, -65536, -3, -2, -1, 0, 1, 2, 3, 65535, 65536, 65537, 2**31 - 2, 2**31 - 1]
LOW, HIGH = -(2**31), 2**31 - 1


def words(seed: int, count: int = 400) -> Array:
    """Edges and random words of all magnitudes."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(LOW, HIGH + 1, count) >> rng.integers(0, 31, count)
    return np.concatenate([EDGES, drawn]).astype(np.int32)


def called(run: Any, name: str, *arguments: Any, dims: tuple[int, ...], elements: dict[str, str] | None = None) -> Any:
    """Run a function; numbers become the elements of its parameters."""
    params = run.library.function(name, elements=elements).params
    given = [np.asarray(value, each.type.element.storage) for value, each in zip(arguments, params, strict=True)]
    return run(name, *given, dims=dims, elements=elements)


def up(x: Fraction) -> int:
    """To the nearest, ties up."""
    return floor(x + Fraction(1, 2))


def away(x: Fraction) -> int:
    """To the nearest, ties away from zero."""
    return up(x) if x >= 0 else -up(-x)


def wrapped(x: int) -> int:
    """To 32 signed bits."""
    return (x - LOW) % (1 << 32) + LOW


def clamped(x: int, low: int = LOW, high: int = HIGH) -> int:
    """Into bounds."""
    return min(max(x, low), high)


def scaled(x: int, multiplier: int, shift: int) -> int:
    """The factor of an accumulator, in two roundings."""
    high = clamped(up(Fraction(wrapped(x << max(shift, 0)) * multiplier, 1 << 31)))
    return away(Fraction(high, 1 << max(-shift, 0)))


def factors(seed: int, count: int) -> tuple[Array, Array]:
    """Multipliers and shifts as converters make them."""
    rng = np.random.default_rng(seed)
    return rng.integers(1 << 30, 1 << 31, count).astype(np.int32), rng.integers(-31, 8, count).astype(np.int32)


@pytest.mark.covers("tflite.doubling_high_mul", "tflite.divide_by_power", "tflite.scaled")
def test_products_and_quotients_are_rounded_as_they_say(run: Any) -> None:
    a, b = words(1), words(2)[::-1].copy()
    got = run.over("tflite.doubling_high_mul", a, b).tolist()
    assert got == [clamped(up(Fraction(x * y, 1 << 31))) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    for s in (0, 1, 2, 15, 30, 31):
        got = run.over("tflite.divide_by_power", a, np.full(len(a), s, np.uint32)).tolist()
        assert got == [away(Fraction(x, 1 << s)) for x in a.tolist()], s
    multiplier, shift = factors(3, len(a))
    got = run.over("tflite.scaled", a, multiplier, shift).tolist()
    rows = zip(a.tolist(), multiplier.tolist(), shift.tolist(), strict=True)
    assert got == [scaled(*row) for row in rows]


def test_two_roundings_differ_from_one(run: Any) -> None:
    """The published case: 7984 times 1583594044 / 2^31 / 2^9 is 11.499, which two roundings make 12."""
    x, multiplier, shift = (np.array([v], np.int32) for v in (7984, 1583594044, -9))
    assert run.over("tflite.scaled", x, multiplier, shift).tolist() == [12]
    assert round(7984 * 1583594044 / 2**40) == 11


@pytest.mark.covers("tflite.rescale", "tflite.requantise", "tflite.clamp")
def test_output_stages(run: Any) -> None:
    acc = words(4)
    multiplier, shift = factors(5, len(acc))
    got = called(run, "tflite.rescale", acc, multiplier, shift, 7, -100, 101, dims=(len(acc),), elements={"e": "i8"})
    rows = list(zip(acc.tolist(), multiplier.tolist(), shift.tolist(), strict=True))
    assert got.dtype == np.int8 and got.tolist() == [clamped(wrapped(scaled(*row) + 7), -100, 101) for row in rows]
    codes = np.arange(-128, 128).astype(np.int8)
    elements = {"a": "i8", "e": "i16"}
    got = called(run, "tflite.requantise", codes, -9, 1 << 30, 3, 5, -300, 900, dims=(256,), elements=elements)
    assert got.dtype == np.int16 and got.tolist() == [clamped(4 * (v + 9) + 5, -300, 900) for v in range(-128, 128)]
    got = called(run, "tflite.clamp", codes, -5, 6, dims=(256,), elements={"a": "i8"})
    assert got.tolist() == [clamped(v, -5, 6) for v in range(-128, 128)]


@pytest.mark.covers("tflite.add", "tflite.subtract", "tflite.multiply")
def test_all_pairs_of_codes(run: Any) -> None:
    """Within one code of the exact sum, difference and product, over all pairs."""
    x, y = (v.ravel().astype(np.int8) for v in np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)))
    u, v = (x.astype(np.int64) + 3) * 0.5, (y.astype(np.int64) - 7) * 0.25
    tail = (3 - 6, 1 << 30, 0, 7, 1 << 30, -1, 1 << 30, 1 - 20 + 1, 4, -128, 127)
    for name, exact in (("add", u + v), ("subtract", u - v)):
        got = called(run, f"tflite.{name}", x, y, 20, *tail, dims=(len(x),), elements={"a": "i8"})
        assert np.abs(got - np.clip(exact / 0.5 + 4, -128, 127)).max() <= 0.5, name
    got = called(run, "tflite.multiply", x, y, -3, 7, 1 << 30, -5, 4, -128, 127, dims=(len(x),), elements={"a": "i8"})
    assert np.abs(got - np.clip((x + 3.0) * (y - 7.0) / 64 + 4, -128, 127)).max() <= 0.5 + 1 / 64


@pytest.mark.covers("tflite.average", "tflite.sums", "tflite.table")
def test_averages_sums_and_tables(run: Any) -> None:
    acc = np.arange(-700, 700).astype(np.int32)
    for count in (1, 2, 5, 6, 9):
        got = called(run, "tflite.average", acc, count, -128, 127, dims=(len(acc),), elements={"e": "i8"})
        assert got.tolist() == [clamped(away(Fraction(v, count)), -128, 127) for v in acc.tolist()]
    x = np.random.default_rng(6).integers(-128, 128, (5, 9)).astype(np.int8)
    assert called(run, "tflite.sums", x, dims=(5, 9), elements={"a": "i8"}).tolist() == x.sum(1).tolist()
    values = np.arange(256).astype(np.int16) * 3
    got = called(
        run, "tflite.table", np.array([0, 5, -1, -128], np.int8), values, dims=(4,), elements={"a": "i8", "e": "i16"}
    )
    assert got.tolist() == [0, 15, 765, 384]


@pytest.mark.covers("tflite.mul16", "tflite.divide16", "tflite.exp16", "tflite.double_reciprocal16")
@pytest.mark.covers("tflite.logistic16", "tflite.tanh16")
def test_functions_of_16_bits_everywhere(run: Any) -> None:
    """Over all 65536 inputs, in units of 2^-15."""
    x = np.arange(-32768, 32768).astype(np.int16)
    real = x.astype(np.float64)
    got = run.over("tflite.logistic16", x)
    assert np.abs(got - 32768 / (1 + np.exp(-real / 4096))).max() < 6.5
    for fraction in (11, 12, 13, 14):
        bits = np.full(len(x), fraction, np.uint32)
        got = run.over("tflite.tanh16", x, bits)
        assert np.abs(got - 32768 * np.tanh(real / (1 << fraction))).max() < 13
        below = x[x <= 0]
        got = run.over("tflite.exp16", below, np.full(len(below), fraction - 1, np.uint32))
        assert np.abs(got - 32768 * np.exp(below.astype(np.float64) / (1 << fraction - 1))).max() < 4
    a, b = x[::37], x[::-37]
    got = run.over("tflite.mul16", a, b).tolist()
    assert got == [
        clamped(up(Fraction(p * q, 1 << 15)), -32768, 32767) for p, q in zip(a.tolist(), b.tolist(), strict=True)
    ]
    got = run.over("tflite.divide16", x, np.full(len(x), 3, np.uint32)).tolist()
    assert got == [away(Fraction(v, 8)) for v in x.tolist()]
    above = x[x >= 0]
    got = run.over("tflite.double_reciprocal16", above)
    assert np.abs(got - 16384 / (1 + above / 32768.0)).max() < 4


@pytest.mark.covers("tflite.exp32", "tflite.reciprocal32", "tflite.softmax")
def test_softmax_is_near_the_real_one(run: Any) -> None:
    a = -np.unique(np.abs(words(7, 4000).astype(np.int64)).clip(max=HIGH)).astype(np.int32)
    got = run.over("tflite.exp32", a)
    assert np.abs(got / 2**31 - np.exp(a / 2**26)).max() < 2.5e-7
    b = -a
    got = run.over("tflite.reciprocal32", b)
    assert np.abs(got / 2**31 - 1 / (1 + b / 2**31)).max() < 1e-8
    x = np.random.default_rng(8).integers(-128, 128, (50, 12)).astype(np.int8)
    scale = 0.1
    multiplier, left = int(np.round(scale * 2**26 / 2**23 * 2**31)), 23
    text = "use tflite\nfn rows[n](x: i8[n, 12]) -> i16[n, 12] {\n"
    text += f"  [softmax[i8, i16](row, {multiplier}, {left}, -248, 16, -32768, 32767) for row in x]\n}}\n"
    got = run.text(text, "rows", x, dims=(50,))
    real = np.exp(x * scale)
    real /= real.sum(1, keepdims=True)
    assert np.abs((got.astype(int) + 32768) / 65536 - real).max() < 2e-5


@pytest.mark.covers("tflite.prelu", "tflite_float.prelu")
def test_slopes_of_their_own(run: Any) -> None:
    x = np.arange(-128, 128).astype(np.int8)
    alpha = x[::-1].copy()
    fixed = (5, -3, 1 << 30, 1, 1 << 30, -6, 4, -128, 127)
    got = called(run, "tflite.prelu", x, alpha, *fixed, dims=(256,), elements={"a": "i8"})
    real, slope = x.astype(int) - 5, alpha.astype(int) + 3
    wanted = [
        v if v >= 0 else away(Fraction(up(Fraction(int(v * s), 2)), 64)) for v, s in zip(real, slope, strict=True)
    ]
    assert got.tolist() == [clamped(int(v) + 4, -128, 127) for v in wanted]
    y = np.array([-2, 0, 3], np.float32)
    assert called(run, "tflite_float.prelu", y, y, dims=(3,)).tolist() == [4, 0, 3]


@pytest.mark.covers("tflite.leaky_relu", "tflite.hard_swish")
def test_functions_of_codes(run: Any) -> None:
    x = np.arange(-128, 128).astype(np.int8)
    real = (np.arange(-128, 128) - 5) * 0.05
    got = called(
        run, "tflite.leaky_relu", x, 5, 1 << 30, 1, 1 << 30, -2, -3, -128, 127, dims=(256,), elements={"a": "i8"}
    )
    assert (
        np.abs((got.astype(int) + 3) * 0.05 - np.clip(np.where(real > 0, real, real / 8), -6.25, 6.5)).max()
        <= 0.025 + 1e-9
    )
    fine = 0.05 / 128
    inner, outer = fine / (3 / 32768), fine / 0.04
    parts = []
    for factor in (inner, outer):
        fraction, shift = np.frexp(factor)
        parts += [int(np.round(fraction * 32768)), int(shift)]
    got = called(run, "tflite.hard_swish", x, 5, *parts, -100, -128, 127, dims=(256,), elements={"a": "i8"})
    wanted = real * np.clip(real + 3, 0, 6) / 6
    assert np.abs((got.astype(int) + 100) * 0.04 - np.clip(wanted, None, 227 * 0.04)).max() < 0.03


@pytest.mark.covers("tflite.lstm", "tflite.svdf", "tflite.offset_dot")
def test_states_go_on(run: Any) -> None:
    """A sequence at once, and step by step with the state that the last step left."""
    rng = np.random.default_rng(9)
    x = rng.integers(-128, 128, (5, 3)).astype(np.int8)
    w, r = rng.integers(-128, 128, (4, 2, 3)).astype(np.int8), rng.integers(-128, 128, (4, 2, 2)).astype(np.int8)
    x_bias, r_bias = (rng.integers(-900, 900, (4, 2)).astype(np.int32) for _ in range(2))
    factors_ = np.tile(np.array([1 << 30, -3, 1 << 30, -2], np.int32), (4, 1))
    fixed = (w, r, x_bias, r_bias, factors_, 12, 32768, 1 << 30, -22, 3)
    hidden, cell = np.zeros(2, np.int8), np.zeros(2, np.int16)
    all_, last, state = called(run, "tflite.lstm", x, *fixed, hidden, cell, dims=(5, 3, 2), elements={"a": "i8"})
    assert np.array_equal(all_[-1], last) and len(np.unique(all_)) > 4
    for step in range(5):
        given = (x[step : step + 1], *fixed, hidden, cell)
        one, hidden, cell = called(run, "tflite.lstm", *given, dims=(1, 3, 2), elements={"a": "i8"})
        assert np.array_equal(one[0], all_[step])
    assert np.array_equal(cell, state)
    time, bias = rng.integers(-128, 128, (2, 2, 3)).astype(np.int8), np.array([50, -50], np.int32)
    past = rng.integers(-128, 128, (4, 3)).astype(np.int8)
    w = rng.integers(-128, 128, (4, 3)).astype(np.int8)
    given = (x[0], w, np.zeros(4, np.int32), 1 << 30, -6, 9, -128, 127, time, bias, 1 << 30, -6, 4, -128, 127, past)
    out, new = called(run, "tflite.svdf", *given, dims=(3, 3, 2, 2), elements={"a": "i8", "s": "i8"})
    fresh = [clamped(scaled(int(v), 1 << 30, -6) + 9, -128, 127) for v in w.astype(int) @ x[0]]
    assert np.array_equal(new[:, :2], past[:, 1:]) and new[:, 2].tolist() == fresh
    sums = (time.astype(int) * (new.reshape(2, 2, 3).astype(int) - 9)).sum((1, 2)) + bias
    assert out.tolist() == [clamped(scaled(int(v), 1 << 30, -6) + 4, -128, 127) for v in sums]
    assert (
        called(run, "tflite.offset_dot", past[0], past[1], 9, dims=(3,), elements={"s": "i8"})
        == (past[0].astype(int) * (past[1].astype(int) - 9)).sum()
    )


@pytest.mark.covers("tflite_float.dense", "tflite_float.conv2d", "tflite_float.depthwise2d", "tflite_float.finish")
@pytest.mark.covers("tflite_float.conv2d_grouped", "tflite_float.sums", "tflite_float.sum_pool2d")
@pytest.mark.covers("tflite_float.total", "tflite_float.average")
def test_float_sums(run: Any) -> None:
    """Whole numbers, whose sums are exact in any order."""
    rng = np.random.default_rng(10)

    def whole(*shape: int) -> Array:
        return rng.integers(-9, 10, shape).astype(np.float32)

    w, x = whole(4, 6), whole(6)
    assert called(run, "tflite_float.dense", w, x, dims=(4, 6)).tolist() == (w @ x).tolist()
    w, x = whole(4, 3, 2, 5), whole(2, 3, 6, 2, 5)
    got = called(run, "tflite_float.conv2d", w, x, dims=(2, 3, 6, 2, 5, 4))
    assert np.array_equal(got, np.einsum("mpqc,opvqc->ovm", w, x))
    got = called(run, "tflite_float.depthwise2d", w[0], x, dims=(2, 3, 6, 2, 5))
    assert np.array_equal(got, np.einsum("pqc,opvqc->ovc", w[0], x))
    w, x = whole(3, 4, 3, 2, 5), whole(2, 3, 6, 2, 3, 5)
    got = called(run, "tflite_float.conv2d_grouped", w, x, dims=(2, 3, 6, 2, 3, 5, 4))
    assert np.array_equal(got, np.einsum("gmpqc,opvqgc->ovgm", w, x))
    x = whole(2, 3, 6, 2, 5)
    assert np.array_equal(called(run, "tflite_float.sum_pool2d", x, dims=(2, 3, 6, 2, 5)), x.sum((1, 3)))
    assert np.array_equal(called(run, "tflite_float.sums", x[0, :, 0, 0], dims=(3, 5)), x[0, :, 0, 0].sum(1))
    got = called(
        run,
        "tflite_float.finish",
        np.array([1, np.nan, 9, -9], np.float32),
        np.ones(4, np.float32),
        -2.0,
        6.0,
        dims=(4,),
    )
    assert got[[0, 2, 3]].tolist() == [2, 6, -2] and np.isnan(got[1])
    assert called(run, "tflite_float.average", np.array([9, -9], np.float32), 2.0, -4.0, 5.0, dims=(2,)).tolist() == [
        4.5,
        -4,
    ]
    tiny = np.array([1, 2**-24, 2**-24], np.float32)
    assert called(run, "tflite_float.total", tiny, dims=(3,)) == 1, "in order, from the first"


@pytest.mark.covers("tflite_float.codes", "tflite_float.scaled", "tflite_float.scaled2d")
def test_codes_of_floats(run: Any) -> None:
    x = np.array([-1.0, 0.5, 0.25, 1 / 254, 2.0, -2.0], np.float32)
    codes, scale = called(run, "tflite_float.codes", x, dims=(6,))
    assert codes.tolist() == [-64, 32, 16, 0, 127, -127] and scale == np.float32(2) / np.float32(127)
    codes, scale = called(run, "tflite_float.codes", np.zeros(3, np.float32), dims=(3,))
    assert codes.tolist() == [0, 0, 0] and scale == 1
    acc, bias = np.array([[[4, -8], [100, 6]]], np.int32), np.array([1, -1], np.float32)
    got = called(run, "tflite_float.scaled2d", acc, 0.5, 0.25, bias, -1.5, 9.0, dims=(1, 2, 2))
    assert got.tolist() == [[[1.5, -1.5], [9, -0.25]]]
    got = called(run, "tflite_float.scaled", acc[0, 0], 0.5, 0.25, bias, -9.0, 9.0, dims=(2,))
    assert got.tolist() == [1.5, -2]


@pytest.mark.covers("tflite_float.clamp", "tflite_float.add", "tflite_float.subtract", "tflite_float.multiply")
@pytest.mark.covers("tflite_float.quantise", "tflite_float.dequantise", "tflite_float.softmax")
@pytest.mark.covers("tflite_float.logistic")
@pytest.mark.covers("tflite_float.hyperbolic_tangent", "tflite_float.hard_swish", "tflite_float.leaky_relu")
@pytest.mark.covers("tflite_float.lstm")
def test_float_functions(run: Any) -> None:
    x = np.linspace(-20, 20, 401).astype(np.float32)
    y = x[::-1].copy()
    n = len(x)

    def of(name: str, *more: Any) -> Array:
        return np.asarray(called(run, f"tflite_float.{name}", x, *more, dims=(n,)))

    real = x.astype(np.float64)
    assert np.array_equal(of("clamp", -1.0, 6.0), np.clip(x, -1, 6))
    assert np.array_equal(of("add", y, -5.0, 5.0), np.clip(x + y, -5, 5))
    assert np.array_equal(of("subtract", y, -5.0, 5.0), np.clip(x - y, -5, 5))
    assert np.array_equal(of("multiply", y, -5.0, 5.0), np.clip(x * y, -5, 5))
    assert np.allclose(of("logistic"), 1 / (1 + np.exp(-real)), rtol=2e-4, atol=0)
    assert np.allclose(of("hyperbolic_tangent"), np.tanh(real), rtol=3e-7, atol=0)
    assert np.allclose(of("hard_swish"), real * np.clip(real + 3, 0, 6) / 6, rtol=3e-7, atol=1e-6)
    assert np.array_equal(of("leaky_relu", 0.25), np.where(x > 0, x, x * np.float32(0.25)))
    p = np.exp(0.5 * (real - 20))
    assert np.allclose(of("softmax", 0.5), p / p.sum(), rtol=3e-6, atol=0)
    halves = np.array([0.5, 1.5, 2.5, -0.5, -2.5, 1e30, -1e30, np.nan], np.float32)
    got = called(run, "tflite_float.quantise", halves, 1.0, 3, -128, 127, dims=(8,), elements={"e": "i8"})
    assert got.tolist() == [4, 5, 6, 2, 0, 127, -128, 3]
    codes = np.array([-128, 0, 127], np.int8)
    got = called(run, "tflite_float.dequantise", codes, 0.5, 7, dims=(3,), elements={"a": "i8"})
    assert got.tolist() == [-67.5, -3.5, 60]
    zero = np.zeros((4, 2, 3), np.float32)
    gates = (zero, zero[..., :2], np.zeros((4, 2), np.float32), 0.0, np.zeros(2, np.float32), np.ones(2, np.float32))
    all_, _, cell = called(run, "tflite_float.lstm", np.zeros((3, 3), np.float32), *gates, dims=(3, 3, 2))
    assert cell.tolist() == [0.125, 0.125] and np.allclose(all_[:, 0], 0.5 * np.tanh([0.5, 0.25, 0.125]))
