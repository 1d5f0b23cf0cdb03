"""Binding of GPT-2 checkpoints: learned positions, layer norms with biases, fused queries, keys and values.

Folders hold matrices with their columns as outputs; the neutral form, as everywhere, has outputs as rows.
"""

from math import sqrt

from bittern.models.decoder import each_layer, head
from bittern.models.family import Binding, Facts, Field, Numbers, Weight
from bittern.models.huggingface import Config, Neutral, Recipe, plain, transposed
from bittern.types.elements import F32

MODEL_TYPES = ("gpt2",)
_NORMS = {"attn_norm": "attn_norm", "ffn_norm": "ffn_norm"}
_LINEARS = {"qkv": "attn_qkv", "o": "attn_output", "up": "ffn_up", "down": "ffn_down"}
_STORED_NORMS = {"attn_norm": "ln_1", "ffn_norm": "ln_2"}
_STORED_LINEARS = {
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}


def bind(facts: Facts) -> Binding:
    """Return dimensions and fields of a checkpoint. Raises M102, M103, M104."""
    layers = facts.whole("block_count", high=4096)
    d = facts.whole("embedding_length")
    g = facts.whole("attention.head_count", high=65536, divides=d)
    h = d // g
    facts.must_be("attention.head_count_kv", g)
    facts.ignore("vocab_size", "context_length")
    sizes = {"layers": layers, "vocab": facts.tensors.get("token_embd.weight", (1,))[0], "d": d, "g": g, "h": h}
    sizes |= {"places": facts.tensors.get("position_embd.weight", (1,))[0]}
    dims = sizes | {"ff": facts.whole("feed_forward_length")}
    fields: dict[str, Field] = {
        "facts.eps": Numbers(facts.real("attention.layer_norm_epsilon"), F32),
        "facts.scale": Numbers(1 / sqrt(h), F32),
        "embed": Weight("token_embd.weight"),
        "position": Weight("position_embd.weight"),
        "norm": Weight("output_norm.weight"),
        "norm_bias": Weight("output_norm.bias"),
        "head": head(facts),
    }
    biases = {f"{name}_bias": tensor for name, tensor in (_NORMS | _LINEARS).items()}
    return Binding(dims, fields | each_layer(dims, _NORMS | _LINEARS) | each_layer(dims, biases, "bias"))


def translate(config: Config) -> Neutral:
    """Return the neutral form of a folder. Raises F180 to F182."""
    d, layers = config.whole("n_embd"), config.whole("n_layer", high=4096)
    metadata = {
        "block_count": layers,
        "embedding_length": d,
        "feed_forward_length": config.whole("n_inner", 4 * d),
        "attention.head_count": config.whole("n_head", high=65536),
        "context_length": config.whole("n_positions", 1024),
        "attention.layer_norm_epsilon": config.real("layer_norm_epsilon", 1e-5),
    }
    config.must_be("activation_function", "gelu_new", "gelu_pytorch_tanh")
    config.must_be("scale_attn_weights", True)
    for key in ("scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"):
        config.must_be(key, False)
    config.ignore("vocab_size", "n_ctx", "attn_pdrop", "embd_pdrop", "resid_pdrop")
    config.ignore("summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type")
    config.ignore("summary_use_proj")
    top = "transformer."
    found: dict[str, Recipe] = {
        "token_embd.weight": plain(f"{top}wte.weight"),
        "position_embd.weight": plain(f"{top}wpe.weight"),
        "output_norm.weight": plain(f"{top}ln_f.weight"),
        "output_norm.bias": plain(f"{top}ln_f.bias"),
    }
    if not config.flag("tie_word_embeddings", True):
        found["output.weight"] = plain("lm_head.weight")
    for layer in range(layers):
        for name, stored in (_STORED_NORMS | _STORED_LINEARS).items():
            take = transposed if name in _STORED_LINEARS else plain
            found[f"blk.{layer}.{name}.weight"] = take(f"{top}h.{layer}.{stored}.weight")
            found[f"blk.{layer}.{name}.bias"] = plain(f"{top}h.{layer}.{stored}.bias")
    masks = r"transformer\.h\.\d+\.attn\.(masked_)?bias"  # of attention, in older files
    return Neutral("gpt2", metadata, found, (masks, r"(transformer\.)?lm_head\.weight"), top)
