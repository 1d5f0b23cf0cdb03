"""Whole models on the chip `x86`: the bits of `vm`, whatever the tier, threads, chunks, batch and fusing."""

import os
from pathlib import Path
from typing import Any

import family_files as f
import numpy as np
import pytest
import tiny_models as tiny

from bittern.chips.chip import Session, chip
from bittern.chips.machine.program import predict
from bittern.chips.x86.chip import X86
from bittern.chips.x86.cut import SECTION
from bittern.chips.x86.features import TIERS, is_here, read
from bittern.chips.x86.routines import Routines
from bittern.chips.x86.session import X86Model, X86Session
from bittern.front.bind import bind_checkpoint
from bittern.front.bound import Bound
from bittern.front.gguf import open_gguf
from bittern.front.huggingface import open_folder
from bittern.kernels.tiles import TILES
from bittern.lang.library import Library
from bittern.runtime.model import open_checkpoint

pytestmark = pytest.mark.skipif(not is_here(), reason="this machine is no x86-64 with Linux or macOS")

LIBRARY = Library.standard()
HERE = [tier.name for tier in TIERS if is_here() and tier.features <= read()]
SLOW = frozenset({"iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "q2_k", "q3_k"})
TOKENS = 23  # more than one pass of four, less than a chunk


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for compiled code, so that tests share it."""
    return tmp_path_factory.mktemp("kept")


def _places(count: int, start: int = 0) -> tuple[Any, Any]:
    return np.zeros(count, np.uint32), np.arange(start, start + count, dtype=np.uint32)


def _tokens(count: int, vocab: int) -> Any:
    return np.random.default_rng(count).integers(0, vocab, count).astype(np.uint32)


def _run(session: Session, tokens: Any, sizes: list[int]) -> Any:
    """Run tokens in calls of so many; return the logits of all."""
    rows, at = [], 0
    for size in sizes:
        part = tokens[at : at + size]
        rows.append(session.logits(session.forward(part, *_places(len(part), at))))
        at += size
    assert at == len(tokens)
    return np.concatenate(rows)


def _bound(folder: Path, element: str = "q4_1", cache: str = "f16") -> Bound:
    path = folder / f"{element}.gguf"
    if not path.exists():
        path.write_bytes(tiny.llama(element, tiny.Shape(d=256, h=64, ff=256)))
    return bind_checkpoint(open_gguf(path), LIBRARY, cache)


@pytest.mark.req("K047", "C043")
@pytest.mark.parametrize("cache", ["f16", "f32", "int8"])
@pytest.mark.parametrize("name", f.DECODERS)
def test_families(name: str, cache: str, kept: Path) -> None:
    with open_folder(f.GOLDEN / name) as checkpoint:
        tokens = np.asarray(f.oracle(name)["tokens"], np.uint32)
        try:
            bound = bind_checkpoint(checkpoint, LIBRARY, cache)
        except Exception as refusal:
            assert cache == "int8" and getattr(refusal, "code", "") == "M112", refusal
            return
        wanted = _run(chip("vm").load(bound).start(len(tokens)), tokens, [len(tokens)])
        model = X86(threads=2).load(bound, kept)
        assert np.array_equal(_run(model.start(len(tokens)), tokens, [len(tokens)]), wanted)
        assert np.array_equal(_run(model.start(len(tokens)), tokens, [1] * len(tokens)), wanted)


@pytest.mark.parametrize("element", ["f32", "f16", "bf16", *f.PLAIN_AND_BLOCKS[3:]])
@pytest.mark.req("K016")
def test_formats(element: str, tmp_path: Path, kept: Path) -> None:
    if element in SLOW and not os.environ.get("BITTERN_EXHAUSTIVE"):
        pytest.skip("a minute to compile by the generic lowering; BITTERN_EXHAUSTIVE=1 runs it")
    bound = _bound(tmp_path, element)
    tokens = _tokens(TOKENS, 100)
    wanted = _run(chip("vm").load(bound).start(64), tokens, [TOKENS])
    session = X86(threads=1).load(bound, kept).start(64)
    assert np.array_equal(_run(session, tokens[:4], [1] * 4), wanted[:4])
    if element in TILES:
        assert np.array_equal(_run(session, tokens, [TOKENS]), wanted)


@pytest.mark.req("C043", "C044")
@pytest.mark.parametrize("tier", HERE)
@pytest.mark.parametrize("cache", ["f16", "int8"])
def test_tiers(tier: str, cache: str, tmp_path: Path, kept: Path) -> None:
    bound = _bound(tmp_path, cache=cache)
    tokens = _tokens(TOKENS, 100)
    wanted = _run(chip("vm").load(bound).start(64), tokens, [TOKENS])
    session = X86(tier, threads=1).load(bound, kept).start(64)
    assert np.array_equal(_run(session, tokens[:3], [1] * 3), wanted[:3])
    if tier.startswith("avx512"):
        assert np.array_equal(_run(session, tokens, [TOKENS]), wanted)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, kept: Path) -> X86Model:
    return X86(threads=4).load(_bound(tmp_path_factory.mktemp("model")), kept)


@pytest.fixture(scope="module")
def wanted(model: X86Model) -> Any:
    return _run(chip("vm").load(model.bound).start(64), _tokens(TOKENS, 100), [TOKENS])


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.req("K047")
def test_threads(threads: int, model: X86Model, wanted: Any, kept: Path) -> None:
    session = X86(threads=threads).load(model.bound, kept).start(64)
    assert np.array_equal(_run(session, _tokens(TOKENS, 100), [TOKENS - 5, 4, 1]), wanted)


@pytest.mark.parametrize("sizes", [[1] * TOKENS, [2] * 11 + [1], [3] * 7 + [2], [4] * 5 + [3], [5] * 4 + [3], [16, 7]])
def test_chunks(sizes: list[int], model: X86Model, wanted: Any) -> None:
    assert np.array_equal(_run(model.start(64), _tokens(TOKENS, 100), sizes), wanted)


@pytest.mark.parametrize("count", [2, 5, 16])
def test_batch(count: int, model: X86Model) -> None:
    """Sequences of one batch, each at its own position, give what each gives alone."""
    prompts = [_tokens(3 + k, 100) for k in range(count)]
    alone = []
    for prompt in prompts:
        session = model.start(64)
        session.forward(prompt[:-1], *_places(len(prompt) - 1))
        alone.append(session.forward(prompt[-1:], *_places(1, len(prompt) - 1)))
    together = model.start(64, sequences=count)
    for k, prompt in enumerate(prompts):
        places = np.full(len(prompt) - 1, k, np.uint32), np.arange(len(prompt) - 1, dtype=np.uint32)
        together.forward(prompt[:-1], *places)
    last = np.array([prompt[-1] for prompt in prompts], np.uint32)
    where = np.array([len(prompt) - 1 for prompt in prompts], np.uint32)
    found = together.forward(last, np.arange(count, dtype=np.uint32), where)
    assert np.array_equal(found, np.concatenate(alone))


def test_greedy_steps_are_those_of_the_session(model: X86Model) -> None:
    prompt = [int(token) for token in _tokens(5, 100)]
    session, other = model.start(64), model.start(64)
    logits = session.logits(session.forward(np.array(prompt, np.uint32), *_places(5)))
    other.forward(np.array(prompt, np.uint32), *_places(5))
    made = [int(logits[-1].argmax())]
    for k in range(12):
        rows = session.logits(session.forward(np.array(made[-1:], np.uint32), *_places(1, 5 + k)))
        made.append(int(rows[0].argmax()))
    assert other.greedy([*prompt, made[0]], 12) == made[1:]
    stop = made[4]
    assert other.greedy([*prompt, made[0]], 12, {stop}) == made[1 : 1 + made[1:].index(stop) + 1]


def test_counters_are_as_predicted(model: X86Model) -> None:
    session = model.start(64)
    assert isinstance(session, X86Session)
    session.forward(_tokens(1, 100), *_places(1))
    cut = session.cuts[1]
    threads = len(cut.state.counts().launches)
    assert cut.state.counts() == predict(cut.section, threads) and cut.section is cut.linked.sections[SECTION]


def test_a_wrong_kernel_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: a norm with another eps must change the logits."""
    from bittern.kernels import recipes

    bound = _bound(tmp_path)
    tokens = _tokens(6, 100)
    wanted = _run(chip("vm").load(bound).start(64), tokens, [6])
    right = recipes.RECIPES["norm_rows"]
    wrong = {**recipes.RECIPES, "norm_rows": lambda n, eps, *rest: right(n, eps * 4, *rest)}
    monkeypatch.setattr(recipes, "RECIPES", wrong)
    monkeypatch.setattr(Routines, "_found", Routines._compile)
    assert not np.array_equal(_run(X86(threads=1).load(bound).start(64), tokens, [6]), wanted)


def test_real_model(smollm2: Path, kept: Path) -> None:
    with open_checkpoint(smollm2, None) as checkpoint:
        bound = bind_checkpoint(checkpoint, LIBRARY)
        tokens = np.array([1, 504, 3575, 282, 4649, 314], np.uint32)
        wanted = _run(chip("vm").load(bound).start(64), tokens, [6])
        model = X86().load(bound, kept)
        assert np.array_equal(_run(model.start(64), tokens, [6]), wanted)
        assert np.array_equal(_run(model.start(64), tokens, [1, 1, 4]), wanted)
