"""The test cases that come with the package onnx: each is read and right, or refused by code; none is read and wrong.

All inputs of a case but the first become constants, as weights are; a case that then mixes samples is refused.
"""

import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx_files import imported, run

from bittern.base.errors import BitternError
from bittern.front.onnx import elementwise

Case = tuple[str, Any, list[Any], list[Any]]


def cases() -> Iterator[Case]:
    """Yield name, model, inputs and outputs of each case of tensors."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)
    for case in collected:
        if case.model is None or not case.data_sets:
            continue
        inputs, outputs = case.data_sets[0]
        if inputs and all(isinstance(each, np.ndarray) for each in (*inputs, *outputs)):
            yield case.name, case.model, list(inputs), list(outputs)


def outcome(case: Case) -> str:
    """Return the code of the refusal, `right` or `wrong`."""
    _, model, inputs, outputs = case
    made = onnx.ModelProto()
    made.CopyFrom(model)
    declared = list(made.graph.input)
    if len(declared) != len(inputs):
        return "left out"
    for info, value in zip(declared[1:], inputs[1:], strict=True):
        made.graph.initializer.append(numpy_helper.from_array(value, info.name))
        made.graph.input.remove(info)
    try:
        network = imported(made.SerializeToString())
    except BitternError as refusal:
        return refusal.code
    with np.errstate(all="ignore"):
        found = run(network, inputs[0])
    return "right" if all(map(is_near, found, outputs)) else "wrong"


def is_near(found: Any, expected: Any) -> bool:
    """Whether two arrays agree; what is one number for a file is one for each sample here."""
    if found.size != expected.size or (expected.ndim and found.shape != expected.shape):
        return False
    ours, theirs = found.reshape(expected.shape).astype(np.float64), expected.astype(np.float64)
    return bool(np.allclose(ours, theirs, rtol=1e-3, atol=1e-5, equal_nan=True))


@pytest.fixture(scope="module")
def every() -> list[Case]:
    """All cases."""
    return list(cases())


def test_no_case_is_read_wrongly(every: list[Case]) -> None:
    outcomes = {case[0]: outcome(case) for case in every}
    counts = Counter(outcomes.values())
    assert [name for name, found in outcomes.items() if found == "wrong"] == []
    assert counts["right"] > 250, counts
    assert set(counts) <= {"right", "left out", "N206", "N209", "N220", "N221", "N222", "N223"}, counts


def test_a_planted_fault_is_found(every: list[Case], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(elementwise._COMPARISONS, "Greater", ("lt", False))
    assert any(outcome(case) == "wrong" for case in every if case[0].startswith("test_greater"))
