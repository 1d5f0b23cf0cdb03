"""Scales of blocks by the least weighted squared error: a few are tried, each with the best scale for its codes.

In: blocks of values and of weights (importance), both [blocks, n] f32. Out: scales, and minima where a format has them.
All sums are over one fixed tree, so the bits are the same everywhere. A block of zeros has scale 0.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from bittern.front.quantise.ordered import ordered_sum

Floats: TypeAlias = npt.NDArray[np.float32]

_TRIES = 9  # on each side of the plain scale
_STRIDE = np.float32(0.1)  # of a code, between two tries


def inverse(x: Floats) -> Floats:
    """Return 1 / x, and 0 where that is no finite number."""
    with np.errstate(divide="ignore", over="ignore"):
        found = np.float32(1) / x
    return np.where(np.isfinite(found), found, np.float32(0)).astype(np.float32)


def importance_of(x: Floats, importance: Floats | None) -> Floats:
    """Return the weights of errors, [blocks, n]: 1 without importance; nothing counts less than 1/1024 of the mean.

    So a block whose importance is all 0 is quantised as if there were none, and a single important value does not make
    the others worthless. importance: not negative.
    """
    if importance is None:
        return np.ones_like(x)
    mean = ordered_sum(importance)[:, None] / np.float32(x.shape[1])
    largest = np.where(mean > 0, mean, np.float32(1))
    return np.where(mean > 0, importance / largest + np.float32(2.0**-10), np.float32(1)).astype(np.float32)


def best_scale(x: Floats, weight: Floats, low: int, high: int) -> Floats:
    """Return the scale of each block for codes from low to high: value = scale * code. It may be negative.

    The largest magnitude is given the code of most places, with its sign; then that code a little larger or smaller.
    """
    place = np.argmax(np.abs(x), 1)[:, None]
    extreme = np.take_along_axis(x, place, 1)
    reach = np.float32(low if -low > high else high)
    best_gain = np.full(len(x), -1, np.float32)
    best = np.zeros(len(x), np.float32)
    for attempt in range(-_TRIES, _TRIES + 1):
        factor = (reach + _STRIDE * np.float32(attempt)) * inverse(extreme)
        codes = np.clip(np.rint(x * factor), np.float32(low), np.float32(high))
        products, squares = ordered_sum(weight * x * codes), ordered_sum(weight * codes * codes)
        scale = products * inverse(squares)
        gain = products * scale
        better = gain > best_gain
        best_gain, best = np.where(better, gain, best_gain), np.where(better, scale, best)
    return best


def best_scale_and_minimum(x: Floats, weight: Floats, high: int) -> tuple[Floats, Floats]:
    """Return scale and minimum of each block for codes from 0 to high: value = scale * code - minimum, minimum >= 0.

    For the codes of each try the two are the weighted least squares; where the minimum came out negative it is 0.
    """
    low, top = np.minimum(x.min(1, keepdims=True), np.float32(0)), x.max(1, keepdims=True)
    span = np.maximum(top - low, np.float32(0))
    best_error = np.full(len(x), np.inf, np.float32)
    best = np.zeros((2, len(x)), np.float32)
    total, first = ordered_sum(weight), ordered_sum(weight * x)
    for attempt in range(-_TRIES, _TRIES + 1):
        factor = (np.float32(high) + _STRIDE * np.float32(attempt)) * inverse(span)
        codes = np.clip(np.rint((x - low) * factor), np.float32(0), np.float32(high))
        weighted = weight * codes
        sums, squares, products = ordered_sum(weighted), ordered_sum(weighted * codes), ordered_sum(weighted * x)
        scale, minimum = _least_squares(total, first, sums, squares, products)
        error = x - (scale[:, None] * codes - minimum[:, None])
        size = ordered_sum(weight * error * error)
        better = (size < best_error) & (scale >= 0)
        best_error = np.where(better, size, best_error)
        best = np.where(better[None, :], np.stack((scale, minimum)), best)
    return best[0], best[1]


def _least_squares(
    total: Floats, first: Floats, sums: Floats, squares: Floats, products: Floats
) -> tuple[Floats, Floats]:
    """Return scale and minimum from the sums of w, w x, w q, w q^2, w q x."""
    factor = inverse(total * squares - sums * sums)
    scale = (total * products - first * sums) * factor
    minimum = (products * sums - squares * first) * factor
    alone = (minimum < 0) | (factor <= 0)
    scale = np.where(alone, products * inverse(squares), scale)
    minimum = np.where(alone, np.float32(0), minimum)
    return scale, minimum
