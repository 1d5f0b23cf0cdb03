"""Quantising ONNX models: files that ONNX Runtime runs with the same codes, accuracy, reports, refusals."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

import onnx
from onnx import helper
from onnx_nets import model, residual, samples, saved
from quantise_cases import bell, printed_everywhere

from bittern.base.errors import BitternError
from bittern.base.progress import Progress
from bittern.front.quantise.onnx import file as module
from bittern.front.quantise.onnx.file import predictions, quantise_onnx
from bittern.front.quantise.onnx.graph import Graph, graph_of, read_model
from bittern.front.quantise.onnx.run import batches, folded, run
from bittern.front.quantise.onnx.settings import Settings
from bittern.front.quantise.report import Report, report_text
from bittern.front.quantise.widths import WIDTHS

BASE = Settings(samples=48)


def quantise(folder: Path, made: Any = None, data: Any = None, **changed: Any) -> tuple[Graph, Report]:
    """Quantise a network on samples; return the graph that was written, and the report."""
    source, given = saved(folder, residual() if made is None else made), samples() if data is None else data
    report = quantise_onnx(source, folder / "out.onnx", replace(BASE, **changed), given, None, Progress())
    return folded(graph_of(read_model(folder / "out.onnx"))), report


def outputs(graph: Graph, x: Any) -> Any:
    return np.concatenate([run(graph, batch, ["y"])["y"] for batch in batches(x)])


def ratios(report: Report) -> list[float]:
    return [of or 99.0 for _, of in report.layers]


@pytest.mark.req("C078", "C079")
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"width": "4"},
        {"width": "4", "activations": "4", "signed": True},
        {"width": "8", "asymmetric": True, "granularity": "tensor"},
        {"width": "4", "asymmetric": True, "granularity": "16"},
        {"width": "3", "form": "qdq"},
        {"width": "t", "form": "qdq", "method": "mse"},
        {"width": "b1", "form": "qdq"},
        {"dynamic": True},
        {"activations": "none"},
    ],
    ids=str,
)
def test_onnx_runtime_runs_what_is_written(tmp_path: Path, changed: dict[str, Any]) -> None:
    """Oracle: the file is valid, and ONNX Runtime gives what our own run gives, up to single codes at ties."""
    ort = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    graph, report = quantise(tmp_path, **changed)
    onnx.checker.check_model(onnx.load(tmp_path / "out.onnx"), full_check=True)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(tmp_path / "out.onnx"), options)
    x = samples(16)
    wanted = np.concatenate([session.run(None, {"x": each[None]})[0] for each in x])
    found = outputs(graph, x)
    near = np.abs(found - wanted) < 1e-3
    assert near.mean() > 0.8 and np.abs(found - wanted).max() < 0.1 * np.abs(wanted).max()
    assert report.settings["form"] == "qdq" and report.bytes_after < report.bytes_before


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("form", ["qdq", "qonnx"])
def test_both_forms_are_the_same_network(tmp_path: Path, width: str, form: str) -> None:
    """The codes of a QDQ file and what QONNX's Quant finds again are the same; weights have few values."""
    graph, report = quantise(tmp_path, width=width, form=form, activations="none", method="mse")
    own = WIDTHS[width]
    count = own.high - own.low + (width != "b1")
    for layer in ("w1", "w3"):
        weight = graph.constants[f"{layer}_quantised"]
        assert weight.dtype == np.float32
        assert max(len(np.unique(row)) for row in weight.reshape(len(weight), -1)) <= count
        told = next(row for row in report.tensors if row.name == layer)
        assert told.became == own.element and told.bytes_after < told.bytes_before
    other, _ = quantise(
        tmp_path, width=width, form="qonnx" if form == "qdq" else "qdq", activations="none", method="mse"
    )
    for layer in ("w1", "w2", "w3", "w4"):
        assert np.array_equal(graph.constants[f"{layer}_quantised"], other.constants[f"{layer}_quantised"])
    assert np.array_equal(outputs(graph, samples(8)), outputs(other, samples(8)))


@pytest.mark.req("C079")
def test_static_and_dynamic_scales_of_the_same_model(tmp_path: Path) -> None:
    plain = outputs(folded(graph_of(residual())), samples(32))
    for changed in ({}, {"dynamic": True}, {"activations": "none"}, {"method": "percentile"}, {"method": "mse"}):
        graph, report = quantise(tmp_path, **changed)
        error = np.abs(outputs(graph, samples(32)) - plain)
        assert error.mean() < 0.03 * np.abs(plain).mean() and min(ratios(report)) > 25, changed
        dynamic = any(node.op == "DynamicQuantizeLinear" for node in graph.nodes)
        static = any(node.op == "QuantizeLinear" for node in graph.nodes)
        assert (dynamic, static) == (
            changed.get("dynamic", False),
            changed.get("activations") != "none" and not dynamic,
        )


def test_weights_that_know_their_inputs_lose_less(tmp_path: Path) -> None:
    for width in ("3", "t"):
        found = [
            np.mean(ratios(quantise(tmp_path, width=width, activations="none", method="mse", rounding=how)[1]))
            for how in ("rtn", "gptq", "adaround")
        ]
        assert found[1] > found[0] + 0.5 and found[2] > found[0] + 0.5, (width, found)


@pytest.mark.parametrize("version", [9, 11, 13, 17])
def test_older_versions_and_fixed_batches(tmp_path: Path, version: int) -> None:
    plain = outputs(folded(graph_of(residual())), samples(8))
    for width, form in (("8", "qdq"), ("4", "qdq"), ("3", "qonnx")):
        graph, _ = quantise(tmp_path, residual(1, version), width=width, form=form)
        assert np.abs(outputs(graph, samples(8)) - plain).mean() < 0.35 * np.abs(plain).mean()
        assert graph.version >= {"8": 13, "4": 21, "3": version}[width]


def test_kept_layers_stay(tmp_path: Path) -> None:
    graph, report = quantise(tmp_path, keep=("first", "last"))
    assert [row.name for row in report.tensors] == ["w2", "w3"] and "2 of 4 layers stay float." in report.notes
    assert np.array_equal(graph.constants["w1"], folded(graph_of(residual())).constants["w1"])
    with pytest.raises(BitternError, match="4 layers with constant weights") as caught:
        quantise(tmp_path, keep=("",))
    assert caught.value.code == "N436"


def test_the_same_file_everywhere(tmp_path: Path) -> None:
    """Edge case B18: equal bytes with any threads, BLAS and vector instructions, also with gptq and adaround."""
    saved(tmp_path, residual())
    program = f"""
import hashlib
from pathlib import Path
from bittern.base.progress import Progress
from bittern.front.quantise.onnx.file import quantise_onnx
from bittern.front.quantise.onnx.settings import Settings
from onnx_nets import samples
at = Path({str(tmp_path)!r})
for how, method, kept in (("gptq", "kl", ()), ("adaround", "mse", ("last",))):
    own = Settings("4", samples=8, method=method, rounding=how, keep=kept)
    print(quantise_onnx(at / "net.onnx", at / "same.onnx", own, samples(), None, Progress()).sha256)
"""
    assert len(printed_everywhere(program)) == 1


def test_the_report(tmp_path: Path) -> None:
    source, data = saved(tmp_path, residual()), samples(40)
    labels = predictions(folded(graph_of(residual())), data)
    report = quantise_onnx(source, tmp_path / "out.onnx", replace(BASE, width="4"), data, labels, Progress())
    before, after = report.scores
    assert (before.of, before.right, before.count) == ("float", 40, 40) and after.of == "quantised" and after.right > 25
    content = (tmp_path / "out.onnx").read_bytes()
    assert report.sha256 == hashlib.sha256(content).hexdigest() and report.bytes_after == len(content)
    told = report.as_json()
    assert [row["name"] for row in told["tensors"]] == ["w1", "w2", "w3", "w4"]
    assert told["tensors"][0]["bytes_after"] == 8 * 36 // 2 + 4 * 8 and told["settings"]["width"] == "4"
    assert [row["name"] for row in told["layers"]] == ["first", "depthwise", "point", "last"]
    text = report_text(report)
    assert "float: 100.00 % (40 of 40)" in text and "f32 -> i4" in text and report.sha256 in text
    with pytest.raises(BitternError, match="for 40 samples") as caught:
        quantise_onnx(source, tmp_path / "out.onnx", BASE, data, labels[:39], Progress())
    assert caught.value.code == "N442" and (tmp_path / "out.onnx").read_bytes() == content


def test_refusals(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"width": "4", "granularity": "8", "form": "qonnx"}, "N435", "by group"),
        ({"activations": "3", "form": "qdq"}, "N435", "width 3 for tensors"),
        ({"activations": "4", "dynamic": True}, "N437", "as it runs exist for 8 bits"),
        ({"width": "5"}, "N411", "`5` is no width"),
        ({"rounding": "up"}, "N414", "`up` is no way"),
        ({"method": "mean"}, "N414", "`mean` is no way"),
        ({"granularity": "row"}, "N415", "`row`"),
        ({"width": "t", "asymmetric": True}, "N412", "symmetric codes only"),
    ]
    for changed, code, words in cases:
        with pytest.raises(BitternError, match=words) as caught:
            quantise(tmp_path, **changed)
        assert caught.value.code == code and not (tmp_path / "out.onnx").exists()
    source = saved(tmp_path, residual())
    for wanted in (BASE, replace(BASE, activations="none", rounding="gptq")):
        with pytest.raises(BitternError, match="by running the model on samples") as caught:
            quantise_onnx(source, tmp_path / "out.onnx", wanted, None, None, Progress())
        assert caught.value.code == "N437"
    quantise_onnx(source, tmp_path / "out.onnx", replace(BASE, dynamic=True), None, None, Progress())
    bad = samples(8)
    bad[3, 0, 0, 0] = np.nan
    with pytest.raises(BitternError, match="holds an infinity or a NaN for one of the samples") as caught:
        quantise(tmp_path, data=bad)
    assert caught.value.code == "N413"
    with pytest.raises(BitternError, match="to be quantised") as caught:
        quantise_onnx(source, source, BASE, None, None, Progress())
    assert caught.value.code == "N423"


def test_data_of_zeros_and_dead_channels(tmp_path: Path) -> None:
    """Nothing is divided by zero: inputs, weights and whole channels that are zero."""
    made = residual()
    dead = next(row for row in made.graph.initializer if row.name == "w1")
    weight = onnx.numpy_helper.to_array(dead).copy()
    weight[2] = 0
    dead.CopyFrom(onnx.numpy_helper.from_array(weight, "w1"))
    for how in ("rtn", "gptq", "adaround"):
        for width in ("b1", "t", "4"):
            graph, report = quantise(tmp_path, made, np.zeros((6, 4, 8, 8), np.float32), width=width, rounding=how)
            assert np.isfinite(outputs(graph, samples(4))).all() and len(report.layers) == 4


def test_planted_faults_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scales that ignore the data, and codes in the wrong layout."""
    right = module.activation_scales
    with monkeypatch.context() as patch:
        patch.setattr(module, "activation_scales", lambda graph, data, *rest: right(graph, data / 64, *rest))
        with pytest.raises(AssertionError):
            test_static_and_dynamic_scales_of_the_same_model(tmp_path)
    from bittern.front.quantise.onnx.layers import Layer

    monkeypatch.setattr(Layer, "restored", lambda self, matrices, shape: np.roll(matrices, 1).reshape(shape))
    with pytest.raises(AssertionError):
        test_static_and_dynamic_scales_of_the_same_model(tmp_path)


def test_a_shared_name_is_no_clash(tmp_path: Path) -> None:
    """A matrix product with a computed matrix, whose both sides are quantised, beside a constant one."""
    rng = np.random.default_rng(30)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "dense"),
        helper.make_node("Transpose", ["a"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["a", "t"], ["s"], "scores"),
        helper.make_node("Softmax", ["s"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "a"], ["y"], "mix"),
    ]
    made, data = model(nodes, {"w": bell(rng, 6, 6)}, ("n", 5, 6)), bell(rng, 20, 5, 6)
    graph, report = quantise(tmp_path, made, data)
    plain = outputs(folded(graph_of(made)), data)
    assert np.abs(outputs(graph, data) - plain).mean() < 0.03 * np.abs(plain).mean() and len(report.layers) == 1
