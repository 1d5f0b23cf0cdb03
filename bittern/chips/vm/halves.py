"""Half-precision numbers as f32, faster than numpy converts them where the processor has no instruction for it."""

import numpy as np

from bittern.ops.table import Array

_SIGN_AND_MAGNITUDE = np.int32(-0x70002000)  # 0x8fffe000
_REBIAS = np.float32(2.0**112)  # between the exponents' biases, 15 and 127
_TOP = np.float32(65536.0)  # what an infinity or a NaN becomes, or more


def as_float(x: Array) -> Array:
    """Return f16 or f32 as contiguous f32, exactly.

    The bits of an f16, moved to where an f32 has them, are a number 2^112 too small; only infinities and NaNs have an
    exponent that this does not turn into the right one.
    """
    if x.dtype != np.float16:
        return np.ascontiguousarray(x)
    bits = x.view(np.int16).astype(np.int32, order="C")
    bits <<= np.int32(13)
    bits &= _SIGN_AND_MAGNITUDE
    y: Array = bits.view(np.float32)
    y *= _REBIAS
    if y.size and (y.max() >= _TOP or y.min() <= -_TOP):
        return x.astype(np.float32, order="C")
    return y
