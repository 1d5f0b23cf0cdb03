"""What a figure is: how it is measured, in what unit, and the bound that it must keep.

A figure is measured several times in one run; its median is compared with the bound and shown with its spread.
Measurements during which other processes used the cores are dropped and made again; if no quiet one can be had, the
figure is neither kept nor missed, and the report says so. What cannot be measured here says why. All figures here are
measured, none modelled.
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import quiet

_TRIES = 3  # times as many measurements as are wanted, at most
_PATIENCE = 60.0  # s: how long one figure waits for quiet moments


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. at_most or at_least is its bound, in `unit`s; the other is None.

    measure: one measurement, or raises `CannotMeasureError`. repeats: how many make the median. is_long: takes minutes.
    """

    name: str
    unit: str
    measure: Callable[[], float]
    at_most: float | None = None
    at_least: float | None = None
    repeats: int = 5
    is_long: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was measured.

    values: the quiet measurements in ascending order. dropped: those that other processes disturbed. is_gated: whether
    quiet could be told. reason: why there is no measurement.
    """

    figure: Figure
    values: tuple[float, ...]
    dropped: tuple[float, ...] = ()
    is_gated: bool = True
    reason: str = ""

    @property
    def verdict(self) -> str:
        """`kept`, `missed`, `disturbed` (no quiet measurement could be had) or `not measured`."""
        if not self.values:
            return "disturbed" if self.dropped else "not measured"
        middle, figure = median(self.values), self.figure
        low_enough = figure.at_most is None or middle <= figure.at_most
        high_enough = figure.at_least is None or middle >= figure.at_least
        return "kept" if low_enough and high_enough else "missed"

    def as_json(self) -> dict[str, object]:
        """Return the outcome as an object."""
        return {
            "figure": self.figure.name,
            "unit": self.figure.unit,
            "median": median(self.values) if self.values else None,
            "values": list(self.values),
            "dropped": list(self.dropped),
            "quiet": self.is_gated and bool(self.values),
            "at_most": self.figure.at_most,
            "at_least": self.figure.at_least,
            "verdict": self.verdict,
            "reason": self.reason,
        }


class CannotMeasureError(Exception):
    """A figure that this machine cannot measure now; the text says why."""


def measured(figure: Figure) -> Outcome:
    """Measure a figure until it has as many quiet values as it asks for, or until trying makes no sense any more."""
    values: list[float] = []
    dropped: list[float] = []
    is_gated = True
    end = perf_counter() + _PATIENCE
    while len(values) < figure.repeats and len(values) + len(dropped) < figure.repeats * _TRIES:
        quiet.wait(min(5.0, max(end - perf_counter(), 0.0)))
        before = quiet.now()
        try:
            value = figure.measure()
        except CannotMeasureError as error:
            return Outcome(figure, (), reason=str(error))
        verdict = quiet.is_quiet(before, quiet.now())
        is_gated = verdict is not None
        (dropped if verdict is False else values).append(value)
        if perf_counter() > end and len(values) + len(dropped) >= figure.repeats:
            break
    return Outcome(figure, tuple(sorted(values)), tuple(sorted(dropped)), is_gated)
