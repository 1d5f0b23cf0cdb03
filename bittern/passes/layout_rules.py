"""The rules of layout, a row each: which kinds it looks at, what it says, and what makes the node that takes its place.

All sizes that a row compares are compared as dimensions; where it cannot tell, it does nothing. A place is known where
its index is a constant or a size without symbols, and then the clamp of `take` and the guard of `update` are settled.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from bittern.graph.node import Attribute, Node, node
from bittern.graph.rules import result_type
from bittern.passes.known import spread, spread_of, word, word_of
from bittern.types.dims import Dim, dim
from bittern.types.values import Tensor

Change: TypeAlias = Callable[[Node], Node | None]

_MOST_SCALARS = 16  # the longest array whose update is written out


@dataclass(frozen=True, slots=True)
class Layout:
    """One row. kinds: of the nodes that it looks at. change: returns the node that takes the place, or None."""

    name: str
    kinds: tuple[str, ...]
    doc: str
    change: Change


ELEMENTWISE = frozenset(
    [
        "add",
        "sub",
        "mul",
        "div",
        "rem",
        "min",
        "max",
        "add_sat",
        "sub_sat",
        "mul_high",
        "neg",
        "abs",
        "sqrt",
        "round_even",
        "floor",
        "ceil",
        "trunc",
        "eq",
        "ne",
        "lt",
        "le",
        "select",
        "and",
        "or",
        "xor",
        "not",
        "popcount",
        "clz",
        "ctz",
        "shl",
        "shr",
        "rotl",
        "rotr",
        "reverse_bits",
        "reverse_bytes",
        "extract",
        "deposit",
        "bits",
        "convert",
        "wrap",
        "sat",
        "round",
        "sign",
    ]
)
"""Ops whose result has the shape of every operand, and depends on one value of each."""


def make(kind: str, inputs: list[Node], **attributes: Attribute) -> Node:
    """Return a node of an op with the type of its rule."""
    return node(kind, inputs, attributes, result_type(kind, [i.type for i in inputs], attributes))


def tensor_of(of: Node) -> Tensor:
    """Return the type of a node that is an array."""
    assert isinstance(of.type, Tensor), of
    return of.type


def _number(of: Node, name: str) -> int:
    value = of[name]
    assert isinstance(value, int), (of, name)
    return value


def _dim(of: Node, name: str) -> Dim:
    value = of[name]
    assert isinstance(value, (Dim, int)), (of, name)
    return dim(value)


def _shape(of: Node) -> tuple[Dim, ...]:
    return tensor_of(of).shape


def _first(of: Node) -> int | None:
    """Return the known length of the first axis."""
    shape = _shape(of)
    return shape[0].constant if shape else None


# --- shapes


def _same_shape(of: Node) -> Node | None:
    return of.inputs[0] if of.type == of.inputs[0].type else None


def _reshape_twice(of: Node) -> Node | None:
    inner = of.inputs[0]
    return make("reshape", [inner.inputs[0]], shape=_shape(of)) if inner.kind == "reshape" else None


def _permute_same(of: Node) -> Node | None:
    return of.inputs[0] if of["axes"] == tuple(range(len(_shape(of)))) else None


def _permute_twice(of: Node) -> Node | None:
    inner, axes = of.inputs[0], of["axes"]
    if inner.kind != "permute":
        return None
    before = inner["axes"]
    assert isinstance(axes, tuple) and isinstance(before, tuple)
    return make("permute", [inner.inputs[0]], axes=tuple(before[a] for a in axes if isinstance(a, int)))


def _permute_of_ones(of: Node) -> Node | None:
    """Axes of length 1 may move freely: if all others keep their order, it is a reshape."""
    axes, shape = of["axes"], _shape(of.inputs[0])
    assert isinstance(axes, tuple)
    moved = [a for a in axes if isinstance(a, int) and shape[a].constant != 1]
    if moved != sorted(moved) or tensor_of(of).element.is_format:
        return None
    return make("reshape", [of.inputs[0]], shape=_shape(of))


def _reverse_twice(of: Node) -> Node | None:
    inner = of.inputs[0]
    return inner.inputs[0] if inner.kind == "reverse" and inner["axis"] == of["axis"] else None


def _reverse_one(of: Node) -> Node | None:
    return of.inputs[0] if _shape(of)[_number(of, "axis")].constant in (0, 1) else None


def _of_spread(of: Node) -> Node | None:
    """A move of an array of one value is an array of that value."""
    source = of.inputs[0]
    if source.kind not in ("fill", "broadcast"):
        return None
    scalar = spread_of(source)
    if scalar is None or tensor_of(of).space != tensor_of(scalar).space:
        return None
    return spread(scalar, _shape(of))


def _broadcast_twice(of: Node) -> Node | None:
    inner, shape = of.inputs[0], of["shape"]
    if inner.kind != "broadcast":
        return None
    more = inner["shape"]
    assert isinstance(shape, tuple) and isinstance(more, tuple)
    return make("broadcast", [inner.inputs[0]], shape=(*shape, *more))


def _broadcast_of_none(of: Node) -> Node | None:
    return of.inputs[0] if of["shape"] == () else None


def _elementwise_of_spreads(of: Node) -> Node | None:
    """An operation on arrays of one value each is done once."""
    shape = _shape(of)
    scalars = [spread_of(i) if i.kind in ("fill", "broadcast") else None for i in of.inputs]
    if not shape or not scalars:
        return None
    inner = [s for s in scalars if s is not None]
    return spread(make(of.kind, inner, **dict(of.attributes)), shape) if len(inner) == len(scalars) else None


def _move_nowhere(of: Node) -> Node | None:
    return of.inputs[0] if of["space"] == tensor_of(of.inputs[0]).space else None


# --- slices and joins


def _slice_whole(of: Node) -> Node | None:
    is_whole = _dim(of, "low") == dim(0) and _dim(of, "high") == _shape(of.inputs[0])[_number(of, "axis")]
    return of.inputs[0] if is_whole and of["stride"] == 1 else None


def _slice_twice(of: Node) -> Node | None:
    inner = of.inputs[0]
    if inner.kind != "slice" or inner["axis"] != of["axis"]:
        return None
    step, low = _number(inner, "stride"), _dim(inner, "low")
    count = _shape(of)[_number(of, "axis")].constant
    if count == 0 or (step != 1 and count is None):
        return None
    start, stride = low + _dim(of, "low") * step, _number(of, "stride") * step
    end = start + (count - 1) * stride + 1 if count is not None else low + _dim(of, "high")
    return make("slice", [inner.inputs[0]], axis=_number(of, "axis"), low=start, high=end, stride=stride)


def _slice_of_concat(of: Node) -> Node | None:
    """A slice that lies in one of the parts is a slice of that part."""
    joined, axis = of.inputs[0], of["axis"]
    if joined.kind != "concat" or joined["axis"] != axis or not isinstance(axis, int):
        return None
    low, high, start = _dim(of, "low"), _dim(of, "high"), dim(0)
    for part in joined.inputs:
        end = start + _shape(part)[axis]
        if _is_within(start, low) and _is_within(high, end):
            return make("slice", [part], axis=axis, low=low - start, high=high - start, stride=_number(of, "stride"))
        start = end
    return None


def _is_within(low: Dim, high: Dim) -> bool:
    distance = (high - low).constant
    return distance is not None and distance >= 0


def _concat_one(of: Node) -> Node | None:
    return of.inputs[0] if len(of.inputs) == 1 else None


def _concat_nested(of: Node) -> Node | None:
    if not any(part.kind == "concat" and part["axis"] == of["axis"] for part in of.inputs):
        return None
    parts: list[Node] = []
    for part in of.inputs:
        parts += part.inputs if part.kind == "concat" and part["axis"] == of["axis"] else (part,)
    return make("concat", parts, axis=_number(of, "axis"))


def _concat_empty(of: Node) -> Node | None:
    axis = _number(of, "axis")
    parts = [part for part in of.inputs if _shape(part)[axis].constant != 0]
    return make("concat", parts, axis=axis) if 0 < len(parts) < len(of.inputs) else None


def _concat_of_slices(of: Node) -> Node | None:
    """Neighbouring slices of one array are one slice of it."""
    axis = _number(of, "axis")
    parts: list[Node] = []
    for part in of.inputs:
        last = parts[-1] if parts else None
        if last is not None and _are_neighbours(last, part, axis):
            low, high = _dim(last, "low"), _dim(part, "high")
            parts[-1] = make("slice", [part.inputs[0]], axis=axis, low=low, high=high, stride=1)
        else:
            parts.append(part)
    if len(parts) == len(of.inputs):
        return None
    return make("concat", parts, axis=axis) if len(parts) > 1 else parts[0]


def _are_neighbours(left: Node, right: Node, axis: int) -> bool:
    return all(s.kind == "slice" and s["axis"] == axis and s["stride"] == 1 for s in (left, right)) and (
        left.inputs[0] is right.inputs[0] and _dim(left, "high") == _dim(right, "low")
    )


# --- known places


def _place(index: Node, length: int | None) -> int | None:
    """Return the place that `take` reads at an index, or None if it is not known."""
    found = word_of(index)
    if found is None or not length:
        return None
    return min(found, length - 1)


def _take_of_spread(of: Node) -> Node | None:
    source = of.inputs[0]
    scalar = spread_of(source) if source.kind in ("fill", "broadcast") else None
    return None if scalar is None else spread(scalar, _shape(of))


def _take_of_broadcast(of: Node) -> Node | None:
    """Any element of a repeated array is the array."""
    source = of.inputs[0]
    is_row = source.kind == "broadcast" and len(of.inputs) == 2 and not _shape(of.inputs[1])
    shape = source["shape"] if is_row else ()
    if not isinstance(shape, tuple) or len(shape) == 0:
        return None
    rest = tuple(size for size in shape[1:] if isinstance(size, Dim))
    return make("broadcast", [source.inputs[0]], shape=rest)


def _take_of_stack(of: Node) -> Node | None:
    source = of.inputs[0]
    if source.kind != "stack" or source["axis"] != 0:
        return None
    place = _place(of.inputs[1], len(source.inputs))
    return None if place is None else _rest_of_take(source.inputs[place], of)


def _rest_of_take(value: Node, of: Node) -> Node | None:
    """Return what a `take` reads when its first index is settled and gives `value`."""
    rest = list(of.inputs[2:])
    if not rest:
        return value
    return make("take", [value, *rest]) if all(not _shape(i) for i in rest) else None


def _take_of_concat(of: Node) -> Node | None:
    source = of.inputs[0]
    if source.kind != "concat" or source["axis"] != 0:
        return None
    place, start = _place(of.inputs[1], _first(source)), 0
    for part in source.inputs:
        length = _first(part)
        if place is None or length is None:
            return None
        if place < start + length:
            return make("take", [part, word(place - start), *of.inputs[2:]])
        start += length
    return None


def _take_of_slice(of: Node) -> Node | None:
    source = of.inputs[0]
    if source.kind != "slice" or source["axis"] != 0:
        return None
    place, low = _place(of.inputs[1], _first(source)), _dim(source, "low").constant
    if place is None or low is None:
        return None
    return make("take", [source.inputs[0], word(low + place * _number(source, "stride")), *of.inputs[2:]])


def _take_of_take(of: Node) -> Node | None:
    """An element of an element: one read with more indices."""
    source = of.inputs[0]
    if source.kind != "take" or any(_shape(i) for i in (*source.inputs[1:], *of.inputs[1:])):
        return None
    return make("take", [*source.inputs, *of.inputs[1:]])


def _take_of_update(of: Node) -> Node | None:
    """What was just written is read; what was written elsewhere is not in the way."""
    source = of.inputs[0]
    if source.kind != "update" or len(source.inputs) != 3 or _shape(of.inputs[1]):
        return None
    length = _first(source)
    read, written = _place(of.inputs[1], length), word_of(source.inputs[1])
    if read is None or written is None:
        return None
    if read == written:
        return _rest_of_take(source.inputs[2], of)
    return make("take", [source.inputs[0], *of.inputs[1:]])


def _take_of_iota(of: Node) -> Node | None:
    source = of.inputs[0]
    place = _place(of.inputs[1], _first(source)) if source.kind == "iota" else None
    return None if place is None else word(place)


def _take_of_reshaped_row(of: Node) -> Node | None:
    """The only element of an axis of length 1 is the array without that axis."""
    source = of.inputs[0]
    shape = _shape(source)
    if len(of.inputs) != 2 or _shape(of.inputs[1]) or shape[0].constant != 1 or tensor_of(source).element.is_format:
        return None
    return make("reshape", [source], shape=shape[1:])


def _update_of_known(of: Node) -> Node | None:
    """A short array with one known element replaced is a stack of elements; a write outside is none."""
    source, length, place = of.inputs[0], _first(of), word_of(of.inputs[1])
    if len(of.inputs) != 3 or length is None or place is None:
        return None
    if place >= length:
        return source
    if source.kind == "stack" and source["axis"] == 0:
        parts = list(source.inputs)
    elif length <= _MOST_SCALARS and len(_shape(of)) == 1:
        parts = [make("take", [source, word(i)]) for i in range(length)]
    else:
        return None
    parts[place] = of.inputs[2]
    return make("stack", parts, axis=0)


def _stack_of_takes(of: Node) -> Node | None:
    """All elements of an array in order are the array."""
    first = of.inputs[0]
    if of["axis"] != 0 or first.kind != "take" or _first(first.inputs[0]) != len(of.inputs):
        return None
    source = first.inputs[0]
    for place, part in enumerate(of.inputs):
        if part.kind != "take" or part.inputs[0] is not source or len(part.inputs) != 2:
            return None
        if _shape(part.inputs[1]) or word_of(part.inputs[1]) != place:
            return None
    return source


def _stack_one(of: Node) -> Node | None:
    if len(of.inputs) != 1 or tensor_of(of).element.is_format:
        return None
    return make("reshape", [of.inputs[0]], shape=_shape(of))


def _stack_of_same(of: Node) -> Node | None:
    if of["axis"] != 0 or len(of.inputs) < 2 or any(part is not of.inputs[0] for part in of.inputs):
        return None
    return make("broadcast", [of.inputs[0]], shape=(dim(len(of.inputs)),))


def _slice_of_stack(of: Node) -> Node | None:
    source, low, high = of.inputs[0], _dim(of, "low").constant, _dim(of, "high").constant
    if source.kind != "stack" or source["axis"] != 0 or of["axis"] != 0 or low is None or high is None or low >= high:
        return None
    return make("stack", list(source.inputs[low : high : _number(of, "stride")]), axis=0)


def _known_slice(of: Node) -> Node | None:
    """A slice from a known start has static bounds; the start is clamped so that it fits."""
    source, start = of.inputs
    length, whole, place = _dim(of, "length"), _shape(source)[0], word_of(start)
    room = (whole - length).constant
    if place is None or room is None:
        return None
    low = dim(min(place, room))
    return make("slice", [source], axis=0, low=low, high=low + length, stride=1)


_MOVES = ("reshape", "permute", "reverse", "slice", "dynamic_slice")

ROWS: tuple[Layout, ...] = (
    Layout("same_shape", ("reshape",), "a reshape to the same shape is none", _same_shape),
    Layout("reshape_twice", ("reshape",), "two reshapes are the last one", _reshape_twice),
    Layout("permute_same", ("permute",), "axes in order stay", _permute_same),
    Layout("permute_twice", ("permute",), "two permutations are one", _permute_twice),
    Layout("permute_of_ones", ("permute",), "moving axes of length 1 is a reshape", _permute_of_ones),
    Layout("reverse_twice", ("reverse",), "two reversals of an axis are none", _reverse_twice),
    Layout("reverse_one", ("reverse",), "one element has no order", _reverse_one),
    Layout("of_spread", _MOVES, "a move of one value repeated is that value repeated", _of_spread),
    Layout("broadcast_twice", ("broadcast",), "two broadcasts are one", _broadcast_twice),
    Layout("broadcast_of_none", ("broadcast",), "a broadcast over no axis is none", _broadcast_of_none),
    Layout(
        "done_once", tuple(sorted(ELEMENTWISE)), "what is equal everywhere is computed once", _elementwise_of_spreads
    ),
    Layout("move_nowhere", ("move",), "a move to the same space is none", _move_nowhere),
    Layout("slice_whole", ("slice",), "a slice of everything is none", _slice_whole),
    Layout("slice_twice", ("slice",), "two slices of an axis are one", _slice_twice),
    Layout("slice_of_concat", ("slice",), "a slice inside one part is a slice of it", _slice_of_concat),
    Layout("slice_of_stack", ("slice",), "a slice of a stack is a stack of fewer", _slice_of_stack),
    Layout("concat_one", ("concat",), "one part is the whole", _concat_one),
    Layout("concat_nested", ("concat",), "parts of parts are parts", _concat_nested),
    Layout("concat_empty", ("concat",), "empty parts go", _concat_empty),
    Layout("concat_of_slices", ("concat",), "neighbouring slices are one", _concat_of_slices),
    Layout("take_of_spread", ("take",), "any element of one value repeated is that value", _take_of_spread),
    Layout("take_of_broadcast", ("take",), "any element of a repeated array is the array", _take_of_broadcast),
    Layout("take_of_stack", ("take",), "a known element of a stack is that part", _take_of_stack),
    Layout("take_of_concat", ("take",), "a known element of a join is one of a part", _take_of_concat),
    Layout("take_of_slice", ("take",), "a known element of a slice is one of the array", _take_of_slice),
    Layout("take_of_take", ("take",), "an element of an element is read at once", _take_of_take),
    Layout("take_of_update", ("take",), "what was written is read", _take_of_update),
    Layout("take_of_iota", ("take",), "a known number of a row of numbers", _take_of_iota),
    Layout("only_element", ("take",), "the only element of an axis is the array without it", _take_of_reshaped_row),
    Layout("update_of_known", ("update",), "a short array with a known element replaced is a stack", _update_of_known),
    Layout("stack_of_takes", ("stack",), "all elements in order are the array", _stack_of_takes),
    Layout("stack_one", ("stack",), "a stack of one is a reshape", _stack_one),
    Layout("stack_of_same", ("stack",), "a stack of equal parts is a broadcast", _stack_of_same),
    Layout("known_slice", ("dynamic_slice",), "a slice from a known start has known bounds", _known_slice),
)
