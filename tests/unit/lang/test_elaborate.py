"""What programs mean: each form of the language, evaluated and compared with Python and numpy."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from pathlib import Path

import numpy as np
import pytest
from btn_programs import codes, function, functions, run

from bittern.graph.evaluate import evaluate
from bittern.lang.library import Library

X4 = np.arange(1, 5, dtype=np.float32)
M23 = np.arange(6, dtype=np.float32).reshape(2, 3)
U8S = np.array([3, 1, 4, 1, 5, 9, 2, 6], np.uint8)


@dataclass(frozen=True, slots=True)
class Case:
    """A program whose function `f` gives `expected`. dims: of its dimension parameters."""

    text: str
    arguments: Sequence[object]
    expected: object
    dims: Sequence[int] = ()


CASES = {
    # --- statements
    "let": Case("fn f(x: f32) -> f32 {\n let y = x * x\n y + x\n}", [3.0], 12.0),
    "let of a type": Case("fn f() -> u8 {\n let y: u8 = 200\n y + 100\n}", [], 44),
    "let spreads a scalar": Case("fn f() -> f32[3] {\n let y: f32[3] = 1.5\n y\n}", [], [1.5] * 3),
    "shadowing": Case("fn f(x: f32) -> f32 {\n let x = x + 1.0\n let x = x * 2.0\n x\n}", [3.0], 8.0),
    "an inner name hides an outer one": Case(
        "fn f(x: f32[4]) -> f32 {\n let a = 10.0f32\n let y = [a for a in x]\n a + sum(y)\n}", [X4], 20.0
    ),
    "underscore binds nothing": Case("fn f(p: (f32, f32)) -> f32 {\n let (_, b) = p\n b\n}", [1.0, 2.0], 2.0),
    "nested tuples": Case(
        "fn f(x: f32) -> f32 {\n let ((a, b), c) = ((x, x + 1.0), x * 2.0)\n a + b * c\n}", [3.0], 3.0 + 4.0 * 6.0
    ),
    "an array taken apart": Case("fn f(x: f32[3]) -> f32 {\n let [a, b, c] = x\n a - b - c\n}", [[9, 4, 2]], 3.0),
    "rows taken apart": Case("fn f(x: f32[2, 3]) -> f32[3] {\n let [a, b] = x\n b - a\n}", [M23], [3, 3, 3]),
    "a place": Case("fn f(x: own f32[4]) -> own f32[4] {\n x[2] = 0.0\n x\n}", [X4], [1, 2, 0, 4]),
    "a place of a matrix": Case(
        "fn f(x: own f32[2, 3]) -> own f32[2, 3] {\n x[1, 0] = 9.0\n x[0] = 7.0\n x\n}", [M23], [[7, 7, 7], [9, 4, 5]]
    ),
    "a place sees the value before": Case(
        "fn f(x: own f32[4]) -> own f32[4] {\n x[0] = x[0] + x[1]\n x[1] = x[0]\n x\n}", [X4], [3, 3, 3, 4]
    ),
    "several places; the last write wins": Case(
        "fn f(x: own f32[4], i: u32[3], v: f32[3]) -> own f32[4] {\n x[i] = v\n x\n}",
        [X4, np.array([1, 3, 1], np.uint32), np.float32([7, 8, 9])],
        [1, 9, 3, 8],
    ),
    "outside writes nothing": Case("fn f(x: own f32[4], i: u32) -> own f32[4] {\n x[i] = 0.0\n x\n}", [X4, 4], X4),
    "the first value stays where it is read": Case(
        "fn f() -> f32[3] {\n let a = fill(1.0f32, [3])\n let b = copy(a)\n a[0] = 5.0\n a - b\n}", [], [4, 0, 0]
    ),
    # --- literals
    "hexadecimal": Case("fn f() -> u32 { 0xff + 1_000 }", [], 1255),
    "hexadecimal real": Case("fn f() -> f64 { 0x1.8p-1 }", [], 0.75),
    "a literal rounds once": Case("fn f() -> f32 { 16777217.0000001 }", [], 16777218.0),
    "a literal beyond all numbers": Case("fn f() -> f32 { 1e39 }", [], np.inf),
    "the sign of zero": Case("fn f() -> f32 { 1.0 / -0.0 }", [], -np.inf),
    "a literal on the left": Case("fn f(x: i8) -> i8 { -128 - x }", [np.int8(1)], 127),
    "literals in both branches": Case(
        "fn f(c: bit, x: f64) -> f64 { x * if c { 2.0 } else { 0.5 } }", [False, 3.0], 1.5
    ),
    "literals in a tuple": Case(
        "fn g(p: (u32, u8)) -> u32 { p_sum(p) }\nfn p_sum(p: (u32, u8)) -> u32 {\n let (a, b) = p\n a + u32(b)\n}\n"
        "fn f() -> u32 {\n let (a, b): (u32, u32) = (1, 2)\n a + b + g((10, 20))\n}",
        [],
        33,
    ),
    "literals that are carried": Case(
        "fn g(n: u32) -> (u32, f32) { for i in 0..n with a = 1, b = 0.5 { (a * 2, b + 1.0) } }\n"
        "fn f() -> f32 {\n let (a, b) = g(3)\n f32(a) + b\n}",
        [],
        11.5,
    ),
    "a suffix": Case("fn f() -> u64 {\n let x = 5u64\n x << 40\n}", [], 5 << 40),
    "a whole number as a real": Case("fn f() -> f32 { f32(-3) }", [], -3.0),
    # --- operators
    "precedence": Case(
        "fn f(a: u32, b: u32) -> u32 { a + b * 2 & 0xff | 1 << 4 ^ a }", [3, 5], (3 + 10) & 255 | (1 << 4) ^ 3
    ),
    "left to right": Case("fn f(a: i32) -> i32 { a - 2 - 3 * a / 4 % 5 }", [20], 20 - 2 - (3 * 20 // 4) % 5),
    "a scalar beside an array": Case("fn f(x: f32[4], s: f32) -> f32[4] { s - x * 2.0 }", [X4, 1.0], 1 - X4 * 2),
    "comparison": Case("fn f(x: f32) -> bit { x > 1.0 and not (x >= 3.0) or x != x }", [2.0], True),
    "NaN is never greater": Case("fn f(x: f32) -> bit { x > 1.0 or x <= 1.0 }", [np.nan], False),
    "shift of each": Case("fn f(x: u8[8], n: u32) -> u8[8] { x << n >> 1 }", [U8S, 2], (U8S << 2) >> 1),
    "not": Case("fn f(x: u8) -> u8 { ~x & 0xf }", [np.uint8(5)], 10),
    "negation": Case("fn f(x: i32) -> i32 { -x - -3 }", [4], -1),
    "a dimension is a number": Case("fn f[n](x: f32[n]) -> u32 { n * 2 + 1 }", [X4], 9, [4]),
    "a division of dimensions": Case("fn f[n](x: f32[n]) -> u32 { n / 3 + n % 3 }", [X4], 2, [4]),
    # --- places in arrays
    "index": Case("fn f(x: f32[2, 3], i: u32) -> f32[3] { x[i] }", [M23, 1], [3, 4, 5]),
    "two indices": Case("fn f(x: f32[2, 3]) -> f32 { x[1, 2] }", [M23], 5),
    "an index outside reads the last": Case("fn f(x: f32[4], i: u32) -> f32 { x[i] }", [X4, 9], 4),
    "an array of indices": Case("fn f(x: f32[4], i: u32[3]) -> f32[3] { x[i] }", [X4, np.uint32([3, 0, 3])], [4, 1, 4]),
    "slice": Case("fn f(x: f32[4]) -> f32[2] { x[1..3] }", [X4], [2, 3]),
    "slice and index": Case("fn f(x: f32[2, 3], j: u32) -> f32[1] { x[1..2, j] }", [M23, 1], [4]),
    "index and slice": Case("fn f(x: f32[2, 3], i: u32) -> f32[2] { x[i, 1..3] }", [M23, 0], [1, 2]),
    "a slice by dimensions": Case("fn f[n](x: f32[n]) -> f32[n / 2] { x[n / 2..n / 2 * 2] }", [X4], [3, 4], [4]),
    # --- maps
    "map": Case("fn f(x: f32[4]) -> f32[4] { [a * a for a in x] }", [X4], X4 * X4),
    "map of rows": Case("fn f(x: f32[2, 3]) -> f32[2] { [sum(row) for row in x] }", [M23], [3, 12]),
    "map of several": Case(
        "fn f(x: f32[4], y: f32[4]) -> f32[4] { [a * b + f32(i) for a, b, i in x, y, 1..5] }", [X4, X4], X4 * X4 + X4
    ),
    "map of a range": Case("fn f() -> u32[3] { [i * i for i in 2..5] }", [], [4, 9, 16]),
    "nested maps with captures": Case(
        "fn f[m, n](x: f32[m], y: f32[n], s: f32) -> f32[m, n] { [[a * b + s + a for b in y] for a in x] }",
        [X4, X4[:3], 2.0],
        X4[:, None] * X4[None, :3] + 2 + X4[:, None],
        [4, 3],
    ),
    "a map of tuples is a tuple of arrays": Case(
        "fn f(x: f32[4]) -> f32 {\n let (a, b) = [(v, v * v) for v in x]\n sum(b) - sum(a)\n}", [X4], 20.0
    ),
    "a map of literals": Case("fn f(x: f32[3]) -> f32[3] { x + [1.0 for _ in 0..3] }", [X4[:3]], X4[:3] + 1),
    "a map of conditions": Case(
        "fn f(x: f32[4]) -> f32[4] { [if a > 2.0 { a } else { -a } for a in x] }", [X4], [-1, -2, 3, 4]
    ),
    # --- folds
    "for": Case(
        "fn f(n: u32) -> u32 { for i in 0..n with s = 1 { s * 3 + i } }", [4], ((((1 * 3) * 3 + 1) * 3 + 2) * 3) + 3
    ),
    "for over an empty range": Case("fn f(n: u32) -> u32 { for i in n..2 with s = 7 { s + i } }", [5], 7),
    "for over an array": Case("fn f(x: f32[4]) -> f32 { for v in x with s = 0.0 { s * 10.0 + v } }", [X4], 1234),
    "for over arrays and a range": Case(
        "fn f(x: f32[4], y: f32[4]) -> f32 { for a, b, i in x, y, 5..9 with s = 0.0 { s + a * b * f32(i) } }",
        [X4, X4],
        sum(v * v * (5 + i) for i, v in enumerate(X4)),
    ),
    "for from a dimension": Case(
        "fn f[n](x: f32[n]) -> u32 { for i in n..2 * n with s = 0 { s + i } }", [X4], 4 + 5 + 6 + 7, [4]
    ),
    "several carried": Case(
        "fn f(n: u32) -> u32 {\n let (a, b) = for i in 0..n with a = 0u32, b = 1u32 { (b, a + b) }\n a\n}", [10], 55
    ),
    "a name carries its value": Case("fn f(x: u32) -> u32 { for i in 0..3 with x { x + i } }", [10], 13),
    "folds inside folds": Case(
        "fn f(n: u32) -> u32 { for i in 0..n with s = 0 { s + for j in 0..i with r = i { r + j * n } } }",
        [4],
        sum(i + sum(j * 4 for j in range(i)) for i in range(4)),
    ),
    "a carried place": Case(
        "fn f(n: u32) -> u32[5] {\n for i in 0..n with w = fill(0, [5]) {\n  w[i] = i * i\n  w\n }\n}",
        [5],
        [0, 1, 4, 9, 16],
    ),
    "a fold inside a map": Case(
        "fn f(x: f32[2, 3], s: f32) -> f32[2] { [for v in row with a = s { a * v } for row in x + 1.0] }",
        [M23, 2.0],
        [2 * 1 * 2 * 3, 2 * 4 * 5 * 6],
    ),
    "an owned value is given back": Case(
        "fn f(x: own f32[4]) -> own f32[4] {\n for i in 0..4 with x {\n  x[i] = x[i] * 2.0\n  x\n }\n}", [X4], X4 * 2
    ),
    # --- while and if
    "while": Case("fn f(n: u32) -> u32 { while n > 9 limit 100 with n { n / 10 } }", [31415], 3),
    "the limit of a while": Case("fn f(n: u32) -> u32 { while n > 0 limit 3 with n { n - 1 } }", [10], 7),
    "a while that does not start": Case("fn f(n: u32) -> u32 { while n > 9 limit 9 with n { n / 10 } }", [5], 5),
    "several carried by a while": Case(
        "fn f(a: u32, b: u32) -> u32 {\n let (g, _) = while b != 0 limit 64 with a, b { (b, a % b) }\n g\n}",
        [84, 36],
        12,
    ),
    "if": Case("fn f(c: bit, x: f32) -> f32 { if c { x } else { x * x } }", [False, 3.0], 9.0),
    "else if": Case("fn f(n: u32) -> u32 { if n < 2 { 1 } else if n < 4 { 2 } else { 3 } }", [3], 2),
    "a branch of tuples": Case(
        "fn f(c: bit) -> u32 {\n let (a, b) = if c { (1u32, 2u32) } else { (3u32, 4u32) }\n a * 10 + b\n}", [True], 12
    ),
    "a scalar branch is spread": Case(
        "fn f(c: bit, x: f32[4]) -> f32[4] { if c { x } else { 0.0 } }", [False, X4], [0] * 4
    ),
    "an owned value in branches": Case(
        "fn f(c: bit, x: own f32[4]) -> own f32[4] {\n if c {\n  let x = x\n  x[0] = 9.0\n  x\n } else { x }\n}",
        [True, X4],
        [9, 2, 3, 4],
    ),
    # --- structs and lists
    "a struct by name and by place": Case(
        "struct P { x: f32, y: f32 }\n"
        "fn f(x: f32) -> f32 {\n let p = P(y: x, x: 1.0)\n let q = P(2.0, x)\n p.y * q.x - p.x\n}",
        [3.0],
        5.0,
    ),
    "a struct as parameter and result": Case(
        "struct P { x: f32, y: f32 }\nfn turn(p: &P) -> P { P(x: p.y, y: p.x) }\n"
        "fn f(a: f32, b: f32) -> f32 {\n let p = turn(P(a, b))\n p.x - p.y\n}",
        [1.0, 5.0],
        4.0,
    ),
    "a struct in a struct": Case(
        "struct P { x: f32, y: f32 }\nstruct Q { p: P, z: f32 }\nfn f(q: &Q) -> f32 { q.p.y * q.z }",
        [1.0, 2.0, 3.0],
        6.0,
    ),
    "a field that changes": Case(
        "struct P { x: f32[2], y: f32 }\nfn set(p: own P) -> own P {\n p.x[1] = p.y\n p.y = 0.0\n p\n}\n"
        "fn f(a: f32[2]) -> f32 {\n let p = set(P(x: copy(a), y: 7.0))\n p.x[0] + p.x[1] * 10.0 + p.y\n}",
        [[1.0, 2.0]],
        71.0,
    ),
    "an array of structs is a struct of arrays": Case(
        "struct P { x: f32, y: f32[2] }\nfn both(ps: &many[P, 3]) -> f32[3] { ps.x + [sum(y) for y in ps.y] }\n"
        "fn f(v: f32[3]) -> f32[3] { both([P(x: a, y: [a, 1.0]) for a in v]) }",
        [X4[:3]],
        X4[:3] * 2 + 1,
    ),
    "an array of structs, walked and indexed": Case(
        "struct P { x: f32, y: f32 }\nfn f(v: f32[4]) -> f32 {\n let ps = [P(x: a, y: a * a) for a in v]\n"
        " ps[2].y + for p in ps with s = 0.0 { s + p.x }\n}",
        [X4],
        19.0,
    ),
    "arrays of structs nest": Case(
        "struct P { x: f32 }\nfn f(v: f32[2, 3]) -> f32[2, 3] {\n"
        " let ps = [[P(x: a + 1.0) for a in row] for row in v]\n [[p.x * 2.0 for p in row] for row in ps]\n}",
        [M23],
        (M23 + 1) * 2,
    ),
    "arrays of structs nest in types": Case(
        "struct P { x: f32 }\nfn row(ps: &many[P, 3]) -> f32 { sum(ps.x) }\n"
        "fn all(ps: &many[many[P, 3], 2]) -> f32[2] { [row(r) + r.x[0] for r in ps] }\n"
        "fn f(v: f32[2, 3]) -> f32[2] { all([[P(x: a) for a in row] for row in v]) }",
        [M23],
        [3, 15],
    ),
    "several structs of an array": Case(
        "struct P { x: f32, y: f32 }\nfn f(v: f32[4], i: u32[2]) -> f32[2] {\n"
        " let ps = [P(x: a, y: a * a) for a in v]\n let two = ps[i]\n [p.y - p.x for p in two]\n}",
        [X4, [3, 1]],
        [12, 2],
    ),
    "structs taken apart": Case(
        "struct P { x: f32 }\nfn f(v: f32[2]) -> f32 {\n let [a, b] = [P(x: a * 2.0) for a in v]\n a.x - b.x\n}",
        [[5, 1]],
        8,
    ),
    "each": Case(
        "struct L { g: f32[2], s: f32 }\nfn f(m: &list[L, 2], x: f32[2]) -> f32[2] {\n"
        " each w, i in m with x { x * w.g + w.s * f32(i + 1) }\n}",
        [[1.0, 2.0], 10.0, [3.0, 4.0], 20.0, [1.0, 1.0]],
        [(1 + 10) * 3 + 40, (2 + 10) * 4 + 40],
    ),
    # --- generics, overloads, constants
    "a dimension from a product": Case(
        "fn half[n](x: f32[2 * n]) -> f32[n] { x[0..n] }\nfn f(x: f32[4]) -> f32[2] { half(x) }", [X4], [1, 2]
    ),
    "a dimension from a product with a known factor": Case(
        "fn rows[a, b](x: f32[a * b], y: f32[b]) -> f32[a] { [dot(r, y) for r in reshape(x, [a, b])] }\n"
        "fn f(x: f32[6], y: f32[3]) -> f32[2] { rows(x, y) }",
        [np.arange(6, dtype=np.float32), [1.0, 1.0, 1.0]],
        [3, 12],
    ),
    "a dimension from a quotient": Case(
        "fn double[n](x: f32[n / 2]) -> u32 where n % 2 == 0 { n }\nfn f(x: f32[4]) -> u32 { double(x) }", [X4], 8
    ),
    "a dimension in brackets": Case(
        "fn ones[n]() -> f32[n] { fill(1.0, [n]) }\nfn f() -> f32[3] { ones[3]() }", [], [1] * 3
    ),
    "an element from an argument": Case(
        "fn twice[e: float, n](x: e[n]) -> e[n] { x + x }\nfn f(x: f64[2]) -> f64[2] { twice(x) }", [[1.5, 2.5]], [3, 5]
    ),
    "an element in brackets": Case(
        "fn to[e: int](x: f32) -> e { round[e](x) }\nfn f(x: f32) -> i32 { i32(to[i8](x)) }", [300.0], 127
    ),
    "an overload by element": Case(
        "fn size(x: u8) -> u32 { 8 }\nfn size(x: u16) -> u32 { 16 }\nfn f(x: u16) -> u32 { size(x) * size(u8(1)) }",
        [np.uint16(1)],
        128,
    ),
    "an overload by the element of a struct": Case(
        "struct C[e: type] { v: e }\nfn which(c: &C[f32]) -> u32 { 1 }\nfn which(c: &C[i8]) -> u32 { 2 }\n"
        "fn f(x: i8) -> u32 { which(C(v: x)) }",
        [np.int8(1)],
        2,
    ),
    "constants": Case(
        "const A: u32 = B * 2\nconst B: u32 = 21\nconst T: f32[3] = [1.5, 2.5, 3.5]\n"
        "fn f(i: u32) -> f32 { T[i] + f32(A) }",
        [1],
        44.5,
    ),
    "an inline function": Case(
        "inline fn add(x: f32, y: f32) -> f32 {\n let z = x + y\n z\n}\n"
        "fn f(x: f32[4], z: f32) -> f32[4] { [add(a, z) for a in x] }",
        [X4, 1.0],
        X4 + 1,
    ),
}


@pytest.mark.req("K001")
@pytest.mark.parametrize("name", CASES)
def test_meaning(name: str) -> None:
    case = CASES[name]
    result = run(case.text, *case.arguments, dims=case.dims)
    np.testing.assert_array_equal(result, np.asarray(case.expected).astype(np.asarray(result).dtype))


def test_a_wrong_body_is_seen() -> None:
    """Planted fault: one operator of a program is another."""
    case = CASES["several carried"]
    assert run(case.text.replace("a + b", "a - b"), *case.arguments) != case.expected


def test_a_fault_of_the_elaborator_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: captures are numbered from the wrong place."""
    from bittern.lang import frame

    honest = frame.param
    monkeypatch.setattr(frame, "param", lambda index, type_: honest(max(0, index - 1), type_))
    case = CASES["nested maps with captures"]
    with pytest.raises((AssertionError, ValueError, IndexError)):
        np.testing.assert_array_equal(run(case.text, *case.arguments, dims=case.dims), case.expected)


# --- ideal bodies


def test_an_ideal_body_is_what_the_reference_evaluates() -> None:
    text = (
        "fn code(x: f32) -> i8 { round[i8](x * 16.0) } ideal { x * 16.0 }\nfn f(x: f32) -> f32 { f32(code(x)) / 16.0 }"
    )
    assert run(text, 0.7) == np.float32(11 / 16)
    assert run(text, 0.7, ideal=True) == np.float32(0.7)


def test_without_an_ideal_body_floats_are_unrounded() -> None:
    text = "fn f(x: f32) -> f32 { x / 3.0 }"
    assert run(text, 1.0) == np.float32(1) / np.float32(3)
    assert run(text, 1.0, ideal=True) == 1 / 3


def test_real_functions_are_names_elsewhere() -> None:
    text = "fn exp(x: f32) -> f32 { x + 1.0 } ideal { exp(x) }\nfn f(x: f32) -> f32 { exp(x) }"
    assert run(text, 1.0) == 2.0
    assert run(text, 1.0, ideal=True) == pytest.approx(np.e)


def test_elements_are_not_compared_over_the_reals() -> None:
    text = "fn f(x: f32[4]) -> i8[4] { round[i8](x) } ideal { x * 1.0 }"
    assert function(text).ideal is not None
    assert codes(text.replace("x * 1.0", "fill(sum(x), [5])")) == ["E406"]


# --- the samples of the documentation

LANGUAGE = Path(__file__).parents[3] / "docs" / "language.md"
SAMPLES = re.findall(r"^```btn\n(.*?)^```", LANGUAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("text", SAMPLES, ids=lambda text: re.findall(r"^(?:inline )?fn (\w+)", text, re.MULTILINE)[0])
def test_the_samples_of_the_language_page_elaborate(text: str) -> None:
    assert functions(text, Library.standard())


@pytest.mark.parametrize("text", [b"", b"abc", b"bittern and bit"])
def test_the_sha256_sample(text: bytes) -> None:
    (sample,) = [each for each in SAMPLES if "fn sha256_block" in each]
    block = functions(sample, Library.standard())["sha256_block"]
    padded = text + b"\x80" + bytes(55 - len(text)) + (8 * len(text)).to_bytes(8, "big")
    start = np.array([_root_bits(prime) for prime in (2, 3, 5, 7, 11, 13, 17, 19)], np.uint32)
    digest = evaluate(block, [start, np.frombuffer(padded, ">u4").astype(np.uint32)])
    assert digest.astype(">u4").tobytes() == hashlib.sha256(text).digest()


def _root_bits(prime: int) -> int:
    """Return the first 32 bits of the fractional part of a square root."""
    return isqrt(prime << 64) & 0xFFFFFFFF
