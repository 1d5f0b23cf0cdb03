"""A real network: MNIST keeps its accuracy, and what is written becomes a network of whole numbers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

from bittern.base.progress import Progress
from bittern.front.arrays import read_array
from bittern.front.quantise.onnx import calibrate
from bittern.front.quantise.onnx.file import quantise_onnx
from bittern.front.quantise.onnx.graph import graph_of, read_model
from bittern.front.quantise.onnx.run import folded, run
from bittern.front.quantise.onnx.settings import Settings
from bittern.front.quantise.widths import WIDTHS

BASE = Settings(samples=48)
MNIST = "models/mnist_t10k/t10k-images-idx3-ubyte.gz"
LABELS = "models/mnist_t10k/t10k-labels-idx1-ubyte.gz"
NET = "models/onnx_mnist_conv/model.onnx"


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [({"width": "8"}, 9871), ({"width": "4"}, 9791), ({"width": "4", "rounding": "gptq", "method": "mse"}, 9791)],
    ids=str,
)
def test_mnist_keeps_its_accuracy(tmp_path: Path, data_dir: Path, changed: dict[str, Any], wanted: int) -> None:
    """All 10,000 images in ONNX Runtime: 98.91 % in float; 8 bits lose at most 0.2 %, 4-bit weights at most 1 %."""
    ort = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    x, y = read_array(data_dir / MNIST), read_array(data_dir / LABELS)
    settings = replace(BASE, pixels="raw", **changed)
    quantise_onnx(data_dir / NET, tmp_path / "out.onnx", settings, x[:48], None, Progress())
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(tmp_path / "out.onnx"), options)
    images = x.reshape(-1, 1, 1, 28, 28).astype(np.float32)
    right = sum(int(session.run(None, {"Input3": e})[0].argmax() == label) for e, label in zip(images, y, strict=True))
    assert right >= wanted


def test_mnist_measures_itself(tmp_path: Path, data_dir: Path) -> None:
    """The report's accuracy on the first 1,000 images, float and quantised, with pixels from 0 to 1."""
    x, y = read_array(data_dir / MNIST)[:1000], read_array(data_dir / LABELS)[:1000]
    report = quantise_onnx(data_dir / NET, tmp_path / "out.onnx", BASE, x, y, Progress())
    assert report.scores[0].right > 975 and abs(report.scores[0].right - report.scores[1].right) <= 3
    assert min(of or 99 for _, of in report.layers) > 38


@pytest.mark.req("C078")
@pytest.mark.parametrize("width", WIDTHS)
def test_the_importer_reads_what_is_written(tmp_path: Path, data_dir: Path, width: str) -> None:
    """Every width: the file becomes a network of whole numbers between its ends, with our own answers."""
    from bittern.front.onnx.reading import read_onnx
    from bittern.graph.evaluate import evaluate
    from bittern.lang.library import Library
    from bittern.passes.network import integer_only

    x = read_array(data_dir / MNIST)[:64]
    settings = replace(BASE, width=width, method="mse")
    quantise_onnx(data_dir / NET, tmp_path / "out.onnx", settings, x, None, Progress())
    network = read_onnx(tmp_path / "out.onnx")
    function, report = integer_only(network.function, Library.standard())
    assert report.is_integer, report.inner
    given = x[:8].reshape(8, 1, 28, 28).astype(np.float32) / np.float32(255)
    (found,) = [np.asarray(part) for part in [evaluate(function, [given], (8,))]]
    wanted = run(folded(graph_of(read_model(tmp_path / "out.onnx"))), given, ["Plus214_Output_0"])["Plus214_Output_0"]
    assert np.abs(found.reshape(wanted.shape) - wanted).max() < 0.02 * np.abs(wanted).max()


def test_a_planted_fault_is_seen(tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights rounded down are seen in the report."""
    right = calibrate.nearest_codes
    monkeypatch.setattr(calibrate, "nearest_codes", lambda matrix, scales, grid: right(matrix, scales, grid) - 1)
    with pytest.raises(AssertionError):
        test_mnist_measures_itself(tmp_path, data_dir)
