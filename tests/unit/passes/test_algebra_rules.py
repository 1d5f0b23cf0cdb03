"""Every rule of algebra is proven: over all inputs for elements of 8 bits and fewer, at the edges for wider ones.

The oracle is the meaning of the ops, applied to the two sides of a row; the matching of nodes is tested beside it.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest
from pass_cases import PLAIN, SMALL, Array, agree, function, mesh, op, same_bits, values, word

from bittern.bitops.rewrites import Term, parse
from bittern.graph.node import Node, const
from bittern.graph.rules import result_type
from bittern.ops.table import Site, ops
from bittern.passes.algebra import apply_conversion, apply_rule, rewritten
from bittern.passes.algebra_rules import CLASSES, CONVERSIONS, RULES, Conversion, Rule, covers
from bittern.passes.known import spread
from bittern.types.elements import BIT, ELEMENTS, F32, F64, U32, Element
from bittern.types.faults import TypeFault
from bittern.types.values import Tensor, tensor

COUNTED = ("shl", "shr", "rotl", "rotr")
COMPARED = ("eq", "ne", "lt", "le")
WIDE = tuple(e for e in PLAIN if e.bits > 8 or e.is_float)
LITERALS = ("ones", "true", "false")


def works_on(term: Term, place: int, element: Element) -> Element:
    """Return the element on which an operand of a term works, if the term works on `element`."""
    if term.head in COUNTED and place == 1:
        return U32
    is_condition = term.head == "select" and place == 0
    return BIT if is_condition and term.operands[place].head not in COMPARED else element


def names(term: Term, element: Element) -> dict[str, Element]:
    """Return the names in a term with the element that each has. element: on which the term works."""
    found: dict[str, Element] = {}
    for place, operand in enumerate(term.operands):
        inner = works_on(term, place, element)
        if operand.is_call:
            found |= names(operand, inner)
        elif not operand.number and operand.head not in LITERALS:
            found.setdefault(operand.head, inner)
    return found


def literal(head: str, element: Element) -> int:
    """Return the number that a literal is."""
    if head == "ones":
        return -1 if element.low < 0 else element.high
    return {"true": 1, "false": 0}.get(head, -1) if head in LITERALS else int(head)


def value(term: Term, given: Mapping[str, Array], element: Element, count: int) -> Array:
    """Return a term's values by the meanings of the ops. element: on which it works."""
    if not term.is_call:
        if term.number or term.head in LITERALS:
            return np.full(count, literal(term.head, element)).astype(element.dtype)
        return given[term.head]
    if term.head == "log2":
        return np.log2(given[term.operands[0].head].astype(np.float64)).astype(np.uint32)
    inner = [works_on(term, k, element) for k in range(len(term.operands))]
    arrays = [value(t, given, e, count) for t, e in zip(term.operands, inner, strict=True)]
    types = tuple(tensor(BIT if t.head in COMPARED else e, count) for t, e in zip(term.operands, inner, strict=True))
    result = result_type(term.head, types, {})
    assert isinstance(result, Tensor)
    with np.errstate(all="ignore"):
        return ops()[term.head].meaning(Site(0, types, result, {}), *arrays)


def domain(name: str, element: Element, whole: Element) -> Array:
    """Return all values that a name takes; of a count of shifts, all that differ, and the largest ones."""
    if element is U32 and whole is not U32 and name.isupper():
        bits = whole.bits
        low = range(2 * bits + 3) if bits <= 8 else (0, 1, 2, bits // 2, bits - 1, bits, bits + 1, 2 * bits)
        return np.array([*low, 2**31, 2**32 - bits, 2**32 - 1], np.uint32)
    return values(element)


def cases(rule: Rule, element: Element) -> Iterator[dict[str, Array]]:
    """Yield arrays for the names of a rule: all combinations for which it says that it holds."""
    found = names(parse(rule.old), element)
    columns = {name: domain(name, e, element) for name, e in found.items()}
    fixed = [name for name in found if name.isupper()] if rule.where is not None else []
    free = {name: column for name, column in columns.items() if name not in fixed}
    for chosen in product(*(columns[name] for name in fixed)):
        numbers = {name: int(number) for name, number in zip(fixed, chosen, strict=True)}
        if rule.where is not None and not rule.where(numbers, element):
            continue
        if len(free) > 2 and element.bits == 8:  # 2^24 combinations, one part after the other
            first, *rest = free
            for part in np.array_split(free[first], 16):
                yield _with(mesh({first: part, **{name: free[name] for name in rest}}), numbers, found)
        else:
            yield _with(mesh(free), numbers, found)


def _with(given: dict[str, Array], numbers: Mapping[str, int], found: Mapping[str, Element]) -> dict[str, Array]:
    count = len(next(iter(given.values())))
    return given | {name: np.full(count, number).astype(found[name].dtype) for name, number in numbers.items()}


def holds(rule: Rule, element: Element) -> bool:
    """Whether both sides of a rule have the same bits for all cases of an element."""
    return all(same_bits(*sides(rule, given, element)) for given in cases(rule, element))


def sides(rule: Rule, given: Mapping[str, Array], element: Element) -> list[Array]:
    """Return the values of both sides of a rule."""
    count = len(next(iter(given.values())))
    old, new = parse(rule.old), parse(rule.new)
    of_new = BIT if old.head in COMPARED and new.head in ("true", "false") else element
    return [value(old, given, element, count), value(new, given, of_new, count)]


def elements(rule: Rule, among: tuple[Element, ...]) -> list[Element]:
    """Return the elements on which a rule's operands may be."""
    term = parse(rule.old)
    if term.head != "select" and term.operands[0].head in COMPARED:  # what is compared may be anything
        return [e for e in among if CLASSES["ordered"](e)]
    return [e for e in among if covers(rule.elements, e)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rules_hold_for_all_small_inputs(rule: Rule) -> None:
    chosen = elements(rule, SMALL)
    assert chosen
    assert [e.name for e in chosen if not holds(rule, e)] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rules_hold_at_the_edges_of_wide_inputs(rule: Rule) -> None:
    few = [e for e in elements(rule, WIDE) if e.bits != 16 or not e.is_float]
    assert [e.name for e in few if not holds(rule, e)] == []


WRONG = (
    Rule("sub_swapped", "sub(x, y)", "sub(y, x)", "int"),
    Rule("shr_any", "shr(shl(x, C), C)", "x", "int"),
    Rule("rotl_any", "rotl(rotl(x, C), D)", "rotl(x, add(C, D))", "unsigned"),
    Rule("div_signed", "div(x, C)", "shr(x, log2(C))", "signed", lambda c, e: c["C"] in (2, 4)),
    Rule("rem_signed", "rem(x, C)", "and_(x, sub(C, 1))", "signed", lambda c, e: c["C"] in (2, 4)),
    Rule("lt_of_sub", "lt(sub(x, y), 0)", "lt(x, y)", "signed"),
    Rule("abs_twice", "abs(x)", "x", "signed"),
    Rule("and_wrong", "and_(x, or_(x, y))", "y", "logical"),
)
WRONG_FLOATS = (
    Rule("add_zero", "add(x, y)", "add(y, x)", "negatable"),
    Rule("min_swapped", "min(x, y)", "min(y, x)", "negatable"),
    Rule("sub_to_neg", "sub(x, x)", "sub(y, y)", "negatable"),
    Rule("eq_self", "eq(x, x)", "true", "ordered"),
    Rule("not_lt", "not_(lt(x, y))", "le(y, x)", "bit"),
    Rule("select_le", "select(le(x, y), x, y)", "min(x, y)", "negatable"),
    Rule("neg_by_sub", "neg(x)", "sub(z, x)", "negatable"),
)


@pytest.mark.parametrize("rule", WRONG, ids=lambda rule: rule.name)
def test_a_planted_wrong_rule_is_caught(rule: Rule) -> None:
    assert [e.name for e in elements(rule, SMALL) if not holds(rule, e)]


@pytest.mark.parametrize("rule", WRONG_FLOATS, ids=lambda rule: rule.name)
def test_a_planted_wrong_rule_on_floats_is_caught(rule: Rule) -> None:
    """NaN, zeros of both signs and infinities are among the cases; a name that only the new side has is a zero."""
    for element in (F32, F64):
        for given in cases(rule, element):
            count = len(next(iter(given.values())))
            given = {**{"y": np.zeros(count, element.dtype), "z": np.zeros(count, element.dtype)}, **given}
            if not same_bits(*sides(rule, given, element)):
                return
    pytest.fail("no case noticed the fault")


# --- conversions


def chains() -> Iterator[tuple[Conversion, Element, Element, Element]]:
    """Yield rows with elements for which the ops exist and the row says that it holds."""
    some = [e for e in PLAIN if e.bits in (1, 2, 5, 8, 16, 32, 64)]
    for row in CONVERSIONS:
        for source, between, to in product(some, repeat=3):
            if not row.inner and source != between:
                continue
            try:
                middle = converted(row.inner, tensor(source), between) if row.inner else tensor(source)
                converted(row.outer, middle, to)
            except TypeFault:
                continue
            if row.where(source, between, to):
                yield row, source, between, to


def converted(kind: str, type_: Tensor, to: Element) -> Tensor:
    """Return the type of a conversion, or of a rounding to whole numbers."""
    result = result_type(kind, [type_], {"to": to} if kind in ("convert", "wrap", "sat", "round", "sign") else {})
    if not isinstance(result, Tensor) or result.element != to:
        raise TypeFault("E300", "another element", to.name)
    return result


def run(kind: str, x: Array, source: Element, to: Element) -> Array:
    """Return the values of a conversion."""
    types = tensor(source, len(x)), tensor(to, len(x))
    with np.errstate(all="ignore"):
        return ops()[kind].meaning(Site(0, types[:1], types[1], {"to": to}), x)


def chain_holds(row: Conversion, source: Element, between: Element, to: Element) -> bool:
    """Whether two conversions in a row equal the one that the row says."""
    x = values(source)
    x = x[::11] if source.bits == 16 else x
    inner = run(row.inner, x, source, between) if row.inner else x
    old = run(row.outer, inner, between, to)
    return same_bits(old, run(row.new, x, source, to) if row.new else x)


def test_conversions_hold_for_all_elements() -> None:
    tried: dict[str, int] = {}
    wrong = []
    for row, source, between, to in chains():
        tried[row.name] = tried.get(row.name, 0) + 1
        if not chain_holds(row, source, between, to):
            wrong.append((row.name, source.name, between.name, to.name))
    assert not wrong and sum(tried.values()) > 500
    assert tried.keys() == {row.name for row in CONVERSIONS}, "each row has a case"


WRONG_CONVERSIONS = (
    Conversion("wrap_sat", "wrap", "sat", "wrap", lambda s, m, t: True),
    Conversion("wrap_wrap", "wrap", "wrap", "wrap", lambda s, m, t: True),
    Conversion("round_any", "round", "convert", "sat", lambda s, m, t: s.is_integer and t.is_integer),
    Conversion("by_float", "convert", "convert", "convert", lambda s, m, t: m.name == "f32" and s.is_integer),
)


@pytest.mark.parametrize("row", WRONG_CONVERSIONS, ids=lambda row: row.name)
def test_a_planted_wrong_conversion_is_caught(row: Conversion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "CONVERSIONS", (row,))
    assert not all(chain_holds(*chain) for chain in chains())


# --- the table and the nodes


def build(term: Term, element: Element, given: Mapping[str, Node], shape: tuple[Any, ...]) -> Node:
    """Return the node that a term means."""
    if not term.is_call:
        if term.number or term.head in LITERALS:
            return spread(const(literal(term.head, element), element), shape)
        return given[term.head]
    inner = [works_on(term, k, element) for k in range(len(term.operands))]
    return op(term.head, *(build(t, e, given, shape) for t, e in zip(term.operands, inner, strict=True)))


def example(rule: Rule, element: Element) -> Node:
    """Return a node that a rule matches: an array of 6 with parameters for values and constants for constants."""
    found = names(parse(rule.old), element)
    free = [name for name in found if not name.isupper()]
    shape = tensor(element, 6).shape
    constants = next(
        numbers
        for numbers in product(range(1, 8), repeat=len(found) - len(free))
        if rule.where is None or rule.where(dict(zip([n for n in found if n.isupper()], numbers, strict=True)), element)
    )
    given: dict[str, Node] = {}
    for name, number in zip([n for n in found if n.isupper()], constants, strict=True):
        of = found[name]
        given[name] = spread(const(number if of.bits > 3 else number % (of.high + 1), of), shape)
    from bittern.graph.node import param

    for place, name in enumerate(free):
        given[name] = param(place, Tensor(found[name], shape))
    return build(parse(rule.old), element, given, shape)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_finds_its_nodes(rule: Rule) -> None:
    for element in (ELEMENTS["u8"], ELEMENTS["i8"], BIT, F32, ELEMENTS["b1"]):
        if element not in elements(rule, (element,)):
            continue
        if rule.elements == "product" and element.kind.value == "sign" and "0" in rule.old:
            continue
        old = example(rule, element)
        made = apply_rule(rule, old)
        assert made is not None and made is not old and made.type == old.type, element
        kinds = names(parse(rule.old), element)
        types = [Tensor(kinds[n], tensor(F32, 6).shape) for n in kinds if not n.isupper()]
        assert agree(function(types, lambda *_, old=old: old), function(types, lambda *_, made=made: made))


def test_names_are_unique_and_sides_use_the_same_names() -> None:
    rows = [*RULES, *CONVERSIONS]
    assert len({row.name for row in rows}) == len(rows)
    for rule in RULES:
        assert rule.elements in CLASSES
        assert names(parse(rule.new), ELEMENTS["u8"]).keys() <= names(parse(rule.old), ELEMENTS["u8"]).keys() or (
            parse(rule.new).head in names(parse(rule.old), ELEMENTS["u8"])
        )


def test_other_nodes_stay() -> None:
    x = function([tensor(F32, 4)], lambda x: op("add", x, spread(const(0.0, F32), tensor(F32, 4).shape)))
    assert rewritten(x.result) is None, "x + 0 is not x for a float: -0 + 0 is +0"
    y = function([tensor(U32, 4)], lambda y: op("shr", y, spread(word(3), tensor(U32, 4).shape)))
    assert rewritten(y.result) is None


def test_a_conversion_is_found_and_typed() -> None:
    i8, i32 = ELEMENTS["i8"], ELEMENTS["i32"]
    made = function([tensor(i8, 4)], lambda x: op("wrap", op("convert", x, to=i32), to=i8)).result
    row = next(row for row in CONVERSIONS if row.name == "wrap_convert")
    once = apply_conversion(row, made, made.inputs[0].inputs[0])
    assert once is not None and once.kind == "wrap" and rewritten(once) is once.inputs[0]
