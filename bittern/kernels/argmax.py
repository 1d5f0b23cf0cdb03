"""The greatest of each row: the lowest index of equal ones; a NaN loses to everything.

| builder | buffers in order: element, size, access |
|---|---|
| `argmax_rows(n)` | x f32[t n] read, y u32[t] write |
| `argmax_parts(n, parts)` | x f32[t n] read, best f32[t parts] write, index u32[t parts] write |
| `argmax_join(parts)` | best f32[t parts] read, index u32[t parts] read, y u32[t] write |

One symbol `t`, the number of rows; n is any number below 2^31. Rounds of `argmax_rows` are rows, of `argmax_parts`
parts of all rows: they are shared among threads, and `argmax_join` takes the best of them.
A part without numbers has -infinity and index 2^31 - 1; a row without numbers has index 0.
Meaning: the op `argmax` (ops/reduce.py): the first index whose value equals the greatest and is no NaN, else 0.
"""

from bittern.bitops.builder import Builder, View
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels.elementwise import LANES, rounds

_UNROLL = 4
_NONE = 0x7FFFFFFF
_LOWEST = float("-inf")


def argmax_rows(n: int, *, split: bool = True) -> Kernel:
    """Build the index of the greatest of each row."""
    b = Builder("argmax_rows", ("t",))
    (t,) = b.dims
    x, y = b.buffer("x", "f32", t * n, "read"), b.buffer("y", "u32", t, "write")
    with rounds(b, t, split) as row:
        _, index = _best(b, x, row * n, b.index(0), b.index(n), n)
        y.store(row, b.select(index.eq(_NONE), index.like(0), index))
    return b.build()


def argmax_parts(n: int, parts: int) -> Kernel:
    """Build the greatest and its index of each part of each row."""
    b = Builder("argmax_parts", ("t",))
    (t,) = b.dims
    x = b.buffer("x", "f32", t * n, "read")
    best, index = (b.buffer(name, of, t * parts, "write") for name, of in (("best", "f32"), ("index", "u32")))
    step = LANES * _UNROLL
    length = -(-n // (step * parts)) * step
    with b.parallel(0, parts) as part, b.loop(0, t) as loop:
        (row,) = loop
        loop.carry()
        low = (part * length).min(n)
        found = _best(b, x, row * n, low, (b.index(n) - low).min(length), n)
        best.store(row * parts + part, found[0])
        index.store(row * parts + part, found[1])
    return b.build()


def argmax_join(parts: int, *, split: bool = True) -> Kernel:
    """Build the index of the best part of each row."""
    b = Builder("argmax_join", ("t",))
    (t,) = b.dims
    best, index = (b.buffer(name, of, t * parts, "read") for name, of in (("best", "f32"), ("index", "u32")))
    y = b.buffer("y", "u32", t, "write")
    with rounds(b, t, split) as row:
        top, first = b.const("f32", _LOWEST), b.const("u32", _NONE)
        values = [best.load("f32", row * parts + k) for k in range(parts)]
        for v in values:
            top = v.max(top)
        for k, v in enumerate(values):
            here = index.load("u32", row * parts + k)
            first = b.select(v.eq(top), here, _NONE).min(first)
        y.store(row, b.select(first.eq(_NONE), first.like(0), first))
    return b.build()


def _best(b: Builder, x: View, start: Handle, low: Handle, count: Handle, n: int) -> tuple[Handle, Handle]:
    """Emit the greatest of `count` values of a row from `low` on, and the first index that has it (_NONE: no number).

    low + count is a multiple of the unrolled step, or n.
    """
    step = LANES * _UNROLL
    whole, vectors = low + count // step * step, low + count // LANES * LANES
    mask = b.first(count - count // LANES * LANES, LANES) if n % LANES else None
    with b.loop(low, whole, step, *[b.const("f32x16", _LOWEST)] * _UNROLL) as loop:
        i, *tops = loop
        loop.carry(*(x.load("f32x16", start + i + LANES * k).max(top) for k, top in enumerate(tops)))
    top = loop.results[0]
    for other in loop.results[1:]:
        top = other.max(top)
    with b.loop(whole, vectors, LANES, top) as loop:
        i, top = loop
        loop.carry(x.load("f32x16", start + i).max(top))
    (top,) = loop.results
    if mask is not None:
        top = b.select(mask, x.load("f32x16", start + vectors, mask), _LOWEST).max(top)
    best = top.fold("max")
    return best, _first(b, x, start, (low, whole, vectors), mask, best.broadcast(LANES))


def _first(
    b: Builder, x: View, start: Handle, places: tuple[Handle, Handle, Handle], mask: "Handle | None", best: Handle
) -> Handle:
    """Emit the first index whose value is the best one."""
    low, whole, vectors = places
    none = b.const("u32x16", _NONE)

    def sooner(first: Handle, i: Handle, mask: "Handle | None") -> Handle:
        is_best = x.load("f32x16", start + i, mask).eq(best)
        here = i.wrap("u32").broadcast(LANES) + b.const("u32x16", range(LANES))
        return b.select(is_best if mask is None else is_best & mask, here, none).min(first)

    first = none
    for begin, end, step in ((low, whole, LANES * _UNROLL), (whole, vectors, LANES)):
        with b.loop(begin, end, step, first) as loop:
            i, first = loop
            for k in range(0, step, LANES):
                first = sooner(first, i + k, None)
            loop.carry(first)
        (first,) = loop.results
    if mask is not None:
        first = sooner(first, vectors, mask)
    return first.fold("min")
