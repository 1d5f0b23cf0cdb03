"""Batch, chunks, sequences and repetition never change a bit of the logits on a strict chip."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import tiny_models

from bittern.chips.chip import Loaded, chip
from bittern.runtime.binding import bound_model
from bittern.runtime.model import open_checkpoint

LENGTH = 530  # past the first chunk of 512 positions
CONTEXT = 544


def _loaded(folder: Path, data: bytes, cache: str) -> Loaded:
    checkpoint = open_checkpoint(tiny_models.save(folder, data), None)
    return chip("vm").load(bound_model(checkpoint, cache))


def _tokens(count: int, seed: int = 5) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, 100, count)]


def _run(loaded: Loaded, tokens: Sequence[int], cuts: Sequence[int]) -> str:
    """Run tokens in calls that end at the cuts; return the digest of all logits."""
    session = loaded.start(CONTEXT)
    whole = hashlib.sha256()
    low = 0
    for high in [*cuts, len(tokens)]:
        part = np.array(tokens[low:high], np.uint32)
        hidden = session.forward(part, np.zeros(len(part), np.uint32), np.arange(low, high, dtype=np.uint32))
        whole.update(np.asarray(session.logits(hidden), "<f4").tobytes())
        low = high
    return whole.hexdigest()


CASES = [("llama", "f16"), ("llama", "f32"), ("llama", "int8"), ("gemma3", "f16"), ("gemma3", "int8")]


@pytest.mark.req("K047", "L06")
@pytest.mark.parametrize(("family", "cache"), CASES)
def test_split_anywhere(family: str, cache: str, tmp_path: Path) -> None:
    """EDGE_CASES C1: what is in the cache already never changes a bit."""
    shape = tiny_models.Shape(layers=2 if family == "llama" else 6)
    data = getattr(tiny_models, family)("q8_0", shape)
    loaded = _loaded(tmp_path, data, cache)
    tokens = _tokens(LENGTH)
    once = _run(loaded, tokens, [])
    assert _run(loaded, tokens, [1]) == once
    assert _run(loaded, tokens, [511, 512, 513]) == once
    assert _run(loaded, tokens, [7, 71, 135, 519]) == once
    assert _run(loaded, tokens, []) == once, "a second run differs"


@pytest.mark.req("K047", "L06")
def test_one_by_one(tmp_path: Path) -> None:
    loaded = _loaded(tmp_path, tiny_models.llama("q4_1"), "f16")
    tokens = _tokens(40)
    assert _run(loaded, tokens, list(range(1, 40))) == _run(loaded, tokens, [])


@pytest.mark.req("K047", "L06")
def test_batch_of_sequences(tmp_path: Path) -> None:
    """Four sequences of unequal length in one batch, in a mixed order, equal each of them alone."""
    loaded = _loaded(tmp_path, tiny_models.llama("q4_1"), "f16")
    texts = [_tokens(length, seed) for seed, length in enumerate((9, 17, 1, 23))]
    alone = []
    for text in texts:
        session = loaded.start(32)
        hidden = session.forward(
            np.array(text, np.uint32), np.zeros(len(text), np.uint32), np.arange(len(text), dtype=np.uint32)
        )
        alone.append(np.asarray(session.logits(hidden), "<f4"))
    places = [(s, p) for s, text in enumerate(texts) for p in range(len(text))]
    order = np.random.default_rng(3).permutation(len(places))
    session = loaded.start(32, 4)
    sequence = np.array([places[i][0] for i in order], np.uint32)
    position = np.array([places[i][1] for i in order], np.uint32)
    token = np.array([texts[places[i][0]][places[i][1]] for i in order], np.uint32)
    mixed = np.asarray(session.logits(session.forward(token, sequence, position)), "<f4")
    for row, i in enumerate(order):
        s, p = places[i]
        assert mixed[row].tobytes() == alone[s][p].tobytes(), (s, p)


def test_padding_tokens_change_nothing(tmp_path: Path) -> None:
    """A token whose position lies outside the context is computed, but writes nothing."""
    loaded = _loaded(tmp_path, tiny_models.llama("q4_1"), "f16")
    text = np.array(_tokens(6), np.uint32)
    place = np.arange(6, dtype=np.uint32)
    plain, padded = loaded.start(16), loaded.start(16)
    one = plain.forward(text, np.zeros(6, np.uint32), place)
    extra = np.append(text, [3, 4]).astype(np.uint32)
    two = padded.forward(extra, np.zeros(8, np.uint32), np.append(place, [16, 4_000_000_000]).astype(np.uint32))
    assert two[:6].tobytes() == one.tobytes()
    after = [s.forward(text[:1], np.zeros(1, np.uint32), np.array([6], np.uint32)) for s in (plain, padded)]
    assert after[0].tobytes() == after[1].tobytes()


def test_the_digest_can_differ(tmp_path: Path) -> None:
    """The comparison is able to fail: one token changed in the middle changes the digest."""
    loaded = _loaded(tmp_path, tiny_models.llama("q4_1"), "f16")
    tokens = _tokens(20)
    changed = [*tokens[:10], (tokens[10] + 1) % 100, *tokens[11:]]
    assert _run(loaded, tokens, []) != _run(loaded, changed, [])
