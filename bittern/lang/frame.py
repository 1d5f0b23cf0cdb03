"""Frames and scopes: where names live while a body is elaborated, and how outer values enter a body.

A function and every body of `map`, `for`, `while` and `if` is a frame with parameters of its own. A name found in an
outer frame is captured: its leaf becomes an input of the body's node and a parameter of the body. Values that depend on
no parameter (constants, sizes) are not captured; the body names the same node.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from bittern.graph.node import Function, Node, Parameter, make_tuple, node, param, walk
from bittern.lang.source import Span
from bittern.lang.values import Value
from bittern.types.values import Type


@dataclass(slots=True, eq=False)
class Binding:
    """What a name stands for. value: None after an error (poison). moved: where an owned value was given away."""

    value: Value | None
    span: Span
    moved: Span | None = None


@dataclass(slots=True, eq=False)
class Frame:
    """One function or body while it is built.

    kind: `function`, `map`, `for`, `while` or `if`. types: its parameters before captures. captured: outer leaf ->
    parameter, in order of first use. tokens: the current token of each effect.
    """

    kind: str
    parent: "Frame | None"
    types: tuple[Type, ...]
    captured: dict[bytes, tuple[Node, Node]] = field(default_factory=dict)
    tokens: dict[str, Node] = field(default_factory=dict)

    def parameters(self) -> list[Node]:
        """Return the nodes of the parameters before captures."""
        return [param(index, type_) for index, type_ in enumerate(self.types)]

    def bring(self, leaf: Node, home: "Frame") -> Node:
        """Return a leaf that lives in the frame `home` as this frame sees it."""
        if home is self or is_closed(leaf):
            return leaf
        assert self.parent is not None, leaf
        outer = self.parent.bring(leaf, home)
        if outer.id not in self.captured:
            inner = param(len(self.types) + len(self.captured), outer.type)
            self.captured[outer.id] = (outer, inner)
        return self.captured[outer.id][1]

    def finish(self, leaves: Sequence[Node], dims: int) -> tuple[Function, list[Node]]:
        """Return the body as a function, and the captured leaves that it needs, in canonical order.

        The order is that in which a walk from the result meets them, so it does not depend on how the text is ordered.
        """
        (body,), captures = finish_together([(self, leaves)], dims)
        return body, captures


def finish_together(parts: Sequence[tuple[Frame, Sequence[Node]]], dims: int) -> tuple[list[Function], list[Node]]:
    """Finish bodies that take the same captures (both sides of an `if`, test and body of a `while`)."""
    results = [make_result(leaves) for _, leaves in parts]
    order: dict[bytes, Node] = {}
    for (frame, _), result in zip(parts, results, strict=True):
        outer = {inner.id: outside for outside, inner in frame.captured.values()}
        for current in walk(result):
            if current.id in outer:
                order.setdefault(outer[current.id].id, outer[current.id])
    captures = list(order.values())
    bodies = []
    for (frame, _), result in zip(parts, results, strict=True):
        start = len(frame.types)
        moved = {
            frame.captured[outside.id][1].id: param(start + place, outside.type)
            for place, outside in enumerate(captures)
            if outside.id in frame.captured
        }
        types = [*frame.types, *(outside.type for outside in captures)]
        bodies.append(Function(dims, tuple(Parameter(t) for t in types), replace_nodes(result, moved)))
    return bodies, captures


def make_result(leaves: Sequence[Node]) -> Node:
    """Return the leaves of a value as one node: the only leaf, or a tuple of them."""
    return leaves[0] if len(leaves) == 1 else make_tuple(leaves)


def replace_nodes(result: Node, changed: dict[bytes, Node]) -> Node:
    """Return the graph with the nodes of these ids replaced; nested bodies are not entered."""
    if all(key == value.id for key, value in changed.items()):
        return result
    fresh: dict[bytes, Node] = {}
    for current in walk(result):
        if current.id in changed:
            fresh[current.id] = changed[current.id]
            continue
        inputs = tuple(fresh[i.id] for i in current.inputs)
        same = all(a is b for a, b in zip(inputs, current.inputs, strict=True))
        fresh[current.id] = current if same else node(current.kind, inputs, dict(current.attributes), current.type)
    return fresh[result.id]


_closed: dict[bytes, bool] = {}


def is_closed(leaf: Node) -> bool:
    """Whether a node depends on no parameter."""
    known = _closed.get(leaf.id)
    if known is None:
        for current in walk(leaf):
            _closed[current.id] = current.kind != "param" and all(_closed[i.id] for i in current.inputs)
        known = _closed[leaf.id]
    return known


@dataclass(slots=True, eq=False)
class Scope:
    """Names of one block. Inner scopes hide outer ones; `frame` is where the values of this scope live."""

    frame: Frame
    parent: "Scope | None" = None
    names: dict[str, Binding] = field(default_factory=dict)

    def find(self, name: str) -> tuple[Binding, "Scope"] | None:
        """Return the binding of a name and the scope that holds it."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name], scope
            scope = scope.parent
        return None

    def visible(self) -> Iterator[str]:
        """Yield all names that can be seen here."""
        scope: Scope | None = self
        while scope is not None:
            yield from scope.names
            scope = scope.parent

    def bind(self, name: str, value: Value | None, span: Span) -> None:
        """Let a name stand for a value from here on; `_` binds nothing."""
        if name != "_":
            self.names[name] = Binding(value, span)

    def read(self, binding: Binding, home: "Scope") -> Value:
        """Return a found value as this scope's frame sees it."""
        assert binding.value is not None
        leaves = tuple(self.frame.bring(leaf, home.frame) for leaf in binding.value.leaves)
        return replace(binding.value, leaves=leaves)

