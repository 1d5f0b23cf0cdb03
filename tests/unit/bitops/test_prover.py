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
