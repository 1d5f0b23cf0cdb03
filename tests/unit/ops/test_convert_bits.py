"""Values from bits, bytes and packed codes, against Python's ints; a part of `ops/convert`."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_cases import (
    FLOATS,
    SMALL,
    WIDE,
    array,
    codes_of,
    edgy,
    evaluate,
    everything,
    with_meaning,
    wrapped,
)

from bittern.ops.table import OPS
from bittern.types.dims import dim
from bittern.types.elements import B1, BF16, BIT, ELEMENTS, F16, F32, F64, I8, I64, U8, U32, T

INTEGERS = SMALL + WIDE
E4M3 = ELEMENTS["f8_e4m3"]
ORDER = list(FLOATS)


def test_from_bits_of_equal_width() -> None:
    for to in [*INTEGERS, *(ELEMENTS[name] for name in ORDER)]:
        source = ELEMENTS[f"u{to.bits}"]
        codes = everything(source) if to.bits <= 8 else edgy(source, 300, 9)
        if to.name == "f32":
            codes += [0x7FA00001, 0xFFC00123]
        got = evaluate("from_bits", [source], array(source, codes), to=to)
        if to.is_float:
            assert codes_of(to, got) == codes, to.name
        else:
            assert got.tolist() == [wrapped(to, c) for c in codes], to.name


def test_from_bits_of_bytes() -> None:
    """The last axis is one value, its low byte first; also of slices, steps and broadcasts."""
    rng = random.Random(10)
    for to in [*WIDE, *(ELEMENTS[name] for name in ORDER[2:])]:
        size = to.bits // 8
        data = np.array([[rng.randrange(256) for _ in range(3 * size + 2)] for _ in range(6)], np.uint8)
        for view in (
            data[:, :size],
            data[:, 1 : size + 1],
            data[::2, : 2 * size : 2],
            data[:, size - 1 :: -1][:, :size],
        ):
            got = evaluate("from_bits", [U8], view, to=to)
            meant = [int.from_bytes(bytes(row), "little") for row in view]
            assert [c % (1 << to.bits) for c in codes_of(to, got)] == meant, to.name
        same = np.broadcast_to(np.array([[0x11]], np.uint8), (2, size))
        assert codes_of(to, evaluate("from_bits", [U8], same, to=to)) == [int("11" * size, 16)] * 2


def test_arrays_without_elements() -> None:
    for rows in ((0, 4), (3, 0, 4)):
        assert evaluate("from_bits", [U8], np.zeros(rows, np.uint8), to=F32).size == 0
    for to in (I8, I64, F16, BF16, E4M3):
        assert evaluate("round", [F64], np.zeros((2, 0)), to=to).size == 0


def test_from_bits_of_codes() -> None:
    assert evaluate("from_bits", [BIT], np.array([False, True]), to=B1).tolist() == [-1, 1]
    u2 = ELEMENTS["u2"]
    assert evaluate("from_bits", [u2], array(u2, [0, 1, 2, 3]), to=T).tolist() == [-1, 0, 1, 0]
    assert evaluate("from_bits", [U8], array(U8, [0, 1, 2, 3]), to=T).tolist() == [-1, 0, 1, 0]
    assert evaluate("from_bits", [U8], array(U8, [0, 1]), to=B1).tolist() == [-1, 1]


def packed(codes: list[int], width: int) -> list[int]:
    """The bytes of one long number whose lowest bits are element 0."""
    number = sum((code % (1 << width)) << (width * i) for i, code in enumerate(codes))
    return list(number.to_bytes((len(codes) * width + 7) // 8, "little"))


def test_pack_and_unpack() -> None:
    """Element 0 in the low bits, spare bits 0, and they are not read; every width and every small count."""
    for e in [*SMALL, BIT, B1, T]:
        for count in (0, 1, 2, 3, 5, 7, 8, 9, 16, 31):
            rng = random.Random(count)
            codes = [rng.randrange(1 << e.bits) for _ in range(count)]
            if e is BIT:
                values: list[int] = codes
            elif e is B1:
                values = [2 * c - 1 for c in codes]
            elif e is T:
                codes = [c % 3 for c in codes]
                values = [c - 1 for c in codes]
            else:
                values = [wrapped(e, c) for c in codes]
            stored = np.array(values).astype(e.storage)
            data = evaluate("pack", [e], stored, bits=e.bits)
            assert data.tolist() == packed(codes, e.bits), (e.name, count)
            dirty = data.copy()
            if count * e.bits % 8:
                dirty[-1] |= 0xFF << (count * e.bits % 8) & 0xFF
            got = evaluate("unpack", [U8], dirty, to=e, count=dim(count))
            assert got.tolist() == stored.tolist(), (e.name, count)
    assert evaluate("pack", [U8], array(U8, [0xFF, 0x12]), bits=4).tolist() == [0x2F]


def test_small_batches_of_packed_codes() -> None:
    rows = np.arange(2 * 3 * 5, dtype=np.uint8).reshape(2, 3, 5) % 8
    u3 = ELEMENTS["u3"]
    data = evaluate("pack", [u3], rows, lead=2, bits=3)
    assert data.shape == (2, 3, 2)
    assert data[1, 2].tolist() == evaluate("pack", [u3], rows[1, 2].copy(), bits=3).tolist()
    again = evaluate("unpack", [U8], data, lead=2, to=u3, count=dim(5))
    assert again.tolist() == rows.tolist()
    bytes_ = np.arange(24, dtype=np.uint8).reshape(3, 1, 2, 4)
    floats = evaluate("from_bits", [U8], bytes_, lead=2, to=F32)
    assert floats.shape == (3, 1, 2)
    assert floats[1, 0].tobytes() == evaluate("from_bits", [U8], bytes_[1, 0].copy(), to=F32).tobytes()


def test_ideal_from_bits_decodes() -> None:
    got = evaluate("from_bits", [U8], np.array([[0x66, 0x2E]], np.uint8), ideal=True, to=F16)
    assert got.dtype == np.float64 and got.tolist() == [float(np.array([0x2E66], np.uint16).view(np.float16)[0])]
    assert evaluate("from_bits", [U8], array(U8, [0x39]), ideal=True, to=E4M3).tolist() == [1.125]
    assert evaluate("from_bits", [U32], array(U32, [0x40000000]), ideal=True, to=F32).tolist() == [2.0]
    assert evaluate("from_bits", [U32], np.array([2.0**30]), ideal=True, to=F32).tolist() == [2.0]
    assert evaluate("from_bits", [U8], array(U8, [255]), ideal=True, to=I8).tolist() == [-1]


def _last_byte_first(site: Any, x: Any) -> Any:
    return FROM_BITS(site, x[..., ::-1])


def _last_code_first(site: Any, x: Any) -> Any:
    return PACK(site, x[..., ::-1])


def _unpack_high_bits_first(site: Any, x: Any) -> Any:
    swapped = np.packbits(np.unpackbits(x, axis=-1, bitorder="little"), axis=-1, bitorder="big")
    return UNPACK(site, swapped)


FROM_BITS, PACK, UNPACK = (OPS[name].meaning for name in ("from_bits", "pack", "unpack"))
FAULTS: list[tuple[str, Any, Callable[[], None]]] = [
    ("from_bits", _last_byte_first, test_from_bits_of_bytes),
    ("from_bits", lambda s, x: np.where(x == 0, -1, 1).astype(np.int8), test_from_bits_of_codes),
    ("pack", _last_code_first, test_pack_and_unpack),
    ("unpack", _unpack_high_bits_first, test_pack_and_unpack),
]


@pytest.mark.parametrize("place", range(len(FAULTS)))
def test_planted_faults_are_found(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    name, wrong, check = FAULTS[place]
    with_meaning(monkeypatch, name, wrong)
    with pytest.raises(AssertionError):
        check()
