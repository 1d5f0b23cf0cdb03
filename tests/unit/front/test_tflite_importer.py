"""Importing TFLite models: ports, batches, states, and refusals that name everything at once."""

from typing import Any

import numpy as np
import pytest
from tflite_files import Graph, Op, T, build

from bittern.base.errors import BitternError
from bittern.front.network.network import Network
from bittern.front.tflite.importer import network_of
from bittern.front.tflite.operators import NAMES, NEAREST, ROWS, SUPPORTED
from bittern.front.tflite.schema import parse_model
from bittern.graph.node import Function, functions_of, walk
from bittern.lang.library import Library
from bittern.runtime.network import NetworkModel

LIBRARY = Library.standard()
CODES = {"scale": 0.05, "zero": -6}


def imported(graph: Graph, *, keep_state: bool = False) -> Network:
    """Import a model made by hand."""
    return network_of(parse_model(build(graph), "model"), LIBRARY, keep_state=keep_state)


def refused(graph: Graph) -> BitternError:
    """Return how a model is refused."""
    with pytest.raises(BitternError) as caught:
        imported(graph)
    return caught.value


def dense(**changes: Any) -> Graph:
    """Return a dense layer of three inputs and two outputs."""
    tensors = [
        T((1, 3), name="x", **CODES),
        T((1, 2), "i8", 0.2, 9, name="y"),
        T((2, 3), "i8", 0.5, 0, np.arange(6).reshape(2, 3)),
        T((2,), "i32", 0.025, 0, np.array([70, -90])),
    ]
    given: dict[str, Any] = {"tensors": tensors, "operators": [Op(9, [0, 2, 3], [1], (8, {}), 4)], **changes}
    return Graph(**given)


def test_ports_have_names_scales_and_no_batch() -> None:
    made = imported(dense())
    (x,), (y,) = made.inputs, made.outputs
    assert (x.name, x.element.name, x.shape, x.zero) == ("x", "i8", (3,), -6)
    assert x.scale == float(np.float32(0.05))
    assert (y.name, y.shape, y.scale, y.zero) == ("y", (2,), float(np.float32(0.2)), 9)
    assert (made.name, made.source, made.facts["description"]) == ("main", "tflite", "made by hand")


def called(function: Function) -> list[str]:
    """Return the names of the library functions that a network calls, in order."""
    names: list[str] = []
    for node in walk(function.result):
        for inner in functions_of(node):
            names += called(inner) if node.kind == "map" else [inner.name]
    return names


def test_a_layer_is_calls_of_library_functions() -> None:
    """Kernels match exactly these."""
    names = [name.partition("[")[0] for name in called(imported(dense()).function)]
    assert names == ["dense.dense", "requantise.bias", "tflite.rescale"]


def test_a_dense_layer_by_hand() -> None:
    x = np.array([[4, -10, 100]], np.int8)
    total = np.arange(6).reshape(2, 3) @ (x[0].astype(int) + 6) + [70, -90]
    wanted = np.clip(np.round(total * 0.05 * 0.5 / 0.2) + 9, -128, 127)
    assert NetworkModel(imported(dense()), "vm").run(x).tolist() == [wanted.tolist()]


def test_tensors_of_one_name_get_numbers() -> None:
    graph = dense()
    graph.tensors[1].name = "x"
    graph.operators.append(Op(22, [1], [4]))
    graph.tensors.append(T((2,), "i8", 0.2, 9, name="x"))
    graph.outputs = (1, 4)
    assert [port.name for port in imported(graph).outputs] == ["x", "x 2"]


def test_states_are_ports_if_they_are_kept() -> None:
    tensors = [
        T((1, 2), **CODES),
        T((1, 2), **CODES),
        T((2, 2), "i8", 0.5, 0, np.array([[3, -4], [5, 6]])),
        T((2, 3), "i16", 0.001, 0, np.arange(6)),
        T((2,), "i32", 0.01, 0, np.array([7, 8])),
        T((1, 6), "i16", 0.01, 0, name="memory", is_variable=True),
    ]
    graph = Graph(tensors, [Op(27, [0, 2, 3, 4, 5], [1], (6, {0: ("i", 1)}), 3)])
    assert [port.name for port in imported(graph).inputs] == ["input 0"]
    kept = imported(graph, keep_state=True)
    assert [port.name for port in kept.inputs] == ["input 0", "memory"]
    assert [port.name for port in kept.outputs] == ["output 1", "memory"]
    x = np.array([[1, 2]], np.int8)
    once = NetworkModel(kept, "vm").run(x, np.zeros((1, 6), np.int16))
    assert np.array_equal(once["output 1"], NetworkModel(imported(graph), "vm").run(x))
    assert once["memory"].reshape(2, 3)[:, :2].tolist() == [[0, 0], [0, 0]]


def test_operators_that_are_not_imported_are_all_named() -> None:
    operators = [
        Op(32, [0], [4], version=3, custom="Fancy"),
        Op(46, [4], [5], version=2),
        Op(9, [0, 2, 3], [1], (8, {}), 99),
        Op(900, [4], [6]),
        Op(42, [4, 4], [7]),
    ]
    graph = dense(operators=operators)
    graph.tensors += [T((1, 3), **CODES) for _ in range(3)] + [T((1, 3), name="ratio", **CODES)]
    fault = refused(graph)
    assert fault.code == "N320"
    for part in (
        "5 kinds",
        "the custom operator `Fancy` version 3",
        "BIDIRECTIONAL_SEQUENCE_RNN version 2 (Did you mean `UNIDIRECTIONAL_SEQUENCE_LSTM`?): operator 1",
        "FULLY_CONNECTED version 99 (nearest: version 12 and before)",
        "builtin operator 900 version 1",
        "DIV version 1 (nearest: MUL, by a constant's inverse): operator 4 `ratio`",
    ):
        assert part in fault.what, part


def test_forms_that_are_not_imported_are_all_named() -> None:
    graph = dense()
    graph.operators = [Op(9, [0, 2, 3], [1], (8, {0: ("b", 4)}), 4), Op(39, [0, 4], [5])]
    graph.tensors += [T((2,), "i32", data=np.array([0, 7])), T((1, 3), **CODES)]
    graph.outputs = (1, 5)
    fault = refused(graph)
    assert fault.code == "N321"
    assert "Operator 0, FULLY_CONNECTED `y`, has the fused activation tanh." in fault.what
    assert "Operator 1, TRANSPOSE, has axes [0, 7] for the shape [1, 3]." in fault.what


def test_what_follows_a_refused_operator_is_not_blamed() -> None:
    graph = dense()
    graph.operators = [Op(9, [0, 2, 3], [1], (8, {0: ("b", 4)}), 4), Op(19, [1], [4])]
    graph.tensors.append(T((1, 2), **CODES))
    graph.outputs = (4,)
    assert "RELU" not in refused(graph).what


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({2: T((2, 3), "i8", 0.5, 4, np.arange(6))}, "zero points"),
        ({2: T((2, 3), "f32", data=np.arange(6))}, "works on f32"),
        ({2: T((2, 3), "i8", 0.5)}, "computes its input 2"),
        ({3: T((3,), "i32", 0.025, 0, np.arange(3))}, "a bias of shape [3]"),
        ({0: T((1, 4), **CODES)}, "an input of shape [1, 4] and a filter of [2, 3]"),
        ({0: T((1, 3), "u8", 0.05, 6)}, "works on u8"),
        ({1: T((1, 3), "i8", 0.2)}, "but `` is [3] of i8"),
        ({1: T((1, 2), "i8")}, "without one scale"),
        ({1: T((1, 2), "i8", 1e-38)}, "whose quotient is"),
    ],
)
def test_forms_that_do_not_fit_are_refused(change: dict[int, T], words: str) -> None:
    graph = dense()
    for place, tensor in change.items():
        graph.tensors[place] = tensor
    if "computes" in words:
        graph.inputs = (0, 2)
        words = "computes its input 1"
    fault = refused(graph)
    assert fault.code == "N321" and words in fault.what, fault.what


def test_int8_weights_of_several_scales_need_int8_inputs() -> None:
    graph = dense()
    graph.tensors[0], graph.tensors[1] = T((1, 3), "f32"), T((1, 2), "f32")
    graph.tensors[2] = T((2, 3), "i8", [0.5, 0.25], [0, 0], np.arange(6))
    graph.tensors[3] = T((2,), "f32", data=np.array([1, 2]))
    assert "of several scales for float inputs (dynamic range)" in refused(graph).what
    graph.tensors[2] = T((2, 3), "i8", 0.5, 0, np.arange(6))
    assert imported(graph).outputs[0].element.name == "f32"


def test_ports_that_a_network_cannot_have_are_refused() -> None:
    graph = dense()
    graph.tensors[0].shape = (1, 0)
    assert refused(graph).code == "N322"
    graph = dense()
    graph.outputs = (3,)
    assert refused(graph).code == "N322"
    graph = dense()
    graph.tensors[0].element = "bool"
    assert refused(graph).code in ("N321", "N322")


def test_messages_stay_short() -> None:
    graph = dense(operators=[Op(32, [0], [4 + k], custom=f"C{k}") for k in range(50)])
    graph.tensors += [T((1, 3), **CODES) for _ in range(50)]
    graph.outputs = (4,)
    fault = refused(graph)
    assert "50 kinds" in fault.what and "; and 10 more." in fault.what and "`C49`" not in fault.what
    graph.operators = [Op(32, [0], [4 + k], custom="C") for k in range(50)]
    assert "and 46 more" in refused(graph).what


def test_the_table_of_operators() -> None:
    assert len(SUPPORTED) == len(ROWS) and [row.number for row in ROWS] == sorted(SUPPORTED)
    assert sorted(NAMES) == list(range(len(NAMES))), "every number has a name"
    assert len(set(NAMES.values())) == len(NAMES)
    assert set(NEAREST) <= set(NAMES.values()) - {row.name for row in ROWS}
    assert all((row.build.__doc__ or "").strip() for row in ROWS)
