"""Progress of long work, told to a person and never to a program.

Code that works long takes a `Progress` and opens a task on it. What becomes of that is decided where the command line
is read: bars on a terminal (`Bars`), a few plain lines in a log (`Lines`), warnings alone (`Quiet`), or nothing
(`Progress` itself). Everything goes to the stream given, which is stderr in the commands: stdout belongs to results.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, TextIO

_QUIET_FOR = 5.0  # seconds between two plain lines of one task


class Task:
    """One piece of work under way. This one says nothing.

    title: what is done. total: its size in `unit`s, or None where unknown. done: how much is finished.
    """

    def __init__(self, title: str, total: int | None, unit: str) -> None:
        self.title = title
        self.total = total
        self.unit = unit
        self.done = 0

    def advance(self, amount: int = 1) -> None:
        """Say that `amount` more is finished."""
        self.set(self.done + amount)

    def set(self, done: int) -> None:
        """Say how much is finished in all."""
        self.done = done
        self.show()

    def show(self) -> None:
        """Bring the state before the reader."""

    def close(self, finished: bool) -> None:
        """End the task. finished: whether the work came to its end or was given up."""


class Progress:
    """A reporter that says nothing; the base of those that speak."""

    @contextmanager
    def task(self, title: str, total: int | None = None, unit: str = "") -> Iterator[Task]:
        """Open a task for the time of the `with` block. unit: "B" is shown in kB, MB, GB."""
        current = self.open(title, total, unit)
        try:
            yield current
        except BaseException:
            current.close(False)
            raise
        current.close(True)

    def open(self, title: str, total: int | None, unit: str) -> Task:
        """Make the task object of this reporter."""
        return Task(title, total, unit)

    def note(self, text: str) -> None:
        """Tell one line, for example a fallback that was chosen."""

    def warn(self, text: str) -> None:
        """Tell one line that is told even if progress is not."""


class Quiet(Progress):
    """Warnings only."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def warn(self, text: str) -> None:
        """Print the line."""
        print(f"warning: {text}", file=self.stream, flush=True)


class Lines(Quiet):
    """A line at the start of a task, at most one each five seconds, and one at its end."""

    def open(self, title: str, total: int | None, unit: str) -> Task:
        """Make a task that prints lines."""
        return _LineTask(self, title, total, unit)

    def note(self, text: str) -> None:
        """Print the line."""
        print(text, file=self.stream, flush=True)


class _LineTask(Task):
    def __init__(self, owner: Lines, title: str, total: int | None, unit: str) -> None:
        super().__init__(title, total, unit)
        self.owner = owner
        self.started = self.said = monotonic()
        size = f" ({amount(total, unit)})" if total else ""
        owner.note(f"{title}{size} ...")

    def show(self) -> None:
        now = monotonic()
        if now - self.said >= _QUIET_FOR:
            self.said = now
            share = f", {100 * self.done // self.total} %" if self.total else ""
            self.owner.note(f"{self.title}: {amount(self.done, self.unit)}{share}")

    def close(self, finished: bool) -> None:
        end = "done" if finished else "stopped"
        self.owner.note(f"{self.title}: {end} after {monotonic() - self.started:.1f} s")


class Bars(Quiet):
    """Bars on a terminal, drawn by rich; the library is loaded with the first task."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.display: Any = None
        self.running = 0

    def open(self, title: str, total: int | None, unit: str) -> Task:
        """Make a task that draws a bar."""
        if self.display is None:
            self.display = _display(self.stream)
        if not self.running:
            self.display.start()
        self.running += 1
        return _BarTask(self, title, total, unit)

    def note(self, text: str) -> None:
        """Print the line above the bars."""
        if self.display is None:
            print(text, file=self.stream, flush=True)
        else:
            self.display.console.print(text, markup=False, highlight=False)

    def warn(self, text: str) -> None:
        """Print the line above the bars."""
        self.note(f"warning: {text}")


class _BarTask(Task):
    def __init__(self, owner: Bars, title: str, total: int | None, unit: str) -> None:
        super().__init__(title, total, unit)
        self.owner = owner
        self.row = owner.display.add_task(title, total=total, amount="")

    def show(self) -> None:
        self.owner.display.update(self.row, completed=self.done, amount=amount(self.done, self.unit))

    def close(self, finished: bool) -> None:
        self.owner.running -= 1
        if not finished:
            self.owner.display.stop_task(self.row)
        elif self.total is None:
            self.owner.display.update(self.row, total=1, completed=1)
        if not self.owner.running:
            self.owner.display.stop()


def _display(stream: TextIO) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Display

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[amount]}", markup=False),
        TimeElapsedColumn(),
    )
    return Display(*columns, console=Console(file=stream))


def amount(number: int, unit: str) -> str:
    """Return a number with its unit; bytes in kB, MB, GB of 1000."""
    if unit != "B":
        return f"{number} {unit}".rstrip()
    for name, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:.1f} {name}"
    return f"{number} B"


def reporter(stream: TextIO, quiet: bool) -> Progress:
    """Return what suits the stream: bars on a terminal, lines elsewhere, only warnings if quiet."""
    if quiet:
        return Quiet(stream)
    return Bars(stream) if stream.isatty() else Lines(stream)
