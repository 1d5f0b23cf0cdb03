"""What a plan is made of: regions of the flow, the launches of kernels that cover them, and what those touch.

A recipe names a kernel by what builds it, so a plan can be made, compared and cached without building any kernel.
Operands are given to a kernel by the name of its buffer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from bittern.plan.flow import Apply, Value
from bittern.types.dims import Dim, dim

if TYPE_CHECKING:
    from bittern.bitops.kernel import Kernel

FEW = 4  # tokens that one pass over the weights serves

Mode: TypeAlias = Literal["split", "each", "one"]
Argument: TypeAlias = "int | float | str | bool | tuple[Argument, ...] | None"


@dataclass(frozen=True, slots=True)
class Recipe:
    """A kernel by what builds it: a row of `bittern.kernels.recipes` and its arguments.

    kernel: the kernel itself where it was made for one node alone; then the name and the arguments only identify it.
    """

    name: str
    arguments: tuple[Argument, ...] = ()
    kernel: "Kernel | None" = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Packed:
    """A constant in another layout. recipe: of the kernel that repacks it (`source` to `w`). bytes: of the result."""

    value: Value
    recipe: Recipe
    bytes: int


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a value. offset: in bytes."""

    value: Value
    offset: int


Operand: TypeAlias = "Value | Packed | Part"


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """One kernel's run.

    reads, writes: operands by the name of the kernel's buffer; what is updated stands in both. sizes: the kernel's
    symbols. numbers: its scalar parameters. mode: `split` (the threads share the rounds), `each` (every thread does all
    of it, into memory of its own) or `one`. partition: launches that follow each other with the same partition give
    each thread the same share of the operands `shares`, so that no barrier stands between them. label: of the node.
    macs: multiplications with an addition.
    """

    recipe: Recipe
    reads: Mapping[str, Operand]
    writes: Mapping[str, Operand]
    sizes: Mapping[str, Dim] = field(default_factory=dict)
    numbers: Mapping[str, int | float] = field(default_factory=dict)
    mode: Mode = "split"
    partition: str = ""
    shares: frozenset[str] = frozenset()
    label: str = ""
    macs: Dim = field(default_factory=lambda: dim(0))
    barrier: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Applications that launches cover together.

    rule: what found them. same: results that are other values' memory. bytes: sizes of values that have another layout
    than the graph's.
    """

    rule: str
    covers: tuple[Apply, ...]
    launches: tuple[Launch, ...] = ()
    same: Mapping[Value, Value] = field(default_factory=dict)
    bytes: Mapping[Value, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Known:
    """A value that depends on constants and on sizes of the session alone: evaluated once. leaf: of the results.

    apply: what is evaluated; None in a plan that was kept (kept.py), which has the identity instead.
    """

    apply: Apply | None
    leaf: int
    identity: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A function planned: regions in the order in which they run.

    root: the value whose memory a value has (itself, if it has its own). known: values evaluated once. bytes: sizes of
    values that have another layout than the graph's. function: the identity of what was planned.
    """

    name: str
    dims: tuple[str, ...]
    inputs: tuple[Value, ...]
    results: tuple[Value, ...]
    regions: tuple[Region, ...]
    root: Mapping[Value, Value]
    known: Mapping[Value, Known]
    bytes: Mapping[Value, int]
    function: str = ""

    @property
    def launches(self) -> tuple[Launch, ...]:
        """All launches in order."""
        return tuple(launch for region in self.regions for launch in region.launches)


def identity_of(known: Known, plan: Plan) -> tuple[object, ...]:
    """Return what a known value is, so that equal ones are evaluated once: the node, its sizes and what goes in.

    A function that is called twice has its nodes once, for other constants.
    """
    apply = known.apply
    if apply is None:
        return known.identity
    inputs = (value.data or identity_of(plan.known[value], plan) for value in apply.inputs)
    return (apply.node.id, tuple(size.constant or 0 for size in apply.setting), *inputs, known.leaf)


def value_of(operand: Operand) -> Value:
    """Return the value that an operand is, or is made from."""
    return operand if isinstance(operand, Value) else operand.value
