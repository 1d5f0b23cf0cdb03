"""Comparing floats with thresholds, packed to words: the first step of a network whose input is quantised to few bits.

A threshold is a number and a way: x >= it, or x <= it; what a NaN gives is stated beside. Places lie as those of
`window_product`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bittern.bitops.builder import Builder
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels.window_results import words
from bittern.types.dims import dim

_LANES = 16
_WORD = 64
_INFINITE = 0x7F800000


@dataclass(frozen=True, slots=True)
class Limit:
    """One threshold. bits: of the f32 number. falls: x <= it is reached, not x >= it. nan: whether a NaN reaches it."""

    bits: int
    falls: bool = False
    nan: bool = False


def bits_of_numbers(
    channels: int, limits: Sequence[Limit], planes: Sequence[Sequence[int]], places: int | None
) -> Kernel:
    """Return the kernel of places of so many channels. planes: for each the limits that are added up modulo 2.

    places: how many; None makes them the symbol `t`.
    Buffers: x: f32 [places, channels], y: u64 [places, planes, words].
    """
    b = Builder(f"bits_of_numbers_{channels}", () if places is not None else ("t",))
    count, span = dim(places) if places is not None else b.dims[0], len(planes) * words(channels)
    x = b.buffer("x", "f32", count * channels, "read")
    y = b.buffer("y", "u64", count * span, "write")

    def word(place: Handle, first: Handle, left: int) -> None:
        """Pack a word. first: its number. left: channels that there are for it."""
        found: list[Handle | None] = [None] * len(limits)
        for part in range(-(-min(left, _WORD) // _LANES)):
            rest = left - part * _LANES
            mask = b.first(b.index(rest), _LANES) if rest < _LANES else None
            numbers = x.load("f32x16", place * channels + first * _WORD, mask, offset=4 * _LANES * part)
            for k, limit in enumerate(limits):
                truth = _reached(numbers, limit)
                truth = truth if mask is None else truth & mask
                bits = truth.mask_word() << _LANES * part if part else truth.mask_word()
                before = found[k]
                found[k] = bits if before is None else before | bits
        for number, plane in enumerate(planes):
            total = found[plane[0]]
            for k in plane[1:]:
                total = total ^ found[k]  # type: ignore[operator]
            assert total is not None
            y.store(place * span + first, total, offset=8 * number * words(channels))

    with b.parallel(0, count) as place:
        whole = channels // _WORD
        if whole:
            with b.loop(0, whole) as loop:
                (first,) = loop
                word(place, first, _WORD)
        if channels % _WORD:
            word(place, b.index(whole), channels % _WORD)
    return b.build()


def _reached(numbers: Handle, limit: Limit) -> Handle:
    """Compare; the other way round and turned over, a comparison is true of a NaN."""
    if limit.bits & 0x7FFFFFFF > _INFINITE:  # no number reaches it
        never = numbers.ne(numbers) if limit.nan else numbers < -np.inf
        return never
    at = float(np.array([limit.bits], np.uint32).view(np.float32)[0])
    if limit.nan:
        return ~(numbers > at) if limit.falls else ~(numbers < at)
    return numbers <= at if limit.falls else numbers >= at
