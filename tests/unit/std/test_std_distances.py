"""Distances against scipy, sets and plain Python; float ones bit for bit by the strict rules as well."""

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.spatial import distance
from std_oracle import f32, fold, same_bits, sum16


def random_sets(n: int, count: int) -> Any:
    """Bit sets of n words with many and with few bits, and empty ones."""
    rng = np.random.default_rng(n)
    x = rng.integers(0, 2**64, (count, n), np.uint64)
    x[::3] &= rng.integers(0, 2**64, x[::3].shape, np.uint64) & rng.integers(0, 2**64, x[::3].shape, np.uint64)
    x[5::7] = 0
    return x


def elements(words: Any) -> set[int]:
    """The elements of a bit set."""
    return {64 * w + i for w, word in enumerate(words.tolist()) for i in range(64) if word >> i & 1}


@pytest.mark.covers("distances.hamming", "distances.overlap", "distances.jaccard", "distances.dice")
def test_bit_sets(run: Any) -> None:
    for n in (1, 3):
        a, b = random_sets(n, 60), random_sets(n, 60)[::-1].copy()
        both, either = run.rows("distances.overlap", f"u64[{n}], u64[{n}] -> (u32, u32)", a, b)
        got = {
            name: run.rows(f"distances.{name}", f"u64[{n}], u64[{n}] -> {kind}", a, b)
            for name, kind in (("hamming", "u32"), ("jaccard", "f32"), ("dice", "f32"))
        }
        for i, (x, y) in enumerate(zip(map(elements, a), map(elements, b), strict=True)):
            assert (int(both[i]), int(either[i])) == (len(x & y), len(x | y))
            assert int(got["hamming"][i]) == len(x ^ y)
            assert got["jaccard"][i] == (f32(len(x & y) / len(x | y)) if x | y else 1)
            assert got["dice"][i] == (f32(2 * len(x & y) / (len(x) + len(y))) if x | y else 1)


@pytest.mark.covers("distances.hamming")
def test_hamming_of_all_pairs_of_bytes(run: Any) -> None:
    a, b = (v.ravel() for v in np.meshgrid(np.arange(256, dtype=np.uint64), np.arange(256, dtype=np.uint64)))
    got = run.rows("distances.hamming", "u64[1], u64[1] -> u32", a[:, None], b[:, None])
    assert got.tolist() == [(x ^ y).bit_count() for x, y in zip(a.tolist(), b.tolist(), strict=True)]


@pytest.mark.covers("distances.tanimoto", "distances.cosine", "distances.euclidean")
def test_float_distances(run: Any) -> None:
    for n in (1, 2, 17, 100):
        rng = np.random.default_rng(n)
        a, b = rng.normal(size=(2, 20, n)).astype(f32)
        a[3], b[4] = 0, 0
        a[5] = b[5] = 0
        ab, aa, bb = fold(a * b), fold(a * a), fold(b * b)
        signature = f"f32[{n}], f32[{n}] -> f32"
        got = run.rows("distances.euclidean", signature, a, b)
        same_bits(got, np.sqrt(sum16((a - b) * (a - b))))
        np.testing.assert_allclose(got, [distance.euclidean(x, y) for x, y in zip(a, b, strict=True)], rtol=1e-5)
        with np.errstate(all="ignore"):
            length = np.sqrt(aa) * np.sqrt(bb)
            same_bits(run.rows("distances.cosine", signature, a, b), np.where(length == 0, f32(0), ab / length))
            either = aa + bb - ab
            same_bits(run.rows("distances.tanimoto", signature, a, b), np.where(either == 0, f32(1), ab / either))
    whole = run.rows("distances.cosine", "f32[2], f32[2] -> f32", np.array([[3, 4]], f32), np.array([[4, 3]], f32))
    assert abs(float(whole[0]) - (1 - distance.cosine([3, 4], [4, 3]))) < 1e-6
    bits = np.random.default_rng(1).integers(0, 2, (2, 10, 64))
    similar = run.rows("distances.tanimoto", "f32[64], f32[64] -> f32", *bits.astype(f32))
    expected = [1 - distance.jaccard(x, y) for x, y in zip(*bits.astype(bool), strict=True)]
    np.testing.assert_allclose(similar, expected, rtol=1e-6)


@pytest.mark.covers("distances.manhattan", "distances.euclidean_squared", "distances.chebyshev")
@pytest.mark.covers("distances.hamming_elements")
@pytest.mark.parametrize("kind", ["i8", "u8", "i16", "i32", "u32"])
def test_whole_distances(run: Any, kind: str) -> None:
    dtype = np.dtype({"i": "int", "u": "uint"}[kind[0]] + kind[1:])
    info = np.iinfo(dtype)
    for n in (1, 2, 9):
        a, b = np.random.default_rng(n).integers(info.min, info.max + 1, (2, 30, n)).astype(dtype)
        a[0], b[0] = info.min, info.max
        b[1] = a[1]
        pairs = list(zip(a.tolist(), b.tolist(), strict=True))
        signature = f"{kind}[{n}], {kind}[{n}] ->"
        got = run.rows("distances.manhattan", f"{signature} i64", a, b).tolist()
        assert got == [sum(abs(p - q) for p, q in zip(x, y, strict=True)) for x, y in pairs]
        got = run.rows("distances.chebyshev", f"{signature} i64", a, b).tolist()
        assert got == [max(abs(p - q) for p, q in zip(x, y, strict=True)) for x, y in pairs]
        got = run.rows("distances.hamming_elements", f"{signature} u32", a, b).tolist()
        assert got == [sum(p != q for p, q in zip(x, y, strict=True)) for x, y in pairs]
        got = run.rows("distances.euclidean_squared", f"{signature} i64", a, b).tolist()
        exact = [sum((p - q) ** 2 for p, q in zip(x, y, strict=True)) for x, y in pairs]
        assert got == [(e + 2**63) % 2**64 - 2**63 for e in exact]
        assert got == exact or kind[1:] == "32"


def edits(a: str, b: str) -> int:
    """The edit distance by the table of Wagner and Fischer."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        left = [i]
        for j, y in enumerate(b, 1):
            left.append(min(row[j] + 1, left[-1] + 1, row[j - 1] + (x != y)))
        row = left
    return row[-1]


@pytest.mark.covers("distances.levenshtein")
def test_levenshtein(run: Any) -> None:
    rng = random.Random(3)
    words = ["".join(rng.choices("abc", k=rng.choice([1, 2, 3, 7, 12]))) for _ in range(40)] + ["kitten", "sitting"]
    for a, b in [*itertools.pairwise(words), ("a", "a"), ("abc", "xyz"), ("", "abc"), ("abc", "")]:
        given = [np.frombuffer(v.encode(), np.uint8) for v in (a, b)]
        assert int(run("distances.levenshtein", *given, dims=(len(a), len(b)))) == edits(a, b), (a, b)


FAULTS = [
    ("sum(wrap[u32](popcount(a ^ b)))", "sum(wrap[u32](popcount(a | b)))", test_bit_sets),
    ("f32(2 * both)", "f32(both)", test_bit_sets),
    ("sqrt(dot(a, a)) * sqrt(dot(b, b))", "sqrt(dot(a, a) * dot(b, b))", test_float_distances),
    ("row[1..m + 1] + 1", "row[1..m + 1]", test_levenshtein),
]


@pytest.mark.parametrize(("old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(edited: Callable[..., Any], old: str, new: str, check: Callable[[Any], None]) -> None:
    with pytest.raises(AssertionError):
        check(edited("distances.btn", old, new))
