"""Scores of 16, 32 or 64 positions at a time for the query heads that share a key head: a lane is a position.

A score folds over the head dimension in ascending order, from +0, so the loop runs over it, and lanes, steps and heads
grow side by side. In the graph's order of the cache keys are transposed first, 16 positions by 32 bytes; in tiles they
lie as they are needed. Quantised keys are taken 4 values at a time: u8 (code + 128) times i8, exact; the sums of a
block begin at -128 times the sum of the query's codes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bittern.bitops.builder import Builder, View
from bittern.bitops.handle import Handle
from bittern.kernels.cache_store import Cache
from bittern.kernels.quantise import Codes, quantise_row

_LANES = 16
_LINE = 64  # bytes that are prefetched at a time
_Step = Callable[[Handle], list[list[Handle]]]  # number of a step of positions -> [16 positions][head] scores


@dataclass(frozen=True, slots=True)
class Scores:
    """Emits scores. heads: query heads of a token. tokens: how many. step: positions at a time.

    ahead: bytes between what is read and prefetched. codes: scratch of quantised queries.
    """

    b: Builder
    cache: Cache
    heads: int
    tokens: int
    step: int
    ahead: int = 0
    codes: "Codes | None" = None

    @property
    def queries(self) -> int:
        """Query heads of all tokens."""
        return self.heads * self.tokens

    def of(self, q: View, firsts: Sequence[Handle], seq: Handle, head: Handle) -> _Step:
        """Return how a step is scored. q: the heads' values of each token from its place on; seq, head: proven."""
        if self.codes is not None:
            self._quantise(q, firsts)
            return lambda k: self._integers(k, seq, head)
        return lambda k: self._floats(k, q, firsts, seq, head)

    # --- float keys

    def _floats(self, k: Handle, q: View, firsts: Sequence[Handle], seq: Handle, head: Handle) -> list[list[Handle]]:
        b, n = self.b, self.cache.shape
        groups = self.step // _LANES
        unroll = 16 if not n.tiles and n.element == "f16" else 8
        zero = [b.const("f32x16", 0.0)] * (groups * self.queries)
        tiles = [k * groups + i for i in range(groups)]
        keys = [self._keys(tile, seq, head) for tile in tiles]
        with b.loop(0, n.h, unroll, *zero) as loop:
            d, *sums = loop
            loaded = [key(d) for key in keys]
            for u in range(unroll):
                self._fetch(tiles, d, u, seq, head)
                for j in range(self.queries):
                    place = firsts[j // self.heads] + d + (j % self.heads * n.h + u)
                    x = q.load("f32", place).broadcast(_LANES)
                    for i in range(groups):
                        sums[i * self.queries + j] = sums[i * self.queries + j] + loaded[i](u) * x
            loop.carry(*sums)
        return [list(loop.results[i * self.queries : (i + 1) * self.queries]) for i in range(groups)]

    def _fetch(self, tiles: Sequence[Handle], d: Handle, u: int, seq: Handle, head: Handle) -> None:
        """Emit the prefetches that belong to dimension d + u of some tiles."""
        n, size = self.cache.shape, self.cache.k.buffer.element.bits // 8
        if not self.ahead or (n.tiles and u * 16 * size % _LINE) or (not n.tiles and u):
            return
        for tile in tiles:
            if n.tiles:
                self.cache.k.prefetch(self.cache.tile(seq, head, tile) * (n.h * 16) + (d + u) * 16, self.ahead)
                continue
            for row in self._rows(tile, seq, head):
                self.cache.k.prefetch(row * n.h + d, 2 * self.step * n.g * n.h * size)

    def _keys(self, tile: Handle, seq: Handle, head: Handle) -> "Callable[[Handle], Callable[[int], Handle]]":
        """Return how keys of 16 positions are loaded: at dimension d, the one u beyond it, as f32."""
        n = self.cache.shape
        of = "f16x16" if n.element == "f16" else "f32x16"
        if n.tiles:
            start = self.cache.tile(seq, head, tile) * (n.h * 16)

            def load(d: Handle) -> Callable[[int], Handle]:
                made: dict[int, Handle] = {}

                def lane(u: int) -> Handle:
                    if u not in made:
                        made[u] = _wide(self.cache.k.load(of, start + (d + u) * 16))
                    return made[u]

                return lane

            return load
        rows = self._rows(tile, seq, head)
        word, count, element = ("u16", 16, "f16") if n.element == "f16" else ("u32", 8, "f32")

        def turned(d: Handle) -> Callable[[int], Handle]:
            loaded = [self.cache.k.load(f"{word}x{count}", row * n.h + d) for row in rows]
            lanes = [_wide(x.reinterpret(element)) for x in transpose(loaded)]
            return lambda u: lanes[u]

        return turned

    def _rows(self, tile: Handle, seq: Handle, head: Handle) -> list[Handle]:
        """Return the numbers of the rows of 16 positions."""
        first = self.cache.row(seq, tile * _LANES, head)
        return [first + k * self.cache.shape.g for k in range(_LANES)]

    # --- quantised keys

    def _quantise(self, q: View, firsts: Sequence[Handle]) -> None:
        assert self.codes is not None
        n = self.cache.shape
        for k, first in enumerate(firsts):
            quantise_row(self.b, q, first, self.codes, self.b.index(k * self.heads * n.blocks), self.heads * n.h)

    def _integers(self, k: Handle, seq: Handle, head: Handle) -> list[list[Handle]]:
        b, n = self.b, self.cache.shape
        assert self.codes is not None
        groups = self.step // _LANES
        zero = [b.const("f32x16", 0.0)] * (groups * self.queries)
        tiles = [k * groups + i for i in range(groups)]
        with b.loop(0, n.blocks, 1, *zero) as loop:
            block, *sums = loop
            for i, tile in enumerate(tiles):
                codes, scale = self._codes(tile, block, seq, head)
                for j in range(self.queries):
                    total = (self.codes.s.load("i32", block + j * n.blocks) * -128).broadcast(_LANES)
                    for u, code in enumerate(codes):
                        x = self.codes.q.load("u32", block * 32 + (j * n.h + 4 * u)).broadcast(_LANES)
                        total = code.dot(x.reinterpret("i8"), total)
                    d = scale * self.codes.d.load("f32", block + j * n.blocks).broadcast(_LANES)
                    sums[i * self.queries + j] = sums[i * self.queries + j] + total.convert("f32") * d
            loop.carry(*sums)
        return [list(loop.results[i * self.queries : (i + 1) * self.queries]) for i in range(groups)]

    def _codes(self, tile: Handle, block: Handle, seq: Handle, head: Handle) -> tuple[list[Handle], Handle]:
        """Emit keys of 16 positions and one block, 8 times u8x64 (4 codes + 128 of each position), and their scales."""
        b, n = self.b, self.cache.shape
        assert self.cache.kd is not None
        if n.tiles:
            number = self.cache.tile(seq, head, tile)
            start = (number * (n.h // 4) + block * 8) * 64
            loaded = [self.cache.k.load("u8x64", start + 64 * u) for u in range(8)]
            for u in range(8 if self.ahead else 0):
                self.cache.k.prefetch(start + 64 * u, self.ahead)
            scale = self.cache.kd.load("f32x16", (number * n.blocks + block) * 16)
        else:
            rows = self._rows(tile, seq, head)
            words = [self.cache.k.load("u32x8", row * n.h + block * 32) for row in rows]
            loaded = [x.reinterpret("u8") for x in transpose(words)]
            scale = b.collect(*(self.cache.kd.load("f32", row * n.blocks + block) for row in rows))
        return [x ^ 0x80 for x in loaded], scale


def _wide(x: Handle) -> Handle:
    return x.convert("f32") if x.type.element.name == "f16" else x


def transpose(rows: Sequence[Handle]) -> list[Handle]:
    """Emit the transposition of 16 rows of n lanes (n a power of two, half a vector) -> n vectors of 16 lanes.

    Each step puts units of neighbouring vectors in turn, so that units grow from 1 to 16 lanes.
    """
    lanes = rows[0].type.count
    joined = [
        rows[k].shuffle([u for d in range(lanes) for u in (d, lanes + d)], rows[k + 1]) for k in range(0, len(rows), 2)
    ]
    count, unit = 2 * lanes, 2
    groups = [[x] for x in joined]  # vectors of the same rows, ascending dimensions
    while len(groups) > 1:
        groups = [
            [half for x, y in zip(a, c, strict=True) for half in _in_turn(x, y, count, unit)]
            for a, c in zip(groups[0::2], groups[1::2], strict=True)
        ]
        unit *= 2
    (vectors,) = groups
    return [v.part(first, unit) for v in vectors for first in range(0, count, unit)]


def _in_turn(x: Handle, y: Handle, count: int, unit: int) -> tuple[Handle, Handle]:
    picks = [side * count + first + k for first in range(0, count, unit) for side in (0, 1) for k in range(unit)]
    return x.shuffle(picks[:count], y), x.shuffle(picks[count:], y)


def scores_of(b: Builder, cache: Cache, heads: int, tokens: int, step: int, ahead: int) -> Scores:
    """Declare the scratch that scores need."""
    n = cache.shape
    if n.element != "i8":
        return Scores(b, cache, heads, tokens, step, ahead)
    queries = heads * tokens
    blocks = queries * n.blocks
    codes = Codes(
        b.buffer("query_codes", "i8", queries * n.h, "scratch"),
        b.buffer("query_scales", "f32", blocks, "scratch"),
        b.buffer("query_products", "f32", blocks, "scratch"),
        b.buffer("query_sums", "i32", blocks, "scratch"),
        None,
    )
    return Scores(b, cache, heads, tokens, step, ahead, codes)
