"""Seconds a call of something short: the median over bursts that are long enough for the clock."""

from collections.abc import Callable
from statistics import median
from time import perf_counter

_BURST = 2e-3  # s that a burst of calls takes at least
_TOTAL = 0.25  # s that all bursts take, about


def seconds(call: Callable[[], object]) -> float:
    """Return the median time of a call."""
    call()
    started = perf_counter()
    call()
    once = max(perf_counter() - started, 1e-7)
    count = max(1, round(_BURST / once))
    bursts = max(5, round(_TOTAL / (count * once)))
    found = []
    for _ in range(bursts):
        started = perf_counter()
        for _ in range(count):
            call()
        found.append((perf_counter() - started) / count)
    return median(found)
