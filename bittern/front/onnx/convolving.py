"""Convolutions of one to three axes, grouped and transposed, of codes or of f32 numbers.

Codes are padded with the code that stands for 0. Signs have none: they are padded with +1, and what that adds to each
sum, a constant, is taken off again.
"""

from dataclasses import replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from bittern.front.network.assembly import element_of
from bittern.front.onnx.codes import Weights, codes_of, is_in, product_scale, weights_of
from bittern.front.onnx.emitter import sizes_of
from bittern.front.onnx.linear import shifted, with_bias
from bittern.front.onnx.table import Site, row
from bittern.front.onnx.values import Array, Known, Wire, coding_of
from bittern.front.onnx.windows import Laid, channels_last, laid, padded_last, windowed
from bittern.graph.node import Node

ATTRIBUTES = "auto_pad dilations group kernel_shape pads strides"


@row("Conv", "a convolution by a constant kernel", inputs=(2, 3), attributes=ATTRIBUTES)
def _conv(site: Site) -> Wire:
    x, kernel = site.wire(0), site.given(1)
    if not isinstance(kernel, Known):
        site.refuse("its kernel is computed", "a constant kernel")
    site.data(1, "kernel")
    check_kernel(site, x, kernel.array)
    windows = laid(site, x.shape[1:], kernel.array.shape[2:])
    result = convolved(site, x, kernel, windows, site.whole("group", 1))
    return _with_bias(site, result)


def _with_bias(site: Site, result: Wire) -> Wire:
    bias = site.given(2)
    if bias is None:
        return result
    if not isinstance(bias, Known) or bias.array.shape != (result.shape[0],):
        site.refuse("its bias is computed or does not fit its channels", "one constant for each channel")
    return with_bias(site, result, bias, 2, axis=0)


def check_kernel(site: Site, x: Wire, kernel: Array) -> None:
    """Refuse kernels that do not fit. kernel: [m, c / group, spatial]."""
    rank, group = len(x.shape) - 1, site.whole("group", 1)
    if not x.is_batched or not 1 <= rank <= 3 or kernel.ndim != rank + 2:
        site.refuse(f"it has {rank} spatial axes and a kernel of {kernel.ndim} axes", "1 to 3 spatial axes")
    if group < 1 or x.shape[0] != group * kernel.shape[1] or kernel.shape[0] % group:
        site.refuse(f"its kernel {list(kernel.shape)} does not fit {x.shape[0]} channels", "[m, c / group, ...]")
    stated = site.wholes("kernel_shape")
    if stated is not None and stated != kernel.shape[2:]:
        site.refuse(f"its kernel_shape {list(stated)} is not that of its kernel", "equal shapes")


def convolved(site: Site, x: Wire, kernel: Known, windows: Laid, group: int) -> Wire:
    """Return the convolution, [m, counts], of codes if both sides are, else of f32 numbers."""
    weights, codes = weights_of(kernel), codes_of(x)
    shape = (kernel.array.shape[0], *windows.counts)
    order = channels_last(len(windows.sizes))
    if weights is not None and codes is not None and _fits(weights, kernel.array):
        coding, zero = codes
        node = integer_convolution(site, x, weights, zero, windows, group)
        total = product_scale(coding.scale, weights.scale.reshape(-1) if weights.scale.ndim else weights.scale)
        made = Wire(node, shape, order, "i32")
        return site.emitter.coded(
            made, coding_of(total.reshape(-1, *(1,) * len(windows.sizes)) if total.ndim else total)
        )
    if x.element != "f32" or kernel.array.dtype != np.float32:
        site.refuse(f"it joins {x.element} with {kernel.array.dtype}", "f32, or ConvInteger for whole numbers")
    given = padded_last(site, site.emitter.arranged(site.emitter.values(x), order), windows, 0.0)
    node = _called(site, windowed(site, given.node, windows), kernel.array, "f32", group)
    return Wire(node, shape, order)


def _fits(weights: Weights, kernel: Array) -> bool:
    """Whether the scale is one value or one for each output channel."""
    return weights.scale.ndim == 0 or weights.scale.shape == (kernel.shape[0], *(1,) * (kernel.ndim - 1))


def integer_convolution(site: Site, x: Wire, weights: Weights, zero: int, windows: Laid, group: int) -> Node:
    """Return the sums of (x - zero) * w as i32 [b, counts, m]; x is taken by its codes."""
    emitter = site.emitter
    given = emitter.arranged(emitter.codes(x), channels_last(len(windows.sizes)))
    element = element_of(given.node).name
    filling = zero if is_in(zero, element) else 1
    if windows.is_padded and not is_in(filling, element):
        site.refuse(f"its zero {zero} is no code of {element}", "a zero point among the codes")
    views = windowed(site, padded_last(site, given, windows, filling).node, windows)
    total: Node | None = None
    for codes, name in weights.parts:
        node = _called(site, views, codes, name, group)
        total = node if total is None else emitter.assembly.op("add", total, node)
    assert total is not None, weights
    sums = weights.total.reshape(weights.total.shape[0], -1).sum(1)
    total = shifted(site, total, -zero * sums)
    if windows.is_padded and filling != zero:
        total = shifted(site, total, (zero - filling) * padding_sums(weights.total, windows))
    return total


def padding_sums(kernel: Array, windows: Laid) -> Array:
    """Return the sums of weights that lie in the padding, [counts, m]. kernel: [m, c, spatial]."""
    outside = np.ones(
        [n + low + high for n, low, high in zip(windows.sizes, windows.before, windows.after, strict=True)]
    )
    outside[tuple(slice(low, low + n) for n, low in zip(windows.sizes, windows.before, strict=True))] = 0
    rank = len(windows.sizes)
    spans = [(k - 1) * d + 1 for k, d in zip(windows.kernel, windows.dilations, strict=True)]
    views = sliding_window_view(outside, spans)
    steps = [slice(None, None, step) for step in (*windows.strides, *windows.dilations)]
    taps = kernel.sum(1).reshape(kernel.shape[0], -1)
    sums = views[tuple(steps)].reshape(*windows.counts, -1) @ taps.T
    assert sums.ndim == rank + 1, sums.shape
    return np.asarray(sums.astype(np.int64))


def _called(site: Site, views: Node, kernel: Array, element: str, group: int) -> Node:
    """Return the library's convolution of windows [b, o, p, v, q, c]. kernel: [m, c / group, spatial]."""
    assembly, rank = site.emitter.assembly, kernel.ndim - 2
    suffix = "_float" if element == "f32" else ""
    module = "onnx" if element == "f32" else "convolution"
    m, c = kernel.shape[:2]
    spatial = tuple(range(2, 2 + rank))
    if group == 1:
        w = site.emitter.constant(kernel.transpose(0, *spatial, 1), element)
        return assembly.call(f"{module}.conv{rank}d{suffix}", w, views, lead=1, mapped=(False, True))
    if rank == 3:
        site.refuse("it has groups on 3 spatial axes", "groups on 1 or 2 spatial axes")
    if m == group and c == 1 and element != "f32":
        w = site.emitter.constant(kernel.transpose(*spatial, 0, 1)[..., 0], element)
        return assembly.call(f"convolution.depthwise{rank}d", w, views, lead=1, mapped=(False, True))
    parts = kernel.reshape(group, m // group, *kernel.shape[1:])
    w = site.emitter.constant(parts.transpose(0, 1, *(axis + 1 for axis in spatial), 2), element)
    sizes = list(sizes_of(views))
    split = assembly.op("reshape", views, shape=(*sizes[:-1], group, c))
    made = assembly.call(f"{module}.conv{rank}d_grouped{suffix}", w, split, lead=1, mapped=(False, True))
    return assembly.op("reshape", made, shape=(*list(sizes_of(made))[:-2], m))


# --- transposed


@row(
    "ConvTranspose",
    "a transposed convolution: zeros between the places, then a convolution",
    inputs=(2, 3),
    attributes=f"{ATTRIBUTES} output_padding output_shape",
)
def _conv_transpose(site: Site) -> Wire:
    x, kernel = site.wire(0), site.given(1)
    if not isinstance(kernel, Known):
        site.refuse("its kernel is computed", "a constant kernel")
    rank, group = len(x.shape) - 1, site.whole("group", 1)
    w = site.data(1, "kernel")
    if not x.is_batched or not 1 <= rank <= 3 or w.ndim != rank + 2 or group < 1 or w.shape[0] != x.shape[0]:
        site.refuse(f"its kernel {list(w.shape)} does not fit {list(x.shape)}", "[c, m / group, ...]")
    if w.shape[0] % group or site.wholes("output_shape") or site.text("auto_pad", "NOTSET") != "NOTSET":
        site.refuse("it states its output's shape or pads by itself", "explicit pads and output_padding")
    windows = _spread_windows(site, x, w.shape[2:])
    x = site.emitter.arranged(_with_zero(site, x), channels_last(rank))
    strides = site.wholes("strides") or (1,) * rank
    for axis, stride in enumerate(strides):
        x = _spread(site, x, axis, stride)
    return _with_bias(site, convolved(site, x, _flipped(kernel, group), windows, group))


def _with_zero(site: Site, x: Wire) -> Wire:
    """Return signs as -1, 0, +1, so that there is a 0 to put between them."""
    if x.coding is None or element_of(x.node).name != "b1":
        return x
    wide = site.emitter.converted(site.emitter.codes(x), "i8")
    return replace(x, node=site.emitter.assembly.op("sign", wide.node, to="t"))


def _spread_windows(site: Site, x: Wire, kernel: tuple[int, ...]) -> Laid:
    """Return the windows on the axes with zeros between the places."""
    rank = len(kernel)
    strides = site.wholes("strides") or (1,) * rank
    dilations = site.wholes("dilations") or (1,) * rank
    pads = site.wholes("pads") or (0,) * (2 * rank)
    more = site.wholes("output_padding") or (0,) * rank
    lists = (strides, dilations, pads[:rank], pads[rank:], more)
    if any(len(each) != rank for each in lists) or min((*strides, *dilations)) < 1 or min((*pads, *more)) < 0:
        site.refuse("its strides, dilations or pads do not fit its axes", "numbers for each spatial axis")
    sizes = tuple((n - 1) * s + 1 for n, s in zip(x.shape[1:], strides, strict=True))
    spans = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    before = tuple(span - low for span, low in zip(spans, pads[:rank], strict=True))
    after = tuple(span - high + extra for span, high, extra in zip(spans, pads[rank:], more, strict=True))
    if min((*before, *after)) < 0 or max((*sizes, *before, *after)) > 1 << 20:
        site.refuse("its pads are larger than its kernel", "pads below the kernel's span")
    made = Laid(sizes, tuple(kernel), (1,) * rank, tuple(dilations), before, after, (0,) * rank)
    if min(made.counts) < 1:
        site.refuse("it leaves nothing", "windows that fit the padded axes")
    return made


def _spread(site: Site, x: Wire, axis: int, stride: int) -> Wire:
    """Return x [c, spatial] with stride - 1 zeros between the places of a spatial axis; it is stored channels last."""
    if stride == 1:
        return x
    emitter, assembly = site.emitter, site.emitter.assembly
    code = 0 if x.coding is None else codes_of(x)
    if isinstance(code, tuple):
        code = code[1]
    if code is None or not (x.coding is None or is_in(code, element_of(x.node).name)):
        x, code = emitter.values(x), 0
    sizes, place, own = list(sizes_of(x.node)), 1 + axis, x.shape[1 + axis]
    split = assembly.op("reshape", x.node, shape=(*sizes[: place + 1], 1, *sizes[place + 1 :]))
    filling = site.emitter.constant(code, element_of(x.node).name)
    wide = assembly.op("pad", split, filling, axis=place + 1, before=0, after=stride - 1)
    flat = assembly.op("reshape", wide, shape=(*sizes[:place], own * stride, *sizes[place + 1 :]))
    node = assembly.op("slice", flat, axis=place, low=0, high=(own - 1) * stride + 1, stride=1)
    shape = tuple((own - 1) * stride + 1 if k == 1 + axis else size for k, size in enumerate(x.shape))
    return emitter.fresh(x, node, shape, x.order)


def _flipped(kernel: Known, group: int) -> Known:
    """Return a kernel [c, m / group, spatial] as that of the plain convolution, [m, c / group, spatial]."""

    def turn(array: Array) -> Array:
        c, m = array.shape[:2]
        parts = array.reshape(group, c // group, m, *array.shape[2:]).swapaxes(1, 2)
        whole = parts.reshape(group * m, c // group, *array.shape[2:])
        return np.flip(whole, tuple(range(2, array.ndim)))

    if kernel.codes is None or kernel.coding is None or not kernel.coding.is_plain():
        return Known(np.ascontiguousarray(turn(kernel.array)))
    return replace(kernel, array=turn(kernel.array), codes=turn(kernel.codes))
