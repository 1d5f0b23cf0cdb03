"""What is attached to every node beyond its meaning: effects, ownership and execution policy, told from the graph.

A stage that asks "what may this node do, what does it use up, how exact must it be" asks here, and the `.keg` file
states the answers in each record, so that a reader in another language need not derive them.
"""

from bittern.graph.node import Function, Node
from bittern.types.values import Token

POLICIES = ("strict", "seeded", "creative")
_CONSUMES_FIRST = ("update", "scatter", "scatter_add")


def effects_of(node: Node) -> tuple[str, ...]:
    """Return the names of the effects that the node has: those whose token it takes, sorted."""
    if node.kind in ("tuple", "item"):
        return ()
    return tuple(sorted({i.type.effect for i in node.inputs if isinstance(i.type, Token)}))


def ownership_of(node: Node) -> tuple[str, ...]:
    """Return how the node takes each input: `own` (used up), `&` (read before any update) or '' (shared)."""
    if node.kind in _CONSUMES_FIRST:
        return ("own", *("" for _ in node.inputs[1:]))
    name, skipped, first = _BODIES.get(node.kind, ("", 0, 0))
    body = node[name] if name else None
    if not isinstance(body, Function):
        return tuple("" for _ in node.inputs)
    return (*("" for _ in range(skipped)), *(p.mode for p in body.params[first:]))


# kind -> the function that takes its inputs, inputs before those, parameters of the function before those
_BODIES = {
    "call": ("function", 0, 0),
    "if": ("then", 1, 0),
    "for": ("body", 2, 1),
    "while": ("body", 1, 0),
    "map": ("body", 0, 0),
}


def policy_of(node: Node) -> str:
    """Return how exactly the node must be carried out: `strict` unless its `policy` attribute says otherwise."""
    return str(node["policy"]) if node.has("policy") else POLICIES[0]
