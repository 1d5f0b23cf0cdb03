"""Families: folders and GGUF files against an independent implementation, every format, closeness, invariance."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import family_files as f
import numpy as np
import pytest

import bittern
from bittern.chips.chip import EncodingChip, chip
from bittern.chips.evaluated import EvaluatedModel
from bittern.front.bind import bind_checkpoint, bind_encoder
from bittern.front.bound import Bound
from bittern.front.checkpoint import Checkpoint
from bittern.front.gguf import open_gguf
from bittern.front.huggingface import open_folder
from bittern.graph.evaluate import World
from bittern.lang.library import Library
from bittern.models.family import family, names
from bittern.models.huggingface import Config
from bittern.models.tested import TESTED
from bittern.runtime.decode import run_rows
from bittern.runtime.model import open_checkpoint

LIBRARY = Library.standard()
FAMILIES = tuple(name for name in (*f.DECODERS, *f.ENCODERS) if name != "llama3")
EXACT = 1e-9
UNNAMED = {
    "bert": ("pooler.weight", "pooler.bias"),
    "bitnet": ("output.weight", "_sub_norm.weight"),
}  # which the package has no names for
# The architecture of the same tensors in the `gguf` package, where its name is another.
PACKAGE = {"mistral": "LLAMA", "llama3": "LLAMA", "qwen3moe": "QWEN3MOE"}


def _file(folder: Path, data: bytes) -> Path:
    path = folder / "tiny.gguf"
    path.write_bytes(data)
    return path


def _as_file(name: str, folder: Path) -> Path:
    """Return a golden folder's checkpoint as a GGUF file."""
    with open_folder(f.GOLDEN / name) as checkpoint:
        return _file(folder, f.as_gguf(checkpoint))


def _logits(bound: Bound, on: str, tokens: Any) -> Any:
    session = chip(on).load(bound).start(len(tokens))
    return session.logits(run_rows(session, [int(token) for token in tokens]))


def _decoder_errors(checkpoint: Checkpoint, name: str) -> tuple[float, float]:
    """Return the distance of the reference to the oracle, and of the vm to the reference: of 1, the largest logit."""
    found = f.oracle(name)
    bound = bind_checkpoint(checkpoint, LIBRARY, "f32")
    reference, strict = (_logits(bound, on, found["tokens"]) for on in ("reference", "vm"))
    largest = np.abs(found["logits"]).max()
    return float(np.abs(reference - found["logits"]).max()), float(np.abs(strict - reference).max() / largest)


def _check(errors: tuple[float, float], name: str) -> None:
    exact, share = errors
    assert exact < EXACT, (name, exact)
    assert share < (0.2 if name == "bitnet" else 1e-5), (name, share)  # activations of 8 bits; all else is in f32


@pytest.mark.req("L03", "L04")
@pytest.mark.parametrize("name", f.DECODERS)
def test_folder_equals_the_oracle(name: str) -> None:
    with open_folder(f.GOLDEN / name) as checkpoint:
        _check(_decoder_errors(checkpoint, name), name)


@pytest.mark.req("L03", "L04")
@pytest.mark.parametrize("name", f.DECODERS)
def test_gguf_equals_the_oracle(name: str, tmp_path: Path) -> None:
    with open_gguf(_as_file(name, tmp_path)) as checkpoint:
        _check(_decoder_errors(checkpoint, name), name)


def test_ternary_activations_equal_the_oracle() -> None:
    found = f.oracle("bitnet")
    with open_folder(f.GOLDEN / "bitnet") as checkpoint:
        strict = _logits(bind_checkpoint(checkpoint, LIBRARY, "f32"), "vm", found["tokens"])
    assert np.abs(strict - found["quantised"]).max() < 1e-5


@pytest.mark.parametrize("on", ["reference", "vm"])
@pytest.mark.parametrize("kind", ["folder", "gguf"])
def test_encoder_equals_the_oracle(on: str, kind: str, tmp_path: Path) -> None:
    found = f.oracle("bert")
    path = f.GOLDEN / "bert" if kind == "folder" else _as_file("bert", tmp_path)
    bound = EXACT if on == "reference" else 1e-5
    with bittern.load_encoder(path, chip=on) as encoder:
        assert np.abs(encoder.vectors(found["tokens"]) - found["hidden"]).max() < bound
        assert np.abs(encoder.embed(found["tokens"], "pool") - found["pooled"]).max() < bound
        assert np.abs(encoder.embed(found["tokens"]) - found["hidden"].mean(axis=0)).max() < bound
        assert np.abs(encoder.embed(found["tokens"], "first") - found["hidden"][0]).max() < bound


@pytest.mark.req("K047")
@pytest.mark.parametrize("name", f.DECODERS)
@pytest.mark.parametrize("cache", ["f16", "f32"])
def test_split_anywhere(name: str, cache: str) -> None:
    tokens = [int(token) for token in f.oracle(name)["tokens"]]
    with open_folder(f.GOLDEN / name) as checkpoint:
        loaded = chip("vm").load(bind_checkpoint(checkpoint, LIBRARY, cache))
        found = set()
        for cuts in ([], [1], [4, 5, 9], list(range(1, len(tokens)))):
            session = loaded.start(len(tokens))
            ends = [0, *cuts, len(tokens)]
            parts = [run_rows(session, tokens[a:b], a) for a, b in pairwise(ends)]
            found.add(np.asarray(session.logits(np.concatenate(parts)), "<f4").tobytes())
    assert len(found) == 1


@pytest.mark.req("K047")
@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in f.ENCODERS])
def test_int8_cache(name: str, tmp_path: Path) -> None:
    """The int8 cache of each family: near the reference of the same graph, the definitions' bits, split anywhere."""
    tokens = [int(token) for token in np.random.default_rng(8).integers(0, f.VOCAB, 9)]
    with open_gguf(_file(tmp_path, f.mixed(name, LIBRARY, ["f32"]).data)) as checkpoint:
        bound = bind_checkpoint(checkpoint, LIBRARY, "int8")
        assert (bound.cache, bound.cache_blocks) == ("int8", bound.dims["h"] // 32)
        reference, strict = (_logits(bound, on, tokens) for on in ("reference", "vm"))
        plain = _logits(bind_checkpoint(checkpoint, LIBRARY, "f32"), "vm", tokens)
        defined = EvaluatedModel(bound, World()).start(len(tokens))
        assert np.array_equal(defined.logits(run_rows(defined, tokens)), strict), "kernels give other bits"
        pieces = chip("vm").load(bound).start(len(tokens))
        parts = [run_rows(pieces, tokens[a:b], a) for a, b in pairwise((0, 1, 5, 6, len(tokens)))]
        assert np.array_equal(pieces.logits(np.concatenate(parts)), strict), "a split changes bits"
    largest = np.abs(reference).max()
    share = np.abs(strict - reference).max() / largest
    assert share < (0.2 if name == "bitnet" else 0.05), (name, share)
    assert 0 < np.abs(strict - plain).max() < 0.1 * largest, "the cache rounds, but not more than 8 bits do"


@pytest.mark.req("L06")
@pytest.mark.parametrize("name", f.DECODERS)
def test_forced_agreement(name: str) -> None:
    tokens = [int(token) for token in f.oracle(name)["tokens"]]
    with open_folder(f.GOLDEN / name) as checkpoint:
        bound = bind_checkpoint(checkpoint, LIBRARY)
        reference, strict = (_logits(bound, on, tokens) for on in ("reference", "vm"))
    ahead = np.partition(reference, -2, axis=1)[:, -1] - np.partition(reference, -2, axis=1)[:, -2]
    sure = ahead > 0.2 * np.abs(reference).max(axis=1)
    assert (reference.argmax(axis=1) == strict.argmax(axis=1))[sure].all()


def _batches(name: str) -> list[tuple[str, ...]]:
    """Return the formats of a family, as many at once as its checkpoint has matrices."""
    width = len(f.matrices(name, LIBRARY))
    formats = f.PLAIN_AND_BLOCKS
    return [formats[at : at + width] for at in range(0, len(formats), width)]


def _formats_run(name: str, folder: Path) -> set[str]:
    """Run every format of a family; return those that were in a file."""
    seen: set[str] = set()
    for number, elements in enumerate(_batches(name)):
        made = f.mixed(name, LIBRARY, elements, number)
        seen |= set(made.elements.values())
        _check_mixed(name, made.data, folder)
    return seen


def _check_mixed(name: str, data: bytes, folder: Path) -> None:
    """Compare reference and vm on a file."""
    tokens = [int(token) for token in np.random.default_rng(7).integers(0, f.VOCAB, 6)]
    path = _file(folder, data)
    reference, strict = (_answer(name, path, on, tokens) for on in ("reference", "vm"))
    assert np.isfinite(reference).all() and np.abs(reference).max() > 0.05, name
    assert np.corrcoef(reference.reshape(-1), strict.reshape(-1))[0, 1] > 0.99, name


def _answer(name: str, path: Path, on: str, tokens: list[int]) -> Any:
    with open_gguf(path) as checkpoint:
        if name in f.ENCODERS:
            made = chip(on)
            assert isinstance(made, EncodingChip)
            return made.load_encoder(bind_encoder(checkpoint, LIBRARY)).encode(np.array(tokens, np.uint32))
        return _logits(bind_checkpoint(checkpoint, LIBRARY, "f32"), on, tokens)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_format(name: str, tmp_path: Path) -> None:
    assert tuple(sorted(_formats_run(name, tmp_path))) == tuple(sorted(set(TESTED[name]) - {"folder"}))


def test_the_table_names_all_families() -> None:
    assert sorted(TESTED) == sorted(FAMILIES) == names()
    assert all("folder" in rows for rows in TESTED.values())


@pytest.mark.parametrize("name", (*f.DECODERS, *f.ENCODERS))
def test_names_are_those_of_the_gguf_package(name: str) -> None:
    package = pytest.importorskip("gguf", reason="the oracle of names needs `gguf`")
    config = json.loads((f.GOLDEN / name / "config.json").read_text())
    chosen = family("llama" if name == "llama3" else name)
    neutral = chosen.translate(Config(config))
    arch = package.MODEL_ARCH[PACKAGE.get(name, name.upper())]
    known = package.get_tensor_name_map(arch, 12)
    for tensor, recipe in neutral.tensors.items():
        if len(recipe.sources) == 1 and not tensor.endswith(("-", *UNNAMED.get(name, ()))):
            (source,) = recipe.sources
            source = source.removeprefix("bert.")
            source = source.removesuffix("_scale").removesuffix("weight") + "weight" if "_scale" in source else source
            found = known.get_name(source, (".weight", ".bias"))
            assert found == tensor.replace(".scale", ".weight"), (source, tensor)
    keys = {
        value.replace("{arch}", "A")
        for part in (package.Keys.LLM, package.Keys.Attention, package.Keys.Rope)
        for value in vars(part).values()
        if isinstance(value, str)
    }
    ours = {f"A.{key}" for key in neutral.metadata} - {"A.hidden_act"}
    assert ours <= keys, ours - keys


def _swapped(a: str, b: str) -> Callable[[Checkpoint], Checkpoint]:
    def swap(checkpoint: Checkpoint) -> Checkpoint:
        rows = dict(checkpoint.tensors)
        rows[a], rows[b] = rows[b], rows[a]
        return Checkpoint(
            *("gguf", checkpoint.file, checkpoint.metadata, rows, checkpoint.digests),
        )

    return swap


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("llama", _swapped("blk.0.attn_k.weight", "blk.1.attn_k.weight")),
        ("qwen2", _swapped("blk.0.attn_k.bias", "blk.0.attn_v.bias")),
        ("gpt2", _swapped("blk.0.attn_norm.bias", "blk.1.attn_norm.bias")),
        ("gemma2", _swapped("blk.0.attn_norm.weight", "blk.0.ffn_norm.weight")),
    ],
)
def test_a_planted_fault_is_found(name: str, change: Callable[[Checkpoint], Checkpoint], tmp_path: Path) -> None:
    with open_gguf(_as_file(name, tmp_path)) as checkpoint:
        exact, _ = _decoder_errors(change(checkpoint), name)
        assert exact > 1e-4


def test_learned_positions_end() -> None:
    with bittern.load(f.GOLDEN / "gpt2") as model, pytest.raises(bittern.BitternError) as caught:
        model.logits([1] * 65)
    assert caught.value.code == "R117" and "64" in caught.value.what


def test_the_kind_of_a_model_is_asked_for(tmp_path: Path) -> None:
    with open_checkpoint(f.GOLDEN / "bert", None) as checkpoint, pytest.raises(bittern.BitternError) as caught:
        bind_checkpoint(checkpoint, LIBRARY)
    assert caught.value.code == "M115"
    with open_checkpoint(f.GOLDEN / "llama", None) as checkpoint, pytest.raises(bittern.BitternError) as caught:
        bind_encoder(checkpoint, LIBRARY)
    assert caught.value.code == "M116"
    with bittern.load_encoder(f.GOLDEN / "bert") as encoder, pytest.raises(bittern.BitternError) as caught:
        encoder.embed([1, 2], "meen")
    assert caught.value.code == "R118" and "`mean`" in caught.value.remedy


def test_a_chip_without_encoders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bittern.runtime.encoder._chip", lambda name: object())
    with pytest.raises(bittern.BitternError) as caught:
        bittern.load_encoder(f.GOLDEN / "bert")
    assert caught.value.code == "R119"


def test_a_matrix_that_is_not_ternary(tmp_path: Path) -> None:
    data = bytearray(_as_file("bitnet", tmp_path).read_bytes())
    with open_gguf(_file(tmp_path, bytes(data))) as checkpoint:
        place = checkpoint.tensors["blk.1.ffn_up.weight"].offset
    data[place : place + 4] = np.float32(0.3).tobytes()
    with open_gguf(_file(tmp_path, bytes(data))) as checkpoint, pytest.raises(bittern.BitternError) as caught:
        bind_checkpoint(checkpoint, LIBRARY)
    assert caught.value.code == "M114" and "`blk.1.ffn_up.weight`" in caught.value.what and "row 0" in caught.value.what
