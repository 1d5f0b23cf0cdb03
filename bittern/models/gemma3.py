"""Binding of Gemma 3 checkpoints: GGUF names and metadata to the fields of `gemma3.btn`.

Five of six layers are local: they see a sliding window and turn by base 10000; the sixth is global. Norm gains already
hold the added one. Scaling of the rotary table applies to global layers only.
"""

from math import sqrt
from typing import Any

from bittern.models.decoder import LAYER, dimensions, each_layer, whole_model
from bittern.models.family import Binding, Facts, Numbers
from bittern.models.huggingface import LINEARS, Config, Neutral, decoder, plus_one, rope_of, sizes, width
from bittern.types.elements import F32, F64, U32

MODEL_TYPES = ("gemma3_text",)
_LOCAL_BASE = 10000.0
_PATTERN = 6  # every sixth layer is global
_WIDE = 62  # layers of the 27B model, whose queries are scaled by the width of a head's share, not of the head
_NORMS = {
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
    "attn_post_norm": "post_attention_norm",
    "ffn_post_norm": "post_ffw_norm",
}
_STORED_NORMS = {
    "attn_norm": "input_layernorm",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


def bind(facts: Facts) -> Binding:
    """Return dimensions and fields of a Gemma 3 checkpoint. Raises M102, M103, M104."""
    dims = dimensions(facts)
    window = facts.whole("attention.sliding_window")
    facts.must_be("attention.sliding_window_pattern", _PATTERN)
    facts.must_be("rope.local.freq_base", _LOCAL_BASE)
    fields = whole_model(facts, dims, base=1e6) | each_layer(dims, LAYER | _NORMS)
    layers, heads = dims["layers"], dims["g"] * dims["r"]
    fields["facts.scale"] = Numbers(1 / sqrt(dims["d"] / heads if layers == _WIDE else dims["h"]), F32)
    fields["facts.embed"] = Numbers(sqrt(dims["d"]), F32)
    base, scale = fields.pop("facts.base"), fields.pop("facts.stretch")  # each layer has its own
    for layer in range(layers):
        is_global = layer % _PATTERN == _PATTERN - 1
        fields[f"layer.{layer}.window"] = Numbers(0 if is_global else window, U32)
        fields[f"layer.{layer}.base"] = base if is_global else Numbers(_LOCAL_BASE, F64)
        fields[f"layer.{layer}.stretch"] = scale if is_global else Numbers(1.0, F64)
    return Binding(dims, fields)


def translate(config: Config) -> Neutral:
    """Return the neutral form of a folder of model_type `gemma3_text`. Raises F180 to F182."""
    metadata = sizes(config)
    metadata["attention.layer_norm_rms_epsilon"] = config.real("rms_norm_eps", 1e-6)
    config.must_be("hidden_activation", "gelu_pytorch_tanh")
    config.must_be("hidden_act", "gelu_pytorch_tanh")
    for key in ("attention_bias", "use_bidirectional_attention"):
        config.must_be(key, False)
    for key in ("attn_logit_softcapping", "final_logit_softcapping"):
        config.must_be(key, None)
    layers, heads = metadata["block_count"], metadata["attention.head_count"]
    kinds = [("full" if layer % _PATTERN == _PATTERN - 1 else "sliding") + "_attention" for layer in range(layers)]
    config.must_be("layer_types", kinds)
    config.must_be("sliding_window_pattern", _PATTERN)
    config.must_be("_sliding_window_pattern", _PATTERN)
    metadata["attention.key_length"] = metadata["attention.value_length"] = config.whole("head_dim", 256)
    wide = metadata["embedding_length"] // heads
    config.must_be("query_pre_attn_scalar", wide if layers == _WIDE else width(metadata))
    metadata["attention.sliding_window"] = config.whole("sliding_window", 4096, high=1 << 31)
    metadata |= _positions(config, width(metadata))
    tensors = decoder(config, layers, LINEARS, is_tied=True)
    tensors["output_norm.weight"] = plus_one("model.norm.weight")
    for layer in range(layers):
        for name, stored in _STORED_NORMS.items():
            tensors[f"blk.{layer}.{name}.weight"] = plus_one(f"model.layers.{layer}.{stored}.weight")
    return Neutral("gemma3", metadata, tensors)


def _positions(config: Config, h: int) -> dict[str, Any]:
    """Return the metadata of rotary positions: of global layers; local ones turn by a base of their own, unscaled."""
    stated = config.table("rope_parameters")
    config.must_be("rope_local_base_freq", _LOCAL_BASE)
    base = config.real("rope_theta", 1e6)
    if "full_attention" not in stated:  # as older folders say it
        return rope_of(config, Config(stated or config.table("rope_scaling")), h, base)[0]
    config.ignore("rope_scaling")
    local, _ = rope_of(config, Config(Config(stated).table("sliding_attention")), h, _LOCAL_BASE)
    plain, _ = rope_of(config, Config({}), h, _LOCAL_BASE)
    if local != plain:
        config.refuse("rope_parameters", stated, f"plain positions of base {_LOCAL_BASE} in sliding layers")
    return rope_of(config, Config(Config(stated).table("full_attention")), h, base)[0]
