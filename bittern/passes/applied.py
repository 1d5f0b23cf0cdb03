"""Layers of a network: a library function that maps apply along leading axes.

`map(batch, map(rows, call f))` is f applied to the items of the outer arrays. A layer is found only where every
argument is walked by all the maps or by none, so what it says is what the nest of maps does.
"""

from dataclasses import dataclass

from bittern.graph.node import Function, Node, walk
from bittern.passes.bodies import body_of
from bittern.passes.rewriting import index_of
from bittern.types.dims import Dim


@dataclass(frozen=True, slots=True)
class Applied:
    """A function applied along leading axes.

    name: of the library function, without element arguments. call: the innermost call. arguments: nodes outside the
    maps, or constants that stand inside. mapped: for each argument whether it has the leading axes. lead: their sizes.
    """

    name: str
    call: Node
    arguments: tuple[Node, ...]
    mapped: tuple[bool, ...]
    lead: tuple[Dim, ...] = ()


def applied(of: Node) -> Applied | None:
    """Return what a call, or a nest of maps around nothing but one call, applies; None for any other node."""
    if of.kind == "call":
        return Applied(function_name(_callee(of)), of, of.inputs, (False,) * len(of.inputs))
    if of.kind != "map":
        return None
    body, count, mapped = body_of(of), of["count"], of["mapped"]
    assert isinstance(count, Dim) and isinstance(mapped, int), of
    work = [each for each in walk(body.result) if each.kind not in ("param", "const")]
    inner = applied(body.result) if len(work) == 1 and work[0] is body.result else None
    if inner is None:
        return None
    arguments: list[Node] = []
    walked: list[bool] = []
    for source, was_walked in zip(inner.arguments, inner.mapped, strict=True):
        is_walked = source.kind == "param" and index_of(source) < mapped
        if source.kind not in ("param", "const") or (inner.lead and is_walked != was_walked):
            return None
        arguments.append(of.inputs[index_of(source)] if source.kind == "param" else source)
        walked.append(is_walked)
    return Applied(inner.name, inner.call, tuple(arguments), tuple(walked), (count, *inner.lead))


def function_name(function: Function) -> str:
    """Return the name of a library function without its element arguments."""
    return function.labels.name.partition("[")[0]


def _callee(of: Node) -> Function:
    callee = of["function"]
    assert isinstance(callee, Function), of
    return callee
