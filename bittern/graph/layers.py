"""Which layer of a model a node belongs to, told from the labels of its weights (`layer.3.q`).

Only labels decide, so a graph without them has no layers. A node without a label of its own belongs to the last layer
of the values that it takes, until a value is used that has a label but no layer: what follows the last layer.
"""

import re
from collections.abc import Mapping

from bittern.graph.node import Function, Node, functions_of, walk

_LAYER = re.compile(r"^((?:\w+\.)*?[A-Za-z_]\w*\.\d{1,6})\.")


def layer_of_label(label: str) -> str:
    """Return the layer that a label names, such as `layer.3` of `layer.3.q`, or ''."""
    found = _LAYER.match(label)
    return found.group(1) if found else ""


def layers_of(function: Function) -> dict[bytes, str]:
    """Return the layer of every node of a function that belongs to one, by node id."""
    nodes, labels = list(walk(function.result)), function.labels.nodes
    found: dict[bytes, str] = {}
    for node in nodes:
        if node is function.result and node.kind == "tuple":
            continue
        layer = _layer(node, labels, found)
        if layer:
            found[node.id] = layer
    _adopt(nodes, found)
    _release(nodes, found)
    return found


def _layer(node: Node, labels: Mapping[bytes, str], found: Mapping[bytes, str]) -> str:
    """Return the layer of one node, after its inputs."""
    label = labels.get(node.id, "")
    if node.kind == "const" and label:
        return layer_of_label(label)
    bodies = [n for body in functions_of(node) if node.kind != "call" for n in walk(body.result)]
    weights = [i for i in (*node.inputs, *bodies) if i.kind == "const" and i.id in labels]
    own = [layer for layer in (layer_of_label(labels[i.id]) for i in weights) if layer]
    if not own and weights and node.kind in ("call", "map"):
        return ""
    if own:  # equal constants of several layers have one label: most of a layer's weights are its own
        return max(own, key=lambda layer: (own.count(layer), _number(layer)))
    taken = [found[i.id] for i in node.inputs if i.id in found]
    return max(taken, key=_number, default="")


def _adopt(nodes: list[Node], found: dict[bytes, str]) -> None:
    """Give a constant or size without a layer to the one layer that uses it."""
    users: dict[bytes, set[str]] = {}
    for node in nodes:
        for i in node.inputs:
            users.setdefault(i.id, set()).add(found.get(node.id, ""))
    for node in reversed(nodes):
        layers = users.get(node.id, set())
        if node.id not in found and not node.inputs and node.kind != "param" and len(layers) == 1:
            (layer,) = layers
            if layer:
                found[node.id] = layer


def _release(nodes: list[Node], found: dict[bytes, str]) -> None:
    """Take what several layers share out of the one whose label it has: such as a table that all of them look into.

    Only what depends on no layer can be shared like this; the results of a layer are what the next one starts from.
    """
    is_early: dict[bytes, bool] = {}
    for node in nodes:
        own = (is_early[i.id] and (node.kind == "item" or i.kind == "const" or i.id not in found) for i in node.inputs)
        is_early[node.id] = all(own)
    uses: dict[bytes, set[str]] = {node.id: set() for node in nodes}
    for node in reversed(nodes):
        if node.id in found and is_early[node.id] and (len(uses[node.id]) > 1 or uses[node.id] == {""}):
            del found[node.id]
        for i in node.inputs:
            uses[i.id] |= uses[node.id] if node.kind == "item" else {found.get(node.id, "")}
    for node in nodes:
        if node.kind == "item" and node.inputs[0].id not in found:
            found.pop(node.id, None)


def _number(layer: str) -> int:
    return int(layer.rpartition(".")[2])
