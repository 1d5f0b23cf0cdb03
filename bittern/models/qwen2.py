"""Binding of Qwen2 and Qwen2.5 checkpoints: Llama with biases on queries, keys and values."""

from bittern.models.decoder import LAYER, dimensions, each_layer, whole_model
from bittern.models.family import Binding, Facts
from bittern.models.huggingface import BEFORE, LINEARS, Config, Neutral, decoder, plain, rope, sizes, width

MODEL_TYPES = ("qwen2",)
_BIASES = {"q_bias": "attn_q", "k_bias": "attn_k", "v_bias": "attn_v"}
_STORED = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj"}


def bind(facts: Facts) -> Binding:
    """Return dimensions and fields of a checkpoint. Raises M102, M103, M104."""
    dims = dimensions(facts)
    fields = whole_model(facts, dims) | each_layer(dims, LAYER) | each_layer(dims, _BIASES, "bias")
    return Binding(dims, fields)


def translate(config: Config) -> Neutral:
    """Return the neutral form of a folder. Raises F180 to F182."""
    metadata = sizes(config)
    metadata["attention.layer_norm_rms_epsilon"] = config.real("rms_norm_eps", 1e-6)
    config.must_be("hidden_act", "silu")
    config.must_be("use_sliding_window", False)
    config.ignore("sliding_window", "max_window_layers")  # of no effect without it
    config.must_be("layer_types", ["full_attention"] * metadata["block_count"])
    positions, factors = rope(config, width(metadata))
    tensors = decoder(config, metadata["block_count"], LINEARS | BEFORE, is_tied=False) | factors
    for layer in range(metadata["block_count"]):
        for name, stored in _STORED.items():
            tensors[f"blk.{layer}.{name}.bias"] = plain(f"model.layers.{layer}.{stored}.bias")
    return Neutral("qwen2", metadata | positions, tensors)
