"""Whether the machine was ours while something ran: how much of its cores other processes used meanwhile.

Linux counts in /proc/stat how long each core was busy; what this process and its finished children used is known
besides. The rest is other work. Elsewhere nothing is known, and nothing is said.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep

try:
    import resource
except ImportError:  # no such thing on Windows
    resource = None  # type: ignore[assignment]

TOLERATED = 0.1  # cores that others may use on average
_GRAIN = 0.03  # s: the clock of /proc/stat ticks each 0.01 s, on every core
_STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class Moment:
    """One reading: wall time, busy time of our cores, CPU time of this process and its children; all in seconds."""

    wall: float
    busy: float
    own: float


def now() -> Moment | None:
    """Return a reading, or None where the system does not tell."""
    if resource is None or not _STAT.exists():
        return None
    ours = os.sched_getaffinity(0)
    tick = os.sysconf("SC_CLK_TCK")
    busy = 0.0
    for line in _STAT.read_text().splitlines():
        name, *counts = line.split()
        if name.startswith("cpu") and name[3:].isdecimal() and int(name[3:]) in ours:
            user, nice, system, _idle, _wait, irq, soft, steal = map(int, counts[:8])
            busy += (user + nice + system + irq + soft + steal) / tick
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return Moment(perf_counter(), busy, sum(row.ru_utime + row.ru_stime for row in used))


def others(before: Moment, after: Moment) -> float:
    """Return how many cores other processes used on average between two readings."""
    seconds = max(after.wall - before.wall, 1e-9)
    used = (after.busy - before.busy) - (after.own - before.own)
    return max(used - _GRAIN, 0.0) / seconds


def is_quiet(before: Moment | None, after: Moment | None) -> bool | None:
    """Whether other processes left the cores alone between two readings; None where nobody knows."""
    if before is None or after is None:
        return None
    return others(before, after) <= TOLERATED


def wait(seconds: float) -> bool:
    """Wait until a tenth of a second passes quietly, for so many seconds at most; return whether one did."""
    end = perf_counter() + seconds
    while True:
        before = now()
        sleep(0.1)
        if is_quiet(before, now()) is not False:
            return True
        if perf_counter() >= end:
            return False
