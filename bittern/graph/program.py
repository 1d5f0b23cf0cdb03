"""A prepared function: a list of steps over numbered slots, run as often as wanted.

A step is (action, read, write, dead): `slots[write] = action(*read(slots))`, then the dead slots are emptied so that
memory is returned as soon as nothing needs it. `read` is an `itemgetter`, so a step costs little beyond its action.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np

from bittern.graph.node import Function
from bittern.ops.convert import widened
from bittern.ops.table import Array
from bittern.types.elements import Element
from bittern.types.values import Tensor, Tuple, Type, storage_shape, text

Roots: TypeAlias = frozenset[int]
Action: TypeAlias = Callable[..., Any]  # arrays -> one array, or as many arrays as the step has results
Step: TypeAlias = tuple[Action, Callable[[list[Any]], Sequence[Any]], "int | slice", tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class CallSite:
    """What a kernel sees when a call is prepared.

    dims: the callee's dimension parameters. lead: batch axes in front of every argument and result. ideal: floats are
    float64. constants: for each parameter the array if it is known and the same for the whole batch (its `lead` axes
    have size 1), else None. donated: parameters of mode `own` whose array the kernel may overwrite and return.
    """

    function: Function
    dims: tuple[int, ...]
    lead: int
    ideal: bool
    constants: tuple[Array | None, ...]
    donated: frozenset[int] = frozenset()


Kernel: TypeAlias = Callable[[CallSite], "Callable[..., Array | tuple[Array, ...]] | None"]
"""Prepares one call: returns what runs it, or None to decline, so that the definition is used.

What it returns takes every argument in order, the known ones too, and returns the result (a tuple if the function's
result is one). Results are new arrays, or arguments named in `donated`; never views of other arguments.
"""


@dataclass(slots=True)
class Copies:
    """What updates had to copy because the array was not theirs alone. count: copies made. bytes: their size."""

    count: int = 0
    bytes: int = 0

    def add(self, array: Array) -> None:
        """Count one copied array."""
        self.count += 1
        self.bytes += array.nbytes


@dataclass(slots=True, eq=False)
class Program:
    """A function prepared for concrete dimensions, mode and known constants. Made by `prepare`.

    name: the function's. inputs: the types of the arrays it takes: the leaves of all parameters that are not constants,
    in order. result: its type. copies: shared by all programs of one `World`. written: parameter leaves whose array it
    overwrites, all of them donated. roots: for each result leaf the memory that it may share: 0 a constant, 1 + i
    parameter leaf i, other numbers arrays made by the program itself.
    """

    name: str
    inputs: tuple[Tensor, ...]
    result: Type
    lead: int
    ideal: bool
    copies: Copies
    written: frozenset[int]
    roots: tuple[Roots, ...]
    _steps: list[Step] = field(repr=False)
    _template: list[Any] = field(repr=False)
    _results: Callable[[list[Any]], tuple[Array, ...]] = field(repr=False)

    def __call__(self, *arrays: object) -> Any:
        """Run on one array for each of `inputs`, with `lead` batch axes in front; return an array or a tuple of leaves.

        In ideal mode a float array may be given as stored; it is then converted to float64.
        """
        assert len(arrays) == len(self.inputs), (len(arrays), len(self.inputs))
        with np.errstate(all="ignore"):
            given = [self._admit(*pair) for pair in zip(arrays, self.inputs, strict=True)]
            results = tuple(np.asarray(leaf) for leaf in self.run(*given))
        return results if isinstance(self.result, Tuple) else results[0]

    def run(self, *arrays: Array) -> tuple[Array, ...]:
        """Run inside another program: no checks, floating-point warnings are the caller's; return all result leaves."""
        slots = self._template.copy()
        slots[: len(arrays)] = arrays
        for action, read, write, dead in self._steps:
            slots[write] = action(*read(slots))
            for slot in dead:
                slots[slot] = None
        return self._results(slots)

    @property
    def steps(self) -> int:
        """How many steps one run takes, those of nested programs not counted."""
        return len(self._steps)

    def _admit(self, given: object, type_: Tensor) -> Array:
        array = as_stored(given, type_, self.ideal)
        shape = array.shape[self.lead :]
        assert shape == storage_shape(type_), (text(type_), array.shape, self.lead)
        return array


def storage(element: Element, ideal: bool) -> "np.dtype[Any]":
    """Return the dtype that holds values of an element: its own, or float64 for any float in ideal evaluation."""
    return np.dtype(np.float64) if ideal and element.is_float else np.dtype(element.storage)


def as_stored(given: object, type_: Tensor, ideal: bool) -> Array:
    """Return a value as the array that programs pass around; in ideal mode stored floats become float64, exactly."""
    array = np.asarray(given)
    element = type_.element
    if array.dtype == storage(element, ideal) or (ideal and array.dtype == np.float64):
        return array  # over the reals what is typed as an integer may hold any number
    assert array.dtype == np.dtype(element.storage), (text(type_), array.dtype)
    return widened(element, array).astype(np.float64)


def reader(slots: Sequence[int]) -> Callable[[list[Any]], Sequence[Any]]:
    """Return a function that takes these slots out of a list, as a sequence."""
    if len(slots) > 1:
        return itemgetter(*slots)
    return itemgetter(slice(slots[0], slots[0] + 1) if slots else slice(0, 0))


def gatherer(slots: Sequence[int]) -> Callable[[list[Any]], tuple[Array, ...]]:
    """Return a function that takes these slots out of a list, as a tuple."""
    read = reader(slots)
    return lambda values: tuple(read(values))
