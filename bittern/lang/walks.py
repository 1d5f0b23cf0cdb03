"""What maps and folds walk: arrays along their first axis, and ranges of numbers; and the map itself."""

from collections.abc import Sequence
from dataclasses import dataclass

from bittern.base.errors import code
from bittern.graph.node import Node, map_over
from bittern.lang import syntax
from bittern.lang.context import Context, Elaborated, handles
from bittern.lang.frame import Frame
from bittern.lang.generics import counted, need_dim
from bittern.lang.indexing import unpack_result
from bittern.lang.ownership import need_different, read, take_value
from bittern.lang.source import Span
from bittern.lang.values import LangType, ListType, Value, leaf_types, many, one_of
from bittern.types.dims import ZERO, Dim
from bittern.types.elements import U32, Element
from bittern.types.values import Tensor

WALK_TYPE = code("E325", "a range or array to walk does not fit")
NAME_COUNT = code("E326", "wrong number of names for the ranges")


@dataclass(frozen=True, slots=True)
class Walk:
    """One thing that is walked. low: of a range, the first number. value: of an array, the array."""

    span: Span
    count: Dim
    low: Dim | None
    value: Value | None
    item: LangType


def walk_of(ctx: Context, r: syntax.Range) -> Walk:
    """Return what a range whose bounds are dimensions, or an array, gives to walk."""
    if r.high is not None:
        low, high = need_dim(ctx, r.low), need_dim(ctx, r.high)
        count = high - low
        if count.constant is not None and count.constant < 0:
            count = ZERO
        return Walk(r.span, count, low, None, Tensor(U32))
    value = read(ctx, r.low)
    walked = one_of(value.type)
    if walked is None:
        is_list = isinstance(value.type, ListType)
        ctx.reject(
            WALK_TYPE,
            r.span,
            "this cannot be walked",
            found=f"a value of type {ctx.text(value.type)}",
            expected="an array, or a range `low..high`",
            hint="a list of structs is walked by `each`" if is_list else "",
        )
    return Walk(r.span, walked[1], None, value, walked[0])


def need_equal_counts(ctx: Context, walks: Sequence[Walk]) -> Dim:
    """Return the length of all walks; different lengths are rejected, naming both."""
    for walk in walks[1:]:
        if walk.count != walks[0].count:
            left, right = ctx.text(walks[0].count), ctx.text(walk.count)
            ctx.reject(
                WALK_TYPE,
                walk.span,
                "what is walked together differs in length",
                found=f"`{left}` and `{right}`",
                expected="equal lengths",
                hint=f"nothing says that `{left}` and `{right}` are equal",
                notes=((walks[0].span, f"this has `{left}`"),),
            )
    return walks[0].count


def need_names(ctx: Context, names: Sequence[syntax.Name], ranges: Sequence[syntax.Range]) -> None:
    """Reject a walk without one name for each range, or with a name twice."""
    need_different(ctx, names)
    if len(names) != len(ranges):
        ctx.reject(
            NAME_COUNT,
            names[0].span.to(names[-1].span),
            f"{counted(len(names), 'name')} for {counted(len(ranges), 'range')}",
            expected="one name for each range",
        )


@handles(syntax.Map)
def map_expression(ctx: Context, e: Elaborated, expected: Element | None) -> Value:
    """`[body for names in ranges]`: a map node over the arrays."""
    assert isinstance(e, syntax.Map)
    need_names(ctx, e.names, e.ranges)
    walks = [walk_of(ctx, r) for r in e.ranges]
    count = need_equal_counts(ctx, walks)
    mapped = [leaf for walk in walks for leaf in _mapped(ctx, walk)]
    frame = Frame("map", ctx.frame, tuple(leaf for walk in walks for leaf in leaf_types(walk.item)))
    inner = ctx.within(frame)
    parameters = frame.parameters()
    for name, walk in zip(e.names, walks, strict=True):
        size = len(leaf_types(walk.item))
        inner.scope.bind(name.name, Value.of(walk.item, parameters[:size]), name.span)
        del parameters[:size]
    result = take_value(inner, e.body, expected)
    if isinstance(result.type, ListType):
        found = f"a value of type {ctx.text(result.type)}"
        ctx.reject(WALK_TYPE, e.body.span, "a list of structs cannot be an item of an array", found=found)
    body, captures = frame.finish(result.leaves, len(ctx.names))
    node = map_over(body, count, mapped, captures)
    return unpack_result(many(result.type, count), node)


def _mapped(ctx: Context, walk: Walk) -> Sequence[Node]:
    """Return the arrays that a map walks; a range becomes its numbers."""
    if walk.value is not None:
        return walk.value.leaves
    numbers = ctx.op("iota", [], walk.span, count=walk.count)
    if walk.low is None or walk.low == ZERO:
        return [numbers]
    low = ctx.op("broadcast", [ctx.op("size", [], walk.span, value=walk.low)], walk.span, shape=(walk.count,))
    return [ctx.op("add", [numbers, low], walk.span)]
