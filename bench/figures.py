"""What a figure is: how it is measured, in what unit, and the bound that it must keep.

A figure is measured several times in one run; its median is compared with the bound and shown with its spread. What
cannot be measured here says why and counts as neither kept nor missed. All figures here are measured, none modelled.
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. at_most or at_least is its bound, in `unit`s; the other is None.

    measure: one measurement, or raises `CannotMeasureError`. repeats: how many make the median.
    """

    name: str
    unit: str
    measure: Callable[[], float]
    at_most: float | None = None
    at_least: float | None = None
    repeats: int = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was measured. values: all measurements in ascending order. reason: why there are none."""

    figure: Figure
    values: tuple[float, ...]
    reason: str = ""

    @property
    def verdict(self) -> str:
        """`kept`, `missed`, or `not measured`."""
        if not self.values:
            return "not measured"
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
            "at_most": self.figure.at_most,
            "at_least": self.figure.at_least,
            "verdict": self.verdict,
            "reason": self.reason,
        }


class CannotMeasureError(Exception):
    """A figure that this machine cannot measure now; the text says why."""


def measured(figure: Figure) -> Outcome:
    """Measure a figure as often as it asks for."""
    values: list[float] = []
    for _ in range(figure.repeats):
        try:
            values.append(figure.measure())
        except CannotMeasureError as error:
            return Outcome(figure, (), str(error))
    return Outcome(figure, tuple(sorted(values)))
