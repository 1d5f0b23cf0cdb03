"""BNN-PYNQ's published networks: every score is its golden's, on `vm` and as machine code; and what is refused."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bittern.base.errors import BitternError
from bittern.chips.x86.features import is_here
from bittern.front.network.bnn_pynq import read
from bittern.graph.evaluate import prepare
from bittern.runtime.network import NetworkModel

CHIPS = ["vm", *(["x86"] if is_here() else [])]
CNV = ("cnvW1A1", "cnvW1A2")


@pytest.fixture(scope="module")
def folder(data_dir: Path) -> Path:
    return data_dir / "models" / "bnn_pynq"


@pytest.fixture(scope="module")
def images(data_dir: Path) -> np.ndarray[Any, Any]:
    packed = (data_dir / "models" / "mnist_t10k" / "t10k-images-idx3-ubyte.gz").read_bytes()
    return np.frombuffer(gzip.decompress(packed)[16:], np.uint8).reshape(-1, 28, 28)


@pytest.mark.parametrize("chip", CHIPS)
def test_lfc_gives_its_scores_and_classes(folder: Path, images: np.ndarray[Any, Any], chip: str) -> None:
    golden = np.load(folder / "mnist_lfcW1A1_golden.npz")
    count = 10_000 if chip == "x86" else 2_000
    scores = NetworkModel(read(folder / "mnist_lfcW1A1.npz"), chip).run(images[:count])
    np.testing.assert_array_equal(scores[:256], golden["score_first256"])
    np.testing.assert_array_equal(scores.argmax(1), golden["pred"][:count])
    if count == 10_000:
        assert int(golden["correct"]) == 9834


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", CNV)
def test_cnv_gives_its_scores(folder: Path, name: str, chip: str) -> None:
    golden = np.load(folder / f"cifar10_{name}_golden.npz")
    network = read(folder / f"cifar10_{name}.npz")
    scores = NetworkModel(network, chip).run(golden["images"])
    np.testing.assert_array_equal(scores, golden["score"])
    np.testing.assert_array_equal(scores.argmax(1), golden["pred"])
    assert network.facts["classes"].split(", ")[4] == "Deer" and network.source == "bnn_pynq"


@pytest.mark.parametrize("name", CNV)
def test_a_planted_threshold_is_caught(folder: Path, tmp_path: Path, name: str) -> None:
    """`exceeds` is strict: thresholds one lower, or bits in the other order, give other scores."""
    golden = np.load(folder / f"cifar10_{name}_golden.npz")
    arrays = dict(np.load(folder / f"cifar10_{name}.npz"))
    for planted in ({"t6": arrays["t6"] - 1}, {"w2": np.packbits(np.unpackbits(arrays["w2"], bitorder="little"))}):
        changed = {key: each.reshape(arrays[key].shape) for key, each in planted.items()}
        np.savez(tmp_path / "changed.npz", **(arrays | changed))
        function = read(tmp_path / "changed.npz").function
        assert not np.array_equal(prepare(function, (6,))(golden["images"]), golden["score"]), [*planted]


def _arrays() -> dict[str, np.ndarray[Any, Any]]:
    return {"w0": np.zeros((2, 1), np.uint8), "shape0": np.array([2, 8]), "t0": np.zeros((2, 1), np.int32)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "its layers are"),
        ({"w0": np.zeros((2, 2), np.uint8)}, "do not fit"),
        ({"w0": np.zeros((2, 1), np.int8)}, "do not fit"),
        ({"shape0": np.array([2, 8, 1])}, "do not fit"),
        ({"shape0": np.array([2.0, 8.0])}, "do not fit"),
        ({"t0": np.zeros((2, 3), np.int32)}, "`t0`"),
        ({"t0": np.zeros((2, 1), np.float32)}, "`t0`"),
        ({"w0": None}, "no array `w0`"),
    ],
)
def test_other_arrays_are_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    arrays = {name: each for name, each in (_arrays() | change).items() if each is not None}
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(BitternError, match="N121") as caught:
        read(tmp_path / "a.npz")
    assert words in caught.value.what


def test_what_is_no_file_of_arrays_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"PK nothing")
    for path in (tmp_path / "a.npz", tmp_path / "none.npz"):
        with pytest.raises(BitternError, match="N121"):
            read(path)


def test_a_layer_without_thresholds_is_refused(folder: Path, tmp_path: Path) -> None:
    arrays = dict(np.load(folder / "cifar10_cnvW1A1.npz"))
    for missing in ("t3", "t7"):
        np.savez(tmp_path / "a.npz", **{name: each for name, each in arrays.items() if name != missing})
        with pytest.raises(BitternError, match=f"N121.*`{missing}`"):
            read(tmp_path / "a.npz")
