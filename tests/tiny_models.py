"""Tiny checkpoints with random weights, as GGUF files: a whole Llama or Gemma 3 in some kilobytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import block_formats
import gguf_files as g
import numpy as np

TYPES = {"f32": 0, "f16": 1, "bf16": 30} | {name: row.number for name, row in block_formats.FORMATS.items()}


@dataclass(frozen=True)
class Shape:
    """Sizes of a tiny model."""

    layers: int = 2
    d: int = 64
    heads: int = 4
    g: int = 2
    h: int = 32
    ff: int = 96
    vocab: int = 100
    context: int = 2048


def weights(rng: np.random.Generator, element: str, rows: int, columns: int) -> bytes:
    """Return random weights of about unit gain in an element's stored form."""
    values = rng.standard_normal((rows, columns)) / np.sqrt(columns)
    if element == "f32":
        return values.astype("<f4").tobytes()
    if element == "f16":
        return values.astype("<f2").tobytes()
    if element == "bf16":
        return (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    row = block_formats.FORMATS[element]
    blocks = block_formats.blocks(rng, element, rows * columns // row.columns)
    for which in range(len(row.halves)):
        scale = rng.uniform(0.5, 2.0, len(blocks)) / np.sqrt(columns) / row.largest
        is_minimum = which == 1 and element in ("q4_1", "q5_1")  # elsewhere the second number scales minima
        block_formats.put_scale(element, blocks, -row.largest / 2 * scale if is_minimum else scale, which)
    return blocks.tobytes()


def llama(
    element: str = "q4_1",
    shape: Shape = Shape(),
    *,
    seed: int = 1,
    keys: Mapping[str, object] | None = None,
    rows: Mapping[str, g.Row | None] | None = None,
    is_tied: bool = True,
    rope_factors: bool = False,
) -> bytes:
    """Return a Llama checkpoint. keys: metadata to change, add or (None) leave out. rows: the same for tensors."""
    rng = np.random.default_rng(seed)
    s = shape
    parts: dict[str, tuple[int, int, str]] = {"token_embd.weight": (s.vocab, s.d, element)}
    if not is_tied:
        parts["output.weight"] = (s.vocab, s.d, element)
    for layer in range(s.layers):
        parts |= _attention(f"blk.{layer}.", s, element) | _feed_forward(f"blk.{layer}.", s, element)
    vectors = {"output_norm.weight": s.d}
    for layer in range(s.layers):
        vectors |= {f"blk.{layer}.attn_norm.weight": s.d, f"blk.{layer}.ffn_norm.weight": s.d}
    if rope_factors:
        vectors["rope_freqs.weight"] = s.h // 2
    facts: dict[str, object] = {
        "general.architecture": "llama",
        "general.name": "tiny",
        "llama.block_count": s.layers,
        "llama.context_length": s.context,
        "llama.embedding_length": s.d,
        "llama.feed_forward_length": s.ff,
        "llama.attention.head_count": s.heads,
        "llama.attention.head_count_kv": s.g,
        "llama.attention.key_length": s.h,
        "llama.attention.value_length": s.h,
        "llama.rope.freq_base": 10000.0,
        "llama.rope.dimension_count": s.h,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
    }
    return _file(rng, facts | dict(keys or {}), parts, vectors, rows or {})


def gemma3(
    element: str = "q4_1",
    shape: Shape = Shape(layers=7),
    *,
    seed: int = 2,
    window: int = 4,
    keys: Mapping[str, object] | None = None,
) -> bytes:
    """Return a Gemma 3 checkpoint: the sixth layer is global, the others see `window` positions."""
    rng = np.random.default_rng(seed)
    s = shape
    parts: dict[str, tuple[int, int, str]] = {"token_embd.weight": (s.vocab, s.d, element)}
    vectors = {"output_norm.weight": s.d}
    for layer in range(s.layers):
        name = f"blk.{layer}."
        parts |= _attention(name, s, element) | _feed_forward(name, s, element)
        wide = ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
        vectors |= {f"{name}{norm}.weight": s.d for norm in wide}
        vectors |= {f"{name}{norm}.weight": s.h for norm in ("attn_q_norm", "attn_k_norm")}
    facts: dict[str, object] = {
        "general.architecture": "gemma3",
        "gemma3.block_count": s.layers,
        "gemma3.context_length": s.context,
        "gemma3.embedding_length": s.d,
        "gemma3.feed_forward_length": s.ff,
        "gemma3.attention.head_count": s.heads,
        "gemma3.attention.head_count_kv": s.g,
        "gemma3.attention.key_length": s.h,
        "gemma3.attention.value_length": s.h,
        "gemma3.attention.sliding_window": window,
        "gemma3.rope.freq_base": 1e6,
        "gemma3.attention.layer_norm_rms_epsilon": 1e-6,
    }
    return _file(rng, facts | dict(keys or {}), parts, vectors, {})


def save(folder: Path, data: bytes, name: str = "tiny.gguf") -> Path:
    """Write a checkpoint; return its path."""
    path = folder / name
    path.write_bytes(data)
    return path


def _attention(name: str, s: Shape, element: str) -> dict[str, tuple[int, int, str]]:
    return {
        f"{name}attn_q.weight": (s.heads * s.h, s.d, element),
        f"{name}attn_k.weight": (s.g * s.h, s.d, element),
        f"{name}attn_v.weight": (s.g * s.h, s.d, element),
        f"{name}attn_output.weight": (s.d, s.heads * s.h, element),
    }


def _feed_forward(name: str, s: Shape, element: str) -> dict[str, tuple[int, int, str]]:
    return {
        f"{name}ffn_gate.weight": (s.ff, s.d, element),
        f"{name}ffn_up.weight": (s.ff, s.d, element),
        f"{name}ffn_down.weight": (s.d, s.ff, element),
    }


def _file(
    rng: np.random.Generator,
    facts: Mapping[str, object],
    parts: Mapping[str, tuple[int, int, str]],
    vectors: Mapping[str, int],
    changed: Mapping[str, g.Row | None],
) -> bytes:
    rows = {}
    for name, size in vectors.items():
        values = rng.uniform(0.5, 1.5, size).astype("<f4")
        rows[name] = g.Row(name.encode(), (size,), 0, data=values.tobytes())
    for name, (height, width, element) in parts.items():
        data = weights(rng, element, height, width)
        rows[name] = g.Row(name.encode(), (width, height), TYPES[element], data=data)
    kept = {name: row for name, row in (rows | dict(changed)).items() if row is not None}
    keys = tuple(as_key(name, value) for name, value in facts.items() if value is not None)
    return g.build(g.File(keys, tuple(kept.values())))[0]


def tokenizer(template: str | None = None) -> dict[str, object]:
    """Return metadata of a byte-level tokenizer: 256 bytes, then `ab`, a beginning and an end of text; 259 tokens."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in plain}
    for place, byte in enumerate(byte for byte in range(256) if byte not in letters):
        letters[byte] = chr(256 + place)
    words = [letters[byte] for byte in range(256)] + ["ab", "<s>", "</s>"]
    keys: dict[str, object] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": g.strings("tokenizer.ggml.tokens", words),
        "tokenizer.ggml.merges": g.strings("tokenizer.ggml.merges", ["a b"]),
        "tokenizer.ggml.token_type": g.array("tokenizer.ggml.token_type", g.I32, [1] * 257 + [3, 3]),
        "tokenizer.ggml.bos_token_id": 257,
        "tokenizer.ggml.eos_token_id": 258,
    }
    if template is not None:
        keys["tokenizer.chat_template"] = template
    return keys


def as_key(name: str, value: object) -> g.Key:
    """Return a pair of metadata for a plain value; a pair stays as it is."""
    if isinstance(value, g.Key):
        return value
    if isinstance(value, str):
        return g.string(name, value)
    assert isinstance(value, (int, float))
    return g.number(name, g.F32 if isinstance(value, float) else g.U32, value)
