"""The levels below the graph as text: what the passes did, kernels in bitops, where machine code lies."""

from collections.abc import Iterator, Mapping
from typing import Any

from bittern.runtime.inspect_text import inspection_text, printable

_INDENT = "  "
_SHOWN = 6  # launches of a kernel that are named


def level_text(record: Mapping[str, Any], full: bool = False) -> str:
    """Return the text of a level. record: of `level_record`. full: with every node, kernel's text and instruction."""
    if record["level"] == 2:
        lines = [inspection_text(record, full), "", *_passes(record["passes"])]
    else:
        lines = [f"{printable(record['path'])}: level {record['level']}"]
        for label, root in record["roots"].items():
            lines += ["", *(_kernels(label, root, full) if record["level"] == 3 else _machine(label, root, full))]
    return "\n".join(lines)


def _passes(done: Mapping[str, Any]) -> Iterator[str]:
    yield "passes that changed something (round: pass, nodes afterwards)"
    for label, steps in done.items():
        told = [f"{step['round']}: {step['pass']} {step['nodes']}" for step in steps]
        yield f"{_INDENT}{printable(label)}: {', '.join(told) or 'none'}"


def _sizes(root: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {size}" for name, size in root["sizes"].items()) or "no dimensions"


def _kernels(label: str, root: Mapping[str, Any], full: bool) -> Iterator[str]:
    launches = sum(len(kernel["launches"]) for kernel in root["kernels"])
    yield f"{printable(label)} ({_sizes(root)}): {len(root['kernels'])} kernels, {launches} launches"
    for kernel in root["kernels"]:
        yield from _head(kernel)
        if full or len(root["kernels"]) == 1:
            yield from (_INDENT * 2 + line for line in kernel["text"].splitlines())
    if not full and len(root["kernels"]) > 1:
        yield f"{_INDENT}(--full shows the text of each)"


def _head(kernel: Mapping[str, Any], place: str = "") -> Iterator[str]:
    names = list(dict.fromkeys(launch["label"] for launch in kernel["launches"]))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    yield f"{_INDENT}{place}{printable(kernel['name'])}: {', '.join(map(printable, names[:_SHOWN]))}{more}"
    first = kernel["launches"][0]
    covered = [f"{name} {key[:12]}" for name, key in zip(first["operations"], first["nodes"], strict=True)]
    more = f" and {len(covered) - _SHOWN} more" if len(covered) > _SHOWN else ""
    yield f"{_INDENT * 2}covers {', '.join(map(printable, covered[:_SHOWN]))}{more}"


def _machine(label: str, root: Mapping[str, Any], full: bool) -> Iterator[str]:
    head = f"{len(root['kernels'])} kernels, {root['bytes']} bytes for {root['tier']}"
    yield f"{printable(label)} ({_sizes(root)}): {head}"
    for kernel in root["kernels"]:
        yield from _head(kernel, f"{kernel['start']:#08x}..{kernel['end']:#08x} ")
        for stretch in kernel["code"]:
            name = stretch["operation"] or kernel["launches"][0]["label"]
            yield f"{_INDENT * 2}{stretch['start']:#08x}..{stretch['end']:#08x} {printable(name)}"
            if full:
                yield from (_INDENT * 3 + line for line in stretch["instructions"])
    if not full:
        yield f"{_INDENT}(--full shows the instructions)"
