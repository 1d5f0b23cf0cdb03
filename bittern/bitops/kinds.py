"""The table of kinds: what a step can do, one row each.

A row has the name, a doc line, the rule from operand types to result types, and the exact meaning in numpy. Lanes are
the last axis of its arrays, a scalar is one lane. Rows are declared in the family files, with `@kind(...)` on the
meaning. Every kind is total: no trap, no undefined result. A float kind rounds once, to nearest even.

Forms, which say how a kind is legalised (`expand.py`):
- `lane`: result lane k depends on operand lanes k (of a group kind such as `dot4`: on the k-th group); splitting all
  operands into equally many pieces splits the result.
- `cross`: moves lanes; split by its own rule, or expanded.
- `memory`: reads or writes a buffer.
- `control`: holds blocks; its meaning is the interpreter's.
Effects: `none`, `load`, `store`, `barrier`, `hint` (may be dropped).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

import numpy.typing as npt

from bittern.bitops.kernel import Attributes
from bittern.bitops.lanes import Lanes

Array: TypeAlias = npt.NDArray[Any]
Types: TypeAlias = tuple[Lanes, ...]
Rule: TypeAlias = Callable[[Types, Attributes], Types]


@dataclass(slots=True)
class Misfit(Exception):
    """Operands or attributes that do not fit a kind. found, expected: phrases."""

    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.found}; expected {self.expected}"


@dataclass(frozen=True, slots=True)
class Site:
    """Where a kind is evaluated: types of operands and results, and the attributes."""

    operands: Types
    results: Types
    attributes: Attributes

    @property
    def result(self) -> Lanes:
        """The type of the one result."""
        return self.results[0]


Meaning: TypeAlias = Callable[..., Array]  # (site, *operands) -> result


@dataclass(frozen=True, slots=True)
class Kind:
    """One row; see the module."""

    name: str
    doc: str
    rule: Rule
    form: str
    effect: str
    meaning: Meaning | None


KINDS: dict[str, Kind] = {}
_FAMILIES = ("arithmetic", "bitwise", "conversion", "crossing", "dots", "memory", "control")


def kind(name: str, doc: str, rule: Rule, form: str = "lane", effect: str = "none") -> Callable[[Meaning], Meaning]:
    """Declare the decorated function as the meaning of a new row."""

    def declare(meaning: Meaning) -> Meaning:
        assert name not in KINDS, name
        KINDS[name] = Kind(name, doc, rule, form, effect, meaning)
        return meaning

    return declare


def interpreted(name: str, doc: str, rule: Rule, form: str, effect: str = "none") -> None:
    """Declare a row that only the interpreter can mean."""
    assert name not in KINDS, name
    KINDS[name] = Kind(name, doc, rule, form, effect, None)


def kinds() -> Mapping[str, Kind]:
    """Return the whole table, loading the families on first use."""
    for family in _FAMILIES:
        import_module(f"bittern.bitops.{family}")
    return KINDS


def is_pure(name: str) -> bool:
    """Whether steps of the kind depend on their operands only and may be shared, moved or dropped."""
    row = KINDS[name]
    return row.effect == "none" and row.form != "control"
