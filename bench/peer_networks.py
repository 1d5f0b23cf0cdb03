"""The peers of `bench/networks.py`: a process that prepares a case for one of them and times it on request.

    python peer_networks.py THREADS DATA

Needs numpy, and for each peer its package: onnxruntime with onnx, ai-edge-litert, bnn-lab, larq-compute-engine. What is
not there is told as `nan`. It prints one line about itself, then answers each line `CASE:PEER 0 0` with seconds a call.
"""

import json
import os
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import network_cases as cases
import numpy as np
from per_call import seconds

Call = Callable[[], object]


def numpy_f32(case: cases.Case, threads: int, data: Path) -> Call:
    """A matrix product of floats."""
    x, w = (each.astype(np.float32) for each in cases.gemm_data(*case.numbers))
    right, out = np.ascontiguousarray(w.T), np.empty((len(x), len(w)), np.float32)
    return lambda: np.matmul(x, right, out=out)


def bnn_lab(case: cases.Case, threads: int, data: Path) -> Call:
    """Its packed product, weights and values packed before."""
    from bnn.kernels import binary_gemm_native_prepacked, pack_binary_pm1, set_num_threads

    set_num_threads(threads)
    x, w = cases.gemm_data(*case.numbers)
    (xp, n), (wp, _) = pack_binary_pm1(x), pack_binary_pm1(w)
    return lambda: binary_gemm_native_prepacked(xp, wp, n)


def onnxruntime_int8(case: cases.Case, threads: int, data: Path) -> Call:
    """A product or a convolution of bytes, values u8 and weights i8: what it is fastest at."""
    from onnx import TensorProto, helper, numpy_helper

    if case.kind == "gemm":
        x, w = cases.gemm_data(*case.numbers)
        weights = numpy_helper.from_array(np.ascontiguousarray(w.T), "w")
        node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
        return _session([node], [weights], {"x": (x > 0).astype(np.uint8)}, TensorProto.INT32, threads)
    x, w = cases.conv_data(*case.numbers)
    scale, zero = np.float32(1), np.uint8(128)
    parts = {
        "xs": scale, "xz": zero, "w": w.transpose(0, 3, 1, 2).copy(), "ws": scale, "wz": np.int8(0),
        "ys": np.float32(16), "yz": zero,
    }  # fmt: skip
    made = [numpy_helper.from_array(np.asarray(value), name) for name, value in parts.items()]
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    node = helper.make_node("QLinearConv", names, ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    values = (x.transpose(0, 3, 1, 2).astype(np.int16) + 128).astype(np.uint8).copy()
    return _session([node], made, {"x": values}, TensorProto.UINT8, threads)


def onnxruntime_f32(case: cases.Case, threads: int, data: Path) -> Call:
    """A convolution of floats."""
    from onnx import TensorProto, helper, numpy_helper

    x, w = (each.transpose(0, 3, 1, 2).astype(np.float32).copy() for each in cases.conv_data(*case.numbers))
    node = helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    return _session([node], [numpy_helper.from_array(w, "w")], {"x": x}, TensorProto.FLOAT, threads)


def onnxruntime(case: cases.Case, threads: int, data: Path) -> Call:
    """The network as standard ONNX, as `bittern export --to onnx` writes it; EXPORTED names the file."""
    import onnxruntime as ort

    session = ort.InferenceSession(os.environ["EXPORTED"], _options(threads), providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    shape = [case.numbers[0], *given.shape[1:]]
    values = np.random.default_rng(1).random(shape).astype(np.float32)
    return _bound(session, {given.name: values})


def litert_xnnpack(case: cases.Case, threads: int, data: Path) -> Call:
    """The file on LiteRT with its usual delegate, inputs set before."""
    from ai_edge_litert.interpreter import Interpreter

    made = Interpreter(str(data / case.file), num_threads=threads)
    made.allocate_tensors()
    given = made.get_input_details()[0]
    made.set_tensor(given["index"], np.random.default_rng(1).integers(-128, 128, given["shape"]).astype(np.int8))
    invoke: Call = made.invoke
    return invoke


def larq(case: cases.Case, threads: int, data: Path) -> Call:
    """Larq Compute Engine's binary convolution with its packing of floats in front; what its converter would write."""
    made = _part_of_larq("tflite/python/interpreter_wrapper_lite.so").LiteInterpreter(
        _larq_model(case), threads, False, False, False
    )
    values = [cases.conv_data(*case.numbers)[0].astype(np.float32)]
    return lambda: made.predict(values)


def _part_of_larq(path: str) -> Any:
    """Load a module of the package by its file: the package as a whole wants TensorFlow, for its converter alone."""
    found = find_spec("larq_compute_engine")
    assert found is not None and found.submodule_search_locations is not None, "larq-compute-engine is missing"
    file = Path(found.submodule_search_locations[0]) / path
    spec = spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None, file
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _larq_model(case: cases.Case) -> bytes:
    """Return a TFLite file of LceQuantize and LceBconv2d. Signs are bits, 1 for -1, 32 to a word."""
    import flatbuffers
    from flatbuffers import flexbuffers

    schema = _part_of_larq("mlir/python/tflite_schema.py")
    size, channels = case.numbers
    weights = cases.conv_data(size, channels)[1]
    packed = np.packbits(weights < 0, axis=-1, bitorder="little").view("<u4").view("<i4")
    numbers = {"channels_in": channels, "fused_activation_function": 0, "pad_values": 1, "padding": 0}
    numbers |= dict.fromkeys(("dilation_height_factor", "dilation_width_factor", "stride_height", "stride_width"), 1)
    words = channels // 32
    ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    tensors = (  # name, shape, type, constant
        ("x", (1, size, size, channels), schema.TensorType.FLOAT32, None),
        ("bits", (1, size, size, words), schema.TensorType.INT32, None),
        ("w", packed.shape, schema.TensorType.INT32, packed),
        ("scale", (channels,), schema.TensorType.FLOAT32, ones),
        ("bias", (channels,), schema.TensorType.FLOAT32, zeros),
        ("y", (1, size, size, channels), schema.TensorType.FLOAT32, None),
    )
    model, graph = schema.ModelT(), schema.SubGraphT()
    model.version, model.buffers, graph.tensors = 3, [schema.BufferT()], []
    for name, shape, kind, constant in tensors:
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type, tensor.buffer = name, list(shape), kind, 0
        if constant is not None:
            buffer = schema.BufferT()
            buffer.data = list(constant.tobytes())
            tensor.buffer = len(model.buffers)
            model.buffers.append(buffer)
        graph.tensors.append(tensor)
    model.operatorCodes, graph.operators = [], []
    for name, inputs, outputs, options in (
        ("LceQuantize", [0], [1], b""),
        ("LceBconv2d", [1, 2, 3, 4, -1], [5], flexbuffers.Dumps(numbers)),
    ):
        code, operator = schema.OperatorCodeT(), schema.OperatorT()
        code.builtinCode, code.deprecatedBuiltinCode, code.customCode, code.version = 32, 32, name, 1
        operator.opcodeIndex, operator.inputs, operator.outputs = len(model.operatorCodes), inputs, outputs
        operator.customOptions = list(options)
        model.operatorCodes.append(code)
        graph.operators.append(operator)
    graph.inputs, graph.outputs = [0], [5]
    model.subgraphs = [graph]
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _session(nodes: list[Any], weights: list[Any], feeds: dict[str, Any], result: int, threads: int) -> Call:
    """Return a call of a model of one node."""
    import onnxruntime as ort
    from onnx import helper

    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in feeds.items()
    ]
    output = helper.make_tensor_value_info("y", result, None)
    graph = helper.make_graph(nodes, "case", inputs, [output], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = _options(threads)
    made = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return _bound(made, feeds)


def _options(threads: int) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    return options


def _bound(session: Any, feeds: dict[str, Any]) -> Call:
    """Return a run with inputs and outputs bound to memory before, as Bittern's are."""
    binding = session.io_binding()
    for name, value in feeds.items():
        binding.bind_cpu_input(name, value)
    for each in session.get_outputs():
        binding.bind_output(each.name)
    return lambda: session.run_with_iobinding(binding)


PEERS: dict[str, Callable[[cases.Case, int, Path], Call]] = {
    "numpy_f32": numpy_f32,
    "bnn_lab": bnn_lab,
    "onnxruntime_int8": onnxruntime_int8,
    "onnxruntime_f32": onnxruntime_f32,
    "onnxruntime": onnxruntime,
    "litert_xnnpack": litert_xnnpack,
    "larq": larq,
}


@cache
def prepared(name: str, peer: str, threads: int, data: str) -> "Call | None":
    """Return a case for a peer; None where its package or file is missing, or it fails."""
    if peer not in PEERS:
        return None
    try:
        return PEERS[peer](cases.case_of(name), threads, Path(data))
    except Exception as fault:  # a peer that is missing or fails makes no figure, and says why
        print(f"{peer}: {type(fault).__name__}: {fault}", file=sys.stderr)
        return None


def main(threads: int, data: str) -> None:
    """Answer requests until stdin ends."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    print(json.dumps({"name": "peers", "version": np.__version__}), flush=True)
    for line in sys.stdin:
        name, _, peer = line.split()[0].partition(":")
        call = prepared(name, peer, threads, data)
        print(seconds(call) if call is not None else float("nan"), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", sys.argv[1])
    main(int(sys.argv[1]), sys.argv[2])
