"""Type rules that several families share: operand types and attributes -> result types, or Misfit."""

from collections.abc import Callable
from typing import TypeAlias

from bittern.bitops.kernel import Attributes
from bittern.bitops.kinds import Misfit, Rule, Types
from bittern.bitops.lanes import INDEX_TYPE, Lanes, unsigned

Fits: TypeAlias = Callable[[Lanes], bool]


def is_number(type_: Lanes) -> bool:
    """Whether there is arithmetic on it: integers, f32, f64."""
    return type_.is_integer or type_.is_float


def is_integer(type_: Lanes) -> bool:
    """Whether it is an integer, `index` included."""
    return type_.is_integer


def is_word(type_: Lanes) -> bool:
    """Whether it is an integer other than `index`."""
    return type_.is_integer and type_.element.name != "index"


def is_unsigned(type_: Lanes) -> bool:
    """Whether it is an unsigned integer."""
    return type_.is_integer and not type_.is_signed


def is_float(type_: Lanes) -> bool:
    """Whether it is f32 or f64."""
    return type_.is_float


def is_signed_number(type_: Lanes) -> bool:
    """Whether it is a signed integer, f32 or f64."""
    return type_.is_signed or type_.is_float


def is_logical(type_: Lanes) -> bool:
    """Whether it is an integer or a truth."""
    return type_.is_integer or type_.is_mask


def is_comparable(type_: Lanes) -> bool:
    """Whether it is an integer, f32, f64 or a truth."""
    return type_.is_integer or type_.is_float or type_.is_mask


def need(holds: bool, found: object, expected: str) -> None:
    """Raise Misfit unless the condition holds."""
    if not holds:
        raise Misfit(str(found), expected)


def need_count(types: Types, count: int) -> None:
    """Raise Misfit unless there are so many operands."""
    if len(types) != count:
        raise Misfit(f"{len(types)} operands", f"{count} operands")


def need_one_type(types: Types) -> None:
    """Raise Misfit unless all operands have one type."""
    first = types[0]
    for other in types:
        if other is not first and other != first:
            raise Misfit(", ".join(map(str, types)), "operands of one type")


def same(count: int, fits: Fits) -> Rule:
    """Make the rule of `count` operands of one fitting type, which is the result's."""

    def rule(types: Types, _: Attributes) -> Types:
        need_count(types, count)
        need(fits(types[0]), types[0], fits.__doc__ or "")
        need_one_type(types)
        return types[:1]

    return rule


def compared(fits: Fits) -> Rule:
    """Make the rule of two operands of one fitting type whose result is a truth for each lane."""
    inner = same(2, fits)

    def rule(types: Types, attributes: Attributes) -> Types:
        return (inner(types, attributes)[0].mask,)

    return rule


def shifted(fits: Fits) -> Rule:
    """Make the rule of a fitting operand and counts: unsigned, of equal width and lanes."""

    def rule(types: Types, _: Attributes) -> Types:
        need_count(types, 2)
        x, counts = types
        need(fits(x), x, fits.__doc__ or "")
        if counts != unsigned(x):
            raise Misfit(f"counts {counts}", str(unsigned(x)))
        return types[:1]

    return rule


def place(type_: Lanes) -> None:
    """Raise Misfit unless the operand is a place: one index."""
    need(type_ is INDEX_TYPE or type_ == INDEX_TYPE, type_, "index")
