"""Sorting, prefix sums and packed dot products, against Python's sort, numpy and plain loops."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from std_oracle import Array, f32, same_bits

NAN, INF = np.nan, np.inf


@pytest.mark.covers("sort.sort_words", "sort.exchange")
def test_the_network_sorts_every_sequence_of_zeros_and_ones(run: Any) -> None:
    """A network that sorts all of these sorts everything (Knuth 5.3.4, the zero-one principle)."""
    for n in range(1, 14):
        x = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(np.uint8)
        assert np.array_equal(run.rows("sort.sort_words", f"u8[{n}] -> u8[{n}]", x), np.sort(x, axis=1)), n
    for n in (31, 64, 100):
        x = np.random.default_rng(n).integers(-(2**63), 2**63, (5, n))
        assert np.array_equal(run.rows("sort.sort_words", f"i64[{n}] -> i64[{n}]", x), np.sort(x, axis=1))
    x = np.array([[3, 1, 2, 0]], np.int32)
    step = (np.array([2], np.uint32), np.array([2], np.uint32), np.array([0], np.uint32))
    got = run.rows("sort.exchange", "i32[4], u32, u32, u32 -> i32[4]", x, *step)
    assert got.tolist() == [[2, 0, 3, 1]]


def floats() -> list[Array]:
    """Rows with ties, zeros of both signs, infinities and NaN."""
    rng = np.random.default_rng(1)
    every = np.array(list(itertools.product([0.0, -0.0, 1.0, NAN, -INF], repeat=4)), f32)
    pool = rng.choice([0.0, -0.0, 1.0, -1.0, NAN, INF, -INF], (40, 9)).astype(f32)
    return [every, pool, rng.normal(size=(3, 33)).astype(f32), np.array([[NAN], [1.0]], f32)]


def expected_order(x: Array, sign: int) -> list[int]:
    """Stable, NaN last."""
    return sorted(range(len(x)), key=lambda i: (np.isnan(x[i]), 0.0 if np.isnan(x[i]) else sign * float(x[i]), i))


@pytest.mark.covers("sort.sort_ascending", "sort.sort_descending", "sort.top_k", "sort.order", "sort.rank")
@pytest.mark.covers("sort.ascending_key", "sort.descending_key")
def test_stable_sorting_of_floats(run: Any) -> None:
    for x in floats():
        n = x.shape[1]
        for name, sign in (("ascending", 1), ("descending", -1)):
            order = np.array([expected_order(row, sign) for row in x])
            values, index = run.rows(f"sort.sort_{name}", f"f32[{n}] -> (f32[{n}], u32[{n}])", x)
            assert np.array_equal(index, order)
            same_bits(values, np.take_along_axis(x, order, 1))
            keys = run.rows(f"sort.{name}_key", "f32 -> u32", x.ravel()).reshape(x.shape)
            assert np.array_equal(run.rows("sort.order", f"u32[{n}] -> u32[{n}]", keys), order)
            assert np.array_equal(run.rows("sort.rank", f"u32[{n}] -> u32[{n}]", keys), np.argsort(order, 1))
        for k in {1, (n + 1) // 2, n}:
            call = f"top_k[{k}](a)"
            values, index = run.rows("sort.top_k", f"f32[{n}] -> (f32[{k}], u32[{k}])", x, call=call)
            assert np.array_equal(index, order[:, :k])
            same_bits(values, np.take_along_axis(x, order[:, :k], 1))


@pytest.mark.covers("sort.is_sorted", "sort.distinct")
def test_sorted_arrays(run: Any) -> None:
    for n in (1, 2, 3, 5):
        x = np.array(list(itertools.product(range(3), repeat=n)), np.uint8)
        got = run.rows("sort.is_sorted", f"u8[{n}] -> bit", x)
        assert got.tolist() == [row == sorted(row) for row in x.tolist()]
        y = np.sort(x, axis=1)
        values, count = run.rows("sort.distinct", f"u8[{n}] -> (u8[{n}], u32)", y)
        for row, front, k in zip(y.tolist(), values.tolist(), count.tolist(), strict=True):
            different = sorted(set(row))
            assert k == len(different) and front == different + [0] * (n - k)


@pytest.mark.covers("prefix.exclusive_sum", "prefix.running_minimum", "prefix.delta_encode", "prefix.delta_decode")
def test_prefixes(run: Any) -> None:
    for kind, dtype in (("i8", np.int8), ("u8", np.uint8), ("i64", np.int64)):
        for n in (1, 2, 9):
            x = np.random.default_rng(n).integers(
                np.iinfo(dtype).min, np.iinfo(dtype).max, (30, n), dtype, endpoint=True
            )
            signature = f"{kind}[{n}] -> {kind}[{n}]"
            before = np.concatenate([0 * x[:, :1], np.cumsum(x, 1, dtype)[:, :-1]], 1)
            assert np.array_equal(run.rows("prefix.exclusive_sum", signature, x), before)
            least = np.minimum.accumulate(x, 1)
            assert np.array_equal(run.rows("prefix.running_minimum", signature, x), least)
            delta = run.rows("prefix.delta_encode", signature, x)
            assert np.array_equal(delta, np.diff(x, axis=1, prepend=dtype(0)))
            assert np.array_equal(run.rows("prefix.delta_decode", signature, delta), x)


@pytest.mark.covers("prefix.exclusive_sum", "prefix.delta_decode")
def test_edge_case_a17_whole_numbers_never_pass_through_a_float(run: Any) -> None:
    """EDGE_CASES A17: 0 + 16777217 is 16777217; likewise around 2^31, 2^53 and at the ends of 64 bits."""
    for edge in (2**24, 2**31, 2**53, 2**63 - 2, -(2**24), -(2**31), -(2**53), -(2**63) + 2):
        for d in (-1, 0, 1):
            x = np.array([0, edge + d, -(edge + d), 1], np.int64)
            assert run("prefix.delta_decode", x, dims=(4,), elements={"e": "i64"}).tolist() == [0, edge + d, 0, 1]
            got = run("prefix.exclusive_sum", x, dims=(4,), elements={"e": "i64"})
            assert got.tolist() == [0, 0, edge + d, 0]


@pytest.mark.covers("prefix.segmented_sum", "prefix.moving_sum", "prefix.histogram", "prefix.summed_area")
def test_sums(run: Any) -> None:
    rng = np.random.default_rng(3)
    for n in (1, 4, 20):
        x, start = rng.integers(-99, 99, n).astype(np.int32), rng.integers(0, 2, n).astype(bool)
        total, expected = 0, []
        for v, s in zip(x.tolist(), start.tolist(), strict=True):
            total = v if s else total + v
            expected.append(total)
        assert run("prefix.segmented_sum", x, start, dims=(n,), elements={"e": "i32"}).tolist() == expected
        for w in (1, 2, n):
            if w <= n:
                got = run("prefix.moving_sum", x, dims=(w, n - w), elements={"e": "i32"})
                assert np.array_equal(got, np.convolve(x, np.ones(w, int), "valid"))
        label = rng.integers(0, 7, n).astype(np.uint32)
        expected = np.bincount(label[label < 5], minlength=5)
        assert np.array_equal(run("prefix.histogram", label, dims=(5, n)), expected)
        image = rng.integers(-9, 9, (3, n)).astype(np.int32)
        got = run("prefix.summed_area", image, dims=(3, n), elements={"e": "i32"})
        assert np.array_equal(got, image.cumsum(0).cumsum(1))


@pytest.mark.covers("prefix.partition", "prefix.compact")
def test_partition_keeps_both_orders(run: Any) -> None:
    for n in range(1, 9):
        keep = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)
        x = np.tile(np.arange(1, n + 1, dtype=np.uint8), (2**n, 1))
        front, count = run.rows("prefix.partition", f"u8[{n}], bit[{n}] -> (u8[{n}], u32)", x, keep)
        assert count.tolist() == keep.sum(1).tolist()
        assert np.array_equal(front, np.take_along_axis(x, np.argsort(~keep, axis=1, kind="stable"), 1))
        kept, count = run.rows("prefix.compact", f"u8[{n}], bit[{n}] -> (u8[{n}], u32)", x, keep)
        assert np.array_equal(kept, np.where(np.arange(n) < count[:, None], front, 0))


@pytest.mark.covers("packed.pack_signs", "packed.binary_dot", "packed.binary_matvec", "packed.words_of")
def test_binary_dots(run: Any) -> None:
    rng = np.random.default_rng(4)
    for n in (1, 3):
        x = rng.choice([-1, 1], (6, 64 * n)).astype(np.int8)
        words = np.stack([run("packed.pack_signs", row, dims=(n,)) for row in x])
        assert np.array_equal(words.view(np.uint8), np.packbits(x > 0, axis=1, bitorder="little"))
        assert np.array_equal(run("packed.words_of", x[0] > 0, dims=(n,)), words[0])
        exact = x.astype(int) @ x.T.astype(int)
        got = run("packed.binary_matvec", words, words[2], np.uint32(64 * n), dims=(6, n))
        assert np.array_equal(got, exact[2])
        assert int(run("packed.binary_dot", words[0], words[1], np.uint32(64 * n), dims=(n,))) == exact[0, 1]
    a, b = (v.ravel().astype(np.uint64) for v in np.meshgrid(np.arange(256), np.arange(256)))
    got = run.rows(
        "packed.binary_dot", "u64[1], u64[1], u32 -> i32", a[:, None], b[:, None], np.full(a.size, 8, np.uint32)
    )
    assert got.tolist() == [8 - 2 * (x ^ y).bit_count() for x, y in zip(a.tolist(), b.tolist(), strict=True)]


@pytest.mark.covers("packed.pack_ternary", "packed.ternary_dot", "packed.ternary_matvec")
def test_ternary_dots(run: Any) -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(-1, 2, (7, 128)).astype(np.int8)
    planes = [run("packed.pack_ternary", row, dims=(2,)) for row in x]
    exact = x.astype(int) @ x.T.astype(int)
    for i, a in enumerate(planes):
        assert np.array_equal(a[0].view(np.uint8), np.packbits(x[i] == 1, bitorder="little"))
        for j, b in enumerate(planes):
            assert int(run("packed.ternary_dot", *a, *b, dims=(2,))) == exact[i, j]
    plus, minus = (np.stack(v) for v in zip(*planes, strict=True))
    assert np.array_equal(run("packed.ternary_matvec", plus, minus, *planes[3], dims=(7, 2)), exact[3])


@pytest.mark.covers("packed.bit_planes", "packed.bit_serial_dot", "packed.pack_trits", "packed.unpack_trits")
def test_bit_planes_and_trits(run: Any) -> None:
    x, y = np.random.default_rng(6).integers(0, 256, (2, 128)).astype(np.uint8)
    planes = [run("packed.bit_planes", v, dims=(2,)) for v in (x, y)]
    for j in range(8):
        assert np.array_equal(planes[0][j].view(np.uint8), np.packbits(x >> j & 1, bitorder="little"))
    got = run("packed.bit_serial_dot", *planes, dims=(8, 8, 2))
    assert int(got) == int(x.astype(int) @ y.astype(int))
    low = run("packed.bit_serial_dot", planes[0][:3], planes[1][:2], dims=(3, 2, 2))
    assert int(low) == int((x % 8).astype(int) @ (y % 4).astype(int))
    every = np.array(list(itertools.product([-1, 0, 1], repeat=5)), np.int8)
    codes = run.rows("packed.pack_trits", "t[5] -> u8[1]", every)
    assert codes[:, 0].tolist() == [sum((v + 1) * 3**i for i, v in enumerate(row)) for row in every.tolist()]
    assert np.array_equal(run.rows("packed.unpack_trits", "u8[1] -> t[5]", codes), every)


FAULTS = [
    ("sort.btn", "let d = if j == 0 { p } else { (1u32 << t - j) - p }", "let d = p",
     test_the_network_sorts_every_sequence_of_zeros_and_ones),
    ("sort.btn", "select(x == x, ~ascending_key(x), 0xffffffff)", "~ascending_key(x)", test_stable_sorting_of_floats),
    ("sort.btn", "bits(x + 0.0)", "bits(x)", test_stable_sorting_of_floats),
    ("prefix.btn", "count + exclusive_sum(u32(not keep))", "n - 1 - exclusive_sum(u32(not keep))",
     test_partition_keeps_both_orders),
    ("packed.btn", "length - 2 * sum", "length - sum", test_binary_dots),
    ("packed.btn", "a.plus & b.minus | a.minus & b.plus", "a.plus & b.minus", test_ternary_dots),
    ("packed.btn", "[1, 3, 9, 27, 81]) for five", "[1, 3, 9, 27, 80]) for five", test_bit_planes_and_trits),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(
    edited: Callable[..., Any], file: str, old: str, new: str, check: Callable[[Any], None]
) -> None:
    with pytest.raises(AssertionError):
        check(edited(file, old, new))
