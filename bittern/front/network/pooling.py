"""Pooling over windows: the greatest, the mean, or one value drawn. Values are [h, w, c], channels last."""

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bittern.base.errors import BitternError
from bittern.front.network.activation import as_signs, as_ternary
from bittern.front.network.assembly import BATCH
from bittern.front.network.convolution import Sizes, Windowed, cut, windows
from bittern.front.network.draft import TOO_WIDE, UNFIT_ELEMENT, WRONG_SHAPE, Flow, flow, limited
from bittern.front.network.layer import Layer
from bittern.front.network.widths import is_code
from bittern.graph.node import Node
from bittern.types.elements import I32

if TYPE_CHECKING:
    from bittern.front.network.draft import Draft


@dataclass(frozen=True, slots=True, eq=False)
class Pool(Windowed):
    """What pooling layers share. size: of the windows; stride: None takes the size."""

    size: Sizes
    stride: Sizes | None = field(default=None, kw_only=True)

    def seen(self, draft: "Draft", x: Flow, outside: int) -> tuple[Flow, tuple[int, ...]]:
        """Return the windows of x and the sizes of one. outside: the number in the padding."""
        _need_places(x, self.RANK)
        laid = cut(self, self.size, x.shape[: self.RANK])
        return windows(draft, x, laid, outside if self.pad_with is None else self.pad_with), laid.size


@dataclass(frozen=True, slots=True, eq=False)
class MaxPool2d(Pool):
    """The greatest value of each window of two axes. x: [h, w, c] codes -> [o, v, c] codes.

    Definition: `pooling.max_pool2d`. Padding has the least value of the element.
    """

    KIND: ClassVar[str] = "max_pool2d"

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the windows and the maxima. Raises N102, N106, N107, N117."""
        _need_codes(x)
        seen, _ = self.seen(draft, x, x.element.low)
        return Flow(draft.a.call(f"pooling.max_pool{self.RANK}d", seen.node), seen.low, seen.high, x.rms)


@dataclass(frozen=True, slots=True, eq=False)
class MaxPool1d(MaxPool2d):
    """The greatest value of each window of one axis. x: [w, c] codes. See `MaxPool2d`."""

    KIND: ClassVar[str] = "max_pool1d"
    RANK: ClassVar[int] = 1


@dataclass(frozen=True, slots=True, eq=False)
class AveragePool2d(Pool):
    """The mean of each window of two axes. x: [h, w, c] codes -> [o, v, c] codes of the same element.

    The sum (`pooling.sum_pool2d`) divided by the size of the window, to the nearest, ties up, exactly; for signs +1
    where the sum is not negative. Padding counts and is 0 (+1 for signs).
    """

    KIND: ClassVar[str] = "average_pool2d"

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the windows, the sums and the division. Raises N102, N106, N107, N117."""
        _need_codes(x)
        seen, size = self.seen(draft, x, 1 if x.element.name == "b1" else 0)
        return averaged(draft, draft.a.call(f"pooling.sum_pool{self.RANK}d", seen.node), seen, prod(size))


@dataclass(frozen=True, slots=True, eq=False)
class AveragePool1d(AveragePool2d):
    """The mean of each window of one axis. x: [w, c] codes. See `AveragePool2d`."""

    KIND: ClassVar[str] = "average_pool1d"
    RANK: ClassVar[int] = 1


@dataclass(frozen=True, slots=True, eq=False)
class StochasticPool2d(Pool):
    """One value of each window, drawn in proportion to the values above 0 (Zeiler & Fergus 2013).

    x: [h, w, c] codes -> [o, v, c] codes. Equal seeds draw equally, in every sample. expected: the mean of what would
    be drawn instead, for integer codes. Definitions: `pooling.stochastic_pool2d`, `pooling.expected_pool2d`.
    """

    KIND: ClassVar[str] = "stochastic_pool2d"

    seed: int = field(default=0, kw_only=True)
    stream: int = field(default=0, kw_only=True)
    expected: bool = field(default=False, kw_only=True)

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the windows and the choice. Raises N102, N106, N107, N117."""
        _need_codes(x)
        element = x.element
        if self.expected and not element.is_integer:
            raise BitternError(UNFIT_ELEMENT, f"It gets {element}, whose means are none.", "Take integer codes.")
        if not element.is_integer:
            x = x.at(draft.a.op("convert", x.node, to="i2"))
        seen, _ = self.seen(draft, x, -1 if element.name == "b1" else 0)
        if self.expected:
            return flow(draft.a.call("pooling.expected_pool2d", seen.node), x.low, x.high, x.rms)
        made = draft.a.call("pooling.stochastic_pool2d", seen.node, self.seed, self.stream)
        if not element.is_integer:
            made = draft.a.op("sign", made, to=element.name)
        return Flow(made, x.low, x.high, x.rms)


@dataclass(frozen=True, slots=True, eq=False)
class GlobalAveragePool(Layer):
    """The mean over all places. x: [h, w, c] or [w, c] codes -> [c] codes of the same element. See `AveragePool2d`."""

    KIND: ClassVar[str] = "global_average_pool"

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the sums and the division. Raises N102, N106."""
        _need_codes(x)
        node, area = _as_one_window(draft, x)
        made = averaged(draft, draft.a.call("pooling.sum_pool1d", node), x, area)
        return made.at(draft.a.op("reshape", made.node, shape=(BATCH, x.shape[-1])))


@dataclass(frozen=True, slots=True, eq=False)
class GlobalMaxPool(Layer):
    """The greatest value over all places. x: [h, w, c] or [w, c] codes -> [c] codes."""

    KIND: ClassVar[str] = "global_max_pool"

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the maxima. Raises N102, N106."""
        _need_codes(x)
        node, _ = _as_one_window(draft, x)
        made = draft.a.call("pooling.max_pool1d", node)
        return x.at(draft.a.op("reshape", made, shape=(BATCH, x.shape[-1])))


def averaged(draft: "Draft", sums: Node, x: Flow, area: int) -> Flow:
    """Return sums of `area` values as codes of the element of x: divided, to the nearest, ties up, exactly.

    The sums are made non-negative first, so that a multiplier just above 1 / area rounds each one as division would:
    its error stays below the distance to the next tie.
    """
    a, element = draft.a, x.element
    made = limited(draft, sums, area * x.low, area * x.high, x.rms * area**0.5)
    channels = made.shape[-1]
    if element.name == "b1":
        return as_signs(draft, made, np.zeros(channels, np.int64))
    if element.name == "t":
        return as_ternary(draft, made, np.tile([-(area // 2), -(-area // 2)], (channels, 1)))
    low = min(0, element.low)
    lifted, node = area * (element.high - low), made.node
    lead = len(made.shape)
    if low:
        node = a.call("requantise.bias", node, a.constant(np.full(channels, -low * area), "i32"), lead=lead)
    shift = (2 * area * lifted).bit_length()
    factor = -(-(1 << shift) // area)
    if factor > I32.high or shift > 62:
        raise BitternError(TOO_WIDE, f"The mean of {area} values has no multiplier of 32 bits.", "Pool in two steps.")
    multiplier = a.constant(np.full(channels, factor), "i32")
    codes = a.call(
        "requantise.requantise", node, multiplier, a.constant(np.full(channels, shift), "u32"), low, element.low,
        element.high, lead=lead, elements={"e": element.name},
    )  # fmt: skip
    return flow(codes, x.low, x.high, x.rms)


def _as_one_window(draft: "Draft", x: Flow) -> tuple[Node, int]:
    """Return all places as one window [b, 1, places, c], and their number."""
    if len(x.shape) < 2:
        raise BitternError(WRONG_SHAPE, f"It takes places and channels and gets {list(x.shape)}.", "Leave it out.")
    area = prod(x.shape[:-1])
    return draft.a.op("reshape", x.node, shape=(BATCH, 1, area, x.shape[-1])), area


def _need_places(x: Flow, rank: int) -> None:
    if len(x.shape) != rank + 1:
        what = f"It takes {rank} axes and channels and gets {list(x.shape)}."
        raise BitternError(WRONG_SHAPE, what, "Reshape what comes before it: channels are last.")


def _need_codes(x: Flow) -> None:
    if not is_code(x.element):
        raise BitternError(UNFIT_ELEMENT, f"It gets {x.element}.", "Put an activation before it: it takes codes.")
