"""Where a value meets a type: scalars are spread, and every misfit is named with what would mend it."""

from collections.abc import Sequence

from bittern.base.errors import code
from bittern.lang import syntax
from bittern.lang.context import Context
from bittern.lang.source import Span, source_text
from bittern.lang.values import LangType, StructType, Value, is_same, leaf_types, replace_leaves
from bittern.ops.table import ops
from bittern.types.dims import Dim
from bittern.types.elements import Element, Kind
from bittern.types.faults import ELEMENT_MISMATCH, SHAPE_MISMATCH, TypeFault
from bittern.types.values import Tensor

NOT_A_TENSOR = code("E312", "the operation needs a number or an array")
SPACE_CROSSED = code("E601", "a value is read in another memory space than the one it is in")
NOT_OWNED = code("E503", "an owned value is needed")

_SHORT = 24  # characters of an operand that a hint repeats


def need_tensor(ctx: Context, value: Value, e: syntax.Expr) -> Value:
    """Return the value if it is one tensor, or reject it."""
    if not isinstance(value.type, Tensor):
        hint = "name one of its fields" if isinstance(value.type, StructType) else "take it apart first"
        ctx.reject(
            NOT_A_TENSOR,
            e.span,
            "a number or an array is needed here",
            found=f"a value of type {ctx.text(value.type)}",
            expected="a number or an array",
            hint=hint,
        )
    return value


def broadcast(ctx: Context, value: Value, shape: tuple[Dim, ...], span: Span) -> Value:
    """Return a scalar spread over a shape; other values as they are."""
    if value.tensor.shape or not shape:
        return value
    return ctx.value("broadcast", [value.node], span, shape=shape)


def conversion(source: Element, to: Element) -> str:
    """Return what to write to convert one element to another."""
    try:
        ops()["convert"].rule((Tensor(source),), {"to": to})
    except TypeFault as fault:
        return fault.hint
    return f"convert it with `{to}(x)`"


def _either_conversion(left: Element, right: Element) -> str:
    """Return what to write so that two operands have one element: what loses nothing, if anything does."""
    if Kind.OPEN in (left.kind, right.kind):
        return "convert one of them"
    for source, to, side in ((left, right, "left"), (right, left, "right")):
        found = conversion(source, to)
        if found == f"convert it with `{to}(x)`":
            return f"convert the {side} one with `{to}(x)`"
    return f"convert the right one: {conversion(right, left)}"


def same_shape(ctx: Context, left: Value, right: Value, span: Span, *, elements: bool = True) -> None:
    """Reject two arrays of different shape, element or space, naming both dimensions. elements: these too."""
    a, b = left.tensor, right.tensor
    both = f"{ctx.text(a)} and {ctx.text(b)}"
    if elements and a.element != b.element and not ctx.ideal:
        ctx.reject(
            ELEMENT_MISMATCH,
            span,
            "the operands have different element types",
            found=both,
            expected="one element type",
            hint=_either_conversion(a.element, b.element),
        )
    if a.shape != b.shape:
        ctx.reject(
            SHAPE_MISMATCH,
            span,
            "the operands have different shapes",
            found=both,
            expected="equal dimensions, or a scalar",
            hint=shape_hint(ctx, a, b),
        )
    if a.space and b.space and a.space != b.space:
        _reject_space(ctx, span, both, a.space)


def shape_hint(ctx: Context, a: Tensor, b: Tensor) -> str:
    """Return what to do about two different shapes: the first dimensions that differ, by name."""
    if len(a.shape) != len(b.shape):
        return "map over the extra dimension, as in `[f(row) for row in x]`" if min(len(a.shape), len(b.shape)) else ""
    left, right = next((x, y) for x, y in zip(a.shape, b.shape, strict=True) if x != y)
    if left.constant is not None and right.constant is not None:
        return ""
    return f"nothing says that `{ctx.text(left)}` and `{ctx.text(right)}` are equal"


def _reject_space(ctx: Context, span: Span, found: str, space: str, what: str = "x") -> None:
    ctx.reject(
        SPACE_CROSSED,
        span,
        "a value in one memory space is read in another",
        found=found,
        expected="one space",
        hint=f"write `move({what}, {space})`",
    )


def spread_to(ctx: Context, value: Value, declared: LangType, span: Span) -> Value:
    """Return a scalar spread over the shape of a declared array of its element; other values as they are."""
    if not isinstance(value.type, Tensor) or not isinstance(declared, Tensor):
        return value
    is_spread = not value.type.shape and (value.type.element == declared.element or ctx.ideal)
    return broadcast(ctx, value, declared.shape, span) if is_spread else value


def fit(ctx: Context, value: Value, declared: LangType, span: Span, code_: str, message: str) -> Value:
    """Return the value as one of the declared type; a misfit is rejected with this code and message.

    The leaves keep the formats and spaces that they have.
    """
    value = spread_to(ctx, value, declared, span)
    if not is_same(value.type, declared, elements=not ctx.ideal):
        found, expected = ctx.text(value.type), ctx.text(declared)
        hint = with_operand(misfit_hint(ctx, value.type, declared), span)
        ctx.reject(code_, span, message, found=found, expected=expected, hint=hint)
    leaves = zip(leaf_types(value.type), leaf_types(declared), strict=True)
    for given, wanted in leaves:
        if given.space and wanted.space and given.space != wanted.space:
            found = f"{ctx.text(given)} where {ctx.text(wanted)} is expected"
            _reject_space(ctx, span, found, wanted.space, _short(span) or "x")
    return value


def _short(span: Span) -> str:
    text = source_text(span)
    return text if len(text) <= _SHORT and "\n" not in text else ""


def with_operand(hint: str, span: Span) -> str:
    """Return a hint that speaks of `x` with what the program has in its place, if that is short."""
    text = _short(span)
    return hint.replace("(x)", f"({text})") if text else hint


def misfit_hint(ctx: Context, given: LangType, declared: LangType) -> str:
    """Return what to do about a value of the wrong type."""
    if not isinstance(given, Tensor) or not isinstance(declared, Tensor):
        return ""
    if given.element != declared.element and not ctx.ideal:
        return (
            ""
            if Kind.OPEN in (given.element.kind, declared.element.kind)
            else conversion(given.element, declared.element)
        )
    return shape_hint(ctx, given, declared) if given.shape != declared.shape else ""


def need_given(ctx: Context, value: Value, modes: Sequence[str], span: Span, message: str) -> None:
    """Reject a value that is shared where one owner is wanted. modes: what is wanted, for each leaf."""
    if any(wanted == "own" and not mode for wanted, mode in zip(modes, value.modes, strict=True)):
        ctx.reject(
            NOT_OWNED,
            span,
            message,
            found="a shared value",
            expected="an owned value, or one that nobody else can see",
            hint="a copy has an owner of its own: `copy(x)`",
        )


def with_modes(value: Value, modes: Sequence[str]) -> Value:
    """Return a result as its callers see it: owned where the type says so, and otherwise fresh."""
    return value.marked(["own" if mode == "own" else "fresh" for mode in modes])


def in_space(type_: LangType, leaves: Sequence[Tensor]) -> LangType:
    """Return a type whose leaves are in the spaces of these."""
    pairs = zip(leaf_types(type_), leaves, strict=True)
    return replace_leaves(type_, [Tensor(own.element, own.shape, own.space or other.space) for own, other in pairs])
