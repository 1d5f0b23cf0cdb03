"""Sessions on the chip `x86` beyond the single stream: passes of several tokens, watches, batches, kept positions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models as tiny

from bittern.bitops.interpret import interpret
from bittern.chips.chip import ChoosingSession, FeedingSession, KeepingSession, chip
from bittern.chips.x86.chip import X86
from bittern.chips.x86.compile import compile_kernel
from bittern.chips.x86.features import TIERS, is_here, read
from bittern.chips.x86.run import run_kernel
from bittern.chips.x86.session import X86Model, X86Session
from bittern.front.bind import bind_checkpoint
from bittern.front.bound import Bound
from bittern.front.gguf import open_gguf
from bittern.kernels.watch import BITS, LONGEST, SETTING, WORDS, factors, places, watch
from bittern.lang.library import Library
from bittern.plan.watch import Watch
from bittern.runtime import speculate
from bittern.runtime.speculate import Speeds, follow

pytestmark = pytest.mark.skipif(not is_here(), reason="this machine is no x86-64 with Linux or macOS")

LIBRARY = Library.standard()
SHAPE = tiny.Shape(d=64, ff=64, vocab=100)
CONTEXT = 96


class Eager(Speeds):
    """Every draft is verified, whatever it costs."""

    def pays(self, right: float) -> bool:
        return True


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("x86")


def _bound(folder: Path, cache: str = "f16") -> Bound:
    path = folder / "tiny.gguf"
    if not path.exists():
        path.write_bytes(tiny.llama("q4_1", SHAPE, is_tied=False, seed=6))  # its texts repeat themselves, not always
    return bind_checkpoint(open_gguf(path), LIBRARY, cache)


@pytest.fixture(scope="module")
def model(folder: Path) -> X86Model:
    return X86(threads=2).load(_bound(folder), folder)


@pytest.fixture(scope="module")
def sessions(model: X86Model) -> tuple[X86Session, X86Session]:
    """Two sessions, so that what a test leaves in one says nothing about the other."""
    return model.start(CONTEXT), model.start(CONTEXT)


def _text(kind: str, count: int) -> list[int]:
    rng = np.random.default_rng(count)
    if kind == "repetitive":
        return [int(token) for token in np.tile(rng.integers(0, 100, 7), count)[:count]]
    return [int(token) for token in rng.integers(0, 100, count)]


def _fill(session: X86Session, text: list[int], sequence: int = 0) -> None:
    """Run all tokens of a text but the last."""
    count = len(text) - 1
    places = np.full(count, sequence, np.uint32), np.arange(count, dtype=np.uint32)
    session.feed(np.array(text[:-1], np.uint32), *places)


def _follow(session: X86Session, text: list[int], count: int, stops: Any = (), *, on: bool) -> list[int]:
    _fill(session, text)
    pieces = follow(session, text, count, stops, speeds=Eager(), room=CONTEXT, speculates=on)
    return [token for piece in pieces for token in piece]


def test_protocols(sessions: tuple[X86Session, X86Session]) -> None:
    assert isinstance(sessions[0], FeedingSession)
    assert isinstance(sessions[0], ChoosingSession)
    assert isinstance(sessions[0], KeepingSession)


@pytest.mark.parametrize(
    "tier", [tier for tier in TIERS if is_here() and tier.features <= read()], ids=lambda t: t.name
)
@pytest.mark.parametrize("grams", [2, 3, 4])
def test_the_watch_is_its_definition(tier: Any, grams: int) -> None:
    """Machine code, the interpreter and numpy agree on where a text repeats itself."""
    kernel, text = watch(), _text("repetitive", 20) + _text("random", 20)
    compiled = compile_kernel(kernel, tier)
    seen: set[int] = set()
    arrays = [_watch_arrays(grams, text[:LONGEST]) for _ in range(2)]
    for at in range(LONGEST, len(text)):
        (bit,) = places(text[at - grams + 1 : at + 1], grams)
        for each in arrays:
            each["token"][0], each["flag"][0] = text[at], 0
        run_kernel(compiled, (), arrays[0])
        interpret(kernel, arrays[1])
        assert all(np.array_equal(arrays[0][name], arrays[1][name]) for name in arrays[0])
        assert bool(arrays[0]["flag"][0]) == (int(bit) in seen)
        seen.add(int(bit))
    assert int(np.unpackbits(arrays[0]["seen"].view(np.uint8)).sum()) == len(seen) and max(seen) < 1 << BITS


def _watch_arrays(grams: int, text: list[int]) -> dict[str, Any]:
    made = {"token": 1, "setting": SETTING, "last": LONGEST - 1, "seen": WORDS, "flag": 1}
    arrays = {name: np.zeros(size, np.uint32) for name, size in made.items()}
    arrays["setting"][:] = [*factors(grams), 1]
    arrays["last"][:] = text[::-1][: LONGEST - 1]
    return arrays


def test_a_watched_loop_comes_back(sessions: tuple[X86Session, X86Session]) -> None:
    """It ends with the token that makes a run of three that was there; unwatched it goes on, with the same tokens."""
    session, text = sessions[0], _text("random", 9)
    _fill(session, text)
    plain = session.greedy(text, 60)
    whole = text + plain
    runs = {tuple(whole[at - 2 : at + 1]): 0 for at in range(2, len(text))}
    first = None
    for at in range(len(text), len(whole)):
        if tuple(whole[at - 2 : at + 1]) in runs:
            first = at - len(text) + 1
            break
        runs[tuple(whole[at - 2 : at + 1])] = 0
    assert first is not None, "a tiny model repeats itself"
    _fill(session, text)
    seen = Watch()
    seen.look(text, 3)
    assert session.greedy(text, 60, watch=seen) == plain[:first]


@pytest.mark.req("K047", "L06")
@pytest.mark.parametrize("kind", ["repetitive", "random"])
@pytest.mark.parametrize("count", [1, 2, 5, 23, 40])
def test_speculation_changes_nothing(kind: str, count: int, sessions: tuple[X86Session, X86Session]) -> None:
    """Tokens, and the keys and values behind them, are those of decoding one by one."""
    plain, drafted = sessions
    text = _text(kind, 24)
    wanted = _follow(plain, text, count, on=False)
    assert _follow(drafted, text, count, on=True) == wanted
    used = len(text) + count - 1
    assert all(np.array_equal(a, b) for a, b in zip(plain.positions(used), drafted.positions(used), strict=True))


def test_speculation_makes_fewer_passes(
    sessions: tuple[X86Session, X86Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    session, text = sessions[0], _text("random", 9)
    passes = []
    right = speculate.verified

    def counted(*arguments: Any) -> list[int]:
        passes.append(right(*arguments))
        return passes[-1]

    monkeypatch.setattr(speculate, "verified", counted)
    _follow(session, text, 60, on=True)
    assert passes and max(map(len, passes)) == 4, "a tiny model repeats itself, so drafts are right"
    assert any(len(new) < 4 for new in passes), "and some are wrong"


def test_speculation_stops_where_the_text_does(sessions: tuple[X86Session, X86Session]) -> None:
    plain, drafted = sessions
    text = _text("random", 9)
    wanted = _follow(plain, text, 60, on=False)
    for stop in sorted(set(wanted)):
        end = wanted.index(stop) + 1
        assert _follow(drafted, text, 60, {stop}, on=True) == wanted[:end]


def test_speculation_at_the_end_of_the_context(sessions: tuple[X86Session, X86Session]) -> None:
    plain, drafted = sessions
    text = _text("repetitive", 30)
    count = CONTEXT - len(text) + 1
    assert _follow(drafted, text, count, on=True) == _follow(plain, text, count, on=False)


def test_one_accepted_too_many_is_seen(
    sessions: tuple[X86Session, X86Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted fault: the token behind the first wrong one is taken too."""
    plain, drafted = sessions
    text = _text("random", 9)
    wanted = _follow(plain, text, 60, on=False)
    right = speculate.accepted
    monkeypatch.setattr(speculate, "accepted", lambda draft, found: list(found[: len(right(draft, found)) + 1]))
    assert _follow(drafted, text, 60, on=True) != wanted


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 17, 70])
def test_likeliest_is_the_greatest_logit(rows: int, sessions: tuple[X86Session, X86Session]) -> None:
    """Alone, in passes of a few, and through programs for any number, also where those serve fewer rows."""
    plain, other = sessions
    text = _text("random", rows)
    places = np.zeros(rows, np.uint32), np.arange(rows, dtype=np.uint32)
    logits = plain.logits(plain.forward(np.array(text, np.uint32), *places))
    assert other.likeliest(np.array(text, np.uint32), *places) == logits.argmax(-1).tolist()


def test_few_rows_through_a_larger_program(model: X86Model) -> None:
    session, text = model.start(CONTEXT), np.array(_text("random", 40), np.uint32)
    places = np.zeros(40, np.uint32), np.arange(40, dtype=np.uint32)
    whole = session.forward(text, *places)
    assert list(session.cuts) == [0]
    for count in (2, 3, 4, 9, 16):
        part = session.forward(text[:count], *(each[:count] for each in places))
        assert np.array_equal(part, whole[:count]) and list(session.cuts) == [0]


def test_some_rows_in_passes_of_four(model: X86Model) -> None:
    """Rows that are too few for the program for any number; the rest of a call goes through what is there."""
    session, count = model.start(CONTEXT), 15
    text, places = _text("random", count), (np.zeros(count, np.uint32), np.arange(count, dtype=np.uint32))
    part = session.forward(np.array(text, np.uint32), *places)
    assert list(session.cuts) == [4]
    one = session.forward(np.array(text[:1], np.uint32), *(each[:1] for each in places))
    assert list(session.cuts) == [4, 1] and np.array_equal(one, part[:1])
    more = np.zeros(40, np.uint32), np.arange(40, dtype=np.uint32)
    whole = model.start(CONTEXT).forward(np.array([*text, *_text("random", 25)], np.uint32), *more)
    assert np.array_equal(whole[:count], part)


def test_feeding_gives_the_rows_that_are_wanted(sessions: tuple[X86Session, X86Session]) -> None:
    session, count = sessions[0], 40
    text = np.array(_text("random", count), np.uint32)
    places = np.zeros(count, np.uint32), np.arange(count, dtype=np.uint32)
    whole = session.forward(text, *places)
    for rows in ([], [0], [39], [3, 4, 38]):
        found = session.feed(text, *places, rows)
        assert found.shape == (len(rows), whole.shape[1]) and np.array_equal(found, whole[rows])


@pytest.mark.req("K047", "L06")
@pytest.mark.parametrize("cache", ["f16", "f32", "int8"])
def test_positions_are_those_of_vm(cache: str, folder: Path) -> None:
    """What `x86` keeps in tiles is what `vm` keeps, number by number; and each goes on from the other's."""
    bound, text = _bound(folder, cache), _text("random", 21)
    native, vm = X86(threads=1).load(bound, folder), chip("vm").load(bound)
    here, there = native.start(CONTEXT), vm.start(CONTEXT)
    token, places = np.array(text, np.uint32), (np.zeros(21, np.uint32), np.arange(21, dtype=np.uint32))
    here.forward(token, *places)
    there.forward(token, *places)
    assert isinstance(there, KeepingSession)
    for count in (1, 16, 21):
        mine, theirs = here.positions(count), there.positions(count)
        assert [leaf.dtype for leaf in mine] == [leaf.dtype for leaf in theirs]
        assert all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))
    after = np.array([7], np.uint32), np.array([0], np.uint32), np.array([20], np.uint32)
    wanted = here.forward(*after)
    fresh, other = native.start(CONTEXT), vm.start(CONTEXT)
    assert isinstance(other, KeepingSession)
    fresh.put_positions(there.positions(20))
    other.put_positions(here.positions(20))
    assert np.array_equal(fresh.forward(*after), wanted) and np.array_equal(other.forward(*after), wanted)


@pytest.mark.parametrize("cache", ["f16", "f32", "int8"])
def test_what_lies_behind_is_never_read(cache: str, folder: Path) -> None:
    """Positions behind the last token may hold anything, also what is no number: rejected drafts leave such things."""
    bound, text = _bound(folder, cache), _text("random", 40)
    session = X86(threads=1).load(bound, folder).start(CONTEXT)
    token, places = np.array(text, np.uint32), (np.zeros(40, np.uint32), np.arange(40, dtype=np.uint32))
    wanted = session.forward(token, *places)
    poison = [np.full_like(leaf, 99 if leaf.dtype == np.int8 else np.nan) for leaf in session.positions(90)]
    for first in (1, 3, 17):
        session.put_positions(poison)
        rows = [session.forward(token[:first], *(each[:first] for each in places))]
        rows += [session.forward(token[k : k + 1], *(each[k : k + 1] for each in places)) for k in range(first, 20)]
        rows.append(session.forward(token[20:], *(each[20:] for each in places)))
        assert np.array_equal(np.concatenate(rows), wanted)


@pytest.fixture
def sequences(model: X86Model) -> Iterator[X86Session]:
    yield model.start(CONTEXT, 4)


def test_loops_of_other_sequences(sequences: X86Session, sessions: tuple[X86Session, X86Session]) -> None:
    """The loop runs on any sequence, and leaves the others alone."""
    texts = [_text("random", count) for count in (5, 9, 13)]
    wanted = []
    for text in texts:
        _fill(sessions[0], text)
        wanted.append(sessions[0].greedy(text, 20))
    for number, text in enumerate(texts):
        _fill(sequences, text, number + 1)
    found = [sequences.greedy(text, 20, sequence=number + 1) for number, text in enumerate(texts)]
    assert found == wanted
