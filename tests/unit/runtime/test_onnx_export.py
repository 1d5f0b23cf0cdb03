"""Networks as standard ONNX: ONNX Runtime gives the same integers, and what has no form is refused by name."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bittern.base.errors import BitternError
from bittern.front.network.network import Network, Port
from bittern.nn import BinaryTensor, Conv2d, IntTensor, NetworkBuilder
from bittern.runtime.exports import export
from bittern.runtime.network import NetworkModel
from bittern.runtime.networks import open_network
from bittern.runtime.onnx_export import stages
from bittern.runtime.onnx_export.table import standard

onnxruntime = pytest.importorskip("onnxruntime")
Arrays = list[np.ndarray[Any, Any]]


def session(content: bytes) -> Any:
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


def samples(port: Port, rows: int, seed: int = 0) -> Any:
    rng, shape, name = np.random.default_rng(seed), (rows, *port.shape), port.element.name
    if port.element.is_float:
        return rng.random(shape, np.float32) * 2 - 1
    if name == "b1":
        return (rng.integers(0, 2, shape) * 2 - 1).astype(np.int8)
    low = -1 if name == "t" else port.element.low
    return rng.integers(low, port.element.high + 1, shape).astype(port.element.storage)


def both(network: Network, rows: int = 5, seed: int = 0) -> tuple[Arrays, Arrays]:
    """Return the outputs of ONNX Runtime and of the chip `vm`."""
    given_ = [samples(port, rows, seed + k) for k, port in enumerate(network.inputs)]
    names = {port.name: array for port, array in zip(network.inputs, given_, strict=True)}
    there = session(standard(network)).run(None, names)
    here = NetworkModel(network, "vm").run(*given_)
    return there, list(here.values()) if isinstance(here, dict) else [here]


def check(network: Network, rows: int = 5, seed: int = 0) -> None:
    for got, wanted in zip(*both(network, rows, seed), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


def dense(activation: str, bits: int | None, widths: Any, seed: int = 0) -> Network:
    kinds = {} if bits is None else {"bits": bits}
    builder = NetworkBuilder().input(IntTensor(4, [None, 20])).dense(20, 33, weights=widths)
    return builder.activation(activation, **kinds).output(33, 5).build(seed=seed).network


@pytest.mark.req("C085")
@pytest.mark.parametrize("weights", ["b1", "t", 2, 3, 4, 8], ids=str)
@pytest.mark.parametrize(("activation", "bits"), [("sign", None), ("ternary", None), ("relu", 3), ("hard_tanh", 4)])
def test_dense_layers_of_each_width(weights: Any, activation: str, bits: int | None) -> None:
    check(dense(activation, bits, weights))


CONVOLVED = {
    "padded": lambda b: b.conv2d(3, 8, 3, padding="same", activation="relu", bits=4),
    "strided": lambda b: b.conv2d(3, 8, 3, stride=2, dilation=2, padding=1, weights="t", activation="sign"),
    "exact zero": lambda b: b.conv2d(3, 8, 1, activation="sign").then(
        Conv2d(8, 6, 3, padding="same", pad_with=0, activation="sign")
    ),
    "grouped": lambda b: b.conv2d(3, 8, 3, activation="sign").then(Conv2d(8, 6, 3, groups=2, activation="sign")),
    "depthwise": lambda b: b.depthwise_conv2d(3, 3, weights=4, activation="relu", bits=8),
    "wide": lambda b: b.conv2d(3, 40, 3, weights=8, activation="relu", bits=8),
    "max-pool": lambda b: b.conv2d(3, 8, 3, activation="sign").max_pool2d(2),
    "mean": lambda b: b.conv2d(3, 8, 2, activation="relu", bits=8).average_pool2d(2),
}


@pytest.mark.req("C085")
@pytest.mark.parametrize("name", CONVOLVED)
def test_convolutions_and_pools(name: str) -> None:
    builder = CONVOLVED[name](NetworkBuilder().input(IntTensor(8, [None, 9, 9, 3], signed=False)))
    check(builder.flatten().build(seed=3).network)


@pytest.mark.parametrize(("activation", "bits"), [("sign", None), ("ternary", None), ("relu", 8)])
def test_sums_beyond_24_bits(activation: str, bits: int | None) -> None:
    kinds = {} if bits is None else {"bits": bits}
    builder = NetworkBuilder().input(IntTensor(8, [None, 1200], signed=False)).dense(1200, 9, weights=8)
    check(builder.activation(activation, **kinds).build().network, 20)
    check(NetworkBuilder().input(IntTensor(8, [None, 1200], signed=False)).output(1200, 9, weights=8).build().network)


@settings(max_examples=25)
@given(
    n=st.integers(1, 70),
    m=st.integers(1, 70),
    weights=st.sampled_from(["b1", "t", 2, 4, 8]),
    activation=st.sampled_from(["sign", "ternary", "relu"]),
    seed=st.integers(0, 99),
)
def test_random_networks(n: int, m: int, weights: Any, activation: str, seed: int) -> None:
    builder = NetworkBuilder().input(BinaryTensor([None, n])).dense(n, m, weights=weights, activation=activation)
    check(builder.output(m, 3).build(seed=seed).network, seed=seed)


@pytest.mark.req("C085")
@pytest.mark.parametrize("name", ["TFC_1W1A", "TFC_1W2A", "TFC_2W2A"])
def test_tfc_on_all_images(name: str, data_dir: Path) -> None:
    folder = data_dir / "models" if (data_dir / "models").is_dir() else data_dir
    raw = gzip.decompress((folder / "mnist_t10k/t10k-images-idx3-ubyte.gz").read_bytes())
    images = np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 1, 28, 28).astype(np.float32) / np.float32(255)
    network = open_network(folder / f"tfc_mnist/{name}.onnx")
    there = session(standard(network)).run(None, {network.inputs[0].name: images})[0]
    np.testing.assert_array_equal(there, NetworkModel(network).run(images))
    golden = np.load(folder / f"tfc_mnist/{name}_golden_t10k.npz")
    predictions = next(golden[key] for key in golden.files if golden[key].shape == (10000,))
    np.testing.assert_array_equal(there.argmax(1), predictions)


@pytest.mark.req("C085")
@pytest.mark.parametrize(
    "file", ["bnn_pynq/mnist_lfcW1A1.npz", "bnn_pynq/cifar10_cnvW1A1.npz", "mlperf_tiny/ad01_int8.tflite"]
)
def test_published_networks(file: str, data_dir: Path) -> None:
    folder = data_dir / "models" if (data_dir / "models").is_dir() else data_dir
    network = open_network(folder / file)
    given_ = samples(network.inputs[0], 3)
    there = session(standard(network)).run(None, {network.inputs[0].name: given_})[0]
    np.testing.assert_array_equal(there, NetworkModel(network).run(given_))


def test_the_file_is_written_whole(tmp_path: Path) -> None:
    out = tmp_path / "net.onnx"
    network = dense("sign", None, "b1")
    assert export(network, out, "onnx") == out.stat().st_size
    assert out.read_bytes() == standard(network), "the same file each time"
    assert session(out.read_bytes()).get_inputs()[0].shape == ["N", 20]


def test_all_that_has_no_form_is_named() -> None:
    builder = NetworkBuilder().input(IntTensor(4, [None, 6, 8])).lstm(8, 5)
    with pytest.raises(BitternError) as refusal:
        standard(builder.build().network)
    assert refusal.value.code == "N431" and "lstm" in refusal.value.what


@pytest.mark.req("C091")
def test_floats_alone_are_refused_by_name(data_dir: Path) -> None:
    folder = data_dir / "models" if (data_dir / "models").is_dir() else data_dir
    with pytest.raises(BitternError) as refusal:
        standard(open_network(folder / "onnx_mnist_conv/model.onnx"))
    assert refusal.value.code == "N430" and "`model`" in refusal.value.what and "PyTorch" in refusal.value.remedy


def test_a_wrong_stage_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    network = dense("relu", 8, 8)
    true = stages.rounded

    def truncated(file: Any, x: Any, name: str, factor: Any, shift: Any) -> str:
        made = true(file, x, name, factor, shift)
        file.nodes[-2].input[1] = file.constant(0.0, np.float64)
        return made

    monkeypatch.setattr(stages, "rounded", truncated)
    with pytest.raises(AssertionError):
        check(network, 64)
