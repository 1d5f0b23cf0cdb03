"""Dense layers, and the words that all layers with weights share."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bittern.base.errors import BitternError
from bittern.front.network.activation import Activation, Named, activated
from bittern.front.network.draft import UNFIT_ELEMENT, WRONG_NUMBER, WRONG_SHAPE, Flow, limited, summed
from bittern.front.network.layer import Layer
from bittern.front.network.widths import Width, is_code
from bittern.types.elements import I32

if TYPE_CHECKING:
    from bittern.front.network.draft import Draft


@dataclass(frozen=True, slots=True, eq=False)
class Weighted(Layer):
    """What layers with weights share.

    weights: their width. activation: what follows, or None for the sums (i32) themselves. bits: the width of its codes.
    bias: whether a number (`bias`, i32) of each channel is added to the sums.
    """

    weights: Width = field(default="b1", kw_only=True)
    activation: Named | Activation | None = field(default=None, kw_only=True)
    bits: Width | None = field(default=None, kw_only=True)
    bias: bool = field(default=False, kw_only=True)

    def finished(self, draft: "Draft", sums: Flow) -> Flow:
        """Return sums behind bias and activation."""
        return activated(draft, biased(draft, sums) if self.bias else sums, self.activation, self.bits)


@dataclass(frozen=True, slots=True, eq=False)
class Dense(Weighted):
    """A dense layer, at every position of x alike. x: [..., inputs] codes -> [..., outputs].

    Definition: `dense.dense`. Parameters: `weight` [outputs, inputs], `bias` [outputs], and those of the activation.
    """

    KIND: ClassVar[str] = "dense"

    inputs: int
    outputs: int

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the products and what follows. Raises N102, N105, N106, N107, N108."""
        need_numbers(inputs=self.inputs, outputs=self.outputs)
        x = need_codes(draft, x, (*x.shape[:-1], self.inputs), f"{self.inputs} values")
        element = draft.element(self.weights)
        shape = (self.outputs, self.inputs)
        w = draft.parameter("weight", element, shape, lambda numbers: numbers.codes(element, shape))
        made = draft.a.call("dense.dense", draft.constant("weight", w, element), x.node, lead=len(x.shape))
        return self.finished(draft, summed(draft, made, x, w))


def biased(draft: "Draft", sums: Flow) -> Flow:
    """Return sums with a number of each channel added: `bias`, initially 0."""
    channels = sums.shape[-1:]
    b = draft.parameter("bias", I32, channels, lambda _: np.zeros(channels, np.int64))
    made = draft.a.call("requantise.bias", sums.node, draft.constant("bias", b, I32), lead=len(sums.shape))
    low, high = sums.low + min(0, int(b.min(initial=0))), sums.high + max(0, int(b.max(initial=0)))
    return limited(draft, made, low, high, sums.rms)


def need_codes(draft: "Draft", x: Flow, shape: tuple[int, ...], wanted: str) -> Flow:
    """Return codes of a shape; where x is none, note N102 or N106 and return a value that is one."""
    element = x.element.name
    if not is_code(x.element):
        kinds = {"i32": "sums", "f32": "real numbers"}.get(element, "values")
        remedy = "Put an activation before it: products take codes of 1 to 8 bits."
        draft.fault(UNFIT_ELEMENT, f"it gets {kinds} ({element}).", remedy)
        x = draft.stand_in("i8", x.shape)
    if x.shape == shape:
        return x
    draft.fault(
        WRONG_SHAPE,
        f"it takes {wanted} of shape {list(shape)} and gets {list(x.shape)}.",
        "Give the layer the sizes of what comes before it.",
    )
    return draft.stand_in(x.element.name, shape)


def need_numbers(least: int = 1, **numbers: int) -> None:
    """Raise N107 for a number of a layer that is below the least or far too large."""
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number < 1 << 24:
            raise BitternError(WRONG_NUMBER, f"`{name}` is {number!r}.", f"Give a whole number from {least} on.")
