"""Quantised operations and small random QDQ graphs against ONNX Runtime: equal codes, not nearly equal ones.

ONNX Runtime turns DequantizeLinear -> Conv, MatMul or Gemm -> QuantizeLinear into one operation on integers; the
importer's rule for accumulators is that operation's. A Relu in front of the last quantiser is such a case where the
zero point is the least code; elsewhere ONNX Runtime computes with floats in an order of its own.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx_files import by_runtime, imported, model, node, run

from bittern.front.onnx import integer
from bittern.passes.network import integer_only

pytest.importorskip("onnxruntime", reason="the package onnxruntime judges these")

Array = np.ndarray[Any, Any]
SEEDS = range(6)


def differing(data: bytes, feeds: Mapping[str, Array]) -> int:
    """Return how many values of all outputs differ."""
    found = run(imported(data), *feeds.values())
    expected = by_runtime(data, feeds)
    pairs = [(ours.reshape(theirs.shape), theirs) for ours, theirs in zip(found, expected, strict=True)]
    return sum(int((ours != theirs).sum()) for ours, theirs in pairs)


def quantised(x: str, y: str, scale: str, zero: str, **attributes: int) -> Any:
    return node("QuantizeLinear", [x, scale, zero], [y], **attributes)


def restored(x: str, y: str, scale: str, zero: str, **attributes: int) -> Any:
    return node("DequantizeLinear", [x, scale, zero], [y], **attributes)


class Draw:
    """Random parts of a case; seed is in the test's name."""

    def __init__(self, seed: int) -> None:
        self.chance = np.random.default_rng(seed)
        self.c, self.m, self.k = (int(self.chance.integers(1, high)) for high in (9, 9, 4))

    def codes(self, dtype: str, *shape: int) -> Array:
        limits = np.iinfo(dtype)
        return self.chance.integers(limits.min, int(limits.max) + 1, shape).astype(dtype)

    def scales(self, *shape: int) -> Array:
        return np.asarray(self.chance.uniform(0.001, 0.02, shape)).astype(np.float32)

    def pads(self) -> list[int]:
        return [int(each) for each in self.chance.integers(0, self.k, 4)]


@pytest.mark.req("C078")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_convolutions_of_codes_are_equal(seed: int, per_channel: bool, dtype: str) -> None:
    draw = Draw(seed)
    rows = (draw.m,) if per_channel else ()
    zero = np.zeros(rows, dtype) if dtype == "int8" else np.full(rows, draw.codes("uint8"), dtype)
    x, w = draw.codes("uint8", 2, draw.c, 9, 8), draw.codes(dtype, draw.m, draw.c, draw.k, draw.k)
    constants = {
        "xs": np.float32(draw.chance.uniform(0.001, 0.1)),
        "xz": draw.codes("uint8"),
        "w": w,
        "ws": draw.scales(*rows),
        "wz": zero,
        "ys": np.float32(draw.chance.uniform(0.05, 2)),
        "yz": draw.codes("uint8"),
        "b": draw.chance.integers(-3000, 3000, draw.m).astype(np.int32),
    }
    made = node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["y"], pads=draw.pads())
    assert not differing(model([made], {"x": ("u8", x.shape)}, {"y": "u8"}, constants), {"x": x})
    if not per_channel:
        made = node("ConvInteger", ["x", "w", "xz", "wz"], ["y"], pads=draw.pads())
        assert not differing(model([made], {"x": ("u8", x.shape)}, {"y": "i32"}, constants), {"x": x})


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_products_of_codes_are_equal(seed: int, dtype: str) -> None:
    draw = Draw(seed)
    n, m = int(draw.chance.integers(1, 70)), int(draw.chance.integers(1, 20))
    x = draw.codes("uint8", 3, n)
    constants = {"xs": draw.scales(), "xz": draw.codes("uint8"), "w": draw.codes(dtype, n, m), "ws": draw.scales()}
    constants |= {"wz": draw.codes(dtype), "ys": draw.scales() * 40, "yz": draw.codes("uint8")}
    whole = node("MatMulInteger", ["x", "w", "xz", "wz"], ["y"])
    assert not differing(model([whole], {"x": ("u8", x.shape)}, {"y": "i32"}, constants), {"x": x})
    coded = node("QLinearMatMul", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["y"])
    assert not differing(model([coded], {"x": ("u8", x.shape)}, {"y": "u8"}, constants), {"x": x})


def qdq(draw: Draw, relu: bool, ties: bool = False) -> tuple[bytes, dict[str, Array]]:
    """Return a quantised convolution of f32 numbers with bias. ties: scales that put many sums between two codes."""
    ws, xs = draw.scales(draw.m), np.float32(draw.chance.uniform(0.01, 0.05))
    ys = np.float32(draw.chance.uniform(0.02, 0.5))
    if ties:
        ws, xs, ys = np.full(draw.m, 2.0**-6, np.float32), np.float32(2.0**-5), np.float32(2.0**-4)
    constants = {
        "xs": xs,
        "xz": draw.codes("int8"),
        "w": draw.codes("int8", draw.m, draw.c, draw.k, draw.k),
        "ws": ws,
        "wz": np.zeros(draw.m, np.int8),
        "b": draw.chance.integers(-3000, 3000, draw.m).astype(np.int32),
        "bs": (xs * ws).astype(np.float32),
        "bz": np.zeros(draw.m, np.int32),
        "ys": ys,
        "yz": np.int8(-128) if relu else np.int8(draw.chance.integers(-20, 20) | 1),
    }
    nodes = [
        quantised("x", "xq", "xs", "xz"),
        restored("xq", "xd", "xs", "xz"),
        restored("w", "wd", "ws", "wz", axis=0),
        restored("b", "bd", "bs", "bz", axis=0),
        node("Conv", ["xd", "wd", "bd"], ["c"], pads=draw.pads()),
        *([node("Relu", ["c"], ["r"])] if relu else []),
        quantised("r" if relu else "c", "yq", "ys", "yz"),
        restored("yq", "y", "ys", "yz"),
    ]
    x = draw.chance.normal(size=(2, draw.c, 9, 8)).astype(np.float32)
    return model(nodes, {"x": ("f32", x.shape)}, {"y": "f32", "yq": "i8"}, constants), {"x": x}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("ties", [False, True])
def test_quantised_graphs_are_equal(seed: int, relu: bool, ties: bool) -> None:
    assert not differing(*qdq(Draw(seed), relu, ties))


def test_a_planted_fault_in_the_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adding an odd zero point before rounding turns ties to the other side."""

    def early(site: Any, x: Any, coding: Any, element: str) -> Any:
        emitter = site.emitter
        scaled = emitter.with_constant("div", emitter.values(x), coding.scale)
        return emitter.converted(emitter.with_constant("add", scaled, coding.zero), element, "round")

    monkeypatch.setattr(integer, "to_codes", early)
    assert any(differing(*qdq(Draw(seed), False, True)) for seed in SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_other_quantised_operations_are_equal(seed: int) -> None:
    draw = Draw(seed)
    constants = {"s1": draw.scales() * 2, "z1": np.int8(3), "s2": draw.scales() * 3, "z2": np.int8(-9)}
    constants |= {"s3": draw.scales() * 5, "z3": np.int8(1), "s4": np.float32(1 / 256), "z4": np.int8(-128)}
    x, other = draw.codes("int8", 2, 3, 8, 8), draw.codes("int8", 2, 3, 8, 8)
    one = {"x": ("i8", x.shape)}
    first = restored("x", "a", "s1", "z1")
    last = quantised("c", "y", "s3", "z3")
    nodes: list[tuple[list[Any], bool]] = [
        ([first, restored("v", "b", "s2", "z2"), node("Add", ["a", "b"], ["c"]), last], True),
        ([first, node("GlobalAveragePool", ["a"], ["c"]), last], False),
        ([first, node("AveragePool", ["a"], ["c"], kernel_shape=[2, 2]), last], False),
        ([first, node("MaxPool", ["a"], ["c"], kernel_shape=[2, 2]), quantised("c", "y", "s1", "z1")], False),
        ([first, node("Softmax", ["a"], ["c"], axis=-1), quantised("c", "y", "s4", "z4")], False),
        ([first, node("Relu", ["a"], ["c"]), last], False),
        ([first, node("Transpose", ["a"], ["c"], perm=[0, 2, 3, 1]), quantised("c", "y", "s1", "z1")], False),
    ]
    for made, has_two in nodes:
        inputs: Any = {**one, "v": ("i8", x.shape)} if has_two else one
        feeds = {"x": x, "v": other} if has_two else {"x": x}
        assert not differing(model(made, inputs, {"y": "i8"}, constants), feeds), made[-2].op_type


@pytest.mark.req("C079")
@pytest.mark.parametrize("seed", SEEDS)
def test_dynamic_quantisation_is_equal(seed: int) -> None:
    draw = Draw(seed)
    n = int(draw.chance.integers(1, 40))
    x = draw.chance.normal(size=(1, n)).astype(np.float32) * (0 if seed == 0 else 3)
    first = node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])
    inputs: Any = {"x": ("f32", x.shape)}
    assert not differing(model([first], inputs, {"q": "u8", "s": "f32", "z": "u8"}), {"x": x})
    nodes = [
        first,
        node("MatMulInteger", ["q", "w", "z"], ["i"]),
        node("Cast", ["i"], ["f"], to=1),
        node("Mul", ["s", "ws"], ["t"]),
        node("Mul", ["f", "t"], ["y"]),
    ]
    constants = {"w": draw.codes("int8", n, 5), "ws": draw.scales()}
    assert not differing(model(nodes, inputs, {"y": "f32"}, constants), {"x": x})


@pytest.mark.parametrize("mode", ["asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"])
@pytest.mark.parametrize("nearest", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
def test_resizing_takes_the_same_places(mode: str, nearest: str) -> None:
    x = np.arange(60, dtype=np.float32).reshape(1, 2, 5, 6)
    attributes = {"mode": "nearest", "coordinate_transformation_mode": mode, "nearest_mode": nearest}
    for scales in ([1, 1, 2, 3], [1, 1, 0.5, 1.5], [1, 1, 0.6, 2.5], [1, 2, 1, 1]):
        made = node("Resize", ["x", "", "s"], ["y"], **attributes)
        data = model([made], {"x": ("f32", x.shape)}, {"y": "f32"}, {"s": np.array(scales, np.float32)})
        assert not differing(data, {"x": x}), scales


def test_what_the_other_evaluator_does_not_know_is_near() -> None:
    """Grouped transposed convolutions, negative pads, and softmax over several axes of old versions."""
    draw = Draw(1)
    cases = [
        (node("ConvTranspose", ["x", "w"], ["y"], group=2, strides=[2]), (2, 4, 5), 17),
        (node("Softmax", ["x"], ["y"], axis=1), (2, 4, 5), 11),
        (node("Pad", ["x", "p", "v"], ["y"]), (2, 4, 5), 17),
        (node("Upsample", ["x", "s"], ["y"], mode="nearest"), (1, 2, 3, 4), 9),
    ]
    constants = {
        "w": draw.chance.normal(size=(4, 2, 3)).astype(np.float32),
        "p": np.array([0, -1, 1, 0, 0, -2]),
        "v": np.float32(2),
        "s": np.array([1, 1, 2, 2], np.float32),
    }
    for made, shape, opset in cases:
        x = draw.chance.normal(size=shape).astype(np.float32)
        used = {name: constants[name] for name in made.input[1:]}
        data = model([made], {"x": ("f32", shape)}, {"y": "f32"}, used, opset)
        found, expected = run(imported(data), x)[0], by_runtime(data, {"x": x})[0]
        assert found.shape == expected.shape and np.allclose(found, expected, atol=1e-5), made.op_type


@pytest.mark.req("C084")
def test_a_whole_quantised_network_is_equal_and_integers_only() -> None:
    """Two convolutions, a residual, pools and a dense layer: ONNX Runtime's codes, and no float between the ends."""
    draw = Draw(4)
    constants = {"s": np.float32(0.05), "z": np.int8(-128), "t": np.float32(0.5), "ws": np.float32(0.01)}
    constants |= {"wz": np.int8(0), "u": draw.codes("int8", 8, 3, 3, 3), "v": draw.codes("int8", 8, 8, 3, 3)}
    constants |= {"w": draw.codes("int8", 8, 10)}
    nodes = [restored(name, f"{name}d", "ws", "wz") for name in "uvw"]

    def coded(x: str, y: str, scale: str = "t") -> None:
        nodes.extend([quantised(x, f"{y}q", scale, "z"), restored(f"{y}q", y, scale, "z")])

    coded("x", "a", "s")
    nodes += [node("Conv", ["a", "ud"], ["b"], pads=[1] * 4), node("Relu", ["b"], ["c"])]
    coded("c", "d")
    nodes.append(node("Conv", ["d", "vd"], ["e"], pads=[1] * 4))
    coded("e", "f")
    nodes.append(node("Add", ["f", "d"], ["g"]))
    coded("g", "h")
    nodes.append(node("MaxPool", ["h"], ["i"], kernel_shape=[2, 2], strides=[2, 2]))
    coded("i", "j")
    nodes.append(node("GlobalAveragePool", ["j"], ["k"]))
    coded("k", "l")
    nodes += [node("Flatten", ["l"], ["m"]), node("MatMul", ["m", "wd"], ["n"])]
    coded("n", "y")
    x = draw.chance.normal(size=(3, 3, 8, 8)).astype(np.float32) * 3
    data = model(nodes, {"x": ("f32", x.shape)}, {"y": "f32"}, constants)
    assert not differing(data, {"x": x})
    network = imported(data)
    made, report = integer_only(network.function, network.library, strict=True)
    assert len(report.folds) == 5
    assert np.array_equal(run(replace(network, function=made), x)[0], run(network, x)[0])
