"""Shapes of convolutions of bytes, how they are cut into rounds, and how weights lie in memory for them.

Sums go over 4 bytes at a time: a group. A row of a kernel, q places of c channels, is one stretch of q c bytes in
memory where places follow each other, else each place is one of c bytes (dilation). Stretches are filled up with zero
weights to whole groups. A lane is an output channel, 16 of them a tile; up to `tiles` tiles are summed side by side
for `places` places, each with registers of its own, so that a load serves many products.

Where channels are parted, each part of c / parts input channels has m output channels of its own, and whole tiles.

Weights: for each part, block of tiles, stretch, group: a vector of 64 bytes for each tile, 4 bytes an output channel.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.kernels.tiles import ROWS

Ints = npt.NDArray[Any]

ROOM = 28  # vectors of 16 sums, and of weights for them, that registers hold; less where they are narrower
_AHEAD = 8  # sums that hide the time of a product
_ROUND = 8  # cycles of a model for what stands around the sums of some places
NEAR = 48 << 10  # bytes of copied input that a round takes
MOST = 240 << 10  # bytes that it may take
_WIDE = 64  # places from which one row is shared
_SPLIT = 1 << 19  # multiply-accumulates from which rounds should serve several threads


@dataclass(frozen=True, slots=True)
class Area:
    """What a window sees. All tuples are (rows, columns).

    sizes: of the input, c channels. window, strides, dilations. before: padding in front, with the value `pad`; behind,
    whatever the counts of windows need. element: u8 or i8.
    """

    sizes: tuple[int, int]
    c: int
    window: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    before: tuple[int, int]
    counts: tuple[int, int]
    pad: int
    element: str

    def arguments(self) -> tuple[Any, ...]:
        """Return the area in plain values, for a recipe."""
        return (
            self.sizes,
            self.c,
            self.window,
            self.strides,
            self.dilations,
            self.before,
            self.counts,
            self.pad,
            self.element,
        )

    @property
    def spans(self) -> tuple[int, int]:
        """Rows and columns that all windows reach, padding included."""
        return self.reach(0, self.counts[0]), self.reach(1, self.counts[1])

    @property
    def flip(self) -> int:
        """What turns bytes of the input into unsigned ones."""
        return 0x80 if self.element == "i8" else 0

    @property
    def places(self) -> int:
        """How many windows there are."""
        return self.counts[0] * self.counts[1]

    def reach(self, axis: int, count: int) -> int:
        """Return how many places of an axis so many windows reach."""
        return (count - 1) * self.strides[axis] + (self.window[axis] - 1) * self.dilations[axis] + 1

    @property
    def is_whole(self) -> bool:
        """Whether the windows see rows as they lie in memory, nothing in front, behind or between."""
        return self.before == (0, 0) and self.spans[1] == self.sizes[1] and self.spans[0] <= self.sizes[0]


def area_of(arguments: tuple[Any, ...]) -> Area:
    """Return the area of the plain values of a recipe."""
    return Area(*arguments)


def cut(area: Area, size: Callable[[int, int], int], shares: bool, most: int = NEAR) -> tuple[int, int]:
    """Return how many rows and columns of windows a round takes: divisors of all, as many as a near cache holds.

    size: bytes of a round of so many. shares: whether there should be more than one round. most: bytes.
    """
    rows, columns = area.counts
    wide = max((k for k in divisors(columns) if size(1, k) <= most), default=1)
    high = max((k for k in divisors(rows) if size(k, wide) <= most), default=1)
    if shares and (high, wide) == area.counts:
        if rows > 1:
            high = max(k for k in divisors(rows) if k <= -(-rows // 2))
        elif columns >= _WIDE:
            wide = max(k for k in divisors(columns) if k <= -(-columns // 2))
    return high, wide


def divisors(count: int) -> list[int]:
    """Return all divisors, ascending."""
    return [k for k in range(1, count + 1) if count % k == 0]


def flattened(area: Area) -> Area:
    """Return the same windows as one row, where each sees one place and all places follow each other."""
    rows, columns = area.sizes
    plain = area.window == area.strides == (1, 1) and area.before == (0, 0) and area.counts == area.sizes
    if not plain or rows == 1:
        return area
    size = (1, rows * columns)
    return Area(size, area.c, (1, 1), (1, 1), (1, 1), (0, 0), size, area.pad, area.element)


@dataclass(frozen=True)
class Conv:
    """A convolution of m output channels, of each part, and the way it is computed; see the module.

    room: vectors of sums and weights that registers hold.
    """

    area: Area
    m: int
    parts: int = 1
    room: int = ROOM

    @cached_property
    def stretches(self) -> tuple[tuple[int, int], ...]:
        """Loops over the stretches, outermost first: how many, and by how many bytes of a copied row or place."""
        (p, q), (down, across) = self.area.window, self.area.dilations
        rows = (p, down * self.row_bytes)
        return (rows,) if self.is_joined else (rows, (q, across * self.area.c))

    @property
    def is_joined(self) -> bool:
        """Whether the places of a row of the kernel are one stretch."""
        return self.area.window[1] == 1 or (self.area.dilations[1] == 1 and self.parts == 1)

    @property
    def stretch_bytes(self) -> int:
        """Bytes of a stretch."""
        return self.area.c // self.parts * (self.area.window[1] if self.is_joined else 1)

    @property
    def groups(self) -> int:
        """Groups of a stretch."""
        return -(-self.stretch_bytes // 4)

    @property
    def all_groups(self) -> int:
        """Groups of all stretches."""
        total = self.groups
        for count, _ in self.stretches:
            total *= count
        return total

    @property
    def is_direct(self) -> bool:
        """Whether windows are read from the input itself: unsigned, without padding, in whole groups."""
        return not self.area.flip and self.area.is_whole and self.stretch_bytes % 4 == 0

    @property
    def row_bytes(self) -> int:
        """Bytes of a row that windows are read from."""
        return (self.area.sizes[1] if self.is_direct else self.area.reach(1, self.cut[1])) * self.area.c

    @property
    def tiles_of_part(self) -> int:
        """Tiles of the output channels of a part."""
        return -(-self.m // ROWS)

    @property
    def tiles_in_all(self) -> int:
        """Tiles of all parts."""
        return self.parts * self.tiles_of_part

    @property
    def made(self) -> int:
        """Output channels of all parts."""
        return self.parts * self.m

    @property
    def macs(self) -> int:
        """Multiplications with an addition, of one input."""
        p, q = self.area.window
        return self.area.places * self.m * p * q * self.area.c  # c / parts for each of parts * m

    @property
    def shape(self) -> tuple[int, int]:
        """Tiles and places that are summed side by side."""
        return self._best[0]

    @property
    def cycles(self) -> float:
        """Cycles of the products of one input, by a model."""
        rounds = self.area.places // self.cut[1]
        return self.parts * rounds * self._best[1]

    @cached_property
    def _best(self) -> tuple[tuple[int, int], float]:
        """What takes the least time by a model of loads and products, and that time for the columns of a round."""
        columns, tiles = self.cut[1], self.tiles_of_part
        best, found = float("inf"), (1, 1)
        for r in range(1, min(8, tiles) + 1):
            for t in range(1, columns + 1):
                if r * t + (r if t > 1 else 1) > self.room and (r, t) != (1, 1):
                    break
                time = 0.0
                for blocks, rows in ((tiles // r, r), (1, tiles % r)):
                    for parts, places in ((columns // t, t), (1, columns % t)):
                        if rows and places:
                            time += blocks * parts * (self.all_groups * self._time(rows, places) + _ROUND)
                time *= 1 + 0.03 * ((columns % t > 0) + (tiles % r > 0))
                if time < best - 1e-9:
                    best, found = time, (r, t)
        return found, best

    @property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """How many blocks of how many tiles a part has: whole ones, and the last one where it has fewer."""
        r = self.shape[0]
        whole, rest = divmod(self.tiles_of_part, r)
        return tuple(each for each in ((whole, r), (1, rest)) if each[0] and each[1])

    def ways(self, tiles: int, places: int) -> int:
        """Return how many sums of one result run side by side."""
        most = (self.room - (tiles if places > 1 else 1)) // (tiles * places)
        return max(1, min(-(-_AHEAD // (tiles * places)), most, self.groups))

    def _time(self, tiles: int, places: int) -> float:
        """Return a model's cycles of one group: two products, nearly two loads a cycle, four until a sum may go on."""
        return max(tiles * places / 2, (tiles + places) / 1.8, 4 / self.ways(tiles, places))

    @cached_property
    def cut(self) -> tuple[int, int]:
        """Rows and columns of windows of a round."""
        return cut(self.area, self.copied_bytes, self.macs >= _SPLIT)

    @property
    def over_blocks(self) -> bool:
        """Whether a round is one block of tiles: where there are too few places to share."""
        return self.area.counts == self.cut and self.macs >= _SPLIT // 8 and sum(n for n, _ in self.blocks) > 1

    @property
    def fits(self) -> bool:
        """Whether a round's copy fits at all."""
        return self.is_direct or self.copied_bytes(*self.cut) <= MOST

    def copied_bytes(self, rows: int, columns: int) -> int:
        """Return the bytes of the copied input of so many rows and columns of windows."""
        return self.area.reach(0, rows) * self.area.reach(1, columns) * self.area.c

    @property
    def weight_bytes(self) -> int:
        """Bytes of the packed weights."""
        return self.tiles_in_all * self.all_groups * 64

    def packed(self, w: Ints) -> Ints:
        """Return weights as the kernel reads them. w: [parts * m, p, q, c / parts] i8 -> u8."""
        stretches = self.all_groups // self.groups
        filled = np.zeros((self.parts, self.tiles_of_part * ROWS, stretches, self.groups * 4), np.int8)
        filled[:, : self.m, :, : self.stretch_bytes] = w.reshape(self.parts, self.m, stretches, self.stretch_bytes)
        lanes = filled.reshape(self.parts, self.tiles_of_part, ROWS, self.all_groups, 4)
        made = []
        for part in lanes:
            at = 0
            for count, tiles in self.blocks:
                for _ in range(count):
                    made.append(part[at : at + tiles].transpose(2, 0, 1, 3).reshape(-1))
                    at += tiles
        return np.concatenate(made).view(np.uint8)
