"""Dimension algebra against plain integers: every law is checked by evaluating at random naturals."""

import pickle
import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import FrozenInstanceError

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from bittern.types.dims import Dim, Ratio, apply_facts, dim, symbol

SYMBOLS = 3
NAMES = ("n", "m", "k")
naturals = st.lists(st.integers(1, 10**6), min_size=SYMBOLS, max_size=SYMBOLS)

Tree = int | tuple[str, "Tree", "Tree"]  # the expression as written: a negative leaf -1 - i is symbol i


def trees(divisors: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    leaves = st.integers(-SYMBOLS, 40)

    def grow(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        return st.one_of(
            st.tuples(st.sampled_from("+-*"), inner, inner),
            st.tuples(st.sampled_from("/%"), inner, divisors),
        )

    return st.recursive(leaves, grow, max_leaves=8)


CONSTANTS = st.integers(1, 64)
any_tree = trees(st.one_of(CONSTANTS, st.integers(-SYMBOLS, -1)))
constant_tree = trees(CONSTANTS)


def build(tree: Tree) -> Dim:
    if isinstance(tree, int):
        return dim(tree) if tree >= 0 else symbol(-1 - tree)
    left, right = build(tree[1]), build(tree[2])
    return {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "/": lambda: left // right,
        "%": lambda: left % right,
    }[tree[0]]()


def number(tree: Tree, values: Sequence[int]) -> int:
    if isinstance(tree, int):
        return tree if tree >= 0 else values[-1 - tree]
    left, right = number(tree[1], values), number(tree[2], values)
    return {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "/": lambda: left // right,
        "%": lambda: left % right,
    }[tree[0]]()


@settings(deadline=None)
@given(any_tree, naturals)
def test_value_is_integer_evaluation(tree: Tree, values: list[int]) -> None:
    assert build(tree).value(values) == number(tree, values)


@settings(deadline=None)
@given(any_tree, st.lists(constant_tree, min_size=SYMBOLS, max_size=SYMBOLS), naturals)
def test_substitute_then_value_is_value_then(tree: Tree, inner: list[Tree], values: list[int]) -> None:
    positive = [t if number(t, values) > 0 else ("-", 1, t) for t in inner]  # a dimension is never below one
    outer = [number(t, values) for t in positive]
    assert build(tree).substitute([build(t) for t in positive]).value(values) == number(tree, outer)


@settings(deadline=None)
@given(any_tree, any_tree, any_tree)
def test_ring_laws_hold_in_normal_form(a: Tree, b: Tree, c: Tree) -> None:
    x, y, z = build(a), build(b), build(c)
    assert x + y == y + x
    assert x * y == y * x
    assert (x + y) + z == x + (y + z)
    assert (x * y) * z == x * (y * z)
    assert x * (y + z) == x * y + x * z
    assert x - x == dim(0)
    assert hash(x * (y + z)) == hash(x * y + x * z)


polynomial_terms = st.lists(
    st.tuples(st.integers(-4, 4), st.lists(st.integers(0, SYMBOLS - 1), max_size=3)), max_size=6
)


def polynomial(terms: list[tuple[int, list[int]]]) -> Dim:
    total = dim(0)
    for factor, places in terms:
        product = dim(factor)
        for place in places:
            product = product * symbol(place)
        total = total + product
    return total


@settings(deadline=None)
@given(polynomial_terms, polynomial_terms)
def test_polynomials_are_equal_exactly_as_functions(
    a: list[tuple[int, list[int]]], b: list[tuple[int, list[int]]]
) -> None:
    x, y = polynomial(a), polynomial(b)
    points = [(7**i, 11**i + 1, 13**i + 2) for i in range(1, 12)]  # more points than terms of degree 3 can meet
    same = all(x.value(p) == y.value(p) for p in points)
    assert (x == y) == same


@settings(deadline=None)
@given(st.integers(-99, 99), st.integers(-99, 99), st.integers(1, 40), st.integers(-99, 99), st.integers(-99, 99))
def test_linear_over_constant_is_equal_exactly_as_functions(a: int, c: int, d: int, move: int, stretch: int) -> None:
    n = symbol(0)
    x = (n * a + c) // d
    y = (n * (a + d * stretch) + (c + d * move)) // d - (n * stretch + move)
    assert x == y, "the same function in another form"
    other = (n * a + c + 1) // d
    same = all((a * v + c) // d == (a * v + c + 1) // d for v in range(2 * d))
    assert (x == other) == same
    assert (n * a + c) % d == (n * a + c + (n + move) * d) % d


def test_divisions_that_leave() -> None:
    n, m = symbol(0), symbol(1)
    assert (n * 32) // 32 == n and (n * 32) % 32 == dim(0)
    assert (n * 4) // 8 == n // 2 and (n * 4) % 8 == (n % 2) * 4
    assert (n // 32) // 8 == n // 256
    assert (n * m * 6) // (m * 3) == n * 2
    assert (n - 3) // 2 + 1 == (n + 1) // 2 - 1
    assert (n * m + n) // n == m + 1
    assert n // 0 == dim(0) and n % 0 == n


@settings(deadline=None)
@given(any_tree)
def test_text_reads_back(tree: Tree) -> None:
    built = build(tree)
    names = {name: symbol(i) for i, name in enumerate(NAMES)}
    source = re.sub(r"\d+", r"dim(\g<0>)", built.text(NAMES).replace("/", "//"))
    assert eval(source, {"dim": dim}, names) == built


@settings(deadline=None)
@given(any_tree)
def test_normal_form_is_a_fixed_point_of_substitution(tree: Tree) -> None:
    built = build(tree)
    assert built.substitute([symbol(i) for i in range(SYMBOLS)]) == built


fact_bottoms = st.lists(st.tuples(st.integers(0, SYMBOLS - 1), st.integers(1, 64)), min_size=1, max_size=4)


@settings(deadline=None)
@given(any_tree, fact_bottoms, naturals)
def test_facts_keep_values_that_obey_them(tree: Tree, bottoms: list[tuple[int, int]], values: list[int]) -> None:
    for place, bottom in bottoms:
        values[place] *= bottom
    facts = [(symbol(place), dim(bottom)) for place, bottom in bottoms]
    rewritten = apply_facts(build(tree), facts)
    assert rewritten.value(values) == number(tree, values)
    assert apply_facts(rewritten, facts) == rewritten
    for top, bottom in facts:
        assert apply_facts(top % bottom, facts) == dim(0)
        assert apply_facts((top // bottom) * bottom, facts) == apply_facts(top, facts)


@settings(deadline=None)
@given(any_tree, st.integers(1, 20), st.integers(1, 20), st.integers(1, 20))
def test_facts_on_symbols_keep_values(tree: Tree, heads: int, size: int, k: int) -> None:
    values = [heads * 2 * size, heads * 2, k]  # n % m == 0, m % 2 == 0
    facts = [(symbol(0), symbol(1)), (symbol(1), dim(2))]
    rewritten = apply_facts(build(tree), facts)
    assert rewritten.value(values) == number(tree, values)
    assert apply_facts(rewritten, facts) == rewritten
    assert apply_facts(symbol(0), facts) == apply_facts(symbol(1) * (symbol(0) // symbol(1)), facts)
    assert apply_facts(symbol(0), facts) == apply_facts((symbol(1) // 2) * (symbol(0) // symbol(1)) * 2, facts)


def test_facts_with_other_tops_and_circles() -> None:
    n, m = symbol(0), symbol(1)
    assert apply_facts((n * m) % 32 + 1, [(n * m, dim(32))]) == dim(1)
    assert apply_facts(n + m, [(n, m), (m, n)]) == n + m, "circular facts are passed over"
    assert apply_facts(n // 4, [(n, dim(32))]) == (n // 32) * 8
    assert apply_facts(n % 256, [(n, dim(32)), (n, dim(256))]) == dim(0)
    assert apply_facts(n, []) == n


@settings(max_examples=30, deadline=None)
@given(any_tree, naturals)
def test_a_wrong_quotient_is_caught(tree: Tree, values: list[int]) -> None:
    """Planted fault: rounding a quotient up instead of down must fail the law of evaluation."""
    divided = build(tree) // 7

    def wrong(value: Dim) -> int:
        return -(-number(tree, values) // 7) if value == divided else 0

    assert (wrong(divided) == divided.value(values)) == (number(tree, values) % 7 == 0)


def test_atoms_state_their_kind() -> None:
    n = symbol(0)
    assert (n // 3).terms == (((Ratio("/", n, dim(3)),), 1),)
    assert (n % 3).terms == (((Ratio("%", n, dim(3)),), 1),)
    with pytest.raises((AssertionError, IndexError)):
        (n // 3).value([])


def test_a_copy_is_equal_and_nothing_changes() -> None:
    d = (symbol(0) + 5) // symbol(1) * 3 % 7 + 1
    for copy in (pickle.loads(pickle.dumps(d)), deepcopy(d)):
        assert copy == d and hash(copy) == hash(d) and copy is not d
    assert d != 1 and d != "d" and dim(1) != 1
    (atom,) = d.terms[0][0]
    assert isinstance(atom, Ratio) and atom == deepcopy(atom) and atom != d
    with pytest.raises(FrozenInstanceError):
        d.terms = ()  # type: ignore[misc]


@given(constant_tree, st.integers(-40, 40))
def test_a_number_is_a_dimension_too(tree: Tree, k: int) -> None:
    d = build(tree)
    assert d + k == d + dim(k) == dim(k) + d and d - k == d - dim(k) and d * k == d * dim(k) == dim(k) * d
    assert dim(k) - d == -(d - k)
