"""Encoders of the block formats with one scale a block: f32 values become the bytes that GGUF files hold.

In: values [blocks, n] f32, finite; optionally the importance of each. Out: bytes [blocks, size] u8. Without importance
and with the method `max` the bytes are those of the formats' reference rules (ggml's `quantize_row_*_ref`): a division
for the scale, one for its inverse, a product, and a rounding each, all in f32. `mse` searches the scale of the least
weighted squared error instead. A scale that becomes 0 in f16 stands for values of 0; one beyond f16 is refused: N420.
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.front.quantise.gguf.search import Floats, best_scale, best_scale_and_minimum, importance_of, inverse
from bittern.front.quantise.ordered import ordered_sum

TOO_LARGE = code("N420", "a value is too large for the scale of a block format")

Blocks: TypeAlias = npt.NDArray[Any]  # u8
_POWERS = np.array([81, 27, 9, 3, 1], np.uint16)


def half(x: Floats) -> Blocks:
    """Return numbers as the bytes of f16. x: [blocks] -> [blocks, 2]. Errors: N420."""
    with np.errstate(over="ignore"):
        rounded = x.astype("<f2")
    if not np.isfinite(rounded).all():
        raise BitternError(
            TOO_LARGE,
            f"A block needs the scale {float(x[int(np.argmin(np.isfinite(rounded)))]):.6g}; f16 ends at 65504.",
            "Keep this tensor as it is, or scale the model.",
        )
    return rounded[:, None].view(np.uint8)


def kept(x: Floats) -> Floats:
    """Return numbers as f16 keeps them."""
    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(np.float32)


def bit_pairs(codes: Blocks) -> Blocks:
    """Return 256 codes of 2 bits as 64 bytes, the first 32 of each 128 in the lowest bits. codes: [blocks, 256]."""
    parts = codes.reshape(len(codes), 2, 4, 32)
    joined: Blocks = parts[:, :, 0] | parts[:, :, 1] << 2 | parts[:, :, 2] << 4 | parts[:, :, 3] << 6
    return joined.reshape(len(codes), 64)


def encode_scaled(x: Floats, importance: Floats | None, method: str, bits: int) -> Blocks:
    """Encode q4_0 (bits 4) or q5_0 (bits 5): value = d * (code - 2^(bits - 1)), the extreme value getting code 0."""
    middle = 1 << (bits - 1)
    if method == "max":
        extreme = np.take_along_axis(x, np.argmax(np.abs(x), 1)[:, None], 1)
        scale = extreme / np.float32(-middle)
        codes = np.trunc(x * inverse(scale) + np.float32(middle + 0.5))
    else:
        scale = kept(best_scale(x, importance_of(x, importance), -middle, middle - 1))[:, None]
        codes = np.rint(x * inverse(scale)) + np.float32(middle)
    return _packed(half(scale[:, 0]), np.clip(codes, 0, 2 * middle - 1).astype(np.uint8), bits)


def encode_shifted(x: Floats, importance: Floats | None, method: str, bits: int) -> Blocks:
    """Encode q4_1 (bits 4) or q5_1 (bits 5): value = d * code + m, m the least value."""
    top = np.float32((1 << bits) - 1)
    if method == "max":
        low: Floats = x.min(1, keepdims=True)
        with np.errstate(over="ignore"):
            scale = (x.max(1, keepdims=True) - low) / top
        codes = np.trunc((x - low) * inverse(scale) + np.float32(0.5))
    else:
        shift = x.min(1, keepdims=True)
        found, minimum = best_scale_and_minimum(x - shift, importance_of(x, importance), int(top))
        scale, low = kept(found)[:, None], kept(shift - minimum[:, None])
        codes = np.rint((x - low) * inverse(scale))
    head = np.concatenate((half(scale[:, 0]), half(low[:, 0])), 1)
    return _packed(head, np.clip(codes, 0, top).astype(np.uint8), bits)


def _packed(head: Blocks, codes: Blocks, bits: int) -> Blocks:
    """Return blocks of 32 codes: the head, for 5 bits the fifth bits as 4 bytes, then pairs (i, i + 16) of 4 bits."""
    pairs: Blocks = codes[:, :16] & 15 | codes[:, 16:] << 4
    if bits == 4:
        return np.concatenate((head, pairs), 1)
    return np.concatenate((head, np.packbits(codes >> 4, 1, "little"), pairs), 1)


def encode_q8_0(x: Floats, importance: Floats | None, method: str) -> Blocks:
    """Encode q8_0: value = d * code; the greatest magnitude gets 127, ties go away from 0."""
    if method == "max":
        scale = np.abs(x).max(1, keepdims=True) / np.float32(127)
        codes = _half_away(x * inverse(scale))
    else:
        scale = kept(best_scale(x, importance_of(x, importance), -127, 127))[:, None]
        codes = np.rint(x * inverse(scale))
    return np.concatenate((half(scale[:, 0]), np.clip(codes, -127, 127).astype(np.int8).view(np.uint8)), 1)


def _half_away(x: Floats) -> Floats:
    """Return the nearest whole numbers, ties away from 0. |x| below 2^22."""
    low = np.floor(np.abs(x))
    return np.asarray(np.copysign(low + np.floor(2 * (np.abs(x) - low)), x), np.float32)


def _ternary(x: Floats, importance: Floats | None, method: str) -> tuple[Blocks, Blocks]:
    """Return the scale's bytes and digits 0, 1, 2 for -1, 0, 1. `max`: the scale is the largest magnitude."""
    if method == "max":
        scale = np.abs(x).max(1, keepdims=True)
    else:
        scale = best_ternary_scale(x, importance_of(x, importance))[:, None]
    digits = np.clip(_half_away(np.clip(x * inverse(scale), -2, 2)), -1, 1) + 1
    return half(scale[:, 0]), digits.astype(np.uint8)


def best_ternary_scale(x: Floats, weight: Floats) -> Floats:
    """Return the scale of codes -1, 0, 1 with the least weighted squared error: the best of all 256 thresholds.

    Sums run over the magnitudes in descending order.
    """
    order = np.argsort(-np.abs(x), 1, kind="stable")
    weight = np.take_along_axis(weight, order, 1)
    products = np.cumsum(weight * np.take_along_axis(np.abs(x), order, 1), 1)
    counts = np.cumsum(weight, 1)
    best = np.argmax(products * products / counts, 1)[:, None]
    return np.asarray(np.take_along_axis(products / counts, best, 1)[:, 0], np.float32)


def encode_tq1_0(x: Floats, importance: Floats | None, method: str) -> Blocks:
    """Encode tq1_0: five ternary digits a byte as a fraction of 256, rounded up; value = d * (digit - 1)."""
    scale, digits = _ternary(x, importance, method)
    parts = [
        (digits[:, low:high].reshape(len(x), count, -1).astype(np.uint16) * _POWERS[:count, None]).sum(1)
        for low, high, count in ((0, 160, 5), (160, 240, 5), (240, 256, 4))
    ]
    whole = np.concatenate(parts, 1).astype(np.uint16)
    return np.concatenate((((whole * 256 + 242) // 243).astype(np.uint8), scale), 1)


def encode_tq2_0(x: Floats, importance: Floats | None, method: str) -> Blocks:
    """Encode tq2_0: digits of 2 bits; a half of 128 values is 32 bytes, the first 32 values in the lowest bits."""
    scale, digits = _ternary(x, importance, method)
    return np.concatenate((bit_pairs(digits), scale), 1)


def encode_q1_0(x: Floats, importance: Floats | None, method: str) -> Blocks:
    """Encode q1_0: signs of 128 values, 0 counting as +1, and their mean magnitude (weighted by importance)."""
    weight = importance_of(x, importance)
    scale = ordered_sum(weight * np.abs(x)) / ordered_sum(weight)
    return np.concatenate((half(scale), np.packbits(x >= 0, 1, "little")), 1)


def encode_q2_0(x: Floats, importance: Floats | None, method: str) -> Blocks:
    """Encode q2_0: 64 codes of 2 bits, value = d * (code - 1), codes -1 to 2; always by the least squared error."""
    scale = kept(best_scale(x, importance_of(x, importance), -1, 2))[:, None]
    codes = np.clip(np.rint(x * inverse(scale)) + 1, 0, 3).astype(np.uint8).reshape(len(x), 16, 4)
    packed: Any = codes[..., 0] | codes[..., 1] << 2 | codes[..., 2] << 4 | codes[..., 3] << 6
    return np.concatenate((half(scale[:, 0]), packed), 1)
