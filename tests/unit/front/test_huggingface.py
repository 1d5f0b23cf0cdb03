"""Hugging Face folders: read as written, or refused by the name of what is wrong; nothing leads out of them."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import family_files as f
import numpy as np
import pytest

import bittern
from bittern.base.errors import BitternError
from bittern.front.bind import bind_checkpoint
from bittern.front.huggingface import open_folder
from bittern.lang.library import Library
from bittern.runtime.bringup import bring_up
from bittern.runtime.model import tokenizer_of

LIBRARY = Library.standard()
INDEX = "model.safetensors.index.json"


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    """A copy of a folder with one safetensors file."""
    return Path(shutil.copytree(f.GOLDEN / "llama", tmp_path / "llama"))


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """A copy of a folder with four safetensors files and their index."""
    return Path(shutil.copytree(f.GOLDEN / "llama3", tmp_path / "llama3"))


def _configure(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in config.items() if value != "-"}))


def _refusal(folder: Path) -> BitternError:
    with pytest.raises(BitternError) as caught, open_folder(folder) as checkpoint:
        bind_checkpoint(checkpoint, LIBRARY)
    return caught.value


@pytest.mark.parametrize(
    ("changes", "code", "word"),
    [
        ({"model_type": "llamma"}, "M113", "`llamma`"),
        ({"model_type": "-"}, "F165", "model_type"),
        ({"hidden_size": "-"}, "F180", "`hidden_size`"),
        ({"hidden_size": 0}, "F181", "`hidden_size`"),
        ({"hidden_size": True}, "F181", "`hidden_size`"),
        ({"num_hidden_layers": 1 << 40}, "F181", "`num_hidden_layers`"),
        ({"rms_norm_eps": 0}, "F181", "`rms_norm_eps`"),
        ({"rms_norm_eps": "1e-6"}, "F181", "`rms_norm_eps`"),
        ({"hidden_act": "gelu"}, "F181", "`hidden_act`"),
        ({"attention_bias": True}, "F181", "`attention_bias`"),
        ({"attention_bias": 0}, "F181", "`attention_bias`"),
        ({"tie_word_embeddings": 1}, "F181", "`tie_word_embeddings`"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "F181", "`rope_type`"),
        ({"rope_parameters": {"rope_type": "default", "beta_fast": 4.0}}, "F182", "`beta_fast`"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "F181", "`partial_rotary_factor`"),
        ({"rope_parameters": [1]}, "F181", "`rope_parameters`"),
        ({"logit_scale": 2.0}, "F182", "`logit_scale`"),
        ({"quantization_config": {"quant_method": "gptq"}}, "F182", "`quantization_config`"),
        ({"num_hidden_layers": 3}, "F171", "`model.layers.2.self_attn.q_proj.weight`"),
        ({"num_hidden_layers": 1}, "M106", "model.layers.1."),
        ({"tie_word_embeddings": True}, "M106", "lm_head.weight"),
        ({"intermediate_size": 64}, "M107", "`blk.0.ffn_gate.weight`"),
        ({"num_attention_heads": 3}, "F172", "q_proj"),
        ({"num_attention_heads": 5}, "F172", "q_proj"),
    ],
)
def test_configurations(changes: dict[str, Any], code: str, word: str, llama: Path) -> None:
    if changes.get("num_attention_heads") == 5:
        changes = changes | {"num_key_value_heads": 5}
    _configure(llama, **changes)
    error = _refusal(llama)
    assert error.code == code, error
    assert word in error.what, error


def test_older_spellings_of_positions(llama: Path) -> None:
    found = f.oracle("llama")
    _configure(llama, rope_parameters="-", rope_theta=10000.0, rope_scaling=None)
    with bittern.load(llama, chip="reference", cache="f32") as model:
        assert np.abs(model.logits(found["tokens"]) - found["logits"]).max() < 1e-9
    _configure(llama, rope_scaling={"type": "linear", "factor": 2.0})
    with bittern.load(llama, chip="reference", cache="f32") as model:
        assert np.abs(model.logits(found["tokens"]) - found["logits"]).max() > 1e-3


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("config.json", b"{", "F165"),
        ("config.json", b'{"a": 1, "a": 2}', "F153"),
        ("config.json", b" " * (1 << 20) + b"{}", "F173"),
        ("tokenizer.json", b"{}", "F313"),
        ("tokenizer.json", b"\xff", "F313"),
        ("tokenizer_config.json", b"[]", "F314"),
        ("tokenizer_config.json", b'{"chat_template": 3}', "F314"),
    ],
)
def test_texts_beside_the_weights(name: str, data: bytes, code: str, llama: Path) -> None:
    (llama / name).write_bytes(data)
    with pytest.raises(BitternError) as caught, open_folder(llama) as checkpoint:
        tokenizer_of(checkpoint, None)
    assert caught.value.code == code, caught.value


def test_missing_files(llama: Path) -> None:
    (llama / "model.safetensors").rename(llama / "pytorch_model.bin")
    assert _refusal(llama).code == "F166"
    (llama / "config.json").unlink()
    assert _refusal(llama).code == "F101"


def _index(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    index = json.loads((folder / INDEX).read_text())
    change(index)
    (folder / INDEX).write_text(json.dumps(index))


@pytest.mark.parametrize(
    "name",
    [
        "../llama3/model-00001-of-00004.safetensors",
        "/etc/passwd",
        "./model-00001-of-00004.safetensors",
        "a/../model-00001-of-00004.safetensors",
        "..",
        "",
        "model-00001-of-00004.safetensors\0",
        "model-00001-of-00004.safetensors/",
        "c:model.safetensors",
        "\\model.safetensors",
        ".safetensors",
        "config.json",
    ],
)
def test_names_that_lead_out(name: str, sharded: Path) -> None:
    """EDGE_CASES E5: only inside the model folder."""
    _index(sharded, lambda index: index["weight_map"].update({"model.norm.weight": name}))
    error = _refusal(sharded)
    assert error.code == "F168", error


def test_links(sharded: Path, tmp_path: Path) -> None:
    """EDGE_CASES E5: a link may end in the folder or in the blobs of a download cache, nowhere else."""
    first = sharded / "model-00001-of-00004.safetensors"
    outside = tmp_path / "outside.safetensors"
    first.rename(outside)
    first.symlink_to(outside)
    error = _refusal(sharded)
    assert error.code == "F169" and first.name in error.what
    first.unlink()
    outside.rename(sharded / "inside.safetensors")
    first.symlink_to("inside.safetensors")
    open_folder(sharded).close()
    cache = tmp_path / "models--x" / "snapshots" / "abc"
    blobs = tmp_path / "models--x" / "blobs"
    cache.mkdir(parents=True)
    blobs.mkdir()
    for number, path in enumerate(sorted(sharded.glob("*.json")) + sorted(sharded.glob("model-*"))):
        (blobs / str(number)).write_bytes(path.read_bytes())
        (cache / path.name).symlink_to(Path("../../blobs") / str(number))
    open_folder(cache).close()
    (cache / "config.json").unlink()
    (cache / "config.json").symlink_to(sharded / "config.json")
    assert _refusal(cache).code == "F169"


def test_a_pipe_is_not_waited_for(sharded: Path) -> None:
    path = sharded / "model-00001-of-00004.safetensors"
    path.unlink()
    os.mkfifo(path)
    assert _refusal(sharded).code == "F102"


def test_index_and_files_disagree(sharded: Path) -> None:
    _index(sharded, lambda index: index["weight_map"].pop("model.norm.weight"))
    error = _refusal(sharded)
    assert error.code == "F170" and "`model.norm.weight`" in error.what
    _index(sharded, lambda index: index["weight_map"].update({"x": "model-00001-of-00004.safetensors"}))
    assert _refusal(sharded).code == "F170"
    _index(sharded, lambda index: index.update(weight_map=[1]))
    assert _refusal(sharded).code == "F167"


def test_digest_of_a_folder(sharded: Path) -> None:
    with open_folder(sharded) as checkpoint:
        before = checkpoint.sha256
        assert len(checkpoint.parts) == 6 and checkpoint.size == sum(p.file.identity.size for p in checkpoint.parts)
    with open_folder(sharded) as checkpoint:
        assert checkpoint.sha256 == before
    _configure(sharded, rms_norm_eps=1e-5)
    with open_folder(sharded) as checkpoint:
        assert checkpoint.sha256 != before


def test_stored_tensors_are_views_and_steps_are_recorded() -> None:
    with open_folder(f.GOLDEN / "gpt2") as checkpoint:
        plain = checkpoint.array("token_embd.weight")
        assert not plain.flags.owndata and not plain.flags.writeable
        assert set(checkpoint.derived) == {
            f"blk.{layer}.{name}.weight"
            for layer in range(2)
            for name in ("attn_qkv", "attn_output", "ffn_up", "ffn_down")
        }
        steps = bind_checkpoint(checkpoint, LIBRARY).steps
        assert steps["layer.1.up"] == "transposed" and steps["head"] == "tied to the embedding"


def test_halves_give_the_same_as_their_widened_values(llama: Path, tmp_path: Path) -> None:
    """Vectors in bf16 are widened, matrices stay as they are."""
    numpy = pytest.importorskip("safetensors.numpy", reason="writes the file")
    rows = numpy.load_file(llama / "model.safetensors")
    for kind in ("BF16", "F16"):
        narrow: dict[str, Any] = {}
        for name, value in rows.items():
            bits = (value.view("<u4") >> 16).astype("<u2") if kind == "BF16" else value.astype("<f2").view("<u2")
            narrow[name] = bits
            rows[name] = (bits.astype("<u4") << 16).view("<f4") if kind == "BF16" else bits.view("<f2").astype("<f4")
        wide, thin = (Path(shutil.copytree(llama, tmp_path / f"{kind}{n}")) for n in "ab")
        numpy.save_file(rows, wide / "model.safetensors")
        data = numpy.save(narrow)
        length = int.from_bytes(data[:8], "little")
        header = data[8 : 8 + length].replace(b'"U16"', f'"{kind}"'.encode())
        (thin / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data[8 + length :])
        tokens = f.oracle("llama")["tokens"]
        with bittern.load(wide, cache="f32") as a, bittern.load(thin, cache="f32") as b:
            assert a.logits(tokens).tobytes() == b.logits(tokens).tobytes()
            assert b.bound.checkpoint.tensors["output_norm.weight"].element.name == "f32"
            assert b.bound.checkpoint.tensors["blk.0.attn_q.weight"].element.name == kind.lower()


@pytest.mark.req("L06")
def test_bring_up_of_a_folder(tmp_path: Path) -> None:
    report = bring_up(f.GOLDEN / "qwen2", tokens=[5, 6, 7], count=4, out=tmp_path)
    assert [chip.status for chip in report.chips[:2]] == ["ran", "ran"]
    assert report.as_json()["model"]["family"] == "qwen2"
