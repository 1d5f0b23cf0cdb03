"""Scales and zero points from samples: by the largest value, a percentile, the least squared error, or KL divergence.

In: samples of one group of values, and the grid of codes. Out: a scale (f32) and a whole zero point. How each is found:

    max         the range of all values; with a zero point it holds 0, so that 0 is exact
    percentile  the range without the outermost share: of magnitudes where symmetric, else half of it at each end
    mse         the least sum of squared errors, exactly: between the scales at which a code changes the error is a
                parabola, so all parabolas are tried; with a zero point, for each zero point tried
    kl          the range whose codes tell the least less than the values do: relative entropy of the histograms of
                magnitudes (Migacz 2017, 8-bit inference with TensorRT)

b1 has one magnitude and no ranges: its scale is the mean magnitude, which is also its least squared error (Rastegari
et al. 2016). All zeros get scale 1 (b1: 2^-100), so that no division is without meaning. Infinities and NaN: N413.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from bittern.base.errors import BitternError, code, nearest
from bittern.front.quantise.ordered import Array, log, ordered_sum
from bittern.front.quantise.samples import Samples
from bittern.front.quantise.widths import Grid

NOT_FINITE = code("N413", "values to be quantised hold an infinity or a NaN")
UNKNOWN_METHOD = code("N414", "there is no such way to find a scale")

METHODS = ("max", "percentile", "mse", "kl")
TINY = 2.0**-100  # the least scale
_BREAKS = 1 << 22  # of one exact search; with more, values are counted on a grid first
_COARSE = 1 << 12  # its points
_BINS = 2048  # of a histogram of magnitudes
_ZERO_POINTS = 8  # tried on each side of that of the range, where there are more than 16


@dataclass(frozen=True, slots=True)
class Scale:
    """value = scale * (code - zero). scale: an f32 above 0, as a Python float."""

    scale: float
    zero: int


def fit(samples: Samples, grid: Grid, method: str = "max", percentile: float = 99.99) -> Scale:
    """Return the scale and zero point of one group of values. percentile: above 50, for the method of that name.

    Errors: N413, N414.
    """
    if method not in METHODS:
        raise BitternError(UNKNOWN_METHOD, f"`{method}` is no way to find a scale.", nearest(method, list(METHODS)))
    if not np.isfinite(samples.values).all():
        raise BitternError(
            NOT_FINITE, "The values to be quantised hold an infinity or a NaN.", "Mend the model or the data."
        )
    if grid.signs:
        return _mean_magnitude(samples)
    low, high = _bounds(samples)
    if method == "percentile":
        low, high = _percentile(samples, grid, percentile)
    elif method == "kl":
        low, high = _least_divergence(samples, grid)
    elif method == "mse":
        return _least_error(samples, grid)
    return _of_range(low, high, grid)


def _bounds(samples: Samples) -> tuple[float, float]:
    return (float(samples.values[0]), float(samples.values[-1])) if len(samples.values) else (0.0, 0.0)


def _single(value: float) -> float:
    """Return a scale as f32, at least the least one."""
    with np.errstate(over="ignore"):
        rounded = float(np.float32(value))
    return min(max(rounded, TINY), float(np.finfo(np.float32).max))


def _of_range(low: float, high: float, grid: Grid) -> Scale:
    """Return the scale whose codes reach over a range."""
    if grid.symmetric:
        largest = max(-low, high)
        return Scale(_single(largest / grid.high) if largest else 1.0, 0)
    low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        return Scale(1.0, 0)
    scale = _single((high - low) / (grid.high - grid.low))
    zero = grid.low + round(-low / scale)
    return Scale(scale, min(max(zero, grid.low), grid.high))


def _mean_magnitude(samples: Samples) -> Scale:
    total = float(ordered_sum(np.abs(samples.values) * samples.counts))
    return Scale(_single(total / samples.total) if total else TINY, 0)


def _percentile(samples: Samples, grid: Grid, percentile: float) -> tuple[float, float]:
    """Return the range without the outermost share; the least values whose rank reaches the percentile."""
    share = Fraction(str(percentile)) / 100
    if grid.symmetric:
        magnitudes = np.abs(samples.values)
        order = np.argsort(magnitudes, kind="stable")
        largest = _ranked(magnitudes[order], samples.counts[order], share)
        return -largest, largest
    tail = (1 - share) / 2
    high = _ranked(samples.values, samples.counts, 1 - tail)
    low = -_ranked(-samples.values[::-1], samples.counts[::-1], 1 - tail)
    return low, high


def _ranked(values: Array, counts: Array, share: Fraction) -> float:
    """Return the least value such that at least the share of all values is no greater. values: ascending."""
    if not len(values):
        return 0.0
    until = np.cumsum(counts)  # whole numbers: exact
    return float(values[np.searchsorted(until, max(1, ceil(share * int(until[-1]))))])


# Least squared error.


def _least_error(samples: Samples, grid: Grid) -> Scale:
    samples = _coarse(samples, grid)
    if not np.any(samples.values):
        return Scale(1.0, 0)
    best: tuple[float, Scale] | None = None
    for zero in _zero_points(samples, grid):
        gain, scale = _best_scale(samples, zero - grid.low, grid.high - zero)
        if scale > 0 and (best is None or gain > best[0]):
            best = gain, Scale(_single(scale), zero)
    return best[1] if best else _of_range(*_bounds(samples), grid)


def _coarse(samples: Samples, grid: Grid) -> Samples:
    """Count values on a grid of magnitudes where there are too many for the exact search."""
    if len(samples.values) * (grid.high - grid.low) <= _BREAKS:
        return samples
    step = float(np.abs(samples.values).max()) / _COARSE
    places = np.rint(samples.values / step).astype(np.int64) + _COARSE
    counts = np.bincount(places, weights=samples.counts, minlength=2 * _COARSE + 1)  # whole numbers: exact
    (kept,) = np.nonzero(counts)
    return Samples((kept - _COARSE).astype(np.float64) * step, counts[kept].astype(np.float64))


def _zero_points(samples: Samples, grid: Grid) -> list[int]:
    """Return the zero points to try: those near that of the range first, so that a tie goes to it."""
    if grid.symmetric:
        return [0]
    middle = _of_range(*_bounds(samples), grid).zero
    reach = grid.high - grid.low if grid.high - grid.low < 16 else _ZERO_POINTS
    near = [middle + side * i for i in range(reach + 1) for side in ((1, -1) if i else (1,))]
    return [zero for zero in near if grid.low <= zero <= grid.high]


def _best_scale(samples: Samples, below: int, above: int) -> tuple[float, float]:
    """Return by how much the best scale lowers the squared error of all zeros, and the scale.

    below, above: how many codes there are on each side of the zero point. The code of x is the nearest whole number to
    x / scale within these, so |x| passes from k - 1 to k at scale |x| / (k - 1/2): as the scale falls the sum of
    x * code gains |x| there, the sum of code^2 gains 2 k - 1, and between two such scales neither changes.
    """
    magnitudes = np.abs(samples.values)
    reach = np.where(samples.values < 0, below, above)
    last = int(reach.max(initial=0))
    steps = np.arange(1, last + 1)
    used = (steps[None, :] <= reach[:, None]) & (magnitudes > 0)[:, None]
    place = (magnitudes[:, None] / (steps - 0.5)[None, :])[used]
    order = np.argsort(-place, kind="stable")
    if not len(order):
        return 0.0, 0.0
    place = place[order]
    counted = samples.counts[:, None]
    products = np.cumsum(np.broadcast_to(magnitudes[:, None] * counted, used.shape)[used][order])
    squares = np.cumsum(((2 * steps - 1)[None, :] * counted)[used][order])
    scale = np.clip(products / squares, np.append(place[1:], 0.0), place)
    gain = scale * (2 * products - scale * squares)
    found = int(np.argmax(gain))
    return float(gain[found]), float(scale[found])


# KL divergence.


def _least_divergence(samples: Samples, grid: Grid) -> tuple[float, float]:
    """Return the range, cut at the magnitude whose codes lose the least information."""
    low, high = _bounds(samples)
    levels = _levels(low, high, grid)
    largest = max(-low, high)
    bins = min(_BINS, max(4 * levels, 1 << max(0, len(samples.values) - 1).bit_length()))
    if largest == 0 or levels < 2 or levels >= bins:
        return low, high
    places = np.minimum((np.abs(samples.values) * (bins / largest)).astype(np.int64), bins - 1)
    others = np.where(samples.values == 0, 0.0, samples.counts)  # every range codes 0 as 0
    counts = np.bincount(places, weights=others, minlength=bins).astype(np.float64)
    cuts = [*range(levels, bins, max(1, (bins - levels) // 256)), bins]
    losses = [_divergence(counts, cut, levels) for cut in cuts]
    cut = cuts[int(np.argmin(losses))] if min(losses) < np.inf else bins
    limit = largest * (cut / bins) if cut < bins else largest
    return max(low, -limit), min(high, limit)


def _levels(low: float, high: float, grid: Grid) -> int:
    """Return how many codes the larger side of the values has, 0 among them."""
    if grid.symmetric:
        return grid.high + 1
    zero = _of_range(low, high, grid).zero
    return max(zero - grid.low, grid.high - zero) + 1


def _divergence(counts: Array, cut: int, levels: int) -> float:
    """Return the relative entropy of the first `cut` bins, what lies above joined to the last, and of their codes.

    A code holds the bins that round to it and spreads what they hold evenly over those of them that are not empty. A
    bin with values above the cut but none below has no code that tells of it: such a cut loses everything.
    """
    kept = counts[:cut]
    code_of = np.minimum(np.arange(cut) * levels // cut, levels - 1)
    held = np.bincount(code_of, weights=kept, minlength=levels)
    filled = np.bincount(code_of[kept > 0], minlength=levels)
    coded = np.where(kept > 0, held[code_of] / np.maximum(filled[code_of], 1), 0.0)
    true = kept.copy()
    true[-1] += float(counts[cut:].sum())  # whole numbers: exact
    seen = true > 0
    if not held.sum() or (coded[seen] == 0).any():
        return np.inf
    p, q = true[seen] / true.sum(), coded[seen] / held.sum()
    return float(ordered_sum(p * log(p / q)))
