"""How the graphs of two files differ: the roots that both have, compared by the ids of their nodes."""

from collections.abc import Mapping
from typing import Any

from bittern.graph.difference import Difference, difference
from bittern.graph.node import Function, Node
from bittern.runtime.inspect import Inspection
from bittern.runtime.inspect_text import printable
from bittern.types.values import text as type_text

_SHOWN = 40  # nodes of one side in the text


def difference_record(left: Inspection, right: Inspection) -> dict[str, Any]:
    """Return the differences as plain values; a pair of single roots is compared whatever their labels are."""
    shared = [label for label in left.roots if label in right.roots]
    pairs = {label: (left.roots[label], right.roots[label]) for label in shared}
    alone = [[label for label in side.roots if label not in shared] for side in (left, right)]
    if not shared and len(left.roots) == len(right.roots) == 1:
        pairs = {" / ".join(alone[0] + alone[1]): (left.roots[alone[0][0]], right.roots[alone[1][0]])}
        alone = [[], []]
    both = left.tensors and right.tensors
    return {
        "left": left.path,
        "right": right.path,
        "refusals": [side.refusal.as_json() if side.refusal else None for side in (left, right)],
        "only_left": alone[0],
        "only_right": alone[1],
        "roots": {label: _record(*pair, difference(*pair)) for label, pair in pairs.items()},
        "tensors": tensor_differences(left, right) if both else {},
        "metadata": _mapping_differences(left.metadata, right.metadata) if both else {},
    }


def tensor_differences(left: Inspection, right: Inspection) -> dict[str, list[str | None]]:
    """Return the tensors that only one file has, or that have another element or shape there, by name."""
    sides = [
        {row.name: f"{row.element}[{', '.join(map(str, row.shape))}]" for row in side.tensors} for side in (left, right)
    ]
    return _mapping_differences(*sides)


def _mapping_differences(left: Mapping[str, str], right: Mapping[str, str]) -> dict[str, list[str | None]]:
    names = [*left, *(name for name in right if name not in left)]
    return {name: [left.get(name), right.get(name)] for name in names if left.get(name) != right.get(name)}


def _record(left: Function, right: Function, found: Difference) -> dict[str, Any]:
    return {
        "left": left.id.hex(),
        "right": right.id.hex(),
        "equal": found.is_equal,
        "path": list(found.path),
        "what": found.what,
        "at": [None if node is None else node.id.hex() for node in (found.left, found.right)],
        "only_left": [_node(node, left) for node in found.only_left],
        "only_right": [_node(node, right) for node in found.only_right],
    }


def _node(node: Node, function: Function) -> dict[str, str]:
    label = function.labels.nodes.get(node.id, "")
    return {"id": node.id.hex(), "op": node.kind, "label": label, "type": type_text(node.type, function.labels.dims)}


def difference_text(record: Mapping[str, Any]) -> str:
    """Return the differences as text."""
    lines = [f"left   {printable(record['left'])}", f"right  {printable(record['right'])}"]
    for side, refusal in zip(("left", "right"), record["refusals"], strict=True):
        if refusal:
            lines.append(f"{side} has no graph: error[{refusal['code']}]: {printable(refusal['what'])}")
    for side in ("left", "right"):
        lines += [f"only {side}: function {printable(label)}" for label in record[f"only_{side}"]]
    for title in ("metadata", "tensors"):
        rows = record[title]
        lines += [f"{title}: {len(rows)} differ"] * bool(rows)
        for name, (mine, theirs) in list(rows.items())[:_SHOWN]:
            lines.append(f"  {printable(name)}: {_short(mine)} | {_short(theirs)}")
        lines += [f"  ... {len(rows) - _SHOWN} more"] * (len(rows) > _SHOWN)
    for label, found in record["roots"].items():
        lines += ["", *_root(label, found)]
    return "\n".join(lines)


def _root(label: str, found: Mapping[str, Any]) -> list[str]:
    if found["equal"]:
        return [f"{printable(label)}: equal  {found['left'][:16]}"]
    lines = [f"{printable(label)}: they part at {printable(' > '.join(found['path']))}: {printable(found['what'])}"]
    for side, mark in (("only_left", "-"), ("only_right", "+")):
        rows = found[side]
        lines.append(f"  {len(rows)} nodes {side.replace('_', ' ')}")
        for row in rows[:_SHOWN]:
            name = f"{row['label']} = " if row["label"] else ""
            lines.append(f"  {mark} {row['id'][:12]} {printable(name)}{row['op']}  {row['type']}")
        lines += [f"  {mark} ... {len(rows) - _SHOWN} more"] * (len(rows) > _SHOWN)
    return lines


def _short(value: str | None) -> str:
    text = "-" if value is None else printable(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
