"""QONNX: Quant, IntQuant, BipolarQuant, Trunc, MultiThreshold, QuantAvgPool2d, under every name of their domain.

A quantiser of a constant makes it codes at once; a quantiser of a computed tensor is a chain of f32 operations in the
order of the QONNX executor (divide by the scale, add the zero, clamp, round), then codes. Their value is
(code - zero) * scale, as there.
"""

import numpy as np

from bittern.base.errors import nearest
from bittern.front.onnx.codes import is_in
from bittern.front.onnx.rounding import MODES, rounded, rounded_array, to_element
from bittern.front.onnx.table import QONNX, Site, row
from bittern.front.onnx.values import Array, Known, Wire, coding_of
from bittern.types.elements import ELEMENTS

WIDEST = 8


@row(
    "Quant IntQuant",
    "codes of 1 to 8 bits",
    inputs=(4, 4),
    attributes="narrow signed rounding_mode",
    domain=QONNX,
    constants=True,
)
def _quant(site: Site) -> Known | Wire:
    x = site.given(0)
    scale, zero = site.data(1, "scale"), site.data(2, "zero point")
    bits = bit_width(site, site.data(3, "bit width"))
    is_signed, is_narrow = site.whole("signed", 1) == 1, site.whole("narrow", 0) == 1
    mode = rounding_mode(site, "ROUND")
    low, high = code_range(bits, is_signed, is_narrow)
    if not np.isfinite(scale).all() or (scale == 0).any() or not np.isfinite(zero).all():
        site.refuse("its scale is 0 or no number", "scales that are numbers other than 0")
    if isinstance(x, Known):
        return _constant(site, x, scale, zero, (low, high), mode, bits == 1 and is_signed)
    if bits > WIDEST:
        site.refuse(f"it makes codes of {bits} bits", f"1 to {WIDEST} bits")
    wire = site.emitter.values(site.wire(0))
    coding = site.coding(wire, scale, zero)
    scaled = divided(site, wire, coding.scale)
    if not coding.is_symmetric():
        scaled = site.emitter.with_constant("add", scaled, coding.zero)
    if bits == 1 and is_signed:
        return site.emitter.coded(to_element(site.emitter, scaled, "b1"), coding)
    return site.emitter.coded(to_codes(site, scaled, low, high, mode), coding)


def divided(site: Site, x: Wire, scale: Array) -> Wire:
    """Return x / scale."""
    return x if (scale == 1).all() else site.emitter.with_constant("div", x, scale)


def to_codes(site: Site, x: Wire, low: int, high: int, mode: str) -> Wire:
    """Return f32 numbers clamped to a range of whole numbers, rounded, as the smallest element that has the range."""
    element = element_for(low, high)
    own = ELEMENTS[element]
    emitter = site.emitter
    if element == "t":
        return to_element(emitter, rounded(emitter, x, mode), "t")
    if (own.low, own.high) != (low, high):
        x = emitter.with_constant("max", emitter.with_constant("min", x, high), low)
    whole = x if MODES[mode] == "half_even" else rounded(emitter, x, mode)
    return to_element(emitter, whole, element)


def element_for(low: int, high: int) -> str:
    """Return the element for a range of codes: t for -1..1, else the smallest integer."""
    if (low, high) == (-1, 1):
        return "t"
    sign = "i" if low < 0 else "u"
    return next(f"{sign}{bits}" for bits in range(2, 9) if is_in(low, f"{sign}{bits}") and is_in(high, f"{sign}{bits}"))


def code_range(bits: int, is_signed: bool, is_narrow: bool) -> tuple[int, int]:
    """Return the least and greatest code."""
    if is_signed:
        return -(1 << (bits - 1)) + is_narrow, (1 << (bits - 1)) - 1
    return 0, (1 << bits) - 1 - is_narrow


def rounding_mode(site: Site, default: str) -> str:
    """Return the rounding mode of a node as a key of the table."""
    given = site.text("rounding_mode", default).upper()
    if given not in MODES:
        site.refuse(f"its rounding mode `{given}` is unknown", nearest(given, list(MODES)) or ", ".join(MODES))
    return given


def bit_width(site: Site, given: Array) -> int:
    """Return a bit width as a whole number from 1 to 32."""
    if given.size != 1 or given.reshape(()) != np.rint(given.reshape(())) or not 1 <= given.reshape(()) <= 32:
        site.refuse("its bit width is no whole number from 1 to 32", "one whole number of bits")
    return int(given.reshape(()))


def _constant(
    site: Site, x: Known, scale: Array, zero: Array, limits: tuple[int, int], mode: str, is_sign: bool
) -> Known:
    """Return a constant as codes, with the executor's own steps on arrays."""
    if x.of_batch or x.array.dtype != np.float32:
        site.refuse(f"it quantises a constant of {x.array.dtype}", "a constant of f32")
    low, high = limits
    try:
        scale, zero = (_fitting(part.astype(np.float32), x.array) for part in (scale, zero))
        with np.errstate(all="ignore"):
            y = x.array / scale + zero
    except ValueError:
        site.refuse("its scale or zero point does not fit the constant", "one value, or one for each channel")
    if y.shape != x.array.shape or not np.isfinite(y).all():
        site.refuse("its scale or zero point does not fit the constant", "one value, or one for each channel")
    if is_sign:
        codes = np.where(y >= 0, np.float32(1), np.float32(-1))
    else:
        codes = rounded_array(np.clip(y, np.float32(low), np.float32(high)), mode)
    coding = coding_of(scale, zero)
    array = ((codes - coding.zero) * coding.scale).astype(np.float32)
    if is_sign:
        return Known(array, codes.astype(np.int64), "b1", coding)
    if high - low > 255:
        return Known(array)
    return Known(array, codes.astype(np.int64), element_for(low, high), coding)


def _fitting(part: Array, x: Array) -> Array:
    return part.reshape(()) if part.size == 1 else part.reshape((1,) * (x.ndim - part.ndim) + part.shape)


@row("BipolarQuant", "-1 or +1 times a scale; 0 is +1", inputs=(2, 2), domain=QONNX, constants=True)
def _bipolar(site: Site) -> Known | Wire:
    x, scale = site.given(0), site.data(1, "scale")
    if isinstance(x, Known):
        one = np.ones((), np.float32)
        signed = _constant(site, x, one, one * 0, (-1, 1), "ROUND", True)
        if scale.ndim > x.array.ndim or any(
            size not in (1, own) for size, own in zip(scale.shape[::-1], x.array.shape[::-1], strict=False)
        ):
            site.refuse("its scale does not fit the constant", "one value, or one for each channel")
        coding = coding_of(_fitting(scale, x.array))
        return Known((signed.array * coding.scale).astype(np.float32), signed.codes, "b1", coding)
    wire = site.wire(0)
    coding = site.coding(wire, scale, np.zeros((), np.float32))
    return site.emitter.coded(to_element(site.emitter, site.emitter.values(wire), "b1"), coding)
