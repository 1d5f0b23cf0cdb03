"""The plainest evaluator of graphs: recursion, Python loops, one element at a time, a copy for every update.

It is the oracle of the tests beside it: no batch axes, no folding, no order to choose, nothing in place.
"""

from typing import Any

import numpy as np

from bittern.graph.node import Blob, Function, Node
from bittern.ops.table import Site, ops
from bittern.types.dims import Dim, dim
from bittern.types.values import Tensor, Tuple, storage_shape

Value = Any  # an array, or a tuple of values


def interpret(function: Function, arguments: list[Value], dims: tuple[int, ...] = (), ideal: bool = False) -> Value:
    """Return the value of a function's own graph."""
    return _Frame(arguments, dims, ideal).value(function.result)


class _Frame:
    def __init__(self, arguments: list[Value], dims: tuple[int, ...], ideal: bool) -> None:
        self.arguments, self.dims, self.ideal = arguments, dims, ideal
        self.known: dict[bytes, Value] = {}

    def value(self, node: Node) -> Value:
        if node.id not in self.known:
            self.known[node.id] = self.compute(node)
        return self.known[node.id]

    def compute(self, node: Node) -> Value:
        if node.kind == "param":
            return self.arguments[node["index"]]
        if node.kind == "const":
            return self.constant(node)
        inputs = [self.value(source) for source in node.inputs]
        if node.kind == "tuple":
            return tuple(inputs)
        if node.kind == "item":
            return inputs[0][node["index"]]
        structural = getattr(self, f"run_{node.kind}", None)
        return structural(node, inputs) if structural else self.run_op(node, inputs)

    def constant(self, node: Node) -> Value:
        data, type_ = node["data"], node.type
        assert isinstance(data, Blob) and isinstance(type_, Tensor)
        array = np.frombuffer(bytes(data.read()), type_.element.storage).reshape(storage_shape(type_))
        return array.astype(np.float64) if self.ideal and type_.element.is_float else array

    def body(self, function: Function, arguments: list[Value]) -> Value:
        return interpret(function, arguments, self.dims, self.ideal)

    def run_call(self, node: Node, inputs: list[Value]) -> Value:
        function = node["function"]
        if self.ideal and function.ideal is not None:
            function = function.ideal
        return interpret(function, inputs, tuple(size.value(self.dims) for size in node["dims"]), self.ideal)

    def run_if(self, node: Node, inputs: list[Value]) -> Value:
        return self.body(node["then"] if inputs[0] else node["otherwise"], inputs[1:])

    def run_for(self, node: Node, inputs: list[Value]) -> Value:
        low, high, *rest = inputs
        carries = node["carries"]
        state, captures = rest[:carries], rest[carries:]
        for index in range(int(low), int(high)):
            result = self.body(node["body"], [np.array(index, np.uint32), *state, *captures])
            state = list(result) if isinstance(node.type, Tuple) else [result]
        return tuple(state) if isinstance(node.type, Tuple) else state[0]

    def run_while(self, node: Node, inputs: list[Value]) -> Value:
        limit, *rest = inputs
        carries = node["carries"]
        state, captures = rest[:carries], rest[carries:]
        for _ in range(int(limit)):
            if not self.body(node["test"], [*state, *captures]):
                break
            result = self.body(node["body"], [*state, *captures])
            state = list(result) if isinstance(node.type, Tuple) else [result]
        return tuple(state) if isinstance(node.type, Tuple) else state[0]

    def run_map(self, node: Node, inputs: list[Value]) -> Value:
        count, mapped = node["count"].value(self.dims), node["mapped"]
        rows = [
            self.body(node["body"], [*(array[i] for array in inputs[:mapped]), *inputs[mapped:]]) for i in range(count)
        ]
        if isinstance(node.type, Tuple):
            return tuple(np.stack([np.asarray(row[i]) for row in rows]) for i in range(len(node.type.items)))
        if not rows:
            return np.zeros(storage_shape(node.type, self.dims), np.dtype(node.type.element.storage))
        return np.stack([np.asarray(row) for row in rows])

    def run_op(self, node: Node, inputs: list[Value]) -> Value:
        row = ops()[node.kind]
        attributes = {name: self.number(value) for name, value in node.attributes}
        site = Site(0, tuple(self.type(source) for source in node.inputs), self.type(node), attributes, self.ideal)
        meaning = row.ideal if self.ideal and row.ideal else row.meaning
        with np.errstate(all="ignore"):
            return np.array(meaning(site, *inputs))

    def type(self, node: Node) -> Tensor:
        assert isinstance(node.type, Tensor)
        return Tensor(node.type.element, tuple(dim(size.value(self.dims)) for size in node.type.shape))

    def number(self, value: Any) -> Any:
        if isinstance(value, Dim):
            return value.value(self.dims)
        return tuple(self.number(part) for part in value) if isinstance(value, tuple) else value
