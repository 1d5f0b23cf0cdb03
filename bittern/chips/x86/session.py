"""Models and sessions of the x86-64 chip: plans of a model for so many tokens, and the caches that they share."""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError
from bittern.chips.chip import Reals, Tokens
from bittern.chips.machine.code_cache import CodeCache
from bittern.chips.x86.cut import Cut, input_bytes
from bittern.chips.x86.features import Tier
from bittern.chips.x86.kept_plans import KeptPlans
from bittern.chips.x86.routines import Routines
from bittern.chips.x86.threads import Crew
from bittern.chips.x86.weights import Bytes, Weights, aligned
from bittern.front.bound import Bound
from bittern.plan.flow import Value
from bittern.plan.likeliest import Likeliest, likeliest
from bittern.plan.plan import FEW, Plan
from bittern.plan.planner import NO_RULE, plan_of
from bittern.plan.step import MOST, STOPS, greedy, step_function
from bittern.plan.watch import Watch, Watched, watched

if TYPE_CHECKING:
    from bittern.chips.x86.positions import Array, Leaf
    from bittern.graph.evaluate import World
    from bittern.graph.node import Function

CHUNK = 512  # tokens that run as one call
BATCH = 64  # rows of one call that chooses tokens: their logits are held together
PASSES = 16  # rows up to which passes of `FEW` are quicker than the program for any number
FIXED = 16  # tokens of a call where a plan for any number of them cannot be made
LEAST_CONTEXT = 512  # positions; contexts are rounded up to powers of two, so that code is shared
_NO_TOKEN = 0xFFFFFFFF
_PLACES = 3  # token, sequence, position come before the leaves of the cache

P = TypeVar("P")


class X86Model:
    """A model whose code and weights serve all of its sessions. world: evaluates what depends on constants alone."""

    artifact: Mapping[str, str] | None = None
    is_fixed = False  # whether plans need a known number of tokens
    fuse = True  # whether plans join several applications in one region; set before the first session

    def __init__(
        self, model: Bound, tier: Tier, threads: int, cache: CodeCache | None, world: Callable[[], "World"]
    ) -> None:
        self.bound = model
        self.crew = Crew(threads)
        self.routines = Routines(tier, cache)
        self.weights = Weights(self.crew, self.routines, world)
        self.width = model.outline.width
        self._plans: dict[Hashable, Any] = {}
        self._kept = KeptPlans(model, self.routines, cache)

    @cached_property
    def step(self) -> "Function":
        """What gives logits and caches."""
        return step_function(self.bound.forward, self.bound.head)

    def start(self, context: int, sequences: int = 1) -> "X86Session":
        """Return a session with empty caches. Raises MemoryError."""
        return X86Session(self, context, sequences)

    def forward_plan(self, tokens: int | None, sequences: int, context: int) -> Plan:
        """Plan `forward`. tokens: None for any number."""
        sizes = {1: sequences, 2: context, **({} if tokens is None else {0: tokens})}
        key = ("forward", tokens, sequences, context)
        return self._planned(key, lambda: self._plan(self.bound.forward, sizes))

    def head_plan(self, rows: int | None) -> Plan:
        """Plan `head`. rows: None for any number."""
        sizes = {} if rows is None else {0: rows}
        return self._planned(("head", rows), lambda: self._plan(self.bound.head, sizes))

    def step_plan(self, sequences: int, context: int) -> Watched:
        """Plan the greedy step of one token."""
        sizes = {0: 1, 1: sequences, 2: context}
        return self._planned(
            ("step", sequences, context),
            lambda: watched(greedy(self._plan(self.step, sizes))),
        )

    def likeliest_plan(self, tokens: int | None, sequences: int, context: int) -> Likeliest:
        """Plan the choice of the token after each of several. tokens: None for any number."""
        sizes = {1: sequences, 2: context, **({} if tokens is None else {0: tokens})}
        return self._planned(
            ("likeliest", tokens, sequences, context),
            lambda: likeliest(self._plan(self.step, sizes)),
        )

    def _planned(self, key: Hashable, make: Callable[[], P]) -> P:
        if key not in self._plans:
            wanted = (key, self.fuse)
            found = self._kept.take(wanted)
            if found is None:
                found = make()
                self._kept.keep(wanted, found)
            self._plans[key] = found
        made: P = self._plans[key]
        return made

    def _plan(self, function: "Function", sizes: Mapping[int, int]) -> Plan:
        from bittern.plan.rules import KNOWN, RULES

        return plan_of(function, RULES, KNOWN, self.bound.library, sizes, fuse=self.fuse)


class X86Session:
    """One running model; see chips/chip.py."""

    def __init__(self, model: X86Model, context: int, sequences: int) -> None:
        self.context = context
        self.sequences = sequences
        self._model = model
        self._room = max(LEAST_CONTEXT, 1 << (context - 1).bit_length())
        self._places = [aligned(4 * CHUNK) for _ in range(_PLACES)]
        np.zeros(self._bytes(), np.uint8)  # what the system does not give for a cache it refuses now
        self._width = model.width
        self._leaves: list[Value] = []
        self._caches: list[Bytes] = []
        self._forward: dict[int, Cut] = {}
        self._head: dict[int, Cut] = {}
        self._likeliest: dict[int, Cut] = {}
        self._greedy: tuple[Cut, dict[str, Tokens]] | None = None

    def forward(self, token: Tokens, sequence: Tokens, position: Tokens) -> Reals:
        """Run t tokens at their places; return the hidden states [t, d]."""
        return self.feed(token, sequence, position, range(len(token)))

    def feed(self, token: Tokens, sequence: Tokens, position: Tokens, rows: Sequence[int] = ()) -> Reals:
        """Run t tokens at their places; return the hidden states [k, d] of some rows alone, which ascend."""
        places, wanted = (token, sequence, position), np.asarray(rows, np.int64)
        found: list[Reals] = []
        if 1 < len(token) <= PASSES and not len(rows) and not any(each != 1 for each in self._forward):
            if not self.is_ready:
                self._likeliest[FEW] = self._likeliest_cut(FEW)  # one program instead of two: drafts will want it
            self.likeliest(token, sequence, position)
            return np.zeros((0, self._width), np.float32)
        for cut, low, count in self._calls(self._forward, len(token), self._forward_cut, CHUNK, places):
            here = wanted[(wanted >= low) & (wanted < low + count)] - low
            found.append(cut.result(0)[here])
        return np.concatenate(found) if len(found) != 1 else found[0]

    def logits(self, hidden: Reals) -> Reals:
        """Return the logits [k, vocab] of hidden rows [k, d]."""
        rows = []
        for cut, _, count in self._calls(self._head, len(hidden), self._head_cut, CHUNK, (hidden,)):
            rows.append(np.array(cut.result(0)[:count]))
        return np.concatenate(rows) if len(rows) != 1 else rows[0]

    @property
    def is_ready(self) -> bool:
        """Whether a pass of a few rows runs at once."""
        return FEW in self._likeliest

    def likeliest(self, token: Tokens, sequence: Tokens, position: Tokens) -> list[int]:
        """Run t tokens at their places; return the likeliest token after each."""
        places, found = (token, sequence, position), list[int]()
        for cut, _, count in self._calls(self._likeliest, len(token), self._likeliest_cut, BATCH, places):
            found += cut.result(0)[:count].tolist()
        return found

    def greedy(
        self,
        tokens: Sequence[int],
        count: int,
        stops: Collection[int] = (),
        *,
        sequence: int = 0,
        watch: Watch | None = None,
    ) -> list[int]:
        """Return what follows the tokens of a sequence; see `ChoosingSession`."""
        cut, memory = self._greedy_cut()
        inside = sorted(stops)[:STOPS]
        memory["stop"][:] = _NO_TOKEN
        memory["stop"][: len(inside)] = inside
        memory["setting"][:] = 0
        if watch is not None:
            memory["setting"][:], memory["last"][:], memory["seen"][:] = watch.setting, watch.last, watch.seen
        made: list[int] = []
        while len(made) < count:
            place = (made[-1] if made else tokens[-1], sequence, len(tokens) - 1 + len(made))
            for held, value in zip(self._places, place, strict=True):
                held.view(np.uint32)[0] = value
            memory["made"][0] = 0
            cut.state.stop = False
            wanted = min(count - len(made), MOST)
            steps = cut.run(1, wanted)
            for token in memory["out"][:steps].tolist():
                made.append(token)
                if token in stops:
                    return made
            if steps < wanted and watch is not None:
                break
        return made

    def positions(self, count: int, sequence: int = 0) -> "list[Array]":
        """Return keys and values of a sequence's first positions; see `KeepingSession`."""
        return [leaf.taken(sequence, count) for leaf in self._kept()]

    def put_positions(self, leaves: "Sequence[Array]", sequence: int = 0) -> None:
        """Write keys and values of a sequence's first positions."""
        for leaf, values in zip(self._kept(), leaves, strict=True):
            leaf.put(sequence, values)

    @property
    def cuts(self) -> Mapping[int, Cut]:
        """The cuts of `forward` that were made, by the number of tokens; 0: any number."""
        return self._forward

    def _bytes(self) -> int:
        """Return the bytes of the caches in the order of the graph; in tiles they take about as much."""
        sizes, total = (1, self.sequences, self._room), 0
        for leaf in self._model.bound.outline.leaves:
            total += prod(size.value(sizes) for size in leaf.shape) * leaf.element.bits // 8
        return total

    def _kept(self) -> "list[Leaf]":
        from bittern.chips.x86.positions import leaves_of

        if not self._caches:
            self._inputs(self._model.forward_plan(1, self.sequences, self._room))
        return leaves_of(self._leaves, self._caches, self.sequences, self._room)

    def _calls(
        self,
        made: dict[int, Cut],
        rows: int,
        make: Callable[[int], Cut],
        most: int,
        given: Sequence[npt.NDArray[Any]],
    ) -> Iterator[tuple[Cut, int, int]]:
        """Run rows in as many calls as it takes; yield after each the cut, its first row and the number of rows.

        given: what goes into the first inputs, by row. A cut for more rows than are left does the last one again.
        """
        low = 0
        while low < rows:
            size = self._size(made, rows - low, make, low > 0)
            cut, count = made[size], min(rows - low, size or most)
            for value, values in zip(cut.plan.inputs, given, strict=False):
                part = np.ascontiguousarray(values[low : low + count]).astype(value.type.element.storage, copy=False)
                room = cut.inputs[value].view(part.dtype)
                room[: part.size] = part.reshape(-1)
                for more in range(count, size):
                    room[more * part[0].size :][: part[0].size] = part[-1].reshape(-1)
            cut.run(size or count)
            yield cut, low, count
            low += count

    def _size(self, made: dict[int, Cut], count: int, make: Callable[[int], Cut], is_rest: bool) -> int:
        """Return the size of the cut, which is made if need be, that takes the next of `count` rows; 0: any number.

        As it takes as long to make a cut as to run it some hundred times, few rows go through a larger one that is
        there; a single row only if it is the rest of a call, since steps come one by one.
        """
        if count in made or (count == 1 and not is_rest):
            size = count
        elif count <= PASSES:
            larger = [each for each in made if each >= count]
            size = min(larger, default=FEW if FEW in made else 0 if 0 in made else min(count, FEW))
        else:
            size = 0 if not self._model.is_fixed else FIXED
        if size not in made:
            try:
                made[size] = make(size)
            except BitternError as refusal:
                if refusal.code != NO_RULE or size:
                    raise
                self._model.is_fixed = True  # the generic lowering takes known sizes only
                return self._size(made, count, make, is_rest)
        return size

    def _forward_cut(self, tokens: int) -> Cut:
        plan = self._model.forward_plan(tokens or None, self.sequences, self._room)
        return self._cut(plan, tokens or CHUNK, self._inputs(plan))

    def _head_cut(self, rows: int) -> Cut:
        plan = self._model.head_plan(rows or None)
        memory = aligned(input_bytes(plan, plan.inputs[0], (rows or CHUNK,)))
        return self._cut(plan, rows or CHUNK, {plan.inputs[0]: memory})

    def _likeliest_cut(self, tokens: int) -> Cut:
        plan = self._model.likeliest_plan(tokens or None, self.sequences, self._room).plan
        return self._cut(plan, tokens or BATCH, self._inputs(plan))

    def _greedy_cut(self) -> tuple[Cut, dict[str, Tokens]]:
        if self._greedy is None:
            planned = self._model.step_plan(self.sequences, self._room)
            step, inputs = planned.greedy, self._inputs(planned.greedy.plan)
            memory: dict[str, Tokens] = {}
            for value in (step.stop, step.out, step.made, planned.setting, planned.last, planned.seen):
                inputs[value] = aligned(input_bytes(step.plan, value, (1,)))
                memory[value.label] = inputs[value].view(np.uint32)
            self._greedy = self._cut(step.plan, 1, inputs, loop=True), memory
        return self._greedy

    def _inputs(self, plan: Plan) -> dict[Value, Bytes]:
        """Return the memory of the inputs of `forward`: places, then the caches, made when they are first wanted."""
        leaves = [value for value in plan.inputs if value.number >= _PLACES and value.label.startswith("input.")]
        if not self._caches:
            sizes = (1, self.sequences, self._room)
            self._leaves = leaves
            self._caches = [aligned(input_bytes(plan, value, sizes)) for value in leaves]
        places = dict(zip(plan.inputs, self._places, strict=False))
        return {**places, **dict(zip(leaves, self._caches, strict=True))}

    def _cut(self, plan: Plan, tokens: int, inputs: Mapping[Value, Bytes], loop: bool = False) -> Cut:
        model = self._model
        return Cut(plan, tokens, inputs, model.crew, model.routines, model.weights, loop)
