"""Binding of Phi-3 and Phi-4-mini checkpoints without long positions: Llama with fused matrices."""

from bittern.models.decoder import dimensions, each_layer, whole_model, window_field
from bittern.models.family import Binding, Facts
from bittern.models.huggingface import BEFORE, Config, Neutral, decoder, rope, sizes, width

MODEL_TYPES = ("phi3",)
_LAYER = {"attn_norm": "attn_norm", "qkv": "attn_qkv", "o": "attn_output"}
_FEED_FORWARD = {"ffn_norm": "ffn_norm", "gate_up": "ffn_up", "down": "ffn_down"}
_STORED = BEFORE | {
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_up": "mlp.gate_up_proj",
    "ffn_down": "mlp.down_proj",
}


def bind(facts: Facts) -> Binding:
    """Return dimensions and fields of a checkpoint. Raises M102, M103, M104."""
    dims = dimensions(facts)
    fields = whole_model(facts, dims) | each_layer(dims, _LAYER | _FEED_FORWARD)
    return Binding(dims, fields | {"facts.window": window_field(facts)})


def translate(config: Config) -> Neutral:
    """Return the neutral form of a folder. Raises F180 to F182."""
    metadata = sizes(config)
    metadata["attention.layer_norm_rms_epsilon"] = config.real("rms_norm_eps", 1e-5)
    config.must_be("hidden_act", "silu")
    config.must_be("attention_bias", False)
    config.must_be("partial_rotary_factor", 1.0)
    config.ignore("embd_pdrop", "resid_pdrop", "original_max_position_embeddings")
    if config.get("sliding_window") is not None:
        metadata["attention.sliding_window"] = config.whole("sliding_window", high=1 << 31)
    positions, factors = rope(config, width(metadata))
    tensors = decoder(config, metadata["block_count"], _STORED, is_tied=False) | factors
    return Neutral("phi3", metadata | positions, tensors)
