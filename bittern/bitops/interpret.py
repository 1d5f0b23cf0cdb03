"""Run a kernel on numpy buffers: the oracle of all chips.

Every access is checked again, at its real address, whatever the verifier has proven. The rounds of a parallel loop run
one after the other, from barrier to barrier; an element that one round writes and another one reads or writes without a
barrier between them is a fault, since then the order would be seen. Scratch starts as junk, one of its own a round.
"""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bittern.bitops.kernel import Block, Buffer, Kernel, Step, Value
from bittern.bitops.kinds import KINDS, Array, Site, kinds

Flow: TypeAlias = Generator[Step, None, None]  # yields at barriers
JUNK = 0xA5


class Fault(Exception):
    """What no verified kernel does: an access outside its buffer, a race, a barrier that not all rounds reach."""


@dataclass(slots=True)
class Counts:
    """What a run did. steps: by kind. loads, stores: accesses; read, written: their bytes, by buffer."""

    steps: Counter[str] = field(default_factory=Counter)
    loads: Counter[str] = field(default_factory=Counter)
    stores: Counter[str] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Phase:
    """Who touched which byte between two barriers. -1: nobody; -2: several rounds."""

    writers: dict[str, npt.NDArray[np.int32]] = field(default_factory=dict)
    readers: dict[str, npt.NDArray[np.int32]] = field(default_factory=dict)

    def touch(self, name: str, size: int, places: "slice | Array", round_: int, writes: bool) -> None:
        """Record an access; Fault if another round's is in its way."""
        for table in (self.writers, self.readers):
            if name not in table:
                table[name] = np.full(size, -1, np.int32)
        writers, readers = self.writers[name][places], self.readers[name][places]
        if ((writers != -1) & (writers != round_)).any():
            raise Fault(f"race: round {round_} touches what another round wrote in `{name}`, with no barrier between")
        if writes:
            if ((readers != -1) & (readers != round_)).any():
                raise Fault(f"race: round {round_} writes what another round read in `{name}`, with no barrier between")
            self.writers[name][places] = round_
        else:
            self.readers[name][places] = np.where((readers == -1) | (readers == round_), round_, -2)


@dataclass(slots=True)
class _Frame:
    """The state of one line of control."""

    memory: dict[str, Array]
    values: dict[Value, Array]
    phase: _Phase | None = None
    round: int = 0


def interpret(
    kernel: Kernel,
    buffers: Mapping[str, npt.NDArray[Any]],
    dims: Sequence[int] = (),
    parameters: "Mapping[str, int | float] | None" = None,
    backward: bool = False,
) -> Counts:
    """Run the kernel on the buffers, which it writes in place.

    buffers: by name, contiguous, of the element's storage dtype and exactly `size` elements; scratch is not given.
    dims: a number for each symbol. backward: parallel rounds in descending order. Fault: see the module.
    """
    kinds()
    run = _Run(kernel, tuple(dims), backward)
    memory = {b.name: run.bytes_of(b, buffers) for b in kernel.buffers}
    frame = _Frame(memory, {})
    for p in kernel.parameters:
        frame.values[p.value] = np.array([(parameters or {})[p.name]], dtype=p.value.type.dtype)
    with np.errstate(all="ignore"):
        for step in run.block(kernel.body, frame):
            raise Fault(f"`{step.kind}` outside a parallel loop")
    return run.counts


class _Run:
    def __init__(self, kernel: Kernel, dims: tuple[int, ...], backward: bool) -> None:
        self.kernel, self.dims, self.backward = kernel, dims, backward
        self.buffers = {b.name: b for b in kernel.buffers}
        self.counts = Counts()
        self._sites: dict[Step, Site] = {}

    def bytes_of(self, buffer: Buffer, given: Mapping[str, npt.NDArray[Any]]) -> Array:
        """Return the memory of a buffer as bytes."""
        size = buffer.size.value(self.dims)
        if buffer.access == "scratch":
            return np.full(size * (buffer.element.bits // 8), JUNK, np.uint8)
        array = given[buffer.name]
        expected = (size, np.dtype(buffer.element.storage))
        assert (array.size, array.dtype) == expected and array.flags.c_contiguous, (buffer.name, array.shape, expected)
        return array.reshape(-1).view(np.uint8)

    def block(self, block: Block, frame: _Frame) -> Flow:
        """Run the steps of a block; its parameters are set."""
        values = frame.values
        for step in block.steps:
            row = KINDS[step.kind]
            self.counts.steps[step.kind] += 1
            if row.form == "control":
                yield from self._control(step, frame)
                continue
            operands = [values[v] for v in step.operands]
            if row.form == "memory":
                if step.kind != "prefetch":
                    self._memory(step, operands, frame)
            elif step.kind == "dim":
                values[step.results[0]] = np.array([step.attributes["size"].value(self.dims)], np.int64)
            else:
                assert row.meaning is not None
                values[step.results[0]] = row.meaning(self._site(step), *operands)

    def _site(self, step: Step) -> Site:
        site = self._sites.get(step)
        if site is None:
            types = tuple(v.type for v in step.operands), tuple(v.type for v in step.results)
            site = self._sites[step] = Site(*types, step.attributes)
        return site

    # --- memory

    def _memory(self, step: Step, operands: list[Array], frame: _Frame) -> None:
        row, site = KINDS[step.kind], self._site(step)
        assert row.meaning is not None
        buffer = self.buffers[step.attributes["buffer"]]
        memory = frame.memory[buffer.name]
        size = buffer.element.bits // 8
        place, rest = int(operands[0][0]), operands[1:]
        address = place * size + step.attributes.get("offset", 0)
        if "bits" in step.attributes:
            of, bits = (site.results or site.operands[-1:])[0], step.attributes["bits"]
            start, end = place * bits // 8, -(-((place + of.count) * bits) // 8)
            if of.count > 1 and place * bits % 8:
                raise Fault(f"codes of {bits} bits from number {place} on do not start at a byte")
            places: slice | Array = slice(start, end)
            address = place
        elif step.kind == "gather":
            places, address, rest = self._gathered(step, address + rest[0].astype(np.int64) * size)
        else:
            of = (site.results or site.operands[-1:])[0]
            places = slice(address, address + of.bytes)
            if step.kind.endswith("masked"):
                each = of.element.bits // 8
                places = (address + np.flatnonzero(rest[0])[:, None] * each + np.arange(each)).reshape(-1)
        self._count(step, row.effect, buffer, places, len(memory), frame)
        result = row.meaning(site, memory, address, *rest)
        if step.results:
            frame.values[step.results[0]] = result

    def _gathered(self, step: Step, addresses: Array) -> "tuple[Array, Any, list[Array]]":
        each = step.results[0].type.element.bits // 8
        return (addresses[:, None] + np.arange(each)).reshape(-1), addresses, []

    def _count(
        self, step: Step, effect: str, buffer: Buffer, places: "slice | Array", size: int, frame: _Frame
    ) -> None:
        low, high = (places.start, places.stop) if isinstance(places, slice) else (0, 0)
        length = high - low
        if not isinstance(places, slice):
            length = len(places)
            low, high = (int(places.min()), int(places.max()) + 1) if length else (0, 0)
        if low < 0 or high > size:
            raise Fault(f"`{step.kind}` at bytes {low} to {high} of `{buffer.name}`, which has {size}")
        writes = effect == "store"
        (self.counts.stores if writes else self.counts.loads)[buffer.name] += 1
        (self.counts.written if writes else self.counts.read)[buffer.name] += length
        if frame.phase is not None and buffer.access != "scratch":
            frame.phase.touch(buffer.name, size, places, frame.round, writes)

    # --- control

    def _control(self, step: Step, frame: _Frame) -> Flow:
        operands = [frame.values[v] for v in step.operands]
        if step.kind == "barrier":
            yield step
        elif step.kind == "for":
            yield from self._for(step, operands, frame)
        elif step.kind == "parallel":
            yield from self._parallel(step, operands, frame)
        elif step.kind == "if":
            chosen = step.blocks[0 if operands[0][0] else 1]
            yield from self.block(chosen, frame)
            frame.values.update(zip(step.results, [frame.values[v] for v in chosen.yields], strict=True))
        else:
            yield from self._while(step, operands, frame)

    def _for(self, step: Step, operands: list[Array], frame: _Frame) -> Flow:
        (block,), (low, high, stride), carries = step.blocks, (int(o[0]) for o in operands[:3]), operands[3:]
        if stride < 1:
            raise Fault(f"a loop with step {stride}")
        for i in range(low, high, stride):
            frame.values.update(zip(block.parameters, [np.array([i], np.int64), *carries], strict=True))
            yield from self.block(block, frame)
            carries = [frame.values[v] for v in block.yields]
        frame.values.update(zip(step.results, carries, strict=True))

    def _while(self, step: Step, operands: list[Array], frame: _Frame) -> Flow:
        test, body = step.blocks
        limit, carries = int(operands[0][0]), operands[1:]
        for k in range(limit):
            for part in (test, body):
                frame.values.update(zip(part.parameters, [np.array([k], np.int64), *carries], strict=True))
                yield from self.block(part, frame)
                if part is test and not frame.values[test.yields[0]][0]:
                    break
            else:
                carries = [frame.values[v] for v in body.yields]
                continue
            break
        frame.values.update(zip(step.results, carries, strict=True))

    def _parallel(self, step: Step, operands: list[Array], frame: _Frame) -> Flow:
        low, high, stride = (int(o[0]) for o in operands)
        if stride < 1:
            raise Fault(f"a loop with step {stride}")
        (block,) = step.blocks
        rounds: list[Flow] = []
        frames: list[_Frame] = []
        phase = _Phase()
        for i in range(low, high, stride):
            scratch = {b.name: self.bytes_of(b, {}) for b in self.kernel.buffers if b.access == "scratch"}
            inner = _Frame({**frame.memory, **scratch}, dict(frame.values), phase, i)
            inner.values[block.parameters[0]] = np.array([i], np.int64)
            frames.append(inner)
            rounds.append(self.block(block, inner))
        if self.backward:
            rounds.reverse()
        while rounds:
            reached = [next(flow, None) for flow in rounds]
            if any(r is not reached[0] for r in reached):
                raise Fault("not all rounds of a parallel loop reach the same barrier")
            if reached[0] is None:
                break
            phase.writers.clear()
            phase.readers.clear()
        if frame.phase is not None:
            self._merge(phase, frame)
        return
        yield

    def _merge(self, inner: _Phase, frame: _Frame) -> None:
        assert frame.phase is not None
        for table, writes in ((inner.readers, False), (inner.writers, True)):
            for name, touched in table.items():
                places = np.flatnonzero(touched != -1)
                frame.phase.touch(name, len(touched), places, frame.round, writes)
