"""Rows of an embedding as numbers, from the weights as a GGUF file holds them.

| builder | buffers in order: element, size, access |
|---|---|
| `embed_rows(name, m, n)` | w u8[m * bytes of a row] read, token u32[t] read, x f32[t n] write |
| .. name `f32` `f16` `bf16` | w of that element, [m n] |

`factor` (Gemma): each value times it, one more rounding. One symbol `t`, the number of tokens, over which rounds are
parallel. n is a multiple of the format's block (of 16 for floats). A token beyond m reads the last row.
Definitions: `embed` of std/products/*.btn; layouts are told there.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from bittern.bitops.builder import Builder, View
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels.elementwise import LANES, rounds

_FLOATS = ("f32", "f16", "bf16")
_Values = Iterator[tuple[int, Handle]]  # first value in the block, f32x16


def embed_rows(name: str, m: int, n: int, *, factor: float = 1.0, split: bool = True) -> Kernel:
    """Build the rows of t tokens. name: of the format. m: rows of w, n: values of a row; see the module."""
    row = EMBEDDINGS[name]
    assert n % row.columns == 0, (name, n)
    b = Builder(f"embed_{name}_rows", ("t",))
    (t,) = b.dims
    size = n // row.columns * row.stored
    w = b.buffer("w", name if name in _FLOATS else "u8", m * size, "read", 64 if name in _FLOATS else 1)
    token, x = b.buffer("token", "u32", t, "read"), b.buffer("x", "f32", t * n, "write")
    with rounds(b, t, split) as i:
        start = token.load("u32", i).convert("index").min(m - 1) * size
        with b.loop(0, n // row.columns) as loop:
            (block,) = loop
            loop.carry()
            for first, v in row.values(_Block(b, w, start + block * row.stored)):
                x.store(i * n + block * row.columns + first, v * factor if factor != 1.0 else v)
    return b.build()


@dataclass(frozen=True, slots=True)
class _Block:
    """One block of a row of weights. Places count from its first byte."""

    b: Builder
    w: View
    start: Handle

    def bytes(self, place: int, count: int = LANES) -> Handle:
        """Load bytes: u8 lanes."""
        return self.w.load(f"u8x{count}" if count > 1 else "u8", self.start + place)

    def half(self, place: int) -> Handle:
        """Load an f16 number as an f32 scalar."""
        return self.w.load("f16", self.start + place).convert("f32")

    def number(self, code: Handle, zero: int = 0) -> Handle:
        """Return codes less `zero` as f32."""
        wide = code if code.type.element.bits == 32 else code.convert("i32")
        wide = wide if wide.type.element.name == "i32" else wide.reinterpret("i32")
        return (wide - zero if zero else wide).convert("f32")


def _scaled(x: _Block, scale: Handle, code: Handle, zero: int) -> Handle:
    return scale.broadcast(LANES) * x.number(code, zero)


def _shifted(x: _Block, scale: Handle, code: Handle, low: Handle) -> Handle:
    return scale.broadcast(LANES) * x.number(code) + low.broadcast(LANES)


def _nibbles(x: _Block, place: int) -> tuple[Handle, Handle]:
    found = x.bytes(place)
    return found & 15, found >> 4


def _fives(x: _Block, high: int, low: int) -> Iterator[Handle]:
    """The 32 codes of 5 bits of q5_0 and q5_1, as u32."""
    bits = x.w.load("u32", x.start + high).broadcast(LANES)
    for k, nibble in enumerate(_nibbles(x, low)):
        places = x.b.const("u32x16", range(16 * k, 16 * k + 16))
        yield nibble.convert("u32") | (((bits >> places) & 1) << 4)


def _q4_0(x: _Block) -> _Values:
    for k, code in enumerate(_nibbles(x, 2)):
        yield 16 * k, _scaled(x, x.half(0), code, 8)


def _q4_1(x: _Block) -> _Values:
    for k, code in enumerate(_nibbles(x, 4)):
        yield 16 * k, _shifted(x, x.half(0), code, x.half(2))


def _q5_0(x: _Block) -> _Values:
    for k, code in enumerate(_fives(x, 2, 6)):
        yield 16 * k, _scaled(x, x.half(0), code, 16)


def _q5_1(x: _Block) -> _Values:
    for k, code in enumerate(_fives(x, 4, 8)):
        yield 16 * k, _shifted(x, x.half(0), code, x.half(2))


def _q8_0(x: _Block) -> _Values:
    for k in (0, 16):
        yield k, _scaled(x, x.half(0), x.bytes(2 + k).reinterpret("i8"), 0)


def _sixes(x: _Block, j: int) -> tuple[Handle, Handle]:
    """The scale and the minimum of group j of q4_k and q5_k, 6 bits each, as f32."""
    if j < 4:
        scale, low = (x.bytes(4 + k, 1) & 63 for k in (j, j + 4))
    else:
        both = x.bytes(8 + j, 1)
        scale = (both & 15) | (x.bytes(j, 1) >> 6 << 4)
        low = (both >> 4) | (x.bytes(4 + j, 1) >> 6 << 4)
    return scale.convert("f32"), low.convert("f32")


def _k_groups(x: _Block, codes: int, high: "int | None") -> _Values:
    d, least = x.half(0), x.half(2)
    for j in range(8):
        scale, low = _sixes(x, j)
        scale, low = d * scale, -(least * low)
        for k in (0, 16):
            found = x.bytes(codes + 32 * (j // 2) + k)
            code = found >> 4 if j % 2 else found & 15
            if high is not None:
                code = code | (((x.bytes(high + k) >> j) & 1) << 4)
            yield 32 * j + k, _shifted(x, scale, code, low)


def _q4_k(x: _Block) -> _Values:
    return _k_groups(x, 16, None)


def _q5_k(x: _Block) -> _Values:
    return _k_groups(x, 48, 16)


def _q6_k(x: _Block) -> _Values:
    d = x.half(208)
    for first in range(0, 256, 16):
        half, v = divmod(first, 128)
        found = x.bytes(64 * half + v % 64)
        bits = (x.bytes(128 + 32 * half + v % 32) >> (2 * (v // 32))) & 3
        code = (found & 15 if v < 64 else found >> 4) | (bits << 4)
        scale = d * x.bytes(192 + first // 16, 1).reinterpret("i8").convert("f32")
        yield first, _scaled(x, scale, code, 32)


def _tq1_0(x: _Block) -> _Values:
    d = x.half(52)
    for place, first, bytes_ in ((0, 0, 32), (32, 160, 16)):
        for k in range(5):
            for at in range(0, bytes_, 16):
                yield first + bytes_ * k + at, _scaled(x, d, _digit(x, x.bytes(place + at), [3**k]), 1)
    last = x.bytes(48, 4).shuffle([k % 4 for k in range(16)])
    yield 240, _scaled(x, d, _digit(x, last, [3 ** (k // 4) for k in range(16)]), 1)


def _digit(x: _Block, found: Handle, powers: list[int]) -> Handle:
    """Return the ternary digit that the product with a power of 3 brings to the front, as u32."""
    number = powers[0] if len(powers) == 1 else powers
    return ((found.convert("u32") * x.b.const("u32x16", number) & 255) * 3) >> 8


def _tq2_0(x: _Block) -> _Values:
    for first in range(0, 256, 16):
        half, v = divmod(first, 128)
        code = (x.bytes(32 * half + v % 32) >> (2 * (v // 32))) & 3
        yield first, _scaled(x, x.half(64), code, 1)


def _float(x: _Block) -> _Values:
    of = x.w.buffer.element.name
    v = x.w.load(f"{of}x16", x.start)
    yield 0, v if of == "f32" else v.convert("f32")


@dataclass(frozen=True, slots=True)
class Embedding:
    """One format. columns, stored: values and buffer elements of a block. values: emits a block's values."""

    columns: int
    stored: int
    values: Callable[[_Block], _Values]


EMBEDDINGS: Mapping[str, Embedding] = {
    "q4_0": Embedding(32, 18, _q4_0),
    "q4_1": Embedding(32, 20, _q4_1),
    "q5_0": Embedding(32, 22, _q5_0),
    "q5_1": Embedding(32, 24, _q5_1),
    "q8_0": Embedding(32, 34, _q8_0),
    "q4_k": Embedding(256, 144, _q4_k),
    "q5_k": Embedding(256, 176, _q5_k),
    "q6_k": Embedding(256, 210, _q6_k),
    "tq1_0": Embedding(256, 54, _tq1_0),
    "tq2_0": Embedding(256, 66, _tq2_0),
    "f32": Embedding(16, 16, _float),
    "f16": Embedding(16, 16, _float),
    "bf16": Embedding(16, 16, _float),
}
