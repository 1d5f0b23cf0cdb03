"""Where a network computes with floats, and the proof that it does so nowhere between its inputs and its outputs.

A float is at a boundary if everything on the way from it back to the inputs is a float (a quantiser of inputs), or
everything on the way from it to the results is (scores, and the place of the greatest one). Any other float stands
between whole numbers, and a network that has one is no network of whole numbers: `need_integers` refuses it by name.
What floats become machine code is looked at again in the code itself, by the chip.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from bittern.base.errors import BitternError, code
from bittern.graph.facts import leaves
from bittern.graph.node import Function, Node, functions_of, walk
from bittern.passes.chains import is_closed
from bittern.passes.rewriting import users_of

HAS_FLOATS = code("R142", "a network computes with floats between whole numbers")

INPUT = "input"
OUTPUT = "output"
BEST = ("argmax", "argmin")
INNER = "inner"
_SHOWN = 6


def float_roles(function: Function) -> dict[bytes, str]:
    """Return for each node that computes with floats whether it is of the `input`, of the `output`, or `inner`.

    Constants are none; a node has floats if it takes, makes or holds them in a body or callee.
    """
    users = users_of(function)
    nodes = [each for each in walk(function.result) if not is_closed(each)]
    inside: dict[bytes, bool] = {}  # whether a whole number, computed or given, leads to the node
    for each in nodes:
        inside[each.id] = any(inside.get(i.id, False) or not _is_float(i) for i in each.inputs if not is_closed(i))
    last = {
        each.id for each in nodes if each.kind in BEST and all(u.kind == "tuple" for u, _ in users.get(each.id, []))
    }
    leads: dict[bytes, bool] = {}  # whether the node leads to a whole number
    for each in reversed(nodes):
        readers = [user for user, _ in users.get(each.id, [])]
        leads[each.id] = any(leads[u.id] or not (_is_float(u) or u.id in last or u.kind == "tuple") for u in readers)
    roles = {}
    for each in nodes:
        if each.kind == "param" or not (_is_float(each) or has_float(each) or any(map(_is_float, each.inputs))):
            continue
        ends_whole = leads[each.id] or not (_is_float(each) or each.id in last)
        roles[each.id] = OUTPUT if not ends_whole else INNER if inside[each.id] else INPUT
    return roles


def inner_floats(function: Function) -> Sequence[Node]:
    """Return the nodes that compute with floats between whole numbers, inputs before users."""
    roles = float_roles(function)
    return [each for each in walk(function.result) if roles.get(each.id) == INNER]


def need_integers(function: Function, reasons: Mapping[str, str] | None = None) -> None:
    """Refuse a network with floats between whole numbers. reasons: why they are there, by label. Errors: R142."""
    found = inner_floats(function)
    if not found:
        return
    names = [function.labels.nodes.get(each.id) or f"{each.kind} {each.id.hex()[:8]}" for each in found]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    known = [f"`{name}`: {why}" for name, why in (reasons or {}).items()]
    raise BitternError(
        HAS_FLOATS,
        f"`{function.name}` computes with floats between whole numbers, in {', '.join(names[:_SHOWN])}{more}.",
        "; ".join(known[:_SHOWN]) or "Put a quantiser between accumulators and layers, with constants of each channel.",
    )


def has_float(of: Node) -> bool:
    """Whether a node makes floats, itself or in a body or callee; constants are none."""
    if of.kind not in ("const", "param") and _is_float(of):
        return True
    return any(_computes_floats(inner) for inner in functions_of(of))


@lru_cache(maxsize=4096)
def _computes_floats(function: Function) -> bool:
    return any(has_float(each) for each in walk(function.result))


def _is_float(of: Node) -> bool:
    return any(leaf.element.is_float for leaf in leaves(of.type))
