"""What is known of the range of a node without running it: whether it can be below zero."""

import numpy as np

from bittern.graph.node import Blob, Function, Node
from bittern.types.elements import Kind
from bittern.types.values import Tensor

_MOVES = ("reshape", "permute", "slice", "reverse", "windows", "broadcast", "take", "convert", "sqrt")
_ROUNDS = ("round_even", "floor", "ceil", "trunc")
_CLOSED = ("add", "mul", "div", "min", "concat", "pad", "sum", "max_of", "min_of")  # of numbers from 0 they make such
_POOLS = ("pooling.max_pool", "pooling.sum_pool")


def is_never_negative(node: Node, arguments: tuple[bool, ...] = ()) -> bool:
    """Whether every value of a node is 0 or more, or NaN. arguments: of the function around it, which are so."""
    if not isinstance(node.type, Tensor):
        return False
    element = node.type.element
    if element.kind in (Kind.UNSIGNED, Kind.BIT):
        return True
    if node.kind == "param":
        index = node["index"]
        return isinstance(index, int) and index < len(arguments) and arguments[index]
    if node.kind == "const":
        data = node["data"]
        assert isinstance(data, Blob), node
        values = np.frombuffer(data.read(), element.storage)
        return element.name in ("f32", "i32") and bool((values >= 0).all())
    if node.kind in (*_MOVES, *_ROUNDS):
        return is_never_negative(node.inputs[0], arguments)
    if node.kind == "max":
        return any(is_never_negative(each, arguments) for each in node.inputs)
    if node.kind == "map":
        body = node["body"]
        assert isinstance(body, Function), node
        return is_never_negative(body.result, tuple(is_never_negative(each, arguments) for each in node.inputs))
    if node.kind == "call":
        function = node["function"]
        assert isinstance(function, Function), node
        pools = function.name.startswith(_POOLS)
        return pools and is_never_negative(node.inputs[0], arguments)
    return node.kind in _CLOSED and all(is_never_negative(each, arguments) for each in node.inputs)
