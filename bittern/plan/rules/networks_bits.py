"""Rules for layers of one to a few bits: products by counting bits, straight to the packed bits of the next layer.

A rule starts from what ends a layer and looks back: over a pool, the comparison with thresholds, biases, the product,
its windows and paddings, to the values that go in, which are packed (`planes`). Weights and thresholds are constants.
Whether bits are counted or bytes multiplied is decided by the widths: counting takes a step for each plane of weights
with each plane of values (`cost`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bittern.graph.node import blob
from bittern.kernels.bits_of_sums import table_rows
from bittern.kernels.code_product import code_arithmetic, code_base, code_counts, near_bytes, packed_codes
from bittern.kernels.field import Field
from bittern.kernels.limits import bases, classes_of, limits, sign_base, sign_counts
from bittern.kernels.sign_product import SIGNS, Coding, sign_arithmetic, weight_planes
from bittern.kernels.window_results import Stage, tiles, words
from bittern.plan.cost import counts_bits
from bittern.plan.flow import Apply, Value
from bittern.plan.plan import Launch, Mode, Operand, Packed, Recipe, Region
from bittern.plan.rules.generic import generic
from bittern.plan.rules.layer_numbers import Ints, array_of, kernel_element
from bittern.plan.rules.networks_bytes import pool_of_bytes
from bittern.plan.rules.planes import (
    PLANES,
    Comparison,
    Held,
    beside,
    coding_of,
    comparison_of,
    held,
    packing,
    pooled,
    written_as,
)
from bittern.plan.rules.windows import Windowed, windows_of
from bittern.plan.scene import Scene, constant
from bittern.types.dims import Dim, dim
from bittern.types.elements import ELEMENTS
from bittern.types.values import Tensor

_DENSE = "dense.dense"
_CONVOLUTIONS = ("convolution.conv1d", "convolution.conv2d")
_BIAS = "requantise.bias"
_SHARED = 1 << 21  # multiply-accumulates from which threads share a launch: about a microsecond
_NEAR = 128 << 10  # bytes of copied rows
KNOWN = (
    _DENSE,
    *_CONVOLUTIONS,
    _BIAS,
    "thresholds.sign_at",
    "thresholds.ternary_at",
    "thresholds.levels",
    "pooling.max_pool1d",
    "pooling.max_pool2d",
)
_CODES = 255  # thresholds of a code
_SUMS = (-(1 << 31), (1 << 31) - 1)


@dataclass(frozen=True, slots=True)
class Layer:
    """A product that was found. x: what it reads, [lead, places, channels]. w: [m, taps, channels]. covers: all of it.

    weights: how they are packed. coding: of the values' planes; of bytes it means nothing. bias: [places or 1, m], what
    is added to the sums. last: what gives the sums.
    """

    apply: Apply
    x: Value
    field: Field
    w: Ints
    weights: str
    coding: Coding
    padding: int | None
    covers: tuple[Apply, ...]
    bias: Ints
    last: Apply

    @property
    def samples(self) -> Dim:
        """How many images, or vectors, there are."""
        return self.apply.rows

    @property
    def macs(self) -> Dim:
        """Multiply-accumulates."""
        return self.samples * (self.field.places * self.w.size)


def layer_of_bits(apply: Apply, scene: Scene) -> Region | None:
    """A dense layer or convolution of few bits with its bias, thresholds and pool, where counting bits is cheaper."""
    return _layer_region(apply, scene, is_cheaper=True)


def layer_of_many_bits(apply: Apply, scene: Scene) -> Region | None:
    """The same where multiplying bytes is cheaper: for what multiplies no bytes, and to be compared with."""
    return _layer_region(apply, scene, is_cheaper=False)


def layer_of_codes(apply: Apply, scene: Scene) -> Region | None:
    """A layer of more bits that ends in thresholds, by products of bytes."""
    pool, compared, covers = _behind(apply, scene)
    layer = _layer(compared.apply, compared, scene, by_codes=True) if compared is not None else None
    if layer is None or compared is None:
        return None
    covers = (*layer.covers, *covers)
    if len(covers) > 1 and not scene.fuse:
        return None
    element = kernel_element(layer.x)
    assert element is not None, layer.x
    rows = tiles(len(layer.w), code_arithmetic(layer.field, layer.w.shape[2]))
    rows *= code_arithmetic(layer.field, layer.w.shape[2]).rows
    if len(layer.bias) > 1:
        return None
    stage, result, more = _ending(compared, apply.results[0], scene)
    if pool is not None:
        stage = replace(stage, pool=(pool.windows[0], pool.windows[1]))
    base = code_base(layer.w, element) + layer.bias
    made = limits(base, 1, compared.at, compared.falling, code_counts(layer.w), rows, "u32")
    reads: dict[str, Operand] = {
        "x": layer.x,
        "w": _constant(packed_codes(layer.w.astype(np.int8)), layer.apply.arguments[0].label),
        "add": _constant(made.add, "thresholds"),
        "limit": _constant(made.limit, "thresholds"),
    }
    codes = (element, layer.w.shape[2], layer.padding or 0)
    recipe = Recipe(
        "code_product", (layer.field.as_tuple(), codes, len(layer.w), _plain(stage), layer.samples.constant)
    )
    launch = _launch(layer, recipe, reads, result, _SHARED >> 3)
    return Region("", covers, (launch, *more))


def pool_of_bits(apply: Apply, scene: Scene) -> Region | None:
    """The greatest of windows of packed values."""
    seen, result = pooled(apply, scene), apply.results[0]
    field = field_of(seen) if seen is not None else None
    if seen is None or field is None or scene.extra_value(result, PLANES) is None:
        return None
    coding = written_as(seen.source, scene)
    assert coding is not None
    if result in scene.needed:
        return _pooled_and_packed(apply, coding, scene)
    source, span = beside(seen.source, coding, scene), words(seen.channels) * len(coding.coefficients)
    recipe = Recipe("pool_planes", (field.as_tuple(), span, apply.rows.constant))
    sizes = {} if apply.rows.constant is not None else {"b": apply.rows}
    small = (apply.rows * (field.places * field.taps * span)).constant
    mode: Mode = "one" if small is not None and small < _SHARED >> 8 else "split"
    writes: dict[str, Operand] = {"y": beside(result, coding, scene)}
    launch = Launch(recipe, {"x": source}, writes, sizes, mode=mode, label=apply.label)
    return Region("", (*seen.covers, apply), (launch,))


def _pooled_and_packed(apply: Apply, coding: Coding, scene: Scene) -> Region | None:
    """Pool bytes, where some read the result so, and pack it for the others."""
    made = pool_of_bytes(apply, scene) or generic(apply, scene)
    packed = packing(apply.results[0], coding, beside(apply.results[0], coding, scene), scene)
    return None if made is None or packed is None else replace(made, launches=(*made.launches, packed))


def bits_of_sums(apply: Apply, scene: Scene) -> Region | None:
    """Sums that another kernel has made, compared with thresholds."""
    found = comparison_of(apply, scene, _CODES)
    if found is None:
        return None
    m, places = len(found.at), apply.rows
    rows = table_rows(m)
    base = np.zeros((1, m), np.int64)
    made = limits(base, 1, found.at, found.falling, _SUMS, rows, "u32")
    reads: dict[str, Operand] = {
        "x": apply.arguments[0],
        "add": _constant(made.add, "thresholds"),
        "limit": _constant(made.limit, "thresholds"),
    }
    stage, result, more = _ending(found, found.apply.results[0], scene)
    recipe = Recipe("bits_of_sums", (m, _plain(stage), places.constant))
    sizes = {} if places.constant is not None else {"t": places}
    small = (places * m).constant
    mode: Mode = "one" if small is not None and small < _SHARED >> 6 else "split"
    launch = Launch(recipe, reads, {"y": result}, sizes, mode=mode, label=apply.label)
    return Region("", (apply,), (launch, *more))


# --- what ends a layer


def _ending(found: Comparison, value: Value, scene: Scene) -> tuple[Stage, Value, tuple[Launch, ...]]:
    """Return the stage of a comparison, where it writes to, and what is to be done then.

    Planes where only they are wanted; else bytes, which are packed too if planes are wanted beside.
    """
    wanted = scene.extra_value(value, PLANES)
    if wanted is not None and value not in scene.needed:
        return Stage(found.thresholds, found.planes), wanted, ()
    stage = Stage(found.thresholds, (), found.element, found.low, found.step)
    if wanted is None:
        return stage, value, ()
    launch = packing(value, found.coding, wanted, scene)
    assert launch is not None, value
    return stage, value, (launch,)


def _layer_region(apply: Apply, scene: Scene, is_cheaper: bool) -> Region | None:
    pool, compared, covers = _behind(apply, scene)
    layer = _layer(apply if compared is None else compared.apply, compared, scene)
    if layer is None:
        return None
    channels = layer.w.shape[2]
    pairs = _pairs(layer)
    if counts_bits(pairs, words(channels) * 64 / channels, scene.tier) != is_cheaper:
        return None
    covers = (*layer.covers, *covers)
    if len(covers) > 1 and not scene.fuse:
        return None
    given = held(layer.x, layer.coding, scene)
    if given is None:
        return None
    return _region(layer, given, compared, pool, apply, covers, scene)


def _behind(apply: Apply, scene: Scene) -> tuple[Windowed | None, Comparison | None, tuple[Apply, ...]]:
    """Return the pool and the comparison that an application ends, with what they cover; each may be missing."""
    if (found := comparison_of(apply, scene)) is not None:
        return None, found, (apply,)
    seen = pooled(apply, scene)
    made = scene.maker(seen.source) if seen is not None else None
    found = comparison_of(made, scene) if made is not None else None
    if seen is None or made is None or found is None or not _is_joined(seen, scene, apply):
        return None, None, ()
    return seen, found, (made, *seen.covers, apply)


def _is_joined(seen: Windowed, scene: Scene, apply: Apply) -> bool:
    """Whether a pool can be made with the layer before it: its windows do not overlap and nobody else reads those."""
    is_alone = len(seen.covers) == len(seen.windows) and scene.private(seen.source, seen.covers[0])
    is_wanted = scene.extra_value(apply.results[0], PLANES) is not None and apply.results[0] not in scene.needed
    is_plain = seen.windows == seen.strides and set(seen.dilations) == {1} and not seen.is_padded
    if not (is_alone and is_wanted and is_plain and len(seen.windows) == 2):
        return False
    coding = written_as(seen.source, scene)
    assert coding is not None, seen
    planes = len(coding.coefficients)
    return seen.windows[0] * seen.sizes[1] * 8 * words(seen.channels) * planes <= _NEAR  # what is joined is kept


def _region(
    layer: Layer,
    given: Held,
    compared: Comparison | None,
    pool: Windowed | None,
    apply: Apply,
    covers: tuple[Apply, ...],
    scene: Scene,
) -> Region | None:
    """Return the region of a layer."""
    arithmetic = sign_arithmetic(layer.weights, layer.coding, layer.w.shape[2])
    rows = tiles(len(layer.w), arithmetic) * arithmetic.rows
    number, base = _bases(layer)
    result, more = layer.last.results[0], tuple[Launch, ...]()
    reads: dict[str, Operand] = {"x": given.planes, "w": _weights(layer)}
    if compared is None:
        stage = Stage()
        reads["base"] = _constant(bases(base, rows), "bases")
    else:
        stage, result, more = _ending(compared, apply.results[0], scene)
        counts = sign_counts(layer.w, layer.coding.total, layer.weights not in ("signs", "ternary"))
        made = limits(base, arithmetic.scale, compared.at, compared.falling, counts, rows, arithmetic.unit)
        reads |= {"add": _constant(made.add, "thresholds"), "limit": _constant(made.limit, "thresholds")}
    if pool is not None:
        stage = replace(stage, pool=(pool.windows[0], pool.windows[1]))
    if len(base) > 1:
        stage = replace(stage, classes=len(base))
        reads["classes"] = _constant(number, "classes")
    where = (layer.field.as_tuple(), layer.w.shape[2], len(layer.w), layer.weights)
    coding = (layer.coding.coefficients, layer.coding.alpha, layer.coding.beta)
    recipe = Recipe("sign_product", (*where, coding, _plain(stage), layer.padding, layer.samples.constant))
    launch = _launch(layer, recipe, reads, result, _SHARED // _pairs(layer))
    return Region("", covers, (*given.launches, launch, *more))


def _launch(layer: Layer, recipe: Recipe, reads: Mapping[str, Operand], result: Value, shared: int) -> Launch:
    """Return the launch of a layer. shared: multiply-accumulates from which threads share it."""
    macs = layer.macs
    mode: Mode = "one" if macs.constant is not None and macs.constant < shared else "split"
    sizes = {} if layer.samples.constant is not None else {"b": layer.samples}
    label = layer.apply.label or layer.apply.arguments[0].label
    return Launch(recipe, reads, {"y": result}, sizes, mode=mode, label=label, macs=macs)


def _bases(layer: Layer) -> tuple[Ints, Ints]:
    """Return the class of each place and the base of each class and row."""
    coding, field = layer.coding, layer.field
    is_exact = field.is_padded and layer.padding is None
    classes = classes_of(field, is_exact)
    is_planes = layer.weights not in ("signs", "ternary")
    base = sign_base(layer.w, classes.valid, coding.alpha, coding.beta, coding.total, is_planes)
    if len(layer.bias) == 1:
        return classes.number, base + layer.bias
    unique, number = np.unique(base[classes.number] + layer.bias, axis=0, return_inverse=True)
    return number.reshape(-1).astype(np.uint32), unique


def _weights(layer: Layer) -> Packed:
    m, taps, channels = layer.w.shape
    recipe = Recipe("pack_planes", (m, taps, channels, layer.weights))
    size = -(-m // 16) * taps * words(channels) * weight_planes(layer.weights) * 128
    return Packed(layer.apply.arguments[0], recipe, size)


def _pairs(layer: Layer) -> int:
    """Return how many planes of weights meet planes of values."""
    weights = 1 if layer.weights in ("signs", "ternary") else int(layer.weights[1:])
    return weights * len(layer.coding.coefficients)


# --- the product


def _layer(apply: Apply, compared: Comparison | None, scene: Scene, by_codes: bool = False) -> Layer | None:
    """Return the layer whose sums, biased, an application compares, or gives. by_codes: values are read as bytes."""
    last, covers, biases = apply, list[Apply](), list[tuple[Ints, bool]]()
    if compared is not None:
        source = scene.through(apply.arguments[0])
        made = scene.maker(source)
        if made is None or not scene.private(source, apply):
            return None
        if source.type.shape[-1:] != apply.arguments[0].type.shape[-1:]:
            return None
        covers, last = scene.chain(apply.arguments[0])[::-1], made
    result = last
    while (bias := _bias(last, scene)) is not None:
        value, numbers, nodes = bias
        made = scene.maker(value)
        if made is None or not scene.private(value, last):
            return None
        biases.append((numbers, len(numbers) > 1))
        covers, last = [*nodes, last, *covers], made
    found = _codes(last, scene) if by_codes else _bits(last, scene)
    if found is None:
        return None
    m, places = len(found.w), found.field.places
    if any(numbers.shape not in ((1, m), (places, m)) for numbers, _ in biases):
        return None
    total = sum((numbers.astype(np.int64) for numbers, _ in biases), np.zeros((1, m), np.int64))
    most = 255 * np.abs(found.w.astype(np.int64)).sum(axis=(1, 2)).max(initial=0)
    if np.abs(total).max(initial=0) >= 1 << 30 or most >= 1 << 30:
        return None  # sums may wrap
    return replace(found, covers=(*found.covers, *covers), bias=total, last=result)


def _bias(apply: Apply, scene: Scene) -> tuple[Value, Ints, list[Apply]] | None:
    """Return what a bias is added to, the bias, [1 or places, m], and the nodes that spread it."""
    if apply.name == _BIAS and apply.mapped == (True, False):
        numbers = array_of(apply.arguments[1])
        return None if numbers is None else (apply.arguments[0], numbers[None], [])
    if apply.name not in ("add", "sub") or apply.results[0].type.element.name != "i32":
        return None
    value, other = apply.arguments
    spread = scene.maker(other)
    if spread is None or spread.name != "broadcast" or (numbers := array_of(spread.arguments[0])) is None:
        return None
    if numbers.ndim == 0:
        return None
    numbers = numbers.reshape(-1, numbers.shape[-1]).astype(np.int64)
    return value, -numbers if apply.name == "sub" else numbers, []


def _codes(apply: Apply, scene: Scene) -> Layer | None:
    """Return a layer that reads bytes."""
    if apply.name not in (_DENSE, *_CONVOLUTIONS) or apply.mapped != (False, True):
        return None
    seen = windows_of(apply, scene) if apply.name in _CONVOLUTIONS else None
    x = apply.arguments[1] if seen is None else seen.source
    if kernel_element(x) is None:
        return None
    if apply.name == _DENSE:
        n = constant(apply.dims[1])
        return None if n is None else _of(apply, x, Field(), n, None, None, (apply,))
    field = field_of(seen) if seen is not None else None
    if seen is None or field is None or len(seen.inner) != 1 or near_bytes(field, seen.channels) > _NEAR:
        return None
    if seen.padding is not None and not isinstance(seen.padding, int):
        return None
    return _of(apply, x, field, seen.channels, None, seen.padding, (*seen.covers, apply))


def _bits(apply: Apply, scene: Scene) -> Layer | None:
    return _dense(apply, scene) if apply.name == _DENSE else _convolution(apply, scene)


def _dense(apply: Apply, scene: Scene) -> Layer | None:
    """Return a dense layer; of a flattened image the places are the taps of one window."""
    if apply.mapped != (False, True) and not (apply.mapped == (False, False) and not apply.lead):
        return None
    x, lead = apply.arguments[1], len(apply.lead)
    base = scene.through(x)
    front = base.type.shape[:lead]
    is_flat = base is not x and front == tuple(apply.lead) and len(base.type.shape) > lead
    if is_flat and (coding := written_as(base, scene)) is not None:
        sizes = [constant(size) for size in base.type.shape[lead:]]
        if None not in sizes:
            taps = int(np.prod([size or 0 for size in sizes[:-1]], dtype=np.int64))
            field = Field((1, taps), (1, taps))
            return _of(apply, base, field, sizes[-1] or 0, coding, None, (apply,))
    n = constant(apply.dims[1])
    coding = written_as(x, scene) or coding_of(x)
    if n is None or coding is None:
        return None
    return _of(apply, x, Field(), n, coding, None, (apply,))


def _convolution(apply: Apply, scene: Scene) -> Layer | None:
    """Return a convolution of one or two axes."""
    if apply.name not in _CONVOLUTIONS or apply.mapped != (False, True):
        return None
    seen = windows_of(apply, scene)
    field = field_of(seen) if seen is not None else None
    if seen is None or field is None or len(seen.inner) != 1:
        return None
    coding = written_as(seen.source, scene) or coding_of(seen.source)
    if coding is None:
        return None
    padding = None
    if seen.is_padded and not (seen.padding == 0 and coding.alpha == 2):
        if not isinstance(seen.padding, int) or coding.bits(seen.padding) is None:
            return None
        padding = seen.padding
    span = words(seen.channels) * len(coding.coefficients)
    if field.is_padded and 8 * span * field.padded_width * field.window[0] > _NEAR:
        return None
    return _of(apply, seen.source, field, seen.channels, coding, padding, (*seen.covers, apply))


def field_of(seen: Windowed) -> Field | None:
    """Return what windows of one or two axes see."""
    if len(seen.windows) > 2 or min((*seen.counts, *seen.windows, *seen.inner), default=0) < 1:
        return None

    def both(each: tuple[int, ...], alone: int) -> tuple[int, int]:
        return (each[0], each[1]) if len(each) == 2 else (alone, each[0])

    return Field(
        both(seen.sizes, 1),
        both(seen.windows, 1),
        both(seen.strides, 1),
        both(seen.dilations, 1),
        both(seen.before, 0),
        both(seen.after, 0),
    )


def _of(
    apply: Apply,
    x: Value,
    field: Field,
    channels: int,
    coding: Coding | None,
    padding: int | None,
    covers: tuple[Apply, ...],
) -> Layer | None:
    """Return a layer if its weights are constants of few bits; where values have no coding, of bytes."""
    weight = apply.arguments[0]
    numbers = array_of(weight)
    if numbers is None or numbers.size == 0 or kernel_element(weight) is None or channels == 0:
        return None
    w = numbers.reshape(len(numbers), field.taps, channels)
    weights = _kind(weight, w) if coding is not None else "codes" if w.max() < 128 else None
    if weights is None:
        return None
    nothing = np.zeros((1, len(w)), np.int64)
    return Layer(apply, x, field, w, weights, coding or SIGNS, padding, covers, nothing, apply)


def _kind(weight: Value, w: Ints) -> str | None:
    """Return how weights are packed; None where they have too many bits."""
    element = weight.type.element
    if element.name == "b1":
        return "signs"
    if element.name == "t" or (element.name in ("i2", "i3", "i4") and w.min() >= -1 and w.max() <= 1):
        return "ternary"
    return element.name if element.name in ("u2", "u3", "u4", "i2", "i3", "i4") else None


def _plain(stage: Stage) -> "tuple[int, tuple[tuple[int, ...], ...], str, int, int, int, tuple[int, int]]":
    """Return a stage in plain values, for a recipe."""
    return (stage.thresholds, stage.planes, stage.codes, stage.low, stage.step, stage.classes, stage.pool)


def _constant(data: Ints, label: str) -> Value:
    """Return a constant that the plan made."""
    element = ELEMENTS[{"uint64": "u64", "uint32": "u32", "int32": "i32"}[str(data.dtype)]]
    return Value(Tensor(element, (dim(data.size),)), "const", data=blob(data.tobytes()), label=label)
