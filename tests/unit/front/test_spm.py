"""SentencePiece merges against their definition, run the slow way, and the cache of what is derived."""

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vocabularies import BLANK, spm, texts_of

from bittern.front.gguf import open_gguf
from bittern.front.tokenizer import Tokenizer

# SentencePiece against the rule, run the slow way


def slow_pieces(text: str, scores: dict[str, float]) -> list[str]:
    """The definition: again and again join the neighbours with the highest score, the leftmost of equals."""
    pieces = list(text)
    while True:
        pairs = [(scores[a + b], -at) for at, (a, b) in enumerate(pairwise(pieces)) if a + b in scores]
        if not pairs:
            return pieces
        at = -max(pairs)[1]
        pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]


def slow_ids(text: str, metadata: dict[str, Any]) -> list[int]:
    tokens = metadata["tokenizer.ggml.tokens"]
    scores = dict(zip(tokens, metadata["tokenizer.ggml.scores"].tolist(), strict=True))
    found: list[int] = []
    for piece in slow_pieces(text.replace(" ", BLANK), scores):
        found += [tokens.index(piece)] if piece in tokens else [tokens.index(f"<0x{v:02X}>") for v in piece.encode()]
    return found


def vocabularies(distinct: bool) -> Iterator[tuple[int, dict[str, Any], list[str]]]:
    """Random vocabularies over few letters, where overlaps are frequent; not every letter is a token by itself."""
    for seed in range(120):
        draw = random.Random(seed)
        letters = "ab" + BLANK + "é"[: draw.randrange(2)]
        words = {
            "".join(draw.choices(letters, k=draw.choice([1, 2, 2, 3, 3, 4, 5, 6])))
            for _ in range(draw.randrange(3, 30))
        }
        ranks = draw.sample(range(100), len(words)) if distinct else [draw.randrange(4) for _ in words]
        metadata = spm({word: -float(rank) for word, rank in zip(sorted(words), ranks, strict=True)})
        yield (
            seed,
            metadata,
            ["".join(draw.choices("ab é\U0001f600", [9, 9, 6, 2, 1], k=draw.randrange(1, 25))) for _ in range(25)],
        )


@pytest.mark.parametrize("distinct", [True, False], ids=["distinct scores", "equal scores"])
def test_spm_merges_as_the_definition_says(distinct: bool, tmp_path: Path) -> None:
    for seed, metadata, texts in vocabularies(distinct):
        for cache in (None, tmp_path, tmp_path):
            tokenizer = Tokenizer.from_gguf(metadata, cache)
            for text in texts:
                assert tokenizer.encode(text, bos=False) == slow_ids(text, metadata), (seed, text)


def test_the_slow_way_catches_a_wrong_score() -> None:
    metadata = spm({"a": -5, "b": -6, "ab": -1, "ba": -2})
    wrong = spm({"a": -5, "b": -6, "ab": -2, "ba": -1})
    assert Tokenizer.from_gguf(wrong).encode("aba", bos=False) != slow_ids("aba", metadata)


def test_gemma3_merges_as_the_definition_says(gemma3: Path) -> None:
    with open_gguf(gemma3) as checkpoint:
        metadata = checkpoint.metadata
    tokenizer = Tokenizer.from_gguf(metadata)
    tokens, scores = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.scores"]
    table = dict(zip(tokens, np.asarray(scores).tolist(), strict=True))
    draw = random.Random(7)
    for _ in range(200):
        text = "".join(draw.choice(tokens[1000:250000]) for _ in range(draw.randrange(1, 6))).replace(BLANK, "")
        wanted = slow_pieces(text, table)
        if all(piece in table for piece in wanted) and not set(text) & set(" \n\t<["):
            assert texts_of(tokenizer, tokenizer.encode(text, bos=False)) == wanted, text


# The cache


def test_the_cache_is_used_checked_and_rebuilt(tmp_path: Path) -> None:
    metadata = spm({"a": -1.0, "b": -2.0, "ab": -3.0, "aba": -4.0})
    wanted = Tokenizer.from_gguf(metadata).encode("ababab")
    assert Tokenizer.from_gguf(metadata, tmp_path / "deep").encode("ababab") == wanted
    (kept,) = (tmp_path / "deep").iterdir()
    whole = kept.read_bytes()
    for damaged in (b"", whole[:-1], whole[:-12], whole + whole[-12:], whole[:60] + b"\7" + whole[61:], b"x" * 500):
        kept.write_bytes(damaged)
        assert Tokenizer.from_gguf(metadata, tmp_path / "deep").encode("ababab") == wanted
        assert kept.read_bytes() == whole
    assert [path.name for path in (tmp_path / "deep").iterdir()] == [kept.name]


def test_other_vocabularies_have_other_places_in_the_cache(tmp_path: Path) -> None:
    for pieces in ({"a": -1.0, "b": -2.0}, {"a": -2.0, "b": -1.0}, {"a": -1.0, "c": -2.0}, {"ab": -1.0, "": -2.0}):
        Tokenizer.from_gguf(spm(pieces), tmp_path)
    assert len(list(tmp_path.iterdir())) == 4


def test_a_cache_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert Tokenizer.from_gguf(spm({"a": -1.0}), tmp_path / "file").encode("a", bos=False) == [259]
