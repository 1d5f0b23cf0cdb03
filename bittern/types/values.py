"""Types of graph values: tensors, tuples of values, and the tokens that order effects."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from bittern.types.dims import Dim, dim
from bittern.types.elements import Element

SPACES = ("host", "device", "pinned", "unified", "remote")
EFFECTS = ("fs", "net", "clock", "random", "device")


@dataclass(frozen=True, slots=True)
class Tensor:
    """An array: element, shape (a scalar has none), and the memory space if the program names one.

    For a block format the shape counts values, [rows, columns]; the stored array is u8[rows, blocks, bytes of a block].
    """

    encode_once: ClassVar[bool] = True  # for hashing: a type occurs in many nodes

    element: Element
    shape: tuple[Dim, ...] = ()
    space: str | None = None

    def tokens(self) -> object:
        """State the identity of the type for hashing."""
        return ("tensor", self.element, self.shape, self.space)


@dataclass(frozen=True, slots=True)
class Tuple:
    """Several values as one."""

    items: tuple["Type", ...]

    def tokens(self) -> object:
        """State the identity of the type for hashing."""
        return ("tuple", self.items)


@dataclass(frozen=True, slots=True)
class Token:
    """The order of one effect: taken and given back by every node that has the effect."""

    effect: str

    def tokens(self) -> object:
        """State the identity of the type for hashing."""
        return ("token", self.effect)


Type: TypeAlias = Tensor | Tuple | Token


def tensor(element: Element, *shape: Dim | int) -> Tensor:
    """Return a tensor type; sizes may be numbers."""
    return Tensor(element, tuple(dim(size) for size in shape))


def substitute(type_: Type, dims: Sequence[Dim]) -> Type:
    """Return the type with dimension parameter i replaced by dims[i]."""
    if isinstance(type_, Tensor):
        return Tensor(type_.element, tuple(size.substitute(dims) for size in type_.shape), type_.space)
    if isinstance(type_, Tuple):
        return Tuple(tuple(substitute(item, dims) for item in type_.items))
    return type_


def text(type_: Type, names: Sequence[str] = ()) -> str:
    """Print a type as the language writes it, with the function's names for its dimensions."""
    if isinstance(type_, Tensor):
        sizes = ", ".join(size.text(names) for size in type_.shape)
        return str(type_.element) + (f"[{sizes}]" if sizes else "") + (f" @ {type_.space}" if type_.space else "")
    if isinstance(type_, Tuple):
        return "(" + ", ".join(text(item, names) for item in type_.items) + ")"
    return f"token[{type_.effect}]"


def storage_shape(type_: Tensor, dims: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the shape of the numpy array that holds such a value, for given values of the dimension parameters."""
    sizes = tuple(size.value(dims) for size in type_.shape)
    if type_.element.is_format:
        return (*sizes[:-1], sizes[-1] // type_.element.columns, type_.element.bytes)
    return sizes
