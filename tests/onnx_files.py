"""Small ONNX files for tests: made with the package onnx, run through the importer, judged by other evaluators."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from bittern.front.network.network import Network
from bittern.front.onnx.importer import import_graph
from bittern.front.onnx.reading import graph_of
from bittern.graph.evaluate import evaluate
from bittern.lang.library import Library

Array = npt.NDArray[Any]

LIBRARY = Library.standard()
TYPES = {
    "f32": TensorProto.FLOAT,
    "u8": TensorProto.UINT8,
    "i8": TensorProto.INT8,
    "i32": TensorProto.INT32,
    "i64": TensorProto.INT64,
    "bit": TensorProto.BOOL,
}
node = helper.make_node


def model(
    nodes: Sequence[Any],
    inputs: Mapping[str, tuple[str, Sequence[int | str | None]]],
    outputs: Mapping[str, str],
    constants: Mapping[str, npt.ArrayLike] | None = None,
    opset: int = 17,
    domains: Mapping[str, int] | None = None,
) -> bytes:
    """Return a file. inputs: element and shape by name. outputs: element by name. constants: arrays by name."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(name, TYPES[element], shape) for name, (element, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, TYPES[element], None) for name, element in outputs.items()],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()],
    )
    versions = [helper.make_opsetid("", opset)]
    versions += [helper.make_opsetid(domain, version) for domain, version in (domains or {}).items()]
    made = helper.make_model(graph, opset_imports=versions, ir_version=8)
    return bytes(made.SerializeToString())


def imported(data: bytes) -> Network:
    """Return the network of a file's bytes."""
    return import_graph(graph_of(data, "test"), LIBRARY)


def run(network: Network, *inputs: Array) -> list[Array]:
    """Return a network's outputs on the strict evaluator. inputs: with the batch in front."""
    result = evaluate(network.function, list(inputs), [len(inputs[0])])
    return list(result) if isinstance(result, tuple) else [result]


def reference(data: bytes, feeds: Mapping[str, Array]) -> list[Array]:
    """Return a file's outputs by the evaluator of the package onnx."""
    return [np.asarray(each) for each in ReferenceEvaluator(onnx.load_from_string(data)).run(None, dict(feeds))]


def by_runtime(data: bytes, feeds: Mapping[str, Array]) -> list[Array]:
    """Return a file's outputs by ONNX Runtime with all of its optimisations, on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return [np.asarray(each) for each in session.run(None, dict(feeds))]
