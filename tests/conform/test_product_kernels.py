"""The product kernels, run by the bitops interpreter, equal the library definitions bit for bit."""

import numpy as np
import pytest
from product_cases import Case, differing, make, packed, run

from bittern.bitops.builder import Builder
from bittern.bitops.handle import Handle
from bittern.bitops.interpret import interpret
from bittern.bitops.verify import verify
from bittern.kernels.best import pick
from bittern.kernels.matmul import matmul
from bittern.kernels.matvec import matvec
from bittern.kernels.repack import repack, repack_two
from bittern.kernels.tiles import TILES, Tile


@pytest.fixture(params=sorted(name for name, tile in TILES.items() if tile.family != "binary"))
def number_tile(request: pytest.FixtureRequest) -> Tile:
    """Each layout whose products are numbers in f32."""
    return TILES[request.param]


@pytest.fixture(params=sorted(TILES))
def tile(request: pytest.FixtureRequest) -> Tile:
    """Each layout."""
    return TILES[request.param]


def columns(tile: Tile) -> int:
    """Some columns: several records, the last one not whole where that may be."""
    return {
        "blocks": 3 * tile.columns if tile.columns == 32 else tile.columns,
        "floats": 37,
        "rows": 44,
        "binary": 200,
    }[tile.family]


@pytest.mark.parametrize("m", [1, 40])
def test_matvec_equals_the_definition(tile: Tile, m: int) -> None:
    n = columns(tile)
    case = make(tile, m, n, 1, edges=m == 40)
    kernel = matvec(tile, m, n)
    verify(kernel)
    found = run(kernel, {"w": packed(case), **case.buffers}, m)
    assert differing(found, case.product) == 0, (found, case.product)


@pytest.mark.parametrize("tokens", [2, 4])
def test_some_tokens_at_once_equal_one_after_the_other(tile: Tile, tokens: int) -> None:
    m, n = 40, columns(tile)
    case = make(tile, m, n, tokens)
    kernel = matvec(tile, m, n, tokens)
    verify(kernel)
    found = run(kernel, {"w": packed(case), **case.buffers}, tokens * m)
    assert differing(found, case.product) == 0


@pytest.mark.parametrize("t", [19])
def test_matmul_equals_the_definition(tile: Tile, t: int) -> None:
    m, n = 40, columns(tile)
    case = make(tile, m, n, t, edges=t == 19)
    kernel = matmul(tile, m, n)
    verify(kernel)
    found = run(kernel, {"w": packed(case), **case.buffers}, t * m, (t,))
    assert differing(found, case.product) == 0


def test_no_token_is_nothing(tile: Tile) -> None:
    n = columns(tile)
    case = make(tile, 16, n, 1)
    none = {name: array if name == "scale" else array[:0] for name, array in case.buffers.items()}
    assert run(matmul(tile, 16, n), {"w": packed(case), **none}, 0, (0,)).size == 0


def test_the_residual_is_added_last(number_tile: Tile) -> None:
    tile = number_tile
    m, n, t = 24, columns(tile), 3
    case = make(tile, m, n, t)
    r = np.random.default_rng(1).standard_normal(t * m).astype(np.float32)
    buffers = {"w": packed(case), **case.buffers, "r": r}
    expected = r + case.product.reshape(-1)
    for kernel, dims in ((matvec(tile, m, n, t, add_residual=True), ()), (matmul(tile, m, n, add_residual=True), (t,))):
        verify(kernel)
        assert differing(run(kernel, buffers, t * m, dims), expected) == 0


def halves(b: Builder, x: Handle, y: Handle) -> Handle:
    """What is not symmetric: x - y / 2."""
    return x - y * 0.5


@pytest.mark.parametrize("m", [24])
def test_two_matrices_are_fused(number_tile: Tile, m: int) -> None:
    tile = number_tile
    n, t = columns(tile), 2
    first, second = make(tile, m, n, t, seed=1), make(tile, m, n, t, seed=2)
    verify(repack_two(tile, m, n))
    buffers = {"w": packed(first, second), **first.buffers}
    if tile.family == "rows":
        buffers["scale"] = np.concatenate([first.buffers["scale"], second.buffers["scale"]])
    expected = first.product - second.product * np.float32(0.5)
    for kernel, dims in ((matvec(tile, m, n, t, fuse=halves), ()), (matmul(tile, m, n, fuse=halves), (t,))):
        verify(kernel)
        assert differing(run(kernel, buffers, t * m, dims), expected) == 0


@pytest.mark.parametrize(("m", "group", "t"), [(100, 2, 1), (33, 1, 3), (16, 4, 1)])
def test_the_best_row_is_found(number_tile: Tile, m: int, group: int, t: int) -> None:
    tile = number_tile
    n = columns(tile)
    case = make(tile, m, n, t, edges=m == 33)
    kernel = matvec(tile, m, n, t, best=group)
    rounds = kernel.buffer("best").size.value(()) // t
    best, index = np.zeros(t * rounds, np.float32), np.zeros(t * rounds, np.uint32)
    y = np.zeros(t, np.uint32)
    verify(kernel)
    verify(pick(rounds, t))
    interpret(kernel, {"w": packed(case), **case.buffers, "best": best, "index": index})
    interpret(pick(rounds, t), {"best": best, "index": index, "y": y})
    assert (y == [np.argmax(np.where(np.isnan(row), -np.inf, row)) for row in case.product]).all()


def test_of_equal_rows_the_first_is_the_best() -> None:
    best, index = np.full(40, np.nan, np.float32), np.arange(40, dtype=np.uint32)[::-1].copy()
    y = np.zeros(1, np.uint32)
    interpret(pick(40), {"best": best, "index": np.full(40, 2**32 - 1, np.uint32), "y": y})
    assert y[0] == 0  # nothing but NaN
    best[[7, 9, 30]] = -np.inf
    interpret(pick(40), {"best": best, "index": index, "y": y})
    assert y[0] == 9


@pytest.mark.parametrize("m", [16, 33])
def test_every_row_is_packed_once(tile: Tile, m: int) -> None:
    """Rows beyond the last are zero bytes before they are packed; the whole buffer is written."""
    n = columns(tile)
    case = make(tile, m, n, 1)
    verify(repack(tile, m, n))
    w = packed(case)
    filled = -(-m // 32) * 32
    zeros = np.zeros(tile.source_bytes(filled - m, n), np.uint8)
    same = Case(tile, filled, n, np.concatenate([case.stored, zeros]), {}, case.product)
    assert (w == packed(same)).all()


def test_planted_faults_are_found(tile: Tile) -> None:
    m, n = 32, columns(tile)
    case = make(tile, m, n, 1)
    w, kernel = packed(case), matvec(tile, m, n)
    weights = w.copy()
    weights[len(w) // 2] ^= 0x01 if tile.family == "binary" else 0x44  # the number of ones must change
    assert differing(run(kernel, {"w": weights, **case.buffers}, m), case.product) > 0
    name = tile.inputs[-1] if tile.inputs[-1] == "x" else "q"
    activations = {**case.buffers, name: np.roll(case.buffers[name], 1)}
    assert differing(run(kernel, {"w": w, **activations}, m), case.product) > 0
