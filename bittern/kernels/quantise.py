"""Activations to 8 bits, block by block, alone or at the end of a kernel that makes them (NUMERICS, 2).

| builder | buffers in order: element, size, access |
|---|---|
| `quantise_rows(n)` | x f32[t n] read, then the codes |
| `quantise_whole_rows(n)` | x f32[t n] read, q i8[t n], d f32[t], s i32[t] write: one scale for each row |

The codes of t rows of n values, in this order wherever a kernel writes them (`codes`):
q i8[t n], d f32[t n/32], ds f32[t n/32], s i32[t n/32], with `halves` also s16 i32[t n/16], all `write`. s is the exact
sum of the codes of a block, s16 of each half of a block; ds is d * f32(s).

One symbol `t`, the number of rows. n is a multiple of 32 (of 16 for whole rows). Definitions: std/quantise.btn,
quantise_row of std/ternary.btn.

Codes are x * (127 / a) + 12582912: the low byte of the sum is the code, because |x * (127 / a)| < 127.1. Blocks below
2^-100 and those with an infinity or a NaN have codes 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bittern.bitops.builder import Builder, View
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels.elementwise import fold_vectors, rounds
from bittern.types.dims import Dim

BLOCK = 32
_MAGIC, _MAGIC_BITS = 12582912.0, 0x4B400000
_TINY_BITS, _INFINITY_BITS = 0x0D800000, 0x7F800000  # of 2^-100


@dataclass(frozen=True, slots=True)
class Codes:
    """The buffers of quantised rows."""

    q: View
    d: View
    ds: View
    s: View
    s16: "View | None"


def codes(b: Builder, size: Dim, halves: bool = False) -> Codes:
    """Declare the buffers for so many codes."""
    return Codes(
        b.buffer("q", "i8", size, "write"),
        b.buffer("d", "f32", size // BLOCK, "write"),
        b.buffer("ds", "f32", size // BLOCK, "write"),
        b.buffer("s", "i32", size // BLOCK, "write"),
        b.buffer("s16", "i32", size // 16, "write") if halves else None,
    )


def quantise_rows(n: int, *, halves: bool = False, split: bool = True) -> Kernel:
    """Build the quantisation of rows. x: [t, n] f32."""
    b = Builder("quantise_rows", ("t",))
    (t,) = b.dims
    x = b.buffer("x", "f32", t * n, "read")
    out = codes(b, t * n, halves)
    with rounds(b, t, split) as row:
        quantise_row(b, x, row * n, out, row * (n // BLOCK), n)
    return b.build()


def quantise_whole_rows(n: int, *, split: bool = True) -> Kernel:
    """Build the quantisation of rows with one scale each. x: [t, n] f32."""
    b = Builder("quantise_whole_rows", ("t",))
    (t,) = b.dims
    x = b.buffer("x", "f32", t * n, "read")
    q, d = b.buffer("q", "i8", t * n, "write"), b.buffer("d", "f32", t, "write")
    s = b.buffer("s", "i32", t, "write")
    magnitude = b.const("u32x16", 0x7FFFFFFF)
    with rounds(b, t, split) as row:

        def greater(top: Handle, at: Handle, _: "Handle | None") -> Handle:
            return (x.load("f32x16", at).reinterpret("u32") & magnitude).max(top)

        zero = b.const("u32x16", 0)
        inverse, keep, scale = _scales(b, fold_vectors(b, row * n, n, 4, zero, greater).fold("max"))

        def code(total: Handle, at: Handle, _: "Handle | None") -> Handle:
            near = (x.load("f32x16", at) * inverse + _MAGIC).reinterpret("u32") & keep
            q.store(at, near.wrap("u8").reinterpret("i8"))
            return total + near

        total = fold_vectors(b, row * n, n, 4, zero, code).fold("add")
        s.store(row, (total - (keep.lane(0) & (n * _MAGIC_BITS % 2**32))).reinterpret("i32"))
        d.store(row, scale)
    return b.build()


def _scales(b: Builder, a_bits: Handle) -> tuple[Handle, Handle, Handle]:
    """Return 127 / a in 16 lanes, all bits where codes are kept, and the scale. a_bits: u32 scalar, of the greatest."""
    a = a_bits.reinterpret("f32")
    tiny = a_bits < _TINY_BITS
    kept = (a_bits - _TINY_BITS) < (_INFINITY_BITS - _TINY_BITS)
    inverse = b.select(tiny, a.like(0.0), a.like(127.0) / a).broadcast(16)
    keep = b.select(kept, b.const("u32", 0xFFFFFFFF), 0).broadcast(16)
    return inverse, keep, b.select(tiny, a.like(0.0), a / 127.0)


def quantise_row(b: Builder, x: View, start: Handle, out: Codes, block: Handle, n: int) -> None:
    """Emit the quantisation of n values at a place of x into the blocks from `block` on."""
    blocks = n // BLOCK
    group = next(g for g in (4, 2, 1) if blocks >= g)
    whole = blocks // group * group

    def some(first: "Handle | int", count: int) -> None:
        pairs = []
        for k in range(count):
            at = start + (b.index(first) + k) * BLOCK
            pairs.append((x.load("f32x16", at), x.load("f32x16", at + 16)))
        quantise_blocks(b, pairs, out, block + first)

    with b.loop(0, whole, group) as loop:
        (i,) = loop
        loop.carry()
        some(i, group)
    for rest in (2, 1):
        if (blocks - whole) & rest:
            some(whole, rest)
            whole += rest


def quantise_blocks(b: Builder, pairs: "Sequence[tuple[Handle, Handle]]", out: Codes, block: Handle) -> None:
    """Emit the codes of 1, 2 or 4 blocks that follow each other. pairs: the f32x16 halves of each."""
    magnitude = b.const("u32x16", 0x7FFFFFFF)
    tops = []
    for low, high in pairs:
        each = [v.reinterpret("u32") & magnitude for v in (low, high)]
        tops.append(_quarter(each[0].max(each[1]), "max"))
    a_bits = _gather(b, tops, "max")
    a = a_bits.reinterpret("f32")
    tiny = a_bits < _TINY_BITS
    kept = (a_bits - _TINY_BITS) < (_INFINITY_BITS - _TINY_BITS)
    zero = b.const(a.type, 0.0)
    d = b.select(tiny, zero, a / 127.0)
    inverse = b.select(tiny, zero, a.like(127.0) / a)
    ones = b.select(kept, b.const(a_bits.type, 0xFFFFFFFF), 0)
    sums = []
    for k, (low, high) in enumerate(pairs):
        i, keep = inverse.lane(k).broadcast(16), ones.lane(k).broadcast(16)
        near = [((v * i + _MAGIC).reinterpret("u32") & keep) for v in (low, high)]
        for j, v in enumerate(near):
            out.q.store((block + k) * BLOCK + 16 * j, v.wrap("u8").reinterpret("i8"))
        sums.append(near)
    s = _sums(b, out, block, sums, ones)
    out.d.store(block, d.part(0, len(pairs)))
    out.ds.store(block, (d * s.convert("f32")).part(0, len(pairs)))


def _sums(b: Builder, out: Codes, block: Handle, near: "Sequence[Sequence[Handle]]", ones: Handle) -> Handle:
    """Store the sums of codes and return those of the blocks, 4 lanes of i32."""
    count = len(near)
    if out.s16 is None:
        total = _gather(b, [_quarter(low + high, "add") for low, high in near], "add")
        s = (total - (ones & (BLOCK * _MAGIC_BITS % 2**32))).reinterpret("i32")
    else:
        offset = ones & (16 * _MAGIC_BITS % 2**32)
        sides = [_gather(b, [_quarter(pair[j], "add") for pair in near], "add") - offset for j in (0, 1)]
        low, high = (side.reinterpret("i32") for side in sides)
        out.s16.store(block * 2, low.shuffle([4 * (k % 2) + k // 2 for k in range(2 * count)], high))
        s = low + high
    out.s.store(block, s.part(0, count))
    return s


def _quarter(x: Handle, kind: str) -> Handle:
    """Fold 16 lanes to 4."""
    for half in (8, 4):
        x = x.part(0, half).binary(kind, x.part(half, half))
    return x


def _gather(b: Builder, rows: Sequence[Handle], kind: str) -> Handle:
    """Fold each of 1, 2 or 4 vectors of 4 lanes to one: lane k is of row k (modulo their number)."""
    rows = [rows[k % len(rows)] for k in range(4)]
    even = [rows[k].shuffle((0, 4, 1, 5), rows[k + 1]) for k in (0, 2)]
    odd = [rows[k].shuffle((2, 6, 3, 7), rows[k + 1]) for k in (0, 2)]
    pairs = [e.binary(kind, o) for e, o in zip(even, odd, strict=True)]
    return pairs[0].shuffle((0, 1, 4, 5), pairs[1]).binary(kind, pairs[0].shuffle((2, 3, 6, 7), pairs[1]))


def block_codes(b: Builder, low: Handle, high: Handle) -> "tuple[tuple[Handle, Handle], Handle]":
    """Emit the codes of one block, two i8x16, and its scale."""
    magnitude = b.const("u32x16", 0x7FFFFFFF)
    each = [v.reinterpret("u32") & magnitude for v in (low, high)]
    inverse, keep, scale = _scales(b, each[0].max(each[1]).fold("max"))
    near = [((v * inverse + _MAGIC).reinterpret("u32") & keep).wrap("u8").reinterpret("i8") for v in (low, high)]
    return (near[0], near[1]), scale
