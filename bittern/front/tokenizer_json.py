"""The tokenizer of a Hugging Face folder: tokenizer.json, and the marks and chat template beside it.

In: a folder. Out: a `Tokenizer` that gives the ids of the `tokenizers` library, which reads and runs the file; pieces
of text are made here, so that bytes of unfinished characters stream as they do for GGUF files.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bittern.base.errors import BitternError
from bittern.front.huggingface import read_settings, read_text
from bittern.front.safetensors_file import read_json
from bittern.front.tokenizer import BLANK, LETTERS, Tokenizer, check_text
from bittern.front.tokenizer_check import BAD_TOKENIZER, NOT_ENCODED, check_tokenizer, guarded
from bittern.front.vocabulary import BYTE_TOKEN, Kind, Vocabulary, stop_tokens

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

_LIMIT = 1 << 26


class FolderTokenizer(Tokenizer):
    """A tokenizer that the `tokenizers` library runs whole."""

    __slots__ = ("_adds", "_backend", "_style")

    def __init__(self, vocabulary: Vocabulary, backend: "Backend", style: str) -> None:
        """Use `folder_tokenizer`. style: how tokens spell text: `bytes`, `blanks` or `pieces`."""
        super().__init__(vocabulary, lambda text: list(backend.encode(text, add_special_tokens=False).ids))
        self._backend = backend
        self._style = style

    def encode(self, text: str, *, bos: bool | None = None, eos: bool | None = None, special: bool = True) -> list[int]:
        """Return the token ids of a text; arguments and errors as for `Tokenizer.encode`."""
        check_text(text)
        self._backend.encode_special_tokens = not special
        with guarded(NOT_ENCODED, "The tokenizer.json fails with this text"):
            ids = [int(number) for number in self._backend.encode(text, add_special_tokens=False).ids]
        vocabulary = self._vocabulary
        front = self._mark(bos, vocabulary.add_bos, self.bos, "bos")
        return front + ids + self._mark(eos, vocabulary.add_eos, self.eos, "eos")

    def _make_piece(self, number: int) -> bytes:
        kind, text = self._vocabulary.kinds[number], self._vocabulary.tokens[number]
        if kind == Kind.UNUSED:
            return b""
        if kind == Kind.BYTE:
            return bytes([self._vocabulary.bytes[number]])
        if kind != Kind.NORMAL:
            return text.encode()
        if self._style == "blanks":
            return text.replace(BLANK, " ").encode()
        if self._style == "pieces":
            return text.removeprefix("##").encode() if text.startswith("##") else b" " + text.encode()
        values = [LETTERS.get(letter) for letter in text]
        whole = [value for value in values if value is not None]
        return bytes(whole) if len(whole) == len(values) else text.encode()


def folder_tokenizer(folder: Path) -> Tokenizer | None:
    """Return the tokenizer of a folder, or None if it has no tokenizer.json. Errors: F313, F314, F102 to F104, F173."""
    data = read_text(folder, "tokenizer.json", _LIMIT)
    if data is None:
        return None
    from tokenizers import Tokenizer as Backend

    said = read_json(data, "tokenizer.json", BAD_TOKENIZER)
    check_tokenizer(said)
    with guarded(BAD_TOKENIZER, "The tokenizer.json cannot be read"):
        backend = Backend.from_str(data.decode())
        backend.no_truncation()
        backend.no_padding()
        _check_added(backend, said)
        return FolderTokenizer(_vocabulary(backend, read_settings(folder)), backend, _style(backend))


def _check_added(backend: "Backend", said: Mapping[str, Any]) -> None:
    """Refuse added tokens that the library gave other ids than the file says: it does so without a word."""
    for row in said.get("added_tokens") or ():
        if backend.token_to_id(row["content"]) != row["id"]:
            what = f"The tokenizer.json gives the added token {row['content']!r:.60} an id that it cannot have."
            raise BitternError(BAD_TOKENIZER, what, "Use another folder.")


def _style(backend: "Backend") -> str:
    """Return how tokens spell text, as the decoder says: `bytes` as letters, `blanks` marked, or `pieces` of words."""
    decoder = backend.decoder
    state = "" if decoder is None else decoder.__getstate__().decode()
    kinds = _kinds(json.loads(state)) if state else set()
    if "ByteLevel" in kinds:
        return "bytes"
    return "pieces" if "WordPiece" in kinds else "blanks"


def _kinds(state: Any) -> set[str]:
    """Return the types that a component of the tokenizer is made of."""
    if isinstance(state, list):
        return set().union(*map(_kinds, state))
    if not isinstance(state, dict):
        return set()
    return {str(state.get("type"))}.union(*map(_kinds, state.values()))


def _vocabulary(backend: "Backend", settings: Mapping[str, Any]) -> Vocabulary:
    known = backend.get_vocab(with_added_tokens=True)
    count = max(known.values(), default=-1) + 1
    if not 0 < count <= 1 << 22:
        raise BitternError(BAD_TOKENIZER, f"The tokenizer.json has {count} tokens.", "Use another folder.")
    tokens = [f"[EMPTY_{number}]" for number in range(count)]
    kinds = np.full(count, Kind.UNUSED, np.uint8)
    byte_values: dict[int, int] = {}
    for text, number in known.items():
        tokens[number], kinds[number] = text, Kind.NORMAL
        if match := BYTE_TOKEN.fullmatch(text):
            kinds[number], byte_values[number] = Kind.BYTE, int(match[1], 16)
    for number, added in backend.get_added_tokens_decoder().items():
        kinds[number] = Kind.CONTROL if added.special else Kind.USER_DEFINED
    ids = {text: number for number, text in enumerate(tokens)}
    front, behind = _marks_around(backend)
    bos = _named(settings, ids, ("bos_token", "cls_token")) if front is None else front
    eos = _named(settings, ids, ("eos_token", "sep_token")) if behind is None else behind
    stops = stop_tokens(ids, kinds) | ({eos} if eos is not None else set())
    kinds.flags.writeable = False
    return Vocabulary(
        model="folder",
        pre="",
        tokens=tokens,
        ids=ids,
        kinds=kinds,
        scores=np.zeros(0, np.float32),
        merges=[],
        bytes=byte_values,
        bos=bos,
        eos=eos,
        stops=frozenset(stops),
        add_bos=front is not None,
        add_eos=behind is not None,
        add_space_prefix=False,
        remove_extra_whitespaces=False,
    )


def _marks_around(backend: "Backend") -> tuple[int | None, int | None]:
    """Return the tokens that the file puts before and behind a text."""
    bare = backend.encode("a", add_special_tokens=False).ids
    full = backend.encode("a", add_special_tokens=True).ids
    for at in range(len(full) - len(bare) + 1):
        if full[at : at + len(bare)] == bare and len(full) > len(bare):
            marks = (full[0] if at else None), (full[-1] if at + len(bare) < len(full) else None)
            if any(number is not None and backend.id_to_token(number) is None for number in marks):
                what = f"The tokenizer.json puts the tokens {marks} around a text, which it does not have."
                raise BitternError(BAD_TOKENIZER, what, "Use another folder.")
            return marks
    return None, None


def _named(settings: Mapping[str, Any], ids: Mapping[str, int], keys: tuple[str, ...]) -> int | None:
    """Return the token that the first of these settings names."""
    for key in keys:
        found = settings.get(key)
        text = found.get("content") if isinstance(found, dict) else found
        if isinstance(text, str) and text in ids:
            return ids[text]
    return None
