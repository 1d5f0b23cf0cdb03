"""The GGUF writer: what it writes is read back equal, by Bittern and by the `gguf` package, and always the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
from block_formats import FORMATS
from gguf_files import SAMPLES, build
from gguf_oracle import differences
from hypothesis import given, settings
from hypothesis import strategies as st

from bittern.base.errors import BitternError
from bittern.front import gguf_write
from bittern.front.checkpoint import Value
from bittern.front.gguf import open_gguf, value_types
from bittern.front.gguf_write import Stored, stored_tensors, write_gguf
from bittern.types.elements import ELEMENTS


@pytest.fixture(scope="module")
def package() -> Any:
    """The `gguf` package."""
    return pytest.importorskip("gguf", reason="the package gguf is the oracle here")


def tensor(name: str, element: str, *shape: int, seed: int = 0) -> Stored:
    """A tensor of random bytes."""
    made = Stored(name, ELEMENTS[element], shape, bytes)
    data = np.random.default_rng(seed).integers(0, 256, made.size, dtype=np.uint8).tobytes()
    return Stored(name, ELEMENTS[element], shape, lambda: data)


def same(a: Value, b: Value) -> bool:
    """Whether two values of metadata are equal in kind, type and bits."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return type(a) is type(b) and (a == b or (a != a and b != b))


def again(path: Path, target: Path) -> Path:
    """Read a file and write it once more."""
    with open_gguf(path) as checkpoint:
        write_gguf(target, checkpoint.metadata, stored_tensors(checkpoint), value_types(checkpoint))
    return target


@pytest.mark.parametrize("name", [name for name in SAMPLES if name != "version 2"])
def test_a_file_written_again_holds_the_same(name: str, tmp_path: Path, package: Any) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(build(SAMPLES[name])[0])
    other = again(path, tmp_path / "b.gguf")
    with open_gguf(path) as first, open_gguf(other) as second:
        assert list(first.metadata) == list(second.metadata)
        assert all(same(first.metadata[key], second.metadata[key]) for key in first.metadata)
        assert value_types(first) == value_types(second)
        assert list(first.tensors) == list(second.tensors)
        for key in first.tensors:
            assert first.bytes_of(key) == second.bytes_of(key)
            assert first.tensors[key].shape == second.tensors[key].shape
        assert differences(second, other, package) == []
    assert again(other, tmp_path / "c.gguf").read_bytes() == other.read_bytes()


def test_every_element_of_the_format_is_written(tmp_path: Path, package: Any) -> None:
    names = [*FORMATS, "f32", "f16", "bf16", "f64", "i8", "i16", "i32", "i64"]
    tensors = [tensor(name, name, 3, FORMATS[name].columns if name in FORMATS else 7) for name in names]
    write_gguf(tmp_path / "all.gguf", {}, tensors)
    with open_gguf(tmp_path / "all.gguf") as checkpoint:
        assert {name: checkpoint.tensors[name].element.name for name in names} == {name: name for name in names}
        assert all(checkpoint.bytes_of(made.name) == made.read() for made in tensors)
    known = [made for made in tensors if made.name != "q2_0"]
    write_gguf(tmp_path / "known.gguf", {}, known)
    with open_gguf(tmp_path / "known.gguf") as checkpoint:
        assert differences(checkpoint, tmp_path / "known.gguf", package) == []


def test_the_gguf_package_writes_the_same_bytes(tmp_path: Path, package: Any) -> None:
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    writer = package.GGUFWriter(tmp_path / "theirs.gguf", "toy")
    writer.add_uint32("toy.count", 7)
    writer.add_float32("toy.eps", 1e-5)
    writer.add_bool("toy.yes", True)
    writer.add_string("toy.name", "\u00e9")
    writer.add_array("toy.words", ["a", "bc"])
    writer.add_tensor("w", weights)
    writer.add_tensor("v", weights[0].astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    facts: dict[str, Value] = {
        "general.architecture": "toy",
        "toy.count": 7,
        "toy.eps": float(np.float32(1e-5)),
        "toy.yes": True,
        "toy.name": "\u00e9",
        "toy.words": ["a", "bc"],
    }
    rows = [
        Stored("w", ELEMENTS["f32"], (3, 4), lambda: weights.tobytes()),
        Stored("v", ELEMENTS["f16"], (4,), lambda: weights[0].astype("<f2").tobytes()),
    ]
    write_gguf(tmp_path / "ours.gguf", facts, rows)
    assert (tmp_path / "ours.gguf").read_bytes() == (tmp_path / "theirs.gguf").read_bytes()


VALUES: st.SearchStrategy[Value] = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.floats(width=32),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=4),
    st.sampled_from(["u1", "i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f4", "<f8", "?"]).flatmap(
        lambda kind: st.lists(st.integers(0, 1), max_size=5).map(lambda values: np.array(values, kind))
    ),
)


@settings(max_examples=60, deadline=None)
@given(facts=st.dictionaries(st.text("abc.\u00e9", min_size=1, max_size=9), VALUES, max_size=6))
def test_any_metadata_is_read_back_equal(facts: dict[str, Value], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("any") / "any.gguf"
    write_gguf(path, facts, [])
    with open_gguf(path) as checkpoint:
        assert list(checkpoint.metadata) == list(facts)
        assert all(same(checkpoint.metadata[key], facts[key]) for key in facts)


def test_numbers_get_the_first_element_that_holds_them(tmp_path: Path) -> None:
    numbers = {"a": 2**32 - 1, "b": -1, "c": 2**32, "d": -(2**40), "e": 0.5, "f": 0.1, "g": float("nan"), "h": True}
    write_gguf(tmp_path / "m.gguf", numbers, [])
    with open_gguf(tmp_path / "m.gguf") as checkpoint:
        found = list(value_types(checkpoint).values())
    assert found == ["u32", "i32", "u64", "i64", "f32", "f64", "f32", "bit"]


def toy(name: str = "w", element: str = "f32", shape: tuple[int, ...] = (4,), size: int | None = None) -> Stored:
    """A tensor that may be wrong."""
    made = Stored(name, ELEMENTS[element], shape, bytes)
    return Stored(name, ELEMENTS[element], shape, lambda: bytes(made.size if size is None else size))


REFUSED: dict[str, tuple[str, str, dict[str, Any], list[Stored], dict[str, str]]] = {
    "key empty": ("F147", "0 bytes", {"": 1}, [], {}),
    "key long": ("F147", "65536 bytes", {"k" * 65536: 1}, [], {}),
    "surrogate": ("F147", "UTF-8", {"k": "\ud800"}, [], {}),
    "whole too large": ("F147", "64 bits", {"k": 2**64}, [], {}),
    "no u8": ("F147", "256, which is no u8", {"k": 256}, [], {"k": "u8"}),
    "no f32": ("F147", "0.1, which is no f32", {"k": 0.1}, [], {"k": "f32"}),
    "no whole": ("F147", "no u32", {"k": 1.0}, [], {"k": "u32"}),
    "no truth": ("F147", "no bit", {"k": 1}, [], {"k": "bit"}),
    "list of numbers": ("F147", "strings", {"k": [1, 2]}, [], {}),
    "matrix": ("F147", "2 dimensions", {"k": np.zeros((2, 2))}, [], {}),
    "halves": ("F147", "float16", {"k": np.zeros(2, np.float16)}, [], {}),
    "alignment": ("F147", "power of two", {"general.alignment": 48}, [], {}),
    "alignment true": ("F147", "power of two", {"general.alignment": True}, [], {}),
    "string long": ("F147", "4194305 bytes", {"k": "v" * 4194305}, [], {}),
    "keys": ("F147", "65537 keys", {str(i): 1 for i in range(65537)}, [], {}),
    "name empty": ("F148", "0 bytes", {}, [toy("")], {}),
    "name long": ("F148", "65 bytes", {}, [toy("n" * 65)], {}),
    "twice": ("F148", "twice", {}, [toy(), toy()], {}),
    "element": ("F148", "holds u8", {}, [toy(element="u8")], {}),
    "rank 0": ("F148", "shape []", {}, [toy(shape=())], {}),
    "rank 5": ("F148", "4 dimensions", {}, [toy(shape=(1, 1, 1, 1, 1))], {}),
    "size 0": ("F148", "shape [0]", {}, [toy(shape=(0,))], {}),
    "row": ("F148", "multiple of 32", {}, [toy(element="q8_0", shape=(2, 48))], {}),
    "bytes": ("F148", "15 bytes; its shape needs 16", {}, [toy(size=15)], {}),
    "tensors": ("F148", "65537", {}, [toy(str(i)) for i in range(65537)], {}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_file_can_hold_is_refused(name: str, tmp_path: Path) -> None:
    code, word, metadata, tensors, types = REFUSED[name]
    (tmp_path / "m.gguf").write_bytes(b"before")
    with pytest.raises(BitternError) as caught:
        write_gguf(tmp_path / "m.gguf", metadata, tensors, types)
    assert (caught.value.code, word in caught.value.what) == (code, True), str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["m.gguf"], "nothing is left behind"
    assert (tmp_path / "m.gguf").read_bytes() == b"before"


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(BitternError) as caught:
        write_gguf(tmp_path / "missing" / "m.gguf", {}, [])
    assert caught.value.code == "F149"
    (tmp_path / "m.gguf").mkdir()
    with pytest.raises(BitternError, match="F149"):
        write_gguf(tmp_path / "m.gguf", {}, [])
    assert [path.name for path in tmp_path.iterdir()] == ["m.gguf"]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_tensor_that_fails_leaves_the_old_file(at: int, tmp_path: Path) -> None:
    def fails() -> bytes:
        raise BitternError("F105", "The file changed.", "Open it again.")

    (tmp_path / "m.gguf").write_bytes(b"before")
    rows = [toy(f"w{i}") for i in range(3)]
    rows[at] = Stored(f"w{at}", ELEMENTS["f32"], (4,), fails)
    with pytest.raises(BitternError, match="F105"):
        write_gguf(tmp_path / "m.gguf", {}, rows)
    assert (tmp_path / "m.gguf").read_bytes() == b"before" and len(list(tmp_path.iterdir())) == 1


def wrong_offsets(tensors: Any, alignment: int) -> Any:
    """Planted fault: offsets are not rounded up."""
    return _TABLE([Stored(t.name, t.element, t.shape, t.read) for t in tensors], 1)


def wrong_order(key: str, value: Value, element: str | None) -> bytes:
    """Planted fault: numbers are big-endian."""
    made = _PAIR(key, value, element)
    return made[:4] + made[4:][::-1]


_TABLE, _PAIR = gguf_write._table, gguf_write._pair


@pytest.mark.parametrize(("name", "wrong"), [("_table", wrong_offsets), ("_pair", wrong_order)])
def test_planted_faults_are_seen(
    name: str, wrong: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gguf_write, name, wrong)
    write_gguf(tmp_path / "m.gguf", {"k": 258}, [toy("a", shape=(3,)), toy("b")])
    try:
        with open_gguf(tmp_path / "m.gguf") as checkpoint:
            assert checkpoint.metadata["k"] != 258
    except BitternError as error:
        assert error.code in ("F138", "F140")


def test_a_model_written_again_is_the_same_model(tmp_path: Path) -> None:
    from bittern.runtime.bringup import bring_up

    path = tiny_models.save(tmp_path, tiny_models.llama())
    other = again(path, tmp_path / "again.gguf")
    reports = [bring_up(p, tokens=[1, 2], count=2, chips=["vm"]) for p in (path, other)]
    assert reports[0].graph == reports[1].graph
    assert reports[0].chips[0].logits_sha256 == reports[1].chips[0].logits_sha256
