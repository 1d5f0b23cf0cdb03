"""Random weights and activations for the product kernels, and what the library definitions make of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import block_formats
import numpy as np
import numpy.typing as npt

from bittern.bitops.interpret import interpret
from bittern.bitops.kernel import Kernel
from bittern.graph.evaluate import World, prepare
from bittern.kernels.repack import repack, repack_two
from bittern.kernels.tiles import Tile
from bittern.lang.library import Library

Array = npt.NDArray[Any]
LIBRARY = Library.standard()
DEFINITIONS = World()  # no kernels
f32 = np.float32


@dataclass
class Case:
    """One matrix, t vectors, and their product. buffers: what the kernels multiply, packed weights not among them."""

    tile: Tile
    m: int
    n: int
    stored: Array
    buffers: dict[str, Array]
    product: Array


def make(tile: Tile, m: int, n: int, t: int, seed: int = 0, edges: bool = False) -> Case:
    """Make a case. seed: of the weights. edges: some scales and activations are zero, huge, infinite or NaN."""
    rng = np.random.default_rng([m, n, t])
    x = rng.standard_normal((t, n)).astype(f32)
    if edges:
        x[rng.random((t, n)) < 0.01] = rng.choice(np.array([np.inf, np.nan, 1e38, 0], f32))
        x[:, :32] = 0
    rng = np.random.default_rng([seed, m, n])
    if tile.family == "rows":
        return _rows(tile, rng, m, n, x)
    if tile.family == "binary":
        return _binary(tile, rng, m, n, t)
    if tile.family == "floats":
        return _floats(tile, rng, m, n, x)
    made = block_formats.FORMATS[tile.name]
    stored = block_formats.blocks(rng, tile.name, m, n // tile.columns)
    for which in range(len(made.halves)):
        scales = rng.standard_normal(stored.shape[:-1])
        if edges:
            scales[rng.random(scales.shape) < 0.05] = rng.choice([0.0, -0.0, 6e-8, np.inf, np.nan])
        block_formats.put_scale(tile.name, stored, scales, which)
    with np.errstate(all="ignore"):
        q, d, ds = prepare(LIBRARY.function("quantise.quantise"), (n,), world=DEFINITIONS, lead=1)(x)
        buffers = {"q": q.reshape(-1), "d": d.reshape(-1)}
        if tile.needs_sums:
            sums = q.reshape(t, n // tile.group, tile.group).astype(np.int32).sum(axis=-1)
            buffers[tile.sums] = sums.astype(np.int32).reshape(-1)
        if tile.needs_ds:
            buffers["ds"] = ds.reshape(-1)
        call = prepare(LIBRARY.function(f"products.matvec_{tile.name}"), (m, n), world=DEFINITIONS)
        product = np.stack([call(stored, q[i], d[i], ds[i]) for i in range(t)])
    return Case(tile, m, n, stored.reshape(-1), buffers, product)


def _floats(tile: Tile, rng: np.random.Generator, m: int, n: int, x: Array) -> Case:
    w = rng.standard_normal((m, n)).astype(f32)
    stored: Array = w.astype(np.float16) if tile.name == "f16" else w
    if tile.name == "bf16":
        stored = (w.view(np.uint32) >> 16).astype(np.uint16)
    call = prepare(LIBRARY.function(f"products.matvec_{tile.name}"), (m, n), world=DEFINITIONS)
    with np.errstate(all="ignore"):
        product = np.stack([call(stored, row) for row in x])
    return Case(tile, m, n, stored.reshape(-1).view(np.uint8), {"x": x.reshape(-1)}, product)


def _rows(tile: Tile, rng: np.random.Generator, m: int, n: int, x: Array) -> Case:
    low = -128 if tile.name == "int8" else -1
    codes = rng.choice([-1, 1], (m, n)) if tile.name == "signs" else rng.integers(low, -low, (m, n), endpoint=True)
    codes, scale = np.minimum(codes, 127).astype(np.int8), rng.standard_normal(m).astype(f32)
    with np.errstate(all="ignore"):
        q, d = prepare(LIBRARY.function("ternary.quantise_row"), (n,), world=DEFINITIONS, lead=1)(x)
        if tile.name in ("ternary", "trits"):
            call = prepare(LIBRARY.function("ternary.matvec_ternary"), (m, n), world=DEFINITIONS)
            product = np.stack([call(codes, scale, q[i], np.asarray(d[i])) for i in range(len(x))])
        else:  # the same formula, of other integers
            dots = q.astype(np.int32) @ codes.astype(np.int32).T
            product = dots.astype(f32) * (scale * d[:, None].astype(f32))
    sums = q.astype(np.int32).sum(axis=-1).astype(np.int32)
    buffers = {"scale": scale, "q": q.reshape(-1), "d": d.reshape(-1).astype(f32), "s": sums}
    return Case(tile, m, n, codes.reshape(-1).view(np.uint8), buffers, product)


def _binary(tile: Tile, rng: np.random.Generator, m: int, n: int, t: int) -> Case:
    words = tile.records(n)
    w, x = (rng.integers(0, 2**64, (rows, words), dtype=np.uint64) for rows in (m, t))
    length = np.asarray(n, np.uint32)
    call = prepare(LIBRARY.function("packed.binary_matvec"), (m, words), world=DEFINITIONS)
    product = np.stack([call(w, row, length) for row in x])
    return Case(tile, m, n, w.reshape(-1).view(np.uint8), {"x": x.reshape(-1)}, product)


def packed(case: Case, other: "Case | None" = None) -> Array:
    """Repack a matrix, or two of them together, by the interpreter."""
    tile, m, n = case.tile, case.m, case.n
    w = np.full(tile.packed_bytes(m, n, other is not None), 0xEE, np.uint8)
    if other is None:
        interpret(repack(tile, m, n), {"source": case.stored, "w": w})
    else:
        interpret(repack_two(tile, m, n), {"first": case.stored, "second": other.stored, "w": w})
    return w


def run(kernel: Kernel, buffers: Mapping[str, Array], size: int, dims: Sequence[int] = ()) -> Array:
    """Run a product kernel by the interpreter. size: of y. -> y, flat."""
    y = np.full(size, 7e7, kernel.buffer("y").element.storage)
    with np.errstate(all="ignore"):
        interpret(kernel, {**buffers, "y": y}, dims)
    return y


def differing(a: Array, b: Array) -> int:
    """Count the results whose bits differ; every NaN is one value."""
    a, b = a.reshape(-1), b.reshape(-1)
    assert a.dtype == b.dtype, (a.dtype, b.dtype)
    return int(((a.view(np.uint32) != b.view(np.uint32)) & ~(np.isnan(a) & np.isnan(b))).sum())
