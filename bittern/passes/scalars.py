"""Scalars: a short array that a loop carries, and that is read at known places only, becomes single values.

A carry of type T[k] whose next value is a stack of k parts, and which the body reads through `take` or `slice` at known
places, is k carries of type T: part i of the next value, element i of the first one. After the loop the parts are
stacked again. So the state of a hash lives in registers. `layout` turns short updates at known places into stacks, and
reads of stacks into their parts.
"""

from bittern.graph.node import Function, Node, make_tuple, param, walk
from bittern.passes.bodies import Parts, built, item_type, items_of, joined, parts_of
from bittern.passes.known import word, word_of
from bittern.passes.layout_rules import make
from bittern.passes.rewriting import bodies_of, index_of, map_graph, put_in
from bittern.passes.table import Context, Fact, Pass
from bittern.types.dims import Dim
from bittern.types.values import Tensor


def _run(function: Function, context: Context) -> Function:
    def change(current: Node, old: Node) -> Node:
        if current.kind not in ("for", "while"):
            return current
        parts = parts_of(current)
        lengths = _lengths(parts, context)
        return _split(parts, lengths) if lengths else current

    return map_graph(function, change)


def _lengths(parts: Parts, context: Context) -> dict[int, int]:
    """Return the carries that can be split, each with its length."""
    found = {}
    for place, (carry, value) in enumerate(zip(parts.varying, parts.results["body"], strict=True)):
        type_ = carry.type
        if value.kind != "stack" or value["axis"] != 0 or not isinstance(type_, Tensor) or type_.element.is_format:
            continue
        length = type_.shape[0].constant
        if length is not None and 0 < length <= context.scalars and _is_read_at_places(parts, parts.skipped + place):
            found[place] = length
    return found


def _is_read_at_places(parts: Parts, index: int) -> bool:
    """Whether the bodies read a parameter at known places only."""
    for results in parts.results.values():
        joint = make_tuple(results)
        for n in walk(joint):
            for place, source in enumerate(n.inputs):
                if source.kind == "param" and index_of(source) == index and not _is_known_read(n, place):
                    return False
    return True


def _is_known_read(of: Node, place: int) -> bool:
    if place:
        return False
    if of.kind == "take":
        return word_of(of.inputs[1]) is not None and all(
            isinstance(i.type, Tensor) and not i.type.shape for i in of.inputs[1:]
        )
    bounds = (of["low"], of["high"]) if of.kind == "slice" and of["axis"] == 0 else (None,)
    return all(isinstance(b, Dim) and b.constant is not None for b in bounds)


def _split(parts: Parts, lengths: dict[int, int]) -> Node:
    """Return what takes the loop's place: its carries, those that were split stacked again."""
    carries: list[Node] = []
    modes: dict[str, list[str]] = {name: mode[: parts.skipped] for name, mode in parts.modes.items()}
    inside = [param(i, next(iter(parts.bodies.values())).params[i].type) for i in range(parts.skipped)]
    for place, carry in enumerate(parts.varying):
        first, length = parts.skipped + len(carries), lengths.get(place, 1)
        if place in lengths:
            each = item_type(carry.type)
            inside.append(make("stack", [param(first + i, each) for i in range(length)], axis=0))
            carries += [make("take", [carry, word(i)]) for i in range(length)]
        else:
            inside.append(param(first, carry.type))
            carries.append(carry)
        for name, mode in parts.modes.items():
            modes[name] += [mode[parts.skipped + place]] * length
    for place, capture in enumerate(parts.captures):
        inside.append(param(parts.skipped + len(carries) + place, capture.type))
    for name, mode in parts.modes.items():
        parts.results[name] = _next(parts, name, lengths, inside)
        modes[name] += mode[parts.first_capture :]
    parts.varying, parts.modes = carries, modes
    made = items_of(built(parts))
    whole: list[Node] = []
    for place in range(len(inside) - parts.skipped - len(parts.captures)):
        taken, made = made[: lengths.get(place, 1)], made[lengths.get(place, 1) :]
        whole.append(make("stack", taken, axis=0) if place in lengths else taken[0])
    return joined(whole)


def _next(parts: Parts, name: str, lengths: dict[int, int], inside: list[Node]) -> list[Node]:
    """Return a body's results with its parameters replaced, and with the parts of what is split."""
    results: list[Node] = []
    for place, value in enumerate(parts.results[name]):
        results += value.inputs if name != "test" and place in lengths else (value,)
    return list(put_in(make_tuple(results), inside)[0].inputs)


def _left(function: Function, context: Context) -> Node | None:
    """Return a loop that carries a short array which could be single values."""
    stack = [function]
    while stack:
        current = stack.pop()
        for n in walk(current.result):
            if n.kind in ("for", "while") and _lengths(parts_of(n), context):
                return n
            stack.extend(bodies_of(n))
    return None


PASS = Pass(
    "scalars",
    "a short carried array that is read at known places becomes single values",
    ("operation", "shapes", "flat", "laid out"),
    (Fact("scalar", "no loop carries a short array that could be single values", _left),),
    _run,
)
