"""What a type rule says when operands do not fit; the checker adds the place."""

from dataclasses import dataclass

from bittern.base.errors import code

ELEMENT_MISMATCH = code("E301", "operands have different element types")
ELEMENT_UNFIT = code("E302", "the operation is not defined for this element type")
SHAPE_MISMATCH = code("E401", "dimensions differ")
RANK_UNFIT = code("E402", "the operation needs another number of dimensions")
ATTRIBUTE_UNFIT = code("E303", "an argument of the operation is out of its range")


@dataclass(slots=True)
class TypeFault(Exception):
    """Operands that do not fit. code: one of this file. found, expected, hint: phrases; a hint may be empty.

    Dimensions are put into `found` and `expected` as Dim objects by position (`{0}`, `{1}`) through `dims`, because
    only the checker knows the names of the function's symbols.
    """

    code: str
    found: str
    expected: str
    hint: str = ""
    dims: tuple[object, ...] = ()
