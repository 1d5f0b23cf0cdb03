"""Names and who may use them: reading, borrowing through `&`, and moving.

A name that is owned is used once: then it is moved. Operators, operations, fields and indices only read, and so does
`&`. What was borrowed from an owned value (a field of it, say) is usable until its owner is moved or changed.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import NoReturn, TypeAlias

from bittern.base.errors import code, nearest
from bittern.lang import syntax
from bittern.lang.builtin_table import BUILTINS
from bittern.lang.context import (
    Context,
    Elaborated,
    Expected,
    Reject,
    expression,
    handles,
    handles_tuples,
    items_expected,
)
from bittern.lang.frame import Binding, Scope
from bittern.lang.generics import need_few
from bittern.lang.source import Span
from bittern.lang.values import Value
from bittern.types.elements import ELEMENTS, Element

TWICE = code("E203", "a name is declared twice")
UNKNOWN_NAME = code("E205", "unknown name")
NOT_A_VALUE = code("E207", "a function or type is used as a value")
USED_AFTER_MOVE = code("E501", "a value is used after it was moved")
BORROWED_AND_MOVED = code("E502", "a value is borrowed and moved in one call")
MOVED_INSIDE = code("E505", "a body moves a value that belongs outside it")
STALE_BORROW = code("E507", "a borrowed value is used after its owner was moved or changed")

Taker: TypeAlias = Callable[[Context, syntax.Expr, Expected], Value]
_REPEATED = ("map", "for", "while", "each")


def find(ctx: Context, name: syntax.Name) -> tuple[Binding, Scope]:
    """Return what a name stands for, or reject it; a poisoned name leaves the statement silently."""
    found = ctx.scope.find(name.name)
    if found is None:
        _reject_unknown(ctx, name)
    binding, home = found
    if binding.value is None:
        raise Reject(None)
    if binding.moved is None:
        return binding, home
    if binding.owner:
        ctx.reject(
            STALE_BORROW,
            name.span,
            f"`{name.name}` was borrowed from `{binding.owner}`, which has been moved or changed since",
            hint=f"use it before, or make a copy when it is taken: `copy({name.name})`",
            notes=((binding.moved, f"`{binding.owner}` is moved or changed here"),),
        )
    ctx.reject(
        USED_AFTER_MOVE,
        name.span,
        f"`{name.name}` was moved and cannot be used again",
        hint="read it before it is moved, lend it through `&`, or use what the call gave back",
        notes=((binding.moved, "moved here"),),
    )


def _reject_unknown(ctx: Context, name: syntax.Name) -> NoReturn:
    word = name.name
    types = [*ELEMENTS, *ctx.generics.elements]
    if word in BUILTINS or word in types or word in ctx.module.names():
        hint = f"call it: `{word}(...)`"
        ctx.reject(NOT_A_VALUE, name.span, f"`{word}` is a type or function, not a value", hint=hint)
    known = [*ctx.scope.visible(), *ctx.generics.dims, *ctx.module.const_names()]
    hint = ctx.library.declaring(word, ctx.module.folder) or nearest(word, known)
    ctx.reject_unknown(UNKNOWN_NAME, name.span, f"unknown name `{word}`", hint)


@handles(syntax.Name)
def name_value(ctx: Context, e: Elaborated, expected: Element | None) -> Value:
    """A local name, a constant of a module, or a dimension as u32. An owned value is moved."""
    assert isinstance(e, syntax.Name)
    outer = _outer_value(ctx, e)
    if outer is not None:
        return outer
    binding, home = find(ctx, e)
    value = ctx.scope.read(binding, home)
    if value.mode == "own":
        move(ctx, e, binding, home)
    return value


def _outer_value(ctx: Context, e: syntax.Name) -> Value | None:
    """Return a dimension as a number, or a constant of a module; None for a local name."""
    if ctx.scope.find(e.name) is not None:
        return None
    size = ctx.generics.dims.get(e.name)
    if size is not None:
        return ctx.value("size", [], e.span, value=size)
    constant = ctx.module.find_const(e.name)
    if constant is None:
        return None
    module, declaration = constant
    return expression(replace(ctx, module=module), declaration)


def move(ctx: Context, name: syntax.Name, binding: Binding, home: Scope) -> None:
    """Mark an owned value as given away, and what was borrowed from it as unusable."""
    repeated = [body for body in ctx.scope.bodies_below(home) if body in _REPEATED]
    if repeated:
        ctx.reject(
            MOVED_INSIDE,
            name.span,
            f"`{name.name}` belongs outside this body, which may run many times",
            hint="read it through `&`, or make a copy" if repeated[0] == "map" else f"carry it: `with {name.name}`",
            notes=((binding.span, "it belongs here"),),
        )
    if binding in ctx.borrowed:
        ctx.reject(
            BORROWED_AND_MOVED,
            name.span,
            f"`{name.name}` is borrowed in this call and cannot be moved in it too",
            hint="make two calls of it",
            notes=((ctx.borrowed[binding], "borrowed here"),),
        )
    binding.moved = name.span
    end_borrows(ctx, name, binding, home)


def end_borrows(ctx: Context, name: syntax.Name, owner: Binding, home: Scope) -> None:
    """Make the names unusable that were borrowed from an owned value which is moved or changed here."""
    assert owner.value is not None
    seen = ctx.scope.read(owner, home)
    spent = {leaf.id for leaf, mode in zip(owner.value.leaves, owner.value.modes, strict=True) if mode == "own"}
    spent |= {leaf.id for leaf, mode in zip(seen.leaves, seen.modes, strict=True) if mode == "own"}
    for other in ctx.scope.bindings():
        if other is owner or other.value is None or other.moved is not None:
            continue
        if any(not mode and leaf.id in spent for leaf, mode in zip(other.value.leaves, other.value.modes, strict=True)):
            other.moved, other.owner = name.span, name.name


def take_value(ctx: Context, e: syntax.Expr, expected: Expected = None) -> Value:
    """Elaborate an expression whose value goes on as it is: a name that is not owned is shared from here."""
    value = expression(ctx, e, expected)
    if isinstance(e, (syntax.Name, syntax.Field)) and value.mode != "own":
        return value.shared()
    return value


def give_value(ctx: Context, e: syntax.Expr, expected: Expected = None) -> Value:
    """Elaborate an expression whose value goes to one owner: a name that nobody else can see is moved too."""
    value = expression(ctx, e, expected)
    if isinstance(e, syntax.Name) and value.mode == "fresh":
        found = ctx.scope.find(e.name)
        if found is not None:
            move(ctx, e, *found)
    return value


def last_value(ctx: Context, e: syntax.Expr, expected: Expected = None) -> Value:
    """Elaborate the result of a block: a name that ends with the block gives its value away."""
    if isinstance(e, syntax.TupleLiteral):
        return _tuple_of(ctx, e, ctx.every(_items(ctx, e, last_value, expected)))
    value = take_value(ctx, e, expected)
    if isinstance(e, syntax.Name):
        found = ctx.scope.find(e.name)
        if found is not None and found[1].frame is ctx.frame and found[0].value is not None:
            return value.marked(found[0].value.modes)
    return value


def read(ctx: Context, e: syntax.Expr, expected: Expected = None) -> Value:
    """Elaborate an expression for reading: a name, or a place in it, is borrowed, not moved."""
    if isinstance(e, syntax.Name) and ctx.scope.find(e.name) is not None:
        return ctx.scope.read(*find(ctx, e)).shared()
    return expression(ctx, e, expected)


def borrow(ctx: Context, e: syntax.Expr) -> None:
    """Note that a call reads an owned name through `&`, so that it cannot be moved in the same call."""
    root = root_name(e)
    found = ctx.scope.find(root.name) if root is not None else None
    if found is not None and found[0].value is not None and found[0].value.mode == "own":
        ctx.borrowed.setdefault(found[0], e.span)


def root_name(e: syntax.Expr) -> syntax.Name | None:
    """Return the name at the root of a place (`cache` in `cache.k[l]`), or None."""
    while isinstance(e, (syntax.Field, syntax.Index)):
        e = e.base
    return e if isinstance(e, syntax.Name) else None


def _items(ctx: Context, e: syntax.TupleLiteral, take: Taker, expected: Expected) -> list[Callable[[], Value]]:
    wanted = items_expected(expected, len(e.items))
    return [partial(take, ctx, item, element) for item, element in zip(e.items, wanted, strict=True)]


@handles_tuples(syntax.TupleLiteral)
def tuple_literal(ctx: Context, e: Elaborated, expected: Expected) -> Value:
    """`(a, b)`."""
    assert isinstance(e, syntax.TupleLiteral)
    return _tuple_of(ctx, e, ctx.every(_items(ctx, e, take_value, expected)))


def _tuple_of(ctx: Context, e: syntax.TupleLiteral, items: Sequence[Value]) -> Value:
    """Return several values as one, or reject it: each `let` may double the parts of the one before."""
    need_few(ctx, sum(len(item.leaves) for item in items), e.span)
    return Value.tuple_of(items)


def need_different(ctx: Context, names: Iterable[syntax.Name]) -> None:
    """Reject names that one pattern or loop gives twice; `_` may stand often."""
    seen: dict[str, Span] = {}
    for name in names:
        if name.name in seen:
            notes = ((seen[name.name], "declared here first"),)
            ctx.reject(TWICE, name.span, f"`{name.name}` is declared twice", notes=notes)
        if name.name != "_":
            seen[name.name] = name.span


def moves(scope: Scope) -> dict[Binding, tuple[Span | None, str]]:
    """Return all bindings in sight with what has been moved; both sides of an `if` start from the same."""
    return {binding: (binding.moved, binding.owner) for binding in scope.bindings()}


def restore(state: dict[Binding, tuple[Span | None, str]]) -> None:
    """Set what has been moved."""
    for binding, (moved, owner) in state.items():
        binding.moved, binding.owner = moved, owner
