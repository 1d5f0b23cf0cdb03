"""What the kernels rest on, tried once in a process: that numpy here computes in f32 as IEEE 754 says.

The kernels take three things for granted (NUMERICS, 3 and 4): a matrix product of whole numbers whose sums stay below
2^24 is exact, so BLAS neither rounds its operands to fewer bits nor skips any; a reduction along an outer axis adds row
after row; and subnormal numbers are kept. A BLAS set to bf16 or TF32, or a library in the process that was built with
`-ffast-math` and turns subnormals off, would break that without a word. So it is tried, in a fraction of a millisecond.
"""

from functools import cache
from math import prod

import numpy as np

from bittern.base.errors import BitternError, code
from bittern.ops.table import Array

INEXACT = code("R113", "numpy does not compute in f32 here as the chip needs it")

_GROUP, _WIDTH = 32, 96  # of the tried products: values that are summed, results of a row
_TOKENS = (1, 2, 17)  # BLAS has other code for a vector and for a matrix


def check_arithmetic() -> None:
    """Refuse to run where numpy breaks one of the premises. Raises R113. A success is remembered."""
    _tried()


@cache
def _tried() -> None:
    rows = (
        (is_product_exact, "a matrix product of whole numbers below 2^24 is not exact"),
        (is_sum_ordered, "sums along an outer axis are not taken row after row"),
        (is_subnormal_kept, "numbers below 2^-126 become zero"),
    )
    broken = [what for holds, what in rows if not holds()]
    if broken:
        raise BitternError(
            INEXACT,
            f"The arithmetic of numpy {np.__version__} fails the chip's test: {'; '.join(broken)}.",
            "Use the numpy that pip installs, without settings of its BLAS for lower precision, and load no library "
            "that changes the processor's rounding before Bittern.",
        )


def is_product_exact() -> bool:
    """Whether products with sums of up to 24 bits, from factors of up to 12, are the exact ones."""
    for tokens in _TOKENS:
        x = _spread(3, tokens, _GROUP) % 8191 - 4095
        w = _spread(3, _GROUP, _WIDTH) % 255 - 127
        x[:, -1], w[..., -1] = 4095, 127  # the largest sum: 32 * 4095 * 127 < 2^24
        found = np.matmul(x.astype(np.float32), w.astype(np.float32))
        if not np.array_equal(found.astype(np.int64), np.matmul(x, w)):
            return False
    return True


def is_sum_ordered() -> bool:
    """Whether `add.reduce` along axis 0 gives, for each column, the sum from +0 in ascending order."""
    for n in (7, 16, 513):
        terms = np.ldexp(_spread(n, 24) % 16381 - 8190, _spread(n, 24) % 41 - 20).astype(np.float32)
        wanted: Array = np.zeros(24, np.float32)
        for row in terms:
            wanted = wanted + row
        if not np.array_equal(np.add.reduce(terms, axis=0, initial=0.0), wanted):
            return False
    return True


def is_subnormal_kept() -> bool:
    """Whether subnormal numbers are read and made as themselves."""
    with np.errstate(under="ignore"):
        small = np.full(64, 2.0**-126, np.float32) * np.float32(0.25)
        return bool(np.all(small.view(np.uint32) == 1 << 21) and np.all(small + small > 0))


def _spread(*shape: int) -> Array:
    """Return whole numbers from 0 to 2^31 - 1 that are spread out: multiples of a prime modulo another."""
    return (np.arange(1, prod(shape) + 1, dtype=np.int64) * 1664525 % 2147483647).reshape(shape)
