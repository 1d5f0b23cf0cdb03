"""The table of tiles: sizes, and what it says of formats."""

import numpy as np
import pytest
from block_formats import FORMATS as LAYOUTS

from bittern.bitops.builder import Builder
from bittern.bitops.handle import Handle
from bittern.bitops.interpret import interpret
from bittern.kernels.codes import apart, plain
from bittern.kernels.tiles import TILES, Tile, pairs
from bittern.types.elements import FORMATS

BLOCKS = sorted(name for name, tile in TILES.items() if tile.family == "blocks")


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_are_those_of_the_format(name: str) -> None:
    tile, layout = TILES[name], LAYOUTS[name]
    assert (tile.columns, tile.stored) == (FORMATS[name].columns, FORMATS[name].bytes) == (layout.columns, layout.size)
    assert tile.group == layout.group and tile.halves == len(layout.halves)


# bits of a weight, as measured kernels need them; 16-bit scales, widened 6-bit scales included
BITS = {
    "q4_0": 4.5,
    "q4_1": 5.0,
    "q5_0": 5.5,
    "q5_1": 6.0,
    "q8_0": 8.5,
    "q4_k": 4.625,
    "q5_k": 5.625,
    "q6_k": 6.5625,
    "tq1_0": 2.0625,
    "tq2_0": 2.0625,
    "f16": 16.0,
    "bf16": 16.0,
    "f32": 32.0,
    "ternary": 2.0,
    "trits": 1.6,
    "signs": 1.0,
    "int8": 8.0,
    "binary": 1.0,
}


def test_packed_sizes() -> None:
    m, n = 64, 1280
    assert {name: 8 * tile.packed_bytes(m, n) / (m * n) for name, tile in TILES.items()} == BITS
    for tile in TILES.values():
        assert tile.record_bytes % 64 == 0, tile.name
        assert tile.packed_bytes(33, n) == tile.packed_bytes(64, n) == tile.packed_bytes(32, n, two=True)


def test_pairs() -> None:
    assert [pairs(m) for m in (1, 32, 33)] == [1, 1, 2]
    assert [pairs(m, two=True) for m in (1, 16, 17)] == [1, 1, 2]


def test_rows_that_fit() -> None:
    assert TILES["q4_0"].fits(96) and not TILES["q4_0"].fits(48)
    assert TILES["q6_k"].fits(512) and not TILES["q6_k"].fits(96)
    assert TILES["f16"].fits(7) and TILES["ternary"].fits(44) and not TILES["ternary"].fits(42)


def test_inputs_are_named() -> None:
    assert TILES["q4_0"].inputs == ("q", "d", "s") and TILES["q4_1"].inputs == ("q", "d", "ds")
    assert TILES["q6_k"].inputs == ("q", "d", "s16") and TILES["bf16"].inputs == ("x",)
    assert TILES["ternary"].inputs == ("scale", "q", "d", "s")


@pytest.mark.parametrize("name", BLOCKS)
def test_codes_apart_are_the_plain_ones_shifted(name: str) -> None:
    """Both ways read the same codes from the same vectors, each below the format's limit."""
    tile = TILES[name]
    b = Builder("codes")
    w, y = b.buffer("w", "u8", 64 * tile.vectors, "read"), b.buffer("y", "u8", 64 * 16, "write")

    def load(j: int) -> Handle:
        return w.load("u8x64", 64 * j)

    for k, code in enumerate(plain(b, tile, load)):
        y.store(64 * k, code)
    shifts = {}
    for part in apart(b, tile, load):
        y.store(64 * (8 + part.group), part.codes)
        shifts[part.group] = part.shift
    data = np.random.default_rng(1).integers(0, 256, 64 * tile.vectors, dtype=np.uint8)
    out = np.zeros(64 * 16, np.uint8)
    interpret(b.build(), {"w": data, "y": out})
    whole, parted = out.reshape(2, 8, 64)
    assert sorted(shifts) == list(range(8))
    assert all((parted[group] >> shift == whole[group]).all() for group, shift in shifts.items())
    assert whole.max() == limit(tile)


def limit(tile: Tile) -> int:
    """The largest code."""
    bits = {"bytes": 8, "nibbles": 4, "pairs": 2}[tile.code] + tile.high
    return int(2**bits - 1)
