"""`.keg` files: what is written is read back equal, and whatever does not prove itself is refused by its own code."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from graph_builder import random_function
from hypothesis import given, settings
from keg_files import parts, refused, small

from bittern.base.errors import BitternError
from bittern.graph import keg_format as form
from bittern.graph.difference import nodes_of
from bittern.graph.keg import ExternalBlob, read_keg, write_keg
from bittern.graph.node import Blob, Function, Parameter, blob, call, const, const_blob, node, param
from bittern.graph.record import effects_of, ownership_of, policy_of
from bittern.types.dims import dim, symbol
from bittern.types.elements import ELEMENTS, F32, I32, U8, U32
from bittern.types.values import Tensor, Token, Tuple, tensor

seeds = st.integers(0, 2**32)
Edit = Callable[[dict[str, Any]], None]


@pytest.fixture
def keg(tmp_path: Path) -> Path:
    path = tmp_path / "a.keg"
    write_keg(path, {"main": small()}, notes={"made by": "a test"})
    return path


# --- round trips


@pytest.mark.req("K005", "K017")
@settings(deadline=None, max_examples=40)
@given(seeds, seeds)
def test_a_round_trip_keeps_every_id_label_and_byte(tmp_path_factory: pytest.TempPathFactory, a: int, b: int) -> None:
    folder = tmp_path_factory.mktemp("keg")
    roots = {"first": random_function(a), "second": random_function(b, names=2)}
    write_keg(folder / "a.keg", roots, notes={"k": "v", "a": "b"})
    keg = read_keg(folder / "a.keg")
    assert {label: f.id for label, f in keg.functions.items()} == {label: f.id for label, f in roots.items()}
    assert keg.notes == {"k": "v", "a": "b"}
    for label, function in roots.items():
        read = keg.functions[label]
        assert {n.id for n in nodes_of(read)} == {n.id for n in nodes_of(function)}
        if len({f.id for f in roots.values()}) == 2:
            assert read.labels.name == function.labels.name and read.labels.params == function.labels.params
            here = {n.id for n in nodes_of(function)}
            for kept, given_ in (
                (read.labels.nodes, function.labels.nodes),
                (read.labels.lines, function.labels.lines),
            ):
                assert {k: v for k, v in kept.items() if k in here} == {k: v for k, v in given_.items() if k in here}
    write_keg(folder / "b.keg", dict(reversed(keg.functions.items())), notes={"a": "b", "k": "v"})
    assert (folder / "a.keg").read_bytes() == (folder / "b.keg").read_bytes()
    assert keg.sha256 == hashlib.sha256((folder / "b.keg").read_bytes()).hexdigest()
    assert keg.size == (folder / "b.keg").stat().st_size


@pytest.mark.req("K005")
def test_constants_and_their_bits_come_back(tmp_path: Path) -> None:
    values = np.array([0.0, -0.0, np.nan, np.inf, 1.5], np.float32)
    nodes = [
        const(values, F32),
        const([0, 15], ELEMENTS["u4"]),
        const(-1, ELEMENTS["b1"]),
        const(np.zeros((0, 2)), I32),
    ]
    result = node("tuple", nodes, {}, Tuple(tuple(n.type for n in nodes)))
    write_keg(tmp_path / "a.keg", {"c": Function(0, (), result)})
    read = read_keg(tmp_path / "a.keg").functions["c"].result
    assert [bytes(n["data"].read()) for n in read.inputs] == [bytes(n["data"].read()) for n in nodes]
    assert np.frombuffer(read.inputs[0]["data"].read(), "<u4")[1] == 0x80000000


def test_every_kind_of_attribute_and_type_comes_back(tmp_path: Path) -> None:
    token = Token("clock")
    inner = Function(0, (Parameter(token, "own"),), param(0, token), effects=("clock",))
    values = {
        "a": 1, "b": -(2**62), "c": True, "d": "text", "e": b"bytes", "f": symbol(0) // 3 + symbol(1) % 5 * 2, "g": F32,
        "h": tensor(F32, symbol(0)), "i": blob(b"data"), "j": (1, (dim(2), "x"), ()), "k": inner,
    }  # fmt: skip
    held = node("tuple", [param(0, token)], values, Tuple((token,)))
    function = Function(2, (Parameter(token, "own"),), held, effects=("clock",))
    write_keg(tmp_path / "a.keg", {"c": function})
    header, blobs = parts(tmp_path / "a.keg")
    assert header["blobs"][0][1] == 4 and blobs[:4] == b"data"
    tables = [row for row in header["entries"] if row[0] == "node" and row[2] == "tuple"]
    assert tables[0][5]["j"] == [1, [{"dim": 0}, "x"], []] or tables[0][5]["j"][0] == 1
    refused(tmp_path / "a.keg", "F213", "tuple")  # every attribute was read and hashed; a tuple just may not have any


def test_writing_again_gives_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    functions = {f"f{i}": random_function(i) for i in range(6)}
    write_keg(tmp_path / "a.keg", functions)
    write_keg(tmp_path / "b.keg", dict(sorted(functions.items(), reverse=True)))
    assert (tmp_path / "a.keg").read_bytes() == (tmp_path / "b.keg").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.keg", "b.keg"], "no temporary file is left"


def test_the_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    broken = const_blob(Blob(hashlib.sha256(b"abc").digest(), 3, lambda: b"abd"), tensor(U8, 3))
    with pytest.raises(BitternError, match="F215"):
        write_keg(tmp_path / "a.keg", {"c": Function(0, (), broken)})
    assert not list(tmp_path.iterdir())
    with pytest.raises(BitternError, match="F222"):
        write_keg(tmp_path / "no" / "a.keg", {"c": small()})
    huge = node("fill", [param(0, tensor(F32))], {"shape": (dim(2**70),)}, tensor(F32, 2**70))
    with pytest.raises(BitternError, match=r"F223.*64 bits"):
        write_keg(tmp_path / "a.keg", {"c": Function(0, (Parameter(tensor(F32)),), huge)})
    from bittern.types.elements import open_element

    generic = param(0, Tensor(open_element("e", "float")))
    with pytest.raises(BitternError, match=r"F223.*open element"):
        write_keg(tmp_path / "a.keg", {"c": Function(0, (Parameter(generic.type),), generic)})


# --- the record of a node


@pytest.mark.req("K013")
def test_every_record_states_what_is_attached_to_its_operation(tmp_path: Path) -> None:
    roots = {f"f{i}": random_function(i) for i in range(30)}
    write_keg(tmp_path / "a.keg", roots)
    header, _ = parts(tmp_path / "a.keg")
    known = {n.id: n for f in roots.values() for n in nodes_of(f)}
    records = [dict(zip(form.NODE, row, strict=True)) for row in header["entries"] if row[0] == "node"]
    assert {r["id"] for r in records} == known.keys()
    for record in records:
        current = known[record["id"]]
        entries = [header["entries"][i] for i in record["inputs"]]
        assert [e[1] for e in entries] == [i.id for i in current.inputs], "inputs"
        assert record["kind"] == current.kind
        assert record["effects"] == list(effects_of(current))
        assert len(record["ownership"]) == len(current.inputs) and set(record["ownership"]) <= {"", "&", "own"}
        assert record["policy"] in ("strict", "seeded", "creative")
        type_ = header["types"][record["type"]]
        if isinstance(current.type, Tensor):
            assert type_[:2] == ["tensor", current.type.element.name], "element of the output"
            assert len(type_[2]) == len(current.type.shape) and type_[3] == current.type.space, "shape and memory space"
        else:
            assert type_[0] in ("tuple", "token"), "outputs"


@pytest.mark.req("K013")
def test_effects_ownership_and_policy_are_told_from_the_graph() -> None:
    token = Token("clock")
    x, t, i, v = (param(k, y) for k, y in enumerate((tensor(F32, 4), token, tensor(U32), tensor(F32))))
    callee = Function(
        0, (Parameter(x.type, "own"), Parameter(i.type, "&"), Parameter(token)),
        node("tuple", [x, t], {}, Tuple((x.type, token))), effects=("clock",),
    )  # fmt: skip
    made = call(callee, [x, i, t])
    assert effects_of(made) == ("clock",) and ownership_of(made) == ("own", "&", "")
    assert ownership_of(node("update", [x, i, v], {}, x.type)) == ("own", "", "")
    assert ownership_of(node("add", [x, x], {}, x.type)) == ("", "") and effects_of(x) == ()
    assert policy_of(x) == "strict"
    assert policy_of(node("add", [x, x], {"policy": "creative"}, x.type)) == "creative"


# --- constants that stay elsewhere, and large ones


@pytest.fixture
def outside(tmp_path: Path) -> tuple[Path, Path, bytes]:
    """Return a .keg whose constant lies in another file, that file, and the function's id."""
    weights = tmp_path / "weights.bin"
    values = np.arange(1000, dtype="<f4")
    weights.write_bytes(b"head" + values.tobytes() + b"tail")
    function = Function(0, (), const(values, F32))
    data = function.result["data"]
    assert isinstance(data, Blob)
    place = ExternalBlob("weights.bin", hashlib.sha256(weights.read_bytes()).digest(), 4, data.size)
    write_keg(tmp_path / "a.keg", {"w": function}, external={data.digest: place})
    return tmp_path / "a.keg", weights, function.id


@pytest.mark.req("K005")
def test_a_constant_may_stay_in_its_file(outside: tuple[Path, Path, bytes]) -> None:
    path, weights, identity = outside
    assert path.stat().st_size < 1000
    read = read_keg(path, [weights]).functions["w"].result["data"].read()
    assert np.array_equal(np.frombuffer(read, "<f4"), np.arange(1000))
    keg = read_keg(path)
    assert keg.functions["w"].id == identity, "the program is whole without the bytes"
    with pytest.raises(BitternError, match=r"F221.*weights\.bin"):
        keg.functions["w"].result["data"].read()


def test_a_source_is_found_by_its_bytes(outside: tuple[Path, Path, bytes]) -> None:
    path, weights, _ = outside
    other = weights.with_name("other.bin")
    other.write_bytes(bytes(5000))

    class Opened:
        data = weights.read_bytes()

    for sources in ([other, weights], [weights.with_name("missing"), weights], [Opened()], [str(weights)]):
        assert len(read_keg(path, sources).functions["w"].result["data"].read()) == 4000
    weights.write_bytes(weights.read_bytes().replace(b"head", b"HEAD"))
    read_keg(path, [weights]).functions["w"].result["data"].read()  # only the constant's own bytes matter
    data = bytearray(weights.read_bytes())
    data[100] ^= 1
    weights.write_bytes(data)
    with pytest.raises(BitternError, match="F221"):
        read_keg(path, [weights, other]).functions["w"].result["data"].read()


def test_a_large_constant_is_hashed_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.keg"
    write_keg(path, {"w": Function(0, (), const(np.arange(1 << 19, dtype="<f4"), F32))})
    assert len(read_keg(path).functions["w"].result["data"].read()) == 1 << 21
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    keg = read_keg(path)
    with pytest.raises(BitternError, match=r"F215.*a\.keg"):
        keg.functions["w"].result["data"].read()


def test_a_known_constant_is_read_from_where_it_can_be(outside: tuple[Path, Path, bytes]) -> None:
    path, weights, _ = outside
    first = read_keg(path).functions["w"].result  # without the file: its bytes cannot be read
    second = read_keg(path, [weights]).functions["w"].result
    assert first is second
    assert len(first["data"].read()) == 4000
    third = read_keg(path).functions["w"].result
    assert third is first and len(third["data"].read()) == 4000
