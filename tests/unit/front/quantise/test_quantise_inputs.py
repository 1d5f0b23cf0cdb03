"""Samples and labels: shapes, pixels, and everything that is wrong with them."""

import numpy as np
import pytest

from bittern.base.errors import BitternError
from bittern.front.arrays import PIXELS
from bittern.front.quantise.inputs import fitted_labels, fitted_samples

SHAPE = (None, 1, 4, 6)


def test_samples_take_the_shape_of_the_input() -> None:
    x = np.arange(5 * 24, dtype=np.int32).reshape(5, 4, 6)
    for given in (x, x.reshape(5, 24), x[:, None], x.astype(np.float64), x.astype(np.int8)):
        found = fitted_samples(given, SHAPE)
        assert found.dtype == np.float32 and np.array_equal(found.reshape(5, 24), given.reshape(5, 24))
    assert fitted_samples(x[0], SHAPE).shape == fitted_samples(x[:1], SHAPE).shape == (1, 1, 4, 6)
    assert fitted_samples(np.ones(3), (None,)).shape == (3,)
    assert fitted_samples(np.ones((2, 3, 7, 5)), (None, 3, None, None)).shape == (2, 3, 7, 5)


def test_pixels_are_those_of_run() -> None:
    """Oracle: what `bittern run` makes of the same data."""
    from bittern.front.network.network import Port
    from bittern.runtime.networks import fitted
    from bittern.types.elements import F32

    x = np.arange(240, dtype=np.uint8).reshape(10, 24)
    for pixels in PIXELS:
        found = fitted_samples(x, (1, 24), pixels)
        assert np.array_equal(found, fitted(x, Port("x", F32, (24,)), pixels)) and found.dtype == np.float32
    assert fitted_samples(x, (1, 24), "signed").min() == -1 and fitted_samples(x, (1, 24)).max() < 1


def test_numbers_that_do_not_fit() -> None:
    for array in (np.zeros((5, 23)), np.zeros(7), np.zeros((0, 24)), np.zeros((5, 24), complex), np.array(1.0)):
        with pytest.raises(BitternError, match="a sample needs") as caught:
            fitted_samples(array, SHAPE)
        assert caught.value.code == "N441"
    for labels in (np.zeros(4, int), np.zeros(5), np.zeros((5, 2), int)):
        with pytest.raises(BitternError, match="for 5 samples") as caught:
            fitted_labels(labels, 5)
        assert caught.value.code == "N442"
    assert fitted_labels(np.arange(5, dtype=np.uint8)[:, None], 5).tolist() == [0, 1, 2, 3, 4]
