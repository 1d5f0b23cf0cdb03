"""Type rules that several families of ops share.

A rule takes operand types, whose dimensions may be symbolic and are equal when their normal forms are, and returns the
result type or raises TypeFault. An open element (a type parameter while its generic function is checked) passes where
its class has at least one element that fits; the rule is applied again when the element is known.
"""

from collections.abc import Callable, Sequence

from bittern.ops.table import Attributes
from bittern.types.elements import BIT, ELEMENTS, FORMATS, U32, Element, Kind
from bittern.types.faults import ATTRIBUTE_UNFIT, ELEMENT_MISMATCH, ELEMENT_UNFIT, RANK_UNFIT, SHAPE_MISMATCH, TypeFault
from bittern.types.values import Tensor, Type, text

_STORAGE_ONLY = ("f8_e4m3", "f8_e5m2", "f16", "bf16")
_CLASSES: dict[str, tuple[Element, ...]] = {
    "type": tuple(ELEMENTS.values()),
    "int": tuple(e for e in ELEMENTS.values() if e.is_integer),
    "float": tuple(e for e in ELEMENTS.values() if e.is_float),
    "format": tuple(FORMATS.values()),
}


def open_kind(element: Element) -> str | None:
    """Return `type`, `int`, `float` or `format` for an open element, None for a known one."""
    return element.name.rpartition(":")[2] if element.kind is Kind.OPEN else None


def is_open(element: Element, *kinds: str) -> bool:
    """Whether the element is open; with kinds: open and of one of these or of kind `type`, which may be anything."""
    kind = open_kind(element)
    return kind is not None and (not kinds or kind == "type" or kind in kinds)


def choices(element: Element) -> tuple[Element, ...]:
    """Return the elements that an element may turn out to be: itself, or those of an open element's class."""
    kind = open_kind(element)
    return (element,) if kind is None else _CLASSES[kind]


def need_tensors(types: Sequence[Type], count: int | None = None) -> tuple[Tensor, ...]:
    """Return the operands as tensors. count: how many there must be; None: one or more."""
    if len(types) != count if count is not None else not types:
        raise TypeFault(ATTRIBUTE_UNFIT, f"{len(types)} operands", str(count) if count is not None else "one or more")
    return tuple(need_tensor(type_) for type_ in types)


def need_tensor(type_: Type) -> Tensor:
    """Return the operand as a tensor."""
    if not isinstance(type_, Tensor):
        raise TypeFault(ELEMENT_UNFIT, text(type_), "a number or an array of numbers")
    return type_


def need(type_: Type, fits: Callable[[Element], bool], expected: str, hint: str = "") -> Tensor:
    """Return the operand as a tensor whose element fits. expected: the phrase for what would fit."""
    tensor = need_tensor(type_)
    if not any(fits(choice) for choice in choices(tensor.element)):
        raise TypeFault(ELEMENT_UNFIT, f"`{tensor.element}`", expected, hint)
    return tensor


def need_arithmetic(type_: Type) -> Tensor:
    """Return an operand of integers, f32 or f64."""
    tensor = need_tensor(type_)
    element = tensor.element
    if element.has_arithmetic or is_open(element, "int", "float"):
        return tensor
    hint = ""
    if element.name in _STORAGE_ONLY:
        hint = f"`{element}` is storage only: convert it first, as in `f32(x)`"
    elif element.kind is Kind.BIT:
        hint = "convert it first, as in `i32(x)`"
    elif element.kind is Kind.SIGN:
        hint = f"`{element}` has `*` and `dot` only: convert it first, as in `i32(x)`"
    elif element.is_format or is_open(element):
        hint = "decode the blocks first"
    raise TypeFault(ELEMENT_UNFIT, f"`{element}`", "an integer, `f32` or `f64`", hint)


def need_integer(type_: Type) -> Tensor:
    """Return an operand of integers."""
    return need(type_, lambda e: e.is_integer, "an integer")


def need_unsigned(type_: Type) -> Tensor:
    """Return an operand of unsigned integers."""
    return need(type_, lambda e: e.kind is Kind.UNSIGNED, "an unsigned integer", "write `wrap[u32](x)` or the like")


def need_bitwise(type_: Type) -> Tensor:
    """Return an operand of integers or `bit`."""
    return need(type_, lambda e: e.is_integer or e == BIT, "an integer or `bit`")


def need_float(type_: Type) -> Tensor:
    """Return an operand of f32 or f64, the floats that have arithmetic."""
    return need(type_, lambda e: e.name in ("f32", "f64"), "`f32` or `f64`")


def need_any_float(type_: Type) -> Tensor:
    """Return an operand of floats, those that are storage only included."""
    return need(type_, lambda e: e.is_float, "a float")


def need_value(type_: Type) -> Tensor:
    """Return an operand of any element but a block format."""
    return need(type_, lambda e: not e.is_format, "no block format", "decode it, or see its bytes with `blocks`")


def need_bit(type_: Type) -> Tensor:
    """Return an operand of `bit`."""
    return need(type_, lambda e: e == BIT, "`bit`")


def need_u32(type_: Type) -> Tensor:
    """Return an operand of `u32`: a count or an index."""
    return need(type_, lambda e: e == U32, "`u32`", "write `u32(i)` or `wrap[u32](i)`")


def need_element(attributes: Attributes, name: str = "to") -> Element:
    """Return the element that an attribute names."""
    value = attributes.get(name)
    if not isinstance(value, Element):
        raise TypeFault(ATTRIBUTE_UNFIT, f"`{name}` is {value!r}", "an element type")
    return value


def same(types: Sequence[Type]) -> Tensor:
    """Return the one type of all operands: equal element and shape; a space that any of them names."""
    first, *rest = need_tensors(types)
    for other in rest:
        if other.element != first.element:
            raise TypeFault(
                ELEMENT_MISMATCH,
                f"`{other.element}`",
                f"`{first.element}` like the first operand",
                "convert one of them",
            )
        same_shape(first, other)
    return Tensor(first.element, first.shape, same_space(types))


def same_shape(first: Tensor, other: Tensor) -> None:
    """Refuse two operands of unequal shapes."""
    if first.shape == other.shape:
        return
    count = len(other.shape)
    found = ", ".join(f"{{{i}}}" for i in range(count))
    expected = ", ".join(f"{{{count + i}}}" for i in range(len(first.shape)))
    rank = len(first.shape) != count
    hint = "only a scalar meets an array without a map or a `broadcast`" if rank else ""
    code = RANK_UNFIT if rank else SHAPE_MISMATCH
    raise TypeFault(code, f"shape [{found}]", f"shape [{expected}]", hint, (*other.shape, *first.shape))


def same_space(types: Sequence[Type]) -> str | None:
    """Return the space that the operands name, None if none does; two different ones are refused."""
    named: str | None = None
    for type_ in types:
        space = type_.space if isinstance(type_, Tensor) else None
        if space is not None and named is not None and space != named:
            raise TypeFault(ELEMENT_MISMATCH, f"an operand in space `{space}`", f"space `{named}`", "write `move`")
        named = named or space
    return named
