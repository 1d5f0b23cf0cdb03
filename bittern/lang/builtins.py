"""Primitive ops as the language calls them: one row each, from arguments to the node of `bittern.ops`.

A row says how many operands the op takes, which arguments are dimensions or axes, and which bracket it needs. `axis:`
is 0 unless it is given. Operands that are bare literals take the element of the other operands.
"""

from bittern.base.errors import nearest
from bittern.lang import syntax
from bittern.lang.builtin_table import IDEAL, Brackets, builtin
from bittern.lang.context import Context
from bittern.lang.fitting import broadcast, same_shape
from bittern.lang.generics import UNKNOWN_SPACE, element_of, need_dim, need_size
from bittern.lang.indexing import index_value
from bittern.lang.literals import is_open_literal, literal, literal_value
from bittern.lang.op_arguments import (
    OP_ARGUMENTS,
    arguments,
    constant,
    dims_of,
    need_bracket,
    need_no_bracket,
    op_name,
    whole,
)
from bittern.lang.operators import operand, operands, shift, spread
from bittern.lang.ownership import read
from bittern.lang.solver import need_inside
from bittern.lang.values import Value
from bittern.types.elements import BIT, ELEMENTS, I32, U8, U32, Element, Kind
from bittern.types.values import SPACES

# --- element-wise


@builtin("min", "max", "add_sat", "sub_sat", "mul_high", "extract", "deposit")
def _two(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    need_no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "x", "y")
    left, right = operands(ctx, [given["x"], given["y"]], expected)
    left, right = spread(ctx, left, right, e.span)
    return ctx.value(op_name(e), [left.node, right.node], e.span)


@builtin(
    "abs", "sqrt", "round_even", "floor", "ceil", "trunc", "popcount", "clz", "ctz", "reverse_bits", "reverse_bytes"
)
@builtin("sum", "product", "max_of", "min_of", "all_of", "any_of", "xor_of", "scan_sum", "scan_max", "scan_xor")
def _one(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    """One operand, whose element the result has."""
    need_no_bracket(ctx, e, brackets)
    return ctx.value(op_name(e), [operand(ctx, arguments(ctx, e, "x")["x"], expected).node], e.span)


@builtin("bits", "blocks", "argmax", "argmin")
def _one_other(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    """One operand; the result has another element."""
    need_no_bracket(ctx, e, brackets)
    return ctx.value(op_name(e), [operand(ctx, arguments(ctx, e, "x")["x"]).node], e.span)


@builtin("rotl", "rotr")
def _rotate(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    need_no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "x", "count")
    return shift(ctx, op_name(e), given["x"], given["count"], expected, e.span)


@builtin("select")
def _select(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    need_no_bracket(ctx, e, brackets)
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
        return literal(ctx, x, element, whole=True)
    value = operand(ctx, x, element if is_open_literal(x) else None)
    if value.tensor.element == element:
        return value
    return ctx.value("convert", [value.node], e.span, f"{element}(x)", to=element)


@builtin("wrap", "sat", "round", "sign", "from_bits")
def _to(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    element = element_of(ctx, need_bracket(ctx, e, brackets, "the element type of the result"))
    word = op_name(e)
    source = ELEMENTS.get(f"u{element.bits}") if word == "from_bits" else None
    value = operand(ctx, arguments(ctx, e, "x")["x"], source)
    return ctx.value(word, [value.node], e.span, to=element)


@builtin("pack")
def _pack(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    width = whole(ctx, need_bracket(ctx, e, brackets, "the number of bits of a code"))
    return ctx.value("pack", [operand(ctx, arguments(ctx, e, "x")["x"]).node], e.span, bits=width)


@builtin("unpack")
def _unpack(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    element = element_of(ctx, need_bracket(ctx, e, brackets, "the element type of a code"))
    given = arguments(ctx, e, "x", "count")
    count = need_size(ctx, given["count"])
    return ctx.value("unpack", [operand(ctx, given["x"]).node], e.span, to=element, count=count)


# --- shape


@builtin("reshape", "broadcast")
def _shaped(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    need_no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "x", "shape")
    value = operand(ctx, given["x"], expected)
    return ctx.value(op_name(e), [value.node], e.span, shape=dims_of(ctx, given["shape"]))


@builtin("fill")
def _fill(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    need_no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "value", "shape")
    value = operand(ctx, given["value"], expected)
    return ctx.value("fill", [value.node], e.span, shape=dims_of(ctx, given["shape"]))


@builtin("iota")
def _iota(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    need_no_bracket(ctx, e, brackets)
    return ctx.value("iota", [], e.span, count=need_size(ctx, arguments(ctx, e, "count")["count"]))


@builtin("permute")
def _permute(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    need_no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "x", "axes")
    axes = tuple(constant(ctx, d, given["axes"].span) for d in dims_of(ctx, given["axes"]))
    return ctx.value("permute", [operand(ctx, given["x"]).node], e.span, axes=axes)


@builtin("reverse")
def _reverse(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    need_no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "x", optional=("axis",))
    return ctx.value("reverse", [operand(ctx, given["x"]).node], e.span, axis=whole(ctx, given.get("axis")))


@builtin("slice")
def _slice(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    need_no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "x", "low", "high", optional=("stride", "axis"))
    x, axis, stride = operand(ctx, given["x"]), whole(ctx, given.get("axis")), whole(ctx, given.get("stride"), 1)
    low, high = need_dim(ctx, given["low"]), need_dim(ctx, given["high"])
    need_inside(ctx, e.span, "slice", x.tensor.shape, axis, low=low, high=high)
    return ctx.value("slice", [x.node], e.span, axis=axis, low=low, high=high, stride=stride)


@builtin("concat", "stack")
def _joined(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    need_no_bracket(ctx, e, brackets)
    parts = [a.value for a in e.arguments if a.label is None]
    labels = {a.label.name: a.value for a in e.arguments if a.label is not None}
    if not parts or set(labels) - {"axis"}:
        word = op_name(e)
        ctx.reject(OP_ARGUMENTS, e.span, f"`{word}` joins arrays", expected=f"`{word}(a, b, axis: 0)`")
    values = operands(ctx, parts, expected)
    return ctx.value(op_name(e), [v.node for v in values], e.span, axis=whole(ctx, labels.get("axis")))


@builtin("pad")
def _pad(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    need_no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "x", "before", "after", "value", optional=("axis",))
    x, value = operands(ctx, [given["x"], given["value"]], expected)
    return ctx.value(
        "pad",
        [x.node, value.node],
        e.span,
        axis=whole(ctx, given.get("axis")),
        before=need_size(ctx, given["before"]),
        after=need_size(ctx, given["after"]),
    )


@builtin("windows")
def _windows(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    need_no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "x", "size", "stride", "dilation", optional=("axis",))
    x, axis, size = operand(ctx, given["x"]), whole(ctx, given.get("axis")), need_size(ctx, given["size"])
    stride, dilation = whole(ctx, given["stride"]), whole(ctx, given["dilation"])
    need_inside(ctx, e.span, "windows", x.tensor.shape, axis, size=size, dilation=dilation)
    return ctx.value("windows", [x.node], e.span, axis=axis, size=size, stride=stride, dilation=dilation)


# --- index


@builtin("take")
def _take(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    need_no_bracket(ctx, e, brackets)
    x, indices = _indexed(ctx, e, 0)
    return ctx.value("take", [x.node, *(i.node for i in indices)], e.span)


@builtin("update", "scatter", "scatter_add")
def _written(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    need_no_bracket(ctx, e, brackets)
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


@builtin("dynamic_slice")
def _dynamic_slice(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    need_no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "x", "start", "length")
    x, start = operand(ctx, given["x"]), operand(ctx, given["start"], U32)
    length = need_size(ctx, given["length"])
    need_inside(ctx, e.span, "dynamic_slice", x.tensor.shape, 0, length=length)
    return ctx.value("dynamic_slice", [x.node, start.node], e.span, length=length)


@builtin("lookup")
def _lookup(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    need_no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "table", "code")
    table, entry = operand(ctx, given["table"], expected), operand(ctx, given["code"], U8)
    return ctx.value("lookup", [table.node, entry.node], e.span)


# --- reduce


@builtin("dot")
def _dot(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    given = arguments(ctx, e, "x", "y")
    left, right = operands(ctx, [given["x"], given["y"]], expected)
    same_shape(ctx, left, right, e.span, elements=not (_is_whole(left) and _is_whole(right)))
    if brackets:
        element = element_of(ctx, need_bracket(ctx, e, brackets, "the element type of the sum"))
    else:
        element = left.tensor.element
        element = element if element.is_float or element.kind is Kind.OPEN else I32
    return ctx.value("dot", [left.node, right.node], e.span, to=element)


def _is_whole(value: Value) -> bool:
    """Whether the numbers are whole, so that those of two elements may be multiplied."""
    element = value.tensor.element
    return element.kind is not Kind.FORMAT and not element.is_float


# --- spaces, copies, effects


@builtin("move")
def _move(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    need_no_bracket(ctx, e, brackets)
    given = arguments(ctx, e, "x", "space")
    space = given["space"]
    word = space.name if isinstance(space, syntax.Name) else ""
    if word not in SPACES:
        ctx.reject(UNKNOWN_SPACE, space.span, f"unknown memory space `{word}`", hint=nearest(word, list(SPACES)))
    return ctx.value("move", [operand(ctx, given["x"]).node], e.span, space=word)


@builtin("copy")
def _copy(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    """The same value with an owner of its own; the plan copies only where it must."""
    need_no_bracket(ctx, e, brackets)
    return read(ctx, arguments(ctx, e, "x")["x"]).marked("fresh")


def _real(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    """A function over the reals, in `ideal` bodies only."""
    need_no_bracket(ctx, e, brackets)
    names = ("x", "y") if op_name(e) == "pow" else ("x",)
    given = arguments(ctx, e, *names)
    values = operands(ctx, [given[n] for n in names], expected)
    if len(values) == 2:
        values = list(spread(ctx, values[0], values[1], e.span))
    return ctx.value(op_name(e), [v.node for v in values], e.span)


IDEAL.update(dict.fromkeys(("exp", "log", "pow", "sin", "cos", "tanh", "erf"), _real))
