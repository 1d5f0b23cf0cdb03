"""Layout: moves of data that undo or repeat each other go, and places that are known are read directly.

The rows of `layout_rules` say what becomes of what; no row computes with values, so nothing but places has to be right.
A call that reads constant weights is offered to the plan (`Context.repack`), which may put a call that reads them in a
layout of its own in its place, with the repacking as a node.
"""

from bittern.graph.node import Function, Node
from bittern.passes.layout_rules import ROWS, Layout
from bittern.passes.rewriting import with_bodies
from bittern.passes.table import Context, Fact, Pass

_BY_KIND: dict[str, list[Layout]] = {}
for _row in ROWS:
    for _kind in _row.kinds:
        _BY_KIND.setdefault(_kind, []).append(_row)


def _change(of: Node, context: Context) -> Node | None:
    if of.kind == "call" and context.repack is not None:
        made = context.repack(of)
        return None if made is of else made
    return rewritten(of)


def rewritten(of: Node) -> Node | None:
    """Return what the first row that matches makes of a node, or None."""
    for row in _BY_KIND.get(of.kind, ()):
        made = row.change(of)
        if made is not None and made is not of and made.type == of.type:
            return made
    return None


def _left(function: Function, context: Context) -> Node | None:
    """Return a node that matches a row."""
    return next((each for each in with_bodies(function) if rewritten(each) is not None), None)


PASS = Pass(
    "layout",
    "moves of data that undo or repeat each other go",
    ("operation", "shapes", "packing and layout", "memory space", "flat"),
    (Fact("laid out", "no move of data undoes or repeats another one", _left),),
    change=_change,
)
