"""Binding of OLMo 2 checkpoints: norms stand behind the branches, and over all queries and keys of a token."""

from bittern.models.decoder import LAYER, dimensions, each_layer, whole_model
from bittern.models.family import Binding, Facts
from bittern.models.huggingface import LINEARS, Config, Neutral, decoder, rope, sizes, width

MODEL_TYPES = ("olmo2",)
_NORMS = {
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
    "attn_post_norm": "post_attention_norm",
    "ffn_post_norm": "post_ffw_norm",
}
_LAYER = {name: tensor for name, tensor in LAYER.items() if name not in ("attn_norm", "ffn_norm")} | _NORMS
_STORED = LINEARS | {
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


def bind(facts: Facts) -> Binding:
    """Return dimensions and fields of a checkpoint. Raises M102, M103, M104."""
    dims = dimensions(facts)
    return Binding(dims, whole_model(facts, dims) | each_layer(dims, _LAYER))


def translate(config: Config) -> Neutral:
    """Return the neutral form of a folder. Raises F180 to F182."""
    metadata = sizes(config)
    metadata["attention.layer_norm_rms_epsilon"] = config.real("rms_norm_eps", 1e-5)
    config.must_be("hidden_act", "silu")
    config.must_be("attention_bias", False)
    positions, factors = rope(config, width(metadata))
    tensors = decoder(config, metadata["block_count"], _STORED, is_tied=False) | factors
    return Neutral("olmo2", metadata | positions, tensors)
