"""Expressions: precedence against Python's own parser, which has the same order of binary operators; and heights."""

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syntax_trees import expression, sketch

from bittern.lang import expressions
from bittern.lang.expressions import COMPARISONS, MAX_HEIGHT, PRECEDENCE
from bittern.lang.parser import parse
from bittern.lang.source import Source

_SIGNS = {
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.BitAnd: "&",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Mod: "%",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.And: "and",
    ast.Or: "or",
    ast.USub: "-",
    ast.Invert: "~",
}


def _python_sketch(node):
    match node:
        case ast.Name():
            return node.id
        case ast.BinOp():
            return f"({_SIGNS[type(node.op)]} {_python_sketch(node.left)} {_python_sketch(node.right)})"
        case ast.Compare(ops=[op], comparators=[right]):
            return f"({_SIGNS[type(op)]} {_python_sketch(node.left)} {_python_sketch(right)})"
        case ast.BoolOp():
            result = _python_sketch(node.values[0])
            for value in node.values[1:]:
                result = f"({_SIGNS[type(node.op)]} {result} {_python_sketch(value)})"
            return result
        case ast.UnaryOp():
            return f"({_SIGNS[type(node.op)]} {_python_sketch(node.operand)})"
    raise AssertionError(ast.dump(node))


def _check_against_python(text):
    assert sketch(expression(text)) == _python_sketch(ast.parse(text, mode="eval").body), text


_ARITHMETIC = [sign for sign, rank in PRECEDENCE.items() if rank > PRECEDENCE["=="]]
_operand = st.sampled_from(["a", "b", "c", "-a", "~b", "(a or b)", "(a + b)", "(a < b)", "(a | b)"])
_arithmetic = st.lists(st.tuples(st.sampled_from(_ARITHMETIC), _operand), max_size=5)
_sum = st.builds(lambda first, rest: first + "".join(f" {sign} {right}" for sign, right in rest), _operand, _arithmetic)
_comparison = st.one_of(_sum, st.builds("{} {} {}".format, _sum, st.sampled_from(["==", "<", ">=", "!="]), _sum))
_logic = st.lists(st.tuples(_comparison, st.sampled_from(["and", "or"])), min_size=1, max_size=4)


@settings(max_examples=300, deadline=None)
@given(_logic)
def test_precedence_is_that_of_python(parts):
    _check_against_python(" ".join(word for part in parts for word in part).rsplit(" ", 1)[0])


def _check_every_pair():
    for left in PRECEDENCE:
        for right in PRECEDENCE:
            if not (left in COMPARISONS and right in COMPARISONS):
                _check_against_python(f"a {left} b {right} c")


def test_every_pair_of_operators():
    _check_every_pair()


@pytest.mark.parametrize(("sign", "rank"), [("*", 8), ("&", 4), ("==", 7), ("and", 1), ("<<", 9), ("|", 6), ("%", 10)])
def test_a_wrong_precedence_is_noticed(monkeypatch, sign, rank):
    monkeypatch.setitem(expressions.PRECEDENCE, sign, rank)
    with pytest.raises(AssertionError):
        _check_every_pair()


def test_prefixes_bind_tighter_than_operators_and_looser_than_postfixes():
    assert sketch(expression("-a + not b")) == "(+ (- a) (not b))"
    assert sketch(expression("not a == b")) == "(== (not a) b)"
    assert sketch(expression("- -a")) == "(- (- a))"
    assert expression("-a.b").operand.name.name == "b"
    assert expression("&a[0]").operand.items[0].low.text == "0"


def test_spans_cover_parentheses_and_operators():
    text = "(a + b) * c[1].d"
    whole = expression(text)
    at = whole.span.source.text.index(text)
    assert (whole.span.start, whole.span.end) == (at, at + len(text))
    assert (whole.operator_span.start, whole.operator_span.end) == (at + 8, at + 9)
    assert (whole.right.base.span.start, whole.right.base.span.end) == (at + 10, at + 14)


def _codes(text):
    return [error.code for error in parse(Source("case.btn", text))[1]]


@pytest.mark.parametrize("link", [" + 1", ".a", "[0]", "()"])
def test_height_is_bounded(link):
    assert _codes("const x: f32 = a" + link * (MAX_HEIGHT - 1)) == []
    assert _codes("const x: f32 = a" + link * (MAX_HEIGHT + 1)) == ["E111"]


def test_height_counts_prefixes_and_not_siblings():
    assert _codes("const x: f32 = " + "-" * (MAX_HEIGHT + 1) + "a") == ["E111"]
    assert _codes("const x: f32 = [" + "-a.b + c[1], " * 2000 + "]") == []
    assert _codes("const x: f32 = f(" + " + ".join(["-a.b.c"] * 150) + ")") == []


def test_control_is_an_operand():
    loop = expression("s + for i in 0..4 with v = s { v } + t")
    assert type(loop.left.right).__name__ == "For"
    chain = expression("if a { b } else if c { d } else { e }")
    assert type(chain.otherwise).__name__ == "If"


@pytest.mark.parametrize("word", ["-", "not "])
def test_prefix_before_control_needs_parentheses(word):
    (error,) = parse(Source("case.btn", f"const x: f32 = {word}if a {{ b }} else {{ c }}"))[1]
    assert (error.code, error.hint) == ("E105", "put the `if` in parentheses")
