"""Dense layers and matrix products of codes, against loops over int64, for all pairs of widths."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from codes_oracle import PAIRS, Array, codes


def product(x: Array, y: Array) -> Array:
    """Each row of x with each row of y, one sum at a time."""
    return np.array([[sum(int(a) * int(b) for a, b in zip(p, q, strict=True)) for q in y] for p in x], np.int32)


@pytest.mark.req("C019")
@pytest.mark.covers("dense.dense")
@pytest.mark.parametrize(("weight", "element"), PAIRS)
def test_dense(run: Any, weight: str, element: str) -> None:
    for m, n in ((1, 1), (5, 31), (4, 64), (3, 65), (2, 127)):
        w, x = codes(weight, (m, n), n), codes(element, (n,), m)
        y = run("dense.dense", w, x, dims=(m, n), elements={"a": weight, "e": element})
        assert y.dtype == np.int32 and np.array_equal(y, product(w, x[None])[:, 0])


@pytest.mark.req("C019")
@pytest.mark.covers("matmul.matmul", "matmul.matmul_transposed", "matmul.matmul_blocked")
@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_products(run: Any, left: str, right: str) -> None:
    n, k, m = 3, 36, 5
    x, y = codes(left, (n, k), 1), codes(right, (m, k), 2)
    exact, of = product(x, y), {"a": left, "e": right}
    assert np.array_equal(run("matmul.matmul_transposed", x, y, dims=(n, k, m), elements=of), exact)
    assert np.array_equal(run("matmul.matmul", x, np.ascontiguousarray(y.T), dims=(n, k, m), elements=of), exact)
    for b in (1, 4, 9, 36):
        assert np.array_equal(run("matmul.matmul_blocked", x, y, dims=(b, n, k, m), elements=of), exact), b


@pytest.mark.covers("dense.dense", "convolution.conv2d")
def test_the_greatest_sums_are_exact(run: Any) -> None:
    """EDGE_CASES A1 and B13: nothing saturates or wraps at the ends of the range."""
    n = 4096
    for weight, element, value, other in (("i8", "u8", -128, 255), ("i8", "i8", -128, -128), ("b1", "u8", -1, 255)):
        w, x = np.full((1, n), value, np.int8), np.full(n, other, np.uint8 if element == "u8" else np.int8)
        of = {"a": weight, "e": element}
        assert run("dense.dense", w, x, dims=(1, n), elements=of).tolist() == [n * value * other]
        kernel, patch = w.reshape(1, 4, 4, 256), x.reshape(1, 4, 1, 4, 256)
        y = run("convolution.conv2d", kernel, patch, dims=(1, 4, 1, 4, 256, 1), elements=of)
        assert y.tolist() == [[[n * value * other]]]


FAULTS = [
    ("dense.btn", "dot[i32](row, x)", "dot[i32](row, reverse(x))", lambda run: test_dense(run, "i4", "i4")),
    ("matmul.btn", "with total = fill(0i32, [n, m]) { total + ", "with total = fill(0i32, [n, m]) { total - ",
     lambda run: test_products(run, "t", "t")),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(
    edited: Callable[..., Any], file: str, old: str, new: str, check: Callable[[Any], None]
) -> None:
    with pytest.raises(AssertionError):
        check(edited(file, old, new))
