"""Binding of Granite 3 checkpoints: Llama with stated factors for embedding, scores, branches and logits."""

from bittern.models.decoder import LAYER, dimensions, each_layer, whole_model
from bittern.models.family import Binding, Facts, Numbers
from bittern.models.huggingface import BEFORE, LINEARS, Config, Neutral, as_pairs, decoder, rope, sizes, width
from bittern.types.elements import F32

MODEL_TYPES = ("granite",)
_FACTORS = {
    "embed": "embedding_scale",
    "scale": "attention.scale",
    "residual": "residual_scale",
    "logits": "logit_scale",
}
_STORED = {
    "embedding_scale": "embedding_multiplier",
    "attention.scale": "attention_multiplier",
    "residual_scale": "residual_multiplier",
    "logit_scale": "logits_scaling",
}


def bind(facts: Facts) -> Binding:
    """Return dimensions and fields of a checkpoint. Raises M102, M103, M104."""
    dims = dimensions(facts)
    fields = whole_model(facts, dims) | each_layer(dims, LAYER)
    for name, key in _FACTORS.items():
        fields[f"facts.{name}"] = Numbers(facts.real(key), F32)
    return Binding(dims, fields)


def translate(config: Config) -> Neutral:
    """Return the neutral form of a folder. Raises F180 to F182."""
    metadata = sizes(config)
    metadata["attention.layer_norm_rms_epsilon"] = config.real("rms_norm_eps", 1e-6)
    config.must_be("hidden_act", "silu")
    config.must_be("attention_bias", False)
    config.must_be("mlp_bias", False)
    metadata |= {key: config.real(stored, 1.0) for key, stored in _STORED.items()}
    positions, factors = rope(config, width(metadata))
    tensors = decoder(config, metadata["block_count"], LINEARS | BEFORE, is_tied=False) | factors
    as_pairs(tensors, metadata)
    return Neutral("granite", metadata | positions, tensors)
