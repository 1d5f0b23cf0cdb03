"""Keys and values into the cache of one layer: `CacheShape` is how it lies in memory.

| builder | buffers in order: element, size, access |
|---|---|
| `store_rows(shape)` | k, v f32[t g h] read, seq, pos u32[t] read, then the cache |
| `rotary_store(shape, turn, r)` | qkv f32[t (g r + 2 g) h], seq, pos u32[t], cos, sin f32[context h/2] read, then |
| | queries f32[t g r h] write, then the cache |
| .. `turn.eps` set | q_gain, k_gain f32[h] read after sin |
| .. `joined=False` | q_in f32[t g r h], k_in, v_in f32[t g h] read in the place of qkv |

The cache of one layer, in this order, `update`: k, v of the element; with i8 also kd, vd f32 (scales of blocks of 32).
(The caller passes the addresses of the layer's part of each.)

| `tiles` | k | v | kd | vd |
|---|---|---|---|---|
| False: the graph's order | [s, c, g, h] | [s, c, g, h] | [s, c, g, h/32] | [s, c, g, h/32] |
| True | [s, g, C/16, h, 16] | [s, g, c, h] | [s, g, C/16, h/32, 16] | as kd |
| True, k of i8 | [s, g, C/16, h/4, 16, 4] | | | |

C is c rounded up to a multiple of 64 (`tile_positions`); what lies behind c is never meant. In tiles a score needs no
transposition: a lane is a position. Both orders hold equal numbers; rearranging is a copy. Attention over the graph's
order needs c to be a multiple of 64.

A sequence or a position outside of the cache is not written; of tokens at equal places the last one stays (rounds are
parallel over tokens only where `split`, which then needs different places; otherwise each thread stores all).
f16 rounds to nearest even, i8 quantises blocks of 32. Definitions: std/attention.btn, std/rotary.btn.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from bittern.bitops.builder import Builder, View
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels import rotary
from bittern.kernels.elementwise import rounds
from bittern.kernels.quantise import block_codes

Pieces = Sequence[tuple[int, Handle]]  # first value of a head, lanes


@dataclass(frozen=True, slots=True)
class CacheShape:
    """Sizes of one layer's cache. element: f16, f32 or i8. s: sequences, c: positions, g: key heads, h: of a head."""

    element: str
    s: int
    c: int
    g: int
    h: int
    tiles: bool = False

    @property
    def tile_positions(self) -> int:
        """Positions that tiles have room for."""
        return -(-self.c // 64) * 64

    @property
    def blocks(self) -> int:
        """Scales of a head and position."""
        return self.h // 32 if self.element == "i8" else 0

    def sizes(self) -> dict[str, int]:
        """Return the elements of each buffer."""
        heads = self.s * self.g
        k = heads * (self.tile_positions if self.tiles else self.c) * self.h
        found = {"k": k, "v": heads * self.c * self.h}
        if self.blocks:
            scales = heads * (self.tile_positions if self.tiles else self.c) * self.blocks
            found |= {"kd": scales, "vd": scales}
        return found

    def declare(self, b: Builder, access: str) -> "Cache":
        """Declare the buffers."""
        element = {"k": self.element, "v": self.element, "kd": "f32", "vd": "f32"}
        made = {name: b.buffer(name, element[name], size, access) for name, size in self.sizes().items()}
        return Cache(self, made["k"], made["v"], made.get("kd"), made.get("vd"))


@dataclass(frozen=True, slots=True)
class Cache:
    """The buffers of one layer."""

    shape: CacheShape
    k: View
    v: View
    kd: "View | None"
    vd: "View | None"

    def row(self, seq: Handle, pos: Handle, head: Handle) -> Handle:
        """Return the number of a head's row in the graph's order; of v also in tiles."""
        n = self.shape
        if n.tiles:
            return (seq * n.g + head) * n.c + pos
        return (seq * n.c + pos) * n.g + head

    def tile(self, seq: Handle, head: Handle, tile: Handle) -> Handle:
        """Return the number of a tile of 16 positions."""
        n = self.shape
        return (seq * n.g + head) * (n.tile_positions // 16) + tile

    def put(self, b: Builder, seq: Handle, pos: Handle, head: Handle, k: Pieces, v: Pieces) -> None:
        """Emit the storing of a head's key and value. seq, pos: proven inside."""
        row = self.row(seq, pos, head)
        last = self.shape.tile_positions // 16 - 1
        tile = (self.tile(seq, head, (pos // 16).min(last)), pos % 16) if self.shape.tiles else None
        for name, pieces in (("k", k), ("v", v)):
            if self.shape.element == "i8":
                self._put_codes(b, name, row, tile, pieces)
            elif tile is not None and name == "k":
                self._put_lane(b, *tile, [(first, self._kept(x)) for first, x in pieces])
            else:
                for first, x in pieces:
                    (self.k if name == "k" else self.v).store(row * self.shape.h + first, self._kept(x))

    def _kept(self, x: Handle) -> Handle:
        return x.round("f16") if self.shape.element == "f16" else x

    def _put_lane(self, b: Builder, tile: Handle, lane: Handle, pieces: Pieces) -> None:
        """Store a key as one lane of a tile: through scratch, a number at a time."""
        h, word = self.shape.h, {"f16": "u16", "f32": "u32", "i8": "u32"}[self.shape.element]
        each = 4 if self.shape.element == "i8" else 1
        name = "lane"
        held = next((View(b, x) for x in b.buffers if x.name == name), None)
        held = held or b.buffer(name, self.shape.element, h, "scratch")
        for first, x in pieces:
            held.store(first, x)
        unroll = 8 if (h // each) % 8 == 0 else 4
        with b.loop(0, h // each, unroll) as loop:
            (d,) = loop
            loop.carry()
            for k in range(unroll):
                x = held.load(word, (d + k) * each)
                self.k.store(((tile * (h // each) + d + k) * 16 + lane) * each, x)

    def _put_codes(
        self, b: Builder, name: str, row: Handle, tile: "tuple[Handle, Handle] | None", pieces: Pieces
    ) -> None:
        """Quantise a head and store its codes and scales."""
        n, scales = self.shape, self.kd if name == "k" else self.vd
        assert scales is not None
        found: list[tuple[int, Handle]] = []
        for j in range(n.blocks):
            low, high = (_sixteen(b, pieces, 32 * j + at) for at in (0, 16))
            codes, d = block_codes(b, low, high)
            at = row * n.blocks + j if tile is None else (tile[0] * n.blocks + j) * 16 + tile[1]
            scales.store(at, d)
            found += [(32 * j + 16 * i, code) for i, code in enumerate(codes)]
        if name == "k" and tile is not None:
            self._put_lane(b, *tile, found)
            return
        for first, code in found:
            (self.k if name == "k" else self.v).store(row * n.h + first, code)


def _sixteen(b: Builder, pieces: Pieces, first: int) -> Handle:
    """Return 16 values of a head as one vector."""
    lanes = pieces[0][1].type.count
    parts = [x for at, x in pieces if first <= at < first + 16]
    assert len(parts) * lanes == 16, (lanes, first)
    return parts[0] if len(parts) == 1 else b.join(*parts)


@contextmanager
def inside(b: Builder, shape: CacheShape, seq: Handle, pos: Handle) -> "Iterator[tuple[Handle, Handle]]":
    """Do something only for a token that the cache has room for; give its place as two indices. seq, pos: u32."""
    with b.when((seq < shape.s) & (pos < shape.c)):
        yield seq.convert("index"), pos.convert("index")


def _place(
    b: Builder, shape: CacheShape, seq: View, pos: View, token: Handle
) -> "AbstractContextManager[tuple[Handle, Handle]]":
    return inside(b, shape, seq.load("u32", token), pos.load("u32", token))


def store_rows(shape: CacheShape, *, split: bool = True) -> Kernel:
    """Build the storing of t tokens; see the module."""
    b = Builder("store_rows", ("t",))
    (t,) = b.dims
    g, h = shape.g, shape.h
    k, v = b.buffer("k_in", "f32", t * (g * h), "read"), b.buffer("v_in", "f32", t * (g * h), "read")
    seq, pos = b.buffer("seq", "u32", t, "read"), b.buffer("pos", "u32", t, "read")
    cache = shape.declare(b, "update")
    with rounds(b, t, split) as i, _place(b, shape, seq, pos, i) as (s, p), b.loop(0, g) as loop:
        (head,) = loop
        loop.carry()
        start = (i * g + head) * h
        cache.put(b, s, p, head, vectors(k, start, h), vectors(v, start, h))
    return b.build()


def vectors(x: View, start: Handle, h: int) -> Pieces:
    """Emit the loads of a head."""
    return [(first, x.load("f32x16", start + first)) for first in range(0, h, 16)]


@dataclass(frozen=True, slots=True)
class Heads:
    """Where the queries, keys and values of t tokens stand. q, k, v: the buffer, values of a token, first value."""

    q: tuple[View, int, int]
    k: tuple[View, int, int]
    v: tuple[View, int, int]

    @classmethod
    def declare(cls, b: Builder, g: int, r: int, h: int, joined: bool) -> "Heads":
        """Declare one buffer for all, or three."""
        (t,) = b.dims
        if joined:
            row = (g * r + 2 * g) * h
            x = b.buffer("qkv", "f32", t * row, "read")
            return cls((x, row, 0), (x, row, g * r * h), (x, row, (g * r + g) * h))
        q = b.buffer("q_in", "f32", t * (g * r * h), "read")
        k, v = (b.buffer(name, "f32", t * (g * h), "read") for name in ("k_in", "v_in"))
        return cls((q, g * r * h, 0), (k, g * h, 0), (v, g * h, 0))


def at_head(part: tuple[View, int, int], token: Handle, head: Handle, h: int) -> tuple[View, Handle]:
    """Return the buffer and place of a token's head."""
    view, row, first = part
    return view, token * row + head * h + first


def rotary_store(shape: CacheShape, turn: rotary.Turn, r: int, *, joined: bool = True, split: bool = True) -> Kernel:
    """Build the turn of queries and keys and the storing of keys and values; see the module."""
    b = Builder("rotary_store", ("t",))
    (t,) = b.dims
    g, h = shape.g, shape.h
    heads = Heads.declare(b, g, r, h, joined)
    seq, pos = b.buffer("seq", "u32", t, "read"), b.buffer("pos", "u32", t, "read")
    table = rotary.Table.declare(b, turn)
    gains = head_gains(b, turn)
    q = b.buffer("queries", "f32", t * (g * r * h), "write")
    cache = shape.declare(b, "update")
    with rounds(b, t, split) as i:
        where = seq.load("u32", i), pos.load("u32", i)
        angles = rotary.angles_of(b, turn, table, where[1])
        with b.loop(0, g * r) as loop:
            (head,) = loop
            loop.carry()
            put_query(b, turn, angles, at_head(heads.q, i, head, h), gains[0], q, (i * (g * r) + head) * h)
        with inside(b, shape, *where) as (s, p), b.loop(0, g) as loop:
            (head,) = loop
            loop.carry()
            put_key(b, turn, angles, heads, i, head, gains[1], cache, s, p)
    return b.build()


def head_gains(b: Builder, turn: rotary.Turn) -> "tuple[View | None, View | None]":
    """Declare the gains of the norms within heads, if there are any."""
    if turn.eps is None:
        return None, None
    return b.buffer("q_gain", "f32", turn.h, "read"), b.buffer("k_gain", "f32", turn.h, "read")


def put_query(
    b: Builder,
    turn: rotary.Turn,
    angles: rotary.Angles,
    source: tuple[View, Handle],
    gain: "View | None",
    q: View,
    to: Handle,
) -> None:
    """Emit the turn of one query head into q."""
    for first, x in rotary.turn_head(b, turn, angles, rotary.load_from(*source), gain):
        q.store(to + first, x * turn.scale if turn.scale != 1.0 else x)


def put_key(
    b: Builder,
    turn: rotary.Turn,
    angles: rotary.Angles,
    heads: Heads,
    token: Handle,
    head: Handle,
    gain: "View | None",
    cache: Cache,
    seq: Handle,
    pos: Handle,
) -> None:
    """Emit the turn of one key head and the storing of key and value. seq, pos: proven inside."""
    h = turn.h
    key = rotary.turn_head(b, turn, angles, rotary.load_from(*at_head(heads.k, token, head, h)), gain)
    cache.put(b, seq, pos, head, key, vectors(*at_head(heads.v, token, head, h), h))
