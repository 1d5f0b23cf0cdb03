"""Mutated tokenizers: the metadata of GGUF files, and tokenizer.json. A refusal by code, or ids inside the vocabulary.

By hand: `python tests/fuzz/test_tokenizer_fuzz.py SECONDS [SEED]`, or `--case SEED NUMBER`.
"""

import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

import fuzzing
import numpy as np
from hostile import TOKENIZER
from vocabularies import byte_level, letter, spm

from bittern.base.errors import BitternError
from bittern.front.tokenizer import Tokenizer
from bittern.front.tokenizer_json import folder_tokenizer

SECONDS = 0.5  # of processor time, for one tokenizer and some short texts
TEXTS = (
    "",
    "a",
    "ab q",
    " Hello  world! 123\n\n",
    "é日本 \U0001f600",
    "<|end|><s></s>x",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaa!",
)
Case = tuple[str, Any]

_METADATA = (
    byte_level((("h", "e"), ("he", "l"), ("l", "o"))),
    byte_level((("a", "b"),), pre="llama-bpe"),
    byte_level((("1", "2"),), pre="qwen2"),
    spm({"\u2581": -1.0, "a": -2.0, "ab": -3.0, "\u2581a": -1.5, "q": -4.0}, {}),
    spm({"h": -1.0, "he": -2.0}, add_space_prefix=True, remove_extra_whitespaces=True),
)
_SPARE_KEYS = (
    "gpt2",
    "llama",
    "bert",
    "default",
    "gpt-2",
    "llama-bpe",
    [1, 2],
    ["a", "a"],
    np.array([1.5]),
    np.array([[1]]),
)
_REGEX = r"'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LETTERS = {letter(value): value for value in range(256)}
_PARTS: tuple[dict[str, Any], ...] = (
    {"type": "NFC"},
    {"type": "NFKD"},
    {"type": "Lowercase"},
    {"type": "StripAccents"},
    {"type": "Strip", "strip_left": True, "strip_right": False},
    {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    {"type": "Prepend", "prepend": "\u2581"},
    {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    },
    {"type": "Precompiled", "precompiled_charsmap": "BAAAAAAAAAAA"},
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    {"type": "Split", "pattern": {"Regex": _REGEX}, "behavior": "Isolated", "invert": False},
    {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
    {"type": "Whitespace"},
    {"type": "Digits", "individual_digits": True},
    {"type": "BertPreTokenizer"},
)
_TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [256], "tokens": ["<s>"]}},
}
_ADDED = {
    "id": 256,
    "content": "<s>",
    "single_word": False,
    "lstrip": False,
    "rstrip": False,
    "normalized": False,
    "special": True,
}
_MODELS: tuple[dict[str, Any], ...] = (
    {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "vocab": _LETTERS,
        "merges": [],
    },
    {
        "type": "BPE",
        "vocab": {"a": 0, "b": 1, "ab": 2, "<0x41>": 3},
        "merges": ["a b"],
        "unk_token": "a",
        "byte_fallback": True,
    },
    {
        "type": "WordPiece",
        "vocab": {"[UNK]": 0, "a": 1, "##b": 2},
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
    },
    {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"},
    {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0], ["ab", -2.0]], "byte_fallback": False},
)


def case(seed: int, number: int) -> Case:
    """Return a mutated tokenizer: `gguf` with metadata, or `json` with a file."""
    chance = random.Random(f"{seed}:{number}")
    if chance.random() < 0.3:
        keys = dict(chance.choice(_METADATA))
        for _ in range(chance.choice((1, 1, 2))):
            _mutate_key(chance, keys)
        return "gguf", keys
    data = TOKENIZER | {"model": chance.choice(_MODELS), "normalizer": _parts(chance, "normalizers")}
    data |= {"pre_tokenizer": _parts(chance, "pretokenizers")}
    if data["model"] is _MODELS[0] and chance.random() < 0.5:
        data |= {"post_processor": _TEMPLATE, "added_tokens": [_ADDED]}
    if chance.random() < 0.8:
        data = fuzzing.mutated_json(chance, data, [*_PARTS, _TEMPLATE, [_ADDED], {"Regex": "(a|a)*b"}, "A" * 300])
    text = json.dumps(data).encode()
    return "json", fuzzing.mutated_bytes(chance, text) if chance.random() < 0.1 else text


def _parts(chance: random.Random, key: str) -> Any:
    chosen = chance.choices(_PARTS, k=chance.randrange(4))
    return {"type": "Sequence", key: chosen} if len(chosen) > 1 else chosen[0] if chosen else None


def _mutate_key(chance: random.Random, keys: dict[str, Any]) -> None:
    name = chance.choice(sorted(keys))
    value = keys[name]
    match chance.randrange(4):
        case 0:
            del keys[name]
        case 1 if isinstance(value, (list, np.ndarray)) and len(value):
            made = list(value)
            made[chance.randrange(len(made))] = chance.choice((*value[:9], *value[-3:], *fuzzing.VALUES))
            keys[name] = made
        case 2 if isinstance(value, (list, np.ndarray)):
            keys[name] = value[: chance.randrange(len(value) + 1)]
        case _:
            keys[name] = chance.choice((*fuzzing.VALUES, *_SPARE_KEYS, *keys.values()))


def judge(made: Case) -> str:
    """Make a tokenizer and use it; return its outcome. Errors: AssertionError, for foreign ids too."""
    kind, data = made
    with tempfile.TemporaryDirectory() as folder:
        if kind == "json":
            (Path(folder) / "tokenizer.json").write_bytes(data)

        def read() -> None:
            tokenizer = Tokenizer.from_gguf(data) if kind == "gguf" else folder_tokenizer(Path(folder))
            assert tokenizer is not None
            for text in TEXTS:
                _use(tokenizer, text)

        return f"{kind} {fuzzing.outcome_of(read, SECONDS)}"


def _use(tokenizer: Tokenizer, text: str) -> None:
    try:
        ids = tokenizer.encode(text)
    except BitternError as error:
        assert error.code in ("F310", "F316"), error  # this text has a byte that no token spells
        return
    assert all(0 <= number < tokenizer.vocab_size for number in ids), ids
    tokenizer.decode(ids)
    assert ids == tokenizer.encode(text), "the same text has other ids"


def test_mutated_tokenizers() -> None:
    outcomes = fuzzing.run(2.0, fuzzing.fresh_seed(), case, judge)
    assert outcomes["json accepted"] and outcomes["gguf accepted"] and len(outcomes) > 6, outcomes


if __name__ == "__main__":
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))  # a fault in here must not eat the machine
    fuzzing.main(sys.argv[1:], case, judge)
