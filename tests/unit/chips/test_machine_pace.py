"""The choice between all threads and one, on simulated machines: quiet, busy, and busy for a time."""

from collections.abc import Callable

import pytest

from bittern.chips.machine.pace import Choice, Pace

Machine = Callable[[Choice, float], tuple[float, float]]  # (choice, time) -> seconds a step, sleepiness


def simulate(pace: Pace, machine: Machine, seconds: float) -> dict[int, float]:
    """Run until so much time has passed; return how much of it each number of threads had."""
    now, had = 0.0, {1: 0.0, pace.threads: 0.0}
    while now < seconds:
        choice = pace.choose()
        step, sleepiness = machine(choice, now)
        steps = max(1, round(choice.seconds / step))
        pace.record(steps * step, steps, steps, sleepiness)
        now += steps * step
        had[choice.threads] += steps * step
    return had


def quiet(choice: Choice, _: float) -> tuple[float, float]:
    """Two threads take half the time of one."""
    return (0.002, 0.0) if choice.threads == 1 else (0.001, 0.0)


def busy(choice: Choice, _: float) -> tuple[float, float]:
    """Others use the cores: two threads wait for each other, ten times as long as one needs."""
    return (0.002, 0.0) if choice.threads == 1 else (0.02, 0.5)


def test_a_quiet_machine_keeps_its_threads() -> None:
    had = simulate(Pace(2), quiet, 60)
    assert had[1] < 0.01 * 60


def test_a_busy_machine_falls_back_to_one_thread() -> None:
    had = simulate(Pace(2), busy, 60)
    assert had[2] < 0.03 * 60
    assert simulate(Pace(2), busy, 0.5)[1] > 0.1, "soon"


def test_long_steps_are_not_tried_on_one_thread_too_often() -> None:
    """Steps that sleep because their parts are unequal, as a chunk of a prompt does: one thread is no better."""

    def unequal(choice: Choice, _: float) -> tuple[float, float]:
        return (0.6, 0.0) if choice.threads == 1 else (0.35, 0.9)

    had = simulate(Pace(2), unequal, 300)
    assert had[1] < 0.06 * 300


def test_a_machine_that_becomes_busy_and_quiet_again() -> None:
    def machine(choice: Choice, now: float) -> tuple[float, float]:
        return busy(choice, now) if 5 < now < 15 else quiet(choice, now)

    pace, phases = Pace(2), []
    for shift in (0, 5, 15):  # each phase goes on with what is known from the one before
        phases.append(simulate(pace, lambda choice, now, shift=shift: machine(choice, now + shift + 0.001), 5))
    calm, crowded, after = phases
    assert calm[1] < 0.1 and crowded[2] < 0.5 and after[2] > 2.9, phases


def test_single_slow_calls_change_little() -> None:
    pace, calls = Pace(2), 0

    def machine(choice: Choice, now: float) -> tuple[float, float]:
        nonlocal calls
        calls += 1
        return (0.01, 0.1) if calls % 40 == 39 else quiet(choice, now)

    assert simulate(pace, machine, 20)[1] < 0.05 * 20


def test_steps_of_unequal_work_are_compared_by_their_work() -> None:
    pace = Pace(2)
    for number in range(200):
        work = 1 + number % 7 * 80
        choice = pace.choose()
        pace.record(0.0005 * work * (2 if choice.threads == 1 else 1), work)
    assert pace.choose().threads == 2


def test_one_thread_has_no_choice() -> None:
    pace = Pace(1)
    pace.record(1.0, 1)
    assert pace.choose().threads == 1


def test_a_machine_that_is_never_tried_again_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: once on one thread, always on one thread."""
    monkeypatch.setattr(Pace, "_return_to_all", lambda self, patience: self._stay_on_one())
    pace = Pace(2)
    simulate(pace, busy, 3)
    assert simulate(pace, quiet, 10)[2] < 2.9
