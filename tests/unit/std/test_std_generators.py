"""Generators, low-discrepancy sequences and sketches, against numpy, scipy and Python integers."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import qmc

MASK = 2**64 - 1


def rotated(x: int, count: int, bits: int = 64) -> int:
    """A word rotated left."""
    return (x << count | x >> bits - count) % 2**bits


@pytest.mark.covers("generators.lfsr_step")
def test_lfsr_has_its_full_period(run: Any) -> None:
    for bits, taps in ((8, 0xB8), (16, 0xB400)):
        every = np.arange(2**bits, dtype=f"u{bits // 8}")
        step = run.rows("generators.lfsr_step", f"u{bits}, u{bits} -> u{bits}", every, np.full_like(every, taps))
        assert step.tolist() == [x >> 1 ^ (taps if x & 1 else 0) for x in range(2**bits)]
        x, period = int(step[1]), 1
        while x != 1:
            x, period = int(step[x]), period + 1
        assert period == 2**bits - 1


@pytest.mark.covers("generators.xorshift_32", "generators.xorshift_64")
@pytest.mark.covers("generators.xorshift_64_star", "generators.xorshift_64_star_step")
def test_xorshifts(run: Any) -> None:
    def shifted(x: int, bits: int, triple: tuple[int, int, int], first_left: bool) -> int:
        for i, s in enumerate(triple):
            x ^= (x << s if (i % 2 == 0) == first_left else x >> s) % 2**bits
        return x

    x = np.random.default_rng(1).integers(1, 2**64, 300, np.uint64)
    narrow = (x >> np.uint64(32)).astype(np.uint32)
    got = run.rows("generators.xorshift_32", "u32 -> u32", narrow)
    assert got.tolist() == [shifted(v, 32, (13, 17, 5), True) for v in narrow.tolist()]
    assert int(run("generators.xorshift_32", np.uint32(2463534242))) == 723471715  # the paper's seed
    got = run.rows("generators.xorshift_64", "u64 -> u64", x)
    assert got.tolist() == [shifted(v, 64, (13, 7, 17), True) for v in x.tolist()]
    got = run.rows("generators.xorshift_64_star_step", "u64 -> u64", x)
    expected = [shifted(v, 64, (12, 25, 27), False) for v in x.tolist()]
    assert got.tolist() == expected
    got = run.rows("generators.xorshift_64_star", "u64 -> u64", x)
    assert got.tolist() == [v * 0x2545F4914F6CDD1D & MASK for v in expected]


@pytest.mark.covers("generators.xoshiro_256")
def test_xoshiro(run: Any) -> None:
    state = [1, 2, 3, 4]
    words, after = run("generators.xoshiro_256", np.array(state, np.uint64), dims=(40,))
    assert words[:4].tolist() == [11520, 0, 1509978240, 1215971899390074240]  # known answers for this state
    s, expected = list(state), []
    for _ in range(40):
        expected.append(rotated(s[1] * 5 & MASK, 7) * 9 & MASK)
        t = s[1] << 17 & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotated(s[3], 45)
    assert words.tolist() == expected and after.tolist() == s


@pytest.mark.covers("generators.pcg_32", "generators.pcg_32_seed")
def test_pcg(run: Any) -> None:
    state, increment = run("generators.pcg_32_seed", np.uint64(42), np.uint64(54))
    words, after = run("generators.pcg_32", state, increment, dims=(6,))
    assert words.tolist() == [
        0xA15C02B7,
        0x7B47F409,
        0xBA1D3330,
        0x83D2F293,
        0xBFA4784B,
        0xCBED606E,
    ]  # the authors' demo
    s, expected = int(state), []
    for _ in range(6):
        x = ((s >> 18 ^ s) >> 27) & 0xFFFFFFFF
        expected.append(rotated(x, 32 - (s >> 59), 32))
        s = (s * 6364136223846793005 + int(increment)) & MASK
    assert words.tolist() == expected and int(after) == s


@pytest.mark.covers("generators.unit_f32", "generators.unit_f64")
def test_words_as_numbers(run: Any) -> None:
    x = np.array([0, 1, 2**32 - 1, 2**31, 255, 256, 0xDEADBEEF], np.uint32)
    got = run.rows("generators.unit_f32", "u32 -> f32", x)
    assert [Fraction(float(v)) for v in got] == [Fraction(v >> 8, 2**24) for v in x.tolist()]
    y = np.array([0, 1, 2**64 - 1, 2**63, 2047, 2048], np.uint64)
    got = run.rows("generators.unit_f64", "u64 -> f64", y)
    assert [Fraction(float(v)) for v in got] == [Fraction(v >> 11, 2**53) for v in y.tolist()]
    assert got.max() < 1


@pytest.mark.covers("sobol.sobol", "sobol.sobol_directions")
def test_sobol_equals_scipy(run: Any) -> None:
    for d in (1, 2, 5, 8):
        expected = qmc.Sobol(d, scramble=False, bits=32).random(1024)
        got = run.rows("sobol.sobol", f"u32 -> u32[{d}]", np.arange(1024, dtype=np.uint32), call=f"sobol[{d}](a)")
        assert np.array_equal(got / 2.0**32, expected)
    directions = run("sobol.sobol_directions")
    assert (directions >> np.arange(31, -1, -1) & 1 == 1).all()  # place k is the lowest set bit


def mirrored(i: int, base: int) -> Fraction:
    """The digits of i behind the point, backwards."""
    value, unit = Fraction(0), Fraction(1)
    while i:
        i, digit = divmod(i, base)
        unit /= base
        value += digit * unit
    return value


def got_in_base(run: Any, i: Any, base: int) -> Any:
    """The sequence to a base."""
    return run.rows("sobol.radical_inverse", "u32, u32 -> f64", i, np.full(len(i), base, np.uint32))


@pytest.mark.covers("sobol.van_der_corput", "sobol.radical_inverse")
def test_digits_behind_the_point(run: Any) -> None:
    i = np.arange(500, dtype=np.uint32)
    for base in (2, 3, 7, 10):
        assert got_in_base(run, i, base).tolist() == [float(mirrored(v, base)) for v in range(500)]
    points = qmc.Halton(2, scramble=False).random(500)
    assert np.abs(got_in_base(run, i, 3) - points[:, 1]).max() < 1e-15
    half = run.rows("sobol.van_der_corput", "u32 -> u32", i)
    assert np.array_equal(half / 2.0**32, points[:, 0])


def mixed(v: int) -> int:
    """The finaliser of MurmurHash3."""
    v = (v ^ v >> 33) * 0xFF51AFD7ED558CCD & MASK
    v = (v ^ v >> 33) * 0xC4CEB9FE1A85EC53 & MASK
    return v ^ v >> 33


@pytest.mark.req("C011")
@pytest.mark.covers("sketch.simhash")
def test_simhash(run: Any) -> None:
    rng = np.random.default_rng(2)
    for n in (0, 1, 2, 9):
        item, weight = rng.integers(0, 2**64, n, np.uint64), rng.integers(-5, 6, n).astype(np.int32)
        pairs = list(zip(item.tolist(), weight.tolist(), strict=True))
        expected = sum((sum(w if v >> i & 1 else -w for v, w in pairs) > 0) << i for i in range(64))
        assert int(run("sketch.simhash", item, weight, dims=(n,))) == expected


@pytest.mark.req("C011")
@pytest.mark.covers("sketch.minhash", "sketch.minhash_similarity")
def test_minhash(run: Any) -> None:
    from_seed = [int(run("random.split_mix", np.uint64(9), np.uint64(j))) for j in range(64)]
    item = np.random.default_rng(3).integers(0, 2**64, 200, np.uint64)
    sketch = run("sketch.minhash", item, np.uint64(9), dims=(64, 200))
    assert sketch.tolist() == [min(mixed((v + s) & MASK) for v in item.tolist()) for s in from_seed]
    part = run("sketch.minhash", np.concatenate([item[:100], item[:100]]), np.uint64(9), dims=(64, 200))
    similar = float(run("sketch.minhash_similarity", sketch, part, dims=(64,)))
    assert similar == float((sketch == part).mean()) and abs(similar - 0.5) < 0.2
    assert float(run("sketch.minhash_similarity", sketch, sketch, dims=(64,))) == 1


@pytest.mark.covers("sketch.bloom_add", "sketch.bloom_has", "sketch.bloom_place")
def test_bloom_filter(run: Any) -> None:
    filter_, bits = np.zeros(16, np.uint64), 0
    items = np.random.default_rng(4).integers(0, 2**64, 300, np.uint64)
    for item in items[:60]:
        filter_ = run("sketch.bloom_add", filter_, item, np.uint32(5), dims=(16,))
        h = mixed(int(item))
        for j in range(5):
            place = ((h + j * (rotated(h, 32) | 1)) & MASK) * 1024 >> 64
            assert int(run("sketch.bloom_place", item, np.uint32(j), np.uint32(1024))) == place
            bits |= 1 << place
    assert sum(int(w) << 64 * i for i, w in enumerate(filter_)) == bits
    has = [bool(run("sketch.bloom_has", filter_, item, np.uint32(5), dims=(16,))) for item in items]
    assert all(has[:60]) and sum(has[60:]) < 12


FAULTS = [
    ("generators.btn", "b ^ b << 5", "b ^ b << 6", test_xorshifts),
    ("generators.btn", "a ^ c ^ b << 17", "a ^ c ^ b << 18", test_xoshiro),
    ("generators.btn", "wrap[u32](state >> 59)", "wrap[u32](state >> 60)", test_pcg),
    ("sobol.btn", "[4, 4, 1, 3, 5, 13, 0]", "[4, 4, 1, 3, 5, 11, 0]", test_sobol_equals_scipy),
    ("sketch.btn", "balance > 0", "balance >= 0", test_simhash),
]


@pytest.mark.parametrize(("file", "old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(
    edited: Callable[..., Any], file: str, old: str, new: str, check: Callable[[Any], None]
) -> None:
    with pytest.raises(AssertionError):
        check(edited(file, old, new))
