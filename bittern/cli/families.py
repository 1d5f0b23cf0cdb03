"""`bittern families`: which model families run, and from what."""

from typing import Annotated

import typer

from bittern.cli.frame import print_json
from bittern.models.tested import GROUPS, TESTED, marks


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """List the model families and what each was run from.

    That is folders, and element types of matrices in GGUF files. Every entry is run by the tests on the chips
    `reference` and `vm`.
    """
    if as_json:
        print_json({"families": {name: list(rows) for name, rows in TESTED.items()}})
        return 0
    width = max(map(len, TESTED))
    for name in TESTED:
        cells = [f"{group} {mark}" for group, mark in zip(GROUPS, marks(name), strict=True)]
        print(f"{name:{width}}  {'  '.join(cells)}")
    print()
    for group, members in GROUPS.items():
        print(f"{group}: {' '.join(members)}")
    return 0
