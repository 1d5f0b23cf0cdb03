"""Published ONNX and QONNX networks: the goldens that their own executors gave, on every chip that is here.

tests/golden/qonnx_espcn.npz holds the codes of every fourth row and column that the QONNX executor (qonnx 1.0.0, after
`cleanup_model`) gave for the two ESPCN networks.
"""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx_files import imported, run

from bittern.base.errors import BitternError
from bittern.front.onnx.reading import read_onnx
from bittern.passes.network import integer_only
from bittern.runtime.network import NetworkModel

Array = np.ndarray[Any, Any]
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "qonnx_espcn.npz"
CHIPS = ["vm", "x86"]


def model_on(path: Path, chip: str) -> NetworkModel:
    """Return a network on a chip, or skip where the chip is not here."""
    try:
        return NetworkModel(read_onnx(path), chip)
    except BitternError as refusal:
        if refusal.code not in ("R101", "R115"):
            raise
        pytest.skip(f"no chip {chip} here: {refusal.what}")


def digits(data_dir: Path) -> tuple[Array, Array]:
    """Return the images [10000, 1, 28, 28] u8 and labels of the MNIST test set."""
    folder = data_dir / "models" / "mnist_t10k"
    with gzip.open(folder / "t10k-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    with gzip.open(folder / "t10k-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return images, labels


def message(path: Path) -> Array:
    """Return the tensor of a test vector."""
    return numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))


@pytest.mark.req("K067")
@pytest.mark.parametrize(("name", "accuracy"), [("1W1A", 0.9296), ("1W2A", 0.9474), ("2W2A", 0.9660)])
def test_tfc_gives_the_published_scores(data_dir: Path, name: str, accuracy: float) -> None:
    folder = data_dir / "models" / "tfc_mnist"
    images, labels = digits(data_dir)
    golden = np.load(folder / f"TFC_{name}_golden_t10k.npz")
    model = NetworkModel(read_onnx(folder / f"TFC_{name}.onnx"), "vm")
    x = images / np.float32(255)
    scores = np.concatenate([model.run(x[k : k + 1000]) for k in range(0, len(x), 1000)])
    predicted = scores.argmax(1)
    assert np.array_equal(predicted, golden["pred"])
    assert np.array_equal(scores[:256], golden["logits_first256"].reshape(256, 10))
    assert (predicted == labels).mean() == accuracy


@pytest.mark.parametrize("name", ["1W1A", "2W2A"])
def test_tfc_is_integers_between_its_boundaries(data_dir: Path, name: str) -> None:
    network = read_onnx(data_dir / "models" / "tfc_mnist" / f"TFC_{name}.onnx")
    _, report = integer_only(network.function, network.library, strict=True)
    assert report.is_integer
    assert len(report.folds) == 3


def test_every_chip_gives_the_bits_of_the_evaluator(data_dir: Path) -> None:
    path = data_dir / "models" / "tfc_mnist" / "TFC_1W2A.onnx"
    x = digits(data_dir)[0][:65] / np.float32(255)
    (expected,) = run(read_onnx(path), x)
    assert np.array_equal(model_on(path, "x86").run(x), expected)


@pytest.mark.parametrize("chip", CHIPS)
def test_the_old_dialect_gives_the_recorded_digits(data_dir: Path, chip: str) -> None:
    folder = data_dir / "models" / "finn_tfc_w1a1"
    x = np.load(folder / "input.npy").reshape(-1, 1, 28, 28).astype(np.uint8)
    found = model_on(folder / "model.onnx", chip).run(x)
    assert found.reshape(-1).tolist() == np.load(folder / "expected_output.npy").reshape(-1).tolist() == [7, 2, 1, 0]


@pytest.mark.parametrize("name", ["nn_resize_quant", "subpixel_quant"])
def test_super_resolution_is_within_one_code_of_the_executor(data_dir: Path, name: str) -> None:
    """The executor multiplies f32 values, so its sums are rounded; ours are exact integers: a code at most between."""
    folder = data_dir / "models" / "qonnx_espcn"
    network = read_onnx(folder / f"{name}.onnx")
    assert network.outputs[0].shape == (3, 256, 256)
    (found,) = run(network, message(folder / "input_0.pb"))
    codes = np.rint(found[0, :, ::4, ::4] * np.float32(255)).astype(np.int64)
    apart = np.abs(codes - np.load(GOLDEN)[name])
    assert apart.max() <= 1
    assert (apart > 0).mean() < 2e-4


@pytest.mark.parametrize("chip", CHIPS)
def test_a_float_network_runs_in_f32(data_dir: Path, chip: str) -> None:
    folder = data_dir / "models" / "onnx_mnist_conv"
    x, expected = message(folder / "input_0.pb"), message(folder / "output_0.pb")
    found = model_on(folder / "model.onnx", chip).run(x)
    assert np.allclose(found, expected, rtol=1e-6, atol=1e-3)  # the recorded vector is that far from ONNX Runtime too


def test_a_float_network_equals_onnx_runtime(data_dir: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the package onnxruntime judges it")
    from onnx_files import by_runtime

    path = data_dir / "models" / "onnx_mnist_conv" / "model.onnx"
    images = digits(data_dir)[0][:20].astype(np.float32) / np.float32(255)
    (found,) = run(read_onnx(path), images)
    expected = np.concatenate([by_runtime(path.read_bytes(), {"Input3": each[None]})[0] for each in images])
    assert np.abs(found - expected).max() < 1e-4


def test_a_float_super_resolution_equals_onnx_runtime(data_dir: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the package onnxruntime judges it")
    from onnx_files import by_runtime

    data = (data_dir / "models" / "qonnx_espcn" / "subpixel_float.onnx").read_bytes()
    x = np.random.default_rng(2).random((1, 3, 4, 4), np.float32)
    assert np.abs(run(imported(data), x)[0] - by_runtime(data, {"input": x})[0]).max() < 1e-5
