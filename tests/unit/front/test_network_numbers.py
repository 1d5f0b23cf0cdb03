"""Numbers and indices of declared networks."""

import numpy as np

from bittern.front.network.activation import as_multiplier
from bittern.nn import IndexTensor, NetworkBuilder


def test_multipliers_have_24_bits() -> None:
    for factor in (1.0, 0.25, 1e-3, 7.3, 0.0008, 1e-9, 1e6, 2.0**-60):
        multiplier, shift = as_multiplier(factor)
        assert 0 <= shift <= 62 and 0 < multiplier < 1 << 31
        assert abs(multiplier / 2**shift / factor - 1) < (1e-7 if 1e-9 < factor < 100 else 0.1), factor


def test_indices_are_inputs() -> None:
    model = NetworkBuilder().input(IndexTensor([1, 3])).embedding(5, 4, bits=2).flatten().output(12, 2).build()
    assert model.run(np.array([4, 0, 2])).shape == (2,)
