"""The output stage of integer layers: accumulators in registers -> codes, one channel a lane.

What a channel needs lies in records, one for each tile of 16 channels, vectors of 64 bytes behind each other: first the
bias, where sums start; then, by the way of rounding:

- `sum`: nothing; the accumulator is the result.
- `once`: (x * multiplier + half) >> shift in 64 bits. Products of even and of odd lanes are apart, and those of the odd
  end in the upper half. 2^62 is added with the half, so that a shift without sign serves chips that lack another; what
  that leaves is taken off in 32 bits, together with the zero.
- `mean`: an average of `count` sums: (|x| + count / 2) / count rounded down, and the sign of x put back: to the
  nearest, ties away from zero. The quotient is a product and a shift, exact for |x| to 2^29 and counts to 2^20.
- `twice`: TFLite's reference rule. x * multiplier / 2^31 to the nearest, ties up; then / 2^shift to the nearest, ties
  away from zero: (x + (x >> 31) + half) >> shift in 32 bits.

A stage is chosen by numbers (`choose`), exact over the whole range that the accumulators of a channel have. Where the
lowest code is the zero's (ReLU), what is negative does not matter, and both roundings of `twice` are one shift.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.bitops.builder import View
from bittern.bitops.handle import Handle
from bittern.kernels.tiles import ROWS

Ints = npt.NDArray[Any]

VECTOR = 64  # bytes
_ABOVE = 1 << 62
_WORD = 32  # bits
USED = 7  # vectors of a record that each result uses, at most
_ONCE = (*((k, "i32x16") for k in (1, 2, 7)), *((k, "u64x8") for k in (3, 4, 5, 6)))
_TWICE = (*((k, "i32x16") for k in (1, 2, 3, 5, 6)), *((k, "u32x16") for k in (4, 7)))
_VECTORS = {"sum": 1, "once": 8, "twice": 8, "mean": 2}
_ODD = tuple(k % 2 == 1 for k in range(ROWS))


@dataclass(frozen=True, slots=True)
class Stage:
    """How accumulators become results.

    way: see the module. element: of the results. low, high: codes to clamp to. left: `twice` shifts x left first.
    exact: `twice` has channels whose second shift is 0. count: of `mean`. short: `once` has shifts below 32. nudges: so
    many accumulators of each channel get a number added first, each where it is equal to one.
    """

    way: str
    element: str = "i32"
    low: int = 0
    high: int = 0
    left: bool = False
    exact: bool = False
    count: int = 1
    short: bool = False
    nudges: int = 0

    @property
    def vectors(self) -> int:
        """Vectors of the record of a tile of channels."""
        return _VECTORS[self.way] + 2 * self.nudges

    @property
    def record_bytes(self) -> int:
        """Bytes of the record of a tile of channels."""
        return VECTOR * self.vectors

    @property
    def bytes(self) -> int:
        """Bytes of one result."""
        return 4 if self.element == "i32" else 1

    def arguments(self) -> tuple[str, str, int, int, bool, bool, int, bool, int]:
        """Return the stage in plain values, for a recipe."""
        clamp = (self.low, self.high)
        return (self.way, self.element, *clamp, self.left, self.exact, self.count, self.short, self.nudges)


SUM = Stage("sum")


@dataclass(slots=True)
class Record:
    """The record of a tile of channels, in memory. at, offset: its place. held: how many vectors registers keep."""

    stage: Stage
    view: View
    at: Handle
    offset: int = 0
    held: int = 0
    _kept: dict[int, Handle] = field(default_factory=dict)

    def bias(self) -> Handle:
        """Load what sums start from, i32x16."""
        return self.view.load("i32x16", self.at, offset=self.offset)

    def vector(self, number: int, type_: str) -> Handle:
        """Return a vector; each number is always asked for with one type."""
        if number in self._kept:
            return self._kept[number]
        loaded = self.view.load(type_, self.at, offset=self.offset + VECTOR * number)
        if len(self._kept) < self.held and number < _VECTORS[self.stage.way]:
            self._kept[number] = loaded
        return loaded

    def keep(self) -> None:
        """Load all that results use now, for a loop that follows."""
        stage = self.stage
        used = {"once": _ONCE, "twice": _TWICE}.get(stage.way, ())
        for number, type_ in used:
            is_left = stage.way == "twice" and number == 7
            is_exact = stage.way == "twice" and number == 6
            if (stage.left or not is_left) and (stage.exact or not is_exact):
                self.vector(number, type_)


def results(record: Record, x: Handle) -> Handle:
    """Make results of accumulators. x: i32x16 -> x16 of the stage's element."""
    stage, vector = record.stage, record.vector
    if stage.way == "sum":
        return x
    if stage.way == "mean":
        return clamped(_mean(x, stage.count), stage)
    if stage.left:
        x = x << vector(7, "u32x16")
    given, first = x, _VECTORS[stage.way]
    for k in range(first, first + 2 * stage.nudges, 2):
        b = x.builder
        x = x + b.select(given.eq(vector(k, "i32x16")), vector(k + 1, "i32x16"), 0)
    if stage.way == "once":
        even, odd = _products(x, vector(1, "i32x16"), vector(2, "i32x16"))
        even, odd = even + vector(3, "u64x8") >> vector(5, "u64x8"), odd + vector(4, "u64x8") >> vector(6, "u64x8")
        y = _merged(even, odd << 32 if stage.short else odd)
        y = y + vector(7, "i32x16")
    else:
        y = high_products(x, vector(1, "i32x16"), vector(2, "i32x16"))
        sign = y >> 31
        if stage.exact:
            sign = sign & vector(6, "i32x16")
        y = (y + sign + vector(3, "i32x16") >> vector(4, "u32x16")) + vector(5, "i32x16")
    return clamped(y, stage)


def high_products(x: Handle, even: Handle, odd: Handle) -> Handle:
    """Make x * factor / 2^31 to the nearest, ties up. x: i32x16. even, odd: the factors, in even lanes both."""
    first, second = _products(x, even, odd)
    half = 1 << 30
    return _merged(first + half >> 31, second + half << 1)


def _products(x: Handle, even: Handle, odd: Handle) -> tuple[Handle, Handle]:
    """Make the exact products of the even and of the odd lanes, u64x8 each."""
    moved = (x.reinterpret("u64") >> 32).reinterpret("i32")
    return x.binary("mul_wide", even).reinterpret("u64"), moved.binary("mul_wide", odd).reinterpret("u64")


def _merged(even: Handle, odd: Handle) -> Handle:
    """Put the low halves of even and the high halves of odd 64 bits in turn: i32x16."""
    b = even.builder
    return b.select(b.const(f"bitx{ROWS}", _ODD), odd.reinterpret("i32"), even.reinterpret("i32"))


def _mean(x: Handle, count: int) -> Handle:
    """Divide sums by a count. count: at most 2^20. x: i32x16, of at most 2^29."""
    down = 30 + (count - 1).bit_length()
    factor = -(-(1 << down) // count)  # below 2^31; what it is too large by is below count / 2^down
    assert count <= 1 << 20 and factor < 1 << 31, count
    sign = x >> 31
    size = (x ^ sign) - sign + count // 2
    even, odd = _products(size, size.like(factor), size.like(factor))
    return (_merged(even >> down, odd >> down << 32) ^ sign) - sign


def clamped(y: Handle, stage: Stage) -> Handle:
    """Make codes of numbers. y: i32x16."""
    if stage.element == "i8":
        y = y.sat("i8")
        y = y if stage.low == -128 else y.max(stage.low)
        return y if stage.high == 127 else y.min(stage.high)
    return y.max(stage.low).min(stage.high).wrap(stage.element)


# --- records, made of constants when a plan is made


@dataclass(frozen=True, slots=True)
class Rounding:
    """One rule of rounding for each channel. multiplier, shift: [m]. zero: that is added. low, high: of the codes.

    twice: TFLite's two roundings; then shift counts after the 31 bits of the first, and a negative one goes left. Of
    one rounding: half, [m]: what is added before the shift, 2^shift / 2 if it is None. nudges: ([m], [m]): where an
    accumulator is equal to the first, the second is added to it; the first of one channel differ. limit: [m], the most
    that accumulators may reach for the rule to be what it was made from.
    """

    multiplier: Ints
    shift: Ints
    zero: int
    low: int
    high: int
    element: str
    twice: bool = False
    half: Ints | None = None
    nudges: tuple[tuple[Ints, Ints], ...] = ()
    limit: Ints | None = None

    def of(self, channels: slice) -> "Rounding":
        """Return the rule of some channels."""
        return replace(
            self,
            multiplier=self.multiplier[channels],
            shift=self.shift[channels],
            half=None if self.half is None else self.half[channels],
            nudges=tuple((at[channels], by[channels]) for at, by in self.nudges),
            limit=None if self.limit is None else self.limit[channels],
        )

    def repeated(self, count: int) -> "Rounding":
        """Return the rule of the first channel for so many."""
        first = self.of(slice(0, 1))
        many = np.zeros(count, np.int64)
        return replace(first, multiplier=many + first.multiplier, shift=many + first.shift)

    @property
    def added(self) -> Ints:
        """What is added before the shift of one rounding, [m] i64."""
        return (1 << self.shift.astype(np.int64)) >> 1 if self.half is None else self.half


def choose(rounding: Rounding, bound: Ints) -> Stage | None:
    """Return the stage of a rounding, None where none is exact. bound: [m], the most that accumulators reach, i64."""
    multiplier, shift = rounding.multiplier.astype(np.int64), rounding.shift.astype(np.int64)
    if rounding.limit is not None and (bound > rounding.limit).any():
        return None
    if rounding.nudges:
        bound = bound + sum(np.abs(by) for _, by in rounding.nudges)
    right, left = np.maximum(shift, 0), np.maximum(-shift, 0)
    reach = _reach(bound, left, multiplier, 31 if rounding.twice else 0, right)
    if (multiplier < 0).any() and rounding.twice:
        return None
    if reach is None or (31 if rounding.twice else 0) + int(right.max(initial=0)) > 62:
        return None
    common = (rounding.element, rounding.low, rounding.high)
    if not rounding.twice:
        added = np.abs(rounding.added)
        beyond = bool(left.any() or (added >= _ABOVE >> 1).any() or (added >> shift >= 1 << 29).any())
        short = bool((right < _WORD).any())
        return None if beyond or reach >= 1 << 30 else Stage("once", *common, short=short, nudges=len(rounding.nudges))
    if not left.any() and (rounding.low >= rounding.zero or not right.any()):
        return Stage("once", *common, short=bool((right == 0).any()))
    if left.any() and (right == 0).any():
        return Stage("twice", *common, left=True, exact=True)
    return Stage("twice", *common, left=bool(left.any()), exact=bool((right == 0).any()))


def _reach(bound: Ints, left: Ints, multiplier: Ints, first: int, right: Ints) -> int | None:
    """Return the most that any step in 32 bits reaches, or None if that does not fit."""
    most = 0
    rows = np.stack(np.broadcast_arrays(bound, left, multiplier, right), axis=1).tolist()
    for x, up, factor, down in rows:
        moved = int(x) << int(up)
        scaled = (moved * abs(int(factor)) >> first) + 1
        most = max(most, *((moved, scaled + (1 << int(down))) if first else ((scaled >> int(down)) + 1,)))
    return most if most + 512 < 1 << 31 else None


def records(stage: Stage, bias: Ints, rounding: Rounding | None = None) -> Ints:
    """Return the records of all tiles. bias: [m] i64 or i32, modulo 2^32. -> u8."""
    tiles = -(-len(bias) // ROWS)

    def padded(numbers: Ints, beyond: int = 0) -> Ints:
        made = np.full(tiles * ROWS, beyond, np.int64)
        made[: len(bias)] = numbers
        return made.reshape(tiles, ROWS)

    made = np.zeros((tiles, stage.vectors, VECTOR), np.uint8)
    _put(made, 0, padded(bias), np.uint32)
    if rounding is None or stage.way == "sum":
        return made.reshape(-1)
    multiplier, shift = padded(rounding.multiplier), padded(rounding.shift, 1 if rounding.twice else _WORD)
    _put(made, 1, multiplier, np.uint32)
    _put(made, 2, np.where(np.arange(ROWS) % 2 == 0, np.roll(multiplier, -1, axis=1), 0), np.uint32)
    if stage.way == "once":
        whole = shift + 31 if rounding.twice else shift
        half = (1 << whole) >> 1 if rounding.twice else padded(rounding.added)
        if rounding.twice:
            half = np.where(shift > 0, half + (1 << 30), half)
        for k, (at, by) in enumerate(rounding.nudges):
            _put(made, _VECTORS["once"] + 2 * k, padded(at), np.uint32)
            _put(made, _VECTORS["once"] + 2 * k + 1, padded(by), np.uint32)
        for k in range(2):
            _put(made, 3 + k, (half + _ABOVE)[:, k::2], np.uint64)
        _put(made, 5, whole[:, ::2], np.uint64)
        _put(made, 6, whole[:, 1::2] - (0 if stage.short else _WORD), np.uint64)
        _put(made, 7, rounding.zero - (_ABOVE >> whole), np.uint32)
        return made.reshape(-1)
    right = np.maximum(shift, 0)
    _put(made, 3, (1 << right) >> 1, np.uint32)
    _put(made, 4, right, np.uint32)
    _put(made, 5, np.full_like(right, rounding.zero), np.uint32)
    _put(made, 6, np.where(right > 0, -1, 0), np.uint32)
    _put(made, 7, np.maximum(-shift, 0), np.uint32)
    return made.reshape(-1)


def _put(made: Ints, vector: int, numbers: Ints, dtype: Any) -> None:
    """Write numbers, modulo the width of the dtype, as a vector of each record."""
    made[:, vector] = np.ascontiguousarray(numbers.astype(np.int64).astype(dtype)).view(np.uint8)


def rounded(x: Ints, rounding: Rounding) -> Ints:
    """Return the codes of accumulators by the rule itself, in exact integers. x: [..., m] -> the same shape, i64."""
    wide = x.astype(object)
    multiplier, shift = (each.astype(object) for each in (rounding.multiplier, rounding.shift))
    if not rounding.twice:
        moved = wide + sum(np.where(wide == at, by, 0) for at, by in rounding.nudges)
        y = (moved * multiplier + rounding.added.astype(object)) >> shift
    else:
        left, right = np.maximum(-shift, 0), np.maximum(shift, 0)
        near = ((wide << left) * multiplier + (1 << 30)) >> 31
        rest, mask = near & ((1 << right) - 1), (1 << right) - 1
        y = (near >> right) + (rest > (mask >> 1) + (near < 0))
    made: Ints = np.clip((y + rounding.zero).astype(np.int64), rounding.low, rounding.high)
    return made


def stage_of(arguments: Sequence[Any]) -> Stage:
    """Return the stage of the plain values of a recipe."""
    return Stage(*arguments)
