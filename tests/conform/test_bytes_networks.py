"""Networks of 8-bit layers: plans cover each layer by one kernel, and every tier gives the bits of the definitions."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from x86_kernels import NAMES, tier_of

from bittern.chips.x86.cut import Cut, input_bytes
from bittern.chips.x86.function import X86Function
from bittern.chips.x86.threads import Crew
from bittern.chips.x86.weights import aligned
from bittern.front.network.assembly import Assembly
from bittern.front.network.network import Network
from bittern.graph.evaluate import evaluate
from bittern.graph.node import Node
from bittern.lang.library import Library
from bittern.plan.plan import Plan
from bittern.plan.planner import plan_of
from bittern.plan.rules import KNOWN, RULES
from bittern.types.values import Tensor

LIBRARY = Library.standard()
BEST = NAMES[-1]
Array = np.ndarray[Any, Any]


class Layers:
    """Layers of random numbers, as importers make them."""

    def __init__(self, a: Assembly, seed: int) -> None:
        self.a, self.rng = a, np.random.default_rng(seed)

    def weights(self, *shape: int, element: str = "i8") -> Node:
        bits = int(element[1:]) if element[1:].isdigit() else 8
        return self.a.constant(self.rng.integers(-(1 << bits - 1), 1 << bits - 1, shape), element)

    def windows(self, x: Node, size: int, stride: int = 1, dilation: int = 1, pad: int | None = None) -> Node:
        """Return [b, h, w, c] as [b, o, p, v, q, c]."""
        if pad is not None:
            reach = (size - 1) * dilation
            for axis in (1, 2):
                filler = self.a.constant(pad, _element(x))
                x = self.a.op("pad", x, filler, axis=axis, before=reach // 2, after=reach - reach // 2)
        for axis in (1, 3):
            x = self.a.op("windows", x, axis=axis, size=size, stride=stride, dilation=dilation)
        return x

    def ended(self, acc: Node, rule: str, element: str = "i8", low: int = -128, spread: int = 9) -> Node:
        """Return codes of sums: a bias, then an output stage."""
        m = _shape(acc)[-1]
        lead = len(_shape(acc)) - 1
        acc = self.a.call("requantise.bias", acc, self.a.constant(self.rng.integers(-2000, 2000, m), "i32"), lead=lead)
        multiplier = self.a.constant(self.rng.integers(1 << 30, 1 << 31, m), "i32")
        shifts = self.rng.integers(spread - 1, spread + 1, m)
        high = {"i8": 127, "u8": 200, "i4": 7}[element]
        zero = low if low in (-100, 0) else -5
        is_twice = rule == "tflite.rescale"
        shift = self.a.constant(-shifts, "i32") if is_twice else self.a.constant(shifts + 31, "u32")
        return self.a.call(rule, acc, multiplier, shift, zero, low, high, lead=lead, elements={"e": element})


def _shape(x: Node) -> tuple[int, ...]:
    assert isinstance(x.type, Tensor)
    return tuple(size.constant or 0 for size in x.type.shape)


def _element(x: Node) -> str:
    assert isinstance(x.type, Tensor)
    return x.type.element.name


def _first(a: Assembly, x: Node, layers: Layers) -> Node:
    """Convolutions of all kinds, a depthwise one, a sum, pools and a dense layer."""
    y = layers.ended(
        a.call("convolution.conv2d", layers.weights(5, 3, 3, 3), layers.windows(x, 3, pad=-7)), "tflite.rescale"
    )
    z = a.call("convolution.depthwise2d", layers.weights(3, 3, 5), layers.windows(y, 3, pad=-5))
    z = layers.ended(z, "tflite.rescale", low=-100, spread=7)
    factors = (20, -5, 1 << 30, 0, -100, 1717986918, 0, 1431655765, -18)
    z = a.call("tflite.add", y, z, *factors, 4, -128, 127, lead=3)
    z = a.call("pooling.max_pool2d", layers.windows(z, 2, 2))
    z = layers.ended(a.call("convolution.conv2d", layers.weights(7, 1, 1, 5), layers.windows(z, 1)), "tflite.rescale")
    z = a.call("tflite.requantise", z, -5, 1288490188, 1, 3, -128, 120, lead=3, elements={"e": "i8"})
    z = a.call(
        "tflite.average", a.call("pooling.sum_pool2d", layers.windows(z, 3)), 9, -120, 127, lead=3, elements={"e": "i8"}
    )
    z = a.op("reshape", z, shape=(*_batch(z), 7))
    return layers.ended(a.call("dense.dense", layers.weights(11, 7), z), "tflite.rescale", spread=7)


def _second(a: Assembly, x: Node, layers: Layers) -> Node:
    """One rounding, grouped and dilated windows, weights of 4 bits, unsigned codes, and sums as they are."""
    y = a.call("convolution.conv2d", layers.weights(8, 3, 3, 3, element="i4"), layers.windows(x, 3, 1, 2))
    y = layers.ended(y, "requantise.requantise", element="u8", low=0, spread=4)
    y = layers.windows(y, 2, 2, pad=9)
    y = a.op("reshape", y, shape=(*_batch(y), *_shape(y)[1:-1], 2, 4))
    y = a.call("convolution.conv2d_grouped", layers.weights(2, 3, 2, 2, 4), y)
    y = a.op("reshape", y, shape=(*_batch(y), *_shape(y)[1:-2], 6))
    y = layers.ended(y, "requantise.requantise", element="i4", low=-8, spread=11)
    y = a.op("reshape", y, shape=(*_batch(y), int(np.prod(_shape(y)[1:]))))
    return a.call("dense.dense", layers.weights(5, _shape(y)[-1]), y)


def _batch(x: Node) -> tuple[Any, ...]:
    assert isinstance(x.type, Tensor)
    return (x.type.shape[0],)


def _stem(a: Assembly, x: Node, layers: Layers) -> Node:
    """A first layer of many channels that sees few: rows of 9 values fill groups of 4 badly."""
    y = layers.windows(x, 3, pad=-7)
    return layers.ended(a.call("convolution.conv2d", layers.weights(200, 3, 3, 3), y), "tflite.rescale")


def _lines(a: Assembly, x: Node, layers: Layers) -> Node:
    """What passes make of chains of floats: sums nudged here and there, spread and moved, then one rounding."""
    acc = a.call("convolution.conv2d", layers.weights(6, 2, 2, 3), layers.windows(x, 2))
    made, m = acc, 6
    for _ in range(3):
        place, more = (a.spread(a.constant(layers.rng.integers(-9, 10, m) * k, "i32"), acc) for k in (37, 1))
        chosen = a.op("select", a.op("eq", acc, place), more, a.spread(a.constant(0, "i32"), acc))
        made = a.op("add", made, chosen)
    made = a.op("shl", made, a.spread(a.constant(7, "u32"), made))
    made = a.call("requantise.bias", made, a.constant(layers.rng.integers(-5000, 5000, m), "i32"), lead=3)
    multiplier = a.constant(layers.rng.integers(-(1 << 30), 1 << 30, m), "i32")
    shift = a.constant(layers.rng.integers(43, 46, m), "u32")
    y = a.call("requantise.requantise", made, multiplier, shift, 3, -128, 127, lead=3, elements={"e": "i8"})
    pooled = a.call("pooling.max_pool2d", layers.windows(y, 2, 2))
    return a.op("lookup", layers.weights(256), a.op("wrap", pooled, to="u8"))


NETWORKS: dict[str, tuple[Callable[[Assembly, Node, Layers], Node], tuple[int, ...]]] = {
    "first": (_first, (6, 6, 3)),
    "second": (_second, (9, 8, 3)),
    "stem": (_stem, (6, 7, 3)),
    "lines": (_lines, (6, 7, 3)),
}


@cache
def network(name: str) -> Network:
    a = Assembly(LIBRARY)
    make, shape = NETWORKS[name]
    return a.network(name, {"y": make(a, a.input("x", "i8", shape), Layers(a, len(name)))})


def inputs(name: str, batch: int) -> Array:
    return np.random.default_rng(batch).integers(-128, 128, (batch, *NETWORKS[name][1])).astype(np.int8)


@cache
def wanted(name: str, batch: int) -> Array:
    """Return what the definitions give."""
    found: Array = evaluate(network(name).function, [inputs(name, batch)], (batch,))
    return found


def plan(name: str, batch: int = 1, fuse: bool = True) -> Plan:
    made = network(name)
    return plan_of(made.function, RULES, KNOWN, LIBRARY, {0: batch}, fuse=fuse)


def check(name: str, tier: str, batch: int, threads: int = 1, fuse: bool = True) -> None:
    function = X86Function(network(name).function, LIBRARY, tier_of(tier), threads, None, fuse)
    (found,) = function.run([inputs(name, batch)])
    assert np.array_equal(found, wanted(name, batch)), (name, tier, batch, threads, fuse)


@pytest.mark.req("C072")
def test_each_layer_is_one_launch() -> None:
    layer, pool = "layer_of_bytes", "pool_of_bytes"
    found = [region.rule for region in plan("first").regions if region.launches]
    assert found == [layer, layer, "sum_of_bytes", pool, layer, "table_of_bytes", pool, layer]
    found = [region.rule for region in plan("second").regions if region.launches]
    assert found == [layer, layer, layer]
    assert all(len(region.launches) <= 1 for name in ("first", "second") for region in plan(name).regions)


@pytest.mark.parametrize("tier", NAMES)
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_every_tier_gives_the_bits_of_the_definitions(name: str, tier: str) -> None:
    check(name, tier, 1)


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_batches_and_threads(name: str) -> None:
    for batch, threads in ((64, 1), (64, 2), (3, 1)):
        check(name, BEST, batch, threads)


def test_nudges_and_spreads_are_one_launch_with_the_sums() -> None:
    found = plan("lines").regions[0]
    assert found.rule == "layer_of_bytes" and [apply.name for apply in found.covers][-3:] == [
        "shl",
        "requantise.bias",
        "requantise.requantise",
    ]
    codes = inputs("lines", 64)
    function = network("lines").function
    assert len(np.unique(evaluate(function, [codes], (64,)))) > 50


@pytest.mark.parametrize("alike", [True, False])
def test_an_output_stage_alone(alike: bool) -> None:
    """Sums that come from elsewhere, of any size; channels alike or not, in rows that fill no vector."""
    a, rng = Assembly(LIBRARY), np.random.default_rng(4)
    x = a.input("x", "i32", (5, 19))
    multiplier = np.full(19, 1 << 20) if alike else rng.integers(-(1 << 29), 1 << 29, 19)
    shift = np.full(19, 33) if alike else rng.integers(35, 50, 19)
    numbers = (a.constant(multiplier, "i32"), a.constant(shift, "u32"))
    y = a.call("requantise.requantise", x, *numbers, -4, -128, 127, lead=2, elements={"e": "i8"})
    made = a.network("stage", {"y": y})
    assert [r.rule for r in plan_of(made.function, RULES, KNOWN, LIBRARY, {0: 2}).regions] == ["codes_of_sums"]
    sums = rng.integers(-(1 << 31), 1 << 31, (2, 5, 19)).astype(np.int32)
    sums[0, 0, :4] = [-(1 << 31), (1 << 31) - 1, 0, -1]
    for name in NAMES:
        (found,) = X86Function(made.function, LIBRARY, tier_of(name), 2, None).run([sums])
        assert np.array_equal(found, evaluate(made.function, [sums], (2,))), name


def test_direct_or_im2col() -> None:
    """The cheaper one by the model is taken, and both give the same bits."""
    assert [region.rule for region in plan("stem").regions] == ["layer_by_im2col"]
    assert next(region.rule for region in plan("first").regions) == "layer_of_bytes"
    made, x = network("stem"), inputs("stem", 2)
    for without in ((), ("layer_by_im2col",), ("layer_by_im2col", "layer_of_bytes")):
        planned = plan_of(made.function, RULES, KNOWN, LIBRARY, {0: 2}, without=without)
        assert "generic" not in [region.rule for region in planned.regions]
        function = X86Function(made.function, LIBRARY, tier_of(BEST), 1, None)
        memory = {value: aligned(input_bytes(planned, value, (2,))) for value in planned.inputs}
        next(iter(memory.values()))[: x.size] = x.reshape(-1).view(np.uint8)
        cut = Cut(planned, 2, memory, Crew(1), function.routines, function.weights)
        cut.run(2)
        assert np.array_equal(cut.result(0), wanted("stem", 2)), without


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_layer_by_layer(name: str) -> None:
    """Without fusing the same bits come from the generic lowering and from kernels of single layers."""
    assert len(plan(name, fuse=False).regions) > len(plan(name).regions)
    check(name, BEST, 1, fuse=False)


def test_what_may_wrap_is_left_to_others() -> None:
    """A bias that may make sums wrap is no part of a layer's launch; the bits are the same."""
    a = Assembly(LIBRARY)
    x, w = a.input("x", "i8", (4,)), a.constant(np.full((3, 4), 127), "i8")
    acc = a.call("dense.dense", w, x)
    acc = a.call("requantise.bias", acc, a.constant(np.array([(1 << 31) - 1, 0, 5]), "i32"))
    half, shift = a.constant(np.full(3, 1 << 30), "i32"), a.constant(np.full(3, 40), "u32")
    y = a.call("requantise.requantise", acc, half, shift, 0, -128, 127, elements={"e": "i8"})
    made = a.network("wraps", {"y": y})
    planned = plan_of(made.function, RULES, KNOWN, LIBRARY, {0: 1})
    assert [region.rule for region in planned.regions] == ["layer_of_bytes", "generic", "codes_of_sums"]
    codes = np.full((1, 4), 127, np.int8)
    (found,) = X86Function(made.function, LIBRARY, tier_of(BEST), 1, None).run([codes])
    assert np.array_equal(found, evaluate(made.function, [codes], (1,)))


def test_a_wrong_rule_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: the padding of all windows is taken for zero."""
    from bittern.plan.rules import networks_bytes, windows

    real = windows.windows_of

    def wrong(*arguments: Any) -> Any:
        seen = real(*arguments)
        return None if seen is None else type(seen)(**{**_fields(seen), "padding": 0})

    monkeypatch.setattr(networks_bytes, "windows_of", wrong)
    with pytest.raises(AssertionError):
        check("first", BEST, 1)


def _fields(seen: Any) -> dict[str, Any]:
    return {name: getattr(seen, name) for name in type(seen).__slots__}
