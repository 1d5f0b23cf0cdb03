"""Writing keys and values into a cache that the program owns, in place."""

from collections.abc import Callable

import numpy as np

from bittern.chips.vm.quantise import quantise_rows
from bittern.graph.program import CallSite
from bittern.ops.convert import rounded
from bittern.ops.table import Array
from bittern.types.elements import F16

Caches = tuple[Array, Array, Array, Array]  # keys, values and their scales


def store_f16(site: CallSite) -> "Callable[..., Caches] | None":
    """Prepare `attention.store` into a cache in f16."""
    return _prepared(site, lambda k, v: (rounded(F16, k), rounded(F16, v)))


def store_f32(site: CallSite) -> "Callable[..., Caches] | None":
    """Prepare `attention.store` into a cache in f32."""
    return _prepared(site, lambda k, v: (k, v))


def store_i8(site: CallSite) -> "Callable[..., Caches] | None":
    """Prepare `attention.store` into a quantised cache."""

    def encode(k: Array, v: Array) -> tuple[Array, ...]:
        (k_code, k_scale, _), (v_code, v_scale, _) = quantise_rows(k), quantise_rows(v)
        return k_code.reshape(k.shape), v_code.reshape(v.shape), k_scale, v_scale

    return _prepared(site, encode)


def _prepared(site: CallSite, encode: Callable[[Array, Array], tuple[Array, ...]]) -> "Callable[..., Caches] | None":
    """encode: keys and values [t, g, h] f32 -> what goes into each of the cache's arrays."""
    has_scales = len(site.dims) == 6 or site.dims[5] > 0
    written = frozenset(range(4)) if has_scales else frozenset((0, 1))
    if site.ideal or site.lead or not site.donated >= written or 0 in (site.dims[-1], *site.dims[:5]):
        return None
    layers, sequences, context = site.dims[:3]

    def run(
        k: Array, v: Array, kd: Array, vd: Array, layer: Array, seq: Array, pos: Array, keys: Array, values: Array
    ) -> Caches:
        caches = (k, v, kd, vd) if has_scales else (k, v, np.empty_like(kd), np.empty_like(vd))
        rows = encode(keys, values)
        inside = (pos < context) & (seq < sequences)
        if layer >= layers or not inside.all():
            kept = np.flatnonzero(inside) if layer < layers else np.empty(0, np.intp)
            seq, pos, rows = seq[kept], pos[kept], tuple(row[kept] for row in rows)
        if len(pos):
            for cache, row in zip(caches, rows, strict=False):
                cache[int(layer)][seq, pos] = row  # of equal places the last one stays
        return caches

    return run
