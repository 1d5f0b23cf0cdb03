"""Binding of BitNet b1.58 checkpoints: ternary matrices with one scale a row, and norms before the last products.

Gates are max(0, x)^2 where the file says so (`hidden_act`), otherwise silu, as the converter's first models had it.
"""

import numpy as np

from bittern.models.decoder import dimensions, each_layer, whole_model
from bittern.models.family import Binding, Facts, Numbers, TernaryCode, TernaryScale
from bittern.models.huggingface import (
    BEFORE,
    LINEARS,
    Array,
    Config,
    Neutral,
    Recipe,
    decoder,
    plain,
    rope,
    sizes,
    width,
)
from bittern.types.elements import BIT, T

MODEL_TYPES = ("bitnet",)
_NORMS = {
    "attn_norm": "attn_norm",
    "attn_sub_norm": "attn_sub_norm",
    "ffn_norm": "ffn_norm",
    "ffn_sub_norm": "ffn_sub_norm",
}
_MATRICES = {
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
}
_STORED = LINEARS | BEFORE | {"attn_sub_norm": "self_attn.attn_sub_norm", "ffn_sub_norm": "mlp.ffn_sub_norm"}
_PACKED = {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"}


def bind(facts: Facts) -> Binding:
    """Return dimensions and fields of a checkpoint. Raises M102, M103, M104."""
    dims = dimensions(facts)
    fields = whole_model(facts, dims) | each_layer(dims, _NORMS)
    gate = facts.text("hidden_act", "silu")
    if gate != "relu2":
        facts.must_be("hidden_act", "silu")
    fields["facts.squared"] = Numbers(gate == "relu2", BIT)
    for layer in range(dims["layers"]):
        for name, tensor in _MATRICES.items():
            fields[f"layer.{layer}.{name}.code"] = TernaryCode(f"blk.{layer}.{tensor}")
            fields[f"layer.{layer}.{name}.scale"] = TernaryScale(f"blk.{layer}.{tensor}")
    return Binding(dims, fields)


def translate(config: Config) -> Neutral:
    """Return the neutral form of a folder with packed weights. Raises F180 to F182."""
    metadata = sizes(config)
    metadata["attention.layer_norm_rms_epsilon"] = config.real("rms_norm_eps", 1e-5)
    config.must_be("hidden_act", "relu2", "silu")
    metadata["hidden_act"] = config.get("hidden_act", "relu2")
    config.must_be("attention_bias", False)
    stated = config.get("quantization_config")
    expected = " and ".join(f"`{key}` {value!r}" for key, value in _PACKED.items())
    if not isinstance(stated, dict):
        config.refuse("quantization_config", stated, f"packed ternary weights, {expected}")
    packing = Config(stated)
    for key, value in _PACKED.items():
        if packing.get(key) != value:
            config.refuse("quantization_config", stated, expected)
    packing.must_be("use_rms_norm", False)
    packing.ignore("modules_to_not_convert", "rms_norm_eps")
    packing.finish()
    positions, factors = rope(config, width(metadata), 500000.0)
    tensors = decoder(config, metadata["block_count"], _STORED, is_tied=False) | factors
    for name, recipe in list(tensors.items()):
        (stored,) = recipe.sources
        if stored.endswith("_proj.weight"):
            tensors[name] = Recipe((stored,), "ternary codes unpacked", _unpacked, _unpacked_shape, element=T)
            tensors[name.removesuffix("weight") + "scale"] = plain(f"{stored}_scale")
    return Neutral("bitnet", metadata | positions, tensors)


def _unpacked(x: Array) -> Array:
    """Return the codes of packed bytes: bits 2 i and 2 i + 1 of row r are row r + i m of the whole, as 0, 1, 2."""
    parts = np.concatenate([x >> shift & 3 for shift in (0, 2, 4, 6)])
    codes: Array = np.minimum(parts, 2).astype(np.int8) - np.int8(1)
    return codes


def _unpacked_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (4 * shape[0], *shape[1:])
