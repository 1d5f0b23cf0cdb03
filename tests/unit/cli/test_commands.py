"""Commands from end to end on tiny checkpoints: what they print, what they write, and what no failure leaves behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gguf_files as g
import pytest
import tiny_models

from bittern.cli import main

SHAPE = tiny_models.Shape(vocab=259)
TEMPLATE = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
Run = tuple[int, str, str]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A tiny Llama with a tokenizer of bytes and a chat template."""
    return tiny_models.save(tmp_path, tiny_models.llama(shape=SHAPE, keys=tiny_models.tokenizer(TEMPLATE)))


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A tiny Llama without a tokenizer."""
    return tiny_models.save(tmp_path, tiny_models.llama(), "bare.gguf")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """A call of the command line: status, stdout and stderr."""

    def call(*arguments: object) -> Run:
        status = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return status, out, err

    return call


def refused(run: Any, *arguments: object) -> dict[str, str]:
    """Run a command that fails, as text and with --json; return the error."""
    status, out, err = run(*arguments)
    assert (status, out) == (1, ""), (status, out, err)
    status, out, told = run(*arguments, "--json")
    assert status == 1 and "Traceback" not in err + told
    found: dict[str, str] = json.loads(out)["error"]
    assert set(found) == {"code", "what", "remedy"}
    assert f"error[{found['code']}]: {found['what']}" in err
    return found


def files(folder: Path) -> dict[str, bytes]:
    """Return all files under a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.req("L01", "L04", "L05")
def test_bringup_as_text_and_json(run: Any, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    status, text, err = run("bringup", model, "--prompt", "ab c", "-n", 4, "--out", out)
    assert status == 0
    assert "reference:f64  ran on hardware" in text and "vm:numpy  ran on hardware" in text
    assert "4 of 4 tokens agree with the reference" in text and "logits sha256" in text
    assert "reference (4 tokens) ..." in err and "vm: done" in err
    status, text, err = run("bringup", model, "--prompt", "ab c", "-n", 4, "--out", out, "--json")
    assert status == 0 and err == ""
    report = json.loads(text)
    assert report["prompt"] == "ab c" and report["tokens_prompt"] == [256, 32, 99]
    assert {Path(path).name for path in report["files"].values()} == set(files(out / "tiny"))


def test_a_second_bringup_writes_the_same_bytes(run: Any, model: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert run("bringup", model, "-n", 3, "--out", tmp_path / name)[0] == 0
    assert files(tmp_path / "one") == files(tmp_path / "two")
    before = {path: path.stat().st_mode & 0o777 for path in (tmp_path / "one" / "tiny").iterdir()}
    mask = os.umask(0o022)
    os.umask(mask)
    assert set(before.values()) == {0o666 & ~mask}, "files are as readable as any other"
    assert run("bringup", model, "-n", 3, "--out", tmp_path / "one")[0] == 0
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_bringup_of_token_ids(run: Any, bare: Path) -> None:
    status, text, _ = run("bringup", bare, "--tokens", "1,2,3", "-n", 3, "--cache", "int8", "--chips", "vm", "--json")
    report = json.loads(text)
    assert status == 0 and report["prompt"] is None and report["tokens_prompt"] == [1, 2, 3]
    assert [chip["chip"] for chip in report["chips"]] == ["vm"]
    assert report["chips"][0]["text"] is None and len(report["reference"]["tokens"]) == 3


def test_names_that_are_hard_to_write(run: Any, model: Path, tmp_path: Path) -> None:
    names = {"ünï 🦤.gguf": "ünï", ".gguf": "gguf", "a b\nc.gguf": "a-b-c"}
    if sys.platform == "linux":
        names[os.fsdecode(b"odd\xff.gguf")] = "odd"
    for place, (name, folder) in enumerate(names.items()):
        path = tmp_path / name
        path.write_bytes(model.read_bytes())
        out = tmp_path / f"out{place}"
        status, text, err = run("bringup", path, "-n", 1, "--chips", "reference", "--out", out, "--json")
        assert status == 0, err
        text.encode("utf-8")
        assert json.loads(text)["source"]["path"] == str(path)
        assert [part.name for part in out.iterdir()] == [folder]
        json.loads((out / folder / "report.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--tokens", "259"), "R104"),
        (("--prompt", ""), "R103"),
        (("--prompt", "a\udcff"), "F309"),
        (("--ctx", "3"), "R102"),
        (("-n", 2147483647, "--tokens", "1,2"), "R110"),
        (("--chips", "vn"), "R101"),
        (("--chips", "all,vn"), "R101"),
        (("--chips", "vn,wm"), "R101"),
        (("--chips", ","), "R108"),
        (("--library", "no-such-folder"), "R112"),
        (("--cache", "f8"), "U111"),
    ],
)
def test_bringup_that_is_refused_leaves_nothing(
    run: Any, model: Path, tmp_path: Path, arguments: tuple[object, ...], code: str
) -> None:
    before = files(tmp_path)
    error = refused(run, "bringup", model, *arguments, "--out", tmp_path / "out" / "deeper")
    assert error["code"] == code
    assert files(tmp_path) == before and not (tmp_path / "out").exists()


def test_too_large_for_the_memory(run: Any, tmp_path: Path) -> None:
    """A cache of many TiB is refused before anything runs, whether -n or --ctx asks for it."""
    shape = tiny_models.Shape(layers=1, g=64, heads=64, h=128, vocab=259, ff=32)
    path = tiny_models.save(tmp_path, tiny_models.llama(shape=shape, keys=tiny_models.tokenizer()))
    most = 2147483647
    error = refused(run, "bringup", path, "--tokens", "1", "-n", most, "--out", tmp_path / "out")
    assert error["code"] == "R109" and "positions" in error["what"]
    assert not (tmp_path / "out").exists()
    assert refused(run, "generate", "-m", path, "-p", "a", "--ctx", most)["code"] == "R109"


@pytest.mark.parametrize("kind", ["file", "below a file", "file in it", "folder in it"])
def test_an_out_that_cannot_be_written(run: Any, model: Path, tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    if kind == "file":
        out.write_text("mine")
    elif kind == "below a file":
        (tmp_path / "plain").write_text("mine")
        out = tmp_path / "plain" / "out"
    elif kind == "file in it":
        out.mkdir()
        (out / "tiny").write_text("mine")
    else:
        (out / "tiny" / "llama.keg").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    error = refused(run, "bringup", model, "-n", 1, "--out", out)
    assert error["code"] == "R111" and "--out" in error["remedy"]
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_that_breaks_leaves_what_was_there(
    run: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert run("bringup", model, "-n", 1, "--out", out)[0] == 0
    before = files(out)

    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bittern.runtime.bringup.greedy_steps", broken)
    assert run("bringup", model, "-n", 5, "--out", out)[0] == 130
    assert files(out) == before
    assert run("bringup", model, "-n", 5, "--out", tmp_path / "new" / "er")[0] == 130
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("damage", ["cut", "magic", "version", "empty", "missing", "folder", "architecture", "shape"])
def test_a_damaged_file(run: Any, model: Path, tmp_path: Path, damage: str) -> None:
    data = model.read_bytes()
    path = tmp_path / "bad.gguf"
    row = g.Row(b"blk.0.ffn_down.weight", (64, 64), 0, data=bytes(64 * 64 * 4))
    made = {
        "cut": data[:-1],
        "magic": b"GGML" + data[4:],
        "version": data[:4] + b"\x09" + data[5:],
        "empty": b"",
        "architecture": tiny_models.llama(keys={"general.architecture": "lama"}),
        "shape": tiny_models.llama(rows={"blk.0.ffn_down.weight": row}),
    }
    if damage in made:
        path.write_bytes(made[damage])
    elif damage == "folder":
        path.mkdir()
    before = sorted(tmp_path.rglob("*"))
    error = refused(run, "bringup", path, "--tokens", "1", "-n", 1, "--out", tmp_path / "out")
    assert error["code"][0] in "FMU" and error["remedy"]
    assert refused(run, "generate", "-m", path, "-p", "a")["code"] == error["code"]
    assert sorted(tmp_path.rglob("*")) == before


def test_generate_streams_and_tells(run: Any, model: Path) -> None:
    plain = ("generate", "-m", model, "-p", "ab c", "-n", 6, "--ignore-eos")
    status, text, err = run(*plain)
    assert status == 0 and err == "" and text.endswith("\n")
    status, told, err = run(*plain, "--json")
    found = json.loads(told)
    assert status == 0 and err == ""
    assert found["text"] + "\n" == text
    assert len(found["tokens"]) == 6 and found["stopped"] == "count" and found["tokens_prompt"] == [256, 32, 99]
    assert run(*plain, "--json")[1] == told, "a second run has the same bytes"
    assert run(*plain, "--chip", "reference", "--json")[0] == 0


def test_generate_with_every_option(run: Any, model: Path) -> None:
    hot = ("--temp", 1.5, "--top-k", 50, "--top-p", 0.9, "--min-p", 0.01, "--seed", 7)
    call = ("generate", "-m", model, "-p", "hello", "-n", 5, *hot, "--chat", "--ctx", 64, "--cache", "f32", "--json")
    first, second = json.loads(run(*call)[1]), json.loads(run(*call)[1])
    assert first == second
    assert len(first["tokens_prompt"]) == len("[user] hello\n")


def test_generate_stops_at_the_end(run: Any, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bittern.runtime.sample import Sampler

    made = [97, 258, 98, 99]
    monkeypatch.setattr(Sampler, "token", lambda self, logits, step: made[step])
    found = json.loads(run("generate", "-m", model, "-p", "x", "-n", 4, "--chip", "vm", "--json")[1])
    assert (found["text"], found["tokens"], found["stopped"]) == ("a", [97, 258], "end")
    found = json.loads(run("generate", "-m", model, "-p", "x", "-n", 4, "--ignore-eos", "--chip", "vm", "--json")[1])
    assert found["tokens"] == made and found["stopped"] == "count"


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("tiny", ("-p", ""), "R103"),
        ("tiny", ("-p", "abc", "--ctx", 2), "R102"),
        ("tiny", ("-p", "a", "--chip", "wm"), "R101"),
        ("tiny", ("-p", "a", "--library", "no-such-folder"), "R112"),
        ("bare", ("-p", "a"), "R107"),
        ("bare", ("-p", "a", "--chat"), "R107"),
        ("plain", ("-p", "a", "--chat"), "F409"),
    ],
)
def test_generate_that_is_refused(
    run: Any, model: Path, bare: Path, tmp_path: Path, name: str, arguments: tuple[object, ...], code: str
) -> None:
    tiny_models.save(tmp_path, tiny_models.llama(shape=SHAPE, keys=tiny_models.tokenizer()), "plain.gguf")
    assert refused(run, "generate", "-m", tmp_path / f"{name}.gguf", *arguments)["code"] == code


def test_warnings_are_on_stderr_and_in_the_json(
    run: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from bittern.runtime import origin

    row = replace(origin.PINNED["smollm2"], name="tiny", size=model.stat().st_size)
    monkeypatch.setitem(origin.PINNED, "tiny", row)
    calls = (
        ("bringup", model, "-n", 1),
        ("generate", "-m", model, "-p", "a", "-n", 1),
    )
    for call in calls:
        for extra in (("--quiet",), ("--json",)):
            status, out, err = run(*call, *extra)
            assert status == 0 and f"warning: {model} should be the model `tiny`" in err
            if "--json" in extra:
                assert len(json.loads(out)["warnings"]) == 1
    monkeypatch.undo()


def test_more_positions_than_it_was_trained_on(run: Any, tmp_path: Path) -> None:
    shape = tiny_models.Shape(vocab=259, context=4)
    path = tiny_models.save(tmp_path, tiny_models.llama(shape=shape, keys=tiny_models.tokenizer()))
    assert "warning" not in run("bringup", path, "--prompt", "ab", "-n", 4)[2]
    status, out, err = run("bringup", path, "--prompt", "ab", "-n", 5, "--json")
    assert status == 0 and "trained on 4" in err and json.loads(out)["warnings"]


def test_a_store_that_cannot_be_written_costs_nothing(
    run: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BITTERN_HOME", str(tmp_path / "file" / "store"))
    assert run("generate", "-m", model, "-p", "a", "-n", 1)[0] == 0
    assert run("bringup", model, "-n", 1)[0] == 0
    assert run("models")[0] == 0


def test_check_and_explain(run: Any, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.btn", tmp_path / "bad.btn"
    good.write_text("fn twice[n](x: f32[n]) -> f32[n] {\n  x + x\n}\n")
    bad.write_text("fn twice[n](x: f32[n]) -> f32[n] {\n  x + y\n}\n")
    assert run("check", good)[0] == 0
    assert run("check", good, "--json") == (0, '{\n  "errors": []\n}\n', "")
    status, out, _ = run("check", bad)
    assert status == 1 and "1 error" in out
    status, out, _ = run("check", bad, good, "--json")
    (error,) = json.loads(out)["errors"]
    assert status == 1 and error["spans"][0]["line_start"] == 2
    assert error["code"]["code"] in run("explain", error["code"]["code"])[1]
    assert refused(run, "check", tmp_path / "missing.btn")["code"] == "U101"
    assert refused(run, "check", "")["code"] == "U111"
    assert refused(run, "explain", "E9")["code"] == "U113"
    assert refused(run, "pull", "smolm2")["code"] == "S110"
    assert refused(run, "pull", "gemma3-270m")["code"] == "S111"


def started(*arguments: object, **options: Any) -> "subprocess.Popen[bytes]":
    """Start the command line as a process of its own."""
    command = [sys.executable, "-m", "bittern", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_process_that_is_stopped(model: Path, tmp_path: Path, number: signal.Signals, status: int) -> None:
    with started("bringup", model, "-n", 100000, "--out", tmp_path / "out" / "x", "--json") as process:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("out/x/tiny/.part-*/llama.keg")) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == status, err
    assert json.loads(out)["error"]["code"] == "U117" and b"Traceback" not in err
    assert not (tmp_path / "out").exists()


def test_a_reader_that_has_read_enough(model: Path) -> None:
    with started("generate", "-m", model, "-p", "a", "-n", 2000, "--ignore-eos") as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.read(1)
        process.stdout.close()
        err = process.stderr.read()
    assert (process.returncode, err) == (141, b"")


def test_text_streams_while_it_is_made(model: Path) -> None:
    """The first piece arrives long before the last is made."""
    with started("generate", "-m", model, "-p", "a", "-n", 100000, "--ctx", 100000, "--ignore-eos") as process:
        assert process.stdout is not None
        assert process.stdout.read(1)
        assert process.poll() is None
        process.kill()
