"""Elaboration: declared functions become functions of the graph, by themselves or with a model's constants bound."""

from collections.abc import Callable, Mapping

from bittern.graph.node import Function, Node
from bittern.lang import blocks, branches, calls, loops, syntax  # noqa: F401  (they declare how each form is elaborated)
from bittern.lang.context import Context, Generics
from bittern.lang.generics import open_generics, resolve
from bittern.lang.instances import Request, instance, leaf_paths
from bittern.lang.library import Library, Module, broken
from bittern.lang.values import Value, replace_leaves
from bittern.types.dims import dim, symbol
from bittern.types.elements import Element
from bittern.types.values import Tensor


def instance_for(module: Module, declaration: syntax.FunctionDecl, elements: Mapping[str, Element]) -> Function:
    """Return a function by itself, all dimensions symbolic; element parameters that are not given stay open.

    Raises E212 if the program has errors.
    """
    module.library.raise_errors(module)
    return _made(_alone(module, declaration, elements))


def elaborate(module: Module, declaration: syntax.FunctionDecl) -> None:
    """Elaborate a function by itself; errors stay with the library."""
    instance(module.library, _alone(module, declaration, {}), (declaration,))


def _alone(module: Module, declaration: syntax.FunctionDecl, elements: Mapping[str, Element]) -> Request:
    bound = {**open_generics(declaration.generics), **elements}
    return Request(module, declaration, bound, {}, tuple(() for _ in declaration.parameters), {})


def _made(request: Request) -> Function:
    """Return the function of a request. One that fails leaves nothing behind: it says nothing of other requests.

    Raises E212.
    """
    library = request.module.library
    errors, instances = len(library.errors.found), len(library.instances)
    function = None
    try:
        function = instance(library, request, (request.declaration,)).function
    finally:
        if function is None:
            found = library.errors.forget(errors)
            while len(library.instances) > instances:
                library.instances.popitem()
    if function is None:
        assert found, request.declaration.name.name
        raise broken(found)
    return function


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
    of a field path (`layer.3.q`) for its declared type; the element of a `weight` is open there. Raises E212.
    """
    module_name, _, function_name = name.rpartition(".")
    module = library.module(module_name)
    assert module is not None, name
    library.raise_errors(module)
    declaration = module.functions[function_name][0]
    written = next(p for p in declaration.parameters if p.name.name == parameter)
    ctx = Context.outside(module)
    ctx.generics = Generics({k: dim(v) for k, v in dims.items()}, dict(elements))
    for generic in declaration.generics:
        if not generic.kind:
            ctx.generics.dims.setdefault(generic.name.name, symbol(len(ctx.generics.dims)))
    open_type = resolve(ctx, written.type)
    nodes = [source(path, type_) for path, type_ in leaf_paths(open_type)]
    type_ = replace_leaves(open_type, [n.type for n in nodes if isinstance(n.type, Tensor)])
    formats = tuple(() for _ in declaration.parameters)
    given = {parameter: Value.of(type_, nodes)}
    return _made(Request(module, declaration, dict(elements), dict(dims), formats, given))
