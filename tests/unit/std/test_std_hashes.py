"""Hashes, checksums and ciphers: known answers of their authors, other libraries, and plain Python integers."""

import random
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

LENGTHS = [0, 1, 2, 3, 7, 8, 9, 15, 16, 63, 64, 65, 130]
WORD = 2**32 - 1


def message(n: int) -> bytes:
    """n bytes that depend on n."""
    return random.Random(n).randbytes(n)


def as_array(data: bytes) -> Any:
    """Bytes as u8."""
    return np.frombuffer(data, np.uint8)


def remainder(data: bytes, polynomial: int, width: int, start: int, end: int, reflected: bool) -> int:
    """A CRC by long division of the whole message as one number."""

    def mirrored(x: int, bits: int) -> int:
        return int(f"{x:0{bits}b}"[::-1], 2)

    if reflected:
        data = bytes(mirrored(b, 8) for b in data)
    number = int.from_bytes(data, "big") << width
    number ^= start << 8 * len(data)
    for place in range(number.bit_length() - 1, width - 1, -1):
        if number >> place & 1:
            number ^= (1 << width | polynomial) << place - width
    return (mirrored(number, width) if reflected else number) ^ end


@pytest.mark.covers(
    "checksums.crc32", "checksums.crc32c", "checksums.crc16", "checksums.crc16_modbus", "checksums.crc8"
)
@pytest.mark.covers("checksums.crc_reflected", "checksums.crc_table")
@pytest.mark.parametrize("n", LENGTHS)
def test_crcs(run: Any, n: int) -> None:
    data = message(n)
    x, dims = as_array(data), (n,)
    assert int(run("checksums.crc32", x, dims=dims)) == zlib.crc32(data)
    assert int(run("checksums.crc32c", x, dims=dims)) == remainder(data, 0x1EDC6F41, 32, WORD, WORD, True)
    by_table = run("checksums.crc_reflected", x, np.uint32(0xEDB88320), dims=dims)
    assert int(by_table) == zlib.crc32(data)
    for start in (0, 0xFFFF):
        got = run("checksums.crc16", x, np.uint16(start), dims=dims)
        assert int(got) == remainder(data, 0x1021, 16, start, 0, False)
    assert int(run("checksums.crc16_modbus", x, dims=dims)) == remainder(data, 0x8005, 16, 0xFFFF, 0, True)
    assert int(run("checksums.crc8", x, dims=dims)) == remainder(data, 0x07, 8, 0, 0, False)
    assert int(run("checksums.crc_table", np.uint32(0xEDB88320))[1]) == zlib.crc32(b"\x01") ^ zlib.crc32(b"\0") ^ 0


@pytest.mark.covers(
    "checksums.crc32", "checksums.crc32c", "checksums.crc16", "checksums.crc16_modbus", "checksums.crc8"
)
def test_crc_check_values_of_the_catalogue(run: Any) -> None:
    x = as_array(b"123456789")
    assert int(run("checksums.crc32", x, dims=(9,))) == 0xCBF43926
    assert int(run("checksums.crc32c", x, dims=(9,))) == 0xE3069283
    assert int(run("checksums.crc16", x, np.uint16(0), dims=(9,))) == 0x31C3
    assert int(run("checksums.crc16", x, np.uint16(0xFFFF), dims=(9,))) == 0x29B1
    assert int(run("checksums.crc16_modbus", x, dims=(9,))) == 0x4B37
    assert int(run("checksums.crc8", x, dims=(9,))) == 0xF4


@pytest.mark.covers("checksums.adler32", "checksums.fletcher16", "checksums.internet_checksum")
@pytest.mark.parametrize("n", [*LENGTHS, 6000])
def test_sums(run: Any, n: int) -> None:
    for data in (message(n), b"\xff" * n):
        x, dims = as_array(data), (n,)
        assert int(run("checksums.adler32", x, dims=dims)) == zlib.adler32(data)
        a = sum(data) % 255
        b = sum((n - i) * v for i, v in enumerate(data)) % 255
        assert int(run("checksums.fletcher16", x, dims=dims)) == b << 8 | a
        total = sum(struct.unpack(f">{(n + 1) // 2}H", data + b"\0" * (n % 2)))
        folded = (total - 1) % 0xFFFF + 1 if total else 0
        assert int(run("checksums.internet_checksum", x, dims=dims)) == 0xFFFF - folded


@pytest.mark.req("C011")
@pytest.mark.covers("checksums.fnv1a_32", "checksums.fnv1a_64")
def test_fnv1a(run: Any) -> None:
    known = {b"": (0x811C9DC5, 0xCBF29CE484222325), b"a": (0xE40C292C, 0xAF63DC4C8601EC8C),
             b"foobar": (0xBF9CF968, 0x85944171F73967E8)}  # fmt: skip
    for data, (narrow, wide) in known.items():
        assert int(run("checksums.fnv1a_32", as_array(data), dims=(len(data),))) == narrow
        assert int(run("checksums.fnv1a_64", as_array(data), dims=(len(data),))) == wide
    data, h = message(50), 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 % 2**64
    assert int(run("checksums.fnv1a_64", as_array(data), dims=(50,))) == h


@pytest.mark.req("C011")
@pytest.mark.covers("mixers.murmur_mix_32", "mixers.murmur_mix_64", "mixers.murmur_unmix_64", "mixers.place_below")
def test_finalisers(run: Any) -> None:
    x = np.random.default_rng(1).integers(0, 2**64, 500, np.uint64)

    def mixed(v: int, bits: int, shifts: tuple[int, int, int], factors: tuple[int, int]) -> int:
        v = (v ^ v >> shifts[0]) * factors[0] % 2**bits
        v = (v ^ v >> shifts[1]) * factors[1] % 2**bits
        return v ^ v >> shifts[2]

    wide = run.rows("mixers.murmur_mix_64", "u64 -> u64", x)
    factors = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)
    assert wide.tolist() == [mixed(int(v), 64, (33, 33, 33), factors) for v in x]
    assert np.array_equal(run.rows("mixers.murmur_unmix_64", "u64 -> u64", wide), x)
    narrow = run.rows("mixers.murmur_mix_32", "u32 -> u32", (x >> np.uint64(32)).astype(np.uint32))
    assert narrow.tolist() == [mixed(int(v) >> 32, 32, (16, 13, 16), (0x85EBCA6B, 0xC2B2AE35)) for v in x]
    sizes = (x >> np.uint64(40)) + np.uint64(1)
    place = run.rows("mixers.place_below", "u64, u64 -> u64", wide, sizes)
    assert place.tolist() == [int(h) * int(n) >> 64 for h, n in zip(wide, sizes, strict=True)]


@pytest.mark.covers("mixers.murmur_mix_32")
def test_murmur_answers_of_another_library(run: Any) -> None:
    """MurmurHash3 of an empty message is its finaliser of the seed: 0x514e28b7 for 1, 0x81f16f39 for all ones."""
    got = run.rows("mixers.murmur_mix_32", "u32 -> u32", np.array([0, 1, WORD], np.uint32))
    assert got.tolist() == [0, 0x514E28B7, 0x81F16F39]


PAPER_KEY = np.frombuffer(bytes(range(16)), "<u8")
SIP_2_4 = [
    0x726FDB47DD0E0E31, 0x74F839C593DC67FD, 0x0D6C8009D9A94F5A, 0x85676696D7FB7E2D, 0xCF2794E0277187B7,
    0x18765564CD99A68D, 0xCBC9466E58FEE3CE, 0xAB0200F58B01D137, 0x93F5F5799A932462, 0x9E0082DF0BA9E4B0,
]  # fmt: skip


@pytest.mark.req("C011")
@pytest.mark.covers("siphash.siphash_2_4", "siphash.siphash")
def test_siphash_2_4_answers_of_the_authors(run: Any) -> None:
    for n, expected in enumerate(SIP_2_4):
        assert int(run("siphash.siphash_2_4", as_array(bytes(range(n))), PAPER_KEY, dims=(n,))) == expected
    data = as_array(bytes(range(15)))
    assert int(run("siphash.siphash_2_4", data, PAPER_KEY, dims=(15,))) == 0xA129CA6149BE45E5  # the paper, appendix A
    given = (data, PAPER_KEY, np.uint32(2), np.uint32(4))
    assert int(run("siphash.siphash", *given, dims=(15,))) == 0xA129CA6149BE45E5


@pytest.mark.covers("siphash.siphash_1_3")
def test_siphash_1_3_equals_the_hash_of_python(run: Any) -> None:
    if sys.hash_info.algorithm != "siphash13":
        pytest.skip(f"this Python hashes with {sys.hash_info.algorithm}, not siphash13")
    lengths = [1, 2, 7, 8, 9, 16, 31, 64, 257]
    program = "import random; print(*[hash(random.Random(n).randbytes(n)) % 2**64 for n in " + str(lengths) + "])"
    environment = {"PYTHONHASHSEED": "0"}  # the key is then zero
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    for n, expected in zip(lengths, done.stdout.split(), strict=True):
        got = run("siphash.siphash_1_3", as_array(message(n)), np.zeros(2, np.uint64), dims=(n,))
        assert int(got) == int(expected)


@pytest.mark.covers("chacha20.chacha_quarter", "chacha20.chacha_block", "chacha20.chacha20")
def test_chacha20_answers_of_rfc_8439(run: Any) -> None:
    words = np.array([0x11111111, 0x01020304, 0x9B8D6F43, 0x01234567], np.uint32)
    expected = [0xEA2A92F4, 0xCB1CF8CE, 0x4581472E, 0x5881C4BB]
    assert run("chacha20.chacha_quarter", words).tolist() == expected  # 2.1.1
    key = bytes(range(32))
    nonce = np.frombuffer(bytes.fromhex("000000090000004a00000000"), "<u4")
    block = run("chacha20.chacha_block", np.frombuffer(key, "<u4"), np.uint32(1), nonce)
    assert block.tobytes()[:16].hex() == "10f1e7e4d13b5915500fdd1fa32071c4"  # 2.3.2
    text = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for "
    text += b"the future, sunscreen would be it."
    nonce = as_array(bytes.fromhex("000000000000004a00000000"))
    got = run("chacha20.chacha20", as_array(text), as_array(key), np.uint32(1), nonce, dims=(len(text),))
    assert got.tobytes().hex().startswith("6e2e359a2568f98041ba0728dd0d6981")  # 2.4.2
    assert got.tobytes().hex().endswith("874d")
    for n in (0, 1, 64, 65, 200):
        data = as_array(message(n))
        once = run("chacha20.chacha20", data, as_array(key), np.uint32(7), nonce, dims=(n,))
        assert once.tobytes() == bytes(
            a ^ b for a, b in zip(message(n), stream(key, 7, nonce.tobytes(), n), strict=True)
        )
        assert np.array_equal(run("chacha20.chacha20", once, as_array(key), np.uint32(7), nonce, dims=(n,)), data)


def stream(key: bytes, counter: int, nonce: bytes, n: int) -> bytes:
    """The key stream in Python integers."""
    out = b""
    while len(out) < n:
        start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *struct.unpack("<8I", key), counter]
        start += struct.unpack("<3I", nonce)
        v = list(start)
        for _ in range(10):
            for a, b, c, d in [(i, 4 + i, 8 + i, 12 + i) for i in range(4)] + [
                (i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4) for i in range(4)
            ]:
                for p, q, r, s in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                    v[p] = (v[p] + v[q]) & WORD
                    x = v[r] ^ v[p]
                    v[r] = (x << s | x >> 32 - s) & WORD
        out += struct.pack("<16I", *((a + b) & WORD for a, b in zip(v, start, strict=True)))
        counter += 1
    return out[:n]


FAULTS = [
    ("checksums.btn", "r >> 8 ^ lookup", "r >> 7 ^ lookup", lambda run: test_crcs(run, 9)),
    ("checksums.btn", "(b + a) % 65521", "b + a", lambda run: test_sums(run, 6000)),
    ("siphash.btn", "rotl(d, 16)", "rotl(d, 17)", test_siphash_2_4_answers_of_the_authors),
    ("chacha20.btn", "counter + b", "counter", test_chacha20_answers_of_rfc_8439),
    ("mixers.btn", "0x9cb4b2f8129337db", "0x9cb4b2f8129337dd", test_finalisers),
]


@pytest.mark.parametrize(("file", "old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(
    edited: Callable[..., Any], file: str, old: str, new: str, check: Callable[[Any], None]
) -> None:
    with pytest.raises(AssertionError):
        check(edited(file, old, new))
