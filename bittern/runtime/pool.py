"""Sessions that a model keeps: a text that begins like an earlier one goes on where that one is known.

A kept session remembers which tokens its cache holds. A new text takes the session with the longest common beginning,
or gets a copy of those positions where taking it would lose more than a copy costs. Positions behind the beginning are
written before they are read, so that a warm start gives the bits of a cold one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bittern.chips.chip import KeepingSession, Loaded, Session
from bittern.runtime.decode import start
from bittern.runtime.speculate import Speeds

MOST = 4  # sessions
MOST_BYTES = 1 << 29  # of caches; one session is kept whatever it takes
_TAIL = 256  # tokens that may be lost with a session that is taken


@dataclass(slots=True, eq=False)
class Kept:
    """A session of one sequence. tokens: those that its cache holds. text: these, and what follows them.

    is_busy: a text is being made on it.
    """

    session: Session
    tokens: list[int] = field(default_factory=list)
    text: list[int] = field(default_factory=list)
    speeds: Speeds = field(default_factory=Speeds)
    is_busy: bool = False


class Lease:
    """A kept session while a text is made on it. known: tokens of the text that its cache held at the start."""

    def __init__(self, kept: Kept, known: int) -> None:
        self._kept = kept
        self.known = known
        self.session = kept.session
        self.speeds = kept.speeds

    def ran(self, tokens: Sequence[int], text: Sequence[int] | None = None) -> None:
        """Say which tokens the cache holds now, all of them. text: these, and what follows them."""
        self._kept.tokens = list(tokens)
        self._kept.text = list(tokens if text is None else text)

    def end(self) -> None:
        """Give the session back. Another call does nothing."""
        self._kept.is_busy = False


class Pool:
    """See the module. position: bytes of a cache for each position. is_exact: equal tokens leave equal caches."""

    def __init__(self, loaded: Loaded, position: int, is_exact: bool) -> None:
        self._loaded = loaded
        self._position = position
        self._is_exact = is_exact
        self._kept: list[Kept] = []  # the one that was used last is the last one

    def lease(self, text: Sequence[int], context: int) -> Lease:
        """Return a session with room for `context` positions whose cache holds a beginning of the text.

        At least the last token of the text is left to run. Raises R109.
        """
        source, common = self._longest(text)
        kept = self._target(source, common, context)
        known = common if kept is source else 0
        if source is not None and kept is not source and common:
            known = _copied(source, kept, common)
        kept.tokens, kept.is_busy = list(text[:known]), True
        kept.text = list(text)
        self._kept.remove(kept)
        self._kept.append(kept)
        return Lease(kept, known)

    @property
    def last(self) -> Kept | None:
        """The session that was used last."""
        return self._kept[-1] if self._kept else None

    def _longest(self, text: Sequence[int]) -> tuple[Kept | None, int]:
        """Return the session that knows the longest beginning of a text, and how many tokens that is."""
        if not self._is_exact:
            return None, 0
        found = [(common(kept.tokens, text[:-1]), number) for number, kept in enumerate(self._kept)]
        length, number = max(found, default=(0, -1))
        return (self._kept[number], length) if length else (None, 0)

    def _target(self, source: Kept | None, common: int, context: int) -> Kept:
        """Return the session to run on: the one that knows most, one that loses little, or a new one."""
        free = [kept for kept in self._kept if not kept.is_busy and kept.session.context >= context]
        if source is not None and source in free and len(source.tokens) - common <= _TAIL:
            return source
        others = [kept for kept in free if kept is not source and len(kept.tokens) <= _TAIL]
        if others:
            return others[0]
        if free and not self._has_room(context):
            return source if source is not None and source in free else free[0]
        return self._new(context)

    def _has_room(self, context: int) -> bool:
        total = sum(kept.session.context for kept in self._kept) + context
        return len(self._kept) < MOST and total * self._position <= MOST_BYTES

    def _new(self, context: int) -> Kept:
        while self._kept and not self._has_room(context):
            idle = next((kept for kept in self._kept if not kept.is_busy), None)
            if idle is None:
                break
            self._kept.remove(idle)
        kept = Kept(start(self._loaded, context))
        self._kept.append(kept)
        return kept


def common(tokens: Sequence[int], other: Sequence[int]) -> int:
    """Return the number of leading tokens that are equal."""
    pairs = zip(tokens, other, strict=False)
    return next((k for k, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(tokens), len(other)))


def _copied(source: Kept, kept: Kept, count: int) -> int:
    """Copy the first positions of a session into another; return how many were copied."""
    if not isinstance(source.session, KeepingSession) or not isinstance(kept.session, KeepingSession):
        return 0
    kept.session.put_positions(source.session.positions(count))
    return count
