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
from bittern.cli import COMMANDS, main
from bittern.cli.frame import guarded, home, model_path
from bittern.cli.options import folder, real, token_ids, whole, word, words
from bittern.runtime.pinned import PINNED
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
        (["zzz"], "U110", "`bittern --help` lists"),
        (["--verbose"], "U110", "no option `--verbose`"),
        (["pull"], "U111", "NAME"),
        (["pull", "smollm2", "--jsn"], "U111", "--json"),
        (["generate", "-m", "x", "-p", "y", "-n", "0"], "U111", "-n"),
        (["generate", "-m", "x", "-p", "y", "--cache", "f61"], "U111", "Did you mean `f16`?"),
        (["bringup", "x", "--prompt", "a", "--tokens", "1"], "U111", "Give one of them"),
        (["bringup", "x", "--tokens", "1,b"], "U111", "`b` is not a token id"),
        (["bringup", "x", "--tokens", "1,-2"], "U111", "`-2` is not a token id"),
        (["bringup", "x", "--tokens", ","], "U111", "`` is not a token id"),
        (["bringup", "x", "--tokens", "1,,2"], "U111", "`` is not a token id"),
        (["bringup", "x", "--tokens", "9" * 50], "U111", "is not a token id"),
        (["bringup", "x", "--tokens", "\u0663"], "U111", "is not a token id"),
        (["bringup", "x", "--out", ""], "U111", "the path of a folder"),
        (["bringup", "x", "--ctx", "0"], "U111", "--ctx is `0`"),
        (["bringup", "x", "y"], "U111", "y"),
        (["generate", "-m", "x", "-p", "y", "-n", "many"], "U111", "-n is `many`"),
        (["generate", "-m", "x", "-p", "y", "--temp", "nan"], "U111", "--temp is `nan`"),
        (["generate", "-m", "x", "-p", "y", "--top-p", "1.5"], "U111", "from 0 to 1."),
        (["generate", "-m", "x", "-p", "y", "--seed", "9" * 30], "U111", "18446744073709551615"),
        (["generate", "-m", "", "-p", "y"], "U112", "pulled model ``"),
        (["generate", "-m", "nope.gguf", "-p", "y"], "U112", "`nope.gguf`"),
        (["bringup", "smollm2"], "U112", "bittern pull smollm2"),
        (["models", "--now"], "U111", "--now"),
        (["explain"], "U111", "CODE"),
        (["help", "nope"], "U110", "nope"),
    ],
)
def test_a_mistake_ends_with_one(
    arguments: list[str], code: str, words_: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error[{code}]: ")
    assert words_ in err
    assert err.count("\n") == 2, "what, and what to do"
    assert main([*arguments, "--json"]) == 1
    out, _ = capsys.readouterr()
    error = json.loads(out)["error"]
    assert error["code"] == code and error["what"] and error["remedy"]


def test_a_failure_ends_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "Z999", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out) == {
        "error": {"code": "U113", "what": "No error has the code `Z999`.", "remedy": json.loads(out)["error"]["remedy"]}
    }
    assert err.startswith("error[U113]: No error has the code `Z999`.\n  ")


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "s117"]) == 0
    assert capsys.readouterr().out.startswith("S117 (pull and store): the bytes are not the pinned ones\n\nWhat was")
    assert main(["explain", "S117", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "the bytes are not the pinned ones"


def failing(error: BaseException) -> Any:
    """Return work that ends with the error."""

    def work() -> int:
        raise error

    return work


def test_an_interrupt_ends_with_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(failing(KeyboardInterrupt()), as_json=True) == 130
    out, err = capsys.readouterr()
    assert "It was interrupted." in err
    assert json.loads(out)["error"]["code"] == "U117"


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
    assert main(["models"]) == 130
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error[U117]: ")


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


def test_readers_of_options() -> None:
    assert words("a, b,,c ") == ("a", "b", "c")
    assert word("--cache", ("f16", "f32"))("f16") == "f16"
    assert whole("-n", -5, 9)("-5") == -5 and whole("-n", 0)(7) == 7
    assert real("--temp", 0, 1)("1e-3") == 0.001
    assert folder("--out")("a/b") == Path("a/b")
    assert token_ids("1, 2,3") == [1, 2, 3]
    for read, given in (
        (word("--cache", ("f16", "f32")), "f17"),
        (whole("-n", 0), "-1"),
        (whole("-n", 0), "--1"),
        (whole("-n", 0), "1_0"),
        (whole("-n", 0), "9" * 5000),
        (whole("-n", 0), "\u0663"),
        (real("--temp", 0, 1), "inf"),
        (real("--temp", 0, 1), "1.01"),
    ):
        with pytest.raises(BitternError, match="U111"):
            read(given)


def test_models_lists_table_and_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BITTERN_HOME", str(tmp_path))
    assert main(["models", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {row["name"]: row["path"] for row in listed["models"]} == dict.fromkeys(PINNED)
    assert main(["models"]) == 0
    assert "not pulled" in capsys.readouterr().out


def test_models_lists_what_else_is_in_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path)
    complete = store.folder("tmp") / "complete"
    complete.write_bytes(b"abc")
    entry = store.adopt(complete, Entry("old", complete, 3, "ab" * 32, "Free"))
    monkeypatch.setenv("BITTERN_HOME", str(tmp_path))
    assert main(["models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"][-1]["path"] == str(entry.path)
    assert main(["models"]) == 0
    assert str(entry.path) in capsys.readouterr().out


def test_a_home_that_nobody_has() -> None:
    with pytest.raises(BitternError, match="U114"):
        home({"BITTERN_HOME": "~no-such-user/x"})


def test_a_full_disk_behind_stdout() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    for arguments in (["models"], ["explain", "S111", "--json"], ["--help"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([sys.executable, "-m", "bittern", *arguments], stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == 1
        assert done.stderr.startswith(b"error[U115]: ") and b"Traceback" not in done.stderr


def test_too_little_memory(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(failing(MemoryError("Unable to allocate 9 TiB")), as_json=True) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["code"] == "U116" and "9 TiB" in err


def test_text_that_the_terminal_cannot_show() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "BITTERN_HOME": "\u65e5\u672c"}
    run = [sys.executable, "-m", "bittern", "models"]
    plain = subprocess.run(run, capture_output=True, env=environment)
    assert plain.returncode == 0 and b"\\u65e5\\u672c" in plain.stdout
    found = subprocess.run([*run, "--json"], capture_output=True, env=environment)
    assert json.loads(found.stdout)["store"] == "\u65e5\u672c"
