"""Binding of Llama checkpoints (Llama 1 to 3, SmolLM2): GGUF names and metadata to the fields of `llama.btn`.

Rows of q and k are stored so that rotary pairs are adjacent. Llama 3 stores its rotary scaling as a factor for each
frequency; a plain linear scaling divides all angles.
"""

from bittern.models.decoder import LAYER, dimensions, each_layer, whole_model
from bittern.models.family import Binding, Facts
from bittern.models.huggingface import BEFORE, LINEARS, Config, Neutral, as_pairs, decoder, rope, sizes, width

MODEL_TYPES = ("llama",)


def bind(facts: Facts) -> Binding:
    """Return dimensions and fields of a Llama checkpoint. Raises M102, M103, M104."""
    dims = dimensions(facts)
    facts.must_be("expert_count", 0)
    facts.ignore("expert_used_count")
    return Binding(dims, whole_model(facts, dims) | each_layer(dims, LAYER))


def translate(config: Config) -> Neutral:
    """Return the neutral form of a folder of model_type `llama`. Raises F180 to F182."""
    metadata = sizes(config)
    metadata["attention.layer_norm_rms_epsilon"] = config.real("rms_norm_eps", 1e-6)
    config.must_be("hidden_act", "silu", "swish")
    config.must_be("attention_bias", False)
    config.must_be("mlp_bias", False)
    positions, factors = rope(config, width(metadata))
    tensors = decoder(config, metadata["block_count"], LINEARS | BEFORE, is_tied=False) | factors
    as_pairs(tensors, metadata)
    inverse = r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq"  # older files hold the frequencies
    return Neutral("llama", metadata | positions, tensors, (inverse,))
