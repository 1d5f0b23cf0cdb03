"""Functions over the reals, for `ideal` bodies: evaluated in float64 by the platform, never part of strict results."""

import math

import numpy as np

from bittern.ops.rules import need_any_float, same
from bittern.ops.table import Array, Attributes, Site, op
from bittern.types.values import Tensor, Type


def _rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    for type_ in types:
        need_any_float(type_)
    return same(types)


@op("exp", "e to the power x", _rule, ideal_only=True)
def exp(site: Site, x: Array) -> Array:
    """x: float64 of any shape."""
    return np.exp(x)


@op("log", "natural logarithm", _rule, ideal_only=True)
def log(site: Site, x: Array) -> Array:
    """x: float64 of any shape."""
    return np.log(x)


@op("pow", "x to the power y", _rule, ideal_only=True)
def power(site: Site, x: Array, y: Array) -> Array:
    """x, y: float64 of one shape."""
    return np.power(x, y)


@op("sin", "sine", _rule, ideal_only=True)
def sin(site: Site, x: Array) -> Array:
    """x: float64 of any shape."""
    return np.sin(x)


@op("cos", "cosine", _rule, ideal_only=True)
def cos(site: Site, x: Array) -> Array:
    """x: float64 of any shape."""
    return np.cos(x)


@op("tanh", "hyperbolic tangent", _rule, ideal_only=True)
def tanh(site: Site, x: Array) -> Array:
    """x: float64 of any shape."""
    return np.tanh(x)


_erf = np.frompyfunc(math.erf, 1, 1)


@op("erf", "error function", _rule, ideal_only=True)
def erf(site: Site, x: Array) -> Array:
    """x: float64 of any shape."""
    return np.asarray(_erf(x), np.float64)
