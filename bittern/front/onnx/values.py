"""What an importer holds for a tensor of the file: numbers that are known, or a node of the network.

The file's first axis of whatever depends on an input is the batch. A `Wire` leaves it out: its shape is that of one
sample, its node has the batch in front. The sample's axes may be stored in another order than the file's (channels
last); every reader asks for the order that it needs, so that nothing is moved before it must be.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.graph.node import Node

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Coding:
    """Codes that stand for f32 numbers: (code - zero) * scale, each step rounded to f32.

    scale, zero: f32 of one value, or with as many axes as the tensor has in the file (a wire: as its sample has) and
    broadcast against it.
    """

    scale: Array
    zero: Array

    def is_plain(self) -> bool:
        """Whether there is one scale for all values, and one zero."""
        return self.scale.ndim == 0 and self.zero.ndim == 0

    def is_symmetric(self) -> bool:
        """Whether code 0 stands for 0."""
        return not self.zero.any()


@dataclass(frozen=True, slots=True)
class Known:
    """A constant. array: as in the file. codes, element, coding: of a constant that was quantised, what it is made of.

    of_batch: it tells a batch size, so it may shape tensors but not be computed with.
    """

    array: Array
    codes: Array | None = None
    element: str = ""
    coding: Coding | None = None
    of_batch: bool = False


@dataclass(frozen=True, slots=True)
class Wire:
    """A computed tensor.

    node: [b, ...]; axis k of a sample as stored is the file's axis `order[k]`. shape: of one sample, in the file's
    order. element: what the file says it is (`f32` also where the node has codes). coding: what the node's codes stand
    for, or None where the node holds the values. is_batched: whether the file's tensor has the batch axis.
    """

    node: Node
    shape: tuple[int, ...]
    order: tuple[int, ...]
    element: str = "f32"
    coding: Coding | None = None
    is_batched: bool = True

    @property
    def rank(self) -> int:
        """How many axes the tensor has in the file."""
        return len(self.shape) + self.is_batched

    @property
    def stored(self) -> tuple[int, ...]:
        """The shape of one sample as stored."""
        return tuple(self.shape[axis] for axis in self.order)


@dataclass(frozen=True, slots=True)
class Failed:
    """What depends on an operation that was refused: nothing more is said of it."""


Value = Known | Wire | Failed


@dataclass(frozen=True, slots=True)
class FileNode:
    """An operation of the file. path: how people find it. attributes: ints, floats, text, lists of them, or arrays."""

    name: str
    op: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileInput:
    """An input or output as declared. shape: a size, or None where the file names a symbol or nothing."""

    name: str
    element: str
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True)
class FileGraph:
    """A checked file: what it computes, with its constants as arrays. annotations: QONNX data types by tensor."""

    name: str
    versions: dict[str, int]
    inputs: tuple[FileInput, ...]
    outputs: tuple[FileInput, ...]
    nodes: tuple[FileNode, ...]
    constants: dict[str, Array]
    annotations: dict[str, str]
    facts: dict[str, str]


class Refusal(Exception):
    """Why an operation is refused. what: of this node. instead: the nearest form that is read."""

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(what)
        self.what, self.instead = what, instead


def coding_of(scale: Array | float, zero: Array | float = 0.0) -> Coding:
    """Return a coding; arrays of one value become plain."""
    return Coding(_plain(scale), _plain(zero))


def _plain(value: Array | float) -> Array:
    array = np.asarray(value, np.float32)
    return array.reshape(()) if array.size == 1 else array
