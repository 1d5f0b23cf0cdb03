"""Matrix times matrix, from tiles, for every layout; see `matrix_product`."""

from collections.abc import Mapping

from bittern.bitops.kernel import Kernel
from bittern.kernels.binary import BinaryMatrix
from bittern.kernels.blocks import BlocksMatrix
from bittern.kernels.floats import FloatsMatrix
from bittern.kernels.matrix_product import MatrixProduct, Options
from bittern.kernels.rows import RowsMatrix
from bittern.kernels.tiles import Tile
from bittern.kernels.vector_product import Fuse

_FAMILIES: Mapping[str, type[MatrixProduct]] = {
    "blocks": BlocksMatrix,
    "floats": FloatsMatrix,
    "rows": RowsMatrix,
    "binary": BinaryMatrix,
}


def matmul(
    tile: Tile,
    m: int,
    n: int,
    *,
    add_residual: bool = False,
    fuse: Fuse | None = None,
    tokens: int = 0,
    together: int = 4,
    each: int = 0,
) -> Kernel:
    """Return the kernel of m rows of n values times t vectors; t is its symbol. Buffers: as `matvec` has them.

    tokens: of a tile of tokens. together: integer sums that run side by side. each: pairs of tiles of rows of a
    round of the parallel loop. 0 takes what suits.
    """
    assert tile.fits(n), (tile.name, m, n)
    return _FAMILIES[tile.family](tile, m, n, Options(add_residual, fuse, tokens, together, each)).kernel()
