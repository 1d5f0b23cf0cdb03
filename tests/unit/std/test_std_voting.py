"""Votes: small cases exhaustively, against counting in Python."""

import itertools
import statistics
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


def tuples(values: int, n: int, dtype: Any) -> Any:
    """All rows of n values below a bound."""
    return np.array(list(itertools.product(range(values), repeat=n)), dtype)


@pytest.mark.covers("voting.majority_3", "voting.median_3", "voting.majority")
def test_three_voices(run: Any) -> None:
    axis = np.arange(256, dtype=np.uint8)
    a, b = (v.ravel() for v in np.meshgrid(axis, axis, indexing="ij"))
    for third in (0, 1, 0x5A, 0x7F, 0x80, 0xFF):
        c = np.full(a.size, third, np.uint8)
        bits = np.stack([np.unpackbits(v[:, None], axis=1) for v in (a, b, c)]).sum(0) >= 2
        expected = np.packbits(bits, axis=1)[:, 0]
        assert np.array_equal(run.rows("voting.majority_3", "u8, u8, u8 -> u8", a, b, c), expected)
        stacked = np.stack([a, b, c], 1)
        assert np.array_equal(run.rows("voting.majority", "u8[3] -> u8", stacked), expected)
        signed = [v.view(np.int8) for v in (a, b, c)]
        middle = np.median(np.stack(signed), axis=0).astype(np.int8)
        assert np.array_equal(run.rows("voting.median_3", "i8, i8, i8 -> i8", *signed), middle)


@pytest.mark.covers("voting.majority")
def test_even_votes_give_zero_bits(run: Any) -> None:
    for n in (1, 2, 4, 5):
        rows = tuples(4, n, np.uint8)
        expected = [sum((sum(v >> i & 1 for v in row) * 2 > n) << i for i in range(2)) for row in rows.tolist()]
        assert run.rows("voting.majority", f"u8[{n}] -> u8", rows).tolist() == expected
    wide = np.random.default_rng(1).integers(0, 2**64, (9, 7), np.uint64)
    expected = [sum((sum(v >> i & 1 for v in row) > 3) << i for i in range(64)) for row in wide.tolist()]
    assert run.rows("voting.majority", "u64[7] -> u64", wide).tolist() == expected


@pytest.mark.covers("voting.kth_smallest", "voting.median")
def test_order_statistics(run: Any) -> None:
    for n in (1, 2, 3, 4, 5):
        rows = tuples(4, n, np.int8) - np.int8(2)
        for k in range(n):
            got = run.rows("voting.kth_smallest", f"i8[{n}], u32 -> i8", rows, np.full(len(rows), k, np.uint32))
            assert np.array_equal(got, np.sort(rows, axis=1)[:, k])
        expected = [statistics.median_low(row) for row in rows.tolist()]
        assert run.rows("voting.median", f"i8[{n}] -> i8", rows).tolist() == expected


@pytest.mark.covers("voting.majority_value", "voting.consensus", "voting.consensus_row")
def test_majorities_of_values(run: Any) -> None:
    for n in (1, 2, 3, 4, 5, 6):
        rows = tuples(3, n, np.uint32)
        held, value = run.rows("voting.majority_value", f"u32[{n}] -> (bit, u32)", rows)
        quorum = np.full(len(rows), n // 2 + 1, np.uint32)
        agreed, common = run.rows("voting.consensus", f"u32[{n}], u32 -> (bit, u32)", rows, quorum)
        for row, h, v, g, c in zip(rows.tolist(), held, value, agreed, common, strict=True):
            winner, votes = Counter(row).most_common(1)[0]  # the first of equals
            assert bool(h) == bool(g) == (2 * votes > n) and int(c) == winner
            assert not h or int(v) == winner
    text = tuples(3, 4, np.uint8)
    got = run("voting.consensus_row", np.ascontiguousarray(text.T), dims=(4, len(text)), elements={"e": "u8"})
    assert got.tolist() == [Counter(row).most_common(1)[0][0] for row in text.tolist()]


@pytest.mark.covers("voting.tally", "voting.plurality", "voting.weighted_vote")
def test_votes_for_labels(run: Any) -> None:
    rng = np.random.default_rng(8)
    rows = tuples(4, 4, np.uint32)  # label 3 is none of three
    for row in rows:
        counts = [int((row == k).sum()) for k in range(3)]
        assert int(run("voting.plurality", row, dims=(3, 4))) == counts.index(max(counts))
        weight = rng.integers(-3, 4, 4).astype(np.int32)
        sums = [int(weight[row == k].sum()) for k in range(3)]
        assert int(run("voting.weighted_vote", row, weight, dims=(3, 4))) == sums.index(max(sums))
        assert run("voting.tally", row, weight.astype(np.int64), dims=(3, 4)).tolist() == sums


FAULTS = [
    ("a & b | a & c | b & c", "a & b | a & c", test_three_voices),
    ("select(2 * ones > n", "select(2 * ones >= n", test_even_votes_give_zero_bits),
    ("x < v or x == v and iota(n) < i", "x < v", test_order_statistics),
    ("votes[first] >= quorum", "votes[first] > quorum", test_majorities_of_values),
]


@pytest.mark.parametrize(("old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(edited: Callable[..., Any], old: str, new: str, check: Callable[[Any], None]) -> None:
    with pytest.raises(AssertionError):
        check(edited("voting.btn", old, new))
