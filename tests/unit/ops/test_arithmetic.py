"""Arithmetic against Python's integers and fractions: exhaustive at 8 bits and below, edge-favouring above."""

import random
from collections.abc import Callable
from fractions import Fraction
from math import floor, inf, isinf, isnan, nan
from typing import Any

import numpy as np
import pytest
from op_cases import (
    NANS,
    SMALL,
    WIDE,
    array,
    canonical_codes,
    check_batching,
    clamped,
    codes_of,
    decoded,
    edgy,
    edgy_codes,
    encoded,
    evaluate,
    everything,
    from_codes,
    high,
    low,
    pairs,
    rejects,
    with_meaning,
    wrapped,
)

from bittern.ops.table import OPS
from bittern.types.dims import symbol
from bittern.types.elements import B1, BF16, BIT, ELEMENTS, F16, F32, F64, I8, I32, U8, U64, Element, T, open_element
from bittern.types.faults import ELEMENT_MISMATCH, ELEMENT_UNFIT, RANK_UNFIT, SHAPE_MISMATCH
from bittern.types.values import Tensor, Tuple, tensor


def quotient(x: int, y: int) -> int:
    if y == 0:
        return 0
    size = abs(x) // abs(y)
    return size if (x < 0) == (y < 0) else -size


BINARY: dict[str, Callable[[Element, int, int], int]] = {
    "add": lambda e, x, y: wrapped(e, x + y),
    "sub": lambda e, x, y: wrapped(e, x - y),
    "mul": lambda e, x, y: wrapped(e, x * y),
    "div": lambda e, x, y: wrapped(e, quotient(x, y)),
    "rem": lambda e, x, y: wrapped(e, x - quotient(x, y) * y),
    "min": lambda e, x, y: x if x < y else y,
    "max": lambda e, x, y: x if x > y else y,
    "add_sat": lambda e, x, y: clamped(e, x + y),
    "sub_sat": lambda e, x, y: clamped(e, x - y),
    "mul_high": lambda e, x, y: wrapped(e, x * y >> int(e.name[1:])),
}
UNARY: dict[str, Callable[[Element, int], int]] = {
    "neg": lambda e, x: wrapped(e, -x),
    "abs": lambda e, x: wrapped(e, abs(x)),
}
FLOATS = [F32, F64]


def check_binary(name: str, e: Element, left: list[int], right: list[int]) -> None:
    got = evaluate(name, [e, e], array(e, left), array(e, right)).tolist()
    meant = BINARY[name]
    for x, y, value in zip(left, right, got, strict=True):
        assert value == meant(e, x, y), (name, e.name, x, y, value)


@pytest.mark.parametrize("name", BINARY)
def test_all_pairs_of_small_integers(name: str) -> None:
    """Every width of 2 to 8 bits, signed and unsigned, all pairs."""
    for e in SMALL:
        check_binary(name, e, *pairs(e))


@pytest.mark.parametrize("name", BINARY)
def test_edges_of_wide_integers(name: str) -> None:
    for e in WIDE:
        corners = [low(e), low(e) + 1, 0, 1, high(e) - 1, high(e)] + ([-1] if e.name[0] == "i" else [])
        left = edgy(e, 600, 1) + [x for x in corners for _ in corners]
        check_binary(name, e, left, edgy(e, 600, 2) + corners * len(corners))


@pytest.mark.parametrize("name", UNARY)
def test_unary_on_integers(name: str) -> None:
    for e in SMALL + WIDE:
        values = everything(e) if e in SMALL else [low(e), low(e) + 1, high(e), *edgy(e, 400, 3)]
        assert evaluate(name, [e], array(e, values)).tolist() == [UNARY[name](e, x) for x in values], e.name


def test_division_of_every_i16() -> None:
    """EDGE_CASES A8: 110 / 55 is 2 rest 0, and so for every i16 over divisors of both signs."""
    e = ELEMENTS["i16"]
    assert evaluate("div", [e, e], array(e, [110]), array(e, [55])).tolist() == [2]
    assert evaluate("rem", [e, e], array(e, [110]), array(e, [55])).tolist() == [0]
    x = np.arange(-32768, 32768)
    for y in (-32768, -32767, -255, -55, -10, -7, -3, -2, -1, 0, 1, 2, 3, 7, 10, 55, 128, 255, 32767):
        divisor = array(e, [y])
        div = evaluate("div", [e, e], x.astype(np.int16)[:, None], divisor[None, :].repeat(65536, 0))[:, 0]
        rem = evaluate("rem", [e, e], x.astype(np.int16)[:, None], divisor[None, :].repeat(65536, 0))[:, 0]
        size = np.abs(x) // abs(y) if y else x * 0
        expected = np.where((x < 0) == (y < 0), size, -size)
        assert np.array_equal(div, np.where(expected == 32768, -32768, expected)), y
        assert np.array_equal(rem, x - expected * y), y


def test_ceiling_division_at_the_edges() -> None:
    """EDGE_CASES A11: the steps of (x + y - 1) / y give what wrapped integers give, also at the bounds of i32."""
    pair = [I32, I32]

    def ceil_div(x: int, y: int) -> int:
        less = evaluate("sub", pair, array(I32, [y]), array(I32, [1]))
        total = evaluate("add", pair, array(I32, [x]), less)
        return int(evaluate("div", pair, total, array(I32, [y]))[0])

    assert ceil_div(24, 10) == 3
    for x in (low(I32), low(I32) + 1, -1, 0, 1, high(I32) - 1, high(I32)):
        for y in (low(I32), -1, 0, 1, 2, high(I32)):
            assert ceil_div(x, y) == wrapped(I32, quotient(wrapped(I32, x + wrapped(I32, y - 1)), y)), (x, y)


def test_products_of_signs() -> None:
    for e, values in ((B1, [-1, 1]), (T, [-1, 0, 1])):
        left, right = [x for x in values for _ in values], values * len(values)
        got = evaluate("mul", [e, e], np.array(left, np.int8), np.array(right, np.int8))
        assert got.tolist() == [x * y for x, y in zip(left, right, strict=True)]


# --- floats


def exact(name: str, x: Fraction, y: Fraction) -> Fraction:
    return {"add": x + y, "sub": x - y, "mul": x * y}[name] if name != "div" else x / y


@pytest.mark.parametrize("e", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_floats_round_once(name: str, e: Element) -> None:
    """Finite operands, also subnormal ones, whose result is no zero: the nearest float of the exact value."""
    left, right = edgy_codes(e, 1500, 4), edgy_codes(e, 1500, 5)
    left += [c ^ 1 for c in left[:300]]
    right += left[:300]  # cancellation
    got = codes_of(e, evaluate(name, [e, e], from_codes(e, left), from_codes(e, right)))
    seen = 0
    for a, b, code in zip(left, right, got, strict=True):
        x, y = decoded(e, a), decoded(e, b)
        if not isinstance(x, Fraction) or not isinstance(y, Fraction) or (name == "div" and y == 0):
            continue
        value = exact(name, x, y)
        if value:
            seen += 1
            assert code == encoded(e, value), (name, hex(a), hex(b), hex(code))
    assert seen > 500


@pytest.mark.parametrize("e", FLOATS, ids=str)
def test_floats_beyond_the_finite(e: Element) -> None:
    """IEEE 754, 6.1 to 6.3 and 7.3: infinities, invalid operations, division by zero, signs of zero."""
    table: list[tuple[str, float, float, float]] = [
        ("add", inf, -inf, nan), ("add", inf, inf, inf), ("add", inf, 1.0, inf), ("add", nan, 1.0, nan),
        ("add", 0.0, -0.0, 0.0), ("add", -0.0, -0.0, -0.0), ("add", 1.5, -1.5, 0.0),
        ("sub", inf, inf, nan), ("sub", 0.0, 0.0, 0.0), ("sub", -0.0, 0.0, -0.0), ("sub", 1.0, inf, -inf),
        ("mul", inf, 0.0, nan), ("mul", -0.0, inf, nan), ("mul", -1.0, 0.0, -0.0), ("mul", -0.0, -3.0, 0.0),
        ("mul", inf, -2.0, -inf), ("div", 1.0, 0.0, inf), ("div", -1.0, 0.0, -inf), ("div", 1.0, -0.0, -inf),
        ("div", 0.0, 0.0, nan), ("div", inf, inf, nan), ("div", 1.0, -inf, -0.0), ("div", 0.0, -5.0, -0.0),
    ]  # fmt: skip
    for name, x, y, value in table:
        got = evaluate(name, [e, e], np.array([x], e.storage), np.array([y], e.storage))
        assert canonical_codes(e, got) == canonical_codes(e, np.array([value], e.storage)), (name, x, y, got)


@pytest.mark.parametrize("e", FLOATS, ids=str)
def test_min_max_are_selections(e: Element) -> None:
    """max(a, b) = a if a > b else b, bit for bit: NaN payloads and zeros of both signs give b."""
    width = int(e.name[1:])
    sign, nan_code = 1 << (width - 1), NANS[e.name]
    special = [0, sign, nan_code, nan_code | 5, nan_code | sign, 1, 1 | sign, nan_code & ~(nan_code & -nan_code)]
    special += edgy_codes(e, 30, 6)
    left, right = [x for x in special for _ in special], special * len(special)
    for name in ("min", "max"):
        got = codes_of(e, evaluate(name, [e, e], from_codes(e, left), from_codes(e, right)))
        for a, b, code in zip(left, right, got, strict=True):
            x, y = decoded(e, a), decoded(e, b)
            first = x > y if name == "max" else x < y
            assert code == (a if first else b), (name, hex(a), hex(b))


@pytest.mark.parametrize("e", FLOATS, ids=str)
def test_neg_and_abs_change_the_sign_bit_alone(e: Element) -> None:
    codes = edgy_codes(e, 500, 7)
    sign = 1 << (int(e.name[1:]) - 1)
    assert codes_of(e, evaluate("neg", [e], from_codes(e, codes))) == [c ^ sign for c in codes]
    assert codes_of(e, evaluate("abs", [e], from_codes(e, codes))) == [c & ~sign for c in codes]


@pytest.mark.parametrize("e", FLOATS, ids=str)
def test_sqrt_is_the_nearest(e: Element) -> None:
    """The root lies within half a unit on both sides, by squares of fractions."""
    codes = edgy_codes(e, 1200, 8)
    got = evaluate("sqrt", [e], from_codes(e, codes))
    for code, result in zip(codes, canonical_codes(e, got), strict=True):
        x = decoded(e, code)
        if isinstance(x, Fraction) and x > 0:
            below, value, above = (decoded(e, result + step) for step in (-1, 0, 1))
            assert isinstance(below, Fraction) and isinstance(value, Fraction) and isinstance(above, Fraction)
            assert ((below + value) / 2) ** 2 <= x <= ((value + above) / 2) ** 2, hex(code)
        elif x == 0:
            assert result == code
        else:
            assert result == (code if x == inf else NANS[e.name]), hex(code)


WHOLE: dict[str, Callable[[Fraction], int]] = {
    "round_even": round,
    "floor": floor,
    "ceil": lambda x: -floor(-x),
    "trunc": int,
}


@pytest.mark.parametrize("e", FLOATS, ids=str)
@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers(name: str, e: Element) -> None:
    """At any magnitude; zeros keep the operand's sign (round(-0.3) = -0). EDGE_CASES B11, the modes that are ops."""
    rng = random.Random(9)
    reals = [s * (k + part) for s in (1, -1) for k in (0, 1, 2, 3, 2**22, 2**23 - 1) for part in (0.5, 0.25, 0.75)]
    reals += [s * v for s in (1, -1) for v in (1.1, 1.6, 0.3, 8388607.5, 8388609.0, 1e30, 4503599627370495.5)]
    reals += [rng.uniform(-40, 40) for _ in range(300)]
    codes = codes_of(e, np.array(reals, e.storage)) + edgy_codes(e, 600, 10)
    got = codes_of(e, evaluate(name, [e], from_codes(e, codes)))
    sign = 1 << (int(e.name[1:]) - 1)
    for code, result in zip(codes, got, strict=True):
        x = decoded(e, code)
        if isinstance(x, Fraction):
            assert result == encoded(e, Fraction(WHOLE[name](x)), negative=bool(code & sign)), (name, hex(code))
        elif isinf(x):
            assert result == code
        else:
            assert isnan(decoded(e, result))


# --- batches, ideal evaluation, types


@pytest.mark.parametrize("name", [*BINARY, *UNARY, *WHOLE, "sqrt"])
def test_batches(name: str) -> None:
    arity = 2 if name in BINARY else 1
    whole_only = name in ("rem", "add_sat", "sub_sat", "mul_high")
    elements = [] if name in WHOLE or name == "sqrt" else [ELEMENTS["i4"], U8, I32, U64]
    for e in elements:
        check_batching(name, [e] * arity, [edgy(e, 50, 11 + i) for i in range(arity)])
    for e in [] if whole_only else FLOATS:
        check_batching(name, [e] * arity, [edgy_codes(e, 50, 13 + i) for i in range(arity)])


def test_ideal_is_plain_float64() -> None:
    """Floats are not rounded to their element, and reals may stand for integers."""
    third = np.array([1 / 3])
    for e in (F32, F64, I8):
        for name, value in (("add", 2 / 3), ("mul", (1 / 3) * (1 / 3)), ("div", 1.0), ("sub", 0.0), ("max", 1 / 3)):
            got = evaluate(name, [e, e], third, third, ideal=True)
            assert got.dtype == np.float64 and got.tolist() == [value], (e, name)
    assert evaluate("neg", [I8], third, ideal=True).tolist() == [-1 / 3]
    mixed = evaluate("mul", [I32, I32], np.array([2**30], np.int32), np.array([8.0]), ideal=True)
    assert mixed.tolist() == [float(2**33)]
    whole = evaluate("add", [I8, I8], np.array([127], np.int8), np.array([1], np.int8), ideal=True)
    assert whole.dtype == np.int8 and whole.tolist() == [-128]
    assert evaluate("sqrt", [F32], np.array([4], np.int8), ideal=True).dtype == np.float64


def test_types() -> None:
    n = symbol(0)
    a, b = Tensor(F32, (n * 2,)), Tensor(F32, (n + n,))
    assert OPS["add"].rule((a, b), {}) == a
    assert OPS["mul"].rule((tensor(T, 3), tensor(T, 3)), {}) == tensor(T, 3)
    assert OPS["add"].rule((Tensor(F32, (), "device"), Tensor(F32)), {}) == Tensor(F32, (), "device")
    for kind in ("type", "int", "float"):
        e = Tensor(open_element("e", kind), (n,))
        assert OPS["add"].rule((e, e), {}) == e
    fault = rejects("add", [Tensor(F32, (n,)), Tensor(F32, (n + 1,))], "{0}", "{1}")
    assert fault.code == SHAPE_MISMATCH and fault.dims == (n + 1, n)
    assert rejects("add", [tensor(F32, 3), tensor(F32)], "broadcast").code == RANK_UNFIT
    assert rejects("add", [tensor(F32), tensor(F64)], "`f64`", "`f32`").code == ELEMENT_MISMATCH
    assert rejects("add", [tensor(F16), tensor(F16)], "storage only", "f32(x)").code == ELEMENT_UNFIT
    rejects("mul", [tensor(BF16), tensor(BF16)], "storage only")
    rejects("add", [tensor(B1), tensor(B1)], "`*` and `dot` only")
    rejects("add", [tensor(BIT), tensor(BIT)], "i32(x)")
    rejects("rem", [tensor(F32), tensor(F32)], "an integer")
    rejects("sqrt", [tensor(I32)], "`f32` or `f64`")
    rejects("sqrt", [tensor(open_element("k", "int"))], "`f32` or `f64`")
    rejects("add", [tensor(F32)], "1 operands")
    rejects("add", [Tuple((tensor(F32),)), tensor(F32)], "(f32)")  # type: ignore[list-item]
    rejects("add", [Tensor(F32, (), "device"), Tensor(F32, (), "host")], "`move`")
    weight = tensor(open_element("weight", "format"), 4, 4)
    rejects("add", [weight, weight], "decode")


# --- planted faults


def _plain(name: str) -> Any:
    operation = {"add": np.add, "max": np.maximum, "div": np.floor_divide, "rem": np.remainder}[name]
    return lambda site, x, y: operation(x, y)


def _by_magic_number(site: Any, x: Any) -> Any:
    return (x + np.float32(12582912)) - np.float32(12582912)


FAULTS: list[tuple[str, Any, Callable[[], None]]] = [
    ("add", _plain("add"), lambda: check_binary("add", ELEMENTS["i7"], *pairs(ELEMENTS["i7"]))),
    ("div", _plain("div"), lambda: check_binary("div", I8, *pairs(I8))),
    ("rem", _plain("rem"), lambda: check_binary("rem", I8, *pairs(I8))),
    ("max", _plain("max"), lambda: test_min_max_are_selections(F32)),
    (
        "mul",
        lambda s, x, y: np.multiply(x.astype("f8"), y).astype("f2").astype("f4"),
        lambda: test_floats_round_once("mul", F32),
    ),
    ("add", lambda s, x, y: np.where(np.abs(x + y) < 2.0**-126, 0, x + y), lambda: test_floats_round_once("add", F32)),
    (
        "round_even",
        lambda s, x: (x + np.float32(12582912)) - np.float32(12582912),
        lambda: test_whole_numbers("round_even", F32),
    ),
    ("floor", lambda s, x: np.floor(x) + np.float32(0), lambda: test_whole_numbers("floor", F32)),
    ("mul_high", lambda s, x, y: np.zeros_like(x), lambda: test_edges_of_wide_integers("mul_high")),
    ("add_sat", _plain("add"), lambda: test_edges_of_wide_integers("add_sat")),
    ("sub", lambda s, x, y: np.subtract(x, y[::-1]), lambda: test_batches("sub")),
]


@pytest.mark.parametrize("place", range(len(FAULTS)))
def test_planted_faults_are_found(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    name, wrong, check = FAULTS[place]
    with_meaning(monkeypatch, name, wrong)
    with pytest.raises(AssertionError):
        check()
