"""Modular arithmetic, the number-theoretic transform and fields of two elements, against Python integers."""

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

PRIME = 3 * 2**30 + 1
MODULI = [1, 2, 3, 97, 255, 2**16, 2**31 - 1, 2**31, PRIME, 2**32 - 1]


def triples() -> Any:
    """Operands below each modulus, edges first."""
    rng = np.random.default_rng(1)
    rows = []
    for m in MODULI:
        values = sorted({0, 1 % m, m - 1, m // 2, *rng.integers(0, m, 6).tolist()})
        rows += [(a, b, m) for a in values for b in values]
    return [np.array(v, np.uint32) for v in zip(*rows, strict=True)]


@pytest.mark.covers("modular.add_mod", "modular.sub_mod", "modular.mul_mod", "modular.power_mod")
def test_residues(run: Any) -> None:
    a, b, m = triples()
    cases = list(zip(a.tolist(), b.tolist(), m.tolist(), strict=True))
    for name, exact in (
        ("add", lambda x, y, n: (x + y) % n),
        ("sub", lambda x, y, n: (x - y) % n),
        ("mul", lambda x, y, n: x * y % n),
        ("power", pow),
    ):
        got = run.rows(f"modular.{name}_mod", "u32, u32, u32 -> u32", a, b, m).tolist()
        assert got == [exact(*case) for case in cases], name


@pytest.mark.covers("modular.gcd", "modular.lcm", "modular.inverse_mod")
def test_divisors_of_all_pairs_of_bytes(run: Any) -> None:
    a, b = (v.ravel().astype(np.uint32) for v in np.meshgrid(np.arange(256), np.arange(256)))
    hard = [(2971215073, 1836311903), (2**32 - 1, 2**31), (2**32 - 1, 2**32 - 2), (0, 2**32 - 1)]  # first: Fibonacci
    a, b = (np.concatenate([v, np.array(h, np.uint32)]) for v, h in zip((a, b), zip(*hard, strict=True), strict=True))
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    assert run.rows("modular.gcd", "u32, u32 -> u32", a, b).tolist() == [math.gcd(x, y) for x, y in pairs]
    assert run.rows("modular.lcm", "u32, u32 -> u64", a, b).tolist() == [math.lcm(x, y) for x, y in pairs]
    shown = b > 0
    has, inverse = run.rows("modular.inverse_mod", "u32, u32 -> (bit, u32)", a[shown], b[shown])
    for (x, m), h, i in zip([p for p in pairs if p[1]], has, inverse, strict=True):
        assert bool(h) == (math.gcd(x, m) == 1), (x, m)
        assert not h or int(i) == (pow(x, -1, m) if m > 1 else 0), (x, m)


@pytest.mark.covers("modular.integer_root")
def test_integer_roots(run: Any) -> None:
    edges = [k * k + d for k in (1, 2, 255, 2**16, 2**31, 2**32 - 1) for d in (-1, 0, 1)]
    x = np.array([*range(5000), *edges, 2**64 - 1, 2**53 + 1], np.uint64)
    assert run.rows("modular.integer_root", "u64 -> u32", x).tolist() == [math.isqrt(int(v)) for v in x]


@pytest.mark.covers("modular.is_prime", "modular.is_strong_probable_prime")
def test_every_16_bit_number_is_prime_or_not(run: Any) -> None:
    sieve = np.ones(2**16, bool)
    sieve[:2] = False
    for p in range(2, 256):
        if sieve[p]:
            sieve[p * p :: p] = False
    got = run.rows("modular.is_prime", "u32 -> bit", np.arange(2**16, dtype=np.uint32))
    assert np.array_equal(got, sieve)
    known = {2**31 - 1: True, PRIME: True, 4294967291: True, 2**32 - 1: False, 3215031751: False, 25326001: False}
    got = run.rows("modular.is_prime", "u32 -> bit", np.array(list(known), np.uint32))
    assert got.tolist() == list(known.values())
    odd = np.array([9, 15, 2047, 3277, 13], np.uint32)  # 2047 and 3277 are strong pseudoprimes to the base 2
    got = run.rows("modular.is_strong_probable_prime", "u32, u32 -> bit", odd, np.full(5, 2, np.uint32))
    assert got.tolist() == [False, False, True, True, True]


@pytest.mark.covers("ntt.ntt", "ntt.ntt_inverse", "ntt.cyclic_convolution")
@pytest.mark.parametrize("n", [2, 4, 8, 64, 256])
def test_transform_equals_its_definition(run: Any, n: int) -> None:
    rng = np.random.default_rng(n)
    x, y = rng.integers(0, PRIME, (2, n)).astype(np.uint32)
    x[:2] = PRIME - 1, 0
    root = pow(5, (PRIME - 1) // n, PRIME)
    assert pow(root, n // 2, PRIME) == PRIME - 1  # its order is n
    powers = [pow(root, i, PRIME) for i in range(n)]
    items = x.tolist()
    expected = [sum(v * powers[i * k % n] for i, v in enumerate(items)) % PRIME for k in range(n)]
    transformed = run("ntt.ntt", x, dims=(n,))
    assert transformed.tolist() == expected
    assert np.array_equal(run("ntt.ntt_inverse", transformed, dims=(n,)), x)
    product = [sum(items[i] * int(y[(k - i) % n]) for i in range(n)) % PRIME for k in range(n)]
    assert run("ntt.cyclic_convolution", x, y, dims=(n,)).tolist() == product


def carryless(a: int, b: int) -> int:
    """The product without carries."""
    return functools.reduce(operator.xor, (a << i for i in range(32) if b >> i & 1), 0)


def reduced(x: int) -> int:
    """A polynomial modulo x^8 + x^4 + x^3 + x + 1."""
    for i in range(x.bit_length() - 1, 7, -1):
        if x >> i & 1:
            x ^= 0x11B << i - 8
    return x


@pytest.mark.covers("galois.gf256_product", "galois.gf256_inverse", "galois.carryless_product")
def test_fields_of_two_elements(run: Any) -> None:
    a, b = (v.ravel() for v in np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8)))
    got = run.rows("galois.gf256_product", "u8, u8 -> u8", a, b)
    assert got.tolist() == [reduced(carryless(x, y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    byte = np.arange(256, dtype=np.uint8)
    inverse = run.rows("galois.gf256_inverse", "u8 -> u8", byte)
    table = got.reshape(256, 256)
    assert inverse[0] == 0 and all(table[int(inverse[v]), v] == 1 for v in range(1, 256))
    wide = np.random.default_rng(2).integers(0, 2**32, (2, 100)).astype(np.uint32)
    wide[:, 0] = 2**32 - 1
    got = run.rows("galois.carryless_product", "u32, u32 -> u64", *wide)
    assert got.tolist() == [carryless(x, y) for x, y in zip(*wide.tolist(), strict=True)]


FAULTS = [
    ("modular.btn", "if b >= room", "if b > room", test_residues),
    ("modular.btn", "select(x < 0, x + i64(m), x)", "x", test_divisors_of_all_pairs_of_bytes),
    ("modular.btn", "found or x == n - 1", "x == n - 1", test_every_16_bit_number_is_prime_or_not),
    ("ntt.btn", "powers[i >> stage << stage]", "powers[i]", lambda run: test_transform_equals_its_definition(run, 8)),
    ("galois.btn", "0x1b", "0x1d", test_fields_of_two_elements),
]


@pytest.mark.parametrize(("file", "old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(
    edited: Callable[..., Any], file: str, old: str, new: str, check: Callable[[Any], None]
) -> None:
    with pytest.raises(AssertionError):
        check(edited(file, old, new))
