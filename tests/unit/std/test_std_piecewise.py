"""Activations made of pieces: over all codes of 8 bits and fewer, and floats with their special values."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from codes_oracle import Array, wide
from std_oracle import f32, same_bits

from bittern.types.elements import ELEMENTS

CODES = ["u2", "i2", "u3", "i3", "u4", "i4", "u8", "i8"]
FLOATS = np.array(
    [*np.linspace(-8, 8, 129), np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -3e38, 1.0, -1.0, 3.0, -3.0], f32
)


def every(element: str) -> Array:
    """All values of an element."""
    of = ELEMENTS[element]
    return np.arange(of.low, of.high + 1).astype(of.storage)


@pytest.mark.req("C022")
@pytest.mark.covers("piecewise.relu", "piecewise.hard_tanh", "piecewise.hard_sigmoid", "piecewise.prelu")
@pytest.mark.covers("piecewise.rprelu")
def test_floats(run: Any) -> None:
    x = FLOATS
    with np.errstate(all="ignore"):
        greater = np.where(x > 0, x, f32(0))
        same_bits(run.over("piecewise.relu", x), greater)
        low = np.where(x > -1, x, f32(-1))
        same_bits(run.over("piecewise.hard_tanh", x), np.where(low < 1, low, f32(1)))
        third = (x + f32(3)) / f32(6)
        third = np.where(third > 0, third, f32(0))
        same_bits(run.over("piecewise.hard_sigmoid", x), np.where(third < 1, third, f32(1)))
        slope = np.resize(np.array([0.25, 2.0, -0.5], f32), len(x))
        same_bits(run.over("piecewise.prelu", x, slope), np.where(x < 0, x * slope, x))
        y = x - f32(0.5)
        exact = np.where(y < 0, y * slope, y) + f32(-1)
        before, after = np.full(len(x), 0.5, f32), np.full(len(x), -1, f32)
        same_bits(run.over("piecewise.rprelu", x, before, slope, after), exact)


@pytest.mark.req("C022")
@pytest.mark.covers("piecewise.piecewise_linear")
def test_pieces_of_floats(run: Any) -> None:
    at = np.array([-2.0, 0.0, 1.5], f32)
    slope, offset = np.array([0.1, -1.0, 2.0, 0.0], f32), np.array([1.0, 0.5, -0.25, 3.0], f32)
    for x in FLOATS:
        piece = sum(bool(x >= knot) for knot in at)
        y = run("piecewise.piecewise_linear", x, at, slope, offset, dims=(3,))
        with np.errstate(all="ignore"):
            same_bits(y, np.asarray(x * slope[piece] + offset[piece]))


@pytest.mark.req("C022")
@pytest.mark.covers("piecewise.relu_codes", "piecewise.clamp_codes", "piecewise.sign_codes", "piecewise.ternary_codes")
@pytest.mark.parametrize("element", CODES)
def test_every_code(run: Any, element: str) -> None:
    x, of = every(element), {"e": element}
    n = len(x)
    for low in x[:: max(1, n // 8)]:
        assert np.array_equal(run("piecewise.relu_codes", x, low, dims=(n,), elements=of), np.maximum(x, low))
        signs = run("piecewise.sign_codes", x, low, dims=(n,), elements=of)
        assert signs.tolist() == [1 if v >= low else -1 for v in x]
        for high in x[:: max(1, n // 5)]:
            y = run("piecewise.clamp_codes", x, low, high, dims=(n,), elements=of)
            assert np.array_equal(y, np.minimum(np.maximum(x, low), high)) and y.dtype == x.dtype
            if low <= high:
                y = run("piecewise.ternary_codes", x, low, high, dims=(n,), elements=of)
                assert y.tolist() == [-1 if v < low else 1 if v > high else 0 for v in x]


@pytest.mark.req("C022")
@pytest.mark.covers("piecewise.look_up")
@pytest.mark.parametrize("element", CODES)
@pytest.mark.parametrize("to", ["b1", "t", "i4", "u8", "i32", "f32"])
def test_every_table(run: Any, element: str, to: str) -> None:
    x = every(element)
    rng, of = np.random.default_rng(len(x)), ELEMENTS[to]
    table = rng.standard_normal(len(x)).astype(f32) if to == "f32" else rng.integers(of.low, of.high, len(x))
    table = np.where(table < 0, -1, 1).astype(np.int8) if to == "b1" else table.astype(of.storage)
    sizes = len(x), len(x)
    y = run("piecewise.look_up", x, table, x[0], dims=sizes[::-1], elements={"e": element, "d": to})
    same_bits(y, table)
    short = table[:2].copy()
    y = run("piecewise.look_up", x, short, x[0], dims=(2, len(x)), elements={"e": element, "d": to})
    same_bits(y, np.append(short[:1], np.repeat(short[1:], len(x) - 1)))


EDGES = [-(2**31), -(2**31) + 1, -1000, -129, -3, -2, -1, 0, 1, 2, 100, 2**31 - 1]


def nearest(x: Fraction) -> int:
    """Ties up, clamped to 32 bits."""
    return min(max(math.floor(x + Fraction(1, 2)), -(2**31)), 2**31 - 1)


def clamped(x: int) -> int:
    """To 32 bits."""
    return min(max(x, -(2**31)), 2**31 - 1)


@pytest.mark.req("C022")
@pytest.mark.covers("piecewise.prelu_codes", "piecewise.rprelu_codes")
def test_prelu_of_sums(run: Any) -> None:
    grid = np.meshgrid(EDGES, [-7, 0, 5, 1 << 20, 2**31 - 1], [0, 3, 31, 62], EDGES, indexing="ij")
    x, m, s, before = (a.ravel() for a in grid)
    given = x.astype(np.int32), m.astype(np.int32), s.astype(np.uint32)
    y = run("piecewise.prelu_codes", *given, dims=(len(x),))

    def prelu(v: int, factor: int, shift: int) -> int:
        return nearest(Fraction(v * factor, 2**shift)) if v < 0 else v

    rows = list(zip(x.tolist(), m.tolist(), s.tolist(), strict=True))
    assert y.tolist() == [prelu(*row) for row in rows]
    after = before[::-1].astype(np.int32)
    z = run("piecewise.rprelu_codes", given[0], before.astype(np.int32), given[1], given[2], after, dims=(len(x),))
    shifted = zip(rows, before.tolist(), after.tolist(), strict=True)
    assert z.tolist() == [clamped(prelu(clamped(v - b), f, k) + a) for (v, f, k), b, a in shifted]


@pytest.mark.req("C022")
@pytest.mark.covers("piecewise.piecewise_codes")
def test_pieces_of_sums(run: Any) -> None:
    """All accumulators of a small range, a different curve in each channel."""
    c, k = 3, 4
    rng = np.random.default_rng(2)
    at = np.sort(rng.integers(-100, 100, (c, k)), axis=1).astype(np.int32)
    m, s = rng.integers(-90, 90, (c, k + 1)).astype(np.int32), rng.integers(0, 9, (c, k + 1)).astype(np.uint32)
    offset = rng.integers(-50, 50, (c, k + 1)).astype(np.int32)
    for value in (*range(-130, 131), -(2**31), 2**31 - 1):
        y = run("piecewise.piecewise_codes", np.full(c, value, np.int32), at, m, s, offset, dims=(c, k))
        for j in range(c):
            piece = int((value >= wide(at[j])).sum())
            scaled = nearest(Fraction(value * int(m[j, piece]), 2 ** int(s[j, piece])))
            assert int(y[j]) == clamped(scaled + int(offset[j, piece]))


FAULTS: list[tuple[str, str, Callable[[Any], None]]] = [
    ("sign[t](i8(x > high) - i8(x < low))", "sign[t](i8(x >= high) - i8(x < low))",
     lambda run: test_every_code(run, "i4")),
    ("let piece = [sum(u32(v >= row)) for", "let piece = [sum(u32(v > row)) for", test_pieces_of_sums),
    ("add_sat(prelu_codes(sub_sat(x, before)", "add_sat(prelu_codes(x - before", test_prelu_of_sums),
    ("select(x < 0.0, x * slope, x)", "max(x, x * slope)", test_floats),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(edited: Callable[..., Any], old: str, new: str, check: Callable[[Any], None]) -> None:
    with pytest.raises(AssertionError):
        check(edited("piecewise.btn", old, new))
