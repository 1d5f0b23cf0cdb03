"""Constants of a network: what depends on no input is computed once, through calls and quantisers, however large.

Weights that a graph quantises by itself become codes, and scales made of other scales become numbers. The evaluator
computes them, with the bits of the contract. Arrays that repeat one value over the batch stay as they are; a result in
which arithmetic made a NaN is left to run time, because its bits differ from chip to chip.
"""

import numpy as np

from bittern.base.errors import BitternError
from bittern.graph.evaluate import evaluate
from bittern.graph.node import Function, Node, const, walk
from bittern.ops.convert import widened
from bittern.passes.known import is_open
from bittern.passes.rewriting import map_graph
from bittern.types.values import Tensor

_KEPT = ("param", "const", "fill", "broadcast", "iota", "tuple", "item")
_MOST = 1 << 28  # values of a constant


def fold_constants(function: Function) -> tuple[Function, tuple[str, ...]]:
    """Return a function of the same bits whose constants are computed, and the labels of what was."""
    closed: set[bytes] = set()
    for each in walk(function.result):
        if each.kind != "param" and all(i.id in closed for i in each.inputs):
            closed.add(each.id)
    made: dict[bytes, str] = {}
    outer = {i.id for each in walk(function.result) if each.id not in closed for i in each.inputs}

    def change(current: Node, old: Node) -> Node:
        if old.id not in closed or old.id not in outer:
            return current
        found = _computed(current)
        if found is None:
            return current
        made[old.id] = function.labels.nodes.get(old.id) or f"{old.kind} {old.id.hex()[:8]}"
        return found

    return map_graph(function, change), tuple(made.values())


def _computed(of: Node) -> Node | None:
    """Return the constant that a node is, or None."""
    type_ = of.type
    if of.kind in _KEPT or not isinstance(type_, Tensor) or is_open(type_.element) or type_.element.is_format:
        return None
    sizes = [size.constant for size in type_.shape]
    if None in sizes or int(np.prod([size or 0 for size in sizes], dtype=np.int64)) > _MOST:
        return None
    try:
        array = evaluate(Function(0, (), of), [])
    except BitternError:
        return None
    if type_.element.is_float and bool(np.isnan(widened(type_.element, array)).any()):
        return None
    made = const(array, type_.element)
    return made if made.type == type_ else None
