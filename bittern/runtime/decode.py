"""Parts of decoding that are the same for every chip: what fits, the prompt in chunks, one greedy token."""

from collections.abc import Iterator, Sequence

import numpy as np

from bittern.base.errors import BitternError, code
from bittern.base.progress import Progress
from bittern.chips.chip import FeedingSession, Loaded, Reals, Session, Tokens

CONTEXT_FULL = code("R102", "the context has no room for the tokens")
NO_TOKENS = code("R103", "there is no token to start from")
TOKEN_RANGE = code("R104", "a token id is outside the vocabulary")
NO_PLACES = code("R117", "the model has no positions for so many tokens")
NO_MEMORY = code("R109", "the memory does not hold the model and its cache")

CHUNK = 512  # tokens of a prompt that run as one call


def check_room(prompt: Sequence[int], count: int, context: int, vocab: int, places: int | None = None) -> None:
    """Refuse a prompt that is empty, holds ids outside the vocabulary or does not fit.

    places: positions that the model has learned; None: it has no such limit. Raises R102, R103, R104, R117.
    """
    if not prompt:
        raise BitternError(
            NO_TOKENS, "The prompt has no token.", "Give a prompt or token ids: the first logits follow a token."
        )
    wrong = [token for token in prompt if not 0 <= token < vocab]
    if wrong:
        raise BitternError(
            TOKEN_RANGE, f"The token id {wrong[0]} is outside the vocabulary.", f"Ids are 0 to {vocab - 1}."
        )
    need = len(prompt) + count - 1
    if places is not None and need > places:
        raise BitternError(
            NO_PLACES, f"The model has learned {places} positions, but {need} are needed.", "Give fewer tokens."
        )
    if need > context:
        raise BitternError(
            CONTEXT_FULL,
            f"{len(prompt)} prompt tokens and {count} new ones need {need} positions, but the context has {context}.",
            f"Give `--ctx {need}` or more, a shorter prompt, or fewer new tokens.",
        )


def start(loaded: Loaded, context: int, sequences: int = 1) -> Session:
    """Return a session. context: positions of its cache for each sequence. Raises R109."""
    try:
        return loaded.start(context, sequences)
    except MemoryError as error:
        each = f" for each of {sequences} texts" if sequences > 1 else ""
        raise BitternError(
            NO_MEMORY,
            f"A cache of {context} positions{each} does not fit into the memory: {error}.",
            "Give a smaller `--ctx`, fewer new tokens, or `--cache int8`.",
        ) from error


def run_rows(session: Session, tokens: Sequence[int], start: int = 0, progress: Progress | None = None) -> Reals:
    """Run tokens of sequence 0 from a position on, in chunks; return the hidden states of all, [t, d].

    progress: is shown for what is longer than a chunk.
    """
    rows = []
    shown = progress if progress is not None and len(tokens) > CHUNK else Progress()
    with shown.task("prompt", len(tokens), "tokens") as task:
        for low in range(0, len(tokens), CHUNK):
            part = np.array(tokens[low : low + CHUNK], np.uint32)
            place = np.arange(start + low, start + low + len(part), dtype=np.uint32)
            rows.append(session.forward(part, np.zeros(len(part), np.uint32), place))
            task.advance(len(part))
    return np.concatenate(rows)


def feed(
    session: Session, tokens: Sequence[int], start: int = 0, progress: Progress | None = None, *, last: int = 0
) -> Reals:
    """Run tokens as `run_rows` does; return the hidden states of the last few of them alone, [last, d].

    Those of the others are not even copied where the session can do without.
    """
    rows: list[Reals] = []
    shown = progress if progress is not None and len(tokens) > CHUNK else Progress()
    with shown.task("prompt", len(tokens), "tokens") as task:
        for low in range(0, len(tokens), CHUNK):
            part = np.array(tokens[low : low + CHUNK], np.uint32)
            wanted = range(max(len(tokens) - last - low, 0), len(part))
            place = np.arange(start + low, start + low + len(part), dtype=np.uint32)
            rows.append(feed_at(session, part, np.zeros(len(part), np.uint32), place, wanted))
            task.advance(len(part))
    return np.concatenate(rows) if len(rows) != 1 else rows[0]


def feed_at(session: Session, token: Tokens, sequence: Tokens, position: Tokens, rows: Sequence[int] = ()) -> Reals:
    """Run t tokens at their places; return the hidden states [k, d] of some rows, which ascend."""
    if isinstance(session, FeedingSession):
        return session.feed(token, sequence, position, rows)
    return session.forward(token, sequence, position)[np.asarray(rows, np.int64)]


def run_last(session: Session, tokens: Sequence[int], start: int = 0, progress: Progress | None = None) -> Reals:
    """Run tokens as `run_rows` does; return the logits [vocab] after the last of them."""
    logits: Reals = session.logits(feed(session, tokens, start, progress, last=1))[0]
    return logits


def greedy(logits: Reals) -> int:
    """Return the token of the greatest logit: the lowest of equals, NaN loses to everything. logits: [vocab]."""
    best = int(np.argmax(logits))
    if np.isnan(logits[best]):
        known = np.where(np.isnan(logits), -np.inf, logits)
        best = int(np.argmax((known == known.max()) & ~np.isnan(logits)))
    return best


def greedy_steps(
    session: Session, prompt: Sequence[int], count: int, progress: Progress | None = None
) -> Iterator[tuple[int, Reals]]:
    """Yield `count` greedy tokens, each with the logits [vocab] from which it was taken."""
    logits = run_last(session, prompt, 0, progress)
    for step in range(count):
        token = greedy(logits)
        yield token, logits
        if step + 1 < count:
            logits = run_last(session, [token], len(prompt) + step)
