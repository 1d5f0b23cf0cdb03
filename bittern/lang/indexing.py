"""Parts of values: fields of structs, elements and slices of arrays, items of array literals."""

from bittern.base.errors import code, nearest
from bittern.graph.node import Node, item
from bittern.lang import syntax
from bittern.lang.builtin_table import BUILTINS
from bittern.lang.context import Context, Elaborated, handles
from bittern.lang.fitting import conversion, need_tensor, same_shape, with_operand
from bittern.lang.generics import counted, need_dim
from bittern.lang.literals import LITERAL_OPEN, constant_items, literal_value
from bittern.lang.operators import operand, operands
from bittern.lang.ownership import NOT_A_VALUE, read
from bittern.lang.solver import need_inside
from bittern.lang.source import source_text
from bittern.lang.values import (
    LangType,
    ListType,
    ManyType,
    StructType,
    Value,
    leaf_types,
    many,
)
from bittern.types.dims import Dim
from bittern.types.elements import ELEMENTS, U32, Element
from bittern.types.values import Tensor

UNKNOWN_FIELD = code("E206", "unknown field")
NOT_AN_ARRAY = code("E310", "only arrays can be indexed, and only by as many indices as they have dimensions")
INDEX_TYPE = code("E311", "an index is a u32")
INDEX_RANGE = code("E404", "a constant index is outside the array")


# --- fields


@handles(syntax.Field)
def field_value(ctx: Context, e: Elaborated, expected: Element | None) -> Value:
    """`value.name`: a field of a struct or of an array of structs; reads, never moves."""
    assert isinstance(e, syntax.Field)
    base = read(ctx, e.base)
    struct, counts = base.type, []
    while isinstance(struct, ManyType):
        counts.append(struct.count)
        struct = struct.item
    start, type_ = locate_field(ctx, struct, e.name)
    for count in reversed(counts):
        type_ = many(type_, count)
    return base.part(type_, start).shared()


def locate_field(ctx: Context, struct: LangType, name: syntax.Name) -> tuple[int, LangType]:
    """Return where a field's leaves begin among those of its struct, and its type; or reject the name."""
    if not isinstance(struct, StructType):
        message = f"a value of type {ctx.text(struct)} has no fields"
        hint = "its structs are walked by `each`" if isinstance(struct, ListType) else ""
        ctx.reject(UNKNOWN_FIELD, name.span, message, found=f"`.{name.name}`", hint=hint)
    start = 0
    for known, type_ in struct.fields:
        if known == name.name:
            return start, type_
        start += len(leaf_types(type_))
    word = struct.name.rpartition(".")[2]
    hint = nearest(name.name, [known for known, _ in struct.fields])
    ctx.reject(UNKNOWN_FIELD, name.span, f"`{word}` has no field `{name.name}`", hint=hint)


# --- elements and slices


@handles(syntax.Index)
def index(ctx: Context, e: Elaborated, expected: Element | None) -> Value:
    """`x[i, j]`, `x[low..high]` and mixtures; reads, never moves."""
    assert isinstance(e, syntax.Index)
    if isinstance(e.base, syntax.Name) and ctx.scope.find(e.base.name) is None:
        word = e.base.name
        is_const = ctx.module.find_const(word) is not None
        if not is_const and (word in ctx.module.names() or word in ELEMENTS or word in BUILTINS):
            shown = source_text(e.span)
            message, hint = f"`{word}` is a type or function, not a value", f"call it: `{shown}(...)`"
            ctx.reject(NOT_A_VALUE, e.span, message, hint=hint)
    base = read(ctx, e.base)
    if isinstance(base.type, ManyType):
        if len(e.items) != 1 or e.items[0].high is not None:
            found = ctx.text(base.type)
            ctx.reject(NOT_AN_ARRAY, e.span, "an array of structs takes one index", found=found, expected="`x[i]`")
        place = index_value(ctx, e.items[0].low, base.type.count)
        picked: LangType = base.type.item
        for size in reversed(place.tensor.shape):
            picked = many(picked, size)
        return Value.of(picked, [ctx.op("take", [leaf, place.node], e.span, "x[i]") for leaf in base.leaves], "fresh")
    if isinstance(base.type, ListType):
        hint = "a list is walked: `each w, i in x with ... { }`"
        ctx.reject(NOT_AN_ARRAY, e.span, "a list of structs has no indices", found=ctx.text(base.type), hint=hint)
    return index_tensor(ctx, need_tensor(ctx, base, e.base), e)


def index_tensor(ctx: Context, base: Value, e: syntax.Index) -> Value:
    """Index one tensor: slices first, on their own axes, then all indices at once."""
    rank = len(base.tensor.shape)
    if len(e.items) > rank:
        ctx.reject(
            NOT_AN_ARRAY,
            e.span,
            f"{len(e.items)} indices into a value of {counted(rank, 'dimension')}"
            if rank
            else "a number has no indices",
            found=ctx.text(base.type),
            expected=f"at most {rank}" if rank else "an array",
        )
    node = base.node
    for axis, part in enumerate(e.items):
        if part.high is not None:
            low, high = need_dim(ctx, part.low), need_dim(ctx, part.high)
            need_inside(ctx, part.span, "slice", base.tensor.shape, axis, low=low, high=high)
            node = ctx.op("slice", [node], part.span, "x[low..high]", axis=axis, low=low, high=high, stride=1)
    axes = [axis for axis, part in enumerate(e.items) if part.high is None]
    if axes:
        indices = [index_value(ctx, e.items[axis].low, base.tensor.shape[axis]) for axis in axes]
        if axes != list(range(len(axes))):
            node = ctx.op("permute", [node], e.span, axes=(*axes, *(a for a in range(rank) if a not in axes)))
        node = ctx.op("take", [node, *(i.node for i in indices)], e.span, "x[i]")
    assert isinstance(node.type, Tensor)
    return Value.of(node.type, (node,), "fresh")


def index_value(ctx: Context, e: syntax.Expr, size: Dim) -> Value:
    """Elaborate an index into an axis of this size: u32, one or an array; a constant must be inside."""
    known = literal_value(e)
    if known is not None and size.constant is not None and not 0 <= known[0] < size.constant:
        allowed = f"0 to {size.constant - 1}" if size.constant else "nothing: the array is empty"
        ctx.reject(INDEX_RANGE, e.span, "the index is outside the array", found=str(known[0]), expected=allowed)
    value = operand(ctx, e, U32)
    if value.tensor.element != U32:
        found, hint = ctx.text(value.type), with_operand(conversion(value.tensor.element, U32), e.span)
        ctx.reject(INDEX_TYPE, e.span, "an index is a u32", found=found, expected="u32", hint=hint)
    return value


# --- array literals


@handles(syntax.ArrayLiteral)
def array_literal(ctx: Context, e: Elaborated, expected: Element | None) -> Value:
    """`[a, b]`: the items stacked on a new first axis; items of one type."""
    assert isinstance(e, syntax.ArrayLiteral)
    constants = constant_items(e, expected)
    if constants is not None:
        return constants
    if not e.items:
        ctx.reject(LITERAL_OPEN, e.span, "an empty array has no type", hint="`fill(0.0f32, [0])` makes one")
    items = operands(ctx, e.items, expected)
    for made, written in zip(items[1:], e.items[1:], strict=True):
        same_shape(ctx, items[0], made, written.span)
    return ctx.value("stack", [i.node for i in items], e.span, axis=0)


def unpack_result(type_: LangType, result: Node, mode: str = "fresh") -> Value:
    """Return a node of a call or body as a value of the language's type: its items are the leaves."""
    count = len(leaf_types(type_))
    return Value.of(type_, (result,) if count == 1 else tuple(item(result, i) for i in range(count)), mode)
