"""The random ternary model: a file that both readers take, whose plan is made of kernels alone."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import gguf
import numpy as np
import pytest

from bittern.front.bind import bind_checkpoint
from bittern.front.gguf import open_gguf
from bittern.lang.library import Library
from bittern.plan.planner import plan_of
from bittern.plan.rules import KNOWN, RULES

BENCH = Path(__file__).resolve().parents[3] / "bench"


@pytest.fixture
def ternary_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module bench/ternary_model.py."""
    monkeypatch.syspath_prepend(str(BENCH))
    import ternary_model

    yield ternary_model
    sys.modules.pop("ternary_model", None)


@pytest.mark.req("K062")
@pytest.mark.parametrize("form", ["tq2_0", "tq1_0"])
def test_blocks_decode_to_a_third_of_each_digit(form: str, ternary_model: ModuleType) -> None:
    made = ternary_model.ternary(8, 512, form, np.random.default_rng(3))
    kind = gguf.GGMLQuantizationType[form.upper()]
    values = gguf.quants.dequantize(np.frombuffer(made, np.uint8).reshape(8, -1), kind)
    found, counts = np.unique(np.round(values * np.sqrt(512)), return_counts=True)
    assert found.tolist() == [-1, 0, 1]
    assert counts.min() > 0.8 * counts.max() * 0.9


@pytest.mark.req("K023")
@pytest.mark.parametrize("tokens", [1, None])
def test_its_plan_has_no_generic_launch(
    tokens: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ternary_model: ModuleType
) -> None:
    for name, size in {"WIDE": 512, "INNER": 768, "HEADS": 4, "KEYS": 2}.items():
        monkeypatch.setattr(ternary_model, name, size)
    path = tmp_path / "ternary.gguf"
    assert ternary_model.main([str(path), "--layers", "1"]) == 0
    with open_gguf(path) as checkpoint:
        bound = bind_checkpoint(checkpoint, Library.standard())
        sizes = {1: 1, 2: 512, **({} if tokens is None else {0: tokens})}
        plan = plan_of(bound.forward, RULES, KNOWN, bound.library, sizes)
    rules = [region.rule for region in plan.regions]
    assert "generic" not in rules
    assert rules.count("ternary_product") == 5 and rules.count("ternary_and_residual") == 2
