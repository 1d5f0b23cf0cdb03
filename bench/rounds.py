"""Two programs timed in turn, so that both see the same machine: processes of their own, asked by lines.

A round asks the one, then the other: A B A B ... It counts only if other processes left the cores alone meanwhile.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import quiet

FOLDER = Path(__file__).resolve().parent
_TRIES = 4  # times as many rounds as are wanted, at most


class Worker:
    """A peer in a process of its own."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=FOLDER)
        self.about: dict[str, Any] = json.loads(self._line())

    def ask(self, kind: str, count: int = 0, depth: int = 0) -> float:
        """Have it measure, and return its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{kind} {count} {depth}\n")
        self._process.stdin.flush()
        return float(self._line())

    def used(self) -> float:
        """Return the seconds of processor time that it has used, all threads together."""
        parts = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"bench: {' '.join(map(str, self._process.args))} ended without an answer")
        return line


@contextmanager
def both(ours: Sequence[str], theirs: Sequence[str]) -> Iterator[tuple[Worker, Worker]]:
    """Start two workers by their commands, and end them."""
    first = Worker(*ours)
    try:
        second = Worker(*theirs)
        try:
            yield first, second
        finally:
            second.close()
    finally:
        first.close()


def moment_of(pair: Sequence[Worker]) -> quiet.Moment | None:
    """Return a reading in which the work of both peers is our own."""
    found = quiet.now()
    return None if found is None else replace(found, own=found.own + sum(worker.used() for worker in pair))


@dataclass(slots=True)
class Rounds:
    """Seconds of quiet rounds, in order, of either side. dropped: of rounds that other processes disturbed."""

    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    dropped: list[tuple[float, float]] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        """How many times as fast as the other side ours is: the median over the rounds; None without a quiet one."""
        return median(b / a for a, b in zip(self.ours, self.theirs, strict=True)) if self.ours else None

    def fill(
        self, pair: tuple[Worker, Worker], asks: Sequence[Callable[[], float]], count: int, patience: float
    ) -> None:
        """Time rounds until there are as many quiet ones as wanted, or until trying makes no sense any more.

        asks: what gives the seconds of either side. patience: seconds to wait for quiet moments.
        """
        end = perf_counter() + patience
        while len(self.ours) < count and len(self.ours) + len(self.dropped) < count * _TRIES:
            seconds, is_quiet = [], True
            for ask in asks:
                quiet.wait(min(3.0, max(end - perf_counter(), 0.0)))
                before = moment_of(pair)
                seconds.append(ask())
                is_quiet = is_quiet and quiet.is_quiet(before, moment_of(pair)) is not False
            if is_quiet:
                self.ours.append(seconds[0])
                self.theirs.append(seconds[1])
            else:
                self.dropped.append((seconds[0], seconds[1]))
            if perf_counter() > end:
                break
