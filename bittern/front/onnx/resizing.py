"""Resizing to the nearest place: repeated places, or places that are taken by constant indices."""

import numpy as np

from bittern.front.onnx.emitter import sizes_of
from bittern.front.onnx.shaping import full_shape, movable
from bittern.front.onnx.table import ANY, Site, row
from bittern.front.onnx.values import Array, Wire


@row(
    "Resize Upsample",
    "the nearest place, at constant scales",
    inputs=(1, 4),
    attributes="mode nearest_mode coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value "
    "scales axes antialias keep_aspect_ratio_policy",
    elements=ANY,
)
def _resize(site: Site) -> Wire:
    x = movable(site, site.wire(0))
    if site.text("mode", "nearest") != "nearest" or site.wholes("axes") is not None:
        site.refuse(f"its mode is `{site.text('mode', '')}`", "nearest, for all axes")
    scales, sizes = _resize_sizes(site, x)
    for axis, size in enumerate(sizes):
        x = _nearest(site, x, axis, size, scales[axis])
    return x


_LARGEST = 1 << 16


def _resize_sizes(site: Site, x: Wire) -> tuple[list[float], list[int]]:
    """Return scales and sizes of a sample's axes."""
    place = 1 if site.node.op == "Upsample" or site.version < 11 else 2
    given, sizes = site.known(place, "scales"), site.sizes(3, "sizes")
    if sizes:
        full = list(sizes)
        factors = [size / own for size, own in zip(full, full_shape(site, x), strict=False)]
    else:
        scales = np.asarray(site.numbers("scales") if given is None else given)
        if scales.dtype != np.float32 or scales.ndim != 1 or not ((scales > 0) & (scales < _LARGEST)).all():
            site.refuse("its scales are no f32 numbers above 0", "one constant scale for each axis")
        factors = [float(scale) for scale in scales]
        full = [int(np.floor(own * scale)) for own, scale in zip(full_shape(site, x), factors, strict=False)]
    if len(factors) != x.rank or len(full) != x.rank or not x.is_batched or full[0] != site.batch or min(full) < 1:
        site.refuse("its scales do not fit its axes or change the batch", "one scale for each axis, 1 for the batch")
    return factors[1:], full[1:]


def _nearest(site: Site, x: Wire, axis: int, size: int, scale: float) -> Wire:
    """Return an axis resized to the nearest places."""
    own = x.shape[axis]
    if size == own and scale == 1:
        return x
    if size > _LARGEST:
        site.refuse(f"it makes an axis of {size}", "sizes below 65536")
    index = np.clip(_rounded_places(site, _places(site, size, own, scale)), 0, own - 1).astype(np.int64)
    emitter, assembly = site.emitter, site.emitter.assembly
    factor = size // own
    if size == own * factor and (index == np.arange(size) // factor).all():
        return _repeated(site, x, axis, factor)
    order = x.order
    place = 1 + order.index(axis)
    axes = (place, *(k for k in range(1 + len(order)) if k != place))
    taken = assembly.op("take", assembly.op("permute", x.node, axes=axes), site.emitter.constant(index, "u32"))
    back = tuple(axes.index(k) for k in range(1 + len(order)))
    shape = tuple(size if k == axis else one for k, one in enumerate(x.shape))
    return emitter.fresh(x, assembly.op("permute", taken, axes=back), shape, order)


def _repeated(site: Site, x: Wire, axis: int, factor: int) -> Wire:
    """Return each place of an axis several times in a row."""
    assembly = site.emitter.assembly
    place = 1 + x.order.index(axis)
    sizes = list(sizes_of(x.node))
    spread = assembly.op("broadcast", x.node, shape=(factor,))
    axes = (*range(1, place + 2), 0, *range(place + 2, len(sizes) + 1))
    moved = assembly.op("permute", spread, axes=axes)
    sizes[place] = sizes[place] * factor
    node = assembly.op("reshape", moved, shape=sizes)
    shape = tuple(size * factor if k == axis else size for k, size in enumerate(x.shape))
    return site.emitter.fresh(x, node, shape, x.order)


def _places(site: Site, size: int, own: int, scale: float) -> Array:
    """Return where each new place lies in the old axis, before rounding; in f32, as ONNX Runtime computes it."""
    one, half = np.float32(1), np.float32(0.5)
    at, step = np.arange(size, dtype=np.float32), np.float32(scale)
    how = site.text("coordinate_transformation_mode", "half_pixel" if site.version >= 11 else "asymmetric")
    centred = (at + half) / step - half
    made = {
        "asymmetric": at / step,
        "half_pixel": centred,
        "pytorch_half_pixel": centred if size > 1 else at * 0,
        "align_corners": at * np.float32(own - 1) / max(np.float32(size - 1), one),
    }
    if how not in made:
        site.refuse(f"its coordinates are `{how}`", f"one of {', '.join(made)}")
    return made[how]


def _rounded_places(site: Site, at: Array) -> Array:
    how = site.text("nearest_mode", "round_prefer_floor" if site.version >= 11 else "floor")
    made = {
        "floor": np.floor(at),
        "ceil": np.ceil(at),
        "round_prefer_floor": np.ceil(at - np.float32(0.5)),
        "round_prefer_ceil": np.floor(at + np.float32(0.5)),
    }
    if how not in made:
        site.refuse(f"its `nearest_mode` is `{how}`", f"one of {', '.join(made)}")
    return made[how]
