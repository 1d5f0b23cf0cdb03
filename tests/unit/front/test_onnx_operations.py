"""Every standard operation against the evaluator of the package onnx, one small file each."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from onnx_files import imported, model, node, reference, run

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """One operation: its inputs by shape (f32) and constants, in order. exact: whether every bit must agree."""

    op: str
    shape: tuple[int, ...]
    constants: tuple[Any, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    element: str = "f32"
    result: str = "f32"
    opset: int = 17
    exact: bool = True
    wires: int = 1
    outputs: int = 1
    first: bool = False  # the constants come before the computed input
    positive: bool = False


def f32(*shape: int, seed: int = 5) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def i64(*values: int) -> Array:
    return np.array(values, np.int64)


FLOAT = {"exact": False}
CASES = [
    # arithmetic
    *(Case(op, (2, 3, 4), (f32(4),)) for op in ("Add", "Sub", "Mul", "Div")),
    *(Case(op, (2, 3, 4), (f32(3, 1),), first=True) for op in ("Add", "Sub", "Mul", "Div")),
    *(Case(op, (2, 3, 4), wires=2) for op in ("Add", "Sub", "Mul", "Div", "Min", "Max")),
    Case("Add", (2, 1, 4), (f32(3, 1),)),
    Case("Mul", (2, 3, 4), (f32(1, 3, 4),)),
    Case("Mul", (2, 3), (np.float32(1),)),
    Case("Sub", (2, 3), (np.int32(4),), element="i32", result="i32"),
    *(Case(op, (2, 7)) for op in ("Abs", "Neg", "Floor", "Ceil", "Round", "Relu", "Reciprocal")),
    Case("Sqrt", (2, 7), positive=True),
    *(Case(op, (2, 7), **FLOAT) for op in ("Sigmoid", "Tanh", "Exp", "Erf", "Softplus", "Elu")),
    Case("Log", (2, 7), positive=True, exact=False),
    Case("HardSigmoid", (2, 7), exact=False),
    Case("HardSwish", (2, 7), exact=False),
    Case("Gelu", (2, 7), opset=20, exact=False),
    Case("Gelu", (2, 7), attributes={"approximate": "tanh"}, opset=20, exact=False),
    Case("LeakyRelu", (2, 7), attributes={"alpha": 0.25}),
    Case("PRelu", (2, 3, 4), (f32(3, 1),)),
    Case("Clip", (2, 7), (np.float32(-0.5), np.float32(0.5))),
    Case("Clip", (2, 7), attributes={"min": -0.5, "max": 0.25}, opset=9),
    *(Case("Pow", (2, 7), (np.float32(p),), positive=True, exact=False) for p in (2, 3, 0.5, -1, -0.5, 1)),
    Case("Min", (2, 7), (f32(7), f32(1))),
    Case("Max", (2, 7), (f32(7),)),
    Case("Identity", (2, 7)),
    Case("Dropout", (2, 7)),
    Case("Cast", (2, 7), attributes={"to": 6}, result="i32"),
    Case("Cast", (2, 7), attributes={"to": 9}, result="bit"),
    Case("Cast", (2, 7), attributes={"to": 1}, element="i8"),
    Case("Cast", (2, 7), attributes={"to": 3}, element="i32", result="i8"),
    *(
        Case(op, (2, 7), (f32(7),), result="bit")
        for op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
    ),
    *(Case(op, (2, 7), (f32(7),), result="bit", first=True) for op in ("Less", "Greater")),
    *(Case(op, (2, 7), wires=2, result="bit") for op in ("Equal", "Less", "GreaterOrEqual")),
    Case("BatchNormalization", (2, 3, 4, 5), (f32(3), f32(3), f32(3), abs(f32(3))), exact=False),
    Case("BatchNormalization", (2, 3), (f32(3), f32(3), f32(3), abs(f32(3))), exact=False),
    *(Case(op, (2, 7), **FLOAT) for op in ("Selu", "Celu", "Softsign")),
    *(Case(op, (2, 7)) for op in ("ThresholdedRelu", "Sign")),
    Case("LayerNormalization", (2, 3, 5), (f32(5), f32(5)), exact=False),
    Case("LayerNormalization", (2, 3, 5), (f32(3, 5),), {"axis": 1}, exact=False),
    Case("RMSNormalization", (2, 3, 5), (f32(5),), opset=23, exact=False),
    Case("InstanceNormalization", (2, 3, 4, 5), (f32(3), f32(3)), exact=False),
    Case("GroupNormalization", (2, 4, 3, 3), (f32(4), f32(4)), {"num_groups": 2}, opset=21, exact=False),
    *(
        Case(op, (2, 7), (np.array([True] * 3 + [False] * 4),), element="bit", result="bit")
        for op in ("And", "Or", "Xor")
    ),
    *(
        Case(op, (2, 3, 4), attributes={"axes": [-1]}, opset=13, exact=False)
        for op in ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceProd")
    ),
    # products
    Case("MatMul", (2, 5), (f32(5, 3),), exact=False),
    Case("MatMul", (2, 4, 5), (f32(5, 3),), exact=False),
    Case("MatMul", (2, 4, 5), (f32(3, 4),), exact=False, first=True),
    Case("Gemm", (2, 5), (f32(5, 3), f32(3)), exact=False),
    Case("Gemm", (2, 5), (f32(3, 5), f32(3)), {"transB": 1, "alpha": 0.5, "beta": 2.0}, exact=False),
    Case("Gemm", (2, 5), (f32(3, 5), f32(1, 3)), {"transB": 1}, exact=False),
    # convolutions
    Case("Conv", (2, 3, 8), (f32(4, 3, 3), f32(4)), exact=False),
    Case("Conv", (2, 3, 8, 7), (f32(4, 3, 3, 2), f32(4)), {"pads": [1, 0, 2, 1], "strides": [2, 1]}, exact=False),
    Case("Conv", (2, 3, 8, 7), (f32(4, 3, 3, 2),), {"dilations": [2, 3]}, exact=False),
    Case("Conv", (2, 3, 8, 7), (f32(4, 3, 3, 2),), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, exact=False),
    Case("Conv", (2, 3, 8, 7), (f32(4, 3, 3, 2),), {"auto_pad": "SAME_LOWER"}, exact=False),
    Case("Conv", (2, 4, 6, 6), (f32(6, 2, 3, 3),), {"group": 2}, exact=False),
    Case("Conv", (2, 4, 6, 6), (f32(4, 1, 3, 3),), {"group": 4}, exact=False),
    Case("Conv", (2, 4, 9), (f32(8, 1, 3),), {"group": 4}, exact=False),
    Case("Conv", (2, 2, 4, 5, 4), (f32(3, 2, 2, 3, 2), f32(3)), {"pads": [1, 0, 0, 0, 1, 1]}, exact=False),
    Case("ConvTranspose", (2, 3, 5, 4), (f32(3, 2, 3, 3), f32(2)), {"strides": [2, 3]}, exact=False),
    Case(
        "ConvTranspose",
        (2, 3, 5, 4),
        (f32(3, 2, 3, 3),),
        {"strides": [2, 2], "pads": [1, 0, 0, 1], "output_padding": [1, 0]},
        exact=False,
    ),
    # pooling
    Case("MaxPool", (2, 3, 8), attributes={"kernel_shape": [3], "strides": [2]}),
    Case("MaxPool", (2, 3, 8, 7), attributes={"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
    Case("MaxPool", (2, 3, 8, 7), attributes={"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    Case("MaxPool", (2, 3, 8, 8), attributes={"kernel_shape": [2, 2], "dilations": [2, 3]}),
    Case("MaxPool", (2, 3, 8, 7), attributes={"kernel_shape": [3, 3], "strides": [2, 2]}, element="i8", result="i8"),
    Case("GlobalMaxPool", (2, 3, 8, 7)),
    Case("GlobalAveragePool", (2, 3, 8, 7), exact=False),
    Case("GlobalAveragePool", (2, 3, 4, 3, 2), exact=False),
    Case("AveragePool", (2, 3, 8, 7), attributes={"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}, exact=False),
    Case(
        "AveragePool",
        (2, 3, 8, 7),
        attributes={"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1},
        exact=False,
    ),
    Case("AveragePool", (2, 3, 9), attributes={"kernel_shape": [4], "strides": [3]}, exact=False),
    # shapes
    Case("Reshape", (2, 3, 4), (i64(2, 12),)),
    Case("Reshape", (2, 3, 4), (i64(-1, 4, 3),)),
    Case("Reshape", (2, 3, 4), (i64(0, 2, -1),)),
    Case("Flatten", (2, 3, 4)),
    Case("Transpose", (2, 3, 4), attributes={"perm": [0, 2, 1]}),
    Case("Unsqueeze", (2, 3, 4), (i64(1, -1),)),
    Case("Unsqueeze", (2, 3, 4), attributes={"axes": [2]}, opset=11),
    Case("Squeeze", (2, 1, 4, 1), (i64(1),)),
    Case("Squeeze", (2, 1, 4, 1), attributes={"axes": [1, 3]}, opset=11),
    Case("Squeeze", (2, 1, 4, 1)),
    Case("Concat", (2, 3, 4), attributes={"axis": 1}, wires=2),
    Case("Concat", (2, 3, 4), attributes={"axis": -1}, wires=3),
    Case("Slice", (2, 7, 6), (i64(1, -1), i64(6, -7), i64(1, 2), i64(2, -2))),
    Case("Slice", (2, 7, 6), (i64(0, 2), i64(2, 100))),
    Case("Slice", (2, 7, 6), attributes={"starts": [1], "ends": [-1], "axes": [1]}, opset=9),
    Case("Split", (2, 7), (i64(3, 4),), {"axis": 1}, outputs=2),
    Case("Gather", (2, 5, 3), (i64(4, 0, -1),), {"axis": 1}),
    Case("Gather", (2, 5, 3), (np.array([[0, 2], [1, 1]]),), {"axis": 2}),
    Case("Gather", (2, 5, 3), (np.int64(2),), {"axis": 1}),
    Case("Gather", (2, 3), (f32(9, 4),), element="i64", first=True),
    Case("Expand", (2, 1, 4), (i64(2, 3, 1),)),
    Case("Pad", (2, 3, 4), (i64(0, 1, 0, 0, 0, 2), np.float32(1.5))),
    Case("DepthToSpace", (2, 8, 3, 2), attributes={"blocksize": 2}),
    Case("DepthToSpace", (2, 8, 3, 2), attributes={"blocksize": 2, "mode": "CRD"}),
    Case("SpaceToDepth", (2, 3, 4, 6), attributes={"blocksize": 2}),
    Case("Where", (2, 7), (f32(7),)),
    # reductions
    Case("ReduceMean", (2, 3, 4, 5), attributes={"axes": [1, 3]}, exact=False),
    Case("ReduceMax", (2, 3, 4, 5), attributes={"axes": [1, 3]}),
    Case("ReduceMin", (2, 3, 4, 5), attributes={"axes": [1, 3]}),
    Case("ReduceSum", (2, 3, 4), (i64(-1),), {"keepdims": 0}, exact=False),
    Case("ArgMax", (2, 3, 4), attributes={"axis": 1}, result="i64"),
    Case("ArgMin", (2, 3, 4), attributes={"axis": -1, "keepdims": 0}, result="i64"),
    Case("TopK", (2, 9), (i64(1),), outputs=2),
    Case("TopK", (2, 9), (i64(4),), outputs=2),
    Case("TopK", (2, 9, 3), (i64(2),), {"axis": 1}, outputs=2),
    Case("Softmax", (2, 3, 4), exact=False),
    Case("Softmax", (2, 3, 4), attributes={"axis": 1}, exact=False),
    Case("LogSoftmax", (2, 9), exact=False),
]
_RESULTS = {"TopK": ("f32", "i64")}


def file_of(case: Case) -> bytes:
    constants = {f"c{k}": value for k, value in enumerate(case.constants)}
    wires = [f"x{k}" for k in range(case.wires)]
    inputs = dict.fromkeys(wires, (case.element, case.shape))
    named = [*constants, *wires] if case.first else [*wires, *constants]
    if case.op == "Where":
        inputs["x0"] = ("bit", case.shape)
        inputs = {"x": ("f32", case.shape)}
        outputs = {"y": "f32"}
        nodes = [node("Less", ["x", "c0"], ["less"]), node("Where", ["less", "x", "c0"], ["y"])]
        return model(nodes, inputs, outputs, constants, case.opset)
    names = [f"y{k}" for k in range(case.outputs)]
    types = _RESULTS.get(case.op, (case.result,) * case.outputs)
    made = node(case.op, named, names, **case.attributes)
    return model([made], inputs, dict(zip(names, types, strict=True)), constants, case.opset)


def feeds_of(case: Case) -> dict[str, Array]:
    names = ["x"] if case.op == "Where" else [f"x{k}" for k in range(case.wires)]
    chance = np.random.default_rng(11)
    made: dict[str, Array] = {}
    for name in names:
        if case.element == "f32":
            values = chance.normal(size=case.shape).astype(np.float32) * 2
            made[name] = abs(values) + np.float32(0.01) if case.positive else values
        else:
            dtype = {"i8": np.int8, "i32": np.int32, "i64": np.int64, "bit": np.bool_}[case.element]
            low, high = {"i64": (0, 9), "bit": (0, 2)}.get(case.element, (-100, 100))
            made[name] = chance.integers(low, high, case.shape).astype(dtype)
    return made


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.op}-{case.opset}-{'x'.join(map(str, case.shape))}")
def test_an_operation_is_what_onnx_says(case: Case) -> None:
    data, feeds = file_of(case), feeds_of(case)
    expected = reference(data, feeds)
    found = run(imported(data), *feeds.values())
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape
        if case.exact:
            assert np.array_equal(ours, theirs), (ours, theirs)
        else:
            assert np.allclose(ours, theirs, rtol=2e-5, atol=2e-6), abs(ours - theirs).max()
