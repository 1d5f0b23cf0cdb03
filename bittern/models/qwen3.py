"""Binding of Qwen3 checkpoints: Llama with queries and keys normalised in each head."""

from bittern.models.decoder import LAYER, dimensions, each_layer, whole_model
from bittern.models.family import Binding, Facts
from bittern.models.huggingface import BEFORE, LINEARS, Config, Neutral, decoder, rope, sizes, width

MODEL_TYPES = ("qwen3",)
_NORMS = {"q_norm": "attn_q_norm", "k_norm": "attn_k_norm"}
_STORED = LINEARS | BEFORE | {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}


def bind(facts: Facts) -> Binding:
    """Return dimensions and fields of a checkpoint. Raises M102, M103, M104."""
    dims = dimensions(facts)
    return Binding(dims, whole_model(facts, dims) | each_layer(dims, LAYER | _NORMS))


def translate(config: Config) -> Neutral:
    """Return the neutral form of a folder. Raises F180 to F182."""
    metadata = sizes(config)
    metadata["attention.layer_norm_rms_epsilon"] = config.real("rms_norm_eps", 1e-6)
    config.must_be("hidden_act", "silu")
    config.must_be("attention_bias", False)
    config.must_be("use_sliding_window", False)
    config.ignore("sliding_window", "max_window_layers")  # of no effect without it
    config.must_be("layer_types", ["full_attention"] * metadata["block_count"])
    positions, factors = rope(config, width(metadata))
    tensors = decoder(config, metadata["block_count"], _STORED, is_tied=False) | factors
    return Neutral("qwen3", metadata | positions, tensors)
