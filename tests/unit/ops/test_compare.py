"""Comparison and choice against Python's comparison of ints and fractions."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_cases import (
    NANS,
    SMALL,
    WIDE,
    array,
    check_batching,
    codes_of,
    decoded,
    edgy,
    edgy_codes,
    evaluate,
    from_codes,
    pairs,
    rejects,
    with_meaning,
)

from bittern.ops.table import OPS
from bittern.types.dims import symbol
from bittern.types.elements import B1, BIT, ELEMENTS, F16, F32, F64, I8, I32, U8, U64, Element, T, open_element
from bittern.types.faults import ELEMENT_MISMATCH, ELEMENT_UNFIT, SHAPE_MISMATCH
from bittern.types.values import Tensor, tensor

MEANT: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
}


def check_pairs(name: str, e: Element, left: list[int], right: list[int]) -> None:
    got = evaluate(name, [e, e], array(e, left), array(e, right)).tolist()
    assert got == [MEANT[name](x, y) for x, y in zip(left, right, strict=True)], (name, e.name)


@pytest.mark.parametrize("name", MEANT)
def test_integers(name: str) -> None:
    """All pairs of small elements, `b1`, `t` and `bit` too; edges of wide ones."""
    for e in SMALL:
        check_pairs(name, e, *pairs(e))
    for e, values in ((B1, [-1, 1]), (T, [-1, 0, 1]), (BIT, [0, 1])):
        check_pairs(name, e, [x for x in values for _ in values], values * len(values))
    for e in WIDE:
        left = edgy(e, 800, 1)
        check_pairs(name, e, left + left, edgy(e, 800, 2) + left)


@pytest.mark.parametrize("e", [F32, F64], ids=str)
@pytest.mark.parametrize("name", MEANT)
def test_floats(name: str, e: Element) -> None:
    """A NaN is unequal to everything, itself too; -0 equals +0."""
    nan, sign = NANS[e.name], 1 << (e.bits - 1)
    special = [0, sign, 1, 1 | sign, nan, nan | sign, nan | 3, *edgy_codes(e, 40, 3)]
    left, right = [x for x in special for _ in special], special * len(special)
    got = evaluate(name, [e, e], from_codes(e, left), from_codes(e, right)).tolist()
    for a, b, value in zip(left, right, got, strict=True):
        assert value == MEANT[name](decoded(e, a), decoded(e, b)), (name, hex(a), hex(b))


def test_select_passes_every_bit() -> None:
    """NaN payloads of both sides pass unseen; every element may be chosen."""
    for e in ELEMENTS.values():
        if e.is_format:
            continue
        if e.is_float:
            a, b = (from_codes(e, edgy_codes(e, 60, seed)) for seed in (4, 5))
        elif e.is_integer:
            a, b = (array(e, edgy(e, 60, seed)) for seed in (4, 5))
        else:
            a, b = (np.array([e.low, e.high] * 30).astype(e.storage), np.array([e.high] * 60).astype(e.storage))
        condition = np.arange(60) % 3 == 0
        got = evaluate("select", [BIT, e, e], condition, a, b)
        expected = [
            x if c else y for c, x, y in zip(condition, a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}"), strict=True)
        ]
        assert got.view(f"u{got.itemsize}").tolist() == expected, e.name
    assert codes_of(F32, evaluate("select", [BIT, F32, F32], True, from_codes(F32, [0x7FA00001])[0], np.float32(0)))


@pytest.mark.parametrize("name", MEANT)
def test_batches(name: str) -> None:
    for e in (U8, I8, I32, U64):
        check_batching(name, [e, e], [edgy(e, 40, 6), edgy(e, 40, 7)])
    for e in (F32, F64):
        check_batching(name, [e, e], [edgy_codes(e, 40, 8), edgy_codes(e, 40, 9)])


def test_batches_of_select() -> None:
    check_batching("select", [BIT, I32, I32], [[0, 1, 1], edgy(I32, 40, 8), edgy(I32, 40, 9)])
    check_batching("select", [BIT, F16, F16], [[0, 1, 1], edgy_codes(F16, 40, 8), edgy_codes(F16, 40, 9)])


def test_ideal_compares_reals() -> None:
    assert evaluate("lt", [I8, I8], np.array([1], np.int8), np.array([1.5]), ideal=True).tolist() == [True]
    got = evaluate(
        "select", [BIT, I8, I8], np.array([True, False]), np.array([1, 2], np.int8), np.array([0.5, 0.25]), ideal=True
    )
    assert got.tolist() == [1.0, 0.25]


def test_types() -> None:
    n = symbol(0)
    row = Tensor(F32, (n,))
    assert OPS["lt"].rule((row, row), {}) == Tensor(BIT, (n,))
    assert OPS["select"].rule((Tensor(BIT, (n,)), row, row), {}) == row
    for kind in ("type", "int", "float"):
        e = Tensor(open_element("e", kind), (n,))
        assert OPS["eq"].rule((e, e), {}) == Tensor(BIT, (n,))
        assert OPS["select"].rule((Tensor(BIT, (n,)), e, e), {}) == e
    assert rejects("eq", [tensor(F16), tensor(F16)], "storage only").code == ELEMENT_UNFIT
    assert rejects("eq", [tensor(F32), tensor(I32)], "`i32`").code == ELEMENT_MISMATCH
    assert rejects("select", [tensor(BIT), row, row]).code == "E402"
    assert rejects("select", [Tensor(BIT, (n + 1,)), row, row]).code == SHAPE_MISMATCH
    rejects("select", [tensor(U8), tensor(F32), tensor(F32)], "`bit`")
    q = tensor(ELEMENTS["q4_0"], 2, 32)
    rejects("select", [tensor(BIT, 2, 32), q, q], "blocks")
    rejects("lt", [q, q], "an integer")


def _maximum(site: Any, c: Any, a: Any, b: Any) -> Any:
    return np.where(c, a, b) + np.zeros((), a.dtype)


FAULTS: list[tuple[str, Any, Callable[[], None]]] = [
    ("le", lambda s, x, y: ~np.less(y, x), lambda: test_floats("le", F32)),
    ("eq", lambda s, x, y: np.equal(x.view(np.uint32), y.view(np.uint32)), lambda: test_floats("eq", F32)),
    ("lt", lambda s, x, y: np.less(x.astype(np.int64), y.astype(np.int64)), lambda: test_integers("lt")),
    ("select", lambda s, c, a, b: np.where(c, b, a), test_select_passes_every_bit),
    ("select", _maximum, test_select_passes_every_bit),
]


@pytest.mark.parametrize("place", range(len(FAULTS)))
def test_planted_faults_are_found(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    name, wrong, check = FAULTS[place]
    with_meaning(monkeypatch, name, wrong)
    with pytest.raises(AssertionError):
        check()
