"""Real TFLite models against TFLite's reference kernels: recorded outputs, every value of every row."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from bittern.base.errors import BitternError
from bittern.front.network.network import Network
from bittern.front.tflite.importer import open_tflite
from bittern.front.tflite.schema import read_model
from bittern.graph.node import Node, functions_of, walk
from bittern.lang.library import Library
from bittern.runtime.network import NetworkModel
from bittern.types.values import Tensor

Array = npt.NDArray[Any]

# rows: how many of the golden are compared; None: all.
MODELS: dict[str, int | None] = {
    "mlperf_tiny/ad01_int8": None,
    "mlperf_tiny/kws_int8": None,
    "mlperf_tiny/ic_resnet8_int8": None,
    "tflite_micro/hello_world_int8": None,
    "tflite_micro/mobilenet_v2_int8_224": None,
}
LSTM = "tflite_micro/mnist_lstm_int8"


@pytest.fixture(scope="module")
def library() -> Library:
    """The standard library."""
    return Library.standard()


def golden(data_dir: Path, name: str) -> tuple[Array, Array]:
    """Return the inputs and TFLite's reference outputs of a model, without the model's own batch of one."""
    path = data_dir / "models" / f"{name}_golden.npz"
    if not path.is_file():
        pytest.skip(f"no {path}")
    with np.load(path) as file:
        return file["x"][:, 0], file["y_ref"][:, 0]


def opened(data_dir: Path, name: str, library: Library, *, keep_state: bool = False) -> Network:
    """Import a model of the test data."""
    path = data_dir / "models" / f"{name}.tflite"
    if not path.is_file():
        pytest.skip(f"no {path}")
    return open_tflite(path, library, keep_state=keep_state)


@pytest.mark.req("C036", "C069")
@pytest.mark.parametrize("name", MODELS)
def test_outputs_equal_the_reference_kernels(name: str, data_dir: Path, library: Library) -> None:
    x, wanted = golden(data_dir, name)
    found = NetworkModel(opened(data_dir, name, library), "vm").run(x[: MODELS[name]])
    assert np.array_equal(found, wanted[: MODELS[name]])


@pytest.mark.parametrize("name", ["mlperf_tiny/kws_int8", "tflite_micro/hello_world_int8"])
def test_the_native_chip_gives_the_same(name: str, data_dir: Path, library: Library) -> None:
    x, wanted = golden(data_dir, name)
    model = NetworkModel(opened(data_dir, name, library))
    assert np.array_equal(model.run(x), wanted)


@pytest.mark.req("C036")
@pytest.mark.parametrize(("chip", "rows"), [("vm", 24), ("auto", 210)])
def test_the_lstm_equals_the_reference_kernels(chip: str, rows: int, data_dir: Path, library: Library) -> None:
    """The golden was recorded without a reset: the state goes on from row to row."""
    x, wanted = golden(data_dir, LSTM)
    made = opened(data_dir, LSTM, library, keep_state=True)
    model = NetworkModel(made, chip)
    state = [np.zeros((1, *port.shape), port.element.storage) for port in made.inputs[1:]]
    for row in range(rows):
        found, *state = model.run(x[row : row + 1], *state).values()
        assert np.array_equal(found[0], wanted[row]), row


def test_the_lstm_starts_from_zero_by_default(data_dir: Path, library: Library) -> None:
    """Reset for each sample, 72 of 210 rows have other codes than in the golden, as with TFLite after a reset."""
    x, wanted = golden(data_dir, LSTM)
    made = opened(data_dir, LSTM, library)
    assert [port.name for port in made.inputs] == ["serving_default_fixed_input:0"]
    found = NetworkModel(made, "vm").run(x)
    assert np.array_equal(found[0], wanted[0])
    assert int((found != wanted).any(axis=1).sum()) == 72


def test_resnet_knows_five_of_six_images(data_dir: Path, library: Library) -> None:
    with np.load(data_dir / "models" / "cifar10_samples" / "six_images_32x32.npz") as file:
        arrays = [file[name] for name in file.files]
    images = next(array for array in arrays if array.ndim == 4)
    labels = next(array for array in arrays if array.ndim == 1)
    codes = (images.astype(np.int16) - 128).astype(np.int8)
    found = NetworkModel(opened(data_dir, "mlperf_tiny/ic_resnet8_int8", library), "vm").run(codes)
    assert int((found.argmax(axis=1) == labels).sum()) == 5


def test_anomaly_score_of_a_normal_sound(data_dir: Path, library: Library) -> None:
    """The mean squared error of reconstruction over all windows of five frames: 10.264."""
    made = opened(data_dir, "mlperf_tiny/ad01_int8", library)
    path = data_dir / "models" / "mlperf_tiny" / "ad01_normal_id_01_00000000.bin"
    frames = np.frombuffer(path.read_bytes(), "<f4").reshape(-1, 128)
    windows = np.stack([frames[k : k + 5].reshape(-1) for k in range(len(frames) - 4)])
    (port,), (out,) = made.inputs, made.outputs
    assert port.scale is not None and out.scale is not None
    codes = np.clip(np.round(windows / np.float32(port.scale)) + port.zero, -128, 127).astype(np.int8)
    found = NetworkModel(made, "vm").run(codes)
    back = (found.astype(np.float32) - out.zero) * np.float32(out.scale)
    assert float(np.mean((windows - back) ** 2)) == pytest.approx(10.264, abs=0.01)


def elements(made: Network) -> set[str]:
    """Return the elements of all values inside a network, functions of its layers included."""
    found: set[str] = set()
    waiting, seen = [made.function], {made.function.id}
    while waiting:
        for node in walk(waiting.pop().result):
            found |= _elements(node)
            for function in functions_of(node):
                if function.id not in seen:
                    seen.add(function.id)
                    waiting.append(function)
    return found


def _elements(node: Node) -> set[str]:
    return {node.type.element.name} if isinstance(node.type, Tensor) else set()


@pytest.mark.parametrize("name", [*MODELS, LSTM])
def test_int8_models_hold_no_float(name: str, data_dir: Path, library: Library) -> None:
    found = elements(opened(data_dir, name, library))
    assert "i8" in found and not found & {"f16", "f32", "f64"}


def test_a_float_is_found(data_dir: Path, library: Library) -> None:
    assert "f32" in elements(opened(data_dir, "tflite_micro/hello_world_float", library))


@pytest.mark.parametrize(
    ("name", "twin", "bound"),
    [
        ("tflite_micro/hello_world_float", "tflite_micro/hello_world_int8", 0.02),
        ("mlperf_tiny/ad01_fp32", "mlperf_tiny/ad01_int8", 1.5),
        ("mlperf_tiny/ic_resnet8_fp32", "mlperf_tiny/ic_resnet8_int8", 0.2),
        ("mlperf_tiny/kws_fp32", "mlperf_tiny/kws_int8", 0.25),
        ("tflite_micro/mnist_lstm_float", "tflite_micro/mnist_lstm_int8", 0.2),
    ],
)
def test_float_models_are_near_their_int8_twins(
    name: str, twin: str, bound: float, data_dir: Path, library: Library
) -> None:
    """On real inputs, mean absolute difference."""
    x, _ = golden(data_dir, twin)
    codes = x[:6]
    coded, real = opened(data_dir, twin, library), opened(data_dir, name, library)
    (port,), (out,) = coded.inputs, coded.outputs
    assert port.scale is not None and out.scale is not None
    values = (codes.astype(np.float32) - port.zero) * np.float32(port.scale)
    left = (NetworkModel(coded, "vm").run(codes).astype(np.float32) - out.zero) * np.float32(out.scale)
    right = NetworkModel(real, "vm").run(values)
    assert np.abs(left - right).mean() < bound


def test_the_keyword_model_imports(data_dir: Path, library: Library) -> None:
    """Its weights are scrambled, so only its structure is shown: SVDF states of 8 bits, 16-bit inputs."""
    made = opened(data_dir, "tflite_micro/keyword_scrambled_8bit", library, keep_state=True)
    assert [(port.element.name, port.shape) for port in made.inputs[:1]] == [("i16", (96,))]
    assert len(made.inputs) == 8 and made.outputs[0].shape == (2,)
    state = [np.full((1, *port.shape), port.zero, port.element.storage) for port in made.inputs[1:]]
    found = NetworkModel(made, "vm").run(np.zeros((1, 96), np.int16), *state)
    assert found[made.outputs[0].name].dtype == np.int32


def test_every_custom_operator_is_named(data_dir: Path, library: Library) -> None:
    path = data_dir / "models" / "tflite_micro" / "audio_preprocessor_int8.tflite"
    if not path.is_file():
        pytest.skip(f"no {path}")
    with pytest.raises(BitternError) as caught:
        open_tflite(path, library)
    assert caught.value.code == "N320"
    custom = {row.code.custom for row in read_model(path).operators if row.code.custom}
    assert len(custom) == 9
    for name in custom:
        assert f"`{name}` version 1" in caught.value.what
