"""Width inference: the exact interval of every whole-number value of a network.

In goes a function, out comes for each node the least and the greatest value that it can have, for each channel of its
last axis where constants tell channels apart. An accumulator's interval is that of its actual weights and of what its
inputs can be, padding included. Intervals are sound: no input gives a value outside. Those of a sum of products of
independent inputs are also exact. What wraps, or comes from floats, has the interval of its element.

Bodies and callees are walked with the intervals of what they are given; layers of the library have rules of their own
(`SUMS`), because a body that maps over channels cannot tell them apart.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bittern.graph.node import Function, Node, walk
from bittern.graph.rewrite import inline
from bittern.ops.table import Array
from bittern.passes.applied import Applied, applied
from bittern.passes.bodies import STRUCTURED, parts_of
from bittern.passes.known import array_of
from bittern.passes.rewriting import index_of
from bittern.types.elements import Element, Kind
from bittern.types.values import Tensor, Tuple, Type

_MOST = 1 << 61  # beyond that an interval is that of the element


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """The least and the greatest value. low, high: i64 of shape [] or [channels of the last axis]."""

    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]

    @property
    def least(self) -> int:
        """The least value of all channels."""
        return int(self.low.min())

    @property
    def most(self) -> int:
        """The greatest value of all channels."""
        return int(self.high.max())

    @property
    def bits(self) -> int:
        """How many bits hold every value: without a sign where none is negative, else in two's complement."""
        if self.least >= 0:
            return max(1, self.most.bit_length())
        return 1 + max((-self.least - 1).bit_length(), max(self.most, 0).bit_length())

    def whole(self) -> "Interval":
        """Return the interval of all channels together."""
        return interval(self.least, self.most)

    def covers(self, values: Array) -> bool:
        """Whether every value lies inside. values: [..., channels]."""
        return bool(np.all((self.low <= values) & (values <= self.high)))


Found: TypeAlias = "Interval | list[Any] | None"
"""Of a tensor of whole numbers; of a tuple a list; of floats None."""


def interval(low: Any, high: Any) -> Interval:
    """Return an interval of numbers or of one number for each channel; a row of equal numbers is one number."""
    ends = np.broadcast_arrays(np.asarray(low, np.int64), np.asarray(high, np.int64))
    if ends[0].ndim and ends[0].size and all(bool((end == end[0]).all()) for end in ends):
        ends = tuple(end[0] for end in ends)
    return Interval(np.array(ends[0]), np.array(ends[1]))


def element_interval(element: Element) -> Interval | None:
    """Return the interval of all values of an element; None of floats and formats."""
    if element.is_float or element.is_format or element.kind is Kind.OPEN:
        return None
    return interval(max(element.low, -(1 << 63)), min(element.high, (1 << 63) - 1))


def intervals(function: Function, given: Mapping[int, Interval] | None = None) -> dict[bytes, Interval]:
    """Return the interval of each node of a function that has one. given: what parameters are known to be, by index."""
    known = given or {}
    params = [known.get(place, _of_type(each.type)) for place, each in enumerate(function.params)]
    found = _Scope(params).all_of(function.result)
    return {key: value for key, value in found.items() if isinstance(value, Interval)}


def _of_type(type_: Type) -> Found:
    if isinstance(type_, Tensor):
        return element_interval(type_.element)
    return [_of_type(item) for item in type_.items] if isinstance(type_, Tuple) else None


class _Scope:
    """The nodes of one graph. params: what its parameters are."""

    def __init__(self, params: Sequence[Found]) -> None:
        self.params = params
        self.found: dict[bytes, Found] = {}

    def all_of(self, result: Node) -> dict[bytes, Found]:
        """Return what is known of a node and of all that it depends on."""
        for each in walk(result):
            if each.id not in self.found:
                self.found[each.id] = self._fitted(each)
        return self.found

    def _fitted(self, of: Node) -> Found:
        """Return an interval that the element has; where the op could leave it, the element's."""
        made = self._node(of)
        if not isinstance(of.type, Tensor) or not isinstance(made, Interval | None):
            return made
        whole = element_interval(of.type.element)
        if made is None or whole is None:
            return whole
        return made if whole.least <= made.least and made.most <= whole.most else whole

    def _node(self, of: Node) -> Found:
        match of.kind:
            case "param":
                return self.params[index_of(of)]
            case "const":
                return _constant(of)
            case "tuple":
                return [self.found[i.id] for i in of.inputs]
            case "item":
                parts = self.found[of.inputs[0].id]
                return parts[index_of(of)] if isinstance(parts, list) else _of_type(of.type)
        layer = applied(of)
        if layer is not None and (row := LAYERS.get(layer.name)) is not None:
            given = [self.all_of(argument)[argument.id] for argument in layer.arguments]
            return row(layer, given)
        if of.kind == "call":
            inner = inline(of)
            return self.all_of(inner)[inner.id]
        if of.kind in STRUCTURED:
            return self._structured(of)
        return self._op(of)

    def _structured(self, of: Node) -> Found:
        """Return what a map or a branch gives; of a loop what its type says."""
        parts = parts_of(of)
        if parts.kind not in ("map", "if"):
            return _of_type(of.type)
        given = [_item(self.found[i.id], i.type) for i in parts.varying]
        given += [self.found[i.id] for i in parts.captures]
        results = [_Scope(given).all_of(body.result)[body.result.id] for body in parts.bodies.values()]
        return results[0] if len(results) == 1 else _either(results[0], results[1], of.type)

    def _op(self, of: Node) -> Found:
        row = OPS.get(of.kind)
        given = [self.found[i.id] for i in of.inputs]
        if row is None:
            return _of_type(of.type)
        inner = [each for each in given if isinstance(each, Interval)]
        if len(inner) != len(given) and of.kind != "take":
            return _of_type(of.type)
        made = row(of, inner)
        return None if made is not None and max(abs(made.least), abs(made.most)) > _MOST else made


def _item(found: Found, type_: Type) -> Found:
    """Return what one element of an array's first axis is."""
    is_row = isinstance(type_, Tensor) and len(type_.shape) == 1
    return found.whole() if is_row and isinstance(found, Interval) else found


def _either(left: Found, right: Found, type_: Type) -> Found:
    if isinstance(left, Interval) and isinstance(right, Interval):
        return _joined(left, right)
    return _of_type(type_)


def _joined(left: Interval, right: Interval) -> Interval:
    if left.low.shape != right.low.shape and left.low.ndim and right.low.ndim:
        left, right = left.whole(), right.whole()
    return interval(np.minimum(left.low, right.low), np.maximum(left.high, right.high))


def _constant(of: Node) -> Found:
    stored = array_of(of)
    if not isinstance(of.type, Tensor) or stored is None or stored.dtype.kind not in "iub" or of.type.element.is_format:
        return _of_type(of.type)
    if not stored.size or of.type.element.is_float or of.type.element.bits > 63:
        return _of_type(of.type)
    axes = tuple(range(stored.ndim - 1))
    return interval(stored.min(axes), stored.max(axes)) if stored.ndim else interval(stored, stored)


# --- ops


Rule: TypeAlias = Callable[[Node, Sequence[Interval]], "Interval | None"]


def _corners(meaning: Callable[[Any, Any], Any]) -> Rule:
    """Return the rule of an op whose extremes lie where its operands have theirs."""

    def rule(of: Node, given: Sequence[Interval]) -> Interval | None:
        x, y = _alike(given)
        if any(max(abs(each.least), abs(each.most)) > 1 << 31 for each in (x, y)):
            return None
        ends = [meaning(a, b) for a in (x.low, x.high) for b in (y.low, y.high)]
        return interval(np.minimum.reduce(ends), np.maximum.reduce(ends))

    return rule


def _alike(given: Sequence[Interval]) -> Sequence[Interval]:
    """Return intervals that broadcast: rows of one length."""
    sizes = {each.low.shape for each in given if each.low.ndim}
    return [each.whole() for each in given] if len(sizes) > 1 else given


def _same(of: Node, given: Sequence[Interval]) -> Interval | None:
    return given[0]


def _hull(of: Node, given: Sequence[Interval]) -> Interval | None:
    return given[0].whole()


def _neg(of: Node, given: Sequence[Interval]) -> Interval | None:
    return interval(-given[0].high, -given[0].low)


def _abs(of: Node, given: Sequence[Interval]) -> Interval | None:
    x = given[0]
    low = np.where((x.low <= 0) & (x.high >= 0), 0, np.minimum(abs(x.low), abs(x.high)))
    return interval(low, np.maximum(abs(x.low), abs(x.high)))


def _flag(of: Node, given: Sequence[Interval]) -> Interval | None:
    return interval(0, 1)


def _select(of: Node, given: Sequence[Interval]) -> Interval | None:
    return _joined(given[1], given[2])


def _clamped(of: Node, given: Sequence[Interval]) -> Interval | None:
    assert isinstance(of.type, Tensor), of
    whole = element_interval(of.type.element)
    assert whole is not None, of
    return interval(*(np.clip(end, whole.least, whole.most) for end in (given[0].low, given[0].high)))


def _converted(of: Node, given: Sequence[Interval]) -> Interval | None:
    assert isinstance(of.type, Tensor) and isinstance(of.inputs[0].type, Tensor), of
    source, to = of.inputs[0].type.element, of.type.element
    if source.kind is Kind.BIT and to.name == "b1":
        return interval(-1, 1)
    return given[0]


def _sign(of: Node, given: Sequence[Interval]) -> Interval | None:
    assert isinstance(of.type, Tensor), of
    x = given[0]
    if of.type.element.name == "b1":
        return interval(np.where(x.low < 0, -1, 1), np.where(x.high < 0, -1, 1))
    return interval(np.sign(x.low), np.sign(x.high))


def _reshape(of: Node, given: Sequence[Interval]) -> Interval | None:
    old, new = of.inputs[0].type, of.type
    assert isinstance(old, Tensor) and isinstance(new, Tensor), of
    is_kept = bool(old.shape and new.shape) and old.shape[-1] == new.shape[-1]
    return given[0] if is_kept else given[0].whole()


def _permute(of: Node, given: Sequence[Interval]) -> Interval | None:
    axes = of["axes"]
    assert isinstance(axes, tuple), of
    return given[0] if axes and axes[-1] == len(axes) - 1 else given[0].whole()


def _along(of: Node, given: Sequence[Interval]) -> Interval | None:
    """Reverse, slices and windows keep channels unless they work on the last axis."""
    assert isinstance(of.inputs[0].type, Tensor), of
    return given[0].whole() if of["axis"] == len(of.inputs[0].type.shape) - 1 else given[0]


def _pad(of: Node, given: Sequence[Interval]) -> Interval | None:
    x, value = given
    inner = _along(of, [x])
    return inner if inner is None else _joined(inner, value)


def _concat(of: Node, given: Sequence[Interval]) -> Interval | None:
    types = [i.type for i in of.inputs if isinstance(i.type, Tensor)]
    if of["axis"] == len(types[0].shape) - 1:
        sizes = [t.shape[-1].constant or 0 for t in types]
        if all(sizes) and sum(sizes) <= 1 << 16:
            ends = [
                [np.broadcast_to(end, (size,)) for end in (each.low, each.high)]
                for each, size in zip(given, sizes, strict=True)
            ]
            return interval(*(np.concatenate([pair[k] for pair in ends]) for k in (0, 1)))
        given = [each.whole() for each in given]
    return _all_joined(given)


def _stack(of: Node, given: Sequence[Interval]) -> Interval | None:
    assert isinstance(of.type, Tensor), of
    return _all_joined([each.whole() for each in given] if of["axis"] == len(of.type.shape) - 1 else given)


def _all_joined(given: Sequence[Interval]) -> Interval:
    made = given[0]
    for each in given[1:]:
        made = _joined(made, each)
    return made


def _take(of: Node, given: Sequence[Interval]) -> Interval | None:
    if not given or not isinstance(of.inputs[0].type, Tensor):
        return None
    is_inner = len(of.inputs) - 1 < len(of.inputs[0].type.shape)
    return given[0] if is_inner else given[0].whole()


def _sum(of: Node, given: Sequence[Interval]) -> Interval | None:
    count = _length(of)
    x = given[0].whole()
    return None if count is None else interval(count * x.low, count * x.high)


def _dot(of: Node, given: Sequence[Interval]) -> Interval | None:
    count = _length(of)
    product = _corners(np.multiply)(of, [each.whole() for each in given])
    return None if count is None or product is None else interval(count * product.low, count * product.high)


def _length(of: Node) -> int | None:
    type_ = of.inputs[0].type
    assert isinstance(type_, Tensor), of
    return type_.shape[-1].constant


def _shl(of: Node, given: Sequence[Interval]) -> Interval | None:
    x, count = given
    if count.least < 0 or count.most > 30 or max(abs(x.least), abs(x.most)) > 1 << 31:
        return None
    return _corners(np.left_shift)(of, given)


def _shr(of: Node, given: Sequence[Interval]) -> Interval | None:
    return None if given[1].least < 0 else _corners(lambda a, b: np.right_shift(a, np.minimum(b, 63)))(of, given)


OPS: dict[str, Rule] = {
    **{"add": _corners(np.add), "sub": _corners(np.subtract), "mul": _corners(np.multiply), "neg": _neg, "abs": _abs},
    **{"min": _corners(np.minimum), "max": _corners(np.maximum), "select": _select, "sign": _sign},
    **{"eq": _flag, "ne": _flag, "lt": _flag, "le": _flag, "all_of": _flag, "any_of": _flag},
    **{"convert": _converted, "wrap": _same, "sat": _clamped, "move": _same, "shl": _shl, "shr": _shr},
    **{"reshape": _reshape, "permute": _permute, "reverse": _along, "slice": _along, "windows": _along, "pad": _pad},
    **{"concat": _concat, "stack": _stack, "broadcast": _same, "fill": _same, "take": _take, "lookup": _hull},
    **{"dynamic_slice": _same, "sum": _sum, "dot": _dot, "max_of": _hull, "min_of": _hull},
}
"""What an op makes of intervals, all of whose operands are whole numbers; any other op has that of its element."""


# --- layers


Layer: TypeAlias = Callable[[Applied, Sequence[Found]], Found]

# name -> axes of the weights by letter, those that are summed, the one of the result's last axis
SUMS: dict[str, tuple[str, str, str]] = {
    "dense.dense": ("mn", "n", "m"),
    "convolution.conv1d": ("mpc", "pc", "m"),
    "convolution.conv2d": ("mpqc", "pqc", "m"),
    "convolution.conv3d": ("mpqrc", "pqrc", "m"),
    "convolution.depthwise1d": ("pc", "p", "c"),
    "convolution.depthwise2d": ("pqc", "pq", "c"),
    "convolution.conv1d_grouped": ("gmpc", "pc", "m"),
    "convolution.conv2d_grouped": ("gmpqc", "pqc", "m"),
    "convolution.local1d": ("ompc", "pc", "m"),
    "convolution.local2d": ("ovmpqc", "pqc", "m"),
}


def _weighted(axes: str, summed: str, kept: str) -> Layer:
    """Return the rule of a sum of products with weights."""

    def rule(layer: Applied, given: Sequence[Found]) -> Found:
        weights, x = given[0], given[1]
        if not isinstance(weights, Interval) or not isinstance(x, Interval):
            return _of_type(layer.call.type)
        stored = array_of(layer.arguments[0]) if not layer.mapped[0] else None
        if stored is None:
            return _without_weights(layer, weights, x, axes, summed)
        places = tuple(axes.index(letter) for letter in summed)
        positive, negative = _sums(np.maximum(stored, 0), x, places), _sums(np.minimum(stored, 0), x, places)
        low, high = positive[0] + negative[1], positive[1] + negative[0]
        left = [letter for letter in axes if letter not in summed]
        others = tuple(left.index(letter) for letter in left if letter != kept)
        return interval(low.min(others), high.max(others))

    return rule


def _sums(weights: Array, x: Interval, places: tuple[int, ...]) -> tuple[Any, Any]:
    """Return the sums of weights of one sign times the least and the greatest x."""
    if not x.low.ndim:
        total = weights.sum(places, dtype=np.int64)
        return total * x.low, total * x.high
    return tuple((weights.astype(np.int64) * end).sum(places) for end in (x.low, x.high))


def _without_weights(layer: Applied, weights: Interval, x: Interval, axes: str, summed: str) -> Found:
    type_ = layer.call.inputs[0].type
    assert isinstance(type_, Tensor), layer
    sizes = dict(zip(axes, (size.constant for size in type_.shape), strict=True))
    product = _corners(np.multiply)(layer.call, [weights.whole(), x.whole()])
    count = 1
    for letter in summed:
        size = sizes[letter]
        if size is None or product is None:
            return _of_type(layer.call.type)
        count *= size
    return None if product is None else interval(count * product.low, count * product.high)


def _pooled_sum(layer: Applied, given: Sequence[Found]) -> Found:
    type_, x = layer.call.inputs[0].type, given[0]
    assert isinstance(type_, Tensor), layer
    sizes = [size.constant for size in type_.shape[1:-1:2]]
    if not isinstance(x, Interval) or None in sizes:
        return _of_type(layer.call.type)
    count = int(np.prod([size or 0 for size in sizes]))
    return interval(count * x.low, count * x.high)


def _first(layer: Applied, given: Sequence[Found]) -> Found:
    return given[0]


def _bias(layer: Applied, given: Sequence[Found]) -> Found:
    x, b = given
    if not isinstance(x, Interval) or not isinstance(b, Interval):
        return _of_type(layer.call.type)
    total = interval(x.low + b.low, x.high + b.high)
    return total if total.least >= -(1 << 31) and total.most < 1 << 31 else _of_type(layer.call.type)


def _levels(layer: Applied, given: Sequence[Found]) -> Found:
    type_, low = layer.call.inputs[1].type, given[3]
    count = type_.shape[-1].constant if isinstance(type_, Tensor) else None
    if count is None or not isinstance(low, Interval):
        return _of_type(layer.call.type)
    return interval(low.low, low.high + count)


def _requantise(layer: Applied, given: Sequence[Found]) -> Found:
    low, high = given[4], given[5]
    if not isinstance(low, Interval) or not isinstance(high, Interval):
        return _of_type(layer.call.type)
    return interval(min(low.least, high.least), high.high)


LAYERS: dict[str, Layer] = {
    **{name: _weighted(*row) for name, row in SUMS.items()},
    **{"pooling.max_pool1d": _first, "pooling.max_pool2d": _first},
    **{"pooling.sum_pool1d": _pooled_sum, "pooling.sum_pool2d": _pooled_sum},
    **{"requantise.bias": _bias, "requantise.requantise": _requantise, "thresholds.levels": _levels},
}
"""What a function of the library makes of intervals; any other one is walked into."""

SUMMING = frozenset((*SUMS, "pooling.sum_pool1d", "pooling.sum_pool2d", "requantise.bias"))
"""Layers whose results are sums."""
