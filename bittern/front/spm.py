"""SentencePiece vocabularies as BPE: which pair of pieces makes each token, in which order.

A SentencePiece BPE file has scores but no merges. Its rule: of all neighbours whose joined text is a token, join those
with the highest score, the leftmost first, until none is left. A merge list says the same if it has the one pair by
which the rule can make a token: the last two pieces when the rule runs on the token's own text. (What happens inside
a stretch that becomes one token does not depend on the text around it, for a merge across its border would have
destroyed it. So no other pair can ever make that token, and a list with every possible split would be wrong where
two of them overlap.) Ranks are the scores in descending order, so no two of those tokens may share a score; where
they do, `join` runs the rule itself.

Deriving the list for 262,144 tokens takes seconds, so it is kept under the SHA-256 of what it is derived from.
"""

import hashlib
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Pairs: TypeAlias = npt.NDArray[np.uint32]
"""[merges, 3]: ids of left piece, right piece and the token they make, in order of rank."""

_MAGIC = b"bittern spm 1\n"
_DIGEST = 32


def spm_pairs(
    pieces: list[str], ids: Mapping[str, int], scores: Mapping[str, float], cache: Path | None = None
) -> Pairs | None:
    """Return the merges of a SentencePiece vocabulary, or None where equal scores leave the order to the positions.

    pieces: the texts of all pieces, each at its id in `ids`. scores: of the pieces that merges may make; no NaN.
    cache: a folder where the result is kept; what is found there is used only if its digest is right.
    """
    values = np.array([*scores.values()], np.float32)
    place = None if cache is None else cache / f"{_address(pieces, scores, values)}.spm"
    found = None if place is None else _load(place, len(pieces))
    if found is None:
        found = _derive(ids, scores)
        if place is not None:
            _store(place, found)
    made = [scores.get(pieces[number]) for number in found[:, 2].tolist()]
    return None if len({*made}) != len(made) else found


def join(text: str, scores: Mapping[str, float]) -> list[str]:
    """Return the pieces of `text` by the rule itself: highest score first, then leftmost. Time n log n."""
    pieces: list[str] = list(text)
    after = list(range(1, len(pieces) + 1))
    before = list(range(-1, len(pieces) - 1))
    heap = [
        (-scores[pair], at, pair) for at in range(len(pieces) - 1) if (pair := pieces[at] + pieces[at + 1]) in scores
    ]
    heapify(heap)
    while heap:
        _, at, made = heappop(heap)
        other = after[at]
        if other >= len(pieces) or not pieces[at] or pieces[at] + pieces[other] != made:
            continue
        pieces[at], pieces[other] = made, ""
        after[at] = following = after[other]
        if following < len(pieces):
            before[following] = at
            if (pair := made + pieces[following]) in scores:
                heappush(heap, (-scores[pair], at, pair))
        previous = before[at]
        if previous >= 0 and (pair := pieces[previous] + made) in scores:
            heappush(heap, (-scores[pair], previous, pair))
    return [piece for piece in pieces if piece]


def _derive(ids: Mapping[str, int], scores: Mapping[str, float]) -> Pairs:
    rows: list[tuple[float, int, int, int]] = []
    for text, score in scores.items():
        splits = [at for at in range(1, len(text)) if text[:at] in ids and text[at:] in ids]
        at = splits[0] if len(splits) == 1 else _last_split(text, scores) if splits else None
        if at is not None:
            rows.append((-score, ids[text], ids[text[:at]], ids[text[at:]]))
    rows.sort()
    return np.array([(left, right, made) for _, made, left, right in rows], np.uint32).reshape(-1, 3)


def _last_split(text: str, scores: Mapping[str, float]) -> int | None:
    """Return where the last two pieces of `text` meet when the rule runs on it, or None if it stops before."""
    pieces = list(text)
    none = float("-inf")
    get = scores.get
    joins = [get(pieces[at] + pieces[at + 1], none) for at in range(len(pieces) - 1)]
    while len(pieces) > 2:
        best = max(joins)
        if best == none:
            return None
        at = joins.index(best)
        pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
        del joins[at]
        if at:
            joins[at - 1] = get(pieces[at - 1] + pieces[at], none)
        if at < len(joins):
            joins[at] = get(pieces[at] + pieces[at + 1], none)
    return len(pieces[0])


def _address(pieces: list[str], scores: Mapping[str, float], values: npt.NDArray[np.float32]) -> str:
    hasher = hashlib.sha256(_MAGIC)
    for texts in (pieces, [*scores]):
        hasher.update(len(texts).to_bytes(8, "little"))
        hasher.update(np.array([*map(len, texts)], "<u4").tobytes())
        hasher.update("".join(texts).encode())
    hasher.update(values.astype("<f4").tobytes())
    return hasher.hexdigest()


def _load(place: Path, count: int) -> Pairs | None:
    """Return the kept pairs, or None if there are none or they are damaged."""
    try:
        stored = place.read_bytes()
    except OSError:
        return None
    body = stored[len(_MAGIC) + _DIGEST :]
    if stored[: len(_MAGIC) + _DIGEST] != _MAGIC + hashlib.sha256(body).digest() or len(body) % 12:
        return None
    pairs = np.frombuffer(body, "<u4").reshape(-1, 3)
    return pairs if not len(pairs) or pairs.max() < count else None


def _store(place: Path, pairs: Pairs) -> None:
    """Keep the pairs under their address, whole or not at all; a folder that cannot be written costs time only."""
    body = pairs.astype("<u4").tobytes()
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=place.name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(body).digest() + body)
            os.replace(name, place)
        except BaseException:
            os.unlink(name)
            raise
