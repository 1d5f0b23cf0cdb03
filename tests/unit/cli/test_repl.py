"""`bittern repl`: what a piped conversation answers, and that nothing said ends in a traceback."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from bittern.cli import main, repl
from bittern.lang.library import Library

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path) -> "Say":
    """A conversation: what is said -> status and what is answered."""
    monkeypatch.chdir(tmp_path)
    return Say(monkeypatch, capsys)


class Say:
    """Pipes lines into the command."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *lines: str) -> tuple[int, list[str]]:
        self.monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n"))
        status = main(["repl"])
        out, err = self.capsys.readouterr()
        assert err == "" and "Traceback" not in out
        return status, out.splitlines()


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("1.5f32 + 2.0", "3.5  f32"),
        ("1.0f32 == 1.0", "True  bit"),
        ("-3i8", "-3  i8"),
        ("[u32(i) * 2 for i in 0..3]", "[0, 2, 4]  u32[3]"),
        ("f64(1.5f32)", "1.5  f64"),
        ("for i in 0..4 with s = 0u32 { s + i }", "6  u32"),
        (":type [1.0f32, 2.0]", "f32[2]"),
        (":cost dot([1.0f32, 2.0], [1.0f32, 2.0])", "2 multiply-accumulates, 0 operations, "),
        ("// nothing", None),
        ("", None),
        (":quit", None),
    ],
)
def test_one_line(say: Say, text: str, answer: str | None) -> None:
    status, out = say(text)
    assert status == 0
    assert out == [] if answer is None else out[0].startswith(answer) and len(out) == 1


def test_what_is_declared_stays(say: Say) -> None:
    status, out = say(
        "use norms",
        "/// Twice x.",
        "fn twice(x: f32)",
        "  -> f32 {",
        "  x + x",
        "}",
        "struct Pair { a: f32, b: u8[2] }",
        "let v = [1.0f32, 2.0]",
        "twice(v[1])",
        "Pair(a: 1.0, b: [1, 2])",
        "let p = copy(v)",
        "p[0] = 7.0",
        "p",
        "fn twice(x: f32) -> f32 { x * 3.0 }",
        "twice(",
        "2.0)",
        "rms_norm([1.0f32], [2.0f32], 0.0)",
    )
    assert status == 0
    assert out == [
        *("declared use norms", "declared twice", "declared Pair", "kept", "4.0  f32"),
        *("Pair", "  a: 1.0", "  b: [1, 2]", "kept", "kept", "[7., 2.]  f32[2]"),
        *("declared twice", "6.0  f32", "[2.]  f32[1]"),
    ]


def test_questions_about_functions(say: Say) -> None:
    status, out = say("use norms", ":hash rms_norm", ":cost rms_norm", ":graph rms_norm", ":hash 1u8 + 1")
    assert status == 0
    assert out[1] == f"{Library.standard().function('norms.rms_norm').id.hex()}  norms.rms_norm"
    assert out[2].startswith("0 multiply-accumulates, 4 * n + 5 operations") and out[2].endswith(" nodes")
    assert out[3:5] == ["/// norms.rms_norm", "fn rms_norm[n](x: f32[n], gain: f32[n], eps: f32) -> f32[n] {"]
    assert len(out[-1].split()[0]) == 64


def test_load(say: Say, tmp_path: Path) -> None:
    (tmp_path / "a.btn").write_text("fn one() -> u8 { 1 }\n")
    (tmp_path / "bad.btn").write_text("fn one() -> u8 { x }\n")
    status, out = say(":load a.btn", "one()", ":load bad.btn", "one()", ":load none.btn")
    assert status == 1
    assert out[:3] == ["declared one", "1  u8", "bad.btn:1:18: error[E205]: unknown name `x`"]
    assert "1  u8" in out[3:] and out[-1].startswith("error[U101]: The file none.btn cannot be read")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1 + 2", "input:1:1: error[E307]"),
        ("x", "input:1:1: error[E205]"),
        ("let c = zz", "input:1:9: error[E205]"),
        ("fn f() -> u8 { 1.0f32 }", "input:1:16: error[E327]"),
        ("f(1.0", "error[E107]"),
        ("}", "error[E1"),
        ("1u8 } ideal { 2u8", "error[E105]"),
        ("1u8 } fn g() -> u8 { 1", "error[E1"),
        ("use nothing", "error[E202]"),
        (":tpye 1", "Did you mean `:type`?"),
        (":type", "error[U111]"),
        ("(" * 100, "error[E111]"),
        ("-" * 5000 + "1i8", "error[E111]"),
        ("\x00\ud800é", "error[E102]"),
        ("now()", "error["),
    ],
)
def test_errors_are_diagnostics_and_the_talk_goes_on(say: Say, text: str, told: str) -> None:
    status, out = say(text, "", "1u8")
    assert status == 1
    assert any(told in line for line in out), out
    assert out[-1] == "1  u8"


def test_our_own_fault_is_said_and_the_talk_goes_on(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> str:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(repl, "_cost", broken)
    status, out = say(":cost 1u8", "2u8")
    assert status == 1
    assert out == ["error[U199]: Bittern itself failed: ZeroDivisionError: planted. Please report it.", "2  u8"]


def test_a_process_with_a_pipe() -> None:
    command = [sys.executable, "-m", "bittern", "repl"]
    done = subprocess.run(command, input="fn f() -> u8 {\n1 }\nf()\n:help\n", capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("declared f\n1  u8\nAn expression is evaluated")
