"""Checks a plan by walking it with names: does every read see the value that was last written, by whoever wrote it?

Every place in memory holds a version of a value, known by the names that the graph has for it: a value and what is only
another shape of it. Writing gives a place a new version and outdates whatever else lies in those bytes; the names that
an update in place ends are gone with their region. Threads are told apart by launches: all threads take part in one,
or the first alone. Two launches with no barrier between them disturb each other if both touch the same bytes, one of
them writes, and different threads may do so; they do not where both share the value out in the same partition.

Nothing of the planner's own analyses is used: only launches, aliases and places. A fault is our own: an AssertionError
that names the launch. What a kernel does with its buffers is not seen here; kernels are verified on their own.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from bittern.plan.arena import LINE, Arena, Memory
from bittern.plan.flow import Value
from bittern.plan.plan import Launch, Operand, Plan, Region

_NOTHING: frozenset[Value] = frozenset()


Cells: TypeAlias = tuple[int, ...]  # stretches of memory that lie in or outside of a place as a whole


@dataclass(frozen=True, slots=True)
class _Touch:
    """A launch touches a cell. all: by all threads, not the first alone. partition: how they share `root` out."""

    launch: int
    all: bool
    writes: bool
    root: Value
    partition: str

    def disturbs(self, other: "_Touch") -> bool:
        """Whether two touches with no barrier between may be in each other's way."""
        if self.launch == other.launch or not (self.writes or other.writes) or not (self.all or other.all):
            return False
        return self.root is not other.root or not self.partition or self.partition != other.partition


def check(plan: Plan, memory: Memory | None = None, sizes: Sequence[int] = ()) -> None:
    """Raise an AssertionError where a plan does not do what its graph says.

    memory: where the values lie, for sizes of the plan's dimensions; None: every value apart.
    """
    for fault in faults(plan, memory, sizes):
        raise AssertionError(fault)


def faults(plan: Plan, memory: Memory | None = None, sizes: Sequence[int] = ()) -> Iterator[str]:
    """Yield what is wrong with a plan, in the order of its launches."""
    yield from _covered_twice(plan)
    cells: dict[Value, Cells] = {}
    if memory is not None:
        bytes_ = {value: _bytes(value, plan, sizes) for arena in _arenas(memory) for value in arena.places}
        yield from _misplaced(plan, memory, bytes_)
        cells = _cells(memory, bytes_)
    yield from _Walk(plan, cells, memory).run()


def _covered_twice(plan: Plan) -> Iterator[str]:
    """Yield the applications that two regions cover."""
    seen = set()
    for region in plan.regions:
        for apply in region.covers:
            if apply in seen:
                yield f"`{apply.label or apply.name}` is covered twice, the second time by the rule {region.rule}"
            seen.add(apply)


def _misplaced(plan: Plan, memory: Memory, bytes_: Mapping[Value, int]) -> Iterator[str]:
    """Yield the values whose place is none, not on a line, or not inside their arena."""
    for arena in _arenas(memory):
        for value, at in arena.places.items():
            if at % LINE or at < 0 or at + bytes_[value] > arena.bytes:
                yield f"{_name(value)} of {bytes_[value]} bytes lies at {at} of an arena of {arena.bytes}"
    touched = dict.fromkeys(plan.root[_base(each)] for launch in plan.launches for each in _all(launch))
    for value in touched:
        if value.source == "made" and value not in plan.known and value not in bytes_:
            yield f"{_name(value)} has no place"


def _arenas(memory: Memory) -> tuple[Arena, Arena]:
    return memory.shared, memory.own


def _bytes(value: Value, plan: Plan, sizes: Sequence[int]) -> int:
    """Return the bytes of a value, counted on its own."""
    if value in plan.bytes:
        return plan.bytes[value]
    element, count = value.type.element, prod(size.value(sizes) for size in value.type.shape)
    return count // element.columns * element.bytes if element.is_format else count * max(1, element.bits // 8)


class _Walk:
    """One way through the launches of a plan.

    holds: the names of the version that a place has, if all of its cells are still its own (`owner`).
    """

    def __init__(self, plan: Plan, cells: dict[Value, Cells], memory: Memory | None) -> None:
        self._plan, self._root, self._cells = plan, plan.root, cells
        self._own = _own_values(plan) if memory is None else set(memory.own.places)
        self._owner: dict[int, Value] = {}
        self._holds: dict[Value, Set[Value]] = {}
        self._touched: dict[int, list[_Touch]] = {}

    def run(self) -> Iterator[str]:
        """Yield the faults."""
        for value, root in self._root.items():
            if value is root and (value.source != "made" or value in self._plan.known):
                self._put(value, {value})
        number = 0
        for region in self._plan.regions:
            written: set[Value] = set()
            for launch in region.launches:
                yield from self._launch(launch, number, region, written)
                number += 1
                if launch.barrier:
                    self._touched.clear()
            yield from self._rename(region, written)
        for value in self._plan.results:
            if value not in self._held(value):
                yield f"the result {_name(value)} is not there at the end: {self._shown(value)}"

    def _where(self, root: Value) -> Cells:
        """Return the cells of a place; what is in no arena has one of its own."""
        if root not in self._cells:
            self._cells[root] = (-1 - len(self._cells),)
        return self._cells[root]

    def _put(self, root: Value, names: Set[Value]) -> None:
        """Give a place a new version."""
        self._holds[root] = names
        for cell in self._where(root):
            self._owner[cell] = root

    def _held(self, value: Value) -> Set[Value]:
        root = self._root[value]
        for cell in self._where(root):
            if self._owner.get(cell) is not root:
                return _NOTHING
        return self._holds.get(root, _NOTHING)

    def _launch(self, launch: Launch, number: int, region: Region, written: set[Value]) -> Iterator[str]:
        names: dict[Value, str] = {}
        writes = []
        for name, value, is_written in _operands(launch):
            root = self._root[value]
            if root.source == "const":
                if is_written:
                    yield f"{_launched(launch, number)} writes the constant {_name(value)}"
                continue
            if is_written:
                writes.append((name, value, root))
            elif value not in self._held(value):
                yield f"{_launched(launch, number)} reads {_name(value)} as `{name}`: {self._shown(value)}"
            partition = launch.partition if name in launch.shares else ""
            if root not in self._own:
                yield from self._meet(_Touch(number, launch.mode != "one", is_written, root, partition), launch)
            names[root] = name
        for name, value, root in writes:
            yield from self._write(launch, number, name, root, names)
            self._put(root, {value, *(result for result, source in region.same.items() if source is value)})
            written.add(root)

    def _write(self, launch: Launch, number: int, name: str, root: Value, names: Mapping[Value, str]) -> Iterator[str]:
        """Yield what is wrong with a launch that writes to a place. names: of the launch's buffers, by place."""
        if root in self._own and launch.mode != "each":
            yield f"{_launched(launch, number)} writes {_name(root)}, which every thread makes for itself"
        if root not in self._own and launch.mode == "each":
            yield f"{_launched(launch, number)} writes {_name(root)} by every thread at once"
        cells = self._where(root)
        for other, buffer in names.items():
            if buffer != name and not set(cells).isdisjoint(self._where(other)):
                yield f"{_launched(launch, number)} has `{name}` and `{buffer}` in the same place"

    def _meet(self, touch: _Touch, launch: Launch) -> Iterator[str]:
        """Note a touch; yield what it meets with no barrier between."""
        for cell in self._where(touch.root):
            before = self._touched.setdefault(cell, [])
            for other in before:
                if touch.disturbs(other):
                    what = _name(touch.root) if other.root is touch.root else f"what {_name(other.root)} lies in too"
                    need = f"needs a barrier after launch {other.launch}"
                    yield f"{_launched(launch, touch.launch)} {need}: both touch {what}"
                    break
            before.append(touch)

    def _rename(self, region: Region, written: set[Value]) -> Iterator[str]:
        """End a region: what was updated in place goes by its new names alone, other aliases name the same version."""
        fresh: dict[Value, set[Value]] = {}
        for result, source in region.same.items():
            root = self._root[result]
            if root in written:
                fresh.setdefault(root, set()).add(result)
            elif root.source != "const":
                if source not in self._held(source):
                    yield f"the rule {region.rule} names {_name(source)}: {self._shown(source)}"
                self._put(root, {*self._held(source), result})
        self._holds.update(fresh)

    def _shown(self, value: Value) -> str:
        held = self._held(value)
        return f"its place holds {', '.join(map(_name, held))}" if held else "nothing wrote it, or its place was reused"


def _operands(launch: Launch) -> Iterator[tuple[str, Value, bool]]:
    """Yield buffer, value and whether it is written: reads first."""
    for name, operand in launch.reads.items():
        yield name, _base(operand), False
    for name, operand in launch.writes.items():
        yield name, _base(operand), True


def _all(launch: Launch) -> tuple[Operand, ...]:
    return (*launch.reads.values(), *launch.writes.values())


def _base(operand: Operand) -> Value:
    return operand if isinstance(operand, Value) else operand.value


def _own_values(plan: Plan) -> set[Value]:
    each = (launch for launch in plan.launches if launch.mode == "each")
    return {plan.root[_base(operand)] for launch in each for operand in launch.writes.values()}


def _cells(memory: Memory, bytes_: Mapping[Value, int]) -> dict[Value, Cells]:
    """Return the cells of every placed value: what lies between two bounds of places."""
    found: dict[Value, Cells] = {}
    first = 0
    for arena in _arenas(memory):
        spans = {value: (low, low + bytes_[value]) for value, low in arena.places.items()}
        bounds = sorted({bound for span in spans.values() for bound in span})
        number = {bound: first + k for k, bound in enumerate(bounds)}
        found.update((value, tuple(range(number[low], number[high]))) for value, (low, high) in spans.items())
        first += len(bounds)
    return found


def _launched(launch: Launch, number: int) -> str:
    return f"launch {number} ({launch.recipe.name}{f' of {launch.label}' if launch.label else ''})"


def _name(value: Value) -> str:
    return f"`{value.label or value.source}`"
