"""Chains: what is computed value by value from one whole-number array, found and written in one form.

A chain leads from a source (an accumulator, or codes) to an end (codes, or floats) through operations of which each
value depends on one value of the source and on constants that differ by channel at most. Its form is the same whatever
the graph looked like: arrays [n, channels], of which the source is the only parameter, with the very operations of the
graph in their order. Maps are opened (an axis that they walk is one of positions, or that of the channels), calls are
put in their place, and shapes are forgotten; so what the form computes for a value is what the graph computes for it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from bittern.base.errors import BitternError
from bittern.graph.evaluate import evaluate
from bittern.graph.node import Function, Node, Parameter, const, node, param, walk
from bittern.graph.rewrite import inline, replace_nodes
from bittern.graph.rules import result_type
from bittern.ops.table import Array
from bittern.passes.applied import function_name
from bittern.passes.bodies import body_of, items_of, parts_of
from bittern.passes.layout_rules import ELEMENTWISE
from bittern.passes.rewriting import index_of
from bittern.types.dims import Dim, dim, symbol
from bittern.types.elements import Element, Kind
from bittern.types.values import Tensor

Roles: TypeAlias = tuple[bool, ...]
"""For each own axis of a value whether it is that of the channels; the others are positions."""

SEVERAL = "it comes from several arrays of whole numbers"
_COUNT = symbol(0)
_LARGEST_CONSTANT = 1 << 24


class BlockedError(Exception):
    """A value that is no chain. The text says why, for people; `at` is the node that stops it."""

    def __init__(self, reason: str, at: Node) -> None:
        super().__init__(reason)
        self.at = at


class _NeedsChannelsError(Exception):
    """A chain has constants that differ by channel."""


@dataclass(frozen=True, slots=True)
class Chain:
    """One chain. form: a function of its sources, [n, channels] of their elements, with n its one dimension.

    channels: 1 where all channels compute alike. sources: nodes of the graph, one unless two were allowed. end: where
    it leads. kinds: operations on the way, those of the form, inputs before users. rising: nodes of the form that rise
    with one of their own, by a law of the library: id -> that node.
    """

    sources: tuple[Node, ...]
    end: Node
    form: Function
    channels: int
    kinds: tuple[str, ...]
    rising: Mapping[bytes, Node] = field(default_factory=dict, compare=False)

    @property
    def source(self) -> Node:
        """The one source, or the first one."""
        return self.sources[0]

    @property
    def has_float(self) -> bool:
        """Whether a value on the way is a float."""
        types = [each.type for each in walk(self.form.result)]
        return any(isinstance(t, Tensor) and t.element.is_float for t in types)

    def values(self, *sources: Array) -> Array:
        """Return what the chain makes of values. sources: [n, channels] in storage."""
        made: Array = evaluate(self.form, sources, [sources[0].shape[0]])
        return made


def chain_to(end: Node, is_source: Callable[[Node], bool], channels: int = 1, most: int = 1) -> Chain:
    """Return the chain that leads to a node of a function's own graph.

    is_source: whether a chain starts at a node; where the way back ends at a whole-number array, it does too. channels:
    columns of the form; of one, as many as are needed. most: sources. BlockedError where there is no chain.
    """
    if channels > 1:
        return _Walk(end, is_source, channels, most).run()
    try:
        return _Walk(end, is_source, 1, most).run()
    except _NeedsChannelsError:
        assert isinstance(end.type, Tensor), end
        size = end.type.shape[-1].constant
        if size is None:
            raise BlockedError("its last axis has no known size", end) from None
        return _Walk(end, is_source, size, most).run()


RISING = frozenset(
    {
        *("rounding.round_away", "rounding.round_half_away", "rounding.round_half_trunc"),
        *("rounding.round_half_ceil", "rounding.round_half_floor"),
    }
)
"""Functions of the library of one value that never fall as it rises, though their operations do not show it."""


def is_closed(of: Node) -> bool:
    """Whether a value depends on no parameter."""
    return all(each.kind != "param" for each in walk(of))


@dataclass(frozen=True, slots=True, eq=False)
class _Given:
    """What a parameter of a body stands for. roles: in front of the value's own, the axis that the map walks."""

    of: Node
    scope: "_Scope"
    roles: Roles


@dataclass(frozen=True, slots=True, eq=False)
class _Scope:
    """The parameters of the body in which a node stands; of the graph itself none."""

    given: tuple[_Given, ...] = ()
    is_outer: bool = False


@dataclass(frozen=True, slots=True)
class _Value:
    """A value in the form. sources: ids of the nodes of the graph that it comes from; none of a constant."""

    node: Node
    sources: frozenset[bytes] = frozenset()


class _Walk:
    """Writes one chain in its form. channels: 1, or as many as the last axis of the end has."""

    def __init__(self, end: Node, is_source: Callable[[Node], bool], channels: int, most: int) -> None:
        self.end, self.is_source, self.channels, self.most = end, is_source, channels, most
        self.sources: dict[bytes, Node] = {}
        self.shape: tuple[Dim, ...] = (_COUNT, dim(channels))
        self.rising: dict[bytes, Node] = {}
        self.known: dict[tuple[bytes, Roles, int], _Value | BlockedError] = {}
        self.closed: dict[bytes, bool] = {}
        self.scopes: list[_Scope] = []  # kept alive: they are known by their ids

    def run(self) -> Chain:
        """Return the chain to the end."""
        end = self.end
        if not isinstance(end.type, Tensor) or not end.type.shape:
            raise BlockedError("it is no array", end)
        rank = len(end.type.shape)
        roles = (False,) * rank if self.channels == 1 else (False,) * (rank - 1) + (True,)
        value = self._at(end, roles, _Scope(is_outer=True), is_end=True)
        if not value.sources:
            raise BlockedError("it depends on no whole-number array", end)
        sources = [each for key, each in self.sources.items() if key in value.sources]
        places = {self._place(each).id: param(k, self._place(each).type) for k, each in enumerate(sources)}
        result = replace_nodes(value.node, places)
        form = Function(1, tuple(Parameter(self._place(each).type) for each in sources), result)
        rising = self.rising if result is value.node else {}
        kinds = tuple(each.kind for each in walk(result) if each.kind not in ("param", "const", "broadcast"))
        return Chain(tuple(sources), end, form, self.channels, kinds, rising)

    def _place(self, source: Node) -> Node:
        """Return the parameter that stands for a source while the form is written."""
        assert isinstance(source.type, Tensor), source
        return param(list(self.sources).index(source.id), Tensor(source.type.element, self.shape))

    def _at(self, of: Node, roles: Roles, scope: _Scope, is_end: bool = False) -> _Value:
        """Return a value in the form, once."""
        key = (of.id, roles, id(scope))
        found = self.known.get(key)
        if found is None:
            try:
                found = self._made(of, roles, scope, is_end)
            except BlockedError as blocked:
                found = blocked
            self.known[key] = found
        if isinstance(found, BlockedError):
            raise found
        return found

    def _made(self, of: Node, roles: Roles, scope: _Scope, is_end: bool) -> _Value:
        if not isinstance(of.type, Tensor) or len(of.type.shape) != len(roles):
            raise BlockedError("it is no array of the shape of its source", of)
        if self._is_closed(of):
            return _Value(self._constant(of, roles, scope))
        if scope.is_outer and not is_end and self.is_source(of):
            return self._source(of)
        try:
            return self._opened(of, roles, scope)
        except BlockedError:
            if scope.is_outer and not is_end and _is_whole(of.type.element):
                return self._source(of)
            raise

    def _source(self, of: Node) -> _Value:
        """Return the parameter of the form, if the node has a value for each one of the end."""
        assert isinstance(of.type, Tensor) and isinstance(self.end.type, Tensor), of
        if _size(of.type) != _size(self.end.type):
            raise BlockedError("values of different places meet", of)
        if self.channels > 1 and of.type.shape[-1] != self.end.type.shape[-1]:
            raise BlockedError("channels change place between source and end", of)
        self.sources.setdefault(of.id, of)
        return _Value(self._place(of), frozenset((of.id,)))

    def _opened(self, of: Node, roles: Roles, scope: _Scope) -> _Value:
        """Return what a node computes, from what its inputs are."""
        if of.kind in ELEMENTWISE or (of.kind == "from_bits" and _keeps_shape(of)):
            return self._operation(of, roles, scope)
        handler = _HANDLERS.get(of.kind)
        if handler is None:
            raise BlockedError(f"`{of.kind}` is no operation on single values", of)
        return handler(self, of, roles, scope)

    def _operation(self, of: Node, roles: Roles, scope: _Scope) -> _Value:
        values = [self._at(i, roles, scope) for i in of.inputs]
        return self._joined(of, values, self._op(of, [value.node for value in values]))

    def _op(self, of: Node, inputs: Sequence[Node]) -> Node:
        attributes = dict(of.attributes)
        return node(of.kind, inputs, attributes, result_type(of.kind, [i.type for i in inputs], attributes))

    def _joined(self, of: Node, values: Sequence[_Value], made: Node) -> _Value:
        """Return a value that comes from several, which must come from few enough sources."""
        sources = frozenset().union(*(value.sources for value in values))
        if len(sources) > self.most:
            raise BlockedError(SEVERAL, of)
        return _Value(made, sources)

    # What is opened

    def _param(self, of: Node, roles: Roles, scope: _Scope) -> _Value:
        if scope.is_outer:
            raise BlockedError("it is an input of the network", of)
        given = scope.given[index_of(of)]
        return self._at(given.of, (*given.roles, *roles), given.scope)

    def _item(self, of: Node, roles: Roles, scope: _Scope) -> _Value:
        whole, place = of.inputs[0], index_of(of)
        if whole.kind == "map":
            return self._map(whole, roles, scope, place)
        if whole.kind == "tuple":
            return self._at(whole.inputs[place], roles, scope)
        if whole.kind == "call":
            return self._at(items_of(inline(whole))[place], roles, scope)
        if whole.kind == "if":
            return self._if(whole, roles, scope, place)
        raise BlockedError(f"`{whole.kind}` is no operation on single values", of)

    def _map(self, of: Node, roles: Roles, scope: _Scope, place: int = 0) -> _Value:
        parts = parts_of(of)
        walked = tuple(_Given(i, scope, roles[:1]) for i in parts.varying)
        inner = self._scope((*walked, *(_Given(c, scope, ()) for c in parts.captures)))
        return self._at(parts.results["body"][place], roles[1:], inner)

    def _call(self, of: Node, roles: Roles, scope: _Scope) -> _Value:
        made = self._at(inline(of), roles, scope)
        callee = of["function"]
        if isinstance(callee, Function) and function_name(callee) in RISING and len(of.inputs) == 1:
            self.rising[made.node.id] = self._at(of.inputs[0], roles, scope).node
        return made

    def _if(self, of: Node, roles: Roles, scope: _Scope, place: int = 0) -> _Value:
        """A branch on one value: both sides are values, so it is a choice between them."""
        if roles:
            raise BlockedError("a branch on one value chooses whole arrays", of)
        condition, *captures = of.inputs
        inner = self._scope(tuple(_Given(c, scope, ()) for c in captures))
        sides = [items_of(body_of(of, name).result)[place] for name in ("then", "otherwise")]
        values = [self._at(condition, roles, scope), *(self._at(side, roles, inner) for side in sides)]
        inputs = [value.node for value in values]
        made = node("select", inputs, {}, result_type("select", [i.type for i in inputs], {}))
        return self._joined(of, values, made)

    def _reshape(self, of: Node, roles: Roles, scope: _Scope) -> _Value:
        """Positions may be counted otherwise as long as they keep their order and the channels are the last axis."""
        (x,) = of.inputs
        assert isinstance(x.type, Tensor) and isinstance(of.type, Tensor), of
        if not any(roles):
            return self._at(x, (False,) * len(x.type.shape), scope)
        if not x.type.shape or not roles[-1] or x.type.shape[-1] != of.type.shape[-1]:
            raise BlockedError("channels change place", of)
        return self._at(x, (False,) * (len(x.type.shape) - 1) + (True,), scope)

    def _move(self, of: Node, roles: Roles, scope: _Scope) -> _Value:
        return self._at(of.inputs[0], roles, scope)

    def _lookup(self, of: Node, roles: Roles, scope: _Scope) -> _Value:
        table, entry = of.inputs
        if not is_closed(table):
            raise BlockedError("its table is no constant", of)
        value = self._at(entry, roles, scope)
        return self._joined(of, [value], self._op(of, [table, value.node]))

    def _scope(self, given: tuple[_Given, ...]) -> _Scope:
        made = _Scope(given)
        self.scopes.append(made)
        return made

    # Constants

    def _is_closed(self, of: Node) -> bool:
        if of.id not in self.closed:
            self.closed[of.id] = is_closed(of)
        return self.closed[of.id]

    def _constant(self, of: Node, roles: Roles, scope: _Scope) -> Node:
        """Return a value without parameters in the form: one number, or one for each channel."""
        assert isinstance(of.type, Tensor), of
        if of.kind in ("broadcast", "fill"):
            inner = of.inputs[0]
            assert isinstance(inner.type, Tensor), inner
            kept = len(inner.type.shape)
            return self._constant(inner, roles[len(roles) - kept :], scope)
        sizes = [size.constant for size in of.type.shape]
        if None not in sizes and int(np.prod([size or 0 for size in sizes])) <= _LARGEST_CONSTANT:
            return self._spread(of, _evaluated(of), roles)
        return self._opened(of, roles, scope).node

    def _spread(self, of: Node, array: Array, roles: Roles) -> Node:
        assert isinstance(of.type, Tensor), of
        if not array.size:
            raise BlockedError("it has no value", of)
        for axis in range(array.ndim - 1, -1, -1):
            first = array.take([0], axis)
            is_same = array.shape[axis] == 1 or _same(array, first)
            if is_same:
                array = first.squeeze(axis)
            elif not any(roles) and self.channels == 1 and axis == array.ndim - 1:
                raise _NeedsChannelsError
            elif not roles[axis]:
                raise BlockedError("its constants differ from place to place", of)
        if array.ndim > 1 or (array.ndim and array.shape[0] != self.channels):
            raise BlockedError("its constants differ from place to place", of)
        value = const(array, of.type.element)
        front = self.shape[: 2 - array.ndim]
        return node("broadcast", [value], {"shape": front}, Tensor(of.type.element, self.shape))


_HANDLERS: dict[str, Callable[[_Walk, Node, Roles, _Scope], _Value]] = {
    **{"param": _Walk._param, "item": _Walk._item, "map": _Walk._map, "call": _Walk._call, "if": _Walk._if},
    **{"reshape": _Walk._reshape, "move": _Walk._move, "lookup": _Walk._lookup},
}


def _evaluated(of: Node) -> Array:
    try:
        made: Array = evaluate(Function(0, (), of), [])
    except BitternError as error:
        raise BlockedError(f"a constant cannot be computed ({error.what})", of) from error
    return made


def _same(array: Array, first: Array) -> bool:
    """Whether an array repeats its first part, bit for bit."""
    left, right = np.ascontiguousarray(array), np.ascontiguousarray(np.broadcast_to(first, array.shape))
    return left.tobytes() == right.tobytes()


def _is_whole(element: Element) -> bool:
    return element.is_integer or element.kind is Kind.SIGN


def _keeps_shape(of: Node) -> bool:
    source, made = of.inputs[0].type, of.type
    return isinstance(source, Tensor) and isinstance(made, Tensor) and source.shape == made.shape


def _size(type_: Tensor) -> Dim:
    total = dim(1)
    for size in type_.shape:
        total = total * size
    return total
