"""Rising and falling: whether a chain never turns back, told from its operations one by one.

Every operation of the contract that rounds, rounds to nearest, so it keeps order: what rises still rises after `+`,
`*` by a constant, conversions, clamps and rounding. What could break that between the two ends of an interval is
checked at the ends: a value that rises and is a number at both ends is a number in between, and a sum of whole numbers
that fits at both ends does not wrap. A choice by a comparison is checked at the one place where it changes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from bittern.graph.evaluate import evaluate
from bittern.graph.node import Function, Node, walk
from bittern.ops.table import Array
from bittern.passes.chains import BlockedError, Chain
from bittern.passes.width import Interval
from bittern.types.values import Tensor

Signs: TypeAlias = npt.NDArray[np.int64]
"""For each channel +1 where a value never falls as the source rises, -1 where it never rises, 0 where it is one."""


def directions(chain: Chain, limits: Interval) -> Signs:
    """Return how the end of a chain goes with its source, channel by channel. limits: of each channel.

    BlockedError where its operations do not show it.
    """
    return _Walk(chain, limits).run()


@dataclass(slots=True)
class _Walk:
    chain: Chain
    limits: Interval
    signs: dict[bytes, Signs] = field(default_factory=dict)
    at_ends: dict[bytes, Array] = field(default_factory=dict)

    def run(self) -> Signs:
        """Return the signs of the result."""
        result = self.chain.form.result
        for each in self._needed(result):
            self.signs[each.id] = self._signs(each)
            if isinstance(each.type, Tensor) and each.type.element.is_float:
                self._need_numbers(each)
        return self.signs[result.id]

    def _needed(self, result: Node) -> Iterator[Node]:
        """Yield the nodes to look at, inputs before users; what rises by a law is not looked into."""
        seen: set[bytes] = set()
        stack = [(result, False)]
        while stack:
            current, is_ready = stack.pop()
            if is_ready:
                yield current
            elif current.id not in seen:
                seen.add(current.id)
                known = self.chain.rising.get(current.id)
                stack.append((current, True))
                stack += [(i, False) for i in (current.inputs if known is None else (known,))]

    def values(self, of: Node, x: Array) -> Array:
        """Return the values of a node of the form at [n, channels] values of the source."""
        if not any(each.kind == "param" for each in walk(of)):
            made: Array = evaluate(Function(1, (), of), [], [len(x)]) if _is_spread(of) else evaluate(_closed(of), [])
            return made
        storage = self.chain.form.params[0].type
        assert isinstance(storage, Tensor), storage
        given = np.ascontiguousarray(x.astype(np.dtype(storage.element.storage)))
        return replace(self.chain, form=replace(self.chain.form, result=of)).values(given)

    def ends(self, of: Node) -> Array:
        """Return the values of a node at both ends of the interval, [2, channels]."""
        if of.id not in self.at_ends:
            self.at_ends[of.id] = self.values(of, np.stack([self.limits.low, self.limits.high]))
        return self.at_ends[of.id]

    def _need_numbers(self, of: Node) -> None:
        if _is_spread(of) and bool(np.isnan(self.ends(of).astype(np.float64)).any()):
            raise BlockedError("it has a value that is no number", of)

    def _signs(self, of: Node) -> Signs:
        channels = self.chain.channels
        if of.kind == "param":
            return np.ones(channels, np.int64)
        known = self.chain.rising.get(of.id)
        if known is not None:
            return self.signs[known.id]
        if all(not self.signs[i.id].any() for i in of.inputs):
            return np.zeros(channels, np.int64)
        rule = _RULES.get(of.kind)
        if rule is None:
            raise BlockedError(f"`{of.kind}` may rise and fall", of)
        return rule(self, of)


def _is_spread(of: Node) -> bool:
    return isinstance(of.type, Tensor) and len(of.type.shape) == 2


def _closed(of: Node) -> Function:
    return Function(0, (), of)


def _kept(self: _Walk, of: Node) -> Signs:
    return self.signs[of.inputs[0].id]


def _turned(self: _Walk, of: Node) -> Signs:
    _need_fit(self, of, lambda x: -x)
    return -self.signs[of.inputs[0].id]


def _together(self: _Walk, of: Node, second: int = 1) -> Signs:
    """Two values that go the same way, the second one turned if `second` is -1."""
    x, y = (self.signs[i.id] for i in of.inputs)
    y = second * y
    if bool((x * y < 0).any()):
        raise BlockedError(f"`{of.kind}` of values that rise and fall", of)
    made: Signs = np.sign(x + y)
    return made


def _sum(self: _Walk, of: Node) -> Signs:
    _need_fit(self, of, lambda x, y: x + y)
    _need_finite(self, of)
    return _together(self, of)


def _difference(self: _Walk, of: Node) -> Signs:
    _need_fit(self, of, lambda x, y: x - y)
    _need_finite(self, of)
    return _together(self, of, -1)


def _product(self: _Walk, of: Node) -> Signs:
    _need_fit(self, of, lambda x, y: x * y)
    x, y = of.inputs
    if self.signs[y.id].any():
        x, y = y, x
    return _by_constant(self, of, x, y)


def _quotient(self: _Walk, of: Node) -> Signs:
    x, y = of.inputs
    assert isinstance(of.type, Tensor), of
    if bool((self.ends(y) == 0).any()) or not of.type.element.is_float:
        raise BlockedError("it is divided by 0, or as a whole number", of)
    return _by_constant(self, of, x, y)


def _by_constant(self: _Walk, of: Node, x: Node, factor: Node) -> Signs:
    if self.signs[factor.id].any():
        raise BlockedError(f"`{of.kind}` of two values that vary", of)
    number = self.ends(factor)[0]
    if not bool(np.isfinite(number.astype(np.float64)).all()):
        raise BlockedError(f"`{of.kind}` with a number that is not finite", of)
    made: Signs = self.signs[x.id] * np.sign(number).astype(np.int64)
    return made


def _absolute(self: _Walk, of: Node) -> Signs:
    ends = self.ends(of.inputs[0])
    if bool(((ends < 0).any(axis=0) & (ends > 0).any(axis=0)).any()):
        raise BlockedError("`abs` of values of both signs", of)
    return np.where((ends < 0).any(axis=0), -1, 1) * self.signs[of.inputs[0].id]


def _wrapped(self: _Walk, of: Node) -> Signs:
    source, made = self.ends(of.inputs[0]), self.ends(of)
    if bool((source.astype(np.int64) != made.astype(np.int64)).any()):
        raise BlockedError("it wraps", of)
    return self.signs[of.inputs[0].id]


def _compared(self: _Walk, of: Node) -> Signs:
    """x < y is false, then true, as y - x rises."""
    x, y = (self.signs[i.id] for i in of.inputs)
    if bool((x * y > 0).any()):
        raise BlockedError(f"`{of.kind}` of two values that go the same way", of)
    made: Signs = np.sign(y - x)
    return made


def _shifted(self: _Walk, of: Node) -> Signs:
    x, count = of.inputs
    if self.signs[count.id].any():
        raise BlockedError("a shift by a value that varies", of)
    if of.kind == "shl":
        _need_fit(self, of, lambda a, b: a * 2.0**b)
    return self.signs[x.id]


def _chosen(self: _Walk, of: Node) -> Signs:
    """A choice that changes at one place: both sides must go one way, and so must the step from one to the other."""
    condition, then, otherwise = of.inputs
    way = self.signs[condition.id]
    signs = np.sign(self.signs[then.id] + self.signs[otherwise.id])
    if bool((self.signs[then.id] * self.signs[otherwise.id] < 0).any()):
        raise BlockedError("a choice between what rises and what falls", of)
    if not way.any():
        picked = self.ends(condition)[0].astype(bool)
        made: Signs = np.where(picked, self.signs[then.id], self.signs[otherwise.id])
        return made
    before, after = _change(self, condition)
    step = np.sign(_real(self.values(of, after)) - _real(self.values(of, before)))[0]
    if bool((step * signs < 0).any()):
        raise BlockedError("a choice that turns back where it changes", of)
    turned: Signs = np.sign(signs + step).astype(np.int64)
    return turned


def _change(self: _Walk, condition: Node) -> tuple[Array, Array]:
    """Return for each channel the last source before a condition changes and the first one after; equal if it never
    does."""
    first = self.ends(condition)[0].astype(bool)
    low, high = self.limits.low.copy(), self.limits.high.copy()
    is_changing = self.ends(condition)[1].astype(bool) != first
    high = np.where(is_changing, high, low)
    while bool((high - low > 1).any()):
        middle = (low + high) // 2
        is_same = self.values(condition, middle[None])[0].astype(bool) == first
        low, high = np.where(is_same & (high - low > 1), middle, low), np.where(is_same, high, middle)
    return low[None], high[None]


def _real(x: Array) -> Array:
    made: Array = x.astype(np.float64)
    return made


def _need_fit(self: _Walk, of: Node, exact: Callable[..., Array]) -> None:
    """Refuse an operation on whole numbers that wraps at an end of the interval."""
    assert isinstance(of.type, Tensor), of
    if of.type.element.is_float:
        return
    value = exact(*(self.ends(i).astype(np.float64) for i in of.inputs))
    if bool((value < of.type.element.low).any() or (value > of.type.element.high).any()):
        raise BlockedError("it wraps", of)


def _need_finite(self: _Walk, of: Node) -> None:
    """Refuse a sum of two values that vary and are infinite somewhere: inf - inf is no number."""
    if all(self.signs[i.id].any() for i in of.inputs):
        for i in of.inputs:
            if not bool(np.isfinite(_real(self.ends(i))).all()):
                raise BlockedError("a sum of values that are infinite", of)


_RULES: Mapping[str, Callable[[_Walk, Node], Signs]] = {
    **dict.fromkeys(("convert", "sat", "round", "sign", "floor", "ceil", "trunc", "round_even", "sqrt"), _kept),
    **dict.fromkeys(("min", "max", "and", "or", "add_sat"), _together),
    **{"add": _sum, "sub": _difference, "neg": _turned, "not": lambda w, n: -w.signs[n.inputs[0].id]},
    **{"mul": _product, "div": _quotient, "abs": _absolute, "wrap": _wrapped},
    **{"lt": _compared, "le": _compared, "shl": _shifted, "shr": _shifted, "select": _chosen},
}
