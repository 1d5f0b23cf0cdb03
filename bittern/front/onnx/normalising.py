"""Normalisations whose statistics are those of the sample, by the library's functions; all in f32."""

import numpy as np

from bittern.front.onnx.emitter import sizes_of
from bittern.front.onnx.table import Site, row
from bittern.front.onnx.values import Array, Wire


@row(
    "LayerNormalization RMSNormalization",
    "the last axes as one row, normalised",
    inputs=(2, 3),
    attributes="axis epsilon stash_type",
)
def _layer(site: Site) -> Wire:
    x, emitter = site.wire(0), site.emitter
    first = site.axis(x, site.whole("axis", -1))
    span = int(np.prod(x.shape[first:], dtype=np.int64))
    parts = [_row(site, place, x.shape[first:], span) for place in range(1, len(site.inputs))]
    is_mean_kept = site.node.op == "RMSNormalization"
    if is_mean_kept and len(parts) > 1:
        site.refuse("it has a bias", "a gain alone")
    if not is_mean_kept and len(parts) == 1:
        parts.append(np.zeros(span, np.float32))
    flat = emitter.reshaped(emitter.values(x), (*x.shape[:first], span))
    flat = emitter.arranged(flat)
    given = [emitter.constant(part, "f32") for part in parts]
    name = "norms.rms_norm" if is_mean_kept else "norms.layer_norm"
    mapped = (True, *(False,) * (len(given) + 1))
    epsilon = emitter.constant(np.asarray(site.number("epsilon", 1e-5), np.float32), "f32")
    node = emitter.assembly.call(name, flat.node, *given, epsilon, lead=1 + first, mapped=mapped)
    return emitter.reshaped(emitter.fresh(flat, node, flat.shape), x.shape)


def _row(site: Site, place: int, shape: tuple[int, ...], span: int) -> Array:
    """Return a gain or bias as one row."""
    array = site.data(place, "gain or bias")
    fits = array.ndim <= len(shape) and all(
        own in (1, size) for own, size in zip(array.shape[::-1], shape[::-1], strict=False)
    )
    if not fits or array.dtype != np.float32:
        site.refuse(f"its gain or bias {list(array.shape)} does not fit", f"f32{list(shape)}")
    return np.broadcast_to(array, shape).reshape(span)


@row("InstanceNormalization", "each channel over all places", inputs=(3, 3), attributes="epsilon")
def _instance(site: Site) -> Wire:
    return _over_places(site, 0)


@row(
    "GroupNormalization",
    "groups of channels over all places",
    inputs=(3, 3),
    attributes="epsilon num_groups stash_type",
    since=21,
)
def _group(site: Site) -> Wire:
    return _over_places(site, site.whole("num_groups"))


def _over_places(site: Site, groups: int) -> Wire:
    """Return x [c, spatial] normalised. groups: of channels, or 0 for each channel alone."""
    x, emitter = site.wire(0), site.emitter
    gain, bias = (site.data(place, word) for place, word in ((1, "gain"), (2, "bias")))
    if len(x.shape) < 2 or not x.is_batched or groups < 0 or (groups and x.shape[0] % groups):
        site.refuse("its axes or groups do not fit", "[b, c, spatial] and groups that divide the channels")
    if not (gain.shape == bias.shape == x.shape[:1] and gain.dtype == bias.dtype == np.float32):
        site.refuse("its gain or bias does not fit the channels", "one f32 number for each channel")
    order = (*range(1, len(x.shape)), 0)
    given = emitter.arranged(emitter.values(x), order)
    places = int(np.prod(x.shape[1:], dtype=np.int64))
    inner = (groups, x.shape[0] // groups) if groups else (x.shape[0],)
    batch = sizes_of(given.node)[0]
    flat = emitter.assembly.op("reshape", given.node, shape=(batch, places, *inner))
    parts = [emitter.constant(each.reshape(inner), "f32") for each in (gain, bias)]
    epsilon = emitter.constant(np.asarray(site.number("epsilon", 1e-5), np.float32), "f32")
    name = "norms.group_norm" if groups else "norms.instance_norm"
    made = emitter.assembly.call(name, flat, *parts, epsilon, lead=1, mapped=(True, False, False, False))
    node = emitter.assembly.op("reshape", made, shape=sizes_of(given.node))
    return emitter.fresh(given, node, x.shape, order)
