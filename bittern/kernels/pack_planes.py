"""Packing: numbers of one to a few bits, stored one to a byte, to planes of bits, 64 channels to a word.

Weights go to the tiles of `window_product`: [tiles, taps, words, planes, 2, 8] words, a lane a row. Values of places go
to [places, planes, words]. Bits above the channels are 0, so they count nothing.
"""

from collections.abc import Sequence

from bittern.bitops.builder import Builder, View
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels.sign_product import weight_planes
from bittern.kernels.window_results import VECTORS, words
from bittern.types.dims import dim

_LANES = 8


def pack_planes(m: int, taps: int, channels: int, weights: str) -> Kernel:
    """Return the kernel that packs weights. Buffers: source: u8 [m, taps, channels], the stored bytes; w: u64."""
    planes, rows = weight_planes(weights), VECTORS * _LANES
    count = -(-m // rows)
    b = Builder(f"pack_{weights}_{m}_{taps}_{channels}")
    source = b.buffer("source", "u8", m * taps * channels, "read")
    w = b.buffer("w", "u64", count * taps * words(channels) * planes * rows, "write")
    size = planes * rows

    def tile(number: Handle, there: Sequence[int]) -> None:
        """Pack a tile. there: its rows, counted from its first; what is missing is 0."""
        with b.loop(0, taps) as loop:
            (tap,) = loop
            for word in range(words(channels)):
                to = ((number * taps + tap) * words(channels) + word) * size
                loaded = [
                    _word(source, ((number * rows + row) * taps + tap) * channels, word, channels)
                    if row in there
                    else None
                    for row in range(rows)
                ]
                zero = b.const("u64", 0)
                found = [_bits(weights, each) if each is not None else [zero] * planes for each in loaded]
                for plane in range(planes):
                    for v in range(VECTORS):
                        lanes = [each[plane] for each in found[v * _LANES : (v + 1) * _LANES]]
                        w.store(to, b.collect(*lanes), offset=64 * (plane * VECTORS + v))

    if m // rows:
        with b.parallel(0, m // rows) as number:
            tile(number, range(rows))
    if m % rows:
        with b.parallel(0, 1):
            tile(b.index(m // rows), range(m % rows))
    return b.build()


def _word(source: View, place: Handle, word: int, channels: int) -> Handle:
    """Load 64 channels, or what there is of them."""
    b, left = source.builder, channels - 64 * word
    mask = b.first(b.index(left), 64) if left < 64 else None
    return source.load("u8x64", place, mask, offset=64 * word)


def _bits(weights: str, codes: Handle) -> list[Handle]:
    """Return the words of each plane of 64 stored bytes."""
    signed = codes.reinterpret("i8")
    if weights == "signs":
        return [(signed > 0).mask_word()]
    if weights == "ternary":
        return [(signed > 0).mask_word(), signed.ne(0).mask_word()]
    return [(codes & (1 << plane)).ne(0).mask_word() for plane in range(int(weights[1:]))]


def pack_values(element: str, channels: int, tests: Sequence[tuple[str, int]], places: int | None) -> Kernel:
    """Return the kernel that packs values of places.

    element: u8 or i8, as they are stored. tests: for each plane `ge` and the least value that has the bit, or the
    number of a bit of value - `offset`, as `bit k` and the offset. places: how many; None makes them the symbol `t`.
    Buffers: x: [places, channels], y: u64 [places, planes, words].
    """
    b = Builder(f"pack_{element}_{channels}", () if places is not None else ("t",))
    count = dim(places) if places is not None else b.dims[0]
    x = b.buffer("x", element, count * channels, "read")
    span = len(tests) * words(channels)
    y = b.buffer("y", "u64", count * span, "write")
    with b.parallel(0, count) as place:
        whole, left = divmod(channels, 64)
        if whole:
            with b.loop(0, whole) as loop:
                (word,) = loop
                codes = x.load(f"{element}x64", place * channels + word * 64)
                for plane, test in enumerate(tests):
                    y.store(place * span + word, _tested(codes, test), offset=8 * plane * words(channels))
        if left:
            codes = x.load(f"{element}x64", place * channels, b.first(b.index(left), 64), offset=64 * whole)
            for plane, test in enumerate(tests):
                bits = _tested(codes, test) & ((1 << left) - 1)
                y.store(place * span, bits, offset=8 * (plane * words(channels) + whole))
    return b.build()


def _tested(codes: Handle, test: tuple[str, int]) -> Handle:
    kind, number = test
    if kind == "ge":
        return (codes >= number).mask_word()
    moved = codes - number if number else codes
    return (moved.reinterpret("u8") & (1 << int(kind.removeprefix("bit ")))).ne(0).mask_word()
