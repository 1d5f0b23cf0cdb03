"""Which operands are codes, and what their integer products stand for.

A product of codes is exact: sum (a - z) s_a * w s_w = s_a s_w * (sum a w - z sum w), where the zero of the weights is
taken off them when they are read. The sums are integers; s_a s_w is one constant, the product of both, rounded to f32.
Where this form does not exist (a scale that varies along the summed axis, a zero that is no whole number) the operands
are taken as f32 numbers.
"""

from dataclasses import dataclass

import numpy as np

from bittern.front.network.assembly import element_of
from bittern.front.onnx.values import Array, Coding, Known, Wire
from bittern.types.elements import ELEMENTS, Kind

_DOT = ("b1", "t", "bit")


@dataclass(frozen=True, slots=True)
class Weights:
    """Constants as codes less their zero: the sum of the parts, each of an element that dots take.

    parts: (codes in the file's order, element), usually one. scale: one value, or broadcast against them.
    """

    parts: tuple[tuple[Array, str], ...]
    scale: Array

    @property
    def total(self) -> Array:
        """The codes less their zero, i64."""
        whole: Array = np.sum([codes for codes, _ in self.parts], axis=0)
        return whole


def weights_of(given: Known) -> Weights | None:
    """Return constants as codes: those that were quantised, and those that are small whole numbers anyway."""
    coding = given.coding
    if given.codes is not None and coding is not None:
        zero = coding.zero
        if not (zero == np.rint(zero)).all() or not is_code(given.element):
            return None
        return whole_weights(given.codes.astype(np.int64) - zero.astype(np.int64), coding.scale, given.element)
    if given.array.dtype != np.float32 or not given.array.size:
        return None
    codes = given.array
    if not (codes == np.rint(codes)).all() or np.abs(codes).max() > 255:
        return None
    return whole_weights(codes.astype(np.int64), np.ones((), np.float32))


def whole_weights(codes: Array, scale: Array, element: str = "") -> Weights:
    """Return whole numbers below 2^9, i64, as weights. element: what they were declared as, kept where it fits."""
    if element and holds_all(codes, element):
        return Weights(((codes, element),), scale)
    low, high = int(codes.min()), int(codes.max())
    if low >= -128 and high <= (127 if low < 0 else 255):
        return Weights(((codes, smallest(low, high, bool((codes != 0).all()))),), scale)
    near = np.clip(codes, -128, 127)
    return Weights(((near, "i8"), (codes - near, "i8")), scale)


def smallest(low: int, high: int, no_zero: bool) -> str:
    """Return the smallest element with all codes of a range."""
    if -1 <= low < 0 and high <= 1:
        return "b1" if no_zero else "t"
    sign = "i" if low < 0 else "u"
    return next(f"{sign}{bits}" for bits in range(2, 9) if is_in(low, f"{sign}{bits}") and is_in(high, f"{sign}{bits}"))


def is_code(element: str) -> bool:
    """Whether integer dots take this element."""
    row = ELEMENTS[element]
    return element in _DOT or (row.is_integer and row.bits <= 8)


def whole(zero: Array) -> int | None:
    """Return the one whole zero of a coding, or None if there is none."""
    if zero.ndim or zero != np.rint(zero) or abs(float(zero)) > 1 << 20:
        return None
    return int(zero)


def codes_of(x: Wire) -> tuple[Coding, int] | None:
    """Return coding and zero of a wire whose node holds codes that dots take, with one scale; else None."""
    if x.coding is None or x.coding.scale.ndim or not is_code(element_of(x.node).name):
        return None
    zero = whole(x.coding.zero)
    return None if zero is None else (x.coding, zero)


def product_scale(first: Array, second: Array) -> Array:
    """Return the product of scales, rounded once to f32."""
    with np.errstate(all="ignore"):
        return np.asarray(np.asarray(first, np.float32) * np.asarray(second, np.float32), np.float32)


def is_in(value: int, element: str) -> bool:
    """Whether a whole number is a value of an element."""
    row = ELEMENTS[element]
    if row.kind is Kind.SIGN and row.bits == 1:
        return value in (-1, 1)
    return row.low <= value <= row.high


def holds_all(codes: Array, element: str) -> bool:
    """Whether all whole numbers are values of an element."""
    row = ELEMENTS[element]
    fits = (codes >= row.low) & (codes <= row.high)
    return bool((fits & (codes != 0) if element == "b1" else fits).all())
