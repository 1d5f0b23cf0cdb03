#!/usr/bin/env python3
"""Write bittern/std/tested.json: which functions of the library a test compares with an oracle, and on which chip.

    scripts/catalogue.py [--check]

A test names what it covers with `@pytest.mark.covers("bitwise.parity", "products.decode_*")`. This runs those tests and
records a function for a chip where such a test has evaluated it in the chip's numerics and passed: strictly, which is
what `vm` computes, or over the reals, which is what `reference` computes. A mark that names nothing which its test
evaluates ends the program with status 1. --check runs nothing and compares the record with the marks only.
"""

import ast
import json
import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = "tests/unit/std"
RECORD = ROOT / "bittern" / "std" / "tested.json"
Record = dict[str, dict[str, list[str]]]


def marks(root: Path = ROOT) -> list[tuple[str, str]]:
    """Return pattern and test for every mark, from the syntax of the tests alone."""
    found = []
    for path in sorted((root / FOLDER).glob("test_*.py")):
        for part in ast.parse(path.read_text("utf-8"), str(path)).body:
            if isinstance(part, ast.FunctionDef):
                found += [(name, f"{path.name}::{part.name}") for name in _named(part)]
    return found


def _named(test: ast.FunctionDef) -> Iterator[str]:
    """Yield the arguments of each `covers("...")` of a test."""
    for decorator in test.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.covers":
            for value in decorator.args:
                assert isinstance(value, ast.Constant) and isinstance(value.value, str), ast.unparse(decorator)
                yield value.value


def faults(record: Mapping[str, Mapping[str, list[str]]], claims: list[tuple[str, str]]) -> list[str]:
    """Return what the record and the marks do not have in common."""
    pairs = {(name, test) for name, chips in record.items() for tests in chips.values() for test in tests}
    missing = [
        f"{test} covers {pattern}, of which the record knows nothing"
        for pattern, test in claims
        if not any(test == other and fnmatchcase(name, pattern) for name, other in pairs)
    ]
    spare = [
        f"the record says that {test} covers {name}, but its marks do not"
        for name, test in sorted(pairs)
        if not any(test == other and fnmatchcase(name, pattern) for pattern, other in claims)
    ]
    return missing + spare


class Recorder:
    """A plugin that sees which functions each passing test has evaluated."""

    def __init__(self) -> None:
        self.record: Record = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests that have marks."""
        items[:] = [item for item in items if item.get_closest_marker("covers")]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Note what a test with marks evaluates, if it passes."""
        run: Any = getattr(item, "funcargs", {}).get("run")
        if run is not None:
            run.ran.clear()
        result = yield
        patterns = [str(name) for mark in item.iter_markers("covers") for name in mark.args]
        for name, is_ideal in run.ran if run is not None else ():
            if any(fnmatchcase(name, pattern) for pattern in patterns):
                test = item.nodeid.rpartition("/")[2].partition("[")[0]
                tests = self.record.setdefault(name, {}).setdefault("reference" if is_ideal else "vm", [])
                if test not in tests:
                    tests.append(test)
        return result


def as_text(record: Record) -> str:
    """Return the text of the file."""
    ordered = {name: {chip: sorted(record[name][chip]) for chip in sorted(record[name])} for name in sorted(record)}
    return json.dumps(ordered, indent=1) + "\n"


def main(arguments: list[str]) -> int:
    """Write or check the record; return the exit status."""
    if "--check" in arguments:
        record = json.loads(RECORD.read_text("utf-8"))
    else:
        recorder = Recorder()
        if pytest.main(["-q", "-p", "no:cacheprovider", str(ROOT / FOLDER)], plugins=[recorder]):
            print("a test failed: nothing is written", file=sys.stderr)
            return 1
        record = recorder.record
    found = faults(record, marks())
    for fault in found:
        print(fault, file=sys.stderr)
    if "--check" not in arguments and not found:
        RECORD.write_text(as_text(record), "utf-8")
        print(f"{len(record)} functions in {RECORD.relative_to(ROOT)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
