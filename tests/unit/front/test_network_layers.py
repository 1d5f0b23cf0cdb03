"""Every kind of layer at all six widths, with random parameters, against plain loops; and faults that these catch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import layer_oracle as oracle
import numpy as np
import pytest
from layer_oracle import RANGES, Array

from bittern.front.network.activation import ACTIVATIONS
from bittern.front.network.builder import NetworkBuilder
from bittern.front.network.convolution import Conv2d
from bittern.front.network.dense import Dense
from bittern.front.network.draft import Drawn
from bittern.front.network.layers import LAYERS
from bittern.front.network.value import BinaryTensor, IndexTensor, InputTensor, IntTensor, TernaryTensor
from bittern.front.network.widths import SIX
from bittern.graph.evaluate import prepare
from bittern.lang.library import Library

LIBRARY = Library.standard()
Parts = Mapping[str, Mapping[str, Array]]  # layer -> name -> array
Expected = Callable[[Array, Parts, str], Array]

pytestmark = pytest.mark.req("C036")


def declared(width: Any, shape: list[int]) -> InputTensor:
    known = {"b1": BinaryTensor, "t": TernaryTensor}
    return known[width](shape) if width in known else IntTensor(width, shape)


def element_of(width: Any) -> str:
    return width if isinstance(width, str) else f"i{width}"


def kind_of(width: Any) -> str:
    return {"b1": "sign", "t": "ternary"}.get(width, "linear")


@dataclass(frozen=True)
class Case:
    """One layer. shape: of a sample. add: the layer to a builder, at a width. expected: the oracle for one sample."""

    shape: list[int]
    add: Callable[[NetworkBuilder, Any], NetworkBuilder]
    expected: Expected
    indices: int = 0


def _ends(width: Any) -> dict[str, Any]:
    return {"weights": width, "activation": kind_of(width), "bits": width}


def _after(layer: str, sums: Callable[[Array, Mapping[str, Array]], Array]) -> Expected:
    return lambda x, parts, e: oracle.quantised(sums(x, parts[layer]), parts[layer], e)


def _pads(x: Array, size: int, stride: int = 1, dilation: int = 1) -> list[tuple[int, int]]:
    return [oracle.same(n, size, stride, dilation) for n in x.shape[:-1]]


def _outside(e: str) -> int:
    return 1 if e == "b1" else 0


CASES: dict[str, Case] = {
    "dense": Case([17], lambda b, w: b.dense(17, 9, **_ends(w)), _after("dense_1", oracle.dense)),
    "dense at places": Case([3, 17], lambda b, w: b.dense(17, 5, **_ends(w)), _after("dense_1", oracle.dense)),
    "bias": Case(
        [17],
        lambda b, w: b.dense(17, 9, bias=True, **_ends(w)),
        _after("dense_1", lambda x, p: oracle.dense(x, p) + p["bias"]),
    ),
    "conv1d": Case(
        [11, 5],
        lambda b, w: b.conv1d(5, 6, 3, stride=2, dilation=2, **_ends(w)),
        _after("conv1d_1", lambda x, p: oracle.conv(x, p["weight"], 3, stride=2, dilation=2)),
    ),
    "conv2d same": Case(
        [6, 5, 3],
        lambda b, w: b.conv2d(3, 4, 3, padding="same", stride=2, **_ends(w)),
        lambda x, parts, e: oracle.quantised(
            oracle.conv(x, parts["conv2d_1"]["weight"], 3, stride=2, pads=_pads(x, 3, 2), value=_outside(e)),
            parts["conv2d_1"], e,
        ),
    ),
    "conv2d of 65 channels": Case(
        [2, 3, 65],
        lambda b, w: b.conv2d(65, 3, 2, **_ends(w)),
        _after("conv2d_1", lambda x, p: oracle.conv(x, p["weight"], 2)),
    ),
    "conv2d exact zeros": Case(
        [5, 4, 3],
        lambda b, w: b.conv2d(3, 4, 3, padding=((1, 2), (0, 1)), pad_with=0, **_ends(w)),
        _after("conv2d_1", lambda x, p: oracle.conv(x, p["weight"], 3, pads=[(1, 2), (0, 1)], value=0)),
    ),
    "conv2d padded by -1": Case(
        [5, 4, 3],
        lambda b, w: b.conv2d(3, 4, 3, padding=1, pad_with=-1, **_ends(w)),
        _after("conv2d_1", lambda x, p: oracle.conv(x, p["weight"], 3, pads=[(1, 1)] * 2, value=-1)),
    ),
    "conv2d grouped": Case(
        [5, 4, 6],
        lambda b, w: b.conv2d(6, 4, 3, groups=2, padding=1, pad_with=0, **_ends(w)),
        _after("conv2d_1", lambda x, p: oracle.grouped(x, p["weight"], 3, pads=[(1, 1)] * 2)),
    ),
    "conv1d grouped": Case(
        [7, 6],
        lambda b, w: b.conv1d(6, 9, 3, groups=3, padding=1, pad_with=0, **_ends(w)),
        _after("conv1d_1", lambda x, p: oracle.grouped(x, p["weight"], 3, pads=[(1, 1)])),
    ),
    "conv3d": Case(
        [3, 4, 3, 2],
        lambda b, w: b.conv3d(2, 3, 2, padding=1, pad_with=0, **_ends(w)),
        _after("conv3d_1", lambda x, p: oracle.conv(x, p["weight"], 2, pads=[(1, 1)] * 3)),
    ),
    "depthwise2d": Case(
        [5, 4, 6],
        lambda b, w: b.depthwise_conv2d(6, 3, padding=1, pad_with=0, stride=2, **_ends(w)),
        _after("depthwise_conv2d_1", lambda x, p: oracle.depthwise(x, p["weight"], 3, stride=2, pads=[(1, 1)] * 2)),
    ),
    "depthwise1d": Case(
        [7, 6],
        lambda b, w: b.depthwise_conv1d(6, 3, padding=1, pad_with=0, **_ends(w)),
        _after("depthwise_conv1d_1", lambda x, p: oracle.depthwise(x, p["weight"], 3, pads=[(1, 1)])),
    ),
    "local2d": Case(
        [4, 5, 3],
        lambda b, w: b.local_conv2d(3, 4, 3, padding=1, pad_with=0, stride=2, **_ends(w)),
        _after("local_conv2d_1", lambda x, p: oracle.local(x, p["weight"], 3, stride=2, pads=[(1, 1)] * 2)),
    ),
    "local1d": Case(
        [6, 3],
        lambda b, w: b.local_conv1d(3, 4, 3, padding=1, pad_with=0, **_ends(w)),
        _after("local_conv1d_1", lambda x, p: oracle.local(x, p["weight"], 3, pads=[(1, 1)])),
    ),
    "transposed2d": Case(
        [3, 4, 3],
        lambda b, w: b.transposed_conv2d(3, 4, 3, stride=2, padding=1, **_ends(w)),
        _after("transposed_conv2d_1", lambda x, p: oracle.transposed(x, p["weight"], 2, 1)),
    ),
    "transposed1d": Case(
        [5, 3],
        lambda b, w: b.transposed_conv1d(3, 4, 4, stride=3, **_ends(w)),
        _after("transposed_conv1d_1", lambda x, p: oracle.transposed(x, p["weight"], 3, 0)),
    ),
    "separable2d": Case(
        [4, 5, 3],
        lambda b, w: b.separable_conv2d(3, 4, 3, middle=kind_of(w), middle_bits=w, **_ends(w)),
        lambda x, parts, e: _separable(x, parts, e, "separable_conv2d_1"),
    ),
    "separable1d": Case(
        [7, 3],
        lambda b, w: b.separable_conv1d(3, 4, 3, middle=kind_of(w), middle_bits=w, **_ends(w)),
        lambda x, parts, e: _separable(x, parts, e, "separable_conv1d_1"),
    ),
    "batch norm": Case(
        [17],
        lambda b, w: b.dense(17, 9, weights=w).batch_norm(eps=1e-3).activation(kind_of(w), w),
        lambda x, parts, e: oracle.real_codes(
            oracle.batch_norm(oracle.dense(x, parts["dense_1"]), parts["batch_norm_1"], 1e-3), e
        ),
    ),
    "layer norm": Case(
        [2, 9], lambda b, w: b.layer_norm(bits=w), lambda x, parts, e: oracle.layer_norm(x, parts["layer_norm_1"], e)
    ),
    "group norm": Case(
        [2, 3, 6],
        lambda b, w: b.group_norm(2, bits=w),
        lambda x, parts, e: oracle.group_norm(x, parts["group_norm_1"], e, 2),
    ),
    "instance norm": Case(
        [3, 2, 4],
        lambda b, w: b.instance_norm(bits=w),
        lambda x, parts, e: oracle.group_norm(x, parts["instance_norm_1"], e, 4),
    ),
    "look-up": Case(
        [3, 9],
        lambda b, w: b.look_up(w),
        lambda x, parts, e: np.array(parts["look_up_1"]["table"])[x - RANGES[e][0]],
    ),
    "max pool 2d": Case(
        [5, 6, 3],
        lambda b, w: b.max_pool2d(3, padding=1, stride=2),
        lambda x, parts, e: oracle.max_pool(x, e, 3, stride=2, pads=[(1, 1)] * 2),
    ),
    "max pool 1d": Case(
        [7, 3], lambda b, w: b.max_pool1d(2), lambda x, parts, e: oracle.max_pool(x, e, 2, stride=2)
    ),
    "average pool 2d": Case(
        [5, 6, 3],
        lambda b, w: b.average_pool2d(2, padding=1, stride=1),
        lambda x, parts, e: oracle.average_pool(x, e, 2, pads=[(1, 1)] * 2),
    ),
    "average pool 1d": Case(
        [9, 3], lambda b, w: b.average_pool1d(3), lambda x, parts, e: oracle.average_pool(x, e, 3, stride=3)
    ),
    "stochastic pool": Case(
        [4, 6, 3],
        lambda b, w: b.stochastic_pool2d(2, seed=7),
        lambda x, parts, e: oracle.stochastic_pool(x, 2, 7),
    ),
    "global average": Case(
        [4, 3, 5],
        lambda b, w: b.global_average_pool(),
        lambda x, parts, e: np.array([oracle.mean(int(c.sum()), 12, e) for c in x.reshape(12, 5).T]),
    ),
    "global max": Case(
        [2, 2, 5], lambda b, w: b.global_max_pool(), lambda x, parts, e: x.reshape(4, 5).max(0)
    ),
    "lstm": Case(
        [4, 7],
        lambda b, w: b.lstm(7, 5, weights=w, bits=w, most=3, sequences=True),
        lambda x, parts, e: oracle.lstm(x, parts["lstm_1"], e, 3),
    ),
    "lstm's last state": Case(
        [3, 7],
        lambda b, w: b.lstm(7, 4, weights=w, bits=w, gate_levels=4),
        lambda x, parts, e: oracle.lstm(x, parts["lstm_1"], e, 8)[-1],
    ),
    "gru": Case(
        [4, 7],
        lambda b, w: b.gru(7, 5, weights=w, bits=w, sequences=True),
        lambda x, parts, e: oracle.gru(x, parts["gru_1"], e),
    ),
    "embedding": Case(
        [6],
        lambda b, w: b.embedding(10, 4, bits=w),
        lambda x, parts, e: parts["embedding_1"]["table"][np.minimum(x, 9)],
        indices=12,
    ),
    "residual": Case(
        [5],
        lambda b, w: b.residual(Dense(5, 5, weights=w), activation=kind_of(w), bits=w),
        lambda x, parts, e: oracle.quantised(
            oracle.dense(x, parts["residual_1.dense_1"]) + x, parts["residual_1"], e
        ),
    ),
    "residual projected": Case(
        [5, 6, 3],
        lambda b, w: b.residual(
            [Conv2d(3, 4, 3, padding="same", pad_with=0, stride=2, weights=w)], activation=kind_of(w), bits=w, weights=w
        ),
        lambda x, parts, e: oracle.quantised(
            oracle.conv(x, parts["residual_1.conv2d_1"]["weight"], 3, stride=2, pads=_pads(x, 3, 2))
            + oracle.conv(x, parts["residual_1.shortcut"]["weight"], 1, stride=2),
            parts["residual_1"], e,
        ),
    ),
    "residual padded": Case(
        [5, 6, 3],
        lambda b, w: b.residual(
            Conv2d(3, 6, 3, padding="same", pad_with=0, stride=2, weights=w), activation=kind_of(w), bits=w,
            matching="pad",
        ),
        lambda x, parts, e: oracle.quantised(
            oracle.conv(x, parts["residual_1.conv2d_1"]["weight"], 3, stride=2, pads=_pads(x, 3, 2))
            + np.pad(x[::2, ::2], [(0, 0), (0, 0), (1, 2)]),
            parts["residual_1"], e,
        ),
    ),
    "branches": Case(
        [6],
        lambda b, w: b.branches([Dense(6, 4, **_ends(w)), [Dense(6, 3, **_ends(w))]]),
        lambda x, parts, e: np.concatenate(
            [oracle.quantised(oracle.dense(x, parts[name]), parts[name], e)
             for name in ("branches_1.dense_1", "branches_1.dense_2")]
        ),
    ),
    "vanishing": Case(
        [2, 3], lambda b, w: b.dropout(0.3).spatial_dropout().drop_path(0.1).bit_flip_noise(0.01).flatten(),
        lambda x, parts, e: x.reshape(6),
    ),
    "arranging": Case(
        [2, 3, 2], lambda b, w: b.pad(1, 1).upsample((2, 1)).permute([1, 0, 2]).reshape([10, 8]),
        lambda x, parts, e: np.pad(x, [(1, 1), (1, 1), (0, 0)], constant_values=1).repeat(2, 0).transpose(1, 0, 2)
        .reshape(10, 8),
    ),
}  # fmt: skip


DULL = {  # too few values, or a maximum of many, to differ
    *[("global max", width) for width in SIX],
    *[(name, "b1") for name in ("look-up", "max pool 2d", "stochastic pool")],
    *[(name, "t") for name in ("global average", "conv2d of 65 channels")],
}


def _separable(x: Array, parts: Parts, e: str, name: str) -> Array:
    first, second = parts[f"{name}.depthwise"], parts[f"{name}.pointwise"]
    middle = oracle.quantised(oracle.depthwise(x, first["weight"], 3), first, e)
    return oracle.quantised(oracle.dense(middle, second), second, e)


for _kind in ACTIVATIONS:
    CASES[f"activation {_kind}"] = Case(
        [2, 17],
        lambda b, w, kind=_kind: b.dense(17, 9, weights=w).activation(kind, w),  # type: ignore[misc]
        lambda x, parts, e, kind=_kind: oracle.activated(  # type: ignore[misc]
            oracle.dense(x, parts["dense_1"]), kind, parts["activation_1"],
            e.replace("i", "u") if kind == "relu" else e,
        ),
    )  # fmt: skip


def randomised(drawn: Drawn, seed: int) -> dict[str, Array]:
    """Return other arrays for all parameters: codes of their whole range, thresholds and factors around the initial."""
    rng = np.random.default_rng(seed)
    made = {}
    for path, first in drawn.parameters.items():
        name = path.rpartition(".")[2]
        far = int(np.abs(first).max(initial=0)) if first.dtype.kind != "f" else 0
        if first.dtype.kind == "f":
            made[path] = (first * rng.uniform(0.5, 2, first.shape) + rng.normal(0, 0.3, first.shape)).astype(np.float32)
            made[path] = np.abs(made[path]) + 0.5 if name == "variance" else made[path]
        elif name == "falling":
            made[path] = rng.random(first.shape) < 0.3
        elif name in ("weight", "recurrent", "table"):
            made[path] = rng.permutation(first.reshape(-1)).reshape(first.shape)
        elif name in ("knots", "weights_of_scores"):
            made[path] = first
        elif name.endswith("shift"):
            made[path] = first.astype(np.int64)
        elif name.endswith("multiplier"):
            made[path] = np.rint(first * rng.uniform(0.5, 1.5, first.shape)).astype(np.int64)
        else:  # thresholds, biases, offsets
            made[path] = first + rng.integers(-max(3, far // 2), max(3, far // 2) + 1, first.shape)
    return made


def of_parts(arrays: Mapping[str, Array]) -> dict[str, dict[str, Array]]:
    parts: dict[str, dict[str, Array]] = {}
    for path, array in arrays.items():
        layer, _, name = path.rpartition(".")
        parts.setdefault(layer, {})[name] = array.astype(np.int64) if array.dtype.kind in "iub" else array
    return parts


def inputs_of(drawn: Drawn, case: Case, rows: int, seed: int) -> Array:
    port, rng = drawn.network.inputs[0], np.random.default_rng(seed)
    if case.indices:
        return rng.integers(0, case.indices, (rows, *port.shape)).astype(np.uint32)
    low, high = RANGES[port.element.name]
    drawn_ = rng.integers(low, high + 1, (rows, *port.shape))
    return (np.where(drawn_ >= 0, 1, -1) if port.element.name == "b1" else drawn_).astype(port.element.storage)


def built(case: Case, width: Any) -> tuple[Drawn, dict[str, Array]]:
    tensor = IndexTensor([4, *case.shape]) if case.indices else declared(width, [4, *case.shape])
    network = case.add(NetworkBuilder().input(tensor), width)
    arrays = randomised(network.declared(library=LIBRARY), seed=len(case.shape))
    return network.declared(arrays=arrays, library=LIBRARY), arrays


@pytest.mark.parametrize("width", SIX, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_a_layer_is_what_plain_loops_compute(name: str, width: Any) -> None:
    case = CASES[name]
    drawn, arrays = built(case, width)
    x = inputs_of(drawn, case, 2, seed=3)
    found = prepare(drawn.network.function, (len(x),))(x)
    parts = of_parts(arrays)
    if (name, width) not in DULL:
        assert len(np.unique(found)) > 1, "all alike: the case shows nothing"
    for row, sample in zip(found, x, strict=True):
        expected = case.expected(sample.astype(np.int64), parts, element_of(width))
        np.testing.assert_array_equal(row, expected)


@pytest.mark.parametrize("width", SIX, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_what_plain_loops_compute(width: Any, causal: bool) -> None:
    """Self-attention of three heads with relative positions; projections are dense layers."""
    builder = NetworkBuilder().input(declared(width, [1, 5, 6]))
    names = {"weights": width, "inner_bits": width, "distance": 2, "causal": causal}
    network = builder.multi_head_attention(6, 3, activation=kind_of(width), bits=width, **names)
    arrays = randomised(network.declared(library=LIBRARY), seed=1)
    drawn = network.declared(arrays=arrays, library=LIBRARY)
    parts, e = of_parts(arrays), element_of(width)
    x = inputs_of(drawn, CASES["dense"], 2, seed=4)
    found = prepare(drawn.network.function, (2,))(x)
    for row, sample in zip(found, x.astype(np.int64), strict=True):
        q, k, v = (_dense(sample, parts[f"multi_head_attention_1.{name}"], e) for name in ("query", "key", "value"))
        heads = oracle.attention(
            q, k, v, parts["multi_head_attention_1.heads"], e, heads=3, causal=causal, distance=2, shift=_shift(e)
        )
        np.testing.assert_array_equal(row, _dense(heads, parts["multi_head_attention_1.output"], e))


def _dense(x: Array, p: Mapping[str, Array], e: str) -> Array:
    return oracle.quantised(oracle.dense(x, p), p, e)


def _shift(e: str) -> int:
    """Return the step of scores: a power of two near an eighth of their expected root mean square."""
    rms = 1.0 if e == "b1" else max(1.0, -RANGES[e][0] / 3**0.5)
    return max(0, round(float(np.log2(max(1.0, 2**0.5 * rms * rms / 8)))))


def test_every_layer_of_the_table_has_a_case() -> None:
    """A new row of the table of layers is tested here, or in the file named."""
    elsewhere = {"add", "concat", "custom", "attention"}  # test_network_builder
    source = "".join(Path(__file__).read_text("utf-8").split())
    assert not [word for word in LAYERS if f".{word}(" not in source and word not in elsewhere]


# --- planted faults: what is computed otherwise is caught


def _differs(name: str, width: Any, **changed: Any) -> bool:
    """Whether the case's own oracle sees that a layer was declared otherwise than the case says."""
    case = CASES[name]
    drawn, arrays = built(case, width)
    port = drawn.network.inputs[0]
    builder = NetworkBuilder().input(declared(width, [4, *port.shape]))
    other = changed["add"](builder).declared(arrays=changed.get("arrays", lambda a: a)(arrays), library=LIBRARY)
    x = inputs_of(drawn, case, 8, seed=3)
    found = prepare(other.network.function, (8,))(x)
    parts = of_parts(arrays)
    expected = [case.expected(sample.astype(np.int64), parts, element_of(width)) for sample in x]
    return not np.array_equal(found, expected)


def _turned(arrays: dict[str, Array]) -> dict[str, Array]:
    return {path: array[:, ::-1] if path.endswith(".weight") else array for path, array in arrays.items()}


def _gates(arrays: dict[str, Array]) -> dict[str, Array]:
    return {path: array[::-1] if path.endswith(".weight") else array for path, array in arrays.items()}


def _moved(arrays: dict[str, Array]) -> dict[str, Array]:
    return {path: array + 1 if path.endswith("threshold") else array for path, array in arrays.items()}


@pytest.mark.parametrize(
    ("name", "width", "changed"),
    [
        (
            "conv2d same",
            "b1",
            {"add": lambda b: b.conv2d(3, 4, 3, padding="same", stride=2, pad_with=-1, **_ends("b1"))},
        ),
        ("conv2d exact zeros", "b1", {"add": lambda b: b.conv2d(3, 4, 3, padding=((1, 2), (0, 1)), **_ends("b1"))}),
        ("conv2d exact zeros", 4, {"add": lambda b: b.conv2d(3, 4, 3, padding=((2, 1), (0, 1)), **_ends(4))}),
        ("conv1d", "t", {"add": lambda b: b.conv1d(5, 6, 3, stride=2, dilation=2, **_ends("t")), "arrays": _turned}),
        ("dense", "b1", {"add": lambda b: b.dense(17, 9, **_ends("b1")), "arrays": _moved}),
        ("average pool 2d", 3, {"add": lambda b: b.average_pool2d(2, padding=1, stride=1, pad_with=1)}),
        ("stochastic pool", 8, {"add": lambda b: b.stochastic_pool2d(2, seed=8)}),
        ("max pool 2d", 2, {"add": lambda b: b.max_pool2d(3, padding=1, stride=2, pad_with=1)}),
        ("lstm", 4, {"add": lambda b: b.lstm(7, 5, weights=4, bits=4, most=3, sequences=True), "arrays": _gates}),
        ("gru", "b1", {"add": lambda b: b.gru(7, 5, weights="b1", bits="b1", sequences=True), "arrays": _gates}),
        ("batch norm", 8, {"add": lambda b: b.dense(17, 9, weights=8).batch_norm(eps=1e6).activation("linear", 8)}),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_planted_fault_is_caught(name: str, width: Any, changed: dict[str, Any]) -> None:
    assert _differs(name, width, **changed)
