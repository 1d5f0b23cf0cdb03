"""What the values inside a network are like on data: saturation, dead channels, flips, and how far sums reach.

Watched are the nodes with a label (all, where none has one) and every layer of sums. Values are observed batch by batch
on the chip that runs the network; only counts are kept, so any amount of data may be watched.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from bittern.chips.chip import ComputingChip
from bittern.graph.node import Function, Node
from bittern.passes.applied import Applied, applied
from bittern.passes.known import number_of
from bittern.passes.network import widths
from bittern.passes.width import SUMMING, Interval, intervals
from bittern.runtime.network import NetworkModel
from bittern.runtime.observed import Array, Point, observed, observing, points
from bittern.types.elements import Element
from bittern.types.values import Tensor

BATCH = 64

_ENDS: dict[str, tuple[int, int]] = {"requantise.requantise": (4, 5), "tflite.rescale": (4, 5)}
"""Where an output stage is given the ends of its codes."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What one value is like. name: of the layer; sums bear that of what they lead to. count: numbers
    seen.

    at_low, at_high: shares of codes that stand at the ends; None of sums, signs and floats. dead, channels: channels of
    the last axis that never changed, of how many. flips: share of signs that differ from one sample to the next, or
    between two sets of data; None of others. low, high: seen. least, most, bits: of sums, what they can be.
    """

    name: str
    function: str
    element: str
    count: int
    low: float
    high: float
    dead: int
    channels: int
    at_low: float | None = None
    at_high: float | None = None
    flips: float | None = None
    least: int | None = None
    most: int | None = None
    bits: int | None = None

    @property
    def saturation(self) -> float | None:
        """The share of codes at either end."""
        return None if self.at_low is None or self.at_high is None else self.at_low + self.at_high


@dataclass(frozen=True, slots=True)
class Monitor:
    """What was watched, in the order of the graph. samples: of the data."""

    samples: int
    layers: tuple[Watched, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        layers = [{**asdict(each), "saturation": each.saturation} for each in self.layers]
        return {"samples": self.samples, "layers": layers}

    def text(self) -> str:
        """Return it as a table."""
        head = ("layer", "computed by", "element", "low", "high", "at low", "at high", "dead", "flips", "sums can be")
        rows = [head, *(_cells(each) for each in self.layers)]
        sizes = [max(len(row[k]) for row in rows) for k in range(len(head))]
        lines = ["  ".join(f"{cell:{size}}" for cell, size in zip(row, sizes, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, f"{self.samples} samples"])

    def __str__(self) -> str:
        return self.text()


def _cells(each: Watched) -> tuple[str, ...]:
    name = each.name if len(each.name) <= 48 else f"{each.name[:45]}..."
    sums = "" if each.bits is None else f"{each.least} to {each.most}, {each.bits} bits"
    shares = [_percent(share) for share in (each.at_low, each.at_high)]
    dead = f"{each.dead} of {each.channels}"
    return (
        name,
        each.function,
        each.element,
        f"{each.low:.6g}",
        f"{each.high:.6g}",
        *shares,
        dead,
        _percent(each.flips),
        sums,
    )


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.3g} %"


@dataclass(slots=True)
class _Tally:
    """Counts of one value over the data. ends: of its codes, or None."""

    point: Point
    layer: Applied | None
    element: Element
    ends: tuple[int, int] | None
    count: int = 0
    at: list[int] = field(default_factory=lambda: [0, 0])
    low: Array | None = None
    high: Array | None = None
    flips: int = 0
    compared: int = 0
    last: Array | None = None

    def add(self, values: Array, other: Array | None) -> None:
        """Count a batch. other: the same value for the other set of data."""
        rows = values.reshape(-1, values.shape[-1] if values.ndim > 1 else 1)
        self.count += values.size
        low, high = rows.min(0), rows.max(0)
        self.low = low if self.low is None else np.minimum(self.low, low)
        self.high = high if self.high is None else np.maximum(self.high, high)
        if self.ends is not None:
            for k in (0, 1):
                self.at[k] += int((values == self.ends[k]).sum())
        if self.element.name == "b1":
            self._add_flips(values, other)

    def _add_flips(self, values: Array, other: Array | None) -> None:
        if other is not None:
            self.flips += int((values != other).sum())
            self.compared += values.size
            return
        before = values[:-1] if self.last is None else np.concatenate([self.last, values[:-1]])
        after = values[1:] if self.last is None else values
        self.flips += int((before != after).sum())
        self.compared += after.size
        self.last = values[-1:].copy()

    def told(self, known: Interval | None) -> Watched:
        """Return what was counted. known: what sums can be."""
        assert self.low is not None and self.high is not None, self.point
        shares = [part / self.count for part in self.at] if self.ends is not None else [None, None]
        return Watched(
            self.point.name,
            self.layer.name if self.layer is not None else self.point.node.kind,
            self.element.name,
            self.count,
            float(self.low.min()),
            float(self.high.max()),
            int((self.low == self.high).sum()),
            len(self.low),
            shares[0],
            shares[1],
            self.flips / self.compared if self.compared else None,
            None if known is None else known.least,
            None if known is None else known.most,
            None if known is None else known.bits,
        )


def monitored(model: NetworkModel, inputs: Sequence[Array], others: Sequence[Array] | None = None) -> Monitor:
    """Watch a network on data. inputs: [b, ...] for each input, fitting.

    others: a second set of as many samples; flips are then those between both sets, sample by sample.
    """
    function = model.program
    watched = _watched(function)
    nodes = [each.point.node for each in watched]
    assert isinstance(model.chip, ComputingChip), model.chip
    loaded = model.chip.load_function(observing(function, nodes), model.network.library)
    for low in range(0, len(inputs[0]), BATCH):
        here = observed(loaded, nodes, [each[low : low + BATCH] for each in inputs])
        there = observed(loaded, nodes, [each[low : low + BATCH] for each in others]) if others is not None else {}
        for each in watched:
            each.add(here[each.point.node.id], there.get(each.point.node.id))
    known = intervals(function)
    rows = [each.told(known.get(each.point.node.id) if _is_sum(each.layer) else None) for each in watched]
    return Monitor(len(inputs[0]), tuple(rows))


def _is_sum(layer: Applied | None) -> bool:
    return layer is not None and layer.name in SUMMING


def _watched(function: Function) -> list[_Tally]:
    """Return what is watched: labelled nodes, or all, and layers of sums, which bear the label of what they lead to."""
    seen = points(function)
    is_labelled = any(each.label for each in seen)
    sums = {width.layer for width in widths(function)}
    found = []
    names = _names_of_sums(seen)
    for each in seen:
        layer = applied(each.node)
        if is_labelled and not each.label and not (_is_sum(layer) and sums):
            continue
        assert isinstance(each.node.type, Tensor), each
        element = each.node.type.element
        named = Point(each.label or names.get(each.node.id, ""), each.node)
        found.append(_Tally(named, layer, element, _ends(element, layer)))
    return found


def _names_of_sums(seen: Sequence[Point]) -> dict[bytes, str]:
    """Return a name for each layer of sums without a label: that of the first labelled value behind it."""
    names: dict[bytes, str] = {}
    for each in seen:
        if not each.label:
            continue
        stack: list[Node] = list(each.node.inputs)
        while stack:
            current = stack.pop()
            layer = applied(current)
            if current.id in names or any(other.label and other.node is current for other in seen):
                continue
            if _is_sum(layer) and layer is not None:
                names[current.id] = each.label
            stack += current.inputs
    return names


def _ends(element: Element, layer: Applied | None) -> tuple[int, int] | None:
    """Return the ends of codes: those of the output stage, else of the element; None of what is no code."""
    if not element.is_integer or element.bits > 8 or element.bits < 2:
        return None
    places = _ENDS.get(layer.name) if layer is not None else None
    if layer is not None and places is not None:
        low, high = (number_of(layer.arguments[place]) for place in places)
        if low is not None and high is not None:
            return int(low), int(high)
    return element.low, element.high
