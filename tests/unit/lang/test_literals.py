"""Literals round once, whatever their length, and take the type of their context."""

from fractions import Fraction

import numpy as np
import pytest
from btn_programs import codes, run
from hypothesis import given
from hypothesis import strategies as st

from bittern.lang.literals import number_value, round_to
from bittern.types.elements import F32, F64


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.sampled_from([-1, 0, 1]), st.integers(25, 400))
def test_f32_is_the_nearest_ties_to_even(value: float, side: int, far: int) -> None:
    start = np.float32(value)
    after = np.nextafter(start, np.float32(np.inf))
    if not np.isfinite(after):
        return
    middle = (Fraction(float(start)) + Fraction(float(after))) / 2
    even = start if int(start.view(np.uint32)) % 2 == 0 else after
    wanted = {-1: start, 0: even, 1: after}[side]
    assert round_to(middle + side * abs(middle) / Fraction(2) ** far, F32) == wanted or middle == 0


@given(st.fractions())
def test_f64_is_the_nearest(value: Fraction) -> None:
    found = Fraction(float(round_to(value, F64)))
    below, above = np.nextafter(float(found), -np.inf), np.nextafter(float(found), np.inf)
    assert abs(found - value) <= min(abs(Fraction(below) - value), abs(Fraction(above) - value))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Fraction(2) ** 128 - Fraction(2) ** 103, np.inf),
        (Fraction(2) ** 128 - Fraction(2) ** 103 - 1, np.finfo(np.float32).max),
        (Fraction(2) ** -150, 0.0),
        (Fraction(2) ** -150 + Fraction(2) ** -400, np.float32(2.0**-149)),
        (Fraction(10) ** 400, np.inf),
        (-(Fraction(10) ** 400), -np.inf),
    ],
)
def test_the_ends_of_f32(value: Fraction, expected: float) -> None:
    assert round_to(value, F32) == np.float32(expected)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("007", 7),
        ("0x1f", 31),
        ("0x1p-3", Fraction(1, 8)),
        ("0x1.8p1", 3),
        ("1e-2", Fraction(1, 100)),
        ("2.5E3", 2500),
    ],
)
def test_the_value_of_a_number(text: str, value: Fraction) -> None:
    assert number_value(text) == value


@pytest.mark.parametrize(
    ("body", "result", "found"),
    [
        ("1 + x", "u8", []),
        ("x + (2 + 3)", "u8", []),
        ("min(x, 3)", "u8", []),
        ("select(x > 2, x, 0)", "u8", []),
        ("select(x > 2, 1, 0)", "u8", []),
        ("if x > 2 { 1 } else { x }", "u8", []),
        ("sum([1, x, 3])", "u8", []),
        ("sum(concat([x], fill(0, [3])))", "u8", []),
        ("sum([1 for _ in 0..3]) + x", "u8", []),
        ("[x, sum([1 for _ in 0..3])][0]", "u8", []),
        ("x + 256", "u8", ["E308"]),
        ("x + 1.0", "u8", ["E309"]),
        ("x << 9", "u8", []),
        ("-1", "i8", []),
        ("-128", "i8", []),
        ("-129", "i8", ["E308"]),
        ("x > 3", "bit", []),
        ("2 > 3", "bit", ["E307"]),
        ("2u8 > 3", "bit", []),
    ],
)
def test_what_gives_a_literal_its_type(body: str, result: str, found: list[str]) -> None:
    assert (
        codes(f"fn f(x: u8) -> {result} {{ {body} }}\n") == found[:1]
        or codes(f"fn f(x: u8) -> {result} {{ {body} }}\n") == found
    )


def test_storage_elements_have_no_literals() -> None:
    assert codes("fn f() -> f16 { 1.0 }") == codes("fn f() -> bf16 { 1.0 }") == ["E309"]
    assert run("fn f() -> f16 { round[f16](1.5f32) }") == np.float16(1.5)


@pytest.mark.parametrize("zero", ["0.0", "-0.0", "0x0p0", "-0x0p0", "-0.0f32", "f32(-0)"])
def test_the_sign_of_zero_is_kept(zero: str) -> None:
    assert np.signbit(run(f"fn f() -> f32 {{ {zero} }}")) == zero.replace("f32(", "").startswith("-")
