"""An output stage alone: sums in memory to codes.

Buffers: x: [rows, c] i32. r: records of the output stage, u8; one for all channels if they are alike. y: [rows, c] of
the stage's element.
"""

from bittern.bitops.builder import Builder
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels.requantise import USED, Record, Stage, results
from bittern.kernels.tiles import ROWS

_ROUND = 16384  # values of a round of the parallel loop


def codes_of_sums(rows: int, c: int, stage: Stage, alike: bool) -> Kernel:
    """Return the kernel. alike: one record serves all channels, and rows are one."""
    if alike:
        rows, c = 1, rows * c
    b = Builder(f"codes_{stage.element}_{c}")
    tiles = 1 if alike else -(-c // ROWS)
    x = b.buffer("x", "i32", rows * c, "read")
    r = b.buffer("r", "u8", tiles * stage.record_bytes, "read")
    y = b.buffer("y", stage.element, rows * c, "write")

    def some(record: Record, place: Handle, left: int = ROWS) -> None:
        mask = None if left >= ROWS else b.const(f"bitx{ROWS}", [k < left for k in range(ROWS)])
        y.store(place, results(record, x.load("i32x16", place, mask)), mask)

    if alike:
        whole, each = c // ROWS, _ROUND // ROWS
        if whole:
            with b.parallel(0, -(-whole // each)) as part:
                record = Record(stage, r, b.index(0), held=USED)
                record.keep()
                with b.loop(part * each, (part * each + each).min(b.index(whole))) as loop:
                    (k,) = loop
                    some(record, k * ROWS)
        if c % ROWS:
            with b.parallel(0, 1):
                some(Record(stage, r, b.index(0)), b.index(whole * ROWS), c % ROWS)
        return b.build()
    with b.parallel(0, rows) as row:
        whole = c // ROWS
        if whole:
            with b.loop(0, whole) as loop:
                (k,) = loop
                some(Record(stage, r, k * stage.record_bytes), row * c + k * ROWS)
        if c % ROWS:
            some(Record(stage, r, b.index(whole * stage.record_bytes)), row * c + whole * ROWS, c % ROWS)
    return b.build()
