"""A crew: its threads start and end, sleep when idle, survive forks and interrupts, and keep to cores of their own."""

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import x86_little as little
from x86_run import features

from bittern.base.errors import BitternError
from bittern.chips.machine.program import Launch, Linked, Section, State, predict
from bittern.chips.x86.program import link
from bittern.chips.x86.threads import Crew, available

N = 100


@pytest.fixture
def crew() -> Iterator[Crew]:
    """Three threads that never fall back to one."""
    features()
    with Crew(3, adapts=False) as made:
        yield made


def adding(threads: int) -> tuple[Linked, State, Any]:
    """Return a loop whose every step fills an array by all threads and counts itself."""
    state, clock, out = State(threads, 16), np.zeros(1, np.uint64), np.zeros(N, np.uint64)
    little.put(state, 0, int(out.ctypes.data), N)
    little.put(state, 64, int(clock.ctypes.data))
    state.held = (clock, out)  # type: ignore[attr-defined]
    launches = (Launch(0, 0), Launch(1, 64, "one"))
    return link([little.fill(), little.tick()], {"s": Section(launches, loop=True)}), state, (clock, out)


def workers() -> list[threading.Thread]:
    """Return the threads of all crews, those that earlier tests left behind and nobody holds not among them."""
    gc.collect()
    return [thread for thread in threading.enumerate() if thread.name.startswith("bittern-")]


def test_threads_start_when_needed_and_end_when_closed() -> None:
    features()
    before = len(workers())
    linked, state, (clock, _) = adding(3)
    crew = Crew(3, adapts=False)
    assert crew.started == 0 and len(workers()) == before
    crew.run(linked, "s", state, 5)
    assert crew.started == 2 and len(workers()) == before + 2
    crew.close()
    assert crew.started == 0 and len(workers()) == before
    crew.run(linked, "s", state, 5)
    assert clock[0] == 10 and crew.started == 2, "a closed crew starts again"
    crew.close()
    crew.close()


def test_a_state_for_fewer_threads_gets_fewer(crew: Crew) -> None:
    linked, state, (_, out) = adding(2)
    crew.run(linked, "s", state, 4)
    assert crew.started == 1 and set(out.tolist()) == {1, 2}
    assert state.counts() == predict(linked.sections["s"], 2, 4)
    linked, state, (_, out) = adding(3)
    crew.run(linked, "s", state, 4)
    assert crew.started == 2 and set(out.tolist()) == {1, 2, 3}


def test_a_forgotten_crew_ends_its_threads() -> None:
    features()
    before = len(workers())
    linked, state, _ = adding(3)
    crew = Crew(3, adapts=False)
    crew.run(linked, "s", state)
    assert len(workers()) == before + 2
    del crew
    gc.collect()
    assert len(workers()) == before


def test_idle_threads_sleep(crew: Crew) -> None:
    linked, state, _ = adding(3)
    crew.run(linked, "s", state)
    time.sleep(0.01)
    before = time.process_time()
    time.sleep(0.2)
    assert time.process_time() - before < 0.02


def test_a_run_wakes_sleeping_threads(crew: Crew) -> None:
    linked, state, (clock, out) = adding(3)
    for step in range(1, 20):
        time.sleep(0.001)
        out[:] = 0
        crew.run(linked, "s", state)
        assert clock[0] == step and set(out.tolist()) == {1, 2, 3}


def test_runs_of_several_threads_of_python_go_one_after_the_other(crew: Crew) -> None:
    linked, state, (clock, _) = adding(3)

    def go() -> None:
        for _ in range(50):
            assert crew.run(linked, "s", state, 2) == 2

    callers = [threading.Thread(target=go) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert clock[0] == 300 and state.counts() == predict(linked.sections["s"], 3, 300)


def test_an_interrupt_while_a_thread_starts(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread runs, but the crew does not know of it: no two threads may do the same part."""
    linked, state, (clock, out) = adding(3)
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            crew.run(linked, "s", state)
    assert crew.run(linked, "s", state, 20) == 20
    assert clock[0] == 20 and set(out.tolist()) == {1, 2, 3}
    assert state.counts() == predict(linked.sections["s"], 3, 20)


def test_no_more_threads_is_an_error_with_a_code(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    linked, state, _ = adding(3)

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        with pytest.raises(BitternError, match="R164: The system refused thread 2 of 3") as raised:
            crew.run(linked, "s", state)
    assert "--threads 1" in raised.value.remedy
    assert crew.run(linked, "s", state) == 1, "it can be tried again"


SCRIPT = """
import os, sys
sys.path[:0] = {paths!r}
from test_x86_program_threads import adding
from bittern.chips.x86.threads import Crew
linked, state, (clock, out) = adding(3)
crew = Crew(3, adapts=False)
assert crew.run(linked, "s", state, 5) == 5
{then}
"""
FORK = """
child = os.fork()
assert crew.run(linked, "s", state, 5) == 5 and clock[0] == 10 and set(out.tolist()) == {1, 2, 3}
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert crew.run(linked, "s", state, 5) == 5
    print("parent", end=" ")
print("done")
"""


INTERRUPTED = """
import signal, threading, time
threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()
start, before = time.perf_counter(), int(clock[0])
try:
    crew.run(linked, "s", state, 1 << 60)
except KeyboardInterrupt:
    print("interrupted", end=" ")
assert time.perf_counter() - start < 5
done = int(clock[0])
assert done > before and crew.run(linked, "s", state, 7) == 7 and clock[0] == done + 7
print("done")
"""


def script(then: str) -> str:
    """Run a script in a process of its own; return what it prints."""
    paths = [os.path.dirname(__file__), os.getcwd()]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(paths=paths, then=then)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_process_ends_with_its_threads() -> None:
    features()
    assert script("print('done')") == "done\n"


def test_an_interrupt_comes_through_a_long_loop() -> None:
    """In a process of its own: signals reach the main thread alone, and a runner of tests may use another."""
    features()
    assert script(INTERRUPTED) == "interrupted done\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_has_threads_of_its_own() -> None:
    features()
    assert script(FORK) == "done\nparent done\n"


def test_threads_keep_to_cores_of_their_own(crew: Crew) -> None:
    if available() < 2:
        pytest.skip("one core")
    linked, state, _ = adding(2)
    before = os.sched_getaffinity(0)
    for _ in range(20):
        crew.run(linked, "s", state, 3)
        cores = [os.sched_getaffinity(worker.native_id or 0) for worker in crew._workers.threads]
        assert all(len(core) == 1 and core < before for core in cores), cores
    assert os.sched_getaffinity(0) == before, "the caller is not bound"
    linked, state, _ = adding(3)
    crew.run(linked, "s", state, 3)
    if len(before) == 2:
        cores = [os.sched_getaffinity(worker.native_id or 0) for worker in crew._workers.threads]
        assert cores == [before, before], "more threads than cores may go anywhere"


def test_the_default_is_all_cores_of_this_process() -> None:
    features()
    assert Crew().threads == available() >= 1
    assert Crew(1).threads == 1


def test_one_thread_takes_over_where_others_are_in_the_way() -> None:
    """More threads than cores, sleeping at every barrier: one thread is faster, and the results are the same."""
    features()
    threads = available() + 2
    linked, state, (clock, _) = adding(threads)
    with Crew(threads) as crew:
        steps, end = 0, time.perf_counter() + 10
        while time.perf_counter() < end and crew._paces[linked]["s"]._mode != "one" if steps else True:
            steps += crew.run(linked, "s", state, 50)
        assert crew._paces[linked]["s"]._mode == "one"
        before = state.counts().launches
        steps += crew.run(linked, "s", state, 50)
    assert clock[0] == steps
    launches = [now - then for now, then in zip(state.counts().launches, before, strict=True)]
    assert launches == [100] + [0] * (threads - 1)
