"""Attention over the cache (NUMERICS, 5), for every element that a cache may have.

Only the positions that a token sees are read, once for all tokens of a sequence. Scores are folds over the head
dimension, values folds over positions, both vectorised over what lies beside them; a position that is not seen adds +0
in the definition, which changes no sum that began at +0, so it is left out here.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bittern.chips.vm.activations import exp_in_place
from bittern.chips.vm.halves import as_float
from bittern.chips.vm.ordered import PIECE, add_onto, add_rows, scratch
from bittern.chips.vm.quantise import quantise_rows
from bittern.chips.vm.workers import share
from bittern.graph.program import CallSite
from bittern.ops.table import Array

CHUNK = 512
_LANES = 16


class Window(Protocol):
    """Keys and values of one layer and sequence, from a first position on. Positions count from there."""

    def query(self, q: Array) -> object:
        """Return a token's query as `scores` takes it. q: [g, r, h]."""
        ...

    def scores(self, query: object, low: int, high: int, out: Array) -> None:
        """Score positions. out: [g, r, high - low]."""
        ...

    def weigh(self, weight: Array, low: int, high: int, terms: Array) -> None:
        """Weight the values of positions. weight: [high - low, g, r], terms: [high - low, g, r, h]."""
        ...


class FloatWindow:
    """Keys [h, g, p] and values [p, g, h] as f32."""

    def __init__(self, k: Array, v: Array) -> None:
        self._keys = as_float(k.transpose(2, 1, 0))
        self._values = as_float(v)

    def query(self, q: Array) -> Array:
        """q: [g, r, h] -> [h, g, r, 1]."""
        return np.ascontiguousarray(q.transpose(2, 0, 1))[..., None]

    def scores(self, query: object, low: int, high: int, out: Array) -> None:
        """Fold over the head dimension, ascending."""
        assert isinstance(query, np.ndarray)
        h, g, r, _ = query.shape
        step = max(16, PIECE // (h * g * r))
        for first in range(low, high, step):
            last = min(first + step, high)
            terms = scratch.take("term", h, g, r, last - first)
            np.multiply(self._keys[:, :, None, first:last], query, out=terms)
            add_rows(terms, out[..., first - low : last - low])

    def weigh(self, weight: Array, low: int, high: int, terms: Array) -> None:
        """Multiply weights and values."""
        np.multiply(weight[..., None], self._values[low:high, :, None, :], out=terms)


class QuantisedWindow:
    """Codes of keys [b, g, 32, p] and of values [p, g, 1, b, 32] as f32, and their scales."""

    def __init__(self, k: Array, v: Array, kd: Array, vd: Array) -> None:
        p, g, h = k.shape
        self._keys = k.reshape(p, g, h // 32, 32).transpose(2, 1, 3, 0).astype(np.float32, order="C")
        self._key_scales = np.ascontiguousarray(kd.transpose(2, 1, 0))[:, :, None, :]
        self._values = v.reshape(p, g, 1, h // 32, 32).astype(np.float32)
        self._value_scales = vd[:, :, None, :]

    def query(self, q: Array) -> tuple[Array, Array]:
        """q: [g, r, h] -> codes [b, g, r, 32] and scales [b, g, r, 1]."""
        code, d, _ = quantise_rows(q)
        return code.transpose(2, 0, 1, 3).astype(np.float32, order="C"), np.ascontiguousarray(d.transpose(2, 0, 1))[
            ..., None
        ]

    def scores(self, query: object, low: int, high: int, out: Array) -> None:
        """Fold over the blocks of the head dimension: exact dots, each times the product of both scales."""
        assert isinstance(query, tuple)
        code, d = query
        terms = code @ self._keys[..., low:high]
        terms *= self._key_scales[..., low:high] * d
        add_rows(terms, out)

    def weigh(self, weight: Array, low: int, high: int, terms: Array) -> None:
        """Multiply weights, scales and codes, from the left."""
        scaled = weight[..., None] * self._value_scales[low:high]
        shape = (*scaled.shape, 32)
        np.multiply(scaled[..., None], self._values[low:high], out=terms.reshape(shape))


@dataclass(frozen=True, slots=True)
class _Sizes:
    layers: int
    s: int
    c: int
    g: int
    h: int
    r: int
    t: int


def attention(site: CallSite) -> "Callable[..., Array] | None":
    """Prepare `attention.attention` over a float cache."""
    layers, s, c, g, h, _, r, t = site.dims
    return _prepared(site, _Sizes(layers, s, c, g, h, r, t))


def attention_i8(site: CallSite) -> "Callable[..., Array] | None":
    """Prepare `attention.attention` over a quantised cache."""
    layers, s, c, g, h, r, t = site.dims
    return _prepared(site, _Sizes(layers, s, c, g, h, r, t))


def _prepared(site: CallSite, n: _Sizes) -> "Callable[..., Array] | None":
    if site.ideal or site.lead or 0 in (n.layers, n.s, n.c, n.g, n.h, n.r, n.t):
        return None

    def run(
        k: Array, v: Array, kd: Array, vd: Array, layer: Array, q: Array, seq: Array, pos: Array, window: Array
    ) -> Array:
        queries = q.reshape(n.t, n.g, n.r, n.h)
        y = np.empty(queries.shape, np.float32)
        seen = _seen(n, pos, int(window))
        held_layer = min(int(layer), n.layers - 1)
        for sequence, tokens in _by_sequence(np.minimum(seq, n.s - 1)):
            first, last = min(seen[i][0] for i in tokens), max(seen[i][1] for i in tokens)
            rows = [part[held_layer, sequence] for part in (k, v, kd, vd)]
            parts = [_positions(row, first, last) for row in rows]
            held: Window = QuantisedWindow(*parts) if k.dtype == np.int8 else FloatWindow(*parts[:2])

            def one(i: int, held: Window = held, first: int = first) -> None:
                _attend(held, queries[i], seen[i][0] - first, seen[i][1] - first, first, y[i])

            share(one, [(i,) for i in tokens], sum(seen[i][1] - seen[i][0] for i in tokens) * n.g * n.r * n.h)
        return y.reshape(q.shape)

    return run


def _seen(n: _Sizes, pos: Array, window: int) -> list[tuple[int, int]]:
    """Return for each token the positions that it sees, as a half-open range; a range may be empty."""
    places = [int(p) for p in pos]
    end = (min(max(places), n.c - 1) // CHUNK + 1) * CHUNK
    ranges = []
    for place in places:
        low = max(0, place - window + 1) if window else 0
        ranges.append((min(low, end), min(place + 1, end)))
    return ranges


def _by_sequence(seq: Array) -> Iterator[tuple[int, Sequence[int]]]:
    if (seq == seq[0]).all():
        yield int(seq[0]), range(len(seq))
        return
    for sequence in np.unique(seq):
        yield int(sequence), [int(i) for i in np.flatnonzero(seq == sequence)]


def _positions(row: Array, first: int, last: int) -> Array:
    """Return rows of positions; beyond the context the last one. row: [c, ...]."""
    if last <= len(row):
        return row[first:last]
    return row[np.minimum(np.arange(first, last), len(row) - 1)]


def _attend(held: Window, q: Array, low: int, high: int, origin: int, out: Array) -> None:
    """Attend with one token that sees [low, high). origin: the absolute position of 0. q, out: [g, r, h]."""
    g, r, h = q.shape
    if low == high:
        out[...] = np.nan  # 0 / 0
        return
    score = scratch.take("score", g, r, high - low)
    held.scores(held.query(q), low, high, score)
    score -= np.maximum.reduce(score, axis=-1)[..., None]  # a NaN among them makes the result NaN in any order
    exp_in_place(score)
    weight = scratch.take("weight", high - low, g, r)
    weight[...] = score.transpose(2, 0, 1)
    z: Array | None = None
    o: Array | None = None
    for first, last in _chunks(low + origin, high + origin):
        start, stop = first - origin, last - origin
        mine = weight[start - low : stop - low]
        part_z, part_o = _total(mine), _mixture(held, mine, start, stop, h)
        z, o = (part_z, part_o) if z is None or o is None else (z + part_z, o + part_o)
    assert z is not None and o is not None
    np.multiply(o, (np.float32(1.0) / z)[..., None], out=out)


def _chunks(low: int, high: int) -> Iterator[tuple[int, int]]:
    """Cut a range of absolute positions where chunks begin."""
    while low < high:
        last = min(high, (low // CHUNK + 1) * CHUNK)
        yield low, last
        low = last


def _total(weight: Array) -> Array:
    """Sum the positions of a chunk in 16 partials. weight: [p, g, r] -> [g, r].

    The tree pairs partials 8, 4, 2 and 1 apart, so it is the same wherever one begins to count them.
    """
    whole = len(weight) // _LANES * _LANES
    p = np.add.reduce(weight[:whole].reshape(-1, _LANES, *weight.shape[1:]), axis=0, initial=0.0)
    p[: len(weight) - whole] += weight[whole:]
    for half in (8, 4, 2, 1):
        p = p[:half] + p[half:]
    total: Array = p[0]
    return total


def _mixture(held: Window, weight: Array, low: int, high: int, h: int) -> Array:
    """Fold weighted values over positions, ascending. weight: [p, g, r] -> [g, r, h]."""
    _, g, r = weight.shape
    total = np.zeros((g, r, h), np.float32)
    step = max(16, PIECE // (g * r * h))
    for first in range(low, high, step):
        last = min(first + step, high)
        terms = scratch.take("term", 1 + last - first, g, r, h)
        terms[0] = total
        held.weigh(weight[first - low : last - low], first, last, terms[1:])
        add_onto(terms, total)
    return total
