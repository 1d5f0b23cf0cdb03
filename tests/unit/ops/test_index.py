"""Reading and writing at computed places, against plain loops: out of range, repeated places, batches, layouts."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from row_cases import assert_same, bare, call, fronts, layouts, plant, refuses, values

from bittern.ops.index import scatter_add_in_place, scatter_in_place, update_in_place
from bittern.ops.table import OPS, Array, Site
from bittern.types.dims import dim, symbol
from bittern.types.elements import (
    BF16,
    BIT,
    ELEMENTS,
    F16,
    F32,
    F64,
    FORMATS,
    I8,
    I32,
    U8,
    U32,
    U64,
    Element,
    open_element,
)
from bittern.types.values import Tensor, tensor

N, M, K = symbol(0), symbol(1), symbol(2)
Q4 = FORMATS["q4_0"]
ANY, INT, FORMAT = open_element("e", "type"), open_element("i", "int"), open_element("w", "format")
I3 = ELEMENTS["i3"]
FAR = [0, 1, 2, 3, 4, 7, 2**31, 2**32 - 1]

Meant = Callable[..., Array]


# --- the definitions, without batch axes


def taken(x: Array, *indices: Array) -> Array:
    shape = next((i.shape for i in indices if i.ndim), ())
    result = np.empty(shape + x.shape[len(indices) :], x.dtype)
    for place in np.ndindex(*shape):
        where = [int(i[place] if i.ndim else i) for i in indices]
        result[place] = x[tuple(min(w, size - 1) for w, size in zip(where, x.shape, strict=False))]
    return result


def updated(x: Array, *rest: Array) -> Array:
    *indices, value = rest
    result = x.copy()
    if all(int(i) < size for i, size in zip(indices, x.shape, strict=False)):
        result[tuple(int(i) for i in indices)] = value
    return result


def rows_of(x: Array, *rest: Array) -> Iterator[tuple[tuple[int, ...], Array]]:
    *indices, value = rest
    for row in range(value.shape[0]):
        where = tuple(int(i[row] if i.ndim else i) for i in indices)
        if all(w < size for w, size in zip(where, x.shape, strict=False)):
            yield where, value[row]


def scattered(x: Array, *rest: Array) -> Array:
    result = x.copy()
    for where, row in rows_of(x, *rest):
        result[where] = row
    return result


def scatter_added(x: Array, *rest: Array) -> Array:
    """Element by element: floats as numpy scalars, which round once; i3 as Python ints."""
    result = x.copy()
    for where, row in rows_of(x, *rest):
        for place in np.ndindex(*row.shape):
            old, new = result[(*where, *place)], row[place]
            if x.dtype == np.int8:
                result[(*where, *place)] = (int(old) + int(new) + 4) % 8 - 4
            else:
                with np.errstate(all="ignore"):
                    result[(*where, *place)] = old + new
    return result


def sliced(x: Array, start: Array, length: int) -> Array:
    first = min(int(start), x.shape[0] - length)
    return np.array([x[first + i] for i in range(length)], x.dtype).reshape(length, *x.shape[1:])


# --- the batching law: what the loops above give for each element of the batch


def check(name: str, meant: Meant, elements: list[Element], arrays: list[Array], lead: int, **attributes: Any) -> Array:
    """Check a call over batch axes against the definition, element by element."""
    found = call(name, elements, *arrays, lead=lead, **attributes)
    full = np.broadcast_shapes(*(a.shape[:lead] for a in arrays))
    for place in np.ndindex(*full):
        own = [a[tuple(i % size for i, size in zip(place, a.shape, strict=False))] for a in arrays]
        part = np.broadcast_to(found, full + found.shape[lead:])[place]
        assert_same(part, meant(*[np.asarray(a) for a in own], **attributes), name, place, [a.shape for a in arrays])
    return found


def indices_for(rng: np.random.Generator, shape: tuple[int, ...], kinds: str, own: tuple[int, ...]) -> list[Array]:
    """Indices, scalar (s) or of the own shape (a), in and out of range. shape: batch axes."""
    chosen = []
    for kind in kinds:
        size = shape + (own if kind == "a" else ())
        chosen.append(rng.choice(np.array(FAR, np.uint32), size, p=[0.3, 0.2, 0.2, 0.1, 0.05, 0.05, 0.05, 0.05]))
    return chosen


@pytest.mark.parametrize("lead", [0, 1, 2])
@pytest.mark.parametrize("kinds", ["s", "a", "ss", "sa", "as", "aa", "ssa", "asa", "saa", "sss"])
def test_take(kinds: str, lead: int) -> None:
    rng = np.random.default_rng([len(kinds), lead, *map(ord, kinds)])
    for round_ in range(24):
        own = [(3,), (2, 2), (1,), (0,)][round_ % 4]
        front = [tuple(f) for f in fronts(rng, 1 + len(kinds), (3, 2)[:lead])]
        if round_ % 3 == 0:
            front[0] = (1,) * lead  # one array for the whole batch
        elif round_ % 3 == 1:
            front[1:] = [(1,) * lead] * len(kinds)  # one place for the whole batch
        x = values([F32, BF16, BIT][round_ % 3], front[0] + (4, 3, 2, 5)[: len(kinds) + round_ % 2], rng)
        indices = [i for f, kind in zip(front[1:], kinds, strict=True) for i in indices_for(rng, f, kind, own)]
        if round_ % 5 == 0:
            indices = [np.broadcast_to(i[(slice(0, 1),) * lead], i.shape) for i in indices]  # equal over the batch
        element = [F32, BF16, BIT][round_ % 3]
        for _, same in layouts(x) if x.ndim else [("", x)]:
            check("take", taken, [element, *[U32] * len(kinds)], [same, *indices], lead)


def test_take_reads_once_what_is_equal_over_the_batch() -> None:
    """A gather from a cache by (layer, sequence, positions): tokens of one sequence share one result."""
    cache = np.arange(3 * 4 * 16 * 2, dtype=np.float32).reshape(1, 3, 4, 16, 2)
    layer, places = np.array([2], np.uint32), np.arange(8, dtype=np.uint32)[None]
    elements = [F32, U32, U32, U32]
    assert call("take", elements, cache, layer, np.array([1] * 5, np.uint32), places, lead=1).shape == (1, 8, 2)
    assert call("take", elements, cache, layer, np.array([1, 2], np.uint32), places, lead=1).shape == (2, 8, 2)


def test_take_of_one_place_is_a_view() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert np.shares_memory(call("take", [F32, U32], x, np.uint32(9)), x)
    assert np.shares_memory(call("take", [F32, U32, U32], x, np.uint32(1), np.uint32(1)), x)
    assert np.shares_memory(call("take", [F32, U32], x, np.array([1], np.uint32), lead=1), x)
    start = np.array([7], np.uint32)
    assert np.shares_memory(call("dynamic_slice", [F32, U32], x, start, lead=1, length=2), x)


@pytest.mark.parametrize("lead", [0, 1, 2])
def test_dynamic_slice(lead: int) -> None:
    rng = np.random.default_rng(lead)
    for round_ in range(40):
        front = fronts(rng, 2, (3, 2)[:lead])
        x = values(F16, front[0] + (5, 2)[: 1 + round_ % 2], rng)
        start = rng.choice(np.array(FAR, np.uint32), front[1])
        check("dynamic_slice", sliced, [F16, U32], [x, start], lead, length=int(rng.integers(0, 6)))


@pytest.mark.parametrize("bits", range(2, 9))
def test_lookup_knows_every_code(bits: int) -> None:
    rng = np.random.default_rng(bits)
    table = values(F32, (1 << bits,), rng)
    codes = np.arange(1 << bits, dtype=np.uint8)
    code = ELEMENTS[f"u{bits}"]
    assert_same(call("lookup", [F32, code], table, codes), table)
    assert_same(call("lookup", [F32, code], table[::-1], codes.reshape(2, -1)), table[::-1].reshape(2, -1))
    assert call("lookup", [F32, code], table, codes[3]).shape == ()
    many = values(F32, (3, 1, 1 << bits), rng)
    some = values(code, (1, 4, 5), rng)
    found = call("lookup", [F32, code], many, some, lead=2)
    for i, j, k in np.ndindex(3, 4, 5):
        assert_same(found[i, j, k], many[i, 0, some[0, j, k]])


@pytest.mark.parametrize("lead", [0, 1, 2])
@pytest.mark.parametrize("kinds", ["s", "ss", "sss"])
def test_update(kinds: str, lead: int) -> None:
    rng = np.random.default_rng([len(kinds), lead])
    for round_ in range(30):
        front = fronts(rng, 2 + len(kinds), (3, 2)[:lead])
        shape = (4, 3, 2, 2)[: len(kinds) + round_ % 2]
        x, value = values(F32, front[0] + shape, rng), values(F32, front[1] + shape[len(kinds) :], rng)
        indices = [i for f, kind in zip(front[2:], kinds, strict=True) for i in indices_for(rng, f, kind, ())]
        check("update", updated, [F32, *[U32] * len(kinds), F32], [x, *indices, value], lead)


def check_scatter(name: str, meant: Meant, element: Element, kinds: str, lead: int, seed: int) -> None:
    rng = np.random.default_rng([len(kinds), lead, seed, *map(ord, kinds)])
    for round_ in range(16):
        count = (0, 1, 2, 6, 40)[round_ % 5]
        front = fronts(rng, 2 + len(kinds), (3, 2)[:lead])
        shape = (4, 3, 2, 2)[: len(kinds) + round_ % 2]
        x = values(element, front[0] + shape, rng)
        value = values(element, front[1] + (count,) + shape[len(kinds) :], rng)
        indices = [i for f, kind in zip(front[2:], kinds, strict=True) for i in indices_for(rng, f, kind, (count,))]
        for _, rows in layouts(value) if count else [("", value)]:
            check(name, meant, [element, *[U32] * len(kinds), element], [x, *indices, rows], lead)


@pytest.mark.parametrize("lead", [0, 1, 2])
@pytest.mark.parametrize("kinds", ["a", "sa", "as", "aa", "saa", "asa"])
def test_scatter(kinds: str, lead: int) -> None:
    """Few places and many rows, so that most places are written more than once."""
    check_scatter("scatter", scattered, BF16, kinds, lead, 0)


@pytest.mark.parametrize("lead", [0, 1, 2])
@pytest.mark.parametrize("element", [F32, F64, I3, U64], ids=str)
@pytest.mark.parametrize("kinds", ["a", "sa", "aa"])
def test_scatter_add(kinds: str, element: Element, lead: int) -> None:
    check_scatter("scatter_add", scatter_added, element, kinds, lead, 1)


@pytest.mark.parametrize("width", [(), (1,), (2,), (3, 64), (700,)])
@pytest.mark.parametrize("places", [1, 2, 7, 500])
def test_the_last_write_wins_whatever_the_layout(places: int, width: tuple[int, ...]) -> None:
    """numpy promises no order for repeated places: this holds it to the ascending one, in any layout."""
    rng = np.random.default_rng(places)
    count = 600
    where = rng.integers(0, places, count).astype(np.uint32)
    rows = np.broadcast_to(np.arange(count, dtype=np.int32).reshape(-1, *(1,) * len(width)), (count, *width))
    last = np.full(places, -1, np.int32)
    for row, place in enumerate(where.tolist()):
        last[place] = row
    expected = np.broadcast_to(last.reshape(-1, *(1,) * len(width)), (places, *width))
    x = np.full((places, *width), -1, np.int32)
    for _, index in layouts(where):
        for _, same in layouts(rows):
            assert_same(call("scatter", [I32, U32, I32], x, index, same), expected)
    grid = np.full((2, 3, places, *width), -1, np.int32)
    seq = rng.integers(0, 3, count).astype(np.uint32)
    found = call("scatter", [I32, U32, U32, U32, I32], grid, np.uint32(1), seq[::-1], where[::-1], rows[::-1])
    last_of = {(s, p): r for s, p, r in zip(seq[::-1].tolist(), where[::-1].tolist(), range(count)[::-1], strict=True)}
    for (s, p), r in last_of.items():
        assert (found[1, s, p] == r).all()
    assert (found[0] == -1).all() and (found == -1).sum() == (6 * places - len(last_of)) * max(1, int(np.prod(width)))


@pytest.mark.parametrize("name", ["scatter_add", "scatter"])
def test_many_rows_in_order(name: str) -> None:
    """Sums whose bits depend on the order, 600 rows to 5 places."""
    rng = np.random.default_rng(3)
    where = rng.integers(0, 5, 600).astype(np.uint32)
    rows = np.ldexp(rng.standard_normal((600, 7)), rng.integers(-20, 20, (600, 7))).astype(np.float32)
    x = values(F32, (5, 7), np.random.default_rng(9))
    meant = scatter_added if name == "scatter_add" else scattered
    assert_same(call(name, [F32, U32, F32], x, where, rows), meant(x, where, rows))
    swapped = meant(x, where[::-1], rows[::-1])
    assert not np.array_equal(meant(x, where, rows), swapped, equal_nan=True)  # the data would show it


@pytest.mark.parametrize("lead", [0, 1])
def test_in_place(lead: int) -> None:
    """The forms that overwrite give the same and return their operand, whose layout may be any."""
    rng = np.random.default_rng(lead)
    front = (3,) * lead
    for name, in_place, rows in (
        ("update", update_in_place, ()),
        ("scatter", scatter_in_place, (6,)),
        ("scatter_add", scatter_add_in_place, (6,)),
    ):
        x, value = values(F32, (*front, 4, 3, 2), rng), values(F32, (*front, *rows, 2), rng)
        indices = [*indices_for(rng, front, "s", ()), *indices_for(rng, front, "a" if rows else "s", rows)]
        if name == "scatter_add":
            x, value = np.nan_to_num(x), np.nan_to_num(value)
        expected = call(name, [F32, U32, U32, F32], x, *indices, value, lead=lead)
        kinds = (tensor(F32, 4, 3, 2), Tensor(U32), tensor(U32, *rows), tensor(F32, *rows, 2))
        site = Site(lead, kinds, kinds[0], {})
        for layout, same in layouts(x):
            mine = same.copy(order="K") if same.flags.owndata else same
            mine = mine if mine.flags.writeable else mine.copy()
            with np.errstate(all="ignore"):
                assert in_place(site, mine, *indices, value) is mine, layout
            assert_same(mine, expected, name, layout)


def test_a_write_in_place_leaves_the_rest_alone() -> None:
    """A view of a larger array: nothing outside the view changes."""
    whole = np.zeros((3, 4, 5), np.float32)
    kinds = (tensor(F32, 4), Tensor(U32), Tensor(F32))
    update_in_place(Site(0, kinds, kinds[0], {}), whole[1, :, 2], np.asarray(3), np.asarray(1.0))
    assert whole.sum() == 1 and whole[1, 3, 2] == 1


def test_format_rows() -> None:
    rng = np.random.default_rng(5)
    w = values(Q4, (6, 2, 18), rng)
    kind = tensor(Q4, 6, 64)
    rows = np.array([5, 0, 9], np.uint32)
    assert_same(call("take", [kind, U32], w, rows), w[[5, 0, 5]])
    assert_same(call("take", [kind, U32], w, np.uint32(2)), w[2])
    assert_same(call("dynamic_slice", [kind, U32], w, np.uint32(9), length=2), w[4:])
    assert_same(call("take", [kind, U32], w[None], rows[None], lead=1), w[None, [5, 0, 5]])
    new = values(Q4, (2, 18), rng)
    assert_same(call("update", [kind, U32, tensor(Q4, 64)], w, np.uint32(1), new)[1], new)
    written = call("scatter", [kind, U32, tensor(Q4, 3, 64)], w, rows, w[:3])
    assert_same(written, np.stack([w[1], *w[1:5], w[0]]))


def test_ideal_operands_may_be_reals() -> None:
    """In ideal evaluation what is typed as an integer may hold reals: arrays, written values, indices, codes."""
    x, real = np.array([1, 2, 3], np.int8), np.array([0.5, 1.5])
    where = np.array([2, 2], np.uint32)
    assert call("update", [I8, U32, I8], x, np.uint32(1), real[0], ideal=True).tolist() == [1, 0.5, 3]
    assert call("scatter", [I8, U32, I8], x, where, real, ideal=True).tolist() == [1, 2, 1.5]
    assert call("scatter_add", [I8, U32, I8], x, where, real, ideal=True).tolist() == [1, 2, 5]
    odd = np.array([1.0, -3.0, np.nan, np.inf, 1e30])
    assert call("take", [I8, U32], x, odd, ideal=True).tolist() == [2, 1, 1, 3, 3]
    assert call("take", [I8, U32], x, np.float64(1), ideal=True) == 2
    assert call("take", [I8, U32], x, np.float64(np.nan), ideal=True) == 1
    assert call("dynamic_slice", [I8, U32], x, np.float64(1), ideal=True, length=2).tolist() == [2, 3]
    assert call("update", [I8, U32, I8], x, np.float64(1), np.int8(9), ideal=True).tolist() == [1, 9, 3]
    table = np.arange(256.0)
    assert call("lookup", [F64, U8], table, np.array([7.0, 255.0]), ideal=True).tolist() == [7, 255]


# --- rules


def test_results() -> None:
    x, i, row = Tensor(F32, (N, M, K)), Tensor(U32), Tensor(U32, (dim(5),))
    cases: list[tuple[str, tuple[Any, ...], dict[str, Any], Tensor]] = [
        ("take", (x, i), {}, Tensor(F32, (M, K))),
        ("take", (x, i, row), {}, Tensor(F32, (dim(5), K))),
        ("take", (x, Tensor(U32, (K, N)), i), {}, Tensor(F32, (K, N, K))),
        ("take", (Tensor(ANY, (N,), "device"), i), {}, Tensor(ANY, (), "device")),
        ("take", (Tensor(FORMAT, (N, M)), row), {}, Tensor(FORMAT, (dim(5), M))),
        ("dynamic_slice", (x, i), {"length": K}, Tensor(F32, (K, M, K))),
        ("update", (x, i, Tensor(F32, (M, K))), {}, x),
        ("update", (Tensor(F32, (N,)), i, Tensor(F32, (), "host")), {}, Tensor(F32, (N,), "host")),
        ("scatter", (x, i, row, Tensor(F32, (dim(5), K))), {}, x),
        ("scatter_add", (Tensor(INT, (N,)), Tensor(U32, (M,)), Tensor(INT, (M,))), {}, Tensor(INT, (N,))),
        ("lookup", (tensor(F32, 16), Tensor(ELEMENTS["u4"], (N,))), {}, Tensor(F32, (N,))),
        ("lookup", (tensor(F32, 16), Tensor(INT, (N,))), {}, Tensor(F32, (N,))),
    ]
    for name, types, attributes, expected in cases:
        assert OPS[name].rule(types, attributes) == expected, (name, types)


def test_operands_that_do_not_fit() -> None:
    x, i = Tensor(F32, (N, dim(6))), Tensor(U32)
    refuses("E402", "0 indices / 1 to 2", "take", [x])
    refuses("E402", "3 indices / 1 to 2", "take", [x, i, i, i])
    refuses("E302", "`i32` / `u32`", "take", [x, Tensor(I32)])
    refuses("E401", "shape [3] / shape [d0]", "take", [x, Tensor(U32, (N,)), tensor(U32, 3)])
    refuses("E401", "at least one element", "take", [tensor(F32, 0, 3), i])
    refuses("E402", "see the bytes with `blocks`", "take", [Tensor(Q4, (N, dim(64))), i, i])
    refuses("E402", "see the bytes with `blocks`", "take", [Tensor(FORMAT, (N,)), i])
    refuses("E402", "an array and one start", "dynamic_slice", [x, tensor(U32, 2)], length=1)
    refuses("E402", "an array and one start", "dynamic_slice", [tensor(Q4, 64), i], length=1)
    refuses("E302", "`u32`", "dynamic_slice", [x, Tensor(U8)], length=1)
    refuses("E401", "a slice of d0 + 1 / at most d0", "dynamic_slice", [x, i], length=N + 1)
    refuses("E303", "a size of -1", "dynamic_slice", [x, i], length=-1)
    refuses("E402", "indices of 1 dimensions / scalars", "update", [x, tensor(U32, 3), tensor(F32, 3, 6)])
    refuses("E402", "indices of 0 dimensions / a row of indices", "scatter", [x, i, tensor(F32, 6)])
    refuses("E402", "indices of 2 dimensions", "scatter", [x, tensor(U32, 2, 3), tensor(F32, 2, 3, 6)])
    refuses("E301", "`u8` / `f32`", "update", [x, i, tensor(U8, 6)])
    refuses("E401", "shape [5] / shape [6]", "update", [x, i, tensor(F32, 5)])
    refuses("E402", "shape [] / shape [6]", "update", [x, i, Tensor(F32)])
    refuses("E401", "shape [4, 6] / shape [3, 6]", "scatter", [x, tensor(U32, 3), tensor(F32, 4, 6)])
    spaces = [Tensor(F32, (N,), "device"), i, Tensor(F32, (), "host")]
    refuses("E301", "write `move`", "update", spaces)
    refuses("E302", "storage only", "scatter_add", [tensor(F16, 4), tensor(U32, 3), tensor(F16, 3)])
    refuses("E302", "`bit`", "scatter_add", [tensor(BIT, 4), tensor(U32, 3), tensor(BIT, 3)])
    refuses("E401", "a table of 8 values / 16: one for each `u4`", "lookup", [tensor(F32, 8), Tensor(ELEMENTS["u4"])])
    refuses("E402", "a table of one dimension", "lookup", [tensor(F32, 2, 8), Tensor(ELEMENTS["u4"])])
    refuses("E302", "an unsigned code of at most 8 bits", "lookup", [tensor(F32, 16), Tensor(U32)])
    refuses("E302", "an unsigned code", "lookup", [tensor(F32, 256), Tensor(I8)])
    refuses("E302", "no block format", "lookup", [tensor(Q4, 256), Tensor(U8)])


# --- planted faults


def first_write_wins(site: Site, x: Array, where: Array, rows: Array) -> Array:
    result = np.array(x)
    places, first = np.unique(where, return_index=True)
    result[places[places < x.shape[0]]] = rows[first[places < x.shape[0]]]
    return result


def wraps_around(site: Site, x: Array, i: Array) -> Array:
    return np.asarray(x[i % x.shape[0]])


def adds_once(site: Site, x: Array, where: Array, rows: Array) -> Array:
    result = np.array(x)
    result[where] += rows
    return result


def test_planted_faults_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[tuple[str, Callable[..., Array], Callable[[], None]]] = [
        ("scatter", first_write_wins, lambda: check_scatter("scatter", scattered, BF16, "a", 0, 0)),
        ("take", wraps_around, lambda: test_take("a", 0)),
        ("scatter_add", adds_once, lambda: test_many_rows_in_order("scatter_add")),
    ]
    for name, fault, run in faults:
        plant(monkeypatch, name, fault)
        with pytest.raises(AssertionError):
            run()


def test_bare_rows_take_numpy_scalars() -> None:
    """What numpy gives for one element is a scalar, not an array; ops take both."""
    x = np.arange(4, dtype=np.uint32)
    site = Site(0, (tensor(U32, 4), Tensor(U32)), Tensor(U32), {})
    assert bare("take", site, x, x[2]) == 2
    site = Site(0, (tensor(U32, 4), Tensor(U32), Tensor(U32)), tensor(U32, 4), {})
    assert bare("update", site, x, x[2], x[3]).tolist() == [0, 1, 3, 3]
