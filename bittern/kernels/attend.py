"""What attention does for query heads that share a key head, for one token or for a few that follow each other.

First the scores of all positions and the greatest of them, then, chunk by chunk of 512 positions, weights, their sums
and the weighted values. Scores are kept in scratch between the two, or made again where they are too many.

Queries are heads of tokens: query t * heads + j is head j of token t. Tokens that go together stand at consecutive
positions of one sequence (or are one and the same token); each sees its own positions. In the scores those that a token
does not see are minus infinity, so their weights are +0; its values are added only where it sees them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bittern.bitops import builder
from bittern.bitops.builder import Builder
from bittern.bitops.handle import Handle
from bittern.kernels import quantise
from bittern.kernels.cache_store import Cache, CacheShape
from bittern.kernels.elementary import exp, tanh
from bittern.kernels.elementwise import LANES, each_vector
from bittern.kernels.scores import Scores, scores_of

CHUNK = 512
_SCALED = CHUNK + LANES  # between the scaled weights of two blocks: see `View.stride`
_LINE = 64  # bytes that are prefetched at a time
_KEPT = 192 * 1024  # bytes of scores that are kept from the first to the second pass
_CHAINS = 6  # sums that grow side by side
_SUMS = 24  # registers for weighted values
_MINUS_INFINITY = float("-inf")


@dataclass(frozen=True, slots=True)
class View:
    """What is attended to, and how.

    r: query heads for each key head. window: positions that a token sees, 0 for all. cap: of the scores, 0 for none.
    share: query heads of a round, which share the loads of keys and values; a divisor of r, 0 for r. ahead: bytes
    from what is read to what is prefetched, 0 for nothing. tokens: how many are attended to together.
    """

    shape: CacheShape
    r: int
    window: int = 0
    cap: float = 0.0
    share: int = 0
    ahead: int = 8192
    tokens: int = 1

    @property
    def heads(self) -> int:
        """Query heads of a round."""
        return self.share or self.r

    @property
    def queries(self) -> int:
        """Query heads of all tokens that go together."""
        return self.heads * self.tokens

    @property
    def step(self) -> int:
        """Positions that are scored together: 16, 32 or 64."""
        return LANES * next(n for n in (1, 2, 4) if n * self.queries >= _CHAINS or n == 4)

    @property
    def _seen(self) -> int:
        """Room for all positions that tokens see; a power of two, in which places go round, or the whole context."""
        whole, most = -(-self.shape.c // 64) * 64, 64
        while self.window and most < self.window + self.tokens + 2 * self.step:
            most *= 2
        return min(most, whole) if self.window else whole

    @property
    def is_kept(self) -> bool:
        """Whether scores are kept; else they are made twice."""
        return self._seen * self.queries * 4 <= _KEPT

    @property
    def slots(self) -> int:
        """Positions whose scores have a place in scratch."""
        return self._seen if self.is_kept else CHUNK

    @property
    def stride(self) -> int:
        """Between the slots of two queries: not a power of two, so that they do not crowd the same lines of a cache."""
        return self.slots + LANES

    @property
    def scratch(self) -> int:
        """Bytes of scratch."""
        scaled = self.shape.blocks * _SCALED if self.shape.tiles else 0
        return 4 * self.queries * (self.stride + scaled + 2 * self.shape.h)


@dataclass(frozen=True, slots=True)
class Token:
    """One token. queries: place of its first query. last: its position. low: the first that it sees. to: of results."""

    queries: Handle
    last: Handle
    low: Handle
    to: Handle


@dataclass(frozen=True, slots=True)
class Out:
    """Where results go: y, or codes."""

    y: "builder.View | None"
    codes: "quantise.Codes | None"

    @classmethod
    def declare(cls, b: Builder, view: View, codes: bool, halves: bool) -> "Out":
        """Declare the buffers."""
        (t,) = b.dims
        size = t * (view.shape.g * view.r * view.shape.h)
        if codes:
            return cls(None, quantise.codes(b, size, halves))
        return cls(b.buffer("y", "f32", size, "write"), None)

    def put(self, b: Builder, rows: builder.View, first: Handle, count: int, place: Handle) -> None:
        """Emit the storing of `count` values, which are in scratch from `first` on."""
        if self.codes is not None:
            quantise.quantise_row(b, rows, first, self.codes, place // quantise.BLOCK, count)
            return
        assert self.y is not None
        y = self.y
        each_vector(b, b.index(0), count, 4, lambda at, _: y.store(place + at, rows.load("f32x16", first + at)))


@dataclass(frozen=True, slots=True)
class Work:
    """Emits the attention of one group of queries. Scratch:

    kept: scores, then weights, [queries, stride]. sums: weighted values of all chunks so far, [queries, h]. factors:
    1 / the sum of weights, [queries]. scaled: weights times scales of quantised values, [queries, blocks, 528].
    """

    b: Builder
    view: View
    cache: Cache
    scores: Scores
    kept: builder.View
    sums: builder.View
    factors: builder.View
    scaled: "builder.View | None"

    @classmethod
    def declare(cls, b: Builder, view: View, cache: Cache) -> "Work":
        """Declare the scratch."""
        n, queries = view.shape, view.queries
        assert n.tiles or n.c % 64 == 0, n
        kept = b.buffer("weights", "f32", queries * view.stride, "scratch")
        sums = b.buffer("sums", "f32", queries * n.h, "scratch")
        factors = b.buffer("factors", "f32", queries, "scratch")
        scaled = b.buffer("scaled", "f32", queries * n.blocks * _SCALED, "scratch") if n.blocks and n.tiles else None
        scores = scores_of(b, cache, view.heads, view.tokens, view.step, view.ahead)
        return cls(b, view, cache, scores, kept, sums, factors, scaled)

    def token(self, queries: Handle, pos: Handle, to: Handle) -> Token:
        """Return a token. pos: u32."""
        last = pos.convert("index").min(self.view.shape.c - 1)
        low = (last - (self.view.window - 1)).max(0) if self.view.window else self.b.index(0)
        return Token(queries, last, low, to)

    def attend(self, q: builder.View, tokens: Sequence[Token], head: Handle, seq: Handle, out: Out) -> None:
        """Emit it. seq: u32."""
        b, n, step = self.b, self.view.shape, self.view.step
        low, last = tokens[0].low, tokens[-1].last
        s = seq.convert("index").min(n.s - 1) if n.s > 1 else b.index(0)
        scores = self.scores.of(q, [t.queries for t in tokens], s, head)
        span = (low // step, (last // step).min((n.c - 1) // step) + 1)
        tops = self._greatest(scores, tokens, span)
        zero = b.const("f32x16", 0.0)
        each_vector(b, b.index(0), self.view.queries * n.h, 4, lambda at, _: self.sums.store(at, zero))
        with b.loop(low // CHUNK, last // CHUNK + 1, 1, *[b.const("f32", 0.0)] * self.view.queries) as loop:
            chunk, *totals = loop
            steps = CHUNK // step
            some = (span[0].max(chunk * steps), span[1].min((chunk + 1) * steps))
            mine = self._weigh(scores, tops, tokens, some, (s, head))
            self._mix(s, head, tokens, (chunk * CHUNK, (chunk + 1) * CHUNK))
            loop.carry(*(total + part.fold("add") for total, part in zip(totals, mine, strict=True)))
        self._finish(loop.results, tokens, out)

    def _slot(self, k: Handle, positions: int) -> Handle:
        """Return where the scores of a step of so many positions are kept."""
        count = self.view.slots // positions
        return (k & (count - 1) if count & (count - 1) == 0 else k) * positions

    # --- scores

    def _seen(self, scores: list[list[Handle]], at: Handle, tokens: Sequence[Token]) -> list[list[Handle]]:
        """Cap scores, and make those that are not seen minus infinity. scores: [16 positions][query]."""
        b, found, cap = self.b, [], self.view.cap
        for k, row in enumerate(scores):
            place = (at + LANES * k).wrap("i32").broadcast(LANES) + b.const("i32x16", range(LANES))
            masks = [self._sees(token, place) for token in tokens]
            shown = [tanh(x / cap) * cap for x in row] if cap else row
            heads = self.view.heads
            found.append([b.select(masks[j // heads], x, _MINUS_INFINITY) for j, x in enumerate(shown)])
        return found

    def _sees(self, token: Token, place: Handle) -> Handle:
        """Return the mask of the positions that a token sees. place: i32 lanes."""
        mask = place <= token.last.wrap("i32").broadcast(LANES)
        return mask & (token.low.wrap("i32").broadcast(LANES) <= place) if self.view.window else mask

    def _greatest(
        self, scores: Callable[[Handle], list[list[Handle]]], tokens: Sequence[Token], span: tuple[Handle, Handle]
    ) -> list[Handle]:
        """Emit the first pass: the greatest score of each query, in all lanes. Scores are kept if there is room."""
        b, step = self.b, self.view.step
        least = [b.const("f32x16", _MINUS_INFINITY)] * self.view.queries
        with b.loop(*span, 1, *least) as loop:
            k, *tops = loop
            slot = self._slot(k, step)
            for i, row in enumerate(self._seen(scores(k), k * step, tokens)):
                for j, x in enumerate(row):
                    if self.view.is_kept:
                        self.kept.store(slot + (self.view.stride * j + LANES * i), x)
                    tops[j] = x.max(tops[j])
            loop.carry(*tops)
        return [top.fold("max").broadcast(LANES) for top in loop.results]

    # --- weights

    def _weigh(
        self,
        scores: Callable[[Handle], list[list[Handle]]],
        tops: list[Handle],
        tokens: Sequence[Token],
        some: tuple[Handle, Handle],
        where: tuple[Handle, Handle],
    ) -> tuple[Handle, ...]:
        """Emit the weights of a chunk, exp(score - greatest), into `kept`; return their 16 partial sums, by query."""
        b, step = self.b, self.view.step
        with b.loop(*some, 1, *[b.const("f32x16", 0.0)] * self.view.queries) as loop:
            k, *sums = loop
            slot = self._slot(k, step)
            self._fetch_first(k, some[0], where)
            fresh = None if self.view.is_kept else self._seen(scores(k), k * step, tokens)
            for i in range(step // LANES):
                for j, top in enumerate(tops):
                    at = slot + (self.view.stride * j + LANES * i)
                    x = fresh[i][j] if fresh else self.kept.load("f32x16", at)
                    weight = exp(x - top)
                    self.kept.store(at, weight)
                    sums[j] = sums[j] + weight
                    self._scale_weight(weight, j, k * (step // LANES) + i, where)
            loop.carry(*sums)
        return loop.results

    def _fetch_first(self, k: Handle, first: Handle, where: tuple[Handle, Handle]) -> None:
        """Emit prefetches of the first quarter of a chunk's values, which come next. first: of the chunk's steps."""
        n, step = self.view.shape, self.view.step
        row = self.cache.row(where[0], first * step + (k - first) * (step // 4), where[1])
        for i in range(step // 4):
            self._fetch((row + i * (1 if n.tiles else n.g)) * n.h, n.h // LANES, now=True)

    def _fetch(self, place: Handle, wide: int, now: bool = False) -> None:
        """Emit prefetches of so many vectors of values. now: those at the place, not those ahead of it."""
        size = self.cache.v.buffer.element.bits // 8
        for offset in range(0, wide * LANES * size, _LINE) if self.view.ahead else ():
            self.cache.v.prefetch(place, offset + (0 if now else self.view.ahead))

    def _scale_weight(self, weight: Handle, j: int, tile: Handle, where: tuple[Handle, Handle]) -> None:
        """Keep the weights of 16 positions times the scales of their values. where: sequence and key head."""
        n = self.view.shape
        if self.scaled is None or self.cache.vd is None:
            return
        start, slot = self.cache.tile(*where, tile) * (n.blocks * LANES), (tile & (CHUNK // LANES - 1)) * LANES
        for block in range(n.blocks):
            scale = self.cache.vd.load("f32x16", start + block * LANES)
            self.scaled.store(slot + (j * n.blocks + block) * _SCALED, weight * scale)

    # --- values

    def _mix(self, seq: Handle, head: Handle, tokens: Sequence[Token], chunk: tuple[Handle, Handle]) -> None:
        """Emit the weighted values of a chunk, positions ascending, and add them to the sums.

        Positions that all tokens see are without masks; those before and behind are seen by some of them.
        """
        b, n, queries = self.b, self.view.shape, self.view.queries
        low, last = tokens[0].low, tokens[-1].last
        end = tokens[0].last + 1
        begin = tokens[-1].low.min(end)
        spans = [(begin, end, False)]
        if len(tokens) > 1:
            spans = [(low, begin, True)] * bool(self.view.window) + spans + [(end, last + 1, True)]
        wide = next(w for w in (8, 4, 3, 2, 1) if (n.h // LANES) % w == 0 and (w * queries <= _SUMS or w == 1))
        with b.loop(0, n.h, wide * LANES) as parts:
            (part,) = parts
            parts.carry()
            sums: Sequence[Handle] = [b.const("f32x16", 0.0)] * (queries * wide)
            for first, after, is_masked in spans:
                positions = (first.max(chunk[0]), after.min(chunk[1]))
                with b.loop(*positions, 1, *sums) as loop:
                    p, *sums = loop
                    loop.carry(*self._mixed(sums, (seq, p, head), part, wide, tokens if is_masked else ()))
                sums = loop.results
            for j in range(queries):
                for k in range(wide):
                    at = part + (j * n.h + LANES * k)
                    self.sums.store(at, self.sums.load("f32x16", at) + sums[j * wide + k])

    def _mixed(
        self,
        sums: Sequence[Handle],
        at: tuple[Handle, Handle, Handle],
        part: Handle,
        wide: int,
        tokens: Sequence[Token],
    ) -> list[Handle]:
        """Emit the sums with one position's weighted values. at: sequence, position, head. tokens: those that may not
        see it; () if all do."""
        n, slot = self.view.shape, self._slot(at[1], 1)
        row = self.cache.row(*at)
        place = row * n.h + part
        self._fetch(place, wide)
        values = [self._value(place + LANES * k) for k in range(wide)]
        found = []
        for j in range(self.view.queries):
            factor = self._factor(j, at[1], row, part, slot)
            mine = [x + factor(k) * v for k, (x, v) in enumerate(zip(sums[j * wide :], values, strict=False))]
            if tokens:
                mask = self._sees(tokens[j // self.view.heads], at[1].wrap("i32").broadcast(LANES))
                mine = [self.b.select(mask, y, x) for x, y in zip(sums[j * wide :], mine, strict=False)]
            found += mine
        return found

    def _value(self, place: Handle) -> Handle:
        """Emit 16 values as f32."""
        of = {"f16": "f16x16", "f32": "f32x16", "i8": "i8x16"}[self.view.shape.element]
        loaded = self.cache.v.load(of, place)
        return loaded if of == "f32x16" else loaded.convert("f32")

    def _factor(self, j: int, p: Handle, row: Handle, part: Handle, slot: Handle) -> Callable[[int], Handle]:
        """Return the weight of a position for query j that vector k of a part is multiplied by, in all lanes."""
        n, made, vd = self.view.shape, dict[int, Handle](), self.cache.vd
        if vd is None:
            weight = self.kept.load("f32", slot + self.view.stride * j).broadcast(LANES)
            return lambda _: weight

        def one(k: int) -> Handle:
            block = (part + LANES * k) // 32
            if k not in made:
                if self.scaled is not None:
                    x = self.scaled.load("f32", block * _SCALED + (p & (CHUNK - 1)) + j * n.blocks * _SCALED)
                else:
                    x = self.kept.load("f32", slot + self.view.stride * j) * vd.load("f32", row * n.blocks + block)
                made[k] = x.broadcast(LANES)
            return made[k]

        return lambda k: one(k // 2 * 2)

    # --- results

    def _finish(self, totals: Sequence[Handle], tokens: Sequence[Token], out: Out) -> None:
        """Emit the product with the reciprocal of the sum of weights, and store the results."""
        b, h, heads = self.b, self.view.shape.h, self.view.heads
        for i, total in enumerate(totals):
            self.factors.store(i, total.like(1.0) / total)
        with b.loop(0, self.view.queries) as loop:
            (j,) = loop
            loop.carry()
            factor = self.factors.load("f32", j).broadcast(LANES)
            each_vector(b, j * h, h, 4, lambda at, _: self.sums.store(at, self.sums.load("f32x16", at) * factor))
        for i, token in enumerate(tokens):
            out.put(b, self.sums, b.index(i * heads * h), heads * h, token.to)
