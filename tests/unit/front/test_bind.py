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


@pytest.mark.parametrize(("number", "name", "size"), [(28, "f64", 8), (24, "i8", 1), (26, "i32", 4), (27, "i64", 8)])
def test_elements_that_are_no_weights(number: int, name: str, size: int, tmp_path: Path) -> None:
    """A f64 weight would have to be rounded unasked, and an integer one has no scale: neither is guessed at."""
    wrong = g.Row(b"blk.0.ffn_down.weight", (96, 64), number, data=bytes(96 * 64 * size))
    error = _refusal(tmp_path, tiny_models.llama(rows={"blk.0.ffn_down.weight": wrong}))
    assert error.code == "M108" and f"holds {name}" in error.what
    assert "f32, f16, bf16 or a block format" in error.remedy


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


TOY = """use attention
use products

struct Toy[vocab, d, g, h] {{ embed: weight[vocab, d], head: weight[vocab, d], {field} }}

fn forward[t, s, c, e: type, b, layers, vocab, d, g, h](m: &Toy[vocab, d, g, h], token: u32[t], at: &Place[t],
    cache: own Cache[e, layers, s, c, g, h, b]) -> (f32[t, d], own Cache[e, layers, s, c, g, h, b]) {{
  (embed(m.embed, token), cache)
}}

fn head[t, vocab, d, g, h](m: &Toy[vocab, d, g, h], x: f32[t, d]) -> f32[t, vocab] {{
  linear(m.head, x)
}}
"""
BINDING = """from bittern.models.family import Binding, Facts, Numbers, Weight
from bittern.types.elements import F32, F64


def bind(facts: Facts) -> Binding:
    d = facts.whole("embedding_length")
    dims = {{"layers": 1, "vocab": facts.tensors["token_embd.weight"][0], "d": d, "g": 1, "h": 1}}
    fields = {{"embed": Weight("token_embd.weight"), "head": Weight("token_embd.weight")}}
    {line}
    return Binding(dims, fields)
"""


@pytest.mark.req("L03")
@pytest.mark.parametrize(
    ("field", "line", "code", "words"),
    [
        ("", "", "", ""),
        ("eps: f32", "fields['eps'] = Numbers(1.0, F32)", "", ""),
        ("eps: f32", "", "M111", "the field `eps`"),
        ("eps: f32", "fields['epps'] = Numbers(1.0, F32)", "M111", "Did you mean `epps`?"),
        ("", "fields['extra'] = Numbers(1.0, F32)", "M111", "no field `extra`"),
        ("eps: f32", "fields['eps'] = Numbers(1.0, F64)", "M111", "f64"),
        ("", "del dims['d']", "M111", "the dimensions `d`"),
        ("", "del dims['h'], dims['vocab']", "M111", "the dimensions `h`, `vocab`"),
        ("", "facts.tensors['nothing']", "M110", "toy.py:9 failed: KeyError"),
        ("", "return None", "M110", "not a Binding"),
        ("", "1 +", "M110", "SyntaxError"),
    ],
)
def test_a_family_of_a_user(field: str, line: str, code: str, words: str, tmp_path: Path) -> None:
    """A family from a user's folder works, or the error says which of its two files is wrong where."""
    (tmp_path / "toy.btn").write_text(TOY.format(field=field))
    (tmp_path / "toy.py").write_text(BINDING.format(line=line))
    row = g.Row(b"token_embd.weight", (32, 50), 0, data=bytes(32 * 50 * 4))
    keys = (g.string("general.architecture", "toy"), g.number("toy.embedding_length", g.U32, 32))
    path = tiny_models.save(tmp_path, g.build(g.File(keys, (row,)))[0])
    with open_gguf(path) as checkpoint:
        if not code:
            assert bind_checkpoint(checkpoint, Library.standard(tmp_path)).family.name == "toy"
            return
        with pytest.raises(BitternError) as caught:
            bind_checkpoint(checkpoint, Library.standard(tmp_path))
    assert caught.value.code == code
    assert words in str(caught.value) and "toy" in str(caught.value)


def test_a_program_without_its_functions(tmp_path: Path) -> None:
    (tmp_path / "toy.btn").write_text("fn forward() -> f32 {\n  1.0\n}\n")
    (tmp_path / "toy.py").write_text(BINDING.format(line=""))
    row = g.Row(b"token_embd.weight", (32, 50), 0, data=bytes(32 * 50 * 4))
    keys = (g.string("general.architecture", "toy"), g.number("toy.embedding_length", g.U32, 32))
    path = tiny_models.save(tmp_path, g.build(g.File(keys, (row,)))[0])
    with open_gguf(path) as checkpoint, pytest.raises(BitternError, match="M111.*`forward`"):
        bind_checkpoint(checkpoint, Library.standard(tmp_path))


def test_heads_that_do_not_fit_an_int8_cache(tmp_path: Path) -> None:
    path = tiny_models.save(tmp_path, tiny_models.llama(shape=tiny_models.Shape(h=16)))
    with open_gguf(path) as checkpoint:
        assert bind_checkpoint(checkpoint, LIBRARY, "f16").cache_blocks == 0
        with pytest.raises(BitternError, match=r"M112.*16 values.*--cache f16"):
            bind_checkpoint(checkpoint, LIBRARY, "int8")


@pytest.mark.parametrize("layers", [7, 62])
def test_gemma_scales_its_queries(layers: int) -> None:
    """The 27B model has 62 layers; its queries are scaled by width over heads, all others by the width of a head."""
    from bittern.models.family import Facts, Numbers, family

    facts = {"block_count": layers, "embedding_length": 5376, "feed_forward_length": 21504}
    facts |= {"attention.head_count": 32, "attention.head_count_kv": 16, "attention.key_length": 128}
    facts |= {"attention.sliding_window": 1024}
    metadata: dict[str, object] = {f"gemma3.{key}": value for key, value in facts.items()}
    metadata["gemma3.attention.layer_norm_rms_epsilon"] = 1e-6
    binding = family("gemma3").bind(Facts(metadata, "gemma3", {"token_embd.weight": (64, 5376)}))
    scale = binding.fields["facts.scale"]
    assert isinstance(scale, Numbers) and scale.value == 1 / np.sqrt(168 if layers == 62 else 128)


def test_rotary_scaling(tmp_path: Path) -> None:
    def stretch(**keys: object) -> object:
        from bittern.models.decoder import stretch
        from bittern.models.family import Facts

        facts = Facts({f"llama.rope.{key}": value for key, value in keys.items()}, "llama", {})
        return stretch(facts)

    assert stretch() == 1.0
    assert stretch(**{"scaling.type": "linear", "scaling.factor": 8.0}) == 8.0
    assert stretch(**{"scaling.type": "linear", "scale_linear": 2.0}) == 2.0
    for keys in ({"scaling.factor": 2.0}, {"scaling.type": "yarn"}, {"scaling.type": "linear", "scaling.factor": -1.0}):
        with pytest.raises(BitternError, match="M103"):
            stretch(**keys)


def test_the_factors_of_llama_3(tmp_path: Path) -> None:
    with open_gguf(tiny_models.save(tmp_path, tiny_models.llama(rope_factors=True))) as checkpoint:
        with_factors = bind_checkpoint(checkpoint, LIBRARY)
    with open_gguf(tiny_models.save(tmp_path, tiny_models.llama())) as checkpoint:
        assert bind_checkpoint(checkpoint, LIBRARY).forward.id != with_factors.forward.id
