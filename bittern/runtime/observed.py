"""Looking into a network while it runs: a function whose results are the values of chosen nodes.

A value that is a result must be written to memory, so a plan that would have kept it inside a joined launch is cut
there: what is observed is computed by the same kernels, but less of it is joined. Whoever compares observed values
therefore also compares the outputs of the program as it is.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.chips.chip import LoadedFunction
from bittern.front.network.assembly import BATCH
from bittern.graph.evaluate import prepare
from bittern.graph.node import Function, Node, make_tuple, walk
from bittern.types.values import Tensor

Array = npt.NDArray[Any]

_UNSEEN = ("param", "const", "tuple", "item")


@dataclass(frozen=True, slots=True)
class Point:
    """A node whose value can be observed. label: as people call it, '' if they do not."""

    label: str
    node: Node

    @property
    def name(self) -> str:
        """The label, or the kind of the node with the start of its id."""
        return self.label or f"{self.node.kind} {self.node.id.hex()[:8]}"


def points(function: Function) -> list[Point]:
    """Return the nodes that depend on an input and have the batch in front, inputs before users."""
    computed: set[bytes] = set()
    found = []
    for each in walk(function.result):
        if each.kind == "param" or any(i.id in computed for i in each.inputs):
            computed.add(each.id)
            is_seen = isinstance(each.type, Tensor) and each.type.shape[:1] == (BATCH,) and each.kind not in _UNSEEN
            if is_seen:
                found.append(Point(function.labels.nodes.get(each.id, ""), each))
    return found


def observing(function: Function, nodes: Sequence[Node]) -> Function:
    """Return the function whose results are the values of these nodes."""
    assert nodes, function
    result = nodes[0] if len(nodes) == 1 else make_tuple(nodes)
    return replace(function, result=result, ideal=None)


def observed(loaded: LoadedFunction, nodes: Sequence[Node], inputs: Sequence[Array]) -> dict[bytes, Array]:
    """Return the values of nodes by id. loaded: their `observing` function, prepared for a chip."""
    return {node.id: value for node, value in zip(nodes, loaded.run(list(inputs)), strict=True)}


def evaluated(function: Function, nodes: Iterable[Node], inputs: Sequence[Array]) -> dict[bytes, Array]:
    """Return the values of any tensors of a function, constants too, by the strict evaluator."""
    wanted = list({each.id: each for each in nodes}.values())
    if not wanted:
        return {}
    tapped = observing(function, wanted)
    made = prepare(tapped, (len(inputs[0]),))(*inputs)
    values = made if isinstance(made, tuple) else (made,)
    return {node.id: np.asarray(value) for node, value in zip(wanted, values, strict=True)}


def named(found: Sequence[Point]) -> Mapping[str, Point]:
    """Return the points by their labels, those alone that only one of them has."""
    counts: dict[str, int] = {}
    for each in found:
        counts[each.label] = counts.get(each.label, 0) + 1
    return {each.label: each for each in found if each.label and counts[each.label] == 1}
