"""What kind of mistake makes two arrays differ: one row a class, each with its test.

A test sees both arrays, the node that made them, and what the node was given, which is equal on both sides because the
node is the first one that differs. It returns the evidence as a sentence, or None. The first row that holds is the
likeliest class; rows that say exactly what the other side computed come before those that look at the arrays alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from typing import TypeAlias

import numpy as np

from bittern.graph.node import Function, Node, functions_of, walk
from bittern.runtime.diff_case import Case, different, listed, short
from bittern.runtime.diff_doubles import PRODUCTS
from bittern.runtime.observed import Array

SUMMING = ("sum", "dot", "scan_sum", "product")
_FEW = 8  # axes that are tried in every order: at most this many orders of 4


Test: TypeAlias = Callable[[Case], "str | None"]


def _shape(case: Case) -> str | None:
    if case.is_alike:
        return None
    return f"the shapes are {list(case.left.shape)} and {list(case.right.shape)}"


def _stride(case: Case) -> str | None:
    """Positions taken with another stride, or one place off."""
    if not case.is_alike:
        axes = [k for k, pair in enumerate(zip(case.left.shape, case.right.shape, strict=False)) if pair[0] != pair[1]]
        is_space = case.left.ndim == case.right.ndim and case.left.ndim > 2 and 0 not in axes
        if not is_space or case.left.size == case.right.size:
            return None
        sizes = [each.shape[axes[0]] for each in (case.left, case.right)]
        return f"axis {axes[0]} has {sizes[0]} and {sizes[1]} positions"
    for axis in range(1, case.left.ndim - 1):
        for step in (1, -1):
            if case.left.shape[axis] > 2 and _is_moved(case, axis, step):
                return f"every value stands {abs(step)} place {'behind' if step > 0 else 'before'} along axis {axis}"
    return None


def _is_moved(case: Case, axis: int, step: int) -> bool:
    left, right = np.moveaxis(case.left, axis, 0), np.moveaxis(case.right, axis, 0)
    one, other = (left[:-1], right[1:]) if step > 0 else (left[1:], right[:-1])
    return not different(np.ascontiguousarray(one), np.ascontiguousarray(other)).any() and bool(np.ptp(one))


def _nan(case: Case) -> str | None:
    if not case.is_real or not case.is_alike or case.right.dtype.kind != "f":
        return None
    one, other = np.isnan(case.left), np.isnan(case.right)
    places = int((one != other).sum())
    return f"{places} values are NaN on one side alone" if places else None


def _zero_sign(case: Case) -> str | None:
    if not case.is_real or not case.is_alike or (case.left != case.right).any():
        return None
    return "all values are equal, but zeros have another sign"


def _double(kind: str) -> Test:
    """Return the test whether the other side has exactly what a mistake of this class gives."""
    return lambda case: case.exact.get(kind)


def _saturation(case: Case) -> str | None:
    """Differences only where one side stands at an end."""
    if not case.is_alike or case.is_real or case.element.bits > 8 or case.element.bits < 2:
        return None
    left, right = case.left[case.differs], case.right[case.differs]
    low, high = case.left.min(), case.left.max()
    if not (high - low > 3 and (case.left[~case.differs] != 0).any()):
        return None
    if np.isin(left, (low, high)).all() and len(np.unique(right)) <= 2:
        return f"they differ only where the left side has its end, {low} or {high}; the right has {_values(right)}"
    if np.isin(right, (case.right.min(), case.right.max())).all() and len(right) > 1 and len(np.unique(left)) > 2:
        return f"they differ only where the right side has its end, {_values(right)}"
    return None


def _scale(case: Case) -> str | None:
    """One factor for all values, or for each channel."""
    if not case.is_alike:
        return None
    left, right = case.left.astype(np.float64), case.right.astype(np.float64)
    is_used = (left != 0) & np.isfinite(left) & np.isfinite(right)
    if is_used.sum() < 3 or ((left == 0) & (right != 0)).any():
        return None
    inside = is_used & (np.abs(right) < np.abs(right).max() if not case.is_real and case.element.bits <= 8 else True)
    if inside.sum() < 3 or len(np.unique(left[inside])) < 3:
        return None
    ratios = right[inside] / left[inside]
    factor = float(np.median(ratios))
    near = np.abs(right[inside] - factor * left[inside])
    slack = 1.0 if not case.is_real and case.element.bits <= 8 else np.abs(right[inside]) * 2.0**-20
    if factor > 0 and abs(factor - 1) > 0.05 and (near <= slack).all():
        return f"every value is {factor:.6g} times that of the left side"
    return None


def _zero_point(case: Case) -> str | None:
    """One number added to all values; or, of sums, what a zero point adds to each channel."""
    if not case.is_alike or case.is_real:
        return None
    step = case.right - case.left
    low, high = case.right.min(), case.right.max()
    inside = (case.right > low) & (case.right < high) if case.element.bits <= 8 else np.ones(step.shape, bool)
    if inside.sum() > 2 and step[inside].min() == step[inside].max() != 0:
        return f"every value is {int(step[inside][0]):+d} off"
    if case.name not in PRODUCTS or len(case.given) != 2:
        return None
    own, _, made = PRODUCTS[case.name]
    w = case.given[0]
    if made[-1] not in own:
        return None
    places = tuple(i for i, letter in enumerate(own) if letter not in made)
    sums = w.sum(places)
    if sums.ndim != 1 or not (sums != 0).any():
        return None
    rows = step.reshape(-1, len(sums))
    zeros = rows[:, sums != 0] / sums[sums != 0]
    if zeros.size and zeros.min() == zeros.max() and (rows[:, sums == 0] == 0).all():
        return f"every input counts {zeros.flat[0]:+g}: a zero point that is off by so much"
    return None


def _bias(case: Case) -> str | None:
    """A number for each channel."""
    if not case.is_alike or case.left.ndim < 2 or len(case.left.reshape(-1, case.left.shape[-1])) < 3:
        return None
    step = (case.right - case.left).reshape(-1, case.left.shape[-1])
    if case.is_real or not (step == step[0]).all() or case.element.bits <= 8:
        return None
    channel = int(np.argmax(case.channels))
    return f"each channel has one number added, such as {int(step[0][channel]):+d} in channel {channel}"


def _permuted(case: Case) -> str | None:
    """The same values in other places."""
    left, right = case.left, case.right
    if left.size != right.size or not left.size or np.array_equal(left, right):
        return None
    if not np.array_equal(np.sort(left, axis=None), np.sort(right, axis=None)):
        return None
    for axes in list(permutations(range(1, left.ndim)))[1 : 1 + _FEW * 3]:
        turned = left.transpose(0, *axes)
        if np.array_equal(turned.reshape(right.shape), right):
            return f"the axes stand in the order {[0, *axes]}"
    if not case.is_alike:
        return None
    for axis in range(1, left.ndim):
        if np.array_equal(np.flip(left, axis), right):
            return f"axis {axis} is reversed"
    if left.ndim > 1 and (order := _order_of_channels(left, right)) is not None:
        return f"the channels stand in the order {short(order)}"
    pairs = left.reshape(len(left), -1)
    if pairs.shape[1] % 2 == 0 and np.array_equal(pairs.reshape(-1, 2)[:, ::-1].reshape(right.shape), right):
        return "neighbours are swapped in pairs: the order of values in a byte"
    rows = [np.sort(each.reshape(len(each), -1), axis=1) for each in (left, right)]
    is_rowwise = np.array_equal(rows[0], rows[1])
    if not case.is_real and case.element.bits < 3:  # few values: being the same ones says nothing
        return None
    return "both sides have the same values in other places" + (", sample by sample" if is_rowwise else "")


def _order_of_channels(left: Array, right: Array) -> list[int] | None:
    columns = {column.tobytes(): k for k, column in enumerate(np.ascontiguousarray(left.reshape(-1, left.shape[-1]).T))}
    order = [columns.get(column.tobytes()) for column in np.ascontiguousarray(right.reshape(-1, right.shape[-1]).T)]
    found = [k for k in order if k is not None]
    return found if len(found) == len(order) == len(set(found)) else None


def _padding(case: Case) -> str | None:
    """Differences only along the edges."""
    if not case.is_alike or case.left.ndim < 3:
        return None
    edge = np.zeros(case.left.shape, bool)
    for axis in range(1, case.left.ndim - 1):
        size = case.left.shape[axis]
        reach = min(max(1, size // 4), _reach(case.node, axis))
        place = np.arange(size)
        shape = [1] * case.left.ndim
        shape[axis] = size
        edge |= ((place < reach) | (place >= size - reach)).reshape(shape)
    if edge.all() or (case.differs & ~edge).any():
        return None
    return "they differ only along the edges, where padding counts"


def _reach(node: Node, axis: int) -> int:
    """Return how many places from an edge padding reaches: of a `pad`, what it adds."""
    if node.kind != "pad" or node["axis"] != axis:
        return 2
    sizes = [getattr(node[name], "constant", 0) or 0 for name in ("before", "after")]
    return max(sizes)


def _weight(case: Case) -> str | None:
    """One weight: what differs in a channel is a multiple of one of its inputs."""
    if not case.is_alike or case.name not in PRODUCTS or len(case.given) != 2 or case.is_real:
        return None
    own, met, made = PRODUCTS[case.name]
    if "g" in own or own[0] not in ("m", "p") or case.channels.sum() > max(2, len(case.channels) // 4):
        return None
    summed = [letter for letter in own if letter not in made]
    x = case.given[1]
    lead = x.ndim - len(met)
    order = [lead + met.index(letter) for letter in (*(k for k in made if k in met), *summed)]
    rows = x.transpose(*range(lead), *order)
    keeps_channel = made[-1] in met
    for channel in np.flatnonzero(case.channels):
        step = (case.right - case.left)[..., channel].reshape(-1)
        inputs = (rows.take(channel, lead + made.index(made[-1])) if keeps_channel else rows).reshape(len(step), -1)
        found = _multiple(step, inputs)
        if found is None:
            return None
        k, factor = found
        sizes = [x.shape[lead + met.index(letter)] for letter in summed]
        place = [int(part) for part in np.unravel_index(k, sizes)]
        return f"weight {place} of channel {int(channel)} is {factor:+d} off"
    return None


def _multiple(step: Array, inputs: Array) -> tuple[int, int] | None:
    """Return the column of which the step is a multiple, and the factor."""
    row = int(np.argmax(step != 0))
    for k in range(inputs.shape[1]):
        if inputs[row, k] and step[row] % inputs[row, k] == 0:
            factor = int(step[row] // inputs[row, k])
            if factor and np.array_equal(inputs[:, k] * factor, step):
                return k, factor
    return None


def _sign(case: Case) -> str | None:
    if not case.is_alike or case.left.ndim < 2:
        return None
    left, right = case.left[..., case.channels], case.right[..., case.channels]
    where = "" if case.channels.all() else f" in channel {listed(case.channels)}"
    if np.array_equal(-left, right) and left.size > 2:
        return f"every value is negated{where}"
    if case.is_real or case.element.bits > 8 or case.element.bits < 2:
        return None
    span = 1 << case.element.bits
    if (np.abs(case.steps()) == span).all():
        return f"the values differ by {span}: the sign is read as a bit of the number, or the other way"
    return None


def _overflow(case: Case) -> str | None:
    if not case.is_alike or case.is_real or case.element.bits < 16:
        return None
    for bits in (8, 16, 24, 31, 32):
        span = 1 << bits
        if (case.steps() % span == 0).all():
            return f"they differ by multiples of 2^{bits}: sums that wrap at {bits} bits"
    for bits in (8, 16, 24):
        top = 1 << (bits - 1)
        if np.array_equal(np.clip(case.left, -top, top - 1), case.right):
            return f"the sums stop at {bits} bits"
    return None


def _one_off(case: Case) -> str | None:
    """Codes that are one apart here and there."""
    if not case.is_alike or case.is_real or case.element.bits < 2 or case.element.bits > 16:
        return None
    steps = case.steps()
    if (np.abs(steps) > 1).any():
        return None
    ways = "up" if (steps > 0).all() else "down" if (steps < 0).all() else "up and down"
    return f"codes are one apart, {ways}, in {_share(case)} of the values"


def _order(case: Case) -> str | None:
    """Floats whose last bits differ, behind sums."""
    worst = last_bits(case)
    if worst is None or not _sums(case.node):
        return None
    return f"the last bits of sums differ, by {worst:.2g} of the greatest value at most"


def _last_rounding(case: Case) -> str | None:
    worst = last_bits(case)
    return None if worst is None else f"the last bits differ, by {worst:.2g} of the greatest value at most"


def last_bits(case: Case) -> float | None:
    """Return how much floats differ, as a share of the greatest value, if it is little; else None."""
    if not case.is_real or not case.is_alike or case.right.dtype.kind != "f":
        return None
    left, right = case.left.astype(np.float64), case.right.astype(np.float64)
    top = np.abs(left[np.isfinite(left)]).max(initial=0)
    with np.errstate(all="ignore"):
        worst = np.abs(right - left)[case.differs].max()
    return float(worst / top) if top and worst <= top * 2.0**-16 else None


def _precision(case: Case) -> str | None:
    """Floats that agree in their first bits alone."""
    if not case.is_real or not case.is_alike or case.right.dtype.kind != "f":
        return None
    left, right = case.left.astype(np.float64), case.right.astype(np.float64)
    top = np.abs(left).max(initial=0)
    with np.errstate(all="ignore"):
        worst = np.abs(right - left).max(initial=0) / top if top else np.inf
    if not 0 < worst <= 2.0**-5:
        return None
    return f"about {int(-np.log2(worst))} bits agree: one side computes with fewer, such as codes or half floats"


def _sums(node: Node) -> bool:
    """Whether a node computes a sum, in bodies and callees too."""
    seen: set[bytes] = set()

    def inside(function: Function) -> bool:
        if function.id in seen:
            return False
        seen.add(function.id)
        return any(_sums_one(each) for each in walk(function.result))

    def _sums_one(each: Node) -> bool:
        is_loop = each.kind in ("for", "while")
        return each.kind in SUMMING or is_loop or any(inside(function) for function in functions_of(each))

    return _sums_one(node)


def _channel(case: Case) -> str | None:
    some = int(case.channels.sum())
    if not case.is_alike or case.left.ndim < 2 or some * 2 > len(case.channels) or len(case.channels) < 4:
        return None
    tail = np.flatnonzero(case.channels)[0]
    if tail and tail % 8 == 0 and case.channels[tail:].all():
        return (
            f"only the last {len(case.channels) - tail} channels differ, from {tail} on: the tail behind whole groups"
        )
    return f"only channel {listed(case.channels)} of {len(case.channels)} differs"


def _sample(case: Case) -> str | None:
    rows = np.asarray(case.differs.reshape(len(case.differs), -1).any(axis=1))
    if not case.is_alike or len(rows) < 2 or rows.all():
        return None
    return f"only samples {listed(rows)} of {len(rows)} differ"


def _values(found: Array) -> str:
    return " and ".join(str(each) for each in np.unique(found)[:2])


def _share(case: Case) -> str:
    return f"{100 * case.differs.mean():.2g} %"


CLASSES: tuple[tuple[str, Test], ...] = (
    ("stride", _stride),
    ("layout", _permuted),
    ("shape", _shape),
    ("not a number", _nan),
    ("sign of zero", _zero_sign),
    ("threshold", _double("threshold")),
    ("tie", _double("tie")),
    ("rounding", _double("rounding")),
    ("saturation", _double("saturation")),
    ("scale", _double("scale")),
    ("zero point", _double("zero point")),
    ("falling", _double("falling")),
    ("bias", _double("bias")),
    ("layout", _double("layout")),
    ("sign", _double("sign")),
    ("weight", _weight),
    ("sign", _sign),
    ("scale", _scale),
    ("zero point", _zero_point),
    ("overflow", _overflow),
    ("bias", _bias),
    ("padding", _padding),
    ("saturation", _saturation),
    ("order", _order),
    ("rounding", _last_rounding),
    ("rounding", _one_off),
    ("precision", _precision),
    ("channel", _channel),
    ("sample", _sample),
)
"""Classes and their tests, the most telling first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A class that fits, and why."""

    name: str
    evidence: str


def classified(case: Case) -> list[Finding]:
    """Return the classes that fit, the likeliest first; `unknown` if none does."""
    found: dict[str, str] = {}
    for name, test in CLASSES:
        if name not in found and (evidence := test(case)) is not None:
            found[name] = evidence
    exact = [name for name in case.exact if found.get(name) == case.exact[name]]
    places = iter(exact)
    order = [next(places) if name in exact else name for name in found]
    return [Finding(name, found[name]) for name in order] or [Finding("unknown", "no class fits")]
