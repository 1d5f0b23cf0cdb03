"""Matrix times matrix, from tiles: many tokens a pass, for prefill and batches. Bits are those of `matvec`.

A round of the parallel loop is a tile of tokens times some pairs of tiles. It first copies the activations together
(scratch: block by block, all tokens of the tile side by side, so that one pointer and short displacements reach them),
then runs over its rows: 16 rows x 16 tokens of f32 sums stay in registers while codes are read once for all tokens.
Slots that fill the last tile up repeat the last token; their products are not stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bittern.bitops.builder import Builder, View
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels.tiles import PAIR, ROWS, Tile, pairs
from bittern.kernels.vector_product import Fuse, shared

_SMALL = 8 << 20  # bytes of weights that may come from the last cache once a tile of tokens
_NEAR = 256 << 10  # bytes of weights that a round takes for all tokens, at most
_ENOUGH = 6  # pairs of a round, at least
_SCRATCH = 192 << 10  # bytes that copies of activations may take


@dataclass(frozen=True, slots=True)
class Options:
    """What a product does beside the product, and its shape; 0 takes what suits.

    residual: results are `r + product`. fuse: weights of two matrices, `y = fuse(product of one, of other)`.
    tokens: of a tile of tokens. together: integer sums that run side by side. each: pairs of tiles of a
    round.
    """

    residual: bool = False
    fuse: Fuse | None = None
    tokens: int = 0
    together: int = 4
    each: int = 0


class MatrixProduct:
    """A product under construction: what all families share."""

    usual = 16  # tokens of a tile of tokens

    def __init__(self, tile: Tile, m: int, n: int, options: Options) -> None:
        self.tile, self.m, self.n, self.fuse = tile, m, n, options.fuse
        self.two, self.together = options.fuse is not None, options.together
        self.tokens = options.tokens or self._suitable()
        self.pairs = pairs(m, self.two)
        self.each = options.each or self._together()
        b = self.b = Builder(f"matmul_{tile.name}_{m}_{n}", ("t",))
        (self.t,) = b.dims
        self.w = b.buffer("w", "u8", tile.packed_bytes(m, n, self.two), "read")
        self.declare()
        self.r: View | None = None
        self.residual = options.residual
        self.results()

    @property
    def copied(self) -> int:
        """Bytes of the copies of one token."""
        raise NotImplementedError

    def _suitable(self) -> int:
        tokens = self.usual
        while tokens > 1 and tokens * self.copied > _SCRATCH:
            tokens //= 2
        return tokens

    def _together(self) -> int:
        """Choose how many pairs a round takes: few enough to stay in a near cache, enough to pay for the copies."""
        near = _NEAR // (self.tile.records(self.n) * self.tile.record_bytes)
        return shared(self.pairs, max(_ENOUGH, min(near, self.pairs // 2)))

    def declare(self) -> None:
        """Declare the buffers of what is multiplied, and where it is copied together."""
        raise NotImplementedError

    def results(self) -> None:
        """Declare the buffers of what is added and of what is made."""
        size = self.t * self.m
        if self.residual:
            self.r = self.b.buffer("r", "f32", size, "read")
        self.y = self.b.buffer("y", "f32", size, "write")

    def gather(self, slot: Handle, token: Handle) -> None:
        """Copy the activations of a token to a slot of the tile of tokens."""
        raise NotImplementedError

    def products(self, pair: Handle, half: Handle) -> list[Handle]:
        """Make the products of a tile of rows with all slots, f32x16 each."""
        raise NotImplementedError

    def kernel(self) -> Kernel:
        """Build the kernel. A round is a tile of tokens with some pairs; of a large matrix, all tokens with them."""
        b, parts = self.b, self.pairs // self.each
        if self.tile.packed_bytes(self.m, self.n, self.two) <= _SMALL:
            with b.parallel(0, (self.t + (self.tokens - 1)) // self.tokens * parts) as number:
                start = number // parts * self.tokens
                with b.when(start < self.t):  # always; what follows is proven by it
                    self._tile(start, number % parts * self.each)
        else:
            with b.parallel(0, self.pairs, self.each) as first, b.loop(0, self.t, self.tokens) as tiles:
                (start,) = tiles
                self._tile(start, first)
        return b.build()

    def _tile(self, start: Handle, first: Handle) -> None:
        """Compute a tile of tokens for the pairs of a round, from the first on."""
        b = self.b
        with b.loop(0, self.tokens) as slots:
            (slot,) = slots
            self.gather(slot, (start + slot).min(b.index(self.t) - 1))
        with b.loop(first, first + self.each) as rows:
            (pair,) = rows
            self.pair(start, pair)

    def pair(self, start: Handle, pair: Handle) -> None:
        """Compute and store a pair of tiles of rows for a tile of tokens."""
        b, fuse = self.b, self.fuse
        if fuse is None:
            with b.loop(0, 2) as halves:
                (half,) = halves
                self.store(start, pair * PAIR + half * ROWS, self.products(pair, half))
            return
        both = b.buffer("both", "f32", 2 * self.tokens * ROWS, "scratch")
        with b.loop(0, 2) as halves:
            (half,) = halves
            for slot, product in enumerate(self.products(pair, half)):
                both.store(half * (self.tokens * ROWS), product, offset=4 * slot * ROWS)
        with b.loop(0, self.tokens) as slots:
            (place,) = slots
            first, second = (both.load("f32x16", (place + k * self.tokens) * ROWS) for k in (0, 1))
            with b.when(start + place < self.t):
                self.put(start + place, pair * ROWS, fuse(b, first, second))

    def store(self, start: Handle, row: Handle, found: Sequence[Handle]) -> None:
        """Store results from a row on, a vector for each slot that has a token."""
        for slot, product in enumerate(found):
            with self.b.when(start + slot < self.t):
                self.put(start + slot, row, product)

    def put(self, token: Handle, row: Handle, product: Handle) -> None:
        """Store results of one token from a row on."""
        mask, place = self._there(row, product.type.count), token * self.m + row
        if self.r is not None:
            product = self.r.load("f32x16", place, mask) + product
        self.y.store(place, product, mask)

    def rows(self, pair: Handle, tile: int) -> "tuple[Handle, Handle | None]":
        """Return the first result of a tile of a pair, and the mask of those that there are; None for all."""
        row = pair * ROWS if self.two else pair * PAIR + tile * ROWS
        return row, self._there(row)

    def _there(self, row: Handle, lanes: int = ROWS) -> "Handle | None":
        whole = self.m % (ROWS if self.two else PAIR) == 0
        return None if whole else self.b.first(self.b.index(self.m) - row, lanes)
