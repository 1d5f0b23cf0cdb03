"""Tokenizers: recorded ids of two real models, an oracle that merges the slow way, and files that lie."""

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bittern.base.errors import BitternError
from bittern.front.gguf import open_gguf
from bittern.front.pretokenizers import PRETOKENIZERS, find_pretokenizer
from bittern.front.splitter import Splitter
from bittern.front.tokenizer import Tokenizer
from bittern.front.vocabulary import Kind

BLANK = "\u2581"
SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA3 = "gemma-3-270m-q4_k_m.gguf"


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


CUTS = [
    ("gpt-2", "I'm 1234x  y\n\n z!?", ["I", "'m", " 1234", "x", " ", " y", "\n\n", " z", "!?"]),
    ("smollm", "a 123", ["a", " ", "1", "2", "3"]),
    (
        "llama-bpe",
        "I'LL 12345 don't\r\n\r\n  x!\n",
        ["I", "'LL", " ", "123", "45", " don", "'t", "\r\n\r\n", " ", " x", "!\n"],
    ),
    ("qwen2", "ab 12\n", ["ab", " ", "1", "2", "\n"]),
    ("default", "a+1234", ["a", "+", "123", "4"]),
    ("falcon", "a`1234", ["a", "`", "123", "4"]),
    ("tekken", "HelloWorld 12/", ["Hello", "World", " ", "1", "2", "/"]),
    ("gpt-4o", "HelloWORLD's 1234", ["Hello", "WORLD's", " ", "123", "4"]),
    ("deepseek-v3", "中文abc 1234", ["中文", "abc", " ", "123", "4"]),
    ("viking", "ab, c1d", ["ab", ",", " c", "1", "d"]),
]


@pytest.mark.parametrize(("pre", "text", "words"), CUTS, ids=[row[0] for row in CUTS])
def test_each_rule_cuts_where_it_says(pre: str, text: str, words: list[str]) -> None:
    from tokenizers import Regex, pre_tokenizers

    rule = find_pretokenizer(pre)
    cuts = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(one), "isolated") for one in rule.expressions])
    assert [word for word, _ in cuts.pre_tokenize_str(text)] == words


def test_an_unknown_rule_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(BitternError, match="F302") as caught:
        Tokenizer.from_gguf(byte_level(pre="smolm"))
    assert "`smolm`" in caught.value.what and "`smollm`" in caught.value.remedy


# SentencePiece against the rule, run the slow way


def slow_pieces(text: str, scores: dict[str, float]) -> list[str]:
    """The definition: again and again join the neighbours with the highest score, the leftmost of equals."""
    pieces = list(text)
    while True:
        pairs = [
            (scores[a + b], -at) for at, (a, b) in enumerate(zip(pieces, pieces[1:], strict=False)) if a + b in scores
        ]
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


def test_gemma3_merges_as_the_definition_says(gemma3_tokenizer: Tokenizer, gemma3: Path) -> None:
    with open_gguf(gemma3) as checkpoint:
        metadata = checkpoint.metadata
    tokens, scores = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.scores"]
    table = dict(zip(tokens, np.asarray(scores).tolist(), strict=True))
    draw = random.Random(7)
    for _ in range(200):
        text = "".join(draw.choice(tokens[1000:250000]) for _ in range(draw.randrange(1, 6))).replace(BLANK, "")
        wanted = slow_pieces(text, table)
        if all(piece in table for piece in wanted) and not set(text) & set(" \n\t<["):
            assert texts_of(gemma3_tokenizer, gemma3_tokenizer.encode(text, bos=False)) == wanted, text


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


# Whole tokens


def slow_split(text: str, rows: list[tuple[str, int]]) -> list[str | int]:
    """The definition: for each token, longest first, cut it out of every stretch of text, from the left."""
    parts: list[str | int] = [text]
    for token, number in sorted(rows, key=lambda row: (-len(row[0].encode()), row[1])):
        cut: list[str | int] = []
        for part in parts:
            pieces = part.split(token) if isinstance(part, str) else [part]
            for at, piece in enumerate(pieces):
                cut += ([number] if at else []) + ([piece] if piece != "" else [])
        parts = cut
    return parts


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.text("ab\né<", min_size=1, max_size=5), min_size=1, max_size=12, unique=True),
    st.text("ab\né<", max_size=40),
)
def test_splitter_cuts_the_longest_token_first(tokens: list[str], text: str) -> None:
    rows = [(token, 100 + at) for at, token in enumerate(tokens)]
    assert Splitter(rows).split(text) == slow_split(text, rows)


def test_splitter_is_not_leftmost_first() -> None:
    rows = [("ab", 1), ("bcd", 2)]
    assert Splitter(rows).split("abcd") == ["a", 2]


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


# Files that lie


def changed(**more: Any) -> dict[str, Any]:
    return {**spm({"a": -1.0}), **{f"tokenizer.ggml.{key}": value for key, value in more.items()}}


def with_merge(line: str) -> dict[str, Any]:
    return {**byte_level(), "tokenizer.ggml.merges": [line]}


LIES = {
    "unknown model": (changed(model="lama"), "F301", "`tokenizer.ggml.model` is `lama`"),
    "model no text": (changed(model=3), "F304", "`tokenizer.ggml.model` must be a text"),
    "no model": ({}, "F303", "no `tokenizer.ggml.model`"),
    "unknown rule for pieces": (changed(pre="qwen"), "F302", "`tokenizer.ggml.pre` is `qwen`"),
    "no tokens": (changed(tokens=None), "F303", "no `tokenizer.ggml.tokens`"),
    "empty tokens": (changed(tokens=[]), "F305", "`tokenizer.ggml.tokens` is empty"),
    "tokens no texts": (changed(tokens=[1, 2]), "F304", "`tokenizer.ggml.tokens` must be a list of texts"),
    "tokens one text": (changed(tokens="abc"), "F304", "`tokenizer.ggml.tokens` must be"),
    "scores short": (changed(scores=[0.0]), "F305", "`tokenizer.ggml.scores` has 1 entries"),
    "scores texts": (changed(scores=["a"] * 260), "F304", "`tokenizer.ggml.scores` must be a list of numbers"),
    "scores NaN": (changed(scores=[float("nan")] * 260), "F308", "`tokenizer.ggml.scores` gives token 0 nan"),
    "no scores": (changed(scores=None), "F303", "no `tokenizer.ggml.scores`"),
    "kinds short": (changed(token_type=[1]), "F305", "`tokenizer.ggml.token_type` has 1 entries"),
    "kinds wrong": (changed(token_type=[7] * 260), "F308", "unknown kind 7"),
    "kinds floats": (changed(token_type=[1.5] * 260), "F304", "`tokenizer.ggml.token_type` must be"),
    "bytes that are none": (changed(token_type=[6] * 260), "F308", "calls token 0 a byte"),
    "bos outside": (changed(bos_token_id=260), "F306", "`tokenizer.ggml.bos_token_id` is 260"),
    "eos below": (changed(eos_token_id=-1), "F306", "`tokenizer.ggml.eos_token_id` is -1"),
    "eos true": (changed(eos_token_id=True), "F304", "`tokenizer.ggml.eos_token_id` must be a token id"),
    "bos missing": (changed(bos_token_id=None), "F303", "`tokenizer.ggml.bos_token_id` is missing"),
    "switch a number": (changed(add_bos_token=1), "F304", "`tokenizer.ggml.add_bos_token` must be true or false"),
    "twice": (spm({"a": -1.0}, {"<s>": Kind.CONTROL}), "F307", ""),
    "a token without end": (spm({"a" * 5000: -1.0}), "F308", "a token of 5000 characters"),
    "a surrogate": (spm({"\ud800": -1.0}), "F308", "no valid UTF-8 at token 259"),
    "no rule": ({k: v for k, v in byte_level().items() if not k.endswith("pre")}, "F303", "no `tokenizer.ggml.pre`"),
    "no merges": ({k: v for k, v in byte_level().items() if "merges" not in k}, "F303", "no `tokenizer.ggml.merges`"),
    "merge of one": (with_merge("ab"), "F308", "`tokenizer.ggml.merges` entry 0 is 'ab'"),
    "merge of strangers": (with_merge("a zz"), "F308", "`tokenizer.ggml.merges` entry 0"),
    "merge to no token": (with_merge("a b"), "F308", "`tokenizer.ggml.merges` entry 0"),
}


@pytest.mark.parametrize(("metadata", "code", "words"), LIES.values(), ids=LIES)
def test_lying_metadata_is_refused_by_key(metadata: dict[str, Any], code: str, words: str) -> None:
    if code == "F307":
        metadata["tokenizer.ggml.tokens"][-1] = metadata["tokenizer.ggml.tokens"][-2] = "same"
        words = "`tokenizer.ggml.tokens` has 'same' twice"
    with pytest.raises(BitternError) as caught:
        Tokenizer.from_gguf(metadata)
    assert caught.value.code == code
    assert words in caught.value.what


def test_the_truth_passes_where_the_lies_fail() -> None:
    assert Tokenizer.from_gguf(changed()).vocab_size == 260
    assert Tokenizer.from_gguf(byte_level()).vocab_size == 259


def test_ends_of_turn_are_known_by_spelling() -> None:
    tokenizer = Tokenizer.from_gguf(spm({"a": -1.0, "<end_of_turn>": -2.0}, {"<eos>": Kind.CONTROL}))
    assert texts_of(tokenizer, sorted(tokenizer.stop_ids)) == ["</s>", "<end_of_turn>", "<eos>"]
    assert tokenizer.kind(260) is Kind.CONTROL
    harmony = Tokenizer.from_gguf(
        spm({"a": -1.0}, dict.fromkeys(("<|end|>", "<|return|>", "<|call|>"), Kind.CONTROL), eos_token_id=261)
    )
    assert texts_of(harmony, sorted(harmony.stop_ids)) == ["</s>", "<|return|>", "<|call|>"]
    html = Tokenizer.from_gguf({**changed(eos_token_id=1), "tokenizer.ggml.token_type": [*[1] * 260]})
    assert html.stop_ids == {1}
