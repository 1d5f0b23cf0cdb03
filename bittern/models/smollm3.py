"""Binding of SmolLM3 checkpoints: Llama, in every fourth layer without positions."""

from bittern.models.decoder import LAYER, dimensions, each_layer, whole_model
from bittern.models.family import Binding, Facts, Numbers
from bittern.models.huggingface import BEFORE, LINEARS, Config, Neutral, as_pairs, decoder, rope, sizes, width
from bittern.types.elements import BIT

MODEL_TYPES = ("smollm3",)
_WITHOUT = 4  # each of so many layers, the last of them


def bind(facts: Facts) -> Binding:
    """Return dimensions and fields of a checkpoint. Raises M102, M103, M104."""
    dims = dimensions(facts)
    fields = whole_model(facts, dims) | each_layer(dims, LAYER)
    for layer in range(dims["layers"]):
        fields[f"layer.{layer}.turns"] = Numbers((layer + 1) % _WITHOUT != 0, BIT)
    return Binding(dims, fields)


def translate(config: Config) -> Neutral:
    """Return the neutral form of a folder. Raises F180 to F182."""
    metadata = sizes(config)
    metadata["attention.layer_norm_rms_epsilon"] = config.real("rms_norm_eps", 1e-6)
    config.must_be("hidden_act", "silu")
    config.must_be("attention_bias", False)
    config.must_be("mlp_bias", False)
    config.must_be("use_sliding_window", False)
    config.ignore("sliding_window", "max_window_layers")  # of no effect without it
    config.must_be("layer_types", ["full_attention"] * metadata["block_count"])
    turns = [int((layer + 1) % _WITHOUT != 0) for layer in range(metadata["block_count"])]
    config.must_be("no_rope_layers", turns)
    config.must_be("no_rope_layer_interval", _WITHOUT)
    positions, factors = rope(config, width(metadata), 2e6)
    tensors = decoder(config, metadata["block_count"], LINEARS | BEFORE, is_tied=True) | factors
    as_pairs(tensors, metadata)
    return Neutral("smollm3", metadata | positions, tensors)
