"""Kept sessions: a text that begins like an earlier one starts from there, with the bits of a cold start."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models

import bittern
from bittern.chips.x86.features import is_here
from bittern.runtime import pool
from bittern.runtime.model import Model
from bittern.runtime.store import Store

SHAPE = tiny_models.Shape(vocab=259)
CHIPS = ["vm", pytest.param("x86", marks=pytest.mark.skipif(not is_here(), reason="this machine is no x86-64"))]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tiny_models.llama(shape=SHAPE, keys=tiny_models.tokenizer(), is_tied=False, seed=6)
    return tiny_models.save(tmp_path_factory.mktemp("model"), data)


@pytest.fixture(params=CHIPS)
def model(request: pytest.FixtureRequest, path: Path) -> Iterator[Model]:
    with bittern.load(path, chip=request.param, threads=1, store=Store(path.parent / "store")) as loaded:
        yield loaded


def _text(count: int, seed: int = 1) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(97, 123, count)]


def _tokens(model: Model, prompt: list[int], count: int = 8, **options: Any) -> list[int]:
    made = model.generate(prompt, count, ignore_eos=True, **options)
    for _ in made:
        pass
    return made.tokens


def _known(model: Model, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets how much of each further text was known."""
    found: list[int] = []
    lease = pool.Pool.lease

    def told(*arguments: Any) -> pool.Lease:
        made = lease(*arguments)
        found.append(made.known)
        return made

    monkeypatch.setattr(pool.Pool, "lease", told)
    return found


@pytest.mark.req("K047", "L06")
@pytest.mark.parametrize("options", [{}, {"temperature": 2.0, "seed": 3}])
def test_warm_and_cold_are_equal(options: dict[str, Any], model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts that share beginnings of all lengths, in an order that goes back and forth."""
    base = _text(40)
    prompts = [[*base[:length], *_text(5, seed=length)] for length in (1, 2, 16, 17, 31, 40, 16, 3)]
    prompts += [base, base[:20], [*base, *_text(9)]]
    cold = []
    for prompt in prompts:
        monkeypatch.setattr(model, "_pool", pool.Pool(model._loaded, 1, True))
        cold.append(_tokens(model, prompt, **options))
    monkeypatch.setattr(model, "_pool", pool.Pool(model._loaded, 1, True))
    known = _known(model, monkeypatch)
    warm = [_tokens(model, prompt, **options) for prompt in prompts]
    assert warm == cold
    assert known[0] == 0 and sum(length > 0 for length in known) > 5, known


def test_a_conversation_goes_on(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    known, text = _known(model, monkeypatch), _text(10)
    for _ in range(3):
        text += [*_tokens(model, text), *_text(4)]
    assert known == [0, 17, 29]
    assert model.logits(text[:5]).shape == (5, 259)


def test_logits_come_from_a_fresh_start(model: Model) -> None:
    text = _text(12)
    cold = model.logits(text)
    _tokens(model, [*text, 97])
    assert np.array_equal(model.logits(text), cold)


def test_texts_that_are_made_in_turn(model: Model) -> None:
    """Two that share a beginning, read piece by piece in turn; one that nobody reads to its end."""
    base = _text(20)
    wanted = [_tokens(model, [*base, 97], 12), _tokens(model, [*base, 98], 12)]
    left = model.generate([*base, 99], 12, ignore_eos=True)
    next(left)
    one, two = (model.generate([*base, last], 12, ignore_eos=True) for last in (97, 98))
    pieces = [iter(one), iter(two)]
    while pieces:
        pieces = [each for each in pieces if next(each, None) is not None]
    assert [one.tokens, two.tokens] == wanted
    del left, one, two
    assert not any(kept.is_busy for kept in model._pool._kept), "what nobody reads is free again"


def test_an_interrupt_leaves_a_session_that_works(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in a prompt, and in the loop of the machine: what runs then starts from what is there for certain."""
    with bittern.load(path, threads=1, store=Store(path.parent / "store")) as model:
        text = _text(30)
        wanted = _tokens(model, text, 20)
        for name in ("feed", "forward", "greedy", "likeliest"):
            model._pool._kept[-1].tokens = []
            session: Any = model._pool._kept[-1].session
            if not hasattr(session, name):
                continue
            whole, calls = getattr(session, name), list[int]()

            def interrupted(*given: Any, _whole: Any = whole, _calls: list[int] = calls, **more: Any) -> Any:
                found = _whole(*given, **more)
                _calls.append(1)
                if len(_calls) == 3:
                    raise KeyboardInterrupt
                return found

            with monkeypatch.context() as patched:
                patched.setattr(session, name, interrupted)
                try:
                    _tokens(model, text, 20)
                except KeyboardInterrupt:
                    assert len(calls) == 3
            assert not model._pool._kept[-1].is_busy
            assert _tokens(model, text, 20) == wanted


def test_memory_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_TAIL", 0)
    with bittern.load(path, chip="vm") as model:
        for seed in range(7):
            _tokens(model, _text(9, seed), 2)
        assert len(model._pool._kept) == pool.MOST
        most = sum(kept.session.context for kept in model._pool._kept) * model._pool._position
        monkeypatch.setattr(pool, "MOST_BYTES", most // 2)
        _tokens(model, _text(9, 9), 2, temperature=1.0)
        _tokens(model, _text(300, 9), 2)
        assert sum(kept.session.context for kept in model._pool._kept) * model._pool._position <= most // 2


def test_a_longer_context_gets_a_copy(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    base = _text(200)
    _tokens(model, base)
    known = _known(model, monkeypatch)
    long = [*base, *_text(700, 2)]
    warm = _tokens(model, long)
    assert known == [200]
    monkeypatch.setattr(model, "_pool", pool.Pool(model._loaded, 1, True))
    assert _tokens(model, long) == warm


def test_the_reference_starts_afresh(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sums in f64 have no fixed order, so another cut of the prompt may give other bits."""
    with bittern.load(path, chip="reference") as model:
        known = _known(model, monkeypatch)
        for _ in range(2):
            _tokens(model, _text(6), 2)
        assert known == [0, 0]


def test_a_beginning_that_is_not_there_is_seen(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: one token more is taken for known than is."""
    base, count = _text(20), pool.common
    texts = [[*base, *_text(6, seed)] for seed in (2, 3, 4)]
    wanted = [_tokens(model, text) for text in texts]
    monkeypatch.setattr(pool, "common", lambda mine, other: min(count(mine, other) + 1, len(mine), len(other)))
    assert [_tokens(model, text) for text in texts] != wanted
