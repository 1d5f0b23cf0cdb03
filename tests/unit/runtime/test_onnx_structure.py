"""The ONNX structure: the checker of onnx accepts it, and nothing of the graph is lost on the way."""

import sys
from pathlib import Path
from typing import Any

import pytest
import tiny_models

from bittern.base.errors import BitternError
from bittern.cli import main
from bittern.graph.node import walk
from bittern.runtime.inspect import Inspection, inspect_path
from bittern.runtime.onnx_structure import structure, write_structure


@pytest.fixture
def onnx() -> Any:
    """The package onnx."""
    return pytest.importorskip("onnx", reason="no package onnx: pip install 'bittern[interop]'")


@pytest.fixture
def model(tmp_path: Path) -> Inspection:
    """A tiny Llama."""
    return inspect_path(tiny_models.save(tmp_path, tiny_models.llama()))


def test_the_checker_accepts_a_model(onnx: Any, model: Inspection, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    write_structure(path, model.roots)
    made = onnx.load(str(path))
    onnx.checker.check_model(made)
    assert made.SerializeToString() == structure(model.roots).SerializeToString(), "the same bytes every time"
    assert {value.name for value in made.graph.input} > {"forward.token:0", "head.x:0"}
    inner = {function.name for function in made.functions}
    assert {node.op_type for node in made.graph.node if node.domain == "bittern.functions"} <= inner


def test_every_node_is_there(onnx: Any, model: Inspection) -> None:
    made = structure(model.roots)
    wanted = [
        n.id.hex() for f in model.roots.values() for n in walk(f.result) if n.kind not in ("param", "item", "tuple")
    ]
    assert [node.doc_string for node in made.graph.node if node.op_type != "result"] == wanted
    weights = {node.name: node for node in made.graph.node if node.op_type == "const"}
    assert any(name.endswith("layer.1.down") for name in weights)


@pytest.mark.parametrize("name", ["norms", "attention", "elementary", "random", "sort"])
def test_the_checker_accepts_the_library(onnx: Any, name: str) -> None:
    import bittern

    found = inspect_path(Path(bittern.__file__).parent / "std" / f"{name}.btn")
    onnx.checker.check_model(structure(found.roots))


def test_a_value_that_comes_from_nowhere_is_noticed(onnx: Any, model: Inspection) -> None:
    made = structure(model.roots)
    made.graph.node[-1].input[0] = "nowhere"
    with pytest.raises(onnx.checker.ValidationError):
        onnx.checker.check_model(made)


def test_without_the_package_or_a_graph(
    model: Inspection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BitternError, match="R126"):
        structure({})
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setenv("BITTERN_HOME", str(tmp_path / "home"))
    assert main(["inspect", model.path, "--onnx", str(tmp_path / "x.onnx")]) == 1
    assert "error[R125]" in capsys.readouterr().err and not (tmp_path / "x.onnx").exists()
