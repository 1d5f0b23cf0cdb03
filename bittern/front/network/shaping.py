"""Layers that only rearrange, look up, or vanish at inference."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bittern.base.errors import BitternError
from bittern.front.network.assembly import BATCH
from bittern.front.network.convolution import Padding, Sizes, each_axis, padded, padding_of
from bittern.front.network.dense import need_numbers
from bittern.front.network.draft import UNFIT_ELEMENT, WRONG_NUMBER, WRONG_SHAPE, Array, Flow, flow
from bittern.front.network.layer import Layer
from bittern.front.network.widths import Width, is_code
from bittern.types.elements import Element

if TYPE_CHECKING:
    from bittern.front.network.draft import Draft


@dataclass(frozen=True, slots=True, eq=False)
class Flatten(Layer):
    """All values of a sample as a vector, row by row, channels fastest. x: [...] -> [n]."""

    KIND: ClassVar[str] = "flatten"

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the view."""
        return x.at(draft.a.op("reshape", x.node, shape=(BATCH, prod(x.shape))))


@dataclass(frozen=True, slots=True, eq=False)
class Reshape(Layer):
    """The values of a sample in another shape of as many values. x: [...] -> shape."""

    KIND: ClassVar[str] = "reshape"

    shape: Sequence[int]

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the view. Raises N102."""
        shape = tuple(self.shape)
        if prod(shape) != prod(x.shape) or min(shape, default=1) < 1:
            what = f"It makes {list(shape)} of {list(x.shape)}."
            raise BitternError(WRONG_SHAPE, what, f"Give sizes whose product is {prod(x.shape)}.")
        return x.at(draft.a.op("reshape", x.node, shape=(BATCH, *shape)))


@dataclass(frozen=True, slots=True, eq=False)
class Permute(Layer):
    """The axes of a sample in another order. axes: the old axis of each new one, from 0."""

    KIND: ClassVar[str] = "permute"

    axes: Sequence[int]

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the view. Raises N107."""
        if sorted(self.axes) != list(range(len(x.shape))):
            what = f"`axes` is {list(self.axes)} for {list(x.shape)}."
            raise BitternError(WRONG_NUMBER, what, f"Give each of 0 to {len(x.shape) - 1} once.")
        return x.at(draft.a.op("permute", x.node, axes=(0, *(axis + 1 for axis in self.axes))))


@dataclass(frozen=True, slots=True, eq=False)
class Pad(Layer):
    """Values around the places. x: [h, w, c]. value: a value of the element, always explicit."""

    KIND: ClassVar[str] = "pad"

    padding: Padding
    value: int

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the padding. Raises N117."""
        places = x.shape[:-1]
        ones = (1,) * len(places)
        return padded(draft, x, padding_of(self.padding, places, ones, ones, ones), self.value)


@dataclass(frozen=True, slots=True, eq=False)
class Upsample(Layer):
    """Each place repeated along each axis (nearest neighbour). x: [h, w, c] -> [h * factor, w * factor, c]."""

    KIND: ClassVar[str] = "upsample"

    factor: Sizes

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the repetition. Raises N107."""
        node = x.node
        for axis, factor in enumerate(each_axis("factor", self.factor, len(x.shape) - 1), 1):
            if factor > 1:
                shape = node.type.shape  # type: ignore[union-attr]
                node = draft.a.op("stack", *[node] * factor, axis=axis + 1)
                node = draft.a.op("reshape", node, shape=(*shape[:axis], shape[axis] * factor, *shape[axis + 1 :]))
        return x.at(node)


@dataclass(frozen=True, slots=True, eq=False)
class Embedding(Layer):
    """Rows of a table by index; indices outside read the last row. x: [t] u32 -> [t, channels] codes.

    bits: the width of the table; signed: which integers. Definition: `embedding.embedding`. Parameter: `table`
    [count, channels].
    """

    KIND: ClassVar[str] = "embedding"

    count: int
    channels: int
    bits: Width = field(default="b1", kw_only=True)
    signed: bool = field(default=True, kw_only=True)

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the look-up. Raises N102, N105, N106, N107."""
        need_numbers(count=self.count, channels=self.channels)
        if x.element.name != "u32":
            raise BitternError(UNFIT_ELEMENT, f"It gets {x.element}.", "Declare its input as an `IndexTensor`.")
        if len(x.shape) != 1:
            raise BitternError(
                WRONG_SHAPE, f"It takes one axis of indices and gets {list(x.shape)}.", "Reshape before."
            )
        element, shape = draft.element(self.bits, signed=self.signed), (self.count, self.channels)
        table = draft.parameter("table", element, shape, lambda numbers: numbers.codes(element, shape))
        return flow(draft.a.call("embedding.embedding", draft.constant("table", table, element), x.node))


@dataclass(frozen=True, slots=True, eq=False)
class LookUp(Layer):
    """A table of all codes: any function of one code. x: codes -> codes of `bits`.

    Definition: `piecewise.look_up`. Parameter: `table`, one entry for each code of x from the least on (3 for signs,
    of which the middle one is not used); initially the codes themselves, scaled to the new width.
    """

    KIND: ClassVar[str] = "look_up"

    bits: Width | None = None
    signed: bool = field(default=True, kw_only=True)

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the table and the look-up. Raises N105, N106."""
        if not is_code(x.element):
            raise BitternError(UNFIT_ELEMENT, f"It gets {x.element}.", "Put an activation before it: it takes codes.")
        low, high = x.element.low, x.element.high
        element = x.element if self.bits is None else draft.element(self.bits, signed=self.signed)
        table = draft.parameter("table", element, (high - low + 1,), lambda _: _scaled(low, high, element))
        node = x.node if x.element.is_integer else draft.a.op("convert", x.node, to="i2")
        held = draft.constant("table", table, element)
        return flow(draft.a.call("piecewise.look_up", node, held, low, lead=len(x.shape)))


def _scaled(low: int, high: int, element: Element) -> Array:
    codes = np.arange(low, high + 1)
    if element.name == "b1":
        return np.where(codes >= 0, 1, -1)
    made = (2 * codes * element.high + high) // (2 * high)  # to the nearest, ties up
    return np.clip(made, element.low, element.high)


@dataclass(frozen=True, slots=True, eq=False)
class Vanishing(Layer):
    """A layer that does something in training only: at inference, what comes in goes out."""

    KIND: ClassVar[str] = "vanishing"
    vanishes: ClassVar[bool] = True

    rate: float = 0.5

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw nothing. Raises N107 for a rate that is none."""
        if not 0 <= self.rate < 1:
            raise BitternError(WRONG_NUMBER, f"`rate` is {self.rate}.", "Give a share from 0 on, below 1.")
        return x


@dataclass(frozen=True, slots=True, eq=False)
class Dropout(Vanishing):
    """Dropout (Srivastava et al. 2014) of single values."""

    KIND: ClassVar[str] = "dropout"


@dataclass(frozen=True, slots=True, eq=False)
class SpatialDropout(Vanishing):
    """Dropout of whole channels (Tompson et al. 2015)."""

    KIND: ClassVar[str] = "spatial_dropout"


@dataclass(frozen=True, slots=True, eq=False)
class DropPath(Vanishing):
    """Stochastic depth (Huang et al. 2016): dropout of whole ways."""

    KIND: ClassVar[str] = "drop_path"


@dataclass(frozen=True, slots=True, eq=False)
class BitFlipNoise(Vanishing):
    """Codes that flip at random in training, so that a network bears faults."""

    KIND: ClassVar[str] = "bit_flip_noise"
