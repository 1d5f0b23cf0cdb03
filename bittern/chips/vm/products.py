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
from weakref import WeakValueDictionary

import numpy as np

from bittern.chips.vm.ordered import PIECE, add_onto, add_rows, batch_of, scratch
from bittern.graph.evaluate import prepare
from bittern.graph.node import Function
from bittern.graph.program import CallSite, Kernel
from bittern.ops.convert import widened
from bittern.ops.table import Array

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
    """Return the kernel of `matvec_<format>`. unpack: the format's `unpack_<format>`. group: values that share a scale."""
    prepared: WeakValueDictionary[object, Blocks] = WeakValueDictionary()

    def kernel(site: CallSite) -> Callable[..., Array] | None:
        stored = site.constants[0]
        m, n = site.dims
        if site.ideal or stored is None or m == 0 or n == 0:
            return None
        source = stored.reshape(stored.shape[site.lead :])
        weights = prepared.get(_place(source))
        if weights is None:
            weights = prepared[_place(source)] = _unpacked(unpack, source, m, n, group)
        lead = site.lead
        if weights.low is None:
            return lambda w, q, d, ds: _block_product(weights, lead, q, d, None)
        return lambda w, q, d, ds: _block_product(weights, lead, q, d, ds)

    return kernel


def float_product() -> Kernel:
    """Return the kernel of `matvec_f32`, `matvec_f16` or `matvec_bf16`."""
    prepared: WeakValueDictionary[object, Columns] = WeakValueDictionary()

    def kernel(site: CallSite) -> Callable[..., Array] | None:
        stored = site.constants[0]
        m, n = site.dims
        if site.ideal or stored is None or m == 0 or n == 0:
            return None
        source = stored.reshape(stored.shape[site.lead :])
        weights = prepared.get(_place(source))
        if weights is None:
            element = site.function.params[0].type.element  # type: ignore[union-attr]
            tiles, width = _tiling(m)
            value = np.zeros((tiles, n, width), np.float32)
            for tile in range(tiles):
                part = widened(element, source[tile * width : (tile + 1) * width])
                value[tile, :, : len(part)] = part.T
            weights = prepared[_place(source)] = Columns(m, source, value)
        lead = site.lead
        return lambda w, x: _float_product(weights, lead, x)

    return kernel


def _place(source: Array) -> object:
    return source.__array_interface__["data"][0], source.shape, source.strides, source.dtype.str


def _tiling(m: int) -> tuple[int, int]:
    """Return the number of tiles and their width, a multiple of 16."""
    tiles = -(-m // _WIDTH)
    width = -(-m // (tiles * 16)) * 16
    return -(-m // width), width


def _unpacked(unpack: Function, source: Array, m: int, n: int, group: int) -> Blocks:
    tiles, width = _tiling(m)
    groups = n // group
    code = np.zeros((tiles, groups, group, width), np.float32)
    sides = [np.zeros((tiles, groups, 1, width), np.float32) for _ in _leaves(unpack)[1:]]
    step = max(1, _SLICE // (n * width))
    for first in range(0, tiles, step):
        rows = source[first * width : (first + step) * width]
        parts = prepare(unpack, (len(rows), n))(rows)
        for tile in range(first, min(first + step, tiles)):
            low = (tile - first) * width
            piece = parts[0][low : low + width]
            code[tile, :, :, : len(piece)] = piece.transpose(1, 2, 0)
            for side, part in zip(sides, parts[1:], strict=True):
                side[tile, :, 0, : len(piece)] = part[low : low + width].T
    return Blocks(m, source, code, sides[0], sides[1] if len(sides) > 1 else None)


def _leaves(unpack: Function) -> tuple[object, ...]:
    return unpack.result.type.items  # type: ignore[union-attr]


def _block_product(weights: Blocks, lead: int, q: Array, d: Array, ds: Array | None) -> Array:
    """q: [batch..., n / 32, 32] i8, d, ds: [batch..., n / 32] f32 -> [batch..., m] f32."""
    tiles, groups, group, width = weights.code.shape
    batch = batch_of([q.shape, d.shape] if ds is None else [q.shape, d.shape, ds.shape], lead)
    t = _count(batch)
    codes = _tokens(q, batch).reshape(t, groups, group).transpose(1, 0, 2).astype(np.float32, order="C")
    scale = _by_group(d, batch, groups)
    sums = None if ds is None else _by_group(ds, batch, groups)
    y = np.empty((t, tiles, width), np.float32)
    tokens = max(1, min(t, PIECE // (groups * width), _SINGLE // width))
    several = max(1, PIECE // (groups * width * tokens))
    for start in range(0, t, tokens):
        at = slice(start, min(start + tokens, t))
        x, dx, dsx = codes[:, at], scale[:, at], None if sums is None else sums[:, at]
        for first in range(0, tiles, several):
            here = slice(first, min(first + several, tiles))
            _fold(weights, here, x, dx, dsx, y[at, here].swapaxes(0, 1))
    return _rows_of(y, batch, weights.m)


def _fold(weights: Blocks, here: slice, x: Array, d: Array, ds: Array | None, out: Array) -> None:
    """x: [groups, t, group], d, ds: [groups, t, 1] -> out: [tiles, t, width]."""
    shape = (here.stop - here.start, x.shape[0], x.shape[1], weights.code.shape[3])
    term, factor = scratch.take("term", *shape), scratch.take("factor", *shape)
    np.matmul(x, weights.code[here], out=term)
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
    t = _count(batch)
    columns = np.ascontiguousarray(x.reshape(t, n).T)[:, :, None]
    y = np.zeros((t, tiles, width), np.float32)
    tokens = max(1, min(t, PIECE // (16 * width)))
    step = max(1, min(n, PIECE // (tokens * width)))
    for start in range(0, t, tokens):
        at = slice(start, min(start + tokens, t))
        for tile in range(tiles):
            for low in range(0, n, step):
                part = weights.value[tile, low : low + step, None, :]
                term = scratch.take("term", len(part) + 1, at.stop - at.start, width)
                term[0] = y[at, tile]
                np.multiply(part, columns[low : low + step, at], out=term[1:])
                add_onto(term, y[at, tile])
    return _rows_of(y, batch, weights.m)


def _count(batch: tuple[int, ...]) -> int:
    return int(np.prod(batch, dtype=np.int64))


def _tokens(x: Array, batch: tuple[int, ...]) -> Array:
    return x if x.shape[: len(batch)] == batch else np.broadcast_to(x, (*batch, *x.shape[len(batch) :]))


def _by_group(scale: Array, batch: tuple[int, ...], groups: int) -> Array:
    """scale: [batch..., blocks] -> [groups, t, 1]; groups of 16 share the scale of one block."""
    blocks = scale.shape[-1]
    by_block = _tokens(scale, batch).reshape(-1, blocks).T
    return np.ascontiguousarray(by_block if blocks == groups else by_block.repeat(groups // blocks, axis=0))[:, :, None]


def _rows_of(y: Array, batch: tuple[int, ...], m: int) -> Array:
    """y: [t, tiles, width] -> [batch..., m]."""
    t, tiles, width = y.shape
    rows = y.reshape(t, tiles * width)
    return (rows if tiles * width == m else np.ascontiguousarray(rows[:, :m])).reshape(*batch, m)
