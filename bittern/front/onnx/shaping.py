"""Operations that only rearrange. The batch stays in front; codes are moved as codes."""

from collections.abc import Sequence

import numpy as np

from bittern.front.network.assembly import element_of
from bittern.front.onnx.codes import is_in, whole
from bittern.front.onnx.emitter import sizes_of
from bittern.front.onnx.folding import slices, target_shape
from bittern.front.onnx.table import ANY, Site, row
from bittern.front.onnx.values import Known, Wire, coding_of


def movable(site: Site, x: Wire) -> Wire:
    """Return a wire whose coding, if any, does not depend on the place."""
    return x if x.coding is None or x.coding.is_plain() else site.emitter.values(x)


def full_shape(site: Site, x: Wire) -> tuple[int, ...]:
    """Return the shape as the file has it."""
    return ((site.batch,) if x.is_batched else ()) + x.shape


def _to_shape(site: Site, x: Wire, wanted: tuple[int, ...]) -> Wire:
    """Return x under a full shape of the file; the batch axis must stay in front."""
    if not x.is_batched:
        return site.emitter.reshaped(x, wanted)
    if not wanted or wanted[0] != site.batch:
        site.refuse(f"it moves the batch axis into {list(wanted)}", "shapes whose first axis is the batch")
    return site.emitter.reshaped(x, wanted[1:])


@row("Reshape", "another shape, the batch in front", inputs=(1, 2), attributes="allowzero shape", elements=ANY)
def _reshape(site: Site) -> Wire:
    x = site.wire(0)
    shape = site.wholes("shape")
    if shape is None:
        shape = site.sizes(1, "shape")
    if shape is None:
        site.refuse("it has no shape", "a constant shape")
    return _to_shape(site, x, target_shape(site, full_shape(site, x), shape))


@row("Flatten", "all axes behind the batch as one", attributes="axis", elements=ANY)
def _flatten(site: Site) -> Wire:
    x = site.wire(0)
    axis = site.whole("axis", 1)
    if (axis + x.rank if axis < 0 else axis) != 1:
        site.refuse(f"it flattens at axis {axis}", "axis 1: samples stay apart")
    return site.emitter.reshaped(x, (int(np.prod(x.shape, dtype=np.int64)),))


@row("Shape", "the sizes of a tensor, a constant", attributes="start end", constants=True, elements=ANY)
def _shape(site: Site) -> Known:
    x = site.given(0)
    if isinstance(x, Known):
        sizes, is_batched = x.array.shape, False
    else:
        wire = site.wire(0)
        sizes, is_batched = full_shape(site, wire), wire.is_batched
    start, end = site.whole("start", 0), site.whole("end", len(sizes))
    picked = range(len(sizes))[start:end]
    return Known(np.array([sizes[k] for k in picked], np.int64), of_batch=is_batched and 0 in picked)


@row("Transpose", "another order of axes, the batch in front", attributes="perm", elements=ANY)
def _transpose(site: Site) -> Wire:
    x = site.wire(0)
    perm = site.wholes("perm") or tuple(reversed(range(x.rank)))
    if sorted(perm) != list(range(x.rank)):
        site.refuse(f"its `perm` {list(perm)} is no order of {x.rank} axes", "each axis once")
    if x.is_batched and perm[0] != 0:
        site.refuse("it moves the batch axis", "an order that keeps the first axis")
    return transposed(x, tuple(axis - x.is_batched for axis in perm if axis >= x.is_batched))


def transposed(x: Wire, axes: tuple[int, ...]) -> Wire:
    """Return a wire under another order of the sample's axes; nothing moves until somebody needs it."""
    coding = x.coding
    if coding is not None:
        parts = [each if each.ndim == 0 else each.transpose(axes) for each in (coding.scale, coding.zero)]
        coding = coding_of(*parts)
    shape = tuple(x.shape[axis] for axis in axes)
    order = tuple(axes.index(axis) for axis in x.order)
    return Wire(x.node, shape, order, x.element, coding, x.is_batched)


def given_axes(site: Site) -> tuple[int, ...] | None:
    """Return the axes of a node: an attribute in older versions, an input in newer ones."""
    listed = site.sizes(1, "axes")
    return site.wholes("axes") if listed is None else listed


@row("Unsqueeze", "new axes of length 1", inputs=(1, 2), attributes="axes", elements=ANY)
def _unsqueeze(site: Site) -> Wire:
    x, axes = site.wire(0), given_axes(site) or ()
    places = sorted(site.axis(x, axis, len(axes)) for axis in axes)
    if len(set(places)) != len(places):
        site.refuse("it names an axis twice", "each axis once")
    shape = list(x.shape)
    for place in places:
        shape.insert(place, 1)
    return site.emitter.reshaped(x, shape)


@row("Squeeze", "without axes of length 1", inputs=(1, 2), attributes="axes", elements=ANY)
def _squeeze(site: Site) -> Wire:
    x, axes = site.wire(0), given_axes(site)
    if axes is None:
        places = [place for place, size in enumerate(x.shape) if size == 1]
    else:
        places = [site.axis(x, axis) for axis in axes]
    if any(x.shape[place] != 1 for place in places):
        site.refuse("it takes away an axis that is longer than 1", "axes of length 1")
    shape = [size for place, size in enumerate(x.shape) if place not in places]
    return site.emitter.reshaped(x, shape)


@row("Concat", "tensors one after the other along an axis", inputs=(1, 1024), attributes="axis", elements=ANY)
def _concat(site: Site) -> Wire:
    emitter = site.emitter
    wires = [each for each in site.inputs if isinstance(each, Wire)]
    first = wires[0] if wires else site.wire(0)
    axis = site.axis(first, site.whole("axis", 1))
    shared = _shared_coding(site.inputs)
    parts = [_part(site, each, first, axis, shared) for each in site.inputs if each is not None]
    order = first.order
    nodes = [emitter.arranged(each, order).node for each in parts]
    size = sum(each.shape[axis] for each in parts)
    shape = tuple(size if k == axis else own for k, own in enumerate(first.shape))
    joined = emitter.assembly.op("concat", *nodes, axis=1 + order.index(axis))
    return emitter.fresh(parts[0], joined, shape, order)


def _shared_coding(inputs: Sequence[Known | Wire | None]) -> bool:
    """Whether all operands are codes of one element that stand for the same numbers."""
    wires = [each for each in inputs if isinstance(each, Wire)]
    if len(wires) != len(inputs) or any(each.coding is None or not each.coding.is_plain() for each in wires):
        return False
    kinds = {
        (element_of(each.node).name, float(each.coding.scale), float(each.coding.zero)) for each in wires if each.coding
    }
    return len(kinds) == 1


def _part(site: Site, given: Known | Wire, like: Wire, axis: int, shared: bool) -> Wire:
    """Return one operand of a concatenation as a wire that fits the first one."""
    emitter = site.emitter
    if isinstance(given, Known):
        array = given.array
        if array.ndim != like.rank or (like.is_batched and array.shape[0] not in (1, site.batch)):
            site.refuse("it joins a constant that does not fit", "a constant with the same axes")
        fits = Wire(like.node, array.shape[1:], like.order)
        own = site.operand(array, fits, "constant") if like.is_batched else array
        node = emitter.assembly.op("broadcast", emitter.constant(own, "f32"), shape=sizes_of(like.node)[:1])
        return Wire(node, own.shape, tuple(range(own.ndim)), "f32", None, like.is_batched)
    wire = given if shared else emitter.values(given)
    sizes = [(own, other) for k, (own, other) in enumerate(zip(wire.shape, like.shape, strict=False)) if k != axis]
    if len(wire.shape) != len(like.shape) or any(own != other for own, other in sizes) or wire.element != like.element:
        site.refuse("its operands do not fit each other", "equal shapes and types but for the joined axis")
    return wire


@row("Slice", "a part of some axes", inputs=(1, 5), attributes="starts ends axes", elements=ANY)
def _slice(site: Site) -> Wire:
    x = site.wire(0)
    given = [site.known(place, word) for place, word in enumerate(("starts", "ends", "axes", "steps"), 1)]
    bounds = given if any(each is not None for each in given) else []
    x = movable(site, x)
    for axis, low, high, step in slices(site, x.rank, bounds):
        full = range(full_shape(site, x)[axis])[low : (None if high < -(1 << 62) else high) : step]
        if axis == 0 and x.is_batched:
            if len(full) != site.batch or step < 0:
                site.refuse("it cuts the batch axis", "parts of one sample")
            continue
        x = _cut(site, x, axis - x.is_batched, full)
    return x


def _cut(site: Site, x: Wire, axis: int, picked: range) -> Wire:
    """Return the places of an axis that a range names."""
    if not picked:
        site.refuse("it leaves nothing of an axis", "parts of at least one place")
    if picked == range(x.shape[axis]):
        return x
    place, assembly = 1 + x.order.index(axis), site.emitter.assembly
    low, high = min(picked), max(picked) + 1
    node = assembly.op("slice", x.node, axis=place, low=low, high=high, stride=abs(picked.step))
    if picked.step < 0 and len(picked) > 1:
        node = assembly.op("reverse", node, axis=place)
    shape = tuple(len(picked) if k == axis else own for k, own in enumerate(x.shape))
    return site.emitter.fresh(x, node, shape, x.order)


@row("Split", "parts along an axis", inputs=(1, 2), attributes="axis split num_outputs", outputs=1024, elements=ANY)
def _split(site: Site) -> list[Wire]:
    x = movable(site, site.wire(0))
    axis = site.axis(x, site.whole("axis"))
    listed = site.sizes(1, "sizes")
    sizes = site.wholes("split") if listed is None else listed
    count = len(site.node.outputs)
    if sizes is None:
        each = -(-x.shape[axis] // count)
        sizes = tuple(min(each, x.shape[axis] - k * each) for k in range(count))
    if len(sizes) != count or sum(sizes) != x.shape[axis] or min(sizes) < 1:
        site.refuse(f"its sizes {list(sizes)} do not fit {x.shape[axis]}", "sizes from 1 that cover the axis")
    starts = [sum(sizes[:k]) for k in range(count)]
    return [_cut(site, x, axis, range(low, low + size)) for low, size in zip(starts, sizes, strict=True)]


@row("Gather", "places of one axis, by constant indices", inputs=(2, 2), attributes="axis", elements=ANY)
def _gather(site: Site) -> Wire:
    x = site.given(0)
    if isinstance(x, Known):
        return _look_up(site, x)
    x = movable(site, site.wire(0))
    axis = site.axis(x, site.whole("axis"))
    index = site.constant(1, "index")
    size = x.shape[axis]
    if (
        index.size < 1
        or index.dtype.kind not in "iu"
        or not (-size <= int(index.min()) and int(index.max()) < size)
        or index.size > 1 << 24
    ):
        site.refuse("its indices are out of range", f"indices below {size}")
    flat = [int(place) % size for place in index.reshape(-1)]
    emitter = site.emitter
    rest = tuple(k for k in range(len(x.shape)) if k != axis)
    front = emitter.assembly.op("permute", emitter.arranged(x).node, axes=(1 + axis, 0, *(1 + k for k in rest)))
    taken = emitter.assembly.op("take", front, emitter.constant(np.array(flat), "u32"))
    back = emitter.assembly.op("permute", taken, axes=(1, *range(2, 2 + axis), 0, *range(2 + axis, 2 + len(rest))))
    whole = emitter.fresh(x, back, (*x.shape[:axis], len(flat), *x.shape[axis + 1 :]))
    return emitter.reshaped(whole, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))


def _look_up(site: Site, table: Known) -> Wire:
    """Return rows of a constant table at computed places (an embedding)."""
    index, axis = site.wire(1), site.whole("axis")
    array = site.data(0, "table")
    if axis % max(1, array.ndim) or index.element not in ("i32", "i64") or array.dtype != np.float32:
        site.refuse("it looks up along another axis than the first", "rows of a f32 table by whole numbers")
    emitter = site.emitter
    lowest = emitter.with_constant("max", index, 0)
    place = emitter.assembly.op("wrap", emitter.arranged(lowest).node, to="u32")
    taken = emitter.assembly.op("take", emitter.constant(array, "f32"), place)
    shape = (*index.shape, *array.shape[1:])
    return Wire(taken, shape, tuple(range(len(shape))))


@row("Expand", "a tensor repeated by broadcasting", inputs=(2, 2), elements=ANY)
def _expand(site: Site) -> Wire:
    x = movable(site, site.wire(0))
    wanted = site.sizes(1, "shape")
    if wanted is None or min((1, *wanted)) < 1:
        site.refuse(f"its shape is {wanted}", "a constant shape of sizes from 1")
    if x.is_batched and len(wanted) > x.rank:
        site.refuse("it puts axes in front of the batch", "a shape with as many axes as the tensor")
    if x.is_batched:
        wanted = (1,) * (x.rank - len(wanted)) + wanted
        if wanted[0] not in (1, site.batch):
            site.refuse("it repeats samples", "a shape with the batch in front")
        wanted = wanted[1:]
    pairs = zip(x.shape[::-1], wanted[::-1], strict=False)
    if len(wanted) < len(x.shape) or any(own != size and 1 not in (own, size) for own, size in pairs):
        site.refuse(f"its shape {list(wanted)} does not fit {list(x.shape)}", "shapes that fit by broadcasting")
    return site.emitter.expanded(x, np.broadcast_shapes(x.shape, wanted))


@row("Constant", "numbers in the file", inputs=(0, 0), attributes="value value_float value_floats value_int value_ints")
@row("ConstantOfShape", "one number repeated", attributes="value")
@row("Range", "numbers in steps", inputs=(3, 3))
@row("Size", "the number of values of a constant")
def _constants_only(site: Site) -> Wire:
    site.refuse("its operands are computed", "constants only")


@row("Pad", "more of some axes", inputs=(1, 4), attributes="mode pads value", elements=ANY)
def _pad(site: Site) -> Wire:
    x = site.wire(0)
    if site.text("mode", "constant") != "constant":
        site.refuse(f"its mode is `{site.text('mode', '')}`", "constant")
    listed, named, filled = site.sizes(1, "pads"), site.sizes(3, "axes"), site.known(2, "value")
    pads = site.wholes("pads") if listed is None else listed
    axes = list(range(x.rank)) if named is None else [axis % x.rank for axis in named]
    if pads is None or len(pads) != 2 * len(axes) or (filled is not None and filled.size != 1):
        site.refuse("its pads or value do not fit its axes", "two sizes for each axis, and one value")
    value = site.number("value", 0.0) if filled is None else float(filled.reshape(()))
    half = len(axes)
    for k, axis in enumerate(axes):
        before, after = pads[k], pads[half + k]
        if not before and not after:
            continue
        if axis == 0 and x.is_batched:
            site.refuse("it adds samples", "pads of 0 for the batch")
        place = axis - x.is_batched
        x = padded(site, x, place, max(before, 0), max(after, 0), value)
        if min(before, after) < 0:
            x = _cut(site, x, place, range(max(0, -before), x.shape[place] - max(0, -after)))
    return x


def padded(site: Site, x: Wire, axis: int, before: int, after: int, value: float) -> Wire:
    """Return a wire with more of an axis; codes stay codes where the value is one of them."""
    emitter = site.emitter
    code = value if x.coding is None else code_for(x, value)
    if code is None:
        x, code = emitter.values(x), value
    if before + after > 1 << 20:
        site.refuse(f"it pads by {before} and {after}", "pads below a million")
    element = element_of(x.node).name
    place = 1 + x.order.index(axis)
    filling = emitter.constant(code, element)
    node = emitter.assembly.op("pad", x.node, filling, axis=place, before=before, after=after)
    shape = tuple(own + before + after if k == axis else own for k, own in enumerate(x.shape))
    return emitter.fresh(x, node, shape, x.order)


def code_for(x: Wire, value: float) -> float | None:
    """Return the code that stands for a number everywhere in a wire of codes, or None if there is none."""
    coding = x.coding
    assert coding is not None, x
    element = element_of(x.node).name
    zero = whole(coding.zero)
    if zero is None or (value != 0 and coding.scale.ndim):
        return None
    code = zero if value == 0 else round(value / float(coding.scale)) + zero
    stands = value == 0 or np.float32(code - zero) * coding.scale == np.float32(value)
    return code if stands and is_in(code, element) else None


@row("DepthToSpace", "blocks of channels as blocks of places", attributes="blocksize mode", elements=ANY)
def _depth_to_space(site: Site) -> Wire:
    x = movable(site, site.wire(0))
    size, mode = site.whole("blocksize"), site.text("mode", "DCR")
    if len(x.shape) != 3 or size < 1 or x.shape[0] % (size * size) or mode not in ("DCR", "CRD"):
        site.refuse("its block does not fit its channels", "[b, c, h, w] with c a multiple of the block's places")
    c, h, w = x.shape
    last = site.emitter.arranged(x, (1, 2, 0))
    depth = c // (size * size)
    parts = (h, w, size, size, depth) if mode == "DCR" else (h, w, depth, size, size)
    axes = (0, 2, 1, 3, 4) if mode == "DCR" else (0, 3, 1, 4, 2)
    assembly, batch = site.emitter.assembly, sizes_of(last.node)[0]
    split = assembly.op("reshape", last.node, shape=(batch, *parts))
    moved = assembly.op("permute", split, axes=(0, *(1 + axis for axis in axes)))
    node = assembly.op("reshape", moved, shape=(batch, h * size, w * size, depth))
    return site.emitter.fresh(x, node, (depth, h * size, w * size), (1, 2, 0))


@row("SpaceToDepth", "blocks of places as blocks of channels", attributes="blocksize", elements=ANY)
def _space_to_depth(site: Site) -> Wire:
    x = movable(site, site.wire(0))
    size = site.whole("blocksize")
    if len(x.shape) != 3 or size < 1 or x.shape[1] % size or x.shape[2] % size:
        site.refuse("its block does not fit its places", "[b, c, h, w] with h and w multiples of the block")
    c, h, w = x.shape
    last = site.emitter.arranged(x, (1, 2, 0))
    assembly, batch = site.emitter.assembly, sizes_of(last.node)[0]
    split = assembly.op("reshape", last.node, shape=(batch, h // size, size, w // size, size, c))
    moved = assembly.op("permute", split, axes=(0, 1, 3, 2, 4, 5))
    node = assembly.op("reshape", moved, shape=(batch, h // size, w // size, size * size * c))
    return site.emitter.fresh(x, node, (c * size * size, h // size, w // size), (1, 2, 0))
