"""Layers with sums: dense, convolutions, pools; and what makes their windows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bittern.graph.node import Node
from bittern.passes.applied import Applied
from bittern.runtime.onnx_export.file import SMALL, Array, File, Unsaid, Value
from bittern.runtime.onnx_export.walk import Walk
from bittern.types.dims import Dim

_PART = 16  # weights of many bits are cut into parts of four


@dataclass(frozen=True, slots=True)
class Seen:
    """Windows looked back through. source: what they are of. size, stride, dilation, before, after: by spatial axis."""

    source: Node
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def attributes(self) -> dict[str, list[int]]:
        """Return the attributes of Conv and MaxPool."""
        return {
            "strides": list(self.stride),
            "dilations": list(self.dilation),
            "pads": [*self.before, *self.after],
            "kernel_shape": list(self.size),
        }


def seen(walk: Walk, node: Node, rank: int, padded_with: int | None) -> Seen:
    """Look back through the windows of `rank` axes, and through padding with a value. Raises Unsaid."""
    size, stride, dilation = [0] * rank, [1] * rank, [1] * rank
    for axis in reversed(range(rank)):
        if node.kind != "windows" or node["axis"] != 1 + 2 * axis:
            raise Unsaid("its windows are not made by `windows` along each axis in turn")
        size[axis], stride[axis], dilation[axis] = (_number(node[name]) for name in ("size", "stride", "dilation"))
        node = node.inputs[0]
    before, after = [0] * rank, [0] * rank
    while node.kind == "pad" and padded_with is not None and 1 <= _number(node["axis"]) <= rank:
        value, axis = walk.value(node.inputs[1]), _number(node["axis"]) - 1
        if value.array is None or int(value.array) != padded_with or not value.is_whole:
            break
        before[axis] += _number(node["before"])
        after[axis] += _number(node["after"])
        node = node.inputs[0]
    return Seen(node, tuple(size), tuple(stride), tuple(dilation), tuple(before), tuple(after))


def _number(value: object) -> int:
    found = value.constant if isinstance(value, Dim) else value
    assert isinstance(found, int), value
    return found


def _weights(walk: Walk, layer: Applied) -> Array:
    w = walk.value(layer.arguments[0])
    if w.array is None or layer.mapped[0] or not w.is_whole:
        raise Unsaid("its weights are computed, not constant")
    return w.array


def _sums(file: File, x: Value, w: Array, emit: Callable[[Array], Value]) -> Value:
    """Return exact sums of products. w: [channels, ...] with all that one sum adds. emit: the products in float32."""
    flat = w.reshape(len(w), -1)

    def bounds(part: Array) -> tuple[int, int]:
        up, down = np.maximum(part, 0).sum(1), np.minimum(part, 0).sum(1)
        low = up * min(x.low, 0) + down * max(x.high, 0)
        high = up * max(x.high, 0) + down * min(x.low, 0)
        return (int(low.min()), int(high.max())) if len(part) else (0, 0)

    low, high = bounds(flat)
    if max(-low, high) >= 1 << 31:
        raise Unsaid(f"its sums may reach {max(-low, high)}, and wrap")
    if np.abs(flat).sum(1).max(initial=0) * x.reach < SMALL:
        return replace(emit(w), carrier="small", low=low, high=high)
    parts, factor, rest, total = [], 1, w, None
    while np.any(rest):
        digit = (rest + _PART // 2) % _PART - _PART // 2
        parts.append((digit, factor))
        rest, factor = (rest - digit) // _PART, factor * _PART
    for part, weight in parts:
        if np.abs(part.reshape(len(part), -1)).sum(1).max() * x.reach >= SMALL:
            raise Unsaid("its sums do not fit the 24 bits of float32 even for 4 bits of the weights at a time")
        made = emit(part)
        name = file.cast(made.name, np.int64)
        name = name if weight == 1 else file.op("Mul", name, file.constant(np.int64(weight)))
        total = replace(made, name=name if total is None else file.op("Add", total.name, name))
    assert total is not None
    return replace(total, carrier="wide", low=low, high=high)


def dense(walk: Walk, node: Node, layer: Applied) -> Value:
    """`dense.dense`: a matrix product with constant weights."""
    w = _weights(walk, layer) * walk.flip(node)[:, None]
    x = walk.file.last(walk.small(layer.arguments[1]))
    name = walk.file.named(x, "small")

    def emit(part: Array) -> Value:
        return replace(x, name=walk.file.op("MatMul", name, walk.weights(part.T)), array=None)

    return _sums(walk.file, x, w, emit)


def matmul(walk: Walk, node: Node, layer: Applied) -> Value:
    """`matmul.*`: products of two computed matrices, of small numbers."""
    x, y = (walk.file.last(walk.small(each)) for each in layer.arguments)
    names = [walk.file.named(each, "small") for each in (x, y)]
    if layer.name.endswith("transposed"):
        order = [*range(y.rank - 2), y.rank - 1, y.rank - 2]
        names[1] = walk.file.op("Transpose", names[1], perm=order)
    inner = walk.shape(layer.arguments[0])[-1]
    reach = x.reach * y.reach * inner
    if reach >= SMALL:
        raise Unsaid("its sums do not fit the 24 bits of float32")
    rank = max(x.rank, y.rank)
    return Value(walk.file.op("MatMul", *names), "small", -reach, reach, rank)


def convolution(walk: Walk, node: Node, layer: Applied) -> Value:
    """`convolution.*`: Conv with constant weights, channels behind the batch."""
    kind = layer.name.partition(".")[2]
    w, view = _weights(walk, layer), layer.arguments[1]
    groups = 1
    rank = int(kind.partition("d")[0][-1]) if not kind.startswith("depthwise") else int(kind[-2])
    if kind.startswith("depthwise"):
        w = np.moveaxis(w, -1, 0)[:, None]
        groups = len(w)
    elif kind.endswith("grouped"):
        groups = w.shape[0]
        w = np.moveaxis(w.reshape(-1, *w.shape[2:]), -1, 1)
        if view.kind != "reshape":
            raise Unsaid("its groups are not a part of the channels")
        view = view.inputs[0]
    else:
        w = np.moveaxis(w, -1, 1)
    if len(layer.lead) != 1:
        raise Unsaid("it is applied along other axes than the batch")
    if groups == 1 or kind.startswith("depthwise"):
        w = w * walk.flip(node).reshape(-1, *(1,) * (rank + 1))
    laid = seen(walk, view, rank, 0)
    x = walk.file.first(walk.small(laid.source))
    name = walk.file.named(x, "small")
    if any((*laid.before, *laid.after)):
        x = replace(x, low=min(x.low, 0), high=max(x.high, 0))

    def emit(part: Array) -> Value:
        made = walk.file.op("Conv", name, walk.weights(part), group=groups, **laid.attributes())
        return replace(x, name=made, array=None)

    made = _sums(walk.file, x, w, emit)
    return walk.reshaped(made, node) if kind.endswith("grouped") else made


def pointwise(walk: Walk, node: Node, layer: Applied) -> Value:
    """`convolution.pointwise2d`: a dense layer at every place."""
    return dense(walk, node, layer)


def max_pool(walk: Walk, node: Node, layer: Applied) -> Value:
    """`pooling.max_pool*`: MaxPool."""
    rank = int(layer.name[-2])
    laid = seen(walk, layer.arguments[0], rank, None)
    x = walk.file.first(walk.value(laid.source))
    if x.carrier not in ("small", "real"):
        raise Unsaid("its numbers do not fit the 24 bits of float32")
    return replace(x, name=walk.file.op("MaxPool", walk.file.named(x), **laid.attributes()), array=None)


def sum_pool(walk: Walk, node: Node, layer: Applied) -> Value:
    """`pooling.sum_pool*`: a convolution with ones, each channel by itself."""
    rank = int(layer.name[-2])
    laid = seen(walk, layer.arguments[0], rank, 0)
    x = walk.file.first(walk.small(laid.source))
    channels = walk.shape(laid.source)[-1]
    if any((*laid.before, *laid.after)):
        x = replace(x, low=min(x.low, 0), high=max(x.high, 0))
    name = walk.file.named(x, "small")

    def emit(part: Array) -> Value:
        made = walk.file.op("Conv", name, walk.weights(part), group=channels, **laid.attributes())
        return replace(x, name=made, array=None)

    return _sums(walk.file, x, np.ones((channels, 1, *laid.size), np.int64), emit)


def places(sizes: Sequence[int], stride: int, dilation: int, count: int) -> Array:
    """Return which places each window holds: [count, size]."""
    made: Array = np.arange(count)[:, None] * stride + np.arange(sizes[0])[None] * dilation
    return made
