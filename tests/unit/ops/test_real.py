"""Functions over the reals, against arbitrary precision: for `ideal` bodies alone."""

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from row_cases import bits, call, plant, refuses

from bittern.ops.table import OPS, Array
from bittern.types.dims import dim, symbol
from bittern.types.elements import BF16, BIT, F16, F32, F64, FORMATS, I32, Element, open_element
from bittern.types.values import Tensor, tensor

N = symbol(0)
FLOATS = (F16, BF16, F32, F64)
EXACT: dict[str, Callable[..., Any]] = {
    "exp": mpmath.exp,
    "log": mpmath.log,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tanh": mpmath.tanh,
    "erf": mpmath.erf,
    "pow": mpmath.power,
}
NUMBERS = np.array([0.0, -0.0, 1e-300, 1e-9, 0.3, -0.7, 1.0, -1.0, 2.5, -3.75, 19.0, -42.5, 300.0, 1e5])


def check(name: str, element: Element) -> None:
    """At most 4 units in the last place from the exact value."""
    x = np.abs(NUMBERS[2:]) if name in ("log", "pow") else NUMBERS
    operands = [x, np.resize([0.0, 0.5, -1.5, 3.0, -0.1], x.shape)][: 2 if name == "pow" else 1]
    found = call(name, [element] * len(operands), *operands, ideal=True)
    assert found.dtype == np.float64
    with mpmath.workdps(40):
        for i, value in enumerate(found.tolist()):
            exact = EXACT[name](*[mpmath.mpf(float(a[i])) for a in operands])
            assert abs(mpmath.mpf(value) - exact) <= 4 * math.ulp(float(exact)), (name, [a[i] for a in operands])


@pytest.mark.parametrize("element", FLOATS, ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_numbers(name: str, element: Element) -> None:
    check(name, element)


def test_edges() -> None:
    """Every op is total: no number, no warning, no trap."""
    x = np.array([np.nan, np.inf, -np.inf, -1.0, 0.0, 1e300])
    expected: dict[str, list[float]] = {
        "exp": [np.nan, np.inf, 0, math.exp(-1), 1, np.inf],
        "log": [np.nan, np.inf, np.nan, np.nan, -np.inf, math.log(1e300)],
        "tanh": [np.nan, 1, -1, math.tanh(-1), 0, 1],
        "erf": [np.nan, 1, -1, math.erf(-1), 0, 1],
    }
    for name, values in expected.items():
        np.testing.assert_allclose(call(name, [F64], x, ideal=True), values, rtol=1e-15, err_msg=name)
    for name in ("sin", "cos"):
        assert np.isnan(call(name, [F64], x, ideal=True)[:3]).all()
    y = np.array([0.0, 0.0, 0.0, 0.5, -1.0, 2.0])
    np.testing.assert_array_equal(call("pow", [F64] * 2, x, y, ideal=True), [1, 1, 1, np.nan, np.inf, np.inf])


def test_one_number() -> None:
    for name in EXACT:
        count = 2 if name == "pow" else 1
        found = call(name, [F32] * count, *[np.float64(0.5)] * count, ideal=True)
        assert found.shape == () and abs(float(found) - float(EXACT[name](*[0.5] * count))) < 1e-15


def test_stored_floats_are_read_as_reals() -> None:
    """An operand may still be stored as it was given."""
    assert bits(call("exp", [F32], np.array([0.0, 1.0], np.float32), ideal=True)).tolist() == [
        int(v) for v in np.exp(np.array([0.0, 1.0])).view(np.uint64)
    ]


def test_rules() -> None:
    for name in EXACT:
        count = 2 if name == "pow" else 1
        row = OPS[name]
        assert row.ideal_only and row.ideal is None
        for element in (*FLOATS, open_element("e", "float"), open_element("e", "type")):
            assert row.rule((Tensor(element, (N,), "host"),) * count, {}) == Tensor(element, (N,), "host")
        for element in (I32, BIT, FORMATS["q4_0"], open_element("w", "format"), open_element("i", "int")):
            refuses("E302", "a float", name, [tensor(element, 64)] * count)
        refuses("E303", f"{count + 1} operands / {count}", name, [Tensor(F32)] * (count + 1))
    refuses("E301", "`f64` / `f32`", "pow", [Tensor(F32), Tensor(F64)])
    refuses("E401", "shape [3] / shape [d0]", "pow", [Tensor(F32, (N,)), Tensor(F32, (dim(3),))])


def test_planted_faults_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_single(site: Any, x: Array) -> Array:
        return np.asarray(np.exp(x.astype(np.float32)).astype(np.float64))

    plant(monkeypatch, "exp", in_single)
    with pytest.raises(AssertionError):
        check("exp", F32)
    plant(monkeypatch, "sin", OPS["cos"].meaning)
    with pytest.raises(AssertionError):
        check("sin", F32)
