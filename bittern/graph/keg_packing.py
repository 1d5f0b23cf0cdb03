"""How a `.keg` file holds codes of 1 to 7 bits: packed, although values in memory take a byte each.

A packed blob is a row of whole 64-bit words, little-endian; value 0 is in the low bits of word 0, value i at bit
i * width of the row, and the bits behind the last value are zero. So 64 binary weights are one word: bit 1 is +1.
Ternary values are their codes 0, 1, 2; signed integers their low bits. What a blob *is* stays the SHA-256 of its
values as bytes: packing is a matter of the file alone, and nothing in an id depends on it.
"""

from collections.abc import Iterable

import numpy as np

from bittern.types.elements import ELEMENTS, Element, Kind

WORD = 8  # bytes

_PACKED = (Kind.BIT, Kind.SIGN, Kind.UNSIGNED, Kind.SIGNED)


class NoCodeError(ValueError):
    """A packed number that stands for no value of the element."""


def is_packed(name: object) -> bool:
    """Whether a name is that of an element whose values are packed."""
    return type(name) is str and name in ELEMENTS and _has_room(ELEMENTS[name])


def packing(elements: Iterable[Element], size: int) -> str | None:
    """Return the element by which a blob is packed, or None: the narrowest that its nodes have, if that saves bytes.

    elements: of all nodes that hold the blob. size: of the blob in bytes.
    """
    fit = sorted((each.bits, each.name) for each in elements if _has_room(each))
    return fit[0][1] if fit and packed_size(size, fit[0][1]) < size else None


def packed_size(count: int, name: str) -> int:
    """Return how many bytes so many values of an element take."""
    return -(-count * ELEMENTS[name].bits // (8 * WORD)) * WORD


def pack(data: memoryview | bytes, name: str) -> bytes:
    """Return values, a byte each, as whole words."""
    values, element = np.frombuffer(data, np.uint8), ELEMENTS[name]
    codes = values + np.uint8(1) if name == "t" else (values < 128) if name == "b1" else values
    bits = np.unpackbits(codes.astype(np.uint8)[:, None], axis=1, count=element.bits, bitorder="little")
    packed = np.packbits(bits.reshape(-1), bitorder="little").tobytes()
    return packed + bytes(packed_size(len(values), name) - len(packed))


def unpack(words: memoryview | bytes, count: int, name: str) -> bytes:
    """Return values, a byte each. Raises NoCodeError for the ternary code 3, and for bits behind the last value."""
    element = ELEMENTS[name]
    bits = np.unpackbits(np.frombuffer(words, np.uint8), bitorder="little")
    used = count * element.bits
    if bits[used:].any():
        raise NoCodeError("bits behind the last value")
    codes = np.packbits(bits[:used].reshape(count, element.bits), axis=1, bitorder="little")[:, 0]
    if name == "t" and (codes == 3).any():
        raise NoCodeError("the ternary code 3")
    if name == "t":
        codes = codes - np.uint8(1)
    elif name == "b1":
        codes = np.where(codes == 1, np.uint8(1), np.uint8(255))
    elif element.kind is Kind.SIGNED:
        half = np.uint8(1 << (element.bits - 1))
        codes = (codes ^ half) - half
    return codes.tobytes()


def _has_room(element: Element) -> bool:
    return element.kind in _PACKED and element.bits < 8
