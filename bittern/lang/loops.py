"""Bodies that carry values from round to round: `for`, `each` and `while`."""

from collections.abc import Sequence
from functools import partial

from bittern.base.errors import code
from bittern.graph.node import Node, const, fold, repeat
from bittern.lang import syntax
from bittern.lang.branches import condition_node
from bittern.lang.context import Context, Elaborated, Expected, expectation, expression, handles_tuples, items_expected
from bittern.lang.effects import effects_in, take_tokens
from bittern.lang.fitting import fit, need_given
from bittern.lang.frame import Frame, finish_together
from bittern.lang.generics import dim_of
from bittern.lang.operators import operand
from bittern.lang.ownership import need_different, read
from bittern.lang.source import Span
from bittern.lang.values import LangType, ListType, TupleType, Value, leaf_types
from bittern.lang.walks import NAME_COUNT, WALK_TYPE, Walk, need_equal_counts, need_names, walk_of
from bittern.types.dims import ZERO
from bittern.types.elements import U32
from bittern.types.values import Tensor, Token, Type

CARRY_TYPE = code("E322", "a body gives back another type than it carries")


@handles_tuples(syntax.For)
def for_expression(ctx: Context, e: Elaborated, expected: Expected) -> Value:
    """`for` makes a fold node; `each` unrolls over the structs of a list."""
    assert isinstance(e, syntax.For)
    if e.unrolled:
        return _each(ctx, e, expected)
    need_names(ctx, e.names, e.ranges)
    need_different(ctx, [*e.names, *(carry.name for carry in e.carries)])
    low, high, walks = _bounds(ctx, e.ranges)
    starts = _starts(ctx, e.carries, expected)
    effects = effects_in(ctx, e.body)
    frame, inner = _carrying(ctx, "for", [Tensor(U32)], e.carries, starts, effects)
    position = frame.parameters()[0]
    for name, walk in zip(e.names, walks, strict=True):
        inner.scope.bind(name.name, _walked(inner, ctx.frame, walk, position, name.span), name.span)
    back = _given_back(inner, e, starts)
    leaves = [*back.leaves, *(frame.tokens[f] for f in effects)]
    (body,), captures = finish_together([(frame, leaves)], len(ctx.names))
    return _carried(ctx, starts, fold(body, low, high, _inputs(ctx, starts, effects), captures), effects)


@handles_tuples(syntax.While)
def while_expression(ctx: Context, e: Elaborated, expected: Expected) -> Value:
    """`while test limit n with carries {..}`."""
    assert isinstance(e, syntax.While)
    need_different(ctx, [carry.name for carry in e.carries])
    limit = _bound(ctx, e.limit, "a limit")
    starts = _starts(ctx, e.carries, expected)
    effects = effects_in(ctx, e.body)
    test_frame, test_ctx = _carrying(ctx, "while", [], e.carries, [s.shared() for s in starts], effects)
    test_frame.tokens.clear()
    condition = condition_node(test_ctx, e.condition)
    frame, inner = _carrying(ctx, "while", [], e.carries, starts, effects)
    back = _given_back(inner, e, starts)
    leaves = [*back.leaves, *(frame.tokens[f] for f in effects)]
    (test, body), captures = finish_together([(test_frame, [condition]), (frame, leaves)], len(ctx.names))
    return _carried(ctx, starts, repeat(test, body, limit, _inputs(ctx, starts, effects), captures), effects)


def _each(ctx: Context, e: syntax.For, expected: Expected) -> Value:
    """`each w, l in list with x {..}`: the body once for each struct, in this frame."""
    if len(e.ranges) != 1 or e.ranges[0].high is not None:
        ctx.reject(WALK_TYPE, e.ranges[0].span.to(e.ranges[-1].span), "`each` walks one list of structs")
    value = read(ctx, e.ranges[0].low)
    if not isinstance(value.type, ListType):
        found = f"a value of type {ctx.text(value.type)}"
        hint = "an array is walked by `for`"
        ctx.reject(WALK_TYPE, e.ranges[0].span, "`each` walks a list of structs", found=found, hint=hint)
    if len(e.names) > 2:
        ctx.reject(NAME_COUNT, e.names[2].span, "`each` names the struct and its number", expected="one or two names")
    need_different(ctx, [*e.names, *(carry.name for carry in e.carries)])
    types = (value.type.item,) if value.type.items is None else value.type.items
    carried = _starts(ctx, e.carries, expected)
    for place, item in enumerate(value.items(types)):
        inner = ctx.block("each")
        inner.scope.bind(e.names[0].name, item, e.names[0].span)
        if len(e.names) == 2:
            inner.scope.bind(e.names[1].name, Value.of(Tensor(U32), [const(place, U32)]), e.names[1].span)
        for carry, state in zip(e.carries, carried, strict=True):
            inner.scope.bind(carry.name.name, state, carry.name.span)
        back = _given_back(inner, e, carried)
        carried = [
            part.marked([mode or "fresh" for mode in state.modes])
            for part, state in zip(back.items([s.type for s in carried]), carried, strict=True)
        ]
    return carried[0] if len(carried) == 1 else Value.tuple_of(carried)


# --- bounds


def _bounds(ctx: Context, ranges: tuple[syntax.Range, ...]) -> tuple[Node, Node, list[Walk | None]]:
    """Return low and high of the index, and what each name walks; None: the name is the index itself."""
    for r in ranges:
        if r.high is None or (dim_of(ctx, r.low) is not None and dim_of(ctx, r.high) is not None):
            continue
        if len(ranges) > 1:
            ctx.reject(
                WALK_TYPE, r.span, "a range with computed bounds is walked alone", expected="bounds that are dimensions"
            )
        return _bound(ctx, r.low, "a bound of a range"), _bound(ctx, r.high, "a bound of a range"), [None]
    walks = [walk_of(ctx, r) for r in ranges]
    count = need_equal_counts(ctx, walks)
    first = walks[0].low if len(walks) == 1 and walks[0].low is not None else ZERO
    low, high = (ctx.op("size", [], walks[0].span, value=size) for size in (first, first + count))
    return low, high, [None if walk.low == first else walk for walk in walks]


def _bound(ctx: Context, e: syntax.Expr, what: str) -> Node:
    value = operand(ctx, e, U32)
    if value.type != Tensor(U32):
        found = f"a value of type {ctx.text(value.type)}"
        ctx.reject(WALK_TYPE, e.span, f"{what} is one u32", found=found, expected="u32")
    return value.node


def _walked(inner: Context, home: Frame, walk: Walk | None, position: Node, span: Span) -> Value:
    """Return what a name of a `for` stands for in a round: the index, or an element of an array."""
    if walk is None:
        return Value.of(Tensor(U32), [position])
    if walk.low is not None:
        return inner.value("add", [position, inner.op("size", [], span, value=walk.low)], span)
    assert walk.value is not None
    leaves = [inner.op("take", [inner.frame.bring(leaf, home), position], span) for leaf in walk.value.leaves]
    return Value.of(walk.item, leaves, "fresh")


# --- carries


def _starts(ctx: Context, carries: tuple[syntax.Carry, ...], expected: Expected) -> list[Value]:
    """Return the values that are carried into the first round. expected: the element of one that is a literal."""
    wanted = [expected] if len(carries) == 1 else items_expected(expected, len(carries))
    written = [carry.name if carry.start is None else carry.start for carry in carries]
    return ctx.every([partial(expression, ctx, e, element) for e, element in zip(written, wanted, strict=True)])


def _together(starts: Sequence[Value]) -> LangType:
    return starts[0].type if len(starts) == 1 else TupleType(tuple(s.type for s in starts))


def _carrying(
    ctx: Context,
    kind: str,
    before: list[Type],
    carries: tuple[syntax.Carry, ...],
    starts: Sequence[Value],
    effects: Sequence[str],
) -> tuple[Frame, Context]:
    """Return the frame of a body that carries values, with the carried names bound."""
    types = [*before, *(leaf for s in starts for leaf in leaf_types(s.type)), *(Token(f) for f in effects)]
    frame = Frame(kind, ctx.frame, tuple(types))
    parameters = frame.parameters()[len(before) :]
    inner = ctx.within(frame)
    for carry, start in zip(carries, starts, strict=True):
        inner.scope.bind(carry.name.name, start.with_leaves(parameters[: len(start.leaves)]), carry.name.span)
        del parameters[: len(start.leaves)]
    frame.tokens.update(zip(effects, parameters, strict=True))
    return frame, inner


def _given_back(inner: Context, e: syntax.For | syntax.While, starts: Sequence[Value]) -> Value:
    """Elaborate a body; return what it gives back, checked against what it carries."""
    wanted = _together(starts)
    result = expression(inner, e.body, expectation(wanted))
    span = e.body.result.span
    names = ", ".join(f"`{carry.name.name}`" for carry in e.carries)
    result = fit(inner, result, wanted, span, CARRY_TYPE, f"the body does not give back the type of {names}")
    modes = [mode for start in starts for mode in start.modes]
    need_given(inner, result, modes, span, f"the body gives back {names}, which is owned")
    return result


def _inputs(ctx: Context, starts: Sequence[Value], effects: Sequence[str]) -> list[Node]:
    return [*(leaf for s in starts for leaf in s.leaves), *(ctx.frame.tokens[f] for f in effects)]


def _carried(ctx: Context, starts: Sequence[Value], node: Node, effects: Sequence[str]) -> Value:
    """Return the result of a fold as a value, and keep the tokens it gave back."""
    type_ = _together(starts)
    modes = [mode or "fresh" for start in starts for mode in start.modes]
    return Value.of(type_, take_tokens(ctx, node, type_, effects)).marked(modes)
