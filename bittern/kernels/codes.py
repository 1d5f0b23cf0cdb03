"""Codes of a strip, 16 rows x 32 columns, from the vectors of a tile; see `tiles`.

Two ways. Apart: what a mask alone leaves in its place, so that some codes come shifted up; products of each shift are
summed apart and shifted down once for a whole strip. That is the cheapest for one token: shifts take the place of dots.
Plain: each code in the low bits of its byte, worth it where several tokens share the codes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bittern.bitops.builder import Builder
from bittern.bitops.handle import Handle
from bittern.kernels.tiles import Tile

Load = Callable[[int], Handle]  # number of a code vector of the strip -> u8x64


@dataclass(frozen=True, slots=True)
class Part:
    """Codes of columns 4 * group to 4 * group + 3, times 2^shift. codes: u8x64, 4 bytes a row."""

    codes: Handle
    group: int
    shift: int


def apart(b: Builder, tile: Tile, load: Load) -> Iterator[Part]:
    """Make the parts of a strip by masks, vector by vector. load: the code vectors of the strip and tile."""
    if tile.high or tile.code == "bytes":
        yield from (Part(codes, group, 0) for group, codes in enumerate(plain(b, tile, load)))
        return
    bits = {"nibbles": 4, "pairs": 2}[tile.code]
    groups = 8 // bits
    for vector in range(8 // groups):
        raw = load(vector)
        for k in range(groups):
            mask = b.const("u8x64", (1 << bits) - 1 << k * bits)
            yield Part(raw & mask, groups * vector + k, k * bits)


def plain(b: Builder, tile: Tile, load: Load) -> list[Handle]:
    """Make the codes of a strip: eight u8x64, the k-th of columns 4k to 4k + 3."""
    if tile.code == "bytes":
        return [load(vector) for vector in range(8)]
    bits = {"nibbles": 4, "pairs": 2}[tile.code]
    groups, count = 8 // bits, bits
    low = [load(vector) for vector in range(count)]
    codes = [moved(b, low[k // groups], k % groups * bits, 0, bits) for k in range(8)]
    if not tile.high:
        return codes
    high = [load(count + vector) for vector in range(tile.high)]
    if tile.high == 1:
        return [code | moved(b, high[0], k, bits, 1) for k, code in enumerate(codes)]
    return [code | moved(b, high[k // 4], k % 4 * 2, bits, 2) for k, code in enumerate(codes)]


def moved(b: Builder, x: Handle, source: int, place: int, bits: int) -> Handle:
    """Move so many bits of each byte from one place to another and clear the others. x: u8x64."""
    mask = b.const("u8x64", (1 << bits) - 1 << place)
    if source == place:
        return x & mask
    wide = x.reinterpret("u16")  # machines have no shifts of bytes; the mask clears what comes over the edge
    moved = wide >> source - place if source > place else wide << place - source
    return moved.reinterpret("u8") & mask
