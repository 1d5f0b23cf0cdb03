"""Wrong files, data, places and options of the commands for networks: each is refused by name, nothing is left over."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bittern.base.errors import BitternError
from bittern.cli import main
from bittern.front.quantise.target import write_whole as write_quantised
from bittern.nn import Add, Concat, Dense, Input, IntTensor, NetworkBuilder, build, load
from bittern.runtime.networks import fitted, open_network

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of 6 codes of 8 bits."""
    path = tmp_path_factory.mktemp("small") / "small.keg"
    NetworkBuilder().input(IntTensor(8, [None, 6], signed=False)).output(6, 4, weights="t").build().save(path)
    np.save(path.with_name("good.npy"), np.arange(18, dtype=np.uint8).reshape(3, 6))
    return path


def told(capsys: Capture, *arguments: object) -> tuple[int, dict[str, Any]]:
    """Run a command with --json; return its status and the one object that it printed."""
    capsys.readouterr()
    status = main([*map(str, arguments), "--json"])
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err and "Warning" not in shown.err
    made = json.loads(shown.out)
    assert isinstance(made, dict)
    return status, made


@pytest.mark.parametrize("command", ["run", "export"])
@pytest.mark.parametrize("place", ["missing/out", "folder", "", ".", "/", "/proc/out", "x" * 300])
def test_places_that_cannot_be_written(
    small: Path, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, place: str
) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    given = (
        [small, "--data", small.with_name("good.npy"), "--out"] if command == "run" else [small, "--to", "elf", "-o"]
    )
    status, made = told(capsys, command, *given, place)
    assert status == 1 and made["error"]["code"] == "N465"
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("command", ["run", "export", "inspect", "quantize", "save"])
def test_a_pipe_is_never_replaced(small: Path, capsys: Capture, tmp_path: Path, command: str) -> None:
    """Nor is a device: with the rights of root, a file in place of /dev/null would stay there for everybody."""
    out = tmp_path / "pipe"
    os.mkfifo(out)
    if command == "save":
        with pytest.raises(BitternError, match="F222"):
            load(small).save(out)
    elif command == "quantize":
        with pytest.raises(BitternError, match="N424"):
            write_quantised(out, b"x")
    else:
        given: dict[str, list[object]] = {
            "run": ["--data", small.with_name("good.npy"), "--out"],
            "export": ["--to", "elf", "-o"],
            "inspect": ["--html"],
        }
        status, made = told(capsys, command, small, *given[command], out)
        assert status == 1 and made["error"]["code"] in ("N465", "R124")
    assert stat.S_ISFIFO(out.stat().st_mode) and [each.name for each in tmp_path.iterdir()] == ["pipe"]


BAD: dict[str, Any] = {
    "text": np.full((3, 6), "a"),
    "bytes": np.full((3, 6), b"a"),
    "complex": np.zeros((3, 6), complex),
    "dates": np.zeros((3, 6), "datetime64[s]"),
    "records": np.zeros((3, 6), [("a", "u1")]),
    "nan": np.full((3, 6), np.nan),
    "infinite": np.full((3, 6), np.inf),
    "huge": np.full((3, 6), 1e30),
    "half": np.full((3, 6), 0.5),
    "large": np.full((3, 6), 1 << 40),
    "negative": np.full((3, 6), -1),
    "none": np.zeros((0, 6), np.uint8),
    "narrow": np.zeros((3, 5), np.uint8),
    "scalar": np.zeros((), np.uint8),
}


@pytest.mark.parametrize("command", ["run", "diff"])
@pytest.mark.parametrize("name", BAD)
def test_data_that_are_no_codes(small: Path, capsys: Capture, tmp_path: Path, command: str, name: str) -> None:
    np.save(tmp_path / "x.npy", BAD[name])
    sides = [small] if command == "run" else [f"{small}@vm:source", "@vm:passed"]
    status, made = told(capsys, command, *sides, "--data", tmp_path / "x.npy")
    assert status == 1 and made["error"]["code"] in ("N403", "N404", "N408")


@pytest.mark.parametrize("threads", ["0", "-1", "1025", "1000000", "x"])
def test_absurd_threads(small: Path, capsys: Capture, threads: str) -> None:
    status, made = told(capsys, "run", small, "--data", small.with_name("good.npy"), "--threads", threads)
    assert status == 1 and made["error"]["code"] == "U111"


def test_whole_numbers_that_a_file_holds_as_reals(small: Path, capsys: Capture, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(18, dtype=">f8").reshape(3, 6))
    outputs = [told(capsys, "run", small, "--data", data)[1]["outputs"] for data in (
        tmp_path / "x.npy", small.with_name("good.npy"))]  # fmt: skip
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("place", [70, 2000])
def test_a_damaged_array_of_a_network(capsys: Capture, tmp_path: Path, place: int) -> None:
    """A packed array whose bytes are no longer what was packed: the checksum, or the packing itself, is wrong."""
    path = tmp_path / "net.npz"
    np.savez_compressed(path, w0=np.random.default_rng(0).integers(0, 256, (64, 98)).astype(np.uint8))
    data = bytearray(path.read_bytes())
    data[place : place + 20] = b"\xff" * 20
    path.write_bytes(bytes(data))
    status, made = told(capsys, "summary", path)
    assert status == 1 and made["error"]["code"] == "N121"


def test_outputs_of_any_name(capsys: Capture, tmp_path: Path) -> None:
    """An output may be called as a parameter of the function that writes it, or like a path."""
    left, right = (Input(IntTensor(4, [None, 6]), name) for name in ("left", "../right"))
    a, b = (Dense(6, 4, activation="relu", bits=3)(each) for each in (left, right))
    names = ["file", "allow_pickle", "a/b"]
    build({names[0]: Dense(8, 2)(Concat()(a, b)), names[1]: Add()(a, b), names[2]: Dense(4, 3)(a)}).save(
        tmp_path / "several.keg"
    )
    np.save(tmp_path / "x.npy", np.zeros((3, 6), np.int8))
    data = ["--data", tmp_path / "x.npy"] * 2
    for out in ("out.npz", "out.npy"):
        status, made = told(capsys, "run", tmp_path / "several.keg", *data, "--out", tmp_path / out)
        assert status == 0 and sorted(made["outputs"]) == sorted(names)
        with np.load(tmp_path / out) as held:
            assert all(np.array_equal(held[name], made["outputs"][name]) for name in names)


def test_nan_has_no_code(data_dir: Path) -> None:
    """Real data become codes where the input states a scale; NaN is refused, infinities are the ends."""
    path = data_dir / "models" / "tflite_micro" / "hello_world_int8.tflite"
    if not path.is_file():
        pytest.skip(f"no {path}")
    (port,) = open_network(path).inputs
    assert fitted(np.array([[np.inf], [-np.inf]], np.float32), port).reshape(-1).tolist() == [127, -128]
    with pytest.raises(Exception, match="N408.*NaN"):
        fitted(np.array([[np.nan]], np.float32), port)
