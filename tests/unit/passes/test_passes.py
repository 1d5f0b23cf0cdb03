"""What each pass does to small programs, and that it claims nothing that it does not do."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pass_cases import (
    FLAG,
    FLOAT,
    FOUR,
    WORD,
    Array,
    arguments_for,
    body,
    few,
    function,
    kinds,
    leaves,
    only,
    op,
    program,
    same_bits,
    word,
)

from bittern.base.errors import BitternError
from bittern.graph.evaluate import evaluate
from bittern.graph.facts import TEN, facts_of
from bittern.graph.node import (
    Function,
    Labels,
    Node,
    Parameter,
    call,
    choose,
    const,
    fold,
    item,
    make_tuple,
    map_over,
    param,
    repeat,
    walk,
)
from bittern.graph.record import ownership_of
from bittern.graph.rules import check
from bittern.lang.library import Library
from bittern.passes import table
from bittern.passes.known import spread
from bittern.passes.rewriting import count_nodes
from bittern.passes.run import passed, run_passes
from bittern.passes.table import Context, Fact, Pass, passes
from bittern.types.dims import dim, symbol
from bittern.types.elements import BIT, F32, I32, U32
from bittern.types.values import tensor

# --- the table


def test_a_pass_is_a_file_with_a_row() -> None:
    folder = Path(table.__file__).parent
    for name, row in passes().items():
        assert row.name == name and (folder / f"{name}.py").is_file()
        assert row.doc and row.doc[-1] not in ".!" and row.gives
        assert (row.run is None) != (row.change is None)
    assert len(passes()) >= 10


def test_passes_run_after_what_gives_their_facts() -> None:
    given: set[str] = set()
    facts = {fact.name for row in passes().values() for fact in row.gives}
    for row in passes().values():
        wanted = set(row.needs) - set(TEN)
        assert wanted <= facts and wanted <= given, row.name
        given |= {fact.name for fact in row.gives}


def test_an_unknown_pass_is_refused() -> None:
    of = function([WORD], lambda x: x)
    with pytest.raises(BitternError, match="R141") as caught:
        run_passes(of, without={"fused"})
    assert "`fuse`" in caught.value.remedy


def test_every_pass_can_be_left_out_and_what_it_did_is_told() -> None:
    of = function([FOUR], lambda x: op("add", x, spread(word(0), FOUR.shape)))
    done = passed(of)
    assert [step.name for step in done.steps] == ["algebra"] and done.without == ()
    assert done.function.result.kind == "param"
    kept = passed(of, without=["algebra"])
    assert kept.function.id == of.id and kept.without == ("algebra",)
    everything = passed(of, without=list(passes()))
    assert everything.function is of and everything.steps == ()


# --- inline


SQUARES = """
/// x * x.
fn square[n](x: f32[n]) -> f32[n] {
  let product = x * x
  product
}

fn fourth[n](x: f32[n]) -> f32[n] {
  let low = square(x)
  square(low) + low
}
"""


def test_calls_become_graphs_with_their_names() -> None:
    of = program(SQUARES, "fourth")
    made = run_passes(of, only=["inline"])
    check(made)
    assert "call" not in kinds(made) and [n for n in kinds(made) if n != "param"] == ["mul", "mul", "add"]
    first, second, _ = [n for n in walk(made.result) if n.kind in ("mul", "add")]
    assert made.labels.nodes[first.id] == "low"
    assert made.labels.nodes[second.id] == "square.product"
    assert made.labels.lines[second.id][1] == 4, "the line of the callee"
    x = np.arange(5, dtype=np.float32)
    assert same_bits(evaluate(made, [x], [5]), evaluate(of, [x], [5]))


def test_a_call_of_a_kernel_stays_whole() -> None:
    of = program(SQUARES, "fourth")
    made = run_passes(of, Context(has_kernel=lambda f: f.name.endswith("square")), only=["inline"])
    assert kinds(made).count("call") == 2 and made.id == of.id


def test_programs_that_explode_are_refused() -> None:
    text = "fn f0(x: f32) -> f32 { x * x + 1.0 }\n"
    for k in range(1, 12):
        text += f"fn f{k}(x: f32) -> f32 {{ f{k - 1}(x) + f{k - 1}(x + {k}.0) + f{k - 1}(x - {k}.5) }}\n"
    of = program(text, "f11")
    with pytest.raises(BitternError, match="R140"):
        run_passes(of, Context(inlined_nodes=500))


# --- dead


def test_what_nobody_reads_goes() -> None:
    def make(x: Node, y: Node) -> Node:
        inner = body([WORD, WORD, WORD, WORD], lambda a, b, c, d: make_tuple([op("add", a, c), op("mul", b, d)]))
        return item(map_over(inner, dim(4), [x, y], [word(3), word(4)]), 0)

    made = only("dead", function([FOUR, FOUR], make))
    (mapped,) = [n for n in walk(made.result) if n.kind == "map"]
    assert len(mapped.inputs) == 2 and mapped["mapped"] == 1 and "mul" not in kinds(made)


def test_a_carry_that_reaches_what_is_read_stays() -> None:
    def make(x: Node, y: Node, z: Node) -> Node:
        step = body([WORD, WORD, WORD, WORD], lambda i, a, b, c: make_tuple([op("add", a, b), op("add", b, i), c]))
        return item(fold(step, word(0), word(5), [x, y, z], []), 0)

    made = only("dead", function([WORD, WORD, WORD], make))
    (loop,) = [n for n in walk(made.result) if n.kind == "for"]
    assert loop["carries"] == 2, "the third carry is read by nobody"


def test_what_a_while_tests_stays() -> None:
    def make(x: Node, y: Node) -> Node:
        test = body([WORD, WORD, WORD], lambda a, b, c: op("lt", b, c))
        step = body([WORD, WORD, WORD], lambda a, b, c: make_tuple([op("add", a, c), op("add", b, word(1))]))
        return item(repeat(test, step, word(9), [x, y], [word(6)]), 0)

    (loop,) = [n for n in walk(only("dead", function([WORD, WORD], make)).result) if n.kind == "while"]
    assert loop["carries"] == 2


def test_what_a_body_takes_twice_it_takes_once() -> None:
    inner = body([WORD, WORD, FOUR, FOUR], lambda a, b, c, d: op("add", op("add", a, b), op("sum", op("xor", c, d))))
    made = only("dead", function([FOUR], lambda x: map_over(inner, dim(4), [x, x], [x, x])))
    assert len(made.result.inputs) == 2


def test_modes_stay_with_their_parameters() -> None:
    step = body([WORD, FOUR, FOUR, WORD], lambda i, a, c, d: op("update", a, i, op("take", c, i)), ["", "own", "&", ""])
    of = function([FOUR, FOUR], lambda x, y: fold(step, word(0), word(3), [x], [y, word(5)]), modes=["own", "&"])
    made = only("dead", of)
    assert ownership_of(made.result) == ("", "", "own", "&")


# --- fold


def test_constants_are_computed() -> None:
    of = function([FOUR], lambda x: op("add", x, op("mul", const([1, 2, 3, 4], U32), const([5, 6, 7, 8], U32))))
    made = only("fold", of)
    assert made.result.inputs[1] is const([5, 12, 21, 32], U32)


def test_a_nan_that_arithmetic_made_is_left_to_run_time() -> None:
    """EDGE_CASES D5: a folded NaN has another sign bit than one made at run time."""
    zero = const(np.zeros(4, np.float32), F32)
    of = function([tensor(F32, 4)], lambda x: op("add", x, op("div", zero, zero)))
    assert run_passes(of, only=["fold"]).id == of.id
    minus = op("neg", const(0.0, F32))
    made = run_passes(function([FLOAT], lambda x: op("mul", x, minus)), only=["fold"])
    assert made.result.inputs[1] is const(-0.0, F32) and made.result.inputs[1] is not const(0.0, F32)


def test_large_results_and_long_work_stay() -> None:
    table_ = const(np.arange(64, dtype=np.uint32), U32)
    of = function([WORD], lambda x: op("take", op("not", table_), x))
    assert run_passes(of, Context(folded_bytes=255), only=["fold"]).id == of.id
    assert run_passes(of, only=["fold"]).result.inputs[0].kind == "const"
    step = body([WORD, WORD], lambda i, a: op("add", a, i))
    long = function([WORD], lambda x: op("add", x, fold(step, word(0), word(1 << 22), [word(0)], [])))
    assert run_passes(long, only=["fold"]).id == long.id


def test_weights_that_are_not_at_hand_are_not_folded() -> None:
    from bittern.graph.node import Blob, const_blob

    def absent() -> bytes:
        raise BitternError("R134", "The bytes are not at hand.", "")

    weight = const_blob(Blob(bytes(32), 16, absent), FOUR)
    of = function([FOUR], lambda x: op("add", x, op("not", weight)))
    assert run_passes(of).result.inputs[1].kind == "not"


# --- share


def test_what_does_not_depend_on_the_element_is_computed_once() -> None:
    inner = body([WORD, FOUR], lambda a, c: op("add", a, op("sum", op("mul", c, c))))
    made = only("share", function([FOUR, FOUR], lambda x, y: map_over(inner, dim(4), [x], [y])), "dead")
    assert made.result.inputs[1].kind == "sum"
    assert [n.kind for n in walk(made.result["body"].result)] == ["param", "param", "add"]  # type: ignore[union-attr]


def test_nothing_that_could_fail_leaves_a_loop_that_may_not_run() -> None:
    """Reading from an array that may be empty is safe only where the loop runs."""
    n = symbol(0)
    line = tensor(U32, n)
    step = function([WORD, WORD, line], lambda i, a, c: op("add", a, op("take", c, word(0))), dims=1)

    def make(x: Node, y: Node) -> Node:
        return fold(step, word(0), op("size", value=n), [x], [y])

    of = function([WORD, line], make, dims=1)
    made = run_passes(of, only=["share"])
    assert made.id == of.id
    assert evaluate(run_passes(of), [np.uint32(7), np.zeros(0, np.uint32)], [0]) == 7
    known = function([WORD, WORD, FOUR], lambda i, a, c: op("add", a, op("take", c, word(0))))
    of = function([WORD, FOUR, WORD], lambda x, y, n: fold(known, word(0), few(n), [x], [y]))
    assert only("share", of).result.inputs[-1].kind == "take", "four elements are never none"


def test_known_numbers_go_into_bodies_and_places_stay_outside() -> None:
    inner = body([WORD, WORD, WORD, FOUR], lambda a, c, d, e: op("add", op("mul", a, c), op("take", e, d)))
    of = function([FOUR, FOUR], lambda x, y: map_over(inner, dim(4), [x], [word(3), word(2), y]))
    made = only("share", of, "dead")
    assert len(made.result.inputs) == 2, "the read is done once, outside"
    inner = body([WORD, WORD, FOUR], lambda a, d, e: op("take", op("update", e, d, a), a))
    of = function([FOUR, FOUR], lambda x, y: map_over(inner, dim(4), [x], [word(2), y]))
    assert run_passes(of, only=["share"]).id == of.id


def test_a_value_too_large_stays_where_it_is_made() -> None:
    inner = body([WORD, FOUR], lambda a, c: op("take", op("not", c), a))
    of = function([FOUR, FOUR], lambda x, y: map_over(inner, dim(4), [x], [y]))
    assert run_passes(of, Context(hoisted_bytes=15), only=["share"]).id == of.id
    assert run_passes(of, only=["share"]).id != of.id


# --- straighten, unroll, scalars


def test_branches_whose_condition_is_known_are_taken() -> None:
    then, other = body([WORD], lambda a: op("not", a)), body([WORD], lambda a: a)
    for flag in (True, False):
        made = only("straighten", function([WORD], lambda x, f=flag: choose(const(f, BIT), then, other, [x])))
        assert made.result.kind == ("not" if flag else "param")
    same = only("straighten", function([FLAG, WORD], lambda c, x: choose(c, then, then, [x])))
    assert same.result.kind == "not"


def test_loops_of_no_round_are_their_start() -> None:
    step = body([WORD, WORD], lambda i, a: op("add", a, i))
    made = only("straighten", function([WORD], lambda x: fold(step, word(7), word(7), [x], [])))
    assert made.result.kind == "param"
    made = only("straighten", function([WORD, WORD], lambda x, n: fold(step, n, n, [x], [])))
    assert made.result.kind == "param"
    never, same = body([WORD], lambda a: const(False, BIT)), body([WORD], lambda a: op("not", a))
    assert only("straighten", function([WORD], lambda x: repeat(never, same, word(9), [x], []))).result.kind == "param"


def test_a_map_over_one_element_is_its_body() -> None:
    inner = body([FOUR, WORD], lambda a, c: make_tuple([op("sum", a), op("not", a)]))
    of = function([tensor(U32, 1, 4)], lambda x: map_over(inner, dim(1), [x], [word(0)]))
    made = only("straighten", of)
    assert "map" not in kinds(made)
    library = Library.standard()
    norm = library.function("norms.rms_norm")
    row = tensor(F32, 4)
    calls = body([row, row], lambda a, g: call(norm, [a, g, const(1e-5, F32)], [dim(4)]))
    of = function([tensor(F32, 1, 4), row], lambda x, g: map_over(calls, dim(1), [x], [g]))
    assert run_passes(of, Context(has_kernel=lambda f: True)).id == of.id, "the plan decides"


def test_short_folds_are_written_out() -> None:
    step = body([WORD, WORD, WORD], lambda i, a, c: op("xor", op("mul", a, c), i))
    of = function([WORD, WORD], lambda x, c: fold(step, word(2), word(6), [x], [c]))
    made = only("unroll", of)
    assert kinds(made).count("mul") == 4 and "for" not in kinds(made)
    assert run_passes(of, Context(unrolled_rounds=3), only=["unroll"]).id == of.id
    assert run_passes(of, Context(unrolled_nodes=8), only=["unroll"]).id == of.id


def test_a_short_carried_array_becomes_values() -> None:
    def step(i: Node, v: Node) -> Node:
        a, b, c, d = (op("take", v, word(k)) for k in range(4))
        return op("stack", op("add", a, i), a, op("xor", b, c), d, axis=0)

    inner = body([WORD, FOUR], step)
    of = function([FOUR, WORD], lambda x, n: fold(inner, word(0), few(n), [x], []))
    made = only("scalars", of)
    (loop,) = [n for n in walk(made.result) if n.kind == "for"]
    assert loop["carries"] == 4
    settled = run_passes(of)
    (loop,) = [n for n in walk(settled.result) if n.kind == "for"]
    assert "take" not in [n.kind for n in walk(loop["body"].result)], "no array is left inside"  # type: ignore[union-attr]
    assert run_passes(of, Context(scalars=3), only=["scalars"]).id == of.id


def test_an_array_that_is_read_anywhere_stays_one() -> None:
    inner = body([WORD, FOUR], lambda i, v: op("stack", *[op("take", v, i)] * 4, axis=0))
    of = function([FOUR, WORD], lambda x, n: fold(inner, word(0), few(n), [x], []))
    assert run_passes(of, only=["scalars"]).id == of.id


def test_the_state_of_a_hash_is_values() -> None:
    made = run_passes(Library.standard().function("sha256.sha256_block"))
    loops = [n for n in walk(made.result) if n.kind == "for"]
    assert sorted(n["carries"] for n in loops) == [1, 8]  # type: ignore[type-var]


# --- names and facts


@pytest.mark.req("K012")
def test_facts_survive_every_pass() -> None:
    """What ten facts say of a node can be told after each pass; parameters keep their ownership."""
    of = Library.standard().function("attention.attention", overload="f16")
    for name in passes():
        made = run_passes(of, only=[name])
        for n in walk(made.result):
            told = facts_of(n, made.labels.dims)
            assert tuple(told) == TEN and all(told.values()), (name, n)
        assert [p.mode for p in made.params] == [p.mode for p in of.params]


def test_labels_follow_their_nodes_through_all_passes() -> None:
    x = param(0, tensor(U32, 4))
    hidden, last = op("add", x, spread(word(0), x.type.shape)), None  # type: ignore[union-attr]
    last = op("not", hidden)
    labels = Labels("f", (), ("x",), {hidden.id: "same", last.id: "flipped"}, {last.id: ("f.btn", 2)})
    made = run_passes(Function(0, (Parameter(x.type),), last, labels=labels))
    assert made.labels.nodes == {made.result.inputs[0].id: "same", made.result.id: "flipped"}
    assert made.labels.lines == {made.result.id: ("f.btn", 2)} and made.labels.params == ("x",)


# --- planted faults


def _lies(of: Function, context: Context) -> Node | None:
    return next((n for n in walk(of.result) if n.kind == "neg"), None)


def test_a_pass_that_does_not_do_what_it_says_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    fact = Fact("no neg", "nothing is negated", _lies)
    row = Pass("idle", "says that it removes negations", ("operation",), (fact,), change=lambda n, c: None)
    of = function([tensor(I32, 4)], lambda x: op("neg", x))
    monkeypatch.setattr(table, "passes", lambda: {"idle": row})
    monkeypatch.setattr("bittern.passes.run.passes", lambda: {"idle": row})
    assert fact.against(run_passes(of), Context()) is not None


def test_a_pass_that_changes_a_type_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(of: Function, context: Context) -> Function:
        return replace(of, result=op("reshape", of.result, shape=(dim(2), dim(2))))

    row = Pass("wrong", "changes the result", (), (), wrong)
    monkeypatch.setattr("bittern.passes.run.passes", lambda: {"wrong": row})
    with pytest.raises(AssertionError, match="wrong"):
        run_passes(function([FOUR], lambda x: x))


def test_passes_that_never_end_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def more(of: Function, context: Context) -> Function:
        return replace(of, result=op("not", of.result))

    monkeypatch.setattr("bittern.passes.run.passes", lambda: {"more": Pass("more", "", (), (), more)})
    with pytest.raises(AssertionError, match="do not come to an end"):
        run_passes(function([FOUR], lambda x: x))


def test_nodes_are_counted_with_their_bodies() -> None:
    inner = body([WORD], lambda a: op("not", a))
    of = function([FOUR], lambda x: map_over(inner, dim(4), [x], []))
    assert count_nodes(of) == 4


def test_arguments_are_as_their_types_say() -> None:
    of = function([FOUR, tensor(F32, 2, 3)], lambda x, y: x)
    made: list[Array] = arguments_for(of, 0)
    assert [a.shape for a in made] == [(4,), (2, 3)] and len(list(leaves(make_tuple([of.result]).type))) == 1
