"""Short words for building graphs in tests, and the comparison with the plain interpreter."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from plain import interpret

from bittern.graph.evaluate import prepare
from bittern.graph.node import Function, Node, Parameter, const, node, param
from bittern.types.dims import dim, symbol
from bittern.types.elements import BIT, U32
from bittern.types.values import Type, tensor

WORD, FLAG = tensor(U32), tensor(BIT)
N = symbol(0)


def function(params: Sequence[Type], make: Callable[..., Node], dims: int = 0, **options: Any) -> Function:
    """Return a function whose result `make` builds from its parameter nodes; a type in a list is an owned one."""
    modes = [Parameter(p[0], "own") if isinstance(p, list) else Parameter(p) for p in params]
    nodes = [param(place, parameter.type) for place, parameter in enumerate(modes)]
    return Function(dims, tuple(modes), make(*nodes), **options)


def op(kind: str, *inputs: Node, type_: Type | None = None, **attributes: Any) -> Node:
    """Return a primitive node; its type is that of the first input unless given."""
    return node(kind, inputs, attributes, type_ or inputs[0].type)


def word(value: int) -> Node:
    return const(value, U32)


def add(x: Node, y: Node) -> Node:
    return op("add", x, y)


def lt(x: Node, y: Node) -> Node:
    return op("lt", x, y, type_=FLAG)


def words(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


def check(f: Function, *arguments: Any, dims: Sequence[int] = (), **options: Any) -> Any:
    """Evaluate, compare with the plain interpreter bit for bit, and return the result."""
    given = [np.asarray(argument).copy() for argument in arguments]
    result = prepare(f, dims, **options)(*given)
    wanted = interpret(f, [np.asarray(argument) for argument in arguments], tuple(dims), options.get("ideal", False))
    same(result, wanted)
    if not options.get("donated"):
        same(tuple(given), tuple(arguments))  # what was not donated is as it was
    return result


def same(result: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        assert len(result) == len(wanted)
        for pair in zip(result, wanted, strict=True):
            same(*pair)
        return
    result, wanted = np.asarray(result), np.asarray(wanted)
    assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
    assert np.array_equal(bits(result), bits(wanted)), (result, wanted)


def bits(array: np.ndarray) -> np.ndarray:
    """Return the bits of an array, any NaN as the same one."""
    if array.dtype.kind != "f":
        return array
    whole = np.ascontiguousarray(array).view(f"u{array.itemsize}")
    return np.where(np.isnan(array), np.uint64(1) << np.uint64(63), whole)


def zero_words(n: int) -> Node:
    return op("fill", word(0), type_=tensor(U32, n), shape=(dim(n),))
