"""Elaboration: a declared function, with its generic arguments, becomes a function of the graph.

Dimension parameters stay symbols of the graph's function. Element parameters, and the formats of `weight` parameters,
are put in, so each combination is an instance of its own; a function over weights also takes the dimensions that are
known numbers at its call. Instances are made once for each library.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from bittern.base.errors import code
from bittern.graph.node import Function, Labels, Node, Parameter
from bittern.lang import calls, control, syntax  # noqa: F401  (the modules declare what elaborates each expression)
from bittern.lang.context import Context, Generics, Reject, placeholder
from bittern.lang.control import block
from bittern.lang.terms import broadcast
from bittern.lang.frame import Frame, Scope, make_result
from bittern.lang.generics import WEIGHT, Formats, condition_of, need_dim, open_generics, resolve
from bittern.lang.library import Library, Module
from bittern.lang.values import (
    LangType,
    ListType,
    ManyType,
    StructType,
    TupleType,
    Value,
    is_same,
    leaf_types,
    replace_leaves,
)
from bittern.types.dims import Dim, dim, symbol
from bittern.types.elements import Element, Kind
from bittern.types.values import EFFECTS, Tensor, Token, Type

RESULT_TYPE = code("E327", "a body gives another type than the function's result")
IDEAL_SHAPE = code("E406", "an `ideal` body gives another shape than the function's result")
UNKNOWN_EFFECT = code("E605", "unknown effect")
INLINE_IDEAL = code("E328", "an `inline` function has an `ideal` body")
OVERLOAD_SHAPE = code("E329", "overloads of one name have different signatures")


@dataclass(frozen=True, slots=True)
class Instance:
    """One elaborated function. dims: names of the dimension parameters that stay symbols. function: None after errors."""

    function: Function | None
    dims: tuple[str, ...]
    result: LangType


@dataclass(frozen=True, slots=True)
class Request:
    """What to elaborate. formats: for each parameter, the elements of its weights. given: parameters that are bound."""

    module: Module
    declaration: syntax.FunctionDecl
    elements: Mapping[str, Element]
    dims: Mapping[str, int]
    formats: tuple[tuple[Element, ...], ...]
    given: Mapping[str, Value]


def instance_of(
    there: Context,
    module: Module,
    declaration: syntax.FunctionDecl,
    bound: Generics,
    types: Sequence[LangType],
) -> Instance | None:
    """Return the instance of a function for a call's generic arguments and argument types."""
    formats = []
    for parameter, given in zip(declaration.parameters, types, strict=True):
        wanted = leaf_types(resolve(there, parameter.type))
        formats.append(tuple(g.element for w, g in zip(wanted, leaf_types(given), strict=True) if w.element == WEIGHT))
    has_weights = any(formats)
    known = {name: size.constant for name, size in bound.dims.items() if has_weights}
    dims = {name: value for name, value in known.items() if value is not None}
    request = Request(module, declaration, bound.elements, dims, tuple(formats), {})
    return _instance(there.library, request, there.callers)


def instance_for(module: Module, declaration: syntax.FunctionDecl, elements: Mapping[str, Element]) -> Function:
    """Return a function by itself, all dimensions symbolic; element parameters that are not given stay open."""
    bound = {**open_generics(declaration.generics), **elements}
    name = f"{module.name}.{declaration.name.name}"
    formats = tuple(() for _ in declaration.parameters)
    made = _instance(module.library, Request(module, declaration, bound, {}, formats, {}), (name,))
    module.library.raise_errors()
    assert made is not None and made.function is not None, declaration.name.name
    return made.function


def bind(
    library: Library,
    name: str,
    parameter: str,
    dims: Mapping[str, int],
    elements: Mapping[str, Element],
    source: Callable[[str, Tensor], Node],
) -> Function:
    """Return a function with one struct parameter replaced by constants.

    name: `module.function`. parameter: which one. dims: the numbers that the constants fix. source: gives the constant
    of a field path (`layer.3.q`) for its declared type; the element of a `weight` is open there.
    """
    module_name, _, function_name = name.rpartition(".")
    module = library.module(module_name)
    assert module is not None, name
    library.raise_errors()
    declaration = module.functions[function_name][0]
    written = next(p for p in declaration.parameters if p.name.name == parameter)
    generics = Generics({k: dim(v) for k, v in dims.items()}, dict(elements))
    for generic in declaration.generics:
        if not generic.kind:
            generics.dims.setdefault(generic.name.name, symbol(len(generics.dims)))
    frame = Frame("function", None, ())
    ctx = Context(library, module, generics, frame, Scope(frame), library.errors)
    open_type = resolve(ctx, written.type)
    nodes = [source(path, type_) for path, type_ in leaf_paths(open_type)]
    type_ = replace_leaves(open_type, [n.type for n in nodes if isinstance(n.type, Tensor)])
    formats = tuple(() for _ in declaration.parameters)
    given = {parameter: Value(type_, tuple(nodes))}
    request = Request(module, declaration, dict(elements), dict(dims), formats, given)
    made = _instance(library, request, (name,))
    library.raise_errors()
    assert made is not None and made.function is not None, name
    return made.function


def leaf_paths(type_: LangType, path: str = "") -> list[tuple[str, Tensor]]:
    """Return the leaves of a type with their field paths, such as `layer.3.q`."""
    if isinstance(type_, Tensor):
        return [(path, type_)]
    join = f"{path}." if path else ""
    if isinstance(type_, StructType):
        return [leaf for name, field in type_.fields for leaf in leaf_paths(field, f"{join}{name}")]
    if isinstance(type_, ManyType):
        inner = leaf_paths(type_.item, path)
        return [(name, t) for (name, _), t in zip(inner, leaf_types(type_), strict=True)]
    items = type_.items if isinstance(type_, TupleType) else type_.items or (type_.item,)
    assert isinstance(type_, (TupleType, ListType))
    return [leaf for place, item in enumerate(items) for leaf in leaf_paths(item, f"{join}{place}")]


def inline_body(there: Context, declaration: syntax.FunctionDecl, values: Sequence[Value]) -> Value:
    """Elaborate the body of an `inline` function where it is called. there: the callee's names, the caller's frame."""
    for parameter, value in zip(declaration.parameters, values, strict=True):
        mode = value.mode if parameter.type.mode == "own" else ""
        there.scope.bind(parameter.name.name, replace(value, mode=mode), parameter.name.span)
    declared = resolve(there, declaration.result)
    result = block(there, declaration.body, _element(declared))
    return _checked_result(there, declaration, declared, result)


def constant_value(ctx: Context, module: Module, declaration: syntax.ConstDecl) -> Value:
    """Return a module's constant; it depends on no parameter, so any body may name its node."""
    key = ("const", id(declaration))
    known = ctx.library.instances.get(key)
    if known is None:
        frame = Frame("function", None, ())
        inner = Context(ctx.library, module, Generics(), frame, Scope(frame), ctx.errors)
        declared = resolve(inner, declaration.type)
        written = syntax.NamePattern(declaration.name.span, declaration.name)
        control.run_statement(inner, syntax.Let(declaration.span, written, declaration.type, declaration.value))
        value = inner.scope.names[declaration.name.name].value
        known = placeholder(declared) if value is None else value
        ctx.library.instances[key] = known
    assert isinstance(known, Value)
    return known.shared()


def _instance(library: Library, request: Request, callers: tuple[str, ...]) -> Instance | None:
    declaration = request.declaration
    given = tuple((name, tuple(n.id for n in value.leaves)) for name, value in sorted(request.given.items()))
    elements = tuple(sorted((k, v.name) for k, v in request.elements.items()))
    formats = tuple(tuple(e.name for e in part) for part in request.formats)
    key = (id(declaration), elements, tuple(sorted(request.dims.items())), formats, given)
    known = library.instances.get(key)
    if known is None:
        known = _elaborate(library, request, callers)
        library.instances[key] = known
    assert isinstance(known, Instance)
    return known


def _elaborate(library: Library, request: Request, callers: tuple[str, ...]) -> Instance:
    declaration = request.declaration
    names = tuple(g.name.name for g in declaration.generics if not g.kind and g.name.name not in request.dims)
    generics = Generics({n: symbol(i) for i, n in enumerate(names)}, dict(request.elements))
    generics.dims.update({k: dim(v) for k, v in request.dims.items()})
    frame = Frame("function", None, ())
    ctx = Context(library, request.module, generics, frame, Scope(frame), library.errors, names, callers)
    try:
        _learn_facts(ctx, declaration)
        effects = _effects(ctx, declaration)
        types = [
            request.given[p.name.name].type
            if p.name.name in request.given
            else resolve(ctx, p.type, Formats(iter(formats)))
            for p, formats in zip(declaration.parameters, request.formats, strict=True)
        ]
        declared = resolve(ctx, declaration.result)
    except Reject as reject:
        ctx.caught(reject)
        return Instance(None, names, TupleType(()))
    ctx.effects = effects
    result = _body(ctx, request, types, declared, declaration.body)
    ideal = None
    if declaration.ideal is not None:
        if declaration.inline:
            ctx.caught(_rejected(ctx, INLINE_IDEAL, declaration))
        ideal = _body(replace(ctx, ideal=True), request, types, declared, declaration.ideal)
    if result is None or (declaration.ideal is not None and ideal is None):
        return Instance(None, names, declared)
    function = _named(ctx, request, types, result)
    if ideal is not None:
        function = replace(function, ideal=replace(function, result=ideal))
    return Instance(function, names, declared)


def _rejected(ctx: Context, code_: str, declaration: syntax.FunctionDecl) -> Reject:
    try:
        ctx.reject(
            code_,
            declaration.name.span,
            f"`{declaration.name.name}` is `inline`, so its body is part of its callers",
            hint="take `inline` away, or the `ideal` body",
        )
    except Reject as reject:
        return reject


def _learn_facts(ctx: Context, declaration: syntax.FunctionDecl) -> None:
    facts: list[tuple[Dim, Dim]] = []
    relations: list[tuple[str, Dim, Dim]] = []
    for clause in declaration.where:
        condition = condition_of(ctx, clause)
        relations.append(condition)
        is_multiple = (
            isinstance(clause, syntax.Binary)
            and clause.operator == "=="
            and isinstance(clause.left, syntax.Binary)
            and clause.left.operator == "%"
            and condition[2].constant == 0
        )
        if is_multiple:
            assert isinstance(clause, syntax.Binary) and isinstance(clause.left, syntax.Binary)
            top, bottom = need_dim(ctx, clause.left.left), need_dim(ctx, clause.left.right)
            if top.constant is None:
                facts.append((top, bottom))
    facts.sort(key=lambda fact: -(fact[1].constant or 0))
    generics = ctx.generics
    generics.relations = tuple(relations)
    generics.facts = tuple(facts)
    generics.dims = {name: generics.normal(size) for name, size in generics.dims.items()}


def _effects(ctx: Context, declaration: syntax.FunctionDecl) -> tuple[str, ...]:
    for effect in declaration.effects:
        if effect.name not in EFFECTS:
            ctx.reject(
                UNKNOWN_EFFECT, effect.span, f"unknown effect `{effect.name}`", expected=", ".join(sorted(EFFECTS))
            )
    return tuple(sorted({effect.name for effect in declaration.effects}))


def _body(
    outer: Context, request: Request, types: Sequence[LangType], declared: LangType, written: syntax.Block
) -> Node | None:
    """Elaborate one body in a frame of its own; return its result node, or None after an error."""
    declaration = request.declaration
    free = [(p, t) for p, t in zip(declaration.parameters, types, strict=True) if p.name.name not in request.given]
    leaves: list[Type] = [leaf for _, t in free for leaf in leaf_types(t)]
    frame = Frame("function", None, (*leaves, *(Token(f) for f in outer.effects)))
    ctx = replace(outer, frame=frame, scope=Scope(frame))
    parameters = frame.parameters()
    for parameter, type_ in zip(declaration.parameters, types, strict=True):
        name = parameter.name.name
        if name in request.given:
            value = request.given[name]
        else:
            size = len(leaf_types(type_))
            value = Value(type_, tuple(parameters[:size]), "own" if parameter.type.mode == "own" else "")
            del parameters[:size]
        ctx.scope.bind(name, value, parameter.name.span)
    frame.tokens.update(zip(outer.effects, parameters, strict=True))
    before = len(ctx.errors.found)
    try:
        result = block(ctx, written, _element(declared))
        result = _checked_result(ctx, declaration, declared, result)
    except Reject as reject:
        ctx.caught(reject)
        return None
    if len(ctx.errors.found) > before:
        return None
    return make_result([*result.leaves, *(frame.tokens[f] for f in outer.effects)])


def _checked_result(ctx: Context, declaration: syntax.FunctionDecl, declared: LangType, result: Value) -> Value:
    span = declaration.body.result.span
    if ctx.ideal and declaration.ideal is not None:
        span = declaration.ideal.result.span
    if isinstance(result.type, Tensor) and isinstance(declared, Tensor) and result.type.element == declared.element:
        result = broadcast(ctx, result, declared.shape, span)
    if not is_same(result.type, declared, elements=not ctx.ideal):
        ctx.reject(
            IDEAL_SHAPE if ctx.ideal else RESULT_TYPE,
            span,
            f"the body of `{declaration.name.name}` does not give its result type",
            found=ctx.text(result.type),
            expected=ctx.text(declared),
        )
    return result


def _named(ctx: Context, request: Request, types: Sequence[LangType], result: Node) -> Function:
    declaration = request.declaration
    parameters: list[Parameter] = []
    names: list[str] = []
    for written, type_ in zip(declaration.parameters, types, strict=True):
        if written.name.name not in request.given:
            for path, leaf in leaf_paths(type_, written.name.name):
                parameters.append(Parameter(leaf, written.type.mode))
                names.append(path)
    parameters += [Parameter(Token(effect)) for effect in ctx.effects]
    elements = ", ".join(e.name for e in request.elements.values() if e.kind is not Kind.OPEN)
    name = f"{request.module.name}.{declaration.name.name}" + (f"[{elements}]" if elements else "")
    constants: dict[bytes, str] = {}
    for value in request.given.values():
        for (path, _), leaf in zip(leaf_paths(value.type), value.leaves, strict=True):
            constants.setdefault(leaf.id, path)
    labels = Labels(name, ctx.names, tuple(names), {**ctx.labels, **constants}, ctx.lines)
    return Function(len(ctx.names), tuple(parameters), result, ctx.generics.facts, ctx.effects, labels=labels)


def _element(type_: LangType) -> Element | None:
    return type_.element if isinstance(type_, Tensor) else None
