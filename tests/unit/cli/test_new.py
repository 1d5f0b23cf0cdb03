"""`bittern new`: a first program that is right and formatted, and nothing overwritten."""

import io
import json
import sys
from pathlib import Path

import pytest

from bittern.cli import main


def test_what_it_makes_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "first"]) == 0
    assert "bittern check first.btn" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path / "first")
    assert main(["check", "first.btn"]) == 0
    assert main(["fmt", "--check", "first.btn"]) == 0
    capsys.readouterr()
    monkeypatch.setattr(sys, "stdin", io.StringIO(Path("try.txt").read_text()))
    assert main(["repl"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[:3] == ["declared mean, centred", "3.0  f32", "[-2., -1.,  3.]  f32[3]"]


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "folder").mkdir()
    for name in ("file", "folder", "missing/inner"):
        assert main(["new", str(tmp_path / name)]) == 1
        assert "error[U119]" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "kept" and not list((tmp_path / "folder").iterdir())


@pytest.mark.parametrize("name", ["", "A", "1a", "a-b", "..", "a b"])
def test_names_of_programs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", name]) == 1
    assert "error[U111]" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", str(tmp_path / "a"), "--json"]) == 0
    assert [Path(file).name for file in json.loads(capsys.readouterr().out)["files"]] == ["a.btn", "try.txt"]
