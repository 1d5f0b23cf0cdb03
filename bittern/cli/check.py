"""`bittern check`: every error of the programs at once, with place, code, and what to do."""

import os
import sys
from typing import Annotated

import typer

from bittern.base.errors import BitternError
from bittern.cli.frame import BAD_ARGUMENTS, print_json


def command(
    paths: Annotated[list[str], typer.Argument(metavar="PATH", help="Files or folders of .btn programs.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Check programs: every error at once, with its place."""
    from bittern.lang import render
    from bittern.lang.check import check_paths
    from bittern.lang.messages import as_message

    if "" in paths:
        raise BitternError(BAD_ARGUMENTS, "A PATH is empty.", "Name a file or folder.")
    found = check_paths(paths)
    if as_json:
        print_json({"errors": [as_message(diagnostic) for diagnostic in found]})
        return 1 if found else 0
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for diagnostic in found:
        print(render.as_text(diagnostic, colour))
    print(f"\n{len(found)} error{'s' * (len(found) > 1)}" if found else "No errors.")
    return 1 if found else 0
