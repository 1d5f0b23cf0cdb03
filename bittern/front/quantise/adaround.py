"""Learned rounding: whether each weight goes up or down is learned so that the layer's outputs stay what they were.

In: a matrix of weights, its scales, and the Hessian of the inputs. Out: codes next to the weights, below or above. The
method is AdaRound (Nagel et al. 2020: Up or Down? Adaptive Rounding for Post-Training Quantization): a rectified
sigmoid of a variable by weight, driven to 0 or 1 by a regulariser that sharpens, moved by Adam; then single weights
are turned over as long as that lowers the error. The same is done with GPTQ's codes; each row takes what is best, and
is never worse than rounded to nearest.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.front.quantise.codes import Codes, Scales, nearest_codes, values_of
from bittern.front.quantise.compensate import compensated_codes, output_error
from bittern.front.quantise.ordered import Array, exp, log, ordered_sum, product, sigmoid
from bittern.front.quantise.widths import Grid

STEPS = 300
_RATE, _FIRST, _SECOND, _LEAST = 0.05, 0.9, 0.999, 1e-8  # Adam: rate, decay of the means, denominator
_STRETCH, _SHIFT = 1.2, -0.1  # of the rectified sigmoid
_WEIGHT, _WARM, _SHARP, _BLUNT = 0.05, 0.2, 20.0, 2.0  # of the regulariser: weight, share of steps without, exponents
_SWEEPS = 4


@dataclass(frozen=True, slots=True)
class _Choice:
    """What each weight may become: base, or base + step. x: the weight in steps above base. unit: value of a step."""

    base: Array
    step: int
    x: Array
    unit: Array

    def codes(self, up: npt.NDArray[np.bool_]) -> Codes:
        return (self.base + self.step * up).astype(np.int16)


def learned_codes(matrix: npt.NDArray[Any], scales: Scales, grid: Grid, hessian: Array, steps: int = STEPS) -> Codes:
    """Return the codes. matrix: [rows, columns]; hessian: [columns, columns], not damped. steps: of learning."""
    plain = nearest_codes(matrix, scales, grid)
    mean = float(ordered_sum(np.diagonal(hessian))) / max(1, len(hessian))
    if mean <= 0:
        return plain
    choice = _choice(matrix, scales, grid)
    scaled = hessian / mean
    compensated = compensated_codes(matrix, scales, grid, hessian) > choice.base
    best, least = plain, output_error(matrix, values_of(plain, scales), hessian)
    for up in (_learned(choice, scaled, steps), compensated):
        codes = _descended(choice, scaled, up)
        error = output_error(matrix, values_of(codes, scales), hessian)
        best, least = np.where((error < least)[:, None], codes, best), np.minimum(error, least)
    return best


def _choice(matrix: npt.NDArray[Any], scales: Scales, grid: Grid) -> _Choice:
    scale, zero = scales.spread(matrix.shape[1])
    unit = np.broadcast_to(scale, matrix.shape).astype(np.float64)
    place = matrix.astype(np.float64) / unit + zero
    if grid.signs:
        return _Choice(np.full(matrix.shape, -1.0), 2, (place + 1) / 2, unit * 2)
    base = np.clip(np.floor(place), grid.low, grid.high - 1)
    return _Choice(base, 1, place - base, unit)


def _learned(choice: _Choice, hessian: Array, steps: int) -> npt.NDArray[np.bool_]:
    """Return which weights go up after the steps of Adam."""
    start = np.clip((np.clip(choice.x, 0.01, 0.99) - _SHIFT) / _STRETCH, 1e-4, 1 - 1e-4)
    v = -log(1 / start - 1)
    first, second = np.zeros_like(v), np.zeros_like(v)
    powers = [1.0, 1.0]
    size = float(ordered_sum(ordered_sum(choice.unit * choice.unit))) / choice.unit.size
    for step in range(steps):
        share = step / steps
        soft = sigmoid(v)
        h = np.clip(_STRETCH * soft + _SHIFT, 0.0, 1.0)
        slope = _STRETCH * soft * (1 - soft) * ((h > 0) & (h < 1))
        gradient = -2 * choice.unit * product((choice.x - h) * choice.unit, hessian) / size
        if share >= _WARM:
            sharpness = _SHARP + (_BLUNT - _SHARP) * (share - _WARM) / (1 - _WARM)
            side = 2 * h - 1
            magnitude = np.maximum(np.abs(side), 1e-12)
            gradient -= _WEIGHT * 2 * sharpness * np.sign(side) * exp((sharpness - 1) * log(magnitude))
        gradient *= slope
        powers = [powers[0] * _FIRST, powers[1] * _SECOND]
        first = _FIRST * first + (1 - _FIRST) * gradient
        second = _SECOND * second + (1 - _SECOND) * gradient * gradient
        v -= _RATE * (first / (1 - powers[0])) / (np.sqrt(second / (1 - powers[1])) + _LEAST)
    return _STRETCH * sigmoid(v) + _SHIFT >= 0.5


def _descended(choice: _Choice, hessian: Array, up: npt.NDArray[np.bool_]) -> Codes:
    """Turn single weights over, column after column, where that lowers the error of a row."""
    up = up.copy()
    diagonal = np.diagonal(hessian)
    slopes = product((choice.x - up) * choice.unit, hessian)
    for _ in range(_SWEEPS):
        changed = False
        for j in range(up.shape[1]):
            change = np.where(up[:, j], choice.unit[:, j], -choice.unit[:, j])  # of the error, if it is turned over
            (rows,) = np.nonzero(2 * change * slopes[:, j] + change * change * diagonal[j] < 0)
            if len(rows):
                changed = True
                up[rows, j] = ~up[rows, j]
                slopes[rows] += change[rows, None] * hessian[j][None, :]
        if not changed:
            break
    return choice.codes(up)
