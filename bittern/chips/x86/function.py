"""A function of batches on the x86-64 chip: a plan, code and memory for a few batch sizes, made when first wanted.

Batches run at sizes that are powers of two, up to `MOST`; the last samples of a batch are repeated to fill a size, and
what they give is dropped. Small work stays on the calling thread: waking another would take longer.
"""

from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.chips.chip import Arrays, BoundFunction
from bittern.chips.machine.code_cache import CodeCache
from bittern.chips.x86.cut import Cut, input_bytes
from bittern.chips.x86.features import Tier
from bittern.chips.x86.routines import Routines
from bittern.chips.x86.threads import Crew
from bittern.chips.x86.weights import Bytes, Weights, aligned
from bittern.graph.evaluate import World
from bittern.graph.node import Function
from bittern.lang.library import Library
from bittern.plan.flow import Value
from bittern.plan.memory import memory_of
from bittern.plan.plan import Plan
from bittern.plan.planner import plan_of
from bittern.plan.rules import KNOWN, RULES

MOST = 256  # samples of one run
ROOM = 64 << 20  # bytes of values and inputs that one run may take, if one sample does not take more
ALONE = 1 << 22  # multiply-accumulates of a run up to which one thread does it


class X86Function:
    """See the module. fuse: whether plans join several applications in one region."""

    def __init__(
        self,
        function: Function,
        library: Library,
        tier: Tier,
        threads: int,
        cache: CodeCache | None,
        fuse: bool = True,
    ) -> None:
        self.function, self.library, self.fuse = function, library, fuse
        self._crew = Crew(threads)
        self._alone = self._crew if self._crew.threads == 1 else Crew(1)
        self.routines = Routines(tier, cache)
        self.weights = Weights(self._crew, self.routines, World)
        self._cuts: dict[int, _Batch] = {}
        self._lock = Lock()

    def plan(self, batch: int) -> Plan:
        """Plan the function for so many samples. Raises P101, P102."""
        tier = self.routines.tier.name
        return plan_of(self.function, RULES, KNOWN, self.library, {0: batch}, fuse=self.fuse, tier=tier)

    def cut(self, batch: int) -> Cut:
        """Return the cut that runs so many samples."""
        return self._batch(batch).cut

    def bound(self, batch: int) -> BoundFunction:
        """Return memory for a batch and what runs it there; each call gives memory of its own."""
        return self._made(batch)

    def standalone(self) -> bytes:
        """Return a static executable that runs one sample after the other; see `standalone.py`."""
        from bittern.chips.x86.standalone import standalone

        return standalone(self._cut(1, self._alone).cut, self.routines.tier)

    def run(self, inputs: Sequence[npt.NDArray[Any]]) -> Arrays:
        """Run a batch. inputs: [b, ...] each, of the parameter's element. Returns the results [b, ...]."""
        rows = len(inputs[0])
        with self._lock:
            if rows in self._cuts:
                return self._cuts[rows].run(inputs)
            parts: list[Arrays] = []
            most = self._most(rows)
            for low in range(0, rows, most):
                here = [each[low : low + most] for each in inputs]
                count = len(here[0])
                size = 1 << (count - 1).bit_length()
                if size > count:
                    here = [np.concatenate([each, np.repeat(each[-1:], size - count, axis=0)]) for each in here]
                parts.append(tuple(each[:count] for each in self._batch(size).run(here)))
        return tuple(np.concatenate(each) if len(each) > 1 else each[0] for each in zip(*parts, strict=True))

    def _most(self, rows: int) -> int:
        """Return how many samples of a batch run at once: few of those that take much memory."""
        if rows == 1:
            return 1
        plan = self._batch(1).cut.plan
        each = memory_of(plan, (1,)).shared.bytes + sum(input_bytes(plan, value, (1,)) for value in plan.inputs)
        return max(1, min(MOST, 1 << (ROOM // max(1, each)).bit_length() >> 1))

    def _batch(self, size: int) -> "_Batch":
        if size not in self._cuts:
            self._cuts[size] = self._made(size)
        return self._cuts[size]

    def _made(self, size: int) -> "_Batch":
        plan = self.plan(size)
        work = sum(launch.macs.value((size,)) for launch in plan.launches)
        return self._cut(size, self._alone if work <= ALONE else self._crew, plan)

    def _cut(self, size: int, crew: Crew, plan: Plan | None = None) -> "_Batch":
        plan = plan or self.plan(size)
        inputs = {value: aligned(input_bytes(plan, value, (size,))) for value in plan.inputs}
        return _Batch(Cut(plan, size, inputs, crew, self.routines, self.weights), size, inputs)


class _Batch:
    """A cut for one batch size with views of its inputs and results; see `BoundFunction`."""

    def __init__(self, cut: Cut, size: int, inputs: dict[Value, Bytes]) -> None:
        self.cut = cut
        self.inputs: Arrays = tuple(_view(inputs[value], value, size) for value in cut.plan.inputs)
        self.results: Arrays = tuple(cut.result(leaf) for leaf in range(len(cut.plan.results)))
        self.call = cut.call()

    def run(self, inputs: Sequence[npt.NDArray[Any]]) -> Arrays:
        for room, given in zip(self.inputs, inputs, strict=True):
            room[...] = given
        self.call()
        return tuple([each.copy() for each in self.results])


def _view(memory: Bytes, value: Value, batch: int) -> npt.NDArray[Any]:
    shape = tuple(size.value((batch,)) for size in value.type.shape)
    count = int(np.prod(shape))
    return memory.view(value.type.element.storage)[:count].reshape(shape)
