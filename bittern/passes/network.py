"""The passes of networks: a network's function becomes one that computes with whole numbers between its boundaries.

In goes the function of a network, out comes one of the same bits, and a report: what was computed ahead, which chain
became what and how that is known, what stays in floats and why, the width of every accumulator. The steps, each of
which can be left out: `constants`, `pools`, `thresholds`. What is hashed and stored is the function that went in.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bittern.base.errors import BitternError, nearest
from bittern.graph.node import Function, Node, walk
from bittern.lang.library import Library
from bittern.passes.applied import applied
from bittern.passes.constants import fold_constants
from bittern.passes.integers import INNER, INPUT, OUTPUT, float_roles, need_integers
from bittern.passes.run import UNKNOWN_PASS
from bittern.passes.thresholds import Fold, Found, Left, fold_chains
from bittern.passes.width import SUMMING, Interval, intervals

STEPS: Mapping[str, str] = {
    "constants": "what depends on no input is computed now, through calls and quantisers",
    "pools": "max-pools stand where their values are codes, or accumulators",
    "thresholds": "chains of floats from accumulators to codes become thresholds, one rounding, or a table",
}
"""What is done to a network, in order; `without` leaves one out. `pools` is part of the walk of `thresholds`."""


@dataclass(frozen=True, slots=True)
class Width:
    """The interval of a layer's sums. layer: its label. function: of the library. bits: that hold every value."""

    layer: str
    function: str
    low: int
    high: int
    bits: int


@dataclass(frozen=True, slots=True)
class Report:
    """What the passes did to a network.

    constants: labels of what was computed ahead. folds: chains that were replaced. left: chains that stay. widths: of
    every layer. inputs, outputs, inner: labels of the nodes that compute with floats at the inputs, at the outputs, and
    between whole numbers. without: steps that were left out.
    """

    constants: tuple[str, ...]
    folds: tuple[Fold, ...]
    left: tuple[Left, ...]
    widths: tuple[Width, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    inner: tuple[str, ...]
    without: tuple[str, ...] = ()

    @property
    def is_integer(self) -> bool:
        """Whether no float stands between whole numbers."""
        return not self.inner

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {**asdict(self), "is_integer": self.is_integer}

    def lines(self) -> list[str]:
        """Return the report as text, one line a fact."""
        found = [f"computed ahead: {name}" for name in self.constants]
        found += [_fold_line(fold) for fold in self.folds]
        found += [f"{left.end} stays in floats: {left.reason} ({left.at})" for left in self.left]
        found += [f"{w.layer}: sums of {w.low} to {w.high}, {w.bits} bits" for w in self.widths]
        found += [f"float boundary, {role}: {name}" for role, names in self._boundaries() for name in names]
        return found

    def _boundaries(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(INPUT, self.inputs), (OUTPUT, self.outputs), (INNER, self.inner)]


def _fold_line(fold: Fold) -> str:
    moved = f"; max-pool {fold.pool}" if fold.pool else ""
    steps = f"{fold.steps} thresholds" if fold.steps else fold.detail
    return f"{fold.source} to {fold.end}: {fold.form}, {steps}; {fold.low} to {fold.high}; {fold.proof}{moved}"


def integer_only(
    function: Function, library: Library, *, without: Collection[str] = (), strict: bool = False
) -> tuple[Function, Report]:
    """Return a function of the same bits that computes with whole numbers, and the report.

    without: steps to leave out. strict: refuse a network in which floats stay between whole numbers. Errors: R141, and
    R142 where `strict`.
    """
    for name in without:
        if name not in STEPS:
            raise BitternError(UNKNOWN_PASS, f"There is no pass `{name}`.", nearest(name, list(STEPS)))
    constants: tuple[str, ...] = ()
    found = Found()
    made = function
    if "constants" not in without:
        made, constants = fold_constants(made)
    if "thresholds" not in without:
        made, found = fold_chains(made, library, pools="pools" not in without)
    assert made.params == function.params and made.result.type == function.result.type, function
    report = _report(made, constants, found, tuple(name for name in STEPS if name in without))
    if strict:
        need_integers(made, {left.end: left.reason for left in report.left})
    return made, report


def widths(function: Function) -> tuple[Width, ...]:
    """Return the interval of the sums of every layer, inputs before users."""
    known = intervals(function)
    found = []
    for each in walk(function.result):
        layer = applied(each)
        if layer is not None and layer.name in SUMMING and isinstance(span := known.get(each.id), Interval):
            found.append(Width(_label(function, each), layer.name, span.least, span.most, span.bits))
    return tuple(found)


def _report(made: Function, constants: tuple[str, ...], found: Found, without: tuple[str, ...]) -> Report:
    roles = float_roles(made)
    names: dict[str, list[str]] = {INPUT: [], OUTPUT: [], INNER: []}
    for each in walk(made.result):
        if each.id in roles:
            names[roles[each.id]].append(_label(made, each))
    return Report(
        constants,
        tuple(found.folds),
        tuple(reversed(found.left)),
        widths(made),
        tuple(names[INPUT]),
        tuple(names[OUTPUT]),
        tuple(names[INNER]),
        without,
    )


def _label(function: Function, of: Node) -> str:
    return function.labels.nodes.get(of.id) or f"{of.kind} {of.id.hex()[:8]}"
