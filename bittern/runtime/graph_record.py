"""A program as plain values: every function once, its nodes in order, each with all that is known of it.

This record is what `bittern inspect --json` prints and what the page shows. Numbers that depend on sizes are text in
the names of the function's dimension parameters.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bittern.graph.cost import Cost, Costs, bits_of
from bittern.graph.facts import (
    attribute_texts,
    elements_text,
    family_of,
    leaves,
    needs_of,
    packing,
    shape_text,
    space_of,
)
from bittern.graph.layers import layers_of
from bittern.graph.node import Function, Node, functions_of, walk
from bittern.graph.record import effects_of, ownership_of, policy_of
from bittern.types.values import text as type_text


def program_record(roots: Mapping[str, Function]) -> dict[str, Any]:
    """Return the roots and all functions that they reach, as plain values.

    `roots`: label -> id. `functions`: id -> record; callees, bodies and ideal bodies too, in the order of first use.
    """
    costs = Costs()
    known = {function.id: function for function in functions_within(roots)}
    weights = {key: label for root in roots.values() for key, label in root.labels.nodes.items()}
    return {
        "roots": {label: function.id.hex() for label, function in roots.items()},
        "functions": {key.hex(): function_record(function, costs, weights) for key, function in known.items()},
    }


def functions_within(roots: Mapping[str, Function]) -> Iterator[Function]:
    """Yield every function that roots reach, each once, roots first."""
    seen: set[bytes] = set()
    queue = list(roots.values())
    for function in queue:
        if function.id not in seen:
            seen.add(function.id)
            yield function
            queue.extend(f for node in walk(function.result) for f in functions_of(node))
            queue.extend([function.ideal] if function.ideal else [])


def function_record(function: Function, costs: Costs, weights: Mapping[bytes, str]) -> dict[str, Any]:
    """Return one function as plain values. Inputs of nodes, and `result`, are places in `nodes`.

    weights: labels of the program's constants; a constant inside a body has the label that a root gives it.
    """
    dims, labels = function.labels.dims, function.labels
    nodes = list(walk(function.result))
    places = {node.id: place for place, node in enumerate(nodes)}
    layers, lines = layers_of(function), lines_of(function, nodes)
    return {
        "name": labels.name,
        "dims": [labels.dims[i] if i < len(labels.dims) else f"d{i}" for i in range(function.dims)],
        "params": [
            {
                "name": labels.params[i] if i < len(labels.params) else f"p{i}",
                "type": type_text(parameter.type, dims),
                "mode": parameter.mode,
            }
            for i, parameter in enumerate(function.params)
        ],
        "type": type_text(function.result.type, dims),
        "effects": list(function.effects),
        "where": [f"{top.text(dims)} % {bottom.text(dims)} == 0" for top, bottom in function.facts],
        "ideal": function.ideal.id.hex() if function.ideal else None,
        "cost": _cost(costs.function(function), dims),
        "result": places[function.result.id],
        "nodes": [
            {
                "label": label_of(node, function, weights),
                "layer": layers.get(node.id, ""),
                "line": lines.get(node.id, ""),
                **node_record(node, dims, places, costs),
            }
            for node in nodes
        ],
    }


def node_record(node: Node, dims: Sequence[str], places: Mapping[bytes, int], costs: Costs) -> dict[str, Any]:
    """Return one node as plain values. calls: functions that it names, by attribute."""
    return {
        "id": node.id.hex(),
        "op": node.kind,
        "family": family_of(node),
        "type": type_text(node.type, dims),
        "element": elements_text(node.type),
        "shape": shape_text(node.type, dims),
        "bits": bits_of(node.type),
        "packing": list(dict.fromkeys(packing(leaf.element) for leaf in leaves(node.type))),
        "inputs": [places[i.id] for i in node.inputs],
        "attributes": attribute_texts(node, dims),
        "calls": {name: value.id.hex() for name, value in node.attributes if isinstance(value, Function)},
        "effects": list(effects_of(node)),
        "ownership": list(ownership_of(node)),
        "space": space_of(node.type),
        "policy": policy_of(node),
        "needs": needs_of(node),
        "cost": _cost(costs.node(node), dims),
    }


def label_of(node: Node, function: Function, weights: Mapping[bytes, str]) -> str:
    """Return what people call a node: its label, or the name of the parameter that it is."""
    label = function.labels.nodes.get(node.id, "") or (weights.get(node.id, "") if node.kind == "const" else "")
    if node.kind == "param" and not label:
        index, names = node["index"], function.labels.params
        assert isinstance(index, int), index
        return names[index] if index < len(names) else f"p{index}"
    return label


def lines_of(function: Function, nodes: list[Node]) -> dict[bytes, str]:
    """Return the source line of each node that has one; a node inside an expression has the line of its first user."""
    lines = {key: f"{file}:{line}" for key, (file, line) in function.labels.lines.items()}
    for node in reversed(nodes):
        if node.id in lines:
            for i in node.inputs:
                if i.kind not in ("param", "const"):
                    lines.setdefault(i.id, lines[node.id])
    return lines


def _cost(cost: Cost, dims: Sequence[str]) -> dict[str, str]:
    numbers = {name: getattr(cost, name).text(dims) for name in ("macs", "operations", "read", "written")}
    return numbers | ({"note": cost.note} if cost.note else {})
