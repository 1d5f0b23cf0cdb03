"""Example kernels, each with inputs and what numpy says of them; and targets to expand them for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.bitops.builder import Builder
from bittern.bitops.handle import Handle
from bittern.bitops.interpret import Counts, interpret
from bittern.bitops.kernel import Kernel
from bittern.bitops.target import BASE, Target

Array = npt.NDArray[Any]

_ALL_SCALAR = (
    "const dim add sub mul neg div rem abs min max sqrt round_even floor ceil trunc add_sat sub_sat mul_high eq ne lt "
    "le select and or xor not shl shr rotl rotr popcount clz ctz convert wrap sat round reinterpret bits load store "
    "load_packed for parallel while if barrier first mask_word word_mask"
)
_SSE_LIKE = (
    "const add sub neg min max sqrt eq ne lt le select and or xor not broadcast lane collect part join shuffle "
    "load store mask_word word_mask reinterpret convert.u8.u16 convert.i8.i16 convert.u16.u32 convert.i16.i32 "
    "convert.i32.f32 convert.f32.f64 mul.i16 mul.u16 mul.i32 mul.u32 mul.f32 mul.f64 div.f32 div.f64 dot2 lookup.u8 "
    "shl_uniform.u16 shl_uniform.u32 shl_uniform.i32 shl_uniform.i16 shr_uniform.u16 shr_uniform.i16 shr_uniform.u32 "
    "shr_uniform.i32 round.f32.i32 popcount.u8"
)
_AVX512_LIKE = (
    _SSE_LIKE
    + " first load_masked store_masked gather dot4 shl shr rotl rotr popcount lookup lookup2 convert wrap round "
    "round_even floor ceil trunc abs mul mul_high clz"
)
SSE = Target("sse-like", 128, frozenset(_ALL_SCALAR.split()), frozenset(_SSE_LIKE.split()))
AVX = Target("avx-like", 256, frozenset(_ALL_SCALAR.split()), frozenset(_SSE_LIKE.split()))
AVX512 = Target("avx512-like", 512, frozenset(_ALL_SCALAR.split()), frozenset(_AVX512_LIKE.split()))
# The scalars of the base set, and vectors of 128 bits that can only be reckoned with, chosen, loaded and stored.
_TINY = "const add sub mul and or shl shr select eq lt load store"
TINY = Target(
    "tiny",
    128,
    BASE.scalar | {"parallel", "barrier"},
    frozenset(_TINY.split()),
)
TARGETS = (BASE, TINY, SSE, AVX, AVX512)


@dataclass(frozen=True)
class Example:
    """A kernel with sizes, buffers (outputs hold junk) and what the outputs must be."""

    kernel: Kernel
    dims: tuple[int, ...]
    buffers: Mapping[str, Array]
    expected: Mapping[str, Array]

    def run(self, kernel: "Kernel | None" = None, backward: bool = False) -> "tuple[dict[str, Array], Counts]":
        """Interpret the kernel, or another one of equal meaning, and return buffers and counts."""
        buffers = {name: array.copy() for name, array in self.buffers.items()}
        counts = interpret(kernel or self.kernel, buffers, self.dims, backward=backward)
        return buffers, counts

    def check(self, kernel: "Kernel | None" = None, backward: bool = False) -> Counts:
        """Run, and compare the outputs bit for bit."""
        buffers, counts = self.run(kernel, backward)
        for name, wanted in self.expected.items():
            assert buffers[name].tobytes() == wanted.tobytes(), (name, buffers[name], wanted)
        return counts


def vector_add() -> Example:
    """Add two arrays of any length, the tail under a mask."""
    b = Builder("vector_add", ("n",))
    (n,) = b.dims
    x, y = b.buffer("x", "f32", n, "read"), b.buffer("y", "f32", n, "read")
    z = b.buffer("z", "f32", n, "write")
    whole = n // 16 * 16
    with b.loop(0, whole, 16) as loop:
        (i,) = loop
        z.store(i, x.load("f32x16", i) + y.load("f32x16", i))
    mask = b.first(n - whole, 16)
    z.store(whole, x.load("f32x16", whole, mask) + y.load("f32x16", whole, mask), mask)
    rng = np.random.default_rng(1)
    u, v = rng.standard_normal(75).astype(np.float32), rng.standard_normal(75).astype(np.float32)
    return Example(b.build(), (75,), {"x": u, "y": v, "z": np.full(75, np.nan, np.float32)}, {"z": u + v})


def partial_sum() -> Example:
    """Sum of squares with 16 partials and the fixed tree, any length."""
    b = Builder("partial_sum", ("n",))
    (n,) = b.dims
    x, y = b.buffer("x", "f32", n, "read"), b.buffer("y", "f32", 1, "write")
    whole = n // 16 * 16
    with b.loop(0, whole, 16, b.const("f32x16", 0.0)) as loop:
        i, partials = loop
        v = x.load("f32x16", i)
        loop.carry(partials + v * v)
    (partials,) = loop.results
    mask = b.first(n - whole, 16)
    v = x.load("f32x16", whole, mask)
    partials = b.select(mask, partials + v * v, partials)
    y.store(0, partials.fold("add"))
    u = np.random.default_rng(2).standard_normal(203).astype(np.float32)
    p = np.zeros(16, np.float32)
    for k, value in enumerate(u):
        p[k % 16] = p[k % 16] + value * value
    for half in (8, 4, 2, 1):
        p = p[:half] + p[half : 2 * half]
    return Example(b.build(), (203,), {"x": u, "y": np.zeros(1, np.float32)}, {"y": p})


def q8_0_matvec() -> Example:
    """Q8_0 in tiles of 16 rows x 32 columns: 16 f16 scales, then u8 codes + 128, a lane a row of 4 columns."""
    b = Builder("q8_0_matvec", ("tiles", "blocks"))
    tiles, blocks = b.dims
    tile = 32 + 512
    w = b.buffer("w", "u8", tiles * blocks * tile, "read")
    q, d = b.buffer("q", "i8", blocks * 32, "read"), b.buffer("d", "f32", blocks, "read")
    sums, y = b.buffer("sums", "i32", blocks, "read"), b.buffer("y", "f32", tiles * 16, "write")
    with b.parallel(0, tiles) as t:
        with b.loop(0, blocks, 1, b.const("f32x16", 0.0)) as loop:
            k, total = loop
            at = (t * blocks + k) * tile
            w.prefetch(at + 8 * tile)
            dot = (sums.load("i32", k) * -128).broadcast(16)
            for j in range(8):
                codes = w.load("u8x64", at, offset=32 + 64 * j)
                columns = q.load("i32", k * 32, offset=4 * j).broadcast(16).reinterpret("i8")
                dot = codes.dot(columns, dot)
            scale = w.load("f16x16", at).convert("f32") * d.load("f32", k).broadcast(16)
            loop.carry(total + dot.convert("f32") * scale)
        y.store(t * 16, loop.results[0])
    return _q8_0_inputs(b.build(), 3, 5)


def _q8_0_inputs(kernel: Kernel, tiles: int, blocks: int) -> Example:
    rng = np.random.default_rng(3)
    codes = rng.integers(-128, 128, (tiles * 16, blocks, 32), dtype=np.int8)
    scales = rng.standard_normal((tiles * 16, blocks)).astype(np.float16)
    q, d = rng.integers(-127, 128, (blocks, 32), dtype=np.int8), rng.standard_normal(blocks).astype(np.float32)
    packed = []
    for t in range(tiles):
        for k in range(blocks):
            rows = slice(16 * t, 16 * t + 16)
            packed.append(scales[rows, k].copy().view(np.uint8))
            shifted = (codes[rows, k].astype(np.int16) + 128).astype(np.uint8).reshape(16, 8, 4)
            packed.append(shifted.transpose(1, 0, 2).reshape(-1))
    y = np.zeros(tiles * 16, np.float32)
    for k in range(blocks):
        dot = codes[:, k].astype(np.int32) @ q[k].astype(np.int32)
        y = y + dot.astype(np.float32) * (scales[:, k].astype(np.float32) * d[k])
    sums = q.astype(np.int32).sum(axis=1).astype(np.int32)
    buffers = {"w": np.concatenate(packed), "q": q.reshape(-1), "d": d, "sums": sums, "y": np.zeros_like(y)}
    return Example(kernel, (tiles, blocks), buffers, {"y": y})


def popcount_dot() -> Example:
    """Products of binary rows: n - 2 popcount(a ^ b), a row after the other, any number of words."""
    b = Builder("popcount_dot", ("rows", "words"))
    rows, words = b.dims
    w, x = b.buffer("w", "u64", rows * words, "read"), b.buffer("x", "u64", words, "read")
    y = b.buffer("y", "i64", rows, "write")
    whole = words // 8 * 8
    with b.parallel(0, rows) as r:
        with b.loop(0, whole, 8, b.const("u64x8", 0)) as loop:
            i, ones = loop
            loop.carry(ones + (w.load("u64x8", r * words + i) ^ x.load("u64x8", i)).unary("popcount"))
        mask = b.first(words - whole, 8)
        left = w.load("u64x8", r * words + whole, mask) ^ x.load("u64x8", whole, mask)
        ones = (loop.results[0] + left.unary("popcount")).fold("add")
        y.store(r, b.index(words).convert("i64") * 64 - ones.wrap("i64") * 2)
    rng = np.random.default_rng(4)
    u, v = rng.integers(0, 2**64, (3, 13), dtype=np.uint64), rng.integers(0, 2**64, 13, dtype=np.uint64)
    wanted = 64 * 13 - 2 * np.bitwise_count(u ^ v).sum(axis=1).astype(np.int64)
    return Example(b.build(), (3, 13), {"w": u.reshape(-1), "x": v, "y": np.zeros(3, np.int64)}, {"y": wanted})


def f16_decode() -> Example:
    """All f16 to f32 and back."""
    b = Builder("f16_decode", ("n",))
    (n,) = b.dims
    b.divisible(n, 16)
    x = b.buffer("x", "f16", n, "read")
    y, z = b.buffer("y", "f32", n, "write"), b.buffer("z", "f16", n, "write")
    with b.loop(0, n, 16) as loop:
        (i,) = loop
        wide = x.load("f16x16", i).convert("f32")
        y.store(i, wide)
        z.store(i, wide.round("f16"))
    codes = np.arange(0, 65536, 13, dtype=np.uint16)
    codes = codes[: len(codes) // 16 * 16]
    codes = codes[(codes & 0x7FFF) <= 0x7C00][:4000]
    half = codes.view(np.float16)
    buffers = {"x": half, "y": np.zeros(len(half), np.float32), "z": np.zeros(len(half), np.float16)}
    return Example(b.build(), (len(half),), buffers, {"y": half.astype(np.float32), "z": half})


def argmax() -> Example:
    """Lowest index of the largest value; NaN loses; any length up to 2^31."""
    b = Builder("argmax", ("n",))
    (n,) = b.dims
    b.positive(n)
    x, y = b.buffer("x", "f32", n, "read"), b.buffer("y", "u32", 1, "write")
    low = b.const("f32x16", -np.inf)
    none, iota = b.const("u32x16", 2**32 - 1), b.const("u32x16", list(range(16)))

    def better(value: Handle, at: Handle, best: Handle, where: Handle) -> "tuple[Handle, Handle]":
        wins = (best < value) | (value.eq(best) & (at < where))
        return b.select(wins, value, best), b.select(wins, at, where)

    with b.loop(0, n, 16, low, none) as loop:
        i, best, where = loop
        mask = b.first(b.index(n) - i, 16)
        value = b.select(mask, x.load("f32x16", i, mask), low)
        at = b.select(mask, i.wrap("u32").broadcast(16) + iota, none)
        loop.carry(*better(value, at, best, where))
    best, where = loop.results
    for half in (8, 4, 2, 1):
        best, where = better(best.part(half, half), where.part(half, half), best.part(0, half), where.part(0, half))
    y.store(0, b.select(where.eq(2**32 - 1), b.const("u32", 0), where))
    u = np.random.default_rng(5).integers(-9, 9, 100).astype(np.float32)
    u[[3, 50]], u[[20, 70]] = np.nan, 40.0
    return Example(b.build(), (100,), {"x": u, "y": np.zeros(1, np.uint32)}, {"y": np.array([20], np.uint32)})


EXAMPLES: "dict[str, Callable[[], Example]]" = {
    f.__name__: f for f in (vector_add, partial_sum, q8_0_matvec, popcount_dot, f16_decode, argmax)
}
