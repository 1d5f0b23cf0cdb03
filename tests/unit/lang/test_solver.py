"""Generic arguments and conditions on dimensions: what is shown is true for all sizes."""

from itertools import product

import pytest
from btn_programs import codes
from hypothesis import given, settings
from hypothesis import strategies as st

from bittern.lang.context import Generics
from bittern.lang.solver import prove
from bittern.types.dims import Dim, apply_facts, dim, symbol

N, M = symbol(0), symbol(1)
LEAVES = st.sampled_from([N, M, N, dim(1), dim(3), dim(32)])


def grown(inner: st.SearchStrategy[Dim]) -> st.SearchStrategy[Dim]:
    """Return dimensions made of smaller ones."""
    divisor = st.integers(1, 40)
    return st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a - b, inner, inner),
        st.builds(lambda a, b: a * b, inner, divisor),
        st.builds(lambda a, b: a // b, inner, divisor),
        st.builds(lambda a, b: a % b, inner, divisor),
    )


DIMS = st.recursive(LEAVES, grown, max_leaves=5)
SIZES = [*product((0, 1, 5, 31, 32, 97), (0, 1, 32))]


@settings(deadline=None)
@given(DIMS, DIMS, st.sampled_from(["<=", "<", "==", "!=", ">=", ">"]))
def test_what_is_shown_is_true(left: Dim, right: Dim, operator: str) -> None:
    outcome = prove(Generics(), (operator, left, right))
    if outcome is None:
        return
    for sizes in SIZES:
        a, b = left.value(sizes), right.value(sizes)
        truth = {"<=": a <= b, "<": a < b, "==": a == b, "!=": a != b, ">=": a >= b, ">": a > b}[operator]
        assert truth is outcome, (left, right, sizes)


@settings(deadline=None)
@given(DIMS, DIMS, DIMS, DIMS)
def test_what_is_shown_from_a_relation_is_true(left: Dim, right: Dim, less: Dim, more: Dim) -> None:
    outcome = prove(Generics(relations=(("<=", less, more),)), ("<=", left, right))
    for sizes in SIZES:
        if outcome is not None and less.value(sizes) <= more.value(sizes):
            assert (left.value(sizes) <= right.value(sizes)) is outcome


@pytest.mark.parametrize(
    ("operator", "left", "right"),
    [
        ("<=", N // 2, N),
        ("<=", N // 32 * 32, N),
        ("<=", N, (N + 31) // 32 * 32),
        ("<=", N % 32, N),
        ("<", N % 32, dim(32)),
        ("<=", N % 32 // 8 * 8, N % 32 // 4 * 4),
        ("<=", N, N + M),
        ("<", N, N + M + 1),
        ("!=", N, N + M + 1),
        ("==", N * 2, N + N),
    ],
)
def test_what_must_be_shown(operator: str, left: Dim, right: Dim) -> None:
    assert prove(Generics(), (operator, left, right)) is True


@pytest.mark.parametrize(("left", "right"), [(N, M), (N + 1, N * 2), (N // 2 + 1, N), (N * M, N)])
def test_what_cannot_be_told(left: Dim, right: Dim) -> None:
    assert prove(Generics(), ("<=", left, right)) is None


def test_facts_count() -> None:
    facts = ((N, dim(32)),)
    generics = Generics(facts=facts)
    assert prove(generics, ("==", N % 32, dim(0))) is True
    assert prove(generics, ("==", N % 8, dim(0))) is True
    assert prove(generics, ("==", apply_facts(N // 32 * 32, facts), N)) is True
    assert prove(generics, ("==", N % 64, dim(0))) is None


@pytest.mark.parametrize(
    ("head", "body", "found"),
    [
        ("fn f[n](x: f32[n]) -> f32[n]", "x[0..n]", []),
        ("fn f[n](x: f32[n]) -> f32[n / 2]", "x[n / 2..n / 2 * 2]", []),
        ("fn f[n, k](x: f32[n]) -> f32[k]", "x[0..k]", ["E405"]),
        ("fn f[n, k](x: f32[n]) -> f32[k] where k <= n", "x[0..k]", []),
        ("fn f[n, k](x: f32[n]) -> f32[k] where n >= k", "x[0..k]", []),
        ("fn f[n, k](x: f32[n]) -> f32[k] where k < n", "x[1..k + 1]", []),
        ("fn f[n, k](x: f32[n]) -> f32[k] where k <= n", "x[1..k + 1]", ["E405"]),
        ("fn f(x: f32[4]) -> f32[5]", "x[0..5]", ["E401"]),
        ("fn f[n](x: f32[n]) -> f32[n]", "dynamic_slice(x, 0, n)", []),
        ("fn f[n](x: f32[n]) -> f32[3]", "dynamic_slice(x, 0, 3)", ["E405"]),
        ("fn f[n](x: f32[n]) -> f32[n - 2, 3] where n >= 3", "windows(x, 3, 1, 1)", []),
        ("fn f[n](x: f32[n]) -> f32[n - 2, 3]", "windows(x, 3, 1, 1)", ["E405"]),
    ],
)
def test_parts_of_arrays_lie_inside(head: str, body: str, found: list[str]) -> None:
    assert codes(f"{head} {{ {body} }}\n") == found


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("g(x, y)", []),
        ("g(x, x)", []),
        ("g[4, 2](x, y)", []),
        ("g[4, 3](x, y)", ["E401"]),
        ("h(x)", []),
        ("h[2](x)", []),
        ("h[3](x)", ["E401"]),
        ("k()", ["E305"]),
        ("k[4]()", []),
        ("k[2, 2]()", ["E304"]),
    ],
)
def test_generic_arguments(call: str, found: list[str]) -> None:
    text = (
        "fn g[n, m](x: f32[n], y: f32[m]) -> f32 { x[0] + y[0] }\n"
        "fn h[n](x: f32[2 * n]) -> f32 { x[0] }\n"
        "fn k[n]() -> f32 { f32(n) }\n"
        f"fn f(x: f32[4], y: f32[2]) -> f32 {{ {call} }}\n"
    )
    assert codes(text) == found
