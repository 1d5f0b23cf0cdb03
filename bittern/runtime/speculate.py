"""Lossless speculation by prompt look-up: several tokens in one pass over the weights, where a text repeats itself.

When the last tokens stood in the text before, what followed them there is a draft of what follows now. One pass runs
the last token and the draft together and finds the likeliest token after each; the draft is right as far as it agrees,
and the token after that is known as well. So the tokens are those of decoding one by one, to the bit: a pass gives each
row the bits it has alone, and what was stored at places of wrong tokens is overwritten before anything reads it.

Where nothing repeats, the chip makes many tokens by itself; it watches the text and comes back when its last tokens
seem to have stood in it before (kernels/watch.py).

Whether a pass pays is judged from what was measured (`Speeds`), by the time that the calling thread worked: what other
processes take from it says nothing. Drafts are judged even while none is verified: the text
that comes shows what would have been right. Readying a chip for passes takes time, so that waits until the drafts that
were right would have saved as much (as one rents skis until the rent has cost what buying does).

Sources: prompt look-up, Saxena 2023; verification, Leviathan, Kalman & Matias 2023.
"""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from statistics import median
from time import perf_counter, thread_time

import numpy as np

from bittern.chips.chip import ChoosingSession
from bittern.plan.watch import Watch

DRAFT = 3  # tokens, so that a pass runs four
GRAMS = (4, 3, 2)  # tokens that must agree, the longest run first
SLICE = 0.05  # s between two looks at the text

_GUESS = 1.4  # what a pass costs, in steps, before one was timed
_MARGIN = 1.05  # what a pass must gain to pay
_PRIOR = {4: 2.0, 3: 1.5, 2: 1.0}  # tokens of a draft that are right, before any was seen
_WEIGHT = 1 / 8  # of the newest draft among all of its kind
_FORGET = 256  # tokens after which the times of passes count no more
_FEW = 4  # tokens of a slice before a step was timed
_MOST = 256  # tokens of a slice


class Speeds:
    """What steps and passes of one session cost, and whether passes are worth it.

    is_ready: the session has what it needs for a pass. build: seconds that it takes to make it ready, None before that
    is known.
    saved: steps that verifying every draft so far would have saved.
    """

    def __init__(self) -> None:
        self.saved = 0.0
        self.is_ready = False
        self.build: float | None = None
        self._steps: deque[float] = deque(maxlen=5)  # s of work for a token, lately
        self._passes: deque[float] = deque(maxlen=5)  # s of work for a pass, lately
        self._lasted: float | None = None  # s by the clock for a token, in the last call
        self._since = 0  # tokens since the last pass

    def stepped(self, worked: float, lasted: float, tokens: int) -> None:
        """Take note of a call that made tokens one by one. The first one made its program ready, as a pass must.

        worked, lasted: seconds of the thread, and by the clock.
        """
        self._since += tokens
        if self._since > _FORGET:
            self._passes.clear()
        if self.build is None:
            self.build = worked
        else:
            self._steps.append(worked / tokens)
            self._lasted = lasted / tokens

    def passed(self, worked: float) -> None:
        """Take note of a pass. One that made the session ready says nothing."""
        self._since = 0
        if self.is_ready:
            self._passes.append(worked)

    def drafted(self, right: int) -> None:
        """Take note of a draft of which so many tokens were right, whether it was verified or not."""
        self.saved = max(self.saved + 1 + right - self.ratio, 0.0)

    @property
    def step(self) -> float | None:
        """Seconds of work for a token, None before that is known."""
        return median(self._steps) if self._steps else None

    @property
    def ratio(self) -> float:
        """What a pass costs, in steps."""
        step = self.step
        return median(self._passes) / step if self._passes and step else _GUESS

    def pays(self, right: float) -> bool:
        """Whether a pass pays. right: tokens of the draft that are right, on average."""
        step = self.step
        if not self.is_ready and (step is None or self.build is None or self.saved * step < self.build):
            return False
        return 1 + right > self.ratio * _MARGIN

    def slice(self) -> int:
        """Return how many tokens are made before they are shown; the first one comes alone."""
        if self._lasted is None:
            return 1 if self.build is None else _FEW
        return min(max(int(SLICE / self._lasted), 1), _MOST)


class Drafts:
    """A text with drafts of what follows it, and how often such drafts were right.

    draft: what may follow the text as it is now, empty where nothing is known. grams: tokens that agreed.
    right: tokens of a draft that were right, on average, by the number that agreed.
    """

    def __init__(self, text: Sequence[int], speeds: Speeds) -> None:
        self.text: list[int] = []
        self.draft: tuple[int, ...] = ()
        self.grams = 0
        self.right = dict(_PRIOR)
        self._speeds = speeds
        self._after: dict[tuple[int, ...], int] = {}  # the place behind the last run of these tokens
        self._tried: tuple[int, ...] = ()  # the draft that comes true or not just now
        self._tried_grams = self._came = 0
        for token in text:
            self._append(token)
        self._find()

    def push(self, token: int) -> None:
        """Append a token: the draft that was made before it turns out to be right or wrong."""
        if self.draft:
            self._tried, self._tried_grams, self._came = self.draft, self.grams, 0
        self._append(token)
        if self._came < len(self._tried) and token == self._tried[self._came]:
            self._came += 1
            self.draft = ()  # a pass would still be under way
            return
        if self._tried:
            known = self.right[self._tried_grams]
            self.right[self._tried_grams] = known + (self._came - known) * _WEIGHT
            self._speeds.drafted(self._came)
            self._tried, self._came = (), 0
        self._find()

    @property
    def pays(self) -> bool:
        """Whether verifying the draft pays."""
        return bool(self.draft) and self._speeds.pays(self.right[self.grams])

    @property
    def least(self) -> int:
        """How many tokens must agree for a pass to pay; 0 where none does."""
        return min((grams for grams in GRAMS if self._speeds.pays(self.right[grams])), default=0)

    def _append(self, token: int) -> None:
        place = len(self.text)
        for grams in GRAMS:
            if grams <= place:
                self._after[tuple(self.text[place - grams :])] = place
        self.text.append(token)

    def _find(self) -> None:
        """Find the longest run at the end of the text that stood in it before, and what followed it there."""
        self.draft, self.grams = (), 0
        for grams in GRAMS:
            place = self._after.get(tuple(self.text[-grams:]))
            if place is not None:
                found = self.text[place : place + DRAFT]
                while len(found) < DRAFT:  # a draft that reaches the end of the text goes on with itself
                    found.append(found[place + len(found) - len(self.text)])
                self.draft, self.grams = tuple(found), grams
                return


def follow(
    session: ChoosingSession,
    prompt: Sequence[int],
    count: int,
    stops: Collection[int] = (),
    *,
    speeds: Speeds,
    room: int,
    speculates: bool = True,
    sequence: int = 0,
) -> Iterator[list[int]]:
    """Yield the likeliest continuation of a prompt in pieces: `count` tokens, or up to the first one of `stops`.

    prompt: all of it but the last token was run. room: positions of the cache. speculates: passes are used where they
    pay; the tokens are the same.
    """
    drafts = Drafts(prompt, speeds) if speculates else None
    text = drafts.text if drafts is not None else list(prompt)
    watch, left = Watch(), count
    while left:
        has_room, speeds.is_ready = len(text) + DRAFT <= room, session.is_ready
        began, work = perf_counter(), thread_time()
        if drafts is not None and has_room and drafts.pays:
            new = verified(session, text, drafts.draft, sequence)
            speeds.passed(thread_time() - work)
        else:
            watch.look(text, drafts.least if drafts is not None and has_room else 0)
            watching = watch if watch.grams else None
            new = session.greedy(text, min(left, speeds.slice()), stops, sequence=sequence, watch=watching)
            speeds.stepped(thread_time() - work, perf_counter() - began, len(new))
        new = _until(new[:left], stops)
        left -= len(new)
        if drafts is None:
            text += new
        else:
            for token in new:
                drafts.push(token)
        yield new
        if new[-1] in stops:
            return


def verified(session: ChoosingSession, text: Sequence[int], draft: Sequence[int], sequence: int) -> list[int]:
    """Run the last token of a text and a draft in one pass; return the tokens that follow the text for certain."""
    run = np.array([text[-1], *draft], np.uint32)
    place = np.arange(len(text) - 1, len(text) + len(draft), dtype=np.uint32)
    return accepted(draft, session.likeliest(run, np.full(len(run), sequence, np.uint32), place))


def accepted(draft: Sequence[int], found: Sequence[int]) -> list[int]:
    """Return the tokens that are right: found[k] is what follows if the first k tokens of the draft are."""
    right = next((k for k, (token, other) in enumerate(zip(draft, found, strict=False)) if token != other), len(draft))
    return list(found[: right + 1])


def _until(tokens: list[int], stops: Collection[int]) -> list[int]:
    """Return tokens up to the first one of `stops`."""
    end = next((k for k, token in enumerate(tokens) if token in stops), len(tokens))
    return tokens[: end + 1]
