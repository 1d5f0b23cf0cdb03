"""`bittern run` and `bittern export`: a real network, data in every form, and mistakes that say what to do."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from bittern.chips.x86.features import is_here
from bittern.cli import main


@pytest.fixture
def resnet(data_dir: Path) -> Path:
    """MLPerf Tiny's ResNet8, 8 bits."""
    return data_dir / "models/mlperf_tiny/ic_resnet8_int8.tflite"


@pytest.fixture
def images(data_dir: Path) -> Path:
    """Six images with labels."""
    return data_dir / "models/cifar10_samples/six_images_32x32.npz"


@pytest.mark.req("C087", "K071")
def test_answers_and_hits(
    resnet: Path, images: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BITTERN_HOME", str(tmp_path / "home"))
    given = ["run", str(resnet), "--data", f"{images}:images", "--labels", f"{images}:labels", "--quiet"]
    assert main(given) == 0
    shown = capsys.readouterr().out
    assert "5 right of 6: 83.33 %" in shown
    out = tmp_path / "scores.npy"
    assert main([*given, "--json", "--chip", "vm", "--out", str(out), "-n", "4"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["samples"] == 4 and told["answers"] == [4, 3, 0, 0] and told["chip"] == "vm"
    assert np.array_equal(np.load(out), np.array(next(iter(told["outputs"].values()))))
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part")]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--data", "{images}:pictures"], "holds `images`"),
        (["--data", "{images}:images", "--data", "{images}:images"], "give one for each"),
        (["--data", "{images}:images", "--labels", "{images}:images"], "labels for 6 samples"),
        (["--data", "{images}:labels"], "takes samples of [32, 32, 3]"),
        (["--data", "missing.npy"], "cannot be read"),
        (["--data", "{images}:images", "--chip", "reference"], "runs no networks"),
    ],
)
def test_mistakes(
    options: list[str], words: str, resnet: Path, images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(resnet), *(each.format(images=images) for each in options), "--quiet"]) == 1
    ended = capsys.readouterr().err
    assert words in ended and "Traceback" not in ended


@pytest.mark.skipif(not is_here(), reason="the chip x86 is not here")
@pytest.mark.req("C085", "K069")
def test_the_exported_program_gives_the_same_answers(
    resnet: Path, images: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["export", str(resnet), "-o", str(tmp_path / "resnet"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["form"] == "elf" and told["bytes"] == os.path.getsize(tmp_path / "resnet")
    pixels = (np.load(images)["images"].astype(np.int16) - 128).astype(np.int8)
    made = subprocess.run([tmp_path / "resnet"], input=pixels.tobytes(), capture_output=True, check=True).stdout
    assert np.frombuffer(made, np.int8).reshape(6, 10).argmax(axis=1).tolist() == [4, 3, 0, 0, 2, 5]


@pytest.mark.skipif(not is_here(), reason="the chip x86 is not here")
@pytest.mark.req("K034", "K035")
def test_the_plan_of_a_network_is_counted(resnet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(resnet), "--run", "--savings", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["counted"] == told["predicted"]
    assert told["savings_counted"]["same_bits"] and told["cut"] == "network"
