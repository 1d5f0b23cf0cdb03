"""Where one operator of a TFLite model becomes part of a network: its tensors, its options, and how it refuses.

A tensor that depends on the input has the batch in front of its shape. Models are written for a batch of one: where a
tensor's first size is 1, the batch takes its place. So [1, 49, 10, 1] is [b, 49, 10, 1] and [480] is [b, 480]; `front`
says how many axes stand in front of axis 1 of the tensor, or of axis 0 where the first size is another.
"""

from dataclasses import dataclass
from math import isfinite, prod
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.front.checkpoint import shown
from bittern.front.network.assembly import BATCH, Assembly
from bittern.front.tflite.factors import ACTIVATIONS, RANGES, Factor, factor, has_bounds
from bittern.front.tflite.flatbuffer import Table
from bittern.front.tflite.schema import OperatorRow, TensorRow
from bittern.graph.node import Node
from bittern.types.dims import Dim
from bittern.types.values import Tensor

UNSUPPORTED_FORM = code("N321", "an operator of the TFLite file has a form that Bittern does not import")

_SHIFT_LIMIT = 30  # to the left
_EIGHT_BITS = "Convert the model with full int8 quantisation, or as float."


@dataclass(frozen=True, slots=True)
class Value:
    """What a tensor stands for. node: [b, ...], or None for a constant, whose values are in the row."""

    row: TensorRow
    node: Node | None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in the file."""
        return self.row.shape

    @property
    def is_folded(self) -> bool:
        """Whether the batch stands in the place of the tensor's first axis."""
        return self.shape[:1] == (1,)

    @property
    def sample(self) -> tuple[int, ...]:
        """The shape of one sample: what follows the batch."""
        return self.shape[1:] if self.is_folded else self.shape

    def axis(self, place: int) -> int:
        """Return the axis of the node that axis `place` of the tensor is; of a folded tensor not its first."""
        return place if self.is_folded else place + 1


class Site:
    """One operator. a: what the network is assembled in. name: of the operator, for messages."""

    def __init__(self, a: Assembly, row: OperatorRow, name: str, values: dict[int, Value], rows: tuple[TensorRow, ...]):
        self.a = a
        self.row = row
        self.name = name
        self._values = values
        self._rows = rows

    @property
    def text(self) -> str:
        """The operator for messages: its number and kind, and the name of what it makes."""
        made = self._rows[self.row.outputs[0]].name if self.row.outputs else ""
        return f"Operator {self.row.index}, {self.name}" + (f" {shown(made)}" if made else "")

    @property
    def options(self) -> Table | None:
        """The table of options; a missing one means that all have their defaults."""
        return self.row.options

    def option(self, field: int, form: str, default: int = 0) -> int:
        """Return a whole-number option."""
        return default if self.options is None else self.options.number(field, form, default)

    def real_option(self, field: int, default: float = 0.0) -> float:
        """Return an f32 option. Raises N321 if it is not finite."""
        value = default if self.options is None else self.options.real(field, default)
        if not isfinite(value):
            self.refuse(f"has the option {value}", "Options are finite numbers.")
        return value

    def has(self, place: int) -> bool:
        """Whether the operator has this input."""
        return place < len(self.row.inputs) and self.row.inputs[place] >= 0

    def input(self, place: int) -> Value:
        """Return an input. Raises N321 if it is left out."""
        if not self.has(place):
            self.refuse(f"has no input {place}", "Convert the model again.")
        return self._values[self.row.inputs[place]]

    def output(self, place: int = 0) -> TensorRow:
        """Return the row of an output. Raises N321 if there is none."""
        if place >= len(self.row.outputs):
            self.refuse(f"has {len(self.row.outputs)} outputs", "Convert the model again.")
        return self._rows[self.row.outputs[place]]

    def tensor(self, index: int) -> TensorRow:
        """Return the row of any tensor of the model."""
        return self._rows[index]

    def node(self, place: int) -> Node:
        """Return an input [b, ...]; a constant is repeated for the batch."""
        value = self.input(place)
        if value.node is not None:
            return value.node
        made = self.a.constant(self.numbers(place).reshape(value.sample), element_name(value.row))
        return self.a.op("broadcast", made, shape=(BATCH,))

    def vector(self, place: int) -> tuple[Node, int]:
        """Return an input with at least one axis after the batch, and how many axes stand before its last."""
        made = self.node(place)
        if len(shape(made)) == 1:
            made = self.a.op("reshape", made, shape=(BATCH, 1))
        return made, len(shape(made)) - 1

    def numbers(self, place: int, *allowed: str) -> npt.NDArray[Any]:
        """Return the values of a constant input. allowed: its elements. Raises N321 for others, or a computed one."""
        value = self.input(place)
        if allowed:
            self.need(value.row.element, *allowed)
        if value.row.data is None or value.node is not None:
            self.refuse(f"computes its input {place}, {shown(value.row.name)}", "Only a constant is supported there.")
        return value.row.data

    def give(self, made: Node, place: int = 0) -> None:
        """Set an output. A node with as many values as the output is reshaped to it. Raises N321 if it does not fit."""
        self._put(self.output(place), made)

    def _put(self, row: TensorRow, made: Node) -> None:
        value = Value(row, None)
        assert isinstance(made.type, Tensor), made
        shape = tuple(size.constant for size in made.type.shape[1:])
        if prod(size or 0 for size in shape) != prod(value.sample) or made.type.element.name != element_name(row):
            self.refuse(
                f"makes {list(shape)} of {made.type.element.name}, but {shown(row.name)} is "
                f"{list(value.sample)} of {row.element}",
                "Convert the model again.",
            )
        if shape != value.sample:
            made = self.a.op("reshape", made, shape=(BATCH, *value.sample))
        self._values[row.index] = Value(row, self.a.label(made, row.name) if row.name else made)

    @property
    def is_hybrid(self) -> bool:
        """Whether the weights, input 1, are int8 and the input is float."""
        return (self.input(0).row.element, self.input(1).row.element) == ("f32", "i8")

    def state(self, place: int) -> Node:
        """Return what a variable tensor holds, [b, ...]. Raises N321 if it is none."""
        if not self.input(place).row.is_variable:
            self.refuse(f"has no state in its input {place}", "Convert the model again.")
        return self.node(place)

    def put_state(self, place: int, made: Node) -> None:
        """Set what a variable tensor holds from here on."""
        self._put(self.input(place).row, made)

    def codes(self, row: TensorRow) -> tuple[np.float32, int]:
        """Return scale and zero point of a tensor of codes with one scale. Raises N321."""
        quantisation = row.quantisation
        if row.element not in RANGES or quantisation is None or len(quantisation.scale) != 1:
            self.refuse(f"has {shown(row.name)}, {row.element} without one scale for all", _EIGHT_BITS)
        return quantisation.scale[0], int(quantisation.zero[0])

    def need_codes_of(self, one: TensorRow, other: TensorRow) -> None:
        """Refuse unless two tensors have one element and, for codes, one scale and zero point. Raises N321."""
        self.need(one.element, other.element)
        if one.element in ("i8", "i16") and self.codes(one) != self.codes(other):
            self.refuse("has codes of different scales", "Convert the model again: the converter requantises them.")

    def factor(self, real: float) -> Factor:
        """Return a real factor as the kernels have it. Raises N321 where scales give none that they can apply."""
        made = factor(real) if isfinite(real) and real >= 0 else Factor(0, _SHIFT_LIMIT + 1)
        if made.shift > _SHIFT_LIMIT:
            self.refuse(f"has scales whose quotient is {real}", "Calibrate the model again.")
        return made

    def activation(self, field: int) -> int:
        """Return the fused activation: one of those that are bounds. Raises N321."""
        number = self.option(field, "b")
        if not has_bounds(number):
            self.refuse(f"has the fused activation {ACTIVATIONS.get(number, number)}", "Known: none, relu, relu6.")
        return number

    def need(self, element: str, *allowed: str) -> str:
        """Return the element of the data if it is one of those. Raises N321."""
        if element not in allowed:
            self.refuse(f"works on {element}", f"Supported: {', '.join(allowed)}.")
        return element

    def refuse(self, what: str, remedy: str) -> NoReturn:
        """Raise N321. what: the rest of the sentence."""
        raise BitternError(UNSUPPORTED_FORM, f"{self.text}, {what}.", remedy)


def shape(made: Node) -> tuple[Dim, ...]:
    """Return the shape of a tensor node, the batch in front."""
    assert isinstance(made.type, Tensor), made
    return made.type.shape


def element_name(row: TensorRow) -> str:
    """Return the element in which Bittern holds a tensor's values."""
    return "bit" if row.element == "bool" else row.element
