"""Algebra: nodes that match a rule of `algebra_rules` become what the rule says.

The rules are proven by the tests: over all inputs for elements of 8 bits and fewer. Here they are matched: a small
letter stands for any value (the same letter for the same node), a capital for a constant or an array of one constant, a
number for a constant of that value.
"""

from collections.abc import Mapping
from functools import cache

import numpy as np

from bittern.bitops.rewrites import Term, parse
from bittern.graph.node import Attribute, Function, Node, const, node
from bittern.graph.rules import result_type
from bittern.passes.algebra_rules import CONVERSIONS, RULES, Conversion, Rule, covers
from bittern.passes.known import is_constant, is_open, number_of, spread
from bittern.passes.rewriting import with_bodies
from bittern.passes.table import Context, Fact, Pass
from bittern.types.elements import BIT, U32, Element
from bittern.types.values import Tensor

_COUNTED = ("shl", "shr", "rotl", "rotr")


@cache
def _by_kind() -> Mapping[str, tuple[Rule, ...]]:
    found: dict[str, list[Rule]] = {}
    for rule in RULES:
        found.setdefault(parse(rule.old).head, []).append(rule)
    return {kind: tuple(rules) for kind, rules in found.items()}


@cache
def _by_pair() -> Mapping[tuple[str, str], tuple[Conversion, ...]]:
    found: dict[tuple[str, str], list[Conversion]] = {}
    for row in CONVERSIONS:
        found.setdefault((row.outer, row.inner), []).append(row)
    return {pair: tuple(rows) for pair, rows in found.items()}


def _change(of: Node, context: Context) -> Node | None:
    return rewritten(of)


def rewritten(of: Node, rules: tuple[Rule, ...] | None = None) -> Node | None:
    """Return what the first rule that matches makes of a node, or None. rules: instead of the whole table."""
    if not isinstance(of.type, Tensor) or not of.inputs or not all(isinstance(i.type, Tensor) for i in of.inputs):
        return None
    if is_open(of.type.element) or any(isinstance(i.type, Tensor) and is_open(i.type.element) for i in of.inputs):
        return None
    for rule in _by_kind().get(of.kind, ()) if rules is None else rules:
        made = apply_rule(rule, of)
        if made is not None and made is not of and made.type == of.type:
            return made
    return _converted(of) if rules is None else None


# --- rules


def apply_rule(rule: Rule, of: Node) -> Node | None:
    """Return what a rule makes of a node, or None if it does not match."""
    element = _element(of)
    old = parse(rule.old)
    if element is None or old.head != of.kind or not covers(rule.elements, element):
        return None
    found: dict[str, Node] = {}
    if not _matches(old, of, found):
        return None
    if rule.where is not None and not rule.where(_numbers(found), element):
        return None
    return _made(parse(rule.new), found, of.type, of)


def _element(of: Node) -> Element | None:
    """Return the element on which a node works: that of its last operand, or of the first of a shift."""
    type_ = of.inputs[0 if of.kind in _COUNTED else -1].type
    return type_.element if isinstance(type_, Tensor) else None


def _matches(term: Term, of: Node, found: dict[str, Node]) -> bool:
    if term.is_call:
        return (
            of.kind == term.head
            and len(of.inputs) == len(term.operands)
            and all(_matches(t, i, found) for t, i in zip(term.operands, of.inputs, strict=True))
        )
    if term.number or term.head in _LITERALS:
        return _is_literal(term.head, of)
    if term.head.isupper() and not is_constant(of):
        return False
    return found.setdefault(term.head, of) is of


_LITERALS = ("ones", "true", "false")


def _literal(head: str, element: Element) -> int:
    if head == "ones":
        return element.high if element.low == 0 else -1
    return {"true": 1, "false": 0}[head] if head in _LITERALS else int(head)


def _is_literal(head: str, of: Node) -> bool:
    assert isinstance(of.type, Tensor), of
    stored, element = number_of(of), of.type.element
    return stored is not None and not element.is_float and int(stored) == _literal(head, element)


def _numbers(found: Mapping[str, Node]) -> dict[str, int]:
    """Return the values of the constants that are one integer; others are left out."""
    stored = {name: number_of(of) for name, of in found.items() if name.isupper()}
    return {name: int(value) for name, value in stored.items() if value is not None and value.dtype.kind in "iub"}


def _made(term: Term, found: Mapping[str, Node], type_: object, root: Node) -> Node | None:
    """Return the node that a term means. type_: of the result, as far as the term itself does not tell."""
    assert isinstance(type_, Tensor), type_
    if not term.is_call:
        if term.number or term.head in _LITERALS:
            return spread(const(np.array(_literal(term.head, type_.element)), type_.element), type_.shape)
        return found[term.head]
    if term.head == "log2":
        return _logarithm(found[term.operands[0].head])
    inputs = [_made(t, found, _operand_type(term, k, found, type_), root) for k, t in enumerate(term.operands)]
    if any(i is None for i in inputs):
        return None
    nodes = [i for i in inputs if i is not None]
    return made_node(term.head, nodes)


def _operand_type(term: Term, k: int, found: Mapping[str, Node], type_: Tensor) -> Tensor:
    """Return the type in which operand k of a term is taken."""
    if term.head in _COUNTED and k == 1:
        return Tensor(U32, type_.shape, type_.space)
    if term.head == "select" and k == 0:
        return Tensor(BIT, type_.shape, type_.space)
    if term.head in ("eq", "ne", "lt", "le"):
        named = (found[t.head].type for t in term.operands if t.head in found)
        return next((t for t in named if isinstance(t, Tensor)), type_)
    return type_


def _logarithm(of: Node) -> Node | None:
    stored = number_of(of)
    if stored is None or not isinstance(of.type, Tensor):
        return None
    return spread(const(int(stored).bit_length() - 1, U32), of.type.shape)


def made_node(kind: str, inputs: list[Node], **attributes: Attribute) -> Node:
    """Return a node of an op with the type of its rule."""
    type_ = result_type(kind, [i.type for i in inputs], attributes)
    return node(kind, inputs, attributes, type_)


# --- conversions


def _converted(of: Node) -> Node | None:
    """Return what a row of `CONVERSIONS` makes of two conversions in a row, or of one that does nothing."""
    if len(of.inputs) != 1:
        return None
    inner = of.inputs[0]
    pairs = [("", of)] + ([(inner.kind, inner.inputs[0])] if len(inner.inputs) == 1 else [])
    for kind, source in pairs:
        source = inner if not kind else source
        for row in _by_pair().get((of.kind, kind), ()):
            made = apply_conversion(row, of, source)
            if made is not None:
                return made
    return None


def apply_conversion(row: Conversion, of: Node, source: Node) -> Node | None:
    """Return what a row makes of conversions from `source` to `of`, or None if it does not hold for their elements."""
    first, middle, to = source.type, of.inputs[0].type, of.type
    if not (isinstance(first, Tensor) and isinstance(middle, Tensor) and isinstance(to, Tensor)):
        return None
    if is_open(first.element) or first.shape != to.shape or not row.where(first.element, middle.element, to.element):
        return None
    if not row.new:
        return source if source.type == of.type else None
    attributes: dict[str, Attribute] = (
        {"to": to.element} if row.new in ("convert", "wrap", "sat", "round", "sign") else {}
    )
    return made_node(row.new, [source], **attributes)


def _left(function: Function, context: Context) -> Node | None:
    """Return a node that matches a rule."""
    return next((each for each in with_bodies(function) if rewritten(each) is not None), None)


PASS = Pass(
    "algebra",
    "nodes that match a proven rule become what the rule says",
    ("operation", "input types", "flat"),
    (Fact("reduced", "no node matches a rule", _left),),
    change=_change,
)
