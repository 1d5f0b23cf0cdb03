"""Texts of what is smaller than an expression: dimensions, types, literals, attributes, and how each op is called."""

from collections.abc import Mapping, Sequence

import numpy as np

from bittern.graph.node import Attribute, Blob, Node
from bittern.types.dims import Atom, Dim
from bittern.types.elements import Element, Kind
from bittern.types.values import Tensor, Type

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


def attribute_text(value: Attribute, names: Sequence[str]) -> str:
    """Return an attribute as an argument."""
    if isinstance(value, Dim):
        return dim_text(value, names)
    if isinstance(value, Element):
        return value.name
    if isinstance(value, tuple):
        return "[" + ", ".join(attribute_text(item, names) for item in value) + "]"
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
        text = str(value)
        return text + (element.name if suffix else "")
    if element.is_float:
        return None
    if element.kind in (Kind.BIT, Kind.SIGN):
        return f"{element.name}({int(value)})"
    return f"{int(value)}" + (element.name if suffix else "")


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
