"""Codes of 1 to 7 bits are packed in a `.keg`: the layout of the file, the way back, and refusals of forged ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keg_files import forge, parts, refused

from bittern.graph.keg import keg_size, read_keg, stored_size, write_keg
from bittern.graph.keg_packing import pack, packed_size, packing, unpack
from bittern.graph.node import Function, Node, const, node
from bittern.types.elements import ELEMENTS
from bittern.types.values import Tuple

NARROW = [each.name for each in ELEMENTS.values() if not each.is_format and not each.is_float and each.bits < 8]
LENGTHS = (1, 2, 7, 8, 9, 31, 63, 64, 65, 127, 128, 1000)


def values(name: str, count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Return values of an element, its extremes among them."""
    element = ELEMENTS[name]
    drawn = np.random.default_rng(seed).integers(element.low, element.high + 1, count)
    drawn[:2] = np.array([element.low, element.high])[:count]
    return (np.where(drawn >= 0, 1, -1) if name == "b1" else drawn).astype(element.storage)


def held(*constants: Node) -> Function:
    """Return a function that returns these."""
    return Function(0, (), node("tuple", constants, {}, Tuple(tuple(each.type for each in constants))))


def number(words: bytes) -> int:
    return int.from_bytes(words, "little")


@pytest.mark.parametrize("name", NARROW)
def test_packing_is_the_sum_of_codes_times_powers_of_two(name: str) -> None:
    """The oracle is arithmetic on one large whole number."""
    element = ELEMENTS[name]
    for count in LENGTHS:
        given = values(name, count, count)
        codes = {"b1": (given > 0), "t": given + 1}.get(name, given.astype(np.int64) % (1 << element.bits))
        expected = sum(int(code) << (i * element.bits) for i, code in enumerate(codes))
        packed = pack(given.tobytes(), name)
        assert number(packed) == expected and len(packed) == packed_size(count, name) and len(packed) % 8 == 0
        assert unpack(packed, count, name) == given.tobytes()


@pytest.mark.req("C081")
@pytest.mark.parametrize("count", [64, 65, 640, 784 * 512])
def test_64_binary_weights_are_one_word_of_the_file(tmp_path: Path, count: int) -> None:
    given = values("b1", count)
    write_keg(tmp_path / "a.keg", {"w": held(const(given, ELEMENTS["b1"]))})
    header, blobs = parts(tmp_path / "a.keg")
    (row,) = header["blobs"]
    assert row[1:] == [count, 0, "b1"]
    words = np.frombuffer(blobs[: -(-count // 64) * 8], "<u8")
    for i in {0, 1, 63, count // 2, count - 1}:
        assert (int(words[i // 64]) >> (i % 64) & 1) == (given[i] == 1)
    (read,) = read_keg(tmp_path / "a.keg").functions["w"].result.inputs
    assert bytes(read["data"].read()) == given.tobytes()


def test_a_large_blob_is_unpacked_and_hashed_when_it_is_read(tmp_path: Path) -> None:
    given = values("i4", 5_000_001)
    function = held(const(given, ELEMENTS["i4"]))
    write_keg(tmp_path / "a.keg", {"w": function})
    read = read_keg(tmp_path / "a.keg").functions["w"]
    assert read.id == function.id and bytes(read.result.inputs[0]["data"].read()) == given.tobytes()
    header, blobs = parts(tmp_path / "a.keg")
    forge(tmp_path / "a.keg", header, bytes([blobs[0] ^ 1]) + blobs[1:])
    del function, read  # a constant is read from wherever it is known
    lazy = read_keg(tmp_path / "a.keg").functions["w"].result.inputs[0]["data"]
    with pytest.raises(Exception, match="F215"):
        lazy.read()


def test_the_size_is_known_without_writing(tmp_path: Path) -> None:
    arrays = {name: const(values(name, 777), ELEMENTS[name]) for name in NARROW}
    function = held(*arrays.values())
    write_keg(tmp_path / "a.keg", {"w": function}, notes={"made by": "a test"})
    assert (tmp_path / "a.keg").stat().st_size == keg_size({"w": function}, notes={"made by": "a test"})
    for name, each in arrays.items():
        assert stored_size(each["data"], [ELEMENTS[name]]) == -(-777 * ELEMENTS[name].bits // 64) * 8


def test_what_gains_nothing_is_stored_as_it_is() -> None:
    assert packing([ELEMENTS["b1"]], 8) is None and packing([ELEMENTS["b1"]], 9) == "b1"
    assert packing([ELEMENTS["u8"], ELEMENTS["f32"]], 1000) is None and packing([], 1000) is None
    assert packing([ELEMENTS["i8"], ELEMENTS["i4"], ELEMENTS["b1"]], 1000) == "b1", "the narrowest holds all of them"


def test_one_blob_of_two_elements_is_packed_once(tmp_path: Path) -> None:
    given = values("b1", 100)
    function = held(const(given, ELEMENTS["i8"]), const(given, ELEMENTS["b1"]))
    write_keg(tmp_path / "a.keg", {"w": function})
    assert [row[3] for row in parts(tmp_path / "a.keg")[0]["blobs"]] == ["b1"]
    assert read_keg(tmp_path / "a.keg").functions["w"].id == function.id


def test_a_file_of_before_reads_as_ever(tmp_path: Path) -> None:
    """A row of three fields holds a byte for each value, whatever its element is."""
    given = values("t", 100)
    function = held(const(given, ELEMENTS["t"]))
    write_keg(tmp_path / "a.keg", {"w": function})
    header, _ = parts(tmp_path / "a.keg")
    header["blobs"][0] = header["blobs"][0][:3]
    forge(tmp_path / "a.keg", header, given.tobytes().ljust(128, b"\0"))
    assert read_keg(tmp_path / "a.keg").functions["w"].id == function.id


def test_forged_packings_are_refused(tmp_path: Path) -> None:
    given, path = values("t", 100), tmp_path / "a.keg"
    write_keg(path, {"w": held(const(given, ELEMENTS["t"]))})
    header, blobs = parts(path)
    row = header["blobs"][0]
    for name in ("u8", "f32", "q4_0", "nothing", ""):
        header["blobs"][0] = [*row[:3], name]
        forge(path, header, blobs)
        refused(path, "F209", "packed by an element")
    header["blobs"][0] = [*row[:3], "u3"]
    forge(path, header, blobs)
    refused(path, "F215", "other bytes")
    header["blobs"][0] = row
    forge(path, header, b"\xff" + blobs[1:])
    refused(path, "F220", "the ternary code 3")
    forge(path, header, blobs[:25] + b"\x01" + blobs[26:])
    refused(path, "F220", "bits behind the last value")
    forge(path, header, bytes([blobs[0] ^ 1 if blobs[0] & 3 != 2 else blobs[0] ^ 2]) + blobs[1:])
    refused(path, "F215", "other bytes")


def test_a_planted_order_of_bits_is_caught() -> None:
    given = values("u3", 65)
    wrong = np.packbits(np.unpackbits(given[:, None], axis=1)[:, -3:].reshape(-1)).tobytes()
    assert pack(given.tobytes(), "u3")[: len(wrong)] != wrong
