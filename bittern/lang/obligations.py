"""What the parts of arrays in a graph need of its dimensions, so that a program printed from it can promise it.

Conditions other than divisibility are no part of a function's identity: they are checked where a text is elaborated.
"""

from collections.abc import Iterator
from typing import TypeAlias

from bittern.graph.node import Function, Node, functions_of, walk
from bittern.lang.context import Generics
from bittern.lang.solver import inside, prove
from bittern.types.dims import Dim
from bittern.types.values import Tensor

Pair: TypeAlias = tuple[Dim, Dim]  # of a fact: top, bottom; of a condition: less, more
Known: TypeAlias = dict[tuple[bytes, tuple[Pair, ...]], tuple[Pair, ...]]


def needed(function: Function, facts: tuple[Pair, ...], known: Known) -> tuple[Pair, ...]:
    """Return the pairs (less, more) that must hold in a function and do not by themselves.

    facts: about its dimensions. known: results so far, which this call adds to.
    """
    key = (function.id, facts)
    if key not in known:
        generics = Generics(facts=facts)
        pairs = [(generics.normal(a), generics.normal(b)) for a, b in _pairs(function, facts, known)]
        known[key] = tuple(dict.fromkeys(pair for pair in pairs if prove(generics, ("<=", *pair)) is None))
    return known[key]


def _pairs(function: Function, facts: tuple[Pair, ...], known: Known) -> Iterator[Pair]:
    for node in walk(function.result):
        if node.kind in ("slice", "windows", "dynamic_slice"):
            yield from _of_part(node)
        elif node.kind == "call":
            callee, dims = node["function"], node["dims"]
            assert isinstance(callee, Function) and isinstance(dims, tuple)
            sizes = [size for size in dims if isinstance(size, Dim)]
            for less, more in needed(callee, callee.facts, known):
                yield less.substitute(sizes), more.substitute(sizes)
        else:
            for body in functions_of(node):
                yield from needed(body, facts, known)


def _of_part(node: Node) -> tuple[Pair, ...]:
    type_, axis = node.inputs[0].type, node["axis"] if node.has("axis") else 0
    assert isinstance(type_, Tensor) and isinstance(axis, int)
    sizes = {name: value for name, value in node.attributes if isinstance(value, (int, Dim))}
    return inside(node.kind, type_.shape[axis], sizes)
