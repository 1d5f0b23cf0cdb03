"""Binding of Llama checkpoints (Llama 1 to 3, SmolLM2): GGUF names and metadata to the fields of `llama.btn`.

Rows of q and k are stored so that rotary pairs are adjacent. Llama 3 stores its rotary scaling as a factor for each
frequency; a plain linear scaling divides all angles.
"""

from math import sqrt

from bittern.models.family import Binding, Facts, Field, Numbers, Weight
from bittern.models.huggingface import BEFORE, LINEARS, Config, Neutral, as_pairs, decoder, rope, sizes, width
from bittern.types.elements import F32, F64

MODEL_TYPES = ("llama",)
_LAYER = {
    "attn_norm": "attn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "ffn_norm": "ffn_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
}


def bind(facts: Facts) -> Binding:
    """Return dimensions and fields of a Llama checkpoint. Raises M102, M103, M104."""
    layers = facts.whole("block_count", high=4096)
    d = facts.whole("embedding_length")
    heads = facts.whole("attention.head_count", high=65536)
    g = facts.whole("attention.head_count_kv", heads, divides=heads)
    h = facts.whole("attention.key_length", max(d // heads, 1), high=65536, multiple_of=2)
    facts.must_be("attention.value_length", h)
    facts.must_be("rope.dimension_count", h)
    facts.must_be("expert_count", 0)
    facts.ignore("vocab_size", "context_length", "expert_used_count")
    facts.ignore("rope.scaling.original_context_length", "rope.scaling.finetuned")
    dims = {"layers": layers, "vocab": facts.tensors.get("token_embd.weight", (1,))[0], "d": d, "g": g}
    dims |= {"r": heads // g, "h": h, "ff": facts.whole("feed_forward_length")}
    fields: dict[str, Field] = {
        "facts.eps": Numbers(facts.real("attention.layer_norm_rms_epsilon"), F32),
        "facts.scale": Numbers(1 / sqrt(h), F32),
        "facts.base": Numbers(facts.real("rope.freq_base", 10000.0), F64),
        "facts.stretch": Numbers(stretch(facts), F64),
        "rope": frequency_factors(facts, h),
        "embed": Weight("token_embd.weight"),
        "norm": Weight("output_norm.weight"),
        "head": head(facts),
    }
    for layer in range(layers):
        for name, tensor in _LAYER.items():
            fields[f"layer.{layer}.{name}"] = Weight(f"blk.{layer}.{tensor}.weight")
    return Binding(dims, fields)


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


def stretch(facts: Facts) -> float:
    """Return by how much positions are divided: linear rotary scaling. Other kinds are refused."""
    kind = facts.text("rope.scaling.type", "none")
    if kind != "linear":
        facts.must_be("rope.scaling.type", "none")
        facts.must_be("rope.scaling.factor", 1.0)
        facts.must_be("rope.scale_linear", 1.0)
        return 1.0
    return facts.real("rope.scaling.factor", facts.real("rope.scale_linear", 1.0))


def frequency_factors(facts: Facts, h: int) -> Field:
    """Return the factor of each rotary frequency: the file's, or ones."""
    return Weight("rope_freqs.weight") if "rope_freqs.weight" in facts.tensors else Numbers([1.0] * (h // 2), F32)


def head(facts: Facts) -> Field:
    """Return the output matrix, or the embedding where the file has none: the two are tied."""
    if "output.weight" in facts.tensors:
        return Weight("output.weight")
    return Weight("token_embd.weight", ("tied to the embedding",))
