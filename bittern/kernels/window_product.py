"""Products of weights with windows of an image, many rows of weights and many windows at a time, and what becomes of
the sums: a kernel under construction. `sign_product` and `code_product` say how numbers are multiplied.

A lane is a row of weights, a tile is two vectors of rows; the sums of a tile with up to eight neighbouring windows stay
in registers while the values of the windows are read one by one. A round of the parallel loop is a row of windows (of
all that a pool joins), or, of a dense layer, a tile of samples, with some tiles of rows. Windows are read from the
image itself; where they reach over an edge a round first copies the rows that it needs, with the padding around them.
What becomes of sums is told in `window_results`.
"""

from collections.abc import Sequence

from bittern.bitops.builder import Builder, View
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels.field import Field
from bittern.kernels.vector_product import shared
from bittern.kernels.window_results import VECTORS, Arithmetic, Pair, Stage, WindowResults, tiles
from bittern.types.dims import Dim, dim

_MOST = 8  # windows side by side
_STRAIGHT = 12  # values of a window that are read without a loop
_NEAR = 256 << 10  # bytes of weights that a round of a dense layer takes
_ROUNDS = 8  # of a kernel, if its tiles can be shared out


def together(count: int) -> int:
    """Choose how many of so many windows in a row are computed side by side: so that the fewest are done twice."""
    if count <= _MOST:
        return count
    return min(range(_MOST, 4, -1), key=lambda p: -(-count // p) * p)


class WindowProduct(WindowResults):
    """See the module. m: rows of weights. samples: how many run if that is known; otherwise it is the symbol `b`.

    Buffers: x, w, y; base (scores), add and limit (thresholds), classes where there are several.
    """

    def __init__(
        self, field: Field, m: int, arithmetic: Arithmetic, stage: Stage, fill: Sequence[int], samples: int | None
    ) -> None:
        self.field, self.m, self.arithmetic, self.stage, self.fill = field, m, arithmetic, stage, fill
        b = self.b = Builder(f"windows_{arithmetic.name}_{m}", () if samples is not None else ("b",))
        self.samples: Dim = dim(samples) if samples is not None else b.dims[0]
        self.known = samples
        self.tiles = tiles(m, arithmetic)
        self.seen = field  # what is read of what is copied, or of the image itself
        self.is_dense = field.places == 1 and not field.is_padded
        self.site = VECTORS * arithmetic.lanes * arithmetic.weights  # units of weights of a tile and value
        self.near: View | None = None
        self.pooled: View | None = None
        self._inputs()
        self.tile_units = self.seen.taps * arithmetic.inner * self.site
        self.w = b.buffer("w", arithmetic.unit, self.tiles * self.tile_units, "read")
        self.declare_results()

    # --- buffers

    def _inputs(self) -> None:
        """Declare what is read, and where it is copied. each: elements of that buffer in a unit."""
        b, field, arithmetic = self.b, self.field, self.arithmetic
        self.row_units = (field.padded_width if field.is_padded else field.size[1]) * arithmetic.span
        image = field.size[0] * self.row_units
        self.step = image if self.is_dense else field.strides[1] * arithmetic.span  # elements from a window to the next
        self.each = 1
        size = field.size[0] * field.size[1] * arithmetic.span
        self.x = b.buffer("x", arithmetic.unit, self.samples * size, "read")
        if field.is_padded:
            self.near = b.buffer("near", arithmetic.unit, field.window[0] * self.row_units, "scratch")

    # --- rounds

    def kernel(self) -> Kernel:
        """Build the kernel."""
        if self.is_dense:
            self._dense()
        else:
            self._image()
        return self.b.build()

    def _dense(self) -> None:
        """A round is a tile of samples with some tiles of rows; of few samples, all of them with one tile."""
        b, known = self.b, self.known
        if known is not None and known <= _MOST:
            with b.parallel(0, self.tiles) as tile:
                self._group(tile, b.index(0), self._samples(b.index(0), known), known)
            return
        most = max(1, _NEAR // (self.tile_units * self.arithmetic.unit_bytes))
        each = shared(self.tiles, most)
        side = together(known) if known is not None else _MOST
        groups = (self.samples + (side - 1)) // side
        with b.parallel(0, groups * (self.tiles // each)) as number:
            first, start = number // groups * each, number % groups * side
            with b.when(first <= self.tiles - each):  # always; what follows is proven by it
                if known is None:
                    with b.when(b.index(self.samples) < side), b.loop(0, self.samples) as one:
                        (sample,) = one
                        self._tiles(first, each, sample, 1)
                with b.when(b.index(self.samples) >= side):
                    self._tiles(first, each, start.min(b.index(self.samples) - side), side)

    def _tiles(self, first: Handle, each: int, sample: Handle, side: int) -> None:
        start = self._samples(sample, side)
        with self.b.loop(first, first + each) as loop:
            (tile,) = loop
            self._group(tile, sample, start, side)

    def _samples(self, sample: Handle, side: int) -> Handle:
        """Return the first unit of some samples of a dense layer."""
        return sample * self.step

    def _image(self) -> None:
        """A round is the rows of windows that a pool joins, with some tiles of rows of weights."""
        b, field, stage = self.b, self.field, self.stage
        rounds = field.out[0] // stage.pool[0]
        parts = self._parts(rounds)
        each = self.tiles // parts
        with b.parallel(0, self.samples * (rounds * parts)) as number:
            sample, rest = number // (rounds * parts), number % (rounds * parts)
            with b.when(sample < self.samples):  # always; what follows is proven by it
                row, first = rest // parts, rest % parts * each
                if stage.pool == (1, 1):
                    self._row(sample, row, first, each, (sample * rounds + row) * field.out[1])
                    return
                with b.loop(0, stage.pool[0]) as loop:
                    (k,) = loop
                    self._row(sample, row * stage.pool[0] + k, first, each, k * field.out[1])
                self.pool((sample * rounds + row) * (field.out[1] // stage.pool[1]))

    def _parts(self, rounds: int) -> int:
        """Choose into how many parts the tiles of weights are shared out, so that there are enough rounds."""
        if self.stage.pool != (1, 1):
            return 1
        have = rounds * (self.known or 1)
        return next((k for k in range(1, self.tiles + 1) if self.tiles % k == 0 and have * k >= _ROUNDS), self.tiles)

    def _row(self, sample: Handle, row: Handle, first: Handle, each: int, place: Handle) -> None:
        """Compute a row of windows. place: of its first result."""
        b, field = self.b, self.field
        side = together(field.out[1])
        groups = -(-field.out[1] // side)
        start = self._windows(sample, row)
        with b.loop(first, first + each) as loop:
            (tile,) = loop
            with b.loop(0, groups) as across:
                (group,) = across
                column = group * side
                if field.out[1] % side:
                    column = column.min(field.out[1] - side)
                here = start + column * self.step
                self._group(tile, place + column, here, side, row * field.out[1] + column)

    def _windows(self, sample: Handle, row: Handle) -> Handle:
        """Return the first unit of a row of windows."""
        if self.near is None:
            return (sample * self.field.size[0] + row * self.field.strides[0]) * self.row_units
        self._copy(self.near, sample, row)
        return self.b.index(0)

    # --- padded rows

    def _copy(self, near: View, sample: Handle, row: Handle) -> None:
        """Copy the rows of an image that a row of windows sees, with padding around them."""
        b, field, span = self.b, self.field, self.arithmetic.span
        with b.loop(0, field.window[0]) as loop:
            (k,) = loop
            source = row * field.strides[0] + k * field.dilations[0] - field.before[0]
            start = k * self.row_units
            inside = b.branch(self._is_inside(source, field.size[0]))
            with inside.yes, b.when(source >= 0), b.when(source < field.size[0]):
                self._pad(near, start, field.before[1])
                self._move(near, start + field.before[1] * span, (sample * field.size[0] + source))
                self._pad(near, start + (field.before[1] + field.size[1]) * span, field.after[1])
            with inside.no:
                self._pad(near, start, field.padded_width)

    def _is_inside(self, place: Handle, size: int) -> Handle:
        return (place >= 0) & (place < size)

    def _pad(self, near: View, start: Handle, places: int) -> None:
        if not places:
            return
        span = self.arithmetic.span
        with self.b.loop(0, places) as loop:
            (k,) = loop
            for unit, bits in enumerate(self.fill):
                value = self.b.const(self.arithmetic.unit, bits)
                near.store(start + k * span, value, offset=unit * self.arithmetic.unit_bytes)

    def _move(self, near: View, to: Handle, row: Handle) -> None:
        """Copy a row of an image."""
        b, arithmetic, count = self.b, self.arithmetic, self.field.size[1] * self.arithmetic.span
        source, lanes = row * count, arithmetic.lanes
        whole = count // lanes * lanes
        if whole:
            with b.loop(0, whole, lanes) as loop:
                (k,) = loop
                near.store(to + k, self.x.load(f"{arithmetic.unit}x{lanes}", source + k))
        for rest in range(whole, count):
            near.store(to + rest, self.x.load(arithmetic.unit, source + rest))

    # --- sums

    def _group(self, tile: Handle, place: Handle, start: Handle, side: int, window: "Handle | None" = None) -> None:
        """Compute and store a tile of rows for some windows.

        place: of the first result. start: unit of the first value of the first window. window: its number in a sample.
        """
        arithmetic, weights = self.arithmetic, tile * self.tile_units
        classes = self.classes_of(window, side)
        begins = self.begins(tile, classes, side)
        zero = self.b.const(arithmetic.total, 0)
        sums = begins if len(arithmetic.passes) == 1 else [zero] * (VECTORS * side)
        for number, pairs in enumerate(arithmetic.passes):
            if number:
                sums = [total + total for total in sums]
            if number and number == len(arithmetic.passes) - 1:
                sums = [total + begin for total, begin in zip(sums, begins, strict=True)]
            sums = self._rows(weights, start, side, sums, pairs)
        self.finish(tile, place, sums, classes, side)

    def _rows(
        self, weights: Handle, start: Handle, side: int, sums: list[Handle], pairs: Sequence[Pair]
    ) -> list[Handle]:
        """Add what all rows of a window give."""
        b, field, arithmetic = self.b, self.seen, self.arithmetic
        count = field.window[1] * arithmetic.inner
        pitch = self.row_units * (1 if self.near is not None else field.dilations[0])
        if field.window[0] * count <= _STRAIGHT:
            for k in range(field.window[0]):
                sums = self._line(weights + k * (count * self.site), start + k * pitch, side, sums, pairs)
            return sums
        if field.window[0] == 1:
            return self._line(weights, start, side, sums, pairs)
        with b.loop(0, field.window[0], 1, *sums) as loop:
            row, *kept = loop
            loop.carry(*self._line(weights + row * (count * self.site), start + row * pitch, side, kept, pairs))
        return list(loop.results)

    def _line(
        self, weights: Handle, start: Handle, side: int, sums: list[Handle], pairs: Sequence[Pair]
    ) -> list[Handle]:
        """Add what a row of a window gives."""
        b, arithmetic, columns = self.b, self.arithmetic, self.seen.window[1]
        inner, tap = arithmetic.inner, self.seen.dilations[1] * arithmetic.span
        if columns * inner <= _STRAIGHT:
            for column in range(columns):
                for k in range(inner):
                    at = column * tap + k
                    sums = self._value(weights, start, column * inner + k, at, side, sums, pairs)
            return sums
        if tap == inner or columns == 1:
            return self._stretch(weights, start, columns * inner, side, sums, pairs)
        with b.loop(0, columns, 1, *sums) as loop:
            number, *kept = loop
            there = weights + number * (inner * self.site)
            loop.carry(*self._stretch(there, start + number * tap, inner, side, kept, pairs))
        return list(loop.results)

    def _stretch(
        self, weights: Handle, start: Handle, count: int, side: int, sums: list[Handle], pairs: Sequence[Pair]
    ) -> list[Handle]:
        """Add values that lie behind each other."""
        some = shared(count, 8)
        if some < 4:
            some = min(count, 8)
        whole = count // some * some
        with self.b.loop(0, whole, some, *sums) as loop:
            k, *kept = loop
            at = weights + k * self.site
            for i in range(some):
                kept = self._value(at, start + k * self.each, i, i, side, kept, pairs)
            loop.carry(*kept)
        sums = list(loop.results)
        for i in range(whole, count):
            sums = self._value(weights, start, i, i, side, sums, pairs)
        return sums

    def _value(
        self, weights: Handle, start: Handle, number: int, at: int, side: int, sums: list[Handle], pairs: Sequence[Pair]
    ) -> list[Handle]:
        """Add what one value of each window gives. number: of its weights. at: unit from the window's first."""
        arithmetic, made = self.arithmetic, list(sums)
        size = arithmetic.unit_bytes
        vector = f"{arithmetic.unit}x{arithmetic.lanes}"
        x = self.near or self.x
        for pair in pairs:
            w = [
                [
                    self.w.load(
                        vector, weights, offset=size * (number * self.site + (k * VECTORS + v) * arithmetic.lanes)
                    )
                    for k in self._planes(pair)
                ]
                for v in range(VECTORS)
            ]
            for slot in range(side):
                offset = size * (at + pair.value * arithmetic.inner + slot * self.step // self.each)
                value = x.load(arithmetic.unit, start, offset=offset).broadcast(arithmetic.lanes)
                for v in range(VECTORS):
                    place = v * side + slot
                    made[place] = arithmetic.add(made[place], w[v], value, pair)
        return made

    def _planes(self, pair: Pair) -> Sequence[int]:
        """Return the vectors of weights that a pair needs: all of them, or its own where each plane is multiplied."""
        arithmetic = self.arithmetic
        is_each = len({each.weight for pairs in arithmetic.passes for each in pairs}) > 1
        return [pair.weight] if is_each else range(arithmetic.weights)
