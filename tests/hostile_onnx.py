"""The smallest hostile ONNX files of each kind: rows of `hostile.ROWS`."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx_files import model, node

Made = Callable[[], bytes]


def _plain(**constants: Any) -> Any:
    """Return a model of one product."""
    given = {"w": np.zeros((3, 4), np.float32), **constants}
    return onnx.load_from_string(
        model([node("MatMul", ["x", "w"], ["y"])], {"x": ("f32", (1, 3))}, {"y": "f32"}, given)
    )


def _tensor(**changes: Any) -> bytes:
    """Return that model with other fields of its constant."""
    made = _plain()
    tensor = made.graph.initializer[0]
    for name, value in changes.items():
        if name == "dims":
            tensor.dims[:] = value
        else:
            setattr(tensor, name, value)
    return bytes(made.SerializeToString())


def _outside(location: str, offset: str = "0") -> bytes:
    """Return that model with its constant outside."""
    made = _plain()
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset)):
        tensor.external_data.add(key=key, value=value)
    return bytes(made.SerializeToString())


def _nodes(*nodes: Any, shape: tuple[int, ...] = (1, 3)) -> bytes:
    return model(list(nodes), {"x": ("f32", shape)}, {"y": "f32"}, {"c": np.array([1 << 30] * 2)})


def _empty_nodes(count: int) -> bytes:
    size = 2 * count
    return b"\x3a" + bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14]) + b"\x0a\x00" * count


def _late() -> bytes:
    made = _plain()
    made.graph.node[0].input[0] = "later"
    return bytes(made.SerializeToString())


def _grown() -> bytes:
    """Return a model that doubles an image 40 times."""
    names = ["x", *[f"h{k}" for k in range(39)], "y"]
    steps = [node("Upsample", [a, "s"], [b]) for a, b in pairwise(names)]
    inputs: Any = {"x": ("f32", (1, 1, 4, 4))}
    return model(steps, inputs, {"y": "f32"}, {"s": np.array([1, 1, 2, 2], np.float32)}, 9)


def _versioned(version: int) -> bytes:
    """Return the model with another version of the operations."""
    made = _plain()
    made.opset_import[0].version = version
    return bytes(made.SerializeToString())


def _function() -> bytes:
    made = _plain()
    made.functions.append(helper.make_function("d", "f", ["x"], ["y"], [node("Relu", ["x"], ["y"])], []))
    return bytes(made.SerializeToString())


def _filled() -> tuple[Any, Any]:
    return node("ConstantOfShape", ["c"], ["big"]), node("Add", ["x", "big"], ["y"])


# kind, what, code, file
ROWS: tuple[tuple[str, str, str, Made], ...] = (
    ("length", "a graph of 2^62 bytes", "N202", lambda: b"\x3a" + b"\xff" * 8 + b"\x3f"),
    ("length", "a number that does not end", "N202", lambda: b"\x08" + b"\xff" * 12),
    ("product", "a constant of 2^32 x 2^32 values", "N205", lambda: _tensor(dims=[1 << 32, 1 << 32])),
    ("product", "an input of 2^40 values", "N221", lambda: _nodes(node("Relu", ["x"], ["y"]), shape=(1, 1 << 40))),
    ("type", "a constant with fewer bytes than it says", "N205", lambda: _tensor(raw_data=b"\0" * 7)),
    ("type", "a type that does not exist", "N206", lambda: _tensor(data_type=99)),
    ("offset", "external data at 2^62", "N208", lambda: _outside("x.onnx", str(1 << 62))),
    ("offset", "external data in the folder above", "N207", lambda: _outside("../x.onnx")),
    ("structure", "an operation that reads a later tensor", "N204", _late),
    ("structure", "an attribute that nobody knows", "N220", lambda: _nodes(node("Relu", ["x"], ["y"], colour=3))),
    ("index", "an axis that a tensor has not", "N220", lambda: _nodes(node("Softmax", ["x"], ["y"], axis=7))),
    ("index", "a version of the year 2100", "N223", lambda: _versioned(900)),
    ("active", "an operation of its own", "N220", lambda: _nodes(node("System", ["x"], ["y"], domain="my.own"))),
    ("active", "a function of its own", "N209", _function),
    ("resource", "60,000 empty operations", "N203", lambda: _empty_nodes(60_000)),
    ("resource", "an image that is doubled 40 times", "N220", _grown),
    ("resource", "a constant of 2^60 values that is made", "N220", lambda: _nodes(*_filled())),
)
