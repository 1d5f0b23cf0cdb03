"""Sampling against a sort in Python, and the frequencies of what is drawn."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from std_oracle import Array, f32

V = 40


def call(
    run: Any, logits: Array, k: int, p: float, m: float, t: float, seed: int = 1, stream: int = 0, step: int = 0
) -> int:
    """Sample one token through the library."""
    numbers = (np.uint32(k), f32(p), f32(m), f32(t), np.uint64(seed), np.uint32(stream), np.uint64(step))
    return int(run("sample.sample", logits.astype(f32), *numbers, dims=(len(logits),)))


def candidates(run: Any, logits: Array, k: int, p: float, m: float) -> list[int]:
    """Who may be drawn: sorted, then cut by top-k, top-p and min-p in this order."""
    x = np.where(np.isnan(logits), -np.inf, logits).astype(f32)
    order = sorted(range(len(x)), key=lambda i: (-x[i], i))
    with np.errstate(invalid="ignore"):
        share = run.over("elementary.exp", x - x.max())
    mass = [round(float(np.nan_to_num(e)) * 2**40) for e in share]
    kept = order[: k or len(x)]
    enough = round(float(f32(p) * f32(sum(mass[i] for i in kept))))
    cut, total = [], 0
    for i in kept:
        cut.append(i)
        total += mass[i]
        if p < 1 and total >= max(enough, 1):
            break
    return [i for i in cut if mass[i] >= round(float(f32(m) * f32(2**40)))]


def draw(seed: int, stream: int, step: int) -> int:
    """Philox 4x32-10 in Python integers."""
    x = [step & 0xFFFFFFFF, step >> 32, stream, 0]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = x[0] * 0xD2511F53, x[2] * 0xCD9E8D57
        x = [b >> 32 ^ x[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ x[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return x[1] << 32 | x[0]


def wanted(run: Any, logits: Array, k: int, p: float, m: float, t: float, seed: int, stream: int, step: int) -> int:
    """The token by the stated rule."""
    x = np.where(np.isnan(logits), -np.inf, logits).astype(f32)
    alive = candidates(run, logits, k, p, m)
    with np.errstate(all="ignore"):
        share = run.over("elementary.exp", (x - x.max()) / f32(t))
    mass = [round(float(np.nan_to_num(e)) * 2**40) if i in alive else 0 for i, e in enumerate(share)]
    total = sum(mass)
    if total == 0:
        return int(np.argmax(x))
    target = draw(seed, stream, step) * total >> 64
    for i, part in enumerate(mass):
        target -= part
        if target < 0:
            return i
    raise AssertionError


LOGITS = st.lists(
    st.one_of(st.floats(-30, 30, width=32), st.sampled_from([0.0, -0.0, 1.0, 1.0, float("nan"), float("-inf")])),
    min_size=V,
    max_size=V,
)


@settings(max_examples=60, deadline=None)
@given(
    LOGITS,
    st.integers(0, V + 3),
    st.sampled_from([0.0, 0.3, 0.9, 1.0]),
    st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    st.sampled_from([0.0, 0.2, 1.0, 3.0]),
    st.integers(0, 2**64 - 1),
)
@pytest.mark.covers("sample.sample")
def test_sample_equals_the_sorted_rule(
    run: Any, logits: list[float], k: int, p: float, m: float, t: float, seed: int
) -> None:
    x = np.array(logits, f32)
    assert call(run, x, k, p, m, t, seed, 3, 9) == wanted(run, x, k, p, m, t, seed, 3, 9)


@pytest.mark.covers("sample.greedy")
def test_greedy_ties_and_nan(run: Any) -> None:
    assert int(run("sample.greedy", np.array([1, 3, 3, np.nan], f32), dims=(4,))) == 1
    assert int(run("sample.greedy", np.full(4, np.nan, f32), dims=(4,))) == 0


@pytest.mark.parametrize("ties", [2, V])
def test_top_1_of_equal_logits_is_the_lowest(run: Any, ties: int) -> None:
    """EDGE_CASES C6: exact ties go to the lowest index."""
    x = np.full(V, -1.0)
    x[V - ties :] = 2.0
    for step in range(5):
        assert call(run, x, 1, 1.0, 0.0, 1.0, step=step) == V - ties


def test_infinite_and_missing_logits(run: Any) -> None:
    x = np.zeros(V)
    x[7] = np.inf
    assert call(run, x, 0, 1.0, 0.0, 1.0) == 7
    assert call(run, np.full(V, np.nan), 0, 1.0, 0.0, 1.0) == 0
    assert call(run, np.arange(V) * 1.0, 0, 1.0, 0.0, 0.0) == V - 1


@pytest.mark.covers("sample.sample")
def test_frequencies_follow_the_probabilities(run: Any) -> None:
    text = "use sample\nfn draws[v, n](x: f32[v], stream: u32[n]) -> u32[n] {\n"
    text += "  [sample(x, 0, 1.0, 0.0, 1.0, 1, s, u64(i)) for s, i in stream, 0..n]\n}\n"
    x = np.log(np.array([0.5, 0.25, 0.125, 0.125])).astype(f32)
    drawn = run.text(text, "draws", x, np.zeros(4000, np.uint32), dims=(4, 4000))
    assert np.abs(np.bincount(drawn, minlength=4) / 4000 - [0.5, 0.25, 0.125, 0.125]).max() < 0.03
    assert [call(run, x, 0, 1.0, 0.0, 1.0, step=i) for i in range(20)] == drawn[:20].tolist()
    assert (run.text(text, "draws", x, np.ones(4000, np.uint32), dims=(4, 4000)) != drawn).mean() > 0.5


FAULTS = [
    ("u64(~i)", "u64(i)", 1, 1.0, 0.0),
    (">= max(enough, 1)", "> max(enough, 1)", 0, 0.5, 0.0),
    ("all >= round[u64](min_p", "all > round[u64](min_p", 0, 1.0, 1.0),
    ("mul_high(draw(seed, stream, step), total)", "draw(seed, stream, step) % total", 0, 1.0, 0.0),
]


@pytest.mark.parametrize(("old", "new", "k", "p", "m"), FAULTS)
def test_planted_faults_are_seen(
    run: Any, edited: Callable[..., Any], old: str, new: str, k: int, p: float, m: float
) -> None:
    wrong = edited("sample.btn", old, new)
    x = np.zeros(4)
    seen = [call(wrong, x, k, p, m, 1.0, step=i) for i in range(20)]
    assert seen != [wanted(run, x, k, p, m, 1.0, 1, 0, i) for i in range(20)]
