"""Calls: what a callee names, arguments by name or place, struct values, functions inlined or as nodes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from bittern.base.errors import code, nearest
from bittern.graph.node import call
from bittern.lang import syntax
from bittern.lang.builtin_table import BUILTINS, IDEAL, Brackets
from bittern.lang.builtins import convert
from bittern.lang.context import Context, Elaborated, Expected, Generics, Reject, expression, handles, placeholder
from bittern.lang.effects import need_effect, take_tokens
from bittern.lang.fitting import fit, need_given, with_modes
from bittern.lang.frame import Scope
from bittern.lang.generics import WEIGHT, Formats, counted, fits_kind, make_struct, modes_of, need_no_cycle, resolve
from bittern.lang.instances import inline_body, instance_of
from bittern.lang.library import Module, Overloads, mark
from bittern.lang.literals import is_open_literal
from bittern.lang.overloads import Chosen, alike, choose, swapped, value_mark
from bittern.lang.ownership import borrow, give_value, read, take_value
from bittern.lang.solver import Solver, check_where, need_solved, written_generics
from bittern.lang.source import Span, source_text
from bittern.lang.values import LangType, Value, leaf_types, substitute_type
from bittern.types.elements import ELEMENTS, Element
from bittern.types.faults import ELEMENT_MISMATCH, SHAPE_MISMATCH
from bittern.types.values import Tensor

UNKNOWN_FUNCTION = code("E208", "unknown function")
NOT_CALLABLE = code("E209", "a value is called")
TOO_MUCH_INLINED = code("E215", "inlined functions inline too many others")
ARGUMENT_COUNT = code("E313", "wrong number of arguments")
ARGUMENT_TYPE = code("E314", "an argument has the wrong type")
ARGUMENT_NAME = code("E315", "no parameter or field of this name, or given twice")

_MOST_INLINED = 1 << 12


@handles(syntax.Call)
def call_expression(ctx: Context, e: Elaborated, expected: Element | None) -> Value:
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
    local = ctx.scope.find(word)
    if local is not None:
        if local[0].value is None:
            raise Reject(None)
        note = ((local[0].span, "this value hides a function of the same name"),) if _is_function(ctx, word) else ()
        ctx.reject(NOT_CALLABLE, name.span, f"`{word}` is a value, not a function", notes=note)
    if ctx.ideal and word in IDEAL:
        return IDEAL[word](ctx, e, brackets, expected)
    element = ctx.generics.elements.get(word) or ELEMENTS.get(word)
    if element is not None:
        return convert(ctx, e, element)
    if word in BUILTINS:
        return BUILTINS[word](ctx, e, brackets, expected)
    struct = ctx.module.find_struct(word)
    if struct is not None:
        return _struct_value(ctx, e, brackets, *struct)
    found = ctx.module.find_functions(word)
    if not found:
        if word in ctx.generics.dims or ctx.module.find_const(word) is not None:
            ctx.reject(NOT_CALLABLE, name.span, f"`{word}` is a value, not a function")
        known = [*ctx.module.names(), *BUILTINS, *ELEMENTS]
        hint = ctx.library.declaring(word, ctx.module.folder) or nearest(word, known)
        ctx.reject_unknown(UNKNOWN_FUNCTION, name.span, f"unknown function `{word}`", hint)
    return _function_value(ctx, e, brackets, found)


def _is_function(ctx: Context, word: str) -> bool:
    return word in BUILTINS or word in ELEMENTS or bool(ctx.module.find_functions(word))


def _callee(ctx: Context, e: syntax.Expr) -> tuple[syntax.Name, Brackets]:
    if isinstance(e, syntax.Name):
        return e, ()
    if isinstance(e, syntax.Index) and isinstance(e.base, syntax.Name) and all(i.high is None for i in e.items):
        return e.base, tuple(i.low for i in e.items)
    ctx.reject(NOT_CALLABLE, e.span, "only a function can be called, by its name")


# --- arguments


def _by_name(ctx: Context, e: syntax.Call, declared: Sequence[syntax.FieldDecl], what: str) -> list[syntax.Argument]:
    """Return the arguments in the order in which they are declared."""
    names = [d.name.name for d in declared]
    given: dict[str, syntax.Argument] = {}
    for position, argument in enumerate(e.arguments):
        if argument.label is None and position >= len(names):
            break
        name = argument.label.name if argument.label else names[position]
        if name not in names or name in given:
            ctx.reject(
                ARGUMENT_NAME,
                argument.label.span if argument.label else argument.span,
                f"`{what}` has no `{name}`" if name not in names else f"`{name}` of `{what}` is given twice",
                hint=nearest(name, [n for n in names if n not in given]) if name not in names else "",
            )
        given[name] = argument
    if len(given) != len(names) or len(e.arguments) > len(names):
        missing = ", ".join(f"`{n}`" for n in names if n not in given)
        ctx.reject(
            ARGUMENT_COUNT,
            e.span,
            f"`{what}` takes {counted(len(names), 'argument')}",
            found=str(len(e.arguments)),
            expected=", ".join(names) or "none",
            hint=f"{missing} is missing" if missing else "",
        )
    return [given[name] for name in names]


Taker = Callable[[int, syntax.Argument], Value]


def _elaborated(
    ctx: Context, arguments: Sequence[syntax.Argument], take: Taker, known: dict[int, Value]
) -> list[Value]:
    """Elaborate arguments in the order in which they are written, open literals last; return them as declared."""
    order = sorted(range(len(arguments)), key=lambda place: arguments[place].span.start)
    for is_late in (False, True):
        places = [p for p in order if p not in known and is_open_literal(arguments[p].value) == is_late]
        values = ctx.every([partial(take, place, arguments[place]) for place in places])
        known.update(zip(places, values, strict=True))
    return [known[place] for place in range(len(arguments))]


def _declared_element(t: syntax.TypeExpr, bound: Generics) -> Expected:
    """Return the element that a literal takes from a parameter's type."""
    if isinstance(t, syntax.NamedType):
        return bound.elements.get(t.name.name) or ELEMENTS.get(t.name.name)
    return tuple(_declared_element(item, bound) for item in t.items)


def _argument_value(ctx: Context, e: syntax.Expr, declared: syntax.TypeExpr, element: Expected) -> Value:
    """Elaborate an argument: owned parameters take the value, borrowed ones read it."""
    if declared.mode == "own":
        return give_value(ctx, e, element)
    if declared.mode == "&":
        borrow(ctx, e)
        return read(ctx, e, element).shared()
    return expression(ctx, e, element)


# --- struct values


def _struct_value(ctx: Context, e: syntax.Call, brackets: Brackets, module: Module, struct: syntax.StructDecl) -> Value:
    """`Act(q: codes, d: scales)`: every field once, by name or in order."""
    word = struct.name.name
    arguments = _by_name(ctx, e, struct.fields, word)
    solver = Solver(struct.generics, written_generics(ctx, brackets, struct.generics, word))
    there = replace(ctx, module=module)

    def take(place: int, argument: syntax.Argument) -> Value:
        declared = struct.fields[place].type
        value = take_value(ctx, argument.value, _declared_element(declared, solver.bound))
        solver.meet(declared, value.type, there)
        return value

    values = _elaborated(ctx, arguments, take, {})
    _need_forms(ctx, solver, [(f.name.name, f.type) for f in struct.fields], values, arguments)
    need_solved(ctx, solver, e.span, word)
    bound = _with_facts(solver.bound, ctx)
    plain = make_struct(ctx, module, struct, bound)
    formats = [f for (_, wanted), value in zip(plain.fields, values, strict=True) for f in _formats(wanted, value.type)]
    type_ = make_struct(ctx, module, struct, bound, Formats(iter(formats)))
    whole = Value.tuple_of(
        [
            _fit_argument(ctx, value, declared, argument.value.span, f"the field `{name}` of `{word}`")
            for (name, declared), value, argument in zip(type_.fields, values, arguments, strict=True)
        ]
    )
    return Value(type_, whole.leaves, whole.modes)


def _fit_argument(ctx: Context, value: Value, declared: LangType, span: Span, what: str) -> Value:
    """Return the value as an argument of the declared type."""
    given, code_ = value.type, ARGUMENT_TYPE
    if isinstance(given, Tensor) and isinstance(declared, Tensor):
        if given.element == declared.element:
            code_ = SHAPE_MISMATCH
        elif given.shape == declared.shape:
            code_ = ELEMENT_MISMATCH
    return fit(ctx, value, declared, span, code_, f"{what} has another type")


def _need_forms(
    ctx: Context,
    solver: Solver,
    declared: Sequence[tuple[str, syntax.TypeExpr]],
    values: Sequence[Value],
    arguments: Sequence[syntax.Argument],
) -> None:
    """Reject an argument of another form than its parameter where generic arguments could not be found for it."""
    if solver.misfit is None or not solver.solve():
        return
    place = next(i for i, (_, type_) in enumerate(declared) if type_ is solver.misfit)
    ctx.reject(
        ARGUMENT_TYPE,
        arguments[place].value.span,
        f"`{declared[place][0]}` has another type",
        found=ctx.text(values[place].type),
        expected=source_text(declared[place][1].span).removeprefix("&").removeprefix("own "),
    )


def _with_facts(bound: Generics, ctx: Context) -> Generics:
    return Generics(bound.dims, bound.elements, ctx.generics.facts, ctx.generics.relations)


# --- functions


def _function_value(ctx: Context, e: syntax.Call, brackets: Brackets, found: Sequence[Overloads]) -> Value:
    """Call a function of the library or of this program: find generics, check, then inline it or make a call node."""
    members = alike(ctx, found, e.callee.span)
    chosen = members[0]
    word = chosen.declaration.name.name
    arguments = _by_name(ctx, e, chosen.declaration.parameters, word)
    for argument in arguments:
        if isinstance(argument.value, syntax.Unary) and argument.value.operator == "&":
            borrow(ctx, argument.value.operand)
    known: dict[int, Value] = {}
    if len(members) > 1:
        known[0] = _argument_value(ctx, arguments[0].value, chosen.declaration.parameters[0].type, None)
        chosen = choose(ctx, members, known[0], arguments[0].value.span)
    declaration = chosen.declaration
    solver = Solver(declaration.generics, written_generics(ctx, brackets, declaration.generics, word))
    there = replace(ctx, module=chosen.module)
    if known:
        solver.meet(declaration.parameters[0].type, known[0].type, there)

    def take(place: int, argument: syntax.Argument) -> Value:
        declared = declaration.parameters[place].type
        value = _argument_value(ctx, argument.value, declared, _declared_element(declared, solver.bound))
        solver.meet(declared, value.type, there)
        return value

    values = _elaborated(ctx, arguments, take, known)
    if chosen.is_open:
        for generic in declaration.generics:
            if generic.kind:
                solver.bound.elements.setdefault(generic.name.name, WEIGHT)
    _need_forms(ctx, solver, [(p.name.name, p.type) for p in declaration.parameters], values, arguments)
    need_solved(ctx, solver, e.span, word)
    return _apply(ctx, chosen, solver.bound, values, arguments, e.span)


def _apply(
    ctx: Context,
    chosen: Chosen,
    bound: Generics,
    values: Sequence[Value],
    arguments: Sequence[syntax.Argument],
    span: Span,
) -> Value:
    """Check arguments against the declaration and make the result."""
    declaration = chosen.declaration
    need_no_cycle(ctx, declaration, span, "write it as a `for` or `while`")
    there = replace(
        ctx,
        module=chosen.module,
        generics=_with_facts(bound, ctx),
        scope=Scope(ctx.frame),
        callers=(*ctx.callers, declaration),
    )
    fitted = []
    for parameter, value, argument in zip(declaration.parameters, values, arguments, strict=True):
        declared = _like(there, parameter.type, value.type)
        if chosen.is_open:
            declared = swapped(declared, ELEMENTS[mark(declaration)], value_mark(values[0].type))
        what = f"`{parameter.name.name}` of `{declaration.name.name}`"
        value = _fit_argument(ctx, value, declared, argument.value.span, what)
        need_given(ctx, value, modes_of(parameter.type, declared), argument.value.span, f"{what} takes ownership")
        fitted.append(value)
    for effect in declaration.effects:
        need_effect(ctx, effect.name, declaration.name.name, span, effect.span)
    if chosen.is_open:
        return _open_result(there, declaration, value_mark(values[0].type))
    check_where(ctx, there, declaration, span)
    if declaration.inline:
        _count_inlined(ctx, declaration, span)
        return inline_body(there, declaration, fitted)
    return _call_node(ctx, there, chosen, bound, fitted)


def _count_inlined(ctx: Context, declaration: syntax.FunctionDecl, span: Span) -> None:
    """Reject a function in which inlined bodies inline others without end: each level may double the one before."""
    nested = [caller for caller in ctx.callers[-1:] if isinstance(caller, syntax.FunctionDecl) and caller.inline]
    ctx.inlined.extend(span for _ in nested)
    known = ctx.library.instances
    if len(ctx.inlined) > _MOST_INLINED or ("inlines too much", id(declaration)) in known:
        known.update({("inlines too much", id(caller)): True for caller in nested})
        ctx.reject(
            TOO_MUCH_INLINED,
            span,
            f"more than {_MOST_INLINED} calls in inlined bodies are inlined into one function",
            hint="write some of these functions without `inline`",
        )


def _like(ctx: Context, declared: syntax.TypeExpr, actual: LangType) -> LangType:
    """Resolve a parameter's type; weights take the formats of the argument."""
    plain = resolve(ctx, declared)
    formats = _formats(plain, actual)
    return resolve(ctx, declared, Formats(iter(formats))) if formats else plain


def _formats(declared: LangType, actual: LangType) -> list[Element]:
    """Return the elements that the weights of a declared type have in the type that is given."""
    pairs = zip(leaf_types(declared), leaf_types(actual), strict=False)
    weights = [given.element for wanted, given in pairs if wanted.element == WEIGHT]
    return [element if fits_kind(element, "format") else WEIGHT for element in weights]


def _open_result(there: Context, declaration: syntax.FunctionDecl, given: Element) -> Value:
    """Return what stands for the result of an overload that is chosen when the element is known."""
    result = resolve(there, declaration.result)
    value = placeholder(swapped(result, ELEMENTS[mark(declaration)], given))
    return with_modes(value, modes_of(declaration.result, result))


def _call_node(ctx: Context, there: Context, chosen: Chosen, bound: Generics, values: Sequence[Value]) -> Value:
    """Make a call node to the instance of a function for these argument types."""
    declaration = chosen.declaration
    made = instance_of(there, chosen.module, declaration, bound, [v.type for v in values])
    if made.function is None:
        result = resolve(there, declaration.result)
        return with_modes(placeholder(result), modes_of(declaration.result, result))
    leaves = [leaf for value in values for leaf in value.leaves]
    dims = [bound.dims[name] for name in made.dims]
    effects = made.function.effects
    node = call(made.function, [*leaves, *(ctx.frame.tokens[f] for f in effects)], dims)
    type_ = substitute_type(made.result, dims)
    value = Value.of(type_, take_tokens(ctx, node, type_, effects))
    return with_modes(value, modes_of(declaration.result, type_))
