"""The table of rules, the one that saves most first; a rule is a function of one file in this folder."""

from bittern.kernels.tiles import TILES
from bittern.plan.planner import Rule
from bittern.plan.rules import attention, embedding, generic, products, rows, ternary

# fmt: off
RULES: tuple[tuple[str, Rule], ...] = (
    ("attention_of_few",      attention.attention_of_few),
    ("attention_to_codes",    attention.attention_to_codes),
    ("gate_and_quantise",     rows.gate_and_quantise),
    ("norm_and_quantise",     rows.norm_and_quantise),
    ("quantise",              rows.quantise),
    ("product_and_residual",  products.product_and_residual),
    ("product",               products.product),
    ("norm_and_quantise_row", ternary.norm_and_quantise_row),
    ("quantise_row",          ternary.quantise_row),
    ("ternary_and_residual",  ternary.product_and_residual),
    ("ternary_product",       ternary.product),
    ("attention_of_many",     attention.attention_of_many),
    ("attention",             attention.attention_alone),
    ("store",                 attention.store_alone),
    ("turn",                  attention.turn_alone),
    ("residual_of_norm",      rows.residual_of_norm),
    ("norm",                  rows.norm),
    ("gate",                  rows.gate),
    ("embedding_and_scale",   embedding.embedding_and_scale),
    ("embedding",             embedding.embedding),
    ("scale",                 rows.scale),
    ("add",                   rows.add),
    ("reshape",               rows.reshape),
    ("blocks",                rows.blocks),
    ("generic",               generic.generic),
)
# fmt: on

KNOWN = frozenset(
    {
        "norms.rms_norm",
        "quantise.quantise",
        "ternary.quantise_row",
        "ternary.matvec_ternary",
        "rotary.rotary_pairs",
        "rotary.rotary_halves",
        "rotary.rotary_table",
        "activations.silu_gate",
        "activations.gelu_tanh_gate",
        "attention.store",
        "attention.attention",
        "attention_capped.attention_capped",
        *(f"products.matvec_{name}" for name in TILES),
    }
)
