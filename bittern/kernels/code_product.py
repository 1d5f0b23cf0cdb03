"""Products of weights of few bits with codes of up to 8 bits, four at a time, for layers that end in packed bits.

A round first copies its windows as patches: the bytes of each behind each other, filled up to whole groups of four. A
lane is a row of weights, with four weights; a group of a patch meets all rows. Signed codes are copied with their top
bit turned over, so that they are 128 more: what that adds is taken off by thresholds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bittern.bitops.builder import View
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels.field import Field
from bittern.kernels.limits import Array
from bittern.kernels.window_product import WindowProduct
from bittern.kernels.window_results import VECTORS, Arithmetic, Pair, Stage

LANES = 16
FLIP = 128  # what is added to signed codes
_GROUP = 4  # codes
_SIDE = 8  # samples of a dense layer that are copied together, at most
_VECTOR = 64  # bytes


@dataclass(frozen=True, slots=True)
class Codes:
    """What is read: [samples, height, width, channels] of u8 or i8. padding: the code outside."""

    element: str
    channels: int
    padding: int = 0


def groups(field: Field, channels: int) -> int:
    """Return the groups of a window."""
    return -(-field.taps * channels // _GROUP)


def code_arithmetic(field: Field, channels: int) -> Arithmetic:
    """Return the arithmetic of a window's groups."""
    return Arithmetic("codes", "u32", LANES, "i32x16", groups(field, channels), 1, 1, ((Pair(0, 0),),), _add, 1)


def _add(total: Handle, w: Sequence[Handle], x: Handle, pair: Pair) -> Handle:
    return x.reinterpret("u8").dot(w[0].reinterpret("i8"), total)


def packed_codes(w: Array) -> Array:
    """Pack weights. w: [m, taps, channels] i8 -> u32, flat: [tiles, groups, 2, 16], four weights each."""
    m = len(w)
    rows = w.reshape(m, -1)
    count, tiles = -(-rows.shape[1] // _GROUP), -(-m // (VECTORS * LANES))
    whole = np.zeros((tiles * VECTORS * LANES, count * _GROUP), np.int8)
    whole[:m, : rows.shape[1]] = rows
    lanes = whole.view(np.uint32).reshape(tiles, VECTORS, LANES, count)
    return np.ascontiguousarray(lanes.transpose(0, 3, 1, 2)).reshape(-1)


def code_base(w: Array, element: str) -> Array:
    """Return what is to be added to sums. w: [m, taps, channels] -> [1, m] i64."""
    flip = FLIP if element == "i8" else 0
    found: Array = -flip * w.sum(axis=(1, 2), dtype=np.int64)[None]
    return found


def code_counts(w: Array) -> tuple[int, int]:
    """Return bounds of the sums."""
    most = 255 * int(np.abs(w.astype(np.int64)).sum(axis=(1, 2)).max(initial=0))
    return -most, most


def near_bytes(field: Field, channels: int) -> int:
    """Return the bytes that a round copies."""
    return field.window[0] * field.padded_width * channels + 4 * groups(field, channels) * max(field.out[1], _SIDE)


def code_product(field: Field, codes: Codes, m: int, stage: Stage, samples: int | None = None) -> Kernel:
    """Return the kernel of m rows of weights. Buffers: see `WindowProduct`; x: as `codes` says, w: `packed_codes`."""
    return _CodeProduct(field, codes, m, stage, samples).kernel()


class _CodeProduct(WindowProduct):
    def __init__(self, field: Field, codes: Codes, m: int, stage: Stage, samples: int | None) -> None:
        self.codes = codes
        super().__init__(field, m, code_arithmetic(field, codes.channels), stage, (), samples)

    def _inputs(self) -> None:
        """Declare what is read; patches are places of a field of their own."""
        b, field, channels = self.b, self.field, self.codes.channels
        self.is_dense = field.places == 1 and field.size == field.window and not field.is_padded
        self.seen, self.each, self.row_units = Field(), _GROUP, 0
        self.step = _GROUP * self.arithmetic.inner
        self.flip = FLIP if self.codes.element == "i8" else 0
        self.x = b.buffer("x", self.codes.element, self.samples * (field.size[0] * field.size[1] * channels), "read")
        if not self.is_dense:
            self.line = field.padded_width * channels
            self.lines = b.buffer("lines", "u8", field.window[0] * self.line, "scratch")
        self.patches = b.buffer("patches", "u8", self.step * (_SIDE if self.is_dense else field.out[1]), "scratch")
        self.near = self.patches

    def _samples(self, sample: Handle, side: int) -> Handle:
        """Copy some samples of a dense layer."""
        size = self.field.taps * self.codes.channels
        with self.b.loop(0, side) as loop:
            (slot,) = loop
            self._begin_patch(slot * self.step)
            _move(self.patches, slot * self.step, self.x, (sample + slot) * size, size, self.flip)
        return self.b.index(0)

    def _windows(self, sample: Handle, row: Handle) -> Handle:
        """Copy a row of windows."""
        b, field, channels = self.b, self.field, self.codes.channels
        with b.loop(0, field.window[0]) as loop:
            (k,) = loop
            self._copy_line(k * self.line, sample, row * field.strides[0] + k * field.dilations[0] - field.before[0])
        pieces, size = (field.window[1], channels) if field.dilations[1] > 1 else (1, field.window[1] * channels)
        with b.loop(0, field.out[1]) as across:
            (column,) = across
            to, first = column * self.step, column * (field.strides[1] * channels)
            self._begin_patch(to)
            with b.loop(0, field.window[0]) as down, b.loop(0, pieces) as taps:
                (k,), (tap,) = down, taps
                source = first + k * self.line + tap * (field.dilations[1] * channels)
                _move(self.patches, to + k * (pieces * size) + tap * size, self.lines, source, size)
        return b.index(0)

    def _begin_patch(self, patch: Handle) -> None:
        """Write zeros behind the bytes of a patch, before these are written."""
        if self.field.taps * self.codes.channels % _GROUP:
            self.patches.store(patch, self.b.const("u32", 0), offset=self.step - _GROUP)

    def _copy_line(self, to: Handle, sample: Handle, row: Handle) -> None:
        """Copy a row of the image, with padding around it. row: may be outside."""
        b, field, channels = self.b, self.field, self.codes.channels
        size, front = field.size[1] * channels, field.before[1] * channels
        if not field.is_padded:
            _move(self.lines, to, self.x, (sample * field.size[0] + row) * size, size, self.flip)
            return
        inside = b.branch((row >= 0) & (row < field.size[0]))
        with inside.yes, b.when(row >= 0), b.when(row < field.size[0]):
            self._fill(to, front)
            _move(self.lines, to + front, self.x, (sample * field.size[0] + row) * size, size, self.flip)
            self._fill(to + (front + size), field.after[1] * channels)
        with inside.no:
            self._fill(to, self.line)

    def _fill(self, to: Handle, size: int) -> None:
        """Write padding."""
        b, byte = self.b, (self.codes.padding ^ self.flip) & 255
        if whole := size // _VECTOR * _VECTOR:
            with b.loop(0, whole, _VECTOR) as loop:
                (k,) = loop
                self.lines.store(to + k, b.const(f"u8x{_VECTOR}", byte))
        for place, count in _rest(size):
            self.lines.store(to, b.const("u8" if count == 1 else f"u8x{count}", byte), offset=place)


def _move(view: View, to: Handle, source: View, place: Handle, size: int, flip: int = 0) -> None:
    """Copy bytes, with some bits of each turned over."""
    b = view.builder
    if whole := size // _VECTOR * _VECTOR:
        with b.loop(0, whole, _VECTOR) as loop:
            (k,) = loop
            view.store(to + k, _flipped(source.load(f"u8x{_VECTOR}", place + k), flip))
    for at, count in _rest(size):
        loaded = source.load("u8" if count == 1 else f"u8x{count}", place, offset=at)
        view.store(to, _flipped(loaded, flip), offset=at)


def _flipped(x: Handle, flip: int) -> Handle:
    return x ^ flip if flip else x


def _rest(size: int) -> list[tuple[int, int]]:
    """Return (place, bytes) of the powers of two that a size has behind its whole vectors."""
    found, place = list[tuple[int, int]](), size // _VECTOR * _VECTOR
    for count in (32, 16, 8, 4, 2, 1):
        if size & count:
            found.append((place, count))
            place += count
    return found
