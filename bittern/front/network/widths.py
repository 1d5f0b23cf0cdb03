"""The six widths of a discrete network, and how a user names them.

| width | weights and signed codes | unsigned codes |
|---|---|---|
| b1 | -1, +1 | - |
| t | -1, 0, +1 | - |
| 2, 3, 4, 8 (and 5, 6, 7) | i2 .. i8 | u2 .. u8 |
"""

from bittern.base.errors import BitternError, code, nearest
from bittern.types.elements import ELEMENTS, Element

UNKNOWN_WIDTH = code("N105", "a layer names a width that does not exist")

Width = str | int

SIX: tuple[Width, ...] = ("b1", "t", 2, 3, 4, 8)

_NAMES = {"binary": "b1", "ternary": "t", "1": "b1"}
_CODES = tuple(f"{sign}{bits}" for bits in range(2, 9) for sign in "iu")


def element_of_width(width: Width, *, signed: bool = True) -> Element:
    """Return the element of a width: `b1`, `t`, a number of bits from 1 to 8, or an element such as `u4`.

    signed: which integers a number of bits stands for. Raises N105.
    """
    word = _NAMES.get(str(width), str(width))
    if word in ("b1", "t") or word in _CODES:
        return ELEMENTS[word]
    name = f"{'i' if signed else 'u'}{word}"
    if name in _CODES:
        return ELEMENTS[name]
    known = ["b1", "t", *_CODES, *_NAMES]
    raise BitternError(
        UNKNOWN_WIDTH,
        f"There is no width `{width}`.",
        f"{nearest(word, known)} Widths are b1, t, and numbers of bits up to 8.".strip(),
    )


def is_code(element: Element) -> bool:
    """Whether an element is one of at most 8 bits, which products take."""
    return element.name in ("b1", "t") or element.name in _CODES
