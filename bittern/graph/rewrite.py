"""Rebuilding functions: nodes changed everywhere, dimensions put in, calls replaced by what they call.

A graph is never changed: what comes out is new where something differs and the very same objects where nothing does, so
the ids tell what a rewrite touched. Labels follow their nodes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from bittern.graph.node import Attribute, Function, Labels, Node, Parameter, node, param, walk
from bittern.graph.rules import result_type
from bittern.types.dims import Dim, symbol
from bittern.types.values import Tensor, Type
from bittern.types.values import substitute as substitute_type

Change: TypeAlias = Callable[[Node], Node]


def map_nodes(function: Function, change: Change) -> Function:
    """Return the function with every node changed, those of its bodies, callees and ideal bodies included.

    change: gets each node once, after its inputs and functions were changed, and returns what takes its place. Where a
    type changes, the types of the users follow by their rules (TypeFault if they cannot).
    """
    return _Rebuild(change).function(function)


def replace_nodes(result: Node, changed: Mapping[bytes, Node]) -> Node:
    """Return a graph with the nodes of these ids replaced by others of the same type; bodies are not entered."""
    if all(key == new.id for key, new in changed.items()):
        return result
    fresh: dict[bytes, Node] = {}
    for current in walk(result):
        if current.id in changed:
            fresh[current.id] = changed[current.id]
            continue
        inputs = tuple(fresh[i.id] for i in current.inputs)
        same = all(new is old for new, old in zip(inputs, current.inputs, strict=True))
        fresh[current.id] = current if same else node(current.kind, inputs, dict(current.attributes), current.type)
    return fresh[result.id]


def substitute_dims(function: Function, dims: Sequence[Dim], count: int) -> Function:
    """Return the instance of a function with dimension parameter i replaced by dims[i].

    dims: one for each parameter, in the symbols of a setting that has `count` parameters. Callees keep their own
    parameters; what the calls give them is replaced. Facts that become true leave.
    """
    assert len(dims) == function.dims, (function, dims)
    if count == function.dims and all(new == old for new, old in zip(dims, map(symbol, range(count)), strict=True)):
        return function
    return _Instance(tuple(dims), function.dims, count).function(function)


def inline(call: Node) -> Node:
    """Return what a call computes as nodes of the caller: the callee's graph with dimensions and arguments put in.

    What the callee would be for the f64 reference (its ideal body) is given up with its identity.
    """
    callee, dims = call["function"], call["dims"]
    assert call.kind == "call" and isinstance(callee, Function) and isinstance(dims, tuple), call
    sizes = [size for size in dims if isinstance(size, Dim)]
    instance = _Instance(tuple(sizes), callee.dims, callee.dims).graph(callee.result)
    types = [substitute_type(parameter.type, sizes) for parameter in callee.params]
    return replace_nodes(
        instance, {param(i, t).id: given for i, (t, given) in enumerate(zip(types, call.inputs, strict=True))}
    )


@dataclass(slots=True)
class _Rebuild:
    """One rewrite: what has become of each node and function."""

    change: Change
    nodes: dict[bytes, Node] = field(default_factory=dict)
    functions: dict[bytes, Function] = field(default_factory=dict)

    def function(self, old: Function) -> Function:
        """Return what becomes of a function."""
        known = self.functions.get(old.id)
        if known is None:
            result = self.graph(old.result)
            ideal = None if old.ideal is None else self.function(old.ideal)
            known = self.finish(old, result, ideal)
            if known.id == old.id:
                known = old
            self.functions[old.id] = known
        return known

    def finish(self, old: Function, result: Node, ideal: Function | None) -> Function:
        """Return the function of a new result."""
        return replace(old, result=result, ideal=ideal, labels=self.labels(old.labels))

    def labels(self, old: Labels) -> Labels:
        """Return labels that follow their nodes."""
        names = {self.nodes[key].id if key in self.nodes else key: name for key, name in old.nodes.items()}
        lines = {self.nodes[key].id if key in self.nodes else key: line for key, line in old.lines.items()}
        return replace(old, nodes=names, lines=lines)

    def graph(self, result: Node) -> Node:
        """Return what becomes of a node, after all that it depends on."""
        for current in walk(result):
            if current.id not in self.nodes:
                self.nodes[current.id] = self.change(self.rebuild(current))
        return self.nodes[result.id]

    def rebuild(self, old: Node) -> Node:
        """Return the node with changed inputs, attributes and type."""
        inputs = tuple(self.nodes[i.id] for i in old.inputs)
        attributes = {name: self.attribute(old, value) for name, value in old.attributes}
        same = all(new is before for new, before in zip(inputs, old.inputs, strict=True))
        if same and all(attributes[name] is value for name, value in old.attributes):
            return old
        return node(old.kind, inputs, attributes, self.type(old, inputs, attributes))

    def attribute(self, old: Node, value: Attribute) -> Attribute:
        """Return what becomes of an attribute."""
        return self.function(value) if isinstance(value, Function) else value

    def type(self, old: Node, inputs: Sequence[Node], attributes: Mapping[str, Attribute]) -> Type:
        """Return the new type: the old one while all that the rule depends on has its old type."""
        pairs = [(new.type, before.type) for new, before in zip(inputs, old.inputs, strict=True)]
        for name, value in old.attributes:
            fresh = attributes[name]
            if isinstance(value, Function) and isinstance(fresh, Function):
                pairs.append((fresh.result.type, value.result.type))
        if all(new == before for new, before in pairs):
            return old.type
        return result_type(old.kind, [i.type for i in inputs], attributes)


class _Instance(_Rebuild):
    """The rewrite that puts dimensions in. before, after: numbers of dimension parameters."""

    def __init__(self, dims: tuple[Dim, ...], before: int, after: int) -> None:
        super().__init__(lambda made: made)
        self.dims, self.before, self.after = dims, before, after

    def finish(self, old: Function, result: Node, ideal: Function | None) -> Function:
        """Return the function of a new result; its parameters and facts have the new dimensions."""
        params = tuple(Parameter(substitute_type(p.type, self.dims), p.mode) for p in old.params)
        facts = [(top.substitute(self.dims), bottom.substitute(self.dims)) for top, bottom in old.facts]
        return Function(
            self.after if old.dims == self.before else old.dims,
            params,
            result,
            tuple((top, bottom) for top, bottom in facts if (top % bottom).constant != 0),
            old.effects,
            ideal,
            replace(self.labels(old.labels), dims=()),
        )

    def attribute(self, old: Node, value: Attribute) -> Attribute:
        """Return an attribute with the dimensions put in; a callee stays, a body is entered."""
        if isinstance(value, Function):
            return value if old.kind == "call" else self.function(value)
        if isinstance(value, Dim):
            return value.substitute(self.dims)
        if isinstance(value, Tensor):
            return substitute_type(value, self.dims)  # type: ignore[return-value]
        if isinstance(value, tuple):
            return tuple(self.attribute(old, part) for part in value)
        return value

    def rebuild(self, old: Node) -> Node:
        """Return the node with the dimensions put in, type included."""
        inputs = tuple(self.nodes[i.id] for i in old.inputs)
        attributes = {name: self.attribute(old, value) for name, value in old.attributes}
        return node(old.kind, inputs, attributes, substitute_type(old.type, self.dims))
