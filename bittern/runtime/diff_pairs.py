"""Which value of one graph is which of the other: by labels, by identity, and by where they stand in the graph."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bittern.graph.node import Node
from bittern.passes.applied import applied
from bittern.passes.known import array_of, is_constant, number_of
from bittern.runtime.observed import Point, named
from bittern.types.values import Tensor

_SIMPLE = (int, str)


@dataclass(frozen=True, slots=True)
class Pair:
    """One value on both sides. left, right: the points. label: of either."""

    left: Point
    right: Point

    @property
    def label(self) -> str:
        """The label of the left point, or of the right one."""
        return self.left.label or self.right.label

    @property
    def name(self) -> str:
        """The label, or what the left node is called without one."""
        return self.label or self.left.name


def paired(left: Sequence[Point], right: Sequence[Point]) -> list[Pair]:
    """Return the pairs, in the order of the left graph.

    Nodes with one label are a pair, and nodes with one id. Then what pairs are made of: their inputs, place by place,
    as long as both do the same kind of work.
    """
    by_label = named(right)
    by_id = {each.node.id: each for each in right}
    lefts = {each.node.id: each for each in left}
    own = named(left)
    found: dict[bytes, Point] = {}
    for each in left:
        other = by_label.get(each.label) if each.label in own else None
        if other is None and (same := by_id.get(each.node.id)) is not None and not (each.label and same.label):
            other = same
        if other is not None:
            found[each.node.id] = other
    taken = {each.node.id for each in found.values()}
    for start in reversed([*left]):
        if start.node.id in found:
            _descend(start.node, found[start.node.id].node, lefts, by_id, found, taken)
    return [Pair(each, found[each.node.id]) for each in left if each.node.id in found]


def _descend(
    left: Node,
    right: Node,
    lefts: dict[bytes, Point],
    rights: dict[bytes, Point],
    found: dict[bytes, Point],
    taken: set[bytes],
) -> None:
    """Pair the inputs of a pair, and theirs, until the graphs part."""
    stack = [(left, right)]
    while stack:
        one, other = stack.pop()
        if one.kind != other.kind or len(one.inputs) != len(other.inputs):
            continue
        for mine, theirs in zip(one.inputs, other.inputs, strict=True):
            is_open = mine.id in lefts and theirs.id in rights and mine.id not in found and theirs.id not in taken
            if is_open and mine.kind == theirs.kind and not (lefts[mine.id].label and rights[theirs.id].label):
                found[mine.id] = rights[theirs.id]
                taken.add(theirs.id)
                stack.append((mine, theirs))


def _work(node: Node) -> str:
    layer = applied(node)
    return layer.name if layer is not None else node.kind


def span(pair: Pair, pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs without a label that lead to a labelled one, and come after all labelled ones before it."""
    inside: set[bytes] = set()
    labelled = {each.left.node.id for each in pairs if each.label}
    stack = [pair.left.node]
    while stack:
        current = stack.pop()
        for each in current.inputs:
            if each.id not in inside and each.id not in labelled:
                inside.add(each.id)
                stack.append(each)
    return [each for each in pairs if each.left.node.id in inside and not each.label]


def causes(pair: Pair) -> list[str]:
    """Return how two nodes that make one value differ in themselves: their work, attributes and constants."""
    left, right = pair.left.node, pair.right.node
    if left.id == right.id:
        return []
    one, other = applied(left), applied(right)
    if _work(left) != _work(right):
        return [f"the left graph has `{_work(left)}` here, the right one `{_work(right)}`"]
    names: list[str] = []
    pairs = zip(left.inputs, right.inputs, strict=False)
    if one is not None and other is not None:
        names = list(one.call["function"].labels.params)  # type: ignore[union-attr]
        pairs = zip(one.arguments, other.arguments, strict=False)
    told = [] if one is not None else _attributes(left, right)
    for place, (mine, theirs) in enumerate(pairs):
        if mine.id != theirs.id and is_constant(mine) and is_constant(theirs):
            told.append(_constants(names[place] if place < len(names) else f"operand {place}", mine, theirs))
    return told


def _attributes(left: Node, right: Node) -> list[str]:
    mine, theirs = dict(left.attributes), dict(right.attributes)
    told = []
    for name, value in mine.items():
        other = theirs.get(name)
        if value != other and not isinstance(value, bytes) and name not in ("body", "function"):
            told.append(f"`{name}` is {_text(value)} on the left and {_text(other)} on the right")
    return told


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_text, value))}]"
    return str(getattr(value, "name", value))


def _constants(name: str, left: Node, right: Node) -> str:
    mine, theirs = (array_of(each) if each.kind == "const" else number_of(each) for each in (left, right))
    shapes = [list(each.shape) if each is not None else [] for each in (mine, theirs)]
    assert isinstance(left.type, Tensor), left
    if mine is None or theirs is None or mine.shape != theirs.shape:
        return f"the constants `{name}` have shapes {shapes[0]} and {shapes[1]}"
    places = np.argwhere(mine != theirs)
    if not len(places):
        return f"the constants `{name}` differ in their bits"
    first = tuple(int(k) for k in places[0])
    where = f" at {list(first)}" if first else ""
    return f"the constants `{name}` differ in {len(places)} values, first{where}: {mine[first]} and {theirs[first]}"
