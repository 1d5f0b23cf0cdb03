"""Ops that rearrange: each against its definition, one index at a time, in every layout of memory."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from row_cases import assert_same, call, layouts, plant, refuses, values

from bittern.ops.table import OPS, Array
from bittern.types.dims import dim, symbol
from bittern.types.elements import BF16, BIT, F32, FORMATS, I8, U8, U32, T, open_element
from bittern.types.values import Tensor, tensor

Index = tuple[int, ...]
N, M, K = symbol(0), symbol(1), symbol(2)
Q4 = FORMATS["q4_0"]
ANY, FORMAT = open_element("e", "type"), open_element("w", "format")


def gathered(shape: Index, source: Callable[[Index], Any], dtype: Any) -> Array:
    """Build an array from what stands at each index."""
    result = np.empty(shape, dtype)
    for i in np.ndindex(*shape):
        result[i] = source(i)
    return result


def unravelled(number: int, shape: Index) -> Index:
    """The index that has this number in row-major order."""
    place: list[int] = []
    for size in reversed(shape):
        number, i = divmod(number, size)
        place.insert(0, i)
    return tuple(place)


def ravelled(i: Index, shape: Index) -> int:
    number = 0
    for place, size in zip(i, shape, strict=True):
        number = number * size + place
    return number


def swapped(i: Index, axis: int, place: int) -> Index:
    return (*i[:axis], place, *i[axis + 1 :])


# --- the definitions: (x, attributes) -> result


def reshaped(x: Array, shape: Index) -> Array:
    return gathered(shape, lambda i: x[unravelled(ravelled(i, shape), x.shape)], x.dtype)


def permuted(x: Array, axes: Index) -> Array:
    shape = tuple(x.shape[a] for a in axes)
    return gathered(shape, lambda i: x[tuple(i[axes.index(a)] for a in range(x.ndim))], x.dtype)


def reversed_(x: Array, axis: int) -> Array:
    return gathered(x.shape, lambda i: x[swapped(i, axis, x.shape[axis] - 1 - i[axis])], x.dtype)


def sliced(x: Array, axis: int, low: int, high: int, stride: int) -> Array:
    places = list(range(low, high, stride))
    return gathered(swapped(x.shape, axis, len(places)), lambda i: x[swapped(i, axis, places[i[axis]])], x.dtype)


def padded(x: Array, value: Any, axis: int, before: int, after: int) -> Array:
    def source(i: Index) -> Any:
        inside = before <= i[axis] < before + x.shape[axis]
        return x[swapped(i, axis, i[axis] - before)] if inside else value

    return gathered(swapped(x.shape, axis, before + x.shape[axis] + after), source, x.dtype)


def windowed(x: Array, axis: int, size: int, stride: int, dilation: int) -> Array:
    starts = [s for s in range(0, x.shape[axis], stride) if s + (size - 1) * dilation < x.shape[axis]]
    shape = (*x.shape[:axis], len(starts), size, *x.shape[axis + 1 :])

    def source(i: Index) -> Any:
        place = starts[i[axis]] + i[axis + 1] * dilation
        return x[(*i[:axis], place, *i[axis + 2 :])]

    return gathered(shape, source, x.dtype)


# --- random calls


def calls(seed: int) -> Iterator[tuple[str, Array, dict[str, Any], Array]]:
    """Yield calls with one array operand: name, operand, attributes, expected result."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 5)))
    x = values([F32, U8, BIT, BF16, T][seed % 5], shape, rng)
    axis = int(rng.integers(x.ndim))
    n = shape[axis]
    other = tuple(shape[a] for a in rng.permutation(x.ndim))
    axes = tuple(int(a) for a in rng.permutation(x.ndim))
    low, high = sorted(int(i) for i in rng.integers(0, n + 1, 2))
    stride, dilation = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    size = int(rng.integers(1, (n - 1) // dilation + 2))
    yield "reshape", x, {"shape": other}, reshaped(x, other)
    yield "reshape", x, {"shape": (x.size, 1)}, reshaped(x, (x.size, 1))
    yield "permute", x, {"axes": axes}, permuted(x, axes)
    yield "reverse", x, {"axis": axis}, reversed_(x, axis)
    cut = {"axis": axis, "low": low, "high": high, "stride": stride}
    yield "slice", x, cut, sliced(x, **cut)
    seen = {"axis": axis, "size": size, "stride": stride, "dilation": dilation}
    yield "windows", x, seen, windowed(x, **seen)
    yield "broadcast", x, {"shape": (2, 3)}, gathered((2, 3, *shape), lambda i: x[i[2:]], x.dtype)


ELEMENTS = [F32, U8, BIT, BF16, T]


def check(seed: int) -> None:
    for name, x, attributes, expected in calls(seed):
        for layout, same in layouts(x):
            found = call(name, [ELEMENTS[seed % 5]], same, **attributes)
            assert_same(found, expected, name, layout, attributes)


@pytest.mark.parametrize("seed", range(25))
def test_one_operand(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", range(25))
def test_joining_and_padding(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(0, 4, rng.integers(1, 4)))
    axis = int(rng.integers(len(shape)))
    parts = [values(F32, swapped(shape, axis, int(rng.integers(0, 4))), rng) for _ in range(int(rng.integers(1, 5)))]
    rows = [np.moveaxis(part, axis, 0)[i] for part in parts for i in range(part.shape[axis])]
    whole = np.moveaxis(np.array(rows, np.float32).reshape(len(rows), *shape[:axis], *shape[axis + 1 :]), 0, axis)
    assert_same(call("concat", [F32] * len(parts), *parts, axis=axis), whole)
    axis = int(rng.integers(len(shape) + 1))
    parts = [values(F32, shape, rng) for _ in range(3)]
    result = call("stack", [F32] * 3, *parts, axis=axis)
    assert_same(
        result, gathered((*shape[:axis], 3, *shape[axis:]), lambda i: parts[i[axis]][i[:axis] + i[axis + 1 :]], "f")
    )
    axis = int(rng.integers(len(shape)))
    before, after, value = int(rng.integers(3)), int(rng.integers(3)), np.float32(-0.0)
    result = call("pad", [F32, F32], parts[0], value, axis=axis, before=before, after=after)
    assert_same(result, padded(parts[0], value, axis, before, after))


def test_making() -> None:
    for n in (0, 1, 5, 70000):
        assert call("iota", [], count=n).tolist() == list(range(n))
    for number in (0, 7, 2**32 - 1, 2**32, 2**40 + 3):
        assert call("size", [], value=number) == number % 2**32
    for shape in ((), (3,), (2, 0), (70, 80)):
        for value in (np.float32(-0.0), np.float32("nan"), np.asarray(np.float32(3))):
            filled = call("fill", [F32], value, shape=shape)
            assert_same(filled, gathered(shape, lambda i, v=value: v, "f"))  # type: ignore[misc]
    assert call("stack", [U32] * 3, *np.arange(3, dtype=np.uint32), axis=0).tolist() == [0, 1, 2]


def test_blocks_are_the_bytes() -> None:
    w = values(Q4, (3, 2, 18), np.random.default_rng(1))
    found = call("blocks", [tensor(Q4, 3, 64)], w)
    assert found.shape == (3, 2, 18) and np.shares_memory(found, w)


def test_format_tensors_keep_their_rows() -> None:
    """Leading axes of a block format are like any others; its last axis is [blocks, bytes]."""
    rng = np.random.default_rng(2)
    w = values(Q4, (4, 3, 2, 18), rng)  # q4_0[4, 3, 64]
    whole, half = tensor(Q4, 4, 3, 64), tensor(Q4, 2, 3, 64)
    assert_same(call("reshape", [whole], w, shape=(12, 64)), w.reshape(12, 2, 18))
    assert_same(call("permute", [whole], w, axes=(1, 0, 2)), w.transpose(1, 0, 2, 3))
    assert_same(call("reverse", [whole], w, axis=1), w[:, ::-1])
    assert_same(call("slice", [whole], w, axis=0, low=1, high=3, stride=1), w[1:3])
    assert_same(call("concat", [half, whole], w[:2], w, axis=0), np.concatenate([w[:2], w]))
    assert_same(call("stack", [whole, whole], w, w, axis=2), np.stack([w, w], 2))
    assert_same(call("broadcast", [whole], w, shape=(2,)), np.broadcast_to(w, (2, 4, 3, 2, 18)))
    found = call("windows", [whole], w, axis=0, size=2, stride=1, dilation=2)
    assert_same(found, np.stack([w[[0, 2]], w[[1, 3]]]))
    batched = values(Q4, (5, 1, 4, 3, 2, 18), rng)
    assert_same(call("reshape", [whole], batched, lead=2, shape=(12, 64)), batched.reshape(5, 1, 12, 2, 18))
    assert_same(call("permute", [whole], batched, lead=2, axes=(1, 0, 2)), batched.transpose(0, 1, 3, 2, 4, 5))


def test_nothing_is_copied_that_can_be_seen() -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    for name, attributes in (
        ("reshape", {"shape": (24,)}),
        ("permute", {"axes": (1, 0)}),
        ("reverse", {"axis": 1}),
        ("slice", {"axis": 0, "low": 1, "high": 3, "stride": 2}),
        ("windows", {"axis": 1, "size": 2, "stride": 1, "dilation": 1}),
        ("broadcast", {"shape": (1000,)}),
    ):
        assert np.shares_memory(call(name, [F32], x, **attributes), x), name


def test_repeated_elements_cannot_be_written() -> None:
    x = np.arange(24, dtype=np.float32)
    for size in (2, 4000):
        assert not call("broadcast", [F32], x, shape=(size,)).flags.writeable
        assert not call("fill", [F32], x[0], shape=(size,)).flags.writeable
    assert not call("windows", [F32], x, axis=0, size=2, stride=1, dilation=1).flags.writeable


def test_ideal_mixes_reals_with_integers() -> None:
    """In ideal evaluation an operand that is typed as an integer may hold reals."""
    whole, real = np.array([1, 2], np.int8), np.array([0.5, 1.5])
    assert call("concat", [I8, I8], whole, real, ideal=True, axis=0).tolist() == [1, 2, 0.5, 1.5]
    assert call("stack", [I8, I8], whole, real, ideal=True, axis=0).tolist() == [[1, 2], [0.5, 1.5]]
    assert call("stack", [I8, I8], np.int8(1), real[0], ideal=True, axis=0).tolist() == [1, 0.5]
    assert call("pad", [I8, I8], whole, np.float64(0.5), ideal=True, axis=0, before=1, after=0).tolist() == [0.5, 1, 2]


# --- rules


def test_symbolic_results() -> None:
    x = Tensor(F32, (N, M))
    cut = {"axis": 0, "low": dim(1), "high": N - 1, "stride": 2}
    cases: list[tuple[str, tuple[Any, ...], dict[str, Any], Tensor]] = [
        ("reshape", (x,), {"shape": (M * N,)}, Tensor(F32, (N * M,))),
        ("reshape", (x,), {"shape": (dim(1), M, N)}, Tensor(F32, (dim(1), M, N))),
        ("permute", (x,), {"axes": (1, 0)}, Tensor(F32, (M, N))),
        ("slice", (x,), cut, Tensor(F32, ((N - 1) // 2, M))),
        ("concat", (x, Tensor(F32, (K, M)), x), {"axis": 0}, Tensor(F32, (N * 2 + K, M))),
        ("stack", (x, x), {"axis": 2}, Tensor(F32, (N, M, dim(2)))),
        ("pad", (x, Tensor(F32)), {"axis": 1, "before": N, "after": dim(1)}, Tensor(F32, (N, M + N + 1))),
        ("broadcast", (x,), {"shape": (K,)}, Tensor(F32, (K, N, M))),
        ("fill", (Tensor(ANY),), {"shape": (K, N)}, Tensor(ANY, (K, N))),
        ("iota", (), {"count": N}, Tensor(U32, (N,))),
        ("size", (), {"value": N * M}, Tensor(U32)),
        (
            "windows",
            (x,),
            {"axis": 0, "size": K, "stride": 2, "dilation": 3},
            Tensor(F32, ((N - K * 3 + 2) // 2 + 1, K, M)),
        ),
        ("blocks", (Tensor(Q4, (N, M * 32)),), {}, Tensor(U8, (N, M, dim(18)))),
        ("reshape", (Tensor(Q4, (N, M, K)),), {"shape": (N * M, K)}, Tensor(Q4, (N * M, K))),
        ("reshape", (Tensor(ANY, (N, M)),), {"shape": (N * M,)}, Tensor(ANY, (N * M,))),
        ("permute", (Tensor(FORMAT, (N, M, K)),), {"axes": (1, 0, 2)}, Tensor(FORMAT, (M, N, K))),
        ("reverse", (Tensor(F32, (N,), "device"),), {"axis": 0}, Tensor(F32, (N,), "device")),
        ("concat", (Tensor(F32, (N,)), Tensor(F32, (N,), "host")), {"axis": 0}, Tensor(F32, (N * 2,), "host")),
    ]
    for name, types, attributes, expected in cases:
        assert OPS[name].rule(types, attributes) == expected, name


def test_shapes_that_do_not_fit() -> None:
    x = Tensor(F32, (N, dim(6)))
    refuses(
        "E401",
        "5 * d0 values / 6 * d0 values",
        "reshape",
        [x],
        shape=(N * 5,),
    )
    refuses("E401", "d1 values / 6 * d0 values", "reshape", [x], shape=(M,))
    refuses("E303", "-1", "reshape", [tensor(F32, 1)], shape=(-1, -1))
    refuses("E303", "axes [0, 0] / each of the 2 axes once", "permute", [x], axes=(0, 0))
    refuses("E303", "axis 2 / an axis below 2", "reverse", [x], axis=2)
    refuses("E303", "axis 0 / an array", "reverse", [Tensor(F32)], axis=0)
    refuses("E303", "axis -1", "slice", [x], axis=-1, low=0, high=1, stride=1)
    for low, high in ((0, 7), (4, 3), (-1, 2)):
        refuses(
            "E401", f"{low}..{high} / bounds in order and inside 6", "slice", [x], axis=1, low=low, high=high, stride=1
        )
    refuses("E401", "d0..d0 - 1", "slice", [x], axis=0, low=N, high=N - 1, stride=1)
    refuses("E401", "0..d0 + 1", "slice", [x], axis=0, low=dim(0), high=N + 1, stride=1)
    refuses("E303", "a stride of 0", "slice", [x], axis=0, low=0, high=1, stride=0)
    refuses("E401", "shape [d0, 7] / shape [d0, 6]", "concat", [x, Tensor(F32, (N, dim(7)))], axis=0)
    refuses("E402", "an array of 2 dimensions", "concat", [x, Tensor(F32)], axis=0)
    refuses("E301", "`u8`", "concat", [x, Tensor(U8, x.shape)], axis=0)
    refuses("E301", "space `host`", "concat", [Tensor(F32, (N,), "device"), Tensor(F32, (N,), "host")], axis=0)
    refuses("E401", "shape [d1, 6]", "stack", [x, Tensor(F32, (M, dim(6)))], axis=0)
    refuses("E303", "axis 3", "stack", [x, x], axis=3)
    refuses("E303", "0 operands", "stack", [], axis=0)
    refuses("E302", "one value of `f32`", "pad", [x, Tensor(U8)], axis=0, before=1, after=1)
    refuses("E302", "one value of `f32`", "pad", [x, x], axis=0, before=1, after=1)
    refuses("E303", "a size of -1 / 0 or more", "pad", [x, Tensor(F32)], axis=0, before=-1, after=1)
    refuses("E303", "a size of -2", "broadcast", [x], shape=(-2,))
    refuses("E402", "one value", "fill", [x], shape=(2,))
    refuses("E303", "a size of -1", "iota", [], count=-1)
    refuses("E303", "1 operands / none", "size", [x], value=3)
    refuses("E401", "windows of 7 / at most 6", "windows", [x], axis=1, size=3, stride=1, dilation=3)
    refuses("E303", "a size of 0 / 1 or more", "windows", [x], axis=1, size=0, stride=1, dilation=1)
    refuses("E303", "a dilation of 0", "windows", [x], axis=1, size=1, stride=1, dilation=0)


@pytest.mark.parametrize("element", [Q4, FORMAT], ids=str)
def test_the_blocks_of_a_format_stay_whole(element: Any) -> None:
    w = tensor(element, 4, 3, 64)
    one = {"axis": 2}
    refuses("E302", "the same last axis", "reshape", [w], shape=(4, 192))
    refuses("E302", "the last axis in its place", "permute", [w], axes=(0, 2, 1))
    for name, types, attributes in (
        ("reverse", [w], one),
        ("slice", [w], {**one, "low": 0, "high": 32, "stride": 1}),
        ("concat", [w, w], one),
        ("stack", [w, w], {"axis": 3}),
        ("windows", [w], {**one, "size": 2, "stride": 1, "dilation": 1}),
    ):
        refuses("E302", "an axis that is not cut into blocks", name, types, **attributes)
    refuses("E302", "no block format", "pad", [w, Tensor(element)], axis=0, before=1, after=1)
    refuses("E302", "no block format", "fill", [Tensor(element)], shape=(2,))


def test_blocks_need_a_known_format() -> None:
    refuses("E302", "a block format that is known", "blocks", [Tensor(FORMAT, (N, M))])
    refuses("E302", "a block format that is known", "blocks", [Tensor(ANY, (N, M))])
    refuses("E302", "an array in a block format", "blocks", [Tensor(F32, (N, M))])


# --- planted faults


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("reshape", lambda site, x: x.reshape(site.attributes["shape"], order="F")),
        ("permute", lambda site, x: x.transpose(np.argsort(site.attributes["axes"]))),
        ("reverse", lambda site, x: np.flip(x, site.attributes["axis"] - 1)),
        (
            "slice",
            lambda site, x: np.roll(x, -1, site.attributes["axis"]).take(
                range(site.shape[site.attributes["axis"]]), site.attributes["axis"]
            ),
        ),
        ("windows", lambda site, x: np.zeros(site.shape, x.dtype)),
        ("broadcast", lambda site, x: np.moveaxis(np.broadcast_to(x, (2, 3, *x.shape)), 2, -1)),
    ],
)
def test_planted_faults_are_found(name: str, fault: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, name, fault)
    with pytest.raises((AssertionError, ValueError)):
        for seed in range(25):
            check(seed)
