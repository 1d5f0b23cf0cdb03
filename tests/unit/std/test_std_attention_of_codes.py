"""Attention on codes: exact scores and weights against Python's whole numbers, and a bound to softmax in f64."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from codes_oracle import WIDTHS, Array, codes, wide

SCALE = 0.02  # of the scores
SHIFT = 2


def table(n: int = 512) -> Array:
    """The weights of scores that are 0, 4, 8, ... below the greatest."""
    return np.rint(65535 * np.exp(-SCALE * (np.arange(n) << SHIFT))).astype(np.uint16)


def weights(score: list[int], seen: list[bool], of: Array) -> list[int]:
    """One query, in whole numbers."""
    top = max([s for s, sees in zip(score, seen, strict=True) if sees], default=0)
    places = [min((top - s) >> SHIFT, len(of) - 1) for s in score]
    return [int(of[p]) if sees else 0 for p, sees in zip(places, seen, strict=True)]


def attended(q: Array, k: Array, v: Array, bias: Array, seen: Array, scale: int) -> Array:
    """One head in whole numbers and fractions. -> [t, c]."""
    score, of = wide(q) @ wide(k).T + bias, table()
    rows = []
    for i in range(len(q)):
        w = weights(score[i].tolist(), seen[i].tolist(), of)
        lanes = [sum(a * int(b) for a, b in zip(w, lane, strict=True)) for lane in v.T]
        rows.append([round(Fraction(lane * scale, sum(w))) if sum(w) else 0 for lane in lanes])
    return np.array(rows, np.int32)


def arguments(t: int, s: int, seed: int) -> tuple[Array, Array]:
    """A random bias, and what is seen: all queries but one see something."""
    rng = np.random.default_rng(seed)
    seen = rng.random((t, s)) < 0.7
    seen[:, 0] = True
    seen[-1] = False
    return rng.integers(-40, 40, (t, s)).astype(np.int32), seen


@pytest.mark.req("C023")
@pytest.mark.covers("attention_of_codes.attention_of_codes", "attention_of_codes.soft_weights")
@pytest.mark.covers("attention_of_codes.weighted")
@pytest.mark.parametrize("element", WIDTHS)
@pytest.mark.parametrize("s", [5, 9])
def test_one_head(run: Any, element: str, s: int) -> None:
    """Self-attention where s is the number of queries, else attention across to another sequence."""
    t, h, c = 5, 16, 6
    q, k, v = codes(element, (t, h), 1), codes(element, (s, h), 2), codes(element, (s, c), 3)
    bias, seen = arguments(t, s, 4)
    rest = np.uint32(SHIFT), np.int32(100)
    of, sizes = {"a": element, "e": element, "f": element}, (t, s, h, c, 512)
    y = run("attention_of_codes.attention_of_codes", q, k, v, bias, seen, table(), *rest, dims=sizes, elements=of)
    assert np.array_equal(y, attended(q, k, v, bias, seen, 100)) and (y[-1] == 0).all()
    score = (wide(q) @ wide(k).T + bias).astype(np.int32)
    w = run("attention_of_codes.soft_weights", score[0], seen[0], table(), np.uint32(SHIFT), dims=(s, 512))
    assert w.tolist() == weights(score[0].tolist(), seen[0].tolist(), table())
    row = run("attention_of_codes.weighted", w, v, np.int32(100), dims=(s, c), elements={"e": element})
    assert np.array_equal(row, y[0])


@pytest.mark.req("C023")
@pytest.mark.covers("attention_of_codes.multi_head_attention_of_codes")
@pytest.mark.parametrize("element", WIDTHS)
def test_heads(run: Any, element: str) -> None:
    t, s, g, h, c = 4, 6, 3, 8, 5
    q, k, v = (codes(element, shape, i) for i, shape in enumerate([(t, g, h), (s, g, h), (s, g, c)]))
    bias, seen = np.random.default_rng(1).integers(-9, 9, (g, t, s)).astype(np.int32), arguments(t, s, 2)[1]
    of, sizes = {"a": element, "e": element, "f": element}, (t, s, g, h, c, 512)
    name = "attention_of_codes.multi_head_attention_of_codes"
    y = run(name, q, k, v, bias, seen, table(), np.uint32(SHIFT), np.int32(7), dims=sizes, elements=of)
    for i in range(g):
        assert np.array_equal(y[:, i], attended(q[:, i], k[:, i], v[:, i], bias[i], seen, 7))


@pytest.mark.req("C023")
@pytest.mark.covers("attention_of_codes.attention_of_codes")
@pytest.mark.parametrize("element", WIDTHS)
def test_close_to_softmax_in_f64(run: Any, element: str) -> None:
    """The weights are exact to a step of the table and its rounding, so is the mean."""
    t, s, h, c = 6, 24, 16, 4
    q, k, v = codes(element, (t, h), 7), codes(element, (s, h), 8), codes(element, (s, c), 9)
    if element == "i8":
        q = (q // 8).astype(np.int8)
    seen, bias = np.ones((t, s), bool), np.zeros((t, s), np.int32)
    scale = 1000
    of, sizes = {"a": element, "e": element, "f": element}, (t, s, h, c, 512)
    y = run("attention_of_codes.attention_of_codes", q, k, v, bias, seen, table(), np.uint32(SHIFT), np.int32(scale),
            dims=sizes, elements=of)  # fmt: skip
    score = (q.astype(float) @ k.T.astype(float)) * SCALE
    weight = np.exp(score - score.max(1, keepdims=True))
    exact = weight / weight.sum(1, keepdims=True) @ v.astype(float)
    off = np.expm1(SCALE * (1 << SHIFT)) + 2 * s / 65535
    assert np.abs(y / scale - exact).max() <= 2 * off * np.abs(wide(v)).max() + 1 / scale


@pytest.mark.req("C023", "C025")
@pytest.mark.covers("attention_of_codes.relative_bias", "attention_of_codes.relative_scores")
@pytest.mark.covers("attention_of_codes.causal")
def test_relative_positions(run: Any) -> None:
    t, s, h = 4, 7, 8
    for n in (1, 4, 5, 31):
        values, keys, q = codes("i8", (n,), 1).astype(np.int32), codes("i4", (n, h), 2), codes("b1", (t, h), 3)
        for start in (0, 3):
            place = [[min(max(j - i - start + (n - 1) // 2, 0), n - 1) for j in range(s)] for i in range(t)]
            y = run("attention_of_codes.relative_bias", values, np.uint32(start), dims=(t, s, n))
            assert np.array_equal(y, values[place])
            y = run("attention_of_codes.relative_scores", q, keys, np.uint32(start), dims=(t, s, n, h),
                    elements={"a": "b1", "e": "i4"})  # fmt: skip
            assert np.array_equal(y, np.take_along_axis(wide(q) @ wide(keys).T, np.array(place), 1))
            y = run("attention_of_codes.causal", np.uint32(start), dims=(t, s))
            assert y.tolist() == [[j <= i + start for j in range(s)] for i in range(t)]


FAULTS: list[tuple[str, str, Callable[[Any], None]]] = [
    ("max_of(select(seen, score, -0x80000000))", "max_of(score)", lambda run: test_one_head(run, "i8", 9)),
    ("divide_half_even(dot[i64](weight, column) * i64(scale), total)", "dot[i64](weight, column) * i64(scale) / total",
     lambda run: test_one_head(run, "i4", 9)),
    ("[[row[wrap[u32](min(max(i64(j) - i64(i)", "[[row[wrap[u32](min(max(i64(i) - i64(j)", test_relative_positions),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(edited: Callable[..., Any], old: str, new: str, check: Callable[[Any], None]) -> None:
    with pytest.raises(AssertionError):
        check(edited("attention_of_codes.btn", old, new))
