"""`bittern inspect`: what a file holds: its tensors, its graph, or how two differ."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bittern.base.errors import BitternError
from bittern.cli.frame import BAD_ARGUMENTS, model_path, open_store, print_json
from bittern.cli.options import Folders, folder, whole, words

if TYPE_CHECKING:
    from bittern.runtime.inspect import Inspection
    from bittern.runtime.inspect_levels import View


Name = Annotated[
    str,
    typer.Argument(
        metavar="PATH", help="A .keg, .btn or GGUF file, a folder, or a pulled model's name; PATH:FUNCTION: that alone."
    ),
]
Other = Annotated[str | None, typer.Argument(metavar="OTHER", help="A second one: shows how their graphs differ.")]
Facts = Annotated[
    str | None, typer.Option("--facts", metavar="NODE", help="Print the ten facts of a node: its label or id.")
]
Level = Annotated[
    int,
    typer.Option(
        metavar="N",
        parser=whole("--level", 1, 4),
        help="1: the graph, 2: after the passes, 3: kernels in bitops, 4: machine code.",
    ),
]
Dims = Annotated[str, typer.Option("--dims", metavar="SIZES", help="Sizes for levels 2 to 4, such as t=1,c=512.")]
Without = Annotated[
    str, typer.Option("--without", metavar="PASSES", help="Passes to leave out, with commas between them.")
]
Tier = Annotated[str, typer.Option("--tier", metavar="NAME", help="Of the machine code; else this processor's.")]
Full = Annotated[bool, typer.Option("--full", help="Show every tensor and every node, nothing folded.")]
Html = Annotated[
    Path | None, typer.Option(metavar="FILE", parser=folder("--html"), help="Write one page that holds it all.")
]
Onnx = Annotated[
    Path | None, typer.Option(metavar="FILE", parser=folder("--onnx"), help="Write the structure for ONNX viewers.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def command(
    path: Name,
    other: Other = None,
    facts: Facts = None,
    level: Level = 1,
    dims: Dims = "",
    without: Without = "",
    tier: Tier = "",
    full: Full = False,
    html: Html = None,
    onnx: Onnx = None,
    library: Folders = None,
    as_json: AsJson = False,
) -> int:
    """Show what a file holds: its tensors, its graph, or how two differ."""
    if other is not None and (facts is not None or onnx is not None or level > 1):
        raise BitternError(BAD_ARGUMENTS, "--facts, --onnx and --level take one PATH, not two.", "Leave OTHER out.")
    if level > 1 and (html is not None or onnx is not None):
        raise BitternError(BAD_ARGUMENTS, "--html and --onnx show the graph, which is level 1.", "Leave --level out.")
    if level == 1 and (dims or without or tier):
        raise BitternError(BAD_ARGUMENTS, "--dims, --without and --tier are for levels 2 to 4.", "Give --level too.")
    if level > 1:
        return _level(path, _view(level, dims, without, tier, library or []), facts, full, as_json)
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

    store, (name, function) = open_store(), _parts(given)
    found = inspect_path(model_path(name, store), store, library)
    if not function:
        return found
    from bittern.runtime.inspect_levels import only_function

    return only_function(found, function)


def _parts(given: str) -> tuple[str, str]:
    """Return the path and the function of a PATH argument; a path that exists as it is has none."""
    name, mark, function = given.rpartition(":")
    is_whole = not mark or not function or len(name) < 2 or Path(given).exists()
    return (given, "") if is_whole else (name, function)


def _view(level: int, dims: str, without: str, tier: str, library: list[Path]) -> "View":
    """Return what is asked of a level. Errors: U111."""
    from bittern.runtime.inspect_levels import View

    sizes: dict[str, int] = {}
    for part in words(dims):
        name, _, number = part.partition("=")
        sizes[name.strip()] = whole(f"--dims {name}", 0)(number.strip())
    return View(level, sizes, words(without), tier, tuple(library))


def _level(given: str, view: "View", facts: str | None, full: bool, as_json: bool) -> int:
    """Print a level below the graph, or the facts of a node after the passes."""
    from bittern.runtime.inspect import inspecting
    from bittern.runtime.inspect_levels import at_level_two, level_record, only_function
    from bittern.runtime.inspect_levels_text import level_text

    if facts is not None and view.level > 2:
        raise BitternError(BAD_ARGUMENTS, "--facts tells of nodes, which levels 1 and 2 have.", "Give --level 1 or 2.")
    store, (name, function) = open_store(), _parts(given)
    with inspecting(model_path(name, store), store, view.folders) as found:
        found = only_function(found, function) if function else found
        if facts is not None:
            print("\n".join(_facts(at_level_two(found, view)[0], facts, as_json)))
            return 0
        record = level_record(found, view)
    if as_json:
        print_json(record)
    else:
        print(level_text(record, full))
    return 0


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
