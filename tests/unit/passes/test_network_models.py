"""Real networks after the passes: no float between input quantiser and scores, and the bits of what was read."""

from pathlib import Path

import numpy as np
import pytest
from network_cases import LIBRARY, float_kinds, same

from bittern.front.onnx.reading import read_onnx
from bittern.passes.integers import need_integers
from bittern.passes.network import integer_only

# file, forms of its chains
MODELS = (
    ("tfc_mnist/TFC_1W1A.onnx", ["thresholds.sign_at"] * 3),
    ("tfc_mnist/TFC_1W2A.onnx", ["thresholds.ternary_at"] * 3),
    ("tfc_mnist/TFC_2W2A.onnx", ["thresholds.ternary_at"] * 3),
    ("finn_tfc_w1a1/model.onnx", ["thresholds.sign_at"] * 4 + ["argmax"]),
    ("qonnx_espcn/nn_resize_quant.onnx", ["thresholds.levels"] * 2 + ["requantise.requantise"] * 2),
    ("qonnx_espcn/subpixel_quant.onnx", ["thresholds.levels"] * 2 + ["requantise.requantise"]),
)


@pytest.mark.req("C084")
@pytest.mark.parametrize(("name", "forms"), MODELS, ids=[name.partition(".")[0] for name, _ in MODELS])
def test_real_networks_fold_completely(data_dir: Path, name: str, forms: list[str]) -> None:
    network = read_onnx(data_dir / "models" / name, LIBRARY)
    made, report = integer_only(network.function, LIBRARY, strict=True)
    need_integers(made)
    assert not report.left and [fold.form for fold in report.folds] == forms
    rng = np.random.default_rng(0)
    port = network.inputs[0]
    x = rng.random((4, *port.shape)) * (1 if port.element.is_float else 255)
    assert same(network.function, made, x.astype(port.element.storage))


def test_the_old_finn_network_has_no_float_at_all(data_dir: Path) -> None:
    network = read_onnx(data_dir / "models" / "finn_tfc_w1a1" / "model.onnx", LIBRARY)
    made, report = integer_only(network.function, LIBRARY)
    assert not float_kinds(made) and not (report.inputs or report.outputs)


def test_accumulators_of_tfc_are_as_wide_as_their_weights_make_them(data_dir: Path) -> None:
    network = read_onnx(data_dir / "models" / "tfc_mnist" / "TFC_1W1A.onnx", LIBRARY)
    _, report = integer_only(network.function, LIBRARY)
    assert [(w.low, w.high, w.bits) for w in report.widths] == [(-784, 784, 11)] + [(-64, 64, 8)] * 3


@pytest.mark.parametrize("widths", [("8", "8"), ("t", "2")])
def test_a_quantised_float_network_is_one_of_whole_numbers(
    data_dir: Path, tmp_path: Path, widths: tuple[str, str]
) -> None:
    """Convolutions, biases, relus and max-pools between QuantizeLinear and DequantizeLinear, or Quant."""
    pytest.importorskip("onnx")
    from bittern.base.progress import Progress
    from bittern.front.quantise.onnx.file import quantise_onnx
    from bittern.front.quantise.onnx.settings import Settings

    x = np.random.default_rng(0).random((8, 1, 28, 28)).astype(np.float32)
    source, target = data_dir / "models" / "onnx_mnist_conv" / "model.onnx", tmp_path / "out.onnx"
    settings = Settings(width=widths[0], activations=widths[1], samples=8)
    quantise_onnx(source, target, settings, x, None, Progress())
    network = read_onnx(target, LIBRARY)
    made, report = integer_only(network.function, LIBRARY, strict=True)
    assert not report.left and {fold.form for fold in report.folds} <= {"requantise.requantise", "thresholds.levels"}
    assert same(network.function, made, x.reshape(-1, *network.inputs[0].shape))
