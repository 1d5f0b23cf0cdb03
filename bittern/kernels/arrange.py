"""The copy of an input's rows that windows are read from: padding put in, signed bytes made unsigned.

Copying costs one load and one store for 64 bytes, next to nothing beside the products, and the loops over windows need
no test of an edge. Bytes behind a stretch that a group reads too have weight 0; they only must be there: some slack.
"""

from bittern.bitops.builder import Builder, View
from bittern.bitops.handle import Handle
from bittern.kernels.conv_shapes import Area

SLACK = 128  # bytes behind the rows, which a store of padding may fill too
_UNROLLED = 8


class Rounds:
    """The rounds of images: each some rows and columns of windows."""

    def __init__(self, b: Builder, area: Area, cut: tuple[int, int]) -> None:
        """cut: rows and columns of windows of a round."""
        self.b, self.area, self.cut = b, area, cut
        self.down, self.across = area.counts[0] // cut[0], area.counts[1] // cut[1]

    @property
    def rounds(self) -> int:
        """Rounds of one image."""
        return self.down * self.across

    def round(self, number: Handle) -> tuple[Handle, Handle, Handle]:
        """Return image, first row and first column of windows of a round."""
        image, down, across = self.apart(number)
        return image, down * self.cut[0], across * self.cut[1]

    def apart(self, number: Handle) -> tuple[Handle, Handle, Handle]:
        """Return image, and which round from top to bottom and from left to right."""
        zero = self.b.index(0)
        image, rest = (number // self.rounds, number % self.rounds) if self.rounds > 1 else (number, zero)
        down, across = (rest // self.across, rest % self.across) if self.across > 1 else (rest, zero)
        return image, down, across


class Arrange(Rounds):
    """The copied input of a round: `near`, u8, rows of `row_bytes`."""

    def __init__(self, b: Builder, area: Area, x: View, cut: tuple[int, int], slack: int = SLACK) -> None:
        """x: [images, rows, columns, c]. slack: bytes behind the rows."""
        super().__init__(b, area, cut)
        assert slack >= SLACK, slack
        self.slack = slack - 64  # that are written
        self.x = x
        self.rows, self.columns = area.reach(0, cut[0]), area.reach(1, cut[1])
        self.row_bytes = self.columns * area.c
        self.near = b.buffer("near", "u8", self.rows * self.row_bytes + slack, "scratch")

    def round(self, number: Handle) -> tuple[Handle, Handle, Handle]:
        """Return image, first row and first column of windows of a round, and copy what it reaches."""
        image, down, across = self.apart(number)
        self._copied(image, down, across)
        return image, down * self.cut[0], across * self.cut[1]

    def _copied(self, image: Handle, down: Handle, across: Handle) -> None:
        area, b = self.area, self.b
        height, width = area.sizes
        row_bytes = width * area.c
        first = down * (self.cut[0] * area.strides[0])
        start = image * (height * row_bytes)
        if area.is_whole and self.across == 1:
            self.copy(start + first * row_bytes, b.index(0), self.rows * row_bytes)
        elif area.before[0] == 0 and area.spans[0] <= height:
            with b.loop(0, self.rows) as loop:
                (row,) = loop
                self._row(start + (first + row) * row_bytes, row * self.row_bytes, across)
        else:
            with b.loop(0, self.rows) as loop:
                (row,) = loop
                branch = b.branch((first + row >= area.before[0]) & (first + row < area.before[0] + height))
                with branch.yes:
                    far = start + (first + row - area.before[0]) * row_bytes
                    self._row(far, row * self.row_bytes, across)
                with branch.no:
                    self.fill(row * self.row_bytes, self.row_bytes)
        self.fill(b.index(self.rows * self.row_bytes), self.slack)

    def _row(self, far: Handle, near: Handle, across: Handle) -> None:
        """Copy the part of a row that a round reaches; at the edges with padding beside it. far: of the whole row."""
        b, step = self.b, self.cut[1] * self.area.strides[1]
        starts = [k * step - self.area.before[1] for k in range(self.across)]
        inner = [k for k, at in enumerate(starts) if at >= 0 and at + self.columns <= self.area.sizes[1]]
        for k, at in enumerate(starts):
            if k in inner:
                continue
            if self.across == 1:
                self._edge(far, near, at)
            else:
                with b.when(across.eq(k)):
                    self._edge(far, near, at)
        if not inner:
            return
        if len(inner) == self.across:
            self._inner(far, near, across, step)
        else:
            with b.when((across >= inner[0]) & (across <= inner[-1])):
                self._inner(far, near, across, step)

    def _inner(self, far: Handle, near: Handle, across: Handle, step: int) -> None:
        self.copy(far + (across * step - self.area.before[1]) * self.area.c, near, self.columns * self.area.c)

    def _edge(self, far: Handle, near: Handle, at: int) -> None:
        """Copy a part that begins at a place known now, which may lie in front of the row."""
        c = self.area.c
        low, high = min(max(at, 0), self.area.sizes[1]), min(max(at + self.columns, 0), self.area.sizes[1])
        before = min(max(-at, 0), self.columns)
        after = self.columns - before - max(high - low, 0)
        if before:
            self.fill(near, before * c)
        if low < high:
            self.copy(far + low * c, near + before * c, (high - low) * c)
        if after:
            self.fill(near + (self.columns - after) * c, after * c)

    def fill(self, near: Handle, size: int) -> None:
        """Store padding, 64 bytes at a time: what follows is written later."""
        pad = self.b.const("u8x64", (self.area.pad & 0xFF) ^ self.area.flip)
        whole = -(-size // 64)
        if whole <= _UNROLLED:
            for k in range(whole):
                self.near.store(near, pad, offset=64 * k)
            return
        with self.b.loop(0, whole) as loop:
            (k_,) = loop
            self.near.store(near + k_ * 64, pad)

    def copy(self, far: Handle, near: Handle, size: int) -> None:
        """Copy bytes, made unsigned; the last ones again with those before them where they fill no vector."""
        most = min(64, 1 << (size.bit_length() - 1))
        whole, each = size // most, min(_UNROLLED, size // most)
        if whole > _UNROLLED:
            with self.b.loop(0, whole // each) as loop:
                (k,) = loop
                for i in range(each):
                    self._move(far + k * (each * most), near + k * (each * most), i * most, most)
        else:
            each = whole
        for i in range(whole // each * each if whole > _UNROLLED else 0, whole):
            self._move(far, near, i * most, most)
        if size % most:
            self._move(far, near, size - most, most)

    def _move(self, far: Handle, near: Handle, offset: int, size: int) -> None:
        type_ = f"u8x{size}" if size >= 16 else f"u{8 * size}"
        x = self.x.load(type_, far, offset=offset)
        if self.area.flip:
            x = x ^ (0x80 if size >= 16 else int.from_bytes(b"\x80" * size, "little"))
        self.near.store(near, x, offset=offset)
