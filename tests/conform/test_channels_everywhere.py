"""Channel counts beside the sizes of words, and every padding, as machine code against a loop over whole numbers.

Also all inputs of 8 bits where a network has one value, and all pairs where it has two.
"""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from x86_kernels import NAMES, tier_of

from bittern.front.network.assembly import Assembly
from bittern.graph.evaluate import evaluate
from bittern.lang.library import Library
from bittern.nn import BinaryTensor, Conv2d, Input, IntTensor, TernaryTensor, build
from bittern.runtime.network import NetworkModel
from bittern.runtime.networks import open_network

Array = npt.NDArray[Any]
CHIPS = ["vm", *NAMES]
CHANNELS = [1, 31, 33, 63, 65, 127]
ROWS, COLUMNS, SIZE = 4, 3, 3

# name -> before and after on both axes, what is outside, stride
PADDINGS: dict[str, tuple[tuple[int, int], tuple[int, int], int, int]] = {
    "none": ((0, 0), (0, 0), 0, 1),
    "plus one": ((1, 1), (1, 1), 1, 1),
    "minus one": ((1, 1), (1, 1), -1, 1),
    "exact zero": ((1, 1), (1, 1), 0, 1),
    "uneven": ((2, 0), (0, 1), -1, 1),
    "strided": ((1, 1), (1, 1), 0, 2),
}
ELEMENTS = {"b1": BinaryTensor, "t": TernaryTensor}


def model_on(network: Any, name: str) -> NetworkModel:
    """Return a network on `vm`, or on a tier of x86; skip where this processor lacks it."""
    if name == "vm":
        return NetworkModel(network, "vm")
    return NetworkModel(network, "x86", 1, tier_of(name).name)


@cache
def layers(width: str, channels: int) -> Any:
    """Return a network whose outputs are one convolution for each padding, as many channels out as in."""
    shape = [None, ROWS, COLUMNS, channels]
    x = Input(ELEMENTS[width](shape) if width in ELEMENTS else IntTensor(int(width[1:]), shape), "x")
    weights = width if width in ELEMENTS else int(width[1:])
    ends = {}
    for name, (down, across, outside, stride) in PADDINGS.items():
        layer = Conv2d(
            channels, channels, SIZE, weights=weights, padding=(down, across), pad_with=outside, stride=stride
        )
        ends[name] = layer(x)
    return build(ends, seed=channels)


def drawn(width: str, channels: int) -> Array:
    """Return two samples of all values of an element."""
    rng = np.random.default_rng(channels)
    shape = (2, ROWS, COLUMNS, channels)
    if width == "b1":
        return rng.choice(np.array([-1, 1], np.int8), shape)
    low, high = (-1, 1) if width == "t" else (-(1 << int(width[1:]) - 1), (1 << int(width[1:]) - 1) - 1)
    return rng.integers(low, high + 1, shape).astype(np.int8)


def looped(x: Array, weight: Array, padding: tuple[tuple[int, int], tuple[int, int], int, int]) -> Array:
    """Return the sums [b, o, v, m] of one padding. A place outside is a number like any other; nothing is packed."""
    (top, bottom), (left, right), outside, stride = padding
    b, h, w, _ = x.shape
    sums = []
    for row in range(-top, h + bottom - SIZE + 1, stride):
        for column in range(-left, w + right - SIZE + 1, stride):
            total = np.zeros((b, len(weight)), np.int64)
            for i in range(SIZE):
                for j in range(SIZE):
                    r, c = row + i, column + j
                    is_inside = 0 <= r < h and 0 <= c < w
                    seen = x[:, r, c].astype(np.int64) if is_inside else np.full((b, x.shape[3]), outside, np.int64)
                    total += (seen[:, None, :] * weight[None, :, i, j].astype(np.int64)).sum(axis=2)
            sums.append(total)
    down = (h + top + bottom - SIZE) // stride + 1
    return np.stack(sums, axis=1).reshape(b, down, -1, len(weight))


@pytest.mark.req("C020")
@pytest.mark.parametrize("width", ["b1", "t", "i2", "i8"])
@pytest.mark.parametrize("channels", CHANNELS)
def test_channels_and_paddings(width: str, channels: int) -> None:
    made, x = layers(width, channels), drawn(width, channels)
    weights = [made.parameters[path] for path in sorted(made.parameters, key=_number)]
    expected = [looped(x, weight, padding) for weight, padding in zip(weights, PADDINGS.values(), strict=True)]
    below = NAMES[(CHANNELS.index(channels) + len(width)) % (len(NAMES) - 1)]
    for name in ("vm", NAMES[-1], *([below] if width in ("b1", "i8") else [])):
        found = model_on(made.network, name).run(x)
        for (end, sums), wanted in zip(found.items(), expected, strict=True):
            assert sums.shape == wanted.shape and np.array_equal(sums, wanted), (name, end)


def _number(path: str) -> int:
    return int(path.partition(".")[0].rpartition("_")[2])


def test_a_padding_taken_for_another_is_seen() -> None:
    """Planted faults: the loop over another padding, and over channels in another order, gives other sums."""
    made, x = layers("b1", 33), drawn("b1", 33)
    found = model_on(made.network, "vm").run(x)
    weights = {
        name: made.parameters[path] for name, path in zip(PADDINGS, sorted(made.parameters, key=_number), strict=True)
    }
    assert not np.array_equal(found["plus one"], looped(x, weights["plus one"], PADDINGS["exact zero"]))
    assert not np.array_equal(found["none"], looped(x[..., ::-1], weights["none"], PADDINGS["none"]))


@pytest.mark.parametrize("name", CHIPS)
def test_all_inputs_of_one_byte(name: str, data_dir: Path) -> None:
    """TFLite Micro's network of one value: all 256 codes."""
    path = data_dir / "models" / "tflite_micro" / "hello_world_int8.tflite"
    if not path.is_file():
        pytest.skip(f"no {path}")
    made = open_network(path)
    x = np.arange(-128, 128).astype(np.int8)[:, None]
    assert np.array_equal(model_on(made, name).run(x), evaluate(made.function, [x], (256,)))


# function, its numbers behind the two values: see std/tflite.btn
PAIRS: dict[str, tuple[str, tuple[int, ...]]] = {
    "add": ("tflite.add", (20, -5, 1 << 30, 0, -100, 1717986918, 0, 1431655765, -18, 4, -128, 127)),
    "subtract": ("tflite.subtract", (20, 3, 1 << 30, -1, 9, 1717986918, 0, 1431655765, -17, -4, -100, 90)),
    "multiply": ("tflite.multiply", (-5, 100, 1431655765, -6, 3, -128, 127)),
}


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("pair", PAIRS)
def test_all_pairs_of_bytes(pair: str, name: str) -> None:
    """65,536 pairs; those at the ends of the codes, and those that are clamped, among them."""
    a = Assembly(Library.standard())
    x, y = a.input("x", "i8", (256,)), a.input("y", "i8", (256,))
    called, numbers = PAIRS[pair]
    made = a.network(pair, {"z": a.call(called, x, y, *numbers)})
    left, right = (v.astype(np.int8) for v in np.meshgrid(np.arange(-128, 128), np.arange(-128, 128), indexing="ij"))
    found = model_on(made, name).run(left, right)
    assert np.array_equal(found, evaluate(made.function, [left, right], (256,)))
    assert len(np.unique(found)) > 30
