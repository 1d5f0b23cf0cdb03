"""Matrix products of the strict chip: weights unpacked once into f32, exact dots by BLAS, folds in the fixed order.

A block format's product is, for each row and token, a fold over groups of `f32(dot) * (scale * d)`, plus `low * ds`
where the format has an offset (NUMERICS, 3). The dot of a group is an integer below 2^24, so any order and any BLAS
gives it exactly in f32; everything after it is one numpy operation for each rounding.

Layout. Rows are cut into tiles of at most 256; codes are [tiles, groups, values of a group, width], so that a decode
step streams them once and results of a tile lie side by side. Prepared weights belong to the memory they were made
from: a decode step and a prefill chunk share them, and they go when the last program goes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from weakref import WeakValueDictionary

import numpy as np

from bittern.chips.vm.ordered import PIECE, add_onto, add_rows, scratch
from bittern.chips.vm.workers import share
from bittern.graph.evaluate import World, prepare
from bittern.graph.node import Function
from bittern.graph.program import CallSite, Kernel
from bittern.ops.convert import widened
from bittern.ops.table import Array
from bittern.types.values import Tensor

_WIDTH = 256  # rows of a tile, at most
_SINGLE = 8192  # results of one matrix product, at most: BLAS computes it in the calling thread
_SLICE = 1 << 22  # weights unpacked at a time


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Blocks:
    """A block format's weights, unpacked. m: rows; the last tile is filled up with zeros.

    source: the stored bytes, kept so that their address stays theirs. code: [tiles, groups, group, width] f32 integers.
    scale, low: [tiles, groups, 1, width] f32; low is None where the format has no offset.
    """

    m: int
    source: Array
    code: Array
    scale: Array
    low: Array | None


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Columns:
    """Float weights. m: rows. source: the stored values. value: [tiles, n, width] f32."""

    m: int
    source: Array
    value: Array


def block_product(unpack: Function, group: int) -> Kernel:
    """Return the kernel of `matvec_<format>`. unpack: that format's function. group: values that share a scale."""
    prepared: WeakValueDictionary[object, Blocks] = WeakValueDictionary()
    world = World()

    def kernel(site: CallSite) -> Callable[..., Array] | None:
        stored = site.constants[0]
        if site.ideal or stored is None or 0 in site.dims:
            return None
        source = stored.reshape(stored.shape[site.lead :])
        weights = prepared.get(_place(source))
        if weights is None:
            weights = prepared[_place(source)] = _unpacked(world, unpack, source, site.dims[1], group)
        if weights.low is None:
            return lambda w, q, d, ds: _block_product(weights, site.lead, q, d, None)
        return lambda w, q, d, ds: _block_product(weights, site.lead, q, d, ds)

    return kernel


def float_product() -> Kernel:
    """Return the kernel of `matvec_f32`, `matvec_f16` or `matvec_bf16`."""
    prepared: WeakValueDictionary[object, Columns] = WeakValueDictionary()

    def kernel(site: CallSite) -> Callable[..., Array] | None:
        stored, type_ = site.constants[0], site.function.params[0].type
        assert isinstance(type_, Tensor), type_
        if site.ideal or stored is None or 0 in site.dims:
            return None
        source = stored.reshape(stored.shape[site.lead :])
        weights = prepared.get(_place(source))
        if weights is None:
            tiles, width = _tiling(len(source))
            value = np.zeros((tiles, site.dims[1], width), np.float32)
            for tile in range(tiles):
                part = widened(type_.element, source[tile * width : (tile + 1) * width])
                value[tile, :, : len(part)] = part.T
            weights = prepared[_place(source)] = Columns(len(source), source, value)
        return lambda w, x: _float_product(weights, site.lead, x)

    return kernel


def _place(source: Array) -> object:
    return source.__array_interface__["data"][0], source.shape, source.strides, source.dtype.str


def _tiling(m: int) -> tuple[int, int]:
    """Return the number of tiles and their width, a multiple of 16."""
    tiles = -(-m // _WIDTH)
    width = -(-m // (tiles * 16)) * 16
    return -(-m // width), width


def _unpacked(world: World, unpack: Function, source: Array, n: int, group: int) -> Blocks:
    """Unpack some tiles at a time by the format's own definition. source: [m, blocks, bytes] u8."""
    tiles, width = _tiling(len(source))
    code: Array | None = None
    sides: list[Array] = []
    step = max(1, _SLICE // (n * width))
    for first in range(0, tiles, step):
        rows = source[first * width : (first + step) * width]
        parts = prepare(unpack, (len(rows), n), world=world)(rows)
        if code is None:
            code = np.zeros((tiles, n // group, group, width), np.float32)
            sides = [np.zeros((tiles, n // group, 1, width), np.float32) for _ in parts[1:]]
        for tile in range(first, min(first + step, tiles)):
            here = slice((tile - first) * width, (tile - first + 1) * width)
            count = len(parts[0][here])
            code[tile, :, :, :count] = parts[0][here].transpose(1, 2, 0)
            for side, part in zip(sides, parts[1:], strict=True):
                side[tile, :, 0, :count] = part[here].T
    assert code is not None, source.shape
    return Blocks(len(source), source, code, sides[0], sides[1] if len(sides) > 1 else None)


def _block_product(weights: Blocks, lead: int, q: Array, d: Array, ds: Array | None) -> Array:
    """q: [batch..., n / 32, 32] i8, d, ds: [batch..., n / 32] f32 -> [batch..., m] f32."""
    tiles, groups, group, width = weights.code.shape
    batch = q.shape[:lead]
    if batch != d.shape[:lead] or (ds is not None and batch != ds.shape[:lead]):
        batch = np.broadcast_shapes(*(part.shape[:lead] for part in (q, d, ds) if part is not None))
        q, d = _over(q, batch), _over(d, batch)
        ds = None if ds is None else _over(ds, batch)
    t = prod(batch)
    x = q.reshape(t, groups, group).transpose(1, 0, 2).astype(np.float32, order="C")
    dx = _by_group(d, t, groups)
    if ds is not None and ds.shape[-1] != groups:  # offsets of half a block meet the sum of that half
        dsx = dx * x.sum(-1, keepdims=True)
    else:
        dsx = None if ds is None else _by_group(ds, t, groups)
    y = np.empty((t, tiles, width), np.float32)

    def piece(at: slice, here: slice) -> None:
        sums = None if dsx is None else dsx[:, at]
        _fold(weights, here, x[:, at], dx[:, at], sums, y[at, here].swapaxes(0, 1))

    tokens = max(1, min(t, PIECE // (groups * width), _SINGLE // width))
    share(piece, _pieces(t, tokens, tiles, PIECE // (groups * width * tokens)), t * weights.code.size)
    return _joined(y, batch, weights.m)


def _fold(weights: Blocks, here: slice, x: Array, d: Array, ds: Array | None, out: Array) -> None:
    """Compute some tiles for some tokens. x: [groups, t, group], d, ds: [groups, t, 1] -> out: [tiles, t, width]."""
    code = weights.code[here]
    shape = (len(code), x.shape[0], x.shape[1], code.shape[3])
    term, factor = scratch.take("term", *shape), scratch.take("factor", *shape)
    np.matmul(x, code, out=term)
    np.multiply(weights.scale[here], d, out=factor)
    np.multiply(term, factor, out=term)
    if ds is not None and weights.low is not None:
        np.multiply(weights.low[here], ds, out=factor)
        np.add(term, factor, out=term)
    add_rows(term, out, axis=1)


def _float_product(weights: Columns, lead: int, x: Array) -> Array:
    """x: [batch..., n] f32 -> [batch..., m] f32."""
    tiles, n, width = weights.value.shape
    batch = x.shape[:lead]
    t = prod(batch)
    columns = np.ascontiguousarray(x.reshape(t, n).T)[:, :, None]
    y = np.zeros((t, tiles, width), np.float32)
    tokens = max(1, min(t, PIECE // (16 * width)))
    step = max(1, min(n, PIECE // (tokens * width)))

    def piece(at: slice, here: slice) -> None:
        total = y[at, here.start]
        for low in range(0, n, step):
            part = weights.value[here.start, low : low + step, None, :]
            term = scratch.take("term", len(part) + 1, len(total), width)
            term[0] = total
            np.multiply(part, columns[low : low + step, at], out=term[1:])
            add_onto(term, total)

    share(piece, _pieces(t, tokens, tiles, 1), t * weights.value.size)
    return _joined(y, batch, weights.m)


def _pieces(t: int, tokens: int, tiles: int, several: int) -> list[tuple[slice, slice]]:
    """Cut t tokens and all tiles into pieces of at most so many."""
    several = max(1, several)
    rows = [slice(first, min(first + several, tiles)) for first in range(0, tiles, several)]
    return [(slice(start, min(start + tokens, t)), here) for start in range(0, t, tokens) for here in rows]


def _over(x: Array, batch: tuple[int, ...]) -> Array:
    return np.broadcast_to(x, (*batch, *x.shape[len(batch) :]))


def _by_group(scale: Array, t: int, groups: int) -> Array:
    """scale: [batch..., blocks] -> [groups, t, 1]; groups of 16 share the scale of one block."""
    blocks = scale.shape[-1]
    by_block = scale.reshape(t, blocks, 1).transpose(1, 0, 2)
    return np.ascontiguousarray(by_block if blocks == groups else by_block.repeat(groups // blocks, axis=0))


def _joined(y: Array, batch: tuple[int, ...], m: int) -> Array:
    """y: [t, tiles, width] -> [batch..., m]."""
    t, tiles, width = y.shape
    rows = y.reshape(t, tiles * width)
    return (rows if tiles * width == m else np.ascontiguousarray(rows[:, :m])).reshape(*batch, m)
