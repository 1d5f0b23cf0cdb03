"""The ten facts that ride with every operation, told as text for people and for the JSON of `bittern inspect`.

In order: the operation, its algorithm family, input types, output types, shapes, packing and layout, effects,
ownership, memory space, execution policy. All are told from the node and the labels of the function around it.
"""

from collections.abc import Iterator, Sequence
from functools import cache

from bittern.graph.node import STRUCTURAL, Function, Node, functions_of
from bittern.graph.record import effects_of, ownership_of, policy_of
from bittern.ops.table import ops
from bittern.types.elements import Element
from bittern.types.values import Tensor, Token, Type
from bittern.types.values import Tuple as TupleType
from bittern.types.values import text as type_text

TEN = (
    *("operation", "algorithm family", "input types", "output types", "shapes", "packing and layout"),
    *("effects", "ownership", "memory space", "execution policy"),
)
_ANY_SPACE = "any (the plan decides)"
_MODES = {"own": "owned", "&": "borrowed", "": "shared"}
_POLICIES = {
    "strict": "strict: the same bits on every chip",
    "seeded": "seeded: its seed repeats it",
    "creative": "creative: its draws are recorded",
}


def facts_of(node: Node, dims: Sequence[str] = ()) -> dict[str, str]:
    """Return the ten facts of a node, in the order of `TEN`; none is empty. dims: names of the dimension parameters."""
    inputs = [i.type for i in node.inputs]
    mine = leaves(node.type)
    told = (
        operation_of(node),
        family_of(node),
        _listed([elements_text(i) for i in inputs]),
        elements_text(node.type),
        f"{_listed([shape_text(i, dims) for i in inputs])} -> {shape_text(node.type, dims)}",
        _listed(list(dict.fromkeys(packing(leaf.element) for leaf in mine)), "; ", "nothing is stored"),
        _listed(effects_of(node), none="none: pure"),
        _listed([_MODES[mode] for mode in ownership_of(node)], none="no input"),
        space_of(node.type),
        f"{_POLICIES[policy_of(node)]}; needs {needs_of(node)}",
    )
    return dict(zip(TEN, told, strict=True))


def operation_of(node: Node) -> str:
    """Return what the node does: its kind, with the function that it calls."""
    called = [function.name for function in functions_of(node)]
    return f"{node.kind} {', '.join(called)}" if called else node.kind


def family_of(node: Node) -> str:
    """Return the family of algorithms: of an op, its row's; of a call, the callee's module; else `structure`."""
    if node.kind == "call":
        function = node["function"]
        assert isinstance(function, Function)
        return function.labels.name.partition(".")[0] if "." in function.labels.name else "program"
    return "structure" if node.kind in STRUCTURAL else _families().get(node.kind, "unknown")


@cache
def _families() -> dict[str, str]:
    return {name: row.meaning.__module__.rpartition(".")[2] for name, row in ops().items()}


def packing(element: Element) -> str:
    """Return how values of an element lie in memory."""
    if element.is_format:
        return f"{element.name}: blocks of {element.columns} values in {element.bytes} bytes, row-major"
    size = max(1, element.bits // 8)
    return f"{element}: {size} byte{'s' * (size > 1)} a value, row-major" if element.bits else f"{element}: open"


def space_of(type_: Type) -> str:
    """Return the memory space that the type names, or that it names none."""
    return _listed(list(dict.fromkeys(leaf.space or _ANY_SPACE for leaf in leaves(type_))), none="none: no bytes")


def needs_of(node: Node) -> str:
    """Return what a chip must have for the node: arithmetic on its elements, and its effects."""
    found = [leaf.element.name for type_ in (*(i.type for i in node.inputs), node.type) for leaf in leaves(type_)]
    return _listed(sorted({*found, *effects_of(node)}), none="nothing")


def elements_text(type_: Type) -> str:
    """Return the elements of a type, without shapes."""
    if isinstance(type_, TupleType):
        return "(" + ", ".join(elements_text(item) for item in type_.items) + ")"
    return f"token[{type_.effect}]" if isinstance(type_, Token) else str(type_.element)


def shape_text(type_: Type, dims: Sequence[str] = ()) -> str:
    """Return the shape of a type, without elements; of a tuple, each item's."""
    if isinstance(type_, TupleType):
        return "(" + ", ".join(shape_text(item, dims) for item in type_.items) + ")"
    return "token" if isinstance(type_, Token) else "[" + ", ".join(size.text(dims) for size in type_.shape) + "]"


def attribute_texts(node: Node, dims: Sequence[str] = ()) -> dict[str, str]:
    """Return the attributes that are no functions as text; constants as their digest and size."""
    return {name: value_text(value, dims) for name, value in node.attributes if not isinstance(value, Function)}


def value_text(value: object, dims: Sequence[str] = ()) -> str:
    """Return the value of an attribute as text; a constant as its digest and size."""
    if isinstance(value, tuple):
        return "[" + ", ".join(value_text(part, dims) for part in value) + "]"
    if isinstance(value, Tensor):
        return type_text(value, dims)
    if hasattr(value, "digest") and hasattr(value, "size"):
        return f"sha256 {value.digest.hex()}, {value.size} bytes"
    if isinstance(value, bytes):
        return value.hex()
    return str(value.text(dims)) if hasattr(value, "text") else str(value)


def leaves(type_: Type) -> list[Tensor]:
    """Return the tensors of a type."""
    return list(_leaves(type_))


def _leaves(type_: Type) -> Iterator[Tensor]:
    if isinstance(type_, Tensor):
        yield type_
    elif isinstance(type_, TupleType):
        for item in type_.items:
            yield from _leaves(item)


def _listed(parts: Sequence[str], mark: str = ", ", none: str = "none") -> str:
    return mark.join(parts) or none
