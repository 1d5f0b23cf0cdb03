"""Literals: numbers that take the type which their context gives, and arrays of them."""

from fractions import Fraction
from typing import Any

import numpy as np

from bittern.base.errors import code
from bittern.graph.node import const
from bittern.lang import syntax
from bittern.lang.context import Context, Elaborated, handles, placeholder
from bittern.lang.values import Value
from bittern.types.elements import ELEMENTS, Element, Kind
from bittern.types.values import Tensor

LITERAL_OPEN = code("E307", "nothing says which type a literal has")
LITERAL_RANGE = code("E308", "a literal does not fit its type")
LITERAL_KIND = code("E309", "a literal is of another kind than its type")


_F32_END = Fraction((2**25 - 1) * 2**103)  # from here on the nearest f32 is infinity


def number_value(text: str) -> Fraction:
    """Return the exact value of a number as it is written: decimal, `0x1f`, `1e-6` or `0x1p-100`."""
    low = text.lower()
    if low.startswith("0x") and "p" in low:
        digits, _, exponent = low[2:].partition("p")
        whole, _, part = digits.partition(".")
        return Fraction(int(whole + part, 16)) * Fraction(2) ** (int(exponent) - 4 * len(part))
    if low.startswith("0x"):
        return Fraction(int(low, 16))
    return Fraction(low)


def literal_value(e: syntax.Expr) -> tuple[Fraction, bool, str] | None:
    """Return (value, written as a real number, suffix) of a literal with its signs, or None."""
    if isinstance(e, syntax.Number):
        return number_value(e.text), e.is_real, e.suffix
    if isinstance(e, syntax.Unary) and e.operator == "-":
        inner = literal_value(e.operand)
        return None if inner is None else (-inner[0], inner[1], inner[2])
    return None


def is_open_literal(e: syntax.Expr) -> bool:
    """Whether an expression takes its element from its context.

    These are literals without suffix, and what is made of them alone: arrays, sums, fills, maps and branches.
    """
    known = literal_value(e)
    if known is not None:
        return not known[2]
    if isinstance(e, syntax.Unary):
        return e.operator != "&" and is_open_literal(e.operand)
    if isinstance(e, syntax.Binary):
        return is_open_literal(e.left) and is_open_literal(e.right)
    if isinstance(e, syntax.ArrayLiteral):
        return bool(e.items) and all(is_open_literal(i) for i in e.items)
    if isinstance(e, syntax.Call):
        is_fill = isinstance(e.callee, syntax.Name) and e.callee.name == "fill"
        return is_fill and bool(e.arguments) and is_open_literal(e.arguments[0].value)
    if isinstance(e, syntax.Map):
        return is_open_literal(e.body)
    if isinstance(e, syntax.If):
        return is_open_literal(e.then) and is_open_literal(e.otherwise)
    return isinstance(e, syntax.Block) and is_open_literal(e.result)


def round_to(value: Fraction, element: Element) -> np.floating[Any]:
    """Return the nearest f32 or f64 to an exact value, ties to even, beyond the range infinity."""
    try:
        near = float(value)
    except OverflowError:
        near = float("inf") if value > 0 else float("-inf")
    if element.name == "f64":
        return np.float64(near)
    if abs(value) >= _F32_END:
        return np.float32("inf") if value > 0 else np.float32("-inf")
    with np.errstate(over="ignore", under="ignore"):
        guess = np.float32(near)
    around = [guess, np.nextafter(guess, np.float32(np.inf)), np.nextafter(guess, np.float32(-np.inf))]
    finite = [c for c in around if np.isfinite(c)]
    return min(finite, key=lambda c: (abs(Fraction(float(c)) - value), int(c.view(np.uint32)) & 1))


def literal(ctx: Context, e: syntax.Expr, expected: Element | None, *, whole: bool = False) -> Value:
    """Elaborate a literal with its signs. whole: a whole number may stand for a float, as in `f32(2)`."""
    known = literal_value(e)
    assert known is not None
    value, is_real, suffix = known
    element = ELEMENTS[suffix] if suffix else expected
    if element is None:
        hint = "write its type as a suffix, as in `1.0f32`" if is_real else "write its type as a suffix, as in `1u32`"
        ctx.reject(LITERAL_OPEN, e.span, "nothing says which type this number has", hint=hint)
    if element.kind is Kind.OPEN:
        _check_open(ctx, e, is_real, element)
        return placeholder(Tensor(element))
    if element.name in ("f32", "f64"):
        if not is_real and not suffix and not whole:
            found, expected_text = f"the whole number {value}", f"`{element}`"
            hint = f"write `{value}.0`"
            ctx.reject(
                LITERAL_KIND,
                e.span,
                f"a number of `{element}` has a point",
                found=found,
                expected=expected_text,
                hint=hint,
            )
        number: Any = -0.0 if value == 0 and _is_negated(e) else round_to(value, element)
        return Value.of(Tensor(element), (const(number, element),), "fresh")
    _check_whole(ctx, e, value, is_real, element)
    return Value.of(Tensor(element), (const(int(value), element),), "fresh")


def _check_open(ctx: Context, e: syntax.Expr, is_real: bool, element: Element) -> None:
    kind = element.name.partition(":")[2]
    if (kind == "int" and is_real) or kind == "format":
        ctx.reject(
            LITERAL_KIND,
            e.span,
            f"this number cannot be a value of `{element}`",
            found="a number with a point" if is_real else "a whole number",
            expected="a whole number" if kind == "int" else "a value made by a function",
        )


def _check_whole(ctx: Context, e: syntax.Expr, value: Fraction, is_real: bool, element: Element) -> None:
    """Reject a literal that is no value of an element without arithmetic on floats."""
    message = f"this number cannot be a value of `{element}`"
    if element.is_float:
        hint = f"round one: `round[{element}]({float(value)}f32)`"
        ctx.reject(LITERAL_KIND, e.span, message, expected="a number of `f32` or `f64`", hint=hint)
    if element.is_format:
        ctx.reject(LITERAL_KIND, e.span, message, expected="bytes of blocks")
    if is_real:
        ctx.reject(LITERAL_KIND, e.span, message, found="a number with a point", expected="a whole number")
    if not element.low <= value <= element.high or (element.name == "b1" and value == 0):
        allowed = "-1 or 1" if element.name == "b1" else f"{element.low} to {element.high}"
        ctx.reject(LITERAL_RANGE, e.span, message, found=str(value), expected=allowed)


def _is_negated(e: syntax.Expr) -> bool:
    return isinstance(e, syntax.Unary) and not _is_negated(e.operand)


@handles(syntax.Number)
def number(ctx: Context, e: Elaborated, expected: Element | None) -> Value:
    """A literal takes the type that its context gives."""
    assert isinstance(e, syntax.Number)
    return literal(ctx, e, expected)


def constant_items(e: syntax.ArrayLiteral, expected: Element | None) -> Value | None:
    """Return an array of bare integer literals as one constant, or None if it is anything else."""
    if expected is None or not expected.is_integer or not e.items:
        return None
    numbers = []
    for entry in map(literal_value, e.items):
        if entry is None or entry[1] or entry[2] or not expected.low <= entry[0] <= expected.high:
            return None
        numbers.append(int(entry[0]))
    node = const(np.array(numbers, dtype=expected.dtype), expected)
    assert isinstance(node.type, Tensor)
    return Value.of(node.type, (node,), "fresh")
