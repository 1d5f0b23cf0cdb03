"""Interleavings and Hilbert's curve: bits against strings, the curve against its construction from four quarters."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


@pytest.mark.req("C008")
@pytest.mark.covers("interleave.interleave", "interleave.interleave_3", "interleave.interleave_4")
@pytest.mark.covers("interleave.separate", "interleave.separate_3", "interleave.separate_4")
@pytest.mark.parametrize(("kind", "dtype"), [("u8", np.uint8), ("f32", np.float32)])
def test_arrays(run: Any, kind: str, dtype: Any) -> None:
    for n in (1, 2, 7):
        x = np.arange(4 * n).reshape(4, n).astype(dtype)
        for ways, suffix in ((2, ""), (3, "_3"), (4, "_4")):
            elements = {"e": kind}
            y = run(f"interleave.interleave{suffix}", *x[:ways], dims=(n,), elements=elements)
            assert y.tolist() == [x[j, i] for i in range(n) for j in range(ways)]
            back = run(f"interleave.separate{suffix}", y, dims=(n,), elements=elements)
            assert len(back) == ways and all(np.array_equal(p, q) for p, q in zip(back, x[:ways], strict=True))
    run.rows("interleave.interleave", "u8[1], u8[1] -> u8[2]", *np.zeros((2, 3, 1), np.uint8))


def woven(parts: list[int], bits: int) -> int:
    """Bit i of part j at place len(parts) * i + j, by strings."""
    texts = [f"{p:0{bits}b}" for p in reversed(parts)]
    return int("".join("".join(column) for column in zip(*texts, strict=True)), 2)


@pytest.mark.req("C008")
@pytest.mark.covers("interleave.interleave_bits", "interleave.separate_bits")
def test_all_pairs_of_bytes(run: Any) -> None:
    a, b = (v.ravel() for v in np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8)))
    code = run.rows("interleave.interleave_bits", "u8, u8 -> u16", a, b)
    assert code.tolist() == [woven([x, y], 8) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    back = run.rows("interleave.separate_bits", "u16 -> (u8, u8)", code)
    assert np.array_equal(back[0], a) and np.array_equal(back[1], b)


@pytest.mark.req("C008")
@pytest.mark.covers("interleave.interleave_bits_4", "interleave.separate_bits_4")
def test_four_words(run: Any) -> None:
    x = np.random.default_rng(4).integers(0, 2**16, (80, 4)).astype(np.uint16)
    x[0], x[1] = 0xFFFF, [0xFFFF, 0, 0, 0]
    code = run.rows("interleave.interleave_bits_4", "u16[4] -> u64", x)
    assert code.tolist() == [woven(row, 16) for row in x.tolist()]
    assert np.array_equal(run.rows("interleave.separate_bits_4", "u64 -> u16[4]", code), x)


def curve(order: int) -> list[tuple[int, int]]:
    """Hilbert's curve: four curves of the order below, the first and the last mirrored at a diagonal."""
    if order == 0:
        return [(0, 0)]
    part, half = curve(order - 1), 2 ** (order - 1)
    return [
        *((y, x) for x, y in part),
        *((x, y + half) for x, y in part),
        *((x + half, y + half) for x, y in part),
        *((2 * half - 1 - y, half - 1 - x) for x, y in part),
    ]


@pytest.mark.req("C008")
@pytest.mark.covers("hilbert.hilbert", "hilbert.hilbert_point")
def test_hilbert_of_every_square(run: Any) -> None:
    for order in range(8):
        points = curve(order)
        assert len(set(points)) == 4**order
        steps = [abs(a - c) + abs(b - d) for (a, b), (c, d) in itertools.pairwise(points)]
        assert set(steps) <= {1}
        x, y = (np.array(v, np.uint32) for v in zip(*points, strict=True))
        depth = np.full(len(points), order, np.uint32)
        code = run.rows("hilbert.hilbert", "u32, u32, u32 -> u64", x, y, depth)
        assert code.tolist() == list(range(len(points))), order
        back = run.rows("hilbert.hilbert_point", "u64, u32 -> (u32, u32)", code, depth)
        assert np.array_equal(back[0], x) and np.array_equal(back[1], y)


@pytest.mark.covers("hilbert.hilbert", "hilbert.hilbert_point")
def test_hilbert_of_the_whole_plane(run: Any) -> None:
    code = np.random.default_rng(5).integers(0, 2**64 - 1, 300, np.uint64)
    code = np.concatenate([code, np.array([0, 2**64 - 1], np.uint64)])
    depth = np.full(len(code), 32, np.uint32)
    x, y = run.rows("hilbert.hilbert_point", "u64, u32 -> (u32, u32)", code, depth)
    assert np.array_equal(run.rows("hilbert.hilbert", "u32, u32, u32 -> u64", x, y, depth), code)
    assert (int(x[-1]), int(y[-1])) == (2**32 - 1, 0)
    u, v = run.rows("hilbert.hilbert_point", "u64, u32 -> (u32, u32)", code + (code != 2**64 - 1), depth)
    apart = np.abs(u.astype(np.int64) - x) + np.abs(v.astype(np.int64) - y)
    assert (apart[:-1] == 1).all()


FAULTS = [
    ("hilbert.btn", "if b == 0 { (y ^ flip, x ^ flip) }", "if b == 0 { (y, x) }", test_hilbert_of_every_square),
    ("hilbert.btn", "(digit ^ a) & 1", "digit & 1", test_hilbert_of_every_square),
    ("interleave.btn", "deposit(u16(b), 0xaaaa)", "deposit(u16(b), 0xaaab)", test_all_pairs_of_bytes),
]


@pytest.mark.parametrize(("file", "old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(
    edited: Callable[..., Any], file: str, old: str, new: str, check: Callable[[Any], None]
) -> None:
    with pytest.raises(AssertionError):
        check(edited(file, old, new))
