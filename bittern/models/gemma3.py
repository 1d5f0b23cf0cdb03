"""Binding of Gemma 3 checkpoints: GGUF names and metadata to the fields of `gemma3.btn`.

Five of six layers are local: they see a sliding window and turn by base 10000; the sixth is global. Norm gains already
hold the added one. Scaling of the rotary table applies to global layers only.
"""

from math import sqrt

from bittern.models.family import Binding, Facts, Field, Numbers, Weight
from bittern.models.llama import frequency_factors, head, stretch
from bittern.types.elements import F32, F64, U32

_LOCAL_BASE = 10000.0
_PATTERN = 6  # every sixth layer is global
_WIDE = 62  # layers of the 27B model, whose queries are scaled by the width of a head's share, not of the head
_LAYER = {
    "attn_norm": "attn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
    "attn_post_norm": "post_attention_norm",
    "ffn_norm": "ffn_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
    "ffn_post_norm": "post_ffw_norm",
}


def bind(facts: Facts) -> Binding:
    """Return dimensions and fields of a Gemma 3 checkpoint. Raises M102, M103, M104."""
    layers = facts.whole("block_count", high=4096)
    d = facts.whole("embedding_length")
    heads = facts.whole("attention.head_count", high=65536)
    g = facts.whole("attention.head_count_kv", heads, divides=heads)
    h = facts.whole("attention.key_length", high=65536, multiple_of=2)
    facts.must_be("attention.value_length", h)
    facts.must_be("rope.dimension_count", h)
    facts.ignore("vocab_size", "context_length", "rope.scaling.original_context_length", "rope.scaling.finetuned")
    window, base, scale = facts.whole("attention.sliding_window"), facts.real("rope.freq_base", 1e6), stretch(facts)
    facts.must_be("attention.sliding_window_pattern", _PATTERN)
    facts.must_be("rope.local.freq_base", _LOCAL_BASE)
    dims = {"layers": layers, "vocab": facts.tensors.get("token_embd.weight", (1,))[0], "d": d, "g": g}
    dims |= {"r": heads // g, "h": h, "ff": facts.whole("feed_forward_length")}
    fields: dict[str, Field] = {
        "facts.eps": Numbers(facts.real("attention.layer_norm_rms_epsilon"), F32),
        "facts.scale": Numbers(1 / sqrt(d / heads if layers == _WIDE else h), F32),
        "facts.embed": Numbers(sqrt(d), F32),
        "rope": frequency_factors(facts, h),
        "embed": Weight("token_embd.weight"),
        "norm": Weight("output_norm.weight"),
        "head": head(facts),
    }
    for layer in range(layers):
        is_global = layer % _PATTERN == _PATTERN - 1
        fields[f"layer.{layer}.window"] = Numbers(0 if is_global else window, U32)
        fields[f"layer.{layer}.base"] = Numbers(base if is_global else _LOCAL_BASE, F64)
        fields[f"layer.{layer}.stretch"] = Numbers(scale if is_global else 1.0, F64)
        for name, tensor in _LAYER.items():
            fields[f"layer.{layer}.{name}"] = Weight(f"blk.{layer}.{tensor}.weight")
    return Binding(dims, fields)
