"""Type expressions and dimensions: what they mean under the generic arguments of a function."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bittern.base.errors import code, nearest
from bittern.lang import syntax
from bittern.lang.context import DIM_TOO_LARGE, Context, Generics
from bittern.lang.frame import Scope
from bittern.lang.literals import number_value
from bittern.lang.source import Span
from bittern.lang.values import (
    LangType,
    ListType,
    StructType,
    TupleType,
    leaf_types,
    many,
    replace_leaves,
)
from bittern.types.dims import Dim, DimTooLargeError, dim
from bittern.types.elements import ELEMENTS, TYPE_NAMES, Element, Kind, open_element
from bittern.types.faults import RANK_UNFIT
from bittern.types.values import SPACES, Tensor

if TYPE_CHECKING:
    from bittern.lang.library import Module

UNKNOWN_TYPE = code("E201", "unknown type")
RECURSIVE = code("E210", "a function, struct or constant is made of itself")
GENERIC_COUNT = code("E304", "wrong number of generic arguments")
GENERIC_KIND = code("E306", "a generic argument is of the wrong kind")
UNKNOWN_DIM = code("E403", "not a dimension")
TOO_LARGE = code("E214", "a type has too many parts")
MISPLACED_MODE = code("E508", "`own` or `&` stands where nothing is passed")
UNKNOWN_SPACE = code("E603", "unknown memory space")

WEIGHT = open_element("weight", "format")
SEQUENCES = ("list", "many")
_MOST_LEAVES = 1 << 16
_KINDS = ("type", "int", "float", "format")


@dataclass(slots=True)
class Formats:
    """Gives the elements of `weight` leaves in order; without any left, the open format. asked: how often it was."""

    known: Iterator[Element] = field(default_factory=lambda: iter(()))
    asked: int = 0

    def next(self) -> Element:
        """Return the next weight's element."""
        self.asked += 1
        return next(self.known, WEIGHT)


# --- dimensions


def dim_of(ctx: Context, e: syntax.Expr) -> Dim | None:
    """Return an expression as a dimension of this function, or None if it holds anything else."""
    if isinstance(e, syntax.Number):
        return None if e.is_real or e.suffix else dim(int(number_value(e.text)))
    if isinstance(e, syntax.Name):
        return ctx.generics.dims.get(e.name) if ctx.scope.find(e.name) is None else None
    if isinstance(e, syntax.Binary) and e.operator in _COMBINE:
        left, right = dim_of(ctx, e.left), dim_of(ctx, e.right)
        if left is None or right is None:
            return None
        try:
            return ctx.generics.normal(_COMBINE[e.operator](left, right))
        except DimTooLargeError as fault:
            ctx.reject(DIM_TOO_LARGE, e.span, "the dimension is too large to be compared with others", found=str(fault))
    return None


_COMBINE = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}


def need_dim(ctx: Context, e: syntax.Expr) -> Dim:
    """Return an expression as a dimension, or reject it by name."""
    found = dim_of(ctx, e)
    if found is not None:
        return found
    name = first_name(ctx, e)
    local = ctx.scope.find(name.name) if name is not None else None
    if name is None:
        word, hint = "this expression", ""
    elif local is not None:
        word, hint = f"`{name.name}`", "a value is known only when the program runs; a generic parameter is a dimension"
    else:
        word, hint = f"`{name.name}`", nearest(name.name, sorted(ctx.generics.dims))
    ctx.reject(
        UNKNOWN_DIM,
        name.span if name is not None else e.span,
        f"{word} is not a dimension",
        expected="numbers and dimension parameters joined by + - * / %",
        hint=hint,
    )


def first_name(ctx: Context, e: syntax.Expr) -> syntax.Name | None:
    """Return the first name in an arithmetic expression that is no dimension, or None."""
    if isinstance(e, syntax.Binary) and e.operator in _COMBINE:
        return next((name for name in (first_name(ctx, e.left), first_name(ctx, e.right)) if name is not None), None)
    return e if isinstance(e, syntax.Name) and dim_of(ctx, e) is None else None


def need_size(ctx: Context, e: syntax.Expr) -> Dim:
    """Return an expression as the size of an axis: a dimension that is not a negative number."""
    size = need_dim(ctx, e)
    if size.constant is not None and size.constant < 0:
        ctx.reject(UNKNOWN_DIM, e.span, "a size is not negative", found=str(size.constant), expected="0 or more")
    return size


# --- types


def resolve(ctx: Context, t: syntax.TypeExpr, formats: Formats | None = None) -> LangType:
    """Return what a type expression means under the context's generic arguments."""
    formats = formats or Formats()
    if isinstance(t, syntax.TupleType):
        return TupleType(tuple(resolve(ctx, item, formats) for item in t.items))
    space = _space_of(ctx, t)
    name = t.name.name
    element = ctx.generics.elements.get(name) or ELEMENTS.get(name)
    if name == "weight" or element is not None:
        element = formats.next() if name == "weight" else element
        assert element is not None
        shape = tuple(need_size(ctx, a) for a in t.arguments)
        if element.is_format and not shape:
            ctx.reject(RANK_UNFIT, t.span, f"`{name}` is an array of blocks", expected=f"`{name}[rows, columns]`")
        return Tensor(element, shape, space)
    found = _resolve_sequence(ctx, t, formats) if name in SEQUENCES else _resolve_struct(ctx, t, formats)
    if space is None:
        return found
    return replace_leaves(found, [Tensor(leaf.element, leaf.shape, leaf.space or space) for leaf in leaf_types(found)])


def _space_of(ctx: Context, t: syntax.NamedType) -> str | None:
    if t.space is None:
        return None
    if t.space.name not in SPACES:
        hint = nearest(t.space.name, list(SPACES))
        ctx.reject(UNKNOWN_SPACE, t.space.span, f"unknown memory space `{t.space.name}`", hint=hint)
    return t.space.name


def _resolve_struct(ctx: Context, t: syntax.NamedType, formats: Formats) -> LangType:
    name = t.name.name
    declared = ctx.module.find_struct(name)
    if declared is None:
        known = [*ELEMENTS, *ctx.generics.elements, "weight", *SEQUENCES, *ctx.module.struct_names()]
        hint = ctx.library.declaring(name, ctx.module.folder) or nearest(name, known)
        if name in ctx.generics.dims:
            hint = f"`{name}` is a dimension; a type parameter is written `{name}: type`"
        ctx.reject_unknown(UNKNOWN_TYPE, t.name.span, f"unknown type `{name}`", hint)
    module, struct = declared
    return make_struct(ctx, module, struct, struct_generics(ctx, struct, t), formats, t.span)


def make_struct(
    ctx: Context,
    module: "Module",
    struct: syntax.StructDecl,
    inner: Generics,
    formats: Formats | None = None,
    span: Span | None = None,
) -> StructType:
    """Return a struct's type for known generic arguments. span: where the program writes the type."""
    hint = "a struct holds its fields whole, so it cannot hold itself"
    need_no_cycle(ctx, struct, struct.name.span if span is None else span, hint)
    arguments = tuple(inner.elements[g.name.name] if g.kind else inner.dims[g.name.name] for g in struct.generics)
    callers = (*ctx.callers, struct)
    there = replace(ctx, module=module, generics=inner, scope=Scope(ctx.frame), callers=callers)
    formats = formats or Formats()
    key, before = ("struct", id(struct), arguments, inner.facts), formats.asked
    where = struct.name.span if span is None else span
    known = ctx.library.instances.get(key)
    if isinstance(known, StructType):
        return known
    if isinstance(known, int):
        need_few(ctx, known, where)
    fields = tuple((f.name.name, resolve(there, f.type, formats)) for f in struct.fields)
    count = sum(len(leaf_types(type_)) for _, type_ in fields)
    if count > _MOST_LEAVES:
        ctx.library.instances[key] = count
    need_few(ctx, count, where)
    made = StructType(f"{module.name}.{struct.name.name}", arguments, fields)
    if formats.asked == before:  # made once if it holds no weights: their formats differ from place to place
        ctx.library.instances[key] = made
    return made


def need_no_cycle(ctx: Context, declaration: syntax.Declared, span: Span, hint: str = "") -> None:
    """Reject a declaration that is being elaborated already: it would be made of itself."""
    if not ctx.is_caller(declaration):
        return
    place = next(i for i, caller in enumerate(ctx.callers) if caller is declaration)
    between = [f"`{caller.name.name}`" for caller in ctx.callers[place + 1 :]]
    way = f" through {', '.join(between)}" if between else ""
    verb = "calls" if isinstance(declaration, syntax.FunctionDecl) else "contains"
    ctx.reject(RECURSIVE, span, f"`{declaration.name.name}` {verb} itself{way}", hint=hint)


def struct_generics(ctx: Context, struct: syntax.StructDecl, t: syntax.NamedType) -> Generics:
    """Return the generic arguments of a struct as a type writes them in brackets."""
    arguments = t.arguments
    if len(arguments) != len(struct.generics):
        ctx.reject(
            GENERIC_COUNT,
            t.span,
            f"`{struct.name.name}` takes {counted(len(struct.generics), 'generic argument')}",
            found=str(len(arguments)),
            expected=", ".join(g.name.name for g in struct.generics) or "none",
        )
    inner = Generics(facts=ctx.generics.facts)
    for generic, argument in zip(struct.generics, arguments, strict=True):
        if generic.kind:
            inner.elements[generic.name.name] = element_argument(ctx, argument, generic.kind)
        else:
            inner.dims[generic.name.name] = need_size(ctx, argument)
    return inner


def need_few(ctx: Context, count: int, span: Span) -> None:
    """Reject a type of more leaves than a program can be elaborated for."""
    if count > _MOST_LEAVES:
        expected = f"at most {_MOST_LEAVES} arrays and numbers in all"
        ctx.reject(TOO_LARGE, span, "the type has too many parts", found=str(count), expected=expected)


def counted(count: int, what: str) -> str:
    """Return `1 argument` or `2 arguments`."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def element_argument(ctx: Context, e: syntax.Expr, kind: str) -> Element:
    """Return a generic argument of a kind as an element, or reject it."""
    element = element_of(ctx, e)
    if not fits_kind(element, kind):
        article = "an" if kind == "int" else "a"
        ctx.reject(GENERIC_KIND, e.span, f"`{element}` is not {article} {kind} type", expected=KIND_TEXT[kind])
    return element


KIND_TEXT = {
    "type": "an element type",
    "int": "an integer type, such as `i32`",
    "float": "a float type, such as `f32`",
    "format": "a float type or a block format, such as `q8_0`",
}


def element_of(ctx: Context, e: syntax.Expr) -> Element:
    """Return an expression as an element type, or reject it by name."""
    if isinstance(e, syntax.Name):
        found = ctx.generics.elements.get(e.name) or ELEMENTS.get(e.name)
        if found is not None:
            return found
        hint = nearest(e.name, [*ELEMENTS, *ctx.generics.elements])
        ctx.reject(UNKNOWN_TYPE, e.span, f"unknown element type `{e.name}`", expected=TYPE_NAMES, hint=hint)
    ctx.reject(GENERIC_KIND, e.span, "an element type is expected here", expected="a name such as `f32`")


def as_type(ctx: Context, e: syntax.Expr) -> syntax.TypeExpr:
    """Return an expression in a type's brackets as the type that it spells (`Layer[d, ff]`)."""
    if isinstance(e, syntax.Name):
        return syntax.NamedType(e.span, "", e, (), None)
    if isinstance(e, syntax.Index) and isinstance(e.base, syntax.Name) and all(i.high is None for i in e.items):
        return syntax.NamedType(e.span, "", e.base, tuple(i.low for i in e.items), None)
    ctx.reject(GENERIC_KIND, e.span, "a type is expected here", expected="a name, with its arguments in brackets")


def _resolve_sequence(ctx: Context, t: syntax.NamedType, formats: Formats) -> LangType:
    name = t.name.name
    if len(t.arguments) != 2:
        found = str(len(t.arguments))
        ctx.reject(
            GENERIC_COUNT, t.span, f"`{name}` takes a type and a length", found=found, expected=f"`{name}[T, n]`"
        )
    inner, length = as_type(ctx, t.arguments[0]), need_size(ctx, t.arguments[1])
    count = length.constant
    if name == "list" and count:
        need_few(ctx, count * len(leaf_types(resolve(ctx, inner))), t.span)
        items = tuple(resolve(ctx, inner, formats) for _ in range(count))
        return ListType(items[0], length, items)
    item = resolve(ctx, inner, formats if name == "many" else None)
    if name == "many":
        if isinstance(item, ListType):
            ctx.reject(GENERIC_KIND, t.arguments[0].span, "an array of lists is not a type")
        return many(item, length)
    return ListType(item, length, () if count == 0 else None)


# --- modes


def modes_of(t: syntax.TypeExpr, type_: LangType) -> tuple[str, ...]:
    """Return for each leaf of a parameter or result whether it is written with `own` or `&`."""
    if isinstance(t, syntax.TupleType) and not t.mode and isinstance(type_, TupleType):
        return tuple(mode for part, item in zip(t.items, type_.items, strict=True) for mode in modes_of(part, item))
    return (t.mode,) * len(leaf_types(type_))


def need_modes(ctx: Context, t: syntax.TypeExpr, allowed: Sequence[str], where: str) -> None:
    """Reject `own` or `&` where a type does not say how a value is passed. where: `a field`, for instance."""
    if t.mode and t.mode not in allowed:
        ctx.reject(
            MISPLACED_MODE,
            t.span,
            f"`{t.mode}` does not belong in the type of {where}",
            hint=f"take the `{t.mode}` away",
        )
    if isinstance(t, syntax.TupleType):
        for item in t.items:
            need_modes(ctx, item, allowed, where)


# --- kinds


def open_generics(declared: tuple[syntax.Generic, ...]) -> dict[str, Element]:
    """Return stand-ins for the element parameters of a function that is checked for all arguments."""
    return {g.name.name: open_element(g.name.name, g.kind) for g in declared if g.kind in _KINDS}


def is_kind(kind: str | None) -> bool:
    """Whether a generic parameter of this kind stands for an element."""
    return kind in _KINDS


def fits_kind(element: Element, kind: str) -> bool:
    """Whether an element may be the argument of a parameter of this kind."""
    if element.kind is Kind.OPEN:
        given = element.name.partition(":")[2]
        return kind in ("type", given) or (kind, given) == ("format", "float")
    return {
        "type": True,
        "int": element.is_integer,
        "float": element.is_float,
        "format": element.is_format or element.is_float,
    }[kind]
