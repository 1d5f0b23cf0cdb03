"""Codes of a matrix: scales for the whole of it, for each row, or for each group of columns; rounding to nearest.

In: a matrix of weights [rows, columns], a row for each output channel, and a scheme. Out: codes, scales, zero points,
and back. One rounding each: x / scale in f32, then to nearest even; scale * (code - zero) in f32, the difference exact.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.front.quantise.ordered import decibels, ordered_sum
from bittern.front.quantise.samples import samples
from bittern.front.quantise.scales import fit
from bittern.front.quantise.widths import Grid, Width, grid

BAD_GRANULARITY = code("N415", "the granularity of scales is unknown or impossible")

Floats: TypeAlias = npt.NDArray[np.float32]
Codes: TypeAlias = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Scheme:
    """How a matrix is quantised. granularity: `tensor`, `channel`, or the number of columns of a group as digits."""

    width: Width
    symmetric: bool = True
    granularity: str = "channel"
    method: str = "max"
    percentile: float = 99.99

    @property
    def grid(self) -> Grid:
        """The codes. Errors: N412."""
        return grid(self.width, self.symmetric)

    @property
    def group(self) -> int:
        """The columns of a group; 0 where a scale covers whole rows. Errors: N415."""
        if self.granularity in ("tensor", "channel"):
            return 0
        if not (self.granularity.isascii() and self.granularity.isdecimal()) or not 0 < int(self.granularity) < 1 << 31:
            raise BitternError(
                BAD_GRANULARITY,
                f"`{self.granularity}` says not how many weights share a scale.",
                "Give `tensor`, `channel`, or the columns of a group, such as 32.",
            )
        return int(self.granularity)


@dataclass(frozen=True, slots=True)
class Scales:
    """Scales and zero points: [1, 1], [rows, 1] or [rows, groups]. group: columns of a group, 0 for all."""

    scale: Floats
    zero: npt.NDArray[np.int32]
    group: int = 0

    def spread(self, columns: int) -> tuple[Floats, npt.NDArray[np.int32]]:
        """Return scale and zero point by column: [1 or rows, 1 or columns]. A last group may be shorter."""
        if not self.group:
            return self.scale, self.zero
        return np.repeat(self.scale, self.group, 1)[:, :columns], np.repeat(self.zero, self.group, 1)[:, :columns]


def scales_of(matrix: npt.NDArray[Any], scheme: Scheme) -> Scales:
    """Return the scales of a matrix by the scheme's method. Errors: N412 to N415."""
    columns = matrix.shape[1]
    group = scheme.group
    if group:
        parts = [[row[low : low + group] for low in range(0, columns, group)] for row in matrix]
    else:
        parts = [[row] for row in matrix] if scheme.granularity == "channel" else [[matrix]]
    found = [[fit(samples(part), scheme.grid, scheme.method, scheme.percentile) for part in row] for row in parts]
    scale = np.array([[one.scale for one in row] for row in found], np.float32)
    zero = np.array([[one.zero for one in row] for row in found], np.int32)
    return Scales(scale, zero, group)


def nearest_codes(matrix: npt.NDArray[Any], scales: Scales, grid: Grid) -> Codes:
    """Return the codes nearest to the values; ties to the even one. Of b1: -1 below 0, else +1."""
    if grid.signs:
        return np.where(matrix < 0, -1, 1).astype(np.int16)
    scale, zero = scales.spread(matrix.shape[1])
    with np.errstate(over="ignore"):
        whole = np.rint(matrix.astype(np.float32) / scale)
    return np.asarray(np.clip(whole.astype(np.float64) + zero, grid.low, grid.high), np.int16)


def values_of(codes: npt.NDArray[Any], scales: Scales) -> Floats:
    """Return the values of codes: scale * (code - zero), one rounding."""
    scale, zero = scales.spread(codes.shape[1])
    return np.asarray(scale * (codes.astype(np.int32) - zero).astype(np.float32), np.float32)


def sqnr(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> float | None:
    """Return the signal-to-quantisation-noise ratio of y against x in decibels; None where they are equal."""
    signal = x.astype(np.float64).reshape(-1)
    noise = signal - y.astype(np.float64).reshape(-1)
    return decibels(float(ordered_sum(signal * signal)), float(ordered_sum(noise * noise)))
