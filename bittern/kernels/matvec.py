"""Matrix times one to four vectors, from tiles, for every layout; see `vector_product`."""

from collections.abc import Mapping

from bittern.bitops.kernel import Kernel
from bittern.kernels.binary import BinaryVector
from bittern.kernels.blocks import BlocksVector
from bittern.kernels.floats import FloatsVector
from bittern.kernels.rows import RowsVector
from bittern.kernels.tiles import Tile
from bittern.kernels.vector_product import AHEAD, Fuse, Options, VectorProduct

_FAMILIES: Mapping[str, type[VectorProduct]] = {
    "blocks": BlocksVector,
    "floats": FloatsVector,
    "rows": RowsVector,
    "binary": BinaryVector,
}


def matvec(
    tile: Tile,
    m: int,
    n: int,
    tokens: int = 1,
    *,
    add_residual: bool = False,
    fuse: Fuse | None = None,
    ahead: int = AHEAD,
    unroll: int = 0,
    best: int = 0,
) -> Kernel:
    """Return the kernel of m rows of n values times `tokens` vectors, 1 to 4.

    Buffers, t = tokens: w: packed weights, u8. Then those of `tile.inputs`. Block formats: q: i8 [t, n], d: f32
    [t, n / 32], s or s16: i32 [t, groups] of exact sums of codes, ds: f32 [t, groups]. Floats: x: f32 [t, n]. Rows:
    scale: f32 [m], q: i8 [t, n], d: f32 [t], s: i32 [t]. Then with add_residual r: f32 [t, m]: y = r + product,
    one rounding more. y: f32 [t, m].
    Signs: x: u64 [t, n / 64], y: i32 [t, m], and no more.
    fuse: two matrices of m rows are packed together, and y = fuse(first, second), element by element; scale has the
    rows of the first, then of the second.
    ahead: bytes of prefetch, 0 for none. unroll: records in a round of the loop, 0 for what suits.
    best: if not 0, y is not made. Pairs of tiles, so many at most, are a round, whose largest result and its row go to
    best: f32 [t, rounds] and index: u32 [t, rounds]; `best.pick` takes the row of the largest of all.
    """
    assert not best or (fuse is None and not add_residual), best
    assert 1 <= tokens <= 4 and tile.fits(n), (tile.name, m, n, tokens)
    return _FAMILIES[tile.family](tile, m, n, Options(tokens, add_residual, ahead, unroll, fuse, best)).kernel()
