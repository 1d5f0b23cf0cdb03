"""The quantisers of ONNX and QONNX in numpy, as their pages state them: one division, one rounding to even, a clamp."""

from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.front.quantise.onnx.graph import Graph, Node

Array = npt.NDArray[Any]

_RANGES = {2: (0, 255), 3: (-128, 127), 21: (0, 15), 22: (-8, 7)}  # the file's type number: its codes


def quantise_linear(node: Node, inputs: list[Array], graph: Graph) -> Array:
    """Return codes: x / scale to the nearest even, plus the zero point, clamped to its type."""
    x, scale = inputs[0], inputs[1]
    zero = inputs[2] if len(inputs) > 2 else np.zeros_like(scale, np.uint8)
    low, high = _RANGES[graph.types.get(node.inputs[2], 2) if len(inputs) > 2 else 2]
    scale, zero = (_spread(node, part, x.shape) for part in (scale, zero))
    whole = np.rint(x / scale).astype(np.float64) + zero
    return np.clip(whole, low, high).astype(np.int16)


def dequantise_linear(node: Node, inputs: list[Array], graph: Graph) -> Array:
    """Return (code - zero point) * scale."""
    codes, scale = inputs[0].astype(np.int32), _spread(node, inputs[1], inputs[0].shape)
    zero = _spread(node, inputs[2].astype(np.int32), codes.shape) if len(inputs) > 2 else np.int32(0)
    return (codes - zero).astype(np.float32) * scale


def _spread(node: Node, part: Array, shape: tuple[int, ...]) -> Array:
    """Return scales or zero points so that they broadcast: of a tensor, an axis, blocks of an axis, or each sample."""
    if part.ndim == 0 or part.size == 1:
        return part.reshape(())
    if part.ndim == len(shape) and not node.attribute("block_size", 0):
        return part
    axis = int(node.attribute("axis", 1)) % len(shape)
    block = int(node.attribute("block_size", 0))
    if block:
        repeated = np.repeat(part, block, axis)
        return np.take(repeated, range(shape[axis]), axis)
    return part.reshape([-1 if place == axis else 1 for place in range(len(shape))])


def dynamic_quantise_linear(node: Node, inputs: list[Array], graph: Graph) -> list[Array]:
    """Return codes, scale and zero point by the range of the values, for each sample of the batch its own.

    The file means one sample: its batch is 1. Scale and zero point have the batch in front.
    """
    x = inputs[0]
    axes = tuple(range(1, x.ndim))
    low = np.minimum(x.min(axes, keepdims=True), np.float32(0))
    high = np.maximum(x.max(axes, keepdims=True), np.float32(0))
    scale = (high - low) / np.float32(255)
    scale = np.where(scale > 0, scale, np.float32(1))
    zero = np.clip(np.rint(-low / scale), 0, 255)
    codes = np.clip(np.rint(x / scale).astype(np.float64) + zero, 0, 255)
    return [codes.astype(np.int16), scale, zero.astype(np.int32)]


def quant(node: Node, inputs: list[Array], graph: Graph) -> Array:
    """Return QONNX's Quant: the value of the code nearest to x / scale + zero point."""
    x, scale, zero, bits = inputs[0], inputs[1], inputs[2], int(inputs[3].reshape(-1)[0])
    is_signed, narrow = int(node.attribute("signed", 1)), int(node.attribute("narrow", 0))
    low = -(1 << (bits - 1)) + narrow if is_signed else 0
    high = (1 << (bits - 1)) - 1 if is_signed else (1 << bits) - 1 - narrow
    codes = np.clip(np.rint(x / scale + zero), low, high)
    return ((codes - zero) * scale).astype(np.float32)


def bipolar_quant(node: Node, inputs: list[Array], graph: Graph) -> Array:
    """Return QONNX's BipolarQuant: the scale with the sign of x, 0 counting as positive."""
    return np.where(inputs[0] >= 0, np.float32(1), np.float32(-1)) * inputs[1]
