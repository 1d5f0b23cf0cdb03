"""Branches joined with one rounding, widened and projected; tables of codes."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from codes_oracle import PAIRS, WIDTHS, Array, codes, wide

from bittern.types.elements import ELEMENTS


def joined(x: Array, y: Array, zeros: tuple[int, int], mx: Array, my: Array, shift: Array) -> list[int]:
    """Both branches by fractions, one rounding to the nearest, ties up, clamped to 32 bits."""
    rows = zip(wide(x).tolist(), wide(y).tolist(), mx.tolist(), my.tolist(), shift.tolist(), strict=True)
    exact = [Fraction((a - zeros[0]) * p + (b - zeros[1]) * q, 2**s) for a, b, p, q, s in rows]
    return [min(max(math.floor(v + Fraction(1, 2)), -(2**31)), 2**31 - 1) for v in exact]


def scales(c: int, seed: int) -> tuple[Array, Array, Array]:
    """Multipliers of both branches and shifts."""
    rng = np.random.default_rng(seed)
    mx, my = rng.integers(-(2**15), 2**15, (2, c)).astype(np.int32)
    return mx, my, rng.integers(0, 24, c).astype(np.uint32)


@pytest.mark.req("C025")
@pytest.mark.covers("residual.residual_sum", "residual.residual", "residual.residual_projected", "residual.widened")
@pytest.mark.parametrize(("left", "right"), [*PAIRS, ("i32", "i8"), ("i32", "i32")])
def test_branches(run: Any, left: str, right: str) -> None:
    c = 200
    x, y = (np.clip(wide(codes(e, (c,), i)), -(2**31), 2**31 - 1) for i, e in enumerate((left, right)))
    x, y = x.astype(ELEMENTS[left].storage), y.astype(ELEMENTS[right].storage)
    mx, my, shift = scales(c, 5)
    of, zeros = {"a": left, "e": right}, (3, -2)
    given = (np.int32(3), np.int32(-2), mx, my, shift)
    total = run("residual.residual_sum", x, y, *given, dims=(c,), elements=of)
    exact = joined(x, y, zeros, mx, my, shift)
    assert total.tolist() == exact
    for to in ("i2", "u4", "i8"):
        low, high = ELEMENTS[to].low, ELEMENTS[to].high
        limits = np.int32(1), np.int32(low), np.int32(high)
        z = run("residual.residual", x, y, *given, *limits, dims=(c,), elements={**of, "d": to})
        assert z.tolist() == [min(max(v + 1, low), high) for v in exact]
    if left in WIDTHS:
        w, small = codes(left, (c, 7), 6), codes(left, (7,), 8)
        z = run("residual.residual_projected", w, small, y, *given[1:], dims=(c, 7),
                elements={"a": left, "e": left, "d": right})  # fmt: skip
        assert z.tolist() == joined(wide(w) @ wide(small), y, (0, -2), mx, my, shift)
        more = run("residual.widened", small, w[0, 0], dims=(2, 3, 7), elements={"e": left})
        assert np.array_equal(more, np.pad(small, (2, 3), constant_values=w[0, 0]))


@pytest.mark.req("C025")
@pytest.mark.covers("embedding.embedding", "embedding.embedding_sum")
@pytest.mark.parametrize("element", [*WIDTHS, "u8", "bit"])
def test_rows_of_codes(run: Any, element: str) -> None:
    table, token = codes(element, (9, 5), 1), np.array([0, 8, 3, 3, 20, 2**32 - 1], np.uint32)
    y = run("embedding.embedding", table, token, dims=(9, 5, 6), elements={"e": element})
    rows = table[np.minimum(token, 8)]
    assert np.array_equal(y, rows)
    used = np.array([True, False, True, True, False, True])
    z = run("embedding.embedding_sum", table, token, used, dims=(9, 5, 6), elements={"e": element})
    assert np.array_equal(z, wide(rows[used]).sum(0))


FAULTS: list[tuple[str, str, Callable[[Any], None]]] = [
    ("<< shift >> 1", "<< shift >> 2", lambda run: test_branches(run, "i4", "i4")),
    ("(i64(y) - i64(zero_y)) * i64(multiplier_y)", "(i64(y) - i64(zero_y)) * i64(multiplier_x)",
     lambda run: test_branches(run, "t", "t")),
    ("sat[i32](left + right", "wrap[i32](left + right", lambda run: test_branches(run, "i32", "i32")),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(edited: Callable[..., Any], old: str, new: str, check: Callable[[Any], None]) -> None:
    with pytest.raises(AssertionError):
        check(edited("residual.btn", old, new))
