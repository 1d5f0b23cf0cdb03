"""The decoding loop: prompt in chunks, then one token after another; the same for every chip."""

from collections.abc import Iterator, Sequence

import numpy as np

from bittern.base.errors import BitternError, code
from bittern.base.progress import Progress
from bittern.chips.chip import Reals, Session

CONTEXT_FULL = code("R102", "the context has no room for the tokens")
NO_TOKENS = code("R103", "there is no token to start from")
TOKEN_RANGE = code("R104", "a token id is outside the vocabulary")

CHUNK = 512  # tokens of a prompt that run as one call


def check_room(prompt: Sequence[int], count: int, context: int, vocab: int) -> None:
    """Refuse a prompt that is empty, holds ids outside the vocabulary or does not fit. Raises R102, R103, R104."""
    if not prompt:
        raise BitternError(
            NO_TOKENS, "The prompt is empty.", "Give a prompt or token ids: the first logits follow a token."
        )
    wrong = [token for token in prompt if not 0 <= token < vocab]
    if wrong:
        raise BitternError(
            TOKEN_RANGE, f"The token id {wrong[0]} is outside the vocabulary.", f"Ids are 0 to {vocab - 1}."
        )
    need = len(prompt) + count - 1
    if need > context:
        raise BitternError(
            CONTEXT_FULL,
            f"{len(prompt)} prompt tokens and {count} new ones need {need} positions, but the context has {context}.",
            f"Give `--ctx {need}` or more, or a shorter prompt.",
        )


def run_chunked(session: Session, tokens: Sequence[int], start: int = 0, progress: Progress | None = None) -> Reals:
    """Run tokens of sequence 0 from a position on, in chunks; return the hidden state of the last, [1, d]."""
    return run_rows(session, tokens, start, progress)[-1:]


def run_rows(session: Session, tokens: Sequence[int], start: int = 0, progress: Progress | None = None) -> Reals:
    """Run tokens of sequence 0 from a position on, in chunks; return the hidden states of all, [t, d]."""
    rows = []
    with (progress or Progress()).task("prompt", len(tokens), "tokens") as task:
        for low in range(0, len(tokens), CHUNK):
            part = np.array(tokens[low : low + CHUNK], np.uint32)
            place = np.arange(start + low, start + low + len(part), dtype=np.uint32)
            rows.append(session.forward(part, np.zeros(len(part), np.uint32), place))
            task.advance(len(part))
    return np.concatenate(rows)


def greedy(logits: Reals) -> int:
    """Return the token of the greatest logit: the lowest of equals, NaN loses to everything. logits: [vocab]."""
    best = int(np.argmax(logits))
    if np.isnan(logits[best]):
        known = np.where(np.isnan(logits), -np.inf, logits)
        best = int(np.argmax((known == known.max()) & ~np.isnan(logits)))
    return best


def greedy_steps(session: Session, prompt: Sequence[int], count: int) -> Iterator[tuple[int, Reals]]:
    """Yield `count` greedy tokens, each with the logits [vocab] from which it was taken."""
    hidden = run_chunked(session, prompt)
    for step in range(count):
        logits = session.logits(hidden)[0]
        token = greedy(logits)
        yield token, logits
        if step + 1 < count:
            hidden = run_chunked(session, [token], len(prompt) + step)
