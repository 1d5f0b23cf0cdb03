#!/usr/bin/env python3
"""Print which tests show which numbered requirement.

    scripts/requirements.py [--missing]

The requirements are the rows of docs/requirements.md; a test names what it shows with `@pytest.mark.req("K004")`.
Nothing is imported or run: the marks are read from the syntax of the tests, so this works before anything is installed.
A mark with an unknown id ends the program with status 1. --missing prints only what no test shows yet.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_ROW = re.compile(r"^\| (?P<id>[KCL]\d+) \| (?P<tag>\w+) \| (?P<text>[^|]*) \|")


def requirements(root: Path = ROOT) -> dict[str, tuple[str, str]]:
    """Return tag and text of every requirement by its id."""
    lines = (root / "docs" / "requirements.md").read_text("utf-8").splitlines()
    rows = [row for row in map(_ROW.match, lines) if row]
    return {row["id"]: (row["tag"], row["text"].strip()) for row in rows}


def marks(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Yield requirement id and test for every mark; a mark of a class or a file stands for that."""
    for path in sorted((root / "tests").rglob("test_*.py")):
        name = path.relative_to(root).as_posix()
        syntax = ast.parse(path.read_text("utf-8"), str(path))
        for owner, part in _owned(syntax.body, name):
            for call in ast.walk(part):
                for identity in _named(call):
                    yield identity, owner


def _owned(body: list[ast.stmt], owner: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield every piece of syntax that may hold a mark, with the test to which it belongs."""
    for found in body:
        if isinstance(found, ast.ClassDef):
            yield from ((f"{owner}::{found.name}", decorator) for decorator in found.decorator_list)
            yield from _owned(found.body, f"{owner}::{found.name}")
        elif isinstance(found, ast.FunctionDef):
            yield f"{owner}::{found.name}", found
        else:
            yield owner, found


def _named(call: ast.AST) -> Iterator[str]:
    """Yield the ids of a `req("...")`."""
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "req":
        for value in call.args:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value


def main(arguments: list[str]) -> int:
    """Print the list; return the exit status."""
    known = requirements()
    shown: dict[str, list[str]] = {identity: [] for identity in known}
    unknown = []
    for identity, test in marks():
        if identity in shown:
            shown[identity].append(test)
        else:
            unknown.append((identity, test))
    for identity, tests in shown.items():
        tag, text = known[identity]
        if tests and "--missing" not in arguments:
            print(f"{identity} {text}")
            for test in sorted(set(tests)):
                print(f"    {test}")
        elif not tests and "--missing" in arguments:
            print(f"{identity} [{tag}] {text}")
    done = sum(map(bool, shown.values()))
    print(f"\n{done} of {len(known)} requirements are shown by a test; --missing lists the others.")
    for identity, test in unknown:
        print(f"{test} names {identity}, which docs/requirements.md does not have", file=sys.stderr)
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
