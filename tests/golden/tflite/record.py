"""Record what TFLite's reference kernels answer for one small model of each form of each operator.

Run in an environment of its own (Python 3.11 on x86-64; `pip install tflite-runtime==2.14.0 ai-edge-litert==1.0.1
"numpy<2" backports.strenum tflite-micro pyyaml`):

    python record.py

The first two must agree, so the release between them (2.16), whose rules Bittern states, does too; what only TFLite
Micro runs (`MICRO`) is recorded from it. Variable tensors
keep their values from one sample of a case to the next. `operators.npz` holds for each case its model, its inputs x0
and x1 and its output y, each with the samples in front.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import ai_edge_litert.interpreter as newer
import tflite_runtime.interpreter as older
from tflite_files import Graph, Numbers, Op, T, build
from tflite_micro.python.tflite_micro import runtime as micro

Array = npt.NDArray[Any]
Shape = Sequence[int]

SAME, VALID = 0, 1
NONE, RELU, RELU_N1_TO_1, RELU6 = range(4)
ALL = np.arange(-128, 128).astype(np.int8).reshape(1, 1, 256)
CODES = (0.05, -6)  # scale and zero point where a case says nothing else
PROBABILITY = (1 / 256, -128)
MICRO = ("svdf i8",)

chance = np.random.default_rng(2016)
cases: dict[str, tuple[bytes, list[Array]]] = {}


def case(name: str, graph: Graph, *inputs: Array) -> None:
    """Keep a case. inputs: samples in front."""
    cases[name] = (build(graph), list(inputs))


def codes(*shape: int, low: int = -128) -> Array:
    """Return random 8-bit codes."""
    return chance.integers(low, 128, shape).astype(np.int8)


def reals(*shape: int, scale: float = 1.0) -> Array:
    """Return random floats."""
    return (chance.normal(size=shape) * scale).astype(np.float32)


def weights(shape: Shape, axis: int | None = 0) -> T:
    """Return constant weights. axis: of the channels, None for one scale."""
    count = 1 if axis is None else shape[axis]
    scales = chance.uniform(0.002, 0.02, count).astype(np.float32).tolist()
    return T(shape, "i8", scales, [0] * count, codes(*shape, low=-127), axis or 0)


def bias(count: int, size: int = 20000) -> T:
    """Return a constant bias."""
    return T((count,), "i32", 1.0, 0, chance.integers(-size, size, count))


def numbers(values: Any) -> T:
    """Return constant whole numbers, as shapes and axes are."""
    return T(np.shape(values), "i32", None, 0, np.asarray(values))


def conv(
    name: str, x: Shape, w: Shape, y: Shape, padding: int, strides: Shape, activation: int, dilations: Shape = (1, 1)
) -> None:
    """CONV_2D."""
    rows, columns = strides
    options = {0: ("b", padding), 1: ("i", columns), 2: ("i", rows), 3: ("b", activation)}
    options |= {4: ("i", dilations[1]), 5: ("i", dilations[0])}
    filters = weights(w, None if "tensor" in name else 0)
    tensors = [T(x, "i8", 0.05, -7), T(y, "i8", 0.11, 11), filters, bias(w[0])]
    case(name, Graph(tensors, [Op(3, [0, 2, 3], [1], (1, options), 3)]), codes(4, *x))


def depthwise(
    name: str, x: Shape, w: Shape, y: Shape, padding: int, strides: Shape, activation: int, dilations: Shape = (1, 1)
) -> None:
    """DEPTHWISE_CONV_2D."""
    options = {0: ("b", padding), 1: ("i", strides[1]), 2: ("i", strides[0]), 3: ("i", w[3] // x[3])}
    options |= {4: ("b", activation), 5: ("i", dilations[1]), 6: ("i", dilations[0])}
    tensors = [T(x, "i8", 0.05, -7), T(y, "i8", 0.11, 11), weights(w, 3), bias(w[3])]
    case(name, Graph(tensors, [Op(4, [0, 2, 3], [1], (2, options), 3)]), codes(4, *x))


def dense(name: str, x: Shape, w: Shape, y: Shape, activation: int = NONE, axis: int | None = None) -> None:
    """FULLY_CONNECTED."""
    filters = weights(w, axis)
    assert isinstance(filters.scale, list)
    added = bias(w[0])
    added.scale = [float(np.float32(0.04) * np.float32(each)) for each in filters.scale]
    added.zero = [0] * len(added.scale)
    options = {0: ("b", activation), 2: ("B", int(len(y) > 2))}
    inputs = [0, 2, -1] if "no bias" in name else [0, 2, 3]
    tensors = [T(x, "i8", 0.04, 5), T(y, "i8", 0.09, -3), filters, *([] if "no bias" in name else [added])]
    case(name, Graph(tensors, [Op(9, inputs, [1], (8, options), 4)]), codes(6, *x))


def pair(name: str, code: int, union: int, activation: int, y: Shape, scales: Shape | Sequence[float]) -> None:
    """ADD, SUB and MUL. y: shape of the second operand."""
    x = (1, 4, 5, 3)
    is_constant = "constant" in name
    tensors = [T(x, "i8", scales[0], 4), T(x, "i8", scales[2], 3)]
    tensors.append(T(y, "i8", scales[1], -9, codes(*y) if is_constant else None))
    graph = Graph(tensors, [Op(code, [0, 2], [1], (union, {0: ("b", activation)}), 2)])
    graph.inputs = [0] if is_constant else [0, 2]
    case(name, graph, codes(4, *x), *([] if is_constant else [codes(4, *y)]))


def pool(name: str, code: int, x: Shape, y: Shape, padding: int, size: int, stride: int, activation: int) -> None:
    """AVERAGE_POOL_2D and MAX_POOL_2D."""
    options = {0: ("b", padding), 1: ("i", stride), 2: ("i", stride), 3: ("i", size), 4: ("i", size)}
    options[5] = ("b", activation)
    case(name, Graph([T(x, "i8", 0.03, 3), T(y, "i8", 0.03, 3)], [Op(code, [0], [1], (5, options), 2)]), codes(4, *x))


def mean(name: str, x: Shape, axes: Shape, y: Shape, quantised: Sequence[float] = (0.03, 3, 0.03, 3)) -> None:
    """MEAN."""
    options = {0: ("B", int(len(x) == len(y)))}
    (a, b), (c, d) = quantised[:2], quantised[2:]
    tensors = [T(x, "i8", a, int(b)), T(y, "i8", c, int(d)), numbers(axes)]
    case(name, Graph(tensors, [Op(40, [0, 2], [1], (27, options), 2)]), codes(6, *x))


def one(
    name: str,
    code: int,
    x: T,
    y: T,
    options: tuple[int, dict[int, Any]] | None = None,
    version: int = 2,
    data: Array | None = None,
) -> None:
    """An operator with one input."""
    given = codes(8, *x.shape) if data is None else data
    case(name, Graph([x, y], [Op(code, [0], [1], options, version)]), given)


def moved(
    name: str, code: int, options: tuple[int, dict[int, Any]], x: Shape, y: Shape, *more: Any, version: int = 2
) -> None:
    """An operator that moves codes. more: constants that say how."""
    tensors = [T(x, "i8", *CODES), T(y, "i8", *CODES), *(numbers(each) for each in more)]
    inputs = [0, *range(2, 2 + len(more))]
    case(name, Graph(tensors, [Op(code, inputs, [1], options, version)]), codes(2, *x))


def layers() -> None:
    """Record convolutions and dense layers."""
    conv("conv same", (1, 9, 8, 3), (5, 3, 3, 3), (1, 5, 4, 5), SAME, (2, 2), RELU)
    conv("conv valid", (1, 7, 7, 4), (6, 3, 2, 4), (1, 5, 6, 6), VALID, (1, 1), RELU6)
    conv("conv dilated", (1, 9, 9, 2), (3, 3, 3, 2), (1, 9, 9, 3), SAME, (1, 1), NONE, (2, 2))
    conv("conv per tensor", (1, 5, 6, 2), (4, 3, 3, 2), (1, 5, 6, 4), SAME, (1, 1), RELU_N1_TO_1)
    conv("conv grouped", (1, 5, 5, 6), (4, 3, 3, 3), (1, 5, 5, 4), SAME, (1, 1), NONE)
    conv("conv strides", (1, 9, 8, 3), (2, 2, 3, 3), (1, 9, 4, 2), SAME, (1, 2), NONE)
    depthwise("depthwise", (1, 8, 7, 5), (1, 3, 3, 5), (1, 4, 4, 5), SAME, (2, 2), RELU)
    depthwise("depthwise multiplied", (1, 6, 6, 3), (1, 3, 3, 6), (1, 6, 6, 6), SAME, (1, 1), RELU6)
    depthwise("depthwise dilated", (1, 9, 9, 3), (1, 3, 3, 3), (1, 5, 5, 3), VALID, (1, 1), NONE, (2, 2))
    dense("dense", (1, 20), (7, 20), (1, 7))
    dense("dense relu", (1, 4, 5), (7, 20), (1, 7), RELU)
    dense("dense rows", (1, 3, 8), (5, 8), (1, 3, 5))
    dense("dense no bias", (1, 12), (4, 12), (1, 4))
    dense("dense channels", (1, 20), (7, 20), (1, 7), axis=0)


def nibbles() -> None:
    """Record weights of four bits."""
    data = chance.integers(0, 256, (7 * 20) // 2)
    filters = T((7, 20), "i4", 0.0625, 0, data)
    added = T((7,), "i32", float(np.float32(0.04) * np.float32(0.0625)), 0, chance.integers(-2000, 2000, 7))
    tensors = [T((1, 20), "i8", 0.04, 5), T((1, 7), "i8", 0.09, -3), filters, added]
    case("dense i4", Graph(tensors, [Op(9, [0, 2, 3], [1], (8, {0: ("b", NONE)}), 9)]), codes(6, 1, 20))
    scales = chance.uniform(0.002, 0.02, 4).astype(np.float32).tolist()
    filters = T((4, 3, 3, 2), "i4", scales, [0] * 4, chance.integers(0, 256, 36))
    options = {0: ("b", SAME), 1: ("i", 1), 2: ("i", 1), 3: ("b", RELU), 4: ("i", 1), 5: ("i", 1)}
    tensors = [T((1, 5, 6, 2), "i8", 0.05, -7), T((1, 5, 6, 4), "i8", 0.03, -11), filters, bias(4, 500)]
    case("conv i4", Graph(tensors, [Op(3, [0, 2, 3], [1], (1, options), 3)]), codes(4, 1, 5, 6, 2))


def pairs() -> None:
    """Record operators with two inputs."""
    same, scales, small = (1, 4, 5, 3), (0.031, 0.057, 0.07), (0.03, 0.05, 0.02)
    pair("add", 0, 11, NONE, same, scales)
    pair("add relu6", 0, 11, RELU6, same, scales)
    pair("add constant", 0, 11, RELU, (1, 1, 1, 3), scales)
    pair("add broadcast", 0, 11, NONE, (1, 4, 1, 3), scales)
    pair("add far scales", 0, 11, NONE, same, (0.001, 0.9, 0.5))
    pair("sub", 41, 28, NONE, same, scales)
    pair("sub constant", 41, 28, NONE, (3,), scales)
    pair("mul", 18, 21, NONE, same, small)
    pair("mul relu", 18, 21, RELU, same, small)
    pair("mul broadcast", 18, 21, NONE, (1, 1, 1, 3), small)


def reductions() -> None:
    """Record pooling and means."""
    pool("average same", 1, (1, 7, 6, 3), (1, 4, 3, 3), SAME, 3, 2, NONE)
    pool("average valid", 1, (1, 6, 6, 2), (1, 2, 2, 2), VALID, 3, 2, RELU)
    pool("max same", 17, (1, 7, 6, 3), (1, 4, 3, 3), SAME, 3, 2, NONE)
    pool("max valid", 17, (1, 6, 6, 2), (1, 3, 3, 2), VALID, 2, 2, RELU6)
    mean("mean of rows and columns", (1, 5, 7, 3), (1, 2), (1, 1, 1, 3))
    mean("mean with another scale", (1, 5, 7, 3), (1, 2), (1, 3), (0.03, 3, 0.017, -20))
    mean("mean of channels", (1, 4, 6), (2,), (1, 4), (0.03, -3, 0.05, 2))
    mean("mean of the last axis", (1, 4, 6), (-1,), (1, 4))
    mean("mean of all", (1, 3, 4, 5), (1, 2, 3), (1,), (0.05, 0, 0.01, 0))
    mean("mean with a far scale", (1, 3, 4, 2), (1, 2), (1, 1, 1, 2), (0.5, 9, 0.01, -30))


def functions() -> None:
    """Record functions of one code, at every code, and softmax."""
    for scale, zero in ((0.05, 7), (0.12, -30)):
        x = T((1, 256), "i8", scale, zero)
        one(f"logistic {scale}", 14, x, T((1, 256), "i8", *PROBABILITY), data=ALL)
        one(f"tanh {scale}", 28, x, T((1, 256), "i8", 1 / 128, 0), data=ALL)
        one(f"hard swish {scale}", 117, x, T((1, 256), "i8", scale * 0.7, -101), None, 1, ALL)
        one(f"leaky relu {scale}", 98, x, T((1, 256), "i8", scale * 0.8, -60), (75, {0: ("f", 0.1)}), data=ALL)
        one(f"relu {scale}", 19, x, T((1, 256), "i8", scale * 0.6, -128), data=ALL)
        one(f"relu6 {scale}", 21, x, T((1, 256), "i8", scale * 0.9, -128), data=ALL)
        one(f"quantize {scale}", 114, x, T((1, 256), "i8", scale * 1.3, 5), data=ALL)
    one("hard swish far", 117, T((1, 256), "i8", 0.3, 3), T((1, 256), "i8", 0.05, -120), None, 1, ALL)
    one("relu -1 to 1", 20, T((1, 256), "i8", 0.02, 3), T((1, 256), "i8", 0.015, -5), None, 1, ALL)
    one("dequantize", 6, T((1, 256), "i8", 0.0371, 5), T((1, 256), "f32"), data=ALL)
    ties = ((np.arange(40) - 19.5) * np.float32(0.0371)).astype(np.float32)[None, None]
    floats = np.concatenate([reals(7, 1, 40, scale=3), ties])
    one("quantize floats", 114, T((1, 40), "f32"), T((1, 40), "i8", 0.0371, 5), data=floats)
    halves = chance.integers(-32768, 32768, (4, 1, 60)).astype(np.int16)
    one("quantize i16", 114, T((1, 60), "i16", 0.000625, 0), T((1, 60), "i8", 0.059, -128), data=halves)
    one("quantize i16 i32", 114, T((1, 60), "i16", 2**-16, -32768), T((1, 60), "i32", 2**-15, 0), data=halves)
    for name, shape, scale, beta in (
        ("softmax", (1, 10), 0.17, 1.0),
        ("softmax rows", (1, 3, 7), 0.3, 1.0),
        ("softmax beta", (1, 12), 0.21, 0.5),
        ("softmax long", (1, 600), 0.03, 1.0),
    ):
        one(name, 25, T(shape, "i8", scale, 24), T(shape, "i8", *PROBABILITY), (9, {0: ("f", beta)}))
    for name, scale in (("softmax i16", 0.17), ("softmax i16 near", 0.006)):
        y = T((1, 10), "i16", 2**-16, -32768)
        one(name, 25, T((1, 10), "i8", scale, 24), y, (9, {0: ("f", 1.0)}), 3, codes(200, 1, 10))


def shapes() -> None:
    """Record operators that move values."""
    moved("transpose", 39, (26, {}), (1, 3, 4, 5), (1, 5, 3, 4), [0, 3, 1, 2])
    moved("transpose batch", 39, (26, {}), (1, 3, 4), (4, 1, 3), [2, 0, 1])
    moved("pad", 34, (22, {}), (1, 3, 4, 2), (1, 6, 5, 2), [[0, 0], [1, 2], [0, 1], [0, 0]])
    moved("pad batch", 34, (22, {}), (1, 3), (3, 4), [[1, 1], [0, 1]])
    moved("reshape", 22, (17, {0: Numbers("i", [1, 12])}), (1, 3, 4), (1, 12), [1, 12], version=1)
    moved("reshape flat", 22, (17, {0: Numbers("i", [12])}), (1, 3, 4), (12,), [12], version=1)
    moved("squeeze", 43, (30, {0: Numbers("i", [1])}), (1, 1, 5), (1, 5), version=1)
    masks = (32, {0: ("i", 1), 1: ("i", 1), 4: ("i", 0)})
    moved("strided slice", 45, masks, (1, 6, 7, 3), (1, 2, 3, 3), [0, 1, -6, 0], [1, 6, 7, 3], [1, 3, 2, 1])
    masks = (32, {0: ("i", 1), 1: ("i", 1), 4: ("i", 2)})
    moved("strided slice of one", 45, masks, (1, 6, 7), (1, 7), [0, -2, 0], [1, 0, 7], [1, 1, 1])
    tensors = [T((1, 3, each), "i8", *CODES) for each in (2, 5, 3)]
    graph = Graph(tensors, [Op(2, [0, 2], [1], (10, {0: ("i", -1)}), 2)], inputs=[0, 2])
    case("concatenation", graph, codes(2, 1, 3, 2), codes(2, 1, 3, 3))


def choices() -> None:
    """Record operators that choose, take apart or put together."""
    for name, code in (("maximum", 55), ("minimum", 57)):
        tensors = [T((1, 4, 5, 3), "i8", *CODES), T((1, 4, 5, 3), "i8", *CODES), T((1, 1, 5, 3), "i8", *CODES)]
        graph = Graph(tensors, [Op(code, [0, 2], [1], (39, {}), 2)], inputs=[0, 2])
        case(name, graph, codes(3, 1, 4, 5, 3), codes(3, 1, 1, 5, 3))
    tensors = [T((1, 4, 3, 5), "i8", 0.05, 7), T((1, 4, 3, 5), "i8", 0.041, -11)]
    tensors.append(T((1, 1, 5), "i8", 0.003, 4, codes(1, 1, 5)))
    case("prelu", Graph(tensors, [Op(54, [0, 2], [1])]), codes(4, 1, 4, 3, 5))
    for scale, zero in ((0.05, 7), (0.12, -30)):
        one(f"elu {scale}", 111, T((1, 256), "i8", scale, zero), T((1, 256), "i8", scale, -90), None, 1, ALL)
    for name, code in (("reduce max", 82), ("reduce min", 89)):
        moved(name, code, (27, {0: ("B", 1)}), (1, 4, 5, 3), (1, 1, 5, 1), [1, 3])
    moved("slice", 65, (48, {}), (1, 5, 6), (1, 3, 4), [0, 2, 2], [1, 3, -1])
    moved("depth to space", 5, (94, {0: ("i", 2)}), (1, 3, 2, 8), (1, 6, 4, 2), version=1)
    moved("space to depth", 26, (19, {0: ("i", 2)}), (1, 6, 4, 2), (1, 3, 2, 8), version=2)
    for name, corners, centres in (("", 0, 0), (" corners", 1, 0), (" centres", 0, 1)):
        sides = (74, {0: ("B", corners), 1: ("B", centres)})
        moved(f"resize nearest{name}", 97, sides, (1, 5, 3, 2), (1, 9, 4, 2), [9, 4])
    tensors = [T((1, 3, 4), "i8", *CODES) for _ in range(2)]
    graph = Graph(
        [tensors[0], T((1, 3, 2, 4), "i8", *CODES), tensors[1]], [Op(83, [0, 2], [1], (59, {0: ("i", 2), 1: ("i", 2)}))]
    )
    graph.inputs = [0, 2]
    case("pack", graph, codes(2, 1, 3, 4), codes(2, 1, 3, 4))
    tensors = [T((1, 6, 4), "i8", *CODES), T((1, 3, 4), "i8", *CODES), numbers([1]), T((1, 3, 4), "i8", *CODES)]
    case("split", Graph(tensors, [Op(49, [2, 0], [3, 1], (35, {0: ("i", 2)}), 2)]), codes(2, 1, 6, 4))
    tensors = [T((1, 6, 4), "i8", *CODES), T((1, 2, 4), "i8", *CODES), numbers([4, -1]), numbers([-2])]
    tensors.append(T((1, 4, 4), "i8", *CODES))
    case("split v", Graph(tensors, [Op(102, [0, 2, 3], [4, 1], (79, {0: ("i", 2)}), 2)]), codes(2, 1, 6, 4))
    tensors = [T((1, 2, 4), "i8", *CODES), T((1, 4), "i8", *CODES), T((1, 4), "i8", *CODES)]
    case("unpack", Graph(tensors, [Op(88, [0], [2, 1], (64, {0: ("i", 2), 1: ("i", 1)}), 2)]), codes(2, 1, 2, 4))
    for name, padding, stride, y in (
        ("transpose conv same", SAME, 2, (1, 8, 10, 3)),
        ("transpose conv valid", VALID, 2, (1, 9, 11, 3)),
        ("transpose conv stride 1", SAME, 1, (1, 4, 5, 3)),
        ("transpose conv stride 3", VALID, 3, (1, 12, 15, 3)),
    ):
        options = (49, {0: ("b", padding), 1: ("i", stride), 2: ("i", stride)})
        tensors = [T((1, 4, 5, 2), "i8", 0.05, -7), T(y, "i8", 0.11, 11), weights((3, 3, 3, 2)), numbers(list(y))]
        tensors.append(bias(3))
        case(name, Graph(tensors, [Op(67, [3, 2, 0, 4], [1], options, 3)]), codes(3, 1, 4, 5, 2))


def states() -> None:
    """Record operators with a state, which lasts from sample to sample."""
    time = T((6, 4), "i16", 0.0003, 0, chance.integers(-3000, 3000, (6, 4)))
    tensors = [T((1, 5), "i8", 0.04, -5), T((1, 3), "i8", 0.09, -20), weights((6, 5), None), time, bias(3, 4_000_000)]
    tensors.append(T((1, 24), "i16", 0.002, 0, is_variable=True))
    options = {0: ("i", 2), 1: ("b", RELU)}
    case("svdf", Graph(tensors, [Op(27, [0, 2, 3, 4, 5], [1], (6, options), 3)]), codes(6, 1, 5))
    time, added = weights((6, 4), None), bias(3, 4000)
    assert isinstance(time.scale, list)
    added.scale = 0.8 * time.scale[0]  # no state saturates: there releases differ
    tensors = [T((1, 5), "i8", 0.04, -5), T((1, 3), "i8", 0.2, -20), weights((6, 5), None), time, added]
    tensors.append(T((1, 24), "i8", 0.8, 9, is_variable=True))
    case("svdf i8", Graph(tensors, [Op(27, [0, 2, 3, 4, 5], [1], (6, options), 3)]), codes(30, 1, 5))
    for name, zero, x_zero, clip, bits in (
        ("lstm", 0, -3, 10.0, 12),
        ("lstm zero", 5, 7, 0.0, 12),
        ("lstm clip", -4, 0, 0.5, 12),
        ("lstm wide", 3, -1, 0.0, 11),
        ("lstm fine", 0, 2, 0.0, 14),
    ):
        tensors = [T((1, 6, 5), "i8", 0.02, x_zero), T((1, 6, 4), "i8", 0.0078, zero)]
        tensors += [weights((4, 5), None) for _ in range(4)] + [weights((4, 4), None) for _ in range(4)]
        tensors += [bias(4, 3000) for _ in range(4)]
        tensors += [T((1, 4), "i8", 0.0078, zero, is_variable=True), T((1, 4), "i16", 2.0**-bits, 0, is_variable=True)]
        inner = range(len(tensors), len(tensors) + 5)
        tensors += [T((0,), "f32") for _ in range(4)] + [T((0,), "i8", 0.0078, zero)]
        inputs = [0, *range(2, 10), -1, -1, -1, *range(10, 14), -1, -1, 14, 15, -1, -1, -1, -1]
        options = {0: ("b", 4), 1: ("f", clip), 3: ("B", 0)}
        operator = Op(44, inputs, [1], (71, options), 1, intermediates=list(inner))
        case(name, Graph(tensors, [operator]), codes(5, 1, 6, 5))


def floats() -> None:
    """Record operators on floats."""

    def layer(name: str, code: int, x: Shape, w: Shape, y: Shape, options: tuple[int, dict[int, Any]]) -> None:
        count = w[-1] if code == 4 else w[0]
        tensors = [T(x, "f32"), T(y, "f32"), T(w, "f32", data=reals(*w)), T((count,), "f32", data=reals(count))]
        if "hybrid" in name:
            tensors[2] = weights(w, None)
        data = reals(3, *x)
        data[2] = 0.0
        case(f"f32 {name}", Graph(tensors, [Op(code, [0, 2, 3], [1], options)]), data)

    steps = {0: ("b", SAME), 1: ("i", 2), 2: ("i", 2), 3: ("b", RELU)}
    layer("conv", 3, (1, 6, 7, 3), (4, 3, 3, 3), (1, 3, 4, 4), (1, steps))
    steps = {0: ("b", SAME), 1: ("i", 1), 2: ("i", 1), 3: ("i", 1), 4: ("b", RELU6)}
    layer("depthwise", 4, (1, 6, 7, 3), (1, 3, 3, 3), (1, 6, 7, 3), (2, steps))
    layer("dense", 9, (1, 9), (4, 9), (1, 4), (8, {0: ("b", NONE)}))
    layer("hybrid conv", 3, (1, 6, 7, 3), (4, 3, 3, 3), (1, 3, 4, 4), (1, {0: ("b", SAME), 1: ("i", 2), 2: ("i", 2)}))
    layer("hybrid dense", 9, (1, 3, 9), (4, 9), (1, 3, 4), (8, {0: ("b", RELU), 2: ("B", 1)}))
    tensors = [T((1, 4, 3), "f32"), T((1, 4, 3), "f32"), T((3,), "f32", data=reals(3))]
    for name, code, union in (("add", 0, 11), ("sub", 41, 28), ("mul", 18, 21)):
        case(f"f32 {name}", Graph(tensors, [Op(code, [0, 2], [1], (union, {0: ("b", RELU)}))]), reals(3, 1, 4, 3))
    steps = {0: ("b", SAME), 1: ("i", 2), 2: ("i", 2), 3: ("i", 3), 4: ("i", 3), 5: ("b", NONE)}
    for name, code in (("average", 1), ("max", 17)):
        graph = Graph([T((1, 6, 6, 2), "f32"), T((1, 3, 3, 2), "f32")], [Op(code, [0], [1], (5, steps))])
        case(f"f32 {name}", graph, reals(3, 1, 6, 6, 2))
    unary: tuple[tuple[str, int, tuple[int, dict[int, Any]] | None], ...] = (
        ("softmax", 25, (9, {0: ("f", 1.0)})),
        ("logistic", 14, None),
        ("tanh", 28, None),
        ("relu6", 21, None),
        ("hard swish", 117, None),
        ("leaky relu", 98, (75, {0: ("f", 0.1)})),
    )
    for name, code, options in unary:
        graph = Graph([T((1, 32), "f32"), T((1, 32), "f32")], [Op(code, [0], [1], options)])
        case(f"f32 {name}", graph, reals(4, 1, 32, scale=3))
    tensors = [T((1, 5, 7, 3), "f32"), T((1, 3), "f32"), numbers([1, 2])]
    case("f32 mean", Graph(tensors, [Op(40, [0, 2], [1], (27, {0: ("B", 0)}))]), reals(3, 1, 5, 7, 3))


def answers(library: Any, name: str, model: bytes, inputs: list[Array]) -> Array:
    """Return what a library's reference kernels answer, sample after sample; ELU has only a general kernel."""
    kinds = library.OpResolverType
    resolver = kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES if name.startswith("elu") else kinds.BUILTIN_REF
    engine = library.Interpreter(model_content=model, experimental_op_resolver_type=resolver)
    engine.allocate_tensors()
    engine.reset_all_variables()
    places = [each["index"] for each in engine.get_input_details()]
    found = []
    for sample in range(len(inputs[0])):
        for place, values in zip(places, inputs, strict=True):
            engine.set_tensor(place, values[sample])
        engine.invoke()
        found.append(engine.get_tensor(engine.get_output_details()[0]["index"]).copy())
    return np.array(found)


def micro_answers(model: bytes, inputs: list[Array]) -> Array:
    """Return what TFLite Micro answers to samples of one input."""
    engine = micro.Interpreter.from_bytes(model)
    found = []
    for sample in inputs[0]:
        engine.set_input(sample, 0)
        engine.invoke()
        found.append(engine.get_output(0).copy())
    return np.array(found)


def main() -> None:
    """Write operators.npz beside this file."""
    for group in (layers, nibbles, pairs, reductions, functions, shapes, choices, states, floats):
        group()
    arrays: dict[str, Array] = {}
    for name, (model, inputs) in cases.items():
        if name in MICRO:
            found = micro_answers(model, inputs)
        else:
            found = answers(newer, name, model, inputs)
            assert np.array_equal(found, answers(older, name, model, inputs)), name
        arrays |= {f"{name}/model": np.frombuffer(model, np.uint8), f"{name}/y": found}
        arrays |= {f"{name}/x{place}": values for place, values in enumerate(inputs)}
    np.savez_compressed(Path(__file__).with_name("operators.npz"), **arrays)
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
