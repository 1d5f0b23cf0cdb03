"""Fields of words: 8-bit words over all inputs, with every field, against strings of digits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from std_oracle import Array

FIELDS = [(low, width) for low in range(9) for width in range(10)]


def every(*axes: Any) -> list[Array]:
    """All combinations of some values."""
    return [v.ravel() for v in np.meshgrid(*axes, indexing="ij")]


def digits(x: int) -> list[int]:
    """The 8 bits of a byte, low first."""
    return [x >> i & 1 for i in range(8)]


def number(bits: list[int]) -> int:
    """The byte with these bits."""
    return sum(b << i for i, b in enumerate(bits))


@pytest.mark.covers("fields.low_mask", "fields.field_mask", "fields.extract_field")
def test_masks_and_extraction(run: Any) -> None:
    low, width = (np.array(v, np.uint32) for v in zip(*FIELDS, strict=True))
    mask = [number([int(a <= i < a + w) for i in range(8)]) for a, w in FIELDS]
    assert run.rows("fields.field_mask", "u32, u32 -> u8", low, width, call="field_mask[u8](a, b)").tolist() == mask
    got = run.rows("fields.low_mask", "u32 -> u8", width, call="low_mask[u8](a)").tolist()
    assert got == [min(2**w, 256) - 1 for _, w in FIELDS]
    x, at = every(np.arange(256, dtype=np.uint8), np.arange(len(FIELDS)))
    got = run.rows("fields.extract_field", "u8, u32, u32 -> u8", x, low[at], width[at])
    expected = [number((digits(v)[FIELDS[i][0] :] + [0] * 8)[: FIELDS[i][1]][:8]) for v, i in zip(x, at, strict=True)]
    assert got.tolist() == expected


@pytest.mark.covers("fields.sign_extend")
def test_sign_extension(run: Any) -> None:
    x, width = every(np.arange(-128, 128, dtype=np.int8), np.arange(1, 9, dtype=np.uint32))
    expected = [(v % 2**w) - (2**w if v >> (w - 1) & 1 else 0) for v, w in zip(x.tolist(), width.tolist(), strict=True)]
    assert run.rows("fields.sign_extend", "i8, u32 -> i8", x, width).tolist() == expected
    assert run.rows("fields.sign_extend", "i8, u32 -> i8", x, 0 * width).tolist() == [0] * len(x)
    wide = np.array([0xFFF, 0x800, 0x7FF, -1], np.int64)
    assert run.rows("fields.sign_extend", "i64, u32 -> i64", wide, np.full(4, 12, np.uint32)).tolist() == [
        -1,
        -2048,
        2047,
        -1,
    ]


@pytest.mark.covers("fields.insert_field", "fields.merge_bits")
def test_insertion(run: Any) -> None:
    rng = np.random.default_rng(2)
    at, x, value = every(np.arange(len(FIELDS)), rng.integers(0, 256, 12), rng.integers(0, 256, 12))
    low, width = (np.array(v, np.uint32)[at] for v in zip(*FIELDS, strict=True))
    got = run.rows(
        "fields.insert_field", "u8, u8, u32, u32 -> u8", x.astype(np.uint8), value.astype(np.uint8), low, width
    )
    expected = []
    for i, v, w in zip(at, x.tolist(), value.tolist(), strict=True):
        first, size = FIELDS[i]
        bits = digits(v)
        for j in range(size):
            if first + j < 8:
                bits[first + j] = (w >> j) & 1
        expected.append(number(bits))
    assert got.tolist() == expected
    a, b, mask = (v.astype(np.uint8) for v in every(np.arange(0, 256, 17), np.arange(0, 256, 15), np.arange(256)))
    expected = [
        number([q if m else p for p, q, m in zip(*map(digits, v), strict=True)])
        for v in zip(a.tolist(), b.tolist(), mask.tolist(), strict=True)
    ]
    assert run.rows("fields.merge_bits", "u8, u8, u8 -> u8", a, b, mask).tolist() == expected


@pytest.mark.covers("fields.test_bit", "fields.write_bit")
def test_single_bits(run: Any) -> None:
    x, i, value = every(np.arange(256, dtype=np.uint8), np.arange(9, dtype=np.uint32), np.array([False, True]))
    got = run.rows("fields.test_bit", "u8, u32 -> bit", x, i)
    assert got.tolist() == [bool([*digits(v), 0][p]) for v, p in zip(x, i, strict=True)]
    got = run.rows("fields.write_bit", "u8, u32, bit -> u8", x, i, value)
    cases = zip(x, i, value, strict=True)
    expected = [number([int(b) if j == p else d for j, d in enumerate(digits(v))]) for v, p, b in cases]
    assert got.tolist() == expected


@pytest.mark.covers("fields.gather_bits", "fields.scatter_bits")
def test_gather_and_scatter(run: Any) -> None:
    rng = np.random.default_rng(3)
    for _ in range(4):
        places = rng.permutation(8)[:5].astype(np.uint32)
        x = np.arange(256, dtype=np.uint8)
        many = np.tile(places, (256, 1))
        got = run.rows("fields.gather_bits", "u8, u32[5] -> u8", x, many)
        assert got.tolist() == [number([digits(v)[p] for p in places]) for v in range(256)]
        got = run.rows("fields.scatter_bits", "u8, u32[5] -> u8", x, many)
        expected = [sum((v >> i & 1) << int(p) for i, p in enumerate(places)) for v in range(256)]
        assert got.tolist() == expected
    twice = run("fields.scatter_bits", np.uint8(0b01), np.array([3, 3, 9], np.uint32), dims=(3,), elements={"e": "u8"})
    assert int(twice) == 8


@pytest.mark.covers("fields.spread_signs")
def test_spread_signs(run: Any) -> None:
    data = np.random.default_rng(4).integers(0, 256, (64, 8), np.uint8)
    got = run.rows("fields.spread_signs", "u64 -> u64", data.view("<u8")[:, 0])
    assert np.array_equal(got.view(np.uint8).reshape(64, 8), np.where(data >= 128, 255, 0))


FAULTS = [
    ("(e(1) << width) - 1", "e(1) << width - 1", test_masks_and_extraction),
    ("^ sign) - sign", "^ sign) + sign", test_sign_extension),
    ("value << low & mask", "value << low", test_insertion),
    ("y | (x >> p & 1) << i", "y ^ (x >> i & 1) << i", test_gather_and_scatter),
]


@pytest.mark.parametrize(("old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(edited: Callable[..., Any], old: str, new: str, check: Callable[[Any], None]) -> None:
    with pytest.raises(AssertionError):
        check(edited("fields.btn", old, new))
