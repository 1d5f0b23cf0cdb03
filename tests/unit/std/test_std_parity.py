"""Trained and compiled layers agree: floats that stand for codes, summed and rounded, give the codes of the integers.

A layer is trained on floats: scale times codes of each width, with scales that are powers of two, so that f64 holds
every sum exactly. Then the sums become codes of the next layer, by a scale, to the nearest, ties up.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from codes_oracle import WIDTHS, Array, codes, patches2d, windowed

from bittern.types.elements import ELEMENTS

WEIGHT, INPUT = 2.0**-5, 2.0**-3  # scales
Trained = Callable[[Array, Array], Array]


def view2d(x: Array) -> Array:
    """Windows of 3 by 2."""
    return patches2d(x, 3, 2)


def summed(equation: str) -> Trained:
    """A layer of floats as sums of products."""
    return lambda w, x: np.asarray(np.einsum(equation, w, x))


# layer -> function of the library, shapes of weights and inputs, how the inputs are windowed, the layer in floats
LAYERS: dict[str, tuple[str, Sequence[int], Sequence[int], Callable[[Array], Array], Trained]] = {
    "dense": ("dense.dense", (6, 40), (40,), np.asarray, summed("mn,n->m")),
    "matmul": ("matmul.matmul_transposed", (5, 20), (4, 20), np.asarray, summed("nk,mk->nm")),
    "conv1d": ("convolution.conv1d", (4, 3, 5), (9, 5), lambda x: windowed(x, 0, 3), summed("mpc,opc->om")),
    "conv2d": ("convolution.conv2d", (4, 3, 2, 3), (6, 6, 3), view2d, summed("mpqc,opvqc->ovm")),
    "strided": ("convolution.conv2d", (4, 3, 2, 3), (7, 6, 3), lambda x: patches2d(x, 3, 2, 2),
                summed("mpqc,opvqc->ovm")),
    "dilated": ("convolution.conv2d", (4, 3, 2, 3), (7, 6, 3), lambda x: patches2d(x, 3, 2, 1, 2),
                summed("mpqc,opvqc->ovm")),
    "conv3d": ("convolution.conv3d", (3, 2, 2, 2, 2), (4, 4, 4, 2),
               lambda x: windowed(windowed(windowed(x, 0, 2), 2, 2), 4, 2), summed("mpqrc,opvqurc->ovum")),
    "depthwise1d": ("convolution.depthwise1d", (3, 5), (9, 5), lambda x: windowed(x, 0, 3), summed("pc,opc->oc")),
    "depthwise2d": ("convolution.depthwise2d", (3, 2, 4), (6, 6, 4), view2d, summed("pqc,opvqc->ovc")),
    "grouped": ("convolution.conv2d_grouped", (2, 3, 3, 2, 4), (6, 6, 2, 4), view2d, summed("gmpqc,opvqgc->ovgm")),
    "local": ("convolution.local2d", (4, 5, 2, 3, 2, 3), (6, 6, 3), view2d, summed("ovmpqc,opvqc->ovm")),
    "pointwise": ("convolution.pointwise2d", (4, 6), (3, 3, 6), np.asarray, summed("mc,ovc->ovm")),
}  # fmt: skip


def next_codes(sums: Array, element: str, scale: Fraction) -> Array:
    """What a quantiser makes of exact floats."""
    of = ELEMENTS[element]
    rounded = [math.floor(Fraction(float(v)) * scale + Fraction(1, 2)) for v in sums.ravel()]
    return np.array([min(max(v, of.low), of.high) for v in rounded]).reshape(sums.shape)


@pytest.mark.req("C025", "C036")
@pytest.mark.covers("requantise.requantise", "dense.dense", "matmul.matmul_transposed", "convolution.*")
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("element", WIDTHS)
def test_sums_of_products(run: Any, layer: str, element: str) -> None:
    name, of_weights, of_inputs, view, trained = LAYERS[layer]
    w, x = codes(element, tuple(of_weights), 1), view(codes(element, tuple(of_inputs), 2))
    floats = trained(w.astype(np.float64) * WEIGHT, x.astype(np.float64) * INPUT)
    function = run.library.function(name, elements={"a": element, "e": element})
    sums = run(name, w, x, dims=sizes(function, [w.shape, x.shape]), elements={"a": element, "e": element})
    to, shift = ("i4" if element in ("b1", "t") else element), 9
    multiplier = 37 if element != "i8" else 3
    given = (np.full(sums.size, multiplier, np.int32), np.full(sums.size, shift, np.uint32))
    limits = (np.int32(0), np.int32(ELEMENTS[to].low), np.int32(ELEMENTS[to].high))
    y = run("requantise.requantise", sums.reshape(-1), *given, *limits, dims=(sums.size,), elements={"e": to})
    scale = Fraction(multiplier, 2**shift) / Fraction(WEIGHT) / Fraction(INPUT)
    assert np.array_equal(y.reshape(sums.shape), next_codes(floats, to, scale))
    signs = run("thresholds.sign_at", sums.reshape(-1), np.zeros(sums.size, np.int32), np.zeros(sums.size, bool),
                dims=(sums.size,))  # fmt: skip
    assert np.array_equal(signs.reshape(sums.shape), np.where(floats < 0, -1, 1))


def sizes(function: Any, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The dimensions of a function, read off its parameters' shapes."""
    found = {}
    for parameter, shape in zip(function.params, shapes, strict=True):
        for size, number in zip(parameter.type.shape, shape, strict=True):
            ((((symbol,), _),),) = (size.terms,)
            assert found.setdefault(symbol, number) == number
    return tuple(found[i] for i in range(function.dims))


@pytest.mark.req("C025", "C036")
@pytest.mark.covers("residual.residual", "pooling.max_pool2d", "pooling.sum_pool2d")
@pytest.mark.parametrize("element", WIDTHS)
def test_branches_and_pools(run: Any, element: str) -> None:
    """Branches of two scales are added as floats; a pool of floats is the pool of their codes."""
    c, left, right, to = 60, 3.0, 0.75, 2.0
    x, y = codes(element, (c,), 3), codes(element, (c,), 4)
    ones = np.ones(c, np.int32)
    given = (ones * 12, ones * 3, np.full(c, 3, np.uint32))  # 3 / 2 and 0.75 / 2 in eighths
    limits = (np.int32(0), np.int32(-8), np.int32(7))
    of = {"a": element, "e": element, "d": "i4"}
    z = run("residual.residual", x, y, np.int32(0), np.int32(0), *given, *limits, dims=(c,), elements=of)
    assert np.array_equal(z, next_codes(x * left + y * right, "i4", 1 / Fraction(to)))
    form: dict[str, Any] = {"overload": element} if element in ("b1", "t") else {"elements": {"e": element}}
    view = view2d(codes(element, (6, 6, 4), 5))
    sizes = view.shape
    floats = view * left
    greatest = run("pooling.max_pool2d", view, dims=sizes, **form)
    assert np.array_equal(greatest * left, floats.max((1, 3)))
    total = run("pooling.sum_pool2d", view, dims=sizes, elements={"e": element})
    np.testing.assert_allclose(total * left / 6, floats.mean((1, 3)), rtol=1e-14)


@pytest.mark.req("C025", "C036")
@pytest.mark.covers("thresholds.sign_at", "thresholds.ternary_at", "norms.batch_norm")
@pytest.mark.parametrize("element", ["b1", "t"])
def test_batch_norm_before_signs(run: Any, element: str) -> None:
    """Over the whole range of the sums: batch norm in f32 and its sign, or one threshold a channel (two for t)."""
    c, sums = 8, np.arange(-200, 201)
    rng = np.random.default_rng(11)
    mean, gain, bias = (rng.normal(size=c).astype(np.float32) * k for k in (30, 1, 1))
    gain[0], bias[0], mean[1], bias[1] = 0.5, 0, 7, 0  # ties: the sign of 0 is +1
    variance, eps = rng.uniform(100, 900, c).astype(np.float32), np.float32(1e-3)
    rows = np.tile(sums.astype(np.float32)[:, None], (1, c))
    normal = np.stack([run("norms.batch_norm", r, mean, variance, gain, bias, eps, dims=(c,)) for r in rows])
    borders = [normal >= 0] if element == "b1" else [normal >= np.float32(-0.5), normal > np.float32(0.5)]
    falling = gain < 0
    at = np.array([[first(hit[:, j], sums, bool(falling[j])) for hit in borders] for j in range(c)], np.int32)
    for i, value in enumerate(sums):
        x = np.full(c, value, np.int32)
        if element == "b1":
            y = run("thresholds.sign_at", x, at[:, 0].copy(), falling, dims=(c,))
            assert y.tolist() == np.where(borders[0][i], 1, -1).tolist()
        else:
            y = run("thresholds.ternary_at", x, at, falling, dims=(c,))
            assert y.tolist() == (sum(hit[i].astype(int) for hit in borders) - 1).tolist()


def first(hit: Array, sums: Array, falling: bool) -> int:
    """The threshold of a channel: the first sum, or the last one where it is falling, that reaches it."""
    found = np.flatnonzero(hit)
    if not found.size:
        return int(sums[0] - 1 if falling else sums[-1] + 1)
    return int(sums[found[-1] if falling else found[0]])


@pytest.mark.parametrize("layer", LAYERS)
def test_another_layer_in_floats_is_seen(run: Any, layer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    *rest, trained = LAYERS[layer]
    monkeypatch.setitem(LAYERS, layer, (*rest, lambda w, x: trained(w[..., ::-1], x)))  # channels change places
    with pytest.raises(AssertionError):
        test_sums_of_products(run, layer, "i4")
