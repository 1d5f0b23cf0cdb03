"""Short programs that ask for something huge: refused by code, in time, without the memory they ask for."""

import time

import pytest

from bittern.lang.check import check_text
from bittern.types.dims import DimTooLargeError, symbol


def chain(first: str, line: str, last: str, count: int = 40) -> str:
    """Return lines in which each uses the one before twice: `{0}` is a line's number, `{1}` that of the one before."""
    return "\n".join([first, *(line.format(place, place - 1) for place in range(1, count)), last])


PROGRAMS = {
    "tuples": (
        chain("fn f(x: u32) -> u32 {\nlet a0 = (x, x)", "let a{0} = (a{1}, a{1})", "x }"),
        "E214",
    ),
    "structs": (
        chain("struct S0 { a: u32, b: u32 }", "struct S{0} {{ a: S{1}, b: S{1} }}", "fn f(x: S39) -> u32 { 1 }"),
        "E214",
    ),
    "inlined calls": (
        chain(
            "inline fn g0(x: u32) -> u32 { x + 1 }",
            "inline fn g{0}(x: u32) -> u32 {{ g{1}(g{1}(x)) }}",
            "fn f(x: u32) -> u32 { g39(x) }",
        ),
        "E215",
    ),
    "products": (
        f"fn f[a, b, c](x: f32[{' * '.join(['(a + b + c + 1)'] * 40)}]) -> f32 {{ 0.0 }}",
        "E407",
    ),
    "squares": (
        "fn g[n](x: f32[n]) -> f32[n * n + n + 1] { fill(0.0, [n * n + n + 1]) }\n"
        + chain("fn f[n](x: f32[n]) -> f32 {\nlet a0 = x", "let a{0} = g(a{1})", "sum(a39) }"),
        "E407",
    ),
    "quotients": (
        "fn g[n](x: f32[n]) -> f32[n / (n + 1)] { fill(0.0, [n / (n + 1)]) }\n"
        + chain("fn f[n](x: f32[n]) -> f32 {\nlet a0 = x", "let a{0} = g(a{1})", "sum(a39) }"),
        "E407",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_doubles_is_refused_in_time(name: str) -> None:
    text, code = PROGRAMS[name]
    start = time.process_time()
    found = {error.code for error in check_text(text, "program.btn")}
    assert code in found
    assert time.process_time() - start < 10, "bounded; each step would double it"


def test_an_unknown_name_that_is_met_often_is_looked_up_once() -> None:
    """Found by a fuzzer: each of 2^10 inlined calls looked for the type `x` in all files of the library."""
    text = chain(
        "inline fn g0(x: x) -> f32 { 1.0 }",
        "inline fn g{0}(x: f32) -> f32 {{ g{1}(x) + g{1}(x) }}",
        "fn f(x: f32) -> f32 { g10(x) }",
        11,
    )
    start = time.process_time()
    (error,) = check_text(text, "program.btn")
    assert error.code == "E201" and time.process_time() - start < 2


def test_programs_of_common_size_pass() -> None:
    tuples = chain("fn f(x: u32) -> u32 {\nlet a0 = (x, x)", "let a{0} = (a{1}, a{1})", "x }", 8)
    inlined = chain(
        "inline fn g0(x: u32) -> u32 { x + 1 }",
        "inline fn g{0}(x: u32) -> u32 {{ g{1}(g{1}(x)) }}",
        "fn f(x: u32) -> u32 { g8(x) }",
        9,
    )
    for text in (tuples, inlined, "fn f[a, b](x: f32[(a + b) * (a + b) * (a + 1)]) -> f32 { sum(x) }"):
        assert not check_text(text, "program.btn")


def test_dimensions_say_when_they_are_too_large() -> None:
    total = symbol(0) + symbol(1) + 1
    with pytest.raises(DimTooLargeError, match="terms"):
        for _ in range(40):
            total = total * total
    power = symbol(0)
    with pytest.raises(DimTooLargeError, match="factors"):
        for _ in range(40):
            power = power * power
    quotient = symbol(0)
    with pytest.raises(DimTooLargeError, match="quotient"):
        for _ in range(40):
            quotient = quotient // (quotient + 1)
