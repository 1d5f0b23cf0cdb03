"""The arguments of ops: by place or by name, dimensions, axes and brackets."""

from collections.abc import Sequence

from bittern.base.errors import code
from bittern.lang import syntax
from bittern.lang.builtin_table import Brackets
from bittern.lang.context import Context
from bittern.lang.generics import counted, need_dim, need_size
from bittern.lang.source import Span
from bittern.types.dims import Dim

OP_ARGUMENTS = code("E317", "an operation is called with the wrong arguments")
OP_BRACKET = code("E318", "an operation needs a type or number in brackets")


def op_name(e: syntax.Call) -> str:
    """Return the name of the op that is called."""
    callee = e.callee.base if isinstance(e.callee, syntax.Index) else e.callee
    assert isinstance(callee, syntax.Name)
    return callee.name


def arguments(ctx: Context, e: syntax.Call, *names: str, optional: Sequence[str] = ()) -> dict[str, syntax.Expr]:
    """Return the arguments by name; the optional ones must be labelled."""
    given: dict[str, syntax.Expr] = {}
    positions = iter(names)
    for argument in e.arguments:
        name = argument.label.name if argument.label else next(positions, "")
        if (name not in names and name not in optional) or name in given:
            break
        given[name] = argument.value
    else:
        if all(name in given for name in names):
            return given
    word = op_name(e)
    shown = ", ".join([*names, *(f"{name}: ..." for name in optional)])
    labels = [a.label.name for a in e.arguments if a.label is not None and a.label.name not in (*names, *optional)]
    found = f"`{labels[0]}:`" if labels else counted(len(e.arguments), "argument")
    message = f"`{word}` is called with the wrong arguments"
    ctx.reject(OP_ARGUMENTS, e.span, message, found=found, expected=f"`{word}({shown})`")


def dims_of(ctx: Context, e: syntax.Expr) -> tuple[Dim, ...]:
    """Return `[a, b]` as dimensions."""
    if not isinstance(e, syntax.ArrayLiteral):
        ctx.reject(OP_ARGUMENTS, e.span, "a list of dimensions is expected here", expected="such as `[n, 32]`")
    return tuple(need_size(ctx, i) for i in e.items)


def whole(ctx: Context, e: syntax.Expr | None, default: int = 0) -> int:
    """Return a number that is known where the program is written (an axis, a stride)."""
    return default if e is None else constant(ctx, need_dim(ctx, e), e.span)


def constant(ctx: Context, size: Dim, span: Span) -> int:
    """Return a dimension that is a known number."""
    known = size.constant
    if known is None:
        ctx.reject(OP_ARGUMENTS, span, "a number is needed here", found=f"`{ctx.text(size)}`", expected="a number")
    return known


def need_bracket(ctx: Context, e: syntax.Call, brackets: Brackets, what: str) -> syntax.Expr:
    """Return the one bracket argument of an op, or reject the call."""
    if len(brackets) != 1:
        word = op_name(e)
        ctx.reject(OP_BRACKET, e.span, f"`{word}` needs {what} in brackets", expected=f"`{word}[...](...)`")
    return brackets[0]


def need_no_bracket(ctx: Context, e: syntax.Call, brackets: Brackets) -> None:
    """Reject brackets where an op takes none."""
    if brackets:
        ctx.reject(
            OP_BRACKET, e.callee.span, f"`{op_name(e)}` takes nothing in brackets", hint="take the brackets away"
        )
