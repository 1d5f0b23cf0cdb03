"""Random and mutated ONNX files: a network, or a refusal by code; never another end, never late.

By hand: `python tests/fuzz/test_onnx_fuzz.py SECONDS [SEED]`, or `--case SEED NUMBER`.
"""

import random
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

import fuzzing
import numpy as np
import pytest
from onnx import helper
from onnx_files import LIBRARY, TYPES, model

from bittern.front.onnx import table
from bittern.front.onnx.importer import import_graph
from bittern.front.onnx.reading import graph_of
from bittern.front.onnx.table import DOMAINS, rows
from bittern.graph.evaluate import evaluate
from bittern.types.values import Tensor

SECONDS = 2.0  # of processor time, for one file
_SHAPES = ((1, 4), (1, 2, 5), (1, 3, 4, 4), (1, 3, 4, 4), (1, 2, 3, 3, 2), (2, 4), (1,), (), (None, 3, 4, 4))
_CONSTANTS = ((), (1,), (2,), (3,), (4,), (4, 3), (3, 4), (3, 1, 1), (3, 3, 2, 2), (2, 3, 1, 1), (1, 4), (0,))
_DTYPES = ("float32", "float32", "float32", "int64", "int64", "int8", "uint8", "int32", "bool", "float64")
_NUMBERS = (0, 1, 1, 1, 2, 2, 3, -1, -2, 5, 7, 255, 2**31, 2**40, 2**63 - 1, -(2**63))
_WORDS = ("NOTSET", "SAME_UPPER", "VALID", "nearest", "floor", "half_pixel", "constant", "ROUND", "NCHW", "CRD", "x")


def _array(chance: random.Random) -> Any:
    shape, dtype = chance.choice(_CONSTANTS), chance.choice(_DTYPES)
    made = np.random.default_rng(chance.randrange(2**32)).integers(-3, 5, shape)
    if dtype == "float32" and chance.random() < 0.5:
        return (made * np.float32(0.37)).astype(np.float32)
    return made.astype(dtype)


def _attribute(chance: random.Random, name: str) -> Any:
    if name in ("value",) and chance.random() < 0.7:
        return helper.make_tensor("v", 1, [1], [chance.random()])
    match chance.randrange(6):
        case 0 | 1:
            return chance.choice(_NUMBERS[:10]) if chance.random() < 0.9 else chance.choice(_NUMBERS)
        case 2 | 3:
            count = chance.choice((1, 2, 2, 2, 3, 4, 4, 6))
            return [chance.choice(_NUMBERS[:8] if chance.random() < 0.95 else _NUMBERS) for _ in range(count)]
        case 4:
            return chance.choice(_WORDS)
        case _:
            return chance.choice((0.5, 1.0, -1.0, 0.0, float("nan"), float("inf"), 1e30))


def case(seed: int, number: int) -> bytes:
    """Return a file of a few random operations, or its bytes mutated; the same for the same seed and number."""
    chance = random.Random(f"{seed}:{number}")
    known = sorted(rows())
    element = chance.choice(("f32",) * 6 + ("u8", "i8", "i32", "i64", "bit"))
    inputs: Any = {"x": (element, chance.choice(_SHAPES))}
    if chance.random() < 0.3:
        inputs["z"] = inputs["x"] if chance.random() < 0.7 else ("f32", chance.choice(_SHAPES))
    constants: dict[str, Any] = {f"c{k}": _array(chance) for k in range(chance.randrange(1, 8))}
    names = [*inputs, *inputs, *inputs, *constants, ""]
    nodes = []
    for place in range(chance.randrange(1, 7)):
        domain, op = chance.choice(known)
        form = chance.choice(rows()[domain, op])
        written = chance.choice([name for name, meaning in DOMAINS.items() if meaning == domain])
        count = chance.randrange(form.least, min(form.most, form.least + 3) + 1) if chance.random() < 0.9 else 3
        given = [chance.choice(names) for _ in range(count)]
        if given and chance.random() < 0.8:
            given[0] = chance.choice([name for name in names if name and not name.startswith("c")])
        chosen = [name for name in sorted(form.attributes) if chance.random() < 0.35]
        attributes = {name: _attribute(chance, name) for name in chosen}
        made = [f"y{place}", f"y{place}b"][: max(1, min(2, form.outputs))]
        nodes.append(helper.make_node(op, given, made, domain=written, **attributes))
        names += made * 4
    versions = {name: 1 for name in DOMAINS if name not in ("", "ai.onnx")}
    opset = chance.choice((7, 9, 11, 13, 17, 20))
    data = model(nodes, inputs, {f"y{len(nodes) - 1}": "f32"}, constants, opset, versions)
    return fuzzing.mutated_bytes(chance, data) if chance.random() < 0.3 else data


def judge(data: bytes) -> str:
    """Import a file and run what was accepted, if it is small; return the outcome."""
    networks: list[Any] = []

    def read() -> None:
        networks[:] = [import_graph(graph_of(data, "test"), LIBRARY)]

    outcome = fuzzing.outcome_of(read, SECONDS)
    assert outcome == "accepted" or "N201" <= outcome <= "N223", outcome
    if outcome == "accepted" and _is_small(networks[0]):
        _run(networks[0])
    return outcome


def _is_small(network: Any) -> bool:
    from bittern.graph.node import walk

    for each in walk(network.function.result):
        if isinstance(each.type, Tensor) and np.prod([size.value((1,)) for size in each.type.shape], dtype=float) > 1e6:
            return False
    return True


def _run(network: Any) -> None:
    feeds = [np.zeros((1, *port.shape), port.element.storage) for port in network.inputs]
    try:
        with np.errstate(all="ignore"):
            found = evaluate(network.function, feeds, [1])
    except Exception as fault:
        raise AssertionError(f"accepted, but {type(fault).__name__} when it runs: {fault}") from fault
    results = found if isinstance(found, tuple) else (found,)
    for port, array in zip(network.outputs, results, strict=True):
        assert np.asarray(array).shape[1:] == port.shape, (port, np.asarray(array).shape)


def test_random_files() -> None:
    outcomes = fuzzing.run(4.0, fuzzing.fresh_seed(), case, judge)
    assert outcomes["accepted"] and outcomes["N220"] and TYPES, outcomes


def test_a_reader_without_a_check_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: operands that do not fit each other pass."""
    monkeypatch.setattr(table.Site, "operand", lambda self, array, x, what: array)
    with pytest.raises(AssertionError, match="case .* of seed 1"):
        fuzzing.run(30.0, 1, case, judge)


if __name__ == "__main__":
    fuzzing.main(sys.argv[1:], case, judge)
