"""Instances: a declared function, with its generic arguments, becomes a function of the graph.

Dimension parameters stay symbols of the graph's function. Element parameters, and the formats of `weight` parameters,
are put in, so each combination is an instance of its own; a function over weights also takes the dimensions that are
known numbers at its call. Instances are made once for each library.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bittern.base.errors import code
from bittern.graph.node import Function, Labels, Node, Parameter
from bittern.lang import syntax
from bittern.lang.context import Context, Elaborated, Generics, Reject, expectation, expression, handles, placeholder
from bittern.lang.effects import declared_effects
from bittern.lang.fitting import fit, need_given, with_modes
from bittern.lang.frame import Frame, Scope, make_result
from bittern.lang.generics import WEIGHT, Formats, modes_of, need_modes, need_no_cycle, resolve
from bittern.lang.library import Library, Module
from bittern.lang.solver import learn
from bittern.lang.values import LangType, ListType, ManyType, StructType, TupleType, Value, leaf_types
from bittern.types.dims import dim, symbol
from bittern.types.elements import Element, Kind
from bittern.types.values import Tensor, Token, Type

CONST_TYPE = code("E321", "a value differs from the type that is written for it")
RESULT_TYPE = code("E327", "a body gives another type than the function's result")
INLINE_IDEAL = code("E328", "an `inline` function has an `ideal` body")
IDEAL_SHAPE = code("E406", "an `ideal` body gives another shape than the function's result")


@dataclass(frozen=True, slots=True)
class Instance:
    """One elaborated function, None after errors. dims: names of the dimension parameters that stay symbols."""

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
) -> Instance:
    """Return the instance of a function for a call's generic arguments and argument types."""
    formats = []
    for parameter, given in zip(declaration.parameters, types, strict=True):
        wanted = leaf_types(resolve(there, parameter.type))
        formats.append(tuple(g.element for w, g in zip(wanted, leaf_types(given), strict=True) if w.element == WEIGHT))
    dims = {}
    if any(formats):
        dims = {name: size.constant for name, size in bound.dims.items() if size.constant is not None}
    request = Request(module, declaration, bound.elements, dims, tuple(formats), {})
    return instance(there.library, request, there.callers)


def instance(library: Library, request: Request, callers: tuple[syntax.Declared, ...]) -> Instance:
    """Return the instance that a request asks for, made once. callers: the declarations around, this one last."""
    given = tuple((name, tuple(n.id for n in value.leaves)) for name, value in sorted(request.given.items()))
    elements = tuple(sorted((k, v.name) for k, v in request.elements.items()))
    formats = tuple(tuple(e.name for e in part) for part in request.formats)
    key = (id(request.declaration), elements, tuple(sorted(request.dims.items())), formats, given)
    known = library.instances.get(key)
    if known is None:
        known = _elaborate(request, callers)
        library.instances[key] = known
    assert isinstance(known, Instance)
    return known


def inline_body(there: Context, declaration: syntax.FunctionDecl, values: Sequence[Value]) -> Value:
    """Elaborate the body of an `inline` function where it is called. there: the callee's names, the caller's frame."""
    declared = resolve(there, declaration.result)
    there = replace(there, effects=tuple(effect.name for effect in declaration.effects), borrowed={})
    for parameter, value in zip(declaration.parameters, values, strict=True):
        modes = ["own" if mode == "own" else "" for mode in modes_of(parameter.type, value.type)]
        there.scope.bind(parameter.name.name, value.marked(modes), parameter.name.span)
    result = expression(there, declaration.body, expectation(declared))
    return _result(there, declaration, declared, result, declaration.body)


@handles(syntax.ConstDecl)
def constant(ctx: Context, e: Elaborated, expected: Element | None) -> Value:
    """A module's constant, made once; it depends on no parameter, so any body may name its node."""
    assert isinstance(e, syntax.ConstDecl)
    key = ("const", id(e))
    known = ctx.library.instances.get(key)
    if known is None:
        need_no_cycle(ctx, e, e.name.span)
        known = _constant(Context.outside(ctx.module, (*ctx.callers, e)), e)
        ctx.library.instances[key] = known
    assert isinstance(known, Value)
    return known.shared()


def _constant(ctx: Context, e: syntax.ConstDecl) -> Value:
    declared: LangType | None = None
    try:
        need_modes(ctx, e.type, (), "a constant")
        declared = resolve(ctx, e.type)
        value = expression(ctx, e.value, expectation(declared))
        return fit(ctx, value, declared, e.value.span, CONST_TYPE, "the value is not of the written type")
    except Reject as reject:
        ctx.caught(reject)
        if declared is None:
            raise Reject(None) from None
        return placeholder(declared)


def _elaborate(request: Request, callers: tuple[syntax.Declared, ...]) -> Instance:
    declaration = request.declaration
    names = tuple(g.name.name for g in declaration.generics if not g.kind and g.name.name not in request.dims)
    ctx = Context.outside(request.module, callers)
    ctx.names = names
    ctx.generics = Generics({n: symbol(i) for i, n in enumerate(names)}, dict(request.elements))
    ctx.generics.dims.update({k: dim(v) for k, v in request.dims.items()})
    try:
        learn(ctx, declaration.where)
        ctx.effects = declared_effects(ctx, declaration)
        need_modes(ctx, declaration.result, ("own",), "a result")
        types = [
            request.given[p.name.name].type
            if p.name.name in request.given
            else resolve(ctx, p.type, Formats(iter(formats)))
            for p, formats in zip(declaration.parameters, request.formats, strict=True)
        ]
        declared = resolve(ctx, declaration.result)
        _need_no_ideal(ctx, declaration)
    except Reject as reject:
        ctx.caught(reject)
        return Instance(None, names, TupleType(()))
    result = _body(ctx, request, types, declared, declaration.body)
    ideal = None
    if declaration.ideal is not None:
        ideal = _body(replace(ctx, ideal=True), request, types, declared, declaration.ideal)
    if result is None or (declaration.ideal is not None and ideal is None):
        return Instance(None, names, declared)
    function = _named(ctx, request, types, result)
    if ideal is not None:
        function = replace(function, ideal=replace(function, result=ideal))
    return Instance(function, names, declared)


def _need_no_ideal(ctx: Context, declaration: syntax.FunctionDecl) -> None:
    if declaration.inline and declaration.ideal is not None:
        ctx.reject(
            INLINE_IDEAL,
            declaration.name.span,
            f"`{declaration.name.name}` is `inline`: its body is part of its callers, so it has no meaning of its own",
            hint="take `inline` or the `ideal` body away",
        )


def _body(
    outer: Context, request: Request, types: Sequence[LangType], declared: LangType, written: syntax.Block
) -> Node | None:
    """Elaborate one body in a frame of its own; return its result node, or None after an error."""
    declaration = request.declaration
    free = [(p, t) for p, t in zip(declaration.parameters, types, strict=True) if p.name.name not in request.given]
    leaves: list[Type] = [leaf for _, t in free for leaf in leaf_types(t)]
    frame = Frame("function", None, (*leaves, *(Token(f) for f in outer.effects)))
    ctx = replace(outer, frame=frame, scope=Scope(frame), borrowed={})
    parameters = frame.parameters()
    for parameter, type_ in zip(declaration.parameters, types, strict=True):
        name = parameter.name.name
        if name in request.given:
            value = request.given[name]
        else:
            size = len(leaf_types(type_))
            modes = ["own" if mode == "own" else "" for mode in modes_of(parameter.type, type_)]
            value = Value.of(type_, parameters[:size]).marked(modes)
            del parameters[:size]
        ctx.scope.bind(name, value, parameter.name.span)
    frame.tokens.update(zip(outer.effects, parameters, strict=True))
    before = len(ctx.errors.found)
    try:
        result = expression(ctx, written, expectation(declared))
        result = _result(ctx, declaration, declared, result, written)
    except Reject as reject:
        ctx.caught(reject)
        return None
    if len(ctx.errors.found) > before:
        return None
    return make_result([*result.leaves, *(frame.tokens[f] for f in outer.effects)])


def _result(
    ctx: Context, declaration: syntax.FunctionDecl, declared: LangType, result: Value, written: syntax.Block
) -> Value:
    """Return the value of a body as the function's result."""
    span, name = written.result.span, declaration.name.name
    message = f"the body of `{name}` does not give its result type"
    if ctx.ideal:
        message = f"the `ideal` body of `{name}` does not give the shape of its result type"
    result = fit(ctx, result, declared, span, IDEAL_SHAPE if ctx.ideal else RESULT_TYPE, message)
    modes = modes_of(declaration.result, declared)
    need_given(ctx, result, modes, span, f"the result of `{name}` is owned by its caller")
    return with_modes(result, modes)


def _named(ctx: Context, request: Request, types: Sequence[LangType], result: Node) -> Function:
    """Return the function with its labels."""
    declaration = request.declaration
    parameters: list[Parameter] = []
    names: list[str] = []
    for written, type_ in zip(declaration.parameters, types, strict=True):
        if written.name.name not in request.given:
            for (path, leaf), mode in zip(
                leaf_paths(type_, written.name.name), modes_of(written.type, type_), strict=True
            ):
                parameters.append(Parameter(leaf, mode))
                names.append(path)
    parameters += [Parameter(Token(effect)) for effect in ctx.effects]
    elements = ", ".join(e.name for e in request.elements.values() if e.kind is not Kind.OPEN)
    name = f"{request.module.name}.{declaration.name.name}" + (f"[{elements}]" if elements else "")
    constants: dict[bytes, str] = {}
    for value in request.given.values():
        for (path, _), node in zip(leaf_paths(value.type), value.leaves, strict=True):
            constants.setdefault(node.id, path)
    labels = Labels(name, ctx.names, tuple(names), {**ctx.labels, **constants}, ctx.lines)
    return Function(len(ctx.names), tuple(parameters), result, ctx.generics.facts, ctx.effects, labels=labels)


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
    if isinstance(type_, TupleType):
        items = type_.items
    else:
        assert isinstance(type_, ListType)
        items = (type_.item,) if type_.items is None else type_.items
    return [leaf for place, item in enumerate(items) for leaf in leaf_paths(item, f"{join}{place}")]
