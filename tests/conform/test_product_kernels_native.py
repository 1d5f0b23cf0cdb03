"""The product kernels as machine code of each tier equal the library definitions bit for bit, on any threads."""

from collections.abc import Mapping

import numpy as np
import pytest
from product_cases import Array, Case, differing, make

from bittern.bitops.kernel import Kernel
from bittern.chips.x86.compile import Compiled, compile_kernel
from bittern.chips.x86.features import TIERS, Tier, is_here, read, tier
from bittern.chips.x86.run import run_kernel
from bittern.kernels.best import pick
from bittern.kernels.matmul import matmul
from bittern.kernels.matvec import matvec
from bittern.kernels.repack import repack
from bittern.kernels.tiles import TILES, Tile

pytestmark = pytest.mark.skipif(not is_here(), reason="this processor or system does not run x86-64 code")
SLOWER = [(t.name, name) for t in TIERS for name in ("q4_1", "q8_0", "f16", "ternary")]


def best_tier() -> Tier:
    """The fastest tier of this processor."""
    return tier(read())


def columns(tile: Tile) -> int:
    """Some columns."""
    return {"blocks": 512, "floats": 75, "rows": 204, "binary": 300}[tile.family]


def packed(case: Case, of: Tier) -> Array:
    """Repack a matrix by machine code."""
    w = np.full(case.tile.packed_bytes(case.m, case.n), 0xEE, np.uint8)
    run_kernel(compile_kernel(repack(case.tile, case.m, case.n), of), (), {"source": case.stored, "w": w})
    return w


def run(
    compiled: Compiled, arrays: Mapping[str, Array], size: int, dims: tuple[int, ...] = (), threads: int = 1
) -> Array:
    """Run all threads' shares of a product, one after the other. -> y: [size] f32."""
    y = np.full(size, 7e7, compiled.kernel.buffer("y").element.storage)
    for thread in range(threads):
        run_kernel(compiled, dims, {**arrays, "y": y}, None, thread, threads)
    return y


def check(case: Case, w: Array, kernel: Kernel, of: Tier, dims: tuple[int, ...] = ()) -> None:
    """Compare a kernel's results on one to three threads with the definition's."""
    compiled = compile_kernel(kernel, of)
    for threads in (1, 2, 3):
        found = run(compiled, {"w": w, **case.buffers}, case.product.size, dims, threads)
        assert differing(found, case.product) == 0, (kernel.name, threads)


@pytest.mark.parametrize("name", sorted(TILES))
def test_the_fastest_tier_equals_the_definition(name: str) -> None:
    tile, of = TILES[name], best_tier()
    m, n = 80, columns(tile)
    case, four = make(tile, m, n, 1), make(tile, m, n, 4)
    w = packed(case, of)
    assert (w == packed(four, of)).all()
    check(case, w, matvec(tile, m, n), of)
    check(four, w, matvec(tile, m, n, 4), of)
    kernel = matmul(tile, m, n)
    check(case, w, kernel, of, (1,))
    check(four, w, kernel, of, (4,))
    many = make(tile, m, n, 21)
    check(many, w, kernel, of, (21,))


@pytest.mark.parametrize(("tier_name", "name"), SLOWER)
def test_each_tier_equals_the_definition(tier_name: str, name: str) -> None:
    wanted, tile = next(t for t in TIERS if t.name == tier_name), TILES[name]
    if not wanted.features <= read():
        pytest.skip(f"this processor lacks {sorted(wanted.features - read())}")
    m, n = 48, min(columns(tile), 96)
    case, some = make(tile, m, n, 1), make(tile, m, n, 3)
    w = packed(case, wanted)
    check(case, w, matvec(tile, m, n), wanted)
    check(some, w, matmul(tile, m, n, tokens=4), wanted, (3,))


def test_the_best_row_is_found_on_any_threads() -> None:
    tile, of, m, n = TILES["q8_0"], best_tier(), 32 * 12, 64
    case = make(tile, m, n, 2)
    kernel = matvec(tile, m, n, 2, best=3)
    rounds = kernel.buffer("best").size.value(()) // 2
    compiled, last, w = compile_kernel(kernel, of), compile_kernel(pick(rounds, 2), of), packed(case, of)
    for threads in (1, 2, 3):
        best, index = np.zeros(2 * rounds, np.float32), np.zeros(2 * rounds, np.uint32)
        y = np.zeros(2, np.uint32)
        for thread in range(threads):
            run_kernel(compiled, (), {"w": w, **case.buffers, "best": best, "index": index}, None, thread, threads)
        for thread in range(threads):
            run_kernel(last, (), {"best": best, "index": index, "y": y}, None, thread, threads)
        assert (y == case.product.argmax(axis=1)).all()


def test_a_planted_fault_is_found() -> None:
    tile, of, m, n = TILES["q4_0"], best_tier(), 32, 64
    case = make(tile, m, n, 1)
    w = packed(case, of)
    w[70] ^= 1
    found = run(compile_kernel(matvec(tile, m, n), of), {"w": w, **case.buffers}, m)
    assert differing(found, case.product) == 1
