"""Reductions along axes of a sample, softmax, and the place of the greatest.

Float sums use the 16 partials of the numerics. Sums of codes are exact integers. The places of equal values come lowest
first, as ONNX says with `select_last_index` 0.
"""

from dataclasses import replace

import numpy as np

from bittern.front.network.assembly import element_of
from bittern.front.onnx.codes import codes_of
from bittern.front.onnx.emitter import sizes_of
from bittern.front.onnx.shaping import given_axes, movable
from bittern.front.onnx.table import NUMBERS, Site, row
from bittern.front.onnx.values import Wire, coding_of

_AXES = "axes keepdims noop_with_empty_axes"
_REDUCTIONS = {
    "ReduceSum": "sum",
    "ReduceMean": "sum",
    "ReduceL1": "sum",
    "ReduceL2": "sum",
    "ReduceSumSquare": "sum",
    "ReduceProd": "product",
    "ReduceMax": "max_of",
    "ReduceMin": "min_of",
}


@row(
    "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare",
    "a reduction of some axes",
    inputs=(1, 2),
    attributes=_AXES,
    elements="f32 i32 i64",
)
def _reduce(site: Site) -> Wire:
    x, listed = site.wire(0), given_axes(site)
    if not listed and site.whole("noop_with_empty_axes") == 1:
        return x
    axes = listed or tuple(range(x.is_batched, x.rank))
    if not listed and x.is_batched:
        site.refuse("it reduces the batch axis too", "axes behind the first one")
    places = sorted({site.axis(x, axis) for axis in axes})
    kind = _REDUCTIONS[site.node.op]
    made = reduced(site, _measured(site, x), places, kind)
    if site.node.op == "ReduceL2":
        made = site.emitter.unary("sqrt", made)
    if site.node.op == "ReduceMean":
        if made.element != "f32":
            site.refuse(f"it averages {made.element}", "f32")
        count = int(np.prod([x.shape[place] for place in places], dtype=np.int64))
        made = site.emitter.with_constant("div", site.emitter.values(made), float(count))
    return _shaped(site, x, made, places, site.whole("keepdims", 1) == 1)


def _measured(site: Site, x: Wire) -> Wire:
    """Return what a reduction sums up: the numbers, their magnitudes, or their squares."""
    emitter = site.emitter
    if site.node.op == "ReduceL1":
        return emitter.unary("abs", emitter.values(x))
    if site.node.op in ("ReduceL2", "ReduceSumSquare"):
        values = emitter.values(x)
        return emitter.binary("mul", values, values)
    return x


def reduced(site: Site, x: Wire, places: list[int], kind: str) -> Wire:
    """Return x reduced along axes of a sample, which are gone."""
    emitter, assembly = site.emitter, site.emitter.assembly
    codes = codes_of(x)
    kept = [axis for axis in range(len(x.shape)) if axis not in places]
    shape = tuple(x.shape[axis] for axis in kept)
    order = (*kept, *places)
    if codes is not None and kind == "sum":
        given = emitter.arranged(emitter.widened(emitter.codes(x)), order)
    elif codes is not None and codes[0].scale > 0 and element_of(x.node).is_integer:
        given = emitter.arranged(emitter.codes(x), order)
    else:
        codes, given = None, emitter.arranged(emitter.values(x), order)
    span = int(np.prod([x.shape[place] for place in places], dtype=np.int64))
    flat = assembly.op("reshape", given.node, shape=(sizes_of(given.node)[0], *shape, span))
    made = Wire(assembly.op(kind, flat), shape, tuple(range(len(shape))), given.element, None, x.is_batched)
    if codes is None:
        return made
    coding, zero = codes
    return emitter.coded(made, coding_of(coding.scale, zero * (span if kind == "sum" else 1)))


def _shaped(site: Site, x: Wire, made: Wire, places: list[int], keeps: bool) -> Wire:
    if not keeps:
        return made
    return site.emitter.reshaped(made, [1 if axis in places else size for axis, size in enumerate(x.shape)])


@row(
    "ArgMax ArgMin",
    "the place of the greatest or least",
    attributes="axis keepdims select_last_index",
    elements=NUMBERS,
)
def _place(site: Site) -> Wire:
    x = site.wire(0)
    place = site.axis(x, site.whole("axis"))
    if site.whole("select_last_index"):
        site.refuse("it takes the last of equal values", "select_last_index = 0")
    made = reduced(site, _ordered(site, x), [place], site.node.op.lower())
    index = site.emitter.converted(replace(made, coding=None), "i64")
    return _shaped(site, x, index, [place], site.whole("keepdims", 1) == 1)


def _ordered(site: Site, x: Wire) -> Wire:
    """Return what has the order of the numbers: the codes, if one positive scale makes numbers of them."""
    emitter = site.emitter
    plain = x.coding is not None and x.coding.is_plain() and x.coding.scale > 0
    row = element_of(x.node)
    if not plain:
        return emitter.values(x)
    return emitter.codes(x) if row.is_integer else emitter.widened(emitter.codes(x), "i8")


@row(
    "TopK", "the greatest values and their places, in order", inputs=(2, 2), attributes="axis largest sorted", outputs=2
)
def _top(site: Site) -> list[Wire]:
    x, emitter = site.wire(0), site.emitter
    count = site.sizes(1, "number of values")
    place = site.axis(x, site.whole("axis", -1))
    if count is None or len(count) != 1 or not 1 <= count[0] <= x.shape[place] or site.whole("largest", 1) != 1:
        site.refuse("it takes the least values, none or more than there are", "the k greatest values, 1 <= k <= n")
    k = count[0]
    order = (*(axis for axis in range(len(x.shape)) if axis != place), place)
    values = emitter.arranged(emitter.values(x), order)
    if values.element != "f32":
        site.refuse(f"it orders {values.element}", "f32")
    shape = tuple(k if axis == place else size for axis, size in enumerate(x.shape))
    if k == 1:
        one = [*values.stored[:-1], 1]
        batch = sizes_of(values.node)[0]
        nodes = [emitter.assembly.op(kind, values.node) for kind in ("max_of", "argmax")]
        nodes = [emitter.assembly.op("reshape", node, shape=(batch, *one)) for node in nodes]
    else:
        ordered = emitter.assembly.call("sort.sort_descending", values.node, lead=len(order))
        nodes = [
            emitter.assembly.op("slice", node, axis=len(order), low=0, high=k, stride=1)
            for node in emitter.assembly.items(ordered)
        ]
    best = Wire(nodes[0], shape, order)
    index = emitter.converted(Wire(nodes[1], shape, order, "u32"), "i64")
    return [best, index]


@row("Softmax LogSoftmax", "exp(x) divided by its sum along an axis", attributes="axis")
def _softmax(site: Site) -> Wire:
    x, emitter = site.wire(0), site.emitter
    place = site.axis(x, site.whole("axis", -1 if site.version >= 13 else 1))
    if site.version < 13 and place != len(x.shape) - 1:  # then it is along all axes from this one on
        flat = emitter.reshaped(movable(site, x), (*x.shape[:place], int(np.prod(x.shape[place:], dtype=np.int64))))
        return emitter.reshaped(_soft(site, flat, place), x.shape)
    return _soft(site, x, place)


def _soft(site: Site, x: Wire, place: int) -> Wire:
    emitter = site.emitter
    order = (*(axis for axis in range(len(x.shape)) if axis != place), place)
    values = emitter.arranged(emitter.values(x), order)
    made = replace(values, node=emitter.assembly.call("softmax.softmax", values.node, lead=len(order)))
    return emitter.applied("elementary.log", made) if site.node.op == "LogSoftmax" else made
