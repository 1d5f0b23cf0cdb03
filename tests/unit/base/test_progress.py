"""Progress: silent, in lines, in bars; stdout is never touched."""

import io
import sys

import pytest

from bittern.base import progress
from bittern.base.progress import Bars, Lines, Progress, Quiet, amount, reporter


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say yes."""
        return True


def test_reporter_suits_the_stream() -> None:
    assert type(reporter(io.StringIO(), quiet=False)) is Lines
    assert type(reporter(Terminal(), quiet=False)) is Bars
    assert type(reporter(Terminal(), quiet=True)) is Quiet


def test_warnings_are_told_whatever_the_stream() -> None:
    for stream, quiet in ((io.StringIO(), True), (io.StringIO(), False), (Terminal(), False)):
        teller = reporter(stream, quiet)
        teller.note("a note")
        teller.warn("beware")
        assert "warning: beware\n" in stream.getvalue()
        assert ("a note" in stream.getvalue()) is not quiet
    Progress().warn("nobody hears")


def test_lines_tell_start_end_and_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 1.0, 6.0, 7.0, 8.0])
    monkeypatch.setattr(progress, "monotonic", lambda: next(now))
    stream = io.StringIO()
    with Lines(stream).task("read", 4_000_000, "B") as task:
        task.advance(1_000_000)
        task.advance(1_000_000)
        task.set(3_000_000)
    expected = ["read (4.0 MB) ...", "read: 2.0 MB, 50 %", "read: done after 8.0 s"]
    assert stream.getvalue().splitlines() == expected


def test_a_task_that_fails_says_stopped() -> None:
    stream = io.StringIO()
    with pytest.raises(ValueError), Lines(stream).task("read"):
        raise ValueError
    assert "read: stopped" in stream.getvalue()


def test_bars_are_drawn_on_their_stream(capsys: pytest.CaptureFixture[str]) -> None:
    stream = Terminal()
    bars = Bars(stream)
    bars.note("before")
    with bars.task("first", 2, "tokens") as first, bars.task("second [x]") as second:
        first.advance()
        second.advance()
        bars.note("in between")
    with bars.task("third", 1) as third:
        third.advance()
    shown = stream.getvalue()
    for word in ("before", "first", "second [x]", "in between", "third"):
        assert word in shown
    assert capsys.readouterr().out == ""


def test_silence_needs_no_rich() -> None:
    loaded = "rich" in sys.modules
    with Progress().task("quiet", 3) as task:
        task.advance(3)
    assert task.done == 3
    assert ("rich" in sys.modules) == loaded


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        (0, "B", "0 B"),
        (999, "B", "999 B"),
        (1000, "B", "1.0 kB"),
        (92_871_040, "B", "92.9 MB"),
        (7, "tokens", "7 tokens"),
    ],
)
def test_amount(number: int, unit: str, text: str) -> None:
    assert amount(number, unit) == text
