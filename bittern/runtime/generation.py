"""A text while it is made: the continuation of one prompt, piece by piece."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from weakref import finalize

import numpy as np

from bittern.base.progress import Progress
from bittern.chips.chip import ChoosingSession
from bittern.front.tokenizer import Tokenizer
from bittern.runtime.decode import feed, run_last
from bittern.runtime.pool import Lease
from bittern.runtime.sample import Sampler
from bittern.runtime.speculate import follow


@dataclass(slots=True)
class Made:
    """What was made of a prompt so far.

    prompt: token ids. tokens: those that follow it, also the one that ended it. stopped: `end` at the end of the text,
    `count` when as many tokens were made as were asked for; None before.
    """

    prompt: list[int]
    tokens: list[int] = field(default_factory=list)
    stopped: str | None = None

    def take(self, tokens: Iterable[int], stops: frozenset[int]) -> Iterator[int]:
        """Take tokens as they come, and yield all but the one that ends the text."""
        for token in tokens:
            self.tokens.append(token)
            if token in stops:
                self.stopped = "end"
                return
            yield token
        self.stopped = "count"

    @property
    def text(self) -> list[int]:
        """All tokens so far; the cache holds all but the last."""
        return [*self.prompt, *self.tokens]


@dataclass(frozen=True, slots=True)
class Wish:
    """How a text goes on. count: tokens at most. stops: tokens that end it. speculates: see runtime/speculate.py."""

    sampler: Sampler
    count: int
    stops: frozenset[int]
    speculates: bool = True


class Generation(Iterator[str]):
    """The continuation of a prompt, made while it is read: an iterator over pieces of text."""

    def __init__(
        self, lease: Lease, tokenizer: Tokenizer, wish: Wish, prompt: list[int], progress: Progress | None = None
    ) -> None:
        """Use `Model.generate`."""
        self._made = Made(prompt)
        self._pieces = _pieces(lease, tokenizer, wish, self._made, progress)
        finalize(self, lease.end)

    def __next__(self) -> str:
        return next(self._pieces)

    @property
    def prompt(self) -> list[int]:
        """The token ids of the prompt."""
        return self._made.prompt

    @property
    def tokens(self) -> list[int]:
        """What was made so far, also the token that ended it."""
        return self._made.tokens

    @property
    def stopped(self) -> str | None:
        """`end` at the end of the text, `count` when as many tokens were made as were asked for; None before."""
        return self._made.stopped


def _pieces(lease: Lease, tokenizer: Tokenizer, wish: Wish, made: Made, progress: Progress | None) -> Iterator[str]:
    """Yield the text of tokens as they are made. It knows nothing of the generation, so that this goes when unused."""
    stream = tokenizer.stream(start=False)
    make = _likeliest if wish.sampler.is_greedy and isinstance(lease.session, ChoosingSession) else _sampled
    try:
        for token in made.take(make(lease, wish, made, progress), wish.stops):
            if token < tokenizer.vocab_size and (piece := stream.push(token)):
                yield piece
        if piece := stream.flush():
            yield piece
    finally:
        if made.tokens:
            lease.ran(made.text[:-1], made.text)
        lease.end()


SHORT = 16  # tokens of a prompt that run as one pass which chooses, too


def _likeliest(lease: Lease, wish: Wish, made: Made, progress: Progress | None) -> Iterator[int]:
    """Yield the likeliest tokens, which the session chooses."""
    session = lease.session
    assert isinstance(session, ChoosingSession), session
    rest, first = made.prompt[lease.known :], list[int]()
    if 1 < len(rest) <= SHORT:  # its last token is chosen from in the same pass: the step is not needed yet
        place = np.arange(lease.known, len(made.prompt), dtype=np.uint32)
        first = session.likeliest(np.array(rest, np.uint32), np.zeros(len(rest), np.uint32), place)[-1:]
        lease.ran(made.prompt)
        yield first[0]
        if first[0] in wish.stops or wish.count == 1:
            return
    else:
        if len(rest) > 1:
            feed(session, rest[:-1], lease.known, progress)
        lease.ran(made.prompt[:-1])
    pieces = follow(
        session,
        [*made.prompt, *first],
        wish.count - len(first),
        wish.stops,
        speeds=lease.speeds,
        room=session.context,
        speculates=wish.speculates,
    )
    for piece in pieces:
        yield from piece


def _sampled(lease: Lease, wish: Wish, made: Made, progress: Progress | None) -> Iterator[int]:
    """Yield tokens that are drawn from the logits."""
    session, prompt = lease.session, made.prompt
    logits = run_last(session, prompt[lease.known :], lease.known, progress)
    for step in range(wish.count):
        if step:
            logits = run_last(session, made.tokens[-1:], len(prompt) + step - 1)
        yield wish.sampler.token(np.asarray(logits, np.float32), step)
