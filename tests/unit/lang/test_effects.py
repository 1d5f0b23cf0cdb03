"""Effects thread tokens, in the order of the program."""

import pytest
from btn_programs import codes, function, kinds, nodes

from bittern.graph.node import Function, walk
from bittern.types.values import Token, Tuple

STAMP = "fn stamp() -> u64 ! clock { now() }\n"


def order(made: Function) -> list[str]:
    """Return the effectful ops of a function, the first one first, by following its last token back."""
    result = made.result
    assert result.kind == "tuple"
    token, found = result.inputs[-1], []
    while token.kind != "param":
        (owner,) = token.inputs
        found.append(owner.kind)
        token = next(i for i in owner.inputs if isinstance(i.type, Token))
    return found[::-1]


@pytest.mark.req("K040")
def test_two_reads_of_a_clock_are_two_nodes() -> None:
    made = function("fn f() -> u64 ! clock { now() - now() }")
    assert kinds(made).count("now") == 2
    assert kinds(function("fn f(x: u64) -> u64 { (x + 1) - (x + 1) }")).count("add") == 1


def test_a_function_with_an_effect_takes_and_returns_its_token() -> None:
    made = function("fn f(path: u8[4]) -> u32 ! fs, clock {\n let n = now()\n write(path, bytes_of(n))\n}\n"
                    "fn bytes_of(n: u64) -> u8[1] { [wrap[u8](n)] }")  # fmt: skip
    assert made.effects == ("clock", "fs")
    assert [p.type for p in made.params[-2:]] == [Token("clock"), Token("fs")]
    assert isinstance(made.result.type, Tuple) and made.result.type.items[-2:] == (Token("clock"), Token("fs"))


def test_effects_follow_each_other_as_written() -> None:
    made = function(
        "fn f(a: u8[1], b: u8[1]) -> u32 ! fs {\n let x = write(a, b)\n let y = read(a, 4)\n write(b, y[0..1]) + x\n}"
    )
    assert order(made) == ["write", "read", "write"]


def test_arguments_are_effected_in_the_order_in_which_they_are_written() -> None:
    pair = "fn pair(a: u32, b: u8[4]) -> u32 { a + u32(b[0]) }\n"
    first = function(pair + "fn f(p: u8[1]) -> u32 ! fs { pair(write(p, p), b: read(p, 0)) }")
    second = function(pair + "fn f(p: u8[1]) -> u32 ! fs { pair(b: read(p, 0), a: write(p, p)) }")
    assert order(first) == ["write", "read"] and order(second) == ["read", "write"]


@pytest.mark.parametrize(
    "body",
    [
        "for i in 0..n with s = 0u64 { s + now() }",
        "while n > 3 limit 9 with n {\n  let t = now()\n  n - wrap[u32](t)\n }\n let s = 0u64",
        "if n > 3 { now() } else { 0 }",
        "if n > 3 { 0 } else { for i in 0..n with s = 1u64 { s + stamp() } }",
    ],
)
def test_bodies_carry_the_token(body: str) -> None:
    text = STAMP + f"fn f(n: u32) -> u64 ! clock {{\n let s = {body}\n s + now()\n}}"
    made = function(text)
    outer = [n for n in walk(made.result) if n.kind in ("for", "while", "if")]
    assert outer and any(isinstance(i.type, Token) for i in outer[0].inputs)
    assert order(made)[-1] == "now" and order(made)[0] == outer[0].kind


def test_a_branch_without_the_effect_gives_its_token_back() -> None:
    made = function("fn f(c: bit) -> u64 ! clock { if c { now() } else { 7 } }")
    (branch,) = [n for n in nodes(made) if n.kind == "if"]
    otherwise = branch["otherwise"]
    assert isinstance(otherwise, Function) and otherwise.result.inputs[-1].kind == "param"


@pytest.mark.req("K040")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("fn f() -> u64 { now() }", "E602"),
        (STAMP + "fn f() -> u64 { stamp() }", "E602"),
        (STAMP + "inline fn g() -> u64 { stamp() }\nfn f() -> u64 ! clock { g() }", "E602"),
        ("fn f() -> u8[4] ! clock { entropy(4) }", "E602"),
        ("fn f() -> u64[2] ! clock { [now() for i in 0..2] }", "E604"),
        ("fn f(n: u64) -> u64 ! clock { while now() < n limit 2 with n { n } }", "E604"),
        ("fn f() -> u64 ! time { 1 }", "E605"),
    ],
)
def test_a_pure_function_cannot_have_an_effect(text: str, code: str) -> None:
    assert codes(text) == [code]


def test_an_inline_function_threads_the_token_of_its_caller() -> None:
    made = function("inline fn g() -> u64 ! clock { now() - now() }\nfn f() -> u64 ! clock { g() + now() }")
    assert order(made) == ["now", "now", "now"]
