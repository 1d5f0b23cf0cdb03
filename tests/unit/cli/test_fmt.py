"""`bittern fmt`: what it writes, what it leaves alone, and what it says."""

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from bittern.cli import fmt, main

GOOD = "// about\nfn twice[n](x: f32[n]) -> f32[n] {\n  x + x\n}\n"
UGLY = "// about\nfn twice[n](x:f32[n])->f32[n] { x+x }"
BROKEN = "fn twice( {\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a good, an ugly, a broken and a hidden program."""
    (tmp_path / ".old").mkdir()
    for name, text in [("a_good", GOOD), ("b_ugly", UGLY), ("c_broken", BROKEN), (".old/d", UGLY)]:
        (tmp_path / f"{name}.btn").write_text(text)
    return tmp_path


def test_files_change_only_where_they_must(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ugly, good = folder / "b_ugly.btn", folder / "a_good.btn"
    ugly.chmod(0o640)
    before = good.stat()
    assert main(["fmt", str(folder), str(ugly)]) == 1
    out, err = capsys.readouterr()
    assert out == f"formatted {ugly}\n"
    assert "error[E107]" in err and "c_broken.btn:1:11" in err
    assert ugly.read_text() == GOOD and ugly.stat().st_mode & 0o777 == 0o640
    assert good.stat().st_mtime_ns == before.st_mtime_ns and good.stat().st_ino == before.st_ino
    assert (folder / "c_broken.btn").read_text() == BROKEN
    assert (folder / ".old" / "d.btn").read_text() == UGLY
    assert sorted(os.listdir(folder)) == [".old", "a_good.btn", "b_ugly.btn", "c_broken.btn"]
    assert main(["fmt", str(ugly), str(good)]) == 0
    assert capsys.readouterr() == ("", "")


def test_check_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ugly = folder / "b_ugly.btn"
    assert main(["fmt", str(ugly), "--check"]) == 1
    assert capsys.readouterr().out == f"would format {ugly}\n"
    assert ugly.read_text() == UGLY
    assert main(["fmt", str(folder / "a_good.btn"), "--check"]) == 0


def test_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fmt", str(folder), "--check", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [row["changed"] for row in told["files"]] == [False, True, False]
    assert told["errors"]


class _Stdin(io.TextIOWrapper):
    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")


@pytest.mark.parametrize(
    ("data", "arguments", "status", "out"),
    [
        (UGLY.encode(), [], 0, GOOD),
        (GOOD.encode(), ["--check"], 0, ""),
        (UGLY.encode(), ["--check"], 1, "would format stdin\n"),
        (BROKEN.encode(), [], 1, ""),
        (b"\xff", [], 1, ""),
        (b"", [], 0, ""),
    ],
)
def test_stdin(
    data: bytes, arguments: list[str], status: int, out: str, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", _Stdin(data))
    assert main(["fmt", "-", *arguments]) == status
    said = capsys.readouterr()
    assert said.out == out
    assert ("error[E1" in said.err) == (data in (BROKEN.encode(), b"\xff"))


def test_what_cannot_be_done_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "empty").mkdir()
    for arguments, name in [
        (["missing.btn"], "U101"),
        ([str(folder / "empty")], "U101"),
        ([""], "U111"),
        (["-", "a.btn"], "U111"),
    ]:
        assert main(["fmt", *arguments]) == 1
        assert f"error[{name}]" in capsys.readouterr().err


def test_a_write_that_fails_leaves_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fmt.os, "replace", full)
    ugly = folder / "b_ugly.btn"
    assert main(["fmt", str(ugly)]) == 1
    assert "error[U118]" in capsys.readouterr().err
    assert ugly.read_text() == UGLY
    assert not list(folder.glob(".bittern-*"))


def test_links_stay_links(folder: Path) -> None:
    link = folder / "link.btn"
    link.symlink_to(folder / "b_ugly.btn")
    assert main(["fmt", str(link)]) == 0
    assert link.is_symlink() and link.read_text() == GOOD
