"""Several texts at once are those that each prompt gives by itself, wherever it stands."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models

import bittern
from bittern.base.errors import BitternError
from bittern.chips.x86.features import is_here
from bittern.runtime import batch
from bittern.runtime.decode import feed_at
from bittern.runtime.model import Model
from bittern.runtime.store import Store

SHAPE = tiny_models.Shape(vocab=259)
CHIPS = ["vm", pytest.param("x86", marks=pytest.mark.skipif(not is_here(), reason="this machine is no x86-64"))]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tiny_models.llama(shape=SHAPE, keys=tiny_models.tokenizer(), is_tied=False, seed=6)
    return tiny_models.save(tmp_path_factory.mktemp("model"), data)


@pytest.fixture(scope="module", params=CHIPS)
def model(request: pytest.FixtureRequest, path: Path) -> Iterator[Model]:
    with bittern.load(path, chip=request.param, threads=1, store=Store(path.parent / "store")) as loaded:
        yield loaded


def _prompts(count: int) -> list[list[int]]:
    rng = np.random.default_rng(count)
    return [[int(token) for token in rng.integers(97, 123, 1 + (5 * k) % 23)] for k in range(count)]


def _alone(model: Model, prompt: Sequence[int], count: int, **options: Any) -> tuple[str, list[int], str | None]:
    made = model.generate(prompt, count, **options)
    text = "".join(made)
    return text, made.tokens, made.stopped


def _together(model: Model, prompts: Sequence[Any], count: int, **options: Any) -> list[tuple[str, list[int], Any]]:
    made = model.generate_many(prompts, count, **options)
    texts = made.finish()
    return [(text, each.tokens, each.stopped) for text, each in zip(texts, made.texts, strict=True)]


@pytest.mark.req("K047", "L06")
@pytest.mark.parametrize("size", [1, 2, 3, 5, 16])
def test_each_text_is_that_of_its_prompt_alone(size: int, model: Model) -> None:
    prompts = _prompts(size)
    wanted = [_alone(model, prompt, 9, ignore_eos=True) for prompt in prompts]
    assert _together(model, prompts, 9, ignore_eos=True) == wanted
    assert _together(model, prompts[::-1], 9, ignore_eos=True) == wanted[::-1], "the place matters"


def test_texts_end_separately(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop that some texts come to sooner, some later and some never."""
    prompts = _prompts(7)
    plain = [_alone(model, prompt, 20, ignore_eos=True)[1] for prompt in prompts]
    counts = {token: sum(token in text for text in plain) for text in plain for token in text}
    stop = next(token for token, count in counts.items() if 1 < count < 7)
    monkeypatch.setattr(type(model.tokenizer), "stop_ids", frozenset({stop}))
    wanted = [_alone(model, prompt, 20) for prompt in prompts]
    assert {ended for _, _, ended in wanted} == {"end", "count"}
    assert len({len(tokens) for _, tokens, _ in wanted}) > 2
    assert _together(model, prompts, 20) == wanted


@pytest.mark.req("K048")
def test_drawn_texts(model: Model) -> None:
    prompts, hot = _prompts(3), {"temperature": 2.0, "seed": 5, "top_k": 40, "ignore_eos": True}
    assert _together(model, prompts, 8, **hot) == [_alone(model, prompt, 8, **hot) for prompt in prompts]


def test_a_common_beginning_is_run_once(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    common = _prompts(30)[4] * 2
    prompts = [[*common, *rest] for rest in _prompts(4)] + [common]
    wanted = [_alone(model, prompt, 6, ignore_eos=True) for prompt in prompts]
    ran = []
    feed = feed_at

    def counted(session: Any, token: Any, *places: Any) -> Any:
        ran.append(len(token))
        return feed(session, token, *places)

    monkeypatch.setattr("bittern.runtime.batch.feed_at", counted)
    assert _together(model, prompts, 6, ignore_eos=True) == wanted
    assert sum(ran) == len(common) - 1 + sum(len(prompt) - 1 - (len(common) - 1) for prompt in prompts)


def test_the_last_text_goes_on_alone(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of a batch runs as one sequence, with what belongs to that."""
    monkeypatch.setattr(batch, "_ALONE", 4)
    prompts = _prompts(3)
    plain = [_alone(model, prompt, 30, ignore_eos=True)[1] for prompt in prompts]
    stop = next(token for token in plain[0] if token not in plain[1] and token in plain[2])
    monkeypatch.setattr(type(model.tokenizer), "stop_ids", frozenset({stop}))
    assert _together(model, prompts, 30) == [_alone(model, prompt, 30) for prompt in prompts]


def test_pieces_come_as_they_are_made(model: Model) -> None:
    made = model.generate_many(["ab", "cd", "ef"], 5, ignore_eos=True)
    pieces = list(made)
    assert {number for number, _ in pieces} == {0, 1, 2}
    for number, text in enumerate(made.texts):
        assert "".join(piece for k, piece in pieces if k == number) == text.made
    assert [text.prompt for text in made.texts] == [model.encode(text) for text in ("ab", "cd", "ef")]


def test_batches_at_once_do_not_meet(model: Model) -> None:
    """Two batches that are read in turn, and one that is left in the middle."""
    prompts = _prompts(2)
    wanted = _together(model, prompts, 6, ignore_eos=True)
    left = model.generate_many(prompts, 6, ignore_eos=True)
    next(left)
    one, two = (model.generate_many(prompts, 6, ignore_eos=True) for _ in range(2))
    for _ in zip(one, two, strict=True):
        pass
    assert [text.tokens for text in one.texts] == [text.tokens for text in two.texts] == [each[1] for each in wanted]


def test_refusals(model: Model) -> None:
    for prompts, count, code in (([[97], []], 2, "R103"), ([[97], [999]], 2, "R104"), ([[97]], 0, "R110")):
        with pytest.raises(BitternError) as caught:
            model.generate_many(prompts, count)
        assert caught.value.code == code
    assert model.generate_many([], 3).finish() == []


def test_a_wrong_place_is_seen(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: prompts that are filled into each other's sequences."""
    prompts = _prompts(4)
    wanted = _together(model, prompts, 6, ignore_eos=True)
    run = batch._run
    monkeypatch.setattr(
        batch, "_run", lambda session, rows, told: run(session, [(t, (s + 1) % 4, p) for t, s, p in rows], told)
    )
    assert _together(model, prompts, 6, ignore_eos=True) != wanted
