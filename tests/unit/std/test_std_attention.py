"""Attention and the cache against the strict rule in numpy, in every element of the cache, and the laws of batching."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from std_oracle import Array, f32, fold, quantise, same_bits, softmax_chunked

L, S, G, R, H = 2, 2, 2, 3, 32
KINDS = {"f16": np.float16, "f32": np.float32, "i8": np.int8}


@dataclass
class Case:
    """A cache of `c` positions filled by `fill` tokens of both sequences."""

    run: Any
    kind: str
    c: int
    state: tuple[Array, ...]

    @staticmethod
    def empty(run: Any, kind: str, c: int, stale: float = 0.0) -> "Case":
        """A cache that holds nothing, or stale bits."""
        b = H // 32 if kind == "i8" else 0
        k = np.full((L, S, c, G, H), stale if kind != "i8" else 77).astype(KINDS[kind])
        scale = np.full((L, S, c, G, b), stale, f32)
        return Case(run, kind, c, (k, k.copy(), scale, scale.copy()))

    @property
    def dims(self) -> tuple[int, ...]:
        """layers, s, c, g, h and, for float caches, b."""
        return (L, S, self.c, G, H) + (() if self.kind == "i8" else (0,))

    def store(self, layer: int, seq: Array, pos: Array, k: Array, v: Array) -> None:
        """Write tokens through the library."""
        state = [np.array(part) for part in self.state]
        made = self.run(
            "attention.store", *state, np.uint32(layer), seq, pos, k, v, dims=(*self.dims, len(seq)), overload=self.kind
        )
        self.state = tuple(made)

    def attend(self, layer: int, seq: Array, pos: Array, q: Array, window: int = 0, ideal: bool = False) -> Array:
        """Read through the library. q: [t, G * R, H]."""
        arguments = (np.uint32(layer), q, seq, pos, np.uint32(window))
        dims = (*self.dims, R, len(seq))
        return self.run("attention.attention", *self.state, *arguments, dims=dims, overload=self.kind, ideal=ideal)


def exp(run: Any) -> Callable[[Array], Array]:
    """The library's own exponential."""
    return lambda x: run.over("elementary.exp", x)


def expected(case: Case, run: Any, layer: int, seq: int, pos: int, q: Array, window: int = 0) -> Array:
    """NUMERICS 5 for one token. q: [G * R, H] -> [G * R, H]."""
    k, v, kd, vd = (part[layer, seq] for part in case.state)
    p = np.arange(case.c)
    visible = (p <= pos) & ((pos - p < window) | (window == 0))
    out = np.zeros_like(q)
    for head in range(G * R):
        g = head // R
        if case.kind == "i8":
            code, d, _ = quantise(q[head])
            blocks = k[:, g].reshape(case.c, -1, 32).astype(int)
            exact = np.einsum("pbi,bi->pb", blocks, code.astype(int)).astype(f32)
            score = fold(exact * (kd[:, g] * d))
        else:
            score = fold(k[:, g].astype(f32) * q[head])
        z, places, weights = softmax_chunked(score, visible, exp(run))
        total = np.zeros(H, f32)
        for at, weight in zip(places, weights, strict=True):
            if case.kind == "i8":
                terms = (weight[:, None] * vd[at, g]).repeat(32, axis=1) * v[at, g].astype(f32)
            else:
                terms = weight[:, None] * v[at, g].astype(f32)
            total = total + fold(terms.T)
        out[head] = total * z
    return out


def tokens(rng: np.random.Generator, t: int) -> tuple[Array, Array, Array]:
    """Keys, values and queries of t tokens."""
    k, v = rng.standard_normal((2, t, G, H)).astype(f32)
    return k, v, (rng.standard_normal((t, G * R, H)) / np.sqrt(H)).astype(f32)


def u32(*values: int) -> Array:
    """An array of u32."""
    return np.array(values, np.uint32)


@pytest.mark.covers("attention.attention")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("c", "window"), [(40, 0), (40, 7), (700, 0), (700, 600), (1100, 300)])
def test_attention_follows_the_strict_rule(run: Any, kind: str, c: int, window: int) -> None:
    rng = np.random.default_rng(c + window)
    case = Case.empty(run, kind, c, stale=np.inf)
    filled = c - 3
    k, v, _ = tokens(rng, filled)
    case.store(1, np.ones(filled, np.uint32), np.arange(filled, dtype=np.uint32), k, v)
    *_, q = tokens(rng, 3)
    pos = u32(filled - 1, filled // 2, 0)
    y = case.attend(1, u32(1, 1, 1), pos, q, window)
    for i in range(3):
        same_bits(y[i], expected(case, run, 1, 1, int(pos[i]), q[i], window))


@pytest.mark.covers("attention.store")
@pytest.mark.parametrize("kind", KINDS)
def test_store_rounds_and_drops_positions_outside(run: Any, kind: str) -> None:
    rng = np.random.default_rng(1)
    case = Case.empty(run, kind, 8)
    before = [part.copy() for part in case.state]
    k, v, _ = tokens(rng, 3)
    case.store(0, u32(1, 1, 0), u32(2, 8, 5), k, v)
    wanted = [part.copy() for part in before]
    for i, seq, pos in ((0, 1, 2), (2, 0, 5)):
        for part, row in ((0, k[i]), (1, v[i])):
            if kind == "i8":
                code, d, _ = quantise(row)
                wanted[part][0, seq, pos] = code.reshape(G, H)
                wanted[part + 2][0, seq, pos] = d
            else:
                wanted[part][0, seq, pos] = row.astype(KINDS[kind])
    for got, want in zip(case.state, wanted, strict=True):
        same_bits(got, want)


@pytest.mark.parametrize("kind", KINDS)
def test_one_by_one_equals_all_at_once(run: Any, kind: str) -> None:
    rng = np.random.default_rng(2)
    t, c = 21, 530
    k, v, q = tokens(rng, t)
    seq = np.array([0, 1, 0] * 7, np.uint32)
    start = np.array([505, 0], np.uint32)
    pos = np.array([start[s] + np.sum(seq[:i] == s) for i, s in enumerate(seq)], np.uint32)
    whole, single = Case.empty(run, kind, c), Case.empty(run, kind, c)
    whole.store(0, seq, pos, k, v)
    y = whole.attend(0, seq, pos, q)
    for i in range(t):
        one = slice(i, i + 1)
        single.store(0, seq[one], pos[one], k[one], v[one])
        same_bits(single.attend(0, seq[one], pos[one], q[one]), y[one])


def test_context_length_changes_no_bit(run: Any) -> None:
    rng = np.random.default_rng(3)
    k, v, q = tokens(rng, 20)
    seq, pos = np.zeros(20, np.uint32), np.arange(20, dtype=np.uint32)
    results = []
    for c in (20, 512, 513):
        case = Case.empty(run, "f16", c, stale=np.nan)
        case.store(0, seq, pos, k, v)
        results.append(case.attend(0, seq, pos, q))
    same_bits(results[0], results[1])
    same_bits(results[0], results[2])


@pytest.mark.covers("attention.attention")
@pytest.mark.parametrize("window", [0, 5])
def test_ideal_attention_is_the_softmax_of_the_reals(run: Any, window: int) -> None:
    rng = np.random.default_rng(4)
    case = Case.empty(run, "f32", 30)
    k, v, q = tokens(rng, 30)
    seq, pos = np.zeros(30, np.uint32), np.arange(30, dtype=np.uint32)
    case.store(0, seq, pos, k, v)
    case.state = tuple(part.astype(np.float64) for part in case.state)
    y = case.attend(0, seq, pos, q.astype(np.float64), window, ideal=True)
    for i in (0, 12, 29):
        low = max(0, i - window + 1) if window else 0
        for head in range(G * R):
            score = k[low : i + 1, head // R].astype(np.float64) @ q[i, head].astype(np.float64)
            weight = np.exp(score - score.max())
            np.testing.assert_allclose(
                y[i, head], weight @ v[low : i + 1, head // R] / weight.sum(), rtol=1e-12, atol=1e-14
            )


FAULTS = [
    ("p <= view.pos and", "p < view.pos + 2 and", 0),
    ("view.pos - p < view.window", "view.pos - p <= view.window", 7),
    ("select(seen, lane, 0.0)", "lane", 0),
    ("row * (1.0 / total)", "row / total", 0),
    (
        "let keys = permute(f32(k[view.l, view.seq, positions(chunk)",
        "let keys = permute(f32(k[view.l, 0, positions(chunk)",
        0,
    ),
]


@pytest.mark.parametrize(("old", "new", "window"), FAULTS)
def test_planted_faults_are_seen(run: Any, edited: Callable[..., Any], old: str, new: str, window: int) -> None:
    wrong = edited("attention.btn", old, new)
    rng = np.random.default_rng(5)
    case = Case.empty(wrong, "f16", 40, stale=np.inf)
    k, v, q = tokens(rng, 37)
    case.store(1, np.ones(37, np.uint32), np.arange(37, dtype=np.uint32), k, v)
    y = case.attend(1, u32(1, 1), u32(20, 30), q[:2], window)
    wanted = np.stack([expected(case, run, 1, 1, p, q[i], window) for i, p in enumerate((20, 30))])
    assert not np.array_equal(y, wanted)
