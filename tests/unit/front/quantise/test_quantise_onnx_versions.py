"""Nodes of older versions of ONNX in newer files: the same numbers in ONNX Runtime and in our own run, or a refusal."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

import onnx
from onnx import helper
from onnx_nets import model, saved
from quantise_cases import bell

from bittern.base.errors import BitternError
from bittern.base.progress import Progress
from bittern.front.quantise.onnx import versions
from bittern.front.quantise.onnx.file import quantise_onnx
from bittern.front.quantise.onnx.graph import graph_of, read_model
from bittern.front.quantise.onnx.run import folded, run
from bittern.front.quantise.onnx.settings import Settings

FOUR = np.array([0.5, 1, 2, 1.5], np.float32)
CASES: dict[str, tuple[int, tuple[int, ...], str, dict[str, Any], tuple[np.ndarray, ...]]] = {
    "clip": (9, (2, 5, 6), "Clip", {"min": -0.5, "max": 0.75}, ()),
    "clip_low": (9, (2, 5, 6), "Clip", {"min": -0.5}, ()),
    "clip_high": (9, (2, 5, 6), "Clip", {"max": 0.75}, ()),
    "clip_none": (9, (2, 5, 6), "Clip", {}, ()),
    "pad": (10, (2, 5, 6), "Pad", {"pads": [0, 1, 2, 0, 0, 1], "value": 0.5}, ()),
    "pad_zero": (9, (2, 5, 6), "Pad", {"pads": [0, 1, 2, 0, 0, 1]}, ()),
    "dropout": (9, (2, 5, 6), "Dropout", {"ratio": 0.3}, ()),
    "softmax": (11, (2, 6), "Softmax", {}, ()),
    "softmax_last": (9, (2, 5, 6), "Softmax", {"axis": 2}, ()),
    "softmax_end": (11, (2, 5, 6), "Softmax", {"axis": -1}, ()),
    "unsqueeze": (11, (2, 5, 6), "Unsqueeze", {"axes": [1]}, ()),
    "squeeze": (11, (2, 1, 6), "Squeeze", {"axes": [1]}, ()),
    "squeeze_all": (11, (2, 1, 6), "Squeeze", {}, ()),
    "reduce_mean": (13, (2, 5, 6), "ReduceMean", {"axes": [1], "keepdims": 0}, ()),
    "batch_normalization": (8, (2, 4, 6), "BatchNormalization", {"spatial": 1}, (FOUR, FOUR, FOUR, FOUR)),
}


def file(case: tuple[int, tuple[int, ...], str, dict[str, Any], tuple[np.ndarray, ...]]) -> Any:
    """Return a product with a constant matrix and the operation behind it."""
    version, shape, op, attributes, more = case
    constants = {"w": bell(np.random.default_rng(40), shape[-1], shape[-1])}
    constants |= {f"k{place}": array for place, array in enumerate(more)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "dense"),
        helper.make_node(op, ["a", *(name for name in constants if name != "w")], ["y"], "old", **attributes),
    ]
    return model(nodes, constants, shape, version)


def written(folder: Path, made: Any, shape: tuple[int, ...]) -> Any:
    """Quantise to 4 bits in QDQ, which needs version 21; return the file."""
    x = bell(np.random.default_rng(41), *shape)
    quantise_onnx(saved(folder, made), folder / "out.onnx", Settings("4", "none"), x, None, Progress())
    return onnx.load(folder / "out.onnx")


@pytest.mark.parametrize("name", CASES)
def test_the_newer_form_is_the_same_operation(tmp_path: Path, name: str) -> None:
    ort = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    case = CASES[name]
    made = written(tmp_path, file(case), case[1])
    assert made.opset_import[0].version == 21
    x = bell(np.random.default_rng(42), *case[1])
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # else it computes in 8 bits
    (theirs,) = ort.InferenceSession(made.SerializeToString(), options).run(None, {"x": x})
    after = folded(graph_of(read_model(tmp_path / "out.onnx")))
    assert np.allclose(run(after, x, ["y"])["y"], theirs, atol=1e-5)
    before = folded(graph_of(file(case)))
    before.constants["w"] = after.constants["w_quantised"]
    assert np.allclose(run(before, x, ["y"])["y"], theirs, atol=1e-5)
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(made))


def test_what_cannot_be_said_in_the_newer_version(tmp_path: Path) -> None:
    cases = [
        ((11, (2, 5, 6), "Softmax", {"axis": 1}, ()), "over several axes together"),
        ((8, (2, 4, 6), "BatchNormalization", {"spatial": 0}, (FOUR, FOUR, FOUR, FOUR)), "each place by itself"),
        ((6, (2, 5, 6), "Relu", {}, ()), "before 7 mean other broadcasting"),
    ]
    for case, words in cases:
        with pytest.raises(BitternError, match=words) as caught:
            written(tmp_path, file(case), case[1])  # type: ignore[arg-type]
        assert caught.value.code == "N438" and not (tmp_path / "out.onnx").exists()
    open_shape = file(CASES["softmax_last"])
    open_shape.graph.input[0].type.tensor_type.shape.dim[1].Clear()
    source = saved(tmp_path, open_shape)
    with pytest.raises(BitternError, match="over several axes") as caught:
        quantise_onnx(source, tmp_path / "out.onnx", Settings("4", "none"), None, None, Progress())
    assert caught.value.code == "N438"


def test_names_that_are_taken_already(tmp_path: Path) -> None:
    """A file whose tensors have the names that new ones would get."""
    made = file(CASES["clip"])
    for node in made.graph.node:
        for part in (node.input, node.output):
            for place, name in enumerate(part):
                part[place] = {"a": "w_codes", "y": "w_quantised"}.get(name, name)
    made.graph.output[0].name = "w_quantised"
    out = written(tmp_path, made, CASES["clip"][1])
    names = [name for node in out.graph.node for name in node.output] + [row.name for row in out.graph.initializer]
    assert len(names) == len(set(names)) and out.graph.output[0].name == "w_quantised"
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(out))


def test_a_planted_fault_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that forgets the upper end."""
    right = versions._ROWS["Clip"]

    def forgetful(row: Any, rank: Any, add: Any) -> str:
        versions._taken(row, "max")
        return right[1](row, rank, add)

    monkeypatch.setitem(versions._ROWS, "Clip", (11, forgetful))
    with pytest.raises(AssertionError):
        test_the_newer_form_is_the_same_operation(tmp_path, "clip")
