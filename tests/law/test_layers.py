"""Law: imports run downward only, and the world outside is met at the edge only."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from source_tree import LAYERS, PACKAGE, ROOT, imports, layer, module_name, modules, shown, tree

# Who may touch the operating system, other programs or the network, and why.
EDGE = {
    "bittern.runtime.pip": "asks pip where a wheel is",
    "bittern.runtime.download": "streams a wheel",
    "bittern.runtime.store": "locks what it writes",
    "bittern.cli.frame": "ends on signals",
    "bittern.chips.machine.memory": "maps machine code executable",
    "bittern.chips.machine.calls": "calls machine code",
}
OUTSIDE = {"ctypes", "cffi", "subprocess", "socket", "ssl", "http", "urllib", "requests", "fcntl", "msvcrt", "signal"}


def upward(module: str, syntax: ast.Module) -> Iterator[str]:
    """Yield the imports of a module that do not run downward."""
    own = layer(module)
    for line, name in imports(syntax):
        other = layer(name)
        if name.startswith("."):
            yield f"{module}:{line} imports {name}: write the full name"
        elif own and other and LAYERS.index(other) > LAYERS.index(own):
            yield f"{module}:{line} imports {name}"


def test_imports_run_downward() -> None:
    faults = [fault for path in modules() for fault in upward(module_name(path), tree(path))]
    assert not faults, "\n".join(faults)


def test_every_folder_is_a_layer() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert folders <= set(LAYERS), folders


@pytest.mark.parametrize(
    "planted",
    [
        "from bittern.runtime.store import Store",
        "import bittern.cli",
        "def f():\n    from bittern.lang import parser",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from bittern.chips import vm",
        "from ..front import gguf",
        "import_module(f'bittern.passes.{name}')",
    ],
)
def test_a_planted_upward_import_is_found(planted: str) -> None:
    assert list(upward("bittern.graph.node", ast.parse(planted)))


def test_a_downward_import_is_none() -> None:
    assert not list(upward("bittern.graph.node", ast.parse("from bittern.base.hashing import digest\nimport numpy")))


def outside(path: Path) -> set[str]:
    """Return what a file imports of the world outside."""
    return {name.partition(".")[0] for _, name in imports(tree(path))} & OUTSIDE


@pytest.mark.req("K070")
def test_only_the_edge_touches_the_world() -> None:
    faults = {module_name(path): found for path in modules() if (found := outside(path))}
    assert set(faults) <= set(EDGE), {name: found for name, found in faults.items() if name not in EDGE}
    assert set(EDGE) <= set(faults), "these need no exception any more"


def test_torch_is_imported_in_train_only() -> None:
    faults = [
        f"{shown(path)}:{line}"
        for path in modules()
        for line, name in imports(tree(path))
        if name.partition(".")[0] == "torch" and layer(module_name(path)) != "train"
    ]
    assert not faults, faults


def test_the_environment_is_read_in_cli_only() -> None:
    reading = re.compile(r"\bos\.(environ|getenv)\b")
    faults = [
        shown(path) for path in modules() if reading.search(path.read_text()) and layer(module_name(path)) != "cli"
    ]
    assert not faults, faults


@pytest.mark.req("K015")
def test_no_llvm_anywhere() -> None:
    faults = [
        f"{shown(path)}:{line} {name}"
        for path in modules()
        for line, name in imports(tree(path))
        if re.search("llvm|numba|clang", name, re.IGNORECASE)
    ]
    assert not faults, faults
    assert not re.search("llvm|numba", (ROOT / "pyproject.toml").read_text(), re.IGNORECASE)
