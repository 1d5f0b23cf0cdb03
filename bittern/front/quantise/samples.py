"""What scales are computed from: values, each with how often it occurs.

Weights are their own samples. Activations come in batches and are counted on a grid of 2 x 8192 steps between the
largest magnitudes, 0 and the largest among its points; the first pass finds the range, the second counts.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.front.quantise.ordered import Array

STEPS = 1 << 13  # of magnitude


@dataclass(frozen=True, slots=True)
class Samples:
    """Finite values, each with its count. values: [n] f64, ascending. counts: [n] f64, whole and positive."""

    values: Array
    counts: Array

    @property
    def total(self) -> int:
        """How many values there are in all."""
        return int(self.counts.sum())


def samples(x: npt.NDArray[Any]) -> Samples:
    """Return the values of an array with their counts; -0 counts as 0."""
    values, counts = np.unique(x.astype(np.float64).reshape(-1) + 0.0, return_counts=True)
    return Samples(values, counts.astype(np.float64))


@dataclass(slots=True)
class Counter:
    """Collects the values of one tensor over batches: `look` at all batches first, then `count` them."""

    low: float = np.inf
    high: float = -np.inf
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(2 * STEPS + 1, np.int64))

    @property
    def largest(self) -> float:
        """The largest magnitude."""
        return max(abs(self.low), abs(self.high))

    def look(self, x: npt.NDArray[Any]) -> None:
        """Take the values into the range."""
        self.low, self.high = min(self.low, float(x.min())), max(self.high, float(x.max()))

    def count(self, x: npt.NDArray[Any]) -> None:
        """Count the values; those outside of the range count at its ends."""
        step = self.largest / STEPS
        if step == 0:
            self.counts[STEPS] += x.size
            return
        places = np.clip(np.rint(x.astype(np.float64).reshape(-1) / step), -STEPS, STEPS).astype(np.int64)
        self.counts += np.bincount(places + STEPS, minlength=len(self.counts))

    def samples(self) -> Samples:
        """Return what was counted."""
        (kept,) = np.nonzero(self.counts)
        values = (kept - STEPS).astype(np.float64) * (self.largest / STEPS)
        return Samples(values, self.counts[kept].astype(np.float64))
