"""Where numbers become codes of few bits, at the inputs of a network: the chain between is replaced by thresholds.

A chain of steps on single numbers, each of which never falls or never rises (by constants, roundings), never falls or
never rises as a whole; so a code of it is the count of thresholds that a number reaches, and the exact thresholds are
found by halving, with the chain itself evaluated. Floats in the order of their bits are numbers in their order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bittern.graph.evaluate import prepare
from bittern.graph.node import Function, Node, Parameter, node, param
from bittern.kernels.bits_of_numbers import Limit
from bittern.kernels.sign_product import Coding
from bittern.plan.flow import Apply, Value
from bittern.plan.rules.layer_numbers import Ints
from bittern.plan.scene import Scene
from bittern.types.dims import symbol
from bittern.types.elements import F32, Element
from bittern.types.values import Tensor

_RISING = ("round_even", "floor", "ceil", "trunc", "sign", "round", "convert", "sat")
_SIGN = 0x80000000
_NAN = 0x7FC00000
_LARGEST = 0x7F800000  # infinity


@dataclass(frozen=True, slots=True)
class Boundary:
    """A chain. source: the f32 array where it starts. limits: for 1, 2, ... levels reached."""

    source: Value
    limits: tuple[Limit, ...]


@dataclass(slots=True)
class _Chain:
    """Steps from the end back. other: of a step of two operands, the constant and whether it is the first one."""

    scene: Scene
    steps: list[tuple[Apply, "tuple[float | int, bool] | None"]] = field(default_factory=list)
    rises: bool = True

    def back(self, value: Value) -> Value:
        """Return the array behind the steps that lead to a value."""
        while (made := self.scene.maker(value)) is not None and (before := self._step(made)) is not None:
            value = before
        return value

    def _step(self, made: Apply) -> Value | None:
        if made.name in _RISING or made.name == "neg":
            self.steps.append((made, None))
            self.rises ^= made.name == "neg"
            return made.arguments[0]
        if made.name not in ("mul", "add", "sub", "div", "min", "max"):
            return None
        for place, x in enumerate(made.arguments):
            number = self._number(made.arguments[1 - place])
            if number is None or not np.isfinite(number):
                continue
            is_first = place == 1  # the constant is
            if (made.name == "div" and (is_first or number == 0)) or (made.name == "mul" and number == 0):
                return None
            self.steps.append((made, (number, is_first)))
            turned = number < 0 if made.name in ("mul", "div") else made.name == "sub" and is_first
            self.rises ^= turned
            return x
        return None

    def _number(self, value: Value) -> float | int | None:
        made = self.scene.maker(value)
        if made is None or made.name not in ("broadcast", "fill"):
            return None
        return self.scene.number(made.arguments[0])


def boundary_of(value: Value, coding: Coding, scene: Scene) -> Boundary | None:
    """Return the chain from f32 numbers to a value, or None where there is none, or it is not of this kind."""
    chain = _Chain(scene)
    source = chain.back(value)
    if not chain.steps or source.type.element.name != "f32":
        return None
    codes = _levels(chain, coding)
    try:
        limits = _limits(codes, coding.total, chain.rises)
    except _UnevenError:
        return None
    return Boundary(source, limits)


class _UnevenError(Exception):
    """The chain makes something that is no level."""


def _levels(chain: _Chain, coding: Coding) -> Callable[[Ints], Ints]:
    """Return the function from f32 numbers to levels of a coding."""
    size = (symbol(0),)
    made: Node = param(0, Tensor(F32, size))
    for apply, other in reversed(chain.steps):
        type_ = apply.node.type
        assert isinstance(type_, Tensor)
        inputs = [made]
        if other is not None:
            spread = chain.scene.maker(apply.arguments[0 if other[1] else 1])
            assert spread is not None
            row = node("broadcast", spread.node.inputs[:1], {"shape": size}, Tensor(_element(made), size))
            inputs = [row, made] if other[1] else [made, row]
        made = node(apply.node.kind, inputs, dict(apply.node.attributes), Tensor(type_.element, size))
    function = Function(1, (Parameter(Tensor(F32, size)),), made)

    def levels(numbers: Ints) -> Ints:
        with np.errstate(all="ignore"):
            found = prepare(function, (len(numbers),))(numbers)
        level, odd = np.divmod(np.asarray(found).astype(np.int64) - coding.beta, coding.alpha)
        if odd.any() or (level < 0).any() or (level > coding.total).any():
            raise _UnevenError
        return level

    return levels


def _element(made: Node) -> Element:
    assert isinstance(made.type, Tensor)
    return made.type.element


def _limits(levels: Callable[[Ints], Ints], count: int, rises: bool) -> tuple[Limit, ...]:
    """Find the least numbers, or where levels fall the greatest, that reach 1, 2, ... levels. Raises _UnevenError."""
    wanted = np.arange(1, count + 1)
    low, high = _keys([_SIGN | _LARGEST, _LARGEST])
    known = np.array([0, _SIGN, _NAN], np.uint32).view(np.float32)
    zero, minus, nan = levels(known)
    if zero != minus:
        raise _UnevenError  # no comparison tells zeros apart
    first, last = np.full(count, low), np.full(count, high + 1)  # of what reaches it, if it rises; of what does not
    while (first < last).any():
        middle = (first + last) // 2
        reached = levels(_numbers(np.minimum(middle, high))) >= wanted
        goes_down = reached if rises else ~reached
        goes_down |= middle > high
        last = np.where(goes_down, middle, last)
        first = np.where(goes_down, first, np.minimum(middle + 1, last))
    places = first if rises else first - 1
    is_none = (places > high) | (places < low)
    bits = np.where(is_none, _NAN, _numbers(np.clip(places, low, high)).view(np.uint32))
    return tuple(Limit(int(each), not rises, bool(nan >= k)) for k, each in zip(wanted, bits, strict=True))


def _keys(bits: Sequence[int]) -> list[int]:
    """Return whole numbers in the order of the floats that have these bits."""
    return [(1 << 31) - 1 - (each ^ _SIGN) if each & _SIGN else each + (1 << 31) for each in bits]


def _numbers(keys: Ints) -> Ints:
    """Return the floats of keys."""
    wide = np.asarray(keys, np.int64)
    bits = np.where(wide < 1 << 31, ((1 << 31) - 1 - wide) | _SIGN, wide - (1 << 31))
    return bits.astype(np.uint32).view(np.float32)
