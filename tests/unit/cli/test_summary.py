"""`bittern summary`: the layers of a network as a table, and as JSON."""

import json
from pathlib import Path

import pytest

from bittern.cli import main
from bittern.nn import BinaryTensor, NetworkBuilder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    model = NetworkBuilder().input(BinaryTensor([1, 64])).dense(64, 64, activation="sign").output(64, 5).build()
    model.save(tmp_path / "a.keg")
    return tmp_path / "a.keg"


def test_the_table(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(path)]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "network: input b1[64]" and "4,096 b1 x b1" in out
    assert f"{path.stat().st_size:,}" in out.splitlines()[-1]


def test_json(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["bytes"] == path.stat().st_size and told["macs"] == {"b1 x b1": 64 * 64 + 64 * 5}
    assert [row["name"] for row in told["layers"]] == ["dense_1", "output"]


def test_what_is_no_network_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(tmp_path / "none.keg")]) != 0
    assert "N407" in capsys.readouterr().err
