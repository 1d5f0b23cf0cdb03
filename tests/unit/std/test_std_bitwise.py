"""Bits of words: every 8-bit word and pair against Python integers, other widths by sampling."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from std_oracle import Array

BYTES = np.arange(256, dtype=np.uint8)
A, B = (v.ravel() for v in np.meshgrid(BYTES, BYTES, indexing="ij"))


def words(bits: int, seed: int = 5, count: int = 60) -> Array:
    """Edges and random words of a width."""
    rng = np.random.default_rng(seed)
    edges = [0, 1, 2, 3, 2 ** (bits - 1) - 1, 2 ** (bits - 1), 2 ** (bits - 1) + 1, 2**bits - 2, 2**bits - 1]
    drawn = [int(rng.integers(0, 2**64, dtype=np.uint64)) >> int(rng.integers(0, 64)) for _ in range(count)]
    return np.array(edges + [v % 2**bits for v in drawn], f"u{bits // 8}")


def unary(run: Any, name: str, result: str, oracle: Callable[[int, int], int]) -> None:
    """Compare a function of one word with Python at 8, 32 and 64 bits."""
    for x in (BYTES, words(32), words(64)):
        bits = 8 * x.dtype.itemsize
        got = run.rows(f"bitwise.{name}", f"u{bits} -> {result.replace('WORD', f'u{bits}')}", x)
        assert got.astype(object).tolist() == [oracle(int(v), bits) for v in x], (name, bits)


@pytest.mark.covers("bitwise.parity", "bitwise.is_power_of_two", "bitwise.floor_log2", "bitwise.ceil_log2")
@pytest.mark.covers("bitwise.next_power_of_two")
def test_logarithms_and_parity(run: Any) -> None:
    unary(run, "parity", "bit", lambda x, n: x.bit_count() % 2)
    unary(run, "is_power_of_two", "bit", lambda x, n: x in {1 << i for i in range(n)})
    unary(run, "floor_log2", "u32", lambda x, n: max(x.bit_length() - 1, 0))
    unary(run, "ceil_log2", "u32", lambda x, n: (x - 1).bit_length() if x else 0)
    unary(run, "next_power_of_two", "WORD", lambda x, n: next(1 << i for i in range(n + 1) if 1 << i >= x) % 2**n)


@pytest.mark.covers("bitwise.lowest_set", "bitwise.clear_lowest", "bitwise.below_lowest")
def test_lowest_set_bit(run: Any) -> None:
    def low(x: int) -> int:
        return next((1 << i for i in range(64) if x >> i & 1), 0)

    unary(run, "lowest_set", "WORD", lambda x, n: low(x))
    unary(run, "clear_lowest", "WORD", lambda x, n: x - low(x))
    unary(run, "below_lowest", "WORD", lambda x, n: (low(x) or 2**n) - 1)
    signed = run.rows("bitwise.lowest_set", "i8 -> i8", BYTES.view(np.int8))
    assert np.array_equal(signed.view(np.uint8), run.rows("bitwise.lowest_set", "u8 -> u8", BYTES))


@pytest.mark.covers("bitwise.gray", "bitwise.gray_inverse")
def test_gray_code(run: Any) -> None:
    table = [0]
    while len(table) < 256:  # reflect and put a one in front
        table += [len(table) | code for code in reversed(table)]
    code = run.rows("bitwise.gray", "u8 -> u8", BYTES)
    assert code.tolist() == table
    assert np.array_equal(run.rows("bitwise.gray_inverse", "u8 -> u8", code), BYTES)
    for x in (words(32), words(64)):
        bits = 8 * x.dtype.itemsize
        there = run.rows("bitwise.gray", f"u{bits} -> u{bits}", x)
        assert np.array_equal(run.rows("bitwise.gray_inverse", f"u{bits} -> u{bits}", there), x)


@pytest.mark.covers("bitwise.nth_set", "bitwise.count_below")
def test_select_and_rank(run: Any) -> None:
    n = np.arange(10, dtype=np.uint32)
    x, k = BYTES.repeat(10), np.tile(n, 256)
    places = [[i for i in range(8) if v >> i & 1] for v in range(256)]
    expected = [places[v][i] if i < len(places[v]) else 8 for v, i in zip(x, k, strict=True)]
    assert run.rows("bitwise.nth_set", "u8, u32 -> u32", x, k).tolist() == expected
    expected = [(int(v) % 2 ** int(i)).bit_count() for v, i in zip(x, k, strict=True)]
    assert run.rows("bitwise.count_below", "u8, u32 -> u32", x, k).tolist() == expected
    wide = words(64)
    for i in (0, 1, 5, 31, 63, 64, 99):
        at = np.full(len(wide), i, np.uint32)
        expected = [(int(v) % 2**i).bit_count() for v in wide]
        assert run.rows("bitwise.count_below", "u64, u32 -> u32", wide, at).tolist() == expected
        expected = [([j for j in range(64) if int(v) >> j & 1] + [64] * 100)[i] for v in wide]
        assert run.rows("bitwise.nth_set", "u64, u32 -> u32", wide, at).tolist() == expected


@pytest.mark.covers("bitwise.swap_bits", "bitwise.delta_swap")
def test_swaps(run: Any) -> None:
    def swapped(x: int, i: int, j: int) -> int:
        text = list(f"{x:08b}"[::-1])
        text[i], text[j] = text[j], text[i]
        return int("".join(text)[::-1], 2)

    x, i, j = (v.ravel() for v in np.meshgrid(BYTES, np.arange(8), np.arange(8), indexing="ij"))
    got = run.rows("bitwise.swap_bits", "u8, u32, u32 -> u8", x, i.astype(np.uint32), j.astype(np.uint32))
    assert got.tolist() == [swapped(*map(int, v)) for v in zip(x, i, j, strict=True)]
    for mask, distance, places in [(0x0F, 4, range(4)), (0x55, 1, (0, 2, 4, 6)), (0x03, 6, (0, 1)), (0, 3, ())]:
        expected = BYTES.tolist()
        for place in places:
            expected = [swapped(v, place, place + distance) for v in expected]
        masks, distances = np.full(256, mask, np.uint8), np.full(256, distance, np.uint32)
        assert run.rows("bitwise.delta_swap", "u8, u8, u32 -> u8", BYTES, masks, distances).tolist() == expected


@pytest.mark.covers("bitwise.next_combination", "bitwise.next_subset")
def test_enumerations(run: Any) -> None:
    def after(x: int) -> int:
        return next((v for v in range(x + 1, 256) if v.bit_count() == x.bit_count()), 0) if x else 0

    assert run.rows("bitwise.next_combination", "u8 -> u8", BYTES).tolist() == [after(v) for v in range(256)]
    wide = np.array([1, 2**62, 2**63, 2**64 - 1, 3 << 62, 0b1011 << 40], np.uint64)
    expected = [2, 2**63, 0, 0, 0, 0b11 << 42 | 1]
    assert run.rows("bitwise.next_combination", "u64 -> u64", wide).tolist() == expected
    inside = (A & B) == A
    x, mask = A[inside], B[inside]
    got = run.rows("bitwise.next_subset", "u8, u8 -> u8", x, mask)
    expected = [
        next((v for v in range(a + 1, 256) if v & m == v), 0) for a, m in zip(x.tolist(), mask.tolist(), strict=True)
    ]
    assert got.tolist() == expected


@pytest.mark.covers("bitwise.average_floor", "bitwise.average_ceil")
def test_averages_never_overflow(run: Any) -> None:
    for kind, dtype in (("u8", np.uint8), ("i8", np.int8)):
        a, b = A.view(dtype), B.view(dtype)
        total = a.astype(int) + b.astype(int)
        assert np.array_equal(run.rows("bitwise.average_floor", f"{kind}, {kind} -> {kind}", a, b), total // 2)
        assert np.array_equal(run.rows("bitwise.average_ceil", f"{kind}, {kind} -> {kind}", a, b), -(-total // 2))
    x = words(64)
    y = x[::-1].copy()
    expected = [(int(a) + int(b)) // 2 for a, b in zip(x, y, strict=True)]
    assert run.rows("bitwise.average_floor", "u64, u64 -> u64", x, y).tolist() == expected


@pytest.mark.covers("bitwise.bit_reversal")
@pytest.mark.parametrize("k", range(11))
def test_bit_reversal(run: Any, k: int) -> None:
    order = [int(f"{i:0{k}b}"[::-1], 2) if k else 0 for i in range(2**k)]
    x = np.random.default_rng(k).normal(size=2**k).astype(np.float32)
    assert np.array_equal(run("bitwise.bit_reversal", x, dims=(2**k,), elements={"e": "f32"}), x[order])


FAULTS = [
    ("popcount(x) & 1 == 1", "popcount(x) & 1 == 0"),
    ("clz(e(1)) - clz(x | 1)", "clz(e(1)) - clz(x)"),
    ("floor_log2(x - 1) + 1", "floor_log2(x) + 1"),
]


@pytest.mark.parametrize(("old", "new"), FAULTS)
def test_planted_faults_are_seen(edited: Callable[..., Any], old: str, new: str) -> None:
    with pytest.raises(AssertionError):
        test_logarithms_and_parity(edited("bitwise.btn", old, new))
