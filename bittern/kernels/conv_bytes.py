"""Convolutions and dense layers of 8-bit codes: sums of products of bytes, straight to the codes of the next layer.

A round copies the rows that it needs, padding put in and bytes made unsigned, and then runs over them without any test
of an edge: a window is short stretches of bytes, each read 4 bytes at a time and given to all output channels. What
that adds for signed bytes, 128 times the sum of a channel's weights, is taken off the bias when a plan is made.

Buffers: x: [images, rows, columns, c] i8 or u8. w: packed weights (`conv_shapes`), u8. r: records of the output stage
(`requantise`), u8. y: [images, rows, columns, m] of the stage's element.
"""

from collections.abc import Sequence

from bittern.bitops.builder import Builder
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels.arrange import Arrange, Rounds
from bittern.kernels.conv_shapes import ROOM, Area, Conv, flattened
from bittern.kernels.requantise import SUM, USED, Record, Stage, results
from bittern.kernels.tiles import ROWS

_UNROLLED = 96  # products of a round of a loop, about
_REGISTERS = 27  # for sums and what their output stage uses
_UNROLLED_ALONE = 160  # of a single place, whose weights stream from a farther cache


def _unrolled(places: int) -> int:
    return _UNROLLED if places > 1 else _UNROLLED_ALONE


def conv_bytes(area: Area, m: int, stage: Stage = SUM, images: int = 0, parts: int = 1, room: int = ROOM) -> Kernel:
    """Return the kernel of m output channels of each part of the channels.

    images: how many; 0: the symbol t. room: as of `Conv`.
    """
    return _Convolution(Conv(flattened(area), m, parts, room), stage, images).kernel()


class _Convolution:
    def __init__(self, conv: Conv, stage: Stage, images: int) -> None:
        self.conv, self.stage, area = conv, stage, conv.area
        b = self.b = Builder(f"conv_{area.element}_{area.c}_{conv.m}", () if images else ("t",))
        self.images = b.index(images) if images else b.index(b.dims[0])
        count = images or b.dims[0]
        x = b.buffer("x", area.element, count * (area.sizes[0] * area.sizes[1] * area.c), "read")
        self.w = b.buffer("w", "u8", conv.weight_bytes, "read")
        self.r = b.buffer("r", "u8", conv.tiles_in_all * stage.record_bytes, "read")
        self.y = b.buffer("y", stage.element, count * (area.places * conv.made), "write")
        self.rounds, self.near = Rounds(b, area, conv.cut), x
        if not conv.is_direct:
            self.rounds = arrange = Arrange(b, area, x, conv.cut)
            self.near = arrange.near

    def kernel(self) -> Kernel:
        """Build the kernel: a round is some rows and columns of one image, or a block of tiles of it."""
        b, conv, rounds = self.b, self.conv, self.rounds
        each = sum(count for count, _ in conv.blocks)
        shares = conv.parts * each if conv.over_blocks else 1
        with b.parallel(0, self.images * (rounds.rounds * shares)) as number:
            if shares == 1:
                start = self._start(*rounds.round(number))
                with b.loop(0, conv.parts) as loop:
                    (part,) = loop
                    self._all_blocks(start, part)
            else:
                start, block = self._start(*rounds.round(number // shares)), number % shares
                self._one_block(start, block // each, block % each)
        return b.build()

    def _start(self, image: Handle, row: Handle, column: Handle) -> tuple[Handle, Handle]:
        """Return where a round's input begins, and the place of its first result."""
        area, (rows, columns) = self.conv.area, self.conv.area.counts
        place = (image * rows + row) * columns + column
        if not self.conv.is_direct:
            return self.b.index(0), place
        first = (image * area.sizes[0] + row * area.strides[0]) * area.sizes[1] + column * area.strides[1]
        return first * area.c, place

    def _all_blocks(self, start: tuple[Handle, Handle], part: Handle) -> None:
        first = 0
        for count, tiles in self.conv.blocks:
            with self.b.loop(0, count) as loop:
                (block,) = loop
                self._block(start, part, block * tiles + first, tiles, self._is_whole(first + count * tiles))
            first += count * tiles

    def _one_block(self, start: tuple[Handle, Handle], part: Handle, block: Handle) -> None:
        first, before = 0, 0
        for count, tiles in self.conv.blocks:
            with self.b.when((block >= before) & (block < before + count)):
                tile = (block - before) * tiles + first
                self._block(start, part, tile, tiles, self._is_whole(first + count * tiles))
            first, before = first + count * tiles, before + count

    def _is_whole(self, last: int) -> bool:
        """Whether all tiles before the last one are full."""
        return self.conv.m % ROWS == 0 or last < self.conv.tiles_of_part

    def _block(self, start: tuple[Handle, Handle], part: Handle, tile: Handle, tiles: int, whole: bool) -> None:
        """Compute a block of tiles of a part for a round. start: see `_start`. whole: all tiles are full."""
        b, conv, area = self.b, self.conv, self.conv.area
        first, place = start
        (high, wide), places = conv.cut, conv.shape[1]
        many = wide // places * places
        with b.loop(0, high) as rows:
            (row,) = rows
            near = first + row * (area.strides[0] * conv.row_bytes) + part * (area.c // conv.parts)
            to = (place + row * area.counts[1]) * conv.made + part * conv.m
            for low, stop, together in ((0, many, places), (many, wide, wide - many)):
                if low == stop:
                    continue
                with b.loop(low, stop, together) as across:
                    (column,) = across
                    at = near + column * (area.strides[1] * area.c)
                    number = part * conv.tiles_of_part + tile
                    sums = self._sums(at, number, tiles, together)
                    self._store(to + column * conv.made, number, tile, sums, tiles, whole)

    # --- sums

    def _sums(self, near: Handle, tile: Handle, tiles: int, places: int) -> list[Handle]:
        """Make the sums of a block of tiles for so many places: of each place, each tile."""
        b, conv = self.b, self.conv
        ways = conv.ways(tiles, places)
        record = self.stage.record_bytes
        bias = [Record(self.stage, self.r, tile * record, k * record).bias() for k in range(tiles)]
        sums = bias * places + [b.const("i32x16", 0)] * (tiles * places * (ways - 1))
        weights = tile * (conv.all_groups * 64)
        loops = [(count, step) for count, step in conv.stretches if count > 1]
        per_group = tiles * places
        if conv.all_groups * per_group <= 2 * _unrolled(places):
            sums = self._flat(near, weights, tiles, places, sums)
        else:
            sums = self._looped(loops, near, weights, tiles, places, sums)
        return self._joined(sums, tiles * places, ways)

    def _joined(self, sums: Sequence[Handle], count: int, ways: int) -> list[Handle]:
        made = list(sums[:count])
        for way in range(1, ways):
            made = [x + y for x, y in zip(made, sums[way * count : (way + 1) * count], strict=True)]
        return made

    def _flat(self, near: Handle, weights: Handle, tiles: int, places: int, sums: list[Handle]) -> list[Handle]:
        """Add all stretches, unrolled."""
        starts = [0]
        for count, step in self.conv.stretches:
            starts = [start + k * step for start in starts for k in range(count)]
        number = 0
        for start in starts:
            for group in range(self.conv.groups):
                sums = self._group(near, start + 4 * group, weights, number, tiles, places, sums)
                number += 1
        return sums

    def _looped(
        self, loops: list[tuple[int, int]], near: Handle, weights: Handle, tiles: int, places: int, sums: list[Handle]
    ) -> list[Handle]:
        """Add stretches by loops, outermost first."""
        if not loops:
            return self._stretch(near, weights, tiles, places, sums)
        (count, step), *inner = loops
        size = self.conv.groups * tiles * 64
        for more, _ in inner:
            size *= more
        with self.b.loop(0, count, 1, *sums) as loop:
            k, *carried = loop
            loop.carry(*self._looped(inner, near + k * step, weights + k * size, tiles, places, carried))
        return list(loop.results)

    def _stretch(self, near: Handle, weights: Handle, tiles: int, places: int, sums: list[Handle]) -> list[Handle]:
        """Add one stretch: a loop of some groups a round, and what is left over."""
        groups, each = self.conv.groups, max(1, _unrolled(places) // (tiles * places))
        if groups > 2 * each:
            divisors = [k for k in range(max(1, each // 2), each + 1) if groups % k == 0]
            each = max(divisors, default=each)
            with self.b.loop(0, groups // each, 1, *sums) as loop:
                k, *sums = loop
                at, here = near + k * (4 * each), weights + k * (each * tiles * 64)
                for group in range(each):
                    sums = self._group(at, 4 * group, here, group, tiles, places, sums)
                loop.carry(*sums)
            sums, done = list(loop.results), groups // each * each
        else:
            done = 0
        for group in range(done, groups):
            sums = self._group(near, 4 * group, weights, group, tiles, places, sums)
        return sums

    def _group(
        self, near: Handle, offset: int, weights: Handle, number: int, tiles: int, places: int, sums: list[Handle]
    ) -> list[Handle]:
        """Add one group: 4 bytes of each place times a vector of each tile."""
        made, step = list(sums), self.conv.area.strides[1] * self.conv.area.c
        way = number % (len(sums) // (tiles * places))
        codes = [self.w.load("i8x64", weights, offset=(number * tiles + k) * 64) for k in range(tiles)]
        for place in range(places):
            x = self.near.load("i32", near, offset=offset + place * step).broadcast(ROWS).reinterpret("u8")
            for k, code in enumerate(codes):
                which = (way * places + place) * tiles + k
                made[which] = x.dot(code, made[which])
        return made

    # --- results

    def _store(self, to: Handle, number: Handle, tile: Handle, sums: Sequence[Handle], tiles: int, whole: bool) -> None:
        """Store results of some places. to: of the first of them. number: of the tile among those of all parts."""
        conv, size = self.conv, self.stage.record_bytes
        held = min(USED, max(0, _REGISTERS - len(sums))) if len(sums) > tiles else 0
        for k in range(tiles):
            record = Record(self.stage, self.r, number * size, k * size, held)
            mask = None if whole else self.b.first(self.b.index(conv.m) - (tile + k) * ROWS, ROWS)
            for place, x in enumerate(sums[k::tiles]):
                self.y.store(to + tile * ROWS + (place * conv.made + k * ROWS), results(record, x), mask)
