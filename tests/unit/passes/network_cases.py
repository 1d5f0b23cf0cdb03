"""What the tests of the passes of networks share: small networks, all values of a source, the comparison of bits."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bittern.front.network.assembly import Assembly
from bittern.graph.evaluate import evaluate
from bittern.graph.node import Function, Node, walk
from bittern.lang.library import Library
from bittern.passes.network import Report, integer_only
from bittern.types.elements import ELEMENTS
from bittern.types.values import Tensor

Array = np.ndarray[Any, Any]
LIBRARY = Library.standard()

Draw = Callable[[Assembly, Node], Node]


def network(element: str, shape: tuple[int, ...], draw: Draw) -> Function:
    """Return the function of a network of one input. draw: from the input, [b, ...], to the result."""
    a = Assembly(LIBRARY)
    return a.network("network", {"result": draw(a, a.input("x", element, shape))}).function


def all_values(element: str, channels: int) -> Array:
    """Return every value of an element of at most 16 bits in every channel: [values, channels]."""
    row = ELEMENTS[element]
    values = np.array([-1, 1]) if element == "b1" else np.arange(row.low, row.high + 1)
    return np.repeat(values[:, None], channels, axis=1).astype(row.storage)


def run(function: Function, *inputs: Array) -> Array:
    """Evaluate a network's function on a batch."""
    made: Array = evaluate(function, list(inputs), [len(inputs[0])])
    return made


def folded(function: Function, *inputs: Array, without: tuple[str, ...] = ()) -> tuple[Function, Report]:
    """Return what the passes make of a network, and show that it has the same bits on inputs."""
    made, report = integer_only(function, LIBRARY, without=without)
    assert same(function, made, *inputs)
    return made, report


def same(left: Function, right: Function, *inputs: Array) -> bool:
    """Whether two functions have the same bits on inputs."""
    first, second = run(left, *inputs), run(right, *inputs)
    return first.dtype == second.dtype and first.tobytes() == second.tobytes()


def row(a: Assembly, values: Any, x: Node, element: str = "f32") -> Node:
    """Return a number for each channel, spread over an array."""
    return a.spread(a.constant(np.asarray(values), element), x)


def real(a: Assembly, x: Node) -> Node:
    """Return whole numbers as f32."""
    return a.op("convert", x, to="f32")


def norm(a: Assembly, y: Node, seed: int, *, rises: bool = False) -> Node:
    """Return a batch norm as it is written: (y - mean) / sqrt(variance + eps) * gain + shift."""
    rng = np.random.default_rng(seed)
    assert isinstance(y.type, Tensor)
    c = y.type.shape[-1].constant
    gain, shift, mean = (rng.standard_normal(c).astype(np.float32) for _ in range(3))
    gain = np.abs(gain) + np.float32(0.01) if rises else gain
    variance = rng.random(c).astype(np.float32) * 4 + np.float32(0.1)
    spread = a.op("sqrt", a.op("add", a.constant(variance, "f32"), a.constant(np.full(c, 1e-5, np.float32), "f32")))
    y = a.op("div", a.op("sub", y, row(a, mean, y)), a.spread(spread, y))
    return a.op("add", a.op("mul", y, row(a, gain, y)), row(a, shift, y))


def windows(a: Assembly, x: Node, size: int, stride: int = 1) -> Node:
    """Return windows of the two spatial axes of [b, h, w, c]."""
    x = a.op("windows", x, axis=1, size=size, stride=stride, dilation=1)
    return a.op("windows", x, axis=3, size=size, stride=stride, dilation=1)


def kinds(function: Function) -> list[str]:
    """Return the kinds of the function's own nodes."""
    return [each.kind for each in walk(function.result)]


def float_kinds(function: Function) -> list[str]:
    """Return the kinds of the function's own nodes that are floats and no constants."""
    return [
        each.kind
        for each in walk(function.result)
        if isinstance(each.type, Tensor) and each.type.element.is_float and each.kind not in ("const", "param")
    ]
