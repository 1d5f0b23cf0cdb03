"""Sums in the order that the definitions fix, and memory to compute in.

numpy adds in order along an axis that is not its innermost one: `add.reduce` over axis 0 of [n, k], k > 1, adds row
after row. Along the innermost axis it adds pairwise, so no sum here runs along it; the conformance suite would see it.
"""

from math import prod
from threading import local

import numpy as np

from bittern.ops.table import Array

PIECE = 1 << 17  # values computed at a time, so that they stay in a core's cache


class Scratch(local):
    """Float32 memory by purpose, one set a thread: what a kernel computes in, never what it returns."""

    def __init__(self) -> None:
        self._held: dict[str, Array] = {}

    def take(self, purpose: str, *shape: int) -> Array:
        """Return an array of this shape with any content; the next call for the same purpose gives the same memory."""
        size = prod(shape)
        held = self._held.get(purpose)
        if held is None or held.size < size:
            held = self._held[purpose] = np.empty(size, np.float32)
        return held[:size].reshape(shape)


scratch = Scratch()


def add_rows(terms: Array, out: Array, axis: int = 0) -> None:
    """Sum one axis in ascending order from +0. terms: contiguous f32, its last axis another one. out: without it."""
    if terms.shape[axis] == terms.size:  # then numpy would see one run of values and add pairwise
        out[...] = np.add.accumulate(terms.reshape(-1))[-1] + np.float32(0.0)
    else:
        np.add.reduce(terms, axis=axis, initial=0.0, out=out)


def add_onto(terms: Array, out: Array) -> None:
    """Sum axis 0 in ascending order, beginning with its first row. terms: [1 + n, ...] contiguous f32."""
    if terms.shape[0] == terms.size:
        out[...] = np.add.accumulate(terms.reshape(-1))[-1]
    else:
        np.add.reduce(terms, axis=0, out=out)


def sum_of_sixteen(x: Array) -> Array:
    """Sum the last axis by NUMERICS 4: 16 partials, then the tree. x: [..., n] f32 -> [...]."""
    n = x.shape[-1]
    rounds = -(-n // 16)
    if rounds * 16 != n:
        padded = np.zeros((*x.shape[:-1], rounds * 16), np.float32)
        padded[..., :n] = x
        x = padded
    partials = np.add.reduce(x.reshape(*x.shape[:-1], rounds, 16), axis=-2, initial=0.0)
    return halves(partials)


def halves(p: Array) -> Array:
    """Add 16 partials of the last axis: 8 apart, 4 apart, 2 apart, then the last two. p: [..., 16] -> [...]."""
    p = p[..., :8] + p[..., 8:]
    p = p[..., :4] + p[..., 4:]
    p = p[..., :2] + p[..., 2:]
    result: Array = p[..., 0] + p[..., 1]
    return result
