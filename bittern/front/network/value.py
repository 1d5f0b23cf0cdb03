"""What a network is declared with: inputs, and values that layers make of values. Nothing is computed here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bittern.base.errors import BitternError, code
from bittern.front.network.widths import Width

if TYPE_CHECKING:
    from bittern.front.network.layer import Layer

WRONG_INPUT = code("N109", "the declaration of an input is not possible")

MAX_RANK = 5  # the batch, three axes of places, channels
_Sizes = Sequence[int | None]


@dataclass(frozen=True, slots=True)
class InputTensor:
    """A declared input. width: its width or element. shape: of one sample. batch: of how many a batch is thought."""

    width: Width
    signed: bool
    shape: tuple[int, ...]
    batch: int | None


def BinaryTensor(shape: _Sizes) -> InputTensor:  # noqa: N802  (a type to those who declare)
    """Return an input of -1 and +1. shape: [batch, ...], the batch may be None. Raises N109."""
    return _declared("b1", True, shape)


def TernaryTensor(shape: _Sizes) -> InputTensor:  # noqa: N802
    """Return an input of -1, 0 and +1. shape: [batch, ...]. Raises N109."""
    return _declared("t", True, shape)


def IntTensor(width: Width, shape: _Sizes, *, signed: bool = True) -> InputTensor:  # noqa: N802
    """Return an input of integer codes. width: 2 to 8 bits, or an element such as `u8`. Raises N109."""
    return _declared(width, signed, shape)


def IndexTensor(shape: _Sizes) -> InputTensor:  # noqa: N802
    """Return an input of indices, u32, for embeddings. shape: [batch, ...]. Raises N109."""
    return _declared("u32", False, shape)


def _declared(width: Width, signed: bool, shape: _Sizes) -> InputTensor:
    sizes = tuple(shape)
    if len(sizes) < 2 or len(sizes) > MAX_RANK or not all(_is_size(size) for size in sizes[1:]):
        raise BitternError(
            WRONG_INPUT,
            f"An input has the shape {list(sizes)}.",
            f"Give the batch (or None) and 1 to {MAX_RANK - 1} sizes of at least 1, channels last.",
        )
    if sizes[0] is not None and not _is_size(sizes[0]):
        raise BitternError(WRONG_INPUT, f"An input has a batch of {sizes[0]}.", "Give a number from 1 on, or None.")
    return InputTensor(width, signed, tuple(int(size or 0) for size in sizes[1:]), sizes[0])


def _is_size(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and 1 <= size < 1 << 31


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value of a network: an input, or what a layer makes of values. name: of an input."""

    layer: "Layer | None"
    inputs: tuple["Value", ...] = ()
    tensor: InputTensor | None = None
    name: str = ""

    def __add__(self, other: "Value") -> "Value":
        from bittern.front.network.joining import Add  # a layer, which itself is declared with values

        return Add()(self, other)


def Input(tensor: InputTensor, name: str = "") -> Value:  # noqa: N802  (reads as the layers do)
    """Return an input as a value. name: what it is called at the edge; else `input`, `input_2` and so on."""
    return Value(None, (), tensor, name)
