"""Memory planning: when each value is alive, what may be overwritten in place, and where in one arena each value lies.

A schedule is a list of steps, each with the values that it reads and writes. A value is alive from the step that writes
it first (from the start, if it is read before that) to the last step that reads it (to the end, if it is kept); what a
step writes never shares bytes with what it reads, unless it is said to be written in place. Places are found by best
fit: the largest values first, each at the lowest place of the tightest gap among those alive with it. No layout can
need less than the most bytes that are alive at once (`Layout.least`); `verify` checks a layout without knowing how it
was made.

`in_place` finds, in a function, the updates that may overwrite what they update: a value of its own (made in the
function, or a parameter that it owns) that nothing reads later. Reads of it come first in the order of `graph.flow`.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bittern.graph.flow import UPDATES, Body, Flow, Instruction, closure_of_carries, leaf_types, viewed
from bittern.graph.node import Function, Node

Name: TypeAlias = Hashable
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Lifetime:
    """When a value is alive: from the start of step `first` to the end of step `last`."""

    first: int
    last: int

    def meets(self, other: "Lifetime") -> bool:
        """Whether two values are alive in a common step."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class Layout:
    """Where values lie. offsets: in bytes. peak: bytes of the arena. least: the most bytes that are alive at once.

    lifetimes: of each value; values that share bytes in place have one lifetime together.
    """

    offsets: Mapping[Name, int]
    peak: int
    least: int
    lifetimes: Mapping[Name, Lifetime]


@dataclass(frozen=True, slots=True)
class _Piece:
    """Values that lie in the same bytes."""

    names: tuple[Name, ...]
    size: int
    alignment: int
    life: Lifetime


def plan_memory(
    schedule: Sequence[tuple[Collection[Name], Collection[Name]]],
    sizes: Mapping[Name, int],
    *,
    alignments: Mapping[Name, int] | int = _ALIGNMENT,
    kept: Collection[Name] = (),
    over: Mapping[Name, Name] | None = None,
) -> Layout:
    """Return a place for each value of a schedule.

    schedule: for each step what it reads and what it writes. sizes: bytes; only values named here get a place (the
    others lie elsewhere, such as weights and caches). alignments: of each value, or of all. kept: values that are read
    after the last step. over: a value that is written in place -> the value whose bytes it takes, with which it then
    shares its place.
    """
    lives = lifetimes(schedule, kept)
    pieces = _pieces(sizes, alignments, lives, over or {})
    offsets: dict[Name, int] = {}
    placed: list[tuple[_Piece, int]] = []
    for piece in sorted(pieces, key=lambda p: (-p.size, p.life.first, p.life.last)):
        offset = _best_fit(piece, [(at, other) for other, at in placed if other.life.meets(piece.life)])
        placed.append((piece, offset))
        offsets |= dict.fromkeys(piece.names, offset)
    peak = max((offset + piece.size for piece, offset in placed), default=0)
    known = {name: piece.life for piece, _ in placed for name in piece.names}
    return Layout(offsets, peak, _least(pieces, len(schedule)), known)


def lifetimes(
    schedule: Sequence[tuple[Collection[Name], Collection[Name]]], kept: Collection[Name] = ()
) -> dict[Name, Lifetime]:
    """Return when each value of a schedule is alive."""
    first: dict[Name, int] = {}
    last: dict[Name, int] = {}
    for step, (reads, writes) in enumerate(schedule):
        for name in reads:
            first.setdefault(name, 0)  # read before it is written: it comes from outside
            last[name] = step
        for name in writes:
            first.setdefault(name, step)
            last[name] = max(last.get(name, step), step)
    end = max(0, len(schedule) - 1)
    return {name: Lifetime(first[name], end if name in kept else last[name]) for name in first}


def _pieces(
    sizes: Mapping[Name, int],
    alignments: Mapping[Name, int] | int,
    lives: Mapping[Name, Lifetime],
    over: Mapping[Name, Name],
) -> list[_Piece]:
    """Return what needs a place: values that are written in place of each other together."""
    together: dict[Name, list[Name]] = {}
    for name in lives:
        if name in sizes:
            root = name
            while root in over:
                root = over[root]
            together.setdefault(root, []).append(name)
    pieces = []
    for names in together.values():
        found = [lives[name] for name in names]
        life = Lifetime(min(f.first for f in found), max(f.last for f in found))
        boundary = alignments if isinstance(alignments, int) else max(alignments.get(n, _ALIGNMENT) for n in names)
        assert boundary > 0 and boundary & (boundary - 1) == 0, ("not a power of two", boundary)
        pieces.append(_Piece(tuple(names), max(sizes[name] for name in names), boundary, life))
    return pieces


def _best_fit(piece: _Piece, near: Sequence[tuple[int, _Piece]]) -> int:
    """Return the lowest place in the tightest gap between what is alive with a piece. near: places and pieces."""
    best: tuple[int, int] | None = None  # bytes that stay free, place
    end = 0
    for offset, other in sorted(near, key=lambda pair: pair[0]):
        place = _aligned(end, piece.alignment)
        if place + piece.size <= offset:
            spare = (offset - end - piece.size, place)
            best = spare if best is None or spare < best else best
        end = max(end, offset + other.size)
    return best[1] if best is not None else _aligned(end, piece.alignment)


def _aligned(offset: int, boundary: int) -> int:
    return -(-offset // boundary) * boundary


def _least(pieces: Sequence[_Piece], steps: int) -> int:
    """Return the most bytes that are alive in one step."""
    changes = [0] * (steps + 2)
    for piece in pieces:
        changes[piece.life.first] += piece.size
        changes[piece.life.last + 1] -= piece.size
    alive = most = 0
    for change in changes:
        alive += change
        most = max(most, alive)
    return most


def verify(
    layout: Layout,
    schedule: Sequence[tuple[Collection[Name], Collection[Name]]],
    sizes: Mapping[Name, int],
    *,
    kept: Collection[Name] = (),
    over: Mapping[Name, Name] | None = None,
) -> list[str]:
    """Return what is wrong with a layout, by running the schedule on who owns each byte: one line for each fault.

    A step must find all that it reads as it was written, and it must not write where it reads something else. Arguments
    as for `plan_memory`.
    """
    faults: list[str] = []
    owner = _Bytes()
    given = {name for name, life in lifetimes(schedule, kept).items() if life.first == 0}
    written = {name for _, writes in schedule[:1] for name in writes}
    for name in given - written:
        if name in sizes:
            owner.write(name, layout.offsets[name], sizes[name])
    for step, (reads, writes) in enumerate(schedule):
        mine = [name for name in reads if name in sizes]
        faults += [f"step {step} reads {name}, which was overwritten" for name in mine if not owner.has(name)]
        for name in writes:
            if name in sizes:
                source = (over or {}).get(name)
                lost = owner.write(name, layout.offsets[name], sizes[name])
                faults += [
                    f"step {step} writes {name} over {other}, which it reads"
                    for other in lost
                    if other in mine and other != source and other != name
                ]
    faults += [f"{name} was overwritten before the end" for name in kept if name in sizes and not owner.has(name)]
    return faults


class _Bytes:
    """Which value each stretch of the arena holds."""

    def __init__(self) -> None:
        self.held: dict[Name, tuple[int, int]] = {}

    def write(self, name: Name, offset: int, size: int) -> list[Name]:
        """Let a value have its bytes; return the values that lose some of theirs."""
        end = offset + size
        lost = [other for other, (low, high) in self.held.items() if low < end and offset < high]
        for other in lost:
            del self.held[other]
        self.held[name] = (offset, end)
        return lost

    def has(self, name: Name) -> bool:
        """Whether a value's bytes are still its own."""
        return name in self.held


# --- updates in place


@dataclass(frozen=True, slots=True)
class InPlace:
    """What a function may overwrite. Leaves are numbered as in `graph.flow.Body`.

    order: its instructions, reads of a value before what overwrites it. results: the leaves of its result. over: leaf
    -> the leaf whose memory it takes. copied: leaves for which the memory must be copied, because it is not the
    function's, or somebody still reads it.
    """

    order: tuple[Instruction, ...]
    results: tuple[int, ...]
    over: Mapping[int, int]
    copied: tuple[int, ...]


def in_place(function: Function, owned: Collection[int] | None = None) -> InPlace:
    """Return what a function's own graph may overwrite; bodies are asked about on their own.

    owned: parameter leaves that it owns, such as the carries of a loop's body; None: those of mode `own`.
    """
    return _Overwriting(function, _owned(function) if owned is None else set(owned)).run()


class _Overwriting:
    """Walks a function's instructions and knows which memory each leaf may share."""

    def __init__(self, function: Function, owned: set[int]) -> None:
        self.flow = Flow(False)
        self.body = self.flow.summary(function).body
        self.foreign = set(range(self.body.params)) - owned
        self.roots: dict[int, frozenset[int]] = {leaf: frozenset((leaf,)) for leaf in range(self.body.params)}
        self.last = _last_reads(self.body)
        self.over: dict[int, int] = {}
        self.copied: list[int] = []

    def run(self) -> InPlace:
        """Return what was found."""
        for step, instruction in enumerate(self.body.instructions):
            flows = _flows(instruction.node, self.flow)
            consumed = set(instruction.consumed)
            for leaf, sources in zip(instruction.outputs, flows, strict=True):
                self._result(step, instruction, leaf, sources, consumed)
        return InPlace(self.body.instructions, self.body.results, self.over, tuple(self.copied))

    def _result(
        self, step: int, instruction: Instruction, leaf: int, sources: frozenset[int], consumed: set[int]
    ) -> None:
        """Say what memory a result has: its own, that of what it is a view of, or that of what it overwrites."""
        shared = [self.roots[instruction.inputs[i]] for i in sources - consumed]
        taken = [i for i in sources if i in consumed]
        self.roots[leaf] = frozenset().union(*shared) or frozenset((leaf,))
        if instruction.node.kind == "const":
            self.foreign.add(leaf)
        if len(taken) == 1 and self._is_free(step, instruction, taken[0]):
            self.over[leaf] = instruction.inputs[taken[0]]
            self.roots[leaf] |= self.roots[self.over[leaf]]
        elif taken:
            self.copied.append(leaf)
            self.roots[leaf] |= {leaf}

    def _is_free(self, step: int, instruction: Instruction, place: int) -> bool:
        """Whether an input's memory is the function's own and read by nobody from now on."""
        mine = self.roots[instruction.inputs[place]]
        if not mine.isdisjoint(self.foreign):
            return False
        others = [leaf for i, leaf in enumerate(instruction.inputs) if i != place]
        later = [leaf for leaf, until in self.last.items() if until > step and leaf not in instruction.outputs]
        return all(mine.isdisjoint(self.roots[leaf]) for leaf in (*others, *later) if leaf in self.roots)


def _flows(node: Node, flow: Flow) -> list[frozenset[int]]:
    """Return for each result leaf of a node the positions of inputs whose memory it may have."""
    count = len(leaf_types(node.type))
    if node.kind == "call":
        return list(flow.summary(_named(node, "function")).flows)
    if node.kind in ("for", "while"):
        before, skipped = (2, 1) if node.kind == "for" else (1, 0)
        through = closure_of_carries(flow.summary(_named(node, "body")).flows, count, skipped)
        return [frozenset(before + i for i in sources) for sources in through]
    if node.kind == "if":
        pair = zip(*(flow.summary(_named(node, name)).flows for name in ("then", "otherwise")), strict=True)
        return [frozenset(1 + i for i in (*a, *b)) for a, b in pair]
    if node.kind == "map":
        return [frozenset()] * count
    return [frozenset((0,)) if node.kind in UPDATES else viewed(node, False)] * count


def _named(node: Node, name: str) -> Function:
    value = node[name]
    assert isinstance(value, Function), (node, name)
    return value


def _owned(function: Function) -> set[int]:
    """Return the parameter leaves that a function owns."""
    owned: set[int] = set()
    place = 0
    for parameter in function.params:
        count = len(leaf_types(parameter.type))
        owned |= set(range(place, place + count)) if parameter.mode == "own" else set()
        place += count
    return owned


def _last_reads(body: Body) -> dict[int, int]:
    """Return the step after which nothing reads a leaf; of results, the end."""
    last: dict[int, int] = {}
    for step, instruction in enumerate(body.instructions):
        last |= dict.fromkeys(instruction.inputs, step)
    return last | dict.fromkeys(body.results, len(body.instructions))
