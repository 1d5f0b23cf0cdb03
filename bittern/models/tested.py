"""Which family was run from what: Hugging Face folders, and the element types of matrices in GGUF files.

`bittern families` prints this table. `tests/unit/models/test_families.py` runs every row on the chips `reference` and
`vm` and fails if the table says anything else than what it ran. A family's matrices take several types in one file.
"""

GROUPS: dict[str, tuple[str, ...]] = {
    "folder": ("folder",),
    "floats": ("f32", "f16", "bf16"),
    "classic": ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q1_0", "q2_0"),
    "k": ("q2_k", "q3_k", "q4_k", "q5_k", "q6_k"),
    "iq": ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_nl", "iq4_xs"),
    "ternary": ("tq1_0", "tq2_0"),
    "fp4": ("mxfp4", "nvfp4"),
}
_ALL = tuple(name for group in GROUPS.values() for name in group)

TESTED: dict[str, tuple[str, ...]] = {
    "bert": _ALL,
    "bitnet": _ALL,
    "gemma2": _ALL,
    "gemma3": _ALL,
    "gpt2": _ALL,
    "granite": _ALL,
    "llama": _ALL,
    "mistral": _ALL,
    "olmo2": _ALL,
    "phi3": _ALL,
    "qwen2": _ALL,
    "qwen3": _ALL,
    "qwen3moe": _ALL,
    "smollm3": _ALL,
}


def marks(family: str) -> list[str]:
    """Return for each group how many of its members a family was run from, as `3/3`."""
    rows = set(TESTED[family])
    return [f"{len(rows & set(members))}/{len(members)}" for members in GROUPS.values()]
