"""Binding of Gemma 2 checkpoints: every second layer, from the first on, sees a sliding window; scores are capped.

The converter adds one to the gains of the norms. The 27B model scales queries by its width, not by that of a head.
"""

from math import sqrt

from bittern.models.decoder import LAYER, dimensions, each_layer, whole_model
from bittern.models.family import Binding, Facts, Numbers
from bittern.models.huggingface import (
    LINEARS,
    Config,
    Neutral,
    decoder,
    plus_one,
    rope,
    sizes,
    width,
)
from bittern.types.elements import F32, U32

MODEL_TYPES = ("gemma2",)
_WIDE = 46  # layers of the 27B model
_NORMS = {"attn_post_norm": "post_attention_norm", "ffn_post_norm": "post_ffw_norm"}
_STORED_NORMS = {
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


def bind(facts: Facts) -> Binding:
    """Return dimensions and fields of a checkpoint. Raises M102, M103, M104."""
    dims = dimensions(facts)
    window = facts.whole("attention.sliding_window", 4096, high=1 << 31)
    fields = whole_model(facts, dims) | each_layer(dims, LAYER | _NORMS)
    heads = dims["g"] * dims["r"]
    fields["facts.scale"] = Numbers(1 / sqrt(dims["d"] / heads if dims["layers"] == _WIDE else dims["h"]), F32)
    fields["facts.embed"] = Numbers(sqrt(dims["d"]), F32)
    fields["facts.cap"] = Numbers(facts.real("attn_logit_softcapping", 50.0), F32)
    fields["facts.last_cap"] = Numbers(facts.real("final_logit_softcapping", 30.0), F32)
    for layer in range(dims["layers"]):
        fields[f"layer.{layer}.window"] = Numbers(0 if layer % 2 else window, U32)
    return Binding(dims, fields)


def translate(config: Config) -> Neutral:
    """Return the neutral form of a folder. Raises F180 to F182."""
    metadata = sizes(config)
    metadata["attention.layer_norm_rms_epsilon"] = config.real("rms_norm_eps", 1e-6)
    config.must_be("hidden_activation", "gelu_pytorch_tanh")
    config.must_be("hidden_act", "gelu_pytorch_tanh")
    config.must_be("attention_bias", False)
    config.must_be("use_bidirectional_attention", False)
    layers, heads = metadata["block_count"], metadata["attention.head_count"]
    kinds = ["full_attention" if layer % 2 else "sliding_attention" for layer in range(layers)]
    config.must_be("layer_types", kinds)
    metadata["attention.key_length"] = metadata["attention.value_length"] = config.whole("head_dim", 256)
    wide = metadata["embedding_length"] // heads
    config.must_be("query_pre_attn_scalar", wide if layers == _WIDE else width(metadata))
    metadata["attention.sliding_window"] = config.whole("sliding_window", 4096, high=1 << 31)
    metadata["attn_logit_softcapping"] = config.real("attn_logit_softcapping", 50.0)
    metadata["final_logit_softcapping"] = config.real("final_logit_softcapping", 30.0)
    positions, factors = rope(config, width(metadata))
    tensors = decoder(config, layers, LINEARS, is_tied=True) | factors
    tensors["output_norm.weight"] = plus_one("model.norm.weight")
    for layer in range(layers):
        for name, stored in _STORED_NORMS.items():
            tensors[f"blk.{layer}.{name}.weight"] = plus_one(f"model.layers.{layer}.{stored}.weight")
    return Neutral("gemma2", metadata | positions, tensors)
