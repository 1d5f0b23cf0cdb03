"""The command line: help without imports, mistakes with the nearest names, every ending with its status."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import bittern
from bittern.base.errors import BitternError
from bittern.cli import COMMANDS, frame, main
from bittern.cli.frame import UsageError, choice, guarded, home, model_path, words
from bittern.runtime.store import Entry, Store

FOLDER = Path(bittern.__file__).parent / "cli"


def test_the_table_is_the_folder() -> None:
    files = {path.stem for path in FOLDER.glob("*.py") if "def command(" in path.read_text()}
    assert files == set(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_summary_is_the_first_line_of_the_command(name: str) -> None:
    documentation = import_module(f"bittern.cli.{name}").command.__doc__
    assert documentation.splitlines()[0] == COMMANDS[name]


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_help_lists_every_command(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for name, summary in COMMANDS.items():
        assert f"  {name} " in out and summary in out
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize("arguments", [["pull", "--help"], ["pull", "-h"], ["help", "pull"], ["--help", "pull"]])
def test_help_of_a_command(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    out, _ = capsys.readouterr()
    assert out.startswith("Usage: bittern pull [OPTIONS]")
    assert COMMANDS["pull"] in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"bittern {bittern.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "code", "words_"),
    [
        (["pul", "x"], "U110", "Did you mean `pull`?"),
        (["zzz"], "U110", "`pull`"),
        (["--verbose"], "U110", "no option `--verbose`"),
        (["pull"], "U111", "NAME"),
        (["pull", "smollm2", "--jsn"], "U111", "--json"),
        (["generate", "-m", "x", "-p", "y", "-n", "0"], "U111", "-n"),
        (["generate", "-m", "x", "-p", "y", "--cache", "f61"], "U111", "Did you mean `f16`?"),
        (["bringup", "x", "--prompt", "a", "--tokens", "1"], "U111", "Give one of them"),
        (["bringup", "x", "--tokens", "1,b"], "U111", "`b` is not a token id"),
        (["bringup", "x", "--tokens", "1,-2"], "U111", "`-2` is not a token id"),
        (["bringup", "x", "--tokens", ","], "U111", "No token id"),
    ],
)
def test_a_mistake_ends_with_two(
    arguments: list[str], code: str, words_: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error[{code}]: ")
    assert words_ in err
    assert main([*arguments, "--json"]) == 2
    out, _ = capsys.readouterr()
    assert json.loads(out)["error"]["code"] == code


def test_a_failure_ends_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "Z999", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out) == {
        "error": {"code": "U113", "what": "No error has the code `Z999`.", "remedy": json.loads(out)["error"]["remedy"]}
    }
    assert err.startswith("error[U113]: No error has the code `Z999`.\n  ")


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "s117"]) == 0
    assert capsys.readouterr().out == "S117 (pull and store): the bytes are not the pinned ones\n"
    assert main(["explain", "S117", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "the bytes are not the pinned ones"


def failing(error: BaseException) -> Any:
    """Return work that ends with the error."""

    def work() -> int:
        raise error

    return work


def test_an_interrupt_ends_with_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(failing(KeyboardInterrupt()), as_json=False) == 130
    assert capsys.readouterr().err == "Interrupted.\n"


def test_our_own_fault_keeps_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(failing(TypeError("odd")), as_json=True) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["code"] == "U199"
    assert "Traceback" in err and "TypeError: odd" in err


@pytest.mark.parametrize("arguments", [["--help"], ["models"], ["explain", "S111", "--json"], ["pull", "--help"]])
def test_a_reader_that_goes_away_hears_nothing(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-m", "bittern", *arguments], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert done.returncode == 141
    assert done.stderr == b""


def test_a_stream_whose_reader_goes_away_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bittern.cli.models.open_store", failing(BrokenPipeError()))
    stdout = sys.stdout
    assert main(["models"]) == 141
    monkeypatch.setattr(sys, "stdout", stdout)


def test_an_interrupted_command_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bittern.cli.models.open_store", failing(KeyboardInterrupt()))
    assert main(["models", "--json"]) == 130
    assert capsys.readouterr().err == "Interrupted.\n"


def test_a_terminated_command_cleans_up(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys, time\n"
        "from bittern.cli.frame import guarded\n"
        "def work():\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGTERM); time.sleep(5)\n"
        "    finally:\n"
        f"        open({str(tmp_path / 'cleaned')!r}, 'w').close()\n"
        "sys.exit(guarded(work, False))\n"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 143
    assert (tmp_path / "cleaned").exists()


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; from bittern.cli import main; main(['--help']); main(['--version'])\n"
        "print(sorted(set(sys.modules) & {'typer', 'click', 'rich', 'numpy', 'tokenizers', 'jinja2', 'cbor2', "
        "'urllib.request', 'subprocess', 'torch'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_home_follows_the_environment() -> None:
    assert home({"BITTERN_HOME": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a")
    assert home({"XDG_CACHE_HOME": "/b"}) == Path("/b/bittern")
    assert home({"BITTERN_HOME": "", "XDG_CACHE_HOME": ""}) == Path("~/.cache/bittern").expanduser()
    assert home({"BITTERN_HOME": "~/x"}) == Path("~/x").expanduser()


def test_a_model_is_a_path_or_a_pulled_name(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    file = tmp_path / "smollm2"
    with pytest.raises(BitternError, match=r"U112.*not in the store.*bittern pull smollm2"):
        model_path("smollm2", store)
    with pytest.raises(BitternError, match=r"U112.*Did you mean `smollm2`"):
        model_path("smolm2", store)
    with pytest.raises(BitternError, match=r"U112.*path of a file"):
        model_path("/no/such/thing/at/all", store)
    complete = store.folder("tmp") / "complete"
    complete.write_bytes(b"abc")
    entry = store.adopt(complete, Entry("smollm2", complete, 3, "ab" * 32, "Free"))
    assert model_path("smollm2", store) == entry.path
    file.write_bytes(b"")
    assert model_path(str(file), store) == file


def test_small_words() -> None:
    assert words("a, b,,c ") == ("a", "b", "c")
    assert choice("--cache", "f16", ("f16", "f32")) == "f16"
    with pytest.raises(UsageError, match="--cache does not know `f17`"):
        choice("--cache", "f17", ("f16", "f32"))


def test_models_lists_table_and_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BITTERN_HOME", str(tmp_path))
    assert main(["models", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {row["name"]: row["path"] for row in listed["models"]} == {"smollm2": None, "gemma3-270m": None}
    assert main(["models"]) == 0
    assert "not pulled" in capsys.readouterr().out


def test_usage_error_is_a_bittern_error() -> None:
    assert issubclass(UsageError, BitternError)
    assert frame.INTERRUPTED == 130
