"""Encoders of the K formats: blocks of 256 values in groups whose scales, and minima, are small whole numbers.

In: values [blocks, 256] f32, finite; optionally the importance of each. Out: bytes [blocks, size] u8. The scale of a
group is the one of the least weighted squared error (`search`); scales are then rounded to the block's own, and
the codes are the nearest ones to what the rounded scales make. The layouts are those of the library's
`products/q*_k.btn`. A block of zeros has scale 0 and codes of 0. Errors: N420.
"""

import numpy as np
import numpy.typing as npt

from bittern.front.quantise.gguf.blocks import Blocks, bit_pairs, half, kept
from bittern.front.quantise.gguf.search import Floats, best_scale, best_scale_and_minimum, importance_of, inverse


def encode_q4_k(x: Floats, importance: Floats | None, method: str) -> Blocks:
    """Encode q4_k: 8 groups of 32 codes of 4 bits, 6-bit scales and minima."""
    head, scales, minima, codes = _shifted(x, importance, 32, 15, 63)
    return np.concatenate((head, _six_bits(scales, minima), _nibbles(codes)), 1)


def encode_q5_k(x: Floats, importance: Floats | None, method: str) -> Blocks:
    """Encode q5_k: as q4_k, with the fifth bits in 32 bytes of their own."""
    head, scales, minima, codes = _shifted(x, importance, 32, 31, 63)
    high = np.packbits(codes.reshape(-1, 8, 32) >> 4, 1, "little").reshape(-1, 32)
    return np.concatenate((head, _six_bits(scales, minima), high, _nibbles(codes & 15)), 1)


def encode_q2_k(x: Floats, importance: Floats | None, method: str) -> Blocks:
    """Encode q2_k: 16 groups of 16 codes of 2 bits, 4-bit scales and minima."""
    head, scales, minima, codes = _shifted(x, importance, 16, 3, 15)
    return np.concatenate((scales | minima << 4, bit_pairs(codes), head), 1)


def encode_q3_k(x: Floats, importance: Floats | None, method: str) -> Blocks:
    """Encode q3_k: 16 groups of 16 codes of 3 bits, 6-bit scales with an offset of 32."""
    head, scales, codes = _scaled(x, importance, -4, 3, 32)
    high = np.packbits(codes.reshape(-1, 8, 32) >> 2, 1, "little").reshape(-1, 32)
    shifted = (scales + 32).astype(np.uint8)
    upper = (shifted >> 4).reshape(-1, 4, 4)
    pairs = upper[:, 0] | upper[:, 1] << 2 | upper[:, 2] << 4 | upper[:, 3] << 6
    low = shifted[:, :8] & 15 | shifted[:, 8:] << 4
    return np.concatenate((high, bit_pairs(codes & 3), low, pairs, head), 1)


def encode_q6_k(x: Floats, importance: Floats | None, method: str) -> Blocks:
    """Encode q6_k: 16 groups of 16 codes of 6 bits, scales of 8 bits."""
    head, scales, codes = _scaled(x, importance, -32, 31, 128)
    halves = codes.reshape(-1, 2, 2, 64) & 15
    low = (halves[:, :, 0] | halves[:, :, 1] << 4).reshape(-1, 128)
    return np.concatenate((low, bit_pairs(codes >> 4), scales.astype(np.int8).view(np.uint8), head), 1)


def _groups(x: Floats, importance: Floats | None, size: int) -> tuple[Floats, Floats]:
    """Return values and weights by group, [blocks * groups, size]."""
    return x.reshape(-1, size), importance_of(x, importance).reshape(-1, size)


def _shifted(
    x: Floats, importance: Floats | None, size: int, high: int, most: int
) -> tuple[Blocks, Blocks, Blocks, Blocks]:
    """Return the two f16 scales, scales and minima by group (0 to most) and codes (0 to high), [blocks, ...]."""
    groups, weight = _groups(x, importance, size)
    scale, minimum = (part.reshape(len(x), -1) for part in best_scale_and_minimum(groups, weight, high))
    unit, low_unit = (part.max(1, keepdims=True) / np.float32(most) for part in (scale, minimum))
    head = np.concatenate((half(unit[:, 0]), half(low_unit[:, 0])), 1)
    unit, low_unit = kept(unit), kept(low_unit)
    scales, minima = (
        np.clip(np.rint(part * inverse(each)), 0, most) for part, each in ((scale, unit), (minimum, low_unit))
    )
    shift, factor = (low_unit * minima).reshape(-1, 1), (unit * scales).reshape(-1, 1)
    codes = np.clip(np.rint((groups + shift) * inverse(factor)), 0, high)
    return head, scales.astype(np.uint8), minima.astype(np.uint8), codes.astype(np.uint8).reshape(len(x), -1)


def _scaled(
    x: Floats, importance: Floats | None, low: int, high: int, most: int
) -> tuple[Blocks, npt.NDArray[np.int16], Blocks]:
    """Return the f16 scale, scales by group (-most to most - 1) and codes less low, [blocks, ...]."""
    groups, weight = _groups(x, importance, 16)
    scale = best_scale(groups, weight, low, high).reshape(len(x), -1)
    extreme = np.take_along_axis(scale, np.argmax(np.abs(scale), 1)[:, None], 1)
    unit = extreme / np.float32(-most)
    head, unit = half(unit[:, 0]), kept(unit)
    scales = np.clip(np.rint(scale * inverse(unit)), -most, most - 1)
    codes = np.clip(np.rint(groups * inverse((unit * scales).reshape(-1, 1))), low, high) - low
    return head, scales.astype(np.int16), codes.astype(np.uint8).reshape(len(x), -1)


def _nibbles(codes: Blocks) -> Blocks:
    """Return 256 codes of 4 bits as 128 bytes: 32 bytes hold a group of 32 in the low halves, the next in the high."""
    pairs = codes.reshape(-1, 4, 2, 32)
    joined: Blocks = pairs[:, :, 0] | pairs[:, :, 1] << 4
    return joined.reshape(-1, 128)


def _six_bits(scales: Blocks, minima: Blocks) -> Blocks:
    """Return 8 scales and 8 minima of 6 bits as 12 bytes; the upper ones give their high bits to the first 8 bytes."""
    firsts = [part[:, :4] | part[:, 4:] >> 4 << 6 for part in (scales, minima)]
    return np.concatenate((*firsts, scales[:, 4:] & 15 | (minima[:, 4:] & 15) << 4), 1)
