"""QONNX: MultiThreshold and Trunc, which make codes of what are codes already or accumulators.

Thresholds of an accumulator are whole numbers: x >= t is x >= ceil(t) for whole x, so the library compares integers at
once. Other thresholds are compared as f32, as the QONNX executor does.
"""

from dataclasses import replace

import numpy as np

from bittern.front.network.assembly import element_of
from bittern.front.onnx.quantising import bit_width, code_range, divided, element_for, rounding_mode, to_codes
from bittern.front.onnx.ranges import is_never_negative
from bittern.front.onnx.rounding import to_element
from bittern.front.onnx.table import QONNX, Site, row
from bittern.front.onnx.values import Array, Coding, Wire, coding_of

_EXACT = 1 << 24  # below, every whole number is an f32


@row(
    "Trunc",
    "the upper bits of codes",
    inputs=(5, 7),
    attributes="rounding_mode narrow signed",
    domain=QONNX,
)
def _trunc(site: Site) -> Wire:
    """The first form has 5 inputs and keeps the scale, the second one has 7 and states the new one; both are in use."""
    x = site.wire(0)
    coding = site.coding(x, site.data(1, "scale"), site.data(2, "zero point"))
    wide = bit_width(site, site.data(3, "bit width"))
    if len(site.inputs) == 6:
        site.refuse("it has 6 inputs", "5 or 7 inputs")
    kept = bit_width(site, site.data(6 if len(site.inputs) == 7 else 4, "bit width of its output"))
    if kept > 8 or (wide < kept and len(site.inputs) == 5):
        site.refuse(f"it makes codes of {kept} bits of {wide}", "at most 8 bits, and no more than it is given")
    whole = _back_to_codes(site, x, coding)
    if len(site.inputs) == 7:
        return _cut_to_scale(site, whole, coding, kept)
    cut = _divided(site, whole, wide - kept)
    low, high = (0, 255) if is_never_negative(whole.node) else (-128, 127)
    return site.emitter.coded(to_codes(site, cut, low, high, rounding_mode(site, "FLOOR")), coding)


def _cut_to_scale(site: Site, whole: Wire, coding: Coding, kept: int) -> Wire:
    """Return codes of a new scale, which is a power of two times the old one."""
    new = site.data(4, "scale of its output")
    if new.size != 1 or not coding.is_plain() or not (new > 0).all() or coding.scale <= 0:
        site.refuse("its scales are no positive numbers", "one positive scale for the tensor")
    lost = int(np.rint(np.log2(np.float64(new.reshape(())) / np.float64(coding.scale))))
    if not 0 <= lost <= 31:
        site.refuse(f"its scales differ by 2^{lost}", "a scale that is larger by a power of two")
    low, high = code_range(kept, site.whole("signed", 1) == 1, site.whole("narrow") == 1)
    cut = to_codes(site, _divided(site, whole, lost), low, high, rounding_mode(site, "FLOOR"))
    return site.emitter.coded(cut, coding_of(new, coding.zero / np.float32(2.0**lost)))


def _divided(site: Site, whole: Wire, bits: int) -> Wire:
    return site.emitter.with_constant("div", whole, 2.0**bits) if bits else whole


def _back_to_codes(site: Site, x: Wire, coding: Coding) -> Wire:
    """Return the whole numbers that f32 values stand for: round(x / scale + zero)."""
    emitter = site.emitter
    scaled = divided(site, emitter.values(x), coding.scale)
    if not coding.is_symmetric():
        scaled = emitter.with_constant("add", scaled, coding.zero)
    return emitter.unary("round_even", scaled)


@row(
    "MultiThreshold",
    "how many thresholds a value reaches, times a scale, plus a bias",
    inputs=(2, 2),
    attributes="out_dtype out_scale out_bias data_layout",
    domain=QONNX,
)
def _multi_threshold(site: Site) -> Wire:
    emitter = site.emitter
    thresholds = site.data(1, "thresholds")
    layout = site.text("data_layout", "NCHW")
    if thresholds.ndim != 2 or layout not in ("NCHW", "NHWC") or thresholds.dtype != np.float32:
        site.refuse("its thresholds are no matrix or its layout is unknown", "[channels, thresholds], NCHW or NHWC")
    x = site.wire(0)
    if not x.shape or np.isnan(thresholds).any() or not 1 <= thresholds.shape[1] <= 255:
        site.refuse(f"its thresholds {list(thresholds.shape)} do not fit", "1 to 255 numbers for each channel")
    axis = 0 if layout == "NCHW" and x.rank in (2, 4) else len(x.shape) - 1
    if thresholds.shape[0] not in (1, x.shape[axis]):
        site.refuse(f"it has {thresholds.shape[0]} rows of thresholds for {x.shape[axis]} channels", "one row each")
    scale, bias = site.number("out_scale", 1.0), site.number("out_bias", 0.0)
    if not np.isfinite([scale, bias]).all():
        site.refuse("its scale or bias is no number", "numbers")
    low = _lowest(thresholds.shape[1], scale, bias)
    if thresholds.shape[1] == 1 and (scale, bias) == (2.0, -1.0):
        return emitter.coded(_signs(site, x, thresholds, axis), coding_of(1.0))
    if low is None:
        counted = emitter.converted(_levels(site, x, thresholds, axis, 0), "f32")
        return emitter.with_constant("add", emitter.with_constant("mul", counted, scale), bias)
    return emitter.coded(_levels(site, x, thresholds, axis, low), coding_of(scale))


def _lowest(count: int, scale: float, bias: float) -> int | None:
    """Return the code for no threshold, so that code * scale is scale * reached + bias exactly, or None."""
    if not scale or bias / scale != round(bias / scale):
        return None
    low = round(bias / scale)
    codes = np.arange(count + 1, dtype=np.float32)
    same = (codes + np.float32(low)) * np.float32(scale) == codes * np.float32(scale) + np.float32(bias)
    return low if low >= -128 and low + count <= (255 if low >= 0 else 127) and same.all() else None


def _is_accumulator(x: Wire, thresholds: Array) -> bool:
    """Whether a wire is i32 sums that stand for themselves, and its thresholds are small enough to be whole numbers."""
    coding = x.coding
    if coding is None or not coding.is_plain() or coding.scale != 1 or not coding.is_symmetric():
        return False
    return element_of(x.node).name == "i32" and bool((np.abs(thresholds) < _EXACT).all())


def _on_sums(site: Site, x: Wire, thresholds: Array, axis: int, name: str, low: int | None, element: str) -> Wire:
    """Return codes of accumulators by a library function over the channels."""
    emitter, assembly = site.emitter, site.emitter.assembly
    order = (*(k for k in x.order if k != axis), axis)
    given = emitter.arranged(emitter.codes(x), order)
    rows = np.broadcast_to(np.ceil(thresholds), (x.shape[axis], thresholds.shape[1]))
    at = site.emitter.constant(rows[:, 0] if name == "sign_at" else rows, "i32")
    falling = site.emitter.constant(np.zeros(x.shape[axis], np.bool_), "bit")
    more = () if low is None else (low,)
    mapped = (True, *(False,) * (2 + len(more)))
    elements = {"e": element} if name == "levels" else None
    node = assembly.call(
        f"thresholds.{name}", given.node, at, falling, *more, lead=len(x.shape), mapped=mapped, elements=elements
    )
    return replace(given, node=node, element=element)


def _signs(site: Site, x: Wire, thresholds: Array, axis: int) -> Wire:
    """Return +1 where the one threshold of a channel is reached, else -1."""
    if _is_accumulator(x, thresholds):
        return _on_sums(site, x, thresholds, axis, "sign_at", None, "b1")
    values = site.emitter.values(x)
    if not thresholds.any():
        return to_element(site.emitter, values, "b1")
    return site.emitter.converted(_reaches(site, values, thresholds, 0, axis), "b1")


def _reaches(site: Site, x: Wire, thresholds: Array, place: int, axis: int) -> Wire:
    """Return for each value whether it reaches threshold number `place` of its channel."""
    row = thresholds[:, place]
    value = row if len(row) == 1 else row.reshape([-1 if k == axis else 1 for k in range(len(x.shape))])
    reached = site.emitter.assembly.op("le", site.emitter.spread(value, x), x.node)
    return replace(x, node=reached, element="bit")


def _levels(site: Site, x: Wire, thresholds: Array, axis: int, low: int) -> Wire:
    """Return `low` plus the number of thresholds reached."""
    emitter = site.emitter
    element = element_for(low, low + thresholds.shape[1])
    if _is_accumulator(x, thresholds):
        if element == "t":
            return _on_sums(site, x, thresholds, axis, "ternary_at", None, "t")
        return _on_sums(site, x, thresholds, axis, "levels", low, element)
    values = emitter.values(x)
    parts = [
        emitter.converted(_reaches(site, values, thresholds, place, axis), "i32")
        for place in range(thresholds.shape[1])
    ]
    total = parts[0]
    for part in parts[1:]:
        total = emitter.binary("add", total, part)
    moved = emitter.with_constant("add", total, low) if low else total
    return emitter.converted(moved, element, "sign" if element == "t" else "wrap")
