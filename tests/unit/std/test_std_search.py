"""Searches, against `bisect`, `bytes.find` and plain loops."""

import bisect
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


@pytest.mark.covers("search.lower_bound", "search.upper_bound", "search.binary_search")
def test_bounds_equal_bisect(run: Any) -> None:
    keys = np.arange(256, dtype=np.uint8)
    for n in (1, 2, 3, 4, 5, 7, 8, 31, 32, 33):
        rng = np.random.default_rng(n)
        rows = [rng.integers(0, 256, n), np.full(n, 7), np.zeros(n), np.full(n, 255), rng.integers(100, 104, n)]
        for row in rows:
            x = np.sort(row).astype(np.uint8)
            many, items = np.tile(x, (256, 1)), x.tolist()
            low = [bisect.bisect_left(items, k) for k in range(256)]
            signature = f"u8[{n}], u8 ->"
            assert run.rows("search.lower_bound", f"{signature} u32", many, keys).tolist() == low
            high = [bisect.bisect_right(items, k) for k in range(256)]
            assert run.rows("search.upper_bound", f"{signature} u32", many, keys).tolist() == high
            found, place = run.rows("search.binary_search", f"{signature} (bit, u32)", many, keys)
            assert found.tolist() == [k in items for k in range(256)] and place.tolist() == low


def bitmap(places: list[int], n: int) -> Any:
    """A bitmap of n words with these bits."""
    whole = sum(1 << p for p in places)
    return np.array([whole >> 64 * i & (2**64 - 1) for i in range(n)], np.uint64)


MAPS = [
    [],
    [0],
    [63],
    [64],
    [191],
    [5, 70, 71, 140],
    list(range(192)),
    list(range(0, 192, 3)),
    [62, 63, 64, 65, 127, 128],
]


@pytest.mark.covers("search.first_set", "search.next_set", "search.bitmap_rank", "search.bitmap_select")
def test_bitmaps(run: Any) -> None:
    at = np.arange(200, dtype=np.uint32)
    for places in MAPS:
        words = bitmap(places, 3)
        many = np.tile(words, (200, 1))
        assert int(run("search.first_set", words, dims=(3,))) == (places[0] if places else 192)
        expected = [next((p for p in places if p >= i), 192) for i in range(200)]
        assert run.rows("search.next_set", "u64[3], u32 -> u32", many, at).tolist() == expected
        expected = [sum(p < i for p in places) for i in range(200)]
        assert run.rows("search.bitmap_rank", "u64[3], u32 -> u32", many, at).tolist() == expected
        expected = [places[k] if k < len(places) else 192 for k in range(200)]
        assert run.rows("search.bitmap_select", "u64[3], u32 -> u32", many, at).tolist() == expected


@pytest.mark.covers("search.find_byte", "search.find_last_byte", "search.count_byte", "search.find_bytes")
def test_bytes_are_found(run: Any) -> None:
    for n in (1, 5, 40):
        text = bytes(random.Random(n).choices(b"abcd", k=n))
        x = np.frombuffer(text, np.uint8)
        for byte in b"abcde":
            given = (x, np.uint8(byte))
            first, last = text.find(byte), text.rfind(byte)
            assert int(run("search.find_byte", *given, dims=(n,))) == (n if first < 0 else first)
            assert int(run("search.find_last_byte", *given, dims=(n,))) == (n if last < 0 else last)
            assert int(run("search.count_byte", *given, dims=(n,))) == text.count(byte)
        for pattern in (b"a", b"ab", b"abc", b"dd", b"zz", text, text[-3:]):
            m = len(pattern)
            if m <= n:
                place = text.find(pattern)
                got = run("search.find_bytes", x, np.frombuffer(pattern, np.uint8), dims=(n - m, m))
                assert int(got) == (n if place < 0 else place)
    assert int(run("search.find_byte", np.zeros(0, np.uint8), np.uint8(1), dims=(0,))) == 0


@pytest.mark.covers("search.first_zero_byte")
def test_first_zero_byte(run: Any) -> None:
    rng = random.Random(6)
    data = [bytes(rng.choice([0, 1, 2, 127, 128, 129, 255]) for _ in range(8)) for _ in range(2000)]
    words = np.frombuffer(b"".join(data), "<u8")
    got = run.rows("search.first_zero_byte", "u64 -> u32", words)
    assert got.tolist() == [word.find(0) if 0 in word else 8 for word in data]


FAULTS = [
    ("x[middle] < key", "x[middle] <= key", test_bounds_equal_bisect),
    ("word >> from % 64 << from % 64", "word", test_bitmaps),
    ("& ~word &", "&", test_first_zero_byte),
    ("max_of(select(text == byte, iota(n) + 1, 0))", "max_of(select(text == byte, iota(n), 0))", test_bytes_are_found),
]


@pytest.mark.parametrize(("old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(edited: Callable[..., Any], old: str, new: str, check: Callable[[Any], None]) -> None:
    with pytest.raises(AssertionError):
        check(edited("search.btn", old, new))
