"""One owner, borrow, move: what is allowed, what is refused, and that it costs nothing in the graph."""

import numpy as np
import pytest
from btn_programs import codes, function, kinds, run

STRUCT = """
struct Cache[n] { k: f32[n] }
struct Layer { gain: f32 }
fn put[n](c: own Cache[n], v: f32) -> own Cache[n] {
  c.k[0] = v
  c
}
fn total[n](c: &Cache[n]) -> f32 { sum(c.k) }
fn mix[n](old: &Cache[n], c: own Cache[n]) -> own Cache[n] {
  c.k[0] = old.k[1]
  c
}
fn plain[n](c: Cache[n]) -> f32 { c.k[0] }
"""

ALLOWED = {
    "read through &, then moved": "(total(&c), put(c, 1.0))",
    "read without a sign by a parameter that borrows": "(total(c), put(c, 1.0))",
    "read by fields, indices, operators and operations": "(sum(c.k * c.k) + c.k[0], put(c, 1.0))",
    "moved into a new name": "let d = c\n (total(d), put(d, 1.0))",
    "shadowed by what comes back": "let c = put(c, 1.0)\n let c = put(c, 2.0)\n (total(c), c)",
    "a copy": "let d = copy(c)\n (total(put(c, 1.0)), put(d, 2.0))",
    "a copy of a field lives on": "let k = copy(c.k)\n let c = put(c, 1.0)\n (sum(k), c)",
    "changed in place": "c.k[1] = 2.0\n c.k[2] = c.k[1]\n (c.k[2], c)",
    "moved by both sides of an `if`": "let c = if c.k[0] > 0.0 { put(c, 1.0) } else { put(c, 2.0) }\n (0.0, c)",
    "given back by one side": "let c = if c.k[0] > 0.0 { put(c, 1.0) } else { c }\n (0.0, c)",
    "carried": "let c = for i in 0..3 with c { put(c, f32(i)) }\n (c.k[0], c)",
    "carried with others": "let (s, c) = for i in 0..3 with s = 0.0f32, c { (s + c.k[0], put(c, s)) }\n (s, c)",
    "carried by a `while`": "(0.0, while c.k[0] < 3.0 limit 9 with c {\n  let v = c.k[0] + 1.0\n  put(c, v)\n })",
    "carried by an `each`": "let c = each w in m with c { put(c, w.gain) }\n (0.0, c)",
    "read inside a map": "let y = [v * c.k[0] for v in &c.k]\n (y[0], c)",
    "a borrow that ends before the move": "let k = &c.k\n let s = sum(k)\n (s, put(c, 1.0))",
    "a fresh value goes to an owner": "let d = Cache(k: fill(1.0, [4]))\n let d = put(d, 2.0)\n (total(d), c)",
}

REFUSED = {
    "used after it was moved": ("let d = put(c, 1.0)\n (total(&c), d)", "E501"),
    "moved twice in one call": ("(0.0, mix(put(c, 1.0), c))", "E501"),
    "owned by two": ("let d = c\n let e = c\n (0.0, d)", "E501"),
    "moved by a parameter that does not borrow": ("let a = plain(c)\n (a, c)", "E501"),
    "moved by one side of an `if`": ("let d = if c.k[0] > 0.0 { plain(c) } else { 0.0 }\n (d, c)", "E501"),
    "carried twice": ("let (a, b) = for i in 0..2 with a = c, b = c { (a, b) }\n (0.0, a)", "E501"),
    "a fresh value owned by two": ("let d = Cache(k: fill(1.0, [4]))\n let e = put(d, 1.0)\n (total(d), c)", "E501"),
    "borrowed and moved in one call": ("(0.0, mix(&c, c))", "E502"),
    "moved and borrowed in one call": ("(0.0, mix(c: c, old: &c))", "E502"),
    "shared where an owner is wanted": ("let k = c.k\n (0.0, put(Cache(k: k), 1.0))", "E503"),
    "given back by a loop that owned it": ("let s = Cache(k: x)\n (0.0, for i in 0..2 with c { s })", "E503"),
    "a shared value in place": ("let k = c.k\n k[0] = 1.0\n (0.0, c)", "E504"),
    "a parameter in place": ("x[0] = 1.0\n (0.0, c)", "E504"),
    "moved in every round": ("let s = for i in 0..2 with s = 0.0f32 { s + total(put(c, s)) }\n (s, c)", "E505"),
    "moved in every item": ("let y = [total(put(c, v)) for v in x]\n (y[0], c)", "E505"),
    "moved for every struct": ("let s = each w in m with s = 0.0f32 { s + plain(c) }\n (s, c)", "E505"),
    "changed from inside a loop": (
        "let s = for i in 0..2 with s = 0.0f32 {\n  c.k[i] = 1.0\n  s\n }\n (s, c)",
        "E506",
    ),
    "changed from inside an `if`": (
        "let s = if x[0] > 0.0 {\n  c.k[0] = 1.0\n  x[1]\n } else { 2.0 }\n (s, c)",
        "E506",
    ),
    "borrowed past the move": ("let k = c.k\n let d = put(c, 1.0)\n (sum(k), d)", "E507"),
    "borrowed past the change": ("let k = &c.k\n c.k[0] = 1.0\n (sum(k), c)", "E507"),
}


def program(body: str) -> str:
    """Return a program whose function `f` owns a cache and gives back a number and a cache."""
    last = body.rpartition("\n")
    head = "fn f(c: own Cache[4], m: &list[Layer, 3], x: f32[4]) -> (f32, own Cache[4])"
    return f"{STRUCT}{head} {{\n {last[0]}\n {last[2]}\n}}\n"


@pytest.mark.req("K037")
@pytest.mark.parametrize("name", ALLOWED)
def test_allowed(name: str) -> None:
    assert codes(program(ALLOWED[name])) == []


@pytest.mark.req("K037")
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    body, code = REFUSED[name]
    assert set(codes(program(body))) == {code}


@pytest.mark.req("K037")
@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("x + y", ["E601"]),
        ("x + move(y, host)", []),
        ("there(x)", ["E601"]),
        ("there(move(x, device))", ["E601"]),
        ("move(there(move(x, device)), host)", []),
        ("there(y)[0..4]", ["E601"]),
        ("z + x", []),
        ("move(x, disk)", ["E603"]),
    ],
)
def test_another_space_is_reached_by_a_move_only(body: str, found: list[str]) -> None:
    text = (
        "fn there(x: f32[4] @ device) -> f32[4] @ device { x * 2.0 }\n"
        f"fn f(x: f32[4] @ host, y: f32[4] @ device, z: f32[4]) -> f32[4] @ host {{ {body} }}\n"
    )
    assert codes(text) == found


def test_ownership_costs_no_node() -> None:
    moved = "fn f(x: own f32[4]) -> own f32[4] {\n let y = x\n let z = y\n z\n}"
    assert kinds(function(moved)) == ["param"]
    assert kinds(function("fn f(x: f32[4]) -> own f32[4] { copy(x) }")) == ["param"]


def test_modes_are_part_of_the_parameters() -> None:
    made = function(STRUCT + "fn f(a: &f32, b: own f32, c: f32, d: (own f32, f32)) -> f32 { a + b }", "f")
    assert [p.mode for p in made.params] == ["&", "own", "", "own", ""]


def test_the_value_before_a_change_is_what_was_read() -> None:
    text = "fn f(x: own f32[4]) -> (f32, own f32[4]) {\n let s = sum(x)\n x[0] = s\n (s, x)\n}"
    total, changed = run(text, [1.0, 2.0, 3.0, 4.0])
    assert total == 10 and np.array_equal(changed, [10, 2, 3, 4])
