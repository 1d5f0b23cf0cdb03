"""Rounding with the inputs in view: GPTQ against its definition with an inverse, AdaRound against all choices."""

from itertools import product as all_of

import numpy as np
import pytest
from quantise_cases import inputs, matrix, printed_everywhere

from bittern.front.quantise import adaround, compensate
from bittern.front.quantise.adaround import learned_codes
from bittern.front.quantise.codes import Scheme, nearest_codes, scales_of, values_of
from bittern.front.quantise.compensate import compensated_codes, damped, hessian, output_error
from bittern.front.quantise.widths import WIDTHS, width

SCHEMES = [Scheme(row, method="mse") for row in WIDTHS.values()]


def by_inverse(weights: np.ndarray, scheme: Scheme, square: np.ndarray) -> np.ndarray:
    """GPTQ as it is defined: column after column, each error spread by the inverse Hessian of the columns left."""
    scales = scales_of(weights, scheme)
    order = np.argsort(np.diagonal(square), kind="stable")[::-1]
    whole = damped(square)
    left = weights.astype(np.float64).copy()
    codes = np.zeros(weights.shape, np.int16)
    rest = list(order)
    while rest:
        j = rest[0]
        inverse = np.linalg.inv(whole[np.ix_(rest, rest)])
        codes[:, j] = nearest_codes(left[:, j : j + 1], scales, scheme.grid)[:, 0]
        value = values_of(codes[:, j : j + 1], scales)[:, 0]
        error = (left[:, j] - value) / inverse[0, 0]
        left[:, rest] -= error[:, None] * inverse[0][None, :]
        rest = rest[1:]
    return codes


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: s.width.name)
def test_compensation_is_gptq(scheme: Scheme) -> None:
    for seed in range(3):
        weights, square = matrix(seed, 5, 14), hessian(inputs(seed, 60, 14))
        found = compensated_codes(weights, scales_of(weights, scheme), scheme.grid, square)
        assert (found == by_inverse(weights, scheme, square)).mean() > 0.97  # all, but for ties within rounding
        assert found.min() >= scheme.grid.low and found.max() <= scheme.grid.high


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: s.width.name)
def test_outputs_lose_less(scheme: Scheme) -> None:
    weights, square = matrix(3, 8, 40), hessian(inputs(3, 200, 40))
    scales = scales_of(weights, scheme)
    codes = [
        nearest_codes(weights, scales, scheme.grid),
        compensated_codes(weights, scales, scheme.grid, square),
        learned_codes(weights, scales, scheme.grid, square, steps=100),
    ]
    plain, gptq, learned = (output_error(weights, values_of(each, scales), square) for each in codes)
    assert gptq.sum() < 0.9 * plain.sum() and learned.sum() < 0.9 * plain.sum() and (learned <= plain).all()


def test_a_diagonal_hessian_changes_nothing() -> None:
    weights = matrix(4, 6, 20)
    for scheme in SCHEMES:
        scales = scales_of(weights, scheme)
        plain = nearest_codes(weights, scales, scheme.grid)
        for square in (np.zeros((20, 20)), np.diag(np.arange(20.0))):
            assert np.array_equal(compensated_codes(weights, scales, scheme.grid, square), plain)
            error = output_error(weights, values_of(plain, scales), square)
            learned = learned_codes(weights, scales, scheme.grid, square, steps=20)
            assert np.allclose(output_error(weights, values_of(learned, scales), square), error)


def test_groups_and_zero_points() -> None:
    weights, square = matrix(5, 6, 20), hessian(inputs(5, 90, 20))
    for scheme in (Scheme(width("4"), False), Scheme(width("3"), granularity="8"), Scheme(width("2"), False, "7")):
        scales = scales_of(weights, scheme)
        plain = output_error(weights, values_of(nearest_codes(weights, scales, scheme.grid), scales), square).sum()
        for rounded in (compensated_codes, learned_codes):
            codes = rounded(weights, scales, scheme.grid, square)
            assert output_error(weights, values_of(codes, scales), square).sum() < plain
            assert codes.min() >= scheme.grid.low and codes.max() <= scheme.grid.high


def test_learned_rounding_is_near_the_best_choice() -> None:
    """Brute force over all 2^10 choices of up and down; AdaRound may not see them all, but mostly finds it."""
    scheme = Scheme(width("3"))
    ratios = []
    for seed in range(6):
        weights, square = matrix(seed + 10, 1, 10), hessian(inputs(seed + 10, 50, 10))
        scales = scales_of(weights, scheme)
        base = np.clip(np.floor(weights / scales.scale), scheme.grid.low, scheme.grid.high - 1)
        choices = base + np.array(list(all_of((0, 1), repeat=10)))
        best = output_error(np.repeat(weights, len(choices), 0), values_of(choices, scales), square).min()
        found = output_error(weights, values_of(learned_codes(weights, scales, scheme.grid, square), scales), square)
        assert found[0] >= best * (1 - 1e-9)
        ratios.append(found[0] / best)
    assert sum(ratio < 1.05 for ratio in ratios) >= 5, ratios


def test_the_same_codes_everywhere() -> None:
    """EDGE_CASES B18: codes do not depend on the machine, nor on how many threads a BLAS has."""
    program = """
import hashlib
from quantise_cases import inputs, matrix
from bittern.front.quantise.adaround import learned_codes
from bittern.front.quantise.codes import Scheme, scales_of
from bittern.front.quantise.compensate import compensated_codes, hessian
from bittern.front.quantise.widths import width
weights, square = matrix(1, 6, 60), hessian(matrix(2, 200, 60))
print(hashlib.sha256(square.tobytes()).hexdigest())
for name in ("b1", "t", "4"):
    scheme = Scheme(width(name), method="mse")
    scales = scales_of(weights, scheme)
    learned = learned_codes(weights, scales, scheme.grid, square, steps=40)
    for codes in (compensated_codes(weights, scales, scheme.grid, square), learned):
        print(hashlib.sha256(codes.tobytes()).hexdigest())
"""
    assert len(printed_everywhere(program)) == 1


def test_planted_faults_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A factor of the wrong side, and learning that turns every weight up."""
    right = compensate.factor
    with monkeypatch.context() as patch:
        patch.setattr(compensate, "factor", lambda square: right(square).T.copy())
        with pytest.raises(AssertionError):
            test_compensation_is_gptq(SCHEMES[4])
    monkeypatch.setattr(adaround, "_learned", lambda choice, square, steps: np.ones(choice.x.shape, np.bool_))
    monkeypatch.setattr(adaround, "_SWEEPS", 0)
    monkeypatch.setattr(
        adaround, "compensated_codes", lambda matrix, scales, grid, hessian: np.full(matrix.shape, grid.high)
    )
    with pytest.raises(AssertionError):
        test_outputs_lose_less(SCHEMES[4])
