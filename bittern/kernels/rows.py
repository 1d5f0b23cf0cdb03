"""Products of rows of small integers with one scale each: the whole row is an exact integer (`matvec_ternary`).

f32(dot) * (scale * d): one conversion and two products, each rounded once; d is the scale of a row of activations.
Codes are unsigned: value = code - zero, of signs value = 2 * code - 1; so `zero` times the sum of the activations'
codes is taken off at the end.

Where a byte holds several codes, they are masked, not shifted. For one token what stands at bit i is summed apart over
the row and counts 2^i times: at most 192 * 127 * n, exact below 2^31 for rows of 88000 values. For many tokens all
codes at the highest place are summed first, the sums are shifted down to the next place, and so on: exact, since they
are multiples.
"""

from collections.abc import Sequence

from bittern.bitops.builder import Builder
from bittern.bitops.handle import Handle
from bittern.kernels.codes import moved
from bittern.kernels.matrix_product import MatrixProduct
from bittern.kernels.tiles import ROWS, Tile
from bittern.kernels.vector_product import VectorProduct, shared

_COPIES = 8  # pieces copied, or read, in a round
_DIGITS = (1, 3, 9, 27)  # of the first four ternary digits of a byte
FIFTH = 85  # of the last: 0, 85, 170 differ in their lowest two bits


def table(b: Builder) -> list[Handle]:
    """Make the table of four ternary digits as bit pairs; two u8x64."""
    four = [sum(v // p % 3 << 2 * i for i, p in enumerate(_DIGITS)) for v in range(81)]
    padded = four + [0] * (128 - len(four))
    return [b.const("u8x64", padded[:64]), b.const("u8x64", padded[64:])]


def decoded(x: Handle, table: Sequence[Handle]) -> list[Handle]:
    """Return a code vector as it is, or bytes of five ternary digits as four bit pairs, and the fifth digits. u8x64."""
    if not table:
        return [x]
    first = x.min(x - FIFTH)  # what is below wraps to more than it was
    four = first.min(first - FIFTH)
    return [four.lookup(*table), (x - four) & 3]


def places(tile: Tile) -> list[int]:
    """Return at which bit of a byte the codes of each four columns of a record stand; 8 for a fifth digit."""
    return {"bytes": [0], "pairs": [0, 2, 4, 6], "trits": [0, 2, 4, 6, 8], "bits": list(range(8))}[tile.code]


def scaled(tile: Tile, dot: Handle, s: Handle, scale: Handle, d: Handle) -> Handle:
    """Make products from dots of codes. s: sums of the activations' codes. All f32x16 or i32x16."""
    zero = tile.zero.bit_length() - 1
    total = (dot << 1 if tile.code == "bits" else dot) - (s << zero if zero else s)
    return total.convert("f32") * (scale * d)


class RowsVector(VectorProduct):
    """One to four tokens."""

    def declare(self) -> None:
        """Declare scale, q, d, s."""
        b, t = self.b, self.options.tokens
        self.scale = b.buffer("scale", "f32", self.m * (1 + self.two), "read")
        self.q = b.buffer("q", "i8", t * self.n, "read")
        self.d, self.s = b.buffer("d", "f32", t, "read"), b.buffer("s", "i32", t, "read")
        self.places = places(self.tile)
        found = sorted({place % 8 for place in self.places})
        self.apart = found if len(found) * t <= 8 else [0]  # where codes are that are summed apart
        self.table = table(b) if self.tile.code == "trits" else []

    def start(self) -> list[Handle]:
        """Make zeros for each tile, then each token, then each place that is summed apart."""
        return [self.b.const("i32x16", 0)] * (2 * self.options.tokens * len(self.apart))

    def records(self) -> int:
        """Return the number of whole records."""
        return self.n // self.tile.width

    def record(self, at: Handle, k: Handle, number: int, sums: list[Handle]) -> list[Handle]:
        """Add a record."""
        self.fetch(at, number * self.tile.record_bytes, self.tile.record_bytes)
        return self._columns(at, k, number, sums, len(self.places))

    def tail(self, base: Handle, sums: list[Handle]) -> list[Handle]:
        """Add the columns after the last whole record."""
        whole, left = self.records(), self.n % self.tile.width // 4
        if not left:
            return sums
        return self._columns(base + whole * self.tile.record_bytes, self.b.index(whole), 0, sums, left)

    def _columns(self, at: Handle, k: Handle, number: int, sums: list[Handle], groups: int) -> list[Handle]:
        tokens, made, width = self.options.tokens, list(sums), self.tile.width
        loaded = [self.w.load("u8x64", at, offset=number * 128 + 64 * half) for half in range(2)]
        raw = [decoded(x, self.table) for x in loaded]
        for group, place in enumerate(self.places[:groups]):
            codes = [self._codes(parts, place) for parts in raw]
            to = self.apart.index(place % 8) if len(self.apart) > 1 else 0
            for token in range(tokens):
                offset = token * self.n + width * number + 4 * group
                x = self.q.load("i32", k * width, offset=offset).broadcast(ROWS).reinterpret("i8")
                for half, code in enumerate(codes):
                    which = (half * tokens + token) * len(self.apart) + to
                    made[which] = code.dot(x, made[which])
        return made

    def _codes(self, parts: Sequence[Handle], place: int) -> Handle:
        """Make the codes at a place of a vector, where they stand or moved down."""
        if self.tile.code == "bytes" or place == 8:
            return parts[place // 8]
        bits = 1 if self.tile.code == "bits" else 2
        if len(self.apart) > 1:
            return parts[0] & self.b.const("u8x64", (1 << bits) - 1 << place)
        return moved(self.b, parts[0], place, 0, bits)

    def finish(self, pair: Handle, sums: list[Handle]) -> list[Handle]:
        """Put the sums of a row together and scale them."""
        products, count = [], len(self.apart)
        for half in range(2):
            row, mask = self.rows(pair, half)
            scale = self.scale.load("f32x16", row, mask, offset=4 * self.m * half * self.two)
            for token in range(self.options.tokens):
                first = (half * self.options.tokens + token) * count
                total = sums[first]
                for i, place in enumerate(self.apart[1:], 1):
                    total = total + (sums[first + i] >> place)
                s = self.s.load("i32", token).broadcast(ROWS)
                products.append(scaled(self.tile, total, s, scale, self.d.load("f32", token).broadcast(ROWS)))
        return products


class RowsMatrix(MatrixProduct):
    """Many tokens: two tiles of rows at once, which share the loads of the activations."""

    usual = 8

    @property
    def copied(self) -> int:
        """Bytes of the copies of one token."""
        return -(-self.n // self.piece) * self.piece + 8

    @property
    def piece(self) -> int:
        """Columns that are copied together: a record, or four of the smallest."""
        return max(16, self.tile.width)

    def declare(self) -> None:
        """Declare scale, q, d, s and their copies: codes piece after piece."""
        b, t = self.b, self.t
        self.scale = b.buffer("scale", "f32", self.m * (1 + self.two), "read")
        self.q = b.buffer("q", "i8", t * self.n, "read")
        self.d, self.s = b.buffer("d", "f32", t, "read"), b.buffer("s", "i32", t, "read")
        pieces = -(-self.n // self.piece)
        self.near = b.buffer("near", "i8", self.tokens * self.piece * pieces, "scratch")
        self.near_d = b.buffer("near_d", "f32", self.tokens, "scratch")
        self.near_s = b.buffer("near_s", "i32", self.tokens, "scratch")
        self.places = places(self.tile)
        self.table = table(b) if self.tile.code == "trits" else []

    def gather(self, slot: Handle, token: Handle) -> None:
        """Copy a token's codes, piece by piece."""
        b, size, whole = self.b, self.piece, self.n // self.piece
        here, some = slot * size, shared(whole, _COPIES) if whole else 1
        with b.loop(0, whole, some) as loop:
            (k,) = loop
            for i in range(some):
                self._copy(token * self.n + k * size, k * (self.tokens * size) + here, i, size)
        if self.n % size:
            self._copy(token * self.n + whole * size, here + whole * (self.tokens * size), 0, self.n % size)
        self.near_d.store(slot, self.d.load("f32", token))
        self.near_s.store(slot, self.s.load("i32", token))

    def _copy(self, far: Handle, near: Handle, i: int, count: int) -> None:
        """Copy so many codes of piece i, a multiple of 4."""
        source, to = i * self.piece, i * self.tokens * self.piece
        for k in range(0, count // 16 * 16, 16):
            self.near.store(near, self.q.load("i8x16", far, offset=source + k), offset=to + k)
        for k in range(count // 16 * 16, count, 4):
            self.near.store(near, self.q.load("i32", far, offset=source + k), offset=to + k)

    def pair(self, start: Handle, pair: Handle) -> None:
        """Compute and store a pair of tiles of rows for a tile of tokens."""
        sums, made = self._pair(pair), []
        for half in range(2):
            row, mask = self.rows(pair, half)
            scale = self.scale.load("f32x16", row, mask, offset=4 * self.m * half * self.two)
            for slot in range(self.tokens):
                d = self.near_d.load("f32", slot).broadcast(ROWS)
                s = self.near_s.load("i32", slot).broadcast(ROWS)
                made.append(scaled(self.tile, sums[half * self.tokens + slot], s, scale, d))
        first, second = made[: self.tokens], made[self.tokens :]
        if self.fuse is not None:
            fused = [self.fuse(self.b, x, y) for x, y in zip(first, second, strict=True)]
            self.store(start, self.rows(pair, 0)[0], fused)
            return
        self.store(start, self.rows(pair, 0)[0], first)
        self.store(start, self.rows(pair, 1)[0], second)

    def _pair(self, pair: Handle) -> list[Handle]:
        """Make the dots of a pair of tiles of rows with all slots: of each tile, each slot."""
        b, whole = self.b, self.n // self.piece
        base = pair * (self.tile.records(self.n) * self.tile.record_bytes)
        sums, some = [b.const("i32x16", 0)] * (2 * self.tokens), shared(whole, _COPIES // 2) if whole else 1
        passes = [[i] for i in reversed(range(len(self.places)))]
        if self.tile.code == "trits":
            passes = [list(range(len(self.places)))]
        for groups in passes:
            with b.loop(0, whole, some, *sums) as loop:
                k, *sums = loop
                for i in range(some):
                    sums = self._piece(base, k, i, groups, sums, self.piece)
                loop.carry(*sums)
            sums = list(loop.results)
            if self.n % self.piece:
                sums = self._piece(base, b.index(whole), 0, groups, sums, self.n % self.piece)
            if groups[0] and len(groups) == 1:
                down = self.places[groups[0]] - self.places[groups[0] - 1]
                sums = [x >> down for x in sums]
        return sums

    def _piece(
        self, base: Handle, k: Handle, i: int, groups: Sequence[int], sums: list[Handle], count: int
    ) -> list[Handle]:
        """Add the columns of piece k + i that stand at some places. count: the piece's columns that there are."""
        made, width = list(sums), self.tile.width
        each = self.piece // width  # records
        for record in range(each):
            here = [g for g in groups if record * width + 4 * g < count]
            if not here:
                continue
            offset = (i * each + record) * 128
            loaded = [self.w.load("u8x64", base + k * (each * 128), offset=offset + 64 * half) for half in range(2)]
            raw = [decoded(x, self.table) for x in loaded]
            for group in here:
                codes = [self._codes(parts, self.places[group]) for parts in raw]
                for slot in range(self.tokens):
                    near = i * self.tokens * self.piece + slot * self.piece + record * width + 4 * group
                    x = self.near.load("i32", k * (self.tokens * self.piece), offset=near).broadcast(ROWS)
                    for half, code in enumerate(codes):
                        which = half * self.tokens + slot
                        made[which] = code.dot(x.reinterpret("i8"), made[which])
        return made

    def _codes(self, parts: Sequence[Handle], place: int) -> Handle:
        """Make the codes at a place of a vector: where they stand; ternary digits moved down."""
        if self.tile.code == "bytes" or place == 8:
            return parts[place // 8]
        if self.tile.code == "trits":
            return moved(self.b, parts[0], place, 0, 2)
        bits = 1 if self.tile.code == "bits" else 2
        return parts[0] & self.b.const("u8x64", (1 << bits) - 1 << place)
