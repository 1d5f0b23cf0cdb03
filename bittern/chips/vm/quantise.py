"""The quantisation of activations: one row or many, block by block (NUMERICS, 2)."""

from collections.abc import Callable

import numpy as np

from bittern.chips.vm.ordered import scratch
from bittern.graph.program import CallSite
from bittern.ops.table import Array

_TINY = np.float32(2.0**-100)
_MOST = np.float32(127.0)


def quantise(site: CallSite) -> "Callable[..., tuple[Array, Array, Array]] | None":
    """Prepare `quantise.quantise`."""
    return None if site.ideal or site.dims[0] == 0 else quantise_rows


def quantise_rows(x: Array) -> tuple[Array, Array, Array]:
    """Quantise rows. x: [..., n] f32 -> codes [..., n / 32, 32] i8, scales and scales times sums [..., n / 32] f32."""
    rows = x.reshape(-1, 32)
    work = scratch.take("rows", *rows.shape)
    np.abs(rows, out=work)
    a = np.maximum.reduce(work, axis=-1)  # a NaN stays; otherwise free of order
    tiny = a < _TINY
    d = a / _MOST
    inverse = _MOST / a
    if tiny.any():
        d[tiny] = 0.0
        inverse[tiny] = 0.0
    np.multiply(rows, inverse[:, None], out=work)
    np.rint(work, out=work)
    if not np.isfinite(a).all():
        work[np.isnan(work)] = 0.0
    q = work.astype(np.int8)  # within -127..127, because |x| <= a
    ds = d * np.add.reduce(work, axis=-1)  # a sum of small integers: exact in any order
    shape = x.shape[:-1]
    return q.reshape(*shape, -1, 32), d.reshape(*shape, -1), ds.reshape(*shape, -1)
