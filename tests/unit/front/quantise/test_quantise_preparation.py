"""The eight input preparations, each against a plain loop over single values."""

from collections.abc import Callable

import numpy as np
import pytest
from quantise_cases import bell, printed_everywhere

from bittern.front.quantise import preparation
from bittern.front.quantise.preparation import PREPARATIONS, prepared
from bittern.types.elements import ELEMENTS


def images() -> np.ndarray:
    """Five images of 6 x 9 pixels and 2 channels; one is all zeros."""
    x = bell(np.random.default_rng(3), 5, 6, 9, 2) * np.array([1, 30], np.float32) + np.array([0, 5], np.float32)
    x[2] = 0
    return x


@pytest.mark.req("C090")
def test_there_are_exactly_eight() -> None:
    assert len(PREPARATIONS) == 8
    assert list(PREPARATIONS)[:5:2] == ["normalisation", "adaptive_scaling", "binary_augmentation"]
    assert "learned_quantisation" in PREPARATIONS
    x = images()
    for name, row in PREPARATIONS.items():
        assert row.name == name and row.summary.endswith(".")
        made = prepared(x, name)
        element = ELEMENTS[row.element]
        assert made.dtype == np.dtype(element.dtype) and made.shape == (5, 6, 9, 2 * row.channels)
        if not element.is_float:
            assert made.min() >= element.low and made.max() <= element.high
        if row.element == "b1":
            assert (np.abs(made) == 1).all()


@pytest.mark.parametrize("name", PREPARATIONS)
def test_a_batch_changes_nothing(name: str) -> None:
    x, row = images(), PREPARATIONS[name]
    learned = row.fit(x)
    alone = np.concatenate([row.apply(x[i : i + 1], learned) for i in range(len(x))])
    assert np.array_equal(alone, row.apply(x, learned))


def by_value(name: str, rule: Callable[[float, int, tuple[int, ...]], list[float]]) -> None:
    x = images()
    made = prepared(x, name)
    width = PREPARATIONS[name].channels
    for place in np.ndindex(5, 6, 9):
        for channel in range(2):
            wanted = rule(float(x[(*place, channel)]), channel, place)
            found = made[place].reshape(2, width)[channel] if width != 2 else made[place][channel::2]
            assert np.allclose(found, wanted, atol=2e-6), (name, place, channel)


@pytest.mark.req("C090")
def test_each_value_by_its_rule() -> None:
    x = images()
    low, high = float(x.min()), float(x.max())
    means, deviations = x.mean((0, 1, 2), dtype=np.float64), x.std((0, 1, 2), dtype=np.float64)
    share = lambda v: (v - low) / (high - low)  # noqa: E731
    by_value("normalisation", lambda v, c, at: [share(v)])
    by_value("standardisation", lambda v, c, at: [(v - means[c]) / deviations[c]])
    largest = np.abs(x).max((1, 2, 3))
    by_value("adaptive_scaling", lambda v, c, at: [round(v * 127 / largest[at[0]]) if largest[at[0]] else 0])
    by_value("binary_augmentation", lambda v, c, at: [1, -1] if v >= means[c] else [-1, 1])
    steps = [np.sort(x[..., c].reshape(-1))[[270 * (i + 1) // 9 for i in range(8)]] for c in range(2)]
    by_value("thermometer", lambda v, c, at: [1 if v >= step else -1 for step in steps[c]])
    by_value("bit_planes", lambda v, c, at: [1 if round(share(v) * 255) >> b & 1 else -1 for b in range(8)])
    turn = [[0, 2], [3, 1]]

    def order(row: int, column: int) -> int:
        return sum(turn[row >> b & 1][column >> b & 1] << 2 * (2 - b) for b in range(3))

    by_value("dithering", lambda v, c, at: [1 if share(v) >= (order(at[1] % 8, at[2] % 8) + 0.5) / 64 else -1])


def test_learned_levels_are_a_fixed_point() -> None:
    """No level moves: each is the mean of what is nearest to it, and even levels lose more."""
    x = images()
    levels = preparation._fit_levels(x)["levels"]
    codes = prepared(x, "learned_quantisation")
    assert (np.diff(levels) >= 0).all() and np.array_equal(
        np.abs(x[..., None] - levels).min(-1), np.abs(x - levels[codes])
    )
    error = ((x - levels[codes]) ** 2).sum()
    even = np.linspace(x.min(), x.max(), 16)
    assert error < 0.8 * (np.abs(x[..., None] - even).min(-1) ** 2).sum()


def test_nothing_to_learn_from_is_no_division_by_zero() -> None:
    for name in PREPARATIONS:
        assert np.isfinite(prepared(np.zeros((2, 3, 3, 1), np.float32), name)).all()
        assert np.isfinite(prepared(np.full((2, 4), 7, np.float32), name)).all()


def test_the_same_samples_everywhere() -> None:
    program = """
import hashlib
from test_quantise_preparation import images
from bittern.front.quantise.preparation import PREPARATIONS, prepared
print([hashlib.sha256(prepared(images(), name).tobytes()).hexdigest() for name in PREPARATIONS])
"""
    assert len(printed_everywhere(program)) == 1


def test_a_planted_fault_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = preparation._bayer()
    monkeypatch.setattr(preparation, "_bayer", lambda: right.T)
    with pytest.raises(AssertionError):
        test_each_value_by_its_rule()
