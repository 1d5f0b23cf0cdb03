"""Every rewrite rule is proven: at 8 bits over all inputs, for wider elements at the edges and at random."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from bitops_cases import Array, edges, random, same_bits
from bitops_examples import EXAMPLES

from bittern.bitops.builder import Builder
from bittern.bitops.interpret import interpret
from bittern.bitops.kernel import Kernel, walk
from bittern.bitops.kinds import KINDS, Site, kinds
from bittern.bitops.lanes import Lanes, array_of_bits, lanes, unsigned
from bittern.bitops.rewrites import RULES, Rule, Term, parse
from bittern.bitops.simplify import ELEMENT_TESTS, LITERALS, literal, simplify
from bittern.bitops.text import text
from bittern.bitops.verify import verify

COMPARED = ("eq", "ne", "lt", "le")
COUNTED = ("shl", "shr", "rotl", "rotr")
ELEMENTS = ("u8", "i8", "bit", "u16", "i32", "u64", "f32", "f64", "index")


def names(term: Term) -> set[str]:
    """Return the names of values and constants of a term."""
    if term.is_call:
        return set().union(*(names(t) for t in term.operands))
    return set() if term.number or term.head in LITERALS else {term.head}


def inner_type(term: Term, k: int, of: Lanes) -> Lanes:
    """Return the type in which operand k of a term is taken; of a comparison that of what it compares."""
    operand = term.operands[k]
    if term.head == "select" and k == 0:
        return of if operand.head in COMPARED else of.mask
    return unsigned(of) if term.head in COUNTED and k == 1 else of


def types(term: Term, of: Lanes, found: dict[str, Lanes]) -> None:
    """Set the types of the names in a term that is of a type, or compares values of it."""
    for k, operand in enumerate(term.operands):
        inner = inner_type(term, k, of)
        if operand.is_call:
            types(operand, inner, found)
        elif not operand.number and operand.head not in LITERALS:
            found.setdefault(operand.head, inner)


def value(term: Term, given: Mapping[str, Array], of: Lanes) -> Array:
    """Evaluate a term by the meanings of its kinds."""
    if not term.is_call:
        if term.number or term.head in LITERALS:
            type_ = of.mask if term.head in ("true", "false") else of
            return array_of_bits(type_, (literal(term.head, type_),))
        return given[term.head]
    inner = [value(t, given, inner_type(term, k, of)) for k, t in enumerate(term.operands)]
    length = max(map(len, inner))
    arrays = [np.broadcast_to(x, (length,)) for x in inner]
    result = of.mask if term.head in COMPARED else of
    meaning = KINDS[term.head].meaning
    assert meaning is not None
    with np.errstate(all="ignore"):
        return meaning(Site((of,) * len(arrays), (result,), {}), *arrays)


def grids(found: Mapping[str, Lanes], rule: Rule, bits: int) -> Iterator[dict[str, Array]]:
    """Yield arrays for the names: all combinations at 8 bits, else edges with random ones."""
    rng = np.random.default_rng(1)
    whole = all(t.element.bits <= 8 for t in found.values())
    columns = {}
    for name, of in found.items():
        if whole:
            all_bits = np.arange(2 if of.is_mask else 256, dtype=np.uint8)
            columns[name] = all_bits.astype(bool) if of.is_mask else all_bits.view(of.dtype)
        else:
            columns[name] = np.concatenate([_edges(of), _random(of, rng)])
    fixed = sorted(name for name in found if name.isupper())
    if rule.where is None:
        fixed = fixed[:1] if len(found) > 2 else []
    free = sorted(set(found) - set(fixed))
    mesh = [m.reshape(-1) for m in np.meshgrid(*[columns[n] for n in free], indexing="ij")]
    for constants in product(*[columns[n] for n in fixed]):
        chosen = {n: np.array([c]) for n, c in zip(fixed, constants, strict=True)}
        numbers = {n: int(_as_bits(c)) for n, c in chosen.items()}
        if rule.where is None or rule.where(numbers, bits):
            yield {**chosen, **dict(zip(free, mesh, strict=True))}


def _edges(of: Lanes) -> Array:
    return edges("i64" if of.element.name == "index" else of.element.name)


def _random(of: Lanes, rng: np.random.Generator) -> Array:
    return random("i64" if of.element.name == "index" else of.element.name, 20, rng)


def _as_bits(array: Array) -> Any:
    return array.view(f"u{array.dtype.itemsize}")[0]


def holds(rule: Rule, element: str) -> bool:
    """Whether both sides of a rule are equal, for an element, for all the inputs of `grids`."""
    of, found = lanes(element), dict[str, Lanes]()
    old, new = parse(rule.old), parse(rule.new)
    types(old, of, found)
    for given in grids(found, rule, of.element.bits):
        left, right = np.broadcast_arrays(value(old, given, of), value(new, given, of))
        result = of.mask if left.dtype == bool else of
        if left.dtype != right.dtype or not same_bits(result, left, right, False):
            return False
    return True


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_each_rule_holds(rule: Rule) -> None:
    """EDGE_CASES A13: a rule holds for all inputs, those that wrap too."""
    kinds()
    assert names(parse(rule.new)) <= names(parse(rule.old))
    fitting = [e for e in ELEMENTS if ELEMENT_TESTS[rule.elements](lanes(e)) and takes(rule.old, lanes(e))]
    assert fitting
    for element in fitting:
        assert holds(rule, element), (rule, element)


def takes(text: str, of: Lanes) -> bool:
    """Whether the kinds of a term take a type."""
    term = parse(text)
    heads = {term.head} | {t.head for t in term.operands if t.is_call}
    if of.is_mask:
        return heads <= {"and", "or", "xor", "not", "eq", "ne", "select"}
    if of.element.name == "index" and heads & {"rotl", "rotr", "reverse_bits", "reverse_bytes", "shl", "shr"}:
        return False
    if heads & {"abs", "neg"}:
        return of.is_signed or of.is_float
    return not (of.is_float and heads & {"and", "or", "xor", "rem"})


@pytest.mark.parametrize(
    "wrong",
    [
        Rule("wrong_shift", "shr(shl(x, C), C)", "x", "unsigned"),
        Rule("wrong_sum", "shl(shl(x, C), D)", "shl(x, add(C, D))", "word"),
        Rule("wrong_order", "select(lt(x, y), x, y)", "max(x, y)", "any"),
        Rule("wrong_nan", "not_(lt(x, y))", "le(y, x)", "float"),
        Rule("wrong_zero", "add(x, 0)", "x", "float"),
        Rule("wrong_ends", "abs(x)", "x", "signed"),
    ],
    ids=lambda r: r.name,
)
def test_a_wrong_rule_is_found(wrong: Rule) -> None:
    kinds()
    fitting = [e for e in ELEMENTS if ELEMENT_TESTS[wrong.elements](lanes(e)) and e != "bit"]
    assert not all(holds(wrong, e) for e in fitting)


def test_names_of_rules_are_unique() -> None:
    assert len({r.name for r in RULES}) == len(RULES)


def kinds_of(kernel: Kernel) -> list[str]:
    """Return the kinds of a kernel's steps, in order."""
    return [step.kind for step in walk(kernel.body)]


def test_constants_fold_and_addresses_take_them_in() -> None:
    b = Builder("places", ("n",))
    x, y = b.buffer("x", "f32", b.dims[0] * 16 + 8, "read"), b.buffer("y", "f32", b.dims[0] * 16, "write")
    with b.loop(0, b.dims[0]) as loop:
        (i,) = loop
        y.store(i * 16, x.load("f32x16", i * (b.index(4) * 4) + 5 + 3))
    simple = simplify(b.build())
    load = next(s for s in walk(simple.body) if s.kind == "load")
    assert load.attributes["offset"] == 32 and kinds_of(simple).count("mul") == 1
    verify(simple)


def test_equal_steps_are_shared_and_leave_loops_but_no_branch() -> None:
    b = Builder("share")
    x, y = b.buffer("x", "i32", 16, "read"), b.buffer("y", "i32", 16, "update")
    k = x.load("i32", 0)
    with b.loop(0, 4) as loop, b.when(k < 3):
        (i,) = loop
        y.store(i, (k * 7).broadcast(4).lane(0) + (k * 7))
    simple = simplify(b.build())
    assert kinds_of(simple).count("mul") == 1
    branch = next(s for s in walk(simple.body) if s.kind == "if")
    assert "mul" in [s.kind for s in branch.blocks[0].steps]
    assert "lt" not in [s.kind for s in next(s for s in walk(simple.body) if s.kind == "for").blocks[0].steps]


def test_what_comes_to_stand_in_front_of_a_branch_serves_it_too() -> None:
    b = Builder("front")
    x, y = b.buffer("x", "i32", 16, "read"), b.buffer("y", "i32", 16, "update")
    k = x.load("i32", 0)
    with b.loop(0, 4) as (i,):
        with b.when(k < 3):
            y.store(i, k * 7)
        y.store(i, k * 7, offset=16)
    simple = simplify(b.build())
    assert kinds_of(simple).count("mul") == 1 and "mul" in [s.kind for s in simple.body.steps]
    verify(simple)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_what_is_simple_stays_as_it_is(name: str) -> None:
    simple = simplify(EXAMPLES[name]().kernel)
    again = simplify(simple)
    assert structure(again) == structure(simple)
    assert {s for s in walk(again.body) if not s.blocks} == {s for s in walk(simple.body) if not s.blocks}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_numbers_of_values_are_unique(name: str) -> None:
    simple = simplify(EXAMPLES[name]().kernel)
    made = [v for s in walk(simple.body) for v in (*s.results, *(p for b in s.blocks for p in b.parameters))]
    numbers = [v.number for v in (*made, *(p.value for p in simple.parameters))]
    assert len(set(numbers)) == len(numbers)


def structure(kernel: Kernel) -> str:
    """Return the text of a kernel with its values numbered in order."""
    seen: dict[str, str] = {}
    return re.sub(r"%\d+", lambda found: seen.setdefault(found.group(), f"%{len(seen)}"), text(kernel))


def test_a_dot_takes_the_sum_in() -> None:
    b = Builder("dot")
    x, y = b.buffer("x", "u8", 64, "read"), b.buffer("y", "i32", 16, "update")
    total = y.load("i32x16", 0)
    codes = x.load("u8x64", 0)
    y.store(0, total + codes.dot(codes.reinterpret("i8")))
    simple = simplify(b.build())
    assert "add" not in kinds_of(simple) and kinds_of(simple).count("dot4") == 1


def test_dead_steps_go_and_effects_stay() -> None:
    b = Builder("dead")
    x, y = b.buffer("x", "f32", 16, "read"), b.buffer("y", "f32", 16, "write")
    x.load("f32x16", 0).unary("sqrt")
    with b.loop(0, 4, 1, b.const("f32", 1.0)) as loop:
        _, c = loop
        loop.carry(c + 1.0)
    y.store(0, b.const("f32x16", 2.0))
    assert sorted(kinds_of(simplify(b.build()))) == ["const", "const", "store"]


def test_a_known_branch_is_taken() -> None:
    b = Builder("known")
    y = b.buffer("y", "i32", 2, "write")
    branch = b.branch(b.const("i32", 3) < 5)
    with branch.yes:
        branch.give(b.const("i32", 7))
    with branch.no:
        branch.give(b.const("i32", 8))
    y.store(0, branch.results[0])
    y.store(1, branch.results[0] + 1)
    simple = simplify(b.build())
    assert "if" not in kinds_of(simple)
    found = np.zeros(2, np.int32)
    interpret(simple, {"y": found})
    assert found.tolist() == [7, 8]


def test_labels_are_kept() -> None:
    b = Builder("labels")
    y = b.buffer("y", "f32", 16, "write")
    with b.labelled("layer.3.norm"):
        y.store(0, y.builder.const("f32x16", 1.0))
    simple = simplify(b.build())
    assert all(s.label == "layer.3.norm" for s in walk(simple.body) if s.kind == "store")
    assert replace(simple, name="other").body is simple.body
