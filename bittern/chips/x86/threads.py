"""A crew: threads that run the sections of linked programs, one driver each, and sleep while there is nothing to do.

The caller is thread 0. The others are threads of Python that stay inside one call of emitted code, where the
interpreter's lock is released: they wait for a ticket in their mailbox (spinning some microseconds, then asleep on the
system's futex), run the driver that the crew's block names, raise their `done` word and wait again. Only those that
take part are woken. `run` returns when all are done, so nothing runs on after it.

Threads that take turns on one core are slow, and a system that wakes a thread on the core of whoever woke it may leave
them there. So each worker is bound to a core of its own, none of them the one that the caller is on just now, as long
as there are enough cores.

A long loop comes back to Python every 20 ms: for signals such as an interrupt, and to choose the number of threads
(`chips/machine/pace.py`). The threads start with the first run that needs them and end with `close`, with the crew, or
with the process. A forked child has none of them; its crew starts its own.
"""

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet, finalize

from bittern.base.errors import BitternError, code
from bittern.chips.machine.assembler import Code, Label
from bittern.chips.machine.calls import entry
from bittern.chips.machine.memory import Executable, executable
from bittern.chips.machine.pace import SLICE, Choice, Pace
from bittern.chips.machine.program import EPOCH, RECORD, RECORDS, Linked, State, Words, aligned_words
from bittern.chips.x86.encode import Assembler
from bittern.chips.x86.registers import at, eax, ecx, edx, esi, r32, r64, rax, rbp, rbx, rcx, rdi, rdx, rsi, rsp
from bittern.chips.x86.waiting import can_sleep, write_await, write_signal, write_ticks

NO_THREADS = code("R164", "the system gives no more threads")

SPIN = 50e-6  # s to spin at a barrier before sleeping: about what it costs to be woken
IDLE = 100e-6  # s to spin after a run before sleeping, so that a run for each token finds the workers awake

# The block of a crew, in bytes: what to do; a mailbox and a done word for each worker, in cache lines of their own.
_DRIVER, _STATE, _THREADS, _TICKET, _ROUNDS, _BOX, _DONE = 0, 8, 16, 24, 32, 256, 128
_GETCPU = 309  # system call
_KEPT = (rbx, rbp, *r64[12:15])  # and the return address: a multiple of 16


def available() -> int:
    """Return the number of cores that this process may use, or 1 where threads cannot sleep."""
    if not can_sleep():
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Crew:
    """Threads for native programs. All of it may be called from any thread; runs go one after the other.

    threads: how many work on a section, the caller included; 0 takes all cores that this process may use.
    adapts: whether one thread does the work while others would only be in the way.
    """

    def __init__(self, threads: int = 0, *, adapts: bool = True) -> None:
        """Raises R161 where the system gives no executable memory."""
        assert threads >= 0, threads
        self.threads: Final = (threads or available()) if can_sleep() else 1
        self.adapts: Final = adapts
        self._program: Final = executable(_write())
        rounds, self._hertz = _calibrate(self._program)
        self._rounds, self._idle = int(SPIN * rounds), int(IDLE * rounds)
        self._lead: Final = entry(self._program, ("pointer", "pointer", "pointer", "u64"), place="lead")
        self._paces: Final[WeakKeyDictionary[Linked, dict[str, Pace]]] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._begin()
        _crews().add(self)

    def run(self, linked: Linked, section: str, state: State, steps: int = 1, work: float = 1.0) -> int:
        """Run a section; return how many steps were done.

        steps: at most; 1 for a section that is no loop. A loop whose `state.stop` is set does none.
        work: of one step, in any unit that is the same in every call, such as tokens; by it the pace is measured.
        Raises R164 where the system gives no more threads.
        """
        loops, driver, done = linked.sections[section].loop, linked.driver(section), 0
        assert loops or steps == 1, ("not a loop", section, steps)
        with self._lock:
            pace = self._pace(linked, section, state)
            while done < steps and not (loops and state.stop):
                choice = pace.choose() if self.adapts else Choice(pace.threads, SLICE)
                self._workers.have(choice.threads - 1)
                state.prepare(steps - done, self._rounds, int(choice.seconds * self._hertz))
                began = perf_counter()
                self._lead(self._workers.address, driver, state.address, choice.threads)
                seconds, done_now = perf_counter() - began, state.done
                if self.adapts and pace.threads > 1:
                    sleepiness = state.sleepiness(choice.threads) if choice.threads > 1 else 0.0
                    pace.record(seconds, work * done_now, done_now, sleepiness)
                done += done_now
        return done

    def alone(self, linked: Linked, section: str, state: State, owner: object) -> Callable[[], None]:
        """Return a function that runs a section once on the calling thread, with nothing decided in between.

        For short work, where `run` itself would take longer. The section is no loop. The function holds program, state
        and `owner`, which owns the memory that the program touches. Two calls at once are for the caller to prevent.
        """
        assert not linked.sections[section].loop, section
        state.prepare(1, self._rounds, 0)
        a = Assembler()
        a.mov(rdi, state.address)  # in the code: Python takes longer to hand over arguments than a layer may take
        a.xor(esi, esi)
        a.mov(edx, 1)
        a.mov(rax, linked.driver(section))
        a.jmp(rax)
        call: Any = entry(executable(a.finish()))
        call.held = self, linked, state, owner
        called: Callable[[], None] = call
        return called

    def close(self) -> None:
        """End the workers, if they were started; the next run starts new ones."""
        with self._lock:
            self._end()
            self._begin()

    def __enter__(self) -> "Crew":
        """Return the crew, for a `with` block that closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the crew."""
        self.close()

    @property
    def started(self) -> int:
        """How many workers are there now, asleep or not; the caller is none of them."""
        return len(self._workers.threads)

    def _begin(self) -> None:
        """Make ready for workers that start later."""
        self._workers = _Workers(self._program, self.threads, self._idle)
        self._end = finalize(self, self._workers.end)

    def _forked(self) -> None:
        """Forget the workers of the parent in a child, which has none of its threads."""
        self._end.detach()
        self._lock = threading.Lock()
        self._begin()

    def _pace(self, linked: Linked, section: str, state: State) -> Pace:
        known = self._paces.setdefault(linked, {})
        threads = min(self.threads, state.threads)
        if section not in known or known[section].threads != threads:
            known[section] = Pace(threads)
        return known[section]


class _Workers:
    """The workers of a crew and the block through which they are told what to do."""

    def __init__(self, program: Executable, threads: int, rounds: int) -> None:
        self.block: Final[Words] = aligned_words(_BOX * threads)
        self.block[_ROUNDS // 8] = rounds
        self.address: Final = int(self.block.ctypes.data)
        self.threads: list[threading.Thread] = []
        self._capacity: Final = threads
        self._numbers: Final = count(1)
        self._caller = -1  # the core that the caller was on when the workers were bound
        self._core: Final[Any] = entry(program, (), "u64", "core")
        self._work: Final[Any] = entry(program, ("pointer", "u64", "u32"), place="work")
        self._dismiss: Final[Any] = entry(program, ("pointer", "u64"), place="dismiss")

    def have(self, wanted: int) -> None:
        """Have at least so many workers, on cores of their own. Raises R164 where the system gives no more threads."""
        if not wanted:
            return
        if len(self.threads) < wanted:
            self._start(wanted)
            self._caller = -1
        caller = int(self._core())
        if caller != self._caller:
            self._caller = caller
            self._bind()

    def _bind(self) -> None:
        """Bind each worker to a core; whether that works only changes how fast they are."""
        if not hasattr(os, "sched_setaffinity"):
            return
        allowed = os.sched_getaffinity(0)
        free = _spread(self._caller, sorted(allowed - {self._caller}))
        for number, worker in enumerate(self.threads):
            bound = {free[number]} if len(free) >= len(self.threads) else allowed
            with suppress(OSError):
                os.sched_setaffinity(worker.native_id or 0, bound)

    def _start(self, wanted: int) -> None:
        """Start workers until there are so many.

        Each takes its number when it runs, so that a start which an interrupt cut short leaves no two of one number.
        """
        while len(self.threads) < wanted:
            ticket, name = int(self.block[_TICKET // 8]), f"bittern-{len(self.threads) + 1}"
            worker = threading.Thread(target=self._take_place, args=(ticket,), name=name, daemon=True)
            try:
                worker.start()
            except RuntimeError as refused:
                raise BitternError(
                    NO_THREADS,
                    f"The system refused thread {len(self.threads) + 2} of {wanted + 1}: {refused}.",
                    "Use fewer threads (`--threads 1`), or raise the limit of this process.",
                ) from refused
            self.threads.append(worker)

    def _take_place(self, ticket: int) -> None:
        number = next(self._numbers)
        if number < self._capacity:
            self._work(self.address, number, ticket)

    def end(self) -> None:
        """Send all workers home and wait until they have gone."""
        self._dismiss(self.address, self._capacity)
        for worker in self.threads:
            worker.join()
        self.threads.clear()


@cache
def _crews() -> "WeakSet[Crew]":
    """Return the set of crews that are told of a fork."""
    crews: WeakSet[Crew] = WeakSet()

    def forked() -> None:
        for crew in crews:
            crew._forked()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forked)
    return crews


def _spread(taken: int, cores: Sequence[int]) -> list[int]:
    """Return the cores in the order of use: those that share nothing with the taken one or each other come first.

    What Linux counts as cores may be two halves of one; its files say which.
    """
    first: list[int] = []
    later: list[int] = []
    seen = set()
    for core in (taken, *cores):
        try:
            whole = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list").read_text("ascii")
        except OSError:
            whole = str(core)
        (later if whole in seen else first).append(core)
        seen.add(whole)
    return first[1:] + later


def _calibrate(program: Executable) -> tuple[float, float]:
    """Return how many rounds of waiting last a second, and how many ticks the processor's clock makes meanwhile."""
    pause, ticks = entry(program, ("pointer", "u32"), place="pause"), entry(program, (), "u64", place="ticks")
    word = aligned_words(8)
    tries = []
    start, began, rounds = perf_counter(), int(ticks()), 500
    for _ in range(5):
        before = perf_counter()
        pause(int(word.ctypes.data), rounds)
        tries.append(perf_counter() - before)
    hertz = (int(ticks()) - began) / (perf_counter() - start)
    return rounds / min(tries), hertz


def _write() -> Code:
    """Write what the caller and the workers run."""
    a = Assembler()
    signal, awaits = write_signal(a), write_await(a)
    a.align(16)
    _write_lead(a, signal, awaits)
    _write_work(a, signal, awaits)
    _write_dismiss(a, signal)
    a.here("pause")  # pause(word, rounds): as long as so many rounds of waiting last
    a.mov(ecx, esi)
    turn = a.here()
    a.pause()
    a.dec(ecx)
    a.mov(esi, at(rdi))
    a.sub(esi, ecx)
    a.test(ecx, ecx)
    a.jne(turn)
    a.ret()
    _write_core(a)
    a.here("ticks")
    write_ticks(a)
    a.ret()
    return a.finish()


def _write_core(a: Assembler) -> None:
    """Write core(), which returns the number of the core that it runs on: getcpu(2)."""
    a.here("core")
    a.sub(rsp, 24)
    a.mov(rdi, rsp)
    a.xor(esi, esi)
    a.xor(edx, edx)
    a.mov(eax, _GETCPU)
    a.syscall()
    a.mov(eax, at(rsp))
    a.add(rsp, 24)
    a.ret()


def _write_lead(a: Assembler, signal: Label, awaits: Label) -> None:
    """Write lead(block, driver, state, threads): publish, run as thread 0, wait until all are done."""
    a.here("lead")
    for register in _KEPT:
        a.push(register)
    a.mov(rbx, rdi)
    a.mov(rbp, rdx)
    a.mov(r64[14], rcx)
    a.mov(at(rbx, _DRIVER), rsi)
    a.mov(at(rbx, _STATE), rdx)
    a.mov(at(rbx, _THREADS), rcx)
    a.mov(edx, at(rbp, EPOCH))
    a.lea(rax, at(rbp, RECORDS))
    reset = a.here()  # nobody runs, so the epochs may be set
    a.mov(at(rax), edx)
    a.add(rax, RECORD)
    a.dec(rcx)
    a.jne(reset)
    a.inc(at(rbx, _TICKET, size=4))
    _write_each_worker(a, 0, signal)
    a.mov(rdi, rbp)
    a.xor(esi, esi)
    a.mov(rdx, r64[14])
    a.call(at(rbx, _DRIVER, size=8))
    _write_each_worker(a, _DONE, awaits)
    for register in reversed(_KEPT):
        a.pop(register)
    a.ret()


def _write_each_worker(a: Assembler, word: int, what: Label) -> None:
    """Write calls of signal or await for a word of the workers 1 to r14 - 1 and the current ticket."""
    turn, done = a.label(), a.label()
    a.mov(r32[12], 1)
    a.lea(r64[13], at(rbx, _BOX + word))
    a.place(turn)
    a.cmp(r64[12], r64[14])
    a.jae(done)
    a.mov(rdi, r64[13])
    a.mov(esi, at(rbx, _TICKET))
    a.mov(ecx, at(rbx, _ROUNDS))
    a.call(what)
    a.inc(r64[12])
    a.add(r64[13], _BOX)
    a.jmp(turn)
    a.place(done)


def _write_dismiss(a: Assembler, signal: Label) -> None:
    """Write dismiss(block, threads): tell all workers to go home."""
    a.here("dismiss")
    for register in _KEPT:
        a.push(register)
    a.mov(rbx, rdi)
    a.mov(r64[14], rsi)
    a.mov(at(rbx, _DRIVER, size=8), 0)
    a.inc(at(rbx, _TICKET, size=4))
    _write_each_worker(a, 0, signal)
    for register in reversed(_KEPT):
        a.pop(register)
    a.ret()


def _write_work(a: Assembler, signal: Label, awaits: Label) -> None:
    """Write work(block, number, ticket): do what the tickets after this one ask for, until one asks for nothing."""
    a.here("work")
    for register in _KEPT:
        a.push(register)
    a.mov(rbx, rdi)
    a.mov(r64[12], rsi)
    a.mov(r32[13], edx)
    a.imul(rbp, rsi, _BOX)
    a.add(rbp, rdi)
    turn, home = a.here(), a.label()
    a.mov(rdi, rbp)
    a.lea(esi, at(r64[13], 1))
    a.mov(ecx, at(rbx, _ROUNDS))
    a.call(awaits)
    a.mov(r32[13], at(rbp))
    a.mov(rax, at(rbx, _DRIVER))
    a.test(rax, rax)
    a.je(home)
    a.mov(rdi, at(rbx, _STATE))
    a.mov(rsi, r64[12])
    a.mov(rdx, at(rbx, _THREADS))
    a.call(rax)
    a.lea(rdi, at(rbp, _DONE))
    a.mov(esi, r32[13])
    a.call(signal)
    a.jmp(turn)
    a.place(home)
    for register in reversed(_KEPT):
        a.pop(register)
    a.ret()
