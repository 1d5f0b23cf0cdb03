"""The table of rules, the one that saves most first; a rule is a function of one file in this folder."""

from bittern.kernels.tiles import TILES
from bittern.plan.planner import Rule
from bittern.plan.rules import (
    attention,
    elements_bytes,
    embedding,
    generic,
    networks_bits,
    networks_bytes,
    products,
    rows,
    ternary,
)

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
    ("layer_of_bits",         networks_bits.layer_of_bits),
    ("layer_of_codes",        networks_bits.layer_of_codes),
    ("pool_of_bits",          networks_bits.pool_of_bits),
    ("layer_by_im2col",       networks_bytes.layer_by_im2col),
    ("layer_of_bytes",        networks_bytes.layer_of_bytes),
    ("im2col",                networks_bytes.im2col),
    ("pool_of_bytes",         networks_bytes.pool_of_bytes),
    ("sum_of_bytes",          elements_bytes.sum_of_bytes),
    ("table_of_bytes",        elements_bytes.table_of_bytes),
    ("codes_of_sums",         elements_bytes.codes_of_sums),
    ("bits_of_sums",          networks_bits.bits_of_sums),
    ("layer_of_many_bits",    networks_bits.layer_of_many_bits),
    ("attention_of_many",     attention.attention_of_many),
    ("attention",             attention.attention_alone),
    ("store",                 attention.store_alone),
    ("turn",                  attention.turn_alone),
    ("residual_of_norm",      rows.residual_of_norm),
    ("norm",                  rows.norm),
    ("gate",                  rows.gate),
    ("embedding_and_scale",   embedding.embedding_and_scale),
    ("embedding",             embedding.embedding),
    ("elementwise",           generic.elementwise),
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
        *networks_bits.KNOWN,
        *networks_bytes.KNOWN,
        *elements_bytes.KNOWN,
        *(f"products.matvec_{name}" for name in TILES),
    }
)
