"""The table of expansions: kind -> function that makes it of other kinds.

An expansion gets the expander, which is a builder that legalises whatever is made through it, and the call: operands as
handles, attributes, result type. It returns the result, `()` for a kind without results, or None where it does not
apply. It may use any kind that is nearer to the base set than its own; what it makes must have exactly the bits of the
kind's meaning.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Attributes
from bittern.bitops.lanes import Lanes

if TYPE_CHECKING:
    from bittern.bitops.expand import Expander


@dataclass(frozen=True, slots=True)
class Call:
    """A step to be expanded."""

    kind: str
    operands: tuple[Handle, ...]
    results: tuple[Lanes, ...]
    attributes: Attributes

    @property
    def result(self) -> Lanes:
        """The type of the one result."""
        return self.results[0]


Outcome: TypeAlias = "Handle | tuple[()] | None"
Expansion: TypeAlias = "Callable[[Expander, Call], Outcome]"

EXPANSIONS: dict[str, Expansion] = {}
_FAMILIES = ("numbers", "bits", "converting", "moving", "reaching")


def expansion(kind: str) -> Callable[[Expansion], Expansion]:
    """Declare the decorated function as the expansion of a kind."""

    def declare(function: Expansion) -> Expansion:
        assert kind not in EXPANSIONS, kind
        EXPANSIONS[kind] = function
        return function

    return declare


def expansions() -> dict[str, Expansion]:
    """Return the whole table, loading the families on first use."""
    for family in _FAMILIES:
        import_module(f"bittern.bitops.expansions.{family}")
    return EXPANSIONS


def halved(x: Handle, widest: int, function: Callable[[Handle], Handle]) -> Handle:
    """Apply a lane-wise function whose lanes grow to `widest` bits, in halves where a vector is too wide for that."""
    if x.type.count * widest <= 512 or x.type.is_scalar:
        return function(x)
    half = x.type.count // 2
    parts = [halved(x.part(first, half), widest, function) for first in (0, half)]
    return x.builder.join(*parts) if half > 1 else x.builder.collect(*parts)
