"""A program as plain values: every function once, its nodes in order, each with all that is known of it.

This record is what `bittern inspect --json` prints and what the page shows. Numbers that depend on sizes are text in
the names of the function's dimension parameters.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from bittern.graph.cost import Cost, Costs, bits_of
from bittern.graph.facts import (
    attribute_texts,
    elements_text,
    facts_of,
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
    return {
        "roots": {label: function.id.hex() for label, function in roots.items()},
        "functions": {key.hex(): function_record(function, costs) for key, function in known.items()},
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


def function_record(function: Function, costs: Costs) -> dict[str, Any]:
    """Return one function as plain values. Inputs of nodes, and `result`, are places in `nodes`."""
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
            node_record(node, function, places, layers.get(node.id, ""), lines.get(node.id, ""), costs)
            for node in nodes
        ],
    }


def node_record(
    node: Node, function: Function, places: Mapping[bytes, int], layer: str, line: str, costs: Costs
) -> dict[str, Any]:
    """Return one node as plain values. calls: functions that it names, by attribute."""
    dims = function.labels.dims
    return {
        "id": node.id.hex(),
        "op": node.kind,
        "family": facts_of(node, dims)["algorithm family"],
        "label": label_of(node, function),
        "layer": layer,
        "type": type_text(node.type, dims),
        "element": elements_text(node.type),
        "shape": shape_text(node.type, dims),
        "bits": bits_of(node.type),
        "packing": list(dict.fromkeys(packing(leaf.element) for leaf in leaves(node.type))),
        "inputs": [places[i.id] for i in node.inputs],
        "attributes": attribute_texts(node, dims),
        "calls": {name: value.id.hex() for name, value in node.attributes if isinstance(value, Function)},
        "line": line,
        "effects": list(effects_of(node)),
        "ownership": list(ownership_of(node)),
        "space": space_of(node.type),
        "policy": policy_of(node),
        "needs": needs_of(node),
        "cost": _cost(costs.node(node), dims),
    }


def label_of(node: Node, function: Function) -> str:
    """Return what people call a node: its label, or the name of the parameter that it is."""
    label = function.labels.nodes.get(node.id, "")
    if node.kind == "param" and not label:
        index = node["index"]
        names = function.labels.params
        return names[index] if isinstance(index, int) and index < len(names) else f"p{index}"
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


def _cost(cost: Cost, dims: tuple[str, ...]) -> dict[str, str]:
    numbers = {name: getattr(cost, name).text(dims) for name in ("macs", "operations", "read", "written")}
    return numbers | ({"note": cost.note} if cost.note else {})
