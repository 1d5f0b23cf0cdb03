"""Numbers beside packed weights: what a kernel compares its sums with, or adds to them, computed when a plan is made.

A kernel counts; a dot is `base + scale * count`, with a base for each row, and for each class of places where windows
reach over edges padded with exact zeros. A threshold of dots becomes an interval of counts, and that one comparison:
low <= count <= high is (count - low) <= high - low, unsigned.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.kernels.field import Field

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """Tables of a kernel, flat, [classes, thresholds, rows]: a sum is inside if (sum + add) <= limit, unsigned."""

    add: Array
    limit: Array


@dataclass(frozen=True, slots=True)
class Classes:
    """Classes of places. number: [places] u32, of each place. valid: [classes, taps]: what is no padding."""

    number: Array
    valid: Array


def classes_of(field: Field, exact: bool) -> Classes:
    """Tell the places apart by which of their taps are padding. exact: padding adds nothing; if not, all are alike."""
    if not exact or not field.is_padded:
        return Classes(np.zeros(field.places, np.uint32), np.ones((1, field.taps), np.bool_))
    rows = np.array([field.inside(0, k) for k in range(field.out[0])])
    columns = np.array([field.inside(1, k) for k in range(field.out[1])])
    taps = rows[:, None, :, None] & columns[None, :, None, :]
    valid, number = np.unique(taps.reshape(field.places, field.taps), axis=0, return_inverse=True)
    return Classes(number.reshape(-1).astype(np.uint32), valid)


def limits(base: Array, scale: int, at: Array, falling: Array, counts: tuple[int, int], rows: int, unit: str) -> Limits:
    """Return the tables of thresholds.

    base: [classes, m] i64. scale: of counts. at: [m, k]: x >= at is inside, or, where falling, [m], x <= at. counts:
    the least and greatest count that there is. rows: of the tables; those behind m are never inside.
    """
    at = np.where(falling[:, None], -np.sort(-at.astype(np.int64), axis=1), np.sort(at.astype(np.int64), axis=1))
    rest = at.T[None] - base[:, None]  # [classes, k, m]
    above = np.broadcast_to((~falling)[None, None], rest.shape) == (scale > 0)
    rest, step = (rest, scale) if scale > 0 else (-rest, -scale)
    low = np.where(above, -(-rest // step), counts[0])
    high = np.where(above, counts[1], rest // step)
    low, high = np.maximum(low, counts[0]), np.minimum(high, counts[1])
    never = low > high
    low, high = np.where(never, counts[1] + 1, low), np.where(never, counts[1] + 1, high)
    wide = np.full((*rest.shape[:2], rows), counts[1] + 1, np.int64)
    add, limit = -wide, np.zeros_like(wide)
    add[..., : rest.shape[2]], limit[..., : rest.shape[2]] = -low, high - low
    dtype = np.uint64 if unit == "u64" else np.uint32
    return Limits(add.astype(dtype).reshape(-1), limit.astype(dtype).reshape(-1))


def bases(base: Array, rows: int) -> Array:
    """Return the table of what counts are added to. base: [classes, m] i64 -> [classes * rows] i32, wrapped."""
    wide = np.zeros((base.shape[0], rows), np.int64)
    wide[:, : base.shape[1]] = base
    return wide.astype(np.int32).reshape(-1)


def sign_base(w: Array, valid: Array, alpha: int, beta: int, total: int, is_planes: bool) -> Array:
    """Return the bases of `sign_product`. w: [m, taps, channels]. total: of the coefficients. -> [classes, m] i64."""
    sums = w.sum(axis=2, dtype=np.int64)
    found: Array = beta * (sums @ valid.T.astype(np.int64)).T
    if not is_planes:
        found = found + alpha * total * (w > 0).sum(axis=(1, 2), dtype=np.int64)[None]
    return found


def sign_counts(w: Array, total: int, is_planes: bool) -> tuple[int, int]:
    """Return bounds of the counts of `sign_product`."""
    most = int(np.abs(w.astype(np.int64)).sum(axis=(1, 2)).max(initial=0)) * total
    return (-most if is_planes else 0), most


def coded(planes: Sequence[Sequence[int]], thresholds: int) -> list[int]:
    """Return the number that planes hold for 0, 1, ... thresholds reached, the first plane counting once."""
    return [
        sum((sum(number < reached for number in plane) & 1) << k for k, plane in enumerate(planes))
        for reached in range(thresholds + 1)
    ]
