"""Ops that reduce or scan the last axis.

Float sums, products, maxima and minima use 16 partials and one fixed tree (NUMERICS, 4): element i joins partial i mod
16, ascending; then p[i] op p[i + 8], + 4, + 2, + 1. Float dots and scans are strictly ascending. Integers are exact.
Over the reals (ideal) the order is free.

What numpy is trusted with, and the tests hold it to: `accumulate` goes in order, and so does a reduction over the first
axis of a C-contiguous array whose other axes have more than one element, because its inner loop runs along those.
(Its sum of one contiguous row is pairwise.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np

from bittern.ops.arithmetic import fit, or_real, reals
from bittern.ops.rules import (
    is_open,
    need,
    need_arithmetic,
    need_bitwise,
    need_element,
    need_tensors,
    same,
    same_shape,
    same_space,
)
from bittern.ops.table import Array, Attributes, Meaning, Site, TypeRule, op
from bittern.types.elements import U32, Element, Kind
from bittern.types.faults import ATTRIBUTE_UNFIT, RANK_UNFIT, SHAPE_MISMATCH, TypeFault
from bittern.types.values import Tensor, Type, text

_PIECE = 32768  # values worked on at a time, so that they stay in the nearest caches


# --- rules


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


def _dot_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    (x, y), to = need_tensors(types, 2), need_element(attributes)
    for operand in (x, y):
        need(
            operand,
            _is_multiplied,
            "integers, `bit`, `b1`, `t`, `f32` or `f64`",
            "storage-only floats are converted first: `f32(x)`",
        )
    if x.element == y.element or not all(_is_whole(operand.element) for operand in (x, y)):
        same((x, y))
    same_shape(x, y)
    x = Tensor(x.element, x.shape, same_space((x, y)))
    if x.element.is_float and to != x.element:
        raise TypeFault(ATTRIBUTE_UNFIT, f"`{to}`", f"`{x.element}` for a dot of `{x.element}`")
    if not x.element.is_float and not is_open(x.element) and not is_open(y.element):
        _need_room(x, y, to)
    return _reduced(x, to)


def _is_multiplied(element: Element) -> bool:
    return element.has_arithmetic or element.kind in (Kind.SIGN, Kind.BIT)


def _is_whole(element: Element) -> bool:
    """Whether the values are whole numbers, so that a dot takes them with whole numbers of another element."""
    return is_open(element, "int") or (_is_multiplied(element) and not element.is_float)


def _need_room(x: Tensor, y: Tensor, to: Element) -> None:
    """Refuse a dot of integers whose sum could wrap."""
    if to.name not in ("i32", "i64") and not is_open(to, "int"):
        raise TypeFault(ATTRIBUTE_UNFIT, f"`{to}`", "`i32` or `i64` for a dot of integers")
    if to.name != "i32":
        return
    both = f"`{x.element}`" if x.element == y.element else f"`{x.element}` and `{y.element}`"
    if max(x.element.bits, y.element.bits) > 8:
        raise TypeFault(ATTRIBUTE_UNFIT, f"a dot of {both} in i32", "`dot[i64]`", "the sum could wrap")
    n, (low, high) = x.shape[-1].constant if x.shape else None, _products(x.element, y.element)
    if n is not None and (n * high > to.high or n * low < to.low):
        raise TypeFault(SHAPE_MISMATCH, f"a dot of {n} {both} in i32", "`dot[i64]`", "the sum could wrap")


def _products(x: Element, y: Element) -> tuple[int, int]:
    """Return the least and the greatest product of two values."""
    corners = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
    return min(corners), max(corners)


# --- sixteen partials

_Combine = Callable[[Array, Array], Array]


def _by_row(x: Array, reduce: Callable[[Array], Array]) -> Array:
    """Reduce the last axis, which is not empty, in pieces. reduce: [rows, n] C-contiguous -> [rows]."""
    front, n = x.shape[:-1], x.shape[-1]
    count, step = prod(front), max(1, _PIECE // n)
    rows = np.ascontiguousarray(x).reshape(count, n)
    if count <= step:
        return reduce(rows).reshape(front)
    result = np.empty(count, x.dtype)
    for i in range(0, count, step):
        result[i : i + step] = reduce(rows[i : i + step])
    return result.reshape(front)


def _tree(p: Array, combine: _Combine) -> Array:
    """Combine the partials. p: [..., 16] -> [...]."""
    for half in (8, 4, 2):
        p = combine(p[..., :half], p[..., half:])
    return combine(p[..., 0], p[..., 1])


def _sixteen(x: Array, start: float, combine: np.ufunc) -> Array:
    """Sum or multiply the last axis with 16 partials that begin at `start`. x: [..., n] floats -> [...]."""
    n = x.shape[-1]
    if not n:
        return np.full(x.shape[:-1], start, x.dtype)
    rounds, left = divmod(n, 16)

    def reduce(rows: Array) -> Array:
        count = rows.shape[0]
        whole = rows[:, : 16 * rounds].reshape(count, rounds, 16).transpose(1, 0, 2)
        p: Array = combine.reduce(np.ascontiguousarray(whole), 0, initial=start)
        if left:
            combine(p[:, :left], rows[:, 16 * rounds :], out=p[:, :left])
        return _tree(p, combine)

    return _by_row(x, reduce)


def _extreme(x: Array, start: float, combine: _Combine, fast: np.ufunc) -> Array:
    """Return the greatest (smallest) of the last axis. x: [..., n] floats -> [...].

    Where numpy's own answer is a number other than zero it is the answer in any order. Its NaN says only that there is
    one, and the sign of its zero may be another than that of the partials: then they are formed.
    """
    result: Array = fast.reduce(x, -1, initial=start)
    is_sure = np.greater(np.absolute(result), 0)
    if is_sure.all():
        return result
    result = np.array(result)
    result[~is_sure] = _by_row(x[~is_sure], lambda rows: _in_rounds(rows, start, combine))
    return result


def _in_rounds(rows: Array, start: float, combine: _Combine) -> Array:
    p: Array = np.full((rows.shape[0], 16), start, rows.dtype)
    for i in range(0, rows.shape[1], 16):
        part = rows[:, i : i + 16]
        p[:, : part.shape[1]] = combine(p[:, : part.shape[1]], part)
    return _tree(p, combine)


def _greater(a: Array, b: Array) -> Array:
    return np.where(np.greater(a, b), a, b)


def _smaller(a: Array, b: Array) -> Array:
    return np.where(np.less(a, b), a, b)


# --- reductions


def _sum(site: Site, x: Array) -> Array:
    if x.dtype.kind == "f":
        return _sixteen(x, 0.0, np.add)
    total: Array = np.add.reduce(x, -1, dtype=x.dtype)
    return fit(site.result.element, total)


def _product(site: Site, x: Array) -> Array:
    if x.dtype.kind == "f":
        return _sixteen(x, 1.0, np.multiply)
    total: Array = np.multiply.reduce(x, -1, dtype=x.dtype)
    return fit(site.result.element, total)


def _max_of(site: Site, x: Array) -> Array:
    if x.dtype.kind == "f":
        return _extreme(x, -np.inf, _greater, np.maximum)
    greatest: Array = np.maximum.reduce(x, -1, initial=site.operands[0].element.low)
    return greatest


def _min_of(site: Site, x: Array) -> Array:
    if x.dtype.kind == "f":
        return _extreme(x, np.inf, _smaller, np.minimum)
    smallest: Array = np.minimum.reduce(x, -1, initial=site.operands[0].element.high)
    return smallest


def _argmax(site: Site, x: Array) -> Array:
    return _best(x, np.argmax, -np.inf)


def _argmin(site: Site, x: Array) -> Array:
    return _best(x, np.argmin, np.inf)


def _best(x: Array, find: Callable[..., Any], worst: float) -> Array:
    """Return the first index of the best element. numpy finds the first NaN if there is one; here NaN loses."""
    if not x.shape[-1]:
        return np.zeros(x.shape[:-1], np.uint32)
    index = np.asarray(find(x, -1))
    if x.dtype.kind == "f":
        chosen = x[index] if x.ndim == 1 else np.take_along_axis(x, index[..., None], -1)
        if np.isnan(chosen).any():
            is_nan = np.isnan(x)
            plain = np.where(is_nan, worst, x)
            best = np.take_along_axis(plain, np.asarray(find(plain, -1))[..., None], -1)
            index = np.argmax((plain == best) & ~is_nan, -1)
    return np.asarray(index).astype(np.uint32)


def _bitwise(on_bit: Callable[..., Any], on_ints: Callable[..., Any]) -> Meaning:
    """Return the meaning of a reduction or scan of bits."""

    def meaning(site: Site, x: Array) -> Array:
        result: Array = on_bit(x, -1) if x.dtype.kind == "b" else on_ints(x, -1)
        return fit(site.result.element, result)

    return meaning


# --- scans


def _scan_sum(site: Site, x: Array) -> Array:
    total: Array = np.add.accumulate(x, -1, dtype=x.dtype)
    if x.dtype.kind == "f":
        return np.add(total, 0.0)  # from +0: a running sum of zeros is not -0
    return fit(site.result.element, total)


def _scan_max(site: Site, x: Array) -> Array:
    fast: Array = np.maximum.accumulate(x, -1)
    if x.dtype.kind != "f" or np.greater(np.absolute(fast), 0).all():
        return fast
    result = np.empty_like(x)  # numpy keeps a NaN, and chooses among zeros by rules of its own
    p: Array = np.full(x.shape[:-1], -np.inf, x.dtype)
    for i in range(x.shape[-1]):
        p = _greater(p, x[..., i])
        result[..., i] = p
    return result


# --- dot


def _dot(site: Site, x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return _ordered_dot(x, y)
    dtype = site.result.element.dtype
    low, high = _products(site.operands[0].element, site.operands[1].element)
    bound = x.shape[-1] * max(-low, high)
    if bound < 1 << 24:
        return _contract(x.astype(np.float32), y.astype(np.float32)).astype(dtype)
    if bound < 1 << 53:
        return _contract(x.astype(np.float64), y.astype(np.float64)).astype(np.int64).astype(dtype)
    total: Array = np.add.reduce(np.multiply(x, y, dtype=np.int64, casting="unsafe"), -1)
    return total.astype(dtype)


def _ordered_dot(x: Array, y: Array) -> Array:
    """Add the products of the last axis in ascending order, from +0. x, y: [..., n] floats -> [...]."""
    shape = np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    if not x.shape[-1] or 0 in shape:
        return np.zeros(shape, x.dtype)
    result = np.empty(shape, x.dtype)
    _dot_into(result, x, y)
    return result


def _dot_into(result: Array, x: Array, y: Array) -> None:
    """Fill a part of the result: one sum, or as many as are worked on at a time, else its halves.

    The longest axis is halved, the last one late: along it lies the inner loop.
    """
    count, n = result.size, x.shape[-1]
    if count == 1:
        total: Array = np.add.accumulate(np.multiply(x, y).reshape(n))
        result[...] = np.add(total[-1], 0.0)  # from +0: a sum of -0 alone is +0
    elif count <= 2 * _PIECE:
        is_reused = 2 * max(x.size, y.size) <= count * n
        result[...] = _dot_across(_last_first(x, is_reused), _last_first(y, is_reused), result.shape)
    else:
        lengths = [*result.shape[:-1], result.shape[-1] // 4]
        axis = lengths.index(max(lengths))
        half = result.shape[axis] // 2
        for span in (slice(0, half), slice(half, None)):
            part = (*(slice(None),) * axis, span)
            _dot_into(result[part], *[side if side.shape[axis] == 1 else side[part] for side in (x, y)])


def _last_first(x: Array, copy: bool) -> Array:
    """Return x with its last axis as the first one. copy: contiguous."""
    moved = x.transpose(x.ndim - 1, *range(x.ndim - 1))
    return np.ascontiguousarray(moved) if copy else moved


def _dot_across(x: Array, y: Array, shape: tuple[int, ...]) -> Array:
    """Add products along the first axis in ascending order, from +0. x, y: [n, ...] -> `shape`."""
    n, count = x.shape[0], prod(shape)
    if 4 * count > _PIECE:
        total, product = np.zeros(shape, x.dtype), np.empty(shape, x.dtype)
        for i in range(n):
            np.multiply(x[i], y[i], out=product)
            np.add(total, product, out=total)
        return total
    step = min(n, _PIECE // count)
    buffer = np.empty((1 + step, *shape), x.dtype)
    buffer[0] = 0.0
    rows = buffer.reshape(1 + step, count)
    for i in range(0, n, step):
        used = 1 + min(step, n - i)
        np.multiply(x[i : i + step], y[i : i + step], out=buffer[1:used])
        rows[0] = np.add.reduce(rows[:used], 0, initial=0.0)
    first: Array = buffer[0]
    return first


def _ideal_dot(site: Site, x: Array, y: Array) -> Array:
    if x.dtype.kind == "f" or y.dtype.kind == "f":
        return _contract(reals(x), reals(y))
    return _dot(site, x, y)


def _contract(x: Array, y: Array) -> Array:
    """Sum products over the last axis in any order: one matrix product where the batch axes allow it."""
    plan = _plan(x.shape, y.shape)
    if plan is None:
        each: Array = np.einsum("...i,...i->...", x, y)
        return each
    left = x.transpose(plan.left).reshape(plan.left_shape)
    right = y.transpose(plan.right).reshape(plan.right_shape)
    product: Array
    if plan.left_shape[-2] == 1:  # a matrix times a vector, which is faster than a vector times a matrix
        product = np.matmul(right, left.swapaxes(-1, -2))
    else:
        product = np.matmul(left, right.swapaxes(-1, -2))
    return product.reshape(plan.shape).transpose(plan.back)


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a contraction is one batched matrix product: [shared, rows, n] times [shared, columns, n].

    left, right: order of the operands' axes. left_shape, right_shape: as three axes or more. shape: of the result as
    [shared, rows, columns]. back: its axes in the order of the operands.
    """

    left: tuple[int, ...]
    left_shape: tuple[int, ...]
    right: tuple[int, ...]
    right_shape: tuple[int, ...]
    shape: tuple[int, ...]
    back: tuple[int, ...]


@lru_cache(maxsize=4096)
def _plan(a: tuple[int, ...], b: tuple[int, ...]) -> _Plan | None:
    """Return the plan for operands of these shapes; None where each result has operands of its own."""
    *front_a, n = a
    *front_b, _ = b
    shared, rows, columns = [], [], []
    for axis, (left, right) in enumerate(zip(front_a, front_b, strict=True)):
        if left == right:
            shared.append(axis)
        elif right == 1:
            rows.append(axis)
        else:
            columns.append(axis)
    if not rows and not columns:
        return None
    last, batch = len(front_a), [a[axis] for axis in shared]
    order = [*shared, *rows, *columns]
    return _Plan(
        left=(*order, last),
        left_shape=(*batch, prod(a[axis] for axis in rows), n),
        right=(*shared, *columns, *rows, last),
        right_shape=(*batch, prod(b[axis] for axis in columns), n),
        shape=(*batch, *[a[axis] for axis in rows], *[b[axis] for axis in columns]),
        back=tuple(order.index(axis) for axis in range(last)),
    )


_ROWS: list[tuple[str, Meaning, Meaning | None, TypeRule, str]] = [
    ("sum", _sum, or_real(_sum, partial(np.add.reduce, axis=-1)), _arithmetic_rule, "sum of the last axis; ints wrap"),
    (
        "product",
        _product,
        or_real(_product, partial(np.multiply.reduce, axis=-1)),
        _arithmetic_rule,
        "product of the last axis; ints wrap",
    ),
    ("max_of", _max_of, None, _arithmetic_rule, "greatest of the last axis, by max(p, x) from the lowest value"),
    ("min_of", _min_of, None, _arithmetic_rule, "smallest of the last axis, by min(p, x) from the highest value"),
    ("argmax", _argmax, None, _index_rule, "lowest index of the greatest; NaN loses to everything, all NaN gives 0"),
    ("argmin", _argmin, None, _index_rule, "lowest index of the smallest; NaN loses to everything, all NaN gives 0"),
    ("all_of", _bitwise(np.logical_and.reduce, np.bitwise_and.reduce), None, _bit_rule, "bitwise and of the last axis"),
    ("any_of", _bitwise(np.logical_or.reduce, np.bitwise_or.reduce), None, _bit_rule, "bitwise or of the last axis"),
    (
        "xor_of",
        _bitwise(np.logical_xor.reduce, np.bitwise_xor.reduce),
        None,
        _bit_rule,
        "exclusive or of the last axis",
    ),
    (
        "dot",
        _dot,
        _ideal_dot,
        _dot_rule,
        "sum of products over the last axis; ints of any two elements; floats ascending from +0, each step rounded",
    ),
    ("scan_sum", _scan_sum, None, _scan_rule, "inclusive running sum of the last axis, ascending; ints wrap"),
    ("scan_max", _scan_max, None, _scan_rule, "inclusive running max(p, x) of the last axis, ascending"),
    (
        "scan_xor",
        _bitwise(np.logical_xor.accumulate, np.bitwise_xor.accumulate),
        None,
        _scan_bit_rule,
        "inclusive running exclusive or of the last axis",
    ),
]

for _name, _meaning, _ideal, _rule, _doc in _ROWS:
    op(_name, _doc, _rule, ideal=_ideal)(_meaning)
