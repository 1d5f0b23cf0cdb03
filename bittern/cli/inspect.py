"""`bittern inspect`: what a file holds: its tensors, its graph, or how two differ."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bittern.base.errors import BitternError
from bittern.cli.frame import BAD_ARGUMENTS, model_path, open_store, print_json
from bittern.cli.options import folder

if TYPE_CHECKING:
    from bittern.runtime.inspect import Inspection


def command(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A .keg, .btn or GGUF file, a folder, or a pulled model's name.")
    ],
    other: Annotated[
        str | None, typer.Argument(metavar="OTHER", help="A second one: shows how their graphs differ.")
    ] = None,
    facts: Annotated[
        str | None, typer.Option("--facts", metavar="NODE", help="Print the ten facts of a node: its label or id.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Show every tensor and every node, nothing folded.")] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", parser=folder("--html"), help="Write one page that holds it all.")
    ] = None,
    onnx: Annotated[
        Path | None,
        typer.Option(metavar="FILE", parser=folder("--onnx"), help="Write the structure for ONNX viewers."),
    ] = None,
    library: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR", parser=folder("--library"), help="A folder of programs and families, before Bittern's own."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Show what a file holds: its tensors, its graph, or how two differ."""
    if other is not None and (facts is not None or onnx is not None):
        raise BitternError(BAD_ARGUMENTS, "--facts and --onnx take one PATH, not two.", "Leave OTHER out.")
    found = _opened(path, library or [])
    told = [] if facts is None else _facts(found, facts, as_json)
    second = None if other is None else _opened(other, library or [])
    written = _written(found, second, html, onnx)
    if told:
        print("\n".join(told))
    elif written and not as_json:
        print("\n".join(written))
    elif second is not None:
        _difference(found, second, as_json)
    elif as_json:
        print_json(found.as_json())
    else:
        from bittern.runtime.inspect_text import inspection_text

        print(inspection_text(found.as_json(), full))
    return 0


def _opened(given: str, library: list[Path]) -> "Inspection":
    from bittern.runtime.inspect import inspect_path

    store = open_store()
    return inspect_path(model_path(given, store), store, library)


def _written(found: "Inspection", second: "Inspection | None", html: Path | None, onnx: Path | None) -> list[str]:
    """Write the files that are asked for; return what was written."""
    lines = []
    if html is not None:
        from bittern.runtime.page import write_page

        write_page(html, found, second)
        lines.append(f"wrote {html}")
    if onnx is not None:
        from bittern.runtime.onnx_structure import write_structure

        write_structure(onnx, found.roots)
        lines.append(f"wrote {onnx}")
    return lines


def _facts(found: "Inspection", name: str, as_json: bool) -> list[str]:
    """Return the ten facts of a node, as lines or as one JSON object. Raises R122, R123."""
    from bittern.base.json_text import json_text
    from bittern.graph.facts import facts_of
    from bittern.graph.lookup import find_node
    from bittern.runtime.inspect_text import printable

    function, node = find_node(found.roots, name)
    told = facts_of(node, function.labels.dims)
    if as_json:
        encoding = sys.stdout.encoding or "utf-8"
        return [json_text({"node": node.id.hex(), "function": function.name, "facts": told}, encoding)]
    head = f"{printable(name)}: node {node.id.hex()} of {printable(function.name)}"
    return [head, *(f"  {fact:18} {printable(text)}" for fact, text in told.items())]


def _difference(left: "Inspection", right: "Inspection", as_json: bool) -> None:
    """Print how the graphs of two files differ, root by root."""
    from bittern.runtime.inspect_difference import difference_record, difference_text

    record: dict[str, Any] = difference_record(left, right)
    if as_json:
        print_json(record)
    else:
        print(difference_text(record))
