"""Binding of Mistral folders: Llama with a sliding window in all layers.

GGUF files of Mistral models name the architecture `llama`; folders keep the order of their rows, in which rotary pairs
are half a head apart.
"""

from bittern.models.decoder import LAYER, dimensions, each_layer, whole_model, window_field
from bittern.models.family import Binding, Facts
from bittern.models.huggingface import BEFORE, LINEARS, Config, Neutral, decoder, rope, sizes, width

MODEL_TYPES = ("mistral",)


def bind(facts: Facts) -> Binding:
    """Return dimensions and fields of a checkpoint. Raises M102, M103, M104."""
    dims = dimensions(facts)
    fields = whole_model(facts, dims) | each_layer(dims, LAYER)
    return Binding(dims, fields | {"facts.window": window_field(facts)})


def translate(config: Config) -> Neutral:
    """Return the neutral form of a folder. Raises F180 to F182."""
    metadata = sizes(config)
    metadata["attention.layer_norm_rms_epsilon"] = config.real("rms_norm_eps", 1e-6)
    config.must_be("hidden_act", "silu")
    if config.get("sliding_window") is not None:
        metadata["attention.sliding_window"] = config.whole("sliding_window", high=1 << 31)
    positions, factors = rope(config, width(metadata))
    tensors = decoder(config, metadata["block_count"], LINEARS | BEFORE, is_tied=False) | factors
    return Neutral("mistral", metadata | positions, tensors)
