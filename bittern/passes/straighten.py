"""Straightening: control whose course is known becomes what it does.

A branch whose condition is a constant is the branch taken; so is one whose branches are equal. A `for` over no number
is its first carries; a `while` that may take no round likewise. A map over one element is its body on that element,
unless the body calls a kernel: then the plan decides.
"""

from bittern.graph.node import Function, Node, walk
from bittern.passes.bodies import STRUCTURED, body_of, item_type, items_of, joined, parts_of
from bittern.passes.known import number_of, word_of
from bittern.passes.layout_rules import make
from bittern.passes.rewriting import Opened, bodies_of, open_bodies, put_in
from bittern.passes.table import Context, Fact, Pass
from bittern.types.values import Tensor, Type


def _run(function: Function, context: Context) -> Function:
    return open_bodies(function, straightened)


def straightened(of: Node) -> Opened | None:
    """Return what a structural node does if that is known, or None."""
    change = _CHANGES.get(of.kind)
    return None if change is None else change(of)


def _branch(of: Node) -> Opened | None:
    condition, *captures = of.inputs
    known = number_of(condition)
    then, otherwise = body_of(of, "then"), body_of(of, "otherwise")
    if known is None and then != otherwise:
        return None
    taken = then if known is None or bool(known) else otherwise
    value, inner = put_in(taken.result, captures)
    return value, [(taken, inner)]


def _for(of: Node) -> Opened | None:
    parts = parts_of(of)
    low, high = (word_of(bound) for bound in parts.before)
    is_empty = parts.before[0] is parts.before[1] or (low is not None and high is not None and low >= high)
    return (joined(parts.varying), []) if is_empty else None


def _while(of: Node) -> Opened | None:
    parts = parts_of(of)
    test = number_of(parts.results["test"][0])
    is_over = word_of(parts.before[0]) == 0 or (test is not None and not test)
    return (joined(parts.varying), []) if is_over else None


def _map(of: Node) -> Opened | None:
    parts = parts_of(of)
    if parts.count is None or parts.count.constant != 1 or has_call(parts.bodies["body"]):
        return None
    body = parts.bodies["body"]
    if any(not _is_plain(t) for t in (*(i.type for i in parts.varying), *(r.type for r in parts.results["body"]))):
        return None
    rows = [make("reshape", [i], shape=item_type(i.type).shape) for i in parts.varying]
    value, inner = put_in(body.result, [*rows, *parts.captures])
    shapes = [item.type for item in items_of(of)]
    whole = [
        make("reshape", [item], shape=t.shape)
        for item, t in zip(items_of(value), shapes, strict=True)
        if isinstance(t, Tensor)
    ]
    return joined(whole), [(body, inner)]


def _is_plain(type_: Type) -> bool:
    return isinstance(type_, Tensor) and not type_.element.is_format


def has_call(body: Function) -> bool:
    """Whether a body calls anything, at any depth."""
    return any(n.kind == "call" or any(map(has_call, bodies_of(n))) for n in walk(body.result))


_CHANGES = {"if": _branch, "for": _for, "while": _while, "map": _map}


def _left(function: Function, context: Context) -> Node | None:
    """Return a structural node whose course is known."""
    stack = [function]
    while stack:
        current = stack.pop()
        for n in walk(current.result):
            if n.kind in STRUCTURED and straightened(n) is not None:
                return n
            stack.extend(bodies_of(n))
    return None


PASS = Pass(
    "straighten",
    "control whose course is known becomes what it does",
    ("operation", "shapes", "flat"),
    (Fact("straight", "no branch, loop or map has a course that is known", _left),),
    _run,
)
