"""The two ways to declare a network: layers in sequence, and layers called on values.

    NetworkBuilder().input(BinaryTensor([1024, 784])).dense(784, 512, activation=BinaryActivation.SIGN).output(512, 10)

    x = Input(BinaryTensor([1024, 784]))
    network({"scores": Dense(512, 10)(Dense(784, 512, activation="sign")(x))})

The user says what, never which chip. Both give a `Network`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy.typing as npt

from bittern.base.errors import BitternError, code, nearest
from bittern.front.network.arrays import arrays_of
from bittern.front.network.dense import Dense
from bittern.front.network.draft import NO_VALUE, Drawn, drawn
from bittern.front.network.layer import Composed, Layer
from bittern.front.network.layers import LAYERS
from bittern.front.network.network import Network
from bittern.front.network.value import Input, InputTensor, Value
from bittern.lang.library import Library

UNKNOWN_LAYER = code("N104", "there is no layer of this name")

Arrays = Mapping[str, npt.ArrayLike] | Path | str


def declared(
    outputs: Mapping[str, Value],
    *,
    inputs: Sequence[Value] = (),
    name: str = "network",
    seed: int = 0,
    arrays: Arrays | None = None,
    partial: bool = False,
    library: Library | None = None,
) -> Drawn:
    """Return the network that computes these values, and its parameters.

    inputs: in the order in which they are given to `run`; others follow as a walk from the outputs meets them.
    arrays: of its parameters by path, or a file of them (.npz, .safetensors); without any they begin as whole numbers
    that depend on the seed and their path alone. partial: parameters without an array begin so, too. Raises N101 to
    N119.
    """
    given = {} if arrays is None else arrays_of(arrays)
    return drawn(dict(outputs), name, library or Library.standard(), seed, given, partial, inputs)


def network(outputs: Mapping[str, Value], **named: Any) -> Network:
    """Return the network that computes these values; see `declared`."""
    return declared(outputs, **named).network


@dataclass(frozen=True, slots=True)
class NetworkBuilder:
    """Layers in sequence. Every method returns a new builder, so that a start may be shared.

    A layer of the table (`layers.LAYERS`) is a method by its word: `dense(784, 512)` is `then(Dense(784, 512))`.
    """

    value: Value | None = None
    outputs: Mapping[str, Value] | None = None

    def input(self, tensor: InputTensor, name: str = "") -> Self:
        """Declare the input. Raises N115 for a second one: networks of several inputs are made by calling layers."""
        if self.value is not None:
            raise BitternError(
                NO_VALUE, "A sequence has one input.", "Call layers on values, and give `network` those."
            )
        return replace(self, value=Input(tensor, name))

    def then(self, layer: Layer | Callable[[Value], Value]) -> Self:
        """Add a layer, or what a Python function makes of the value. Raises N115 before an input."""
        if self.value is None:
            raise BitternError(NO_VALUE, "The network has no input yet.", "Begin with `input(BinaryTensor([...]))`.")
        made = layer if isinstance(layer, Layer) else Composed(layer)
        return replace(self, value=made(self.value))

    def output(
        self, inputs: int | None = None, outputs: int | None = None, *, name: str = "scores", **named: Any
    ) -> Self:
        """End with a dense layer called `output`, or without sizes with the value as it is. name: of the result.

        named: further fields of `Dense`. Raises N115 before an input.
        """
        end = self
        if inputs is not None and outputs is not None:
            end = self.then(Dense(inputs, outputs, **({"name": "output"} | named)))
        if end.value is None:
            raise BitternError(NO_VALUE, "The network has no input yet.", "Begin with `input(BinaryTensor([...]))`.")
        return replace(end, outputs={**(self.outputs or {}), name: end.value})

    def declared(self, **named: Any) -> Drawn:
        """Return the network and its parameters; see the function `declared`. Raises N101 to N119."""
        outputs = self.outputs
        if not outputs:
            outputs = {} if self.value is None else {"scores": self.value}
        return declared(outputs, **named)

    def network(self, **named: Any) -> Network:
        """Return the network; see the function `declared`. Raises N101 to N119."""
        return self.declared(**named).network

    def __getattr__(self, word: str) -> Callable[..., Self]:
        if word.startswith("_"):
            raise AttributeError(word)
        if word not in LAYERS:
            hint = nearest(word, list(LAYERS)) or f"There are {', '.join(LAYERS)}."
            raise BitternError(UNKNOWN_LAYER, f"There is no layer `{word}`.", hint)
        kind = LAYERS[word]
        return lambda *fields, **named: self.then(kind(*fields, **named))
