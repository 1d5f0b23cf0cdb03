"""Reading arrays: numpy's files and IDX, whole or refused, whatever the bytes."""

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bittern.base.errors import BitternError
from bittern.front.arrays import read_array

IDX = b"\0\0\x08\x02" + struct.pack(">II", 2, 3) + bytes(range(6))


def _written(tmp_path: Path, name: str, data: bytes) -> Path:
    (tmp_path / name).write_bytes(data)
    return tmp_path / name


@pytest.mark.parametrize("packed", [False, True])
def test_idx(tmp_path: Path, packed: bool) -> None:
    path = _written(tmp_path, "x", gzip.compress(IDX) if packed else IDX)
    assert read_array(path).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_idx_numbers_are_high_byte_first(tmp_path: Path) -> None:
    data = b"\0\0\x0d\x01" + struct.pack(">I", 2) + struct.pack(">ff", 1.5, -2)
    found = read_array(_written(tmp_path, "x", data))
    assert found.tolist() == [1.5, -2] and found.dtype == np.dtype(np.float32)


def test_numpy_files(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.int16).reshape(2, 3)
    np.save(tmp_path / "a.npy", values)
    np.savez(tmp_path / "one.npz", only=values)
    np.savez(tmp_path / "two.npz", first=values, second=values + 1)
    assert np.array_equal(read_array(tmp_path / "a.npy"), values)
    assert np.array_equal(read_array(tmp_path / "one.npz"), values)
    assert np.array_equal(read_array(tmp_path / "two.npz", "second"), values + 1)
    for name in ("", "secnd"):
        with pytest.raises(BitternError, match="second") as refused:
            read_array(tmp_path / "two.npz", name)
        assert refused.value.code == "N463"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GARBAGE!",
        IDX[:-1],
        IDX + b"\0",
        IDX[:6],
        b"\0\0\x08\x03" + struct.pack(">III", 1 << 31, 1 << 31, 4),
        gzip.compress(IDX, mtime=0)[:-9],
        b"\x1f\x8b" + bytes(9),
        b"PK\x03\x04" + bytes(40),
        b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f8'}",
    ],
    ids=range(10),
)
def test_damaged_files_are_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(BitternError) as refused:
        read_array(_written(tmp_path, "x", data))
    assert refused.value.code == "N462"


def test_pickles_are_never_run(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.array([{"a": 1}], object), allow_pickle=True)
    np.savez(tmp_path / "p.npz", x=np.array([{"a": 1}], object))
    _written(tmp_path, "raw.npy", pickle.dumps([1, 2]))
    for name in ("p.npy", "p.npz", "raw.npy"):
        with pytest.raises(BitternError) as refused:
            read_array(tmp_path / name)
        assert refused.value.code == "N462"


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(BitternError) as refused:
        read_array(tmp_path / "none")
    assert refused.value.code == "N461"


@given(st.integers(0, len(IDX) - 1), st.integers(0, 255))
def test_changed_bytes_give_an_array_or_a_refusal(place: int, byte: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = _written(Path(folder), "x", IDX[:place] + bytes([byte]) + IDX[place + 1 :])
        try:
            assert read_array(path).nbytes <= len(IDX)
        except BitternError as refused:
            assert refused.code == "N462"
