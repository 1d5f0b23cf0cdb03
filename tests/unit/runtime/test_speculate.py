"""Drafts by prompt look-up, and the judgement whether verifying them pays."""

from collections.abc import Collection, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bittern.kernels.watch import places
from bittern.plan.watch import Watch
from bittern.runtime import speculate
from bittern.runtime.speculate import DRAFT, Drafts, Speeds, accepted, follow

Text = list[int]


class Eager(Speeds):
    """Every draft is verified."""

    def pays(self, right: float) -> bool:
        return True


class Never(Speeds):
    """No draft is verified."""

    def pays(self, right: float) -> bool:
        return False


class Oracle:
    """A session that continues texts by a rule: what follows depends on the last tokens alone.

    calls: how many tokens each call made; passes: how many of them were passes.
    """

    is_ready = True

    def __init__(self, period: int, text: Sequence[int]) -> None:
        self.period = period
        self.cache = list(text[:-1])
        self.calls: list[int] = []
        self.passes = 0

    def _next(self, text: Sequence[int]) -> int:
        return (text[-1] * 7 + text[-2] * 3 + len(text) // self.period) % 5 if len(text) > 1 else 1

    def greedy(
        self,
        tokens: Sequence[int],
        count: int,
        stops: Collection[int] = (),
        *,
        sequence: int = 0,
        watch: Watch | None = None,
    ) -> Text:
        assert self.cache[: len(tokens) - 1] == list(tokens[:-1]), "a place was not run"
        made = list(tokens)
        seen: set[int] = set()
        if watch is not None:
            seen = {int(place) for place in places(tokens, watch.grams)}
            assert all(watch.seen[place >> 5] >> (place & 31) & 1 for place in seen), "the watch has not seen all"
        while len(made) < len(tokens) + count:
            self.cache[len(made) - 1 :] = [made[-1]]
            made.append(self._next(made))
            if made[-1] in stops:
                break
            if watch is not None:
                (place,) = places(made[-watch.grams :], watch.grams)
                if int(place) in seen:
                    break
                seen.add(int(place))
        self.calls.append(len(made) - len(tokens))
        return made[len(tokens) :]

    def likeliest(self, token: Any, sequence: Any, position: Any) -> Text:
        self.passes += 1
        found = []
        for one, at in zip(token.tolist(), position.tolist(), strict=True):
            self.cache[at:] = [one]
            found.append(self._next(self.cache))
        return found


def _made(session: Oracle, text: Text, count: int, stops: Collection[int] = (), speeds: Speeds | None = None) -> Text:
    pieces = follow(session, text, count, stops, speeds=speeds or Eager(), room=10_000)
    return [token for piece in pieces for token in piece]


TEXTS = st.lists(st.integers(0, 4), min_size=1, max_size=12)


@pytest.mark.req("K047")
@given(TEXTS, st.integers(1, 60), st.integers(1, 9), st.sets(st.integers(0, 4), max_size=1))
def test_the_tokens_are_those_of_plain_decoding(text: Text, count: int, period: int, stops: set[int]) -> None:
    wanted = Oracle(period, text).greedy(text, count, stops)
    session = Oracle(period, text)
    assert _made(session, text, count, stops) == wanted
    used = text + wanted
    assert session.cache[: len(used) - 1] == used[:-1], "the cache is that of plain decoding"


def test_repetition_takes_fewer_calls() -> None:
    text = [1, 2]
    session = Oracle(10**6, text)
    assert len(_made(session, text, 200)) == 200
    assert session.passes > 30 and sum(session.calls) < 60
    alone = Oracle(10**6, text)
    assert len(_made(alone, text, 200, speeds=Never())) == 200
    assert not alone.passes and sum(alone.calls) == 200


def test_one_accepted_too_many_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault."""
    monkeypatch.setattr(speculate, "accepted", lambda draft, found: list(found[: len(accepted(draft, found)) + 1]))
    text, wrong = [1, 2], 0
    for period in range(3, 9):
        wanted = Oracle(period, text).greedy(text, 60)
        try:
            wrong += _made(Oracle(period, text), text, 60) != wanted
        except AssertionError:
            wrong += 1
    assert wrong


@pytest.mark.parametrize(
    ("draft", "found", "right"),
    [
        ((1, 2, 3), (1, 2, 3, 4), [1, 2, 3, 4]),
        ((1, 2, 3), (1, 2, 9, 4), [1, 2, 9]),
        ((1, 2, 3), (9, 2, 3, 4), [9]),
        ((), (5,), [5]),
    ],
)
def test_accepted(draft: tuple[int, ...], found: tuple[int, ...], right: Text) -> None:
    assert accepted(draft, found) == right


@pytest.mark.parametrize(
    ("text", "grams", "draft"),
    [
        ([1, 2, 3, 4, 1, 2], 2, (3, 4, 1)),
        ([1, 2, 3, 1, 2, 4, 1, 2], 2, (4, 1, 2)),  # the last time counts
        ([9, 1, 2, 5, 6, 7, 8, 1, 2, 3, 9, 1, 2], 3, (5, 6, 7)),  # a longer run counts more
        ([7, 7, 7], 2, (7, 7, 7)),  # what reaches the end goes on with itself
        ([5, 6, 5, 6, 5], 3, (6, 5, 6)),
        ([1, 2, 3], 0, ()),
        ([], 0, ()),
    ],
)
def test_drafts(text: Text, grams: int, draft: tuple[int, ...]) -> None:
    found = Drafts(text, Eager())
    assert (found.grams, found.draft) == (grams, draft)
    one_by_one = Drafts([], Never())
    for token in text:
        one_by_one.push(token)
    one_by_one.push(99)  # ends a draft that was coming true
    assert Drafts([*text, 99], Eager()).draft == one_by_one.draft


def test_drafts_are_judged_though_none_is_verified() -> None:
    speeds = Speeds()
    drafts = Drafts([1, 2, 3, 4, 5] * 2, speeds)
    before = drafts.right[4]
    for token in [1, 2, 3, 4, 5] * 8:
        drafts.push(token)
    assert drafts.right[4] > before and drafts.right[4] < DRAFT
    assert speeds.saved == pytest.approx(10 * (1 + DRAFT - speeds.ratio))
    for token in range(100, 400):
        drafts.push(token)
    wrong = Drafts([1, 2, 3, 4, 1, 2], Speeds())
    for token in (9, 1, 2, 8, 1, 2, 7, 1, 2, 6, 1, 2, 5):
        wrong.push(token)
    assert wrong.right[2] < 1


def test_passes_wait_until_they_would_have_paid() -> None:
    speeds = Speeds()
    assert not speeds.pays(DRAFT) and speeds.slice() == 1
    speeds.stepped(1.0, 1.0, 1)  # making the program ready took a second
    speeds.stepped(0.04, 0.08, 4)
    assert speeds.step == pytest.approx(0.01) and speeds.slice() == 2
    for _ in range(30):
        speeds.drafted(DRAFT)
    assert not speeds.pays(DRAFT), "78 steps of 10 ms are less than a second"
    for _ in range(10):
        speeds.drafted(DRAFT)
    assert speeds.pays(DRAFT)
    speeds.passed(1.0)  # the first one made the session ready
    speeds.is_ready = True
    assert speeds.pays(DRAFT) and speeds.ratio == Speeds().ratio
    speeds.saved = 0.0
    assert speeds.pays(DRAFT), "what is ready needs no savings"


def test_passes_that_lose_are_left_until_they_may_win() -> None:
    speeds = Speeds()
    speeds.stepped(0.0, 0.0, 1)
    speeds.stepped(0.01, 0.01, 1)
    speeds.is_ready = True
    speeds.passed(0.035)
    assert speeds.ratio == pytest.approx(3.5)
    assert speeds.pays(DRAFT) and not speeds.pays(2.0)
    speeds.passed(0.06)
    speeds.passed(0.06)
    assert not speeds.pays(DRAFT), "four tokens in the time of six"
    speeds.stepped(3.0, 3.0, 300)
    assert speeds.pays(DRAFT), "long ago counts no more"


def test_a_watch_follows_its_text() -> None:
    watch, text = Watch(), [1, 2, 3, 4]
    watch.look(text, 2)
    once = watch.seen.copy()
    watch.look([*text, 5, 6], 2)
    fresh = Watch()
    fresh.look([*text, 5, 6], 2)
    assert (watch.seen == fresh.seen).all() and (watch.last == [6, 5, 4]).all() and (watch.seen != once).any()
    watch.look([*text, 5, 6], 3)
    fresh = Watch()
    fresh.look([*text, 5, 6], 3)
    assert (watch.seen == fresh.seen).all() and watch.setting[4] == 1
    watch.look([*text, 5, 6], 0)
    assert not watch.setting.any()
