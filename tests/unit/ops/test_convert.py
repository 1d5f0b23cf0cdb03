"""Conversions against the definition in fractions: every code of the small floats, edges and ties of the large."""

import random
from collections.abc import Callable
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np
import pytest
from op_cases import (
    FLOATS,
    NANS,
    SMALL,
    WIDE,
    array,
    canonical_codes,
    check_batching,
    clamped,
    codes_of,
    decoded,
    edgy,
    edgy_codes,
    encoded,
    evaluate,
    everything,
    from_codes,
    high,
    low,
    rejects,
    with_meaning,
    wrapped,
)

from bittern.ops.table import OPS
from bittern.types.dims import dim, symbol
from bittern.types.elements import (
    B1,
    BF16,
    BIT,
    ELEMENTS,
    F16,
    F32,
    F64,
    I8,
    I32,
    I64,
    U8,
    U32,
    U64,
    Element,
    T,
    open_element,
)
from bittern.types.faults import ATTRIBUTE_UNFIT, ELEMENT_UNFIT, RANK_UNFIT, SHAPE_MISMATCH
from bittern.types.values import Tensor, tensor

E4M3, E5M2 = ELEMENTS["f8_e4m3"], ELEMENTS["f8_e5m2"]
INTEGERS = SMALL + WIDE
ORDER = ["f8_e4m3", "f8_e5m2", "f16", "bf16", "f32", "f64"]
LOSSLESS = {  # float -> those that have all its values
    "f8_e4m3": {"f16", "bf16", "f32", "f64"},
    "f8_e5m2": {"f16", "bf16", "f32", "f64"},
    "f16": {"f32", "f64"},
    "bf16": {"f32", "f64"},
    "f32": {"f64"},
    "f64": set(),
}


def values_of(e: Element) -> list[int]:
    return (
        everything(e)
        if e in SMALL
        else [low(e), low(e) + 1, -1 % (high(e) + 1), high(e) - 1, high(e), *edgy(e, 200, 1)]
    )


# --- integers


@pytest.mark.parametrize("name", ["wrap", "sat"])
def test_integers_wrap_and_clamp(name: str) -> None:
    """Every pair of integer elements; all values of the small ones."""
    meant = wrapped if name == "wrap" else clamped
    for source in INTEGERS:
        values = values_of(source)
        for to in INTEGERS:
            got = evaluate(name, [source], array(source, values), to=to).tolist()
            assert got == [meant(to, x) for x in values], (name, source.name, to.name)


def test_convert_between_integers_cannot_lose() -> None:
    for source in INTEGERS:
        for to in INTEGERS:
            if low(to) <= low(source) and high(source) <= high(to):
                values = values_of(source)
                assert evaluate("convert", [source], array(source, values), to=to).tolist() == values
            else:
                rejects("convert", [tensor(source)], f"wrap[{to}]", f"sat[{to}]", to=to)


@pytest.mark.parametrize("to", [F32, F64], ids=str)
def test_integers_become_the_nearest_float(to: Element) -> None:
    """One rounding, also from 64 bits: values half way between floats, and just beside them."""
    digits = FLOATS[to.name][1] + 1
    rng = random.Random(2)
    for source in INTEGERS:
        values = values_of(source)
        for _ in range(600 if source in WIDE else 0):
            near = (rng.getrandbits(digits) | 1 << (digits - 1)) * 2 + 1  # half way at `digits` bits
            shift = rng.randrange(max(1, int(source.name[1:]) - digits))
            values.append(wrapped(source, rng.choice([1, -1]) * ((near << shift) + rng.randrange(-1, 2))))
        got = codes_of(to, evaluate("convert", [source], array(source, values), to=to))
        for x, code in zip(values, got, strict=True):
            assert code == encoded(to, Fraction(x)), (source.name, x, hex(code))


# --- floats


def test_wider_floats_have_every_value() -> None:
    """All codes of 8 bits, and every seventh of 16. What has not every value is refused."""
    for name in ORDER:
        source = ELEMENTS[name]
        codes = {8: list(range(256)), 16: list(range(0, 65536, 7))}.get(source.bits, [])
        codes += edgy_codes(source, 1000, 3)
        stored, sign = from_codes(source, codes), 1 << (source.bits - 1)
        for other in ORDER:
            to = ELEMENTS[other]
            if other in LOSSLESS[name]:
                got = canonical_codes(to, evaluate("convert", [source], stored, to=to))
                meant = [encoded(to, decoded(source, c), negative=bool(c & sign)) for c in codes]
                assert got == meant, (name, other)
                rejects("round", [tensor(source)], f"`{to}(x)`", to=to)
            elif other != name:
                rejects("convert", [tensor(source)], f"round[{to}]", to=to)


HALF = Fraction(1, 2)
PARTS = [Fraction(0), HALF, *(HALF + sign * Fraction(1, 1 << bits) for bits in (12, 28) for sign in (1, -1))]


def ties(to: Element, count: int, seed: int) -> list[Fraction]:
    """Values at, half way between, and barely beside numbers of a float; also around its overflow and underflow."""
    rng, found = random.Random(f"{to.name} {seed}"), []
    codes = edgy_codes(to, count, seed) + list(range(6)) + [NANS[to.name] - step for step in range(1, 9)]
    half = 1 << (to.bits - 1)  # codes below it are positive
    for code in codes:
        low_, high_ = (decoded(to, c % half) for c in (code, code + 1))
        if not isinstance(low_, Fraction):
            continue
        step = high_ - low_ if isinstance(high_, Fraction) else low_ - decoded(to, (code - 1) % half)
        if not isinstance(step, Fraction):
            continue
        for part in (
            Fraction(0),
            Fraction(1, 2),
            Fraction(1, 2) + Fraction(1, 1 << 12),
            Fraction(1, 2) - Fraction(1, 1 << 12),
        ):
            found.append(rng.choice([1, -1]) * (low_ + part * step))
        found.append(low_ + step * (Fraction(1, 2) + Fraction(1, 1 << 28)))
        found.append(low_ + step * (Fraction(1, 2) - Fraction(1, 1 << 28)))
    return found


def check_narrowing(source: Element, to: Element) -> None:
    codes = edgy_codes(source, 1500, 4)
    codes += [encoded(source, value) for value in ties(to, 250, 5)]
    got = codes_of(to, evaluate("round", [source], from_codes(source, codes), to=to))
    for code, value in zip(codes, got, strict=True):
        exact = decoded(source, code)
        meant = encoded(to, exact, negative=bool(code >> (source.bits - 1)))
        assert value == meant, (source.name, to.name, hex(code), hex(value), hex(meant))


NARROWING = [(a, b) for a in ORDER for b in ORDER if a != b and b not in LOSSLESS[a]]


@pytest.mark.parametrize("source, to", NARROWING)
def test_floats_narrow_with_one_rounding(source: str, to: str) -> None:
    """Ties to even, overflow to infinity (f8_e4m3: NaN), subnormals kept, NaN canonical; f64 -> bf16 in one step."""
    check_narrowing(ELEMENTS[source], ELEMENTS[to])


def test_one_rounding_where_two_would_differ() -> None:
    """1 + 2^-8 + 2^-40 is above half way for bf16, but f32 would make it the tie, and then 1."""
    value = np.array([1 + 2.0**-8 + 2.0**-40])
    assert evaluate("round", [F64], value, to=BF16).tolist() == [0x3F81]
    assert codes_of(F16, evaluate("round", [F64], np.array([1 + 2.0**-11 + 2.0**-40]), to=F16)) == [0x3C01]
    assert evaluate("round", [F64], np.array([1 + 2.0**-4 + 2.0**-40]), to=E4M3).tolist() == [0x39]


def test_f16_to_the_small_floats() -> None:
    """Every fifth f16 code rounds to f8 as its fraction does."""
    codes = list(range(0, 1 << 16, 5))
    exact = [decoded(F16, c) for c in codes]
    for to in (E4M3, E5M2):
        got = evaluate("round", [F16], from_codes(F16, codes), to=to).tolist()
        for code, x, value in zip(codes, exact, got, strict=True):
            assert value == encoded(to, x, negative=code >= 1 << 15), (to.name, hex(code))


def test_round_to_the_same_float_is_the_identity() -> None:
    """Every bit passes, NaN payloads too."""
    for name in ORDER:
        e = ELEMENTS[name]
        codes = edgy_codes(e, 300, 6)
        assert codes_of(e, evaluate("round", [e], from_codes(e, codes), to=e)) == codes


# --- floats to integers


def check_to_integers(source: Element, to: Element) -> None:
    codes = edgy_codes(source, 400, 7)
    if source.bits >= 32:
        near = [Fraction(k) + part for k in (low(to), high(to), 0, 1, 2, 3, -1, -2) for part in HALVES]
        codes += [encoded(source, x) for x in near]
        edge = [encoded(source, Fraction(x)) for x in (low(to) or 1, high(to), high(to) + 1)]
        codes += [c + step for c in edge for step in (-2, -1, 0, 1, 2)]
    got = evaluate("round", [source], from_codes(source, codes), to=to).tolist()
    for code, value in zip(codes, got, strict=True):
        exact = decoded(source, code)
        if isinstance(exact, Fraction):
            meant = clamped(to, round(exact))
        else:
            meant = {inf: high(to), -inf: low(to)}.get(exact, 0)
        assert value == meant, (source.name, to.name, hex(code), value, meant)


HALVES = [Fraction(n, 4) for n in range(-6, 7)]


@pytest.mark.parametrize("source", ORDER)
def test_floats_round_to_integers(source: str) -> None:
    """Ties to even, then clamped; NaN gives 0. f32 -> i64 and u64 at the bounds, which no f32 holds."""
    for to in INTEGERS:
        check_to_integers(ELEMENTS[source], to)


@pytest.mark.parametrize("source", [F32, F64, I8, U8, I64, U64], ids=str)
def test_signs(source: Element) -> None:
    """b1: -1 below zero, else +1, for -0 and NaN too. t: NaN gives 0."""
    if source.is_float:
        codes = edgy_codes(source, 300, 8)
        stored, exact = from_codes(source, codes), [decoded(source, c) for c in codes]
    else:
        stored = array(source, values_of(source))
        exact = [Fraction(x) for x in values_of(source)]
    assert evaluate("sign", [source], stored, to=B1).tolist() == [-1 if x < 0 else 1 for x in exact]
    assert evaluate("sign", [source], stored, to=T).tolist() == [(x > 0) - (x < 0) for x in exact]


def test_bits_and_signs_as_numbers() -> None:
    bits = np.array([False, True])
    assert evaluate("convert", [BIT], bits, to=B1).tolist() == [-1, 1]
    for to in INTEGERS:
        assert evaluate("convert", [BIT], bits, to=to).tolist() == [0, 1]
    signs, trits = np.array([-1, 1], np.int8), np.array([-1, 0, 1], np.int8)
    for to in INTEGERS:
        if to.name[0] == "i":
            assert evaluate("convert", [B1], signs, to=to).tolist() == [-1, 1]
            assert evaluate("convert", [T], trits, to=to).tolist() == [-1, 0, 1]
        else:
            rejects("convert", [tensor(T)], "signed integer", to=to)
    for name in ORDER:
        to = ELEMENTS[name]
        assert codes_of(to, evaluate("convert", [T], trits, to=to)) == [encoded(to, Fraction(x)) for x in (-1, 0, 1)]
        assert codes_of(to, evaluate("convert", [BIT], bits, to=to)) == [encoded(to, Fraction(x)) for x in (0, 1)]


# --- batches


def test_batches() -> None:
    for to in (U8, I64, ELEMENTS["i3"]):
        check_batching("wrap", [I32], [edgy(I32, 40, 11)], to=to)
        check_batching("sat", [I32], [edgy(I32, 40, 11)], to=to)
    for source, to in ((I8, I32), (U64, F32), (F16, F32), (BF16, F64), (E4M3, BF16)):
        column = edgy_codes(source, 40, 12) if source.is_float else edgy(source, 40, 12)
        check_batching("convert", [source], [column], to=to)
    for to in (I8, U64, I32, F16, BF16, E4M3, E5M2, F32):
        for source in (F32, F64):
            if source != to:
                check_batching("round", [source], [edgy_codes(source, 40, 13)], to=to)
    for to in (B1, T):
        check_batching("sign", [F32], [edgy_codes(F32, 40, 14)], to=to)
        check_batching("from_bits", [U8], [edgy(U8, 40, 14)], to=to)
    check_batching("from_bits", [U32], [edgy(U32, 40, 15)], to=F32)


# --- ideal evaluation


def test_ideal_keeps_reals() -> None:
    """No rounding to a float element; integers are still made; codes that became reals stay real."""
    x = np.array([0.1, -2.5, 1e300])
    for to in (F16, BF16, F32):
        assert evaluate("round", [F64], x, ideal=True, to=to).tolist() == x.tolist()
        assert evaluate("convert", [E4M3], x, ideal=True, to=to).tolist() == x.tolist()
    assert evaluate("round", [F32], x, ideal=True, to=I8).tolist() == [0, -2, 127]
    assert evaluate("convert", [I8], x, ideal=True, to=I32).tolist() == x.tolist()
    assert evaluate("convert", [I8], x, ideal=True, to=F32).tolist() == x.tolist()
    assert evaluate("wrap", [I32], x, ideal=True, to=I8).tolist() == x.tolist()
    whole = evaluate("convert", [U64], array(U64, [2**64 - 1]), ideal=True, to=F32)
    assert whole.dtype == np.float64 and whole.tolist() == [2.0**64]
    assert evaluate("convert", [I8], array(I8, [-3]), ideal=True, to=I32).dtype == np.int32
    assert evaluate("convert", [BIT], np.array([True]), ideal=True, to=F16).tolist() == [1.0]


# --- types


def test_types() -> None:
    n = symbol(0)
    row = Tensor(F32, (n,))
    assert OPS["round"].rule((row,), {"to": I8}) == Tensor(I8, (n,))
    assert OPS["convert"].rule((Tensor(I8, (n,), "device"),), {"to": F32}) == Tensor(F32, (n,), "device")
    block = Tensor(U8, (n, dim(2)))
    assert OPS["from_bits"].rule((block,), {"to": F16}) == Tensor(F16, (n,))
    assert OPS["from_bits"].rule((block,), {"to": I8}) == Tensor(I8, (n, dim(2)))
    assert OPS["unpack"].rule((Tensor(U8, ((n * 4 + 7) // 8,)),), {"to": ELEMENTS["u4"], "count": n}) == Tensor(
        ELEMENTS["u4"], (n,)
    )
    assert OPS["unpack"].rule((Tensor(U8, (n,)),), {"to": ELEMENTS["u4"], "count": n * 2}).shape == (n * 2,)  # type: ignore[union-attr]
    assert OPS["pack"].rule((Tensor(ELEMENTS["u4"], (n * 2,)),), {"bits": 4}) == Tensor(U8, (n,))


def test_refusals_name_the_remedy() -> None:
    n = symbol(0)
    assert rejects("convert", [tensor(F32)], "round[i8]", to=I8).code == ELEMENT_UNFIT
    rejects("convert", [tensor(I32)], "round[f16](f32(x))", to=F16)
    rejects("convert", [tensor(I32)], "sign[t]", "from_bits[t]", to=T)
    rejects("convert", [tensor(I32)], "x != 0", to=BIT)
    rejects("convert", [tensor(ELEMENTS["q8_0"], 2, 32)], "blocks", to=F32)
    rejects("convert", [tensor(B1)], "signed integer", to=U8)
    assert rejects("convert", [tensor(I32)], to=None).code == ATTRIBUTE_UNFIT
    rejects("round", [tensor(I32)], "a float", to=I8)
    rejects("round", [tensor(F32)], "f64(x)", to=F64)
    rejects("round", [tensor(F32)], "sign[b1]", to=B1)
    rejects("wrap", [tensor(F32)], "round[i8]", to=I8)
    rejects("sat", [tensor(I32)], "integer type", to=F32)
    rejects("sign", [tensor(F32)], "`b1` or `t`", to=I8)
    rejects("sign", [tensor(F16)], "storage only", to=B1)
    rejects("from_bits", [tensor(U32)], "`u16`", "u8[..., 2]", to=F16)
    rejects("from_bits", [tensor(I32)], "u32", to=F32)
    assert rejects("from_bits", [tensor(U8)], "bytes", to=F32).code == RANK_UNFIT
    fault = rejects("from_bits", [Tensor(U8, (n, n))], "{0}", "4", to=F32)
    assert fault.code == SHAPE_MISMATCH and fault.dims == (n,)
    assert rejects("pack", [tensor(U8, 4)], "1 to 8", bits=9).code == ATTRIBUTE_UNFIT
    rejects("pack", [tensor(T, 4)], "2 to 2", bits=1)
    assert rejects("pack", [tensor(U8, 4, 4)], "map", bits=8).code == RANK_UNFIT
    assert rejects("unpack", [tensor(U8, 4)], to=U8, count=dim(5)).code == SHAPE_MISMATCH
    assert rejects("unpack", [Tensor(U8, (n,))], to=U8, count=symbol(1)).code == SHAPE_MISMATCH
    rejects("unpack", [tensor(U8, 4)], "at most 8 bits", to=F32, count=dim(1))


def test_open_elements_pass_where_their_class_permits() -> None:
    n = symbol(0)
    e, k, a = (Tensor(open_element(*pair), (n,)) for pair in (("e", "float"), ("k", "int"), ("a", "type")))
    row = Tensor(F32, (n,))
    for to in (e, k, a):
        assert OPS["round"].rule((row,), {"to": to.element}) == to
    for source in (e, k, a):
        assert OPS["convert"].rule((source,), {"to": F32}) == row
    assert OPS["round"].rule((e,), {"to": I8}) == Tensor(I8, (n,))
    assert OPS["wrap"].rule((Tensor(I32, (n,)),), {"to": k.element}) == k
    assert OPS["sat"].rule((k,), {"to": I8}) == Tensor(I8, (n,))
    assert OPS["from_bits"].rule((OPS["bits"].rule((e,), {}),), {"to": e.element}) == e
    assert OPS["unpack"].rule((Tensor(U8, (n,)),), {"to": k.element, "count": n}) == k
    rejects("convert", [e], to=I32)
    rejects("round", [k], "a float", to=I8)
    rejects("wrap", [e], "an integer", to=I8)
    rejects("convert", [Tensor(open_element("weight", "format"), (n, n))], "decode", to=F32)


# --- planted faults


def _half_away(site: Any, x: Any) -> Any:
    whole = np.trunc(x.astype(np.float64) + np.copysign(0.5, x))
    return np.clip(np.nan_to_num(whole, nan=0.0, posinf=1e9, neginf=-1e9), -128, 127).astype(np.int8)


def _by_way_of_f64(site: Any, x: Any) -> Any:
    return x.astype(np.float64).astype(site.result.element.storage)


def _through_f32(site: Any, x: Any) -> Any:
    return OPS_ROUND(site, x.astype(np.float32))


OPS_ROUND = OPS["round"].meaning
FAULTS: list[tuple[str, Any, Callable[[], None]]] = [
    ("convert", _by_way_of_f64, lambda: test_integers_become_the_nearest_float(F32)),
    ("wrap", lambda s, x: x.astype(s.result.element.storage), lambda: test_integers_wrap_and_clamp("wrap")),
    ("sat", OPS["wrap"].meaning, lambda: test_integers_wrap_and_clamp("sat")),
    ("round", _half_away, lambda: check_to_integers(F32, I8)),
    ("round", lambda s, x: np.rint(x).astype(np.int64), lambda: check_to_integers(F32, I64)),
    ("round", _through_f32, lambda: check_narrowing(F64, BF16)),
    ("round", _through_f32, lambda: check_narrowing(F64, F16)),
    ("round", lambda s, x: (x.view(np.uint32) >> 16).astype(np.uint16), lambda: check_narrowing(F32, BF16)),
    ("round", lambda s, x: np.where(np.abs(x) < 2.0**-14, 0, x).astype(np.float16), lambda: check_narrowing(F32, F16)),
    ("sign", lambda s, x: np.where(np.signbit(x), -1, 1).astype(np.int8), lambda: test_signs(F32)),
]  # fmt: skip


@pytest.mark.parametrize("place", range(len(FAULTS)))
def test_planted_faults_are_found(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    name, wrong, check = FAULTS[place]
    with_meaning(monkeypatch, name, wrong)
    with pytest.raises(AssertionError):
        check()
