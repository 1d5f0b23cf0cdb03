"""Exact integer products of small groups, added to i32 lanes, and of every other i32 lane; lane-wise by groups.

No intermediate saturates; the sum wraps modulo 2^32. A chip may use any instruction that gives these bits: VPDPBUSD;
PMADDUBSW only where the ranges of the operands prove that a pair fits in i16.
"""

import numpy as np

from bittern.bitops.kernel import Attributes
from bittern.bitops.kinds import Array, Rule, Site, Types, kind
from bittern.bitops.lanes import lanes
from bittern.bitops.rules import need, need_count


def _grouped(group: int, left: str, right: str) -> Rule:
    def rule(types: Types, _: Attributes) -> Types:
        need_count(types, 3)
        need(types[0].element.name == "i32", types[0], "i32 lanes to add to")
        count = types[0].count * group
        wanted = f"{left}x{count}, {right}x{count}"
        need(types[1:] == (lanes(f"{left}x{count}"), lanes(f"{right}x{count}")), f"{types[1]}, {types[2]}", wanted)
        return types[:1]

    return rule


def _dot(total: Array, x: Array, y: Array, group: int) -> Array:
    products = x.astype(np.int64) * y.astype(np.int64)
    return np.asarray(total + products.reshape(-1, group).sum(axis=1)).astype(np.int32)


@kind("dot4", "x[k] + sum of u8 y[4k + j] times i8 z[4k + j], j < 4; modulo 2^32", _grouped(4, "u8", "i8"))
def _dot4(_: Site, x: Array, y: Array, z: Array) -> Array:
    return _dot(x, y, z, 4)


@kind("dot2", "x[k] + y[2k] z[2k] + y[2k + 1] z[2k + 1] of i16; modulo 2^32", _grouped(2, "i16", "i16"))
def _dot2(_: Site, x: Array, y: Array, z: Array) -> Array:
    return _dot(x, y, z, 2)


def _widened(types: Types, _: Attributes) -> Types:
    need_count(types, 2)
    need(types[0].element.name == "i32" and types[0] == types[1], f"{types[0]}, {types[1]}", "two vectors of i32")
    need(types[0].count >= 4, types[0], "four lanes or more")
    return (types[0].of(types[0].count // 2).to("i64"),)


@kind("mul_wide", "x[2k] * y[2k] of i32, exact, as i64; what lies in the odd lanes does not matter", _widened)
def _mul_wide(_: Site, x: Array, y: Array) -> Array:
    return x[::2].astype(np.int64) * y[::2].astype(np.int64)
