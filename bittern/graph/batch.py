"""Structural nodes at run time, over batch axes: what a map costs, and loops and branches of whole batches at once.

A value inside nested maps has `lead` batch axes in front of its own shape, of size 1 where it does not depend on the
element. A map makes its arrays' first axis the next batch axis, and that is all. A loop whose bounds or test differ
within the batch runs until the last element is done; `np.where` keeps the state of those that are not in the round.
Bodies are pure and total, so rounds that an element does not take may be computed for it and thrown away.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from bittern.graph.program import Action, Copies, Program
from bittern.ops.table import Array

Leaves: TypeAlias = tuple[Array, ...]

_BLOCK = 65536  # loop indices made at a time


@dataclass(frozen=True, slots=True)
class Body:
    """A body in its two forms.

    owning: may overwrite the arrays given to it, for rounds that the whole batch takes. sharing: gives one that may
    not, for rounds in which some elements keep their old state; made when it is needed first.
    """

    owning: Program
    sharing: Callable[[], Program]


@dataclass(frozen=True, slots=True)
class Carries:
    """The carried values of a loop. ranks: own rank of each as stored. copied: those that start as a copy."""

    ranks: tuple[int, ...]
    copied: tuple[int, ...]
    copies: Copies

    def start(self, values: Sequence[Array]) -> Leaves:
        """Return the first state: the given arrays, those of `copied` as copies."""
        if not self.copied:
            return tuple(values)
        state = list(values)
        for place in self.copied:
            self.copies.add(state[place])
            state[place] = np.array(state[place])
        return tuple(state)


def expand(lead: int) -> Action:
    """Return what gives a captured array its batch axis of size 1 behind `lead` others."""
    place = (*(slice(None),) * lead, None)
    return lambda array: array[place]


def spread(lead: int, count: int) -> Action:
    """Return what makes the batch axis behind `lead` others an own axis of length `count` again."""

    def action(array: Array) -> Array:
        shape = array.shape
        if shape[lead] == count:
            return array
        return np.broadcast_to(array, (*shape[:lead], count, *shape[lead + 1 :]))

    return action


def in_parts(body: Program, arrays: int, lead: int, length: int, size: int) -> Action:
    """Return what runs a map over `size` elements at a time: (arrays..., captures...) -> result leaves.

    arrays: how many are walked. body: takes one part of each, and the captures with their batch axis.
    """
    before = (slice(None),) * lead

    def action(*values: Array) -> Leaves:
        walked, captures = values[:arrays], values[arrays:]
        whole: list[Array] = []
        for start in range(0, length, size):
            part = (*before, slice(start, min(start + size, length)))
            results = body.run(*(array[part] for array in walked), *captures)
            whole = whole or [np.empty(_whole_shape(leaf, lead, length), leaf.dtype) for leaf in results]
            for place, leaf in enumerate(results):
                whole[place] = _roomy(whole[place], leaf, lead)
                whole[place][part] = leaf
        return tuple(whole)

    return action


def _whole_shape(leaf: Array, lead: int, length: int) -> tuple[int, ...]:
    return (*leaf.shape[:lead], length, *leaf.shape[lead + 1 :])


def _roomy(whole: Array, leaf: Array, lead: int) -> Array:
    """Return the array with outer batch axes and a dtype that hold the part as well: parts need not have the same."""
    if leaf.shape[:lead] == whole.shape[:lead] and leaf.dtype == whole.dtype:
        return whole
    front = np.broadcast_shapes(whole.shape[:lead], leaf.shape[:lead])
    return np.array(np.broadcast_to(whole, front + whole.shape[lead:]), np.result_type(whole, leaf))


def merge(mask: Array, new: Sequence[Array], old: Sequence[Array], ranks: Sequence[int]) -> Leaves:
    """Return `new` where the mask holds, else `old`. mask: [batch...] bit; new, old: [batch..., own...]."""
    if mask.all():
        return tuple(new)
    return tuple(
        np.where(mask.reshape(mask.shape + (1,) * rank), a, b) for a, b, rank in zip(new, old, ranks, strict=True)
    )


def branch(then: Body, otherwise: Body, ranks: tuple[int, ...], lead: int) -> Action:
    """Return what runs an `if`: (condition, captures...) -> result leaves."""
    take, skip = then.owning.run, otherwise.owning.run

    def one(condition: Array, *captures: Array) -> Leaves:
        return take(*captures) if condition else skip(*captures)

    def both(condition: Array, *captures: Array) -> Leaves:
        if condition.size == 1:
            return take(*captures) if condition.item() else skip(*captures)
        return merge(condition, then.sharing().run(*captures), otherwise.sharing().run(*captures), ranks)

    return both if lead else one


def fold(body: Body, carries: Carries, lead: int) -> Action:
    """Return what runs a `for`: (low, high, carries..., captures...) -> carries."""
    count, run = len(carries.ranks), body.owning.run

    def action(low: Array, high: Array, *values: Array) -> Leaves:
        state, captures = carries.start(values[:count]), values[count:]
        if low.size == 1 and high.size == 1:
            for index in _indices(int(low.item()), int(high.item()), lead):
                state = run(index, *state, *captures)
            return state
        if not low.size or not high.size:
            return state  # a batch of no elements
        masked = body.sharing().run
        for index in _indices(int(low.min()), int(high.max()), lead):
            inside = (low <= index) & (index < high)
            state = merge(inside, masked(index, *state, *captures), state, carries.ranks)
        return state

    return action


def repeat(test: Program, body: Body, carries: Carries) -> Action:
    """Return what runs a `while`: (limit, carries..., captures...) -> carries."""
    count, holds, run = len(carries.ranks), test.run, body.owning.run

    def action(limit: Array, *values: Array) -> Leaves:
        state, captures = carries.start(values[:count]), values[count:]
        rounds = 0
        while True:
            (going,) = holds(*state, *captures)  # of a finished element it stays false, because its state stays
            going = going & (limit > rounds)
            if not going.any():
                return state
            if going.size == 1:
                state = run(*state, *captures)
            else:
                state = merge(going, body.sharing().run(*state, *captures), state, carries.ranks)
            rounds += 1

    return action


def _indices(low: int, high: int, lead: int) -> Iterator[Array]:
    """Yield low, ..., high - 1 as u32 arrays with `lead` batch axes of size 1."""
    for start in range(low, high, _BLOCK):
        block = np.arange(start, min(start + _BLOCK, high), dtype=np.uint32)
        yield from block.reshape((-1,) + (1,) * lead)
