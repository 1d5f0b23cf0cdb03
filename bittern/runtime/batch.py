"""Several texts at once: each a sequence of its own in one session, with its own position and its own end.

One pass over the weights serves a token of each. A row has the bits that it has alone, so a text is the one that its
prompt gives by itself, wherever in whatever batch it stands. Sequences that have ended leave the passes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bittern.base.progress import Progress
from bittern.chips.chip import ChoosingSession, KeepingSession, Session
from bittern.front.tokenizer import Tokenizer
from bittern.runtime.decode import CHUNK, feed_at
from bittern.runtime.generation import Made, Wish
from bittern.runtime.pool import common
from bittern.runtime.speculate import Speeds, follow

_SHARED = 16  # tokens of a common beginning that are worth a copy
_ALONE = 256  # tokens that the last text must have to come, to be worth a program for one sequence


@dataclass(slots=True)
class Text(Made):
    """One text of a batch. made: what follows its prompt, as text."""

    made: str = ""


class Batch(Iterator[tuple[int, str]]):
    """Continuations of several prompts: an iterator over (number of the prompt, piece of its text), as they are made.

    texts: what was made of each prompt so far.
    """

    def __init__(
        self,
        session: Session,
        tokenizer: Tokenizer,
        wish: Wish,
        prompts: Sequence[list[int]],
        done: Callable[[], None],
        progress: Progress | None = None,
    ) -> None:
        """Use `Model.generate_many`. done: is called when the session is free again."""
        self.texts = [Text(prompt) for prompt in prompts]
        self._pieces = self._run(session, tokenizer, wish, done, progress)

    def __next__(self) -> tuple[int, str]:
        return next(self._pieces)

    def finish(self) -> list[str]:
        """Make all that is left; return the texts in the order of the prompts."""
        for _ in self:
            pass
        return [each.made for each in self.texts]

    def _run(
        self, session: Session, tokenizer: Tokenizer, wish: Wish, done: Callable[[], None], progress: Progress | None
    ) -> Iterator[tuple[int, str]]:
        streams = [tokenizer.stream(start=False) for _ in self.texts]
        try:
            for number, token in _tokens(session, wish, self.texts, progress):
                each, stream = self.texts[number], streams[number]
                each.tokens.append(token)
                if token in wish.stops:
                    each.stopped = "end"
                elif len(each.tokens) == wish.count:
                    each.stopped = "count"
                piece = stream.push(token) if each.stopped != "end" and token < tokenizer.vocab_size else ""
                piece = (piece or "") + ((stream.flush() or "") if each.stopped else "")
                if piece:
                    each.made += piece
                    yield number, piece
        finally:
            done()


def _tokens(
    session: Session, wish: Wish, texts: Sequence[Made], progress: Progress | None
) -> Iterator[tuple[int, int]]:
    """Yield (number of the text, its next token); the caller says in the text when it has ended."""
    chooses = wish.sampler.is_greedy and isinstance(session, ChoosingSession)
    shared = _share(session, [text.prompt for text in texts])
    _prefill(session, [text.prompt[:-1] for text in texts], shared, progress)
    step = 0
    while alive := [k for k, text in enumerate(texts) if text.stopped is None]:
        left = wish.count - step
        if len(alive) == 1 and left >= _ALONE and chooses and isinstance(session, ChoosingSession):
            yield from _alone(session, session.context, wish, texts[alive[0]], alive[0], left)
            return
        last = np.array([texts[k].text[-1] for k in alive], np.uint32)
        place = np.array([len(texts[k].prompt) + step - 1 for k in alive], np.uint32)
        sequence = np.array(alive, np.uint32)
        if chooses and isinstance(session, ChoosingSession):
            found = session.likeliest(last, sequence, place)
        else:
            rows = session.logits(session.forward(last, sequence, place))
            found = [wish.sampler.token(np.asarray(row, np.float32), step) for row in rows]
        yield from zip(alive, found, strict=True)
        step += 1


def _alone(
    session: ChoosingSession, room: int, wish: Wish, text: Made, number: int, left: int
) -> Iterator[tuple[int, int]]:
    """Go on with the one text that is left."""
    pieces = follow(
        session,
        text.text,
        left,
        wish.stops,
        speeds=Speeds(),
        room=room,
        speculates=wish.speculates,
        sequence=number,
    )
    for piece in pieces:
        for token in piece:
            yield number, token


def _share(session: Session, prompts: Sequence[list[int]]) -> int:
    """Run a beginning that all prompts have once, and copy what it left; return its length, 0 where it is short."""
    count = min((common(prompts[0][:-1], prompt[:-1]) for prompt in prompts), default=0)
    if len(prompts) < 2 or count < _SHARED or not isinstance(session, KeepingSession):
        return 0
    _run(session, [(prompts[0][at], 0, at) for at in range(count)], None)
    leaves = session.positions(count)
    for sequence in range(1, len(prompts)):
        session.put_positions(leaves, sequence)
    return count


def _prefill(session: Session, prompts: Sequence[list[int]], shared: int, progress: Progress | None) -> None:
    """Run the rest of all prompts, one behind the other, so that chunks are full."""
    rows = [
        (token, sequence, at)
        for sequence, prompt in enumerate(prompts)
        for at, token in enumerate(prompt)
        if at >= shared
    ]
    _run(session, rows, progress)


def _run(session: Session, rows: Sequence[tuple[int, int, int]], progress: Progress | None) -> None:
    """Run rows of (token, sequence, position)."""
    shown = progress if progress is not None and len(rows) > CHUNK else Progress()
    with shown.task("prompts", len(rows), "tokens") as task:
        for low in range(0, len(rows), CHUNK):
            part = np.array(rows[low : low + CHUNK], np.uint32)
            token, sequence, position = (np.ascontiguousarray(column) for column in part.T)
            feed_at(session, token, sequence, position)
            task.advance(len(part))
