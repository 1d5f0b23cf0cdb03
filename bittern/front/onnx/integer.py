"""Standard quantisation: QuantizeLinear, DequantizeLinear, and the operations on 8-bit integers.

One rule makes codes of accumulators, that of ONNX Runtime's QLinearConv and QLinearMatMul, to which it also turns
DequantizeLinear -> Conv, MatMul or Gemm -> QuantizeLinear: the i32 sum (bias included, as an integer) is converted to
f32, multiplied by f32(f32(s_x * s_w) / s_y), clamped, rounded to nearest even; then the zero point is added. What is
quantised from f32 numbers is divided by the scale instead. A dynamic quantiser looks at one sample at a time.
"""

from dataclasses import replace

import numpy as np

from bittern.front.network.assembly import element_of
from bittern.front.onnx.codes import Weights, whole_weights
from bittern.front.onnx.convolving import ATTRIBUTES, check_kernel, integer_convolution
from bittern.front.onnx.elementwise import check_pair
from bittern.front.onnx.linear import integer_dense, shifted
from bittern.front.onnx.reducing import reduced
from bittern.front.onnx.table import MICROSOFT, Site, row
from bittern.front.onnx.values import Array, Coding, Known, Wire, coding_of
from bittern.front.onnx.windows import channels_last, laid
from bittern.types.elements import ELEMENTS

_TYPES = {np.dtype(np.uint8): "u8", np.dtype(np.int8): "i8", np.dtype(np.int32): "i32"}
_NUMBERS = {2: "u8", 3: "i8"}


@row(
    "QuantizeLinear",
    "f32 numbers as 8-bit codes",
    inputs=(2, 3),
    attributes="axis saturate output_dtype block_size",
    constants=True,
)
def _quantize(site: Site) -> Wire | Known:
    x = site.given(0)
    scale = _scale(site, 1)
    zero = _zero(site, 2, site.whole("output_dtype", 2))
    if site.whole("block_size"):
        site.refuse("it has a scale for each block", "a scale for the tensor or for an axis")
    if isinstance(x, Known):
        return _quantize_constant(site, x, scale, zero)
    wire = site.wire(0)
    if wire.element != "f32":
        site.refuse(f"it quantises {wire.element}", "f32")
    return to_codes(site, wire, _coding(site, wire, scale, zero), _TYPES[zero.dtype])


def to_codes(site: Site, x: Wire, coding: Coding, element: str) -> Wire:
    """Return numbers as codes of an element; accumulators by the one rule of the module."""
    emitter = site.emitter
    if x.coding is not None and element_of(x.node).name == "i32" and x.coding.is_symmetric():
        ratio = np.asarray(x.coding.scale / coding.scale, np.float32)
        scaled = emitter.with_constant("mul", emitter.converted(emitter.codes(x), "f32"), ratio)
    else:
        scaled = emitter.with_constant("div", emitter.values(x), coding.scale)
    if not coding.is_symmetric():
        scaled = emitter.with_constant("add", emitter.unary("round_even", scaled), coding.zero)
    return emitter.converted(scaled, element, "round")


def _scale(site: Site, place: int) -> Array:
    scale = site.data(place, "scale")
    if scale.dtype != np.float32 or not np.isfinite(scale).all() or (scale <= 0).any():
        site.refuse("its scale is not positive or no f32", "positive f32 scales")
    return scale


def _zero(site: Site, place: int, number: int = 2) -> Array:
    """Return a zero point, which tells the element; where it is left out it is 0, u8 unless said otherwise."""
    zero = site.known(place, "zero point")
    if zero is None:
        name = _NUMBERS.get(number or 2)
        if name is None:
            site.refuse(f"it makes codes of type {number}", "u8 or i8")
        return np.zeros((), ELEMENTS[name].storage)
    if zero.dtype not in _TYPES or (zero.dtype == np.int32 and zero.any()):
        site.refuse(f"its zero point is {zero.dtype}", "u8 or i8")
    return zero


def _coding(site: Site, x: Wire, scale: Array, zero: Array) -> Coding:
    """Return the coding of a node with `axis`."""
    if scale.size == 1 and zero.size == 1:
        return coding_of(scale, zero)
    axis = site.axis(x, site.whole("axis", 1))
    return site.coding(x, scale.reshape(-1), zero.reshape(-1), axis)


def _along(site: Site, array: Array, given: Array) -> Array:
    """Return scales or zeros of a constant as they broadcast against it."""
    if given.size == 1:
        return given.reshape(())
    axis = site.whole("axis", 1)
    if given.ndim != 1 or not -array.ndim <= axis < array.ndim or array.shape[axis] != given.size:
        site.refuse("its scale or zero point does not fit the axis", "one value for each place of the axis")
    return given.reshape([-1 if k == axis % array.ndim else 1 for k in range(array.ndim)])


def _quantize_constant(site: Site, x: Known, scale: Array, zero: Array) -> Known:
    if x.array.dtype != np.float32 or x.of_batch:
        site.refuse(f"it quantises a constant of {x.array.dtype}", "a constant of f32")
    row = ELEMENTS[_TYPES[zero.dtype]]
    with np.errstate(all="ignore"):
        codes = np.rint(x.array / _along(site, x.array, scale)) + _along(site, x.array, zero).astype(np.float32)
    return Known(np.clip(np.nan_to_num(codes), row.low, row.high).astype(zero.dtype))


@row(
    "DequantizeLinear",
    "codes as f32 numbers",
    inputs=(2, 3),
    attributes="axis block_size output_dtype",
    constants=True,
    elements="u8 i8 i32",
)
def _dequantize(site: Site) -> Wire | Known:
    x, scale = site.given(0), _scale(site, 1)
    if site.whole("block_size"):
        site.refuse("it has a scale for each block", "a scale for the tensor or for an axis")
    zero = site.known(2, "zero point")
    if isinstance(x, Known):
        if x.array.dtype not in _TYPES or x.of_batch:
            site.refuse(f"it reads a constant of {x.array.dtype}", "u8, i8 or i32")
        offset = np.zeros((), np.float32) if zero is None else _along(site, x.array, zero)
        coding = coding_of(_along(site, x.array, scale), offset.astype(np.float32))
        codes = x.array.astype(np.int64)
        array = ((codes - coding.zero).astype(np.float32) * coding.scale).astype(np.float32)
        return Known(array, codes, _TYPES[x.array.dtype], coding)
    wire = site.wire(0)
    if wire.element not in _TYPES.values() or wire.coding is not None:
        site.refuse(f"it reads {wire.element}", "u8, i8 or i32")
    offset = np.zeros((), np.float32) if zero is None else zero.astype(np.float32)
    return site.emitter.coded(wire, _coding(site, wire, scale, offset))


# --- operations on codes


def _operand(site: Site, place: int, word: str) -> Wire:
    """Return an input that is u8 or i8."""
    x = site.wire(place)
    if x.element not in ("u8", "i8"):
        site.refuse(f"its {word} is {x.element}", "u8 or i8")
    return x


def _plain_zero(site: Site, place: int, word: str) -> int:
    """Return a zero point of one value; 0 where it is left out."""
    zero = site.known(place, word)
    if zero is None:
        return 0
    if zero.size != 1 or zero.dtype not in _TYPES:
        site.refuse(f"its {word} has {zero.size} values", "one value, u8 or i8")
    return int(zero.reshape(()))


def _weights(site: Site, place: int, zero_place: int, scale: Array, axis: int) -> Weights:
    """Return constant codes less their zero. axis: that of output channels, along which zeros may run."""
    array = site.data(place, "weights")
    zero = site.known(zero_place, "zero point of the weights")
    if array.dtype not in (np.dtype(np.uint8), np.dtype(np.int8)):
        site.refuse(f"its weights are {array.dtype}", "u8 or i8")
    zero = np.zeros((), array.dtype) if zero is None else zero
    if zero.size not in (1, array.shape[axis]):
        site.refuse("the zero point of its weights does not fit", "one value, or one for each output channel")
    shape = [-1 if k == axis % array.ndim else 1 for k in range(array.ndim)] if zero.size > 1 else ()
    return whole_weights(array.astype(np.int64) - zero.astype(np.int64).reshape(shape), scale, _TYPES[array.dtype])


_ONE = np.ones((), np.float32)


@row("ConvInteger", "a convolution of codes as i32", inputs=(2, 4), attributes=ATTRIBUTES, elements="u8 i8")
def _conv_integer(site: Site) -> Wire:
    return _convolution(site, _operand(site, 0, "input"), 1, _plain_zero(site, 2, "zero point"), 3)


def _convolution(site: Site, x: Wire, place: int, zero: int, zero_place: int) -> Wire:
    kernel = site.data(place, "kernel")
    check_kernel(site, x, kernel)
    windows = laid(site, x.shape[1:], kernel.shape[2:])
    weights = _weights(site, place, zero_place, _ONE, 0)
    node = integer_convolution(site, x, weights, zero, windows, site.whole("group", 1))
    return Wire(node, (kernel.shape[0], *windows.counts), channels_last(len(windows.sizes)), "i32")


@row("QLinearConv", "a convolution of codes as codes", inputs=(8, 9), attributes=ATTRIBUTES, elements="u8 i8")
def _qlinear_conv(site: Site) -> Wire:
    x = _operand(site, 0, "input")
    made = _convolution(site, x, 3, _plain_zero(site, 2, "zero point"), 5)
    bias = site.known(8, "bias")
    if bias is not None:
        if bias.dtype != np.int32 or bias.shape != (made.shape[0],):
            site.refuse("its bias is no i32 row of its channels", "an i32 bias")
        made = replace(made, node=shifted(site, made.node, bias.astype(np.int64)))
    return _requantised(site, made, (1, 4, 6, 7), 0)


def _requantised(site: Site, total: Wire, places: tuple[int, int, int, int], axis: int) -> Wire:
    """Return accumulators as codes. places: of the scales of input, weights and output, and of the output's zero."""
    scale_x, scale_w, scale_y = (_scale(site, place) for place in places[:3])
    zero = _zero(site, places[3])
    if scale_x.size != 1 or scale_y.size != 1 or scale_w.size not in (1, total.shape[axis]) or zero.size != 1:
        site.refuse("its scales do not fit", "one scale, and one or one for each channel for the weights")
    product = np.asarray(scale_x.reshape(()) * scale_w.reshape(-1), np.float32)
    shape = [-1 if k == axis % len(total.shape) else 1 for k in range(len(total.shape))]
    coding = coding_of(product.reshape(shape if product.size > 1 else ()))
    return to_codes(site, site.emitter.coded(total, coding), coding_of(scale_y, zero), _TYPES[zero.dtype])


@row("MatMulInteger", "a product of codes as i32", inputs=(2, 4), elements="u8 i8")
def _matmul_integer(site: Site) -> Wire:
    x = _operand(site, 0, "input")
    zero = site.given(2)
    if isinstance(zero, Wire):
        total = _product(site, x, 1, 0, 3)
        sums = whole_weights(site.data(1, "weights").astype(np.int64), _ONE)
        taken = _weights(site, 1, 3, _ONE, 1).total.sum(0)
        assert sums is not None
        wide = site.emitter.expanded(site.emitter.widened(site.emitter.codes(zero)), total.shape)
        correction = site.emitter.with_constant("mul", wide, taken)
        return site.emitter.binary("sub", total, replace(correction, is_batched=total.is_batched))
    return _product(site, x, 1, _plain_zero(site, 2, "zero point"), 3)


def _product(site: Site, x: Wire, place: int, zero: int, zero_place: int) -> Wire:
    array = site.data(place, "weights")
    if array.ndim != 2 or not x.shape or x.shape[-1] != array.shape[0]:
        site.refuse(f"its weights {list(array.shape)} do not fit {list(x.shape)}", "a matrix [n, m]")
    if x.order[-1] != len(x.shape) - 1:
        x = site.emitter.arranged(x)
    node = integer_dense(site, x, _weights(site, place, zero_place, _ONE, 1), zero)
    return Wire(node, (*x.shape[:-1], array.shape[1]), x.order, "i32", None, x.is_batched)


@row("QLinearMatMul", "a product of codes as codes", inputs=(8, 8), elements="u8 i8")
def _qlinear_matmul(site: Site) -> Wire:
    x = _operand(site, 0, "input")
    total = _product(site, x, 3, _plain_zero(site, 2, "zero point"), 5)
    return _requantised(site, total, (1, 4, 6, 7), -1)


@row("QLinearAdd QLinearMul", "two tensors of codes as one", inputs=(7, 8), domain=MICROSOFT, elements="u8 i8")
def _qlinear_two(site: Site) -> Wire:
    emitter = site.emitter
    sides: list[Wire] = []
    for place in (0, 3):
        x = _operand(site, place, "operand")
        scale, offset = _scale(site, place + 1), _plain_zero(site, place + 2, "zero point")
        if scale.size != 1:
            site.refuse(f"its scale has {scale.size} values", "one value")
        sides.append(emitter.values(emitter.coded(x, coding_of(scale, offset))))
    check_pair(site, *sides)
    made = emitter.binary("add" if site.node.op == "QLinearAdd" else "mul", *sides)
    scale, zero = _scale(site, 6), _zero(site, 7)
    if scale.size != 1 or zero.size != 1:
        site.refuse("its output's scale or zero point has several values", "one value")
    return to_codes(site, made, coding_of(scale, zero), _TYPES[zero.dtype])


# --- dynamic


@row("DynamicQuantizeLinear", "u8 codes by the range of each sample, with scale and zero point", outputs=3)
def _dynamic(site: Site) -> list[Wire]:
    emitter = site.emitter
    x = emitter.values(site.wire(0))
    if x.element != "f32" or not x.is_batched or not x.shape:
        site.refuse("it quantises no batch of f32 numbers", "f32 with the batch in front")
    if site.batch != 1:
        site.refuse(f"it takes one scale for {site.batch} samples", "a file whose batch is 1 or open")
    places = list(range(len(x.shape)))
    ends = [emitter.with_constant(k, reduced(site, x, places, f"{k}_of"), 0.0) for k in ("max", "min")]
    high, low = (replace(each, is_batched=False) for each in ends)
    span = emitter.with_constant("div", emitter.binary("sub", high, low), 255.0)
    empty = emitter.assembly.op("eq", span.node, emitter.spread(0.0, span))
    scale = replace(span, node=emitter.assembly.op("select", empty, emitter.spread(1.0, span), span.node))
    start = emitter.binary("div", emitter.with_constant("sub", low, 0.0, first=True), scale)
    zero = emitter.converted(start, "u8", "round")
    moved = emitter.unary("round_even", emitter.binary("div", x, scale))
    codes = emitter.binary("add", moved, emitter.converted(zero, "f32"))
    return [emitter.converted(codes, "u8", "round"), scale, zero]
