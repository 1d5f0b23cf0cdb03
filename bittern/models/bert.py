"""Binding of BERT encoders: every token sees all, learned positions, norms behind the branches.

A single text is the first kind of part. The pooler is bound where the checkpoint has it; GGUF files leave it out.
"""

from math import sqrt

from bittern.models.decoder import each_layer
from bittern.models.family import Binding, Facts, Field, Numbers, Weight
from bittern.models.huggingface import Config, Neutral, Recipe, plain
from bittern.types.elements import F32

MODEL_TYPES = ("bert",)
ENCODES = True  # its functions are `encode` and `pool`, not `forward` and `head`
_LINEARS = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "up": "ffn_up", "down": "ffn_down"}
_NORMS = {"attn_norm": "attn_output_norm", "ffn_norm": "layer_output_norm"}
_STORED = {
    "attn_q": "attention.self.query",
    "attn_k": "attention.self.key",
    "attn_v": "attention.self.value",
    "attn_output": "attention.output.dense",
    "attn_output_norm": "attention.output.LayerNorm",
    "ffn_up": "intermediate.dense",
    "ffn_down": "output.dense",
    "layer_output_norm": "output.LayerNorm",
}


def bind(facts: Facts) -> Binding:
    """Return dimensions and fields of a checkpoint. Raises M102, M103, M104."""
    d = facts.whole("embedding_length")
    g = facts.whole("attention.head_count", high=65536, divides=d)
    facts.must_be("attention.head_count_kv", g)
    facts.must_be("attention.causal", False)
    facts.ignore("vocab_size", "context_length", "pooling_type", "token_type_count")
    dims = {"layers": facts.whole("block_count", high=4096), "d": d, "g": g, "h": d // g}
    for name, tensor in {"vocab": "token_embd", "places": "position_embd", "kinds": "token_types"}.items():
        dims[name] = facts.tensors.get(f"{tensor}.weight", (1,))[0]
    dims["ff"] = facts.whole("feed_forward_length")
    fields: dict[str, Field] = {
        "facts.eps": Numbers(facts.real("attention.layer_norm_epsilon"), F32),
        "facts.scale": Numbers(1 / sqrt(d // g), F32),
        "embed": Weight("token_embd.weight"),
        "position": Weight("position_embd.weight"),
        "kind": Weight("token_types.weight"),
        "norm": Weight("token_embd_norm.weight"),
        "norm_bias": Weight("token_embd_norm.bias"),
    }
    if "pooler.weight" in facts.tensors:
        fields |= {"pooler.w": Weight("pooler.weight"), "pooler.bias": Weight("pooler.bias")}
    biases = {f"{name}_bias": tensor for name, tensor in (_LINEARS | _NORMS).items()}
    return Binding(dims, fields | each_layer(dims, _LINEARS | _NORMS) | each_layer(dims, biases, "bias"))


def translate(config: Config) -> Neutral:
    """Return the neutral form of a folder, with the pooler. Raises F180 to F182."""
    layers = config.whole("num_hidden_layers", 12, high=4096)
    metadata = {
        "block_count": layers,
        "embedding_length": config.whole("hidden_size", 768),
        "feed_forward_length": config.whole("intermediate_size", 3072),
        "attention.head_count": config.whole("num_attention_heads", 12, high=65536),
        "context_length": config.whole("max_position_embeddings", 512),
        "attention.layer_norm_epsilon": config.real("layer_norm_eps", 1e-12),
        "attention.causal": False,
    }
    config.must_be("hidden_act", "gelu")
    config.must_be("position_embedding_type", "absolute")
    for key in ("is_decoder", "add_cross_attention"):
        config.must_be(key, False)
    config.ignore("vocab_size", "type_vocab_size", "hidden_dropout_prob", "attention_probs_dropout_prob")
    config.ignore("classifier_dropout", "tie_word_embeddings")
    top = "bert."
    found: dict[str, Recipe] = {
        "token_embd.weight": plain(f"{top}embeddings.word_embeddings.weight"),
        "position_embd.weight": plain(f"{top}embeddings.position_embeddings.weight"),
        "token_types.weight": plain(f"{top}embeddings.token_type_embeddings.weight"),
    }
    for part in ("weight", "bias"):
        found[f"token_embd_norm.{part}"] = plain(f"{top}embeddings.LayerNorm.{part}")
        found[f"pooler.{part}"] = plain(f"{top}pooler.dense.{part}")
        for layer in range(layers):
            for name, stored in _STORED.items():
                found[f"blk.{layer}.{name}.{part}"] = plain(f"{top}encoder.layer.{layer}.{stored}.{part}")
    return Neutral("bert", metadata, found, (r"bert\.embeddings\.position_ids", r"bert\.cls\..*"), top)
