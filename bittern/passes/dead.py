"""Dead nodes: what nobody reads is neither computed nor carried.

A function's own dead nodes are gone by being unreachable. Inside: a capture or mapped array that no body reads, a
result of a map or branch that no user reads, a carry whose value reaches nothing that is read; and what a body takes
twice, it takes once. A value that is read is computed from what it was before. Effects are read through their tokens,
so no effect goes.
"""

from bittern.graph.node import Function, Node, item, make_tuple, walk
from bittern.passes.bodies import STRUCTURED, Parts, built, items_of, keep, parts_of, read_params
from bittern.passes.rewriting import bodies_of, index_of, map_graph, users_of
from bittern.passes.table import Context, Fact, Pass
from bittern.types.values import Tuple


def _run(function: Function, context: Context) -> Function:
    read = _read_items(function)

    def change(current: Node, old: Node) -> Node:
        return _trimmed(current, read[old.id]) if old.kind in STRUCTURED else current

    return map_graph(function, change)


def _read_items(function: Function) -> dict[bytes, frozenset[int]]:
    """Return which items of each structural node are read; of one that is read as a whole, all."""
    users = users_of(function)
    read = {}
    for n in walk(function.result):
        if n.kind in STRUCTURED:
            whole = len(n.type.items) if isinstance(n.type, Tuple) else 1
            mine = users.get(n.id, [])
            is_whole = n is function.result or any(user.kind != "item" for user, _ in mine)
            read[n.id] = frozenset(range(whole) if is_whole else (index_of(user) for user, _ in mine))
    return read


def _trimmed(current: Node, read: frozenset[int]) -> Node:
    """Return the node without what is dead; items that nobody reads are still those of the old node."""
    parts = parts_of(current)
    total = len(parts.results["then" if parts.kind == "if" else "body"])
    live = _live_carries(parts, read) if parts.kind in ("for", "while") else read
    for name, results in parts.results.items():
        if name != "test":
            parts.results[name] = [results[i] for i in sorted(live)]
    kept, same = _kept_inputs(parts, live)
    if len(live) == total and len(kept) == len(parts.varying) + len(parts.captures):
        return current
    keep(parts, kept, same)
    made = items_of(built(parts)) if len(live) > 1 else [built(parts)]
    if total == 1:
        return made[0]
    place = {old: new for new, old in enumerate(sorted(live))}
    return make_tuple([made[place[i]] if i in place else item(current, i) for i in range(total)])


def _live_carries(parts: Parts, read: frozenset[int]) -> frozenset[int]:
    """Return the carries that are read afterwards, or reach one that is, or decide how long a loop runs."""
    count, first = len(parts.varying), parts.skipped
    reads = [{i - first for i in read_params([value])} for value in parts.results["body"]]
    live = set(read)
    if "test" in parts.results:
        live |= {i - first for i in read_params(parts.results["test"]) if i - first < count}
    waiting = list(live)
    while waiting:
        found = {i for i in reads[waiting.pop()] if 0 <= i < count} - live
        live |= found
        waiting += found
    return frozenset(live)


def _kept_inputs(parts: Parts, live: frozenset[int]) -> tuple[list[int], dict[int, int]]:
    """Return the places of the inputs that stay, and which ones are read in another one's place."""
    read = {i - parts.skipped for i in read_params([r for results in parts.results.values() for r in results])}
    is_loop = parts.kind in ("for", "while")
    inputs, split = [*parts.varying, *parts.captures], len(parts.varying)
    kept: list[int] = []
    same: dict[int, int] = {}
    first: dict[tuple[object, ...], int] = {}
    for i, given in enumerate(inputs):
        if is_loop and i < split:
            kept += [i] if i in live else []
        elif i in read:
            modes = tuple(mode[parts.skipped + i] for mode in parts.modes.values())
            other = first.setdefault((given.id, i < split, modes), i)
            if other == i:
                kept.append(i)
            else:
                same[i] = other
    return kept, same


def _left(function: Function, context: Context) -> Node | None:
    """Return a structural node that takes, carries or gives what nobody reads."""
    stack = [function]
    while stack:
        current = stack.pop()
        read = _read_items(current)
        for n in walk(current.result):
            if n.kind in STRUCTURED and _trimmed(n, read[n.id]) is not n:
                return n
            stack.extend(bodies_of(n))
    return None


PASS = Pass(
    "dead",
    "what nobody reads is neither computed nor carried",
    ("operation", "effects", "flat"),
    (Fact("live", "whatever a body takes, carries or gives is read", _left),),
    _run,
)
