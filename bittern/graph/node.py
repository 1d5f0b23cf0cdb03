"""Nodes and functions: the program as an immutable, content-addressed graph.

A node is an operation with its inputs, attributes and type; its id is the SHA-256 of exactly that. A function is a
graph with parameters; its id is the hash of its meaning. Names, source lines and field paths are labels and never enter
an id.

Dimension symbols are positions in the function's own list of dimension parameters. Bodies of `if`, `for`, `while` and
`map` are functions too; they use the dimension symbols of the function in which they stand and capture nothing: every
outer value that a body needs is an input of its node and a parameter of the body.

Structural kinds (all others are rows of the table of primitive ops, `bittern.ops`):

| kind  | attributes | inputs | type |
|---|---|---|---|
| param | index | - | as declared |
| const | data: Blob | - | Tensor of constant shape (for a format: as stored) |
| call  | function, dims: tuple[Dim] | one for each parameter | the function's result with dims put in |
| tuple | - | the items | Tuple |
| item  | index | a tuple | that item's type |
| if    | then, otherwise: Function | condition (bit), captures | that of both bodies (captures) -> result |
| for   | body: Function, carries: int | low, high (u32), carries, captures | body (u32, carries, captures) -> carries |
| while | test, body: Function, carries: int | limit (u32), carries, captures | test (..) -> bit, body (..) -> carries |
| map   | body: Function, count: Dim, mapped: int | arrays (axis 0 = count), captures | body (items, captures) -> item |

A result of several carries is a Tuple; of one carry it is that value itself. A map's type is its body's result type
with `count` put in front of the shape of every tensor in it.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, Union
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError
from bittern.base.hashing import digest
from bittern.base.html_table import html_table
from bittern.types.arrays import canonical, is_valid
from bittern.types.dims import Dim, dim
from bittern.types.elements import Element
from bittern.types.values import Tensor, Tuple, Type
from bittern.types.values import substitute as substitute_type
from bittern.types.values import text as type_text

STRUCTURAL = ("param", "const", "call", "tuple", "item", "if", "for", "while", "map")


@dataclass(frozen=True, slots=True)
class Blob:
    """The stored bytes of a constant, known by their SHA-256.

    digest: 32 bytes. size: number of bytes. read: gives the bytes, which may stay in a mapped file until asked for.
    """

    digest: bytes
    size: int
    read: Callable[[], "memoryview | bytes"] = field(compare=False, repr=False)

    def tokens(self) -> object:
        """State the identity of the bytes for hashing."""
        return ("blob", self.digest)


Attribute: TypeAlias = Union[int, str, bytes, Dim, Element, Tensor, Blob, "Function", tuple["Attribute", ...]]
Attributes: TypeAlias = tuple[tuple[str, Attribute], ...]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Node:
    """One operation. Build nodes with `node`, which interns them: equal ids are the same object.

    kind: a structural kind or the name of a primitive op. attributes: sorted by name. id: 32 bytes.
    """

    kind: str
    inputs: tuple["Node", ...]
    attributes: Attributes
    type: Type
    id: bytes

    def __getitem__(self, name: str) -> Attribute:
        for key, value in self.attributes:
            if key == name:
                return value
        raise KeyError(name)

    def has(self, name: str) -> bool:
        """Whether the node has an attribute of this name."""
        return any(key == name for key, _ in self.attributes)

    def tokens(self) -> object:
        """State the identity of the node for hashing."""
        return self.id

    def __repr__(self) -> str:
        return f"<{self.kind} {self.id.hex()[:8]}>"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function: its type, and whether the function owns the value (`own`) or borrows it (`&`)."""

    type: Type
    mode: str = ""  # "own", "&" or "" (shared)

    def tokens(self) -> object:
        """State the identity of the parameter for hashing."""
        return ("parameter", self.type, self.mode)


@dataclass(frozen=True, slots=True)
class Labels:
    """What people call the parts of a function. Never part of an identity.

    name: the function's name, with its module (`norms.rms_norm`). dims, params: names by position.
    nodes: node id -> a path such as `layer.3.q` or the name of the `let`. lines: node id -> (file, line).
    """

    name: str = ""
    dims: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    nodes: Mapping[bytes, str] = field(default_factory=dict)
    lines: Mapping[bytes, tuple[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A graph with parameters.

    dims: how many dimension parameters it has. facts: pairs (top, bottom) with top % bottom == 0 promised by callers; a
    set, kept in canonical order. result: the node whose value is returned. effects: sorted names; for each, a token is
    an extra last parameter and an extra last item of the result. ideal: what the f64 reference evaluates instead (same
    parameters), or None.
    """

    dims: int
    params: tuple[Parameter, ...]
    result: Node
    facts: tuple[tuple[Dim, Dim], ...] = ()
    effects: tuple[str, ...] = ()
    ideal: "Function | None" = None
    labels: Labels = field(default_factory=Labels)
    id: bytes = b""

    def __post_init__(self) -> None:
        assert list(self.effects) == sorted(set(self.effects)), self.effects
        ordered = sorted(set(self.facts), key=lambda fact: (fact[0].rank(), fact[1].rank()))
        object.__setattr__(self, "facts", tuple(ordered))
        identity = ("function", self.dims, self.params, self.result, self.facts, self.effects, self.ideal)
        object.__setattr__(self, "id", digest(identity))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Function) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def tokens(self) -> object:
        """State the identity of the function for hashing."""
        return self.id

    @property
    def name(self) -> str:
        """The label of the function, or the start of its id."""
        return self.labels.name or self.id.hex()[:8]

    def __repr__(self) -> str:
        return f"<function {self.name} {self.id.hex()[:8]}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows of the function: its signature and its nodes by kind."""
        names, dims = self.labels.params, self.labels.dims
        shown = [names[i] if i < len(names) else f"p{i}" for i in range(len(self.params))]
        params = [(f"{n}:", f"{p.mode} {type_text(p.type, dims)}") for n, p in zip(shown, self.params, strict=True)]
        kinds = Counter(each.kind for each in walk(self.result)).most_common()
        about = (
            ("result", type_text(self.result.type, dims)),
            ("dimensions", ", ".join(dims)),
            ("effects", ", ".join(self.effects)),
            ("nodes", ", ".join(f"{count} {kind}" for kind, count in kinds)),
            ("id", self.id.hex()),
        )
        return html_table(f"function {self.name}", [*params, *about])


_interned: "WeakValueDictionary[bytes, Node]" = WeakValueDictionary()


def node(kind: str, inputs: Sequence[Node], attributes: Mapping[str, Attribute], type_: Type) -> Node:
    """Return the one node of this meaning."""
    ordered = tuple(sorted(attributes.items()))
    identity = digest(("node", kind, tuple(i.id for i in inputs), ordered, type_))
    known = _interned.get(identity)
    if known is None:
        known = Node(kind, tuple(inputs), ordered, type_, identity)
        _interned[identity] = known
    elif kind == "const":
        _lend(known["data"], attributes["data"])
    return known


@dataclass(slots=True)
class _EitherReader:
    """Reads where a constant was found first; once that fails (its file was closed), where it was found last."""

    first: "Callable[[], memoryview | bytes]"
    other: "Callable[[], memoryview | bytes] | None"

    def __call__(self) -> "memoryview | bytes":
        if self.other is not None:
            try:
                return self.first()
            except (BitternError, OSError, ValueError):
                self.first, self.other = self.other, None
        return self.first()


def _lend(known: "Attribute", new: "Attribute") -> None:
    """Let a constant that is known already be read from a new place too: equal bytes, another file."""
    if isinstance(known, Blob) and isinstance(new, Blob) and known.read is not new.read:
        first = known.read.first if isinstance(known.read, _EitherReader) else known.read
        object.__setattr__(known, "read", _EitherReader(first, new.read))


def param(index: int, type_: Type) -> Node:
    """Return parameter number `index` of the function in which the node stands."""
    return node("param", (), {"index": index}, type_)


def const(value: npt.ArrayLike, element: Element) -> Node:
    """Return a constant tensor; -0 is kept, a NaN becomes the canonical one.

    value: an array (or number) of the element's values; of f8 and bf16 the bits; of a format the bytes of its blocks.
    """
    given = np.asarray(value)
    assert is_valid(given, element), (element, given)
    array = canonical(np.ascontiguousarray(given.astype(np.dtype(element.storage).newbyteorder("<"))), element)
    shape = given.shape
    if element.is_format:
        shape = (*shape[:-2], shape[-2] * element.columns)
    return const_blob(blob(array.tobytes()), Tensor(element, tuple(dim(size) for size in shape)))


def blob(data: bytes) -> Blob:
    """Return bytes in memory as a blob."""
    return Blob(hashlib.sha256(data).digest(), len(data), lambda: data)


def const_blob(data: Blob, type_: Tensor) -> Node:
    """Return a constant whose stored bytes are `data`, row-major little-endian, of the given type."""
    return node("const", (), {"data": data}, type_)


def make_tuple(items: Sequence[Node]) -> Node:
    """Return the items as one value."""
    return node("tuple", items, {}, Tuple(tuple(i.type for i in items)))


def item(value: Node, index: int) -> Node:
    """Return one item of a tuple; of a `tuple` node, the item itself."""
    if value.kind == "tuple":
        return value.inputs[index]
    assert isinstance(value.type, Tuple), value.type
    return node("item", (value,), {"index": index}, value.type.items[index])


def call(function: Function, arguments: Sequence[Node], dims: Sequence[Dim] = ()) -> Node:
    """Return a call. dims: the values of the function's dimension parameters, in the caller's symbols."""
    assert len(dims) == function.dims and len(arguments) == len(function.params), (function, dims, arguments)
    type_ = substitute_type(function.result.type, dims)
    return node("call", arguments, {"function": function, "dims": tuple(dims)}, type_)


def map_over(body: Function, count: Dim, mapped: Sequence[Node], captures: Sequence[Node]) -> Node:
    """Return an array whose element i is body(mapped[..][i], captures)."""
    attributes: dict[str, Attribute] = {"body": body, "count": count, "mapped": len(mapped)}
    return node("map", [*mapped, *captures], attributes, _stacked(body.result.type, count))


def fold(body: Function, low: Node, high: Node, carries: Sequence[Node], captures: Sequence[Node]) -> Node:
    """Return the carries after running body(i, carries, captures) for i = low, ..., high - 1."""
    attributes: dict[str, Attribute] = {"body": body, "carries": len(carries)}
    return node("for", [low, high, *carries, *captures], attributes, body.result.type)


def repeat(test: Function, body: Function, limit: Node, carries: Sequence[Node], captures: Sequence[Node]) -> Node:
    """Return the carries after running body while test holds, at most `limit` times."""
    attributes: dict[str, Attribute] = {"test": test, "body": body, "carries": len(carries)}
    return node("while", [limit, *carries, *captures], attributes, body.result.type)


def choose(condition: Node, then: Function, otherwise: Function, captures: Sequence[Node]) -> Node:
    """Return then(captures) if the condition holds, else otherwise(captures)."""
    assert then.result.type == otherwise.result.type, (then.result.type, otherwise.result.type)
    return node("if", [condition, *captures], {"then": then, "otherwise": otherwise}, then.result.type)


def _stacked(type_: Type, count: Dim) -> Type:
    if isinstance(type_, Tensor):
        return Tensor(type_.element, (count, *type_.shape), type_.space)
    assert isinstance(type_, Tuple), "a map has no effects"
    return Tuple(tuple(_stacked(i, count) for i in type_.items))


def walk(result: Node) -> Iterator[Node]:
    """Yield every node that the result depends on, each once, inputs before users; bodies are not entered."""
    seen: set[bytes] = set()
    stack: list[tuple[Node, bool]] = [(result, False)]
    while stack:
        current, ready = stack.pop()
        if ready:
            yield current
        elif current.id not in seen:
            seen.add(current.id)
            stack.append((current, True))
            stack.extend((i, False) for i in reversed(current.inputs) if i.id not in seen)


def functions_of(current: Node) -> Iterator[Function]:
    """Yield the functions that a node names: a callee, or the bodies of a structural node."""
    for _, value in current.attributes:
        if isinstance(value, Function):
            yield value
