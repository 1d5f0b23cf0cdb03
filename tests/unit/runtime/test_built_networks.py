"""Declared networks on the chips of this machine: equal bits, also where no machine code may be made."""

import errno
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bittern.chips.chip import ComputingChip, NativeChip, chip, chip_names
from bittern.chips.machine import memory
from bittern.chips.x86.features import is_here
from bittern.graph.evaluate import prepare
from bittern.nn import BinaryTensor, Conv2d, IntTensor, Model, NetworkBuilder, TernaryTensor
from bittern.runtime import choice
from bittern.runtime.network import NetworkModel

needs_x86 = pytest.mark.skipif(not is_here(), reason="the chip x86 runs on x86-64 only")


def mixed() -> NetworkBuilder:
    """Return layers of many kinds and widths in a row."""
    return (
        NetworkBuilder()
        .input(IntTensor(8, [1, 9, 9, 3], signed=False))
        .conv2d(3, 33, 3, weights="t", padding=1, activation="sign")
        .max_pool2d(2)
        .residual(Conv2d(33, 33, 3, padding="same", pad_with=0), activation="sign")
        .depthwise_conv2d(33, 3, weights=2, activation="relu", bits=3)
        .dense(33, 31, weights=3)
        .batch_norm()
        .activation("hard_tanh", 4)
        .dropout(0.2)
        .flatten()
        .dense(124, 65, weights=4, activation="sign")
        .output(65, 10)
    )


def pixels(rows: int) -> Any:
    return np.random.default_rng(rows).integers(0, 256, (rows, 9, 9, 3)).astype(np.uint8)


@needs_x86
@pytest.mark.req("K067", "C070")
def test_machine_code_gives_the_bits_of_vm() -> None:
    model, x = mixed().build(), pixels(5)
    assert model.model.chip.name == "x86" and model.model.passed.is_integer
    on_vm = NetworkModel(model.network, "vm")
    np.testing.assert_array_equal(model.run(x), on_vm.run(x))
    np.testing.assert_array_equal(model.run(x[0]), on_vm.run(x)[0])
    np.testing.assert_array_equal(model.run(x), prepare(model.network.function, (5,))(x))
    listed = model.explain()
    assert all(name in listed for name in ("conv2d_1", "depthwise_conv2d_1", "dense_2", "output"))


@needs_x86
@pytest.mark.req("C036")
@pytest.mark.parametrize("width", ["b1", "t", 2, 3, 4, 8], ids=str)
def test_every_width_runs_as_machine_code(width: Any) -> None:
    shape = [1, 5, 5, 17]
    tensor = {"b1": BinaryTensor, "t": TernaryTensor}.get(width)
    start = NetworkBuilder().input(tensor(shape) if tensor else IntTensor(width, shape))
    ends = {"activation": {"b1": "sign", "t": "ternary"}.get(width, "linear"), "bits": width, "weights": width}
    layers = start.conv2d(17, 9, 3, padding="same", **ends).average_pool2d(2).flatten()
    model = layers.output(36, 3, weights=width).build()
    low, high = (0, 2) if width == "b1" else (-1, 2) if width == "t" else (-(1 << width - 1), 1 << width - 1)
    drawn = np.random.default_rng(0).integers(low, high, (4, 5, 5, 17))
    x = 2 * drawn - 1 if width == "b1" else drawn
    np.testing.assert_array_equal(model.run(x), NetworkModel(model.network, "vm").run(x))


@pytest.mark.req("C001")
def test_one_declaration_runs_on_every_chip() -> None:
    """On each chip of the list that runs networks, whatever chips there will be."""
    network = NetworkBuilder().input(BinaryTensor([1024, 84])).dense(84, 65, activation="sign").output(65, 10).network()
    x = np.where(np.random.default_rng(0).random((7, 84)) < 0.5, 1, -1)
    here = [name for name in chip_names() if isinstance(made := chip(name), ComputingChip) and _runs(made)]
    found = [NetworkModel(network, name).run(x) for name in here]
    assert {"vm", *(["x86"] if is_here() else [])} <= {*here}
    assert all(np.array_equal(found[0], other) for other in found[1:])


def _runs(made: object) -> bool:
    return not isinstance(made, NativeChip) or made.is_here()


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that gives no executable memory in any way."""

    def refuse(_: bytes) -> mmap.mmap:
        raise PermissionError(errno.EACCES, "Permission denied")

    ways: dict[str, Callable[[bytes], mmap.mmap]] = {"memory file": refuse, "mprotect": refuse}
    monkeypatch.setattr(memory, "WAYS", ways)


@pytest.mark.req("K066")
@pytest.mark.usefixtures("refusing")
def test_networks_run_without_executable_memory() -> None:
    model, x = mixed().build(), pixels(3)
    found = model.run(x)
    assert model.model.chip.name == "vm"
    np.testing.assert_array_equal(found, prepare(model.network.function, (3,))(x))


@pytest.mark.req("K068")
def test_networks_run_where_no_native_chip_is(monkeypatch: pytest.MonkeyPatch) -> None:
    here = mixed().build()
    expected = here.run(pixels(2))
    monkeypatch.setattr(choice, "is_here", lambda _: False)
    model = mixed().build()
    np.testing.assert_array_equal(model.run(pixels(2)), expected)
    assert model.model.chip.name == "vm"


def test_a_model_is_made_of_any_network() -> None:
    network = mixed().network()
    assert Model(network).run(pixels(1)).shape == (1, 10) and repr(Model(network)) == "<network network>"
