"""Finding a node of a program by what people write: its label, its function and label, or the start of its id."""

import re
from collections.abc import Iterator, Mapping

from bittern.base.errors import BitternError, code, nearest
from bittern.graph.node import Function, Node, functions_of, walk

NO_NODE = code("R122", "the graph has no node of this name")
MANY_NODES = code("R123", "a name means several nodes of the graph")

_ID = re.compile(r"[0-9a-f]{6,64}")
_SHOWN = 6


def find_node(roots: Mapping[str, Function], name: str) -> tuple[Function, Node]:
    """Return the function and the node that a name means.

    name: a label such as `layer.3.q`, in the roots before all that they call; `FUNCTION/LABEL`, where the function is
    named by its root or its own name; or six digits or more of an id. Errors: R122 with the nearest names, R123.
    """
    wanted, mark, label = name.rpartition("/")
    places = list(_places(roots))
    if mark:
        places = [place for place in places if wanted in (place[0], place[1].labels.name)]
    is_id = bool(_ID.fullmatch(label))
    for group in (places[: len(roots)], places[len(roots) :]) if not mark else (places,):
        found = {n.id: (f, n) for _, f in group for n in walk(f.result) if _is_named(f, n, label)}
        if not found and is_id:
            found = {n.id: (f, n) for _, f in group for n in walk(f.result) if n.id.hex().startswith(label)}
        if len(found) > 1:
            raise _several(name, found)
        if found:
            return next(iter(found.values()))
    raise BitternError(NO_NODE, f"The graph has no node `{name}`.", _near(label, places))


def _places(roots: Mapping[str, Function]) -> Iterator[tuple[str, Function]]:
    """Yield the roots with their labels, then each function that they reach."""
    yield from roots.items()
    seen = {function.id for function in roots.values()}
    queue = list(roots.values())
    for function in queue:
        inner = [f for node in walk(function.result) for f in functions_of(node)]
        for callee in [*inner, *([function.ideal] if function.ideal else [])]:
            if callee.id not in seen:
                seen.add(callee.id)
                queue.append(callee)
                yield callee.labels.name, callee


def _is_named(function: Function, node: Node, label: str) -> bool:
    if node.kind == "param":
        index, names = node["index"], function.labels.params
        return isinstance(index, int) and index < len(names) and names[index] == label
    return function.labels.nodes.get(node.id) == label


def _several(name: str, found: Mapping[bytes, tuple[Function, Node]]) -> BitternError:
    shown = [f"`{n.id.hex()[:12]}` ({n.kind} in {f.name})" for f, n in list(found.values())[:_SHOWN]]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    what = f"`{name}` means {len(found)} nodes: {', '.join(shown)}{more}."
    return BitternError(MANY_NODES, what, "Give the start of an id, or FUNCTION/LABEL.")


def _near(label: str, places: list[tuple[str, Function]]) -> str:
    names = {text for _, f in places for text in (*f.labels.nodes.values(), *f.labels.params)}
    return nearest(label, sorted(names)) or "Labels such as `layer.3.q` and ids are shown by `bittern inspect --full`."
