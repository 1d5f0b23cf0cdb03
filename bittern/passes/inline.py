"""Inlining: a call whose callee has no kernel becomes the callee's graph.

The callee is a function of values, so putting its graph in the call's place with the arguments for its parameters is
the meaning of a call. What is given up is the callee's identity and its ideal body, for which only the reference asks.
Names stay: a node of the callee is called after the call and its own name there (`layer.3.block.scores`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bittern.base.errors import BitternError, code
from bittern.graph.layers import layers_of
from bittern.graph.node import Function, Labels, Node, walk
from bittern.graph.rewrite import substitute_dims
from bittern.passes.rewriting import bodies_of, count_nodes, finished, in_bodies, joined_labels, put_in, with_inputs
from bittern.passes.table import Context, Fact, Pass
from bittern.types.dims import Dim

TOO_LARGE = code("R140", "a program becomes too large when its calls are inlined")

_UNNAMED = ("param", "const", "size", "item", "tuple")


def _run(function: Function, context: Context) -> Function:
    flat = context.done.setdefault("callees put in", {})
    for callee in _callees(function, flat, context):
        flat[callee.id] = in_bodies(callee, lambda body: _inlined(body, flat, context))
    return _inlined(function, flat, context)


def _callee(of: Node) -> Function:
    callee = of["function"]
    assert isinstance(callee, Function), of
    return callee


def _callees(function: Function, flat: Mapping[bytes, Function], context: Context) -> Sequence[Function]:
    """Return the functions to put in that are not flat yet, each after those that it calls."""
    found: dict[bytes, Function] = {}
    seen: set[bytes] = set()
    stack = [(function, False)]
    while stack:
        current, is_ready = stack.pop()
        if is_ready:
            found.setdefault(current.id, current)
        elif current.id not in seen:
            seen.add(current.id)
            stack.append((current, True))
            for n in walk(current.result):
                stack.extend((body, False) for body in bodies_of(n))
                if n.kind == "call" and _callee(n).id not in flat and not context.has_kernel(_callee(n)):
                    stack.append((_callee(n), False))
    found.pop(function.id, None)
    return list(found.values())


def _inlined(function: Function, flat: Mapping[bytes, Function], context: Context) -> Function:
    """Return one graph with the calls of functions without a kernel replaced; bodies are not entered."""
    nodes = list(walk(function.result))
    if not any(n.kind == "call" and _callee(n).id in flat for n in nodes):
        return function
    names, instances = _Names(function), dict[tuple[bytes, object], Function]()
    fresh: dict[bytes, Node] = {}
    labels = Labels()
    for old in nodes:
        made = with_inputs(old, [fresh[i.id] for i in old.inputs])
        if old.kind == "call" and _callee(old).id in flat:
            key = (_callee(old).id, old["dims"])
            if key not in instances:
                instances[key] = _instance(flat[_callee(old).id], made, function.dims)
            callee = instances[key]
            made, inner = put_in(callee.result, made.inputs)
            labels = joined_labels(labels, _named(callee, names.of(old)), inner)
        fresh[old.id] = made
    kept = finished(function, fresh)
    _need_room(kept, context)
    mine = kept.labels
    return replace(
        kept, labels=replace(mine, nodes={**labels.nodes, **mine.nodes}, lines={**labels.lines, **mine.lines})
    )


def _need_room(made: Function, context: Context) -> None:
    size = count_nodes(made)
    if size > context.inlined_nodes:
        raise BitternError(
            TOO_LARGE,
            f"`{made.name}` has {size} nodes when the functions that it calls are put in their places, and at most "
            f"{context.inlined_nodes} are handled.",
            "Write repeated work as a loop or a map instead of calls.",
        )


def _instance(callee: Function, call: Node, dims: int) -> Function:
    sizes = call["dims"]
    assert isinstance(sizes, tuple), call
    return substitute_dims(replace(callee, ideal=None), [size for size in sizes if isinstance(size, Dim)], dims)


class _Names:
    """What the calls of a function are named: by their label, else by layer and callee; no name twice."""

    def __init__(self, function: Function) -> None:
        self.labels, self.layers = function.labels.nodes, layers_of(function)
        self.used: dict[str, int] = {}

    def of(self, call: Node) -> str:
        """Return the name of a call."""
        short = _short(call)
        layer = self.layers.get(call.id, "")
        name = self.labels.get(call.id) or (f"{layer}.{short}" if layer else short)
        return _numbered(name, self.used)


def _numbered(name: str, used: dict[str, int]) -> str:
    used[name] = used.get(name, 0) + 1
    return name if used[name] == 1 else f"{name}:{used[name]}"


def _named(callee: Function, name: str) -> Labels:
    """Return labels of a callee's own nodes in which every operation has a name that starts with the call's."""
    known, used = callee.labels.nodes, dict[str, int]()
    names = {}
    for n in walk(callee.result):
        if n.id in known:
            names[n.id] = f"{name}.{known[n.id]}"
        elif n.kind not in _UNNAMED:
            names[n.id] = _numbered(f"{name}.{_short(n)}", used)
    return replace(callee.labels, nodes=names)


def _short(of: Node) -> str:
    """Return what an operation is called: a call after its callee, a map around one call likewise, else by its kind."""
    if of.kind == "call":
        return _callee(of).name.partition("[")[0].rpartition(".")[2]
    if of.kind == "map":
        inner = [n for body in bodies_of(of) for n in walk(body.result) if n.kind in ("call", "map")]
        return _short(inner[0]) if len(inner) == 1 else of.kind
    return of.kind


def _left(function: Function, context: Context) -> Node | None:
    """Return a call whose callee has no kernel."""
    stack = [function]
    while stack:
        current = stack.pop()
        for n in walk(current.result):
            if n.kind == "call" and not context.has_kernel(_callee(n)):
                return n
            stack.extend(bodies_of(n))
    return None


PASS = Pass(
    "inline",
    "a call whose callee has no kernel becomes the callee's graph",
    ("operation", "algorithm family"),
    (Fact("flat", "every call that is left has a kernel", _left),),
    _run,
)
