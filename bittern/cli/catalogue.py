"""`bittern catalogue`: what the library of algorithms offers, and what of it is tested on which chip."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bittern.cli.frame import print_json

if TYPE_CHECKING:
    from bittern.std.catalogue import Entry


def command(
    count: Annotated[bool, typer.Option("--count", help="Print only the totals.")] = False,
    matrix: Annotated[bool, typer.Option("--matrix", help="Print how many are tested, by family and chip.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """List the functions of the library and where they are tested.

    A line says what a function computes, and on which chips a test compares it with an oracle.
    """
    from bittern.chips.chip import chip_names
    from bittern.ops.table import ops
    from bittern.std.catalogue import entries

    found, chips = entries(), chip_names()
    totals = _totals(found, chips, len(ops()))
    rows = _matrix(found, chips)
    if as_json:
        wanted: dict[str, Any] = dict(totals)
        if not count:
            wanted["families"] = rows
        if not count and not matrix:
            wanted["functions_of"] = [_as_json(entry) for entry in found]
        print_json(wanted)
    elif count:
        _print_totals(totals, chips)
    elif matrix:
        _print_matrix(rows, chips)
        _print_totals(totals, chips)
    else:
        _print_functions(found)
        _print_totals(totals, chips)
    return 0


def _totals(found: "list[Entry]", chips: list[str], ops: int) -> dict[str, Any]:
    """Return the counts of everything."""
    return {
        "ops": ops,
        "modules": len({entry.module for entry in found}),
        "functions": len(found),
        "overloads": sum(entry.overloads for entry in found),
        "tested": sum(bool(entry.tested) for entry in found),
        "tested_on": {chip: sum(chip in entry.tested for entry in found) for chip in chips},
    }


def _matrix(found: "list[Entry]", chips: list[str]) -> list[dict[str, Any]]:
    """Return a row for each family."""
    rows = []
    for family in dict.fromkeys(entry.family for entry in found):
        own = [entry for entry in found if entry.family == family]
        rows.append({"family": family, **{k: v for k, v in _totals(own, chips, 0).items() if k != "ops"}})
    return rows


def _as_json(entry: "Entry") -> dict[str, Any]:
    return {
        "name": f"{entry.module}.{entry.name}",
        "family": entry.family,
        "summary": entry.summary,
        "overloads": entry.overloads,
        "tested": {chip: list(tests) for chip, tests in entry.tested.items()},
    }


def _print_totals(totals: dict[str, Any], chips: list[str]) -> None:
    print(f"{totals['functions']} functions in {totals['modules']} modules, on {totals['ops']} primitive operations")
    where = ", ".join(f"{totals['tested_on'][chip]} on {chip}" for chip in chips)
    print(f"{totals['tested']} compared with an oracle by a test: {where}")


def _print_matrix(rows: list[dict[str, Any]], chips: list[str]) -> None:
    width = max(len(row["family"]) for row in rows)
    heads = ["functions", "tested", *chips]
    print(f"{'family':{width}}  " + "  ".join(f"{head:>9}" for head in heads))
    for row in rows:
        numbers = [row["functions"], row["tested"], *(row["tested_on"][chip] for chip in chips)]
        print(f"{row['family']:{width}}  " + "  ".join(f"{number:9}" for number in numbers))
    print()


def _print_functions(found: "list[Entry]") -> None:
    family = ""
    for entry in found:
        if entry.family != family:
            family = entry.family
            print(f"{family}:")
        where = ", ".join(entry.tested) or "not tested"
        print(f"  {entry.module}.{entry.name} [{where}]\n      {entry.summary}")
    print()
