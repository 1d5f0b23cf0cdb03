"""`bittern quantize` from end to end: both kinds of models, what is printed and written, and refusals."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models

from bittern.cli import main
from bittern.front.gguf import open_gguf

Run = tuple[int, str, str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """A call of the command line: status, stdout and stderr."""

    def call(*arguments: object) -> Run:
        status = main(["quantize", *(str(argument) for argument in arguments)])
        out, err = capsys.readouterr()
        return status, out, err

    return call


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    """A tiny Llama of f32 with a tokenizer."""
    shape = tiny_models.Shape(vocab=259)
    return tiny_models.save(tmp_path, tiny_models.llama("f32", shape, keys=tiny_models.tokenizer()))


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A small ONNX network, with samples and labels beside it."""
    onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
    rng = np.random.default_rng(1)
    weights = {"w": rng.integers(-9, 10, (12, 8)), "v": rng.integers(-9, 10, (8, 3))}
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["a"], "one"),
        onnx.helper.make_node("Relu", ["a"], ["r"]),
        onnx.helper.make_node("MatMul", ["r", "v"], ["y"], "two"),
    ]
    sides = [onnx.helper.make_tensor_value_info(name, 1, ["n", size]) for name, size in (("x", 12), ("y", 3))]
    constants = [onnx.numpy_helper.from_array((a / 10).astype(np.float32), name) for name, a in weights.items()]
    graph = onnx.helper.make_graph(nodes, "net", sides[:1], sides[1:], constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    x = rng.integers(0, 256, (60, 12))
    y = (np.maximum(x @ weights["w"] / 10, 0) @ weights["v"]).argmax(1)
    np.savez(tmp_path / "data.npz", x=x.astype(np.uint8), y=y)
    return tmp_path / "net.onnx"


def test_gguf(run: Any, llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A quantised model generates, and says what became of each tensor."""
    target = llama.with_name("out.gguf")
    status, out, err = run(llama, "-o", target, "--width", "4")
    assert status == 0 and "blk.0.attn_q.weight" in out and "f32 -> q5_0" in out and "no blocks of 256" in out
    assert "quantising to q4_k" in err and out.rstrip().rsplit(" ", 1)[1] in out
    with open_gguf(target) as made:
        assert made.tensors["blk.1.ffn_up.weight"].element.name == "q5_0"
    assert main(["generate", "-m", str(target), "-p", "hi", "-n", "2"]) == 0
    capsys.readouterr()
    status, out, err = run(llama, "-o", target, "--width", "q8_0", "--keep", "attn", "--method", "mse", "--json")
    told = json.loads(out)
    assert (status, err) == (0, "") and told["settings"]["format"] == "q8_0" and len(told["sha256"]) == 64
    assert {row["became"] for row in told["tensors"] if "attn_q" in row["name"]} == {"f32"}
    assert all(row["sqnr_db"] > 38 for row in told["tensors"] if row["became"] == "q8_0")


def test_onnx(run: Any, net: Path) -> None:
    target, data = net.with_name("out.onnx"), net.with_name("data.npz")
    common = ("-o", target, "--data", f"{data}:x", "--labels", f"{data}:y", "--pixels", "raw")
    status, out, err = run(net, *common, "--width", "8")
    assert status == 0 and "f32 -> i8" in out and "float: 100.00 % (60 of 60)" in out and "calibrating" in err
    assert "quantised: " in out and str(target) in out
    content = target.read_bytes()
    assert run(net, *common, "--width", "8", "--quiet")[1:] == (out, "") and target.read_bytes() == content
    options = ["--activations", "4", "--weights", "gptq", "--method", "mse", "--granularity", "4", "--asymmetric"]
    status, out, _ = run(net, *common, "--width", "4", *options, "--samples", "20", "--json")
    told = json.loads(out)
    assert status == 0 and [row["became"] for row in told["tensors"]] == ["u4", "u4"]
    assert told["settings"]["samples"] == 20 and told["settings"]["rounding"] == "gptq"
    assert [row["of"] for row in told["accuracy"]] == ["float", "quantised"] and told["accuracy"][1]["percent"] > 80
    status, out, _ = run(net, *common, "--width", "t", "--form", "qonnx", "--signed")
    assert status == 0 and "QONNX keeps" in out
    assert run(net, "-o", target, "--width", "8", "--dynamic")[0] == 0


def test_refusals(run: Any, net: Path, llama: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    target = tmp_path / "no.onnx"
    cases: list[tuple[str, tuple[object, ...]]] = [
        ("U111", (net, "--width", "8")),
        ("U112", (tmp_path / "none.onnx", "-o", target, "--width", "8")),
        ("U111", (tmp_path, "-o", target, "--width", "8")),
        ("U111", (llama, "-o", target, "--width", "8", "--data", net)),
        ("U111", (llama, "-o", target, "--width", "8", "--method", "kl")),
        ("U111", (llama, "-o", target, "--width", "8", "--weights", "gptq")),
        ("U111", (net, "-o", target, "--width", "8", "--importance", llama)),
        ("U111", (net, "-o", target, "--width", "8", "--activations", "5")),
        ("U111", (net, "-o", target, "--width", "8", "--form", "tflite")),
        ("U111", (net, "-o", target, "--width", "8", "--percentile", "40")),
        ("N411", (net, "-o", target, "--width", "9")),
        ("N421", (llama, "-o", target, "--width", "9")),
        ("N422", (llama, "-o", target, "--width", "4", "--importance", llama)),
        ("N423", (net, "-o", net, "--width", "8")),
        ("N424", (net, "-o", tmp_path / "no" / "x", "--width", "8")),
        ("N437", (net, "-o", target, "--width", "8")),
        ("N461", (net, "-o", target, "--width", "8", "--data", tmp_path / "none.npy")),
        ("N462", (net, "-o", target, "--width", "8", "--data", llama)),
        ("N463", (net, "-o", target, "--width", "8", "--data", tmp_path / "data.npz")),
    ]
    for code, arguments in cases:
        status, out, err = run(*arguments)
        assert (status, out) == (1, "") and f"error[{code}]" in err, (code, arguments, err)
        status, out, _ = run(*arguments, "--json")
        assert status == 1 and json.loads(out)["error"]["code"] == code
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
