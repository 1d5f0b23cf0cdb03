"""What a tokenizer.json may ask for: real components pass, and what would end the process or never end is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from hostile import TOKENIZER

from bittern.base.errors import BitternError
from bittern.front import tokenizer_check
from bittern.front.tokenizer_check import check_tokenizer, guarded, repeats_repeats
from bittern.front.tokenizer_json import folder_tokenizer

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
THREES = r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))"
CASED = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{M}]*[\p{Ll}\p{Lm}\p{M}]+(?i:'s|'t|'re)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*"
)


@pytest.mark.parametrize(
    "pattern", [GPT2, LLAMA3, THREES, CASED, "(ab)+", r"\(a+\)+", "[(+]+(x)*", "(a|b)c+", "", "()", "a{2,}"]
)
def test_patterns_of_real_tokenizers_pass(pattern: str) -> None:
    assert not repeats_repeats(pattern)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|aa)+$", "(?:a*)*", "((a+))+", "((a+)b)*", "(a{1,}){2,}", "(?=(x+)y)*", "(|)*"]
)
def test_patterns_of_exponential_time_are_found(pattern: str) -> None:
    assert repeats_repeats(pattern)


def _replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def _code(**changes: Any) -> str:
    try:
        check_tokenizer(TOKENIZER | changes)
    except BitternError as error:
        return error.code
    return ""


def test_growth_is_counted() -> None:
    """A text of some letters must never become one that no memory holds: the library ends the process then."""
    blank, double = _replace({"String": " "}, "\u2581"), _replace({"String": "a"}, "aa")
    assert _code(normalizer=_sequence(blank, _replace({"Regex": " {2,}"}, " "), {"type": "NFKC"})) == ""
    assert _code(normalizer=_sequence(*[double] * 6)) == ""
    assert _code(normalizer=_sequence(*[double] * 7)) == "F315"
    assert _code(normalizer=_sequence(*[_replace({"String": ""}, "a")] * 7)) == "F315"
    assert _code(normalizer=_sequence(*[_replace({"Regex": "()"}, "a")] * 7)) == "F315"
    assert _code(pre_tokenizer=_sequence(*[{"type": "ByteLevel"}] * 7)) == "F315"
    assert _code(normalizer={"type": "Prepend", "prepend": "a" * 65}) == "F315"
    assert _code(normalizer=_sequence(*[{"type": "NFC"}] * 64)) == "F315"


def _sequence(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": list(parts)}


def test_templates_are_short() -> None:
    text, mark = {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "x", "type_id": 0}}
    rows = {"x": {"id": "x", "ids": [0], "tokens": ["a"]}}
    template = {"type": "TemplateProcessing", "single": [mark, text], "pair": [], "special_tokens": rows}
    assert _code(post_processor=template) == ""
    assert _code(post_processor=template | {"single": [text, text]}) == "F315"
    assert _code(post_processor=template | {"single": [text] + [mark] * 64}) == "F315"
    assert _code(post_processor=template | {"special_tokens": {"x": {"ids": [0] * 65}}}) == "F315"
    assert _code(post_processor=template | {"special_tokens": 3}) == "F313"


def test_whatever_the_library_raises_has_a_code() -> None:
    class Panic(BaseException):
        """As the library raises it: no Exception."""

    for fault in (Panic("deep inside"), RuntimeError("x"), MemoryError()):
        with pytest.raises(BitternError) as caught, guarded("F316", "It fails"):
            raise fault
        assert caught.value.code == "F316"
    for passing in (KeyboardInterrupt(), SystemExit()):
        with pytest.raises(type(passing)), guarded("F316", "It fails"):
            raise passing


def test_a_text_without_a_token_is_refused(tmp_path: Path) -> None:
    """Other programs stop with a trace there."""
    model = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "z"}
    (tmp_path / "tokenizer.json").write_text(json.dumps(TOKENIZER | {"model": model}))
    tokenizer = folder_tokenizer(tmp_path)
    assert tokenizer is not None and tokenizer.encode("a") == [0]
    with pytest.raises(BitternError, match="F316"):
        tokenizer.encode("b")


def test_a_check_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: without the count of growth the doubling passes."""
    monkeypatch.setattr(tokenizer_check, "_growth", lambda part: 1)
    assert _code(normalizer=_sequence(*[_replace({"String": "a"}, "aa")] * 40)) == ""
