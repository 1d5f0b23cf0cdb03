"""Published networks and declared ones: the same bits as written, after passes, and as machine code of every tier.

The yardstick is the evaluator on the network as its file says it. By default each network meets every batch and thread
count, and some tier below the best; BITTERN_EXHAUSTIVE=1 runs all tiers, fused and not, at all batches and threads.
"""

import gzip
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from x86_kernels import NAMES, tier_of

from bittern.chips.chip import ComputingChip, chip
from bittern.chips.x86.features import is_here
from bittern.front.network.network import Network
from bittern.graph.evaluate import evaluate
from bittern.nn import (
    Add,
    BinaryTensor,
    Concat,
    Conv2d,
    Dense,
    Flatten,
    Input,
    IntTensor,
    MaxPool2d,
    NetworkBuilder,
    Residual,
    TernaryTensor,
    build,
)
from bittern.passes.network import integer_only
from bittern.runtime.network import NetworkModel
from bittern.runtime.networks import open_network

Array = npt.NDArray[Any]
EXHAUSTIVE = bool(os.environ.get("BITTERN_EXHAUSTIVE"))
needs_x86 = pytest.mark.skipif(not is_here(), reason="this processor or system does not run x86-64 code")


@dataclass(frozen=True)
class Case:
    """A file of the test data. batch: the larger one that runs. known: where real inputs and outputs lie.

    inputs: name of the recorded inputs in that file, "" for random ones. outputs: of the recorded outputs.
    is_brief: whether a batch of 64 is bearable when all is run.
    """

    path: str
    batch: int = 64
    known: str = ""
    inputs: str = ""
    outputs: str = ""
    is_brief: bool = True


MNIST = "mnist_t10k/t10k-images-idx3-ubyte.gz"
FILES = {
    "tfc 1w1a": Case("tfc_mnist/TFC_1W1A.onnx", 64, "tfc_mnist/TFC_1W1A_golden_t10k.npz", MNIST, "logits_first256"),
    "tfc 1w2a": Case("tfc_mnist/TFC_1W2A.onnx", 64, "tfc_mnist/TFC_1W2A_golden_t10k.npz", MNIST, "logits_first256"),
    "tfc 2w2a": Case("tfc_mnist/TFC_2W2A.onnx", 64, "tfc_mnist/TFC_2W2A_golden_t10k.npz", MNIST, "logits_first256"),
    "finn tfc": Case("finn_tfc_w1a1/model.onnx", 64, "", MNIST),
    "lfc": Case("bnn_pynq/mnist_lfcW1A1.npz", 64, "bnn_pynq/mnist_lfcW1A1_golden.npz", MNIST, "score_first256"),
    "cnv 1w1a": Case("bnn_pynq/cifar10_cnvW1A1.npz", 2, "bnn_pynq/cifar10_cnvW1A1_golden.npz", "images", "score"),
    "cnv 1w2a": Case("bnn_pynq/cifar10_cnvW1A2.npz", 2, "bnn_pynq/cifar10_cnvW1A2_golden.npz", "images", "score"),
    "espcn resize": Case("qonnx_espcn/nn_resize_quant.onnx", 2, is_brief=False),
    "espcn subpixel": Case("qonnx_espcn/subpixel_quant.onnx", 2, is_brief=False),
    "kws": Case("mlperf_tiny/kws_int8.tflite", 64, "mlperf_tiny/kws_int8_golden.npz", "x", "y_ref"),
    "ic": Case("mlperf_tiny/ic_resnet8_int8.tflite", 2, "mlperf_tiny/ic_resnet8_int8_golden.npz", "x", "y_ref"),
    "ad01": Case("mlperf_tiny/ad01_int8.tflite", 64, "mlperf_tiny/ad01_int8_golden.npz", "x", "y_ref"),
    "hello world": Case(
        "tflite_micro/hello_world_int8.tflite", 64, "tflite_micro/hello_world_int8_golden.npz", "x", "y_ref"
    ),
    "lstm": Case("tflite_micro/mnist_lstm_int8.tflite", 2, "tflite_micro/mnist_lstm_int8_golden.npz", "x"),
    "mobilenet": Case(
        "tflite_micro/mobilenet_v2_int8_224.tflite",
        1,
        "tflite_micro/mobilenet_v2_int8_224_golden.npz",
        "x",
        "y_ref",
        False,
    ),
    "float conv": Case("onnx_mnist_conv/model.onnx", 64, "", MNIST),
}


# --- networks declared in Python


def _signs() -> Network:
    """Signs between all layers, each padding of them, pooling, a residual."""
    return (
        NetworkBuilder()
        .input(BinaryTensor([None, 7, 6, 33]))
        .conv2d(33, 65, 3, padding="same", activation="sign")
        .conv2d(65, 31, 3, padding=1, pad_with=-1, stride=2, activation="sign")
        .residual(Conv2d(31, 31, 3, padding="same", pad_with=0), activation="sign")
        .max_pool2d(2)
        .flatten()
        .dense(62, 127, activation="sign")
        .output(127, 10)
        .network()
    )


def _widths() -> Network:
    """A width of its own for each layer, and every kind of convolution."""
    return (
        NetworkBuilder()
        .input(IntTensor(8, [None, 8, 8, 3], signed=False))
        .conv2d(3, 33, 3, weights="t", padding=1, activation="sign")
        .conv2d(33, 15, 3, weights=2, dilation=2, activation="ternary")
        .depthwise_conv2d(15, 3, weights=3, padding="same", activation="relu", bits=2)
        .conv2d(15, 12, 1, groups=3, weights=4, activation="relu", bits=3)
        .average_pool2d(2)
        .batch_norm()
        .activation("hard_tanh", 4)
        .flatten()
        .dense(48, 63, weights=8, activation="relu", bits=8)
        .output(63, 5, weights=3)
        .network()
    )


def _sequences() -> Network:
    """Recurrent layers and attention."""
    return (
        NetworkBuilder()
        .input(TernaryTensor([None, 5, 12]))
        .lstm(12, 9, weights=2, bits=2, sequences=True)
        .multi_head_attention(9, 3, weights="t", activation="linear", bits=2)
        .gru(9, 7, weights=3, bits=3, sequences=True)
        .flatten()
        .output(35, 4, weights=2)
        .network()
    )


def _branches() -> Network:
    """Two inputs, two outputs, joints."""
    image, other = Input(IntTensor(4, [None, 6, 6, 5]), "image"), Input(IntTensor(4, [None, 6, 6, 5]), "other")
    x = Conv2d(5, 31, 3, weights="t", activation="sign", padding="same")(Add(activation="linear", bits=4)(image, other))
    y = Residual(Conv2d(31, 31, 3, padding="same", pad_with=0), activation="sign")(MaxPool2d(2)(x))
    z = Conv2d(31, 8, 1, activation="relu", bits=3)(y)
    both = Flatten()(Concat()(z, Conv2d(31, 4, 3, padding="same", activation="relu", bits=3)(y)))
    model = build({"digit": Dense(108, 10, weights=4)(both), "is_even": Dense(108, 1)(both)})
    return model.network


DECLARED: dict[str, Callable[[], Network]] = {
    "signs": _signs,
    "widths": _widths,
    "sequences": _sequences,
    "branches": _branches,
}
CASES = [*FILES, *DECLARED]


@cache
def network_of(name: str, models: Path) -> Network:
    """Return a network of the tables."""
    return open_network(models / FILES[name].path) if name in FILES else DECLARED[name]()


def known_inputs(case: Case, models: Path) -> Array | None:
    """Return the recorded inputs [b, ...] of a network, None where there are none."""
    if case.inputs == MNIST:
        packed = (models / MNIST).read_bytes()
        return np.frombuffer(gzip.decompress(packed), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    if not case.inputs:
        return None
    with np.load(models / case.known) as file:
        found: Array = file[case.inputs]
    return found


@cache
def inputs_of(name: str, models: Path, batch: int) -> list[Array]:
    """Return a batch of each input: real ones, as far as there are any, and random ones behind these."""
    made = []
    for place, port in enumerate(network_of(name, models).inputs):
        rng = np.random.default_rng(place)
        shape, element = (batch, *port.shape), port.element
        if element.is_float:
            x = rng.random(shape, np.float32)
        elif element.name == "b1":
            x = rng.choice(np.array([-1, 1], np.int8), shape)
        else:
            x = rng.integers(element.low, element.high + 1, shape).astype(element.storage)
        real = known_inputs(FILES[name], models) if name in FILES else None
        if real is not None:
            rows = real[:batch].reshape(-1, *port.shape)
            x[: len(rows)] = rows / np.float32(255) if element.is_float else rows
        made.append(x)
    return made


@cache
def wanted(name: str, models: Path, batch: int) -> list[Array]:
    """Return what the network as it is written gives, node by node."""
    found = evaluate(network_of(name, models).function, inputs_of(name, models, batch), (batch,))
    return list(found) if isinstance(found, tuple) else [found]


def differing(found: Any, expected: list[Array]) -> list[int]:
    """Return the places of the results that have other bits; signs of zero count, NaNs are one."""
    leaves = list(found.values()) if isinstance(found, dict) else list(found) if isinstance(found, tuple) else [found]
    assert len(leaves) == len(expected)
    return [k for k, (a, b) in enumerate(zip(leaves, expected, strict=True)) if not same_bits(a, b)]


def same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays have the same type, shape and bytes."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def large(name: str) -> int:
    """Return the larger batch of a network: 64, or what is bearable."""
    case = FILES.get(name)
    return 64 if case is None or (EXHAUSTIVE and case.is_brief) else case.batch


@dataclass(frozen=True)
class Way:
    """How machine code runs a network."""

    tier: str
    fuse: bool
    batch: int
    threads: int


def ways(name: str) -> list[Way]:
    """Return the ways of a network: all of them, or few that meet every tier, batch and thread count somewhere."""
    batches = sorted({1, large(name)})
    if EXHAUSTIVE:
        return [Way(*each) for each in product(NAMES, (True, False), batches, (1, 2))]
    place = CASES.index(name)
    return [Way(NAMES[-1], True, batches[-1], 2), Way(NAMES[place % len(NAMES)], place % 3 > 0, 1, 1)]


@pytest.fixture(scope="module")
def models(data_dir: Path) -> Path:
    """The folder of published networks."""
    return data_dir / "models"


@pytest.mark.req("K067", "K068")
@pytest.mark.parametrize("name", CASES)
def test_vm_gives_the_bits_of_the_definitions(name: str, models: Path) -> None:
    """On the network as written and on the one after passes, one sample and many."""
    made = network_of(name, models)
    passed, _ = integer_only(made.function, made.library)
    vm = chip("vm")
    assert isinstance(vm, ComputingChip)
    for function in (made.function, passed):
        loaded = vm.load_function(function, made.library)
        for batch in sorted({1, large(name)}):
            assert not differing(loaded.run(inputs_of(name, models, batch)), wanted(name, models, batch))


@needs_x86
@pytest.mark.req("K067", "C101")
@pytest.mark.parametrize("name", CASES)
def test_machine_code_gives_the_bits_of_the_definitions(name: str, models: Path) -> None:
    for way in ways(name):
        tier_of(way.tier)
        model = NetworkModel(network_of(name, models), "x86", way.threads, way.tier, fuse=way.fuse)
        found = model.run(*inputs_of(name, models, way.batch))
        assert not differing(found, wanted(name, models, way.batch)), way


@pytest.mark.parametrize("name", [name for name in FILES if FILES[name].outputs])
def test_the_definitions_give_the_recorded_outputs(name: str, models: Path) -> None:
    """So what all ways agree on is right."""
    case = FILES[name]
    with np.load(models / case.known) as file:
        golden = file[case.outputs]
    (found,) = wanted(name, models, large(name))
    count = min(len(golden), len(found))
    assert count and np.array_equal(found[:count], golden[:count].reshape(count, *found.shape[1:]))


@pytest.mark.parametrize("name", [name for name in CASES if large(name) == 64])
def test_a_sample_is_alone_in_its_batch(name: str, models: Path) -> None:
    """What is computed for a sample does not depend on those beside it, nor on how a batch fills up to a power of 2."""
    model = NetworkModel(network_of(name, models))
    x, expected = inputs_of(name, models, 64), wanted(name, models, 64)
    odd = [each[5:12] for each in x]
    assert not differing(model.run(*odd), [each[5:12] for each in expected])


def test_every_tier_is_met() -> None:
    """The choice of ways leaves out no tier, batch, thread count or way to plan."""
    met = {way for name in CASES for way in ways(name)}
    assert {way.tier for way in met} == set(NAMES)
    assert {way.fuse for way in met} == {True, False} and {way.threads for way in met} == {1, 2}
    assert {1, 2, 64} <= {way.batch for way in met}


def test_one_bit_that_differs_is_seen(models: Path) -> None:
    """Planted faults: one weight of the network is another, one zero has another sign, one type is wider."""
    expected = wanted("kws", models, 1)
    changed = expected[0].copy()
    changed[0, 3] ^= 1
    assert differing((changed,), expected) == [0]
    zeros = np.zeros((1, 4), np.float32)
    assert differing((-zeros,), [zeros]) == [0]
    assert differing((expected[0].astype(np.int16),), expected) == [0]
