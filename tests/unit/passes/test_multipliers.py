"""Multipliers found from stairs: equal at every value of the range, or none."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bittern.passes.multipliers import Requantisation, is_equal, requantisation
from bittern.passes.stairs import Stairs, Table, stairs_of_table
from bittern.passes.width import interval


def stairs(codes: np.ndarray, low: int) -> Stairs:
    """Return the stairs of codes of low, low + 1, ...: [values, channels]."""
    x = np.arange(low, low + len(codes))
    return stairs_of_table(Table(x, codes.astype(np.int16)), interval(low, low + len(codes) - 1))


def rule(x: np.ndarray, m: int, s: int, zero: int, low: int, high: int) -> np.ndarray:
    """The one rule, in whole numbers of Python."""
    half = (1 << s) >> 1
    return np.array([min(max(((int(v) * m + half) >> s) + zero, low), high) for v in x])


@settings(max_examples=150, deadline=None)
@given(
    m=st.integers(-(1 << 20), 1 << 20),
    s=st.integers(8, 30),
    zero=st.integers(-20, 20),
    low=st.integers(-4000, 0),
    size=st.integers(1, 5000),
)
def test_what_is_a_requantisation_is_found_again(m: int, s: int, zero: int, low: int, size: int) -> None:
    x = np.arange(low, low + size)
    codes = rule(x, m, s, zero, -128, 127)[:, None]
    if not low <= 0 < low + size:
        return  # the code of 0 is not seen
    found = requantisation(stairs(codes, low))
    assert found is not None and np.array_equal(found.codes(x[:, None]), codes)
    assert abs(int(found.multiplier[0])) <= max(abs(m), 1), "the fewest bits"


def test_channels_have_multipliers_of_their_own() -> None:
    x = np.arange(-3000, 3001)
    codes = np.stack([rule(x, m, 16, 3, 0, 255) for m in (700, -311, 5000, 1)], axis=1)
    found = requantisation(stairs(codes, -3000))
    assert found is not None and found.zero == 3 and found.spread == 0 and not found.is_even
    assert np.array_equal(found.codes(x[:, None]), codes)


def test_ties_to_even_are_found() -> None:
    x = np.arange(-3000, 3001)
    codes = np.clip(np.rint(x / 16), -128, 127)[:, None]
    found = requantisation(stairs(codes, -3000))
    assert found is not None and found.is_even and (found.multiplier[0], found.shift[0]) == (1, 4)
    assert np.array_equal(found.codes(x[:, None]), codes)


def test_offsets_are_found_by_a_line() -> None:
    x = np.arange(-3000, 3001)
    rng = np.random.default_rng(0)
    slopes, offsets = rng.normal(0, 0.05, 6), rng.normal(0, 30, 6)
    codes = np.clip(np.rint(x[:, None] * slopes + offsets), -128, 127)
    found = requantisation(stairs(codes, -3000))
    assert found is not None and found.spread > 0 and np.array_equal(found.codes(x[:, None]), codes)


def test_only_the_interval_of_a_channel_counts() -> None:
    """Codes outside a channel's own interval are those of its end, which no line has: they do not count."""
    x = np.arange(-1000, 1001)
    low, high = np.array([-1000, -100]), np.array([1000, 250])
    inside = np.clip(x[:, None], low, high)
    codes = np.stack([rule(inside[:, k], 9000, 16, 0, -128, 127) for k in (0, 1)], axis=1)
    made = stairs_of_table(Table(x, codes.astype(np.int16)), interval(low, high))
    found = requantisation(made)
    assert found is not None and np.array_equal(found.codes(inside), codes)


def test_what_is_no_line_is_none() -> None:
    x = np.arange(-300, 301)
    curve = np.rint(127 * np.tanh(x / 90))[:, None]
    assert requantisation(stairs(curve, -300)) is None


@pytest.mark.parametrize("change", ["multiplier", "shift", "zero", "low", "high"])
def test_a_wrong_requantisation_is_not_equal(change: str) -> None:
    x = np.arange(-3000, 3001)
    codes = rule(x, 4321, 16, 3, -128, 127)[:, None]
    made = stairs(codes, -3000)
    values = {"multiplier": np.array([4321]), "shift": np.array([16]), "zero": 3, "low": -128, "high": 127}
    assert is_equal(Requantisation(**values), made)  # type: ignore[arg-type]
    assert not is_equal(Requantisation(**{**values, change: values[change] + 1}), made)  # type: ignore[arg-type, operator]


def test_what_could_wrap_is_not_equal() -> None:
    made = stairs(np.zeros((3, 1)), -1)
    good = Requantisation(np.array([0]), np.array([0]), 0, 0, 0)
    assert is_equal(good, made)
    assert not is_equal(Requantisation(np.array([1 << 31]), np.array([62]), 0, 0, 0), made)
    assert not is_equal(Requantisation(np.array([0]), np.array([63]), 0, 0, 0), made)
    assert not is_equal(Requantisation(np.array([0]), np.array([0]), 0, 0, 0, 31, np.array([0])), made)


def noisy(seed: int, size: int, scale: float) -> np.ndarray:
    """Codes of f32 arithmetic far from 0: its roundings move steps by a place."""
    factor, step = np.float32(scale * 0.0213), np.float32(0.0213)
    x = np.arange(-size, size + 1).astype(np.float32)
    return np.clip(np.rint(x * factor / step), -128, 127)[:, None]


@pytest.mark.parametrize("seed", range(4))
def test_roundings_of_floats_are_nudged(seed: int) -> None:
    """Where no multiplier fits, a few places are moved by one: then every value is right."""
    size = 400_000
    scale = 127 / size * (0.7 + 0.5 * np.random.default_rng(seed).random())
    codes, x = noisy(seed, size, scale), np.arange(-size, size + 1)[:, None]
    found = requantisation(stairs(codes, -size))
    assert found is not None and np.array_equal(found.codes(x), codes)


def test_nudges_are_part_of_the_proof() -> None:
    x = np.arange(-3000, 3001)
    codes = rule(x, 4321, 16, 0, -128, 127)
    step = int(np.flatnonzero(np.diff(codes))[200])
    codes[step + 1] = codes[step]  # the step comes one place late
    other = int(np.flatnonzero(np.diff(codes))[20])
    codes[other] = codes[other + 1]  # and another one early
    made = stairs(codes[:, None], -3000)
    plain = Requantisation(np.array([4321]), np.array([16]), 0, -128, 127)
    assert not is_equal(plain, made)
    nudges = [(np.array([x[step + 1]]), np.array([-1])), (np.array([x[other]]), np.array([1]))]
    assert is_equal(replace(plain, nudges=tuple(nudges)), made)
    assert not is_equal(replace(plain, nudges=tuple(nudges[:1])), made)
    turned = ((nudges[0][0], -nudges[0][1]), nudges[1])
    assert not is_equal(replace(plain, nudges=turned), made)
    found = requantisation(made)
    assert found is not None and np.array_equal(found.codes(x[:, None]), codes[:, None])
