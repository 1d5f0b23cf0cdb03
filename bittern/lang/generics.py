"""Type expressions: resolving them, and finding generic arguments from the types of arguments.

Generic arguments come from the arguments, left to right; a dimension written as one name takes what it meets; a product
with one unknown factor, or its quotient by a number, is solved where that is exact. What stays open must be given in
brackets.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bittern.base.errors import code, nearest
from bittern.lang import syntax
from bittern.lang.context import Context, Generics
from bittern.lang.values import ListType, LangType, ManyType, StructType, TupleType, many
from bittern.types.dims import ZERO, Dim, dim
from bittern.types.elements import ELEMENTS, Element, Kind, open_element
from bittern.types.values import SPACES, Tensor

UNKNOWN_TYPE = code("E201", "unknown type")
UNKNOWN_DIM = code("E403", "not a dimension")
GENERIC_COUNT = code("E304", "wrong number of generic arguments")
GENERIC_OPEN = code("E305", "a generic argument cannot be found from the arguments")
GENERIC_KIND = code("E306", "a generic argument is of the wrong kind")
NOT_PROVEN = code("E405", "a condition on dimensions does not hold or cannot be shown")
UNKNOWN_SPACE = code("E603", "unknown memory space")

WEIGHT = open_element("weight", "format")
_KINDS = ("type", "int", "float", "format")


@dataclass(slots=True)
class Formats:
    """Gives the elements of `weight` leaves in order; without any left, the open format."""

    known: Iterator[Element] = field(default_factory=lambda: iter(()))

    def next(self) -> Element:
        """Return the next weight's element."""
        return next(self.known, WEIGHT)


def dim_of(ctx: Context, e: syntax.Expr) -> Dim | None:
    """Return an expression as a dimension of this function, or None if it holds anything else."""
    if isinstance(e, syntax.Number):
        return None if e.is_real or e.suffix else dim(int(e.text, 0))
    if isinstance(e, syntax.Name):
        found = ctx.scope.find(e.name)
        return ctx.generics.dims.get(e.name) if found is None else None
    if isinstance(e, syntax.Binary) and e.operator in ("+", "-", "*", "/", "%"):
        left, right = dim_of(ctx, e.left), dim_of(ctx, e.right)
        if left is None or right is None:
            return None
        return ctx.generics.normal(_COMBINE[e.operator](left, right))
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
    if found is None:
        word = f"`{e.name}`" if isinstance(e, syntax.Name) else "this expression"
        hint = nearest(e.name, sorted(ctx.generics.dims)) if isinstance(e, syntax.Name) else ""
        ctx.reject(
            UNKNOWN_DIM,
            e.span,
            f"{word} is not a dimension",
            expected="numbers and dimension parameters joined by + - * / %",
            hint=hint,
        )
    return found


def resolve(ctx: Context, t: syntax.TypeExpr, formats: Formats | None = None) -> LangType:
    """Return what a type expression means under the context's generic arguments."""
    formats = formats or Formats()
    if isinstance(t, syntax.TupleType):
        return TupleType(tuple(resolve(ctx, item, formats) for item in t.items))
    name = t.name.name
    if name == "weight" or name in ctx.generics.elements or name in ELEMENTS:
        element = formats.next() if name == "weight" else ctx.generics.elements.get(name) or ELEMENTS[name]
        shape = tuple(need_dim(ctx, a) for a in t.arguments)
        if t.space is not None and t.space.name not in SPACES:
            ctx.reject(
                UNKNOWN_SPACE, t.space.span, f"unknown space `{t.space.name}`", hint=nearest(t.space.name, list(SPACES))
            )
        return Tensor(element, shape, t.space.name if t.space else None)
    if name in ("list", "many"):
        return _resolve_sequence(ctx, t, formats)
    declared = ctx.module.find_struct(name)
    if declared is None:
        known = [*ELEMENTS, *ctx.generics.elements, "weight", "list", "many", *ctx.module.struct_names()]
        ctx.reject(UNKNOWN_TYPE, t.name.span, f"unknown type `{name}`", hint=nearest(name, known))
    module, struct = declared
    inner = struct_generics(ctx, struct, t.arguments, t.span)
    return make_struct(ctx, module, struct, inner, formats)


def make_struct(
    ctx: Context, module: object, struct: syntax.StructDecl, inner: Generics, formats: Formats | None = None
) -> StructType:
    """Return a struct's type for known generic arguments."""
    from dataclasses import replace

    from bittern.lang.library import Module

    assert isinstance(module, Module)
    arguments = tuple(
        inner.elements[g.name.name] if g.kind else inner.dims[g.name.name] for g in struct.generics
    )
    there = replace(ctx, module=module, generics=inner, scope=type(ctx.scope)(ctx.frame))
    formats = formats or Formats()
    fields = tuple((f.name.name, resolve(there, f.type, formats)) for f in struct.fields)
    return StructType(f"{module.name}.{struct.name.name}", arguments, fields)


def struct_generics(
    ctx: Context, struct: syntax.StructDecl, arguments: tuple[syntax.Expr, ...], span: object
) -> Generics:
    """Return the generic arguments of a struct as written in brackets."""
    if len(arguments) != len(struct.generics):
        ctx.reject(
            GENERIC_COUNT,
            arguments[0].span.to(arguments[-1].span) if arguments else struct.name.span,
            f"`{struct.name.name}` takes {len(struct.generics)} generic arguments",
            found=str(len(arguments)),
            expected=", ".join(g.name.name for g in struct.generics),
        )
    inner = Generics(facts=ctx.generics.facts)
    for generic, argument in zip(struct.generics, arguments, strict=True):
        if generic.kind:
            inner.elements[generic.name.name] = element_of(ctx, argument)
        else:
            inner.dims[generic.name.name] = need_dim(ctx, argument)
    return inner


def element_of(ctx: Context, e: syntax.Expr) -> Element:
    """Return an expression as an element type, or reject it by name."""
    if isinstance(e, syntax.Name):
        found = ctx.generics.elements.get(e.name) or ELEMENTS.get(e.name)
        if found is not None:
            return found
        ctx.reject(
            UNKNOWN_TYPE,
            e.span,
            f"unknown element type `{e.name}`",
            hint=nearest(e.name, [*ELEMENTS, *ctx.generics.elements]),
        )
    ctx.reject(GENERIC_KIND, e.span, "an element type is expected here", expected="a name such as `f32`")


def as_type(ctx: Context, e: syntax.Expr) -> syntax.TypeExpr:
    """Return an expression in a type's brackets as the type that it spells (`Layer[d, ff]`)."""
    if isinstance(e, syntax.Name):
        return syntax.NamedType(e.span, "", e, (), None)
    if isinstance(e, syntax.Index) and isinstance(e.base, syntax.Name):
        return syntax.NamedType(e.span, "", e.base, tuple(i.low for i in e.items), None)
    ctx.reject(GENERIC_KIND, e.span, "a type is expected here", expected="a name, with its arguments in brackets")


def _resolve_sequence(ctx: Context, t: syntax.NamedType, formats: Formats) -> LangType:
    name = t.name.name
    if len(t.arguments) != 2:
        ctx.reject(GENERIC_COUNT, t.span, f"`{name}` takes a type and a length", expected=f"`{name}[Layer[d], n]`")
    inner, length = as_type(ctx, t.arguments[0]), need_dim(ctx, t.arguments[1])
    if name == "many":
        item = resolve(ctx, inner, formats)
        if isinstance(item, ListType):
            ctx.reject(GENERIC_KIND, t.span, "an array of lists is not a type")
        return many(item, length)
    count = length.constant
    if count is None:
        return ListType(resolve(ctx, inner, formats), length)
    items = tuple(resolve(ctx, inner, formats) for _ in range(count))
    return ListType(items[0] if items else resolve(ctx, inner), length, items)


@dataclass(slots=True)
class Solver:
    """Finds generic arguments of one call. bound: what is known so far, in the caller's symbols."""

    declared: tuple[syntax.Generic, ...]
    bound: Generics
    later: list[tuple[syntax.Expr, Dim]] = field(default_factory=list)

    def kind(self, name: str) -> str | None:
        """Return the kind of a generic parameter ('' for a dimension), or None for other names."""
        return next((g.kind for g in self.declared if g.name.name == name), None)

    def meet(self, t: syntax.TypeExpr, actual: LangType, ctx: Context) -> None:
        """Learn from one parameter's type expression and the argument's type; mismatches are found afterwards."""
        if isinstance(t, syntax.TupleType):
            if isinstance(actual, TupleType) and len(actual.items) == len(t.items):
                for part, item in zip(t.items, actual.items, strict=True):
                    self.meet(part, item, ctx)
            return
        name = t.name.name
        if name in ("list", "many") and len(t.arguments) == 2:
            self._meet_sequence(name, t, actual, ctx)
        elif isinstance(actual, Tensor):
            if self.kind(name) in _KINDS:
                self.bound.elements.setdefault(name, actual.element)
            if len(t.arguments) == len(actual.shape):
                for argument, size in zip(t.arguments, actual.shape, strict=True):
                    self.meet_dim(argument, size)
        elif isinstance(actual, StructType) and len(t.arguments) == len(actual.arguments):
            for argument, value in zip(t.arguments, actual.arguments, strict=True):
                if isinstance(value, Dim):
                    self.meet_dim(argument, value)
                elif isinstance(argument, syntax.Name) and self.kind(argument.name) in _KINDS:
                    self.bound.elements.setdefault(argument.name, value)

    def _meet_sequence(self, name: str, t: syntax.NamedType, actual: LangType, ctx: Context) -> None:
        if name == "list" and isinstance(actual, ListType):
            self.meet(as_type(ctx, t.arguments[0]), actual.item, ctx)
            self.meet_dim(t.arguments[1], actual.length)
        elif name == "many" and isinstance(actual, ManyType):
            self.meet(as_type(ctx, t.arguments[0]), actual.item, ctx)
            self.meet_dim(t.arguments[1], actual.count)

    def meet_dim(self, e: syntax.Expr, size: Dim) -> None:
        """Learn from one dimension expression and the size it meets."""
        if isinstance(e, syntax.Name) and self.kind(e.name) == "":
            self.bound.dims.setdefault(e.name, size)
        else:
            self.later.append((e, size))

    def solve(self) -> list[syntax.Generic]:
        """Solve products and exact quotients with one unknown; return the parameters that stay open."""
        while any(self._solve_one(e, size) for e, size in self.later):
            pass
        return [
            g for g in self.declared if g.name.name not in (self.bound.elements if g.kind else self.bound.dims)
        ]

    def _solve_one(self, e: syntax.Expr, size: Dim) -> bool:
        unknown = self._unknown(e)
        if len(unknown) != 1:
            return False
        divisor = dim(1)
        if isinstance(e, syntax.Binary) and e.operator == "/" and isinstance(e.right, syntax.Number):
            divisor, e = dim(int(e.right.text, 0)), e.left
        factor = self._factor(e, unknown[0])
        if factor is None or factor == ZERO or (size * divisor) % factor != ZERO:
            return False
        self.bound.dims[unknown[0]] = size * divisor // factor
        return True

    def _unknown(self, e: syntax.Expr) -> list[str]:
        if isinstance(e, syntax.Name):
            return [e.name] if self.kind(e.name) == "" and e.name not in self.bound.dims else []
        if isinstance(e, syntax.Binary):
            return self._unknown(e.left) + self._unknown(e.right)
        return []

    def _factor(self, e: syntax.Expr, name: str) -> Dim | None:
        """Return f with e == f * name, or None."""
        if isinstance(e, syntax.Name):
            return dim(1) if e.name == name else self.bound.dims.get(e.name)
        if isinstance(e, syntax.Number):
            return None if e.is_real else dim(int(e.text, 0))
        if isinstance(e, syntax.Binary) and e.operator == "*":
            left, right = self._factor(e.left, name), self._factor(e.right, name)
            return None if left is None or right is None else left * right
        return None


def prove(ctx: Context, condition: tuple[str, Dim, Dim]) -> bool | None:
    """Whether a condition on dimensions holds: True, False, or None where it cannot be told."""
    operator, left, right = condition
    left, right = ctx.generics.normal(left), ctx.generics.normal(right)
    if condition in ctx.generics.relations or (operator, left, right) in ctx.generics.relations:
        return True
    if operator == "==" and left == right:
        return True
    difference = (left - right).constant
    if difference is None:
        return None
    return {
        "==": difference == 0,
        "!=": difference != 0,
        "<": difference < 0,
        "<=": difference <= 0,
        ">": difference > 0,
        ">=": difference >= 0,
    }[operator]


def condition_of(ctx: Context, e: syntax.Expr) -> tuple[str, Dim, Dim]:
    """Return a `where` clause as (operator, left, right)."""
    if not isinstance(e, syntax.Binary) or e.operator not in ("==", "!=", "<", "<=", ">", ">="):
        ctx.reject(
            UNKNOWN_DIM, e.span, "a `where` clause compares two dimensions", expected="such as `n % 32 == 0` or `m <= n`"
        )
    return e.operator, need_dim(ctx, e.left), need_dim(ctx, e.right)


def open_generics(declared: tuple[syntax.Generic, ...]) -> dict[str, Element]:
    """Return stand-ins for the element parameters of a function that is checked for all arguments."""
    return {g.name.name: open_element(g.name.name, g.kind) for g in declared if g.kind in _KINDS}


def fits_kind(element: Element, kind: str) -> bool:
    """Whether an element may be the argument of a parameter of this kind."""
    if element.kind is Kind.OPEN:
        given = element.name.partition(":")[2]
        return kind == "type" or given == kind
    return {
        "type": True,
        "int": element.is_integer,
        "float": element.is_float,
        "format": element.is_format or element.is_float,
    }[kind]
