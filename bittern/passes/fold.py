"""Constant folding: what is computed from constants alone is computed now, by the evaluator, where that is small.

The evaluator has the bits of the contract. Two limits: the size of the result and the work for it (`Context`). An array
of one value stays as it is: it costs nothing. A result with a NaN that arithmetic made is left to run time, because its
bits differ from chip to chip.
"""

import numpy as np

from bittern.graph.cost import Costs, bytes_of
from bittern.graph.evaluate import evaluate
from bittern.graph.node import STRUCTURAL, Function, Node, const, make_tuple, walk
from bittern.ops.convert import widened
from bittern.ops.table import Array, ops
from bittern.passes.bodies import STRUCTURED
from bittern.passes.known import array_of, is_open, spread_of, symbols_in
from bittern.passes.rewriting import bodies_of
from bittern.passes.table import Context, Fact, Pass
from bittern.types.values import Tensor, Token, Tuple, Type

_KEPT = ("param", "const", "tuple", "item", "fill", "broadcast", "iota", "move", "call")
_COPIES = (
    "reshape",
    "permute",
    "reverse",
    "slice",
    "concat",
    "stack",
    "take",
    "blocks",
    "windows",
)  # of canonical NaNs


def _folded(of: Node, context: Context) -> Node | None:
    """Return the constant that a node is, or None."""
    if of.kind in _KEPT or not all(_is_known(i) for i in of.inputs):
        return None
    if not _is_small(of, context):
        return None
    leaves = evaluate(Function(0, (), of), [])
    arrays = list(leaves) if isinstance(of.type, Tuple) else [leaves]
    types = list(of.type.items) if isinstance(of.type, Tuple) else [of.type]
    made = [_constant(array, t, of.kind) for array, t in zip(arrays, types, strict=True)]
    if any(m is None for m in made):
        return None
    nodes = [m for m in made if m is not None]
    return make_tuple(nodes) if isinstance(of.type, Tuple) else nodes[0]


def _is_known(of: Node) -> bool:
    return of.kind == "iota" or (spread_of(of) or of).kind == "const"


def _is_small(of: Node, context: Context) -> bool:
    """Whether the result, what it is made from and the work are within the limits; symbolic sizes are not."""
    if not all(_is_plain(t) for t in (of.type, *(i.type for i in of.inputs))) or symbols_in(of):
        return False
    sizes = [bytes_of(of.type).constant, *(bytes_of(i.type).constant for i in of.inputs)]
    if any(size is None or size > context.folded_bytes for size in sizes) or 0 in sizes[1:]:
        return False
    if any(i.kind != "iota" and array_of(spread_of(i) or i) is None for i in of.inputs):
        return False
    if of.kind not in STRUCTURED:
        return of.kind in ops()
    if any(not _is_pure(body) for body in bodies_of(of)):
        return False
    cost = Costs().node(of)
    work = (cost.macs + cost.operations).constant
    return work is not None and work <= context.folded_work and not cost.note


def _is_pure(body: Function) -> bool:
    """Whether a body computes by known ops alone, and calls nothing."""
    return all(
        (n.kind in ops() or (n.kind in STRUCTURAL and n.kind != "call")) and all(map(_is_pure, bodies_of(n)))
        for n in walk(body.result)
    )


def _is_plain(type_: Type) -> bool:
    """Whether a value of the type is arrays of known size and element."""
    if isinstance(type_, Tuple):
        return all(isinstance(i, Tensor) and _is_plain(i) for i in type_.items)
    if isinstance(type_, Token) or is_open(type_.element):
        return False
    return all(size.constant is not None for size in type_.shape)


def _constant(array: Array, type_: Type, kind: str) -> Node | None:
    """Return a constant; None where arithmetic made a NaN."""
    assert isinstance(type_, Tensor), type_
    if type_.element.is_float and kind not in _COPIES and _has_nan(array, type_):
        return None
    made = const(array, type_.element)
    return made if made.type == type_ else None


def _has_nan(array: Array, type_: Tensor) -> bool:
    return bool(np.isnan(widened(type_.element, array)).any())


def _left(function: Function, context: Context) -> Node | None:
    """Return a node that is computed from constants alone and small."""
    stack = [function]
    while stack:
        current = stack.pop()
        for n in walk(current.result):
            if _folded(n, context) is not None:
                return n
            stack.extend(bodies_of(n))
    return None


PASS = Pass(
    "fold",
    "what is computed from constants alone, and small, is computed now",
    ("operation", "input types", "shapes", "flat"),
    (Fact("folded", "nothing small is computed from constants alone", _left),),
    change=_folded,
)
