"""Input preparation: what is done with samples before a discrete network sees them. Eight algorithms, one row each.

In: samples [count, ..., channels] f32, finite, channels last. `fit` learns what it needs from data; `apply` gives the
prepared samples, each from itself and what was learned alone, so a batch changes nothing. Divisions, products and sums
are in f32 or float64 with one rounding each, sums in a fixed order: the same bits on every machine.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bittern.front.quantise.ordered import ordered_sum
from bittern.front.quantise.samples import samples

Array: TypeAlias = npt.NDArray[Any]
Learned: TypeAlias = Mapping[str, Array]

_LEVELS = 16  # of learned quantisation
_STEPS = 8  # of a thermometer, for each channel
_ROUNDS = 30  # of learning levels
_TINY = np.float32(2.0**-100)


@dataclass(frozen=True, slots=True)
class Preparation:
    """One algorithm. element: of what comes out. channels: how many come out for one. source: where it is from."""

    name: str
    element: str
    channels: int
    fit: Callable[[Array], Learned]
    apply: Callable[[Array, Learned], Array]
    summary: str
    source: str = field(default="")


def _by_channel(x: Array) -> Array:
    """Return the values of each channel, [channels, all others] f64."""
    return np.moveaxis(x, -1, 0).reshape(x.shape[-1], -1).astype(np.float64)


def _nothing(x: Array) -> Learned:
    return {}


def _fit_range(x: Array) -> Learned:
    return {"low": np.asarray(x.min(), np.float32), "high": np.asarray(x.max(), np.float32)}


def _normalised(x: Array, learned: Learned) -> Array:
    span = np.maximum(learned["high"] - learned["low"], _TINY)
    return np.asarray(np.clip((x - learned["low"]) / span, 0, 1), np.float32)


def _fit_moments(x: Array) -> Learned:
    values = _by_channel(x)
    mean = ordered_sum(values) / values.shape[1]
    centred = values - mean[:, None]
    deviation = np.sqrt(ordered_sum(centred * centred) / values.shape[1])
    return {"mean": mean.astype(np.float32), "deviation": np.maximum(deviation.astype(np.float32), _TINY)}


def _standardised(x: Array, learned: Learned) -> Array:
    return np.asarray((x - learned["mean"]) / learned["deviation"], np.float32)


def _adaptively_scaled(x: Array, learned: Learned) -> Array:
    largest = np.abs(x).max(tuple(range(1, x.ndim)), keepdims=True)
    factor = np.where(largest < _TINY, np.float32(0), np.float32(127) / np.maximum(largest, _TINY))
    return np.asarray(np.rint(x * factor), np.int8)


def _fit_levels(x: Array) -> Learned:
    """Learn levels with the least squared error: Lloyd's alternation from evenly filled cells."""
    counted = samples(x)
    rank = np.cumsum(counted.counts)
    share = (np.arange(_LEVELS) + 0.5) * (rank[-1] / _LEVELS)
    levels = counted.values[np.minimum(np.searchsorted(rank, share), len(rank) - 1)]
    for _ in range(_ROUNDS):
        cell = np.searchsorted((levels[1:] + levels[:-1]) / 2, counted.values, "right")
        held = np.bincount(cell, weights=counted.counts, minlength=_LEVELS)
        total = np.bincount(cell, weights=counted.counts * counted.values, minlength=_LEVELS)  # in ascending order
        levels = np.maximum.accumulate(np.where(held > 0, total / np.maximum(held, 1), levels))
    return {"levels": levels.astype(np.float32)}


def _learned_codes(x: Array, learned: Learned) -> Array:
    levels = learned["levels"]
    edges = (levels[1:] + levels[:-1]) / np.float32(2)
    return np.searchsorted(edges, x, "right").astype(np.uint8)


def _signs(x: Array) -> Array:
    return np.where(x, 1, -1).astype(np.int8)


def _augmented(x: Array, learned: Learned) -> Array:
    above = _signs(x >= learned["mean"])
    return np.concatenate((above, -above), -1)


def _fit_steps(x: Array) -> Learned:
    ordered = np.sort(_by_channel(x), 1)
    places = (np.arange(1, _STEPS + 1) * ordered.shape[1]) // (_STEPS + 1)
    return {"steps": ordered[:, places].astype(np.float32)}


def _thermometer(x: Array, learned: Learned) -> Array:
    reached = _signs(x[..., None] >= learned["steps"])
    return reached.reshape(*x.shape[:-1], -1)


def _bayer() -> Array:
    """Return the order in which the 64 places of a tile turn on."""
    order = np.zeros((1, 1), np.int64)
    for _ in range(3):
        order = np.block([[4 * order, 4 * order + 2], [4 * order + 3, 4 * order + 1]])
    return order


def _dithered(x: Array, learned: Learned) -> Array:
    rows, columns = x.shape[1:3] if x.ndim > 3 else (1, x.shape[1] if x.ndim > 2 else 1)
    tile = np.tile(_bayer(), (-(-rows // 8), -(-columns // 8)))[:rows, :columns]
    threshold = ((tile.astype(np.float32) + np.float32(0.5)) / np.float32(64)).reshape(*x.shape[1:-1], 1)
    return _signs(_normalised(x, learned) >= threshold)


def _bit_planes(x: Array, learned: Learned) -> Array:
    codes = np.rint(_normalised(x, learned) * np.float32(255)).astype(np.uint8)
    planes = codes[..., None] >> np.arange(8, dtype=np.uint8) & 1
    return _signs(planes == 1).reshape(*x.shape[:-1], -1)


# fmt: off
PREPARATIONS: dict[str, Preparation] = {
    row.name: row
    for row in (
        Preparation("normalisation",         "f32", 1, _fit_range,   _normalised,
                    "(x - low) / (high - low) of the data's range, held within 0 and 1."),
        Preparation("standardisation",       "f32", 1, _fit_moments, _standardised,
                    "(x - mean) / deviation of each channel of the data."),
        Preparation("adaptive_scaling",      "i8",  1, _nothing,     _adaptively_scaled,
                    "Each sample by its own largest magnitude, which becomes 127; a sample of zeros stays."),
        Preparation("learned_quantisation",  "u4",  1, _fit_levels,  _learned_codes,
                    "The nearest of 16 levels that have the least squared error on the data.",
                    "Lloyd 1982, Least squares quantization in PCM"),
        Preparation("binary_augmentation",   "b1",  2, _fit_moments, _augmented,
                    "Whether x reaches the channel's mean, and the opposite beside it."),
        Preparation("thermometer",           "b1",  8, _fit_steps,   _thermometer,
                    "Which of 8 thresholds of the channel x reaches; they part the data evenly.",
                    "Buckman et al. 2018, Thermometer encoding"),
        Preparation("dithering",             "b1",  1, _fit_range,   _dithered,
                    "Whether x reaches a threshold that varies over 8 x 8 pixels.",
                    "Bayer 1973, An optimum method for two-level rendition of continuous-tone pictures"),
        Preparation("bit_planes",            "b1",  8, _fit_range,   _bit_planes,
                    "The 8 bits of x as an even code of the data's range, the lowest first."),
    )
}
# fmt: on


def prepared(x: Array, name: str, data: Array | None = None) -> Array:
    """Return samples after a preparation that learns from `data`, or from themselves. x: [count, ..., channels] f32."""
    row = PREPARATIONS[name]
    return row.apply(x, row.fit(x if data is None else data))
