"""What the prover proves is so: compared with all small values of the symbols."""

from itertools import product
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from bittern.bitops.prover import Bound, Prover
from bittern.types.dims import Dim, dim, symbol

N, M = symbol(0), symbol(1)


def grown(rng: Random, symbols: list[Dim], depth: int) -> Dim:
    """Return a random polynomial, with quotients and remainders."""
    kind = rng.randrange(7) if depth else rng.randrange(2)
    if kind == 0:
        return dim(rng.randint(-9, 9))
    if kind == 1:
        return rng.choice(symbols)
    x, y = grown(rng, symbols, depth - 1), grown(rng, symbols, depth - 1)
    if kind < 5:
        return (x + y, x - y, x * y)[kind - 2]
    bottom = dim(rng.choice([2, 3, 16])) if rng.random() < 0.7 else M + 1
    return x // bottom if kind == 5 else x % bottom


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_what_is_proven_holds(seed: int) -> None:
    rng = Random(seed)
    prover = Prover(2)
    step = rng.choice([1, 2, 16])
    high = grown(rng, [N, M], 1)
    r = prover.fresh([Bound(dim(0))], [Bound(high - 1, step)])
    known = rng.choice([N - 1, N - M, dim(0)])
    prover.known += [high - 1, known]
    value = grown(rng, [N, M, r], 3)
    if rng.random() < 0.5:
        value = high - r * step - rng.randint(0, 2) + value % 3
    low, most = prover.range_of(value)
    proven = prover.proves(value)
    if proven or low is not None or most is not None:
        for n, m in product(range(6), range(6)):
            top = high.value((n, m))
            if top < 1 or known.value((n, m)) < 0:
                continue
            for k in range((top - 1) // step + 1):
                number = value.value((n, m, k))
                assert not proven or number >= 0, (value, high, n, m, k)
                assert low is None or low <= number, (value, low, n, m, k)
                assert most is None or number <= most, (value, most, n, m, k)


def test_it_proves_what_kernels_need() -> None:
    prover = Prover(2, divides=((N, dim(16)),))
    assert prover.proves(N) and not prover.proves(N - 1)
    rounds = prover.fresh([Bound(dim(0))], [Bound(N // 16 - 1)])
    assert prover.proves(N - rounds * 16 - 16) and not prover.proves(N - rounds * 16 - 17)
    tail = prover.fresh([Bound(dim(0))], [Bound(M - 1, 16)])
    assert prover.proves(M - tail * 16 - 1) and not prover.proves(M - tail * 16 - 16)
    assert prover.proves(M - M // 16 * 16) and prover.proves(M // 16 * 16 + 15 - M)
    inner = prover.fresh([Bound(dim(0))], [Bound(M - 1)])
    assert prover.proves(N // 16 * M - rounds * M - inner - 1)


def test_a_contradiction_proves_anything() -> None:
    prover = Prover(1)
    prover.known.append(dim(-1))
    assert prover.proves(-5)


def test_conditions_that_contradict_each_other_prove_anything() -> None:
    prover = Prover(1, known=[N - 5])
    assert not prover.proves(-1)
    prover.known.append(-N + 4)
    assert prover.proves(-1)
    prover.known.append(N - 6)
    assert prover.proves(-1)
    del prover.known[1:]
    assert not prover.proves(-1)


def test_an_answer_is_kept_only_while_its_conditions_hold() -> None:
    prover = Prover(2)
    assert not prover.proves(N - M)
    prover.known.append(N - M - 2)
    assert prover.proves(N - M) and prover.proves(N - M - 2) and not prover.proves(N - M - 3)
    prover.known.pop()
    assert not prover.proves(N - M)
    prover.known.append(N - M)
    assert prover.proves(N - M) and not prover.proves(N - M - 1)


@given(st.permutations([*range(-40, 41), 2**70, -(2**70)]))
def test_the_order_of_constants_does_not_matter(constants: list[int]) -> None:
    """What is kept is what a polynomial reaches; it serves all questions that differ by a constant or a factor."""
    prover = Prover(2, divides=((N, dim(16)),))
    k = prover.fresh([Bound(dim(0))], [Bound(N // 16 - 1)])
    j = prover.fresh([Bound(dim(0))], [Bound(M - 1, 16)])
    for c in constants:
        assert prover.proves(N - k * 16 + c) == (c >= -16)
        assert prover.proves((N - k * 16) * 3 + c) == (c >= -48)
        assert prover.proves(M - j * 16 + c) == (c >= -1)
        assert prover.proves(-k + c) is False


def test_bounds_that_bound_each_other_are_looked_at_once() -> None:
    """Each unknown has two bounds over the one before: there are 2^60 ways down, and 60 answers."""
    prover = Prover(1, known=[N - 1])
    last = prover.fresh([Bound(dim(0))], [Bound(N - 1), Bound(dim(99))])
    for _ in range(60):
        last = prover.fresh([Bound(dim(0)), Bound(last - 1)], [Bound(last), Bound(last + 1)])
    assert prover.range_of(last) == (0, 99)
    assert not prover.proves(last - 1) and prover.proves(last)
    near = prover.fresh([Bound(last)], [Bound(last + 1), Bound(last + 2)])
    assert prover.proves(near - last) and prover.proves(last + 1 - near) and not prover.proves(last - near)


def test_a_place_in_parts_is_inside_by_the_ranges_of_its_parts() -> None:
    prover = Prover(0)
    counted = sum((prover.fresh([Bound(dim(0))], [Bound(dim(1))]) for _ in range(9)), dim(0)) % 9
    place = (counted // 3) * 12 + (counted % 3) * 4
    assert prover.within(place, 0, 32) and not prover.within(place, 0, 31)
