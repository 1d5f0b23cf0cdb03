"""Checkpoints of every family: the recorded golden folders, the same as GGUF files, and wider ones in mixed formats."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import block_formats
import gguf_files as g
import numpy as np
import numpy.typing as npt

from bittern.front.checkpoint import Checkpoint, MappedFile
from bittern.front.safetensors_file import read_safetensors
from bittern.graph.node import Node, const
from bittern.lang.elaborate import bind
from bittern.lang.library import Library
from bittern.models.family import Facts, TernaryCode, Weight, family
from bittern.models.huggingface import Config
from bittern.types.elements import ELEMENTS, F32, Kind, T
from bittern.types.values import Tensor

GOLDEN = Path(__file__).parent / "golden" / "families"
DECODERS = (  # golden folders of families that continue texts
    *("llama", "llama3", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "olmo2", "smollm3", "granite"),
    *("gpt2", "bitnet", "qwen3moe"),
)
ENCODERS = ("bert",)
TERNARY = ("tq1_0", "tq2_0", "f32", "f16", "bf16")  # what a ternary matrix may be stored in
_PLAIN = {"f32": 0, "f16": 1, "bf16": 30}
PLAIN_AND_BLOCKS = (*_PLAIN, *block_formats.FORMATS)
VOCAB, PLACES = 64, 64
_WIDE = {
    "hidden_size": 256,
    "intermediate_size": 256,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "query_pre_attn_scalar": 32,
    "moe_intermediate_size": 256,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "n_embd": 256,
    "n_inner": 256,
    "n_head": 8,
}


def oracle(name: str) -> dict[str, npt.NDArray[Any]]:
    """Return what was recorded beside a golden folder: tokens, and the model's answers in float64."""
    path = GOLDEN / name / "oracle.safetensors"
    raw = path.read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    start = 8 + int.from_bytes(raw[:8], "little")
    kinds = {"F64": "<f8", "U32": "<u4"}
    return {
        key: np.frombuffer(raw[start + row["data_offsets"][0] : start + row["data_offsets"][1]], kinds[row["dtype"]])
        .reshape(row["shape"])
        .copy()
        for key, row in header.items()
        if key != "__metadata__"
    }


def as_gguf(checkpoint: Checkpoint) -> bytes:
    """Return a checkpoint as a GGUF file: the same keys and tensors; ternary codes as f32 values with their scale."""
    rows = []
    for name, info in checkpoint.tensors.items():
        data = checkpoint.array(name)
        if name.endswith(".scale"):
            continue
        if info.element == T:
            scale = checkpoint.array(f"{name.removesuffix('weight')}scale")
            data = data.astype(np.float32) * scale.reshape(-1, 1)
        rows.append(g.Row(name.encode(), info.shape[::-1], 0, data=data.astype("<f4").tobytes()))
    return g.build(g.File(tuple(_keys(checkpoint.metadata)), tuple(rows)))[0]


def _keys(metadata: Mapping[str, Any]) -> Iterator[g.Key]:
    for name, value in metadata.items():
        if isinstance(value, str):
            yield g.string(name, value)
        else:
            kinds = {bool: g.BOOL, int: g.U32, float: g.F32}
            yield g.number(name, kinds[type(value)], value)


@dataclass(frozen=True)
class Mixed:
    """A wider checkpoint. data: the GGUF file. elements: of its matrices, by tensor name."""

    data: bytes
    elements: dict[str, str]


def matrices(name: str, library: Library) -> list[str]:
    """Return the names of the matrices of a wide checkpoint whose element is free."""
    _, shapes, _ = _wide(name, library)
    return [tensor for tensor, (_, is_open) in shapes.items() if is_open]


def mixed(name: str, library: Library, elements: Sequence[str], seed: int = 1) -> Mixed:
    """Return a wide checkpoint of one layer (six for Gemma 3), whose matrices take the elements in turn."""
    metadata, shapes, ternary = _wide(name, library)
    rng = np.random.default_rng(seed)
    rows, given, free = [], {}, cycle(elements)
    for tensor, (shape, is_open) in shapes.items():
        if tensor in ternary:
            element = TERNARY[len(given) % len(TERNARY)]
            data = _ternary(rng, element, shape)
        elif is_open:
            element = next(free)
            data = weights(rng, element, shape)
        else:
            rows.append(g.Row(tensor.encode(), shape[::-1], 0, data=_vector(rng, tensor, shape)))
            continue
        given[tensor] = element
        number = _PLAIN[element] if element in _PLAIN else block_formats.FORMATS[element].number
        rows.append(g.Row(tensor.encode(), shape[::-1], number, data=data))
    return Mixed(g.build(g.File(tuple(_keys(metadata)), tuple(rows)))[0], given)


def _wide(name: str, library: Library) -> tuple[dict[str, Any], dict[str, tuple[tuple[int, ...], bool]], set[str]]:
    """Return metadata, the shapes of tensors with whether their element is free, and which of them are ternary."""
    chosen = family(name)
    config = json.loads((GOLDEN / name / "config.json").read_text())
    layers = 6 if name == "gemma3" else 1
    config |= {key: value for key, value in _WIDE.items() if key in config}
    for key in ("num_hidden_layers", "n_layer"):
        config |= {key: layers} if key in config else {}
    for key in ("layer_types", "no_rope_layers"):
        config |= {key: config[key][:layers]} if key in config else {}
    neutral = chosen.translate(Config(config))
    metadata = {"general.architecture": name} | {f"{name}.{key}": value for key, value in neutral.metadata.items()}
    known = {"token_embd.weight": (VOCAB, 256), "position_embd.weight": (PLACES, 256), "token_types.weight": (2, 256)}
    if "output.weight" in neutral.tensors:
        known["output.weight"] = (VOCAB, 256)
    binding = chosen.bind(Facts(metadata, name, known))
    shapes: dict[str, tuple[tuple[int, ...], bool]] = {}
    ternary: set[str] = set()

    def source(path: str, declared: Tensor) -> Node:
        found = binding.fields[path]
        shape = tuple(size.constant or 0 for size in declared.shape)
        is_open = declared.element.kind is Kind.OPEN
        if isinstance(found, Weight):
            shapes.setdefault(found.tensor, (shape, is_open))
        if isinstance(found, TernaryCode):
            ternary.add(f"{found.tensor}.weight")
            shapes[f"{found.tensor}.weight"] = (shape, False)
        element = F32 if is_open else ELEMENTS[declared.element.name]
        return const(np.zeros(shape, element.dtype), element)

    dims = dict(binding.dims)
    for entry in ("encode",) if chosen.encodes else ("forward", "head"):
        extra, elements = ({"b": 0}, {"e": F32}) if entry == "forward" else ({}, {})
        bind(library, f"{name}.{entry}", "m", dims | extra, elements, source)
    return metadata, shapes, ternary


def weights(rng: np.random.Generator, element: str, shape: Sequence[int]) -> bytes:
    """Return random weights of about unit gain in an element's stored form. shape: [..., columns]."""
    gain = 1 / np.sqrt(shape[-1])
    values = rng.standard_normal(shape) * gain
    if element in _PLAIN:
        return _stored(element, values)
    kind = block_formats.FORMATS[element]
    count = (*shape[:-1], shape[-1] // kind.columns)
    made = block_formats.blocks(rng, element, *count)
    scale = rng.uniform(0.5, 2.0, count) * gain / kind.largest * 2
    block_formats.put_scale(element, made, scale)
    if len(kind.halves) == 2:
        low = kind.largest / 2 if element in ("q4_1", "q5_1") else 1.0
        block_formats.put_scale(element, made, scale * (-low if element in ("q4_1", "q5_1") else low), 1)
    return made.tobytes()


def _ternary(rng: np.random.Generator, element: str, shape: Sequence[int]) -> bytes:
    """Return a ternary matrix with one scale a row, exact in f16."""
    rows, columns = shape
    scale = rng.integers(32, 64, rows) / 1024
    if element in _PLAIN:
        return _stored(element, rng.integers(-1, 2, shape) * scale[:, None])
    made = np.zeros((rows, columns // 256, block_formats.FORMATS[element].size), np.uint8)
    if element == "tq2_0":
        codes = rng.integers(0, 3, (rows, columns // 256, 64, 4), dtype=np.uint8)
        made[..., :64] = codes[..., 0] | codes[..., 1] << 2 | codes[..., 2] << 4 | codes[..., 3] << 6
    else:  # five codes in a byte, as the upper digits of a fraction in base 3
        made[..., :52] = rng.integers(0, 243, made[..., :52].shape) * 256 // 243 + 1
    block_formats.put_scale(element, made, np.repeat(scale[:, None], columns // 256, axis=1))
    return made.tobytes()


def _stored(element: str, values: npt.NDArray[Any]) -> bytes:
    if element == "bf16":
        return (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    return values.astype("<f4" if element == "f32" else "<f2").tobytes()


def _vector(rng: np.random.Generator, tensor: str, shape: Sequence[int]) -> bytes:
    values = rng.standard_normal(shape) * 0.1 if tensor.endswith("bias") else rng.uniform(0.5, 1.5, shape)
    return values.astype("<f4").tobytes()


def opened_names(path: Path) -> set[str]:
    """Return the stored tensor names of a golden folder."""
    names: set[str] = set()
    for file in path.glob("model*.safetensors"):
        mapped = MappedFile(file)
        names |= set(read_safetensors(mapped))
        mapped.close()
    return names
