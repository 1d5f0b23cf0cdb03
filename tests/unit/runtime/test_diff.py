"""Comparing runs: sides and their spelling, chips, levels, peers, records, joined launches, classes."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_files
import pytest
from onnx import helper

import bittern.runtime.diff_peers as diff_peers
from bittern.base.errors import BitternError
from bittern.chips.x86.features import is_here
from bittern.cli import main
from bittern.front.network.assembly import BATCH, Assembly
from bittern.front.network.network import Network
from bittern.front.network.stored import save
from bittern.lang.library import Library
from bittern.runtime.diff import compared, compared_with_record
from bittern.runtime.diff_case import Case
from bittern.runtime.diff_classes import classified
from bittern.runtime.diff_peers import peer_side
from bittern.runtime.diff_record import is_record, read_record, record_of, write_record
from bittern.runtime.diff_sides import Run, run_side, spelled
from bittern.runtime.observed import Point
from bittern.types.elements import ELEMENTS

Array = npt.NDArray[Any]


def small(seed: int = 1) -> Network:
    """Bytes, a dense layer, codes, another one."""
    rng = np.random.default_rng(seed)
    a = Assembly(Library.standard())
    x = a.input("x", "i8", (19,))
    y = a.call("dense.dense", a.constant(rng.integers(-128, 128, (16, 19)), "i8"), x)
    at, falling = a.constant(rng.integers(-9000, 9000, (16, 3)), "i32"), a.constant(np.arange(16) % 2 == 1, "bit")
    y = a.label(a.call("thresholds.levels", y, at, falling, -2, elements={"e": "i3"}), "codes")
    y = a.call("dense.dense", a.constant(rng.integers(-4, 4, (10, 16)), "i4"), y)
    return a.network("small", {"scores": a.label(y, "scores")})


def samples(count: int = 4) -> Array:
    """Return data for it."""
    return np.random.default_rng(5).integers(-128, 128, (count, 19)).astype(np.int8)


# --- sides


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("net.onnx", "net.onnx", ()),
        ("net.onnx@vm", "net.onnx", ("vm",)),
        ("net.onnx@x86:avx2:unfused:source", "net.onnx", ("x86", "avx2", "unfused", "source")),
        ("@tflite:default", "", ("tflite", "default")),
        ("a@b.onnx@onnxruntime", "a@b.onnx", ("onnxruntime",)),
    ],
)
def test_sides_are_spelled(text: str, path: str, words: tuple[str, ...]) -> None:
    found = spelled(text)
    assert (found.path, found.words) == (path, words)


@pytest.mark.parametrize(
    ("text", "says", "remedy"),
    [
        ("net.onnx@onxruntime", "has the word `onxruntime`", "`onnxruntime`"),
        ("net.onnx@sourse", "has the word `sourse`", "`source`"),
        ("net.onnx@vm:x86", "two words for the chip", "one of them"),
        ("net.onnx@tflite:avx2", "`tflite` does not take", "Known"),
        ("net.onnx@x86:fused:unfused", "two words for the fusing", "one of them"),
    ],
)
def test_a_wrong_spelling_is_told(text: str, says: str, remedy: str) -> None:
    with pytest.raises(BitternError) as caught:
        spelled(text)
    assert caught.value.code == "N443" and says in caught.value.what and remedy in caught.value.remedy


def test_words_make_a_run() -> None:
    run = run_side(spelled("n@x86:avx2:source:unfused"), small())
    assert (run.chip, run.tier, run.level, run.fuse) == ("x86", "avx2", "source", False)
    assert run_side(spelled("n@avx2"), small()).chip == "x86" and run_side(spelled("n"), small()).level == "passed"


# --- runs


@pytest.mark.skipif(not is_here(), reason="the chip x86 is not here")
@pytest.mark.parametrize("words", ["x86", "x86:sse2", "x86:unfused", "x86:source", "vm:source"])
def test_chips_and_levels_are_equal(words: str) -> None:
    network = small()
    made = compared(run_side(spelled("n@vm"), network), run_side(spelled(f"n@{words}"), network), [samples()])
    assert made.is_equal and [row.name for row in made.rows] == ["codes", "scores"] and len(made.outputs) == 1
    assert ("joins fewer launches" in " ".join(made.notes)) == (words not in ("x86:unfused", "vm:source"))


@dataclass(slots=True)
class Faulty(Run):
    """A chip that computes one value wrongly; only_joined: only while nothing else is observed."""

    at: str = "codes"
    only_joined: bool = False

    def outputs(self, inputs: Sequence[Array]) -> dict[str, Array]:
        """Return wrong outputs."""
        return {name: value + 1 for name, value in Run.outputs(self, inputs).items()}

    def values(self, wanted: Sequence[Point], inputs: Sequence[Array]) -> dict[bytes, Array]:
        """Return values, that of one node and those behind it wrong."""
        found = Run.values(self, wanted, inputs)
        if self.only_joined and len(wanted) > 1:
            return found
        labels = {each.node.id: each.label for each in wanted}
        return {
            key: np.where(value == 1, 0, value) if labels[key] == self.at else value for key, value in found.items()
        }


def test_the_first_value_of_a_faulty_chip() -> None:
    network = small()
    made = compared(Run("good", network, "vm"), Faulty("bad", network, "vm"), [samples()])
    assert made.first is not None and made.first.layer == made.first.node == "codes"
    assert (made.first.left, made.first.right, made.first.kind) == ("1", "0", "thresholds.levels")
    run = Run("good", network, "vm")
    (codes,) = run.values([each for each in run.points if each.label == "codes"], [samples()]).values()
    assert made.first.at == tuple(np.argwhere(codes == 1)[0]) and made.first.differing == (codes == 1).sum()
    assert made.first.classes[0].name == "saturation" and made.outputs[0].differing == 40 and not made.first.causes


def test_joined_launches_are_named() -> None:
    network = small()
    bad = Faulty("bad", network, "vm", at="codes", only_joined=True)
    made = compared(Run("good", network, "vm"), bad, [samples()])
    assert made.first is not None and made.first.node == "codes" and made.first.classes[0].name == "fusion"
    assert all(row.differing == 0 for row in made.rows)


def test_what_the_graphs_differ_in_is_told() -> None:
    made = compared(Run("one", small(), "vm"), Run("other", small(2), "vm"), [samples()])
    assert made.first is not None and made.first.layer == "codes" and made.first.kind == "dense.dense"
    assert made.first.causes and "`w` differ in" in made.first.causes[0]


# --- classes that arrays alone show


def case(left: Any, right: Any, element: str = "i8") -> list[str]:
    """Return the classes of two arrays of a node of which nothing is known."""
    a = Assembly(Library.standard())
    x = a.input("x", element, (4,))
    kind = "i8" if np.asarray(left).dtype.kind != "f" else "f4"
    arrays = [np.asarray(each).astype(kind) for each in (left, right)]
    return [each.name for each in classified(Case(arrays[0], arrays[1], ELEMENTS[element], a.op("neg", x)))]


def test_arrays_alone_show_a_class() -> None:
    rng = np.random.default_rng(3)
    codes, sums = rng.integers(-100, 100, (3, 5, 6, 32)), rng.integers(-90000, 90000, (4, 32))
    reals = rng.normal(size=(4, 32)).astype(np.float32)
    tail, border, some = codes.copy(), codes.copy(), codes.copy()
    tail[..., 24:] ^= 5
    border[:, 0] ^= 3
    some[2, 1:4, 2:4] ^= 9
    rest = codes + rng.integers(0, 2, codes.shape)
    holed = reals.copy()
    holed[1, 3] = np.nan
    expected = [
        (codes, codes.transpose(0, 2, 1, 3), "layout"),
        (codes, codes[:, ::-1], "layout"),
        (codes, codes.reshape(-1, 2)[:, ::-1].reshape(codes.shape), "layout"),
        (codes, codes[..., rng.permutation(32)], "layout"),
        (codes, np.roll(codes, 1, 2), "stride"),
        (codes, codes[:, :3], "stride"),
        (codes, codes[0], "shape"),
        (codes, codes + 7, "zero point"),
        (codes, -codes, "sign"),
        (codes, codes & 0xFF, "sign"),
        (codes, np.clip(codes, -90, 99), "saturation"),
        (codes, rest, "rounding"),
        (codes, tail, "channel"),
        (codes, border, "padding"),
        (codes, some, "sample"),
        (reals, holed, "not a number"),
        (reals, reals * np.float32(2), "scale"),
        (reals, np.nextafter(reals, np.float32(9)), "rounding"),
        (reals * 0, -(reals * 0), "sign of zero"),
    ]
    for left, right, name in expected:
        found = case(left, right, "f32" if left.dtype.kind == "f" else "i8")
        assert found[0] == name or (name == "sample" and name in found), (name, found)
    assert case(sums, sums.astype(np.int16), "i32")[0] == "overflow"
    assert case(sums, np.clip(sums, -(1 << 15), (1 << 15) - 1), "i32")[0] == "overflow"
    assert case(sums, sums + np.arange(32) * 3, "i32")[0] == "bias"
    assert case(sums, sums ^ rng.integers(0, 1 << 14, sums.shape), "i32") == ["unknown"]


# --- records


@pytest.mark.parametrize("name", ["old.npz", "old.json"])
@pytest.mark.parametrize("is_left", [True, False])
def test_a_record_is_compared(tmp_path: Path, name: str, is_left: bool) -> None:
    run, path = Run("now", small(), "vm"), tmp_path / name
    write_record(record_of(run, [samples()]), path)
    assert is_record(path) and [each.name for each in tmp_path.iterdir()] == [name]
    record = read_record(path)
    assert compared_with_record(run, record, [samples()], is_left=is_left).is_equal
    made = compared_with_record(Faulty("now", small(), "vm"), record, [samples()], is_left=is_left)
    assert made.first is not None and made.first.layer == "codes" and made.first.kind == "thresholds.levels"
    told = (made.first.left, made.first.right)
    assert told == (("?", "?") if name.endswith(".json") else ("1", "0") if is_left else ("0", "1"))
    assert made.rows[0].differing == -1 if name.endswith(".json") else made.rows[0].differing > 0
    with pytest.raises(BitternError) as caught:
        compared_with_record(run, record, [samples()[::-1]], is_left=is_left)
    assert caught.value.code == "N447" and "other data" in caught.value.what


def test_a_damaged_record_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    write_record(record_of(Run("now", small(), "vm"), [samples()]), path)
    told = json.loads(path.read_text())
    for broken in ({**told, "rows": 3}, {**told, "bittern_record": 9}, {"bittern_record": 1}):
        path.write_text(json.dumps(broken))
        with pytest.raises(BitternError) as caught:
            read_record(path)
        assert caught.value.code == "N446" and "no whole record" in caught.value.what
    held = tmp_path / "old.npz"
    write_record(record_of(Run("now", small(), "vm"), [samples()]), held)
    with np.load(held) as arrays:
        kept = {name: arrays[name] for name in arrays.files}
    kept["row_0"] = kept["row_0"] + 1
    np.savez(held, **kept)
    with pytest.raises(BitternError) as caught:
        read_record(held)
    assert caught.value.code == "N446" and "does not have its digest" in caught.value.what
    assert not is_record(tmp_path / "nothing.npz")


# --- peers


def convolved(path: Path) -> Path:
    """Write a small QDQ convolution as an ONNX file."""
    rng = np.random.default_rng(2)
    data = onnx_files.model(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], "quantise"),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], "dequantise"),
            helper.make_node("DequantizeLinear", ["w", "s", "z"], ["e"], "weights"),
            helper.make_node("Conv", ["d", "e"], ["c"], "conv", pads=[1, 1, 1, 1]),
            helper.make_node("QuantizeLinear", ["c", "t", "z"], ["y"], "codes"),
        ],
        {"x": ("f32", (1, 3, 6, 6))},
        {"y": "i8"},
        {
            "s": np.float32(0.125),
            "t": np.float32(1.0),
            "z": np.int8(0),
            "w": rng.integers(-9, 10, (5, 3, 3, 3)).astype(np.int8),
        },
        opset=19,
    )
    path.write_bytes(data)
    return path


def fake_runtime(wrong: str = "") -> ModuleType:
    """Return a package that answers as ONNX Runtime does, with the reference evaluator; `wrong`: a tensor to spoil."""

    class Session:
        def __init__(self, data: bytes, options: Any, providers: Sequence[str]) -> None:
            self.model = diff_peers.import_module("onnx").ModelProto.FromString(data)

        def get_outputs(self) -> list[Any]:
            return list(self.model.graph.output)

        def get_inputs(self) -> list[Any]:
            return [SimpleNamespace(name="x", shape=[1, 3, 6, 6], type="tensor(float)")]

        def run(self, names: Sequence[str], feed: dict[str, Array]) -> list[Array]:
            found = onnx_files.ReferenceEvaluator(self.model).run(list(names), feed)
            pairs = zip(names, found, strict=True)
            return [np.where(value == 3, 4, value) if name == wrong else value for name, value in pairs]

    made = ModuleType("onnxruntime")
    made.SessionOptions = SimpleNamespace  # type: ignore[attr-defined]
    made.GraphOptimizationLevel = SimpleNamespace(ORT_DISABLE_ALL=0)  # type: ignore[attr-defined]
    made.InferenceSession = Session  # type: ignore[attr-defined]
    return made


def test_onnx_runtime_is_compared_tensor_by_tensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = convolved(tmp_path / "net.onnx")
    data = (np.random.default_rng(4).integers(-64, 64, (3, 3, 6, 6)) / 8).astype(np.float32)
    for wrong, layer in (("", None), ("q", "quantise"), ("y", "codes")):
        monkeypatch.setitem(sys.modules, "onnxruntime", fake_runtime(wrong))
        peer = peer_side(spelled("@onnxruntime"), path, Library.standard())
        made = compared(Run("vm", peer.network, "vm", level="source"), peer, [data])
        assert {"quantise", "conv", "codes"} <= {row.name for row in made.rows}
        assert (None if made.first is None else made.first.layer) == layer
        if made.first is not None:
            assert (made.first.left, made.first.right) == ("3", "4")


def test_the_real_onnx_runtime(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    peer = peer_side(spelled("@onnxruntime"), convolved(tmp_path / "net.onnx"), Library.standard())
    data = (np.random.default_rng(4).integers(-64, 64, (3, 3, 6, 6)) / 8).astype(np.float32)
    assert compared(Run("vm", peer.network, "vm", level="source"), peer, [data]).is_equal


def test_the_real_tflite(data_dir: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
    path = data_dir / "models/mlperf_tiny/ic_resnet8_int8.tflite"
    data = np.random.default_rng(4).integers(-128, 128, (2, 32, 32, 3)).astype(np.int8)
    peer = peer_side(spelled("@tflite"), path, Library.standard())
    assert compared(Run("vm", peer.network, "vm"), peer, [data]).is_equal
    peer = peer_side(spelled("@tflite:default"), path, Library.standard())
    made = compared(Run("vm", peer.network, "vm"), peer, [data])
    assert made.first is not None and made.first.classes[0].name == "rounding"
    assert "one rounding instead of two" in made.first.classes[0].evidence


def test_a_peer_that_is_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = convolved(tmp_path / "net.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(BitternError) as caught:
        peer_side(spelled("@onnxruntime"), path, Library.standard())
    assert caught.value.code == "N444" and "pip install onnxruntime" in caught.value.remedy
    with pytest.raises(BitternError) as caught:
        peer_side(spelled("@tflite"), path, Library.standard())
    assert caught.value.code == "N445" and ".tflite files" in caught.value.what


def test_a_peer_that_refuses_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = fake_runtime()
    made.InferenceSession = lambda *_, **__: (_ for _ in ()).throw(RuntimeError("no kernel for Conv\nmore"))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "onnxruntime", made)
    peer = peer_side(spelled("@onnxruntime"), convolved(tmp_path / "net.onnx"), Library.standard())
    with pytest.raises(BitternError) as caught:
        peer.outputs([np.zeros((1, 3, 6, 6), np.float32)])
    assert caught.value.code == "N445" and "no kernel for Conv" in caught.value.what


# --- the command


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BITTERN_HOME", str(tmp_path / "home"))
    save(small(), tmp_path / "one.keg")
    save(small(2), tmp_path / "two.keg")
    np.save(tmp_path / "data.npy", samples(6))
    one, two, data = (str(tmp_path / name) for name in ("one.keg", "two.keg", "data.npy"))
    assert main(["diff", f"{one}@vm", "@vm:source", "--data", data, "-n", "2"]) == 0
    assert "on     2 samples" in capsys.readouterr().out
    assert main(["diff", f"{one}@vm", f"{two}@vm", "--data", data]) == 1
    shown = capsys.readouterr().out
    assert (
        "first difference" in shown and "on the way to `codes`" in shown and "because      the constants `w`" in shown
    )
    assert main(["diff", f"{one}@vm", f"{two}@vm", "--data", data, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert not told["equal"] and told["first"]["layer"] == "codes" and told["first"]["count"] == 64
    record = str(tmp_path / "old.npz")
    assert main(["run", one, "--data", data, "--chip", "vm", "--record", record, "--quiet", "--monitor"]) == 0
    assert "sums can be" in capsys.readouterr().out
    assert main(["diff", record, f"{one}@vm"]) == 0
    assert main(["diff", f"{two}@vm", record]) == 1
    assert "first difference" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["@vm", "@x86"], "Neither side names a network"),
        (["{one}@vm", "@vm:source"], "--data is given 0 times"),
        (["{one}@vm", "@vm", "--data", "d", "--ignore", "ordr"], "does not know `ordr`"),
        (["{one}@vmm", "@vm"], "has the word `vmm`"),
        (["{old}", "{old}"], "Both sides are records"),
    ],
)
def test_mistakes(given: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(small(), tmp_path / "one.keg")
    write_record(record_of(Run("now", small(), "vm"), [samples()]), tmp_path / "old.json")
    names = {"one": tmp_path / "one.keg", "old": tmp_path / "old.json"}
    assert main(["diff", *(each.format(**names) for each in given)]) == 1
    ended = capsys.readouterr().err
    assert words in ended and "Traceback" not in ended


def test_differences_may_be_passed_over(tmp_path: Path) -> None:
    def reals(turned: bool) -> Network:
        a = Assembly(Library.standard())
        x = a.input("x", "f32", (16,))
        y = a.scalar("mul", x, 0.3)
        if turned:
            square = a.op("permute", a.op("reshape", y, shape=(BATCH, 4, 4)), axes=(0, 2, 1))
            y = a.op("reshape", square, shape=(BATCH, 16))
        return a.network("reals", {"total": a.label(a.op("sum", y), "total")})

    data = np.random.default_rng(1).normal(size=(64, 16)).astype(np.float32)
    sides = [Run("one", reals(False), "vm", level="source"), Run("other", reals(True), "vm", level="source")]
    made = compared(*sides, [data])
    assert made.first is not None and made.first.classes[0].name == "order"
    made = compared(*sides, [data], ["order"])
    assert made.is_equal and made.passed == 1
