"""What the bindings of most decoders share: their sizes, rotary positions, and fields named alike."""

from collections.abc import Mapping
from math import sqrt

from bittern.models.family import Facts, Field, Numbers, Weight
from bittern.types.elements import F32, F64, U32

FEED_FORWARD = {"ffn_norm": "ffn_norm", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}
LAYER = {"attn_norm": "attn_norm", "q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output"} | FEED_FORWARD


def dimensions(facts: Facts, *, has_rotary: bool = True) -> dict[str, int]:
    """Return the dimensions `layers vocab d g r h ff` and pass over keys that change nothing. Raises M102, M103."""
    layers = facts.whole("block_count", high=4096)
    d = facts.whole("embedding_length")
    heads = facts.whole("attention.head_count", high=65536)
    g = facts.whole("attention.head_count_kv", heads, divides=heads)
    h = facts.whole("attention.key_length", max(d // heads, 1), high=65536, multiple_of=2)
    facts.must_be("attention.value_length", h)
    if has_rotary:
        facts.must_be("rope.dimension_count", h)
    facts.ignore("vocab_size", "context_length", "rope.scaling.original_context_length", "rope.scaling.finetuned")
    vocab = facts.tensors.get("token_embd.weight", (1,))[0]
    sizes = {"layers": layers, "vocab": vocab, "d": d, "g": g, "r": heads // g, "h": h}
    return sizes | {"ff": facts.whole("feed_forward_length")}


def whole_model(facts: Facts, dims: Mapping[str, int], base: float = 10000.0) -> dict[str, Field]:
    """Return the fields outside the layers: numbers, rotary factors, embedding, last norm and output matrix.

    base: of the rotary positions where the file states none.
    """
    return {
        "facts.eps": Numbers(facts.real("attention.layer_norm_rms_epsilon"), F32),
        "facts.scale": Numbers(1 / sqrt(dims["h"]), F32),
        "facts.base": Numbers(facts.real("rope.freq_base", base), F64),
        "facts.stretch": Numbers(stretch(facts), F64),
        "rope": frequency_factors(facts, dims["h"]),
        "embed": Weight("token_embd.weight"),
        "norm": Weight("output_norm.weight"),
        "head": head(facts),
    }


def each_layer(dims: Mapping[str, int], rows: Mapping[str, str], suffix: str = "weight") -> dict[str, Field]:
    """Return the fields of all layers. rows: the name of a field and that of its tensor. suffix: of the tensors."""
    found: dict[str, Field] = {}
    for layer in range(dims["layers"]):
        found |= {f"layer.{layer}.{name}": Weight(f"blk.{layer}.{tensor}.{suffix}") for name, tensor in rows.items()}
    return found


def window(facts: Facts) -> int:
    """Return how many positions a token sees, 0 for all: the sliding window if the file has one."""
    return facts.whole("attention.sliding_window", high=1 << 31) if facts.has("attention.sliding_window") else 0


def window_field(facts: Facts) -> Field:
    """Return the window as a number of the model."""
    return Numbers(window(facts), U32)


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
