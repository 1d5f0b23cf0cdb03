"""Ternary matrices by blocks: the codes and scales of the library's own definition, made when they are read."""

import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from bittern.base.errors import BitternError
from bittern.front import ternary
from bittern.front.bound import Origin
from bittern.front.checkpoint import Checkpoint
from bittern.front.gguf import open_gguf
from bittern.front.gguf_write import Stored, write_gguf
from bittern.types.elements import ELEMENTS

ROWS, BLOCKS = 24, 3
SIZES = {"tq2_0": 66, "tq1_0": 54}


def _checkpoint(folder: Path, element: str, stored: npt.NDArray[np.uint8]) -> Checkpoint:
    path = folder / f"{element}.gguf"
    shape = (len(stored), stored.shape[1] * 256)
    write_gguf(path, {"general.architecture": "x"}, [Stored("m.weight", ELEMENTS[element], shape, stored.tobytes)])
    return open_gguf(path)


def _random(element: str, seed: int) -> npt.NDArray[np.uint8]:
    """Return random blocks whose rows have one magnitude each, with either sign, blocks of 0 and a scale of 0."""
    rng = np.random.default_rng(seed)
    made = np.zeros((ROWS, BLOCKS, SIZES[element]), np.uint8)
    if element == "tq2_0":
        digits = rng.integers(0, 3, (ROWS, BLOCKS, 64, 4), dtype=np.uint8)
        made[..., :-2] = (digits << np.array([0, 2, 4, 6], np.uint8)).sum(axis=-1, dtype=np.uint8)
        made[3, 1, :-2] = 0x55  # all codes 0
    else:
        made[..., :-2] = rng.integers(0, 256, (ROWS, BLOCKS, 52), dtype=np.uint8)
    scales = rng.uniform(0.01, 2, (ROWS, 1)) * rng.choice([-1, 1], (ROWS, BLOCKS))
    scales[5], scales[6, 1] = 0, 0
    scales[3, 1] = 7 if element == "tq2_0" else scales[3, 1]
    made[..., -2:] = scales.astype("<f2")[..., None].view(np.uint8)
    return made


@pytest.mark.parametrize("element", ["tq2_0", "tq1_0"])
@pytest.mark.parametrize("seed", range(4))
def test_blocks_give_what_the_library_defines(
    element: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ternary, "_STEP", 7 * BLOCKS)  # several steps, the last one shorter
    with _checkpoint(tmp_path, element, _random(element, seed)) as checkpoint:
        wanted = ternary._parted("m.weight", ternary._values(checkpoint, "m.weight", None))
        fast = ternary._of_blocks(checkpoint.array("m.weight"), element)
        assert fast is not None, "the quick way is taken"
        found = ternary.split(checkpoint, "m")
    for codes, scales in (fast, found):
        assert codes.dtype == np.int8 and np.array_equal(codes, wanted[0])
        assert scales.tobytes() == wanted[1].tobytes()
    assert {-1, 0, 1} == set(np.unique(wanted[0]).tolist())


def test_every_byte_of_digits_is_the_librarys(tmp_path: Path) -> None:
    stored = np.zeros((5, 1, 54), np.uint8)
    stored[..., :-2] = np.arange(260, dtype=np.uint16).astype(np.uint8).reshape(5, 1, 52)
    stored[..., -2:] = np.frombuffer(np.float16(1).tobytes(), np.uint8)
    with _checkpoint(tmp_path, "tq1_0", stored) as checkpoint:
        values = ternary._values(checkpoint, "m.weight", None)
        assert np.array_equal(ternary.split(checkpoint, "m")[0], values)


def test_the_comparison_sees_another_order_of_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _checkpoint(tmp_path, "tq2_0", _random("tq2_0", 1)) as checkpoint:
        wanted = ternary.split(checkpoint, "m")[0]
        right = ternary._pairs
        monkeypatch.setitem(ternary._DIGITS, "tq2_0", lambda stored: right(stored[..., ::-1]))
        assert not np.array_equal(ternary.split(checkpoint, "m")[0], wanted)


@pytest.mark.parametrize("fault", ["a code of 2", "two magnitudes"])
def test_what_is_not_ternary_is_refused(fault: str, tmp_path: Path) -> None:
    stored = _random("tq2_0", 2)
    if fault == "a code of 2":
        stored[9, 1, 5] |= 3
    else:
        stored[9, 1, -2:] = np.frombuffer(np.float16(3).tobytes(), np.uint8)
    with _checkpoint(tmp_path, "tq2_0", stored) as checkpoint, pytest.raises(BitternError) as caught:
        ternary.split(checkpoint, "m")
    assert caught.value.code == "M114" and "row 9" in caught.value.what


def test_codes_are_made_when_they_are_read(tmp_path: Path) -> None:
    with _checkpoint(tmp_path, "tq1_0", _random("tq1_0", 3)) as checkpoint:
        codes = ternary.split(checkpoint, "m")[0]
        origin = Origin("codes", "m", hashlib.sha256(codes.tobytes()).digest(), codes.size)
        blob = ternary.codes_blob(checkpoint, origin)
        assert bytes(blob.read()) == codes.tobytes() and blob.size == len(blob.read())
    with pytest.raises(BitternError) as caught:
        blob.read()
    assert caught.value.code == "F106", "nothing is held"


def test_letting_go_changes_no_byte(tmp_path: Path) -> None:
    stored = np.tile(_random("tq2_0", 4), (40, 1, 1))  # many pages
    with _checkpoint(tmp_path, "tq2_0", stored) as checkpoint:
        view = checkpoint.array("m.weight")
        checkpoint.let_go("m.weight")
        assert np.array_equal(view, stored)
