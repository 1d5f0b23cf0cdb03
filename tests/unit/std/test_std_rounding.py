"""Rounding and saturation: every mode against exact fractions; 8-bit words over all inputs and all pairs."""

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from std_oracle import f32, same_bits

from bittern.std.rounding_modes import MODES

BYTES = np.arange(-128, 128, dtype=np.int8)
A, B = (v.ravel() for v in np.meshgrid(BYTES, BYTES, indexing="ij"))


def half_away(x: Fraction) -> int:
    """To the nearest, ties away from zero."""
    return int(math.copysign(1, x)) * math.floor(abs(x) + Fraction(1, 2))


def half_trunc(x: Fraction) -> int:
    """To the nearest, ties towards zero."""
    return int(math.copysign(1, x)) * math.ceil(abs(x) - Fraction(1, 2))


def away(x: Fraction) -> int:
    """Away from zero."""
    return math.ceil(x) if x > 0 else math.floor(x)


EXACT: dict[str, Callable[[Fraction], int]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "away": away,
    "half_even": round,
    "half_ceil": lambda x: math.floor(x + Fraction(1, 2)),
    "half_floor": lambda x: math.ceil(x - Fraction(1, 2)),
    "half_away": half_away,
    "half_trunc": half_trunc,
}


def rounded(run: Any, mode: str, x: Any) -> Any:
    """Round floats with a mode: the function of the library, or the op where it is one."""
    how = MODES[mode].whole
    if "." not in how:
        return run.text(f"fn rows[n](x: f32[n]) -> f32[n] {{ {how}(x) }}", "rows", x, dims=(len(x),))
    return run.rows(how, "f32 -> f32", x)


def shifted(run: Any, mode: str, element: str, x: Any, count: Any) -> Any:
    """The same for the division by a power of two."""
    how = MODES[mode].shift
    if "." not in how:
        text = f"fn rows[n](x: {element}[n], s: u32[n]) -> {element}[n] {{ x >> s }}"
        return run.text(text, "rows", x, count, dims=(len(x),))
    return run.rows(how, f"{element}, u32 -> {element}", x, count)


# The rows: what 2.5, 1.5, 0.5, 1.1, 1.6 and their negatives become.
TABLE = {
    "half_even": [2, 2, 0, 1, 2, -2, -2, -0.0, -1, -2],
    "ceil": [3, 2, 1, 2, 2, -2, -1, -0.0, -1, -1],
    "floor": [2, 1, 0, 1, 1, -3, -2, -1, -2, -2],
    "away": [3, 2, 1, 2, 2, -3, -2, -1, -2, -2],
    "trunc": [2, 1, 0, 1, 1, -2, -1, -0.0, -1, -1],
    "half_away": [3, 2, 1, 1, 2, -3, -2, -1, -1, -2],
    "half_trunc": [2, 1, 0, 1, 2, -2, -1, -0.0, -1, -2],
    "half_ceil": [3, 2, 1, 1, 2, -2, -1, -0.0, -1, -2],
    "half_floor": [2, 1, 0, 1, 2, -3, -2, -1, -1, -2],
}


@pytest.mark.covers("rounding.round_away", "rounding.round_half_away", "rounding.round_half_trunc")
@pytest.mark.covers("rounding.round_half_ceil", "rounding.round_half_floor")
def test_edge_case_b11_every_rounding_name_means_one_thing(run: Any) -> None:
    """EDGE_CASES B11: nine modes, ten numbers."""
    assert set(TABLE) == set(MODES) == set(EXACT)
    x = np.array([2.5, 1.5, 0.5, 1.1, 1.6], f32)
    for mode, expected in TABLE.items():
        same_bits(rounded(run, mode, np.concatenate([x, -x])), np.array(expected, f32))


@pytest.mark.covers("rounding.round_away", "rounding.round_half_away", "rounding.round_half_trunc")
@pytest.mark.covers("rounding.round_half_ceil", "rounding.round_half_floor")
def test_float_modes(run: Any) -> None:
    rng = np.random.default_rng(1)
    whole = rng.integers(-(2**23), 2**23, 300)
    x = np.concatenate(
        [rng.normal(size=300) * 10.0 ** rng.integers(-3, 9, 300), whole + 0.5, whole / 4, np.arange(-8, 8) / 2]
    ).astype(f32)
    x = np.concatenate([x, np.nextafter(f32(0.5), f32(0))[None], np.nextafter(f32(-0.5), f32(-1))[None]])
    for mode, exact in EXACT.items():
        y = rounded(run, mode, x)
        assert [int(v) for v in y] == [exact(Fraction(float(v))) for v in x], mode
        assert np.array_equal(np.signbit(y)[y == 0], np.signbit(x)[y == 0]), mode
        special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 3e38, -3e38], f32)
        same_bits(rounded(run, mode, special), special)


@pytest.mark.covers("rounding.shift_ceil", "rounding.shift_trunc", "rounding.shift_away", "rounding.shift_half_even")
@pytest.mark.covers("rounding.shift_half_ceil", "rounding.shift_half_away", "rounding.shift_half_trunc")
@pytest.mark.covers("rounding.dropped", "rounding.shift_half_floor")
def test_every_shift_of_every_byte(run: Any) -> None:
    wide = np.array([0, 1, -1, 3, -3, 5, -5, 2**62, -(2**62), 2**63 - 1, -(2**63), 2**53 + 1, 2**31 - 1], np.int64)
    for s in range(8):
        count = np.full(256, s, np.uint32)
        rest = [v % 2**s * 2 for v in BYTES.tolist()]
        expected = [0 if r == 0 else 1 + (r >= 2**s) + (r > 2**s) for r in rest]
        assert run.rows("rounding.dropped", "i8, u32 -> u32", BYTES, count).tolist() == expected
        for mode, exact in EXACT.items():
            got = shifted(run, mode, "i8", BYTES, count)
            assert got.tolist() == [exact(Fraction(v, 2**s)) for v in BYTES.tolist()], (mode, s)
    for s in (0, 1, 2, 31, 40, 62, 63):
        for mode, exact in EXACT.items():
            got = shifted(run, mode, "i64", wide, np.full(len(wide), s, np.uint32))
            assert got.tolist() == [exact(Fraction(v, 2**s)) for v in wide.tolist()], (mode, s)


@pytest.mark.covers("rounding.divide_floor", "rounding.modulo_floor", "rounding.divide_ceil")
@pytest.mark.covers("rounding.divide_half_even")
def test_edge_case_a8_every_quotient_of_bytes(run: Any) -> None:
    """EDGE_CASES A8: 110 / 55 = 2, 110 % 55 = 0; and all pairs of 8 bits, both signs, for each kind of division."""
    pairs = list(zip(A.tolist(), B.tolist(), strict=True))

    def compare(call: str, exact: Callable[[int, int], int]) -> None:
        text = f"use rounding\nfn rows[n](a: i8[n], b: i8[n]) -> i8[n] {{ [{call} for a, b in a, b] }}\n"
        got = run.text(text, "rows", A, B, dims=(len(A),))
        assert got.tolist() == [exact(a, b) for a, b in pairs], call

    def wrapped(x: int) -> int:
        return (x + 128) % 256 - 128

    compare("a / b", lambda a, b: wrapped(math.trunc(Fraction(a, b))) if b else 0)
    compare("a % b", lambda a, b: a - b * math.trunc(Fraction(a, b)) if b else a)
    compare("divide_floor(a, b)", lambda a, b: wrapped(a // b) if b else 0)
    compare("modulo_floor(a, b)", lambda a, b: a % b if b else a)
    compare("divide_ceil(a, b)", lambda a, b: wrapped(-(-a // b)) if b else 0)
    compare("divide_half_even(a, b)", lambda a, b: wrapped(round(Fraction(a, b))) if b else 0)
    number = np.array([110], np.int32), np.array([55], np.int32)
    assert run.rows("rounding.divide_floor", "i32, i32 -> i32", *number).tolist() == [2]
    assert run.rows("rounding.modulo_floor", "i32, i32 -> i32", *number).tolist() == [0]


@pytest.mark.covers("rounding.divide_ceil", "rounding.divide_floor", "rounding.divide_half_even")
def test_edge_case_a11_division_at_the_ends_of_the_range(run: Any) -> None:
    """EDGE_CASES A11: ceil(24 / 10) = 3, and nothing overflows inside near the least and greatest numbers."""
    edges = [-(2**31), -(2**31) + 1, -(2**31) + 9, -11, -10, -1, 1, 2, 9, 10, 11, 24, 2**31 - 10, 2**31 - 1]
    a, b = (np.array(v, np.int32) for v in zip(*[(x, y) for x in edges for y in edges], strict=True))
    for name, exact in (("floor", operator.floordiv), ("ceil", lambda x, y: -(-x // y)), ("half_even", None)):
        got = run.rows(f"rounding.divide_{name}", "i32, i32 -> i32", a, b).tolist()
        whole = exact or (lambda x, y: round(Fraction(x, y)))
        assert got == [(whole(x, y) + 2**31) % 2**32 - 2**31 for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert (
        run.rows("rounding.divide_ceil", "i32, i32 -> i32", np.array([24], np.int32), np.array([10], np.int32))[0] == 3
    )


@pytest.mark.covers("rounding.requantise_half_even", "rounding.requantise_half_ceil", "rounding.requantise_half_away")
def test_edge_case_a5_requantisation_rounds_once(run: Any) -> None:
    """EDGE_CASES A5: 7984 * 1583594044 / 2^40 = 11.499 is 11; two roundings give 12. And all neighbours."""
    x = np.arange(7984 - 2000, 7984 + 2000, dtype=np.int32)
    for sign in (1, -1):
        for multiplier in range(1583594044 - 2, 1583594044 + 3):
            given = (sign * x, np.full(len(x), multiplier, np.int32), np.full(len(x), 40, np.uint32))
            for mode in ("half_even", "half_ceil", "half_away"):
                got = run.rows(f"rounding.requantise_{mode}", "i32, i32, u32 -> i32", *given).tolist()
                assert got == [EXACT[mode](Fraction(sign * int(v) * multiplier, 2**40)) for v in x]
    assert int(run("rounding.requantise_half_even", np.int32(7984), np.int32(1583594044), np.uint32(40))) == 11
    assert (
        int(run("rounding.requantise_half_even", np.int32(2**31 - 1), np.int32(2**31 - 1), np.uint32(9))) == 2**31 - 1
    )
    assert int(run("rounding.requantise_half_away", np.int32(-(2**31)), np.int32(2**31 - 1), np.uint32(9))) == -(2**31)


@pytest.mark.covers("saturate.mul_sat")
def test_saturating_products(run: Any) -> None:
    unsigned = A.view(np.uint8), B.view(np.uint8)
    for kind, pair in (("i8", (A, B)), ("u8", unsigned)):
        low, high = (-128, 127) if kind == "i8" else (0, 255)
        got = run.rows("saturate.mul_sat", f"{kind}, {kind} -> {kind}", *pair)
        assert np.array_equal(got, np.clip(pair[0].astype(int) * pair[1], low, high))
    for kind, dtype in (("i16", np.int16), ("i32", np.int32), ("u32", np.uint32)):
        info = np.iinfo(dtype)
        edges = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 181, 182, 46340, 46341, 65535, 65536]
        edges = [v for v in edges if v <= info.max]
        a, b = (np.array(v, dtype) for v in zip(*[(x, y) for x in edges for y in edges], strict=True))
        got = run.rows("saturate.mul_sat", f"{kind}, {kind} -> {kind}", a, b).tolist()
        assert got == [min(max(x * y, info.min), info.max) for x, y in zip(a.tolist(), b.tolist(), strict=True)]


def clamped(x: int) -> int:
    """To 8 signed bits."""
    return min(max(x, -128), 127)


@pytest.mark.covers("saturate.neg_sat", "saturate.abs_sat", "saturate.div_sat", "saturate.shl_sat", "saturate.sum_sat")
def test_saturating_words_over_all_bytes(run: Any) -> None:
    items = BYTES.tolist()
    assert run.rows("saturate.neg_sat", "i8 -> i8", BYTES).tolist() == [clamped(-v) for v in items]
    assert run.rows("saturate.abs_sat", "i8 -> i8", BYTES).tolist() == [clamped(abs(v)) for v in items]
    got = run.rows("saturate.div_sat", "i8, i8 -> i8", A, B).tolist()
    assert got == [clamped(math.trunc(Fraction(a, b))) if b else 0 for a, b in zip(A.tolist(), B.tolist(), strict=True)]
    for s in (0, 1, 2, 3, 6, 7, 8, 40):
        got = run.rows("saturate.shl_sat", "i8, u32 -> i8", BYTES, np.full(256, s, np.uint32)).tolist()
        assert got == [clamped(v << s) for v in items]
    unsigned = BYTES.view(np.uint8)
    got = run.rows("saturate.shl_sat", "u8, u32 -> u8", unsigned, np.full(256, 3, np.uint32)).tolist()
    assert got == [min(v << 3, 255) for v in unsigned.tolist()]
    rows = np.stack([A, B, A[::-1]], 1)
    got = run.rows("saturate.sum_sat", "i8[3] -> i8", rows).tolist()
    assert got == [clamped(clamped(a + b) + c) for a, b, c in rows.tolist()]


FAULTS = [
    ("rounding.btn", "sat[i32](shift_half_even(i64(x) * i64(multiplier), s))",
     "sat[i32](shift_half_even(shift_half_even(i64(x) * i64(multiplier), 31), s - 31))",
     test_edge_case_a5_requantisation_rounds_once),
    ("rounding.btn", "select(abs(x - low) > 0.5", "select(abs(x - low) >= 0.5",
     test_edge_case_b11_every_rounding_name_means_one_thing),
    ("rounding.btn", "rest < spare or rest == spare and q & 1 == 1", "rest <= spare",
     test_edge_case_a8_every_quotient_of_bytes),
    ("rounding.btn", "rest == 3 or rest == 2 and x >> s & 1 == 1", "rest >= 2", test_every_shift_of_every_byte),
    ("saturate.btn", "select(b == -1, neg_sat(a), a / b)", "a / b", test_saturating_words_over_all_bytes),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(
    edited: Callable[..., Any], file: str, old: str, new: str, check: Callable[[Any], None]
) -> None:
    with pytest.raises(AssertionError):
        check(edited(file, old, new))
