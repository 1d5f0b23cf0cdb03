"""Binding: every tensor has its place and its shape, or the error names it."""

from pathlib import Path

import gguf_files as g
import numpy as np
import pytest
import tiny_models

from bittern.base.errors import BitternError
from bittern.front.bind import bind_checkpoint
from bittern.front.gguf import open_gguf
from bittern.lang.library import Library

LIBRARY = Library.standard()


def _refusal(folder: Path, data: bytes) -> BitternError:
    path = tiny_models.save(folder, data)
    with open_gguf(path) as checkpoint, pytest.raises(BitternError) as caught:
        bind_checkpoint(checkpoint, LIBRARY)
    return caught.value


@pytest.mark.req("L03")
def test_unknown_architecture(tmp_path: Path) -> None:
    error = _refusal(tmp_path, tiny_models.llama(keys={"general.architecture": "llamma"}))
    assert error.code == "M101"
    assert "llamma" in error.what and "`llama`" in error.remedy


def test_no_architecture(tmp_path: Path) -> None:
    assert _refusal(tmp_path, tiny_models.llama(keys={"general.architecture": None})).code == "M109"


def test_missing_fact(tmp_path: Path) -> None:
    error = _refusal(tmp_path, tiny_models.llama(keys={"llama.block_count": None}))
    assert error.code == "M102" and "`llama.block_count`" in error.what


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("block_count", 0),
        ("block_count", 4294967295),
        ("block_count", 2.0),
        ("embedding_length", "many"),
        ("attention.layer_norm_rms_epsilon", float("nan")),
        ("attention.layer_norm_rms_epsilon", -1.0),
        ("attention.layer_norm_rms_epsilon", 0.0),
        ("rope.freq_base", 0.0),
        ("rope.freq_base", float("inf")),
        ("rope.dimension_count", 16),
        ("attention.value_length", 64),
        ("expert_count", 8),
        ("rope.scaling.type", "yarn"),
        ("attention.key_length", 33),
        ("attention.head_count_kv", 3),
    ],
)
def test_impossible_fact(key: str, value: object, tmp_path: Path) -> None:
    error = _refusal(tmp_path, tiny_models.llama(keys={f"llama.{key}": value}))
    assert error.code == "M103", error
    assert f"`llama.{key}`" in error.what
    assert "Expected" in error.remedy


@pytest.mark.parametrize(
    "key", ["logit_scale", "attention.scale", "rope.scaling.attn_factor", "attn_logit_softcapping"]
)
def test_fact_that_nobody_reads(key: str, tmp_path: Path) -> None:
    error = _refusal(tmp_path, tiny_models.llama(keys={f"llama.{key}": 2.0}))
    assert error.code == "M104" and f"`llama.{key}`" in error.what


def test_missing_tensor(tmp_path: Path) -> None:
    error = _refusal(tmp_path, tiny_models.llama(rows={"blk.1.attn_k.weight": None}))
    assert error.code == "M105"
    assert "`blk.1.attn_k.weight`" in error.what and "`layer.1.k`" in error.what


def test_spare_tensor(tmp_path: Path) -> None:
    spare = g.Row(b"blk.0.attn_q.bias", (64,), 0, data=bytes(256))
    error = _refusal(tmp_path, tiny_models.llama(rows={"blk.0.attn_q.bias": spare}))
    assert error.code == "M106" and "`blk.0.attn_q.bias`" in error.what and "[64]" in error.what


def test_wrong_shape_names_both(tmp_path: Path) -> None:
    wrong = g.Row(b"blk.0.ffn_down.weight", (64, 64), 0, data=bytes(64 * 64 * 4))
    error = _refusal(tmp_path, tiny_models.llama(rows={"blk.0.ffn_down.weight": wrong}))
    assert error.code == "M107"
    assert "[64, 64]" in error.what and "[64, 96]" in error.what and "`layer.0.down`" in error.what


def test_wrong_element(tmp_path: Path) -> None:
    wrong = g.Row(b"output_norm.weight", (64,), 1, data=bytes(128))
    error = _refusal(tmp_path, tiny_models.llama(rows={"output_norm.weight": wrong}))
    assert error.code == "M108" and "f16" in error.what


def test_tying_is_recorded(tmp_path: Path) -> None:
    with open_gguf(tiny_models.save(tmp_path, tiny_models.llama())) as checkpoint:
        bound = bind_checkpoint(checkpoint, LIBRARY)
        assert bound.steps == {"head": "tied to the embedding"}
    with open_gguf(tiny_models.save(tmp_path, tiny_models.llama(is_tied=False), "two.gguf")) as checkpoint:
        assert bind_checkpoint(checkpoint, LIBRARY).steps == {}


def test_constants_are_the_files_bytes(tmp_path: Path) -> None:
    with open_gguf(tiny_models.save(tmp_path, tiny_models.llama())) as checkpoint:
        bound = bind_checkpoint(checkpoint, LIBRARY)
        labels = {path: node for node, path in bound.forward.labels.nodes.items()}
        assert "layer.1.q" in labels and "embed" in labels
        assert np.prod(checkpoint.tensors["blk.1.attn_q.weight"].shape) == 4 * 32 * 64


def test_the_same_file_gives_the_same_functions(tmp_path: Path) -> None:
    data = tiny_models.llama()
    found = []
    for name in ("a.gguf", "b.gguf"):
        with open_gguf(tiny_models.save(tmp_path, data, name)) as checkpoint:
            bound = bind_checkpoint(checkpoint, Library.standard())
            found.append((bound.forward.id, bound.head.id))
    assert found[0] == found[1]
    with open_gguf(tiny_models.save(tmp_path, tiny_models.llama(seed=9), "c.gguf")) as checkpoint:
        other = bind_checkpoint(checkpoint, Library.standard())
        assert other.forward.id != found[0][0]
