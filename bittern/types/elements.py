"""Element types: one row each, with kind, width and how numpy stores a value of it.

`bit` is 0 or 1, `b1` is -1 or +1, `t` is -1, 0 or +1. Integers of 2 to 7 bits are stored one to a byte. f8, f16 and
bf16 are storage only: arithmetic converts them first. A block format is an element too: its values are decoded by a
library function, and its bytes are seen through `blocks`.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

TYPE_NAMES = "bit b1 t u2..u8 i2..i8 u16 u32 u64 i16 i32 i64 f8_e4m3 f8_e5m2 f16 bf16 f32 f64 and the block formats"


class Kind(Enum):
    """What family of values an element belongs to."""

    BIT = "bit"
    SIGN = "sign"  # b1 and t
    UNSIGNED = "unsigned"
    SIGNED = "signed"
    FLOAT = "float"
    FORMAT = "format"
    OPEN = "open"  # a type parameter that is not known yet


@dataclass(frozen=True, slots=True)
class Element:
    """One element type.

    name: its spelling. kind: its family. bits: its width (of one value; for a format: 0). storage: numpy dtype name.
    columns, bytes: for a format, how many values one block holds and how many bytes it takes; otherwise 0.
    """

    name: str
    kind: Kind
    bits: int
    storage: str
    columns: int = 0
    bytes: int = 0

    def tokens(self) -> object:
        """State the identity of the element for hashing: its name."""
        return ("element", self.name)

    @property
    def dtype(self) -> npt.DTypeLike:
        """The numpy dtype in which one value (for a format: one byte of a block) is stored."""
        return np.dtype(self.storage)

    @property
    def is_integer(self) -> bool:
        """Whether the values are two's-complement or unsigned integers."""
        return self.kind in (Kind.UNSIGNED, Kind.SIGNED)

    @property
    def is_float(self) -> bool:
        """Whether the values are floating point, storage formats included."""
        return self.kind is Kind.FLOAT

    @property
    def is_format(self) -> bool:
        """Whether this is a block format."""
        return self.kind is Kind.FORMAT

    @property
    def has_arithmetic(self) -> bool:
        """Whether + - * / are defined: integers, f32 and f64."""
        return self.is_integer or self.name in ("f32", "f64")

    @property
    def low(self) -> int:
        """Smallest value of an integer, `b1`, `t` or `bit` element."""
        if self.kind is Kind.SIGN:
            return -1
        return -(1 << (self.bits - 1)) if self.kind is Kind.SIGNED else 0

    @property
    def high(self) -> int:
        """Largest value of an integer, `b1`, `t` or `bit` element."""
        if self.kind is Kind.SIGN:
            return 1
        return (1 << (self.bits - (self.kind is Kind.SIGNED))) - 1

    def __str__(self) -> str:
        return self.name.partition(":")[0]  # an open element by its parameter's name


def _integers() -> list[Element]:
    rows = []
    for bits in (2, 3, 4, 5, 6, 7, 8, 16, 32, 64):
        size = max(8, bits)
        rows.append(Element(f"u{bits}", Kind.UNSIGNED, bits, f"uint{size}"))
        rows.append(Element(f"i{bits}", Kind.SIGNED, bits, f"int{size}"))
    return rows


_ROWS = [
    Element("bit", Kind.BIT, 1, "bool"),
    Element("b1", Kind.SIGN, 1, "int8"),
    Element("t", Kind.SIGN, 2, "int8"),
    *_integers(),
    Element("f8_e4m3", Kind.FLOAT, 8, "uint8"),
    Element("f8_e5m2", Kind.FLOAT, 8, "uint8"),
    Element("f16", Kind.FLOAT, 16, "float16"),
    Element("bf16", Kind.FLOAT, 16, "uint16"),
    Element("f32", Kind.FLOAT, 32, "float32"),
    Element("f64", Kind.FLOAT, 64, "float64"),
]

_FORMATS = [  # name, values in a block, bytes of a block (ggml's block layouts)
    ("q4_0", 32, 18),
    ("q4_1", 32, 20),
    ("q5_0", 32, 22),
    ("q5_1", 32, 24),
    ("q8_0", 32, 34),
    ("q2_k", 256, 84),
    ("q3_k", 256, 110),
    ("q4_k", 256, 144),
    ("q5_k", 256, 176),
    ("q6_k", 256, 210),
    ("q1_0", 128, 18),
    ("q2_0", 64, 18),
    ("iq1_s", 256, 50),
    ("iq1_m", 256, 56),
    ("iq2_xxs", 256, 66),
    ("iq2_xs", 256, 74),
    ("iq2_s", 256, 82),
    ("iq3_xxs", 256, 98),
    ("iq3_s", 256, 110),
    ("iq4_nl", 32, 18),
    ("iq4_xs", 256, 136),
    ("tq1_0", 256, 54),
    ("tq2_0", 256, 66),
    ("mxfp4", 32, 17),
    ("nvfp4", 64, 36),
]

ELEMENTS: dict[str, Element] = {row.name: row for row in _ROWS}
FORMATS: dict[str, Element] = {
    name: Element(name, Kind.FORMAT, 0, "uint8", columns, size) for name, columns, size in _FORMATS
}
ELEMENTS.update(FORMATS)

BIT, B1, T = ELEMENTS["bit"], ELEMENTS["b1"], ELEMENTS["t"]
U8, U32, U64, I8, I32, I64 = (ELEMENTS[name] for name in ("u8", "u32", "u64", "i8", "i32", "i64"))
F16, BF16, F32, F64 = (ELEMENTS[name] for name in ("f16", "bf16", "f32", "f64"))


def open_element(name: str, kind: str) -> Element:
    """Return a stand-in for a type parameter while its function is checked once for all arguments.

    kind: `type`, `int`, `float` or `format`, as written in the declaration.
    """
    return Element(f"{name}:{kind}", Kind.OPEN, 0, "uint8")
