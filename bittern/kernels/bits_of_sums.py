"""Comparing sums with thresholds where another kernel has made the sums: bits in planes, or codes one to a byte.

The tables and the order of results are those of `window_product`; a lane is a channel.
"""

from bittern.bitops.builder import Builder
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels.window_results import Stage, words
from bittern.types.dims import dim

LANES = 16
_UNROLLED = 15  # thresholds


def table_rows(m: int) -> int:
    """Return the rows of the tables for m channels."""
    return -(-m // LANES) * LANES


def bits_of_sums(m: int, stage: Stage, places: int | None) -> Kernel:
    """Return the kernel for m channels. places: how many; None makes them the symbol `t`.

    Buffers: x: i32 [places, m]; add, limit: u32 [thresholds, rows]; y: as `window_product` has it.
    """
    b = Builder(f"bits_of_sums_{m}", () if places is not None else ("t",))
    count, rows = dim(places) if places is not None else b.dims[0], table_rows(m)
    x = b.buffer("x", "i32", count * m, "read")
    adds, limits = (b.buffer(name, "u32", stage.thresholds * rows, "read") for name in ("add", "limit"))
    span = 8 * words(m) * len(stage.planes)
    y = b.buffer("y", stage.codes or "u8", count * (m if stage.codes else span), "write")

    def truths(place: Handle, row: Handle, mask: "Handle | None") -> list[Handle]:
        sums = x.load("i32x16", place * m + row, mask).reinterpret("u32")
        found = []
        for number in range(stage.thresholds):
            offset = 4 * number * rows
            add, limit = (view.load("u32x16", row, offset=offset) for view in (adds, limits))
            inside = sums + add <= limit
            found.append(inside if mask is None else inside & mask)
        return found

    def counted(place: Handle, row: Handle, mask: "Handle | None") -> Handle:
        """Count many thresholds in a loop. The result has the low byte of the code."""
        sums = x.load("i32x16", place * m + row, mask).reinterpret("u32")
        with b.loop(0, stage.thresholds, 1, b.const("i32x16", stage.low)) as loop:
            number, codes = loop
            add, limit = (view.load("u32x16", number * rows + row) for view in (adds, limits))
            loop.carry(codes + (sums + add <= limit).convert("i32"))
        return loop.results[0].wrap(stage.codes)

    def put(place: Handle, row: Handle, mask: "Handle | None") -> None:
        if stage.thresholds > _UNROLLED:
            y.store(place * m + row, counted(place, row, mask), mask)
            return
        found = truths(place, row, mask)
        if stage.codes:
            codes = b.const(f"{stage.codes}x16", stage.low)
            for truth in found:
                reached = truth.convert(stage.codes)
                codes = codes + (reached + reached if stage.step == 2 else reached)
            y.store(place * m + row, codes, mask)
            return
        for number, plane in enumerate(stage.planes):
            truth = found[plane[0]]
            for other in plane[1:]:
                truth = truth ^ found[other]
            y.store(place * span + row // 8, truth.mask_word().wrap("u16"), offset=8 * words(m) * number)

    with b.parallel(0, count) as place:
        if m % 64 and not stage.codes:
            for number in range(len(stage.planes)):
                y.store(place * span, b.const("u64", 0), offset=8 * (words(m) * (number + 1) - 1))
        if m // LANES:
            with b.loop(0, m // LANES) as loop:
                (k,) = loop
                put(place, k * LANES, None)
        if m % LANES:
            put(place, b.index(m // LANES * LANES), b.first(b.index(m % LANES), LANES))
    return b.build()
