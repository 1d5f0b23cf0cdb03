"""Texts of what is smaller than an expression: dimensions, types, literals, attributes, and how each op is called."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bittern.graph.node import Attribute, Blob, Function, Node, walk
from bittern.types.dims import Atom, Dim, Ratio
from bittern.types.elements import Element, Kind
from bittern.types.values import Tensor, Tuple, Type

INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%", "and": "&", "or": "|", "xor": "^",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "shl": "<<", "shr": ">>",
}  # fmt: skip
PREFIX = {"neg": "-", "not": "~"}
SHIFTS = ("shl", "shr", "rotl", "rotr")
SPREADING = ("min", "max", "add_sat", "sub_sat", "mul_high", "extract", "deposit", "rotl", "rotr", "select")

# op -> (attribute in brackets, attributes after the operands, labelled attributes with the value that is left out)
CALLS: Mapping[str, tuple[str, tuple[str, ...], Mapping[str, int]]] = {
    "wrap": ("to", (), {}),
    "sat": ("to", (), {}),
    "round": ("to", (), {}),
    "sign": ("to", (), {}),
    "from_bits": ("to", (), {}),
    "dot": ("to", (), {}),
    "pack": ("bits", (), {}),
    "unpack": ("to", ("count",), {}),
    "reshape": ("", ("shape",), {}),
    "broadcast": ("", ("shape",), {}),
    "fill": ("", ("shape",), {}),
    "permute": ("", ("axes",), {}),
    "iota": ("", ("count",), {}),
    "reverse": ("", (), {"axis": 0}),
    "concat": ("", (), {"axis": 0}),
    "stack": ("", (), {"axis": 0}),
    "slice": ("", ("low", "high"), {"stride": 1, "axis": 0}),
    "windows": ("", ("size", "stride", "dilation"), {"axis": 0}),
    "dynamic_slice": ("", ("length",), {}),
    "move": ("", ("space",), {}),
    "read": ("", ("length",), {}),
    "receive": ("", ("length",), {}),
    "entropy": ("", ("length",), {}),
}


def dim_text(value: Dim, names: Sequence[str]) -> str:
    """Return a dimension as an expression of the language; dimensions have no sign, so what is added comes first."""
    terms = sorted(value.terms, key=lambda term: term[1] < 0)
    if not terms:
        return "0"
    text = "0" if terms[0][1] < 0 else ""
    for monomial, factor in terms:
        atoms = [_atom_text(atom, names) for atom in monomial]
        if abs(factor) != 1 or not atoms:
            atoms.insert(0, str(abs(factor)))
        sign = " - " if factor < 0 else " + " if text else ""
        text += sign + " * ".join(atoms)
    return text


def _atom_text(atom: Atom, names: Sequence[str]) -> str:
    if isinstance(atom, int):
        return names[atom]
    return f"(({dim_text(atom.top, names)}) {atom.kind} ({dim_text(atom.bottom, names)}))"


def type_text(type_: Type, names: Sequence[str]) -> str:
    """Return a tensor type as the language writes it."""
    assert isinstance(type_, Tensor), type_
    sizes = ", ".join(dim_text(size, names) for size in type_.shape)
    return type_.element.name + (f"[{sizes}]" if sizes else "") + (f" @{type_.space}" if type_.space else "")


def attribute_text(value: Attribute, dim: Callable[[Dim], str]) -> str:
    """Return an attribute as an argument. dim: writes a dimension."""
    if isinstance(value, Dim):
        return dim(value)
    if isinstance(value, Element):
        return value.name
    if isinstance(value, tuple):
        return "[" + ", ".join(attribute_text(item, dim) for item in value) + "]"
    assert isinstance(value, int | str), value
    return str(value)


def scalar_text(node: Node, *, suffix: bool) -> str | None:
    """Return a scalar constant as a literal, or None if none has its value. suffix: where nothing says its type."""
    type_, data = node.type, node["data"]
    assert isinstance(type_, Tensor) and isinstance(data, Blob)
    element = type_.element
    if type_.shape or element.is_format:
        return None
    value = np.frombuffer(data.read(), np.dtype(element.storage).newbyteorder("<"))[0]
    if element.name in ("f32", "f64"):
        if not np.isfinite(value):
            return None
        mantissa, exponent = np.frexp(value)
        if abs(mantissa) == 0.5 and abs(exponent) > 20:
            text = f"{'-' if value < 0 else ''}0x1p{exponent - 1}"
        else:
            text = str(value)
        return text + (element.name if suffix else "")
    if element.is_float:
        return None
    if element.kind in (Kind.BIT, Kind.SIGN):
        return f"{element.name}({int(value)})"
    text = f"0x{int(value):x}" if value >= 1 << 16 and element.kind is Kind.UNSIGNED else f"{int(value)}"
    return text + (element.name if suffix else "")


def array_text(node: Node) -> str | None:
    """Return a constant array of whole numbers with one axis as a list, or None if it is another kind of constant."""
    type_, data = node.type, node["data"]
    assert isinstance(type_, Tensor) and isinstance(data, Blob)
    if len(type_.shape) != 1 or not type_.element.is_integer or data.size == 0:
        return None
    values = np.frombuffer(data.read(), np.dtype(type_.element.storage).newbyteorder("<"))
    return "[" + ", ".join(str(int(v)) for v in values) + "]"


def is_spread(node: Node) -> bool:
    """Whether the node is a scalar spread over an array, as an operator does by itself."""
    return node.kind == "broadcast" and isinstance(node.inputs[0].type, Tensor) and not node.inputs[0].type.shape


def multiplied(value: Dim, top: Dim, divisor: int) -> Dim:
    """Return a dimension with `divisor * (top / divisor)` put together as `top`. top: one symbol that it divides."""
    atom: Atom = Ratio("/", top, Dim((((), divisor),)))
    total = Dim(())
    for monomial, factor in value.terms:
        while atom in monomial and factor % divisor == 0:
            place = monomial.index(atom)
            monomial, factor = (*monomial[:place], *top.terms[0][0], *monomial[place + 1 :]), factor // divisor
        product = Dim((((), factor),))
        for part in monomial:
            product = product * Dim((((part,), 1),))
        total = total + product
    return total


def symbols_of(function: Function) -> set[int]:
    """Return the dimension symbols that occur in a body, in the bodies inside it and in its parameters."""
    found: set[int] = set()
    work: list[Function] = [function]
    while work:
        current = work.pop()
        for type_ in [*(p.type for p in current.params), *(n.type for n in walk(current.result))]:
            found |= _symbols(type_)
        for n in walk(current.result):
            for _, value in n.attributes:
                if isinstance(value, Function):
                    work.extend([value] if n.kind != "call" else [])
                else:
                    found |= _symbols(value)
    return found


def _symbols(value: object) -> set[int]:
    if isinstance(value, Dim):
        return value.symbols()
    if isinstance(value, Tensor):
        return {s for size in value.shape for s in size.symbols()}
    items = value.items if isinstance(value, Tuple) else value if isinstance(value, tuple) else ()
    return {s for item in items for s in _symbols(item)}
