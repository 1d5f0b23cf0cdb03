"""Overloads: several functions of one name, told apart by the element of the first parameter."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bittern.base.errors import code
from bittern.lang import syntax
from bittern.lang.context import Context
from bittern.lang.generics import WEIGHT
from bittern.lang.library import Module, Overloads, mark
from bittern.lang.source import Span
from bittern.lang.values import LangType, StructType, TupleType, Value, leaf_types, replace_leaves
from bittern.types.elements import ELEMENTS, Element, Kind
from bittern.types.values import Tensor

NO_OVERLOAD = code("E316", "no form of a function fits the first argument")
OVERLOAD_SHAPE = code("E329", "functions of one name have different parameters")


@dataclass(slots=True)
class Chosen:
    """One function with its first argument looked at. is_open: the element is not known yet (generic check)."""

    module: Module
    declaration: syntax.FunctionDecl
    is_open: bool = False


def alike(ctx: Context, found: Sequence[Overloads], span: Span) -> list[Chosen]:
    """Return the functions of one name that may be meant here: all have the same parameters.

    A function of this module hides those of other modules whose parameters differ.
    """
    members = [Chosen(o.module, m) for o in found for m in o.members]
    names = parameter_names(members[0].declaration)
    same = [m for m in members if parameter_names(m.declaration) == names]
    if len(same) < len(members) and found[0].module is not ctx.module:
        other = next(m for m in members if m not in same)
        word = members[0].declaration.name.name
        ctx.reject(
            OVERLOAD_SHAPE,
            span,
            f"`{word}` is declared in two modules with different parameters",
            found=f"`{members[0].module.name}.{word}` and `{other.module.name}.{word}`",
            hint=f"use one of them by name: `use {members[0].module.name}.other_name`",
            notes=tuple((m.declaration.name.span, "declared here") for m in (members[0], other)),
        )
    return same


def parameter_names(declaration: syntax.FunctionDecl) -> list[str]:
    """Return the names of a function's parameters."""
    return [p.name.name for p in declaration.parameters]


def choose(ctx: Context, members: Sequence[Chosen], first: Value, span: Span) -> Chosen:
    """Return the function whose first parameter has the element of the first argument."""
    given = value_mark(first.type)
    for member in members:
        if mark(member.declaration) == given.name:
            return member
    general = next((m for m in members if not mark(m.declaration)), None)
    if general is not None:
        return general
    if given.kind is Kind.OPEN:
        return replace(min(members, key=_likeness), is_open=True)
    name = members[0].declaration.name.name
    known = sorted(mark(m.declaration) for m in members)
    ctx.reject(
        NO_OVERLOAD,
        span,
        f"`{name}` has no form for `{given}`",
        found=ctx.text(first.type),
        expected=" or ".join(f"`{word}`" for word in known),
    )


def _likeness(member: Chosen) -> int:
    """Order overloads by how well they stand for all: best is one whose element is nowhere else in its signature."""
    element = ELEMENTS[mark(member.declaration)]
    return 0 if element.is_format else 1 if element.name != "f32" else 2


def swapped(type_: LangType, old: Element, new: Element) -> LangType:
    """Return a type with an element replaced."""
    if isinstance(type_, TupleType):
        return TupleType(tuple(swapped(item, old, new) for item in type_.items))
    leaves = [Tensor(new if t.element == old else t.element, t.shape, t.space) for t in leaf_types(type_)]
    changed = replace_leaves(type_, leaves)
    if isinstance(changed, StructType):
        return replace(changed, arguments=tuple(new if a == old else a for a in changed.arguments))
    return changed


def value_mark(type_: LangType) -> Element:
    """Return the element by which overloads are chosen: of a struct, its first element argument."""
    if isinstance(type_, StructType):
        element = next((a for a in type_.arguments if isinstance(a, Element)), None)
        if element is not None:
            return element
    leaves = leaf_types(type_)
    return leaves[0].element if leaves else WEIGHT
