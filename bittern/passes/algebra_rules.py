"""The rules of algebra, a row each: name, what is replaced, by what, for which elements, and when.

Every rule runs one way, from the dearer or less canonical form, so rewriting ends. Integers compute modulo 2^width.
Floats: only where all bits stay, those of every NaN included. So no rule here drops or adds an arithmetic operation on
floats (it would make a NaN quiet, or turn the sign of a zero); what chooses, flips or clears signs, or rounds twice to
a whole number, keeps them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from bittern.types.elements import Element, Kind

Where: TypeAlias = Callable[[Mapping[str, int], Element], bool]  # values of the constants, the element -> if it holds
Fits: TypeAlias = Callable[[Element, Element, Element], bool]  # elements: of the source, between, of the result


@dataclass(frozen=True, slots=True)
class Rule:
    """One row. elements: a word of `CLASSES`. where: a condition; constants that are no one integer are not in it."""

    name: str
    old: str
    new: str
    elements: str
    where: "Where | None" = None


@dataclass(frozen=True, slots=True)
class Conversion:
    """One row: `outer` of `inner` becomes `new` of what is inside; an empty `inner` or `new` is no operation."""

    name: str
    outer: str
    inner: str
    new: str
    where: Fits


CLASSES: dict[str, Callable[[Element], bool]] = {
    "int": lambda e: e.is_integer,
    "unsigned": lambda e: e.kind is Kind.UNSIGNED,
    "signed": lambda e: e.kind is Kind.SIGNED,
    "bit": lambda e: e.kind is Kind.BIT,
    "logical": lambda e: e.is_integer or e.kind is Kind.BIT,
    "product": lambda e: e.is_integer or e.kind is Kind.SIGN,
    "whole": lambda e: e.is_integer or e.kind in (Kind.SIGN, Kind.BIT),
    "negatable": lambda e: e.has_arithmetic,
    "balanced": lambda e: e.has_arithmetic and e.kind is not Kind.UNSIGNED,
    "ordered": lambda e: e.has_arithmetic or e.kind in (Kind.SIGN, Kind.BIT),
    "any": lambda e: e.kind is not Kind.FORMAT,
}


def covers(elements: str, element: Element) -> bool:
    """Whether a class of elements has an element."""
    return CLASSES[elements](element)


def _power(constants: Mapping[str, int], element: Element) -> bool:
    number = constants.get("C", 0)
    return number > 0 and number & (number - 1) == 0


def _complements(constants: Mapping[str, int], element: Element) -> bool:
    return 0 < constants.get("C", 0) < element.bits and constants["C"] + constants.get("D", 0) == element.bits


def _even_width(constants: Mapping[str, int], element: Element) -> bool:
    return element.bits & (element.bits - 1) == 0  # then counts modulo 2^32 are counts modulo the width


def _is_power_width(element: Element) -> bool:
    return element.bits & (element.bits - 1) == 0


RULES: tuple[Rule, ...] = (
    # name                   replaced                           by                        elements
    Rule("add_zero",         "add(x, 0)",                       "x",                      "int"),
    Rule("zero_add",         "add(0, x)",                       "x",                      "int"),
    Rule("add_constants",    "add(add(x, C), D)",               "add(x, add(C, D))",      "int"),
    Rule("add_of_sub",       "add(sub(x, y), y)",               "x",                      "int"),
    Rule("add_to_sub",       "add(y, sub(x, y))",               "x",                      "int"),
    Rule("sub_of_add",       "sub(add(x, y), y)",               "x",                      "int"),
    Rule("sub_of_add_left",  "sub(add(x, y), x)",               "y",                      "int"),
    Rule("sub_zero",         "sub(x, 0)",                       "x",                      "int"),
    Rule("sub_self",         "sub(x, x)",                       "0",                      "int"),
    Rule("sub_from_zero",    "sub(0, x)",                       "neg(x)",                 "int"),
    Rule("sub_constants",    "sub(sub(x, C), D)",               "sub(x, add(C, D))",      "int"),
    Rule("add_neg",          "add(x, neg(y))",                  "sub(x, y)",              "int"),
    Rule("neg_add",          "add(neg(x), y)",                  "sub(y, x)",              "int"),
    Rule("sub_neg",          "sub(x, neg(y))",                  "add(x, y)",              "int"),
    Rule("neg_of_sub",       "neg(sub(x, y))",                  "sub(y, x)",              "int"),
    Rule("neg_neg",          "neg(neg(x))",                     "x",                      "negatable"),
    Rule("mul_one",          "mul(x, 1)",                       "x",                      "product"),
    Rule("one_mul",          "mul(1, x)",                       "x",                      "product"),
    Rule("mul_zero",         "mul(x, 0)",                       "0",                      "int"),
    Rule("zero_mul",         "mul(0, x)",                       "0",                      "int"),
    Rule("mul_constants",    "mul(mul(x, C), D)",               "mul(x, mul(C, D))",      "int"),
    Rule("mul_negs",         "mul(neg(x), neg(y))",             "mul(x, y)",              "int"),
    Rule("div_one",          "div(x, 1)",                       "x",                      "int"),
    Rule("div_power",        "div(x, C)",                       "shr(x, log2(C))",        "unsigned", _power),
    Rule("rem_one",          "rem(x, 1)",                       "0",                      "int"),
    Rule("rem_power",        "rem(x, C)",                       "and_(x, sub(C, 1))",     "unsigned", _power),
    Rule("abs_unsigned",     "abs(x)",                          "x",                      "unsigned"),
    Rule("abs_abs",          "abs(abs(x))",                     "abs(x)",                 "negatable"),
    Rule("abs_neg",          "abs(neg(x))",                     "abs(x)",                 "balanced"),
    Rule("min_self",         "min(x, x)",                       "x",                      "negatable"),
    Rule("max_self",         "max(x, x)",                       "x",                      "negatable"),
    Rule("min_zero",         "min(x, 0)",                       "0",                      "unsigned"),
    Rule("max_zero",         "max(x, 0)",                       "x",                      "unsigned"),
    Rule("min_constants",    "min(min(x, C), D)",               "min(x, min(C, D))",      "int"),
    Rule("max_constants",    "max(max(x, C), D)",               "max(x, max(C, D))",      "int"),
    Rule("min_of_max",       "min(max(x, y), y)",               "y",                      "int"),
    Rule("max_of_min",       "max(min(x, y), y)",               "y",                      "int"),
    Rule("add_sat_zero",     "add_sat(x, 0)",                   "x",                      "int"),
    Rule("sub_sat_zero",     "sub_sat(x, 0)",                   "x",                      "int"),
    Rule("and_zero",         "and_(x, 0)",                      "0",                      "logical"),
    Rule("zero_and",         "and_(0, x)",                      "0",                      "logical"),
    Rule("and_ones",         "and_(x, ones)",                   "x",                      "logical"),
    Rule("ones_and",         "and_(ones, x)",                   "x",                      "logical"),
    Rule("and_self",         "and_(x, x)",                      "x",                      "logical"),
    Rule("and_not",          "and_(x, not_(x))",                "0",                      "logical"),
    Rule("and_or",           "and_(x, or_(x, y))",              "x",                      "logical"),
    Rule("and_constants",    "and_(and_(x, C), D)",             "and_(x, and_(C, D))",    "logical"),
    Rule("or_zero",          "or_(x, 0)",                       "x",                      "logical"),
    Rule("zero_or",          "or_(0, x)",                       "x",                      "logical"),
    Rule("or_ones",          "or_(x, ones)",                    "ones",                   "logical"),
    Rule("ones_or",          "or_(ones, x)",                    "ones",                   "logical"),
    Rule("or_self",          "or_(x, x)",                       "x",                      "logical"),
    Rule("or_not",           "or_(x, not_(x))",                 "ones",                   "logical"),
    Rule("or_and",           "or_(x, and_(x, y))",              "x",                      "logical"),
    Rule("or_constants",     "or_(or_(x, C), D)",               "or_(x, or_(C, D))",      "logical"),
    Rule("xor_zero",         "xor(x, 0)",                       "x",                      "logical"),
    Rule("zero_xor",         "xor(0, x)",                       "x",                      "logical"),
    Rule("xor_ones",         "xor(x, ones)",                    "not_(x)",                "logical"),
    Rule("xor_self",         "xor(x, x)",                       "0",                      "logical"),
    Rule("xor_constants",    "xor(xor(x, C), D)",               "xor(x, xor(C, D))",      "logical"),
    Rule("xor_back",         "xor(xor(x, y), y)",               "x",                      "logical"),
    Rule("xor_nots",         "xor(not_(x), not_(y))",           "xor(x, y)",              "logical"),
    Rule("not_not",          "not_(not_(x))",                   "x",                      "logical"),
    Rule("not_neg",          "not_(neg(x))",                    "sub(x, 1)",              "int"),
    Rule("neg_not",          "neg(not_(x))",                    "add(x, 1)",              "int"),
    Rule("shl_zero",         "shl(x, 0)",                       "x",                      "int"),
    Rule("shr_zero",         "shr(x, 0)",                       "x",                      "int"),
    Rule("shl_constants",    "shl(shl(x, C), D)",               "shl(x, add_sat(C, D))",  "int"),
    Rule("shr_constants",    "shr(shr(x, C), D)",               "shr(x, add_sat(C, D))",  "int"),
    Rule("shr_of_shl",       "shr(shl(x, C), C)",               "and_(x, shr(ones, C))",  "unsigned"),
    Rule("shl_of_shr",       "shl(shr(x, C), C)",               "and_(x, shl(ones, C))",  "int"),
    Rule("rotl_zero",        "rotl(x, 0)",                      "x",                      "unsigned"),
    Rule("rotr_zero",        "rotr(x, 0)",                      "x",                      "unsigned"),
    Rule("rotl_constants",   "rotl(rotl(x, C), D)",             "rotl(x, add(C, D))",     "unsigned", _even_width),
    Rule("rotr_constants",   "rotr(rotr(x, C), D)",             "rotr(x, add(C, D))",     "unsigned", _even_width),
    Rule("rotate",           "or_(shl(x, C), shr(x, D))",       "rotl(x, C)",             "unsigned", _complements),
    Rule("rotate_turned",    "or_(shr(x, D), shl(x, C))",       "rotl(x, C)",             "unsigned", _complements),
    Rule("rotate_xor",       "xor(shl(x, C), shr(x, D))",       "rotl(x, C)",             "unsigned", _complements),
    Rule("rotate_add",       "add(shl(x, C), shr(x, D))",       "rotl(x, C)",             "unsigned", _complements),
    Rule("reverse_twice",    "reverse_bits(reverse_bits(x))",   "x",                      "unsigned"),
    Rule("swap_twice",       "reverse_bytes(reverse_bytes(x))", "x",                      "unsigned"),
    Rule("ones_of_reverse",  "popcount(reverse_bits(x))",       "popcount(x)",            "unsigned"),
    Rule("ones_of_swap",     "popcount(reverse_bytes(x))",      "popcount(x)",            "unsigned"),
    Rule("clz_of_reverse",   "clz(reverse_bits(x))",            "ctz(x)",                 "unsigned"),
    Rule("ctz_of_reverse",   "ctz(reverse_bits(x))",            "clz(x)",                 "unsigned"),
    Rule("eq_self",          "eq(x, x)",                        "true",                   "whole"),
    Rule("ne_self",          "ne(x, x)",                        "false",                  "whole"),
    Rule("lt_self",          "lt(x, x)",                        "false",                  "ordered"),
    Rule("le_self",          "le(x, x)",                        "true",                   "whole"),
    Rule("eq_true",          "eq(x, true)",                     "x",                      "bit"),
    Rule("eq_false",         "eq(x, false)",                    "not_(x)",                "bit"),
    Rule("ne_false",         "ne(x, false)",                    "x",                      "bit"),
    Rule("ne_true",          "ne(x, true)",                     "not_(x)",                "bit"),
    Rule("lt_zero",          "lt(x, 0)",                        "false",                  "unsigned"),
    Rule("zero_le",          "le(0, x)",                        "true",                   "unsigned"),
    Rule("eq_sub",           "eq(sub(x, y), 0)",                "eq(x, y)",               "int"),
    Rule("ne_sub",           "ne(sub(x, y), 0)",                "ne(x, y)",               "int"),
    Rule("eq_xor",           "eq(xor(x, y), 0)",                "eq(x, y)",               "int"),
    Rule("ne_xor",           "ne(xor(x, y), 0)",                "ne(x, y)",               "int"),
    Rule("not_eq",           "not_(eq(x, y))",                  "ne(x, y)",               "bit"),
    Rule("not_ne",           "not_(ne(x, y))",                  "eq(x, y)",               "bit"),
    Rule("select_same",      "select(m, x, x)",                 "x",                      "any"),
    Rule("select_true",      "select(true, x, y)",              "x",                      "any"),
    Rule("select_false",     "select(false, x, y)",             "y",                      "any"),
    Rule("select_not",       "select(not_(m), x, y)",           "select(m, y, x)",        "any"),
    Rule("select_first",     "select(m, select(m, x, y), z)",   "select(m, x, z)",        "any"),
    Rule("select_second",    "select(m, x, select(m, y, z))",   "select(m, x, z)",        "any"),
    Rule("select_min",       "select(lt(x, y), x, y)",          "min(x, y)",              "negatable"),
    Rule("select_max",       "select(lt(y, x), x, y)",          "max(x, y)",              "negatable"),
    Rule("select_bit",       "select(m, true, false)",          "m",                      "bit"),
    Rule("select_turned",    "select(m, false, true)",          "not_(m)",                "bit"),
    Rule("select_or",        "select(m, true, x)",              "or_(m, x)",              "bit"),
    Rule("select_and",       "select(m, x, false)",             "and_(m, x)",             "bit"),
    Rule("select_below",     "select(m, false, x)",             "and_(not_(m), x)",       "bit"),
    Rule("select_above",     "select(m, x, true)",              "or_(not_(m), x)",        "bit"),
)  # fmt: skip


def _whole(e: Element) -> bool:
    return e.is_integer


def _exact(source: Element, between: Element) -> bool:
    """Whether a float has every value of an integer."""
    bits = {"f32": 24, "f64": 53}.get(between.name, 0)
    return source.is_integer and max(source.high, -source.low).bit_length() <= bits


_ROUNDINGS = ("round_even", "floor", "ceil", "trunc")

CONVERSIONS: tuple[Conversion, ...] = (
    # name                         outer      inner      new        source, between, result
    Conversion("convert_same",     "convert", "",        "",        lambda s, m, t: s == t),
    Conversion("wrap_same",        "wrap",    "",        "",        lambda s, m, t: s == t),
    Conversion("sat_same",         "sat",     "",        "",        lambda s, m, t: s == t),
    Conversion("round_same",       "round",   "",        "",        lambda s, m, t: s == t),
    Conversion("convert_convert",  "convert", "convert", "convert", lambda s, m, t: not s.is_float and _whole(m)),
    Conversion("wrap_convert",     "wrap",    "convert", "wrap",    lambda s, m, t: _whole(s) and _whole(m)),
    Conversion("wrap_wrap",        "wrap",    "wrap",    "wrap",    lambda s, m, t: m.bits >= t.bits),
    Conversion("sat_convert",      "sat",     "convert", "sat",     lambda s, m, t: _whole(s) and _whole(m)),
    Conversion("sign_convert",     "sign",    "convert", "sign",    lambda s, m, t: _whole(s) and _whole(m)),
    Conversion("round_exact",      "round",   "convert", "sat",     lambda s, m, t: _whole(t) and _exact(s, m)),
    *(Conversion(f"{outer}_whole", outer,     "convert", "convert", lambda s, m, t: _whole(s))
      for outer in _ROUNDINGS),
    *(Conversion(f"{outer}_{inner}", outer,   inner,     inner,     lambda s, m, t: True)
      for outer in _ROUNDINGS for inner in _ROUNDINGS),
)  # fmt: skip
