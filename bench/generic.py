"""Measure library functions that no kernel was written for: bench/generic.py [--quick]

SHA-256, xxHash64, ChaCha20 and Morton numbers, made machine code by the generic lowering, against the same algorithms
in C (`generic.c`), compiled by `gcc -O2` in the same run. Both work on the same arrays, in turn, and must give equal
bytes. Repetitions in which other processes used the cores are dropped. The C compiler is a peer, not a part of Bittern.
"""

import argparse
import ctypes
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import quiet

from bittern.chips.x86.compile import compile_kernel
from bittern.chips.x86.features import read, tier
from bittern.chips.x86.run import aligned, prepare
from bittern.graph.node import Function
from bittern.kernels.generic.lower import lower
from bittern.lang.elaborate import instance_for
from bittern.lang.library import Library
from bittern.lang.source import Source

Array = npt.NDArray[Any]
Call = Callable[[], object]
FLAGS = ("-O2", "-shared", "-fPIC")
BAR = 2.0  # times what the C takes
WINDOW = 0.003  # s of one repetition: less than a scheduler gives another process
_MORTON = "use morton\nfn all[n](x: u32[n], y: u32[n]) -> u64[n] {\n  [morton(a, b) for a, b in x, y]\n}\n"


@dataclass(frozen=True, slots=True)
class Peer:
    """One algorithm. bytes: that it works on. arguments: of the function. theirs: calls the C. result: its."""

    name: str
    function: Function
    dims: tuple[int, ...]
    bytes: int
    arguments: list[Array]
    theirs: Call
    result: Array


def compiled(folder: Path) -> ctypes.CDLL:
    """Return the C functions. Exits if there is no compiler."""
    compiler = shutil.which("gcc")
    if compiler is None:
        sys.exit("no gcc here: there is nothing to measure against")
    target = folder / "generic.so"
    source = Path(__file__).with_suffix(".c")
    subprocess.run([compiler, *FLAGS, str(source), "-o", str(target)], check=True)
    return ctypes.CDLL(str(target))


def pointer(array: Array) -> ctypes.c_void_p:
    """Return the address of an array."""
    return ctypes.c_void_p(int(array.ctypes.data))


def peers(c: ctypes.CDLL) -> list[Peer]:
    """Return all algorithms with random arguments."""
    rng = np.random.default_rng(1)
    library = Library.standard()
    n = 1 << 16
    message = rng.integers(0, 256, n, dtype=np.uint8)
    key, nonce = rng.integers(0, 256, 32, dtype=np.uint8), rng.integers(0, 256, 12, dtype=np.uint8)
    x, y = (rng.integers(0, 1 << 32, n, dtype=np.uint32) for _ in range(2))
    digest, cipher = np.zeros(32, np.uint8), np.zeros(n, np.uint8)
    codes, hashed = np.zeros(n, np.uint64), np.zeros(1, np.uint64)
    c.xxhash64.restype = ctypes.c_uint64
    size, seed = ctypes.c_uint64(n), ctypes.c_uint64(7)

    def hash64() -> None:
        hashed[0] = c.xxhash64(pointer(message), size, seed)

    module = library.add("measured", [Source("measured.btn", _MORTON)])
    points = instance_for(module, module.functions["all"][0], {})
    library.raise_errors()
    return [
        Peer("SHA-256", library.function("sha256.sha256"), (n,), n, [message],
             lambda: c.sha256(pointer(message), size, pointer(digest)), digest),
        Peer("xxHash64", library.function("xxhash64.xxhash64"), (n,), n, [message, np.array([7], np.uint64)],
             hash64, hashed),
        Peer("ChaCha20", library.function("chacha20.chacha20"), (n,), n,
             [message, key, np.array([1], np.uint32), nonce],
             lambda: c.chacha20(pointer(message), size, pointer(key), ctypes.c_uint32(1), pointer(nonce),
                                pointer(cipher)), cipher),
        Peer("Morton", points, (n,), 8 * n, [x, y],
             lambda: c.morton(pointer(x), pointer(y), size, pointer(codes)), codes),
    ]  # fmt: skip


def ours(peer: Peer) -> tuple[Call, Array, float]:
    """Return how our machine code is called, its result, and the seconds that making it took."""
    before = perf_counter()
    lowered = lower(peer.function, peer.dims)
    made = compile_kernel(lowered.kernel, tier(read()))
    seconds = perf_counter() - before
    held: dict[str, Array] = {}
    for leaf, array in zip(lowered.parameters, peer.arguments, strict=True):
        held[leaf.buffer] = aligned(array, 64)
    for buffer in lowered.kernel.buffers:
        if buffer.access != "scratch" and buffer.name not in held:
            held[buffer.name] = aligned(np.zeros(buffer.size.value(()), buffer.element.storage), 64)
    for name, array in lowered.constants.items():
        held[name] = aligned(array, 64)
    call, words, copies = prepare(made, (), held)
    assert not copies, "all arrays are aligned"

    def run() -> list[Array]:
        call(words.ctypes.data, 0, 1)
        return list(held.values())  # they live as long as what runs on them

    return run, held[lowered.results[0].buffer], seconds


def measured(calls: Sequence[Call], repeats: int, patience: float) -> list[list[float]]:
    """Return seconds of quiet repetitions of each call, taken in turn."""
    found: list[list[float]] = [[] for _ in calls]
    limit = perf_counter() + patience
    rounds = [max(1, round(WINDOW / max(_once(call), 1e-6))) for call in calls]
    while min(map(len, found)) < repeats and perf_counter() < limit:
        for place, call in enumerate(calls):
            before, start = quiet.now(), perf_counter()
            for _ in range(rounds[place]):
                call()
            seconds = (perf_counter() - start) / rounds[place]
            if quiet.is_quiet(before, quiet.now()) is not False:
                found[place].append(seconds)
    return found


def _once(call: Call) -> float:
    call()
    start = perf_counter()
    call()
    return perf_counter() - start


def main() -> int:
    """Measure and print a row each; status 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description="Library functions as machine code against gcc -O2.")
    parser.add_argument("--quick", action="store_true", help="few repetitions")
    parser.add_argument("--loud", action="store_true", help="count repetitions beside other processes too")
    given = parser.parse_args()
    if given.loud:
        quiet.TOLERATED = 1e9
    print(f"{'':10} {'ours':>22} {'gcc -O2':>22} {'ratio':>7} {'made in':>8}")
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        for peer in peers(compiled(Path(folder))):
            call, result, seconds = ours(peer)
            call()
            peer.theirs()
            if result.tobytes() != peer.result.tobytes():
                print(f"{peer.name:10} the results differ")
                missed += 1
                continue
            mine, theirs = measured([call, peer.theirs], 11 if given.quick else 101, 10 if given.quick else 60)
            if min(len(mine), len(theirs)) < 3:
                print(f"{peer.name:10} not measured: the machine was busy")
                continue
            ratio = median(mine) / median(theirs)
            missed += ratio > BAR
            print(f"{peer.name:10} {_shown(peer, mine)} {_shown(peer, theirs)} {ratio:7.2f} {seconds:7.2f}s")
    return int(missed > 0)


def _shown(peer: Peer, times: Sequence[float]) -> str:
    low, _, high = quantiles(times, n=4)
    rates = [peer.bytes / seconds / 1e6 for seconds in (median(times), high, low)]
    return f"{rates[0]:6.0f} ({rates[1]:.0f}..{rates[2]:.0f}) MB/s"


if __name__ == "__main__":
    sys.exit(main())
