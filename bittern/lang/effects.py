"""Effects: each takes the token of its effect and leaves the next one, so that program order is in the graph."""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass

from bittern.base.errors import code, nearest
from bittern.graph.node import Attribute, Node, item
from bittern.lang import syntax
from bittern.lang.builtin_table import Brackets, builtin
from bittern.lang.context import Context
from bittern.lang.generics import need_size
from bittern.lang.op_arguments import arguments, need_no_bracket, op_name
from bittern.lang.operators import operand
from bittern.lang.source import Span
from bittern.lang.values import LangType, Value, leaf_types
from bittern.types.elements import Element
from bittern.types.values import EFFECTS, Tensor

EFFECT_UNDECLARED = code("E602", "an effect that the function's type does not allow")
EFFECT_UNORDERED = code("E604", "an effect in a body whose order is free")
UNKNOWN_EFFECT = code("E605", "unknown effect")

_OPS = {  # name: effect, arguments; `length` is a dimension, the others are bytes
    "read": ("fs", ("path", "length")),
    "write": ("fs", ("path", "data")),
    "send": ("net", ("address", "data")),
    "receive": ("net", ("address", "length")),
    "now": ("clock", ()),
    "entropy": ("random", ("length",)),
}


@builtin(*_OPS)
def effect_op(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    """An op with an effect."""
    need_no_bracket(ctx, e, brackets)
    word = op_name(e)
    effect, names = _OPS[word]
    given = arguments(ctx, e, *names)
    need_effect(ctx, effect, word, e.span)
    inputs = [operand(ctx, given[name]).node for name in names if name != "length"]
    attributes: dict[str, Attribute] = {"length": need_size(ctx, given["length"])} if "length" in names else {}
    made = ctx.op(word, [*inputs, ctx.frame.tokens[effect]], e.span, "", **attributes)
    ctx.frame.tokens[effect] = item(made, 1)
    result = item(made, 0)
    assert isinstance(result.type, Tensor)
    return Value.of(result.type, (result,), "fresh")


def need_effect(ctx: Context, effect: str, word: str, span: Span, declared: Span | None = None) -> None:
    """Reject an effect that this function does not declare, or that has no order here. declared: by the callee."""
    notes = ((declared, "declared here"),) if declared is not None else ()
    if effect not in ctx.effects:
        is_const = bool(ctx.callers) and isinstance(ctx.callers[-1], syntax.ConstDecl)
        owner = "a constant cannot have" if is_const else "this function does not declare"
        ctx.reject(
            EFFECT_UNDECLARED,
            span,
            f"`{word}` has the effect `{effect}`, which {owner}",
            hint="" if is_const else f"write `! {effect}` after the result type of this function",
            notes=notes,
        )
    if effect not in ctx.frame.tokens:
        ctx.reject(
            EFFECT_UNORDERED,
            span,
            f"the effect `{effect}` of `{word}` has no order in a map or in the condition of a `while`",
            hint="write a `for`, whose rounds are in order",
            notes=notes,
        )


def declared_effects(ctx: Context, declaration: syntax.FunctionDecl) -> tuple[str, ...]:
    """Return the effects of a function's type, sorted; unknown ones are rejected."""
    for effect in declaration.effects:
        if effect.name not in EFFECTS:
            hint = nearest(effect.name, list(EFFECTS))
            ctx.reject(UNKNOWN_EFFECT, effect.span, f"unknown effect `{effect.name}`", hint=hint)
    return tuple(sorted({effect.name for effect in declaration.effects}))


def effects_in(ctx: Context, *parts: object) -> list[str]:
    """Return the effects, in sight of this frame, of what syntax trees call; sorted."""
    found: set[str] = set()
    stack = list(parts)
    while stack:
        part = stack.pop()
        if isinstance(part, syntax.Call):
            found |= _effects_of(ctx, part)
        if isinstance(part, tuple):
            stack.extend(part)
        elif is_dataclass(part) and not isinstance(part, (Span, type)):
            stack.extend(getattr(part, each.name) for each in fields(part))
    return sorted(found & ctx.frame.tokens.keys())


def _effects_of(ctx: Context, e: syntax.Call) -> set[str]:
    callee = e.callee.base if isinstance(e.callee, syntax.Index) else e.callee
    if not isinstance(callee, syntax.Name):
        return set()
    if callee.name in _OPS:
        return {_OPS[callee.name][0]}
    members = [member for overloads in ctx.module.find_functions(callee.name) for member in overloads.members]
    return {effect.name for member in members for effect in member.effects}


def take_tokens(ctx: Context, node: Node, type_: LangType, effects: Sequence[str]) -> tuple[Node, ...]:
    """Keep the tokens that a call or body gives back behind its leaves; return the leaves."""
    count = len(leaf_types(type_))
    if not effects:
        return (node,) if count == 1 else tuple(item(node, place) for place in range(count))
    for place, effect in enumerate(effects):
        ctx.frame.tokens[effect] = item(node, count + place)
    return tuple(item(node, place) for place in range(count))
