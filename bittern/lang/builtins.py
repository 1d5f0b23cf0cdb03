"""Primitive ops as the language calls them: one row each, from arguments to the node of `bittern.ops`.

A row says how many operands the op takes, which arguments are dimensions or axes, and which bracket it needs. `axis:`
is 0 unless it is given. Operands that are bare literals take the element of the other operands.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from bittern.base.errors import code, nearest
from bittern.lang import syntax
from bittern.lang.context import Context, expression
from bittern.lang.terms import (
    agree,
    broadcast,
    index_value,
    is_open_literal,
    literal_value,
    need_tensor,
    read,
    same_shape,
    shift,
    spread,
)
from bittern.lang.generics import element_of, need_dim
from bittern.lang.source import Span
from bittern.lang.values import Value
from bittern.types.dims import Dim
from bittern.types.elements import BIT, ELEMENTS, I32, U8, U32, Element, Kind
from bittern.types.faults import ATTRIBUTE_UNFIT
from bittern.types.values import EFFECTS, SPACES, Tensor

OP_ARGUMENTS = code("E317", "an operation is called with the wrong arguments")
OP_BRACKET = code("E318", "an operation needs a type or number in brackets")

Builtin: TypeAlias = Callable[[Context, syntax.Call, tuple[syntax.Expr, ...], Element | None], Value]
BUILTINS: dict[str, Builtin] = {}
IDEAL: dict[str, Builtin] = {}


def _row(*names: str) -> Callable[[Builtin], Builtin]:
    def declare(builtin: Builtin) -> Builtin:
        for name in names:
            BUILTINS[name] = builtin
        return builtin

    return declare


# --- arguments


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
    ctx.reject(
        OP_ARGUMENTS,
        e.span,
        f"`{word}` is called with the wrong arguments",
        found=f"{len(e.arguments)} arguments",
        expected=f"`{word}({shown})`",
    )


def op_name(e: syntax.Call) -> str:
    """Return the name of the op that is called."""
    callee = e.callee.base if isinstance(e.callee, syntax.Index) else e.callee
    assert isinstance(callee, syntax.Name)
    return callee.name


def operand(ctx: Context, e: syntax.Expr, expected: Element | None = None) -> Value:
    """Elaborate one operand: a number or an array, read."""
    value = read(ctx, e) if not is_open_literal(e) else expression(ctx, e, expected)
    return need_tensor(ctx, value, e)


def operands(ctx: Context, parts: Sequence[syntax.Expr], expected: Element | None = None) -> list[Value]:
    """Elaborate operands of one element: literals after the others, with their element."""
    firm = {i: operand(ctx, e) for i, e in enumerate(parts) if not is_open_literal(e)}
    element = next(iter(firm.values())).tensor.element if firm else expected
    values = [firm[i] if i in firm else operand(ctx, e, element) for i, e in enumerate(parts)]
    return agree(ctx, values, parts[0].span)


def dims_of(ctx: Context, e: syntax.Expr) -> tuple[Dim, ...]:
    """Return `[a, b]` as dimensions."""
    if not isinstance(e, syntax.ArrayLiteral):
        ctx.reject(OP_ARGUMENTS, e.span, "a list of dimensions is expected", expected="such as `[n, 32]`")
    return tuple(need_dim(ctx, i) for i in e.items)


def whole(ctx: Context, e: syntax.Expr | None, default: int = 0) -> int:
    """Return a number that is known where the program is written (an axis, a stride)."""
    if e is None:
        return default
    known = need_dim(ctx, e).constant
    if known is None:
        ctx.reject(OP_ARGUMENTS, e.span, "a number is expected here, not a dimension parameter")
    return known


def bracket(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], what: str) -> syntax.Expr:
    """Return the one bracket argument of an op, or reject the call."""
    if len(brackets) != 1:
        word = op_name(e)
        ctx.reject(OP_BRACKET, e.span, f"`{word}` needs {what} in brackets", expected=f"`{word}[...](...)`")
    return brackets[0]


def _no_bracket(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...]) -> None:
    if brackets:
        ctx.reject(OP_BRACKET, e.span, f"`{op_name(e)}` takes nothing in brackets")


# --- element-wise


@_row("min", "max", "add_sat", "sub_sat", "mul_high", "extract", "deposit")
def _two(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    _no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "x", "y")
    left, right = operands(ctx, [given["x"], given["y"]], expected)
    left, right = spread(ctx, left, right, e.span)
    return ctx.value(op_name(e), [left.node, right.node], e.span)


@_row("abs", "sqrt", "round_even", "floor", "ceil", "trunc", "popcount", "clz", "ctz", "reverse_bits", "reverse_bytes")
def _one(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    _no_bracket(ctx, e, brackets)
    return ctx.value(op_name(e), [operand(ctx, arguments(ctx, e, "x")["x"], expected).node], e.span)


@_row("bits", "blocks", "sum", "product", "max_of", "min_of", "argmax", "argmin", "all_of", "any_of", "xor_of")
def _one_firm(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    _no_bracket(ctx, e, brackets)
    return ctx.value(op_name(e), [operand(ctx, arguments(ctx, e, "x")["x"]).node], e.span)


@_row("scan_sum", "scan_max", "scan_xor")
def _scan(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    return _one_firm(ctx, e, brackets, expected)


@_row("rotl", "rotr")
def _rotate(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    _no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "x", "count")
    return shift(ctx, op_name(e), given["x"], given["count"], expected, e.span)


@_row("select")
def _select(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    _no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "condition", "a", "b")
    condition = operand(ctx, given["condition"], BIT)
    a, b = operands(ctx, [given["a"], given["b"]], expected)
    shape = next((v.tensor.shape for v in (condition, a, b) if v.tensor.shape), ())
    condition, a, b = (broadcast(ctx, v, shape, e.span) for v in (condition, a, b))
    same_shape(ctx, a, b, e.span)
    return ctx.value("select", [condition.node, a.node, b.node], e.span)


# --- conversions


def convert(ctx: Context, e: syntax.Call, element: Element) -> Value:
    """`f32(x)`: a conversion that cannot lose; of a literal, the literal of that type."""
    x = arguments(ctx, e, "x")["x"]
    known = literal_value(x)
    if known is not None and not known[2]:
        return _literal_as(ctx, x, known[1], element)
    value = operand(ctx, x)
    if value.tensor.element == element:
        return value
    return ctx.value("convert", [value.node], e.span, to=element)


def _literal_as(ctx: Context, x: syntax.Expr, is_real: bool, element: Element) -> Value:
    from bittern.lang.terms import literal

    if not is_real and element.name in ("f32", "f64"):
        return literal(ctx, _with_point(x), element)
    return literal(ctx, x, element)


def _with_point(x: syntax.Expr) -> syntax.Expr:
    if isinstance(x, syntax.Unary):
        return replace(x, operand=_with_point(x.operand))
    assert isinstance(x, syntax.Number)
    return replace(x, text=f"{int(x.text, 0)}.0")


@_row("wrap", "sat", "round", "sign", "from_bits")
def _to(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    element = element_of(ctx, bracket(ctx, e, brackets, "the element type of the result"))
    word = op_name(e)
    source = ELEMENTS.get(f"u{element.bits}") if word == "from_bits" else None
    value = operand(ctx, arguments(ctx, e, "x")["x"], source)
    return ctx.value(word, [value.node], e.span, to=element)


@_row("pack")
def _pack(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    width = whole(ctx, bracket(ctx, e, brackets, "the number of bits of a code"))
    return ctx.value("pack", [operand(ctx, arguments(ctx, e, "x")["x"]).node], e.span, bits=width)


@_row("unpack")
def _unpack(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    element = element_of(ctx, bracket(ctx, e, brackets, "the element type of a code"))
    given = arguments(ctx, e, "x", "count")
    return ctx.value(
        "unpack", [operand(ctx, given["x"]).node], e.span, to=element, count=need_dim(ctx, given["count"])
    )


# --- shape


@_row("reshape", "broadcast")
def _shaped(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    _no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "x", "shape")
    value = operand(ctx, given["x"], expected)
    return ctx.value(op_name(e), [value.node], e.span, shape=dims_of(ctx, given["shape"]))


@_row("fill")
def _fill(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    _no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "value", "shape")
    value = operand(ctx, given["value"], expected)
    return ctx.value("fill", [value.node], e.span, shape=dims_of(ctx, given["shape"]))


@_row("iota")
def _iota(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    _no_bracket(ctx, e, brackets)
    return ctx.value("iota", [], e.span, count=need_dim(ctx, arguments(ctx, e, "count")["count"]))


@_row("permute")
def _permute(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    _no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "x", "axes")
    axes = tuple(_constant(ctx, d, given["axes"].span) for d in dims_of(ctx, given["axes"]))
    return ctx.value("permute", [operand(ctx, given["x"]).node], e.span, axes=axes)


def _constant(ctx: Context, size: Dim, span: Span) -> int:
    if size.constant is None:
        ctx.reject(OP_ARGUMENTS, span, "numbers are expected here, not dimension parameters")
    return size.constant


@_row("reverse")
def _reverse(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    _no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "x", optional=("axis",))
    return ctx.value("reverse", [operand(ctx, given["x"]).node], e.span, axis=whole(ctx, given.get("axis")))


@_row("slice")
def _slice(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    _no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "x", "low", "high", optional=("stride", "axis"))
    return ctx.value(
        "slice",
        [operand(ctx, given["x"]).node],
        e.span,
        axis=whole(ctx, given.get("axis")),
        low=need_dim(ctx, given["low"]),
        high=need_dim(ctx, given["high"]),
        stride=whole(ctx, given.get("stride"), 1),
    )


@_row("concat", "stack")
def _joined(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    _no_bracket(ctx, e, brackets)
    parts = [a.value for a in e.arguments if a.label is None]
    labels = {a.label.name: a.value for a in e.arguments if a.label is not None}
    if not parts or set(labels) - {"axis"}:
        word = op_name(e)
        ctx.reject(OP_ARGUMENTS, e.span, f"`{word}` joins arrays", expected=f"`{word}(a, b, axis: 0)`")
    values = operands(ctx, parts, expected)
    return ctx.value(op_name(e), [v.node for v in values], e.span, axis=whole(ctx, labels.get("axis")))


@_row("pad")
def _pad(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    _no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "x", "before", "after", "value", optional=("axis",))
    x, value = operands(ctx, [given["x"], given["value"]], expected)
    return ctx.value(
        "pad",
        [x.node, value.node],
        e.span,
        axis=whole(ctx, given.get("axis")),
        before=need_dim(ctx, given["before"]),
        after=need_dim(ctx, given["after"]),
    )


@_row("windows")
def _windows(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    _no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "x", "size", "stride", "dilation", optional=("axis",))
    return ctx.value(
        "windows",
        [operand(ctx, given["x"]).node],
        e.span,
        axis=whole(ctx, given.get("axis")),
        size=need_dim(ctx, given["size"]),
        stride=whole(ctx, given["stride"]),
        dilation=whole(ctx, given["dilation"]),
    )


# --- index


@_row("take")
def _take(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    _no_bracket(ctx, e, brackets)
    x, indices = _indexed(ctx, e, 0)
    return ctx.value("take", [x.node, *(i.node for i in indices)], e.span)


@_row("update", "scatter", "scatter_add")
def _written(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    _no_bracket(ctx, e, brackets)
    x, indices = _indexed(ctx, e, 1)
    value = operand(ctx, e.arguments[-1].value, x.tensor.element)
    return ctx.value(op_name(e), [x.node, *(i.node for i in indices), value.node], e.span)


def _indexed(ctx: Context, e: syntax.Call, after: int) -> tuple[Value, list[Value]]:
    if len(e.arguments) < 2 + after:
        word = op_name(e)
        shown = "x, i" + ", value" * after
        ctx.reject(OP_ARGUMENTS, e.span, f"`{word}` is called with too few arguments", expected=f"`{word}({shown})`")
    x = operand(ctx, e.arguments[0].value)
    written = e.arguments[1 : len(e.arguments) - after]
    if len(written) > len(x.tensor.shape):
        ctx.reject(
            OP_ARGUMENTS, e.span, f"{len(written)} indices into {ctx.text(x.type)}", expected="one for each dimension"
        )
    return x, [index_value(ctx, a.value, size) for a, size in zip(written, x.tensor.shape, strict=False)]


@_row("dynamic_slice")
def _dynamic_slice(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    _no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "x", "start", "length")
    x, start = operand(ctx, given["x"]), operand(ctx, given["start"], U32)
    return ctx.value("dynamic_slice", [x.node, start.node], e.span, length=need_dim(ctx, given["length"]))


@_row("lookup")
def _lookup(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    _no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "table", "code")
    table, entry = operand(ctx, given["table"], expected), operand(ctx, given["code"], U8)
    return ctx.value("lookup", [table.node, entry.node], e.span)


# --- reduce


@_row("dot")
def _dot(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    given = arguments(ctx, e, "x", "y")
    left, right = operands(ctx, [given["x"], given["y"]], expected)
    same_shape(ctx, left, right, e.span)
    if brackets:
        element = element_of(ctx, bracket(ctx, e, brackets, "the element type of the sum"))
    else:
        element = left.tensor.element
        element = element if element.is_float or element.kind is Kind.OPEN else I32
    return ctx.value("dot", [left.node, right.node], e.span, to=element)


# --- spaces, copies, effects


@_row("move")
def _move(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    _no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "x", "space")
    space = given["space"]
    if not isinstance(space, syntax.Name) or space.name not in SPACES:
        word = space.name if isinstance(space, syntax.Name) else ""
        ctx.reject(ATTRIBUTE_UNFIT, space.span, "not a memory space", hint=nearest(word, list(SPACES)))
    return ctx.value("move", [operand(ctx, given["x"]).node], e.span, space=space.name)


@_row("copy")
def _copy(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    """The same value with an owner of its own; the plan copies only where it must."""
    _no_bracket(ctx, e, brackets)
    return replace(read(ctx, arguments(ctx, e, "x")["x"]), mode="fresh")


_EFFECTS = {  # name: (effect, operands)
    "read": ("fs", ("path", "length")),
    "write": ("fs", ("path", "data")),
    "send": ("net", ("address", "data")),
    "receive": ("net", ("address", "length")),
    "now": ("clock", ()),
    "entropy": ("random", ("length",)),
}


@_row(*_EFFECTS)
def _effect(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    """An effect: takes the token of its effect and leaves a new one."""
    from bittern.graph.node import item
    from bittern.lang.calls import EFFECT_IN_MAP, EFFECT_UNDECLARED

    _no_bracket(ctx, e, brackets)
    word = op_name(e)
    effect, names = _EFFECTS[word]
    if effect not in ctx.effects:
        ctx.reject(
            EFFECT_UNDECLARED,
            e.span,
            f"`{word}` has the effect `{effect}`, which this function does not declare",
            hint=f"add `! {effect}` to its type",
        )
    if effect not in ctx.frame.tokens:
        ctx.reject(
            EFFECT_IN_MAP,
            e.span,
            f"the effect `{effect}` has no order inside a map",
            hint="use a `for`, whose rounds are in order",
        )
    given = arguments(ctx, e, *names)
    inputs = [operand(ctx, given[name]).node for name in names if name != "length"]
    attributes = {"length": need_dim(ctx, given["length"])} if "length" in names else {}
    made = ctx.op(word, [*inputs, ctx.frame.tokens[effect]], e.span, **attributes)
    ctx.frame.tokens[effect] = item(made, 1)
    result = item(made, 0)
    assert isinstance(result.type, Tensor)
    return Value(result.type, (result,), "fresh")


def _real(ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], expected: Element | None) -> Value:
    """A function over the reals, in `ideal` bodies only."""
    _no_bracket(ctx, e, brackets)
    names = ("x", "y") if op_name(e) == "pow" else ("x",)
    given = arguments(ctx, e, *names)
    values = operands(ctx, [given[n] for n in names], expected)
    if len(values) == 2:
        values = list(spread(ctx, values[0], values[1], e.span))
    return ctx.value(op_name(e), [v.node for v in values], e.span)


IDEAL.update({name: _real for name in ("exp", "log", "pow", "sin", "cos", "tanh", "erf")})
NAMES = frozenset(BUILTINS)
EFFECT_NAMES = frozenset(_EFFECTS)
assert all(effect in EFFECTS for effect, _ in _EFFECTS.values())
