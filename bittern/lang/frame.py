"""Frames and scopes: where names live while a body is elaborated, and how outer values enter a body.

A function and every body of `map`, `for`, `while` and `if` is a frame with parameters of its own. A name found in an
outer frame is captured: its leaf becomes an input of the body's node and a parameter of the body. Values that depend on
no parameter (constants, sizes) are not captured; the body names the same node.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from bittern.graph.node import Function, Node, Parameter, make_tuple, param, walk
from bittern.graph.rewrite import replace_nodes
from bittern.lang.source import Span
from bittern.lang.values import Value
from bittern.types.values import Type


@dataclass(slots=True, eq=False)
class Binding:
    """What a name stands for. value: None after an error (poison).

    moved: where an owned value was given away, or where the owner of a borrowed one was. owner: in the second case, the
    name that it was borrowed from.
    """

    value: Value | None
    span: Span
    moved: Span | None = None
    owner: str = ""


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


_closed: "WeakKeyDictionary[Node, bool]" = WeakKeyDictionary()  # lives as long as the node


def is_closed(leaf: Node) -> bool:
    """Whether a node depends on no parameter."""
    stack = [leaf]
    while stack:
        current = stack[-1]
        waiting = [i for i in current.inputs if i not in _closed]
        if waiting:
            stack.extend(waiting)
            continue
        if current not in _closed:
            _closed[current] = current.kind != "param" and all(_closed[i] for i in current.inputs)
        stack.pop()
    return _closed[leaf]


@dataclass(slots=True, eq=False)
class Scope:
    """Names of one block. Inner scopes hide outer ones; `frame` is where the values of this scope live.

    body: the kind of body that begins here (`map`, `for`, `while`, `if` or `each`), '' for a function or a plain block.
    """

    frame: Frame
    parent: "Scope | None" = None
    body: str = ""
    names: dict[str, Binding] = field(default_factory=dict)

    def chain(self) -> "Iterator[Scope]":
        """Yield this scope and those around it, from the inside out."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def find(self, name: str) -> "tuple[Binding, Scope] | None":
        """Return the binding of a name and the scope that holds it."""
        return next(((scope.names[name], scope) for scope in self.chain() if name in scope.names), None)

    def bodies_below(self, home: "Scope") -> list[str]:
        """Return the kinds of the bodies between this scope and one around it, from the inside out."""
        found = []
        for scope in self.chain():
            if scope is home:
                break
            if scope.body:
                found.append(scope.body)
        return found

    def visible(self) -> list[str]:
        """Return all names that can be seen here."""
        return [name for scope in self.chain() for name in scope.names]

    def bindings(self) -> Iterator[Binding]:
        """Yield all bindings here and around, hidden ones too."""
        for scope in self.chain():
            yield from scope.names.values()

    def bind(self, name: str, value: Value | None, span: Span) -> None:
        """Let a name stand for a value from here on; `_` binds nothing."""
        if name != "_":
            self.names[name] = Binding(value, span)

    def read(self, binding: Binding, home: "Scope") -> Value:
        """Return a found value as this scope's frame sees it."""
        assert binding.value is not None
        return binding.value.with_leaves([self.frame.bring(leaf, home.frame) for leaf in binding.value.leaves])
