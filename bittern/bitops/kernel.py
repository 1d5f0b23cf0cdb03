"""A kernel: parameters, buffers of known extent, and one block of steps with structured control flow.

Values are in static single assignment: a step makes its results, a block its parameters, once. A block ends with what
it yields: the next values of a loop's carries, the results of a branch, the truth of a test. Control steps hold their
blocks; nothing jumps.

Memory is seen through buffers. A buffer is `size` elements, a polynomial over the kernel's symbols (its dimension
parameters); an access names the buffer, a place in elements, and may read other elements than the buffer's own, low
byte first: the address is `place * bytes of the buffer's element + offset`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from bittern.bitops.lanes import Lanes
from bittern.types.dims import Dim
from bittern.types.elements import Element

Attributes: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """One value; equal to itself only. number: unique in its kernel, for printing."""

    number: int
    type: Lanes

    def __str__(self) -> str:
        return f"%{self.number}"


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Parameters, steps in order, and what the block ends with."""

    parameters: tuple[Value, ...]
    steps: tuple["Step", ...]
    yields: tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One instance of a kind. label: what the step belongs to (a node of the graph), kept down to machine code."""

    kind: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    attributes: Attributes = field(default_factory=dict)
    blocks: tuple[Block, ...] = ()
    label: str = ""

    @property
    def result(self) -> Value:
        """The one result."""
        (value,) = self.results
        return value


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of a kernel.

    size: number of elements. access: `read`, `write` (nothing may be read before it is written, so it never is),
    `update` (both) or `scratch` (private to one run of the innermost parallel body around its use, starts undefined).
    align: the first byte's address is a multiple of it.
    """

    name: str
    element: Element
    size: Dim
    access: str
    align: int = 64


@dataclass(frozen=True, slots=True)
class Parameter:
    """A scalar that the caller gives. low, high: what the caller promises of it, both included."""

    name: str
    value: Value
    low: Dim | None = None
    high: Dim | None = None


@dataclass(frozen=True, slots=True)
class Kernel:
    """symbols: names of the dimension parameters, which are at least 0. divides: facts `top % bottom == 0`.

    at_least: polynomials that the caller promises to be at least 0.
    """

    name: str
    symbols: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    parameters: tuple[Parameter, ...]
    body: Block
    divides: tuple[tuple[Dim, Dim], ...] = ()
    at_least: tuple[Dim, ...] = ()

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of this name."""
        return next(b for b in self.buffers if b.name == name)


def walk(block: Block) -> Iterator[Step]:
    """Yield all steps of a block, those inside a step after it."""
    for step in block.steps:
        yield step
        for inner in step.blocks:
            yield from walk(inner)


def freeze(attributes: Attributes) -> tuple[tuple[str, Any], ...]:
    """Return attributes in a form that can be compared and hashed."""
    return tuple(sorted(attributes.items()))
