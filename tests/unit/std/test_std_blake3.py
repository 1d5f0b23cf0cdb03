"""BLAKE3 against recorded digests, and against the tree as the paper defines it.

The digests are those of the authors' implementation (version 1.0.11 of its Python package). In the tree the left part
is the greatest power of two of chunks that leaves something for the right part.
"""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

RECORDED = {  # length of 0, 1, ..., 250, 0, 1, ...: digest
    0: "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
    1: "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213",
    2: "7b7015bb92cf0b318037702a6cdd81dee41224f734684c2c122cd6359cb1ee63",
    63: "e9bc37a594daad83be9470df7f7b3798297c3d834ce80ba85d6e207627b7db7b",
    64: "4eed7141ea4a5cd4b788606bd23f46e212af9cacebacdc7d1f4c6dc7f2511b98",
    65: "de1e5fa0be70df6d2be8fffd0e99ceaa8eb6e8c93a63f2d8d1c30ecb6b263dee",
    1023: "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11",
    1024: "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7",
    1025: "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444",
    2048: "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a",
    3073: "7124b49501012f81cc7f11ca069ec9226cecb8a2c850cfe644e327d22d3e1cd3",
    5120: "9cadc15fed8b5d854562b26a9536d9707cadeda9b143978f319ab34230535833",
    7168: "61da957ec2499a95d6b8023e2b0e604ec7f6b50e80a9678b89d2628e99ada77a",
    8193: "bab6c09cb8ce8cf459261398d2e7aef35700bf488116ceb94a36d0f5f1b7bc3b",
}
START = [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19]
ORDER = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
WORD = 2**32 - 1


def data(n: int) -> bytes:
    """0, 1, ..., 250, 0, 1, ... of n bytes."""
    return bytes(i % 251 for i in range(n))


def compress(value: list[int], block: list[int], counter: int, length: int, flags: int) -> list[int]:
    """One compression in Python integers."""
    v = [*value, *START[:4], counter & WORD, counter >> 32, length, flags]
    columns = [(i, 4 + i, 8 + i, 12 + i) for i in range(4)]
    diagonals = [(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4) for i in range(4)]
    for _ in range(7):
        for (a, b, c, d), x, y in zip(columns + diagonals, block[::2], block[1::2], strict=True):
            for word, first, second in ((x, 16, 12), (y, 8, 7)):
                v[a] = (v[a] + v[b] + word) & WORD
                v[d] = rotated(v[d] ^ v[a], first)
                v[c] = (v[c] + v[d]) & WORD
                v[b] = rotated(v[b] ^ v[c], second)
        block = [block[i] for i in ORDER]
    return [v[i] ^ v[i + 8] for i in range(8)]


def rotated(x: int, count: int) -> int:
    """A word rotated right."""
    return (x >> count | x << 32 - count) & WORD


def tree(text: bytes, first: int = 0, root: int = 8) -> list[int]:
    """The chaining value of a subtree that starts at chunk `first`."""
    chunks = max(1, -(-len(text) // 1024))
    if chunks > 1:
        left = 1024 << (chunks - 1).bit_length() - 1
        below = tree(text[:left], first, 0) + tree(text[left:], first + left // 1024, 0)
        return compress(START, below, 0, 64, 4 | root)
    value, blocks = START, max(1, -(-len(text) // 64))
    for i in range(blocks):
        block = text[64 * i : 64 * i + 64]
        flags = (i == 0) | 2 * (i == blocks - 1) | (root if i == blocks - 1 else 0)
        value = compress(value, list(struct.unpack("<16I", block.ljust(64, b"\0"))), first, len(block), flags)
    return value


@pytest.mark.req("C011")
@pytest.mark.covers("blake3.blake3")
@pytest.mark.parametrize("n", RECORDED)
def test_recorded_digests(run: Any, n: int) -> None:
    got = run("blake3.blake3", np.frombuffer(data(n), np.uint8), dims=(n,))
    assert got.tobytes().hex() == RECORDED[n]


@pytest.mark.covers("blake3.blake3", "blake3.blake3_compress")
def test_the_tree_of_the_paper(run: Any) -> None:
    for n in (3072, 4097, 6145, 11 * 1024 + 5):
        assert n not in RECORDED or struct.pack("<8I", *tree(data(n))).hex() == RECORDED[n]
        got = run("blake3.blake3", np.frombuffer(data(n), np.uint8), dims=(n,))
        assert got.tobytes() == struct.pack("<8I", *tree(data(n)))
    block = list(range(100, 116))
    given = np.array(START, np.uint32), np.array(block, np.uint32), np.uint64(2**33 + 5), np.uint32(9), np.uint32(3)
    assert run("blake3.blake3_compress", *given).tolist() == compress(START, block, 2**33 + 5, 9, 3)


FAULTS = [
    ("rotr(b ^ c, 7)", "rotr(b ^ c, 8)", 1),
    ("select(count == 2, PARENT | ROOT, PARENT)", "PARENT | ROOT", 3073),
    ("u64(i), min(n - 1024 * i, 1024)", "0, min(n - 1024 * i, 1024)", 1025),
]


@pytest.mark.parametrize(("old", "new", "n"), FAULTS)
def test_planted_faults_are_seen(edited: Callable[..., Any], old: str, new: str, n: int) -> None:
    with pytest.raises(AssertionError):
        test_recorded_digests(edited("blake3.btn", old, new), n)
