"""Output stages: thresholds, one rounding, biases; as few exact operations of floats or of 64-bit integers."""

from dataclasses import replace

import numpy as np

from bittern.graph.node import Node
from bittern.passes.applied import Applied
from bittern.runtime.onnx_export.file import Array, Carrier, File, Unsaid, Value
from bittern.runtime.onnx_export.walk import Walk

_EXACT = 1 << 53  # whole numbers up to here are exact as float64
_HALVES = 1 << 22  # between whole numbers up to here float32 has their middles


def _constants(walk: Walk, layer: Applied, first: int = 1) -> list[Array]:
    found = [walk.value(each).array for each in layer.arguments[first:]]
    if any(each is None for each in found) or any(layer.mapped[first:]):
        raise Unsaid("its parameters are computed, not constant")
    return [each for each in found if each is not None]


def sign_at(walk: Walk, node: Node, layer: Applied) -> Value:
    """`thresholds.sign_at`: the sign of what lies half a step beside each threshold."""
    return _reached(walk, node, layer, 1, -1, 1)


def ternary_at(walk: Walk, node: Node, layer: Applied) -> Value:
    """`thresholds.ternary_at`: half the sum of two signs."""
    return _reached(walk, node, layer, 2, -1, 1)


def levels(walk: Walk, node: Node, layer: Applied) -> Value:
    """`thresholds.levels`: half the sum of signs, and what it starts from."""
    at, _, low = _constants(walk, layer)
    return _reached(walk, node, layer, at.shape[-1], int(low), int(low) + at.shape[-1])


def _reached(walk: Walk, node: Node, layer: Applied, count: int, low: int, high: int) -> Value:
    at, falling = _constants(walk, layer)[:2]
    file, x = walk.file, walk.value(layer.arguments[0])
    at = at.reshape(len(at), count)
    dtype = np.float32 if x.carrier == "small" and x.reach < _HALVES else np.float64
    bound = x.reach + 1
    clipped = np.clip(at, -bound, bound)
    offset = np.where(falling[:, None], clipped + 0.5, 0.5 - clipped)
    name = file.named(x) if dtype == np.float32 else file.cast(file.named(x), dtype)
    if falling.any() and not (walk.flip(layer.arguments[0]) < 0).any():
        name = file.op("Mul", name, file.row(np.where(falling, -1, 1), x, dtype))
    signs = [file.op("Sign", file.op("Add", name, file.row(offset[:, k], x, dtype))) for k in range(count)]
    total = signs[0]
    for sign in signs[1:]:
        total = file.op("Add", total, sign)
    if count > 1 or (low, high) != (-1, 1):
        total = file.op("Mul", total, file.constant(0.5, dtype))
    if (count == 1 and (low, high) == (-1, 1)) or not low + count / 2:
        made = total
    else:
        made = file.op("Add", total, file.constant(low + count / 2, dtype))
    made = made if dtype == np.float32 else file.cast(made, np.float32)
    return file.whole(made, low, high, "small", x)


def bias(walk: Walk, node: Node, layer: Applied) -> Value:
    """`requantise.bias`: a number for each channel added."""
    (b,) = _constants(walk, layer)
    file, x = walk.file, walk.value(layer.arguments[0])
    low, high = x.low + int(b.min()), x.high + int(b.max())
    if max(-low, high) >= 1 << 31:
        raise Unsaid(f"its sums may reach {max(-low, high)}, and wrap")
    is_small = x.carrier == "small" and max(-low, high, int(np.abs(b).max())) < 1 << 24
    carrier: Carrier = "small" if is_small else "wide"
    dtype = np.float32 if is_small else np.int64
    made = file.op("Add", file.named(x, carrier), file.row(b, x, dtype))
    return file.whole(made, low, high, carrier, x)


def rounded(file: File, x: Value, name: str, factor: Array, shift: Array) -> str:
    """Return x * factor / 2^shift to the nearest, ties up, as float64: exact, or refused. name: x as float64."""
    if int(np.abs(factor.astype(object)).max()) * max(x.reach, 1) + (1 << int(shift.max())) >= _EXACT:
        raise Unsaid("its products do not fit the 53 bits of float64")
    scale = factor.astype(np.float64) * 2.0 ** -shift.astype(np.float64)
    scaled = file.op("Mul", name, file.row(scale, x, np.float64))
    return file.op("Floor", file.op("Add", scaled, file.constant(0.5, np.float64)))


def _coded(file: File, x: Value, name: str, zero: int, low: int, high: int) -> Value:
    if zero:
        name = file.op("Add", name, file.constant(zero, np.float64))
    name = file.op("Clip", name, file.constant(low, np.float64), file.constant(high, np.float64))
    return file.whole(file.cast(name, np.float32), low, high, "small", x)


def requantise(walk: Walk, node: Node, layer: Applied) -> Value:
    """`requantise.requantise`: one rounding, in float64 where all products are exact."""
    multiplier, shift, zero, low, high = _constants(walk, layer)
    file, x = walk.file, walk.value(layer.arguments[0])
    made = rounded(file, x, file.cast(file.named(x), np.float64), multiplier, shift)
    return _coded(file, x, made, int(zero), int(low), int(high))


def rescale(walk: Walk, node: Node, layer: Applied) -> Value:
    """`tflite.rescale`: two roundings, the second with ties away from zero."""
    multiplier, shift, zero, low, high = _constants(walk, layer)
    file, x = walk.file, walk.value(layer.arguments[0])
    left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
    if x.reach << int(left.max()) >= 1 << 31:
        raise Unsaid("its sums wrap before they are scaled")
    name = file.cast(file.named(x), np.float64)
    name = rounded(file, x, name, multiplier * (1 << left), np.full_like(shift, 31))
    if right.any():
        sign, size = file.op("Sign", name), file.op("Abs", name)
        size = file.op("Mul", size, file.row(2.0 ** -right.astype(np.float64), x, np.float64))
        half = file.row(np.where(right > 0, 0.5, 0.0), x, np.float64)
        name = file.op("Mul", sign, file.op("Floor", file.op("Add", size, half)))
    return _coded(file, x, name, int(zero), int(low), int(high))


def average(walk: Walk, node: Node, layer: Applied) -> Value:
    """`tflite.average`: a division to the nearest, ties away from zero."""
    count, low, high = (int(each) for each in _constants(walk, layer))
    file, x = walk.file, walk.value(layer.arguments[0])
    wide = file.named(x, "wide")
    half = file.op("Mul", file.op("Sign", wide), file.constant(count // 2, np.int64))
    made = file.op("Div", file.op("Add", wide, half), file.constant(count, np.int64))
    made = file.op("Clip", made, file.constant(low, np.int64), file.constant(high, np.int64))
    return replace(file.whole(made, low, high, "wide", x), name=file.cast(made, np.float32), carrier="small")
