"""Operators of TFLite that work on each value by itself, and softmax."""

from collections.abc import Callable
from decimal import Decimal, localcontext
from math import floor

import numpy as np

from bittern.front.network.assembly import BATCH
from bittern.front.tflite.factors import RANGES, RELU, RELU6, RELU_N1_TO_1, Factor, code_bounds, real_bounds
from bittern.front.tflite.site import Site, shape
from bittern.graph.node import Node

_SOFTMAX_FRACTION = 26  # bits of the differences of codes
_NEAR = 1e-3  # by which the scale of probabilities may differ from a power of two
_SUM_BITS = 20  # by which the terms of a sum are shifted to the left


def add(site: Site) -> None:
    """ADD."""
    _sum(site, "add")


def sub(site: Site) -> None:
    """SUB."""
    _sum(site, "subtract")


def _sum(site: Site, name: str) -> None:
    x, y, lead = _operands(site)
    element = site.need(site.output().element, "i8", "f32")
    fused = site.activation(0)
    if element == "f32":
        site.give(site.a.call(f"tflite_float.{name}", x, y, *real_bounds(fused), lead=lead))
        return
    (x_scale, x_zero), (y_scale, y_zero) = (site.codes(site.input(k).row) for k in (0, 1))
    scale, zero = site.codes(site.output())
    bits = _SUM_BITS
    twice = 2.0 * max(float(x_scale), float(y_scale))
    u, v = site.factor(float(x_scale) / twice), site.factor(float(y_scale) / twice)
    last = site.factor(twice / ((1 << bits) * float(scale)))
    bounds = code_bounds(fused, element, scale, zero)
    site.give(site.a.call(f"tflite.{name}", x, y, bits, x_zero, *u, y_zero, *v, *last, zero, *bounds, lead=lead))


def mul(site: Site) -> None:
    """MUL."""
    x, y, lead = _operands(site)
    element = site.need(site.output().element, "i8", "f32")
    fused = site.activation(0)
    if element == "f32":
        site.give(site.a.call("tflite_float.multiply", x, y, *real_bounds(fused), lead=lead))
        return
    (x_scale, x_zero), (y_scale, y_zero) = (site.codes(site.input(k).row) for k in (0, 1))
    scale, zero = site.codes(site.output())
    last = site.factor(float(x_scale) * float(y_scale) / float(scale))
    bounds = code_bounds(fused, element, scale, zero)
    site.give(site.a.call("tflite.multiply", x, y, x_zero, y_zero, *last, zero, *bounds, lead=lead))


def _operands(site: Site) -> tuple[Node, Node, int]:
    """Return both inputs repeated to the shape of the output, and how many axes stand before the last."""
    element = site.output().element
    for place in (0, 1):
        site.need(site.input(place).row.element, element)
    sizes = site.output().shape
    x, y = (_repeated(site, place, sizes) for place in (0, 1))
    return x, y, len(shape(x)) - 1


def _repeated(site: Site, place: int, sizes: tuple[int, ...]) -> Node:
    """Return an input with the batch in front of a shape to which it broadcasts by numpy's rule. Raises N321."""
    value = site.input(place)
    own = (1,) * (len(sizes) - len(value.shape)) + value.shape
    if len(own) != len(sizes) or any(a not in (1, b) for a, b in zip(own, sizes, strict=True)):
        site.refuse(f"broadcasts {list(value.shape)} to {list(sizes)}", "Convert the model again.")
    folded = int(sizes[:1] == (1,))
    own, sample = own[folded:], sizes[folded:]
    made = site.node(place)
    wide = [axis for axis, (a, b) in enumerate(zip(own, sample, strict=True)) if a != b]
    if wide:
        kept = [axis for axis in range(len(own)) if axis not in wide]
        made = site.a.op("reshape", made, shape=(BATCH, *(own[axis] for axis in kept)))
        made = site.a.op("broadcast", made, shape=tuple(sample[axis] for axis in wide))
        order = [*wide, -1, *kept]
        made = site.a.op("permute", made, axes=[order.index(axis) for axis in (-1, *range(len(own)))])
    wanted = sample or (1,)
    return made if len(shape(made)) == len(wanted) + 1 else site.a.op("reshape", made, shape=(BATCH, *wanted))


def maximum(site: Site) -> None:
    """MAXIMUM."""
    _choice(site, "max")


def minimum(site: Site) -> None:
    """MINIMUM."""
    _choice(site, "min")


def _choice(site: Site, kind: str) -> None:
    x, y, _ = _operands(site)
    site.need(site.output().element, "i8", "i16", "i32", "f32")
    for place in (0, 1):
        site.need_codes_of(site.input(place).row, site.output())
    site.give(site.a.op(kind, x, y))


def prelu(site: Site) -> None:
    """PRELU: a factor of its own for each negative value."""
    x, alpha, lead = _operands(site)
    if site.need(site.output().element, "i8", "f32") == "f32":
        site.give(site.a.call("tflite_float.prelu", x, alpha, lead=lead))
        return
    (x_scale, x_zero), (a_scale, a_zero) = (site.codes(site.input(k).row) for k in (0, 1))
    scale, zero = site.codes(site.output())
    above, below = site.factor(float(x_scale / scale)), site.factor(float(x_scale * a_scale / scale))
    bounds = RANGES["i8"]
    site.give(site.a.call("tflite.prelu", x, alpha, x_zero, a_zero, *above, *below, zero, *bounds, lead=lead))


def elu(site: Site) -> None:
    """ELU."""
    site.need(site.input(0).row.element, "i8")
    _by_table(site, lambda x: _expm1(x) if x < 0 else x)


def relu(site: Site) -> None:
    """RELU."""
    _bounded(site, RELU)


def relu6(site: Site) -> None:
    """RELU6."""
    _bounded(site, RELU6)


def relu_n1_to_1(site: Site) -> None:
    """RELU_N1_TO_1."""
    _bounded(site, RELU_N1_TO_1)


def _bounded(site: Site, activation: int) -> None:
    x, lead = site.vector(0)
    if site.need(site.input(0).row.element, "i8", "f32") == "f32":
        site.give(site.a.call("tflite_float.clamp", x, *real_bounds(activation), lead=lead))
        return
    scale, zero = site.codes(site.output())
    _requantised(site, code_bounds(activation, site.output().element, scale, zero), in_f32=True)


def quantize(site: Site) -> None:
    """QUANTIZE: floats to codes, or codes to codes of another scale."""
    element = site.need(site.output().element, "i8", "i16", "i32")
    if site.need(site.input(0).row.element, "i8", "i16", "i32", "f32") != "f32":
        _requantised(site, RANGES[element], in_f32=False)
        return
    x, lead = site.vector(0)
    scale, zero = site.codes(site.output())
    elements = {"e": element}
    site.give(
        site.a.call("tflite_float.quantise", x, float(scale), zero, *RANGES[element], lead=lead, elements=elements)
    )


def _requantised(site: Site, bounds: tuple[int, int], *, in_f32: bool) -> None:
    """Give the codes of the input at the output's scale. in_f32: the quotient of scales is rounded to f32."""
    x, lead = site.vector(0)
    (x_scale, x_zero), (scale, zero) = site.codes(site.input(0).row), site.codes(site.output())
    real = float(x_scale / scale) if in_f32 else float(x_scale) / float(scale)
    elements = {"e": site.output().element}
    site.give(
        site.a.call("tflite.requantise", x, x_zero, *site.factor(real), zero, *bounds, lead=lead, elements=elements)
    )


def dequantize(site: Site) -> None:
    """DEQUANTIZE."""
    x, lead = site.vector(0)
    site.need(site.input(0).row.element, "i8", "i16")
    scale, zero = site.codes(site.input(0).row)
    site.need(site.output().element, "f32")
    site.give(site.a.call("tflite_float.dequantise", x, float(scale), zero, lead=lead))


def softmax(site: Site) -> None:
    """SOFTMAX along the last axis."""
    x, lead = site.vector(0)
    beta = np.float32(site.real_option(0))
    if site.need(site.input(0).row.element, "i8", "f32") == "f32":
        site.give(site.a.call("tflite_float.softmax", x, float(beta), lead=lead))
        return
    x_scale, _ = site.codes(site.input(0).row)
    element = site.need(site.output().element, "i8", "i16")
    low, high = RANGES[element]
    bits = 8 if element == "i8" else 16
    scale, zero = site.codes(site.output())
    if abs(float(scale) * 2**bits - 1) > _NEAR or zero != low:
        site.refuse(f"has the output scale {scale} and zero point {zero}", f"They are 2^-{bits} and {low}.")
    multiplier, left = site.factor(min(float(beta) * float(x_scale) * (1 << _SOFTMAX_FRACTION), (1 << 31) - 1.0))
    if left < 0:
        site.refuse(f"has the input scale {x_scale}", "It is at least 2^-26.")
    least = -floor(((1 << 5) - 1) * (1 << _SOFTMAX_FRACTION) / (1 << left))
    elements = {"e": element}
    site.give(site.a.call("tflite.softmax", x, multiplier, left, least, bits, low, high, lead=lead, elements=elements))


def logistic(site: Site) -> None:
    """LOGISTIC."""
    if site.need(site.input(0).row.element, "i8", "f32") == "f32":
        x, lead = site.vector(0)
        site.give(site.a.call("tflite_float.logistic", x, lead=lead))
        return
    one = np.float32(1)
    _by_table(site, lambda x: one / np.float32(one + _exp(-x)))


def tanh(site: Site) -> None:
    """TANH."""
    if site.need(site.input(0).row.element, "i8", "f32") == "f32":
        x, lead = site.vector(0)
        site.give(site.a.call("tflite_float.hyperbolic_tangent", x, lead=lead))
        return
    _by_table(site, _tanh)


def _by_table(site: Site, meaning: Callable[[np.float32], np.float32]) -> None:
    """Give a function of codes that TFLite itself makes a table of: f32 throughout, one rounding, ties away."""
    (x_scale, x_zero), (scale, zero) = site.codes(site.input(0).row), site.codes(site.output())
    element = site.need(site.output().element, "i8")
    low, high = RANGES[element]
    inverse = np.float32(1) / scale
    values = []
    for code in range(low, high + 1):
        real = np.float32(meaning(np.float32(x_scale * np.float32(code - x_zero))) * inverse)
        if not np.isfinite(real):
            site.refuse(f"has the scales {x_scale} and {scale}", "Calibrate the model again.")
        whole = np.copysign(np.floor(np.float64(abs(real)) + 0.5), real)
        values.append(int(min(max(whole + zero, low), high)))
    made = np.roll(np.array(values, np.int64), low)  # by the bits of the code: 0 first, -1 last
    x, lead = site.vector(0)
    site.give(site.a.call("tflite.table", x, site.a.constant(made, element), lead=lead, elements={"e": element}))


def hard_swish(site: Site) -> None:
    """HARD_SWISH: x relu6(x + 3) / 6."""
    x, lead = site.vector(0)
    if site.need(site.input(0).row.element, "i8", "f32") == "f32":
        site.give(site.a.call("tflite_float.hard_swish", x, lead=lead))
        return
    (x_scale, x_zero), (scale, zero) = site.codes(site.input(0).row), site.codes(site.output())
    fine = np.float32(1 / 128) * x_scale
    last = _half(site.factor(float(fine / scale)))
    inner = _half(site.factor(float(fine / np.float32(3 / 32768))))
    if last.shift > 0:
        site.refuse("has an output scale far below that of its input", "Calibrate the model again.")
    site.give(site.a.call("tflite.hard_swish", x, x_zero, *inner, *last, zero, *RANGES["i8"], lead=lead))


def leaky_relu(site: Site) -> None:
    """LEAKY_RELU."""
    x, lead = site.vector(0)
    alpha = np.float32(site.real_option(0))
    if site.need(site.input(0).row.element, "i8", "f32") == "f32":
        site.give(site.a.call("tflite_float.leaky_relu", x, float(alpha), lead=lead))
        return
    (x_scale, x_zero), (scale, zero) = site.codes(site.input(0).row), site.codes(site.output())
    above, below = site.factor(float(x_scale / scale)), site.factor(float(np.float32(x_scale * alpha) / scale))
    site.give(site.a.call("tflite.leaky_relu", x, x_zero, *above, *below, zero, *RANGES["i8"], lead=lead))


def _half(made: Factor) -> Factor:
    """Return a factor whose multiplier has 16 bits."""
    return Factor(min((made.multiplier + (1 << 15)) >> 16, 32767), made.shift)


def _exp(x: np.float32) -> np.float32:
    """Return e^x, rounded once; the same on every machine."""
    with localcontext() as context:
        context.prec = 60
        return np.float32(float(Decimal(float(x)).exp()))


def _expm1(x: np.float32) -> np.float32:
    """Return e^x - 1, rounded once; the same on every machine."""
    with localcontext() as context:
        context.prec = 60
        return np.float32(float(Decimal(float(x)).exp() - 1))


def _tanh(x: np.float32) -> np.float32:
    """Return tanh x, rounded once; the same on every machine."""
    with localcontext() as context:
        context.prec = 60
        power = (2 * Decimal(float(x))).exp()
        return np.float32(float((power - 1) / (power + 1)))
