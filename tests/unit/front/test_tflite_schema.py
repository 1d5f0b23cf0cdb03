"""The reader of TFLite files: what a model holds, and one refusal for each thing that can be wrong in a file."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tflite_files import Graph, Numbers, Op, T, Writer, build

from bittern.base.errors import BitternError
from bittern.front.tflite import flatbuffer
from bittern.front.tflite.flatbuffer import Bytes
from bittern.front.tflite.schema import is_tflite, parse_model, read_model


def sample(**changes: Any) -> Graph:
    """Return a dense layer, with other fields of the graph where they are given."""
    tensors = [
        T((1, 3), "i8", 0.5, -4, name="x"),
        T((1, 2), "i8", 0.25, 3, name="y"),
        T((2, 3), "i8", [0.5, 0.25], [0, 0], np.arange(6).reshape(2, 3), 0, "w"),
        T((2,), "i32", 0.25, 0, np.array([7, -9])),
    ]
    given: dict[str, Any] = {"tensors": tensors, "operators": [Op(9, [0, 2, 3], [1], (8, {0: ("b", 1)}), 4)], **changes}
    return Graph(**given)


def refused(data: bytes) -> BitternError:
    """Return how a file is refused."""
    with pytest.raises(BitternError) as caught:
        parse_model(data, "model.tflite")
    assert caught.value.what.startswith("`model.tflite`")
    return caught.value


def test_a_model_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(build(sample()))
    model = read_model(path)
    x, y, w, b = model.tensors
    assert (model.name, model.description, model.inputs, model.outputs) == ("main", "made by hand", (0,), (1,))
    assert (x.name, x.shape, x.element, x.data, x.is_variable) == ("x", (1, 3), "i8", None, False)
    assert y.quantisation is not None and (y.quantisation.scale.tolist(), y.quantisation.zero.tolist()) == ([0.25], [3])
    assert w.quantisation is not None and w.quantisation.scale.tolist() == [0.5, 0.25]
    assert w.data is not None and w.data.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert b.data is not None and b.data.tolist() == [7, -9]
    (operator,) = model.operators
    assert (operator.code.number, operator.code.version, operator.inputs) == (9, 4, (0, 2, 3))
    assert operator.options is not None and operator.options.number(0, "b") == 1
    assert operator.options.number(7, "i", 5) == 5, "an absent field has its default"
    assert is_tflite(path) and not is_tflite(tmp_path) and not is_tflite(tmp_path / "none")


def test_int4_values_are_two_to_a_byte() -> None:
    graph = sample()
    graph.tensors[2] = T((2, 3), "i4", 0.5, 0, np.array([0x21, 0xF3, 0x87]))
    w = parse_model(build(graph), "model").tensors[2]
    assert w.data is not None and w.data.tolist() == [[1, 2, 3], [-1, 7, -8]]


def test_large_constants_lie_behind_the_buffer() -> None:
    """A buffer may name bytes of the file instead of holding them."""
    place = 4096
    graph = sample()
    weights = {0: np.arange(6).astype(np.int8).tobytes()}
    graph.changes[4] = [{}, weights, {1: ("Q", place), 2: ("Q", 8)}]
    data = build(graph)
    assert len(data) < place
    values = parse_model(data.ljust(place, b"\0") + struct.pack("<2i", 5, -6), "model").tensors[3].data
    assert values is not None and values.tolist() == [5, -6]
    assert refused(data).code == "N303"


def change(**fields: Any) -> Callable[[Graph], None]:
    """Return an edit of the second tensor (`y`)."""

    def edit(graph: Graph) -> None:
        for name, value in fields.items():
            setattr(graph.tensors[1], name, value)

    return edit


def _constant(value: T) -> Callable[[Graph], None]:
    def edit(graph: Graph) -> None:
        graph.tensors[2] = value

    return edit


def _operators(*rows: Op) -> Callable[[Graph], None]:
    def edit(graph: Graph) -> None:
        graph.operators = list(rows)

    return edit


def _root(place: int, value: Any) -> Callable[[Graph], None]:
    def edit(graph: Graph) -> None:
        graph.changes[place] = value

    return edit


def _inputs(*places: int) -> Callable[[Graph], None]:
    def edit(graph: Graph) -> None:
        graph.inputs = places

    return edit


DENSE = Op(9, [0, 2, 3], [1])
REFUSALS: list[tuple[str, str, Callable[[Graph], None]]] = [
    ("another version of the schema", "N302", _root(0, ("I", 2))),
    ("no graph", "N314", _root(2, None)),
    ("a tensor that does not exist", "N308", _operators(Op(9, [0, 4], [1]))),
    ("a negative tensor", "N308", _operators(Op(9, [0, -2], [1]))),
    ("a buffer that does not exist", "N308", _root(4, [{}])),
    ("an operator code that does not exist", "N308", _root(1, None)),
    ("a negative size", "N309", change(shape=(1, -2))),
    ("a product that wraps", "N309", change(shape=(1 << 30, 1 << 30, 1 << 4))),
    ("too many sizes", "N309", change(shape=(1,) * 9)),
    ("too few bytes", "N310", _constant(T((2, 3), "i32", data=np.arange(5)))),
    ("too many bytes", "N310", _constant(T((2, 3), "i8", data=np.arange(7)))),
    ("a scale of 0", "N312", change(scale=0.0)),
    ("a scale that is no number", "N312", change(scale=float("nan"))),
    ("an infinite scale", "N312", change(scale=float("inf"))),
    ("a zero point past 2^31", "N312", change(zero=1 << 40)),
    ("the least zero point", "N312", change(zero=-(1 << 63))),
    ("three scales for two channels", "N312", _constant(T((2, 3), "i8", [1.0, 1.0, 1.0], [0], np.zeros(6)))),
    ("an axis that does not exist", "N312", _constant(T((2, 3), "i8", [1.0, 1.0], [0, 0], np.zeros(6), axis=5))),
    ("two writers", "N313", _operators(DENSE, DENSE)),
    ("a reader before the writer", "N313", _operators(Op(19, [1], [0]))),
    ("an input twice", "N313", _inputs(0, 0)),
    ("an output that nothing writes", "N313", _operators()),
    ("a constant that is written", "N313", _operators(Op(9, [0], [2]))),
]


@pytest.mark.parametrize(("name", "code", "edit"), REFUSALS, ids=[row[0] for row in REFUSALS])
def test_what_is_wrong_is_refused(name: str, code: str, edit: Callable[[Graph], None]) -> None:
    graph = sample()
    edit(graph)
    assert refused(build(graph)).code == code, name


def test_dynamic_sizes_are_refused() -> None:
    """The sizes that are known only later are in a second shape; an open batch is no fault."""
    data = Writer(b"TFL3").finish(_with_signature([-1, 2]))
    assert parse_model(data, "model").tensors[0].shape == (1, 2)
    assert refused(Writer(b"TFL3").finish(_with_signature([1, -1]))).code == "N309"


def _with_signature(sizes: list[int]) -> dict[int, Any]:
    tensor = {0: Numbers("i", [1, 2]), 1: ("b", 9), 7: Numbers("i", sizes)}
    return {0: ("I", 3), 2: [{0: [tensor], 1: Numbers("i", [0]), 2: Numbers("i", [0])}], 4: [{}]}


@pytest.mark.parametrize(("number", "word"), [(5, "text"), (8, "complex64"), (77, "77")])
def test_types_that_are_not_read_are_named(number: int, word: str) -> None:
    root = _with_signature([1, 2])
    root[2][0][0][0][1] = ("b", number)
    fault = refused(Writer(b"TFL3").finish(root))
    assert fault.code == "N311" and word in fault.what


def test_sparse_and_custom_tensors_are_refused() -> None:
    root = _with_signature([1, 2])
    root[2][0][0][0][6] = {}
    assert refused(Writer(b"TFL3").finish(root)).code == "N311"
    root = _with_signature([1, 2])
    root[2][0][0][0][4] = {2: Numbers("f", [1.0]), 4: ("B", 1)}
    assert refused(Writer(b"TFL3").finish(root)).code == "N312"


def test_two_graphs_are_refused() -> None:
    root = _with_signature([1, 2])
    root[2] = root[2] * 2
    assert refused(Writer(b"TFL3").finish(root)).code == "N314"


@pytest.mark.parametrize("data", [b"", b"TFL", b"\x08\0\0\0TFL2" + bytes(40), b"GGUF" + bytes(40)])
def test_other_files_are_refused(data: bytes) -> None:
    assert refused(data).code == "N301"


def test_offsets_outside_are_refused() -> None:
    whole = build(sample())
    for offset in (len(whole), len(whole) - 3, (1 << 32) - 1):
        assert refused(struct.pack("<I", offset) + whole[4:]).code == "N303"
    assert refused(whole[:8]).code == "N303"


def test_vtables_are_checked() -> None:
    """A root at byte 8 whose vtable is before the file, past its end, too short, odd, or for a larger table."""

    def file(distance: int, vtable: bytes) -> bytes:
        return struct.pack("<I4si", 8, b"TFL3", distance) + vtable

    assert refused(file(100, b"")).code == "N303"
    assert refused(file(-100, b"")).code == "N303"
    assert refused(file(-4, struct.pack("<2H", 2, 4))).code == "N304"
    assert refused(file(-4, struct.pack("<2H", 5, 4))).code == "N304"
    assert refused(file(-4, struct.pack("<2H", 4, 2))).code == "N304"
    assert refused(file(-4, struct.pack("<2H", 4, 400))).code == "N303"
    assert refused(file(-4, struct.pack("<2H", 400, 4))).code == "N303"
    assert refused(file(-4, struct.pack("<3H", 6, 8, 6) + bytes(8))).code == "N304", "a field that does not fit"
    assert refused(file(-4, struct.pack("<3H", 6, 8, 2) + bytes(8))).code == "N304", "a field in the vtable's place"


def test_lengths_are_checked_before_use() -> None:
    """A vector of 2^32 - 1 elements, and one of 2^30 elements of four bytes, which is 2^32 bytes."""
    whole = build(sample())
    shape = struct.pack("<3I", 2, 1, 3)
    assert whole.count(shape) == 1
    for count in ((1 << 32) - 1, 1 << 30, len(whole)):
        assert refused(whole.replace(shape, struct.pack("<3I", count, 1, 3))).code == "N305"


def test_texts_are_checked() -> None:
    whole = build(sample())
    assert refused(whole.replace(b"made by hand", b"made \xffy hand")).code == "N306"
    root = _with_signature([1, 2])
    root[3] = "a" * (flatbuffer.TEXT_LIMIT + 1)
    assert refused(Writer(b"TFL3").finish(root)).code == "N306"


def test_many_references_to_one_vector_are_refused() -> None:
    """A thousand tensors that share one name of 64 KiB decode to 64 MiB from 80 KiB."""
    count, name = 1000, 60_000
    root = _with_signature([1, 2])
    root[2][0][0] = [{3: "x"} for _ in range(count)]
    data = bytearray(Writer(b"TFL3").finish(root))
    at = (len(data) + 3) // 4 * 4
    data += bytes(at - len(data)) + struct.pack("<I", name) + b"a" * name
    short = struct.pack("<I", 1) + b"x\0"
    places = [place for place in range(0, at, 4) if _refers(data, place, short)]
    assert len(places) >= count
    for place in places:
        struct.pack_into("<I", data, place, at - place)
    assert refused(bytes(data)).code == "N307"


def _refers(data: bytearray, place: int, target: bytes) -> bool:
    (distance,) = struct.unpack_from("<I", data, place)
    return bytes(data[place + distance : place + distance + len(target)]) == target


def test_too_many_parts_are_refused() -> None:
    root = _with_signature([1, 2])
    root[6] = [{} for _ in range((1 << 10) + 1)]
    assert refused(Writer(b"TFL3").finish(root)).code == "N307"


def test_reading_is_charged() -> None:
    """The planted fault: without the charge, the vector above would be read."""
    file = Bytes(memoryview(bytes(64)), "x")
    file.charge(file.limit, "all")
    with pytest.raises(BitternError) as caught:
        file.charge(1, "one byte more")
    assert caught.value.code == "N307"
