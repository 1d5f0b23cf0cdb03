"""Tokenizers: text to token ids and back, as the checkpoint's own metadata says.

Two kinds, both run by the `tokenizers` library: byte-level BPE (`gpt2`: words by the rules of `pretokenizers`, bytes as
letters, merges in the order of the file) and SentencePiece (`llama`: blanks become U+2581, merges follow from scores,
what has no piece falls back to byte tokens). Tokens that stand for themselves are taken out of the text first
(`splitter`). Ids equal those of llama.cpp; where that cannot be promised, the tokenizer is refused when it is made.
"""

import codecs
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bittern.base.errors import BitternError, code
from bittern.front.pretokenizers import find_pretokenizer
from bittern.front.splitter import Splitter
from bittern.front.spm import join, spm_pairs
from bittern.front.vocabulary import Kind, Vocabulary, read_vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

NOT_TEXT = code("F309", "the text cannot be encoded as UTF-8")
NO_BYTE = code("F310", "the vocabulary has no token for a byte of the text")
NO_TOKEN = code("F311", "a token id lies outside of the vocabulary")
NO_MARK = code("F312", "a mark was asked for that the tokenizer does not have")

BLANK = "\u2581"
_IN_UTF8 = frozenset(range(256)) - {0xC0, 0xC1, *range(0xF5, 0x100)}
_PLAIN = (Kind.USER_DEFINED,)
_WHOLE = (Kind.CONTROL, Kind.USER_DEFINED, Kind.UNKNOWN)


class Tokenizer:
    """The tokenizer of one checkpoint. Make it with `from_gguf`; it never changes."""

    __slots__ = ("_pieces", "_splitters", "_vocabulary", "_words")

    def __init__(self, vocabulary: Vocabulary, words: Callable[[str], list[int]]) -> None:
        """Use `from_gguf`. words: returns the ids of a stretch of text without whole tokens in it."""
        self._vocabulary = vocabulary
        self._words = words
        self._pieces: dict[int, bytes] = {}
        self._splitters: dict[bool, Splitter] = {}

    @staticmethod
    def from_gguf(metadata: Mapping[str, object], cache: Path | None = None) -> "Tokenizer":
        """Make the tokenizer that the metadata of a GGUF file describes.

        metadata: the `tokenizer.ggml.*` keys. cache: a folder for what is expensive to derive; None keeps nothing.
        Errors: F301 to F308, each naming its key (see `read_vocabulary`).
        """
        vocabulary = read_vocabulary(metadata)
        if vocabulary.model == "gpt2":
            return Tokenizer(vocabulary, _byte_level_words(vocabulary))
        return Tokenizer(vocabulary, _spm_words(vocabulary, cache))

    @property
    def vocab_size(self) -> int:
        """The number of tokens; ids are 0 to vocab_size - 1."""
        return len(self._vocabulary.tokens)

    @property
    def bos(self) -> int | None:
        """The token that begins a text, if the file names one."""
        return self._vocabulary.bos

    @property
    def eos(self) -> int | None:
        """The token that ends a text, if the file names one."""
        return self._vocabulary.eos

    @property
    def stop_ids(self) -> frozenset[int]:
        """The tokens that end generation: end of text, of turn, of message, by key or by well-known spelling."""
        return self._vocabulary.stops

    @property
    def adds_bos(self) -> bool:
        """Whether `encode` puts BOS in front unless it is told otherwise."""
        return self._vocabulary.add_bos

    def encode(self, text: str, *, bos: bool | None = None, eos: bool | None = None, special: bool = True) -> list[int]:
        """Return the token ids of a text.

        bos, eos: whether to put the mark in front or behind; None does what the file asks for.
        special: whether control tokens written in the text (`<|im_start|>`) become those tokens; where False they are
        ordinary text, as text of strangers should be. User-defined tokens are found either way.
        Errors: F309 lone surrogate, F310 byte without a token, F312 mark that the file does not name.
        """
        check_text(text)
        ids = self._mark(bos, self._vocabulary.add_bos, self.bos, "bos")
        after_token = True
        for part in self._splitter(special).split(text):
            if isinstance(part, int):
                ids.append(part)
            else:
                ids += self._words(self._normal(part, after_token))
            after_token = isinstance(part, int)
        return ids + self._mark(eos, self._vocabulary.add_eos, self.eos, "eos")

    def decode(self, ids: Iterable[int], *, special: bool = True, start: bool = True) -> str:
        """Return the text of token ids.

        special: whether control tokens are shown. start: whether the ids begin a text; then the blank that the
        tokenizer put in front of it is taken away. Bytes that are no UTF-8 become U+FFFD.
        Errors: F311 id outside of the vocabulary.
        """
        stream = self.stream(special=special, start=start)
        return b"".join([stream.bytes_of(number) for number in ids]).decode("utf-8", "replace")

    def stream(self, *, special: bool = True, start: bool = True) -> "Stream":
        """Return a decoder for ids that come one by one; the arguments are those of `decode`."""
        return Stream(self, special, start and self._vocabulary.add_space_prefix)

    def piece(self, number: int) -> bytes:
        """Return the bytes that a token stands for in text; they may be a part of a character.

        Errors: F311 id outside of the vocabulary.
        """
        found = self._pieces.get(number)
        if found is None:
            found = self._pieces[number] = self._make_piece(self._check_id(number))
        return found

    def text(self, number: int) -> str:
        """Return the spelling of a token in the vocabulary, as templates name it. Errors: F311."""
        return self._vocabulary.tokens[self._check_id(number)]

    def kind(self, number: int) -> Kind:
        """Return what a token is for. Errors: F311."""
        return Kind(int(self._vocabulary.kinds[self._check_id(number)]))

    def _check_id(self, number: int) -> int:
        if not 0 <= number < self.vocab_size:
            raise BitternError(
                NO_TOKEN, f"{number} is not a token of this model.", f"Its tokens are 0 to {self.vocab_size - 1}."
            )
        return int(number)

    def _mark(self, asked: bool | None, default: bool, number: int | None, name: str) -> list[int]:
        if not (default if asked is None else asked):
            return []
        if number is None:
            raise BitternError(NO_MARK, f"The file names no token for {name}.", f"Encode without it: `{name}=False`.")
        return [number]

    def _splitter(self, special: bool) -> Splitter:
        if special not in self._splitters:
            kinds = _WHOLE if special else _PLAIN
            chosen = np.flatnonzero(np.isin(self._vocabulary.kinds, kinds)).tolist()
            self._splitters[special] = Splitter((self._vocabulary.tokens[number], number) for number in chosen)
        return self._splitters[special]

    def _normal(self, text: str, after_token: bool) -> str:
        """Return a stretch of text as merges expect it. after_token: it begins the text or follows a whole token."""
        vocabulary = self._vocabulary
        if vocabulary.model != "llama":
            return text
        if vocabulary.remove_extra_whitespaces:
            text = " ".join(filter(None, text.split(" ")))
        if vocabulary.add_space_prefix and after_token and text:
            text = " " + text
        return text.replace(" ", BLANK)

    def _make_piece(self, number: int) -> bytes:
        kind, text = self._vocabulary.kinds[number], self._vocabulary.tokens[number]
        if kind == Kind.BYTE:
            return bytes([self._vocabulary.bytes[number]])
        if kind in (Kind.UNUSED, Kind.UNDEFINED):
            return b""
        if kind != Kind.NORMAL:
            return text.encode()
        if self._vocabulary.model == "llama":
            return text.replace(BLANK, " ").encode()
        values = [LETTERS.get(letter) for letter in text]
        whole = [value for value in values if value is not None]
        return bytes(whole) if len(whole) == len(values) else text.encode()


class Stream:
    """Decodes ids one by one; what it returns, joined, is what `decode` returns for all of them."""

    __slots__ = ("_decoder", "_special", "_strip", "_tokenizer")

    def __init__(self, tokenizer: Tokenizer, special: bool, strip: bool) -> None:
        self._tokenizer = tokenizer
        self._special = special
        self._strip = strip
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, number: int) -> str:
        """Return the text that is complete with this id: whole characters only. Errors: F311."""
        return self._decoder.decode(self.bytes_of(number))

    def flush(self) -> str:
        """Return what is left at the end: U+FFFD for a character that was never completed."""
        return self._decoder.decode(b"", final=True)

    def bytes_of(self, number: int) -> bytes:
        """Return the bytes that this id adds to the text, without completing characters. Errors: F311."""
        piece = self._tokenizer.piece(number)
        if self._strip and number != self._tokenizer.bos:
            self._strip = False
            piece = piece.removeprefix(b" ")
        if not self._special and self._tokenizer.kind(number) in (Kind.CONTROL, Kind.UNKNOWN):
            return b""
        return piece


def _letters() -> dict[str, int]:
    """Return the letter of each byte in byte-level BPE (GPT-2): itself if it can be seen, else from U+0100 upwards."""
    seen = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [value for value in range(256) if value not in seen]
    return {chr(value): value for value in sorted(seen)} | {chr(0x100 + n): value for n, value in enumerate(hidden)}


LETTERS = _letters()


def _byte_level_words(vocabulary: Vocabulary) -> Callable[[str], list[int]]:
    from tokenizers import Regex, models, pre_tokenizers
    from tokenizers import Tokenizer as Backend

    rule = find_pretokenizer(vocabulary.pre)
    backend = Backend(models.BPE(vocab=vocabulary.ids, merges=vocabulary.merges, ignore_merges=rule.whole_words))
    cuts = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in rule.expressions]
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([*cuts, letters])
    by_merges = _ids_by(backend)
    known = {value for letter, value in LETTERS.items() if letter in vocabulary.ids}
    if known >= _IN_UTF8:
        return by_merges

    def checked(text: str) -> list[int]:
        _check_bytes(text, known)
        return by_merges(text)

    return checked


def _spm_words(vocabulary: Vocabulary, cache: Path | None) -> Callable[[str], list[int]]:
    from tokenizers import Tokenizer as Backend
    from tokenizers import models

    # Letters that occur in tokens without being tokens take part in merges; alone they become bytes again.
    tokens, ids, count = vocabulary.tokens, vocabulary.ids, len(vocabulary.tokens)
    letters = sorted(set("".join(tokens)) - ids.keys() - {" "})
    pieces = tokens + letters
    all_ids = {**ids, **{letter: count + number for number, letter in enumerate(letters)}} if letters else ids
    as_bytes = {value: f"<0x{value:02X}>" for value in range(256)}
    byte_ids = {value: ids[text] for value, text in as_bytes.items() if text in ids}

    def spell(letter: str) -> list[int]:
        _check_bytes(letter, byte_ids)
        return [byte_ids[value] for value in letter.encode()]

    scores = _mergeable(vocabulary)
    pairs = spm_pairs(pieces, all_ids, scores, cache)
    if pairs is None:

        def by_rule(text: str) -> list[int]:
            found = [[ids[piece]] if piece in ids else spell(piece) for piece in join(text, scores)]
            return [number for part in found for number in part]

        return by_rule

    text_of = pieces.__getitem__
    merges = list(zip(map(text_of, pairs[:, 0].tolist()), map(text_of, pairs[:, 1].tolist()), strict=True))
    by_merges = _ids_by(Backend(models.BPE(vocab=all_ids, merges=merges, byte_fallback=True)))
    if not letters and byte_ids.keys() >= _IN_UTF8:
        return by_merges

    def with_letters(text: str) -> list[int]:
        _check_bytes((letter for letter in set(text) if letter not in all_ids), byte_ids)
        found = [[number] if number < count else spell(pieces[number]) for number in by_merges(text)]
        return [number for part in found for number in part]

    return with_letters


def _check_bytes(letters: Iterable[str], known: Container[int]) -> None:
    """Refuse letters of which a byte has no token: left out silently, they would change the text."""
    for letter in sorted(set(letters)):
        for value in letter.encode():
            if value not in known:
                raise BitternError(
                    NO_BYTE,
                    f"The vocabulary has no token for byte 0x{value:02X}, which {letter!r} needs.",
                    "Leave the character out, or use a file with a whole vocabulary.",
                )


def _mergeable(vocabulary: Vocabulary) -> dict[str, float]:
    """Return the scores of the tokens that merges may make.

    Blanks are escaped before, so a token with a blank is never made; nor is a user-defined token, which was taken out
    of the text before, unless its text comes up through the escape only.
    """
    whole = set(np.flatnonzero(vocabulary.kinds == Kind.USER_DEFINED).tolist())
    rows = zip(vocabulary.tokens, vocabulary.scores.tolist(), strict=True)
    return {
        text: score
        for number, (text, score) in enumerate(rows)
        if " " not in text and (number not in whole or BLANK in text)
    }


def _ids_by(backend: "Backend") -> Callable[[str], list[int]]:
    def ids(text: str) -> list[int]:
        found: list[int] = backend.encode(text, add_special_tokens=False).ids
        return found

    return ids


def check_text(text: str) -> None:
    """Refuse text that is no valid Unicode. Errors: F309."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BitternError(
            NOT_TEXT,
            f"The text has the lone surrogate U+{ord(text[error.start]):04X} at character {error.start}.",
            "Give text that is valid Unicode.",
        ) from None
