"""Comparing two functions: which nodes only one of them has, and where they first part.

Because ids are hashes of meaning, two graphs are compared in the time of walking them, and whatever has an id that both
know is equal with all that it depends on.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bittern.base.hashing import encode
from bittern.graph.facts import value_text
from bittern.graph.node import Function, Node, functions_of, walk
from bittern.types.values import text as type_text


@dataclass(frozen=True, slots=True)
class Difference:
    """What tells two functions apart.

    only_left, only_right: nodes that only one has, bodies and callees included, each after what it depends on.
    path: labels from the result to the place where they first part. what: how they differ there; '' if they are equal.
    left, right: the two nodes there, or None where the functions differ in something else than a node.
    """

    only_left: tuple[Node, ...]
    only_right: tuple[Node, ...]
    path: tuple[str, ...]
    what: str
    left: Node | None = None
    right: Node | None = None

    @property
    def is_equal(self) -> bool:
        """Whether the two functions have the same meaning."""
        return not self.what

    def __str__(self) -> str:
        if self.is_equal:
            return "equal"
        counts = f"{len(self.only_left)} nodes only left, {len(self.only_right)} only right"
        return f"{' > '.join(self.path)}: {self.what} ({counts})"


def difference(left: Function, right: Function) -> Difference:
    """Compare two functions. Of several differences the first one is that on which no other one depends."""
    mine, other = {n.id: n for n in nodes_of(left)}, {n.id: n for n in nodes_of(right)}
    only_left = tuple(n for key, n in mine.items() if key not in other)
    only_right = tuple(n for key, n in other.items() if key not in mine)
    if left.id == right.id:
        return Difference((), (), (), "")
    path: list[str] = []
    what, pair = _part(left, right, path)
    return Difference(only_left, only_right, tuple(path), what, *pair)


def nodes_of(function: Function) -> Iterator[Node]:
    """Yield every node of a function, its bodies, callees and ideal bodies, each once, after what it depends on."""
    seen: set[bytes] = set()
    known: set[bytes] = set()
    stack: list[tuple[Function, bool]] = [(function, False)]
    while stack:
        current, ready = stack.pop()
        if ready:
            for node in walk(current.result):
                if node.id not in known:
                    known.add(node.id)
                    yield node
        elif current.id not in seen:
            seen.add(current.id)
            stack.append((current, True))
            inner = [f for node in walk(current.result) for f in functions_of(node)]
            stack.extend((f, False) for f in [*inner, *([current.ideal] if current.ideal else [])])


_Pair = tuple[Node | None, Node | None]


def _part(left: Function, right: Function, path: list[str]) -> tuple[str, _Pair]:
    """Return how two different functions part, and the nodes there; the path grows on the way."""
    x, y = left.result, right.result
    path.append(left.name)
    while True:
        if left.result.id == right.result.id:
            return _part_of_functions(left, right, path)
        path.append(left.labels.nodes.get(x.id, x.kind))
        if x.kind != y.kind or len(x.inputs) != len(y.inputs):
            return f"{_shown(x)} and {_shown(y)}", (x, y)
        step = next(((a, b) for a, b in zip(x.inputs, y.inputs, strict=True) if a.id != b.id), None)
        if step is not None:
            x, y = step
            continue
        inner = _part_of_attributes(x, y)
        if isinstance(inner, str):
            return inner, (x, y)
        name, left, right = inner
        path.append(f"{name} {left.name}")
        x, y = left.result, right.result


def _part_of_attributes(x: Node, y: Node) -> str | tuple[str, Function, Function]:
    """Return how nodes of equal inputs differ, or the first functions of theirs that do."""
    mine, other = dict(x.attributes), dict(y.attributes)
    for name in sorted(mine.keys() | other.keys()):
        a, b = mine.get(name), other.get(name)
        if isinstance(a, Function) and isinstance(b, Function) and a.id != b.id:
            return name, a, b
        if encode(a) != encode(b):
            return f"{x.kind} with `{name}` {_told(a)} and {_told(b)}"
    return f"{x.kind} of type {type_text(x.type)} and {type_text(y.type)}"


def _part_of_functions(left: Function, right: Function, path: list[str]) -> tuple[str, _Pair]:
    """Return how functions of equal result differ."""
    for name in ("dims", "params", "facts", "effects"):
        a, b = getattr(left, name), getattr(right, name)
        if a != b:
            return f"`{name}` {a!r} and {b!r}", (None, None)
    if left.ideal is None or right.ideal is None:
        return "only one has an `ideal` body", (None, None)
    path.append("ideal")
    return _part(left.ideal, right.ideal, path)


def _told(value: object) -> str:
    return repr(value) if value is None or isinstance(value, Function) else value_text(value)


def _shown(x: Node) -> str:
    return f"{x.kind} of {len(x.inputs)} inputs"
