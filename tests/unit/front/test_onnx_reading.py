"""ONNX files that are broken, hostile or lead elsewhere: each is refused with its code, before memory is asked for."""

import os
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_files import LIBRARY, imported, model, node, run

from bittern.base.errors import BitternError
from bittern.front.onnx import scan
from bittern.front.onnx.external import Folder
from bittern.front.onnx.importer import import_graph
from bittern.front.onnx.reading import graph_of, read_graph, read_onnx

WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4)


def plain() -> Any:
    """Return a model: y = x @ w."""
    data = model([node("MatMul", ["x", "w"], ["y"])], {"x": ("f32", (1, 3))}, {"y": "f32"}, {"w": WEIGHTS})
    return onnx.load_from_string(data)


def refused(made: Any, folder: Folder | None = None) -> BitternError:
    """Return the error with which a model (or bytes) is refused."""
    data = made if isinstance(made, bytes) else made.SerializeToString()
    with pytest.raises(BitternError) as raised:
        graph_of(data, "test", folder)
    return raised.value


# --- bytes


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x3a\xff", "N202"),  # a graph that is longer than the file
        (b"\x3a\x02\x0a", "N202"),
        (b"\x0b", "N202"),  # a group
        (b"\x08" + b"\xff" * 12, "N202"),  # a number without end
        (b"\x3a\x02\xff\xff", "N202"),
        (b"GGUF" * 100, "N202"),
        (b"{}" * 40, "N202"),
        (b"\x3a\x04\x12\x02\xff\xfe", "N202"),
        (b"\x08\x07", "N204"),
    ],
)
def test_bytes_that_are_no_model_are_refused(data: bytes, code: str) -> None:
    assert refused(data).code == code


def test_a_name_that_is_no_text_is_refused() -> None:
    data = plain().SerializeToString()
    assert refused(data.replace(b"MatMul", b"Mat\xfful")).code == "N202"


def test_a_file_that_is_empty_or_missing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.onnx").write_bytes(b"")
    for name, code in (("empty.onnx", "F104"), ("missing.onnx", "F101"), (".", "F102")):
        with pytest.raises(BitternError) as raised:
            read_graph(tmp_path / name)
        assert raised.value.code == code


def test_more_objects_than_a_file_may_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = b"\x0a\x00" * 300_000  # empty nodes, two bytes each
    size = len(nodes)
    length = bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14])
    assert refused(b"\x3a" + length + nodes).code == "N203"
    monkeypatch.setattr(scan, "ALWAYS", 10**9)  # the planted fault: without the bound it gets past the scan
    assert refused(b"\x3a" + length + nodes).code != "N203"


def test_graphs_in_graphs_end_somewhere() -> None:
    data = b""
    for _ in range(100):  # graph of a node of an attribute of a graph ...
        for field in (6 << 3 | 2, 5 << 3 | 2, 1 << 3 | 2):
            size = len(data)
            data = bytes([field]) + (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + data
    size = len(data)
    assert refused(b"\x3a" + bytes([size & 127 | 128, size >> 7]) + data).code == "N203"


def test_without_the_package_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = plain().SerializeToString()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(BitternError) as raised:
        graph_of(data, "test")
    assert (raised.value.code, "pip install onnx" in raised.value.remedy) == ("N201", True)


# --- the graph


def _twice(made: Any) -> None:
    made.graph.node.append(made.graph.node[0])


def _late(made: Any) -> None:
    made.graph.node[0].input[0] = "later"


def _nothing(made: Any) -> None:
    del made.graph.node[:]


def _no_version(made: Any) -> None:
    del made.opset_import[:]


def _two_versions(made: Any) -> None:
    made.opset_import.append(helper.make_opsetid("", 9))


def _promise(made: Any) -> None:
    made.graph.output[0].name = "z"


def _no_output(made: Any) -> None:
    made.graph.node[0].output[0] = ""


def _attribute_twice(made: Any) -> None:
    made.graph.node[0].attribute.extend([helper.make_attribute("a", 1), helper.make_attribute("a", 2)])


def _constant_twice(made: Any) -> None:
    made.graph.initializer.append(made.graph.initializer[0])


def _functions(made: Any) -> None:
    made.functions.append(helper.make_function("d", "f", ["x"], ["y"], [node("Relu", ["x"], ["y"])], []))


def _training(made: Any) -> None:
    made.training_info.add()


def _sparse(made: Any) -> None:
    made.graph.sparse_initializer.add()


def _sequence(made: Any) -> None:
    made.graph.input[0].type.sequence_type.SetInParent()


def _control(made: Any) -> None:
    made.graph.node[0].output[0] = made.graph.output[0].name = "y\x1b[2J"


def _nameless(made: Any) -> None:
    made.graph.output[0].name = ""


GRAPHS = [
    (_control, "N204", "impossible tensor name `y\\x1b[2J`"),
    (_nameless, "N204", "impossible name"),
    (_twice, "N204", "twice"),
    (_late, "N204", "before anything makes it"),
    (_nothing, "N204", "no operations"),
    (_no_version, "N204", "version"),
    (_two_versions, "N204", "two versions"),
    (_promise, "N204", "which nothing makes"),
    (_no_output, "N204", "without outputs"),
    (_attribute_twice, "N204", "twice or by reference"),
    (_constant_twice, "N204", "twice"),
    (_functions, "N209", "functions of its own"),
    (_training, "N209", "training information"),
    (_sparse, "N209", "sparse constants"),
    (_sequence, "N209", "no tensor"),
]


@pytest.mark.parametrize(("change", "code", "words"), GRAPHS, ids=[row[0].__name__ for row in GRAPHS])
def test_a_graph_that_is_not_well_formed_is_refused(change: Any, code: str, words: str) -> None:
    made = plain()
    change(made)
    error = refused(made)
    assert (error.code, words in error.what) == (code, True), error


# --- tensors


def _bytes_missing(tensor: Any) -> None:
    tensor.raw_data = tensor.raw_data[:-1]


def _negative(tensor: Any) -> None:
    tensor.dims[0] = -3


def _huge(tensor: Any) -> None:
    tensor.dims[:] = [1 << 40, 1 << 40]


def _wraps(tensor: Any) -> None:
    tensor.dims[:] = [1 << 32, 1 << 32, 0]


def _nothing_of_much(tensor: Any) -> None:
    tensor.dims[:] = [0, 1 << 62]
    tensor.raw_data = b""


def _deep(tensor: Any) -> None:
    tensor.dims[:] = [1] * 40


def _listed(tensor: Any) -> None:
    tensor.ClearField("raw_data")
    tensor.float_data.extend([1.0, 2.0])


def _segment(tensor: Any) -> None:
    tensor.segment.begin = 0


def _text(tensor: Any) -> None:
    tensor.data_type = TensorProto.STRING


def _complex(tensor: Any) -> None:
    tensor.data_type = TensorProto.COMPLEX64


def _unknown(tensor: Any) -> None:
    tensor.data_type = 99


def _no_i8(tensor: Any) -> None:
    tensor.ClearField("raw_data")
    tensor.data_type = TensorProto.INT8
    tensor.int32_data.extend([300] * 12)


TENSORS = [
    (_bytes_missing, "N205"),
    (_negative, "N205"),
    (_huge, "N205"),
    (_wraps, "N205"),
    (_nothing_of_much, "N205"),
    (_deep, "N205"),
    (_listed, "N205"),
    (_segment, "N205"),
    (_no_i8, "N205"),
    (_text, "N206"),
    (_complex, "N206"),
    (_unknown, "N206"),
]


@pytest.mark.parametrize(("change", "code"), TENSORS, ids=[row[0].__name__ for row in TENSORS])
def test_a_tensor_that_lies_is_refused(change: Any, code: str) -> None:
    made = plain()
    change(made.graph.initializer[0])
    assert refused(made).code == code


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16, 21, 22])
@pytest.mark.parametrize("raw", [False, True])
def test_every_type_is_read_from_both_fields(number: int, raw: bool) -> None:
    values = [0, 1, 1, 0, 1] if number == 9 else [0, 1, 2, 3, 7]
    tensor = helper.make_tensor("w", number, [5], values)
    if raw:
        tensor = numpy_helper.from_array(numpy_helper.to_array(tensor), "w")
    made = plain()
    made.graph.initializer.append(tensor)
    tensor.name = made.graph.initializer[-1].name = "other"
    array = graph_of(made.SerializeToString(), "test").constants["other"]
    assert array.tolist() == values
    assert array.dtype != np.float16


# --- external data


def external(location: str, **entries: str) -> Any:
    """Return the plain model with its weights outside."""
    made = plain()
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with weights inside, and the same bytes outside of it."""
    inside = tmp_path / "model"
    (inside / "deep").mkdir(parents=True)
    for path in (inside / "w.bin", inside / "deep" / "w.bin", tmp_path / "secret.bin"):
        path.write_bytes(b"\0" * 8 + WEIGHTS.tobytes())
    return inside


@pytest.mark.parametrize("location", ["w.bin", "deep/w.bin"])
def test_external_data_is_read(folder: Path, location: str) -> None:
    path = folder / "m.onnx"
    path.write_bytes(external(location, offset="8", length="48").SerializeToString())
    (y,) = run(read_onnx(path), np.eye(3, dtype=np.float32))
    assert np.array_equal(y, WEIGHTS)


def test_external_data_stays_in_the_folder(folder: Path) -> None:
    """EDGE_CASES E5: the path matrix; the race is the test further down."""
    outside = folder.parent / "secret.bin"
    (folder / "link.bin").symlink_to(outside)
    (folder / "inner.bin").symlink_to("w.bin")
    (folder / "links").symlink_to(folder.parent)
    os.link(outside, folder / "hard.bin")
    os.mkfifo(folder / "pipe")
    locations = [
        "../secret.bin",
        "deep/../../secret.bin",
        "deep/../w.bin",
        str(outside),
        "link.bin",
        "inner.bin",
        "links/secret.bin",
        "hard.bin",
        "pipe",
        "deep",
        ".",
        "",
        "/",
        "w.bin/",
        "./w.bin",
        "deep//w.bin",
        "..\\secret.bin",
        "w.bin\0.txt",
        "C:/w.bin",
        "missing.bin",
        "x" * 2000,
    ]
    with Folder(folder) as opened:
        for location in locations:
            error = refused(external(location, offset="8", length="48"), opened)
            assert error.code == "N207", (location, error)
    assert refused(external("w.bin")).code == "N205"  # a graph from memory has no folder


@pytest.mark.parametrize(
    "entries",
    [
        {"offset": "9", "length": "48"},
        {"offset": "8", "length": "47"},
        {"offset": "-8", "length": "48"},
        {"offset": "0x8"},
        {"offset": "9" * 19},
        {"offset": "9" * 400},
        {"length": "1e3"},
        {"offset": "8", "colour": "red"},
        {"offset": "8", "checksum": "0" * 40},
    ],
)
def test_external_data_of_other_bytes_is_refused(folder: Path, entries: dict[str, str]) -> None:
    with Folder(folder) as opened:
        assert refused(external("w.bin", **entries), opened).code == "N208"


def test_a_right_checksum_is_accepted(folder: Path) -> None:
    import hashlib

    digest = hashlib.sha1((folder / "w.bin").read_bytes()).hexdigest()
    with Folder(folder) as opened:
        data = external("w.bin", offset="8", checksum=digest).SerializeToString()
        assert np.array_equal(graph_of(data, "test", opened).constants["w"], WEIGHTS)


def test_who_exchanges_files_meanwhile_gains_nothing(folder: Path) -> None:
    """Another thread turns a file into a link and back; what is read is the file, or nothing."""
    (folder.parent / "secret.bin").write_bytes(b"\x7f" * 56)
    stop = threading.Event()

    def exchange() -> None:
        while not stop.is_set():
            (folder / "spare").symlink_to("../secret.bin")
            os.replace(folder / "spare", folder / "race.bin")
            (folder / "spare").write_bytes(b"\0" * 8 + WEIGHTS.tobytes())
            os.replace(folder / "spare", folder / "race.bin")

    thread = threading.Thread(target=exchange)
    thread.start()
    ends: set[str] = set()
    data = external("race.bin", offset="8", length="48").SerializeToString()
    try:
        with Folder(folder) as opened:
            for _ in range(300):
                try:
                    assert np.array_equal(graph_of(data, "test", opened).constants["w"], WEIGHTS)
                    ends.add("read")
                except BitternError as error:
                    ends.add(error.code)
    finally:
        stop.set()
        thread.join()
    assert ends <= {"read", "N207"}


def test_attributes_of_old_files_have_no_type() -> None:
    made = onnx.load_from_string(
        model([node("Transpose", ["x"], ["y"], perm=[0, 2, 1])], {"x": ("f32", (1, 2, 3))}, {"y": "f32"})
    )
    made.graph.node[0].attribute[0].ClearField("type")
    network = import_graph(graph_of(made.SerializeToString(), "test"), LIBRARY)
    assert network.outputs[0].shape == (3, 2)
    assert imported(made.SerializeToString()).function == network.function
