"""Small ONNX models with random weights: each operation that is run for calibration, and networks to quantise."""

from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from quantise_cases import bell

FLOAT = TensorProto.FLOAT


def model(
    nodes: list[Any], constants: dict[str, np.ndarray], shape: tuple[Any, ...], version: int = 13, made: Any = None
) -> Any:
    """Return a model with the input `x` and the output `y`. made: the shape of y, if it is stated."""
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", FLOAT, list(shape))],
        [helper.make_tensor_value_info("y", FLOAT, made)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8)


def saved(folder: Path, made: Any, name: str = "net.onnx") -> Path:
    """Write a model and return its path."""
    path = folder / name
    path.write_bytes(made.SerializeToString())
    return path


def residual(batch: Any = "n", version: int = 13) -> Any:
    """Return a network with padding, groups, a branch, pooling and a Gemm. x: [n, 4, 8, 8] -> y: [n, 5]."""
    rng = np.random.default_rng(11)
    constants = {
        "w1": bell(rng, 8, 4, 3, 3) / 4, "b1": bell(rng, 8) / 4, "w2": bell(rng, 8, 1, 3, 3) / 2,
        "w3": bell(rng, 8, 8, 1, 1) / 2, "w4": bell(rng, 128, 5) / 8, "b4": bell(rng, 5),
        "shape": np.array([-1 if batch == "n" else batch, 128]),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], "depthwise", group=8, auto_pad="SAME_UPPER"),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("Conv", ["r2", "w3"], ["c3"], "point"),
        helper.make_node("Add", ["c3", "r1"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["r3"]),
        helper.make_node("MaxPool", ["r3"], ["pool"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Reshape", ["pool", "shape"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w4", "b4"], ["y"], "last"),
    ]
    return model(nodes, constants, (batch, 4, 8, 8), version, [batch, 5])


def samples(count: int = 96) -> np.ndarray:
    """Return samples for `residual`."""
    return bell(np.random.default_rng(12), count, 4, 8, 8)
