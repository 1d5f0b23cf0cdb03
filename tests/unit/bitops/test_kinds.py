"""The meanings of kinds against Python's integers, fractions and struct: all inputs at 8 bits, edges beyond."""

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from bitops_cases import INTEGERS, cases, edges, inputs, meant, random

from bittern.bitops.kinds import KINDS, Misfit, kind, kinds
from bittern.bitops.lanes import ELEMENTS, Lanes, array_of_bits, bits_of_array, lanes


def clamp(of: Lanes, value: int) -> int:
    """Clamp to the range of a type."""
    return max(of.element.low, min(of.element.high, value))


def wrap(of: Lanes, value: int) -> int:
    """Take a number modulo 2^width into the range of a type."""
    return (value - of.element.low) % (1 << of.element.bits) + of.element.low


def quotient(x: int, y: int) -> int:
    """Divide with truncation; over 0 it is 0."""
    return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def rotl(bits: int, x: int, count: int) -> int:
    """Rotate upwards."""
    count %= bits
    return (x << count | x >> (bits - count)) & ((1 << bits) - 1)


def pext(x: int, mask: int) -> int:
    """Collect the bits of x that the mask selects."""
    chosen = [x >> k & 1 for k in range(64) if mask >> k & 1]
    return sum(bit << k for k, bit in enumerate(chosen))


def pdep(x: int, mask: int) -> int:
    """Spread the low bits of x over the mask."""
    places = [k for k in range(64) if mask >> k & 1]
    return sum((x >> j & 1) << k for j, k in enumerate(places))


WHOLE: "dict[str, Callable[[Lanes, int, int], int | bool]]" = {
    "add": lambda t, x, y: wrap(t, x + y),
    "sub": lambda t, x, y: wrap(t, x - y),
    "mul": lambda t, x, y: wrap(t, x * y),
    "neg": lambda t, x, y: wrap(t, -x),
    "abs": lambda t, x, y: wrap(t, abs(x)),
    "div": lambda t, x, y: wrap(t, quotient(x, y)),
    "rem": lambda t, x, y: x - quotient(x, y) * y,
    "min": lambda t, x, y: min(x, y),
    "max": lambda t, x, y: max(x, y),
    "add_sat": lambda t, x, y: clamp(t, x + y),
    "sub_sat": lambda t, x, y: clamp(t, x - y),
    "mul_high": lambda t, x, y: x * y >> t.element.bits,
    "eq": lambda t, x, y: x == y,
    "ne": lambda t, x, y: x != y,
    "lt": lambda t, x, y: x < y,
    "le": lambda t, x, y: x <= y,
    "and": lambda t, x, y: x & y,
    "or": lambda t, x, y: x | y,
    "xor": lambda t, x, y: x ^ y,
    "not": lambda t, x, y: wrap(t, ~x),
    "shl": lambda t, x, y: wrap(t, x << min(y, 64)),
    "shr": lambda t, x, y: x >> min(y, 64),
    "rotl": lambda t, x, y: rotl(t.element.bits, x, y),
    "rotr": lambda t, x, y: rotl(t.element.bits, x, -y),
    "popcount": lambda t, x, y: x.bit_count(),
    "clz": lambda t, x, y: t.element.bits - x.bit_length(),
    "ctz": lambda t, x, y: (x & -x).bit_length() - 1 if x else t.element.bits,
    "reverse_bits": lambda t, x, y: int(f"{x:0{t.element.bits}b}"[::-1], 2),
    "reverse_bytes": lambda t, x, y: int.from_bytes(x.to_bytes(t.bytes, "little"), "big"),
    "extract": lambda t, x, y: pext(x, y),
    "deposit": lambda t, x, y: pdep(x, y),
}


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_integers(name: str) -> None:
    rng, count = np.random.default_rng(3), 0
    for case in cases():
        kind_, elements, _ = case
        if kind_ != name or elements[0] not in INTEGERS:
            continue
        operands = inputs(elements, rng)
        if len(operands[0]) > 4000:
            chosen = rng.permutation(len(operands[0]))[:4000]
            operands = [x[chosen] for x in operands]
        of, found = meant(case, operands)
        second = operands[1] if len(operands) > 1 else operands[0]
        wanted = [WHOLE[name](lanes(elements[0]), int(x), int(y)) for x, y in zip(operands[0], second, strict=True)]
        assert found.dtype == of.dtype and [int(v) for v in found] == [int(v) for v in wanted], case
        count += len(found)
    assert count > 6000


def single(value: float) -> float:
    """Round to f32, overflow to infinity."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def divided(x: float, y: float) -> float:
    """Divide by IEEE 754."""
    if y == 0 or math.isnan(x) or math.isnan(y):
        return (
            math.nan if x == 0 or math.isnan(x) or math.isnan(y) else math.copysign(math.inf, x) * math.copysign(1, y)
        )
    return x / y


REAL: "dict[str, Callable[[float, float], float]]" = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": divided,
    "min": lambda x, y: x if x < y else y,
    "max": lambda x, y: x if x > y else y,
    "neg": lambda x, y: -x,
    "abs": lambda x, y: math.copysign(x, 1.0),
    "sqrt": lambda x, y: math.sqrt(x) if x >= 0 or math.isnan(x) else math.nan,
    "floor": lambda x, y: integral(math.floor, x),
    "ceil": lambda x, y: integral(math.ceil, x),
    "trunc": lambda x, y: integral(math.trunc, x),
    "round_even": lambda x, y: integral(round, x),
}


def integral(function: Callable[[float], int], x: float) -> float:
    """Round to an integer; the sign is that of x."""
    return math.copysign(float(function(x)), x) if math.isfinite(x) else x


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("name", sorted(REAL))
def test_floats(name: str, element: str) -> None:
    """In f64 and then rounded is rounded once for + - * / sqrt of f32 (2 * 24 + 2 <= 53 bits)."""
    binary = name in ("add", "sub", "mul", "div", "min", "max")
    elements = (element,) * (2 if binary else 1)
    operands = [x[:3000] for x in inputs(elements, np.random.default_rng(5))]
    _, found = meant((name, elements, {}), operands)
    for x, y, got in zip(operands[0], operands[-1], found, strict=True):
        wanted = REAL[name](float(x), float(y))
        wanted = single(wanted) if element == "f32" else wanted
        same = struct.pack("d", wanted) == struct.pack("d", float(got))
        assert same or (math.isnan(wanted) and math.isnan(got)), (name, x, y, got, wanted)


def test_conversions_between_numbers() -> None:
    rng = np.random.default_rng(9)
    for case in cases():
        name, (source,), attributes = case[0], case[1][:1], case[2]
        if name not in ("convert", "wrap", "sat", "round") or source in ("bit", "bf16") or attributes["to"] == "bf16":
            continue
        of = lanes(attributes["to"])
        (x,) = inputs((source,), rng, 3000)
        _, found = meant(case, [x])
        for value, got in zip(x.tolist(), found.tolist(), strict=True):
            assert matches(name, of, value, got), (case, value, got)


def matches(name: str, of: Lanes, value: Any, got: Any) -> bool:
    """Whether a conversion gave the right number."""
    if of.is_integer:
        if name == "round":
            value = 0 if math.isnan(value) else value
            whole = round(Fraction(value)) if math.isfinite(value) else 2**70 * (1 if value > 0 else -1)
            return bool(got == clamp(of, whole))
        return bool(got == (wrap(of, value) if name == "wrap" else clamp(of, value)))
    if isinstance(value, float) and math.isnan(value):
        return math.isnan(got)
    return struct.pack("d", got) == struct.pack("d", nearest(of, value))


def nearest(of: Lanes, value: Any) -> float:
    """Return the value of a float type that is nearest, by exact fractions."""
    if isinstance(value, float) and not math.isfinite(value):
        return value
    digits, least, most = {"f16": (11, -24, 65520), "f32": (24, -149, 2**128 - 2**103), "f64": (53, -1074, 2**1024)}[
        of.element.name
    ]
    exact = Fraction(value)
    if abs(exact) >= most:
        return math.copysign(math.inf, value)
    if exact == 0:
        return float(value)
    size = abs(exact)
    scale = max(math.floor(math.log2(size)) + 2 - digits - 2, least)
    while size / Fraction(2) ** scale >= 1 << digits:
        scale += 1
    return math.copysign(float(round(size / Fraction(2) ** scale) * Fraction(2) ** scale), value)


def test_bf16_is_the_upper_half_of_f32() -> None:
    codes = np.arange(65536, dtype=np.uint16)
    _, wide = meant(("convert", ("bf16",), {"to": "f32"}), [codes])
    assert (wide.view(np.uint32) == codes.astype(np.uint32) << 16).all()
    _, back = meant(("round", ("f32",), {"to": "bf16"}), [wide])
    nan = (codes & 0x7FFF) > 0x7F80
    assert (back[~nan] == codes[~nan]).all() and (back[nan] == 0x7FC0).all()
    x = np.concatenate([edges("f64"), random("f64", 3000, np.random.default_rng(1))])
    _, found = meant(("round", ("f64",), {"to": "bf16"}), [x])
    for value, code in zip(x.tolist(), found.tolist(), strict=True):
        if not math.isnan(value):
            near = float(struct.unpack("f", struct.pack("I", code << 16))[0])
            steps = [code + d for d in (-1, 1) if 0 <= (code & 0x7FFF) + d <= 0x7F7F]
            others = [float(struct.unpack("f", struct.pack("I", c << 16))[0]) for c in steps]
            if math.isfinite(near) and math.isfinite(value):
                far = [abs(Fraction(value) - Fraction(o)) for o in others]
                own = abs(Fraction(value) - Fraction(near))
                assert all(own < f or (own == f and code % 2 == 0) for f in far), (value, code)
            else:
                assert abs(value) >= 2.0**128 - 2.0**119


@pytest.mark.parametrize("bits", [0x7F800001, 0x7F80FFFF, 0x7F810000, 0xFF800001, 0xFFFFFFFF])
def test_every_nan_rounds_to_the_canonical_one(bits: int) -> None:
    """The payload may lie in the half that bf16 drops: what is left of it would be infinity."""
    x = np.array([bits, 0x7F800000], np.uint32).view(np.float32)
    _, found = meant(("round", ("f32",), {"to": "bf16"}), [x])
    assert found.tolist() == [0x7FC0, 0x7F80]
    _, found = meant(("round", ("f32",), {"to": "f16"}), [x])
    assert found.view(np.uint16).tolist() == [0x7E00, 0x7C00]


def test_every_row_is_documented_and_its_effect_is_known() -> None:
    for row in kinds().values():
        assert row.doc and not row.doc.endswith(".") and row.form in ("lane", "cross", "memory", "control")
        assert row.effect in ("none", "load", "store", "barrier", "hint")
        assert row.meaning is not None or row.form == "control" or row.name in ("dim", "prefetch")


def test_operands_that_do_not_fit_are_refused() -> None:
    table = kinds()
    for name, types, attributes in [
        ("add", ("u8x16", "i8x16"), {}),
        ("add", ("f16x16", "f16x16"), {}),
        ("neg", ("u8x16",), {}),
        ("shl", ("i8x16", "i8x16"), {}),
        ("select", ("bitx8", "f32x16", "f32x16"), {}),
        ("convert", ("f32",), {"to": "i32"}),
        ("convert", ("u32x16",), {"to": "u64"}),
        ("round", ("i32",), {"to": "u8"}),
        ("reinterpret", ("bitx16",), {"to": "u8"}),
        ("dot4", ("i32x16", "i8x64", "i8x64"), {}),
        ("part", ("f32x16",), {"first": 3, "lanes": 4}),
        ("lane", ("f32x16",), {"lane": 16}),
        ("shuffle", ("f32x4",), {"picks": (0, 4)}),
        ("lookup", ("i8x16", "u8x16"), {}),
        ("load", ("i32",), {"buffer": "x", "type": lanes("f32x16"), "offset": 0}),
    ]:
        with pytest.raises(Misfit):
            table[name].rule(tuple(lanes(t) for t in types), attributes)


def test_types_are_spelled_and_bounded() -> None:
    assert str(lanes("u8x64")) == "u8x64" and lanes("index").is_signed and lanes("bitx64").is_mask
    for text in ("u8x128", "f32x32", "f32x3", "f32x0", "q4x16", "u8x"):
        with pytest.raises(ValueError, match=r".+"):
            lanes(text)
    for name in ELEMENTS:
        of = lanes(name)
        if not of.is_mask:
            assert bits_of_array(array_of_bits(of.of(2), (5, 6))) == (5, 6)


def test_a_wrong_meaning_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(KINDS, "shr")
    kind("shr", "wrong: the count is taken modulo the width", lambda types, _: types[:1])(
        lambda site, x, y: x >> (y & (site.result.element.bits - 1)).astype(x.dtype)
    )
    with pytest.raises(AssertionError):
        test_integers("shr")
