"""The types of bitops values: so many lanes of one element.

A value of one lane is a scalar. A vector has 2, 4, 8, ... 64 lanes and at most 512 bits: `f32x16` fills the logical
vector, `u8x16` is a quarter of it (what sixteen f32 lanes are widened from). A mask is a vector of `bit`, a lane each.
Elements are those of `bittern.types.elements` that a register can hold, and `index`: a signed 64-bit number that counts
places in a buffer. f16 and bf16 are storage only: they are loaded, stored, moved and converted.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bittern.types.elements import ELEMENTS as _ALL
from bittern.types.elements import Element, Kind

WIDTH = 512  # bits of a logical vector
MOST = 64  # lanes

INDEX = Element("index", Kind.SIGNED, 64, "int64")
_HELD = ("bit", "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64")
ELEMENTS: dict[str, Element] = {**{name: _ALL[name] for name in _HELD}, "index": INDEX}


@dataclass(frozen=True, slots=True)
class Lanes:
    """The type of a value. element: of each lane. count: how many lanes; 1 is a scalar."""

    element: Element
    count: int

    @property
    def bits(self) -> int:
        """Width of all lanes together; a mask has none of its own."""
        return 0 if self.is_mask else self.element.bits * self.count

    @property
    def bytes(self) -> int:
        """Bytes that the value takes in memory."""
        return self.bits // 8

    @property
    def is_mask(self) -> bool:
        """Whether the lanes are truths."""
        return self.element.kind is Kind.BIT

    @property
    def is_scalar(self) -> bool:
        """Whether there is one lane."""
        return self.count == 1

    @property
    def is_integer(self) -> bool:
        """Whether the lanes are integers, `index` included."""
        return self.element.is_integer

    @property
    def is_signed(self) -> bool:
        """Whether the lanes are signed integers."""
        return self.element.kind is Kind.SIGNED

    @property
    def is_float(self) -> bool:
        """Whether the lanes are f32 or f64."""
        return self.element.name in ("f32", "f64")

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The numpy dtype of one lane; bf16 is kept as its bits."""
        return np.dtype(self.element.storage)

    def of(self, count: int) -> "Lanes":
        """Return the type with another number of lanes."""
        return _lanes(self.element.name, count)

    def to(self, element: str) -> "Lanes":
        """Return the type with another element and equally many lanes."""
        return _lanes(element, self.count)

    @property
    def mask(self) -> "Lanes":
        """The type of a truth for each lane."""
        return self.to("bit")

    def __str__(self) -> str:
        return self.element.name if self.count == 1 else f"{self.element.name}x{self.count}"


@lru_cache(maxsize=512)
def _lanes(element: str, count: int) -> Lanes:
    if element not in ELEMENTS:
        raise ValueError(f"`{element}` is no element that a register holds")
    found = Lanes(ELEMENTS[element], count)
    if not 1 <= count <= MOST or count & (count - 1) or (count > 1 and found.bits > WIDTH):
        raise ValueError(f"`{found}`: a vector has 2, 4, ... {MOST} lanes and at most {WIDTH} bits")
    return found


@lru_cache(maxsize=512)
def lanes(text: str) -> Lanes:
    """Return the type that a spelling such as `f32x16` or `index` names; ValueError if there is none."""
    element, separator, count = (text, "", "") if text == "index" else text.partition("x")
    return _lanes(element, int(count) if separator else 1)


INDEX_TYPE = lanes("index")
BIT_TYPE = lanes("bit")


def unsigned(of: Lanes) -> Lanes:
    """Return the type of unsigned integers of equal width and lanes."""
    return of.to(f"u{of.element.bits}")


def splat(of: Lanes, bits: int) -> npt.NDArray[np.generic]:
    """Return an array whose lanes all have these bits. -> [count] of the dtype."""
    return array_of_bits(of, (bits,))


def array_of_bits(of: Lanes, bits: tuple[int, ...]) -> npt.NDArray[np.generic]:
    """Return the lanes with these bits (one number: all lanes alike). -> [count] of the dtype."""
    if of.is_mask:
        values = np.array([bool(b) for b in bits])
    else:
        values = np.array(bits, dtype=f"u{of.element.bits // 8}").view(of.dtype)
    return values if len(bits) == of.count else np.repeat(values, of.count)


def bits_of_array(array: npt.NDArray[np.generic]) -> tuple[int, ...]:
    """Return the bits of each lane; lanes that are all alike give one number."""
    plain = array.astype(np.uint8) if array.dtype == np.bool_ else array.view(f"u{array.dtype.itemsize}")
    found = tuple(int(b) for b in plain)
    return found[:1] if len(set(found)) == 1 else found
