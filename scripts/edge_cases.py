#!/usr/bin/env python3
"""Print which tests show which row of docs/edge_cases.md.

    scripts/edge_cases.py [--missing]

A test names its rows in its docstring, or in that of its file: "EDGE_CASES E1, E2" or "Edge case E4". Nothing is
imported or run. An unknown row, or one that is shown though it is listed as not applicable, ends with status 1.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_ROW = re.compile(r"^\| (?P<row>[A-E]\d+) \| (?P<source>[^|]*) \| (?P<fault>[^|]*) \|", re.MULTILINE)
_REASON = re.compile(r"^\| (?P<row>[A-E]\d+) \| (?P<why>[^|]*) \|$", re.MULTILINE)
_NAMED = re.compile(r"(?:EDGE_CASES|[Ee]dge\s+cases?)\s+((?:[A-E]\d+(?:\s*\([^)]*\))?(?:,\s*|\s+and\s+)?)+)")


def rows(root: Path = ROOT) -> dict[str, str]:
    """Return what fails elsewhere, by row."""
    head = (root / "docs" / "edge_cases.md").read_text("utf-8").partition("## Not applicable yet")[0]
    return {found["row"]: found["fault"].strip() for found in _ROW.finditer(head)}


def reasons(root: Path = ROOT) -> dict[str, str]:
    """Return why a row is not applicable yet."""
    tail = (root / "docs" / "edge_cases.md").read_text("utf-8").partition("## Not applicable yet")[2]
    return {found["row"]: found["why"].strip() for found in _REASON.finditer(tail)}


def named(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Yield row and test for each row that a docstring names; that of a file stands for the file."""
    for path in sorted((root / "tests").rglob("test_*.py")):
        name = path.relative_to(root).as_posix()
        syntax = ast.parse(path.read_text("utf-8"), str(path))
        tests = [
            found for found in ast.walk(syntax) if isinstance(found, ast.FunctionDef) and found.name[:5] == "test_"
        ]
        owners: list[tuple[str, ast.Module | ast.FunctionDef]] = [(name, syntax)]
        owners += [(f"{name}::{test.name}", test) for test in tests]
        for owner, part in owners:
            for mention in _NAMED.findall(ast.get_docstring(part) or ""):
                for row in re.findall(r"[A-E]\d+", re.sub(r"\([^)]*\)", "", mention)):
                    yield row, owner


def main(arguments: list[str]) -> int:
    """Print the list; return the exit status."""
    known, why = rows(), reasons()
    shown: dict[str, list[str]] = {row: [] for row in known}
    wrong = []
    for row, test in named():
        if row not in shown:
            wrong.append(f"{test} names {row}, which docs/edge_cases.md does not have")
            continue
        shown[row].append(test)
    wrong += [f"{row} is listed as not applicable, and {shown[row][0]} shows it" for row in why if shown.get(row)]
    for row, tests in shown.items():
        if tests and "--missing" not in arguments:
            print(f"{row} {known[row]}")
            for test in sorted(set(tests)):
                print(f"    {test}")
        elif not tests:
            print(f"{row} {known[row]}\n    {'not applicable yet: ' + why[row] if row in why else 'no test yet'}")
    print(f"\n{sum(map(bool, shown.values()))} of {len(known)} rows are shown by a test.")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
