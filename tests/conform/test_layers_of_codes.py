"""Every kind of discrete layer at all six widths: as machine code without a kernel of its own, the evaluator's bits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from generic_cases import arguments, differences, expected, memory, results

from bittern.bitops.verify import faults
from bittern.chips.x86.compile import compile_kernel
from bittern.chips.x86.features import TIERS, is_here, read
from bittern.chips.x86.run import run_kernel
from bittern.kernels.generic import frames
from bittern.kernels.generic.lower import lower
from bittern.lang.library import Library

pytestmark = pytest.mark.skipif(not is_here(), reason="no x86-64 processor here: machine code cannot run")

LIBRARY = Library.standard()
WIDTHS = ("b1", "t", "i2", "i3", "i4", "i8")
SIGNS = ("b1", "t")


@dataclass(frozen=True)
class Kind:
    """A function and its dimensions. elements: which parameters have the width. signs: the functions for b1 and t where
    the first one is for integers; overloaded: whether these are forms of one name.
    """

    name: str
    dims: Sequence[int]
    elements: str = "ae"
    signs: Mapping[str, tuple[str, Sequence[int]]] | None = None
    overloaded: bool = False


THRESHOLDS = {"b1": ("thresholds.sign_at", (33,)), "t": ("thresholds.ternary_at", (33,))}
COUNTED = {"b1": ("norms_of_codes.coded_signs", (33,)), "t": ("norms_of_codes.coded_ternary", (33,))}
CODED = {"b1": ("piecewise.look_up", (3, 33)), "t": ("piecewise.look_up", (3, 33))}
SUMS = {"b1": ("pooling.sum_pool2d", (2, 3, 2, 2, 33)), "t": ("pooling.sum_pool2d", (2, 3, 2, 2, 33))}

KINDS = {
    "dense": Kind("dense.dense", (5, 65)),
    "matmul": Kind("matmul.matmul", (3, 33, 4)),
    "transposed product": Kind("matmul.matmul_transposed", (3, 33, 4)),
    "blocked product": Kind("matmul.matmul_blocked", (11, 3, 33, 4)),
    "conv1d": Kind("convolution.conv1d", (4, 3, 33, 3)),
    "conv2d": Kind("convolution.conv2d", (3, 3, 2, 3, 33, 3)),
    "conv3d": Kind("convolution.conv3d", (2, 2, 2, 2, 2, 3, 5, 3)),
    "depthwise1d": Kind("convolution.depthwise1d", (4, 3, 33)),
    "depthwise2d": Kind("convolution.depthwise2d", (3, 3, 2, 3, 33)),
    "grouped1d": Kind("convolution.conv1d_grouped", (4, 3, 3, 5, 2)),
    "grouped2d": Kind("convolution.conv2d_grouped", (2, 3, 2, 3, 3, 5, 2)),
    "local1d": Kind("convolution.local1d", (4, 3, 17, 2)),
    "local2d": Kind("convolution.local2d", (2, 3, 2, 3, 17, 2)),
    "pointwise": Kind("convolution.pointwise2d", (2, 3, 33, 4)),
    "transposed1d": Kind("convolution.transposed1d", (2, 4, 3, 9, 2)),
    "transposed2d": Kind("convolution.transposed2d", (2, 3, 2, 3, 2, 9, 2)),
    "greatest": Kind("pooling.max_pool2d", (2, 3, 2, 2, 33), "e", overloaded=True),
    "average": Kind("pooling.average_pool2d", (2, 3, 2, 2, 33), "e", SUMS),
    "stochastic": Kind("pooling.stochastic_pool2d", (2, 3, 2, 2, 9), "e", SUMS),
    "thresholds": Kind("thresholds.levels", (33, 3), "e", THRESHOLDS),
    "layer norm": Kind("norms_of_codes.layer_counts", (33, 3), "e"),
    "group norm": Kind("norms_of_codes.group_counts", (3, 2, 9, 3), "e"),
    "instance norm": Kind("norms_of_codes.instance_counts", (5, 9, 3), "e"),
    "counts": Kind("norms_of_codes.coded", (33,), "e", COUNTED),
    "relu": Kind("piecewise.relu_codes", (33,), "e", CODED),
    "hard tanh": Kind("piecewise.clamp_codes", (33,), "e", CODED),
    "look-up": Kind("piecewise.look_up", (16, 33), "ed", CODED),
    "residual": Kind("residual.residual_sum", (33,)),
    "projected residual": Kind("residual.residual_projected", (5, 33), "aed"),
    "embedding": Kind("embedding.embedding", (9, 33, 4), "e"),
    "attention": Kind("attention_of_codes.multi_head_attention_of_codes", (3, 4, 2, 17, 5, 16), "aef"),
    "relative keys": Kind("attention_of_codes.relative_scores", (3, 4, 5, 17)),
    "lstm": Kind("recurrent.lstm", (3, 5, 9, 4, 3, 3), "aef", overloaded=True),
    "gru": Kind("recurrent.gru", (3, 5, 9, 4, 3), "aef", overloaded=True),
}


def wrong(kind: Kind, width: str) -> int:
    """How many values are wrong at a width."""
    name, dims, overload = kind.name, tuple(kind.dims), None
    elements = dict.fromkeys(kind.elements, width)
    if width in SIGNS and kind.signs:
        name, dims = kind.signs[width]
        elements = {"e": "i2", "d": width} if name == "piecewise.look_up" else {"e": width}
    if width in SIGNS and kind.overloaded:
        overload = width
    function = LIBRARY.function(name, elements=elements, overload=overload)
    lowered = lower(function, tuple(dims))
    assert faults(lowered.kernel) == []
    compiled = compile_kernel(lowered.kernel, [tier for tier in TIERS if tier.features <= read()][-1])
    given = arguments(function, tuple(dims), 1)
    held = memory(lowered, given)
    run_kernel(compiled, (), held)
    return differences(results(lowered, held), expected(function, given, tuple(dims)))


@pytest.mark.req("C025", "C036")
@pytest.mark.parametrize("kind", KINDS)
def test_every_width(kind: str) -> None:
    for width in WIDTHS:
        assert wrong(KINDS[kind], width) == 0, width


def test_a_wrong_product_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = frames.VIEWED["dot"]
    monkeypatch.setitem(frames.VIEWED, "dot", lambda c, w, x, y: right(c, w, x, x))
    assert wrong(KINDS["dense"], "i4") > 0
