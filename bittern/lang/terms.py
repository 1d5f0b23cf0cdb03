"""Terms, the expressions without bodies: literals, names, operators, indexing, fields."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from bittern.base.errors import code, nearest
from bittern.graph.node import Node, const, item
from bittern.lang import syntax
from bittern.lang.context import Context, Reject, expression, handles, placeholder
from bittern.lang.frame import Binding, Scope
from bittern.lang.generics import dim_of, need_dim
from bittern.lang.source import Span
from bittern.lang.values import LangType, ManyType, StructType, TupleType, Value, leaf_types, many, replace_leaves
from bittern.types.dims import Dim
from bittern.types.elements import BIT, ELEMENTS, U32, Element, Kind
from bittern.types.faults import ELEMENT_MISMATCH, ELEMENT_UNFIT, SHAPE_MISMATCH
from bittern.types.values import Tensor

UNKNOWN_NAME = code("E205", "unknown name")
UNKNOWN_FIELD = code("E206", "unknown field")
NOT_A_VALUE = code("E207", "a function or type is used as a value")
LITERAL_OPEN = code("E307", "nothing says which type a literal has")
LITERAL_RANGE = code("E308", "a literal does not fit its type")
LITERAL_KIND = code("E309", "a literal is of another kind than its type")
NOT_AN_ARRAY = code("E310", "only arrays can be indexed, and only by as many indices as they have dimensions")
INDEX_TYPE = code("E311", "an index is a u32")
INDEX_RANGE = code("E404", "a constant index is outside the array")
NOT_A_TENSOR = code("E312", "the operation needs a number or an array")
SPACE_CROSSED = code("E601", "a value is read in another memory space than the one it is in")
USED_AFTER_MOVE = code("E501", "a value is used after it was moved")
BORROWED_AND_MOVED = code("E502", "a value is borrowed and moved in one call")
MOVED_INSIDE = code("E505", "a body moves a value that belongs outside it")

_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "rem", "&": "and", "|": "or", "^": "xor"}
_COMPARE = {
    "==": ("eq", False),
    "!=": ("ne", False),
    "<": ("lt", False),
    "<=": ("le", False),
    ">": ("lt", True),
    ">=": ("le", True),
}
_SHIFTS = {"<<": "shl", ">>": "shr"}


# --- literals


def literal_value(e: syntax.Expr) -> tuple[Fraction, bool, str] | None:
    """Return (value, written as a real number, suffix) of a literal with its signs, or None."""
    if isinstance(e, syntax.Number):
        return _parse(e.text), e.is_real, e.suffix
    if isinstance(e, syntax.Unary) and e.operator == "-":
        inner = literal_value(e.operand)
        return None if inner is None else (-inner[0], inner[1], inner[2])
    return None


def is_open_literal(e: syntax.Expr) -> bool:
    """Whether the expression takes its type from its context: literals without suffix, and arrays or sums of them."""
    known = literal_value(e)
    if known is not None:
        return not known[2]
    if isinstance(e, syntax.Unary):
        return e.operator != "&" and is_open_literal(e.operand)
    if isinstance(e, syntax.Binary):
        return is_open_literal(e.left) and is_open_literal(e.right)
    if isinstance(e, syntax.ArrayLiteral):
        return bool(e.items) and all(is_open_literal(i) for i in e.items)
    return False


def _parse(text: str) -> Fraction:
    low = text.lower()
    if low.startswith("0x") and "p" in low:
        digits, _, exponent = low[2:].partition("p")
        whole, _, part = digits.partition(".")
        return Fraction(int(whole + part, 16)) * Fraction(2) ** (int(exponent) - 4 * len(part))
    if low.startswith("0x"):
        return Fraction(int(low, 16))
    return Fraction(low)


def round_to(value: Fraction, element: Element) -> np.floating[Any]:
    """Return the nearest f32 or f64 to an exact value, ties to even, beyond the range infinity."""
    try:
        near = float(value)
    except OverflowError:
        near = float("inf") if value > 0 else float("-inf")
    if element.name == "f64" or not np.isfinite(near):
        return np.float64(near) if element.name == "f64" else np.float32(near)
    with np.errstate(over="ignore"):
        guess = np.float32(near)
    if not np.isfinite(guess):
        return guess
    around = [guess, np.nextafter(guess, np.float32(np.inf)), np.nextafter(guess, np.float32(-np.inf))]
    finite = [c for c in around if np.isfinite(c)]
    return min(finite, key=lambda c: (abs(Fraction(float(c)) - value), int(c.view(np.uint32)) & 1))


def literal(ctx: Context, e: syntax.Expr, expected: Element | None) -> Value:
    """Elaborate a literal with its signs."""
    known = literal_value(e)
    assert known is not None
    value, is_real, suffix = known
    element = ELEMENTS[suffix] if suffix else expected
    if element is None:
        hint = "write a suffix, such as `1.0f32`" if is_real else "write a suffix, such as `1u32`"
        ctx.reject(LITERAL_OPEN, e.span, "nothing says which type this number has", hint=hint)
    if element.kind is Kind.OPEN:
        return placeholder(Tensor(element))
    if element.name in ("f32", "f64"):
        if not is_real and not suffix:
            hint = f"write `{value}.0`"
            ctx.reject(LITERAL_KIND, e.span, f"a whole number where {element} is expected", hint=hint)
        number: Any = -0.0 if value == 0 and _is_negated(e) else round_to(value, element)
        return Value(Tensor(element), (const(number, element),), "fresh")
    if is_real or element.is_float or element.is_format:
        allowed = "f32 or f64, rounded explicitly (`round[f16](1.0f32)`)" if element.is_float else "a whole number"
        ctx.reject(LITERAL_KIND, e.span, f"this number cannot be a value of {element}", expected=allowed)
    if not element.low <= value <= element.high or (element.name == "b1" and value == 0):
        allowed = f"{element.low} to {element.high}"
        ctx.reject(LITERAL_RANGE, e.span, f"{value} is not a value of {element}", expected=allowed)
    return Value(Tensor(element), (const(int(value), element),), "fresh")


def _is_negated(e: syntax.Expr) -> bool:
    return isinstance(e, syntax.Unary) and not _is_negated(e.operand)


@handles(syntax.Number)
def number(ctx: Context, e: syntax.Expr, expected: Element | None) -> Value:
    """A literal takes the type that its context gives."""
    return literal(ctx, e, expected)


@handles(syntax.ArrayLiteral)
def array_literal(ctx: Context, e: syntax.Expr, expected: Element | None) -> Value:
    """`[a, b]`: the items stacked on a new first axis; items of one type."""
    assert isinstance(e, syntax.ArrayLiteral)
    constants = _constant_items(e, expected)
    if constants is not None:
        return constants
    if not e.items:
        ctx.reject(LITERAL_OPEN, e.span, "an empty array has no type", hint="`fill(0.0f32, [0])` makes one")
    firm = {i: need_tensor(ctx, expression(ctx, x), x) for i, x in enumerate(e.items) if not is_open_literal(x)}
    element = next(iter(firm.values())).tensor.element if firm else expected
    items = [
        firm[i] if i in firm else need_tensor(ctx, expression(ctx, x, element), x) for i, x in enumerate(e.items)
    ]
    for made, written in zip(items[1:], e.items[1:], strict=True):
        same_shape(ctx, items[0], made, written.span)
    return ctx.value("stack", [i.node for i in items], e.span, axis=0)


def _constant_items(e: syntax.ArrayLiteral, expected: Element | None) -> Value | None:
    """Return an array of bare integer literals as one constant."""
    known = [literal_value(i) for i in e.items]
    if not known or expected is None or not expected.is_integer:
        return None
    numbers = []
    for entry in known:
        if entry is None or entry[1] or entry[2] or not expected.low <= entry[0] <= expected.high:
            return None
        numbers.append(int(entry[0]))
    node = const(np.array(numbers, dtype=expected.dtype), expected)
    assert isinstance(node.type, Tensor)
    return Value(node.type, (node,), "fresh")


@handles(syntax.TupleLiteral)
def tuple_literal(ctx: Context, e: syntax.Expr, expected: Element | None) -> Value:
    """`(a, b)`."""
    assert isinstance(e, syntax.TupleLiteral)
    items = [take_value(ctx, i) for i in e.items]
    mode = "own" if any(i.mode == "own" for i in items) else "fresh"
    return Value(TupleType(tuple(i.type for i in items)), tuple(leaf for i in items for leaf in i.leaves), mode)


# --- names and ownership


def find(ctx: Context, name: syntax.Name) -> tuple[Binding, Scope]:
    """Return what a name stands for, or reject it; a poisoned name leaves the statement silently."""
    found = ctx.scope.find(name.name)
    if found is None:
        known = [*ctx.scope.visible(), *ctx.generics.dims, *ctx.module.function_names()]
        ctx.reject(UNKNOWN_NAME, name.span, f"unknown name `{name.name}`", hint=nearest(name.name, known))
    binding, home = found
    if binding.value is None:
        raise Reject(None)
    if binding.moved is not None:
        ctx.reject(
            USED_AFTER_MOVE,
            name.span,
            f"`{name.name}` was moved and cannot be used again",
            hint="use the value that the call gave back, or read it through `&` before",
            notes=((binding.moved, "moved here"),),
        )
    return binding, home


@handles(syntax.Name)
def name_value(ctx: Context, e: syntax.Expr, expected: Element | None) -> Value:
    """A local name, a constant of a module, or a dimension as u32. An owned value is moved."""
    assert isinstance(e, syntax.Name)
    if ctx.scope.find(e.name) is None:
        size = ctx.generics.dims.get(e.name)
        if size is not None:
            return ctx.value("size", [], e.span, value=size)
        constant = ctx.module.find_const(e.name)
        if constant is not None:
            from bittern.lang.elaborate import constant_value

            return constant_value(ctx, *constant)
        if e.name in ctx.module.function_names() or e.name in ELEMENTS or e.name in ctx.generics.elements:
            ctx.reject(NOT_A_VALUE, e.span, f"`{e.name}` is not a value", hint=f"call it: `{e.name}(...)`")
    binding, home = find(ctx, e)
    value = ctx.scope.read(binding, home)
    if value.mode == "own":
        move(ctx, e, binding, home)
    return value


def move(ctx: Context, name: syntax.Name, binding: Binding, home: Scope) -> None:
    """Mark an owned value as given away."""
    frame = ctx.frame
    while frame is not home.frame:
        if frame.kind in ("map", "for", "while"):
            ctx.reject(
                MOVED_INSIDE,
                name.span,
                f"`{name.name}` belongs outside the body, which may run many times",
                hint="read it through `&`" if frame.kind == "map" else f"carry it: `with {name.name}`",
            )
        assert frame.parent is not None
        frame = frame.parent
    if name.name in ctx.borrowed:
        ctx.reject(
            BORROWED_AND_MOVED,
            name.span,
            f"`{name.name}` is borrowed by this call and cannot be moved into it",
            notes=((ctx.borrowed[name.name], "borrowed here"),),
        )
    binding.moved = name.span


def take_value(ctx: Context, e: syntax.Expr, expected: Element | None = None) -> Value:
    """Elaborate an expression whose value goes on as it is: a name that is not owned is shared from here."""
    value = expression(ctx, e, expected)
    if isinstance(e, (syntax.Name, syntax.Field)) and value.mode == "fresh":
        return value.shared()
    return value


@handles(syntax.Field)
def field_value(ctx: Context, e: syntax.Expr, expected: Element | None) -> Value:
    """`value.name`: a field of a struct or of an array of structs; reads, never moves."""
    assert isinstance(e, syntax.Field)
    return pick_field(ctx, read(ctx, e.base), e.name).shared()


def read(ctx: Context, e: syntax.Expr) -> Value:
    """Elaborate an expression for reading: a name, or a place in it, is borrowed, not moved."""
    if isinstance(e, syntax.Unary) and e.operator == "&":
        return expression(ctx, e)
    if isinstance(e, syntax.Name) and ctx.scope.find(e.name) is not None:
        return ctx.scope.read(*find(ctx, e)).shared()
    return expression(ctx, e)


def root_name(e: syntax.Expr) -> syntax.Name | None:
    """Return the name at the root of a place (`cache` in `cache.k[l]`), or None."""
    while isinstance(e, (syntax.Field, syntax.Index)):
        e = e.base
    return e if isinstance(e, syntax.Name) else None


def pick_field(ctx: Context, base: Value, name: syntax.Name) -> Value:
    """Return a field of a struct value or of an array of structs."""
    count_of = base.type.count if isinstance(base.type, ManyType) else None
    struct = base.type.item if isinstance(base.type, ManyType) else base.type
    if not isinstance(struct, StructType):
        found = ctx.text(base.type)
        ctx.reject(UNKNOWN_FIELD, name.span, f"a value of type {found} has no field `{name.name}`")
    start = 0
    for known, type_ in struct.fields:
        count = len(leaf_types(type_))
        if known == name.name:
            leaves = base.leaves[start : start + count]
            return Value(type_ if count_of is None else many(type_, count_of), leaves, base.mode)
        start += count
    ctx.reject(
        UNKNOWN_FIELD,
        name.span,
        f"`{struct.name.rpartition('.')[2]}` has no field `{name.name}`",
        hint=nearest(name.name, [known for known, _ in struct.fields]),
    )


# --- operators


def need_tensor(ctx: Context, value: Value, e: syntax.Expr) -> Value:
    """Return the value if it is one tensor, or reject it."""
    if not isinstance(value.type, Tensor):
        found = ctx.text(value.type)
        ctx.reject(NOT_A_TENSOR, e.span, "a number or an array is needed here", found=found, expected="a tensor")
    return value


def broadcast(ctx: Context, value: Value, shape: tuple[Dim, ...], span: Span) -> Value:
    """Return a scalar spread over a shape; other values as they are."""
    if value.tensor.shape or not shape:
        return value
    return ctx.value("broadcast", [value.node], span, shape=shape)


def same_shape(ctx: Context, left: Value, right: Value, span: Span) -> None:
    """Reject two arrays of different shape, element or space, naming both dimensions."""
    a, b = left.tensor, right.tensor
    both = f"{ctx.text(a)} and {ctx.text(b)}"
    if a.element != b.element and not ctx.ideal:
        ctx.reject(
            ELEMENT_MISMATCH,
            span,
            "the operands have different element types",
            found=both,
            expected="one element type",
            hint=_convert_hint(a.element, b.element),
        )
    if a.shape != b.shape:
        ctx.reject(
            SHAPE_MISMATCH,
            span,
            "the operands have different shapes",
            found=both,
            expected="equal dimensions, or a scalar",
            hint=_shape_hint(ctx, a, b),
        )
    if a.space and b.space and a.space != b.space:
        ctx.reject(
            SPACE_CROSSED,
            span,
            "the operands are in different memory spaces",
            found=f"{a.space} and {b.space}",
            expected="one space",
            hint=f"write `move(x, {a.space})`",
        )


def _convert_hint(a: Element, b: Element) -> str:
    narrow, wide = (a, b) if a.bits < b.bits else (b, a)
    if a.kind is b.kind and narrow.bits < wide.bits:
        return f"widen the {narrow} with `{wide}(x)`"
    if (a.is_integer and b.is_float) or (b.is_integer and a.is_float):
        return f"convert the integer with `{a if a.is_float else b}(x)`"
    return "convert one of them"


def _shape_hint(ctx: Context, a: Tensor, b: Tensor) -> str:
    if len(a.shape) != len(b.shape):
        return "map over the extra dimension: `[f(row) for row in x]`"
    left, right = next((x, y) for x, y in zip(a.shape, b.shape, strict=True) if x != y)
    return f"`{ctx.text(left)}` and `{ctx.text(right)}` are not known to be equal"


def meet(ctx: Context, e: syntax.Binary, expected: Element | None) -> tuple[Value, Value]:
    """Elaborate both sides of an operator: a literal takes the other's element, a scalar spreads over an array."""
    if is_open_literal(e.left) and not is_open_literal(e.right):
        right = need_tensor(ctx, expression(ctx, e.right, expected), e.right)
        left = need_tensor(ctx, expression(ctx, e.left, right.tensor.element), e.left)
    else:
        left = need_tensor(ctx, expression(ctx, e.left, expected), e.left)
        right = need_tensor(ctx, expression(ctx, e.right, left.tensor.element), e.right)
    return spread(ctx, left, right, e.operator_span)


def spread(ctx: Context, left: Value, right: Value, span: Span) -> tuple[Value, Value]:
    """Return two operands of equal type: a scalar is spread over the other's shape; other differences are rejected."""
    left, right = agree(ctx, [left, right], span)
    left, right = broadcast(ctx, left, right.tensor.shape, span), broadcast(ctx, right, left.tensor.shape, span)
    same_shape(ctx, left, right, span)
    return left, right


def agree(ctx: Context, values: Sequence[Value], span: Span) -> list[Value]:
    """Over the reals (`ideal`), return operands of one element: codes stand for the numbers of the other operand."""
    real = next((v.tensor.element for v in values if v.tensor.element.is_float), None)
    if not ctx.ideal or real is None:
        return list(values)
    return [
        v if v.tensor.element.is_float else ctx.value("convert", [v.node], span, to=real) for v in values
    ]


@handles(syntax.Binary)
def binary(ctx: Context, e: syntax.Expr, expected: Element | None) -> Value:
    """`left operator right`, element-wise; of dimensions, the dimension as u32."""
    assert isinstance(e, syntax.Binary)
    size = dim_of(ctx, e) if _names_dim(ctx, e) else None
    if size is not None:
        return ctx.value("size", [], e.span, value=size)
    if e.operator in _SHIFTS:
        return shift(ctx, _SHIFTS[e.operator], e.left, e.right, expected, e.operator_span)
    if e.operator in ("and", "or"):
        left, right = meet(ctx, e, BIT)
        _need_bit(ctx, left, e.left.span, e.operator)
        _need_bit(ctx, right, e.right.span, e.operator)
        return ctx.value(e.operator, [left.node, right.node], e.operator_span)
    if e.operator in _ARITHMETIC:
        left, right = meet(ctx, e, expected)
        return ctx.value(_ARITHMETIC[e.operator], [left.node, right.node], e.operator_span)
    left, right = meet(ctx, e, None)
    kind, is_swapped = _COMPARE[e.operator]
    inputs = [right.node, left.node] if is_swapped else [left.node, right.node]
    return ctx.value(kind, inputs, e.operator_span)


def _names_dim(ctx: Context, e: syntax.Expr) -> bool:
    """Whether an arithmetic expression names a dimension (also one that is a known number here)."""
    if isinstance(e, syntax.Binary):
        return _names_dim(ctx, e.left) or _names_dim(ctx, e.right)
    return isinstance(e, syntax.Name) and e.name in ctx.generics.dims and ctx.scope.find(e.name) is None


def shift(ctx: Context, kind: str, x: syntax.Expr, count: syntax.Expr, expected: Element | None, span: Span) -> Value:
    """A shift or rotation; the count is u32, one for all or one each."""
    left = need_tensor(ctx, expression(ctx, x, expected), x)
    right = need_tensor(ctx, expression(ctx, count, U32), count)
    if right.tensor.element != U32:
        ctx.reject(
            ELEMENT_UNFIT,
            count.span,
            "a shift count is u32",
            found=ctx.text(right.type),
            expected="u32",
            hint="convert it with `u32(x)` or `wrap[u32](x)`",
        )
    right = broadcast(ctx, right, left.tensor.shape, span)
    return ctx.value(kind, [left.node, right.node], span)


def _need_bit(ctx: Context, value: Value, span: Span, operator: str) -> None:
    if value.tensor.element != BIT:
        ctx.reject(
            ELEMENT_UNFIT,
            span,
            f"`{operator}` joins truth values",
            found=ctx.text(value.type),
            expected="bit",
            hint="`&`, `|`, `^` and `~` work on integers",
        )


@handles(syntax.Unary)
def unary(ctx: Context, e: syntax.Expr, expected: Element | None) -> Value:
    """`-x`, `~x`, `not x`, `&x`."""
    assert isinstance(e, syntax.Unary)
    if e.operator == "&":
        root = root_name(e.operand)
        if root is not None:
            ctx.borrowed.setdefault(root.name, e.span)
        return read(ctx, e.operand).shared()
    if literal_value(e) is not None:
        return literal(ctx, e, expected)
    value = need_tensor(ctx, expression(ctx, e.operand, BIT if e.operator == "not" else expected), e.operand)
    if e.operator == "not":
        _need_bit(ctx, value, e.operand.span, "not")
    return ctx.value("neg" if e.operator == "-" else "not", [value.node], e.span)


# --- indexing


@handles(syntax.Index)
def index(ctx: Context, e: syntax.Expr, expected: Element | None) -> Value:
    """`x[i, j]`, `x[low..high]` and mixtures; reads, never moves."""
    assert isinstance(e, syntax.Index)
    if isinstance(e.base, syntax.Name) and ctx.scope.find(e.base.name) is None:
        is_const = ctx.module.find_const(e.base.name) is not None
        if not is_const and (e.base.name in ctx.module.function_names() or e.base.name in ELEMENTS):
            ctx.reject(NOT_A_VALUE, e.span, f"`{e.base.name}[...]` is not a value", hint="call it")
    base = read(ctx, e.base)
    if isinstance(base.type, ManyType):
        if len(e.items) != 1 or e.items[0].high is not None:
            ctx.reject(NOT_AN_ARRAY, e.span, "an array of structs takes one index")
        parts = zip(base.leaves, leaf_types(base.type), strict=True)
        made = [index_tensor(ctx, Value(type_, (leaf,)), e) for leaf, type_ in parts]
        return Value(replace_leaves(base.type.item, [m.tensor for m in made]), tuple(m.node for m in made), "fresh")
    return index_tensor(ctx, need_tensor(ctx, base, e.base), e)


def index_tensor(ctx: Context, base: Value, e: syntax.Index) -> Value:
    """Index one tensor: slices first, on their own axes, then all indices at once."""
    rank = len(base.tensor.shape)
    if len(e.items) > rank:
        ctx.reject(
            NOT_AN_ARRAY,
            e.span,
            f"{len(e.items)} indices into a value of {rank} dimensions",
            found=ctx.text(base.type),
            expected=f"at most {rank}" if rank else "an array",
        )
    node = base.node
    for axis, part in enumerate(e.items):
        if part.high is not None:
            low, high = need_dim(ctx, part.low), need_dim(ctx, part.high)
            node = ctx.op("slice", [node], part.span, axis=axis, low=low, high=high, stride=1)
    axes = [axis for axis, part in enumerate(e.items) if part.high is None]
    if axes:
        indices = [index_value(ctx, e.items[axis].low, base.tensor.shape[axis]) for axis in axes]
        if axes != list(range(len(axes))):
            node = ctx.op("permute", [node], e.span, axes=(*axes, *(a for a in range(rank) if a not in axes)))
        node = ctx.op("take", [node, *(i.node for i in indices)], e.span)
    assert isinstance(node.type, Tensor)
    return Value(node.type, (node,), "fresh")


def index_value(ctx: Context, e: syntax.Expr, size: Dim) -> Value:
    """Elaborate an index into an axis of this size: u32, one or an array; a constant must be inside."""
    known = literal_value(e)
    if known is not None and size.constant is not None and not 0 <= known[0] < size.constant:
        allowed = f"0 to {size.constant - 1}" if size.constant else "nothing: the array is empty"
        ctx.reject(INDEX_RANGE, e.span, f"index {known[0]} is outside the array", expected=allowed)
    value = need_tensor(ctx, expression(ctx, e, U32), e)
    if value.tensor.element != U32:
        found = ctx.text(value.type)
        ctx.reject(INDEX_TYPE, e.span, "an index is a u32", found=found, hint="convert it with `u32(x)`")
    return value


def unpack_result(type_: LangType, result: Node, mode: str = "fresh") -> Value:
    """Return a node of a call or body as a value of the language's type: its items are the leaves."""
    count = len(leaf_types(type_))
    leaves = (result,) if count == 1 else tuple(item(result, i) for i in range(count))
    return Value(type_, leaves, mode)
