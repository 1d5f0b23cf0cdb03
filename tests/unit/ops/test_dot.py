"""Dot products, bit for bit against scalar loops: strictly ascending for floats, exact for integers."""

import itertools
import math
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from row_cases import assert_same, bare, call, layouts, plant, refuses, rough, values

from bittern.ops.table import OPS, Array, Site
from bittern.types.dims import dim, symbol
from bittern.types.elements import B1, BIT, ELEMENTS, F16, F32, F64, I8, I32, I64, U8, U64, Element, T, open_element
from bittern.types.values import Tensor, tensor

N, M = symbol(0), symbol(1)
I16 = ELEMENTS["i16"]
ANY, INT, FLOAT = (open_element("e", kind) for kind in ("type", "int", "float"))
SPECIAL = [math.nan, -math.inf, -1.0, -0.0, 0.0, 1.5, math.inf]
FLOATS = [F32, F64]
INTEGERS = [e for e in ELEMENTS.values() if e.is_integer]


# --- floats


def dotted(x: Sequence[Any], y: Sequence[Any], dtype: Any) -> Any:
    total = dtype(0.0)
    for a, b in zip(x, y, strict=True):
        total = total + a * b
    return total


def ordered(x: Array, y: Array) -> Array:
    """The dot of rows, many at once, by element-wise operations alone."""
    with np.errstate(all="ignore"):
        total = np.zeros(np.broadcast_shapes(x.shape[:-1], y.shape[:-1]), x.dtype)
        for i in range(x.shape[-1]):
            total = total + x[..., i] * y[..., i]
    return total


def check_dot(left: tuple[int, ...], right: tuple[int, ...], element: Element = F32, every_layout: bool = True) -> None:
    rng = np.random.default_rng([*left, *right])
    x, y = rough(rng, left, element.storage), rough(rng, right, element.storage)
    expected = ordered(x, y)
    for layout, same in layouts(x):
        for other, also in layouts(y):
            if every_layout or layout == other or "contiguous" in (layout, other):
                found = call("dot", [element] * 2, same, also, lead=len(left) - 1, to=element)
                assert_same(found, expected, layout, other, left, right)


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_dot_of_every_length(element: Element) -> None:
    dtype = np.dtype(element.storage).type
    rng = np.random.default_rng(3)
    for n in (*range(40), 63, 64, 65, 512):
        x, y = rough(rng, (2, n), dtype), rough(rng, (2, n), dtype)
        with np.errstate(all="ignore"):
            expected = np.array([dotted(a, b, dtype) for a, b in zip(x, y, strict=True)], dtype)
        assert_same(ordered(x, y), expected)
        assert_same(call("dot", [element] * 2, x, y, lead=1, to=element), expected, n)
        assert_same(call("dot", [element] * 2, x[0], y[0], to=element), expected[0], n)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((1, 20), (1, 20)),
        ((2, 300), (2, 300)),
        ((3, 20), (1, 20)),
        ((1, 1, 40), (1, 33, 40)),
        ((5, 1, 40), (1, 33, 40)),
        ((5, 7, 40), (5, 7, 40)),
        ((1, 2, 3, 1, 16), (1, 2, 1, 70, 16)),
        ((4, 2, 3, 1, 64), (1, 2, 1, 8, 64)),
        ((2, 1, 1, 9), (1, 3, 4, 9)),
    ],
    ids=str,
)
def test_dot_over_batch_axes(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    check_dot(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((300, 1, 5), (1, 400, 5)),  # halved along both axes
        ((1, 9000, 7), (1, 9000, 7)),  # one product at a time
        ((3, 70001, 2), (1, 70001, 2)),
        ((2, 20000), (2, 20000)),  # several rounds of partial sums
        ((1, 70000), (1, 70000)),
    ],
    ids=str,
)
def test_dot_in_pieces(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    check_dot(left, right, every_layout=False)


def test_dot_of_special_values() -> None:
    for n in (1, 2, 3):
        x = np.array(list(itertools.product(SPECIAL, repeat=n)), np.float32)
        found = call("dot", [F32] * 2, x[:, None], x[None], lead=2, to=F32)
        assert_same(found, ordered(x[:, None], x[None]))
    zero = np.array([-0.0, 0.0], np.float32)
    assert_same(call("dot", [F32] * 2, zero, -np.ones(2, np.float32), to=F32), np.zeros((), np.float32))
    assert_same(call("dot", [F32] * 2, zero[:1], np.ones(1, np.float32), to=F32), np.zeros((), np.float32))


@pytest.mark.parametrize("element", [e for e in INTEGERS if e.bits <= 8] + [B1, T], ids=str)
def test_dot_of_small_integers_is_exact(element: Element) -> None:
    """EDGE_CASES A1: no pair of products saturates; the sum is exact."""
    rng = np.random.default_rng(element.bits)
    for n in (1, 32, 257, 258, 1023, 1024, 1025, 2000):
        x, y = values(element, (3, 1, n), rng), values(element, (1, 4, n), rng)
        x[0], y[0, 0], y[0, 1] = element.low, element.low, element.high
        found = call("dot", [element] * 2, x, y, lead=2, to=I32)
        assert found.tolist() == (x.astype(np.int64) @ y.astype(np.int64)[0].T)[:, 0].tolist(), n
        same = call("dot", [element] * 2, x[:, 0], x[:, 0], lead=1, to=I64)
        assert same.tolist() == [sum(int(v) ** 2 for v in row) for row in x[:, 0]]


CODES = [e for e in INTEGERS if e.bits <= 8] + [BIT, B1, T]


@pytest.mark.parametrize("element", CODES, ids=str)
def test_dot_of_two_elements_is_exact(element: Element) -> None:
    rng = np.random.default_rng(7)
    for other in CODES:
        for n in (0, 1, 33, 700):
            x, y = values(element, (3, 1, n), rng), values(other, (1, 4, n), rng)
            x[0], x[1], y[0, 0], y[0, 1] = element.low, element.high, other.low, other.high
            found = call("dot", [element, other], x, y, lead=2, to=I32)
            assert found.dtype == np.int32
            assert found.tolist() == (x.astype(np.int64) @ y.astype(np.int64)[0].T)[:, 0].tolist(), (other, n)


def test_dot_of_two_wide_elements_wraps_at_64_bits() -> None:
    x, y = np.full(3, 2**63 + 5, np.uint64), np.array([-1, -128, 127], np.int8)
    exact = sum(int(a) * int(b) for a, b in zip(x, y, strict=True))
    assert int(call("dot", [U64, I8], x, y, to=I64)) == (exact + 2**63) % 2**64 - 2**63


@pytest.mark.parametrize("element", [I16, I32, I64, U64], ids=str)
def test_dot_of_wide_integers_wraps_at_64_bits(element: Element) -> None:
    rng = np.random.default_rng(element.bits)
    x, y = values(element, (3, 1, 100), rng), values(element, (1, 2, 100), rng)
    x[0], y[0, 0] = element.low, element.low
    found = call("dot", [element] * 2, x, y, lead=2, to=I64)
    exact = [[sum(int(a) * int(b) for a, b in zip(p, q, strict=True)) for q in y[0]] for p in x[:, 0]]
    assert found.tolist() == [[(v + 2**63) % 2**64 - 2**63 for v in row] for row in exact]


def test_a_dot_that_nobody_proved_wraps() -> None:
    """Where the length was not known when the program was checked, the sum is still taken modulo 2^32."""
    x = np.full(40000, 255, np.uint8)
    site = Site(0, (tensor(U8, 40000),) * 2, Tensor(I32), {"to": I32})
    found = OPS["dot"].meaning(site, x, x)
    assert found.dtype == np.int32 and int(found) == (40000 * 255 * 255 + 2**31) % 2**32 - 2**31


# --- ideal


def test_ideal_dot_is_one_product_without_a_copy() -> None:
    """[1, 1, n] by [1, m, n] in float64: the large operand is read where it lies."""
    rng = np.random.default_rng(1)
    w, x = rng.standard_normal((1, 20000, 64)), rng.standard_normal((1, 1, 64))
    site = Site(2, (tensor(F64, 64),) * 2, Tensor(F64), {"to": F64}, True)
    tracemalloc.start()
    found = bare("dot", site, x, w)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < w.nbytes // 4
    np.testing.assert_allclose(found[0], w[0] @ x[0, 0], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((5, 1, 8), (1, 6, 8)),
        ((4, 2, 3, 1, 8), (1, 2, 1, 9, 8)),
        ((4, 2, 3, 1, 8), (4, 2, 1, 9, 8)),
        ((2, 3, 8), (2, 3, 8)),
        ((8,), (8,)),
        ((1, 0, 8), (3, 1, 8)),
        ((2, 1, 0), (1, 3, 0)),
        ((2, 1, 1, 3, 8), (1, 4, 5, 1, 8)),
    ],
    ids=str,
)
def test_ideal_dot(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    rng = np.random.default_rng([*left, *right])
    x, y = rng.standard_normal(left), rng.standard_normal(right)
    for _, same in layouts(y):
        for element, other, to in ((F32, same, F32), (I8, np.round(9 * same), I32)):
            found = call("dot", [element] * 2, x, other, lead=len(left) - 1, ideal=True, to=to)
            assert found.dtype == np.float64
            np.testing.assert_allclose(found, (x * other).sum(-1), rtol=1e-12, atol=1e-12)


def test_ideal_integers_stay_integers() -> None:
    """Without reals nothing changes in ideal evaluation: an exact sum of integers."""
    x = np.full((2, 5), 100, np.int8)
    assert_same(call("dot", [I8] * 2, x, x, lead=1, ideal=True, to=I32), np.full(2, 50000, np.int32))
    mixed = call("dot", [I8] * 2, x, x + 0.5, lead=1, ideal=True, to=I32)
    assert mixed.tolist() == [50250.0, 50250.0]


def test_empty() -> None:
    for element, to in ((F32, F32), (U8, I32), (I64, I64)):
        zero = np.zeros((2, 0), element.storage)
        assert call("dot", [element, element], zero, zero, lead=1, to=to).tolist() == [0, 0]
    none = np.zeros((0, 3), np.float32)
    assert call("dot", [F32, F32], none, none, lead=1, to=F32).shape == (0,)


# --- rules


def test_results() -> None:
    for element in (ANY, INT, FLOAT):
        assert OPS["dot"].rule((Tensor(element, (N,)),) * 2, {"to": element}) == Tensor(element)
    for element, to in ((F32, F32), (F64, F64), (I8, I32), (U64, I64), (B1, I32), (T, I64)):
        assert OPS["dot"].rule((Tensor(element, (N, M)),) * 2, {"to": to}) == Tensor(to, (N,))
    for other in (U8, B1, BIT, I8, ANY, INT):
        assert OPS["dot"].rule((Tensor(I8, (N, M)), Tensor(other, (N, M), "host")), {"to": I32}).space == "host"
        assert OPS["dot"].rule((Tensor(other, (N, M)), Tensor(I8, (N, M))), {"to": I32}) == Tensor(I32, (N,))
    spaces = (Tensor(F32, (N,)), Tensor(F32, (N,), "host"))
    assert OPS["dot"].rule(spaces, {"to": F32}) == Tensor(F32, (), "host")


def test_operands_that_do_not_fit() -> None:
    x = Tensor(F32, (N, dim(6)))
    refuses("E303", "an element type", "dot", [x, x], to="f32")
    refuses("E303", "`f64` / `f32` for a dot of `f32`", "dot", [x, x], to=F64)
    refuses("E303", "`f32` / `i32` or `i64`", "dot", [tensor(U8, 4)] * 2, to=F32)
    refuses("E303", "a dot of `i16` in i32 / `dot[i64]`", "dot", [tensor(I16, 4)] * 2, to=I32)
    refuses("E302", "storage-only", "dot", [tensor(F16, 4)] * 2, to=F32)
    refuses("E302", "`bit`", "dot", [tensor(ELEMENTS["q8_0"], 32)] * 2, to=I32)
    refuses("E301", "`f32` / `i8`", "dot", [tensor(I8, 4), tensor(F32, 4)], to=I32)
    refuses("E301", "`e` / `u8`", "dot", [tensor(U8, 4), tensor(FLOAT, 4)], to=I32)
    refuses("E303", "a dot of `u8` and `i16` in i32 / `dot[i64]`", "dot", [tensor(U8, 4), tensor(I16, 4)], to=I32)
    for other in (I8, U8):
        refuses("E401", "shape [5] / shape [4]", "dot", [tensor(I8, 4), tensor(other, 5)], to=I32)
    refuses("E402", "an array", "dot", [Tensor(F32)] * 2, to=F32)
    most = (2**31 - 1) // 255**2
    assert OPS["dot"].rule((tensor(U8, most),) * 2, {"to": I32}) == Tensor(I32)
    refuses("E401", "the sum could wrap", "dot", [tensor(U8, most + 1)] * 2, to=I32)
    assert OPS["dot"].rule((tensor(U8, most + 1),) * 2, {"to": I64}) == Tensor(I64)
    for left, right, n in ((U8, I8, 2**31 // (255 * 128)), (I8, I8, (2**31 - 1) // 128**2), (B1, T, 2**31 - 1)):
        assert OPS["dot"].rule((tensor(left, n), tensor(right, n)), {"to": I32}) == Tensor(I32)
        refuses("E401", "the sum could wrap", "dot", [tensor(right, n + 1), tensor(left, n + 1)], to=I32)


# --- planted faults


def in_double(site: Site, x: Array, y: Array) -> Array:
    return np.asarray((x.astype(np.float64) * y).sum(-1).astype(x.dtype))


FAULTS: list[tuple[Callable[..., Array], Callable[[], None]]] = [
    (in_double, lambda: check_dot((5, 1, 40), (1, 33, 40))),
    (lambda site, x, y: (x * y).sum(-1), lambda: check_dot((5, 1, 40), (1, 33, 40))),
    (lambda site, x, y: (x[..., ::-1] * y[..., ::-1]).cumsum(-1)[..., -1], lambda: check_dot((5, 1, 40), (1, 33, 40))),
    (lambda site, x, y: (x * y).cumsum(-1)[..., -1], test_dot_of_special_values),  # from the first product, not +0
]


def one_range(site: Site, x: Array, y: Array) -> Array:
    """A fault: what is exact in f32 is judged by the first operand alone."""
    high = site.operands[0].element.high
    wide = np.float32 if x.shape[-1] * high**2 < 1 << 24 else np.float64
    return np.asarray((x.astype(wide) * y.astype(wide)).sum(-1).astype(np.int64).astype(np.int32))


def check_sum_beyond_f32() -> None:
    """255 * 127 * 700 + 1 is no f32."""
    x, y = np.ones(70001, np.int8), np.full(70001, 255, np.uint8)
    x[-1], y[-1] = 0, 0
    y[0] = 254
    assert int(call("dot", [T, U8], x, y, to=I32)) == 70000 * 255 - 1


FAULTS.append((one_range, check_sum_beyond_f32))


@pytest.mark.parametrize("fault", range(len(FAULTS)))
def test_planted_faults_are_found(fault: int, monkeypatch: pytest.MonkeyPatch) -> None:
    meaning, run = FAULTS[fault]
    run()
    plant(monkeypatch, "dot", meaning)
    with pytest.raises(AssertionError):
        run()
