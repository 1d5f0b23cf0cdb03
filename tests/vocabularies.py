"""Metadata of small vocabularies, made by hand for the tests of tokenizers."""

from typing import Any

import numpy as np

from bittern.front.tokenizer import Tokenizer
from bittern.front.vocabulary import Kind

BLANK = "\u2581"


def letter(value: int) -> str:
    """The letter of a byte, from the definition: bytes that print stand for themselves, the others follow U+0100."""
    prints = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return chr(value) if value in prints else chr(256 + [v for v in range(256) if v not in prints].index(value))


def spell(text: str) -> str:
    return "".join(letter(value) for value in text.encode())


def byte_level(merges: tuple[tuple[str, str], ...] = (), pre: str = "gpt-2", **more: Any) -> dict[str, Any]:
    """Metadata of a small byte-level vocabulary: all bytes, what the merges make, and three special tokens."""
    tokens = [letter(value) for value in range(256)]
    tokens += dict.fromkeys(spell(left + right) for left, right in merges)
    special = {"<|end|>": Kind.CONTROL, "<tag>": Kind.USER_DEFINED, "<unk>": Kind.UNKNOWN}
    kinds = [Kind.NORMAL] * len(tokens) + [*special.values()]
    tokens += special
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array(kinds, np.int32),
        "tokenizer.ggml.merges": [f"{spell(left)} {spell(right)}" for left, right in merges],
        "tokenizer.ggml.eos_token_id": len(tokens) - 3,
        **{f"tokenizer.ggml.{key}": value for key, value in more.items()},
    }


def spm(pieces: dict[str, float], special: dict[str, Kind] | None = None, **more: Any) -> dict[str, Any]:
    """Metadata of a small SentencePiece vocabulary: marks, all byte tokens, the pieces with their scores."""
    rows = [("<unk>", Kind.UNKNOWN, 0.0), ("<s>", Kind.CONTROL, 0.0), ("</s>", Kind.CONTROL, 0.0)]
    rows += [(f"<0x{value:02X}>", Kind.BYTE, 0.0) for value in range(256)]
    rows += [(text, Kind.NORMAL, score) for text, score in pieces.items()]
    rows += [(text, kind, -1000.0) for text, kind in (special or {}).items()]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [text for text, _, _ in rows],
        "tokenizer.ggml.token_type": np.array([kind for _, kind, _ in rows], np.int32),
        "tokenizer.ggml.scores": np.array([score for _, _, score in rows], np.float32),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_space_prefix": False,
        **{f"tokenizer.ggml.{key}": value for key, value in more.items()},
    }


def texts_of(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    return [tokenizer.text(number) for number in ids]
