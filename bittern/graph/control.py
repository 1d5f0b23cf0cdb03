"""Preparation of `if`, `for` and `while`, and of updates: what may be overwritten, and by which body.

A loop body may overwrite the arrays that it carries if each round gives back arrays that nothing else holds. That is
assumed for every carry that the body would like to overwrite, the body is prepared, and the assumption is dropped for
carries whose results break it, until it holds (a greatest fixed point; at most one preparation for each carry). A
carry that starts as an array which others still read is copied once, on entry.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bittern.graph import batch
from bittern.graph.flow import Instruction, closure_of_carries, consumed_carries, sources_of
from bittern.graph.node import Function, Node
from bittern.graph.program import Action, Copies, Program, Roots
from bittern.graph.world import Value, resolved_leaves
from bittern.ops.table import Array
from bittern.types.values import storage_shape

if TYPE_CHECKING:
    from bittern.graph.prepare import Builder

_NOTHING = Value(0, frozenset())  # stands for a parameter that shares memory with nothing


def copying(meaning: Action, copies: Copies) -> Action:
    """Return an update that leaves its first operand as it is. It is counted as a copy."""

    def action(array: Array, *rest: Array) -> Array:
        copies.add(array)
        result: Array = meaning(array, *rest)
        return result

    return action


def overwriting(in_place: Action, meaning: Action, lead: int, copies: Copies) -> Action:
    """Return an update in place; it copies where the array is one for a whole batch whose elements now part ways."""
    copied = copying(meaning, copies)

    def action(array: Array, *rest: Array) -> Array:
        fits = array.dtype == rest[-1].dtype  # else, over the reals, a real goes where integers were
        if fits and array.flags.writeable and (not lead or _covers(array, rest, lead)):
            result: Array = in_place(array, *rest)
            return result
        return copied(array, *rest)  # type: ignore[no-any-return]

    return action


def _covers(array: Array, rest: Sequence[Array], lead: int) -> bool:
    sizes = array.shape[:lead]
    return all(size in (1, own) for operand in rest for size, own in zip(operand.shape[:lead], sizes, strict=True))


def emit_if(
    builder: "Builder", instruction: Instruction, dims: tuple[int, ...], lead: int, inputs: list[Value]
) -> list[Value]:
    """Lay out an `if`: one branch if the condition is known, else a step with a program for each branch."""
    node, (condition, *captures) = instruction.node, inputs
    then, otherwise = _function(node, "then"), _function(node, "otherwise")
    if condition.array is not None and condition.array.size == 1:
        inputs.clear()
        return builder.emit(then if condition.array.item() else otherwise, dims, lead, captures)
    places = [place - 1 for place in instruction.consumed]
    donated = frozenset(place for place in places if builder.is_exclusive(captures[place], _without(inputs, 1 + place)))
    arguments = dict(enumerate(captures))
    bodies, roots = [], []
    for function in (then, otherwise):
        program = builder.nested(function, dims, lead, donated, arguments)
        for leaf in program.written:
            builder.note_written(captures[leaf])
        roots.append(builder.roots_after(program, captures))
        bodies.append(batch.Body(program, builder.later(function, dims, lead, arguments)))
    merged = [frozenset((builder.fresh(),)) | a | b for a, b in zip(*roots, strict=True)]
    action = batch.branch(bodies[0], bodies[1], _ranks(node, dims), lead)
    passed = [condition, *(value for value in captures if value.array is None)]
    fold = condition.array is not None and len(passed) == 1
    return builder.apply(action, passed, merged, fold=fold, several=True)


def emit_for(
    builder: "Builder", instruction: Instruction, dims: tuple[int, ...], lead: int, inputs: list[Value]
) -> list[Value]:
    """Lay out a `for`. inputs: low, high, carries, captures."""
    function = _function(instruction.node, "body")
    loop = _Loop(builder, instruction.node, function, dims, lead, skipped=1, inputs=inputs, before=2)
    action = batch.fold(loop.body, loop.carried, lead)
    return loop.finish(action)


def emit_while(
    builder: "Builder", instruction: Instruction, dims: tuple[int, ...], lead: int, inputs: list[Value]
) -> list[Value]:
    """Lay out a `while`. inputs: limit, carries, captures."""
    function, test = _function(instruction.node, "body"), _function(instruction.node, "test")
    loop = _Loop(builder, instruction.node, function, dims, lead, skipped=0, inputs=inputs, before=1)
    action = batch.repeat(builder.nested(test, dims, lead, frozenset(), loop.constants), loop.body, loop.carried)
    return loop.finish(action)


class _Loop:
    """A loop while it is laid out.

    skipped: parameters of the body before the carries. before: inputs of the node before the carries.
    """

    def __init__(
        self,
        builder: "Builder",
        node: Node,
        function: Function,
        dims: tuple[int, ...],
        lead: int,
        *,
        skipped: int,
        inputs: list[Value],
        before: int,
    ) -> None:
        self._builder, self._skipped = builder, skipped
        ranks = _ranks(node, dims)
        self._head, rest = inputs[:before], inputs[before:]
        self._start, self._captures = rest[: len(ranks)], rest[len(ranks) :]
        first = skipped + len(ranks)
        self.constants = {first + place: value for place, value in enumerate(self._captures)}
        self._program = self._prepare(function, dims, lead)
        self._copied = self._to_copy()
        self.carried = batch.Carries(ranks, tuple(sorted(self._copied)), builder.world.copies)
        self.body = batch.Body(self._program, builder.later(function, dims, lead, self.constants))

    def finish(self, action: Action) -> list[Value]:
        """Add the step of the whole loop."""
        for leaf in self._program.written:
            place = leaf - self._skipped
            if place not in self._copied:
                self._builder.note_written(self._start[place])
        passed = [*self._head, *self._start, *(value for value in self._captures if value.array is None)]
        fold = all(value.array is not None for value in [*passed, *self._captures])
        return self._builder.apply(action, passed, self._roots(), fold=fold, several=True)

    def _prepare(self, function: Function, dims: tuple[int, ...], lead: int) -> Program:
        """Return the body, allowed to overwrite as many carries as its own results allow."""
        summary = self._builder.world.flow.summary(function)
        own = set(consumed_carries(summary, len(self._start), self._skipped))
        while True:
            donated = frozenset(self._skipped + place for place in own)
            program = self._builder.nested(function, dims, lead, donated, self.constants)
            broken = {place for place in own if not self._is_clean(program, place, donated)}
            if not broken:
                return program
            own -= broken

    def _is_clean(self, program: Program, place: int, donated: frozenset[int]) -> bool:
        """Whether this carry's next array is held by nothing else: not by a constant, a capture or another carry."""
        params = self._skipped + len(self._start) + len(self._captures)
        roots = program.roots[place]
        if any(root <= params and root - 1 not in donated for root in roots):
            return False
        return all(roots.isdisjoint(other) for i, other in enumerate(program.roots) if i != place)

    def _to_copy(self) -> set[int]:
        """Return the carries that are overwritten in some round but start as an array that others still read."""
        taken = {leaf - self._skipped for leaf in self._program.written}
        copied: set[int] = set()
        for place in sorted(sources_of(taken, self._flows(), len(self._start), self._skipped)):
            others = [value for i, value in enumerate(self._start) if i != place and i not in copied]
            if not self._builder.is_exclusive(self._start[place], [*self._head, *others, *self._captures]):
                copied.add(place)
        return copied

    def _roots(self) -> list[Roots]:
        """Return what each carry may share memory with after any number of rounds."""
        builder, carries = self._builder, len(self._start)
        nothing = [_NOTHING] * (self._skipped + carries)
        after = builder.roots_after(self._program, [*nothing, *self._captures])
        start = [_NOTHING if i in self._copied else value for i, value in enumerate(self._start)]
        each = [value.roots | made | {builder.fresh()} for value, made in zip(start, after, strict=True)]
        through = closure_of_carries(self._flows(), carries, self._skipped)
        return [frozenset().union(*(each[i] for i in sources if i < carries)) for sources in through]

    def _flows(self) -> list[Roots]:
        """Return for each carry the parameters of the body whose array its next value may be."""
        params = self._skipped + len(self._start)
        return [frozenset(root - 1 for root in roots if 1 <= root <= params) for roots in self._program.roots]


def _without(values: Sequence[Value], place: int) -> list[Value]:
    return [*values[:place], *values[place + 1 :]]


def _ranks(node: Node, dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(len(storage_shape(leaf)) for leaf in resolved_leaves(node.type, dims))


def _function(node: Node, name: str) -> Function:
    value = node[name]
    assert isinstance(value, Function), (node, name)
    return value
