"""What a native program is: compiled routines, the order of their launches, and the state that it runs on.

A program has sections, such as `prefill` or `decode`. A section becomes one function for each thread, its *driver*:
driver(state, thread, threads) does the launches in order with calls and barriers in machine code. A section that loops
does so again until `state.stop` is set or as many steps are done as were asked for, so Python is entered once for many
steps. A chip's `link` writes the drivers; a chip's crew of threads runs them:

    linked = link(codes, {"decode": Section((Launch(0, 0), Launch(1, 64, "one", barrier=False)), loop=True)})
    state = State(threads=2, slots=16)
    state.args[0:3] = [...]                   # sizes and addresses, where launch 0 has its block
    steps = crew.run(linked, "decode", state, steps=100)
    assert state.counts() == predict(linked.sections["decode"], threads=2, steps=100)

Every routine is a position independent `Code` with its entry at offset 0: routine(args, thread, threads). Threads see
what others stored before the last barrier, and nothing else for certain. A routine asks for the end of a loop by
storing something other than 0 in the 4 bytes at `state.stop_address`; the step in which it does so is the last one,
on every thread, whatever their number.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from bittern.chips.machine.memory import Executable

Mode = Literal["split", "each", "one"]

# Bytes from the start of a state. What different threads write lies in different pairs of cache lines.
ARGS, COUNT, SPIN, BUDGET, EPOCH = 0, 8, 16, 24, 32  # read only while a section runs
STOP = 128  # u32, written by routines
DONE, GO = 256, 272  # u64: steps done by the last call; u64[2]: whether the next step comes, by parity
RECORDS, RECORD = 384, 128  # one record a thread: u32 epoch, u32 sleepers; 64 bytes on, the counters below
LAUNCHES, BARRIERS, SLEEPS = 64, 72, 80  # u64, from the start of a record; each written by its thread alone

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Launch:
    """One call of a routine.

    routine: its index. args: byte offset of its argument block in the state's argument area, a multiple of 8; that of
    thread k is `k * stride` bytes further. mode: `split`: every thread calls it with (thread, threads); `each`: every
    thread calls it with (0, 1); `one`: thread 0 alone calls it, with (0, 1).
    barrier: all threads meet after it. label: what it is for, such as the id of a node.
    """

    routine: int
    args: int
    mode: Mode = "split"
    barrier: bool = True
    label: str = ""
    stride: int = 0

    def __post_init__(self) -> None:
        assert self.routine >= 0, self
        assert self.args >= 0 and self.args % 8 == 0 and self.args < 1 << 31, self
        assert self.stride % 8 == 0 and self.stride >= 0, self


@dataclass(frozen=True, slots=True)
class Section:
    """Launches in order. loop: they are repeated.

    A loop meets once more after each step, where thread 0 decides whether another one comes; so its last launch has a
    barrier or is of the mode `one`.
    """

    launches: tuple[Launch, ...]
    loop: bool = False

    def __post_init__(self) -> None:
        assert self.launches, "a section without launches"
        last = self.launches[-1]
        assert not self.loop or last.barrier or last.mode == "one", ("the end of a loop must be known", last)


@dataclass(frozen=True, slots=True)
class Counts:
    """How many routines each thread called, and how many barriers each went through."""

    launches: tuple[int, ...]
    barriers: tuple[int, ...]


def predict(section: Section, threads: int, steps: int = 1) -> Counts:
    """Return what `steps` steps of a section add to the counters when so many threads run it."""
    first = len(section.launches)
    others = first - sum(launch.mode == "one" for launch in section.launches)
    barriers = sum(launch.barrier for launch in section.launches) + section.loop
    return Counts((steps * first, *[steps * others] * (threads - 1)), (steps * barriers,) * threads)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a program's code: byte offset and size."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Linked:
    """A program in executable memory.

    routines: where each lies, in the order given to `link`. drivers: byte offset of each section's driver.
    """

    program: Executable
    sections: Mapping[str, Section]
    routines: tuple[Span, ...]
    drivers: Mapping[str, int]

    def driver(self, section: str) -> int:
        """Return the address of a section's driver."""
        assert section in self.drivers, ("no such section", section, list(self.drivers))
        return self.program.address + self.drivers[section]

    def addresses(self, routine: int) -> tuple[int, int]:
        """Return the first address of a routine and the one behind its last byte, constants included."""
        span = self.routines[routine]
        return self.program.address + span.offset, self.program.address + span.offset + span.size


class State:
    """What a program runs on: its argument area, the stop word, and each thread's epoch and counters.

    threads: the most that may run on it. args: u64, the argument area (zeros at first).
    Arrays whose addresses are written into `args` must be kept alive by the caller.
    """

    def __init__(self, threads: int, slots: int) -> None:
        assert threads >= 1 and slots >= 0, (threads, slots)
        self.threads: Final = threads
        self._words: Final = aligned_words(RECORDS + RECORD * threads + 8 * slots)
        self.address: Final = int(self._words.ctypes.data)
        start = (RECORDS + RECORD * threads) // 8
        self.args: Final[Words] = self._words[start : start + slots]
        self._records: Final = self._words[RECORDS // 8 : start].reshape(threads, RECORD // 8)
        self._head: Final = self._words[: RECORDS // 8].data  # reads and writes a word faster than an array
        self._head[ARGS // 8] = self.address + 8 * start
        self._seen = 0, 0  # sleeps and barriers

    @property
    def stop_address(self) -> int:
        """Where a routine stores 4 bytes other than 0 to end a loop."""
        return self.address + STOP

    @property
    def stop(self) -> bool:
        """Whether a routine asked for the end of the loop, or the caller did so."""
        return self._head[STOP // 8] & 0xFFFFFFFF != 0

    @stop.setter
    def stop(self, wanted: bool) -> None:
        """Ask for the end of the loop, or let it go on."""
        self._head[STOP // 8] = int(wanted)

    def arg_address(self, offset: int) -> int:
        """Return the address of a byte of the argument area."""
        return self.address + RECORDS + RECORD * self.threads + offset

    def counts(self) -> Counts:
        """Return how many launches and barriers each thread did since the counters were cleared."""
        launches, barriers = self._records[:, LAUNCHES // 8], self._records[:, BARRIERS // 8]
        return Counts(tuple(launches.tolist()), tuple(barriers.tolist()))

    def sleeps(self) -> tuple[int, ...]:
        """Return how often each thread slept at a barrier since the counters were cleared."""
        return tuple(self._records[:, SLEEPS // 8].tolist())

    def clear_counts(self) -> None:
        """Set all counters to zero."""
        self._records[:, LAUNCHES // 8 : SLEEPS // 8 + 1] = 0
        self._seen = 0, 0

    def prepare(self, count: int, spin: int, budget: int) -> None:
        """Say how a call goes: steps at most, rounds to spin before sleeping, ticks of the clock after which it ends.

        At least one step is done whatever the budget.
        """
        assert count >= 1 and spin >= 0 and budget >= 0, (count, spin, budget)
        head = self._head
        head[COUNT // 8], head[SPIN // 8], head[BUDGET // 8] = count, spin, budget

    def image(self, address: int) -> Words:
        """Return a copy of the state as it would lie at another address; what `args` hold is left as it is."""
        made = self._words.copy()
        made[ARGS // 8] = address + RECORDS + RECORD * self.threads
        return made

    @property
    def first_arg(self) -> int:
        """The index in an image of the first word of the argument area."""
        return (RECORDS + RECORD * self.threads) // 8

    def start_at(self, epoch: int) -> None:
        """Have the barriers count from this epoch, modulo 2^32, instead of 0."""
        self._head[EPOCH // 8] = epoch

    @property
    def done(self) -> int:
        """Steps that the last call did."""
        return self._head[DONE // 8]

    def sleepiness(self, threads: int) -> float:
        """Return at what share of its barriers a thread slept since the last time this was asked."""
        records = self._records[:threads]
        slept, met = int(records[:, SLEEPS // 8].sum()), int(records[:, BARRIERS // 8].sum())
        before, self._seen = self._seen, (slept, met)
        return (slept - before[0]) / max(1, met - before[1])


def aligned_words(size: int, boundary: int = 128) -> Words:
    """Return zeroed memory of `size` bytes, a multiple of 8, that starts at a multiple of the boundary."""
    made = np.zeros((size + boundary) // 8, np.uint64)
    skipped = -int(made.ctypes.data) % boundary // 8
    return made[skipped : skipped + size // 8]
