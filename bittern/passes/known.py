"""What is known of a value without running anything: constants, arrays of one value, and their numbers."""

from functools import lru_cache

import numpy as np

from bittern.base.errors import BitternError
from bittern.graph.cost import known_size
from bittern.graph.node import Blob, Function, Node, const, node, walk
from bittern.ops.table import Array
from bittern.types.dims import Dim
from bittern.types.elements import U32, Element
from bittern.types.values import Tensor, Tuple, storage_shape

_SPREAD = ("fill", "broadcast")


def spread_of(of: Node) -> Node | None:
    """Return the scalar that an array repeats everywhere, itself if it is a scalar tensor, else None."""
    while of.kind in _SPREAD:
        of = of.inputs[0]
    return of if isinstance(of.type, Tensor) and not of.type.shape else None


def number_of(of: Node) -> Array | None:
    """Return the one stored value of a constant, or of an array that repeats a constant; else None."""
    scalar = spread_of(of)
    return None if scalar is None or scalar.kind != "const" else _read(scalar)


def array_of(of: Node) -> Array | None:
    """Return the stored array of a `const`; None for any other node, and where its bytes are not at hand."""
    data, type_ = of["data"] if of.kind == "const" else None, of.type
    if not isinstance(data, Blob) or not isinstance(type_, Tensor):
        return None
    try:
        raw = data.read()
    except BitternError:
        return None
    stored = np.frombuffer(raw, np.dtype(type_.element.storage).newbyteorder("<"))
    return stored.reshape(storage_shape(type_))


def word_of(of: Node) -> int | None:
    """Return the number that a u32 scalar is known to be, else None."""
    size = known_size(of)
    return None if size is None or size.constant is None else size.constant % (1 << 32)


def is_constant(of: Node) -> bool:
    """Whether the node is a constant, or an array that repeats one."""
    scalar = spread_of(of)
    return of.kind == "const" or (scalar is not None and scalar.kind == "const")


def spread(value: Node, shape: tuple[Dim, ...]) -> Node:
    """Return an array of one scalar value; of no shape, the value."""
    assert isinstance(value.type, Tensor) and not value.type.shape, value.type
    if not shape:
        return value
    return node("broadcast", [value], {"shape": shape}, Tensor(value.type.element, shape, value.type.space))


def word(value: int) -> Node:
    """Return a u32."""
    return const(value, U32)


def symbols_in(of: Node) -> set[int]:
    """Return the dimension parameters that a node names, in its attributes and bodies too."""
    found: set[int] = set()
    values: list[object] = [of.type, *(i.type for i in of.inputs), *(value for _, value in of.attributes)]
    while values:
        value = values.pop()
        if isinstance(value, Dim):
            found |= value.symbols()
        elif isinstance(value, Tensor):
            values += value.shape
        elif isinstance(value, Tuple):
            values += value.items
        elif isinstance(value, tuple):
            values += value
        elif isinstance(value, Function) and of.kind != "call":
            found |= {symbol for n in walk(value.result) for symbol in symbols_in(n)}
    return found


def is_open(element: Element) -> bool:
    """Whether the element is a parameter that is not known yet."""
    return not element.bits and not element.is_format


@lru_cache(maxsize=4096)
def _read(scalar: Node) -> Array | None:
    return array_of(scalar)
