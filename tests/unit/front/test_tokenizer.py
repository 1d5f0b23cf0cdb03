"""Tokenizers: recorded ids of two real models, texts that come back, and text that comes piece by piece."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vocabularies import BLANK, byte_level, spell, spm, texts_of

from bittern.base.errors import BitternError
from bittern.front.gguf import open_gguf
from bittern.front.pretokenizers import PRETOKENIZERS
from bittern.front.tokenizer import Tokenizer
from bittern.front.vocabulary import Kind

SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA3 = "gemma-3-270m-q4_k_m.gguf"


# Recorded ids of llama.cpp


def misses(tokenizer: Tokenizer, cases: list[dict[str, Any]]) -> list[str]:
    """The texts whose ids, plain ids or text again differ from what was recorded."""
    return [
        case["in"]
        for case in cases
        if tokenizer.encode(case["in"], bos=False) != case["ids"]
        or tokenizer.encode(case["in"], bos=False, special=False) != case.get("plain", case["ids"])
        or tokenizer.decode(case["ids"]) != case.get("text", case["in"])
    ]


def recorded(data_dir: Path, name: str) -> list[dict[str, Any]]:
    cases = json.loads((data_dir / "goldens" / "llamacpp_tokenizer.json").read_text())["files"][name]
    assert len(cases) == 103
    return cases


@pytest.fixture(scope="module")
def smollm2_metadata(smollm2: Path) -> dict[str, Any]:
    with open_gguf(smollm2) as checkpoint:
        return dict(checkpoint.metadata)


@pytest.fixture(scope="module")
def gemma3_tokenizer(gemma3: Path, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    with open_gguf(gemma3) as checkpoint:
        return Tokenizer.from_gguf(checkpoint.metadata, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def smollm2_tokenizer(smollm2_metadata: dict[str, Any]) -> Tokenizer:
    return Tokenizer.from_gguf(smollm2_metadata)


def test_smollm2_gives_the_recorded_ids(smollm2_tokenizer: Tokenizer, data_dir: Path) -> None:
    """EDGE_CASES C17: ids equal those of the tokenizer that the model was made with."""
    assert misses(smollm2_tokenizer, recorded(data_dir, SMOLLM2)) == []
    assert (smollm2_tokenizer.vocab_size, smollm2_tokenizer.bos, smollm2_tokenizer.eos) == (49152, 1, 2)
    assert texts_of(smollm2_tokenizer, sorted(smollm2_tokenizer.stop_ids)) == ["<|endoftext|>", "<|im_end|>"]
    assert not smollm2_tokenizer.adds_bos


def test_gemma3_gives_the_recorded_ids(gemma3_tokenizer: Tokenizer, data_dir: Path) -> None:
    assert misses(gemma3_tokenizer, recorded(data_dir, GEMMA3)) == []
    assert (gemma3_tokenizer.vocab_size, gemma3_tokenizer.bos, gemma3_tokenizer.eos) == (262144, 2, 1)
    assert texts_of(gemma3_tokenizer, sorted(gemma3_tokenizer.stop_ids)) == ["<eos>", "<end_of_turn>"]
    assert gemma3_tokenizer.encode("Hello world") == [2, 9259, 1902]


@pytest.mark.parametrize("pre", ["gpt-2", "qwen2", "llama-bpe", "default"])
def test_a_wrong_rule_is_caught_by_the_recorded_ids(smollm2_metadata: dict[str, Any], data_dir: Path, pre: str) -> None:
    wrong = Tokenizer.from_gguf({**smollm2_metadata, "tokenizer.ggml.pre": pre})
    assert misses(wrong, recorded(data_dir, SMOLLM2))


def test_a_swapped_merge_is_caught_by_the_recorded_ids(smollm2_metadata: dict[str, Any], data_dir: Path) -> None:
    merges = list(smollm2_metadata["tokenizer.ggml.merges"])
    wrong = Tokenizer.from_gguf({**smollm2_metadata, "tokenizer.ggml.merges": merges[:200][::-1] + merges[200:]})
    assert misses(wrong, recorded(data_dir, SMOLLM2))


# Byte-level BPE on a small vocabulary


def test_merges_run_in_the_order_of_the_file() -> None:
    first = Tokenizer.from_gguf(byte_level((("a", "b"), ("b", "c"), ("ab", "c"))))
    other = Tokenizer.from_gguf(byte_level((("b", "c"), ("a", "b"), ("a", "bc"))))
    assert texts_of(first, first.encode("abcb")) == ["abc", "b"]
    assert texts_of(other, other.encode("bcab")) == ["bc", "ab"]
    assert texts_of(first, first.encode("bcab")) == ["bc", "ab"]
    assert texts_of(other, other.encode("abc")) == ["abc"]


def test_words_do_not_merge_across_a_cut() -> None:
    tokenizer = Tokenizer.from_gguf(byte_level((("a", "1"), ("a", " "), (" ", "a"))))
    assert texts_of(tokenizer, tokenizer.encode("a1 a a")) == ["a", "1", spell(" a"), spell(" a")]


def test_control_tokens_are_text_when_not_wanted_and_user_tokens_never() -> None:
    tokenizer = Tokenizer.from_gguf(byte_level())
    text = "a<|end|>b<tag><unk>"
    assert "<|end|>" in texts_of(tokenizer, tokenizer.encode(text))
    plain = texts_of(tokenizer, tokenizer.encode(text, special=False))
    assert "<|end|>" not in plain and "<unk>" not in plain and "<tag>" in plain
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode(ids, special=False) == "ab<tag>"


def test_marks_are_added_as_the_file_asks() -> None:
    tokenizer = Tokenizer.from_gguf(byte_level(add_eos_token=True))
    end = tokenizer.eos
    assert tokenizer.encode("a") == [ord("a"), end]
    assert tokenizer.encode("a", eos=False) == [ord("a")]
    with pytest.raises(BitternError, match="F312: The file names no token for bos"):
        tokenizer.encode("a", bos=True)
    llama3 = Tokenizer.from_gguf(byte_level(pre="llama-bpe", bos_token_id=258))
    assert llama3.encode("a") == [258, ord("a")]
    assert llama3.encode("a", bos=False) == [ord("a")]


def test_a_byte_without_token_is_refused_not_dropped() -> None:
    metadata = byte_level()
    metadata["tokenizer.ggml.tokens"][0xC3] = "nothing"
    tokenizer = Tokenizer.from_gguf(metadata)
    assert tokenizer.encode("ab", eos=False) == [ord("a"), ord("b")]
    with pytest.raises(BitternError, match=r"F310: The vocabulary has no token for byte 0xC3, which 'é' needs"):
        tokenizer.encode("é")


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60), st.sampled_from(sorted(PRETOKENIZERS)))
def test_byte_level_gives_every_text_back(text: str, pre: str) -> None:
    tokenizer = _EVERY_RULE[pre]
    assert tokenizer.decode(tokenizer.encode(text, bos=False)) == text
    assert tokenizer.decode(tokenizer.encode(text, bos=False, special=False)) == text


_MERGES = ((" ", "t"), ("t", "h"), ("th", "e"), (" ", " "), ("é", "\u0301"), ("1", "2"), ("12", "3"), ("\n", "\n"))


def _every_rule() -> dict[str, Tokenizer]:
    pairs = tuple(pair for pair in _MERGES if all(len(part.encode()) == 1 or part in ("th", "12") for part in pair))
    return {pre: Tokenizer.from_gguf(byte_level(pairs, pre=pre, bos_token_id=0)) for pre in PRETOKENIZERS}


_EVERY_RULE = _every_rule()


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=10), st.integers(0xD800, 0xDFFF), st.text(max_size=10))
def test_a_lone_surrogate_is_refused_at_its_place(before: str, surrogate: int, after: str) -> None:
    with pytest.raises(BitternError, match=f"F309: The text has the lone surrogate U\\+{surrogate:04X}") as caught:
        _EVERY_RULE["gpt-2"].encode(before + chr(surrogate) + after)
    assert f"at character {len(before)}." in caught.value.what


def test_spm_blanks_and_marks() -> None:
    pieces = {BLANK: -1.0, "a": -2.0, BLANK + "a": -3.0, "b": -4.0}
    plain = Tokenizer.from_gguf(spm(pieces))
    assert texts_of(plain, plain.encode("a a")) == ["<s>", "a", BLANK + "a"]
    prefixed = Tokenizer.from_gguf(spm(pieces, add_space_prefix=True))
    assert texts_of(prefixed, prefixed.encode("a<s>a a")) == ["<s>", BLANK + "a", "<s>", BLANK + "a", BLANK + "a"]
    assert prefixed.decode(prefixed.encode("a a"), special=False) == "a a"
    assert prefixed.decode(prefixed.encode("a", bos=False), start=False) == " a"
    squeezed = Tokenizer.from_gguf(spm(pieces, remove_extra_whitespaces=True))
    assert texts_of(squeezed, squeezed.encode("  a   a ", bos=False)) == ["a", BLANK + "a"]
    assert plain.encode("", bos=False) == [] and prefixed.encode("", bos=False) == []


def test_spm_without_byte_tokens_refuses_what_it_cannot_spell() -> None:
    metadata = spm({"a": -1.0, "b": -2.0, "ab": -3.0})
    keep = [at for at, text in enumerate(metadata["tokenizer.ggml.tokens"]) if not text.startswith("<0x")]
    for key in ("tokens", "token_type", "scores"):
        column = metadata[f"tokenizer.ggml.{key}"]
        metadata[f"tokenizer.ggml.{key}"] = [column[at] for at in keep]
    tokenizer = Tokenizer.from_gguf(metadata)
    assert texts_of(tokenizer, tokenizer.encode("aba", bos=False)) == ["ab", "a"]
    with pytest.raises(BitternError, match="F310: The vocabulary has no token for byte 0xC3"):
        tokenizer.encode("aé")


def test_user_tokens_are_taken_whole_before_merges() -> None:
    tokenizer = Tokenizer.from_gguf(spm({"a": -1.0, BLANK: -2.0}, {"  ": Kind.USER_DEFINED, "    ": Kind.USER_DEFINED}))
    assert texts_of(tokenizer, tokenizer.encode("a       a", bos=False)) == ["a", "    ", "  ", BLANK, "a"]


def test_unused_tokens_print_nothing_and_bytes_print_themselves() -> None:
    tokenizer = Tokenizer.from_gguf(spm({"a": -1.0}, {"gone": Kind.UNUSED}))
    assert tokenizer.piece(tokenizer.vocab_size - 1) == b""
    assert tokenizer.piece(3 + 0xE2) == b"\xe2"
    assert tokenizer.decode([3 + 0xE2, 3 + 0x82, 3 + 0xAC]) == "€"
    assert tokenizer.decode([3 + 0xE2, 3 + 0x82]) == "\ufffd"


# Streaming


def streamed(tokenizer: Tokenizer, ids: list[int], special: bool) -> str:
    stream = tokenizer.stream(special=special)
    return "".join([stream.push(number) for number in ids] + [stream.flush()])


_SMALL_SPM = Tokenizer.from_gguf(spm({BLANK: -1.0, BLANK + "é": -2.0, "é": -3.0}, add_space_prefix=True))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, _SMALL_SPM.vocab_size - 1), max_size=40), st.booleans())
def test_streaming_equals_decoding_for_any_ids(ids: list[int], special: bool) -> None:
    assert streamed(_SMALL_SPM, ids, special) == _SMALL_SPM.decode(ids, special=special)
    shifted = [number % _EVERY_RULE["gpt-2"].vocab_size for number in ids]
    assert streamed(_EVERY_RULE["gpt-2"], shifted, special) == _EVERY_RULE["gpt-2"].decode(shifted, special=special)


@settings(max_examples=100, deadline=None)
@given(st.text(min_size=1, max_size=30))
def test_streaming_never_shows_half_a_character(text: str) -> None:
    tokenizer = _EVERY_RULE["gpt-2"]
    stream, shown = tokenizer.stream(), ""
    for number in tokenizer.encode(text, bos=False, special=False):
        shown += stream.push(number)
        assert text.startswith(shown)
    assert shown == text and stream.flush() == ""


@pytest.mark.parametrize("number", [-1, 1 << 40])
def test_ids_outside_of_the_vocabulary_are_refused(number: int) -> None:
    with pytest.raises(BitternError, match=f"F311: {number} is not a token of this model"):
        _SMALL_SPM.decode([number])
    with pytest.raises(BitternError, match="F311"):
        _SMALL_SPM.text(number)


# Length


LONG = {
    "one letter": "a" * 1_000_000,
    "blanks": " " * 100_000,
    "line ends": "\n" * 300_000,
    "digits": "7" * 300_000,
    "signs": "." * 300_000,
    "marks": "é\u0301" * 100_000,
    "nul": "\0" * 300_000,
    "almost special": "<|im_start" * 30_000,
    "special": "<|im_end|><end_of_turn><unused7>" * 20_000,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_long_texts_end_in_time(text: str, smollm2_tokenizer: Tokenizer) -> None:
    for tokenizer in (smollm2_tokenizer, _SMALL_SPM):
        begun = time.process_time()
        tokenizer.encode(text)
        assert time.process_time() - begun < 10


def test_long_texts_end_in_time_where_scores_are_equal() -> None:
    tokenizer = Tokenizer.from_gguf(spm({"a": 0.0, "aa": 0.0, "aaa": 0.0, "aaaa": 0.0}))
    assert len(tokenizer.encode("a" * 100_000, bos=False)) <= 50_000
