"""Ops that reduce or scan the last axis.

Float sums, products, maxima and minima use 16 partials and one fixed tree (NUMERICS, 4): element i joins partial i mod
16, ascending; then p[i] op p[i + 8], + 4, + 2, + 1. Float dots and scans are strictly ascending. Integers are exact.
Over the reals (ideal) the order is free.
"""

from collections.abc import Callable

import numpy as np

from bittern.ops.rules import is_open, need, need_arithmetic, need_bitwise, need_tensors, same
from bittern.ops.table import Array, Attributes, Site, op
from bittern.types.elements import ELEMENTS, U32, Element, Kind
from bittern.types.faults import ATTRIBUTE_UNFIT, RANK_UNFIT, SHAPE_MISMATCH, TypeFault
from bittern.types.values import Tensor, Type, text


def _reduced(x: Tensor, element: Element | None = None) -> Tensor:
    if not x.shape:
        raise TypeFault(RANK_UNFIT, text(x), "an array", "a reduction works on the last axis")
    return Tensor(element or x.element, x.shape[:-1], x.space)


def _arithmetic_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    return _reduced(need_arithmetic(need_tensors(types, 1)[0]))


def _index_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    return _reduced(need_arithmetic(need_tensors(types, 1)[0]), U32)


def _bit_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    return _reduced(need_bitwise(need_tensors(types, 1)[0]))


def _scan_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    x = need_arithmetic(need_tensors(types, 1)[0])
    _reduced(x)
    return x


def _scan_bit_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    x = need_bitwise(need_tensors(types, 1)[0])
    _reduced(x)
    return x


# --- sixteen partials


def _greater(a: Array, b: Array) -> Array:
    return np.where(a > b, a, b)


def _smaller(a: Array, b: Array) -> Array:
    return np.where(a < b, a, b)


def _sixteen(x: Array, start: float, combine: Callable[[Array, Array], Array]) -> Array:
    """Reduce the last axis: x: [..., n] -> [...]; partials begin at `start`, which also pads the last round."""
    n = x.shape[-1]
    rounds = -(-n // 16)
    if rounds * 16 != n:
        padded = np.full((*x.shape[:-1], rounds * 16), start, x.dtype)
        padded[..., :n] = x
        x = padded
    x = x.reshape((*x.shape[:-1], rounds, 16))
    p = np.full((*x.shape[:-2], 16), start, x.dtype)
    for i in range(rounds):
        p = combine(p, x[..., i, :])
    for half in (8, 4, 2, 1):
        p = combine(p[..., :half], p[..., half : 2 * half])
    return p[..., 0]


def _padded_tail(x: Array, start: float, combine: Callable[[Array, Array], Array]) -> Array:
    """As `_sixteen`, for operations that padding would change: the last round takes only its own partials."""
    n = x.shape[-1]
    whole = n // 16
    p = np.full((*x.shape[:-1], 16), start, x.dtype)
    for i in range(whole):
        p = combine(p, x[..., 16 * i : 16 * i + 16])
    if n % 16:
        tail = combine(p[..., : n % 16], x[..., 16 * whole :])
        p = np.concatenate([tail, p[..., n % 16 :]], -1)
    for half in (8, 4, 2, 1):
        p = combine(p[..., :half], p[..., half : 2 * half])
    return p[..., 0]


def _narrow(site: Site, values: Array) -> Array:
    """Wrap integers to the width of the result's element."""
    element = site.result.element
    if element.bits >= 8:
        return values.astype(element.dtype, copy=False)
    low = values.astype(np.int64) & ((1 << element.bits) - 1)
    if element.kind is Kind.SIGNED:
        low = np.where(low >> (element.bits - 1), low - (1 << element.bits), low)
    return low.astype(element.dtype)


def _ideal_sum(site: Site, x: Array) -> Array:
    return np.sum(x, -1)


def _is_real(site: Site, x: Array) -> bool:
    return x.dtype.kind == "f"


@op("sum", "sum of the last axis; ints wrap", _arithmetic_rule, ideal=_ideal_sum)
def sum_(site: Site, x: Array) -> Array:
    """x: [..., n] -> [...]."""
    if _is_real(site, x):
        return _sixteen(x, 0.0, np.add)
    return _narrow(site, np.add.reduce(x, -1, dtype=np.uint64 if x.dtype.kind == "u" else np.int64))


def _ideal_product(site: Site, x: Array) -> Array:
    return np.prod(x, -1)


@op("product", "product of the last axis; ints wrap", _arithmetic_rule, ideal=_ideal_product)
def product(site: Site, x: Array) -> Array:
    """x: [..., n] -> [...]."""
    if _is_real(site, x):
        return _sixteen(x, 1.0, np.multiply)
    return _narrow(site, np.multiply.reduce(x, -1, dtype=np.uint64 if x.dtype.kind == "u" else np.int64))


@op("max_of", "greatest of the last axis, by max(p, x) from the lowest value", _arithmetic_rule)
def max_of(site: Site, x: Array) -> Array:
    """x: [..., n] -> [...]."""
    if _is_real(site, x):
        return _padded_tail(x, -np.inf, _greater)
    return np.maximum.reduce(x, -1, initial=site.operands[0].element.low)


@op("min_of", "smallest of the last axis, by min(p, x) from the highest value", _arithmetic_rule)
def min_of(site: Site, x: Array) -> Array:
    """x: [..., n] -> [...]."""
    if _is_real(site, x):
        return _padded_tail(x, np.inf, _smaller)
    return np.minimum.reduce(x, -1, initial=site.operands[0].element.high)


def _best(x: Array, worst: float, find: Callable[..., Array]) -> Array:
    """Return the first index of the best element; NaN loses to everything, also to the worst number."""
    if x.dtype.kind != "f":
        return find(x, -1).astype(np.uint32)
    is_nan = np.isnan(x)
    plain = np.where(is_nan, worst, x)
    index = find(plain, -1)
    best = np.take_along_axis(plain, index[..., None], -1)
    is_best = (plain == best) & ~is_nan
    return np.argmax(is_best, -1).astype(np.uint32)


@op("argmax", "lowest index of the greatest; NaN loses to everything, all NaN gives 0", _index_rule)
def argmax(site: Site, x: Array) -> Array:
    """x: [..., n] -> u32[...]."""
    if x.shape[-1] == 0:
        return np.zeros(x.shape[:-1], np.uint32)
    return _best(x, -np.inf, np.argmax)


@op("argmin", "lowest index of the smallest; NaN loses to everything, all NaN gives 0", _index_rule)
def argmin(site: Site, x: Array) -> Array:
    """x: [..., n] -> u32[...]."""
    if x.shape[-1] == 0:
        return np.zeros(x.shape[:-1], np.uint32)
    return _best(x, np.inf, np.argmin)


@op("all_of", "bitwise and of the last axis", _bit_rule)
def all_of(site: Site, x: Array) -> Array:
    """x: [..., n] -> [...]."""
    if x.dtype.kind == "b":
        return np.logical_and.reduce(x, -1)
    return _narrow(site, np.bitwise_and.reduce(x, -1))


@op("any_of", "bitwise or of the last axis", _bit_rule)
def any_of(site: Site, x: Array) -> Array:
    """x: [..., n] -> [...]."""
    return np.logical_or.reduce(x, -1) if x.dtype.kind == "b" else np.bitwise_or.reduce(x, -1)


@op("xor_of", "exclusive or of the last axis", _bit_rule)
def xor_of(site: Site, x: Array) -> Array:
    """x: [..., n] -> [...]."""
    return np.logical_xor.reduce(x, -1) if x.dtype.kind == "b" else np.bitwise_xor.reduce(x, -1)


# --- dot


def _dot_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    operands = need_tensors(types, 2)
    for operand in operands:
        need(
            operand,
            lambda e: e.has_arithmetic or e.kind is Kind.SIGN or is_open(e, "int", "float"),
            "integers, `b1`, `t`, `f32` or `f64`",
            "storage-only floats are converted first: `f32(x)`",
        )
    x = same(operands)
    to: Element = attributes["to"]
    if not x.element.is_float and x.element.kind is not Kind.OPEN:
        if to.name not in ("i32", "i64"):
            raise TypeFault(ATTRIBUTE_UNFIT, f"`{to}`", "`i32` or `i64` for a dot of integers")
        if x.element.bits > 8 and to.name == "i32":
            raise TypeFault(ATTRIBUTE_UNFIT, f"a dot of `{x.element}` in i32", "`dot[i64]`", "the sum could wrap")
        n = x.shape[-1].constant if x.shape else None
        if n is not None and to.name == "i32" and n * _largest(x.element) ** 2 > ELEMENTS["i32"].high:
            raise TypeFault(SHAPE_MISMATCH, f"a dot of {n} `{x.element}` in i32", "`dot[i64]`", "the sum could wrap")
    return _reduced(x, to)


def _largest(element: Element) -> int:
    return max(-element.low, element.high)


def _ideal_dot(site: Site, x: Array, y: Array) -> Array:
    return _contract(np.asarray(x, np.float64), np.asarray(y, np.float64), site.lead)


@op("dot", "sum of products over the last axis; floats ascending from +0, each operation rounded", _dot_rule, ideal=_ideal_dot)
def dot(site: Site, x: Array, y: Array) -> Array:
    """x, y: [..., n] -> [...]; ints of at most 8 bits exactly."""
    n = x.shape[-1]
    if x.dtype.kind == "f":
        return _ordered_dot(x, y)
    bound = n * _largest(site.operands[0].element) ** 2
    if bound < 1 << 24:
        return _contract(x.astype(np.float32), y.astype(np.float32), site.lead).astype(site.result.element.dtype)
    if bound < 1 << 53:
        return _contract(x.astype(np.float64), y.astype(np.float64), site.lead).astype(site.result.element.dtype)
    return np.add.reduce(x.astype(np.int64) * y.astype(np.int64), -1).astype(site.result.element.dtype)


def _ordered_dot(x: Array, y: Array) -> Array:
    shape = np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    total = np.zeros(shape, x.dtype)
    for i in range(x.shape[-1]):
        total += x[..., i] * y[..., i]
    return total


def _contract(x: Array, y: Array, lead: int) -> Array:
    """Sum x * y over the last axis in any order: one matrix product where the batch axes allow it."""
    rank = max(x.ndim, y.ndim) - 1
    if rank >= 1 and x.ndim == y.ndim:
        split = _split(x.shape[:-1], y.shape[:-1])
        if split is not None:
            return _as_product(x, y, *split)
    return np.einsum("...i,...i->...", x, y)


def _split(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[list[int], list[int], list[int]] | None:
    """Return axes that both have, that only a has, that only b has; None where nothing is gained."""
    shared, rows, columns = [], [], []
    for axis, (left, right) in enumerate(zip(a, b, strict=True)):
        if right == 1 and left != 1:
            rows.append(axis)
        elif left == 1 and right != 1:
            columns.append(axis)
        else:
            shared.append(axis)
    return (shared, rows, columns) if rows or columns else None


def _as_product(x: Array, y: Array, shared: list[int], rows: list[int], columns: list[int]) -> Array:
    rank = x.ndim - 1
    n = x.shape[-1]
    batch = tuple(max(x.shape[a], y.shape[a]) for a in shared)
    height = tuple(x.shape[a] for a in rows)
    width = tuple(y.shape[a] for a in columns)
    left = x.transpose([*shared, *rows, *columns, rank]).reshape(*[x.shape[a] for a in shared], -1, n)
    right = y.transpose([*shared, *columns, *rows, rank]).reshape(*[y.shape[a] for a in shared], -1, n)
    if left.shape[-2] == 1:
        product = (right @ left[..., 0, :, None])[..., 0][..., None, :]
    elif right.shape[-2] == 1:
        product = left @ right[..., 0, :, None]
    else:
        product = left @ right.swapaxes(-1, -2)
    order = [*shared, *rows, *columns]
    back = np.argsort(order)
    return product.reshape(batch + height + width).transpose(back)


# --- scans


@op("scan_sum", "inclusive running sum of the last axis, ascending; ints wrap", _scan_rule)
def scan_sum(site: Site, x: Array) -> Array:
    """x: [..., n] -> [..., n]."""
    if x.dtype.kind == "f":
        total = np.add.accumulate(x, -1)
        return total + 0.0 if x.shape[-1] else total
    return _narrow(site, np.add.accumulate(x, -1, dtype=np.uint64 if x.dtype.kind == "u" else np.int64))


@op("scan_max", "inclusive running max(p, x) of the last axis, ascending", _scan_rule)
def scan_max(site: Site, x: Array) -> Array:
    """x: [..., n] -> [..., n]."""
    if x.dtype.kind != "f":
        return np.maximum.accumulate(x, -1)
    result = np.empty_like(x)
    p: Array = np.full(x.shape[:-1], -np.inf, x.dtype)
    for i in range(x.shape[-1]):
        p = _greater(p, x[..., i])
        result[..., i] = p
    return result


@op("scan_xor", "inclusive running exclusive or of the last axis", _scan_bit_rule)
def scan_xor(site: Site, x: Array) -> Array:
    """x: [..., n] -> [..., n]."""
    return np.logical_xor.accumulate(x, -1) if x.dtype.kind == "b" else np.bitwise_xor.accumulate(x, -1)
