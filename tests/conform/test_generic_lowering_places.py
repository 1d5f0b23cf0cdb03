"""Index arithmetic of the generic lowering: what it simplifies has the value and the range of what was written."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bittern.bitops.kernel import Value
from bittern.bitops.lanes import INDEX_TYPE
from bittern.kernels.generic import places as places_module
from bittern.kernels.generic.places import Place, Variable, divided, lane, number, ravel, unravel, variable

HIGHS = (1, 3, 7, 15, 4, 31, 62)
VARIABLES = [variable(Value(k, INDEX_TYPE), 0, high) for k, high in enumerate(HIGHS)]


def value(place: Place, known: Mapping[int, int]) -> int:
    """The number that a place is for given variables, by number."""
    total = place.number
    for atom, factor in place.terms:
        if isinstance(atom, Variable):
            total += factor * known[-1 if atom.value is None else atom.value.number]
        else:
            top = value(atom.top, known)
            total += factor * (top // atom.bottom if atom.kind == "/" else top % atom.bottom)
    return total


@st.composite
def sums(draw: st.DrawFn) -> Place:
    """Sums of some variables, at least 0."""
    place = number(draw(st.integers(0, 40)))
    for each in draw(st.lists(st.sampled_from(VARIABLES), max_size=4)):
        place = place + each * draw(st.sampled_from((1, 2, 3, 4, 8, 16, 32, 64, -1, -4)))
    return place - place.low if place.low < 0 else place


def choice() -> st.SearchStrategy[dict[int, int]]:
    """Values of all variables."""
    return st.fixed_dictionaries({k: st.integers(0, high) for k, high in enumerate(HIGHS)})


def agree(place: Place, known: Mapping[int, int], bottoms: list[int]) -> bool:
    """Whether quotients and remainders of a place, one after the other, have their values and ranges."""
    wanted = value(place, known)
    for bottom in bottoms:
        quotient, rest = divided(place, bottom)
        for found, right in ((quotient, wanted // bottom), (rest, wanted % bottom), (quotient * bottom + rest, wanted)):
            if value(found, known) != right or not found.low <= right <= found.high:
                return False
        place, wanted = quotient + rest * 3, wanted // bottom + wanted % bottom * 3
    return True


@given(sums(), choice(), st.lists(st.sampled_from((1, 2, 3, 4, 6, 8, 16, 32, 48)), max_size=4))
def test_quotients_and_remainders(place: Place, known: dict[int, int], bottoms: list[int]) -> None:
    assert agree(place, known, bottoms)


@given(sums(), choice())
def test_a_place_and_its_indices(place: Place, known: dict[int, int]) -> None:
    shape = (1 + place.high // 12, 3, 4)
    assert value(ravel(unravel(place, shape), shape), known) == value(place, known)


def test_loops_divide_out() -> None:
    block, j = variable(Value(8, INDEX_TYPE), 0, 99), variable(Value(9, INDEX_TYPE), 0, 31)
    assert divided(block * 32 + j, 32) == (block, j)
    quotient, rest = divided(j, 4)
    assert quotient * 4 + rest == j
    whole = block * 16 + lane(16)
    assert divided(whole, 32)[0].factor_of_lane() == 0 and divided(whole, 32)[1].factor_of_lane() == 1
    assert divided(block * 3 + lane(16), 32)[1].factor_of_lane() is None


def test_a_quotient_that_is_dropped_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places_module, "_by_grain", lambda place, bottom: (number(0), place))
    place = VARIABLES[2] * 12 + VARIABLES[1]
    assert not all(agree(place, {**dict.fromkeys(range(7), 0), 2: a, 1: b}, [8]) for a in range(8) for b in range(4))
