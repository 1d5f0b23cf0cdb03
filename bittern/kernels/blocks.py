"""Products of block formats: exact dots of groups, times scales of weights and activations.

For each row and token, and groups in ascending order: sum + (f32(dot) * (scale * d) + low * ds), each operation rounded
once (`dot_scaled`, `dot_shifted` of the library). Codes are unsigned in tiles: a dot starts from minus `zero` times the
sum of the activations' codes.
"""

from collections.abc import Callable, Sequence

from bittern.bitops.builder import View
from bittern.bitops.handle import Handle
from bittern.kernels.codes import apart, plain
from bittern.kernels.matrix_product import MatrixProduct
from bittern.kernels.tiles import PAIR, ROWS, STRIP
from bittern.kernels.vector_product import VectorProduct, shared

_STRIPS = 2  # of a long block in a round
_COPIES = 9  # blocks copied in a round


class BlocksVector(VectorProduct):
    """One to four tokens."""

    def declare(self) -> None:
        """Declare q, d, sums, ds."""
        b, tile, t, n = self.b, self.tile, self.options.tokens, self.n
        self.q, self.d = b.buffer("q", "i8", t * n, "read"), b.buffer("d", "f32", t * (n // STRIP), "read")
        groups = t * (n // tile.group)
        self.s = b.buffer(tile.sums, "i32", groups, "read") if tile.needs_sums else None
        self.ds = b.buffer("ds", "f32", groups, "read") if tile.needs_ds else None

    def record(self, at: Handle, k: Handle, number: int, sums: list[Handle]) -> list[Handle]:
        """Fold the groups of a block."""
        tile, first = self.tile, number * self.tile.record_bytes
        strips, offset = tile.columns // STRIP, first + tile.head_bytes
        self.fetch(at, first, tile.head_bytes)
        heads = [self._halves(at, first, half) for half in range(2)]
        if strips == 1:
            self.fetch(at, offset, tile.strip_bytes)
            return self._strip(at, offset, k, number, heads, sums)
        with self.b.loop(0, strips, _STRIPS, *sums) as loop:
            i, *sums = loop
            place = at + i * tile.strip_bytes
            for strip in range(_STRIPS):
                self.fetch(place, offset + strip * tile.strip_bytes, tile.strip_bytes)
                here = offset + strip * tile.strip_bytes
                sums = self._strip(place, here, (k + number) * strips + i, strip, heads, sums)
            loop.carry(*sums)
        return list(loop.results)

    def _halves(self, at: Handle, first: int, half: int) -> list[Handle]:
        """Load the f16 numbers of a block of one tile as f32x16."""
        offsets = [first + 32 * (2 * i + half) for i in range(self.tile.halves)]
        return [self.w.load("f16x16", at, offset=offset).convert("f32") for offset in offsets]

    def _strip(
        self, at: Handle, offset: int, k: Handle, number: int, heads: list[list[Handle]], sums: list[Handle]
    ) -> list[Handle]:
        """Fold the groups of a strip. offset: its place after `at`; k + number: which strip of the row it is."""
        tokens, tile = self.options.tokens, self.tile
        for group, dots in enumerate(self._dots(at, offset, k, number)):
            made = []
            for half in range(2):
                scale, low = self.scales(at, offset, half, group, heads[half])
                for token in range(tokens):
                    d = self.d.load("f32", k, offset=4 * (token * (self.n // STRIP) + number)).broadcast(ROWS)
                    term = dots[half][token].convert("f32") * (scale * d)
                    if low is not None and self.ds is not None:
                        ds = self.ds.load("f32", *self._group(k, number, group, token)).broadcast(ROWS)
                        term = term + low * ds if tile.low > 0 else term - low * ds
                    made.append(sums[half * tokens + token] + term)
            sums = made
        return sums

    def _group(self, k: Handle, number: int, group: int, token: int) -> tuple[Handle, None, int]:
        """Return place, mask and offset of a number of a group of activations, 4 bytes each."""
        each = STRIP // self.tile.group
        return k * each, None, 4 * (token * (self.n // self.tile.group) + number * each + group)

    def scales(
        self, at: Handle, offset: int, half: int, group: int, head: list[Handle]
    ) -> "tuple[Handle, Handle | None]":
        """Make scale and minimum of a group of one tile, f32x16. head: the block's f16 numbers."""
        tile = self.tile
        if not tile.sides:
            return head[0], head[1] if tile.low else None
        element = "u8x16" if tile.low else "i8x16"  # scale and minimum of a strip, or scales of its two groups

        def side(i: int) -> Handle:
            return self.w.load(element, at, offset=offset + 16 * (2 * i + half)).convert("i32").convert("f32")

        if tile.low:
            return head[0] * side(0), head[1] * side(1)
        return head[0] * side(group), None

    def _dots(self, at: Handle, offset: int, k: Handle, number: int) -> list[list[list[Handle]]]:
        """Make the exact dots of a strip: of each group, each tile, each token, i32x16."""
        b, tile, tokens = self.b, self.tile, self.options.tokens
        codes = offset + PAIR * tile.sides
        each = STRIP // tile.group
        sums: dict[tuple[int, int, int, int], Handle] = {}  # group, tile, token, shift
        for group in range(each):
            for token in range(tokens):
                start = self._start(k, number, group, token)
                sums.update({(group, half, token, 0): start for half in range(2)})

        def loader(half: int) -> Callable[[int], Handle]:
            return lambda j: self.w.load("u8x64", at, offset=codes + 64 * (2 * j + half))

        for both in zip(apart(b, tile, loader(0)), apart(b, tile, loader(1)), strict=True):
            of = both[0].group
            for token in range(tokens):
                x = self._columns(k, number, of, token)
                for half, part in enumerate(both):
                    key = of * 4 // tile.group, half, token, part.shift
                    sums[key] = part.codes.dot(x, sums.get(key))
        return [
            [[_joined(sums, (group, half, token)) for token in range(tokens)] for half in range(2)]
            for group in range(each)
        ]

    def _start(self, k: Handle, number: int, group: int, token: int) -> Handle:
        """Make what a dot starts from: the sum of the activations' codes times what codes are too high by."""
        if self.s is None:
            return self.b.const("i32x16", 0)
        total = self.s.load("i32", *self._group(k, number, group, token)).broadcast(ROWS)
        return 0 - (total << self.tile.zero.bit_length() - 1)

    def _columns(self, k: Handle, number: int, group: int, token: int) -> Handle:
        """Load four activations for all rows, i8x64."""
        offset = token * self.n + STRIP * number + 4 * group
        return self.q.load("i32", k * STRIP, offset=offset).broadcast(ROWS).reinterpret("i8")


class BlocksMatrix(MatrixProduct):
    """Many tokens."""

    @property
    def copied(self) -> int:
        """Bytes of the copies of one token."""
        groups = self.n // self.tile.group * (self.tile.needs_sums + self.tile.needs_ds)
        return self.n + 4 * _padded(self.n // STRIP) + 4 * _padded(groups)

    def declare(self) -> None:
        """Declare q, d, sums, ds and their copies."""
        tile, b, t = self.tile, self.b, self.t
        self.strips, self.groups = self.n // STRIP, self.n // tile.group
        self.q, self.d = b.buffer("q", "i8", t * self.n, "read"), b.buffer("d", "f32", t * self.strips, "read")
        self.s = b.buffer(tile.sums, "i32", t * self.groups, "read") if tile.needs_sums else None
        self.ds = b.buffer("ds", "f32", t * self.groups, "read") if tile.needs_ds else None
        self.near_q = b.buffer("near_q", "i8", self.tokens * self.n, "scratch")
        self.near_d = b.buffer("near_d", "f32", self.tokens * _padded(self.strips), "scratch")
        size = self.tokens * _padded(self.groups)
        self.near_s = b.buffer("near_s", "i32", size, "scratch") if tile.needs_sums else None
        self.near_ds = b.buffer("near_ds", "f32", size, "scratch") if tile.needs_ds else None

    def gather(self, slot: Handle, token: Handle) -> None:
        """Copy codes block by block, scales and sums row by row; sums become what dots start from."""
        b, some = self.b, shared(self.strips, _COPIES)
        with b.loop(0, self.strips, some) as loop:
            (k,) = loop
            far, near = token * self.n + k * STRIP, k * (self.tokens * STRIP) + slot * STRIP
            for i in range(some):
                codes = self.q.load("i8x32", far, offset=i * STRIP)
                self.near_q.store(near, codes, offset=i * self.tokens * STRIP)
        self._row(self.d, self.near_d, "f32x16", self.strips, slot, token)
        if self.ds is not None and self.near_ds is not None:
            self._row(self.ds, self.near_ds, "f32x16", self.groups, slot, token)
        if self.s is not None and self.near_s is not None:
            shift = self.tile.zero.bit_length() - 1
            self._row(self.s, self.near_s, "i32x16", self.groups, slot, token, lambda x: 0 - (x << shift))

    def _row(
        self,
        far: View,
        near: View,
        type_: str,
        count: int,
        slot: Handle,
        token: Handle,
        change: Callable[[Handle], Handle] = lambda x: x,
    ) -> None:
        """Copy `count` numbers of a token, changed."""
        for k in range(0, count, 16):
            mask = self.b.first(count - k, 16) if count - k < 16 else None
            numbers = far.load(type_, token * count, mask, offset=4 * k)
            near.store(slot * _padded(count), change(numbers), offset=4 * k)

    def products(self, pair: Handle, half: Handle) -> list[Handle]:
        """Fold all strips of a tile of rows."""
        b, tile = self.b, self.tile
        records, strips = tile.records(self.n), tile.columns // STRIP
        base, zeros = pair * (records * tile.record_bytes), [b.const("f32x16", 0.0)] * self.tokens
        with b.loop(0, records, 1, *zeros) as loop:
            k, *sums = loop
            at = base + k * tile.record_bytes
            if strips == 1:
                loop.carry(*self._strip(at, at + tile.head_bytes, half, k, sums))
            else:
                with b.loop(0, strips, 1, *sums) as inner:
                    i, *sums = inner
                    strip = at + tile.head_bytes + i * tile.strip_bytes
                    inner.carry(*self._strip(at, strip, half, k * strips + i, sums))
                loop.carry(*inner.results)
        return list(loop.results)

    def _strip(self, at: Handle, strip: Handle, half: Handle, k: Handle, sums: list[Handle]) -> list[Handle]:
        """Fold a strip. at, strip: places of its record and of its own; k: its number in the row."""
        tile, w = self.tile, self.w
        codes = strip + half * 64

        def load(j: int) -> Handle:
            return w.load("u8x64", codes, offset=PAIR * tile.sides + 128 * j)

        found, sums = plain(self.b, tile, load), list(sums)
        for group in range(STRIP // tile.group):
            scale, low = self._scales(at + half * 32, strip + half * 16, group)
            each = tile.group // 4
            mine = found[group * each : (group + 1) * each]
            for first in range(0, self.tokens, self.together):
                slots = range(first, min(first + self.together, self.tokens))
                dots = self._dots(mine, group, k, slots)
                for slot, dot in zip(slots, dots, strict=True):
                    sums[slot] = sums[slot] + self._term(dot, scale, low, group, k, slot)
        return sums

    def _scales(self, head: Handle, sides: Handle, group: int) -> "tuple[Handle, Handle | None]":
        """Make scale and minimum of a group, f32x16."""
        tile, w = self.tile, self.w
        halves = [w.load("f16x16", head, offset=64 * i).convert("f32") for i in range(tile.halves)]
        if not tile.sides:
            return halves[0], halves[1] if tile.low else None
        element = "u8x16" if tile.low else "i8x16"
        numbers = [w.load(element, sides, offset=32 * i).convert("i32").convert("f32") for i in range(2)]
        if tile.low:
            return halves[0] * numbers[0], halves[1] * numbers[1]
        return halves[0] * numbers[group], None

    def _dots(self, codes: Sequence[Handle], group: int, k: Handle, slots: range) -> list[Handle]:
        """Make the exact dots of a group with some slots, side by side."""
        dots = [self._start(group, k, slot) for slot in slots]
        for j, code in enumerate(codes):
            for i, slot in enumerate(slots):
                offset = slot * STRIP + 4 * (group * len(codes) + j)
                x = self.near_q.load("i32", k * (self.tokens * STRIP), offset=offset).broadcast(ROWS)
                dots[i] = code.dot(x.reinterpret("i8"), dots[i])
        return dots

    def _start(self, group: int, k: Handle, slot: int) -> Handle:
        if self.near_s is None:
            return self.b.const("i32x16", 0)
        return self._number(self.near_s, "i32", self.groups, group, k, slot)

    def _number(self, near: View, type_: str, count: int, group: int, k: Handle, slot: int) -> Handle:
        """Load the number of a group and slot for all rows. count: of a row."""
        each = count // self.strips
        return near.load(type_, k * each, offset=4 * (slot * _padded(count) + group)).broadcast(ROWS)

    def _term(self, dot: Handle, scale: Handle, low: "Handle | None", group: int, k: Handle, slot: int) -> Handle:
        term = dot.convert("f32") * (scale * self._number(self.near_d, "f32", self.strips, 0, k, slot))
        if low is None or self.near_ds is None:
            return term
        ds = self._number(self.near_ds, "f32", self.groups, group, k, slot)
        return term + low * ds if self.tile.low > 0 else term - low * ds


def _joined(sums: dict[tuple[int, int, int, int], Handle], key: tuple[int, int, int]) -> Handle:
    """Add up what was summed apart, each shifted down."""
    total = sums[(*key, 0)]
    for shift in range(1, 8):
        if (*key, shift) in sums:
            total = total + (sums[(*key, shift)] >> shift)
    return total


def _padded(count: int) -> int:
    """Return the numbers of a token's row in scratch: whole vectors."""
    return -(-count // 16) * 16
