"""Pooling of codes over numpy windows; stochastic pooling repeats by its seed and draws in proportion."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from codes_oracle import WIDTHS, Array, codes, patches2d, wide, windowed

ELEMENTS = [*WIDTHS, "u2", "u8", "i32", "f32"]


def by_place(view: Array) -> Array:
    """The places of each window last. view: [o, p, v, q, c] -> [o, v, c, p * q]."""
    o, p, v, q, c = view.shape
    return view.transpose(0, 2, 4, 1, 3).reshape(o, v, c, p * q)


def form(element: str) -> dict[str, Any]:
    """How the form of a function for an element is called."""
    return {"overload": element} if element in ("b1", "t") else {"overload": "", "elements": {"e": element}}


@pytest.mark.req("C024")
@pytest.mark.covers("pooling.max_pool1d", "pooling.max_pool2d")
@pytest.mark.parametrize("element", ELEMENTS)
def test_greatest(run: Any, element: str) -> None:
    for p, q, stride in ((1, 1, 1), (2, 2, 2), (3, 2, 1), (2, 3, 3)):
        x = codes("i8" if element == "f32" else element, (6, 7, 5), p)
        x = x.astype(np.float32) if element == "f32" else x
        view = patches2d(x, p, q, stride)
        o, _, v, _, c = view.shape
        y = run("pooling.max_pool2d", view, dims=(o, p, v, q, c), **form(element))
        assert y.dtype == x.dtype and np.array_equal(y, by_place(view).max(-1))
        line = windowed(x[0], 0, q, stride)
        y = run("pooling.max_pool1d", line, dims=(len(line), q, c), **form(element))
        assert np.array_equal(y, line.max(1))


@pytest.mark.req("C024")
@pytest.mark.covers("pooling.sum_pool1d", "pooling.sum_pool2d", "pooling.average_pool2d")
@pytest.mark.parametrize("element", [*WIDTHS, "bit", "u3", "u8"])
def test_sums_and_averages(run: Any, element: str) -> None:
    for p, q, stride in ((1, 1, 1), (2, 2, 2), (3, 2, 1)):
        x = codes(element, (6, 7, 4), q)
        view = patches2d(x, p, q, stride)
        sizes = o, _, v, _, c = view.shape
        total = wide(by_place(view)).sum(-1)
        y = run("pooling.sum_pool2d", view, dims=sizes, elements={"e": element})
        assert y.dtype == np.int32 and np.array_equal(y, total)
        line = windowed(x[1], 0, q, stride)
        y = run("pooling.sum_pool1d", line, dims=line.shape, elements={"e": element})
        assert np.array_equal(y, wide(line).sum(1))
        if element[0] in "iu":
            mean = run("pooling.average_pool2d", view, dims=sizes, elements={"e": element})
            exact = [round(Fraction(int(s), p * q)) for s in total.ravel()]
            assert mean.shape == (o, v, c) and mean.ravel().tolist() == exact


@pytest.mark.req("C024")
@pytest.mark.covers("pooling.stochastic_pool2d", "pooling.drawn")
def test_draws_are_those_of_the_generator(run: Any) -> None:
    """Every draw, by the definition: the first value whose running sum is above the target."""
    for element in ("i4", "u8"):
        view = patches2d(codes(element, (6, 6, 3), 5), 2, 3, 2)
        _, p, _, q, _ = sizes = view.shape
        arguments = np.uint64(77), np.uint32(3)
        y = run("pooling.stochastic_pool2d", view, *arguments, dims=sizes, elements={"e": element})
        same = run("pooling.stochastic_pool2d", view, *arguments, dims=sizes, elements={"e": element})
        other = run("pooling.stochastic_pool2d", view, np.uint64(78), np.uint32(3), dims=sizes, elements={"e": element})
        assert np.array_equal(y, same) and not np.array_equal(y, other)
        windows = by_place(view).reshape(-1, p * q)
        count = len(windows)
        numbers = run.rows(
            "random.draw", "u64, u32, u64 -> u64", np.full(count, 77, np.uint64), np.full(count, 3, np.uint32),
            np.arange(count, dtype=np.uint64),
        )  # fmt: skip
        expected = []
        for window, number in zip(wide(windows), numbers, strict=True):
            mass = np.maximum(window, 0)
            target = int(number) * int(mass.sum()) >> 64
            expected.append(int(window[np.argmax(np.cumsum(mass) > target)]) if mass.sum() else int(window[0]))
        assert y.reshape(-1).tolist() == expected
        ones = run("pooling.drawn", windows[0], np.uint64(0), dims=(p * q,), elements={"e": element})
        assert int(ones) == next((int(w) for w in windows[0] if w > 0), int(windows[0][0]))


@pytest.mark.req("C024")
@pytest.mark.covers("pooling.expected_pool2d", "pooling.mean_of_drawn")
def test_draws_come_in_proportion(run: Any) -> None:
    window = np.array([0, 1, 5, 10], np.int8)
    view = np.tile(window.reshape(1, 2, 1, 2, 1), (100, 1, 40, 1, 1)).astype(np.int8)
    sizes, of = view.shape, {"e": "i8"}
    y = run("pooling.stochastic_pool2d", view, np.uint64(1), np.uint32(0), dims=sizes, elements=of)
    shares = [(y == value).mean() for value in window]
    assert shares[0] == 0 and np.abs(np.array(shares) - window / 16).max() < 0.03
    mean = run("pooling.expected_pool2d", view, dims=sizes, elements=of)
    assert (mean == round(Fraction(126, 16))).all()
    for values in ([-3, -1], [0, 0], [7, -8], [3, 4, 4]):
        x = np.array(values, np.int8)
        mass = [max(v, 0) for v in values]
        exact = round(Fraction(sum(v * v for v in mass), sum(mass))) if sum(mass) else 0
        assert int(run("pooling.mean_of_drawn", x, dims=(len(x),), elements=of)) == exact


FAULTS: list[tuple[str, str, Callable[[Any], None]]] = [
    ("scan_sum(mass) <= target", "scan_sum(mass) < target", test_draws_are_those_of_the_generator),
    ("divide_half_even(i64(total), count)", "i64(total) / count", lambda run: test_sums_and_averages(run, "i8")),
    ("sign[t](max_of(i8(places))) for places in patch] for patch in row]",
     "sign[t](sum(i8(places))) for places in patch] for patch in row]", lambda run: test_greatest(run, "t")),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(edited: Callable[..., Any], old: str, new: str, check: Callable[[Any], None]) -> None:
    with pytest.raises(AssertionError):
        check(edited("pooling.btn", old, new))
