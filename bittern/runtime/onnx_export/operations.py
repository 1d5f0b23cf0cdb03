"""Primitive ops of whole arrays: arrangements, element-wise arithmetic, changes of element."""

from dataclasses import replace

import numpy as np

from bittern.graph.node import Node
from bittern.runtime.onnx_export.file import SMALL, Carrier, Unsaid, Value, port_dtype
from bittern.runtime.onnx_export.layers import places
from bittern.runtime.onnx_export.walk import Walk, number
from bittern.types.elements import Element


def param(walk: Walk, node: Node) -> Value:
    """An input of the file."""
    port = walk.network.inputs[number(node["index"])]
    rank = len(port.shape) + 1
    element = port.element
    if element.is_float:
        if element.name != "f32":
            raise Unsaid(f"inputs of {element} are not taken")
        return Value(port.name, "real", rank=rank)
    if element.name == "bit":
        return Value(port.name, "truth", 0, 1, rank)
    if element.name in ("u64", "u32"):
        raise Unsaid(f"inputs of {element} are not taken")
    low = -1 if element.name in ("b1", "t") else element.low
    carrier: Carrier = "small" if max(-low, element.high) <= SMALL else "wide"
    dtype = np.float32 if carrier == "small" else np.int64
    name = port.name if port_dtype(element) == dtype else walk.file.cast(port.name, dtype)
    return Value(name, carrier, low, element.high, rank)


def reshape(walk: Walk, node: Node) -> Value:
    """Reshape."""
    return walk.reshaped(walk.value(node.inputs[0]), node)


def permute(walk: Walk, node: Node) -> Value:
    """Transpose."""
    x = walk.file.last(walk.value(node.inputs[0]))
    axes = node["axes"]
    assert isinstance(axes, tuple)
    return replace(x, name=walk.file.op("Transpose", walk.file.named(x), perm=[number(a) for a in axes]), array=None)


def windows(walk: Walk, node: Node) -> Value:
    """Gather of every window's places."""
    x = walk.file.last(walk.value(node.inputs[0]))
    axis, count = number(node["axis"]), walk.shape(node)[number(node["axis"])]
    which = places([number(node["size"])], number(node["stride"]), number(node["dilation"]), count)
    name = walk.file.op("Gather", walk.file.named(x), walk.file.constant(which, np.int64), axis=axis)
    return replace(x, name=name, rank=x.rank + 1, array=None)


def pad(walk: Walk, node: Node) -> Value:
    """Pad with a constant."""
    x, value = walk.value(node.inputs[0]), walk.value(node.inputs[1])
    if value.array is None or x.is_thin or x.carrier == "truth":
        raise Unsaid("it pads with a computed value")
    axis = number(node["axis"])
    place = axis if not x.is_first or axis == 0 else 1 if axis == x.rank - 1 else axis + 1
    pads = np.zeros((2, x.rank), np.int64)
    pads[0, place], pads[1, place] = number(node["before"]), number(node["after"])
    name = walk.file.op(
        "Pad", walk.file.named(x), walk.file.constant(pads.reshape(-1)), walk.file.named(value, x.carrier)
    )
    return replace(x, name=name, low=min(x.low, value.low), high=max(x.high, value.high), array=None)


def cut(walk: Walk, node: Node) -> Value:
    """Slice of one axis."""
    x = walk.file.last(walk.value(node.inputs[0]))
    numbers = (node["low"], node["high"], node["axis"], node["stride"])
    parts = [walk.file.constant([number(each)], np.int64) for each in numbers]
    return replace(x, name=walk.file.op("Slice", walk.file.named(x), *parts), array=None)


def concat(walk: Walk, node: Node) -> Value:
    """Concat along one axis."""
    values = [walk.file.last(walk.value(each)) for each in node.inputs]
    if any(each.is_thin for each in values):
        raise Unsaid("it joins repeated values")
    carrier = "wide" if any(each.carrier == "wide" for each in values) else values[0].carrier
    name = walk.file.op("Concat", *(walk.file.named(each, carrier) for each in values), axis=number(node["axis"]))
    low, high = min(each.low for each in values), max(each.high for each in values)
    return replace(values[0], name=name, carrier=carrier, low=low, high=high, array=None)


def broadcast(walk: Walk, node: Node) -> Value:
    """A value repeated in front: ONNX repeats it by itself."""
    x = walk.value(node.inputs[0])
    if x.is_first:
        raise Unsaid("it repeats a computed value")
    return replace(x, is_thin=True)


_KINDS = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "min": "Min", "max": "Max",
    "eq": "Equal", "lt": "Less", "le": "LessOrEqual", "and": "And", "or": "Or", "xor": "Xor",
}  # fmt: skip
_TESTS = ("eq", "lt", "le", "ne", "and", "or", "xor")


def _aligned(walk: Walk, values: list[Value]) -> tuple[list[Value], Value]:
    """Return values that stand beside one another, and one whose layout the result has."""
    full = next((each for each in values if not each.is_thin and each.array is None), values[0])
    if full.is_first and any(not each.is_first and (each.array is None or each.array.ndim > 1) for each in values):
        values = [walk.file.last(each) for each in values]
        full = next((each for each in values if not each.is_thin and each.array is None), values[0])
    return values, full


def _name(walk: Walk, value: Value, like: Value, carrier: Carrier | None = None) -> str:
    if value.array is not None and value.array.ndim <= 1:
        dtype = {"small": np.float32, "real": np.float32, "wide": np.int64, "truth": np.bool_}[carrier or value.carrier]
        return walk.file.row(value.array, like, dtype)
    return walk.file.named(value, carrier)


def binary(walk: Walk, node: Node) -> Value:
    """Element-wise arithmetic and comparison."""
    values, like = _aligned(walk, [walk.value(each) for each in node.inputs])
    x, y = values
    is_wide = x.is_whole and (x.carrier == "wide" or y.carrier == "wide")
    low, high = _bounds(node.kind, x, y) if x.is_whole else (0, 0)
    element = walk.element(node)
    if x.is_whole and node.kind not in _TESTS:
        if low < element.low or high > element.high:
            raise Unsaid("its numbers may wrap")
        is_wide = is_wide or max(-low, high) > SMALL
    carrier: Carrier = "wide" if is_wide else x.carrier
    names = [_name(walk, each, like, carrier) for each in values]
    if node.kind == "ne":
        made = walk.file.op("Not", walk.file.op("Equal", *names))
    else:
        made = walk.file.op(_KINDS[node.kind], *names)
    if node.kind in _TESTS:
        carrier, low, high = "truth", 0, 1
    is_thin = all(each.is_thin for each in values)
    return replace(like, name=made, carrier=carrier, low=low, high=high, array=None, is_thin=is_thin)


def _bounds(kind: str, x: Value, y: Value) -> tuple[int, int]:
    if kind in _TESTS:
        return 0, 1
    ends = {
        "add": [x.low + y.low, x.high + y.high],
        "sub": [x.low - y.high, x.high - y.low],
        "mul": [a * b for a in (x.low, x.high) for b in (y.low, y.high)],
        "min": [min(x.low, y.low), min(x.high, y.high)],
        "max": [max(x.low, y.low), max(x.high, y.high)],
    }.get(kind)
    if ends is None:
        raise Unsaid("the operation has no form for whole numbers")
    return min(ends), max(ends)


_UNARY = {"neg": "Neg", "abs": "Abs", "sqrt": "Sqrt", "round_even": "Round", "floor": "Floor", "ceil": "Ceil"}


def unary(walk: Walk, node: Node) -> Value:
    """Element-wise functions of floats."""
    x = walk.value(node.inputs[0])
    if x.carrier != "real":
        raise Unsaid("the operation has no form for whole numbers")
    return replace(x, name=walk.file.op(_UNARY[node.kind], walk.file.named(x)), array=None)


def negate(walk: Walk, node: Node) -> Value:
    """Not of truth values."""
    x = walk.value(node.inputs[0])
    if x.carrier != "truth":
        raise Unsaid("bits of numbers have no form")
    return replace(x, name=walk.file.op("Not", walk.file.named(x)), array=None)


def sign(walk: Walk, node: Node) -> Value:
    """To signs: +1 from 0 on. To ternary values: the sign."""
    x, file = walk.value(node.inputs[0]), walk.file
    name = file.named(x, "small" if x.is_whole else None)
    if walk.element(node).name == "t":
        return file.whole(file.op("Sign", name), -1, 1, "small", x)
    reached = file.op("GreaterOrEqual", name, file.constant(0, np.float32))
    made = file.op("Where", reached, file.constant(1, np.float32), file.constant(-1, np.float32))
    return file.whole(made, -1, 1, "small", x)


def select(walk: Walk, node: Node) -> Value:
    """Where."""
    values, like = _aligned(walk, [walk.value(each) for each in node.inputs])
    test, x, y = values
    carrier: Carrier = "wide" if "wide" in (x.carrier, y.carrier) else x.carrier
    names = [_name(walk, test, like), _name(walk, x, like, carrier), _name(walk, y, like, carrier)]
    low, high = min(x.low, y.low), max(x.high, y.high)
    made = walk.file.op("Where", *names)
    return replace(like, name=made, carrier=carrier, low=low, high=high, array=None, is_thin=False)


def convert(walk: Walk, node: Node) -> Value:
    """Another element, of the same number."""
    x, file, to = walk.value(node.inputs[0]), walk.file, node["to"]
    assert isinstance(to, Element)
    if to.name == "f32":
        # Through int32, so that no tool joins what follows with the sums.
        name = file.cast(file.named(x), np.int32 if x.carrier != "wide" else np.int64)
        return replace(x, name=file.cast(name, np.float32), carrier="real", array=None)
    if x.carrier == "truth":
        one = file.constant(1, np.float32)
        other = file.constant(-1 if to.name in ("b1", "t") else 0, np.float32)
        low = -1 if to.name in ("b1", "t") else 0
        return file.whole(file.op("Where", file.named(x), one, other), low, 1, "small", x)
    low = -1 if to.name in ("b1", "t") else to.low
    if x.is_whole and low <= x.low and x.high <= to.high:
        return x
    if x.is_whole and node.kind == "sat":
        return _clipped(walk, x, to)
    if x.carrier == "real" and node.kind == "round" and to.bits <= 16:
        whole = replace(x, name=file.op("Round", file.named(x)), carrier="small", low=-SMALL, high=SMALL, array=None)
        return _clipped(walk, whole, to)
    raise Unsaid(f"`{node.kind}` to {to} may wrap")


def _clipped(walk: Walk, x: Value, to: Element) -> Value:
    dtype = np.int64 if x.carrier == "wide" else np.float32
    ends = (walk.file.constant(each, dtype) for each in (to.low, to.high))
    return walk.file.whole(walk.file.op("Clip", walk.file.named(x), *ends), to.low, to.high, x.carrier, x)


def shift(walk: Walk, node: Node) -> Value:
    """A shift to the right by a known number: a division, rounded down."""
    x, by = walk.value(node.inputs[0]), walk.value(node.inputs[1])
    if by.array is None or by.array.ndim or x.carrier != "small":
        raise Unsaid("it shifts by a computed number, or more than 24 bits")
    count = int(by.array)
    scaled = walk.file.op("Mul", walk.file.named(x), walk.file.constant(2.0**-count, np.float32))
    return walk.file.whole(walk.file.op("Floor", scaled), x.low >> count, x.high >> count, "small", x)


def lookup(walk: Walk, node: Node) -> Value:
    """Gather from a table by unsigned codes."""
    table, x = walk.value(node.inputs[0]), walk.value(node.inputs[1])
    if table.array is None or x.low < 0:
        raise Unsaid("its table is computed, or its codes are signed")
    name = walk.file.op("Gather", walk.file.named(table), walk.file.named(x, "wide"))
    return replace(table, name=name, rank=x.rank, is_first=x.is_first, array=None)


def best(walk: Walk, node: Node) -> Value:
    """ArgMax and ArgMin: the first of equal values."""
    x = walk.file.last(walk.value(node.inputs[0]))
    kind = "ArgMax" if node.kind == "argmax" else "ArgMin"
    name = walk.file.op(kind, walk.file.named(x), axis=-1, keepdims=0)
    return Value(name, "wide", 0, walk.shape(node.inputs[0])[-1], x.rank - 1)
