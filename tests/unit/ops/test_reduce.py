"""Reductions and scans, bit for bit against scalar loops: special values, every length, misleading layouts."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from row_cases import assert_same, bits, call, layouts, plant, refuses, rough, values

from bittern.ops.table import OPS, Array, Site
from bittern.types.dims import dim, symbol
from bittern.types.elements import (
    BIT,
    ELEMENTS,
    F16,
    F32,
    F64,
    FORMATS,
    I8,
    U8,
    U32,
    Element,
    open_element,
)
from bittern.types.values import Tensor, tensor

N, M = symbol(0), symbol(1)
I16, U3, I3 = ELEMENTS["i16"], ELEMENTS["u3"], ELEMENTS["i3"]
ANY, INT, FLOAT, FORMAT = (open_element("e", kind) for kind in ("type", "int", "float", "format"))
SPECIAL = [math.nan, -math.inf, -1.0, -0.0, 0.0, 1.5, math.inf]
FLOATS = [F32, F64]

# --- the definitions, on numpy scalars: each operation rounds once


def greater(a: Any, b: Any) -> Any:
    return a if a > b else b


def smaller(a: Any, b: Any) -> Any:
    return a if a < b else b


def add(a: Any, b: Any) -> Any:
    return a + b


def multiply(a: Any, b: Any) -> Any:
    return a * b


SIXTEEN: dict[str, tuple[float, Callable[[Any, Any], Any]]] = {
    "sum": (0.0, add),
    "product": (1.0, multiply),
    "max_of": (-math.inf, greater),
    "min_of": (math.inf, smaller),
}


def sixteen(name: str, x: Sequence[Any], dtype: Any) -> Any:
    """Sixteen partials and one tree, as NUMERICS 4 writes them."""
    start, combine = SIXTEEN[name]
    p = [dtype(start) for _ in range(16)]
    for i, value in enumerate(x):
        p[i % 16] = combine(p[i % 16], value)
    for half in (8, 4, 2, 1):
        for i in range(half):
            p[i] = combine(p[i], p[i + half])
    return p[0]


def best(x: Sequence[float], is_better: Callable[[float, float], bool]) -> int:
    """The lowest index of the best; NaN loses to everything."""
    chosen = 0
    for i, value in enumerate(x):
        if value == value and (x[chosen] != x[chosen] or is_better(value, x[chosen])):
            chosen = i
    return chosen


def by_row(x: Array, reduce: Callable[[Sequence[Any]], Any], dtype: Any) -> Array:
    """Apply a scalar definition to each row of the last axis."""
    result = np.empty(x.shape[:-1], dtype)
    with np.errstate(all="ignore"):
        for i in np.ndindex(*x.shape[:-1]):
            result[i] = reduce(list(x[i]))
    return result


def rounds(name: str, x: Array) -> Array:
    """Sixteen partials for many rows at once; every operation is element-wise, so it rounds once and has no order."""
    start, combine = SIXTEEN[name]
    vector: dict[Any, Callable[[Array, Array], Array]] = {
        greater: lambda a, b: np.where(a > b, a, b),
        smaller: lambda a, b: np.where(a < b, a, b),
    }
    each: Callable[[Array, Array], Array] = vector.get(combine, combine)
    p = [np.full(x.shape[:-1], start, x.dtype) for _ in range(16)]
    with np.errstate(all="ignore"):
        for i in range(x.shape[-1]):
            p[i % 16] = each(p[i % 16], x[..., i])
        for half in (8, 4, 2, 1):
            p[:half] = [each(p[i], p[i + half]) for i in range(half)]
    return p[0]


# --- sixteen partials


def check_lengths(name: str, element: Element, lengths: Sequence[int]) -> None:
    dtype = np.dtype(element.storage).type
    rng = np.random.default_rng(7)
    for n in lengths:
        x = rough(rng, (3, n), dtype)
        if name == "product":
            x = (1 + 0.01 * np.tanh(x)).astype(dtype)
        expected = by_row(x, lambda row: sixteen(name, row, dtype), dtype)
        assert_same(call(name, [element], x, lead=1), expected, name, n)
        assert_same(call(name, [element], x[0]), expected[0], name, n)


@pytest.mark.parametrize("element", FLOATS, ids=str)
@pytest.mark.parametrize("name", SIXTEEN)
def test_every_length(name: str, element: Element) -> None:
    check_lengths(name, element, [*range(70), 127, 128, 129, 512, 576, 1000])


@pytest.mark.parametrize("element", FLOATS, ids=str)
@pytest.mark.parametrize("name", [*SIXTEEN, "scan_max", "argmax", "argmin"])
def test_special_values(name: str, element: Element) -> None:
    """All rows of up to four special values, and random rows of them up to length 50."""
    dtype = np.dtype(element.storage).type
    rng = np.random.default_rng(8)
    short = [np.array(list(itertools.product(SPECIAL, repeat=n)), dtype) for n in (1, 2, 3, 4)]
    few = [np.array(SPECIAL[:5]), np.array(SPECIAL[3:5]), np.array(SPECIAL)]
    long = [rng.choice(few[n % 3], (40, n)).astype(dtype) for n in (5, 15, 16, 17, 31, 32, 33, 48, 50)]
    for x in (*short, *long):
        found = call(name, [element], x, lead=1)
        if name in SIXTEEN:
            expected = rounds(name, x)
            assert_same(expected[:20], by_row(x[:20], lambda row: sixteen(name, row, dtype), dtype))
        elif name == "scan_max":
            starts = [dtype(-math.inf)] * len(x)
            columns = [np.array(starts)]
            for column in x.T:
                columns.append(np.where(columns[-1] > column, columns[-1], column))
            expected = np.stack(columns[1:], 1)
        else:
            is_better = float.__gt__ if name == "argmax" else float.__lt__
            expected = np.array([best(row, is_better) for row in x.tolist()], np.uint32)
        assert_same(found, expected, name, x.shape)
        assert_same(call(name, [element], x[-1]), expected[-1])


SHAPES = [(1, 16), (1, 300), (2, 33), (7, 16), (17, 48), (16, 256), (3, 2, 40), (5, 3, 160), (400, 70), (2, 9000)]


def check_layouts(name: str, shape: tuple[int, ...], element: Element = F32) -> None:
    rng = np.random.default_rng(shape)
    x = rough(rng, shape, element.storage)
    if name == "product":
        x = (1 + 0.01 * np.tanh(x)).astype(element.storage)
    expected = rounds(name, x)
    for layout, same in layouts(x):
        assert_same(call(name, [element], same, lead=len(shape) - 1), expected, name, layout, shape)
    row = x[(0,) * (len(shape) - 1)]
    wide = np.broadcast_to(row, shape)
    assert_same(call(name, [element], wide, lead=len(shape) - 1), rounds(name, wide), name, "broadcast", shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", SIXTEEN)
def test_layouts_change_no_bit(name: str, shape: tuple[int, ...]) -> None:
    check_layouts(name, shape)


def test_sums_in_pieces() -> None:
    """More rows, longer rows than are worked on at a time."""
    for shape in ((3000, 40), (3, 70000), (70000, 3)):
        for element in FLOATS:
            x = rough(np.random.default_rng(shape), shape, element.storage)
            assert_same(call("sum", [element], x, lead=1), rounds("sum", x))


def test_empty() -> None:
    none = np.zeros((2, 0), np.float32)
    for name, start in (("sum", 0), ("product", 1), ("max_of", -math.inf), ("min_of", math.inf)):
        assert_same(call(name, [F32], none, lead=1), np.full(2, start, np.float32))
        assert call(name, [F32], none[:0], lead=1).shape == (0,)
        assert call(name, [F32], np.zeros((0, 5), np.float32), lead=1).shape == (0,)
    for element, name, start in (
        (I3, "max_of", -4),
        (U3, "min_of", 7),
        (I8, "sum", 0),
        (U8, "product", 1),
        (U3, "all_of", 7),
        (I3, "all_of", -1),
    ):
        assert call(name, [element], np.zeros(0, element.storage)) == start
    for name, value in (("all_of", True), ("any_of", False), ("xor_of", False)):
        assert call(name, [BIT], np.zeros(0, bool)) == value
    for name in ("argmax", "argmin"):
        assert call(name, [F32], none, lead=1).tolist() == [0, 0]
    for name in ("scan_sum", "scan_max"):
        assert call(name, [F32], none, lead=1).shape == (2, 0)


# --- whole numbers and bits


def wrapped(element: Element, value: int) -> int:
    return (value - element.low) % (1 << element.bits) + element.low


WHOLE: dict[str, Callable[[Element, list[int]], Any]] = {
    "sum": lambda e, x: wrapped(e, sum(x)),
    "product": lambda e, x: wrapped(e, math.prod(x)),
    "max_of": lambda e, x: max(x),
    "min_of": lambda e, x: min(x),
    "argmax": lambda e, x: x.index(max(x)),
    "argmin": lambda e, x: x.index(min(x)),
    "all_of": lambda e, x: wrapped(e, int(np.bitwise_and.reduce(np.array(x, object)))),
    "any_of": lambda e, x: wrapped(e, int(np.bitwise_or.reduce(np.array(x, object)))),
    "xor_of": lambda e, x: wrapped(e, int(np.bitwise_xor.reduce(np.array(x, object)))),
    "scan_sum": lambda e, x: [wrapped(e, total) for total in itertools.accumulate(x)],
    "scan_max": lambda e, x: list(itertools.accumulate(x, max)),
    "scan_xor": lambda e, x: list(itertools.accumulate(x, lambda a, b: a ^ b)),
}
INTEGERS = [e for e in ELEMENTS.values() if e.is_integer]


def check_whole(name: str, element: Element) -> None:
    rng = np.random.default_rng(element.bits)
    for n in (1, 2, 3, 16, 40):
        x = values(element, (5, n), rng)
        x[0], x[1] = element.low, element.high
        for _, same in layouts(x):
            found = call(name, [element], same, lead=1).tolist()
            assert found == [WHOLE[name](element, row) for row in x.tolist()], (name, element, n)


@pytest.mark.parametrize("element", INTEGERS, ids=str)
@pytest.mark.parametrize("name", WHOLE)
def test_integers(name: str, element: Element) -> None:
    check_whole(name, element)


def test_all_pairs_of_three_bits() -> None:
    for element in (U3, I3):
        every = range(element.low, element.high + 1)
        x = np.array(list(itertools.product(every, repeat=3)), element.storage)
        for name, meant in WHOLE.items():
            found = call(name, [element], x, lead=1).tolist()
            assert found == [meant(element, row) for row in x.tolist()], (name, element)


def test_bits() -> None:
    x = np.array(list(itertools.product([False, True], repeat=4)))
    for name, meant in (("all_of", all), ("any_of", any), ("xor_of", lambda row: sum(row) % 2 == 1)):
        assert call(name, [BIT], x, lead=1).tolist() == [meant(row) for row in x.tolist()]
    expected = [list(itertools.accumulate(row, lambda a, b: a != b)) for row in x.tolist()]
    assert call("scan_xor", [BIT], x, lead=1).tolist() == expected


# --- scans of floats


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_scan_sum_of_floats(element: Element) -> None:
    """Strictly ascending, from +0, in every layout."""
    for shape in ((1, 40), (3, 17), (40, 3), (2, 3, 9000)):
        x = rough(np.random.default_rng(shape), shape, element.storage)
        expected = np.empty_like(x)
        total = np.zeros(x.shape[:-1], x.dtype)
        for i in range(x.shape[-1]):
            total = total + x[..., i]
            expected[..., i] = total
        for layout, same in layouts(x):
            assert_same(call("scan_sum", [element], same, lead=len(shape) - 1), expected, layout)
    zeros = np.array([-0.0, -0.0, 0.0, -0.0], element.storage)
    assert_same(call("scan_sum", [element], zeros), np.zeros(4, element.storage))


# --- ideal


def test_ideal_integers_stay_integers() -> None:
    """Without reals nothing changes in ideal evaluation: integers wrap as ever."""
    x = np.full((2, 5), 100, np.int8)
    for name in WHOLE:
        if name != "xor_of":
            assert_same(call(name, [I8], x, lead=1, ideal=True), call(name, [I8], x, lead=1))


def test_ideal_reals_typed_as_integers() -> None:
    x = np.array([[0.5, 300.25, -7.0]])
    for name, expected in (
        ("sum", 293.75),
        ("product", -1050.875),
        ("max_of", 300.25),
        ("min_of", -7),
        ("argmax", 1),
        ("argmin", 2),
    ):
        assert call(name, [I8], x, lead=1, ideal=True).tolist() == [expected]
    assert call("scan_sum", [I8], x, lead=1, ideal=True).tolist() == [[0.5, 300.75, 293.75]]
    assert call("scan_max", [I8], x, lead=1, ideal=True).tolist() == [[0.5, 300.25, 300.25]]


# --- rules


def test_results() -> None:
    x = Tensor(F32, (N, M), "device")
    for name in ("sum", "product", "max_of", "min_of"):
        assert OPS[name].rule((x,), {}) == Tensor(F32, (N,), "device")
    for name in ("argmax", "argmin"):
        assert OPS[name].rule((x,), {}) == Tensor(U32, (N,), "device")
    for name in ("scan_sum", "scan_max"):
        assert OPS[name].rule((x,), {}) == x
    for name in ("all_of", "any_of", "xor_of"):
        assert OPS[name].rule((Tensor(BIT, (N,)),), {}) == Tensor(BIT)
    for element in (ANY, INT, FLOAT):
        assert OPS["sum"].rule((Tensor(element, (N,)),), {}) == Tensor(element)


def test_operands_that_do_not_fit() -> None:
    x = Tensor(F32, (N, dim(6)))
    for name in ("sum", "product", "max_of", "min_of", "argmax", "argmin", "scan_sum", "scan_max"):
        refuses("E402", "an array", name, [Tensor(F32)])
        refuses("E302", "storage only", name, [tensor(F16, 4)])
        refuses("E302", "`bit`", name, [tensor(BIT, 4)])
        refuses("E302", "decode the blocks first", name, [tensor(FORMATS["q4_0"], 64)])
        refuses("E302", "decode the blocks first", name, [tensor(FORMAT, 64)])
        refuses("E303", "2 operands", name, [x, x])
    for name in ("all_of", "any_of", "xor_of", "scan_xor"):
        refuses("E302", "an integer or `bit`", name, [x])
        refuses("E402", "an array", name, [Tensor(U8)])


# --- planted faults


def accumulated(site: Site, x: Array) -> Array:
    return np.asarray(np.add.accumulate(x, -1)[..., -1])


def partials_of_eight(site: Site, x: Array) -> Array:
    p = np.zeros((*x.shape[:-1], 8), x.dtype)
    for i in range(x.shape[-1]):
        p[..., i % 8] += x[..., i]
    for half in (4, 2, 1):
        p = p[..., :half] + p[..., half:]
    return p[..., 0]


def neighbours_first(site: Site, x: Array) -> Array:
    """The right partials, joined by the wrong tree."""
    p = np.zeros((*x.shape[:-1], 16), x.dtype)
    for i in range(x.shape[-1]):
        p[..., i % 16] += x[..., i]
    while p.shape[-1] > 1:
        p = p[..., ::2] + p[..., 1::2]
    return p[..., 0]


def maximum(site: Site, x: Array) -> Array:
    return np.asarray(np.maximum.reduce(x, -1))


def swapped_max(site: Site, x: Array) -> Array:
    return rounds("max_of", x[..., ::-1])


FAULTS: list[tuple[str, Callable[..., Array], Callable[[], None]]] = [
    ("sum", lambda site, x: np.asarray(np.sum(x, -1)), lambda: check_layouts("sum", (16, 256))),
    ("sum", accumulated, lambda: check_layouts("sum", (16, 256))),
    ("sum", partials_of_eight, lambda: check_layouts("sum", (16, 256))),
    ("sum", neighbours_first, lambda: check_layouts("sum", (16, 256))),
    (
        "sum",  # right for a contiguous operand only
        lambda site, x: rounds("sum", x) if x.flags.c_contiguous else np.asarray(np.sum(x, -1)),
        lambda: check_layouts("sum", (16, 256)),
    ),
    ("max_of", maximum, lambda: test_special_values("max_of", F32)),
    ("max_of", swapped_max, lambda: test_special_values("max_of", F32)),
    ("min_of", lambda site, x: np.asarray(np.fmin.reduce(x, -1)), lambda: test_special_values("min_of", F32)),
    ("argmax", lambda site, x: np.argmax(x, -1).astype(np.uint32), lambda: test_special_values("argmax", F32)),
    (
        "argmin",
        lambda site, x: np.nanargmin(np.where(np.isnan(x), np.inf, x), -1).astype(np.uint32),
        lambda: test_special_values("argmin", F32),
    ),
    ("sum", lambda site, x: np.add.reduce(x, -1), lambda: check_whole("sum", I3)),
    ("scan_max", lambda site, x: np.maximum.accumulate(x, -1), lambda: test_special_values("scan_max", F32)),
]


@pytest.mark.parametrize("fault", range(len(FAULTS)))
def test_planted_faults_are_found(fault: int, monkeypatch: pytest.MonkeyPatch) -> None:
    name, meaning, run = FAULTS[fault]
    run()
    plant(monkeypatch, name, meaning)
    with pytest.raises(AssertionError):
        run()


def test_numpy_sums_of_rows_are_pairwise() -> None:
    """Why the order is built by hand: numpy's own sum of a row is another number."""
    x = rough(np.random.default_rng(4), (64, 300), np.float32)
    assert not np.array_equal(bits(np.sum(x, -1)), bits(rounds("sum", x)))
