"""What the library offers: its functions by family, and which of them a test compares with an oracle on which chip.

Functions come from the modules themselves, families from a table of modules. What is tested comes from the record
`tested.json`, which `scripts/catalogue.py` writes from a run of the library's tests: a function counts for a chip if a
test says that it covers the function, evaluates it in that chip's numerics and passes. A test of the suite compares the
record with the marks of the tests, so a stale record fails.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bittern.lang.library import Library

RECORD = Path(__file__).parent / "tested.json"
OTHER = "other"

# fmt: off
FAMILIES: dict[str, tuple[str, ...]] = {
    "bit":        ("bitwise",),
    "field":      ("fields",),
    "search":     ("search",),
    "reduce":     ("voting",),
    "scan":       ("prefix",),
    "sort":       ("sort",),
    "distance":   ("distances",),
    "interleave": ("interleave", "morton", "hilbert"),
    "arith":      ("rounding", "saturate", "modular", "galois"),
    "fixed":      ("fixed",),
    "elementary": ("elementary",),
    "transform":  ("walsh_hadamard", "ntt", "fft", "dct", "wavelets"),
    "hash":       ("sha256", "blake3", "xxhash64", "siphash", "mixers", "sketch"),
    "checksum":   ("checksums",),
    "random":     ("random", "mersenne_twister", "generators", "chacha20", "sobol"),
    "codec":      ("run_length", "varint", "base64", "hamming_code"),
    "quant":      ("quantise", "quantisers", "thresholds", "requantise", "tflite", "tflite_float", "onnx"),
    "binmath":    ("packed",),
    "product":    ("products", "ternary", "matmul"),
    "layer":      ("norms", "softmax", "activations", "rotary", "attention", "attention_both", "attention_capped",
                   "experts", "transformer", "sample"),
    "discrete":   ("dense", "convolution", "pooling", "norms_of_codes", "piecewise", "recurrent",
                   "attention_of_codes", "residual", "embedding"),
}
# fmt: on


@dataclass(frozen=True, slots=True)
class Entry:
    """One function of the library.

    summary: the first sentence of its documentation. overloads: how many functions share the name. tested: the tests
    that compare it with an oracle, by chip.
    """

    family: str
    module: str
    name: str
    summary: str
    overloads: int
    tested: Mapping[str, tuple[str, ...]]


def record() -> dict[str, dict[str, list[str]]]:
    """Return what was tested: chips and tests by `module.function`."""
    read: dict[str, dict[str, list[str]]] = json.loads(RECORD.read_text("utf-8"))
    return read


def module_names() -> list[str]:
    """Return the names of all modules of the library."""
    folder = RECORD.parent
    files = {path.stem for path in folder.glob("*.btn")}
    return sorted(files | {path.parent.name for path in folder.glob("*/*.btn")})


def entries() -> list[Entry]:
    """Return all functions of the library, by family, module and place. Raises E212 if a module has syntax errors."""
    families = {module: family for family, modules in FAMILIES.items() for module in modules}
    order = [*FAMILIES, OTHER]
    library, tested = Library.standard(), record()
    found = []
    for module in module_names():
        loaded = library.module(module)
        assert loaded is not None, module
        family = families.get(module, OTHER)
        for name, members in loaded.functions.items():
            chips = {chip: tuple(tests) for chip, tests in tested.get(f"{module}.{name}", {}).items()}
            found.append(Entry(family, module, name, _sentence(members[0].doc), len(members), chips))
    library.raise_errors()
    return sorted(found, key=lambda entry: order.index(entry.family))


def _sentence(doc: str) -> str:
    """Return the first sentence of a documentation."""
    text = " ".join(doc.split())
    first, dot, _ = text.partition(". ")
    return first + dot.strip()
