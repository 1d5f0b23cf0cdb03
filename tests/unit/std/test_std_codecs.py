"""Codecs: Hamming codes exhaustively, run lengths, varints, Base64 and Base16 against Python."""

import base64
import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from std_oracle import Array


def as_array(data: bytes) -> Array:
    """Bytes as u8."""
    return np.frombuffer(data, np.uint8)


def code_words() -> list[int]:
    """Hamming(7, 4) by its parity-check matrix: the data at places 3, 5, 6, 7 and the only fitting parities."""
    words = []
    for data in range(16):
        placed = sum((data >> i & 1) << place - 1 for i, place in enumerate((3, 5, 6, 7)))
        fits = [
            word
            for parities in range(8)
            if not syndrome(word := placed | parities & 1 | (parities >> 1 & 1) << 1 | (parities >> 2) << 3)
        ]
        assert len(fits) == 1
        words += fits
    return words


def syndrome(word: int) -> int:
    """The sum without carries of the places of all ones."""
    total = 0
    for place in range(1, 8):
        total ^= place if word >> place - 1 & 1 else 0
    return total


@pytest.mark.covers("hamming_code.hamming_encode", "hamming_code.hamming_correct", "hamming_code.syndrome")
def test_hamming_7_4_corrects_every_single_error(run: Any) -> None:
    data = np.arange(16, dtype=np.uint8)
    words = run.rows("hamming_code.hamming_encode", "u4 -> u7", data)
    assert words.tolist() == code_words()
    assert min((a ^ b).bit_count() for a, b in itertools.combinations(words.tolist(), 2)) == 3
    for place in range(8):
        wrong = words ^ np.uint8(1 << place - 1 if place else 0)
        got, where = run.rows("hamming_code.hamming_correct", "u7 -> (u4, u3)", wrong)
        assert np.array_equal(got, data) and (where == place).all()
    every = np.arange(128, dtype=np.uint8)
    assert run.rows("hamming_code.syndrome", "u7 -> u3", every).tolist() == [syndrome(v) for v in range(128)]


@pytest.mark.covers("hamming_code.hamming_encode_8", "hamming_code.hamming_correct_8")
def test_hamming_8_4_detects_every_double_error(run: Any) -> None:
    data = np.arange(16, dtype=np.uint8)
    words = run.rows("hamming_code.hamming_encode_8", "u4 -> u8", data)
    assert min((a ^ b).bit_count() for a, b in itertools.combinations(words.tolist(), 2)) == 4
    assert (words & 0x7F).tolist() == code_words()
    for wrong in (0, 1, 2):
        for places in itertools.combinations(range(8), wrong):
            flipped = words ^ np.uint8(sum(1 << p for p in places))
            got, count = run.rows("hamming_code.hamming_correct_8", "u8 -> (u4, u2)", flipped)
            assert (count == wrong).all() and (wrong == 2 or np.array_equal(got, data))


@pytest.mark.covers("run_length.run_length_encode", "run_length.run_length_decode")
def test_run_lengths(run: Any) -> None:
    for n in (1, 2, 3, 6):
        x = np.array(list(itertools.product(range(3), repeat=n)), np.uint8)
        value, length, count = run.rows("run_length.run_length_encode", f"u8[{n}] -> (u8[{n}], u32[{n}], u32)", x)
        for row, v, l, k in zip(x.tolist(), value.tolist(), length.tolist(), count.tolist(), strict=True):  # noqa: E741
            groups = [(key, len(list(group))) for key, group in itertools.groupby(row)]
            assert list(zip(v[:k], l[:k], strict=True)) == groups and not any(v[k:]) and not any(l[k:])
        call = f"run_length_decode[{n + 2}](a, b, c)"
        signature = f"u8[{n}], u32[{n}], u32 -> (u8[{n + 2}], u32)"
        back, total = run.rows("run_length.run_length_decode", signature, value, length, count, call=call)
        assert np.array_equal(back[:, :n], x) and not back[:, n:].any() and (total == n).all()
    cut = run("run_length.run_length_decode", as_array(b"ab"), np.array([3, 4], np.uint32), np.uint32(2), dims=(5, 2))
    assert cut[0].tobytes() == b"aaabb" and int(cut[1]) == 7
    none = run("run_length.run_length_decode", as_array(b"ab"), np.array([3, 4], np.uint32), np.uint32(0), dims=(2, 2))
    assert none[0].tobytes() == b"\0\0" and int(none[1]) == 0


def leb128(x: int) -> bytes:
    """A number in 7-bit groups."""
    out = bytearray()
    while x >= 128:
        out.append(x & 127 | 128)
        x >>= 7
    return bytes([*out, x])


NUMBERS = [*range(300), 2**14 - 1, 2**14, 2**21 - 1, 2**28, 2**35, 2**42, 2**49, 2**56, 2**63 - 1, 2**63, 2**64 - 1]


@pytest.mark.covers("varint.varint_encode", "varint.varint_decode")
def test_varints(run: Any) -> None:
    x = np.array(NUMBERS, np.uint64)
    data, count = run.rows("varint.varint_encode", "u64 -> (u8[10], u32)", x)
    assert [d.tobytes() for d in data] == [leb128(v).ljust(10, b"\0") for v in NUMBERS]
    assert count.tolist() == [len(leb128(v)) for v in NUMBERS]
    rubbish = np.where(np.arange(10) < count[:, None], data, np.uint8(0xEE))
    back, used = run.rows("varint.varint_decode", "u8[10] -> (u64, u32)", rubbish)
    assert np.array_equal(back, x) and np.array_equal(used, count)
    bad = np.array([[0x80] * 10, [0xFF] * 9 + [2], [0xFF] * 9 + [0x81]], np.uint8)
    assert run.rows("varint.varint_decode", "u8[10] -> (u64, u32)", bad)[1].tolist() == [0, 0, 0]


@pytest.mark.covers("varint.varints_encode", "varint.varints_decode")
def test_many_varints(run: Any) -> None:
    rng = random.Random(2)
    for n in (1, 2, 30):
        numbers = [rng.randrange(2 ** rng.choice([3, 7, 8, 30, 64])) for _ in range(n)]
        data, used = run("varint.varints_encode", np.array(numbers, np.uint64), dims=(n,))
        text = b"".join(map(leb128, numbers))
        assert data.tobytes() == text.ljust(10 * n, b"\0") and int(used) == len(text)
        back, count = run("varint.varints_decode", data, used, dims=(10 * n,))
        assert int(count) == n and back.tolist() == numbers + [0] * (9 * n)
    open_end = run("varint.varints_decode", as_array(b"\x05\x80"), np.uint32(2), dims=(2,))
    assert open_end[0].tolist() == [5, 0] and int(open_end[1]) == 1


@pytest.mark.covers("varint.zigzag", "varint.zigzag_inverse")
def test_zigzag(run: Any) -> None:
    x = np.array([*range(-300, 300), 2**63 - 1, -(2**63), 2**53 + 1], np.int64)
    code = run.rows("varint.zigzag", "i64 -> u64", x)
    assert code.tolist() == [2 * v if v >= 0 else -2 * v - 1 for v in x.tolist()]
    assert np.array_equal(run.rows("varint.zigzag_inverse", "u64 -> i64", code), x)


@pytest.mark.covers("base64.base64_encode", "base64.base64_decode")
def test_base64(run: Any) -> None:
    for n in (*range(1, 12), 100):
        data = random.Random(n).randbytes(n)
        text = run("base64.base64_encode", as_array(data), dims=(n,))
        assert text.tobytes() == base64.b64encode(data)
        back, count, right = run("base64.base64_decode", text, dims=(len(text) // 4,))
        assert back.tobytes()[: int(count)] == data and int(count) == n and bool(right)
        assert not back[int(count) :].any()
    assert run("base64.base64_encode", np.zeros(0, np.uint8), dims=(0,)).size == 0


@pytest.mark.covers("base64.base64_decode")
def test_base64_refuses_what_is_no_base64(run: Any) -> None:
    wrong = [b"A===", b"====", b"AB=C", b"AA=A", b"A\nBC", b"AB!=", b"AB==AAAA", b"AAA\xff", b"-_AA", b"AB==", b"AAB="]
    for text in wrong:  # the last two set bits that nothing holds
        assert not bool(run("base64.base64_decode", as_array(text), dims=(len(text) // 4,))[2]), text
    assert bool(run("base64.base64_decode", as_array(b"AA=="), dims=(1,))[2])


@pytest.mark.covers("base64.base16_encode", "base64.base16_decode")
def test_base16(run: Any) -> None:
    data = bytes(range(256))
    text = run("base64.base16_encode", as_array(data), dims=(256,))
    assert text.tobytes() == data.hex().encode()
    for written in (data.hex(), data.hex().upper()):
        back, right = run("base64.base16_decode", as_array(written.encode()), dims=(256,))
        assert back.tobytes() == data and bool(right)
    single = np.array(list(itertools.product(range(256), b"0f")), np.uint8)
    _, right = run.rows("base64.base16_decode", "u8[2] -> (u8[1], bit)", single)
    assert right.tolist() == [chr(a) in "0123456789abcdefABCDEF" for a, _ in single.tolist()]


FAULTS = [
    ("hamming_code.btn", "0x66", "0x62", test_hamming_7_4_corrects_every_single_error),
    ("hamming_code.btn", "select(place == 0, 0, 2)", "2", test_hamming_8_4_detects_every_double_error),
    ("run_length.btn", "upper_bound(ends, i)", "upper_bound(ends, i + 1)", test_run_lengths),
    ("varint.btn", "bytes[9] <= 1", "bytes[9] <= 3", test_varints),
    ("varint.btn", "x << 1 ^ x >> 63", "x << 1 ^ x >> 62", test_zigzag),
    ("base64.btn", "all_of(known) and low == 0", "all_of(known)", test_base64_refuses_what_is_no_base64),
]


@pytest.mark.parametrize(("file", "old", "new", "check"), FAULTS)
def test_planted_faults_are_seen(
    edited: Callable[..., Any], file: str, old: str, new: str, check: Callable[[Any], None]
) -> None:
    with pytest.raises(AssertionError):
        check(edited(file, old, new))
