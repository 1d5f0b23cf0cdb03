"""Matrix times one to four vectors, from tiles: one pass over the weights, two tiles of 16 rows at a time.

Bits are those of `products.matvec_<format>` for each token: a lane is an output row, which folds over its groups in
ascending order; a group's dot is exact (NUMERICS, 3). Theory of the speed: weights stream from memory once, in one
contiguous piece a thread, so everything else must hide behind the loads: masks rather than shifts (`codes`), scales
folded once a group, prefetch some kilobytes ahead.
"""

from collections.abc import Callable
from dataclasses import dataclass

from bittern.bitops.builder import Builder, Loop, View
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels import best
from bittern.kernels.tiles import PAIR, ROWS, Tile, pairs

AHEAD = 8192  # bytes that a prefetch runs before the loads

Fuse = Callable[[Builder, Handle, Handle], Handle]  # rows of the first and of the second matrix, f32x16 -> f32x16


@dataclass(frozen=True, slots=True)
class Options:
    """What a product does beside the product.

    tokens: 1 to 4. residual: results are `r + product`. ahead: bytes of prefetch, 0 for none. unroll: records in a
    round of the loop, 0 for what suits. fuse: weights of two matrices, `y = fuse(product of one, of other)`. best: if
    not 0, only the best of each so many pairs is kept, for `best.pick`.
    """

    tokens: int = 1
    residual: bool = False
    ahead: int = AHEAD
    unroll: int = 0
    fuse: Fuse | None = None
    best: int = 0


class VectorProduct:
    """A product under construction: what all families share. A family says what a record adds to a pair's sums."""

    def __init__(self, tile: Tile, m: int, n: int, options: Options) -> None:
        self.tile, self.m, self.n, self.options = tile, m, n, options
        self.two = options.fuse is not None
        b = self.b = Builder(f"matvec_{tile.name}_{m}_{n}_{options.tokens}")
        self.w = b.buffer("w", "u8", tile.packed_bytes(m, n, self.two), "read")
        self.declare()
        self.results()

    def declare(self) -> None:
        """Declare the buffers of what is multiplied."""
        raise NotImplementedError

    def results(self) -> None:
        """Declare the buffers of what is added and of what is made."""
        if self.options.best:
            size = self.options.tokens * self.rounds
            self.best, self.index = (
                self.b.buffer("best", "f32", size, "write"),
                self.b.buffer("index", "u32", size, "write"),
            )
            return
        size = self.options.tokens * self.m
        self.r: View | None = self.b.buffer("r", "f32", size, "read") if self.options.residual else None
        self.y = self.b.buffer("y", "f32", size, "write")

    def start(self) -> list[Handle]:
        """Make what a pair's sums start from, for each tile, then each token."""
        return [self.b.const("f32x16", 0.0)] * (2 * self.options.tokens)

    def record(self, at: Handle, k: Handle, number: int, sums: list[Handle]) -> list[Handle]:
        """Add a record to the sums. at: place of round k's first record; number: which record of the round."""
        raise NotImplementedError

    def finish(self, pair: Handle, sums: list[Handle]) -> list[Handle]:
        """Make the products from a pair's sums, for each tile, then each token."""
        return sums

    def kernel(self) -> Kernel:
        """Build the kernel."""
        if self.options.best:
            return self._searching()
        with self.b.parallel(0, pairs(self.m, self.two)) as pair:
            self.store(pair, self.products(pair))
        return self.b.build()

    @property
    def rounds(self) -> int:
        """How many bests of a token a search keeps."""
        return pairs(self.m) // shared(pairs(self.m), self.options.best)

    def _searching(self) -> Kernel:
        """Build the kernel that keeps the best of some pairs a round."""
        b, count, tokens = self.b, pairs(self.m) // self.rounds, self.options.tokens
        with b.parallel(0, self.rounds) as part:
            start = best.nothing(b)
            with b.loop(part * count, (part + 1) * count, 1, *[start.value, start.index] * tokens) as loop:
                pair, *carried = loop
                found = [best.Found(*carried[2 * token : 2 * token + 2]) for token in range(tokens)]
                for k, product in enumerate(self.products(pair)):
                    tile, token = divmod(k, tokens)
                    row, mask = self.rows(pair, tile)
                    found[token] = found[token].against(best.candidates(row, product), mask)
                loop.carry(*(part for each in found for part in (each.value, each.index)))
            results = [best.Found(*loop.results[2 * token : 2 * token + 2]) for token in range(tokens)]
            best.store(self.best, self.index, part, 4 * self.rounds, results)
        return b.build()

    def products(self, pair: Handle) -> list[Handle]:
        """Compute the products of a pair, for each tile, then each token."""
        b, records = self.b, self.records()
        unroll = self.options.unroll or self.unroll(records)
        base, sums = pair * (self.tile.records(self.n) * self.tile.record_bytes), self.start()
        whole = records // unroll * unroll
        if whole:
            with b.loop(0, whole, unroll, *sums) as loop:
                k, sums = _taken(loop)
                loop.carry(*self._records(base, k, unroll, sums))
            sums = list(loop.results)
        if whole < records:
            sums = self._records(base, b.index(whole), records - whole, sums)
        return self.finish(pair, self.tail(base, sums))

    def records(self) -> int:
        """Return how many whole records a pair has."""
        return self.tile.records(self.n)

    def tail(self, base: Handle, sums: list[Handle]) -> list[Handle]:
        """Add the last record, if it is not whole, to the sums."""
        return sums

    def unroll(self, records: int) -> int:
        """Choose how many records a round takes: about 1 KiB of weights, a divisor of all if there is one."""
        most = max(1, 1536 // self.tile.record_bytes)
        return next((u for u in range(most, most // 2, -1) if records % u == 0), most)

    def _records(self, base: Handle, k: Handle, count: int, sums: list[Handle]) -> list[Handle]:
        at = base + k * self.tile.record_bytes
        for number in range(count):
            sums = self.record(at, k, number, sums)
        return sums

    def fetch(self, at: Handle, first: int, size: int) -> None:
        """Bring weights near that follow these later: so many bytes, a multiple of 64."""
        if self.options.ahead:
            for line in range(first, first + size, 64):
                self.w.prefetch(at, offset=self.options.ahead + line)

    def store(self, pair: Handle, products: list[Handle]) -> None:
        """Store the products of a pair, fused and with the residual where asked for."""
        tokens, fuse = self.options.tokens, self.options.fuse
        if fuse is not None:
            products = [fuse(self.b, x, y) for x, y in zip(products[:tokens], products[tokens:], strict=True)]
        for k, product in enumerate(products):
            tile, token = divmod(k, tokens)
            row, mask = self.rows(pair, tile)
            if self.r is not None:
                product = self.r.load("f32x16", row, mask, offset=4 * token * self.m) + product
            self.y.store(row, product, mask, offset=4 * token * self.m)

    def rows(self, pair: Handle, tile: int) -> "tuple[Handle, Handle | None]":
        """Return the first result of a tile of a pair, and the mask of those that there are; None for all."""
        step = ROWS if self.two else PAIR
        row = pair * step if self.two else pair * step + tile * ROWS
        return row, self.b.first(self.b.index(self.m) - row, ROWS) if self.m % step else None


def _taken(loop: Loop) -> tuple[Handle, list[Handle]]:
    k, *sums = loop
    return k, sums


def shared(count: int, most: int) -> int:
    """Return the largest divisor of a count that is not above `most`: equal rounds need no bound of their own."""
    return next(k for k in range(max(1, min(count, most)), 0, -1) if count % k == 0)
