"""What preparations share: the mode, the kernels, and caches of programs and of folded constants.

Prepare a decode step and a prefill chunk in one `World`, and weights are decoded once for both. Known values carry a
number: equal numbers are equal values, so a folded result is found again without computing it. The world itself keeps
no array alive; programs do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import ref

import numpy as np

from bittern.base.errors import BitternError, code
from bittern.graph.extent import part_of
from bittern.graph.flow import Flow, leaf_types
from bittern.graph.node import Blob, Node
from bittern.graph.program import Copies, Kernel, Program, Roots, as_stored
from bittern.ops.table import Array, Site, ops
from bittern.types.dims import Dim, dim
from bittern.types.faults import TypeFault
from bittern.types.values import Tensor, Type, storage_shape

EFFECT_REFUSED = code("R130", "the evaluator does not run effects")
SIZES_REFUSED = code("R132", "an operation has no meaning for the given sizes")

CONSTANT: Roots = frozenset((0,))
UNNUMBERED = -1  # the number of a value that was folded just now


@dataclass(frozen=True, slots=True)
class Value:
    """A leaf while a program is made. slot: where it will be, -1 if it is known. roots: the memory that it may share.

    array, number: of a known value the array (read-only, with its batch axes) and its number in the world.
    """

    slot: int
    roots: Roots
    array: Array | None = None
    number: int = -1


@dataclass(frozen=True, slots=True)
class _Held:
    """A known value that can be had again while its memory is alive. owner: the array that has the memory."""

    owner: "ref[Array]"
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: "np.dtype[Any]"
    number: int

    def value(self) -> Value | None:
        """Return the value, or None if its memory was released."""
        owner = self.owner()
        if owner is None:
            return None
        memory = owner.ravel(order="K")
        if not np.may_share_memory(memory, owner):  # an owner that is itself spread out
            return None
        array: Array = np.ndarray(self.shape, self.dtype, memory, self.offset, self.strides)
        return known_value(array, self.number)


def _held(value: Value) -> _Held:
    array = value.array
    assert array is not None, value
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    offset = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    return _Held(ref(owner), offset, array.shape, array.strides, array.dtype, value.number)


def refuse_effects(name: str, effects: Sequence[str]) -> None:
    """Raise R130 if there are any effects."""
    if effects:
        raise BitternError(
            EFFECT_REFUSED,
            f"`{name}` has the effect {', '.join(effects)}, and evaluation is pure.",
            "Run it on a chip that grants the capability, or evaluate the pure functions that it calls.",
        )


class World:
    """One mode and one set of kernels, with what has been prepared for them.

    ideal: evaluate in float64 with `ideal` bodies. kernels: by function id. copies: what updates had to copy in all
    runs of all programs made here.
    """

    def __init__(self, ideal: bool = False, kernels: Mapping[bytes, Kernel] | None = None) -> None:
        self.ideal = ideal
        self.kernels: Mapping[bytes, Kernel] = dict(kernels or {})
        self.rows = ops()
        self.flow = Flow(ideal)
        self.copies = Copies()
        self.programs: dict[tuple[object, ...], Program] = {}
        self._numbers: dict[object, int] = {}
        self._sources: dict[tuple[int, int], tuple[ref[Array], _Held]] = {}
        self._folded: dict[tuple[object, ...], list[_Held]] = {}
        self._sites: dict[tuple[object, ...], Site] = {}
        self._parts: dict[tuple[object, ...], int | None] = {}

    def number(self, key: object) -> int:
        """Return the number of whatever this key identifies."""
        return self._numbers.setdefault(key, len(self._numbers))

    def given(self, array: Array, type_: Tensor, lead: int) -> Value:
        """Return an array that the caller promises not to change as a known value."""
        key = (id(array), lead)
        known = self._sources.get(key)
        if known is not None and known[0]() is array:
            value = known[1].value()
            if value is not None:
                return value
        stored = as_stored(array, type_, self.ideal)
        assert stored.shape[lead:] == storage_shape(type_), (stored.shape, type_)
        value = known_value(stored, self.number(("given", len(self._numbers))))
        self._sources[key] = (ref(array), _held(value))
        return value

    def constant(self, node: Node, lead: int) -> Value:
        """Return a `const` node's value, with `lead` axes of size 1."""
        key = ("const", node.id, lead)
        (value,) = self.remembered(key) or self.remember(key, [self._read(node, lead)])
        return value

    def remembered(self, key: tuple[object, ...]) -> list[Value] | None:
        """Return the known values that were folded under this key, if all of them are still alive."""
        values = [held.value() for held in self._folded.get(key, ())]
        return [value for value in values if value is not None] if values and None not in values else None

    def remember(self, key: tuple[object, ...], results: Sequence[Array | Value]) -> list[Value]:
        """Keep folded results under a key; return them as known values. A result that has a number keeps it."""
        values = []
        for place, result in enumerate(results):
            if isinstance(result, Value) and result.number != UNNUMBERED:
                values.append(result)
            else:
                array = result.array if isinstance(result, Value) else np.asarray(result)
                assert array is not None, key
                values.append(known_value(array, self.number((*key, place))))
        self._folded[key] = [_held(value) for value in values]
        return values

    def site(self, node: Node, dims: tuple[int, ...], lead: int) -> Site:
        """Return where an op node is evaluated, for these dimension parameters."""
        key = (node.id, dims, lead)
        site = self._sites.get(key)
        if site is None:
            operands = tuple(resolved(source.type, dims) for source in node.inputs)
            attributes = {name: _resolve(value, dims) for name, value in node.attributes}
            site = Site(lead, operands, resolved(node.type, dims), attributes, self.ideal)
            _check_sizes(node.kind, site)
            self._sites[key] = site
        return site

    def part(self, node: Node, dims: tuple[int, ...], symbols: Sequence[int]) -> int | None:
        """Return how many elements of a map run at a time, or None for all. symbols: those that the node names."""
        key = (node.id, *(dims[symbol] for symbol in symbols))
        if key not in self._parts:
            self._parts[key] = part_of(self.flow, self.kernels, node, dims)
        return self._parts[key]

    def _read(self, node: Node, lead: int) -> Array:
        blob, type_ = node["data"], node.type
        assert isinstance(blob, Blob) and isinstance(type_, Tensor), node
        stored = np.frombuffer(blob.read(), np.dtype(type_.element.storage).newbyteorder("<"))
        array = as_stored(stored.reshape(storage_shape(type_)), type_, self.ideal)
        return array.reshape((1,) * lead + array.shape)


def _check_sizes(kind: str, site: Site) -> None:
    """Refuse sizes with which an op has no meaning: what its rule could not tell of symbols, it tells of numbers.

    Empty operands pass: they stand in the body of a loop over nothing, which never runs.
    """
    if any(size.constant == 0 for operand in site.operands for size in operand.shape):
        return
    try:
        ops()[kind].rule(site.operands, site.attributes)
    except TypeFault as fault:
        dims = [shown.text(()) if isinstance(shown, Dim) else shown for shown in fault.dims]
        raise BitternError(
            SIZES_REFUSED,
            f"`{kind}` cannot work with these sizes: found {fault.found.format(*dims)}.",
            f"It needs {fault.expected.format(*dims)}: choose other sizes.",
        ) from fault


def known_value(array: Array, number: int) -> Value:
    """Return an array as a known value; the value's view of it is read-only."""
    view = array.view()
    view.flags.writeable = False
    return Value(-1, CONSTANT, view, number)


def resolved(type_: Type, dims: tuple[int, ...]) -> Tensor:
    """Return a tensor type with its dimensions as numbers."""
    assert isinstance(type_, Tensor), type_
    return Tensor(type_.element, tuple(dim(size.value(dims)) for size in type_.shape), type_.space)


def resolved_leaves(type_: Type, dims: tuple[int, ...]) -> list[Tensor]:
    """Return the leaves of a type with their dimensions as numbers."""
    return [resolved(leaf, dims) for leaf in leaf_types(type_)]


def _resolve(value: object, dims: tuple[int, ...]) -> object:
    if isinstance(value, Dim):
        return value.value(dims)
    if isinstance(value, tuple):
        return tuple(_resolve(part, dims) for part in value)
    return value
