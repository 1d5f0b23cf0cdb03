"""How many threads the next steps get: all of them, or one while that is faster.

On a machine that others use too, threads that meet many times a step wait for whichever of them does not run just now;
one thread waits for nobody. So the time of a step is kept for both modes. Where one thread is faster it works alone for
a while, then all are tried again for a moment; each try that fails doubles the while. Where all threads are faster, one
is tried rarely: sooner where the threads slept at their barriers, and then less and less often as it turns out to be no
better, so that trying costs less than a hundredth of the time.

A choice never changes results, only who computes what.
"""

from collections import deque
from dataclasses import dataclass
from typing import Literal

SLICE = 0.02  # s that a call may last before Python decides anew and sees signals
_TRY = 0.002  # s
_FIRST_HOLD, _LONGEST_HOLD = 0.05, 2.0  # s on one thread before all are tried
_SOON, _SELDOM = 4, 256  # times what a try of one thread costs, before it is made
_MARGIN = 1.1  # slower than this share is slower for certain
_STRIKES = 2
_SLEEPY = 1 / 64  # of the barriers; on a quiet machine nobody sleeps at one


@dataclass(frozen=True, slots=True)
class Choice:
    """How the next call goes. seconds: after which it ends at the next step."""

    threads: int
    seconds: float


class Pace:
    """Watches one section of a program on at most `threads` threads."""

    def __init__(self, threads: int) -> None:
        assert threads >= 1, threads
        self.threads = threads
        self._mode: Literal["all", "one", "try all", "try one"] = "all"
        self._one: float | None = None  # s for a unit of work on one thread, lately
        self._all: deque[float] = deque(maxlen=5)  # s for a unit on all threads, the last calls
        self._best = float("inf")  # the same, at best
        self._left = 0.0  # s still to go on one thread
        self._hold = _FIRST_HOLD
        self._strikes = 0  # calls on all threads in a row that were slower than one thread
        self._since = 0.0  # s on all threads since one was tried
        self._patience = _SOON

    def choose(self) -> Choice:
        """Return how the next call should go."""
        if self._mode == "all":
            return Choice(self.threads, SLICE)
        if self._mode == "one":
            return Choice(1, min(SLICE, self._left))
        return Choice(1 if self._mode == "try one" else self.threads, _TRY)

    def record(self, seconds: float, work: float, steps: int = 1, sleepiness: float = 0.0) -> None:
        """Take note of how the call went that was chosen last.

        work: that it did, in any unit that stays the same. sleepiness: at what share of its barriers a thread slept.
        """
        if self.threads == 1:
            return
        took = seconds / work
        if self._mode == "one":
            self._one = took if self._one is None else (self._one + took) / 2
            self._left -= seconds
            if self._left <= 0:
                self._mode = "try all"
        elif self._mode == "try one":
            self._one = took
            if took * _MARGIN < sorted(self._all)[len(self._all) // 2]:
                self._stay_on_one()
            else:
                self._return_to_all(min(2 * self._patience, _SELDOM))
        elif self._mode == "try all":
            if self._one is None or took < self._one:
                self._return_to_all(_SOON)
            else:
                self._stay_on_one()
        else:
            self._watch(seconds, took, steps, sleepiness)

    def _watch(self, seconds: float, took: float, steps: int, sleepiness: float) -> None:
        """Take note of a call on all threads: stay, try one thread, or leave the work to it."""
        self._best = min(self._best, took)
        self._all.append(took)
        self._since += seconds
        alone = self._best * self.threads if self._one is None else self._one
        self._strikes = self._strikes + 1 if took > alone * _MARGIN else 0
        cost = max(seconds / steps * self.threads, _TRY)
        if self._strikes >= _STRIKES:
            self._stay_on_one()
        elif self._since >= cost * (self._patience if sleepiness > _SLEEPY else _SELDOM):
            self._mode = "try one"

    def _stay_on_one(self) -> None:
        self._mode, self._left, self._strikes = "one", self._hold, 0
        self._hold = min(2 * self._hold, _LONGEST_HOLD)

    def _return_to_all(self, patience: int) -> None:
        self._mode, self._since, self._strikes, self._patience = "all", 0.0, 0, patience
        self._hold, self._best = _FIRST_HOLD, float("inf")
        self._all.clear()
