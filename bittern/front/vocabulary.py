"""The vocabulary of a model, read from the `tokenizer.ggml.*` metadata of its checkpoint and checked.

In: metadata as a reader yields it (texts, numbers, lists or arrays). Out: a `Vocabulary` in which every length, type
and id has been checked, so that the code behind it can index without asking. What the metadata leaves out has the
meaning that GGUF files are written for (format page: ggml, docs/gguf.md, section Tokenizer); what it states wrongly is
refused with the name of the key.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code, nearest
from bittern.front.pretokenizers import UNKNOWN_PRE, find_pretokenizer

UNKNOWN_MODEL = code("F301", "the kind of tokenizer that the file names is not known")
MISSING_KEY = code("F303", "the file lacks metadata that its tokenizer needs")
WRONG_TYPE = code("F304", "tokenizer metadata has another type than its key stands for")
WRONG_LENGTH = code("F305", "tokenizer metadata has another length than the vocabulary")
BAD_ID = code("F306", "tokenizer metadata names a token that the vocabulary does not have")
DUPLICATE = code("F307", "two tokens of the vocabulary have the same text")
BAD_TOKEN = code("F308", "a token of the vocabulary contradicts its own kind")

_PREFIX = "tokenizer.ggml."
_MODELS = ("gpt2", "llama")
_REMEDY = "Convert the checkpoint again with a current converter, or use another file."
BYTE_TOKEN = re.compile("<0x([0-9A-Fa-f]{2})>")
_LONGEST = 1024

# Spellings that end a turn or a text. A file rarely lists them all under its own keys, so they count by spelling, and
# they are control tokens whatever kind the file gives them; `</s>` is HTML in some vocabularies and keeps its kind.
_ENDS = (
    *("<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>"),
    *("<end_of_turn>", "<turn|>", "<end_of_utterance>", "<|endoftext|>", "<|end_of_text|>", "<eos>"),
    *("<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<｜end▁of▁sentence｜>"),
)
_END_IF_CONTROL = "</s>"


class Kind(IntEnum):
    """What a token is for, with the numbers of `tokenizer.ggml.token_type`."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Checked tokens and the switches of their tokenizer.

    model: `gpt2` (byte-level BPE) or `llama` (SentencePiece). pre: the pre-tokenizer's name, `gpt2` only.
    tokens: text by id. ids: id by text. kinds: [tokens] u8. scores: [tokens] f32, `llama` only.
    merges: pairs of texts in order of rank, `gpt2` only. bytes: value of each byte token, by id.
    """

    model: str
    pre: str
    tokens: list[str]
    ids: dict[str, int]
    kinds: npt.NDArray[np.uint8]
    scores: npt.NDArray[np.float32]
    merges: list[tuple[str, str]]
    bytes: dict[int, int]
    bos: int | None
    eos: int | None
    stops: frozenset[int]
    add_bos: bool
    add_eos: bool
    add_space_prefix: bool
    remove_extra_whitespaces: bool


def read_vocabulary(metadata: Mapping[str, object]) -> Vocabulary:
    """Read and check the vocabulary that the metadata of a checkpoint describes.

    Errors: F301 unknown model, F302 unknown pre-tokenizer, F303 missing key, F304 wrong type, F305 wrong length,
    F306 id out of range, F307 duplicate token, F308 token that contradicts its kind.
    """
    read = _Reader(metadata)
    model = read.text("model")
    if model not in _MODELS:
        raise BitternError(
            UNKNOWN_MODEL,
            f"`{_PREFIX}model` is `{model}`, a tokenizer that Bittern does not have.",
            nearest(model, list(_MODELS)) or _REMEDY,
        )
    spm = model == "llama"
    pre = read.text("pre", "default" if spm else None)
    if spm and pre != "default":
        raise BitternError(
            UNKNOWN_PRE, f"`{_PREFIX}pre` is `{pre}`, but a SentencePiece vocabulary cuts no words.", _REMEDY
        )
    add_bos = spm or find_pretokenizer(pre).add_bos
    tokens = _named(read.texts("tokens"))
    ids = _by_text(tokens)
    kinds = read.kinds(len(tokens))
    scores = read.scores(len(tokens)) if spm else np.zeros(0, np.float32)
    merges = [] if spm else _merges(read.texts("merges"), ids)
    bos, eos = read.token("bos_token_id", len(tokens)), read.token("eos_token_id", len(tokens))
    stops = {eos, read.token("eot_token_id", len(tokens)), read.token("eom_token_id", len(tokens))} - {None}
    stops |= stop_tokens(ids, kinds)
    kinds.flags.writeable = False
    return Vocabulary(
        model=model,
        pre=pre,
        tokens=tokens,
        ids=ids,
        kinds=kinds,
        scores=scores,
        merges=merges,
        bytes=_byte_tokens(tokens, kinds),
        bos=bos,
        eos=eos,
        stops=frozenset(number for number in stops if number is not None),
        add_bos=read.needs("add_bos_token", add_bos, "bos_token_id", bos),
        add_eos=read.needs("add_eos_token", False, "eos_token_id", eos),
        add_space_prefix=read.switch("add_space_prefix", spm) and spm,
        remove_extra_whitespaces=read.switch("remove_extra_whitespaces", False) and spm,
    )


def stop_tokens(ids: Mapping[str, int], kinds: npt.NDArray[np.uint8]) -> set[int]:
    """Return the tokens that end a turn or a text by their spelling; they become control tokens in `kinds`."""
    ends = [ids[text] for text in _ENDS if text in ids]
    kinds[ends] = Kind.CONTROL
    stops = {*ends} - _continuing(ids)
    if _END_IF_CONTROL in ids and kinds[ids[_END_IF_CONTROL]] == Kind.CONTROL:
        stops.add(ids[_END_IF_CONTROL])
    return stops


class _Reader:
    """Reads single keys of the metadata; each method refuses a value of another type by the name of its key."""

    def __init__(self, metadata: Mapping[str, object]) -> None:
        self.metadata = metadata

    def _value(self, key: str) -> object:
        found = self.metadata.get(_PREFIX + key)
        if found is None:
            raise BitternError(MISSING_KEY, f"The file has no `{_PREFIX}{key}`.", _REMEDY)
        return found

    def text(self, key: str, default: str | None = None) -> str:
        if default is not None and _PREFIX + key not in self.metadata:
            return default
        found = self._value(key)
        if not isinstance(found, str):
            raise _wrong_type(key, found, "a text")
        return found

    def texts(self, key: str) -> list[str]:
        found = self._value(key)
        if not isinstance(found, list | tuple) or not set(map(type, found)) <= {str}:
            raise _wrong_type(key, found, "a list of texts")
        if not found and key == "tokens":
            raise BitternError(WRONG_LENGTH, f"`{_PREFIX}{key}` is empty.", _REMEDY)
        return list(found)

    def numbers(self, key: str, count: int, kinds: str, what: str) -> npt.NDArray[Any]:
        found = self._value(key)
        try:
            array = np.asarray(found) if isinstance(found, list | tuple | np.ndarray) else np.asarray(None)
        except (ValueError, OverflowError):  # lists of several lengths in it
            array = np.asarray(None)
        if array.ndim != 1 or (array.dtype.kind not in kinds and array.size):
            raise _wrong_type(key, found, what)
        if len(array) != count:
            raise BitternError(
                WRONG_LENGTH, f"`{_PREFIX}{key}` has {len(array)} entries, and the vocabulary {count} tokens.", _REMEDY
            )
        return array

    def kinds(self, count: int) -> npt.NDArray[np.uint8]:
        if f"{_PREFIX}token_type" not in self.metadata:
            return np.full(count, Kind.NORMAL, np.uint8)
        found = self.numbers("token_type", count, "iu", "a list of integers")
        wrong = np.flatnonzero((found < 0) | (found > max(Kind)))
        if len(wrong):
            number = int(wrong[0])
            raise BitternError(
                BAD_TOKEN, f"`{_PREFIX}token_type` gives token {number} the unknown kind {found[number]}.", _REMEDY
            )
        return found.astype(np.uint8)

    def scores(self, count: int) -> npt.NDArray[np.float32]:
        with np.errstate(over="ignore"):
            found = self.numbers("scores", count, "fiu", "a list of numbers").astype(np.float32)
        if not np.isfinite(found).all():
            number = int(np.flatnonzero(~np.isfinite(found))[0])
            raise BitternError(BAD_TOKEN, f"`{_PREFIX}scores` gives token {number} {found[number]}.", _REMEDY)
        return found

    def token(self, key: str, count: int) -> int | None:
        found = self.metadata.get(_PREFIX + key)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int | np.integer):
            raise _wrong_type(key, found, "a token id")
        if not 0 <= found < count:
            raise BitternError(BAD_ID, f"`{_PREFIX}{key}` is {found}, and the vocabulary ends at {count - 1}.", _REMEDY)
        return int(found)

    def switch(self, key: str, default: bool) -> bool:
        found = self.metadata.get(_PREFIX + key, default)
        if not isinstance(found, bool | np.bool_):
            raise _wrong_type(key, found, "true or false")
        return bool(found)

    def needs(self, key: str, default: bool, id_key: str, number: int | None) -> bool:
        """Read a switch that asks for a token, which must then exist."""
        found = self.switch(key, default)
        if found and number is None:
            raise BitternError(
                MISSING_KEY, f"The tokenizer adds a token to each text, but `{_PREFIX}{id_key}` is missing.", _REMEDY
            )
        return found


def _wrong_type(key: str, found: object, wanted: str) -> BitternError:
    return BitternError(
        WRONG_TYPE, f"`{_PREFIX}{key}` must be {wanted}, and the file has {type(found).__name__}.", _REMEDY
    )


def _named(tokens: list[str]) -> list[str]:
    """Give empty tokens a name, as the tools that write such files expect, and refuse texts that no text can hold."""
    if "" in tokens:
        tokens = [text or f"[EMPTY_{number}]" for number, text in enumerate(tokens)]
    longest = max(map(len, tokens))
    if longest > _LONGEST:
        raise BitternError(BAD_TOKEN, f"`{_PREFIX}tokens` has a token of {longest} characters.", _REMEDY)
    try:
        "".join(tokens).encode()
    except UnicodeEncodeError:
        number = next(n for n, text in enumerate(tokens) if any("\ud800" <= letter <= "\udfff" for letter in text))
        raise BitternError(BAD_TOKEN, f"`{_PREFIX}tokens` has no valid UTF-8 at token {number}.", _REMEDY) from None
    return tokens


def _by_text(tokens: list[str]) -> dict[str, int]:
    ids = dict(zip(tokens, range(len(tokens)), strict=True))
    if len(ids) != len(tokens):
        number = next(number for number, text in enumerate(tokens) if ids[text] != number)
        raise BitternError(
            DUPLICATE,
            f"`{_PREFIX}tokens` has {tokens[number]!r} twice, as {number} and as {ids[tokens[number]]}.",
            _REMEDY,
        )
    return ids


def _merges(lines: list[str], ids: dict[str, int]) -> list[tuple[str, str]]:
    """Return the merges as pairs, the first of equal pairs only; both parts and the whole must be tokens."""
    pairs: dict[tuple[str, str], None] = {}
    for number, line in enumerate(lines):
        cut = line.find(" ", 1)
        left, right = line[:cut], line[cut + 1 :]
        if cut < 0 or left not in ids or right not in ids or left + right not in ids:
            raise BitternError(
                BAD_TOKEN, f"`{_PREFIX}merges` entry {number} is {line!r}, which does not join two tokens.", _REMEDY
            )
        pairs[left, right] = None
    return list(pairs)


def _byte_tokens(tokens: list[str], kinds: npt.NDArray[np.uint8]) -> dict[int, int]:
    found = {}
    for number in np.flatnonzero(kinds == Kind.BYTE).tolist():
        match = BYTE_TOKEN.fullmatch(tokens[number])
        if match is None:
            raise BitternError(
                BAD_TOKEN,
                f"`{_PREFIX}token_type` calls token {number} a byte, and its text is {tokens[number]!r}.",
                _REMEDY,
            )
        found[number] = int(match[1], 16)
    return found


def _continuing(ids: Mapping[str, int]) -> set[int]:
    """Return `<|end|>` where it ends a part of a turn only: where other spellings end the turn (Harmony, Solar)."""
    harmony = {"<|return|>", "<|call|>"} <= ids.keys() or {"<|calls|>", "<|flush|>"} <= ids.keys()
    return {ids["<|end|>"]} if harmony and "<|end|>" in ids else set()
