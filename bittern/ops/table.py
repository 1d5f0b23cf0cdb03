"""The table of primitive ops and what a row holds.

A row is one operation: name, type rule, meaning in numpy over leading batch axes, ideal meaning where it differs from
the plain one evaluated in f64, and a doc line. Rows are declared in the files beside this one, one file a family, with
`@op(...)` on the meaning. Every op is total: no trap, no undefined result.

Batching. An array inside nested maps has `lead` batch axes in front of its own shape; a batch axis on which the value
does not depend has size 1. Batch axes of the operands broadcast against each other by numpy's rule; own axes never do
(a scalar that meets an array is broadcast by a written `broadcast` node).

Ideal evaluation. Every float tensor (f16, bf16, f32, f64 alike) is held as float64 and is not rounded to its element.
Otherwise a tensor is an array of its element's storage dtype; a format's array has [blocks, bytes of a block] u8 in the
place of its last axis.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

import numpy.typing as npt

from bittern.types.values import Tensor, Type, storage_shape

Array: TypeAlias = npt.NDArray[Any]
Attributes: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Site:
    """Where an op is evaluated.

    lead: number of batch axes in front of every operand and of the result. operands, result: types with constant
    dimensions. attributes: the node's, with every dimension resolved to an int. ideal: floats are unrounded float64.
    """

    lead: int
    operands: tuple[Tensor, ...]
    result: Tensor
    attributes: Attributes
    ideal: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The result's own shape as ints (a format's as its stored bytes)."""
        return storage_shape(self.result)


TypeRule: TypeAlias = Callable[[tuple[Type, ...], Attributes], Type]
Meaning: TypeAlias = Callable[..., Array]  # (site, *operands) -> result


@dataclass(frozen=True, slots=True)
class Op:
    """One row. rule: operand types and attributes -> result type, or raises TypeFault. doc: one line."""

    name: str
    doc: str
    rule: TypeRule
    meaning: Meaning
    ideal: Meaning | None = None  # None: `meaning`, on float64
    ideal_only: bool = False  # exp, log, ...: allowed in `ideal` bodies only
    effect: str | None = None  # a token of this effect is the last operand and the last item of the result


OPS: dict[str, Op] = {}
_FAMILIES = ("arithmetic", "compare", "bits", "convert", "shape", "index", "reduce", "effects", "real")


def op(
    name: str,
    doc: str,
    rule: TypeRule,
    *,
    ideal: Meaning | None = None,
    ideal_only: bool = False,
    effect: str | None = None,
) -> Callable[[Meaning], Meaning]:
    """Declare the decorated function as the meaning of a new row."""

    def declare(meaning: Meaning) -> Meaning:
        assert name not in OPS, name
        OPS[name] = Op(name, doc, rule, meaning, ideal, ideal_only, effect)
        return meaning

    return declare


@cache
def ops() -> Mapping[str, Op]:
    """Return the whole table, family by family; the families are loaded on first use."""
    modules = [import_module(f"bittern.ops.{family}").__name__ for family in _FAMILIES]
    return dict(sorted(OPS.items(), key=lambda row: modules.index(row[1].meaning.__module__)))
