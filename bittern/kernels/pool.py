"""Pools of 8-bit codes: the greatest of each window, or the sum with an output stage, a lane a channel.

Buffers: x: [images, rows, columns, c] i8 or u8. r: records of the output stage, u8; not of the greatest. y: [images,
rows, columns, c] of the element, or of the stage's. Windows are read from the input itself where nothing is padded and
channels fill vectors, else from a copy (`arrange`), whose bytes are unsigned: what that adds to sums is taken off by
the records.
"""

from dataclasses import dataclass

from bittern.bitops.builder import Builder, View
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels.arrange import Arrange
from bittern.kernels.conv_shapes import MOST, Area, cut
from bittern.kernels.requantise import Record, Stage, results
from bittern.kernels.tiles import ROWS

_UNROLLED = 16  # places of a window


@dataclass(frozen=True)
class Pool:
    """A pool and the way it is computed."""

    area: Area

    @property
    def is_copied(self) -> bool:
        """Whether windows are read from a copy."""
        rows, columns = self.area.spans
        inside = rows <= self.area.sizes[0] and columns <= self.area.sizes[1] and self.area.before == (0, 0)
        return not inside or self.area.c % ROWS != 0

    @property
    def flip(self) -> int:
        """What bytes are changed by before they are pooled."""
        return self.area.flip if self.is_copied else 0

    @property
    def cut(self) -> tuple[int, int]:
        """Rows and columns of windows of a round."""
        return cut(self.area, self._bytes, False)

    def _bytes(self, rows: int, columns: int) -> int:
        return self.area.reach(0, rows) * self.area.reach(1, columns) * self.area.c

    @property
    def fits(self) -> bool:
        """Whether a round's copy fits at all."""
        return not self.is_copied or self._bytes(*self.cut) <= MOST


def max_pool(area: Area, images: int = 0) -> Kernel:
    """Return the kernel of the greatest of each window. images: how many; 0 makes them the symbol t."""
    return _Kernel(area, None, images).kernel()


def sum_pool(area: Area, stage: Stage, images: int = 0) -> Kernel:
    """Return the kernel of the sum of each window. images: how many; 0 makes them the symbol t."""
    return _Kernel(area, stage, images).kernel()


class _Kernel:
    def __init__(self, area: Area, stage: Stage | None, images: int) -> None:
        self.area, self.stage, self.plan = area, stage, Pool(area)
        b = self.b = Builder(f"pool_{area.element}_{area.c}", () if images else ("t",))
        self.images = b.index(images) if images else b.index(b.dims[0])
        count = images or b.dims[0]
        x = b.buffer("x", area.element, count * (area.sizes[0] * area.sizes[1] * area.c), "read")
        if stage is not None:
            self.r = b.buffer("r", "u8", -(-area.c // ROWS) * stage.record_bytes, "read")
        element = stage.element if stage is not None else area.element
        self.y = b.buffer("y", element, count * (area.places * area.c), "write")
        self.arrange = Arrange(b, area, x, self.plan.cut) if self.plan.is_copied else None
        self.source: View = self.arrange.near if self.arrange is not None else x
        self.element = "u8" if self.arrange is not None else area.element
        self.columns = self.arrange.columns if self.arrange is not None else area.sizes[1]

    def kernel(self) -> Kernel:
        """Build the kernel: a round is some rows and columns of one image; uncopied, a row."""
        b, area = self.b, self.area
        rows, columns = area.counts
        row_bytes, step = self.columns * area.c, area.strides[1] * area.c
        if self.arrange is None:
            with b.parallel(0, self.images * rows) as number:
                image, row = (number // rows, number % rows) if rows > 1 else (number, b.index(0))
                at = image * (area.sizes[0] * row_bytes) + row * (area.strides[0] * row_bytes)
                self._places(at, number * columns, columns, step)
            return b.build()
        with b.parallel(0, self.images * self.arrange.rounds) as number:
            image, first, column = self.arrange.round(number)
            with b.loop(0, self.plan.cut[0]) as loop:
                (down,) = loop
                place = (image * rows + first + down) * columns + column
                self._places(down * (area.strides[0] * row_bytes), place, self.plan.cut[1], step)
        return b.build()

    def _places(self, at: Handle, place: Handle, count: int, step: int) -> None:
        """Pool so many windows of a row. at: of the first one's input. place: of its result."""
        with self.b.loop(0, count) as across:
            (column,) = across
            self._place(at + column * step, (place + column) * self.area.c)

    def _place(self, at: Handle, to: Handle) -> None:
        """Pool one window, all channels."""
        c = self.area.c
        whole = c // 64 * 64 if self.stage is None else 0
        for lanes, low, high in ((64, 0, whole), (ROWS, whole, c // ROWS * ROWS)):
            if low < high:
                with self.b.loop(low, high, lanes) as loop:
                    (channel,) = loop
                    self._put(at, to, channel, lanes, None)
        if c % ROWS:
            mask = self.b.const(f"bitx{ROWS}", [k < c % ROWS for k in range(ROWS)])
            self._put(at, to, self.b.index(c // ROWS * ROWS), ROWS, mask)

    def _put(self, at: Handle, to: Handle, channel: Handle, lanes: int, mask: Handle | None) -> None:
        """Pool and store some channels of one window."""
        found = self._pooled(at + channel, lanes)
        if self.stage is not None:
            record = Record(self.stage, self.r, channel // ROWS * self.stage.record_bytes)
            found = results(record, found + record.bias())
        elif self.plan.flip:
            found = found ^ self.plan.flip
        if self.stage is None:
            found = found.reinterpret(self.area.element)
        self.y.store(to + channel, found, mask)

    def _pooled(self, at: Handle, lanes: int) -> Handle:
        """Fold the places of a window."""
        b, (p, q) = self.b, self.area.window
        down, across = self.area.dilations[0] * self.columns * self.area.c, self.area.dilations[1] * self.area.c
        start = b.const("i32x16", 0) if self.stage else self.source.load(f"{self.element}x{lanes}", at)
        if p * q <= _UNROLLED:
            for i in range(p):
                start = self._row(at, i * down, q, across, start)
            return start
        with b.loop(0, p, 1, start) as rows:
            i_, found = rows
            if q <= _UNROLLED:
                rows.carry(self._row(at + i_ * down, 0, q, across, found))
            else:
                with b.loop(0, q, 1, found) as columns:
                    j, inner = columns
                    columns.carry(self._row(at + i_ * down + j * across, 0, 1, across, inner))
                rows.carry(*columns.results)
        return rows.results[0]

    def _row(self, at: Handle, offset: int, count: int, step: int, found: Handle) -> Handle:
        for k in range(count):
            if self.stage is not None:
                x = self.source.load(f"{self.element}x{ROWS}", at, offset=offset + k * step)
                found = found + x.convert("i32")
            else:
                x = self.source.load(f"{self.element}x{found.type.count}", at, offset=offset + k * step)
                found = found.max(x)
        return found
