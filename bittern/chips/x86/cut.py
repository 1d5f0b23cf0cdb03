"""A cut: one plan, compiled and linked, with memory for its values and its argument words filled in.

Argument words of all launches lie in blocks, once for each thread, since what every thread has for itself lies at
another address in each. Addresses never change while the cut lives; the number of tokens is put in before a run.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from bittern.chips.chip import Reals
from bittern.chips.machine.assembler import Code
from bittern.chips.machine.program import Launch, Section, State
from bittern.chips.x86.encode import Assembler
from bittern.chips.x86.program import link
from bittern.chips.x86.routines import Routines
from bittern.chips.x86.threads import Crew
from bittern.chips.x86.weights import Bytes, Weights, address_of, aligned
from bittern.plan.arena import Memory
from bittern.plan.flow import Value
from bittern.plan.memory import bytes_of, memory_of
from bittern.plan.plan import Launch as Planned
from bittern.plan.plan import Packed, Part, Plan, Recipe, value_of
from bittern.types.dims import Dim

SECTION = "run"


class Cut:
    """See the module.

    plan: with all sizes known but the number of tokens, of which `tokens` run at most. inputs: memory by input value.
    """

    def __init__(
        self,
        plan: Plan,
        tokens: int,
        inputs: Mapping[Value, Bytes],
        crew: Crew,
        routines: Routines,
        weights: Weights,
        loop: bool = False,
    ) -> None:
        self.plan, self.tokens = plan, tokens
        self._crew, self.inputs = crew, inputs
        self._sizes = (tokens, *[0] * (len(plan.dims) - 1))
        memory = memory_of(plan, self._sizes)
        self._shared = aligned(memory.shared.bytes)
        self._own = aligned(memory.own.bytes * crew.threads)
        self._each, self._memory, self._weights = memory.own.bytes, memory, weights
        launches = plan.launches
        recipes = list(dict.fromkeys(launch.recipe for launch in launches))
        codes = {recipe: routines.code(recipe) for recipe in recipes}
        self.codes = [codes[recipe] for recipe in recipes]
        self.addressed: list[tuple[int, Bytes, int]] = []  # argument words that are addresses: in what memory, where
        self._state, sections = self._arguments(launches, codes, recipes, crew.threads)
        if not launches:  # all results are inputs, seen otherwise
            self.codes, sections = [_nothing()], (Launch(0, 0, "one", barrier=False),)
        self.linked = link(self.codes, {SECTION: Section(sections, loop)})

    @property
    def state(self) -> State:
        """The state that the program runs on, with its counters."""
        return self._state

    @property
    def changing(self) -> tuple[Bytes, ...]:
        """The memory that a run changes, or that is filled for it."""
        return (*self.inputs.values(), self._shared, self._own)

    def result_home(self, leaf: int) -> tuple[Bytes, int, int]:
        """Return the memory of a result leaf, its place there and its bytes."""
        value = self.plan.results[leaf]
        place, memory = self._place(value, 0)
        return memory, place, self.result(leaf).nbytes

    @property
    def memory(self) -> Memory:
        """Where the values of the plan lie."""
        return self._memory

    @property
    def section(self) -> Section:
        """The launches as linked."""
        return self.linked.sections[SECTION]

    def run(self, tokens: int, steps: int = 1) -> int:
        """Run for so many tokens; of a loop, so many steps at most. Returns the steps done."""
        assert 1 <= tokens <= self.tokens, (tokens, self.tokens)
        if tokens != self._sizes[0]:
            self._sizes = (tokens, *self._sizes[1:])
            for place, size in self._counted:
                self._state.args[place] = size.value(self._sizes)
        return self._crew.run(self.linked, SECTION, self._state, steps, work=tokens)

    def call(self) -> Callable[[], object]:
        """Return a function that runs the cut once for all of its tokens: at once, where one thread does it."""
        if self._crew.threads == 1:
            return self._crew.alone(self.linked, SECTION, self._state, self)
        return partial(self.run, self.tokens)

    def result(self, leaf: int) -> Reals:
        """Return a view of a result leaf, for as many tokens as ran last."""
        value = self.plan.results[leaf]
        shape = tuple(size.value(self._sizes) for size in value.type.shape)
        place, memory = self._place(value, 0)
        count = int(np.prod(shape))
        return memory[place:].view(value.type.element.storage)[:count].reshape(shape)

    def _arguments(
        self, launches: Sequence[Planned], codes: Mapping[Recipe, Code], recipes: Sequence[Recipe], threads: int
    ) -> tuple[State, tuple[Launch, ...]]:
        starts, total = [], 0
        for launch in launches:
            starts.append(total)
            total += len(codes[launch.recipe].arguments)
        state = State(threads, total * threads)
        self._counted: list[tuple[int, Dim]] = []
        numbers = {recipe: k for k, recipe in enumerate(recipes)}
        made = []
        for launch, start in zip(launches, starts, strict=True):
            for thread in range(threads):
                self._fill(state, launch, codes[launch.recipe], start + thread * total, thread)
            made.append(
                Launch(numbers[launch.recipe], start * 8, launch.mode, launch.barrier, launch.label, stride=total * 8)
            )
        return state, tuple(made)

    def _fill(self, state: State, launch: Planned, code: Code, start: int, thread: int) -> None:
        operands = {**launch.reads, **launch.writes}
        for k, (name, boundary) in enumerate(code.arguments):
            if name in launch.sizes:
                size = launch.sizes[name]
                state.args[start + k] = size.value(self._sizes)
                if size.constant is None:
                    self._counted.append((start + k, size))
                continue
            if name in launch.numbers:
                number = launch.numbers[name]
                word = np.array([number], np.float32 if isinstance(number, float) else np.uint32)
                state.args[start + k] = int(word.view(np.uint32)[0])
                continue
            assert name in operands, (launch.recipe, name, list(operands))
            operand = operands[name]
            if self._is_flag(operand):
                state.args[start + k] = state.stop_address
                continue
            memory, place = self._home(operand, thread, boundary)
            address = address_of(memory) + place
            assert address % boundary == 0, (operand, boundary)
            state.args[start + k] = address
            self.addressed.append((start + k, memory, place))

    def _is_flag(self, operand: "Value | Packed | Part") -> bool:
        """Whether an operand is where a loop is told to end: a word of the state."""
        if isinstance(operand, Packed):
            return False
        root = self.plan.root[value_of(operand)]
        return root.label == "flag" and root.source == "input"

    def _home(self, operand: "Value | Packed | Part", thread: int, boundary: int) -> tuple[Bytes, int]:
        """Return the memory in which an operand lies, and its place there."""
        if isinstance(operand, Packed):
            return self._weights.packed(operand), 0
        root = self.plan.root[value_of(operand)]
        if root.source == "const":
            return self._weights.stored(root, boundary), 0
        place, memory = self._place(root, thread)
        return memory, place + (operand.offset if isinstance(operand, Part) else 0)

    def _place(self, value: Value, thread: int) -> tuple[int, Bytes]:
        """Return the byte offset of a value and the memory in which it lies."""
        root = self.plan.root.get(value, value)
        if root in self.plan.known:
            return 0, self._weights.known(self.plan.known[root], self.plan)
        if root.source == "input":
            return 0, self.inputs[root]
        if root in self._memory.own.places:
            return self._memory.own.places[root] + thread * self._each, self._own
        return self._memory.shared.places[root], self._shared


def _nothing() -> Code:
    """Return a routine that does nothing."""
    a = Assembler()
    a.ret()
    return a.finish()


def input_bytes(plan: Plan, value: Value, sizes: Sequence[int]) -> int:
    """Return the bytes of an input in the plan's own layout."""
    return plan.bytes.get(plan.root[value], bytes_of(value, sizes))
