"""Convolutions of codes against loops over windows: all kinds, strides, dilations, paddings and awkward channels."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from codes_oracle import PAIRS, Array, codes, conv2d_naive, patches2d, wide, windowed

SHAPES = [(1, 1, 1, 1), (3, 3, 1, 1), (3, 2, 2, 1), (2, 3, 1, 2), (1, 3, 3, 2)]  # p, q, stride, dilation


@pytest.mark.req("C020")
@pytest.mark.covers("convolution.conv2d")
@pytest.mark.parametrize(("weight", "element"), PAIRS)
def test_conv2d(run: Any, weight: str, element: str) -> None:
    for p, q, stride, dilation in SHAPES:
        x, w = codes(element, (7, 6, 3), p), codes(weight, (2, p, q, 3), q)
        view = patches2d(x, p, q, stride, dilation)
        o, _, v, _, c = view.shape
        y = run("convolution.conv2d", w, view, dims=(o, p, v, q, c, 2), elements={"a": weight, "e": element})
        assert y.dtype == np.int32 and np.array_equal(y, conv2d_naive(x, w, stride, dilation))


@pytest.mark.req("C020")
@pytest.mark.covers("convolution.conv2d")
@pytest.mark.parametrize("channels", [1, 31, 33, 63, 65, 127])
def test_awkward_channels_and_every_padding(run: Any, channels: int) -> None:
    """The op chain of a network: pad with an explicit value, windows of both axes, the function."""
    text = """use convolution
fn padded(w: &b1[2, 3, 3, C], x: b1[4, 4, C], value: b1) -> i32[4, 4, 2] {
  let wide = pad(pad(x, 1, 1, value), 1, 1, value, axis: 1)
  conv2d(w, windows(windows(wide, 3, 1, 1), 3, 1, 1, axis: 2))
}
""".replace("C]", f"{channels}]")
    x, w = codes("b1", (4, 4, channels), 1), codes("b1", (2, 3, 3, channels), 2)
    for value in (1, -1):
        around = np.pad(x, ((1, 1), (1, 1), (0, 0)), constant_values=value)
        assert np.array_equal(run.text(text, "padded", w, x, np.int8(value)), conv2d_naive(around, w))


@pytest.mark.req("C020")
@pytest.mark.covers("convolution.conv2d_inside", "convolution.padding_sums2d", "convolution.padding_sums1d")
def test_signs_padded_with_exact_zero(run: Any) -> None:
    """What is outside adds nothing: chosen per tap, or taken off behind a convolution that was padded with +1."""
    for weight, c in itertools.product(("b1", "t", "i2", "i8"), (1, 5)):
        x, w = codes("b1", (4, 5, c), 1), codes(weight, (3, 3, 2, c), 2)
        ones = np.pad(x, ((1, 1), (1, 1), (0, 0)), constant_values=1)
        zeros = np.pad(x, ((1, 1), (1, 1), (0, 0)))
        outside = patches2d(np.pad(np.zeros((4, 5), bool), 1, constant_values=True), 3, 2)
        view, exact = patches2d(ones, 3, 2), conv2d_naive(zeros, w)
        o, p, v, q, _ = view.shape
        sizes, a = (o, p, v, q, c, 3), {"a": weight}
        assert np.array_equal(run("convolution.conv2d_inside", w, view, outside, dims=sizes, elements=a), exact)
        plain = run("convolution.conv2d", w, view, dims=sizes, elements={**a, "e": "b1"})
        added = run("convolution.padding_sums2d", w, outside, dims=sizes, elements=a)
        assert np.array_equal(plain - added, exact) and (added != 0).any()
        line, edge = codes(weight, (2, 3, c), 3), windowed(np.array([1, 0, 0, 0, 1], bool), 0, 3)
        taken = run("convolution.padding_sums1d", line, edge, dims=(3, 3, c, 2), elements=a)
        assert np.array_equal(taken, np.einsum("op,mpc->om", wide(edge), wide(line)))


@pytest.mark.req("C020")
@pytest.mark.covers("convolution.conv1d", "convolution.conv3d")
@pytest.mark.parametrize(("weight", "element"), PAIRS)
def test_one_and_three_axes(run: Any, weight: str, element: str) -> None:
    of = {"a": weight, "e": element}
    for p, stride, dilation in ((1, 1, 1), (3, 1, 1), (3, 2, 1), (2, 1, 3)):
        x, w = codes(element, (9, 4), 1), codes(weight, (3, p, 4), 2)
        view = windowed(x, 0, p, stride, dilation)
        y = run("convolution.conv1d", w, view, dims=(len(view), p, 4, 3), elements=of)
        assert np.array_equal(y, conv2d_naive(x[:, None], w[:, :, None], 1, dilation)[::stride, 0])
    x, w = codes(element, (4, 5, 4, 2), 3), codes(weight, (2, 2, 3, 2, 2), 4)
    view = windowed(windowed(windowed(x, 0, 2), 2, 3, 2), 4, 2)
    o, p, v, q, u, r, c = view.shape
    y = run("convolution.conv3d", w, view, dims=(o, p, v, q, u, r, c, 2), elements=of)
    exact = np.zeros((o, v, u, 2), np.int64)
    for i, k, n, f in itertools.product(range(o), range(v), range(u), range(2)):
        exact[i, k, n, f] = int((wide(x[i : i + 2, 2 * k : 2 * k + 3, n : n + 2]) * wide(w[f])).sum())
    assert np.array_equal(y, exact)


@pytest.mark.req("C020")
@pytest.mark.covers("convolution.depthwise1d", "convolution.depthwise2d")
@pytest.mark.covers("convolution.conv1d_grouped", "convolution.conv2d_grouped")
@pytest.mark.parametrize(("weight", "element"), PAIRS)
def test_groups(run: Any, weight: str, element: str) -> None:
    """Each group is a convolution of its own; in a depthwise one the groups have one channel."""
    of, g, m, c = {"a": weight, "e": element}, 3, 2, 2
    x, w = codes(element, (5, 6, g, c), 1), codes(weight, (g, m, 3, 2, c), 2)
    view = patches2d(x, 3, 2, 2)
    o, p, v, q, _, _ = view.shape
    y = run("convolution.conv2d_grouped", w, view, dims=(o, p, v, q, g, c, m), elements=of)
    for i in range(g):
        assert np.array_equal(y[:, :, i], conv2d_naive(x[:, :, i], w[i], 2))
    y = run("convolution.depthwise2d", w[0, 0], view[..., 0, :], dims=(o, p, v, q, c), elements=of)
    for i in range(c):
        assert np.array_equal(y[..., i], conv2d_naive(x[:, :, 0, i : i + 1], w[:1, 0, :, :, i : i + 1], 2)[..., 0])
    line, kernel = windowed(x[0], 0, 2), w[:, :, 0]
    y = run("convolution.conv1d_grouped", kernel, line, dims=(5, 2, g, c, m), elements=of)
    z = run("convolution.depthwise1d", kernel[0, 0], line[:, :, 0], dims=(5, 2, c), elements=of)
    assert np.array_equal(y, np.einsum("opgc,gmpc->ogm", wide(line), wide(kernel)))
    assert np.array_equal(z, np.einsum("opc,pc->oc", wide(line[:, :, 0]), wide(kernel[0, 0])))


@pytest.mark.req("C020", "C025")
@pytest.mark.covers("convolution.local1d", "convolution.local2d", "convolution.pointwise2d")
@pytest.mark.parametrize(("weight", "element"), PAIRS)
def test_local_kernels(run: Any, weight: str, element: str) -> None:
    of, c, m = {"a": weight, "e": element}, 3, 2
    x = codes(element, (4, 5, c), 1)
    view = patches2d(x, 2, 3)
    o, p, v, q, _ = view.shape
    w = codes(weight, (o, v, m, p, q, c), 2)
    y = run("convolution.local2d", w, view, dims=(o, p, v, q, c, m), elements=of)
    for i, k in itertools.product(range(o), range(v)):
        assert np.array_equal(y[i, k], conv2d_naive(x[i : i + 2, k : k + 3], w[i, k])[0, 0])
    line = windowed(x[0], 0, q)
    y = run("convolution.local1d", w[0, :, :, 0], line, dims=(v, q, c, m), elements=of)
    assert np.array_equal(y, np.einsum("vqc,vmqc->vm", wide(line), wide(w[0, :, :, 0])))
    point = w[0, 0, :, 0, 0]
    y = run("convolution.pointwise2d", point, x, dims=(4, 5, c, m), elements=of)
    assert np.array_equal(y, conv2d_naive(x, point[:, None, None]))


@pytest.mark.req("C020", "C025")
@pytest.mark.covers("convolution.separable2d")
@pytest.mark.parametrize("weight", ["b1", "t", "i2", "i3", "i4", "i8"])
def test_separable(run: Any, weight: str) -> None:
    c, m = 3, 4
    x, depth, point = codes("i4", (5, 5, c), 1), codes(weight, (3, 3, c), 2), codes(weight, (m, c), 3)
    multiplier, shift = np.array([5, 1, 3], np.int32), np.array([4, 0, 9], np.uint32)
    view = patches2d(x, 3, 3)
    arguments = (depth, point, view, multiplier, shift, np.int32(1), np.int32(-8), np.int32(7))
    of = {"a": weight, "e": "i4", "d": "i4"}
    y = run("convolution.separable2d", *arguments, dims=(3, 3, 3, 3, c, m), elements=of)
    sums = np.einsum("opvqc,pqc->ovc", wide(view), wide(depth))
    middle = np.clip(np.floor(sums * multiplier / 2.0**shift + 0.5).astype(np.int64) + 1, -8, 7)
    assert np.array_equal(y, middle @ wide(point).T)


@pytest.mark.req("C020", "C025")
@pytest.mark.covers("convolution.transposed1d", "convolution.transposed2d", "convolution.spread1d")
@pytest.mark.covers("convolution.spread2d")
@pytest.mark.parametrize("weight", ["b1", "t", "i2", "i3", "i4", "i8"])
def test_transposed(run: Any, weight: str) -> None:
    """Each place adds its kernel; nothing else is there."""
    of, c, m = {"a": weight, "e": "i8"}, 2, 3
    for s, p, q in ((1, 1, 2), (2, 3, 3), (3, 2, 1)):
        x, w = codes("i8", (3, 4, c), s), codes(weight, (m, p, q, c), p)
        exact = np.zeros((3 * s + p - 1, 4 * s + q - 1, m), np.int64)
        for i, k, a, b in itertools.product(range(3), range(4), range(p), range(q)):
            exact[s * i + a, s * k + b] += wide(w[:, a, b]) @ wide(x[i, k])
        y = run("convolution.transposed2d", w, x, np.int8(0), dims=(s, 3, 4, p, q, c, m), elements=of)
        assert np.array_equal(y, exact)
        line = run("convolution.transposed1d", w[:, 0], x[0], np.int8(0), dims=(s, 4, q, c, m), elements=of)
        single = np.zeros_like(exact[0])
        for k, b in itertools.product(range(4), range(q)):
            single[s * k + b] += wide(w[:, 0, b]) @ wide(x[0, k])
        assert np.array_equal(line, single)
        spread = run("convolution.spread2d", x, np.int8(9), dims=(s, 3, 4, c), elements={"e": "i8"})
        filled = np.full((3 * s, 4 * s, c), 9, np.int8)
        filled[::s, ::s] = x
        assert np.array_equal(spread, filled)
        assert np.array_equal(
            run("convolution.spread1d", x[0], np.int8(9), dims=(s, 4, c), elements={"e": "i8"}), filled[0]
        )


def inside(run: Any) -> None:
    """The check of exact zeros, for the planted faults."""
    test_signs_padded_with_exact_zero(run)


FAULTS: list[tuple[str, str, Callable[[Any], None]]] = [
    ("reshape(permute(x, [0, 2, 4, 1, 3, 5, 6]), [o", "reshape(permute(x, [0, 2, 4, 3, 1, 5, 6]), [o",
     lambda run: test_one_and_three_axes(run, "i4", "i4")),
    ("select(off, 0, i8(place))", "select(off, 1, i8(place))", inside),
    ("conv1d(reverse(w, axis: 1), windows", "conv1d(w, windows", lambda run: test_transposed(run, "i4")),
    ("sum(select(here, kernel, 0)) for kernel in taps] for here in row]",
     "sum(kernel) for kernel in taps] for here in row]", inside),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(edited: Callable[..., Any], old: str, new: str, check: Callable[[Any], None]) -> None:
    with pytest.raises((AssertionError, ValueError)):
        check(edited("convolution.btn", old, new))


def test_a_wrong_oracle_is_seen() -> None:
    """The loops themselves tell windows apart."""
    x, w = codes("i4", (5, 5, 2), 1), codes("i4", (2, 3, 3, 2), 2)
    flipped: Array = w[:, ::-1]
    assert not np.array_equal(conv2d_naive(x, w), conv2d_naive(x, flipped))
