"""What becomes of the sums of `window_product`: scores, or truths packed to words, or codes; and the forms of it all.

Sums end as scores, i32; or they are compared with thresholds, and the results are written as bits: packed to words,
channels of a place together, a plane behind the other. A comparison is one interval, (sum + add) <= limit, unsigned:
rising and falling thresholds, and those that are never or always reached, cost the same. Padding that is exactly zero
where a value cannot be zero is a matter of thresholds too: places near the edges have other ones (`classes`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bittern.bitops.builder import Builder, View
from bittern.bitops.handle import Handle
from bittern.kernels.field import Field
from bittern.types.dims import Dim, dim

VECTORS = 2  # of a tile


@dataclass(frozen=True, slots=True)
class Stage:
    """What becomes of sums.

    thresholds: of each row, 0 for scores. planes: for each plane of bits the thresholds whose truths are added up
    modulo 2. codes: the element of codes that are written one to a byte instead of planes: `low` and `step` for each
    threshold that is reached. classes: of places, which have thresholds of their own. pool: (rows, columns) of windows
    that are joined by `or`, which is the maximum of what is in a plane of one threshold.
    """

    thresholds: int = 0
    planes: tuple[tuple[int, ...], ...] = ()
    codes: str = ""
    low: int = 0
    step: int = 1
    classes: int = 1
    pool: tuple[int, int] = (1, 1)


@dataclass(frozen=True, slots=True)
class Pair:
    """A plane of weights meets a plane of values; is_less: what they give is taken away."""

    weight: int
    value: int
    is_less: bool = False


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How numbers are multiplied.

    unit: element in which values of windows are read, one broadcast to all rows. inner: units of a place and plane.
    values: planes of values. weights: vectors of weights of a row and unit. passes: pairs that are added up before the
    sums are doubled and the next pass follows. add: (sum, weights, value, pair) -> sum. scale: of the sums in scores,
    +-1 or +-2. bytes_: values are copied as patches of whole units first, each byte with its top bit turned over if so.
    """

    name: str
    unit: str
    lanes: int
    total: str
    inner: int
    values: int
    weights: int
    passes: tuple[tuple[Pair, ...], ...]
    add: Callable[[Handle, Sequence[Handle], Handle, Pair], Handle]
    scale: int

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return VECTORS * self.lanes

    @property
    def span(self) -> int:
        """Units of a place."""
        return self.inner * self.values

    @property
    def unit_bytes(self) -> int:
        """Bytes of a unit."""
        return 8 if self.unit == "u64" else 4


def words(count: int) -> int:
    """Return the words of 64 bits that hold so many bits."""
    return -(-count // 64)


def tiles(m: int, arithmetic: Arithmetic) -> int:
    """Return the tiles of m rows."""
    return -(-m // arithmetic.rows)


class WindowResults:
    """The end of a kernel: tables, results, and how they are stored. `WindowProduct` says what is summed."""

    b: Builder
    field: Field
    m: int
    arithmetic: Arithmetic
    stage: Stage
    samples: Dim
    tiles: int
    pooled: View | None

    @property
    def padded_rows(self) -> int:
        """Rows of weights, those that fill the last tile up included."""
        return self.tiles * self.arithmetic.rows

    def declare_results(self) -> None:
        """Declare tables and results."""
        b, field, stage, unit = self.b, self.field, self.stage, self.arithmetic.unit
        if stage.thresholds:
            count = stage.classes * stage.thresholds * self.padded_rows
            self.adds = b.buffer("add", unit, count, "read")
            self.limits = b.buffer("limit", unit, count, "read")
        else:
            self.base = b.buffer("base", "i32", stage.classes * self.padded_rows, "read")
        if stage.classes > 1:
            self.classes = b.buffer("classes", "u32", field.places, "read")
        places = self.samples * dim(field.out[0] // stage.pool[0] * (field.out[1] // stage.pool[1]))
        if not stage.thresholds:
            self.y = b.buffer("y", "i32", places * self.m, "write")
        elif stage.codes:
            self.y = b.buffer("y", stage.codes, places * self.m, "write")
        else:
            self.y = b.buffer("y", "u8", places * self.place_bytes, "write")
        if stage.pool != (1, 1):
            self.pooled = b.buffer("pooled", "u8", stage.pool[0] * field.out[1] * self.place_bytes, "scratch")

    @property
    def place_bytes(self) -> int:
        """Bytes of a place of packed results."""
        return 8 * words(self.m) * len(self.stage.planes)

    def classes_of(self, window: "Handle | None", side: int) -> list[Handle]:
        """Return the class of each window; none where all are of one."""
        if self.stage.classes == 1:
            return []
        assert window is not None, self.field
        found = [self.classes.load("u32", window, offset=4 * slot).convert("index") for slot in range(side)]
        return [each.min(self.stage.classes - 1) for each in found]

    def _table(
        self, view: View, type_: str, tile: Handle, classes: Sequence[Handle], number: int, v: int, slot: int
    ) -> Handle:
        """Load the numbers of a vector of rows for a window. number: of the threshold."""
        count = max(1, self.stage.thresholds)
        place = tile * self.arithmetic.rows
        if classes:
            place = place + classes[slot] * (count * self.padded_rows)
        width = view.buffer.element.bits // 8
        return view.load(type_, place, offset=width * (number * self.padded_rows + v * self.arithmetic.lanes))

    def begins(self, tile: Handle, classes: Sequence[Handle], side: int) -> list[Handle]:
        """Return what the sums of each vector and window start from."""
        arithmetic = self.arithmetic
        if self.stage.thresholds != 1:
            return [self.b.const(arithmetic.total, 0)] * (VECTORS * side)
        return [
            self._table(self.adds, arithmetic.total, tile, classes, 0, v, slot)
            for v in range(VECTORS)
            for slot in range(side)
        ]

    def finish(self, tile: Handle, place: Handle, sums: list[Handle], classes: Sequence[Handle], side: int) -> None:
        """Store what becomes of the sums of a tile of rows and some windows."""
        if not self.stage.thresholds:
            self._scores(tile, place, sums, classes, side)
            return
        for slot in range(side):
            for v in range(VECTORS):
                truths = self._truths(tile, sums[v * side + slot], classes, v, slot)
                if self.stage.codes:
                    self._codes(tile, place + slot, v, truths)
                else:
                    self._bits(tile, place, slot, v, truths)

    def _scores(self, tile: Handle, place: Handle, sums: list[Handle], classes: Sequence[Handle], side: int) -> None:
        lanes, scale = self.arithmetic.lanes, self.arithmetic.scale
        for slot in range(side):
            vectors = [sums[v * side + slot] for v in range(VECTORS)]
            if lanes == 8:
                vectors = [self.b.join(*(each.wrap("i32") for each in vectors))]
            for v, total in enumerate(vectors):
                row = tile * self.arithmetic.rows + v * 16
                base = self._table(self.base, "i32x16", tile, classes, 0, v, slot)
                total = total << 1 if abs(scale) == 2 else total
                result = base - total if scale < 0 else base + total
                whole = self.m % self.arithmetic.rows == 0
                mask = None if whole else self.b.first(self.b.index(self.m) - row, 16)
                self.y.store((place + slot) * self.m + row, result, mask)

    def _truths(self, tile: Handle, total: Handle, classes: Sequence[Handle], v: int, slot: int) -> list[Handle]:
        """Compare a vector of sums with all thresholds."""
        unit, lanes = self.arithmetic.unit, self.arithmetic.lanes
        made = []
        for number in range(self.stage.thresholds):
            number_type = f"{unit}x{lanes}"
            moved = total.reinterpret(unit) if unit == "u32" else total
            if self.stage.thresholds > 1:
                moved = moved + self._table(self.adds, number_type, tile, classes, number, v, slot)
            made.append(moved <= self._table(self.limits, number_type, tile, classes, number, v, slot))
        return made

    def _bits(self, tile: Handle, place: Handle, slot: int, v: int, truths: Sequence[Handle]) -> None:
        """Store a vector of results in each plane."""
        lanes, view = self.arithmetic.lanes, self.pooled or self.y
        step = lanes // 8
        for number, plane in enumerate(self.stage.planes):
            truth = truths[plane[0]]
            for other in plane[1:]:
                truth = truth ^ truths[other]
            offset = slot * self.place_bytes + number * 8 * words(self.m) + v * step
            self._clear(view, tile, place, slot, number, v)
            at = place * self.place_bytes + tile * (VECTORS * step)
            view.store(at, truth.mask_word().wrap(f"u{lanes}"), offset=offset)

    def _clear(self, view: View, tile: Handle, place: Handle, slot: int, number: int, v: int) -> None:
        """Write zeros to the last word of a plane before its first vector, where the tiles do not fill it."""
        if v or self.padded_rows >= 64 * words(self.m):
            return
        offset = slot * self.place_bytes + 8 * (words(self.m) * (number + 1) - 1)
        with self.b.when(tile.eq((words(self.m) - 1) * 64 // self.arithmetic.rows)):
            view.store(place * self.place_bytes, self.b.const("u64", 0), offset=offset)

    def _codes(self, tile: Handle, place: Handle, v: int, truths: Sequence[Handle]) -> None:
        """Store the codes of a vector of rows, one to a byte."""
        b, lanes, element = self.b, self.arithmetic.lanes, self.stage.codes
        codes = b.const(f"{element}x{lanes}", self.stage.low)
        for truth in truths:
            reached = truth.convert(element)
            codes = codes + (reached + reached if self.stage.step == 2 else reached)
        row = tile * self.arithmetic.rows + v * lanes
        whole = self.m % self.arithmetic.rows == 0
        mask = None if whole else b.first(b.index(self.m) - row, lanes)
        self.y.store(place * self.m + row, codes, mask)

    def pool(self, place: Handle) -> None:
        """Join the rows of packed results that a round has made. place: of the first result."""
        assert self.pooled is not None
        b, (height, width), pooled = self.b, self.stage.pool, self.pooled
        with b.loop(0, self.field.out[1] // width) as across, b.loop(0, self.place_bytes, 8) as inner:
            (column,), (k,) = across, inner
            at = column * (width * self.place_bytes) + k
            word = pooled.load("u64", at)
            for number in range(1, height * width):
                offset = (number // width * self.field.out[1] + number % width) * self.place_bytes
                word = word | pooled.load("u64", at, offset=offset)
            self.y.store((place + column) * self.place_bytes + k, word)
