"""Every block format in plain Python, value by value: the groups of a block with codes, scale and offset."""

from collections.abc import Callable
from typing import Any

import gguf
import numpy as np
from block_formats import FORMATS
from std_oracle import Array, f32, quantise

Group = tuple[list[int], Any, Any]  # codes, scale, offset (None where the format has none)

LEVELS_IQ4 = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]
FP4_DOUBLED = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]


def grid(name: str) -> list[list[int]]:
    """The points of an IQ format as the gguf package has them."""
    kind = getattr(gguf.quants, name.upper())
    kind.init_grid()
    return [[int(v) for v in point] for point in kind.grid.reshape(kind.grid_shape)]


GRIDS = {name: grid(name) for name in ("iq1_s", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s")}


def product(name: str, blocks: Array, x: Array) -> Array:
    """NUMERICS 3 for one row after the other, group after group."""
    q, d, ds = quantise(x)
    flat = q.reshape(-1).astype(int)
    result = np.zeros(len(blocks), f32)
    with np.errstate(all="ignore"):
        for r, row in enumerate(blocks):
            acc, column = f32(0), 0
            for block in row:
                for code, scale, low in groups(name, block):
                    part = flat[column : column + len(code)]
                    b = column // 32
                    term = f32(int(np.dot(code, part))) * (scale * d[b])
                    if low is not None:
                        term = term + low * (ds[b] if len(code) == 32 else d[b] * f32(int(part.sum())))
                    acc = acc + term
                    column += len(code)
            result[r] = acc
    return result


def decoded(name: str, blocks: Array) -> Array:
    """The values of blocks: what the gguf package makes of them, or the groups where it has no decoder."""
    with np.errstate(all="ignore"):
        if name not in ("q1_0", "q2_0"):
            kind = gguf.GGMLQuantizationType[name.upper()]
            return gguf.quants.dequantize(blocks.reshape(len(blocks), -1), kind)
        rows = [
            [scale * f32(c) for block in row for code, scale, _ in groups(name, block) for c in code] for row in blocks
        ]
        return np.array(rows, f32)


def groups(name: str, block: Array) -> list[Group]:
    """The groups of one block. block: its bytes."""
    found = _GROUPS[name]([int(b) for b in block])
    assert sum(len(code) for code, _, _ in found) == FORMATS[name].columns, name
    return found


def _f16(byte: list[int], place: int) -> Any:
    return f32(np.array(byte[place : place + 2], np.uint8).view(np.float16)[0])


def _signed(byte: int) -> int:
    return byte - 256 * (byte > 127)


def _halves(byte: list[int]) -> list[int]:
    return [b & 15 for b in byte] + [b >> 4 for b in byte]


def _number(byte: list[int]) -> int:
    return int.from_bytes(bytes(byte), "little")


def _cut(code: list[int], size: int) -> list[list[int]]:
    return [code[i : i + size] for i in range(0, len(code), size)]


def _one(code: list[int], scale: Any) -> list[Group]:
    """Groups of 32 that share the scale of the whole block."""
    return [(part, scale, None) for part in _cut(code, 32)]


def _small(byte: list[int], *, start: int, bits: int, minimum: bool) -> list[Group]:
    code = _halves(byte[start:])
    if bits == 5:
        high = _number(byte[start - 4 : start])
        code = [c | (high >> i & 1) << 4 for i, c in enumerate(code)]
    if minimum:
        return [(code, _f16(byte, 0), _f16(byte, 2))]
    return [([c - (1 << bits - 1) for c in code], _f16(byte, 0), None)]


def _scale_and_minimum(q: list[int], j: int) -> tuple[int, int]:
    if j < 4:
        return q[j] & 63, q[j + 4] & 63
    return q[j + 4] & 15 | q[j - 4] >> 6 << 4, q[j + 4] >> 4 | q[j] >> 6 << 4


def _q4_k(byte: list[int], *, start: int = 16, five: bool = False) -> list[Group]:
    made: list[Group] = []
    for j in range(8):
        code = [byte[start + 32 * (j // 2) + i] >> 4 * (j % 2) & 15 for i in range(32)]
        if five:
            code = [c | (byte[16 + i] >> j & 1) << 4 for i, c in enumerate(code)]
        scale, minimum = _scale_and_minimum(byte[4:16], j)
        made.append((code, _f16(byte, 0) * f32(scale), -(_f16(byte, 2) * f32(minimum))))
    return made


def _q6_k(byte: list[int]) -> list[Group]:
    code = [0] * 256
    for half in range(2):
        for i in range(32):
            low, high = byte[64 * half + i], byte[64 * half + 32 + i]
            top, place = byte[128 + 32 * half + i], 128 * half + i
            code[place] = (low & 15 | (top & 3) << 4) - 32
            code[place + 32] = (high & 15 | (top >> 2 & 3) << 4) - 32
            code[place + 64] = (low >> 4 | (top >> 4 & 3) << 4) - 32
            code[place + 96] = (high >> 4 | (top >> 6 & 3) << 4) - 32
    scales = [_f16(byte, 208) * f32(_signed(b)) for b in byte[192:208]]
    return [(part, scale, None) for part, scale in zip(_cut(code, 16), scales, strict=True)]


def _two_bits(byte: list[int]) -> list[int]:
    return [byte[32 * (i // 128) + i % 32] >> 2 * (i % 128 // 32) & 3 for i in range(256)]


def _q2_k(byte: list[int]) -> list[Group]:
    d, low = _f16(byte, 80), _f16(byte, 82)
    parts = _cut(_two_bits(byte[16:80]), 16)
    return [(code, d * f32(s & 15), -(low * f32(s >> 4))) for code, s in zip(parts, byte, strict=False)]


def _q3_k(byte: list[int]) -> list[Group]:
    low = _two_bits(byte[32:96])
    code = [(c | (byte[i % 32] >> i // 32 & 1) << 2) - 4 for i, c in enumerate(low)]
    made: list[Group] = []
    for j, part in enumerate(_cut(code, 16)):
        scale = byte[96 + j % 8] >> 4 * (j // 8) & 15 | (byte[104 + j % 4] >> 2 * (j // 4) & 3) << 4
        made.append((part, _f16(byte, 108) * f32(scale - 32), None))
    return made


def _q1_0(byte: list[int]) -> list[Group]:
    return _one([2 * (byte[2 + i // 8] >> i % 8 & 1) - 1 for i in range(128)], _f16(byte, 0))


def _q2_0(byte: list[int]) -> list[Group]:
    return _one([(byte[2 + i // 4] >> 2 * (i % 4) & 3) - 1 for i in range(64)], _f16(byte, 0))


def _tq1_0(byte: list[int]) -> list[Group]:
    code = []
    for start, count, digits in ((0, 32, 5), (32, 16, 5), (48, 4, 4)):
        for k in range(digits):
            code += [(b * 3**k % 256) * 3 // 256 - 1 for b in byte[start : start + count]]
    return _one(code, _f16(byte, 52))


def _tq2_0(byte: list[int]) -> list[Group]:
    return _one([c - 1 for c in _two_bits(byte[:64])], _f16(byte, 64))


def _mxfp4(byte: list[int]) -> list[Group]:
    return [([FP4_DOUBLED[c] for c in _halves(byte[1:])], f32(2.0 ** (byte[0] - 128)), None)]


def _nvfp4(byte: list[int]) -> list[Group]:
    made: list[Group] = []
    for j in range(4):
        power, fraction = byte[j] >> 3 & 15, byte[j] & 7
        scale = fraction * 2.0**-10 if power == 0 else (1 + fraction / 8) * 2.0 ** (power - 8)
        code = [FP4_DOUBLED[c] for c in _halves(byte[4 + 8 * j : 12 + 8 * j])]
        made.append((code, f32(0.0 if byte[j] == 127 else scale), None))
    return made


def _iq4_nl(byte: list[int]) -> list[Group]:
    return [([LEVELS_IQ4[c] for c in _halves(byte[2:])], _f16(byte, 0), None)]


def _iq4_xs(byte: list[int]) -> list[Group]:
    made: list[Group] = []
    for j in range(8):
        scale = byte[4 + j // 2] >> 4 * (j % 2) & 15 | (_number(byte[2:4]) >> 2 * j & 3) << 4
        code = [LEVELS_IQ4[c] for c in _halves(byte[8 + 16 * j : 24 + 16 * j])]
        made.append((code, _f16(byte, 0) * f32(scale - 32), None))
    return made


def _with_signs(values: list[int], signs: int) -> list[int]:
    return [-v if signs >> i & 1 else v for i, v in enumerate(values)]


def _even(signs: int) -> int:
    return signs | signs.bit_count() % 2 << 7


def _iq2_xxs(byte: list[int]) -> list[Group]:
    made: list[Group] = []
    for part in _cut(byte[2:], 8):
        word, code = _number(part[4:]), []
        for i in range(4):
            code += _with_signs(GRIDS["iq2_xxs"][part[i]], _even(word >> 7 * i & 127))
        made.append((code, _f16(byte, 0) * f32(0.5 + (word >> 28)) * f32(0.25), None))
    return made


def _iq2(byte: list[int], points: list[list[int]], scales: list[int]) -> list[Group]:
    made: list[Group] = []
    for j in range(16):
        scale = f32(0.5 + (scales[j // 2] >> 4 * (j % 2) & 15))
        made.append((points[2 * j] + points[2 * j + 1], _f16(byte, 0) * scale * f32(0.25), None))
    return made


def _iq2_xs(byte: list[int]) -> list[Group]:
    words = [_number(pair) for pair in _cut(byte[2:66], 2)]
    return _iq2(byte, [_with_signs(GRIDS["iq2_xs"][w & 511], _even(w >> 9)) for w in words], byte[66:])


def _iq2_s(byte: list[int]) -> list[Group]:
    points = []
    for i in range(32):
        index = byte[2 + i] | (byte[66 + i // 4] >> 2 * (i % 4) & 3) << 8
        points.append(_with_signs(GRIDS["iq2_s"][index], byte[34 + i]))
    return _iq2(byte, points, byte[74:])


def _iq3_xxs(byte: list[int]) -> list[Group]:
    made: list[Group] = []
    for j in range(8):
        word, code = _number(byte[66 + 4 * j : 70 + 4 * j]), []
        for i in range(4):
            a, b = byte[2 + 8 * j + 2 * i], byte[3 + 8 * j + 2 * i]
            code += _with_signs(GRIDS["iq3_xxs"][a] + GRIDS["iq3_xxs"][b], _even(word >> 7 * i & 127))
        made.append((code, _f16(byte, 0) * f32(0.5 + (word >> 28)) * f32(0.5), None))
    return made


def _iq3_s(byte: list[int]) -> list[Group]:
    index = [byte[2 + i] | (byte[66 + i // 8] >> i % 8 & 1) << 8 for i in range(64)]
    made: list[Group] = []
    for j in range(8):
        code = []
        for i in range(4 * j, 4 * j + 4):
            code += _with_signs(GRIDS["iq3_s"][index[2 * i]] + GRIDS["iq3_s"][index[2 * i + 1]], byte[74 + i])
        made.append((code, _f16(byte, 0) * f32(1 + 2 * (byte[106 + j // 2] >> 4 * (j % 2) & 15)), None))
    return made


def _iq1_s(byte: list[int]) -> list[Group]:
    made: list[Group] = []
    for j in range(8):
        word, code = _number(byte[34 + 2 * j : 36 + 2 * j]), []
        for i in range(4):
            point = GRIDS["iq1_s"][byte[2 + 4 * j + i] | (word >> 3 * i & 7) << 8]
            code += [8 * v + (-1 if word >> 15 else 1) for v in point]
        made.append((code, _f16(byte, 0) * f32(1 + 2 * (word >> 12 & 7)) * f32(0.125), None))
    return made


def _iq1_m(byte: list[int]) -> list[Group]:
    words = [_number(pair) for pair in _cut(byte[48:], 2)]
    d = sum((word >> 12) << 4 * k for k, word in enumerate(words))
    scale = f32(np.array([d], np.uint16).view(np.float16)[0])
    made: list[Group] = []
    for j in range(16):
        code = []
        for i in (2 * j, 2 * j + 1):
            four = byte[32 + i // 2] >> 4 * (i % 2) & 15
            code += [8 * v + (-1 if four & 8 else 1) for v in GRIDS["iq1_s"][byte[i] | (four & 7) << 8]]
        made.append((code, scale * f32(1 + 2 * (words[j // 4] >> 3 * (j % 4) & 7)) * f32(0.125), None))
    return made


_GROUPS: dict[str, Callable[[list[int]], list[Group]]] = {
    "q4_0": lambda byte: _small(byte, start=2, bits=4, minimum=False),
    "q4_1": lambda byte: _small(byte, start=4, bits=4, minimum=True),
    "q5_0": lambda byte: _small(byte, start=6, bits=5, minimum=False),
    "q5_1": lambda byte: _small(byte, start=8, bits=5, minimum=True),
    "q8_0": lambda byte: [([_signed(b) for b in byte[2:]], _f16(byte, 0), None)],
    "q4_k": _q4_k,
    "q5_k": lambda byte: _q4_k(byte, start=48, five=True),
    "q6_k": _q6_k,
    "q2_k": _q2_k,
    "q3_k": _q3_k,
    "q1_0": _q1_0,
    "q2_0": _q2_0,
    "tq1_0": _tq1_0,
    "tq2_0": _tq2_0,
    "mxfp4": _mxfp4,
    "nvfp4": _nvfp4,
    "iq4_nl": _iq4_nl,
    "iq4_xs": _iq4_xs,
    "iq2_xxs": _iq2_xxs,
    "iq2_xs": _iq2_xs,
    "iq2_s": _iq2_s,
    "iq3_xxs": _iq3_xxs,
    "iq3_s": _iq3_s,
    "iq1_s": _iq1_s,
    "iq1_m": _iq1_m,
}
