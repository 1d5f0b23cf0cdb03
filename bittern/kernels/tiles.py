"""How weights lie in memory for the matrix kernels: tiles of 16 rows, two side by side. One row of the table a format.

A vector lane is an output row. Two tiles, 32 rows, make a pair; of `two` matrices of one shape, tile k of the first
and tile k of the second make pair k. A pair is one contiguous stream of records, one for each block of columns:

- `halves` f16 vectors (scale; minimum), each first of the one tile, then of the other: 16 numbers each;
- then strips of 32 columns: `sides` byte vectors (widened 6-bit scales, signed scales of groups of 16), 16 bytes each
  for the one and the other tile; then code vectors of 64 bytes, 4 bytes a row, again tile by tile.

A code vector of `bytes` holds columns 4j to 4j + 3 of the strip; of `nibbles` columns 8j + b in the low and 8j + 4 + b
in the high halves; of `pairs` columns 16j + 4i + b in bits 2i and 2i + 1. `high` more bits of each code follow: a
vector with bit j of byte b for column 4j + b, or two vectors with the bit pairs of columns 16j + 4i + b at
bits 2i. Codes are unsigned, `zero` above the value. Float tiles hold 16 values of the one, then of the other tile, for
each column. Rows that fill the last tile up are made of zero bytes. No load of a kernel passes the packed weights' end.

Rows of small integers have one scale each, beside the codes. A record is 64 bytes of the one, 64 of the other tile, 4
bytes a row, with `width` columns: `bytes` 4 columns, `pairs` 16 (columns 4i + b in bits 2i), `bits` 32 (columns 4i + b
in bit i, 1 for +1), `trits` 20: byte b is the sum of the codes of columns 4i + b times 1, 3, 9, 27, 85.

Signs that meet signs (`binary`) have records of 64 columns, a word of 8 bytes a row: bit j for column j.
"""

from collections.abc import Mapping
from dataclasses import dataclass

ROWS = 16  # of a tile: the lanes of f32 in a logical vector
PAIR = 2 * ROWS
STRIP = 32  # columns


@dataclass(frozen=True, slots=True)
class Tile:
    """One layout; see the module.

    family: `blocks` (integer dots times scales of weights and activations, block by block), `floats`, `rows`, `binary`.
    columns, stored: values and bytes of one block of one row as files hold it. halves, sides: f16 numbers of a row and
    block, bytes of a row and strip. code, high, zero: see the module. group: columns that share a scale. low: +1 or -1
    where the minimum is added or subtracted, 0 where there is none.
    """

    name: str
    family: str
    columns: int
    stored: int
    halves: int = 0
    sides: int = 0
    code: str = ""
    high: int = 0
    zero: int = 0
    group: int = 32
    low: int = 0

    @property
    def needs_ds(self) -> bool:
        """Whether the kernels read `ds`: scales of activations times the sums of their codes, one for each group."""
        return self.low != 0

    @property
    def needs_sums(self) -> bool:
        """Whether the kernels read sums of the codes of activations, one for each group (rows: each row)."""
        return self.zero != 0

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the buffers, beside `w`, that hold what is multiplied."""
        if self.family in ("floats", "binary"):
            return ("x",)
        if self.family == "rows":
            return ("scale", "q", "d", "s")
        return ("q", "d", *([self.sums] if self.needs_sums else []), *(["ds"] if self.needs_ds else []))

    @property
    def sums(self) -> str:
        """The name of the buffer with the sums of codes: of blocks, or of groups of 16."""
        return "s16" if self.group == 16 else "s"

    def fits(self, n: int) -> bool:
        """Whether the kernels take rows of n values."""
        return n % self.columns == 0

    def source_bytes(self, m: int, n: int) -> int:
        """Return the bytes of m rows of n values as they are stored; of signs, as words of 64."""
        if self.family == "binary":
            return m * 8 * self.records(n)
        return m * (n // self.columns) * self.stored

    @property
    def width(self) -> int:
        """Columns of a record of rows or signs."""
        return {"bytes": 4, "pairs": 16, "trits": 20, "bits": 32, "words": 64}[self.code]

    @property
    def vectors(self) -> int:
        """Code vectors of a tile and strip, further bits included."""
        return {"bytes": 8, "nibbles": 4, "pairs": 2, "": 0}[self.code] + self.high

    @property
    def strip_bytes(self) -> int:
        """Bytes of a pair and strip."""
        return PAIR * self.sides + 128 * self.vectors

    @property
    def head_bytes(self) -> int:
        """Bytes of a pair and block before its strips."""
        return 2 * PAIR * self.halves

    @property
    def record_bytes(self) -> int:
        """Bytes of a pair and block."""
        if self.family == "floats":
            return PAIR * self.stored
        if self.family == "rows":
            return 128
        if self.family == "binary":
            return 8 * PAIR
        return self.head_bytes + self.columns // STRIP * self.strip_bytes

    def records(self, n: int) -> int:
        """Return the number of records of a pair of rows of n values."""
        if self.family in ("rows", "binary"):
            return -(-n // self.width)
        return n // self.columns

    def packed_bytes(self, m: int, n: int, two: bool = False) -> int:
        """Return the bytes of packed weights. two: of two matrices of m rows, interleaved."""
        return pairs(m, two) * self.records(n) * self.record_bytes


def pairs(m: int, two: bool = False) -> int:
    """Return the number of pairs of tiles. two: of two matrices of m rows, interleaved."""
    return -(-m // (ROWS if two else PAIR))


# fmt: off
_ROWS = (
    #    name       family     columns stored halves sides code       high zero group low
    Tile("q4_0",    "blocks",   32,     18,    1,     0,    "nibbles", 0,   8),
    Tile("q4_1",    "blocks",   32,     20,    2,     0,    "nibbles", 0,   0,   32,   +1),
    Tile("q5_0",    "blocks",   32,     22,    1,     0,    "nibbles", 1,   16),
    Tile("q5_1",    "blocks",   32,     24,    2,     0,    "nibbles", 1,   0,   32,   +1),
    Tile("q8_0",    "blocks",   32,     34,    1,     0,    "bytes",   0,   128),
    Tile("q4_k",    "blocks",   256,    144,   2,     2,    "nibbles", 0,   0,   32,   -1),
    Tile("q5_k",    "blocks",   256,    176,   2,     2,    "nibbles", 1,   0,   32,   -1),
    Tile("q6_k",    "blocks",   256,    210,   1,     2,    "nibbles", 2,   32,  16),
    Tile("tq1_0",   "blocks",   256,    54,    1,     0,    "pairs",   0,   1),
    Tile("tq2_0",   "blocks",   256,    66,    1,     0,    "pairs",   0,   1),
    Tile("f16",     "floats",   1,      2),
    Tile("bf16",    "floats",   1,      2),
    Tile("f32",     "floats",   1,      4),
    Tile("ternary", "rows",     4,      4,     0,     0,    "pairs",   0,   1),
    Tile("trits",   "rows",     4,      4,     0,     0,    "trits",   0,   1),
    Tile("signs",   "rows",     4,      4,     0,     0,    "bits",    0,   1),
    Tile("int8",    "rows",     4,      4,     0,     0,    "bytes",   0,   128),
    Tile("binary",  "binary",   1,      0,     0,     0,    "words"),
)
# fmt: on
TILES: Mapping[str, Tile] = {row.name: row for row in _ROWS}
