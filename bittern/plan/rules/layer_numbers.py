"""What ends a layer of integers, read from constants: bias, output stage, and the range that sums have."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.kernels.conv_shapes import Area
from bittern.kernels.requantise import Rounding, Stage
from bittern.plan.flow import Apply, Value
from bittern.plan.scene import Scene

Ints = npt.NDArray[Any]

ROUNDINGS = ("tflite.rescale", "requantise.requantise")
_ENDS = (*ROUNDINGS, "tflite.average")
_BIAS = "requantise.bias"
ENDS = (_BIAS, *_ENDS)
_CODES = ("int8", "uint8", "bool")  # how codes of at most 8 bits are stored
_MOST = 1 << 20  # places of a mean


@dataclass(frozen=True, slots=True)
class Ending:
    """What stands behind sums. sum: what makes them. bias: [m] i64, or None. rounding, or mean: the output stage, if
    there is one. result: what it makes. covers: all behind the sums, in order."""

    sum: Apply
    result: Value
    covers: tuple[Apply, ...] = ()
    bias: Ints | None = None
    rounding: Rounding | None = None
    mean: Stage | None = None


def ending_of(apply: Apply, scene: Scene) -> Ending | None:
    """Return the ending that an application ends; one that makes sums itself has nothing behind them."""
    rounding, mean, covers, last = None, None, list[Apply](), apply
    if apply.name in _ENDS:
        if kernel_element(apply.results[0]) is None or any(apply.mapped[1:]) or apply.mapped[:1] != (True,):
            return None
        if apply.name == "tflite.average":
            mean = _mean(apply, scene)
        else:
            rounding = rounding_of(apply, scene)
        if rounding is None and mean is None:
            return None
        if rounding is not None and not rounding.twice and (lined := _lined(apply, rounding, scene)) is not None:
            return lined
        before = _before(apply, apply.arguments[0], scene)
        if before is None:
            return None
        last, chain = before
        covers = [*chain, apply]
    bias = None
    if last.name == _BIAS:
        bias = array_of(last.arguments[1])
        before = _before(last, last.arguments[0], scene)
        if bias is None or before is None or last.mapped != (True, False):
            return None
        covers = [*before[1], last, *covers]
        last, bias = before[0], bias.astype(np.int64)
    return Ending(last, apply.results[0], tuple(covers), bias, rounding, mean)


def _lined(apply: Apply, rounding: Rounding, scene: Scene) -> Ending | None:
    """Return the ending that multiplies x * 2^k + b for sums x, some of them nudged first.

    (x 2^k + b) m + half over 2^s, rounded down, is x m + (b m + half) / 2^k over 2^(s - k), both rounded down.
    """
    covers, nudges = [apply], list[tuple[Ints, Ints]]()
    value, offset, k = apply.arguments[0], np.zeros(len(rounding.multiplier), np.int64), 0
    made = scene.maker(value)
    if made is not None and made.name == _BIAS and (found := array_of(made.arguments[1])) is not None:
        covers.append(made)
        value, offset = made.arguments[0], found.astype(np.int64)
        made = scene.maker(value)
    if made is not None and made.name == "shl" and (count := _repeated(made.arguments[1], scene)) is not None:
        covers.append(made)
        value, k = made.arguments[0], int(count.max(initial=0))
        if (count != k).any():
            return None
    seen = set[Value]()
    while (nudge := _nudge(value, scene)) is not None:
        covers += nudge.covers
        seen.add(nudge.x)
        nudges.append((np.broadcast_to(nudge.at, offset.shape), np.broadcast_to(nudge.by, offset.shape)))
        value = nudge.rest
    last = scene.maker(value)
    shift = rounding.shift - k
    if last is None or not (k or nudges) or seen - {value} or (shift < 0).any() or not _closed(covers, value, scene):
        return None
    half = offset * rounding.multiplier + ((1 << rounding.shift) >> 1) >> k
    limit = ((1 << 31) - 1 - np.abs(offset) >> k) - len(nudges)
    rule = replace(rounding, shift=shift, half=half, nudges=tuple(nudges), limit=limit)
    return Ending(last, apply.results[0], tuple(covers[::-1]), None, rule)


@dataclass(frozen=True, slots=True)
class _Nudge:
    """rest + (by where x is equal to at, else 0). at, by: [m]."""

    rest: Value
    x: Value
    at: Ints
    by: Ints
    covers: tuple[Apply, ...]


def _nudge(value: Value, scene: Scene) -> _Nudge | None:
    """Return the nudge that makes a value."""
    made = scene.maker(value)
    chosen = scene.maker(made.arguments[1]) if made is not None and made.name == "add" else None
    if made is None or chosen is None or chosen.name != "select":
        return None
    mask, *numbers = chosen.arguments
    asked = scene.maker(mask)
    if asked is None or asked.name != "eq":
        return None
    at, by, none = (_repeated(each, scene) for each in (asked.arguments[1], *numbers))
    if at is None or by is None or none is None or none.any():
        return None
    return _Nudge(made.arguments[0], asked.arguments[0], at, by, (made, chosen, asked))


def _repeated(value: Value, scene: Scene) -> Ints | None:
    """Return the numbers of a constant that is repeated along the axes in front, i64: [m], or one."""
    made = scene.maker(value)
    if made is not None:
        if made.name not in ("broadcast", "fill"):
            return None
        value = made.arguments[0]
    found = array_of(value)
    return None if found is None or found.ndim > 1 else found.astype(np.int64)


def _closed(covers: Sequence[Apply], source: Value, scene: Scene) -> bool:
    """Whether only the covered applications read their source and what they make, all but what the first makes."""
    inner = {result for apply in covers[1:] for result in apply.results} | {source}
    if "readers" in scene.dropped or inner & set(scene.flow.results):
        return False
    return all(user in covers for value in inner for user in scene.users(value))


def _before(user: Apply, value: Value, scene: Scene) -> tuple[Apply, list[Apply]] | None:
    """Return what makes a value that nobody else reads, with the reshapes between, in order."""
    source = scene.through(value)
    made = scene.maker(source)
    if made is None or not scene.private(source, user):
        return None
    return made, scene.chain(value)[::-1]


def rounding_of(apply: Apply, scene: Scene) -> Rounding | None:
    """Return the rule of an output stage whose numbers are constants."""
    multiplier, shift = (array_of(value) for value in apply.arguments[1:3])
    numbers = [scene.number(value) for value in apply.arguments[3:6]]
    if multiplier is None or shift is None or None in numbers:
        return None
    zero, low, high = (int(number or 0) for number in numbers)
    twice = apply.name == "tflite.rescale"
    element = kernel_element(apply.results[0])
    assert element is not None
    wide = shift.astype(np.int64)
    return Rounding(multiplier.astype(np.int64), -wide if twice else wide, zero, low, high, element, twice)


def _mean(apply: Apply, scene: Scene) -> Stage | None:
    count, low, high = (scene.number(value) for value in apply.arguments[1:4])
    element = kernel_element(apply.results[0])
    if not all(isinstance(each, int) for each in (count, low, high)) or not 1 <= int(count or 0) <= _MOST:
        return None
    assert element is not None
    return Stage("mean", element, int(low or 0), int(high or 0), count=int(count or 0))


def array_of(value: Value) -> Ints | None:
    """Return a constant's numbers, codes as they are stored."""
    if value.source != "const" or value.data is None or value.type.element.is_format:
        return None
    sizes = [size.constant for size in value.type.shape]
    if None in sizes:
        return None
    found = np.frombuffer(value.data.read(), np.dtype(value.type.element.storage))
    return found.reshape([size or 0 for size in sizes])


def kernel_element(value: Value) -> str | None:
    """Return as what bytes kernels see codes, or None where they are no bytes."""
    storage = value.type.element.storage
    if value.type.element.is_format or value.type.element.is_float or storage not in _CODES:
        return None
    return "i8" if storage == "int8" else "u8"


def unsigned_by(area: Area) -> int:
    """Return what a kernel adds to codes to make them unsigned."""
    return area.flip


def bound_of(sizes: Ints, reach: tuple[int, int], bias: Ints) -> Ints:
    """Return the most that sums reach, bias included. sizes: [m], sums of the weights' sizes. reach: of the codes."""
    return sizes * max(abs(reach[0]), abs(reach[1])) + np.abs(bias)
