"""A loaded model: text in, text out; token ids in, logits out."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.chips.chip import Loaded, Reals, Session, chip
from bittern.front.bind import CACHES, Bound, bind_checkpoint
from bittern.front.checkpoint import Checkpoint
from bittern.front.gguf import open_gguf
from bittern.front.template import ChatTemplate
from bittern.front.tokenizer import Tokenizer
from bittern.lang.library import Library
from bittern.runtime.decode import check_room, run_chunked, run_rows
from bittern.runtime.sample import Sampler
from bittern.runtime.store import Store

NO_TEMPLATE = code("R105", "the model has no chat template")
BAD_CACHE = code("R106", "unknown element of the cache")
NO_TOKENIZER = code("R107", "the model has no tokenizer")

_GRAIN = 256  # contexts that are not given are multiples of this many positions


class Model:
    """A checkpoint with its program, tokenizer and chip. Use as a context manager: it holds the file open.

    bound: program and constants. tokenizer: None where the file has none.
    """

    def __init__(self, bound: Bound, tokenizer: Tokenizer | None, loaded: Loaded, context: int | None) -> None:
        self.bound = bound
        self.tokenizer = tokenizer
        self._loaded = loaded
        self._context = context

    def __enter__(self) -> "Model":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the checkpoint's file."""
        self.bound.checkpoint.close()

    @property
    def vocab_size(self) -> int:
        """How many tokens the model knows."""
        return self.bound.dims["vocab"]

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text, with BOS as the file asks. Raises R107 and the tokenizer's errors."""
        return need_tokenizer(self.tokenizer).encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids. Raises R107 and the tokenizer's errors."""
        return need_tokenizer(self.tokenizer).decode(ids)

    def chat_text(self, message: str) -> str:
        """Return a user's message in the model's chat template, with the start of the answer. Raises R105, F4xx."""
        source = self.bound.checkpoint.metadata.get("tokenizer.chat_template")
        if not isinstance(source, str):
            raise BitternError(
                NO_TEMPLATE, "The model has no chat template.", "Give the prompt as the model expects it."
            )
        tokenizer = need_tokenizer(self.tokenizer)
        marks = [tokenizer.text(i) if i is not None else "" for i in (tokenizer.bos, tokenizer.eos)]
        messages = [{"role": "user", "content": message}]
        return ChatTemplate(source).render(messages, add_generation_prompt=True, bos_token=marks[0], eos_token=marks[1])

    def logits(self, tokens: Sequence[int] | npt.NDArray[Any]) -> Reals:
        """Return the logits after each of the tokens, from a fresh start. tokens: [t] -> [t, vocab]. Raises R102 to R104."""
        ids = [int(token) for token in tokens]
        session = self._start(ids, 1)
        return session.logits(run_rows(session, ids))

    def generate(
        self,
        prompt: str | Sequence[int],
        count: int = 128,
        *,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        seed: int = 0,
        chat: bool = False,
        ignore_eos: bool = False,
    ) -> Iterator[str]:
        """Yield pieces of the continuation of a prompt; together they are its text.

        prompt: text, or token ids. count: most tokens that are made. temperature 0 takes the likeliest token; the rest
        is as in `std/sample.btn`. chat: put the prompt into the chat template. ignore_eos: go on after the end.
        Raises R102 to R107, F3xx, F4xx, R110.
        """
        tokenizer = need_tokenizer(self.tokenizer)
        if isinstance(prompt, str):
            ids = tokenizer.encode(self.chat_text(prompt), bos=False) if chat else tokenizer.encode(prompt)
        else:
            ids = [int(token) for token in prompt]
        stops = frozenset() if ignore_eos else tokenizer.stop_ids
        sampler = Sampler(self.bound.library, self.vocab_size, temperature, top_k, top_p, min_p, seed)
        stream = tokenizer.stream(start=False)
        for token in self._tokens(ids, count, sampler):
            if token in stops:
                break
            if piece := stream.push(token):
                yield piece
        if piece := stream.flush():
            yield piece

    def _tokens(self, ids: Sequence[int], count: int, sampler: Sampler) -> Iterator[int]:
        session = self._start(ids, count)
        hidden = run_chunked(session, ids)
        for step in range(count):
            token = sampler.token(np.asarray(session.logits(hidden)[0], np.float32), step)
            yield token
            if step + 1 < count:
                hidden = run_chunked(session, [token], len(ids) + step)

    def _start(self, ids: Sequence[int], count: int) -> Session:
        need = len(ids) + count - 1
        context = self._context or -(-max(need, 1) // _GRAIN) * _GRAIN
        check_room(ids, count, context, self.vocab_size)
        return self._loaded.start(context)


def load(
    path: str | Path,
    *,
    chip: str = "vm",
    context: int | None = None,
    cache: str = "f16",
    store: Store | None = None,
    library: Sequence[Path] = (),
) -> Model:
    """Open a checkpoint and prepare it for a chip.

    path: a GGUF file. context: positions of the cache; None: as many as a call needs. cache: element of keys and
    values, `f16`, `f32` or `int8`. store: keeps digests and derived tables between runs; None keeps nothing. library:
    folders of programs and families that come before those of Bittern; their binding files are run.
    Raises F1xx, F3xx, M1xx, R101, R106.
    """
    checkpoint = open_checkpoint(Path(path), store)
    try:
        tokenizer = tokenizer_of(checkpoint, store)
        bound = bound_model(checkpoint, cache, library)
        return Model(bound, tokenizer, _chip(chip).load(bound), context)
    except BaseException:
        checkpoint.close()
        raise


_chip = chip


def open_checkpoint(path: Path, store: Store | None) -> Checkpoint:
    """Open a checkpoint file; digests are kept in the store. Raises F1xx."""
    return open_gguf(path, None if store is None else store.folder("digests"))


def tokenizer_of(checkpoint: Checkpoint, store: Store | None) -> Tokenizer | None:
    """Return the tokenizer of a checkpoint, or None where it has none. Raises F3xx."""
    if "tokenizer.ggml.model" not in checkpoint.metadata:
        return None
    return Tokenizer.from_gguf(checkpoint.metadata, None if store is None else store.folder("tokenizers"))


def bound_model(checkpoint: Checkpoint, cache: str, library: Sequence[Path] = ()) -> Bound:
    """Return the program of a checkpoint with its constants. library: folders before Bittern's. Raises M1xx, R106."""
    if cache not in CACHES:
        raise BitternError(BAD_CACHE, f"There is no cache of `{cache}`.", f"Known: {', '.join(CACHES)}.")
    return bind_checkpoint(checkpoint, Library.standard(*library), cache)


def need_tokenizer(tokenizer: Tokenizer | None) -> Tokenizer:
    """Return the tokenizer. Raises R107 where the file has none."""
    if tokenizer is None:
        raise BitternError(
            NO_TOKENIZER, "The checkpoint has no tokenizer.", "Give token ids: `bittern bringup MODEL --tokens 1,2,3`."
        )
    return tokenizer
