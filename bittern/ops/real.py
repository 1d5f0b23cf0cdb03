"""Functions over the reals, for `ideal` bodies: evaluated in float64 by the platform, never part of strict results."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bittern.ops.arithmetic import reals
from bittern.ops.rules import need_any_float, need_tensors, same
from bittern.ops.table import Array, Attributes, Meaning, Site, op
from bittern.types.values import Tensor, Type


def _rule(count: int, types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    for type_ in need_tensors(types, count):
        need_any_float(type_)
    return same(types)


def _on_reals(function: Callable[..., Any]) -> Meaning:
    def meaning(site: Site, *operands: Array) -> Array:
        result: Array = function(*[reals(x) for x in operands])
        return result

    return meaning


_erf_of_one = np.frompyfunc(math.erf, 1, 1)


def _erf(x: Array) -> Array:
    return np.asarray(_erf_of_one(x), np.float64)


_ROWS: list[tuple[str, int, Callable[..., Any], str]] = [
    ("exp", 1, np.exp, "e to the power x"),
    ("log", 1, np.log, "natural logarithm"),
    ("pow", 2, np.power, "x to the power y"),
    ("sin", 1, np.sin, "sine"),
    ("cos", 1, np.cos, "cosine"),
    ("tanh", 1, np.tanh, "hyperbolic tangent"),
    ("erf", 1, _erf, "error function"),
]

for _name, _count, _function, _doc in _ROWS:
    op(_name, _doc, partial(_rule, _count), ideal_only=True)(_on_reals(_function))
