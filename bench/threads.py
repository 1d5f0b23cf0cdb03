"""What it costs that threads work together: launches and barriers in machine code, entering it, waking a thread."""

from collections.abc import Callable
from functools import cache
from time import perf_counter, sleep

from figures import CannotMeasureError, Figure

from bittern.base.errors import BitternError
from bittern.chips.machine.assembler import Code
from bittern.chips.machine.program import Launch, Linked, Section, State
from bittern.chips.x86.encode import Assembler
from bittern.chips.x86.features import is_here
from bittern.chips.x86.program import link
from bittern.chips.x86.threads import Crew, available

_LAUNCHES = 100  # in a step
_STEPS = 2000


def _nothing() -> Code:
    a = Assembler()
    a.ret()
    return a.finish()


def _program(launches: int) -> Linked:
    meets = Section((Launch(0, 0),) * launches, loop=True)
    passes = Section((Launch(0, 0, barrier=False),) * (launches - 1) + (Launch(0, 0),), loop=True)
    return link([_nothing()], {"meets": meets, "passes": passes})


@cache
def _rig(threads: int) -> tuple[Linked, Crew, State]:
    """Return a program of routines that do nothing, and who runs it on what."""
    if not is_here():
        raise CannotMeasureError("this machine does not run x86-64 code")
    if threads > available():
        raise CannotMeasureError(f"{threads} threads need {threads} cores")
    try:
        return _program(_LAUNCHES), Crew(threads, adapts=False), State(threads, 1)
    except BitternError as refused:
        raise CannotMeasureError(str(refused)) from refused


def _step(section: str, threads: int) -> float:
    """Return ns that a launch takes."""
    linked, crew, state = _rig(threads)
    crew.run(linked, section, state, 10)
    start = perf_counter()
    crew.run(linked, section, state, _STEPS)
    return 1e9 * (perf_counter() - start) / _STEPS / _LAUNCHES


def _barrier(threads: int) -> float:
    return _step("meets", threads) - _step("passes", threads)


def _enter(threads: int, idle: float) -> float:
    """Return µs that a step of 100 launches without a barrier takes when Python enters it, after so many idle s."""
    linked, crew, state = _rig(threads)
    crew.run(linked, "passes", state, 10)
    taken = 0.0
    repeats = 20 if idle else 1000
    for _ in range(repeats):
        if idle:
            sleep(idle)
        start = perf_counter()
        crew.run(linked, "passes", state, 1)
        taken += perf_counter() - start
    return 1e6 * taken / repeats


def _link() -> float:
    """Return ms that linking a program of 300 launches takes."""
    _rig(1)
    start = perf_counter()
    _program(150)
    return 1e3 * (perf_counter() - start)


def _figure(name: str, unit: str, measure: Callable[[], float], at_most: float | None = None) -> Figure:
    return Figure(f"threads: {name}", unit, measure, at_most=at_most, repeats=11)


FIGURES = (
    _figure("a launch", "ns", lambda: _step("passes", 1)),
    _figure("a barrier of one thread", "ns", lambda: _barrier(1)),
    _figure("a barrier of two threads", "ns", lambda: _barrier(2), at_most=100),
    _figure("entering 100 launches, one thread", "µs", lambda: _enter(1, 0)),
    _figure("entering 100 launches, two threads", "µs", lambda: _enter(2, 0)),
    _figure("entering 100 launches, the other thread asleep", "µs", lambda: _enter(2, 0.002)),
    _figure("linking 300 launches", "ms", _link),
)
