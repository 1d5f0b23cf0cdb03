"""Rules that cut text into words: each cuts where its name says, and an unknown name is refused."""

import pytest
from vocabularies import byte_level

from bittern.base.errors import BitternError
from bittern.front.pretokenizers import find_pretokenizer
from bittern.front.tokenizer import Tokenizer

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
