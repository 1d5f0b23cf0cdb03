"""Comparison and choice, element by element.

Comparisons give `bit` and follow IEEE 754 for floats: a NaN is unequal to everything, -0 equals +0. `b1`, `t` and `bit`
compare as their numbers. A choice evaluates both sides and passes the bits of the chosen one unseen.
"""

import numpy as np

from bittern.ops.rules import need, need_bit, need_tensors, need_value, same, same_shape, same_space
from bittern.ops.table import Array, Attributes, Site, op
from bittern.types.elements import BIT, Element, Kind
from bittern.types.values import Tensor, Type


def _is_ordered(element: Element) -> bool:
    return element.has_arithmetic or element.kind in (Kind.SIGN, Kind.BIT)


def _comparison(types: tuple[Type, ...], attributes: Attributes) -> Type:
    for operand in need_tensors(types, 2):
        hint = f"`{operand.element}` is storage only: convert it first" if operand.element.is_float else ""
        need(operand, _is_ordered, "an integer, `f32`, `f64`, `b1`, `t` or `bit`", hint)
    both = same(types)
    return Tensor(BIT, both.shape, both.space)


def _choice(types: tuple[Type, ...], attributes: Attributes) -> Type:
    condition, first, second = need_tensors(types, 3)
    need_bit(condition)
    both = same((need_value(first), need_value(second)))
    same_shape(both, condition)
    return Tensor(both.element, both.shape, same_space(types))


@op("eq", "whether x equals y", _comparison)
def _eq(site: Site, x: Array, y: Array) -> Array:
    return np.equal(x, y)


@op("ne", "whether x and y differ; true for a NaN", _comparison)
def _ne(site: Site, x: Array, y: Array) -> Array:
    return np.not_equal(x, y)


@op("lt", "whether x is below y", _comparison)
def _lt(site: Site, x: Array, y: Array) -> Array:
    return np.less(x, y)


@op("le", "whether x is y or below", _comparison)
def _le(site: Site, x: Array, y: Array) -> Array:
    return np.less_equal(x, y)


@op("select", "a where the condition holds, else b", _choice)
def _select(site: Site, condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition, a, b)
