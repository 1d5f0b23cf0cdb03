"""`bittern check`: files and folders, every error once, in order, as text and as JSON."""

import json
import time
from pathlib import Path

import pytest
from btn_programs import codes

from bittern.base.errors import BitternError
from bittern.cli import main
from bittern.lang.check import check_paths, check_text
from bittern.lang.lexer import MAX_NESTING

PACKAGE = Path(__file__).parents[3] / "bittern"
BAD = "fn f(x: f32) -> f32 { x + y }\n"


def test_a_program_without_errors(tmp_path: Path) -> None:
    (tmp_path / "good.btn").write_text("use norms\nfn f(x: f32[4]) -> f32[4] { rms_norm(x, x, 1.0) }\n")
    assert check_paths([str(tmp_path / "good.btn")]) == []
    assert check_paths([str(tmp_path)]) == []


def test_all_files_of_a_folder_in_order(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        (tmp_path / f"{name}.btn").write_text(BAD + BAD.replace("f(x", "g(x"))
    found = check_paths([str(tmp_path)])
    assert [Path(each.span.source.name).name for each in found] == [
        "a.btn",
        "a.btn",
        "b.btn",
        "b.btn",
        "c.btn",
        "c.btn",
    ]
    assert [each.span.start for each in found[:2]] == [26, 56]
    assert check_paths([str(tmp_path / "a.btn"), str(tmp_path / "a.btn")]) == found[:2]


def test_a_module_that_is_used_is_checked_once(tmp_path: Path) -> None:
    (tmp_path / "a.btn").write_text(BAD)
    (tmp_path / "b.btn").write_text("use a\nfn g(x: f32) -> f32 { f(x) }\n")
    assert len(check_paths([str(tmp_path)])) == 1
    assert len(check_paths([str(tmp_path / "b.btn"), str(tmp_path / "a.btn")])) == 1


def test_a_folder_that_is_used_is_one_module(tmp_path: Path) -> None:
    shapes = tmp_path / "shapes"
    shapes.mkdir()
    (shapes / "one.btn").write_text("fn one() -> u32 { two() }\n")
    (shapes / "two.btn").write_text("fn two() -> u32 { 2 }\n")
    assert [each.code for each in check_paths([str(tmp_path)])] == ["E208"]
    (tmp_path / "main.btn").write_text("use shapes\nfn f() -> u32 { one() }\n")
    assert check_paths([str(tmp_path)]) == check_paths([str(shapes)]) == check_paths([str(shapes / "one.btn")]) == []


def test_hidden_folders_are_left_out(tmp_path: Path) -> None:
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bad.btn").write_text(BAD)
    with pytest.raises(BitternError, match=r"holds no `\.btn` file"):
        check_paths([str(tmp_path)])


@pytest.mark.parametrize("name", ["nothing.btn", "empty", "empty/nothing.btn"])
def test_nothing_to_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(BitternError) as caught:
        check_paths([str(tmp_path / name)])
    assert caught.value.code == "U101" and name.rpartition("/")[2] in caught.value.what
    assert caught.value.remedy.startswith("Name a")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "latin.btn"
    path.write_bytes("// caf\u00e9\n".encode("latin-1") + BAD.encode())
    (error,) = check_paths([str(path)])
    assert error.code == "E101" and error.span.source.name == str(path)


def test_errors_have_the_name_that_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.btn").write_text(BAD)
    monkeypatch.chdir(tmp_path)
    assert [each.span.source.name for each in check_paths(["a.btn"])] == ["a.btn"]


def test_the_command_prints_text_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.btn"
    path.write_text(BAD)
    assert run("check", str(path)) == 1
    shown = capsys.readouterr().out
    assert f"{path}:1:27: error[E205]: unknown name `y`" in shown and shown.endswith("1 error\n")
    assert run("check", str(path), "--json") == 1
    (error,) = json.loads(capsys.readouterr().out)["errors"]
    assert "E205" in json.dumps(error) and "unknown name `y`" in error["message"]
    assert run("check", str(tmp_path / "b.btn"), "--json") == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "U101"
    path.write_text("fn f(x: f32) -> f32 { x }\n")
    assert run("check", str(path), "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"errors": []}


def run(*arguments: str) -> int:
    """Run the command line; return its exit status."""
    try:
        return int(main(list(arguments)) or 0)
    except SystemExit as stop:
        return int(stop.code or 0)


def test_the_whole_library_is_checked_quickly() -> None:
    start = time.perf_counter()
    assert check_paths([str(PACKAGE / "std")]) == []
    assert time.perf_counter() - start < 20, "measured: 1 s; a slow machine has room"


@pytest.mark.req("K002")
def test_what_is_too_deep_is_an_error_and_no_crash() -> None:
    chain = (
        "".join(f"fn g{i}(x: f32) -> f32 {{ g{i + 1}(x) }}\n" for i in range(150)) + "fn g150(x: f32) -> f32 { x }\n"
    )
    assert codes(chain) == []
    nested = "abs(" * (MAX_NESTING - 2) + "x" + ")" * (MAX_NESTING - 2)
    assert codes(f"fn f(x: f32) -> f32 {{ {nested} }}\n") == []
    assert set(codes("fn f(x: f32) -> f32 { " + " + ".join(["x"] * 199) + " }\n")) <= {"E111"}


def test_errors_are_independent_of_each_other() -> None:
    text = "fn f(x: f32) -> f32 {\n  let a = p\n  let b = a + q\n  let c = r\n  a + b + c\n}\n"
    assert [each.message for each in check_text(text, "x.btn")] == [f"unknown name `{name}`" for name in "pqr"]


def test_a_good_program_is_said_to_be_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.btn"
    path.write_text("fn f(x: f32) -> f32 { x }\n")
    assert run("check", str(path)) == 0
    assert capsys.readouterr().out == "No errors.\n"
