"""What the tests of element-wise ops share: evaluation with its invariants, operands, and an oracle for rounding.

The oracle knows integers as Python ints and floats as fractions; it takes nothing from the tables of the ops.
"""

import random
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from bittern.ops.table import OPS, Array, Site, ops
from bittern.types.elements import ELEMENTS, Element, Kind
from bittern.types.faults import TypeFault
from bittern.types.values import Tensor, tensor

ops()

SMALL = [e for e in ELEMENTS.values() if e.is_integer and e.bits <= 8]
WIDE = [e for e in ELEMENTS.values() if e.is_integer and e.bits > 8]
SMALL_UNSIGNED = [e for e in SMALL if e.kind is Kind.UNSIGNED]
WIDE_UNSIGNED = [e for e in WIDE if e.kind is Kind.UNSIGNED]

# float -> bits of exponent and fraction (IEEE 754; OCP 8-bit formats)
FLOATS = {"f8_e4m3": (4, 3), "f8_e5m2": (5, 2), "f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
NANS = {"f8_e4m3": 0x7F, "f8_e5m2": 0x7E, "f16": 0x7E00, "bf16": 0x7FC0, "f32": 0x7FC00000, "f64": 0x7FF8 << 48}

_MAY_SHARE = {"reverse_bytes", "from_bits", "bits"}  # the result may be a view of the first operand


def evaluate(
    name: str, elements: Sequence[Element], *arrays: Any, ideal: bool = False, lead: int = 0, **attributes: Any
) -> Array:
    """Apply rule and meaning to arrays; check the result's dtype and shape, and that the operands are left alone."""
    given = [np.asarray(a) for a in arrays]
    types = tuple(tensor(e, *a.shape[lead:]) for e, a in zip(elements, given, strict=True))
    row = OPS[name]
    result = row.rule(types, attributes)
    assert isinstance(result, Tensor)
    site = Site(lead, types, result, attributes, ideal)
    meaning = row.ideal if ideal and row.ideal is not None else row.meaning
    before = [a.copy() for a in given]
    for array in given:
        array.flags.writeable = False
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        value = np.asarray(meaning(site, *given))
        if not any(a.ndim for a in given):  # numpy hands scalars on from op to op
            assert np.asarray(meaning(site, *(a[()] for a in given))).tobytes() == value.tobytes(), name
    assert value.shape[lead:] == site.shape, (name, value.shape, site.shape)
    if not ideal:
        assert value.dtype == np.dtype(result.element.storage), (name, value.dtype, result.element)
    for array, old in zip(given, before, strict=True):
        assert array.tobytes() == old.tobytes(), name
        alike = elements[0].storage == result.element.storage or (elements[0].is_float and result.element.is_float)
        shares = name in _MAY_SHARE or ("to" in attributes and alike)
        assert shares or not np.shares_memory(array, value), name
    return value


def with_meaning(monkeypatch: pytest.MonkeyPatch, name: str, meaning: Callable[..., Any]) -> None:
    """Plant another meaning in the table for the rest of a test."""
    monkeypatch.setitem(OPS, name, replace(OPS[name], meaning=meaning))


def rejects(name: str, types: Sequence[Tensor], *words: str, **attributes: Any) -> TypeFault:
    """Check that the rule refuses these types with these words; return the fault."""
    with pytest.raises(TypeFault) as caught:
        OPS[name].rule(tuple(types), attributes)
    said = f"{caught.value.code} {caught.value.found} {caught.value.expected} {caught.value.hint}"
    for word in words:
        assert word in said, (word, said)
    return caught.value


# --- integers


def low(e: Element) -> int:
    return -(1 << int(e.name[1:]) - 1) if e.name[0] == "i" else 0


def high(e: Element) -> int:
    return (1 << int(e.name[1:]) - 1) - 1 if e.name[0] == "i" else (1 << int(e.name[1:])) - 1


def wrapped(e: Element, value: int) -> int:
    """The value modulo 2^width, as the element reads it."""
    return (value - low(e)) % (1 << int(e.name[1:])) + low(e)


def clamped(e: Element, value: int) -> int:
    return min(max(value, low(e)), high(e))


def everything(e: Element) -> list[int]:
    return list(range(low(e), high(e) + 1))


def array(e: Element, values: Iterable[int]) -> Array:
    return np.array(list(values), dtype=e.storage)


def pairs(e: Element) -> tuple[list[int], list[int]]:
    """All pairs of a small element."""
    values = everything(e)
    return [x for x in values for _ in values], [y for _ in values for y in values]


def edgy(e: Element, count: int, seed: int) -> list[int]:
    """Integers that favour the edges: bounds, powers of two and their neighbours, and random ones of every size."""
    rng = random.Random(f"{e.name} {seed}")
    width, bottom, top = int(e.name[1:]), low(e), high(e)
    found = []
    for _ in range(count):
        kind = rng.randrange(4)
        if kind == 0:
            value = rng.choice([bottom, top, 0]) + rng.randrange(-3, 4)
        elif kind == 1:
            value = rng.choice([1, -1]) * (1 << rng.randrange(width)) + rng.randrange(-2, 3)
        else:
            value = rng.choice([1, -1]) * rng.getrandbits(rng.randrange(1, width + 1))
        found.append(wrapped(e, value))
    return found


# --- floats


def decoded(e: Element, code: int) -> Fraction | float:
    """The value of a code: a fraction, or inf, -inf, nan; the sign of zero is lost."""
    exponent_bits, fraction_bits = FLOATS[e.name]
    fraction = code & ((1 << fraction_bits) - 1)
    exponent = code >> fraction_bits & ((1 << exponent_bits) - 1)
    sign = -1 if code >> (exponent_bits + fraction_bits) else 1
    bias = (1 << (exponent_bits - 1)) - 1
    if exponent == (1 << exponent_bits) - 1:
        if e.name != "f8_e4m3":
            return nan if fraction else sign * inf
        if fraction == 7:
            return nan
    if exponent == 0:
        return sign * Fraction(fraction, 1) * Fraction(2) ** (1 - bias - fraction_bits)
    return sign * Fraction((1 << fraction_bits) + fraction) * Fraction(2) ** (exponent - bias - fraction_bits)


def is_nan(e: Element, code: int) -> bool:
    """Whether a code is a NaN of either sign."""
    exponent_bits, fraction_bits = FLOATS[e.name]
    infinite = 0x7E if e.name == "f8_e4m3" else ((1 << exponent_bits) - 1) << fraction_bits
    return code & ((1 << (exponent_bits + fraction_bits)) - 1) > infinite


def encoded(e: Element, value: Fraction | float, negative: bool = False) -> int:
    """The code nearest to a value, ties to even, by the definition in fractions. negative: the sign of a zero."""
    exponent_bits, fraction_bits = FLOATS[e.name]
    if value != value:
        return NANS[e.name]
    sign = int(value < 0 or (value == 0 and negative)) << (exponent_bits + fraction_bits)
    infinite = ((1 << exponent_bits) - 1) << fraction_bits
    over = NANS[e.name] if e.name == "f8_e4m3" else sign | infinite
    if value in (inf, -inf):
        return over
    size = abs(Fraction(value))
    lowest = 2 - (1 << (exponent_bits - 1))
    exponent = lowest
    if size:
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        exponent -= size < Fraction(2) ** exponent
        exponent = max(exponent, lowest)
    units = round(size / Fraction(2) ** (exponent - fraction_bits))  # a Fraction rounds ties to even
    nearest = units * Fraction(2) ** (exponent - fraction_bits)
    if e.name == "f8_e4m3":
        if nearest > 448:
            return over
    elif nearest >= Fraction(2) ** (1 << (exponent_bits - 1)):
        return over
    if units < 1 << fraction_bits:
        return sign | units
    if units == 2 << fraction_bits:
        units, exponent = 1 << fraction_bits, exponent + 1
    return sign | (exponent - lowest + 1) << fraction_bits | units - (1 << fraction_bits)


def codes_of(e: Element, values: Array) -> list[int]:
    """The bits of stored floats as Python ints."""
    return [int(v) for v in np.atleast_1d(values).view(f"uint{e.bits}").ravel()]


def canonical_codes(e: Element, values: Array) -> list[int]:
    """The bits of stored floats, with one NaN."""
    return [NANS[e.name] if is_nan(e, c) else c for c in codes_of(e, values)]


def from_codes(e: Element, codes: Iterable[int]) -> Array:
    """The stored array that has these bits."""
    return np.array(list(codes), f"uint{e.bits}").view(e.storage)


def edgy_codes(e: Element, count: int, seed: int) -> list[int]:
    """Codes of floats that favour zeros, subnormals, infinities, NaN payloads, and fractions near a half or full."""
    rng = random.Random(f"{e.name} {seed}")
    exponent_bits, fraction_bits = FLOATS[e.name]
    top, bias = (1 << exponent_bits) - 1, (1 << (exponent_bits - 1)) - 1
    found = []
    for _ in range(count):
        exponent = rng.choice([0, 0, 1, bias, bias, top - 1, top, rng.randrange(top + 1), rng.randrange(top + 1)])
        near = rng.choice(
            [0, 1 << rng.randrange(fraction_bits), (1 << fraction_bits) - (1 << rng.randrange(fraction_bits))]
        )
        fraction = rng.choice([near, near + rng.randrange(-1, 2), rng.getrandbits(fraction_bits)])
        sign = rng.getrandbits(1) << (exponent_bits + fraction_bits)
        found.append(sign | exponent << fraction_bits | fraction % (1 << fraction_bits))
    return found


# --- the batching law


def check_batching(name: str, elements: Sequence[Element], columns: Sequence[Sequence[int]], **attributes: Any) -> None:
    """Check that over batch axes, also of size 1, an op gives what it gives element by element.

    columns: values of each operand (codes of floats, numbers otherwise), of which some are picked.
    """
    own, stored = 2, []
    for place, (e, values) in enumerate(zip(elements, columns, strict=True)):
        lead = ((3, 4), (3, 1), (1, 4))[place % 3]
        picked = [values[(7 * i + place) % len(values)] for i in range(lead[0] * lead[1] * own)]
        stored.append((from_codes(e, picked) if e.is_float else array(e, picked)).reshape(*lead, own))
    whole = evaluate(name, elements, *stored, lead=2, **attributes)
    full = np.broadcast_shapes(*(a.shape[:2] for a in stored))
    whole = np.broadcast_to(whole, full + whole.shape[2:])
    for i in range(full[0]):
        for j in range(full[1]):
            rows = [a[i % a.shape[0], j % a.shape[1]] for a in stored]
            one = evaluate(name, elements, *rows, **attributes)
            assert one.tobytes() == whole[i, j].tobytes(), (name, i, j)
            for k in range(own):
                scalar = evaluate(name, elements, *(row[k] for row in rows), **attributes)
                assert scalar.shape == () and scalar.tobytes() == whole[i, j, k].tobytes(), (name, i, j, k)
