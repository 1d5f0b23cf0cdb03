"""The largest of many results and where it is, found while they are made: the last product of greedy decoding.

The lowest index wins ties, NaN loses to everything; of nothing but NaNs the index is 0 (the op `argmax`). A lane keeps
the best of its rows; what it compares in is free, because the order (value, then index) is total on numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bittern.bitops.builder import Builder, View
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels.tiles import ROWS

_NONE = 2**32 - 1  # an index that no result has


@dataclass(frozen=True, slots=True)
class Found:
    """The best so far and where, a lane each."""

    value: Handle
    index: Handle

    def against(self, other: "Found", mask: Handle | None = None) -> "Found":
        """Return the better one in each lane; other counts where the mask is set."""
        b = self.value.builder
        wins = (self.value < other.value) | (self.value.eq(other.value) & (other.index < self.index))
        wins = wins if mask is None else wins & mask
        return Found(b.select(wins, other.value, self.value), b.select(wins, other.index, self.index))

    def one(self) -> "Found":
        """Return the best of all lanes, a scalar each."""
        best = self
        while not best.value.type.is_scalar:
            half = best.value.type.count // 2
            best = best.part(0, half).against(best.part(half, half))
        return best

    def part(self, first: int, count: int) -> "Found":
        """Return some lanes."""
        return Found(self.value.part(first, count), self.index.part(first, count))


def nothing(b: Builder) -> Found:
    """Make what everything but NaN is better than, or as good with a lower index."""
    return Found(b.const(f"f32x{ROWS}", -float("inf")), b.const(f"u32x{ROWS}", _NONE))


def candidates(row: Handle, product: Handle) -> Found:
    """Number results from `row` on."""
    b = row.builder
    iota = b.const(f"u32x{ROWS}", list(range(ROWS)))
    return Found(product, row.wrap("u32").broadcast(ROWS) + iota)


def store(best: View, index: View, place: Handle, offset: int, found: Sequence[Found]) -> None:
    """Store the best of all lanes of each, `offset` bytes apart."""
    for k, each in enumerate(found):
        one = each.one()
        best.store(place, one.value, offset=k * offset)
        index.store(place, one.index, offset=k * offset)


def pick(rounds: int, tokens: int = 1) -> Kernel:
    """Return the kernel that ends a search: best: f32 [tokens, rounds], index: u32 [tokens, rounds] -> y: u32 [tokens].

    The whole of it is one round: the last thread runs it.
    """
    b = Builder(f"pick_{rounds}_{tokens}")
    best, index = b.buffer("best", "f32", tokens * rounds, "read"), b.buffer("index", "u32", tokens * rounds, "read")
    y = b.buffer("y", "u32", tokens, "write")
    with b.parallel(0, tokens) as token:
        start = nothing(b)
        with b.loop(0, rounds, ROWS, start.value, start.index) as loop:
            k, value, where = loop
            mask = b.first(b.index(rounds) - k, ROWS) if rounds % ROWS else None
            place = token * rounds + k
            other = Found(best.load(f"f32x{ROWS}", place, mask), index.load(f"u32x{ROWS}", place, mask))
            found = Found(value, where).against(other, mask)
            loop.carry(found.value, found.index)
        one = Found(*loop.results).one()
        y.store(token, b.select(one.index.eq(_NONE), 0, one.index))
    return b.build()
