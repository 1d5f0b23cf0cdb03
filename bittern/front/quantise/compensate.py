"""Rounding that makes up for its errors: each column's error is carried to the columns that are still to be rounded.

In: a matrix of weights, its scales, and the Hessian of the inputs, X' X. Out: codes for which |(W - Q) X'| is small.
The method is GPTQ (Frantar et al. 2023) in the form of Babai's nearest plane (Chen et al. 2025: The geometry of LLM
quantization): with H = L L', columns are rounded from the last to the first, and the error of column j moves column i
by L[j, i] / L[i, i] of it. So no inverse is needed. Inputs with the largest sums of squares are rounded first.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.front.quantise.codes import Codes, Scales, nearest_codes
from bittern.front.quantise.ordered import Array, factor, ordered_sum, product
from bittern.front.quantise.widths import Grid

DAMPING = 0.01  # of the mean sum of squares, added to the diagonal


def hessian(inputs: npt.NDArray[Any]) -> Array:
    """Return X' X. inputs: [count, columns] -> [columns, columns] f64, symmetric."""
    return product(inputs.T, inputs)


def damped(hessian: Array, damping: float = DAMPING) -> Array:
    """Return the Hessian with a share of the mean of its diagonal added there; of inputs that are all 0: ones."""
    mean = float(ordered_sum(np.diagonal(hessian))) / len(hessian)
    return hessian + np.eye(len(hessian)) * (damping * mean if mean > 0 else 1.0)


def compensated_codes(
    matrix: npt.NDArray[Any], scales: Scales, grid: Grid, hessian: Array, damping: float = DAMPING
) -> Codes:
    """Return the codes. matrix: [rows, columns]; hessian: [columns, columns]. Errors: N410.

    With a diagonal Hessian the codes are the nearest ones.
    """
    columns = matrix.shape[1]
    order = np.argsort(np.diagonal(hessian), kind="stable")
    lower = factor(damped(hessian, damping)[np.ix_(order, order)])
    lower /= np.diagonal(lower)[None, :].copy()
    scale, zero = scales.spread(columns)
    scale = np.broadcast_to(scale, matrix.shape)[:, order]
    zero = np.broadcast_to(zero, matrix.shape)[:, order]
    weights = matrix.astype(np.float64)[:, order]
    left = weights.copy()
    codes = np.empty(matrix.shape, np.int16)
    for j in range(columns - 1, -1, -1):
        own = Scales(scale[:, j : j + 1], zero[:, j : j + 1])
        found = nearest_codes(left[:, j : j + 1], own, grid)
        codes[:, j] = found[:, 0]
        error = weights[:, j] - scale[:, j].astype(np.float64) * (found[:, 0].astype(np.int32) - zero[:, j])
        left[:, :j] += error[:, None] * lower[j, :j][None, :]
    result = np.empty_like(codes)
    result[:, order] = codes
    return result


def output_error(matrix: npt.NDArray[Any], values: npt.NDArray[Any], hessian: Array) -> Array:
    """Return the squared error of each output over all inputs, e H e'. -> [rows] f64."""
    error = matrix.astype(np.float64) - values.astype(np.float64)
    return ordered_sum(product(error, hessian) * error)
