"""Ops on bits against Python's ints and strings of binary digits, at every width."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_cases import (
    FLOATS,
    NANS,
    SMALL,
    SMALL_UNSIGNED,
    WIDE,
    WIDE_UNSIGNED,
    array,
    check_batching,
    edgy,
    edgy_codes,
    encoded,
    evaluate,
    everything,
    from_codes,
    high,
    is_nan,
    pairs,
    rejects,
    with_meaning,
    wrapped,
)

import bittern.ops.bits as bits_of_ops
from bittern.ops.table import OPS
from bittern.types.dims import symbol
from bittern.types.elements import BIT, ELEMENTS, F32, I8, I32, U8, U32, U64, Element, T, open_element
from bittern.types.faults import ELEMENT_MISMATCH, ELEMENT_UNFIT
from bittern.types.values import Tensor, tensor


def width(e: Element) -> int:
    return int(e.name[1:])


def digits(e: Element, x: int) -> str:
    """The word as binary digits, the highest first."""
    return format(x % (1 << width(e)), f"0{width(e)}b")


def from_digits(e: Element, text: str) -> int:
    return wrapped(e, int(text, 2))


def pext(e: Element, x: int, mask: int) -> int:
    chosen = [a for a, m in zip(digits(e, x), digits(e, mask), strict=True) if m == "1"]
    return int("".join(chosen) or "0", 2)


def pdep(e: Element, x: int, mask: int) -> int:
    source = list(digits(e, x))
    return int("".join(reversed([source.pop() if m == "1" else "0" for m in reversed(digits(e, mask))])), 2)


def bytes_reversed(e: Element, x: int) -> int:
    return x if width(e) <= 8 else int.from_bytes(x.to_bytes(width(e) // 8, "little"), "big")


def shifted_right(e: Element, x: int, count: int) -> int:
    sign = "1" if x < 0 else "0"
    return from_digits(e, (sign * count + digits(e, x))[: width(e)])


def shifted_left(e: Element, x: int, count: int) -> int:
    return from_digits(e, (digits(e, x) + "0" * count)[-width(e) :])


def rotated_left(e: Element, x: int, count: int) -> int:
    turn = count % width(e)
    return from_digits(e, digits(e, x)[turn:] + digits(e, x)[:turn])


def rotated_right(e: Element, x: int, count: int) -> int:
    return rotated_left(e, x, width(e) - count % width(e))


BITWISE: dict[str, Callable[[Element, int, int], int]] = {
    "and": lambda e, x, y: x & y,
    "or": lambda e, x, y: x | y,
    "xor": lambda e, x, y: x ^ y,
}
MASKED: dict[str, Callable[[Element, int, int], int]] = {"extract": pext, "deposit": pdep}
SHIFTS = {"shl": shifted_left, "shr": shifted_right, "rotl": rotated_left, "rotr": rotated_right}
WORDS: dict[str, Callable[[Element, int], int]] = {
    "popcount": lambda e, x: digits(e, x).count("1"),
    "clz": lambda e, x: width(e) - len(digits(e, x).lstrip("0")),
    "ctz": lambda e, x: width(e) - len(digits(e, x).rstrip("0")),
    "reverse_bits": lambda e, x: from_digits(e, digits(e, x)[::-1]),
    "reverse_bytes": bytes_reversed,
}
COUNTS = [0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 257, 2**31, 2**32 - 1]


def check_words(name: str, elements: list[Element]) -> None:
    for e in elements:
        values = everything(e) if width(e) <= 8 else [0, 1, high(e), *edgy(e, 500, 1)]
        got = evaluate(name, [e], array(e, values)).tolist()
        for x, value in zip(values, got, strict=True):
            assert value == WORDS[name](e, x), (name, e.name, x, value)


@pytest.mark.parametrize("name", BITWISE)
def test_bitwise(name: str) -> None:
    for e in SMALL + WIDE:
        left, right = pairs(e) if e in SMALL else (edgy(e, 500, 2), edgy(e, 500, 3))
        expected = [BITWISE[name](e, x, y) for x, y in zip(left, right, strict=True)]
        assert evaluate(name, [e, e], array(e, left), array(e, right)).tolist() == expected, e.name
    left, right = [False, False, True, True], [False, True, False, True]
    got = evaluate(name, [BIT, BIT], np.array(left), np.array(right)).tolist()
    assert got == [bool(BITWISE[name](BIT, x, y)) for x, y in zip(left, right, strict=True)]


def test_not() -> None:
    for e in SMALL + WIDE:
        values = everything(e) if e in SMALL else edgy(e, 500, 4)
        assert evaluate("not", [e], array(e, values)).tolist() == [wrapped(e, ~x) for x in values], e.name
    assert evaluate("not", [BIT], np.array([False, True])).tolist() == [True, False]


@pytest.mark.parametrize("name", WORDS)
def test_words(name: str) -> None:
    check_words(name, SMALL_UNSIGNED + WIDE_UNSIGNED)


@pytest.mark.parametrize("name", MASKED)
def test_fields(name: str) -> None:
    """PEXT and PDEP: all words and masks at 8 bits and below."""
    for e in SMALL_UNSIGNED + WIDE_UNSIGNED:
        left, right = pairs(e) if e in SMALL_UNSIGNED else (edgy(e, 400, 5), edgy(e, 400, 6))
        got = evaluate(name, [e, e], array(e, left), array(e, right)).tolist()
        for x, mask, value in zip(left, right, got, strict=True):
            assert value == MASKED[name](e, x, mask), (name, e.name, hex(x), hex(mask))


@pytest.mark.parametrize("name", SHIFTS)
def test_shifts(name: str) -> None:
    """Counts below, at and far above the width: 0 or sign bits for shifts, modulo the width for rotations."""
    elements = SMALL + WIDE if name[0] == "s" else SMALL_UNSIGNED + WIDE_UNSIGNED
    for e in elements:
        values = everything(e) if width(e) <= 8 else edgy(e, 60, 7)
        left, counts = [x for x in values for _ in COUNTS], COUNTS * len(values)
        got = evaluate(name, [e, U32], array(e, left), array(U32, counts)).tolist()
        meant = {}
        for x, count, value in zip(left, counts, got, strict=True):
            short = min(count, 64) if name[0] == "s" else count % width(e)
            if (x, short) not in meant:
                meant[x, short] = SHIFTS[name](e, x, short)
            assert value == meant[x, short], (name, e.name, x, count, value)


def test_counting_without_the_built_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """numpy 1 has no count of ones; the counts made of shifts and sums are the same."""
    monkeypatch.setattr(bits_of_ops, "_BUILT_IN", None)
    for name in ("popcount", "clz", "ctz"):
        check_words(name, SMALL_UNSIGNED + WIDE_UNSIGNED)


@pytest.mark.parametrize("name", FLOATS)
def test_bits_of_floats(name: str) -> None:
    """Every NaN, whatever its payload and sign, gives the canonical bits; all other codes pass."""
    e = ELEMENTS[name]
    codes = list(range(1 << e.bits)) if e.bits <= 16 else edgy_codes(e, 3000, 8)
    got = evaluate("bits", [e], from_codes(e, codes)).tolist()
    for code, value in zip(codes, got, strict=True):
        assert value == (NANS[name] if is_nan(e, code) else code), hex(code)


@pytest.mark.parametrize("name", FLOATS)
def test_ideal_bits_round_to_the_element_first(name: str) -> None:
    e = ELEMENTS[name]
    reals = np.array([0.1, -1 / 3, 1e-7, 1e30, -0.0, np.inf, np.nan, 2.0**-140, 464.0, 465.0, 1.0000001])
    got = evaluate("bits", [e], reals, ideal=True).tolist()
    assert got == [encoded(e, float(x), negative=bool(np.signbit(x))) for x in reals]


def test_ideal_bits_of_reals_that_stand_for_integers() -> None:
    assert evaluate("and", [I32, I32], np.array([7.0]), np.array([12], np.int32), ideal=True).tolist() == [4]
    assert evaluate("shl", [U8, U32], np.array([3.0]), np.array([7.0]), ideal=True).tolist() == [128]


def test_batches() -> None:
    for e in (ELEMENTS["u5"], U8, U32, U64):
        for name in ("and", "xor", "extract", "deposit"):
            check_batching(name, [e, e], [edgy(e, 40, 9), edgy(e, 40, 10)])
        for name in SHIFTS:
            check_batching(name, [e, U32], [edgy(e, 40, 9), [0, 1, 3, width(e), 200, width(e) - 1]])
        for name in (*WORDS, "not"):
            check_batching(name, [e], [edgy(e, 40, 11)])
    check_batching("shr", [I8, U32], [edgy(I8, 40, 9), [0, 1, 3, 8, 200]])
    for name in FLOATS:
        check_batching("bits", [ELEMENTS[name]], [edgy_codes(ELEMENTS[name], 40, 12)])


def test_types() -> None:
    n = symbol(0)
    x, counts = Tensor(U8, (n,)), Tensor(U32, (n,))
    assert OPS["shl"].rule((x, counts), {}) == x
    assert OPS["popcount"].rule((x,), {}) == x
    assert OPS["bits"].rule((Tensor(F32, (n,)),), {}) == counts
    k = Tensor(open_element("k", "int"), (n,))
    assert OPS["and"].rule((k, k), {}) == k and OPS["shr"].rule((k, counts), {}) == k
    open_bits = OPS["bits"].rule((Tensor(open_element("e", "float"), (n,)),), {})
    assert OPS["xor"].rule((open_bits, open_bits), {}) == open_bits
    rejects("shl", [x, x], "`u32`")
    assert rejects("shl", [x, Tensor(U32)]).code == "E402"
    assert rejects("rotl", [tensor(I8), tensor(U32)], "unsigned").code == ELEMENT_UNFIT
    assert rejects("and", [tensor(U8), tensor(I8)]).code == ELEMENT_MISMATCH
    rejects("and", [tensor(F32), tensor(F32)], "integer or `bit`")
    rejects("xor", [tensor(T), tensor(T)], "integer or `bit`")
    rejects("popcount", [tensor(I32)], "unsigned")
    rejects("popcount", [tensor(BIT)], "unsigned")
    rejects("bits", [tensor(U32)], "a float")
    rejects("not", [tensor(open_element("e", "float"))], "integer or `bit`")


def _as_bytes(site: Any, x: Any) -> Any:
    return np.right_shift(x.byteswap(), 0)


def _by_less_than_the_width(site: Any, x: Any, count: Any) -> Any:
    return np.right_shift(x, np.minimum(count, site.result.element.bits - 1).astype(x.dtype))


FAULTS: list[tuple[str, Any, Callable[[], None]]] = [
    ("not", lambda s, x: np.invert(x), test_not),
    ("shl", lambda s, x, n: np.left_shift(x, n.astype(x.dtype)), lambda: test_shifts("shl")),
    ("shr", _by_less_than_the_width, lambda: test_shifts("shr")),
    ("rotl", OPS["rotr"].meaning, lambda: test_shifts("rotl")),
    ("clz", lambda s, x: np.full_like(x, 8), lambda: check_words("clz", [U8])),
    ("ctz", OPS["clz"].meaning, lambda: check_words("ctz", [ELEMENTS["u3"]])),
    ("reverse_bits", _as_bytes, lambda: check_words("reverse_bits", [U32])),
    ("extract", OPS["deposit"].meaning, lambda: test_fields("extract")),
    ("bits", lambda s, x: x.view(f"u{x.itemsize}") | 0, lambda: test_bits_of_floats("f32")),
]  # fmt: skip


@pytest.mark.parametrize("place", range(len(FAULTS)))
def test_planted_faults_are_found(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    name, wrong, check = FAULTS[place]
    with_meaning(monkeypatch, name, wrong)
    with pytest.raises(AssertionError):
        check()
