"""Rotary position embedding of t tokens, in both orders of the pairs."""

from collections.abc import Callable

import numpy as np

from bittern.graph.program import CallSite
from bittern.ops.table import Array


def rotary_pairs(site: CallSite) -> "Callable[..., Array] | None":
    """Prepare `rotary.rotary_pairs`."""
    return _rotary(site, lambda x: (x[..., 0::2], x[..., 1::2]))


def rotary_halves(site: CallSite) -> "Callable[..., Array] | None":
    """Prepare `rotary.rotary_halves`."""
    half = site.dims[3] // 2
    return _rotary(site, lambda x: (x[..., :half], x[..., half:]))


def _rotary(site: CallSite, split: Callable[[Array], tuple[Array, Array]]) -> "Callable[..., Array] | None":
    if site.ideal or site.lead or site.dims[2] == 0:
        return None
    last = site.dims[2] - 1

    def run(x: Array, pos: Array, cos: Array, sin: Array) -> Array:
        """x: [t, heads, h], pos: [t] u32, cos, sin: [c, h / 2] -> [t, heads, h]."""
        place = np.minimum(pos, last)
        c, s = cos[place][:, None], sin[place][:, None]
        a, b = split(x)
        y = np.empty(x.shape, np.float32)
        first, second = split(y)
        np.multiply(a, c, out=first)
        np.subtract(first, b * s, out=first)
        np.multiply(a, s, out=second)
        np.add(second, b * c, out=second)
        return y

    return run
