"""Normalisations: batch norm as its formula, which passes fold into what follows; the others in whole numbers alone.

A norm over values of the sample itself (layer, group, instance) depends on data at inference, so it cannot be folded.
It is computed together with the quantiser behind it: a value's code is the number of thresholds that its normalised
value reaches, decided exactly without a root or a division (`norms_of_codes`). Gain and bias are in the thresholds.
"""

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bittern.base.errors import BitternError
from bittern.front.network.assembly import BATCH
from bittern.front.network.draft import TOO_WIDE, UNFIT_ELEMENT, WRONG_NUMBER, WRONG_SHAPE, Flow, flow
from bittern.front.network.layer import Layer
from bittern.front.network.widths import Width
from bittern.graph.node import Node
from bittern.types.elements import BIT, F32, I32, Element

if TYPE_CHECKING:
    from bittern.front.network.draft import Draft

_ROOM = 62  # bits of n * |x| * 2^fraction


@dataclass(frozen=True, slots=True, eq=False)
class BatchNorm(Layer):
    """Batch normalisation with learned statistics (Ioffe & Szegedy 2015). x: sums, codes or real numbers -> f32.

    (x - mean) / sqrt(variance + eps) * gain + bias, in this order, each rounded once, as `norms.batch_norm` says.
    Between sums and an activation it becomes whole-number thresholds or multipliers before the network runs, ties
    included.
    Parameters: `mean`, `variance`, `gain`, `bias`, f32 of each channel.
    """

    KIND: ClassVar[str] = "batch_norm"

    eps: float = field(default=1e-5, kw_only=True)

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the formula. Raises N106, N107."""
        if not 0 <= self.eps < 1e9:
            raise BitternError(WRONG_NUMBER, f"`eps` is {self.eps}.", "Give a small number from 0 on.")
        channels, spread = x.shape[-1:], float(np.float32(max(x.rms, 1.0)) ** 2)
        made = {
            "mean": draft.parameter("mean", F32, channels, lambda _: 0.0),
            "variance": draft.parameter("variance", F32, channels, lambda _: spread, limits=(0.0, 3e38)),
            "gain": draft.parameter("gain", F32, channels, lambda _: 1.0),
            "bias": draft.parameter("bias", F32, channels, lambda _: 0.0),
        }
        rows = [draft.constant(name, array, F32) for name, array in made.items()]
        mean, variance, gain, bias = rows
        a, reals = draft.a, as_reals(draft, x)
        deviation = a.op("sqrt", a.op("add", variance, a.spread(a.constant(self.eps, "f32"), variance)))
        y = a.op("div", a.op("sub", reals, a.spread(mean, reals)), a.spread(deviation, reals))
        y = a.op("add", a.op("mul", y, a.spread(gain, reals)), a.spread(bias, reals))
        return flow(y, rms=1.0)


def as_reals(draft: "Draft", x: Flow) -> Node:
    """Return whole numbers as f32, exactly below 2^24 and else rounded once. Raises N106 for other values."""
    if x.is_real:
        return x.node
    if x.element.name not in ("i32", "b1", "t") and not (x.element.is_integer and x.element.bits <= 8):
        raise BitternError(UNFIT_ELEMENT, f"It gets {x.element}.", "It takes sums, codes or real numbers.")
    return draft.a.op("convert", x.node, to="f32")


@dataclass(frozen=True, slots=True, eq=False)
class CodeNorm(Layer):
    """What norms over the sample share.

    bits: the width of the codes that come out; signed: which integers these are. fraction: how many bits of a threshold
    lie behind the point. eps: added to the variance, in squares of steps of x. Parameters: `thresholds` i32, of each
    channel one for each code but the lowest, in units of 2^-fraction standard deviations; `falling`.
    """

    bits: Width = field(default="b1", kw_only=True)
    signed: bool = field(default=True, kw_only=True)
    fraction: int = field(default=8, kw_only=True)
    eps: float = field(default=1e-5, kw_only=True)

    def thresholds(self, draft: "Draft", element: Element, channels: tuple[int, ...]) -> list[Node]:
        """Return thresholds and directions: twice the standard deviation begins as the greatest code."""
        count = element.high - element.low if element.name != "b1" else 1
        middle = (count - 1) / 2 if element.low < 0 else -0.5
        steps = (np.arange(count) - middle) * ((2 << self.fraction) / max(element.high, 1))
        at = draft.parameter("thresholds", I32, (*channels, count), lambda _: np.rint(steps).astype(np.int64))
        falling = draft.parameter("falling", BIT, channels, lambda _: np.zeros((), np.bool_), optional=True)
        return [draft.constant("thresholds", at, I32), draft.constant("falling", falling, BIT)]

    def limits(self, x: Flow, count: int) -> tuple[int, int]:
        """Return the arguments `fraction` and `floor` for norms over so many values. Raises N106, N107, N108."""
        if x.is_real or not (x.element.has_arithmetic or x.element.name in ("b1", "t")):
            raise BitternError(UNFIT_ELEMENT, f"It gets {x.element}.", "It takes sums or codes.")
        if not 0 <= self.fraction <= 24 or not 0 <= self.eps < 1e9:
            what = f"`fraction` is {self.fraction} and `eps` {self.eps}."
            raise BitternError(WRONG_NUMBER, what, "Give 0 to 24 bits, and a small number from 0 on.")
        if (count * max(-x.low, x.high, 1) << self.fraction).bit_length() > _ROOM:
            what = f"Norms of {count} values up to {max(-x.low, x.high)} need more than 64 bits."
            raise BitternError(TOO_WIDE, what, "Take a smaller `fraction`, or quantise before.")
        return self.fraction, max(1, round(count * count * self.eps))

    def coded(self, draft: "Draft", counts: Node, element: Element) -> Flow:
        """Return numbers of reached thresholds as codes. counts: i32[b, ..., c]."""
        lead = len(counts.type.shape) - 1  # type: ignore[union-attr]
        if element.name == "b1":
            return flow(draft.a.call("norms_of_codes.coded_signs", counts, lead=lead))
        if element.name == "t":
            return flow(draft.a.call("norms_of_codes.coded_ternary", counts, lead=lead))
        of = {"e": element.name}
        return flow(draft.a.call("norms_of_codes.coded", counts, element.low, lead=lead, elements=of))


@dataclass(frozen=True, slots=True, eq=False)
class LayerNorm(CodeNorm):
    """Layer normalisation (Ba, Kiros & Hinton 2016) over the channels of each position. x: [..., n] sums or codes.

    Definition: `norms_of_codes.layer_counts`. Parameter: `thresholds` [n, codes - 1].
    """

    KIND: ClassVar[str] = "layer_norm"

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the counts and the codes. Raises N105 to N108."""
        element = draft.element(self.bits, signed=self.signed)
        limits = self.limits(x, x.shape[-1])
        parts = self.thresholds(draft, element, x.shape[-1:])
        counts = draft.a.call("norms_of_codes.layer_counts", x.node, *parts, *limits, lead=len(x.shape))
        return self.coded(draft, counts, element)


@dataclass(frozen=True, slots=True, eq=False)
class GroupNorm(CodeNorm):
    """Group normalisation (Wu & He 2018): groups of channels over all places. x: [..., c] sums or codes.

    Definition: `norms_of_codes.group_counts`. Parameter: `thresholds` [c, codes - 1].
    """

    KIND: ClassVar[str] = "group_norm"

    groups: int

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the counts and the codes. Raises N105 to N108."""
        element, channels, places = draft.element(self.bits, signed=self.signed), x.shape[-1], prod(x.shape[:-1])
        if self.groups < 1 or channels % self.groups:
            what = f"{channels} channels are no whole number of {self.groups} groups."
            raise BitternError(WRONG_NUMBER, what, "Take a number of groups that divides them.")
        each = channels // self.groups
        limits = self.limits(x, places * each)
        at, falling = self.thresholds(draft, element, (channels,))
        count = at.type.shape[-1]  # type: ignore[union-attr]
        a = draft.a
        parts = (
            a.op("reshape", at, shape=(self.groups, each, count)),
            a.op("reshape", falling, shape=(self.groups, each)),
        )
        rows = a.op("reshape", x.node, shape=(BATCH, places, self.groups, each))
        counts = a.call("norms_of_codes.group_counts", rows, *parts, *limits)
        return self.coded(draft, a.op("reshape", counts, shape=(BATCH, *x.shape)), element)


@dataclass(frozen=True, slots=True, eq=False)
class InstanceNorm(CodeNorm):
    """Instance normalisation (Ulyanov et al. 2016): each channel over all places. x: [..., c] sums or codes.

    Definition: `norms_of_codes.instance_counts`. Parameter: `thresholds` [c, codes - 1].
    """

    KIND: ClassVar[str] = "instance_norm"

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the counts and the codes. Raises N102, N105 to N108."""
        if len(x.shape) < 2:
            what = f"It takes places and channels and gets {list(x.shape)}."
            raise BitternError(WRONG_SHAPE, what, "Use a layer norm for vectors.")
        element, channels, places = draft.element(self.bits, signed=self.signed), x.shape[-1], prod(x.shape[:-1])
        limits = self.limits(x, places)
        parts = self.thresholds(draft, element, (channels,))
        rows = draft.a.op("reshape", x.node, shape=(BATCH, places, channels))
        counts = draft.a.call("norms_of_codes.instance_counts", rows, *parts, *limits)
        return self.coded(draft, draft.a.op("reshape", counts, shape=(BATCH, *x.shape)), element)
