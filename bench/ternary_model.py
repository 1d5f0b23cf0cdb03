"""Write a random ternary model of the shapes of BitNet 2B, 10 layers of it, as a GGUF file that llama.cpp runs too.

    python bench/ternary_model.py OUT.gguf [--format tq2_0|tq1_0] [--layers 10] [--seed 1]

2560 wide, 6912 in the feed-forward layers, 20 heads of 128, 5 key heads: 69.5 M ternary weights a layer, about a third
each of -1, 0 and +1, one scale for all of a matrix. Its vocabulary of 512 has no words: it is for timing alone.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from bittern.base.progress import reporter
from bittern.front.checkpoint import Value
from bittern.front.gguf_write import Stored, write_gguf
from bittern.types.elements import ELEMENTS

WIDE, INNER, HEADS, KEYS, HEAD, WORDS = 2560, 6912, 20, 5, 128, 512
FORMATS = ("tq2_0", "tq1_0")
_BLOCK = 256  # values of a block in both formats
_TRITS = 243  # values of five ternary digits


def metadata(layers: int) -> dict[str, Value]:
    """Return the keys of the file."""
    arch = "bitnet"
    return {
        "general.architecture": arch,
        "general.name": "random ternary",
        f"{arch}.vocab_size": WORDS,
        f"{arch}.context_length": 4096,
        f"{arch}.embedding_length": WIDE,
        f"{arch}.block_count": layers,
        f"{arch}.feed_forward_length": INNER,
        f"{arch}.attention.head_count": HEADS,
        f"{arch}.attention.head_count_kv": KEYS,
        f"{arch}.attention.layer_norm_rms_epsilon": float(np.float32(1e-5)),
        f"{arch}.rope.dimension_count": HEAD,
        f"{arch}.rope.freq_base": 500000.0,
        "tokenizer.ggml.model": "no_vocab",
    }


def ternary(rows: int, columns: int, form: str, rng: np.random.Generator) -> bytes:
    """Return the blocks of a random matrix. form: `tq2_0` (four codes a byte) or `tq1_0` (five digits a byte)."""
    blocks = rows * columns // _BLOCK
    scale = np.broadcast_to(np.frombuffer(np.float16(1 / np.sqrt(columns)).tobytes(), np.uint8), (blocks, 2))
    if form == "tq2_0":
        codes = rng.integers(0, 3, (blocks, 4, 64), dtype=np.uint8)
        parts = [codes[:, 0] | codes[:, 1] << 2 | codes[:, 2] << 4 | codes[:, 3] << 6]
    else:
        fives = rng.integers(0, _TRITS, (blocks, 48), dtype=np.uint16)
        fours = rng.integers(0, _TRITS // 3, (blocks, 4), dtype=np.uint16) * 3
        parts = [((each * 256 + _TRITS - 1) // _TRITS).astype(np.uint8) for each in (fives, fours)]  # as fractions
    return np.concatenate([*parts, scale], axis=1).tobytes()


def tensors(layers: int, form: str, seed: int) -> list[Stored]:
    """Return the tensors in the order of writing; each is made when it is written."""
    made: list[Stored] = []

    def matrix(name: str, rows: int, columns: int) -> None:
        rng = np.random.default_rng([seed, len(made)])
        made.append(Stored(name, ELEMENTS[form], (rows, columns), lambda: ternary(rows, columns, form, rng)))

    def gain(name: str, size: int) -> None:
        made.append(Stored(name, ELEMENTS["f32"], (size,), lambda: np.ones(size, "<f4").tobytes()))

    words = np.random.default_rng(seed).normal(0, 1, (WORDS, WIDE)).astype("<f2")
    made.append(Stored("token_embd.weight", ELEMENTS["f16"], words.shape, words.tobytes))
    for layer in range(layers):
        prefix = f"blk.{layer}"
        for name, size in (("attn_norm", WIDE), ("attn_sub_norm", WIDE), ("ffn_norm", WIDE), ("ffn_sub_norm", INNER)):
            gain(f"{prefix}.{name}.weight", size)
        for name, rows, columns in (
            ("attn_q", HEADS * HEAD, WIDE),
            ("attn_k", KEYS * HEAD, WIDE),
            ("attn_v", KEYS * HEAD, WIDE),
            ("attn_output", WIDE, HEADS * HEAD),
            ("ffn_gate", INNER, WIDE),
            ("ffn_up", INNER, WIDE),
            ("ffn_down", WIDE, INNER),
        ):
            matrix(f"{prefix}.{name}.weight", rows, columns)
    gain("output_norm.weight", WIDE)
    return made


def main(given: list[str]) -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(prog="bench/ternary_model.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--format", choices=FORMATS, default=FORMATS[0])
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args(given)
    reporter(sys.stderr, False).note(f"writing {arguments.out}")
    write_gguf(arguments.out, metadata(arguments.layers), tensors(arguments.layers, arguments.format, arguments.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
