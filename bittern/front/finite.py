"""Refusing weights that are no numbers: an infinity or a NaN in a tensor, or as the scale of one of its blocks.

One such scale makes whole rows NaN, and with them every token: other programs stop there, or answer NaN. In: a tensor
of an opened checkpoint. The scan reads the scales alone and is remembered with the digests of the file.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.front.checkpoint import Checkpoint, TensorInfo, shown

NOT_FINITE = code("F108", "a tensor holds an infinity or a NaN, or has one as a scale")

_STEP = 1 << 22  # values or blocks looked at together
_EXPONENTS = {"f16": 0x7C00, "bf16": 0x7F80}  # of 16-bit floats: all of them are set in what is not finite
_SCALES: dict[str, tuple[int, ...]] = {  # format: where its f16 numbers begin in a block
    **dict.fromkeys(("q4_0", "q5_0", "q8_0", "q1_0", "q2_0", "iq1_s", "iq2_xxs", "iq2_xs", "iq2_s"), (0,)),
    **dict.fromkeys(("iq3_xxs", "iq3_s", "iq4_nl", "iq4_xs"), (0,)),
    **dict.fromkeys(("q4_1", "q5_1", "q4_k", "q5_k"), (0, 2)),
    "q2_k": (80, 82),
    "q3_k": (108,),
    "q6_k": (208,),
    "tq1_0": (52,),
    "tq2_0": (64,),
    **dict.fromkeys(("mxfp4", "nvfp4"), ()),
}


def check_finite(checkpoint: Checkpoint, name: str) -> None:
    """Refuse a tensor with an infinity or a NaN. Errors: F105 to F107, F108 with the place."""
    info = checkpoint.info(name)
    digests = checkpoint.parts[info.part].digests
    place = (info.offset, info.size)
    if name not in checkpoint.derived and place in digests.finite:
        return
    stored = checkpoint.array(name)
    width = stored.shape[-1] if info.element.is_format else 1
    rows = stored.reshape(-1, width)
    for low in range(0, len(rows), _STEP):
        wrong = np.flatnonzero(_wrong(info, rows[low : low + _STEP]))
        if wrong.size:
            raise _refusal(info, low + int(wrong[0]))
    if name not in checkpoint.derived:
        digests.remember(finite={place})


def _wrong(info: TensorInfo, rows: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Tell which values, or which blocks, are not finite. rows: [count, 1] values or [count, bytes] u8."""
    element = info.element
    found = np.zeros(len(rows), np.bool_)
    if element.name == "iq1_m":  # the scale lies in the upper halves of four words
        found |= (rows[:, 55] & 0x70 == 0x70) & (rows[:, 53] & 0xC0 == 0xC0)
    elif element.is_format:
        for start in _SCALES[element.name]:
            found |= rows[:, start + 1] & 0x7C == 0x7C
    elif element.name in _EXPONENTS:
        mask = np.uint16(_EXPONENTS[element.name])
        found |= rows[:, 0].view(np.uint16) & mask == mask
    elif element.is_float:
        found |= ~np.isfinite(rows[:, 0])
    return found


def _refusal(info: TensorInfo, number: int) -> BitternError:
    blocks = info.storage_shape[:-1] if info.element.is_format else info.shape
    place = ", ".join(str(int(i)) for i in np.unravel_index(number, blocks))
    what = f"the scale of block [{place}]" if info.element.is_format else f"the value at [{place}]"
    return BitternError(
        NOT_FINITE,
        f"In the tensor {shown(info.name)}, {info.element}, {what} is an infinity or a NaN.",
        "The conversion of the model failed there: convert it again, or take another file.",
    )
