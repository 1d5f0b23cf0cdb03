"""Random and mutated ONNX files that are to be quantised: a valid file, or a refusal by code; never another end.

By hand: `python tests/fuzz/test_quantise_fuzz.py SECONDS [SEED]`, or `--case SEED NUMBER`.
"""

import random
import sys
import tempfile
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

import fuzzing
import numpy as np
import pytest
from onnx import helper
from onnx_files import model
from test_onnx_fuzz import case as any_file

from bittern.base.progress import Progress
from bittern.front.quantise.onnx import rows
from bittern.front.quantise.onnx.file import quantise_onnx
from bittern.front.quantise.onnx.settings import Settings

SECONDS = 3.0  # of processor time, for one file
_MIDDLE = ("Relu", "Sigmoid", "Tanh", "Identity", "Abs", "Neg", "Softmax", "MaxPool", "Flatten", "Transpose")


def case(seed: int, number: int) -> tuple[bytes, Settings]:
    """Return a file and what is asked for: a few layers, mutated or not, or any file of the importer's fuzzer."""
    chance = random.Random(f"{seed}:{number}")
    settings = Settings(
        chance.choice(("b1", "t", "2", "3", "4", "8")),
        chance.choice(("none", "t", "4", "8")),
        chance.choice(("max", "percentile", "mse", "kl")),
        granularity=chance.choice(("channel", "tensor", "2")),
        rounding=chance.choice(("rtn", "rtn", "gptq")),
        asymmetric=chance.random() < 0.2,
        dynamic=chance.random() < 0.1,
    )
    if chance.random() < 0.3:
        return any_file(seed, number), settings
    numbers = np.random.default_rng(chance.randrange(2**32))
    constants: dict[str, Any] = {}
    nodes, last = [], "x"
    for place in range(chance.randrange(1, 4)):
        shape = chance.choice(((3, 2, 2, 2), (3, 3, 1, 1), (2, 1, 3, 3), (4, 4), (16, 5), (0, 2, 1, 1)))
        constants[f"w{place}"] = (numbers.integers(-9, 10, shape) * 10.0 ** chance.choice((-1, -1, 0, 30, -42))).astype(
            "f"
        )
        extra = {"group": chance.choice((1, 1, 2, 3, 0))} if len(shape) == 4 and chance.random() < 0.3 else {}
        op = "Conv" if len(shape) == 4 else chance.choice(("MatMul", "Gemm"))
        nodes.append(helper.make_node(op, [last, f"w{place}"], [f"a{place}"], f"n{place}", **extra))
        middle = chance.choice(_MIDDLE)
        extra = {"kernel_shape": [chance.choice((1, 2, 9))] * 2} if middle == "MaxPool" else {}
        nodes.append(helper.make_node(middle, [f"a{place}"], [f"y{place}"], **extra))
        last = f"y{place}"
    data = model(nodes, {"x": ("f32", (1, 2, 4, 4))}, {last: "f32"}, constants, chance.choice((9, 13, 17)), {})
    return fuzzing.mutated_bytes(chance, data) if chance.random() < 0.2 else data, settings


def judge(given: tuple[bytes, Settings]) -> str:
    """Quantise a file on random samples of the shape that it states; return the outcome."""
    data, settings = given
    x = np.random.default_rng(1).integers(0, 256, (5, 2, 4, 4)).astype(np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.onnx", Path(folder) / "out.onnx"
        source.write_bytes(data or b"0")
        outcome = fuzzing.outcome_of(lambda: quantise_onnx(source, target, settings, x, None, Progress()), SECONDS)
        assert target.exists() == (outcome == "accepted") and len(list(Path(folder).iterdir())) == 1 + target.exists()
    return outcome


def test_random_files() -> None:
    outcomes = fuzzing.run(4.0, fuzzing.fresh_seed(), case, judge)
    assert outcomes["accepted"] and outcomes["N434"], outcomes


def test_an_operation_that_fails_in_its_own_way_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: an operation ends in an error that is no refusal."""

    def broken(node: Any, inputs: Any, graph: Any) -> Any:
        raise RuntimeError(node.op)

    monkeypatch.setitem(rows.ROWS, ("", "Relu"), broken)
    with pytest.raises(AssertionError, match="case .* of seed 1"):
        fuzzing.run(30.0, 1, case, judge)


if __name__ == "__main__":
    fuzzing.main(sys.argv[1:], case, judge)
