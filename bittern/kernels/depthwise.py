"""Depthwise convolutions of 8-bit codes: each channel with a kernel of its own, a lane a channel.

Products of bytes come four at a time, so four places of a row that follow each other are put side by side: a quad is
16 channels of 4 places, one vector. Quads are made once, when rows are copied, and serve all rows of the kernel. Some
outputs that lie beside each other share quads, with weights moved to where their places are: two outputs of a 3x3
kernel cost three loads and six products.

Buffers: as of `conv_bytes`; w: packed weights, for each tile of 16 channels, row of the kernel, output of a run and
quad that it reaches: 16 times 4 bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.bitops.builder import Builder
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels.arrange import Arrange
from bittern.kernels.conv_shapes import MOST, Area, cut
from bittern.kernels.requantise import SUM, USED, Record, Stage, results
from bittern.kernels.tiles import ROWS

Ints = npt.NDArray[Any]

QUAD = 4  # places
_HELD = 12  # vectors of weights that stay in registers
_NEAR = 160 << 10  # bytes of copied rows and quads of a round: few rows would be copied twice
_SPLIT = 1 << 17  # multiply-accumulates from which rounds should serve several threads
_SHUFFLES = 3  # instructions that make a quad, about


@dataclass(frozen=True)
class Depthwise:
    """A depthwise convolution and the way it is computed; see the module."""

    area: Area

    @cached_property
    def run(self) -> int:
        """Outputs of a run, which share quads: what takes the fewest instructions."""
        most = min(8, self.cut[1])
        return min(range(1, most + 1), key=lambda run: (self._instructions(run), run))

    def _instructions(self, run: int) -> float:
        p = self.area.window[0]
        reached = sum(len(self.reached(k)) for k in range(run))
        return (self.quads_of(run) * (_SHUFFLES * self.area.strides[0] + p) + p * reached) / run

    def quads_of(self, run: int) -> int:
        """Return how many quads a run of outputs sees in one row."""
        stride, q, dilation = self.area.strides[1], self.area.window[1], self.area.dilations[1]
        return -(-((run - 1) * stride + (q - 1) * dilation + 1) // QUAD)

    @property
    def quads(self) -> int:
        """Quads of a run in one row."""
        return self.quads_of(self.run)

    def reached(self, output: int) -> list[int]:
        """Return the quads that an output of a run reaches."""
        return sorted({place // QUAD for place in self.places(output)})

    def places(self, output: int) -> list[int]:
        """Return the places of a run that an output reads, one for each column of the kernel."""
        stride, q, dilation = self.area.strides[1], self.area.window[1], self.area.dilations[1]
        return [output * stride + k * dilation for k in range(q)]

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """Output and quad of each product of a run, of one row of the kernel."""
        return [(output, quad) for output in range(self.run) for quad in self.reached(output)]

    @property
    def runs(self) -> int:
        """Runs of a row of a round."""
        return -(-self.cut[1] // self.run)

    @property
    def tiles(self) -> int:
        """Tiles of channels."""
        return -(-self.area.c // ROWS)

    @property
    def vectors(self) -> int:
        """Vectors of weights of a tile."""
        return self.area.window[0] * len(self.pairs)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the packed weights."""
        return self.tiles * self.vectors * 64

    @property
    def slack(self) -> int:
        """Bytes behind the copied rows that quads reach."""
        last = (self.runs - 1) * self.run * self.area.strides[1] + QUAD * self.quads
        return max(0, last - self.area.reach(1, self.cut[1])) * self.area.c + 128

    @property
    def quad_row(self) -> int:
        """Bytes of the quads of one copied row."""
        return self.runs * self.quads * self.tiles * 64

    @property
    def macs(self) -> int:
        """Multiplications with an addition, of one input."""
        return self.area.places * self.area.window[0] * self.area.window[1] * self.area.c

    @cached_property
    def cut(self) -> tuple[int, int]:
        """Rows and columns of windows of a round."""
        return cut(self.area, self._bytes, self.macs >= _SPLIT, _NEAR)

    def _bytes(self, rows: int, columns: int) -> int:
        """Return about how many bytes rows and quads of so many windows take."""
        reached = self.area.reach(0, rows) * self.area.reach(1, columns)
        return reached * (self.area.c + 2 * ROWS * self.tiles)

    @property
    def fits(self) -> bool:
        """Whether a round's rows and quads fit at all."""
        row = self.area.reach(1, self.cut[1]) * self.area.c + self.quad_row
        return self.area.reach(0, self.cut[0]) * row + self.slack <= MOST

    def packed(self, w: Ints) -> Ints:
        """Return weights as the kernel reads them. w: [p, q, c] i8 -> u8."""
        p = self.area.window[0]
        made = np.zeros((self.tiles * ROWS, p, len(self.pairs), QUAD), np.int8)
        for number, (output, quad) in enumerate(self.pairs):
            for column, place in enumerate(self.places(output)):
                if place // QUAD == quad:
                    made[: self.area.c, :, number, place % QUAD] = w[:, column].T
        lanes = made.reshape(self.tiles, ROWS, p, len(self.pairs), QUAD).transpose(0, 2, 3, 1, 4)
        return np.ascontiguousarray(lanes).reshape(-1).view(np.uint8)


def depthwise(area: Area, stage: Stage = SUM, images: int = 0) -> Kernel:
    """Return the kernel. images: how many; 0 makes them the symbol t."""
    return _Kernel(Depthwise(area), stage, images).kernel()


class _Kernel:
    def __init__(self, plan: Depthwise, stage: Stage, images: int) -> None:
        self.plan, self.stage, area = plan, stage, plan.area
        b = self.b = Builder(f"depthwise_{area.element}_{area.c}", () if images else ("t",))
        self.images = b.index(images) if images else b.index(b.dims[0])
        count = images or b.dims[0]
        x = b.buffer("x", area.element, count * (area.sizes[0] * area.sizes[1] * area.c), "read")
        self.w = b.buffer("w", "u8", plan.weight_bytes, "read")
        self.r = b.buffer("r", "u8", plan.tiles * stage.record_bytes, "read")
        self.y = b.buffer("y", stage.element, count * (area.places * area.c), "write")
        self.arrange = Arrange(b, area, x, plan.cut, plan.slack)
        self.quads = b.buffer("quads", "u8", self.arrange.rows * plan.quad_row, "scratch")

    def kernel(self) -> Kernel:
        """Build the kernel: a round is some rows and columns of one image."""
        b, counts = self.b, self.plan.area.counts
        with b.parallel(0, self.images * self.arrange.rounds) as number:
            image, row, column = self.arrange.round(number)
            self._all_quads()
            with b.loop(0, self.plan.tiles) as tiles:
                (tile,) = tiles
                self._tile((image * counts[0] + row) * counts[1] + column, tile)
        return b.build()

    # --- quads

    def _all_quads(self) -> None:
        """Make all quads of the copied rows."""
        b, plan = self.b, self.plan
        step = plan.run * plan.area.strides[1] * plan.area.c
        with b.loop(0, self.arrange.rows) as rows, b.loop(0, plan.runs) as runs:
            (row,), (run,) = rows, runs
            far = row * self.arrange.row_bytes + run * step
            near = row * plan.quad_row + run * (plan.quads * plan.tiles * 64)
            for quad in range(plan.quads):
                self._quad(far, near, quad)

    def _quad(self, far: Handle, near: Handle, quad: int) -> None:
        """Make a quad of all channels, 64 at a time, then 16."""
        tiles = self.plan.tiles
        for chunk in range(0, tiles // 4 * 4, 4):
            self._side_by_side(far, near, quad, chunk, 4)
        for tile in range(tiles // 4 * 4, tiles):
            self._side_by_side(far, near, quad, tile, 1)

    def _side_by_side(self, far: Handle, near: Handle, quad: int, tile: int, count: int) -> None:
        """Put 4 places of some tiles of channels side by side."""
        c, tiles, n = self.plan.area.c, self.plan.tiles, count * ROWS
        places = [
            self.arrange.near.load(f"u8x{n}", far, offset=(quad * QUAD + k) * c + tile * ROWS) for k in range(QUAD)
        ]
        first, second = _interleaved(places[0], places[1]), _interleaved(places[2], places[3])
        made = []
        for x, y in zip(first, second, strict=True):
            made += _interleaved(x.reinterpret("u16"), y.reinterpret("u16"))
        for k, vector in enumerate(made):
            self.quads.store(near, vector.reinterpret("u8"), offset=((quad * tiles) + tile + k) * 64)

    # --- products

    def _tile(self, place: Handle, tile: Handle) -> None:
        """Compute a tile of channels for a round. place: of the first result."""
        b, plan, area = self.b, self.plan, self.plan.area
        base = tile * (plan.vectors * 64)
        held = None
        if plan.vectors <= _HELD:
            held = [self.w.load("i8x64", base, offset=64 * k) for k in range(plan.vectors)]
        record = Record(self.stage, self.r, tile * self.stage.record_bytes, held=USED if held else 0)
        if held:
            record.keep()
        bias, (high, wide), run = record.bias(), plan.cut, plan.run
        whole, rest = divmod(wide, run)
        with b.loop(0, high) as rows:
            (row,) = rows
            near = row * (area.strides[0] * plan.quad_row) + tile * 64
            to = (place + row * area.counts[1]) * area.c + tile * ROWS
            if whole:
                with b.loop(0, whole) as runs:
                    (k,) = runs
                    self._run(near, to, tile, k, run, held, record, bias)
            if rest:
                self._run(near, to, tile, b.index(whole), rest, held, record, bias)

    def _run(
        self,
        near: Handle,
        to: Handle,
        tile: Handle,
        number: Handle,
        outputs: int,
        held: Sequence[Handle] | None,
        record: Record,
        bias: Handle,
    ) -> None:
        """Compute and store a run of outputs of one tile."""
        plan, area = self.plan, self.plan.area
        sums, pairs = [bias] * outputs, plan.pairs
        at = near + number * (plan.quads * plan.tiles * 64)
        for i in range(area.window[0]):
            row = i * area.dilations[0] * plan.quad_row
            quads: dict[int, Handle] = {}
            for k, (output, quad) in enumerate(pairs):
                if output >= outputs:
                    continue
                if quad not in quads:
                    quads[quad] = self.quads.load("u8x64", at, offset=row + quad * plan.tiles * 64)
                which = i * len(pairs) + k
                weight = held[which] if held else self.w.load("i8x64", tile * (plan.vectors * 64), offset=64 * which)
                sums[output] = quads[quad].dot(weight, sums[output])
        mask = None if area.c % ROWS == 0 else self.b.first(self.b.index(area.c) - tile * ROWS, ROWS)
        for output, x in enumerate(sums):
            self.y.store(to + number * (plan.run * area.c) + output * area.c, results(record, x), mask)


def _interleaved(x: Handle, y: Handle) -> list[Handle]:
    """Return lanes of x and y in turn, in one or two vectors of 64 bytes at most."""
    n = x.type.count
    picks = [lane for k in range(n) for lane in (k, n + k)]
    if 2 * x.type.bytes <= 64:
        return [x.shuffle(picks, y)]
    return [x.shuffle(picks[:n], y), x.shuffle(picks[n:], y)]
