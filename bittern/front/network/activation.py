"""Activations: what becomes of a sum before the next layer takes it as codes.

An activation is a shape (`relu`, `prelu`, ...) and a quantiser to a width. On sums (i32) both are whole-number
arithmetic with parameters of each channel: signs by one threshold, ternary codes by two, wider codes by one
multiplication with one rounding (`requantise`), or by thresholds throughout. On real numbers (f32, behind a
normalisation) they are the formulas as they are written, for codes that stand for steps of 1 / high; signs behind a
relu are +1 from 1/2 on. Passes turn those into whole numbers, exactly.

Initial parameters take sums of twice their expected root mean square to the greatest code.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from math import frexp
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bittern.base.errors import BitternError, code, nearest
from bittern.front.network.draft import UNFIT_ELEMENT, Array, Flow, Numbers, flow
from bittern.front.network.layer import Layer
from bittern.front.network.widths import Width, is_code
from bittern.graph.node import Node
from bittern.types.elements import BIT, F32, I32, U32, Element

if TYPE_CHECKING:
    from bittern.front.network.draft import Draft

UNKNOWN_ACTIVATION = code("N103", "a layer names an activation that does not exist")


class BinaryActivation(Enum):
    """Activations whose codes are -1 and +1; sign(0) is +1."""

    SIGN = "sign"


class TernaryActivation(Enum):
    """Activations whose codes are -1, 0 and +1."""

    SIGN = "ternary"


class IntActivation(Enum):
    """Activations whose codes have 2 to 8 bits."""

    LINEAR = "linear"
    RELU = "relu"
    HARD_TANH = "hard_tanh"
    PRELU = "prelu"
    RPRELU = "rprelu"
    PIECEWISE = "piecewise"
    LEVELS = "levels"


SHIFTS = (0, 62)  # of `requantise`

Named = BinaryActivation | TernaryActivation | IntActivation | str


@dataclass(frozen=True, slots=True)
class _Row:
    """One activation. signed: its codes. width: of codes where none is named. shape: draws what comes first."""

    signed: bool
    width: Width
    shape: "Callable[[Draft, Flow], Flow] | None" = None


def _relu(draft: "Draft", x: Flow) -> Flow:
    made = draft.a.op("max", x.node, draft.a.spread(draft.a.constant(0, x.element.name), x.node))
    return Flow(made, max(0, x.low), max(0, x.high), x.rms)


def _prelu(draft: "Draft", x: Flow) -> Flow:
    """PReLU (He et al. 2015): below 0 times a slope, `slope_multiplier` / 2^`slope_shift` of each channel."""
    if x.is_real:
        return _prelu_of_reals(draft, x)
    parts = _slopes(draft, x, "slope", x.shape[-1:], as_multiplier(0.25))
    made = draft.a.call("piecewise.prelu_codes", x.node, *parts, lead=len(x.shape))
    return Flow(made, I32.low, I32.high, x.rms)


def _rprelu(draft: "Draft", x: Flow) -> Flow:
    """PReLU with learned shifts `before` and `after` (Liu et al. 2020)."""
    element = F32 if x.is_real else I32
    channels = x.shape[-1:]
    before, after = (draft.parameter(name, element, channels, _zero) for name in ("before", "after"))
    if x.is_real:
        moved = x.at(draft.a.op("sub", x.node, draft.row(before, x)))
        return x.at(draft.a.op("add", _prelu_of_reals(draft, moved).node, draft.row(after, x)))
    parts = _slopes(draft, x, "slope", channels, as_multiplier(0.25))
    ends = draft.constant("before", before, I32), draft.constant("after", after, I32)
    made = draft.a.call("piecewise.rprelu_codes", x.node, ends[0], *parts, ends[1], lead=len(x.shape))
    return Flow(made, I32.low, I32.high, x.rms)


def _piecewise(draft: "Draft", x: Flow) -> Flow:
    """Three straight pieces: `knots` [c, 2], of each piece a slope and an `offset` [c, 3]; initially flat outside."""
    if x.is_real:
        raise BitternError(UNFIT_ELEMENT, "`piecewise` gets real numbers.", "Put it before the normalisation.")
    channels, far = x.shape[-1], max(1, round(x.rms))
    (low, shift), (high, _) = as_multiplier(0.25), as_multiplier(1.0)
    steep = high << (shift - as_multiplier(1.0)[1]) if shift >= as_multiplier(1.0)[1] else high
    knots = draft.parameter("knots", I32, (channels, 2), lambda _: np.array([-far, far]))
    slopes = draft.parameter("slope_multiplier", I32, (channels, 3), lambda _: np.array([low, steep, low]))
    shifts = draft.parameter("slope_shift", U32, (channels, 3), lambda _: shift, limits=SHIFTS)
    rest = far - far // 4
    offset = draft.parameter("offset", I32, (channels, 3), lambda _: np.array([-rest, 0, rest]))
    rows = (
        ("knots", knots, I32),
        ("slope_multiplier", slopes, I32),
        ("slope_shift", shifts, U32),
        ("offset", offset, I32),
    )
    parts = [draft.constant(*row) for row in rows]
    made = draft.a.call("piecewise.piecewise_codes", x.node, *parts, lead=len(x.shape))
    return Flow(made, I32.low, I32.high, x.rms)


def _slopes(draft: "Draft", x: Flow, name: str, shape: tuple[int, ...], initial: tuple[int, int]) -> tuple[Node, Node]:
    multiplier = draft.parameter(f"{name}_multiplier", I32, shape, lambda _: initial[0])
    shift = draft.parameter(f"{name}_shift", U32, shape, lambda _: initial[1], limits=SHIFTS)
    return draft.constant(f"{name}_multiplier", multiplier, I32), draft.constant(f"{name}_shift", shift, U32)


def _prelu_of_reals(draft: "Draft", x: Flow) -> Flow:
    """x, below 0 times `slope`, as `piecewise.prelu`."""
    slope = draft.parameter("slope", F32, x.shape[-1:], lambda _: 0.25)
    a = draft.a
    zero = a.spread(a.constant(0.0, "f32"), x.node)
    scaled = a.op("mul", x.node, draft.row(slope, x))
    return x.at(a.op("select", a.op("lt", x.node, zero), scaled, x.node))


ACTIVATIONS: Mapping[str, _Row] = {
    "sign":      _Row(True, "b1"),
    "ternary":   _Row(True, "t"),
    "linear":    _Row(True, 8),
    "hard_tanh": _Row(True, 8),
    "levels":    _Row(True, 2),
    "relu":      _Row(False, 8, _relu),
    "prelu":     _Row(True, 8, _prelu),
    "rprelu":    _Row(True, 8, _rprelu),
    "piecewise": _Row(True, 8, _piecewise),
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Activation(Layer):
    """An activation as a layer. x: sums i32 or f32, or codes, of any shape, channels last -> codes of `bits`.

    kind: a row of the table of activations. bits: the width of the codes; None takes the activation's own.
    Parameters: `threshold` and `falling`, `thresholds`, or `multiplier` and `shift`, one for each channel.
    """

    KIND: ClassVar[str] = "activation"

    kind: Named
    bits: Width | None = None

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the shape and the quantiser. Raises N103, N105, N106."""
        return activated(draft, x, self.kind, self.bits)


def activated(draft: "Draft", x: Flow, kind: "Named | Activation | None", bits: Width | None) -> Flow:
    """Return a value behind an activation; behind none, as it is. Raises N103, N105, N106."""
    if isinstance(kind, Activation):
        return activated(draft, x, kind.kind, kind.bits if bits is None else bits)
    if kind is None:
        return x
    name = kind.value if isinstance(kind, Enum) else kind
    row = ACTIVATIONS.get(name) if isinstance(name, str) else None
    if row is None:
        hint = nearest(str(name), list(ACTIVATIONS)) or f"There are {_all()}."
        draft.fault(UNKNOWN_ACTIVATION, f"there is no activation `{name}`.", hint)
        row = ACTIVATIONS["linear"]
    element = draft.element(row.width if bits is None else bits, signed=row.signed)
    x = in_sums(draft, x)
    if row.shape is not None:
        x = row.shape(draft, x)
    if x.is_real and element.name == "b1" and not row.signed:  # all are +1 else, for none is negative
        x = x.at(draft.a.scalar("sub", x.node, 0.5))
    return quantised(draft, x, element, by_levels=name == "levels")


def _all() -> str:
    return ", ".join(f"`{name}`" for name in ACTIVATIONS)


def in_sums(draft: "Draft", x: Flow) -> Flow:
    """Return codes as i32; sums and real numbers as they are. Raises N106."""
    if x.element.name in ("i32", "f32"):
        return x
    if not is_code(x.element):
        what = f"An activation gets {x.element}."
        raise BitternError(UNFIT_ELEMENT, what, "It takes sums, real numbers or codes of up to 8 bits.")
    return x.at(draft.a.op("convert", x.node, to="i32"))


def quantised(draft: "Draft", x: Flow, element: Element, *, by_levels: bool = False) -> Flow:
    """Return codes of sums (i32) or of real numbers (f32). by_levels: compare with thresholds at every width."""
    if x.is_real:
        return _of_reals(draft, x, element)
    if element.name == "b1":
        return _signs(draft, x)
    if element.name == "t" or by_levels:
        return _by_thresholds(draft, x, element)
    return _rescaled(draft, x, element)


def _signs(draft: "Draft", x: Flow) -> Flow:
    channels = x.shape[-1:]
    middle = max(1, round(x.rms / 2)) if x.low >= 0 else 0  # behind a relu every sum reaches 0
    at = draft.parameter("threshold", I32, channels, lambda _: middle)
    falling = draft.parameter("falling", BIT, channels, _none, optional=True)
    return as_signs(draft, x, at, falling)


def as_signs(draft: "Draft", x: Flow, at: Array, falling: Array | None = None) -> Flow:
    """Return signs of sums: +1 from a threshold of each channel on, up to it where it is falling."""
    parts = draft.constant("threshold", at, I32), draft.constant("falling", _or_none(falling, x), BIT)
    return flow(draft.a.call("thresholds.sign_at", x.node, *parts, lead=len(x.shape)))


def as_ternary(draft: "Draft", x: Flow, at: Array, falling: Array | None = None) -> Flow:
    """Return ternary codes of sums by two thresholds of each channel."""
    parts = draft.constant("thresholds", at, I32), draft.constant("falling", _or_none(falling, x), BIT)
    return flow(draft.a.call("thresholds.ternary_at", x.node, *parts, lead=len(x.shape)))


def _or_none(falling: Array | None, x: Flow) -> Array:
    return np.zeros(x.shape[-1:], np.bool_) if falling is None else falling


def _by_thresholds(draft: "Draft", x: Flow, element: Element) -> Flow:
    channels = x.shape[-1]
    count = element.high - element.low
    steps = (2 * np.arange(count) + 1 - count if x.low < 0 else 2 * np.arange(count) + 1) * (2 * x.rms / max(count, 1))
    at = draft.parameter("thresholds", I32, (channels, count), lambda _: np.rint(steps).astype(np.int64))
    falling = draft.parameter("falling", BIT, (channels,), _none, optional=True)
    if element.name == "t":
        return as_ternary(draft, x, at, falling)
    parts = draft.constant("thresholds", at, I32), draft.constant("falling", falling, BIT)
    made = draft.a.call(
        "thresholds.levels", x.node, *parts, element.low, lead=len(x.shape), elements={"e": element.name}
    )
    return flow(made)


def _rescaled(draft: "Draft", x: Flow, element: Element) -> Flow:
    multiplier, shift = as_multiplier(element.high / (2 * x.rms))
    channels = x.shape[-1:]
    factors = draft.parameter("multiplier", I32, channels, lambda _: multiplier)
    shifts = draft.parameter("shift", U32, channels, lambda _: shift, limits=SHIFTS)
    parts = draft.constant("multiplier", factors, I32), draft.constant("shift", shifts, U32)
    low, high = element.low, element.high
    made = draft.a.call(
        "requantise.requantise", x.node, *parts, 0, low, high, lead=len(x.shape), elements={"e": element.name}
    )
    return flow(made)


def _of_reals(draft: "Draft", x: Flow, element: Element) -> Flow:
    a = draft.a
    if element.name == "b1":
        return flow(a.op("sign", x.node, to="b1"))
    if element.name == "t":
        return flow(a.op("sign", a.op("round_even", x.node), to="t"))
    return flow(a.op("round", a.scalar("mul", x.node, float(element.high)), to=element.name))


def as_multiplier(factor: float) -> tuple[int, int]:
    """Return (multiplier, shift) with multiplier / 2^shift nearest to a positive factor, of 24 bits; shift 0 to 62."""
    fraction, exponent = frexp(factor)
    multiplier, shift = round(fraction * (1 << 24)), 24 - exponent
    if shift > 62:
        return max(1, multiplier >> min(shift - 62, 24)), 62
    return (multiplier, shift) if shift >= 0 else (min(multiplier << -shift, I32.high), 0)


def _zero(_: Numbers) -> Array:
    return np.zeros((), np.int64)


def _none(_: Numbers) -> Array:
    return np.zeros((), np.bool_)
