"""Passes over random graphs and programs: every pass alone, all together, and all but one keep every bit.

The oracle is the plain interpreter of the tests, which knows of no pass. Facts that a pass claims are looked for;
faults planted in each pass must be noticed.
"""

import sys
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit" / "graph"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit" / "passes"))

from growing import grow
from pass_cases import Array, arguments_for, same_bits
from plain import interpret

from bittern.graph.evaluate import evaluate
from bittern.graph.node import Function
from bittern.graph.rules import check
from bittern.lang.library import Library
from bittern.lang.source import Source
from bittern.passes import algebra, algebra_rules, dead, fold, fuse, inline, layout_rules, scalars, share, straighten
from bittern.passes.run import passed, run_passes
from bittern.passes.table import Context, passes

TEXT = """
/// A mixer of four words with a state that loops carry, and branches, maps and calls around it.
fn turn(v: u32[4], k: u32) -> u32[4] {
  let [a, b, c, d] = v
  [rotl(a ^ k, 7) + b, c, d ^ 0, a * 1 + (b & 4294967295)]
}

fn less(a: u32, b: u32) -> u32 { a - b }

fn mixed(x: u32[4], y: u32[6]) -> (u32[4], u32[6], u32) {
  let v = for i in 0..5 with v = x { turn(v, y[i] + i) }
  let w = for i in 0..40 with v { turn(v, i) }
  let z = [a * w[1] + sum(y) for a in [b ^ w[0] for b in y]]
  let flipped = if 1u32 == 1u32 { reverse(reverse(z)) } else { z }
  (w, flipped, less(z[2], w[1]) + max_of([t / 8 % 4 for t in z]))
}
"""


def program() -> tuple[Function, list[Array]]:
    """Return a program that has something for every pass, and arguments."""
    library = Library.standard()
    library.add("mixing", [Source("mixing.btn", TEXT)])
    of = library.function("mixing.mixed")
    return of, arguments_for(of, 1)


def agrees(of: Function, arguments: list[Any], wanted: Any, **options: Collection[str]) -> bool:
    """Whether a function after passes obeys every rule of typing and has the wanted bits."""
    made = run_passes(of, **options)
    check(made)
    kept = [argument.copy() for argument in arguments]
    return made.result.type == of.result.type and same_bits(evaluate(made, kept), wanted)


@pytest.mark.req("K016")
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
@example(0)
@example(160)
def test_random_graphs_keep_every_bit(seed: int) -> None:
    of, arguments = grow(seed)
    wanted = interpret(of, list(arguments))
    assert agrees(of, arguments, wanted)
    for name in passes():
        assert agrees(of, arguments, wanted, only=[name]), name


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_every_pass_can_be_left_out(seed: int) -> None:
    of, arguments = grow(seed)
    wanted = interpret(of, list(arguments))
    for name in passes():
        assert agrees(of, arguments, wanted, without=[name]), name


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_what_passes_claim_holds(seed: int) -> None:
    of, _ = grow(seed)
    made = run_passes(of)
    assert [f.name for row in passes().values() for f in row.gives if f.against(made, Context()) is not None] == []
    assert run_passes(made).id == made.id, "nothing is left to do"


def test_a_program_with_something_for_every_pass() -> None:
    of, arguments = program()
    wanted = evaluate(of, arguments)
    for name in passes():
        assert agrees(of, arguments, wanted, only=[name]), name
    assert agrees(of, arguments, wanted)
    worked = {step.name for step in passed(of).steps}
    assert worked >= set(passes()) - {"dead"}, set(passes()) - worked


# --- planted faults


@cache
def known_cases() -> list[tuple[Function, list[Array], Any]]:
    """Return programs with arguments and what they give."""
    cases = [program(), *(grow(seed) for seed in range(60))]
    return [(of, arguments, evaluate(of, [a.copy() for a in arguments])) for of, arguments in cases]


def _swapped(patch: pytest.MonkeyPatch) -> None:
    wrong = algebra_rules.Rule("xor_and", "xor(x, y)", "and_(x, y)", "int")
    patch.setattr(algebra, "_by_kind", lambda: {"xor": (wrong,)})


def _earlier(patch: pytest.MonkeyPatch) -> None:
    from bittern.passes import unroll

    bounds = unroll._bounds
    patch.setattr(unroll, "_bounds", lambda of, c: (f[0], f[1] - 1) if (f := bounds(of, c)) else None)


def _reversed_carries(patch: pytest.MonkeyPatch) -> None:
    true = scalars._next
    patch.setattr(scalars, "_next", lambda *given: true(*given)[::-1])


def _other_branch(patch: pytest.MonkeyPatch) -> None:
    true = straighten.number_of
    patch.setattr(straighten, "number_of", lambda of: None if (n := true(of)) is None else ~n)


def _next_place(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(layout_rules, "_place", lambda index, length: 0 if length else None)


def _turned_arguments(patch: pytest.MonkeyPatch) -> None:
    true = inline.put_in

    def wrong(result: Any, arguments: Any) -> Any:
        turned = list(arguments)[::-1]
        same = [a.type for a in turned] == [a.type for a in arguments]
        return true(result, turned if same else arguments)

    patch.setattr(inline, "put_in", wrong)


def _one_more(patch: pytest.MonkeyPatch) -> None:
    true = fold.evaluate
    patch.setattr(fold, "evaluate", lambda *given: r + 1 if getattr(r := true(*given), "dtype", "") == "uint32" else r)


def _elements_mixed(patch: pytest.MonkeyPatch) -> None:
    true = fuse._Body._element

    def wrong(self: Any, of: Any) -> Any:
        found = true(self, of)
        first = next(iter(self.mapped.values()))
        return true(self, of) if first.type != of.type else fuse.param(0, found.type)

    patch.setattr(fuse._Body, "_element", wrong)


FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a wrong rule": _swapped,
    "a round too few": _earlier,
    "parts in another order": _reversed_carries,
    "the other branch": _other_branch,
    "a wrong place": _next_place,
    "arguments turned": _turned_arguments,
    "a wrong constant": _one_more,
    "elements mixed up": _elements_mixed,
    "a carry that is needed goes": lambda patch: patch.setattr(dead, "_live_carries", lambda parts, read: read),
    "what varies is hoisted": lambda patch: patch.setattr(share, "_is_fixed", lambda of, parts: True),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_noticed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = known_cases()
    FAULTS[fault](monkeypatch)
    for of, arguments, right in cases:
        try:
            if not agrees(of, arguments, right):
                return
        except Exception:
            return
    pytest.fail("nothing noticed the fault")
