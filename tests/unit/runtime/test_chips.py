"""Every chip there is: its interface, and for strict ones the bits of the definitions, without any kernel."""

from pathlib import Path

import numpy as np
import pytest
import tiny_models

from bittern.base.errors import BitternError
from bittern.chips.chip import Loaded, chip, chip_names
from bittern.chips.evaluated import EvaluatedModel
from bittern.graph.evaluate import World
from bittern.runtime.binding import bound_model
from bittern.runtime.bringup import bring_up
from bittern.runtime.decode import run_rows
from bittern.runtime.model import open_checkpoint

STRICT = [name for name in chip_names() if chip(name).is_strict]
TOKENS = [1, 5, 9, 2, 7]


def test_chips_are_folders() -> None:
    assert {"reference", "vm"} <= set(chip_names()) and chip_names()[0] == "reference"
    for name in chip_names():
        made = chip(name)
        assert made.name == name and made.tier and made.mode in ("hardware", "emulated", "model")
    with pytest.raises(BitternError, match=r"R101.*Did you mean `reference`\?"):
        chip("referense")


def logits(loaded: Loaded) -> bytes:
    """Return the bits of the logits after each token: a prompt of several, then one by one."""
    session = loaded.start(len(TOKENS))
    rows = [run_rows(session, TOKENS[:3]), *(run_rows(session, [t], 3 + i) for i, t in enumerate(TOKENS[3:]))]
    return np.asarray(session.logits(np.concatenate(rows)), "<f4").tobytes()


@pytest.mark.parametrize("cache", ["f16", "f32", "int8"])
@pytest.mark.parametrize("element", ["q4_1", "q8_0", "f16"])
@pytest.mark.parametrize("name", STRICT)
def test_a_strict_chip_has_the_bits_of_the_definitions(name: str, element: str, cache: str, tmp_path: Path) -> None:
    with open_checkpoint(tiny_models.save(tmp_path, tiny_models.llama(element)), None) as checkpoint:
        bound = bound_model(checkpoint, cache)
        assert logits(chip(name).load(bound)) == logits(EvaluatedModel(bound, World()))


@pytest.mark.parametrize("name", STRICT)
def test_a_strict_chip_on_gemma(name: str, tmp_path: Path) -> None:
    with open_checkpoint(tiny_models.save(tmp_path, tiny_models.gemma3()), None) as checkpoint:
        bound = bound_model(checkpoint, "f16")
        assert logits(chip(name).load(bound)) == logits(EvaluatedModel(bound, World()))


def test_all_strict_chips_report_one_digest(tmp_path: Path) -> None:
    path = tiny_models.save(tmp_path, tiny_models.llama())
    report = bring_up(path, tokens=TOKENS, count=6)
    digests = {row.chip: row.logits_sha256 for row in report.chips if row.chip in STRICT and row.status == "ran"}
    assert digests and len(set(digests.values())) == 1, digests


def test_other_bits_are_told_apart(tmp_path: Path) -> None:
    """The comparison can fail: another cache has other bits."""
    with open_checkpoint(tiny_models.save(tmp_path, tiny_models.llama()), None) as checkpoint:
        found = {cache: logits(chip("vm").load(bound_model(checkpoint, cache))) for cache in ("f16", "f32")}
    assert found["f16"] != found["f32"]
