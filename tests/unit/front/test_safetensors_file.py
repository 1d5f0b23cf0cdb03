"""Safetensors files: what the format's own library reads is read alike; each lie has its code."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bittern.base.errors import BitternError
from bittern.front.checkpoint import MappedFile
from bittern.front.safetensors_file import read_safetensors

GOOD: dict[str, Any] = {
    "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
    "b": {"dtype": "BF16", "shape": [4], "data_offsets": [16, 24]},
}


def _bytes(header: Any, data: bytes = bytes(24), length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def _read(folder: Path, data: bytes) -> Any:
    path = folder / "model.safetensors"
    path.write_bytes(data)
    file = MappedFile(path)
    try:
        return read_safetensors(file)
    finally:
        file.close()


def _row(**changes: Any) -> dict[str, Any]:
    return {"a": GOOD["a"] | changes, "b": GOOD["b"]}


BROKEN = {
    "short": (b"1234567", "F150"),
    "length_negative": (_bytes(GOOD, length=(1 << 64) - 8), "F151"),
    "length_huge": (_bytes(GOOD, length=1 << 40), "F151"),
    "length_past_end": (_bytes(GOOD, length=500), "F151"),
    "length_zero": (_bytes(GOOD, length=0), "F151"),
    "not_json": (_bytes(b"{" * 40), "F152"),
    "not_an_object": (_bytes(b"[1, 2]"), "F152"),
    "blank_before": (_bytes(b" " + json.dumps(GOOD).encode()), "F152"),
    "not_utf8": (_bytes(b'{"\xff": 1}'), "F152"),
    "not_a_number": (_bytes(b'{"a": NaN}'), "F152"),
    "too_deep": (_bytes(b'{"a":' + b"[" * 60000 + b"]" * 60000 + b"}"), "F152"),
    "name_twice": (_bytes(b'{"a": 1, "a": 2}'), "F153"),
    "key_twice": (_bytes(b'{"a": {"dtype": "F32", "dtype": "F16"}}'), "F153"),
    "row_is_a_number": (_bytes({"a": 3}), "F154"),
    "no_offsets": (_bytes({"a": {"dtype": "F32", "shape": [1]}}), "F154"),
    "more_keys": (_bytes(_row(strides=[1])), "F154"),
    "three_offsets": (_bytes(_row(data_offsets=[0, 16, 24])), "F154"),
    "offset_is_a_float": (_bytes(_row(data_offsets=[0.0, 16])), "F154"),
    "offset_is_negative": (_bytes(_row(data_offsets=[-16, 0])), "F154"),
    "offset_is_true": (_bytes(_row(data_offsets=[False, 16])), "F154"),
    "unknown_type": (_bytes(_row(dtype="F33")), "F155"),
    "type_is_a_number": (_bytes(_row(dtype=4)), "F155"),
    "type_not_read": (_bytes(_row(dtype="C64")), "F156"),
    "negative_size": (_bytes(_row(shape=[-2, -2])), "F157"),
    "zero_size": (_bytes(_row(shape=[0, 4])), "F157"),
    "shape_wraps": (_bytes(_row(shape=[1 << 32, 1 << 32])), "F158"),
    "too_many_dimensions": (_bytes(_row(shape=[1] * 9)), "F157"),
    "size_lies": (_bytes(_row(shape=[2, 3])), "F158"),
    "past_the_end": (_bytes(GOOD, bytes(20)), "F159"),
    "ends_before_it_begins": (_bytes(_row(data_offsets=[16, 0])), "F159"),
    "overlap": (_bytes({"a": GOOD["a"], "b": GOOD["b"] | {"data_offsets": [8, 16]}}, bytes(16)), "F160"),
    "same_place": (_bytes({"a": GOOD["a"], "b": GOOD["a"]}, bytes(16)), "F160"),
    "hole": (_bytes({"a": GOOD["a"], "b": GOOD["b"] | {"data_offsets": [20, 28]}}, bytes(28)), "F161"),
    "hole_in_front": (_bytes({"b": GOOD["b"]}), "F161"),
    "trailing": (_bytes(GOOD, bytes(25)), "F162"),
    "metadata_of_numbers": (_bytes({"__metadata__": {"format": 1}} | GOOD), "F163"),
    "empty_name": (_bytes({"": GOOD["a"]}, bytes(16)), "F164"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files(name: str, tmp_path: Path) -> None:
    """EDGE_CASES E4: overlapping tensors, duplicate keys, negative header length, holes, trailing bytes."""
    data, code = BROKEN[name]
    with pytest.raises(BitternError) as caught:
        _read(tmp_path, data)
    assert caught.value.code == code, caught.value
    assert "`model.safetensors`" in caught.value.what


def test_a_good_file(tmp_path: Path) -> None:
    found = _read(tmp_path, _bytes({"__metadata__": {"format": "pt"}} | GOOD))
    assert [(info.name, str(info.element), info.shape) for info in found.values()] == [
        ("a", "f32", (2, 2)),
        ("b", "bf16", (4,)),
    ]
    assert found["b"].offset - found["a"].offset == 16


def test_the_library_reads_the_same(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy", reason="the oracle needs `safetensors`")
    rng = np.random.default_rng(1)
    rows = {f"x{n}": rng.standard_normal((n + 1, 3)).astype("<f4") for n in range(5)}
    rows |= {"codes": rng.integers(0, 9, 7).astype(np.uint8), "one": np.array(3.5, np.float32)}
    data = numpy.save(rows)
    found = _read(tmp_path, data)
    assert set(found) == set(rows)
    for name, array in rows.items():
        info = found[name]
        assert data[info.offset : info.offset + info.size] == array.tobytes() and info.shape == array.shape


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_mutated_files_are_refused_or_read_alike(data: st.DataObject) -> None:
    """A file that is accepted is accepted by the library too, with the same tensors: stricter, never looser."""
    import tempfile

    package = pytest.importorskip("safetensors", reason="the oracle needs `safetensors`")
    raw = bytearray(_bytes(GOOD))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.sampled_from([*b'0123456789{}[],":-abF ', 0, 255]))
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = _read(Path(folder), bytes(raw))
        except BitternError as error:
            assert "F149" < error.code < "F165", error
            return
        theirs = package.deserialize(bytes(raw))
    assert {name: tuple(row["shape"]) for name, row in theirs} == {name: info.shape for name, info in found.items()}
