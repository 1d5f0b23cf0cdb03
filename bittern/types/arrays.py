"""Which arrays hold values of an element, and the one form of a NaN.

NaN is one value (chips differ in the NaN that they make), so whatever enters an identity has the canonical one; -0 and
+0 stay two values.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.types.elements import Element, Kind

# element -> largest magnitude bits that are no NaN (infinity; f8_e4m3 has none), bits of the canonical NaN
_NANS: dict[str, tuple[int, int]] = {
    "f8_e4m3": (0x7E, 0x7F),
    "f8_e5m2": (0x7C, 0x7E),
    "f16": (0x7C00, 0x7E00),
    "bf16": (0x7F80, 0x7FC0),
    "f32": (0x7F800000, 0x7FC00000),
    "f64": (0x7FF0000000000000, 0x7FF8000000000000),
}


def canonical(array: npt.NDArray[Any], element: Element) -> npt.NDArray[Any]:
    """Return the array with every NaN of a float element as the canonical one. array: in the storage dtype."""
    if element.name not in _NANS:
        return array
    last, nan = _NANS[element.name]
    bits = array.view(f"u{array.dtype.itemsize}")
    is_nan = (bits & ((1 << (element.bits - 1)) - 1)) > last
    if not is_nan.any():
        return array
    return np.where(is_nan, np.array(nan, bits.dtype), bits).view(array.dtype)


def is_valid(array: npt.NDArray[Any], element: Element) -> bool:
    """Whether every number is a value of the element.

    array: any dtype; for elements that are not stored as floats (f8 and bf16 count as their bits) it must be integral.
    """
    if not array.size or np.dtype(element.storage).kind == "f":
        return True
    if array.dtype.kind not in "biu":
        return False
    if element.kind is Kind.SIGN and element.name == "b1":
        return bool(np.all(np.abs(array.astype(np.int64)) == 1))
    low, high = (0, 255) if element.is_format else (element.low, element.high)
    return int(array.min()) >= low and int(array.max()) <= high
