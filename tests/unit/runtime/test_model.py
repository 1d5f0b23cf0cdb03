"""The Python interface: load, generate, logits; text in and out of a tiny checkpoint."""

from pathlib import Path

import numpy as np
import pytest
import tiny_models

import bittern
from bittern.base.errors import BitternError
from bittern.runtime.decode import greedy
from bittern.runtime.sample import Sampler

SHAPE = tiny_models.Shape(vocab=259)
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tiny_models.save(tmp_path, tiny_models.llama(shape=SHAPE, keys=tiny_models.tokenizer(TEMPLATE)))


def test_logits_are_those_of_every_prefix(path: Path) -> None:
    with bittern.load(path, chip="vm") as model:
        whole = model.logits([1, 2, 3, 4])
        assert whole.shape == (4, 259) and whole.dtype == np.float32
        assert model.logits(np.array([1, 2]))[-1].tobytes() == whole[1].tobytes()
        assert model.vocab_size == 259


def test_generate_is_greedy_decoding(path: Path) -> None:
    with bittern.load(str(path), chip="reference") as model:
        ids = model.encode("ab c")
        text = "".join(model.generate("ab c", 6, ignore_eos=True))
        for _ in range(6):
            ids.append(greedy(model.logits(ids)[-1]))
        assert text == model.decode(ids[-6:])
        assert "".join(model.generate(ids[:-6], 6, ignore_eos=True)) == text


def test_seeds(path: Path) -> None:
    with bittern.load(path, chip="vm") as model:

        def text(seed: int) -> str:
            return "".join(model.generate("ab", 12, temperature=2.0, seed=seed, ignore_eos=True))

        assert text(1) == text(1)
        assert len({text(seed) for seed in range(6)}) > 1


def test_top_k_one_is_greedy(path: Path) -> None:
    with bittern.load(path, chip="vm") as model:
        plain = "".join(model.generate("ab", 8, ignore_eos=True))
        assert "".join(model.generate("ab", 8, temperature=5.0, top_k=1, seed=3, ignore_eos=True)) == plain


def test_stops_at_the_end_of_text(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with bittern.load(path, chip="vm") as model:
        tokens = iter([97, 98, 258, 99, 100])
        monkeypatch.setattr(Sampler, "token", lambda self, logits, step: next(tokens))
        made = model.generate("ab", 5)
        assert made.stopped is None and made.tokens == []
        assert "".join(made) == "ab"
        assert made.stopped == "end" and made.tokens == [97, 98, 258] and made.prompt == [256]


def test_chat_template(path: Path) -> None:
    with bittern.load(path, chip="vm") as model:
        assert model.chat_text("hello") == "<s>[user] hello\n[assistant]"
        assert "".join(model.generate("hello", 3, chat=True, ignore_eos=True)) is not None


def test_rows_that_pad_the_matrix_have_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = tiny_models.llama(shape=tiny_models.Shape(vocab=300), keys=tiny_models.tokenizer())
    with bittern.load(tiny_models.save(tmp_path, wide), chip="vm") as model:
        tokens = iter([97, 299, 98])
        monkeypatch.setattr(Sampler, "token", lambda self, logits, step: next(tokens))
        made = model.generate("ab", 3)
        assert "".join(made) == "ab" and made.tokens == [97, 299, 98]


def test_a_long_prompt_shows_progress(path: Path) -> None:
    import io

    from bittern.base.progress import Lines
    from bittern.runtime.decode import CHUNK

    told = io.StringIO()
    with bittern.load(path, chip="vm") as model:
        list(model.generate("a" * (CHUNK + 1), 1, progress=Lines(told)))
        assert f"prompt ({CHUNK + 1} tokens) ..." in told.getvalue()


def test_contexts_out_of_range(path: Path) -> None:
    for context in (0, -1, 1 << 31):
        with pytest.raises(BitternError, match="R110"):
            bittern.load(path, chip="vm", context=context)


def test_context_is_kept(path: Path) -> None:
    with bittern.load(path, chip="vm", context=4) as model:
        assert model.logits([1, 2, 3, 4]).shape == (4, 259)
        with pytest.raises(BitternError) as caught:
            model.logits([1, 2, 3, 4, 5])
        assert caught.value.code == "R102" and "--ctx 5" in caught.value.remedy


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"temperature": -1.0}, "R110"),
        ({"temperature": float("nan")}, "R110"),
        ({"temperature": 1.0, "top_p": 1.5}, "R110"),
        ({"temperature": 1.0, "top_k": -1}, "R110"),
        ({"temperature": 1.0, "seed": 1 << 64}, "R110"),
        ({"count": 0}, "R110"),
        ({"count": -1}, "R110"),
    ],
)
def test_sampling_numbers_out_of_range(arguments: dict[str, float], code: str, path: Path) -> None:
    with bittern.load(path, chip="vm") as model, pytest.raises(BitternError) as caught:
        model.generate("ab", **{"count": 2, **arguments})  # type: ignore[arg-type]
    assert caught.value.code == code


def test_without_template_or_tokenizer(tmp_path: Path) -> None:
    plain = tiny_models.save(tmp_path, tiny_models.llama(shape=SHAPE, keys=tiny_models.tokenizer()), "plain.gguf")
    with bittern.load(plain) as model, pytest.raises(BitternError) as caught:
        model.generate("ab", 2, chat=True)
    assert caught.value.code == "F409"
    bare = tiny_models.save(tmp_path, tiny_models.llama(), "bare.gguf")
    with bittern.load(bare) as model, pytest.raises(BitternError) as caught:
        model.generate("ab", 2)
    assert caught.value.code == "R107"
    with pytest.raises(BitternError) as caught:
        bittern.load(bare, cache="f64")
    assert caught.value.code == "R106"
    with pytest.raises(BitternError) as caught:
        bittern.load(bare, chip="vmm")
    assert caught.value.code == "R101" and "`vm`" in caught.value.remedy


@pytest.mark.parametrize(
    ("logits", "token"),
    [
        ([1.0, 3.0, 3.0], 1),
        ([np.nan, 1.0, 2.0], 2),
        ([np.nan, -np.inf, np.nan], 1),
        ([np.nan, np.nan], 0),
        ([-0.0, 0.0], 0),
    ],
)
def test_greedy_ties_and_nan(logits: list[float], token: int) -> None:
    assert greedy(np.array(logits, np.float32)) == token


def test_greedy_is_the_librarys(path: Path) -> None:
    from bittern.graph.evaluate import evaluate
    from bittern.lang.library import Library

    function = Library.standard().function("sample.greedy")
    rng = np.random.default_rng(8)
    for _ in range(50):
        logits = rng.choice([0.0, 1.0, 2.0, np.nan, -np.inf], 7).astype(np.float32)
        assert int(evaluate(function, [logits], (7,))) == greedy(logits), logits
