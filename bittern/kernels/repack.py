"""Repacking: weights as files hold them -> tiles (`tiles`). Generated code, one pass, a pair of tiles a round.

A lane is a row: four words of 16 rows are loaded as 16 vectors of 16 bytes and transposed, so that what a file keeps in
one word (4 codes, or their halves) stays in one lane. Each format has a reader that gives the codes of a strip as eight
words of 4 bytes, one byte a code; packing them is the same for all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bittern.bitops.builder import Builder, View
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels.rows import FIFTH
from bittern.kernels.tiles import PAIR, ROWS, STRIP, Tile

_ONES = 0x01010101
_HALVES = 0x0F0F0F0F
_LANES = range(0, ROWS, 4)  # first lanes of the quarters of a vector, which are transposed apart
_LOW = [k for q in _LANES for k in (q, 16 + q, q + 1, 17 + q)]
_HIGH = [k + 2 for k in _LOW]
_EVEN = [k for q in _LANES for k in (q, q + 1, 16 + q, 17 + q)]
_ODD = [k + 2 for k in _EVEN]


@dataclass(frozen=True, slots=True)
class Rows:
    """Sixteen rows of a stored matrix. place: byte of the first row. steps: where the others are.

    keep: u32x16, all bits set for rows that there are; None where all are.
    """

    view: View
    place: Handle
    steps: tuple[int, ...]
    keep: Handle | None = None

    def four(self, offset: int) -> list[Handle]:
        """Load 16 bytes of each row as four words, u32x16 each."""
        b = self.view.builder
        rows = [self.view.load("u32x4", self.place, offset=offset + step) for step in self.steps]
        w, x, y, z = (b.join(*rows[k::4]) for k in range(4))
        low, high, more, most = w.shuffle(_LOW, x), w.shuffle(_HIGH, x), y.shuffle(_LOW, z), y.shuffle(_HIGH, z)
        words = [low.shuffle(_EVEN, more), low.shuffle(_ODD, more), high.shuffle(_EVEN, most), high.shuffle(_ODD, most)]
        return words if self.keep is None else [word & self.keep for word in words]

    def words(self, offset: int, count: int) -> list[Handle]:
        """Load so many words that follow each other; count is a multiple of 4."""
        return [word for k in range(0, count, 4) for word in self.four(offset + 4 * k)]

    def one(self, offset: int, size: int = 4) -> Handle:
        """Load a word, or fewer bytes, of each row, row by row."""
        b = self.view.builder
        loaded = [self.view.load(f"u{8 * size}", self.place, offset=offset + step) for step in self.steps]
        word = b.collect(*(x if size == 4 else x.convert("u32") for x in loaded))
        return word if self.keep is None else word & self.keep


@dataclass(slots=True)
class Block:
    """A block of sixteen rows, u32x16. halves: f16 bits in the low half. codes: words, sides: bytes, both by strip."""

    halves: list[Handle]
    codes: list[list[Handle]]
    sides: list[list[Handle]] = field(default_factory=list)


def repack(tile: Tile, m: int, n: int) -> Kernel:
    """Return the kernel that packs m rows of n values. Buffers: source: the stored bytes, u8; w: tiles, u8."""
    return _Repack(tile, m, n, ("source",)).kernel()


def repack_two(tile: Tile, m: int, n: int) -> Kernel:
    """Return the kernel that packs two matrices of m rows together. Buffers: first, second: stored bytes, u8; w."""
    return _Repack(tile, m, n, ("first", "second")).kernel()


class _Repack:
    def __init__(self, tile: Tile, m: int, n: int, names: Sequence[str]) -> None:
        assert tile.fits(n), (tile.name, n)
        self.tile, self.m, self.n, self.two = tile, m, n, len(names) == 2
        b = self.b = Builder(f"repack_{tile.name}_{m}_{n}")
        self.sources = [b.buffer(name, "u8", tile.source_bytes(m, n), "read") for name in names]
        self.w = b.buffer("w", "u8", tile.packed_bytes(m, n, self.two), "write")
        self.row_bytes = tile.source_bytes(1, n)

    def kernel(self) -> Kernel:
        """Build the kernel: whole pairs, then one that is not whole."""
        b, step = self.b, ROWS if self.two else PAIR
        steps = tuple(k * self.row_bytes for k in range(ROWS))
        whole = self.m // step
        if whole:
            with b.parallel(0, whole) as pair:
                if self.two:
                    for half, view in enumerate(self.sources):
                        self._tile(pair, b.index(half), Rows(view, pair * (ROWS * self.row_bytes), steps))
                else:
                    with b.loop(0, 2) as loop:
                        (which,) = loop
                        place = pair * (PAIR * self.row_bytes) + which * (ROWS * self.row_bytes)
                        self._tile(pair, which, Rows(self.sources[0], place, steps))
        if self.m % step:
            with b.parallel(0, 1):
                for half in range(2):
                    view = self.sources[half if self.two else 0]
                    rows = self._last(view, whole * step + (0 if self.two else half * ROWS))
                    self._tile(b.index(whole), b.index(half), rows)
        return b.build()

    def _last(self, view: View, row: int) -> Rows:
        """Return the rows of a tile that may pass the last row: those read it again, and are cleared."""
        first = min(row, self.m - 1)
        steps = tuple((min(row + k, self.m - 1) - first) * self.row_bytes for k in range(ROWS))
        keep = self.b.const("u32x16", [0xFFFFFFFF if row + k < self.m else 0 for k in range(ROWS)])
        return Rows(view, self.b.index(first * self.row_bytes), steps, keep)

    def _tile(self, pair: Handle, half: Handle, rows: Rows) -> None:
        base = pair * (self.tile.records(self.n) * self.tile.record_bytes)
        {"blocks": self._blocks, "floats": self._floats, "rows": self._integers, "binary": self._words}[
            self.tile.family
        ](base, half, rows)

    # --- blocks

    def _blocks(self, base: Handle, half: Handle, rows: Rows) -> None:
        tile = self.tile
        with self.b.loop(0, tile.records(self.n)) as loop:
            (k,) = loop
            block = _READERS[tile.name](replace(rows, place=rows.place + k * tile.stored))
            self._store(base + k * tile.record_bytes, half, block)

    def _store(self, at: Handle, half: Handle, block: Block) -> None:
        tile, w = self.tile, self.w
        heads, sides, vectors = (at + half * size for size in (32, ROWS, 64))
        for i, number in enumerate(block.halves):
            w.store(heads, number.wrap("u16"), offset=64 * i)
        for strip, codes in enumerate(block.codes):
            offset = tile.head_bytes + strip * tile.strip_bytes
            for i, side in enumerate(block.sides[strip] if block.sides else []):
                w.store(sides, side.wrap("u8"), offset=offset + 2 * ROWS * i)
            for j, vector in enumerate(_packed(tile, codes)):
                w.store(vectors, vector, offset=offset + PAIR * tile.sides + 128 * j)

    # --- floats

    def _floats(self, base: Handle, half: Handle, rows: Rows) -> None:
        size, width = self.tile.record_bytes, self.tile.stored
        base = base + half * (ROWS * width)
        each = 16 // width  # columns of four words
        whole = self.n // each * each
        if whole:
            with self.b.loop(0, whole, each) as loop:
                (k,) = loop
                words = replace(rows, place=rows.place + k * width).four(0)
                numbers = words if width == 4 else [(x >> s).wrap("u16") for x in words for s in (0, 16)]
                for i, number in enumerate(numbers):
                    self.w.store(base + k * size, number, offset=i * size)
        for column in range(whole, self.n):
            number = rows.one(column * width, width)
            self.w.store(base, number if width == 4 else number.wrap("u16"), offset=column * size)

    # --- rows of small integers

    def _integers(self, base: Handle, half: Handle, rows: Rows) -> None:
        width = self.tile.width
        base, whole = base + half * 64, self.n // width
        step = 4 if width == 4 and whole % 4 == 0 else 1  # records whose words are loaded together
        with self.b.loop(0, whole, step) as loop:
            (k,) = loop
            here = replace(rows, place=rows.place + k * width)
            words = here.four(0) if step == 4 else _columns(here, width)
            each = len(words) // step
            for i in range(step):
                self.w.store(base + k * 128, _row_codes(self.tile, words[i * each : (i + 1) * each]), offset=i * 128)
        if self.n % width:
            words = [rows.one(whole * width + 4 * i) for i in range(self.n % width // 4)]
            self.w.store(base, _row_codes(self.tile, words), offset=whole * 128)

    # --- words of signs

    def _words(self, base: Handle, half: Handle, rows: Rows) -> None:
        size, count = self.tile.record_bytes, self.tile.records(self.n)
        base = base + half * (size // 2)
        with self.b.loop(0, count // 2 * 2, 2) as loop:
            (k,) = loop
            words = replace(rows, place=rows.place + k * 8).four(0)
            for i in range(2):
                self._word(base + k * size, i * size, *words[2 * i : 2 * i + 2])
        if count % 2:
            last = 8 * (count - 1)
            self._word(base, (count - 1) * size, rows.one(last), rows.one(last + 4))

    def _word(self, at: Handle, offset: int, low: Handle, high: Handle) -> None:
        """Store a word of each row from its halves."""
        for i in range(2):
            picks = [lane for k in range(8 * i, 8 * i + 8) for lane in (k, ROWS + k)]
            self.w.store(at, low.shuffle(picks, high), offset=offset + 64 * i)


def _columns(rows: Rows, width: int) -> list[Handle]:
    """Load the columns of a record as words of 4."""
    if width == 4:
        return [rows.one(0)]
    return rows.words(0, 4 * (width // 16)) + ([rows.four(4)[3]] if width == 20 else [])


def _row_codes(tile: Tile, words: Sequence[Handle]) -> Handle:
    """Pack the columns of a record, or of what there is of it. words: u32x16, four i8 each."""
    if tile.code == "bytes":
        return words[0] ^ 0x80 * _ONES
    if tile.code == "bits":
        return _joined([(~word >> 7 & _ONES) << i for i, word in enumerate(words)])
    codes = [(word.reinterpret("u8") + 1).reinterpret("u32") for word in words]
    if tile.code == "pairs":
        return _joined([code << 2 * i for i, code in enumerate(codes)])
    total = codes[0]
    for code, power in zip(codes[1:], (3, 9, 27, FIFTH), strict=False):
        total = total + code * power  # at most 250 in each byte: nothing is carried
    return total


def _joined(parts: Sequence[Handle]) -> Handle:
    total = parts[0]
    for part in parts[1:]:
        total = total | part
    return total


def _packed(tile: Tile, codes: Sequence[Handle]) -> list[Handle]:
    """Pack the codes of a strip. codes: eight u32x16, a byte a code. -> the code vectors, u32x16."""
    if tile.code == "bytes":
        return list(codes)
    low = [code & _HALVES for code in codes] if tile.high else codes
    bits = {"nibbles": 4, "pairs": 2}[tile.code]
    groups = 8 // bits
    made = [_joined([low[groups * j + i] << bits * i for i in range(groups)]) for j in range(bits)]
    if tile.high == 1:
        made.append(_joined([(code >> 4 & _ONES) << j for j, code in enumerate(codes)]))
    if tile.high == 2:
        top = [code >> 4 & 3 * _ONES for code in codes]
        made += [_joined([top[4 * j + i] << 2 * i for i in range(4)]) for j in range(2)]
    return made


# --- readers: one a format


def _nibbles(words: Sequence[Handle]) -> list[Handle]:
    """Return the low halves of all bytes, then the high halves."""
    return [word & _HALVES for word in words] + [word >> 4 & _HALVES for word in words]


def _fives(bits: Handle, words: Sequence[Handle]) -> list[Handle]:
    """Return codes of five bits. bits: u32x16, bit i is the fifth of code i. words: four, of low halves."""
    return [code | _spread(bits >> 4 * j & 15) << 4 for j, code in enumerate(_nibbles(words))]


def _spread(x: Handle) -> Handle:
    """Move bit i to bit 8 i, for four bits."""
    return x * 0x00204081 & _ONES


def _after(low: Handle, high: Handle) -> Handle:
    """Return the word that starts in the middle of a word. high: the word behind it."""
    return low >> 16 | high << 16


def _q4_0(rows: Rows) -> Block:
    return Block([rows.four(0)[0]], [_nibbles(rows.four(2))])


def _q4_1(rows: Rows) -> Block:
    both = rows.four(0)[0]
    return Block([both, both >> 16], [_nibbles(rows.four(4))])


def _q5_0(rows: Rows) -> Block:
    first, second, *_ = rows.four(0)
    return Block([first], [_fives(_after(first, second), rows.four(6))])


def _q5_1(rows: Rows) -> Block:
    both, bits, *_ = rows.four(0)
    return Block([both, both >> 16], [_fives(bits, rows.four(8))])


def _q8_0(rows: Rows) -> Block:
    return Block([rows.four(0)[0]], [[word ^ 0x80 * _ONES for word in rows.words(2, 8)]])


def _head_of_k(rows: Rows) -> tuple[list[Handle], list[list[Handle]]]:
    """Return both scales, and the eight 6-bit scales and minima, of Q4_K and Q5_K; see `scales_of_8` in the library."""
    both, scale, low, upper = rows.four(0)

    def six(first: Handle, place: int) -> list[Handle]:
        near = [first >> 8 * g & 63 for g in range(4)]
        far = [upper >> 8 * g + place & 15 | (first >> 8 * g + 6 & 3) << 4 for g in range(4)]
        return near + far

    return [both, both >> 16], [list(pair) for pair in zip(six(scale, 0), six(low, 4), strict=True)]


def _groups_of_k(rows: Rows, place: int) -> list[list[Handle]]:
    """Return the low halves of eight groups: 32 bytes hold one in their low, the next in their high halves."""
    made = []
    for chunk in range(4):
        codes = _nibbles(rows.words(place + 32 * chunk, 8))
        made += [codes[:8], codes[8:]]
    return made


def _q4_k(rows: Rows) -> Block:
    halves, sides = _head_of_k(rows)
    return Block(halves, _groups_of_k(rows, 16), sides)


def _q5_k(rows: Rows) -> Block:
    (halves, sides), high = _head_of_k(rows), rows.words(16, 8)
    codes = [
        [code | (bits >> g & _ONES) << 4 for code, bits in zip(group, high, strict=True)]
        for g, group in enumerate(_groups_of_k(rows, 48))
    ]
    return Block(halves, codes, sides)


def _q6_k(rows: Rows) -> Block:
    codes = []
    for half in range(2):
        low = _nibbles(rows.words(64 * half, 16))  # 64 codes, then 64
        high = rows.words(128 + 32 * half, 8)
        for i in range(4):
            group = low[8 * i : 8 * i + 8]
            codes.append([code | (bits >> 2 * i & 3 * _ONES) << 4 for code, bits in zip(group, high, strict=True)])
    words = rows.four(192)
    scales = [words[k // 4] >> 8 * (k % 4) & 255 for k in range(16)]
    return Block([rows.four(194)[3] >> 16], codes, [scales[2 * strip : 2 * strip + 2] for strip in range(8)])


def _tq2_0(rows: Rows) -> Block:
    codes = []
    for half in range(2):
        words = rows.words(32 * half, 8)
        codes += [[word >> 2 * i & 3 * _ONES for word in words] for i in range(4)]
    return Block([rows.four(50)[3] >> 16], codes)


def _tq1_0(rows: Rows) -> Block:
    """Ternary digits of a byte, highest first: digit k of x is (x * 3^k mod 256) * 3 / 256."""
    words, (*_, before, last) = rows.words(0, 12), rows.four(38)
    words.append(_after(before, last))  # bytes 48 to 51
    codes: list[Handle] = []
    for first, count, digits in ((0, 8, 5), (8, 4, 5), (12, 1, 4)):
        codes += [_digit(word, 3**k) for k in range(digits) for word in words[first : first + count]]
    return Block([last >> 16], [codes[8 * strip : 8 * strip + 8] for strip in range(256 // STRIP)])


def _digit(word: Handle, power: int) -> Handle:
    even, odd = word & 0x00FF00FF, word >> 8 & 0x00FF00FF

    def digit(x: Handle) -> Handle:
        return (x.reinterpret("u16") * power & 255) * 3 >> 8

    return digit(even).reinterpret("u32") | digit(odd).reinterpret("u32") << 8


_READERS: Mapping[str, Callable[[Rows], Block]] = {
    "q4_0": _q4_0,
    "q4_1": _q4_1,
    "q5_0": _q5_0,
    "q5_1": _q5_1,
    "q8_0": _q8_0,
    "q4_k": _q4_k,
    "q5_k": _q5_k,
    "q6_k": _q6_k,
    "tq1_0": _tq1_0,
    "tq2_0": _tq2_0,
}
