"""Measure the matrix kernels: bench/kernels.py [--quick] [--threads N] [WORD ...]

Random weights of each format, packed by the generated repacker; the code is the best tier's. Cold: a matrix larger than
the caches, read once a repetition, beside a plain read of the same memory in the same repetition; what counts is the
share of it. Hot: a matrix that stays in the second cache. Matrix-matrix: 512 tokens. Repetitions in which other
processes used the cores are dropped. WORD: only formats whose name has it.
"""

import argparse
import ctypes
import mmap
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from threading import Barrier, Thread
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import quiet

from bittern.bitops.builder import Builder
from bittern.bitops.kernel import Kernel
from bittern.chips.machine.calls import entry
from bittern.chips.machine.memory import executable
from bittern.chips.x86.compile import compile_kernel
from bittern.chips.x86.encode import Assembler
from bittern.chips.x86.features import read, tier
from bittern.chips.x86.registers import r64, rbp, rbx, rdi, rdx, rsi
from bittern.chips.x86.run import prepare
from bittern.kernels.matmul import matmul
from bittern.kernels.matvec import matvec
from bittern.kernels.repack import repack
from bittern.kernels.tiles import TILES, Tile

Array = npt.NDArray[Any]
COLD = 192 << 20  # bytes of weights: several times the last cache
HOT = 448 << 10  # half of a second cache
WIDE = 2048  # columns, where the format allows
PREFILL = 512  # tokens
REPEATS = 15
LOUD = "--loud" in sys.argv
PATIENCE = 60.0  # s: how long a measurement waits for quiet moments
CHUNK = 1 << 14  # bytes of a round of the probe


@dataclass(frozen=True, slots=True)
class Run:
    """A kernel ready to run. call(count) runs it so many times on each of some threads and returns seconds."""

    name: str
    kernel: Kernel
    instructions: int
    call: Callable[[int], float]


def memory(size: int) -> Array:
    """Return zeroed memory, of huge pages where the system has them. -> [size] u8."""
    pages = mmap.mmap(-1, -(-size // (2 << 20)) * (2 << 20) + (2 << 20))
    if hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(pages, np.uint8)
    start = -int(whole.ctypes.data) % (2 << 20)
    return whole[start : start + size]


def probe(size: int, ahead: int) -> Kernel:
    """Return a kernel that reads w: [size] u8 once and keeps what all bytes have in common."""
    b = Builder("read", ())
    w, y = b.buffer("w", "u8", size, "read"), b.buffer("y", "u64", 8 * (size // CHUNK), "write")
    with b.parallel(0, size // CHUNK) as part:
        with b.loop(0, CHUNK, 1024, *[b.const("u64x8", 0)] * 8) as loop:
            k, *sums = loop
            at = part * CHUNK + k
            for line in range(0, 1024 if ahead else 0, 64):
                w.prefetch(at, offset=ahead + line)
            for i in range(16):
                sums[i % 8] = sums[i % 8] | w.load("u64x8", at, offset=64 * i)
            loop.carry(*sums)
        total = loop.results[0]
        for each in loop.results[1:]:
            total = total | each
        y.store(part * 8, total)
    return b.build()


def _repeater() -> Assembler:
    """Write repeat(kernel, words, thread, threads, count): the same call, count times."""
    a = Assembler()
    for register in (rbx, rbp, r64[12], r64[13], r64[14]):
        a.push(register)
    for to, source in zip((rbx, rbp, r64[12], r64[13], r64[14]), (rdi, rsi, rdx, r64[1], r64[8]), strict=True):
        a.mov(to, source)
    again = a.here("again")
    a.mov(rdi, rbp)
    a.mov(rsi, r64[12])
    a.mov(rdx, r64[13])
    a.call(rbx)
    a.dec(r64[14])
    a.jne(again)
    for register in (r64[14], r64[13], r64[12], rbp, rbx):
        a.pop(register)
    a.ret()
    return a


REPEAT = entry(executable(_repeater().finish()), ("pointer", "pointer", "u64", "u64", "u64"))


def runner(name: str, kernel: Kernel, dims: Sequence[int], arrays: dict[str, Array], threads: int) -> Run:
    """Compile a kernel for the best tier and bind it to arrays."""
    compiled = compile_kernel(kernel, tier(read()))
    call, words, copies = prepare(compiled, dims, arrays)
    function: Any = call
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    held = (call, words, copies, arrays)

    def seconds(count: int) -> float:
        assert held
        if threads == 1:
            start = perf_counter()
            REPEAT(address, words.ctypes.data, 0, 1, count)
            return perf_counter() - start
        gate, spans = Barrier(threads), [(0.0, 0.0)] * threads

        def work(thread: int) -> None:
            gate.wait()
            start = perf_counter()
            REPEAT(address, words.ctypes.data, thread, threads, count)
            spans[thread] = start, perf_counter()

        workers = [Thread(target=work, args=(k,)) for k in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return max(end for _, end in spans) - min(start for start, _ in spans)

    return Run(name, kernel, compiled.instructions, seconds)


def inputs(tile: Tile, m: int, n: int, t: int) -> dict[str, Array]:
    """Make what is multiplied, at random."""
    rng = np.random.default_rng(1)
    if tile.family == "floats":
        return {"x": rng.standard_normal(t * n).astype(np.float32)}
    if tile.family == "binary":
        return {"x": rng.integers(0, 2**64, t * tile.records(n), dtype=np.uint64)}
    q = rng.integers(-127, 128, (t, n)).astype(np.int8)
    wide = q.astype(np.int32)
    if tile.family == "rows":
        scales: Array = rng.random(m).astype(np.float32)
        return {"scale": scales, "q": q.reshape(-1), "d": np.ones(t, np.float32), "s": wide.sum(axis=1, dtype=np.int32)}
    d = rng.random(t * (n // 32)).astype(np.float32)
    made: dict[str, Array] = {"q": q.reshape(-1), "d": d}
    sums = wide.reshape(-1, tile.group).sum(axis=1, dtype=np.int32)
    if tile.needs_sums:
        made[tile.sums] = sums
    if tile.needs_ds:
        made["ds"] = (np.repeat(d, 32 // tile.group) * sums).astype(np.float32)
    return made


def results(tile: Tile, size: int) -> Array:
    """Make room for products."""
    return np.zeros(size, np.int32 if tile.family == "binary" else np.float32)


def weights(tile: Tile, m: int, n: int, threads: int) -> "tuple[Array, float]":
    """Return packed weights, and the GB/s of source bytes at which they were packed."""
    rng = np.random.default_rng(2)
    size = tile.source_bytes(m, n)
    source, w = memory(size), memory(tile.packed_bytes(m, n))
    some = rng.integers(0, 128 if tile.family == "blocks" else 2, min(size, 1 << 20), dtype=np.uint8)
    for start in range(0, size, len(some)):
        source[start : start + len(some)] = some[: size - start]
    w[::4096] = 1
    packer = runner("repack", repack(tile, m, n), (), {"source": source, "w": w}, threads)
    return w, size / packer.call(1) / 1e9


def quietly(runs: Sequence[Run], counts: Sequence[int], repeats: int) -> tuple[list[list[float]], int]:
    """Time the runs in turn until there are so many quiet rounds, or patience ends. -> seconds, dropped."""
    rows: list[list[float]] = []
    dropped = 0
    for run, count in zip(runs, counts, strict=True):
        run.call(count)
    end = perf_counter() + PATIENCE
    while len(rows) < repeats and perf_counter() < end:
        before = quiet.now()
        row = [run.call(count) / count for run, count in zip(runs, counts, strict=True)]
        if not LOUD and quiet.is_quiet(before, quiet.now()) is False:
            dropped += 1
            quiet.wait(1.0)
            continue
        rows.append(row)
    return [list(column) for column in zip(*rows, strict=True)], dropped


def text(values: Sequence[float]) -> str:
    """Write median and spread."""
    return f"{median(values):7.1f} ({min(values):.1f}-{max(values):.1f})" if values else "  disturbed"


def cold(tile: Tile, n: int, threads: int, repeats: int) -> str:
    """Measure from memory, the probe beside it."""
    m = max(32, COLD // (tile.packed_bytes(32, n) or 1) * 32)
    w, packing = weights(tile, m, n, threads)
    size = len(w) // CHUNK * CHUNK
    y, junk = results(tile, 4 * m), np.zeros(8 * (size // CHUNK), np.uint64)
    probes = [
        runner(f"read {ahead}", probe(size, ahead), (), {"w": w[:size], "y": junk}, threads) for ahead in (0, 8192)
    ]
    runs = [
        runner(f"{t}", matvec(tile, m, n, t), (), {"w": w, **inputs(tile, m, n, t), "y": y[: t * m]}, threads)
        for t in (1, 4)
    ]
    times, dropped = quietly([*probes, *runs], [1] * 4, repeats)
    if not times:
        return "disturbed"
    plain = [size / min(a, b) / 1e9 for a, b in zip(times[0], times[1], strict=True)]
    rates = [[len(w) / t / 1e9 for t in column] for column in times[2:]]
    shares = [[100 * a / b for a, b in zip(rate, plain, strict=True)] for rate in rates]
    return (
        f"probe {text(plain)} GB/s  1 token {text(rates[0])} GB/s = {text(shares[0])} %  "
        f"4 tokens = {text(shares[1])} %  packed at {packing:.1f} GB/s  dropped {dropped}"
    )


def hot(tile: Tile, n: int, threads: int, repeats: int) -> str:
    """Measure from the second cache."""
    m = max(64, HOT * threads // tile.packed_bytes(32, n) * 32)
    w, _ = weights(tile, m, n, threads)
    y = results(tile, 4 * m)
    runs = [
        runner(f"{t}", matvec(tile, m, n, t), (), {"w": w, **inputs(tile, m, n, t), "y": y[: t * m]}, threads)
        for t in (1, 4)
    ]
    times, _ = quietly(runs, [400, 200], repeats)
    if not times:
        return "disturbed"
    rates = [[len(w) / t / 1e9 for t in column] for column in times]
    work = [[m * n * t / s / 1e9 for s in column] for t, column in zip((1, 4), times, strict=True)]
    return f"1 token {text(rates[0])} GB/s, {text(work[0])} GMAC/s  4 tokens {text(work[1])} GMAC/s"


def many(tile: Tile, n: int, threads: int, repeats: int) -> str:
    """Measure 512 tokens."""
    m, t = 1536, PREFILL
    w, _ = weights(tile, m, n, threads)
    arrays = {"w": w, **inputs(tile, m, n, t), "y": results(tile, t * m)}
    run = runner("matmul", matmul(tile, m, n), (t,), arrays, threads)
    times, _ = quietly([run], [2], repeats)
    if not times:
        return "disturbed"
    return f"{text([m * n * t / s / 1e9 for s in times[0]])} GMAC/s, {run.instructions} instructions"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--quick", action="store_true", help="three repetitions")
    parser.add_argument("--loud", action="store_true", help="keep repetitions that were disturbed")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", choices=("cold", "hot", "many"))
    given = parser.parse_args()
    repeats = 3 if given.quick else REPEATS
    for name, tile in TILES.items():
        if given.words and not any(word in name for word in given.words):
            continue
        for kind, measure in (("cold", cold), ("hot", hot), ("many", many)):
            if given.only in (None, kind):
                n = 576 if kind == "many" and tile.columns != 256 else 768 if kind == "many" else WIDE
                print(f"{name:8} {kind} n {n:5}: {measure(tile, n, given.threads, repeats)}", flush=True)


if __name__ == "__main__":
    main()
