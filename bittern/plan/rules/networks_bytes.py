"""Rules for layers of 8-bit codes: a convolution, dense layer or pool with the bias and output stage behind it.

A rule starts from what ends a layer and looks back: over the output stage, the bias, reshapes, the layer, its windows
and paddings, to the codes that go in. All but those must be constants; then the weights are packed and the stage is
chosen here (`layer_numbers`), exactly for the range that the sums of each channel have. What the kernels cannot do
exactly is left to the next rule.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bittern.graph.node import blob
from bittern.kernels.conv_shapes import ROOM, Area, Conv, flattened
from bittern.kernels.depthwise import Depthwise
from bittern.kernels.gather_windows import gathered, moves
from bittern.kernels.pool import Pool
from bittern.kernels.requantise import Stage, choose, records
from bittern.plan.flow import Apply, Value
from bittern.plan.plan import Launch, Mode, Operand, Recipe, Region
from bittern.plan.rules.layer_numbers import (
    ENDS,
    Ending,
    Ints,
    array_of,
    bound_of,
    ending_of,
    kernel_element,
    unsigned_by,
)
from bittern.plan.rules.windows import Windowed, windowed, windows_of
from bittern.plan.scene import Scene, constant
from bittern.types.dims import Dim, dim
from bittern.types.elements import U8
from bittern.types.values import Tensor

_SHARED = 1 << 18  # multiply-accumulates from which threads share a launch: about a microsecond
_ROOM: Mapping[str, int] = {"sse2": 2, "avx2": 5, "avx2-vnni": 7}  # vectors of 16 sums that registers hold
_DENSE = "dense.dense"
_WINDOWED = ("convolution.conv1d", "convolution.conv2d", "convolution.depthwise1d", "convolution.depthwise2d")
_GROUPED: Mapping[str, int] = {"convolution.conv1d_grouped": 1, "convolution.conv2d_grouped": 2}
_SUMS = ("pooling.sum_pool1d", "pooling.sum_pool2d")
_GREATEST = ("pooling.max_pool1d", "pooling.max_pool2d")
KNOWN = (_DENSE, *_WINDOWED, *_GROUPED, *_SUMS, *_GREATEST, *ENDS)  # functions that stay whole


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer that was found. apply: its sum. x: what it reads. covers: what stands between both, and the sum."""

    apply: Apply
    x: Value
    area: Area
    covers: tuple[Apply, ...]
    images: Dim
    parts: int = 1


def layer_of_bytes(apply: Apply, scene: Scene) -> Region | None:
    """A convolution or dense layer of codes with its bias and output stage."""
    ending = ending_of(apply, scene)
    if ending is None:
        return None
    layer = _layer(ending.sum, scene)
    return None if layer is None else _product(layer, ending, _ROOM.get(scene.tier, ROOM))


def layer_by_im2col(apply: Apply, scene: Scene) -> Region | None:
    """A convolution with windows gathered first, where their rows fill groups badly and many channels share them."""
    return _by_im2col(apply, scene, always=False)


def im2col(apply: Apply, scene: Scene) -> Region | None:
    """A convolution whose windows are gathered first, at any cost: what `layer_of_bytes` is compared with."""
    return _by_im2col(apply, scene, always=True)


def pool_of_bytes(apply: Apply, scene: Scene) -> Region | None:
    """The greatest of windows of codes, or their sum with its output stage."""
    if apply.name in _GREATEST:
        layer = _spatial(apply, windows_of(apply, scene))
        if layer is None or not Pool(layer.area).fits:
            return None
        recipe = Recipe("max_pool", (layer.area.arguments(), layer.images.constant or 0))
        return _region(layer, recipe, {"x": layer.x}, {"y": apply.results[0]}, layer.covers, dim(0))
    ending = ending_of(apply, scene)
    if ending is None or ending.sum.name not in _SUMS:
        return None
    layer = _spatial(ending.sum, windows_of(ending.sum, scene))
    if layer is None or not Pool(layer.area).fits:
        return None
    area, (p, q) = layer.area, layer.area.window
    flip, low, high = unsigned_by(area), *_range(layer)
    bound = np.full(area.c, p * q * max(abs(low), abs(high)), np.int64)
    stage = _stage(ending, bound)
    if stage is None:
        return None
    bias = np.zeros(area.c, np.int64) if ending.bias is None else ending.bias
    taken = flip * p * q if Pool(area).is_copied else 0
    made = _constant(records(stage, bias - taken, ending.rounding), "records")
    recipe = Recipe("sum_pool", (area.arguments(), stage.arguments(), layer.images.constant or 0))
    covers = (*layer.covers, *ending.covers)
    return _region(layer, recipe, {"x": layer.x, "r": made}, {"y": ending.result}, covers, dim(0))


def _layer(apply: Apply, scene: Scene) -> Layer | None:
    """Return the layer whose sums an application makes."""
    if apply.name == _DENSE:
        return _dense(apply)
    if apply.name in _WINDOWED:
        return _spatial(apply, windows_of(apply, scene))
    if apply.name in _GROUPED:
        return _grouped(apply, scene)
    return None


def _dense(apply: Apply) -> Layer | None:
    """A dense layer is a convolution that sees one place; all samples of a batch are one row of places."""
    if apply.mapped != (False, True):
        return None
    x, n, rows = apply.arguments[1], constant(apply.dims[1]), apply.rows.constant
    element = kernel_element(x)
    if n is None or n == 0 or element is None:
        return None
    size = (1, rows or 1)
    area = Area(size, n, (1, 1), (1, 1), (1, 1), (0, 0), size, 0, element)
    return Layer(apply, x, area, (apply,), dim(1) if rows else apply.rows)


def _grouped(apply: Apply, scene: Scene) -> Layer | None:
    """A convolution of parted channels; they may come parted or be parted by a reshape of the windows."""
    if apply.mapped != (False, True):
        return None
    value, spatial, lead = apply.arguments[1], _GROUPED[apply.name], len(apply.lead)
    made = scene.maker(value)
    if made is not None and made.name == "reshape" and scene.private(value, apply):
        source = made.arguments[0]
        *front, groups, channels = value.type.shape
        if tuple(source.type.shape) == (*front, groups * channels):
            found = _spatial(apply, windowed(source, made, lead, spatial, scene))
            if found is not None:
                covers = (*found.covers[:-1], made, apply)
                return Layer(apply, found.x, found.area, covers, found.images, constant(groups) or 1)
    found = _spatial(apply, windowed(value, apply, lead, spatial, scene))
    if found is None:
        return None
    return Layer(apply, found.x, found.area, found.covers, found.images, constant(value.type.shape[-2]) or 1)


def _spatial(apply: Apply, seen: Windowed | None) -> Layer | None:
    """Return the layer of windows that an application sees."""
    if seen is None or any(not each for each in apply.mapped[-1:]):
        return None
    element = kernel_element(seen.source)
    if element is None or min((*seen.counts, seen.channels, *seen.windows), default=0) < 1:
        return None
    pad = 0 if seen.padding is None else seen.padding
    if not isinstance(pad, int) or len(seen.counts) > 2:
        return None
    rows = seen.counts[:-1] or (1,)

    def both(each: tuple[int, ...], alone: int) -> tuple[int, int]:
        return (each[0], each[1]) if len(each) == 2 else (alone, each[0])

    area = Area(
        both(seen.sizes, 1),
        seen.channels,
        both(seen.windows, 1),
        both(seen.strides, 1),
        both(seen.dilations, 1),
        both(seen.before, 0),
        (rows[0], seen.counts[-1]),
        pad,
        element,
    )
    return Layer(apply, seen.source, area, (*seen.covers, apply), apply.rows)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The constants of a layer. kernels: [output channels, weights of each] i8. records: of the stage."""

    kernels: Ints
    stage: Stage
    records: Value


def _numbers(layer: Layer, ending: Ending) -> Numbers | None:
    """Read a layer's constants and choose its output stage; None where kernels cannot do it exactly."""
    weights = array_of(layer.apply.arguments[0])
    if weights is None or layer.apply.mapped[0] or weights.size == 0:
        return None
    if weights.min() < -128 or weights.max() > 127:
        return None
    if "depthwise" in layer.apply.name:
        kernels = weights.reshape(-1, layer.area.c).T.astype(np.int8)
    else:
        axes = 2 if layer.apply.name in _GROUPED else 1
        kernels = weights.reshape(int(np.prod(weights.shape[:axes])), -1).astype(np.int8)
    sums, sizes = kernels.sum(axis=1, dtype=np.int64), np.abs(kernels.astype(np.int64)).sum(axis=1)
    bias = np.zeros(len(sums), np.int64) if ending.bias is None else ending.bias
    stage = _stage(ending, bound_of(sizes, _range(layer), bias))
    if stage is None:
        return None
    made = records_of_parts(stage, bias - unsigned_by(layer.area) * sums, ending, layer.parts)
    return Numbers(kernels, stage, _constant(made, "records"))


def _product(layer: Layer, ending: Ending, room: int) -> Region | None:
    """Return the region of a convolution, dense or depthwise layer. room: of vectors in registers."""
    numbers = _numbers(layer, ending)
    if numbers is None:
        return None
    area, images, stage = layer.area, layer.images.constant or 0, numbers.stage.arguments()
    if "depthwise" in layer.apply.name:
        alone = Depthwise(area)
        packed, macs, fits = alone.packed(numbers.kernels.T.reshape(*area.window, area.c)), alone.macs, alone.fits
        recipe = Recipe("depthwise", (area.arguments(), stage, images))
    else:
        conv = Conv(flattened(area), len(numbers.kernels) // layer.parts, layer.parts, room)
        packed, macs, fits = conv.packed(numbers.kernels), conv.macs, conv.fits
        recipe = Recipe("conv_bytes", (area.arguments(), conv.m, stage, images, layer.parts, room))
    if not fits:
        return None
    w = _constant(packed, layer.apply.arguments[0].label)
    reads: dict[str, Operand] = {"x": layer.x, "w": w, "r": numbers.records}
    covers = (*layer.covers, *ending.covers)
    return _region(layer, recipe, reads, {"y": ending.result}, covers, layer.images * macs)


def _by_im2col(apply: Apply, scene: Scene, *, always: bool) -> Region | None:
    """Return the two launches that gather windows and multiply. always: also where reading them in place is faster."""
    ending = ending_of(apply, scene)
    layer = None if ending is None or ending.sum.name not in _WINDOWED else _layer(ending.sum, scene)
    if ending is None or layer is None or "depthwise" in layer.apply.name or layer.area.window == (1, 1):
        return None
    images, room, m = (
        layer.images.constant,
        _ROOM.get(scene.tier, ROOM),
        constant(layer.apply.arguments[0].type.shape[0]),
    )
    if images is None or m is None:
        return None
    area = gathered(layer.area, images)
    direct, conv = Conv(layer.area, m, room=room), Conv(area, m, room=room)
    if not always and conv.cycles + images * layer.area.places * moves(layer.area) >= images * direct.cycles:
        return None
    numbers = _numbers(layer, ending)
    if numbers is None:
        return None
    if not Pool(layer.area).fits or not conv.fits:
        return None
    filled = np.zeros((m, area.c), np.int8)
    filled[:, : numbers.kernels.shape[1]] = numbers.kernels
    type_ = Tensor(U8, (dim(area.places), dim(area.c)))
    between = Value(type_, "made", label=f"{layer.x.label} windows")
    mode, label = _mode(dim(images * direct.macs)), layer.apply.label or layer.apply.arguments[0].label
    gather = Recipe("gather_windows", (layer.area.arguments(), images))
    recipe = Recipe("conv_bytes", (area.arguments(), m, numbers.stage.arguments(), 1, 1, room))
    reads: dict[str, Operand] = {"x": between, "w": _constant(conv.packed(filled), ""), "r": numbers.records}
    launches = (
        Launch(gather, {"x": layer.x}, {"y": between}, mode=mode, label=label),
        Launch(recipe, reads, {"y": ending.result}, mode=mode, label=label, macs=dim(images * direct.macs)),
    )
    return Region("", (*layer.covers, *ending.covers), launches)


def records_of_parts(stage: Stage, bias: Ints, ending: Ending, parts: int) -> Ints:
    """Return the records of all parts of the channels, each with tiles of its own."""
    each = len(bias) // parts
    made = []
    for part in range(parts):
        here = slice(part * each, (part + 1) * each)
        rounding = None if ending.rounding is None else ending.rounding.of(here)
        made.append(records(stage, bias[here], rounding))
    return np.concatenate(made)


def _stage(ending: Ending, bound: Ints) -> Stage | None:
    if (bound >= 1 << 31).any():
        return None  # sums may wrap
    if ending.mean is not None:
        return ending.mean if (bound < 1 << 29).all() else None
    if ending.rounding is None:
        return Stage("sum")
    return choose(ending.rounding, bound)


def _range(layer: Layer) -> tuple[int, int]:
    """Return the least and the greatest code that windows hold."""
    element, pad = layer.x.type.element, layer.area.pad
    return min(element.low, pad), max(element.high, pad)


def _region(
    layer: Layer,
    recipe: Recipe,
    reads: Mapping[str, Operand],
    writes: Mapping[str, Operand],
    covers: tuple[Apply, ...],
    macs: Dim,
) -> Region:
    sizes = {} if layer.images.constant else {"t": layer.images}
    label = layer.apply.label or layer.apply.arguments[0].label
    return Region("", covers, (Launch(recipe, reads, writes, sizes, mode=_mode(macs), label=label, macs=macs),))


def _mode(macs: Dim) -> Mode:
    return "one" if macs.constant is not None and macs.constant < _SHARED else "split"


def _constant(data: Ints, label: str) -> Value:
    """Return a constant that the plan made. data: u8."""
    return Value(Tensor(U8, (dim(data.size),)), "const", data=blob(data.tobytes()), label=label)
