"""Unrolling: a fold over few known numbers becomes its rounds, one after the other.

Round i is the body with i in the index's place and the carries of the round before: the meaning of a fold, written out.
Two limits keep programs small (`Context`): the number of rounds, and the nodes that come of it.
"""

from bittern.graph.node import Function, Node, walk
from bittern.passes.bodies import items_of, joined, parts_of
from bittern.passes.known import word, word_of
from bittern.passes.rewriting import Opened, bodies_of, count_nodes, open_bodies, put_in
from bittern.passes.straighten import has_call
from bittern.passes.table import Context, Fact, Pass


def _run(function: Function, context: Context) -> Function:
    return open_bodies(function, lambda n: _unrolled(n, context))


def _unrolled(of: Node, context: Context) -> Opened | None:
    """Return the rounds of a short fold, or None for any other node."""
    bounds = _bounds(of, context)
    if bounds is None:
        return None
    parts = parts_of(of)
    body, carries = parts.bodies["body"], list(parts.varying)
    opened = []
    for index in range(*bounds):
        value, inner = put_in(body.result, [word(index), *carries, *parts.captures])
        carries = items_of(value) if len(carries) > 1 else [value]
        opened.append((body, inner))
    return joined(carries), opened


def _bounds(of: Node, context: Context) -> tuple[int, int] | None:
    if of.kind != "for":
        return None
    low, high = word_of(of.inputs[0]), word_of(of.inputs[1])
    if low is None or high is None or not 0 < high - low <= context.unrolled_rounds:
        return None
    body = parts_of(of).bodies["body"]
    is_small = (high - low) * count_nodes(body) <= context.unrolled_nodes
    return (low, high) if is_small and not has_call(body) else None


def _left(function: Function, context: Context) -> Node | None:
    """Return a fold that is short enough to be unrolled."""
    stack = [function]
    while stack:
        current = stack.pop()
        for n in walk(current.result):
            if _bounds(n, context) is not None:
                return n
            stack.extend(bodies_of(n))
    return None


PASS = Pass(
    "unroll",
    "a fold over few known numbers becomes its rounds",
    ("operation", "shapes", "flat", "straight"),
    (Fact("unrolled", "every fold is longer, or larger, than what is unrolled", _left),),
    _run,
)
