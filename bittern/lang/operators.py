"""Operators: both sides read, a literal takes the other side's element, a scalar spreads over an array."""

from collections.abc import Sequence
from functools import partial

from bittern.lang import syntax
from bittern.lang.context import Context, Elaborated, handles
from bittern.lang.fitting import broadcast, conversion, need_tensor, same_shape, with_operand
from bittern.lang.generics import dim_of
from bittern.lang.literals import is_open_literal, literal, literal_value
from bittern.lang.ownership import borrow, read
from bittern.lang.source import Span
from bittern.lang.values import Value
from bittern.types.elements import BIT, U32, Element
from bittern.types.faults import ELEMENT_UNFIT

_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "rem", "&": "and", "|": "or", "^": "xor"}
_COMPARE = {  # operator: kind, and whether the sides change places
    "==": ("eq", False),
    "!=": ("ne", False),
    "<": ("lt", False),
    "<=": ("le", False),
    ">": ("lt", True),
    ">=": ("le", True),
}
_SHIFTS = {"<<": "shl", ">>": "shr"}


@handles(syntax.Binary)
def binary(ctx: Context, e: Elaborated, expected: Element | None) -> Value:
    """`left operator right`, element-wise; of dimensions, the dimension as u32."""
    assert isinstance(e, syntax.Binary)
    size = dim_of(ctx, e) if _names_dim(ctx, e) else None
    if size is not None:
        return ctx.value("size", [], e.span, value=size)
    shown, span = e.operator, e.operator_span
    if shown in _SHIFTS:
        return shift(ctx, _SHIFTS[shown], e.left, e.right, expected, span, shown)
    if shown in ("and", "or"):
        left, right = meet(ctx, e, BIT)
        _need_bit(ctx, left, e.left.span, shown)
        _need_bit(ctx, right, e.right.span, shown)
        return ctx.value(shown, [left.node, right.node], span)
    if shown in _ARITHMETIC:
        left, right = meet(ctx, e, expected)
        return ctx.value(_ARITHMETIC[shown], [left.node, right.node], span, shown)
    left, right = meet(ctx, e, None)
    kind, is_swapped = _COMPARE[shown]
    inputs = [right.node, left.node] if is_swapped else [left.node, right.node]
    return ctx.value(kind, inputs, span, shown)


def _names_dim(ctx: Context, e: syntax.Expr) -> bool:
    """Whether an arithmetic expression names a dimension (also one that is a known number here)."""
    if isinstance(e, syntax.Binary):
        return _names_dim(ctx, e.left) or _names_dim(ctx, e.right)
    return isinstance(e, syntax.Name) and e.name in ctx.generics.dims and ctx.scope.find(e.name) is None


def operand(ctx: Context, e: syntax.Expr, expected: Element | None = None) -> Value:
    """Elaborate one operand: a number or an array, read."""
    return need_tensor(ctx, read(ctx, e, expected), e)


def operands(ctx: Context, parts: Sequence[syntax.Expr], expected: Element | None = None) -> list[Value]:
    """Elaborate operands of one element: open literals after the others, with their element."""
    firm = [e for e in parts if not is_open_literal(e)]
    element = expected

    def first_says(e: syntax.Expr) -> Value:
        nonlocal element
        value = operand(ctx, e, element)
        element = value.tensor.element
        return value

    values = iter(ctx.every([partial(first_says, e) for e in firm]))
    free = [partial(operand, ctx, e, element) for e in parts if is_open_literal(e)]
    literals = iter(ctx.every(free) if element is not None else [part() for part in free])  # one error for no element
    return agree(ctx, [next(literals if is_open_literal(e) else values) for e in parts], parts[0].span)


def meet(ctx: Context, e: syntax.Binary, expected: Element | None) -> tuple[Value, Value]:
    """Elaborate both sides of an operator."""
    left, right = operands(ctx, [e.left, e.right], expected)
    return spread(ctx, left, right, e.operator_span)


def spread(ctx: Context, left: Value, right: Value, span: Span) -> tuple[Value, Value]:
    """Return two operands of equal type: a scalar is spread over the other's shape; other differences are rejected."""
    left, right = broadcast(ctx, left, right.tensor.shape, span), broadcast(ctx, right, left.tensor.shape, span)
    same_shape(ctx, left, right, span)
    return left, right


def agree(ctx: Context, values: Sequence[Value], span: Span) -> list[Value]:
    """Over the reals (`ideal`), return operands of one element: codes stand for the numbers of the other operand."""
    real = next((v.tensor.element for v in values if v.tensor.element.is_float), None)
    if not ctx.ideal or real is None:
        return list(values)
    return [v if v.tensor.element.is_float else ctx.value("convert", [v.node], span, to=real) for v in values]


def shift(
    ctx: Context,
    kind: str,
    x: syntax.Expr,
    count: syntax.Expr,
    expected: Element | None,
    span: Span,
    shown: str = "",
) -> Value:
    """A shift or rotation; the count is u32, one for all or one each."""
    left, right = operand(ctx, x, expected), operand(ctx, count, U32)
    if right.tensor.element != U32:
        ctx.reject(
            ELEMENT_UNFIT,
            count.span,
            "a shift count is u32",
            found=ctx.text(right.type),
            expected="u32",
            hint=with_operand(conversion(right.tensor.element, U32), count.span),
        )
    right = broadcast(ctx, right, left.tensor.shape, span)
    return ctx.value(kind, [left.node, right.node], span, shown)


def _need_bit(ctx: Context, value: Value, span: Span, operator: str) -> None:
    if value.tensor.element != BIT:
        ctx.reject(
            ELEMENT_UNFIT,
            span,
            f"`{operator}` joins truth values",
            found=ctx.text(value.type),
            expected="bit",
            hint="compare it, as in `x != 0`; `&`, `|`, `^` and `~` work on the bits of integers",
        )


@handles(syntax.Unary)
def unary(ctx: Context, e: Elaborated, expected: Element | None) -> Value:
    """`-x`, `~x`, `not x`, `&x`."""
    assert isinstance(e, syntax.Unary)
    if e.operator == "&":
        borrow(ctx, e.operand)
        return read(ctx, e.operand, expected).shared()
    if literal_value(e) is not None:
        return literal(ctx, e, expected)
    value = operand(ctx, e.operand, BIT if e.operator == "not" else expected)
    if e.operator == "not":
        _need_bit(ctx, value, e.operand.span, "not")
    return ctx.value("neg" if e.operator == "-" else "not", [value.node], e.span, e.operator)
