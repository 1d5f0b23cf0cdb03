"""Root-mean-square normalisation, of one row or many."""

from collections.abc import Callable

import numpy as np

from bittern.chips.vm.ordered import sum_of_sixteen
from bittern.graph.program import CallSite
from bittern.ops.table import Array


def rms_norm(site: CallSite) -> "Callable[..., Array] | None":
    """Prepare `norms.rms_norm`."""
    if site.ideal or site.dims[0] == 0:
        return None
    n = np.uint32(site.dims[0]).astype(np.float32)

    def run(x: Array, gain: Array, eps: Array) -> Array:
        scale = np.float32(1.0) / np.sqrt(sum_of_sixteen(x * x) / n + eps)
        y = x * scale[..., None]
        if gain.ndim == y.ndim and all(a in (1, b) for a, b in zip(gain.shape, y.shape, strict=True)):
            return np.multiply(y, gain, out=y)
        return y * gain

    return run
