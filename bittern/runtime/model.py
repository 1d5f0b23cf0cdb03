"""A loaded model: text in, text out; token ids in, logits out."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.base.html_table import html_table
from bittern.base.progress import Progress
from bittern.chips.chip import Chip, KeepingSession, Loaded, Reals, Session
from bittern.front.bound import Bound
from bittern.front.checkpoint import Checkpoint
from bittern.front.gguf import open_gguf
from bittern.front.tokenizer import Tokenizer
from bittern.runtime.binding import bound_model
from bittern.runtime.choice import AUTO, prepared
from bittern.runtime.decode import check_room, run_rows, start
from bittern.runtime.generation import Generation, Wish
from bittern.runtime.pool import Lease, Pool
from bittern.runtime.sample import MOST_TOKENS, Sampler, check_range
from bittern.runtime.states import NO_STATE, OTHER_MODEL, State, graph_of, read_state, write_state
from bittern.runtime.store import Store

if TYPE_CHECKING:
    from bittern.runtime.batch import Batch

NO_TOKENIZER = code("R107", "the model has no tokenizer")

_GRAIN = 256  # contexts that are not given are multiples of this many positions


class Model:
    """A checkpoint with its program, tokenizer and chip. Use as a context manager: it holds the file open.

    bound: program and constants. tokenizer: None where the file has none. chip: what it runs on.
    """

    def __init__(
        self, bound: Bound, tokenizer: Tokenizer | None, chip: Chip, loaded: Loaded, context: int | None
    ) -> None:
        """Use `load`."""
        self.bound = bound
        self.tokenizer = tokenizer
        self.chip = chip
        self._loaded = loaded
        self._context = context
        self._pool = Pool(loaded, _bytes_of_position(bound), chip.is_strict)
        self._batches: list[Session] = []  # one at most, while no batch runs on it

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
        from bittern.front.template import ChatTemplate

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
        lease = self._lease(ids, 1)
        try:
            logits = lease.session.logits(run_rows(lease.session, ids))
            lease.ran(ids)
        finally:
            lease.end()
        return logits

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
        speculates: bool = True,
        progress: Progress | None = None,
    ) -> Generation:
        """Return an iterator over the pieces of a prompt's continuation; together they are its text.

        prompt: text, or token ids. count: most tokens that are made. temperature 0 takes the likeliest token; the rest
        is as in `std/sample.btn`. chat: put the prompt into the chat template. ignore_eos: go on after the end.
        speculates: drafts are verified where that is faster; the text is the same. progress: of a long prompt.
        Raises R102 to R104, R107, R109, R110, F3xx, F4xx, before anything is made.
        """
        tokenizer = need_tokenizer(self.tokenizer)
        ids = self._ids(prompt, chat)
        wish = self._wish(count, (temperature, top_k, top_p, min_p, seed), ignore_eos, speculates)
        return Generation(self._lease(ids, count), tokenizer, wish, ids, progress)

    def generate_many(
        self,
        prompts: Sequence[str | Sequence[int] | npt.NDArray[Any]],
        count: int = 128,
        *,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        seed: int = 0,
        chat: bool = False,
        ignore_eos: bool = False,
        speculates: bool = True,
        progress: Progress | None = None,
    ) -> "Batch":
        """Return an iterator over (number of the prompt, piece) of the continuations of several prompts, made together.

        Each is what `generate` makes of its prompt with the same arguments; `texts` of the result holds them.
        Raises what `generate` does.
        """
        from bittern.runtime.batch import Batch

        tokenizer = need_tokenizer(self.tokenizer)
        wish = self._wish(count, (temperature, top_k, top_p, min_p, seed), ignore_eos, speculates)
        ids = [self._ids(prompt, chat) for prompt in prompts]
        for each in ids:
            self._check(each, count)
        session = self._batch(max(map(len, ids), default=1) + count - 1, len(ids))
        return Batch(session, tokenizer, wish, ids, lambda: self._give_back(session), progress)

    def save_state(self, path: str | Path) -> None:
        """Save the text that was made or read last, with its keys and values, in a file. Raises R150, R151."""
        kept = self._pool.last
        if kept is None or not kept.tokens or not isinstance(kept.session, KeepingSession):
            raise BitternError(
                NO_STATE, "There is no text whose state could be saved.", "Generate first, on a chip that keeps states."
            )
        leaves = kept.session.positions(len(kept.tokens))
        write_state(State(graph_of(self.bound), tuple(kept.text), tuple(leaves)), Path(path))

    def restore(self, path: str | Path) -> list[int]:
        """Take in a saved state; return its text as token ids. A prompt that begins with them starts from there.

        Raises R102, R104, R109, R150 to R154.
        """
        state = read_state(Path(path), graph_of(self.bound))
        text = list(state.tokens)
        context = self.positions(len(text))
        self._check(text, 1)
        lease = self._pool.lease([text[0]], context)
        try:
            session = lease.session
            if not isinstance(session, KeepingSession):
                raise BitternError(NO_STATE, f"The chip `{self.chip.name}` keeps no states.", "Run on another chip.")
            wanted = [(leaf.dtype, leaf.shape[0], leaf.shape[2:]) for leaf in session.positions(1)]
            if wanted != [(leaf.dtype, leaf.shape[0], leaf.shape[2:]) for leaf in state.leaves]:
                what = f"The keys and values of {path} are of another kind than those of the chip `{self.chip.name}`."
                raise BitternError(OTHER_MODEL, what, "Restore it on a chip of the numerics with which it was saved.")
            session.put_positions(state.leaves)
            lease.ran(text[: state.used], text)
        finally:
            lease.end()
        return text

    def positions(self, count: int) -> int:
        """Return the positions of the cache that are made for so many tokens."""
        return self._context or -(-max(count, 1) // _GRAIN) * _GRAIN

    def _ids(self, prompt: str | Sequence[int] | npt.NDArray[Any], chat: bool) -> list[int]:
        """Return the token ids of a prompt."""
        tokenizer = need_tokenizer(self.tokenizer)
        if isinstance(prompt, str):
            return tokenizer.encode(self.chat_text(prompt), bos=False) if chat else tokenizer.encode(prompt)
        return [int(token) for token in prompt]

    def _wish(
        self, count: int, sampling: tuple[float, int, float, float, int], ignore_eos: bool, speculates: bool
    ) -> Wish:
        """Return how texts go on. sampling: temperature, top_k, top_p, min_p, seed. Raises R110."""
        check_range("count", count, 1, MOST_TOKENS)
        sampler = Sampler(lambda: self.bound.library, self.vocab_size, *sampling)
        stops: frozenset[int] = frozenset() if ignore_eos else need_tokenizer(self.tokenizer).stop_ids
        return Wish(sampler, count, stops, speculates)

    def _check(self, ids: Sequence[int], count: int) -> int:
        """Return the positions that a text needs. Raises R102 to R104, R117."""
        context = self.positions(len(ids) + count - 1)
        check_room(ids, count, context, self.vocab_size, self.bound.dims.get("places"))
        return context

    def _lease(self, ids: Sequence[int], count: int) -> Lease:
        return self._pool.lease(ids, self._check(ids, count))

    def _batch(self, context: int, sequences: int) -> Session:
        """Return a session for several sequences; their number is rounded up, so that code is shared. Raises R109."""
        wanted, room = 1 << (max(sequences, 1) - 1).bit_length(), self.positions(context)
        while self._batches:
            kept = self._batches.pop()
            if kept.sequences >= wanted and kept.context >= room:
                return kept
        return start(self._loaded, room, wanted)

    def _give_back(self, session: Session) -> None:
        self._batches[:] = [session]


def _bytes_of_position(bound: Bound) -> int:
    """Return the bytes of the cache for each position of a sequence."""
    total = 0
    for leaf in bound.outline.leaves:
        layers, _, _, heads, values = leaf.shape
        count = (layers * heads * values).constant
        assert count is not None, leaf
        total += count * leaf.element.bits // 8
    return total


def load(
    path: str | Path,
    *,
    chip: str = AUTO,
    threads: int = 0,
    tier: str = "",
    context: int | None = None,
    cache: str = "f16",
    store: Store | None = None,
    library: Sequence[Path] = (),
    progress: Progress | None = None,
) -> Model:
    """Open a checkpoint and prepare it for a chip.

    path: a GGUF file or a Hugging Face folder. chip: its name; `auto`: the best one that is here. threads: 0 takes all
    cores. tier: a feature level of the chip, "" for the best. context: positions of the cache; None: as many as a call
    needs. cache: element of keys and values, `f16`, `f32` or `int8`. store: keeps digests, code and derived tables
    between runs; None keeps nothing. library: folders of programs and families that come before those of Bittern; their
    binding files are run. progress: is told of a chip that had to be replaced.
    Raises F1xx, F3xx, M1xx, E212, R101, R106, R110, R112, R115, R162 to R165.
    """
    if context is not None:
        check_range("context", context, 1, MOST_TOKENS)
    checkpoint = open_checkpoint(Path(path), store, library)
    try:
        tokenizer = tokenizer_of(checkpoint, store)
        bound = bound_model(checkpoint, cache, library, store)
        used, loaded = prepared(bound, chip, threads, tier, None if store is None else store.root, progress)
        return Model(bound, tokenizer, used, loaded, context)
    except BaseException:
        checkpoint.close()
        raise


def open_checkpoint(path: Path, store: Store | None, library: Sequence[Path] = ()) -> Checkpoint:
    """Open a GGUF file or a Hugging Face folder; digests are kept in the store where it can be written.

    library: folders of families before Bittern's. Raises F1xx, M110, M113.
    """
    cache = None if store is None else store.root
    if not path.is_dir():
        return open_gguf(path, cache)
    from bittern.front.huggingface import open_folder

    return open_folder(path, cache, library)


def tokenizer_of(checkpoint: Checkpoint, store: Store | None) -> Tokenizer | None:
    """Return the tokenizer of a checkpoint, or None where it has none. Raises F3xx."""
    if checkpoint.folder is not None:
        from bittern.front.tokenizer_json import folder_tokenizer

        return folder_tokenizer(checkpoint.folder)
    if "tokenizer.ggml.model" not in checkpoint.metadata:
        return None
    return Tokenizer.from_gguf(checkpoint.metadata, None if store is None else store.root / "tokenizers")


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
