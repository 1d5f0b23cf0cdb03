"""An inspection as text: the file, its metadata, its tensors, its graph, with what is alike told once.

Tensors and layers whose names differ only in a number are folded; `full` unfolds them and shows every function.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bittern.base.progress import amount

_NUMBER = re.compile(r"(?<![A-Za-z])\d+(?=\.|$)")
_INDENT = "  "


def inspection_text(record: Mapping[str, Any], full: bool = False) -> str:
    """Return the text of an inspection. record: of `Inspection.as_json`. full: show every node of every function."""
    lines = [f"{printable(record['path'])}: {_KINDS[record['kind']]}"]
    lines += [f"{_INDENT}{printable(name):13} {_about(name, value)}" for name, value in record["about"].items()]
    if record["metadata"]:
        lines += ["", "metadata", *_pairs(record["metadata"])]
    if record["tensors"]:
        lines += ["", f"tensors ({len(record['tensors'])})", *_tensors(record["tensors"], full)]
    if record["refusal"]:
        refusal = record["refusal"]
        lines += ["", f"no graph: error[{refusal['code']}]: {printable(refusal['what'])}"]
        lines += [f"{_INDENT}{printable(refusal['remedy'])}"] * bool(refusal["remedy"])
    functions = record["functions"]
    for label, key in record["roots"].items():
        lines += ["", *_function(label, key, functions, full)]
    if full:
        others = [key for key in functions if key not in record["roots"].values()]
        for key in others:
            lines += ["", *_function("", key, functions, full)]
    return "\n".join(lines)


_KINDS = {
    "keg": "a .keg file",
    "program": "a program",
    "gguf": "a GGUF checkpoint",
    "huggingface": "a Hugging Face folder",
}


def printable(text: object) -> str:
    """Return text with control characters escaped, so that no file can steer a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def _about(name: str, value: Any) -> str:
    if name == "size":
        return f"{amount(value, 'B')} ({value} bytes)"
    if isinstance(value, dict):
        return ", ".join(f"{key} = {size}" for key, size in value.items())
    return f"{value:,}" if name == "parameters" else printable(value)


def _pairs(pairs: Mapping[str, str]) -> list[str]:
    width = min(max(map(len, pairs)), 44)
    return [f"{_INDENT}{printable(key):{width}} {_clipped(printable(value), 100)}" for key, value in pairs.items()]


def _tensors(rows: Sequence[Mapping[str, Any]], full: bool) -> list[str]:
    """Return a line for each tensor, or for each set of them that differ only in a number of their names."""
    sets: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        name = row["name"] if full else _NUMBER.sub("N", row["name"])
        sets.setdefault((name, row["element"], str(row["shape"])), []).append(row)
    width = min(max(len(name) for name, _, _ in sets), 48)
    lines = []
    for (name, element, shape), same in sets.items():
        count = f"{len(same)} x" if len(same) > 1 else ""
        shown = name if len(same) > 1 else same[0]["name"]
        size = amount(sum(row["size"] for row in same), "B")
        steps = f"  ({'; '.join(same[0]['steps'])})" if same[0]["steps"] else ""
        head = f"{_INDENT}{count:>5} {printable(shown):{width}} {element:8} {shape:20}"
        lines.append(f"{head} {same[0]['bits']:g} bits  {size}{steps}")
    return lines


def _function(label: str, key: str, functions: Mapping[str, Any], full: bool) -> Iterator[str]:
    """Yield the head of a function and its nodes."""
    function = functions[key]
    name = printable(function["name"]) or "a body"
    head = f"{printable(label)} = {name}" if label and label != function["name"] else name
    yield f"{head}  [{', '.join(map(printable, function['dims']))}]  {key[:16]}"
    for parameter in function["params"]:
        mode = f"{parameter['mode']} ".replace("& ", "&").lstrip()
        yield f"{_INDENT}{printable(parameter['name'])}: {mode}{parameter['type']}"
    yield f"{_INDENT}-> {function['type']}" + (f" ! {', '.join(function['effects'])}" if function["effects"] else "")
    cost = function["cost"]
    yield f"{_INDENT}multiply-accumulates {cost['macs']}; operations {cost['operations']}"
    yield f"{_INDENT}bytes read {cost['read']}; written {cost['written']}"
    if "note" in cost:
        yield f"{_INDENT}({cost['note']})"
    inside = _reached(key, functions) if label else {key}
    count = sum(len(functions[each]["nodes"]) for each in inside)
    more = f"; {count} in {len(inside)} functions with all that it calls" if len(inside) > 1 else ""
    yield f"{_INDENT}{len(function['nodes'])} nodes{more}"
    yield from (_INDENT + line for line in _nodes(function, functions, full))


def _reached(key: str, functions: Mapping[str, Any]) -> set[str]:
    """Return the ids of a function and of all that it reaches."""
    found, stack = {key}, [key]
    while stack:
        function = functions[stack.pop()]
        inner = [callee for node in function["nodes"] for callee in node["calls"].values()]
        for callee in [*inner, *([function["ideal"]] if function["ideal"] else [])]:
            if callee not in found:
                found.add(callee)
                stack.append(callee)
    return found


def _nodes(function: Mapping[str, Any], functions: Mapping[str, Any], full: bool) -> Iterator[str]:
    """Yield the nodes, layers after each other; layers that are alike are shown once."""
    nodes = function["nodes"]
    if full:
        yield from (f"{place:4} {_node(node, nodes, functions)}" for place, node in enumerate(nodes))
        return
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for node in nodes:
        groups.setdefault(node["layer"], []).append(node)
    yield from (_node(node, nodes, functions) for node in groups.pop("", []))
    alike: dict[tuple[str, ...], list[str]] = {}
    for layer in sorted(groups, key=_layer_key):
        looks = tuple(sorted(_node(node, nodes, functions, layer) for node in groups[layer]))
        alike.setdefault(looks, []).append(layer)
    for looks, layers in alike.items():
        yield f"{_ranges(layers)}  ({len(layers)} x {len(looks)} nodes)"
        yield from (_INDENT + line for line in looks)


def _node(
    node: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], functions: Mapping[str, Any], layer: str | None = None
) -> str:
    """Return one line about a node. layer: it is one of a folded layer, so what differs between layers is left out."""
    called = [printable(functions[key]["name"]) for key in node["calls"].values() if functions[key]["name"]]
    what = f"{node['op']} {' '.join(called)}".rstrip()
    label = node["label"] if layer is None else node["label"].removeprefix(f"{layer}.")
    head = f"{printable(label)} = {what}" if label else what
    if layer is not None:
        return f"{head}  {_clipped(node['type'], 90)}"
    inputs = ", ".join(str(place) for place in node["inputs"])
    return f"{head}({inputs})  {node['type']}  {node['id'][:12]}" if node["inputs"] else f"{head}  {node['type']}"


def _ranges(layers: Sequence[str]) -> str:
    """Return names such as `layer.0..3, layer.5` of layers in order."""
    runs: list[list[str]] = []
    for layer in layers:
        stem, number = _layer_key(layer)
        if runs and _layer_key(runs[-1][-1]) == (stem, number - 1):
            runs[-1].append(layer)
        else:
            runs.append([layer])
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]}..{run[-1].rpartition('.')[2]}" for run in runs)


def _layer_key(layer: str) -> tuple[str, int]:
    stem, _, number = layer.rpartition(".")
    return stem, int(number)


def _clipped(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
