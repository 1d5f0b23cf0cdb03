"""What each ONNX operation computes, one row each: numpy functions of a node and its inputs.

Elementary functions are those of `ordered`, in float64 with one rounding to f32; sums are ordered. An operation without
a row is not run, and all such operations of a model are named together.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bittern.front.quantise.onnx import quantising, windows
from bittern.front.quantise.onnx.graph import Graph, Node
from bittern.front.quantise.ordered import exp, ordered_sum, product, sigmoid

Array: TypeAlias = npt.NDArray[Any]
Rule: TypeAlias = Callable[[Node, list[Any], Graph], Any]


def _single(x: Array) -> Array:
    return np.asarray(x, np.float32)


def _plain(function: Callable[..., Any]) -> Rule:
    """Return the rule of an operation that has no attributes."""
    return lambda node, inputs, graph: function(*inputs)


def _windowed(function: Callable[[Node, list[Array]], Array]) -> Rule:
    return lambda node, inputs, graph: function(node, inputs)


def _gemm(node: Node, inputs: list[Array], graph: Graph) -> Array:
    a = inputs[0].T if node.attribute("transA", 0) else inputs[0]
    b = inputs[1].T if node.attribute("transB", 0) else inputs[1]
    result = _single(product(a, b) * float(node.attribute("alpha", 1.0)))
    if len(inputs) > 2:
        result = result + inputs[2] * np.float32(node.attribute("beta", 1.0))
    return _single(result)


def _matmul(node: Node, inputs: list[Array], graph: Graph) -> Array:
    a, b = inputs
    if b.ndim == 2:
        return _single(product(a.reshape(-1, a.shape[-1]), b)).reshape(*a.shape[:-1], b.shape[1])
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    left = np.broadcast_to(a, (*lead, *a.shape[-2:])).reshape(-1, *a.shape[-2:])
    right = np.broadcast_to(b, (*lead, *b.shape[-2:])).reshape(-1, *b.shape[-2:])
    parts = [_single(product(x, y)) for x, y in zip(left, right, strict=True)]
    return np.stack(parts).reshape(*lead, a.shape[-2], b.shape[-1])


def _batch_normalization(node: Node, inputs: list[Array], graph: Graph) -> Array:
    x, gain, bias, mean, variance = inputs
    factor = gain / np.sqrt(variance + np.float32(node.attribute("epsilon", 1e-5)))
    shift = bias - mean * factor
    shape = [1, -1, *[1] * (x.ndim - 2)]
    return _single(x * factor.reshape(shape) + shift.reshape(shape))


def _clip(node: Node, inputs: list[Any], graph: Graph) -> Array:
    low = inputs[1] if len(inputs) > 1 and inputs[1] is not None else node.attribute("min", -np.inf)
    high = inputs[2] if len(inputs) > 2 and inputs[2] is not None else node.attribute("max", np.inf)
    return _single(np.clip(inputs[0], np.float32(low), np.float32(high)))


def _softmax(node: Node, inputs: list[Array], graph: Graph) -> Array:
    """Along an axis; before version 13 over all axes from it on, together."""
    x, axis = inputs[0], int(node.attribute("axis", -1 if graph.version >= 13 else 1))
    if graph.version < 13:
        lead = x.shape[: axis + x.ndim if axis < 0 else axis]
        rows = x.reshape(int(np.prod(lead)), -1)
        return _softmax_last(rows).reshape(x.shape)
    return np.moveaxis(_softmax_last(np.moveaxis(x, axis, -1)), -1, axis)


def _softmax_last(x: Array) -> Array:
    wide = x.astype(np.float64)
    power = exp(wide - wide.max(-1, keepdims=True))
    return _single(power / ordered_sum(power)[..., None])


def _reshape(node: Node, inputs: list[Array], graph: Graph) -> Array:
    """Reshape; a batch that the file fixes is the number of samples that were given."""
    x = inputs[0]
    shape = [int(size) for size in (inputs[1] if len(inputs) > 1 else node.attribute("shape", []))]
    if node.attribute("allowzero", 0) == 0:
        shape = [x.shape[place] if size == 0 else size for place, size in enumerate(shape)]
    if shape and shape[0] == graph.shape[0] and -1 not in shape:
        shape[0] = -1
    return x.reshape(shape)


def _flatten(node: Node, inputs: list[Array], graph: Graph) -> Array:
    axis = int(node.attribute("axis", 1)) % (inputs[0].ndim + 1)
    return inputs[0].reshape(int(np.prod(inputs[0].shape[:axis])), -1)


def _axes(node: Node, inputs: list[Any]) -> tuple[int, ...]:
    given = inputs[1] if len(inputs) > 1 and inputs[1] is not None else node.attribute("axes", ())
    return tuple(int(axis) for axis in given)


def _squeeze(node: Node, inputs: list[Array], graph: Graph) -> Array:
    axes = _axes(node, inputs)
    return np.squeeze(inputs[0], axes or None)


def _unsqueeze(node: Node, inputs: list[Array], graph: Graph) -> Array:
    return np.expand_dims(inputs[0], _axes(node, inputs))


def _transpose(node: Node, inputs: list[Array], graph: Graph) -> Array:
    return np.transpose(inputs[0], node.attribute("perm", None))


def _reduce_mean(node: Node, inputs: list[Array], graph: Graph) -> Array:
    x = inputs[0].astype(np.float64)
    axes = sorted(axis % x.ndim for axis in _axes(node, inputs)) or list(range(x.ndim))
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    mean = ordered_sum(np.transpose(x, (*kept, *axes)).reshape(*[x.shape[axis] for axis in kept], -1))
    mean = mean / np.prod([x.shape[axis] for axis in axes])
    if node.attribute("keepdims", 1):
        mean = mean.reshape([1 if axis in axes else size for axis, size in enumerate(x.shape)])
    return _single(mean)


def _pad(node: Node, inputs: list[Any], graph: Graph) -> Array:
    pads = [int(size) for size in (inputs[1] if len(inputs) > 1 else node.attribute("pads", []))]
    value = inputs[2] if len(inputs) > 2 and inputs[2] is not None else node.attribute("value", 0.0)
    half = len(pads) // 2
    return windows.padded_with(inputs[0], list(zip(pads[:half], pads[half:], strict=True)), float(value))


def _concat(node: Node, inputs: list[Array], graph: Graph) -> Array:
    return np.concatenate(inputs, int(node.attribute("axis", 0)))


def _leaky(node: Node, inputs: list[Array], graph: Graph) -> Array:
    x = inputs[0]
    return _single(np.where(x < 0, x * np.float32(node.attribute("alpha", 0.01)), x))


def _hard_sigmoid(node: Node, inputs: list[Array], graph: Graph) -> Array:
    alpha, beta = np.float32(node.attribute("alpha", 0.2)), np.float32(node.attribute("beta", 0.5))
    return _single(np.clip(inputs[0] * alpha + beta, 0, 1))


def _constant(node: Node, inputs: list[Array], graph: Graph) -> Array:
    for name in ("value", "value_float", "value_int", "value_floats", "value_ints"):
        if name in node.attributes:
            kind = {"float": np.float32, "ints": np.int64, "int": np.int64, "floats": np.float32}
            return np.asarray(node.attributes[name], kind.get(name.partition("_")[2]))
    return np.zeros(0, np.float32)


def _tanh(x: Array) -> Array:
    return _single(2 * sigmoid(2 * x.astype(np.float64)) - 1)


ROWS: dict[tuple[str, str], Rule] = {
    ("", "Conv"): _windowed(windows.conv),
    ("", "MaxPool"): _windowed(windows.max_pool),
    ("", "AveragePool"): _windowed(windows.average_pool),
    ("", "GlobalAveragePool"): _windowed(windows.global_average_pool),
    ("", "GlobalMaxPool"): _windowed(windows.global_max_pool),
    ("", "Gemm"): _gemm,
    ("", "MatMul"): _matmul,
    ("", "BatchNormalization"): _batch_normalization,
    ("", "Add"): _plain(np.add),
    ("", "Sub"): _plain(np.subtract),
    ("", "Mul"): _plain(np.multiply),
    ("", "Div"): _plain(lambda x, y: x / y if x.dtype.kind == "f" else x // y),
    ("", "Neg"): _plain(np.negative),
    ("", "Abs"): _plain(np.abs),
    ("", "Sqrt"): _plain(np.sqrt),
    ("", "Relu"): _plain(lambda x: np.where(x > 0, x, np.float32(0))),
    ("", "LeakyRelu"): _leaky,
    ("", "PRelu"): _plain(lambda x, slope: np.where(x < 0, x * slope, x)),
    ("", "Clip"): _clip,
    ("", "Sigmoid"): _plain(lambda x: _single(sigmoid(x.astype(np.float64)))),
    ("", "Tanh"): _plain(_tanh),
    ("", "HardSigmoid"): _hard_sigmoid,
    ("", "HardSwish"): _plain(lambda x: _single(x * np.clip(x / np.float32(6) + np.float32(0.5), 0, 1))),
    ("", "Softmax"): _softmax,
    ("", "Reshape"): _reshape,
    ("", "Flatten"): _flatten,
    ("", "Squeeze"): _squeeze,
    ("", "Unsqueeze"): _unsqueeze,
    ("", "Transpose"): _transpose,
    ("", "ReduceMean"): _reduce_mean,
    ("", "Pad"): _pad,
    ("", "Concat"): _concat,
    ("", "Identity"): _plain(lambda x: x),
    ("", "Dropout"): _plain(lambda x, *_: x),
    ("", "Constant"): _constant,
    ("", "QuantizeLinear"): quantising.quantise_linear,
    ("", "DequantizeLinear"): quantising.dequantise_linear,
    ("", "DynamicQuantizeLinear"): quantising.dynamic_quantise_linear,
    ("qonnx.custom_op.general", "Quant"): quantising.quant,
    ("qonnx.custom_op.general", "BipolarQuant"): quantising.bipolar_quant,
}
