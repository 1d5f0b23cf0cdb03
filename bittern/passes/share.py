"""Sharing: what does not depend on the round or the element is computed once, outside.

Equal nodes are one node already, within one graph. Here a value in the body of a map or loop that depends on captures
alone moves out and becomes a capture; it is computed from equal inputs, once instead of often. Where a loop may run no
round, only what is total moves: reading an element of an array that may be empty is not. Branches keep their own,
because only one of them runs. A value larger than `hoisted_bytes` stays where it is made, and so does everything with
an effect.

Numbers that are known (constants, sizes, arrays of one value) go the other way, into the bodies, where they can be
folded. Weights do not, nor does a number that only says where to read or write: so layers that differ in those alone
share one body, and one piece of machine code.
"""

from bittern.graph.cost import bytes_of
from bittern.graph.node import Function, Node, functions_of, make_tuple, param, walk
from bittern.graph.rewrite import replace_nodes
from bittern.passes.bodies import STRUCTURED, Parts, built, keep, parts_of
from bittern.passes.known import spread_of, word_of
from bittern.passes.rewriting import bodies_of, index_of, map_graph, put_in, with_inputs
from bittern.passes.table import Context, Fact, Pass
from bittern.types.values import Tensor

_FREE = frozenset(("param", "const", "size", "iota", "fill", "broadcast", "tuple", "item", "blocks", "unknown"))
_LOOPS = ("map", "for", "while")


def _run(function: Function, context: Context) -> Function:
    def change(current: Node, old: Node) -> Node:
        if current.kind not in STRUCTURED:
            return current
        current = _with_numbers(current)
        return _hoisted(current, context) if current.kind in _LOOPS else current

    return map_graph(function, change)


def _known_numbers(parts: Parts) -> list[int]:
    """Return the captures that are known numbers and that a body may use for more than a place."""
    found = []
    for place, given in enumerate(parts.captures):
        scalar = spread_of(given)
        if (scalar is not None and scalar.kind in ("const", "size")) or given.kind == "iota":
            index, first = parts.first_capture + place, parts.first_capture
            if not all(_is_place(r, index, first) for results in parts.results.values() for r in results):
                found.append(place)
    return found


def _is_place(result: Node, index: int, first: int) -> bool:
    """Whether a graph uses a parameter only to say where in a captured array to read, or where to write."""
    if result.kind == "param" and index_of(result) == index:
        return False
    for n in walk(result):
        for place, source in enumerate(n.inputs):
            if source.kind == "param" and index_of(source) == index and not _says_place(n, place, first):
                return False
    return True


def _says_place(of: Node, place: int, first: int) -> bool:
    """Whether an input of a node only says a place. first: the first parameter that is a capture."""
    if of.kind in ("update", "scatter", "scatter_add"):
        return 0 < place < len(of.inputs) - 1
    if of.kind in ("take", "dynamic_slice"):
        return place > 0 and of.inputs[0].kind == "param" and index_of(of.inputs[0]) >= first
    if of.kind not in STRUCTURED:
        return False
    parts = parts_of(of)
    inner = place - len(parts.before) - len(parts.varying)
    if inner < 0:
        return False
    index = parts.first_capture + inner
    return all(_is_place(r, index, parts.first_capture) for results in parts.results.values() for r in results)


def _with_numbers(of: Node) -> Node:
    """Return the node with known numbers named by its bodies themselves, those inside included."""
    parts = parts_of(of)
    split = len(parts.varying)
    free = _known_numbers(parts)
    if not free:
        return of
    known = {param(parts.first_capture + i, parts.captures[i].type).id: parts.captures[i] for i in free}
    for name, results in parts.results.items():
        parts.results[name] = list(_with_numbers_inside(replace_nodes(make_tuple(results), known)).inputs)
    keep(parts, [i for i in range(split + len(parts.captures)) if i - split not in free])
    return built(parts)


def _with_numbers_inside(result: Node) -> Node:
    fresh: dict[bytes, Node] = {}
    for old in walk(result):
        current = with_inputs(old, [fresh[i.id] for i in old.inputs])
        fresh[old.id] = _with_numbers(current) if current.kind in STRUCTURED else current
    return fresh[result.id]


def _hoisted(of: Node, context: Context) -> Node:
    """Return the node with what its bodies compute from captures alone as captures."""
    parts = parts_of(of)
    found = _invariants(parts, context)
    if not found:
        return of
    nothing = make_tuple([])  # what is hoisted reads no other parameter than captures
    arguments = [*[nothing] * parts.first_capture, *parts.captures]
    places: dict[bytes, Node] = {}
    for inner in found:
        places[inner.id] = param(parts.first_capture + len(parts.captures), inner.type)
        parts.captures.append(put_in(inner, arguments)[0])
    for name, results in parts.results.items():
        parts.results[name] = list(replace_nodes(make_tuple(results), places).inputs)
        parts.modes[name] += [""] * len(found)
    return built(parts)


def _invariants(parts: Parts, context: Context) -> list[Node]:
    """Return the largest values in the bodies that depend on captures alone and are worth keeping."""
    found: dict[bytes, Node] = {}
    runs = _surely_runs(parts)
    for results in parts.results.values():
        joint = make_tuple(results)
        fixed: dict[bytes, bool] = {}
        for n in walk(joint):
            fixed[n.id] = n is not joint and all(fixed[i.id] for i in n.inputs) and _is_fixed(n, parts)
        waiting = [i for n in walk(joint) if not fixed[n.id] for i in n.inputs if fixed[i.id]]
        while waiting:
            source = waiting.pop()
            if _is_worth(source, context) and (runs or is_total(source)):
                found[source.id] = source
            else:
                waiting += source.inputs
    return list(found.values())


def _is_fixed(of: Node, parts: Parts) -> bool:
    if of.kind == "param":
        return index_of(of) >= parts.first_capture and isinstance(of.type, Tensor)
    return of.kind != "unknown"


def _surely_runs(parts: Parts) -> bool:
    """Whether the body runs at least once."""
    if parts.kind == "map":
        return (parts.count.constant or 0) > 0 if parts.count is not None else False
    if parts.kind == "for":
        low, high = map(word_of, parts.before)
        return low is not None and high is not None and low < high
    return False


def is_total(of: Node) -> bool:
    """Whether a value can be computed whatever the sizes are: nothing that it depends on reads an empty array."""
    return all(_is_total(n) and all(is_total(body.result) for body in functions_of(n)) for n in walk(of))


def _is_total(of: Node) -> bool:
    source = of.inputs[0].type if of.kind == "take" else None
    return not isinstance(source, Tensor) or all(
        (size.constant or 0) > 0 for size in source.shape[: len(of.inputs) - 1]
    )


def _is_worth(of: Node, context: Context) -> bool:
    if not isinstance(of.type, Tensor) or (of.kind in _FREE and of.kind != "item"):
        return False
    size = bytes_of(of.type).constant
    return size is None or size <= context.hoisted_bytes


def _left(function: Function, context: Context) -> Node | None:
    """Return a map or loop whose body computes what does not depend on its rounds, or captures a known number."""
    stack = [function]
    while stack:
        current = stack.pop()
        for n in walk(current.result):
            if n.kind in STRUCTURED and _known_numbers(parts_of(n)):
                return n
            if n.kind in _LOOPS and _invariants(parts_of(n), context):
                return n
            stack.extend(bodies_of(n))
    return None


PASS = Pass(
    "share",
    "what does not depend on the round or the element is computed once, outside",
    ("operation", "shapes", "effects", "flat", "live"),
    (Fact("shared", "no body computes what does not depend on its rounds", _left),),
    _run,
)
