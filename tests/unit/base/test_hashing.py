"""The encoding is injective and prefix free: an independent decoder reads every value back and knows where it ends."""

import hashlib

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from bittern.base.hashing import FORMAT, digest, encode
from bittern.types.dims import dim, symbol
from bittern.types.elements import F32
from bittern.types.values import tensor

plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.text(max_size=8), st.binary(max_size=8)),
    lambda inner: st.lists(inner, max_size=4).map(tuple),
    max_leaves=20,
)


def decode(data: bytes) -> tuple[object, bytes]:
    """Return the value at the start, and what follows it."""
    tag, rest = data[:1], data[1:]
    if tag in b"NTF":
        return {b"N": None, b"T": True, b"F": False}[tag], rest
    if tag == b"O":
        value, rest = decode(rest)
        return ("an object", value), rest
    length, rest = int.from_bytes(rest[:8], "little"), rest[8:]
    if tag == b"L":
        items = []
        for _ in range(length):
            item, rest = decode(rest)
            items.append(item)
        return tuple(items), rest
    payload, rest = rest[:length], rest[length:]
    assert len(payload) == length
    return {b"I": lambda: int(payload), b"S": payload.decode, b"B": lambda: payload}[tag](), rest


def same(a: object, b: object) -> bool:
    """Equality that tells 1 from True."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and a == b


@settings(deadline=None)
@given(plain, st.binary(max_size=12))
def test_every_encoding_reads_back_and_knows_its_end(value: object, tail: bytes) -> None:
    read, rest = decode(encode(value) + tail)
    assert same(read, value)
    assert rest == tail


@settings(deadline=None)
@given(plain, plain)
def test_different_values_have_different_encodings(a: object, b: object) -> None:
    assert (encode(a) == encode(b)) == same(a, b)


def test_a_shorter_format_would_be_caught() -> None:
    """Planted fault: an encoding that joins payloads without lengths does not pass the decoder's law."""

    def joined(value: object) -> bytes:
        return b"".join(map(joined, value)) if isinstance(value, tuple) else str(value).encode()

    assert joined(("a", "bc")) == joined(("ab", "c"))
    assert encode(("a", "bc")) != encode(("ab", "c"))


@pytest.mark.req("K004")
def test_the_digest_is_sha256_of_the_stated_bytes() -> None:
    length = (1).to_bytes(8, "little")
    stated = (
        b"L" + (4).to_bytes(8, "little") + b"S" + length + b"x" + b"I" + length + b"7" + b"N" + b"B" + length + b"\x01"
    )
    assert FORMAT == b"bittern/1\0"
    assert digest(("x", 7, None, b"\x01")) == hashlib.sha256(b"bittern/1\0" + stated).digest()


def test_numbers_keep_their_kind() -> None:
    assert len({encode(v) for v in (1, True, "1", b"1", (1,), ((1,),))}) == 6
    assert len({encode(v) for v in (0, False, None, "", b"", ())}) == 6
    with pytest.raises(AssertionError, match="float"):
        encode(1.0)
    with pytest.raises(AssertionError, match="list"):
        encode((1, [2]))


def test_objects_meet_no_plain_value() -> None:
    for thing in (F32, dim(3), symbol(0), tensor(F32, 3)):
        assert encode(thing) != encode(thing.tokens())
    assert encode(dim(3)) != encode(3)
    assert len({encode(x) for x in (F32, tensor(F32), (tensor(F32),), dim(0), symbol(0))}) == 5
