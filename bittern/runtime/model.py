"""A loaded model: text in, text out; token ids in, logits out."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.base.html_table import html_table
from bittern.base.progress import Progress
from bittern.chips.chip import Loaded, Reals, Session, chip
from bittern.front.bind import CACHES, Bound, bind_checkpoint
from bittern.front.checkpoint import Checkpoint
from bittern.front.gguf import open_gguf
from bittern.front.huggingface import open_folder
from bittern.front.template import ChatTemplate
from bittern.front.tokenizer import Tokenizer
from bittern.front.tokenizer_json import folder_tokenizer
from bittern.lang.library import Library
from bittern.runtime.decode import check_room, run_last, run_rows, start
from bittern.runtime.sample import MOST_TOKENS, Sampler, check_range
from bittern.runtime.store import Store

BAD_CACHE = code("R106", "unknown element of the cache")
NO_TOKENIZER = code("R107", "the model has no tokenizer")
NO_FOLDER = code("R112", "there is no folder of programs at this place")

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

    def _repr_html_(self) -> str:
        """Return what a notebook shows of the model: its file, its sizes and its program."""
        checkpoint, bound = self.bound.checkpoint, self.bound
        rows = (
            ("name", checkpoint.metadata.get("general.name", "")),
            ("family", bound.family.name),
            ("file", checkpoint.path),
            ("bytes", checkpoint.size),
            ("tensors", len(checkpoint.tensors)),
            ("sizes", ", ".join(f"{name} = {size}" for name, size in bound.dims.items())),
            ("cache", bound.cache),
            ("forward", bound.forward.id.hex()),
            ("head", bound.head.id.hex()),
        )
        return html_table("model", rows)

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
        """Return a user's message in the model's chat template, with the start of the answer. Raises R107, F4xx."""
        template = ChatTemplate.from_gguf(self.bound.checkpoint.metadata)
        tokenizer = need_tokenizer(self.tokenizer)
        marks = [tokenizer.text(i) if i is not None else "" for i in (tokenizer.bos, tokenizer.eos)]
        messages = [{"role": "user", "content": message}]
        return template.render(messages, add_generation_prompt=True, bos_token=marks[0], eos_token=marks[1])

    def logits(self, tokens: Sequence[int] | npt.NDArray[Any]) -> Reals:
        """Return the logits after each of the tokens, from a fresh start.

        tokens: [t] -> [t, vocab] f32, or f64 on the reference. Raises R102 to R104, R109.
        """
        ids = [int(token) for token in tokens]
        session = self._start(ids, 1)
        return session.logits(run_rows(session, ids))

    def generate(
        self,
        prompt: str | Sequence[int] | npt.NDArray[Any],
        count: int = 128,
        *,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        seed: int = 0,
        chat: bool = False,
        ignore_eos: bool = False,
        progress: Progress | None = None,
    ) -> "Generation":
        """Return an iterator over the pieces of a prompt's continuation; together they are its text.

        prompt: text, or token ids. count: most tokens that are made. temperature 0 takes the likeliest token; the rest
        is as in `std/sample.btn`. chat: put the prompt into the chat template. ignore_eos: go on after the end.
        progress: is shown for a long prompt.
        Raises R102 to R104, R107, R109, R110, F3xx, F4xx, before anything is made.
        """
        tokenizer = need_tokenizer(self.tokenizer)
        if isinstance(prompt, str):
            ids = tokenizer.encode(self.chat_text(prompt), bos=False) if chat else tokenizer.encode(prompt)
        else:
            ids = [int(token) for token in prompt]
        check_range("count", count, 1, MOST_TOKENS)
        sampler = Sampler(self.bound.library, self.vocab_size, temperature, top_k, top_p, min_p, seed)
        stops: frozenset[int] = frozenset() if ignore_eos else tokenizer.stop_ids
        return Generation(self._start(ids, count), tokenizer, sampler, ids, count, stops, progress)

    def positions(self, count: int) -> int:
        """Return the positions of the cache that are made for so many tokens."""
        return self._context or -(-max(count, 1) // _GRAIN) * _GRAIN

    def _start(self, ids: Sequence[int], count: int) -> Session:
        context = self.positions(len(ids) + count - 1)
        check_room(ids, count, context, self.vocab_size, self.bound.dims.get("places"))
        return start(self._loaded, context)


class Generation(Iterator[str]):
    """The continuation of a prompt, made while it is read: an iterator over pieces of text.

    prompt: token ids. tokens: what was made so far, also the token that ended it. stopped: `end` at the end of the
    text, `count` when as many tokens were made as were asked for; None before.
    """

    def __init__(
        self,
        session: Session,
        tokenizer: Tokenizer,
        sampler: Sampler,
        prompt: list[int],
        count: int,
        stops: frozenset[int],
        progress: Progress | None = None,
    ) -> None:
        """Use `Model.generate`."""
        self.prompt = prompt
        self.tokens: list[int] = []
        self.stopped: str | None = None
        self._session = session
        self._sampler = sampler
        self._count = count
        self._stops = stops
        self._progress = progress
        self._pieces = self._decode(tokenizer)

    def __next__(self) -> str:
        return next(self._pieces)

    def _decode(self, tokenizer: Tokenizer) -> Iterator[str]:
        stream = tokenizer.stream(start=False)
        for token in self._make():
            if token < tokenizer.vocab_size and (piece := stream.push(token)):
                yield piece
        if piece := stream.flush():
            yield piece

    def _make(self) -> Iterator[int]:
        logits = run_last(self._session, self.prompt, 0, self._progress)
        for step in range(self._count):
            token = self._sampler.token(np.asarray(logits, np.float32), step)
            self.tokens.append(token)
            if token in self._stops:
                self.stopped = "end"
                return
            yield token
            if step + 1 < self._count:
                logits = run_last(self._session, [token], len(self.prompt) + step)
        self.stopped = "count"


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

    path: a GGUF file or a Hugging Face folder. context: positions of the cache; None: as many as a call needs. cache:
    element of keys and values, `f16`, `f32` or `int8`. store: keeps digests and derived tables between runs; None keeps
    nothing. library: folders of programs and families that come before those of Bittern; their binding files are run.
    Raises F1xx, F3xx, M1xx, E212, R101, R106, R110, R112.
    """
    if context is not None:
        check_range("context", context, 1, MOST_TOKENS)
    checkpoint = open_checkpoint(Path(path), store, library)
    try:
        tokenizer = tokenizer_of(checkpoint, store)
        bound = bound_model(checkpoint, cache, library)
        return Model(bound, tokenizer, _chip(chip).load(bound), context)
    except BaseException:
        checkpoint.close()
        raise


_chip = chip


def open_checkpoint(path: Path, store: Store | None, library: Sequence[Path] = ()) -> Checkpoint:
    """Open a GGUF file or a Hugging Face folder; digests are kept in the store where it can be written.

    library: folders of families before Bittern's. Raises F1xx, M110, M113.
    """
    cache = None if store is None else store.root
    return open_folder(path, cache, library) if path.is_dir() else open_gguf(path, cache)


def tokenizer_of(checkpoint: Checkpoint, store: Store | None) -> Tokenizer | None:
    """Return the tokenizer of a checkpoint, or None where it has none. Raises F3xx."""
    if checkpoint.folder is not None:
        return folder_tokenizer(checkpoint.folder)
    if "tokenizer.ggml.model" not in checkpoint.metadata:
        return None
    return Tokenizer.from_gguf(checkpoint.metadata, None if store is None else store.root / "tokenizers")


def bound_model(checkpoint: Checkpoint, cache: str, library: Sequence[Path] = ()) -> Bound:
    """Return the program of a checkpoint with its constants. library: folders before Bittern's.

    Raises M1xx, E212, R106, R112.
    """
    if cache not in CACHES:
        raise BitternError(BAD_CACHE, f"There is no cache of `{cache}`.", f"Known: {', '.join(CACHES)}.")
    for folder in library:
        if not folder.is_dir():
            raise BitternError(
                NO_FOLDER, f"There is no folder `{folder}`.", "A library is a folder with `.btn` programs."
            )
    return bind_checkpoint(checkpoint, Library.standard(*library), cache)


def decoded(tokenizer: Tokenizer, tokens: Sequence[int]) -> str:
    """Return the text of tokens that a model made. A token beyond the tokenizer's, from a padded matrix, has none."""
    return tokenizer.decode([token for token in tokens if token < tokenizer.vocab_size], start=False)


def need_tokenizer(tokenizer: Tokenizer | None) -> Tokenizer:
    """Return the tokenizer. Raises R107 where the file has none."""
    if tokenizer is None:
        raise BitternError(
            NO_TOKENIZER, "The checkpoint has no tokenizer.", "Give token ids: `bittern bringup MODEL --tokens 1,2,3`."
        )
    return tokenizer
