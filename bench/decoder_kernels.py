"""Time the kernels of a decode step that are no matrix products, at the shapes of real models.

    python bench/decoder_kernels.py [--model smollm2] [--depth 64] [--tier avx512-vnni] [--cache f16] [--rows]

Every line is the least of many calls on one thread, less the cost of a call that does nothing. The sum counts how often
a step calls each kernel. Results are not compared here: tests/conform does that.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.bitops.builder import Builder
from bittern.bitops.kernel import Kernel
from bittern.chips.x86 import features
from bittern.chips.x86.compile import compile_kernel
from bittern.chips.x86.run import prepare
from bittern.kernels import activations, argmax, attention, cache_store, embedding, norms, quantise, rotary


@dataclass(frozen=True)
class Model:
    """Shapes of a decoder."""

    layers: int
    d: int
    ff: int
    g: int
    r: int
    h: int
    vocab: int
    gate: str
    order: str
    head_norms: bool
    window: int
    embed: str


MODELS = {
    "smollm2": Model(30, 576, 1536, 3, 3, 64, 49152, "silu", "pairs", False, 0, "q8_0"),
    "gemma3": Model(18, 640, 2048, 1, 4, 256, 262144, "gelu_tanh", "halves", True, 512, "q8_0"),
}


def parts(m: Model, cache: str, tiles: bool, context: int) -> Iterator[tuple[str, int, Kernel]]:
    """Yield kernels of a step and how often each runs."""
    shape = cache_store.CacheShape(cache, 1, context, m.g, m.h, tiles)
    turn = rotary.Turn(m.order, m.h, context, m.h**-0.5, 1e-6 if m.head_norms else None)
    before = "norm" if m.head_norms else ""
    yield f"embed_{m.embed}", 1, embedding.embed_rows(m.embed, m.vocab, m.d)
    yield "norm+codes", 2 * m.layers + 1, norms.norm_rows(m.d, 1e-5, before=before, codes=True)
    yield "norm", 0, norms.norm_rows(m.d, 1e-5)
    yield "codes d", 0, quantise.quantise_rows(m.d)
    yield "rotary+store", 0, cache_store.rotary_store(shape, turn, m.r)
    for window in {0, m.window}:
        view = attention.View(shape, m.r, window)
        count = m.layers if window == m.window else 0
        yield f"attention w{window}", 0, attention.attention(view)
        yield f"attention_step w{window}", count, attention.attention_step(view, turn, codes=True)
    yield "gate+codes", m.layers, activations.gate_rows(m.gate, m.ff, group=16, codes=True)
    yield "argmax", 1, argmax.argmax_rows(m.vocab)


def arrays(kernel: Kernel, t: int, depth: int) -> "dict[str, npt.NDArray[Any]]":
    """Make buffers with small random numbers, all tokens at one depth."""
    rng, found = np.random.default_rng(1), {}
    for b in kernel.buffers:
        if b.access == "scratch":
            continue
        size, dtype = b.size.value((t,)), np.dtype(b.element.storage)
        if b.name in ("pos", "seq", "token"):
            found[b.name] = np.full(size, depth - 1 if b.name == "pos" else 0, dtype)
        elif dtype.kind == "f":
            found[b.name] = (rng.standard_normal(size) * 0.3).astype(dtype)
        else:
            found[b.name] = rng.integers(0, 60, size).astype(dtype)
    return found


def least(kernel: Kernel, tier: features.Tier, t: int, depth: int) -> tuple[float, float, int, str]:
    """Return microseconds of a call, seconds of compiling, instructions, and what allocation added."""
    start = perf_counter()
    compiled = compile_kernel(kernel, tier)
    seconds = perf_counter() - start
    buffers = arrays(kernel, t, depth)
    call, words, copies = prepare(compiled, (t,), buffers)
    at = words.ctypes.data
    best = 1e9
    for _ in range(300):
        start = perf_counter()
        call(at, 0, 1)
        call(at, 0, 1)
        call(at, 0, 1)
        call(at, 0, 1)
        best = min(best, perf_counter() - start)
    del buffers, copies  # the words point into them until here
    return best / 4 * 1e6, seconds, compiled.instructions, str(compiled.counts)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="smollm2")
    parser.add_argument("--depth", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=1)
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--tier", default="")
    parser.add_argument("--cache", choices=("f16", "f32", "i8"), default="f16")
    parser.add_argument("--rows", action="store_true", help="the cache in the graph's order, not in tiles")
    asked = parser.parse_args()
    tier = features.tier(features.read(), asked.tier)
    empty, *_ = least(Builder("empty", ("t",)).build(), tier, 1, 1)
    total = 0.0
    for name, count, kernel in parts(MODELS[asked.model], asked.cache, not asked.rows, asked.context):
        time, seconds, instructions, counts = least(kernel, tier, asked.tokens, asked.depth)
        total += count * (time - empty)
        print(f"{name:22}{time - empty:9.3f} us x {count:3}   {instructions:5} instructions, {seconds:.2f} s  {counts}")
    print(f"{'step':22}{total:9.1f} us on one thread, {tier.name}; an empty call {empty:.2f} us")


if __name__ == "__main__":
    main()
