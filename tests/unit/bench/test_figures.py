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

    monkeypatch.setattr(figures.quiet, "wait", lambda seconds: True)
    monkeypatch.setattr(figures.quiet, "now", lambda: None)
    yield figures
    for name in ("figures", "report", "start", "generation", "refusals", "suite", "quiet"):
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


def moments(*cores: float) -> Iterator[object]:
    """Yield pairs of readings between which others used so many cores for a second."""
    import quiet

    for used in cores:
        yield quiet.Moment(0.0, 0.0, 0.0)
        yield quiet.Moment(1.0, 0.5 + used + 0.03, 0.5)


def test_what_others_disturb_is_dropped(figures: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    values = iter([1.0, 9.0, 2.0, 9.0, 3.0])
    times = moments(0.0, 0.8, 0.05, 1.5, 0.1)
    monkeypatch.setattr(figures.quiet, "now", lambda: next(times))
    found = figures.measured(figures.Figure("a", "s", lambda: next(values), at_most=2, repeats=3))
    assert (found.values, found.dropped, found.verdict) == ((1.0, 2.0, 3.0), (9.0, 9.0), "kept")
    assert found.as_json()["quiet"] is True


def test_without_a_quiet_moment_there_is_no_verdict(
    figures: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import report

    times = moments(*[1.0] * 100)
    monkeypatch.setattr(figures.quiet, "now", lambda: next(times))
    figure = figures.Figure("a", "s", lambda: 5.0, at_most=2, repeats=2)
    found = figures.measured(figure)
    assert found.values == () and len(found.dropped) == 6 and found.verdict == "disturbed"
    assert found.as_json()["median"] is None and found.as_json()["quiet"] is False
    assert "no quiet moment" in report._row(found)
    monkeypatch.setattr(report, "figures", lambda: [figure])
    assert report.main([]) == 0, "nothing is said to be missed"
    assert "disturbed" in capsys.readouterr().out


def test_where_nobody_knows_it_is_said(figures: ModuleType) -> None:
    import report

    found = figures.measured(figures.Figure("a", "s", lambda: 1.0, at_most=2, repeats=2))
    assert found.verdict == "kept" and "not gated" in report._row(found)


def test_work_of_others_is_seen() -> None:
    """A busy child that is still running counts as other work; our own finished children do not."""
    import subprocess

    sys.path.insert(0, str(BENCH))
    import quiet

    sys.path.remove(str(BENCH))
    before = quiet.now()
    if before is None:
        pytest.skip("this system does not tell")
    spin = "from time import perf_counter as t\nend = t() + 30\nwhile t() < end: pass"
    with subprocess.Popen([sys.executable, "-c", spin]) as busy:
        start = quiet.now()
        while (later := quiet.now()) is not None and start is not None and later.wall - start.wall < 1.0:
            pass
        busy.kill()
    assert start is not None and later is not None
    assert quiet.others(start, later) > quiet.TOLERATED and quiet.is_quiet(start, later) is False
    quiet.wait(0.0)


def test_options_of_the_check(figures: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    import report

    assert report.main(["--fast"]) == 2
    assert "--quick" in capsys.readouterr().err
    assert report.main(["no figure has this name"]) == 0
    assert any(figure.is_long for figure in report.figures())
