"""Products of signs with signs, packed 64 to a word: length - 2 * ones(w ^ x), exact (`binary_matvec` of the library).

A lane is an output row of one word. Counting the bits of each word beats carry-save adders and look-up tables on
processors that count them in vectors. Bits above the length are equal in weights and activations: they count nothing.
"""

from bittern.bitops.handle import Handle
from bittern.kernels.matrix_product import MatrixProduct
from bittern.kernels.tiles import PAIR
from bittern.kernels.vector_product import VectorProduct, shared

WORDS = 8  # rows of a vector
VECTORS = PAIR // WORDS  # of a record: one word of each row of a pair
_COPIES = 4  # words copied, or read, in a round


class BinaryVector(VectorProduct):
    """One to four tokens."""

    def declare(self) -> None:
        """Declare x."""
        assert not self.two and not self.options.residual and not self.options.best, self.options
        self.x = self.b.buffer("x", "u64", self.options.tokens * self.tile.records(self.n), "read")

    def results(self) -> None:
        """Declare y."""
        self.y = self.b.buffer("y", "i32", self.options.tokens * self.m, "write")

    def start(self) -> list[Handle]:
        """Make zeros for each vector, then each token."""
        return [self.b.const(f"u64x{WORDS}", 0)] * (VECTORS * self.options.tokens)

    def record(self, at: Handle, k: Handle, number: int, sums: list[Handle]) -> list[Handle]:
        """Count a word of each row."""
        tile, tokens, made = self.tile, self.options.tokens, list(sums)
        self.fetch(at, number * tile.record_bytes, tile.record_bytes)
        words = self.tile.records(self.n)
        for vector in range(VECTORS):
            w = self.w.load(f"u64x{WORDS}", at, offset=number * tile.record_bytes + 64 * vector)
            for token in range(tokens):
                x = self.x.load("u64", k, offset=8 * (token * words + number)).broadcast(WORDS)
                made[vector * tokens + token] = made[vector * tokens + token] + (w ^ x).unary("popcount")
        return made

    def store(self, pair: Handle, products: list[Handle]) -> None:
        """Store the dots of a pair."""
        for k, ones in enumerate(products):
            vector, token = divmod(k, self.options.tokens)
            row = pair * PAIR + vector * WORDS
            mask = self.b.first(self.b.index(self.m) - row, WORDS) if self.m % PAIR else None
            self.y.store(row, self.n - (ones.wrap("i32") << 1), mask, offset=4 * token * self.m)


class BinaryMatrix(MatrixProduct):
    """Many tokens: two vectors of rows x 8 tokens stay in registers."""

    usual = 8

    @property
    def copied(self) -> int:
        """Bytes of the copies of one token."""
        return 8 * self.tile.records(self.n)

    def declare(self) -> None:
        """Declare x and its copy, word by word."""
        words = self.tile.records(self.n)
        self.x = self.b.buffer("x", "u64", self.t * words, "read")
        self.near = self.b.buffer("near", "u64", self.tokens * words, "scratch")

    def results(self) -> None:
        """Declare y."""
        self.y = self.b.buffer("y", "i32", self.t * self.m, "write")

    def gather(self, slot: Handle, token: Handle) -> None:
        """Copy a token's words to its place in each record."""
        words = self.tile.records(self.n)
        some = shared(words, _COPIES)
        with self.b.loop(0, words, some) as loop:
            (k,) = loop
            for i in range(some):
                word = self.x.load("u64", token * words + k, offset=8 * i)
                self.near.store(k * self.tokens + slot, word, offset=8 * i * self.tokens)

    def pair(self, start: Handle, pair: Handle) -> None:
        """Compute and store a pair of tiles of rows for a tile of tokens."""
        with self.b.loop(0, 2) as halves:
            (half,) = halves
            dots = [self.n - (ones.wrap("i32") << 1) for ones in self.products(pair, half)]
            row = pair * PAIR + half * (PAIR // 2)
            self.store(start, row, dots[: self.tokens])
            self.store(start, row + WORDS, dots[self.tokens :])

    def products(self, pair: Handle, half: Handle) -> list[Handle]:
        """Count the words of a tile of rows: for each of two vectors, then each slot."""
        b, words, size = self.b, self.tile.records(self.n), self.tile.record_bytes
        base, some = pair * (words * size) + half * (size // 2), shared(words, _COPIES)
        with b.loop(0, words, some, *[b.const(f"u64x{WORDS}", 0)] * (2 * self.tokens)) as loop:
            k, *sums = loop
            for i in range(some):
                w = [self.w.load(f"u64x{WORDS}", base + k * size, offset=i * size + 64 * v) for v in range(2)]
                for slot in range(self.tokens):
                    x = self.near.load("u64", k * self.tokens, offset=8 * (i * self.tokens + slot)).broadcast(WORDS)
                    for v in range(2):
                        place = v * self.tokens + slot
                        sums[place] = sums[place] + (w[v] ^ x).unary("popcount")
            loop.carry(*sums)
        return list(loop.results)
