"""Weights that are no numbers: each format's scales and each float are looked at, and the place is named."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import block_formats
import gguf_files as g
import numpy as np
import pytest
import tiny_models
from block_formats import FORMATS, put_scale

from bittern.base.errors import BitternError
from bittern.front import finite
from bittern.front.bind import bind_checkpoint
from bittern.front.finite import check_finite
from bittern.front.gguf import open_gguf
from bittern.lang.library import Library
from bittern.types.elements import FORMATS as ELEMENTS

LONG_AGO = 1_600_000_000
NOT_FINITE = np.array([np.inf, -np.inf, np.nan], np.float16)
FLOATS: dict[str, tuple[int, Callable[[float], bytes]]] = {
    "f32": (0, lambda x: np.array([x], "<f4").tobytes()),
    "f16": (1, lambda x: np.array([x], "<f2").tobytes()),
    "bf16": (30, lambda x: np.array([x], "<f4").tobytes()[2:]),
    "f64": (28, lambda x: np.array([x], "<f8").tobytes()),
}


def checked(folder: Path, number: int, sizes: tuple[int, ...], data: bytes) -> BitternError | None:
    """Write one tensor and return the error with which it is refused."""
    path = folder / "m.gguf"
    path.write_bytes(g.build(g.File((), (g.Row(b"w", sizes, number, data=data),)))[0])
    with open_gguf(path) as checkpoint:
        try:
            check_finite(checkpoint, "w")
        except BitternError as error:
            return error
    return None


@pytest.mark.parametrize("name", FORMATS)
def test_b17_a_scale_that_is_no_number_is_refused(name: str, tmp_path: Path) -> None:
    """Edge case B17: quantisers that divide by zero leave NaN blocks; they are refused by name before anything runs."""
    row = FORMATS[name]
    rng = np.random.default_rng(1)
    for which in range(len(row.halves)):
        for value in NOT_FINITE:
            made = block_formats.blocks(rng, name, 3, 4)
            for part in range(len(row.halves)):
                put_scale(name, made, np.full((3, 4), 65504.0), part)
            sizes = (4 * row.columns, 3)
            assert checked(tmp_path, row.number, sizes, made.tobytes()) is None, "every code is a number"
            put_scale(name, made[1:2, 2:3], np.full((1, 1), value), which)
            error = checked(tmp_path, row.number, sizes, made.tobytes())
            if name in ("mxfp4", "nvfp4"):  # whose scales are all finite
                assert error is None
            else:
                assert error is not None and error.code == "F108"
                assert f"`w`, {name}, the scale of block [1, 2]" in error.what


@pytest.mark.parametrize("name", FLOATS)
def test_a_value_that_is_no_number_is_refused(name: str, tmp_path: Path) -> None:
    number, encode = FLOATS[name]
    good = encode(-1.5) * 35
    assert checked(tmp_path, number, (7, 5), good) is None
    for value in (np.inf, -np.inf, np.nan):
        data = bytearray(good)
        size = len(good) // 35
        data[23 * size : 24 * size] = encode(value)
        error = checked(tmp_path, number, (7, 5), bytes(data))
        assert error is not None and error.code == "F108" and "the value at [3, 2]" in error.what


def test_integers_are_numbers(tmp_path: Path) -> None:
    for number, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        assert checked(tmp_path, number, (5,), b"\xff" * 5 * size) is None


def test_every_format_has_its_scales() -> None:
    assert {*finite._SCALES, "iq1_m"} == set(ELEMENTS)


def nan_model(folder: Path, tensor: str = "blk.1.ffn_up.weight") -> Path:
    """A model with one NaN scale."""
    data = tiny_models.llama("q8_0")
    path = tiny_models.save(folder, data)
    with open_gguf(path) as checkpoint:
        place = checkpoint.tensors[tensor].offset + 3 * 34
    path.write_bytes(data[:place] + b"\x00\x7e" + data[place + 2 :])
    return path


def test_a_model_with_such_a_block_is_not_bound(tmp_path: Path) -> None:
    with open_gguf(nan_model(tmp_path)) as checkpoint, pytest.raises(BitternError) as caught:
        bind_checkpoint(checkpoint, Library.standard())
    assert caught.value.code == "F108" and "`blk.1.ffn_up.weight`" in caught.value.what


def test_what_was_found_finite_is_remembered_with_the_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tiny_models.save(tmp_path, tiny_models.llama())
    os.utime(path, (LONG_AGO, LONG_AGO))
    for _ in range(2):
        with open_gguf(path, tmp_path / "cache") as checkpoint:
            bind_checkpoint(checkpoint, Library.standard())
            assert len(checkpoint.digests.finite) == len(checkpoint.tensors)
        monkeypatch.setattr(finite, "_wrong", None)  # nothing may be looked through again


def test_a_refused_tensor_is_not_remembered(tmp_path: Path) -> None:
    path = nan_model(tmp_path)
    os.utime(path, (LONG_AGO, LONG_AGO))
    for _ in range(2):
        with open_gguf(path, tmp_path / "cache") as checkpoint, pytest.raises(BitternError, match="F108"):
            bind_checkpoint(checkpoint, Library.standard())


def test_a_long_tensor_is_looked_through_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finite, "_STEP", 4)
    values = np.ones((5, 5), np.float32)
    values[4, 1] = np.nan
    error = checked(tmp_path, 0, (5, 5), values.tobytes())
    assert error is not None and "[4, 1]" in error.what


@pytest.mark.parametrize("name", ["q4_k", "iq1_m", "bf16"])
def test_planted_faults_are_seen(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan that looks elsewhere accepts what it must refuse."""
    monkeypatch.setitem(finite._SCALES, "q4_k", (0,))
    monkeypatch.setitem(finite._EXPONENTS, "bf16", 0x7FFF)
    if name == "iq1_m":
        whole = finite._wrong
        monkeypatch.setattr(finite, "_wrong", lambda info, rows: whole(info, np.roll(rows, 1, axis=1)))
    test: Any = (
        test_a_value_that_is_no_number_is_refused if name == "bf16" else (test_b17_a_scale_that_is_no_number_is_refused)
    )
    with pytest.raises(AssertionError):
        test(name, tmp_path)
