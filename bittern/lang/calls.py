"""Calls: conversions, ops, struct values, functions with generic arguments and overloads, inlining, effects."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bittern.base.errors import code, nearest
from bittern.graph.node import Node, call, item
from bittern.lang import syntax
from bittern.lang.builtins import BUILTINS, IDEAL, convert
from bittern.lang.context import Context, Generics, expression, handles, placeholder
from bittern.lang.terms import (
    broadcast,
    is_open_literal,
    read,
    take_value,
    unpack_result,
)
from bittern.lang.frame import Scope
from bittern.lang.generics import (
    GENERIC_COUNT,
    GENERIC_KIND,
    GENERIC_OPEN,
    NOT_PROVEN,
    WEIGHT,
    Formats,
    Solver,
    condition_of,
    element_of,
    fits_kind,
    make_struct,
    need_dim,
    prove,
    resolve,
)
from bittern.lang.library import Module, Overloads, mark
from bittern.lang.source import Span
from bittern.lang.values import (
    LangType,
    StructType,
    TupleType,
    Value,
    is_same,
    leaf_types,
    replace_leaves,
    substitute_type,
)
from bittern.types.elements import ELEMENTS, Element, Kind
from bittern.types.faults import ELEMENT_MISMATCH, SHAPE_MISMATCH
from bittern.types.values import Tensor

UNKNOWN_FUNCTION = code("E208", "unknown function")
NOT_CALLABLE = code("E209", "a value is called")
RECURSIVE = code("E210", "a function calls itself")
ARGUMENT_COUNT = code("E313", "wrong number of arguments")
ARGUMENT_TYPE = code("E314", "an argument has the wrong type")
ARGUMENT_NAME = code("E315", "no parameter or field of this name, or given twice")
NO_OVERLOAD = code("E316", "no form of a function fits the first argument")
NOT_OWNED = code("E503", "an owned value is needed")
EFFECT_UNDECLARED = code("E602", "an effect that the function's type does not allow")
EFFECT_IN_MAP = code("E604", "an effect in a body whose order is free")


@handles(syntax.Call)
def call_expression(ctx: Context, e: syntax.Expr, expected: Element | None) -> Value:
    """Elaborate `callee[generics](arguments)` by what the callee names."""
    assert isinstance(e, syntax.Call)
    outer = dict(ctx.borrowed)
    try:
        return _call(ctx, e, expected)
    finally:
        ctx.borrowed.clear()
        ctx.borrowed.update(outer)


def _call(ctx: Context, e: syntax.Call, expected: Element | None) -> Value:
    name, brackets = _callee(ctx, e.callee)
    word = name.name
    if ctx.scope.find(word) is not None:
        ctx.reject(NOT_CALLABLE, name.span, f"`{word}` is a value, not a function")
    if ctx.ideal and word in IDEAL:
        return IDEAL[word](ctx, e, brackets, expected)
    element = ctx.generics.elements.get(word) or ELEMENTS.get(word)
    if element is not None:
        return convert(ctx, e, element)
    if word in BUILTINS:
        return BUILTINS[word](ctx, e, brackets, expected)
    struct = ctx.module.find_struct(word)
    if struct is not None:
        return make_struct_value(ctx, e, brackets, *struct)
    found = ctx.module.find_functions(word)
    if not found:
        known = [*ctx.module.function_names(), *BUILTINS, *ELEMENTS]
        ctx.reject(UNKNOWN_FUNCTION, name.span, f"unknown function `{word}`", hint=nearest(word, known))
    return call_function(ctx, e, brackets, found)


def _callee(ctx: Context, e: syntax.Expr) -> tuple[syntax.Name, tuple[syntax.Expr, ...]]:
    if isinstance(e, syntax.Name):
        return e, ()
    if isinstance(e, syntax.Index) and isinstance(e.base, syntax.Name) and all(i.high is None for i in e.items):
        return e.base, tuple(i.low for i in e.items)
    ctx.reject(NOT_CALLABLE, e.span, "only a named function can be called")


# --- struct values


def make_struct_value(
    ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], module: Module, struct: syntax.StructDecl
) -> Value:
    """`Act(q: codes, d: scales)`: every field once, by name or in order."""
    given = _by_name(ctx, e, [f.name.name for f in struct.fields], struct.name.name)
    solver = Solver(struct.generics, _explicit(ctx, brackets, struct.generics, struct.name.name, e.span))
    there = replace(ctx, module=module)
    values: dict[str, Value] = {}
    for late in (False, True):
        for field in struct.fields:
            argument = given[field.name.name]
            if is_open_literal(argument.value) == late:
                element = _declared_element(field.type, solver.bound)
                values[field.name.name] = take_value(ctx, argument.value, element)
                solver.meet(field.type, values[field.name.name].type, there)
    _require_solved(ctx, solver, e.span, struct.name.name)
    type_ = make_struct(ctx, module, struct, _with_facts(solver.bound, ctx), None)
    leaves: list[Node] = []
    for name, declared in type_.fields:
        argument = given[name]
        value = fit(ctx, values[name], declared, argument.span, f"field `{name}`")
        leaves.extend(value.leaves)
    fields = tuple((f.name.name, _keep_formats(t, values[f.name.name].type)) for f, (_, t) in zip(struct.fields, type_.fields, strict=True))
    mode = "own" if any(v.mode == "own" for v in values.values()) else "fresh"
    return Value(StructType(type_.name, type_.arguments, fields), tuple(leaves), mode)


def _keep_formats(declared: LangType, actual: LangType) -> LangType:
    return actual if any(leaf.element == WEIGHT for leaf in leaf_types(declared)) else declared


def _by_name(ctx: Context, e: syntax.Call, names: Sequence[str], what: str) -> dict[str, syntax.Argument]:
    given: dict[str, syntax.Argument] = {}
    for position, argument in enumerate(e.arguments):
        if argument.label is None and position >= len(names):
            break
        name = argument.label.name if argument.label else names[position]
        if name not in names or name in given:
            ctx.reject(
                ARGUMENT_NAME,
                argument.label.span if argument.label else argument.span,
                f"`{what}` has no `{name}`" if name not in names else f"`{name}` is given twice",
                hint=nearest(name, [n for n in names if n not in given]),
            )
        given[name] = argument
    if len(given) != len(names) or len(e.arguments) > len(names):
        missing = ", ".join(f"`{n}`" for n in names if n not in given)
        ctx.reject(
            ARGUMENT_COUNT,
            e.span,
            f"`{what}` takes {len(names)} arguments, {len(e.arguments)} are given",
            expected=", ".join(names),
            hint=f"missing: {missing}" if missing else "",
        )
    return given


# --- functions


@dataclass(slots=True)
class Chosen:
    """One function with its first argument looked at. is_open: the element is not known yet (generic check)."""

    module: Module
    declaration: syntax.FunctionDecl
    is_open: bool = False


def call_function(
    ctx: Context, e: syntax.Call, brackets: tuple[syntax.Expr, ...], found: Sequence[Overloads]
) -> Value:
    """Call a function of the library or of this program: find generics, check, then inline it or make a call node."""
    sample = found[0].members[0]
    names = [p.name.name for p in sample.parameters]
    given = _by_name(ctx, e, names, sample.name.name)
    values: dict[str, Value] = {}
    chosen: Chosen | None = None
    if sum(len(o.members) for o in found) == 1:
        chosen = Chosen(found[0].module, sample)
    else:
        first = argument_value(ctx, given[names[0]], sample.parameters[0].type, None)
        values[names[0]] = first
        chosen = choose_overload(ctx, found, first, given[names[0]].span)
    declaration = chosen.declaration
    solver = Solver(declaration.generics, _explicit(ctx, brackets, declaration.generics, declaration.name.name, e.span))
    there = replace(ctx, module=chosen.module)
    if names and names[0] in values:
        solver.meet(declaration.parameters[0].type, values[names[0]].type, there)
    for late in (False, True):
        for parameter in declaration.parameters:
            argument = given[parameter.name.name]
            if parameter.name.name in values or is_open_literal(argument.value) != late:
                continue
            value = argument_value(ctx, argument, parameter.type, _declared_element(parameter.type, solver.bound))
            values[parameter.name.name] = value
            solver.meet(parameter.type, value.type, there)
    if chosen.is_open:
        _forget_mark(solver, declaration)
    _require_solved(ctx, solver, e.span, declaration.name.name)
    return apply(ctx, chosen, solver.bound, [values[n] for n in names], [given[n] for n in names], e.span)


def _forget_mark(solver: Solver, declaration: syntax.FunctionDecl) -> None:
    """In an open overload the first member stands for all; its element arguments are whatever was met."""
    for generic in declaration.generics:
        if generic.kind and generic.name.name not in solver.bound.elements:
            solver.bound.elements[generic.name.name] = WEIGHT


def argument_value(
    ctx: Context, argument: syntax.Argument, declared: syntax.TypeExpr, element: Element | None
) -> Value:
    """Elaborate an argument: owned parameters take the value, all others read it."""
    if declared.mode == "own":
        value = take_value(ctx, argument.value, element)
        if value.mode == "":
            ctx.reject(
                NOT_OWNED,
                argument.span,
                "the parameter takes ownership, but this value is shared",
                expected="an owned or fresh value",
                hint="a copy is fresh: `copy(x)`",
            )
        return value
    if isinstance(argument.value, (syntax.Name, syntax.Field, syntax.Index)) and declared.mode == "&":
        return read(ctx, argument.value).shared()
    return expression(ctx, argument.value, element)


def choose_overload(ctx: Context, found: Sequence[Overloads], first: Value, span: Span) -> Chosen:
    """Return the function whose first parameter has the element of the first argument."""
    given = _value_mark(first.type)
    members = [Chosen(o.module, m) for o in found for m in o.members]
    for member in members:
        if mark(member.declaration) == given.name:
            return member
    general = next((m for m in members if not mark(m.declaration)), None)
    if general is not None and given != WEIGHT:
        return general
    if given.kind is Kind.OPEN:
        return replace(min(members, key=_likeness), is_open=True)
    name = members[0].declaration.name.name
    known = sorted(mark(m.declaration) for m in members if mark(m.declaration))
    ctx.reject(
        NO_OVERLOAD,
        span,
        f"`{name}` has no form for {given.name}",
        found=ctx.text(first.type),
        expected=", ".join(known),
    )


def _likeness(member: Chosen) -> int:
    """Order overloads by how well they stand for all: one whose element occurs nowhere else in its signature is best."""
    element = ELEMENTS[mark(member.declaration)]
    return 0 if element.is_format else 1 if element.name != "f32" else 2


def _swapped(type_: LangType, old: Element, new: Element) -> LangType:
    """Return a type with an element replaced."""
    leaves = [Tensor(new if t.element == old else t.element, t.shape, t.space) for t in leaf_types(type_)]
    swapped = replace_leaves(type_, leaves)
    if isinstance(swapped, StructType):
        return replace(swapped, arguments=tuple(new if a == old else a for a in swapped.arguments))
    if isinstance(swapped, TupleType) and isinstance(type_, TupleType):
        return TupleType(tuple(_swapped(item, old, new) for item in type_.items))
    return swapped


def _value_mark(type_: LangType) -> Element:
    if isinstance(type_, StructType):
        element = next((a for a in type_.arguments if isinstance(a, Element)), None)
        if element is not None:
            return element
    leaves = leaf_types(type_)
    return leaves[0].element if leaves else WEIGHT


def apply(
    ctx: Context,
    chosen: Chosen,
    bound: Generics,
    values: Sequence[Value],
    arguments: Sequence[syntax.Argument],
    span: Span,
) -> Value:
    """Check arguments against the declaration and make the result."""
    declaration, module = chosen.declaration, chosen.module
    name = f"{module.name}.{declaration.name.name}"
    if name in ctx.callers:
        ctx.reject(RECURSIVE, span, f"`{declaration.name.name}` calls itself", hint="write it as `for` or `while`")
    there = replace(
        ctx, module=module, generics=_with_facts(bound, ctx), scope=Scope(ctx.frame), callers=(*ctx.callers, name)
    )
    fitted = []
    for parameter, value, argument in zip(declaration.parameters, values, arguments, strict=True):
        with_types = resolve_like(there, parameter.type, value.type)
        if chosen.is_open:
            with_types = _swapped(with_types, ELEMENTS[mark(declaration)], _value_mark(values[0].type))
        fitted.append(fit(ctx, value, with_types, argument.span, f"`{parameter.name.name}`", parameter.type.mode))
    if not chosen.is_open:
        check_where(ctx, there, declaration, span)
    else:
        mode = "own" if declaration.result.mode == "own" else "fresh"
        result = resolve(there, declaration.result)
        return replace(placeholder(_swapped(result, ELEMENTS[mark(declaration)], _value_mark(values[0].type))), mode=mode)
    if declaration.inline:
        from bittern.lang.elaborate import inline_body

        return inline_body(there, declaration, fitted)
    return call_instance(ctx, there, chosen, bound, fitted, span)


def resolve_like(ctx: Context, declared: syntax.TypeExpr, actual: LangType) -> LangType:
    """Resolve a parameter's type; weights take the formats of the argument."""
    plain = resolve(ctx, declared)
    wanted, given = leaf_types(plain), leaf_types(actual)
    if len(wanted) != len(given):
        return plain
    formats = [g.element for w, g in zip(wanted, given, strict=True) if w.element == WEIGHT]
    return resolve(ctx, declared, Formats(iter(formats))) if formats else plain


def call_instance(
    ctx: Context, there: Context, chosen: Chosen, bound: Generics, values: Sequence[Value], span: Span
) -> Value:
    """Make a call node to the instance of a function for these argument types."""
    from bittern.lang.elaborate import Instance, instance_of

    declaration = chosen.declaration
    _check_effects(ctx, declaration, span)
    made: Instance | None = instance_of(there, chosen.module, declaration, bound, [v.type for v in values])
    if made is None or made.function is None:
        return placeholder(resolve(there, declaration.result))
    leaves = [leaf for value in values for leaf in value.leaves]
    dims = [bound.dims[name] for name in made.dims]
    effects = made.function.effects
    result_type = substitute_type(made.result, dims)
    node = call(made.function, [*leaves, *(ctx.frame.tokens[f] for f in effects)], dims)
    mode = "own" if declaration.result.mode == "own" or _has_own(declaration.result) else "fresh"
    if not effects:
        return unpack_result(result_type, node, mode)
    count = len(leaf_types(result_type))
    for place, effect in enumerate(effects):
        ctx.frame.tokens[effect] = item(node, count + place)
    return Value(result_type, tuple(item(node, i) for i in range(count)), mode)


def _has_own(t: syntax.TypeExpr) -> bool:
    return isinstance(t, syntax.TupleType) and any(i.mode == "own" or _has_own(i) for i in t.items)


def _check_effects(ctx: Context, declaration: syntax.FunctionDecl, span: Span) -> None:
    for effect in declaration.effects:
        if effect.name not in ctx.effects:
            ctx.reject(
                EFFECT_UNDECLARED,
                span,
                f"`{declaration.name.name}` has the effect `{effect.name}`, which this function does not declare",
                hint=f"add `! {effect.name}` to its type",
                notes=((effect.span, "declared here"),),
            )
        if effect.name not in ctx.frame.tokens:
            ctx.reject(
                EFFECT_IN_MAP,
                span,
                f"the effect `{effect.name}` has no order inside a map",
                hint="use a `for`, whose rounds are in order",
            )


def check_where(ctx: Context, there: Context, declaration: syntax.FunctionDecl, span: Span) -> None:
    """Check the callee's conditions on dimensions with the caller's facts."""
    for clause in declaration.where:
        condition = condition_of(there, clause)
        outcome = prove(ctx, condition)
        if outcome is True:
            continue
        operator, left, right = condition
        text = f"{ctx.text(left)} {operator} {ctx.text(right)}"
        ctx.reject(
            NOT_PROVEN,
            span,
            f"`{declaration.name.name}` needs {text}",
            found="it does not hold" if outcome is False else "nothing here says so",
            hint="" if outcome is False else f"add `where {text}` to this function",
            notes=((clause.span, "the condition is written here"),),
        )


def fit(ctx: Context, value: Value, declared: LangType, span: Span, what: str, mode: str = "") -> Value:
    """Return the value as an argument of the declared type, a scalar spread where an array is wanted."""
    given = value.type
    if isinstance(given, Tensor) and isinstance(declared, Tensor) and not given.shape and given.element == declared.element:
        value = broadcast(ctx, value, declared.shape, span)
        given = value.type
    if is_same(given, declared, elements=not ctx.ideal):
        return value
    is_shape = isinstance(given, Tensor) and isinstance(declared, Tensor) and given.element == declared.element
    is_element = isinstance(given, Tensor) and isinstance(declared, Tensor) and given.shape == declared.shape
    ctx.reject(
        SHAPE_MISMATCH if is_shape else ELEMENT_MISMATCH if is_element else ARGUMENT_TYPE,
        span,
        f"{what} has the wrong type",
        found=ctx.text(given),
        expected=ctx.text(declared),
    )


# --- generic arguments


def _explicit(
    ctx: Context, brackets: tuple[syntax.Expr, ...], declared: tuple[syntax.Generic, ...], what: str, span: Span
) -> Generics:
    bound = Generics(facts=ctx.generics.facts)
    if len(brackets) > len(declared):
        ctx.reject(
            GENERIC_COUNT,
            span,
            f"`{what}` takes {len(declared)} generic arguments",
            found=str(len(brackets)),
            expected=", ".join(g.name.name for g in declared) or "none",
        )
    for generic, argument in zip(declared, brackets, strict=False):
        if not generic.kind:
            bound.dims[generic.name.name] = need_dim(ctx, argument)
            continue
        element = element_of(ctx, argument)
        if not fits_kind(element, generic.kind):
            ctx.reject(
                GENERIC_KIND, argument.span, f"{element} is not a {generic.kind} type", expected=f"a {generic.kind}"
            )
        bound.elements[generic.name.name] = element
    return bound


def _require_solved(ctx: Context, solver: Solver, span: Span, what: str) -> None:
    missing = solver.solve()
    if missing:
        names = ", ".join(f"`{g.name.name}`" for g in missing)
        ctx.reject(
            GENERIC_OPEN,
            span,
            f"the arguments of `{what}` do not say what {names} is",
            hint=f"give it in brackets: `{what}[...](...)`",
        )
    for generic in solver.declared:
        element = solver.bound.elements.get(generic.name.name) if generic.kind else None
        if element is not None and not fits_kind(element, generic.kind) and element != WEIGHT:
            ctx.reject(
                GENERIC_KIND,
                span,
                f"{element} does not fit `{generic.name.name}` of `{what}`",
                expected=f"a {generic.kind} type",
            )


def _with_facts(bound: Generics, ctx: Context) -> Generics:
    return Generics(bound.dims, bound.elements, ctx.generics.facts, ctx.generics.relations)


def _declared_element(t: syntax.TypeExpr, bound: Generics) -> Element | None:
    if isinstance(t, syntax.NamedType):
        return bound.elements.get(t.name.name) or ELEMENTS.get(t.name.name)
    return None

