"""A real encoder, all-MiniLM-L6-v2, against `transformers` in float64 (`minilm/record.py` says how it was recorded)."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bittern
from bittern.runtime.encoder_bringup import bring_up_encoder, cosine

ROWS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "minilm" / "oracle.json").read_text("utf-8"))
# The program holds 1 / sqrt(32), which scales the queries, as an f32.
BOUNDS = {"reference": 3e-8, "vm": 5e-6}


@pytest.mark.req("L01", "L03")
@pytest.mark.parametrize("on", sorted(BOUNDS))
def test_vectors_equal_the_oracle(on: str, minilm: Path) -> None:
    with bittern.load_encoder(minilm, chip=on) as encoder:
        for row in ROWS:
            assert encoder.bound.checkpoint.kind == "huggingface"
            found = encoder.embed(row["text"])
            assert np.abs(found - row["mean"]).max() < BOUNDS[on], row["text"]
            assert cosine(found, np.array(row["mean"])) > 1 - 1e-10


def test_ids_equal_the_oracle(minilm: Path) -> None:
    """Edge case C17: accents, capitals, other scripts and emoji."""
    with bittern.load_encoder(minilm) as encoder:
        assert encoder.tokenizer is not None
        assert [encoder.tokenizer.encode(row["text"]) for row in ROWS] == [row["ids"] for row in ROWS]


def test_bringup(minilm: Path) -> None:
    report = bring_up_encoder(minilm, prompt=ROWS[0]["text"], chips=("reference", "vm"))
    assert list(report.tokens_prompt) == ROWS[0]["ids"]
    reference, strict = report.chips
    assert (reference.chip, reference.cosine, reference.error) == ("reference", pytest.approx(1), 0)
    assert strict.cosine is not None and strict.cosine > 1 - 1e-10 and strict.error is not None and strict.error < 1e-5
    assert report.norm == pytest.approx(float(np.linalg.norm(ROWS[0]["mean"])), rel=1e-6)


def test_meanings_are_told_apart(minilm: Path) -> None:
    """The comparison can fail: vectors of other texts are far away."""
    with bittern.load_encoder(minilm) as encoder:
        first, second, third = (encoder.embed(row["text"]) for row in ROWS[:3])
    assert cosine(first, second) > 0.7 and abs(cosine(first, third)) < 0.1
    assert np.abs(first - second).max() > 0.1
