"""Structural nodes taken apart and put together again: which inputs their bodies take, and what comes out.

A `Parts` is a map, loop or branch as lists: inputs before the body's (bounds, limit, condition), those that differ from
round to round (mapped arrays or carries), captures, and the bodies with their results as lists.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bittern.graph.node import Function, Node, Parameter, choose, fold, item, make_tuple, map_over, param, repeat, walk
from bittern.graph.rewrite import replace_nodes
from bittern.passes.rewriting import index_of
from bittern.types.dims import Dim
from bittern.types.values import Tensor, Tuple, Type

STRUCTURED = ("map", "for", "while", "if")
_NAMES = {"map": ("body",), "for": ("body",), "while": ("test", "body"), "if": ("then", "otherwise")}
_BEFORE = {"map": 0, "for": 2, "while": 1, "if": 1}


@dataclass(slots=True)
class Parts:
    """A structural node in parts.

    before: inputs that no body takes. skipped: parameters of the bodies before `varying` (the index of a `for`).
    varying: mapped arrays of a map, carries of a loop. bodies: by attribute. results: of each body, as a list.
    modes: of each body's parameters, how it takes them (`own`, `&` or '').
    """

    kind: str
    before: list[Node]
    skipped: int
    varying: list[Node]
    captures: list[Node]
    bodies: dict[str, Function]
    count: Dim | None
    results: dict[str, list[Node]]
    modes: dict[str, list[str]]

    @property
    def first_capture(self) -> int:
        """The index of the first capture among the parameters of the bodies."""
        return self.skipped + len(self.varying)


def parts_of(of: Node) -> Parts:
    """Take a map, loop or branch apart."""
    before = _BEFORE[of.kind]
    varying = of["mapped"] if of.kind == "map" else of["carries"] if of.kind in ("for", "while") else 0
    assert isinstance(varying, int), of
    count = of["count"] if of.kind == "map" else None
    assert count is None or isinstance(count, Dim), of
    inputs = list(of.inputs)
    bodies = {name: body_of(of, name) for name in _NAMES[of.kind]}
    results = {name: items_of(body.result) if name != "test" else [body.result] for name, body in bodies.items()}
    split = before + varying
    skipped = 1 if of.kind == "for" else 0
    modes = {name: [p.mode for p in body.params] for name, body in bodies.items()}
    return Parts(of.kind, inputs[:before], skipped, inputs[before:split], inputs[split:], bodies, count, results, modes)


def body_of(of: Node, name: str = "body") -> Function:
    """Return a body by its attribute."""
    body = of[name]
    assert isinstance(body, Function), of
    return body


def items_of(value: Node) -> list[Node]:
    """Return the items of a tuple value, itself if it is none."""
    if not isinstance(value.type, Tuple):
        return [value]
    return [item(value, place) for place in range(len(value.type.items))]


def joined(items: Sequence[Node]) -> Node:
    """Return several values as one; one as itself."""
    return items[0] if len(items) == 1 else make_tuple(items)


def built(parts: Parts) -> Node:
    """Put parts together."""
    types = _types(parts)
    bodies = {
        name: replace(
            body,
            params=tuple(Parameter(t, mode) for t, mode in zip(types, parts.modes[name], strict=True)),
            result=parts.results[name][0] if name == "test" else joined(parts.results[name]),
        )
        for name, body in parts.bodies.items()
    }
    if parts.kind == "map":
        assert parts.count is not None
        return map_over(bodies["body"], parts.count, parts.varying, parts.captures)
    if parts.kind == "for":
        low, high = parts.before
        return fold(bodies["body"], low, high, parts.varying, parts.captures)
    if parts.kind == "while":
        return repeat(bodies["test"], bodies["body"], parts.before[0], parts.varying, parts.captures)
    return choose(parts.before[0], bodies["then"], bodies["otherwise"], parts.captures)


def _types(parts: Parts) -> list[Type]:
    inner = [i.type for i in parts.varying]
    if parts.kind == "map":
        inner = [item_type(t) for t in inner]
    index: list[Type] = [next(iter(parts.bodies.values())).params[0].type] if parts.skipped else []
    return [*index, *inner, *(c.type for c in parts.captures)]


def item_type(array: Type) -> Tensor:
    """Return the type of one element of an array's first axis."""
    assert isinstance(array, Tensor) and array.shape, array
    return Tensor(array.element, array.shape[1:], array.space)


def keep(parts: Parts, kept: Sequence[int], same: Mapping[int, int] | None = None) -> None:
    """Leave only some varying inputs and captures, by their place among both.

    same: places that are read as another one, which is kept.
    """
    total = parts.skipped + len(parts.varying) + len(parts.captures)
    places = {parts.skipped + old: parts.skipped + new for new, old in enumerate(kept)}
    places |= {parts.skipped + old: places[parts.skipped + other] for old, other in (same or {}).items()}
    inputs, split = [*parts.varying, *parts.captures], len(parts.varying)
    parts.varying = [inputs[i] for i in kept if i < split]
    parts.captures = [inputs[i] for i in kept if i >= split]
    for name, results in parts.results.items():
        parts.results[name] = _renumbered(results, places)
        chosen = [*range(parts.skipped), *(parts.skipped + i for i in kept)]
        assert all(i < total for i in chosen), (chosen, total)
        parts.modes[name] = [parts.modes[name][i] for i in chosen]


def _renumbered(results: Sequence[Node], places: Mapping[int, int]) -> list[Node]:
    joint = make_tuple(results)
    moved = {
        n.id: param(places[index_of(n)], n.type)
        for n in walk(joint)
        if n.kind == "param" and places.get(index_of(n), index_of(n)) != index_of(n)
    }
    return list(replace_nodes(joint, moved).inputs)


def read_params(results: Sequence[Node]) -> set[int]:
    """Return the indices of the parameters that values depend on."""
    return {index_of(n) for n in walk(make_tuple(results)) if n.kind == "param"}
