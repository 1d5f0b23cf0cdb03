"""Arithmetic in a fixed order: right to the last bits, and the same bits with any BLAS and any instructions."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from quantise_cases import bell, printed_everywhere

from bittern.base.errors import BitternError
from bittern.front.quantise import ordered

PROGRAM = """
import hashlib, numpy as np
from quantise_cases import bell
from bittern.front.quantise import ordered
rng = np.random.default_rng(1)
a, b = bell(rng, 37, 700), bell(rng, 700, 29)
square = {product}
found = [square, ordered.factor(ordered.product(a, a.T)), ordered.ordered_sum(a),
         ordered.exp(a.astype(float)), ordered.log(np.abs(a.astype(float)) + 1e-3)]
print(hashlib.sha256(b"".join(np.ascontiguousarray(x).tobytes() for x in found)).hexdigest())
"""


def test_sums_follow_the_tree() -> None:
    rng = np.random.default_rng(0)
    for count in (0, 1, 2, 3, 7, 16, 33):
        x = bell(rng, 4, count)
        row = [np.float32(v) for v in x[1]]
        while len(row) > 1:
            half = (len(row) + 1) // 2
            row = [row[i] + row[half + i] if half + i < len(row) else row[i] for i in range(half)]
        assert ordered.ordered_sum(x)[1] == (row[0] if row else 0)


def test_a_product_is_exact_to_its_bound() -> None:
    rng = np.random.default_rng(2)
    a, b = bell(rng, 3, 300) * np.float32(1e3), bell(rng, 300, 4)
    found = ordered.product(a, b)
    for i, j in np.ndindex(3, 4):
        true = sum(Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a[i], b[:, j], strict=True))
        scale = float(np.abs(a[i]).max() * np.abs(b[:, j]).max()) * 300
        assert abs(float(Fraction(float(found[i, j])) - true)) < scale * 2.0**-37
    whole = rng.integers(-100, 100, (5, 9000))
    assert np.array_equal(ordered.product(whole, whole.T), whole @ whole.T)
    assert not ordered.product(np.zeros((2, 3)), np.ones((3, 2))).any()


def test_the_same_bits_everywhere() -> None:
    """EDGE_CASES B18: no sum depends on the vector unit, the BLAS or the threads."""
    assert len(printed_everywhere(PROGRAM.format(product="ordered.product(a, b)"))) == 1


def test_a_blas_alone_would_be_noticed() -> None:
    """Planted fault: the same program with the library's own product of f32 differs somewhere."""
    assert len(printed_everywhere(PROGRAM.format(product="a @ b"))) > 1


def test_the_factor_is_that_of_cholesky() -> None:
    rng = np.random.default_rng(3)
    x = bell(rng, 60, 20).astype(np.float64)
    square = x.T @ x
    lower = ordered.factor(square)
    assert np.allclose(lower, np.linalg.cholesky(square), rtol=1e-12, atol=1e-12) and not np.triu(lower, 1).any()
    for bad in (np.zeros((2, 2)), np.array([[1.0, 2], [2, 1]]), np.array([[np.nan]])):
        with pytest.raises(BitternError, match="not positive definite") as caught:
            ordered.factor(bad)
        assert caught.value.code == "N410"


def test_elementary_functions_are_near_the_truth() -> None:
    mpmath.mp.prec = 120
    x = np.linspace(-40, 40, 301)
    for given, found in zip(x, ordered.exp(x), strict=True):
        assert abs(mpmath.mpf(float(found)) / mpmath.exp(mpmath.mpf(float(given))) - 1) < 2.0**-51
    y = ordered.exp(x)
    for given, found in zip(y, ordered.log(y), strict=True):
        true = mpmath.log(mpmath.mpf(float(given)))
        assert abs(mpmath.mpf(float(found)) - true) < 2.0**-50 * max(1, abs(true))
    assert ordered.exp(np.array([-1e9, 1e9])).tolist() == [ordered.exp(np.array([v]))[0] for v in (-700.0, 700.0)]


def test_decibels() -> None:
    assert ordered.decibels(1, 0) is None and ordered.decibels(0, 1) == 0.0
    assert abs((ordered.decibels(100, 1) or 0) - 20) < 1e-12
