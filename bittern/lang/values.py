"""Types and values as the language sees them: structs, tuples, lists and arrays of structs over graph nodes.

Structs, tuples and lists are erased when the graph is made: a value is its type and the flat tuple of its leaves, each a
node that holds one tensor. The order of the leaves is the order of the fields.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, Union

from bittern.graph.node import Node
from bittern.types.dims import Dim, dim
from bittern.types.elements import Element, Kind
from bittern.types.values import Tensor
from bittern.types.values import text as tensor_text


@dataclass(frozen=True, slots=True)
class StructType:
    """A struct with its generic arguments put in.

    name: with its module (`attention.Cache`). arguments: dimensions and elements, as declared. fields: name and type;
    the formats of `weight` fields are known once a model is bound, and are not part of what makes two types equal.
    """

    name: str
    arguments: tuple[Dim | Element, ...]
    fields: tuple[tuple[str, "LangType"], ...]


@dataclass(frozen=True, slots=True)
class TupleType:
    """Several values as one."""

    items: tuple["LangType", ...]


@dataclass(frozen=True, slots=True)
class ManyType:
    """An array of structs, held as a struct of arrays: every leaf has `count` in front."""

    item: StructType
    count: Dim


@dataclass(frozen=True, slots=True)
class ListType:
    """A list of structs, walked by `each`. items: the type of each, known once a model is bound; before that one."""

    item: "LangType"
    length: Dim
    items: tuple["LangType", ...] | None = None


LangType: TypeAlias = Union[Tensor, StructType, TupleType, ManyType, ListType]


@dataclass(frozen=True, slots=True)
class Value:
    """A value: its type and its leaves.

    mode: `own` if it has one owner and is used once, `fresh` if nobody else can see it (so a place may hold it), or ''.
    """

    type: LangType
    leaves: tuple[Node, ...]
    mode: str = ""

    @property
    def node(self) -> Node:
        """The only leaf."""
        assert len(self.leaves) == 1, self.type
        return self.leaves[0]

    @property
    def tensor(self) -> Tensor:
        """The type of the only leaf."""
        assert isinstance(self.type, Tensor), self.type
        return self.type

    def shared(self) -> "Value":
        """Return the value as one that anybody may read."""
        return replace(self, mode="")


def leaf_types(type_: LangType) -> tuple[Tensor, ...]:
    """Return the tensor types of the leaves, in order."""
    if isinstance(type_, Tensor):
        return (type_,)
    if isinstance(type_, StructType):
        return tuple(leaf for _, field in type_.fields for leaf in leaf_types(field))
    if isinstance(type_, TupleType):
        return tuple(leaf for item in type_.items for leaf in leaf_types(item))
    if isinstance(type_, ManyType):
        return tuple(
            Tensor(leaf.element, (type_.count, *leaf.shape), leaf.space) for leaf in leaf_types(type_.item)
        )
    return tuple(leaf for item in (type_.items or (type_.item,)) for leaf in leaf_types(item))


def many(item: LangType, count: Dim) -> LangType:
    """Return the type of an array of `count` items."""
    if isinstance(item, Tensor):
        return Tensor(item.element, (count, *item.shape), item.space)
    if isinstance(item, TupleType):
        return TupleType(tuple(many(part, count) for part in item.items))
    if isinstance(item, ManyType):
        struct = replace_leaves(item.item, [Tensor(t.element, (item.count, *t.shape), t.space) for t in leaf_types(item.item)])
        assert isinstance(struct, StructType)
        return ManyType(struct, count)
    assert isinstance(item, StructType), item
    return ManyType(item, count)


def one_of(type_: LangType) -> tuple[LangType, Dim] | None:
    """Return the type of one item of an array and the number of items, or None where nothing can be walked."""
    if isinstance(type_, Tensor):
        if not type_.shape:
            return None
        return Tensor(type_.element, type_.shape[1:], type_.space), type_.shape[0]
    if isinstance(type_, ManyType):
        return type_.item, type_.count
    if isinstance(type_, TupleType):
        parts = [one_of(item) for item in type_.items]
        if parts and all(part is not None and part[1] == parts[0][1] for part in parts if parts[0] is not None):
            known = [part for part in parts if part is not None]
            if len(known) == len(parts):
                return TupleType(tuple(part[0] for part in known)), known[0][1]
    return None


def replace_leaves(type_: LangType, leaves: Sequence[Tensor]) -> LangType:
    """Return the type with its leaf types replaced, in order."""
    rest = list(leaves)

    def build(part: LangType) -> LangType:
        if isinstance(part, Tensor):
            return rest.pop(0)
        if isinstance(part, StructType):
            return StructType(part.name, part.arguments, tuple((name, build(field)) for name, field in part.fields))
        if isinstance(part, TupleType):
            return TupleType(tuple(build(item) for item in part.items))
        if isinstance(part, ManyType):
            inner = [Tensor(t.element, t.shape[1:], t.space) for t in rest[: len(leaf_types(part.item))]]
            del rest[: len(inner)]
            item = replace_leaves(part.item, inner)
            assert isinstance(item, StructType)
            return ManyType(item, part.count)
        if part.items is None:
            return ListType(build(part.item), part.length)
        return ListType(part.item, part.length, tuple(build(item) for item in part.items))

    built = build(type_)
    assert not rest, (type_, leaves)
    return built


def substitute_type(type_: LangType, dims: Sequence[Dim]) -> LangType:
    """Return the type with dimension parameter i replaced by dims[i]."""
    if isinstance(type_, Tensor):
        return Tensor(type_.element, tuple(size.substitute(dims) for size in type_.shape), type_.space)
    if isinstance(type_, StructType):
        arguments = tuple(a.substitute(dims) if isinstance(a, Dim) else a for a in type_.arguments)
        fields = tuple((name, substitute_type(field, dims)) for name, field in type_.fields)
        return StructType(type_.name, arguments, fields)
    if isinstance(type_, TupleType):
        return TupleType(tuple(substitute_type(item, dims) for item in type_.items))
    if isinstance(type_, ManyType):
        item = substitute_type(type_.item, dims)
        assert isinstance(item, StructType)
        return ManyType(item, type_.count.substitute(dims))
    items = None if type_.items is None else tuple(substitute_type(item, dims) for item in type_.items)
    return ListType(substitute_type(type_.item, dims), type_.length.substitute(dims), items)


def is_same(left: LangType, right: LangType, *, elements: bool = True) -> bool:
    """Whether two types are equal. elements: False compares shapes and structure only (in `ideal` bodies)."""
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        if left.element.is_format != right.element.is_format and Kind.OPEN not in (left.element.kind, right.element.kind):
            return False
        return left.shape == right.shape and (not elements or left.element == right.element)
    if isinstance(left, StructType) and isinstance(right, StructType):
        return left.name == right.name and left.arguments == right.arguments
    if isinstance(left, TupleType) and isinstance(right, TupleType):
        return len(left.items) == len(right.items) and all(
            is_same(a, b, elements=elements) for a, b in zip(left.items, right.items, strict=True)
        )
    if isinstance(left, ManyType) and isinstance(right, ManyType):
        return left.count == right.count and is_same(left.item, right.item)
    if isinstance(left, ListType) and isinstance(right, ListType):
        return left.length == right.length and is_same(left.item, right.item)
    return False


def type_text(type_: LangType, names: Sequence[str] = ()) -> str:
    """Print a type as the language writes it, with the function's names for its dimensions."""
    if isinstance(type_, Tensor):
        return tensor_text(type_, names)
    if isinstance(type_, StructType):
        arguments = ", ".join(a.text(names) if isinstance(a, Dim) else a.name for a in type_.arguments)
        return type_.name.rpartition(".")[2] + (f"[{arguments}]" if arguments else "")
    if isinstance(type_, TupleType):
        return "(" + ", ".join(type_text(item, names) for item in type_.items) + ")"
    if isinstance(type_, ManyType):
        return f"many[{type_text(type_.item, names)}, {type_.count.text(names)}]"
    return f"list[{type_text(type_.item, names)}, {type_.length.text(names)}]"


def scalar(element: Element) -> Tensor:
    """Return the type of one number."""
    return Tensor(element, ())


def array(element: Element, *shape: Dim | int) -> Tensor:
    """Return an array type; sizes may be numbers."""
    return Tensor(element, tuple(dim(size) for size in shape))
