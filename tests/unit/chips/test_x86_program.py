"""Linked programs on one and more threads: order, modes, barriers, ends of loops, counters, and planted faults."""

import itertools
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import x86_little as little
from x86_run import features

from bittern.chips.machine.assembler import Code, Label
from bittern.chips.machine.calls import entry
from bittern.chips.machine.memory import executable
from bittern.chips.machine.program import Counts, Launch, Linked, Section, State, predict
from bittern.chips.x86 import program
from bittern.chips.x86.encode import Assembler
from bittern.chips.x86.program import assemble, link
from bittern.chips.x86.registers import at_label, rax
from bittern.chips.x86.threads import Crew

THREADS = (1, 2, 3, 4)
Words = npt.NDArray[Any]


@pytest.fixture(scope="module", params=THREADS)
def crew(request: pytest.FixtureRequest) -> Iterator[Crew]:
    """A crew that never falls back to one thread."""
    features()
    with Crew(request.param, adapts=False) as made:
        yield made


def address(array: Words) -> int:
    """Return where an array lies."""
    return int(array.ctypes.data)


def test_every_thread_does_its_part(crew: Crew) -> None:
    state, out = State(crew.threads, 2), np.zeros(1001, np.uint64)
    little.put(state, 0, address(out), len(out))
    linked = link([little.fill()], {"all": Section((Launch(0, 0),)), "first": Section((Launch(0, 0, "one"),))})
    assert crew.run(linked, "all", state) == 1
    parts = [len(out) * k // crew.threads for k in range(crew.threads + 1)]
    wanted = np.concatenate([np.full(b - a, k + 1) for k, (a, b) in enumerate(itertools.pairwise(parts))])
    assert out.tolist() == wanted.tolist()
    crew.run(linked, "first", state)
    assert out.tolist() == [1] * len(out), "thread 0 alone does all of it"


def test_what_each_thread_is_given(crew: Crew) -> None:
    state, seen = State(crew.threads, 64), np.zeros((2 * crew.threads, 4), np.uint64)
    for thread in range(crew.threads):
        little.put(state, 8 + 16 * thread, address(seen[thread]))
    little.put(state, 256, address(seen[crew.threads]))
    launches = (Launch(0, 8, "each", stride=16), Launch(0, 256, "one", barrier=False))
    linked = link([little.who()], {"s": Section(launches)})
    crew.run(linked, "s", state)
    for row in (*seen[: crew.threads], seen[crew.threads]):
        thread, threads, stack, mode = row.tolist()
        assert (thread, threads, stack % 16, mode) == (0, 1, 8, 0x1F80)


def test_threads_that_split_may_have_blocks_of_their_own(crew: Crew) -> None:
    state, out = State(crew.threads, 64), np.zeros((crew.threads, 100), np.uint64)
    for thread in range(crew.threads):
        little.put(state, 32 * thread, address(out[thread]), 100)
    crew.run(link([little.fill()], {"s": Section((Launch(0, 0, stride=32),))}), "s", state)
    for thread in range(crew.threads):
        first, behind = (100 * k // crew.threads for k in (thread, thread + 1))
        assert out[thread].tolist() == [0] * first + [thread + 1] * (behind - first) + [0] * (100 - behind)


def test_launches_go_in_order() -> None:
    features()
    state, log = State(1, 40), np.zeros(32, np.uint64)
    for number in range(10):
        little.put(state, 16 * number, address(log), 100 + number)
    order = (3, 1, 4, 1, 5, 9, 2, 6)
    linked = link([little.note()], {"a": Section(tuple(Launch(0, 16 * number) for number in order))})
    Crew(1).run(linked, "a", state)
    assert log[0] == 8 and log[1:9].tolist() == [100 + number for number in order]


def test_sections_share_routines_and_are_alone() -> None:
    features()
    state, log = State(1, 8), np.zeros(32, np.uint64)
    little.put(state, 0, address(log), 1)
    little.put(state, 16, address(log), 2)
    sections = {"prefill": Section((Launch(1, 0),)), "decode": Section((Launch(1, 16),), loop=True)}
    linked = link([little.nothing(), little.note()], sections)
    crew = Crew(1)
    crew.run(linked, "decode", state, 3)
    crew.run(linked, "prefill", state)
    assert log[1 : 1 + int(log[0])].tolist() == [2, 2, 2, 1]


def test_the_mode_of_float_arithmetic_is_the_callers_again() -> None:
    """Whatever the caller's rounding is, routines run in the default one."""
    features()
    state, seen, mode = State(1, 1), np.zeros(4, np.uint64), np.array([0xFFC0], np.uint32)  # to zero, flushing
    little.put(state, 0, address(seen))
    linked = link([little.who()], {"s": Section((Launch(0, 0),))})
    crew, swap = Crew(1), entry(executable(little.set_mode()), ("pointer",))
    swap(address(mode))
    try:
        crew.run(linked, "s", state)
    finally:
        swap(address(mode))
    assert seen[3] == 0x1F80 and mode[0] & 0xFFC0 == 0xFFC0  # the low bits note what happened


def meeting(threads: int, barrier: bool = True) -> tuple[Linked, State, Words]:
    """Return a loop in which threads tell each other the time, and how often they heard a wrong one."""
    state, clock, slots = State(threads, 32), np.zeros(1, np.uint64), np.zeros((threads, 8), np.uint64)
    faults = np.zeros((threads, 8), np.uint64)
    little.put(state, 0, address(slots), address(clock), 2000, threads - 1)
    little.put(state, 64, address(slots), address(clock), address(faults))
    little.put(state, 128, address(clock))
    launches = (Launch(0, 128, "one"), Launch(1, 0, barrier=barrier), Launch(2, 64))
    linked = link([little.tick(), little.say(), little.hear()], {"s": Section(launches, loop=True)})
    state.held = (clock, slots, faults)  # type: ignore[attr-defined]
    return linked, state, faults


def test_a_barrier_holds_all_back(crew: Crew) -> None:
    linked, state, faults = meeting(crew.threads)
    steps = 200
    assert crew.run(linked, "s", state, steps) == steps
    assert not faults.any()
    assert state.counts() == predict(linked.sections["s"], crew.threads, steps)


def test_a_dropped_barrier_is_noticed() -> None:
    """Planted fault: the threads do not meet after they told the time."""
    features()
    linked, state, faults = meeting(2, barrier=False)
    with Crew(2, adapts=False) as crew:
        crew.run(linked, "s", state, 200)
    assert faults.any()


def test_a_barrier_that_lets_all_pass_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: `meet` returns at once, so there is no barrier at all."""
    features()

    def passes(a: Assembler) -> Label:
        meet = a.here()
        a.ret()
        return meet

    monkeypatch.setattr(program, "_write_meet", passes)
    linked, state, faults = meeting(2)
    with Crew(2, adapts=False) as crew:
        crew.run(linked, "s", state, 200)
    assert faults.any() or state.counts() != predict(linked.sections["s"], 2, 200)


def test_a_missing_launch_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: the second launch is not written."""
    features()
    whole = program._write_launch

    def write(a: Assembler, launch: Launch, routine: Label) -> None:
        if launch.args != 8:
            whole(a, launch, routine)

    monkeypatch.setattr(program, "_write_launch", write)
    section = Section((Launch(0, 0), Launch(0, 8), Launch(0, 16, "one")))
    linked, state = link([little.nothing()], {"s": section}), State(2, 4)
    with Crew(2, adapts=False) as crew:
        crew.run(linked, "s", state)
    assert predict(section, 2) == Counts((3, 2), (3, 3))
    assert state.counts() == Counts((2, 1), (3, 3))


def test_very_many_barriers(crew: Crew) -> None:
    """As many barriers as go into a second, through the end of the epochs' 32 bits."""
    section = Section((Launch(0, 0),) * 99, loop=True)
    linked, state = link([little.nothing()], {"s": section}), State(crew.threads, 1)
    state.start_at(2**32 - 1000)
    steps, end = 0, perf_counter() + 1.0
    while perf_counter() < end and steps < 20_000:
        steps += crew.run(linked, "s", state, 50)
    print(steps * 100, "barriers on", crew.threads, "threads")
    assert state.counts() == predict(section, crew.threads, steps)


def test_threads_that_sleep_at_every_barrier_are_woken(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "_rounds", 0)
    linked, state, faults = meeting(crew.threads)
    assert crew.run(linked, "s", state, 500) == 500
    assert not faults.any() and (crew.threads == 1 or sum(state.sleeps()) > 0)


def stopping(threads: int, last: int, where: Callable[[Launch], tuple[Launch, ...]]) -> tuple[Linked, State, Words]:
    """Return a loop whose clock ticks once a step, and which a routine ends at step `last`."""
    state, clock = State(threads, 32), np.zeros(1, np.uint64)
    little.put(state, 0, address(clock))
    little.put(state, 64, address(clock), last, state.stop_address)
    linked = link([little.tick(), little.stop_at()], {"s": Section(where(Launch(1, 64)), loop=True)})
    return linked, state, clock


TICK = Launch(0, 0, "one")
ENDS: dict[str, Callable[[Launch], tuple[Launch, ...]]] = {
    "at the end": lambda stop: (TICK, stop),
    "by all, before others do more": lambda stop: (TICK, Launch(1, 64, barrier=False), Launch(0, 128, "one")),
    "by thread 0": lambda stop: (TICK, Launch(1, 64, "one", barrier=False)),
}


@pytest.mark.parametrize("where", list(ENDS))
@pytest.mark.parametrize("last", [1, 2, 7, 100])
def test_a_loop_ends_when_a_routine_says_so(crew: Crew, where: str, last: int) -> None:
    linked, state, clock = stopping(crew.threads, last, ENDS[where])
    spare = np.zeros(1, np.uint64)
    little.put(state, 128, address(spare))
    assert crew.run(linked, "s", state, 1000) == last
    assert clock[0] == last and state.stop
    assert state.counts() == predict(linked.sections["s"], crew.threads, last)
    assert crew.run(linked, "s", state, 10) == 0, "it stays stopped"
    state.stop = False
    little.put(state, 64, address(clock), 2**60)
    assert crew.run(linked, "s", state, 3) == 3 and clock[0] == last + 3


def test_a_fast_thread_cannot_end_the_step_before(crew: Crew) -> None:
    """The first launch of a step stops: threads that are still at the end of the step before do this step as well."""
    for last in range(2, 40):
        linked, state, clock = stopping(
            crew.threads, last, lambda stop: (Launch(1, 64, "one", barrier=False), Launch(0, 0, "one"))
        )
        little.put(state, 64, address(clock), last - 1, state.stop_address)
        assert crew.run(linked, "s", state, 100) == last
        assert state.counts() == predict(linked.sections["s"], crew.threads, last)


def test_a_loop_without_a_barrier_of_its_own(crew: Crew) -> None:
    linked, state, clock = stopping(crew.threads, 2**60, lambda stop: (Launch(0, 0, "one", barrier=False),))
    assert crew.run(linked, "s", state, 300) == 300
    assert clock[0] == 300 and state.counts() == predict(linked.sections["s"], crew.threads, 300)


def test_the_budget_ends_a_call_at_a_step() -> None:
    features()
    linked, state, clock = stopping(1, 2**60, ENDS["at the end"])
    driver = entry(linked.program, ("pointer", "u64", "u64"), offset=linked.drivers["s"])
    state.prepare(1000, 100, 0)
    driver(state.address, 0, 1)
    assert state.done == 1 and clock[0] == 1, "at least one step"
    state.prepare(1 << 40, 100, 3_000_000)
    driver(state.address, 0, 1)
    assert 1 < state.done < 1 << 30


def test_a_program_says_where_things_are() -> None:
    features()
    routines = [little.fill(), little.nothing()]
    sections = {"s": Section((Launch(1, 0, label="node 7"), Launch(0, 0, barrier=False)))}
    code, spans = assemble(routines, sections)
    assert (code, spans) == assemble(routines, sections), "the same inputs, the same bytes"
    for routine, span in zip(routines, spans, strict=True):
        assert span.offset % 64 == 0 and code.data[span.offset : span.offset + span.size] == routine.data
    linked = link(routines, sections)
    first, behind = linked.addresses(1)
    assert first in linked.program and behind - first == len(routines[1].data)
    marks = {text: offset for offset, text in code.marks}
    assert code.places["driver s"] <= marks["node 7"] < code.size


def test_marks_and_constants_of_routines_move_along() -> None:
    features()
    a = Assembler()
    a.mark("first")
    a.mov(rax, at_label(a.constant(bytes(range(8)))))
    a.mark("second")
    a.ret()
    routine = a.finish()
    code, spans = assemble([little.nothing(), routine], {"s": Section((Launch(1, 0),))})
    moved = [(offset - spans[1].offset, text) for offset, text in code.marks if text in ("first", "second")]
    assert moved == list(routine.marks)
    assert code.data[spans[1].offset :].startswith(routine.data)


def test_what_cannot_be_linked() -> None:
    with pytest.raises(AssertionError, match="no such routine"):
        assemble([Code(b"\xc3", 1, 1, {})], {"s": Section((Launch(1, 0),))})
    with pytest.raises(AssertionError, match="end of a loop"):
        Section((Launch(0, 0, barrier=False),), loop=True)
    with pytest.raises(AssertionError):
        Launch(0, 4)
    with pytest.raises(AssertionError, match="without launches"):
        Section(())
