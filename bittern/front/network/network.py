"""A network: one function over a batch, with its weights as constants, and what its inputs and outputs are called.

Builders and importers all end here. The function has one dimension, the batch: `(inputs: e[b, ...]) -> outputs
[b, ...]`. What it is, is the function alone; everything else is a label.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bittern.graph.node import Function
from bittern.lang.library import Library
from bittern.types.elements import Element
from bittern.types.values import Tensor


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output. shape: of one sample. scale, zero: codes stand for scale * (code - zero)."""

    name: str
    element: Element
    shape: tuple[int, ...]
    scale: float | None = None
    zero: int = 0


@dataclass(frozen=True, slots=True)
class Network:
    """See the module.

    source: what it was made from, such as `onnx`. facts: what the source says of itself, for people. library: where
    the functions of its layers come from.
    """

    name: str
    function: Function
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    library: Library
    source: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.function.dims == 1, "a network has one dimension: the batch"
        assert len(self.function.params) == len(self.inputs), (self.function, self.inputs)


def port_of(name: str, type_: Tensor, scale: float | None = None, zero: int = 0) -> Port:
    """Return the port of a value whose first axis is the batch."""
    sizes = [size.constant for size in type_.shape[1:]]
    assert None not in sizes, type_
    return Port(name, type_.element, tuple(size or 0 for size in sizes), scale, zero)
