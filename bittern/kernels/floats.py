"""Products of float weights: sum + w[r, c] * x[c] for columns in ascending order, two roundings (NUMERICS, 3)."""

from bittern.bitops.handle import Handle
from bittern.kernels.matrix_product import MatrixProduct
from bittern.kernels.tiles import ROWS
from bittern.kernels.vector_product import VectorProduct


class FloatsVector(VectorProduct):
    """One to four tokens."""

    def declare(self) -> None:
        """Declare x."""
        self.x = self.b.buffer("x", "f32", self.options.tokens * self.n, "read")

    def record(self, at: Handle, k: Handle, number: int, sums: list[Handle]) -> list[Handle]:
        """Add a column."""
        tile, tokens, made = self.tile, self.options.tokens, list(sums)
        self.fetch(at, number * tile.record_bytes, tile.record_bytes)
        columns = [
            self.x.load("f32", k, offset=4 * (token * self.n + number)).broadcast(ROWS) for token in range(tokens)
        ]
        for half in range(2):
            offset = number * tile.record_bytes + half * ROWS * tile.stored
            weight = self.w.load(f"{tile.name}x16", at, offset=offset)
            weight = weight if tile.name == "f32" else weight.convert("f32")
            for token, x in enumerate(columns):
                made[half * tokens + token] = made[half * tokens + token] + weight * x
        return made


class FloatsMatrix(MatrixProduct):
    """Many tokens."""

    @property
    def copied(self) -> int:
        """Bytes of the copies of one token."""
        return 4 * self.n

    def declare(self) -> None:
        """Declare x and its copy, column by column."""
        self.x = self.b.buffer("x", "f32", self.t * self.n, "read")
        self.near = self.b.buffer("near", "f32", self.tokens * self.n, "scratch")

    def gather(self, slot: Handle, token: Handle) -> None:
        """Copy a token's values to its place in each column."""
        with self.b.loop(0, self.n) as loop:
            (k,) = loop
            self.near.store(k * self.tokens + slot, self.x.load("f32", token * self.n + k))

    def products(self, pair: Handle, half: Handle) -> list[Handle]:
        """Fold all columns of a tile of rows."""
        b, tile = self.b, self.tile
        base = pair * (self.n * tile.record_bytes) + half * (ROWS * tile.stored)
        with b.loop(0, self.n, 1, *[b.const("f32x16", 0.0)] * self.tokens) as loop:
            k, *sums = loop
            weight = self.w.load(f"{tile.name}x16", base + k * tile.record_bytes)
            weight = weight if tile.name == "f32" else weight.convert("f32")
            for slot in range(self.tokens):
                x = self.near.load("f32", k * self.tokens, offset=4 * slot).broadcast(ROWS)
                sums[slot] = sums[slot] + weight * x
            loop.carry(*sums)
        return list(loop.results)
