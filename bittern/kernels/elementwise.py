"""Kernels that treat each element alone, and how the kernels of this folder walk rows.

| builder | buffers in order: element, size, access |
|---|---|
| `add_rows(n)` | x f32[t n] update, y f32[t n] read: x becomes x + y |
| `add_bias(n)` | x f32[t n] update, bias f32[n] read: x becomes x + bias |
| `scale_rows(n, factor)` | x f32[t n] update: x becomes x * factor |

One symbol `t`, the number of rows; n is any number. `split`: the rows are shared among the threads; otherwise every
thread does all of them (each with buffers of its own, or all writing equal bytes).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bittern.bitops.builder import Builder, Place
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel

LANES = 16  # f32 in a logical vector
Span = tuple[Handle, "Handle | None"]  # a place, and the mask of the lanes that exist (None: all)


@contextmanager
def rounds(b: Builder, count: Place, split: bool) -> Iterator[Handle]:
    """Open a loop over independent rounds: shared among threads, or done by each of them."""
    if split:
        with b.parallel(0, count) as i:
            yield i
        return
    with b.loop(0, count) as loop:
        (i,) = loop
        loop.carry()
        yield i


def each_vector(
    b: Builder, start: Handle, n: int, unroll: int, emit: "Callable[[Handle, Handle | None], None]"
) -> None:
    """Emit something for each vector of n elements from a place on. emit: gets the place and a mask (None: all)."""
    whole = n // LANES
    step = next(u for u in range(unroll, 0, -1) if whole % u == 0)
    if whole == step:
        for k in range(whole):
            emit(start + k * LANES, None)
    elif whole:
        with b.loop(0, whole * LANES, step * LANES) as loop:
            (i,) = loop
            loop.carry()
            for k in range(step):
                emit(start + i + k * LANES, None)
    if n % LANES:
        emit(start + whole * LANES, b.first(n % LANES, LANES))


def fold_vectors(
    b: Builder,
    start: Handle,
    n: int,
    unroll: int,
    zero: Handle,
    emit: "Callable[[Handle, Handle, Handle | None], Handle]",
) -> Handle:
    """Carry a value over each vector of n elements, ascending. emit: value, place, mask -> next value."""
    whole = n // LANES
    step = next(u for u in range(unroll, 0, -1) if whole % u == 0)
    total = zero
    if whole:
        with b.loop(0, whole * LANES, step * LANES, zero) as loop:
            i, total = loop
            for k in range(step):
                total = emit(total, start + i + k * LANES, None)
            loop.carry(total)
        (total,) = loop.results
    if n % LANES:
        total = emit(total, start + whole * LANES, b.first(n % LANES, LANES))
    return total


def add_rows(n: int, split: bool = True) -> Kernel:
    """Build x + y. x, y: [t, n] f32."""
    b = Builder("add_rows", ("t",))
    (t,) = b.dims
    x, y = b.buffer("x", "f32", t * n, "update"), b.buffer("y", "f32", t * n, "read")
    with rounds(b, t, split) as row:

        def emit(at: Handle, mask: "Handle | None") -> None:
            x.store(at, x.load("f32x16", at, mask) + y.load("f32x16", at, mask), mask)

        each_vector(b, row * n, n, 8, emit)
    return b.build()


def add_bias(n: int, split: bool = True) -> Kernel:
    """Build x + bias for each row. x: [t, n], bias: [n] f32."""
    b = Builder("add_bias", ("t",))
    (t,) = b.dims
    x, bias = b.buffer("x", "f32", t * n, "update"), b.buffer("bias", "f32", n, "read")
    with rounds(b, t, split) as row:

        def emit(i: Handle, mask: "Handle | None") -> None:
            at = row * n + i
            x.store(at, x.load("f32x16", at, mask) + bias.load("f32x16", i, mask), mask)

        each_vector(b, b.index(0), n, 8, emit)
    return b.build()


def scale_rows(n: int, factor: float, split: bool = True) -> Kernel:
    """Build x * factor. x: [t, n] f32; factor: rounded to f32."""
    b = Builder("scale_rows", ("t",))
    (t,) = b.dims
    x = b.buffer("x", "f32", t * n, "update")
    with rounds(b, t, split) as row:

        def emit(at: Handle, mask: "Handle | None") -> None:
            x.store(at, x.load("f32x16", at, mask) * factor, mask)

        each_vector(b, row * n, n, 8, emit)
    return b.build()
