"""Running ONNX graphs for calibration: each operation against ONNX's own reference, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_nets import model, residual, samples, saved
from quantise_cases import bell, printed_everywhere

from bittern.base.errors import BitternError
from bittern.front.quantise.onnx import rows, windows
from bittern.front.quantise.onnx.graph import graph_of, read_model
from bittern.front.quantise.onnx.layers import layers, points
from bittern.front.quantise.onnx.run import batches, folded, run

RNG = np.random.default_rng(20)
W = {
    "conv": bell(RNG, 6, 4, 3, 3), "grouped": bell(RNG, 8, 2, 3, 2), "line": bell(RNG, 3, 4, 5), "bias": bell(RNG, 6),
    "matrix": bell(RNG, 7, 5), "turned": bell(RNG, 5, 7), "five": bell(RNG, 5), "four": bell(RNG, 4),
    "positive": np.abs(bell(RNG, 4)) + np.float32(0.5), "slope": np.abs(bell(RNG, 4, 1, 1)),
}  # fmt: skip
IMAGE, LINE, VECTOR = (3, 4, 9, 8), (3, 4, 11), (3, 7)
I64 = np.int64
NORM = ("positive", "four", "four", "positive")


def one(
    op: str, shape: tuple[int, ...], *constants: Any, version: int = 13, **attributes: Any
) -> tuple[Any, tuple[int, ...]]:
    """Return a model of one operation on x and constants: names in W, or arrays, or "" for none."""
    given = {
        f"k{i}": W[c] if isinstance(c, str) and c else c for i, c in enumerate(constants) if not isinstance(c, str) or c
    }
    inputs = ["x", *(f"k{i}" if not isinstance(c, str) or c else "" for i, c in enumerate(constants))]
    node = helper.make_node(op, inputs, ["y"], "the_node", **attributes)
    return model([node], {name: np.asarray(array) for name, array in given.items()}, shape, version), shape


CASES: dict[str, tuple[Any, tuple[int, ...]]] = {
    "conv": one("Conv", IMAGE, "conv", "bias"),
    "conv_padded": one("Conv", IMAGE, "conv", pads=[1, 0, 2, 1], strides=[2, 1]),
    "conv_dilated": one("Conv", IMAGE, "conv", dilations=[2, 3]),
    "conv_same_upper": one("Conv", IMAGE, "conv", auto_pad="SAME_UPPER", strides=[2, 3]),
    "conv_same_lower": one("Conv", IMAGE, "conv", auto_pad="SAME_LOWER", strides=[2, 3]),
    "conv_groups": one("Conv", IMAGE, "grouped", group=2),
    "conv_line": one("Conv", LINE, "line", pads=[2, 2]),
    "max_pool": one("MaxPool", IMAGE, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
    "max_pool_ceil": one("MaxPool", IMAGE, kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1),
    "average_pool": one("AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 1], pads=[1, 1, 1, 1]),
    "average_pool_all": one("AveragePool", IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    "global_average_pool": one("GlobalAveragePool", IMAGE),
    "global_max_pool": one("GlobalMaxPool", IMAGE),
    "gemm": one("Gemm", VECTOR, "matrix", "five", alpha=0.5, beta=2.0),
    "gemm_turned": one("Gemm", VECTOR, "turned", transB=1),
    "matmul": one("MatMul", (2, 3, 7), "matrix"),
    "batch_normalization": one("BatchNormalization", IMAGE, *NORM, version=15, epsilon=1e-3),
    "add": one("Add", IMAGE, "slope"),
    "sub": one("Sub", IMAGE, "slope"),
    "mul": one("Mul", IMAGE, "slope"),
    "div": one("Div", IMAGE, "slope"),
    "neg": one("Neg", VECTOR),
    "abs": one("Abs", VECTOR),
    "relu": one("Relu", VECTOR),
    "leaky_relu": one("LeakyRelu", VECTOR, alpha=0.3),
    "prelu": one("PRelu", IMAGE, "slope"),
    "clip": one("Clip", VECTOR, np.float32(-0.25), np.float32(0.5)),
    "clip_above": one("Clip", VECTOR, "", np.float32(0.5)),
    "clip_old": one("Clip", VECTOR, version=6, min=-0.5, max=0.25),
    "sigmoid": one("Sigmoid", VECTOR),
    "tanh": one("Tanh", VECTOR),
    "hard_sigmoid": one("HardSigmoid", VECTOR, alpha=0.3),
    "hard_swish": one("HardSwish", VECTOR, version=14),
    "softmax": one("Softmax", VECTOR),
    "softmax_axis": one("Softmax", IMAGE, axis=1),
    "reshape": one("Reshape", IMAGE, np.array([0, 6, -1], I64)),
    "flatten": one("Flatten", IMAGE, axis=2),
    "squeeze": one("Squeeze", (3, 1, 4), np.array([1], I64)),
    "unsqueeze": one("Unsqueeze", VECTOR, np.array([1, 3], I64)),
    "transpose": one("Transpose", IMAGE, perm=[0, 2, 3, 1]),
    "reduce_mean": one("ReduceMean", IMAGE, axes=[2, 3]),
    "reduce_mean_flat": one("ReduceMean", IMAGE, axes=[-1, 1], keepdims=0),
    "pad": one("Pad", IMAGE, np.array([0, 0, 1, 2, 0, 0, 2, 0], I64), np.float32(1.5)),
    "pad_old": one("Pad", IMAGE, version=10, pads=[0, 0, 1, 2, 0, 0, 2, 0], value=0.5),
    "identity": one("Identity", VECTOR),
    "dropout": one("Dropout", VECTOR),
}  # fmt: skip
CASES["sqrt"] = (
    model([helper.make_node("Abs", ["x"], ["a"]), helper.make_node("Sqrt", ["a"], ["y"])], {}, VECTOR),
    VECTOR,
)
CASES["concat"] = (model([helper.make_node("Concat", ["x", "x"], ["y"], axis=1)], {}, VECTOR), VECTOR)
CASES["matmul_pairs"] = (
    model(
        [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["x", "t"], ["y"])],
        {},
        IMAGE,
    ),
    IMAGE,
)  # fmt: skip
CASES["constants"] = (
    model(
        [
            helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(W["five"])),
            helper.make_node("Constant", [], ["f"], value_float=0.5),
            helper.make_node("Mul", ["c", "f"], ["h"]),
            helper.make_node("Gemm", ["x", "m", "h"], ["y"]),
        ],
        {"m": W["matrix"]},
        VECTOR,
    ),
    VECTOR,
)


def quantised(op: str, kind: int, zero: Any, scale: Any, **attributes: Any) -> tuple[Any, tuple[int, ...]]:
    stored = helper.make_tensor("z", kind, np.shape(zero), np.ravel(zero).tolist())
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], **attributes),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], **attributes),
    ]
    made = model(nodes, {"s": np.asarray(scale, np.float32)}, IMAGE, 21)
    made.graph.initializer.append(stored)
    made.ir_version = 10
    return made, IMAGE


CASES |= {
    "linear_i8": quantised("", TensorProto.INT8, 3, 0.02),
    "linear_u8": quantised("", TensorProto.UINT8, 100, 0.011),
    "linear_u4": quantised("", TensorProto.UINT4, 7, 0.2),
    "linear_i4": quantised("", TensorProto.INT4, -1, 0.2),
    "linear_axis": quantised("", TensorProto.INT8, [0, 1, 2, 3], [0.1, 0.02, 0.03, 0.04], axis=1),
    "linear_blocks": quantised(
        "", TensorProto.INT8, np.zeros((3, 2, 9, 8), int), np.full((3, 2, 9, 8), 0.05), axis=1, block_size=2
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operations_are_those_of_onnx(name: str) -> None:
    made, shape = CASES[name]
    x = bell(np.random.default_rng(21), *shape)
    graph = folded(graph_of(made))
    found = run(graph, x, ["y"])["y"]
    (wanted,) = ReferenceEvaluator(made).run(None, {"x": x})
    assert found.dtype == np.float32 and found.shape == wanted.shape
    assert np.allclose(found, wanted, rtol=1e-5, atol=2e-5)


def test_every_operation_has_a_case() -> None:
    shown = {node.op_type for made, _ in CASES.values() for node in made.graph.node}
    others = {"DynamicQuantizeLinear", "Quant", "BipolarQuant"}  # with the files that have them
    assert {op for _, op in rows.ROWS} == shown | others


def test_networks_are_those_of_onnx_runtime() -> None:
    ort = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    for made in (residual(), residual(1, 9)):
        session = ort.InferenceSession(made.SerializeToString())
        graph, x = folded(graph_of(made)), samples(20)
        found = np.concatenate([run(graph, batch, ["y"])["y"] for batch in batches(x, 7)])
        wanted = np.concatenate([session.run(None, {"x": each[None]})[0] for each in x])
        assert np.allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_batch_changes_no_bit() -> None:
    graph, x = folded(graph_of(residual())), samples(9)
    parts = [
        np.concatenate([run(graph, b, ["y", "c2"])[t] for b in batches(x, size)])
        for size in (1, 4, 9)
        for t in ("y", "c2")
    ]
    assert all(np.array_equal(part, parts[i % 2]) for i, part in enumerate(parts))


def test_the_same_bits_everywhere() -> None:
    """EDGE_CASES B18: what calibration sees does not depend on the machine."""
    program = """
import hashlib
from onnx_nets import residual, samples
from bittern.front.quantise.onnx.graph import graph_of
from bittern.front.quantise.onnx.run import folded, run
print(hashlib.sha256(run(folded(graph_of(residual())), samples(32), ["y"])["y"].tobytes()).hexdigest())
"""
    assert len(printed_everywhere(program)) == 1


def test_layers_and_points() -> None:
    graph = folded(graph_of(residual()))
    found = layers(graph)
    assert [(layer.node.name, layer.axis, layer.groups) for layer in found] == [
        ("first", 0, 1), ("depthwise", 0, 8), ("point", 0, 1), ("last", 1, 1),
    ]  # fmt: skip
    assert points(graph, found) == ["x", "r1", "r2", "c3", "r3"]
    assert points(graph, found[:1]) == ["x", "r1", "c3"]
    for layer in found:
        weight = graph.constants[layer.weight]
        assert np.array_equal(layer.restored(layer.matrices(weight), weight.shape), weight)
        x = run(graph, samples(3), [layer.node.inputs[0]])[layer.node.inputs[0]]
        parts = layer.inputs(x, weight)
        made = np.concatenate([p @ m.T for p, m in zip(parts, layer.matrices(weight), strict=True)], 1)
        bias = graph.constants[layer.node.inputs[2]] if len(layer.node.inputs) > 2 else 0
        out = run(graph, samples(3), [layer.node.outputs[0]])[layer.node.outputs[0]]
        assert np.allclose(np.moveaxis(out, 1, -1).reshape(made.shape), made + bias, atol=1e-4)


def test_refusals(tmp_path: Path) -> None:
    nodes = [helper.make_node("Erf", ["x"], ["e"], "one"), helper.make_node("Sin", ["e"], ["y"], "two")]
    with pytest.raises(BitternError, match="2 operations that are not run: Erf .`one`.; Sin .`two`.") as caught:
        folded(graph_of(model(nodes, {}, VECTOR)))
    assert caught.value.code == "N433" and "Conv" in caught.value.remedy
    made, _ = CASES["gemm"]
    with pytest.raises(BitternError, match="cannot be run on shapes") as caught:
        run(folded(graph_of(made)), np.zeros((2, 9), np.float32), ["y"])
    assert caught.value.code == "N434"
    two = residual()
    two.graph.input.append(helper.make_tensor_value_info("z", 1, [1]))
    with pytest.raises(BitternError, match="`x`, `z`") as caught:
        graph_of(two)
    assert caught.value.code == "N432"
    (tmp_path / "bad.onnx").write_bytes(b"\xff\xfe not a model")
    outside, short = residual(), residual()
    outside.graph.initializer[0].data_location = TensorProto.EXTERNAL
    short.graph.initializer[0].raw_data = b"123"
    files = (
        saved(tmp_path, outside, "o.onnx"),
        saved(tmp_path, short),
        saved(tmp_path, model([], {}, VECTOR), "e.onnx"),
    )
    for path in (tmp_path / "bad.onnx", *files):
        with pytest.raises(BitternError) as caught:
            read_model(path)
        assert caught.value.code.startswith("N20"), caught.value
    wide, _ = one("Pad", IMAGE, version=10, pads=[0, 0, 1 << 40, 0, 0, 0, 0, 0])
    with pytest.raises(BitternError, match="it would have") as caught:
        run(folded(graph_of(wide)), np.zeros(IMAGE, np.float32), ["y"])
    assert caught.value.code == "N434"


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    path = saved(tmp_path, residual())
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(BitternError, match="with the package onnx") as caught:
        read_model(path)
    assert caught.value.code == "N201"


def test_planted_faults_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Padding on the wrong side, and a pooling that forgets the last window."""
    right = windows._padding
    with monkeypatch.context() as patch:
        patch.setattr(windows, "_padding", lambda *given: right(*given)[::-1])
        with pytest.raises(AssertionError):
            test_operations_are_those_of_onnx("conv_same_upper")
    monkeypatch.setitem(rows.ROWS, ("", "Relu"), lambda node, inputs, graph: np.maximum(inputs[0], np.float32(0.01)))
    with pytest.raises(AssertionError):
        test_operations_are_those_of_onnx("relu")
