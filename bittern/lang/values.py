"""Types and values as the language sees them: structs, tuples, lists and arrays of structs over graph nodes.

Structs, tuples and lists are erased when the graph is made: a value is its type and the flat tuple of its leaves, each
a node that holds one tensor. The order of the leaves is the order of the fields.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bittern.graph.node import Node
from bittern.types.dims import Dim
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
    """An array of structs (or of such arrays), held as a struct of arrays: every leaf has `count` in front."""

    item: "StructType | ManyType"
    count: Dim


@dataclass(frozen=True, slots=True)
class ListType:
    """A list of structs, walked by `each`. items: the type of each, known once a model is bound; before that one."""

    item: "LangType"
    length: Dim
    items: tuple["LangType", ...] | None = None


LangType: TypeAlias = Tensor | StructType | TupleType | ManyType | ListType


@dataclass(frozen=True, slots=True)
class Value:
    """A value: its type, its leaves, and for each leaf who may use it.

    modes: `own` where a leaf has one owner and is used once, `fresh` where nobody else can see it (so that a place may
    hold it), or '' where anybody may read it.
    """

    type: LangType
    leaves: tuple[Node, ...]
    modes: tuple[str, ...]

    @staticmethod
    def of(type_: LangType, leaves: Sequence[Node], mode: str = "") -> "Value":
        """Return a value whose leaves all have one mode."""
        return Value(type_, tuple(leaves), (mode,) * len(leaves))

    @staticmethod
    def tuple_of(items: "Sequence[Value]") -> "Value":
        """Return several values as one."""
        leaves = tuple(leaf for item in items for leaf in item.leaves)
        modes = tuple(mode for item in items for mode in item.modes)
        return Value(TupleType(tuple(item.type for item in items)), leaves, modes)

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

    @property
    def mode(self) -> str:
        """`own` if any leaf is owned, else `fresh` if all are fresh, else ''."""
        if "own" in self.modes:
            return "own"
        return "fresh" if self.modes and all(mode == "fresh" for mode in self.modes) else ""

    @property
    def is_given(self) -> bool:
        """Whether every leaf is owned or fresh, so that the value may go where one owner is wanted."""
        return all(self.modes)

    def marked(self, modes: str | Sequence[str]) -> "Value":
        """Return the value with other modes: one for all leaves, or one each."""
        each = (modes,) * len(self.leaves) if isinstance(modes, str) else tuple(modes)
        return Value(self.type, self.leaves, each)

    def shared(self) -> "Value":
        """Return the value as one that anybody may read."""
        return self.marked("")

    def with_leaves(self, leaves: Sequence[Node]) -> "Value":
        """Return the value with other nodes of the same types."""
        return Value(self.type, tuple(leaves), self.modes)

    def part(self, type_: LangType, start: int) -> "Value":
        """Return the part of this type whose leaves begin at a place."""
        end = start + len(leaf_types(type_))
        return Value(type_, self.leaves[start:end], self.modes[start:end])

    def items(self, types: Sequence[LangType]) -> "list[Value]":
        """Return the value cut into parts of these types, which together are all of it."""
        parts, start = [], 0
        for type_ in types:
            parts.append(self.part(type_, start))
            start += len(parts[-1].leaves)
        return parts


def leaf_types(type_: LangType) -> tuple[Tensor, ...]:
    """Return the tensor types of the leaves, in order."""
    if isinstance(type_, Tensor):
        return (type_,)
    if isinstance(type_, StructType):
        return tuple(leaf for _, field in type_.fields for leaf in leaf_types(field))
    if isinstance(type_, TupleType):
        return tuple(leaf for item in type_.items for leaf in leaf_types(item))
    if isinstance(type_, ManyType):
        return tuple(Tensor(leaf.element, (type_.count, *leaf.shape), leaf.space) for leaf in leaf_types(type_.item))
    items = (type_.item,) if type_.items is None else type_.items
    return tuple(leaf for item in items for leaf in leaf_types(item))


def many(item: LangType, count: Dim) -> LangType:
    """Return the type of an array of `count` items."""
    if isinstance(item, Tensor):
        return Tensor(item.element, (count, *item.shape), item.space)
    if isinstance(item, TupleType):
        return TupleType(tuple(many(part, count) for part in item.items))
    assert isinstance(item, (StructType, ManyType)), item
    return ManyType(item, count)


def one_of(type_: LangType) -> tuple[LangType, Dim] | None:
    """Return the type of one item of an array and the number of items, or None where nothing can be walked."""
    if isinstance(type_, Tensor):
        return (Tensor(type_.element, type_.shape[1:], type_.space), type_.shape[0]) if type_.shape else None
    if isinstance(type_, ManyType):
        return type_.item, type_.count
    if isinstance(type_, TupleType):
        parts = [part for part in map(one_of, type_.items) if part is not None]
        if parts and len(parts) == len(type_.items) and all(count == parts[0][1] for _, count in parts):
            return TupleType(tuple(item for item, _ in parts)), parts[0][1]
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
            assert isinstance(item, (StructType, ManyType))
            return ManyType(item, part.count)
        if part.items is None:
            return ListType(build(part.item), part.length)
        return ListType(part.item, part.length, tuple(build(item) for item in part.items))

    built = build(type_)
    assert not rest, (type_, leaves)
    return built


def changed_dims(type_: LangType, change: Callable[[Dim], Dim]) -> LangType:
    """Return the type with every dimension changed."""
    if isinstance(type_, Tensor):
        return Tensor(type_.element, tuple(change(size) for size in type_.shape), type_.space)
    if isinstance(type_, StructType):
        arguments = tuple(change(a) if isinstance(a, Dim) else a for a in type_.arguments)
        fields = tuple((name, changed_dims(field, change)) for name, field in type_.fields)
        return StructType(type_.name, arguments, fields)
    if isinstance(type_, TupleType):
        return TupleType(tuple(changed_dims(item, change) for item in type_.items))
    if isinstance(type_, ManyType):
        item = changed_dims(type_.item, change)
        assert isinstance(item, (StructType, ManyType))
        return ManyType(item, change(type_.count))
    items = None if type_.items is None else tuple(changed_dims(item, change) for item in type_.items)
    return ListType(changed_dims(type_.item, change), change(type_.length), items)


def substitute_type(type_: LangType, dims: Sequence[Dim]) -> LangType:
    """Return the type with dimension parameter i replaced by dims[i]."""
    return changed_dims(type_, lambda size: size.substitute(dims))


def is_same(left: LangType, right: LangType, *, elements: bool = True) -> bool:
    """Whether two types are equal. elements: False compares shapes and structure only (in `ideal` bodies)."""
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        if elements:
            return left.shape == right.shape and left.element == right.element
        is_open = Kind.OPEN in (left.element.kind, right.element.kind)
        return left.shape == right.shape and (is_open or left.element.is_format == right.element.is_format)
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
        arguments = ", ".join(a.text(names) if isinstance(a, Dim) else str(a) for a in type_.arguments)
        return type_.name.rpartition(".")[2] + (f"[{arguments}]" if arguments else "")
    if isinstance(type_, TupleType):
        return "(" + ", ".join(type_text(item, names) for item in type_.items) + ")"
    if isinstance(type_, ManyType):
        return f"many[{type_text(type_.item, names)}, {type_.count.text(names)}]"
    return f"list[{type_text(type_.item, names)}, {type_.length.text(names)}]"
