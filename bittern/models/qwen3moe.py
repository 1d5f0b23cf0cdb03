"""Binding of Qwen3 mixtures of experts: Qwen3 with a router and experts in every layer."""

from bittern.models.decoder import dimensions, each_layer, whole_model
from bittern.models.family import Binding, Facts
from bittern.models.huggingface import LINEARS, Config, Neutral, decoder, rope, sizes, stacked, width

MODEL_TYPES = ("qwen3_moe",)
_LAYER = {
    "attn_norm": "attn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
    "ffn_norm": "ffn_norm",
    "router": "ffn_gate_inp",
    "gate": "ffn_gate_exps",
    "up": "ffn_up_exps",
    "down": "ffn_down_exps",
}
_STORED = {name: stored for name, stored in LINEARS.items() if name.startswith("attn")} | {
    "attn_norm": "input_layernorm",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate_inp": "mlp.gate",
}


def bind(facts: Facts) -> Binding:
    """Return dimensions and fields of a checkpoint. Raises M102, M103, M104."""
    sizes = dimensions(facts)
    dims = sizes | {"ff": facts.whole("expert_feed_forward_length"), "experts": facts.whole("expert_count", high=65536)}
    dims["used"] = facts.whole("expert_used_count", high=dims["experts"])
    facts.must_be("expert_weights_norm", True)
    facts.must_be("expert_weights_scale", 1.0)
    facts.must_be("expert_gating_func", 1)  # softmax
    return Binding(dims, whole_model(facts, dims) | each_layer(dims, _LAYER))


def translate(config: Config) -> Neutral:
    """Return the neutral form of a folder. Raises F180 to F182."""
    metadata = sizes(config)
    metadata["attention.layer_norm_rms_epsilon"] = config.real("rms_norm_eps", 1e-6)
    config.must_be("hidden_act", "silu")
    config.must_be("attention_bias", False)
    config.must_be("use_sliding_window", False)
    config.ignore("sliding_window", "max_window_layers")  # of no effect without it
    config.must_be("norm_topk_prob", True)
    config.must_be("decoder_sparse_step", 1)
    config.must_be("mlp_only_layers", [])
    config.ignore("output_router_logits", "router_aux_loss_coef")
    experts = config.whole("num_experts", config.whole("num_local_experts", 128), high=65536)
    metadata["expert_count"] = experts
    metadata["expert_used_count"] = config.whole("num_experts_per_tok", 8, high=experts)
    metadata["expert_feed_forward_length"] = config.whole("moe_intermediate_size", 768)
    positions, factors = rope(config, width(metadata))
    tensors = decoder(config, metadata["block_count"], _STORED, is_tied=False) | factors
    for layer in range(metadata["block_count"]):
        for name in ("gate", "up", "down"):
            rows = tuple(f"model.layers.{layer}.mlp.experts.{i}.{name}_proj.weight" for i in range(experts))
            tensors[f"blk.{layer}.ffn_{name}_exps.weight"] = stacked(rows)
    return Neutral("qwen3moe", metadata | positions, tensors)
