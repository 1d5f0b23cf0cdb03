"""Where floats stand in a network, constants computed ahead, and the proof of a network of whole numbers."""

import numpy as np
import pytest
from network_cases import LIBRARY, Array, float_kinds, folded, kinds, network, norm, real, row, run, windows

from bittern.base.errors import BitternError
from bittern.front.network.assembly import Assembly
from bittern.graph.node import Function, Node, walk
from bittern.passes.constants import fold_constants
from bittern.passes.integers import INNER, INPUT, OUTPUT, float_roles, inner_floats, need_integers
from bittern.passes.network import integer_only
from bittern.types.values import Tensor


def little(a: Assembly, x: Node) -> Node:
    """A float input, its quantiser, two layers with a norm between them, scores."""
    rng = np.random.default_rng(0)
    code = a.op("round", a.scalar("mul", x, 7.0), to="i4")
    y = a.call("dense.dense", a.constant(rng.integers(-8, 8, (6, 5)).astype(np.int8), "i4"), code)
    y = a.label(norm(a, a.scalar("mul", real(a, y), 0.1), 3), "norm")
    y = a.label(a.op("sign", y, to="b1"), "act")
    y = a.call("dense.dense", a.constant(rng.choice([-1, 1], (4, 6)).astype(np.int8), "b1"), y)
    return a.scalar("add", a.scalar("mul", real(a, y), 0.25), 1.5)


def test_roles_of_floats_are_told() -> None:
    function = network("f32", (5,), little)
    roles = list(float_roles(function).values())
    assert roles.count(INPUT) == 2 and roles.count(OUTPUT) == 3 and roles.count(INNER) == 7
    with pytest.raises(BitternError, match="R142") as caught:
        need_integers(function)
    assert "norm" in caught.value.what and "act" not in caught.value.what.split("in ")[0]


def test_the_folded_network_is_one_of_whole_numbers() -> None:
    function = network("f32", (5,), little)
    x = np.random.default_rng(1).standard_normal((200, 5)).astype(np.float32)
    made, report = folded(function, x)
    need_integers(made)
    assert not inner_floats(made) and report.is_integer
    assert sorted(float_kinds(made)) == ["add", "broadcast", "broadcast", "broadcast", "convert", "mul", "mul"]


def test_a_float_that_is_planted_in_the_middle_is_named() -> None:
    def draw(a: Assembly, x: Node) -> Node:
        y = a.call("dense.dense", a.constant(np.ones((3, 3), np.int8), "b1"), x)
        y = a.label(a.op("sqrt", real(a, y)), "planted")
        y = a.op("round", a.op("sum", y), to="i8")
        return a.op("add", y, y)

    function = network("b1", (3,), draw)
    made, report = integer_only(function, LIBRARY)
    assert [each for each in report.inner if each == "planted"] and report.left
    with pytest.raises(BitternError, match="R142"):
        need_integers(made, {left.end: left.reason for left in report.left})


def test_floats_inside_a_callee_count() -> None:
    def draw(a: Assembly, x: Node) -> Node:
        y = a.op("convert", x, to="i32")
        z = a.call("quantisers.quantise_symmetric", real(a, y), a.constant(8, "u32"), mapped=(True, False))
        return a.op("add", a.items(z)[0], a.items(z)[0])

    function = network("i8", (4,), draw)
    assert {INNER} == set(float_roles(function).values())


def quantised_weights(a: Assembly, x: Node) -> Node:
    """Weights that the graph itself quantises, with a scale of each channel, and a bias made of other constants."""
    rng = np.random.default_rng(2)
    w = a.constant(rng.standard_normal((7, 9)).astype(np.float32), "f32")
    scale = a.constant((rng.random(7) * 0.2 + 0.05).astype(np.float32), "f32")
    spread = a.op("permute", a.op("broadcast", scale, shape=(9,)), axes=(1, 0))
    code = a.label(a.op("round", a.op("div", w, spread), to="i4"), "weights")
    y = a.call("dense.dense", code, x)
    shift = a.op("sqrt", a.op("mul", scale, scale))
    y = a.op("add", a.op("mul", real(a, y), a.spread(scale, y)), a.spread(shift, y))
    return a.op("sign", y, to="t")


@pytest.mark.req("C072")
def test_constants_go_through_quantisers() -> None:
    function = network("i4", (9,), quantised_weights)
    x = np.random.default_rng(0).integers(-8, 8, (100, 9)).astype(np.int8)
    made, report = folded(function, x)
    assert "weights" in report.constants and report.is_integer
    stored = [each for each in walk(made.result) if each.kind == "const" and isinstance(each.type, Tensor)]
    matrices = [each.type for each in stored if isinstance(each.type, Tensor) and len(each.type.shape) == 2]
    assert [each.element.name for each in matrices] == ["i4", "i32"]
    kept, report = folded(function, x, without=("constants",))
    assert not report.constants and "div" in kinds(kept)


def test_what_is_spread_over_the_batch_and_what_is_no_number_is_not_computed() -> None:
    def draw(a: Assembly, x: Node) -> Node:
        wide = a.spread(a.constant(2.0, "f32"), x)
        nothing = a.op("sqrt", a.constant([-1.0, -1.0], "f32"))
        return a.op("add", a.op("mul", x, wide), a.spread(nothing, x))

    made, names = fold_constants(network("f32", (2,), draw))
    assert not names and "broadcast" in kinds(made) and "sqrt" in kinds(made)


def convolutional(seed: int, element: str) -> Function:
    """A network of random shape: convolutions, pools, norms, quantisers, residual-free, and scores."""
    rng = np.random.default_rng(seed)

    def draw(a: Assembly, x: Node) -> Node:
        y = a.op("sign", a.scalar("sub", a.scalar("div", real(a, x), 127.5), 1.0), to="b1")
        for layer in range(2):
            assert isinstance(y.type, Tensor)
            c = y.type.shape[-1].constant
            pad = a.constant(1, y.type.element.name)
            for axis in (1, 2):
                y = a.op("pad", y, pad, axis=axis, before=1, after=1)
            w = rng.choice([-1, 0, 1], (5, 3, 3, c)).astype(np.int8)
            y = a.call("convolution.conv2d", a.constant(w, "t"), windows(a, y, 3, 1 + layer))
            y = norm(a, a.scalar("mul", real(a, y), 0.11), seed + layer)
            if layer == 0:
                y = a.call("pooling.max_pool2d", windows(a, y, 2, 2))
            y = a.scalar("mul", y, 2.0)
            y = a.op("sign" if element in ("b1", "t") else "round", y, to=element)
        total = a.call("pooling.sum_pool2d", windows(a, y, 2, 2))
        y = a.op("round", a.scalar("mul", real(a, total), 0.25), to="i8")
        assert isinstance(y.type, Tensor)
        batch, *rest = y.type.shape
        n = int(np.prod([size.constant or 0 for size in rest]))
        y = a.op("reshape", y, shape=(batch, n))
        y = a.call("dense.dense", a.constant(rng.integers(-127, 128, (10, n)).astype(np.int8), "i8"), y)
        return a.op("mul", real(a, y), row(a, rng.random(10).astype(np.float32), y))

    return network("u8", (8, 8, 2), draw)


def samples(count: int) -> Array:
    return np.random.default_rng(9).integers(0, 256, (count, 8, 8, 2)).astype(np.uint8)


@pytest.mark.req("C084")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("element", ["b1", "t", "u2", "i3", "u4", "i8"])
def test_whole_networks_keep_their_bits(element: str, seed: int) -> None:
    function = convolutional(seed, element)
    made, report = folded(function, samples(16))
    need_integers(made)
    assert len(report.folds) == 4 and not report.left and report.inputs == ()
    assert report.folds[1].pool == "behind the codes"
    assert [width.function for width in report.widths][-2:] == ["pooling.sum_pool2d", "dense.dense"]
    assert run(function, samples(2)).shape == (2, 10)
