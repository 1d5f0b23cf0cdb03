"""Metadata of tokenizers: what is read from it, and every lie refused by the name of its key."""

from typing import Any

import pytest
from vocabularies import byte_level, spm, texts_of

from bittern.base.errors import BitternError
from bittern.front.tokenizer import Tokenizer
from bittern.front.vocabulary import Kind

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
