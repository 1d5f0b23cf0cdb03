"""Hashes, generators and integer transforms, each against an independent oracle."""

import hashlib
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xxhash
from scipy.linalg import hadamard

LENGTHS = [0, 1, 3, 4, 7, 8, 31, 32, 33, 55, 56, 63, 64, 65, 119, 120, 200]


def message(n: int) -> bytes:
    """n bytes that depend on n."""
    return random.Random(n).randbytes(n)


def as_array(data: bytes) -> Any:
    """Bytes as u8."""
    return np.frombuffer(data, np.uint8)


@pytest.mark.covers("sha256.sha256")
@pytest.mark.parametrize("n", LENGTHS)
def test_sha256_equals_hashlib(run: Any, n: int) -> None:
    data = message(n)
    assert run("sha256.sha256", as_array(data), dims=(n,)).tobytes() == hashlib.sha256(data).digest()


@pytest.mark.covers("xxhash64.xxhash64")
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("seed", [0, 0x9E3779B97F4A7C15])
def test_xxhash64_equals_the_xxhash_package(run: Any, n: int, seed: int) -> None:
    data = message(n)
    assert int(run("xxhash64.xxhash64", as_array(data), np.uint64(seed), dims=(n,))) == xxhash.xxh64_intdigest(
        data, seed
    )


PHILOX = [  # counter, key, result: known answers of the authors
    ([0, 0, 0, 0], [0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.covers("random.philox")
@pytest.mark.parametrize(("counter", "key", "result"), PHILOX)
def test_philox_known_answers(run: Any, counter: list[int], key: list[int], result: list[int]) -> None:
    assert run("random.philox", np.array(counter, np.uint32), np.array(key, np.uint32)).tolist() == result


@pytest.mark.covers("random.draw")
def test_draw_is_a_function_of_seed_stream_and_counter(run: Any) -> None:
    arguments = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (2**63, 0, 0), (0, 0, 2**40)]
    seeds, streams, counters = zip(*arguments, strict=True)
    x = run.over("random.draw", np.array(seeds, np.uint64), np.array(streams, np.uint32), np.array(counters, np.uint64))
    assert len(set(x.tolist())) == len(arguments)
    assert int(x[0]) == 0xE169C58D6627E8D5


@pytest.mark.covers("random.split_mix")
def test_split_mix_equals_python_integers(run: Any) -> None:
    mask, state, expected = 2**64 - 1, 0x0123456789ABCDEF, []
    for _ in range(5):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
        expected.append(z ^ z >> 31)
    got = run.over("random.split_mix", np.full(5, 0x0123456789ABCDEF, np.uint64), np.arange(5, dtype=np.uint64))
    assert got.tolist() == expected
    assert int(run("random.split_mix", np.uint64(1234567), np.uint64(0))) == 6457827717110365317  # the authors' example


@pytest.mark.covers("mersenne_twister.mersenne_twister")
@pytest.mark.parametrize("seed", [0, 1, 5489, 2**32 - 1])
def test_mersenne_twister_equals_numpy(run: Any, seed: int) -> None:
    bits = np.random.MT19937()
    bits._legacy_seeding(seed)
    expected = bits.random_raw(1300).astype(np.uint32)
    assert np.array_equal(run("mersenne_twister.mersenne_twister", np.uint32(seed), dims=(1300,)), expected)


def test_mersenne_twister_default_seed_10000th_output(run: Any) -> None:
    x = run("mersenne_twister.mersenne_twister", np.uint32(5489), dims=(10_000,))
    assert int(x[-1]) == 4123659995  # required of std::mt19937 by ISO C++, 29.6.6


@pytest.mark.covers("morton.morton", "morton.morton_point")
def test_morton_equals_interleaved_strings(run: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 2**32, (2, 50), dtype=np.uint32)
    x[:3], y[:3] = [0, 2**32 - 1, 1], [2**32 - 1, 0, 1]
    expected = [
        int("".join(b + a for a, b in zip(f"{p:032b}", f"{q:032b}", strict=True)), 2) for p, q in zip(x, y, strict=True)
    ]
    code = run.over("morton.morton", x, y)
    assert code.tolist() == expected
    back = run.over("morton.morton_point", code)
    assert np.array_equal(back[0], x) and np.array_equal(back[1], y)


@pytest.mark.covers("morton.morton_3", "morton.morton_3_point")
def test_morton_3_equals_interleaved_strings(run: Any) -> None:
    x, y, z = np.random.default_rng(1).integers(0, 2**21, (3, 50), dtype=np.uint32)
    triples = zip(x, y, z, strict=True)
    expected = [
        int("".join(map("".join, zip(*(f"{v:021b}" for v in (c, b, a)), strict=True))), 2) for a, b, c in triples
    ]
    code = run.over("morton.morton_3", x, y, z)
    assert code.tolist() == expected
    for got, given in zip(run.over("morton.morton_3_point", code), (x, y, z), strict=True):
        assert np.array_equal(got, given)


@pytest.mark.covers("walsh_hadamard.walsh_hadamard")
@pytest.mark.parametrize("n", [2, 4, 8, 64, 256])
def test_walsh_hadamard_equals_the_matrix(run: Any, n: int) -> None:
    x = np.random.default_rng(n).integers(-(2**31), 2**31, n).astype(np.int32)
    expected = (hadamard(n, dtype=np.int64) @ x.astype(np.int64)).astype(np.int32)
    y = run("walsh_hadamard.walsh_hadamard", x, dims=(n,))
    assert np.array_equal(y, expected)
    twice = run("walsh_hadamard.walsh_hadamard", y, dims=(n,))
    assert np.array_equal(twice, x * np.int32(n))


FAULTS = [
    ("sha256.btn", "rotr(e, 25)", "rotr(e, 24)", "sha256.sha256"),
    ("sha256.btn", "0x748f82ee", "0x748f82ef", "sha256.sha256"),
    (
        "sha256.btn",
        "(n + 72) / 64 * 64 - n - 9]), length)",
        "(n + 72) / 64 * 64 - n - 9]), reverse(length))",
        "sha256.sha256",
    ),
]


@pytest.mark.parametrize(("file", "old", "new", "name"), FAULTS)
def test_planted_faults_are_seen(edited: Callable[..., Any], file: str, old: str, new: str, name: str) -> None:
    wrong = edited(file, old, new)
    data = message(80)
    assert wrong(name, as_array(data), dims=(80,)).tobytes() != hashlib.sha256(data).digest()
