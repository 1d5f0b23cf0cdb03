"""Every operator of TFLite that Bittern imports against TFLite's reference kernels: recorded answers, bit for bit.

`tests/golden/tflite/record.py` says how they were recorded.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from bittern.front.network.network import Network
from bittern.front.tflite.importer import network_of
from bittern.front.tflite.operators import ROWS
from bittern.front.tflite.schema import parse_model
from bittern.lang.library import Library
from bittern.runtime.network import NetworkModel

Array = npt.NDArray[Any]
Edit = Callable[[str, str, str], Library]

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "tflite" / "operators.npz"
with np.load(GOLDEN) as _FILE:
    ARRAYS: dict[str, Array] = dict(_FILE)
CASES = sorted({name.rpartition("/")[0] for name in ARRAYS})
# Elementary functions are Bittern's own: the last places of their results are not TFLite's, which uses the platform's.
ULPS = {"f32 logistic": 3, "f32 softmax": 3, "f32 tanh": 3}


def network(name: str, library: Library) -> Network:
    """Import a case's model; what it remembers is further inputs and outputs."""
    return network_of(parse_model(ARRAYS[f"{name}/model"].tobytes(), name), library, keep_state=True)


def answers(made: Network, name: str, chip: str = "vm") -> Array:
    """Run the samples of a case one after the other, each with the state that the last one left; shaped as y."""
    model = NetworkModel(made, chip)
    given = [ARRAYS[f"{name}/x{place}"] for place in range(2) if f"{name}/x{place}" in ARRAYS]
    inputs = [x.reshape(len(x), *port.shape) for x, port in zip(given, made.inputs, strict=False)]
    kept = made.inputs[len(given) :]
    if not kept:
        return np.asarray(model.run(*inputs)).reshape(ARRAYS[f"{name}/y"].shape)
    state = [np.full((1, *port.shape), port.zero, port.element.storage) for port in kept]
    found = []
    for sample in range(len(inputs[0])):
        y, *state = model.run(*(x[sample : sample + 1] for x in inputs), *state).values()
        found.append(y)
    return np.array(found).reshape(ARRAYS[f"{name}/y"].shape)


@pytest.fixture(scope="module")
def library() -> Library:
    """The standard library."""
    return Library.standard()


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> Edit:
    """A library of which one module is changed in one place."""
    std = Path(next(iter(Library.standard().folders[-1:])))

    def edit(module: str, old: str, new: str) -> Library:
        text = (std / f"{module}.btn").read_text("utf-8")
        assert text.count(old) == 1, old
        folder = tmp_path_factory.mktemp("library")
        (folder / f"{module}.btn").write_text(text.replace(old, new), "utf-8")
        return Library.standard(folder)

    return edit


@pytest.mark.req("C036", "C069")
@pytest.mark.parametrize("name", CASES)
def test_equals_the_reference_kernels(name: str, library: Library) -> None:
    found, wanted = answers(network(name, library), name), ARRAYS[f"{name}/y"]
    assert found.dtype == wanted.dtype
    if name in ULPS:
        np.testing.assert_array_max_ulp(found, wanted, ULPS[name])
    else:
        assert np.array_equal(found, wanted), f"{(found != wanted).sum()} of {wanted.size} differ"


@pytest.mark.parametrize("name", ["conv same", "softmax", "lstm", "f32 depthwise"])
def test_a_batch_is_its_samples(name: str, library: Library) -> None:
    made = network(name, library)
    model = NetworkModel(made, "vm")
    x = ARRAYS[f"{name}/x0"].reshape(-1, *made.inputs[0].shape)
    state = [np.full((len(x), *port.shape), port.zero, port.element.storage) for port in made.inputs[1:]]
    whole = model.run(x, *state)
    each = [model.run(x[k : k + 1], *(s[k : k + 1] for s in state)) for k in range(len(x))]
    if isinstance(whole, dict):
        for port in made.outputs:
            assert np.array_equal(whole[port.name], np.concatenate([part[port.name] for part in each]))
    else:
        assert np.array_equal(whole, np.concatenate(each))


def test_every_operator_has_a_case() -> None:
    shown = {parse_model(ARRAYS[f"{name}/model"].tobytes(), name).operators[0].code.number for name in CASES}
    missing = {row.name for row in ROWS if row.number not in shown}
    assert missing <= {"PADV2", "EXPAND_DIMS"}, "those share the functions of PAD and RESHAPE"


# Case, what a rule says, and what it is made to say: one rounding instead of two; ties up instead of away from zero;
# an average that rounds down; a polynomial without its last term; a gate that takes its input's share off.
FAULTS = (
    (
        "conv same",
        "divide_by_power(doubling_high_mul(x << left, multiplier), right)",
        "wrap[i32](i64(x << left) * i64(multiplier) + (1i64 << 30 + right) >> 31 + right)",
    ),
    ("add", "(mask >> 1) + select(x < 0, 1i32, 0)", "mask >> 1"),
    ("average valid", "let half = count / 2", "let half = 0i32"),
    ("softmax i16", "divide_by_power(x4, 2) + x3", "x3"),
    ("lstm", "[sat[i16](i32(p) + q) for p, q in left, right]", "[sat[i16](q - i32(p)) for p, q in left, right]"),
)


@pytest.mark.parametrize(("name", "old", "new"), FAULTS)
def test_a_wrong_rule_is_caught(name: str, old: str, new: str, edited: Edit) -> None:
    found = answers(network(name, edited("tflite", old, new)), name)
    assert not np.array_equal(found, ARRAYS[f"{name}/y"])


def test_a_wrong_zero_point_is_caught(library: Library) -> None:
    """A model whose padding counts as something: the zero point of its input is changed."""
    data = ARRAYS["conv same/model"].tobytes()
    zero = (-7).to_bytes(8, "little", signed=True)
    assert data.count(zero) == 1
    changed = network_of(parse_model(data.replace(zero, (-6).to_bytes(8, "little", signed=True)), "changed"), library)
    assert not np.array_equal(answers(changed, "conv same"), ARRAYS["conv same/y"])
