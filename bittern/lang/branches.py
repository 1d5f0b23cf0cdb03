"""`if`: both sides give one type; one of them is evaluated."""

from collections.abc import Sequence

from bittern.base.errors import code
from bittern.graph.node import Node, choose
from bittern.lang import syntax
from bittern.lang.context import Context, Elaborated, Expected, Reject, expectation, expression, handles_tuples
from bittern.lang.effects import effects_in, take_tokens
from bittern.lang.fitting import misfit_hint, spread_to
from bittern.lang.frame import Frame, finish_together
from bittern.lang.literals import is_open_literal
from bittern.lang.operators import operand
from bittern.lang.ownership import moves, restore
from bittern.lang.source import Span
from bittern.lang.values import Value, is_same
from bittern.types.elements import BIT
from bittern.types.values import Tensor

BRANCH_TYPE = code("E323", "the branches of an `if` have different types")
CONDITION_TYPE = code("E324", "a condition is one bit")


def condition_node(ctx: Context, e: syntax.Expr) -> Node:
    """Return the one bit of a condition."""
    value = operand(ctx, e, BIT)
    if value.type != Tensor(BIT):
        is_array = isinstance(value.type, Tensor) and bool(value.type.shape)
        ctx.reject(
            CONDITION_TYPE,
            e.span,
            "a condition is one bit",
            found=f"a value of type {ctx.text(value.type)}",
            expected="bit",
            hint="reduce it with `all_of` or `any_of`" if is_array else "compare it, as in `x != 0`",
        )
    return value.node


@handles_tuples(syntax.If)
def if_expression(ctx: Context, e: Elaborated, expected: Expected) -> Value:
    """`if condition {..} else {..}`."""
    assert isinstance(e, syntax.If)
    condition = condition_node(ctx, e.condition)
    effects = effects_in(ctx, e.then, e.otherwise)
    frames, sides = _sides(ctx, e, expected, effects)
    then, otherwise = sides
    then = spread_to(ctx.within(frames[0]), then, otherwise.type, e.then.span)
    otherwise = spread_to(ctx.within(frames[1]), otherwise, then.type, e.otherwise.span)
    if not is_same(then.type, otherwise.type, elements=not ctx.ideal):
        ctx.reject(
            BRANCH_TYPE,
            result_span(e.otherwise),
            "the branches have different types",
            found=ctx.text(otherwise.type),
            expected=ctx.text(then.type),
            hint=misfit_hint(ctx, otherwise.type, then.type),
            notes=((result_span(e.then), f"this is {ctx.text(then.type)}"),),
        )
    parts = []
    for frame, side in zip(frames, (then, otherwise), strict=True):
        parts.append((frame, [*side.leaves, *(frame.tokens[f] for f in effects)]))
    (yes, no), captures = finish_together(parts, len(ctx.names))
    node = choose(condition, yes, no, captures)
    pairs = zip(then.modes, otherwise.modes, strict=True)
    modes = [
        min(pair, key=("", "own", "fresh").index) for pair in pairs
    ]  # shared if either side is, else owned if either
    return Value.of(then.type, take_tokens(ctx, node, then.type, effects)).marked(modes)


def _sides(ctx: Context, e: syntax.If, expected: Expected, effects: Sequence[str]) -> tuple[list[Frame], list[Value]]:
    """Elaborate both sides, each from what was there before; what either moves is moved afterwards.

    A side that is a bare literal takes the element of the other one. An error in one side does not hide the other's.
    """
    before = moves(ctx.scope)
    after = dict(before)
    frames = [Frame("if", ctx.frame, ()), Frame("if", ctx.frame, ())]
    written = [e.then, e.otherwise]
    values: dict[int, Value] = {}
    failed = False
    for place in sorted((0, 1), key=lambda side: is_open_literal(written[side])):
        if failed and is_open_literal(written[place]):
            continue  # its element was to come from the other side
        frame = frames[place]
        frame.tokens.update({f: frame.bring(ctx.frame.tokens[f], ctx.frame) for f in effects})
        try:
            values[place] = expression(ctx.within(frame), written[place], expected)
        except Reject as reject:
            ctx.caught(reject)
            failed = True
        else:
            expected = expectation(values[place].type) or expected
        for binding, now in moves(ctx.scope).items():
            if now[0] is not None:
                after[binding] = now
        restore(before)
    restore(after)
    if failed:
        raise Reject(None)
    return frames, [values[0], values[1]]


def result_span(e: syntax.Expr) -> Span:
    """Return where the value of a branch is written."""
    return e.result.span if isinstance(e, syntax.Block) else e.span
