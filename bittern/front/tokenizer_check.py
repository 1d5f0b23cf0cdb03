"""What a tokenizer.json may ask of the `tokenizers` library, checked before the library sees it.

The library trusts the file: a table of characters that lies about its length, or replacements that double the text
forty times, end the whole process, and a random dropout gives other ids each time. In: the file's JSON. Whatever could
do that is refused by the name of the component. What remains and fails only with some text fails inside `guarded`.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from bittern.base.errors import BitternError, code

BAD_TOKENIZER = code("F313", "the tokenizer.json of the folder cannot be read")
UNSAFE_TOKENIZER = code("F315", "the tokenizer.json asks for more than a tokenizer may do")
NOT_ENCODED = code("F316", "the tokenizer of the folder fails with this text")

_MOST_PARTS = 64  # components in all
_MOST_GROWTH = 64  # times that normalizers and pre-tokenizers together may lengthen a text
_MOST_MARKS = 64  # tokens that a template puts around a text
_LONGEST = 64  # characters of a replacement or prefix
_LONGEST_PATTERN = 4096
_LONGEST_SPELLING = 64  # bytes for one character in a table of characters
_GROWTH = {"ByteLevel": 2, "Metaspace": 3}  # components that lengthen every text
_REMEDY = "Download the folder again, or use another one."


@contextmanager
def guarded(name: str, what: str) -> Iterator[None]:
    """Turn whatever the library raises, its panics too, into an error with this code. Errors: `name`."""
    try:
        yield
    except (BitternError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as fault:  # a panic of the library is no Exception
        raise BitternError(name, f"{what}: {' '.join(str(fault).split())[:200]}.", _REMEDY) from None


def check_tokenizer(data: Mapping[str, Any]) -> None:
    """Refuse a tokenizer.json that the library must not be given. Errors: F313, F315."""
    parts = [part for key in ("normalizer", "pre_tokenizer", "post_processor", "decoder") for part in _parts(data, key)]
    if len(parts) > _MOST_PARTS:
        _refuse(f"has {len(parts)} components; at most {_MOST_PARTS} are possible")
    growth = 1
    for key in ("normalizer", "pre_tokenizer"):
        for part in _parts(data, key):
            growth *= _growth(part)
    if growth > _MOST_GROWTH:
        _refuse(f"lengthens a text {growth} times; at most {_MOST_GROWTH} times are possible")
    for part in _parts(data, "post_processor"):
        _check_template(part)
    _check_model(data.get("model"))


def _parts(data: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the components below a key, sequences laid open."""
    found, rest = [], [data.get(key)]
    while rest:
        part = rest.pop()
        if isinstance(part, dict):
            found.append(part)
            rest += part.values()
        elif isinstance(part, list):
            rest += part
    return [part for part in found if "type" in part]


def _growth(part: Mapping[str, Any]) -> int:
    """Return how many times a component may lengthen a text, after checking what it is made of."""
    for key, value in part.items():
        if isinstance(value, str) and len(value) > _LONGEST and key != "precompiled_charsmap":
            _refuse(f"has a `{key}` of {len(value)} characters; at most {_LONGEST} are possible")
    pattern = part.get("pattern")
    text = next(iter(pattern.values()), "") if isinstance(pattern, dict) else pattern
    is_regex = isinstance(pattern, dict) and "Regex" in pattern
    if isinstance(text, str):
        if len(text) > _LONGEST_PATTERN:
            _refuse(f"has a pattern of {len(text)} characters; at most {_LONGEST_PATTERN} are possible")
        if is_regex and repeats_repeats(text):
            _refuse(f"has the pattern `{text[:60]}`, which repeats a choice or another repetition without end")
    if part["type"] == "Precompiled":
        return _check_table(part.get("precompiled_charsmap"))
    if part["type"] == "Replace":
        content = part.get("content")
        if not isinstance(content, str) or not isinstance(text, str):
            return 1
        return 1 + len(content) if is_regex or not text else max(1, -(-len(content) // len(text)))
    return _GROWTH.get(str(part["type"]), 1)


def _check_table(text: Any) -> int:
    """Refuse a table of characters that does not have the length it says; return its growth.

    The table (SentencePiece, `precompiled_charsmap`): bytes of the trie u32, the trie, spellings that end in a zero.
    """
    try:
        raw = base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error):
        _refuse("has a table of characters that is no base64", BAD_TOKENIZER)
    size = int.from_bytes(raw[:4], "little")
    if len(raw) < 8 or size % 4 or not 4 <= size <= len(raw) - 4:
        _refuse(f"has a table of characters of {len(raw)} bytes that claims {size}", BAD_TOKENIZER)
    longest = max(map(len, raw[4 + size :].split(b"\0")))
    if longest > _LONGEST_SPELLING:
        _refuse(f"has a table of characters that makes {longest} bytes of one")
    return 1


def _check_template(part: Mapping[str, Any]) -> None:
    """Refuse a template that repeats the text, or puts more tokens around it than any model has."""
    if part["type"] != "TemplateProcessing":
        return
    special = part.get("special_tokens")
    single = part.get("single")
    if not isinstance(special, dict) or not isinstance(single, list):
        _refuse("has a template without `single` or `special_tokens`", BAD_TOKENIZER)
    lists = [row.get("ids") for row in special.values() if isinstance(row, dict)]
    longest = max((len(ids) for ids in lists if isinstance(ids, list)), default=0)
    texts = sum(isinstance(item, dict) and "Sequence" in item for item in single)
    if texts != 1 or len(single) > _MOST_MARKS or longest > _MOST_MARKS:
        _refuse(f"has a template of {len(single)} items, {texts} of them the text, with up to {longest} ids each")


def _check_model(model: Any) -> None:
    if not isinstance(model, dict):
        _refuse("has no `model`", BAD_TOKENIZER)
    if model.get("dropout"):
        _refuse("drops merges at random (`dropout`), so that a text has other ids each time")
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, dict):
        numbers = list(vocabulary.values())
        if not all(type(number) is int for number in numbers) or len(set(numbers)) < len(numbers):
            _refuse("gives two tokens one id", BAD_TOKENIZER)
    elif isinstance(vocabulary, list):
        texts = [row[0] for row in vocabulary if isinstance(row, list) and row and isinstance(row[0], str)]
        if len(texts) < len(vocabulary) or len(set(texts)) < len(texts):
            _refuse("has a token twice, or one without a text", BAD_TOKENIZER)


_PIECE = re.compile(r"\\.|\[(?:[^\]\\]|\\.|\[[^\]]*\])*\]|\(\?(?:[imsx-]*:|<?[=!]|>)?|.", re.DOTALL)
_ENDLESS = re.compile(r"[*+]|\{\d*,\}")


def repeats_repeats(pattern: str) -> bool:
    """Whether a group that is repeated without end holds a choice or another such repetition.

    Only such patterns take a time that doubles with each letter of the text.
    """
    stack: list[bool] = []  # for each open group, whether it holds such a thing
    place, closed, inner = 0, False, False  # closed: a group ended just now; inner: it holds such a thing
    while place < len(pattern):
        endless = _ENDLESS.match(pattern, place)
        if endless and place:
            if closed and inner:
                return True
            if stack:
                stack[-1] = True
            place, closed = endless.end(), False
            continue
        piece = _PIECE.match(pattern, place)
        assert piece is not None, (pattern, place)
        text, place = piece[0], piece.end()
        closed = False
        if text[0] == "(":
            stack.append(False)
        elif text == ")" and stack:
            inner, closed = stack.pop(), True
            if inner and stack:
                stack[-1] = True
        elif text == "|" and stack:
            stack[-1] = True
    return False


def _refuse(what: str, name: str = UNSAFE_TOKENIZER) -> NoReturn:
    raise BitternError(name, f"The tokenizer.json {what}.", _REMEDY)
