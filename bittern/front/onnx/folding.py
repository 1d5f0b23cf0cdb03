"""Operations on constants: what a file computes without any input is computed once, when it is read.

Floats are f32 with one rounding an operation. Sizes are bounded before anything is made. What depends on the batch size
is marked, so that it can shape tensors and nothing else.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from bittern.front.onnx.table import Site, whole_list
from bittern.front.onnx.values import Array, Coding, Known

_SPARE = ("Slice", "Squeeze", "Unsqueeze", "Reshape")  # operations that may leave inputs out
MOST_VALUES = 1 << 28  # of one folded tensor

Fold = Callable[..., Array]


def fold(site: Site, inputs: Sequence[Known | None]) -> Known | None:
    """Return the result of an operation on constants, or None if this is no operation that is folded."""
    made = _FOLDS.get(site.node.op)
    if made is None or (site.node.op not in _SPARE and any(each is None for each in inputs)):
        return None
    arrays = [None if each is None else each.array for each in inputs]
    try:
        with np.errstate(all="ignore"):
            result = np.asarray(made(site, *arrays))
    except (TypeError, ValueError, IndexError, OverflowError) as fault:  # numpy's words for operands that do not fit
        site.refuse("its constant operands do not fit each other", f"what the standard says of them ({fault})"[:200])
    if result.dtype.kind not in "biuf" or result.ndim > 16:
        site.refuse(f"it makes a constant of {result.dtype}", "numbers")
    of_batch = any(each is not None and each.of_batch for each in inputs)
    codes, element, coding = _parts(site, inputs)
    return Known(result, codes, element, coding, of_batch)


def bounded(site: Site, shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape after checking how much it asks for."""
    sizes = tuple(int(size) for size in shape)
    if any(size < 0 for size in sizes) or prod(max(size, 1) for size in sizes) > MOST_VALUES or len(sizes) > 16:
        site.refuse(f"it makes a constant of shape {list(sizes)}", f"constants of at most {MOST_VALUES} values")
    return sizes


def _parts(site: Site, inputs: Sequence[Known | None]) -> tuple[Array | None, str, Coding | None]:
    """Return codes, element and coding of a result that only moves a quantised constant."""
    first = inputs[0] if inputs else None
    nothing = (None, "", None)
    if first is None or first.codes is None or first.coding is None:
        return nothing
    if site.node.op == "Identity":
        return first.codes, first.element, first.coding
    if site.node.op == "Transpose":
        moved = [array if array.ndim == 0 else _transpose(site, array) for array in _arrays(first.coding)]
        return _transpose(site, first.codes), first.element, Coding(*moved)
    if first.coding.is_plain() and site.node.op in _MOVES:
        others = [None if each is None else each.array for each in inputs[1:]]
        return np.asarray(_FOLDS[site.node.op](site, first.codes, *others)), first.element, first.coding
    return nothing


def _arrays(coding: Coding) -> tuple[Array, Array]:
    return coding.scale, coding.zero


def _axes(site: Site, given: Array | None) -> tuple[int, ...]:
    """Return axes of an attribute (older versions) or of an input."""
    if given is not None:
        return whole_list(site, given, "axes")
    return site.wholes("axes") or ()


def _inside(site: Site, axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        site.refuse(f"its axis {axis} is outside a tensor of {rank} axes", f"an axis below {rank}")
    return axis % rank


def _reshape(site: Site, x: Array, shape: Array | None = None) -> Array:
    if shape is None:
        site.refuse("it has no shape", "a constant shape")
    return x.reshape(target_shape(site, x.shape, whole_list(site, shape, "shape")))


def target_shape(site: Site, given: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...]:
    """Return the shape that a reshape asks for: 0 keeps a size (unless `allowzero`), -1 takes what is left."""
    keeps = site.whole("allowzero") == 0
    sizes = [given[k] if size == 0 and keeps and k < len(given) else size for k, size in enumerate(wanted)]
    if sizes.count(-1) == 1:
        rest = prod(size for size in sizes if size != -1)
        sizes[sizes.index(-1)] = prod(given) // rest if rest else 0
    if any(size < 0 for size in sizes) or prod(sizes) != prod(given):
        site.refuse(f"it reshapes {list(given)} to {list(wanted)}", "shapes of equal size")
    return tuple(sizes)


def _transpose(site: Site, x: Array) -> Array:
    perm = site.wholes("perm") or tuple(reversed(range(x.ndim)))
    if sorted(perm) != list(range(x.ndim)):
        site.refuse(f"its `perm` {list(perm)} is no order of {x.ndim} axes", "each axis once")
    return x.transpose(perm)


def _unsqueeze(site: Site, x: Array, axes: Array | None = None) -> Array:
    wanted = _axes(site, axes)
    rank = x.ndim + len(wanted)
    places = sorted(_inside(site, axis, rank) for axis in wanted)
    if len(set(places)) != len(places):
        site.refuse("it names an axis twice", "each axis once")
    return np.expand_dims(x, tuple(places))


def _squeeze(site: Site, x: Array, axes: Array | None = None) -> Array:
    places = [_inside(site, axis, x.ndim) for axis in _axes(site, axes)]
    if any(x.shape[axis] != 1 for axis in places):
        site.refuse("it takes away an axis that is longer than 1", "axes of length 1")
    return x.reshape([n for k, n in enumerate(x.shape) if not (k in places or (not places and n == 1))])


def _gather(site: Site, x: Array, index: Array) -> Array:
    axis = _inside(site, site.whole("axis"), x.ndim)
    size = x.shape[axis]
    if index.size and not (-size <= int(index.min()) and int(index.max()) < size):
        site.refuse("its indices are out of range", f"indices below {size}")
    bounded(site, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))
    return np.take(x, index, axis)


def _concat(site: Site, *parts: Array) -> Array:
    axis = _inside(site, site.whole("axis"), parts[0].ndim)
    try:
        return np.concatenate(parts, axis)
    except ValueError:
        site.refuse("its operands do not fit each other", "equal shapes but for the joined axis")


def _slice(site: Site, x: Array, *bounds: Array | None) -> Array:
    index = [slice(None)] * x.ndim
    for axis, low, high, step in slices(site, x.ndim, bounds):
        index[axis] = slice(low, high if high > -_FAR else None, step)
    return x[tuple(index)]


_FAR = 1 << 62


def slices(site: Site, rank: int, bounds: Sequence[Array | None]) -> list[tuple[int, int, int, int]]:
    """Return (axis, low, high, step) of each sliced axis. bounds: starts, ends, axes, steps where they are inputs."""
    if bounds:
        lists = [None if each is None else list(whole_list(site, each, "list of places")) for each in bounds]
        starts, ends, axes, steps = (*lists, None, None, None)[:4]
    else:
        given = [site.wholes(name) for name in ("starts", "ends", "axes")]
        starts, ends, axes = (None if each is None else list(each) for each in given)
        steps = None
    if starts is None or ends is None:
        site.refuse("it has no starts or ends", "both as constants")
    axes = axes if axes is not None else list(range(len(starts)))
    steps = steps if steps is not None else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        site.refuse("its starts, ends, axes and steps do not fit each other", "lists of one length, no step 0")
    return [(_inside(site, a, rank), s, e, t) for a, s, e, t in zip(axes, starts, ends, steps, strict=True)]


def _cast(site: Site, x: Array) -> Array:
    names = {1: "float32", 2: "uint8", 3: "int8", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 11: "float64"}
    to = site.whole("to")
    if to not in names:
        site.refuse(f"it casts to the type of number {to}", "a cast to f32, to integers or to bool")
    return x.astype(names[to])


def _constant_of_shape(site: Site, shape: Array) -> Array:
    value = np.asarray(site.node.attributes.get("value", np.zeros(1, np.float32)))
    return np.full(bounded(site, whole_list(site, shape, "shape")), value.reshape(-1)[0], value.dtype)


def _range(site: Site, start: Array, limit: Array, delta: Array) -> Array:
    low, high, step = (each.reshape(()).item() for each in (start, limit, delta))
    if not step or not all(np.isfinite(each) for each in (low, high, step)):
        site.refuse("it counts in steps of 0 or without end", "finite bounds and a step")
    bounded(site, [max(0, int(np.ceil((high - low) / step)))])
    return np.arange(low, high, step, dtype=start.dtype)


def _expand(site: Site, x: Array, shape: Array) -> Array:
    try:
        wanted = np.broadcast_shapes(x.shape, whole_list(site, shape, "shape"))
    except ValueError:
        site.refuse("it expands to a shape that does not fit", "shapes that fit by broadcasting")
    return np.broadcast_to(x, bounded(site, wanted)).copy()


def _pow(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return np.asarray(np.power(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype))
    return np.asarray(np.power(x, np.maximum(y, 0)))


def _div(x: Array, y: Array) -> Array:
    """Return a quotient; of whole numbers towards 0, and 0 where the divisor is."""
    if x.dtype.kind == "f":
        return np.asarray(np.divide(x, y))
    safe = np.where(y == 0, 1, y)
    quotient = np.where(y == 0, 0, np.floor_divide(x, safe))
    return np.asarray(quotient + ((quotient < 0) & (quotient * safe != x)))


def _plain(function: Callable[..., Any], keeps: bool = False) -> Fold:
    def made(site: Site, *operands: Array) -> Array:
        try:
            shape = np.broadcast_shapes(*[each.shape for each in operands])
        except ValueError:
            site.refuse("its operands do not fit each other", "shapes that fit by broadcasting")
        bounded(site, shape)
        if len({each.dtype for each in operands if each.dtype != np.bool_}) > 1:
            site.refuse("its operands have several types", "operands of one type")
        result: Array = np.asarray(function(*operands))
        return result.astype(operands[0].dtype) if keeps else result

    return made


def _constant(site: Site) -> Array:
    attributes = site.node.attributes
    for name, dtype in _CONSTANTS.items():
        if name in attributes:
            return np.asarray(attributes[name], dtype)
    site.refuse("it holds no tensor and no numbers", "the attribute `value`")


_CONSTANTS: dict[str, Any] = {
    "value": None,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}

_FOLDS: dict[str, Fold] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Identity": lambda site, x, *others: x,
    "Cast": _cast,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Gather": _gather,
    "Concat": _concat,
    "Slice": _slice,
    "Range": _range,
    "Expand": _expand,
    "Size": lambda site, x: np.asarray(x.size, np.int64),
    "Add": _plain(np.add),
    "Sub": _plain(np.subtract),
    "Mul": _plain(np.multiply),
    "Div": _plain(_div, keeps=True),
    "Pow": _plain(_pow, keeps=True),
    "Neg": _plain(np.negative),
    "Abs": _plain(np.absolute),
    "Sqrt": _plain(np.sqrt),
    "Reciprocal": _plain(np.reciprocal),
    "Floor": _plain(np.floor),
    "Ceil": _plain(np.ceil),
    "Min": _plain(lambda *each: np.minimum.reduce(each)),
    "Max": _plain(lambda *each: np.maximum.reduce(each)),
    "Equal": _plain(np.equal),
    "Greater": _plain(np.greater),
    "Less": _plain(np.less),
    "Not": _plain(np.logical_not),
    "Where": _plain(np.where),
}
_MOVES = ("Reshape", "Unsqueeze", "Squeeze", "Gather", "Slice")
