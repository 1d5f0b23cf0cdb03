"""LSTM and GRU with quantised gates, step by step in Python's whole numbers, at all widths; binary gates choose."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from codes_oracle import WIDTHS, Array, codes, wide

from bittern.types.elements import ELEMENTS

T, M, N = 6, 4, 5  # steps, units, inputs


def reached(x: int, at: Array) -> int:
    """How many thresholds a number reaches."""
    return int((x >= wide(at)).sum())


def coded(y: int, element: str) -> int:
    """What is output as a code: itself, or its sign."""
    if element == "b1":
        return -1 if y < 0 else 1
    return (y > 0) - (y < 0) if element == "t" else y


def limits(element: str) -> tuple[int, int]:
    """The least code that the hidden state takes, and how many more there are."""
    of = ELEMENTS[element]
    low, high = (-4, 3) if element in ("b1", "t") else (of.low, of.high)
    return low, high - low


def sorted_at(shape: tuple[int, ...], reach: int, seed: int) -> Array:
    """Ascending thresholds."""
    rng = np.random.default_rng(seed)
    return np.sort(rng.integers(-reach, reach, shape), -1).astype(np.int32)


def lstm_arguments(element: str, k: int) -> tuple[Array, ...]:
    """The leaves of an Lstm at a width. k: steps of a gate."""
    low, q = limits(element)
    w, r = codes(element, (4, M, N), 1), codes(element, (4, M, M), 2)
    reach = int(np.abs(wide(w)).max()) ** 2 * 4
    b = np.random.default_rng(3).integers(-reach, reach, (4, M)).astype(np.int32)
    gate, candidate = sorted_at((3, M, k), reach, 4), sorted_at((M, 8), reach, 5)
    squash = sorted_at((M, q), 12, 6)
    return w, r, b, gate, candidate, np.int32(-4), squash, np.int32(low), np.int32(5)


def lstm_steps(element: str, hidden: Array, state: Array, x: Array, p: tuple[Array, ...]) -> tuple[Array, list[int]]:
    """All steps. -> hidden states [T, M], the last state."""
    w, r, b, gate, candidate, low, squash, squash_low, most = p
    k, h, c, rows = gate.shape[-1], wide(hidden).tolist(), state.tolist(), []
    for step in x:
        score = wide(w) @ wide(step) + wide(r) @ np.array(h) + b
        new_h, new_c = [], []
        for u in range(M):
            i, f, o = (reached(score[g, u], gate[n, u]) for n, g in enumerate((0, 1, 3)))
            g = reached(score[2, u], candidate[u]) + int(low)
            kept = round(Fraction(f * c[u] + i * g, k))
            new_c.append(min(max(kept, -int(most)), int(most)))
            new_h.append(coded(round(Fraction(o * (reached(new_c[u], squash[u]) + int(squash_low)), k)), element))
        h, c = new_h, new_c
        rows.append(h)
    return np.array(rows), c


def form(element: str) -> dict[str, Any]:
    """How the form for hidden states of an element is called."""
    of = {"a": element, "e": element}
    if element in ("b1", "t"):
        return {"overload": element, "elements": of}
    return {"overload": "", "elements": {**of, "f": element}}


@pytest.mark.req("C025", "C036")
@pytest.mark.covers("recurrent.lstm", "recurrent.lstm_cell", "recurrent.gate_scores", "recurrent.shares")
@pytest.mark.covers("recurrent.of_shares")
@pytest.mark.parametrize("element", WIDTHS)
@pytest.mark.parametrize("k", [1, 4, 6])
def test_lstm(run: Any, element: str, k: int) -> None:
    p = lstm_arguments(element, k)
    hidden, state, x = codes(element, (M,), 7), np.array([3, -20, 20, 0], np.int32), codes(element, (T, N), 8)
    exact, last = lstm_steps(element, hidden, state, x, p)
    q = p[6].shape[1]
    y, c = run("recurrent.lstm", hidden, state, x, *p, dims=(T, M, N, k, 8, q), **form(element))
    assert np.array_equal(y, exact) and c.tolist() == last
    assert len(np.unique(exact)) > 1
    score = run("recurrent.gate_scores", p[0], p[1], p[2], x[0], hidden, dims=(4, M, N, M),
                elements={"a": element, "e": element, "f": element})  # fmt: skip
    assert np.array_equal(score, wide(p[0]) @ wide(x[0]) + wide(p[1]) @ wide(hidden) + p[2])
    out, _ = run("recurrent.lstm_cell", score, state, *p, dims=(M, N, k, 8, q), elements={"a": element})
    assert [coded(int(v), element) for v in out] == exact[0].tolist()
    gates = run("recurrent.shares", score[0], p[3][0], dims=(M, k))
    assert gates.tolist() == [reached(v, row) for v, row in zip(score[0], p[3][0], strict=True)]
    given = np.arange(-9, 10, dtype=np.int32)
    assert run("recurrent.of_shares", given, np.int32(k), dims=(19,)).tolist() == [
        round(Fraction(int(v), k)) for v in given
    ]


def gru_arguments(element: str, k: int) -> tuple[Array, ...]:
    """The leaves of a Gru at a width."""
    low, q = limits(element)
    w, r = codes(element, (3, M, N), 1), codes(element, (3, M, M), 2)
    reach = int(np.abs(wide(w)).max()) ** 2 * 4
    b, rb = np.random.default_rng(3).integers(-reach, reach, (4, M)).astype(np.int32)[:3], np.arange(M, dtype=np.int32)
    return w, r, b, rb, sorted_at((2, M, k), reach, 4), sorted_at((M, q), reach, 5), np.int32(low)


def gru_steps(element: str, hidden: Array, x: Array, p: tuple[Array, ...]) -> Array:
    """All steps. -> states [T, M]."""
    w, r, b, rb, gate, candidate, low = p
    k, h, rows = gate.shape[-1], wide(hidden).tolist(), []
    for step in x:
        score, back = wide(w) @ wide(step) + b, wide(r) @ np.array(h)
        new = []
        for u in range(M):
            reset, update = (reached(score[g, u] + back[g, u], gate[g, u]) for g in (0, 1))
            inner = int(score[2, u]) + round(Fraction(reset * int(back[2, u] + rb[u]), k))
            n = reached(inner, candidate[u]) + int(low)
            new.append(coded(round(Fraction(update * h[u] + (k - update) * n, k)), element))
        h = new
        rows.append(h)
    return np.array(rows)


@pytest.mark.req("C025", "C036")
@pytest.mark.covers("recurrent.gru", "recurrent.gru_cell", "recurrent.gru_scores")
@pytest.mark.parametrize("element", WIDTHS)
@pytest.mark.parametrize("k", [1, 4, 6])
def test_gru(run: Any, element: str, k: int) -> None:
    p = gru_arguments(element, k)
    hidden, x = codes(element, (M,), 7), codes(element, (T, N), 8)
    exact, q = gru_steps(element, hidden, x, p), p[5].shape[1]
    y = run("recurrent.gru", hidden, x, *p, dims=(T, M, N, k, q), **form(element))
    assert np.array_equal(y, exact) and len(np.unique(exact)) > 1
    score, back = run("recurrent.gru_scores", x[0], hidden, *p, dims=(M, N, k, q),
                      elements={"a": element, "e": element, "f": element})  # fmt: skip
    assert np.array_equal(score, wide(p[0]) @ wide(x[0]) + p[2])
    assert np.array_equal(back - np.array([[0], [0], [1]]) * p[3], wide(p[1]) @ wide(hidden))
    one = run(
        "recurrent.gru_cell", score, back, hidden.astype(np.int32), *p, dims=(M, N, k, q), elements={"a": element}
    )
    assert [coded(int(v), element) for v in one] == exact[0].tolist()


@pytest.mark.covers("recurrent.gru_cell")
def test_what_a_gate_passes_is_rounded(run: Any) -> None:
    """Half of 3 is 2 and half of 5 is 2: ties go to the even one, before the candidate's threshold."""
    gate = np.array([[[-1, 0, 1, 2]], [[9, 9, 9, 9]]], np.int32)
    for passed, at, expected in ((3, 2, 1), (5, 3, 0), (5, 2, 1), (-3, -1, 0), (-3, -2, 1)):
        back = np.array([[0], [0], [passed]], np.int32)
        p = (np.zeros((3, 1, 1), np.int8),) * 2 + (np.zeros((3, 1), np.int32), np.zeros(1, np.int32), gate)
        p += (np.array([[at]], np.int32), np.int32(0))
        y = run("recurrent.gru_cell", np.zeros((3, 1), np.int32), back, np.zeros(1, np.int32), *p,
                dims=(1, 1, 4, 1), elements={"a": "i8"})  # fmt: skip
        assert y.tolist() == [expected], passed


FAULTS: list[tuple[str, str, Callable[[Any], None]]] = [
    ("forget * state + input * candidate", "input * state + forget * candidate", lambda run: test_lstm(run, "i4", 4)),
    ("min(max(kept, -p.most), p.most)", "min(kept, p.most)", lambda run: test_lstm(run, "i8", 4)),
    ("of_shares(reset * back[2], parts)", "reset * back[2] / parts", test_what_a_gate_passes_is_rounded),
    ("update * hidden + (parts - update) * candidate", "update * candidate + (parts - update) * hidden",
     lambda run: test_gru(run, "i4", 1)),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(edited: Callable[..., Any], old: str, new: str, check: Callable[[Any], None]) -> None:
    with pytest.raises(AssertionError):
        check(edited("recurrent.btn", old, new))
