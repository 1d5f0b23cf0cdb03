"""The six widths and their codes: one row each.

A value is `scale * (code - zero)`. Symmetric grids have zero point 0. `b1` has no zero and `t` no other grid, so those
two are symmetric only. A grid of whole numbers is asymmetric with codes from 0.
"""

from dataclasses import dataclass

from bittern.base.errors import BitternError, code, nearest

UNKNOWN_WIDTH = code("N411", "there is no such width")
NO_ASYMMETRIC = code("N412", "the width has no asymmetric grid")


@dataclass(frozen=True, slots=True)
class Width:
    """What codes a width has. low, high: of the symmetric grid. bits: of one code where codes are packed."""

    name: str
    bits: int
    low: int
    high: int
    element: str
    unsigned: str  # the element of asymmetric codes; "" where there is none

    @property
    def top(self) -> int:
        """The largest asymmetric code; the smallest is 0."""
        return (1 << self.bits) - 1


@dataclass(frozen=True, slots=True)
class Grid:
    """Codes from low to high; `signs` leaves 0 out. symmetric: the zero point is 0."""

    low: int
    high: int
    symmetric: bool
    signs: bool = False


WIDTHS: dict[str, Width] = {
    row.name: row
    for row in (
        Width("b1", 1, -1, 1, "b1", ""),
        Width("t", 2, -1, 1, "t", ""),
        Width("2", 2, -2, 1, "i2", "u2"),
        Width("3", 3, -4, 3, "i3", "u3"),
        Width("4", 4, -8, 7, "i4", "u4"),
        Width("8", 8, -127, 127, "i8", "u8"),
    )
}


def width(name: str) -> Width:
    """Return the row of a width. Errors: N411."""
    if name not in WIDTHS:
        raise BitternError(UNKNOWN_WIDTH, f"`{name}` is no width.", nearest(name, list(WIDTHS)))
    return WIDTHS[name]


def grid(width: Width, symmetric: bool = True) -> Grid:
    """Return the codes of a width. Errors: N412."""
    if symmetric:
        return Grid(width.low, width.high, True, signs=width.name == "b1")
    if not width.unsigned:
        raise BitternError(
            NO_ASYMMETRIC, f"Width {width.name} has symmetric codes only.", "Leave the zero point out, or take 2 bits."
        )
    return Grid(0, width.top, False)
