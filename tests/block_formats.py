"""The block formats of GGUF as tests make them: sizes, where their scales stand, and blocks with chosen scales.

Written from the layouts alone; nothing of Bittern is used here.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class BlockFormat:
    """One format.

    number: its type number. columns: values of a block. size: bytes of a block. largest: of code times group scale, for
    a scale of 1. halves: where the f16 numbers stand: the scale, and the minimum or its scale. group: values that share
    a scale.
    """

    number: int
    columns: int
    size: int
    largest: float
    halves: tuple[int, ...] = (0,)
    group: int = 32


# fmt: off
FORMATS = {
    "q4_0":    BlockFormat(2, 32, 18, 8),
    "q4_1":    BlockFormat(3, 32, 20, 16, (0, 2)),
    "q5_0":    BlockFormat(6, 32, 22, 16),
    "q5_1":    BlockFormat(7, 32, 24, 32, (0, 2)),
    "q8_0":    BlockFormat(8, 32, 34, 127),
    "q2_k":    BlockFormat(10, 256, 84, 3 * 15, (80, 82), 16),
    "q3_k":    BlockFormat(11, 256, 110, 4 * 32, (108,), 16),
    "q4_k":    BlockFormat(12, 256, 144, 16 * 32, (0, 2)),
    "q5_k":    BlockFormat(13, 256, 176, 32 * 32, (0, 2)),
    "q6_k":    BlockFormat(14, 256, 210, 32 * 64, (208,), 16),
    "iq2_xxs": BlockFormat(16, 256, 66, 43 * 4),
    "iq2_xs":  BlockFormat(17, 256, 74, 43 * 4, (0,), 16),
    "iq3_xxs": BlockFormat(18, 256, 98, 62 * 8),
    "iq1_s":   BlockFormat(19, 256, 50, 15),
    "iq4_nl":  BlockFormat(20, 32, 18, 127),
    "iq3_s":   BlockFormat(21, 256, 110, 15 * 31),
    "iq2_s":   BlockFormat(22, 256, 82, 43 * 4, (0,), 16),
    "iq4_xs":  BlockFormat(23, 256, 136, 127 * 32),
    "iq1_m":   BlockFormat(29, 256, 56, 15, (48,), 16),
    "tq1_0":   BlockFormat(34, 256, 54, 1, (52,)),
    "tq2_0":   BlockFormat(35, 256, 66, 2, (64,)),
    "mxfp4":   BlockFormat(39, 32, 17, 12),
    "nvfp4":   BlockFormat(40, 64, 36, 12, (0,), 16),
    "q1_0":    BlockFormat(41, 128, 18, 1),
    "q2_0":    BlockFormat(42, 64, 18, 2),
}
# fmt: on


def blocks(rng: np.random.Generator, name: str, *shape: int) -> Array:
    """Return random blocks. -> [*shape, bytes] u8."""
    return rng.integers(0, 256, (*shape, FORMATS[name].size), dtype=np.uint8)


def put_scale(name: str, made: Array, scale: Array, which: int = 0) -> None:
    """Write the scale of every block, or with which=1 its minimum. made: [..., bytes] u8. scale: [...]."""
    bits = np.ascontiguousarray(scale, np.float16).view(np.uint16)
    if name == "mxfp4":
        made[..., 0] = _exponent(scale, bits)
    elif name == "nvfp4":
        made[..., 0:4] = _e4m3(scale, bits)[..., None]
    elif name == "iq1_m":  # four bits in the top of each of four words
        for i in range(4):
            made[..., 49 + 2 * i] = made[..., 49 + 2 * i] & 15 | (bits >> 4 * i & 15).astype(np.uint8) << 4
    else:
        place = FORMATS[name].halves[which]
        made[..., place : place + 2] = bits[..., None].view(np.uint8).reshape(*made.shape[:-1], 2)


def _exponent(scale: Array, bits: Array) -> Array:
    """The nearest lower power of two as eight bits; what is none becomes any byte."""
    with np.errstate(all="ignore"):
        power = np.floor(np.log2(np.abs(scale).astype(np.float64)))
    return np.where(np.isfinite(power), np.clip(power + 128, 0, 255), bits & 255).astype(np.uint8)


def _e4m3(scale: Array, bits: Array) -> Array:
    """Twice the size of the scale as four bits of exponent and three of mantissa, cut off."""
    with np.errstate(all="ignore"):
        wide = np.minimum(np.abs(2 * np.nan_to_num(scale.astype(np.float32))), np.float32(448))
    word = wide.view(np.uint32)
    normal = np.clip((word >> 20).astype(np.int64) - (120 << 3), 0, 126)
    small = np.clip(wide * 512, 0, 7).astype(np.int64)
    return np.where(np.isfinite(scale), np.where(wide < 2.0**-6, small, normal), bits & 255).astype(np.uint8)
