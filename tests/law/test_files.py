"""Law: files and functions that read in one sitting, names that say what they hold, words for everything public."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from source_tree import PACKAGE, ROOT, modules, python_files, shown, text_files, tree

MAX_FILE, MAX_FUNCTION = 500, 60
VAGUE = re.compile(r"^(utils?|helpers?|common|misc|new_.*|.*2)$")


def test_no_file_is_too_long() -> None:
    counts = {shown(path): len(path.read_text("utf-8").splitlines()) for path in python_files()}
    assert not {name: count for name, count in counts.items() if count > MAX_FILE}


def functions(syntax: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield name and number of lines of every function."""
    for found in ast.walk(syntax):
        if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef):
            yield found.name, (found.end_lineno or found.lineno) - found.lineno + 1


def test_no_function_is_too_long() -> None:
    faults = [
        f"{shown(path)}: {name} has {count} lines"
        for path in python_files()
        for name, count in functions(tree(path))
        if count > MAX_FUNCTION
    ]
    assert not faults, "\n".join(faults)


def test_no_name_is_vague() -> None:
    """A family is named as its checkpoints name their architecture (`gemma2`); all other names are ours."""
    ours = [path for path in python_files() if path.parent != PACKAGE / "models"]
    assert not [shown(path) for path in ours if VAGUE.match(path.stem)]
    assert all(VAGUE.match(name) for name in ("utils", "helper", "common", "new_parser", "lower2"))


def undocumented(syntax: ast.Module) -> Iterator[str]:
    """Yield the public things without a docstring: the module, its functions and classes, and their methods."""
    if not ast.get_docstring(syntax):
        yield "the module"
    bodies: list[tuple[str, list[ast.stmt]]] = [("", syntax.body)]
    while bodies:
        owner, body = bodies.pop()
        for found in body:
            if not isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            if found.name.startswith("_") or _is_overload(found):
                continue
            if not ast.get_docstring(found):
                yield owner + found.name
            if isinstance(found, ast.ClassDef):
                bodies.append((f"{owner}{found.name}.", found.body))


def _is_overload(found: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    return any(ast.unparse(decorator).endswith("overload") for decorator in found.decorator_list)


def test_everything_public_has_a_docstring() -> None:
    faults = [f"{shown(path)}: {name}" for path in modules() for name in undocumented(tree(path))]
    assert not faults, "\n".join(faults)


def test_a_missing_docstring_is_found() -> None:
    text = '"""M."""\ndef f(): pass\ndef _g(): pass\nclass C:\n    """C."""\n    def h(self): pass\n'
    assert list(undocumented(ast.parse(text))) == ["f", "C.h"]


def test_nothing_is_left_to_do() -> None:
    mark = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    own = Path(__file__)
    faults = [shown(path) for path in python_files() if path != own and mark.search(path.read_text("utf-8"))]
    assert not faults, faults


def test_no_path_of_a_machine() -> None:
    machine = re.compile(r"(?<![\w.~{}])/(work|root|Users|mnt|opt)/")
    own = Path(__file__)
    faults = [
        f"{shown(path)}:{number}"
        for path in text_files()
        if path != own
        for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1)
        if machine.search(line) or str(ROOT) in line
    ]
    assert not faults, faults


@pytest.mark.parametrize("arguments", [["check", "."], ["format", "--check", "."]])
def test_ruff_finds_nothing(arguments: list[str]) -> None:
    done = _tool("ruff", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_finds_nothing() -> None:
    done = _tool("mypy")
    assert done.returncode == 0, done.stdout + done.stderr


def _tool(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
