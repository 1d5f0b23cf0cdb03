"""Small programs given as text: elaborated, evaluated, or refused."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bittern.graph.evaluate import evaluate
from bittern.graph.node import Function, Node, functions_of, walk
from bittern.lang.check import check_module
from bittern.lang.elaborate import instance_for
from bittern.lang.library import Library, Module
from bittern.lang.source import Source
from bittern.types.elements import ELEMENTS
from bittern.types.values import Tensor


def module_of(text: str, library: Library | None = None) -> Module:
    """Return a program's module; by default no library is around it."""
    return (library or Library(())).add("program", [Source("program.btn", text)])


def functions(text: str, library: Library | None = None) -> dict[str, Function]:
    """Return the functions of a program without errors, by name; overloads by name and place (`f.1`)."""
    module = module_of(text, library)
    check_module(module)
    module.library.raise_errors()
    return {
        name if len(members) == 1 else f"{name}.{place}": instance_for(module, member, {})
        for name, members in module.functions.items()
        for place, member in enumerate(members)
    }


def function(text: str, name: str = "f", elements: Mapping[str, str] | None = None) -> Function:
    """Return one function of a program without errors."""
    module = module_of(text)
    check_module(module)
    module.library.raise_errors()
    return instance_for(module, module.functions[name][0], {k: ELEMENTS[v] for k, v in (elements or {}).items()})


def run(text: str, *arguments: object, name: str = "f", dims: Sequence[int] = (), ideal: bool = False) -> Any:
    """Return what a function of a program gives. arguments: numbers and lists take the element that is declared."""
    made = function(text, name)
    given = []
    for argument, parameter in zip(arguments, made.params, strict=True):
        assert isinstance(parameter.type, Tensor)
        given.append(np.asarray(argument).astype(parameter.type.element.dtype))
    return evaluate(made, given, dims=tuple(dims), ideal=ideal)


def codes(text: str, library: Library | None = None) -> list[str]:
    """Return the codes of a program's errors, in the order of their places."""
    module = module_of(text, library)
    check_module(module)
    return [each.code for each in sorted(module.library.errors.found, key=lambda each: each.span.start)]


def nodes(root: Function) -> list[Node]:
    """Return all nodes of a function and of the functions that it names."""
    found: list[Node] = []
    waiting, seen = [root], {root.id}
    while waiting:
        for node in walk(waiting.pop().result):
            found.append(node)
            for inner in functions_of(node):
                if inner.id not in seen:
                    seen.add(inner.id)
                    waiting.append(inner)
    return found


def kinds(root: Function) -> list[str]:
    """Return the kinds of all nodes, sorted."""
    return sorted(node.kind for node in nodes(root))
