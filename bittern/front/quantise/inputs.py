"""Samples and labels for an ONNX model: arrays as they were read become f32 in the shape of its input.

A sample is reshaped if it holds as many values as the input wants. Pixels, which are u8, become 0 to 1 unless something
else is asked for, as `bittern run` has it.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.front.arrays import real_pixels

SAMPLE_SHAPE = code("N441", "the samples do not fit the input of the model")
LABEL_COUNT = code("N442", "the labels do not fit the samples")


def fitted_samples(
    array: npt.NDArray[Any], shape: tuple[int | None, ...], pixels: str = "auto"
) -> npt.NDArray[np.float32]:
    """Return samples [count, ...] f32. shape: of the model's input, the batch in front.

    pixels, of u8 data: `raw` keeps 0 to 255, `unit` and `auto` make 0 to 1, `signed` -1 to 1. Errors: N441.
    """
    sizes = [1 if size is None else size for size in shape[1:]]
    if None in shape[1:] and array.ndim == len(shape):
        sizes = [have if size is None else size for size, have in zip(shape[1:], array.shape[1:], strict=True)]
    wanted = int(np.prod(sizes))
    is_single = array.size == wanted and array.shape[1:] != tuple(sizes)
    count = 1 if is_single else len(array) if array.ndim else 0
    if not count or array.size != count * wanted or array.dtype.kind not in "fiub":
        raise BitternError(
            SAMPLE_SHAPE,
            f"The data are {array.dtype} of shape {list(array.shape)}; a sample needs {sizes}.",
            "Give samples that hold as many numbers as the input of the model.",
        )
    with np.errstate(over="ignore"):
        values = array.reshape(count, *sizes).astype(np.float32)
    return values if array.dtype != np.uint8 else real_pixels(array.reshape(count, *sizes), pixels).astype(np.float32)


def fitted_labels(array: npt.NDArray[Any], count: int) -> npt.NDArray[np.int64]:
    """Return the label of each sample, [count]. Errors: N442."""
    if array.size != count or array.dtype.kind not in "iu":
        raise BitternError(
            LABEL_COUNT,
            f"The labels are {array.dtype} of shape {list(array.shape)} for {count} samples.",
            "Give one whole number for each sample.",
        )
    return array.reshape(-1).astype(np.int64)
