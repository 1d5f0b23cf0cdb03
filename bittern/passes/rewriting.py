"""Rewriting one graph with the bodies in it, which is what every pass does. Labels follow their nodes.

Differs from `graph.rewrite` in what it leaves alone: callees and ideal bodies keep their identity.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from bittern.graph.node import Function, Labels, Node, functions_of, item, node, walk


def bodies_of(of: Node) -> Iterator[Function]:
    """Yield the bodies of a structural node; a callee is none."""
    if of.kind != "call":
        yield from functions_of(of)


def with_bodies(function: Function) -> Iterator[Node]:
    """Yield the nodes of a function and of all bodies in it."""
    stack = [function]
    while stack:
        for each in walk(stack.pop().result):
            yield each
            stack.extend(bodies_of(each))


def in_bodies(
    function: Function, change: Callable[[Function], Function], done: dict[bytes, Function] | None = None
) -> Function:
    """Return the function with a change made to every body, innermost first, and then to itself.

    change: keeps parameters and result type. Every body is changed once, however many nodes have it. done: what was
    made of functions by the same change before, which this call extends.
    """
    done = {} if done is None else done
    stack = [(function, False)]
    while stack:
        current, is_ready = stack.pop()
        if current.id in done:
            continue
        if is_ready:
            done[current.id] = change(_with_bodies(current, done))
        else:
            stack.append((current, True))
            stack.extend((body, False) for n in walk(current.result) for body in bodies_of(n))
    return done[function.id]


def _with_bodies(function: Function, done: Mapping[bytes, Function]) -> Function:
    if all(done[body.id] is body for n in walk(function.result) for body in bodies_of(n)):
        return function
    return map_graph(function, lambda current, _: with_functions(current, done))


def with_functions(old: Node, done: Mapping[bytes, Function]) -> Node:
    """Return a structural node with its bodies replaced, by id, by others of the same type."""
    if not any(done.get(body.id, body) is not body for body in bodies_of(old)):
        return old
    attributes = {k: done.get(v.id, v) if isinstance(v, Function) else v for k, v in old.attributes}
    return node(old.kind, old.inputs, attributes, old.type)


def map_graph(function: Function, change: Callable[[Node, Node], Node]) -> Function:
    """Return the function with every node of its own graph changed, each after its inputs.

    change: gets the node with its new inputs, and as it was before. What it gives with another type (sizes that are
    equal by the function's facts alone) is not taken.
    """
    fresh: dict[bytes, Node] = {}
    for old in walk(function.result):
        current = with_inputs(old, [fresh[i.id] for i in old.inputs])
        made = change(current, old)
        fresh[old.id] = made if made.type == old.type else current
    return finished(function, fresh)


def with_inputs(old: Node, inputs: Sequence[Node]) -> Node:
    """Return the node with other inputs of the same types; an item of a tuple that is at hand is that item."""
    if old.kind == "item":
        return old if inputs[0] is old.inputs[0] and inputs[0].kind != "tuple" else item(inputs[0], index_of(old))
    if all(new is before for new, before in zip(inputs, old.inputs, strict=True)):
        return old
    return node(old.kind, inputs, dict(old.attributes), old.type)


def finished(function: Function, fresh: Mapping[bytes, Node]) -> Function:
    """Return the function whose result has become another node. fresh: what became of each node, by its old id."""
    result = fresh[function.result.id]
    if result is function.result:
        return function
    return replace(function, result=result, labels=followed(function.labels, fresh, result))


def followed(labels: Labels, fresh: Mapping[bytes, Node], result: Node) -> Labels:
    """Return labels that follow their nodes; a node that had a label before keeps that one.

    Labels of nodes that went are dropped; those of nodes elsewhere (weights, inside bodies) stay.
    """
    alive = {n.id for n in walk(result)}
    names: dict[bytes, str] = {}
    lines: dict[bytes, tuple[str, int]] = {}
    for is_moved in (False, True):
        for key, name in labels.nodes.items():
            if _moved(key, fresh) is is_moved and (new := _place(key, fresh, alive)) is not None:
                names.setdefault(new, name)
        for key, line in labels.lines.items():
            if _moved(key, fresh) is is_moved and (new := _place(key, fresh, alive)) is not None:
                lines.setdefault(new, line)
    return replace(labels, nodes=names, lines=lines)


def _moved(key: bytes, fresh: Mapping[bytes, Node]) -> bool:
    return key in fresh and fresh[key].id != key


def _place(key: bytes, fresh: Mapping[bytes, Node], alive: set[bytes]) -> bytes | None:
    new = fresh.get(key)
    if new is None:
        return key
    return new.id if new.id in alive or new.kind == "const" else None


def put_in(result: Node, arguments: Sequence[Node]) -> tuple[Node, dict[bytes, Node]]:
    """Return a body's graph with its parameters replaced by values, and what became of each of its nodes."""
    fresh: dict[bytes, Node] = {}
    for old in walk(result):
        if old.kind == "param":
            fresh[old.id] = arguments[index_of(old)]
        else:
            fresh[old.id] = with_inputs(old, [fresh[i.id] for i in old.inputs])
    return fresh[result.id], fresh


def index_of(place: Node) -> int:
    """Return the index of a `param` or an `item`."""
    index = place["index"]
    assert isinstance(index, int), place
    return index


def joined_labels(labels: Labels, inner: Labels, fresh: Mapping[bytes, Node]) -> Labels:
    """Return labels with those of a graph that was put in, where its nodes are now."""
    names = {fresh[key].id: name for key, name in inner.nodes.items() if key in fresh}
    lines = {fresh[key].id: line for key, line in inner.lines.items() if key in fresh}
    return replace(labels, nodes={**names, **labels.nodes}, lines={**lines, **labels.lines})


Opened: TypeAlias = tuple[Node, Sequence[tuple[Function, Mapping[bytes, Node]]]]
"""What takes a node's place, and the bodies that are now part of the graph, each with what became of its nodes."""


def open_bodies(function: Function, change: Callable[[Node], Opened | None]) -> Function:
    """Return the function with nodes replaced by what is in their bodies; the labels inside come along.

    change: gets each node with its new inputs; None leaves it. Names of a body's nodes get the node's name in front.
    """
    fresh: dict[bytes, Node] = {}
    names: dict[bytes, str] = {}
    lines: dict[bytes, tuple[str, int]] = {}
    for old in walk(function.result):
        current = with_inputs(old, [fresh[i.id] for i in old.inputs])
        found = change(current)
        fresh[old.id] = current
        if found is None or found[0].type != old.type:
            continue
        fresh[old.id], opened = found
        prefix = function.labels.nodes.get(old.id, "")
        for place, (body, inner) in enumerate(opened):
            number = f"{prefix}:{place + 1}." if len(opened) > 1 else f"{prefix}."
            for key, name in body.labels.nodes.items():
                if key in inner:
                    names.setdefault(inner[key].id, f"{number}{name}" if prefix else name)
            for key, line in body.labels.lines.items():
                if key in inner:
                    lines.setdefault(inner[key].id, line)
    kept = finished(function, fresh)
    mine = kept.labels
    return replace(kept, labels=replace(mine, nodes={**names, **mine.nodes}, lines={**lines, **mine.lines}))


def users_of(function: Function) -> dict[bytes, list[tuple[Node, int]]]:
    """Return who reads each node of a function's own graph: (user, place among its inputs); the result has no entry."""
    users: dict[bytes, list[tuple[Node, int]]] = {}
    for n in walk(function.result):
        for place, source in enumerate(n.inputs):
            users.setdefault(source.id, []).append((n, place))
    return users


def count_nodes(function: Function) -> int:
    """Return how many nodes a function has, those of its bodies included, each body counted once for each node."""
    known: dict[bytes, int] = {}
    stack = [(function, False)]
    while stack:
        current, is_ready = stack.pop()
        if current.id in known:
            continue
        nodes = list(walk(current.result))
        if is_ready:
            known[current.id] = sum(1 + sum(known[body.id] for body in bodies_of(n)) for n in nodes)
        else:
            stack.append((current, True))
            stack.extend((body, False) for n in nodes for body in bodies_of(n))
    return known[function.id]
