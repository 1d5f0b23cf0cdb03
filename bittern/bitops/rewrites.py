"""Rewrite rules, a row each: name, what is replaced, by what, and for which elements it holds.

Terms are written as calls of kinds. A small letter stands for any value, a capital for a constant that is the same in
all lanes; `0`, `1`, `ones` (all bits set) are constants of the type at hand. Every rule runs one way only, from the
dearer or less canonical form, so rewriting ends. For 8-bit elements each rule is proven over all inputs by the tests.

Floats: the bits of a NaN that arithmetic makes are not stated, so `x * 1.0` may become x; what could change the sign
of a zero or the rounding may not.
"""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

Where: TypeAlias = Callable[[Mapping[str, int], int], bool]  # bits of the constants, width -> whether the rule holds


@dataclass(frozen=True, slots=True)
class Rule:
    """One row. where: a condition on the bits of the constants and the width of the element."""

    name: str
    old: str
    new: str
    elements: str  # int (index too), word (int without index), unsigned, signed, bit, logical (int, bit), float, any
    where: "Where | None" = None


@dataclass(frozen=True, slots=True)
class Term:
    """A kind with its operands; or a name; or a number, with no operands."""

    head: str
    operands: "tuple[Term, ...]" = ()
    number: bool = False

    @property
    def is_call(self) -> bool:
        """Whether it is a kind with operands."""
        return bool(self.operands)


@lru_cache(maxsize=512)
def parse(text: str) -> Term:
    """Return the term that a rule's text means."""
    return _term(ast.parse(text, mode="eval").body)


def _term(node: ast.expr) -> Term:
    if isinstance(node, ast.Call):
        assert isinstance(node.func, ast.Name)
        return Term(node.func.id.rstrip("_"), tuple(_term(a) for a in node.args))
    if isinstance(node, ast.Name):
        return Term(node.id)
    assert isinstance(node, ast.Constant)
    return Term(str(node.value), (), True)


def _complements(constants: Mapping[str, int], width: int) -> bool:
    return 0 < constants["C"] < width and constants["C"] + constants["D"] == width


def _power(constants: Mapping[str, int], width: int) -> bool:
    return constants["C"] & (constants["C"] - 1) == 0 and constants["C"] > 0


RULES: tuple[Rule, ...] = (
    # name                  replaced                            by                            elements
    Rule("add_left",        "add(C, x)",                        "add(x, C)",                  "int"),
    Rule("mul_left",        "mul(C, x)",                        "mul(x, C)",                  "int"),
    Rule("and_left",        "and_(C, x)",                       "and_(x, C)",                 "logical"),
    Rule("or_left",         "or_(C, x)",                        "or_(x, C)",                  "logical"),
    Rule("xor_left",        "xor(C, x)",                        "xor(x, C)",                  "logical"),
    Rule("eq_left",         "eq(C, x)",                         "eq(x, C)",                   "any"),
    Rule("ne_left",         "ne(C, x)",                         "ne(x, C)",                   "any"),
    Rule("add_zero",        "add(x, 0)",                        "x",                          "int"),
    Rule("add_float_zero",  "add(x, negative_zero)",            "x",                          "float"),
    Rule("add_constants",   "add(add(x, C), D)",                "add(x, add(C, D))",          "int"),
    Rule("add_back",        "add(sub(x, y), y)",                "x",                          "int"),
    Rule("sub_back",        "sub(add(x, y), y)",                "x",                          "int"),
    Rule("sub_zero",        "sub(x, 0)",                        "x",                          "any"),
    Rule("sub_self",        "sub(x, x)",                        "0",                          "int"),
    Rule("sub_constant",    "sub(x, C)",                        "add(x, sub(0, C))",          "signed"),
    Rule("add_negated",     "add(x, sub(0, y))",                "sub(x, y)",                  "int"),
    Rule("sub_from_zero",   "sub(0, sub(x, y))",                "sub(y, x)",                  "int"),
    Rule("mul_one",         "mul(x, 1)",                        "x",                          "any"),
    Rule("mul_zero",        "mul(x, 0)",                        "0",                          "int"),
    Rule("mul_constants",   "mul(mul(x, C), D)",                "mul(x, mul(C, D))",          "int"),
    Rule("div_one",         "div(x, 1)",                        "x",                          "any"),
    Rule("rem_one",         "rem(x, 1)",                        "0",                          "int"),
    Rule("rem_power",       "rem(x, C)",                        "and_(x, sub(C, 1))",         "unsigned", _power),
    Rule("neg_neg",         "neg(neg(x))",                      "x",                          "any"),
    Rule("abs_abs",         "abs(abs(x))",                      "abs(x)",                     "any"),
    Rule("abs_neg",         "abs(neg(x))",                      "abs(x)",                     "any"),
    Rule("min_self",        "min(x, x)",                        "x",                          "any"),
    Rule("max_self",        "max(x, x)",                        "x",                          "any"),
    Rule("and_zero",        "and_(x, 0)",                       "0",                          "logical"),
    Rule("and_ones",        "and_(x, ones)",                    "x",                          "logical"),
    Rule("and_self",        "and_(x, x)",                       "x",                          "logical"),
    Rule("and_constants",   "and_(and_(x, C), D)",              "and_(x, and_(C, D))",        "logical"),
    Rule("or_zero",         "or_(x, 0)",                        "x",                          "logical"),
    Rule("or_ones",         "or_(x, ones)",                     "ones",                       "logical"),
    Rule("or_self",         "or_(x, x)",                        "x",                          "logical"),
    Rule("or_constants",    "or_(or_(x, C), D)",                "or_(x, or_(C, D))",          "logical"),
    Rule("xor_zero",        "xor(x, 0)",                        "x",                          "logical"),
    Rule("xor_ones",        "xor(x, ones)",                     "not_(x)",                    "logical"),
    Rule("xor_self",        "xor(x, x)",                        "0",                          "logical"),
    Rule("xor_constants",   "xor(xor(x, C), D)",                "xor(x, xor(C, D))",          "logical"),
    Rule("xor_back",        "xor(xor(x, y), y)",                "x",                          "logical"),
    Rule("not_not",         "not_(not_(x))",                    "x",                          "logical"),
    Rule("shl_zero",        "shl(x, 0)",                        "x",                          "int"),
    Rule("shr_zero",        "shr(x, 0)",                        "x",                          "int"),
    Rule("shl_constants",   "shl(shl(x, C), D)",                "shl(x, add_sat(C, D))",      "word"),
    Rule("shr_constants",   "shr(shr(x, C), D)",                "shr(x, add_sat(C, D))",      "word"),
    Rule("shr_of_shl",      "shr(shl(x, C), C)",                "and_(x, shr(ones, C))",      "unsigned"),
    Rule("shl_of_shr",      "shl(shr(x, C), C)",                "and_(x, shl(ones, C))",      "word"),
    Rule("rotl_zero",       "rotl(x, 0)",                       "x",                          "unsigned"),
    Rule("rotr_zero",       "rotr(x, 0)",                       "x",                          "unsigned"),
    Rule("rotl_constants",  "rotl(rotl(x, C), D)",              "rotl(x, add(C, D))",         "unsigned"),
    Rule("rotate",          "or_(shl(x, C), shr(x, D))",        "rotl(x, C)",                 "unsigned", _complements),
    Rule("rotate_turned",   "or_(shr(x, D), shl(x, C))",        "rotl(x, C)",                 "unsigned", _complements),
    Rule("reverse_twice",   "reverse_bits(reverse_bits(x))",    "x",                          "unsigned"),
    Rule("swap_twice",      "reverse_bytes(reverse_bytes(x))",  "x",                          "unsigned"),
    Rule("eq_self",         "eq(x, x)",                         "true",                       "logical"),
    Rule("ne_self",         "ne(x, x)",                         "false",                      "logical"),
    Rule("lt_self",         "lt(x, x)",                         "false",                      "any"),
    Rule("le_self",         "le(x, x)",                         "true",                       "int"),
    Rule("not_eq",          "not_(eq(x, y))",                   "ne(x, y)",                   "any"),
    Rule("not_ne",          "not_(ne(x, y))",                   "eq(x, y)",                   "any"),
    Rule("not_lt",          "not_(lt(x, y))",                   "le(y, x)",                   "int"),
    Rule("not_le",          "not_(le(x, y))",                   "lt(y, x)",                   "int"),
    Rule("select_same",     "select(m, x, x)",                  "x",                          "any"),
    Rule("select_not",      "select(not_(m), x, y)",            "select(m, y, x)",            "any"),
    Rule("select_min",      "select(lt(x, y), x, y)",           "min(x, y)",                  "any"),
    Rule("select_max",      "select(lt(y, x), x, y)",           "max(x, y)",                  "any"),
)  # fmt: skip
