"""What changes the identity of a function and what does not: names, order of declarations, comments, processes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from btn_programs import function, functions, kinds
from hypothesis import given, settings
from hypothesis import strategies as st

from bittern.graph.node import Function
from bittern.lang.check import check_module
from bittern.lang.library import Library, mark

PROGRAM = """
struct Pair[n] { left: f32[n], right: f32[n] }

const SCALE: f32 = 0.5

fn half(x: f32) -> f32 { x * SCALE }

fn norm[n](x: f32[n], eps: f32) -> f32[n] {
  let total = sum(x * x)
  let scale = 1.0 / sqrt(total / f32(n) + eps)
  [half(value) * scale + eps for value in x]
}

fn fold_rows[m, n](rows: f32[m, n], gain: f32[n], eps: f32) -> f32[n] where n % 4 == 0 {
  let shift = gain * eps
  for row, index in rows, 0..m with acc = fill(0.0f32, [n]) {
    let scaled = row * gain + shift
    acc + if index < 2 { scaled } else { norm(scaled, eps) }
  }
}

fn ends[n](pair: &Pair[n], most: u32) -> u32 {
  while sum(pair.left) > f32(most) and most < 9 limit 4 with most { most + 1 }
}
"""
NAMES = sorted({*re.findall(r"[a-z]\w*|SCALE|Pair", PROGRAM)} - {
    "struct", "const", "fn", "let", "for", "in", "with", "if", "else", "while", "limit", "where", "sum", "sqrt", "fill",
    "f32", "u32", "and",
})  # fmt: skip
COMMENTS = st.sampled_from(["", "// a remark\n", "/// A description.\n", "\n\n"])


def ids(text: str) -> dict[str, bytes]:
    """Return the identities of a program's functions."""
    return {name: made.id for name, made in functions(text).items()}


def renamed(text: str, names: dict[str, str]) -> str:
    """Return a program with names replaced, whole words only."""
    return re.sub(r"[A-Za-z_]\w*", lambda match: names.get(match[0], match[0]), text)


@pytest.mark.req("K004")
@settings(max_examples=40, deadline=None)
@given(st.permutations(range(len(NAMES))), st.permutations(range(7)), st.lists(COMMENTS, min_size=7, max_size=7))
def test_names_order_and_comments_change_nothing(names: list[int], order: list[int], comments: list[str]) -> None:
    fresh = {name: f"name_{place}" for name, place in zip(NAMES, names, strict=True)}
    declarations = [each for each in re.split(r"\n\n(?=\w)", PROGRAM.strip()) if each]
    assert len(declarations) == 6
    placed = [comments[place] + declarations[place] for place in order if place < 6]
    found = ids(renamed("\n\n".join(placed), fresh) + "\n")
    assert found == {fresh[name]: value for name, value in ids(PROGRAM).items()}


@pytest.mark.req("K004")
def test_the_order_of_lets_and_of_captures_changes_nothing() -> None:
    one = """fn f[n](x: f32[n], a: f32, b: f32, c: f32) -> f32[n] {
  let p = a * b
  let q = b * c
  [[v * p + q * w + a for w in x][0] + c for v in x]
}"""
    other = one.replace("  let p = a * b\n  let q = b * c\n", "  let q = b * c\n  let p = a * b\n")
    named = other.replace("v * p + q * w + a", "v * p + q * w + first").replace("  let q", "  let first = a\n  let q")
    assert function(one).id == function(other).id == function(named).id
    assert function(one.replace("p + q", "q + p")).id != function(one).id


@pytest.mark.req("K004")
def test_the_order_of_where_clauses_changes_nothing() -> None:
    text = "fn f[n, a, b](x: f32[n]) -> f32 where n % a == 0, n % b == 0, n % 4 == 0 { sum(reshape(x, [n / 4, 4])[0]) }"
    other = text.replace("n % a == 0, n % b == 0, n % 4 == 0", "n % 4 == 0, n % b == 0, n % a == 0")
    assert function(text).id == function(other).id


def test_equal_nodes_are_one_node() -> None:
    written_twice = "fn f(x: f32) -> f32 { (x * x) + (x * x) }"
    shared = "fn f(x: f32) -> f32 {\n let y = x * x\n y + y\n}"
    assert function(written_twice).id == function(shared).id


@pytest.mark.parametrize(
    "change",
    [
        ("x * SCALE", "SCALE * x"),
        ("0.5", "0.25"),
        ("0.5", "-0.5"),
        ("value in x", "value in x + 0.0"),
        ("index < 2", "index < 3"),
        ("n % 4", "n % 8"),
        ("limit 4 with", "limit 5 with"),
        ("gain: f32[n]", "gain: &f32[n]"),
    ],
)
def test_another_meaning_is_another_function(change: tuple[str, str]) -> None:
    """Planted faults: an edit re-keys the function that has it and those that call it, and no other."""
    before, after = ids(PROGRAM), ids(PROGRAM.replace(*change))
    assert PROGRAM.replace(*change) != PROGRAM
    callers = {"half": {"norm", "fold_rows"}, "norm": {"fold_rows"}, "fold_rows": set(), "ends": set()}
    changed = {name for name in before if before[name] != after[name]}
    assert changed
    for name in changed:
        assert callers[name] <= changed
    edited = [name for name in changed if not any(name in callers[other] for other in changed)]
    assert len(edited) == 1


SCRIPT = """
import sys
from bittern.lang.check import check_module
from bittern.lang.library import Library, mark
from bittern.lang.elaborate import instance_for
library = Library.standard()
for name in ["elementary", "attention", "products", "sha256"]:
    module = library.module(name)
    for members in module.functions.values():
        for member in members:
            print(name, member.name.name, mark(member), instance_for(module, member, {}).id.hex())
"""


@pytest.mark.req("K007")
def test_other_processes_and_hash_seeds_give_equal_identities() -> None:
    def lines(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[3])}
        command = [sys.executable, "-c", SCRIPT]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    first = lines("1")
    assert first.count("\n") > 60 and lines("2") == first
    library = Library.standard()
    module = library.module("sha256")
    assert module is not None
    check_module(module)
    here = {member.name.name: mark(member) for members in module.functions.values() for member in members}
    for name in here:
        assert f"sha256 {name} {here[name]} {library.function(f'sha256.{name}').id.hex()}" in first


def test_instances_are_made_once() -> None:
    library = Library.standard()
    assert library.function("norms.rms_norm") is library.function("norms.rms_norm")


# --- the program is the graph


@pytest.mark.req("K001", "K003")
def test_every_form_of_the_program_is_a_node() -> None:
    made = functions(PROGRAM)
    assert kinds(made["half"]) == ["const", "mul", "param"]
    assert {"for", "if", "call", "map", "take", "fill"} <= set(kinds(made["fold_rows"]))
    assert {"while", "and", "lt"} <= set(kinds(made["ends"]))


def test_labels_are_no_part_of_the_identity() -> None:
    made: Function = functions(PROGRAM)["norm"]
    assert {"total", "scale"} <= set(made.labels.nodes.values())
    assert made.labels.params == ("x", "eps") and made.labels.dims == ("n",)
