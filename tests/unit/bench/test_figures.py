"""The frame of the benchmarks: medians against bounds, and what cannot be measured says why."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module bench/figures.py."""
    monkeypatch.syspath_prepend(str(BENCH))
    import figures

    yield figures
    for name in ("figures", "report", "start", "generation"):
        sys.modules.pop(name, None)


def test_the_median_decides(figures: ModuleType) -> None:
    values = iter([1.0, 9.0, 2.0] * 3)
    kept = figures.measured(figures.Figure("a", "s", lambda: next(values), at_most=2, repeats=3))
    assert (kept.values, kept.verdict) == ((1.0, 2.0, 9.0), "kept")
    missed = figures.measured(figures.Figure("a", "s", lambda: next(values), at_most=1.9, repeats=3))
    assert missed.verdict == "missed"
    slow = figures.measured(figures.Figure("a", "tokens/s", lambda: next(values), at_least=3, repeats=3))
    assert slow.verdict == "missed"
    assert slow.as_json()["median"] == 2.0


def test_what_cannot_be_measured_says_why(figures: ModuleType) -> None:
    def measure() -> float:
        raise figures.CannotMeasureError("no model")

    outcome = figures.measured(figures.Figure("a", "s", measure, at_most=1))
    assert (outcome.verdict, outcome.reason, outcome.values) == ("not measured", "no model", ())


def test_every_figure_is_found(figures: ModuleType) -> None:
    import report

    names = [figure.name for figure in report.figures()]
    assert len(names) == len(set(names)) >= 6
    assert "bittern --help" in names
    assert {"cpu", "cores", "python", "numpy", "commit"} <= report.scope().keys()
