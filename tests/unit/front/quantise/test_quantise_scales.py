"""Scales against brute force: every method, every width, with and without zero points, and what has no numbers."""

import math

import numpy as np
import pytest
from quantise_cases import bell, matrix, printed_everywhere

from bittern.base.errors import BitternError
from bittern.front.quantise import scales as module
from bittern.front.quantise.codes import Scheme, nearest_codes, scales_of, sqnr, values_of
from bittern.front.quantise.samples import Counter, samples
from bittern.front.quantise.scales import METHODS, TINY, Scale, fit
from bittern.front.quantise.widths import WIDTHS, Grid, grid, width

GRIDS = [grid(row, symmetric) for row in WIDTHS.values() for symmetric in (True, False) if symmetric or row.unsigned]


def error(x: np.ndarray, scale: float, zero: int, of: Grid) -> float:
    """The squared error of the nearest codes, one value after another."""
    total = 0.0
    for value in x:
        code = min(max(round(float(value) / scale) + zero, of.low), of.high)
        total += (float(value) - scale * (code - zero)) ** 2
    return total


def data(seed: int, count: int = 60) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = bell(rng, count)
    return x if seed % 3 else np.abs(x) + np.float32(0.25)


@pytest.mark.req("C080")
@pytest.mark.parametrize("of", GRIDS, ids=str)
def test_the_least_squared_error_beats_a_dense_search(of: Grid) -> None:
    """Brute force: no scale and zero point of a dense search has a smaller error."""
    if of.signs:
        return
    for seed in range(4):
        x = data(seed, 24)
        found = fit(samples(x), of, "mse")
        own = error(x, found.scale, found.zero, of)
        largest = float(np.abs(x).max())
        zeros = [0] if of.symmetric else range(of.low, of.high + 1, max(1, (of.high - of.low) // 15))
        least = min(
            error(x, largest * i / 400 / max(1, of.high), zero, of)
            for zero in [*zeros, found.zero]
            for i in range(2, 440, 3 if of.high > 15 else 1)
        )
        assert own <= least * (1 + 1e-6), (seed, found, own, least)


def plain_divergence(x: np.ndarray, cut: int, bins: int, levels: int) -> float:
    """Relative entropy of a cut histogram and its codes, one bin after another."""
    largest = float(np.abs(x).max())
    counts = [0] * bins
    for value in x:
        if value:
            counts[min(int(abs(float(value)) * (bins / largest)), bins - 1)] += 1
    kept, outside = counts[:cut], sum(counts[cut:])
    coded = [0.0] * cut
    for level in range(levels):
        own = [i for i in range(cut) if i * levels // cut == level and kept[i]]
        for i in own:
            coded[i] = sum(kept[j] for j in own) / len(own)
    true = [*kept[:-1], kept[-1] + outside]
    total, held = sum(true), sum(kept)
    loss = 0.0
    for p, q in zip(true, coded, strict=True):
        if p and not q:
            return math.inf
        loss += p / total * math.log((p / total) / (q / held)) if p else 0.0
    return loss


@pytest.mark.req("C080")
@pytest.mark.parametrize("name", ["3", "4"])
def test_the_least_divergence_is_that_of_all_cuts(name: str) -> None:
    """Brute force: the histogram of every cut, one bin after another."""
    of = grid(width(name))
    for seed in (1, 2, 4):
        x = data(seed, 400)
        x[:2] *= 4
        bins = 512
        losses = {cut: plain_divergence(x, cut, bins, of.high + 1) for cut in range(of.high + 1, bins + 1)}
        found = fit(samples(x), of, "kl")
        largest = float(np.abs(x).max())
        cut = round(found.scale * of.high / largest * bins)
        assert losses[cut] <= min(losses.values()) * 1.05 + 1e-9, (seed, cut, losses[cut], min(losses.values()))


@pytest.mark.req("C078")
@pytest.mark.parametrize("of", GRIDS, ids=str)
def test_max_reaches_over_all_values(of: Grid) -> None:
    if of.signs:
        return
    for seed in range(6):
        x = data(seed)
        found = fit(samples(x), of, "max")
        worst = max(abs(float(v) - found.scale * (c - found.zero)) for v, c in zip(x, plain(x, found, of), strict=True))
        assert worst <= found.scale * 0.5001
        assert found.zero == 0 if of.symmetric else of.low <= found.zero <= of.high
        if not of.symmetric and x.min() >= 0:
            assert found.zero == 0


def plain(x: np.ndarray, found: Scale, of: Grid) -> list[int]:
    return [min(max(round(float(np.float32(v) / np.float32(found.scale))) + found.zero, of.low), of.high) for v in x]


def test_percentiles_are_order_statistics() -> None:
    x = np.arange(1, 1001, dtype=np.float32)
    for percent, wanted in ((99, 990), (99.9, 999), (100, 1000), (50, 500), (99.95, 1000)):
        assert fit(samples(x), grid(width("8")), "percentile", percent).scale == np.float32(wanted / 127)
    both = np.concatenate((x, -x[:500]))
    found = fit(samples(both), grid(width("8"), False), "percentile", 90)
    low, high = -sorted(-both)[math.ceil(1500 * 0.95) - 1], sorted(both)[math.ceil(1500 * 0.95) - 1]
    assert found.scale == np.float32((float(high) - float(low)) / 255)


def test_binary_scales_are_the_mean_magnitude() -> None:
    x = np.array([1, -2, 3, 0], np.float32)
    for method in METHODS:
        assert fit(samples(x), grid(width("b1")), method) == Scale(1.5, 0)
    assert fit(samples(np.zeros(3)), grid(width("b1"))) == Scale(TINY, 0)


@pytest.mark.parametrize("of", GRIDS, ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_zeros_tiny_huge_and_single_values(of: Grid, method: str) -> None:
    for x in (np.zeros(5), np.full(5, 1e-44), np.full(5, 3e38), np.array([-3e38, 3e38]), np.array([0, 0, 0, 7.0])):
        found = fit(samples(x.astype(np.float32)), of, method)
        assert np.isfinite(found.scale) and found.scale > 0 and of.low <= found.zero <= of.high
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(BitternError, match="an infinity or a NaN") as caught:
            fit(samples(np.array([1, bad])), of, method)
        assert caught.value.code == "N413"


def test_names_that_do_not_exist() -> None:
    with pytest.raises(BitternError, match="`maxx` is no way") as caught:
        fit(samples(np.ones(2)), GRIDS[0], "maxx")
    assert caught.value.code == "N414" and "`max`" in caught.value.remedy
    with pytest.raises(BitternError, match="`16` is no width") as caught:
        width("16")
    assert caught.value.code == "N411"
    with pytest.raises(BitternError, match="symmetric codes only") as caught:
        grid(width("t"), False)
    assert caught.value.code == "N412"
    for wrong in ("row", "0", "-4", "1.5", "9" * 20):
        with pytest.raises(BitternError, match="how many weights share a scale") as caught:
            scales_of(np.ones((2, 4)), Scheme(width("4"), granularity=wrong))
        assert caught.value.code == "N415"


@pytest.mark.req("C078")
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("granularity", ["tensor", "channel", "8", "7"])
@pytest.mark.parametrize("name", ["2", "3", "4", "8"])
def test_granularities_are_the_same_rule_on_parts(name: str, granularity: str, symmetric: bool) -> None:
    x = matrix(5, 6, 24)
    scheme = Scheme(width(name), symmetric, granularity)
    found = scales_of(x, scheme)
    values = values_of(nearest_codes(x, found, scheme.grid), found)
    size = int(granularity) if granularity.isdecimal() else 24
    for row in range(6):
        for low in range(0, 24, size):
            part = x if granularity == "tensor" else x[row, low : low + size]
            own = fit(samples(part), scheme.grid)
            wanted = [own.scale * (c - own.zero) for c in plain(x[row, low : low + size], own, scheme.grid)]
            assert np.allclose(values[row, low : low + size], wanted, rtol=1e-6, atol=0)


@pytest.mark.req("C013")
def test_finer_scales_lose_less() -> None:
    x = matrix(6, 8, 64)
    for name in ("2", "3", "4", "8"):
        ratios = []
        for granularity in ("tensor", "channel", "8"):
            scheme = Scheme(width(name), granularity=granularity, method="mse")
            found = scales_of(x, scheme)
            ratios.append(sqnr(x, values_of(nearest_codes(x, found, scheme.grid), found)) or 0)
        assert ratios == sorted(ratios), (name, ratios)


@pytest.mark.req("C078", "C079")
def test_codes_are_those_of_onnx_runtime() -> None:
    """Oracle: QuantizeLinear per tensor and channel, signed and unsigned, and DynamicQuantizeLinear."""
    ort, onnx = pytest.importorskip("onnxruntime"), pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    x = matrix(7, 5, 40)
    for symmetric, kind in ((True, TensorProto.INT8), (False, TensorProto.UINT8)):
        for granularity in ("tensor", "channel"):
            scheme = Scheme(width("8"), symmetric, granularity)
            found = scales_of(x, scheme)
            node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=0)
            shape = [] if granularity == "tensor" else [5]
            inputs = [helper.make_tensor_value_info("x", 1, [5, 40]), helper.make_tensor_value_info("s", 1, shape)]
            inputs.append(helper.make_tensor_value_info("z", kind, shape))
            graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("q", kind, None)])
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
            given = {"x": x, "s": found.scale.reshape(shape), "z": found.zero.reshape(shape)}
            given["z"] = given["z"].astype(np.int8 if symmetric else np.uint8)
            (theirs,) = ort.InferenceSession(model.SerializeToString()).run(None, given)
            low = -128 if symmetric else 0
            assert np.array_equal(
                theirs, np.clip(nearest_codes(x, found, Grid(low, low + 255, symmetric)), low, low + 255)
            )
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])
    outputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in (("q", 2), ("s", 1), ("z", 2))]
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", 1, None)], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    codes, scale, zero = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    scheme = Scheme(width("8"), False, "tensor")
    own = scales_of(x, scheme)
    assert (own.scale.item(), own.zero.item()) == (scale.item(), zero.item())
    assert np.array_equal(nearest_codes(x, own, scheme.grid), codes)
    assert onnx is not None


@pytest.mark.req("C079")
def test_counted_activations_give_the_scales_of_the_values() -> None:
    """Static scales are found from batches that are seen one after another."""
    rng = np.random.default_rng(8)
    batches = [bell(rng, 50, 7) for _ in range(5)]
    counter = Counter()
    for batch in batches:
        counter.look(batch)
    for batch in batches:
        counter.count(batch)
    every = np.concatenate(batches)
    for of in GRIDS:
        for method in ("max", "mse", "percentile"):
            exact, counted = fit(samples(every), of, method, 99), fit(counter.samples(), of, method, 99)
            assert abs(exact.scale / counted.scale - 1) < 0.03 and abs(exact.zero - counted.zero) <= 1
    empty = Counter()
    empty.look(np.zeros(4))
    empty.count(np.zeros(4))
    assert empty.samples().total == 4 and fit(empty.samples(), GRIDS[2]) == Scale(1.0, 0)


def test_the_same_scales_everywhere() -> None:
    """EDGE_CASES B18: scales do not depend on the machine."""
    program = """
from quantise_cases import matrix
from bittern.front.quantise.codes import Scheme, scales_of
from bittern.front.quantise.scales import METHODS
from bittern.front.quantise.widths import WIDTHS
for row in WIDTHS.values():
    for method in METHODS:
        print(scales_of(matrix(9, 4, 300), Scheme(row, method=method)).scale.tobytes().hex())
"""
    assert len(printed_everywhere(program)) == 1


@pytest.mark.parametrize(
    ("name", "wrong", "check"),
    [
        ("_best_scale", lambda s, b, a: (1.0, float(np.abs(s.values).max()) / max(b, a, 1)), "mse"),
        ("_divergence", lambda counts, cut, levels: float(cut), "kl"),
        ("_ranked", lambda values, counts, share: float(values[-1]), "percentile"),
    ],
)
def test_planted_faults_are_seen(monkeypatch: pytest.MonkeyPatch, name: str, wrong: object, check: str) -> None:
    monkeypatch.setattr(module, name, wrong)
    checks = {
        "mse": lambda: test_the_least_squared_error_beats_a_dense_search(grid(width("3"))),
        "kl": lambda: test_the_least_divergence_is_that_of_all_cuts("4"),
        "percentile": test_percentiles_are_order_statistics,
    }
    with pytest.raises(AssertionError):
        checks[check]()
