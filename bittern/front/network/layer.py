"""A layer: one declaration, which says how it is drawn into a graph.

Every layer is a frozen class with the fields that a user gives and one method, `draw`, which takes the values that come
in and returns the one that goes out, using functions of the library (`bittern/std`). Everything else is derived: the
method of `NetworkBuilder`, names, parameters and their paths, faults, the summary. A layer made of other layers has
`compose` instead.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy.typing as npt

from bittern.front.network.value import Value

if TYPE_CHECKING:
    from bittern.front.network.draft import Draft, Flow


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """What all layers have.

    name: of this one in a network; else its kind and a number. values: arrays for its parameters, by name. A layer that
    is called twice shares its parameters.
    """

    KIND: ClassVar[str] = "layer"
    vanishes: ClassVar[bool] = False  # at inference, so that what comes in goes out

    name: str = field(default="", kw_only=True)
    values: Mapping[str, npt.ArrayLike] = field(default_factory=dict, kw_only=True)

    def __call__(self, *inputs: Value) -> Value:
        """Return the value that the layer makes of these."""
        return Value(self, inputs)

    def draw(self, draft: "Draft", *inputs: Any, **_: Any) -> "Flow | None":
        """Draw the layer; None where a fault inside of it leaves the result open.

        Raises BitternError where it cannot be drawn; independent faults go to `draft.fault`.
        """
        raise NotImplementedError(type(self).__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Composite(Layer):
    """A layer made of others. Those get names behind its own: `residual_1.conv2d_1`."""

    KIND: ClassVar[str] = "composite"

    def compose(self, *inputs: Any, **_: Any) -> Value:
        """Return the value that is made of the inputs, with other layers."""
        raise NotImplementedError(type(self).__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Composed(Composite):
    """A Python function over values as one layer. function: takes values and returns one."""

    KIND: ClassVar[str] = "composed"

    function: Callable[..., Value]

    def compose(self, *inputs: Value) -> Value:
        """Return what the function makes of the inputs."""
        return self.function(*inputs)


def in_sequence(layers: "tuple[Layer, ...]", value: Value) -> Value:
    """Return a value after layers, one behind the other."""
    for layer in layers:
        value = layer(value)
    return value
